"""The calls of a file system, each with the result or the errno that POSIX and Linux give it."""

import fcntl
import mmap
import os
import socket
import stat
import subprocess
import time

import pytest

from libdata import blob
from libposix import (COLLAPSE_RANGE, KEEP_SIZE, NOBODY, PUNCH_HOLE, RENAME_EXCHANGE, RENAME_NOREPLACE, ZERO_RANGE,
                      Dir, as_nobody, error_of, fallocate, in_child, punch, read_direct, renameat2, sync, write_at)

MiB = 1 << 20


@pytest.fixture
def file(fs):
    """A file of 300,000 bytes of text."""
    path = fs / "file"
    path.write_bytes(blob(1, 300_000, "text"))
    return path


@pytest.fixture
def fd(file):
    fd = os.open(file, os.O_RDWR)
    yield fd
    os.close(fd)


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
    for call in (lambda: os.open(too_long, os.O_CREAT | os.O_WRONLY), lambda: os.mkdir(too_long),
                 lambda: os.rename(longest, too_long), lambda: os.link(longest, too_long),
                 lambda: os.symlink("x", too_long), lambda: os.mknod(too_long, stat.S_IFIFO | 0o600)):
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
    du = subprocess.run(["du", "-k", m.mnt / "runs"], capture_output=True, text=True, check=True).stdout
    apparent = subprocess.run(["du", "-k", "--apparent-size", m.mnt / "runs"], capture_output=True, text=True, check=True).stdout
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


# ---- directories

def test_mkdir_and_rmdir(fs, file):
    os.umask(0o022)
    os.mkdir(fs / "d", 0o777)
    assert stat.S_IMODE(os.stat(fs / "d").st_mode) == 0o755 and os.stat(fs / "d").st_nlink == 2
    os.mkdir(fs / "d" / "e")
    assert os.stat(fs / "d").st_nlink == 3
    assert error_of(os.mkdir, fs / "d") == "EEXIST"
    assert error_of(os.mkdir, file) == "EEXIST"
    assert error_of(os.mkdir, fs / "absent" / "d") == "ENOENT"
    assert error_of(os.mkdir, file / "d") == "ENOTDIR"
    assert error_of(os.rmdir, fs / "d") == "ENOTEMPTY"
    assert error_of(os.rmdir, file) == "ENOTDIR"
    assert error_of(os.rmdir, fs / "absent") == "ENOENT"
    assert error_of(os.unlink, fs / "d" / "e") == "EISDIR"
    os.rmdir(fs / "d" / "e")
    os.rmdir(fs / "d")
    assert error_of(os.stat, fs / "d") == "ENOENT"


def test_directory_not_empty_because_of_a_frame(fs):
    os.mkdir(fs / "d")
    (fs / "d" / "f").touch()
    assert error_of(os.rmdir, fs / "d") == "ENOTEMPTY"
    os.unlink(fs / "d" / "f")
    os.rmdir(fs / "d")


def test_directory_with_only_a_hidden_lock_can_be_removed(mount):
    m = mount()
    os.mkdir(m.mnt / "d")
    (m.backing / "d" / "x.b2frame.b2lock").write_bytes(bytes(16))
    assert os.listdir(m.mnt / "d") == []
    os.rmdir(m.mnt / "d")
    assert not (m.backing / "d").exists()


def test_readdir_of_thousands(fs):
    names = {f"entry-{i:05}" for i in range(3000)}
    for name in names:
        os.close(os.open(fs / name, os.O_CREAT | os.O_WRONLY))
    stream = Dir(fs)
    got = stream.names()
    assert len(got) == 3002 and set(got) == names | {".", ".."}
    stream.rewind()
    assert sorted(stream.names()) == sorted(got)
    stream.close()


def test_readdir_rewind_sees_changes_and_types(fs):
    (fs / "f").touch()
    os.mkdir(fs / "d")
    os.symlink("f", fs / "l")
    os.mkfifo(fs / "p")
    stream = Dir(fs)
    kinds = dict(iter(stream.read, None))
    assert kinds == {".": 4, "..": 4, "f": 8, "d": 4, "l": 10, "p": 1}
    (fs / "new").touch()
    os.unlink(fs / "f")
    stream.rewind()
    assert set(stream.names()) == {".", "..", "d", "l", "p", "new"}
    stream.close()


