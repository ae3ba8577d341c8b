"""File capabilities: what takes them away, and what must not."""

import errno
import json
import mmap
import os
import re
import stat
import struct

import pytest

from libdata import blob
from libfault import Fault
from libmount import DAEMON, wait_until
from libposix import NOBODY, as_nobody, error_of, sync, with_gap, write_at
from libstats import stats

MiB = 1 << 20
CAPS = "security.capability"
CAPABILITY = struct.pack("<IIIII", 0x2000001, 1 << 10, 0, 0, 0)


def capabilities(path):
    try:
        return os.getxattr(path, CAPS)
    except OSError as error:
        return errno.errorcode[error.errno]


def test_capabilities_set_before_the_flush_stay(mount, root):
    """What the daemon writes after the application has set them must not take
    them away, on the disk either."""
    m = mount("commit=0")
    capability = struct.pack("<IIIII", 0x2000001, 1 << 10, 0, 0, 0)
    for name, end in (("synced", os.fsync), ("closed", lambda fd: None)):
        fd = os.open(m.mnt / name, os.O_CREAT | os.O_RDWR)
        os.write(fd, blob(3, 3 * MiB, "text"))
        os.setxattr(fd, "security.capability", capability)
        end(fd)
        if name == "synced":
            assert os.getxattr(m.stored(name), "security.capability") == capability
        os.close(fd)
        assert os.getxattr(m.mnt / name, "security.capability") == capability
    m.remount()
    for name in ("synced", "closed"):
        assert os.getxattr(m.mnt / name, "security.capability") == capability
        assert (m.mnt / name).read_bytes() == blob(3, 3 * MiB, "text")
        write_at(m.mnt / name, 5, b"y", os.O_RDWR)
        assert error_of(os.getxattr, m.mnt / name, "security.capability") == "ENODATA"
        assert error_of(os.getxattr, m.stored(name), "security.capability") == "ENODATA"


def set_with_data_in_flight(m, name):
    """An open file whose capabilities the daemon's own writes have taken from
    the backing file since."""
    fd = os.open(m.mnt / name, os.O_CREAT | os.O_RDWR)
    os.pwrite(fd, blob(6, 4 * MiB, "noise"), 0)
    os.setxattr(fd, CAPS, CAPABILITY)
    os.posix_fadvise(
        fd, 0, 0, os.POSIX_FADV_DONTNEED
    )  # the kernel's pages go to the daemon, full chunks to its workers
    wait_until(lambda: capabilities(m.stored(name)) == "ENODATA", 250, "a write of the daemon")
    assert capabilities(fd) == CAPABILITY
    return fd


def test_set_id_bits_set_before_the_flush_stay(mount, root, tool):
    """A user's daemon takes them from the backing file by its own writes; they are seen all the
    time, and are back after the commit, unless somebody has given them up meanwhile."""
    m = mount(
        "commit=0,attr_timeout=0,allow_other",
        argv=[tool("setpriv"), "--bounding-set", "-fsetid", "--inh-caps", "-fsetid", str(DAEMON)],
    )

    def modes(name):
        return [stat.S_IMODE(os.stat(path).st_mode) for path in (m.mnt / name, m.stored(name))]

    for number, (change, last) in enumerate(
        (
            (lambda fd: None, 0o6755),
            (lambda fd: os.fchmod(fd, 0o4711), 0o4711),
            (lambda fd: os.fchmod(fd, 0o755), 0o755),
            (lambda fd: os.fchown(fd, 1234, 1234), 0o755),
            (lambda fd: (os.fchown(fd, 1234, 1234), os.fchmod(fd, 0o4711)), 0o4711),
            (lambda fd: as_nobody(lambda: os.pwrite(fd, b"x", 0)), 0o755),
            (lambda fd: os.chown(m.stored("f6"), 1234, 1234), 0o755),
        )
    ):
        fd = os.open(m.mnt / f"f{number}", os.O_CREAT | os.O_RDWR)
        os.fchmod(fd, 0o6755)
        os.pwrite(fd, blob(6, 4 * MiB, "noise"), 0)  # of root: the kernel has nothing removed
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        wait_until(lambda name=f"f{number}": modes(name)[1] == 0o755, 10, "a write of the daemon")
        assert modes(f"f{number}")[0] == 0o6755
        change(fd)
        os.fsync(fd)
        os.close(fd)
        assert modes(f"f{number}") == [last, last], number


