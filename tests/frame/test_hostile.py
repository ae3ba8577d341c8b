"""Damaged and hostile frames: an error or the same bytes, never a crash, and no
memory out of proportion to the file."""

import json
import os
import re
import shutil
import struct
import subprocess

import pytest

blosc2 = pytest.importorskip("blosc2")
from libchunk import chunk_sum, xxh3
from libframe import (
    CHUNK,
    Tool,
    check_ours,
    check_reference,
    frame,
    header,
    index_of_blocks,
    index_of_bytes,
    plain_index,
    same_index,
    sealed,
    trailer,
    write_holes,
)
from libmount import BUILD, CFRAME, REPO, SLOWNESS

FLIP = BUILD / "tests/c/frame_flip"
OWN = REPO / "tests/data/frames"
FRAMES = [
    "nd-1d-i4.b2nd",
    "nd-2d-full.b2nd",
    "special-nan.b2frame",
    "special-zero.b2frame",
    "empty.b2frame",
    "tiny-1byte.b2frame",
    "const-zlib.b2frame",
    "core-zstd-shuffle-t4-mixed.b2frame",
    "dict-lz4hc.b2frame",
    "meta.b2frame",
    "beta/beta5-5-1.b2frame",
]


def flip(name, *args):
    done = subprocess.run(
        [FLIP, OWN / name, *map(str, args)], capture_output=True, text=True, timeout=300 * SLOWNESS
    )
    assert done.returncode == 0, done.stderr[-4000:]
    refused, same, other = map(
        int, re.search(r"(\d+) refused, (\d+) same, (\d+) other", done.stdout).groups()
    )
    return refused, same, other, [int(n) for n in re.findall(r"other bytes: (\d+)", done.stdout)]


def layout(name):
    raw = (OWN / name).read_bytes()
    header_len, cbytes = struct.unpack(">i", raw[11:15])[0], struct.unpack(">q", raw[39:47])[0]
    return header_len, header_len + cbytes, len(raw)


@pytest.mark.parametrize("name", FRAMES)
def test_flips(name):
    """One bit and one byte at a time, in header, index and trailer. The length of a trailing hole
    and a special value are all that structure cannot vouch for."""
    header_len, index, end = layout(name)
    refused, same, other, where = flip(name, "flip", 0, header_len)
    assert refused > 200 and set(where) <= set(range(30, 38)), where
    *_, where = flip(name, "flip", index, end)
    assert len(where) < (end - index) * 9 / 4


@pytest.mark.parametrize("name", FRAMES)
def test_every_length(name):
    refused, same, other, _ = flip(name, "cut")
    assert same == 0 and refused > 100


@pytest.mark.parametrize("name", FRAMES)
def test_random_damage(name):
    flip(name, "random", 150, 7)


