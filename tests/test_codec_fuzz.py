"""Short runs of the fuzzers from the committed corpus, longer with sanitizers; CODEC_FUZZ_SECONDS says how long."""

import os

import pytest

from test_codec_kernels import run
from test_codec_tool import BUILD, DATA, REPO

CORPUS = REPO / "tests/c/codec_corpus"
SANITIZED = float(os.environ.get("CFRAMEFS_TEST_SLOWNESS") or 1) > 1
SECONDS = int(os.environ.get("CODEC_FUZZ_SECONDS", 20 if SANITIZED else 3))


@pytest.mark.parametrize("target", ["chunk", "blosclz", "lz4", "lz4hc"])
def test_mutated_bytes_do_no_harm(target):
    seeds = sorted((CORPUS / target).iterdir())
    if target == "chunk":
        seeds += sorted((DATA / "blosc1").glob("*.cdata"))
    assert "rounds" in run(BUILD / "tests/c/codec_fuzz", target, SECONDS, os.getpid(), *seeds, timeout=SECONDS + 300)


def test_the_corpus_is_small():
    assert sum(f.stat().st_size for f in CORPUS.rglob("*") if f.is_file()) < 100_000
