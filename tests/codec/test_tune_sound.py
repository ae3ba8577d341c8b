"""The tuner: whatever it picks, and whatever it might have picked, is sound."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from libchunk import longest
from libcodec import Tool
from libtune import BALANCED, SIZE, SPEED
from libtyped import npy, records, text, walk_f8


@pytest.fixture(scope="module")
def codec():
    one = Tool()
    yield one
    one.proc.stdin.close()
    one.proc.wait(250)


def test_any_length(tuner, codec):
    for n in (1, 2, 31, 63, 64, 65, 100, 4095, 4351, 4352, 8193, 9000, 16385, 49153):
        for data in (npy(records()), walk_f8(), records().tobytes(), text()):
            assert codec.decode(tuner.choose(data[:n]).chunk) == data[:n]


def pieces(draw):
    """Bytes with some structure: what filters are for, at any length."""
    kind = draw(st.sampled_from(["random", "runs", "counter", "walk", "record", "mix"]))
    n, seed = draw(st.integers(0, 200_000)), draw(st.integers(0, 99))
    r = np.random.default_rng(seed)
    size = draw(st.sampled_from([1, 2, 3, 4, 7, 8, 12, 16, 24, 28, 100, 255]))
    if kind == "random":
        return r.bytes(n)
    if kind == "runs":
        return np.repeat(r.integers(0, 256, n // 50 + 1).astype("u1"), 50).tobytes()[:n]
    if kind == "counter":
        return np.arange(n // 4 + 1, dtype="<u4").tobytes()[:n]
    if kind == "walk":
        return np.cumsum(r.integers(-3, 4, n)).astype("<i2").tobytes()[:n]
    row = r.bytes(size)
    rows = np.tile(np.frombuffer(row, "u1"), n // size + 1)[:n].copy()
    rows[:: size if kind == "record" else 3] += r.integers(
        0, 9, len(rows[:: size if kind == "record" else 3])
    ).astype("u1")
    return rows.tobytes()


data_strategy = st.composite(pieces)()


def reference_reads(choice, n):
    """The reference fails on its own chunks of one block that cuts an item, and
    knows no typesize above its own."""
    return n >= 32 and n % choice.typesize == 0


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    data=data_strategy,
    aim=st.sampled_from([BALANCED, SIZE, SPEED]),
    base=st.sampled_from(["", "", "zstd:1", "lz4:5", "zlib:3", "blosclz:5"]),
)
def test_any_choice_is_sound(tuner, codec, blosc2, data, aim, base):
    first, again = tuner.choose(data, aim=aim, base=base), tuner.choose(data, aim=aim, base=base)
    assert (first.pipeline, first.split, first.blocksize, first.chunk) == (
        again.pipeline,
        again.split,
        again.blocksize,
        again.chunk,
    )
    if not data:
        return
    assert len(first.chunk) <= longest(len(data))
    assert codec.decode(first.chunk) == data
    if reference_reads(first, len(data)):
        assert blosc2.decompress2(first.chunk) == data


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    data=data_strategy,
    aim=st.sampled_from([BALANCED, SPEED]),
    item=st.sampled_from([0, 3, 8, 12, 28, 76, 255]),
)
def test_every_candidate_is_sound(tuner, codec, blosc2, data, aim, item):
    seen, i = [], 0
    while True:
        rc, got = tuner.ask("n", b"", data, aim=aim, candidate=i, item=item)
        if rc < 0:
            break
        i += 1
        seen.append((got.pipeline, got.split, got.blocksize))
        if data:
            assert codec.decode(got.chunk) == data, got
            if reference_reads(got, len(data)):
                assert blosc2.decompress2(got.chunk) == data, got
    assert 14 <= i <= 24 and len(set(seen[2:])) == len(seen[2:])


@pytest.mark.parametrize("base", ["zstd:1", "lz4:5", "lz4hc:5", "blosclz:5", "zlib:5"])
def test_candidates_differ(tuner, base):
    """Planes are only tried joined in one stream where a chunk would have one for each."""
    data, chunks = np.arange(1 << 14, dtype="<u8").tobytes(), []
    while (one := tuner.ask("n", b"", data, candidate=2 + len(chunks), base=base))[0] == 0:
        chunks.append(one[1].chunk)
    assert len(chunks) > 10 and len(set(chunks)) == len(chunks)
