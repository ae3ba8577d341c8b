"""What waits on a full disk: files whose synced bytes found no room at the last close, and who
waits for the room and the memory of files that are removed."""

import os
import threading
import time

import pytest

from libdata import blob
from libfull import PAGE, SIZE, TIGHT, fill, free_bytes, outcome, put, put_direct
from libmount import wait_until
from libposix import error_of, read_direct, write_out
from libsharer import Sharer, versions
from libstats import Moved

logged = pytest.mark.parametrize("small", ["commit=4,chunksize=64K"], ids=["log"], indirect=True)


def close_logged(m, again):
    """None if a background commit came after the fsync: one that began before the disk was full
    may find the room that it needs, and end only when the file is closed."""
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
        if again:  # whole chunks, which nothing below them can spoil
            data = blob(2, 2 << 20, "noise")
            put(fd, data)
        fill(m, 0)
        told = outcome(os.close, fd)
    if moved("write", "commits"):
        (m.backing / "filler").unlink()
        (m.mnt / "f").unlink()
        wait_until(lambda: free_bytes(m) > SIZE - (1 << 20), 20, "room for the next try")
        return None
    assert moved("log", "syncs") == 1 and told == "ENOSPC"
    return old, bytes(data)


def close_on_full_disk(m, again=False):
    """What was synced into the intent log finds no room at the last close. Before, and synced."""
    found = next(filter(None, (close_logged(m, again) for _ in range(20))))
    m.expect_log("waits in memory and in the intent log", 20)
    assert m.has_open("f")
    return found


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
        wait_until(lambda: not m.has_open("f"), 20, "its commit")
        m.remount()
    assert (m.mnt / "f").read_bytes() == data
    assert not aside(m).exists()


@logged
def test_what_was_synced_is_put_aside_where_the_mount_ends_before_there_is_room(small):
    """And comes into the file when it is put back under its name."""
    m = small
    old, data = close_on_full_disk(m)
    m.allow("keeps what was synced")
    m.unmount(code=1)
    m.expect_log("f.b2frame: the last commit failed: No space")
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
    m.expect_log("f.b2frame: background commit: No space", 20)
    last_round = m.log.stat().st_mtime
    with Moved(m) as moved:
        for _ in range(5):
            assert (m.mnt / "f").read_bytes() == data
        time.sleep(3)
    assert moved("requests", "open") == 5
    if time.time() - last_round < 7:  # the next one comes after eight seconds
        assert moved("write", "chunks") == 0
    (m.backing / "filler").unlink()
    fd = os.open(m.mnt / "f", os.O_RDWR)
    os.fsync(fd)  # nothing is left for the next round
    os.close(fd)
    wait_until(lambda: not m.has_open("f"), 5, "the last close")
    m.remount()
    assert (m.mnt / "f").read_bytes() == data


@pytest.mark.parametrize("small", ["commit=60,chunksize=64K"], ids=["log"], indirect=True)
def test_who_commits_a_file_that_waits_closes_it(small):
    """It does not stay open until the next round."""
    m = small
    _, data = close_on_full_disk(m)
    (m.backing / "filler").unlink()
    fd = os.open(m.mnt / "f", os.O_RDWR)
    os.ftruncate(fd, len(data) - 1)  # which the log cannot tell
    os.fsync(fd)
    os.close(fd)
    wait_until(lambda: not m.has_open("f"), 3, "the last close")
    m.remount()
    assert (m.mnt / "f").read_bytes() == data[:-1]


@logged
def test_a_file_that_waited_leaves_its_room_when_it_is_removed(small):
    """Once a background commit has closed it, nothing holds it any more."""
    m = small
    close_on_full_disk(m)
    (m.backing / "filler").unlink()
    wait_until(lambda: not m.has_open("f"), 20, "its commit")
    assert free_bytes(m) < SIZE - (2 << 20)
    (m.mnt / "f").unlink()
    wait_until(lambda: free_bytes(m) > SIZE - (1 << 20), 10, "its room")


