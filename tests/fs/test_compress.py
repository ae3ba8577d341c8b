"""cframe compress: what a mount would have written, without one."""

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from libcompress import DATA, compress, extracted, start
from libdata import KINDS, blob
from libmount import CFRAME, SLOWNESS
from libtree import assert_same, cframe


@pytest.mark.concurrent
def test_a_mount_shows_the_tree(full, mount):
    m = mount(start=False)
    if os.geteuid() == 0:
        os.chown(full / "sub/text 0", 1234, 2345)
    assert compress(full, m.backing) == ""
    assert cframe("verify", m.backing) == ""
    assert_same(extracted(m.backing, m.work / "back"), full)
    m.start()
    assert_same(m.mnt, full)
    assert m.stored("holes").stat().st_blocks * 512 < 1 << 20, "holes stay holes"
    with open(m.mnt / "big", "r+b") as f:  # and they are written like any others
        f.write(b"new")
    assert (m.mnt / "third name of big").read_bytes() == b"new" + DATA[3:]


OPTIONS = [
    [],
    ["pipeline=shuffle:4+zstd:3"],
    ["codec=lz4"],
    ["tune=size", "chunksize=256K"],
    ["level=0", "tune=size", "chunksize=256K"],
    ["codec=zlib", "level=3", "filter=bitshuffle", "typesize=8", "blocksize=16K"],
    ["profile=random"],
    ["chunksize=4M"],
]


@pytest.mark.parametrize("options", OPTIONS, ids=",".join)
def test_the_chunks_are_those_of_a_mount(mount, blosc2, options):
    """And the reference library reads them."""
    m = mount(",".join(options))
    plain = m.work / "plain"
    plain.mkdir()
    for kind in KINDS:
        for size in (1, 70_001, 1 << 20, 2_200_003, 3_145_728):
            (plain / f"{kind}-{size}").write_bytes(blob(3, size, kind))
    for path in plain.iterdir():
        shutil.copyfile(path, m.mnt / path.name)
    m.unmount()
    flags = [f"--{option}" for option in options]
    assert compress(*flags, "-j3", plain, m.work / "made") == ""
    for path in plain.iterdir():
        made = blosc2.open(str(m.work / "made" / f"{path.name}.b2frame"))
        wanted = blosc2.open(str(m.stored(path.name)))
        assert made[:] == path.read_bytes(), path
        assert (made.nchunks, made.chunksize) == (wanted.nchunks, wanted.chunksize)
        if path.stat().st_size % 8 and path.stat().st_size > 1 << 20:
            continue  # a mount makes the last choice when it knows the length
        for n in range(made.nchunks):
            assert made.get_chunk(n) == wanted.get_chunk(n), (path, n)
        assert made.typesize == wanted.typesize and made.cparams == wanted.cparams


def test_single_files(full, tmp_path):
    made = tmp_path / "made"
    (tmp_path / "to deep").symlink_to(full / "sub/deep")
    compress(full / "sub/link", full / "big", tmp_path / "to deep", "--", made)
    assert sorted(os.listdir(made)) == ["big.b2frame", "link.b2frame", "run.b2frame"]
    back = extracted(made, tmp_path / "back")
    assert (back / "big").read_bytes() == (back / "link").read_bytes() == DATA
    said = compress(full / "nobody", full / "dangling", made, code=1)
    assert said == f"cframe: {full}/nobody: No such file or directory\n"
    assert os.readlink(made / "dangling") == "/no/such/file"


NAMES = st.one_of(
    st.binary(min_size=1, max_size=20).map(lambda b: b.translate(None, b"/\0") or b"_"),
    st.sampled_from(
        [b"x", b"x.b2frame", b"x.b2f", b"x.b2", b"x.b2nd", b"x.npy", b"x.b2lock", b".b2lock"]
    ),
    st.sampled_from([b"chunks.b2frame", b"-v", b"..b2frame", b"...b2frame", b"a\nb", b"\xff"]),
    st.sampled_from([b".cframefs-intent", b".cframe-0123456789abcdef", b"n" * 247]),
).filter(lambda name: name not in (b".", b".."))


FILES = st.tuples(st.integers(0, 1 << 30), st.integers(0, 200_000), st.sampled_from(KINDS))


TREES = st.recursive(
    st.dictionaries(NAMES, FILES, max_size=5),
    lambda inner: st.dictionaries(NAMES, st.one_of(FILES, inner), max_size=5),
    max_leaves=4,
)


def plant(top, what):
    """Makes a tree, without directories that are called like frames or parts of them."""
    os.mkdir(top)
    for name, inner in what.items():
        path = os.path.join(top, name)
        if isinstance(inner, tuple):
            with open(path, "wb") as f:
                f.write(blob(*inner))
        elif name != b".cframefs-intent" and not name.endswith(b".b2frame"):
            plant(path, inner)


def is_frame(path):
    return path.suffix == ".b2frame" and path.is_file() and not path.is_symlink()


