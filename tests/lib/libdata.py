"""Bytes to write, of kinds that compress differently, generated from a seed; and digests."""

import array
import functools
import hashlib
import os
import random
from pathlib import Path

# Vectors that are too many for the repository; without them their tests skip.
VECTORS = Path(
    os.environ.get("CFRAMEFS_VECTORS") or Path(__file__).resolve().parents[3] / "shared/vectors"
)
KINDS = ("zeros", "ramp", "text", "noise", "runs", "floats")
WORDS = (
    b"the frame of a file holds chunks and the chunk of a frame holds blocks 0123456789\n".split(
        b" "
    )
)


# What five bits of the generator choose: half of the draws are none of the 16 words.
DRAWN = [WORDS[draw >> 3] + b" " if draw >> 3 < len(WORDS) else b"" for draw in range(256)]


def text(rng, size):
    """Words that rng.choice() draws, in a fraction of its time: it takes the upper bits of the
    generator's next 32, and the next ones where they are too large."""
    out = b""
    while len(out) < size:
        draws = rng.randbytes((size - len(out)) // 4 * 4 + 4)[3::4]
        out += b"".join(map(DRAWN.__getitem__, draws))
    return out[:size]


def runs(rng, size):
    out = bytearray()
    while len(out) < size:
        out += bytes([rng.randrange(256)]) * rng.randrange(1, 5000)
    return bytes(out[:size])


@functools.lru_cache(maxsize=8)  # many tests begin with the same file
def blob(seed, size, kind):
    """`size` bytes of a kind; always the same for the same arguments."""
    rng = random.Random(f"{seed} {kind}")
    if kind == "zeros":
        return bytes(size)
    if kind == "noise":
        return rng.randbytes(size)
    if kind == "ramp":
        start = rng.randrange(1 << 20)
        return array.array("I", range(start, start + size // 4 + 1)).tobytes()[:size]
    if kind == "floats":
        walk = [i * 0.25 + rng.random() for i in range(size // 8 + 1)]
        return array.array("d", walk).tobytes()[:size]
    return text(rng, size) if kind == "text" else runs(rng, size)


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def file_sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as f:
        while piece := f.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def tree_digest(top):
    """{relative path: (type, mode, size or target, sha256)} of a whole tree."""
    got = {}
    for path in sorted(top.rglob("*")):
        name = str(path.relative_to(top))
        if path.is_symlink():
            got[name] = ("link", str(path.readlink()))
        elif path.is_dir():
            got[name] = ("dir", path.stat().st_mode)
        else:
            got[name] = ("file", path.stat().st_mode, path.stat().st_size, file_sha256(path))
    return got
