"""-o recompress: cold files get smaller on the disk, and nothing else about them changes."""

import os
import random
import subprocess
import time

import pytest

from libblosc import chunk_bytes, open_frame
from libcut import Scattered, replay, traced
from libdata import blob
from libfault import Fault
from libmemory import resident
from libmount import wait_until
from libprogram import skip_or_fail

LONG_AGO = 1_500_000_000
OPTIONS = "chunksize=64K,blocksize=16K,codec=lz4,commit=1"
MARK = "user.cframefs.recompressed"


def cold(path, when=LONG_AGO):
    os.utime(path, ns=(when * 10**9 + 7, when * 10**9 + 7))


def used(path):
    return os.stat(path).st_blocks * 512


def takes_marks(directory):
    probe = directory / ".probe"
    probe.touch()
    try:
        os.setxattr(probe, MARK, b"x")
    except OSError:
        return False
    finally:
        probe.unlink()
    return True


def wait_done(stored, before, marks):
    """Looked at from outside: who asks the mount keeps it from being idle."""
    if marks:
        wait_until(lambda: MARK in os.listxattr(stored), 60, f"the mark of {stored.name}")
    else:
        wait_until(lambda: used(stored) < 0.97 * before, 60, f"{stored.name} to get smaller")


def stored_files(m):
    return sorted(p for p in m.backing.rglob("*.b2frame") if p.is_file())


def test_cold_files_give_space_back(mount, blosc2):
    """Blocks in use before and after, of files of many sizes; the reference
    reads all of them, and again after a kill."""
    m = mount(OPTIONS)
    marks = takes_marks(m.backing)
    (m.mnt / "d" / "e").mkdir(parents=True)
    files = {
        "d/long": blob(1, 2_345_678, "text"),
        "d/e/deep": blob(2, 300_001, "text"),
        "short": blob(3, 50_000, "text"),
        "d/mixed": blob(4, 200_000, "text")
        + blob(5, 300_000, "noise")
        + bytes(131_072)
        + blob(6, 200_000, "text"),
    }
    for name, data in files.items():
        (m.mnt / name).write_bytes(data)
        cold(m.mnt / name)
    m.unmount()
    before = {n: used(m.stored(n)) for n in files}
    lengths = {n: os.stat(m.stored(n)).st_size for n in files}
    m.options += ",recompress=0.2"
    m.start()
    for name in files:
        wait_done(m.stored(name), before[name], marks)
    for name, data in files.items():
        assert used(m.stored(name)) < 0.93 * before[name], name
        assert os.stat(m.stored(name)).st_size < lengths[name], name
        assert chunk_bytes(open_frame(m.stored(name))) == data, name
        assert os.stat(m.stored(name)).st_mtime_ns == LONG_AGO * 10**9 + 7, name
        assert os.stat(m.mnt / name).st_mtime_ns == LONG_AGO * 10**9 + 7, name
        assert (m.mnt / name).read_bytes() == data, name
        assert os.listxattr(m.mnt / name) == [], name
    m.kill()
    m.start()
    for name, data in files.items():
        assert (m.mnt / name).read_bytes() == data, name
    m.unmount()


def test_interruptions_cost_nothing(mount, blosc2):
    """Somebody asks for something again and again: it goes on where it was, and
    the file's time stays."""
    m = mount(OPTIONS)
    marks = takes_marks(m.backing)
    data = blob(13, 3_000_001, "text")
    (m.mnt / "f").write_bytes(data)
    cold(m.mnt / "f")
    m.unmount()
    before = used(m.stored("f"))
    m.options += ",recompress=0.1"
    m.start()

    def done():
        if random.random() < 0.02:
            os.getxattr(m.mnt, "user.cframefs.stats")
        return MARK in os.listxattr(m.stored("f")) if marks else used(m.stored("f")) < 0.97 * before

    wait_until(done, 60, "the end")
    assert os.stat(m.stored("f")).st_mtime_ns == LONG_AGO * 10**9 + 7
    assert chunk_bytes(open_frame(m.stored("f"))) == data
    assert (m.mnt / "f").read_bytes() == data
    m.unmount()


@pytest.mark.release  # sanitizers keep what is freed
def test_large_chunks_leave_no_memory_behind(mount):
    """Of the four buffers of a chunk each."""
    m = mount("chunksize=8M,blocksize=64K,dirty_max=128M,codec=lz4,commit=1")
    if not takes_marks(m.backing):
        pytest.skip("no extended attributes here")
    (m.mnt / "f").write_bytes(blob(1, 8 << 20, "text"))
    cold(m.mnt / "f")
    m.remount(f"{m.options},recompress=0.2")
    before = resident(m)
    wait_done(m.stored("f"), 0, True)
    wait_until(lambda: resident(m) < before + (6 << 20), 5, "memory to be freed")


