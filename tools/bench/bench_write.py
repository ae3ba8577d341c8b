"""`bench write`: writes that reach the backing store, beside kernel and FUSE
peers. docs/BENCH.md says what each row means."""

import functools
import tarfile
import time
from pathlib import Path

import data
import host
from host import BenchError, Unavailable
from measure import Floor, Row, same_files

SYSTEMS = [
    "cframefs-zstd",
    "cframefs-fixed",
    "cframefs-lz4",
    "passthrough_ll-wb",
    "btrfs-zstd1",
    "btrfs-zstd3",
]
FILLS = False  # every sample starts with an empty file system
SMALL_ROWS = set()

PATCHES, PATCH_SEED = 2048, 21
SYNC_EVERY = 64
SMALL_FILES = 2000
APPENDS, APPEND_SYNC = 100_000, 1000
TAR_FILES = 5000


def empty(system, _work):
    system.fresh()


def one_file(system, work):
    system.fill(patched(work))


def patched(work):
    """The largest file: patches land far apart."""
    return work.files[:1]


def scaled(count, work):
    """Fewer where the data is small, as in a test of the bench itself."""
    return max(10, min(count, work.files[0].stat().st_size // 4096 // 4))


def source_tar(work):
    """The first files of the kernel's source, as a tar in memory; made once."""
    if work.settings.source_tar:
        return Path(work.settings.source_tar)
    tar = work.room / "source.tar"
    if not tar.exists():
        with tarfile.open(data.kernel_source()) as source, tarfile.open(tar, "w") as out:
            left = TAR_FILES
            for member in source:
                out.addfile(member, source.extractfile(member) if member.isfile() else None)
                left -= member.isfile()
                if not left:
                    break
    return tar


@functools.lru_cache
def files_in(tar):
    with tarfile.open(tar) as source:
        return sum(member.isfile() for member in source)


def need_source(settings):
    """Before anything is measured: hours later it would cost all that was."""
    try:
        if not settings.source_tar:
            data.kernel_source()
    except BenchError as why:
        raise Unavailable(str(why)) from None
    if settings.source_tar and not tarfile.is_tarfile(settings.source_tar):
        raise BenchError(f"{settings.source_tar}: no tar")


def draws(state):
    """As draw() in load.h."""
    mask = (1 << 64) - 1
    while True:
        state = (state + 0x9E3779B97F4A7C15) & mask
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        yield z ^ (z >> 31)


def check_bytes(system, name, wanted):
    if (system.point / name).read_bytes() != wanted:
        raise BenchError(f"{system.name}: {name} reads back as something else")


def check_copies(system, work):
    same_files(system, work.files)


def check_patches(system, work):
    (file,) = patched(work)
    source = file.read_bytes()
    wanted, drawn = bytearray(source), draws(PATCH_SEED)
    for _ in range(scaled(PATCHES, work)):
        at, to = (next(drawn) % (len(source) // 4096) * 4096 for _ in range(2))
        wanted[to : to + 4096] = source[at : at + 4096]
    check_bytes(system, file.name, wanted)


def pieces(work, numbers, size):
    """What `append` and `small` take from their source, one after the other."""
    source = patched(work)[0].read_bytes()
    for n in numbers:
        at = n * size % (len(source) - size)
        yield source[at : at + size]


def check_records(system, work):
    check_bytes(system, "log", b"".join(pieces(work, range(1, APPENDS + 1), 100)))


def check_small(system, work):
    for n, wanted in enumerate(pieces(work, range(scaled(SMALL_FILES, work)), 4096)):
        check_bytes(system, f"small-{n:06d}", wanted)


def check_tar(system, work):
    host.run("tar", "-df", source_tar(work), "-C", system.point)


def untar(system, work):
    tar = source_tar(work)
    files = files_in(tar)
    start = time.monotonic()
    host.run("tar", "-xf", tar, "-C", system.point)
    host.run("sync", "-f", system.point)
    return {"seconds": time.monotonic() - start, "ops": files, "bytes": tar.stat().st_size}


ROWS = [
    Row(
        "sequential",
        "sequential write + fsync, whole set",
        "MB/s",
        lambda s, w: ["write", "-o", s.point] + w.files,
        empty,
        check=check_copies,
    ),
    Row(
        "patch-4k",
        f"random 4 KiB overwrite, fsync every {SYNC_EVERY}",
        "op/s",
        lambda s, w: (
            ["patch", "-b", 4096, "-n", scaled(PATCHES, w), "-s", PATCH_SEED, "-f", SYNC_EVERY]
            + [s.point / f.name for f in patched(w)]
        ),
        one_file,
        check=check_patches,
    ),
    Row(
        "append",
        f"appending records of 100 bytes, fsync every {APPEND_SYNC:,}",
        "op/s",
        lambda s, w: (
            ["append", "-b", 100, "-n", APPENDS, "-f", APPEND_SYNC, "-o", s.point] + patched(w)
        ),
        empty,
        check=check_records,
    ),
    Row(
        "small-files",
        "new files of 4 KiB, then syncfs",
        "op/s",
        lambda s, w: (
            ["small", "-b", 4096, "-n", scaled(SMALL_FILES, w), "-o", s.point] + patched(w)
        ),
        empty,
        check=check_small,
    ),
    Row(
        "untar",
        "untar of 5,000 files of source, then syncfs",
        "op/s",
        prepare=empty,
        run=untar,
        check=check_tar,
        need=need_source,
    ),
]

FLOORS = [
    Floor("sequential", "cframefs-zstd", "btrfs-zstd1", 1.5),
    Floor("sequential", "cframefs-fixed", "btrfs-zstd1", 1.6),
    Floor("sequential", "cframefs-fixed", "passthrough_ll-wb", 0.6),
    Floor("sequential", "cframefs-lz4", "passthrough_ll-wb", 0.8),
    Floor("patch-4k", "cframefs-zstd", "btrfs-zstd3", 2.0),
    Floor("untar", "cframefs-zstd", "passthrough_ll-wb", 0.5),
]
MEMORY_MIB = 128 + 64 + 64  # cache, dirty_max, and the rest
