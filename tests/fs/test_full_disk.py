"""A backing file system that gets full, for real: who is told, what stays, and
that it works again afterwards."""

import errno
import os
import random
import re
import shutil
import signal
import subprocess
import time

import pytest

from libdata import blob
from libfault import Fault
from libfull import (
    PAGE,
    SEED,
    SIZE,
    TIGHT,
    fill,
    free_bytes,
    last_use_without_flush,
    mixed,
    outcome,
    put,
    put_direct,
)
from libmount import wait_until
from libposix import error_of, punch, read_direct, write_synced
from libshare import stored_bytes
from libstats import stats


def test_every_handle_is_told(small, blosc2):
    m = small
    old, new = blob(1, 1 << 20, "noise"), blob(2, 3 << 20, "noise")
    (m.mnt / "f").write_bytes(old)
    os.sync()
    fds = [os.open(m.mnt / "f", os.O_RDWR) for _ in range(3)]
    fill(m, 1 << 20)
    written = outcome(put, fds[0], new)
    assert [outcome(os.fsync, fd) for fd in fds] == ["ENOSPC"] * 3 or written
    assert mixed(stored_bytes(blosc2, m.stored("f")), old, new)  # no fsync has promised more
    os.unlink(m.backing / "filler")
    for fd in fds:  # an error that waited is told once more at most
        outcome(os.fsync, fd)
    assert [outcome(os.fsync, fd) for fd in fds] == [None] * 3
    put(fds[1], new)
    assert [outcome(os.fsync, fd) for fd in fds] == [None] * 3
    assert [outcome(os.close, fd) for fd in fds] == [None] * 3
    assert stored_bytes(blosc2, m.stored("f")) == new
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
    assert mixed(stored_bytes(blosc2, m.stored("f")), b"old", new)
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


@pytest.mark.parametrize("small", [TIGHT], ids=["tight"], indirect=True)
@pytest.mark.parametrize("end", [os.fsync, os.close], ids=["fsync", "close"])
def test_a_plain_file_of_which_a_part_fits(small, end):
    """The kernel's cache would take a short answer for all of what it has sent."""
    m, data = small, blob(1, 1 << 20, "noise")
    (m.backing / "plain").write_bytes(b"")
    fd = os.open(m.mnt / "plain", os.O_WRONLY)
    fill(m, 256 << 10)
    assert "ENOSPC" in (error_of(os.write, fd, data), error_of(end, fd))
    if end != os.close:
        error_of(os.close, fd)
    assert data.startswith((m.backing / "plain").read_bytes())


