"""Which backing name is shown as which mounted name, and what happens when two claim one."""

import contextlib
import errno
import fcntl
import os
import shutil
import stat
import time

import numpy as np
import pytest

from libdata import blob
from libfault import Fault
from libmount import wait_until
from libposix import (
    RENAME_EXCHANGE,
    RENAME_NOREPLACE,
    RENAME_WHITEOUT,
    error_of,
    link_descriptor,
    renameat2,
    write_at,
)

DATA = blob(1, 150_001, "text")


def frame(m, name, data=DATA):
    """A frame of that backing name, made by the daemon itself (mount must be up)."""
    (m.mnt / "made").write_bytes(data)
    path = m.backing / name
    os.rename(m.stored("made"), path)
    m.remount()
    return path


def seen(m):
    return sorted(os.listdir(m.mnt))


@pytest.mark.parametrize("suffix", [".b2frame", ".b2f", ".b2"])
def test_frame_suffixes(mount, suffix):
    m = mount()
    frame(m, "x.dat" + suffix)
    assert seen(m) == ["x.dat"] and (m.mnt / "x.dat").read_bytes() == DATA
    write_at(m.mnt / "x.dat", 100_000, b"changed")
    m.remount()
    assert os.listdir(m.backing) == ["x.dat" + suffix], "a file keeps its backing name"
    assert (m.mnt / "x.dat").read_bytes() == DATA[:100_000] + b"changed" + DATA[100_007:]


@pytest.mark.parametrize("suffix, shown", [(".b2frame", "new"), (".b2nd", "new.npy")])
def test_a_descriptor_whose_name_was_removed_gets_another_one(mount, suffix, shown):
    """The file has a second name, which the daemon has never looked up."""
    blosc2 = pytest.importorskip("blosc2")
    m = mount()
    if suffix == ".b2nd":
        blosc2.asarray(np.arange(1000), urlpath=str(m.backing / "old.b2nd"))
    else:
        frame(m, "old.b2frame")
    os.link(m.backing / f"old{suffix}", m.backing / f"second{suffix}")
    old = m.mnt / shown.replace("new", "old")
    fd = os.open(old, os.O_RDONLY)
    data = old.read_bytes()
    os.unlink(old)
    link_descriptor(fd, m.mnt / shown)
    os.close(fd)
    assert sorted(os.listdir(m.backing)) == [f"new{suffix}", f"second{suffix}"]
    for _ in range(2):
        assert (m.mnt / shown).read_bytes() == data
        m.remount()


def test_a_new_file_is_a_frame(mount):
    m = mount()
    (m.mnt / "x").write_bytes(DATA)
    os.mkdir(m.mnt / "d")
    (m.mnt / "d" / "y.tar.gz").write_bytes(DATA)
    (m.mnt / "empty").touch()
    assert sorted(os.listdir(m.backing)) == ["d", "empty.b2frame", "x.b2frame"]
    assert os.listdir(m.backing / "d") == ["y.tar.gz.b2frame"]
    for path in ("x", "d/y.tar.gz", "empty"):
        assert m.stored(path).read_bytes()[1:10] == b"\xa8b2frame\0"
    assert m.stored("x").stat().st_size < len(DATA) / 2


def test_other_files_pass_through(mount):
    m = mount(start=False)
    (m.backing / "plain.txt").write_bytes(DATA)
    (m.backing / "link").symlink_to("plain.txt")
    os.mkfifo(m.backing / "fifo")
    (m.backing / "d").mkdir()
    (m.backing / "d" / "no-suffix").write_bytes(b"\x9e\xa8b2frame\0 but not a frame by its name")
    m.start()
    assert seen(m) == ["d", "fifo", "link", "plain.txt"]
    assert (m.mnt / "plain.txt").read_bytes() == DATA and os.readlink(m.mnt / "link") == "plain.txt"
    assert stat.S_ISFIFO((m.mnt / "fifo").stat().st_mode)
    assert (m.mnt / "d" / "no-suffix").read_bytes().startswith(b"\x9e\xa8b2frame")
    write_at(m.mnt / "plain.txt", 5, b"written", os.O_WRONLY)  # the kernel reads the rest
    os.truncate(m.mnt / "plain.txt", 1000)
    m.remount()
    assert (m.backing / "plain.txt").read_bytes() == DATA[:5] + b"written" + DATA[12:1000]


