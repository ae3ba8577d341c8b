"""The tuner: what it picks for data with a known answer, and that whatever it picks is sound."""

import base64
import bz2
import json
import lzma
import os
import struct
import subprocess
import zlib

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from libchunk import longest
from libcodec import Tool
from libmount import BUILD, CFRAME
from libtyped import MIB, audio_i2, image_u1, noise, records, rng, text, walk_f8

BALANCED, SIZE, SPEED = range(3)


class Choice:
    def __init__(self, line, chunk):
        words = line.split()
        self.pipeline, self.format = words[0], words[3]
        self.split, self.blocksize, self.item, self.period, self.permille, self.ntried = (
            int(words[i]) for i in (1, 2, 4, 5, 6, 7)
        )
        self.chunk = chunk
        *filters, self.codec = self.pipeline.split("+")
        self.filters = [f.split(":")[0] for f in filters]
        sizes = [int(f.split(":")[1]) for f in filters if ":" in f]
        self.typesize = sizes[0] if sizes else 1

    def __repr__(self):
        return f"{self.pipeline} ({self.permille} permille, {self.format})"


class Tuner:
    def __init__(self):
        self.proc = subprocess.Popen(
            [BUILD / "tests" / "c" / "tune_tool"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def ask(self, op, head, sample, aim=BALANCED, candidate=0, item=0, base=""):
        base = base.encode()
        self.proc.stdin.write(
            struct.pack("<8I", ord(op), aim, candidate, item, len(head), len(sample), len(base), 0)
        )
        self.proc.stdin.write(head + sample + base)
        self.proc.stdin.flush()
        answer = self.proc.stdout.read(12)
        assert len(answer) == 12, f"tune_tool died: {self.proc.wait()}"
        rc, nline, nchunk = struct.unpack("<iII", answer)
        line, chunk = self.proc.stdout.read(nline), self.proc.stdout.read(nchunk)
        return (rc, None) if rc < 0 else (rc, Choice(line.decode(), chunk))

    def choose(self, data, head=None, **kw):
        rc, choice = self.ask("c", data if head is None else head, data, **kw)
        assert rc == 0
        return choice


@pytest.fixture(scope="module")
def tuner():
    one = Tuner()
    yield one
    one.proc.stdin.close()
    assert one.proc.wait(250) == 0


@pytest.fixture(scope="module")
def codec():
    one = Tool()
    yield one
    one.proc.stdin.close()
    one.proc.wait(250)


def npy(array):
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


# What must be picked: item size, one of these filters.
KNOWN = [
    (walk_f8, 8, {"bytedelta", "bitshuffle"}),
    (audio_i2, 2, {"bytedelta"}),
    (image_u1, 1, {"bytedelta"}),
    (lambda: records().tobytes(), 28, {"bitshuffle", "bytedelta"}),
    (lambda: np.arange(MIB // 4, dtype="<u4").tobytes(), 4, {"bytedelta", "bitshuffle", "shuffle"}),
]


@pytest.mark.parametrize(
    "make, item, filters", KNOWN, ids=["walk", "audio", "image", "records", "counter"]
)
def test_known_answers(tuner, make, item, filters):
    got = tuner.choose(make())
    assert set(got.filters) & filters, got
    assert got.typesize == item, got


@pytest.mark.parametrize(
    "dtype, sigma, step", [("<i4", 1, 100), ("<i4", 10, 40), ("<u2", 3, 300), ("<u2", 1, 10)]
)
def test_levels_do_not_flatter_differences(tuner, dtype, sigma, step):
    """An image whose parts differ in brightness: differences are noisier than its bytes are."""
    rows = MIB // 512 // np.dtype(dtype).itemsize
    level = 300 + step * (np.arange(rows) * 4 // rows)[:, None]
    data = (level + rng().normal(scale=sigma, size=(rows, 512))).astype(dtype).tobytes()
    choice = tuner.choose(data)
    assert choice.filters == ["shuffle"] and choice.typesize == np.dtype(dtype).itemsize, choice


def one_hot():
    """Rows of 64 numbers, one of which is not zero."""
    return np.eye(64, dtype="<f4")[rng().integers(0, 64, MIB // 256)].tobytes()


@pytest.mark.parametrize(
    "make, most",
    [(lambda: (rng().random(MIB) < 0.1).astype("u1").tobytes(), 0.07), (one_hot, 0.01)],
    ids=["mask", "one-hot"],
)
def test_bits_of_sparse_items(tuner, make, most):
    """No code of a byte is shorter than a bit, but bits may be rarer than one in eight."""
    got = tuner.choose(make())
    assert got.filters == ["bitshuffle"] and len(got.chunk) < most * MIB, got


def test_one_place_does_not_decide(tuner):
    """An image with a header in its midst, just where a longer piece is looked at."""
    sky = rng().normal(300, 20, size=(512, 256))
    image = (sky + np.linspace(0, 900, 512)[:, None]).astype(">i2").tobytes()
    header = b"".join(b"%-80s" % (b"KEY%d" % i) for i in range(200))
    at = len(image) * 66 // 100
    data = image[:at] + header + image[at + len(header) :]
    got = tuner.choose(data)
    real = 1000 * len(got.chunk) / len(data)
    assert got.filters == ["shuffle"] and abs(got.permille - real) < real / 3, (got, real)


def test_one_place_does_not_overturn_all_others(tuner):
    """A row of a table with two long columns: times, then numbers of half the size with many equal
    ones. A longer piece lies in the second one."""
    times = 1.3e9 + np.cumsum(np.full(MIB // 16, 2.048))
    flux = np.repeat(rng().integers(0, 200, MIB // 128), 8) * 1e-8
    data = times.tobytes() + np.concatenate([flux, flux[::-1]]).astype("<f4").tobytes()
    got = tuner.choose(data)
    assert got.filters and len(got.chunk) < len(data) / 10, got


def relatives(n, length):
    """Genes of species that descend from each other, in rows of letters."""
    r, letters = rng(), np.frombuffer(b"acgt", "u1")
    rows = [r.choice(letters, length)]
    for i in range(1, n):
        row = rows[r.integers(0, i)].copy()
        hit = r.random(length) < 0.03
        row[hit] = r.choice(letters, int(hit.sum()))
        rows.append(row)
    return b"".join(b">species%d\n%s\n" % (i, row.tobytes()) for i, row in enumerate(rows))


def test_copies_a_row_away(tuner):
    """Too far for short pieces, for which it is four letters that a filter might suit."""
    data = relatives(120, 2500)
    assert len(tuner.choose(data).chunk) < 0.1 * len(data)


def neighbours():
    """Shapes of countries: their borders are rows of points, most of them of two countries."""
    r = rng()
    edges = [
        (r.uniform(-90, 90, 2) + np.cumsum(r.normal(scale=0.1, size=(n, 2)), axis=0)).tobytes()
        for n in r.integers(10, 60, 400)
    ]
    rings = [edges[i] + edges[i + 1 + i % 7] + edges[i + 12] for i in range(380)]
    return b"".join(struct.pack(">ii", i, len(ring)) + ring for i, ring in enumerate(rings))


def test_borders_of_neighbours(tuner):
    """Numbers that filters suit, were it not for copies which short pieces do not see."""
    data = neighbours()
    got = tuner.choose(data)
    assert not got.filters, got
    filtered = [size_of(tuner, data, n, ["shuffle", "bytedelta"]) for n in (8, 16)]
    assert len(got.chunk) < 0.9 * min(filtered), (got, filtered)


def docked(n):
    """One molecule in many places: lines of 64 bytes, and shorter ones between."""
    r = rng()
    base, charge = np.cumsum(r.normal(size=(49, 3)), axis=0) + 10, r.normal(scale=0.4, size=49)
    for k in range(n):
        yield f"@<TRIPOS>MOLECULE\nFXA{k}\n49 51 1 0 0\nSMALL\nUSER_CHARGES\n\n\n@<TRIPOS>ATOM\n"
        for i, at in enumerate(base + r.normal(scale=0.05, size=(49, 3))):
            name, kind = "CNOS"[i % 4] + str(i), ["C.ar", "O.3", "N.am"][i * i % 3]
            yield "%3d %-4s %10.4f%10.4f%10.4f %-5s 1 Q101  %8.4f \n" % (
                (i + 1, name, *at, kind, charge[i])
            )
        yield "@<TRIPOS>BOND\n"
        yield from ("%3d %3d %3d 1 \n" % (i + 1, i * 7 % 49, i * 5 % 49) for i in range(51))


def test_records_that_short_pieces_are_not_for(tuner):
    data = "".join(docked(260)).encode()[:MIB]
    got = tuner.choose(data)
    assert got.typesize == 64 and got.filters == ["shuffle"], got


def test_any_length(tuner, codec):
    for n in (1, 2, 31, 63, 64, 65, 100, 4095, 4351, 4352, 8193, 9000, 16385, 49153):
        for data in (npy(records()), walk_f8(), records().tobytes(), text()):
            assert codec.decode(tuner.choose(data[:n]).chunk) == data[:n]


def test_text_has_no_filter(tuner):
    got = tuner.choose(text())
    assert not got.filters and got.codec == "zstd:2" and got.blocksize == 96 << 10, got


@pytest.mark.parametrize(
    "make", [noise, lambda: zlib.compress(text() + noise())[:MIB]], ids=["random", "deflated"]
)
def test_what_does_not_shrink_is_stored(tuner, make):
    data = make()
    got = tuner.choose(data)
    assert got.codec == "store" and got.ntried <= 2, got
    assert len(got.chunk) <= longest(len(data))


def entropy_coded(n):
    """The scan of a JPEG: bytes of 255 are followed by 0."""
    return rng().bytes(n).replace(b"\xff", b"\xff\0")[:n]


def photograph(n, at, room):
    """With a profile of tables and a form in text, behind a thumbnail."""
    form = b"".join(b'<rdf:li xml:lang="x-%d">%d</rdf:li>\n' % (i, i * i) for i in range(room))
    profile = np.cumsum(rng().integers(0, 9, room), dtype="u2").tobytes()
    extra = (form[: room - room // 4] + profile)[:room]
    packed = entropy_coded(n - room)
    return packed[:at] + extra + packed[at:]


def twelve_bits(n):
    """Pixels of a camera, two in three bytes."""
    a = (2000 + rng().normal(scale=40, size=n // 3 * 2)).astype("u4")
    both = a[::2] | a[1::2] << 12
    return both.astype("<u4").view("u1").reshape(-1, 4)[:, :3].tobytes()


N = 300_000
PACKED = {
    "noise": lambda: rng().bytes(N),
    "deflated": lambda: zlib.compress(text() + noise())[:N],
    "bzip2": lambda: bz2.compress(base64.b64encode(noise()))[:N],
    "xz": lambda: lzma.compress(base64.b64encode(noise()[:N])),
    "jpeg": lambda: entropy_coded(N),
    "few soft places": lambda: photograph(N, 20_000, 3_000),
}
LOOKS_PACKED = {
    "photograph": lambda: photograph(N, 20_000, 30_000),
    "photograph, form behind": lambda: photograph(N, 200_000, 30_000),
    "doubles of noise": lambda: rng().random(N // 8).tobytes(),
    "floats of noise": lambda: rng().normal(size=N // 4).astype("<f4").tobytes(),
    "big-endian floats": lambda: rng().normal(size=N // 4).astype(">f4").tobytes(),
    "base64": lambda: base64.b64encode(rng().bytes(N)),
    "hex": lambda: rng().bytes(N // 2).hex().encode(),
    "two digits in a byte": lambda: (
        (rng().integers(0, 10, (N, 2)) @ [16, 1]).astype("u1").tobytes()
    ),
    "twelve bits": lambda: twelve_bits(N),
    "seven bits": lambda: rng().integers(0, 128, N, dtype="u1").tobytes(),
}


@pytest.mark.parametrize("kind", PACKED)
def test_packed_bytes_are_stored(tuner, kind):
    data = PACKED[kind]()
    got = tuner.choose(data)
    assert got.codec == "store" and len(got.chunk) <= longest(len(data)), got


@pytest.mark.parametrize("kind", LOOKS_PACKED)
def test_bytes_that_look_packed_are_not_stored(tuner, kind):
    """As small as by the best of all candidates, within 3 %, and smaller than they were."""
    data = LOOKS_PACKED[kind]()
    got, sizes = tuner.choose(data), []
    while (one := tuner.ask("n", b"", data, candidate=len(sizes)))[0] == 0:
        sizes.append(len(one[1].chunk))
    assert len(got.chunk) < 0.97 * len(data), got
    assert len(got.chunk) <= 1.03 * min(sizes), got


def test_packed_data_with_its_directory_behind(tuner):
    """As in a zip: no sample sees it."""
    directory = b"".join(b"PK\1\2%06dsome/path/to/Name%d.class" % (i, i) for i in range(500))
    data = noise()[:150_000] + directory
    assert len(tuner.choose(data).chunk) < len(data) - len(directory) / 2


def test_small_packed_members(tuner):
    """A jar of small classes: what lies between them comes again, but not within short pieces."""
    r, data = rng(), b""
    for i in range(1300):
        name = b"org/example/project/module/part%d/ClassOfThisName%d.class" % (i // 40, i)
        data += b"PK\3\4\x14\0\x08\x08\x08" + name + r.bytes(int(r.integers(500, 900)))
    got = tuner.choose(data[:MIB])
    assert len(got.chunk) < 0.97 * len(data[:MIB]), got


ROW = np.dtype(
    {
        "names": ["made", "page", "at", "bits", "a", "b", "c", "d"],
        "formats": ["<u4", "<u2", "<u2", "<u4", "<u4", "<u4", "<u4", "<f8"],
        "offsets": [0, 10, 12, 14, 24, 28, 32, 40],
        "itemsize": 48,
    }
)


def heap():
    """Rows in pages of 8 KiB, each of which is filled from its end, behind a list of pointers."""
    r, out = rng(), b""
    n = (8192 - 24) // (48 + 4)
    for page in range(MIB // 8192):
        rows = np.zeros(n, ROW)
        rows["made"], rows["page"], rows["at"], rows["bits"] = 741, page, np.arange(n), 0x18090004
        rows["a"] = page * n + np.arange(n)
        rows["b"], rows["c"], rows["d"] = 2 * rows["a"], r.integers(0, 10, n), r.random(n)
        pointers = (8192 - 48 * (np.arange(n) + 1) + (48 << 17)).astype("<u4").tobytes()
        out += (bytes(24) + pointers).ljust(8192 - 48 * n, b"\0") + rows[::-1].tobytes()
    return out


def test_rows_in_pages(tuner):
    """The rows of each page begin elsewhere in an item: short pieces do not show the columns."""
    got = tuner.choose(heap())
    assert got.typesize == 48, got


def test_pixels_around_a_black_bar(tuner):
    """In the middle of the chunk there is no period to be found."""
    y, x = np.mgrid[0:512, 0:512, 0:1][:2]
    shades = 90 + 50 * np.sin(x / 40) + 30 * np.cos(y / 30) + [0, 30, 60]
    image = (shades + rng().normal(scale=1.5, size=shades.shape)).astype("u1")
    image[250:262] = 0
    assert tuner.choose(image.tobytes()).period == 3


def test_noise_that_comes_again(tuner):
    """Genes of a family in two bits a letter: each with other faults, further away than pieces of a
    sample are long."""
    r = rng()
    gene = r.integers(0, 256, 30_000, dtype="u1")
    genes = np.tile(gene, (35, 1))
    genes[r.random(genes.shape) < 0.005] ^= 1
    assert len(tuner.choose(genes.tobytes()).chunk) < genes.size / 2


def test_lines_longer_than_an_item(tuner):
    """A table of text with lines of 156 bytes: two items each."""
    r, n = rng(), 5000
    walks = np.cumsum(r.normal(scale=1e-4, size=(n, 10)), axis=0)
    lines = [
        "%6d" % i + "".join("%14.7f" % x for x in row) + "  0.00004\n"
        for i, row in enumerate(walks)
    ]
    assert {len(line) for line in lines} == {156}
    data = "".join(lines).encode()
    got = tuner.choose(data)
    assert got.typesize == 78, got
    assert len(got.chunk) < 0.9 * len(tuner.ask("n", b"", data, candidate=1)[1].chunk), got


def test_lines_that_do_not_divide(tuner):
    """Columns of 14 in lines of 199: plain matches save much, columns more."""
    walks = np.cumsum(np.random.default_rng(0).normal(size=(5000, 8)), axis=0)
    lines = ["%6d " % i + " ".join("%13.5f" % x for x in row) for i, row in enumerate(walks)]
    choice = tuner.choose("".join(line.ljust(198) + "\n" for line in lines).encode()[:MIB])
    assert choice.filters and choice.typesize == 14, choice


def walks(n, columns):
    return np.cumsum(rng().normal(scale=3, size=(n, columns)), axis=0)


def size_of(tuner, data, item, filters):
    """Bytes of the sample by the candidate with these filters and this item."""
    for i in range(40):
        rc, got = tuner.ask("n", b"", data, candidate=i, item=item)
        assert rc == 0, "no such candidate"
        if got.filters == filters and got.typesize == item:
            return len(got.chunk)
    raise AssertionError("more candidates than there are")


def test_columns_of_a_long_line(tuner):
    """17 columns of 10 in lines of 170, whose half is no whole number of columns."""
    rows = walks(3000, 16)
    lines = ["%10d" % i + "".join("%10.3f" % x for x in row) for i, row in enumerate(rows)]
    data = "".join(line[:169] + "\n" for line in lines).encode()
    got = tuner.choose(data)
    assert got.typesize == 10, got
    assert len(got.chunk) < 0.9 * size_of(tuner, data, 85, ["shuffle"]), got


def test_lines_that_are_better_items_than_columns(tuner):
    """In a table numbers have those above them in common."""
    rows = np.sin(walks(3000, 6) / 40) * 1e-3
    data = "".join("".join("%13.5E" % x for x in row) + "\n" for row in rows).encode()
    got = tuner.choose(data)
    assert got.typesize == 79, got
    assert len(got.chunk) < 0.9 * size_of(tuner, data, 13, ["shuffle"]), got


@pytest.mark.parametrize("columns, rate", [(60, 0.3), (9, 0.15)])
def test_rows_of_0_and_1_in_text(tuner, columns, rate):
    """No bit of a comma is rare, but all are the same; and nearly all of those of a digit."""
    kinds = rng().random((20, columns)) < rate
    rows = kinds[rng().integers(0, 20, 400_000 // columns)]
    rows = rows ^ (rng().random(rows.shape) < 0.05)
    data = "".join(",".join("01"[int(x)] for x in row) + "\n" for row in rows).encode()
    got = tuner.choose(data)
    assert len(got.chunk) <= 1.01 * size_of(tuner, data, 1, ["bitshuffle"]), got


@pytest.mark.parametrize("n, blocksize", [(60_000, 0), (90_000, 96 << 10), (100_000, 0)])
def test_small_databases_are_one_block(tuner, n, blocksize):
    data = b"SQLite format 3\0" + bytes(84) + text()
    assert tuner.choose(data[:n]).blocksize == blocksize


def test_given_codec_and_level_stay(tuner):
    assert tuner.choose(walk_f8(), base="lz4:5").codec == "lz4:5"
    assert tuner.choose(text(), base="zstd:1").codec == "zstd:1"
    assert tuner.choose(text(), base="zstd:7").blocksize == 0
    assert tuner.choose(text(), base="store").codec == "store"


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


def pieces(draw):
    """Bytes with some structure: what filters are for, at any length."""
    kind = draw(st.sampled_from(["random", "runs", "counter", "walk", "record", "mix"]))
    n, seed = draw(st.integers(0, 200_000)), draw(st.integers(0, 99))
    r = np.random.default_rng(seed)
    size = draw(st.sampled_from([1, 2, 3, 4, 7, 8, 12, 16, 24, 28, 100, 255]))
    if kind == "random":
        return r.bytes(n)
    if kind == "runs":
        return np.repeat(r.integers(0, 256, n // 50 + 1).astype("u1"), 50).tobytes()[:n]
    if kind == "counter":
        return np.arange(n // 4 + 1, dtype="<u4").tobytes()[:n]
    if kind == "walk":
        return np.cumsum(r.integers(-3, 4, n)).astype("<i2").tobytes()[:n]
    row = r.bytes(size)
    rows = np.tile(np.frombuffer(row, "u1"), n // size + 1)[:n].copy()
    rows[:: size if kind == "record" else 3] += r.integers(
        0, 9, len(rows[:: size if kind == "record" else 3])
    ).astype("u1")
    return rows.tobytes()


data_strategy = st.composite(pieces)()


def reference_reads(choice, n):
    """The reference fails on its own chunks of one block that cuts an item, and
    knows no typesize above its own."""
    return n >= 32 and n % choice.typesize == 0


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    data=data_strategy,
    aim=st.sampled_from([BALANCED, SIZE, SPEED]),
    base=st.sampled_from(["", "", "zstd:1", "lz4:5", "zlib:3", "blosclz:5"]),
)
def test_any_choice_is_sound(tuner, codec, blosc2, data, aim, base):
    first, again = tuner.choose(data, aim=aim, base=base), tuner.choose(data, aim=aim, base=base)
    assert (first.pipeline, first.split, first.blocksize, first.chunk) == (
        again.pipeline,
        again.split,
        again.blocksize,
        again.chunk,
    )
    if not data:
        return
    assert len(first.chunk) <= longest(len(data))
    assert codec.decode(first.chunk) == data
    if reference_reads(first, len(data)):
        assert blosc2.decompress2(first.chunk) == data


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    data=data_strategy,
    aim=st.sampled_from([BALANCED, SPEED]),
    item=st.sampled_from([0, 3, 8, 12, 28, 76, 255]),
)
def test_every_candidate_is_sound(tuner, codec, blosc2, data, aim, item):
    seen, i = [], 0
    while True:
        rc, got = tuner.ask("n", b"", data, aim=aim, candidate=i, item=item)
        if rc < 0:
            break
        i += 1
        seen.append((got.pipeline, got.split, got.blocksize))
        if data:
            assert codec.decode(got.chunk) == data, got
            if reference_reads(got, len(data)):
                assert blosc2.decompress2(got.chunk) == data, got
    assert 14 <= i <= 24 and len(set(seen[2:])) == len(seen[2:])


def test_cframe_tune(tmp_path):
    path = tmp_path / "walk.npy"
    path.write_bytes(npy(np.frombuffer(walk_f8() * 2, "<f8")))

    def run(*argv):
        return subprocess.run([CFRAME, "tune", *argv], capture_output=True, text=True)

    got = run(path)
    assert (
        got.returncode == 0
        and "as tuned" in got.stdout
        and sum(line.startswith("*") for line in got.stdout.splitlines()) >= 2
    )
    (one,) = json.loads(run(path, "--json", "--all").stdout)
    assert one["size"] == os.path.getsize(path) == one["tuned"]["bytes"]
    assert one["format"] == "npy" and one["item"] == 8
    assert one["tuned"]["stored"] <= 1.03 * min(c["stored"] for c in one["candidates"])
    assert sum(c["chosen"] for c in one["candidates"]) == 1
    (tmp_path / "two").write_bytes(os.urandom(4 << 20) + path.read_bytes())
    (changing,) = json.loads(run(tmp_path / "two", "--json").stdout)
    assert len(changing["changes"]) > 1
    marked = [line for line in run(tmp_path / "two").stdout.splitlines() if line.startswith("*")]
    assert [line[2:10] for line in marked] == ["as tuned"], "not what only its beginning got"
    empty = tmp_path / "empty"
    empty.touch()
    os.mkfifo(tmp_path / "fifo")
    got = run(tmp_path / "fifo")
    assert (got.returncode, got.stderr) == (1, f"cframe: {tmp_path}/fifo: is not a regular file\n")
    assert run(empty).returncode == 0
    odd = bytes(tmp_path) + b'/\n"\xe2\x82\xac\xff\xe2\x82\xed\xa0\x80'
    os.rename(empty, odd)
    (one,) = json.loads(run(odd, "--json").stdout)
    assert one["file"] == f'{tmp_path}/\n"\u20ac??????'
    assert run(tmp_path / "absent").returncode != 0 and run().returncode != 0