def unlike(seed, size):
    """Bytes of which chunks compress unlike each other, to about half of them in all."""
    rng, parts = random.Random(seed), []
    for _ in range(size // 1000):
        parts.append(rng.randbytes(rng.choice([100, 1000, 5000, 20_000])))
        parts.append(bytes(len(parts[-1]) * rng.choice([0, 1, 3])))
    return b"".join(parts)[:size]


@pytest.mark.parametrize(
    "small", ["chunksize=64K,intent=0,workers=8"], ids=["chunks"], indirect=True
)
@pytest.mark.parametrize("kind", ["noise", "unlike"])
@pytest.mark.parametrize("write", [put, put_direct], ids=["cached", "direct"])
def test_a_file_is_written_anew_in_less_room_than_a_batch_takes(small, kind, write):
    """The chunks that find some make room for the others, inside the file, whatever workers store
    at once: what a root needs, which makes that room, they leave. A batch has sixteen chunks."""
    m, size, failed = small, 4 << 20, []
    for turn, room in enumerate([330, 332, 336, 340, 396, 400, 404, 460, 530, 600]):
        old = unlike(turn, size) if kind == "unlike" else blob(turn, size, "noise")
        chunks = [old[at : at + (64 << 10)] for at in range(0, size, 64 << 10)]
        new = b"".join(reversed(chunks))
        fd = os.open(m.mnt / "f", os.O_CREAT | os.O_RDWR | (os.O_DIRECT if write != put else 0))
        put_direct(fd, old) if write != put else put(fd, old)
        os.fsync(fd)
        fill(m, room << 10)
        told = [outcome(write, fd, new), outcome(os.fsync, fd), outcome(os.close, fd)]
        if any(told):
            failed.append((room, told))
        else:
            st = os.stat(m.stored("f"))
            assert st.st_blocks * 512 <= (st.st_size + PAGE - 1) // PAGE * PAGE  # none kept behind
            assert read_direct(m.mnt / "f", size + 1) == new
        os.unlink(m.backing / "filler")
        os.unlink(m.mnt / "f")
        wait_until(lambda: free_bytes(m) > SIZE - (1 << 20), 10, "the space of the removed file")
    assert not failed


def copy(source, target, size):
    done = 0
    while done < size:
        done += os.copy_file_range(source, target, size - done, done, done)


@pytest.mark.parametrize("small", ["chunksize=64K,intent=0"], ids=["chunks"], indirect=True)
def test_a_file_is_copied_over_another_in_less_room_than_it_takes(small):
    """Chunk by chunk, as they are stored. What the first ones replace is room for the others. The
    very last bytes may be those that the root lacks which would free it: rarely, not mostly."""
    m, size = small, 2 << 20
    old, new = blob(1, size, "noise"), blob(2, size, "noise")
    source, target = (os.open(m.mnt / n, os.O_CREAT | os.O_RDWR) for n in ("source", "target"))
    put(source, new)
    os.fsync(source)
    failed = []
    for room in range(180, 480, 12):
        put(target, old)
        os.fsync(target)
        fill(m, room << 10)
        told = [outcome(copy, source, target, size), outcome(os.fsync, target)]
        os.unlink(m.backing / "filler")
        if any(told):
            failed.append((room, told))
        else:
            assert read_direct(m.mnt / "target", size + 1) == new
    os.close(source)
    os.close(target)
    assert len(failed) <= 3, failed


@pytest.mark.parametrize("small", ["chunksize=64K,intent=0"], ids=["chunks"], indirect=True)
def test_a_copy_that_does_not_fit_is_told_where_it_ends(small):
    m, size = small, 4 << 20
    new = blob(2, size, "noise")
    source, target = (os.open(m.mnt / n, os.O_CREAT | os.O_RDWR) for n in ("source", "target"))
    put(source, new)
    os.fsync(source)
    fill(m, 1 << 20)
    told = outcome(copy, source, target, size)
    os.close(source)
    os.close(target)
    assert told == "ENOSPC"
    got = read_direct(m.mnt / "target", size)
    assert len(got) >= 512 << 10 and new.startswith(got)


@pytest.mark.parametrize("small", ["chunksize=64K,intent=0"], ids=["chunks"], indirect=True)
def test_what_was_kept_for_roots_is_given_back_without_cutting_the_file(small):
    """What lies in it beyond the last root may be needed by an older one, or be somebody else's."""
    m, data, new = small, blob(1, 1 << 20, "noise"), blob(2, 256 << 10, "noise")
    fd = os.open(m.mnt / "f", os.O_CREAT | os.O_RDWR | os.O_DIRECT)
    put_direct(fd, data)
    os.fsync(fd)
    fill(m, 900 << 10)
    with open(m.stored("f"), "r+b") as stored:
        end = stored.seek(1 << 20, os.SEEK_END)
        stored.write(b"theirs")
    put_direct(fd, new)
    os.fsync(fd)
    os.close(fd)
    with open(m.stored("f"), "rb") as stored:
        stored.seek(end)
        assert stored.read() == b"theirs"
    m.remount()
    assert (m.mnt / "f").read_bytes() == new + data[len(new) :]


@pytest.mark.parametrize("small", [TIGHT], ids=["tight"], indirect=True)
def test_a_write_that_fails_again_and_again_is_told_once(small):
    """Memory is full of what the disk has no room for, and the program does not give up."""
    m, data = small, blob(1, SIZE, "noise")
    fd = os.open(m.mnt / "f", os.O_CREAT | os.O_RDWR | os.O_DIRECT)
    fill(m, 0)
    assert {outcome(put_direct, fd, data) for _ in range(5)} == {"ENOSPC"}
    assert len(re.findall("f.b2frame: (write|close|fsync): No space", m.log_text())) == 1
    (m.backing / "filler").unlink()
    os.ftruncate(fd, 0)
    put_direct(fd, data[: SIZE // 4])
    assert [error_of(call, fd) for call in (os.fsync, os.close)] == [None] * 2


@pytest.mark.parametrize("small", [TIGHT], ids=["tight"], indirect=True)
def test_a_close_that_fails_again_and_again_is_told_once(small):
    """Each child of a program closes a copy of its descriptors."""
    m, data = small, blob(1, 64 << 10, "noise")
    fd = os.open(m.mnt / "f", os.O_CREAT | os.O_RDWR | os.O_DIRECT)
    for turn in range(2):
        fill(m, 0)
        put_direct(fd, data, turn * len(data))
        assert [outcome(os.close, os.dup(fd)) for _ in range(5)] == ["ENOSPC"] * 5
        assert len(re.findall("f.b2frame: close: No space", m.log_text())) == turn + 1
        (m.backing / "filler").unlink()
        os.fsync(fd)
    os.close(fd)


@pytest.mark.parametrize(
    "small", ["commit=0.05,intent=0,chunksize=64K"], ids=["often"], indirect=True
)
def test_a_background_commit_that_fails_is_told_once(small):
    """For all files together, until it works again; at the end of the mount each is told of."""
    m, data = small, blob(1, 64 << 10, "noise")
    fds = [os.open(m.mnt / name, os.O_CREAT | os.O_RDWR | os.O_DIRECT) for name in "fg"]

    def told(pattern):
        return len(re.findall(pattern, m.log_text()))

    def try_in_vain(turn):
        fill(m, 0)
        for fd in fds:
            put_direct(fd, data, turn * len(data))
        tries = stats(m)["write"]["chunks"]
        wait_until(lambda: stats(m)["write"]["chunks"] > tries + 10, 1, "several tries")

    for turn in range(2):
        try_in_vain(turn)
        assert told("b2frame: background commit: No space") == turn + 1
        (m.backing / "filler").unlink()
        wait_until(lambda turn=turn: told("background commit works again") == turn + 1)
    try_in_vain(2)
    m.proc.send_signal(signal.SIGTERM)
    m.wait(1)
    for fd in fds:
        error_of(os.close, fd)
    assert [told(f"{name}.b2frame: the last commit failed: No space") for name in "fg"] == [1, 1]


@pytest.mark.parametrize("small", [TIGHT], ids=["tight"], indirect=True)
def test_a_copied_chunk_that_finds_no_room_leaves_the_length(small):
    """Nobody has written the zeros that would stand in its place."""
    m, data = small, blob(1, 64 << 10, "noise")
    for name in ("source", "f"):
        (m.mnt / name).write_bytes(data)
    source, fd = os.open(m.mnt / "source", os.O_RDONLY), os.open(m.mnt / "f", os.O_RDWR)
    fill(m, 0)
    assert error_of(os.copy_file_range, source, fd, len(data), 0, len(data)) == "ENOSPC"
    (m.backing / "filler").unlink()
    os.fsync(fd)
    os.close(fd)
    os.close(source)
    m.remount()
    assert (m.mnt / "f").read_bytes() == data


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


@pytest.mark.parametrize("small", ["entry_timeout=3600,attr_timeout=3600"], indirect=True)
@pytest.mark.parametrize("names", [1, 2])
def test_who_only_asks_for_its_length_sees_that_it_was_given_up(small, names):
    """Not that of the bytes that are lost: a copy with its source's length and time would look
    as if it were whole, to rsync for one."""
    m = small
    fd = os.open(m.mnt / "f", os.O_CREAT | os.O_RDWR)
    if names == 2:
        os.link(m.mnt / "f", m.mnt / "g")
    fill(m, 0)
    put(fd, blob(2, 900_000, "noise"))
    os.utime(fd, ns=(10**18, 10**18))
    assert os.fstat(fd).st_size == 900_000
    assert outcome(os.close, fd) == "ENOSPC"
    for name in "fg"[:names]:
        wait_until(lambda name=name: os.stat(m.mnt / name).st_size == 0, 5, "its length")
        assert (m.mnt / name).read_bytes() == b""
        assert os.stat(m.mnt / name).st_mtime_ns != 10**18


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
def failing(faulty):
    """A mount whose backing calls can be made to fail, what its file f has, and other bytes."""
    m, fault = faulty("commit=0,intent=0,chunksize=64K,blocksize=16K", "^cframefs: (error|warning)")
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
            assert stored_bytes(blosc2, m.stored(name)) == data
