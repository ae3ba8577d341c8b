"""`bench read`: cold reads of real files, beside kernel and FUSE peers."""
from measure import Floor, Row

SYSTEMS = ["cframefs-zstd", "cframefs-lz4", "passthrough_ll", "btrfs-zstd3", "squashfs-zstd-128K",
           "squashfs-zstd-1M"]
FILLS = True        # every system holds the whole data set from the start

RANDOM = {"4k": 4000, "64k": 1000}


def paths(system, files):
    return [system.point / f.name for f in files]


def random_reads(size, seed):
    block = {"4k": 4096, "64k": 65536}[size]
    return lambda s, files: ["random", "-b", block, "-n", RANDOM[size], "-s", seed] + paths(s, files)


ROWS = [
    Row("sequential", "sequential read, whole set", "MB/s", lambda s, files: ["read"] + paths(s, files)),
    Row("parallel", "2 processes, 2 files at a time", "MB/s",
        lambda s, files: ["read", "-j", 2] + paths(s, files)),
    Row("random-4k", "random 4 KiB reads", "op/s", random_reads("4k", 11)),
    Row("random-64k", "random 64 KiB reads", "op/s", random_reads("64k", 12)),
]

FLOORS = [
    Floor("sequential", "cframefs-zstd", "passthrough_ll", 0.6),
    Floor("random-4k", "cframefs-zstd", "btrfs-zstd3", 1.0),
]
MEMORY_MIB = 300