def test_seekdir_returns_to_a_place(fs):
    for i in range(500):
        (fs / f"e{i}").touch()
    stream = Dir(fs)
    for _ in range(250):
        stream.read()
    place = stream.tell()
    rest = stream.names()
    assert len(rest) == 252
    stream.seek(place)
    assert stream.names() == rest
    stream.close()


def test_unlink_while_reading_a_directory(fs):
    for i in range(1500):
        (fs / f"victim-{i}").touch()
    stream = Dir(fs)
    for name in iter(stream.read, None):
        if name[0].startswith("victim"):
            os.unlink(fs / name[0])
    stream.close()
    assert os.listdir(fs) == []


# ---- create and open

def test_open_flags(fs, file):
    assert error_of(os.open, file, os.O_CREAT | os.O_EXCL | os.O_WRONLY) == "EEXIST"
    fd = os.open(fs / "new", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o640)
    assert stat.S_IMODE(os.fstat(fd).st_mode) == 0o640
    assert error_of(os.read, fd, 1) == "EBADF"
    os.close(fd)
    fd = os.open(file, os.O_RDONLY)
    assert error_of(os.write, fd, b"x") == "EBADF"
    assert error_of(os.ftruncate, fd, 1) == "EINVAL"
    os.close(fd)
    os.close(os.open(file, os.O_WRONLY | os.O_TRUNC))
    assert os.stat(file).st_size == 0
    assert error_of(os.open, fs, os.O_CREAT | os.O_WRONLY) == "EISDIR"


def test_create_without_write_permission_in_mode(fs):
    fd = os.open(fs / "readonly", os.O_CREAT | os.O_WRONLY, 0o400)
    os.write(fd, b"written all the same")
    os.close(fd)
    assert (fs / "readonly").read_bytes() == b"written all the same"


def test_write_only_then_partial_overwrite(fs, file):
    """A write of a piece needs the old bytes of its block, whatever the descriptor may do."""
    expect = bytearray(file.read_bytes())
    fd = os.open(file, os.O_WRONLY)
    os.pwrite(fd, b"piece", 123_457)
    os.close(fd)
    expect[123_457:123_462] = b"piece"
    assert read_direct(file, 400_000) == expect


def test_o_sync_and_o_direct(mount):
    m = mount()
    data = blob(3, 2 * MiB, "floats")
    for name, flag in (("sync", os.O_SYNC), ("dsync", os.O_DSYNC), ("direct", os.O_DIRECT)):
        room = mmap.mmap(-1, len(data))
        room[:] = data
        fd = os.open(m.mnt / name, os.O_CREAT | os.O_RDWR | flag)
        assert os.writev(fd, [room]) == len(data)
        assert os.pwritev(fd, [memoryview(room)[:4096]], 8192) == 4096
        os.close(fd)
        expect = data[:8192] + data[:4096] + data[12288:]
        assert (m.mnt / name).read_bytes() == expect, name
        assert read_direct(m.mnt / name, len(data)) == expect, name


def test_truncate(fs, file):
    data = file.read_bytes()
    os.truncate(file, 100_001)
    assert file.read_bytes() == data[:100_001]
    os.truncate(file, 250_000)
    assert file.read_bytes() == data[:100_001] + bytes(149_999)
    assert read_direct(file, 300_000) == data[:100_001] + bytes(149_999)
    os.truncate(file, 0)
    assert os.stat(file).st_size == 0 and file.read_bytes() == b""
    assert error_of(os.truncate, fs, 0) == "EISDIR"
    assert error_of(os.truncate, fs / "absent", 0) == "ENOENT"
    assert error_of(os.truncate, file, -1) == "EINVAL"


def test_too_large_is_refused(fd, file):
    before = os.fstat(fd).st_size
    assert error_of(os.pwrite, fd, b"x", (1 << 63) - 1) in ("EFBIG", "EINVAL")
    assert error_of(os.ftruncate, fd, (1 << 63) - 1) in ("EFBIG", "EINVAL")
    assert os.fstat(fd).st_size == before
    assert os.pread(fd, 4, before) == b""


