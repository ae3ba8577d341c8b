"""The tuner: what comes again farther away than a usual block reaches."""

import numpy as np
import pytest

from libtune import SPEED
from libtyped import MIB, noise, rng, text

BLOCK = 64 << 10


def again(distance):
    """Noise that repeats itself at that distance."""
    part = rng().bytes(distance)
    return (part * (MIB // distance + 1))[: MIB - 77]


def steps():
    """Of a simulation: the mesh stays, the field changes."""
    mesh, r = rng().normal(size=30_000).astype("f4").tobytes(), rng()
    fields = (np.cumsum(r.normal(size=10_000)).astype("f4").tobytes() for _ in range(8))
    return b"".join(mesh + field for field in fields)[:MIB]


def tiles():
    return np.tile(rng().normal(size=25_000), 6)[: MIB // 8].tobytes()


def wide_letters():
    """A list of words, two bytes a letter: without copies at hand a filter would do worse."""
    r = rng()
    words = (bytes(r.integers(97, 123, r.integers(2, 10)).astype("u1")) for _ in range(4000))
    return (b"  ".join(words).decode().encode("utf-16le") * 20)[:MIB]


def archive():
    """A letter, and copies of it with other endings."""
    letter = text()[:150_000]
    return b"".join(letter + rng().bytes(900) for _ in range(7))[:MIB]


REPEATS = {
    "noise of 40,000 bytes": (lambda: again(40_000), 0.05),
    "noise of 70,000 bytes": (lambda: again(70_000), 0.08),
    "noise of 300,001 bytes": (lambda: again(300_001), 0.31),
    "noise of 700,000 bytes": (lambda: again(700_000), 0.71),
    "steps": (steps, 0.4),
    "tiles": (tiles, 0.25),
    "copies in an archive": (archive, 0.1),
    "wide letters": (wide_letters, 0.018),
}


@pytest.mark.parametrize("kind", REPEATS)
def test_repeats_are_one_block(tuner, kind):
    make, most = REPEATS[kind]
    data = make()
    got = tuner.choose(data)
    assert got.blocksize > len(data) - 256, got
    assert len(got.chunk) < most * len(data), got


def again_at_the_end(array, share):
    """So much of its front once more, in place of its end."""
    array = array.copy()
    n = int(len(array) * share)
    array[-n:] = array[:n]
    return array.tobytes()


def ints():
    return np.cumsum(rng().integers(-100, 100, MIB // 4)).astype("<i4")


def floats():
    return np.cumsum(rng().normal(size=MIB // 4)).astype("<f4")


NUMBERS = {
    "ints": (lambda: again_at_the_end(ints(), 0.35), 0.19),
    "floats": (lambda: again_at_the_end(floats(), 0.45), 0.37),
    "steps": (steps, 0.28),
}


@pytest.mark.parametrize("kind", NUMBERS)
def test_numbers_keep_their_filter(tuner, kind):
    """Whole chunks are compared by what they take: by their copies alone they take much more."""
    make, most = NUMBERS[kind]
    data = make()
    got = tuner.choose(data)
    assert got.filters[0] == "shuffle" and got.blocksize > len(data) - 256, got
    assert len(got.chunk) < most * len(data), got
    assert 0.9 < got.permille * len(data) / 1000 / len(got.chunk) <= 1.01, got


def between_noise(n):
    """Numbers, and in front of them and behind them the same noise."""
    part = rng().bytes(n)
    return part + ints().tobytes()[: MIB - 2 * n] + part


OTHERS = {
    "noise": noise,
    "less than a fourth": lambda: between_noise(150_000),
    "near repeats": lambda: again(3_000),
    "once, too far away": lambda: noise()[: MIB - 100_000] + noise()[:100_000],
    "text": text,
}


@pytest.mark.parametrize("kind", OTHERS)
def test_others_have_small_blocks(tuner, kind):
    """Which are read sooner, one by one."""
    assert tuner.choose(OTHERS[kind]()).blocksize <= 2 * BLOCK


def test_not_where_blocks_are_given(tuner):
    """Or who reads must not wait, or the codec does not reach as far."""
    data = again(100_000)
    assert tuner.choose(data, aim=SPEED).blocksize <= BLOCK
    assert tuner.choose(data, base="zstd:1").blocksize <= BLOCK


def test_places_of_one_value(tuner):
    """All places are candidates there, and nothing is read behind the end of the sample."""
    for n in (131_073, 200_000, MIB):
        got = tuner.choose(bytes(n))
        assert len(got.chunk) < 100 + n // 100, got
