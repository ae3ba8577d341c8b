"""Files that were never synced: when it is known that they are durable nevertheless, and when not.
A bind mount stands for a disk that comes back; what was damaged meanwhile looks there like what a
power cut leaves, unless a checkpoint came first."""

import contextlib
import errno
import os
import struct
import subprocess
import time

import pytest

from libdata import blob
from libfault import Fault
from libmount import CFRAME, another_mount, wait_until
from libposix import error_of
from libstats import stats

KiB, MiB = 1 << 10, 1 << 20
OPTIONS = "chunksize=64K,blocksize=64K,level=0,intent=0"
ATTRIBUTE = "user.cframefs.durable"
EPOCH = 0.1  # a bit more
NOT_SYNCED = "the backing file system could not be synced"
OLD, NEW = blob(1, 300 * KiB, "noise"), blob(2, MiB, "noise")
AT = 192 * KiB  # the chunk that gets damaged


@pytest.fixture(autouse=True)
def attributes(work, root):
    if error_of(os.setxattr, work, ATTRIBUTE, b""):
        pytest.skip("no attributes here")


def written(m, name="f"):
    """OLD, synced, and NEW in its place, which was not."""
    begun(m, name)
    overwrite(m, name)


def begun(m, name):
    with open(m.mnt / name, "wb", buffering=0) as f:
        f.write(OLD)
        os.fsync(f.fileno())


def overwrite(m, name):
    with open(m.mnt / name, "r+b", buffering=0) as f:
        assert f.write(NEW) == len(NEW)


def damage(stored):
    at = stored.read_bytes().index(NEW[AT + 1000 : AT + 2000])
    with open(stored, "r+b") as f:
        f.seek(at)
        f.write(bytes(64))


def noted(backing):
    with contextlib.suppress(OSError):
        return os.getxattr(backing, ATTRIBUTE)
    return b""


def loses_a_chunk(m, name="f"):
    with open(m.mnt / name, "rb", buffering=0) as f:
        for at in range(0, MiB, 64 * KiB):
            if at == AT:
                assert error_of(os.pread, f.fileno(), 64 * KiB, at) == "EIO"
            else:
                assert os.pread(f.fileno(), 64 * KiB, at) == NEW[at : at + 64 * KiB]


def goes_back(m, name="f"):
    """To OLD, or a commit since that had other chunks only."""
    got = (m.mnt / name).read_bytes()
    assert got[AT : AT + 64 * KiB] == OLD[AT : AT + 64 * KiB]
    m.expect_log("went back to its newest whole state")


@contextlib.contextmanager
def disk_came_back(mount, backing):
    with another_mount(backing) as again:
        m = mount("", backing=again).allow("checksum of a chunk", "went back")
        yield m
        m.unmount()


def damaged(mount, m, **found):
    """Damages files of a mount that has ended, and says what the next one finds of each:
    `f=goes_back, g=loses_a_chunk`."""
    for name in found:
        damage(m.stored(name))
    with disk_came_back(mount, m.backing) as again:
        for name, check in found.items():
            check(again, name)


def test_the_end_of_the_mount_makes_one(mount):
    m = mount(OPTIONS)
    written(m)
    m.unmount()
    damaged(mount, m, f=loses_a_chunk)


def test_one_is_made_some_time_after_a_commit(mount):
    m = mount(f"{OPTIONS},commit=0.05")
    written(m)
    wait_until(lambda: noted(m.backing), 20, "a checkpoint")
    before = noted(m.backing)
    (m.mnt / "g").write_bytes(NEW)
    wait_until(lambda: noted(m.backing) != before, 20, "another one")
    assert len(noted(m.backing)) == len(before)  # which begins where the first one ends
    m.kill()
    damaged(mount, m, f=loses_a_chunk)


def test_a_mount_vouches_for_what_it_wrote_itself(mount):
    """Not for what the one before it left, which was killed."""
    m = mount(OPTIONS)
    written(m)
    assert m.kill() and not noted(m.backing)
    time.sleep(EPOCH)
    m.start()
    written(m, "g")
    m.unmount()
    assert noted(m.backing)
    damaged(mount, m, f=goes_back, g=loses_a_chunk)


def test_a_mount_does_not_forget_what_others_have_noted(mount):
    m = mount(OPTIONS)
    written(m)
    m.remount()
    written(m, "g")
    m.unmount()
    damaged(mount, m, f=loses_a_chunk)


