"""Runs ordinary programs; shows their output if they fail, and says so if one is missing."""

import os
import subprocess

import pytest

from libmount import SLOWNESS


def run(*command, timeout=300, **kw):
    """Runs a program to its end, and returns its output. If it fails, so does the test."""
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


def attempt(*args, **kw):
    """The same, however it ends: what subprocess.run has of it."""
    kw = {"timeout": 60 * SLOWNESS, "stdin": subprocess.DEVNULL, "text": True, **kw}
    return subprocess.run([str(a) for a in args], capture_output=True, **kw)


def one_line_refusal(got, *words):
    """A daemon that did not start: it said why, and named these words."""
    assert got.returncode > 0, got
    lines = got.stderr.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("cframefs: "), got.stderr
    for word in words:
        assert word in lines[0], lines


def daemon_of(mnt):
    """The process that serves a mount point (its command line names it), without its guard."""
    found = attempt("pgrep", "-f", "--", str(mnt)).stdout.split()
    guards = attempt("pgrep", "-x", "cframefs-guard").stdout.split()
    return [int(pid) for pid in found if int(pid) != os.getpid() and pid not in guards]


def skip_or_fail(reason):
    """What a test needs is missing: a skip for people, a failure in CI."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"in CI this must be here: {reason}")
    pytest.skip(reason)
