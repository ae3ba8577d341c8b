"""The live reference library: frames that it and the mount write in turn."""

import contextlib
import os
import random
import struct
import subprocess

import pytest

from libdata import KINDS, blob
from libfault import Fault
from libmount import CFRAME
from libposix import error_of
from libsteps import LIMIT, OPTIONS, perform, put, resize, same_through_mount

blosc2 = pytest.importorskip("blosc2") if os.environ.get("CI") != "true" else __import__("blosc2")

import libblosc
from libblosc import F
from libframe import sealed


def random_script(rng):
    size = rng.randrange
    makers = [
        lambda: ("write", size(LIMIT), size(1, 200_000), rng.choice(KINDS)),
        lambda: ("append", size(1, 100_000), 0, rng.choice(KINDS)),
        lambda: ("truncate", size(LIMIT), 0, ""),
        lambda: ("punch", size(LIMIT), size(1, 300_000), ""),
    ]
    return [rng.choice(makers)() for _ in range(size(1, 8))]


def modify(path, expect, rng):
    """Lets the reference change a frame of ours; returns what it holds then."""
    schunk = libblosc.open_frame(path, "a")
    chunks = [schunk.decompress_chunk(i) for i in range(schunk.nchunks)]
    assert b"".join(chunks) == expect
    for _ in range(rng.randrange(1, 6)):
        what = rng.choice(["update", "vlmeta", "delete", "append"])
        if what == "vlmeta":
            schunk.vlmeta["note"] = "n" * rng.randrange(300)
        elif what == "update" and chunks:
            at = rng.randrange(len(chunks))
            chunks[at] = blob(rng.random(), len(chunks[at]), rng.choice(KINDS[1:]))
            schunk.update_data(at, chunks[at], copy=True)
        elif what == "delete" and len(chunks) > 1:
            del chunks[0]
            schunk.delete_chunk(0)
        elif what == "append" and chunks and len(chunks[-1]) == schunk.chunksize:
            # after a short chunk this would make a frame of unequal chunks: the
            # reference crashes on its holes
            chunks.append(blob(rng.random(), schunk.chunksize, "text"))
            schunk.append_data(chunks[-1])
    return b"".join(chunks)


@pytest.mark.parametrize("options", OPTIONS[:6])
def test_the_reference_modifies_our_files(mount, reference, options):
    """Written by us, changed by the reference, read and written again by a
    fresh mount, read by the reference."""
    m = mount(options)
    rng = random.Random(options)
    expect = {}
    for i in range(12):
        expect[f"f{i}"] = perform(m.mnt / f"f{i}", random_script(rng))
    m.unmount()
    for name in expect:
        expect[name] = modify(m.stored(name), expect[name], rng)
    m.start()
    for name, data in expect.items():
        same_through_mount(m.mnt / name, data, name)
        data = bytearray(data)
        patch = blob(name, 3000, "text")
        at = rng.randrange(len(data) + 1)
        with open(m.mnt / name, "r+b") as f:
            os.pwrite(f.fileno(), patch, at)
        put(data, at, patch)
        reference.check(m.stored(name), bytes(data), name)


def test_metalayers_of_the_reference_stay(mount):
    """Writing through the mount keeps what it does not understand."""
    m = mount(start=False)
    schunk = blosc2.SChunk(
        chunksize=40_000,
        urlpath=str(m.stored("f")),
        mode="w",
        contiguous=True,
        meta={"numbers": [1, 2, 3], "": "nameless"},
        data=blob(1, 100_000, "ramp"),
        cparams={"typesize": 4, "nthreads": 1},
    )
    schunk.vlmeta["history"] = "made by the test" * 100
    schunk.vlmeta[""] = 5
    del schunk
    m.start()
    with open(m.mnt / "f", "r+b") as f:
        os.pwrite(f.fileno(), b"changed", 50_000)
        os.ftruncate(f.fileno(), 99_999)
    m.unmount()
    schunk = libblosc.open_frame(m.stored("f"))
    assert schunk.meta["numbers"] == [1, 2, 3] and schunk.meta[""] == "nameless"
    assert schunk.vlmeta["history"] == "made by the test" * 100 and schunk.vlmeta[""] == 5
    expect = blob(1, 100_000, "ramp")
    assert libblosc.chunk_bytes(schunk) == expect[:50_000] + b"changed" + expect[50_007:99_999]