def test_sparse_file(fs):
    path = fs / "sparse"
    write_at(path, 3 * (1 << 30) + 17, b"far")
    assert os.stat(path).st_size == 3 * (1 << 30) + 20
    fd = os.open(path, os.O_RDONLY)
    assert os.pread(fd, 3, 3 * (1 << 30) + 17) == b"far"
    assert os.pread(fd, 70_000, 1 << 30) == bytes(70_000)
    os.fsync(fd)
    os.close(fd)
    assert os.stat(path).st_blocks * 512 < 4 * MiB


# ---- rename

def test_rename_replaces(fs, file):
    data = file.read_bytes()
    (fs / "target").write_bytes(b"old")
    held = os.open(fs / "target", os.O_RDONLY)
    os.rename(file, fs / "target")
    assert os.listdir(fs) == ["target"] and (fs / "target").read_bytes() == data
    assert os.pread(held, 10, 0) == b"old"
    os.close(held)


def test_rename_errors(fs, file):
    os.makedirs(fs / "d" / "sub")
    os.mkdir(fs / "empty")
    assert error_of(os.rename, fs / "absent", fs / "x") == "ENOENT"
    assert error_of(os.rename, file, fs / "d") == "EISDIR"
    assert error_of(os.rename, fs / "d", file) == "ENOTDIR"
    assert error_of(os.rename, fs / "empty", fs / "d") in ("ENOTEMPTY", "EEXIST")
    assert error_of(os.rename, fs / "d", fs / "d" / "sub" / "x") == "EINVAL"
    assert error_of(os.rename, file, file / "x") == "ENOTDIR"
    os.rename(fs / "d", fs / "empty")
    assert sorted(os.listdir(fs)) == ["empty", "file"] and os.listdir(fs / "empty") == ["sub"]


def test_rename_noreplace(fs, file):
    data = file.read_bytes()
    (fs / "other").write_bytes(b"other")
    assert error_of(renameat2, file, fs / "other", RENAME_NOREPLACE) == "EEXIST"
    assert (fs / "other").read_bytes() == b"other"
    renameat2(file, fs / "fresh", RENAME_NOREPLACE)
    assert (fs / "fresh").read_bytes() == data and not file.exists()


def test_rename_exchange(mount):
    m = mount()
    (m.mnt / "a").write_bytes(b"content of a")
    (m.mnt / "b").write_bytes(b"content of b, longer")
    os.mkdir(m.mnt / "d")
    (m.mnt / "d" / "inside").write_bytes(b"inside")
    renameat2(m.mnt / "a", m.mnt / "b", RENAME_EXCHANGE)
    assert error_of(renameat2, m.mnt / "a", m.mnt / "absent", RENAME_EXCHANGE) == "ENOENT"
    for _ in range(2):
        assert (m.mnt / "a").read_bytes() == b"content of b, longer"
        assert (m.mnt / "b").read_bytes() == b"content of a"
        m.remount()
    renameat2(m.mnt / "a", m.mnt / "d", RENAME_EXCHANGE)
    for _ in range(2):
        assert (m.mnt / "d").read_bytes() == b"content of b, longer"
        assert (m.mnt / "a" / "inside").read_bytes() == b"inside"
        m.remount()


def test_rename_of_an_open_dirty_file(mount):
    m = mount()
    fd = os.open(m.mnt / "a", os.O_CREAT | os.O_RDWR)
    os.write(fd, b"before ")
    os.mkdir(m.mnt / "d")
    os.rename(m.mnt / "a", m.mnt / "d" / "b")
    os.write(fd, b"after")
    os.close(fd)
    assert (m.mnt / "d" / "b").read_bytes() == b"before after"
    m.remount()
    assert (m.mnt / "d" / "b").read_bytes() == b"before after" and os.listdir(m.mnt) == ["d"]


