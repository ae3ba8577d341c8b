"""Stories played on a plain directory and on the mount: the same results, errors and attributes."""

import contextlib
import ctypes
import errno
import fcntl
import mmap
import os
import random
import resource
import signal
import stat
import struct
import subprocess
import time

import pytest

from libposix import (
    KEEP_SIZE,
    NOBODY,
    PUNCH_HOLE,
    RENAME_EXCHANGE,
    RENAME_NOREPLACE,
    ZERO_RANGE,
    Dir,
    error_of,
    fallocate,
    in_child,
    link_descriptor,
    renameat2,
    write_at,
)

STORIES = []
CAP_FSETID, CAPABILITY_VERSION = 4, 0x20080522


def drop_fsetid():
    """This process may keep set-id bits no more, whoever it is."""
    head = struct.pack("<Ii", CAPABILITY_VERSION, 0)
    sets = ctypes.create_string_buffer(
        24
    )  # effective, permitted, inheritable: the low halves, then the high ones
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.capget(head, sets) == 0
    words = list(struct.unpack("<6I", sets.raw))
    words[0] &= ~(1 << CAP_FSETID)
    assert libc.capset(head, struct.pack("<6I", *words)) == 0


def story(function):
    """A story gets an empty directory and returns or yields what both sides must agree on."""
    STORIES.append(function)
    return function


def attributes(path, times=False):
    got = os.lstat(path)
    size = got.st_size if not stat.S_ISDIR(got.st_mode) else None
    return oct(got.st_mode), got.st_nlink, got.st_uid, got.st_gid, size, got.st_rdev


def listing(top):
    return {name: attributes(top / name) for name in sorted(os.listdir(top))}


@contextlib.contextmanager
def opened(path, flags=os.O_RDWR | os.O_CREAT, mode=0o644):
    fd = os.open(path, flags, mode)
    try:
        yield fd
    finally:
        os.close(fd)


def try_open(path, *arguments, **kw):
    return error_of(lambda: os.close(os.open(path, *arguments, **kw)))


class Ticks:
    """Which times move: each look tells which of atime, mtime, ctime are newer than before."""

    def __init__(self):
        self.before = {}

    def __call__(self, path):
        got = os.lstat(path)
        now = got.st_mtime_ns, got.st_ctime_ns
        old = self.before.get(path, now)
        self.before[path] = now
        time.sleep(0.02)  # coarser than the clock of time stamps
        return ["same" if a == b else "newer" if a > b else "older" for a, b in zip(now, old)]


@story
def errors_of_paths(top):
    (top / "f").write_bytes(b"x")
    (top / "d").mkdir()
    os.symlink("loop", top / "loop")
    os.symlink("nowhere", top / "dangling")
    for name in (
        "f/x",
        "f/",
        "nothing/x",
        "loop",
        "loop/x",
        "dangling",
        "d/",
        "",
        "n" * 247,
        "n" * 256,
        "d/../f",
        "f/..",
    ):
        path = f"{top}/{name}"
        yield (
            name[:20],
            len(name),
            error_of(os.stat, path),
            error_of(os.lstat, path),
            try_open(path, os.O_RDONLY),
        )
        yield error_of(os.rmdir, path) if "d" not in name and name else None
    for flags in (
        os.O_CREAT | os.O_EXCL,
        os.O_DIRECTORY,
        os.O_NOFOLLOW,
        os.O_CREAT | os.O_DIRECTORY,
        os.O_WRONLY,
        os.O_TRUNC | os.O_WRONLY,
        os.O_PATH,
    ):
        for name in ("f", "d", "dangling", "loop"):
            if flags & os.O_CREAT and name == "dangling" and not flags & os.O_EXCL:
                continue
            yield flags, name, error_of(lambda: os.close(os.open(top / name, flags, 0o600)))
    yield try_open(top / "d" / "x" / "y", os.O_CREAT | os.O_RDWR)
    yield listing(top)


@story
def creating(top):
    old = os.umask(0o027)
    try:
        for mode in (0o666, 0o777, 0o6755, 0o1666, 0):
            with opened(top / f"file{mode:o}", os.O_CREAT | os.O_RDWR | os.O_EXCL, mode) as fd:
                os.write(fd, b"writes whatever its mode")
            os.mkdir(top / f"dir{mode:o}", mode)
            os.mkfifo(top / f"fifo{mode:o}", mode)
            os.mknod(top / f"node{mode:o}", stat.S_IFREG | mode)
    finally:
        os.umask(old)
    for name in os.listdir(top):
        if name.startswith("node"):
            assert (top / name).read_bytes() == b""
    return listing(top)


