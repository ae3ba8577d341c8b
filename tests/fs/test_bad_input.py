"""Bad frames, bad directories: an errno and a log line each; the daemon goes on,
synced data stays."""

import errno
import mmap
import os
import random
import re
import shutil

import pytest

from libdata import blob, sha256
from libfault import Fault
from libmemory import peak
from libposix import (
    KEEP_SIZE,
    NOBODY,
    PUNCH_HOLE,
    error_of,
    fallocate,
    read_direct,
    write_at,
)

DATA = blob(1, 400_003, "floats")
OPTIONS = "codec=lz4,typesize=8,filter=shuffle,chunksize=64K,blocksize=16K"


@pytest.fixture
def bad(mount):
    """A mount with one good frame, and its bytes to spoil; every complaint is
    about files named bad*."""
    m = mount(OPTIONS).allow(r"bad")
    (m.mnt / "good").write_bytes(DATA)
    m.remount()
    m.original = m.stored("good").read_bytes()
    return m


def goes_on(m):
    """The daemon serves as if nothing had been."""
    assert m.running(), m.log_text()[-2000:]
    assert sha256(read_direct(m.mnt / "good", len(DATA))) == sha256(DATA)
    (m.mnt / "new").write_bytes(b"written after")
    assert (m.mnt / "new").read_bytes() == b"written after"
    os.unlink(m.mnt / "new")


def field(raw, at, size):
    return int.from_bytes(raw[at : at + size], "big")


def layout(raw):
    """Where the parts of a frame lie: FORMAT.md 9."""
    header, frame, cbytes = field(raw, 0x0B, 4), field(raw, 0x10, 8), field(raw, 0x27, 8)
    return {
        "header": (0, header),
        "index": (header + cbytes, frame - field(raw, frame - 22, 4)),
        "trailer": (frame - field(raw, frame - 22, 4), frame),
        "chunks": (header, header + cbytes),
    }


def serve(m, name, raw):
    """Shows a spoilt frame; reading gives the right bytes, or an errno with a
    log line. Returns which."""
    seen_before = len(m.log_text())
    m.stored(name).write_bytes(raw)
    shown = name if os.path.exists(m.mnt / name) else f"{name}.b2frame"
    got = []
    error = error_of(lambda: got.append((m.mnt / shown).read_bytes()))
    if error:
        assert error == "EIO", error
        assert name in m.log_text()[seen_before:], "an EIO without a log line"
        return "EIO"
    if shown != name:
        assert got[0] == raw, "what does not parse is shown as plain bytes"
        assert f"{name}.b2frame" in m.log_text()[seen_before:], "a frame that is not one is logged"
        return "plain"
    if got[0] == DATA:
        return "same"
    # An older state of the file, as after a power cut: said so in the log, and made of what was
    # once there. Never the empty file that each of ours once was: that would hide chunks which may
    # still be somebody's data.
    recovered = re.search(rf"{name}\.b2frame.*went back", m.log_text()[seen_before:])
    return "older" if recovered and got[0] and DATA.startswith(got[0]) else "wrong"


FIELDS = {  # header fields of FORMAT.md 9.1: offset, size
    "magic": (0x01, 9),
    "header_len": (0x0A, 5),
    "frame_len": (0x0F, 9),
    "flags": (0x18, 5),
    "nbytes": (0x1D, 9),
    "cbytes": (0x26, 9),
    "type_size": (0x2F, 5),
    "block_size": (0x34, 5),
    "chunk_size": (0x39, 5),
    "threads": (0x3E, 6),
    "vlmeta": (0x44, 1),
    "filters": (0x45, 18),
    "meta_map": (0x57, 10),
}
# Fields that say nothing about where bytes are: whatever stands there, the data is the same.
HARMLESS = {"block_size", "threads", "vlmeta"}


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize(
    "change",
    [lambda b: b ^ 0x01, lambda b: b ^ 0x80, lambda b: 0xFF, lambda b: 0x00],
    ids=["low bit", "high bit", "ff", "00"],
)
def test_each_header_byte(bad, name, change):
    """Spoilt bytes of the header: never a crash, a hang, or bytes that were
    never written, unless the size says so."""
    start, size = FIELDS[name]
    for i in range(start, start + size):
        raw = bytearray(bad.original)
        if raw[i] == change(raw[i]):
            continue
        raw[i] = change(raw[i])
        result = serve(bad, f"bad{i}", bytes(raw))
        if name in HARMLESS:
            assert result in ("same", "plain"), hex(i)
        # Another length or other cuts: only a header that declares other sizes may do that.
        if result == "wrong":
            assert name in (
                "nbytes",
                "chunk_size",
                "type_size",
                "cbytes",
                "filters",
                "flags",
                "frame_len",
                "header_len",
            ), hex(i)
    goes_on(bad)