def test_rename_of_two_links_of_one_file_does_nothing(fs, file):
    os.link(file, fs / "second")
    os.rename(file, fs / "second")
    assert sorted(os.listdir(fs)) == ["file", "second"]


# ---- link, symlink, mknod

def test_link(mount):
    m = mount()
    (m.mnt / "a").write_bytes(b"first")
    os.link(m.mnt / "a", m.mnt / "b")
    for name in "ab":
        assert os.stat(m.mnt / name).st_nlink == 2
    assert os.stat(m.mnt / "a").st_ino == os.stat(m.mnt / "b").st_ino
    write_at(m.mnt / "b", 0, b"FIRST and more")
    assert (m.mnt / "a").read_bytes() == b"FIRST and more"
    os.mkdir(m.mnt / "d")
    assert error_of(os.link, m.mnt / "a", m.mnt / "b") == "EEXIST"
    assert error_of(os.link, m.mnt / "d", m.mnt / "e") == "EPERM"
    m.remount()
    write_at(m.mnt / "a", 0, b"Once ")
    assert (m.mnt / "b").read_bytes() == b"Once  and more"
    os.unlink(m.mnt / "a")
    assert os.stat(m.mnt / "b").st_nlink == 1 and (m.mnt / "b").read_bytes() == b"Once  and more"


def test_write_through_both_links_at_once(fs):
    """Two names, one file: both descriptors see one state, dirty chunks included."""
    (fs / "a").write_bytes(bytes(100_000))
    os.link(fs / "a", fs / "b")
    one, two = os.open(fs / "a", os.O_RDWR), os.open(fs / "b", os.O_RDWR)
    os.pwrite(one, b"one", 10)
    os.pwrite(two, b"two", 20)
    os.ftruncate(one, 50_000)
    assert os.pread(two, 100, 5) == bytes(5) + b"one" + bytes(7) + b"two" + bytes(82)
    assert os.fstat(two).st_size == 50_000
    os.close(one)
    os.close(two)


def test_symlink(fs, file):
    os.symlink("file", fs / "to-file")
    os.symlink("nowhere", fs / "dangling")
    os.symlink("x" * 4000, fs / "long")
    os.symlink("loop", fs / "loop")
    assert os.readlink(fs / "to-file") == "file" and os.readlink(fs / "long") == "x" * 4000
    assert (fs / "to-file").read_bytes() == file.read_bytes()
    assert os.lstat(fs / "to-file").st_size == 4 and stat.S_ISLNK(os.lstat(fs / "to-file").st_mode)
    assert error_of(os.stat, fs / "dangling") == "ENOENT"
    assert error_of(os.stat, fs / "loop") == "ELOOP"
    assert error_of(os.open, fs / "to-file", os.O_RDONLY | os.O_NOFOLLOW) == "ELOOP"
    assert error_of(os.readlink, file) == "EINVAL"
    assert error_of(os.symlink, "x", fs / "to-file") == "EEXIST"
    os.unlink(fs / "to-file")
    assert file.exists()


def test_fifo_carries_data(fs):
    os.mkfifo(fs / "fifo", 0o600)
    assert stat.S_ISFIFO(os.stat(fs / "fifo").st_mode)
    reader = subprocess.Popen(["cat", fs / "fifo"], stdout=subprocess.PIPE)
    (fs / "fifo").write_bytes(b"through the fifo")
    assert reader.communicate(timeout=20)[0] == b"through the fifo"


def test_socket_connects(fs, monkeypatch):
    monkeypatch.chdir(fs)  # socket addresses are short
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        server.bind("sock")
        server.listen()
        assert stat.S_ISSOCK(os.stat("sock").st_mode)
        client.connect("sock")
        server.accept()[0].sendall(b"hello")
        assert client.recv(5) == b"hello"


