"""A checksum for each block: what is written, what the reference makes of it, and that no flipped
bit gets to a reader of a few bytes."""

import json
import os
import random
import re
import struct
import subprocess

import pytest

from libchunk import Chunk, chunk_sum, is_stored, longest, xxh3
from libdata import blob
from libmount import BUILD, CFRAME, SLOWNESS, wait_until
from libposix import KEEP_SIZE, PUNCH_HOLE, error_of, fallocate, read_direct

blosc2 = pytest.importorskip("blosc2")
import libblosc
from libcodec import EBADMSG, Refused
from libframe import Tool, check_ours, check_reference, write

# (pipeline, block size, split mode, dictionary, bytes, what they are)
FORMS = [
    ("zstd:3", 4096, 3, False, 50001, "text"),
    ("zstd:1", 1000, 3, False, 5003, "text"),
    ("shuffle:4+zstd:5", 4096, 1, False, 60004, "ramp"),
    ("shuffle:8+lz4:5", 4096, 1, False, 40000, "floats"),
    ("shuffle:8+lz4:5", 4096, 2, False, 40003, "floats"),
    ("bitshuffle:4+lz4hc:4", 2048, 3, False, 30007, "ramp"),
    ("shuffle:8+blosclz:5", 8192, 3, False, 100001, "floats"),
    ("delta+zstd:3", 4096, 3, False, 40000, "ramp"),
    ("delta:8+shuffle:8+lz4:3", 4096, 1, False, 40960, "floats"),
    ("zlib:6", 3000, 3, False, 33333, "runs"),
    ("zstd:1", 512, 3, True, 200003, "text"),
    ("lz4:5", 2048, 3, True, 200003, "text"),
    ("zstd:3", 16384, 3, False, 100003, "noise"),
    ("shuffle:4+lz4:5", 20000, 1, False, 65539, "noise"),
    ("delta:8+shuffle:8+zstd:1", 65536, 3, False, 200008, "noise"),
    ("zstd:1", 65536, 3, True, 300001, "noise"),
]


def encoded(codec, form):
    text, blocksize, split, use_dict, size, kind = form
    data = blob(3, size, kind)
    raw = codec.encode(text, data, blocksize=blocksize, split=split, use_dict=use_dict)
    return data, raw


def has_dict(form):
    return form[3] and form[5] != "noise"


@pytest.mark.parametrize("form", FORMS)
def test_the_reference_reads_them(work, codec_tool, form):
    """Alone, and in a frame on disk: all of it, in pieces, by one thread and by several."""
    data, raw = encoded(codec_tool, form)
    chunk = Chunk(raw)
    chunk.check()
    assert bool(raw[31] & 1) == has_dict(form) and is_stored(raw) == (form[5] == "noise")
    assert codec_tool.both(raw) == data
    assert blosc2.decompress2(raw) == data
    path = work / "f.b2frame"
    cparams = {"typesize": raw[3], "nthreads": 1}
    schunk = blosc2.SChunk(
        chunksize=len(data), urlpath=str(path), mode="w", contiguous=True, cparams=cparams
    )
    schunk.append_data(bytes(len(data)) if len(data) % raw[3] == 0 else b"x" * len(data))
    schunk.update_chunk(0, raw)
    assert schunk.get_chunk(0) == raw
    del schunk
    rng = random.Random(str(form))
    for nthreads in (1, 4):
        schunk = blosc2.open(str(path), mode="r", dparams={"nthreads": nthreads})
        assert libblosc.chunk_bytes(schunk) == data
        if "delta" in form[0]:  # libblosc.slice_is_trusted
            continue
        for _ in range(20):
            lo = rng.randrange(len(data)) // raw[3]
            hi = min(lo + rng.randrange(1, 3 * form[1]), len(data)) // raw[3]
            want = data[lo * raw[3] : max(lo, hi) * raw[3]]
            assert bytes(schunk[lo : max(lo, hi)]) == want
    with Tool() as ours:
        ours.do(f"open {path}")
        check_ours(ours, data)


