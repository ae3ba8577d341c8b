"""Kernels of every level against C, and a short run of the fuzzer; both are C programs."""

import os
import subprocess

import pytest

from test_codec_tool import BUILD, DATA


def run(*args, **env):
    done = subprocess.run([str(a) for a in args], env={**os.environ, **env}, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("level", ["c", "sse2", "avx2", "avx512", "neon"])
def test_kernels_equal_those_in_c(level):
    """Levels that this machine lacks shrink to the ones it has."""
    assert "calls equal" in run(BUILD / "tests/c/kernels_check", str(os.getpid()), CPU_MASK=level)


def test_mutated_chunks_do_no_harm():
    seeds = sorted((DATA / "blosc1").glob("*.cdata"))
    assert "rounds" in run(BUILD / "tests/c/codec_fuzz", 3, os.getpid(), *seeds)