def test_mknod(fs, root):
    os.mknod(fs / "regular", stat.S_IFREG | 0o600)
    assert (fs / "regular").read_bytes() == b"" and stat.S_ISREG(os.stat(fs / "regular").st_mode)
    (fs / "regular").write_bytes(b"a frame like any other")
    assert (fs / "regular").read_bytes() == b"a frame like any other"
    os.mknod(fs / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    got = os.stat(fs / "null")
    assert stat.S_ISCHR(got.st_mode) and got.st_rdev == os.makedev(1, 3)
    assert error_of(os.mknod, fs / "null", stat.S_IFIFO | 0o600) == "EEXIST"


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
    m = mount("commit=1")
    fd = os.open(m.mnt / "f", os.O_CREAT | os.O_RDWR)
    os.write(fd, blob(4, 3 * MiB, "floats"))
    written = times(m.mnt / "f")
    assert abs(written[0] / 1e9 - time.time()) < 10
    time.sleep(2.5)  # a background commit passes by
    assert times(m.mnt / "f") == written
    os.fsync(fd)
    assert times(m.mnt / "f") == written
    os.close(fd)
    assert times(m.mnt / "f") == written
    m.remount()
    assert times(m.mnt / "f")[0] == written[0]


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
        moved = {name for name in ("mtime", "ctime")
                 if getattr(after, f"st_{name}_ns") > getattr(before, f"st_{name}_ns")}
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
    for call in (lambda: (fs / "d" / "f").touch(), lambda: os.rename(fs / "d" / "f", fs / "d" / "g"),
                 lambda: os.link(fs / "d" / "g", fs / "d" / "h"), lambda: os.unlink(fs / "d" / "g"),
                 lambda: os.mkdir(fs / "d" / "sub"), lambda: os.symlink("x", fs / "d" / "l")):
        before = times(fs / "d")
        time.sleep(0.02)
        call()
        after = times(fs / "d")
        assert after[0] > before[0] and after[1] > before[1]


# ---- fsync, fallocate, lseek

def test_fsync_of_files_and_directories(fs, fd):
    os.pwrite(fd, b"synced", 0)
    os.fsync(fd)
    os.fdatasync(fd)
    directory = os.open(fs, os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(directory)
    os.fdatasync(directory)
    os.close(directory)


def test_fsynced_data_survives_a_kill(mount):
    m = mount("commit=3600")
    data = blob(6, 3 * MiB + 17, "floats")
    fd = os.open(m.mnt / "f", os.O_CREAT | os.O_RDWR)
    os.write(fd, data)
    os.fsync(fd)
    m.kill()
    assert error_of(os.close, fd) in (None, "ENOTCONN")
    m.start()
    assert (m.mnt / "f").read_bytes() == data


def test_fallocate_modes(fs, file, fd):
    data = bytearray(file.read_bytes())
    fallocate(fd, KEEP_SIZE, 0, 2 * MiB)
    assert os.fstat(fd).st_size == len(data)
    fallocate(fd, 0, 100_000, 400_000)
    data += bytes(500_000 - len(data))
    assert os.fstat(fd).st_size == 500_000 and read_direct(file, 600_000) == data
    punch(fd, 70_001, 130_000)
    data[70_001:200_001] = bytes(130_000)
    assert file.read_bytes() == data and read_direct(file, 600_000) == data
    os.pwrite(fd, b"\xff" * 500_000, 0)
    data[:] = b"\xff" * 500_000
    fallocate(fd, ZERO_RANGE, 499_990, 100)
    data[499_990:] = bytes(100)
    assert read_direct(file, 600_000) == data and os.fstat(fd).st_size == 500_090
    fallocate(fd, ZERO_RANGE | KEEP_SIZE, 500_000, 10_000)
    assert os.fstat(fd).st_size == 500_090
    assert file.read_bytes() == data[:500_000] + bytes(90)
    punch(fd, 600_000, 10_000)  # beyond the end: nothing
    assert os.fstat(fd).st_size == 500_090


def test_fallocate_errors(fs, fd):
    assert error_of(fallocate, fd, PUNCH_HOLE, 0, 4096) in ("EOPNOTSUPP", "ENOTSUP")
    assert error_of(fallocate, fd, COLLAPSE_RANGE, 0, 4096) in ("EOPNOTSUPP", "ENOTSUP")
    assert error_of(fallocate, fd, 0, 0, 0) == "EINVAL"
    readonly = os.open(fs / "file", os.O_RDONLY)
    assert error_of(fallocate, readonly, 0, 0, 4096) == "EBADF"
    os.close(readonly)


def extents(fd):
    """[(start, end)] of data, as SEEK_DATA and SEEK_HOLE tell it."""
    found, at, size = [], 0, os.fstat(fd).st_size
    while at < size:
        try:
            start = os.lseek(fd, at, os.SEEK_DATA)
        except OSError:
            break
        at = os.lseek(fd, start, os.SEEK_HOLE)
        assert start < at <= size
        found.append((start, at))
    return found


def test_seek_data_right_after_a_write(fs):
    """The write may still be in the page cache, or in our dirty chunks: it is data all the same."""
    fd = os.open(fs / "f", os.O_CREAT | os.O_RDWR)
    os.ftruncate(fd, 64 * MiB)
    for offset in (0, 5 * MiB + 1, 33 * MiB, 64 * MiB - 3):
        os.pwrite(fd, b"abc", offset)
        at = os.lseek(fd, offset, os.SEEK_DATA)
        assert at == offset, "data may not be passed over"
        assert os.lseek(fd, offset, os.SEEK_HOLE) > offset + 2
    os.close(fd)


def test_holes_are_found(mount):
    m = mount("chunksize=64K,blocksize=16K")
    fd = os.open(m.mnt / "f", os.O_CREAT | os.O_RDWR)
    os.ftruncate(fd, 16 * MiB)
    os.pwrite(fd, blob(7, 300_000, "noise"), 4 * MiB)
    os.fsync(fd)
    os.close(fd)
    m.remount()
    fd = os.open(m.mnt / "f", os.O_RDONLY)
    found = extents(fd)
    assert any(a <= 4 * MiB and b >= 4 * MiB + 300_000 for a, b in found)
    assert sum(b - a for a, b in found) < 2 * MiB, "the holes were not seen"
    assert error_of(os.lseek, fd, 10 * MiB, os.SEEK_DATA) == "ENXIO"
    assert error_of(os.lseek, fd, 16 * MiB, os.SEEK_HOLE) == "ENXIO"
    assert os.lseek(fd, 0, os.SEEK_HOLE) == 0
    os.close(fd)


# ---- mmap

def test_shared_mmap(mount):
    m = mount()
    data = bytearray(blob(8, MiB + 777, "text"))
    (m.mnt / "f").write_bytes(data)
    fd = os.open(m.mnt / "f", os.O_RDWR)
    with mmap.mmap(fd, len(data)) as view:
        assert view[:] == data
        view[500_000:500_006] = b"mapped"
        data[500_000:500_006] = b"mapped"
        assert os.pread(fd, 6, 500_000) == b"mapped"
        os.pwrite(fd, b"written", 70_000)
        data[70_000:70_007] = b"written"
        assert view[70_000:70_007] == b"written"
        assert in_child(lambda: (m.mnt / "f").read_bytes()) == data
        view.flush()
        view[10:14] = b"late"
        data[10:14] = b"late"
    os.close(fd)
    m.remount()
    assert (m.mnt / "f").read_bytes() == data


def test_private_mmap_changes_nothing(file, fd):
    before = file.read_bytes()
    with mmap.mmap(fd, 0, access=mmap.ACCESS_COPY) as view:
        view[0:5] = b"12345"
    assert read_direct(file, 400_000) == before


def test_mmap_write_with_the_descriptor_closed(mount):
    m = mount()
    (m.mnt / "f").write_bytes(bytes(200_000))
    fd = os.open(m.mnt / "f", os.O_RDWR)
    view = mmap.mmap(fd, 200_000)
    os.close(fd)
    view[150_000:150_004] = b"kept"
    view.close()
    m.remount()
    assert (m.mnt / "f").read_bytes() == bytes(150_000) + b"kept" + bytes(49_996)


# ---- locks

@pytest.mark.parametrize("take, free", [
    (lambda fd: fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB), lambda fd: fcntl.flock(fd, fcntl.LOCK_UN)),
    (lambda fd: fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 100, 50), lambda fd: fcntl.lockf(fd, fcntl.LOCK_UN, 100, 50)),
], ids=["flock", "posix"])
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
    assert waiter.wait(10) == -9, "a waiter for a lock must be killable"
    waiter = subprocess.Popen(["flock", file, "true"])
    fcntl.flock(fd, fcntl.LOCK_UN)
    assert waiter.wait(10) == 0