@settings(
    deadline=None,
    max_examples=int(os.environ.get("CFRAMEFS_EXAMPLES") or 60 // SLOWNESS),
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(
    what=TREES,
    chunk=st.sampled_from(["4K", "12K", "100000", "1M"]),
    workers=st.sampled_from(["-j1", "-j2", "-j7"]),
)
def test_there_and_back(what, chunk, workers):
    with tempfile.TemporaryDirectory() as work:
        plain, made = os.path.join(work, "plain"), os.path.join(work, "made")
        plant(os.fsencode(plain), what)
        assert compress(f"--chunksize={chunk}", workers, plain, made) == ""
        none = f"cframe: {made}: contains no frames\n"
        assert cframe("verify", made) == ("" if any(map(is_frame, Path(made).rglob("*"))) else none)
        assert_same(extracted(made, os.path.join(work, "back")), plain)


def test_a_sparse_file_of_a_tebibyte(tmp_path):
    plain, made, back = tmp_path / "plain", tmp_path / "made", tmp_path / "back"
    plain.mkdir()
    with open(plain / "large", "wb") as f:
        f.truncate((1 << 40) + 12345)
        for at in (0, 1 << 39, (1 << 40) + 12000):
            os.pwrite(f.fileno(), b"data here", at)
    compress(plain, made)
    assert (made / "large.b2frame").stat().st_blocks * 512 < 32 << 20
    extracted(made, back)
    assert (back / "large").stat().st_size == (1 << 40) + 12345
    with open(back / "large", "rb") as f:
        for at in (0, 1 << 39, (1 << 40) + 12000):
            assert os.pread(f.fileno(), 20, at).startswith(b"data here\0")


def test_few_descriptors(tmp_path):
    for n in range(300):
        (tmp_path / f"plain/{n % 50}").mkdir(parents=True, exist_ok=True)
        (tmp_path / f"plain/{n % 50}/{n}").write_bytes(b"%d" % n)
    argv = ["prlimit", "--nofile=64", CFRAME, "compress", tmp_path / "plain", tmp_path / "made"]
    got = subprocess.run(argv, capture_output=True, text=True)
    assert (got.returncode, got.stderr) == (0, "")
    assert_same(extracted(tmp_path / "made", tmp_path / "back"), tmp_path / "plain")


def test_the_blocks_of_a_single_chunk_are_shared(tmp_path):
    size = 4 << 20 if SLOWNESS == 1 else 2 << 20  # for a second of work
    (tmp_path / "x").write_bytes(blob(1, size, "text"))
    argv = ["-j2", "--chunksize=8M", tmp_path / "x", tmp_path / "made"]
    program = start(*argv)
    ticks = {}
    while program.poll() is None:
        for stat in Path(f"/proc/{program.pid}/task").glob("*/stat"):
            with contextlib.suppress(OSError):  # it has ended
                fields = stat.read_text().rsplit(")", 1)[1].split()
                ticks[stat.parent.name] = int(fields[11])  # in user mode
        time.sleep(0.01)
    assert program.wait() == 0
    assert sum(n >= 10 for n in ticks.values()) >= 2, ticks


def test_verbose(tmp_path):
    (tmp_path / "zeros").write_bytes(bytes(100_000))
    made = tmp_path / "made"
    got = subprocess.run(
        [CFRAME, "compress", "-v", tmp_path / "zeros", made], capture_output=True, text=True
    )
    stored = (made / "zeros.b2frame").stat().st_size
    share = f"100000 -> {stored} ({stored / 1000:.1f} %)\n"
    assert got.stdout == f"{tmp_path}/zeros: {share}1 file: {share}"


def test_usage(tmp_path):
    for args in ([], ["x"], ["--force", "x"]):
        assert compress(*args, code=1).startswith("cframe: usage: cframe compress [OPTIONS] SOURCE")
    for args, why in [
        (["--bogus=1"], "'--bogus=1': unknown"),
        (["-x"], "'-x': unknown"),
        (["--c=lz4"], "'--c=lz4': is ambiguous"),
        (["-j0"], "0 is not from 1 to 256"),
        (["--level=10"], "from 0 to 9"),
        (["--level=auto"], "auto is for mounts"),
        (["--chunksize=1K"], "from 4K to 1G"),
        (["--pipeline", "shuffle:4"], "as in shuffle+zstd"),
        (["--pipeline", "zstd", "--codec=lz4"], "already says codec"),
        (["--rules", tmp_path / "absent"], "No such file"),
        (["--tune="], "needs a value"),
        (["--force=1"], "'--force=1': takes no value"),
    ]:
        said = compress(*args, tmp_path, tmp_path / "made", code=1)
        assert said.startswith("cframe: ") and why in said and said.count("\n") == 1, said
    assert not (tmp_path / "made").exists()
    assert cframe("help", "bogus", code=1) == cframe("bogus", code=1)


def test_the_tool_does_without_fuse():
    libraries = subprocess.run(["ldd", CFRAME], capture_output=True, text=True).stdout
    assert "libc" in libraries and "fuse" not in libraries
