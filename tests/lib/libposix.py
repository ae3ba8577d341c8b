"""System calls that Python's os module lacks, and calls made as another user."""

import contextlib
import ctypes
import errno
import mmap
import os
import pickle
import platform

from libdata import blob

_libc = ctypes.CDLL(None, use_errno=True)
AT_FDCWD = -100
AT_SYMLINK_FOLLOW = 0x400
RENAME_NOREPLACE, RENAME_EXCHANGE, RENAME_WHITEOUT = 1, 2, 4
KEEP_SIZE, PUNCH_HOLE, COLLAPSE_RANGE, ZERO_RANGE = 1, 2, 8, 16
NOBODY = 65534
# What a daemon may log when it has no descriptors left; libfuse needs one for each new thread.
NONE_IS_LEFT = (
    "too many open files",
    "fuse: failed to open /dev/fuse",
    "fuse: trying to continue without -o clone_fd",
)


def _check(result):
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def renameat2(old, new, flags):
    _check(_libc.renameat2(AT_FDCWD, os.fsencode(old), AT_FDCWD, os.fsencode(new), flags))


def write_out(fd):
    """The kernel sends the dirty pages of a file and waits for the answers, which sync(2) need not
    do; the file system hears of no fsync. The first error is raised at the end: the call ends at
    one of pages that were on their way already, and leaves others to be sent."""
    before, write, after = 1, 2, 4
    zero = ctypes.c_int64(0)  # from the start, and to the end
    first = None
    for _ in range(100):
        try:
            _check(_libc.sync_file_range(fd, zero, zero, before | write | after))
            break
        except OSError as error:
            first = first or error
    if first:
        raise first


def link_descriptor(fd, new):
    """Gives the file of a descriptor a name."""
    _check(
        _libc.linkat(
            AT_FDCWD,
            os.fsencode(f"/proc/self/fd/{fd}"),
            AT_FDCWD,
            os.fsencode(new),
            AT_SYMLINK_FOLLOW,
        )
    )


class _FileHandle(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_uint),
        ("type", ctypes.c_int),
        ("bytes", ctypes.c_ubyte * 128),
    )


def handle_of(path):
    handle, mount = _FileHandle(size=128), ctypes.c_int()
    found = _libc.name_to_handle_at(
        AT_FDCWD, os.fsencode(path), ctypes.byref(handle), ctypes.byref(mount), 0
    )
    _check(found)
    return handle


def open_handle(directory, handle):
    """Needs CAP_DAC_READ_SEARCH. `directory`: a descriptor on the same file system."""
    return _check(_libc.open_by_handle_at(directory, ctypes.byref(handle), os.O_RDONLY))


def fallocate(fd, mode, offset, length):
    _check(_libc.fallocate(fd, mode, ctypes.c_int64(offset), ctypes.c_int64(length)))


def punch(fd, offset, length):
    fallocate(fd, PUNCH_HOLE | KEEP_SIZE, offset, length)


class _Iocb(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_uint64),
        ("key", ctypes.c_uint32),
        ("rw_flags", ctypes.c_uint32),
        ("opcode", ctypes.c_uint16),
        ("reqprio", ctypes.c_int16),
        ("fildes", ctypes.c_uint32),
        ("buf", ctypes.c_uint64),
        ("nbytes", ctypes.c_uint64),
        ("offset", ctypes.c_int64),
        ("unused", ctypes.c_uint64 * 2),
    )


class _IoEvent(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_uint64),
        ("obj", ctypes.c_uint64),
        ("res", ctypes.c_int64),
        ("res2", ctypes.c_int64),
    )


def write_async(fd, data, offset, flags=0):
    """A direct write by io_submit: what it returned, once it is done."""
    numbers = {"x86_64": (206, 207, 209, 208), "aarch64": (0, 1, 2, 4)}[platform.machine()]
    setup, destroy, submit, getevents = numbers
    room = mmap.mmap(-1, len(data))  # aligned
    room[:] = data
    where = (ctypes.c_char * len(data)).from_buffer(room)
    one = _Iocb(rw_flags=flags, opcode=1, fildes=fd, nbytes=len(data), offset=offset)
    one.buf = ctypes.addressof(where)
    queue, context, event = ctypes.pointer(one), ctypes.c_ulong(), _IoEvent()
    _check(_libc.syscall(setup, 1, ctypes.byref(context)))
    _check(_libc.syscall(submit, context, 1, ctypes.byref(queue)))
    _check(_libc.syscall(getevents, context, 1, 1, ctypes.byref(event), None))
    _check(_libc.syscall(destroy, context))
    return event.res