@story
def who_owns_what_is_made(top):
    os.chmod(top, 0o777)
    os.mkdir(top / "group")
    os.chown(top / "group", 0, 4321)
    os.chmod(top / "group", 0o2777)
    os.mkdir(top / "sticky")
    os.chmod(top / "sticky", 0o1777)
    (top / "sticky/roots").write_bytes(b"")
    (top / "sticky/roots-dir").mkdir()

    def make():
        for where in ("group", "sticky", "."):
            (top / where / "f").write_bytes(b"x")
            with opened(top / where / "sgid", os.O_CREAT | os.O_RDWR, 0o2775):
                pass
            os.mkdir(top / where / "d")
            os.symlink("x", top / where / "l")
            os.mkfifo(top / where / "p", 0o666)
            os.link(top / where / "f", top / where / "hard")
        return [
            error_of(os.unlink, top / "sticky/roots"),
            error_of(os.rmdir, top / "sticky/roots-dir"),
            error_of(os.rename, top / "sticky/roots", top / "sticky/mine"),
            error_of(os.rename, top / "sticky/f", top / "sticky/roots"),
            error_of(os.rename, top / "sticky/f", top / "sticky/g"),
        ]

    yield in_child(make, uid=NOBODY)
    yield [listing(top / where) for where in ("group", "sticky", ".")]
    yield in_child(lambda: error_of(os.link, top / "sticky/roots", top / "stolen"), uid=NOBODY)
    yield (
        error_of(os.rename, f"{top}/.", f"{top}/x"),
        error_of(os.rename, f"{top}/group/..", f"{top}/x"),
        error_of(os.rmdir, f"{top}/."),
    )


@story
def set_id_bits(top):
    os.chmod(top, 0o777)
    path = top / "program"

    def fresh(mode):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        path.write_bytes(b"x" * 10_000)
        os.chown(path, NOBODY, NOBODY)
        os.chmod(path, mode)

    def map_write():
        with opened(path, os.O_RDWR) as fd, mmap.mmap(fd, 4096) as view:
            view[5] = 1
            view.flush()

    def punch():
        with opened(path, os.O_RDWR) as fd:
            fallocate(fd, PUNCH_HOLE | KEEP_SIZE, 0, 4096)

    def allocate():
        with opened(path, os.O_RDWR) as fd:
            fallocate(fd, 0, 0, 20_000)

    def copy():
        with opened(path, os.O_RDWR) as fd:
            os.copy_file_range(fd, fd, 100, 0, 5000)

    changes = {
        "write": lambda: write_at(path, 5, b"y", os.O_RDWR),
        "truncate": lambda: os.truncate(path, 5),
        "open": lambda: os.close(os.open(path, os.O_WRONLY | os.O_TRUNC)),
        "create": lambda: os.close(os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CREAT, 0o600)),
        "same": lambda: os.truncate(path, 10_000),
        "chown": lambda: os.chown(path, NOBODY, NOBODY),
        "nothing": lambda: os.chown(path, -1, -1),
        "chmod": lambda: os.chmod(path, 0o6777),
        "punch": punch,
        "allocate": allocate,
        "copy": copy,
        "map": map_write,
        "append": lambda: write_at(path, 0, b"y", os.O_WRONLY | os.O_APPEND),
        "utime": lambda: os.utime(path),
        "link": lambda: os.link(path, top / "second"),
        "xattr": lambda: os.setxattr(path, "user.x", b"y"),
    }
    for what, change in changes.items():
        for mode in (0o6777, 0o2767, 0o6711, 0o4644):
            for uid in (NOBODY, 0):
                fresh(mode)
                error = in_child(lambda: error_of(change), uid=uid) if uid else error_of(change)
                yield what, oct(mode), uid, error, oct(os.stat(path).st_mode)
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(top / "second")


@story
def chown_and_chmod_rights(top):
    os.chmod(top, 0o777)
    path = top / "f"
    path.write_bytes(b"")
    for owner, group in ((NOBODY, NOBODY), (0, NOBODY), (NOBODY, 0), (1234, 1234)):
        for mode in (0o644, 0o2755):
            for to in ((-1, 777), (-1, NOBODY), (0, -1), (NOBODY, -1), (-1, -1)):
                os.chown(path, owner, group)
                os.chmod(path, mode)
                yield (
                    in_child(lambda: error_of(os.chown, path, *to), uid=NOBODY, groups=[777]),
                    attributes(path),
                )
            os.chown(path, owner, group)
            yield in_child(lambda: error_of(os.chmod, path, 0o6777), uid=NOBODY), attributes(path)


@story
def which_times_move(top):
    look, path = Ticks(), top / "f"
    path.write_bytes(b"x" * 9000)
    os.mkdir(top / "d")
    fd = os.open(path, os.O_RDWR)

    def step(what, call):
        error = error_of(call)
        return what, error, look(path), look(top), look(top / "d")

    yield step("nothing", lambda: None)
    yield step("nothing", lambda: None)
    yield step("write", lambda: os.pwrite(fd, b"y", 0))
    yield step("read", lambda: os.pread(fd, 10, 0))
    yield step("fsync", lambda: os.fsync(fd))
    yield step("write nothing", lambda: os.pwrite(fd, b"", 0))
    yield step("ftruncate", lambda: os.ftruncate(fd, 5))
    yield step("ftruncate to the same", lambda: os.ftruncate(fd, 5))
    yield step("truncate", lambda: os.truncate(path, 6000))
    yield step("punch", lambda: fallocate(fd, PUNCH_HOLE | KEEP_SIZE, 0, 4096))
    yield step("extend", lambda: fallocate(fd, 0, 0, 9000))
    yield step("zero", lambda: fallocate(fd, ZERO_RANGE, 0, 4096))
    yield step("chmod", lambda: os.chmod(path, 0o600))
    yield step("chown", lambda: os.chown(path, 1, 1))
    yield step("setxattr", lambda: os.setxattr(path, "user.x", b"1"))
    yield step("removexattr", lambda: os.removexattr(path, "user.x"))
    yield step("link", lambda: os.link(path, top / "g"))
    yield step("rename", lambda: os.rename(top / "g", top / "h"))
    yield step("move", lambda: os.rename(top / "h", top / "d/h"))
    yield step("unlink", lambda: os.unlink(top / "d/h"))
    yield step("open", lambda: os.close(os.open(path, os.O_RDONLY)))
    yield step("open to truncate", lambda: os.close(os.open(path, os.O_WRONLY | os.O_TRUNC)))
    yield step("and once more", lambda: os.close(os.open(path, os.O_WRONLY | os.O_TRUNC)))
    yield step("create", lambda: (top / "d/new").write_bytes(b""))
    yield step("mkdir", lambda: os.mkdir(top / "d/sub"))
    yield step("rmdir", lambda: os.rmdir(top / "d/sub"))
    yield step("symlink", lambda: os.symlink("x", top / "d/l"))
    yield step(
        "dirty, then rename",
        lambda: (os.pwrite(fd, b"z", 3), os.rename(path, top / "x"), os.rename(top / "x", path)),
    )
    yield step("close", lambda: os.close(fd))


