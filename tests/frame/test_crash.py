"""Power cuts at the frame layer: disks that a cut may leave are built in memory
and opened (tests/c/frame_crash.c)."""

import re
import subprocess

import pytest

from libmount import BUILD, SLOWNESS


def crash(stories, states, seed, *args):
    done = subprocess.run(
        [BUILD / "tests/c/frame_crash", *map(str, (stories, states, seed)), *args],
        capture_output=True,
        text=True,
        timeout=300 * SLOWNESS,
    )
    found = re.search(r"(\d+) stories, (\d+) states, (\d+) recovered", done.stdout)
    return (
        done.returncode,
        done.stdout + done.stderr,
        found and int(found[2]),
        found and int(found[3]),
    )


@pytest.mark.parametrize("seed", range(4 if SLOWNESS == 1 else 2))
def test_every_disk_shows_a_state_that_was(seed):
    """Whatever power leaves of the calls since the last sync: what was synced
    is there, and nothing is torn."""
    code, said, states, recovered = crash(60, 20, 1000 * seed)
    assert code == 0, said
    assert states > 15000 and recovered > 1000, said


@pytest.mark.release
@pytest.mark.parametrize("every", [2, 3, 5, 9])
def test_a_skipped_sync_is_noticed(every):
    """The negative control: with every n-th sync left out, disks must show up
    that lost something."""
    code, said, _, _ = crash(300, 20, 1, "--skip-sync", str(every))
    assert code == 1, said
