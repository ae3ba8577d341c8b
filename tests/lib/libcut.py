"""Shared by tests of power cuts: a mount whose calls are recorded, disks built from what was
recorded (tests/c/crash_record.c, crash_replay.c), and files whose fsyncs go through the intent log.

CFRAMEFS_SEED chooses other stories.
"""

import contextlib
import os
import re
import struct
import subprocess
import time
from dataclasses import dataclass

from libfault import preloaded
from libmount import BUILD, SLOWNESS

SEED = int(os.environ.get("CFRAMEFS_SEED") or 1)
CONTENT, SYNCED, NAMES_SYNCED = 5, 6, 7  # tests/c/crash_trace.h


def traced(mount, work, options):
    """A mount whose calls are recorded, and the path of the record."""
    trace = work / "trace"
    trace.write_bytes(b"")
    argv = preloaded("crash_record", mount(start=False).argv, CRASH_RECORD=trace)
    return mount(options, argv=argv), trace


def replay(trace, states, *args):
    done = subprocess.run(
        [BUILD / "tests/c/crash_replay", trace, str(states), str(SEED), *args],
        capture_output=True,
        text=True,
        timeout=1000 * SLOWNESS + states / 100,
    )
    found = re.search(
        r"(\d+) points, (\d+) states, (\d+) recovered, (\d+) records applied", done.stdout
    )
    assert found, done.stdout + done.stderr
    return done.returncode, done.stdout + done.stderr, *map(int, found.groups())


@dataclass
class File:
    """An open file of the mount, and its expected content."""

    name: str
    fd: int
    model: bytearray
    inode: int


# What happens between the small writes and the fsync of a step, as often as it is listed.
ACTIONS = [
    "truncate",
    "reopen",
    "append",
    "pause",
    "leave unsynced",
    "commit",
    "commit, write more",
    "empty and refill",
    *["nothing"] * 4,
]


class Scattered:
    """Files whose fsyncs go through the intent log: many small writes before each."""

    def __init__(self, top, trace, rng):
        self.top, self.rng = top, rng
        self.trace = os.open(trace, os.O_WRONLY | os.O_APPEND)
        self.files = [self.make(name) for name in "ab"]

    def make(self, name):
        fd = os.open(self.top / name, os.O_RDWR | os.O_CREAT | os.O_DIRECT)
        file = File(name, fd, bytearray(), os.fstat(fd).st_ino)
        self.write(file, 0, self.rng.randbytes(40_000))
        self.fsync(file)
        return file

    def mark(self, kind, file, content=b""):
        """Tells the trace what is about to be written, or what was synced."""
        os.write(self.trace, struct.pack("=QQQQ", kind, file.inode, 0, len(content)) + content)

    def write(self, file, at, data):
        if at > len(file.model):
            file.model.extend(bytes(at - len(file.model)))
        file.model[at : at + len(data)] = data
        self.mark(CONTENT, file, bytes(file.model))
        os.pwrite(file.fd, data, at)

    def truncate(self, file, size):
        del file.model[size:]
        self.mark(CONTENT, file, bytes(file.model))
        os.ftruncate(file.fd, size)

    def fsync(self, file):
        os.fsync(file.fd)
        self.mark(SYNCED, file)

    def commit(self, file):
        """Closing a descriptor commits what is not in the log yet, but not durably."""
        os.close(os.dup(file.fd))

    def reopen(self, file):
        os.close(file.fd)
        file.fd = os.open(self.top / file.name, os.O_RDWR | os.O_DIRECT)

    def after_kill(self):
        """Continues from what a mount shows after the daemon of the previous one was killed."""
        for file in self.files:
            with contextlib.suppress(OSError):
                os.close(file.fd)
            file.fd = os.open(self.top / file.name, os.O_RDWR | os.O_DIRECT)
            file.model = bytearray((self.top / file.name).read_bytes())
            if len(file.model) < 25_000:
                self.write(file, 0, self.rng.randbytes(40_000))
                self.fsync(file)

    def scatter(self, file, count, size):
        """Small writes of size() bytes all over a file."""
        for at in self.rng.sample(range(0, len(file.model), 400), count):
            self.write(file, at, self.rng.randbytes(size()))

    def step(self):
        file, rng = self.rng.choice(self.files), self.rng
        self.scatter(file, 55, lambda: rng.randrange(1, 300))
        action = ACTIONS[rng.randrange(len(ACTIONS))]
        if action == "truncate":
            self.truncate(file, rng.randrange(25_000, len(file.model)))
        elif action == "empty and refill":
            self.truncate(file, 0)
            self.commit(file)
            self.write(file, 0, rng.randbytes(40_000))
        elif action == "reopen":
            self.reopen(file)
        elif action == "append":
            self.write(file, len(file.model) + rng.randrange(3000), rng.randbytes(2000))
        elif action in ("commit", "commit, write more"):
            self.commit(file)
            if action != "commit":
                self.scatter(file, 50, lambda: 9)
        elif action == "pause":
            time.sleep(1)  # the frames catch up
        if action != "leave unsynced":
            self.fsync(file)

    def close(self):
        for file in self.files:
            os.close(file.fd)
        os.close(self.trace)