@story
def setting_times(top):
    path = top / "f"
    path.write_bytes(b"x")
    fd = os.open(path, os.O_RDWR)
    for ns in (
        (1, 2),
        (10**18 + 123456789, 5 * 10**17 + 1),
        (0, 0),
        (2**33 * 10**9, 2**32 * 10**9 + 999_999_999),
        (-5 * 10**9, -1),
    ):
        os.utime(path, ns=ns)
        yield os.stat(path).st_atime_ns, os.stat(path).st_mtime_ns
        os.pwrite(fd, b"y", 0)
        os.utime(fd, ns=ns)
        os.fsync(fd)
        yield os.stat(path).st_mtime_ns
        os.utime(path, ns=ns)
    os.close(fd)
    yield os.stat(path).st_mtime_ns
    os.symlink("f", top / "l")
    os.utime(top / "l", ns=(3, 4), follow_symlinks=False)
    yield os.lstat(top / "l").st_mtime_ns, os.stat(path).st_mtime_ns
    os.chmod(top, 0o777)
    os.chmod(path, 0o666)
    yield in_child(
        lambda: [
            error_of(os.utime, path),
            error_of(os.utime, path, (1, 1)),
            error_of(os.utime, path, ns=(5, 6)),
        ],
        uid=NOBODY,
    )
    os.chmod(path, 0o644)
    yield in_child(lambda: error_of(os.utime, path), uid=NOBODY)


@story
def renames(top):
    def fresh(base):
        base.mkdir()
        (base / "f").touch()
        (base / "g").touch()
        os.link(base / "f", base / "f2")
        for name in ("empty", "full", "full/sub"):
            (base / name).mkdir()
        (base / "full/x").touch()
        os.symlink("f", base / "l")

    names = ["f", "f2", "g", "empty", "full", "full/sub", "full/x", "l", "none", "f/x"]
    for flags in (0, RENAME_NOREPLACE, RENAME_EXCHANGE, RENAME_NOREPLACE | RENAME_EXCHANGE, 64):
        some = names if not flags else names[:8:2] + names[8:] if flags < 3 else names[:2]
        for old in some:
            for new in some:
                base = top / f"{flags}-{some.index(old)}-{some.index(new)}"
                fresh(base)
                error = error_of(renameat2, f"{base}/{old}", f"{base}/{new}", flags)
                yield (
                    flags,
                    old,
                    new,
                    error,
                    {str(p.relative_to(base)): attributes(p) for p in sorted(base.rglob("*"))},
                )


@story
def links_and_symlinks(top):
    (top / "f").write_bytes(b"x")
    (top / "d").mkdir()
    os.symlink("f", top / "l")
    os.mkfifo(top / "p")
    for source in ("f", "d", "l", "p", "none"):
        for target in ("new", "f", "d", "none/x"):
            yield (
                source,
                target,
                error_of(os.link, top / source, top / target, follow_symlinks=False),
                listing(top),
            )
            with contextlib.suppress(FileNotFoundError):
                os.unlink(top / "new")
    for length in (1, 255, 1000, 4095):
        os.symlink("x" * length, top / "long")
        yield os.lstat(top / "long").st_size, len(os.readlink(top / "long"))
        os.unlink(top / "long")
    yield (
        error_of(os.symlink, "x" * 4096, top / "long"),
        error_of(os.symlink, "", top / "long"),
        error_of(os.readlink, top / "f"),
    )
    yield (
        error_of(os.symlink, "x", top / "f"),
        error_of(os.unlink, top / "d"),
        error_of(os.rmdir, top / "f"),
    )
    many = 300
    for n in range(many):
        os.link(top / "f", top / f"f{n}")
    yield os.stat(top / "f").st_nlink
    for n in range(many):
        os.unlink(top / f"f{n}")
    yield os.stat(top / "f").st_nlink


