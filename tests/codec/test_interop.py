"""What we write, the reference library reads; what it writes, we read, whole and block by block."""

import itertools

import blosc2
import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from libchunk import is_stored
from libcodec import Refused
from libinterop import (
    CODECS,
    KINDS,
    LEVELS,
    THEIR_FILTERS,
    check_ours,
    cparams,
    make,
    text_of,
    theirs,
    tools,
)
from libmount import SLOWNESS

FILTERS = ["", "shuffle", "bitshuffle", "delta", "delta+shuffle", "shuffle+bytedelta"]
TYPESIZES = [1, 2, 3, 4, 7, 8, 12, 16, 24, 255, 300]


@pytest.mark.parametrize("filters", FILTERS)
@pytest.mark.parametrize("codec", CODECS)
def test_reference_reads_ours(codec, filters):
    for level in range(1, 10) if SLOWNESS == 1 else (1, 3, 6, 9):
        for i, typesize in enumerate(TYPESIZES):
            word = 8 * typesize if "delta" in filters.split("+") else 1  # FORMAT.md 18, defect 4
            kind = KINDS[(level + i) % len(KINDS)]
            n = (1000 + 7001 * ((level * 5 + i) % 9)) // word * word or word
            check_ours(make(kind, n), text_of(filters, typesize, codec, level))


@pytest.mark.parametrize(
    "n", [1, 2, 7, 31, 32, 33, 63, 127, 128, 129, 4095, 65535, 65536, 65537, 200001]
)
@pytest.mark.parametrize("kind", KINDS)
def test_odd_lengths(kind, n):
    first, step = (0, 1) if SLOWNESS == 1 else (n % 3, 3)  # a third, of each length another
    for typesize in TYPESIZES[first::step]:
        for codec in ("blosclz", "zstd"):
            check_ours(make(kind, n), f"shuffle:{typesize}+{codec}:3")
            check_ours(make(kind, n), f"bitshuffle:{typesize}+{codec}:3", blocksize=typesize * 16)


@settings(max_examples=300, deadline=None)
@given(
    n=st.integers(1, 40000),
    kind=st.sampled_from(KINDS),
    typesize=st.integers(1, 260),
    filters=st.sampled_from(["", "shuffle", "bitshuffle", "shuffle+bytedelta"]),
    codec=st.sampled_from(list(CODECS)),
    level=st.integers(0, 9),
    split=st.sampled_from([0, 1, 2, 3, 4]),
    items=st.integers(0, 3000),
    kernels=st.sampled_from(LEVELS),
    use_dict=st.booleans(),
)
def test_any_pipeline(n, kind, typesize, filters, codec, level, split, items, kernels, use_dict):
    check_ours(
        make(kind, n),
        text_of(filters, typesize, codec, level),
        tools[kernels],
        split=split,
        blocksize=items * typesize,
        use_dict=use_dict and codec not in ("blosclz", "zlib"),
    )


@settings(max_examples=100, deadline=None)
@given(
    n=st.integers(1, 30000),
    typesize=st.integers(1, 33),
    items=st.integers(1, 2000),
    kernels=st.sampled_from(LEVELS),
    filters=st.lists(st.sampled_from(["shuffle", "bitshuffle", "bytedelta", "delta"]), max_size=6),
)
def test_deep_pipelines_and_odd_deltas_come_back(n, typesize, items, kernels, filters):
    """More than the reference can check: it loses delta tails and clobbers its
    input beyond two filters."""
    filters = [f for i, f in enumerate(filters) if f != "delta" or f not in filters[:i]]
    if "delta" in filters[3:-1]:  # is refused
        filters.remove("delta")
    text = text_of("+".join(filters), typesize, "lz4", 5)
    data = make("mixed", n)
    chunk = tools[kernels].encode(text, data, blocksize=items * typesize)
    assert tools[None].both(chunk) == data