def test_capabilities_that_cannot_be_set_again_are_told(faulty, root):
    """The disk has no room for them by then: they are gone, for everybody, and the log says so."""
    m, fault = faulty("commit=0", "capabilities")
    fd = set_with_data_in_flight(m, "f")
    fault.set(1, Fault.XATTR)
    os.fsync(fd)
    assert fault.came()
    m.expect_log("f.b2frame: lost its file capabilities: No space left")
    assert capabilities(fd) == capabilities(m.stored("f")) == "ENODATA"
    os.close(fd)


def test_capabilities_of_a_file_that_goes_back(faulty, root):
    """They were given to the file, not to what could not be stored."""
    m, fault = faulty("commit=0,intent=0", "^cframefs: (error|warning)")
    fd = set_with_data_in_flight(m, "f")
    fault.set(1, Fault.WRITE, forever=1)
    assert error_of(os.close, fd) == "ENOSPC"
    m.expect_log("f.b2frame: closed with unwritten data: it stays at its last commit")
    assert capabilities(m.mnt / "f") == capabilities(m.stored("f")) == CAPABILITY


def test_changes_after_capabilities_that_the_daemon_took(mount, root):
    """The kernel removes what it was told is there: that the backing file has
    none by then is nobody's failure."""
    m = mount("commit=0")
    for number, change in enumerate(
        (
            lambda fd: os.pwrite(fd, b"x" * 10, 100),
            lambda fd: os.ftruncate(fd, 5 * MiB),
            lambda fd: os.fchown(fd, 1234, 1234),
            lambda fd: os.removexattr(fd, CAPS),
        )
    ):
        fd = set_with_data_in_flight(m, f"f{number}")
        assert error_of(change, fd) is None
        assert capabilities(fd) == "ENODATA"
        os.fsync(fd)
        os.close(fd)
        assert (
            capabilities(m.mnt / f"f{number}") == capabilities(m.stored(f"f{number}")) == "ENODATA"
        )


def test_flags_of_setxattr_see_capabilities_that_the_daemon_took(mount, root):
    """And a call that fails leaves the ones before."""
    m = mount("commit=0")
    for name, flags, fails in (
        ("create", os.XATTR_CREATE, "EEXIST"),
        ("replace", os.XATTR_REPLACE, None),
    ):
        fd = set_with_data_in_flight(m, name)
        assert error_of(os.setxattr, fd, CAPS, CAPABILITY, flags) == fails
        os.fsync(fd)
        assert capabilities(fd) == capabilities(m.stored(name)) == CAPABILITY
        os.close(fd)


def test_capabilities_are_not_given_to_foreign_content(mount, root):
    """Another program replaces the content of a frame that is open: what the
    kernel took away there stays away."""
    m = mount("attr_timeout=0")
    for name in "fg":
        (m.mnt / name).write_bytes(blob(ord(name), 300_000, "noise"))
        sync(m.mnt / name)
    fd = os.open(m.mnt / "f", os.O_RDWR)
    os.setxattr(fd, CAPS, CAPABILITY)
    m.stored("f").write_bytes(m.stored("g").read_bytes())
    assert capabilities(m.stored("f")) == "ENODATA"
    wait_until(
        lambda: (m.mnt / "f").read_bytes() == (m.mnt / "g").read_bytes(), 250, "the other content"
    )
    assert capabilities(fd) == "ENODATA"
    os.fsync(fd)
    assert capabilities(m.stored("f")) == "ENODATA"
    os.setxattr(fd, CAPS, CAPABILITY)
    os.removexattr(m.stored("f"), CAPS)
    os.fsync(fd)
    assert capabilities(fd) == capabilities(m.stored("f")) == "ENODATA"
    os.close(fd)


def test_capabilities_set_behind_the_mount_do_not_outlive_a_write(mount, root):
    """The kernel was told that there are none and removes none: the daemon's
    write to the backing file has to."""
    m = mount("attr_timeout=3600,commit=0")
    fd = os.open(m.mnt / "f", os.O_CREAT | os.O_RDWR)
    os.pwrite(fd, b"x" * 5000, 0)
    os.fsync(fd)
    os.setxattr(m.stored("f"), CAPS, CAPABILITY)
    os.pwrite(fd, b"y" * 5000, 0)
    os.fsync(fd)
    assert capabilities(m.stored("f")) == "ENODATA"
    os.close(fd)