def measure(path, data, command):
    if data is not None:
        path.write_bytes(data)
    proc = subprocess.Popen([CFRAME, command, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = proc.stdout.read(1 << 20), None
    proc.stdout.close()
    err = proc.stderr.read()
    _, status, usage = os.wait4(proc.pid, 0)
    proc.returncode = os.waitstatus_to_exitcode(status)
    return proc.returncode, out, err, usage


def run(path, data, command="cat"):
    code, out, err, usage = measure(path, data, command)
    return code, out, err, usage.ru_maxrss


def root_note(head, young=b"", sums=b""):
    """What our roots say of their chunks, as FORMAT.md 9.5 describes it."""
    raw = b"\x85\xa1v\2\xa3seq\xcf" + struct.pack(">Q", 1)
    for key, value in (b"root", head), (b"young", young), (b"xxh3", sums):
        raw += bytes([0xA0 | len(key)]) + key + b"\xc6" + struct.pack(">I", len(value)) + value
    lengths = len(raw), min(len(raw), 16384), 32 + len(raw)
    return struct.pack("<BBBBIII", 5, 1, 7, 1, *lengths) + bytes(16) + raw


def marked(nbytes, chunk_size, index, area=b"", young=b"", sums=b"", room=0):
    """A frame with a note and a fingerprint: as if it was ours, and power went later. `room`: so
    many bytes of its chunk area are left out, behind the header."""

    def end(head):
        name, content = b"\xa8cframefs", root_note(head, young, sums)
        start = b"\x94\1\x93\xcd" + struct.pack(">HHB", 20, 0xDE00, 1) + name
        place = b"\xd2" + struct.pack(">I", len(start) + 8) + b"\xdc\0\1"
        body = start + place + b"\xc6" + struct.pack(">I", len(content)) + content
        return trailer(body)[:-17] + b"\2" + bytes(8) + struct.pack(">Q", 1 << 32)

    size = {}
    if room:
        rest = len(index) + len(end(bytes(87)))
        size = {"cbytes": room, "frame_len": 97 + room + rest}
    whole = frame(nbytes, chunk_size, index, area, end(bytes(87)), **size)
    return sealed(frame(nbytes, chunk_size, index, area, end(whole[:87]), **size), room)


ZEROS = struct.pack("<Q", 0x81 << 56)


def test_what_the_builders_make_is_read(work):
    code, out, err, _ = run(work / "f", frame(200, 100, plain_index(0, 0), CHUNK))
    assert code == 0 and out == bytes(range(100)) * 2, err
    for raw in (
        plain_index(0, 0x81 << 56),
        plain_index(0, 0x84 << 56),
        plain_index(0, 0x81 << 56 | 12345),
    ):
        assert run(work / "f", frame(200, 100, raw, CHUNK))[1] == bytes(range(100)) + bytes(100)
    assert run(work / "f", frame(0, -1, b""))[:2] == (0, b"")
    assert (
        run(work / "f", frame(200, 100, plain_index(0, 0) + b"slack", CHUNK) + b"behind")[1]
        == bytes(range(100)) * 2
    )


def frame_of_tens(make_index):
    """Of chunks of ten bytes and holes in turn; and what it is of."""
    n, ten = 17_000, bytes(range(10))
    chunk = struct.pack("<BBBBIII", 5, 1, 7, 1, 10, 10, 42) + bytes(16) + ten
    return frame(2 * n * 10, 10, make_index(*[0, 0x81 << 56] * n), chunk), (ten + bytes(10)) * n


@pytest.mark.parametrize("block", [3, 5])
def test_an_index_in_blocks_that_fit_no_entry(work, block):
    """Nobody makes such frames, but the reference reads them; and so long an index is read in more
    steps than one, each of whole entries all the same."""
    raw, expect = frame_of_tens(lambda *entries: index_of_bytes(block, *entries))
    code, out, err, _ = run(work / "f", raw)
    assert code == 0 and out == expect, err
    assert blosc2.open(str(work / "f"))[:] == out


@pytest.mark.parametrize("block", [16, 100_000, 262_144])
@pytest.mark.parametrize("more", [1, 7])
def test_an_index_whose_block_size_is_no_multiple_of_an_entry(work, block, more):
    """It is rounded, as in old releases; a step of no block at all would never end."""

    def index(*entries):
        chunk = index_of_bytes(block, *entries)
        return chunk[:8] + struct.pack("<I", block + more) + chunk[12:]

    raw, expect = frame_of_tens(index)
    code, out, err, _ = run(work / "f", raw)
    assert code == 0 and out == expect, err


@pytest.mark.parametrize("size", [8, 1])
def test_a_few_bytes_that_claim_a_quarter_of_a_billion_chunks(work, size):
    value = ZEROS if size == 8 else bytes([0x81]) * size
    least = run(work / "f", frame(0, -1, b""), "info")[3]
    code, out, err, rss = run(
        work / "f", frame(268435451 * 4096, 4096, same_index(268435451, value, size)), "info"
    )
    assert code == 0, err
    assert rss - least < 4096, "KiB"


@pytest.mark.parametrize("n", [10**15, (1 << 53) + 1])
def test_large_numbers_are_told_in_digits(work, n):
    """Petabytes of holes."""
    raw = frame(n, 1 << 30, same_index(-(-n >> 30), ZEROS))
    assert f"nbytes       {n} bytes\n".encode() in run(work / "f", raw, "info")[1]
    told = subprocess.run([CFRAME, "info", "--json", work / "f"], capture_output=True).stdout
    assert f'"nbytes":{n},' in told.decode().replace("\t", "") and json.loads(told)


@pytest.mark.parametrize("nblocks", [32, 33, 511])
def test_a_few_bytes_that_decode_to_a_large_index(work, nblocks):
    """An index of ours may have 128 MiB."""
    block = 4 << 20
    index = index_of_blocks(block, nblocks)
    least = run(work / "f", frame(0, -1, b""), "info")[3]
    data = frame(nblocks * block // 8 * 100, 100, index, CHUNK)
    code, out, err, usage = measure(work / "f", data, "info")
    if nblocks == 32:
        assert code == 0, err
    else:
        assert code == 1 and b"decoded size of the index" in err
    assert usage.ru_maxrss - least < (160 << 10) * SLOWNESS, "KiB"
    assert took(usage) < 8 * SLOWNESS


MASS = 268435451  # chunks: the most that an index may have


def write_around_a_hole(path, head, chunk, area, rest):
    """A frame of an area of chunks that is a hole behind the first one."""
    with open(path, "wb") as f:
        f.write(head + chunk)
        f.seek(len(head) + area)
        f.write(rest)
    assert path.stat().st_blocks * 512 < 1 << 20, "this file system stores holes"


def test_a_hole_pays_for_no_large_index(work):
    """Of a file that is long enough for an index of 256 MiB, and has nothing in it."""
    index, area = index_of_blocks(4 << 20, 64), 1 << 30
    nbytes = 64 * (4 << 20) // 8 * 100
    head = header(nbytes, area, 100, 97 + area + len(index) + len(trailer()))
    write_around_a_hole(work / "f", head, CHUNK, area, index + trailer())
    done = subprocess.run([CFRAME, "info", work / "f"], capture_output=True)
    assert done.returncode == 1 and b"decoded size of the index" in done.stderr, done


@pytest.mark.parametrize("n", [2000, (16 << 20) + 1, MASS])
def test_a_hole_is_no_place_for_chunks(work, n):
    """Chunks of different sizes, each of which has a header to be read: all of them are the first
    one, in a file of the length that they would take."""
    area = 33 * n
    chunk = struct.pack("<BBBBIII", 5, 1, 7, 1, 1, 1, 33) + bytes(16) + b"x"
    end = same_index(n, bytes(8)) + trailer()
    head = header(n, area, 0, 97 + area + len(end), flags=0x52)
    write_around_a_hole(work / "f", head, chunk, area, end)
    done = subprocess.run([CFRAME, "info", work / "f"], capture_output=True)
    if n == 2000:
        assert done.returncode == 0, done
        assert subprocess.run([CFRAME, "cat", work / "f"], capture_output=True).stdout == b"x" * n
    else:
        assert done.returncode == 1, done
        assert b"more chunks than the file has bytes for" in done.stderr


def took(usage):
    return usage.ru_utime + usage.ru_stime


def test_young_chunks_in_masses(work):
    """Each of a thousand runs names a quarter of a billion chunks, which have no checksum."""
    runs = struct.pack("<II", 0, MASS)
    for n in 1, 1024:
        raw = marked(MASS * 100, 100, same_index(MASS, bytes(8)), CHUNK, runs * n)
        code, out, err, usage = measure(work / "f", raw, "info")
        assert code == 0 and f"stored       {MASS}\n".encode() in out, err
        assert took(usage) < 2 * SLOWNESS
    raw = marked(MASS * 100, 100, same_index(MASS, bytes(8)), CHUNK, runs * 1025)
    code, _, err, _ = measure(work / "f", raw, "info")
    assert code == 1 and b"note of the root" in err


@pytest.mark.parametrize("good", [True, False], ids=["good", "damaged"])
def test_young_chunks_are_held_against_their_checksums(work, good):
    """However their runs lie to each other: they overlap, lie in any order, are empty or end
    behind the file."""
    chunk = bytes(CHUNK)
    area = chunk + chunk + (chunk if good else chunk[:-1] + b"x")
    sums = struct.pack("<Q", chunk_sum(chunk)) * 3
    for runs in ((2, 1),), ((1, 1), (0, 2), (2, 9)), ((1, 0), (0, 1), (0, 1), (1, 2), (7, 7)):
        young = b"".join(struct.pack("<II", *run) for run in runs)
        raw = marked(300, 100, plain_index(0, 132, 264), area, young, sums)
        code, _, err, _ = run(work / "f", raw, "info")
        assert code == (0 if good else 1) and (good or b"checksum" in err), (runs, err)
    raw = marked(300, 100, plain_index(0, 132, 264), area, struct.pack("<II", 0, 2), sums)
    assert run(work / "f", raw, "info")[0] == 0


def delta_chunk(block):
    """Two blocks of zeros that have checksums: a few bytes, of which the second block needs the
    first one decoded."""

    def low(raw):
        return struct.pack("<I", xxh3(raw) & 0xFFFFFFFF)

    zeros, first = bytes(4), 32 + 8 + 16
    head = struct.pack("<BBBBIII", 5, 1, 0x3D, 8, 2 * block, block, first + 8)
    head += bytes([0, 0, 0, 0, 0, 3, 1]) + bytes(9) + struct.pack("<II", first, first + 4)
    head += b"CFS1" + low(zeros) * 2
    return head + low(head) + zeros * 2


def test_nothing_is_decoded_to_prove_young_chunks(work):
    block, n = 256 << 20, 1000
    chunk = delta_chunk(block)
    sums = struct.pack("<Q", chunk_sum(chunk)) * n
    raw = marked(
        n * 2 * block, 2 * block, plain_index(*[0] * n), chunk, struct.pack("<II", 0, n), sums
    )
    code, _, err, usage = measure(work / "f", raw, "info")
    least = run(work / "f", frame(0, -1, b""), "info")[3]
    assert code == 0, err
    assert usage.ru_maxrss - least < 8192 * SLOWNESS and took(usage) < 2 * SLOWNESS


def test_young_chunk_with_a_head_of_holes(work):
    """The places of a hundred million blocks lie in a hole, which takes no room on the disk."""
    most = 2**31 - 33
    cbytes = 32 + 4 * (most // 20 + 1) + 200
    chunk = struct.pack("<BBBBIII", 5, 1, 0x95, 1, most, 20, cbytes) + bytes(16)
    young, sums = struct.pack("<II", 0, 1), struct.pack("<Q", 1)
    raw = marked(most, most, plain_index(0), young=young, sums=sums, room=cbytes)
    write_holes(work / "f", [(0, raw[:97] + chunk), (97 + cbytes, raw[97:])])
    code, _, err, usage = measure(work / "f", None, "info")
    least = run(work / "g", frame(0, -1, b""), "info")[3]
    assert code == 1 and b"head of a chunk" in err
    assert usage.ru_maxrss - least < 8192 * SLOWNESS


def test_chunks_at_the_front_that_are_holes(work):
    """To empty the frame, what lies at its front is moved: here ten times half a gigabyte that
    takes no room on the disk, and would then."""
    half, area = 1 << 29, 6 << 30
    chunk = struct.pack("<BBBBIII", 5, 1, 0x95, 1, 100, 100, half) + bytes(16)
    index = plain_index(*[0] * 10)
    end = 97 + area + len(index) + len(trailer())
    raw = frame(1000, 100, index, cbytes=area, frame_len=end)
    front = raw[:97] + chunk + struct.pack("<II", 36, 0)
    write_holes(work / "f", [(0, front), (97 + area, raw[97:])])
    with Tool() as tool:
        tool.do(f"open {work / 'f'}")
        tool.do("resize 0")
        assert "chunks that overlap" in tool.ask("commit sync")
    assert os.stat(work / "f").st_blocks * 512 < 1 << 20


def test_chunks_of_holes_stay_where_they_are(work):
    """Two thirds of the frame are free, but what is behind that takes no room on the disk."""
    size, n, gap = 1 << 20, 40, 80 << 20
    chunk = struct.pack("<BBBBIII", 5, 1, 7, 1, size, size, size + 32) + bytes(16)
    places = [gap + i * (size + 32) for i in range(n)]
    index, area = plain_index(*places), gap + n * (size + 32)
    end = 97 + area + len(index) + len(trailer())
    raw = frame(n * size, size, index, cbytes=area, frame_len=end)
    chunks = [(97 + at, chunk) for at in places]
    write_holes(work / "f", [(0, raw[:97]), *chunks, (97 + area, raw[97:])], 4 << 20)
    with Tool() as tool:
        tool.do(f"open {work / 'f'}")
        tool.do("write 5 abcdef")
        tool.do("commit sync")
        tool.do("compact 4194304")
    assert os.stat(work / "f").st_blocks * 512 < 4 << 20


def test_trailers_of_thousands_of_metalayers(work):
    """Each of four thousand marks says that it is the end of the same one."""
    names = [b"%04x" % (i * 40503 % 65536) for i in range(8192)]
    start = b"\x94\1\x93\xcd\xff\xff\xde" + struct.pack(">H", len(names))
    end = struct.pack(">I", len(start) + 10 * len(names))
    body = start + b"".join(b"\xa4" + name + b"\xd2" + end for name in names) + b"\xc6" + bytes(4)
    raw = header(100, 132, 100, 1 << 30) + bytes(100) + body
    for _ in range(4000):
        length = len(raw) + 23 - 197
        raw += b"\xce" + struct.pack(">I", length) + b"\xd8\2" + bytes(16)
    code, _, err, usage = measure(work / "f", raw, "info")
    assert code == 1 and b"longer than its file" in err
    assert took(usage) < 2 * SLOWNESS


def shared_trailer(n, size):
    """n metalayers of `size` bytes, which all have the same place."""
    names = [b"%c" % (97 + i) for i in range(n)]
    start = b"\x94\1\x93\xcd\xff\xff\xde" + struct.pack(">H", n)
    place = b"\xd2" + struct.pack(">I", len(start) + 7 * n + 3)
    head = struct.pack("<BBBBIII", 5, 1, 7, 1, size, size, size + 32) + bytes(16)
    body = start + b"".join(b"\xa1" + name + place for name in names)
    body += b"\xdc" + struct.pack(">HBI", n, 0xC6, size + 32)
    return trailer(body + head + bytes(size))


def test_metalayers_that_share_their_content(work):
    """Each with bytes of its own they would take many times as much, and reach behind the end."""
    raw = frame(200, 100, plain_index(0, 0), CHUNK, end=shared_trailer(15, 1000))
    (work / "f").write_bytes(raw)
    model = bytearray(bytes(range(100)) * 2)
    with Tool() as tool:
        tool.do(f"open {work / 'f'}")
        for at in 50, 150:
            tool.do(f"write {at} abcdef")
            model[at : at + 3] = bytes.fromhex("abcdef")
            tool.do("commit sync")
            check_reference(work / "f", model)
        tool.do("resize 0")
        tool.do("commit sync")
    check_reference(work / "f", b"")
    raw = frame(200, 100, plain_index(0, 0), CHUNK, end=shared_trailer(15, 20 << 20))
    least = run(work / "f", frame(0, -1, b""), "info")[3]
    code, _, err, rss = run(work / "f", raw, "info")
    assert code == 0, err
    assert rss - least < (50 << 10) * SLOWNESS, "KiB"


def test_roots_with_a_large_index(work):
    """Hundreds of roots share an index that takes long to decode; their chunk is none."""
    n = 1 << 22
    raw = struct.pack("<QQ", 0x81 << 56, 0x82 << 56) * (n // 2 - 1) + struct.pack("<QQ", 0, 0)
    index = blosc2.compress2(raw, typesize=8, codec=blosc2.Codec.ZSTD, blocksize=1 << 20)
    sums, body = struct.pack("<QQ", 2, 2), CHUNK + index
    for _ in range(400):
        whole = marked(n * 100, 100, body[len(CHUNK) :], CHUNK, b"", sums)
        assert whole[97 : 97 + len(body)] == body
        body = whole[97:]
    torn = header(n * 100, len(CHUNK), 100, 1 << 30) + body
    code, _, err, usage = measure(work / "f", torn, "info")
    assert code == 1 and b"longer than its file" in err
    # held against the same work, since a loaded machine has slower processors
    one = marked(n * 100, 100, index, CHUNK, b"", sums)
    ten = sum(took(measure(work / "f", one, "info")[3]) for _ in range(10))
    assert took(usage) < 20 * ten, (took(usage), ten)


def zeros_chunk(block, n):
    """Shuffled blocks that are streams of zeros: of each no more than its length is stored."""
    first = 32 + 4 * n
    chunk = struct.pack("<BBBBIII", 5, 1, 0x35, 8, n * block, block, first + 4 * n)
    chunk += bytes([1, 0, 0, 0, 0, 0, 1]) + bytes(9)
    return chunk + struct.pack(f"<{n}I", *range(first, first + 4 * n, 4)) + bytes(4 * n)


def test_cat_decodes_a_large_block_once(work):
    """A gigabyte of zeros in four blocks."""
    block, n = 256 << 20, 4
    raw = frame(n * block, n * block, plain_index(0), zeros_chunk(block, n))
    (work / "f").write_bytes(raw)
    proc = subprocess.Popen([CFRAME, "cat", work / "f"], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(proc.pid, 0)
    proc.returncode = os.waitstatus_to_exitcode(status)
    assert proc.returncode == 0 and took(usage) < 8 * SLOWNESS


def test_verify_holds_no_large_chunk(work):
    """Two gigabytes in blocks of one megabyte."""
    block, n = 1 << 20, 2000
    raw = frame(n * block, n * block, plain_index(0), zeros_chunk(block, n))
    code, out, err, rss = run(work / "f", raw, "verify")
    least = run(work / "f", frame(0, -1, b""), "verify")[3]
    assert code == 0 and out == b"", (out, err)
    assert rss - least < (32 << 10) * SLOWNESS, "KiB"


@pytest.mark.parametrize("stored", [False, True])
def test_verify_fills_no_chunk_with_one_value(work, stored):
    """Terabytes of NaN, or of an item that is stored once, and nothing else."""
    size, n = 0x7FFFFF00, 2000
    item = struct.pack("<BBBBIII", 5, 1, 5, 4, size, 65536, 36) + bytes(15) + b"\x30" + b"item"
    index = plain_index(*[0 if stored else 0x82 << 56] * n)
    raw = frame(n * size, size, index, item if stored else b"", type_size=4)
    code, out, err, usage = measure(work / "f", raw, "verify")
    assert (code, out, err) == (0, b"", b"")
    assert took(usage) < 2 * SLOWNESS


def write_long_head(path, chunks):
    """Chunks at one place, of ten million blocks; not by way of this process's memory."""
    import numpy as np

    block, n = 32, 10_000_000
    one = zeros_chunk(block, 1)[:32]
    first = len(one) + 4 * n
    one = one[:4] + struct.pack("<III", n * block, block, first + 4 * n) + one[16:]
    index = plain_index(*([0] * chunks))
    length = 97 + first + 4 * n + len(index) + len(trailer())
    around = frame(chunks * n * block, n * block, index, cbytes=first + 4 * n, frame_len=length)
    with open(path, "wb") as f:
        f.write(around[:97] + one)
        np.arange(first, first + 4 * n, 4, dtype="<u4").tofile(f)
        f.seek(4 * n, os.SEEK_CUR)
        f.write(around[97:])


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one processor")
@pytest.mark.release
@pytest.mark.parametrize("command", [["verify"], ["extract", "-f"]], ids=lambda words: words[0])
def test_one_long_head_at_a_time(work, command):
    """Whatever the number of threads that share the chunks."""
    used = []
    for chunks in (1, 3):
        write_long_head(work / "f.b2frame", chunks)
        # a fork that is no vfork: else the most that this process has used is counted
        argv = [CFRAME, *command, work / "f.b2frame"]
        proc = subprocess.Popen(argv, cwd=work, preexec_fn=lambda: None)
        _, status, usage = os.wait4(proc.pid, 0)
        proc.returncode = os.waitstatus_to_exitcode(status)
        assert proc.returncode == 0
        used.append(usage.ru_maxrss)
    assert used[1] - used[0] < (32 << 10), "KiB"


def test_verify_holds_few_of_many_lines(work):
    """Two million chunks, all of them at one place, where there is none."""
    n = 2_000_000
    path = work / "f"
    code, out, err, rss = run(path, frame(n, 1, same_index(n, bytes(8)), bytes(100)), "verify")
    least = run(path, frame(0, -1, b""), "verify")[3]
    lines = out.splitlines(keepends=True)
    assert code == 1 and lines[0].startswith(f"{path}: chunk 0: corrupt: ".encode()), err
    assert [int(re.search(rb"chunk (\d+)", line)[1]) for line in lines[:-1]] == [*range(1000)]
    rest = n + 1 - len(lines)
    assert lines[-1] == f"{path}: {rest} problems that are not listed\n".encode()
    assert rss - least < (32 << 10) * SLOWNESS, "KiB"


@pytest.mark.parametrize("sizes", [(9 << 20, 5 << 20), (12 << 20, 64 << 10), (1 << 20, 1 << 18)])
def test_cat_of_large_chunks(work, sizes):
    chunk, block = sizes
    data = os.urandom(1 << 20) * 20 + b"end"
    cparams = {"typesize": 1, "blocksize": block, "codec": blosc2.Codec.LZ4}
    schunk = blosc2.SChunk(
        chunksize=chunk, urlpath=str(work / "f"), mode="w", contiguous=True, cparams=cparams
    )
    for at in range(0, len(data), chunk):
        schunk.append_data(data[at : at + chunk])
    del schunk
    got = subprocess.run([CFRAME, "cat", work / "f"], capture_output=True)
    assert got.returncode == 0 and got.stdout == data


BIG = (1 << 63) - 1


def two(**kw):
    """A frame of two chunks, with a flaw."""
    return frame(200, 100, plain_index(0, 0), CHUNK, **kw)


def layers(body):
    """A trailer whose map of metalayers begins like that, after its marker."""
    return trailer(b"\x94\1\x93\xcd\0\6\xde" + body)


def index_in_the_header():
    """A header of 200 bytes, of which the last ones are the index: it begins before its end."""
    index, end = plain_index(0x81 << 56, 0x81 << 56), trailer()
    head = header(200, -len(index), 100, 200 + len(end), header_len=200)
    return head.ljust(200 - len(index), b"\0") + index + end


def half_an_entry_more():
    raw = bytes(20)
    return struct.pack("<BBBBIII", 5, 1, 7, 8, 20, 20, 52) + bytes(16) + raw


# Only as a file of its own: readers fetch the 32 bytes of a newer header.
SHORTEST = struct.pack("<BBBBIII", 2, 1, 2, 1, 10, 10, 26) + b"0123456789"


# Each flaw, which is the only one, is named. Others that are seen later would not be as harmless.
REFUSED = {
    "no magic": ("is not a Blosc2 frame", lambda: b"\0" * 200),
    "header_len small": ("length of the header", lambda: two(header_len=86)),
    "header_len in the markers of metalayers": (
        "length of the header",
        lambda: two(header_len=90),
    ),
    "header_len large": (
        "frame is shorter than header and trailer",
        lambda: two(header_len=1 << 30),
    ),
    "header_len negative": ("length of the header", lambda: two(header_len=-5)),
    "frame_len large": ("frame is longer than its file", lambda: two(frame_len=1 << 62)),
    "frame_len small": ("frame is shorter than header and trailer", lambda: two(frame_len=100)),
    "version 4": ("version of the frame", lambda: two(flags=0x14)),
    "sparse in a file": ("type of the frame does not fit how it is stored", lambda: two(kind=1)),
    "type 2": ("type of the frame", lambda: two(kind=2)),
    "type_size 0": ("size of an item", lambda: two(type_size=0)),
    "nbytes negative": ("negative size", lambda: frame(-1, 100, plain_index(0, 0), CHUNK)),
    "cbytes negative": ("negative size", lambda: two(cbytes=-1)),
    "cbytes negative, with an index before it": ("negative size", index_in_the_header),
    "cbytes huge": ("chunk area ends after the frame", lambda: two(cbytes=BIG)),
    "cbytes to the trailer": ("no room for the index", lambda: two(cbytes=132 + 48)),
    "chunk_size negative": ("size of a chunk", lambda: frame(200, -2, plain_index(0, 0), CHUNK)),
    "chunk_size beyond the limit": (
        "size of a chunk",
        lambda: frame(200, 2147483647, plain_index(0), CHUNK),
    ),
    "7 filters": ("more filters than slots", lambda: two(nfilters=7)),
    "too many chunks": ("too many chunks", lambda: frame(1 << 40, 1, plain_index(0, 0), CHUNK)),
    "too many chunks, but few modulo 2^32": (
        "too many chunks",
        lambda: frame(((1 << 32) + 2) * 100, 100, plain_index(0, 0), CHUNK),
    ),
    "nbytes needs more entries": (
        "number of entries in the index",
        lambda: frame(201, 100, plain_index(0, 0), CHUNK),
    ),
    "nbytes needs fewer entries": (
        "number of entries in the index",
        lambda: frame(100, 100, plain_index(0, 0), CHUNK),
    ),
    "short last chunk is long": (
        "chunk holds another number of bytes than its place",
        lambda: frame(150, 100, plain_index(0, 0), CHUNK),
    ),
    "index of typesize 1": (
        "item size of the index",
        lambda: frame(200, 100, plain_index(0, 0, typesize=1), CHUNK),
    ),
    "index of typesize 4": (
        "item size of the index",
        lambda: frame(200, 100, plain_index(0, 0, typesize=4), CHUNK),
    ),
    "index of two entries and a half": (
        "size of the index",
        lambda: frame(200, 100, half_an_entry_more(), CHUNK),
    ),
    "index of a block of 8 MiB": (
        "block size of the index",
        lambda: frame(100 << 20, 100, index_of_blocks(8 << 20, 1), CHUNK),
    ),
    "index of two entries in one value": (
        "item size of an index of one value",
        lambda: frame(200, 100, same_index(2, bytes(16), 16), CHUNK),
    ),
    "index past the trailer": (
        "chunk ends past its container",
        lambda: frame(200, 100, plain_index(0, 0)[:40], CHUNK),
    ),
    "offset behind the area": (
        "chunk lies outside the chunk area",
        lambda: frame(200, 100, plain_index(0, 101), CHUNK),
    ),
    "offset huge": (
        "chunk lies outside the chunk area",
        lambda: frame(200, 100, plain_index(0, BIG), CHUNK),
    ),
    "offset into the chunk": (
        "chunk ends past its container",
        lambda: frame(200, 100, plain_index(0, 50), CHUNK),
    ),
    "chunk too long": (
        "chunk ends past its container",
        lambda: two(cbytes=131, frame_len=97 + 132 + 48 + 35),
    ),
    "special without kind": (
        "special value in the index",
        lambda: frame(200, 100, plain_index(0, 0x80 << 56), CHUNK),
    ),
    "special of kind 3": (
        "special value in the index",
        lambda: frame(200, 100, plain_index(0, 0x83 << 56), CHUNK),
    ),
    "special of kind 5": (
        "special value in the index",
        lambda: frame(200, 100, plain_index(0, 0x85 << 56), CHUNK),
    ),
    "special, sizes vary": (
        "special value in the index",
        lambda: frame(200, 0, plain_index(0, 0x81 << 56), CHUNK, flags=0x53),
    ),
    "sizes vary, sum is wrong": (
        "chunks hold less than the frame says",
        lambda: frame(201, 0, plain_index(0, 0), CHUNK, flags=0x53),
    ),
    "sizes vary, sum is too large": (
        "chunks hold more than the frame says",
        lambda: frame(199, 0, plain_index(0, 0), CHUNK, flags=0x53),
    ),
    "chunk of 26 bytes": (
        "stored chunk is too short",
        lambda: frame(10, 10, plain_index(0), SHORTEST),
    ),
    "sizes vary, repeats in masses": (
        "more chunks than fit into the chunk area",
        lambda: frame(100 * 1000000, 0, same_index(1000000, bytes(8)), CHUNK, flags=0x53),
    ),
    "NaN of one byte": (
        "NaN of another size than 4 or 8",
        lambda: frame(200, 100, plain_index(0, 0x82 << 56), CHUNK),
    ),
    "empty, but an index": (
        "trailer of an empty frame does not follow its header",
        lambda: frame(0, 100, plain_index(0)),
    ),
    "no trailer": ("no trailer at the end of the frame", lambda: two(end=bytes(35))),
    "trailer_len 24": ("length of the trailer", lambda: two(end=trailer(length=24))),
    "trailer_len huge": ("length of the trailer", lambda: two(end=trailer(length=0xFFFFFFFF))),
    "trailer_len over the header": (
        "length of the trailer",
        lambda: two(end=trailer(length=97 + 132 + 48 + 35)),
    ),
    "no map of metalayers": (
        "no metalayer map",
        lambda: two().replace(b"\xde\0\0\xdc", b"\xdf\0\0\xdc", 1),
    ),
    "no map of vlmetalayers": (
        "no metalayer map",
        lambda: two(end=layers(b"\0\0\xdc\0\0").replace(b"\xde", b"\xdf")),
    ),
    "65535 vlmetalayers": ("too many metalayers", lambda: two(end=layers(b"\xff\xff\xdc\0\0"))),
    "vlmetalayer outside": (
        "metalayer lies outside its section",
        lambda: two(end=layers(b"\0\1\xa1a\xd2\0\0\1\0\xdc\0\0")),
    ),
    "vlmetalayer negative": (
        "metalayer lies outside its section",
        lambda: two(end=layers(b"\0\1\xa1a\xd2\xff\xff\xff\xff\xdc\0\0")),
    ),
    "vlmetalayer too long": (
        "metalayer content is cut or has a wrong marker",
        lambda: two(end=layers(b"\0\1\xa1a\xd2\0\0\0\x13\xdc\0\1\xc6\xff\xff\xff\xf0")),
    ),
    "vlmetalayer whose name is no text": (
        "metalayer map is cut or has wrong markers",
        lambda: two(end=layers(b"\0\1\xc1a\xd2\0\0\0\x13\xdc\0\1\xc6\0\0\0\0")),
    ),
    "vlmetalayer whose place is no number": (
        "metalayer map is cut or has wrong markers",
        lambda: two(end=layers(b"\0\1\xa1a\xce\0\0\0\x13\xdc\0\1\xc6\0\0\0\0")),
    ),
    "vlmetalayer that is no bytes": (
        "metalayer content is cut or has a wrong marker",
        lambda: two(end=layers(b"\0\1\xa1a\xd2\0\0\0\x13\xdc\0\1\xdb\0\0\0\0")),
    ),
    "a NUL in the name of a vlmetalayer": (
        "metalayer name holds a NUL",
        lambda: two(end=layers(b"\0\1\xa3a\0b\xd2\0\0\0\x15\xdc\0\1\xc6\0\0\0\0")),
    ),
    "two vlmetalayers of one name": (
        "two metalayers have one name",
        lambda: two(end=layers(b"\0\2\xa1a\xd2\0\0\0\x1a\xa1a\xd2\0\0\0\x1a\xdc\0\2\xc6\0\0\0\0")),
    ),
    "two vlmetalayers of one name, with another between": (
        "two metalayers have one name",
        lambda: two(
            end=layers(
                b"\0\3"
                + b"".join(b"\xa1%c\xd2\0\0\0\x21" % c for c in b"aba")
                + b"\xdc\0\3\xc6\0\0\0\0"
            )
        ),
    ),
    "one checksum for two chunks": (
        "number of checksums",
        lambda: marked(200, 100, plain_index(0, 0), CHUNK, sums=bytes(8)),
    ),
    "a checksum and a half": (
        "note of the root",
        lambda: marked(200, 100, plain_index(0, 0), CHUNK, sums=bytes(12)),
    ),
    "half a run of young chunks": (
        "note of the root",
        lambda: marked(200, 100, plain_index(0, 0), CHUNK, young=bytes(4)),
    ),
}


SHORT = b"frame is shorter than header and trailer"
OUTSIDE = b"chunk lies outside the chunk area"


@pytest.mark.parametrize("frame_len", [0, 22, 96, 97, 97 + 24])
def test_a_frame_that_ends_in_its_header_or_trailer(work, frame_len):
    """Damage, not what a power cut leaves: recovery does not look for a root of ours either."""
    raw = bytearray(marked(200, 100, plain_index(0, 0), CHUNK))
    assert run(work / "f", raw)[:2] == (0, bytes(range(100)) * 2)
    raw[16:24] = struct.pack(">Q", frame_len)
    code, _, err, _ = run(work / "f", raw, "info")
    assert code == 1 and SHORT in err, err
    raw[16:24] = struct.pack(">Q", 97 + 25)
    assert SHORT not in run(work / "f", raw, "info")[2]


@pytest.mark.parametrize(
    "index",
    [
        lambda last: plain_index(0, last),
        lambda last: plain_index(last, last),
        lambda last: same_index(2, struct.pack("<Q", last)),
    ],
    ids=["unfolded", "folded", "one value"],
)
def test_a_place_outside_the_chunk_area(work, index):
    """It is refused when the frame is opened, not when the chunk is read."""
    for last in 101, 1 << 40, BIG:
        code, _, err, _ = run(work / "f", frame(200, 100, index(last), CHUNK), "info")
        assert code == 1 and OUTSIDE in err, (last, err)
    assert OUTSIDE not in run(work / "f", frame(200, 100, index(100), CHUNK), "info")[2]


@pytest.mark.parametrize("what", REFUSED)
def test_refused(work, what):
    why, make = REFUSED[what]
    code, out, err, _ = run(work / "f", make())
    assert code == 1 and err.startswith(b"cframe: ") and err.count(b"\n") == 1, (
        code,
        out[:200],
        err,
    )
    assert why.encode() in err


def test_vlmetalayer_is_read(work):
    end = trailer(b"\x94\1\x93\xcd\0\6\xde\0\1\xa1a\xd2\0\0\0\x13\xdc\0\1\xc6\0\0\0\3xyz")
    code, out, err, _ = run(work / "f", frame(200, 100, plain_index(0, 0), CHUNK, end=end), "info")
    assert code == 0 and b"  a            3" in out, (out, err)


def test_sizes_vary(work):
    short = struct.pack("<BBBBIII", 5, 1, 7, 1, 10, 10, 42) + bytes(16) + b"0123456789"
    empty = struct.pack("<BBBBIII", 5, 1, 7, 1, 0, 1, 32) + bytes(16)
    area = CHUNK + short + empty
    data = frame(120, 0, plain_index(132, 174, 0, 132, 174), area, flags=0x53)
    code, out, err, _ = run(work / "f", data)
    assert code == 0 and out == b"0123456789" + bytes(range(100)) + b"0123456789", err


MOST = (1 << 31) - 33  # bytes of a chunk
WRITABLE = {
    "two chunks": (True, two),
    "sizes vary": (False, lambda: frame(200, 0, plain_index(0, 0), CHUNK, flags=0x52)),
    "sizes vary, as old headers do not say": (
        False,
        lambda: frame(200, 0, plain_index(0, 0), CHUNK),
    ),
    "sizes vary, empty": (False, lambda: frame(0, 0, b"", flags=0x52)),
    "blocks of any size, empty": (False, lambda: frame(0, 100, b"", flags=0x92)),
    "empty": (True, lambda: frame(0, 0, b"")),
    "empty, chunk_size -1": (True, lambda: frame(0, -1, b"")),
    "empty, the longest chunks": (True, lambda: frame(0, MOST, b"")),
    "empty, longer chunks": (False, lambda: frame(0, MOST + 1, b"")),
    "the most chunks": (True, lambda: frame(100 << 24, 100, same_index(1 << 24, ZEROS))),
    "more chunks": (False, lambda: frame((100 << 24) + 1, 100, same_index((1 << 24) + 1, ZEROS))),
}


@pytest.mark.parametrize("what", WRITABLE)
def test_which_frames_can_be_written(work, what):
    writable, make = WRITABLE[what]
    (work / "f").write_bytes(make())
    told = subprocess.run([CFRAME, "info", "--json", work / "f"], capture_output=True).stdout
    assert json.loads(told)["writable"] is writable


@pytest.mark.parametrize("item", [3, 1 << 20, (1 << 20) + 1, (1 << 31) - 1])
def test_an_empty_frame_is_given_a_chunk_size(work, item):
    """That of whole items, unless one is larger than our chunks."""
    (work / "f").write_bytes(frame(0, -1, b"", type_size=item))
    with Tool() as tool:
        tool.do(f"open {work / 'f'}")
        tool.do("write 5 abcdef")
        tool.do("commit sync")
        tool.do(f"open {work / 'f'}")
        check_ours(tool, bytes(5) + bytes.fromhex("abcdef"))
    raw = (work / "f").read_bytes()
    assert struct.unpack(">i", raw[58:62])[0] == ((1 << 20) // item * item or 1 << 20)


def test_as_many_metalayers_as_the_reference_writes(work):
    """With names as long as it allows."""
    metas = {f"{i:02}".ljust(31, "x"): "text" for i in range(16)}
    path = work / "f.b2frame"
    schunk = blosc2.SChunk(chunksize=100, urlpath=str(path), mode="w", meta=metas)
    schunk.append_data(bytes(range(100)))
    del schunk
    with Tool() as tool:
        tool.do(f"open {path}")
        tool.do("write 5 abcdef")
        tool.do("commit sync")
    assert {name: blosc2.open(str(path)).meta[name] for name in metas} == metas
    told = subprocess.run([CFRAME, "info", "--json", path], capture_output=True).stdout
    assert sorted(json.loads(told)["meta"]) == sorted(metas)


def sparse(path, *entries, mass=0):
    """Chunks of ten bytes in files 0 and 1, of sizes that the frame does not tell."""
    path.mkdir(exist_ok=True)
    chunk = struct.pack("<BBBBIII", 5, 1, 7, 1, 10, 10, 42) + bytes(16) + b"0123456789"
    for i in 0, 1:
        (path / f"{i:08X}.chunk").write_bytes(chunk)
    index = same_index(mass, bytes(8)) if mass else plain_index(*entries)
    n = 10 * (mass or len(entries))
    return frame(n, 0, index, flags=0x53, kind=1, cbytes=84)


def test_sparse_frame_whose_chunks_are_one_file(work):
    """Each has one of its own: else few bytes would have it opened a quarter of a billion times."""
    at = work / "s"
    for entries in (0, 1), (1, 0), (0, 0):
        (at / "chunks.b2frame").write_bytes(sparse(at, *entries))
        got = subprocess.run([CFRAME, "cat", at], capture_output=True, timeout=300)
        assert got.returncode == 0 and got.stdout == b"0123456789" * 2, got.stderr
    (at / "chunks.b2frame").write_bytes(sparse(at, mass=MASS))
    got = subprocess.run([CFRAME, "info", at], capture_output=True, timeout=100 * SLOWNESS)
    assert got.returncode == 1 and b"more chunks than files" in got.stderr, got.stderr


def test_sparse_frame_of_more_than_ten_files(work):
    """Their names are hexadecimal numbers."""
    data = bytes(range(256)) * 20
    blosc2.SChunk(chunksize=256, urlpath=str(work / "s"), mode="w", contiguous=False, data=data)
    assert (work / "s/0000000A.chunk").exists()
    assert run(work / "s", None, "cat")[:2] == (0, data)


def test_sparse_frame_with_bytes_behind_a_chunk(work):
    at = work / "s"
    (at / "chunks.b2frame").write_bytes(sparse(at, 0, 1))
    with open(at / "00000001.chunk", "ab") as f:
        f.write(b"x")
    code, out, err, _ = run(at, None, "cat")
    assert code == 1 and b"chunk is shorter than its file" in err, err


def test_sparse_frame_that_lost_a_file(work):
    shutil.copytree(OWN / "sparse.b2frame", work / "s")
    (work / "s/00000001.chunk").unlink()
    done = subprocess.run([CFRAME, "cat", work / "s"], capture_output=True)
    assert done.returncode == 1 and b"missing" in done.stderr
    os.mkfifo(work / "s/00000001.chunk")
    done = subprocess.run([CFRAME, "cat", work / "s"], capture_output=True, timeout=300)
    assert done.returncode == 1 and b"not a file" in done.stderr
    (work / "s/00000001.chunk").unlink()
    (work / "s/00000001.chunk").symlink_to("00000000.chunk")
    assert subprocess.run([CFRAME, "cat", work / "s"], capture_output=True).returncode == 1


@pytest.mark.parametrize("command", ["info", "cat", "verify", "tune"])
def test_the_tool_waits_for_no_fifo(work, command):
    os.mkfifo(work / "f.b2frame")
    got = subprocess.run(
        [CFRAME, command, work / "f.b2frame"], capture_output=True, text=True, timeout=120
    )
    assert got.returncode == 1
    assert (got.stdout + got.stderr).endswith("f.b2frame: is not a regular file\n")
