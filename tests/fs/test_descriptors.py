"""The daemon's descriptors: whatever is opened, fails, or is killed, none is lost, and none is
counted that is not there."""

import contextlib
import errno
import os
import random
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from libfault import Fault
from libmount import SLOWNESS, wait_until
from libposix import NONE_IS_LEFT, error_of

NAMES = 40
STEPS = 5000 if SLOWNESS == 1 else 1000
OPENS = (
    os.O_RDONLY,
    os.O_RDWR,
    os.O_RDWR | os.O_CREAT,
    os.O_RDWR | os.O_CREAT | os.O_EXCL,
    os.O_RDWR | os.O_TRUNC,
    os.O_WRONLY | os.O_CREAT | os.O_TRUNC,
    os.O_RDWR | os.O_DIRECT,
    os.O_RDONLY | os.O_DIRECTORY,
    os.O_PATH,
)
FAILURES = (
    (Fault.OPEN, errno.EIO),
    (Fault.OPEN, errno.EMFILE),
    (Fault.NAME, errno.EIO),
    (Fault.READ, errno.EIO),
    (Fault.WRITE, errno.ENOSPC),
    (Fault.ACCESS, errno.EIO),
    (Fault.STORE, errno.ENOMEM),
    (Fault.MEMORY, errno.ENOMEM),
)

KILLED = """
import contextlib, os, random, sys
os.chdir(sys.argv[1])
while True:
    with contextlib.suppress(OSError):
        name = f"{random.choice('fpdn')}{random.randrange(40)}"
        os.open(name, random.choice([os.O_RDONLY, os.O_RDWR | os.O_CREAT]))
"""


def room(m):
    """How many frames, other files and directories can be open. Fewer while what was closed before
    is still being released."""
    found = []
    for letter in "fpd":
        fds, error = [], None
        while error is None:
            try:
                fds.append(os.open(m.mnt / f"room/{letter}{len(fds)}", os.O_RDONLY))
            except OSError as e:
                error = e.errno
        for fd in fds:
            os.close(fd)
        found.append(len(fds))
        assert error == errno.EMFILE
    return found


def roam(mnt, seed):
    rng = random.Random(seed)
    fds = []

    def some():
        return mnt / f"{rng.choice('fpdn')}{rng.randrange(NAMES)}"

    steps = (
        *[lambda: fds.append(os.open(some(), rng.choice(OPENS)))] * 6,
        *[lambda: os.close(fds.pop(rng.randrange(len(fds))))] * 3,
        lambda: fds.append(os.open(mnt, os.O_RDWR | os.O_TMPFILE, 0o600)),
        lambda: os.pwrite(rng.choice(fds), bytes(rng.randrange(5000)), rng.randrange(100_000)),
        lambda: os.fsync(rng.choice(fds)),
        lambda: os.rename(some(), some()),
        lambda: os.unlink(some()),
        lambda: os.mknod(some(), stat.S_IFREG | 0o600),
    )
    for _ in range(STEPS):
        if len(fds) in range(1, 60):
            error_of(rng.choice(steps))
        elif fds:
            error_of(os.close, fds.pop())
        else:
            error_of(steps[0])
    for fd in fds:
        error_of(os.close, fd)


def fail(fault, end):
    rng = random.Random(7)
    while not end.wait(0.01):
        calls, error = rng.choice(FAILURES)
        fault.set(rng.randrange(1, 30), calls=calls, error=error)
    fault.stop()


def kill(mnt, end):
    while not end.is_set():
        with subprocess.Popen([sys.executable, "-c", KILLED, str(mnt)]) as program:
            end.wait(0.3)
            program.kill()


def forget_inodes():
    """Has the kernel forget those that nobody uses. One whose name the daemon had no memory to note
    is reached by its descriptor alone, until then."""
    with contextlib.suppress(PermissionError):
        Path("/proc/sys/vm/drop_caches").write_text("2")


@pytest.mark.concurrent
def test_as_many_can_be_open_as_before(mount, work):
    m = mount("commit=1", start=False).allow("^cframefs: (error|warning)", *NONE_IS_LEFT)
    fault = Fault(m, work / "control")
    m.argv = ["prlimit", "--nofile=256:256", *m.argv]
    (m.backing / "room").mkdir()
    for i in range(300):
        where = [m.backing / "room", m.backing] if i < NAMES else [m.backing / "room"]
        for folder in where:
            (folder / f"p{i}").touch()
            (folder / f"d{i}").mkdir()
            (folder / f"f{i}.b2frame").touch()
    m.start()
    before = [max(counts) for counts in zip(*(room(m) for _ in range(4)), strict=True)]
    end = threading.Event()
    others = [
        threading.Thread(target=fail, args=(fault, end)),
        threading.Thread(target=kill, args=(m.mnt, end)),
    ]
    threads = [threading.Thread(target=roam, args=(m.mnt, seed)) for seed in range(4)]
    for thread in others + threads:
        thread.start()
    for thread in threads:
        thread.join()
    end.set()
    for thread in others:
        thread.join()
    wait_until(lambda: forget_inodes() or room(m) == before, 10, f"room as before: {before}")
