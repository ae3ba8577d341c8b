"""The live reference library: files written through the mount, read by it."""

import os
import random
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from libdata import KINDS, blob
from libmount import CFRAME, Mount
from libposix import punch
from libsteps import (
    LIMIT,
    OPTIONS,
    blank,
    fresh_name,
    perform,
    property_test,
    put,
    resize,
    same_through_mount,
)

blosc2 = pytest.importorskip("blosc2") if os.environ.get("CI") != "true" else __import__("blosc2")

import libblosc
from libframe import sealed

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


@pytest.mark.parametrize("pipeline", ["shuffle:8+zstd:1", "shuffle:4+bytedelta+lz4:5"])
def test_chunks_of_items_leave_their_size_to_the_typesize(mount, reference, pipeline):
    """To the library before C 2.15 the parameter of shuffle is a number of times. The header has
    one where the file ends within an item, but else it would get into what such a library writes,
    and into the chunks of a file that is opened again."""
    m = mount(f"chunksize=64K,pipeline={pipeline}")
    data = blob(1, 400_000, "ramp")
    for part in (b"", data, data):
        with open(m.mnt / "f", "ab") as f:
            f.write(part)
        m.remount()
        schunk = libblosc.open_frame(m.stored("f"))
        shuffle = schunk.cparams.filters.index(blosc2.Filter.SHUFFLE)
        assert schunk.cparams.filters_meta[shuffle] == 0
    heads = [schunk.get_chunk(n)[:32] for n in range(schunk.nchunks)]
    found = {
        (head[3], head[24 + slot]) for head in heads for slot in range(6) if head[16 + slot] == 1
    }
    assert found == {(schunk.typesize, 0)}
    reference.check(m.stored("f"), data * 2, 1)


def test_shuffle_and_bitshuffle_of_a_length_within_an_item(mount, reference):
    """Single bytes would take three filters for that, with which the library writes into the file
    that it has mapped, and ends."""
    m = mount("pipeline=shuffle:8+bitshuffle+zlib:3")
    data = blob(1, 100_001, "floats")
    (m.mnt / "f").write_bytes(data)
    m.unmount()
    schunk = libblosc.open_frame(m.stored("f"))
    assert libblosc.chunk_heads(schunk)[0][2] == {0, 1, 2}
    reference.check(m.stored("f"), data, 1)
    mapped = f"import blosc2; blosc2.open({str(m.stored('f'))!r}, mmap_mode='r')[5:9]"
    assert subprocess.run([sys.executable, "-c", mapped]).returncode == 0


def test_an_empty_slot_between_shuffle_and_bitshuffle(mount, reference):
    """The slots of another program's frame need not be full: what is between the two is no filter,
    and no reason for a second shuffle."""
    m, data = mount("commit=0"), blob(1, 200_001, "floats")
    F = blosc2.Filter
    schunk = blosc2.SChunk(
        chunksize=64 << 10,
        urlpath=str(m.stored("f")),
        contiguous=True,
        cparams={"typesize": 8, "filters": [F.SHUFFLE, F.NOFILTER, F.BITSHUFFLE]},
    )
    schunk.append_data(data[: 64 << 10])
    with (m.mnt / "f").open("ab") as f:
        f.write(data[64 << 10 :])
    m.unmount()
    schunk = libblosc.open_frame(m.stored("f"))
    heads = [schunk.get_chunk(i)[:32] for i in range(schunk.nchunks)]
    assert [[f for f in head[16:22] if f] for head in heads] == [[1, 2]] * 4
    reference.check(m.stored("f"), data, 1)


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
