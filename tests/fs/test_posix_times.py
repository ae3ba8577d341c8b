"""Times: what moves them, and that they stay as they were set."""

import ctypes
import os
import time

from libdata import blob
from libmount import DAEMON, SLOWNESS, wait_until
from libposix import NOBODY, error_of, punch, sync

MiB = 1 << 20


def times(path):
    got = os.stat(path)
    return got.st_mtime_ns, got.st_ctime_ns


def test_mtime_is_the_last_write_not_the_flush(mount):
    m = mount("commit=0.3")
    fd = os.open(m.mnt / "f", os.O_CREAT | os.O_RDWR)
    stored = m.stored("f").read_bytes()
    os.write(fd, blob(4, 3 * MiB, "floats"))
    written = times(m.mnt / "f")
    assert abs(written[0] / 1e9 - time.time()) < 60

    def committed():
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)  # the kernel sends what it has
        return m.stored("f").read_bytes() != stored

    wait_until(committed, 20, "a background commit")
    assert times(m.mnt / "f") == written
    os.fsync(fd)
    assert times(m.mnt / "f") == written
    os.close(fd)
    assert times(m.mnt / "f") == written
    m.remount()
    assert times(m.mnt / "f")[0] == written[0]


def test_times_within_a_tick_do_not_go_back(mount):
    """Other files' stamps may be ahead of the coarse clock, and the kernel's follow them."""
    m = mount()
    name, stored = m.mnt / "f", m.stored("f")
    other = os.open(m.work / "other", os.O_CREAT | os.O_RDWR)
    differ = []
    for _ in range(30):
        fd = os.open(name, os.O_CREAT | os.O_RDWR)
        for _ in range(8):  # a stamp that was asked for makes the next one a fine one
            os.fstat(other)
            os.pwrite(other, b"x", 0)
        os.pwrite(fd, blob(1, 20000, "floats"), 0)
        os.fsync(fd)
        os.copy_file_range(fd, fd, 4096, 0, 8192)
        os.close(fd)
        differ.append(times(stored)[0] - times(name)[0])
    os.close(other)
    assert differ == [0] * 30


def test_changes_that_the_frame_does_not_show_have_a_time(mount):
    """The kernel tells a time that is as the one before only once."""
    m = mount()
    name, stored = m.mnt / "f", m.stored("f")
    with open(name, "wb") as f:
        f.truncate(200_000)
    differ = []
    for _ in range(20):
        time.sleep(0.02)
        fd = os.open(name, os.O_RDWR)
        punch(fd, 0, 50_000)
        punch(fd, 0, 50_000)
        os.close(fd)
        differ.append(times(stored)[0] - times(name)[0])
    assert min(differ) >= 0, differ  # a tick may end between the two


