"""A backing file system that gets full, for real: who is told, what stays, and
that it works again afterwards."""

import contextlib
import errno
import mmap
import os
import random
import shutil
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest

from libdata import blob
from libfault import Fault
from libmount import BUILD, wait_until
from libposix import error_of, punch, read_direct, write_out
from libprogram import skip_or_fail
from libsharer import Sharer, versions
from libstats import Moved

SIZE = 8 << 20
PAGE = 4096
SEED = int(os.environ.get("CFRAMEFS_SEED") or 1)


TIGHT = "dirty_max=1M,workers=1,chunksize=64K"


@pytest.fixture(params=["", TIGHT], ids=["default", "tight"])
def small(mount, root, request):
    """A mount over a file system of 8 MiB."""
    m = mount(f"commit=0,{request.param}".rstrip(","), start=False)
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SIZE},mode=755", "none", m.backing],
        capture_output=True,
    ).returncode:
        skip_or_fail("no tmpfs can be mounted")
    m.allow(r"No space left|unwritten data|background commit")
    try:
        yield m.start()
    finally:
        if m.running():
            m.unmount()
        subprocess.run(["umount", "-l", m.backing], check=True)


def fill(m, leave):
    """A file beside the frames that takes all space but so much."""
    free = os.statvfs(m.backing)
    with open(m.backing / "filler", "wb") as f, contextlib.suppress(OSError):
        f.write(bytes(max(0, free.f_bavail * free.f_bsize - leave)))


def outcome(call, *args):
    error = error_of(call, *args)
    assert error in (None, "ENOSPC"), error
    return error


def put(fd, data, offset=0):
    """Everything, or the error that ends it."""
    done = 0
    while done < len(data):
        done += os.pwrite(fd, data[done : done + 65536], offset + done)


def put_direct(fd, data, offset=0):
    """The same past the kernel's cache, by pages."""
    with mmap.mmap(-1, len(data)) as room:
        room[:] = data
        for done in range(0, len(data), 65536):
            os.pwrite(fd, memoryview(room)[done : done + 65536], offset + done)


def on_disk(m, name, blosc2):
    schunk = blosc2.open(str(m.stored(name)))
    return b"".join(schunk.decompress_chunk(n) for n in range(schunk.nchunks))


def mixed(got, *versions):
    """True when each page is that of one of the versions, or was not written yet."""
    for at in range(0, len(got), 4096):
        page = got[at : at + 4096]
        if not any(
            page == v[at : at + len(page)].ljust(len(page), b"\0") for v in (*versions, b"")
        ):
            return False
    return True


def test_every_handle_is_told(small, blosc2):
    m = small
    old, new = blob(1, 1 << 20, "noise"), blob(2, 3 << 20, "noise")
    (m.mnt / "f").write_bytes(old)
    os.sync()
    fds = [os.open(m.mnt / "f", os.O_RDWR) for _ in range(3)]
    fill(m, 1 << 20)
    written = outcome(put, fds[0], new)
    assert [outcome(os.fsync, fd) for fd in fds] == ["ENOSPC"] * 3 or written
    assert mixed(on_disk(m, "f", blosc2), old, new)  # no fsync has promised more
    os.unlink(m.backing / "filler")
    for fd in fds:  # an error that waited is told once more at most
        outcome(os.fsync, fd)
    assert [outcome(os.fsync, fd) for fd in fds] == [None] * 3
    put(fds[1], new)
    assert [outcome(os.fsync, fd) for fd in fds] == [None] * 3
    assert [outcome(os.close, fd) for fd in fds] == [None] * 3
    assert on_disk(m, "f", blosc2) == new
    assert read_direct(m.mnt / "f", len(new) + 1) == new


def test_close_tells(small, blosc2):
    m = small
    (m.mnt / "f").write_bytes(b"old")
    fill(m, 256 << 10)
    fd = os.open(m.mnt / "f", os.O_RDWR)
    new = blob(3, 2 << 20, "noise")
    wrote = outcome(put, fd, new)
    assert wrote or outcome(os.close, fd) == "ENOSPC"
    if wrote:
        outcome(os.close, fd)
    assert mixed(on_disk(m, "f", blosc2), b"old", new)
    os.unlink(m.backing / "filler")
    m.remount()
    assert mixed((m.mnt / "f").read_bytes(), b"old", new)
    (m.mnt / "f").write_bytes(b"works again")
    m.remount()
    assert (m.mnt / "f").read_bytes() == b"works again"


def test_a_new_file_that_does_not_fit_is_not_full_of_zeros(small):
    """Chunks that find no room are no reason for a commit without them, nor is the last one, which
    is short and finds some."""
    m = small
    new = blob(4, (12 << 20) + 5000, "noise")
    fd = os.open(m.mnt / "f", os.O_CREAT | os.O_WRONLY)
    assert "ENOSPC" in (outcome(put, fd, new), outcome(os.close, fd))
    m.expect_log("closed with unwritten data", 60)
    got = (m.mnt / "f").read_bytes()
    assert got == new[: len(got)]
    m.remount()
    assert (m.mnt / "f").read_bytes() == got


