"""Lookup, attributes and extended attributes; result or errno of each call."""

import ctypes
import os
import stat
import subprocess
import time

import pytest

from libdata import blob
from libmount import umount
from libposix import error_of, sync, write_at

MiB = 1 << 20


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


def dots(path):
    """The inode numbers by which a directory lists itself and the one above it."""
    libc, found = ctypes.CDLL(None), {}
    libc.opendir.restype = libc.readdir64.restype = ctypes.c_void_p
    directory = ctypes.c_void_p(libc.opendir(os.fsencode(path)))
    while entry := libc.readdir64(directory):
        found[ctypes.string_at(entry + 19)] = ctypes.c_uint64.from_address(entry).value
    libc.closedir(directory)
    return found[b"."], found[b".."]


def test_other_file_systems_below_have_numbers_of_their_own(mount, root, work):
    """As subvolumes of btrfs do. Who finds a number twice takes it for one file: cp -a made links
    to the wrong content, and all of these tools left directories out."""
    m = mount()
    names = ("a", "b")
    try:
        for name in names:
            (m.backing / name).mkdir()
            command = ["mount", "-t", "tmpfs", "-o", "size=8M,mode=755", "none", m.backing / name]
            got = subprocess.run(command, capture_output=True, check=False, text=True)
            if got.returncode:
                pytest.skip(f"no mounts here: {got.stderr.strip()}")
            (m.mnt / name / "x").write_text(f"content of {name}")
            os.link(m.mnt / name / "x", m.mnt / name / "y")
            (m.mnt / name / "d").mkdir()
        for path, stored in (("", ""), ("x", "x.b2frame"), ("d", "d")):
            below = [os.stat(m.backing / name / stored).st_ino for name in names]
            shown = [os.stat(m.mnt / name / path).st_ino for name in names]
            assert below[0] == below[1] and shown[0] != shown[1]
        for name in names:
            listed = {e.name: e.inode() for e in os.scandir(m.mnt / name)}
            assert listed == {e: os.stat(m.mnt / name / e).st_ino for e in ("x", "y", "d")}
            assert listed["x"] == listed["y"]
            d = m.mnt / name / "d"
            assert dots(d) == (os.stat(d).st_ino, os.stat(d.parent).st_ino)
            assert os.statvfs(m.mnt / name).f_blocks == os.statvfs(m.backing / name).f_blocks
        copy = work / "copy"
        got = subprocess.run(["cp", "-a", m.mnt, copy], capture_output=True, text=True)
        assert got.returncode == 0 and got.stderr == ""
        for name in names:
            assert sorted(os.listdir(copy / name)) == ["d", "x", "y"]
            assert (copy / name / "x").read_text() == f"content of {name}"
    finally:
        m.unmount()
        for name in names:
            umount(m.backing / name)


def test_inode_numbers_are_distinct_and_stable(mount):
    m = mount()
    for name in "abc":
        (m.mnt / name).touch()
    before = {e.name: e.inode() for e in os.scandir(m.mnt)}
    assert len(set(before.values())) == 3
    assert before == {name: (m.mnt / name).stat().st_ino for name in "abc"}
    m.remount()
    assert before == {name: (m.mnt / name).stat().st_ino for name in "abc"}


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
    assert abs(os.stat(path).st_mtime - time.time()) < 60


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


def test_what_is_hidden_takes_no_room_in_a_list(mount):
    m = mount()
    (m.mnt / "f").write_bytes(b"data")
    os.setxattr(m.mnt / "f", "user.note", b"")
    os.setxattr(m.stored("f"), "user.cframefs.recompressed", b"hidden")
    libc, names = ctypes.CDLL(None), ctypes.create_string_buffer(b"?" * 64)
    path = os.fsencode(m.mnt / "f")
    assert libc.listxattr(path, None, 0) == 10
    assert libc.listxattr(path, names, 10) == 10 and names.raw[:11] == b"user.note\0?"
    assert libc.listxattr(path, names, 9) == -1
    os.removexattr(m.mnt / "f", "user.note")
    assert libc.listxattr(path, None, 0) == libc.listxattr(path, names, 1) == 0


def test_xattrs_stay(mount):
    m = mount()
    (m.mnt / "f").write_bytes(b"data")
    os.setxattr(m.mnt / "f", "user.note", b"kept")
    write_at(m.mnt / "f", 0, b"DATA")
    os.rename(m.mnt / "f", m.mnt / "g")
    m.remount()
    assert os.getxattr(m.mnt / "g", "user.note") == b"kept"


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
