"""Real data sets, out of Debian packages that need not be installed.

The packages are fetched and unpacked once into a cache directory, which may be removed at any time.
"""

import os
import re
import shutil
import tempfile
from pathlib import Path

from host import BenchError, run

MB = 1_000_000

# name of the set: package, where in it, what of it
SETS = {
    "fits": ("astrometry-data-tycho2-07-littleendian", "usr/share/astrometry", ("*.fits",)),
    "images": ("eso-midas-testdata", "usr/lib/eso-midas", ("*",)),
    "grids": ("proj-data", "usr/share/proj", ("*.gsb", "*.gtx", "*.tif", "proj.db")),
    "text": ("wordnet-base", "usr/share/wordnet", ("data.*", "index.*")),
}
SMALLEST = MB  # the many small files of these packages would measure lookups, not data


def cache_dir():
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    path = Path(base) / "cframefs-bench"
    path.mkdir(parents=True, exist_ok=True)
    return path


def fetch(package):
    """Directory with the unpacked package. Two benches may fetch it at once."""
    target = cache_dir() / package
    if target.is_dir():
        return target
    with tempfile.TemporaryDirectory(prefix=".new-", dir=cache_dir()) as loading:
        unpacked = Path(loading) / "unpacked"
        unpacked.mkdir()
        run("dpkg", "-x", download(package, loading), unpacked)
        try:
            unpacked.rename(target)
        except OSError:
            if not target.is_dir():
                raise
    return target


def download(package, directory):
    """The package's file in that directory."""
    quiet = ("apt-get", "-q", "-o", "APT::Sandbox::User=root")
    try:
        run(*quiet, "download", package, cwd=directory)
    except BenchError:
        run(*quiet, "update")
        run(*quiet, "download", package, cwd=directory)
    return next(Path(directory).glob("*.deb"))


def kernel_source():
    """The packed tar of the kernel's source, of the version that this release of Debian has."""
    have = [d for d in cache_dir().iterdir() if re.fullmatch(r"linux-source-[\d.]+", d.name)]
    if have:
        where = min(have)
    else:
        run("apt-get", "-q", "update")
        depends = run("apt-cache", "depends", "linux-source")
        where = fetch(re.search(r"Depends: (linux-source-\S+)", depends)[1])
    return next((where / "usr/src").glob("linux-source-*.tar.xz"))


def files_of(name):
    """Files of one set, largest first; the order is the same everywhere."""
    package, where, patterns = SETS[name]
    found = {
        f
        for pattern in patterns
        for f in (fetch(package) / where).rglob(pattern)
        if f.is_file() and not f.is_symlink() and f.stat().st_size >= SMALLEST
    }
    if not found:
        raise BenchError(f"package {package}: no file of {' '.join(patterns)} in it")
    return sorted(found, key=lambda f: (-f.stat().st_size, f.name))


def lay_out(names, directory):
    """Copies the sets flat into a directory (in memory); the copies, largest first."""
    directory.mkdir()
    copies = []
    for name in names:
        for source in files_of(name):
            copy = directory / f"{name}-{source.name}"
            shutil.copyfile(source, copy)
            copies.append(copy)
    return sorted(copies, key=lambda f: (-f.stat().st_size, f.name))


def lay_out_directory(source, directory):
    """Copies of the files of a directory, largest first."""
    directory.mkdir()
    copies = []
    for f in sorted(Path(source).iterdir()):
        if f.is_file():
            copies.append(directory / f"given-{f.name}")
            shutil.copyfile(f, copies[-1])
    if not copies:
        raise BenchError(f"{source}: no files in it")
    return sorted(copies, key=lambda f: (-f.stat().st_size, f.name))


def lay_out_small(files, directory, count):
    """So many files of 4 KiB, a hundred a directory: pieces of all files, far from each other."""
    places = [(f, at) for f in files for at in range(0, f.stat().st_size - 4095, 4096)]
    step = len(places) / count
    for n in range(count):
        source, at = places[int(n * step)]
        where = directory / f"{n // 100:03d}"
        where.mkdir(parents=True, exist_ok=True)
        with open(source, "rb") as f:
            f.seek(at)
            (where / f"{n % 100:02d}.dat").write_bytes(f.read(4096))
    return directory


def describe(files):
    sets = {}
    for f in files:
        entry = sets.setdefault(f.name.split("-", 1)[0], {"files": 0, "bytes": 0})
        entry["files"] += 1
        entry["bytes"] += f.stat().st_size
    for name, entry in sets.items():
        entry["package"] = SETS[name][0] if name in SETS else ""
    return {"sets": sets, "files": len(files), "bytes": sum(f.stat().st_size for f in files)}
