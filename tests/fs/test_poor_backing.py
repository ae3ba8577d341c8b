"""A backing directory on a file system that can little: no hard links, attributes or renames with
flags, and inode numbers that do not last, as with many FUSE file systems, FAT, and networks."""

import contextlib
import ctypes
import errno
import fcntl
import os
import re
import socket
import subprocess
import time

import pytest

from libdata import blob
from libfault import Fault
from libmount import BUILD, CFRAME, DAEMON, Mount, is_mounted, umount, wait_until
from libposix import error_of, write_synced
from libprogram import attempt, daemon_of

POOR = BUILD / "tests/c/poor_fs"
NOREPLACE, EXCHANGE = 1, 2
PAGE = 4096
LOCK = ".cframefs-intent.b2lock"


class Poor:
    """The file system `source`, shown at `path`."""

    def __init__(self, work, *can, name="poor"):
        self.source, self.path, self.can = work / "source", work / name, can
        self.source.mkdir(exist_ok=True)
        self.path.mkdir()
        self.start()

    def start(self):
        argv = [POOR, self.source, self.path, *self.can]
        self.proc = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        wait_until(lambda: is_mounted(self.path), 30, "mount of poor_fs")

    def names(self):
        """What is in it beside the lock that other machines see."""
        return sorted(set(os.listdir(self.source)) - {LOCK})

    def drop(self):
        self.proc.kill()
        umount(self.path, "-l")
        self.proc.wait()

    def end(self):
        def done():
            return umount(self.path).returncode == 0 or not is_mounted(self.path)

        wait_until(done, 10, "umount of poor_fs")
        return self.proc.communicate()[0]


@pytest.fixture
def poor(work, request):
    got = Poor(work, *getattr(request, "param", ()))
    yield got
    got.drop()


def rename(a, b, flags=0):
    libc = ctypes.CDLL(None, use_errno=True)
    return 0 if libc.renameat2(-100, bytes(a), -100, bytes(b), flags) == 0 else ctypes.get_errno()


def test_renames(mount, poor):
    m = mount(backing=poor.path)
    (m.mnt / "a").write_bytes(blob(1, 100_000, "text"))
    (m.mnt / "b").write_bytes(b"another")
    (m.mnt / "d").mkdir()
    assert rename(m.mnt / "a", m.mnt / "new") == 0
    assert rename(m.mnt / "new", m.mnt / "d/new", NOREPLACE) == 0
    assert rename(m.mnt / "b", m.mnt / "d/new", NOREPLACE) == errno.EEXIST
    assert rename(m.mnt / "d", m.mnt / "e") == 0
    assert rename(m.mnt / "e", m.mnt / "e/below") == errno.EINVAL
    assert rename(m.mnt / "b", m.mnt / "e/new", EXCHANGE) == errno.EINVAL
    assert (m.mnt / "e/new").read_bytes() == blob(1, 100_000, "text")
    assert rename(m.mnt / "e/new", m.mnt / "b") == 0
    assert sorted(os.listdir(m.mnt)) == ["b", "e"] and os.listdir(m.mnt / "e") == []
    m.remount()
    assert (m.mnt / "b").read_bytes() == blob(1, 100_000, "text")


def test_a_rename_over_what_has_another_backing_name(mount, poor):
    (poor.source / "x").write_bytes(b"plain in the backing directory")
    (poor.source / "y.b2frame").write_bytes(b"no frame")
    m = mount(backing=poor.path).allow("y.b2frame")
    (m.mnt / "a").write_bytes(b"a")
    (m.mnt / "c").write_bytes(b"c")
    assert rename(m.mnt / "a", m.mnt / "x") == 0
    assert rename(m.mnt / "c", m.mnt / "y") == 0  # y.b2frame is in the way, and stays
    found = {name: (m.mnt / name).read_bytes() for name in os.listdir(m.mnt)}
    assert found == {"x": b"a", "y": b"c", "y.b2frame": b"no frame"}


def test_a_file_that_cannot_be_begun_is_not_there(faulty, poor):
    """It has its name first where there are no files without one."""
    m, fault = faulty(backing=poor.path)
    fault.set(1, Fault.WRITE, errno.EIO, forever=1)
    assert error_of(os.open, m.mnt / "f", os.O_CREAT | os.O_WRONLY) == "EIO"
    assert fault.came()
    # libfuse keeps what is removed while it is open under another name until then
    wait_until(lambda: poor.names() == os.listdir(m.mnt) == [], 10, "its end")


