"""The frame layer behind a pipe: frame_tool of tests/c as a Python object, its model, and what the
reference makes of its frames."""

import random
import subprocess

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
    """(header_len, cbytes, frame_len, trailer_len) of a frame, by its own bytes."""
    frame_len = int.from_bytes(raw[16:24], "big")
    return (
        int.from_bytes(raw[11:15], "big"),
        int.from_bytes(raw[39:47], "big"),
        frame_len,
        int.from_bytes(raw[frame_len - 22 : frame_len - 18], "big"),
    )


def sealed(raw):
    """A frame whose bytes were changed, with a fingerprint that fits them, as a hostile author
    would make it."""
    header_len, cbytes, frame_len, _ = lengths(raw)
    hashed = raw[:header_len] + raw[header_len + cbytes : frame_len - 18] + raw[frame_len - 8 :]
    return raw[: frame_len - 16] + xxh3(hashed).to_bytes(8, "big") + raw[frame_len - 8 :]


def write(model, at, data):
    if at > len(model):
        model.extend(bytes(at - len(model)))
    model[at : at + len(data)] = data
