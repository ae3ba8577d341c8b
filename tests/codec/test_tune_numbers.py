"""The tuner and numbers whose bytes have something in common: signs, decimals, rows."""

import numpy as np
import pytest

from libtyped import MIB, rng


@pytest.mark.parametrize(
    "dtype, most",
    [("<i2", 0.45), ("<i4", 0.24), ("<i8", 0.12)],
)
def test_a_sign_counts_once(tuner, dtype, most):
    """The upper bytes of small numbers repeat the sign, which their entropies do not show."""
    item = np.dtype(dtype).itemsize
    got = tuner.choose(rng().integers(-50, 50, MIB // item).astype(dtype).tobytes())
    assert got.filters == ["bitshuffle"] and got.typesize == item, got
    assert len(got.chunk) < most * MIB, got


@pytest.mark.parametrize("dtype, most", [("<i4", 0.13), ("<i8", 0.07)])
def test_a_sign_of_few_values(tuner, dtype, most):
    """By their entropies these are bytes, not items."""
    item = np.dtype(dtype).itemsize
    numbers = np.round(rng().normal(scale=1.5, size=MIB // item))
    got = tuner.choose(numbers.astype(dtype).tobytes())
    assert got.filters == ["bitshuffle"] and got.typesize == item, got
    assert len(got.chunk) < most * MIB, got


def test_decimals(tuner):
    """Their lower five bytes have as many values as there are digits behind the point."""
    degrees = np.round(rng().uniform(-90, 90, MIB // 8), 5)
    got = tuner.choose(degrees.astype("<f8").tobytes())
    assert not got.filters and len(got.chunk) < 0.8 * MIB, got


def test_decimals_on_a_track(tuner):
    """Neighbours differ by little, but as doubles not in their lower bytes."""
    for seed in range(4):
        steps = np.random.default_rng(seed).normal(scale=1e-5, size=(MIB // 16, 2))
        track = np.cumsum(steps, axis=0) + (47, 8)
        track[::1000] = np.nan
        got = tuner.choose(np.round(track, 6).astype("<f8").tobytes())
        assert not got.filters and len(got.chunk) < 0.36 * MIB, (seed, got)


@pytest.mark.parametrize(
    "steepness, digits, most", [(1.25, 1, 0.11), (1.5, 1, 0.08), (1.5, 0, 0.022)]
)
def test_a_field_that_is_rounded(tuner, steepness, digits, most):
    """Temperatures to a tenth of a degree: as floats, few of them differ, and they come again in
    the next row, which no short piece shows. To a degree most are in runs, which are no such
    copies, nor do they speak against them."""
    k = np.fft.fftfreq(720)[:, None] ** 2 + np.fft.rfftfreq(1440) ** 2
    k[0, 0] = 1
    waves = rng().normal(size=(2, *k.shape)) * k**-steepness
    field = np.fft.irfft2(waves[0] + 1j * waves[1], (720, 1440))
    field = np.round(280 + 15 * (field - field.mean()) / field.std(), digits).astype("<f4")
    got = tuner.choose(field.tobytes()[:MIB])
    assert not got.filters and len(got.chunk) < most * MIB, got


def test_floats_of_two_decimals(tuner):
    """Few of them differ, but more than short pieces show."""
    floats = np.round(rng().normal(size=MIB // 4), 2).astype("<f4")
    got = tuner.choose(floats.tobytes())
    assert not got.filters and len(got.chunk) < 0.54 * MIB, got


def test_metres_on_a_map(tuner):
    """Eastings, northings and heights to a millimetre: numbers up to ten million are decimals."""
    steps = rng().normal(scale=(1, 1, 0.1), size=(MIB // 24, 3))
    points = np.round((500_000, 5_200_000, 400) + np.cumsum(steps, axis=0), 3)
    got = tuner.choose(points.astype("<f8").tobytes())
    assert not got.filters and len(got.chunk) < 0.5 * MIB, got


def test_rows_that_come_again(tuner):
    """A picture of squares: a row is longer than what is looked at in one place."""
    squares = rng().integers(0, 256, (24, 64, 3)).astype("u1")
    image = squares.repeat(16, axis=0).repeat(16, axis=1)
    got = tuner.choose(image.tobytes())
    assert len(got.chunk) < image.nbytes / 60, got


def test_items_are_no_records_by_chance(tuner):
    """A multiple of the item may have more bytes in common than the item has."""
    found = 0
    for seed in range(24):
        numbers = np.random.default_rng(seed).integers(0, 256, MIB // 16) / 255
        found += tuner.choose(numbers.astype("<f4").tobytes()).period != 0
    assert found <= 2, found


@pytest.mark.parametrize("dtype", ["<i2", "<i4", "<i8"])
def test_small_numbers_that_come_again(tuner, dtype):
    """Bits have no copies from places that are not a multiple of eight items away."""
    numbers = np.round(rng().normal(scale=100, size=2501)).astype(dtype)
    tiles = np.resize(numbers, MIB // numbers.itemsize)
    got = tuner.choose(tiles.tobytes())
    assert len(got.chunk) < tiles.nbytes / 10, got


def test_records_with_runs(tuner):
    """Runs of equal bytes in a record make near bytes equal, too, which speaks for no item."""
    for seed in range(24):
        r = np.random.default_rng(seed)
        rows = np.zeros(8333, "<i4,<i2")
        rows["f0"] = np.where(r.random(rows.size) < 0.3, -1, r.integers(0, 20, rows.size))
        rows["f1"] = np.round(r.exponential(2, rows.size))
        got = tuner.choose(rows.tobytes())
        assert got.period and got.period % 6 == 0, (seed, got, got.period)
