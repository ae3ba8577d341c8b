"""Shared by tests of programs beside a mount: frames that the reference library reads and writes in
the backing directory, its locks, and calls that have to wait for them."""

import fcntl
import os
import sys
import threading

CHUNK = 64 << 10
SOON = 30  # seconds until a change is shown


def make_frame(blosc2, path, data, chunk=CHUNK):
    schunk = blosc2.SChunk(
        chunksize=chunk,
        urlpath=str(path),
        mode="w",
        contiguous=True,
        cparams={"typesize": 1, "nthreads": 1},
    )
    for at in range(0, len(data), chunk):
        schunk.append_data(data[at : at + chunk])


def append(blosc2, path, data):
    blosc2.open(str(path), mode="a").append_data(data)


def generation(m, name="f"):
    """Which a writer counts up in the lock file."""
    return int.from_bytes((m.backing / f"{name}.b2frame.b2lock").read_bytes()[8:16], "little")


def later(call):
    """A call in a thread of its own: (thread, what it returned, in a list)."""
    result = []
    thread = threading.Thread(target=lambda: result.append(call()))
    thread.start()
    return thread, result


def stored_bytes(blosc2, path):
    """What the library makes of a frame, chunk by chunk: also the end of one whose length is no
    multiple of its items."""
    schunk = blosc2.open(str(path))
    return b"".join(schunk.decompress_chunk(n) for n in range(schunk.nchunks))


def put_frame(path, frame):
    """As a program does that takes part in locking, and writes a frame all over another."""
    lock, fd = os.open(f"{path}.b2lock", os.O_RDWR | os.O_CREAT), os.open(path, os.O_WRONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    generation = int.from_bytes(os.pread(lock, 8, 8), sys.byteorder)
    os.pwrite(lock, (generation + 1).to_bytes(8, sys.byteorder), 8)
    os.pwrite(fd, frame, 0)
    os.ftruncate(fd, len(frame))
    os.close(fd)
    os.close(lock)
