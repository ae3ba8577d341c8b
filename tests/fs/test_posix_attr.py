"""Attributes, times, locks, and who may do what; result or errno of each call."""

import ctypes
import errno
import fcntl
import json
import mmap
import os
import re
import stat
import struct
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from libdata import blob
from libmount import wait_until
from libposix import NOBODY, as_nobody, error_of, in_child, punch, sync, with_gap, write_at

MiB = 1 << 20


# ---- lookup, getattr, statfs


def test_lookup_errors(fs, file):
    assert error_of(os.stat, fs / "absent") == "ENOENT"
    assert error_of(os.stat, file / "below") == "ENOTDIR"
    assert error_of(os.stat, fs / "absent" / "below") == "ENOENT"
    assert error_of(os.open, fs / "absent", os.O_RDONLY) == "ENOENT"
    assert error_of(os.open, file, os.O_RDONLY | os.O_DIRECTORY) == "ENOTDIR"
    assert error_of(os.open, fs, os.O_RDWR) == "EISDIR"


def test_longest_name(fs):
    longest = fs / ("n" * 247)
    longest.write_bytes(b"fits")
    assert longest.read_bytes() == b"fits" and longest.name in os.listdir(fs)
    too_long = fs / ("n" * 248)
    for call in (
        lambda: os.open(too_long, os.O_CREAT | os.O_WRONLY),
        lambda: os.mkdir(too_long),
        lambda: os.rename(longest, too_long),
        lambda: os.link(longest, too_long),
        lambda: os.symlink("x", too_long),
        lambda: os.mknod(too_long, stat.S_IFIFO | 0o600),
    ):
        assert error_of(call) == "ENAMETOOLONG"
    assert os.listdir(fs) == [longest.name]


def test_statfs(mount):
    m = mount()
    got, below = os.statvfs(m.mnt), os.statvfs(m.backing)
    assert got.f_namemax == 247
    assert got.f_frsize * got.f_blocks == below.f_frsize * below.f_blocks
    assert got.f_bavail > 0 and got.f_bsize > 0


def test_size_is_logical_and_blocks_are_stored(mount):
    m = mount()
    (m.mnt / "runs").write_bytes(b"run" * MiB)
    (m.mnt / "noise").write_bytes(blob(2, 3 * MiB, "noise"))
    for name, least, most in (("runs", 1, 100_000), ("noise", 3 * MiB, 3 * MiB + 200_000)):
        sync(m.mnt / name)
        got = os.stat(m.mnt / name)
        assert got.st_size == 3 * MiB
        assert least <= got.st_blocks * 512 <= most, name
        assert got.st_blocks == m.stored(name).stat().st_blocks
    du = subprocess.run(
        ["du", "-k", m.mnt / "runs"], capture_output=True, text=True, check=True
    ).stdout
    apparent = subprocess.run(
        ["du", "-k", "--apparent-size", m.mnt / "runs"], capture_output=True, text=True, check=True
    ).stdout
    assert int(du.split()[0]) < 100 and int(apparent.split()[0]) == 3 * 1024


def test_inode_numbers_are_distinct_and_stable(mount):
    m = mount()
    for name in "abc":
        (m.mnt / name).touch()
    before = {e.name: e.inode() for e in os.scandir(m.mnt)}
    assert len(set(before.values())) == 3
    assert before == {name: (m.mnt / name).stat().st_ino for name in "abc"}
    m.remount()
    assert before == {name: (m.mnt / name).stat().st_ino for name in "abc"}


# ---- attributes


def test_chmod(fs, file):
    for mode in (0o600, 0o755, 0o444, 0o000, 0o6711, 0o1777):
        os.chmod(file, mode)
        assert stat.S_IMODE(os.stat(file).st_mode) == mode
    os.mkdir(fs / "d")
    os.chmod(fs / "d", 0o2750)
    assert stat.S_IMODE(os.stat(fs / "d").st_mode) == 0o2750


def test_chown(fs, file, root):
    os.chmod(file, 0o6755)
    os.chown(file, 1234, 5678)
    got = os.stat(file)
    assert (got.st_uid, got.st_gid) == (1234, 5678)
    assert stat.S_IMODE(got.st_mode) == 0o755, "chown takes the set-id bits away"
    os.chown(file, -1, 99)
    assert (os.stat(file).st_uid, os.stat(file).st_gid) == (1234, 99)
    os.symlink("file", fs / "link")
    os.lchown(fs / "link", 4321, 4321)
    assert os.lstat(fs / "link").st_uid == 4321 and os.stat(file).st_uid == 1234


