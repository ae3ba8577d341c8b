"""Chunks built by hand: every odd form that is legal, and every lie of the
checklist (FORMAT.md 16)."""

import contextlib
import struct
import zlib

import pytest

from libcodec import EBADMSG, ENOTSUP, Refused

SHUFFLE, BITSHUFFLE, DELTA, BYTEDELTA_OLD, BYTEDELTA = 1, 2, 3, 34, 35
ZLIB, ZSTD = 3, 4  # compformat
NOSPLIT = 0x10


def header(
    nbytes,
    blocksize,
    cbytes,
    version=5,
    flags=NOSPLIT | ZLIB << 5,
    typesize=1,
    filters=(),
    metas=(),
    udcodec=0,
    flags2=0,
    blosc2_flags=0,
):
    filters, metas = bytes(6 - len(filters)) + bytes(filters), bytes(6 - len(metas)) + bytes(metas)
    return (
        struct.pack("<BBBBIII", version, 1, flags | 5, typesize, nbytes, blocksize, cbytes)
        + filters
        + bytes([udcodec, 0])
        + metas
        + bytes([flags2, blosc2_flags])
    )


def stream(data, form="zlib"):
    if form == "plain":
        return struct.pack("<i", len(data)) + data
    if form == "run":
        return struct.pack("<i", -data[0]) + b"\1" if data[0] else bytes(4)
    packed = zlib.compress(data)
    return struct.pack("<i", len(packed)) + packed


def chunk(nbytes, blocksize, blocks, order=None, gap=0, extra=b"", head_len=32, **kw):
    """blocks: stored bytes of each; order: that of their places in the chunk."""
    at = head_len + 4 * len(blocks) + len(extra)
    starts, body = [0] * len(blocks), b""
    for i in order or range(len(blocks)):
        starts[i] = at + len(body)
        body += blocks[i] + bytes(gap)
    tail = b"".join(struct.pack("<I", s) for s in starts) + extra + body
    cbytes = kw.pop("cbytes", head_len + len(tail))
    if head_len == 16:
        return (
            struct.pack(
                "<BBBBIII", kw["version"], 1, kw["flags"], kw["typesize"], nbytes, blocksize, cbytes
            )
            + tail
        )
    return header(nbytes, blocksize, cbytes, **kw) + tail


