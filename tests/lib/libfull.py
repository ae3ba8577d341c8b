"""Shared by tests of a full disk: a mount over a small disk, and what may be in a file that did not
fit."""

import contextlib
import mmap
import os
import socket
import subprocess

import pytest

from libposix import error_of
from libprogram import skip_or_fail

SIZE = 8 << 20
PAGE = 4096
SEED = int(os.environ.get("CFRAMEFS_SEED") or 1)
TIGHT = "dirty_max=1M,workers=1,chunksize=64K"


@pytest.fixture(params=["", TIGHT], ids=["default", "tight"])
def small(mount, root, request):
    """A mount over a file system of 8 MiB."""
    m = mount(f"commit=0,{request.param}".rstrip(","), start=False)
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SIZE},mode=755", "none", m.backing],
        capture_output=True,
    ).returncode:
        skip_or_fail("no tmpfs can be mounted")
    m.allow(r"No space left|unwritten data|background commit")
    try:
        yield m.start()
    finally:
        if m.running():
            m.unmount()
        subprocess.run(["umount", "-l", m.backing], check=True)


def fill(m, leave):
    """A file beside the frames that leaves just so much space."""
    free = os.statvfs(m.backing)
    # unbuffered, or its last bytes would fail in close, as the daemon takes space meanwhile
    with open(m.backing / "filler", "wb", buffering=0) as f, contextlib.suppress(OSError):
        f.write(bytes(max(0, free.f_bavail * free.f_bsize - leave)))


def outcome(call, *args):
    error = error_of(call, *args)
    assert error in (None, "ENOSPC"), error
    return error


def put(fd, data, offset=0):
    """Writes all of it, or raises the error that prevents that."""
    done = 0
    while done < len(data):
        done += os.pwrite(fd, data[done : done + 65536], offset + done)


def put_direct(fd, data, offset=0):
    """The same with O_DIRECT, by pages."""
    with mmap.mmap(-1, len(data)) as room:
        room[:] = data
        for done in range(0, len(data), 65536):
            os.pwrite(fd, memoryview(room)[done : done + 65536], offset + done)


def mixed(got, *versions):
    """True if each page is that of one of the versions, or was not written yet."""
    for at in range(0, len(got), 4096):
        page = got[at : at + 4096]
        if not any(
            page == v[at : at + len(page)].ljust(len(page), b"\0") for v in (*versions, b"")
        ):
            return False
    return True


def free_bytes(m):
    free = os.statvfs(m.backing)
    return free.f_bavail * free.f_bsize


def last_use_without_flush(fd):
    """A call that ends the last use of a file; close(2) of `fd` itself is done before."""
    ours, theirs = socket.socketpair()
    socket.send_fds(ours, [b"x"], [fd])

    def drop():
        ours.close()
        theirs.close()

    return drop
