"""What `bench ratio` stores: real files by class, and arrays whose best pipeline is known.

Files are copied flat into a directory a class. Large sources are cut: what a class compresses to
does not depend on how much of one kind there is.
"""

import bz2
import gzip
import lzma
import math
import random
import shutil
from pathlib import Path

import data
from host import BenchError

MB = 1_000_000
TAR_BYTES = 100 * MB
BIN_BYTES = 150 * MB
PACKED_BYTES = 8 * MB


def copied(files, directory):
    for source in files:
        shutil.copyfile(source, directory / source.name.replace(":", "_"))


def without_copies(files):
    """Packages hold some files twice; a file system that finds equal files
    would win by that alone."""
    seen, kept = set(), []
    for f in files:
        content = hash(f.read_bytes())
        if content not in seen:
            seen.add(content)
            kept.append(f)
    return kept


def scientific(directory):
    grids = [f for f in data.files_of("grids") if f.suffix in (".gsb", ".gtx")]
    copied(without_copies(data.files_of("fits") + data.files_of("images") + grids), directory)


def text(directory):
    copied(data.files_of("text"), directory)
    copied([f for f in data.files_of("grids") if f.suffix == ".db"], directory)
    source = data.kernel_source()
    with lzma.open(source) as packed, open(directory / "linux-source.tar", "wb") as out:
        out.write(packed.read(TAR_BYTES))


def executables(directory):
    taken, inodes = 0, set()
    for f in sorted(Path("/usr/bin").iterdir()):
        if not f.is_file() or f.is_symlink() or f.stat().st_ino in inodes:
            continue
        size = f.stat().st_size
        with open(f, "rb") as head:
            if size < MB or size + taken > BIN_BYTES or head.read(4) != b"\x7fELF":
                continue
        inodes.add(f.stat().st_ino)
        taken += size
        copied([f], directory)


def arrays(directory):
    try:
        import numpy as np
    except ImportError:
        raise BenchError("arrays need numpy: run the bench with a Python that has it") from None
    r = np.random.default_rng(6)
    np.save(directory / "walk-float64.npy", np.cumsum(r.normal(size=2_000_000)))
    t = np.arange(6_000_000) / 44100
    tone = (
        6000 * np.sin(2764.6 * t)
        + 2500 * np.sin(4155 * t + 1) * np.exp(-(t % 3))
        + r.normal(scale=60, size=t.size)
    )
    np.save(directory / "audio-int16.npy", tone.astype("<i2"))
    y, x = np.mgrid[0:3000, 0:4000]
    image = (
        120
        + 60 * np.sin(x / 300)
        + 40 * np.cos(y / 170 + x / 900)
        + r.normal(scale=2, size=x.shape)
    )
    np.save(directory / "image-uint8.npy", image.clip(0, 255).astype("u1"))
    n = 500_000
    rows = np.zeros(
        n,
        [
            ("id", "<u4"),
            ("t", "<f8"),
            ("x", "<f4"),
            ("y", "<f4"),
            ("flag", "<u2"),
            ("n", "<i2"),
            ("q", "<u4"),
        ],
    )
    rows["id"], rows["t"] = np.arange(n), 1.6e9 + np.cumsum(r.exponential(0.01, n))
    rows["x"], rows["y"] = r.normal(size=n).round(2), r.normal(size=n)
    rows["flag"], rows["n"], rows["q"] = (
        r.integers(0, 4, n),
        r.integers(-100, 100, n),
        r.integers(0, 1000, n),
    )
    np.save(directory / "records-28-bytes.npy", rows)


def packed(directory):
    """What no codec makes smaller: noise, and files that are compressed inside."""
    noise = random.Random(6)
    (directory / "noise").write_bytes(noise.randbytes(PACKED_BYTES))
    words = "".join(
        chr(97 + int(25 * math.sqrt(noise.random()))) for _ in range(2 * PACKED_BYTES)
    ).encode()
    (directory / "letters.gz").write_bytes(gzip.compress(words, 6, mtime=0))
    (directory / "letters.bz2").write_bytes(bz2.compress(words))
    source = data.kernel_source()
    with open(source, "rb") as f:
        (directory / "source.tar.xz").write_bytes(f.read(PACKED_BYTES))
    copied((data.fetch("gmt-gshhg-high") / "usr/share").rglob("*_h.nc"), directory)


def one_directory(source):
    """The files of a directory of the user's, as a class."""
    return lambda directory: copied(
        [f for f in sorted(Path(source).iterdir()) if f.is_file()], directory
    )


CLASSES = {
    "scientific": scientific,
    "arrays": arrays,
    "text": text,
    "executables": executables,
    "packed": packed,
}


def lay_out(classes, room, skipped):
    """{class: files, largest first}; a class that cannot be made here is left out, with the reason.
    classes: {name: what lays its files out}."""
    laid = {}
    for name, make in classes.items():
        directory = room / name
        directory.mkdir(parents=True)
        try:
            make(directory)
        except BenchError as why:
            skipped[name] = str(why)
            continue
        laid[name] = sorted(directory.iterdir(), key=lambda f: (-f.stat().st_size, f.name))
    return laid
