"""The tuner: what is packed already is stored, and what only looks so is not."""

import base64
import bz2
import lzma
import zlib

import numpy as np
import pytest

from libchunk import longest
from libtyped import MIB, noise, rng, text


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