@story
def unlinked_but_open(top):
    with opened(top / "f") as fd:
        os.write(fd, b"12345")
        os.unlink(top / "f")
        yield os.fstat(fd).st_nlink, os.fstat(fd).st_size, error_of(os.stat, top / "f")
        os.pwrite(fd, b"abc", 100_000)
        os.ftruncate(fd, 100_002)
        os.fchmod(fd, 0o604)
        os.fchown(fd, 7, 8)
        os.utime(fd, ns=(5, 6))
        got = os.fstat(fd)
        yield oct(got.st_mode), got.st_uid, got.st_gid, got.st_mtime_ns, got.st_size
        yield os.pread(fd, 5, 0), os.pread(fd, 100, 99_999)
        with opened(f"/proc/self/fd/{fd}", os.O_RDONLY) as again:
            yield os.pread(again, 5, 0), os.fstat(again).st_nlink
        (top / "f").write_bytes(b"another")
        yield os.pread(fd, 5, 0), (top / "f").read_bytes()
        os.setxattr(fd, "user.x", b"y")
        yield os.getxattr(fd, "user.x")
        yield error_of(link_descriptor, fd, top / "g")
    with opened(top / "d1", os.O_RDONLY) if (top / "d1").mkdir() else contextlib.nullcontext():
        pass
    fd = os.open(top / "d1", os.O_RDONLY)
    os.rmdir(top / "d1")
    yield (
        os.listdir(fd),
        os.fstat(fd).st_nlink,
        error_of(lambda: os.open("x", os.O_CREAT | os.O_RDWR, dir_fd=fd)),
    )
    os.close(fd)


@story
def allocating(top):
    known = (
        0,
        KEEP_SIZE,
        PUNCH_HOLE,
        PUNCH_HOLE | KEEP_SIZE,
        ZERO_RANGE,
        ZERO_RANGE | KEEP_SIZE,
        PUNCH_HOLE | ZERO_RANGE | KEEP_SIZE,
    )
    for mode in known:
        for offset, length in (
            (0, 0),
            (-1, 5),
            (5, -1),
            (0, 4096),
            (1000, 100_000),
            (50_000, 1),
            (100_000, 50_000),
            (2**62, 2**62),
            (2**63 - 5, 3),
        ):
            with opened(top / "f") as fd:
                os.pwrite(fd, b"data" * 20_000, 0)
                error = error_of(fallocate, fd, mode, offset, length)
                big = offset > 2**50 and error in (
                    "EFBIG",
                    "ENOSPC",
                    None,
                )  # whose limit is met first is not the point
                yield (
                    mode,
                    offset,
                    length,
                    error if not big else "big",
                    os.fstat(fd).st_size if not big else 0,
                )
                if not big:
                    yield os.pread(fd, 200_000, 0)
            os.unlink(top / "f")
    with opened(top / "f") as fd, opened(top / "f", os.O_RDONLY) as readonly:
        yield error_of(fallocate, readonly, 0, 0, 10), error_of(fallocate, fd, 4096, 0, 10)
    fd = os.open(top, os.O_RDONLY)
    yield error_of(fallocate, fd, 0, 0, 10)
    os.close(fd)


@story
def offsets(top):
    with opened(top / "f") as fd:
        yield (
            error_of(os.pwrite, fd, b"x", -1),
            error_of(os.pread, fd, 1, -1),
            error_of(os.lseek, fd, -1, os.SEEK_SET),
        )
        yield error_of(os.ftruncate, fd, -1), os.pread(fd, 10, 2**62), error_of(os.lseek, fd, 0, 9)
        os.write(fd, b"12345")
        yield (
            os.lseek(fd, -2, os.SEEK_END),
            os.read(fd, 10),
            os.read(fd, 10),
            os.lseek(fd, 10, os.SEEK_CUR),
            os.read(fd, 1),
        )
        os.write(fd, b"end")
        yield os.fstat(fd).st_size, os.pread(fd, 100, 0)
        yield (
            error_of(os.lseek, fd, 100, os.SEEK_DATA),
            error_of(os.lseek, fd, 100, os.SEEK_HOLE),
            os.lseek(fd, 3, os.SEEK_DATA),
        )
        yield error_of(os.lseek, fd, -1, os.SEEK_DATA)
        yield (
            os.preadv(fd, [bytearray(3), bytearray(4)], 1),
            os.pwritev(fd, [b"ab", b"", b"cde"], 4),
            os.pread(fd, 100, 0),
        )
    with opened(top / "f", os.O_WRONLY) as fd:
        yield error_of(os.pread, fd, 1, 0)
    with opened(top / "f", os.O_RDONLY) as fd:
        yield error_of(os.pwrite, fd, b"x", 0), error_of(os.ftruncate, fd, 0)
    with opened(top / "f", os.O_WRONLY | os.O_APPEND) as fd:
        yield (
            os.pwrite(fd, b"appended", 0),
            os.lseek(fd, 0, os.SEEK_CUR),
            os.write(fd, b"!"),
            os.lseek(fd, 0, os.SEEK_CUR),
        )
    yield (
        (top / "f").read_bytes(),
        error_of(os.truncate, top / "f", -1),
        error_of(os.truncate, top, 5),
    )


@story
def file_size_limit(top):
    def limited():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
        with opened(top / "f") as fd:
            first = os.pwrite(fd, b"x" * 20_000, 0)
            return (
                first,
                error_of(os.pwrite, fd, b"x", 10_000),
                error_of(os.ftruncate, fd, 10_001),
                os.pwrite(fd, b"yy", 9_999),
                error_of(fallocate, fd, 0, 0, 10_001),
                error_of(os.ftruncate, fd, 10_000),
                os.fstat(fd).st_size,
            )

    yield in_child(limited)
    yield os.stat(top / "f").st_size

    def signalled():
        hits = []
        signal.signal(signal.SIGXFSZ, lambda *_: hits.append(1))
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
        with opened(top / "g") as fd:
            return error_of(os.pwrite, fd, b"x", 20_000), hits

    yield in_child(signalled)