def test_passed_through_file_stays_plain_when_renamed(mount):
    m = mount(start=False)
    (m.backing / "plain").write_bytes(DATA)
    m.start()
    os.rename(m.mnt / "plain", m.mnt / "renamed")
    assert (m.mnt / "renamed").read_bytes() == DATA
    m.remount()
    assert (m.mnt / "renamed").read_bytes() == DATA and seen(m) == ["renamed"]


def test_lock_sidecars_are_hidden(mount):
    m = mount()
    frame(m, "x.b2frame")
    (m.backing / "x.b2frame.b2lock").write_bytes(bytes(16))
    (m.backing / ".b2lock").write_bytes(bytes(16))
    assert seen(m) == ["x"]
    assert error_of(os.stat, m.mnt / "x.b2frame.b2lock") == "ENOENT"
    assert error_of(os.stat, m.mnt / ".b2lock") == "ENOENT"


def test_a_plain_file_has_no_sidecar(mount):
    """What has the name of one stays where it is, whatever happens to the file."""
    m = mount(start=False)
    for name in "abc":
        (m.backing / name).write_bytes(b"plain")
        (m.backing / f"{name}.b2lock").write_bytes(b"another program's")
    m.start()
    (m.mnt / "new").write_bytes(DATA)
    os.unlink(m.mnt / "a")
    os.rename(m.mnt / "new", m.mnt / "b")
    os.rename(m.mnt / "c", m.mnt / "d")
    assert sorted(os.listdir(m.backing)) == ["a.b2lock", "b.b2frame", "b.b2lock", "c.b2lock", "d"]


def test_unfinished_files_of_tools_are_hidden(mount):
    m = mount()
    draft, link = ".cframe-0123456789abcdef", ".cframe-123456789abcdef0"
    (m.mnt / "d").mkdir()
    for where in (m.backing, m.backing / "d"):
        (where / draft).write_bytes(b"half")
        (where / link).symlink_to("text")
    (m.backing / ".cframe-else").write_bytes(b"plain")
    assert seen(m) == [".cframe-else", "d"] and os.listdir(m.mnt / "d") == []
    for name in (draft, link):
        assert error_of(os.lstat, m.mnt / name) == "ENOENT"
        assert error_of(os.rename, m.mnt / ".cframe-else", m.mnt / name) == "EXDEV"
        assert error_of(os.symlink, "text", m.mnt / name) == "EXDEV"
    os.rmdir(m.mnt / "d")
    (m.mnt / draft).write_bytes(DATA)
    assert (m.mnt / draft).read_bytes() == DATA and draft in seen(m)


