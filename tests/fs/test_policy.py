"""What is asked for a file beside the options of the mount: attributes,
inherited ones, and rules by name."""

import json
import mmap
import os
import subprocess

import numpy as np
import pytest

from libchunk import is_stored
from libdata import blob
from libmount import CFRAME, MountFailed
from libposix import sync
from libtyped import text

PIPELINE, CHUNK, BLOCK, TUNE = (
    f"user.cframefs.{word}" for word in ("pipeline", "chunksize", "blocksize", "tune")
)
STORE, LZ4, ZSTD = "store", "shuffle:4+lz4:5", "shuffle:8+zstd:3"


def numbers(n=400_000):
    return np.cumsum(np.random.default_rng(3).integers(-9, 9, n)).astype("<i4").tobytes()


def write(m, name, data=None):
    data = numbers() if data is None else data
    (m.mnt / name).write_bytes(data)
    sync(m.mnt / name)
    return data


def chunk_of(blosc2, m, name, i=0):
    """codec, filters, typesize, block size, stored plain: from the chunk's own
    header, by the format."""
    frame = blosc2.open(str(m.stored(name)), mode="r")
    head = frame.get_chunk(i)
    return {
        "codec": head[22],
        "filters": [f for f in head[16:22] if f],
        "typesize": head[3],
        "blocksize": int.from_bytes(head[8:12], "little"),
        "stored": is_stored(head),
        "chunksize": frame.chunksize,
    }


def reads_as(blosc2, m, name, data):
    frame = blosc2.open(str(m.stored(name)), mode="r")
    assert b"".join(frame.decompress_chunk(i) for i in range(frame.nchunks)) == data
    assert (m.mnt / name).read_bytes() == data


def set_on(path, name, value):
    os.setxattr(path, name, value.encode())


def test_attribute_of_a_file(mount, blosc2):
    m = mount()
    (m.mnt / "f").touch()
    set_on(m.mnt / "f", PIPELINE, LZ4)
    set_on(m.mnt / "f", BLOCK, "16K")
    assert os.getxattr(m.mnt / "f", PIPELINE) == LZ4.encode() and PIPELINE in os.listxattr(
        m.mnt / "f"
    )
    data = write(m, "f")
    assert {
        k: v
        for k, v in chunk_of(blosc2, m, "f").items()
        if k in ("codec", "filters", "typesize", "blocksize")
    } == {"codec": 1, "filters": [1], "typesize": 4, "blocksize": 16384}
    reads_as(blosc2, m, "f", data)
    m.remount()  # the attribute stays; chunks written from now on follow it
    assert os.getxattr(m.mnt / "f", PIPELINE) == LZ4.encode()
    with open(m.mnt / "f", "ab") as out:
        out.write(data)
    m.unmount()
    assert chunk_of(blosc2, m, "f", 2)["codec"] == 1
    m.start()
    reads_as(blosc2, m, "f", data * 2)
    os.removexattr(m.mnt / "f", PIPELINE)
    assert PIPELINE not in os.listxattr(m.mnt / "f")
    assert os.getxattr(m.mnt / "f", PIPELINE)  # what the frame is, as before


def test_attribute_of_a_file_with_data(mount, blosc2):
    m = mount()
    data = write(m, "f")
    set_on(m.mnt / "f", PIPELINE, STORE)
    with open(m.mnt / "f", "ab") as out:
        out.write(data)
    m.unmount()
    assert not chunk_of(blosc2, m, "f", 0)["stored"] and chunk_of(blosc2, m, "f", 2)["stored"]
    m.start()
    reads_as(blosc2, m, "f", data * 2)


def test_chunks_have_room_in_dirty_max(mount, blosc2):
    """Else each part that is written is encoded with all that came before it: a copy of 60 MB into
    a chunk of 64M encoded 1.2 GB, and the daemon's memory grew with the chunk."""
    m = mount("dirty_max=8M,codec=lz4,tune=off,commit=0")
    (m.mnt / "d").mkdir()
    os.setxattr(m.mnt / "d", "user.cframefs.chunksize", b"64M")
    data = np.random.default_rng(3).bytes(20 << 20)
    (m.mnt / "d" / "f").write_bytes(data)
    assert (m.mnt / "d" / "f").read_bytes() == data
    m.unmount()
    assert chunk_of(blosc2, m, "d/f")["chunksize"] == 4 << 20


