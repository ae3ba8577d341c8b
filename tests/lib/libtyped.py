"""Megabytes of typed data for the tuner, each of a kind with a known answer."""

import numpy as np

MIB = 1 << 20


def rng():
    return np.random.default_rng(6)


def walk_f8():
    return np.cumsum(rng().normal(size=MIB // 8)).tobytes()


def audio_i2():
    t = np.arange(MIB // 2) / 44100
    return (6000 * np.sin(2764 * t) + rng().normal(scale=60, size=t.size)).astype("<i2").tobytes()


def image_u1():
    y, x = np.mgrid[0:1024, 0:1024]
    return (
        (120 + 60 * np.sin(x / 300) + 40 * np.cos(y / 170) + rng().normal(scale=2, size=x.shape))
        .astype("u1")
        .tobytes()
    )


RECORD = np.dtype(
    [
        ("id", "<u4"),
        ("t", "<f8"),
        ("x", "<f4"),
        ("y", "<f4"),
        ("flag", "<u2"),
        ("n", "<i2"),
        ("q", "<u4"),
    ]
)


def records():
    r, n = rng(), MIB // 28
    d = np.zeros(n, RECORD)
    d["id"], d["t"] = np.arange(n), 1.6e9 + np.cumsum(r.exponential(0.01, n))
    d["x"], d["y"], d["q"] = r.normal(size=n).round(2), r.normal(size=n), r.integers(0, 1000, n)
    d["flag"], d["n"] = r.integers(0, 4, n), r.integers(-100, 100, n)
    return d


def text():
    r = rng()
    words = [bytes(r.integers(97, 123, r.integers(2, 9)).astype("u1")) for _ in range(3000)]
    return b" ".join(words[i] for i in (r.zipf(1.3, 250000) % 3000))[:MIB]


def noise():
    return rng().bytes(MIB)


def npy(array):
    """An array as the bytes of a .npy file."""
    return (
        b"\x93NUMPY\x01\x00\x76\x00"
        + repr(
            {
                "descr": np.lib.format.dtype_to_descr(array.dtype),
                "fortran_order": False,
                "shape": array.shape,
            }
        )
        .encode()
        .ljust(117)
        + b"\n"
        + array.tobytes()
    )
