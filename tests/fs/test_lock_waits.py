"""The reference library's lock is held by another program: who waits for it and for how long, what
goes on meanwhile, and what is told."""

import contextlib
import fcntl
import mmap
import os
import resource
import shutil
import signal
import sys
import time
from pathlib import Path

import pytest

from libdata import blob
from libintent import made, patch
from libmount import wait_until
from libposix import (
    NONE_IS_LEFT,
    error_of,
    read_direct,
    write_at,
)
from libshare import CHUNK, append, generation, later, make_frame, stored_bytes
from libsharer import PAGE, Sharer


def test_who_waits_for_whom(mount, blosc2):
    m = mount("chunksize=64K,blocksize=16K,commit=0")
    data = blob(5, 2 * CHUNK, "text")
    (m.mnt / "f").write_bytes(data)
    fd = os.open(m.mnt / "f", os.O_RDWR)
    with Sharer("lock", m.stored("f")) as other:
        other.ask("shared")
        assert read_direct(m.mnt / "f", len(data)) == data  # shared
        os.pwrite(fd, b"new", 0)
        thread, done = later(lambda: os.fsync(fd))
        time.sleep(0.3)
        assert not done, "a commit in spite of a shared lock"
        other.ask("none")
        thread.join(60)
        assert done
        other.ask("exclusive")
        thread, done = later(lambda: read_direct(m.mnt / "f", 3)[:3])
        time.sleep(0.3)
        assert not done, "a read in spite of an exclusive lock"
        other.ask("none")
        thread.join(60)
        assert done == [b"new"]
        assert generation(m) == 1
    os.close(fd)