def test_chunksize_only_while_empty(mount, blosc2):
    m = mount()
    (m.mnt / "f").touch()
    set_on(m.mnt / "f", CHUNK, "256K")
    data = write(m, "f")
    assert chunk_of(blosc2, m, "f")["chunksize"] == 256 << 10
    with pytest.raises(OSError) as error:
        set_on(m.mnt / "f", CHUNK, "1M")
    assert error.value.errno == 22 and "not empty" in m.log_text()
    assert os.getxattr(m.mnt / "f", CHUNK) == b"256K"
    m.remount()
    reads_as(blosc2, m, "f", data)


def test_chunksize_that_changes_nothing(mount, blosc2):
    """As copying programs do, when the file has its data already: rsync -X, cp --preserve=xattr."""
    m = mount("dirty_max=4M")
    (m.mnt / "d").mkdir()
    set_on(m.mnt / "d", CHUNK, "128K")
    data = write(m, "d/f")
    write(m, "g")
    for name, value in (("d/f", "128K"), ("d/f", "131072"), ("g", "1M")):
        set_on(m.mnt / name, CHUNK, value)
        assert os.getxattr(m.mnt / name, CHUNK) == value.encode()
    (m.mnt / "most").touch()
    set_on(m.mnt / "most", CHUNK, "64M")  # and gets 2M, by dirty_max
    write(m, "most", data * 2)
    set_on(m.mnt / "most", CHUNK, "64M")
    os.removexattr(m.mnt / "d/f", CHUNK)
    with pytest.raises(OSError, match="Invalid"):
        set_on(m.mnt / "d/f", CHUNK, "1M")
    m.remount()
    reads_as(blosc2, m, "d/f", data)
    assert chunk_of(blosc2, m, "d/f")["chunksize"] == 128 << 10
    (m.mnt / "d/f").write_bytes(b"")
    write(m, "d/f", data)  # empty in between: nothing is wished any more
    assert chunk_of(blosc2, m, "d/f")["chunksize"] == 1 << 20


def test_directories_hand_on(mount, blosc2):
    m = mount()
    (m.mnt / "d").mkdir()
    (m.mnt / "d/before").touch()
    set_on(m.mnt / "d", PIPELINE, LZ4)
    set_on(m.mnt / "d", CHUNK, "512K")
    (m.mnt / "d/sub").mkdir()
    data = write(m, "d/sub/f")
    write(m, "outside")
    got = chunk_of(blosc2, m, "d/sub/f")
    assert (got["codec"], got["filters"], got["chunksize"]) == (1, [1], 512 << 10)
    assert chunk_of(blosc2, m, "outside")["codec"] == 5
    for path in ("d", "d/sub", "d/sub/f"):
        assert os.getxattr(m.mnt / path, PIPELINE) == LZ4.encode(), path
    assert PIPELINE not in os.listxattr(m.mnt / "d/before")
    os.removexattr(m.mnt / "d", PIPELINE)
    write(m, "d/after")
    got = chunk_of(blosc2, m, "d/after")
    assert got["codec"] == 5 and got["chunksize"] == 512 << 10
    m.remount()
    reads_as(blosc2, m, "d/sub/f", data)
    fd = os.open(m.mnt / "d/sub/sealed", os.O_CREAT | os.O_WRONLY, 0o444)
    os.close(fd)
    assert os.getxattr(m.mnt / "d/sub/sealed", PIPELINE) == LZ4.encode()
    assert os.stat(m.mnt / "d/sub/sealed").st_mode & 0o777 == 0o444