@pytest.mark.parametrize(
    "name",
    [
        "a.b2frame",
        "a.b2f",
        "a.b2",
        "a.b2nd",
        "a.b2lock",
        ".b2lock",
        ".b2frame",
        "a.npy",
        "chunks.b2frame",
        "00000000.chunk",
        ".hidden",
        "sp ace",
        "new\nline",
        "ünï",
        b"\xff\xfe",
        "-f",
        "a" * 240,
        "..x",
        "*?[",
        "x.B2FRAME",
    ],
)
def test_any_name_can_be_created(mount, name):
    m = mount()
    mnt = os.fsencode(m.mnt)
    raw = os.path.join(mnt, os.fsencode(name))
    with open(raw, "wb") as f:
        f.write(b"content of " + os.fsencode(name))
    for _ in range(2):
        assert os.listdir(mnt) == [os.fsencode(name)]
        with open(raw, "rb") as f:
            assert f.read() == b"content of " + os.fsencode(name)
        m.remount()
    os.unlink(raw)
    assert os.listdir(mnt) == [] and os.listdir(m.backing) == []


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo, lambda path: os.symlink("../own", path)])
def test_what_has_the_name_of_a_sidecar_and_is_none(mount, make):
    """It is somebody's own, and stays where it is whatever happens to the frame beside it. Nothing
    is locked or counted in it."""
    m = mount()
    own = m.backing.parent / "own"
    own.write_bytes(DATA)
    make(m.mnt / "x.b2frame.b2lock")
    make(m.mnt / "z.b2frame.b2lock")
    with open(m.mnt / "x", "wb") as f, open(own) as locked:
        fcntl.flock(locked, fcntl.LOCK_EX)
        f.write(DATA)
        os.fsync(f.fileno())
    assert (m.mnt / "x").read_bytes() == own.read_bytes() == DATA
    os.rename(m.mnt / "x", m.mnt / "y")
    assert seen(m) == ["x.b2frame.b2lock", "y", "z.b2frame.b2lock"]
    (m.backing / "y.b2frame.b2lock").write_bytes(bytes(16))  # one that is
    os.rename(m.mnt / "y", m.mnt / "z")
    os.rename(m.mnt / "z", m.mnt / "x")
    (m.mnt / "x").unlink()
    assert seen(m) == ["x.b2frame.b2lock", "z.b2frame.b2lock"]


@pytest.mark.parametrize("name", ["d.b2frame", "d.b2f", "d.b2nd", "d.b2lock", ".b2lock", "d.npy"])
def test_any_directory_can_be_created(mount, name):
    m = mount()
    os.mkdir(m.mnt / name)
    (m.mnt / name / "f").write_bytes(b"inside")
    for _ in range(2):
        assert os.listdir(m.mnt) == [name] and (m.mnt / name / "f").read_bytes() == b"inside"
        m.remount()
    os.unlink(m.mnt / name / "f")
    os.rmdir(m.mnt / name)


def test_a_directory_that_only_looks_sparse(mount):
    """d.b2frame/ holding chunks.b2frame, but that file is an ordinary frame:
    still a directory, data never hidden."""
    m = mount().allow(r"d\.b2frame")
    os.mkdir(m.mnt / "d.b2frame")
    (m.mnt / "d.b2frame" / "chunks").write_bytes(DATA)
    (m.mnt / "d.b2frame" / "more").write_bytes(b"more")
    for _ in range(2):
        assert seen(m) == ["d.b2frame"]
        assert (m.mnt / "d.b2frame" / "chunks").read_bytes() == DATA
        assert (m.mnt / "d.b2frame" / "more").read_bytes() == b"more"
        m.remount()


@pytest.mark.parametrize("kind", [stat.S_IFSOCK, stat.S_IFIFO, stat.S_IFLNK])
def test_a_directory_whose_index_is_no_file(mount, kind):
    """It is not sparse either, whatever opening such an index gives, and can be renamed and
    removed."""
    m = mount().allow(r"[de]\.b2frame: shown under its own name: corrupt: part of a sparse frame")
    os.mkdir(m.mnt / "d.b2frame")
    index = m.mnt / "d.b2frame/chunks.b2frame"
    if kind == stat.S_IFLNK:
        os.symlink("elsewhere", index)
    else:
        os.mknod(index, kind | 0o600)
    for _ in range(2):
        assert seen(m) == ["d.b2frame"] and stat.S_IFMT(os.lstat(index).st_mode) == kind
        m.remount()
    os.rename(m.mnt / "d.b2frame", m.mnt / "e.b2frame")
    os.unlink(m.mnt / "e.b2frame/chunks.b2frame")
    os.rmdir(m.mnt / "e.b2frame")


# ---- two claims on one name

RANKS = ["x", "x.b2frame", "x.b2f", "x.b2"]  # the first that exists is shown as x


