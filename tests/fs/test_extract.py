"""cframe extract: what a mount of the directory would show, without one."""

import errno
import os
import re
import resource
import shutil
import signal
import stat
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from libcompress import start
from libdata import blob
from libfault import Fault
from libmount import CFRAME, REPO, SLOWNESS, wait_until
from libtree import assert_same, cframe, small_disk

DATA = blob(1, 2_500_001, "text")
HOLE = 64 << 20


def extract(*args, code=0):
    return cframe("extract", *args, code=code)


def fill(m, blosc2):
    """A tree with all that a backing directory may hold."""
    import numpy as np

    (m.mnt / "sub/deep").mkdir(parents=True)
    (m.mnt / "big").write_bytes(DATA)
    (m.mnt / "sub/name\nof two lines").write_bytes(b"1")
    (m.mnt / ("é" * 123)).write_bytes(b"long")
    (m.mnt / "sub/empty").touch()
    (m.mnt / "sub/deep/run").write_bytes(b"#!/bin/sh\n")
    os.chmod(m.mnt / "sub/deep/run", 0o4751)
    os.link(m.mnt / "big", m.mnt / "sub/other name of big")
    (m.mnt / "sub/link").symlink_to("../big")
    (m.mnt / "dangling").symlink_to("/no/such/file")
    os.mkfifo(m.mnt / "fifo")
    with open(m.mnt / "holes", "wb") as f:
        f.truncate(HOLE)
        os.pwrite(f.fileno(), b"x" * 100, HOLE // 2)
    m.unmount()
    (m.backing / "plain.txt").write_bytes(DATA)
    (m.backing / "broken.b2frame").write_bytes(b"no frame")
    (m.backing / "cut.b2frame").touch()
    (m.backing / "x.b2lock").write_bytes(b"")
    with open(m.backing / "plain holes", "wb") as f:
        f.truncate(HOLE)
        os.pwrite(f.fileno(), b"x" * 100, HOLE // 2)
    for path in sorted((REPO / "tests/data/frames").iterdir()):
        if path.is_dir():
            shutil.copytree(path, m.backing / "sub" / path.name)
        else:
            shutil.copy(path, m.backing / "sub")
    blosc2.SChunk(
        chunksize=100_000,
        data=DATA,
        urlpath=str(m.backing / "sparse.b2frame"),
        contiguous=False,
    )
    (m.backing / "sparse.b2frame").chmod(0o3775)  # as where a group shares a directory
    for i, (shape, chunks, blocks) in enumerate(ARRAYS):
        a = np.arange(int(np.prod(shape)), dtype="<f8").reshape(shape)
        where = str(m.backing / f"a{i}.b2nd")
        blosc2.asarray(a, urlpath=where, chunks=chunks, blocks=blocks)
    blosc2.zeros((300, 300), urlpath=str(m.backing / "zeros.b2nd"))
    for path in m.backing.rglob("*"):
        os.utime(path, ns=(1, 1_600_000_000_123_456_789), follow_symlinks=False)


ARRAYS = [
    ((), None, None),
    ((7,), (3,), (2,)),
    ((0, 5), None, None),
    ((100, 33), (40, 10), (7, 3)),
    ((20, 30, 40), (20, 30, 40), (20, 30, 40)),
    ((20, 30, 40), (6, 30, 40), (2, 30, 40)),
    ((5, 6, 7, 8), (2, 6, 3, 8), (2, 4, 3, 5)),
]


@pytest.fixture
def full(mount, blosc2):
    m = mount().allow(r"cframefs: (warning|info|error)")
    fill(m, blosc2)
    return m


def test_a_sparse_frame_whose_directory_does_not_change(work, blosc2):
    """A second run finds what has changed in it, and what of the same name is a directory."""
    backing, plain, stored = work / "backing", work / "plain", work / "backing/x.b2frame"
    backing.mkdir()
    data, new = DATA[:300_000], blob(9, 100_000, "text")
    blosc2.SChunk(
        chunksize=100_000, data=data, urlpath=str(stored), contiguous=False, cparams={"typesize": 1}
    )
    shutil.copytree(REPO / "tests/data/frames/sparse.b2frame", backing / "x.b2")
    past = time.time_ns() - 10**12
    for path in (*backing.rglob("*"), backing):
        os.utime(path, ns=(past, past))
    extract("-C", plain, backing)
    blosc2.open(str(stored), mode="a").update_data(1, new, copy=True)
    os.utime(backing / "x.b2/chunks.b2frame")
    assert stored.stat().st_mtime_ns == past, "else this shows nothing"
    extract("--update", "-C", plain, backing)
    assert (plain / "x").read_bytes() == data[:100_000] + new + data[200_000:]
    assert (plain / "x").stat().st_mtime_ns == (stored / "chunks.b2frame").stat().st_mtime_ns
    assert (plain / "x.b2").stat().st_mtime_ns == past


def test_a_directory_is_what_a_mount_shows(full):
    m, plain = full, full.work / "plain"
    why = "is named like a frame, but copied as it is: it is not one, or another file has its name"
    assert extract("-C", plain, m.backing) == f"cframe: {m.backing}/broken.b2frame: {why}\n"
    m.start()
    assert_same(plain, m.mnt)
    for name in ("holes", "plain holes"):
        assert (plain / name).stat().st_blocks * 512 < 4 << 20, "holes stay holes"
    got = subprocess.run(["diff", "-r", "--no-dereference", "-x", "fifo", plain, m.mnt])
    assert got.returncode == 0


@pytest.mark.parametrize(
    "names",
    [
        ["x", "x.b2frame", "x.b2f", "x.b2"],
        ["x.b2frame", "x.b2f", "x.b2"],
        ["x.b2f", "x.b2"],
        ["x.b2", "x.b2.b2frame"],
        ["x.b2.b2f", "x.b2.b2", "x.b2"],
        ["..b2frame", "...b2frame", ".b2frame"],
    ],
    ids="+".join,
)
def test_two_names(mount, names):
    m = mount().allow(r"cframefs: (warning|info).*x")
    for name in names:
        (m.mnt / "made").write_bytes(f"data of {name}".encode())
        if name == "x":
            (m.work / name).write_bytes(b"data of x")
        else:
            shutil.copy(m.stored("made"), m.work / name)
        os.unlink(m.mnt / "made")
    for name in names:
        os.rename(m.work / name, m.backing / name)
    m.unmount()
    extract("-C", m.work / "plain", m.backing)
    for name in names:  # and one by one
        extract("-C", m.work / "one", m.backing / name)
    m.options = "ro"  # whose daemon has nothing to commit
    m.start()
    extract("-C", m.work / "beside", m.backing)
    for got in ("plain", "one", "beside"):
        assert_same(m.work / got, m.mnt)


def test_single_files(full):
    m, plain = full, full.work / "plain"
    extract("-C", plain, m.backing / "big.b2frame", m.backing / "sparse.b2frame")
    extract("-C", plain, str(m.backing / "sparse.b2frame") + "/", "--force", m.backing / "a3.npy")
    assert sorted(os.listdir(plain)) == ["a3.npy", "big", "sparse"]
    assert (plain / "big").read_bytes() == (plain / "sparse").read_bytes() == DATA
    said = extract("-C", plain, m.backing / "nobody", m.backing / "dangling", code=1)
    assert said == f"cframe: {m.backing}/nobody: No such file or directory\n"
    assert os.readlink(plain / "dangling") == "/no/such/file"


def test_many_names_of_a_directory(tmp_path):
    """They take the time that the directory takes, not one reading of it for each of them."""
    plain, made, back = (tmp_path / name for name in ("plain", "made", "back"))
    plain.mkdir()
    names = [f"{i:04}" for i in range(6000 if SLOWNESS == 1 else 1500)]
    for name in names:
        (plain / name).touch()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    cframe("compress", *(plain / name for name in names), made)
    frames = [made / f"{name}.b2frame" for name in names]
    extract("-C", back, *frames)
    cframe("ls", *frames)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert sorted(os.listdir(back)) == names
    assert after.ru_utime - before.ru_utime < 5 * SLOWNESS
    extract("-C", back, made / "nobody", code=1)
    os.rename(made / "0001.b2frame", made / "new.b2frame")
    extract("-C", back, made / "0000", made / "new", made / "0002")
    assert (back / "new").exists()


def test_links_to_what_was_replaced(mount):
    """A name that another file has taken meanwhile is no other name of the first any more."""
    m = mount()
    for name in ("a/x", "b/x", "c/x"):
        (m.mnt / name).parent.mkdir()
        (m.mnt / name).write_bytes(f"data of {name}".encode())
    for name in ("y", "z"):
        os.link(m.mnt / "a/x", m.mnt / "a" / name)
    m.unmount()
    plain = m.work / "plain"
    names = [m.backing / f"{name}.b2frame" for name in ("a/x", "b/x", "c/x", "a/y", "a/z")]
    extract("--force", "-C", plain, *names)
    assert (plain / "x").read_bytes() == b"data of c/x"
    assert (plain / "y").read_bytes() == (plain / "z").read_bytes() == b"data of a/x"
    assert (plain / "y").samefile(plain / "z")
    extract("--force", "-C", plain, m.backing / "a")
    assert (plain / "x").read_bytes() == b"data of a/x"
    assert (plain / "x").samefile(plain / "z") and (plain / "y").samefile(plain / "z")
    extract("--force", "-C", plain, m.backing / "a", m.backing / "a")  # over themselves
    assert sorted(os.listdir(plain)) == ["x", "y", "z"], "and no draft"


def test_what_is_there_stays(full):
    m, plain = full, full.work / "plain"
    plain.mkdir()
    (plain / "big").write_bytes(b"mine")
    (plain / "plain.txt").symlink_to(m.work / "elsewhere")
    (plain / "sub").symlink_to(m.work)
    before = sorted(os.listdir(m.work))
    said = extract("-C", plain, m.backing, code=1)
    for name in ("big", "plain.txt"):
        assert f"cframe: {plain}/{name}: is there already; --force replaces it\n" in said
    assert f"cframe: {plain}/sub: is there already, and is not a directory\n" in said
    assert (plain / "big").read_bytes() == b"mine" and (plain / "plain.txt").is_symlink()
    assert (plain / "a1.npy").exists(), "the others go on"
    assert sorted(os.listdir(m.work)) == before, "nothing is written through a link"
    (plain / "a1.npy").unlink()
    (plain / "a1.npy").mkdir()
    said = extract("--force", "-C", plain, m.backing, code=1)
    assert (plain / "big").read_bytes() == (plain / "plain.txt").read_bytes() == DATA
    assert not (plain / "plain.txt").is_symlink() and (plain / "sub").is_symlink()
    assert f"cframe: {plain}/a1.npy: is a directory, and stays\n" in said
    assert not [name for name in os.listdir(plain) if name.startswith(".cframe")]


def test_into_itself(full):
    m = full
    said = extract("-C", m.backing, m.backing, code=1)
    assert said.endswith("is where the files would go; name another directory\n")
    extract("-C", m.backing / "out", m.backing)
    assert not (m.backing / "out/out").exists() and (m.backing / "out/big").exists()


def test_onto_itself(tmp_path):
    """A copy in its place would part it from its other names, and from who writes to it."""
    (tmp_path / "x").write_bytes(DATA)
    (tmp_path / "y").hardlink_to(tmp_path / "x")
    (tmp_path / "to").symlink_to("x")
    (tmp_path / "there").symlink_to(tmp_path)
    own = (tmp_path / "x").stat().st_ino
    for path, where in ("x", tmp_path), ("to", tmp_path), ("x", tmp_path / "there"):
        said = extract("--force", "-C", where, tmp_path / path, code=1)
        assert said == f"cframe: {where}/x: is the source itself, and stays\n"
    assert extract("-C", tmp_path, tmp_path / "x") == ""
    assert (tmp_path / "x").stat().st_ino == (tmp_path / "y").stat().st_ino == own


def test_a_frame_that_was_extracted_beside_itself(tmp_path):
    """It is named once more: what has its name there by now is what was made of it."""
    made, here = tmp_path / "made", tmp_path / "here"
    here.mkdir()
    for data in DATA, b"new " * 9999:
        (tmp_path / "x").write_bytes(data)
        cframe("compress", "--force", tmp_path / "x", made)
        shutil.copy2(made / "x.b2frame", here)
        for how in ("-C", here), ():
            words = ("extract", "--force", *how, here / "x.b2frame")
            subprocess.run([CFRAME, *words], cwd=here, check=True)
            assert (here / "x").read_bytes() == data
    assert "has its name" in extract("-C", tmp_path / "all", here)
    assert (tmp_path / "all/x").read_bytes() == data


def test_names_of_a_file_that_lie_deep(tmp_path):
    """Deeper than a path may be long."""
    plain, made, back = (tmp_path / name for name in ("plain", "made", "back"))
    plain.mkdir()
    (plain / "z").write_bytes(b"data")
    make = (
        "import os\nd = os.open('.', os.O_RDONLY)\n"
        "for i in range(30): os.mkdir('d' * 200); os.chdir('d' * 200)\n"
        "os.link('z', 'x', src_dir_fd=d)\nos.link('z', 'y', src_dir_fd=d)"
    )
    subprocess.run([sys.executable, "-c", make], cwd=plain, check=True)
    cframe("compress", plain, made)
    extract("-C", back, made)
    names = (made / "z.b2frame").stat().st_nlink, (back / "z").stat().st_nlink
    subprocess.run(["rm", "-rf", plain, made, back], check=True)
    assert names == (3, 3)


def test_links_are_made_to_the_files_of_the_run(tmp_path):
    """Not to what a symlink leads to that has taken the place of a directory meanwhile."""
    plain, made, other = (tmp_path / name for name in ("plain", "made", "other"))
    for path in plain / "a", plain / "b", plain / "c", other:
        path.mkdir(parents=True)
    (plain / "a/x").write_bytes(b"data")
    os.link(plain / "a/x", plain / "c/x")
    (plain / "b/slow").write_bytes(blob(1, 4 << 20, "text"))
    (other / "x.b2frame").write_bytes(b"secret")
    program = start("-j1", plain, made)
    while not (made / "b").exists():
        assert program.poll() is None
    os.rename(made / "a", tmp_path / "away")
    os.symlink(other, made / "a")
    program.communicate()
    assert (other / "x.b2frame").stat().st_nlink == 1
    extract("-C", tmp_path / "back", made / "c")
    assert (tmp_path / "back/x").read_bytes() == b"data"


def test_a_tree_deeper_than_the_stack(tmp_path):
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    deep = 2100
    if most < 2 * deep:
        pytest.skip("too few descriptors to get so deep")
    make = "import os, sys\nfor i in range(int(sys.argv[2])): os.mkdir('d'); os.chdir('d')"
    (tmp_path / "deep").mkdir()
    subprocess.run([sys.executable, "-c", make, "", str(deep)], cwd=tmp_path / "deep", check=True)
    argv = ["prlimit", f"--nofile=64:{most}", CFRAME, "extract", "-C", tmp_path / "out"]
    got = subprocess.run([*argv, tmp_path / "deep"], capture_output=True, text=True)
    argv[2:] = [CFRAME, "ls", tmp_path / "deep"]
    listed = subprocess.run(argv, capture_output=True, text=True)
    argv[3] = "verify"
    verified = subprocess.run(argv, capture_output=True, text=True)
    subprocess.run(["rm", "-rf", tmp_path / "deep", tmp_path / "out"], check=True)
    assert got.returncode == 1 and got.stderr.endswith("/d/d: is too deep, and left out\n")
    assert listed.stderr.endswith("/d/d: is too deep, and left out\n")
    assert verified.stdout.endswith("/d/d: is too deep, and left out\n")


def test_damaged_frames_leave_nothing(mount):
    m = mount()
    for name in ("cut", "flipped", "good"):
        (m.mnt / name).write_bytes(DATA)
    m.unmount()
    flip(m.stored("flipped"), m.stored("flipped").stat().st_size // 2)
    plain = m.work / "plain"
    said = extract("-C", plain, m.backing, code=1).splitlines()
    assert len(said) == 1 and said[0].startswith(f"cframe: {m.stored('flipped')}: corrupt: ")
    assert sorted(os.listdir(plain)) == ["cut", "good"]


def flip(path, at, n=64):
    with open(path, "r+b") as f:
        was = os.pread(f.fileno(), n, at)
        os.pwrite(f.fileno(), bytes(b ^ 255 for b in was), at)


def by_pages(path):
    """What a reader of single pages gets, with zeros for those that cannot be read."""
    size, got = path.stat().st_size, b""
    with open(path, "rb", buffering=0) as f:
        for at in range(0, size, 4096):
            n = min(4096, size - at)
            try:
                got += os.pread(f.fileno(), n, at)
            except OSError as e:
                assert e.errno == errno.EIO
                got += bytes(n)
    return got


@pytest.mark.parametrize(
    "options", ["", "codec=lz4,chunksize=256K,blocksize=12345", "blocksize=1M"]
)
@pytest.mark.parametrize("kind", ["text", "noise"])
def test_salvage(mount, options, kind):
    """All but the blocks that are damaged."""
    m = mount(options)
    data = blob(1, 2_500_001, kind)
    for name in ("a", "good"):
        (m.mnt / name).write_bytes(data)
    m.unmount()
    stored = m.stored("a").stat().st_size
    for at in (stored // 5, stored // 2, stored - stored // 4):
        flip(m.stored("a"), at)
    said = extract("-C", m.work / "plain", "--salvage", m.backing, code=1)
    got = (m.work / "plain/a").read_bytes()
    assert (m.work / "plain/good").read_bytes() == data
    m.start()
    m.allow("a")
    pages = by_pages(m.mnt / "a")  # which may lie across the ends of blocks
    assert all(x == z or (x, y) == (0, 0) for x, y, z in zip(got, pages, data))
    lost = sum(x != z for x, z in zip(got, data))
    told = re.fullmatch(r"cframe: (.*): damaged: (\d+) bytes are zeros in its copy\n", said)
    assert told[1] == str(m.stored("a")) and lost <= int(told[2]) <= lost + lost // 8 + 4096


@pytest.mark.parametrize("at, byte", [(16, 0x20), (18, 0x41), (30, 0x40)])
def test_salvage_of_a_header_of_a_chunk(mount, blosc2, at, byte):
    """It looks like an unknown filter or format: the chunk is lost, and no more."""
    m = mount("")
    data = blob(1, 2_500_001, "text")
    (m.mnt / "a").write_bytes(data)
    m.unmount()
    stored = m.stored("a")
    whole = bytearray(stored.read_bytes())
    chunk = blosc2.open(str(stored)).get_chunk(1)[:32]
    whole[whole.index(chunk) + at] = byte
    stored.write_bytes(whole)
    said = extract("-C", m.work / "plain", "--salvage", stored, code=1)
    assert f"damaged: {1 << 20} bytes" in said
    lost = data[: 1 << 20] + bytes(1 << 20) + data[2 << 20 :]
    assert (m.work / "plain/a").read_bytes() == lost


def test_salvage_counts_no_padding(tmp_path, blosc2):
    import numpy as np

    a = np.arange(1, 5_001, dtype="i4").reshape(50, 100)
    where = tmp_path / "a.b2nd"
    stored = blosc2.asarray(a, urlpath=str(where), chunks=(40, 80), blocks=(40, 80))
    chunk = stored.schunk.get_chunk(3)  # 10 x 20 items of it are in the array
    del stored
    flip(where, where.read_bytes().index(chunk) + 32, 4)  # the place of its only block
    said = extract("-C", tmp_path / "plain", "--salvage", where, code=1)
    assert f"damaged: {10 * 20 * 4} bytes" in said


def test_what_was_salvaged_is_not_up_to_date(mount):
    m = mount("")
    data = blob(1, 300_000, "text")
    (m.mnt / "a").write_bytes(data)
    m.unmount()
    whole, stored, plain = m.stored("a").read_bytes(), m.stored("a"), m.work / "plain"
    kept = stored.stat()
    flip(stored, len(whole) // 2)
    for _ in range(2):
        extract("-C", plain, "--salvage", "--update", m.backing, code=1)
    assert (plain / "a").read_bytes() != data
    stored.write_bytes(whole)  # from a backup
    os.utime(stored, ns=(kept.st_atime_ns, kept.st_mtime_ns))
    extract("-C", plain, "--update", m.backing)
    assert (plain / "a").read_bytes() == data
    assert (plain / "a").stat().st_mtime_ns == kept.st_mtime_ns


def test_salvage_of_an_unknown_format(tmp_path, blosc2):
    """Of all chunks: that is no damage, and no file of zeros is made."""
    where = tmp_path / "a.b2frame"
    blosc2.SChunk(data=bytes(range(256)) * 999, chunksize=255_744, urlpath=str(where))
    whole = bytearray(where.read_bytes())
    whole[whole.index(blosc2.open(str(where)).get_chunk(0)[:32]) + 30] = 0x40
    where.write_bytes(whole)
    said = extract("-C", tmp_path / "plain", "--salvage", where, code=1)
    assert "not supported" in said and not (tmp_path / "plain/a").exists()


def test_salvage_of_what_cannot_be_opened(tmp_path):
    (tmp_path / "x.b2frame").write_bytes((REPO / "README.md").read_bytes())
    (tmp_path / "y.b2frame").write_bytes(b"\x9e\xa8b2frame\0" + bytes(200))
    extract("-C", tmp_path / "plain", "-s", tmp_path / "x.b2frame", tmp_path / "y.b2frame", code=1)
    assert sorted(os.listdir(tmp_path / "plain")) == ["x.b2frame", "y.b2frame"]


def test_salvage_of_other_programs_frames(tmp_path, blosc2):
    """Without checksums: what can be decoded is taken. Of an array, too."""
    import numpy as np

    a = np.arange(600_000, dtype="f8").reshape(600, 1000)
    where = tmp_path / "a.b2nd"
    stored = blosc2.asarray(a, urlpath=str(where), chunks=(100, 1000), blocks=(10, 1000))
    chunk = stored.schunk.get_chunk(3)
    del stored
    flip(where, where.read_bytes().index(chunk) + 32, 4)  # the place of a block
    extract("-C", tmp_path / "plain", "--salvage", where, code=1)
    got = np.load(tmp_path / "plain/a.npy")
    same = (got == a).all(axis=1)
    assert same[:300].all() and same[400:].all() and not same[300:400].all()
    assert not got[300:400][~same[300:400]].any()


def test_an_array_of_padding(tmp_path, blosc2):
    """A hundred items, each in a chunk of 2^28 blocks that lie behind the array."""
    where = tmp_path / "a.b2nd"
    blosc2.full((100, 1), 7, chunks=(1, 1 << 28), blocks=(1, 1), dtype="u1", urlpath=str(where))
    command = [CFRAME, "extract", "-C", tmp_path / "plain", where]
    subprocess.run(command, check=True, timeout=60 * SLOWNESS)
    npy = (tmp_path / "plain/a.npy").read_bytes()
    assert npy.startswith(b"\x93NUMPY") and npy.endswith(b"\x07" * 100)


@pytest.fixture(scope="module")
def slow(blosc2, tmp_path_factory):
    """By columns, and a row of chunks is too large to be put together in memory."""
    import numpy as np

    where = tmp_path_factory.mktemp("slow") / "a.b2nd"
    a = np.zeros((100, 1_000_000), dtype="u1") + np.arange(100, dtype="u1")[:, None]
    blosc2.asarray(a, urlpath=str(where), chunks=(100, 1000), blocks=(100, 1))
    return where


@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_leaves_nothing_unfinished(tmp_path, slow, sig):
    plain = tmp_path / "plain"
    plain.mkdir()
    program = subprocess.Popen(
        [CFRAME, "extract", "-C", plain, slow],
        # who started the tests in the background may have had it ignored, and that is kept
        preexec_fn=lambda: signal.signal(sig, signal.SIG_DFL),
    )
    while not os.listdir(plain):
        assert program.poll() is None
    assert os.listdir(plain)[0].startswith(".cframe-")
    program.send_signal(sig)
    assert program.wait(60) == -sig
    assert os.listdir(plain) == []


def test_a_signal_in_the_middle_of_many_files(work, root):
    """The workers find their files gone, and say nothing of it."""
    disk = work / "disk"
    with small_disk(disk, "256M"):  # a fast one, on which much happens meanwhile
        (disk / "made").mkdir()
        for name in range(3000):
            (disk / f"made/{name}").write_bytes(b"data" * 1000)
        cframe("compress", disk / "made", disk / "store")
        for n in range(20):
            plain = disk / f"{n}"
            program = subprocess.Popen(
                [CFRAME, "extract", "-C", plain, disk / "store"],
                stderr=-1,
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            )
            while not (plain / f"{1200 + 30 * n}").exists():
                assert program.poll() is None
            program.send_signal(signal.SIGINT)
            assert (program.communicate()[1], program.returncode) == (b"", -signal.SIGINT)
            assert not [name for name in os.listdir(plain) if name.startswith(".cframe")]


def test_a_full_disk(mount, root):
    m = mount()
    (m.mnt / "large").write_bytes(os.urandom(4 << 20))
    (m.mnt / "small").write_bytes(b"small")
    m.unmount()
    plain = m.work / "plain"
    with small_disk(plain):
        said = extract("-C", plain, m.backing, code=1)
        assert said == f"cframe: {plain}/large: No space left on device\n"
        assert os.listdir(plain) == ["small"]


def test_a_full_disk_and_a_torn_frame(mount, root):
    """What is tried twice is told once."""
    m = mount()
    for part in (os.urandom(4 << 20), b"more"):
        with open(m.mnt / "x", "ab") as f:
            f.write(part)
        m.unmount()
        m.start()
    m.unmount()
    with open(m.stored("x"), "r+b") as f:
        f.seek(-18, os.SEEK_END)
        f.write(bytes(18))
    plain = m.work / "plain"
    with small_disk(plain):
        assert extract("-C", plain, m.backing, code=1) == (
            f"cframe: {m.stored('x')}: its newest state is torn; the one before is extracted\n"
            f"cframe: {plain}/x: No space left on device\n"
        )


@pytest.fixture
def one(tmp_path):
    """What extracts the frame of DATA from `store` to `plain`, where `fault` says how it fails."""
    it = SimpleNamespace(store=tmp_path / "store", plain=tmp_path / "plain", data=tmp_path / "x")
    it.data.write_bytes(DATA)
    cframe("compress", it.data, it.store)
    it.argv = [CFRAME, "extract", "-C", it.plain, it.store]
    it.fault = Fault(it, tmp_path / "fault")
    it.run = lambda: subprocess.run(it.argv, capture_output=True, text=True)
    return it


def test_a_frame_by_one_name_and_its_bytes_by_another(one):
    """They are one file in the store, and two outside."""
    os.link(one.store / "x.b2frame", one.store / "a copy")
    assert one.run().returncode == 0
    assert (one.plain / "x").read_bytes() == DATA
    assert (one.plain / "a copy").read_bytes() == (one.store / "x.b2frame").read_bytes()


def test_a_device_is_up_to_date_by_its_number(one, root):
    for minor, code in (3, 0), (3, 0), (5, 1):
        (one.store / "node").unlink(missing_ok=True)
        try:
            os.mknod(one.store / "node", 0o600 | stat.S_IFCHR, os.makedev(1, minor))
        except PermissionError:
            pytest.skip("devices cannot be made here")
        got = one.run()
        assert got.returncode == code, got
    assert got.stderr.startswith(f"cframe: {one.plain}/node: is there already")


def test_a_disk_that_is_full_for_a_moment(one):
    """Of a larger file, perhaps, that is dropped then: the others are tried once more."""
    one.fault.set(2, Fault.WRITE, errno.EDQUOT)
    got = one.run()
    assert (got.returncode, got.stderr) == (0, "") and one.fault.came()
    assert (one.plain / "x").read_bytes() == DATA
    shutil.rmtree(one.plain)
    one.fault.set(2, Fault.WRITE, errno.EDQUOT, forever=1)
    assert one.run().stderr == f"cframe: {one.plain}/x: Disk quota exceeded\n"
    assert not one.plain.exists()


@pytest.mark.parametrize("name", ["x.b2frame", "x"])
def test_a_source_that_changes_is_told(one, name):
    """Its bytes may be of two states. As nobody knows, nothing of it is left."""
    if name == "x":
        (one.store / "x.b2frame").unlink()
        shutil.move(one.data, one.store)
    one.fault.set(1, Fault.WRITE, how=Fault.WAIT)
    with subprocess.Popen(one.argv, stderr=subprocess.PIPE, text=True) as program:
        wait_until(one.fault.came)
        os.utime(one.store / name, ns=(1, 1))
        one.fault.set(0)
        said = program.communicate(timeout=60 * SLOWNESS)[1]
    why = "is being changed; if it is mounted, copy it from there"
    assert (program.returncode, said) == (1, f"cframe: {one.store / name}: {why}\n")
    assert not one.plain.exists()


def test_a_frame_that_cannot_be_opened_is_not_taken_for_none(one):
    """Whatever the reason: a server that is away for a moment, or a key that is missing."""
    told, came = [], True
    while came:
        one.fault.set(len(told) + 1, Fault.OPEN, errno.ESTALE)
        told.append(one.run().stderr)
        came = one.fault.came()
        assert not one.plain.exists() or os.listdir(one.plain) in ([], ["x"]), told[-1]
        shutil.rmtree(one.plain, ignore_errors=True)
    assert f"cframe: {one.store}/x.b2frame: Stale file handle\n" in told


def test_what_the_disk_has_not_taken_is_told(one):
    """The frames may be removed when it ends, or when a second run finds all up to date."""

    def run(n):
        one.fault.set(n, Fault.SYNC, errno.EIO)
        got = one.run()
        return got.returncode, got.stdout, got.stderr

    why = "Input/output error"
    assert run(1) == (1, "", f"cframe: {one.plain}/x: {why}\n")
    assert not one.plain.exists(), "its content, and then its name"
    assert run(2) == (1, "", f"cframe: {one.plain}: {why}\n")
    assert run(0) == (0, "1 up to date, 0 made\n", "")
    assert (one.plain / "x").read_bytes() == DATA


def test_the_limit_of_file_sizes(tmp_path):
    """It is an error of that file: no signal ends the run in the middle, the others are made."""
    store, plain = tmp_path / "store", tmp_path / "plain"
    for name, size in (("a", 4 << 20), ("b", 1000)):
        (tmp_path / name).write_bytes(bytes(range(250)) * (size // 250))
        cframe("compress", tmp_path / name, store)
    limit = ["prlimit", f"--fsize={1 << 20}", CFRAME, "extract", "-C", plain, store]
    got = subprocess.run(limit, stderr=-1, text=True)
    assert (got.returncode, got.stderr) == (1, f"cframe: {plain}/a: File too large\n")
    assert os.listdir(plain) == ["b"]


def test_usage():
    for args in ([], ["-C", "/tmp"], ["--force"]):
        assert extract(*args, code=1) == "cframe: usage: cframe extract [OPTIONS] PATH...\n"
    for args, why in (
        (["x", "-C"], "'-C': needs a value"),
        (["--all", "x"], "'--all': unknown"),
        (["-C", "/tmp", "-q"], "'-q': unknown"),
        (["-fq"], "'-q': unknown"),
        (["x", "--force=yes"], "'--force=yes': takes no value"),
    ):
        said = f"cframe: option {why}; see cframe extract --help\n"
        assert extract(*args, code=1) == said


@pytest.fixture
def many(tmp_path):
    """Frames of many small files and a few large ones, by several names; the plain tree."""
    plain, frames = tmp_path / "plain", tmp_path / "frames"
    for n in range(400):
        folder = plain / f"{n % 7}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{n:03}").write_bytes(blob(n, 5000 + n, "text"))
        if n % 5 == 0:
            os.link(folder / f"{n:03}", folder / f"{n:03} again")
            os.link(folder / f"{n:03}", plain / f"{n:03} above")
    (plain / "3/large").write_bytes(blob(1, 9_000_001, "text"))
    for folder in plain.iterdir():
        if folder.is_dir():
            folder.chmod(0o750)
            os.utime(folder, ns=(1, 1_600_000_000_123_456_789))
    cframe("compress", plain, frames)
    return plain, frames


@pytest.mark.concurrent
def test_many_files_by_many_threads(tmp_path, many):
    plain, frames = many
    argv = [CFRAME, "extract", "-v", "-C", tmp_path / "out", frames]
    out = subprocess.check_output(argv, text=True)
    assert len(out.splitlines()) == 400 + 2 * 80 + 1
    assert_same(plain, tmp_path / "out")
    for folder in plain.iterdir():
        assert (tmp_path / "out" / folder.name).stat().st_mtime_ns == folder.stat().st_mtime_ns
    for n in range(0, 400, 5):
        first = tmp_path / "out" / f"{n % 7}/{n:03}"
        assert first.stat().st_nlink == 3
        assert first.samefile(tmp_path / "out" / f"{n:03} above")


@pytest.mark.concurrent
def test_bad_files_among_many(tmp_path, many):
    """Each is told, once, and none hides another."""
    _, frames = many
    bad = [frames / f"{n % 7}/{n:03}.b2frame" for n in range(101, 400, 50) if n % 5]
    bad.append(frames / "3/large.b2frame")
    for path in bad:
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 0xFF
        path.write_bytes(data)
    out = extract("-C", tmp_path / "out", frames, code=1)
    assert sorted(line.split(": ")[1] for line in out.splitlines()) == sorted(map(str, bad))
    made = [p.name for p in (tmp_path / "out").rglob("*") if p.is_file()]
    assert len(made) == 400 + 2 * 80 + 1 - len(bad)
    assert not [name for name in made if name.startswith(".cframe-")]


@pytest.mark.concurrent
def test_of_two_sources_the_first_one_stays(tmp_path, many):
    """Whose file may still be on its way when the other one comes."""
    _, frames = many
    other = tmp_path / "other"
    other.mkdir()
    (other / "large").write_bytes(b"small")
    cframe("compress", other, tmp_path / "small")
    both = [frames / "3/large.b2frame", tmp_path / "small/large.b2frame"]
    assert "is there already" in extract("-C", tmp_path / "out", *both, code=1)
    assert (tmp_path / "out/large").stat().st_size == 9_000_001
    extract("-f", "-C", tmp_path / "out", *both)
    assert (tmp_path / "out/large").read_bytes() == b"small"


@pytest.mark.concurrent
@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_among_many_files(tmp_path, many, sig):
    plain, frames = many
    out = tmp_path / "out"
    program = subprocess.Popen([CFRAME, "extract", "-C", out, frames], stderr=subprocess.DEVNULL)
    while program.poll() is None and not (out.exists() and any(out.iterdir())):
        pass
    program.send_signal(sig)
    assert program.wait(60) in (-sig, 0)
    for path in out.rglob("*"):
        assert not path.name.startswith(".cframe-")
        if path.is_file():
            assert path.read_bytes() == (plain / path.relative_to(out)).read_bytes()