def test_nothing_is_written_in_an_epoch_that_has_ended(mount):
    """Even if that was later, by some clock."""
    m = mount(OPTIONS)
    written(m, "g")
    m.unmount()
    value = noted(m.backing)
    (end,) = struct.unpack("<Q", value[-8:])
    os.setxattr(m.backing, ATTRIBUTE, value[:-8] + struct.pack("<Q", end + 16 * 3600))
    m.start()
    written(m)
    assert m.kill()
    damaged(mount, m, f=goes_back, g=loses_a_chunk)


def test_little_is_read_of_a_file_that_is_known_to_be_there(mount):
    m = mount(OPTIONS)
    (m.mnt / "f").write_bytes(NEW)
    (m.mnt / "g").write_bytes(NEW)
    m.unmount()
    with disk_came_back(mount, m.backing) as again:
        with open(again.mnt / "f", "rb", buffering=0) as f:
            assert os.pread(f.fileno(), 10, 0) == NEW[:10]
        assert stats(again)["read"]["disk_bytes"] < MiB / 2
    os.removexattr(m.backing, ATTRIBUTE)
    with disk_came_back(mount, m.backing) as again:
        with open(again.mnt / "g", "rb", buffering=0) as f:
            assert os.pread(f.fileno(), 10, 0) == NEW[:10]
        assert stats(again)["read"]["disk_bytes"] > MiB


@pytest.mark.parametrize("below", ["f.b2frame", "sub/f.b2frame", "sub", ""])
def test_programs_without_a_mount_know_it_too(mount, work, below):
    """One damaged block is told, and nothing older is extracted instead."""
    m = mount(OPTIONS)
    (m.mnt / "sub").mkdir()
    name = "sub/f" if "sub" in below else "f"
    written(m, name)
    m.unmount()
    damage(m.backing / f"{name}.b2frame")
    with another_mount(m.backing) as again:
        for command in ["verify"], ["extract", "-C", work / "out"]:
            got = subprocess.run([CFRAME, *command, again / below], capture_output=True)
            assert got.returncode == 1 and b"checksum" in got.stdout + got.stderr, got
        assert not list(work.glob("out/**/f"))


@pytest.mark.parametrize("owner", [0, 12345], ids=["ours", "another's"])
@pytest.mark.parametrize("command", ["verify", "extract"])
def test_they_know_it_of_directories_below_theirs(mount, work, command, owner):
    """But for those that belong to somebody else, who may note anything."""
    backing = work / "disk" / "store"
    backing.mkdir(parents=True)
    m = mount(OPTIONS, backing=backing)
    written(m)
    m.unmount()
    damage(m.stored("f"))
    os.chown(backing, owner, owner)
    where = ["-C", work / "out"] if command == "extract" else []
    with another_mount(work / "disk") as again:
        got = subprocess.run([CFRAME, command, *where, again], capture_output=True)
        said = got.stdout + got.stderr
        assert (b"torn" in said) == bool(owner), got
        assert owner or (got.returncode == 1 and b"checksum" in said), got
        assert bool(list(work.glob("out/**/f"))) == bool(owner and where), got


@pytest.mark.parametrize("name", ["f", "sub/f"])
def test_they_know_it_of_a_file_by_the_name_in_a_mount(mount, work, name):
    m = mount(OPTIONS)
    (m.mnt / "sub").mkdir()
    written(m, name)
    m.unmount()
    damage(m.backing / f"{name}.b2frame")
    with another_mount(m.backing) as again:
        command = [CFRAME, "extract", "-C", work / "out", again / name]
        got = subprocess.run(command, capture_output=True)
        assert got.returncode == 1 and b"checksum" in got.stderr, got


def test_they_know_it_of_what_a_link_leads_to(mount, work):
    m = mount(OPTIONS)
    written(m)
    m.unmount()
    damage(m.stored("f"))
    with another_mount(m.backing) as again:
        (work / "links").mkdir()
        (work / "links" / "f.b2frame").symlink_to(again / "f.b2frame")
        got = subprocess.run([CFRAME, "verify", work / "links" / "f.b2frame"], capture_output=True)
        assert got.returncode == 1 and b"checksum" in got.stdout, got


@pytest.mark.parametrize("owner", [0, 12345], ids=["ours", "another's"])
def test_a_mount_of_a_directory_below(mount, owner):
    """It knows what the one above has noted, and notes it once. Where that is somebody else's it
    may say what it likes."""
    m = mount(OPTIONS)
    (m.mnt / "sub").mkdir()
    written(m, "sub/f")
    m.unmount()
    for _ in range(3):
        time.sleep(EPOCH)
        below = mount(OPTIONS, backing=m.backing / "sub")
        written(below, "g")
        below.unmount()
    assert noted(below.backing).count(noted(m.backing)[16:]) == 1
    os.removexattr(below.backing, ATTRIBUTE)
    damage(below.stored("f"))
    os.chown(m.backing, owner, owner)
    with another_mount(m.backing) as again:
        m = mount("", backing=again / "sub").allow("checksum of a chunk", "went back")
        (goes_back if owner else loses_a_chunk)(m)
        m.unmount()