def claimants(m, names):
    """A backing directory with these names; each holds its own name as data."""
    for name in names:
        if name == "x":
            (m.backing / "x").write_bytes(b"data of x")
        else:
            (m.mnt / "made").write_bytes(f"data of {name}".encode())
            shutil.copy(m.stored("made"), m.work / name)
            os.unlink(m.mnt / "made")
    for name in names:
        if name != "x":
            os.rename(m.work / name, m.backing / name)
    m.allow(r"cframefs: (warning|info).*x")
    m.remount()


@pytest.mark.parametrize(
    "names",
    [RANKS, RANKS[1:], RANKS[2:], ["x", "x.b2"], ["x.b2frame", "x.b2"]],
    ids=lambda names: "+".join(names),
)
def test_precedence(mount, names):
    m = mount()
    claimants(m, names)
    assert seen(m) == sorted({"x", *names[1:]}), "losers are shown under their own names"
    assert (m.mnt / "x").read_bytes() == f"data of {names[0]}".encode()
    for loser in names[1:]:
        assert (m.mnt / loser).read_bytes() == (m.backing / loser).read_bytes(), "as plain bytes"
    m.expect_log(r"x\.b2")


def test_a_plain_file_named_like_an_array_wins(mount, blosc2):
    import numpy as np

    m = mount(start=False)
    blosc2.asarray(np.arange(10), urlpath=str(m.backing / "a.b2nd"))
    (m.backing / "a.npy").write_bytes(b"plain")
    m.allow("a.b2nd").start()
    assert seen(m) == ["a.b2nd", "a.npy"] and (m.mnt / "a.npy").read_bytes() == b"plain"
    assert (m.mnt / "a.b2nd").read_bytes() == (m.backing / "a.b2nd").read_bytes()


def test_a_frame_replaces_a_plain_file(mount):
    """The mounted name must afterwards be the new file's: no stale claimant may come back."""
    m = mount(start=False)
    (m.backing / "target").write_bytes(b"plain, to be replaced")
    m.start()
    (m.mnt / "new").write_bytes(DATA)
    assert error_of(renameat2, m.mnt / "new", m.mnt / "target", RENAME_NOREPLACE) == "EEXIST"
    os.rename(m.mnt / "new", m.mnt / "target")
    for _ in range(2):
        assert seen(m) == ["target"] and (m.mnt / "target").read_bytes() == DATA
        m.remount()


def test_a_plain_file_replaces_a_frame(mount):
    m = mount(start=False)
    (m.backing / "plain").write_bytes(b"plain")
    m.start()
    (m.mnt / "target").write_bytes(DATA)
    os.rename(m.mnt / "plain", m.mnt / "target")
    for _ in range(2):
        assert seen(m) == ["target"] and (m.mnt / "target").read_bytes() == b"plain"
        m.remount()
    os.unlink(m.mnt / "target")
    assert seen(m) == [] and os.listdir(m.backing) == []


@pytest.mark.parametrize("suffix", [".b2f", ".b2"])
def test_a_frame_replaces_a_frame_of_another_suffix(mount, suffix):
    m = mount()
    frame(m, "target" + suffix, b"old")
    (m.mnt / "new").write_bytes(DATA)
    os.rename(m.mnt / "new", m.mnt / "target")
    for _ in range(2):
        assert seen(m) == ["target"] and (m.mnt / "target").read_bytes() == DATA
        m.remount()


# of another suffix is not looked for within a moment
@pytest.mark.parametrize("seconds, suffix", [(0, ""), (0, ".b2frame"), (0.1, ""), (0.1, ".b2f")])
@pytest.mark.parametrize("flags", [0, RENAME_NOREPLACE])
def test_a_frame_meets_what_has_come_since(mount, seconds, suffix, flags):
    """The kernel, which has looked for the name in vain, does not ask again for a second."""
    m = mount()
    came = m.work / "came"
    if suffix:
        os.rename(frame(m, "target" + suffix, b"old"), came)
    else:
        came.write_bytes(b"old")
    (m.mnt / "new").write_bytes(DATA)
    assert not os.path.exists(m.mnt / "target")
    time.sleep(seconds)
    os.rename(came, m.backing / ("target" + suffix))
    refused = error_of(renameat2, m.mnt / "new", m.mnt / "target", flags)
    assert refused == ("EEXIST" if flags else None)
    for _ in range(2):
        assert seen(m) == (["new", "target"] if flags else ["target"])
        assert len(os.listdir(m.backing)) == (2 if flags else 1)
        m.remount()
        assert (m.mnt / "target").read_bytes() == (b"old" if flags else DATA)