@story
def extended_attributes(top):
    (top / "f").write_bytes(b"x")
    (top / "d").mkdir()
    os.symlink("f", top / "l")
    os.mkfifo(top / "p")
    for name in ("f", "d"):
        path = top / name
        yield (
            error_of(os.getxattr, path, "user.none"),
            error_of(os.removexattr, path, "user.none"),
            os.listxattr(path),
        )
        yield (
            error_of(os.setxattr, path, "user.a", b"1", os.XATTR_REPLACE),
            error_of(os.setxattr, path, "user.a", b"1", os.XATTR_CREATE),
        )
        yield (
            error_of(os.setxattr, path, "user.a", b"2", os.XATTR_CREATE),
            error_of(os.setxattr, path, "user.a", b"3", os.XATTR_REPLACE),
        )
        yield os.getxattr(path, "user.a"), os.listxattr(path)
        yield (
            error_of(os.setxattr, path, "user." + "n" * 250, b"1"),
            error_of(os.setxattr, path, "user." + "n" * 251, b"1"),
        )
        yield (
            error_of(os.setxattr, path, "user.", b"1"),
            error_of(os.setxattr, path, "", b"1"),
            error_of(os.setxattr, path, "other.x", b"1"),
        )
        yield (
            error_of(os.setxattr, path, "user.big", b"x" * 65_537),
            error_of(os.setxattr, path, "user.empty", b""),
        )
        yield (
            os.getxattr(path, "user.empty"),
            error_of(os.setxattr, path, "trusted.t", b"root's"),
            sorted(os.listxattr(path)),
        )
        yield in_child(
            lambda: (
                error_of(os.getxattr, path, "trusted.t"),
                error_of(os.setxattr, path, "user.b", b""),
            ),
            uid=NOBODY,
        )
        yield in_child(lambda: sorted(os.listxattr(path)), uid=NOBODY)
        os.removexattr(path, "user.a")
        yield error_of(os.getxattr, path, "user.a")
        yield (
            error_of(os.getxattr, path, "security.capability"),
            error_of(os.getxattr, path, "system.other"),
        )
    for name in ("l", "p"):
        yield (
            error_of(os.setxattr, top / name, "user.x", b"1", follow_symlinks=False),
            error_of(os.getxattr, top / name, "user.x", follow_symlinks=False),
            os.listxattr(top / name, follow_symlinks=False),
        )
    os.chmod(top / "f", 0o444)
    yield in_child(lambda: error_of(os.setxattr, top / "f", "user.c", b""), uid=NOBODY)


@story
def set_id_bits_among_many_writes(top):
    """What was found out about a file for its first writes holds until its mode changes."""
    os.chmod(top, 0o777)
    path = top / "program"

    def write_often(fd):
        for at in range(200):
            os.pwrite(fd, b"y", at)
        return oct(os.stat(path).st_mode)

    def by_nobody():
        with opened(path, mode=0o777) as fd:
            for mode in (0o4755, 0o2755, 0o6711, 0o2744, 0o755):
                os.chmod(path, mode)
                yield write_often(fd), os.ftruncate(fd, 300), oct(os.stat(path).st_mode)
                os.chmod(path, mode)
                yield os.ftruncate(fd, 200), write_often(fd)
                os.chmod(path, mode)
                yield (
                    os.fsync(fd),
                    oct(os.stat(path).st_mode),
                    os.lseek(fd, 0, 2),
                    os.write(fd, b"y"),
                    oct(os.stat(path).st_mode),
                )

    yield in_child(lambda: list(by_nobody()), uid=NOBODY)
    os.chmod(path, 0o6755)
    with opened(path) as fd:
        yield write_often(fd)
        yield in_child(lambda: write_often(fd), uid=NOBODY), write_often(fd)
        os.chmod(path, 0o6755)
        yield in_child(lambda: (drop_fsetid(), write_often(fd))), write_often(fd)


@story
def set_id_bits_of_root_without_the_right_to_keep_them(top):
    path = top / "program"
    path.write_bytes(b"x" * 10_000)

    def change(call):
        drop_fsetid()
        with opened(path) as fd:
            return error_of(call, fd)

    for call in (
        lambda fd: os.pwrite(fd, b"y", 0),
        lambda fd: os.ftruncate(fd, 9_000),
        lambda fd: fallocate(fd, 0, 0, 20_000),
        lambda fd: fallocate(fd, PUNCH_HOLE | KEEP_SIZE, 0, 4096),
        lambda fd: os.copy_file_range(fd, fd, 100, 0, 5000),
        lambda fd: os.close(os.open(path, os.O_WRONLY | os.O_TRUNC)),
    ):
        for mode, group in (
            (0o6755, 0),
            (0o2745, 0),
            (0o2767, 0),
            (0o2767, NOBODY),
            (0o2755, NOBODY),
            (0o755, 0),
        ):
            os.chown(path, 0, group)
            os.chmod(path, mode)
            yield in_child(lambda: change(call)), oct(os.stat(path).st_mode)


CAPABILITY = struct.pack("<IIIII", 0x2000001, 1 << 10, 0, 0, 0)