def test_writing_does_not_move_the_access_time(mount):
    m = mount()
    fd = os.open(m.mnt / "f", os.O_CREAT | os.O_RDWR)
    made = m.stored("f").stat().st_atime_ns
    for length in (20000, 9000, 5000):
        time.sleep(0.02)
        os.pwrite(fd, blob(2, length, "floats"), 0)
        os.fsync(fd)
        os.truncate(m.mnt / "f", length // 2)
        os.fsync(fd)
    os.close(fd)
    assert os.stat(m.mnt / "f").st_atime_ns == m.stored("f").stat().st_atime_ns == made


def set_mtime(fd, seconds):
    """futimens with UTIME_OMIT for the atime, which Python has no word for."""
    times = (ctypes.c_long * 4)(0, (1 << 30) - 2, seconds, 0)
    assert ctypes.CDLL(None, use_errno=True).futimens(fd, times) == 0, ctypes.get_errno()


def test_mtime_alone_of_an_open_file_stays(mount):
    """With changes that are not committed yet, or without any, it is on the
    backing file when the file is closed."""
    m = mount()
    for name, length in (("changed", 10000), ("same", 0)):
        fd = os.open(m.mnt / name, os.O_RDWR | os.O_CREAT)
        os.write(fd, bytes(range(100)) * (length // 100))
        set_mtime(fd, 1234567890)
        assert os.fstat(fd).st_mtime == 1234567890
        os.close(fd)
        assert os.stat(m.mnt / name).st_mtime == m.stored(name).stat().st_mtime == 1234567890


def test_utime_of_an_open_dirty_file_stays(mount):
    """What cp -p and tar do: write, set the times, close."""
    m = mount()
    old = 1_000_000_000_000_000_005
    fd = os.open(m.mnt / "f", os.O_CREAT | os.O_RDWR)
    os.write(fd, blob(5, 2 * MiB, "text"))
    os.utime(fd, ns=(old, old))
    os.close(fd)
    assert times(m.mnt / "f")[0] == old
    sync(m.mnt / "f")
    assert times(m.mnt / "f")[0] == old
    m.remount()
    assert times(m.mnt / "f")[0] == old


def test_times_of_a_file_that_belongs_to_another_user(mount, tool, root):
    """The daemon of a user may write to it, if its mode says so, but of times it may set none but
    the current one."""
    argv = [tool("setpriv"), "--bounding-set", "-fowner", str(DAEMON)]
    m = mount(argv=argv)
    (m.mnt / "frame").write_bytes(b"0123456789")
    m.unmount()
    (m.backing / "plain").write_bytes(b"0123456789")
    for stored in (m.backing / "frame.b2frame", m.backing / "plain"):
        os.chmod(stored, 0o666)
        os.utime(stored, (1e9, 1e9))
        os.chown(stored, NOBODY, NOBODY)
    m.start()
    for path in (m.mnt / "frame", m.mnt / "plain"):
        os.truncate(path, 8)
        with open(path, "r+b", buffering=0) as f:
            f.write(b"new")
            os.fsync(f.fileno())
            f.truncate(6)
        assert path.read_bytes() == b"new345"
        os.utime(path)
        assert error_of(os.utime, path, (1e9, 1e9)) == "EPERM"
        m.remount()
        assert abs(os.stat(path).st_mtime - time.time()) < 60 * SLOWNESS
        assert path.read_bytes() == b"new345"


def test_what_moves_the_times(fs, file):
    def step(call, *which):
        before = os.stat(file)
        time.sleep(0.05)
        call()
        after = os.stat(file)
        moved = {
            name
            for name in ("mtime", "ctime")
            if getattr(after, f"st_{name}_ns") > getattr(before, f"st_{name}_ns")
        }
        assert moved == set(which)

    fd = os.open(file, os.O_RDWR)
    step(lambda: os.pread(fd, 1000, 0))
    step(lambda: os.pwrite(fd, b"x", 5), "mtime", "ctime")
    step(lambda: os.ftruncate(fd, 1000), "mtime", "ctime")
    step(lambda: os.ftruncate(fd, 2000), "mtime", "ctime")
    step(lambda: punch(fd, 0, 100), "mtime", "ctime")
    step(lambda: os.chmod(file, 0o600), "ctime")
    step(lambda: os.setxattr(file, "user.x", b"1"), "ctime")
    step(lambda: os.link(file, fs / "another"), "ctime")
    step(lambda: os.fsync(fd))
    os.close(fd)
    step(lambda: os.close(os.open(file, os.O_WRONLY | os.O_TRUNC)), "mtime", "ctime")


def test_directory_times(fs):
    os.mkdir(fs / "d")
    for call in (
        lambda: (fs / "d" / "f").touch(),
        lambda: os.rename(fs / "d" / "f", fs / "d" / "g"),
        lambda: os.link(fs / "d" / "g", fs / "d" / "h"),
        lambda: os.unlink(fs / "d" / "g"),
        lambda: os.mkdir(fs / "d" / "sub"),
        lambda: os.symlink("x", fs / "d" / "l"),
    ):
        before = times(fs / "d")
        time.sleep(0.02)
        call()
        after = times(fs / "d")
        assert after[0] > before[0] and after[1] > before[1]
