"""Space: a frame that is written all over stays near its size while that goes
on, and gaps are closed."""

import contextlib
import mmap
import os
import random
import struct
import threading

import pytest

from libblosc import chunk_bytes, open_frame
from libdata import blob
from libfault import Fault
from libmount import SLOWNESS, wait_until
from libposix import error_of, punch, with_gap, write_at
from libstats import Moved

MiB = 1 << 20
SIZE = int(os.environ.get("CFRAMEFS_TEST_SPACE") or 16) * MiB  # of the file
TIMES = float(os.environ.get("CFRAMEFS_TEST_TIMES") or (2 if SLOWNESS == 1 else 1))


class Watch:
    """The largest that a backing file gets, looked at all the time."""

    def __init__(self, path):
        self.path = path
        self.most = 0
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def look(self):
        st = os.stat(self.path)
        self.most = max(self.most, st.st_size, st.st_blocks * 512)

    def run(self):
        while not self.over.wait(0.005):
            self.look()

    def __enter__(self):
        self.look()
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()
        self.look()


@pytest.mark.parametrize("fsyncs", [0, 24], ids=["", "fsync"])
@pytest.mark.parametrize("size", [4096, 262144 * 3 // 2], ids=["pages", "chunks"])
@pytest.mark.parametrize("kind", ["noise", "mixed"])
def test_a_frame_written_all_over_stays_near_its_size(mount, size, fsyncs, kind):
    m = mount("chunksize=256K,blocksize=32K,codec=lz4,dirty_max=16M,cache=4M,commit=1")
    rng = random.Random(f"{size} {fsyncs} {kind}")
    pool = blob(1, 2 * MiB, "noise")
    if kind == "mixed":  # what replaces a chunk is larger or smaller than that
        pool = b"".join(pool[n : n + 8192] + bytes(n % 9000) for n in range(0, 2 * MiB, 8192))
    data = bytearray((pool * (SIZE // len(pool) + 1))[:SIZE])
    path = m.mnt / "f"
    path.write_bytes(data)
    fd = os.open(path, os.O_RDWR)
    os.fsync(fd)
    live = os.stat(m.stored("f")).st_size
    with Watch(m.stored("f")) as watch:
        for k in range(int(SIZE * TIMES / size)):
            at, n = rng.randrange((SIZE - size) // 4096) * 4096, rng.randrange(len(pool) - size)
            os.pwrite(fd, pool[n : n + size], at)
            data[at : at + size] = pool[n : n + size]
            if fsyncs and k % fsyncs == fsyncs - 1:
                os.fsync(fd)
        os.fsync(fd)
    os.close(fd)
    # what is live may have changed by as much as the pieces differ in how they compress
    assert watch.most < (1.5 if kind == "noise" else 1.7) * live, (
        f"{watch.most / live:.2f} of its live size"
    )
    m.remount()
    assert path.read_bytes() == data
    m.unmount()


def test_a_frame_that_gets_longer_as_well_stays_near_its_size(mount):
    """No part of a commit can be made before the last chunk, which got longer, is stored: that does
    not come last, or all that is replaced would wait for it."""
    m = mount("chunksize=128K,codec=lz4,dirty_max=64M,commit=1000,intent=0")
    data = bytearray(blob(1, 12 * MiB + 50_000, "noise"))
    path = m.mnt / "f"
    path.write_bytes(data)
    fd = os.open(path, os.O_RDWR)
    os.fsync(fd)
    live = os.stat(m.stored("f")).st_size
    for at in range(8192, len(data), 131_072):  # a page of each chunk
        os.pwrite(fd, data[:4096], at)
        data[at : at + 4096] = data[:4096]
    os.pwrite(fd, data[:20_000], len(data))
    data += data[:20_000]
    os.fsync(fd)
    os.close(fd)
    assert os.stat(m.stored("f")).st_size < 1.5 * live
    m.remount()
    assert path.read_bytes() == data


@pytest.mark.parametrize("flags", [os.O_TRUNC, 0], ids=["truncated", "in place"])
@pytest.mark.parametrize("size", [50_000, 3 * MiB + 12_345])
@pytest.mark.parametrize("again", ["mount", "open"])
def test_a_file_written_anew_at_each_opening_stays_near_its_size(mount, blosc2, size, flags, again):
    """An opening knows of the gaps that those before it left only what the root on disk tells."""
    m = mount("pipeline=zstd:1")
    versions = [blob(n, size, "noise" if n % 3 else "text") for n in range(3)]
    for n in range(14):
        data = versions[n % 3]
        write_at(m.mnt / "f", 0, data, os.O_WRONLY | os.O_CREAT | flags)
        if again == "mount":
            m.remount()
        assert (m.mnt / "f").read_bytes() == data
    m.unmount()
    assert chunk_bytes(open_frame(m.stored("f"))) == data
    assert os.stat(m.stored("f")).st_size < 2.6 * size + 150_000
    m.start()


def test_a_file_synced_before_it_is_written_anew_stays_near_its_size(mount):
    """There is nothing to sync any more when its gaps are looked for: they can be used at once."""
    m = mount("chunksize=16K,blocksize=16K,level=0,commit=1000")
    for n in range(6):
        fd = os.open(m.mnt / "f", os.O_RDWR | os.O_CREAT)
        os.fsync(fd)
        os.pwrite(fd, blob(n, 160_000, "noise"), 0)
        os.close(fd)
    assert os.stat(m.stored("f")).st_size < 2.6 * 160_000


def test_a_file_patched_at_each_opening_stays_near_its_size(mount, blosc2):
    """Of more chunks than are looked at before it is known which one is to be replaced."""
    m = mount("chunksize=16K,blocksize=16K,level=0")
    data = bytearray(blob(1, 100 * 16384 - 77, "noise"))
    (m.mnt / "f").write_bytes(data)
    for n in range(250):
        at, new = n * 7919 % (len(data) - 5000), blob(n, 5000, "noise")
        write_at(m.mnt / "f", at, new)
        data[at : at + len(new)] = new
    assert (m.mnt / "f").read_bytes() == data
    m.unmount()
    assert chunk_bytes(open_frame(m.stored("f"))) == data
    assert os.stat(m.stored("f")).st_size < 1.9 * len(data)
    m.start()


def test_a_file_appended_to_at_each_opening_is_seldom_synced(mount, blosc2):
    """What is behind its root goes back to the disk, or each opening would find it worth a sync."""
    m = mount("pipeline=zstd:1,commit=1000")
    data = blob(1, 5000, "noise")
    (m.mnt / "f").write_bytes(data)
    with Moved(m) as moved, Watch(m.stored("f")) as watch:
        for n in range(150):
            write_at(m.mnt / "f", len(data), b"%09d\n" % n, os.O_WRONLY)
            data += b"%09d\n" % n
    assert moved("write", "disk_syncs") < 30
    assert watch.most < 150_000
    m.remount()
    assert (m.mnt / "f").read_bytes() == data
    m.unmount()
    assert chunk_bytes(open_frame(m.stored("f"))) == data
    m.start()


def test_gaps_are_closed_behind_the_scenes(mount):
    """Half of a file becomes a hole; what lies behind it moves, while the file is open."""
    m = mount("chunksize=64K,codec=lz4,commit=0.2")
    data = bytearray(blob(2, 8 * MiB, "noise"))
    path = m.mnt / "f"
    path.write_bytes(data)
    fd = os.open(path, os.O_RDWR)
    os.fsync(fd)
    before = os.stat(m.stored("f")).st_size
    punch(fd, MiB // 2, 4 * MiB)
    data[MiB // 2 : MiB // 2 + 4 * MiB] = bytes(4 * MiB)
    wait_until(
        lambda: os.stat(m.stored("f")).st_size < before * 0.8, 30, "a shorter file"
    )  # a third of it may stay free
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    assert os.pread(fd, 8 * MiB, 0) == data
    os.pwrite(fd, b"goes on", 7 * MiB)
    data[7 * MiB : 7 * MiB + 7] = b"goes on"
    os.close(fd)
    m.kill()
    m.start()
    assert path.read_bytes() == data
    m.unmount()


def test_closing_gaps_is_no_change_of_the_file(mount):
    """Punching holes sets the times of the backing file; those of the application come back."""
    m = mount("chunksize=64K,codec=lz4,commit=0.2")
    fd, before = with_gap(m)
    when = os.fstat(fd).st_mtime_ns
    wait_until(lambda: os.stat(m.stored("f")).st_size < before * 0.8, 30, "a shorter file")
    wait_until(
        lambda: os.stat(m.stored("f")).st_mtime_ns == when, 10, "the time of the last change"
    )
    assert os.fstat(fd).st_mtime_ns == when
    os.close(fd)
    m.unmount()
    assert os.stat(m.stored("f")).st_mtime_ns == when


def test_cutting_the_end_is_no_change_of_the_file(mount, root):
    """The end of a file that was cut waits for a durable root. When that comes, behind a commit
    that had nothing to write, mtime and capabilities stay."""
    m = mount("chunksize=64K,codec=lz4,commit=0.2")
    capability = struct.pack("<IIIII", 0x2000001, 1 << 10, 0, 0, 0)
    fd = os.open(m.mnt / "f", os.O_RDWR | os.O_CREAT)
    os.pwrite(fd, blob(5, 8 * MiB, "noise"), 0)
    os.fsync(fd)
    before = os.stat(m.stored("f"))
    os.ftruncate(fd, MiB)
    os.utime(fd, ns=(10**18, 10**18))
    os.setxattr(fd, "security.capability", capability)
    wait_until(lambda: os.stat(m.stored("f")).st_blocks < before.st_blocks // 2, 30, "room")
    wait_until(lambda: os.stat(m.stored("f")).st_mtime_ns == 10**18, 10, "the mtime")
    # a commit takes it away for a moment
    wait_until(lambda: "security.capability" in os.listxattr(m.stored("f")), 10, "the capability")
    os.close(fd)
    m.unmount()
    assert os.stat(m.stored("f")).st_mtime_ns == 10**18
    assert os.getxattr(m.stored("f"), "security.capability") == capability


def test_parts_of_a_commit_are_no_more_than_what_was_written(mount, blosc2):
    """Killed in the middle of a long flush: each page is the old one or the new
    one, and the reference agrees."""
    m = mount("chunksize=256K,blocksize=32K,codec=lz4,commit=0.1,dirty_max=4M")
    old, new = blob(3, 8 * MiB, "noise"), blob(4, 8 * MiB, "noise")
    path = m.mnt / "f"
    path.write_bytes(old)
    m.remount()
    before = os.stat(m.stored("f"))
    fd = os.open(path, os.O_RDWR | os.O_DIRECT)  # the kernel would keep them for itself for a while
    room = mmap.mmap(-1, 4096)
    for at in range(0, 8 * MiB, 8192):  # every other page, so that no chunk is written as a whole
        room[:] = new[at : at + 4096]
        os.pwritev(fd, [room], at)
    wait_until(lambda: os.stat(m.stored("f")).st_ctime_ns != before.st_ctime_ns, 30, "a flush")
    m.kill()
    error_of(os.close, fd)
    seen = chunk_bytes(open_frame(m.stored("f")))
    m.start()
    got = path.read_bytes()
    assert len(got) == len(old) and got == seen
    for at in range(0, len(old), 4096):
        assert got[at : at + 4096] in (
            (old[at : at + 4096], new[at : at + 4096]) if at % 8192 == 0 else (old[at : at + 4096],)
        )
    m.unmount()


def test_an_odd_length_that_comes_last_leaves_no_gaps(mount, blosc2):
    """The chunks that were stored as items before it was known are stored anew as bytes, in the
    place of those."""
    m = mount("codec=zstd,filter=shuffle,typesize=8,commit=1000")
    data = blob(1, (4 << 20) + 3, "floats")
    (m.mnt / "f").write_bytes(data)
    schunk = open_frame(m.stored("f"))
    stored = sum(len(schunk.get_chunk(n)) for n in range(schunk.nchunks))
    assert m.stored("f").stat().st_size < 1.05 * stored
    assert chunk_bytes(schunk) == data
    m.remount()
    assert (m.mnt / "f").read_bytes() == data


@pytest.mark.watchdog(600)
def test_killed_while_items_become_bytes(faulty, blosc2):
    """At each change of the disk that the last commit makes, whose chunks are all stored anew."""
    options = "codec=zstd,filter=shuffle,typesize=8,chunksize=64K,commit=1000,intent=0"
    m, fault = faulty(options, "torn by a crash")
    even = blob(1, 300_000, "floats")
    for n in range(1, 30):
        data = blob(n, 500_003, "floats")
        with open(m.mnt / "f", "wb") as f:
            f.write(even)
            os.fsync(f.fileno())
        fd = os.open(m.mnt / "f", os.O_RDWR)
        os.pwrite(fd, data[len(even) :], len(even))
        fault.set(n, Fault.CHANGE, how=Fault.KILL)
        error = error_of(os.fsync, fd)
        fault.stop()
        if error:
            m.kill()
        with contextlib.suppress(OSError):
            os.close(fd)
        if error:
            m.start()
        whole = even + data[len(even) :]
        with open(m.mnt / "f", "r+b") as f:
            got = f.read()
            os.fsync(f.fileno())  # a header that was torn is written anew
        state = got == whole if not error else whole.startswith(got) and len(got) >= len(even)
        assert (n, state) == (n, True)
        assert chunk_bytes(open_frame(m.stored("f"))) == got
        if not error:
            break
    assert 3 < n < 29