@story
def file_capabilities(top):
    """A write takes them away, as it does set-id bits."""
    path = top / "f"

    def on_descriptor(call):
        with opened(path, os.O_RDWR) as fd:
            call(fd)

    for change in (
        lambda: write_at(path, 0, b"y", os.O_RDWR),
        lambda: os.truncate(path, 1),
        lambda: path.write_bytes(b"y"),
        lambda: os.chown(path, 5, 5),
        lambda: os.chmod(path, 0o755),
        lambda: os.chown(path, -1, -1),
        lambda: on_descriptor(lambda fd: os.ftruncate(fd, 200)),
        lambda: on_descriptor(lambda fd: fallocate(fd, 0, 0, 400)),
        lambda: on_descriptor(lambda fd: fallocate(fd, PUNCH_HOLE | KEEP_SIZE, 0, 10)),
        lambda: on_descriptor(lambda fd: os.copy_file_range(fd, fd, 10, 0, 20)),
        lambda: on_descriptor(os.fsync),
    ):
        path.write_bytes(b"x" * 100)
        os.setxattr(path, "security.capability", CAPABILITY)
        yield os.getxattr(path, "security.capability") == CAPABILITY
        change()
        yield error_of(os.getxattr, path, "security.capability")
        os.unlink(path)


@story
def file_capabilities_among_many_writes(top):
    path = top / "f"
    with opened(path) as fd:
        for _ in range(3):
            for at in range(100):
                os.pwrite(fd, b"x", at)
            os.setxattr(path, "security.capability", CAPABILITY)
            yield error_of(os.getxattr, path, "security.capability")
            os.pwrite(fd, b"x", 50)
            yield error_of(os.getxattr, path, "security.capability")
            os.setxattr(fd, "security.capability", CAPABILITY)
            yield os.getxattr(fd, "security.capability") == CAPABILITY
            os.fsync(fd)
            yield error_of(os.getxattr, path, "security.capability")
            os.ftruncate(fd, 50)
            yield error_of(os.getxattr, path, "security.capability")


@story
def appending_processes(top):
    path = top / "log"

    def run(letter):
        with opened(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND) as fd:
            for _ in range(50):
                os.write(fd, letter * 99 + b"\n")

    children = []
    for letter in (b"a", b"b", b"c"):
        pid = os.fork()
        if pid == 0:
            run(letter)
            os._exit(0)
        children.append(pid)
    for pid in children:
        os.waitpid(pid, 0)
    lines = path.read_bytes().split(b"\n")
    return (
        len(lines),
        all(line == line[:1] * 99 for line in lines[:-1]),
        sorted({line[:1] for line in lines}),
    )


@story
def programs_run(top):
    source = "/bin/true"
    with open(source, "rb") as f:
        (top / "true").write_bytes(f.read())
    yield error_of(lambda: subprocess.run([top / "true"]))
    os.chmod(top / "true", 0o755)
    yield subprocess.run([top / "true"]).returncode
    (top / "script").write_text("#!/bin/sh\nsleep 5 & echo $!; exec sleep 5\n")
    os.chmod(top / "script", 0o755)
    with open("/bin/sleep", "rb") as f:
        (top / "sleep").write_bytes(f.read())
    os.chmod(top / "sleep", 0o755)
    child = subprocess.Popen([top / "sleep", "60"])
    try:
        yield try_open(top / "sleep", os.O_WRONLY), error_of(os.truncate, top / "sleep", 0)
        os.rename(top / "sleep", top / "moved")
        os.unlink(top / "moved")
        yield child.poll()
    finally:
        child.kill()
        child.wait()
    fd = os.open(top / "true", os.O_RDWR)
    yield error_of(lambda: subprocess.run([top / "true"]))
    os.close(fd)
    yield subprocess.run([top / "true"]).returncode