def test_a_copy_of_the_directory_says_nothing(mount, work):
    """Its files may not be on their disk yet."""
    m = mount(OPTIONS)
    written(m)
    m.unmount()
    subprocess.run(["cp", "-a", m.backing, work / "copy"], check=True)
    assert noted(work / "copy") == noted(m.backing) != b""
    damage(work / "copy" / m.stored("f").name)
    with disk_came_back(mount, work / "copy") as again:
        goes_back(again)


@pytest.mark.parametrize(
    "value", [b"", b"x", bytes(15), bytes(16), bytes(40), b"\xff" * 1040, b"\xff" * 4000]
)
def test_other_values_say_nothing(mount, value):
    m = mount(OPTIONS)
    written(m)
    m.unmount()
    os.setxattr(m.backing, ATTRIBUTE, value)
    damaged(mount, m, f=goes_back)


def test_none_ends_the_running_epoch(mount):
    """Another process may name it for what it writes right after the sync."""
    m = mount(OPTIONS)
    for n in range(4):
        written(m, f"f{n}")
        m.unmount()
        end = struct.unpack("<I", noted(m.backing)[-8:-4])[0]
        assert end <= time.clock_gettime(time.CLOCK_BOOTTIME) * 16
        m.start()


def test_none_ends_an_epoch_to_come(faulty):
    """Each sync that fails begins one, and many may fail within one by the clock."""
    m, fault = faulty(OPTIONS, "f[0-9]+", NOT_SYNCED)
    with contextlib.ExitStack() as stack:
        names = [m.mnt / f"f{n}" for n in range(60)]
        files = [stack.enter_context(open(name, "wb", buffering=0)) for name in names]
        for f in files:
            f.write(OLD[:1000])
        fault.set(1, Fault.SYNC, errno.EIO, forever=1)
        for f in files:
            assert error_of(os.fsync, f.fileno()) == "EIO"
        fault.stop()
    written(m)
    m.unmount()
    for (word,) in struct.iter_unpack("<Q", noted(m.backing)[16:]):
        assert word & 0xFFFFFFFF <= time.clock_gettime(time.CLOCK_BOOTTIME) * 16
    m.start()  # the others are known later
    time.sleep(60 / 16)
    written(m, "g")
    m.unmount()
    assert noted(m.backing)


def test_ranges_that_make_no_sense(mount):
    """Behind a right head: turned round, over more than one boot, with the epoch that none ends. A
    root in that has bytes that were written by a process before."""
    m = mount(OPTIONS)
    written(m, "g")
    m.unmount()
    value = noted(m.backing)
    head, first, end = value[:16], *struct.unpack("<QQ", value[16:])
    zero = end >> 32 << 32
    for n, ranges in enumerate(
        [
            [(end, first)],
            [(first, zero + (2 << 32))],
            [(0, (1 << 64) - 1)],
            [(zero, zero + (1 << 32) - 1)],
            [(end, first), (first, first), (first, end), (end, 0), (zero, end), (end, end)],
        ]
    ):
        packed = b"".join(struct.pack("<QQ", *r) for r in ranges)
        os.setxattr(m.backing, ATTRIBUTE, head + packed)
        m.start()
        written(m, f"old{n}")
        assert m.kill()
        time.sleep(EPOCH)
        m.start()
        written(m, f"new{n}")
        with open(m.mnt / f"old{n}", "ab", buffering=0) as f:
            f.write(NEW[: 64 * KiB])
        assert m.kill()
        for name in f"old{n}", f"new{n}":
            damage(m.stored(name))
            with disk_came_back(mount, m.backing) as again:
                goes_back(again, name)


@pytest.mark.parametrize("call", [Fault.SYNCFS, Fault.XATTR], ids=["sync", "note"])
def test_a_daemon_that_is_killed_over_one(mount, faulty, call):
    """Nothing is noted, and the next one's checkpoint is not about what that left."""
    m, fault = faulty(f"{OPTIONS},commit=0.05")
    begun(m, "f")
    fault.set(1, call, how=Fault.KILL)
    overwrite(m, "f")
    wait_until(fault.came, 20, "a checkpoint")
    assert m.kill() and not noted(m.backing)
    fault.off()
    time.sleep(EPOCH)
    m.start()
    assert (m.mnt / "f").read_bytes() == NEW
    written(m, "g")
    wait_until(lambda: noted(m.backing), 20, "another one")
    m.kill()
    damaged(mount, m, f=goes_back, g=loses_a_chunk)