@pytest.mark.parametrize("form", FORMS)
def test_a_patch_and_growth_keep_them(codec_tool, form):
    """What stays has the checksum that it had; what is new, one of its own."""
    data, raw = encoded(codec_tool, form)
    was, size = Chunk(raw), form[1]
    new = blob(9, size, form[5])
    for got in (
        codec_tool.patch(form[0], raw, [(1, 1, new)]),
        codec_tool.grow(form[0], raw, 2, data[: 2 * was.blocksize] + data),
    ):
        if got is None:
            assert has_dict(form) or is_stored(raw)
            continue
        now = Chunk(got)
        now.check()
        kept = [i for i in range(min(len(was.starts), len(now.starts))) if i == 0]
        assert all(now.sums[i] == was.sums[i] and now.block(i) == was.block(i) for i in kept)
        assert blosc2.decompress2(got) == codec_tool.both(got)


def test_damage_is_not_made_good(codec_tool):
    """A patch copies a block with the checksum of the bytes that were encoded: also where damage
    makes it end earlier."""
    data, raw = encoded(codec_tool, FORMS[0])
    at = Chunk(raw).starts[3]
    length = struct.unpack_from("<i", raw, at)[0]
    for place, bit in ((at + 10, 4), (at, length & -length)):
        spoilt = bytearray(raw)
        word = struct.unpack_from("<I", spoilt, place)[0]
        struct.pack_into("<I", spoilt, place, word ^ bit)
        got = Chunk(codec_tool.patch(FORMS[0][0], bytes(spoilt), [(1, 1, blob(9, 4096, "text"))]))
        assert got.sums[3] == Chunk(raw).sums[3]
        with pytest.raises(AssertionError):
            got.check()