@pytest.mark.parametrize("exclusive", [False, True])
def test_a_new_file_meets_a_frame_that_has_come_since(mount, exclusive):
    """The kernel takes the name for free, and so do we for a moment: hence several times."""
    m = mount()
    old = frame(m, "old.b2frame", b"old")
    for n in range(10):
        path, came = m.mnt / f"new{n}", m.work / "came"
        shutil.copy(old, came)
        assert not os.path.exists(path)
        os.rename(came, m.stored(path.name))
        if exclusive:
            assert error_of(os.open, path, os.O_CREAT | os.O_EXCL | os.O_RDWR) == "EEXIST"
        else:
            with open(os.open(path, os.O_CREAT | os.O_RDWR), "rb") as f:
                assert f.read() == b"old"
    assert {name.rpartition(".")[2] for name in os.listdir(m.backing)} == {"b2frame"}


def test_a_name_that_was_missing_in_a_directory_that_is_gone(mount):
    """The next one may have its place in the daemon's memory, and is another directory."""
    m = mount()
    old = frame(m, "x.b2f", b"old")
    came = m.work / "came"
    for n in range(100):
        (m.mnt / "new").write_bytes(DATA)
        came.mkdir()
        shutil.copy(old, came / "x.b2f")
        (m.mnt / "gone").mkdir()
        assert not os.path.exists(m.mnt / "gone/x")
        (m.mnt / "gone").rmdir()
        os.rename(came, m.backing / f"d{n}")
        os.rename(m.mnt / "new", m.mnt / f"d{n}/x")
        assert os.listdir(m.backing / f"d{n}") == ["x.b2frame"], n


def test_a_frame_replaces_a_link_that_was_made_since(mount):
    """With the suffix of what it is a link to."""
    m = mount()
    frame(m, "x.b2f", b"old")
    (m.mnt / "new").write_bytes(DATA)
    assert not os.path.exists(m.mnt / "target")
    os.link(m.mnt / "x", m.mnt / "target")
    os.rename(m.mnt / "new", m.mnt / "target")
    for _ in range(2):
        assert seen(m) == ["target", "x"] and (m.mnt / "target").read_bytes() == DATA
        assert (m.mnt / "x").read_bytes() == b"old"
        m.remount()


def test_a_directory_keeps_the_name_from_a_new_file(mount):
    """Backing x.b2frame is a directory of that very name: creating x must not hurt it."""
    m = mount()
    os.mkdir(m.mnt / "x.b2frame")
    (m.mnt / "x.b2frame" / "inside").write_bytes(b"inside")
    failed = error_of(write_at, m.mnt / "x", 0, b"data of x")
    assert failed in (None, "EEXIST")
    m.remount()
    assert seen(m) == (["x.b2frame"] if failed else ["x", "x.b2frame"])
    assert (m.mnt / "x.b2frame" / "inside").read_bytes() == b"inside"


def test_a_directory_replaces_one_that_holds_only_what_is_hidden(mount):
    m = mount()
    for name in ("new", "old", "full"):
        os.mkdir(m.mnt / name)
        (m.backing / name / "x.b2frame.b2lock").write_bytes(bytes(16))
    (m.mnt / "new/inside").write_bytes(DATA)
    (m.mnt / "full/inside").write_bytes(DATA)
    assert error_of(os.rename, m.mnt / "new", m.mnt / "full") in ("ENOTEMPTY", "EEXIST")
    assert (m.backing / "full/x.b2frame.b2lock").exists()
    os.rename(m.mnt / "new", m.mnt / "old")
    assert seen(m) == ["full", "old"] and os.listdir(m.mnt / "old") == ["inside"]