@pytest.mark.parametrize(
    "name, value",
    [
        (PIPELINE, "shuffle:4+zstandard"),
        (PIPELINE, ""),
        (PIPELINE, "shuffle:4+zstd:3" + " " * 200),
        (PIPELINE, "zstd:3\0x"),
        (PIPELINE, "shuffle:300"),
        (PIPELINE, "shuffle:256+zstd:1"),
        (CHUNK, "1"),
        (CHUNK, "4G"),
        (CHUNK, "some"),
        (BLOCK, "-1"),
        (BLOCK, "1G"),
        (TUNE, "best"),
    ],
)
def test_wrong_values_are_refused(mount, name, value):
    m = mount()
    (m.mnt / "d").mkdir()
    (m.mnt / "f").touch()
    for target in ("d", "f"):
        with pytest.raises(OSError) as error:
            set_on(m.mnt / target, name, value)
        assert error.value.errno == 22
        assert name not in os.listxattr(m.mnt / target)
    assert m.log_text().count("' refused: ") == 2
    with pytest.raises(OSError):
        set_on(m.mnt, name, value)
    m.expect_log(rf"\(root directory\): {name} '.*' refused: ")


def test_a_refused_value_is_told_without_what_a_terminal_obeys(mount):
    m = mount()
    with pytest.raises(OSError):
        set_on(m.mnt, TUNE, "é\n\x9b2J\x7f")
    m.expect_log(rf"\(root directory\): {TUNE} 'é\?\?\?2J\?' refused: ")


@pytest.mark.parametrize("word", ["ratio", "stats", "level", "codec"])
def test_other_names_are_refused(mount, word):
    """An attribute without a meaning, such as the name of an option, would be believed in."""
    m = mount()
    (m.mnt / "d").mkdir()
    (m.mnt / "f").touch()
    for target in (m.mnt, m.mnt / "d", m.mnt / "f"):
        with pytest.raises(OSError) as error:
            set_on(target, f"user.cframefs.{word}", "9")
        assert error.value.errno == 1
        assert f"user.cframefs.{word}" not in os.listxattr(target)
    said = rf": user.cframefs.{word} refused: known: pipeline, "
    for shown in r"\(root directory\)", "d", "f.b2frame":
        m.expect_log(shown + said)


def test_tune_attribute(mount, blosc2):
    m = mount("pipeline=store")
    (m.mnt / "f").touch()
    set_on(m.mnt / "f", TUNE, "size")
    data = write(m, "f")
    assert not chunk_of(blosc2, m, "f")["stored"]
    write(m, "g")
    assert chunk_of(blosc2, m, "g")["stored"]
    reads_as(blosc2, m, "f", data)


@pytest.mark.parametrize("kind", ["numbers", "text"])
@pytest.mark.parametrize("n", [4, 8191, 8192, 20_000, (32 << 10) - 1, 32 << 10, (1 << 20) + 20_000])
def test_cframe_tune_tells_what_a_mount_does(mount, blosc2, work, n, kind):
    """What nothing is chosen for is small, and has no numbers that a glance finds, or is smaller
    still."""
    m = mount()
    data = write(m, "f", numbers()[:n] if kind == "numbers" else blob(1, n, "text"))
    (work / "plain").write_bytes(data)
    told = subprocess.check_output([CFRAME, "tune", work / "plain"], text=True)
    (of,) = json.loads(subprocess.check_output([CFRAME, "tune", work / "plain", "--json"]))
    small = n < (8 << 10 if kind == "numbers" else 32 << 10)
    assert of["tuned"]["pipeline"] == os.getxattr(m.mnt / "f", PIPELINE).decode()
    assert (of["choices"] == 0) == small
    assert ("shuffle" in of["tuned"]["pipeline"]) == (kind == "numbers" and not small)
    assert of["tuned"]["pipeline"] == "zstd:2" or not small
    reads_as(blosc2, m, "f", data)
    assert ("too small to choose for: zstd:2;" in told) == small
    (m.mnt / "d").mkdir()
    set_on(m.mnt / "d", PIPELINE, ZSTD)
    write(m, "d/f", data)
    assert os.getxattr(m.mnt / "d/f", PIPELINE).decode() == ZSTD, "but named for small files, too"