@rarely
def test_what_another_program_writes_while_a_file_waits(small):
    """Its changes cannot be committed any more: they are put aside, and the mount shows theirs."""
    m = small
    close_on_full_disk(m, again=True)
    m.expect_log("f.b2frame: background commit: No space", 20)
    with Sharer("writer", m.stored("f")) as writer:
        (m.backing / "filler").unlink()  # only now: it takes its time to start
        writer.ask(3)
    m.expect_log("keeps what was synced", 20)
    wait_until(lambda: not m.has_open("f"), 20, "its end")
    m.allow("f.b2frame: closed with unwritten data")
    assert set(versions((m.mnt / "f").read_bytes())) == {3}
    assert aside(m).exists()


def test_the_room_of_a_removed_file_is_there_at_once(small):
    """Though the kernel tells of its last close, and forgets it, after unlink has returned."""
    m, noise = small, blob(8, 1 << 20, "noise")
    (m.mnt / "source").write_bytes(noise)
    for turn in range(10):
        fd = os.open(m.mnt / "big", os.O_CREAT | os.O_WRONLY)
        while error_of(os.write, fd, noise) is None and error_of(os.fsync, fd) is None:
            pass
        error_of(os.close, fd)
        (m.mnt / "big").read_bytes()
        (m.mnt / "big").unlink()
        if turn % 2:
            (m.mnt / "after").write_bytes(noise * 3)
        else:
            with open(m.mnt / "source", "rb") as source, open(m.mnt / "after", "wb") as f:
                assert os.copy_file_range(source.fileno(), f.fileno(), len(noise)) == len(noise)
        (m.mnt / "after").unlink()


def test_the_room_of_a_removed_file_that_another_program_has_changed(small):
    """Its reader has the inode that was given up, the removal comes for the one after it."""
    m, noise = small, blob(8, 2 << 20, "noise")
    (m.mnt / "big").write_bytes(noise)
    (m.mnt / "other").write_bytes(noise[1:])
    reader = os.open(m.mnt / "big", os.O_RDONLY)
    assert os.pread(reader, PAGE, 0) == noise[:PAGE]
    m.stored("big").write_bytes(m.stored("other").read_bytes())
    wait_until(lambda: (m.mnt / "big").stat().st_size == len(noise) - 1, 10, "its new size")
    fill(m, 0)
    (m.mnt / "big").unlink()
    later = threading.Timer(1, os.close, (reader,))
    later.start()
    with open(m.mnt / "after", "wb", buffering=0) as f:
        put(f.fileno(), noise[: 1 << 20])
        os.fsync(f)
    later.join()
    assert (m.mnt / "after").read_bytes() == noise[: 1 << 20]


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
def test_many_sync_into_the_room_of_a_file_whose_close_comes_behind_them(small):
    """It has room for all of them, and is answered though they are more than there are threads."""
    m, noise = small, blob(8, 3 << 20, "noise")
    big, *fds = (os.open(m.mnt / f"f{n}", os.O_CREAT | os.O_RDWR | os.O_DIRECT) for n in range(33))
    put_direct(big, noise)
    os.fsync(big)
    fill(m, 0)
    for fd in fds:
        put_direct(fd, noise[:16384])
    os.unlink(m.mnt / "f0")
    told = []
    threads = [
        threading.Thread(target=lambda fd=fd: told.append(outcome(os.fsync, fd))) for fd in fds
    ]
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    assert not told
    os.close(big)
    for thread in threads:
        thread.join()
    for fd in fds:
        os.close(fd)
    assert told == [None] * len(fds)


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


@pytest.mark.parametrize("small", [TIGHT], ids=["tight"], indirect=True)
def test_who_finds_no_room_tries_once_more_where_nothing_is_about_to_be_removed(small):
    """And does not encode the same bytes over and over until the last removal was long ago."""
    m = small
    (m.mnt / "gone").touch()
    fd = os.open(m.mnt / "f", os.O_CREAT | os.O_RDWR | os.O_DIRECT)
    fill(m, 0)
    (m.mnt / "gone").unlink()
    put_direct(fd, blob(8, 64 << 10, "noise"))
    with Moved(m) as moved:
        assert outcome(os.fsync, fd) == "ENOSPC"
    os.unlink(m.backing / "filler")
    os.close(fd)
    assert moved("write", "chunks") < 20, moved("write", "chunks")
