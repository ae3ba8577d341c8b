"""Blocks of one chunk over the worker pool."""

import os

import pytest

from libmount import BUILD
from libprogram import run


@pytest.mark.concurrent
def test_the_bytes_of_one_thread():
    slowness = int(os.environ.get("CFRAMEFS_TEST_SLOWNESS", 1))
    out = run(BUILD / "tests/c/codec_parallel", max(100 // slowness, 10), os.getpid())
    assert "rounds of" in out


@pytest.mark.concurrent
def test_the_pool_of_workers():
    run(BUILD / "tests/c/pool_check")
