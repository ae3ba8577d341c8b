"""The n-th allocation of the daemon fails, for n = 1, 2, 3 ... until a story runs clean.

The caller is told ENOMEM, and the same works when it is tried again; the daemon lives, and no byte
is lost. CFRAMEFS_TEST_FAULTS=all tries every n, else every third.
"""

import contextlib
import errno
import os

import pytest

from libdata import blob
from libfault import Fault
from libmount import wait_until
from libposix import error_of
from libstats import stats

CHUNK = 16 << 10
EVERY = 1 if os.environ.get("CFRAMEFS_TEST_FAULTS") == "all" else 3


class Short:
    """A daemon one of whose allocations fails."""

    def __init__(self, mount, work, options):
        self.m = mount(f"{options},workers=1", start=False)
        self.m.allow("Cannot allocate memory", "closed with unwritten data")
        self.fault = Fault(self.m, work / "fault")
        self.m.start()
        self.told = 0

    def judge(self, error, *allowed):
        assert self.fault.came() and error.errno in allowed, error
        self.told += 1

    def call(self, call, *args, also=()):
        """What fails has failed for lack of memory, and works when it is tried again. `also`: what
        that may say instead, since the first try may have done it."""
        try:
            return call(*args)
        except OSError as error:
            self.judge(error, errno.ENOMEM)
        try:
            return call(*args)
        except OSError as error:
            self.judge(error, *also)

    def sync(self, fd, data):
        """Pages that the kernel could not write are lost to it, and told once: the program still
        has them."""
        try:
            os.fsync(fd)
        except OSError as error:
            self.judge(error, errno.ENOMEM)
            self.call(os.pwrite, fd, data, 0)
            os.fsync(fd)

    def write_and_close(self, path, data):
        """Of pages that could not be written the kernel says EIO here, whatever it was told."""
        fd = self.call(os.open, path, os.O_RDWR | os.O_CREAT)
        self.call(os.pwrite, fd, data, 0)
        try:
            os.close(fd)
        except OSError as error:
            self.judge(error, errno.ENOMEM, errno.EIO)
            path.write_bytes(data)


def play(short, top):
    """The files that are there in the end, with their bytes."""
    call = short.call
    data = bytearray(blob(1, 3 * CHUNK + 100, "text"))
    short.fd = fd = call(os.open, top / "f", os.O_RDWR | os.O_CREAT)
    call(os.pwrite, fd, data, 0)
    short.sync(fd, data)
    data[CHUNK - 50 : CHUNK + 50] = blob(2, 100, "noise")
    call(os.pwrite, fd, data[CHUNK - 50 : CHUNK + 50], CHUNK - 50)
    short.sync(fd, data)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    assert call(os.pread, fd, len(data), 0) == data
    call(os.link, top / "f", top / "g", also=[errno.EEXIST])
    call(os.rename, top / "g", top / "h", also=[errno.ENOENT])
    call(os.ftruncate, fd, CHUNK + 10)
    del data[CHUNK + 10 :]
    short.sync(fd, data)
    call(os.setxattr, top / "f", "user.a", b"value")
    assert call(os.getxattr, top / "f", "user.a") == b"value"
    call(os.mkdir, top / "d", also=[errno.EEXIST])
    call(os.symlink, "f", top / "d" / "s", also=[errno.EEXIST])
    assert call(os.listdir, top / "d") == ["s"] and sorted(call(os.listdir, top)) == ["d", "f", "h"]
    call(os.stat, top / "h")
    call(os.close, fd, also=[errno.EBADF])
    call(os.truncate, top / "f", CHUNK - 1)
    del data[CHUNK - 1 :]
    short.fd = fd = call(os.open, top / "h", os.O_RDONLY)
    assert call(os.pread, fd, len(data) + 1, 0) == data
    os.close(fd)
    short.write_and_close(top / "small", b"small")
    call(os.unlink, top / "h", also=[errno.ENOENT])
    return {"f": data, "small": b"small"}


@pytest.mark.release  # sanitizers have their own malloc
def test_out_of_memory(mount, work):
    short = Short(mount, work, "chunksize=16K,blocksize=4K,codec=lz4,commit=0.05")
    expect, n, came = {}, 0, True
    while came:
        n += EVERY
        top = short.m.mnt / f"d{n}"
        top.mkdir()
        short.fault.set(n, Fault.MEMORY, error=errno.ENOMEM)
        try:
            expect[top] = play(short, top)
        except BaseException:
            with contextlib.suppress(OSError):
                os.close(short.fd)
            raise
        came = short.fault.came()
        short.fault.stop()
    assert short.told > 10, "or the story was not about that"
    assert short.m.running() and short.m.kill()
    short.m.start()
    for top, files in expect.items():
        for name, data in files.items():
            assert (top / name).read_bytes() == data, (top, name)


@pytest.mark.release
def test_what_a_failed_append_has_loaded_is_stored(mount, work):
    """The last chunk came into memory for it, and does not wait there for the file to be closed."""
    short = Short(mount, work, "chunksize=64K,blocksize=4K,pipeline=lz4:5,commit=0.1")
    m = short.m
    more = blob(2, 8 << 20, "noise")
    data = blob(1, 10000, "text")
    (m.mnt / "more").write_bytes(more)
    source = os.open(m.mnt / "more", os.O_RDONLY)
    n, came, waited = 0, True, 0
    while came:
        n += 1
        (m.mnt / "f").write_bytes(data)
        fd = os.open(m.mnt / "f", os.O_RDWR)
        wait_until(lambda: stats(m)["memory"]["dirty_bytes"] == 0)
        # behind a hole that makes the index longer, by pages that it does not have yet
        short.fault.set(n, Fault.MEMORY, error=errno.ENOMEM)
        got = error_of(os.copy_file_range, source, fd, 100, 0, 40 << 20)
        came = short.fault.came()
        short.fault.stop()
        if got == "ENOMEM":
            waited += stats(m)["memory"]["dirty_bytes"] > 0
            wait_until(lambda: stats(m)["memory"]["dirty_bytes"] == 0, 10, f"a commit, {n}")
        os.close(fd)
    os.close(source)
    assert waited


@pytest.mark.release
def test_a_choice_of_filters_that_fails(mount, work):
    """Not the first one of a file, by which chunks that follow are judged."""
    short = Short(mount, work, "chunksize=128K,commit=0")
    kinds = ["noise", "floats", "text", "floats", "text"]
    n, came = 0, True
    while came:
        n += 1
        short.m.remount()  # whose buffers are empty
        fd = os.open(short.m.mnt / f"f{n}", os.O_RDWR | os.O_CREAT)
        data = b""
        for i, kind in enumerate(kinds):
            data += blob(i, 128 << 10, kind)
            if i == 1:
                short.fault.set(n, Fault.MEMORY, error=errno.ENOMEM)
            short.call(os.pwrite, fd, data[-128 << 10 :], i * (128 << 10))
            short.sync(fd, data)
        came = short.fault.came()
        short.fault.stop()
        os.close(fd)
        assert (short.m.mnt / f"f{n}").read_bytes() == data
    assert short.told > 3, "or the story was not about that"
