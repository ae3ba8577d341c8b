"""Real scientific data copied in and out; many processes at once; many files."""

import errno
import mmap
import os
import random
import re
import resource
import shutil
import struct
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import libblosc
from libdata import blob, file_sha256
from libfault import Fault
from libmount import SLOWNESS, wait_until
from libposix import (
    KEEP_SIZE,
    NONE_IS_LEFT,
    ZERO_RANGE,
    error_of,
    fallocate,
    punch,
    read_direct,
    sync,
)
from libprogram import run
from libstats import Moved

MiB = 1 << 20


def data_files(package, suffixes):
    """The data files that a Debian package installed."""
    got = subprocess.run(["dpkg", "-L", package], capture_output=True, text=True)
    files = [Path(line) for line in got.stdout.splitlines() if line.endswith(suffixes)]
    files = [path for path in files if path.is_file() and not path.is_symlink()]
    if not files:
        pytest.skip(f"the Debian package {package} is not installed")
    return files


def copy_in_and_out(m, files, out):
    """Both copies are made by cp; returns the ratio on disk."""
    for path in files:
        run("cp", path, m.mnt / path.name)
        sync(m.mnt / path.name)
    m.remount()
    stored = 0
    for path in files:
        run("cp", m.mnt / path.name, out / path.name)
        assert file_sha256(out / path.name) == file_sha256(path), path.name
        stored += m.stored(path.name).stat().st_blocks * 512
    return sum(path.stat().st_size for path in files) / stored


@pytest.mark.parametrize(
    "package, suffixes, options, least",
    [
        (
            "astrometry-data-tycho2-07-littleendian",
            (".fits",),
            "codec=zstd,level=1,filter=bitshuffle,typesize=4",
            1.5,
        ),
        (
            "eso-midas-testdata",
            (".fits", ".tfits", ".mt", ".fit"),
            "codec=zstd,level=1,filter=shuffle,typesize=2",
            1.2,
        ),
    ],
)
def test_real_data(mount, plain, record_property, package, suffixes, options, least):
    files = data_files(package, suffixes)
    ratio = copy_in_and_out(mount(options), files, plain)
    record_property("figure", f"{package}: {len(files)} files, ratio {ratio:.2f}")
    assert ratio > least


WORKER = """
import os, random, sys
top, number, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
rng = random.Random(number)
own, shared = f"{top}/own-{number}", f"{top}/shared"
model = bytearray()
fd = os.open(own, os.O_CREAT | os.O_RDWR)
both = os.open(shared, os.O_RDWR)
record = bytes([number]) * 4096
for _ in range(steps):
    data = rng.randbytes(rng.randrange(1, 500)) * rng.randrange(1, 60)
    at = rng.randrange(200_000)
    os.pwrite(fd, data, at)
    model.extend(bytes(max(0, at + len(data) - len(model))))
    model[at:at + len(data)] = data
    lo = rng.randrange(len(model))
    assert os.pread(fd, 10_000, lo) == model[lo:lo + 10_000], "own file"
    # pages of the shared file belong to one process each: 64 x 16 pages, interleaved
    page = number + 64 * rng.randrange(16)
    os.pwrite(both, record, page * 4096)
    assert os.pread(both, 4096, page * 4096) == record, "shared file"
    other = os.pread(both, 4096, rng.randrange(1024) * 4096)
    assert len(set(other)) == 1, "half a record"
    if rng.random() < 0.1:
        os.fsync(fd)
os.close(fd)
with open(own, "rb") as f:
    assert f.read() == model, "own file after close"
"""


@pytest.mark.concurrent
@pytest.mark.parametrize(
    "options",
    ["", "codec=lz4,chunksize=64K,blocksize=16K,cache=4M,dirty_max=4M"],
    ids=["default", "tight"],
)
def test_64_processes(mount, options):
    m, steps = mount(options), 60 if SLOWNESS == 1 else 20
    (m.mnt / "shared").write_bytes(bytes(64 * 16 * 4096))
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, m.mnt, str(i), str(steps)],
            stderr=subprocess.PIPE,
            text=True,
        )
        for i in range(64)
    ]
    errors = [w.communicate(timeout=300)[1] for w in workers]
    assert [w.returncode for w in workers] == [0] * 64, "\n".join(e for e in errors if e)[:3000]
    before = {name: file_sha256(m.mnt / name) for name in os.listdir(m.mnt)}
    m.remount()
    assert {name: file_sha256(m.mnt / name) for name in os.listdir(m.mnt)} == before
    content = (m.mnt / "shared").read_bytes()
    for page in range(1024):
        assert (
            set(content[page * 4096 : (page + 1) * 4096]) <= {0, page % 64}
            and content[page * 4096 : (page + 1) * 4096].count(content[page * 4096]) == 4096
        )


