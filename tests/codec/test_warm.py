"""A warm scratch asks nothing of the C library, and keeps nothing that is large."""

import random
import re
import subprocess
from pathlib import Path

import pytest

from libcodec import Tool
from libmount import BUILD


def run_warm(*args):
    done = subprocess.run(
        [BUILD / "tests/c/codec_warm", *args], capture_output=True, text=True, timeout=600
    )
    if done.returncode == 77:
        pytest.skip(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_allocation_and_no_lock():
    run_warm()


def test_a_giant_block_is_given_back_where_memory_runs_out():
    run_warm("poor")


def kept_kib(use_dict):
    """What the process has in memory after a large chunk and then a small one."""
    tool = Tool()
    noise = random.Random(1).randbytes(96 << 20)
    large = b"".join(b"a line and %b\n" % noise[at : at + 90] for at in range(0, len(noise), 90))
    tool.encode("zstd:1", large, blocksize=1 << 16, use_dict=use_dict)
    tool.encode("zstd:1", large[:100_000], blocksize=1 << 14, use_dict=use_dict)
    status = Path(f"/proc/{tool.proc.pid}/status").read_text()
    tool.close()
    return int(re.search(r"VmRSS:\s*(\d+)", status)[1]), len(large) >> 10


@pytest.mark.release
def test_what_a_large_dictionary_chunk_needed_is_given_back():
    """With a dictionary a chunk is encoded twice, and the larger one of the two is not kept."""
    plain, _ = kept_kib(False)
    twice, size = kept_kib(True)
    assert twice - plain < size / 8
