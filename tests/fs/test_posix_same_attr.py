"""Stories of attributes played on a plain directory and on the mount: times, extended attributes,
file capabilities, the figures of the file system."""

import os
import struct
import time

import pytest

from libposix import (
    KEEP_SIZE,
    NOBODY,
    PUNCH_HOLE,
    ZERO_RANGE,
    error_of,
    fallocate,
    in_child,
    write_at,
)
from libstory import Stories, assert_same_story, opened

story = Stories()


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


@pytest.mark.parametrize("play", story, ids=lambda f: f.__name__)
def test_same(mount, plain, root, play):
    m = mount("allow_other")
    assert_same_story(play, plain, m)