@pytest.mark.parametrize("when", ["closed", "synced", "emptied", "open", "with parameters"])
def test_a_fixed_metalayer_is_changed_in_a_file_of_ours(mount, reference, when):
    """The library writes the header anew then, and nothing else: neither index nor trailer, where
    our fingerprint of the header is."""
    m = mount("commit=0,entry_timeout=0,attr_timeout=0", start=False)
    path, expect = m.stored("f"), bytearray(blob(1, 100_000, "ramp"))
    blosc2.SChunk(chunksize=40_000, urlpath=str(path), mode="w", meta={"a": "text"}, data=expect)

    def write(f, data):
        os.pwrite(f.fileno(), data, len(data))
        put(expect, len(data), data)

    m.start()
    with open(m.mnt / "f", "r+b") as f:
        write(f, b"changed")
        if when == "emptied":
            f.truncate(0)
            expect.clear()
        elif when == "synced":
            os.fsync(f.fileno())
    with open(m.mnt / "f", "rb") if when == "open" else contextlib.nullcontext():
        schunk = libblosc.open_frame(path, "a")
        if when == "with parameters":
            schunk.cparams = blosc2.CParams(codec=blosc2.Codec.LZ4, typesize=schunk.typesize)
        schunk.meta["a"] = "more"
        del schunk
        same_through_mount(m.mnt / "f", expect, 1)
        with open(m.mnt / "f", "r+b") as f:
            write(f, b"once more")
    m.remount()
    same_through_mount(m.mnt / "f", expect, 1)
    assert os.getxattr(m.mnt / "f", "user.cframefs.meta.a") == b"\xa4more"
    assert libblosc.open_frame(path).meta["a"] == "more"
    reference.check(path, bytes(expect), 1)
    assert subprocess.run([CFRAME, "verify", path]).returncode == 0


def test_a_root_of_an_older_version_with_metalayers(mount):
    """Its hash is of all of the header."""
    m = mount(start=False)
    path, data = m.stored("f"), blob(1, 100_000, "ramp")
    blosc2.SChunk(chunksize=40_000, urlpath=str(path), mode="w", meta={"a": "text"}, data=data)
    m.start()
    with open(m.mnt / "f", "ab") as f:
        f.write(b"more")
    m.unmount()
    raw = path.read_bytes()
    assert sealed(raw) != raw
    path.write_bytes(sealed(raw))
    m.start()
    assert (m.mnt / "f").read_bytes() == data + b"more"


@pytest.mark.parametrize("grown", ["by a hole", "by bytes"])
def test_nan_before_an_end_inside_an_item(mount, reference, grown):
    """Chunks of NaN are as wide as the header's items, so that these stay while there are any. Then
    the library could not make a hole that is no whole items."""
    m = mount(start=False)
    schunk = blosc2.SChunk(
        chunksize=40_000, urlpath=str(m.stored("f")), mode="w", cparams={"typesize": 4}
    )
    schunk.fill_special(20_000, blosc2.SpecialValue.NAN)
    expect = libblosc.chunk_bytes(schunk)
    m.start()
    with open(m.mnt / "f", "r+b") as f:
        if grown == "by a hole":
            f.truncate(80_003)
        else:
            os.pwrite(f.fileno(), bytes(3), 80_000)
    m.unmount()
    reference.check(m.stored("f"), expect + bytes(3), grown)


