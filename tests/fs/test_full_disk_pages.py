"""Pages that a full disk refused: no zeros are shown in their place, nothing else is lost with
them, and they can be written again."""

import contextlib
import os
import random
import subprocess
import threading
import time

import pytest

from libdata import blob
from libfault import Fault
from libfull import (
    PAGE,
    SEED,
    TIGHT,
    fill,
    free_bytes,
    last_use_without_flush,
    mixed,
    outcome,
    put,
)
from libmount import BUILD, wait_until
from libposix import read_direct, write_out, write_synced


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


def closed_full(m, fault, how, old, new):
    """Writes and closes the file f on a disk that is full from then on. What ends its last use."""
    flags, at = start(how, old)
    fd = os.open(m.mnt / "f", os.O_RDWR | flags)
    fault.set(1, Fault.WRITE | Fault.SPACE, forever=1)
    outcome(put, fd, new, at)
    drop = last_use_without_flush(fd)
    assert outcome(os.close, fd) == "ENOSPC"
    return drop


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
        drop = closed_full(m, fault, how, old, new)
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
    drop = closed_full(m, fault, how, old, new)
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
    if end == "close":  # that of the daemon: what finds no room at an unmount makes that fail
        wait_until(lambda: not m.has_open("f"), 5, "the last close")
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


@pytest.mark.waits
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


@pytest.mark.waits
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


@pytest.mark.waits
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


@pytest.mark.parametrize("small", [f"{TIGHT},blocksize=8K,tune=off"], ids=["tight"], indirect=True)
def test_a_chunk_that_is_copied_over_refused_pages_stands_for_them(small):
    """As what is written there does: nothing is missing any more."""
    m, new, step = small, blob(1, 16 << 10, "noise"), 64 << 10
    source = blob(2, step, "noise")
    (m.mnt / "source").write_bytes(source)
    fd = os.open(m.mnt / "f", os.O_RDWR | os.O_CREAT)
    fill(m, 0)
    for n in range(100):
        with contextlib.suppress(OSError):
            os.pwrite(fd, new, n * step)
    assert outcome(write_out, fd) == "ENOSPC"
    (m.backing / "filler").unlink()
    chunk = os.open(m.mnt / "source", os.O_RDONLY)
    for n in range(100):
        assert os.copy_file_range(chunk, fd, step, 0, n * step) == step
    os.close(chunk)
    os.close(fd)
    m.remount()
    assert (m.mnt / "f").read_bytes() == 100 * source


def test_sets_of_ranges():
    run = subprocess.run(
        [BUILD / "tests/c/ranges_check", str(SEED)], capture_output=True, text=True
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