@story
def locks(top):
    with opened(top / "f") as fd, opened(top / "f") as other:
        fcntl.flock(fd, fcntl.LOCK_SH)
        fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)
        yield error_of(fcntl.flock, other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(fd, fcntl.LOCK_UN)
        yield (
            error_of(fcntl.flock, other, fcntl.LOCK_EX | fcntl.LOCK_NB),
            error_of(fcntl.flock, fd, fcntl.LOCK_SH | fcntl.LOCK_NB),
        )
    with opened(top / "f") as fd:
        fcntl.lockf(fd, fcntl.LOCK_EX, 10, 5)

        def child():
            with opened(top / "f") as mine:
                return [
                    error_of(fcntl.lockf, mine, fcntl.LOCK_EX | fcntl.LOCK_NB, n, at)
                    for n, at in ((5, 0), (6, 0), (1, 14), (0, 15))
                ]

        yield in_child(child)
        os.close(os.open(top / "f", os.O_RDONLY))  # POSIX: that frees the locks of the process
        yield in_child(child)


@story
def shared_maps(top):
    size = 300_000
    path = top / "f"
    path.write_bytes(b"." * size)
    with opened(path) as fd, mmap.mmap(fd, size) as view, opened(path) as other:
        view[100_000:100_005] = b"mmap!"
        yield os.pread(other, 10, 99_998)
        os.pwrite(other, b"pwrite", 200_000)
        yield view[199_998:200_010]
        view.flush()
        os.fsync(other)
        os.ftruncate(fd, 100_002)
        yield view[100_000:100_010], os.pread(other, 10, 100_000)
        os.ftruncate(fd, size)
        yield view[99_998:100_010], os.pread(other, 12, 99_998)
        view[size - 1] = 65
    yield path.read_bytes() == b"." * 100_000 + b"mm" + bytes(size - 100_003) + b"A"


@story
def reading_directories(top):
    for n in range(500):
        (top / f"f{n}").touch()
    os.symlink("f1", top / "link")
    (top / "dir").mkdir()
    os.mkfifo(top / "fifo")
    d = Dir(top)
    types = dict(iter(d.read, None))
    yield sorted(types.items())
    d.rewind()
    first = [d.read()[0] for _ in range(200)]
    place = d.tell()
    next_name = d.read()
    for name in first[::2]:  # entries before and behind that place come and go
        if name not in (".", "..", "dir"):
            os.unlink(top / name)
    for n in range(100):
        (top / f"new{n}").touch()
    rest = d.names()
    d.seek(place)
    again = d.names()
    yield (
        again[:1] == [next_name[0]],
        [n for n in rest if not n.startswith("new")]
        == [n for n in again[1:] if not n.startswith("new")],
    )
    yield not set(first) & set(again), len(rest) == len(set(rest))
    d.close()
    yield sorted(os.listdir(top)) == sorted(e.name for e in os.scandir(top))
    yield os.stat(top).st_nlink, os.stat(top / "dir").st_nlink
    with os.scandir(top) as entries:
        yield all(e.inode() == e.stat(follow_symlinks=False).st_ino for e in entries)


@story
def permissions(top):
    os.chmod(top, 0o777)
    for mode in (0o000, 0o400, 0o200, 0o100, 0o600, 0o755, 0o040, 0o004):
        path, directory = top / f"f{mode:o}", top / f"d{mode:o}"
        path.write_bytes(b"x")
        directory.mkdir()
        (directory / "in").write_bytes(b"x")
        for owner in (NOBODY, 1234):
            os.chmod(path, 0o644)
            os.chmod(directory, 0o755)
            os.chown(path, owner, owner)
            os.chown(directory, owner, owner)
            os.chmod(path, mode)
            os.chmod(directory, mode)

            def look():
                return (
                    [
                        error_of(lambda: os.close(os.open(path, flags)))
                        for flags in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_RDONLY | os.O_TRUNC)
                    ]
                    + [
                        error_of(os.listdir, directory),
                        error_of(os.stat, directory / "in"),
                        try_open(directory / "new", os.O_CREAT | os.O_RDWR),
                        error_of(os.unlink, directory / "none"),
                        error_of(os.rename, directory / "in", directory / "in"),
                        error_of(os.chdir, directory),
                    ]
                    + [
                        os.access(p, how)
                        for p in (path, directory)
                        for how in (os.R_OK, os.W_OK, os.X_OK)
                    ]
                    + [error_of(os.truncate, path, 0)]
                )

            yield oct(mode), owner, in_child(look, uid=NOBODY)


@story
def statfs(top):
    got = os.statvfs(top)
    (top / "big").write_bytes(os.urandom(4 << 20))
    with opened(top / "big") as fd:
        os.fsync(fd)
    return (
        got.f_bsize > 0,
        got.f_frsize > 0,
        got.f_bavail <= got.f_bfree <= got.f_blocks,
        got.f_files >= got.f_ffree,
    )


@story
def descriptors_of_directories(top):
    fd = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
    yield (
        error_of(os.read, fd, 10),
        error_of(os.write, fd, b"x"),
        error_of(os.pread, fd, 1, 0),
        error_of(os.ftruncate, fd, 0),
        error_of(os.fsync, fd),
    )
    os.mkdir("d", dir_fd=fd)
    os.close(os.open("d/f", os.O_CREAT | os.O_RDWR, dir_fd=fd))
    os.rename("d/f", "g", src_dir_fd=fd, dst_dir_fd=fd)
    yield (
        sorted(os.listdir(fd)),
        try_open("g/x", os.O_RDONLY, dir_fd=fd),
        try_open(top, os.O_WRONLY),
        try_open(top, os.O_RDWR),
    )
    os.close(fd)