@pytest.mark.parametrize("copied", [False, True])
def test_what_is_written_into_rounded_arrays_stays_exact(mount, copied):
    """A frame whose pipeline loses bits: it did so to what its writer gave it, not to ours."""
    m = mount("chunksize=64K,blocksize=16K", start=False)
    filters = [F.TRUNC_PREC, F.SHUFFLE] + [F.NOFILTER] * 4
    blosc2.SChunk(
        chunksize=65536,
        urlpath=str(m.stored("f")),
        mode="w",
        contiguous=True,
        data=blob(1, 300_000, "floats"),
        cparams={
            "typesize": 8,
            "nthreads": 1,
            "filters": filters,
            "filters_meta": [10] + [0] * 5,
            "blocksize": 16384,
        },
    )
    m.start()
    path, expect = m.mnt / "f", bytearray((m.mnt / "f").read_bytes())
    assert expect != blob(1, 300_000, "floats")
    if copied:
        source, path = path, m.mnt / "g"
        with open(source, "rb") as a, open(path, "wb") as b:
            assert os.copy_file_range(a.fileno(), b.fileno(), 300_000) == 300_000
    with open(path, "r+b") as f:
        for at in (5_000, 131_072, 300_000):  # part of a block, a chunk, the end
            data = blob(at, 70_000, "noise")
            os.pwrite(f.fileno(), data, at)
            put(expect, at, data)
    m.remount()
    assert path.read_bytes() == expect
    assert libblosc.chunk_bytes(libblosc.open_frame(m.stored(path.name))) == expect


def theirs(m, chunk, filters, **cparams):
    """An empty frame of the reference's, `f` in the mount."""
    cparams = {"filters_meta": [0] * 6, **cparams}
    cparams["filters"] = (filters + [F.NOFILTER] * 6)[:6]
    return blosc2.SChunk(chunksize=chunk, urlpath=str(m.stored("f")), mode="w", cparams=cparams)


@pytest.mark.parametrize(
    ("writer", "filter", "nchunks", "first"),
    [
        ("theirs", F.DELTA, 4, "data"),
        ("theirs", F.DELTA, 4, "a hole"),
        ("theirs", F.SHUFFLE, 260, "data"),
        ("theirs", F.SHUFFLE, 260, "a hole"),
        ("theirs", F.BITSHUFFLE, 260, "a hole"),
        ("theirs", F.NOFILTER, 260, "data"),
        ("ours", F.DELTA, 4, "data"),
        ("ours", F.DELTA, 4, "a hole"),
    ],
)
def test_items_that_a_tail_hides_are_known_when_it_is_opened_again(
    mount, reference, writer, filter, nchunks, first
):
    """Chunks that keep their items since there are too many to be stored anew, or since their
    filter has no other form: beside those no chunk of single bytes may have blocks that are whole
    items. (The library's buffers are as large as the first of two with one block size needs.)"""
    chunk, block = 65_536, 16_384
    m = mount("codec=lz4,filter=delta,typesize=4,chunksize=64K,blocksize=16K", start=False)
    expect = bytearray(blob(1, nchunks * chunk, "floats"))
    expect[:chunk] = bytes(chunk) if first == "a hole" else expect[:chunk]
    if writer == "theirs":
        schunk = theirs(m, chunk, [filter], codec=blosc2.Codec.LZ4, typesize=4, blocksize=block)
        for at in range(0, len(expect), chunk):
            schunk.append_data(bytes(expect[at : at + chunk]))
    m.start()
    if writer == "ours":
        (m.mnt / "f").write_bytes(expect)
    with open(m.mnt / "f", "ab") as f:
        f.write(b"1")
    expect += b"1"
    m.remount("tune=off,blocksize=16K")
    with open(m.mnt / "f", "r+b") as f:
        for n in (1, 3):
            put(expect, n * chunk, blob(n, chunk, "text"))
            os.pwrite(f.fileno(), expect[n * chunk : (n + 1) * chunk], n * chunk)
    m.unmount()
    heads = libblosc.chunk_heads(libblosc.open_frame(m.stored("f")))
    assert {item for item, size, _ in heads if size} == {1, 4} or filter == F.DELTA
    assert [size for item, size, _ in heads if item == 1 and size and size % 4 == 0] == []
    reference.check(m.stored("f"), bytes(expect), 1)


