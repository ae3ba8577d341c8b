"""The tuner: what it picks for numbers, images and records with a known answer,
and how `cframe tune` shows it."""

import json
import os
import pty
import subprocess

import numpy as np
import pytest

from libmount import CFRAME, REPO
from libtyped import MIB, audio_i2, image_u1, npy, records, rng, text, walk_f8

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


@pytest.mark.parametrize("n, blocksize", [(60_000, 0), (90_000, 96 << 10), (100_000, 0)])
def test_small_databases_are_one_block(tuner, n, blocksize):
    data = b"SQLite format 3\0" + bytes(84) + text()
    assert tuner.choose(data[:n]).blocksize == blocksize


def test_given_codec_and_level_stay(tuner):
    assert tuner.choose(walk_f8(), base="lz4:5").codec == "lz4:5"
    assert tuner.choose(text(), base="zstd:1").codec == "zstd:1"
    assert tuner.choose(text(), base="zstd:7").blocksize == 0
    assert tuner.choose(text(), base="store").codec == "store"


def test_a_terminal_obeys_no_name(tmp_path):
    path = tmp_path / "a\x1b[31mb"
    path.write_bytes(b"data")
    ours, its = pty.openpty()
    subprocess.run([CFRAME, "tune", path], stdout=its, check=True)
    os.close(its)
    assert b"a?[31mb: 4 bytes" in os.read(ours, 1000)
    os.close(ours)
    assert "a\x1b[31mb: 4" in subprocess.check_output([CFRAME, "tune", path], text=True)


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
    short = "/sys/devices/system/cpu/online"  # ends before its size
    got = run(short)
    said = f"cframe: {short}: became shorter while it was read\n"
    assert (got.returncode, got.stdout, got.stderr) == (1, "", said)
    odd = bytes(tmp_path) + b'/\n"\xe2\x82\xac\xff\xe2\x82\xed\xa0\x80'
    os.rename(empty, odd)
    (one,) = json.loads(run(odd, "--json").stdout)
    assert one["file"] == f'{tmp_path}/\n"\u20ac??????'
    assert one["tuned"]["pipeline"] == "zstd:1", "what a mount gives an empty file"
    assert run(tmp_path / "absent").returncode != 0 and run().returncode != 0


def test_a_frame_is_not_what_was_meant():
    """Its figures are those of bytes that are compressed already."""
    frame = REPO / "tests/data/frames/text-zstd.b2frame"
    got = subprocess.run([CFRAME, "tune", frame], capture_output=True, text=True)
    assert got.returncode == 0 and "as tuned" in got.stdout
    assert got.stderr.startswith(f"cframe: {frame}: is a frame, compressed already: ")
