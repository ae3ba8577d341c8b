"""Chunks of ours for the reference library, and of the reference library for us."""

import struct

import blosc2
import numpy as np

from libchunk import longest
from libcodec import Tool

CODECS = {
    "blosclz": blosc2.Codec.BLOSCLZ,
    "lz4": blosc2.Codec.LZ4,
    "lz4hc": blosc2.Codec.LZ4HC,
    "zlib": blosc2.Codec.ZLIB,
    "zstd": blosc2.Codec.ZSTD,
}
LEVELS = [None, "c", "sse2"]  # kernels: the best there are, then older machines

tools = {level: Tool(level) for level in LEVELS}


def make(kind, n, seed=0):
    """n bytes of a kind: what streams, runs, copies and matches each see."""
    rng = np.random.default_rng(seed + n)
    if kind == "noise":
        return rng.bytes(n)
    if kind == "zeros":
        return bytes(n)
    if kind == "ramp":
        return (np.arange(n // 4 + 1) * 3).astype("<u4").tobytes()[:n]
    if kind == "wave":
        return (np.sin(np.arange(n // 8 + 1) / 700) * 1e4).astype("<f8").tobytes()[:n]
    if kind == "mixed":
        parts = [
            make(k, n // 4 + 1, seed + i) for i, k in enumerate(["ramp", "noise", "zeros", "text"])
        ]
        return b"".join(parts)[:n]
    words = rng.integers(0, 40, n // 5 + 1)
    return b" ".join(b"%04d" % (w * 97) for w in words)[:n]


KINDS = ["noise", "zeros", "ramp", "wave", "mixed", "text"]


def text_of(filters, typesize, codec, level):
    terms = [f"{f}:{typesize}" if i == 0 else f for i, f in enumerate(filters.split("+")) if f]
    return "+".join(terms + [f"{codec}:{level}"])


def check_ours(data, text, tool=tools[None], **kw):
    chunk = tool.encode(text, data, **kw)
    assert len(chunk) <= longest(len(data))
    nbytes, blocksize, cbytes = struct.unpack_from("<III", chunk, 4)
    assert (nbytes, cbytes) == (len(data), len(chunk))
    assert blocksize <= nbytes and (blocksize <= chunk[3] or blocksize % chunk[3] == 0)
    assert blosc2.decompress2(chunk) == data
    assert tool.both(chunk) == data
    return chunk


def theirs(data, **kw):
    kw.setdefault("nthreads", 1)
    return blosc2.compress2(data, **kw)


THEIR_FILTERS = {
    "": ([], []),
    "shuffle": ([blosc2.Filter.SHUFFLE], [0]),
    "bitshuffle": ([blosc2.Filter.BITSHUFFLE], [0]),
    "delta": ([blosc2.Filter.DELTA], [0]),
    "delta+shuffle": ([blosc2.Filter.DELTA, blosc2.Filter.SHUFFLE], [0, 0]),
    "shuffle+delta": ([blosc2.Filter.SHUFFLE, blosc2.Filter.DELTA], [0, 0]),
}


def cparams(codec, level, typesize, filters):
    """A pipeline by our names, as the reference takes it."""
    ids, metas = THEIR_FILTERS[filters]
    return {
        "codec": CODECS[codec],
        "clevel": level,
        "typesize": typesize,
        "filters": ids,
        "filters_meta": metas,
    }