def test_utimens_keeps_nanoseconds(mount):
    m = mount()
    path = m.mnt / "f"
    path.write_bytes(b"x" * 1000)
    os.symlink("f", m.mnt / "l")
    atime, mtime = 1_111_111_111_123_456_789, 1_222_222_222_987_654_321
    os.utime(path, ns=(atime, mtime))
    os.utime(m.mnt / "l", ns=(mtime, atime), follow_symlinks=False)
    assert (os.stat(path).st_atime_ns, os.stat(path).st_mtime_ns) == (atime, mtime)
    assert os.lstat(m.mnt / "l").st_mtime_ns == atime
    m.remount()
    assert (os.stat(path).st_atime_ns, os.stat(path).st_mtime_ns) == (atime, mtime)
    os.utime(path)
    assert abs(os.stat(path).st_mtime - time.time()) < 5


def test_xattrs(fs, file):
    os.mkdir(fs / "d")
    for path in (file, fs / "d"):
        value = bytes(range(256))
        os.setxattr(path, "user.one", value)
        os.setxattr(path, "user.empty", b"")
        assert os.getxattr(path, "user.one") == value and os.getxattr(path, "user.empty") == b""
        assert {"user.one", "user.empty"} <= set(os.listxattr(path))
        assert error_of(os.setxattr, path, "user.one", b"", os.XATTR_CREATE) == "EEXIST"
        assert error_of(os.setxattr, path, "user.new", b"", os.XATTR_REPLACE) == "ENODATA"
        os.setxattr(path, "user.one", b"shorter", os.XATTR_REPLACE)
        assert os.getxattr(path, "user.one") == b"shorter"
        os.removexattr(path, "user.one")
        assert error_of(os.getxattr, path, "user.one") == "ENODATA"
        assert error_of(os.removexattr, path, "user.one") == "ENODATA"
        assert "user.one" not in os.listxattr(path)
    assert error_of(os.getxattr, fs / "absent", "user.one") == "ENOENT"


def test_xattrs_stay(mount):
    m = mount()
    (m.mnt / "f").write_bytes(b"data")
    os.setxattr(m.mnt / "f", "user.note", b"kept")
    write_at(m.mnt / "f", 0, b"DATA")
    os.rename(m.mnt / "f", m.mnt / "g")
    m.remount()
    assert os.getxattr(m.mnt / "g", "user.note") == b"kept"


# ---- times


def times(path):
    got = os.stat(path)
    return got.st_mtime_ns, got.st_ctime_ns


def test_mtime_is_the_last_write_not_the_flush(mount):
    m = mount("commit=0.3")
    fd = os.open(m.mnt / "f", os.O_CREAT | os.O_RDWR)
    os.write(fd, blob(4, 3 * MiB, "floats"))
    written = times(m.mnt / "f")
    assert abs(written[0] / 1e9 - time.time()) < 60
    stored = m.stored("f").read_bytes()

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


# ---- locks


@pytest.mark.parametrize(
    "take, free",
    [
        (
            lambda fd: fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB),
            lambda fd: fcntl.flock(fd, fcntl.LOCK_UN),
        ),
        (
            lambda fd: fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 100, 50),
            lambda fd: fcntl.lockf(fd, fcntl.LOCK_UN, 100, 50),
        ),
    ],
    ids=["flock", "posix"],
)
def test_locks_between_processes(file, fd, take, free):
    def try_elsewhere():
        other = os.open(file, os.O_RDWR)
        return error_of(take, other)

    take(fd)
    assert in_child(try_elsewhere) == "EAGAIN"
    free(fd)
    assert in_child(try_elsewhere) is None


def test_posix_locks_of_other_ranges_do_not_meet(file, fd):
    fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 100, 0)

    def lock_beside():
        other = os.open(file, os.O_RDWR)
        return error_of(fcntl.lockf, other, fcntl.LOCK_EX | fcntl.LOCK_NB, 100, 100)

    assert in_child(lock_beside) is None


@pytest.mark.concurrent
def test_blocking_flock_waits_and_can_be_interrupted(file, fd):
    fcntl.flock(fd, fcntl.LOCK_EX)
    waiter = subprocess.Popen(["flock", file, "true"])
    time.sleep(0.3)
    assert waiter.poll() is None
    waiter.kill()
    assert waiter.wait(250) == -9, "a waiter for a lock must be killable"
    waiter = subprocess.Popen(["flock", file, "true"])
    fcntl.flock(fd, fcntl.LOCK_UN)
    assert waiter.wait(250) == 0