@pytest.mark.concurrent
def test_threads_create_rename_and_unlink_in_one_directory(mount):
    m = mount()

    def churn(number):
        for i in range(100):
            path, moved = m.mnt / f"{number}-{i % 7}", m.mnt / f"moved-{i % 5}"
            path.write_bytes(blob(i, 3000, "text"))
            assert path.read_bytes() == blob(i, 3000, "text")
            os.rename(path, moved)
            if i % 3 == 0:
                os.path.exists(moved)
                os.listdir(m.mnt)
        return True

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(churn, range(8)))
    assert sorted(os.listdir(m.mnt)) == [f"moved-{i}" for i in range(5)]
    for path in m.mnt.iterdir():
        assert path.stat().st_size == 3000


PART = 13 * 4096  # whole pages, but not whole chunks


class Part:
    """A thread's own part of a file, changed in all ways that the daemon treats differently."""

    def __init__(self, path, number):
        self.fd = os.open(path, os.O_RDWR)
        self.start = number * PART
        self.rng = random.Random(f"part {number}")
        self.model = bytearray(PART)

    def place(self):
        unit = self.rng.choice([1, 4096])
        at = self.rng.randrange(PART // unit) * unit
        return at, self.rng.randrange(1, (PART - at) // unit + 1) * unit

    def step(self):
        at, size = self.place()
        zeros = bytes(size)
        kind = self.rng.choice(["write", "write", "punch", "zero", "copy", "fsync", "read", "read"])
        if kind == "write":
            data = blob(self.rng.randrange(1 << 30), size, self.rng.choice(["noise", "text"]))
            os.pwrite(self.fd, data, self.start + at)
            self.model[at : at + size] = data
        elif kind == "punch":
            punch(self.fd, self.start + at, size)
            self.model[at : at + size] = zeros
        elif kind == "zero":
            fallocate(self.fd, ZERO_RANGE | KEEP_SIZE, self.start + at, size)
            self.model[at : at + size] = zeros
        elif kind == "copy":
            half = min(size, PART // 2)
            at, to = self.rng.choice([(0, PART - half), (PART - half, 0)])
            places = self.start + at, self.start + to
            assert os.copy_file_range(self.fd, self.fd, half, *places) == half
            self.model[to : to + half] = self.model[at : at + half]
        elif kind == "fsync" and self.rng.random() < 0.3:
            os.fsync(self.fd)
        else:
            assert os.pread(self.fd, size, self.start + at) == self.model[at : at + size], at

    def run(self, steps):
        try:
            for _ in range(steps):
                self.step()
        finally:
            os.close(self.fd)
        return bytes(self.model)


@pytest.mark.concurrent
def test_threads_change_parts_of_one_file(mount):
    """Neighbours share a chunk: each changes it over what the other has written, while workers and
    background commits store it."""
    m = mount("chunksize=16K,blocksize=4K,codec=lz4,commit=0.01,dirty_max=1M,cache=1M")
    path, count = m.mnt / "f", 6
    path.touch()
    os.truncate(path, count * PART)
    with ThreadPoolExecutor(count) as pool:
        parts = list(pool.map(lambda k: Part(path, k).run(150), range(count)))
    assert path.read_bytes() == b"".join(parts)
    m.remount()
    assert path.read_bytes() == b"".join(parts)


def test_ten_thousand_small_files(mount):
    m = mount()
    names = {f"f{i:05}" for i in range(10_000 if SLOWNESS == 1 else 2000)}
    for name in sorted(names):
        fd = os.open(m.mnt / name, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        os.write(fd, name.encode() * 10)
        os.close(fd)
    assert set(os.listdir(m.mnt)) == names
    m.remount()
    assert set(os.listdir(m.mnt)) == names
    sizes = {entry.name: entry.stat().st_size for entry in os.scandir(m.mnt)}
    assert sizes == dict.fromkeys(names, 60)
    for name in sorted(names)[::97]:
        assert (m.mnt / name).read_bytes() == name.encode() * 10
    shutil.rmtree(m.mnt, ignore_errors=True)  # the mount point itself stays
    assert os.listdir(m.mnt) == [] and os.listdir(m.backing) == []


def test_more_files_open_than_descriptors(mount):
    """The daemon holds no descriptor for each inode; its own soft limit is
    small, and it knows how to raise it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = min(4000 if SLOWNESS == 1 else 1000, hard - 500)
    resource.setrlimit(resource.RLIMIT_NOFILE, (count + 200, hard))
    m = mount()
    fds = []
    try:
        for i in range(count):
            fds.append(os.open(m.mnt / f"f{i}", os.O_CREAT | os.O_RDWR))
            os.write(fds[-1], b"x")
        for fd in fds[::50]:
            os.pwrite(fd, b"late", 5)
            assert os.pread(fd, 10, 0) == b"x" + bytes(4) + b"late"
    finally:
        for fd in fds:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_limit_of_descriptors_is_told(mount):
    """Once, though many opens fail; what is open goes on."""
    m = mount(start=False).allow(*NONE_IS_LEFT)
    m.argv = ["prlimit", "--nofile=60:60", *m.argv]
    m.start()
    fds, failed = [], 0
    for i in range(100):
        try:
            fds.append(os.open(m.mnt / f"f{i}", os.O_CREAT | os.O_RDWR))
            os.write(fds[-1], b"x")
        except OSError as e:
            assert e.errno == errno.EMFILE
            failed += 1
    assert fds and failed > 10
    for fd in fds:
        assert os.pread(fd, 2, 0) == b"x"
        os.close(fd)
    m.expect_log("too many open files: the limit of the daemon is 60 descriptors; ulimit -Hn")
    assert m.log_text().count("too many open files") == 1
    (m.mnt / "again").write_bytes(b"y")


@pytest.mark.parametrize("filter", ["none", "shuffle"])
def test_a_last_chunk_is_not_decoded_to_be_appended_to(mount, filter):
    """Only its last block is, when it is encoded again; also behind a gap."""
    m = mount(f"codec=zstd,filter={filter},typesize=8,blocksize=64K")
    path, data = m.mnt / "f", bytearray(blob(5, 600_000, "floats"))
    path.write_bytes(data)
    with Moved(m) as moved:
        for n in range(40):
            with open(path, "ab", buffering=0) as f:
                f.write(b"%08d" % n * 10)
                data += b"%08d" % n * 10
                if n % 10 == 5:
                    os.truncate(path, len(data) + 20_000)
                    data += bytes(20_000)
    assert moved("read", "decoded_blocks") <= 4  # behind a gap the kernel reads the last page
    assert path.read_bytes() == data
    m.remount()
    assert path.read_bytes() == data
    m.unmount()
    assert libblosc.chunk_bytes(libblosc.open_frame(m.stored("f"))) == data


def last_block(path):
    """What is stored of it first, behind the lengths in front of it."""
    chunk = libblosc.open_frame(path).get_chunk(0)
    nbytes, blocksize = struct.unpack_from("<II", chunk, 4)
    at = struct.unpack_from("<I", chunk, 32 + 4 * ((nbytes - 1) // blocksize))[0]
    return chunk[at + 20 : at + 1000]


@pytest.mark.parametrize("size", [20_000, 70_000, 250_000])
def test_lines_are_appended_to_what_is_stored(mount, blosc2, size):
    """They are not coded, a few at a time: the stored form of what lies before them stays."""
    m = mount("commit=1000")
    path, data = m.mnt / "log", bytearray(blob(3, size, "text"))
    path.write_bytes(data)
    stored = [last_block(m.stored("log"))]
    with Moved(m) as moved:
        for n in range(100):
            with open(path, "ab", buffering=0) as f:
                f.write(b"%09d of a log\n" % n)
            data += b"%09d of a log\n" % n
            stored.append(last_block(m.stored("log")))
    assert len(set(stored)) < 10
    assert moved("read", "decoded_blocks") <= 4
    assert path.read_bytes() == data
    m.remount()
    assert path.read_bytes() == data
    m.unmount()
    assert libblosc.chunk_bytes(libblosc.open_frame(m.stored("log"))) == data


def test_a_log_is_changed_as_well(mount):
    """What lies before its end is overwritten and cut, while lines wait behind it, and what was
    stored is not what they belong to any more."""
    m = mount("commit=1000")
    path, data = m.mnt / "log", bytearray(blob(4, 30_000, "text"))
    path.write_bytes(data)
    for n in range(60):
        fd = os.open(path, os.O_RDWR)
        os.pwrite(fd, b"a line %03d\n" % n, len(data))
        data += b"a line %03d\n" % n
        if n % 3 == 1:
            sync(path)
            os.pwrite(fd, b"%05d" % n, 400 * n)
            data[400 * n : 400 * n + 5] = b"%05d" % n
        if n % 5 == 2:
            sync(path)
            os.ftruncate(fd, len(data) - 3 * n)
            os.pwrite(fd, b"behind", len(data) + n)
            data[len(data) - 3 * n :] = bytes(4 * n) + b"behind"
        os.close(fd)
        if n % 7 == 0:
            m.remount()
        assert path.read_bytes() == data
    m.unmount()
    assert libblosc.chunk_bytes(libblosc.open_frame(m.stored("log"))) == data


def test_a_log_is_changed_before_a_line_comes_behind_it(mount):
    """Its bytes of before are at hand, but are not what it has by now."""
    m = mount("commit=1000")
    path, data = m.mnt / "log", bytearray(blob(5, 30_000, "text"))
    path.write_bytes(data)
    for n in range(6):
        with open(path, "ab", buffering=0) as f:
            f.write(b"a line\n")
        data += b"a line\n"
        fd = os.open(path, os.O_RDWR | os.O_DIRECT)  # each write is a request
        os.pwrite(fd, b"changed", 5000 * n)
        data[5000 * n : 5000 * n + 7] = b"changed"
        os.pwrite(fd, b"another\n", len(data))
        data += b"another\n"
        os.close(fd)
        assert read_direct(path, len(data)) == data


def test_a_log_is_cut_after_a_line_came_behind_it(mount):
    """What is written farther behind it then leaves zeros where its bytes were."""
    m = mount("commit=1000")
    path, data = m.mnt / "log", blob(5, 30_000, "text")
    path.write_bytes(data)
    fd = os.open(path, os.O_RDWR | os.O_DIRECT)
    os.pwrite(fd, b"a line\n", 30_000)
    os.ftruncate(fd, 20_000)
    os.pwrite(fd, b"behind", 30_100)
    os.close(fd)
    assert read_direct(path, 40_000) == data[:20_000] + bytes(10_100) + b"behind"


def test_a_log_gets_zeros_after_a_line_came_behind_it(mount):
    m = mount("commit=1000")
    path, data = m.mnt / "log", blob(5, 30_000, "text")
    path.write_bytes(data)
    fd = os.open(path, os.O_RDWR | os.O_DIRECT)
    os.pwrite(fd, b"a line\n", 30_000)
    os.ftruncate(fd, 30_200)
    os.close(fd)
    assert read_direct(path, 40_000) == data + b"a line\n" + bytes(193)


def test_the_end_is_changed_and_more_comes_behind_it(mount):
    """In one page, and in a block that is not the only one of its chunk."""
    m = mount("codec=zstd,blocksize=16K,tune=off,commit=1000")
    path, data = m.mnt / "f", blob(5, 40_000, "text")
    path.write_bytes(data)
    m.remount()
    fd = os.open(path, os.O_RDWR | os.O_DIRECT)
    os.pwrite(fd, b"changed and longer", 39_990)
    os.close(fd)
    assert read_direct(path, 50_000) == data[:39_990] + b"changed and longer"


def test_a_log_gets_a_hole_after_a_line_came_behind_it(mount):
    m = mount("commit=1000")
    path, data = m.mnt / "log", bytearray(blob(5, 30_000, "text"))
    path.write_bytes(data)
    fd = os.open(path, os.O_RDWR | os.O_DIRECT)
    os.pwrite(fd, b"a line\n", 30_000)
    punch(fd, 5000, 10_000)
    os.close(fd)
    data[5000:15_000] = bytes(10_000)
    assert read_direct(path, 40_000) == data + b"a line\n"


def test_all_of_a_log_is_written_anew_after_a_line_came_behind_it(mount):
    m = mount("chunksize=64K,commit=1000")
    path, new = m.mnt / "log", blob(6, 64 << 10, "text")
    path.write_bytes(blob(5, 65_000, "text"))
    fd = os.open(path, os.O_RDWR | os.O_DIRECT)
    os.pwrite(fd, b"a line\n", 65_000)
    room = mmap.mmap(-1, len(new))
    room.write(new)
    assert os.pwrite(fd, room, 0) == len(new)
    os.close(fd)
    assert read_direct(path, len(new)) == new


def test_the_bytes_of_a_log_are_for_no_other_file(mount):
    """It says of its chunk what the log says of its own, and has other bytes."""
    m = mount("commit=1000")
    m.allow("corrupt")
    path, other = m.mnt / "log", m.mnt / "other"
    path.write_bytes(blob(5, 30_000, "text"))
    with open(path, "ab", buffering=0) as f:
        f.write(b"a line\n")
    frame = bytearray(m.stored("log").read_bytes())
    chunk = libblosc.open_frame(m.stored("log")).get_chunk(0)
    frame[frame.index(chunk) + len(chunk) // 2] ^= 1
    m.stored("other").write_bytes(frame)
    fd = os.open(other, os.O_RDWR | os.O_DIRECT)  # each write is a request
    refused = error_of(os.pwrite, fd, b"a line\n", 30_007)
    os.close(fd)
    assert refused == "EIO"
    assert m.stored("other").read_bytes() == frame


@pytest.fixture
def stored_slowly(mount, work):
    """A log whose last line has been stored, and a file that waits on its way to the disk from now
    on, when the background commit stores it."""
    m = mount("commit=0.3,intent=0", start=False)
    fault = Fault(m, work / "fault")
    m.argv = ["env", "MALLOC_PERTURB_=85", *m.argv]  # no memory is zeroed by chance
    m.start()
    path, data = m.mnt / "log", bytearray(blob(5, 30_000, "text"))
    path.write_bytes(data)
    with open(path, "ab", buffering=0) as f:
        f.write(b"a line\n")
    data += b"a line\n"
    fd = os.open(path, os.O_RDWR | os.O_DIRECT)
    fault.set(1, Fault.WRITE, how=Fault.WAIT, forever=1)
    yield m, fault, fd, data
    fault.set(0)
    os.close(fd)
    assert read_direct(path, len(data)) == data
    m.remount()
    assert path.read_bytes() == data


def test_a_line_comes_while_what_lies_before_it_is_stored(stored_slowly):
    _, fault, fd, data = stored_slowly
    os.pwrite(fd, b"changed", 5000)
    data[5000:5007] = b"changed"
    wait_until(fault.came, what="the write of the chunk")
    os.pwrite(fd, b"another\n", len(data))
    data += b"another\n"


def test_what_lies_before_a_line_is_changed_while_that_is_stored_in_vain(stored_slowly):
    m, fault, fd, data = stored_slowly
    os.pwrite(fd, b"another\n", len(data))
    data += b"another\n"
    wait_until(fault.came, what="the write of the chunk")
    os.pwrite(fd, b"changed", 5000)
    data[5000:5007] = b"changed"
    fault.set(1, Fault.WRITE, errno.ENOSPC, forever=1)
    m.expect_log("background commit: No space left")


def begin_new_chunk(fault, fd, data):
    """Its first bytes are on their way to the disk by the end of this. Returns where it begins."""
    place = 4 * MiB
    data += bytes(place + 20_006 - len(data))
    os.ftruncate(fd, len(data))
    os.pwrite(fd, b"new" * 1000, place)
    data[place : place + 3000] = b"new" * 1000
    wait_until(fault.came, what="the write of the chunk")
    return place


def test_a_new_chunk_is_changed_while_it_is_stored(stored_slowly):
    _, fault, fd, data = stored_slowly
    place = begin_new_chunk(fault, fd, data)
    os.pwrite(fd, b"changed", place)
    data[place : place + 7] = b"changed"


def test_the_end_of_a_new_chunk_comes_while_that_is_stored_in_vain(stored_slowly):
    m, fault, fd, data = stored_slowly
    place = begin_new_chunk(fault, fd, data)
    os.pwrite(fd, b"behind", place + 20_000)
    data[place + 20_000 :] = b"behind"
    fault.set(1, Fault.WRITE, errno.ENOSPC, forever=1)
    m.expect_log("background commit: No space left")


def test_many_pages_are_stored_in_vain_while_another_is_written(stored_slowly):
    m, fault, fd, data = stored_slowly
    for place in range(0, 24_000, 4096):
        os.pwrite(fd, b"first", place)
        data[place : place + 5] = b"first"
    wait_until(fault.came, what="the write of the chunk")
    os.pwrite(fd, b"second", 25_000)
    data[25_000:25_006] = b"second"
    fault.set(1, Fault.WRITE, errno.ENOSPC, forever=1)
    m.expect_log("background commit: No space left")


def test_the_old_bytes_of_a_chunk_that_gets_longer(mount):
    """They are read, overwritten, and cut, while what is behind them has not been stored yet."""
    m = mount("codec=zstd,filter=shuffle,typesize=8,blocksize=16K,commit=3600")
    path, data = m.mnt / "f", bytearray(blob(6, 300_000, "floats"))
    path.write_bytes(data)
    m.remount("codec=zstd,filter=shuffle,typesize=8,blocksize=16K,commit=3600")
    fd = os.open(path, os.O_RDWR)
    for n, cut in enumerate((350_000, 340_000, 300_001, 299_000, 20_000)):
        os.pwrite(fd, b"behind it", len(data) + 30_000)
        data += bytes(30_000) + b"behind it"
        os.pwrite(fd, b"within it", 10_000 * n)
        data[10_000 * n : 10_000 * n + 9] = b"within it"
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        assert read_direct(path, len(data)) == data
        if n % 2:
            os.fsync(fd)
        os.ftruncate(fd, cut)
        data = (data + bytes(20_000))[:cut]
        assert read_direct(path, len(data)) == data
    os.close(fd)
    m.remount()
    assert path.read_bytes() == data
    m.unmount()
    assert libblosc.chunk_bytes(libblosc.open_frame(m.stored("f"))) == data


def patch_another(m):
    """Leaves its bytes in the buffers in which chunks are put together."""
    with open(m.mnt / "another", "wb") as f:
        f.write(b"another's" * 30_000)
    fd = os.open(m.mnt / "another", os.O_RDWR)
    for place in range(0, 270_000, 10_000):
        os.pwrite(fd, b"changed", place)
    os.close(fd)


@pytest.mark.parametrize("changes", [1, 4])
def test_a_chunk_gets_zeros_at_its_end_and_other_bytes_before(mount, changes):
    """Nothing is written to the block that gets longer, of four. If that is the only one without
    other bytes, the chunk is encoded as a whole."""
    m = mount("codec=zstd,blocksize=16K,commit=3600")
    path, data = m.mnt / "f", bytearray(blob(6, 50_000, "text"))
    path.write_bytes(data)
    m.remount("codec=zstd,blocksize=16K,commit=3600")
    patch_another(m)
    fd = os.open(path, os.O_RDWR)
    for place in range(100, 12_000 * changes, 12_000):
        os.pwrite(fd, b"changed", place)
        data[place : place + 7] = b"changed"
    os.ftruncate(fd, 60_000)
    data += bytes(10_000)
    os.close(fd)
    assert read_direct(path, len(data)) == data
    m.remount()
    assert path.read_bytes() == data
    m.unmount()
    assert libblosc.chunk_bytes(libblosc.open_frame(m.stored("f"))) == data


def test_zeros_at_the_end_of_a_new_chunk(mount):
    """They were never written."""
    m = mount("commit=3600")
    patch_another(m)
    fd = os.open(m.mnt / "f", os.O_CREAT | os.O_RDWR | os.O_DIRECT)
    os.pwrite(fd, b"new" * 1000, 0)
    os.ftruncate(fd, 60_000)
    os.close(fd)
    assert read_direct(m.mnt / "f", 60_000) == b"new" * 1000 + bytes(57_000)


@pytest.mark.parametrize("first", [0, 5_536])
def test_a_chunk_that_got_longer_and_is_not_the_last_any_more(mount, first):
    """The next one is stored before it, and then its length changes, too. The frame knew how long
    only one of them was: the other could not be stored any more, and with it nothing was."""
    m = mount("codec=zstd,chunksize=64K,blocksize=4K,workers=1,commit=3600")
    path, data = m.mnt / "f", blob(8, 60_000, "text")
    path.write_bytes(data)
    m.remount("codec=zstd,chunksize=64K,blocksize=4K,workers=1,commit=3600")
    more = blob(9, 150_000, "text")
    fd = os.open(path, os.O_RDWR)
    os.ftruncate(fd, len(data) + first)  # up to the end of the chunk, or not at all
    os.pwrite(fd, more, len(data) + first)
    data += bytes(first) + more
    assert read_direct(path, len(data)) == data  # the kernel has sent all of it by now
    os.ftruncate(fd, 100_000)
    data = data[:100_000]
    assert read_direct(path, len(data)) == data
    os.fsync(fd)
    os.close(fd)
    m.remount()
    assert path.read_bytes() == data


@pytest.mark.parametrize("limit", [1000, 100_000])
def test_the_table_of_descriptors_need_not_grow(mount, limit):
    """For that the kernel takes a hundred times as long as for opening a file."""
    limit = min(limit, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    m = mount(start=False)
    m.argv = ["prlimit", f"--nofile={limit}:{limit}", *m.argv]
    m.start()
    size = re.search(r"FDSize:\s+(\d+)", Path(f"/proc/{m.proc.pid}/status").read_text())
    assert int(size[1]) >= min(limit, 1 << 16)


def test_closing_a_plain_file_when_descriptors_have_run_out(mount):
    """What is told is that, and not that the file's own is bad."""
    m = mount().allow(*NONE_IS_LEFT)
    (m.backing / "plain").touch()
    fd = os.open(m.mnt / "plain", os.O_RDWR)
    os.pwrite(fd, b"x", 0)
    limit = resource.RLIMIT_NOFILE, (3, resource.prlimit(m.proc.pid, resource.RLIMIT_NOFILE)[1])
    before = resource.prlimit(m.proc.pid, *limit)
    assert error_of(os.close, fd) == "EMFILE"
    resource.prlimit(m.proc.pid, resource.RLIMIT_NOFILE, before)
    m.expect_log("too many open files: the limit of the daemon")
    assert (m.mnt / "plain").read_bytes() == b"x"


def open_until_refused(open_one):
    fds = []
    with pytest.raises(OSError) as e:
        for i in range(300):
            fds.append(open_one(i))
    assert e.value.errno == errno.EMFILE
    return fds


def changed_without_opening(mnt):
    (mnt / "another").mkdir()
    (mnt / "f297").rename(mnt / "another/f")
    (mnt / "f298").unlink()
    (mnt / "d298").rmdir()
    os.truncate(mnt / "another/f", 2)
    assert (mnt / "another/f").stat().st_size == 2
    assert os.getxattr(mnt / "f296", "user.cframefs.stored")
    (mnt / "link").symlink_to("there")
    assert os.readlink(mnt / "link") == "there"


@pytest.mark.parametrize("kind", ["new", "read", "shared", "plain", "directory"])
def test_at_the_limit_of_descriptors_what_is_brief_goes_on(mount, kind):
    """Who has too many files open can open no more; names and attributes need none that stays."""
    m = mount(start=False).allow("too many open files")
    m.argv = ["prlimit", "--nofile=256:256", *m.argv]
    m.start()
    for i in range(300):
        (m.mnt / f"d{i}").mkdir()
        (m.mnt / f"f{i}").write_bytes(b"old")
        (m.backing / f"p{i}").touch()
        if kind == "shared":  # its lock file takes another one
            Path(f"{m.stored(f'f{i}')}.b2lock").touch()
    (m.mnt / "d0/inside").touch()
    letter = {"new": "n", "read": "f", "shared": "f", "plain": "p", "directory": "d"}[kind]
    flags = os.O_CREAT | os.O_RDWR if kind == "new" else os.O_RDONLY
    fds = open_until_refused(lambda i: os.open(m.mnt / f"{letter}{i}", flags))
    try:
        assert len(fds) > (75 if kind == "shared" else 150)
        assert len(os.listdir(f"/proc/{m.proc.pid}/fd")) < 245
        changed_without_opening(m.mnt)
        if letter in "nf":
            os.close(os.open(m.mnt / f"{letter}0", os.O_RDONLY))  # it is open already
        if kind != "directory":
            assert os.listdir(m.mnt / "d0") == ["inside"]
    finally:
        for fd in fds:
            os.close(fd)
    assert (m.mnt / "another/f").read_bytes() == b"ol"


def test_a_last_close_when_descriptors_have_run_out(mount):
    """A commit needs one for a lock file that has come. Who closes is told; nothing is lost if one
    is free soon."""
    m = mount("commit=1000,intent=0").allow("Too many open files", *NONE_IS_LEFT)
    fd = os.open(m.mnt / "f", os.O_CREAT | os.O_RDWR)
    os.pwrite(fd, b"data", 0)
    Path(f"{m.stored('f')}.b2lock").touch()
    limit = resource.prlimit(m.proc.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(m.proc.pid, resource.RLIMIT_NOFILE, (3, limit[1]))
    assert error_of(os.close, fd) == "EMFILE"
    time.sleep(0.5)
    resource.prlimit(m.proc.pid, resource.RLIMIT_NOFILE, limit)
    m.remount()
    assert (m.mnt / "f").read_bytes() == b"data"


def kept_and_moved(m, number, out):
    """Whole chunks by direct I/O, a page into each at once, and other requests in between."""
    rng = random.Random(number)
    model = bytearray(4 * MiB)
    room = mmap.mmap(-1, MiB)  # aligned, or the kernel would cut the request
    (m.backing / f"plain-{number}").touch()
    files = [
        os.open(m.mnt / name, os.O_CREAT | os.O_RDWR | os.O_DIRECT)
        for name in (f"frame-{number}", f"plain-{number}")
    ]
    long = m.mnt / f"{number}-".ljust(240, "a")
    long.touch()
    for turn in range(12):
        at = rng.randrange(4) * MiB
        room[:] = rng.randbytes(MiB) if turn % 2 else rng.randbytes(4096) * 256
        inside = rng.randrange(MiB // 4096) * 4096
        for fd in files:
            assert os.pwrite(fd, memoryview(room), at) == MiB
            assert os.pwrite(fd, memoryview(room)[:4096], at + inside) == 4096
        model[at : at + MiB] = room
        model[at + inside : at + inside + 4096] = room[:4096]
        target = f"{number}-{turn}-".ljust(3000, "t")
        os.symlink(target, m.mnt / f"link-{number}-{turn}")
        assert os.readlink(m.mnt / f"link-{number}-{turn}") == target
        new = long.with_name(f"{number}-{turn}-".ljust(240, "b"))
        long.rename(new)
        long = new
    for fd in files:
        os.close(fd)
    out[number] = bytes(model[: max(0, (m.mnt / f"frame-{number}").stat().st_size)])


@pytest.mark.concurrent
def test_what_comes_with_requests(mount):
    """A whole chunk stays in the buffer that it came in; the next request gets another one."""
    m = mount("codec=lz4")
    out = {}
    threads = [threading.Thread(target=kept_and_moved, args=(m, k, out)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(out) == 4  # none failed
    for name in ("frame", "plain"):
        for number, want in out.items():
            assert (m.mnt / f"{name}-{number}").read_bytes() == want, f"{name}-{number}"
    m.remount()
    for number, want in out.items():
        assert (m.mnt / f"frame-{number}").read_bytes() == want, number


def test_an_append_that_fails_does_not_make_the_file_longer(faulty):
    """Its last chunk is read for that: whichever read it is from which on none succeeds."""
    m, fault = faulty(
        "chunksize=256K,blocksize=4K,codec=lz4,commit=0",
        "f.b2frame: (write|truncate): Input/output error",
    )
    data, failed = blob(1, 100_001, "text"), 0
    (m.mnt / "f").write_bytes(data)
    for n in range(1, 50):
        m.remount()
        assert (m.mnt / "f").stat().st_size == len(data), n
        fd = os.open(m.mnt / "f", os.O_RDWR | os.O_DIRECT)
        fault.set(n, Fault.READ, errno.EIO, forever=1)
        error = error_of(os.pwrite, fd, b"more", len(data) + 1)
        came = fault.came()
        fault.stop()
        assert error == ("EIO" if came else None), n
        os.fsync(fd)
        os.close(fd)
        failed += came
        if not came:
            break
    assert failed > 2
    assert (m.mnt / "f").read_bytes() == data + b"\0more"
