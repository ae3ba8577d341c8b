"""Large blocks of other programs' frames: they are read within the memory that the options name, or
not at all."""

import os
import random
import struct
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import blosc2
import numpy as np
import pytest

import libframe
from libdata import blob
from libfault import Fault
from libmemory import held_to, peak, resident
from libmount import SLOWNESS, wait_until
from libposix import error_of, read_direct
from libstats import stats

MiB = 1 << 20
BESIDE = 64 * MiB  # docs/LIMITS.md, Memory
READS = 4 if SLOWNESS == 1 else 1  # of each reader
SMALLER = 1 if SLOWNESS == 1 else 4  # bounds of memory, and what is held to them
LARGE = r"h.b2frame: chunk \d+: reading a block of \d+ bytes takes \d+ MiB of memory"
WRITE = r"h.b2frame: its chunks have \d+ bytes: writing to it takes"
F = blosc2.Filter


def numbers(lo, n):
    """Items lo .. lo + n - 1 of every frame here: nothing that deflates to nothing."""
    k = np.arange(lo, lo + n, dtype=np.uint32)
    return (k * np.uint32(2654435761) & np.uint32(0xFFFF)).astype(np.uint32)


def frame(path, chunk, nchunks=1, block=None, filters=(F.SHUFFLE,), **cparams):
    cparams = {"clevel": 1, "typesize": 4, "nthreads": 1, "filters": list(filters)} | cparams
    cparams["blocksize"] = block or chunk
    s = blosc2.SChunk(
        chunksize=chunk, urlpath=str(path), mode="w", contiguous=True, cparams=cparams
    )
    for n in range(nchunks):
        s.append_data(numbers(n * chunk // 4, chunk // 4))
    assert s.blocksize == (block or chunk)
    return s


def read(path, at, n=4096):
    with open(path, "rb", buffering=0) as f:
        return os.pread(f.fileno(), n, at)


def right(path, at, n=4096):
    return read(path, at, n) == numbers(at // 4, n // 4).tobytes()


def test_a_block_that_is_too_large(mount):
    """The reader is told, the log says once what would help, and nobody else notices."""
    m = mount("cache=16M", start=False)
    frame(m.backing / "h.b2frame", 100 * MiB)
    m.start()
    m.allow(LARGE)
    for at in (0, 50 * MiB, 100 * MiB - 4096):
        assert error_of(read, m.mnt / "h", at) == "EFBIG"
    m.expect_log(LARGE)
    assert len([line for line in m.log_text().splitlines() if "reading a block" in line]) == 1
    (m.mnt / "other").write_bytes(b"other")
    assert (m.mnt / "other").read_bytes() == b"other"
    held_to(m, 16 * MiB + BESIDE)
    m.remount("cache=128M")
    assert right(m.mnt / "h", 50 * MiB) and right(m.mnt / "h", 100 * MiB - 8192, 8192)
    held_to(m, 128 * MiB + BESIDE)
    m.unmount()


def together(work):
    with ThreadPoolExecutor(12) as pool:
        assert all(pool.map(work, map(random.Random, range(12))))


@pytest.mark.concurrent
@pytest.mark.watchdog(180)
@pytest.mark.parametrize(
    "cache, block, filters",
    [
        (128, 32, [F.SHUFFLE]),
        (128, 24, [F.NOFILTER]),
        (128, 20, [F.DELTA, F.SHUFFLE]),
        (64, 16, [F.TRUNC_PREC, F.BITSHUFFLE]),
        (16, 16, [F.SHUFFLE]),
        (16, 2, [F.SHUFFLE]),
    ],
    ids=["shuffle", "none", "delta", "two", "small", "moderate"],
)
def test_readers_of_large_blocks(mount, cache, block, filters):
    """A dozen at once, each at its own block, beside a cache that is full."""
    m = mount(f"cache={cache}M", start=False)
    size = 5 * block * MiB
    meta = {"filters_meta": [23, 0]} if F.TRUNC_PREC in filters else {}
    frame(m.backing / "h.b2frame", block * MiB, 5, filters=filters, **meta)
    m.start()
    (m.mnt / "small").write_bytes(blob(1, MiB, "noise") * (cache // 4))
    m.remount(f"cache={cache}M")
    with open(m.mnt / "small", "rb", buffering=0) as f:
        for n in range(0, cache // 4 * MiB, 16384):
            os.pread(f.fileno(), 100, n)

    def work(rng):
        places = [rng.randrange(size) & ~4095 for _ in range(READS)]
        got = [(at, read(m.mnt / "h", at)) for at in places]
        if meta:
            return all(len(b) == 4096 for _, b in got)
        return all(b == numbers(at // 4, 1024).tobytes() for at, b in got)

    together(work)
    held_to(m, cache * MiB + BESIDE)
    m.unmount()


def test_one_reader_of_all(mount):
    """What is decoded stays for the requests that follow: those of one block after those of the
    other, since the kernel's read-ahead may ask for both in turn, of which one fits."""
    m = mount("cache=48M", start=False)
    frame(m.backing / "h.b2frame", 24 * MiB, 2)
    m.start()
    assert read_direct(m.mnt / "h", 48 * MiB) == numbers(0, 12 * MiB).tobytes()
    assert stats(m)["read"]["decoded_blocks"] < 8
    held_to(m, 48 * MiB + BESIDE)
    m.unmount()


@pytest.mark.parametrize("kind", ["zeros", "nan", "value", "copy", "blocks"])
def test_what_needs_no_decoder(mount, kind):
    m = mount("cache=4M", start=False)
    n, path = 200 * MiB, m.backing / "h.b2frame"
    if kind == "copy":
        frame(path, n, clevel=0)
    elif kind == "blocks":  # the numbers of each are others
        frame(path, n, block=70_000_000, clevel=0)
    else:
        s = blosc2.SChunk(
            chunksize=n,
            urlpath=str(path),
            mode="w",
            contiguous=True,
            cparams={"typesize": 4, "blocksize": n},
        )
        special = {
            "zeros": blosc2.SpecialValue.ZERO,
            "nan": blosc2.SpecialValue.NAN,
            "value": blosc2.SpecialValue.VALUE,
        }[kind]
        s.fill_special(n // 4, special, np.int32(77) if kind == "value" else None)
    m.start()
    at = n - 40002
    expected = {
        "zeros": bytes(4096),
        "nan": (np.full(1100, np.nan, np.float32).tobytes())[2:4098],
        "value": (np.full(1100, 77, np.int32).tobytes())[2:4098],
    }.get(kind, numbers((at - 2) // 4, 1100).tobytes()[2:4098])
    assert read(m.mnt / "h", at) == expected
    held_to(m, 4 * MiB + BESIDE)
    m.unmount()


def test_a_chunk_of_millions_of_blocks(mount):
    """The table of its blocks is longer than the memory there is for it."""
    m = mount("cache=16M", start=False)
    n, block = 128 * MiB, 16
    path = m.backing / "h.b2frame"
    frame(path, n, clevel=0)
    with open(path, "r+b") as f:
        head = f.read(100)
        at = struct.unpack_from(">i", head, 11)[0]
        f.seek(at)
        chunk = bytearray(f.read(32))
        chunk[2] &= ~2  # not a plain copy
        struct.pack_into("<i", chunk, 8, block)
        f.seek(at)
        f.write(chunk)
        blocks = n // block
        f.write((np.arange(blocks, dtype=np.int32) * 5 + (32 + 4 * blocks)).tobytes())
    m.start()
    m.allow(LARGE)
    assert error_of(read, m.mnt / "h", 64 * MiB) == "EFBIG"
    m.expect_log(LARGE)
    held_to(m, 16 * MiB + BESIDE)
    m.unmount()


def system_calls(m):
    """Reads of files, and of requests."""
    lines = Path(f"/proc/{m.proc.pid}/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["syscr"])


@pytest.mark.parametrize("block", [1, 16])
def test_tiny_blocks_are_read_many_at_a_time(mount, block):
    """Past the cache, which would take an entry and a read of the file for each."""
    m = mount("cache=48M", start=False)
    n = 1 * MiB
    path = m.backing / "h.b2frame"
    frame(path, n, clevel=0)
    with open(path, "r+b") as f:
        at = struct.unpack_from(">i", f.read(100), 11)[0]
        f.seek(at + 8)
        f.write(struct.pack("<i", block))
    m.start()
    expected = numbers(0, n // 4).tobytes()
    before = system_calls(m)
    assert read_direct(m.mnt / "h", n) == expected
    assert read(m.mnt / "h", 12345) == expected[12345 : 12345 + 4096]
    assert system_calls(m) - before < 200
    m.unmount()


def test_tiny_blocks_without_order(mount):
    """Any two neighbours lie so far apart that the bytes between them are too many for one read."""
    m = mount("cache=48M", start=False)
    n, block, stride = MiB // 4, 2, 16
    nblocks = n // block
    places = np.random.default_rng(1).permutation(nblocks)
    data = np.arange(nblocks, dtype="<u2")
    area = np.zeros((nblocks, stride), np.uint8)
    area[places, 0] = block  # so many bytes as there are: a plain copy
    area[places, 4:6] = data.view(np.uint8).reshape(nblocks, block)
    starts = (32 + 4 * nblocks + places * stride).astype("<i4").tobytes()
    cbytes = 32 + len(starts) + area.size
    head = struct.pack("<4B3i16x", 5, 1, 0x15, 1, n, block, cbytes)
    s = blosc2.SChunk(
        chunksize=n, urlpath=str(m.backing / "h.b2frame"), contiguous=True, cparams={"typesize": 1}
    )
    s.insert_chunk(0, head + starts + area.tobytes())
    m.start()
    assert read_direct(m.mnt / "h", n) == data.tobytes()
    m.unmount()


def test_indexes_of_open_files(mount):
    """A few hundred bytes each, which decode to an index of 32 MiB: of that, and of metalayers in
    holes, all open files together may have `cache` and 32 MiB."""
    m = mount("cache=8M,dirty_max=8M", start=False)
    chunks = 8 * (4 << 20) // 8
    small = libframe.frame(200, 100, libframe.plain_index(0, 0), libframe.CHUNK)
    index = libframe.index_of_blocks(4 << 20, 8, 200)
    large = libframe.frame(100 * chunks, 100, index, bytes(200) + libframe.CHUNK)
    for k in range(6):
        (m.backing / f"index{k}.b2frame").write_bytes(large)
        (m.backing / f"small{k}.b2frame").write_bytes(small)
        with open(m.backing / f"meta{k}.b2frame", "wb") as f:
            head = 30 << 20
            rest = small[97:]
            f.write(libframe.header(200, 132, 100, head + len(rest), header_len=head))
            f.seek(head)
            f.write(rest)
    m.start()
    fds = []

    def open_one(name, flags=os.O_RDONLY):
        fds.append(os.open(m.mnt / name, flags))

    def one_can_be_open(kind):
        """Perhaps none yet: the kernel does not wait for the daemon's part of a close."""
        with ThreadPoolExecutor(6) as pool:
            errors = list(pool.map(lambda k: error_of(open_one, f"{kind}{k}"), range(6)))
        assert errors.count("ENOMEM") >= 5, errors
        return None in errors

    for kind in "index", "meta":
        wait_until(lambda: one_can_be_open(kind))
        assert all(len((m.mnt / f"small{k}").read_bytes()) == 200 for k in range(6))
        fd = fds.pop()
        assert len(os.pread(fd, 300, 0)) >= 200
        os.close(fd)
        wait_until(lambda: error_of(open_one, f"{kind}0") is None)
        os.close(fds.pop())
    for k in range(6):
        wait_until(lambda: error_of(open_one, f"index{k}", os.O_RDWR) is None)
        os.ftruncate(fds[k], 0)
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(os.fsync, fds))  # each reads its index again
    for fd in fds:
        os.close(fd)
    m.expect_log("no memory to open another file: indexes and metalayers .* at most 40")
    held_to(m, (8 + 8 + 40) * MiB + BESIDE)
    m.unmount()


def test_a_file_of_millions_of_chunks_and_others(mount):
    """What is written to it is not refused, and takes all the memory that indexes may have. Others
    go on with small files as if it was not there."""
    m = mount("cache=8M,dirty_max=8M,chunksize=64K")
    data = blob(3, 64 << 16, "random")  # of the most chunks that are promised
    (m.mnt / "old").write_bytes(data)
    with open(m.mnt / "scattered", "w+b", buffering=0) as f:
        f.write(data)
        os.fsync(f)
        for k in range(0, 64, 2):  # each of these is told of by itself until the next sync
            os.pwrite(f.fileno(), b"new", k << 16)
    large = libframe.frame(
        100 << 22, 100, libframe.index_of_blocks(4 << 20, 8, 200), bytes(200) + libframe.CHUNK
    )
    (m.backing / "index.b2frame").write_bytes(large)
    wait_until(lambda: (m.mnt / "index").exists())
    fd = os.open(m.mnt / "big", os.O_RDWR | os.O_CREAT)
    for k in range(600):  # each in 4,096 chunks
        os.pwrite(fd, b"x", k << 28)
    os.fsync(fd)
    assert error_of(os.open, m.mnt / "index", os.O_RDONLY) == "ENOMEM"
    assert (m.mnt / "old").read_bytes() == data
    assert (m.mnt / "scattered").read_bytes()[-65536:] == data[-65536:]
    with open(m.mnt / "old", "r+b") as f:
        f.write(b"other")
    (m.mnt / "new").write_bytes(data)
    os.close(fd)
    assert (m.mnt / "old").read_bytes() == b"other" + data[5:]
    assert (m.mnt / "new").read_bytes() == data
    m.expect_log("no memory to open another file: indexes and metalayers .* at most 40")
    m.unmount()


def test_each_of_both_is_told(mount):
    """That a block cannot be read says nothing of writing to its file, and the other way round."""
    m = mount("cache=16M,dirty_max=16M", start=False)
    frame(m.backing / "h.b2frame", 100 * MiB)
    m.start()
    m.allow(LARGE)
    m.allow(WRITE)
    assert error_of(read, m.mnt / "h", 0) == "EFBIG"
    for _ in range(2):
        assert error_of(os.open, m.mnt / "h", os.O_RDWR) == "EFBIG"
    m.expect_log(LARGE)
    m.expect_log(WRITE)
    assert len([line for line in m.log_text().splitlines() if "writing to it" in line]) == 1
    m.unmount()


def test_a_removed_file_with_chunks_that_are_too_large_is_told_as_such(mount):
    """A line of the log that is about no name helps nobody."""
    m = mount("cache=16M,dirty_max=16M", start=False)
    frame(m.backing / "h.b2frame", 20 * MiB, 2, block=MiB)
    m.start()
    m.allow(WRITE.replace("h.b2frame", r"\(deleted file\)"))
    fd = os.open(m.mnt / "h", os.O_RDONLY)
    os.unlink(m.mnt / "h")
    assert error_of(os.open, f"/proc/self/fd/{fd}", os.O_RDWR) == "EFBIG"
    m.expect_log(r"\(deleted file\): its chunks have 20971520 bytes: writing to it takes")
    os.close(fd)


def test_chunks_that_are_too_large_to_be_written(mount):
    """Nobody is told that what he wrote was taken."""
    m = mount("cache=16M,dirty_max=16M", start=False)
    frame(m.backing / "h.b2frame", 20 * MiB, 2, block=MiB)
    m.start()
    m.allow(WRITE)
    assert error_of(os.open, m.mnt / "h", os.O_RDWR) == "EFBIG"
    m.expect_log("h.b2frame: its chunks have 20971520 bytes: writing to it takes -o dirty_max=40M")
    assert error_of(os.truncate, m.mnt / "h", 30 * MiB + 1) == "EFBIG"
    assert right(m.mnt / "h", 39 * MiB)
    m.remount("cache=16M,dirty_max=40M")
    fd = os.open(m.mnt / "h", os.O_RDWR)
    data = bytearray(numbers(0, 10 * MiB).tobytes())
    for at in (5000, 21 * MiB + 77):
        os.pwrite(fd, b"new" * 1000, at)
        data[at : at + 3000] = b"new" * 1000
    os.fsync(fd)
    whole = blob(3, 20 * MiB, "noise")
    os.pwrite(fd, whole, 20 * MiB)
    data[20 * MiB :] = whole
    os.close(fd)
    held_to(m, (16 + 40) * MiB + BESIDE)
    m.remount("cache=16M,dirty_max=16M")
    assert (m.mnt / "h").read_bytes() == data
    os.truncate(m.mnt / "h", 0)  # takes up the chunks of this mount
    (m.mnt / "h").write_bytes(b"small again")
    m.remount("cache=16M,dirty_max=16M")
    assert (m.mnt / "h").read_bytes() == b"small again"
    m.unmount()


@pytest.mark.parametrize("codec", ["lz4", "lz4hc", "blosclz", "zlib", "zstd"])
def test_a_last_chunk_that_does_not_grow_in_place(mount, codec):
    """What was tried and is no use is given back before the chunk is encoded as a whole."""
    m = mount(f"cache=1M,dirty_max=64M,chunksize=32M,tune=off,codec={codec}")
    data = blob(9, 28 * MiB, "noise")
    with open(m.mnt / "f", "wb", buffering=0) as f:
        for lo, hi in ((0, 24 * MiB), (24 * MiB, 28 * MiB)):
            f.write(memoryview(data)[lo:hi])
            os.fsync(f)
    held_to(m, (1 + 64) * MiB + BESIDE)
    m.remount(m.options)
    assert (m.mnt / "f").read_bytes() == data
    m.unmount()


def test_a_chunk_that_is_a_hole_is_not_written_over(mount):
    """It says that its 16 blocks have a gigabyte behind them, which nobody wrote."""
    m = mount(start=False)
    block, nblocks, stored = 65536, 16, 1 << 30
    first = 32 + 4 * nblocks
    chunk = struct.pack("<BBBBIII", 5, 1, 0x95, 1, block * nblocks, block, stored) + bytes(16)
    chunk += b"".join(struct.pack("<I", first + 4 * i) for i in range(nblocks)) + bytes(4 * nblocks)
    raw = libframe.frame(
        2 * block * nblocks,
        block * nblocks,
        libframe.plain_index(0, 0),
        cbytes=stored,
        frame_len=97 + stored + 48 + 35,
    )
    libframe.write_holes(m.backing / "h.b2frame", [(0, raw[:97] + chunk), (97 + stored, raw[97:])])
    m.start()
    m.allow("h.b2frame: ")
    fd = os.open(m.mnt / "h", os.O_RDWR)
    for at in 0, block * nblocks:
        os.pwrite(fd, b"some", at + 5)
    assert error_of(os.fsync, fd) == "EIO"
    os.pwrite(fd, b"x" * block * nblocks, block * nblocks)  # all of it
    os.fsync(fd)
    os.close(fd)
    held_to(m, 128 * MiB)
    m.remount()
    assert (m.mnt / "h").read_bytes() == bytes(block * nblocks) + b"x" * block * nblocks


@pytest.mark.concurrent
@pytest.mark.parametrize(
    "chunk, codec",
    [
        (8, ""),
        (16, ""),
        (32, ""),
        (32, ",codec=lz4,tune=off"),
        (32, ",codec=zlib,tune=off"),
    ],
)
def test_writers_of_large_chunks(mount, chunk, codec):
    """Up to half of dirty_max, beside a cache too small to lend for them (LIMITS.md, Memory)."""
    chunk //= SMALLER
    m = mount(f"cache={16 // SMALLER}M,dirty_max={64 // SMALLER}M,chunksize={chunk}M{codec}")
    data = memoryview(blob(9, (chunk + 1) * MiB, "noise"))

    def work(k):
        part = data[k * 4096 : k * 4096 + chunk * MiB]
        expected = bytearray(part) * 2
        with open(m.mnt / f"f{k}", "w+b", buffering=0) as f:
            for _ in range(2):
                f.write(part)
            os.fsync(f)
            for n in range(20):
                at = n % 2 * chunk * MiB + n * 40960
                os.pwrite(f.fileno(), b"new" * 1000, at)
                expected[at : at + 3000] = b"new" * 1000
            os.fsync(f)
        return (m.mnt / f"f{k}").read_bytes() == expected

    wrong = []
    threads = [
        threading.Thread(target=lambda k=k: wrong.extend([] if work(k) else [k])) for k in range(3)
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
    held_to(m, (16 + 64) * MiB + max(BESIDE, (32 + 4 * chunk) * MiB))
    m.unmount()


@pytest.mark.concurrent
def test_copies_of_large_chunks(mount, work):
    """Each holds a stored chunk until the disk has taken it, of what the cache can lend; the others
    go by bytes, as if they were written by sixteen programs."""
    n, chunk = 16, 8 * MiB // SMALLER
    options = f"cache=1M,dirty_max=16M,chunksize={chunk}"
    m = mount(options)
    noise = blob(9, chunk, "noise")
    expected = [noise[k * 65536 :] + bytes(k * 65536) for k in range(1, 1 + n)]
    for k in range(n):
        (m.mnt / f"s{k}").write_bytes(expected[k])
    m.unmount()
    fault = Fault(m, work / "fault")
    m.start()
    for k in range(n):
        (m.mnt / f"d{k}").touch()

    def copy(k):
        with open(m.mnt / f"s{k}", "rb") as s, open(m.mnt / f"d{k}", "r+b") as d:
            at = 0
            while done := os.copy_file_range(s.fileno(), d.fileno(), chunk, at, at):
                at += done

    def settled():
        before = peak(m)
        time.sleep(2 * SLOWNESS)
        return peak(m) == before

    fault.set(1, Fault.WRITE, how=Fault.WAIT, forever=1)
    with ThreadPoolExecutor(n) as pool:
        copies = [pool.submit(copy, k) for k in range(n)]
        wait_until(fault.came)
        wait_until(settled)
        got = peak(m)
        fault.set(0)
        for c in copies:
            c.result()
    assert got < (1 + 16) * MiB + BESIDE or SLOWNESS > 1, got >> 20
    fault.off()
    m.remount(options)
    assert all((m.mnt / f"d{k}").read_bytes() == expected[k] for k in range(n))
    m.unmount()


def test_tables_of_zstd(mount):
    """They grow with level and block, to 69 MiB here: the cache lends them to as many workers as it
    can, one after the other if it must, and nobody keeps them."""
    options = "workers=4,tune=off,pipeline=zstd:8,chunksize=4M,blocksize=4M"
    m = mount(f"cache=64M,dirty_max=64M,{options}")
    data = blob(9, MiB, "noise") * 16
    for k in range(3):
        (m.mnt / f"f{k}").write_bytes(data)
    os.sync()
    held_to(m, (64 + 64) * MiB + BESIDE)
    assert (m.mnt / "f1").read_bytes() == data
    m.unmount()


def test_blocks_that_are_too_large_to_be_read_are_not_made(mount):
    """What is appended to such a chunk would be refused after write(2) had taken it."""
    m = mount("cache=8M,chunksize=16M,pipeline=delta+shuffle:4+lz4")
    fd = os.open(m.mnt / "f", os.O_RDWR | os.O_CREAT)
    os.setxattr(fd, "user.cframefs.blocksize", b"16M")
    data = numbers(0, 15 * MiB // 4).tobytes()
    for at, more in (0, data), (len(data), b"more"):
        os.pwrite(fd, more, at)
        os.fsync(fd)
    os.close(fd)
    m.remount()
    assert (m.mnt / "f").read_bytes() == data + b"more"


@pytest.mark.parametrize("flags", [os.O_WRONLY, os.O_RDWR])
def test_a_last_chunk_that_cannot_be_read_is_not_appended_to(mount, flags):
    """Whoever opens the file is told, not fsync after write(2) has taken the bytes. A chunk that is
    full is left as it is, and what follows it has blocks of ours."""
    m = mount("cache=8M,dirty_max=64M", start=False)
    some, full = m.backing / "h.b2frame", m.backing / "full.b2frame"
    for path, chunk in (some, 20 * MiB), (full, 16 * MiB):
        s = frame(path, chunk, 0, block=16 * MiB, filters=[F.DELTA, F.SHUFFLE])
        s.append_data(numbers(0, 4 * MiB))
        del s
    m.start()
    m.allow(LARGE)
    assert error_of(os.open, m.mnt / "h", flags) == "EFBIG"
    m.expect_log(LARGE)
    fd = os.open(m.mnt / "full", flags)
    os.pwrite(fd, b"more", 16 * MiB)
    os.fsync(fd)
    os.close(fd)
    m.remount("cache=64M,dirty_max=64M")
    fd = os.open(m.mnt / "h", flags)
    os.pwrite(fd, b"more", 16 * MiB)
    os.close(fd)
    for name in "h", "full":
        assert (m.mnt / name).read_bytes() == numbers(0, 4 * MiB).tobytes() + b"more"
    m.unmount()


def test_what_was_synced_and_takes_too_much_memory_is_kept(mount):
    """The next mount has less of it, cannot read the last chunk, says so, and keeps the log."""
    m = mount("cache=128M,dirty_max=64M,chunksize=20M,pipeline=delta+shuffle:4+lz4")
    fd = os.open(m.mnt / "h", os.O_RDWR | os.O_CREAT)
    os.setxattr(fd, "user.cframefs.blocksize", b"16M")
    os.pwrite(fd, numbers(0, 4 * MiB), 0)
    os.fsync(fd)
    for k in range(60):  # so many places go to the intent log
        os.pwrite(fd, b"more", 16 * MiB - 30000 * k)
    os.fsync(fd)
    m.kill()
    error_of(os.close, fd)
    m.options = "cache=8M,dirty_max=64M"
    m.start()
    assert (m.mnt / "h").stat().st_size == 16 * MiB
    m.allow(LARGE)
    m.expect_log(LARGE)
    m.expect_log("what was synced last is not in it: it takes more memory than the options allow")
    m.expect_log("unapplied.1: keeps the intent log")
    m.unmount()


@pytest.fixture
def strict_turns():
    """On one processor, without preemption: whoever is ready first runs until it waits."""
    cpus = os.sched_getaffinity(0)
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except PermissionError:
        pytest.skip("no right to real-time priority")
    os.sched_setaffinity(0, {min(cpus)})
    yield
    os.sched_setaffinity(0, cpus)
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


@pytest.mark.release  # the memory of a sanitizer is its own
def test_memory_of_new_small_files(mount, strict_turns):
    """What stays of each is an inode: the next one's buffers lie where those of the last one
    were. The release of a file is served beside the lookup of the next: hence the turns."""
    m = mount()
    data = blob(9, 4096, "text")

    def make(numbers):
        for k in numbers:
            (m.mnt / f"f{k}").write_bytes(data)

    make(range(500))
    before = peak(m)
    make(range(500, 2500))
    assert peak(m) - before < 2000 * 1500


@pytest.mark.release
def test_memory_of_open_arrays(mount):
    """The text of the largest dtype that there may be takes 16 KiB, and NumPy's header with it as
    much again: an array takes room for its own (README, Limits)."""
    m = mount(start=False)
    first = m.backing / "a0.b2nd"
    blosc2.asarray(np.arange(10), urlpath=str(first), mode="w")
    names = [f"a{k}" for k in range(500)]
    for name in names[1:]:
        (m.backing / f"{name}.b2nd").write_bytes(first.read_bytes())
    m.start()
    sizes = {(m.mnt / f"{name}.npy").stat().st_size for name in names}
    before = peak(m)
    fds = [os.open(m.mnt / f"{name}.npy", os.O_RDONLY) for name in names]
    assert peak(m) - before < len(fds) * 16 * 1024
    assert sizes == {len(os.pread(fd, 1024, 0)) for fd in fds}
    for fd in fds:
        os.close(fd)
    m.unmount()


@pytest.mark.release  # the memory of a sanitizer is its own
def test_memory_of_many_open_files(mount):
    """What each of them keeps lies beside the buffers of what was written to it. These are used
    again for the next one's; and when all are closed, and the mount is quiet, the rest of the
    memory goes back to the system as well."""
    m = mount("dirty_max=32M,cache=8M,commit=0.5")
    data = blob(9, 240_000, "noise")
    fds = []
    for k in range(700):
        fds.append(os.open(m.mnt / f"f{k}", os.O_RDWR | os.O_CREAT))
        os.write(fds[k], data)
    held_to(m, (32 + 8 + 40) * MiB)
    for fd in fds:
        os.close(fd)
    wait_until(lambda: resident(m) < 20 * MiB)
    m.unmount()


@pytest.mark.release
def test_memory_of_what_lines_were_appended_to(mount):
    """The bytes of short chunks alone are kept for the next line."""
    m = mount("dirty_max=32M,cache=1M,chunksize=6M,blocksize=6M,commit=0.5")
    for k in range(6):
        (m.mnt / f"f{k}").write_bytes(blob(k, 5 * MiB, "text"))
        with open(m.mnt / f"f{k}", "ab", buffering=0) as f:
            f.write(b"a line\n")
    wait_until(lambda: resident(m) < 20 * MiB)
