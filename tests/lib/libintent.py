"""Shared by tests of the intent log: a mount whose log is ahead of its frames; its records."""

import contextlib
import os
import random
import struct

import pytest

from libdata import blob

LOG = ".cframefs-intent"
ASIDE = "cframefs-intent.unapplied.1"
PAGE = 4096
# Long pauses between commits: the frame does not catch up while a test looks.
SLOW = "commit=1000,chunksize=64K,blocksize=16K"


def patch(fd, model, seed, count=80):
    """Random pages of a file and of its model, then an fsync; enough of them for the log."""
    rng = random.Random(seed)
    pages = len(model) // PAGE
    for i in range(count):
        at = rng.randrange(pages) * PAGE
        data = blob(seed * 1000 + i, PAGE, "text")
        os.pwrite(fd, data, at)
        model[at : at + PAGE] = data
    os.fsync(fd)


def made(m, name="a", size=4 << 20, seed=1):
    """A durable file, and its bytes."""
    data = blob(seed, size, "text")
    (m.mnt / name).write_bytes(data)
    fd = os.open(m.mnt / name, os.O_RDWR)
    os.fsync(fd)
    return fd, bytearray(data)


def log_of(m):
    return m.backing / LOG


def records(path):
    """[(position, length)] of the log's records. No program is started for it: a child that
    closes what it inherits makes the daemon commit."""
    log = path.read_bytes() if path.exists() else b""
    found, at, first = [], 0, None
    while log[at : at + 8] == b"cfintent":
        length, *mine = struct.unpack_from("<QQQ", log, at + 24)
        first = mine[0] if first is None else first
        if mine != [first, len(found)]:
            break
        found.append((at, length))
        at += length
    return found


def generation(path):
    """The log's generation: that of its first record, even if that is no longer needed."""
    return struct.unpack_from("<Q", path.read_bytes(), 32)[0]


def crash(m, *fds):
    """SIGKILL; closes the descriptors of the dead mount."""
    m.kill()
    for fd in fds:
        with contextlib.suppress(OSError):  # the daemon is asked, and is gone
            os.close(fd)


@pytest.fixture
def logged(mount):
    """A mount whose log holds three records of one file beyond its frame:
    (mount, fd, states after each)."""
    m = mount(SLOW)
    fd, model = made(m)
    states = [bytes(model)]
    for seed in range(2, 5):
        patch(fd, model, seed)
        states.append(bytes(model))
    assert len(records(log_of(m))) == 3
    return m, fd, states
