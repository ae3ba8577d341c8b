"""A backing file that has reached the length that it may have: of files on FAT, or below a limit of
the daemon's (ulimit -f). What is inside it can still be used."""

import os
import random

import pytest

from libdata import blob
from libfull import SEED, put_direct
from libposix import error_of, read_direct, write_synced

MiB = 1 << 20
LONGEST = 12 * MiB


@pytest.fixture
def limited(mount, tool):
    """Mounts so that no backing file can get longer than LONGEST."""

    def start(options):
        m = mount(options, start=False)
        m.argv = [tool("prlimit"), f"--fsize={LONGEST}", *m.argv]
        m.allow("File too large", "closed with unwritten data", "closed while the disk is full")
        return m.start()

    return start


def beyond_the_limit(m, name):
    """Bytes that stay in memory, since there is no room for them in the file."""
    fd = os.open(m.mnt / name, os.O_RDWR | os.O_CREAT | os.O_DIRECT)
    assert error_of(put_direct, fd, blob(5, 2 * LONGEST, "noise")) == "EFBIG"
    return fd


@pytest.mark.parametrize("options", ["commit=5", "commit=5,intent=0"], ids=["log", "no log"])
def test_who_is_told(mount, tool, options):
    """Whose file gets too large is told, and nobody else suffers."""
    m = mount(options, start=False)
    m.argv = [tool("prlimit"), f"--fsize={MiB}", *m.argv]
    m.allow("File too large", "f.b2frame: closed with unwritten data").start()
    (m.mnt / "other").write_bytes(b"not synced yet")
    noise, synced = blob(3, 2 * MiB, "noise"), 0
    fd = os.open(m.mnt / "f", os.O_RDWR | os.O_CREAT)
    for at in range(0, len(noise), 3011):
        os.pwrite(fd, noise[at : at + 3011], at)
        error = error_of(os.fsync, fd)
        if error:
            break
        synced = at + 3011
    assert error == "EFBIG" and synced > MiB // 8
    assert error_of(os.close, fd) == "EFBIG"
    m.remount()
    assert (m.mnt / "other").read_bytes() == b"not synced yet"
    assert (m.mnt / "f").read_bytes()[:synced] == noise[:synced]


def write_pages(fd, pages):
    """Synced. Tried again if it is refused because a chunk that will not fit is on its way."""
    for _ in range(5):
        error = error_of(lambda: [os.pwrite(fd, data, at) for at, data in pages] and os.fsync(fd))
        if error is None:
            return
    raise AssertionError(error)


def test_overwriting(limited):
    """The space of replaced chunks is used again, part by part, as on a full disk."""
    m = limited("commit=0,intent=0,chunksize=256K")
    old, new = blob(1, 11 * MiB, "noise"), blob(2, 11 * MiB, "noise")
    write_synced(m.mnt / "f", old)
    with open(m.mnt / "f", "r+b", buffering=0) as f:
        write_pages(f.fileno(), [(0, new)])
    m.remount()
    assert (m.mnt / "f").read_bytes() == new


def test_what_was_synced_stays(limited):
    """The intent log has it; if it does not fit into the file, it waits, and is not given up."""
    m = limited("commit=0")
    new = bytearray(blob(1, 9 * MiB, "noise"))
    write_synced(m.mnt / "f", new)
    pages = list(range(0, len(new), 4096))
    random.Random(SEED).shuffle(pages)
    with open(m.mnt / "f", "r+b", buffering=0) as f:
        for n in range(0, len(pages), 64):
            some = [(at, blob(at, 4096, "noise")) for at in pages[n : n + 64]]
            write_pages(f.fileno(), some)
            for at, data in some:
                new[at : at + 4096] = data
    m.remount()
    assert (m.mnt / "f").read_bytes() == new


def test_others_can_write(limited):
    """What fills memory concerns one file; the rest of the mount goes on."""
    m = limited("commit=0,intent=0,chunksize=64K,dirty_max=1M")
    full = beyond_the_limit(m, "full")
    noise = blob(6, 4 * MiB, "noise")
    fd = os.open(m.mnt / "other", os.O_RDWR | os.O_CREAT | os.O_DIRECT)
    put_direct(fd, noise)
    assert [error_of(call, fd) for call in (os.fsync, os.close)] == [None] * 2
    assert read_direct(m.mnt / "other", len(noise)) == noise
    error_of(os.close, full)