def test_a_copy_waits_for_who_writes_its_source(mount, blosc2):
    """As a read does. The chunk goes as it is stored: half of it would be whole in its copy."""
    m = mount("chunksize=64K,blocksize=16K,commit=0")
    old, new = (blob(seed, CHUNK, "noise") for seed in (1, 2))
    make_frame(blosc2, m.stored("f"), old)
    at = m.stored("f").read_bytes().index(old)
    Path(f"{m.stored('f')}.b2lock").write_bytes(bytes(16))
    source, target = os.open(m.mnt / "f", os.O_RDONLY), os.open(m.mnt / "g", os.O_RDWR | os.O_CREAT)
    with exclusive(m, "f"):
        write_at(Path(f"{m.stored('f')}.b2lock"), 8, (1).to_bytes(8, sys.byteorder))
        write_at(m.stored("f"), at, new[: CHUNK // 2])
        thread, done = later(lambda: os.copy_file_range(source, target, CHUNK, 0, 0))
        time.sleep(0.5)
        assert not done, "a copy in spite of an exclusive lock"
        write_at(m.stored("f"), at + CHUNK // 2, new[CHUNK // 2 :])
    thread.join(60)
    assert done == [CHUNK]
    os.close(source)
    os.close(target)
    assert stored_bytes(blosc2, m.stored("g")) == new


def test_a_lock_that_cannot_be_looked_for(mount, blosc2):
    """The daemon has no descriptor left for a lock file that came after it had opened the frame:
    it does not write as if there were none."""
    m = mount("chunksize=64K,blocksize=16K,commit=0,intent=0")
    m.allow("f.b2frame: fsync: ", *NONE_IS_LEFT)
    old, new = (blob(seed, 4 * CHUNK, "noise") for seed in (1, 2))
    fd = os.open(m.mnt / "f", os.O_RDWR | os.O_CREAT)
    os.pwrite(fd, old, 0)
    os.fsync(fd)
    os.pwrite(fd, new, 0)
    with exclusive(m, "f"):
        limit = resource.prlimit(m.proc.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(m.proc.pid, resource.RLIMIT_NOFILE, (3, limit[1]))
        thread, done = later(lambda: error_of(os.fsync, fd))
        thread.join(60)
        resource.prlimit(m.proc.pid, resource.RLIMIT_NOFILE, limit)
        assert done == ["EMFILE"] and stored_bytes(blosc2, m.stored("f")) == old
    os.fsync(fd)
    os.close(fd)
    assert generation(m) == 1 and stored_bytes(blosc2, m.stored("f")) == new


@pytest.mark.parametrize("how", ["shared", "exclusive"])
def test_killed_while_it_waits_for_a_lock(mount, blosc2, how):
    """Of another program: for the commit, or before that for storing the chunks. The file is what
    it was at its last commit, and the lock, which is the other's, is in nobody's way."""
    m = mount("chunksize=64K,blocksize=16K,commit=0,intent=0")
    old, new = (blob(seed, 8 * CHUNK, "noise") for seed in (1, 2))
    fd = os.open(m.mnt / "f", os.O_RDWR | os.O_CREAT)
    os.pwrite(fd, old, 0)
    os.fsync(fd)
    with Sharer("lock", m.stored("f")) as other:
        other.ask(how)
        os.pwrite(fd, new, 0)
        thread, done = later(lambda: error_of(os.fsync, fd))
        time.sleep(0.5)
        assert not done and m.kill()
        thread.join(60)
        error_of(os.close, fd)
        assert done != [None] and stored_bytes(blosc2, m.stored("f")) == old
        m.start()
        other.ask("none")
        assert (m.mnt / "f").read_bytes() == old
        with open(m.mnt / "f", "r+b") as f:
            f.write(new)
        m.remount()
        assert (m.mnt / "f").read_bytes() == new


def fill(fd, chunks, seed=1):
    """Half of each chunk, until one fails: all of it waits in memory. The errors, and the half."""
    half = CHUNK // 2
    data = blob(seed, half, "noise")
    errors = []
    with mmap.mmap(-1, half) as room:
        room[:] = data
        while len(errors) < chunks and not any(errors):
            errors.append(error_of(os.pwrite, fd, room, len(errors) * CHUNK))
    return errors, data


@contextlib.contextmanager
def exclusive(m, name):
    """Another program has the file's lock, and lets go of it after this, or when called."""
    with open(f"{m.stored(name)}.b2lock", "a+b") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield lambda: fcntl.flock(lock, fcntl.LOCK_UN)


@contextlib.contextmanager
def one_more_waits(fd):
    """Fills what is left of memory; then one more write waits, until the body has made it go on.
    Its error."""
    with mmap.mmap(-1, CHUNK) as room:
        room[:] = blob(3, CHUNK, "noise")
        os.pwrite(fd, room, 31 * CHUNK)  # memory was not quite full
        thread, done = later(lambda: error_of(os.pwrite, fd, room, 32 * CHUNK))
        time.sleep(0.5)
        assert not done
        yield done
        thread.join(60)


HELD = "chunksize=64K,blocksize=16K,commit=0,intent=0,dirty_max=1M,workers=2"


def open_new(m, name):
    fd = os.open(m.mnt / name, os.O_RDWR | os.O_CREAT | os.O_DIRECT)
    os.fsync(fd)
    return fd


@pytest.mark.concurrent
def test_memory_full_of_a_file_whose_lock_is_held(mount):
    """Others go on, one writer's bytes at a time. Its own writer waits."""
    m = mount(HELD)
    held, other = open_new(m, "held"), open_new(m, "other")
    with exclusive(m, "held") as let_go:
        # the mount does not know of the lock yet
        errors, data = fill(held, 31)
        assert not any(errors)
        errors, theirs = fill(other, 40, seed=2)
        assert not any(errors) and error_of(os.fsync, other) is None
        with one_more_waits(held) as done:
            let_go()
        assert done == [None]
    os.fsync(held)
    os.close(held)
    os.close(other)
    m.remount()
    assert (m.mnt / "held").read_bytes()[:CHUNK] == data.ljust(CHUNK, b"\0")
    assert (m.mnt / "other").read_bytes() == theirs.ljust(CHUNK, b"\0") * 39 + theirs


def test_killed_while_a_writer_waits_for_a_lock(mount, blosc2):
    """Memory is full of what another program's lock keeps there: of both files all that was synced
    is there, and of the one whose lock is held nothing else."""
    m = mount(HELD)
    held, other = open_new(m, "held"), open_new(m, "other")
    errors, data = fill(held, 31)
    os.fsync(held)
    with exclusive(m, "held"):
        errors += fill(held, 31, seed=3)[0]
        errors += fill(other, 20, seed=2)[0]
        assert not any(errors) and error_of(os.fsync, other) is None
        with one_more_waits(held) as done:
            assert m.kill()
        assert done and done != [None]
        error_of(os.close, held)
        error_of(os.close, other)
        expect = data.ljust(CHUNK, b"\0") * 30 + data
        assert stored_bytes(blosc2, m.stored("held")) == expect
        m.start()
        theirs = blob(2, CHUNK // 2, "noise")
        assert (m.mnt / "other").read_bytes() == theirs.ljust(CHUNK, b"\0") * 19 + theirs
    assert (m.mnt / "held").read_bytes() == expect


@pytest.mark.concurrent
def test_workers_do_not_wait_for_a_lock(mount):
    """Else one file's lock would keep all others from being stored."""
    m = mount(HELD.replace("1M", "64M"))
    held, other = open_new(m, "held"), open_new(m, "other")
    with exclusive(m, "held") as let_go:
        errors, data = fill(held, 16)
        thread, done = later(lambda: error_of(os.fsync, held))
        time.sleep(0.5)
        errors += fill(other, 16)[0]
        assert error_of(os.fsync, other) is None and not any(errors)
        assert not done
        let_go()
        thread.join(60)
        assert done == [None]
    os.close(held)
    os.close(other)
    m.remount()
    assert (m.mnt / "held").read_bytes()[: CHUNK // 2] == data


def read_at(fd, at):
    """4 KiB past the kernel's cache."""
    with mmap.mmap(-1, PAGE) as room:
        os.preadv(fd, [room], at)
        return room[:]


def use(m, name, turn):
    """A little of everything that can be done with a file."""
    path = m.mnt / name
    data = blob(100 + turn, 4 * CHUNK, "text")
    path.write_bytes(data)
    assert path.stat().st_size == len(data)
    fd = os.open(path, os.O_RDWR | os.O_DIRECT)
    assert read_at(fd, CHUNK) == data[CHUNK : CHUNK + PAGE]
    os.pwrite(fd, b"y", 0)
    os.fsync(fd)
    os.close(fd)
    os.rename(path, m.mnt / f"{name}.{turn}")
    os.listdir(m.mnt)


@pytest.mark.concurrent
@pytest.mark.parametrize("opened", [True, False], ids=["open", "closed"])
def test_many_wait_for_a_lock_and_other_files_go_on(mount, opened):
    """Whatever waits: reads, writes of the kernel, fsync, open, truncate. Nor do the name and the
    attributes of the file itself have to wait."""
    m = mount("chunksize=64K,blocksize=16K,commit=0.2,attr_timeout=0,entry_timeout=0")
    data, new = (blob(seed, 16 * CHUNK, "noise") for seed in (1, 2))
    (m.mnt / "held").write_bytes(data)
    Path(f"{m.stored('held')}.b2lock").touch()  # else who reads before one opens knows of no lock
    fds = [os.open(m.mnt / "held", os.O_RDWR | os.O_DIRECT) for _ in range(2 * opened)]
    cached = os.open(m.mnt / "held", os.O_RDWR) if opened else None
    with exclusive(m, "held") as let_go:
        began = time.monotonic()
        waiting = [later(lambda: read_direct(m.mnt / "held", PAGE)) for _ in range(12)]
        if opened:
            waiting += [later(lambda at=at: read_at(fds[0], at * PAGE)) for at in range(30)]
            for at in range(0, len(new), 2 * PAGE):  # 128 requests
                os.pwrite(cached, new[at : at + PAGE], at)
            waiting += [later(lambda fd=fd: os.fsync(fd)) for fd in (cached, *fds)]
        time.sleep(0.5)
        for turn in range(8):
            use(m, "other", turn)
            assert (m.mnt / "held").stat().st_size == len(data)
            if not opened:  # else the kernel has it wait for the fsync
                os.rename(m.mnt / "held", m.mnt / "moved")
                os.rename(m.mnt / "moved", m.mnt / "held")
        if time.monotonic() - began < 25:  # after half a minute they are told to try again
            assert not any(done for _, done in waiting)
        let_go()
        for thread, done in waiting:
            thread.join(60)
            assert done
    for fd in [*fds, cached] if opened else []:
        os.close(fd)
    m.remount()
    if opened:
        data = b"".join(
            (new if n % 2 == 0 else data)[n * PAGE : (n + 1) * PAGE]
            for n in range(len(data) // PAGE)
        )
    assert (m.mnt / "held").read_bytes() == data


def test_many_pages_and_a_short_hold(mount, blosc2):
    """Each page is a request of its own, and all of them wait for what the other program writes:
    one that did not would go on top of what was there before, and all would be lost."""
    m = mount("chunksize=64K,blocksize=16K,commit=0")
    data, more, new = blob(1, 16 * CHUNK, "noise"), blob(2, CHUNK, "text"), blob(3, PAGE, "noise")
    (m.mnt / "f").write_bytes(data)
    lock = Path(f"{m.stored('f')}.b2lock")
    lock.write_bytes(bytes(16))
    shutil.copyfile(m.stored("f"), m.backing / "theirs")
    append(blosc2, m.backing / "theirs", more)
    fd = os.open(m.mnt / "f", os.O_RDWR)
    with exclusive(m, "f") as let_go:
        for at in range(0, len(data), CHUNK):
            os.pwrite(fd, new, at)
        thread, done = later(lambda: error_of(os.fsync, fd))
        time.sleep(0.5)
        assert not done
        shutil.copyfile(m.backing / "theirs", m.stored("f"))
        write_at(lock, 8, (1).to_bytes(8, "little"))
        let_go()
        thread.join(60)
    assert done == [None]
    os.close(fd)
    m.remount()
    expect = b"".join(new + data[at + PAGE : at + CHUNK] for at in range(0, len(data), CHUNK))
    assert (m.mnt / "f").read_bytes() == expect + more


def test_many_open_a_file_whose_lock_is_held(mount):
    """Each tries once, and waits beside the others: in a row they would take all threads."""
    m = mount("chunksize=64K,blocksize=16K,attr_timeout=0,entry_timeout=0")
    data = blob(1, CHUNK, "noise")
    (m.mnt / "held").write_bytes(data)
    with exclusive(m, "held") as let_go:
        waiting = [later(lambda: read_direct(m.mnt / "held", PAGE)) for _ in range(120)]
        time.sleep(0.2)
        thread, used = later(lambda: use(m, "other", 0))
        thread.join(25)  # after half a minute who waits gives up
        in_time = bool(used)
        assert not any(done for _, done in waiting)
        let_go()
        for each, _ in [*waiting, (thread, used)]:
            each.join(60)
    assert all(done and done[0][:PAGE] == data[:PAGE] for _, done in waiting)
    assert in_time


def test_background_commits_do_not_wait_for_a_lock(mount):
    """The file has its turn when the lock is free, the others before."""
    m = mount("chunksize=64K,blocksize=16K,commit=0.5,intent=0")
    held, other = open_new(m, "held"), open_new(m, "other")
    with exclusive(m, "held") as let_go:
        fill(held, 4)
        before = m.stored("held").read_bytes(), m.stored("other").read_bytes()
        reader, done = later(lambda: read_direct(m.mnt / "held", PAGE))
        for seed in range(3):  # the keeper has been at the other file by then
            empty = m.stored("other").read_bytes()
            fill(other, 4, seed=10 + seed)
            wait_until(lambda: m.stored("other").read_bytes() != empty)
        assert not done and m.stored("held").read_bytes() == before[0]
        let_go()
        wait_until(lambda: m.stored("held").read_bytes() != before[0])
        reader.join(60)
    os.close(held)
    os.close(other)


def test_a_lock_file_that_was_made_anew(mount):
    """Other programs lock the new one, so that counts, and not the one that was open."""
    m = mount("chunksize=64K,blocksize=16K,commit=0.3,intent=0")
    fd, other = open_new(m, "f"), open_new(m, "other")
    lock = Path(f"{m.stored('f')}.b2lock")
    lock.write_bytes(bytes(16))
    fill(fd, 4)
    os.fsync(fd)
    assert lock.read_bytes() != bytes(16)
    before = m.stored("f").read_bytes()
    lock.unlink()
    with exclusive(m, "f") as let_go:
        _, data = fill(fd, 4, seed=2)
        for seed in range(3, 6):  # the keeper has been at the other file by then
            empty = m.stored("other").read_bytes()
            fill(other, 4, seed)
            wait_until(lambda e=empty: m.stored("other").read_bytes() != e)
        assert m.stored("f").read_bytes() == before
        let_go()
        wait_until(lambda: m.stored("f").read_bytes() != before)
    os.close(fd)
    os.close(other)
    assert read_direct(m.mnt / "f", len(data))[: len(data)] == data


def test_a_full_log_and_a_lock_that_is_held(mount):
    """A long interval gives no long wait: the other files have their commits."""
    m = mount("chunksize=64K,blocksize=16K,commit=3600,intent=1M")
    m.allow("b2lock: held by another program")
    files = {name: made(m, name) for name in ("held", "waits", "other")}
    patch(*files["held"], 2)
    patch(*files["waits"], 3)
    before = m.stored("waits").read_bytes()
    with exclusive(m, "held"):
        for seed in range(4, 9):
            patch(*files["other"], seed)
        wait_until(lambda: m.stored("waits").read_bytes() != before)
    for name, (fd, model) in files.items():
        os.close(fd)
        assert (m.mnt / name).read_bytes() == model


@pytest.mark.waits
@pytest.mark.watchdog(200)
def test_a_background_commit_that_waits_for_long_is_told_of(mount):
    """Once, while nobody asks for one; the other files have theirs."""
    line = "for too long: a commit has to wait"
    m = mount("chunksize=64K,blocksize=16K,commit=1,intent=0")
    m.allow(r"held.b2frame.b2lock: held by another program .*" + line)
    held, other = open_new(m, "held"), open_new(m, "other")
    with exclusive(m, "held") as let_go:
        fill(held, 4)
        before = m.stored("held").read_bytes()
        wait_until(lambda: line in m.log_text(), 60)
        empty = m.stored("other").read_bytes()
        fill(other, 4)
        wait_until(lambda: m.stored("other").read_bytes() != empty)
        assert m.log_text().count(line) == 1 and m.stored("held").read_bytes() == before
        let_go()
        wait_until(lambda: m.stored("held").read_bytes() != before)
    os.close(held)
    os.close(other)


@pytest.mark.waits
@pytest.mark.watchdog(200)
def test_a_lock_that_is_never_free(mount):
    """All who want it wait half a minute in sum: then reads go on without it, and what cannot be
    stored is told of, by fsync and when the mount ends."""
    m = mount(HELD)
    held = open_new(m, "held")
    fill(held, 8)
    os.fsync(held)
    m.allow(
        "held.b2frame: ",
        "held.b2frame: closed with unwritten data",
        "held.b2frame.b2lock: held by another program",
        "the last commit",
        "sync failed",
    )
    with exclusive(m, "held"):
        with open(m.mnt / "held", "rb"):
            pass  # it knows of the lock
        waiting = [later(lambda: error_of(read_direct, m.mnt / "held", 4096)) for _ in range(4)]
        errors, _ = fill(held, 31, seed=3)
        assert errors[0] is None and errors[-1] in (None, "EAGAIN")
        assert error_of(os.fsync, held) == "EAGAIN"
        for thread, done in waiting:
            thread.join(25)
            assert done == [None]
        cached = os.open(m.mnt / "held", os.O_RDWR)
        os.pwrite(cached, blob(4, 2 << 20, "noise"), 0)
        # the kernel drops what finds no memory: to try again does not help
        assert error_of(os.fsync, cached) == "EIO"
        m.proc.send_signal(signal.SIGTERM)
        m.wait(1)
        assert "held.b2frame: closed with unwritten data" in m.log_text()
    error_of(os.close, held)
    error_of(os.close, cached)


def test_the_last_commit_waits_for_a_lock(mount):
    """It is the last one that can store what was written."""
    m = mount("commit=0,intent=0")
    data = bytearray(blob(1, CHUNK, "text"))
    (m.mnt / "f").write_bytes(data)
    fd = os.open(m.mnt / "f", os.O_RDWR | os.O_DIRECT)
    os.pwrite(fd, b"written", 5)
    data[5:12] = b"written"
    with exclusive(m, "f") as let_go:
        m.proc.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        let_go()
        m.wait(0)
    error_of(os.close, fd)
    m.start()
    assert (m.mnt / "f").read_bytes() == data


@pytest.mark.waits
@pytest.mark.watchdog(200)
def test_a_closed_file_whose_lock_is_never_free(mount):
    """It is opened and read after half a minute in sum. The log says so once, which file that is,
    and who has the lock."""
    m = mount()
    data = blob(1, CHUNK, "text")
    (m.mnt / "f").write_bytes(data)
    kept = "f.b2frame.b2lock: held by another program"
    m.allow(kept)
    with exclusive(m, "f"):
        all_of_them = [later(lambda: read_direct(m.mnt / "f", CHUNK)) for _ in range(12)]
        for thread, done in all_of_them:
            thread.join(55)
            assert done == [data]
    line = f"{kept} (process {os.getpid()}) for too long: reading without it"
    assert m.log_text().count(kept) == 1 and line in m.log_text(), m.log_text()


@pytest.mark.waits
@pytest.mark.watchdog(200)
def test_what_was_read_without_the_lock_is_written_later(mount, blosc2):
    """Its writer has counted the generation up before. What it writes is not overwritten."""
    m = mount("chunksize=64K,blocksize=16K,commit=0,attr_timeout=600,entry_timeout=600")
    m.allow("b2lock: held by another program", "f.b2frame: ", "f: ")
    data, more = blob(1, 4 * CHUNK, "noise"), blob(2, CHUNK, "noise")
    (m.mnt / "f").write_bytes(data)
    lock = Path(f"{m.stored('f')}.b2lock")
    lock.write_bytes(bytes(16))
    shutil.copyfile(m.stored("f"), m.backing / "theirs")
    append(blosc2, m.backing / "theirs", more)
    fd = os.open(m.mnt / "f", os.O_RDWR | os.O_DIRECT)
    with exclusive(m, "f") as let_go, mmap.mmap(-1, PAGE) as room:
        write_at(lock, 8, (1).to_bytes(8, sys.byteorder))
        assert read_at(fd, 0) == data[:PAGE]
        os.pwrite(fd, room, 0)  # waits in memory
        shutil.copyfile(m.backing / "theirs", m.stored("f"))
        let_go()
        assert error_of(os.fsync, fd) == "ESTALE"
    error_of(os.close, fd)
    m.remount()
    assert (m.mnt / "f").read_bytes() == data + more


@pytest.mark.waits
@pytest.mark.watchdog(200)
def test_two_short_waits_are_no_long_one(mount):
    """Nobody has looked in between, when the lock was free."""
    m = mount(HELD)
    fd = open_new(m, "f")
    data = blob(1, CHUNK, "noise")
    start = time.monotonic()
    with exclusive(m, "f"), mmap.mmap(-1, CHUNK) as room:
        room[:] = data
        os.pwrite(fd, room, 0)  # all of a chunk: a worker tries to store it
        time.sleep(0.5)
    time.sleep(29.8 - (time.monotonic() - start))  # half a minute after the first try ...
    with exclusive(m, "f"):
        thread, done = later(lambda: error_of(os.fsync, fd))
        time.sleep(1)  # ... this one is over
        assert not done
    thread.join(60)
    assert done == [None]
    os.close(fd)
    m.remount()
    assert (m.mnt / "f").read_bytes() == data


@pytest.mark.waits
@pytest.mark.watchdog(200)
def test_short_waits_do_not_add_up(mount):
    """Each of them has ended with the lock: the last one begins anew, and not half a minute ago."""
    m = mount("chunksize=64K,blocksize=16K,commit=0")
    data = blob(1, 2 * CHUNK, "noise")
    (m.mnt / "f").write_bytes(data)
    fd = os.open(m.mnt / "f", os.O_RDWR)
    start = time.monotonic()
    for at, seconds in (0, 0.5), (16, 0.5), (31, 3.5):
        time.sleep(max(0, start + at - time.monotonic()))
        with exclusive(m, "f"):
            os.pwrite(fd, b"new", CHUNK)
            waits = [
                later(lambda: read_direct(m.mnt / "f", 3)[:3]),
                later(lambda: error_of(os.fsync, fd)),
            ]
            time.sleep(seconds)
            assert not any(done for _, done in waits)
        for thread, _ in waits:
            thread.join(60)
        assert [done for _, done in waits] == [[data[:3]], [None]]
    os.close(fd)


@pytest.mark.waits
@pytest.mark.watchdog(200)
@pytest.mark.parametrize("killed", [False, True], ids=["", "killed"])
def test_a_reader_that_never_ends(mount, blosc2, killed):
    """It keeps us from committing, which would only save space: no write is refused for that.
    Nor is anything of these writes in the file that it reads, also when they end by SIGKILL."""
    m = mount(HELD.replace("1M", "64M"))
    m.allow("b2lock: held by another program")
    fd = open_new(m, "f")
    data = [blob(seed, 64 * CHUNK, "noise") for seed in (1, 2)]
    with mmap.mmap(-1, CHUNK) as room:

        def rewrite(data):
            for at in range(0, len(data), CHUNK):
                room[:] = data[at : at + CHUNK]
                os.pwrite(fd, room, at)

        rewrite(data[0])
        os.fsync(fd)
        with open(f"{m.stored('f')}.b2lock", "a+b") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH)
            with open(m.mnt / "f", "rb"):
                pass  # it knows of the lock
            rewrite(data[1])
            if killed:
                assert m.kill()
            assert stored_bytes(blosc2, m.stored("f")) == data[0]
    if killed:
        error_of(os.close, fd)
        m.start()
        assert (m.mnt / "f").read_bytes() == data[0]
        fd = os.open(m.mnt / "f", os.O_RDWR)
        os.pwrite(fd, data[1], 0)
    os.fsync(fd)
    os.close(fd)
    m.remount()
    assert (m.mnt / "f").read_bytes() == data[1]
