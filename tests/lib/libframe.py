"""The frame layer by a pipe: frame_tool of tests/c as a Python object, its model, and how the
reference reads its frames."""

import os
import random
import struct
import subprocess

import blosc2
import pytest

import libblosc
from libchunk import xxh3
from libmount import BUILD, REPO

TOOL = BUILD / "tests/c/frame_tool"
OWN = REPO / "tests/data/frames"


class Tool:
    """frame_tool on a pipe: one line in, one line out."""

    def __init__(self):
        self.proc = subprocess.Popen(
            [TOOL], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.proc.stdin.close()
        assert self.proc.wait(250) == 0 or kind

    def ask(self, line):
        self.proc.stdin.write(line + "\n")
        self.proc.stdin.flush()
        return self.proc.stdout.readline().rstrip("\n")

    def do(self, line):
        answer = self.ask(line)
        assert not answer.startswith("error"), (line[:200], answer)
        return answer

    def bytes(self, size):
        got = b""
        for at in range(0, size, 65536):
            got += bytes.fromhex(self.do(f"read {at} {min(65536, size - at)}"))
        return got


def fnv(data):
    h = 0xCBF29CE484222325
    for byte in data:
        h = (h ^ byte) * 0x100000001B3 & (1 << 64) - 1
    return f"{h:016x}"


def check_ours(tool, expect):
    size, by_chunk, by_range = tool.do("sum").split()
    assert int(size) == len(expect)
    if len(expect) < 50000:
        assert by_chunk == by_range == fnv(expect)
    else:
        assert by_chunk == by_range
        assert tool.bytes(len(expect)) == expect


def check_reference(path, expect, seed=0):
    """All chunks, all at once, and a few slices."""
    libblosc.check(path, bytes(expect), random.Random(seed))


def lengths(raw):
    """(header_len, cbytes, frame_len, trailer_len), read from the bytes of a frame."""
    frame_len = int.from_bytes(raw[16:24], "big")
    return (
        int.from_bytes(raw[11:15], "big"),
        int.from_bytes(raw[39:47], "big"),
        frame_len,
        int.from_bytes(raw[frame_len - 22 : frame_len - 18], "big"),
    )


def write_holes(path, pieces, most=1 << 20):
    """A file of these pieces, each with its place, and holes between them, which may claim to be
    anything and take no room on the disk."""
    with open(path, "wb") as f:
        for at, piece in pieces:
            f.seek(at)
            f.write(piece)
    if os.stat(path).st_blocks * 512 > most:
        pytest.skip("files have no holes here")


def sealed(raw, room=0):
    """A frame whose bytes were changed, with a fingerprint that fits them, as a hostile author
    would make it. `room`: so many bytes of its chunk area are left out of `raw`."""
    header_len, cbytes, frame_len, _ = lengths(raw)
    cbytes, frame_len = cbytes - room, frame_len - room
    hashed = raw[:header_len] + raw[header_len + cbytes : frame_len - 18] + raw[frame_len - 8 :]
    return raw[: frame_len - 16] + xxh3(hashed).to_bytes(8, "big") + raw[frame_len - 8 :]


def header(
    nbytes,
    cbytes,
    chunk_size,
    frame_len,
    flags=0x12,
    type_size=1,
    header_len=97,
    kind=0,
    nfilters=6,
):
    return (
        b"\x9e\xa8b2frame\0\xd2"
        + struct.pack(">i", header_len)
        + b"\xcf"
        + struct.pack(">Q", frame_len)
        + b"\xa4"
        + bytes([flags, kind, 0x50, 3])
        + b"\xd3"
        + struct.pack(">q", nbytes)
        + b"\xd3"
        + struct.pack(">q", cbytes)
        + b"\xd2"
        + struct.pack(">i", type_size)
        + b"\xd2\0\0\0\0\xd2"
        + struct.pack(">i", chunk_size)
        + b"\xd1\0\1\xd1\0\1\xc2\xd8"
        + bytes([nfilters])
        + bytes(16)
        + b"\x93\xcd\0\7\xde\0\0\xdc\0\0"
    )


def trailer(body=b"\x94\1\x93\xcd\0\6\xde\0\0\xdc\0\0", length=None):
    length = len(body) + 23 if length is None else length
    return body + b"\xce" + struct.pack(">I", length) + b"\xd8" + bytes(17)


def same_index(nchunks, value, size=8):
    return (
        struct.pack("<BBBBIII", 5, 1, 5, 8, 8 * nchunks, min(8 * nchunks, 16384), 32 + size)
        + bytes(15)
        + b"\x30"
        + value[:size]
    )


def plain_index(*entries, typesize=8):
    raw = b"".join(struct.pack("<Q", e) for e in entries)
    return (
        struct.pack("<BBBBIII", 5, 1, 7, typesize, len(raw), len(raw), 32 + len(raw))
        + bytes(16)
        + raw
    )


def frame(nbytes, chunk_size, index, area=b"", end=None, **kw):
    end = trailer() if end is None else end
    cbytes = kw.pop("cbytes", len(area))
    frame_len = kw.pop("frame_len", 97 + len(area) + len(index) + len(end))
    return header(nbytes, cbytes, chunk_size, frame_len, **kw) + area + index + end


def index_of_blocks(block, nblocks, chunk=0):
    """Chunks and holes in turn. All blocks are one piece of zstd, stored once."""
    raw = struct.pack("<QQ", chunk, 0x81 << 56) * (block // 16)
    one = blosc2.compress2(raw, typesize=8, codec=blosc2.Codec.ZSTD, blocksize=block, filters=[])
    at, first = struct.unpack_from("<I", one, 32)[0], 32 + 4 * nblocks
    head = one[:4] + struct.pack("<III", nblocks * block, block, first + len(one) - at) + one[16:32]
    return head + struct.pack("<I", first) * nblocks + one[at:]


def index_of_bytes(block, *entries):
    """In blocks that need not be a multiple of an item, each a stream of plain bytes."""
    raw = b"".join(struct.pack("<Q", e) for e in entries)
    parts = [raw[at : at + block] for at in range(0, len(raw), block)]
    starts = [32 + 4 * len(parts) + (4 + block) * n for n in range(len(parts))]
    body = b"".join(struct.pack("<I", at) for at in starts)
    body += b"".join(struct.pack("<I", len(part)) + part for part in parts)
    head = struct.pack("<BBBBIII", 5, 1, 0x95, 8, len(raw), block, 32 + len(body))
    return head + bytes(16) + body


# A chunk of a hundred bytes for such frames.
CHUNK = struct.pack("<BBBBIII", 5, 1, 7, 1, 100, 100, 132) + bytes(16) + bytes(range(100))


def write(model, at, data):
    if at > len(model):
        model.extend(bytes(at - len(model)))
    model[at : at + len(data)] = data