# ---- unlinked but open, append

def test_unlinked_but_open(mount):
    m = mount()
    fd = os.open(m.mnt / "f", os.O_CREAT | os.O_RDWR)
    os.write(fd, b"a" * 100_000)
    os.unlink(m.mnt / "f")
    assert os.listdir(m.mnt) == [] and os.fstat(fd).st_nlink == 0
    os.pwrite(fd, b"still here", 200_000)
    assert os.pread(fd, 10, 200_000) == b"still here"
    os.fsync(fd)
    os.ftruncate(fd, 10)
    assert os.pread(fd, 100, 0) == b"a" * 10
    os.fchmod(fd, 0o640)
    assert stat.S_IMODE(os.fstat(fd).st_mode) == 0o640
    (m.mnt / "f").write_bytes(b"a new file of that name")
    os.pwrite(fd, b"OLD", 0)
    assert (m.mnt / "f").read_bytes() == b"a new file of that name"
    os.close(fd)
    os.unlink(m.mnt / "f")
    assert os.listdir(m.backing) == [], "nothing stays behind"


def test_replaced_but_open(fs):
    """What an editor does: the reader of the old file keeps it."""
    (fs / "f").write_bytes(b"old" * 1000)
    fd = os.open(fs / "f", os.O_RDWR)
    (fs / "f.new").write_bytes(b"new" * 2000)
    os.rename(fs / "f.new", fs / "f")
    os.pwrite(fd, b"xxx", 0)
    assert os.pread(fd, 6, 0) == b"xxxold" and os.fstat(fd).st_size == 3000
    assert (fs / "f").read_bytes() == b"new" * 2000
    os.close(fd)


