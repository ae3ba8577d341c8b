"""The tuner: what it reads from headers of files, whole or hostile."""

import struct

import numpy as np
import pytest

from libtyped import npy, records, rng, walk_f8

HEADERS = [
    ("npy", lambda: npy(np.zeros((40, 50), ">f4")), 4),
    ("npy", lambda: npy(np.zeros(40, "<c16")), 8),
    ("npy", lambda: npy(records()[:9]), 0),
    ("fits", lambda: fits([("SIMPLE", "T"), ("BITPIX", "-32"), ("NAXIS", "2")]), 4),
    (
        "fits",
        lambda: (
            fits([("SIMPLE", "T"), ("BITPIX", "8"), ("NAXIS", "0")])
            + fits(
                [
                    ("XTENSION", "'BINTABLE'"),
                    ("BITPIX", "8"),
                    ("NAXIS", "2"),
                    ("NAXIS1", "36"),
                    ("NAXIS2", "9000"),
                ]
            )
        ),
        0,
    ),
    (
        "spe",
        lambda: bytes(108) + struct.pack("<H", 3) + bytes(4098 - 110) + b"\x55\x55" + bytes(9),
        2,
    ),
    ("nifti", lambda: struct.pack("<i66xhh", 348, 16, 32).ljust(344, b"\0") + b"n+1\0", 4),
    (
        "wav",
        lambda: (
            b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0"
            + struct.pack("<HHIIHH", 1, 2, 44100, 176400, 4, 16)
            + bytes(9)
        ),
        2,
    ),
    ("netcdf", lambda: b"CDF\x01" + bytes(40), 0),
    (
        "tiff",
        lambda: b"II*\0\x08\0\0\0" + struct.pack("<HHHIIHHII", 2, 258, 3, 1, 16, 259, 3, 1, 1),
        2,
    ),
    (
        "tiff",
        lambda: (
            b"MM\0*\0\0\0\x08" + struct.pack(">HHHIHHHHIHH", 2, 258, 3, 1, 32, 0, 259, 3, 1, 1, 0)
        ),
        4,
    ),
    ("pgm", lambda: b"P5 640 480 65535\n" + bytes(9), 2),
    ("ppm", lambda: b"P6\n640 480\n255\n" + bytes(9), 1),
    ("ntv2", lambda: b"NUM_OREC" + bytes(60), 4),
    ("gtx", lambda: struct.pack(">ddddii", -90, -180, 0.25, 0.25, 721, 1440), 4),
    ("elf", lambda: b"\x7fELF" + bytes(60), 0),
    ("sfnt", lambda: struct.pack(">IHHHH4s12x4s12x", 0x10000, 9, 128, 3, 16, b"GDEF", b"GPOS"), 0),
    ("sqlite", lambda: b"SQLite format 3\0" + bytes(90), 0),
]


def fits(cards):
    return "".join(
        f"{key:8}= {value:{'<' if value[0] == chr(39) else '>'}20}".ljust(80)
        for key, value in cards
    ).ljust(2800).encode() + b"END".ljust(80)


@pytest.mark.parametrize(
    "name, make, item", HEADERS, ids=[f"{h[0]}-{i}" for i, h in enumerate(HEADERS)]
)
def test_headers(tuner, name, make, item):
    got = tuner.choose(walk_f8()[:4096], head=make())
    assert (got.format, got.item) == (name, item)


def test_rows_of_a_table(tuner):
    """The length of a row stands in the header, and its items are found with it."""
    r, n = rng(), 20_000
    rows = np.zeros(n, [("id", ">i4"), ("pos", ">f8", 2), ("mag", ">f4", 4)])
    rows["id"], rows["pos"] = np.arange(n), np.sort(r.uniform(0, 360, (n, 2)), axis=0)
    rows["mag"] = r.normal(12, 2, (n, 4)).round(2)
    table = next(make for name, make, item in HEADERS if name == "fits" and item == 0)
    got = tuner.choose(table() + rows.tobytes())
    assert got.format == "fits" and got.typesize == 36, got


@pytest.mark.parametrize(
    "name, make, item", HEADERS, ids=[f"{h[0]}-{i}" for i, h in enumerate(HEADERS)]
)
def test_hostile_headers(tuner, name, make, item):
    """Cut short, and with other bytes in them: nothing outside is read (run under a sanitizer)."""
    head, r, data = make()[:6000], np.random.default_rng(7), bytes(range(256)) * 4
    for n in range(0, len(head), 1 + len(head) // 200):
        tuner.choose(data, head=head[:n])
    for _ in range(300):
        bad = bytearray(head)
        for at in r.integers(0, len(bad), r.integers(1, 5)):
            bad[at] = r.choice([0, 1, 0x7F, 0x80, 0xFF, r.integers(0, 256)])
        tuner.choose(data, head=bytes(bad))