# ---- who may do what


@pytest.fixture
def shared(mount, root):
    """A mount for everyone, with a directory for everyone."""
    m = mount("allow_other")
    os.chmod(m.backing, 0o755)
    os.mkdir(m.mnt / "all")
    os.chmod(m.mnt / "all", 0o777)
    return m.mnt


def test_others_are_kept_out_without_allow_other(fs, file, root):
    assert error_of(as_nobody, lambda: os.stat(file)) == "EACCES"


def test_permissions_of_another_user(shared):
    secret = shared / "secret"
    secret.write_bytes(b"root's")
    secret.chmod(0o600)
    assert error_of(as_nobody, secret.read_bytes) == "EACCES"
    assert (
        error_of(as_nobody, lambda: os.open(shared / "new", os.O_CREAT | os.O_WRONLY)) == "EACCES"
    )
    assert error_of(as_nobody, lambda: os.mkdir(shared / "new")) == "EACCES"
    assert error_of(as_nobody, lambda: os.unlink(secret)) == "EACCES"
    secret.chmod(0o644)
    assert as_nobody(secret.read_bytes) == b"root's"
    assert error_of(as_nobody, lambda: os.open(secret, os.O_WRONLY)) == "EACCES"
    assert error_of(as_nobody, lambda: os.truncate(secret, 0)) == "EACCES"
    assert error_of(as_nobody, lambda: os.chmod(secret, 0o666)) == "EPERM"
    assert error_of(as_nobody, lambda: os.chown(secret, NOBODY, NOBODY)) == "EPERM"
    assert error_of(as_nobody, lambda: os.utime(secret, (1, 1))) == "EPERM"
    assert as_nobody(lambda: os.access(secret, os.R_OK)) is True
    assert as_nobody(lambda: os.access(secret, os.W_OK)) is False


def test_new_entries_belong_to_their_maker(shared):
    def make():
        os.umask(0o027)
        (shared / "all" / "f").write_bytes(b"mine")
        os.mkdir(shared / "all" / "d")
        os.symlink("f", shared / "all" / "l")
        os.mkfifo(shared / "all" / "p")

    as_nobody(make)
    for name in "fdlp":
        got = os.lstat(shared / "all" / name)
        assert (got.st_uid, got.st_gid) == (NOBODY, NOBODY), name
    assert stat.S_IMODE(os.stat(shared / "all" / "f").st_mode) == 0o640
    assert stat.S_IMODE(os.stat(shared / "all" / "d").st_mode) == 0o750


@pytest.mark.concurrent
def test_each_maker_has_its_own_umask(fs):
    """Also when many come at once, for whom the daemon starts threads from
    threads that served others."""

    def make(mask):
        os.umask(mask)
        for number in range(20):
            os.close(
                os.open(fs / f"{mask:03o}-{os.getpid()}-{number}", os.O_CREAT | os.O_WRONLY, 0o666)
            )

    for _ in range(4):
        children = []
        for mask in (0o077, 0o027, 0) * 4:
            pid = os.fork()
            if pid == 0:
                try:
                    make(mask)
                finally:
                    os._exit(0)
            children.append(pid)
        for pid in children:
            os.waitpid(pid, 0)
    wrong = [
        e.name
        for e in os.scandir(fs)
        if stat.S_IMODE(e.stat().st_mode) != 0o666 & ~int(e.name[:3], 8)
    ]
    assert len(os.listdir(fs)) == 4 * 12 * 20 and not wrong, wrong[:10]


def test_sticky_and_setgid_directories(shared):
    (shared / "all" / "roots").touch()
    os.chmod(shared / "all", 0o1777)
    assert error_of(as_nobody, lambda: os.unlink(shared / "all" / "roots")) in ("EPERM", "EACCES")
    os.mkdir(shared / "group")
    os.chown(shared / "group", 0, 777)
    os.chmod(shared / "group", 0o2777)
    as_nobody(lambda: (shared / "group" / "f").touch())
    assert os.stat(shared / "group" / "f").st_gid == 777


def test_supplementary_groups_count(shared):
    path = shared / "for-group"
    path.write_bytes(b"group")
    os.chown(path, 0, 4242)
    path.chmod(0o060)
    assert error_of(as_nobody, path.read_bytes) == "EACCES"
    assert as_nobody(path.read_bytes, groups=[4242]) == b"group"


