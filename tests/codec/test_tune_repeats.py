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
}


@pytest.mark.parametrize("kind", REPEATS)
def test_repeats_are_one_block(tuner, kind):
    make, most = REPEATS[kind]
    data = make()
    got = tuner.choose(data)
    assert got.blocksize > len(data) - 256, got
    assert len(got.chunk) < most * len(data), got


OTHERS = {
    "noise": noise,
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