@pytest.mark.parametrize("n", [4, 5, 6])
def test_deltas_among_many_filters(n):
    """The reference undoes delta wrongly behind three filters and before another; what we write it
    reads."""
    data = make("wave", 8192)
    for others in itertools.product(["shuffle:4", "bitshuffle:4", "bytedelta:4"], repeat=n - 1):
        for at in range(n):
            text = "+".join([*others[:at], "delta:4", *others[at:], "lz4:5"])
            if 3 <= at < n - 1:
                with pytest.raises(Refused):
                    tools[None].normal(text)
                continue
            chunk = tools[None].encode(text, data, item=4, blocksize=8192)
            assert chunk is None or blosc2.decompress(chunk) == data, text


@pytest.mark.parametrize("level", range(1, 10))
@pytest.mark.parametrize("codec", CODECS)
def test_every_level_compresses(codec, level):
    assert len(check_ours(make("text", 100000), f"{codec}:{level}")) < 75000
    assert len(check_ours(make("wave", 100000), f"shuffle:8+{codec}:{level}")) < 80000
    assert len(check_ours(b"abcdefghij" * 10000, f"{codec}:{level}")) < 1200


def test_noise_is_stored_and_its_dictionary_flag_is_clear():
    chunk = check_ours(make("noise", 100000), "zstd:3", use_dict=True)
    assert is_stored(chunk) and not chunk[31] & 1


@pytest.mark.parametrize("codec", ["zstd", "lz4", "lz4hc"])
def test_a_dictionary_is_used_where_it_helps(codec):
    data = b"".join(
        b'{"station": %d, "name": "buoy %x", "temperature": %d.5, "quality": "good"}\n'
        % (i % 97, i * i, i % 31)
        for i in range(3000)
    )
    kw = {"blocksize": 1024}
    plain = check_ours(data, f"{codec}:3", **kw)
    helped = check_ours(data, f"{codec}:3", use_dict=True, **kw)
    assert helped[31] & 1 and len(helped) < len(plain)


@pytest.mark.parametrize("codec", ["zstd", "lz4", "lz4hc"])
def test_blocks_shorter_than_a_sample_get_no_dictionary(codec):
    """There is nothing to make one of: with LZ4, nothing is copied from nowhere (a sanitizer)."""
    chunk = check_ours(b"abcdefghij" * 6000, f"{codec}:3", use_dict=True, blocksize=64)
    assert not chunk[31] & 1


@pytest.mark.parametrize("filters", THEIR_FILTERS)
@pytest.mark.parametrize("codec", CODECS)
def test_we_read_the_reference(codec, filters):
    for level in range(10):
        for i, typesize in enumerate(t for t in TYPESIZES if t < 256):
            word = 8 * typesize if "delta" in filters else 1
            n = (1000 + 7001 * ((level * 5 + i) % 9)) // word * word or word
            data = make(KINDS[(level + i) % len(KINDS)], n)
            chunk = theirs(data, **cparams(codec, level, typesize, filters))
            assert tools[LEVELS[i % 3]].both(chunk) == data


@settings(max_examples=200, deadline=None)
@given(
    n=st.integers(1, 60000),
    kind=st.sampled_from(KINDS),
    typesize=st.integers(1, 255),
    items=st.integers(1, 4000),
    filters=st.sampled_from(["", "shuffle", "bitshuffle"]),
    codec=st.sampled_from(list(CODECS)),
    level=st.integers(1, 9),
    split=st.sampled_from(list(blosc2.SplitMode)),
    kernels=st.sampled_from(LEVELS),
)
def test_we_read_any_block_size_of_the_reference(
    n, kind, typesize, items, filters, codec, level, split, kernels
):
    """Also those that it cannot read itself: a block size that is no multiple
    of the typesize (FORMAT.md 2.5)."""
    data = make(kind, n)
    blocksize = max(items * typesize, 32)
    if split == blosc2.SplitMode.ALWAYS_SPLIT and min(blocksize, n) < typesize:
        reject()  # defect 18
    try:
        like = cparams(codec, level, typesize, filters)
        chunk = theirs(data, **like, blocksize=blocksize, splitmode=split)
    except RuntimeError:
        reject()  # the reference refuses a few combinations
    assert tools[kernels].both(chunk) == data