@pytest.mark.parametrize("rule", [None, "*.idx lz4:3 blocksize=128K", "* tune=size"])
def test_block_size_of_a_file_with_data(mount, blosc2, work, rule):
    """It counts for what is written from then on, and changes nothing else: not even to what a rule
    says, which leaves a file alone that has data."""
    m = mount("pipeline=shuffle:8+zstd:3")
    write(m, "f.idx", numbers())
    if rule:
        (work / "rules").write_text(rule)
        m.remount(f"pipeline=shuffle:8+zstd:3,rules={work / 'rules'}")
    before = chunk_of(blosc2, m, "f.idx")
    set_on(m.mnt / "f.idx", BLOCK, "16K")
    data = b"eight by" + numbers()
    with open(m.mnt / "f.idx", "r+b") as f:
        f.write(data)
    assert before["blocksize"] == 64 << 10
    if rule != "* tune=size":
        assert chunk_of(blosc2, m, "f.idx") == {**before, "blocksize": 16 << 10}
    reads_as(blosc2, m, "f.idx", data)


@pytest.mark.parametrize("chunk", [4096, 8 * 1001, 1 << 20])
def test_block_size_of_a_frame_of_another_program(mount, blosc2, chunk):
    """It keeps its pipeline when it is written here, and may have chunks shorter than the block."""
    m = mount()
    data = numbers()
    cparams = {"typesize": 8, "codec": blosc2.Codec.LZ4, "filters": [blosc2.Filter.NOFILTER]}
    frame = blosc2.SChunk(chunk, urlpath=str(m.stored("f")), contiguous=True, cparams=cparams)
    for at in range(0, len(data), chunk):
        frame.append_data(data[at : at + chunk])
    set_on(m.mnt / "f", BLOCK, "16K")
    with open(m.mnt / "f", "r+b") as f:
        f.write(data[8:])
    got = chunk_of(blosc2, m, "f")
    assert got["codec"] == 1 and got["filters"] == [] and got["typesize"] == 8
    assert got["blocksize"] <= min(chunk, 16 << 10)
    reads_as(blosc2, m, "f", data[8:] + data[-8:])


def test_bad_attributes_in_the_backing_directory(mount, blosc2):
    """They were set past us: nothing follows from them."""
    m = mount()
    (m.mnt / "f").touch()
    m.unmount()
    for name, value in (
        (PIPELINE, b"\xff" * 100),
        (CHUNK, b"0"),
        (BLOCK, b"9" * 120),
        (TUNE, b"\0\0"),
    ):
        os.setxattr(m.stored("f"), name, value)
    m.start()
    data = write(m, "f")
    reads_as(blosc2, m, "f", data)
    assert chunk_of(blosc2, m, "f")["chunksize"] == 1 << 20


def test_rules(mount, work, blosc2):
    rules = work / "rules"
    rules.write_text(
        f"\ufeff# by name\n\n*.fits  {ZSTD}  chunksize=256K blocksize=32K\n"
        f"*.jpg store # packed already\nraw?? tune=off\n*.f* {LZ4}\n"
    )
    m = mount(f"rules={rules}")
    data = {name: write(m, name) for name in ("a.fits", "b.jpg", "raw01", "b.fit", "plain")}
    got = {name: chunk_of(blosc2, m, name) for name in data}
    assert (got["a.fits"]["filters"], got["a.fits"]["typesize"], got["a.fits"]["blocksize"]) == (
        [1],
        8,
        32 << 10,
    )
    assert got["a.fits"]["chunksize"] == 256 << 10
    assert got["b.jpg"]["stored"] and not got["raw01"]["stored"]
    assert (
        got["raw01"]["filters"] == [] and got["b.fit"]["codec"] == 1 and got["plain"]["codec"] == 5
    )
    (m.mnt / "c.jpg").touch()
    set_on(m.mnt / "c.jpg", PIPELINE, LZ4)  # the attribute is nearer
    write(m, "c.jpg")
    assert chunk_of(blosc2, m, "c.jpg")["codec"] == 1
    os.truncate(m.mnt / "b.jpg", 0)
    m.remount()
    write(m, "b.jpg")  # empty again: the rule again
    assert chunk_of(blosc2, m, "b.jpg")["stored"]
    reads_as(blosc2, m, "a.fits", data["a.fits"])