@pytest.mark.parametrize("part", ["index", "trailer"])
def test_each_index_and_trailer_byte(bad, part):
    lo, hi = layout(bad.original)[part]
    results = set()
    for i in range(lo, hi):
        raw = bytearray(bad.original)
        raw[i] ^= 0xFF
        result = serve(bad, f"bad{i}", bytes(raw))
        results.add(result)
    goes_on(bad)
    assert results - {"same"}, "spoiling the index or the trailer was never noticed"


def test_random_damage_in_chunks(bad):
    """Damage in a chunk is an EIO where it is noticed, and never a crash. zstd
    and text: most of it is noticed."""
    bad.remount("codec=zstd,chunksize=64K,blocksize=16K")
    text = blob(2, len(DATA), "text")
    (bad.mnt / "bad").write_bytes(text)
    bad.remount()
    original = bad.stored("bad").read_bytes()
    lo, hi = layout(original)["chunks"]
    rng = random.Random(5)
    noticed = 0
    for i in range(60):
        raw = bytearray(original)
        at = rng.randrange(lo, hi)
        raw[at : at + 16] = rng.randbytes(16)
        noticed += serve(bad, f"bad{i}", bytes(raw)) == "EIO"
    assert noticed > 20
    goes_on(bad)


def test_damage_costs_only_its_chunk(bad):
    lo, _ = layout(bad.original)["chunks"]
    raw = bytearray(bad.original)
    index = [
        i
        for i in range(lo, len(raw) - 32)
        if raw[i : i + 1] == b"\x05" and raw[i + 4 : i + 8] == (65536).to_bytes(4, "little")
    ]
    assert len(index) >= 6, "the chunks of the good frame were not found"
    raw[index[2] : index[2] + 16] = b"\xff" * 16
    bad.stored("bad").write_bytes(raw)
    fd = os.open(bad.mnt / "bad", os.O_RDONLY | os.O_DIRECT)
    page, errors = mmap.mmap(-1, 4096), []
    for at in range(0, 6 * 65536, 65536):
        errors.append(error_of(os.preadv, fd, [page], at))
        assert errors[-1] or page[:] == DATA[at : at + 4096]
    os.close(fd)
    assert sorted(errors, key=str) == ["EIO"] + [None] * 5, errors
    bad.expect_log("bad")
    goes_on(bad)


def test_truncated_frames(bad):
    parts = layout(bad.original)
    lengths = {
        0,
        1,
        16,
        86,
        87,
        96,
        97,
        111,
        112,
        132,
        *(edge + d for pair in parts.values() for edge in pair for d in (-1, 0, 1)),
    }
    for length in sorted(n for n in lengths if 0 <= n < len(bad.original)):
        result = serve(bad, f"bad{length}", bad.original[:length])
        if length in (0, 132):  # empty, as it was made: before its first bytes, and after
            continue
        assert result != "same" and result != "wrong", length
    goes_on(bad)


def test_a_frame_cut_while_open(bad):
    bad.stored("bad").write_bytes(bad.original)
    fd = os.open(bad.mnt / "bad", os.O_RDONLY)
    assert os.pread(fd, 100, 0) == DATA[:100]
    os.truncate(bad.stored("bad"), 200)
    error = error_of(lambda: [os.pread(fd, 65536, at) for at in range(0, len(DATA), 65536)])
    assert error in (None, "EIO")
    assert error_of(read_direct, bad.mnt / "bad", len(DATA)) == "EIO"
    bad.expect_log("bad")
    os.close(fd)
    goes_on(bad)


