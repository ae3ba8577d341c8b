"""Our own frames of Zstandard, read by the library and by the reference."""

import os
import struct

import blosc2
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from libinterop import KINDS, check_ours, make
from libmount import BUILD
from libprogram import run

SECONDS = int(os.environ.get("CODEC_CHECK_SECONDS") or 4)


def test_frames_come_back():
    assert "frames read back" in run(
        BUILD / "tests/c/zstd_check", SECONDS, os.getpid(), timeout=SECONDS + 600
    )


def test_frames_are_read_as_the_library_reads_them():
    said = run(BUILD / "tests/c/unzstd_check", SECONDS, os.getpid(), timeout=SECONDS + 900)
    assert "changed ones taken" in said or said == "no reader\n"


PART = st.one_of(
    st.tuples(st.sampled_from(KINDS), st.integers(1, 40000), st.integers(0, 9)).map(
        lambda a: make(*a)
    ),
    st.tuples(st.binary(min_size=1, max_size=40), st.integers(1, 3000)).map(lambda a: a[0] * a[1]),
)


@settings(max_examples=100, deadline=None)
@given(
    parts=st.lists(PART, min_size=1, max_size=5),
    typesize=st.sampled_from([1, 2, 3, 4, 8, 16]),
    blocksize=st.sampled_from([0, 1024, 5000, 1 << 16, 1 << 18]),
)
def test_the_reference_reads_mixed_streams(parts, typesize, blocksize):
    blocksize -= blocksize % typesize
    for filters in ("none", "shuffle", "bitshuffle"):
        for level in (1, 2):
            check_ours(b"".join(parts), f"{filters}:{typesize}+zstd:{level}", blocksize=blocksize)


def test_no_larger_than_those_of_the_reference():
    for filters, typesize, kind, level in (
        ([], 1, "text", 1),
        ([], 1, "mixed", 1),
        ([blosc2.Filter.SHUFFLE], 8, "wave", 1),
        ([], 1, "text", 2),
        ([], 1, "mixed", 2),
    ):
        data = make(kind, 1 << 20)
        theirs = blosc2.compress2(
            data,
            typesize=typesize,
            codec=blosc2.Codec.ZSTD,
            clevel=level,
            filters=filters,
            filters_meta=[0] * len(filters),
            nthreads=1,
            blocksize=1 << 16,
        )
        name = "shuffle" if filters else "none"
        block = struct.unpack_from("<I", theirs, 8)[0]
        ours = check_ours(data, f"{name}:{typesize}+zstd:{level}", blocksize=block)
        assert len(ours) <= len(theirs) * 1.02


def numbers(lines):
    """A table of numbers as text: three digits foresee the rest of a line, no more."""
    r = np.random.default_rng(3)
    keys = r.integers(0, 1000, lines)
    columns = zip(r.integers(0, 120_000, lines), keys, keys * 7919 % 1000, strict=True)
    return "".join("%06d%03d%03d\t" % row for row in columns).encode()


def test_level_2_leaves_matches_by_chance_alone():
    data = numbers(60_000)
    for block in (64 << 10, 96 << 10):
        one, two = (len(check_ours(data, f"zstd:{n}", blocksize=block)) for n in (1, 2))
        assert two <= one * 1.03
