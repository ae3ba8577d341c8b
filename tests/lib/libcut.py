"""What tests of power cuts share: a mount whose calls are recorded, disks built of what was
recorded (tests/c/crash_record.c, crash_replay.c), and files whose fsyncs go through the intent log.

CFRAMEFS_SEED chooses other stories.
"""

import os
import re
import struct
import subprocess
import time

from libfault import preloaded
from libmount import BUILD, SLOWNESS

SEED = int(os.environ.get("CFRAMEFS_SEED") or 1)
CONTENT, SYNCED, NAMES_SYNCED = 6, 7, 8  # tests/c/crash_trace.h


def traced(mount, work, options):
    """A mount whose calls are recorded, and where."""
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


class Scattered:
    """Files whose fsyncs go through the intent log: many small writes before each."""

    def __init__(self, top, trace, rng):
        self.top, self.rng = top, rng
        self.trace = os.open(trace, os.O_WRONLY | os.O_APPEND)
        self.files = [self.make(name) for name in "ab"]

    def make(self, name):
        fd = os.open(self.top / name, os.O_RDWR | os.O_CREAT | os.O_DIRECT)
        file = [name, fd, bytearray(), os.fstat(fd).st_ino]
        self.write(file, 0, self.rng.randbytes(40_000))
        self.fsync(file)
        return file

    def mark(self, kind, file, content=b""):
        os.write(self.trace, struct.pack("=QQQQ", kind, file[3], 0, len(content)) + content)

    def write(self, file, at, data):
        model = file[2]
        if at > len(model):
            model.extend(bytes(at - len(model)))
        model[at : at + len(data)] = data
        self.mark(CONTENT, file, bytes(model))
        os.pwrite(file[1], data, at)

    def truncate(self, file, size):
        del file[2][size:]
        self.mark(CONTENT, file, bytes(file[2]))
        os.ftruncate(file[1], size)

    def fsync(self, file):
        os.fsync(file[1])
        self.mark(SYNCED, file)

    def reopen(self, file):
        os.close(file[1])
        file[1] = os.open(self.top / file[0], os.O_RDWR | os.O_DIRECT)

    def step(self):
        file, rng = self.rng.choice(self.files), self.rng
        for at in rng.sample(range(0, len(file[2]), 400), 55):
            self.write(file, at, rng.randbytes(rng.randrange(1, 300)))
        what = rng.randrange(12)
        if what == 0:
            self.truncate(file, rng.randrange(25_000, len(file[2])))
        elif what == 7:
            self.truncate(file, 0)
            os.close(os.dup(file[1]))
            self.write(file, 0, rng.randbytes(40_000))
        elif what == 1:
            self.reopen(file)
        elif what == 2:
            self.write(file, len(file[2]) + rng.randrange(3000), rng.randbytes(2000))
        elif what in (5, 6):
            os.close(os.dup(file[1]))  # commits, not durably, what the log does not have yet
            for at in rng.sample(range(0, len(file[2]), 400), 50 * (what - 5)):
                self.write(file, at, rng.randbytes(9))
        elif what == 3:
            time.sleep(1)  # the frames catch up
        if what != 4:
            self.fsync(file)

    def close(self):
        for file in self.files:
            os.close(file[1])
        os.close(self.trace)
