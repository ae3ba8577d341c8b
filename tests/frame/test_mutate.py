"""Random changes to a frame, by its C interface; after each commit the
reference library reads the same bytes."""

import errno
import os
import random
import shutil

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from libdata import blob

blosc2 = pytest.importorskip("blosc2")
import libblosc
from libframe import OWN, Tool, check_ours, check_reference, write

PIPELINES = [
    "zstd:1",
    "shuffle:4+zstd:1",
    "shuffle:8+lz4",
    "bitshuffle:2+zstd:3",
    "blosclz",
    "shuffle:3+zlib:6",
    "store",
    "delta:4+shuffle:4+lz4hc:5",
    "shuffle:4+bytedelta+zstd:1",
]
SETTINGS = settings(
    max_examples=int(os.environ.get("CFRAMEFS_EXAMPLES") or 40),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


KINDS = st.sampled_from(["zeros", "ramp", "text", "noise", "runs", "floats"])
SIZES = st.one_of(st.integers(0, 30), st.integers(0, 40000))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), SIZES, st.integers(1, 12000), KINDS),
        st.tuples(st.just("write"), SIZES, st.integers(1, 12000), KINDS),
        st.tuples(st.just("resize"), SIZES),
        st.tuples(st.just("resize"), st.just(0)),
        st.tuples(st.just("zero"), st.integers(0, 9)),
        st.tuples(st.just("pipeline"), st.sampled_from(PIPELINES)),
        st.tuples(st.just("commit"), st.sampled_from(["later", "sync"])),
        st.tuples(st.just("reopen")),
    ),
    min_size=1,
    max_size=12,
)


def run_step(tool, step, model, path, chunk, seed):
    """One step on both sides. True: the file shows the model now."""
    kind = step[0]
    if kind == "write":
        data = blob(seed, step[2], step[3])
        tool.do(f"write {step[1]} {data.hex()}")
        write(model, step[1], data)
    elif kind == "resize":
        tool.do(f"resize {step[1]}")
        del model[step[1] :]
        model.extend(bytes(step[1] - len(model)))
    elif kind == "zero":
        lo, hi = step[1] * chunk, min(len(model), (step[1] + 1) * chunk)
        if lo < hi:
            tool.do(f"zero {step[1]}")
            model[lo:hi] = bytes(hi - lo)
    elif kind == "pipeline":
        tool.do(f"pipeline {step[1]}")
    elif kind == "commit":
        tool.do(f"commit {step[1]}")
        return True
    else:
        tool.do("commit later")
        tool.do(f"open {path}")
        return True
    return False


@SETTINGS
@given(
    steps=STEPS,
    chunk=st.sampled_from([1, 4096, 5000, 8192, 16384, 65536]),
    pipeline=st.sampled_from(PIPELINES),
    seed=st.integers(0, 1 << 20),
)
def test_random_changes(work, steps, chunk, pipeline, seed):
    if chunk == 1:  # as many chunks as bytes: keep it small
        steps = [tuple(min(v, 300) if isinstance(v, int) else v for v in s) for s in steps]
    path = work / "f.b2frame"
    path.unlink(missing_ok=True)
    model, shown = bytearray(), bytearray()
    with Tool() as tool:
        tool.do(f"pipeline {pipeline}")
        tool.do(f"create {path} {chunk}")
        check_reference(path, b"")
        for i, step in enumerate(steps):
            if run_step(tool, step, model, path, chunk, seed + i):
                shown = bytearray(model)
            check_ours(tool, model)
            check_reference(path, shown, seed)
        tool.do("commit sync")
        check_reference(path, model, seed)
        tool.do(f"open {path}")
        check_ours(tool, model)


