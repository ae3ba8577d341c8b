"""What a file has that was written on a disk without room for it: bytes of its writer, old or new,
and no zeros in between. With O_DIRECT, since the kernel sends pages in any order."""

import os
import random

import pytest

from libdata import blob
from test_full_disk import fill, outcome, put, small  # noqa: F401

PAGE = 4096
SEED = int(os.environ.get("CFRAMEFS_SEED") or 1)
SIZES = ["", "chunksize=64K,blocksize=16K"]
NAMES = ["default", "small"]


def holes(got):
    """Pages of zeros: nobody has written any."""
    return [at for at in range(0, len(got), PAGE) if not any(got[at : at + PAGE])]


def start(how, old):
    """The flags of an open, where the new bytes go, and what was there."""
    if how == "truncated":
        return os.O_TRUNC, 0
    return 0, len(old) if how == "appended" else 0


def strange(how, old, new, got):
    """What is wrong with these bytes, if anything is."""
    if holes(got):
        return f"zeros at {holes(got)[:9]} of {len(got)}"
    if how == "truncated":
        return "" if got == old or got == new[: len(got)] else "neither old nor part of new"
    if how == "appended":
        return "" if got == (old + new)[: len(got)] and len(got) >= len(old) else "not a beginning"
    sound = all(
        got[at : at + PAGE] in (old[at : at + PAGE], new[at : at + PAGE])
        for at in range(0, len(got), PAGE)
    )
    return "" if sound and len(got) >= len(old) else f"pages of neither, {len(got)}"


@pytest.mark.parametrize("small", SIZES, ids=NAMES, indirect=True)
@pytest.mark.parametrize("end", ["fsync", "close"])
@pytest.mark.parametrize("how", ["truncated", "in place", "appended"])
def test_no_zeros_where_nothing_was_written(small, how, end):  # noqa: F811
    m, rng = small, random.Random(f"{SEED} {how} {end}")
    bad = []
    for turn in range(5):
        old = blob(10 * turn, rng.choice([700_000, 2 << 20, 3_333_333]), "noise")
        new = blob(10 * turn + 1, rng.choice([3 << 20, 5 << 20, 7_654_321]), "noise")
        (m.mnt / "f").write_bytes(old)
        os.sync()
        fill(m, rng.choice([0, 300_000, 1 << 20, 2 << 20]))
        flags, at = start(how, old)
        fd = os.open(m.mnt / "f", os.O_RDWR | os.O_DIRECT | flags)
        errors = [outcome(put, fd, new, at)]
        if end == "fsync":
            errors.append(outcome(os.fsync, fd))
        errors.append(outcome(os.close, fd))
        if turn % 2:
            (m.backing / "filler").unlink()
        m.remount()
        got = (m.mnt / "f").read_bytes()
        wrong = strange(how, old, new, got)
        if any(errors):
            bad += [(turn, wrong, errors, len(old), len(new), len(got))] if wrong else []
        (m.mnt / "f").unlink()
        (m.backing / "filler").unlink(True)
        os.sync()
    assert not bad
