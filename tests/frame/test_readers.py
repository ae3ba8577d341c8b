"""Many threads read one frame at once; one fills it while another changes it."""

import subprocess

import pytest

from libmount import BUILD, REPO

OWN = REPO / "tests/data/frames"


@pytest.mark.concurrent
@pytest.mark.parametrize(
    "name",
    [
        "core-zstd-shuffle-t4-mixed",
        "delta-t4",
        "dict-zstd",
        "edited",
        "block-100",
        "special-repeat",
        "special-nan",
    ],
)
def test_threads_see_one_frame(name):
    done = subprocess.run(
        [BUILD / "tests/c/frame_readers", OWN / f"{name}.b2frame", "4", "60"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.concurrent
def test_a_waiter_is_told_the_cause():
    done = subprocess.run([BUILD / "tests/c/cache_waiter"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.concurrent
def test_what_is_refused_is_not_counted():
    done = subprocess.run([BUILD / "tests/c/held_check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.concurrent
def test_filling_beside_changes(work):
    done = subprocess.run(
        [BUILD / "tests/c/frame_writer", work / "f.b2frame", "10"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("seed", range(5))
def test_numbers_of_chunks(seed):
    done = subprocess.run(
        [BUILD / "tests/c/numbers_check", str(seed)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_a_chunk_at_the_end_of_its_file():
    done = subprocess.run([BUILD / "tests/c/stored_check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