@pytest.mark.parametrize("codec", [blosc2.Codec.ZSTD, blosc2.Codec.LZ4, blosc2.Codec.LZ4HC])
def test_we_read_dictionaries_of_the_reference(codec):
    data = make("text", 300000)
    chunk = theirs(data, codec=codec, clevel=5, typesize=4, use_dict=True, blocksize=2048)
    assert chunk[31] & 1
    assert tools[None].both(chunk) == data


def test_bytedelta_of_the_reference_takes_its_width_from_the_super_chunk():
    data = make("wave", 80000)
    for meta in (0, 8):
        schunk = blosc2.SChunk(
            chunksize=80000,
            data=data,
            cparams={
                "typesize": 8,
                "filters": [blosc2.Filter.SHUFFLE, blosc2.Filter.BYTEDELTA],
                "filters_meta": [0, meta],
                "nthreads": 1,
            },
        )
        chunk = schunk.get_chunk(0) if hasattr(schunk, "get_chunk") else pytest.skip("no get_chunk")
        assert tools[None].both(chunk, item=8) == data


@pytest.mark.parametrize(
    "typesize, filters, metas",
    [
        (4, [blosc2.Filter.TRUNC_PREC, blosc2.Filter.SHUFFLE], [10, 0]),
        (8, [blosc2.Filter.TRUNC_PREC, blosc2.Filter.BITSHUFFLE], [-20, 0]),
    ],
)
def test_truncated_floats_equal_those_of_the_reference(typesize, filters, metas):
    data = make("wave", 80000)
    chunk = theirs(
        data,
        codec=blosc2.Codec.ZSTD,
        clevel=1,
        typesize=typesize,
        filters=filters,
        filters_meta=metas,
    )
    second = "shuffle" if filters[1] == blosc2.Filter.SHUFFLE else "bitshuffle"
    ours = tools[None].encode(f"truncprec:{metas[0]}+{second}:{typesize}+zstd:1", data)
    assert tools[None].both(chunk) == tools[None].both(ours) == blosc2.decompress2(ours)
    assert tools[None].both(ours) != data


@pytest.mark.parametrize("typesize", [1, 2, 4, 8])
@pytest.mark.parametrize("bits", [-3, 5])
def test_truncated_integers_equal_those_of_the_reference(typesize, bits):
    """Keep so many bits, or, negative, lose so many."""
    items = (
        np.arange(40000, dtype=np.uint64).astype(f"<u{typesize}") % 251
    )  # which shrink: noise would be stored as it is
    items |= items.dtype.type(1) << items.dtype.type(8 * typesize - 1)
    lost = items.dtype.type(-bits if bits < 0 else 8 * typesize - bits)
    data, want = items.tobytes(), (items >> lost << lost).tobytes()
    assert want != data
    ours = tools[None].encode(f"inttrunc:{bits}+none:{typesize}+zstd:1", data)
    assert tools[None].both(ours) == blosc2.decompress2(ours) == want
    chunk = theirs(
        data,
        codec=blosc2.Codec.ZSTD,
        clevel=1,
        typesize=typesize,
        filters=[blosc2.Filter.INT_TRUNC],
        filters_meta=[bits],
    )
    assert tools[None].both(chunk) == want


def test_all_chunks_of_a_super_chunk_decode():
    """Short last chunks of any length, as a context that is used again writes
    them (FORMAT.md 2.5)."""
    for tail in (1, 3, 8, 17, 31, 32, 33, 1001, 39999):
        data = make("ramp", 80000 + tail)
        schunk = blosc2.SChunk(chunksize=40000, cparams={"typesize": 8, "nthreads": 1})
        for at in range(0, len(data), 40000):
            schunk.append_data(data[at : at + 40000])
        got = b"".join(tools[None].both(schunk.get_chunk(i)) for i in range(schunk.nchunks))
        assert got == data