def test_a_frame_spoilt_since_it_was_seen_cannot_be_cut(bad):
    """truncate(2) opens nothing before, and must say what open would."""
    bad.stored("bad").write_bytes(bad.original)
    assert os.stat(bad.mnt / "bad").st_size == len(DATA)
    with open(bad.stored("bad"), "r+b") as f:
        f.truncate(len(bad.original) // 2)
    assert error_of(os.truncate, bad.mnt / "bad", 1000) == "EIO"
    bad.expect_log(r"bad\.b2frame: truncate: corrupt")
    assert bad.stored("bad").stat().st_size == len(bad.original) // 2
    goes_on(bad)


def test_a_copy_that_cannot_be_read_blames_its_source(bad):
    raw = bytearray(bad.original)
    lo, hi = layout(bad.original)["chunks"]
    raw[(lo + hi) // 2 : (lo + hi) // 2 + 500] = bytes(500)
    bad.stored("bad").write_bytes(raw)
    (bad.mnt / "target").write_bytes(b"")
    fds = os.open(bad.mnt / "bad", os.O_RDONLY), os.open(bad.mnt / "target", os.O_WRONLY)

    def copy():
        at = 0
        while at < len(DATA):
            at += os.copy_file_range(*fds, len(DATA) - at, at, at)

    assert error_of(copy) == "EIO"
    for fd in fds:
        os.close(fd)
    bad.expect_log(r"bad\.b2frame: copy_file_range: corrupt")
    assert "target" not in bad.log_text()
    goes_on(bad)


def test_an_unknown_codec_is_an_error_of_the_file(bad, blosc2):
    """Not that of a file system which cannot do what it was asked for: then programs, and the
    kernel, would try another way."""
    path = bad.backing / "bad.b2frame"
    schunk = blosc2.SChunk(chunksize=65536, contiguous=True, urlpath=str(path))
    schunk.append_data(DATA[:65536])
    with open(path, "r+b") as f:
        at = field(f.read(100), 0x0B, 4) + 2  # the flags of the chunk
        f.seek(at)
        flags = f.read(1)[0]
        f.seek(at)
        f.write(bytes([flags & 0x1F | 2 << 5]))  # Snappy
    fd = os.open(bad.mnt / "bad", os.O_RDWR)
    other = os.open(bad.mnt / "other", os.O_WRONLY | os.O_CREAT)
    assert error_of(fallocate, fd, PUNCH_HOLE | KEEP_SIZE, 10, 100) == "EIO"
    assert error_of(os.copy_file_range, fd, other, 65536, 0, 0) == "EIO"
    os.close(other)
    os.close(fd)
    for what in ("fallocate", "copy_file_range"):
        bad.expect_log(rf"bad\.b2frame: {what}: .*codec")
    assert "read:" not in bad.log_text()
    goes_on(bad)


def test_a_name_without_bytes_is_an_empty_file(bad, blosc2):
    """What a power cut leaves of a file that was just made: it opens, and takes what is written."""
    import libblosc

    for name in ("bad", "worse"):
        bad.stored(name).write_bytes(b"")
    assert {"bad", "worse"} <= set(os.listdir(bad.mnt)) and os.stat(bad.mnt / "bad").st_size == 0
    with pytest.raises(FileExistsError):
        os.open(bad.mnt / "bad", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    with open(bad.mnt / "bad", "rb") as reader:
        assert reader.read() == b"" and bad.stored("bad").stat().st_size == 0
        with open(bad.mnt / "bad", "ab") as writer:
            writer.write(b"first bytes")
        assert reader.read() == b"first bytes"
    os.rename(bad.mnt / "worse", bad.mnt / "moved")
    (bad.mnt / "moved").write_bytes(b"x" * 3_000_000)
    bad.remount()
    assert (bad.mnt / "bad").read_bytes() == b"first bytes"
    assert libblosc.chunk_bytes(libblosc.open_frame(bad.stored("bad"))) == b"first bytes"
    assert libblosc.chunk_bytes(libblosc.open_frame(bad.stored("moved"))) == b"x" * 3_000_000


@pytest.mark.parametrize("amiss", ["disk", "content"])
def test_an_empty_file_that_could_not_be_made_a_frame(faulty, amiss):
    """Somebody reads it. Whoever writes to it next does so in its file, or is told."""
    m, fault = faulty("commit=0,entry_timeout=100,attr_timeout=100", "f.b2frame: open: ")
    m.stored("f").write_bytes(b"")
    reader = os.open(m.mnt / "f", os.O_RDONLY)
    if amiss == "disk":
        fault.set(1, Fault.WRITE, errno.EIO)
        assert error_of(os.open, m.mnt / "f", os.O_RDWR) == "EIO"
        fault.set(0)
    else:
        m.stored("f").write_bytes(b"no frame")
        assert [error_of(os.open, m.mnt / "f", os.O_RDWR) for _ in range(2)] == ["EIO", "EIO"]
        m.stored("f").write_bytes(b"")
    with open(m.mnt / "f", "r+b") as f:
        f.write(DATA)
        f.flush()
        os.fsync(f.fileno())
        assert os.pread(reader, len(DATA), 0) == DATA
    os.close(reader)
    m.remount()
    assert (m.mnt / "f").read_bytes() == DATA


@pytest.mark.parametrize(
    "content",
    [b"just a text file\n", b"\x9e\xa8b2frame\0", b"\x9e" * 500, os.urandom(4096)],
    ids=["text", "magic", "marks", "noise"],
)
def test_not_a_frame(bad, content):
    bad.stored("bad").write_bytes(content)
    assert "bad.b2frame" in os.listdir(bad.mnt) and "bad" not in os.listdir(bad.mnt)
    assert (bad.mnt / "bad.b2frame").read_bytes() == content
    bad.expect_log(r"bad\.b2frame")
    goes_on(bad)


def test_not_a_frame_can_be_repaired_or_removed(bad):
    bad.stored("bad").write_bytes(b"text")
    write_at(bad.mnt / "bad.b2frame", 4, b" and more")
    assert bad.stored("bad").read_bytes() == b"text and more"
    os.unlink(bad.mnt / "bad.b2frame")
    assert not bad.stored("bad").exists()
    goes_on(bad)


def test_a_bad_frame_is_logged_once_for_many_reads(bad):
    raw = bytearray(bad.original)
    lo, hi = layout(bad.original)["chunks"]
    raw[lo:hi] = b"\xff" * (hi - lo)
    bad.stored("bad").write_bytes(raw)
    for _ in range(30):
        assert error_of((bad.mnt / "bad").read_bytes) == "EIO"
        os.listdir(bad.mnt)
    assert 1 <= sum("bad" in line for line in bad.log_text().splitlines()) <= 100, (
        "a flood of log lines"
    )


def test_the_log_says_in_which_directory(bad):
    """Files in many directories may have one name. Of a path that is too long the end is left."""
    raw = bytearray(bad.original)
    first, end = layout(raw)["chunks"]
    raw[(first + end) // 2] ^= 0xFF
    long = "d" * 200
    for where in "one/two", "/".join([long] * 7):
        (bad.mnt / where).mkdir(parents=True)
        (bad.backing / where / "bad.b2frame").write_bytes(raw)
        assert error_of((bad.mnt / where / "bad").read_bytes) == "EIO"
    assert "error: one/two/bad.b2frame: read: " in bad.log_text()
    assert f"error: .../{'/'.join([long] * 5)}/bad.b2frame: read: " in bad.log_text()
    assert f"{long}/{'/'.join([long] * 5)}" not in bad.log_text()
    (bad.backing / "one/two/bad2.b2frame").write_bytes(b"no frame")
    assert (bad.mnt / "one/two/bad2.b2frame").read_bytes() == b"no frame"
    assert "warning: one/two/bad2.b2frame: shown under its own name: " in bad.log_text()


def test_a_close_after_a_refused_write_names_the_damage(bad):
    """The write is refused in another thread, whose note the close does not have."""
    raw = bytearray(bad.original)
    last = raw.index((len(DATA) % 65536).to_bytes(4, "little")) - 4
    raw[last + 100 : last + 116] = b"\xff" * 16
    bad.stored("bad").write_bytes(raw)
    fd = os.open(bad.mnt / "bad", os.O_WRONLY)
    os.pwrite(fd, bytes(range(256)) * 16, 409_600)  # whole pages: nothing is read for them yet
    assert error_of(os.fsync, fd) == "EIO"  # by the kernel: the daemon is not asked
    assert error_of(os.close, fd) == "EIO"
    bad.expect_log(r"bad\.b2frame: write: corrupt: ")
    bad.expect_log(r"bad\.b2frame: close: corrupt$")
    goes_on(bad)


def test_a_lie_about_size_costs_no_memory(bad):
    """A small frame that declares terabytes: an answer, and no memory in proportion to the lie."""
    raw = bytearray(bad.original)
    raw[0x1E:0x26] = (1 << 46).to_bytes(8, "big")
    serve(bad, "bad1", bytes(raw))
    raw[0x3A:0x3E] = (0x7FFF0000).to_bytes(4, "big")
    serve(bad, "bad2", bytes(raw))
    assert peak(bad) < 1_000_000_000
    goes_on(bad)


def test_bad_array_metalayers(bad, blosc2):
    import numpy as np

    array = blosc2.asarray(
        np.arange(600, dtype="<i4").reshape(20, 30),
        chunks=(7, 11),
        blocks=(3, 4),
        urlpath=str(bad.work / "a.b2nd"),
    )
    del array
    raw = (bad.work / "a.b2nd").read_bytes()
    start = raw.index(b"\x97\x00\x02\x92")
    end = raw.index(b"<i4") + 3
    for i in range(start, end):
        for value in (raw[i] ^ 0x80, raw[i] ^ 1, 0xFF, 0):
            spoilt = bytearray(raw)
            spoilt[i] = value
            (bad.backing / f"bad{i}-{value}.b2nd").write_bytes(spoilt)
    spoilt = [name for name in os.listdir(bad.mnt) if name.startswith("bad")]
    assert len(spoilt) == len(list(bad.backing.glob("bad*"))) > end - start
    for name in spoilt:
        assert error_of((bad.mnt / name).read_bytes) in (None, "EIO"), name
    goes_on(bad)


def test_a_sparse_frame_is_looked_for_again_after_a_failure(mount, work, blosc2):
    """The disk answers again: it is not taken for a directory because it once did not."""
    m = mount("entry_timeout=0,attr_timeout=0", start=False).allow("s.b2frame: could not be read")
    fault = Fault(m, work / "control")
    path = m.backing / "s.b2frame"
    schunk = blosc2.SChunk(chunksize=100, contiguous=False, urlpath=str(path), mode="w")
    schunk.append_data(DATA[:100])
    m.start()
    fault.set(1, Fault.ACCESS, errno.EIO)
    assert error_of(os.stat, m.mnt / "s") == "EIO" and fault.came()
    assert (m.mnt / "s").read_bytes() == DATA[:100]


def test_bad_sparse_frames(bad, blosc2):
    schunk = blosc2.SChunk(
        chunksize=40_000,
        urlpath=str(bad.work / "s.b2frame"),
        mode="w",
        contiguous=False,
        data=blob(3, 200_000, "text"),
        cparams={"typesize": 4, "nthreads": 1},
    )
    del schunk
    good = bad.work / "s.b2frame"
    chunk = next(p.name for p in sorted(good.iterdir()) if p.name.endswith(".chunk"))
    spoil = {
        "missing": lambda d: (d / chunk).unlink(),
        "short": lambda d: os.truncate(d / chunk, 20),
        "noise": lambda d: (d / chunk).write_bytes(os.urandom(500)),
        "index": lambda d: os.truncate(d / "chunks.b2frame", 120),
        "link": lambda d: ((d / chunk).unlink(), (d / chunk).symlink_to("/etc/passwd")),
    }
    for name, call in spoil.items():
        shutil.copytree(good, bad.backing / f"bad-{name}.b2frame")
        call(bad.backing / f"bad-{name}.b2frame")
        path = bad.mnt / f"bad-{name}"
        if path.is_file():
            assert error_of(path.read_bytes) == "EIO", name
        else:
            assert (bad.mnt / f"bad-{name}.b2frame").is_dir(), (
                "what is no sparse frame is shown as a directory"
            )
        bad.expect_log(f"bad-{name}")
    goes_on(bad)


# ---- files that cannot be read


@pytest.mark.parametrize("name", ["secret", "secret.b2frame"])
def test_unreadable_backing_file(bad, mount, blind_argv, name):
    """The daemon may not read what its caller may."""
    m = mount(argv=blind_argv, start=False).allow("secret")
    (m.backing / name).write_bytes(bad.original)
    (m.backing / name).chmod(0o600)
    os.chown(m.backing / name, NOBODY, NOBODY)
    (m.backing / "good.b2frame").write_bytes(bad.original)
    m.start()
    assert sorted(os.listdir(m.mnt)) == ["good", "secret"]
    assert error_of((m.mnt / "secret").read_bytes) in ("EACCES", "EPERM", "EIO")
    goes_on(m)


def test_a_backing_directory_that_vanishes(bad):
    held = os.open(bad.mnt / "good", os.O_RDONLY)
    os.mkdir(bad.mnt / "d")
    (bad.mnt / "d" / "f").write_bytes(DATA)
    shutil.rmtree(bad.backing / "d")
    bad.allow("")
    assert error_of(os.open, bad.mnt / "d" / "other", os.O_CREAT | os.O_WRONLY) in (
        "ENOENT",
        "ESTALE",
        "EIO",
    )
    assert error_of(os.stat, bad.mnt / "d" / "other") in ("ENOENT", "ESTALE", "EIO")
    goes_on(bad)
    os.close(held)
    bad.unmount()
    bad.start()
    os.rename(bad.backing, bad.work / "elsewhere")
    (bad.mnt / "good").stat()  # the descriptor of the root still leads there
    shutil.rmtree(bad.work / "elsewhere")
    assert error_of(os.open, bad.mnt / "new", os.O_CREAT | os.O_WRONLY) in (
        "ENOENT",
        "ESTALE",
        "EIO",
    )
    assert error_of(os.listdir, bad.mnt) in (None, "ENOENT", "ESTALE", "EIO")
    assert bad.running()


def test_a_backing_file_that_vanishes_while_open(bad):
    bad.stored("bad").write_bytes(bad.original)
    fd = os.open(bad.mnt / "bad", os.O_RDWR)
    assert os.pread(fd, 10, 0) == DATA[:10]
    os.unlink(bad.stored("bad"))
    assert os.pread(fd, len(DATA), 0) == DATA, "an open file outlives its name"
    os.close(fd)
    goes_on(bad)


def test_nothing_outside_the_backing_directory_is_reached(bad):
    """A symlink among frames is a symlink: the daemon never follows it."""
    (bad.work / "outside").mkdir()
    (bad.work / "outside" / "x.b2frame").write_bytes(bad.original)
    os.symlink(bad.work / "outside" / "x.b2frame", bad.backing / "bad-link.b2frame")
    os.symlink(bad.work / "outside", bad.backing / "bad-dir.b2frame")
    assert "bad-link" not in os.listdir(bad.mnt) and "bad-dir" not in os.listdir(bad.mnt)
    assert os.path.islink(bad.mnt / "bad-link.b2frame") and os.path.islink(
        bad.mnt / "bad-dir.b2frame"
    )
    assert error_of(os.open, bad.mnt / "bad-link", os.O_RDONLY) == "ENOENT"
    goes_on(bad)