def test_what_is_left_alone(mount, blosc2):
    """Files that are young, open for writing, set-id, shared with, made by
    other programs, or stored as the user said."""
    m = mount(OPTIONS)
    marks = takes_marks(m.backing)
    data = blob(7, 300_000, "text")
    for name in ("young", "written", "wished", "setid", "shared", "bait"):
        (m.mnt / name).write_bytes(data)
    if marks:
        os.setxattr(m.mnt / "wished", "user.cframefs.pipeline", b"lz4:1")
    os.chmod(m.mnt / "setid", 0o4755)
    for name in ("written", "wished", "setid", "shared", "bait"):
        cold(m.mnt / name)
    (m.backing / "shared.b2frame.b2lock").write_bytes(bytes(16))
    foreign = blosc2.SChunk(
        chunksize=65536,
        urlpath=str(m.backing / "foreign.b2frame"),
        contiguous=True,
        cparams={"codec": blosc2.Codec.LZ4, "clevel": 1, "filters": [blosc2.Filter.NOFILTER]},
    )
    for at in range(0, len(data), 65536):
        foreign.append_data(data[at : at + 65536])
    del foreign
    cold(m.backing / "foreign.b2frame")
    os.utime(m.mnt / "young")
    m.unmount()
    before = {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in stored_files(m)}
    m.options += ",recompress=1"  # what is young stays so for a minute
    m.start()
    fd = os.open(m.mnt / "written", os.O_WRONLY)
    wait_done(m.stored("bait"), used(m.stored("bait")), marks)
    time.sleep(1)  # whatever comes after it in the directory
    changed = {
        p.name for p in stored_files(m) if (p.read_bytes(), p.stat().st_mtime_ns) != before[p]
    }
    assert changed == ({"bait.b2frame"} if marks else {"bait.b2frame", "wished.b2frame"})
    os.close(fd)
    m.unmount()


def test_a_file_is_done_once(mount, blosc2):
    """Its mark holds over mounts, until it is written again."""
    m = mount(OPTIONS)
    if not takes_marks(m.backing):
        pytest.skip("the backing file system keeps no attributes")
    data = blob(8, 400_000, "text")
    for name in ("a", "b"):
        (m.mnt / name).write_bytes(data)
        cold(m.mnt / name)
    m.remount(m.options + ",recompress=0.2")
    for name in ("a", "b"):
        wait_done(m.stored(name), 0, True)
    seen = [p.stat().st_ctime_ns for p in stored_files(m)]
    mark = os.getxattr(m.stored("a"), MARK)
    (m.mnt / "b").write_bytes(data[::-1])
    cold(m.mnt / "b")
    m.remount()
    wait_until(
        lambda: (
            os.getxattr(m.stored("b"), MARK).split()[2]
            == str(m.stored("b").stat().st_size).encode()
        ),
        60,
        "b again",
    )
    assert m.stored("a").stat().st_ctime_ns == seen[0] and os.getxattr(m.stored("a"), MARK) == mark
    assert (m.mnt / "b").read_bytes() == data[::-1]
    assert chunk_bytes(open_frame(m.stored("b"))) == data[::-1]
    m.unmount()


def test_a_kill_leaves_the_time(faulty, blosc2):
    """When chunks are written that no commit shows yet."""
    m, fault = faulty("chunksize=64K,commit=1")
    data = blob(21, 3_000_000, "text")
    (m.mnt / "f").write_bytes(data)
    cold(m.mnt / "f")
    m.unmount()
    before = m.stored("f").stat()
    m.options += ",recompress=0.1"
    fault.set(5, Fault.WRITE, how=Fault.WAIT)
    m.start()
    wait_until(fault.came, 60, "some chunks")
    m.kill()
    fault.off()
    assert m.stored("f").stat().st_size > before.st_size
    assert m.stored("f").stat().st_mtime_ns == before.st_mtime_ns
    assert chunk_bytes(open_frame(m.stored("f"))) == data
    m.start()
    assert (m.mnt / "f").read_bytes() == data
    m.unmount()


def test_what_an_earlier_mount_left_is_given_back(mount, blosc2):
    """Gaps that were there when the file was opened, though none of its chunks gets smaller."""
    m = mount(OPTIONS)
    marks = takes_marks(m.backing)
    (m.mnt / "f").write_bytes(blob(19, 1_000_000, "noise"))
    data = blob(20, 900_000, "noise")
    m.remount()
    fd = os.open(m.mnt / "f", os.O_WRONLY)  # anew in its place, and not synced
    assert os.write(fd, data) == len(data)
    os.ftruncate(fd, len(data))
    os.close(fd)
    cold(m.mnt / "f")
    m.unmount()
    assert m.stored("f").stat().st_size > 1.5 * len(data)
    before = used(m.stored("f"))
    m.options += ",recompress=0.1"
    m.start()
    wait_done(m.stored("f"), before, marks)
    assert used(m.stored("f")) < 0.7 * before
    assert m.stored("f").stat().st_size < 1.1 * len(data)
    assert m.stored("f").stat().st_mtime_ns == LONG_AGO * 10**9 + 7
    assert chunk_bytes(open_frame(m.stored("f"))) == data
    assert (m.mnt / "f").read_bytes() == data
    m.unmount()


