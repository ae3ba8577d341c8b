"""The codec layer by a pipe: codec_tool of tests/c as a Python object."""

import os
import struct
import subprocess

import pytest

from libmount import BUILD, REPO

DATA = REPO / "tests/data"
EBADMSG, ENOTSUP, EINVAL = -74, -95, -22


class Refused(Exception):
    """The codec refused: its errno and its reason."""

    def __init__(self, rc, why):
        super().__init__(f"{rc}: {why}")
        self.rc, self.why = rc, why


class Tool:
    """A codec_tool that serves requests; one process for a whole test file."""

    def __init__(self, level=None, program="codec_tool"):
        self.program = BUILD / "tests" / "c" / program
        env = dict(os.environ)
        if level:
            env["CPU_MASK"] = level
        self.env = env
        self.start()

    def start(self):
        self.proc = subprocess.Popen(
            [self.program, "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=self.env
        )

    def ask(self, op, text="", data=b"", item=0, blocksize=0, split=0, use_dict=False):
        text = text.encode()
        head = struct.pack(
            "<8I", ord(op), len(text), len(data), item, blocksize, split, use_dict, 0
        )
        self.proc.stdin.write(head + text + data)
        self.proc.stdin.flush()
        answer = self.proc.stdout.read(8)
        if len(answer) != 8:
            rc = self.proc.wait()
            self.start()
            raise AssertionError(f"codec_tool died: {rc}")
        rc, n = struct.unpack("<iI", answer)
        out = self.proc.stdout.read(n)
        if rc < 0:
            raise Refused(rc, out.decode())
        return out if rc == 0 else None

    def encode(self, text, data, **kw):
        return self.ask("e", text, data, **kw)

    def decode(self, chunk, item=0):
        """The whole chunk at once."""
        return self.ask("d", "", chunk, item=item)

    def blocks(self, chunk, item=0):
        """Header and offsets as the parser asks for them, then each block by itself, last first."""
        return self.ask("b", "", chunk, item=item)

    def both(self, chunk, item=0):
        whole = self.decode(chunk, item)
        assert self.blocks(chunk, item) == whole
        return whole

    def patch(self, text, chunk, edits, item=0):
        """Replaces runs of blocks, [(first, number, bytes)]; None if that is not possible."""
        tail = b"".join(struct.pack("<II", first, n) + new for first, n, new in edits)
        return self.ask("w", text, chunk + tail, item=item)

    def grow(self, text, chunk, keep, data, item=0, kept=False):
        """The chunk of longer data, whose first blocks stay; None: not possible. `kept`: the last
        block of the chunk begins with the bytes that it had."""
        how = struct.pack("<I", keep | kept << 31)
        return self.ask("g", text, chunk + how + data, item=item)

    def normal(self, text):
        return self.ask("p", text).decode()

    def close(self):
        self.proc.stdin.close()
        assert self.proc.wait() == 0


@pytest.fixture(scope="module")
def codec_tool():
    tool = Tool()
    yield tool
    tool.close()