def test_a_directory_that_cannot_be_listed_to_its_end_keeps_what_is_hidden(faulty):
    m, fault = faulty()
    os.mkdir(m.mnt / "d")
    (m.mnt / "d/inside").write_bytes(DATA)
    locks = sorted(f"{name}.b2frame.b2lock" for name in "abcdef")
    for name in locks:
        (m.backing / "d" / name).write_bytes(bytes(16))
    for n in range(1, len(locks) + 4):  # in whatever order they are listed
        fault.set(n, Fault.LIST, errno.EIO)
        assert error_of(os.rmdir, m.mnt / "d") == "ENOTEMPTY" and fault.came(), n
        assert sorted(path.name for path in (m.backing / "d").glob("*.b2lock")) == locks, n
    fault.off()


def test_all_backing_names_of_a_new_file_are_taken(mount):
    """By files that are no frames, and shown under these names."""
    m = mount().allow("shown under its own name")
    taken = ["x.b2", "x.b2f", "x.b2frame"]
    for name in taken:
        (m.backing / name).write_bytes(b"no frame")
    assert error_of(os.open, m.mnt / "x", os.O_CREAT | os.O_WRONLY) == "EEXIST"
    assert seen(m) == taken


def test_an_exchange_where_a_directory_has_the_backing_name(mount):
    m = mount()
    for name in ("d", "d.b2frame"):
        os.mkdir(m.mnt / name)
        (m.mnt / name / "inside").write_bytes(name.encode())
    (m.mnt / "f").write_bytes(DATA)
    renameat2(m.mnt / "f", m.mnt / "d", RENAME_EXCHANGE)
    for _ in range(2):
        assert seen(m) == ["d", "d.b2frame", "f"] and (m.mnt / "d").read_bytes() == DATA
        assert (m.mnt / "f/inside").read_bytes() == b"d"
        assert (m.mnt / "d.b2frame/inside").read_bytes() == b"d.b2frame"
        m.remount()
    renameat2(m.mnt / "f", m.mnt / "d", RENAME_EXCHANGE)
    assert (m.mnt / "f").read_bytes() == DATA and (m.mnt / "d/inside").read_bytes() == b"d"


def test_a_link_where_a_directory_has_the_backing_name(mount):
    m = mount()
    os.mkdir(m.mnt / "x.b2frame")
    (m.mnt / "f").write_bytes(DATA)
    os.link(m.mnt / "f", m.mnt / "x")
    assert error_of(os.link, m.mnt / "f", m.mnt / "x") == "EEXIST"
    m.remount()
    assert seen(m) == ["f", "x", "x.b2frame"] and (m.mnt / "x").read_bytes() == DATA
    assert os.path.samefile(m.mnt / "f", m.mnt / "x")


@pytest.mark.parametrize(
    "make",
    [
        lambda path: os.symlink("elsewhere", path),
        lambda path: os.mkfifo(path),
        lambda path: os.mkdir(path),
    ],
    ids=["symlink", "fifo", "directory"],
)
def test_other_kinds_meet_a_frame_of_the_same_backing_name(mount, make):
    """A frame x lives in x.b2frame; then somebody makes a symlink, fifo or
    directory called x.b2frame."""
    m = mount()
    (m.mnt / "x").write_bytes(DATA)
    failed = error_of(make, m.mnt / "x.b2frame")
    assert failed in (None, "EEXIST")
    m.remount()
    assert (m.mnt / "x").read_bytes() == DATA