def test_patterns_are_those_of_glob(mount, work, blosc2):
    rules = work / "rules"
    rules.write_text("\\[x] lz4\n[[]y] lz4\n*.a lz4\n[!m-z]?.b lz4\n")
    m = mount(f"rules={rules}")
    for name, fits in (
        ("[x]", True),
        ("\\x", False),
        ("[y]", True),
        (".a", True),
        ("ab.b", True),
        ("zb.b", False),
    ):
        write(m, name)
        assert (chunk_of(blosc2, m, name)["codec"] == 1) == fits, name


@pytest.mark.parametrize(
    "text, line, why",
    [
        ("*.a shuffle:4+zstd:3\n*.b nonsense\n", 2, "no codec is called"),
        ("\n\n*.c\n", 3, "says nothing"),
        ("*.d store blocksize=x", 1, "needs a size"),
        ("* store=1", 1, "'store=1': unknown word"),
        ("* zstd:3 lz4", 1, "second pipeline"),
        ("* zstd:3 pipeline=lz4", 1, "second pipeline"),
        ("* tune=size zstd:3", 1, "nothing to tune"),
        ("* shuffle:4", 1, "a codec comes last"),
        ("*.e bytedelta:256+lz4", 1, "items have at most 255 bytes"),
        ("*.a zstd\nd/*.b lz4\n", 2, "names contain no /"),
        ("*.a zstd\n*.b zstd\0*.c lz4\n", 2, "not a text"),
        (f"*.a zstd\n{'x' * 9000}\n", 2, "says nothing"),
    ],
)
def test_wrong_rules_are_refused_at_the_mount(mount, work, text, line, why):
    rules = work / "rules"
    rules.write_text(text)
    with pytest.raises(MountFailed) as error:
        mount(f"rules={rules}")
    assert f"{rules}:{line}:" in str(error.value) and why in str(error.value)


@pytest.mark.parametrize(
    "name, why",
    [("absent", "No such file"), (".", "Is a directory"), ("/dev/zero", "longer than 1M")],
)
def test_rules_that_cannot_be_read_are_refused(mount, work, name, why):
    with pytest.raises(MountFailed, match=why):
        mount(f"rules={work / name}")


def test_frames_of_the_reference_follow_attributes_only(mount, work, blosc2):
    """A frame that the reference wrote keeps its pipeline when it grows, unless
    its attribute says otherwise; and back."""
    m = mount()
    data = np.random.default_rng(5).bytes(1 << 20) + text()
    m.unmount()
    for name in ("a", "b"):
        frame = blosc2.SChunk(
            chunksize=1 << 20,
            contiguous=True,
            urlpath=str(m.stored(name)),
            cparams={
                "codec": blosc2.Codec.BLOSCLZ,
                "typesize": 1,
                "clevel": 5,
                "filters": [blosc2.Filter.NOFILTER],
            },
        )
        frame.append_data(data[: 1 << 20])
        frame.append_data(data[1 << 20 :])
    os.setxattr(m.stored("b"), PIPELINE, ZSTD.encode())
    m.start()
    more = numbers()
    for name in ("a", "b"):
        with open(m.mnt / name, "ab") as out:
            out.write(more)
    m.unmount()
    assert chunk_of(blosc2, m, "a", 2)["codec"] == 0
    assert chunk_of(blosc2, m, "b", 2)["codec"] == 5
    m.start()
    for name in ("a", "b"):
        reads_as(blosc2, m, name, data + more)
        with open(m.mnt / name, "ab") as out:
            out.write(more)  # by now the frame carries a note of ours
    m.unmount()
    assert chunk_of(blosc2, m, "a", blosc2.open(str(m.stored("a"))).nchunks - 1)["codec"] == 0
    m.start()
    reads_as(blosc2, m, "a", data + 2 * more)