def pattern(n, a=7):
    return bytes((i * a + i // 50) & 255 for i in range(n))


def refused(codec_tool, data, rc=EBADMSG, item=0):
    for op in (codec_tool.decode, codec_tool.blocks):
        with pytest.raises(Refused) as e:
            op(data, item)
        assert e.value.rc == rc, e.value.why
    return e.value.why


# ---- legal ----


@pytest.mark.parametrize("order, gap", [(None, 0), ([2, 0, 1], 0), ([2, 1, 0], 3), (None, 17)])
def test_blocks_in_any_order_with_gaps(codec_tool, order, gap):
    data = pattern(2500)
    blocks = [stream(data[i : i + 1000]) for i in range(0, 2500, 1000)]
    assert codec_tool.both(chunk(2500, 1000, blocks, order, gap)) == data


def test_two_blocks_may_share_their_bytes(codec_tool):
    one = stream(pattern(1000))
    c = bytearray(chunk(2000, 1000, [one, b""]))
    c[36:40] = c[32:36]
    assert codec_tool.both(bytes(c)) == pattern(1000) * 2


@pytest.mark.parametrize("value", [0, 1, 7, 128, 255])
def test_runs(codec_tool, value):
    assert codec_tool.both(chunk(100, 100, [stream(bytes([value]), "run")])) == bytes([value]) * 100


def test_other_bits_of_a_run_token_mean_nothing(codec_tool):
    assert codec_tool.both(chunk(100, 100, [struct.pack("<i", -9) + b"\xff"])) == b"\x09" * 100


def test_worked_example(codec_tool):
    """Put together by hand: two planes of shuffled items, one plain and the other a run."""
    c = bytes.fromhex(
        "0501050280000000800000006D000000000000000001000000000000000000002400000040000000"
    )
    c += bytes(range(64)) + bytes.fromhex("F9FFFFFF01")
    assert codec_tool.both(c) == b"".join(bytes([i, 7]) for i in range(64))


def test_blosclz_example(codec_tool):
    """FORMAT.md 6.1"""
    payload = bytes.fromhex("29") + b"abcdefghij" + bytes.fromhex("E0FFFFFFD50902") + b"hij"
    block = struct.pack("<i", len(payload)) + payload
    assert codec_tool.both(chunk(1000, 1000, [block], flags=NOSPLIT)) == b"abcdefghij" * 100


@pytest.mark.parametrize("pad", [0, 1, 40])
def test_blosclz_far_match(codec_tool, pad):
    """A distance beyond 8191, then one literal at the end."""
    start, out = bytes((i * i >> 3) & 255 for i in range(9000 + pad)), bytearray()
    for at in range(0, len(start), 32):
        part = start[at : at + 32]
        out += bytes([len(part) - 1]) + part
    dist = 8500
    d = dist - 8192
    out += bytes([(7 << 5) | 31, 20, 255, d >> 8, d & 255]) + b"\0!"
    data = start + start[len(start) - dist :][:29] + b"!"
    block = struct.pack("<i", len(out)) + bytes(out)
    assert codec_tool.both(chunk(len(data), len(data), [block], flags=NOSPLIT)) == data


@pytest.mark.parametrize(
    "kind, item, typesize, want",
    [
        (1, b"", 4, b"\0"),
        (2, b"", 4, b"\0\0\xc0\x7f"),
        (2, b"", 8, b"\0\0\0\0\0\0\xf8\x7f"),
        (3, b"\1\2\3\4", 4, b"\1\2\3\4"),
        (3, b"abc" * 100, 1, b"abc" * 100),
        (4, b"", 4, b"\0"),
    ],
)
def test_special_values(codec_tool, kind, item, typesize, want):
    n = 1200
    blocksize = 600 if n % 600 == 0 and 600 % len(want) == 0 else n
    c = (
        header(n, blocksize, 32 + len(item), flags=0, typesize=typesize, blosc2_flags=kind << 4)
        + item
    )
    assert codec_tool.both(c) == want * (n // len(want))


def test_trailing_bytes_of_a_special_chunk_are_ignored(codec_tool):
    assert codec_tool.both(header(100, 100, 40, flags=0, blosc2_flags=0x10) + b"rubbish!") == bytes(
        100
    )


def test_empty(codec_tool):
    assert codec_tool.both(header(0, 1, 32, flags=2)) == b""
    assert codec_tool.both(struct.pack("<BBBBIII", 2, 1, 0x13 & ~4, 1, 0, 1, 16)) == b""
    # what the reference makes of no bytes when a dictionary is asked for: a copy of zeros
    assert codec_tool.both(header(0, 1, 32, flags=2, blosc2_flags=0x10)) == b""


def test_stored_with_dictionary_flag(codec_tool):
    data = pattern(100)
    assert (
        codec_tool.both(header(100, 100, 132, flags=2 | ZSTD << 5, blosc2_flags=1) + data) == data
    )


def test_dictionary_of_a_codec_without_takes_its_place(codec_tool):
    data = pattern(500)
    assert (
        codec_tool.both(
            chunk(500, 500, [stream(data)], extra=struct.pack("<I", 10) + b"x" * 10, blosc2_flags=1)
        )
        == data
    )


def test_block_size_that_is_no_multiple_is_rounded(codec_tool):
    """FORMAT.md 2.5"""
    data = pattern(1001)
    blocks = [stream(data[:1000]), stream(data[1000:], "plain")]
    assert codec_tool.both(chunk(1001, 1001, blocks, typesize=8)) == data


def test_alpha_ignores_the_last_slot(codec_tool):
    data = pattern(500)
    assert codec_tool.both(chunk(500, 500, [stream(data)], version=3, filters=[99])) == data
    refused(codec_tool, chunk(500, 500, [stream(data)], version=4, filters=[99]), ENOTSUP)


def test_unknown_versions_decode(codec_tool):
    data = pattern(500)
    for version in (0, 1, 4, 6, 99, 255):
        assert codec_tool.both(chunk(500, 500, [stream(data)], version=version)) == data


def test_beta_with_dictionary_that_forgot_not_to_split(codec_tool):
    """FORMAT.md 3.3: the flag says split, the bytes are one stream."""
    import blosc2

    data = b"".join(b"%05d," % (i % 321) for i in range(3000))
    c = bytearray(
        blosc2.compress2(
            data,
            codec=blosc2.Codec.ZSTD,
            typesize=4,
            clevel=9,
            filters=[],
            filters_meta=[],
            use_dict=True,
            blocksize=3000,
            nthreads=1,
        )
    )
    assert c[31] & 1 and c[2] & NOSPLIT
    c[0], c[2] = 4, c[2] & ~NOSPLIT
    assert codec_tool.both(bytes(c)) == data


@pytest.mark.parametrize(
    "typesize, blocksize, split",
    [(4, 1024, True), (4, 508, False), (16, 2048, True), (17, 3400, False)],
)
def test_blosc1_splits_by_size(codec_tool, typesize, blocksize, split):
    data = pattern(blocksize)
    each = blocksize // (typesize if split else 1)
    block = b"".join(stream(data[i : i + each]) for i in range(0, blocksize, each))
    c = chunk(
        blocksize, blocksize, [block], head_len=16, version=2, flags=ZLIB << 5, typesize=typesize
    )
    assert codec_tool.both(c) == data
    each = blocksize // typesize
    block = b"".join(stream(data[i : i + each]) for i in range(0, blocksize, each))
    c = chunk(
        blocksize, blocksize, [block], head_len=16, version=4, flags=ZLIB << 5, typesize=typesize
    )
    assert codec_tool.both(c) == data


def bitshuffled(data, size):
    n = len(data) // size // 8 * 8
    out = bytearray(n * size)
    for e in range(n):
        for k in range(size):
            for b in range(8):
                if data[e * size + k] >> b & 1:
                    out[(8 * k + b) * (n // 8) + e // 8] |= 1 << e % 8
    return bytes(out) + data[n * size :]


@pytest.mark.parametrize("version, n", [(2, 128), (2, 130), (2, 36), (4, 128), (4, 130), (4, 36)])
def test_bit_shuffle_of_both_ages(codec_tool, version, n):
    data = pattern(n)
    moved = data if version == 2 and n // 4 % 8 else bitshuffled(data, 4)
    c = chunk(
        n,
        n,
        [stream(moved, "plain")]
        if n % 4 == 0
        else [stream(moved[: n - n % 4], "plain"), stream(moved[-(n % 4) :], "plain")],
        head_len=16,
        version=version,
        flags=NOSPLIT | 4,
        typesize=4,
    )
    assert codec_tool.both(c) == data


def test_bit_shuffle_example(codec_tool):
    """FORMAT.md 5.3"""
    items = [1, 2, 3, 4, 5, 6, 7, 8, 0x102]
    data = b"".join(struct.pack("<H", i) for i in items)
    moved = bytes.fromhex("55667880") + bytes(12) + b"\x02\x01"
    assert (
        codec_tool.both(chunk(18, 18, [stream(moved, "plain")], typesize=2, filters=[BITSHUFFLE]))
        == data
    )


def delta_words(size):
    return size if size in (1, 2, 4, 8) else 8 if size % 8 == 0 else 1


@pytest.mark.parametrize("typesize", [1, 2, 3, 4, 8, 12, 16, 24])
@pytest.mark.parametrize("slots", [[DELTA], [SHUFFLE, DELTA]])
def test_delta_refers_to_the_decoded_block_0(codec_tool, typesize, slots):
    blocksize, w = 48, delta_words(typesize)
    data = pattern(4 * blocksize - 24, 11)

    def shuffle(v):
        n = len(v) // typesize
        return (
            bytes(v[i * typesize + j] for j in range(typesize) for i in range(n))
            + v[n * typesize :]
            if SHUFFLE in slots
            else v
        )

    blocks = []
    for at in range(0, len(data), blocksize):
        v = shuffle(data[at : at + blocksize])
        done = len(v) // w * w
        if at:
            v = bytes(a ^ b for a, b in zip(v[:done], data)) + v[done:]
        else:
            v = v[:w] + bytes(a ^ b for a, b in zip(v[w:done], v)) + v[done:]
        blocks.append(stream(v))
    assert (
        codec_tool.both(chunk(len(data), blocksize, blocks, typesize=typesize, filters=slots))
        == data
    )


def test_bytedelta_takes_its_width_from_whoever_knows(codec_tool):
    c = chunk(7, 7, [stream(bytes.fromhex("0A0A0A290B0B07"), "plain")], filters=[BYTEDELTA])
    assert codec_tool.both(c, item=2) == bytes.fromhex("0A141E29343F07")
    refused(codec_tool, c)
    c = chunk(
        7, 7, [stream(bytes.fromhex("0A0A0A290B0B07"), "plain")], filters=[BYTEDELTA], metas=[2]
    )
    assert codec_tool.both(c) == bytes.fromhex("0A141E29343F07")


def test_old_bytedelta_starts_anew_behind_whole_sixteens(codec_tool):
    data = bytes(i * 5 & 255 for i in range(40))
    moved = b""
    for plane in (data[:20], data[20:]):
        moved += bytes(
            (v - (plane[i - 1] if i and i != 16 else 0)) & 255 for i, v in enumerate(plane)
        )
    assert (
        codec_tool.both(chunk(40, 40, [stream(moved, "plain")], filters=[BYTEDELTA_OLD], metas=[2]))
        == data
    )


def vl(sizes, data, filters=(), order=None, plain=False, **kw):
    blocks, at = [], 0
    for n in sizes:
        part = data[at : at + n]
        blocks.append(struct.pack("<i", n) + (part if plain else zlib.compress(part)))
        at += n
    return chunk(
        kw.pop("nbytes", at), len(sizes), blocks, order, version=6, flags2=1, filters=filters, **kw
    )


def test_variable_length_blocks(codec_tool):
    data = pattern(3000)
    for sizes in ([3000], [1, 2, 2997], [1000, 1000, 1000], [2000, 999, 1]):
        assert codec_tool.both(vl(sizes, data)) == data
        assert codec_tool.both(vl(sizes, data, plain=True)) == data


def test_variable_length_blocks_each_stand_for_themselves_under_delta(codec_tool):
    data, plain = b"", b""
    for n in (10, 300, 7):
        part = pattern(n, n)
        plain += part
        data += bytes([part[0]]) + bytes(a ^ b for a, b in zip(part[1:], part))
    assert codec_tool.both(vl([10, 300, 7], data, [DELTA])) == plain


# ---- lies ----


def good(**kw):
    data = pattern(2500)
    return chunk(2500, 1000, [stream(data[i : i + 1000]) for i in range(0, 2500, 1000)], **kw)


def patched(at, fmt, value, **kw):
    c = bytearray(good(**kw))
    struct.pack_into("<" + fmt, c, at, value)
    return bytes(c)


def test_every_cut_is_noticed(codec_tool):
    c = good()
    for n in range(len(c)):
        refused(codec_tool, c[:n])


@pytest.mark.parametrize(
    "at, fmt, values",
    [
        (3, "B", [0]),
        (4, "i", [-1, -(2**31), 2147483616, 2**31 - 1]),
        (8, "i", [0, -1, 536866817]),
        (12, "i", [-1, 0, 15, 31, 2**31 - 1]),
        (0x1F, "B", [8, 0x50, 0x60, 0x70]),
        (0x15, "B", [5, 31]),
        (32, "i", [0, -1, 32, 43, 2**31 - 1]),
        (8, "i", [1, 3]),
    ],
)
def test_numbers_out_of_range(codec_tool, at, fmt, values):
    for value in values:
        refused(codec_tool, patched(at, fmt, value))


@pytest.mark.parametrize(
    "at, value", [(0x1F, 0x80), (0x1E, 2), (0x15, 32), (0x15, 33), (0x15, 37), (0x15, 200)]
)
def test_forms_that_are_not_built_in(codec_tool, at, value):
    refused(codec_tool, patched(at, "B", value), ENOTSUP)


@pytest.mark.parametrize(
    "form, udcodec, rc, name",
    [
        (2, 0, ENOTSUP, "snappy"),
        (5, 0, ENOTSUP, "lizard"),
        (7, 0, EBADMSG, ""),
        (6, 0, EBADMSG, ""),
        (6, 31, EBADMSG, ""),
        (6, 32, ENOTSUP, "ndlz"),
        (6, 33, ENOTSUP, "zfp_acc"),
        (6, 38, ENOTSUP, "openzl"),
        (6, 200, ENOTSUP, ""),
    ],
)
def test_codecs_that_are_not_built_in(codec_tool, form, udcodec, rc, name):
    assert name in refused(codec_tool, good(flags=NOSPLIT | form << 5, udcodec=udcodec), rc)


@pytest.mark.parametrize(
    "block",
    [
        b"",
        b"\1\0\0",
        struct.pack("<i", 50),
        struct.pack("<i", 2**31 - 1),
        struct.pack("<i", -256) + b"\1",
        struct.pack("<i", -5) + b"\2",
        struct.pack("<i", -(2**31)) + b"\1",
        struct.pack("<i", -5),
        stream(pattern(99)),
        stream(pattern(101)),
        stream(pattern(100))[:-1],
        struct.pack("<i", 3) + b"abc",
    ],
)
def test_broken_streams(codec_tool, block):
    refused(codec_tool, chunk(100, 100, [block]))


@pytest.mark.parametrize(
    "payload",
    [
        "20",
        "1F",
        "0061 E0",
        "0061 E0FF",
        "0061 E0FFFF",
        "0061 2000",
        "0061 200061",
        "0061 E0FF0000",
        "0061 E05A01 0061",
        "0061 FF5AFF",
        "0061 FF5AFF00",
        "0061 FF5AFF0000",
        "0061 FF5AFF000000 61",
        "0061 E0FFFFFFFFFF00 0061",
        "0061 E05900 0061 0061",
        "0061 E05900",
    ],
)
def test_broken_blosclz(codec_tool, payload):
    payload = bytes.fromhex(payload)
    refused(codec_tool, chunk(100, 100, [struct.pack("<i", len(payload)) + payload], flags=NOSPLIT))


def test_split_of_blocks_smaller_than_an_item(codec_tool):
    refused(
        codec_tool, chunk(20, 4, [stream(pattern(4), "plain")] * 5, flags=ZLIB << 5, typesize=8)
    )


def test_special_values_that_do_not_fit(codec_tool):
    for c in (
        header(10, 10, 32, flags=0, typesize=4, blosc2_flags=0x20),
        header(12, 12, 32, flags=0, typesize=3, blosc2_flags=0x20),
        header(64, 4, 32, flags=0, typesize=8, blosc2_flags=0x20),
        header(64, 12, 32, flags=0, typesize=8, blosc2_flags=0x20),
        header(10, 10, 32, flags=0, typesize=4, blosc2_flags=0x40),
        header(10, 10, 32, flags=0, blosc2_flags=0x30),
        header(10, 10, 36, flags=0, blosc2_flags=0x30) + b"abcd",
        header(12, 6, 36, flags=0, blosc2_flags=0x30) + b"abcd",
        header(0, 1, 36, flags=0, blosc2_flags=0x30) + b"abcd",
        header(3, 3, 36, flags=0, blosc2_flags=0x30) + b"abcd",
        header(10, 10, 32, flags=2, blosc2_flags=0x10),
    ):
        refused(codec_tool, c)


def test_stored_of_another_size(codec_tool):
    for n in (99, 101):
        refused(codec_tool, header(100, 100, 32 + n, flags=2) + bytes(n))


def test_a_tiny_chunk_that_promises_much_costs_little(codec_tool):
    for c in (header(2147483615, 1, 100) + bytes(68), header(2147483615, 536866816, 32)):
        with pytest.raises(Refused) as e:
            codec_tool.blocks(c)
        assert e.value.rc == EBADMSG


def test_broken_dictionaries(codec_tool):
    block = stream(pattern(500), "plain")
    bad = bytes.fromhex("37A430EC") + b"\xff" * 60  # says that it is a full dictionary
    lengths = (struct.pack("<I", size) for size in (0, 131073, 2**31, 2**32 - 1, 5000))
    for extra in (*lengths, struct.pack("<I", 64) + bad):
        flags = NOSPLIT | ZSTD << 5
        refused(codec_tool, chunk(500, 500, [block], extra=extra, flags=flags, blosc2_flags=1))
    for n in range(4):  # not even its length is there, however often it is asked for
        head = header(500, 500, 36 + n, flags=flags, blosc2_flags=1)
        refused(codec_tool, head + struct.pack("<I", 36) + bytes(n))


def test_two_deltas(codec_tool):
    refused(codec_tool, chunk(100, 100, [stream(pattern(100))], filters=[DELTA, DELTA]))


def test_broken_variable_length_blocks(codec_tool):
    data = pattern(3000)
    for c in (
        vl([1000, 2000], data, order=[1, 0]),
        vl([1000, 2000], data, nbytes=2999),
        vl([1000, 2000], data, nbytes=3001),
        vl([1000, 0, 2000], data),
        vl([1000, 2000], data, flags=2),
        vl([1000, 2000], data, blosc2_flags=0x10),
        vl([0], b"", nbytes=0),
        vl([1000, 2000], data)[:-1],
    ):
        refused(codec_tool, c)
    c = bytearray(vl([1000, 2000], data))
    struct.pack_into("<i", c, 40, -1)
    refused(codec_tool, bytes(c))
    for n in range(4):  # too few for the length of the last one
        c = bytearray(vl([1000, 2000], data))
        struct.pack_into("<I", c, 36, len(c) - n)
        refused(codec_tool, bytes(c))


def test_bit_flips_never_kill(codec_tool):
    c = good(typesize=4, filters=[DELTA, SHUFFLE])
    for bit in range(8 * min(len(c), 120)):
        flipped = bytearray(c)
        flipped[bit // 8] ^= 1 << bit % 8
        for op in (codec_tool.decode, codec_tool.blocks):
            with contextlib.suppress(Refused):
                op(bytes(flipped))