@pytest.mark.parametrize("poor", [("links",)], indirect=True)
def test_a_name_that_was_a_second_one(mount, poor):
    """A descriptor of the first name fails when that is gone, as with bindfs."""
    data = blob(1, 100_000, "text")
    (poor.source / "x").write_bytes(b"plain in the backing directory")
    m = mount(backing=poor.path)
    for name in ("new", "first"):
        write_synced(m.mnt / name, data)
    assert rename(m.mnt / "new", m.mnt / "x") == 0
    os.link(m.mnt / "first", m.mnt / "second")
    (m.mnt / "first").unlink()
    for name in ("x", "second"):
        assert (m.mnt / name).stat().st_size == len(data)
        with open(m.mnt / name, "r+b") as f:
            os.fsync(f.fileno())
            f.write(b"more")
            os.fsync(f.fileno())
        (m.mnt / name).chmod(0o600)
        assert (m.mnt / name).read_bytes() == b"more" + data[4:]
    assert poor.names() == ["second.b2frame", "x.b2frame"]


@pytest.mark.parametrize("poor", [("links",)], indirect=True)
def test_an_open_file_that_gets_another_backing_name(mount, poor):
    """Not by a second name, which would be another file: libfuse keeps what is open under a name of
    its own when the first one goes, and everybody would see that."""
    (poor.source / "x").write_bytes(b"plain in the backing directory")
    m = mount(backing=poor.path)
    with open(m.mnt / "new", "wb", buffering=0) as f:
        f.write(b"some")
        assert rename(m.mnt / "new", m.mnt / "x") == 0
        assert os.listdir(m.mnt) == ["x"]
        f.write(b" text")
    assert (m.mnt / "x").read_bytes() == b"some text"
    assert poor.names() == ["x.b2frame"]


def test_a_directory_with_nothing_that_is_shown_is_removed(mount, poor):
    """Its listing does not tell what sort of file each entry is."""
    m = mount(backing=poor.path)
    for name in ("d", "e", "f"):
        (m.mnt / name).mkdir()
        (poor.source / name / "x.b2frame.b2lock").touch()
    (poor.source / "f/y.b2lock").mkdir()
    assert os.listdir(m.mnt / "d") == []
    (m.mnt / "d").rmdir()
    assert rename(m.mnt / "f", m.mnt / "e") == 0
    with pytest.raises(OSError):
        (m.mnt / "e").rmdir()
    assert sorted(os.listdir(poor.source / "e")) == ["x.b2frame.b2lock", "y.b2lock"]


def test_times_of_a_copy(mount, poor):
    """cp -p sets them before it closes the file, and the commit comes afterwards."""
    m = mount(backing=poor.path)
    seconds = 1_000_000_000
    with open(m.mnt / "a", "wb") as f:
        f.write(blob(1, 100_000, "text"))
        f.flush()
        os.utime(f.fileno(), (seconds, seconds))
    m.remount()
    assert (m.mnt / "a").stat().st_mtime == seconds
    assert (m.mnt / "a").read_bytes() == blob(1, 100_000, "text")


def test_a_name_that_is_too_long(mount, poor, work):
    """It is listed, and whoever opens it is told. It was written beyond the end of a buffer."""
    m = mount(backing=poor.path)
    (m.mnt / "a").write_bytes(b"text")
    (m.mnt / "d").mkdir()
    (poor.source / "long").write_bytes((poor.source / "a.b2frame").read_bytes())
    name = "x" * 900 + ".b2frame"
    assert sorted(os.listdir(m.mnt)) == ["a", "d", name]
    with pytest.raises(OSError) as got:
        (m.mnt / name).read_bytes()
    assert got.value.errno == errno.ENAMETOOLONG
    assert (m.mnt / "a").read_bytes() == b"text"
    m.unmount()
    plain, frames = work / "plain", work / "frames"
    for line in (
        ("ls", poor.path),
        ("extract", "-C", plain, poor.path),
        ("compress", poor.path, frames),
    ):
        got = subprocess.run([CFRAME, *line], capture_output=True, text=True, check=False)
        said = got.stderr.splitlines()
        assert got.returncode == 1 and len(said) == 1 and name in said[0], got
        assert said[0].endswith("File name too long")
    assert sorted(os.listdir(plain)) == ["a", "d"]