@pytest.mark.parametrize("filters", [[F.SHUFFLE], [F.DELTA], [F.SHUFFLE, F.DELTA]])
def test_a_header_of_bytes_stays_one(mount, reference, filters):
    """A frame whose item size is 1 and whose filters have one of their own: chunks that are written
    here are of bytes, too, or slices that cut an item are refused."""
    m = mount("tune=off", start=False)
    chunk, expect = 2048, bytearray(blob(1, 20_480, "floats"))
    schunk = theirs(m, chunk, filters, typesize=1, blocksize=1024, filters_meta=[4] + [0] * 5)
    for at in range(0, len(expect), chunk):
        schunk.append_data(bytes(expect[at : at + chunk]))
    del schunk
    m.start()
    with open(m.mnt / "f", "r+b") as f:
        put(expect, 3 * chunk, blob(2, 2 * chunk, "floats"))
        os.pwrite(f.fileno(), expect[3 * chunk : 5 * chunk], 3 * chunk)
    m.unmount()
    schunk = libblosc.open_frame(m.stored("f"))
    assert {item for item, size, _ in libblosc.chunk_heads(schunk) if size} == {1}
    reference.check(m.stored("f"), bytes(expect), 1)


def update_in_whole_blocks(schunk, n, data):
    """Replaces a chunk by one whose blocks are whole items of 4 bytes, as a program may ask for. A
    header of ours names no such size while it hides the items."""
    cparams = {"typesize": schunk.typesize, "blocksize": 16_384, "codec": blosc2.Codec.LZ4}
    schunk.update_chunk(n, blosc2.compress2(data, **cparams, nthreads=1))


@pytest.mark.parametrize("what", ["a repeated byte", "one in odd blocks", "blocks of whole items"])
@pytest.mark.parametrize("filter", ["shuffle", "bitshuffle"])
def test_chunks_of_bytes_where_the_items_come_back(mount, reference, filter, what):
    """The library changes a file that ends within an item, whose header says 1; then the mount
    makes it whole items again. The library opens no chunk of a repeated value that is not as wide
    as the header's items, and its buffers are as large as the first of two with one block size
    needs."""
    m = mount(f"typesize=4,filter={filter},chunksize=64K,blocksize=16K,codec=lz4")
    expect, chunk = bytearray(blob(1, 196_607, "floats")), 65_536
    (m.mnt / "f").write_bytes(expect)
    m.unmount()
    schunk = libblosc.open_frame(m.stored("f"), "a")
    assert schunk.typesize == 1
    if what != "blocks of whole items":
        put(expect, chunk, b"7" * chunk)
        schunk.update_special(1, blosc2.SpecialValue.VALUE, b"7")
    if what == "one in odd blocks":
        repeated = bytearray(schunk.get_chunk(1))
        struct.pack_into("<i", repeated, 8, 16_383)
        schunk.update_chunk(1, bytes(repeated))
    if what == "blocks of whole items":
        put(expect, chunk, blob(2, chunk, "floats"))
        update_in_whole_blocks(schunk, 1, bytes(expect[chunk : 2 * chunk]))
    del schunk
    m.start()
    with open(m.mnt / "f", "ab") as f:
        f.write(b"1")
    expect += b"1"
    m.remount()
    same_through_mount(m.mnt / "f", expect, 1)
    schunk = libblosc.open_frame(m.stored("f"))
    assert schunk.typesize == 4
    heads = libblosc.chunk_heads(schunk)
    assert [size for item, size, _ in heads if item == 1 and size % 4 == 0] == []
    reference.check(m.stored("f"), bytes(expect), 1)


def test_chunks_of_bytes_where_a_part_brings_the_items_back(mount):
    """A file that is written over and over is committed in between, before it is flushed."""
    m = mount("typesize=4,filter=shuffle,chunksize=64K,blocksize=16K,codec=lz4,commit=0")
    chunk, size = 65_536, 192 * 65_536
    (m.mnt / "f").write_bytes(blob(1, size - 1, "floats"))
    m.unmount()
    schunk = libblosc.open_frame(m.stored("f"), "a")
    assert schunk.typesize == 1
    update_in_whole_blocks(schunk, 1, blob(2, chunk, "floats"))
    del schunk
    m.start()
    with open(m.mnt / "f", "r+b", buffering=0) as f:
        os.pwrite(f.fileno(), b"1", size - 1)
        for n in range(8):
            os.pwrite(f.fileno(), blob(n, size - 2 * chunk, "floats"), 2 * chunk)
    m.unmount()
    schunk = libblosc.open_frame(m.stored("f"))
    assert schunk.typesize == 4
    heads = libblosc.chunk_heads(schunk)
    assert [block for item, block, _ in heads if item == 1 and block % 4 == 0] == []