def make_each_kind(directory):
    (directory / "file").write_bytes(b"group")
    os.mkdir(directory / "dir")
    os.symlink("file", directory / "link")
    os.mkfifo(directory / "fifo")


@pytest.mark.parametrize("mode, group", [(0o770, NOBODY), (0o2770, 4242)])
def test_who_may_create_by_a_supplementary_group_owns_it(shared, mode, group):
    directory = shared / "group"
    os.mkdir(directory)
    os.chown(directory, 0, 4242)
    os.chmod(directory, mode)
    assert error_of(as_nobody, lambda: make_each_kind(directory)) == "EACCES"
    as_nobody(lambda: make_each_kind(directory), groups=[4242])
    owners = {e.name: e.stat(follow_symlinks=False) for e in os.scandir(directory)}
    assert {n: (st.st_uid, st.st_gid) for n, st in owners.items()} == dict.fromkeys(
        ("file", "dir", "link", "fifo"), (NOBODY, group)
    )


def test_what_is_created_is_never_roots_for_an_instant(mount, root):
    """Whoever gives a file away by its name may give away another one, moved there meanwhile."""
    m = mount("allow_other")
    os.chmod(m.backing, 0o770)
    os.chown(m.backing, 0, 4242)

    def first_owner(name):
        while True:
            try:
                return os.lstat(m.backing / name).st_uid
            except FileNotFoundError:
                pass

    def make_many():
        for i in range(300):
            os.mkdir(m.mnt / f"{i}")
            (m.mnt / f"{i}-file").touch()

    with ThreadPoolExecutor(1) as pool:
        made = pool.submit(as_nobody, make_many, groups=[4242])
        names = [n for i in range(300) for n in (f"{i}", f"{i}-file.b2frame")]
        assert {first_owner(name) for name in names} == {NOBODY}
        made.result()


def test_set_id_bits_are_cleared_by_a_write(shared):
    def story(change):
        path = shared / "all" / "program"
        path.write_bytes(b"x" * 10_000)
        path.chmod(0o6755)
        assert stat.S_IMODE(path.stat().st_mode) == 0o6755
        change(path)
        mode = stat.S_IMODE(path.stat().st_mode)
        path.unlink()
        return mode

    assert as_nobody(lambda: story(lambda p: write_at(p, 5, b"y"))) == 0o755
    assert as_nobody(lambda: story(lambda p: os.truncate(p, 5))) == 0o755
    assert as_nobody(lambda: story(lambda p: os.chmod(p, 0o6755))) == 0o6755


def test_direct_writes_clear_set_id_bits(mount, root):
    """They come to the daemon past the page cache, each with what the kernel
    knows of its caller."""
    m = mount("allow_other")
    os.chmod(m.backing, 0o755)
    path = m.mnt / "program"
    path.write_bytes(b"x" * 8192)
    os.chown(path, NOBODY, NOBODY)

    def write():
        fd = os.open(path, os.O_RDWR | os.O_DIRECT)
        with mmap.mmap(-1, 4096) as page:
            os.pwrite(fd, page, 4096)
        os.close(fd)

    for mode, left in ((0o6755, 0o755), (0o2745, 0o2745), (0o755, 0o755)):
        os.chmod(path, mode)
        write()
        assert stat.S_IMODE(path.stat().st_mode) == mode, "root may keep them"
        as_nobody(write)
        assert stat.S_IMODE(path.stat().st_mode) == left


def test_plain_files_lose_set_id_bits(mount, root):
    """A file of the backing directory that is no frame: the daemon, who is
    root, must not keep them for others."""
    m = mount("allow_other")
    os.chmod(m.backing, 0o755)
    (m.backing / "plain").write_bytes(b"x" * 1000)
    os.chown(m.backing / "plain", NOBODY, NOBODY)
    path = m.mnt / "plain"
    for change in (
        lambda: write_at(path, 5, b"y", os.O_RDWR),
        lambda: os.truncate(path, 700),
        lambda: os.close(os.open(path, os.O_WRONLY | os.O_TRUNC)),
    ):
        os.chmod(path, 0o6755)
        change()
        kept = stat.S_IMODE(path.stat().st_mode)
        as_nobody(change)
        assert stat.S_IMODE(path.stat().st_mode) == 0o755 and kept & stat.S_ISGID


