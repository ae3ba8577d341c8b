"""Reading: checksums of whole chunks, decoding once, the cache under scans,
memory, and readers beside writers."""

import errno
import mmap
import os
import random
import struct
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from libdata import blob
from libfault import Fault
from libmemory import addresses, held_to
from libmount import DAEMON, wait_until
from libposix import error_of, read_direct
from libstats import stats

CHUNK, BLOCK, PAGE = 1 << 20, 64 << 10, 4096
X86_64 = bytes([62, 0])  # the machine in an ELF header


class Direct:
    """Reads and writes past the page cache: each is one request to the daemon,
    or one for every 256 KiB."""

    def __init__(self, path, flags=os.O_RDONLY):
        self.fd = os.open(path, flags | os.O_DIRECT)
        self.room = mmap.mmap(-1, CHUNK)

    def read(self, at, size=PAGE):
        return bytes(
            memoryview(self.room)[: os.preadv(self.fd, [memoryview(self.room)[:size]], at)]
        )

    def write(self, at, data):
        self.room[: len(data)] = data
        assert os.pwritev(self.fd, [memoryview(self.room)[: len(data)]], at) == len(data)

    def close(self):
        os.close(self.fd)


def spoil(path, at):
    with open(path, "r+b") as f:
        f.seek(at)
        byte = f.read(1)[0]
        f.seek(at)
        f.write(bytes([byte ^ 1]))


# ---- checksums


def write_plain_copies(blosc2, m, data, size=CHUNK, **more):
    """Plain copies come from other programs, and with a checksum each only by being copied."""
    path = m.backing / "theirs.b2frame"
    cparams = {"typesize": 1, "clevel": 0, **more}
    frame = blosc2.SChunk(chunksize=size, urlpath=str(path), contiguous=True, cparams=cparams)
    for at in range(0, len(data), size):
        frame.append_data(data[at : at + size])
    with open(m.mnt / "theirs", "rb") as source, open(m.mnt / "f", "wb") as target:
        done = 0
        while done < len(data):
            done += os.copy_file_range(source.fileno(), target.fileno(), len(data) - done)
    m.unmount()
    frame = blosc2.open(str(m.stored("f")))
    heads = [frame.get_chunk(i)[:32] for i in range(frame.nchunks)]
    assert all(head[2] & 2 and struct.unpack_from("<I", head, 8)[0] < size for head in heads)
    note = frame.vlmeta["cframefs"]["xxh3"]
    assert not any(one & 1 for one in struct.unpack(f"<{frame.nchunks}Q", note))


@pytest.mark.parametrize("maker", ["ours", "copied"])
@pytest.mark.parametrize("options", ["level=0", "level=0,readahead=0", "level=0,max_read=1M"])
def test_a_damaged_chunk_is_not_read_as_a_whole(mount, blosc2, options, maker):
    """Stored plainly, a changed bit breaks no stream: only a checksum tells."""
    m = mount(options)
    data = blob(1, 3 * CHUNK, "noise")
    if maker == "copied":
        write_plain_copies(blosc2, m, data)
    else:
        (m.mnt / "f").write_bytes(data)
        m.unmount()
    raw = m.stored("f").read_bytes()
    place = raw.index(data[2 * CHUNK - 5000 : 2 * CHUNK - 4900])  # near the end of the middle chunk
    spoil(m.stored("f"), place)
    m.start()
    m.allow("checksum")
    assert error_of(lambda: (m.mnt / "f").read_bytes()) == "EIO"
    m.expect_log(r"read: .*checksum")
    with open(m.mnt / "f", "rb") as f:  # the others are served
        assert f.read(CHUNK) == data[:CHUNK]
        f.seek(2 * CHUNK)
        assert f.read(CHUNK) == data[2 * CHUNK :]
    m.remount()
    assert error_of(lambda: read_direct(m.mnt / "f", 3 * CHUNK)) == "EIO"
    spoil(m.stored("f"), place)  # as it was
    m.remount()
    assert (m.mnt / "f").read_bytes() == data