def foreign_chunks(schunk):
    """How many chunks of bytes stand beside a header of items as the library alone makes them."""
    item = schunk.typesize
    return sum(width == 1 and size % item == 0 for width, size, _ in libblosc.chunk_heads(schunk))


def test_killed_after_a_part_that_brings_the_items_back(mount, work, reference):
    """The header names the items then, and a chunk of bytes still stands beside them. The next
    commit that is no part finds it by that."""
    m = mount(
        "typesize=4,filter=shuffle,chunksize=64K,blocksize=16K,codec=lz4,commit=0,intent=0",
        start=False,
    )
    m.allow("went back to its newest whole state")
    fault, chunk, size = Fault(m, work / "fault"), 65_536, 96 * 65_536
    path, stored = m.mnt / "f", m.stored("f")
    for n in [*range(115, 300, 15)] * 4:  # which write comes after a part depends on the load
        m.start()
        path.write_bytes(blob(1, size - 1, "floats"))
        m.unmount()
        schunk = libblosc.open_frame(stored, "a")
        update_in_whole_blocks(schunk, 1, blob(2, chunk, "floats"))
        del schunk
        m.start()
        fd = os.open(path, os.O_RDWR)
        fault.set(n, Fault.CHANGE, how=Fault.KILL)
        error_of(os.pwrite, fd, b"1", size - 1)
        for k in range(8):
            error_of(os.pwrite, fd, blob(k, size - 2 * chunk, "floats"), 2 * chunk)
        error_of(os.close, fd)
        came = fault.came()
        fault.set(0)
        assert m.kill() or came
        schunk = libblosc.open_frame(stored)
        seen = schunk.typesize == 4 and foreign_chunks(schunk) > 0
        m.start()
        expect = bytearray(path.read_bytes())
        with open(path, "r+b") as f:
            f.truncate(size)
            f.write(b"once more")
        resize(expect, size)
        put(expect, 0, b"once more")
        m.unmount()
        schunk = libblosc.open_frame(stored)
        assert schunk.typesize == 4 and foreign_chunks(schunk) == 0, n
        reference.check(stored, bytes(expect), n)
        if seen:
            break
    assert seen


@pytest.mark.parametrize("way", ["go", "come"])
def test_killed_while_chunks_are_stored_anew(mount, work, reference, way):
    """At each write to the disk of an fsync at which the items of a file go or come, some of whose
    chunks the library has written."""
    m = mount(
        "typesize=4,filter=shuffle,chunksize=64K,blocksize=16K,codec=lz4,commit=0,intent=0",
        start=False,
    )
    m.allow("went back to its newest whole state")
    fault, chunk = Fault(m, work / "fault"), 65_536
    path, stored = m.mnt / "f", m.stored("f")
    size = 5 * chunk - (way == "come")
    n, came, shown = 1, True, set()
    while came:
        m.start()
        expect = bytearray(blob(1, size, "floats"))
        path.write_bytes(expect)
        m.unmount()
        schunk = libblosc.open_frame(stored, "a")
        assert schunk.typesize == (1 if way == "come" else 4)
        put(expect, chunk, b"7" * chunk)
        schunk.update_special(1, blosc2.SpecialValue.VALUE, b"7" * schunk.typesize)
        put(expect, 3 * chunk, blob(3, chunk, "floats"))
        update_in_whole_blocks(schunk, 3, bytes(expect[3 * chunk : 4 * chunk]))
        del schunk
        m.start()
        fd = os.open(path, os.O_RDWR)
        fault.set(n, Fault.CHANGE, how=Fault.KILL)
        error_of(os.pwrite, fd, b"1", size)
        error_of(os.fsync, fd)
        error_of(os.close, fd)
        came = fault.came()
        fault.set(0)
        assert m.kill() or came
        got = libblosc.chunk_bytes(libblosc.open_frame(stored))
        assert got in (expect, expect + b"1"), n
        shown.add(len(got))
        reference.check(stored, got, n)
        assert subprocess.run([CFRAME, "verify", stored]).returncode == 0
        m.start()
        for more in (b"2", b"345", b"6", b"789"):
            assert path.read_bytes() == got, n
            with open(path, "ab") as f:
                f.write(more)
            got += more
            reference.check(stored, got, n)
        m.unmount()
        n += 1
    assert n > 8 and len(shown) == 2


