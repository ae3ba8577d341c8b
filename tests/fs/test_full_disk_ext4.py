"""A full disk with blocks and an allocator of its own: ext4 on a loop device. Who is told, and that
what was synced stays."""

import os
import subprocess

import pytest

from libdata import blob
from libmount import umount
from libposix import error_of, read_direct
from libprogram import run

DATA = blob(1, 400_003, "floats")
OPTIONS = "codec=lz4,typesize=8,filter=shuffle,chunksize=64K,blocksize=16K"


@pytest.fixture
def small_disk(work, root, tool):
    """A loop-mounted ext4 of 24 MB: full disks are real there."""
    tool("mkfs.ext4")
    image, disk = work / "disk.img", work / "disk"
    with open(image, "wb") as f:
        f.truncate(24 << 20)
    run("mkfs.ext4", "-q", "-m", "0", "-O", "^has_journal", image)
    disk.mkdir()
    got = subprocess.run(["mount", "-o", "loop", image, disk], capture_output=True, text=True)
    if got.returncode:
        pytest.skip(f"no loop devices: {got.stderr}")
    yield disk
    if umount(disk).returncode:
        umount(disk, "-l")


def fill(path, data, sync=True):
    """Writes until the disk is full; returns the errno and how much was accepted before."""
    fd = os.open(path, os.O_CREAT | os.O_WRONLY)
    done = 0

    def go():
        nonlocal done
        for _ in range(60):
            done += os.write(fd, data)
            if sync:
                os.fsync(fd)

    error = error_of(go)
    return error or error_of(os.fsync, fd), done, error_of(os.close, fd)


def test_full_disk(small_disk, mount):
    backing = small_disk / "backing"
    backing.mkdir()
    m = mount(OPTIONS, backing=backing).allow(r"cframefs: (error|warning): big")
    synced = blob(5, 3_000_001, "noise")
    with open(m.mnt / "kept", "wb") as f:
        f.write(synced)
        f.flush()
        os.fsync(f.fileno())
    error, done, _ = fill(m.mnt / "big", blob(6, 1 << 20, "noise"))
    assert error == "ENOSPC" and done >= 5 << 20
    m.expect_log("(?i)no space|ENOSPC")
    assert m.running() and read_direct(m.mnt / "kept", len(synced)) == synced
    # what was accepted and synced of the big file is there, byte for byte
    accepted = (done >> 20) - 1
    with open(m.mnt / "big", "rb") as f:
        for _ in range(accepted):
            assert f.read(1 << 20) == blob(6, 1 << 20, "noise")
    os.unlink(m.mnt / "big")
    (m.mnt / "after").write_bytes(synced)
    with open(m.mnt / "after", "rb") as f:
        os.fsync(f.fileno())
    m.remount()
    for name in ("kept", "after"):
        assert (m.mnt / name).read_bytes() == synced, name
    m.unmount()


def test_full_disk_without_fsync_is_told_at_close_or_fsync(small_disk, mount):
    backing = small_disk / "backing"
    backing.mkdir()
    m = mount(OPTIONS, backing=backing).allow(r"cframefs: (error|warning)")
    (m.mnt / "kept").write_bytes(DATA)
    error, _, closed = fill(m.mnt / "big", blob(6, 1 << 20, "noise"), sync=False)
    assert "ENOSPC" in (error, closed)
    assert (m.mnt / "kept").read_bytes() == DATA
    os.unlink(m.mnt / "big")
    m.remount()
    assert (m.mnt / "kept").read_bytes() == DATA
    m.unmount()


def test_overwriting_on_a_full_disk_keeps_the_old_or_the_new(small_disk, mount):
    """Every chunk goes to new space first: an overwrite that does not fit
    leaves what was synced."""
    backing = small_disk / "backing"
    backing.mkdir()
    m = mount(OPTIONS, backing=backing).allow(r"cframefs: (error|warning)")
    old, new = blob(7, 9 << 20, "noise"), blob(8, 9 << 20, "noise")
    (m.mnt / "f").write_bytes(old)
    run("sync", m.mnt / "f")
    # a file of the mount that found no room would give back what it took for its last commit
    with open(backing / "filler", "wb", buffering=0) as filler:
        error_of(lambda: [filler.write(bytes(4096)) for _ in range(24 << 8)])
    fd = os.open(m.mnt / "f", os.O_WRONLY)
    error = error_of(os.pwrite, fd, new, 0) or error_of(os.fsync, fd)
    assert error == "ENOSPC"
    error_of(os.close, fd)
    m.kill()
    m.start()
    got = (m.mnt / "f").read_bytes()
    assert len(got) == len(old)
    for at in range(0, len(old), 65536):
        piece = got[at : at + 65536]
        assert piece in (old[at : at + 65536], new[at : at + 65536]), (
            f"chunk at {at} is neither old nor new"
        )
    m.unmount()