def test_hard_links_of_different_names(mount):
    m = mount()
    (m.mnt / "a").write_bytes(DATA)
    os.mkdir(m.mnt / "d")
    os.link(m.mnt / "a", m.mnt / "d" / "b")
    m.remount()
    assert m.stored("a").stat().st_ino == m.stored("d/b").stat().st_ino
    write_at(m.mnt / "d" / "b", 0, b"new")
    assert (m.mnt / "a").read_bytes()[:3] == b"new"


@pytest.fixture
def blind(mount, blind_argv):
    """A mount whose daemon may read only what the modes of its files let it."""
    return mount("entry_timeout=0,attr_timeout=0", argv=blind_argv)


def test_a_frame_of_mode_0_keeps_its_name(blind):
    """tar makes such a file where a link to an absolute path comes to stand, and replaces it."""
    fd = os.open(blind.mnt / "x", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0)
    os.write(fd, b"12345")
    os.close(fd)
    st = os.stat(blind.mnt / "x")
    assert seen(blind) == ["x"] and st.st_size == 5 and st.st_mode & 0o777 == 0
    wait_until(lambda: error_of(open, blind.mnt / "x") == "EACCES")  # once it is closed there, too
    os.rename(blind.mnt / "x", blind.mnt / "y")
    assert seen(blind) == ["y"] and os.listdir(blind.backing) == ["y.b2frame"]
    os.unlink(blind.mnt / "y")
    os.symlink("/nowhere", blind.mnt / "x")
    assert seen(blind) == ["x"] == os.listdir(blind.backing)


def test_a_directory_that_may_only_be_listed(blind):
    """Without the right to search it nothing in it can be looked at: names are what they end in."""
    (blind.mnt / "d/sub").mkdir(parents=True)
    (blind.mnt / "d/x").write_bytes(DATA)
    (blind.backing / "d/plain").touch()
    os.chmod(blind.mnt / "d", 0o600)
    for _ in range(2):
        kinds = {entry.name: entry.is_dir() for entry in os.scandir(blind.mnt / "d")}
        assert kinds == {"plain": False, "sub": True, "x": False}
        assert error_of(os.stat, blind.mnt / "d/x") == "EACCES"
        blind.remount()
    os.chmod(blind.mnt / "d", 0o700)
    assert (blind.mnt / "d/x").read_bytes() == DATA


@pytest.mark.parametrize("timeout", [0, 60])
@pytest.mark.parametrize("looked", [False, True])
def test_a_frame_that_may_be_read_again(blind, blosc2, timeout, looked):
    """Its size is a guess until then, which the kernel would go by: it must not stay."""
    array = np.arange(5000)
    (blind.mnt / "x").write_bytes(DATA)
    blosc2.asarray(array, urlpath=str(blind.backing / "a.b2nd"))
    for name in ("x.b2frame", "a.b2nd"):
        os.chmod(blind.backing / name, 0)
    blind.options = f"entry_timeout={timeout},attr_timeout={timeout}"
    blind.remount()
    assert seen(blind) == ["a.npy", "x"]
    for name in ("a.npy", "x"):
        assert error_of(open, blind.mnt / name) == "EACCES"
        os.chmod(blind.mnt / name, 0o600)
        if looked:
            os.stat(blind.mnt / name)
    assert (blind.mnt / "x").read_bytes() == DATA
    assert np.array_equal(np.load(blind.mnt / "a.npy"), array)
    os.chmod(blind.mnt / "x", 0)
    assert os.stat(blind.mnt / "x").st_size == len(DATA), "as it was known"
    os.chmod(blind.mnt / "x", 0o600)
    with open(blind.mnt / "x", "ab") as f:
        f.write(b"more")
    assert (blind.mnt / "x").read_bytes() == DATA + b"more"


def test_what_is_no_frame_and_may_not_be_read(blind):
    """It is taken at its name, until it can be read."""
    (blind.backing / "x.b2frame").write_bytes(b"none")
    os.chmod(blind.backing / "x.b2frame", 0)
    assert seen(blind) == ["x"]
    os.chmod(blind.backing / "x.b2frame", 0o600)
    assert seen(blind) == ["x.b2frame"]
    assert (blind.mnt / "x.b2frame").read_bytes() == b"none"
    blind.expect_log("shown under its own name")