@story
def special_files(top):
    os.mkfifo(top / "p", 0o640)
    os.mknod(top / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    os.mknod(top / "b", stat.S_IFBLK | 0o600, os.makedev(7, 200))
    os.mknod(top / "s", stat.S_IFSOCK | 0o600)
    yield listing(top)
    yield try_open(top / "p", os.O_WRONLY | os.O_NONBLOCK), try_open(top / "s", os.O_RDONLY)
    os.chmod(top / "p", 0o600)
    os.rename(top / "p", top / "q")
    os.link(top / "q", top / "r")
    os.utime(top / "s", ns=(1, 2))
    yield listing(top), os.stat(top / "s").st_mtime_ns
    yield in_child(
        lambda: error_of(os.mknod, top / "x", stat.S_IFCHR | 0o666, os.makedev(1, 3)), uid=NOBODY
    )


def random_step(rng, top):
    """One call of somebody, on one or two of a few names."""
    names = ["a", "b", "c", "d", "d/a", "d/b", "e", "e/a", "e/d", "e/d/x"]
    one, two = top / rng.choice(names), top / rng.choice(names)
    mode, who = (
        rng.choice([0o600, 0o644, 0o755, 0o777, 0o1777, 0o2775, 0o4755, 0o6711, 0o040]),
        rng.choice([-1, 0, 1001, 1002]),
    )
    group = rng.choice([-1, 0, 1001, 2000])
    ns = rng.randrange(1 << 60), rng.randrange(1 << 60)
    data = bytes([rng.randrange(256)]) * rng.choice([0, 1, 5000, 70_000])
    at = rng.choice([0, 4096, 100_000])
    calls = {
        "write": lambda: write_at(one, at, data, os.O_RDWR | os.O_CREAT),
        "overwrite": lambda: one.write_bytes(data),
        "append": lambda: write_at(one, 0, data, os.O_WRONLY | os.O_APPEND),
        "truncate": lambda: os.truncate(one, at),
        "exclusive": lambda: os.close(os.open(one, os.O_CREAT | os.O_EXCL | os.O_RDWR, mode)),
        "mkdir": lambda: os.mkdir(one, mode),
        "rmdir": lambda: os.rmdir(one),
        "unlink": lambda: os.unlink(one),
        "rename": lambda: os.rename(one, two),
        "exchange": lambda: renameat2(one, two, RENAME_EXCHANGE),
        "noreplace": lambda: renameat2(one, two, RENAME_NOREPLACE),
        "link": lambda: os.link(one, two, follow_symlinks=False),
        "symlink": lambda: os.symlink("a", one),
        "fifo": lambda: os.mkfifo(one, mode),
        "chmod": lambda: os.chmod(one, mode),
        "chown": lambda: os.chown(one, who, group),
        "lchown": lambda: os.lchown(one, who, group),
        "utime": lambda: os.utime(one, ns=ns),
        "touch": lambda: os.utime(one),
        "setxattr": lambda: os.setxattr(one, "user.x", data[:100]),
        "getxattr": lambda: os.getxattr(one, "user.x"),
        "removexattr": lambda: os.removexattr(one, "user.x"),
        "list": lambda: sorted(os.listdir(one)),
        "read": lambda: one.read_bytes()[:10],
        "stat": lambda: attributes(one),
        "access": lambda: [os.access(one, how) for how in (4, 2, 1)],
        "copy": lambda: os.close(os.open(one, os.O_RDONLY)),
    }
    what = rng.choice(sorted(calls))
    try:
        if (
            what in ("read", "overwrite", "write", "append", "copy")
            and os.path.exists(one)
            and stat.S_ISFIFO(os.stat(one).st_mode)
        ):
            return "fifo", None  # would wait
        return what, str(one.relative_to(top)), str(two.relative_to(top)), calls[what]()
    except OSError as error:
        return (
            what,
            str(one.relative_to(top)),
            str(two.relative_to(top)),
            errno.errorcode[error.errno],
        )


@story
def anybody_does_anything(top):
    """Users and a group, names and modes drawn at random. CFRAMEFS_SEED draws others."""
    rng = random.Random(f"{os.environ.get('CFRAMEFS_SEED') or 1}")
    os.chmod(top, 0o777)

    def row(seed, mask):
        os.umask(mask)
        mine = random.Random(seed)
        return [random_step(mine, top) for _ in range(15)]

    for number in range(30):
        uid, groups, mask = (
            rng.choice([0, 1001, 1001, 1002]),
            rng.choice([(), (2000,)]),
            rng.choice([0, 0o022, 0o077]),
        )
        yield number, uid, in_child(lambda: row(number, mask), uid=uid, groups=groups)
        yield {str(p.relative_to(top)): attributes(p) for p in sorted(top.rglob("*"))}


@story
def preadv2_and_sync_flags(top):
    flags = [
        os.O_SYNC,
        os.O_DSYNC,
        os.O_APPEND | os.O_SYNC,
        os.O_NOATIME,
        os.O_NONBLOCK,
        os.O_CLOEXEC,
    ]
    for flag in flags:
        with opened(top / "f", os.O_RDWR | os.O_CREAT | flag) as fd:
            yield (
                os.write(fd, b"abc"),
                os.fstat(fd).st_size,
                fcntl.fcntl(fd, fcntl.F_GETFL) & ~os.O_CLOEXEC,
            )
            fcntl.fcntl(fd, fcntl.F_SETFL, os.O_APPEND)
            yield os.write(fd, b"end"), os.fstat(fd).st_size
            fcntl.fcntl(fd, fcntl.F_SETFL, 0)
            os.lseek(fd, 1, 0)
            yield os.write(fd, b"X"), os.pread(fd, 100, 0)
    with opened(top / "f") as fd:
        yield (
            os.pwritev(fd, [b"zz"], 0, os.RWF_DSYNC),
            os.pwritev(fd, [b"zz"], 0, os.RWF_SYNC),
            os.pwritev(fd, [b"zz"], 0, os.RWF_APPEND),
            os.pread(fd, 100, 0),
        )


@pytest.mark.parametrize("play", STORIES, ids=lambda f: f.__name__)
def test_same(mount, plain, root, play):
    m = mount("allow_other,suid,dev" if play in (special_files,) else "allow_other")
    sides = []
    for top in (plain, m.mnt):
        os.chmod(m.backing, 0o755)
        (top / "t").mkdir()
        got = play(top / "t")
        sides.append(list(got) if hasattr(got, "__next__") else [got])
    differ = [(a, b) for a, b in zip(*sides) if a != b]
    assert not differ, (
        "\n".join(f"plain: {a}\nmount: {b}" for a, b in differ[:25])
        + f"\n{len(differ)} differences"
    )
    assert len(sides[0]) == len(sides[1])