@pytest.mark.parametrize("small", ["entry_timeout=100,attr_timeout=100"], indirect=True)
@pytest.mark.parametrize("mode", ["rb", "r+b"])
def test_who_comes_after_it_was_given_up_sees_that(small, mode):
    """The kernel has seen another length, and trusts that: it is told to look the file up again."""
    m = small
    old = blob(1, 300_000, "noise")
    (m.mnt / "f").write_bytes(old)
    fill(m, 0)
    fd = os.open(m.mnt / "f", os.O_RDWR)
    os.ftruncate(fd, 1000)
    assert outcome(put, fd, blob(2, 900_000, "noise")) or outcome(os.fsync, fd)
    outcome(os.close, fd)
    m.expect_log("closed with unwritten data", 60)
    os.unlink(m.backing / "filler")
    with open(m.mnt / "f", mode) as f:
        same = f.read() == old
        assert (os.fstat(f.fileno()).st_size, same) == (len(old), True)
        if mode == "r+b":
            f.write(b"more")
            old += b"more"
    m.remount()
    assert (m.mnt / "f").read_bytes() == old


def change(rng, fd, data):
    """One of the things that a file can go through, and what it has then."""
    at, what = rng.choice([0, len(data), rng.randrange(600_000)]), rng.random()
    if what < 0.6:
        new = rng.randbytes(rng.choice([10, 4096, 70_000, 300_000]))
        put(fd, new, at)
        return data[:at].ljust(at, b"\0") + new + data[at + len(new) :]
    if what < 0.8 or at >= len(data):
        os.ftruncate(fd, at)
        return data[:at].ljust(at, b"\0")
    end = min(len(data), at + 100_000)
    punch(fd, at, end - at)
    return data[:at] + bytes(end - at) + data[end:]