@pytest.mark.concurrent
@pytest.mark.parametrize("poor", [["slow"]], indirect=True)
def test_a_listing_waits_for_several_files_at_a_time(mount, poor, work):
    """And shows what it shows where it waits for none."""
    first = Mount(work / "first", backing=poor.source).start()
    (first.mnt / "frame").write_bytes(blob(1, 10_000, "text"))
    (first.mnt / "dir").mkdir()
    first.unmount()
    frame = (poor.source / "frame.b2frame").read_bytes()
    sizes = {f"file-{i:03}": 10_000 for i in range(500)} | {"frame": 10_000}
    for name in sizes:
        (poor.source / f"{name}.b2frame").write_bytes(frame)
    for name, text in (
        ("both", b"plain"),
        ("both.b2frame", frame),
        ("none.b2frame", b"no frame"),
        ("plain", b""),
    ):
        (poor.source / name).write_bytes(text)
        sizes[name] = len(text)
    m = mount(backing=poor.path)
    m.allow("none.b2frame: shown under its own name", "both.b2frame: shown under its own name")
    listed = {e.name: e.is_file() and e.stat().st_size for e in os.scandir(m.mnt)}
    assert listed == sizes | {"dir": False}
    m.unmount()
    assert int(poor.end()) > 1


def overwrite(path, data, *seeds):
    """Scattered pages, synced, once for each seed: such that a log of them costs less than a
    commit. Returns the file's bytes and a descriptor that is open."""
    data = bytearray(data)
    fd = os.open(path, os.O_RDWR)
    for seed in seeds:
        for i in range(0, len(data), 2 * PAGE):
            data[i : i + PAGE] = blob(seed + i, PAGE, "text")
            os.pwrite(fd, data[i : i + PAGE], i)
        os.fsync(fd)
    return bytes(data), fd


def crash(m, *fds):
    m.kill()
    for lost in fds:
        with contextlib.suppress(OSError):  # closing asks the daemon
            os.close(lost)


