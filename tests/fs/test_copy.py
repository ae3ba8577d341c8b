"""copy_file_range: whole chunks between frames go as they are stored, everything else by bytes."""

import errno
import os
import random
import struct
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from libdata import KINDS, blob
from libfault import Fault
from libmemory import resident
from libmount import CFRAME, SLOWNESS, wait_until
from libposix import error_of, punch, read_direct
from libshare import stored_bytes

CHUNK = 64 << 10
SMALL = "chunksize=64K,blocksize=8K"
SEED = int(os.environ.get("CFRAMEFS_SEED") or 1)


def copy(source, target, at=0, to=0, size=None):
    """Like cp: until all is copied or nothing comes any more. Returns how many bytes went."""
    done = 0
    fds = os.open(source, os.O_RDONLY), os.open(target, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        size = os.fstat(fds[0]).st_size - at if size is None else size
        while done < size:
            n = os.copy_file_range(*fds, size - done, at + done, to + done)
            if n == 0:
                break
            done += n
        return done
    finally:
        for fd in fds:
            os.close(fd)


def chunks(blosc2, m, name):
    """The chunks of a frame as they are stored; None for a hole."""
    schunk = blosc2.open(str(m.stored(name)))
    special = [info.special != blosc2.SpecialValue.NOT_SPECIAL for info in schunk.iterchunks_info()]
    return [None if hole else bytes(schunk.get_chunk(n)) for n, hole in enumerate(special)]


def verify(m, name):
    got = subprocess.run([CFRAME, "verify", m.stored(name)], capture_output=True, text=True)
    assert got.returncode == 0, got.stdout + got.stderr


@pytest.mark.parametrize("tail", [0, 12_345])
@pytest.mark.parametrize("kind", ["text", "floats", "noise"])
def test_whole_chunks_are_not_encoded_again(mount, blosc2, kind, tail):
    """The mount would choose something else now: what is stored tells that nobody did."""
    m = mount(SMALL)
    data = blob(1, 5 * CHUNK + tail, kind)
    (m.mnt / "source").write_bytes(data)
    m.remount(f"{SMALL},codec=lz4,level=9,tune=off")
    assert copy(m.mnt / "source", m.mnt / "target") == len(data)
    assert (m.mnt / "target").read_bytes() == data
    assert read_direct(m.mnt / "target", len(data) + 1) == data
    m.unmount()
    assert chunks(blosc2, m, "target") == chunks(blosc2, m, "source")
    assert stored_bytes(blosc2, m.stored("target")) == data
    verify(m, "target")


def test_cp(mount, blosc2, tool):
    """Compressed files look sparse, by their blocks. Those cp 9.1 reads and writes unless
    it is told not to; that of 9.7 copies by copy_file_range unless told so."""
    m = mount(SMALL)
    data = blob(2, 700_001, "text")
    (m.mnt / "source").write_bytes(data)
    m.remount(f"{SMALL},codec=lz4,level=9,tune=off")
    for target, options in (("target", ["--sparse=never"]), ("other", [])):
        subprocess.run([tool("cp"), *options, m.mnt / "source", m.mnt / target], check=True)
        assert (m.mnt / target).read_bytes() == data
    m.unmount()
    source = chunks(blosc2, m, "source")
    assert any(chunks(blosc2, m, name) == source for name in ("target", "other"))
    assert stored_bytes(blosc2, m.stored("target")) == data
    assert stored_bytes(blosc2, m.stored("other")) == data


def test_dirty_source_and_dirty_target(mount, blosc2):
    m = mount(SMALL)
    data = bytearray(blob(3, 4 * CHUNK, "text"))
    source, target = (
        os.open(m.mnt / "s", os.O_RDWR | os.O_CREAT),
        os.open(m.mnt / "t", os.O_RDWR | os.O_CREAT),
    )
    try:
        os.pwrite(source, data, 0)
        os.pwrite(target, blob(4, 6 * CHUNK, "ramp"), 0)
        os.fsync(source)
        os.pwrite(source, b"new", CHUNK + 7)
        os.pwrite(target, b"old", 2 * CHUNK + 9)
        data[CHUNK + 7 : CHUNK + 10] = b"new"
        assert os.copy_file_range(source, target, 3 * CHUNK, 0, CHUNK) == 3 * CHUNK
        expect = blob(4, 6 * CHUNK, "ramp")
        expect = expect[:CHUNK] + bytes(data[: 3 * CHUNK]) + expect[4 * CHUNK :]
        assert os.pread(target, 6 * CHUNK, 0) == expect
    finally:
        os.close(source)
        os.close(target)
    m.remount()
    assert (m.mnt / "t").read_bytes() == expect
    m.unmount()
    assert stored_bytes(blosc2, m.stored("t")) == expect


def test_a_dirty_source_that_could_not_be_stored(faulty):
    """Its newest bytes are in memory alone, over older ones that are stored."""
    m, fault = faulty(f"{SMALL},commit=0")
    data = bytearray(blob(3, 2 * CHUNK, "text"))
    (m.mnt / "s").write_bytes(data)
    with open(m.mnt / "s", "r+b", 0) as source, open(m.mnt / "t", "w+b", 0) as target:
        fds = source.fileno(), target.fileno()
        os.pwrite(fds[0], b"new", CHUNK + 7)
        data[CHUNK + 7 : CHUNK + 10] = b"new"
        fault.set(1, Fault.WRITE, errno.EIO)
        assert os.copy_file_range(*fds, 2 * CHUNK, 0, 0) == 2 * CHUNK
        assert fault.came() and os.pread(fds[1], 2 * CHUNK, 0) == data
    m.remount()
    assert (m.mnt / "s").read_bytes() == (m.mnt / "t").read_bytes() == data


def test_a_chunk_that_is_too_large_goes_by_bytes(mount):
    """In its stored form it would take more memory than a copy may."""
    m = mount("chunksize=16M,level=0")
    data = blob(5, (16 << 20) + 5, "noise")
    (m.mnt / "s").write_bytes(data)
    assert copy(m.mnt / "s", m.mnt / "t") == len(data)
    m.remount()
    assert (m.mnt / "t").read_bytes() == data


def test_what_was_copied_is_committed_in_the_background(mount):
    m = mount(f"{SMALL},commit=0.1,intent=0")
    data = blob(1, 4 * CHUNK, "noise")
    (m.mnt / "source").write_bytes(data)
    source = os.open(m.mnt / "source", os.O_RDONLY)
    fd = os.open(m.mnt / "target", os.O_RDWR | os.O_CREAT)
    assert os.copy_file_range(source, fd, len(data), 0, 0) == len(data)
    wait_until(lambda: m.stored("target").stat().st_size > len(data), 10, "the commit")
    time.sleep(0.3)
    m.kill()
    for one in (source, fd):
        error_of(os.close, one)
    m.start()
    assert (m.mnt / "target").read_bytes() == data


def test_copying_over_a_file_takes_little_more_room(mount):
    """The places of chunks that were replaced are used again before the file is closed."""
    m = mount(f"{SMALL},commit=0")
    old, new = (blob(i, 64 * CHUNK, "noise") for i in range(2))
    (m.mnt / "source").write_bytes(new)
    (m.mnt / "target").write_bytes(old)
    source, fd = os.open(m.mnt / "source", os.O_RDONLY), os.open(m.mnt / "target", os.O_RDWR)
    os.fsync(fd)
    assert os.copy_file_range(source, fd, len(new), 0, 0) == len(new)
    assert m.stored("target").stat().st_blocks * 512 < 1.6 * len(new)
    for one in (source, fd):
        os.close(one)
    assert (m.mnt / "target").read_bytes() == new


def test_holes_stay_holes(mount, blosc2):
    m = mount(SMALL)
    with open(m.mnt / "source", "wb") as f:
        f.truncate(6 * CHUNK + 100)
        os.pwrite(f.fileno(), blob(5, 100, "noise"), 3 * CHUNK)
    (m.mnt / "target").write_bytes(blob(6, 2 * CHUNK, "noise"))
    assert copy(m.mnt / "source", m.mnt / "target") == 6 * CHUNK + 100
    with open(m.mnt / "target", "rb") as f:
        assert os.lseek(f.fileno(), 0, os.SEEK_DATA) == 3 * CHUNK
        assert os.lseek(f.fileno(), 3 * CHUNK, os.SEEK_HOLE) == 4 * CHUNK
    m.unmount()
    assert [c is None for c in chunks(blosc2, m, "target")] == [True] * 3 + [False] + [True] * 3


def test_ends_and_errors(fs):
    data = blob(7, 100_000, "text")
    (fs / "f").write_bytes(data)
    assert copy(fs / "f", fs / "g", at=100_000, size=10) == 0
    assert copy(fs / "f", fs / "g", at=99_990, size=100) == 10
    assert (fs / "g").read_bytes() == data[-10:]
    assert error_of(copy, fs / "f", fs / "f", at=0, to=10, size=100) == "EINVAL"
    assert copy(fs / "f", fs / "f", at=0, to=100_000, size=50_000) == 50_000
    assert (fs / "f").read_bytes() == data + data[:50_000]
    assert error_of(copy, fs / "f", fs / "g", to=(1 << 62), size=10) == "EFBIG"
    with open(fs / "f", "rb") as f, open(fs / "g", "ab") as g:
        assert error_of(os.copy_file_range, f.fileno(), g.fileno(), 10, 0, 0) == "EBADF"


def test_copying_inside_a_file(mount, blosc2):
    m = mount(SMALL)
    data = blob(8, 4 * CHUNK, "text")
    (m.mnt / "f").write_bytes(data)
    assert copy(m.mnt / "f", m.mnt / "f", at=CHUNK, to=4 * CHUNK, size=2 * CHUNK) == 2 * CHUNK
    assert (m.mnt / "f").read_bytes() == data + data[CHUNK : 3 * CHUNK]
    m.unmount()
    stored = chunks(blosc2, m, "f")
    assert stored[4:6] == stored[1:3]


def test_between_a_frame_and_a_plain_file(mount):
    m = mount()
    data = blob(9, 300_000, "text")
    (m.backing / "plain").write_bytes(data)
    assert copy(m.mnt / "plain", m.mnt / "frame") == len(data)
    assert copy(m.mnt / "frame", m.mnt / "plain", to=5) == len(data)
    assert (m.mnt / "frame").read_bytes() == data
    assert (m.backing / "plain").read_bytes() == data[:5] + data
    (m.backing / "other").write_bytes(b"")
    assert copy(m.mnt / "plain", m.mnt / "other") == len(data) + 5


def test_a_damaged_chunk_is_not_copied(mount, blosc2):
    m = mount(f"{SMALL},tune=off,level=0")
    data = blob(10, 3 * CHUNK, "noise")
    (m.mnt / "source").write_bytes(data)
    m.unmount()
    stored = bytearray(m.stored("source").read_bytes())
    at = stored.index(data[CHUNK + 100 : CHUNK + 200])
    stored[at] ^= 1
    m.stored("source").write_bytes(stored)
    m.start().allow("copy_file_range: .*checksum of a block")
    (m.mnt / "target").write_bytes(b"")
    assert copy(m.mnt / "source", m.mnt / "target", size=CHUNK) == CHUNK
    assert (
        error_of(copy, m.mnt / "source", m.mnt / "target", at=CHUNK, to=CHUNK, size=CHUNK) == "EIO"
    )
    assert (m.mnt / "target").read_bytes() == data[:CHUNK]


def test_chunks_of_different_items_stay_readable(mount, blosc2):
    """Chunks of many files into one: those that cannot stand beside the others are encoded anew."""
    m = mount(SMALL)
    rng = random.Random(SEED)
    sources = {}
    for i, options in enumerate(
        [
            "",
            "typesize=8,filter=shuffle",
            "typesize=4,filter=bitshuffle",
            "typesize=3,filter=shuffle",
            "codec=lz4,tune=off",
            "typesize=4,filter=bytedelta",
        ]
    ):
        m.remount(f"{SMALL},{options}".rstrip(","))
        for kind in ("floats", "ramp", "text"):
            name = f"{kind}{i}"
            sources[name] = blob(
                i,
                rng.choice([8, 8, 9]) * CHUNK // rng.choice([1, 1, 2]) + rng.choice([0, 0, 1, 24]),
                kind,
            )
            (m.mnt / name).write_bytes(sources[name])
    for options in ("", "typesize=8,filter=shuffle", "tune=off"):
        m.remount(f"{SMALL},{options}".rstrip(","))
        for number in range(6):
            name, expect = f"target{options[:8]}{number}", b""
            for _ in range(rng.randrange(2, 6)):
                source = rng.choice(list(sources))
                at = rng.randrange(4) * CHUNK
                size = rng.choice([CHUNK, 2 * CHUNK, 4 * CHUNK, CHUNK + 1000])
                to = rng.randrange(len(expect) // CHUNK + 2) * CHUNK
                piece = sources[source][at : at + size]
                assert copy(m.mnt / source, m.mnt / name, at=at, to=to, size=size) == len(piece)
                if piece:
                    expect = expect[:to].ljust(to, b"\0") + piece + expect[to + len(piece) :]
            assert (m.mnt / name).read_bytes() == expect
            sources[name] = expect
    m.unmount()
    for name, expect in sources.items():
        schunk = blosc2.open(str(m.stored(name)), dparams={"nthreads": 1})
        assert stored_bytes(blosc2, m.stored(name)) == expect, name
        whole = len(expect) - len(expect) % schunk.typesize
        assert whole == len(expect) and (not expect or bytes(schunk[:]) == expect), name
        heads = [c[:12] for c in chunks(blosc2, m, name) if c]
        items = {c[3] for c in heads} - {1}
        assert len(items) <= 1, f"{name}: chunks of several item sizes"
        for item in items:
            assert all(int.from_bytes(c[8:12], "little") % item for c in heads if c[3] == 1), name
        verify(m, name)


def test_a_copied_chunk_of_items_in_a_file_that_ends_within_one(mount, blosc2):
    """It is encoded anew as bytes, like those that were written, also where the file has had such
    a length before: the reference could read no slice of the frame."""
    m = mount(f"{SMALL},typesize=8,filter=shuffle")
    data = blob(1, CHUNK, "floats")
    (m.mnt / "source").write_bytes(data)
    source = os.open(m.mnt / "source", os.O_RDONLY)
    fd = os.open(m.mnt / "target", os.O_RDWR | os.O_CREAT)
    os.pwrite(fd, data + b"end", 0)
    os.fsync(fd)
    os.ftruncate(fd, CHUNK)
    assert os.copy_file_range(source, fd, CHUNK, 0, CHUNK) == CHUNK
    assert {c[3] for c in chunks(blosc2, m, "source")} == {8}
    os.pwrite(fd, b"end", 2 * CHUNK)
    os.close(fd)
    os.close(source)
    m.unmount()
    assert [c[3] for c in chunks(blosc2, m, "target")] == [1, 1, 1]
    assert stored_bytes(blosc2, m.stored("target")) == data + data + b"end"


@pytest.mark.parametrize(
    "options",
    [SMALL, "chunksize=48K,blocksize=12K,typesize=3,filter=shuffle,dirty_max=1M,commit=1"],
)
def test_any_pieces_agree_with_a_plain_directory(mount, plain, blosc2, options):
    m = mount(options)
    rng = random.Random(SEED)
    size = 48 << 10 if "48K" in options else CHUNK

    def offset():
        return max(
            0,
            size * rng.randrange(5)
            + (rng.choice([-1, 1, 4096, 1000]) if rng.random() < 0.4 else 0),
        )

    for name in "ab":
        for top in (plain, m.mnt):
            (top / name).write_bytes(blob(ord(name), 5 * size + 10, "text"))
    for step in range(150):
        source, target = rng.choice("ab"), rng.choice("ab")
        what = rng.choice(["copy"] * 6 + ["write", "punch", "truncate", "sync"])
        at, to, length = (
            offset(),
            offset(),
            rng.choice([size, 2 * size, 3 * size, rng.randrange(1, 3 * size)]),
        )
        kind, results = rng.choice(KINDS), []
        for top in (plain, m.mnt):
            if what == "copy":
                try:
                    results.append(copy(top / source, top / target, at, to, length))
                except OSError as error:
                    results.append(error.errno)
                continue
            with open(top / target, "r+b", buffering=0) as f:
                if what == "write":
                    os.pwrite(f.fileno(), blob(step, length % 30_000, kind), at)
                elif what == "punch":
                    punch(f.fileno(), at, length)
                elif what == "truncate":
                    f.truncate(at + to)
                else:
                    os.fsync(f.fileno())
        assert len(set(results)) <= 1, (step, what, source, target, at, to, length, results)
        assert (m.mnt / target).read_bytes() == (plain / target).read_bytes(), (
            step,
            what,
            source,
            target,
            at,
            to,
            length,
        )
    m.remount()
    for name in "ab":
        assert (
            read_direct(m.mnt / name, (plain / name).stat().st_size + 1)
            == (plain / name).read_bytes()
        )
    m.unmount()
    for name in "ab":
        assert stored_bytes(blosc2, m.stored(name)) == (plain / name).read_bytes()
        verify(m, name)


@pytest.mark.parametrize("sizes", [("1M", "64K"), ("64K", "1M")])
def test_into_an_emptied_file_of_a_mount_with_other_chunks(mount, sizes):
    """The target takes up the new chunk size in the middle of it: its chunks
    are not those of the source any more."""
    m = mount(f"chunksize={sizes[0]}")
    data = blob(9, 2_500_001, "noise")
    (m.mnt / "source").write_bytes(data)
    (m.mnt / "target").write_bytes(data[:1_300_000])
    m.remount(f"chunksize={sizes[1]}")
    for to in (0, CHUNK):
        os.close(os.open(m.mnt / "target", os.O_WRONLY | os.O_TRUNC))
        assert copy(m.mnt / "source", m.mnt / "target", 0, to) == len(data)
        assert read_direct(m.mnt / "target", to + len(data)) == bytes(to) + data
    m.remount()
    assert (m.mnt / "target").read_bytes() == bytes(CHUNK) + data


def head(flags, *, version=5, typesize=1, nbytes=CHUNK, block=CHUNK, cbytes=32, last=0):
    start = struct.pack("<BBBBIII", version, 1, flags, typesize, nbytes, block, cbytes)
    return start + (bytes(15) + bytes([last]) if version > 2 else b"")


# Chunks that are read here, though the reference could not read them in a frame, and what they
# hold.
ODD = {
    "shorter than a frame allows": (
        head(0x10, version=2, cbytes=24) + struct.pack("<Ii", 20, 0),
        bytes(CHUNK),
    ),
    "zeros": (head(5, last=0x10), bytes(CHUNK)),
    "uninitialised": (head(5, last=0x40), bytes(CHUNK)),
    "NaN": (head(5, typesize=8, last=0x20), struct.pack("<d", float("nan")) * (CHUNK // 8)),
    "plain copy with a dictionary flag": (
        head(7, cbytes=32 + CHUNK, last=1) + blob(3, CHUNK, "noise"),
        blob(3, CHUNK, "noise"),
    ),
    "block size that is no multiple of the items": (
        head(0x15, typesize=3, block=40_000, cbytes=48) + struct.pack("<IIii", 40, 44, 0, 0),
        bytes(CHUNK),
    ),
}


@pytest.mark.parametrize("what", ODD)
def test_chunks_that_other_readers_refuse_go_by_bytes(mount, blosc2, what):
    m = mount(SMALL)
    raw, data = ODD[what]
    path = m.backing / "source.b2frame"
    schunk = blosc2.SChunk(chunksize=CHUNK, contiguous=False, urlpath=str(path), mode="w")
    for _ in range(2):
        schunk.append_data(blob(4, CHUNK, "noise"))
    (path / "00000000.chunk").write_bytes(raw)
    expect = data + blob(4, CHUNK, "noise")
    assert (m.mnt / "source").read_bytes() == expect
    assert copy(m.mnt / "source", m.mnt / "target") == len(expect)
    assert read_direct(m.mnt / "target", len(expect) + 1) == expect
    m.unmount()
    assert stored_bytes(blosc2, m.stored("target")) == expect
    verify(m, "target")


def test_blocks_of_bytes_that_are_a_little_larger_than_those_of_items(mount, reference):
    """The reference keeps its buffers for slices of blocks that are no larger, although items need
    more room than bytes: such a chunk goes by bytes, in blocks that are smaller."""
    chunk = 65_532
    m = mount(f"filter=shuffle,typesize=12,codec=lz4,blocksize=4K,chunksize={chunk}")
    items = (blob(1, 8 << 10, "noise") + bytes(8 << 10)) * 4
    (m.mnt / "to").write_bytes(items[:chunk] * 4)
    m.remount(f"filter=none,tune=off,codec=lz4,blocksize=4K,chunksize={chunk}")
    text = blob(2, chunk, "text")
    (m.mnt / "from").write_bytes(text)
    with open(m.mnt / "from", "rb") as source, open(m.mnt / "to", "r+b") as target:
        assert os.copy_file_range(source.fileno(), target.fileno(), chunk, 0, chunk) == chunk
    m.unmount()
    reference.check(m.stored("to"), items[:chunk] + text + 2 * items[:chunk], 1)


def test_what_a_copy_takes_is_not_kept(mount):
    """The kernel wakes the threads that serve in turn: soon each of them has copied something."""
    m = mount("cache=8M,dirty_max=8M")
    chunk = 1 << 20
    data = blob(3, 4 * chunk, "noise")
    (m.mnt / "source").write_bytes(data)
    (m.mnt / "target").write_bytes(data)
    with ThreadPoolExecutor(24) as pool:  # so that there are as many threads as can be
        read = pool.map(read_direct, 96 * [m.mnt / "source"], 96 * [len(data)])
        assert all(got == data for got in read)
    before = resident(m)
    for n in range(60):
        at = n % 3 * chunk
        assert copy(m.mnt / "source", m.mnt / "target", at, at, chunk) == chunk
        assert copy(m.mnt / "source", m.mnt / "target", at + 100, at, chunk) == chunk
    grown = resident(m) - before
    assert SLOWNESS > 1 or grown < 8 << 20, f"{grown >> 20} MiB more"
    m.unmount()
