"""Stories of data played on a plain directory and on the mount: offsets, lengths, maps, locks and
programs."""

import fcntl
import mmap
import os
import resource
import signal
import subprocess

import pytest

from libposix import (
    KEEP_SIZE,
    PUNCH_HOLE,
    ZERO_RANGE,
    error_of,
    fallocate,
    in_child,
)
from libstory import Stories, assert_same_story, opened, try_open

story = Stories()


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


@pytest.mark.parametrize("play", story, ids=lambda f: f.__name__)
def test_same(mount, plain, root, play):
    m = mount("allow_other")
    assert_same_story(play, plain, m)
