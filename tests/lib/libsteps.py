"""Steps on a file of a mount, and the bytes that it must then have, in the mount and for the
reference library."""

import os
import random

from hypothesis import HealthCheck, settings

from libdata import blob
from libposix import KEEP_SIZE, ZERO_RANGE, fallocate, punch, read_direct

property_test = settings(
    deadline=None,
    max_examples=int(os.environ.get("CFRAMEFS_EXAMPLES") or 50),
    database=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)
OPTIONS = [
    "",
    "codec=lz4,typesize=4,filter=shuffle,chunksize=64K,blocksize=4K",
    "codec=blosclz,level=5,typesize=8,filter=bitshuffle,chunksize=128K,blocksize=16K",
    "codec=zlib,level=3,typesize=3,filter=shuffle,chunksize=48K,blocksize=12K",
    "codec=zstd,level=4,typesize=2,filter=delta,chunksize=32K,blocksize=8K",
    "codec=lz4hc,typesize=16,filter=shuffle,chunksize=256K,blocksize=32K",
    "codec=zstd,level=0,chunksize=64K",
]
LIMIT = 700_000
counter = iter(range(1 << 30))


def fresh_name(kind):
    """A new file for each example: one mount serves them all, and no cache knows the name."""
    return f"{kind}-{next(counter)}"


def same_through_mount(path, expect, seed):
    """A file holds what is expected, in pieces and as a whole, cached and not."""
    assert path.stat().st_size == len(expect)
    rng = random.Random(seed)
    with open(path, "rb", buffering=0) as f:
        for _ in range(6):  # before the whole, so that no cache helps
            at = rng.randrange(len(expect) + 1)
            size = rng.randrange(1, 50_000)
            assert os.pread(f.fileno(), size, at) == expect[at : at + size], (at, size)
        assert f.readall() == expect
    assert read_direct(path, len(expect) + 1) == expect


def resize(model, size):
    del model[size:]
    model.extend(bytes(size - len(model)))


def put(model, at, data):
    resize(model, max(len(model), at + len(data)))
    model[at : at + len(data)] = data


def blank(model, at, size):
    """Zeros in what there is of a range; the length stays."""
    size = max(0, min(size, len(model) - at))
    model[at : at + size] = bytes(size)


def perform(path, script):
    """Performs steps on a file of the mount; returns what it must contain."""
    model = bytearray()
    fd = os.open(path, os.O_CREAT | os.O_RDWR)
    for what, at, size, kind in script:
        if what == "append":
            what, at, size = "write", len(model), at
        if what == "write":
            data = blob(at, size, kind)
            os.pwrite(fd, data, at)
            put(model, at, data)
        elif what == "truncate":
            os.ftruncate(fd, at)
            resize(model, at)
        elif what == "punch":
            punch(fd, at, size)
            blank(model, at, size)
        elif what == "zero":
            fallocate(fd, ZERO_RANGE | KEEP_SIZE, at, size)
            blank(model, at, size)
        elif what == "fsync":
            os.fsync(fd)
            assert os.fstat(fd).st_size == len(model)
        else:
            os.close(fd)
            fd = os.open(path, os.O_RDWR)
    os.close(fd)
    return bytes(model)