def differs(path, data):
    """The pages of a file that are not those of `data`."""
    got = path.read_bytes()
    pages = range(0, max(len(data), len(got)), PAGE)
    return [i // PAGE for i in pages if got[i : i + PAGE] != data[i : i + PAGE]]


@pytest.fixture
def overlay(mount, work):
    """The lower directory of an overlay, and what starts a Mount of that with these options."""
    lower, upper, scratch = (work / name for name in ("lower", "upper", "scratch"))
    for path in (lower, upper, scratch):
        path.mkdir()
    mounted = []

    def start(options=""):
        m = mount(options, backing=work / "merged", start=False)
        words = f"lowerdir={lower},upperdir={upper},workdir={scratch}"
        got = subprocess.run(
            ["mount", "-t", "overlay", "-o", words, "none", m.backing],
            capture_output=True,
            text=True,
            check=False,
        )
        if got.returncode:
            pytest.skip(f"no overlay here: {got.stderr}")
        mounted.append(m.backing)
        return m.start()

    yield lower, start
    for path in mounted:
        umount(path, "-l")


def test_an_overlay_copies_a_linked_file_up(work, overlay):
    """With that it gets another inode number, and is one file of its own."""
    lower, start = overlay
    first = Mount(work / "first", backing=lower).start()
    plain = blob(1, 1 << 20, "text")
    write_synced(first.mnt / "a", plain)
    first.unmount()
    os.link(lower / "a.b2frame", lower / "b.b2frame")
    m = start("commit=1000,chunksize=64K,blocksize=16K")
    data, fd = overwrite(m.mnt / "a", plain, 100, 200)
    crash(m, fd)
    m.start()
    assert not differs(m.mnt / "a", data)
    assert not differs(m.mnt / "b", plain)
    m.unmount()


def test_the_names_of_a_file_that_an_overlay_copies_up(work, overlay):
    """Each becomes a file of its own when it is written to, and what is written through an old
    descriptor is in the same file as what is written through a new one."""
    lower, start = overlay
    first = Mount(work / "first", backing=lower).start()
    plain = blob(1, 300_000, "text")
    write_synced(first.mnt / "a", plain)
    first.unmount()
    os.link(lower / "a.b2frame", lower / "b.b2frame")
    os.link(lower / "a.b2frame", lower / "c.b2frame")
    m = start("entry_timeout=0.1,attr_timeout=0.1")
    paths = [m.mnt / name for name in "abc"]
    assert all(path.stat().st_size == len(plain) for path in paths)
    want = {name: bytearray(plain) for name in "abc"}
    fds = []
    for at, name in enumerate("abab"):
        fds.append((name, os.open(m.mnt / name, os.O_RDWR)))
        for n, (owner, fd) in enumerate(fds):  # the old ones, too
            data = b"%d of %d" % (n, at)
            where = 1000 * (10 * at + n)
            os.pwrite(fd, data, where)
            os.fsync(fd)
            want[owner][where : where + len(data)] = data
        time.sleep(0.3)
        assert not [name for name in "abc" if differs(m.mnt / name, want[name])], at
    paths[2].chmod(0o600)
    assert [path.stat().st_mode & 0o777 for path in paths] == [0o644, 0o644, 0o600]
    for _, fd in fds:
        os.close(fd)
    m.remount()
    assert not [name for name in "abc" if differs(m.mnt / name, want[name])]
    assert [path.stat().st_mode & 0o777 for path in paths] == [0o644, 0o644, 0o600]


def test_a_mode_for_all_names_on_an_overlay(overlay):
    """Which name was meant is not told: the one that was has the mode."""
    lower, start = overlay
    (lower / "a").write_bytes(b"text")
    os.link(lower / "a", lower / "b")
    m = start("entry_timeout=1000,attr_timeout=1000")
    assert (m.mnt / "a").read_bytes() == (m.mnt / "b").read_bytes() == b"text"
    (m.mnt / "a").chmod(0o600)
    assert (m.mnt / "a").stat().st_mode & 0o777 == 0o600
    (m.mnt / "b").write_bytes(b"other")
    m.remount()
    assert (m.mnt / "a").stat().st_mode & 0o777 == 0o600
    assert (m.mnt / "a").read_bytes() == b"text"
    assert (m.mnt / "b").read_bytes() == b"other"


def test_an_attribute_of_one_name_on_an_overlay(overlay):
    """The copy that is made for it has another number: the other name does not lead to it."""
    lower, start = overlay
    (lower / "a").write_bytes(b"text")
    os.link(lower / "a", lower / "b")
    m = start()
    for name in "ab":
        os.setxattr(m.mnt / name, "user.of", name.encode())
    assert [os.getxattr(m.backing / name, "user.of") for name in "ab"] == [b"a", b"b"]
    for path in (m.mnt / "a", m.backing / "b"):
        os.removexattr(path, "user.of")
    assert [os.listxattr(m.backing / name) for name in "ab"] == [[], []]


@pytest.mark.parametrize("change", [os.link, os.rename])
def test_another_name_on_an_overlay(overlay, change):
    """A copy is made for that, too: the second of its old names does not lead to it."""
    lower, start = overlay
    (lower / "a").write_bytes(b"text")
    os.link(lower / "a", lower / "b")
    m = start()
    change(m.mnt / "a", m.mnt / "c")
    os.setxattr(m.mnt / "b", "user.of", b"b")
    assert os.getxattr(m.backing / "b", "user.of") == b"b"
    os.setxattr(m.mnt / "c", "user.of", b"c")
    assert [os.getxattr(m.backing / name, "user.of") for name in "bc"] == [b"b", b"c"]
    write_synced(m.mnt / "b", b"other")
    assert [(m.mnt / name).read_bytes() for name in "bc"] == [b"other", b"text"]


def test_another_program_makes_an_overlay_copy_a_file_up(overlay):
    """By one of its names, by which the daemon has it open: the other does not lead to the copy."""
    lower, start = overlay
    (lower / "a").write_bytes(b"text")
    os.link(lower / "a", lower / "b")
    m = start("entry_timeout=0,attr_timeout=0")
    assert os.path.samefile(m.mnt / "a", m.mnt / "b")
    (m.backing / "a").chmod(0o600)
    (m.mnt / "b").chmod(0o640)
    for top in (m.mnt, m.backing):
        assert [(top / name).stat().st_mode & 0o777 for name in "ab"] == [0o600, 0o640]


def test_inode_numbers_that_do_not_last(mount, poor):
    """What was synced is there after both were killed, and nothing of it in another file."""
    m = mount("commit=1000,chunksize=64K,blocksize=16K", backing=poor.path)
    plain = {name: blob(ord(name), 1 << 20, "text") for name in "abc"}
    for name, data in plain.items():
        write_synced(m.mnt / name, data)
    plain["b"], fd = overwrite(m.mnt / "b", plain["b"], 100)
    plain["a"], other = overwrite(m.mnt / "a", plain["a"], 200)
    crash(m, fd, other)
    poor.end()
    poor.start()
    for name in ("c", "b", "a"):  # other numbers than at first
        (poor.path / f"{name}.b2frame").stat()
    m.start()
    for name, data in plain.items():
        assert not differs(m.mnt / name, data), name


@pytest.fixture
def machines(work):
    """A directory on a network's file system, as each of two machines has it."""
    got = [Poor(work, "locks", name=name) for name in ("here", "there")]
    yield got
    for one in got:
        one.drop()


@contextlib.contextmanager
def mounted_at(place, backing, *options):
    got = attempt(DAEMON, backing, place, *options)
    assert got.returncode == 0, got.stderr
    try:
        yield
    finally:
        umount(place)
        wait_until(lambda: not daemon_of(place), 20, "end of the second daemon")


@pytest.mark.release
def test_two_machines(mount, machines, work):
    """Two that write would apply each other's intent log. Any number may read."""
    here, there = machines
    (work / "second").mkdir()
    os.chown(here.source, 1, 2)
    m = mount(backing=here.path)
    write_synced(m.mnt / "f", b"of the first")
    lock = (here.source / LOCK).stat()
    assert (lock.st_uid, lock.st_gid) == (1, 2)
    for how in ([], ["-o", "ro"]):
        got = attempt(DAEMON, there.path, work / "second", *how)
        machine = re.escape(f"on another machine, '{socket.gethostname()}'")
        assert got.returncode == 1 and re.search(machine, got.stderr), got
    m.unmount()
    with mounted_at(work / "second", there.path):
        assert os.listdir(work / "second") == ["f"]
        assert attempt(DAEMON, here.path, m.mnt).returncode == 1
    with (
        mounted_at(work / "second", there.path, "-o", "ro"),
        mounted_at(m.mnt, here.path, "-o", "ro"),
    ):
        assert (m.mnt / "f").read_bytes() == (work / "second/f").read_bytes() == b"of the first"


@pytest.mark.release
def test_a_lock_file_that_has_another_name(machines, work):
    """The content of what somebody has linked there stays."""
    here, there = machines
    (work / "second").mkdir()
    (here.source / "other").write_bytes(b"content")
    os.link(here.source / "other", here.source / LOCK)
    with mounted_at(work / "second", there.path):
        assert (here.source / "other").read_bytes() == b"content"


@pytest.mark.release
@pytest.mark.parametrize("content", [b"a\x1b[2J", b"", None])
def test_a_lock_file_of_somebody_else(machines, work, content):
    """What it says is not shown to a terminal; where it is none, there is no such lock."""
    here, there = machines
    (work / "second").mkdir()
    if content is None:
        (here.source / LOCK).mkdir()
        with mounted_at(work / "second", there.path):
            (work / "second/f").write_bytes(b"x")
        return
    with open(here.source / LOCK, "wb", buffering=0) as file:
        file.write(content)
        fcntl.flock(file, fcntl.LOCK_EX)
        got = attempt(DAEMON, there.path, work / "second")
    name = content[:1].decode() or "unknown"
    assert got.returncode == 1 and f"on another machine, '{name}'\n" in got.stderr, got


def test_a_chunk_of_many_blocks_is_proven_where_nobody_says_what_files_take(mount, poor):
    """What a hole may claim to be is bounded by that, and this is none: its head takes 17 MB."""
    options = "chunksize=64M,blocksize=64,pipeline=lz4:1,dirty_max=256M,commit=1"
    m = mount(options, backing=poor.path)
    data = (b"a" * 64 + b"b" * 64) * (425 << 10)
    (m.mnt / "f").write_bytes(data)
    backing = m.stored("f")
    wait_until(lambda: backing.read_bytes()[30:38] == len(data).to_bytes(8, "big"), 60, "commit")
    assert backing.stat().st_blocks == 0
    m.kill()
    poor.end()
    poor.start()  # another mount, of which nobody knows what the disk got
    m.start()
    with open(m.mnt / "f", "rb") as f:
        assert f.seek(-PAGE, os.SEEK_END) == len(data) - PAGE
        assert f.read() == data[-PAGE:]
