"""Bytes to write, made from a seed, of kinds that compress differently; and digests."""

import hashlib
import random
import struct

KINDS = ("zeros", "ramp", "text", "noise", "runs", "floats")
WORDS = (
    b"the frame of a file holds chunks and the chunk of a frame holds blocks 0123456789\n".split(
        b" "
    )
)


def blob(seed, size, kind):
    """`size` bytes of a kind; the same for the same arguments, for ever."""
    rng = random.Random(f"{seed} {kind}")
    if kind == "zeros":
        return bytes(size)
    if kind == "noise":
        return rng.randbytes(size)
    if kind == "ramp":
        start = rng.randrange(1 << 20)
        return b"".join(struct.pack("<I", start + i) for i in range(size // 4 + 1))[:size]
    if kind == "floats":
        return b"".join(struct.pack("<d", i * 0.25 + rng.random()) for i in range(size // 8 + 1))[
            :size
        ]
    out = bytearray()
    while len(out) < size:
        if kind == "text":
            out += rng.choice(WORDS) + b" "
        else:
            out += bytes([rng.randrange(256)]) * rng.randrange(1, 5000)
    return bytes(out[:size])


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