@pytest.mark.parametrize("size", [196_607, 196_608])
def test_a_damaged_chunk_where_the_items_come_and_go(mount, size):
    """That it cannot be stored anew does not keep others from the disk."""
    m = mount("typesize=4,filter=shuffle,chunksize=64K,blocksize=16K,codec=lz4").allow("corrupt")
    expect, chunk = bytearray(blob(1, size, "floats")), 65_536
    (m.mnt / "f").write_bytes(expect)
    m.unmount()
    schunk = libblosc.open_frame(m.stored("f"), "a")
    update_in_whole_blocks(schunk, 1, blob(2, chunk, "text"))
    stored = schunk.get_chunk(1)
    del schunk
    raw = bytearray(m.stored("f").read_bytes())
    put(raw, raw.index(stored) + 100, b"\xff" * (len(stored) - 200))
    m.stored("f").write_bytes(raw)
    m.start()
    with open(m.mnt / "f", "ab", buffering=0) as f:
        f.write(b"1")
        os.fsync(f.fileno())
    expect += b"1"
    m.remount()
    with open(m.mnt / "f", "rb", buffering=0) as f:
        for n in (0, 2):
            assert os.pread(f.fileno(), chunk, n * chunk) == expect[n * chunk : (n + 1) * chunk]
        assert os.fstat(f.fileno()).st_size == len(expect)
        assert error_of(os.pread, f.fileno(), chunk, chunk) == "EIO"


def posix_extend(path, size):
    with open(path, "r+b") as f:
        os.posix_fallocate(f.fileno(), 0, size)


@pytest.mark.parametrize("longer", [os.truncate, posix_extend])
def test_an_empty_frame_that_gets_longer_first(mount, reference, longer):
    """It follows the options of the mount from then on, and its header has to say so."""
    m = mount("codec=lz4,filter=bitshuffle,typesize=2", start=False)
    blosc2.SChunk(
        chunksize=131_072, urlpath=str(m.stored("f")), mode="w", cparams={"typesize": 128}
    )
    m.start()
    longer(m.mnt / "f", 1590)
    expect = blob(1, 1590, "floats")
    with open(m.mnt / "f", "r+b") as f:
        f.write(expect)
    m.unmount()
    assert libblosc.open_frame(m.stored("f")).typesize == 2
    reference.check(m.stored("f"), expect, 1)


def test_holes_of_a_frame_whose_items_a_tail_hides(mount, reference):
    """The library makes them with items of 1 byte then, and goes on with the buffers of such where
    a chunk of items has blocks as large: delta leaves chunks no other form."""
    m = mount(start=False)
    block, chunk = 4096, 24_576
    holes = (0, 2, 3)
    expect = bytearray(blob(3, 9 * chunk, "floats"))
    schunk = theirs(
        m,
        chunk,
        [F.DELTA],
        codec=blosc2.Codec.ZSTD,
        typesize=8,
        blocksize=block,
        splitmode=blosc2.SplitMode.ALWAYS_SPLIT,
    )
    for n in range(9):
        if n in holes:
            expect[n * chunk : (n + 1) * chunk] = bytes(chunk)
        schunk.append_data(bytes(expect[n * chunk : (n + 1) * chunk]))
    m.start()
    sizes = []
    for length in (len(expect) + 1, len(expect) + 2, len(expect), len(expect) - 3, 0):
        with open(m.mnt / "f", "r+b") as f:
            f.truncate(length)
        m.remount()
        whole = bytes(expect[:length]).ljust(length, b"\0")
        assert (m.mnt / "f").read_bytes() == whole
        reference.check(m.stored("f"), whole, 1)
        sizes.append(libblosc.open_frame(m.stored("f")).blocksize)
    assert sizes == [block - 1, block - 1, block, block - 1, block]