def test_capabilities_outlive_a_mapping(mount, root):
    """Changes of mapped pages take nothing away on a kernel file system, so the
    write that brings them must not either."""
    m = mount("commit=0")
    path = m.mnt / "f"
    path.write_bytes(blob(8, 300_000, "noise"))
    os.setxattr(path, CAPS, CAPABILITY)
    m.remount()
    for byte, end in ((b"a", os.fsync), (b"b", lambda fd: None)):
        fd = os.open(path, os.O_RDWR)
        with mmap.mmap(fd, 4096) as page:
            page[:1] = byte
            page.flush()
        end(fd)
        os.close(fd)
        assert path.read_bytes()[:1] == byte
        assert capabilities(path) == capabilities(m.stored("f")) == CAPABILITY
    write_at(path, 5, b"y", os.O_RDWR)
    assert capabilities(path) == capabilities(m.stored("f")) == "ENODATA"


def test_capabilities_outlive_the_closing_of_gaps(mount, root):
    m = mount("chunksize=64K,codec=lz4,commit=0.2")
    fd, before = with_gap(m)
    os.setxattr(fd, CAPS, CAPABILITY)
    wait_until(lambda: os.stat(m.stored("f")).st_size < before * 0.8, 250, "a shorter file")
    wait_until(lambda: capabilities(m.stored("f")) == CAPABILITY, 250, "the capabilities")
    assert capabilities(fd) == CAPABILITY
    os.close(fd)
    m.unmount()
    assert capabilities(m.stored("f")) == CAPABILITY


def test_capabilities_outlive_an_fsync_by_the_log(mount, root):
    """It makes the root on disk durable first, after which what that has replaced is punched out,
    unless the close before it could do that. The file was committed without a sync, and was not
    known to be durable when it was opened."""
    m = mount("chunksize=64K,codec=lz4,commit=1000", start=False)
    for n in range(30):
        m.start()
        path = m.mnt / f"f{n}"
        path.write_bytes(blob(5, 8 * MiB, "noise"))
        m.remount()
        with open(path, "r+b", buffering=0) as f:
            os.pwrite(f.fileno(), blob(6, 2 * MiB, "noise"), MiB)
            os.close(os.dup(f.fileno()))
            for k in range(64):
                os.pwrite(f.fileno(), b"x" * 4096, 4 * MiB + k * 8192)
            os.setxattr(f.fileno(), CAPS, CAPABILITY)
            before = os.stat(m.stored(path.name)).st_blocks
            os.fsync(f.fileno())
            punched = os.stat(m.stored(path.name)).st_blocks < before
            assert stats(m)["log"]["records"] == 1
            assert capabilities(f.fileno()) == CAPABILITY
        m.unmount()
        assert capabilities(m.stored(path.name)) == CAPABILITY
        if punched:
            break
    assert punched


@pytest.mark.parametrize("what", ["capabilities", "set-id bits"])
def test_what_a_cut_takes_away_is_synced(faulty, root, what):
    """By open(2) with O_TRUNC, where the kernel leaves it to the daemon."""
    m, fault = faulty("commit=1000,intent=0,allow_other", "a.b2frame: fsync: ")
    m.backing.chmod(0o755)
    path = m.mnt / "a"
    path.write_bytes(b"some text")
    os.chown(path, NOBODY, NOBODY)
    if what == "capabilities":
        os.setxattr(path, CAPS, CAPABILITY)
    else:
        path.chmod(0o6755)
    sync(path)
    by = as_nobody if what == "set-id bits" else lambda cut: cut()
    by(lambda: os.close(os.open(path, os.O_WRONLY | os.O_TRUNC)))
    assert capabilities(path) == "ENODATA" and path.stat().st_mode & 0o6000 == 0
    fault.set(1, Fault.FSYNC, errno.EIO)
    assert error_of(sync, path) == "EIO"
    fault.set(0)
    sync(path)


def test_a_write_is_not_a_question(mount):
    """Whether a file has capabilities is asked once, not before each write."""
    if tuple(int(n) for n in re.findall(r"\d+", os.uname().release)[:2]) < (5, 12):
        pytest.skip("this kernel asks each time")
    m = mount("attr_timeout=3600")
    m.need_custom_io()
    fd = os.open(m.mnt / "f", os.O_CREAT | os.O_RDWR)

    def asked():
        return json.loads(os.getxattr(m.mnt, "user.cframefs.stats"))["requests"]["getxattr"]

    before = asked()
    for at in range(2000):
        os.pwrite(fd, b"x" * 100, at * 100)
    questions = asked() - before
    os.close(fd)
    assert questions < 50, f"{questions} for 2,000 writes"
