"""Both ways with the live reference library: its frames through the mount, our
frames in the library."""

import os
import random
import re
import subprocess

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from libdata import KINDS, blob
from libmount import CFRAME, Mount
from libposix import KEEP_SIZE, ZERO_RANGE, fallocate, punch, read_direct

blosc2 = pytest.importorskip("blosc2") if os.environ.get("CI") != "true" else __import__("blosc2")
np = pytest.importorskip("numpy")

import libblosc
from libblosc import CODECS, PIPELINES, SPLITS, F, Writer
from libframe import sealed

property_test = settings(
    deadline=None,
    max_examples=int(os.environ.get("CFRAMEFS_EXAMPLES") or 50),
    database=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)
counter = iter(range(1 << 30))


def fresh_name(kind):
    """A new file for each example: one mount serves them all, and no cache knows the name."""
    return f"{kind}-{next(counter)}"


# ---- frames of the reference, through the mount


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


def same_through_mount(path, expect, seed):
    assert path.stat().st_size == len(expect)
    rng = random.Random(seed)
    with open(path, "rb", buffering=0) as f:
        for _ in range(6):  # before the whole, so that no cache helps
            at = rng.randrange(len(expect) + 1)
            size = rng.randrange(1, 50_000)
            assert os.pread(f.fileno(), size, at) == expect[at : at + size], (at, size)
        assert f.readall() == expect
    assert read_direct(path, len(expect) + 1) == expect


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


# ---- files written through the mount, in the reference

OPTIONS = [
    "",
    "codec=lz4,typesize=4,filter=shuffle,chunksize=64K,blocksize=4K",
    "codec=blosclz,level=5,typesize=8,filter=bitshuffle,chunksize=128K,blocksize=16K",
    "codec=zlib,level=3,typesize=3,filter=shuffle,chunksize=48K,blocksize=12K",
    "codec=zstd,level=4,typesize=2,filter=delta,chunksize=32K,blocksize=8K",
    "codec=lz4hc,typesize=16,filter=shuffle,chunksize=256K,blocksize=32K",
    "codec=zstd,level=0,chunksize=64K",
]
LIMIT = 700_000

steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("write"), st.integers(0, LIMIT), st.integers(1, 200_000), st.sampled_from(KINDS)
        ),
        st.tuples(st.just("append"), st.integers(1, 100_000), st.just(0), st.sampled_from(KINDS)),
        st.tuples(st.just("truncate"), st.integers(0, LIMIT), st.just(0), st.just("")),
        st.tuples(
            st.sampled_from(["punch", "zero"]),
            st.integers(0, LIMIT),
            st.integers(1, 300_000),
            st.just(""),
        ),
        st.tuples(st.sampled_from(["fsync", "reopen"]), st.just(0), st.just(0), st.just("")),
    ),
    min_size=1,
    max_size=14,
)


def resize(model, size):
    del model[size:]
    model.extend(bytes(size - len(model)))


def put(model, at, data):
    resize(model, max(len(model), at + len(data)))
    model[at : at + len(data)] = data


def blank(model, at, size):
    """Zeros in what there is of a range; the length stays."""
    size = max(0, min(size, len(model) - at))
    model[at : at + size] = bytes(size)


def perform(path, script):
    """Plays steps on a file of the mount; returns what it must hold."""
    model = bytearray()
    fd = os.open(path, os.O_CREAT | os.O_RDWR)
    for what, at, size, kind in script:
        if what == "append":
            what, at, size = "write", len(model), at
        if what == "write":
            data = blob(at, size, kind)
            os.pwrite(fd, data, at)
            put(model, at, data)
        elif what == "truncate":
            os.ftruncate(fd, at)
            resize(model, at)
        elif what == "punch":
            punch(fd, at, size)
            blank(model, at, size)
        elif what == "zero":
            fallocate(fd, ZERO_RANGE | KEEP_SIZE, at, size)
            blank(model, at, size)
        elif what == "fsync":
            os.fsync(fd)
            assert os.fstat(fd).st_size == len(model)
        else:
            os.close(fd)
            fd = os.open(path, os.O_RDWR)
    os.close(fd)
    return bytes(model)


@pytest.fixture(scope="module")
def reference():
    """The reference library as a reader of our frames, in a process of its own."""
    apart = libblosc.Apart()
    yield apart
    apart.close()