def half_noise(length):
    """Blocks that do not compress, in chunks that do: their streams are stored as they are, each
    behind its length, which takes more than the block."""
    return (blob(1, length // 2, "noise") + bytes(length))[:length]


@pytest.mark.parametrize("blocksize", ["ours", 4000, 0])
def test_holes_of_a_large_file_whose_items_a_tail_hides(mount, reference, blocksize):
    """Its chunks of items are not stored anew. For a slice of these the library goes on with what
    it has for the blocks of a hole, unless they are larger."""
    m = mount("filter=shuffle,typesize=16,codec=lz4,blocksize=4K", start=False)
    chunk, path = (1 << 20, m.mnt / "f") if blocksize == "ours" else (8000, m.mnt / "f")
    data, count = half_noise(chunk), (18 << 20) // chunk
    expect = b"".join(bytes(chunk) if n % 3 == 1 else data for n in range(count))
    if blocksize != "ours":
        schunk = theirs(
            m,
            chunk,
            [F.SHUFFLE],
            codec=blosc2.Codec.LZ4,
            typesize=16,
            blocksize=blocksize,
            splitmode=blosc2.SplitMode.ALWAYS_SPLIT,
        )
        schunk.append_data(expect[:chunk])
        for n in range(1, count):
            schunk.append_data(expect[n * chunk : (n + 1) * chunk])
    m.start()
    if blocksize == "ours":
        with path.open("wb") as f:
            for n in range(count):
                f.seek(n * chunk)
                if n % 3 != 1:
                    f.write(data)
        m.remount()
    for tail in (b"odd", b""):
        with path.open("r+b") as f:
            f.truncate(len(expect))
            f.seek(len(expect))
            f.write(tail)
        m.remount()
        assert path.read_bytes() == expect + tail
        assert libblosc.open_frame(m.stored("f")).typesize == (1 if tail else 16)
        reference.check(m.stored("f"), expect + tail, 1)
    if blocksize:
        size = 4096 if blocksize == "ours" else blocksize
        assert os.getxattr(path, "user.cframefs.blocksize") == str(size).encode()
        assert libblosc.open_frame(m.stored("f")).blocksize == size


def test_a_tail_comes_and_goes_while_a_file_is_open(mount, reference):
    """Each header has the block size of its items, or one byte less while it hides these."""
    m = mount("filter=shuffle,typesize=4,codec=lz4,intent=0,commit=0")
    expect, seen = bytearray(half_noise(18 << 20)), []
    (m.mnt / "f").write_bytes(expect)
    with open(m.mnt / "f", "ab", buffering=0) as f:
        for more in (b"", b"1", b"234", b"5678", b"9", b"abc"):
            f.write(more)
            expect += more
            os.fsync(f.fileno())
            schunk = libblosc.open_frame(m.stored("f"))
            seen.append((schunk.typesize, schunk.blocksize))
            reference.check(m.stored("f"), bytes(expect), 1)
    whole, hidden = (4, 65_536), (1, 65_535)
    assert seen == [whole, hidden, whole, whole, hidden, whole]


def test_a_tail_comes_and_goes_twice_while_a_small_file_is_open(mount, reference):
    """Its chunks are bytes each time that there is one, though they were items since the last."""
    m = mount("filter=shuffle,typesize=4,codec=lz4,chunksize=64K,intent=0,commit=0")
    expect, seen = bytearray(half_noise(256 << 10)), []
    (m.mnt / "f").write_bytes(expect)
    with open(m.mnt / "f", "ab", buffering=0) as f:
        for more in (b"1", b"234" + half_noise(256 << 10), b"5"):
            f.write(more)
            expect += more
            os.fsync(f.fileno())
            schunk = libblosc.open_frame(m.stored("f"))
            seen.append({schunk.get_chunk(n)[3] for n in range(schunk.nchunks)})
            reference.check(m.stored("f"), bytes(expect), 1)
    assert seen == [{1}, {1, 4}, {1}]