def test_capabilities_set_before_the_flush_stay(mount, root):
    """What the daemon writes after the application has set them must not take
    them away, on the disk either."""
    m = mount("commit=0")
    capability = struct.pack("<IIIII", 0x2000001, 1 << 10, 0, 0, 0)
    for name, end in (("synced", os.fsync), ("closed", lambda fd: None)):
        fd = os.open(m.mnt / name, os.O_CREAT | os.O_RDWR)
        os.write(fd, blob(3, 3 * MiB, "text"))
        os.setxattr(fd, "security.capability", capability)
        end(fd)
        if name == "synced":
            assert os.getxattr(m.stored(name), "security.capability") == capability
        os.close(fd)
        assert os.getxattr(m.mnt / name, "security.capability") == capability
    m.remount()
    for name in ("synced", "closed"):
        assert os.getxattr(m.mnt / name, "security.capability") == capability
        assert (m.mnt / name).read_bytes() == blob(3, 3 * MiB, "text")
        write_at(m.mnt / name, 5, b"y", os.O_RDWR)
        assert error_of(os.getxattr, m.mnt / name, "security.capability") == "ENODATA"
        assert error_of(os.getxattr, m.stored(name), "security.capability") == "ENODATA"


CAPS = "security.capability"
CAPABILITY = struct.pack("<IIIII", 0x2000001, 1 << 10, 0, 0, 0)


def capabilities(path):
    try:
        return os.getxattr(path, CAPS)
    except OSError as error:
        return errno.errorcode[error.errno]


def set_with_data_in_flight(m, name):
    """An open file whose capabilities the daemon's own writes have taken from
    the backing file since."""
    fd = os.open(m.mnt / name, os.O_CREAT | os.O_RDWR)
    os.pwrite(fd, blob(6, 4 * MiB, "noise"), 0)
    os.setxattr(fd, CAPS, CAPABILITY)
    os.posix_fadvise(
        fd, 0, 0, os.POSIX_FADV_DONTNEED
    )  # the kernel's pages go to the daemon, full chunks to its workers
    wait_until(lambda: capabilities(m.stored(name)) == "ENODATA", 250, "a write of the daemon")
    assert capabilities(fd) == CAPABILITY
    return fd


def test_changes_after_capabilities_that_the_daemon_took(mount, root):
    """The kernel removes what it was told is there: that the backing file has
    none by then is nobody's failure."""
    m = mount("commit=0")
    for number, change in enumerate(
        (
            lambda fd: os.pwrite(fd, b"x" * 10, 100),
            lambda fd: os.ftruncate(fd, 5 * MiB),
            lambda fd: os.fchown(fd, 1234, 1234),
            lambda fd: os.removexattr(fd, CAPS),
        )
    ):
        fd = set_with_data_in_flight(m, f"f{number}")
        assert error_of(change, fd) is None
        assert capabilities(fd) == "ENODATA"
        os.fsync(fd)
        os.close(fd)
        assert (
            capabilities(m.mnt / f"f{number}") == capabilities(m.stored(f"f{number}")) == "ENODATA"
        )


def test_flags_of_setxattr_see_capabilities_that_the_daemon_took(mount, root):
    """And a call that fails leaves the ones before."""
    m = mount("commit=0")
    for name, flags, fails in (
        ("create", os.XATTR_CREATE, "EEXIST"),
        ("replace", os.XATTR_REPLACE, None),
    ):
        fd = set_with_data_in_flight(m, name)
        assert error_of(os.setxattr, fd, CAPS, CAPABILITY, flags) == fails
        os.fsync(fd)
        assert capabilities(fd) == capabilities(m.stored(name)) == CAPABILITY
        os.close(fd)


def test_capabilities_are_not_given_to_foreign_content(mount, root):
    """Another program replaces the content of a frame that is open: what the
    kernel took away there stays away."""
    m = mount("attr_timeout=0")
    for name in "fg":
        (m.mnt / name).write_bytes(blob(ord(name), 300_000, "noise"))
        sync(m.mnt / name)
    fd = os.open(m.mnt / "f", os.O_RDWR)
    os.setxattr(fd, CAPS, CAPABILITY)
    m.stored("f").write_bytes(m.stored("g").read_bytes())
    assert capabilities(m.stored("f")) == "ENODATA"
    wait_until(
        lambda: (m.mnt / "f").read_bytes() == (m.mnt / "g").read_bytes(), 250, "the other content"
    )
    assert capabilities(fd) == "ENODATA"
    os.fsync(fd)
    assert capabilities(m.stored("f")) == "ENODATA"
    os.setxattr(fd, CAPS, CAPABILITY)
    os.removexattr(m.stored("f"), CAPS)
    os.fsync(fd)
    assert capabilities(fd) == capabilities(m.stored("f")) == "ENODATA"
    os.close(fd)