def test_a_refused_chunk_is_not_read_by_the_page(mount, blosc2, work):
    """Its checksum was wrong. The chunk is read once more then, to see whether it has one, and that
    may fail. The kernel asks again for single pages in any case."""
    m = mount("readahead=0,chunksize=128K").allow("f.b2frame: read: ")
    data, chunk = blob(1, CHUNK, "noise"), 2 * BLOCK
    write_plain_copies(blosc2, m, data, chunk, blocksize=BLOCK // 4)
    spoil(m.stored("f"), m.stored("f").read_bytes().index(data[chunk - 500 : chunk - 400]))
    fault = Fault(m, work / "fault")
    m.start()
    with open(m.mnt / "f", "rb") as f:
        fault.set(3, Fault.READ, errno.EIO)  # behind the head, and all of the chunk
        assert error_of(os.pread, f.fileno(), chunk, 0) == "EIO"
    m.expect_log("f.b2frame: read: .*checksum")
    assert fault.came()


def test_a_device_that_fails_once_has_damaged_no_chunk(mount, blosc2, work):
    """Not even where it failed to tell whether the checksum of all of the chunk is right."""
    m = mount("readahead=0,chunksize=128K").allow("f.b2frame: read: .*Input/output error")
    data, chunk = blob(1, CHUNK, "noise"), 2 * BLOCK
    write_plain_copies(blosc2, m, data, chunk, blocksize=BLOCK // 4)
    fault = Fault(m, work / "fault")
    m.start()
    f = Direct(m.mnt / "f")
    fault.set(2, Fault.READ, errno.EIO)  # behind the head
    assert error_of(f.read, 0, BLOCK) == "EIO"
    assert fault.came()
    assert f.read(0, BLOCK) + f.read(BLOCK, BLOCK) == data[:chunk]
    f.close()


def test_a_write_into_a_damaged_chunk_does_not_vouch_for_it(mount, blosc2):
    """Its blocks have no checksums: nobody can tell which of them are sound, and with one they
    would be taken for it."""
    m = mount("readahead=0,chunksize=128K,commit=0").allow("checksum|is lost")
    data, chunk = blob(1, CHUNK, "noise"), 2 * BLOCK
    write_plain_copies(blosc2, m, data, chunk, blocksize=BLOCK // 4)
    spoil(m.stored("f"), m.stored("f").read_bytes().index(data[chunk - 500 : chunk - 400]))
    m.start()
    fd = os.open(m.mnt / "f", os.O_RDWR)
    os.pwrite(fd, bytes(BLOCK // 4), 0)  # all of a block, and the damage is in another one
    assert error_of(os.close, fd) == "EIO"
    m.remount()
    assert error_of((m.mnt / "f").read_bytes) == "EIO"


@pytest.mark.release
def test_a_damaged_block_takes_no_memory_however_often_it_is_read(mount):
    m = mount("codec=zstd,level=3,blocksize=256K,tune=off,cache=4M").allow("f.b2frame: read: ")
    (m.mnt / "f").write_bytes(blob(4, CHUNK, "text"))
    m.unmount()
    spoil(m.stored("f"), m.stored("f").stat().st_size // 2)
    m.start()
    f = Direct(m.mnt / "f")
    bad = [at for at in range(0, CHUNK, 4 * BLOCK) if error_of(f.read, at) == "EIO"]
    before = addresses(m)
    for _ in range(2000):
        assert error_of(f.read, bad[0]) == "EIO"
    assert addresses(m) < before + (256 << 20)
    f.close()


def test_damage_without_a_checksum_costs_its_block(mount, blosc2):
    """A chunk of another program, of which nothing is known but that a block of it does not decode:
    whoever asked for all of it first, the other blocks can be read."""
    m = mount("readahead=0").allow("f.b2frame: read: .*corrupt")
    data = blob(4, 2 * BLOCK, "text")
    cparams = {"typesize": 1, "blocksize": BLOCK // 4, "codec": blosc2.Codec.ZSTD, "nthreads": 1}
    frame = blosc2.SChunk(
        chunksize=len(data), urlpath=str(m.stored("f")), contiguous=True, cparams=cparams
    )
    frame.append_data(data)
    chunk = frame.get_chunk(0)
    at = m.stored("f").read_bytes().index(chunk) + struct.unpack_from("<8I", chunk, 32)[5]
    spoil(m.stored("f"), at + 4)  # the first byte of a frame of zstd
    f = Direct(m.mnt / "f")
    assert error_of(f.read, 0, len(data)) == "EIO"
    for i in range(8):
        here = i * BLOCK // 4
        if i == 5:
            assert error_of(f.read, here) == "EIO"
        else:
            assert f.read(here) == data[here : here + PAGE], i
    f.close()


# ---- how much is decoded and read


def test_a_small_read_is_one_block_and_one_pread(mount):
    m = mount("codec=lz4,blocksize=64K,tune=off")
    data = blob(2, 8 * CHUNK, "text")
    (m.mnt / "f").write_bytes(data)
    m.remount()
    f = Direct(m.mnt / "f")
    for n in range(8):  # heads of chunks
        assert f.read(n * CHUNK) == data[n * CHUNK : n * CHUNK + PAGE]
    before = stats(m)["read"]
    places = [n * BLOCK + 5 * PAGE for n in range(8 * CHUNK // BLOCK) if n % 16]
    random.Random(3).shuffle(places)
    for at in places:
        assert f.read(at) == data[at : at + PAGE]
    after = stats(m)["read"]
    f.close()
    assert after["decoded_blocks"] - before["decoded_blocks"] == len(places)
    assert after["disk_reads"] - before["disk_reads"] == len(places)


@pytest.mark.parametrize(
    "pipeline",
    [
        "shuffle:4+zstd",
        "shuffle:7+zstd",
        "bitshuffle:2+lz4",
        "bitshuffle:12+zstd",
        "shuffle:8+bytedelta+zstd",
        "shuffle:2+zstd:9",
        "zstd",
    ],
)
def test_small_random_reads(mount, pipeline):
    """Parts of blocks, at odd places too, then the rest of these, then all; the
    last one is short."""
    m = mount(f"pipeline={pipeline},blocksize=60K")
    data = blob(8, 3 * CHUNK + 12345, "floats")
    (m.mnt / "f").write_bytes(data)
    m.remount()
    fd = os.open(m.mnt / "f", os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
    before = stats(m)["read"]["decoded_blocks"]
    places = list(range(0, len(data), PAGE))
    random.Random(9).shuffle(places)
    for at in places[: len(places) // 3]:
        assert os.pread(fd, 3 * PAGE // 2, at) == data[at : at + 3 * PAGE // 2]
    # once for reads, and perhaps once more for what is pushed behind them
    assert 0 < stats(m)["read"]["decoded_blocks"] - before <= 2 * (len(data) // (60 << 10)) + 5
    for at in places[: len(places) // 3 : 3]:  # more of what is there in part
        assert os.pread(fd, 50000, at) == data[at : at + 50000]
    os.close(fd)
    f = Direct(m.mnt / "f")
    for at in places[::5]:
        assert f.read(at) == data[at : at + PAGE]
    f.close()
    assert (m.mnt / "f").read_bytes() == data


def reads_parts(pipeline="zstd"):
    """Our own reader of zstd is built for these processors only."""
    if "zstd" not in pipeline:
        return True
    if DAEMON.read_bytes()[18:20] != X86_64:
        return False
    with open("/proc/cpuinfo") as f:
        return {"avx2", "bmi2", "abm"} <= set(f.read().split())


class Randomly:
    """Reads of single pages, through the page cache and without read-ahead."""

    def __init__(self, m, name):
        self.m = m
        self.fd = os.open(m.mnt / name, os.O_RDONLY)
        os.posix_fadvise(self.fd, 0, 0, os.POSIX_FADV_RANDOM)

    def decoded(self, places, data):
        """Blocks, and parts of blocks, that reading these pages decodes."""
        before = stats(self.m)["read"]
        for at in places:
            assert os.pread(self.fd, PAGE, at) == data[at : at + PAGE]
        after = stats(self.m)["read"]
        return tuple(after[k] - before[k] for k in ("decoded_blocks", "decoded_parts"))


@pytest.mark.parametrize(
    "pipeline, kind",
    [
        ("zstd", "text"),
        ("lz4", "text"),
        ("lz4hc:3", "text"),
        ("blosclz:9", "text"),
        ("shuffle:4+lz4", "ramp"),
        ("shuffle:8+blosclz", "floats"),
    ],
)
def test_the_first_read_of_a_block_decodes_its_front(mount, pipeline, kind):
    """Or those of its planes. The second one all of it, which the third one finds."""
    m = mount(f"pipeline={pipeline},blocksize=64K")
    data = blob(10, 16 * CHUNK, kind)  # so many that reads are not dense (test_push.py)
    (m.mnt / "f").write_bytes(data)
    m.remount()
    f = Randomly(m, "f")
    places = [n * BLOCK + (n * 7) % 12 * PAGE for n in range(16 * CHUNK // BLOCK)]
    random.Random(11).shuffle(places)
    first, second, third = places[:30], places[:3], places[30:60]
    blocks, parts = f.decoded(first, data)
    assert blocks + parts == len(first)
    assert parts > len(first) // 2 or not reads_parts(pipeline)
    blocks, parts = f.decoded([at // BLOCK * BLOCK + 13 * PAGE for at in second], data)
    assert parts == 0 and blocks <= len(second)
    assert f.decoded([at // BLOCK * BLOCK + 12 * PAGE for at in second], data) == (0, 0)
    assert sum(f.decoded(third, data)) == len(third)
    os.close(f.fd)
    assert (m.mnt / "f").read_bytes() == data


def test_damage_behind_a_part_is_seen(mount):
    m = mount("pipeline=zstd,blocksize=64K")
    data = blob(12, 3 * CHUNK, "text")
    (m.mnt / "f").write_bytes(data)
    m.unmount()
    stored = m.stored("f")
    spoil(stored, stored.stat().st_size // 2)  # of the second chunk, behind its head
    m.start()
    m.allow("checksum")
    fd = os.open(m.mnt / "f", os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
    places = [n * BLOCK for n in range(3 * CHUNK // BLOCK)]
    random.Random(13).shuffle(places)
    errors = [error_of(lambda at=at: os.pread(fd, PAGE, at)) for at in places]
    os.close(fd)
    assert [e for e in errors if e] == ["EIO"]
    assert stats(m)["read"]["decoded_parts"] > 0 or not reads_parts()


def test_two_readers_of_a_block_decode_it_once(mount):
    m = mount("codec=zstd,blocksize=64K,tune=off")
    data = blob(4, 6 * CHUNK, "text")
    (m.mnt / "f").write_bytes(data)
    m.remount()
    places = [n * BLOCK for n in range(6 * CHUNK // BLOCK)]
    random.Random(5).shuffle(places)
    gate = threading.Barrier(6)

    def reader(number):
        f = Direct(m.mnt / "f")
        gate.wait()
        for at in places:  # the same way for all
            at += (number % 16) * PAGE
            assert f.read(at) == data[at : at + PAGE]
        f.close()

    before = stats(m)["read"]["decoded_blocks"]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(reader, range(6)))
    assert stats(m)["read"]["decoded_blocks"] - before == len(places)


def test_a_scan_does_not_wash_out_the_cache(mount):
    """Blocks in use stay while a file of several times the cache's size is read from end to end."""
    m = mount("codec=lz4,blocksize=64K,cache=8M,tune=off")
    used, big = blob(6, 4 * CHUNK, "runs"), blob(7, 24 * CHUNK, "runs")
    (m.mnt / "used").write_bytes(used)
    (m.mnt / "big").write_bytes(big)
    m.remount()
    f, scan = Direct(m.mnt / "used"), Direct(m.mnt / "big")
    places = [n * BLOCK for n in range(4 * CHUNK // BLOCK)]
    order = random.Random(8)
    for _ in range(3):
        order.shuffle(places)
        for at in places:
            assert f.read(at) == used[at : at + PAGE]
    for at in range(0, len(big), 16 << 10):  # several touches a block, all of one scan
        assert scan.read(at, 16 << 10) == big[at : at + (16 << 10)]
    before = stats(m)["read"]["decoded_blocks"]
    order.shuffle(places)
    for at in places:
        assert f.read(at) == used[at : at + PAGE]
    again = stats(m)["read"]["decoded_blocks"] - before
    f.close()
    scan.close()
    assert again <= len(places) // 4, f"{again} of {len(places)} blocks were decoded again"


# ---- ahead of readers


def written(m, name, data):
    (m.mnt / name).write_bytes(data)
    m.remount()
    return Direct(m.mnt / name)


def decoded(m):
    return stats(m)["read"]["decoded_blocks"]


def test_a_stream_is_decoded_ahead(mount):
    """Four reads one after the other: the workers go on, and what they did is
    what the next reads get."""
    m = mount("codec=lz4,blocksize=64K,tune=off")
    data = blob(13, 4 * CHUNK, "runs")
    f = written(m, "f", data)
    for n in range(4):
        assert f.read(n * BLOCK, BLOCK) == data[n * BLOCK : (n + 1) * BLOCK]
    wait_until(lambda: decoded(m) >= 8, what="decoded ahead")
    for n in range(4, 4 * CHUNK // BLOCK):
        assert f.read(n * BLOCK, BLOCK) == data[n * BLOCK : (n + 1) * BLOCK]
    f.close()
    assert stats(m)["answered_from"]["read_ahead"] > 0


def test_what_a_reader_has_passed_is_not_decoded_for_it(mount):
    """The only worker is busy with a large chunk while a file is read in order. When it gets to the
    pieces that it was to decode ahead, the reader has long had them."""
    m = mount("codec=lz4,blocksize=64K,cache=8M,tune=off,workers=1")
    data, words = blob(15, 16 * CHUNK, "runs"), blob(16, 4 * CHUNK, "text")
    f = written(m, "f", data)
    large = m.mnt / "large"
    large.touch()
    os.setxattr(large, "user.cframefs.pipeline", b"zstd:9")
    os.setxattr(large, "user.cframefs.chunksize", b"4M")
    out = Direct(large, os.O_RDWR)
    for at in range(0, len(words), CHUNK):
        out.write(at, words[at : at + CHUNK])
    for at in range(0, len(data), 4 * PAGE):
        assert f.read(at, 4 * PAGE) == data[at : at + 4 * PAGE]
    wait_until(lambda: not stats(m)["memory"]["dirty_bytes"], what="the large chunk is stored")
    time.sleep(0.3)
    f.close()
    out.close()
    assert decoded(m) <= len(data) // BLOCK + 8


@pytest.mark.concurrent
def test_several_streams_and_strides_at_once(mount):
    m = mount("codec=lz4,blocksize=16K,chunksize=256K,tune=off")
    data = blob(14, 8 * CHUNK, "runs")
    f = written(m, "f", data)
    step = 5 * BLOCK

    def piece(start, n):
        at = start + n * BLOCK
        assert f.read(at, BLOCK) == data[at : at + BLOCK]

    for n in range(4):
        for start in (0, 2 * CHUNK, 4 * CHUNK):
            piece(start, n)
    wait_until(lambda: decoded(m) >= 3 * 4 * 4 + 12, what="three streams decoded ahead")
    for n in range(4, 32):
        for start in (4 * CHUNK, 0, 2 * CHUNK):
            piece(start, n)
    f.close()
    m.remount()
    f = Direct(m.mnt / "f")
    for n in range(6):
        assert f.read(n * step) == data[n * step : n * step + PAGE]
    wait_until(lambda: decoded(m) > 6, what="strides decoded ahead")
    for n in range(6, 8 * CHUNK // step):
        assert f.read(n * step) == data[n * step : n * step + PAGE]
    f.close()
    assert stats(m)["answered_from"]["read_ahead"] > 0


@pytest.mark.concurrent
def test_closing_does_not_lose_the_workers(mount):
    """The last close comes while blocks are being decoded for it; then the file
    is gone, cut or written anew."""
    m = mount("codec=zstd,blocksize=16K,tune=off,readahead=0")
    data = blob(15, 2 * CHUNK, "runs")
    for turn in range(60):
        (m.mnt / "f").write_bytes(data)
        f = Direct(m.mnt / "f")
        for n in range(3):
            assert f.read(n * BLOCK, BLOCK) == data[n * BLOCK : (n + 1) * BLOCK]
        if turn % 3 == 1:
            os.truncate(m.mnt / "f", 5 * BLOCK + 7)
            assert f.read(5 * BLOCK) == data[5 * BLOCK : 5 * BLOCK + 7] and f.read(8 * BLOCK) == b""
        f.close()
        if turn % 3 == 2:
            os.unlink(m.mnt / "f")
    assert m.running()


def test_a_file_stays_while_something_is_decoded_ahead(faulty):
    """The last close comes while a worker waits for the disk."""
    m, fault = faulty("codec=lz4,blocksize=64K,tune=off")
    data = blob(15, 2 * CHUNK, "noise")
    f = written(m, "f", data)
    for n in range(2):
        assert f.read(n * BLOCK, BLOCK) == data[n * BLOCK : (n + 1) * BLOCK]
    wait_until(lambda: decoded(m) == 4, what="decoded ahead")
    fault.set(1, Fault.READ, how=Fault.WAIT, forever=1)
    assert f.read(2 * BLOCK, BLOCK) == data[2 * BLOCK : 3 * BLOCK]
    wait_until(fault.came, what="a worker's read")
    f.close()
    time.sleep(0.2)
    fault.set(0)
    assert (m.mnt / "f").read_bytes() == data
    m.unmount()


def test_memory_stays_within_its_bounds(mount):
    """Blocks of different sizes, read at random and from end to end, some past the page cache."""
    m = mount("cache=16M,dirty_max=4M,codec=lz4,tune=off,blocksize=16K")
    files = {}
    for number, block in enumerate(("16K", "64K", "48K", "1M")):
        m.remount(f"cache=16M,dirty_max=4M,codec=lz4,tune=off,blocksize={block}")
        files[f"f{number}"] = blob(9 + number, 16 * CHUNK, "runs")
        (m.mnt / f"f{number}").write_bytes(files[f"f{number}"])
    m.remount()

    def reader(number):
        draw = random.Random(number)
        f = {name: Direct(m.mnt / name) for name in files}
        for _ in range(300):
            name, size = draw.choice(list(files)), draw.choice((PAGE, BLOCK, CHUNK))
            at = draw.randrange(15 * CHUNK // PAGE) * PAGE
            assert f[name].read(at, size) == files[name][at : at + size]
        for one in f.values():
            one.close()

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(reader, range(6)))
    for name, data in files.items():
        assert (m.mnt / name).read_bytes() == data
    held_to(m, (16 + 4 + 64) << 20)
    assert stats(m)["memory"]["cache_bytes"] <= 17 << 20


# ---- beside writers


def page_of(number, version):
    return struct.pack("<QQ", number, version) * (PAGE // 16)


def read_of(data, number):
    """The version of a page, all of it one; zeros are version 0."""
    assert len(data) == PAGE
    first = data[:16]
    assert data == first * (PAGE // 16), "a torn page"
    got, version = struct.unpack("<QQ", first)
    assert got == number if version else first == bytes(16), (got, number, version)
    return version


PAGES = 768  # 3 MiB


class Beside:
    """Pages with versions, changed by writers; each reader must see each page's version grow, or
    the page gone where files are cut."""

    def __init__(self, m):
        self.path = m.mnt / "f"
        self.done = [0] * PAGES  # version whose write has returned; one writer a page
        self.stop = threading.Event()
        self.cut = PAGES * 2 // 3  # pages from here on are cut off now and then

    def write(self, number):
        draw, f = random.Random(number), Direct(self.path, os.O_RDWR)
        for version in range(1, 250):
            n = draw.randrange(self.cut) // 2 * 2 + number % 2
            f.write(n * PAGE, page_of(n, version))
            self.done[n] = version
            if version % 50 == 0:
                os.fsync(f.fd)
        f.close()

    def truncate(self, number):
        draw = random.Random(number)
        fd = os.open(self.path, os.O_RDWR)
        for version in range(1, 60):
            os.truncate(self.path, draw.randrange(self.cut + 1, PAGES) * PAGE)
            os.truncate(self.path, PAGES * PAGE)
            n = draw.randrange(self.cut + 1, PAGES)
            os.pwrite(fd, page_of(n, version), n * PAGE)
        os.close(fd)

    def read(self, number):
        draw, f = random.Random(number), Direct(self.path)
        while not self.stop.is_set():
            start, count = draw.randrange(PAGES - 16), draw.choice((1, 4, 16))
            before = self.done[start : start + count]
            data = f.read(start * PAGE, count * PAGE)
            for i in range(len(data) // PAGE):
                version = read_of(data[i * PAGE : (i + 1) * PAGE], start + i)
                assert start + i >= self.cut or version >= before[i], (
                    "an older page than was written"
                )
        f.close()

    def scan(self, _number):
        while not self.stop.is_set():
            f = Direct(self.path)
            for at in range(0, PAGES, 64):
                before = self.done[at : at + 64]
                data = f.read(at * PAGE, 64 * PAGE)
                for i in range(len(data) // PAGE):
                    version = read_of(data[i * PAGE : (i + 1) * PAGE], at + i)
                    assert at + i >= self.cut or version >= before[i], (
                        "an older page than was written"
                    )
            f.close()


@pytest.mark.concurrent
@pytest.mark.parametrize(
    "options",
    ["cache=1M,codec=lz4,chunksize=256K,blocksize=16K", "cache=64M,dirty_max=1M,codec=zstd"],
)
def test_readers_beside_writers_and_truncates(mount, options):
    m = mount(options + ",tune=off,commit=1")
    (m.mnt / "f").write_bytes(
        b"".join(page_of(n, 1) if n < PAGES * 2 // 3 else bytes(PAGE) for n in range(PAGES))
    )
    m.remount()
    b = Beside(m)
    with ThreadPoolExecutor(7) as pool:
        readers = [
            pool.submit(b.read, 10),
            pool.submit(b.read, 11),
            pool.submit(b.scan, 0),
            pool.submit(b.scan, 1),
        ]
        writers = [pool.submit(b.write, 20), pool.submit(b.write, 21), pool.submit(b.truncate, 30)]
        try:
            for w in writers:
                w.result()
        finally:
            b.stop.set()
        for r in readers:
            r.result()
    m.remount()
    data = (m.mnt / "f").read_bytes()
    assert len(data) == PAGES * PAGE
    for n in range(b.cut):
        assert read_of(data[n * PAGE : (n + 1) * PAGE], n) >= b.done[n]


def test_zeros_behind_a_cut_inside_a_page(mount):
    """Of a chunk that is not stored yet, and of which only this page was written."""
    m = mount("chunksize=64K,commit=0")
    at = 64 * 1024 + 5 * PAGE
    f = Direct(m.mnt / "f", os.O_RDWR | os.O_CREAT)
    os.ftruncate(f.fd, 128 * 1024)
    f.write(at, b"x" * PAGE)
    for size in (at + 100, 128 * 1024):
        os.ftruncate(f.fd, size)
    f.close()
    m.remount()
    assert (m.mnt / "f").read_bytes() == (bytes(at) + b"x" * 100).ljust(128 * 1024, b"\0")


def test_a_long_read_of_small_blocks(mount):
    """More entries of the cache than an answer has pieces, though neighbours in
    memory are one piece."""
    m = mount("blocksize=4K,chunksize=1M,codec=lz4,max_read=1M")
    data = blob(5, 4 << 20, "text")
    (m.mnt / "f").write_bytes(data)
    m.remount()
    f = Direct(m.mnt / "f")
    for at in (2 << 20, 512 << 10, 3 << 20, 0, 2 << 20):
        assert f.read(at, CHUNK) == data[at : at + CHUNK]
    f.close()