def test_who_gets_none(codec_tool):
    """One block; bytes as they are that fit into a block of 16 KiB; and a chunk that a table would
    make larger than those."""
    for data in (blob(1, 5000, "text"), blob(1, 9000, "noise"), blob(1, 16384, "noise")):
        raw = codec_tool.encode("zstd:1", data, blocksize=8192)
        assert not Chunk(raw).table and len(raw) <= len(data) + 32
    for data in (blob(1, 16385, "noise"), blob(1, 131073, "noise")):
        raw = codec_tool.encode("zstd:1", data, blocksize=8192)
        assert Chunk(raw).blocksize == 16384 and len(raw) == longest(len(data))
        Chunk(raw).check()
    for blocksize in (16, 100, 4095):  # no multiple of any item: FORMAT.md 18
        raw = codec_tool.encode("zstd:1", blob(2, 40_000, "noise"), blocksize=blocksize)
        assert Chunk(raw).blocksize == 16381
    for size in range(64, 700, 7):
        data = blob(size, size // 2, "noise") + bytes(size - size // 2)
        raw = codec_tool.encode("lz4:5", data, blocksize=32)
        assert len(raw) <= len(data) + 32 and codec_tool.both(raw) == data
        assert blosc2.decompress2(raw) == data


def lies(raw):
    """Chunks whose table is not what it seems, and what is to come of them: bytes, or an error."""
    chunk = Chunk(raw)
    at, end = chunk.table, chunk.starts[0]
    yield "no mark", raw[:at] + b"CFS2" + raw[at + 4 :], True
    for place in (0, 5, 8, 20, 40, at + 4, end - 4, end - 1):
        spoilt = bytearray(raw)
        spoilt[place] ^= 1
        if place in (at + 4, end - 4, end - 1):
            yield f"byte {place}", bytes(spoilt), False
        else:
            yield f"byte {place}", bytes(spoilt), None
    # As long as a table should be, and cut off behind it.
    short = bytearray(raw[: end - 2])
    struct.pack_into("<I", short, 12, len(short))
    yield "cut", bytes(short), False
    first = bytearray(raw)  # the first block reaches into the table
    struct.pack_into("<I", first, 32, end - 8)
    yield "into the table", bytes(first), None


def test_lies(codec_tool):
    data, raw = encoded(codec_tool, FORMS[0])
    for what, spoilt, fine in lies(raw):
        try:
            got = codec_tool.both(spoilt)
        except Refused as e:
            assert not fine, what
            assert fine is None or e.rc == EBADMSG, what
        else:
            assert fine or fine is None, what
            assert not fine or got == data, what


# ---- frames

FLIP = BUILD / "tests/c/frame_flip"
MOUNTS = [
    ("pipeline=zstd:3,chunksize=16K", "text", 21001),
    ("pipeline=shuffle:8+lz4:5,chunksize=16K", "floats", 21001),
    ("pipeline=bitshuffle:4+zstd:1,chunksize=16K", "ramp", 37123),
    ("pipeline=delta+shuffle:4+zstd:3,chunksize=16K", "ramp", 37123),
    ("pipeline=zstd:3,chunksize=40K", "noise", 40960 + 16001),
    ("pipeline=store,chunksize=20K", "noise", 20480 + 17001),
    ("pipeline=shuffle:4+lz4:5,chunksize=16K", "noise", 16384 + 7001),
]


@pytest.mark.parametrize("options,kind,size", MOUNTS)
def test_no_flipped_bit_gets_through(mount, options, kind, size):
    """Of every byte of a frame, held against reads of single pages in memory."""
    m = mount(f"{options},blocksize=4K")
    (m.mnt / "f").write_bytes(blob(4, size, kind))
    m.unmount()
    frame = m.stored("f")
    schunk = libblosc.open_frame(frame)
    for i in range(schunk.nchunks - 1):
        chunk = Chunk(schunk.get_chunk(i))
        assert chunk.table or is_stored(chunk.raw) and chunk.nbytes <= 16384
    done = subprocess.run(
        [FLIP, frame, "pieces", "0", str(frame.stat().st_size)],
        capture_output=True,
        text=True,
        timeout=300 * SLOWNESS,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    refused, same, other = map(
        int, re.search(r"(\d+) refused, (\d+) same, (\d+) other", done.stdout).groups()
    )
    assert other == 0 and refused and same, done.stdout[:500]


def damage(m, chunk, block):
    """Flips a bit in a block of the file f; returns the chunk as it was."""
    raw = libblosc.open_frame(m.stored("f")).get_chunk(chunk)
    frame = bytearray(m.stored("f").read_bytes())
    frame[frame.index(raw) + Chunk(raw).starts[block] + 9] ^= 0x20
    m.stored("f").write_bytes(frame)
    return raw


def test_the_rest_of_a_damaged_chunk_is_served(mount):
    """Only the block that was hit is lost, for readers of pages and of all; and it is named."""
    m = mount("pipeline=shuffle:4+zstd:3,blocksize=64K,chunksize=1M")
    data = blob(6, 3 << 20, "ramp")
    (m.mnt / "f").write_bytes(data)
    m.unmount()
    damage(m, 1, block=5)
    m.start().allow("checksum of a block")
    lost = (1 << 20) + 5 * 65536
    fd = os.open(m.mnt / "f", os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
    for place in range(0, len(data), 65536):
        read = lambda: os.pread(fd, 4096, place + 8192)  # noqa: E731
        if place == lost:
            assert error_of(read) == "EIO"
        else:
            assert read() == data[place + 8192 : place + 12288]
    os.close(fd)
    m.expect_log("read: .*checksum of a block")
    assert error_of((m.mnt / "f").read_bytes) == "EIO"
    m.remount()
    assert error_of(lambda: read_direct(m.mnt / "f", len(data))) == "EIO"
    said = subprocess.run([CFRAME, "verify", m.stored("f")], capture_output=True, text=True)
    assert said.returncode == 1 and re.search("chunk 1: .*checksum of a block.*5", said.stdout)


@pytest.mark.parametrize("filter", [blosc2.Filter.SHUFFLE, blosc2.Filter.BITSHUFFLE])
def test_a_copied_chunk_of_others_is_verified_for_small_reads(mount, filter):
    """It has no checksums of blocks, and is short enough to be read as a whole for any of them,
    also by random reads, for which blocks are kept before their last filter is undone."""
    m = mount("chunksize=128K,commit=0", start=False)
    noise = b"".join(bytes([n & 3, 0, 0, 0]) for n in random.Random(1).randbytes(32768))
    cparams = {"typesize": 4, "nthreads": 1, "filters": [filter], "filters_meta": [0]}
    cparams |= {"codec": blosc2.Codec.LZ4, "clevel": 5, "blocksize": 65536}
    path = str(m.stored("theirs"))
    blosc2.SChunk(chunksize=1 << 17, data=noise * 2, urlpath=path, mode="w", cparams=cparams)
    theirs = libblosc.open_frame(path).get_chunk(1)
    assert len(theirs) < 32 << 10
    m.start()
    with open(m.mnt / "theirs", "rb") as a, open(m.mnt / "f", "wb") as b:
        assert os.copy_file_range(a.fileno(), b.fileno(), len(noise) * 2) == len(noise) * 2
    m.unmount()
    raw = bytearray(m.stored("f").read_bytes())
    assert raw.count(theirs) == 2, "both are stored as they were"
    second = struct.unpack_from("<2I", theirs, 32)[1]
    raw[raw.rindex(theirs) + (second + len(theirs)) // 2] ^= 1
    m.stored("f").write_bytes(raw)
    m.start().allow("checksum of a chunk")
    fd = os.open(m.mnt / "f", os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
    for place in range(0, len(noise), 4096):
        assert os.pread(fd, 4096, place) == noise[place : place + 4096]
        assert error_of(os.pread, fd, 4096, len(noise) + place) == "EIO"
    os.close(fd)
    m.expect_log("read: .*checksum of a chunk")


def test_damage_is_not_patched_over(mount):
    """A write beside a damaged block fails when it is stored, as the chunk cannot be kept."""
    m = mount("pipeline=zstd:3,blocksize=16K,chunksize=256K")
    data = blob(7, 256 << 10, "text")
    (m.mnt / "f").write_bytes(data)
    m.unmount()
    raw = damage(m, 0, block=7)
    m.start().allow("checksum of a block")

    def patch():
        with open(m.mnt / "f", "r+b") as f:
            f.write(b"new")
            f.flush()
            os.fsync(f.fileno())
            os.pwrite(f.fileno(), b"more", 5000)
        fd = os.open(m.mnt / "f", os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)

    error_of(patch)  # where it is told depends on who stores it: the intent log may be first
    m.unmount()
    got = libblosc.open_frame(m.stored("f")).get_chunk(0)
    sums = Chunk(got)
    assert sums.sums[7] == Chunk(raw).sums[7]
    with pytest.raises(AssertionError):
        sums.check()


def test_a_write_that_meets_damage_says_how_far_it_got(mount):
    """Its last page needs damaged bytes behind it; those before it have new bytes by then."""
    m = mount("pipeline=zstd:3,blocksize=16K,chunksize=256K,commit=0")
    (m.mnt / "f").write_bytes(blob(7, 256 << 10, "text"))
    m.unmount()
    damage(m, 0, block=7)
    m.start().allow("checksum of a block|is lost")
    new, start = b"n" * 16484, 6 * 16384
    (m.mnt / "new").write_bytes(new)
    source, fd = os.open(m.mnt / "new", os.O_RDONLY), os.open(m.mnt / "f", os.O_RDWR)
    copy = os.copy_file_range
    assert copy(source, fd, len(new), offset_src=0, offset_dst=start) == 16384
    assert os.pread(fd, 16384, start) == new[:16384]
    assert error_of(copy, source, fd, 100, offset_src=0, offset_dst=start + 16384) == "EIO"
    os.close(source)
    assert error_of(os.close, fd) == "EIO"


def test_what_a_failed_call_has_zeroed_is_committed(mount):
    """The second of two chunks cannot be read, for its end to be kept. The first is a hole by
    then, and does not wait for the file to be closed."""
    m = mount("pipeline=zstd:3,blocksize=16K,chunksize=256K,commit=1")
    data = blob(7, 512 << 10, "text")
    (m.mnt / "f").write_bytes(data)
    m.unmount()
    damage(m, 1, block=0)
    m.start().allow("checksum of a block")
    fd = os.open(m.mnt / "f", os.O_RDWR)
    assert error_of(fallocate, fd, PUNCH_HOLE | KEEP_SIZE, 0, (256 << 10) + 100) == "EIO"
    assert os.pread(fd, 256 << 10, 0) == bytes(256 << 10)

    def is_hole():
        try:
            return not any(libblosc.open_frame(m.stored("f")).decompress_chunk(0))
        except RuntimeError:  # in the middle of the commit: no lock is kept between the two
            return False

    wait_until(is_hole, 5, "a commit")
    os.close(fd)


def test_what_is_appended_to_a_damaged_chunk_is_refused(mount):
    """The bytes behind it cannot be stored without it. What was written elsewhere is stored."""
    m = mount("pipeline=zstd:3,blocksize=16K,chunksize=256K,commit=3600")
    data = bytearray(blob(7, 450 << 10, "text"))
    (m.mnt / "f").write_bytes(data)
    m.unmount()
    damage(m, 1, block=2)
    m.start().allow("checksum of a block|close: corrupt|it ends before that, at 460800")
    data[1000:1003] = b"new"
    fd = os.open(m.mnt / "f", os.O_RDWR)
    os.pwrite(fd, b"new", 1000)
    os.pwrite(fd, b"more" * 5000, len(data))
    assert error_of(os.fsync, fd) == error_of(os.close, fd) == "EIO"
    m.remount().allow("checksum of a block")
    assert (m.mnt / "f").stat().st_size == len(data)
    lost = (256 + 2 * 16) << 10
    with open(m.mnt / "f", "rb", buffering=0) as f:
        assert f.read(lost) == data[:lost]
        f.seek(lost + (16 << 10))
        assert f.read() == data[lost + (16 << 10) :]


def test_a_damaged_block_that_is_written_anew(mount):
    """Nobody needs its old bytes: the rest of its chunk is kept."""
    m = mount("chunksize=64K,blocksize=16K,codec=zstd,commit=3600")
    data = bytearray(blob(3, 64 << 10, "text"))
    path = m.mnt / "f"
    path.write_bytes(data)
    m.unmount()
    damage(m, 0, block=2)
    m.start().allow("checksum of a block")
    assert error_of(path.read_bytes) == "EIO"
    data[32768:49152] = blob(4, 16384, "text")
    fd = os.open(path, os.O_RDWR)
    os.pwrite(fd, data[32768:49152], 32768)
    os.fsync(fd)
    os.close(fd)
    assert "is lost" not in m.log_text()
    m.remount()
    assert path.read_bytes() == data
    m.unmount()


def read_at_random(m, data):
    """Single pages, by requests of their own, and pieces of other lengths."""
    fd = os.open(m.mnt / "f", os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
    rng = random.Random(len(data))
    for _ in range(60):
        at, n = rng.randrange(len(data)), rng.choice((1, 4096, 70001))
        assert os.pread(fd, n, at) == data[at : at + n]
    os.close(fd)
    assert (m.mnt / "f").read_bytes() == data


@pytest.mark.parametrize("options", ["pipeline=zstd:1", "pipeline=shuffle:4+lz4:5", "level=0"])
def test_a_story_of_plain_bytes(mount, options):
    """Written, grown, patched, cut, and changed by the reference; read by both after each."""
    m = mount(f"{options},chunksize=100K,blocksize=16K")
    data, frame = bytearray(blob(1, 333_333, "noise")), m.stored("f")

    def check(nplain=None):
        m.unmount()
        check_reference(frame, bytes(data))
        schunk = libblosc.open_frame(frame)
        chunks = [Chunk(schunk.get_chunk(i)) for i in range(schunk.nchunks)]
        for chunk in chunks:
            if chunk.table:
                chunk.check()
        if nplain is not None:
            assert sum(is_stored(c.raw) and bool(c.table) for c in chunks) == nplain
            shown = subprocess.run([CFRAME, "info", frame, "--json"], stdout=subprocess.PIPE)
            assert json.loads(shown.stdout)["block_sums"] == sum(bool(c.table) for c in chunks)
        for nthreads in (1, 4):
            lazy = blosc2.open(str(frame), mode="r", dparams={"nthreads": nthreads})
            rng = random.Random(nthreads)
            for _ in range(30):
                lo = rng.randrange(len(data)) // lazy.typesize
                hi = min(lo + rng.randrange(1, 30000), len(data) // lazy.typesize)
                lo, hi = lo // 4 * 4, hi // 4 * 4
                if libblosc.slice_is_trusted(lazy, lo * lazy.typesize, hi * lazy.typesize):
                    want = bytes(data[lo * lazy.typesize : hi * lazy.typesize])
                    assert bytes(lazy[lo : max(lo, hi)]) == want
        del lazy, schunk
        m.start()
        read_at_random(m, data)

    def put(at, new):
        with open(m.mnt / "f", "r+b") as f:
            f.seek(at)
            f.write(new)
        data[at : at + len(new)] = new

    (m.mnt / "f").write_bytes(data)
    check(4)
    put(120_001, b"a few bytes")
    check(4)
    put(110_000, blob(2, 60_000, "text"))
    check(3 if options != "level=0" else 4)
    put(len(data), blob(3, 50_001, "noise"))
    check()
    os.truncate(m.mnt / "f", 290_001)
    del data[290_001:]
    check()
    os.truncate(m.mnt / "f", 204_800)
    del data[204_800:]
    check()
    m.unmount()
    schunk = libblosc.open_frame(frame, "a")
    schunk.update_data(0, blob(5, 102_400, "noise"), copy=True)
    data[:102_400] = blob(5, 102_400, "noise")
    schunk.append_data(blob(6, 12_344, "noise"))
    data += blob(6, 12_344, "noise")
    del schunk
    m.start()
    read_at_random(m, data)
    put(5000, b"ours")
    check()


def test_the_reference_changes_such_a_frame(mount):
    """It appends, inserts and updates; both read all of it, before and after we write again."""
    m = mount("pipeline=shuffle:4+zstd:3,blocksize=4K,chunksize=32K")
    data = bytearray(blob(8, 3 * 32768, "ramp"))
    (m.mnt / "f").write_bytes(data)
    m.unmount()
    frame = m.stored("f")
    schunk = libblosc.open_frame(frame, "a")
    other = blob(9, 32768, "text")
    schunk.update_data(1, other, copy=True)
    data[32768:65536] = other
    schunk.append_data(blob(10, 32768, "text"))
    data += blob(10, 32768, "text")
    del schunk
    m.start()
    assert (m.mnt / "f").read_bytes() == data
    with open(m.mnt / "f", "r+b") as f:
        f.seek(50000)
        f.write(b"ours again")
    data[50000:50010] = b"ours again"
    m.unmount()
    check_reference(frame, bytes(data))
    kinds = [bool(Chunk(libblosc.open_frame(frame).get_chunk(i)).table) for i in range(3)]
    assert kinds == [True, True, True]  # also the patched one, which had none
    m.start()
    assert (m.mnt / "f").read_bytes() == data


def with_note(path, version, sums):
    """Another version of the note in a frame of ours, and checksums as `sums` makes them."""
    raw = bytearray(path.read_bytes())
    schunk = libblosc.open_frame(path)
    header_len, cbytes = struct.unpack(">i", raw[11:15])[0], struct.unpack(">q", raw[39:47])[0]
    end = struct.unpack(">Q", raw[16:24])[0]
    mark = raw.index(b"\xa1v\x02\xa3seq", header_len + cbytes)
    raw[mark + 2] = version
    at = raw.index(b"\xa4xxh3", mark) + 10
    for i in range(schunk.nchunks):
        struct.pack_into("<Q", raw, at + 8 * i, sums(schunk.get_chunk(i)))
    hashed = raw[:header_len] + raw[header_len + cbytes : end - 18] + raw[end - 8 : end]
    struct.pack_into(">Q", raw, end - 16, xxh3(hashed))
    path.write_bytes(raw)


def with_old_note(path):
    """The frame as if by a writer who knows of no tables: note 1, checksums of whole chunks."""
    with_note(path, 1, xxh3)


def test_roots_of_later(work):
    """Not understood is not torn: nobody goes back to an older root, and nothing is written."""
    path = work / "f.b2frame"
    with Tool() as ours:
        ours.do("pipeline zstd:3")
        ours.do(f"create {path} 150000")
        for part in (b"one", b"another"):  # the first one's root is still there
            ours.do(f"write 0 {(part + blob(5, 400000, 'text')).hex()}")
            ours.do("commit sync")
        with_note(path, 3, chunk_sum)
        raw = path.read_bytes()
        assert "later" in ours.ask(f"open {path}")
    assert path.read_bytes() == raw


@pytest.mark.parametrize(
    ("writer", "n"), [("ours", 150_000), ("ours", 20_000), ("theirs", 150_000), ("theirs", 20_000)]
)
def test_a_length_that_is_damaged_frees_no_other_chunk(work, writer, n):
    """What a chunk took is free once it is replaced: what it had, not what its header says by then,
    which has no checksum in a chunk of one block, or of another program."""
    path = work / "f.b2frame"
    data = bytearray(blob(5, 8 * n, "text"))

    def put(ours, chunk, seed):
        new = blob(seed, n, "text")
        ours.do(f"write {chunk * n} {new.hex()}")
        ours.do("commit sync")
        write(data, chunk * n, new)

    def lengthen(chunk):
        """In its header, by all of the next chunk."""
        schunk = libblosc.open_frame(path)
        raw = path.read_bytes()
        at, other = raw.index(schunk.get_chunk(chunk)), raw.index(schunk.get_chunk(chunk + 1))
        assert at < other < raw.index(schunk.get_chunk(chunk + 2))
        (length,) = struct.unpack_from("<I", raw, at + 12)
        with open(path, "r+b") as f:
            os.pwrite(f.fileno(), struct.pack("<I", 2 * length), at + 12)

    with Tool() as ours:
        ours.do("pipeline zstd:3")
        if writer == "ours":
            ours.do(f"create {path} {n}")
            ours.do(f"write 0 {data.hex()}")
            ours.do("commit sync")
        else:
            schunk = blosc2.SChunk(chunksize=n, contiguous=True, urlpath=str(path))
            for at in range(0, len(data), n):
                schunk.append_data(bytes(data[at : at + n]))
        ours.do(f"open {path}")
        put(ours, 0, 6)  # which looks for all that is free
        lengthen(3)
        for i in range(24):
            put(ours, 3 if i % 2 else 0, 7 + i)
        check_ours(ours, data)
        assert ours.do("verify").split()[0] == "0"
    check_reference(path, bytes(data))


@pytest.mark.parametrize("pipeline", ["zstd:3", "store"])
def test_roots_of_before(work, pipeline):
    """Checksums of whole chunks stay what they are, beside those of chunks written since."""
    path = work / "f.b2frame"
    data = bytearray(blob(5, 400000, "text"))
    with Tool() as ours:
        ours.do(f"pipeline {pipeline}")
        ours.do(f"create {path} 150000")
        ours.do(f"write 0 {data.hex()}")
        ours.do("commit sync")
        with_old_note(path)
        ours.do(f"open {path}")
        assert ours.do("verify") == "0 3 0"
        check_ours(ours, data)
        ours.do("write 200000 010203")
        write(data, 200000, b"\1\2\3")
        ours.do("commit sync")
        assert ours.do("verify") == "0 3 0"
        ours.do(f"open {path}")
        assert ours.do("verify") == "0 3 0"
        check_ours(ours, data)
    check_reference(path, bytes(data))
    schunk = libblosc.open_frame(path)
    note = schunk.vlmeta["cframefs"]
    sums = struct.unpack("<3Q", note["xxh3"])
    assert note["v"] == 2 and sums[1] == chunk_sum(schunk.get_chunk(1))
    assert [one & ~1 for one in (sums[0], sums[2])] == [
        xxh3(schunk.get_chunk(i)) & ~1 for i in (0, 2)
    ]
    raw = bytearray(path.read_bytes())
    for i in range(3):  # each kind finds damage
        spoilt = bytearray(raw)
        spoilt[raw.index(schunk.get_chunk(i)) + 1000] ^= 1
        path.write_bytes(spoilt)
        with Tool() as ours:
            ours.do(f"open {path}")
            assert ours.do("verify").split()[0] == "1"
