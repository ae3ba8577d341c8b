"""The tuner: lines and columns of text, and copies that short pieces do not show."""

import struct

import numpy as np
import pytest

from libtune import SIZE
from libtyped import MIB, rng, text


def size_of(tuner, data, item, filters):
    """Bytes of the sample by the candidate with these filters and this item."""
    for i in range(40):
        rc, got = tuner.ask("n", b"", data, candidate=i, item=item)
        assert rc == 0, "no such candidate"
        if got.filters == filters and got.typesize == item:
            return len(got.chunk)
    raise AssertionError("more candidates than there are")


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


def test_text_has_no_filter(tuner):
    got = tuner.choose(text())
    assert not got.filters and got.codec == "zstd:2" and got.blocksize == 96 << 10, got


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


FEW_VALUES = {
    "letters of genes": lambda: bytes(rng().choice(list(b"ACGT"), MIB).astype("u1")),
    "digits": lambda: bytes(rng().choice(list(b"0123456789"), MIB).astype("u1")),
    "base 16": lambda: rng().bytes(MIB // 2).hex().encode(),
    "words": text,
}


@pytest.mark.parametrize("kind", FEW_VALUES)
def test_for_size_is_never_larger(tuner, kind):
    """The level for it takes matches that are chance; of words they are not."""
    data = FEW_VALUES[kind]()
    got, usual = tuner.choose(data, aim=SIZE), tuner.choose(data)
    assert len(got.chunk) < 1.002 * len(usual.chunk), got
    assert got.codec == ("zstd:3" if kind == "words" else "zstd:2"), got


@pytest.mark.parametrize("base", ["lz4:5", "lz4hc:5", "blosclz:5"])
def test_bits_of_few_values_for_codecs_of_matches(tuner, base):
    """There are none in digits. In words there are, which their bits would not have."""
    for kind, most in ("digits", 0.53), ("base 16", 0.79):
        data = FEW_VALUES[kind]()
        got = tuner.choose(data, base=base)
        assert got.filters == ["bitshuffle"] and got.typesize == 1, got
        assert len(got.chunk) < most * len(data), got
    assert not tuner.choose(text(), base=base).filters