def test_a_full_disk_is_no_reason_for_ever(mount, root):
    """A file that had to wait for space gets its turn when there is some."""
    m = mount(OPTIONS + ",recompress=0.02", start=False)
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=96M,mode=755", "none", m.backing], capture_output=True
    ).returncode:
        skip_or_fail("no tmpfs can be mounted")
    try:
        with open(m.backing / "filler", "wb") as f:
            f.write(bytes(48 << 20))
        m.start()
        (m.mnt / "f").write_bytes(blob(16, 1_000_000, "text"))
        cold(m.mnt / "f")
        before = used(m.stored("f"))
        time.sleep(2)  # it is looked at
        assert used(m.stored("f")) == before
        os.unlink(m.backing / "filler")
        wait_done(m.stored("f"), before, takes_marks(m.backing))
    finally:
        if m.running():
            m.unmount()
        subprocess.run(["umount", "-l", m.backing], check=True)


@pytest.mark.parametrize(
    "options", [OPTIONS, "chunksize=256K,blocksize=64K,commit=1"], ids=["lz4", "zstd"]
)
def test_writers_come_in_between(mount, blosc2, options):
    """Cold, then written while it is worked on, over and over; also truncated,
    and with a reader that has it open."""
    m = mount(options + ",recompress=0.02,cache=1M")
    rng = random.Random(9)
    path = m.mnt / "f"
    model = bytearray(blob(10, 1_500_000, "text"))
    path.write_bytes(model)
    reader = os.open(path, os.O_RDONLY)
    for turn in range(8):
        cold(path, LONG_AGO + turn)
        before = os.stat(m.stored("f")).st_ctime_ns
        end = time.monotonic() + 2.5  # in some turns there is nothing to gain, and nothing begins
        while os.stat(m.stored("f")).st_ctime_ns == before and time.monotonic() < end:
            time.sleep(0.01)
        time.sleep(rng.random() * 0.02)
        fd = os.open(path, os.O_RDWR)
        for _ in range(rng.randrange(1, 30)):
            at = rng.randrange(len(model))
            new = blob(rng.random(), rng.choice([10, 5000, 70_000]), rng.choice(["text", "noise"]))
            os.pwrite(fd, new, at)
            model[at : at + len(new)] = new
            if rng.random() < 0.3:
                os.fsync(fd)
        if turn % 4 == 3:
            del model[rng.randrange(len(model) // 2, len(model)) :]
            os.ftruncate(fd, len(model))
        os.posix_fadvise(reader, 0, 0, os.POSIX_FADV_DONTNEED)
        assert os.pread(reader, len(model) + 1, 0) == model
        os.close(fd)
    os.close(reader)
    m.kill()
    assert chunk_bytes(open_frame(m.stored("f"))) == model
    m.start()
    assert path.read_bytes() == model
    m.unmount()


@pytest.mark.parametrize(
    "n, call", [(1, Fault.SYNC), (12, Fault.READ)], ids=["commit", "next chunk"]
)
def test_another_program_is_not_overtaken(faulty, blosc2, n, call):
    """It writes, without locks, while the commit of what was recompressed waits for the disk, or
    the next chunk is read: its own may be where that one would go."""
    m, fault = faulty(OPTIONS)
    data, more = blob(11, 1_000_000, "text"), blob(12, 65536, "text")
    (m.mnt / "f").write_bytes(data[: 15 * 65536])
    cold(m.mnt / "f")
    m.unmount()
    m.options += ",recompress=0.02"
    fault.set(n, call, how=Fault.WAIT)
    m.start()
    try:
        wait_until(fault.came, 60, "a moment before the commit of what was recompressed")
        open_frame(m.stored("f"), mode="a").append_data(more)
    finally:
        fault.set(0)
    m.allow("f.b2frame: (read|not recompressed)")  # until it is read anew

    def shows():
        try:
            return (m.mnt / "f").read_bytes() == data[: 15 * 65536] + more
        except OSError:
            return False

    wait_until(shows, 5, "its bytes")
    assert chunk_bytes(open_frame(m.stored("f"))) == data[: 15 * 65536] + more


@pytest.mark.watchdog(600)
def test_a_power_cut_at_any_moment(mount, work, blosc2):
    """All that the daemon does to the disk meanwhile is recorded; what was
    synced before is on every disk."""
    m, trace = traced(mount, work, "chunksize=4K,blocksize=1K,codec=lz4,commit=0.3,recompress=0.05")
    story = Scattered(m.mnt, trace, random.Random(11))
    for file in story.files:
        story.write(file, 0, blob(12, 60_000, "text"))
        story.fsync(file)
        story.commit(file)
    story.close()
    for name in "ab":
        cold(m.mnt / name)
    before = {name: used(m.stored(name)) for name in "ab"}
    for name in "ab":
        wait_done(m.stored(name), before[name], takes_marks(work))
    m.unmount()
    code, said, _, states, _, _ = replay(trace, 2000)
    assert code == 0 and states >= 2000, said