def test_a_file_that_grows_later_is_looked_at_again(mount, blosc2):
    """Text, and after a remount numbers behind it: each gets what suits it."""
    m = mount("commit=0")
    data = (text() * 9)[: 2 << 20]
    (m.mnt / "f").write_bytes(data)
    m.remount()
    more = np.cumsum(np.random.default_rng(7).normal(size=1 << 18)).tobytes()
    with open(m.mnt / "f", "ab") as out:
        out.write(more)
    m.unmount()
    assert chunk_of(blosc2, m, "f", 0)["filters"] == []
    assert chunk_of(blosc2, m, "f", 2)["filters"] != []
    m.start()
    reads_as(blosc2, m, "f", data + more)


def test_cp_keeps_what_was_asked(mount, blosc2):
    m = mount()
    (m.mnt / "f").touch()
    set_on(m.mnt / "f", PIPELINE, LZ4)
    write(m, "f")
    subprocess.run(["cp", "--preserve=all", m.mnt / "f", m.mnt / "g"], check=True)
    assert os.getxattr(m.mnt / "g", PIPELINE) == LZ4.encode()


def test_level_auto(mount, blosc2):
    """Whatever the load makes of it: sound, and no larger than at level 1 when there is none."""
    data = text() * 3 + numbers()
    fixed = mount("level=1,tune=off")
    write(fixed, "f", data)
    auto = mount("level=auto,tune=off,workers=1")
    for name in ("warm", "f"):  # a step a chunk
        write(auto, name, data)
    for m in (fixed, auto):
        m.unmount()
        frame = blosc2.open(str(m.stored("f")), mode="r")
        assert b"".join(frame.decompress_chunk(i) for i in range(frame.nchunks)) == data
    assert auto.stored("f").stat().st_size < fixed.stored("f").stat().st_size


def test_profile_random(mount, blosc2):
    m = mount("profile=random")
    data = write(m, "f", text() * 2)
    assert chunk_of(blosc2, m, "f")["blocksize"] == 16 << 10
    reads_as(blosc2, m, "f", data)
    other = mount("profile=random,blocksize=8K")
    write(other, "f")
    assert chunk_of(blosc2, other, "f")["blocksize"] == 8 << 10


@pytest.mark.parametrize(
    "options",
    ["profile=best", "level=most", "level=auto,pipeline=zstd:3", "pipeline=shuffle:256+zstd"],
)
def test_wrong_words_are_refused(mount, options):
    with pytest.raises(MountFailed):
        mount(options)


# ---- another chunk size for a file that is emptied


@pytest.mark.parametrize("made", ["here", "by the reference"])
@pytest.mark.parametrize("size, chunk", [(65_536, 16_384), (100_000, 60_000), (300_001, 200_000)])
def test_an_emptied_file_that_had_other_chunks(mount, blosc2, made, size, chunk):
    """Until the file is empty on the disk too, its chunks are counted by their old size."""
    data = blob(size, size, "noise")
    m = mount(f"chunksize={chunk},blocksize=4K")
    if made == "here":
        (m.mnt / "f").write_bytes(data)
    else:
        frame = blosc2.SChunk(chunksize=chunk, contiguous=True, urlpath=str(m.stored("f")))
        frame.append_data(data[:chunk])
        for at in range(chunk, size, chunk):
            frame.append_data(data[at : at + chunk])
        del frame
    m.remount("chunksize=80000,blocksize=4K,intent=0")
    assert (m.mnt / "f").read_bytes() == data
    fd = os.open(m.mnt / "f", os.O_WRONLY | os.O_DIRECT)
    os.ftruncate(fd, 0)
    with mmap.mmap(-1, 4096) as page:  # what is written now has chunks of the new size
        assert os.pwrite(fd, page, 0) == 4096
    os.ftruncate(fd, 0)
    os.fsync(fd)
    os.close(fd)
    m.kill()
    m.start()
    assert (m.mnt / "f").read_bytes() == b""
    (m.mnt / "f").write_bytes(data)
    m.unmount()
    frame = blosc2.open(str(m.stored("f")))
    assert frame.chunksize == 80_000
    assert b"".join(frame.decompress_chunk(i) for i in range(frame.nchunks)) == data