def with_gap(m):
    """The file f of a mount, half of it punched out, and how long its frame was before."""
    fd = os.open(m.mnt / "f", os.O_RDWR | os.O_CREAT)
    os.pwrite(fd, blob(5, 8 << 20, "noise"), 0)
    os.fsync(fd)
    before = os.stat(m.stored("f")).st_size
    punch(fd, 512 << 10, 4 << 20)
    return fd, before


class _Dirent(ctypes.Structure):
    _fields_ = [
        ("ino", ctypes.c_uint64),
        ("off", ctypes.c_int64),
        ("reclen", ctypes.c_uint16),
        ("type", ctypes.c_uint8),
        ("name", ctypes.c_char * 256),
    ]


class Dir:
    """A directory stream of the C library, which can go back, unlike os.scandir."""

    def __init__(self, path):
        _libc.opendir.restype = ctypes.c_void_p
        _libc.readdir.restype = ctypes.POINTER(_Dirent)
        _libc.telldir.restype = ctypes.c_long
        self.dir = ctypes.c_void_p(_libc.opendir(os.fsencode(path)))
        if not self.dir:
            _check(-1)

    def read(self):
        """The next (name, type), or None at the end."""
        ctypes.set_errno(0)
        entry = _libc.readdir(self.dir)
        if entry:
            return os.fsdecode(entry.contents.name), entry.contents.type
        _check(-1 if ctypes.get_errno() else 0)
        return None

    def names(self):
        return [entry[0] for entry in iter(self.read, None)]

    def rewind(self):
        _libc.rewinddir(self.dir)

    def tell(self):
        return _libc.telldir(self.dir)

    def seek(self, place):
        _libc.seekdir(self.dir, ctypes.c_long(place))

    def close(self):
        _libc.closedir(self.dir)


def error_of(call, *args, **kw):
    """The name of the errno with which a call fails; None if it succeeds."""
    try:
        call(*args, **kw)
    except OSError as error:
        return errno.errorcode[error.errno]
    return None


def in_child(call, uid=None, gid=None, groups=()):
    """Runs `call` in a forked child, perhaps as another user; its result, or
    its OSError raised here."""
    out, into = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            if uid is not None:
                os.setgroups(list(groups))
                os.setgid(uid if gid is None else gid)
                os.setuid(uid)
            answer = (call(), None)
        except OSError as error:
            answer = (None, error.errno)
        except BaseException as error:  # the child must never run on into the parent's test
            answer = (None, repr(error))
        with os.fdopen(into, "wb") as pipe:
            pickle.dump(answer, pipe)
        os._exit(0)
    os.close(into)
    with os.fdopen(out, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(pid, 0)
    assert answer, "the child died"
    value, error = pickle.loads(answer)
    if isinstance(error, int):
        raise OSError(error, os.strerror(error))
    assert error is None, error
    return value


def as_nobody(call, **kw):
    return in_child(call, uid=NOBODY, **kw)


def write_at(path, offset, data, flags=os.O_RDWR | os.O_CREAT):
    """One pwrite on a descriptor of its own."""
    fd = os.open(path, flags, 0o644)
    try:
        os.pwrite(fd, data, offset)
    finally:
        os.close(fd)


def sync(path):
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_synced(path, data):
    with open(path, "wb") as f:
        f.write(data)
        f.flush()
        os.fsync(f)


def read_direct(path, size):
    """The file's bytes from the daemon, past the page cache (but what is dirty
    there is flushed first)."""
    import mmap

    fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
    try:
        room = mmap.mmap(-1, (size // 4096 + 1) * 4096)
        got = 0
        while got < size:
            n = os.preadv(fd, [memoryview(room)[got : got + (1 << 20)]], got)
            if n == 0:
                break
            got += n
        return bytes(room[:got])
    finally:
        os.close(fd)


def opened_until_none_is_left(path, flags):
    """Descriptors in a mount whose daemon may have few: each takes one of its own."""
    fds = []
    with contextlib.suppress(OSError):
        while len(fds) < 100:
            fds.append(os.open(str(path).format(len(fds)), flags))
    return fds
