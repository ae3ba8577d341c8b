"""Stored chunks and headers of frames, parsed as FORMAT.md says, to check what we have
written."""

import ctypes
import ctypes.util
import struct

import pytest

MARK = b"CFS1"


def xxh3(data):
    name = ctypes.util.find_library("xxhash")
    if not name:
        pytest.skip("no libxxhash")
    call = ctypes.CDLL(name).XXH3_64bits
    call.restype, call.argtypes = ctypes.c_uint64, [ctypes.c_char_p, ctypes.c_size_t]
    return call(bytes(data), len(data))


class Chunk:
    """The parts of a regular chunk: where its blocks are, and its table of checksums, if any."""

    def __init__(self, raw):
        self.raw = raw = bytes(raw)
        self.nbytes, self.blocksize, self.cbytes = struct.unpack_from("<III", raw, 4)
        self.regular = not raw[2] & 2 and not raw[31] >> 4 & 7 and self.nbytes > 0
        self.table = None
        if not self.regular:
            return
        n = -(-self.nbytes // self.blocksize)
        self.starts = struct.unpack_from(f"<{n}I", raw, 32)
        at = 32 + 4 * n
        if raw[31] & 1:
            at += 4 + struct.unpack_from("<I", raw, at)[0]
        if n > 1 and self.starts[0] == at + 4 * n + 8 and raw[at : at + 4] == MARK:
            self.table = at
            self.sums = struct.unpack_from(f"<{n}I", raw, at + 4)

    def block(self, i):
        """The stored bytes of a block of a chunk whose blocks lie in order."""
        ends = [*self.starts[1:], self.cbytes]
        return self.raw[self.starts[i] : ends[i]]

    def check(self):
        """The table of checksums exists and is right."""
        assert self.table
        last = self.starts[0] - 4
        assert struct.unpack_from("<I", self.raw, last)[0] == xxh3(self.raw[:last]) & 0xFFFFFFFF
        for i, one in enumerate(self.sums):
            assert one == xxh3(self.block(i)) & 0xFFFFFFFF


def longest(n):
    """The longest stored form of so many bytes: FORMAT.md 3.9, in blocks of 16 KiB of items."""
    blocks = -(-n // (16384 - 255))
    return n + 32 if blocks < 2 else n + 40 + 12 * blocks


def is_stored(raw):
    """Its bytes are stored as they are: as a plain copy, or in plain blocks."""
    nbytes, _, cbytes = struct.unpack_from("<III", raw, 4)
    return bool(raw[2] & 2) or cbytes > nbytes


def head_with_sums(raw):
    """The head of a chunk with a table of checksums; empty if there is none."""
    chunk = Chunk(raw)
    return chunk.raw[: chunk.starts[0]] if chunk.table else b""


def chunk_sum(raw):
    """The checksum of a stored chunk in the root."""
    head = head_with_sums(raw)
    return xxh3(head) | 1 if head else xxh3(raw) & ~1


def header(path):
    """The pipeline that the header of a frame names (9.1)."""
    raw = path.read_bytes()[:97]
    names = {0: "blosclz", 1: "lz4", 2: "lz4hc", 4: "zlib", 5: "zstd"}
    return {
        "codec": names[raw[0x1B] & 15],
        "level": raw[0x1B] >> 4,
        "typesize": int.from_bytes(raw[0x30:0x34], "big"),
        "blocksize": int.from_bytes(raw[0x35:0x39], "big"),
        "chunksize": int.from_bytes(raw[0x3A:0x3E], "big"),
        "filters": [f for f in raw[0x47:0x4D] if f],
    }
