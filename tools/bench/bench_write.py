"""`bench write`: writes that reach the backing store, beside kernel and FUSE peers."""
from measure import Floor, Row

SYSTEMS = ["cframefs-zstd", "cframefs-lz4", "passthrough_ll-wb", "btrfs-zstd1", "btrfs-zstd3"]
FILLS = False       # every sample starts with an empty file system

PATCHES = 2048
SYNC_EVERY = 64
SMALL_FILES = 2000


def empty(system, _files):
    system.fresh()


def one_file(system, files):
    system.fill(patched(files))


def patched(files):
    """The largest file: patches land far apart."""
    return files[:1]


ROWS = [
    Row("sequential", "sequential write + fsync, whole set", "MB/s",
        lambda s, files: ["write", "-o", s.point] + files, empty),
    Row("patch-4k", f"random 4 KiB overwrite, fsync every {SYNC_EVERY}", "op/s",
        lambda s, files: ["patch", "-b", 4096, "-n", PATCHES, "-s", 21, "-f", SYNC_EVERY]
        + [s.point / f.name for f in patched(files)], one_file),
    Row("small-files", "new files of 4 KiB, then syncfs", "op/s",
        lambda s, files: ["small", "-b", 4096, "-n", SMALL_FILES, "-o", s.point] + patched(files), empty),
]

FLOORS = [Floor("sequential", "cframefs-zstd", "btrfs-zstd1", 0.5)]
MEMORY_MIB = 300
