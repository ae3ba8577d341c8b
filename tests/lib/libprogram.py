"""Running ordinary programs, and saying what they said when they fail, or that one is missing."""

import os
import subprocess

import pytest

from libmount import SLOWNESS


def run(*command, timeout=300, **kw):
    """Runs a program to its end; its output when it succeeds, a failed test when not."""
    got = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        timeout=timeout * SLOWNESS,
        stdin=subprocess.DEVNULL,
        **kw,
    )
    assert got.returncode == 0, (
        f"{command[0]} ended with {got.returncode}:\n{got.stdout[-3000:]}\n{got.stderr[-3000:]}"
    )
    return got.stdout


def skip_or_fail(reason):
    """What a test needs is missing: a skip for people, a failure in CI."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"in CI this must be here: {reason}")
    pytest.skip(reason)