@pytest.fixture(scope="module")
def mounts(request, module_mount):
    """A mount for each set of options, made when first asked for. The reference reads files that
    are open here, without locks: in the background chunks would be moved while it does."""
    made = {}

    def get(options):
        if options not in made:
            all_options = f"{options},commit=0".lstrip(",")
            made[options] = Mount(module_mount.work / f"options-{len(made)}", all_options).start()
        return made[options]

    yield get
    for one in made.values():
        one.finish()


@pytest.mark.parametrize("options", OPTIONS)
@settings(property_test, max_examples=property_test.max_examples // 3 + 3)
@given(script=steps)
def test_our_files_in_the_reference(mounts, reference, options, script):
    m = mounts(options)
    name = fresh_name("ours")
    expect = perform(m.mnt / name, script)
    same_through_mount(m.mnt / name, expect, len(script))
    reference.check(m.stored(name), expect, len(expect))


def test_a_hole_before_whole_items(mount, reference):
    """What was opened while it ended inside an item, with nothing but a hole before the chunks of
    items: the library makes the hole of the header's item size, and keeps those buffers."""
    options = "commit=0,codec=lz4,typesize=4,filter=shuffle,chunksize=64K,blocksize=4K"
    m = mount(options)
    (m.mnt / "f").write_bytes(bytes(1))
    m.remount()
    data = blob(1, 10_154, "text")
    with open(m.mnt / "f", "r+b") as f:
        f.seek(413_750)
        f.write(data)
    m.unmount()
    info = subprocess.run([CFRAME, "info", m.backing / "f.b2frame"], stdout=subprocess.PIPE)
    assert b"typesize     4 bytes" in info.stdout
    reference.check(m.backing / "f.b2frame", bytes(413_750) + data, 1)


@pytest.mark.parametrize("filter", ["shuffle", "bitshuffle"])
def test_a_forged_item_size(mount, reference, filter):
    """A frame that ends inside an item has items of 1 byte, and notes the size of ours as the
    parameter of its filter. Whatever is put there: the bytes are those that were written, for us
    and the library, also when the file goes on and ends with whole items."""
    options = f"commit=0,codec=lz4,typesize=4,filter={filter},chunksize=64K,blocksize=4K"
    m, chunk = mount(options), 64 << 10
    forged = (0, 1, 2, 3, 7, 8, 64, 127, 128, 255)
    heads = {"hole": bytes(chunk), "data": blob(1, chunk, "floats")}
    files = {f"{kind}{n}": n for kind in heads for n in forged}
    data = {name: heads[name[:4]] + blob(2, chunk + 4097, "text") for name in files}
    for name in files:
        (m.mnt / name).write_bytes(data[name])
    m.unmount()
    for name, n in files.items():
        raw = bytearray(m.stored(name).read_bytes())
        assert raw[0x30:0x34] == bytes([0, 0, 0, 1]) and raw[0x4F:0x55].count(4) == 1
        head, raw[raw.index(4, 0x4F)] = bytes(raw[:87]), n
        assert raw.count(head) == 1, "its copy among the metalayers"
        m.stored(name).write_bytes(sealed(bytes(raw).replace(head, bytes(raw[:87]))))
        if n < 128:  # the library's Python package opens no frame with a larger one
            reference.check(m.stored(name), data[name], 1)
    m.start()
    for name, n in files.items():
        assert (m.mnt / name).read_bytes() == data[name], name
        items = 4 * max(n, 1)
        more = blob(3, chunk + -(len(data[name]) + chunk) % items, "text")
        with open(m.mnt / name, "ab") as f:
            f.write(more)
        data[name] += more
    m.remount()
    for name in files:
        assert (m.mnt / name).read_bytes() == data[name], name
    m.unmount()
    for name, n in files.items():
        if n < 128:
            reference.check(m.stored(name), data[name], 1)


@pytest.mark.parametrize("options", OPTIONS[:6])
@pytest.mark.parametrize("hole", [0, 300_000])
def test_lengths_that_become_whole_items(mounts, reference, options, hole):
    """A commit at a length that is no whole number of items, one that is, and back: in no frame
    between may chunks of one block size differ in typesize. (The library's buffers are as large
    as the first needs.)"""
    m = mounts(options)
    for kind in ("text", "noise"):
        for more in (4096, 49_152, 61_440, 65_536, 196_608):
            path = m.mnt / fresh_name("parity")
            model = bytearray()
            with open(path, "w+b", buffering=0) as f:
                for at, size in (
                    (hole, 65_537),
                    (hole + 65_537, 65_535 + more),
                    (hole + 131_072 + more, 1),
                ):
                    data = blob(at, size, kind if at == hole else "text")
                    os.pwrite(f.fileno(), data, at)
                    put(model, at, data)
                    os.fsync(f.fileno())
                    reference.check(m.stored(path.name), bytes(model), size)
                f.truncate(hole + 100_001)
                resize(model, hole + 100_001)
            reference.check(m.stored(path.name), bytes(model), 1)


@pytest.mark.parametrize("options", OPTIONS[:6])
@pytest.mark.parametrize("unit", [1, 8])
def test_what_is_appended_to(mounts, reference, options, unit):
    """A last chunk that grows commit by commit keeps the blocks that it has;
    between them writes, cuts and holes."""
    m = mounts(f"{options},intent=0" if options else "intent=0")  # each fsync is a commit
    rng = random.Random(f"{options} {unit}")
    path = m.mnt / fresh_name("log")
    model = bytearray()
    with open(path, "w+b", buffering=0) as f:
        for step in range(60):
            end, size = len(model), unit * rng.randrange(1, 20_000)
            what = rng.choice(["append"] * 8 + ["write", "cut", "punch", "open", "stretch"])
            if what in ("append", "write"):
                at = end if what == "append" else rng.randrange(end + 1)
                data = blob(step, size, rng.choice(["floats", "text"]))
                os.pwrite(f.fileno(), data, at)
                put(model, at, data)
            elif what in ("cut", "stretch"):
                f.truncate(end - min(end, size) if what == "cut" else end + size)
                resize(model, end - min(end, size) if what == "cut" else end + size)
            elif what == "punch":
                at = rng.randrange(end + 1)
                punch(f.fileno(), at, size)
                blank(model, at, size)
            else:
                os.close(os.open(path, os.O_RDWR))  # its close commits
            if rng.random() < 0.7:
                os.fsync(f.fileno())
                reference.check(m.stored(path.name), bytes(model), step)
    assert path.read_bytes() == model
    reference.check(m.stored(path.name), bytes(model), 1)


@pytest.mark.parametrize(
    "pipeline",
    [
        "shuffle:128+zstd:1",
        "shuffle:200+bytedelta+zstd:1",
        "bitshuffle:255+lz4:1",
        "shuffle:127+bytedelta+zstd:1",
    ],
)
@pytest.mark.parametrize("length", [300_001, 1_280_000])
def test_items_of_more_than_127_bytes(mounts, reference, pipeline, length):
    """The library's Python takes parameters of a header's filters for signed, and refuses more."""
    m = mounts("")
    path = m.mnt / fresh_name("wide")
    path.touch()
    os.setxattr(path, "user.cframefs.pipeline", pipeline.encode())
    data = bytearray(blob(1, length, "ramp"))
    path.write_bytes(data)
    reference.check(m.stored(path.name), bytes(data), 1)
    with open(path, "r+b") as f:
        os.pwrite(f.fileno(), b"more", length)
    data += b"more"
    assert path.read_bytes() == data
    reference.check(m.stored(path.name), bytes(data), 1)


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
        meta={"numbers": [1, 2, 3]},
        data=blob(1, 100_000, "ramp"),
        cparams={"typesize": 4, "nthreads": 1},
    )
    schunk.vlmeta["history"] = "made by the test" * 100
    del schunk
    m.start()
    with open(m.mnt / "f", "r+b") as f:
        os.pwrite(f.fileno(), b"changed", 50_000)
        os.ftruncate(f.fileno(), 99_999)
    m.unmount()
    schunk = libblosc.open_frame(m.stored("f"))
    assert (
        schunk.meta["numbers"] == [1, 2, 3] and schunk.vlmeta["history"] == "made by the test" * 100
    )
    expect = blob(1, 100_000, "ramp")
    assert libblosc.chunk_bytes(schunk) == expect[:50_000] + b"changed" + expect[50_007:99_999]


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
