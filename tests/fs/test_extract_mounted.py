"""cframe extract: from a directory that is mounted, and into a mount."""

import contextlib
import errno
import os
import shutil
import subprocess
from types import SimpleNamespace

from libdata import blob
from libfault import Fault
from libmount import CFRAME
from libtree import assert_same, cframe

DATA = blob(1, 150_001, "text")


def test_a_copy_does_not_find_itself_by_way_of_a_mount(mount):
    """A directory of the mount has another device there than in the backing directory."""
    m = mount()
    (m.mnt / "d").mkdir()
    (m.mnt / "d/f").write_bytes(b"data")
    os.sync()
    assert "is mounted: what is not" in cframe("extract", "-C", m.mnt / "x", m.backing, code=1)
    assert sorted(os.listdir(m.mnt / "x")) == ["d"] and (m.mnt / "x/d/f").read_bytes() == b"data"
    shutil.rmtree(m.mnt / "x")
    assert cframe("extract", "-C", m.mnt, m.backing.parent) == ""  # other files are in there, too
    assert sorted(os.listdir(m.mnt)) == ["d", m.log.name]
    where = "is where the files would go; name another directory"
    assert cframe("extract", "-C", m.mnt, m.backing, code=1) == f"cframe: {m.backing}: {where}\n"
    assert cframe("extract", "-C", m.backing / "x", m.mnt) == ""
    assert sorted(os.listdir(m.mnt / "x")) == ["d", m.log.name]


def test_a_frame_does_not_replace_the_file_that_shows_it(mount):
    """What has not been committed yet is in none but that."""
    m = mount("commit=100")
    (m.mnt / "sub").mkdir()
    for d in ".", "sub":
        (m.mnt / d / "x").write_bytes(b"old")
        with open(m.mnt / d / "x", "r+b") as f:
            f.write(b"new")
            f.flush()
            frame = m.backing / d / "x.b2frame"
            said = cframe("extract", "--force", "-C", m.mnt / d, frame, code=1)
        assert f"cframe: {m.mnt / d}/x: is the source itself, and stays\n" in said
        assert (m.mnt / d / "x").read_bytes() == b"new"
    os.sync()
    said = cframe("extract", "--force", "-C", m.mnt / "sub", m.backing / "x.b2frame", code=1)
    assert "is what it would" not in said, "that is another file"


def test_newer_bytes_elsewhere_are_told(mount):
    """What a daemon has not committed, or a killed one left in its log."""
    m = mount("commit=100").allow("intent|replay|record")
    (m.mnt / "sub/deep").mkdir(parents=True)
    fd = os.open(m.mnt / "x", os.O_CREAT | os.O_WRONLY)
    for _ in range(100):
        os.write(fd, b"x" * 1000)
        os.fsync(fd)
    assert (m.backing / ".cframefs-intent").stat().st_size
    for name in (".", "sub", "sub/deep"):
        where = m.backing / name
        said = cframe("extract", "-C", m.work / "plain", where, code=1)
        assert said.startswith(f"cframe: {where}: is mounted: what is not committed")
    m.kill()
    with contextlib.suppress(OSError):
        os.close(fd)
    said = cframe("extract", "--force", "-C", m.work / "plain", m.backing, code=1)
    assert said.startswith(f"cframe: {m.backing}: its daemon was killed, and its intent log")
    m.start()
    m.unmount()
    assert cframe("extract", "--force", "-C", m.work / "plain", m.backing) == ""
    assert (m.work / "plain/x").read_bytes() == b"x" * 100_000


def test_links_and_nodes_in_a_mount(mount):
    """It hides the names that these have elsewhere until they are finished."""
    m = mount(start=False)
    made, old = m.work / "made", m.work / "old"
    (made / "sub").mkdir(parents=True)
    (made / "sub/f").write_bytes(DATA)
    (made / "sub/link").symlink_to("text")
    os.link(made / "sub/link", made / "other name", follow_symlinks=False)
    os.mkfifo(made / "fifo")
    shutil.copytree(made, old, symlinks=True, ignore=lambda *_: ["fifo"])
    (old / "sub/link").unlink()
    (old / "sub/link").symlink_to("older")
    (m.backing / "plain").write_bytes(DATA)  # passed through, and up to date
    shutil.copy2(m.backing / "plain", made / "plain")
    os.link(made / "plain", made / "plain too")
    m.start()
    assert cframe("extract", "-C", m.mnt, old) == ""
    for left in ".cframe-0123456789abcdef+", ".cframe-0123456789abcdef++":
        (m.mnt / left).symlink_to("left by one that was killed")
    assert "sub/link: is there already" in cframe("extract", "-C", m.mnt, made, code=1)
    (m.mnt / "sub/link").unlink()
    cframe("extract", "-C", m.mnt, made)
    (m.mnt / left).unlink()
    assert_same(m.mnt, made)
    assert (m.backing / "plain too").exists()


def test_what_a_killed_program_has_left_is_not_told(mount):
    """syncfs(2) of a mount syncs nothing, but tells what the kernel notes of other programs: EINTR
    when one was killed while it waited for the time of a file to be set."""
    m = mount()
    (m.work / "plain").mkdir()
    (m.work / "plain/f").write_bytes(DATA)
    program = SimpleNamespace(argv=[CFRAME, "extract", "-C", m.mnt, m.work / "plain"])
    fault = Fault(program, m.work / "fault")
    fault.set(1, Fault.SYNCFS, errno.EINTR)
    got = subprocess.run(program.argv, capture_output=True, text=True)
    assert (got.returncode, got.stderr) == (0, "")
    assert (m.mnt / "f").read_bytes() == DATA
