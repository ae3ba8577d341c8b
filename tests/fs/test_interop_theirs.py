"""The live reference library: its frames, through the mount."""

import os
import re
import struct
import subprocess
import time

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from libdata import KINDS, blob
from libmount import CFRAME, SLOWNESS, wait_until
from libposix import error_of, read_direct
from libstats import Moved
from libsteps import fresh_name, property_test, same_through_mount

blosc2 = pytest.importorskip("blosc2") if os.environ.get("CI") != "true" else __import__("blosc2")
np = pytest.importorskip("numpy")

import libblosc
import libframe
from libblosc import CODECS, PIPELINES, SPLITS, F, Writer


@st.composite
def shapes(draw):
    """How a frame is compressed and cut: everything that the reference lets one choose."""
    filters = draw(st.sampled_from(PIPELINES))
    lossy = F.TRUNC_PREC in filters
    typesize = draw(
        st.sampled_from([4, 8])
        if lossy
        else st.one_of(st.integers(1, 17), st.sampled_from([24, 32, 255, 300]))
    )
    items = draw(st.integers(max(1, 64 // typesize), max(2, 120_000 // typesize)))
    block_items = draw(st.one_of(st.just(0), st.integers(max(1, 32 // typesize), items)))
    return {
        "codec": draw(st.sampled_from(CODECS)),
        "level": draw(st.integers(0, 9)),
        "filters": filters,
        "typesize": typesize,
        "chunksize": items * typesize,
        "blocksize": block_items * typesize,
        "split": draw(st.sampled_from(SPLITS)),
        "meta": draw(st.sampled_from([None, {"numbers": [1, 2, 3]}, {"a": "text", "b": b"bytes"}])),
    }


edits = st.lists(
    st.tuples(
        st.sampled_from(["append", "insert", "update", "delete", "vlmeta"]),
        st.integers(0, 1 << 20),
        st.sampled_from(KINDS),
    ),
    max_size=12,
)


def play(writer, script):
    """Applies edits that keep every chunk at full size."""
    writer.append(blob(0, writer.chunksize, "ramp"))
    for what, number, kind in script:
        at = number % len(writer.chunks) if writer.chunks else 0
        data = blob(number, writer.chunksize, kind)
        if what == "vlmeta":
            writer.schunk.vlmeta[f"note{number % 5}"] = kind * (number % 50)
        elif what == "append" or not writer.chunks:
            writer.append(data)
        elif what == "delete":
            writer.delete(at)
        else:
            getattr(writer, what)(at, data)


@property_test
@given(shape=shapes(), script=edits, tail=st.integers(0, 120_000))
def test_frames_of_the_reference(module_mount, shape, script, tail):
    name = fresh_name("ref")
    writer = Writer(module_mount.stored(name), shape)
    play(writer, script)
    tail %= shape["chunksize"]
    if F.DELTA in shape["filters"] or F.TRUNC_PREC in shape["filters"]:
        tail -= tail % shape["typesize"]
    if tail:
        writer.append(blob(tail, tail, KINDS[tail % len(KINDS)]))
    same_through_mount(module_mount.mnt / name, writer.bytes(), tail)


@property_test
@given(
    shape=shapes(),
    sizes=st.lists(st.integers(1, 1000), min_size=1, max_size=10),
    at=st.integers(0, 9),
)
def test_frames_of_chunks_of_different_sizes(module_mount, shape, sizes, at):
    """Appending after a short chunk, inserting short ones. No zeros: special
    offsets crash the reference here."""
    assume(not {F.DELTA, F.TRUNC_PREC} & set(shape["filters"]))
    name = fresh_name("var")
    writer = Writer(module_mount.stored(name), shape)
    writer.append(
        blob(at, shape["chunksize"], "text")
    )  # the reference refuses to go on after a short first chunk
    for i, size in enumerate(sizes, 1):
        data = blob(i, min(size * shape["typesize"], shape["chunksize"]), "text")
        writer.insert(at, data) if at < i else writer.append(data)
    same_through_mount(module_mount.mnt / name, b"".join(writer.chunks), at)


@property_test
@given(
    shape=shapes(),
    items=st.integers(1, 300_000),
    kind=st.sampled_from(["ZERO", "NAN", "VALUE", "UNINIT"]),
    edit=st.booleans(),
)
def test_special_values(module_mount, shape, items, kind, edit):
    typesize = shape["typesize"]
    assume(typesize in (4, 8) or kind in ("ZERO", "UNINIT"))
    shape = {**shape, "filters": []}
    items = items % (5_000_000 // typesize) + 1
    name = fresh_name("special")
    writer = Writer(module_mount.stored(name), shape)
    value = {"VALUE": b"\x01\x02\x03\x04\x05\x06\x07\x08"[:typesize]}.get(kind)
    writer.schunk.fill_special(items, blosc2.SpecialValue[kind], value)
    if edit and items * typesize >= shape["chunksize"]:
        writer.schunk.update_data(0, blob(items, shape["chunksize"], "text"), copy=True)
    expect = libblosc.chunk_bytes(writer.schunk)
    if kind == "UNINIT":  # those bytes are anybody's, but the size is not
        assert (module_mount.mnt / name).stat().st_size == len(expect)
        assert len((module_mount.mnt / name).read_bytes()) == len(expect)
    else:
        same_through_mount(module_mount.mnt / name, expect, items)


@property_test
@given(data=st.data())
def test_arrays_of_the_reference(module_mount, data):
    """b2nd: np.load of the .npy file in the mount gives the array."""
    ndim = data.draw(st.integers(0, 4))
    least, most = data.draw(st.sampled_from([0, 1, 1, 1])), [1, 20_000, 150, 28, 12][ndim]
    shape = tuple(data.draw(st.integers(least, most)) for _ in range(ndim))
    chunks = tuple(
        data.draw(st.integers(-(-n // 4), n)) for n in shape
    )  # some chunks, some blocks: not thousands
    blocks = tuple(data.draw(st.integers(-(-n // 3), n)) for n in chunks)
    dtype = data.draw(
        st.sampled_from(["<i4", "<f8", "|u1", "<i2", ">f4", "<c16", "<U3", "|S5", "|b1", "<M8[ns]"])
    )
    items = int(np.prod(shape))
    array = np.frombuffer(blob(items, items * np.dtype(dtype).itemsize, "ramp"), dtype="|u1")
    array = (
        (array % 2 if dtype == "|b1" else array % 100).view(dtype).reshape(shape)
        if dtype not in ("<U3", "|S5")
        else np.array([str(i % 97) for i in range(items)], dtype=dtype).reshape(shape)
    )
    name = fresh_name("nd")
    blosc2.asarray(
        array,
        chunks=chunks or None,
        blocks=blocks or None,
        urlpath=str(module_mount.backing / f"{name}.b2nd"),
    )
    path = module_mount.mnt / f"{name}.npy"
    got = np.load(path)
    assert (
        got.dtype == array.dtype and got.shape == array.shape and got.tobytes() == array.tobytes()
    )
    raw = path.read_bytes()
    for at in (0, 1, len(raw) // 2, max(len(raw) - 3, 0)):
        with open(path, "rb") as f:
            assert os.pread(f.fileno(), 1000, at) == raw[at : at + 1000]


def test_an_array_stored_by_columns(mount):
    """Each row comes from as many blocks as there are columns, more than the cache holds: a request
    takes all its rows from a block at once."""
    m = mount("cache=16M")
    array = np.arange(20_000 * 192, dtype="<i8").reshape(20_000, 192)
    columns = {"chunks": (20_000, 1), "blocks": (20_000, 1)}
    blosc2.asarray(array, urlpath=str(m.backing / "x.b2nd"), **columns)
    with Moved(m) as moved, open(m.mnt / "x.npy", "rb") as f:
        got = f.read(1 << 20)
    head = got.index(b"\n") + 1
    assert got[head:] == array.tobytes()[: len(got) - head]
    assert moved("read", "decoded_blocks") < 10_000
    with open(m.mnt / "x.npy", "rb") as f:
        assert os.pread(f.fileno(), 5000, 9_000_001) == array.tobytes()[9_000_001 - head :][:5000]


def test_what_an_array_says_of_itself(mount):
    m = mount("chunksize=64K")
    array = np.arange(60, dtype="<i4").reshape(3, 4, 5)
    shape = {"chunks": (2, 4, 5), "blocks": (1, 4, 5)}
    blosc2.asarray(array, urlpath=str(m.backing / "x.b2nd"), **shape)
    (m.mnt / "f").write_bytes(b"bytes")

    told = {"chunksize": b"160", "blocksize": b"80", "shape": b"[3, 4, 5]", "dtype": b"<i4"}
    for name, value in told.items():
        assert os.getxattr(m.mnt / "x.npy", f"user.cframefs.{name}") == value
    assert os.getxattr(m.mnt / "f", "user.cframefs.chunksize") == b"65536"
    for name in ("shape", "dtype"):
        assert error_of(os.getxattr, m.mnt / "f", f"user.cframefs.{name}") == "ENODATA"
    with open(m.mnt / "x.npy", "rb") as f:
        size = os.fstat(f.fileno()).st_size
        for at in (0, 7, size - 1):
            assert os.lseek(f.fileno(), at, os.SEEK_DATA) == at
            assert os.lseek(f.fileno(), at, os.SEEK_HOLE) == size
        assert error_of(os.lseek, f.fileno(), size, os.SEEK_DATA) == "ENXIO"


def lazy(where, a):
    (a + a * 2).save(urlpath=where)


def lazy_once(where, a):
    """As older releases marked them."""
    blosc2.zeros(a.shape, dtype=a.dtype, urlpath=where, meta={"LazyArray": 0})


def proxy(where, a):
    blosc2.Proxy(a, urlpath=where)


@pytest.mark.parametrize("make", [lazy, lazy_once, proxy])
def test_an_array_whose_items_are_not_in_its_frame(mount, make):
    """An expression, or a cache of another array: no .npy file of zeros."""
    m = mount(start=False)
    a = blosc2.asarray(np.arange(1, 1000), urlpath=str(m.backing / "a.b2nd"))
    make(str(m.backing / "x.b2nd"), a)
    m.allow("items are not in its frame").start()
    assert sorted(os.listdir(m.mnt)) == ["a.npy", "x.b2nd"]
    assert (m.mnt / "x.b2nd").read_bytes() == (m.backing / "x.b2nd").read_bytes()
    extract = [CFRAME, "extract", "-C", m.work / "plain", m.backing]
    said = subprocess.run(extract, stderr=subprocess.PIPE, text=True).stderr
    assert "x.b2nd" in said
    plain = m.work / "plain"
    assert (plain / "x.b2nd").read_bytes() == (m.backing / "x.b2nd").read_bytes()


def many_columns(path, rows, columns):
    """An array stored by columns, all of which are one chunk, stored once."""
    few = np.full((rows, 2), np.arange(rows, dtype="u1")[:, None])
    blosc2.asarray(few, urlpath=str(path), chunks=(rows, 1), blocks=(rows, 1))
    raw = path.read_bytes()
    header_len, cbytes, frame_len, trailer_len = libframe.lengths(raw)
    shape, cbytes = b"\xd3" + struct.pack(">q", rows) + b"\xd3", cbytes // 2
    assert shape + struct.pack(">q", 2) in raw[:header_len]
    head = raw[:header_len].replace(
        shape + struct.pack(">q", 2), shape + struct.pack(">q", columns)
    )
    index = libframe.same_index(columns, bytes(8))
    rest = raw[header_len : header_len + cbytes] + index + raw[frame_len - trailer_len : frame_len]
    head = bytearray(head)
    struct.pack_into(">Q", head, 16, header_len + len(rest))
    struct.pack_into(">q", head, 30, rows * columns)
    struct.pack_into(">q", head, 39, cbytes)
    path.write_bytes(head + rest)


@pytest.mark.concurrent
def test_an_array_that_takes_minutes(mount):
    """For each request, of 262,144 columns of 1 MiB. Other files can be read meanwhile, this one be
    changed by another program, and who reads it can be killed, though no signal stops a read past
    the page cache."""
    m = mount("entry_timeout=0,attr_timeout=0", start=False)
    many_columns(m.backing / "x.b2nd", 1 << 20, 1 << 18)
    m.start()
    (m.mnt / "other").write_bytes(b"other")
    dd = ["dd", f"if={m.mnt}/x.npy", "of=/dev/null", "bs=256K", "count=1", "status=none"]
    readers = [
        subprocess.Popen([*dd, f"skip={8 * k}", *(["iflag=direct"] if k % 2 else [])])
        for k in range(24)
    ]
    time.sleep(1)
    for k in range(10):
        (m.mnt / f"new{k}").write_bytes(b"new")
        assert read_direct(m.mnt / "other", 4096) == b"other"
        os.utime(m.backing / "x.b2nd", (k, k))
        with open(m.mnt / "x.npy", "rb") as f:
            assert os.fstat(f.fileno()).st_mtime == k
    assert all(p.poll() is None for p in readers)
    for p in readers:
        p.kill()
    for p in readers:
        assert p.wait(60 * SLOWNESS) == -9
    m.unmount()


def test_who_read_an_array_that_takes_minutes_is_gone(mount):
    """What the kernel has read ahead for it ends, also in a read-only mount, where nobody tells of
    a close: else it would keep out all who read such a file for minutes."""
    m = mount("ro", start=False)
    many_columns(m.backing / "x.b2nd", 1 << 20, 1 << 18)
    m.start()
    dd = ["dd", f"if={m.mnt}/x.npy", "of=/dev/null", "bs=256K", "count=1", "status=none"]
    readers = [subprocess.Popen([*dd, f"skip={8 * k}"]) for k in range(8)]
    time.sleep(1)
    assert all(p.poll() is None for p in readers)
    for p in readers:
        p.kill()
        p.wait(60 * SLOWNESS)

    def rests():
        before = m.cpu_seconds()
        time.sleep(0.5)
        return m.cpu_seconds() - before < 0.25

    wait_until(rests, 5, "the end of the reads")


def test_cframe_tool_reads_what_the_reference_wrote(mount, work):
    assert CFRAME.exists(), f"{CFRAME} is missing: build first"
    data = blob(3, 300_000, "floats")
    blosc2.SChunk(
        chunksize=80_000,
        urlpath=str(work / "x.b2frame"),
        mode="w",
        contiguous=True,
        data=data,
        cparams={"typesize": 8},
    )
    assert (
        subprocess.run([CFRAME, "cat", work / "x.b2frame"], capture_output=True, check=True).stdout
        == data
    )
    info = subprocess.run(
        [CFRAME, "info", work / "x.b2frame"], capture_output=True, text=True, check=True
    ).stdout
    assert re.search(r"\b300[,_]?000\b", info)


def test_stores_of_objects(module_mount):
    """Chunks of different sizes and blocks of variable length, as the library's containers of
    Python objects write and change them."""
    if not hasattr(blosc2, "ObjectArray") or not hasattr(blosc2, "BatchArray"):
        pytest.skip("a library without containers of objects")
    ways = [(blosc2.ObjectArray, {})]
    ways += [(blosc2.BatchArray, {"items_per_block": n}) for n in (1, 3, None)]
    for kind, how in ways:
        name = fresh_name("objects")
        path = module_mount.stored(name)
        store = kind(urlpath=str(path), mode="w", contiguous=True, **how)
        for i in range(9):
            store.append([None, i, "text" * (i * i), {"n": [i / 3] * i}, b"x" * 999])
        store[3] = ["shorter"]
        store.insert(2, [blob(1, 5000, "noise"), "between"])
        store.delete(0)
        store.vlmeta["note"] = ["made", 1]
        del store
        schunk = blosc2.schunk_from_cframe(path.read_bytes(), copy=True)
        chunks = [schunk.decompress_chunk(i) for i in range(schunk.nchunks)]
        assert len(chunks) == 9
        same_through_mount(module_mount.mnt / name, b"".join(chunks), len(chunks))
