"""Frames of the reference and of ours as they are, then a short run of the fuzzer from them;
CFRAMEFS_FUZZ_SECONDS says how long: a minute where tools/check runs for CI, with the address
sanitizer."""

import os

import pytest

pytest.importorskip("blosc2")
import libblosc
from libdata import blob
from libframe import OWN, Tool
from libmount import BUILD, CFRAME
from libprogram import run

SECONDS = int(os.environ.get("CFRAMEFS_FUZZ_SECONDS") or 4)
LONGEST = 60_000  # bytes of a seed: others take too long a round
PIPELINES = ["shuffle:4+zstd:1", "zstd:3", "bitshuffle:2+lz4:1", "delta:4+zlib:1", "store"]


def ours(path, pipeline, chunk):
    """A frame with holes, a patch, garbage, and roots before its last."""
    with Tool() as tool:
        tool.do(f"pipeline {pipeline}")
        tool.do(f"create {path} {chunk}")
        tool.do("resize 20001")
        tool.do("fill 0 9000 5 7")
        tool.do("commit later")
        tool.do("fill 12000 5000 200 3")
        tool.do("commit sync")
        tool.do("fill 100 50 1 1")
        tool.do("zero 2")
        tool.do("commit later")
        tool.do("fill 3000 2000 77 9")
        tool.do("commit sync")
    return path


def of_many_blocks(folder, pipeline):
    """Frames of ours with several blocks in each chunk, and thus a checksum for each of them."""
    source, target = folder / "source", folder / pipeline.replace(":", "")
    source.write_bytes(blob(1, 9000, "ramp") + bytes(9000) + blob(2, 5000, "text"))
    options = "--tune=off", f"--pipeline={pipeline}", "--chunksize=8K", "--blocksize=512"
    run(CFRAME, "compress", *options, source, target)
    return target / "source.b2frame"


def emptied(path):
    """A frame of ours of which another program has removed all chunks, but not our note."""
    ours(path, "zstd:1", 4096)
    schunk = libblosc.open_frame(path, "a")
    while schunk.nchunks:
        schunk.delete_chunk(schunk.nchunks - 1)
    return path


@pytest.mark.watchdog(SECONDS + 400)
def test_mutated_frames_do_no_harm(work):
    seeds = [f for f in sorted(OWN.rglob("*.b2*")) if f.is_file() and f.stat().st_size <= LONGEST]
    assert len(seeds) > 30
    for pipeline in PIPELINES:
        for chunk in (1024, 4096, 9000):
            seeds.append(ours(work / f"{len(seeds)}.b2frame", pipeline, chunk))
        seeds += [of_many_blocks(work, pipeline)] * 3  # there are many more of the others
    seeds.append(emptied(work / "emptied.b2frame"))
    said = run(BUILD / "tests/c/frame_fuzz", SECONDS, os.getpid(), *seeds, timeout=SECONDS + 300)
    first, rounds = said.splitlines()
    assert first.startswith(f"{len(seeds)} files as they are, ")
    assert int(first.split()[-2]) > len(seeds) - 10  # nearly all open
    assert int(rounds.split()[-2]) > 0