@SETTINGS
@given(data=st.data(), seed=st.integers(0, 1 << 20))
def test_index_of_many_pages(work, data, seed):
    """Thousands of chunks of a few bytes: pages of the index that are one
    value, become many, and fold again."""
    path, chunk = work / "f.b2frame", 8
    path.unlink(missing_ok=True)
    model, places = (
        bytearray(),
        st.one_of(st.integers(0, 100), st.integers(32700, 32800), st.integers(0, 110000)),
    )
    with Tool() as tool:
        tool.do("pipeline store")
        tool.do(f"create {path} {chunk}")
        for i in range(data.draw(st.integers(1, 12))):
            kind = data.draw(
                st.sampled_from(["resize", "write", "write", "zero", "commit", "reopen"])
            )
            at = data.draw(places)
            step = (
                (kind, at // chunk if kind == "zero" else at, 20, "noise")
                if kind != "commit"
                else (kind, "later")
            )
            run_step(tool, step, model, path, chunk, seed + i)
        tool.do("commit later")
        check_ours(tool, model)
        tool.do(f"open {path}")
        check_ours(tool, model)
        assert libblosc.chunk_bytes(libblosc.open_frame(path)) == model


def reference_changes(path, rng, chunk):
    """A few changes by the reference. Returns what it now says the frame holds. Behind a short
    last chunk it would give up the fixed chunk size, which it cannot do where holes are (FORMAT.md
    18, 11).
    """
    schunk = libblosc.open_frame(path, "a")
    for _ in range(rng.randrange(1, 5)):
        n = schunk.nchunks
        data = rng.randbytes(chunk // 2) + bytes(chunk - chunk // 2)
        op = rng.choice(["append", "update", "insert", "delete", "clear"])
        if op == "append" and schunk.nbytes % chunk == 0:
            schunk.append_data(data)
        elif op == "update" and n > 1:
            schunk.update_data(rng.randrange(n - 1), data, copy=True)
        elif op == "insert" and n and schunk.nbytes % chunk == 0:
            schunk.insert_data(rng.randrange(n), data, copy=True)
        elif op == "delete" and n > 1:
            schunk.delete_chunk(rng.randrange(n - 1))
        elif op == "clear" and rng.random() < 0.5:
            while schunk.nchunks:
                schunk.delete_chunk(schunk.nchunks - 1)
    return libblosc.chunk_bytes(libblosc.open_frame(path))


@SETTINGS
@given(seed=st.integers(0, 1 << 30), chunk=st.sampled_from([4096, 8192]), rounds=st.integers(1, 3))
def test_both_change_it_in_turn(work, seed, chunk, rounds):
    """Python appends, updates, inserts and deletes in a frame of ours, at times all of it; then it
    is our turn again, and what we write may be cut off before a commit."""
    rng = random.Random(seed)
    path = work / "f.b2frame"
    path.unlink(missing_ok=True)
    model = bytearray()
    with Tool() as tool:
        tool.do("pipeline shuffle:4+zstd:1")
        tool.do(f"create {path} {chunk}")
        for _ in range(rounds):
            for _ in range(rng.randrange(1, 4)):
                at, n = rng.randrange(6 * chunk), rng.randrange(1, 2 * chunk)
                at -= at % 4
                data = blob(rng.randrange(99), n - n % 4 + 4, "ramp")
                tool.do(f"write {at} {data.hex()}")
                write(model, at, data)
            if rng.random() < 0.3:
                tool.do("resize 0")
                model.clear()
            tool.do("commit sync")
            check_reference(path, model, seed)
            model = bytearray(reference_changes(path, rng, chunk))
            tool.do(f"open {path}")
            check_ours(tool, model)


def metalayers(path):
    """Their bytes in the header; names and contents of those in the trailer, but for our own."""
    raw = path.read_bytes()
    header_len, frame_len = int.from_bytes(raw[11:15], "big"), int.from_bytes(raw[16:24], "big")
    trailer_len = int.from_bytes(raw[frame_len - 22 : frame_len - 18], "big")
    trailer, at, layers = raw[frame_len - trailer_len : frame_len], 9, []
    for _ in range(int.from_bytes(trailer[7:9], "big")):
        n = trailer[at] & 31
        off = int.from_bytes(trailer[at + n + 2 : at + n + 6], "big")
        size = int.from_bytes(trailer[off + 1 : off + 5], "big")
        if trailer[at + 1 : at + 1 + n] != b"cframefs":
            layers.append((trailer[at + 1 : at + 1 + n], trailer[off + 5 : off + 5 + size]))
        at += n + 6
    return raw[87:header_len], layers


FOREIGN = [
    "core-zstd-shuffle-t4-mixed",
    "core-lz4-bitshuffle-t4-mixed",
    "edited",
    "meta",
    "special-nan",
    "special-zero",
    "special-repeat",
    "tiny-7-t8",
    "bytedelta-t4",
    "tiny-1byte",
    "empty",
    "dict-zstd",
    "oddtail-7-shuffle",
    "tsize-300",
    "const-zstd",
]


@pytest.mark.parametrize("name", FOREIGN)
@pytest.mark.parametrize("empty_first", [False, True])
def test_foreign_frame_is_changed(work, name, empty_first):
    """Frames of the reference: cut to nothing, where their chunks lie where the
    trailer must go, and written again."""
    path = work / "f.b2frame"
    shutil.copyfile(OWN / f"{name}.b2frame", path)
    before = libblosc.open_frame(path)
    model = bytearray(libblosc.chunk_bytes(before))
    metas = metalayers(path)
    item = before.typesize
    del before
    with Tool() as tool:
        tool.do(f"open {path}")
        check_ours(tool, model)
        if empty_first:
            tool.do("resize 0")
            model.clear()
            tool.do("commit later")
            check_reference(path, model)
        for at, kind in ((0, "text"), (len(model) // item * item, "noise"), (3 * item, "ramp")):
            data = blob(1, 40 * item, kind)
            tool.do(f"write {at} {data.hex()}")
            write(model, at, data)
            tool.do("commit sync")
            check_ours(tool, model)
            got = libblosc.open_frame(path)
            assert libblosc.chunk_bytes(got) == model
            assert metalayers(path) == metas
        tool.do("resize 0")
        tool.do("commit sync")
        check_reference(path, b"")


def test_type_size_hides_no_tail(work):
    """The header's item size is that of the data only while it divides it."""
    path = work / "f.b2frame"
    data = blob(3, 40000, "ramp")
    with Tool() as tool:
        tool.do("pipeline shuffle:4+zstd:1")
        tool.do(f"create {path} 16384")
        for n, item in ((40000, 4), (39999, 1), (39996, 4), (0, 4), (4, 4), (3, 1)):
            tool.do(f"resize {n}")
            if n:
                tool.do(f"write 0 {data[:n].hex()}")
            tool.do("commit later")
            tool.do(f"open {path}")
            schunk = libblosc.open_frame(path)
            assert schunk.typesize == (item if n else schunk.typesize)
            check_reference(path, data[:n])


@pytest.mark.parametrize("size", [19, 20, 21, 27, 32, 38, 70])
def test_the_last_chunk_is_of_nan(work, size):
    """It stands for as many of them as its place has: not for zeros that are added, nor for a part
    of one."""
    path = work / "f.b2frame"
    schunk = blosc2.SChunk(
        chunksize=16, urlpath=str(path), mode="w", contiguous=True, cparams={"typesize": 4}
    )
    schunk.fill_special(7, blosc2.SpecialValue.NAN)
    model = bytearray(libblosc.chunk_bytes(schunk))
    del schunk
    with Tool() as tool:
        tool.do("pipeline store")
        tool.do(f"open {path}")
        tool.do(f"resize {size}")
        model = model[:size] + bytes(max(0, size - len(model)))
        check_ours(tool, model)
        tool.do("commit sync")
        tool.do(f"open {path}")
        check_ours(tool, model)


def test_holes_cost_nothing(work):
    """A terabyte of nothing: the index is one value, or compresses to little."""
    path = work / "f.b2frame"
    with Tool() as tool:
        tool.do(f"create {path} {1 << 20}")
        tool.do(f"resize {1 << 40}")
        tool.do("commit sync")
        assert path.stat().st_size < 600
        assert libblosc.open_frame(path).nbytes == 1 << 40
        tool.do(f"write {(1 << 39) + 5} 010203")
        tool.do("commit sync")
        tool.do(f"open {path}")
        assert tool.do(f"read {(1 << 39) + 3} 6") == "000001020300"
        assert path.stat().st_size < 28000
        assert libblosc.open_frame(path).decompress_chunk(1 << 19)[:9] == b"\0\0\0\0\0\1\2\3\0"
        assert tool.ask(f"resize {(1 << 44) + 1}").startswith(f"error {errno.EFBIG}:")


def test_truncation_gives_space_back(work):
    path = work / "f.b2frame"
    with Tool() as tool:
        tool.do("pipeline store")
        tool.do(f"create {path} 65536")
        for how in ("sync", "later"):
            for _ in range(5):
                tool.do("fill 0 1000000 7 12345")
                tool.do(f"commit {how}")
                tool.do("resize 0")
                tool.do(f"commit {how}")
            tool.do("fill 0 1000000 7 12345")
            tool.do("commit later")
            assert path.stat().st_size < 1_100_000
            tool.do("resize 0")
            tool.do("commit sync")
            assert path.stat().st_size == 132


@pytest.mark.parametrize("every", range(1, 16))
def test_failing_calls(work, every):
    """Every n-th write or sync fails. The file shows the last good commit, and
    a later one works."""
    path = work / "f.b2frame"
    rng = random.Random(every)
    model, shown = bytearray(), b""
    with Tool() as tool:
        tool.do("pipeline shuffle:4+zstd:1")
        tool.do(f"create {path} 8192")
        tool.do(f"fail {every}")
        for i in range(30):
            at, data = rng.randrange(40000), blob(i, rng.randrange(1, 9000), "text")
            tool.do("fail 0")  # a change that fails half way has no simple model
            tool.do(f"write {at} {data.hex()}")
            write(model, at, data)
            tool.do(f"fail {every}")
            for _ in range(i % 3):
                tool.ask("read 0 1")
            states = {bytes(shown), bytes(model)}
            answer = tool.ask("commit sync")
            if not answer.startswith("error"):
                states = {bytes(model)}
            got = libblosc.chunk_bytes(libblosc.open_frame(path))
            assert got in states, answer
            shown = got
            check_ours(tool, model)
        tool.do("fail 0")
        tool.do("commit sync")
        check_reference(path, model)


def story(tool, rng, model, item):
    """One change, drawn."""
    kind = rng.choice(["write", "write", "resize", "empty"])
    if kind == "write":
        at, data = (
            rng.randrange(60000) // item * item,
            blob(rng.randrange(99), rng.randrange(1, 500) * item, "noise"),
        )
        tool.do(f"write {at} {data.hex()}")
        write(model, at, data)
    else:
        size = rng.randrange(60000) // item * item if kind == "resize" else 0
        tool.do(f"resize {size}")
        del model[size:]
        model.extend(bytes(size - len(model)))


@pytest.mark.parametrize(
    "name", [None, "core-zstd-shuffle-t4-mixed", "edited", "special-zero", "meta", "tiny-100"]
)
def test_power_loss(work, name):
    """Power goes after the n-th write of a commit, and of what was not synced some is lost. What
    was synced before is there, or what was being committed: nothing else, and nothing torn."""
    path = work / "f.b2frame"
    for seed in range(40):
        rng = random.Random(f"{seed} {name}")
        path.unlink(missing_ok=True)
        with Tool() as tool:
            if name:
                shutil.copyfile(OWN / f"{name}.b2frame", path)
                tool.do(f"open {path}")
            else:
                tool.do("pipeline shuffle:4+zstd:1")
                tool.do(f"create {path} 8192")
                tool.do("commit sync")
            schunk = libblosc.open_frame(path)
            model, item = bytearray(libblosc.chunk_bytes(schunk)), schunk.typesize
            for _ in range(rng.randrange(4)):
                story(tool, rng, model, item)
                tool.do("commit sync")
            synced = bytes(model)
            for _ in range(rng.randrange(1, 3)):
                story(tool, rng, model, item)
            tool.do(f"die {rng.choice([0, 1, 2, 2, 2, 3, 3, 4, 5, 7, 9])}")
            answer = tool.ask("commit sync")
            tool.do(f"crash {seed}")
            states = [bytes(model)] if answer == "ok" else [synced, bytes(model)]
            assert libblosc.chunk_bytes(libblosc.open_frame(path)) in states, (seed, answer)
            tool.do(f"open {path}")
            assert tool.bytes(int(tool.do("sum").split()[0])) in states