def test_append(fs):
    fd = os.open(fs / "f", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    os.write(fd, b"one ")
    os.lseek(fd, 0, os.SEEK_SET)
    os.write(fd, b"two ")
    write_at(fs / "f", 100, b"far")
    os.write(fd, b"end")
    os.close(fd)
    assert (fs / "f").read_bytes() == b"one two " + bytes(92) + b"farend"


@pytest.mark.concurrent
def test_append_of_two_writers(fs):
    """Every record whole, none lost."""
    script = ("import os, sys\nfd = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY | os.O_APPEND)\n"
              "for i in range(2000): os.write(fd, f'{sys.argv[2]} {i:05}'.ljust(99).encode() + b'\\n')\n")
    writers = [subprocess.Popen(["python3", "-c", script, fs / "f", name]) for name in "ab"]
    assert [w.wait(60) for w in writers] == [0, 0]
    lines = (fs / "f").read_bytes().split(b"\n")[:-1]
    assert sorted(lines) == sorted(f"{name} {i:05}".ljust(99).encode() for name in "ab" for i in range(2000))


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
    assert error_of(as_nobody, lambda: os.open(shared / "new", os.O_CREAT | os.O_WRONLY)) == "EACCES"
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


def test_read_only_mount(mount):
    m = mount()
    (m.mnt / "f").write_bytes(b"content")
    os.mkdir(m.mnt / "d")
    m.remount("ro")
    assert (m.mnt / "f").read_bytes() == b"content"
    for call in (lambda: os.open(m.mnt / "f", os.O_WRONLY), lambda: os.open(m.mnt / "n", os.O_CREAT | os.O_WRONLY),
                 lambda: os.unlink(m.mnt / "f"), lambda: os.rmdir(m.mnt / "d"), lambda: os.mkdir(m.mnt / "n"),
                 lambda: os.rename(m.mnt / "f", m.mnt / "g"), lambda: os.chmod(m.mnt / "f", 0o600),
                 lambda: os.truncate(m.mnt / "f", 0), lambda: os.setxattr(m.mnt / "f", "user.x", b"")):
        assert error_of(call) == "EROFS"
    assert (m.backing / "f.b2frame").exists()
