"""A warm scratch asks nothing of the C library."""

import subprocess

import pytest

from libmount import BUILD


def test_no_allocation_and_no_lock():
    done = subprocess.run(
        [BUILD / "tests/c/codec_warm"], capture_output=True, text=True, timeout=600
    )
    if done.returncode == 77:
        pytest.skip(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
