"""The tuner by a pipe: tune_tool of tests/c as a Python object."""

import struct
import subprocess

import pytest

from libmount import BUILD

BALANCED, SIZE, SPEED = range(3)


class Choice:
    """What the tuner picked, and the chunk made by it."""

    def __init__(self, line, chunk):
        words = line.split()
        self.pipeline, self.format = words[0], words[3]
        self.split, self.blocksize, self.item, self.period, self.permille, self.ntried = (
            int(words[i]) for i in (1, 2, 4, 5, 6, 7)
        )
        self.chunk = chunk
        *filters, self.codec = self.pipeline.split("+")
        self.filters = [f.split(":")[0] for f in filters]
        sizes = [int(f.split(":")[1]) for f in filters if ":" in f]
        self.typesize = sizes[0] if sizes else 1

    def __repr__(self):
        return f"{self.pipeline} ({self.permille} permille, {self.format})"


class Tuner:
    def __init__(self):
        self.proc = subprocess.Popen(
            [BUILD / "tests" / "c" / "tune_tool"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def ask(self, op, head, sample, aim=BALANCED, candidate=0, item=0, base=""):
        base = base.encode()
        self.proc.stdin.write(
            struct.pack("<8I", ord(op), aim, candidate, item, len(head), len(sample), len(base), 0)
        )
        self.proc.stdin.write(head + sample + base)
        self.proc.stdin.flush()
        answer = self.proc.stdout.read(12)
        assert len(answer) == 12, f"tune_tool died: {self.proc.wait()}"
        rc, nline, nchunk = struct.unpack("<iII", answer)
        line, chunk = self.proc.stdout.read(nline), self.proc.stdout.read(nchunk)
        return (rc, None) if rc < 0 else (rc, Choice(line.decode(), chunk))

    def choose(self, data, head=b"", **kw):
        rc, choice = self.ask("c", head, data, **kw)
        assert rc == 0
        return choice


@pytest.fixture(scope="module")
def tuner():
    one = Tuner()
    yield one
    one.proc.stdin.close()
    assert one.proc.wait(250) == 0
