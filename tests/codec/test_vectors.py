"""Chunks of many releases, of which only the checksum of the bytes is known."""

import hashlib
import json

import blosc2
import pytest

from libcodec import DATA
from libdata import VECTORS

# c-blosc 1.7 left items of one byte alone under bitshuffle; since then they are
# transposed. Nothing in the chunk tells the two apart.
UNKNOWABLE = {
    f"blosc1-1.7.0-{codec}-s2-t1-rand-5000.cdata" for codec in ("blosclz", "lz4", "lz4hc")
}

# Ends in bytes that are no part of its sequence of integers; the manifest's sum
# is that of the sequence.
ENDS_IN = {f"blosc-1.18.0-lz4-bitshuffle{x}.cdata": b"@AB" for x in ("4-memcpy", "8-nomemcpy")}


def entries(folder):
    manifest = folder / "manifest.json"
    if folder.is_relative_to(VECTORS) and not manifest.exists():
        return [
            pytest.param(
                None, None, marks=pytest.mark.skip(reason=f"{folder.name} vectors are not here")
            )
        ]
    return [
        pytest.param(
            folder / e["name"],
            e,
            id=e["name"],
            marks=[pytest.mark.xfail(reason="written by a rule that left no trace")]
            if e["name"] in UNKNOWABLE
            else [],
        )
        for e in json.loads(manifest.read_text())
        if e["name"].endswith(".cdata")
    ]


def check(codec_tool, path, entry):
    data = codec_tool.both(path.read_bytes())
    assert len(data) == entry["nbytes"]
    if "sha256_without_last_4" in entry:
        assert hashlib.sha256(data[:-4]).hexdigest() == entry["sha256_without_last_4"]
        return
    tail = ENDS_IN.get(path.name)
    if tail:
        assert data.endswith(tail)
        data = data[: -len(tail)] + (len(data) // 4).to_bytes(4, "little")[: len(tail)]
    assert hashlib.sha256(data).hexdigest() == entry["sha256"]


@pytest.mark.parametrize("path, entry", entries(DATA / "blosc1"))
def test_blosc1_of_ours(codec_tool, path, entry):
    check(codec_tool, path, entry)


@pytest.mark.parametrize("path, entry", entries(VECTORS / "blosc1"))
def test_blosc1(codec_tool, path, entry):
    check(codec_tool, path, entry)


@pytest.mark.parametrize("path, entry", entries(VECTORS / "compat"))
def test_releases(codec_tool, path, entry):
    check(codec_tool, path, entry)


def frames():
    found = [
        p
        for folder in ("frames", "compat")
        for p in sorted((VECTORS / folder).glob("*.b2*"))
        if p.is_file()
    ]
    return [pytest.param(p, id=p.name) for p in found] or [
        pytest.param(None, marks=pytest.mark.skip(reason="frames vectors are not here"))
    ]


@pytest.mark.parametrize("path", frames())
def test_chunks_of_frames(codec_tool, path):
    """Whatever the reference keeps in a frame, chunk by chunk, also variable-length blocks."""
    schunk = blosc2.schunk_from_cframe(path.read_bytes(), copy=True)
    for i in range(schunk.nchunks):
        assert codec_tool.both(
            schunk.get_chunk(i), item=schunk.typesize
        ) == schunk.decompress_chunk(i)
