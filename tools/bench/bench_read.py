"""`bench read`: cold reads of real files, beside kernel and FUSE peers.
docs/BENCH.md says what each row means."""

import os
import subprocess
import sys
import time
from pathlib import Path

import host
import measure
from host import Unavailable
from measure import Floor, Row

SYSTEMS = [
    "cframefs-zstd",
    "cframefs-lz4",
    "passthrough_ll",
    "btrfs-zstd3",
    "squashfs-zstd-1M",
    "squashfs-zstd-128K",
    "squashfs-lz4-128K",
    "squashfuse-zstd-128K",
]
OURS = ("cframefs-zstd", "cframefs-lz4")
FILLS = True  # every system holds the whole data set from the start

RANDOM = {"4k": (4096, 4000), "64k": (65536, 1000)}  # block, reads
WARM, PASSES = 800, 10  # blocks that the default cache holds with room to spare, read so often
WALK = 4000  # pages
SMALL = 10_000  # files
CHUNKS = 1 << 20  # of the frame of 1 TiB
HERE = Path(__file__).resolve().parent


def paths(system, work):
    return [system.point / f.name for f in work.files]


def largest(system, work):
    """The FITS catalogue, unless other sets were asked for."""
    return system.point / work.files[0].name


def scaled(count, work):
    """Fewer reads where the data is small, as in a test of the bench itself."""
    total = sum(f.stat().st_size for f in work.files)
    return max(10, min(count, total // 65536 // 8))


def readers(system):
    """How many at once: `bench read --scaling` says more than one."""
    return getattr(system, "readers", 1)


def random_reads(size, seed):
    block, count = RANDOM[size]

    def load(system, work):
        command = f"random -b {block} -n {scaled(count, work)} -s {seed} -j {readers(system)}"
        return command.split() + paths(system, work)

    return load


def sequential(system, work):
    return ["read", "-j", readers(system)] + paths(system, work)


def warm_reads(system, work, blocks=None, passes=PASSES):
    """Reads of 4 KiB past the page cache, after one untimed pass over the same blocks."""
    blocks = blocks or scaled(WARM, work)
    command = f"random -b 4096 -n {blocks} -s 13 -D -W -r {passes} -j {readers(system)}"
    return command.split() + paths(system, work)


def walk(system, work):
    pages = work.files[0].stat().st_size // 4096
    command = f"walk -b 4096 -n {max(1, min(WALK, pages // 2))} -s 14"
    return command.split() + [largest(system, work)]


def need_numpy(_settings):
    if subprocess.run([sys.executable, "-c", "import numpy"], capture_output=True).returncode:
        raise Unavailable("needs numpy: run the bench with a Python that has it")


def column_sums(system, work):
    return measure.parsed(sys.executable, HERE / "column_sums.py", largest(system, work))


def list_all(system, work):
    """`ls -lR`: names and attributes, and nothing else."""
    start = time.monotonic()
    host.run("ls", "-lR", system.point / work.small.name)
    return {"seconds": time.monotonic() - start, "ops": work.settings.small_files}


def sparse_tool(settings):
    """Beside the daemon in the build directory."""
    tool = (
        settings.cframefs
        and settings.cframefs.parent.parent.parent / "tools" / "bench" / "sparse_frame"
    )
    if not tool or not tool.exists():
        raise Unavailable("needs sparse_frame of the build directory that cframefs is in")
    return tool


def put_sparse(system, work):
    frame = system.backing / "sparse.b2frame"
    if not frame.exists():
        host.run(sparse_tool(work.settings), frame, work.settings.chunks)


def index_seconds(frame):
    """How long it takes to read what lies after the chunks: index, checksums, trailer."""
    with open(frame, "rb") as f:
        head = f.read(64)
        start = int.from_bytes(head[11:15], "big") + int.from_bytes(head[39:47], "big")
        began = time.monotonic()
        f.seek(start)
        f.read()
        return time.monotonic() - began


def open_sparse(system, _work):
    """open(2) and the first read, less the plain read of the index; and what it
    adds to the daemon."""
    before = system.resident_kib()
    began = time.monotonic()
    fd = os.open(system.point / "sparse", os.O_RDONLY)
    os.pread(fd, 4096, 0)
    took = time.monotonic() - began
    mib = (system.resident_kib() - before) / 1024
    os.close(fd)
    return {
        "seconds": max(0, took - index_seconds(system.backing / "sparse.b2frame")),
        "ops": 1,
        "mib": mib,
    }


ROWS = [
    Row("sequential", "sequential read, whole set", "MB/s", sequential),
    Row(
        "parallel",
        "2 processes, 2 files at a time",
        "MB/s",
        lambda s, w: ["read", "-j", 2] + paths(s, w),
    ),
    Row("random-4k", "random 4 KiB reads", "op/s", random_reads("4k", 11)),
    Row("random-64k", "random 64 KiB reads", "op/s", random_reads("64k", 12)),
    Row(
        "warm-4k",
        "random 4 KiB reads, O_DIRECT, warm",
        "op/s",
        warm_reads,
        systems=(*OURS, "passthrough_ll"),
    ),
    Row("walk", "mmap of the largest file, random page walk", "op/s", walk),
    Row("memmap", "np.memmap of it, sums by column", "MB/s", run=column_sums, need=need_numpy),
    Row(
        "small-files",
        "reading 10,000 files of 4 KiB",
        "op/s",
        lambda s, w: ["read", s.point / w.small.name],
    ),
    Row("list", "ls -lR of 10,000 files", "op/s", run=list_all),
    Row(
        "open-1TiB",
        "opening a frame of 1 TiB, beyond its index",
        "ms",
        prepare=put_sparse,
        run=open_sparse,
        need=sparse_tool,
        systems=("cframefs-zstd",),
    ),
]
SMALL_ROWS = {"small-files", "list"}

FLOORS = [
    Floor("sequential", "cframefs-zstd", "passthrough_ll", 1.5),
    Floor("sequential", "cframefs-zstd", "btrfs-zstd3", 1.4),
    Floor("sequential", "cframefs-zstd", "squashfs-zstd-1M", 1.8),
    Floor("sequential", "cframefs-lz4", "squashfs-lz4-128K", 1.2),
    Floor("parallel", "cframefs-zstd", "btrfs-zstd3", 1.2),
    Floor("random-4k", "cframefs-zstd", "btrfs-zstd3", 3.0),
    Floor("random-4k", "cframefs-zstd", "squashfs-zstd-128K", 3.0),
    Floor("random-4k", "cframefs-zstd", "passthrough_ll", 0.65),
    Floor("random-64k", "cframefs-zstd", "btrfs-zstd3", 1.5),
    Floor("warm-4k", "cframefs-zstd", "passthrough_ll", 1.2),
    Floor("walk", "cframefs-zstd", "btrfs-zstd3", 1.0),
    Floor("memmap", "cframefs-zstd", "btrfs-zstd3", 1.0),
    Floor("small-files", "cframefs-zstd", "passthrough_ll", 0.6),
    Floor("list", "cframefs-zstd", "passthrough_ll", 0.5),
    Floor("open-1TiB", "cframefs-zstd", "", 50),
    Floor("open-1TiB", "cframefs-zstd", "", 32, "mib"),
]
MEMORY_MIB = 128 + 64 + 64  # cache, dirty_max, and the rest