def test_capabilities_set_behind_the_mount_do_not_outlive_a_write(mount, root):
    """The kernel was told that there are none and removes none: the daemon's
    write to the backing file has to."""
    m = mount("attr_timeout=3600,commit=0")
    fd = os.open(m.mnt / "f", os.O_CREAT | os.O_RDWR)
    os.pwrite(fd, b"x" * 5000, 0)
    os.fsync(fd)
    os.setxattr(m.stored("f"), CAPS, CAPABILITY)
    os.pwrite(fd, b"y" * 5000, 0)
    os.fsync(fd)
    assert capabilities(m.stored("f")) == "ENODATA"
    os.close(fd)


def test_capabilities_outlive_a_mapping(mount, root):
    """Changes of mapped pages take nothing away on a kernel file system, so the
    write that brings them must not either."""
    m = mount("commit=0")
    path = m.mnt / "f"
    path.write_bytes(blob(8, 300_000, "noise"))
    os.setxattr(path, CAPS, CAPABILITY)
    m.remount()
    for byte, end in ((b"a", os.fsync), (b"b", lambda fd: None)):
        fd = os.open(path, os.O_RDWR)
        with mmap.mmap(fd, 4096) as page:
            page[:1] = byte
            page.flush()
        end(fd)
        os.close(fd)
        assert path.read_bytes()[:1] == byte
        assert capabilities(path) == capabilities(m.stored("f")) == CAPABILITY
    write_at(path, 5, b"y", os.O_RDWR)
    assert capabilities(path) == capabilities(m.stored("f")) == "ENODATA"


def test_capabilities_outlive_the_closing_of_gaps(mount, root):
    m = mount("chunksize=64K,codec=lz4,commit=0.2")
    fd, before = with_gap(m)
    os.setxattr(fd, CAPS, CAPABILITY)
    wait_until(lambda: os.stat(m.stored("f")).st_size < before * 0.8, 250, "a shorter file")
    wait_until(lambda: capabilities(m.stored("f")) == CAPABILITY, 250, "the capabilities")
    assert capabilities(fd) == CAPABILITY
    os.close(fd)
    m.unmount()
    assert capabilities(m.stored("f")) == CAPABILITY


def test_a_write_is_not_a_question(mount):
    """Whether a file has capabilities is asked once, not before each write."""
    if tuple(int(n) for n in re.findall(r"\d+", os.uname().release)[:2]) < (5, 12):
        pytest.skip("this kernel asks each time")
    m = mount("attr_timeout=3600")
    if "the kernel will ask before each write" in m.log_text():
        pytest.skip("this libfuse lets nobody in between")
    fd = os.open(m.mnt / "f", os.O_CREAT | os.O_RDWR)

    def asked():
        return json.loads(os.getxattr(m.mnt, "user.cframefs.stats"))["requests"]["getxattr"]

    before = asked()
    for at in range(2000):
        os.pwrite(fd, b"x" * 100, at * 100)
    questions = asked() - before
    os.close(fd)
    assert questions < 50, f"{questions} for 2,000 writes"


def test_read_only_mount(mount):
    m = mount()
    (m.mnt / "f").write_bytes(b"content")
    os.mkdir(m.mnt / "d")
    m.remount("ro")
    assert (m.mnt / "f").read_bytes() == b"content"
    for call in (
        lambda: os.open(m.mnt / "f", os.O_WRONLY),
        lambda: os.open(m.mnt / "n", os.O_CREAT | os.O_WRONLY),
        lambda: os.unlink(m.mnt / "f"),
        lambda: os.rmdir(m.mnt / "d"),
        lambda: os.mkdir(m.mnt / "n"),
        lambda: os.rename(m.mnt / "f", m.mnt / "g"),
        lambda: os.chmod(m.mnt / "f", 0o600),
        lambda: os.truncate(m.mnt / "f", 0),
        lambda: os.setxattr(m.mnt / "f", "user.x", b""),
    ):
        assert error_of(call) == "EROFS"
    assert (m.backing / "f.b2frame").exists()