def test_a_long_story_of_patches(small):
    """Who opens a file sees what it has, also right after a close that failed: what the next fsync
    takes is that and the changes since."""
    m, rng, sure = small, random.Random(SEED + 3), {}
    for step in range(150):
        name = rng.choice("abc")
        if rng.random() < 0.25:
            if (m.backing / "filler").exists():
                os.unlink(m.backing / "filler")
            else:
                fill(m, rng.choice([0, 50_000, 300_000, 900_000]))
        try:
            fd = os.open(m.mnt / name, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            assert error.errno == errno.ENOSPC
            continue
        data = os.pread(fd, 4 << 20, 0)
        same = data == sure.get(name, data)
        assert (step, same) == (step, True)
        try:
            for _ in range(rng.randint(1, 3)):
                data = change(rng, fd, data)
            os.fsync(fd)
            sure[name] = data
        except OSError as error:
            assert error.errno == errno.ENOSPC
            sure.pop(name, None)
        outcome(os.close, fd)
    if (m.backing / "filler").exists():
        os.unlink(m.backing / "filler")
    m.remount()
    wrong = [name for name, data in sure.items() if (m.mnt / name).read_bytes() != data]
    assert not wrong


def free_bytes(m):
    free = os.statvfs(m.backing)
    return free.f_bavail * free.f_bsize


@pytest.mark.parametrize("small", [""], indirect=True)  # a chunk that does not fit as a whole
def test_what_did_not_fit_leaves_its_room(small):
    """The bytes of a chunk that found room for a part only are cut off when they are given up, and
    until then the next chunk of the file may have their place."""
    m = small
    (m.mnt / "f").write_bytes(b"")
    fill(m, 500_000)
    for turn in range(4):
        fd = os.open(m.mnt / "f", os.O_RDWR | os.O_TRUNC)
        assert outcome(put, fd, blob(turn, 900_000, "noise")) or outcome(os.fsync, fd)
        outcome(os.close, fd)  # its last use ends some time after this
        if turn % 2:
            wait_until(lambda: free_bytes(m) > 50_000, 60, "room")
        (m.mnt / "f").write_bytes(blob(turn, 100_000, "noise"))


def run(*words):
    return subprocess.run([str(word) for word in words], capture_output=True).returncode == 0


def write_synced(path, data):
    with open(path, "wb") as f:
        f.write(data)
        f.flush()
        os.fsync(f)


@pytest.fixture
def limited(mount, work, root):
    """A mount over btrfs, whose quota binds root too, and how to set the limit of it."""
    image, disk = work / "image", work / "disk"
    disk.mkdir()
    with open(image, "wb") as f:
        f.truncate(256 << 20)
    if not (shutil.which("btrfs") and run("mkfs.btrfs", "-q", image)):
        pytest.skip("no btrfs here")
    if not run("mount", "-o", "loop", image, disk):
        pytest.skip("no btrfs can be mounted")
    m = mount("commit=0,chunksize=64K,blocksize=16K", backing=disk / "b", start=False)
    try:
        m.backing.rmdir()
        made = run("btrfs", "subvolume", "create", m.backing) and run(
            "btrfs", "quota", "enable", disk
        )
        if not made or not run("btrfs", "qgroup", "limit", "20M", m.backing):
            pytest.skip("no quota on btrfs here")
        run("btrfs", "quota", "rescan", "-w", disk)
        if error_of(write_synced, m.backing / "probe", bytes(30 << 20)) != "EDQUOT":
            pytest.skip("the quota does not hold")
        (m.backing / "probe").unlink()
        run("btrfs", "filesystem", "sync", disk)
        yield m.start(), lambda size: run("btrfs", "qgroup", "limit", size, m.backing)
    finally:
        try:
            if m.running():
                m.unmount()
        finally:
            run("umount", "-l", disk)


def test_a_real_quota(limited):
    m, limit = limited
    m.allow("Disk quota exceeded")
    old, new = blob(1, 2 << 20, "noise"), blob(2, 30 << 20, "noise")
    (m.mnt / "f").write_bytes(old)
    fds = [os.open(m.mnt / "f", os.O_RDWR) for _ in range(3)]
    wrote = error_of(put, fds[0], new)
    assert wrote in (None, "EDQUOT")
    assert [error_of(os.fsync, fd) for fd in fds] == ["EDQUOT"] * 3
    assert limit("200M")
    for fd in fds:  # an error that waited is told once more at most
        error_of(os.fsync, fd)
    put(fds[1], new)
    assert [error_of(call, fd) for call in (os.fsync, os.close) for fd in fds] == [None] * 6
    m.remount()
    assert (m.mnt / "f").read_bytes() == new


def test_memory_full_of_what_a_quota_refuses(limited):
    """The quota is that of one directory: who writes elsewhere goes on."""
    m, limit = limited
    assert limit("none")
    inner = m.backing / "tight"
    if not (
        run("btrfs", "subvolume", "create", inner)
        and run("btrfs", "quota", "rescan", "-w", m.backing)
    ):
        pytest.skip("no subvolume in another")
    assert run("btrfs", "qgroup", "limit", "4M", inner)
    m.remount("commit=0,chunksize=64K,blocksize=16K,dirty_max=4M")
    m.allow("Disk quota exceeded", "unwritten data")
    noise = blob(1, 1 << 20, "noise")
    full, other = (
        os.open(m.mnt / name, os.O_CREAT | os.O_RDWR | os.O_DIRECT) for name in ("tight/f", "f")
    )
    told = {error_of(put_direct, full, noise, at << 20) for at in range(16)}
    assert told == {None, "EDQUOT"}
    for at in range(8):
        put_direct(other, noise, at << 20)
    os.fsync(other)
    assert error_of(put_direct, full, noise, 16 << 20) == "EDQUOT"
    assert error_of(os.fsync, full) == "EDQUOT"
    for fd in (full, other):
        error_of(os.close, fd)
    assert read_direct(m.mnt / "f", 8 << 20) == noise * 8


@pytest.fixture
def failing(mount, work):
    """A mount whose backing calls can be made to fail, what its file f has, and other bytes."""
    m = mount("commit=0,intent=0,chunksize=64K,blocksize=16K", start=False).allow(
        "^cframefs: (error|warning)"
    )
    fault = Fault(m, work / "fault")
    m.start()
    old, new = blob(1, 200_000, "noise"), blob(2, 200_000, "noise")
    (m.mnt / "f").write_bytes(old)
    return m, fault, old, new


def test_a_quota(failing):
    """Not all kernels of tests have a real one: backing writes fail as under one.
    Every handle is told, and later all is well."""
    m, fault, old, new = failing
    fds = [os.open(m.mnt / "f", os.O_RDWR) for _ in range(3)]
    put(fds[0], new)
    fault.set(1, Fault.WRITE | Fault.SPACE, errno.EDQUOT, forever=1)
    assert [error_of(os.fsync, fd) for fd in fds] == ["EDQUOT"] * 3
    assert error_of(os.close, fds[2]) == "EDQUOT"
    assert read_direct(m.mnt / "f", len(new)) == new  # it waits in memory
    fault.set(0)
    assert [error_of(os.fsync, fd) for fd in fds[:2]] == [None] * 2
    put(fds[1], old)
    assert [error_of(call, fd) for call in (os.fsync, os.close) for fd in fds[:2]] == [None] * 4
    m.remount()
    assert (m.mnt / "f").read_bytes() == old


def last_use_without_flush(fd):
    """A call that ends the last use of a file; close(2) of `fd` itself is done before."""
    ours, theirs = socket.socketpair()
    socket.send_fds(ours, [b"x"], [fd])

    def drop():
        ours.close()
        theirs.close()

    return drop


def test_who_opens_a_file_that_is_being_given_up(failing):
    """Its last user could not store what it wrote. Another who comes before that is given up, and
    was told that it is there, may write to it: nothing of it is taken away behind its back."""
    m, fault, _, new = failing
    fd = os.open(m.mnt / "f", os.O_RDWR)
    put(fd, new)
    drop = last_use_without_flush(fd)
    fault.set(1, Fault.WRITE, forever=1)
    assert outcome(os.close, fd) == "ENOSPC"
    fault.set(1, Fault.WRITE, how=Fault.WAIT)
    drop()
    try:
        wait_until(fault.came, 60, "the commit of the last user")
        fd = os.open(m.mnt / "f", os.O_RDWR)
        fault.set(1, Fault.WRITE, forever=1)
        for _ in range(20):  # it is given up in one of the pauses, if at all
            outcome(os.fsync, fd)
            time.sleep(0.02)
    finally:
        fault.set(0)
    os.fsync(fd)
    os.close(fd)
    assert read_direct(m.mnt / "f", len(new)) == new
    m.remount()
    assert (m.mnt / "f").read_bytes() == new


@pytest.mark.parametrize("how", ["truncated", "appended"])
def test_killed_between_the_cut_and_its_commit(mount, work, how):
    """The last close ends a file before what was refused. Whichever write of the commit is the
    daemon's last one, no zeros are shown."""
    m = mount(f"commit=0,intent=0,{TIGHT}", start=False).allow("^cframefs: (error|warning)")
    fault = Fault(m, work / "fault")
    old, new = blob(1, 1 << 20, "noise"), blob(2, 5 << 20, "noise")
    m.start()
    killed = []
    for n in range(1, 26):  # chunks, and then index, trailer and header; how many there are varies
        with open(m.mnt / "f", "wb") as f:
            f.write(old)
            f.flush()
            os.fsync(f)
        flags, at = start(how, old)
        fd = os.open(m.mnt / "f", os.O_RDWR | flags)
        fault.set(1, Fault.WRITE | Fault.SPACE, forever=1)
        outcome(put, fd, new, at)
        drop = last_use_without_flush(fd)
        assert outcome(os.close, fd) == "ENOSPC"
        fault.set(n, Fault.WRITE, how=Fault.KILL)
        drop()
        wait_until(lambda: fault.came() or "closed with unwritten data" in m.log_text(), 60)
        killed += [n] * fault.came()
        assert m.kill()
        fault.set(0)
        m.start()
        got = (m.mnt / "f").read_bytes()
        assert (n, len(got), strange(how, old, new, got)) == (n, len(got), "")
        (m.mnt / "f").unlink()
    assert killed


@pytest.mark.parametrize("how", ["truncated", "appended"])
@pytest.mark.parametrize("again", [os.O_RDONLY, os.O_RDWR | os.O_APPEND], ids=["read", "append"])
def test_opened_between_the_cut_and_its_commit(mount, work, how, again):
    """A log that is closed since the disk is full, and opened again: the kernel knows it as long as
    before the cut, and would go on there."""
    m = mount(f"commit=0,intent=0,{TIGHT}", start=False).allow("^cframefs: (error|warning)")
    fault = Fault(m, work / "fault")
    old, new = blob(1, 1 << 20, "noise"), blob(2, 5 << 20, "noise")
    m.start()
    write_synced(m.mnt / "f", old)
    flags, at = start(how, old)
    fd = os.open(m.mnt / "f", os.O_RDWR | flags)
    fault.set(1, Fault.WRITE | Fault.SPACE, forever=1)
    outcome(put, fd, new, at)
    drop = last_use_without_flush(fd)
    assert outcome(os.close, fd) == "ENOSPC"
    fault.set(1, Fault.WRITE, how=Fault.WAIT)
    drop()
    wait_until(fault.came, 60, "the commit of the last user")
    fds = []
    opener = threading.Thread(target=lambda: fds.append(os.open(m.mnt / "f", again)))
    opener.start()
    time.sleep(0.3)
    fault.set(0)
    opener.join()
    got = read_direct(m.mnt / "f", 8 << 20)
    size = os.fstat(fds[0]).st_size
    assert (size, strange(how, old, new, got)) == (len(got), "")
    if again != os.O_RDONLY:
        os.write(fds[0], b"more")
        got += b"more"
    os.close(fds[0])
    m.remount()
    assert (m.mnt / "f").read_bytes() == got


logged = pytest.mark.parametrize("small", ["commit=4,chunksize=64K"], ids=["log"], indirect=True)


def close_on_full_disk(m, again=False):
    """What was synced into the intent log finds no room at the last close. Before, and synced."""
    data = bytearray(blob(1, 2 << 20, "noise"))
    fd = os.open(m.mnt / "f", os.O_RDWR | os.O_CREAT)
    put(fd, data)
    os.fsync(fd)
    old = bytes(data)
    for at in range(0, len(data) - PAGE, 5 * PAGE):  # so many that it takes the log
        os.pwrite(fd, b"new", at)
        data[at : at + 3] = b"new"
    with Moved(m) as moved:
        os.fsync(fd)
    assert moved("log", "syncs") == 1
    if again:  # whole chunks, which nothing below them can spoil
        data = blob(2, 2 << 20, "noise")
        put(fd, data)
    fill(m, 0)
    assert outcome(os.close, fd) == "ENOSPC"
    m.expect_log("waits in memory and in the intent log", 20)
    assert is_open(m, "f")
    return old, bytes(data)


def is_open(m, name):
    """The daemon has the frame open for writing."""
    for fd in Path(f"/proc/{m.proc.pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            flags = int((fd.parents[1] / "fdinfo" / fd.name).read_text().split()[3], 8)
            if fd.samefile(m.stored(name)) and flags & os.O_ACCMODE == os.O_RDWR:
                return True
    return False


def aside(m):
    return m.backing / "cframefs-intent.unapplied.1"


@logged
@pytest.mark.parametrize("how", ["by itself", "opened", "written", "killed"])
def test_what_was_synced_is_there_though_its_commit_found_no_room(small, how):
    m = small
    _, data = close_on_full_disk(m)
    assert (m.mnt / "f").read_bytes() == read_direct(m.mnt / "f", len(data) + 1) == data
    if how == "killed":
        m.kill()
    elif how == "written":
        with open(m.mnt / "f", "r+b") as f:
            f.write(b"more")
            data = b"more" + data[4:]
            (m.backing / "filler").unlink()
    elif how == "opened":
        with open(m.mnt / "f", "rb"):
            (m.backing / "filler").unlink()
            time.sleep(2)
    (m.backing / "filler").unlink(missing_ok=True)
    if how == "killed":
        m.start()
    else:
        wait_until(lambda: not is_open(m, "f"), 20, "its commit")
        m.remount()
    assert (m.mnt / "f").read_bytes() == data
    assert not aside(m).exists()


@logged
def test_what_was_synced_is_put_aside_where_the_mount_ends_before_there_is_room(small):
    """And comes into the file when it is put back under its name."""
    m = small
    old, data = close_on_full_disk(m)
    m.allow("last commit failed", "keeps what was synced")
    m.unmount(code=1)
    (m.backing / "filler").unlink()
    m.start()
    assert (m.mnt / "f").read_bytes() == old
    m.unmount()
    aside(m).rename(m.backing / ".cframefs-intent")
    m.start()
    assert (m.mnt / "f").read_bytes() == data


@logged
@pytest.mark.parametrize("replace", [False, True], ids=["removed", "replaced"])
def test_the_room_of_a_file_that_waits_is_there_when_it_is_removed(small, replace):
    m = small
    (m.mnt / "g").touch()
    close_on_full_disk(m)
    if replace:
        os.rename(m.mnt / "g", m.mnt / "f")
    else:
        (m.mnt / "f").unlink()
    new = blob(2, 1 << 20, "noise")
    with open(m.mnt / "after", "wb") as f:
        f.write(new)
        os.fsync(f.fileno())
    m.remount()
    assert (m.mnt / "after").read_bytes() == new
    assert not aside(m).exists()


rarely = pytest.mark.parametrize("small", ["commit=8,chunksize=64K"], ids=["log"], indirect=True)


@rarely
def test_what_waits_is_not_encoded_again_and_again(small):
    """Neither when somebody has read it, nor more often than at each round of commits."""
    m = small
    _, data = close_on_full_disk(m)
    m.expect_log("background commit: No space", 20)
    with Moved(m) as moved:
        for _ in range(5):
            assert (m.mnt / "f").read_bytes() == data
        time.sleep(3)
    assert moved("requests", "open") == 5 and moved("write", "chunks") == 0
    (m.backing / "filler").unlink()
    fd = os.open(m.mnt / "f", os.O_RDWR)
    os.fsync(fd)  # nothing is left for the next round
    os.close(fd)
    wait_until(lambda: not is_open(m, "f"), 5, "the last close")
    m.remount()
    assert (m.mnt / "f").read_bytes() == data


@rarely
def test_what_another_program_writes_while_a_file_waits(small):
    """Its changes cannot be committed any more: they are put aside, and the mount shows theirs."""
    m = small
    close_on_full_disk(m, again=True)
    m.expect_log("background commit: No space", 20)
    (m.backing / "filler").unlink()
    with Sharer("writer", m.stored("f")) as writer:
        writer.ask(3)
    m.expect_log("keeps what was synced", 20)
    wait_until(lambda: not is_open(m, "f"), 20, "its end")
    m.allow("f.b2frame: closed with unwritten data")
    assert set(versions((m.mnt / "f").read_bytes())) == {3}
    assert aside(m).exists()


def test_the_room_of_a_removed_file_is_there_at_once(small):
    """Though the kernel tells of its last close, and forgets it, after unlink has returned."""
    m, noise = small, blob(8, 1 << 20, "noise")
    for _ in range(10):
        fd = os.open(m.mnt / "big", os.O_CREAT | os.O_WRONLY)
        while error_of(os.write, fd, noise) is None and error_of(os.fsync, fd) is None:
            pass
        error_of(os.close, fd)
        (m.mnt / "big").read_bytes()
        (m.mnt / "big").unlink()
        (m.mnt / "after").write_bytes(noise * 3)
        (m.mnt / "after").unlink()


@pytest.mark.parametrize("small", [TIGHT], ids=["tight"], indirect=True)
def test_the_memory_of_a_removed_file_is_there_soon(small):
    """It is full of what finds no room, and both are free as soon as the last user is done."""
    m, noise = small, blob(8, 3 << 20, "noise")
    (m.mnt / "after").touch()
    fd = os.open(m.mnt / "big", os.O_CREAT | os.O_WRONLY)
    for at in range(0, 3 * SIZE, len(noise)):
        outcome(put, fd, noise, at)
    outcome(write_out, fd)
    os.unlink(m.mnt / "big")
    later = threading.Timer(1, outcome, (os.close, fd))
    later.start()
    (m.mnt / "after").write_bytes(noise)
    later.join()
    assert (m.mnt / "after").read_bytes() == noise


@pytest.mark.parametrize("small", [TIGHT], ids=["tight"], indirect=True)
def test_many_wait_for_room_and_the_close_that_brings_it_is_answered(small):
    """It comes behind requests that wait for just that, more than the daemon has threads for."""
    m, noise = small, blob(8, 3 << 20, "noise")
    writers = 40
    fds = [os.open(m.mnt / f"w{n}", os.O_CREAT | os.O_RDWR | os.O_DIRECT) for n in range(writers)]
    big = os.open(m.mnt / "big", os.O_CREAT | os.O_RDWR | os.O_DIRECT)
    for at in range(0, 4 * SIZE, len(noise)):  # memory is full, too, of what finds no room
        outcome(put_direct, big, noise, at)
    os.unlink(m.mnt / "big")
    told = [None] * writers

    def write(n):
        told[n] = error_of(put_direct, fds[n], noise[:65536])

    threads = [threading.Thread(target=write, args=(n,)) for n in range(writers)]
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    outcome(os.close, big)
    for thread in threads:
        thread.join()
    for fd in fds:
        outcome(os.close, fd)
    assert told == [None] * writers


@pytest.mark.parametrize("small", [TIGHT], ids=["tight"], indirect=True)
def test_who_waits_for_room_does_not_keep_the_removed_file_open(small):
    """What is left of that goes to the only worker before it is closed."""
    m, noise = small, blob(8, 1 << 20, "noise")
    new = noise[: 512 << 10]
    big, after = (os.open(m.mnt / name, os.O_CREAT | os.O_WRONLY) for name in ("big", "after"))
    put(big, noise)
    os.fsync(big)
    fill(m, 0)
    put(big, noise[: 256 << 10], len(noise))
    assert outcome(write_out, big) is None
    put(after, new)
    os.unlink(m.mnt / "big")
    later = threading.Timer(1, outcome, (os.close, big))
    later.start()
    os.fsync(after)
    later.join()
    os.close(after)
    assert read_direct(m.mnt / "after", len(new) + 1) == new


@pytest.mark.parametrize("small", [TIGHT], ids=["tight"], indirect=True)
@pytest.mark.parametrize("call", ["write", "fsync"])
def test_killed_while_it_waits_for_the_room_of_a_removed_file(small, call):
    """What was synced is there, what waits is not, and the room is free without the daemon."""
    m, old, noise = small, blob(7, 256 << 10, "noise"), blob(8, 3 << 20, "noise")
    fds = [os.open(m.mnt / name, os.O_CREAT | os.O_RDWR | os.O_DIRECT) for name in ("big", "after")]
    big, after = fds
    put_direct(after, old)
    os.fsync(after)
    if call == "write":  # memory is full of what finds no room
        for at in range(0, 4 * SIZE, len(noise)):
            outcome(put_direct, big, noise, at)
    else:
        put_direct(big, noise)
        os.fsync(big)
    fill(m, 0)
    if call == "fsync":
        put_direct(after, noise[: len(old)])
    os.unlink(m.mnt / "big")
    wait = put_direct if call == "write" else os.fsync
    done = []
    waiter = threading.Thread(
        target=lambda: done.append(
            error_of(wait, after, *([noise[: len(old)]] if call == "write" else []))
        )
    )
    waiter.start()
    time.sleep(0.5)
    assert not done and m.kill()
    waiter.join()
    for fd in fds:
        error_of(os.close, fd)
    assert done != [None]
    (m.backing / "filler").unlink()
    m.start()
    assert os.listdir(m.mnt) == ["after"] and (m.mnt / "after").read_bytes() == old
    (m.mnt / "after").write_bytes(noise)
    m.remount()
    assert (m.mnt / "after").read_bytes() == noise


@pytest.mark.parametrize("small", [TIGHT], ids=["tight"], indirect=True)
@pytest.mark.watchdog(60)
def test_who_finds_no_room_is_told_while_others_remove_files(small):
    """Each removal may bring some, but that is not waited for again and again."""
    m, noise = small, blob(8, 512 << 10, "noise")
    (m.mnt / "held").touch()
    held = os.open(m.mnt / "held", os.O_RDONLY)
    fd = os.open(m.mnt / "f", os.O_CREAT | os.O_WRONLY)
    names = [f"{n}" for n in range(40)]
    for name in names:
        (m.backing / name).touch()
    os.unlink(m.mnt / "held")
    fill(m, 0)
    done = threading.Event()

    def remove():
        for name in names:
            os.unlink(m.mnt / name)
            if done.wait(1):
                return

    remover = threading.Thread(target=remove)
    remover.start()
    put(fd, noise)
    assert outcome(os.fsync, fd) == "ENOSPC"
    done.set()
    remover.join()
    assert len(list(m.mnt.glob("[0-9]*"))) > 0  # or nobody went on removing
    os.close(held)
    outcome(os.close, fd)


def test_making_things_in_a_full_directory(small):
    m = small
    (m.mnt / "d").mkdir()
    fill(m, 0)
    made = []
    for n in range(20):
        error = error_of((m.mnt / f"f{n}").write_bytes, b"x" * 5000)
        assert error in (None, "ENOSPC")
        if not error:
            made.append(n)
    os.unlink(m.backing / "filler")
    for n in range(20):
        (m.mnt / f"f{n}").write_bytes(b"y" * 5000)
    os.rename(m.mnt / "f1", m.mnt / "d/f1")
    m.remount()
    assert all((m.mnt / f"f{n}").read_bytes() == b"y" * 5000 for n in range(2, 20))
    assert (m.mnt / "d/f1").read_bytes() == b"y" * 5000


def test_a_long_story_on_a_disk_that_fills_and_empties(small, blosc2):
    """What an fsync took is there; what it refused is old or new, by the page."""
    m = small
    rng = random.Random(SEED)
    model, unsure = {}, {}
    for step in range(60):
        name = rng.choice("abc")
        if rng.random() < 0.2:
            if (m.backing / "filler").exists():
                os.unlink(m.backing / "filler")
            else:
                fill(m, rng.choice([0, 100_000, 700_000]))
        data = blob(step, rng.choice([100, 5000, 300_000, 900_000]), "noise")
        unsure.setdefault(name, {model.get(name, b"")})
        try:
            fd = os.open(m.mnt / name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
        except OSError as error:
            assert error.errno == errno.ENOSPC
            continue
        good = False
        try:
            put(fd, data)
            os.fsync(fd)
            good = True
        except OSError as error:
            assert error.errno == errno.ENOSPC
        closed = outcome(os.close, fd)
        if good:
            assert not closed
            model[name] = data
            unsure.pop(name)
            got = read_direct(m.mnt / name, len(data) + 1)
            sectors = (slice(at, at + 512) for at in range(0, len(data), 512))
            wrong = [part.start for part in sectors if got[part] != data[part]]
            assert (step, len(got), wrong[:8]) == (step, len(data), [])
    if (m.backing / "filler").exists():
        os.unlink(m.backing / "filler")
    m.remount()
    for name, data in model.items():
        if name not in unsure:
            assert (m.mnt / name).read_bytes() == data
            assert on_disk(m, name, blosc2) == data


def holes(got):
    """Pages of zeros: nobody has written any."""
    return [at for at in range(0, len(got), PAGE) if not any(got[at : at + PAGE])]


def start(how, old):
    """The flags of an open, where the new bytes go, and what was there."""
    if how == "truncated":
        return os.O_TRUNC, 0
    return 0, len(old) if how == "appended" else 0


def strange(how, old, new, got):
    """What is wrong with these bytes, if anything is."""
    if holes(got):
        return f"zeros at {holes(got)[:9]} of {len(got)}"
    if how == "truncated":
        return "" if got == old or got == new[: len(got)] else "neither old nor part of new"
    if how == "appended":
        return "" if got == (old + new)[: len(got)] and len(got) >= len(old) else "not a beginning"
    sound = all(
        got[at : at + PAGE] in (old[at : at + PAGE], new[at : at + PAGE])
        for at in range(0, len(got), PAGE)
    )
    return "" if sound and len(got) >= len(old) else f"pages of neither, {len(got)}"


def turn_on_a_full_disk(m, rng, turn, how, end, flag):
    """What is wrong with a file that was written while the disk was full, if anything is."""
    old = blob(10 * turn, rng.choice([700_000, 2 << 20, 3_333_333]), "noise")
    new = blob(10 * turn + 1, rng.choice([3 << 20, 5 << 20, 7_654_321]), "noise")
    (m.mnt / "f").write_bytes(old)
    os.sync()
    fill(m, rng.choice([0, 300_000, 1 << 20, 2 << 20]))
    flags, at = start(how, old)
    fd = os.open(m.mnt / "f", os.O_RDWR | flags | flag)
    errors = [outcome(put, fd, new, at)]
    if end == "fsync":
        errors.append(outcome(os.fsync, fd))
    if turn % 4 > 1:  # the close finds room again
        (m.backing / "filler").unlink()
    errors.append(outcome(os.close, fd))
    if turn % 4 == 1:
        (m.backing / "filler").unlink()
    m.remount()
    got = (m.mnt / "f").read_bytes()
    wrong = strange(how, old, new, got) if any(errors) else ""
    (m.mnt / "f").unlink()
    (m.backing / "filler").unlink(True)
    os.sync()
    return wrong and (turn, wrong, errors, len(old), len(new), len(got))


@pytest.mark.parametrize("small", ["", "chunksize=64K"], ids=["default", "chunks"], indirect=True)
@pytest.mark.parametrize("end", ["fsync", "close"])
@pytest.mark.parametrize("how", ["truncated", "in place", "appended"])
def test_no_zeros_where_nothing_was_written(small, how, end):
    """Bytes of the writer, old or new."""
    rng = random.Random(f"{SEED} {how} {end}")
    turns = [turn_on_a_full_disk(small, rng, turn, how, end, os.O_DIRECT) for turn in range(5)]
    assert not any(turns), turns


@pytest.mark.parametrize("small", [TIGHT], ids=["tight"], indirect=True)
@pytest.mark.parametrize("end", ["fsync", "close"])
@pytest.mark.parametrize("how", ["truncated", "in place", "appended"])
def test_no_zeros_for_pages_that_the_kernel_dropped(small, how, end):
    """The kernel sends its pages in any order. One whose write is refused it does not send again,
    but those behind it, and goes on with its own length of the file."""
    rng = random.Random(f"{SEED} {how} {end}")
    turns = [turn_on_a_full_disk(small, rng, turn, how, end, 0) for turn in range(8)]
    assert not any(turns), turns


@pytest.mark.parametrize("small", [f"{TIGHT},commit=0.1"], ids=["commit"], indirect=True)
def test_pages_that_were_refused_can_be_written_again(small):
    """Until then the background commit shows nothing behind them, and fsync and close fail; then
    all is well, also for who closes without another fsync. Who was told and goes on without them
    has holes in their place."""
    m, new = small, blob(5, 5 << 20, "noise")
    free = free_bytes(m) - 100_000
    for again in (True, False, True, False):
        wait_until(lambda: free_bytes(m) > free, 60, "the room of the file before")
        fd = os.open(m.mnt / "f", os.O_RDWR | os.O_CREAT)
        fill(m, 1 << 20)
        error = outcome(put, fd, new)
        assert outcome(os.fsync, fd) or error
        (m.backing / "filler").unlink()
        if again:
            put(fd, new)
        else:
            for _ in range(3):
                outcome(os.fsync, fd)
            assert outcome(os.fsync, fd) is None
        outcome(os.close, fd) if not again else os.close(fd)
        m.remount()
        got = (m.mnt / "f").read_bytes()
        assert got == new if again else mixed(got, new)
        (m.mnt / "f").unlink()
        os.sync()


def after_writing_over(m, fd, new):
    """What the file has whose start was written over on a full disk, and which was closed."""
    fill(m, 0)
    error = outcome(put, fd, new)
    os.sync()
    assert outcome(os.close, fd) or error
    m.remount()
    return (m.mnt / "f").read_bytes()


@pytest.mark.parametrize("small", [f"{TIGHT},commit=0.1"], ids=["commit"], indirect=True)
@pytest.mark.parametrize("sized", [False, True], ids=["grown", "sized"])
def test_bytes_that_were_committed_are_not_cut_off(small, sized):
    """Pages over them were refused, or over zeros before them that came from ftruncate. No fsync
    and no close came before."""
    m, size, start = small, 4 << 20, (2 << 20) if sized else 0
    old, new = blob(1, size - start, "noise"), blob(2, 3 << 20, "noise")
    fd = os.open(m.mnt / "f", os.O_RDWR | os.O_CREAT)
    if sized:
        os.ftruncate(fd, size)
    put(fd, old, start)
    write_out(fd)
    time.sleep(0.5)
    got = after_writing_over(m, fd, new)
    assert len(got) == size and got[3 << 20 :] == old[(3 << 20) - start :]
    assert mixed(got, bytes(start) + old, new)


@pytest.mark.watchdog(180)
@pytest.mark.parametrize("small", [TIGHT], ids=["tight"], indirect=True)
def test_who_goes_on_for_long_loses_no_more_than_was_refused(small):
    """A log that nobody calls fsync for, while the disk is full for a moment."""
    m, lines = small, blob(1, 5 << 20, "noise")
    fd = os.open(m.mnt / "f", os.O_WRONLY | os.O_CREAT)
    os.write(fd, b"first")
    write_out(fd)
    fill(m, 0)
    os.write(fd, lines)
    with contextlib.suppress(OSError):
        write_out(fd)
    (m.backing / "filler").unlink()
    time.sleep(62)  # the kernel keeps nothing in its cache for so long
    os.write(fd, b"last")
    assert outcome(os.close, fd) == "ENOSPC"
    m.remount()
    got = (m.mnt / "f").read_bytes()
    assert len(got) == len(lines) + 9 and got.endswith(b"last") and got.startswith(b"first")
    # The first page may be among the refused ones, and keeps what it had.
    assert mixed(got[: 5 << 20], b"first" + lines, b"first")


@pytest.mark.watchdog(180)
@pytest.mark.parametrize("small", [f"{TIGHT},commit=0.1"], ids=["commit"], indirect=True)
@pytest.mark.parametrize("more", [b"more", b""], ids=["busy", "idle"])
def test_what_lies_behind_an_old_hole_is_not_cut_off(small, more):
    """A file that is filled in any order, and nobody calls fsync for."""
    m, old, new = small, blob(1, 2 << 20, "noise"), blob(2, 3 << 20, "noise")
    fd = os.open(m.mnt / "f", os.O_WRONLY | os.O_CREAT)
    os.pwrite(fd, old, 4 << 20)
    write_out(fd)
    time.sleep(62)  # no page of that time is on its way any more
    if more:
        os.pwrite(fd, more, 6 << 20)
        write_out(fd)
        time.sleep(0.5)
    got = after_writing_over(m, fd, new)
    assert len(got) == (6 << 20) + len(more) and got[4 << 20 :] == old + more


@pytest.mark.watchdog(180)
@pytest.mark.parametrize("small", [f"{TIGHT},commit=0.1"], ids=["commit"], indirect=True)
def test_who_goes_on_inside_the_file_keeps_what_came_since(small):
    """Its length is there from the start, and nobody calls fsync."""
    m, size = small, 6 << 20
    lost, since = (blob(n, 3 << 20, "noise") for n in range(2))
    fd = os.open(m.mnt / "f", os.O_WRONLY | os.O_CREAT)
    os.pwrite(fd, b"end", size - 3)
    write_out(fd)
    fill(m, 0)
    with contextlib.suppress(OSError):
        put(fd, lost)
        write_out(fd)
    (m.backing / "filler").unlink()
    time.sleep(62)  # the kernel keeps nothing in its cache for so long
    put(fd, since[: 2 << 20], 3 << 20)
    assert outcome(os.close, fd) == "ENOSPC"
    m.remount()
    got = (m.mnt / "f").read_bytes()
    assert mixed(got[: 3 << 20], lost) and got[3 << 20 : 5 << 20] == since[: 2 << 20]
    assert len(got) == size and got.endswith(b"end")


@pytest.mark.parametrize("small", [TIGHT], ids=["tight"], indirect=True)
@pytest.mark.parametrize("backwards", [False, True], ids=["forwards", "backwards"])
def test_many_refused_ranges_can_be_written_again(small, backwards):
    """Each is known for itself: what lies between them nobody has to write."""
    m, new, step = small, blob(1, 16 << 10, "noise"), 64 << 10
    places = [n * step for n in range(400)]
    fd = os.open(m.mnt / "f", os.O_WRONLY | os.O_CREAT)
    fill(m, 0)
    for at in places:
        with contextlib.suppress(OSError):
            os.pwrite(fd, new, at)
    assert outcome(write_out, fd) == "ENOSPC"
    (m.backing / "filler").unlink()
    for at in reversed(places) if backwards else places:
        os.pwrite(fd, new, at)
        if backwards:
            write_out(fd)
    os.close(fd)
    m.remount()
    got = (m.mnt / "f").read_bytes()
    assert [
        at for at in places if got[at : at + step] != (new.ljust(step, b"\0"))[: len(got) - at]
    ] == []


def test_lists_of_missing_ranges():
    run = subprocess.run(
        [BUILD / "tests/c/missing_check", str(SEED)], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("small", [TIGHT], ids=["tight"], indirect=True)
def test_who_goes_on_without_the_end_sees_its_length_afterwards(small):
    """The kernel has gone on with a length of its own."""
    m, new = small, blob(1, 5 << 20, "noise")
    fd = os.open(m.mnt / "f", os.O_WRONLY | os.O_CREAT)
    fill(m, 1 << 20)
    error = outcome(put, fd, new)
    assert outcome(os.fsync, fd) or error
    (m.backing / "filler").unlink()
    for _ in range(3):
        outcome(os.fsync, fd)
    assert outcome(os.fsync, fd) is None
    os.close(fd)
    time.sleep(2)  # a lookup is due
    got = (m.mnt / "f").read_bytes()
    m.remount()
    assert len((m.mnt / "f").read_bytes()) == len(got)