SAYS_NOTHING = ["EMFILE", "EIO", "ESTALE", "ETIMEDOUT", "EUCLEAN", "EREMOTEIO", "EBADMSG", "EPERM"]
SAYS_NOTHING += ["ENOTSUP", "E2BIG"]


@pytest.mark.parametrize("calls", [Fault.OPEN, Fault.READ], ids=["open", "read"])
@pytest.mark.parametrize("error", SAYS_NOTHING)
def test_no_failure_shows_a_frame_under_its_own_name(faulty, error, calls):
    """Nor can it be opened by that: its stored bytes are not what it is. Lock files stay hidden."""
    m, fault = faulty("entry_timeout=0,attr_timeout=0", "^cframefs: (error|warning)")
    for name in "xyz":
        (m.mnt / name).write_bytes(b"bytes of " + name.encode())
    m.unmount()
    for name in "xyz":
        (m.backing / f"{name}.b2frame").rename(m.backing / f"{name}.b2f")
        (m.backing / f"{name}.b2f.b2lock").write_bytes(bytes(16))
    m.start()
    came = 0
    for n in range(1, 16):
        for forever in (0, 1):
            for name in "xyz":  # what was seen before is no help
                os.utime(m.backing / f"{name}.b2f", (n, forever))
            fault.set(n, calls, getattr(errno, error), forever)
            with contextlib.suppress(OSError):
                assert seen(m) == ["x", "y", "z"], (n, forever)
            fault.set(n, calls, getattr(errno, error), forever)
            assert error_of(os.stat, m.mnt / "x.b2f") in ("ENOENT", "EIO", error)
            with contextlib.suppress(OSError):
                assert (m.mnt / "x").read_bytes() == b"bytes of x"
            came += fault.came()
    fault.off()
    assert came
    assert (m.mnt / "x").read_bytes() == b"bytes of x"


def test_a_mark_takes_no_name_that_cannot_be_looked_at(faulty, work):
    """That of a lock file, which is not shown: nothing says that the mark must not have it."""
    (work / "a").touch()
    if error_of(renameat2, work / "a", work / "b", RENAME_WHITEOUT):
        pytest.skip("not in the backing directory")
    m, fault = faulty()
    (m.mnt / "x.b2lock").write_bytes(DATA)
    (m.backing / "x.b2lock").write_bytes(b"another program's")
    fault.set(1, Fault.ACCESS, errno.EIO)
    assert error_of(renameat2, m.mnt / "x.b2lock", m.mnt / "y", RENAME_WHITEOUT) == "EIO"
    assert fault.came()
    assert (m.backing / "x.b2lock").read_bytes() == b"another program's"
    assert (m.mnt / "x.b2lock").read_bytes() == DATA and not (m.mnt / "y").exists()


@pytest.mark.parametrize("flags", [0, RENAME_WHITEOUT, RENAME_EXCHANGE])
def test_a_rename_that_fails_half_way(faulty, work, flags):
    """The first of its two steps is undone: each name has what it had, and no other is left."""
    (work / "a").touch()
    if flags == RENAME_WHITEOUT and error_of(renameat2, work / "a", work / "b", flags):
        pytest.skip("not in the backing directory")
    m, fault = faulty("entry_timeout=0")
    (m.mnt / "s").write_bytes(b"source")
    (m.backing / "t").write_bytes(b"target")
    before = sorted(os.listdir(m.backing))
    fault.set(2, calls=Fault.NAME, error=errno.EIO)
    assert error_of(renameat2, m.mnt / "s", m.mnt / "t", flags) == "EIO"
    assert fault.came()
    fault.stop()
    for _ in range(2):
        assert sorted(os.listdir(m.backing)) == before
        assert [(m.mnt / name).read_bytes() for name in "st"] == [b"source", b"target"]
        m.remount()
