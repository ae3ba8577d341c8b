"""The committed corpus as it is, then a short run of each fuzzer from it;
CFRAMEFS_FUZZ_SECONDS says how long: a minute each where tools/check runs for CI, with the address
sanitizer."""

import os

import pytest

from libcodec import DATA
from libmount import BUILD, REPO
from libprogram import run

CORPUS = REPO / "tests/c/codec_corpus"
SECONDS = int(os.environ.get("CFRAMEFS_FUZZ_SECONDS") or 4)


@pytest.mark.watchdog(SECONDS + 400)
@pytest.mark.parametrize("target", ["chunk", "blosclz", "lz4", "lz4hc", "zstd", "unzstd"])
def test_mutated_bytes_do_no_harm(target):
    seeds = sorted((CORPUS / target).iterdir())
    if target == "chunk":
        seeds += sorted((DATA / "blosc1").glob("*.cdata"))
    said = run(
        BUILD / "tests/c/codec_fuzz", target, SECONDS, os.getpid(), *seeds, timeout=SECONDS + 300
    )
    assert f"{len(seeds)} files as they are, " in said


def test_the_corpus_is_small():
    assert sum(f.stat().st_size for f in CORPUS.rglob("*") if f.is_file()) < 120_000
