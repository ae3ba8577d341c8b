"""cframe compress: what a mount would have written, without one."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from libdata import KINDS, blob
from libmount import CFRAME, SLOWNESS
from libtree import assert_same, cframe, small_disk, tree

DATA = blob(1, 2_500_001, "text")
HOLE = 64 << 20
MTIME = 1_600_000_000_123_456_789


def compress(*args, code=0, **how):
    return cframe("compress", *args, code=code, **how)


def extracted(frames, plain):
    assert cframe("extract", "-C", plain, frames) == ""
    return plain


def fill(top):
    """Files of all kinds and of lengths around chunks and blocks; links; holes."""
    (top / "sub/deep").mkdir(parents=True)
    (top / "big").write_bytes(DATA)
    for kind in KINDS:
        for size in (0, 1, 31, 65536, 1_000_003, 1 << 20, (1 << 20) + 1, 3_145_735):
            (top / "sub" / f"{kind} {size}").write_bytes(blob(2, size, kind))
    (top / "sub/deep/run").write_bytes(b"#!/bin/sh\n")
    os.chmod(top / "sub/deep/run", 0o4751)
    os.chmod(top / "sub/deep", 0o700)
    os.link(top / "big", top / "sub/other name of big")
    os.link(top / "big", top / "third name of big")
    (top / "sub/link").symlink_to("../big")
    (top / "dangling").symlink_to("/no/such/file")
    with open(top / "holes", "wb") as f:
        f.truncate(HOLE + 5)
        os.pwrite(f.fileno(), b"x" * 100, HOLE // 2)
    for path in top.rglob("*"):
        os.utime(path, ns=(1, MTIME), follow_symlinks=False)


@pytest.fixture
def full(tmp_path):
    (tmp_path / "plain").mkdir()
    fill(tmp_path / "plain")
    return tmp_path / "plain"


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


def test_rules_and_attributes(tmp_path, blosc2):
    plain, made = tmp_path / "plain", tmp_path / "made"
    (plain / "sub").mkdir(parents=True)
    for name in ("a.jpg", "b.dat", "sub/c.dat"):
        (plain / name).write_bytes(blob(1, 100_000, "text"))
    (tmp_path / "rules").write_text("*.jpg store\n")
    made.mkdir()
    os.setxattr(made, "user.cframefs.pipeline", b"lz4")
    compress("--rules", tmp_path / "rules", plain, made)
    codec = {
        path.name: blosc2.open(str(path)).cparams.codec.name for path in made.rglob("*.b2frame")
    }
    # the attribute of the directory is nearer than the rule, and is inherited
    assert set(codec.values()) == {"LZ4"}
    assert os.getxattr(made / "sub", "user.cframefs.pipeline") == b"lz4"
    assert os.getxattr(made / "sub/c.dat.b2frame", "user.cframefs.pipeline") == b"lz4"
    compress("--rules", tmp_path / "rules", plain, tmp_path / "other")
    assert (tmp_path / "other/a.jpg.b2frame").stat().st_size > 100_000
    assert (tmp_path / "other/b.dat.b2frame").stat().st_size < 60_000


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
        none = f"cframe: {made}: no frames are there\n"
        assert cframe("verify", made) == ("" if any(map(is_frame, Path(made).rglob("*"))) else none)
        assert_same(extracted(made, os.path.join(work, "back")), plain)


CAPS = bytes.fromhex("0100000200040000000000000000000000000000")  # cap_net_bind_service+ep


def extras(top):
    """{path: its extended attributes} below a directory, but for labels."""
    found = {}
    for path in [top, *top.rglob("*")]:
        if not path.is_symlink():
            names = [name for name in os.listxattr(path) if name != "security.selinux"]
            found[path.relative_to(top)] = {name: os.getxattr(path, name) for name in names}
    return found


@pytest.fixture
def with_extras(tmp_path, tool):
    tool("setfacl")
    plain = tmp_path / "plain"
    (plain / "sub").mkdir(parents=True)
    for name in ("a", "sub/b"):
        (plain / name).write_bytes(blob(1, 100_000, "text"))
        os.setxattr(plain / name, "user.note", b"of " + name.encode())
    os.setxattr(plain / "a", "user.empty", b"")
    os.setxattr(plain / "sub", "user.note", b"of a directory")
    for acl, name in (("u:54321:rw,g::r", "a"), ("d:u:54321:rwx,u:54322:rx", "sub")):
        if subprocess.run(["setfacl", "-m", acl, plain / name]).returncode:
            pytest.skip("the directory for temporary files has no ACLs")
    os.chmod(plain / "sub/b", 0o444)
    os.setxattr(plain / "a", "user.cframefs.pipeline", b"lz4")
    return plain


def test_extended_attributes_and_acls(with_extras, mount, root):
    """Those of a source, but for what describes how a frame is stored."""
    plain, m = with_extras, mount("allow_other", start=False)
    os.setxattr(plain / "sub/b", "security.capability", CAPS)
    wanted = extras(plain)
    assert len(wanted) == 4
    assert compress(plain, m.backing) == ""
    back = extracted(m.backing, m.work / "back")
    assert_same(back, plain)
    del wanted[(plain / "a").relative_to(plain)]["user.cframefs.pipeline"]
    assert extras(back) == wanted
    m.start()
    assert extras(m.mnt) == wanted
    again = m.work / "again"
    assert compress(m.mnt, again) == "", "a mount is as good a source"
    assert extras(extracted(again, m.work / "back2")) == wanted


def as_nobody(*paths):
    """How subprocess runs a program as a user who is not root, if that one gets to the paths."""
    for path in paths:
        for above in (path, *path.parents):
            if not above.stat().st_mode & 0o001:
                pytest.skip("another user does not get there")
    return {"user": 65534, "group": 65534, "extra_groups": []}


def test_attributes_of_a_user(with_extras, work, root):
    """Who may not set capabilities goes without them, and a file that is read-only has its own."""
    os.setxattr(with_extras / "sub/b", "security.capability", CAPS)
    shutil.copytree(with_extras, work / "plain", symlinks=True)
    (work / "made").mkdir()
    os.chmod(work / "made", 0o777)
    assert compress(work / "plain", work / "made", **as_nobody(work, CFRAME)) == ""
    made = extras(work / "made")
    assert made[Path("sub/b.b2frame")]["user.note"] == b"of sub/b"
    assert "security.capability" not in made[Path("sub/b.b2frame")]


def test_a_target_without_attributes(with_extras, tmp_path, root):
    (tmp_path / "disk").mkdir()
    if subprocess.run(["mount", "-t", "ramfs", "none", tmp_path / "disk"]).returncode:
        pytest.skip("no ramfs can be mounted")
    try:
        said = compress(with_extras, tmp_path / "disk")
        assert said.startswith(f"cframe: {tmp_path}/disk: its file system takes no such extended")
        assert said.count("\n") == 1 and (tmp_path / "disk/sub/b.b2frame").exists()
    finally:
        subprocess.run(["umount", tmp_path / "disk"], check=True)


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


def test_what_is_there_stays(full, tmp_path):
    made = tmp_path / "made"
    made.mkdir()
    (made / "big.b2frame").write_bytes(b"mine")
    (made / "holes.b2f").write_bytes(b"mine")
    (made / "third name of big").write_bytes(b"mine")
    (made / "sub").symlink_to(tmp_path)
    before = sorted(os.listdir(tmp_path))
    said = compress(full, made, code=1)
    assert f"cframe: {made}/big.b2frame: is there already; --force replaces it\n" in said
    assert f"cframe: {made}/sub: is there already, and no directory\n" in said
    beside = "would stand beside an entry that has its name in a mount"
    assert f"cframe: {made}/holes.b2frame: {beside}\n" in said
    assert f"cframe: {made}/third name of big.b2frame: {beside}\n" in said
    assert sorted(os.listdir(tmp_path)) == before, "nothing is written through a link"
    assert (made / "big.b2frame").read_bytes() == b"mine" and (made / "dangling").is_symlink()
    (made / "third name of big").unlink()
    (made / "third name of big.b2frame").mkdir()
    said = compress("--force", full, made, code=1)
    assert f"cframe: {made}/third name of big.b2frame: is a directory, and stays\n" in said
    assert len(said.splitlines()) == 2 and (made / "sub").is_symlink()
    assert (extracted(made / "big.b2frame", tmp_path / "back") / "big").read_bytes() == DATA
    assert not [name for name in os.listdir(made) if name.startswith(".cframe")]


def test_a_second_run_does_what_the_first_did_not(full, tmp_path):
    made, back = tmp_path / "made", tmp_path / "back"
    compress(full, made)
    files = len([path for path in full.rglob("*") if path.is_symlink() or path.is_file()])
    before = tree(made)

    def again(*args, code=0):
        got = subprocess.run([CFRAME, *args], capture_output=True, text=True)
        assert got.returncode == code, got
        return got.stdout, got.stderr

    assert again("compress", full, made) == (f"{files} up to date, 0 made\n", "")
    assert tree(made) == before
    (made / "sub/other name of big.b2frame").unlink()
    (made / "dangling").unlink()
    (full / "new").write_bytes(b"new")
    assert again("compress", full, made) == (f"{files - 2} up to date, 3 made\n", "")
    assert (made / "sub/other name of big.b2frame").samefile(made / "big.b2frame")
    (full / "new").write_bytes(b"NEW")  # of the same size: the time tells
    os.truncate(full / "sub/text 31", 30)  # and what has the same time: its size
    os.utime(full / "sub/text 31", ns=(1, MTIME))
    os.utime(full / "sub/text 0", ns=(1, MTIME - 1))  # older than what is there
    said = again("compress", full, made, code=1)[1]
    there = f"cframe: {made}/%s.b2frame: is there already"
    assert sorted(said.splitlines()) == [
        f"{there % 'new'}, and older; --update replaces it",
        f"{there % 'sub/text 0'}; --force replaces it",
        f"{there % 'sub/text 31'}; --force replaces it",
    ]
    out, said = again("compress", "--update", full, made, code=1)
    assert (out, said.count("\n")) == (f"{files - 2} up to date, 1 made\n", 2)
    assert again("compress", "--force", full, made) == ("", "")
    cframe("extract", "-C", back, made)
    assert_same(back, full)
    assert again("extract", "-C", str(back), str(made)) == (f"{files + 1} up to date, 0 made\n", "")
    (back / "big").write_bytes(b"changed")
    os.utime(back / "big", (1, 1))
    said = again("extract", "-u", "-C", str(back), str(made))
    assert said == (f"{files - 2} up to date, 3 made\n", "")  # all its names
    assert (back / "big").read_bytes() == DATA


def attributes(top):
    return {
        str(path.relative_to(top)): (oct(st.st_mode), st.st_uid, st.st_gid, st.st_mtime_ns)
        for path in top.rglob("*")
        if path.is_dir() and not path.is_symlink()
        for st in [path.stat()]
    }


def test_a_second_run_finishes_the_directories_of_the_first(full, tmp_path):
    """They are as an interrupted one leaves them; the one that is named keeps its attributes."""
    made, back = tmp_path / "made", tmp_path / "back"
    (full / "closed").mkdir()
    (full / "closed/file").touch()
    os.utime(full / "closed", ns=(1, MTIME))
    os.chmod(full / "closed", 0o555)
    compress(full, made)
    cframe("extract", "-C", back, made)
    wanted = attributes(full)
    for top in made, back:
        assert attributes(top) == wanted
        os.chmod(top, 0o711)
        for path in "sub/deep", "sub":
            (top / path / f"only in {top.name}").touch()
            os.chmod(top / path, 0o700)
        os.chmod(top / "sub", 0o500)
        next((top / "closed").iterdir()).unlink()
    compress(full, made)
    cframe("extract", "-C", back, made)
    for top in made, back:
        assert attributes(top) == wanted and (top.stat().st_mode & 0o7777) == 0o711
        assert len(os.listdir(top / "closed")) == 1
    os.chmod(full / "closed", 0o755)


def test_directories_of_others_stay_as_they_are(work, root):
    plain, made = work / "plain", work / "made"
    (plain / "shared").mkdir(parents=True)
    (plain / "shared/x").touch()
    (made / "shared").mkdir(parents=True)
    os.chmod(made / "shared", 0o777)
    assert compress(plain, made, **as_nobody(work)) == ""
    assert os.listdir(made / "shared") == ["x.b2frame"]
    assert (made / "shared").stat().st_mode & 0o7777 == 0o777


def test_times_of_fat(tmp_path):
    """Its time stamps are even seconds, rounded down."""
    plain, made = tmp_path / "plain", tmp_path / "made"
    plain.mkdir()
    for second in range(4):
        (plain / f"{second}").write_bytes(b"x")
        os.utime(plain / f"{second}", ns=(1, (MTIME // 10**10 * 10 + second) * 10**9 + 123))
    compress(plain, made)
    for path in made.iterdir():
        os.utime(path, (1, path.stat().st_mtime_ns // 10**9 // 2 * 2))
    assert cframe("compress", plain, made) == ""
    os.utime(made / "3.b2frame", (1, (made / "3.b2frame").stat().st_mtime_ns // 10**9 - 2))
    assert "3.b2frame: is there already, and older" in compress(plain, made, code=1)


def test_a_target_that_may_not_be_written_to_is_named(work):
    plain, made = work / "plain", work / "made"
    plain.mkdir()
    for name in ("a", "b"):
        (plain / name).write_bytes(b"x")
    (plain / "d").mkdir()
    made.mkdir()
    how = as_nobody(work) if os.geteuid() == 0 else {}
    os.chmod(made, 0o555)
    wanted = "".join(
        f"cframe: {made}/{name}: Permission denied\n" for name in ("a.b2frame", "b.b2frame", "d")
    )
    assert compress(plain, made, code=1, **how) == wanted


def test_a_target_without_files_is_not_left(tmp_path):
    for args in (
        ["compress", tmp_path / "nosuch", tmp_path / "made"],
        ["extract", "-C", tmp_path / "made", tmp_path / "nosuch"],
    ):
        assert cframe(*args, code=1) == f"cframe: {tmp_path}/nosuch: No such file or directory\n"
        assert not (tmp_path / "made").exists()
    (tmp_path / "empty").mkdir()
    compress(tmp_path / "empty", tmp_path / "made")
    assert os.listdir(tmp_path / "made") == []
    compress(tmp_path / "nosuch", tmp_path / "made", code=1)
    assert (tmp_path / "made").exists(), "it was there before"


def test_into_itself(full):
    said = compress(full, full, code=1)
    assert said == f"cframe: {full}: is where the files would go; name another directory\n"
    wanted = tree(full)
    compress(full, full / "out")
    assert not (full / "out/out").exists() and (full / "out/big.b2frame").exists()
    assert {path: it for path, it in tree(full).items() if not path.startswith("out")} == wanted


def test_two_sources_with_one_name(tmp_path):
    """What comes later stands back, also where it would only take a name in a mount."""
    for kind in ("file", "directory", "link"):
        (tmp_path / kind).mkdir()
    (tmp_path / "file/x").write_bytes(blob(1, 3_000_000, "text"))
    (tmp_path / "directory/x").mkdir()
    (tmp_path / "directory/x/inside").touch()
    (tmp_path / "link/x").symlink_to("nowhere")
    (tmp_path / "link/y.b2frame").symlink_to("nowhere")
    beside = "would stand beside an entry that has its name in a mount"
    for first, second in [("file", "directory"), ("file", "link"), ("directory", "file")]:
        made = tmp_path / f"{first} {second}"
        said = compress("--level=9", tmp_path / first, tmp_path / second, made, code=1)
        at = "x.b2frame" if second == "file" else "x"
        assert said == f"cframe: {made}/{at}: {beside}\n"
        assert not os.path.lexists(made / at)
    (tmp_path / "file/y.b2frame").write_bytes(b"called like a frame")
    made = tmp_path / "made"
    said = compress(tmp_path / "link/y.b2frame", tmp_path / "file/y.b2frame", made, code=1)
    assert said == f"cframe: {made}/y.b2frame.b2frame: {beside}\n"


def test_a_directory_claims_no_name_of_a_file(tmp_path):
    for name in ("x.b2nd", "x.npy"):
        (tmp_path / "plain" / name).mkdir(parents=True)
    compress(tmp_path / "plain", tmp_path / "made")
    assert sorted(os.listdir(tmp_path / "made")) == ["x.b2nd", "x.npy"]


def test_the_last_of_two_sources_replaces(tmp_path):
    for name, size in [("a", 5_000_000), ("b", 1)]:
        (tmp_path / name).mkdir()
        (tmp_path / name / "x").write_bytes(blob(1, size, "text"))
    made = tmp_path / "made"
    compress("--force", "--level=9", tmp_path / "a/x", tmp_path / "b/x", made)
    assert (extracted(made, tmp_path / "back") / "x").read_bytes() == blob(1, 1, "text")


def test_a_file_with_a_slash_behind_it(tmp_path):
    (tmp_path / "x").write_bytes(b"x")
    said = compress(tmp_path / "x", f"{tmp_path}/x/", tmp_path / "made", code=1)
    assert said == f"cframe: {tmp_path}/x/: Not a directory\n"
    assert os.listdir(tmp_path / "made") == ["x.b2frame"]


def test_a_line_is_a_line_whatever_the_name(tmp_path):
    (tmp_path / "plain").mkdir()
    os.mkfifo(tmp_path / "plain/a\n\x1b[31mß")
    said = compress(tmp_path / "plain", tmp_path / "made")
    assert (
        said == f"cframe: {tmp_path}/plain/a??[31mß: is not a file, directory or link: left out\n"
    )
    nosuch = tmp_path / "no\nsuch"
    assert cframe("info", nosuch, code=1).count("\n") == 1


def test_files_without_a_length_are_told(tmp_path):
    said = compress("/proc/self/stat", tmp_path / "made", code=1)
    assert said == "cframe: /proc/self/stat: has bytes, and no length (as in /proc); left out\n"
    assert not (tmp_path / "made").exists()


def test_what_cannot_be_stored_gets_a_line(tmp_path):
    plain, made = tmp_path / "plain", tmp_path / "made"
    plain.mkdir()
    os.mkfifo(plain / "fifo")
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(str(plain / "socket"))
    for kind in ("fifo", "socket"):
        assert f"{plain}/{kind}: is not a file, directory or link: left out\n" in compress(
            plain, tmp_path / kind
        )
        said = compress(plain / kind, tmp_path / "named", code=1)
        assert said == f"cframe: {plain}/{kind}: is not a file, directory or link: left out\n"
        assert not (tmp_path / "named").exists()
    os.unlink(plain / "fifo")
    os.unlink(plain / "socket")
    (plain / ("n" * 248)).touch()
    (plain / "x").write_bytes(b"x")
    (plain / "x.b2frame").symlink_to("x")
    (plain / ".cframefs-intent").mkdir()
    said = compress(plain, made, code=1)
    assert f"{plain}/{'n' * 248}: File name too long\n" in said
    assert f"{plain}/x.b2frame: has the name of the frame of a file beside it" in said
    assert f"{plain}/.cframefs-intent: would be hidden by a mount, and is left out\n" in said
    assert len(said.splitlines()) == 3 and os.listdir(made) == ["x.b2frame"]
    assert (made / "x.b2frame").is_file() and not (made / "x.b2frame").is_symlink()


def test_unreadable_files_are_told_and_the_rest_is_done(work):
    plain, made = work / "plain", work / "made"
    (plain / "closed").mkdir(parents=True)
    for name in ("a", "b", "c", "closed/d"):
        (plain / name).write_bytes(DATA)
    os.chmod(plain / "b", 0)
    os.chmod(plain / "closed", 0)
    made.mkdir()
    os.chmod(made, 0o777)
    how = as_nobody(work) if os.geteuid() == 0 else {}
    said = compress(plain, made, code=1, **how)
    assert said == "".join(
        f"cframe: {plain}/{name}: Permission denied\n" for name in ("b", "closed")
    )
    os.chmod(plain / "closed", 0o700)
    assert sorted(os.listdir(made)) == ["a.b2frame", "c.b2frame"]


def test_a_full_disk(tmp_path, root):
    plain, made = tmp_path / "plain", tmp_path / "made"
    plain.mkdir()
    for n in range(3):
        (plain / f"large {n}").write_bytes(os.urandom(4 << 20))
    (plain / "small").write_bytes(b"small")
    with small_disk(made):
        said = compress(plain, made, code=1)
        # what came while those had the room may have a line as well
        assert set(said.splitlines()) >= {
            f"cframe: {made}/large {n}.b2frame: No space left on device" for n in range(3)
        }
        assert os.listdir(made) == ([] if "small" in said else ["small.b2frame"])
        compress("--force", plain / "small", made)
        assert os.listdir(made) == ["small.b2frame"] and cframe("verify", made) == ""


def start(*args):
    return subprocess.Popen(
        [CFRAME, "compress", "--codec=zstd", "--level=9", *args],
        stderr=-1,
        text=True,
        # who started the tests in the background may have had it ignored, and that is kept
        preexec_fn=lambda: [
            signal.signal(s, signal.SIG_DFL) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        ],
    )


@pytest.fixture
def slow(tmp_path):
    """A file that takes seconds, on its way: (program, its path, the target)."""
    plain, made = tmp_path / "plain", tmp_path / "made"
    plain.mkdir()
    made.mkdir()
    (plain / "slow").write_bytes(blob(1, 4 << 20, "text"))
    program = start("-j1", plain, made)
    while not os.listdir(made):
        assert program.poll() is None
    assert os.listdir(made)[0].startswith(".cframe-")
    yield program, plain / "slow", made
    program.kill()
    program.communicate()


@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_nothing_unfinished(slow, sig):
    program, _, made = slow
    program.send_signal(sig)
    assert program.wait(60) == -sig
    assert os.listdir(made) == []


@pytest.mark.concurrent
def test_a_signal_among_many_files(tmp_path):
    plain, made = tmp_path / "plain", tmp_path / "made"
    plain.mkdir()
    made.mkdir()
    for n in range(400):
        (plain / f"{n}").write_bytes(blob(1, 200_000, "text"))
    program = start("-j4", plain, made)
    while not [name for name in os.listdir(made) if name.endswith(".b2frame")]:
        assert program.poll() is None
    program.send_signal(signal.SIGTERM)
    assert program.wait(60) == -signal.SIGTERM
    names = os.listdir(made)
    assert len(names) < 400 and all(name.endswith(".b2frame") for name in names), names
    assert cframe("verify", made) == ""


def test_what_a_killed_one_left(slow, mount):
    """No mount shows it, and the next run removes it; but not that of one that is at work."""
    program, path, made = slow
    m = mount(backing=made)
    assert os.listdir(m.mnt) == []
    m.unmount()
    program.send_signal(signal.SIGSTOP)
    (path.parent / "other").write_bytes(b"other")
    compress(path.parent / "other", made)
    assert len(os.listdir(made)) == 2
    program.kill()
    program.wait(60)
    (made / "sub").mkdir()
    for name in (".cframe-0123456789abcdef", ".cframe-mine"):
        (made / "sub" / name).write_bytes(b"x")
    (path.parent / "sub").mkdir()
    compress(path.parent, made)
    assert sorted(os.listdir(made)) == ["other.b2frame", "slow.b2frame", "sub"]
    assert os.listdir(made / "sub") == [".cframe-mine"]


def test_a_file_that_changes_is_told(slow, tmp_path):
    program, path, made = slow
    program.send_signal(signal.SIGSTOP)
    was = path.read_bytes()
    with open(path, "ab") as f:
        f.write(b"more")
    program.send_signal(signal.SIGCONT)
    _, said = program.communicate(timeout=240)
    assert said == f"cframe: {path}: has changed while it was read\n" and program.returncode == 1
    assert (extracted(made, tmp_path / "back") / "slow").read_bytes() == was


def test_a_file_that_gets_shorter_is_left_out(slow):
    program, path, made = slow
    program.send_signal(signal.SIGSTOP)
    os.truncate(path, 1000)
    program.send_signal(signal.SIGCONT)
    _, said = program.communicate(timeout=240)
    assert program.returncode == 1
    assert said == f"cframe: {path}: got shorter while it was read; left out\n"
    assert os.listdir(made) == []


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


def test_a_mount_is_no_target(mount):
    m = mount()
    plain = m.work / "plain"
    plain.mkdir()
    (plain / "x").write_bytes(b"x")
    said = compress(plain, m.mnt, code=1)
    assert said == f"cframe: {m.mnt}: is a mount, which compresses what is copied to it\n"
    said = compress("--force", plain, m.backing, code=1)
    assert said.startswith(f"cframe: {m.backing}: is mounted, and its daemon may write to what")
    (m.mnt / "sub").mkdir()
    for target in (m.mnt / "sub", m.mnt / "sub/new"):
        said = compress(plain, target, code=1)
        assert said == f"cframe: {target}: is a mount, which compresses what is copied to it\n"
    said = compress("--force", plain, m.backing / "sub", code=1)
    assert said.startswith(f"cframe: {m.backing}/sub: is mounted, and its daemon may write to")
    compress(plain, m.backing)  # what is new is seen there
    while not (m.mnt / "x").exists():
        time.sleep(0.1)
    assert (m.mnt / "x").read_bytes() == b"x"


def test_a_log_that_was_left_forbids_to_replace(tmp_path):
    (tmp_path / "x").write_bytes(b"x")
    (tmp_path / "made/sub").mkdir(parents=True)
    (tmp_path / "made/.cframefs-intent").write_bytes(b"records")
    said = compress("--force", tmp_path / "x", tmp_path / "made/sub", code=1)
    assert said.startswith(f"cframe: {tmp_path}/made/sub: its daemon was killed, and its intent")
    compress(tmp_path / "x", tmp_path / "made/sub")


def test_another_file_system_in_the_target(full, tmp_path, root):
    made = tmp_path / "made"
    made.mkdir()
    with small_disk(made / "sub", "64M"):
        assert compress(full, made) == ""
        assert (made / "sub/text 31.b2frame").exists()


def test_few_descriptors(tmp_path):
    for n in range(300):
        (tmp_path / f"plain/{n % 50}").mkdir(parents=True, exist_ok=True)
        (tmp_path / f"plain/{n % 50}/{n}").write_bytes(b"%d" % n)
    argv = ["prlimit", "--nofile=64", CFRAME, "compress", tmp_path / "plain", tmp_path / "made"]
    got = subprocess.run(argv, capture_output=True, text=True)
    assert (got.returncode, got.stderr) == (0, "")
    assert_same(extracted(tmp_path / "made", tmp_path / "back"), tmp_path / "plain")


def test_the_blocks_of_a_single_chunk_are_shared(tmp_path):
    (tmp_path / "x").write_bytes(blob(1, 8 << 20, "text"))
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
    assert got.stdout == f"{tmp_path}/zeros: {share}1 files: {share}"


def test_usage(tmp_path):
    for args in ([], ["x"], ["--force", "x"]):
        assert compress(*args, code=1).startswith("cframe: usage: cframe compress [OPTIONS] SOURCE")
    for args, why in [
        (["--bogus=1"], "'--bogus=1': unknown"),
        (["-x"], "'-x': unknown"),
        (["-j0"], "0 is not from 1 to 256"),
        (["--level=10"], "from 0 to 9"),
        (["--level=auto"], "auto is for mounts"),
        (["--chunksize=1K"], "from 4K to 1G"),
        (["--pipeline", "shuffle:4"], "as in shuffle+zstd"),
        (["--pipeline", "zstd", "--codec=lz4"], "already says codec"),
        (["--rules", tmp_path / "absent"], "No such file"),
        (["--tune="], "wants a value"),
        (["--force=1"], "'--force=1': takes no value"),
    ]:
        said = compress(*args, tmp_path, tmp_path / "made", code=1)
        assert said.startswith("cframe: ") and why in said and said.count("\n") == 1, said
    assert not (tmp_path / "made").exists()
    assert cframe("help", "bogus", code=1) == cframe("bogus", code=1)


def test_the_tool_does_without_fuse():
    libraries = subprocess.run(["ldd", CFRAME], capture_output=True, text=True).stdout
    assert "libc" in libraries and "fuse" not in libraries