def test_a_sync_that_fails(mount, faulty):
    """Nothing is noted. What is written after it is, by the next one."""
    m, fault = faulty(OPTIONS, NOT_SYNCED)
    written(m)
    fault.set(1, Fault.SYNCFS, errno.EIO)
    m.unmount()
    assert fault.came() and not noted(m.backing)
    m.expect_log(NOT_SYNCED)
    fault.off()
    damaged(mount, m, f=goes_back)


def test_a_sync_that_fails_is_not_made_good_by_the_next(mount, faulty):
    m, fault = faulty(f"{OPTIONS},commit=0.05", NOT_SYNCED)
    begun(m, "f")
    fault.set(1, Fault.SYNCFS, errno.EIO)
    overwrite(m, "f")
    wait_until(fault.came, 20, "a checkpoint")
    fault.off()
    wait_until(lambda: noted(m.backing), 20, "another one")
    before = noted(m.backing)
    (m.mnt / "g").write_bytes(NEW)
    wait_until(lambda: noted(m.backing) != before, 20, "one more")
    m.kill()
    damaged(mount, m, f=goes_back, g=loses_a_chunk)


def test_the_attribute_is_not_shown(mount):
    m = mount(OPTIONS)
    written(m)
    m.remount()
    assert os.listxattr(m.mnt) == []
    assert error_of(os.getxattr, m.mnt, ATTRIBUTE) == "ENODATA"
    assert error_of(os.removexattr, m.mnt, ATTRIBUTE) == "ENODATA"
    assert error_of(os.setxattr, m.mnt, ATTRIBUTE, b"") == "EPERM"
    assert ATTRIBUTE in os.listxattr(m.backing)
    (m.backing / "plain.b2frame").write_bytes(b"no frame")
    m.allow("plain.b2frame: shown under its own name")
    assert error_of(os.setxattr, m.mnt / "plain.b2frame", ATTRIBUTE, b"") == "EPERM"


def test_a_mount_that_only_reads_makes_none(mount):
    m = mount(OPTIONS)
    written(m)
    m.unmount()
    before, changed = noted(m.backing), os.stat(m.backing).st_ctime_ns
    m.options = "ro"
    m.start()
    (m.mnt / "f").read_bytes()
    m.unmount()
    assert noted(m.backing) == before and os.stat(m.backing).st_ctime_ns == changed


def test_bytes_from_before_a_sync_that_failed(mount, faulty):
    """A later root of the file lists them, too: a later checkpoint is not about them."""
    m, fault = faulty(f"{OPTIONS},commit=0.05", NOT_SYNCED)
    begun(m, "f")
    fault.set(1, Fault.SYNCFS, errno.EIO)
    overwrite(m, "f")
    wait_until(fault.came, 20, "a checkpoint")
    fault.off()
    for _ in range(2):  # one ends the epoch of the failure, one begins later
        before = noted(m.backing)
        for name in ("f", "g"):  # f alone would need none
            with open(m.mnt / name, "ab", buffering=0) as f:
                f.write(NEW[: 64 * KiB])
        wait_until(lambda: noted(m.backing) != before, 20, "another one")
    m.kill()
    damaged(mount, m, f=goes_back)


def test_a_file_that_is_synced_needs_no_checkpoint(mount, work):
    """Nor the attribute that tells of it, which stays behind where files are copied."""
    m = mount(OPTIONS)
    written(m)
    m.remount()
    with open(m.mnt / "f", "rb") as f:
        os.fsync(f.fileno())
    m.unmount()
    subprocess.run(["cp", "-a", m.backing, work / "copy"], check=True)
    damage(work / "copy" / m.stored("f").name)
    with disk_came_back(mount, work / "copy") as again:
        loses_a_chunk(again)


def test_a_file_of_another_directory(mount, work):
    """It was written later than what this one's checkpoint is about."""
    a, b = mount(f"{OPTIONS},commit=0.05"), mount(OPTIONS, backing=work / "b")
    written(b, "g")
    written(a)
    wait_until(lambda: noted(a.backing), 20, "a checkpoint")
    time.sleep(EPOCH)
    written(b)
    assert b.kill() and a.kill()
    os.rename(b.stored("f"), a.stored("f"))
    damaged(mount, a, f=goes_back)
