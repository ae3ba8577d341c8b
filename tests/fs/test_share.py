"""Frames shared by the reference library's locks: readers and writers on both sides at once, and
nobody's bytes are written over."""

import errno
import fcntl
import mmap
import os
import random
import signal
import sys
import time
from pathlib import Path

import pytest

from libdata import blob
from libfault import Fault
from libmount import wait_until
from libposix import RENAME_EXCHANGE, error_of, read_direct, renameat2, write_at
from libshare import CHUNK, SOON, generation, later, make_frame, put_frame, stored_bytes
from libsharer import PAGE, Sharer, page, versions
from libstats import Moved, stats


def put(fd, version, pages):
    os.pwrite(fd, page(version) * pages, 0)
    os.fsync(fd)


@pytest.mark.concurrent
def test_readers_of_the_library_beside_a_writer_of_the_mount(mount, blosc2):
    """What they read was written, and is as new as the last fsync before they asked."""
    m = mount("chunksize=64K,blocksize=16K,commit=1")
    pages, rounds = 64, 25
    fd = os.open(m.mnt / "f", os.O_RDWR | os.O_CREAT)
    put(fd, 1, pages)
    assert not (m.backing / "f.b2frame.b2lock").exists()  # nobody takes part yet
    with Sharer("reader", m.stored("f")) as one, Sharer("reader", m.stored("f")) as two:
        before = generation(m)
        for version in range(2, rounds):
            for sharer in (one, two):
                sharer.tell("read")
            put(fd, version, pages + version)
            for sharer in (one, two):  # while it was written
                assert set(sharer.answer()) <= {version - 1, version}
            seen = one.ask("read")
            assert set(seen[:pages]) == {version}
        assert generation(m) >= before + rounds - 2
    os.close(fd)


@pytest.mark.concurrent
def test_readers_of_the_mount_beside_a_writer_of_the_library(mount, blosc2):
    m = mount("chunksize=64K,blocksize=16K,attr_timeout=0.1,entry_timeout=0.1")
    make_frame(blosc2, m.stored("f"), page(1) * 48)
    with Sharer("writer", m.stored("f")) as writer:
        fd = os.open(m.mnt / "f", os.O_RDONLY | os.O_DIRECT)
        room = mmap.mmap(-1, CHUNK)
        rng = random.Random(1)
        for version in range(2, 20):
            writer.tell(version)
            for _ in range(10):
                os.preadv(fd, [room], rng.randrange(3) * CHUNK)
                assert set(versions(room[:])) <= {version - 1, version}
            chunks = writer.answer()
            os.preadv(fd, [room], 2 * CHUNK)
            assert set(versions(room[:])) == {version}
        os.close(fd)
        wait_until(lambda: (m.mnt / "f").stat().st_size == chunks * CHUNK, SOON, "the size")
        assert set(versions(read_direct(m.mnt / "f", chunks * CHUNK))) <= set(range(2, 20))


def test_a_lock_alone_is_no_change(mount, blosc2):
    """Somebody holds the library's lock exclusively only to read: what we have
    not written yet stays ours."""
    m = mount("chunksize=64K,blocksize=16K,commit=0")
    (m.mnt / "f").write_bytes(page(1) * 32)
    fd = os.open(m.mnt / "f", os.O_RDWR)
    with Sharer("reader", m.stored("f")) as reader:
        put(fd, 2, 32)
        os.pwrite(fd, page(3) * 32, 0)
        assert set(reader.ask("read")) == {2}  # under holding_lock, which counts
        os.fsync(fd)
        assert set(reader.ask("read")) == {3}
    os.close(fd)


def test_a_writer_that_came_unseen(mount, blosc2):
    """The lock file is new to the mount when it commits, and was used before. No program is
    started for it: a child that closes what it inherits makes the daemon commit."""
    m = mount("chunksize=64K,blocksize=16K,commit=1000,intent=0")
    (m.mnt / "f").write_bytes(page(1) * 32)
    fd = os.open(m.mnt / "f", os.O_RDWR | os.O_DIRECT)
    os.pwrite(fd, page(2) * 16, 0)
    other = blosc2.open(str(m.stored("f")), mode="a", locking=True, dparams={"nthreads": 1})
    for n in range(2):
        other.update_data(n, page(3) * 16, copy=True)
    m.allow("f.b2frame: ")
    assert error_of(os.fsync, fd) == "ESTALE"
    assert error_of(os.close, fd) == "ESTALE"
    m.remount()
    assert set(versions((m.mnt / "f").read_bytes())) == {3}


def has_writers(path):
    """Whether somebody has it open to write: else there may be a lease for a reader."""
    with open(path, "rb") as f:
        return error_of(fcntl.fcntl, f, fcntl.F_SETLEASE, fcntl.F_RDLCK) is not None


def test_a_lock_file_that_may_only_be_read(mount):
    """As another user's: nobody could be told of a commit. A writer hears of that when it opens
    the file, or at its fsync if the lock file came later. It was EBADF, at the close."""
    m = mount("chunksize=64K,commit=1000", start=False)
    right = "-dac_override,-dac_read_search"  # which root has, and nobody else
    m.argv = ["setpriv", "--bounding-set", right, "--inh-caps", right, *m.argv]
    m.start()
    (m.mnt / "f").write_bytes(page(1))
    fd = os.open(m.mnt / "f", os.O_RDWR)
    lock = Path(f"{m.stored('f')}.b2lock")
    lock.touch(0o644)
    os.chown(lock, 65534, 65534)
    os.pwrite(fd, page(2), 0)
    m.allow("f.b2frame: closed with unwritten data")
    assert error_of(os.fsync, fd) == "EACCES"
    assert error_of(os.close, fd) == "EACCES"
    wait_until(lambda: (m.mnt / "f").read_bytes() == page(1))
    m.allow("f.b2frame.b2lock: may not be written")
    assert error_of(os.open, m.mnt / "f", os.O_RDWR) == "EACCES"
    assert error_of(os.truncate, m.mnt / "f", 0) == "EACCES"
    assert not has_writers(m.stored("f")), "who is refused leaves nothing open"
    assert (m.mnt / "f").read_bytes() == page(1)


def test_two_writers_are_told(mount, blosc2):
    """Ours does not destroy what the other program wrote, and hears of it."""
    m = mount("chunksize=64K,blocksize=16K,commit=0")
    (m.mnt / "f").write_bytes(page(1) * 32)
    fd = os.open(m.mnt / "f", os.O_RDWR)
    with Sharer("writer", m.stored("f")) as writer:
        put(fd, 2, 32)
        os.pwrite(fd, page(4) * 16, 0)
        wait_until(lambda: os.pread(fd, 4, 0) == page(4)[:4])
        with open(m.mnt / "f", "rb"):
            read_direct(m.mnt / "f", 10)  # sends the kernel's dirty pages to the daemon
        writer.ask(3)
        m.allow("f.b2frame: ", "background commit")
        assert error_of(os.fsync, fd) in (
            "ESTALE",
            "EIO",
        )  # EIO: a chunk that ours changes in part is another now
    with pytest.raises(OSError):
        os.close(fd)
    stored = blosc2.open(str(m.stored("f")))
    assert set(versions(b"".join(stored.decompress_chunk(n) for n in range(stored.nchunks)))) == {3}


@pytest.mark.parametrize("lock", ["known", "unseen"])
def test_what_is_free_to_us_is_not_written_when_another_program_has_it(mount, blosc2, lock):
    """Chunks are stored before the commit that is refused: not where the other's chunks are now.
    Nor if the lock file is new to the mount by then."""
    m = mount("chunksize=64K,blocksize=16K,commit=0")
    theirs, ours = (blob(seed, 4 * CHUNK, "noise") for seed in (1, 2))
    (m.mnt / "f").write_bytes(bytes(range(256)) * 1024)  # whose chunks are too short for others
    if lock == "known":
        Path(f"{m.stored('f')}.b2lock").touch()
    fd = os.open(m.mnt / "f", os.O_RDWR | os.O_DIRECT)
    with mmap.mmap(-1, CHUNK - 4096) as room:  # no whole chunk: it stays in memory until the fsync
        for n in range(4):
            room[:] = ours[n * CHUNK :][: len(room)]
            os.pwrite(fd, room, n * CHUNK)
    other = blosc2.open(str(m.stored("f")), mode="a", locking=True, dparams={"nthreads": 1})
    for n in range(4):
        other.update_data(n, theirs[n * CHUNK : (n + 1) * CHUNK], copy=True)
    begun = blob(3, 8 * CHUNK, "noise")  # of a commit that is under way
    with open(m.stored("f"), "ab") as end:
        end.write(begun)
    m.allow("f.b2frame: ")
    assert error_of(os.fsync, fd) in ("ESTALE", "EIO")
    error_of(os.close, fd)
    # Before the unmount, which would fail. With EIO all may be lost by then: nothing is unwritten.
    wait_until(lambda: not m.has_open("f"), 5, "the last close")
    assert m.stored("f").read_bytes().endswith(begun), "our end is not the file's"
    assert stored_bytes(blosc2, m.stored("f")) == theirs


@pytest.mark.parametrize("lock", ["known", "unseen"])
def test_a_copied_chunk_is_not_stored_over_those_of_another_program(mount, blosc2, lock):
    """copy_file_range stores it at once. A write waits: the frame is not read anew."""
    m = mount("chunksize=64K,blocksize=16K,commit=0")
    theirs = blob(1, 8 * CHUNK, "noise")
    make_frame(blosc2, m.stored("theirs"), theirs)
    frame = m.stored("theirs").read_bytes()
    (m.mnt / "g").write_bytes(blob(2, 4 * CHUNK, "noise"))
    (m.mnt / "f").write_bytes(bytes(range(256)) * 1024)
    if lock == "known":
        Path(f"{m.stored('f')}.b2lock").touch()
    source, fd = os.open(m.mnt / "g", os.O_RDONLY), os.open(m.mnt / "f", os.O_RDWR | os.O_DIRECT)
    with mmap.mmap(-1, 4096) as room:
        os.pwrite(fd, room, 3 * CHUNK)
    put_frame(m.stored("f"), frame)
    m.allow("f.b2frame: ")
    for n in range(3):
        assert error_of(os.copy_file_range, source, fd, CHUNK, n * CHUNK, n * CHUNK) == "ESTALE"
    assert error_of(os.close, fd) == "ESTALE"
    os.close(source)
    assert stored_bytes(blosc2, m.stored("f")) == theirs


def test_copying_to_a_file_that_another_program_changes_meanwhile(mount, blosc2, work):
    """While it waits for its turn. What the other has written is read anew then, since nothing of
    ours waits for the frame of before."""
    m = mount("chunksize=64K,blocksize=16K,commit=0,intent=0", start=False)
    theirs, ours = (blob(seed, 8 * CHUNK, "noise") for seed in (1, 2))
    make_frame(blosc2, m.stored("theirs"), theirs)
    fault = Fault(m, work / "fault")
    m.start()
    (m.mnt / "g").write_bytes(ours[:CHUNK])
    source, fd = os.open(m.mnt / "g", os.O_RDONLY), os.open(m.mnt / "f", os.O_RDWR | os.O_CREAT)
    os.pwrite(fd, ours, 0)
    os.close(os.dup(fd))  # a commit that is not synced
    Path(f"{m.stored('f')}.b2lock").touch()
    fault.set(1, Fault.SYNC, how=Fault.WAIT)
    sync, synced = later(lambda: error_of(os.fsync, fd))
    wait_until(fault.came)
    copy, copied = later(lambda: error_of(os.copy_file_range, source, fd, CHUNK, 0, 0))
    time.sleep(0.5)
    put_frame(m.stored("f"), m.stored("theirs").read_bytes())
    fault.set(0)
    for thread in (sync, copy):
        thread.join(60)
    assert (synced, copied) == ([None], [None])
    os.close(fd)
    os.close(source)
    m.remount()
    assert (m.mnt / "f").read_bytes() == ours[:CHUNK] + theirs[CHUNK:]


def test_opening_a_file_whose_lock_is_removed_while_a_chunk_is_copied_to_it(faulty):
    """Both have to do with the lock file and with the inode: one after the other."""
    m, fault = faulty(
        "chunksize=64K,blocksize=16K,commit=0,intent=0,entry_timeout=60,attr_timeout=60"
    )
    data = blob(1, 4 * CHUNK, "noise")
    (m.mnt / "g").write_bytes(data[:CHUNK])
    (m.mnt / "f").write_bytes(data)
    lock = Path(f"{m.stored('f')}.b2lock")
    lock.touch()
    source, fd = os.open(m.mnt / "g", os.O_RDONLY), os.open(m.mnt / "f", os.O_RDWR)
    fault.set(1, Fault.WRITE, how=Fault.WAIT)
    copy, copied = later(lambda: os.copy_file_range(source, fd, CHUNK, 0, CHUNK))
    wait_until(fault.came)
    lock.unlink()
    opener, opened = later(lambda: os.open(m.mnt / "f", os.O_RDONLY))
    time.sleep(0.5)
    fault.set(0)
    for thread in (copy, opener):
        thread.join(60)
    assert copied == [CHUNK] and opened
    for one in (*opened, fd, source):
        os.close(one)
    m.remount()
    assert (m.mnt / "f").read_bytes() == data[:CHUNK] + data[:CHUNK] + data[2 * CHUNK :]


def test_after_a_failed_sync_the_frame_of_another_program_stays(mount, blosc2, work):
    """The next fsync would write the root once more, though nothing has changed since."""
    m = mount("chunksize=64K,blocksize=16K,commit=0,intent=0", start=False)
    theirs = blob(1, 8 * CHUNK, "noise")
    make_frame(blosc2, m.stored("theirs"), theirs)
    fault = Fault(m, work / "fault")
    m.start()
    fd = os.open(m.mnt / "f", os.O_RDWR | os.O_CREAT)
    os.pwrite(fd, blob(2, 4 * CHUNK, "noise"), 0)
    os.fsync(fd)
    os.fchmod(fd, 0o600)
    fault.set(1, Fault.FSYNC, errno.EIO)
    assert error_of(os.fsync, fd) == "EIO"
    fault.stop()
    put_frame(m.stored("f"), m.stored("theirs").read_bytes())
    m.allow("f.b2frame: ")
    assert error_of(os.fsync, fd) == "ESTALE"
    error_of(os.close, fd)
    assert stored_bytes(blosc2, m.stored("f")) == theirs


def wait_for_round(m, name):
    """The keeper commits all files, and compacts: `name` is a new one."""
    fd = os.open(m.mnt / name, os.O_RDWR | os.O_CREAT | os.O_DIRECT)
    empty = m.stored(name).stat().st_size
    with mmap.mmap(-1, 4096) as room:
        os.pwrite(fd, room, 0)
    wait_until(lambda: m.stored(name).stat().st_size > empty)
    os.close(fd)


def test_compaction_leaves_the_chunks_of_another_program_alone(mount, blosc2):
    """What was a gap when the file was committed last is none in the other's frame. That one is an
    older version of the file, so that the chunks to be moved are where they were."""
    m = mount("chunksize=64K,blocksize=16K,commit=1,intent=0")
    theirs = blob(1, 16 * CHUNK, "noise")
    (m.mnt / "f").write_bytes(theirs)
    frame = m.stored("f").read_bytes()
    fd = os.open(m.mnt / "f", os.O_RDWR)
    wait_for_round(m, "a")
    os.pwrite(fd, bytes(12 * CHUNK), 0)
    os.fsync(fd)  # 12 chunks are free, for the next round to move the others there
    put_frame(m.stored("f"), frame)
    wait_for_round(m, "b")
    wait_for_round(m, "c")
    assert stored_bytes(blosc2, m.stored("f")) == theirs
    assert (m.mnt / "f").read_bytes() == theirs
    os.close(fd)


def lengths(m, name="f"):
    """Of the frame, its chunk area and its trailer: what other sizes would tell."""
    raw = m.stored(name).read_bytes()
    return len(raw), raw[:87][20:40], raw[-22:-18]


def slack(path):
    """Bytes between index and trailer, which the library does not leave."""
    raw = path.read_bytes()
    index = int.from_bytes(raw[11:15], "big") + int.from_bytes(raw[39:47], "big")
    length = int.from_bytes(raw[index + 12 : index + 16], "little")
    return len(raw) - int.from_bytes(raw[-22:-18], "big") - index - length


def write_without_slack(m, data):
    """The file f, a little shorter; returns its bytes."""
    for size in range(len(data), len(data) - 64, -1):
        (m.mnt / "f").unlink(missing_ok=True)
        (m.mnt / "f").write_bytes(data[:size])
        if slack(m.stored("f")) == 0:
            return data[:size]
    raise AssertionError("each root has slack")


def test_chunks_that_were_moved_while_another_program_had_the_lock(mount):
    """Nobody has written through the mount since: what another program writes then is shown."""
    m = mount("chunksize=64K,commit=1,intent=0,entry_timeout=0,attr_timeout=0")
    path, size = m.mnt / "f", 4 << 20
    path.write_bytes(theirs := blob(1, size, "noise"))
    frame = m.stored("f").read_bytes()
    path.write_bytes(blob(2, size, "noise"))
    lock = os.open(f"{m.stored('f')}.b2lock", os.O_RDWR | os.O_CREAT)
    os.pwrite(lock, bytes(16), 0)

    with open(path, "rb") as reader:
        write_at(path, 0, bytes(size * 3 // 4))
        before = m.stored("f").stat().st_blocks
        fcntl.flock(lock, fcntl.LOCK_SH)
        wait_until(lambda: m.stored("f").stat().st_blocks < before, 20, "the gaps to be found")
        time.sleep(2)  # for the chunks, and a commit
        fcntl.flock(lock, fcntl.LOCK_UN)
        put_frame(m.stored("f"), frame)
        assert path.read_bytes() == theirs
        os.fsync(reader)
    os.close(lock)
    m.remount()
    assert path.read_bytes() == theirs
    assert m.stored("f").read_bytes() == frame


@pytest.mark.parametrize("maker", ["mount", "library"])
def test_a_chunk_replaced_by_one_of_the_same_size(mount, blosc2, codec_tool, maker):
    """The frame keeps all its lengths, and of a root of the library nothing tells."""
    m = mount("chunksize=64K,blocksize=16K,level=0,commit=0")
    data, theirs, ours = (blob(seed, 2 * CHUNK, "noise") for seed in (1, 2, 3))
    if maker == "mount":
        data = write_without_slack(m, data)
        theirs = theirs[: len(data)]
    else:
        make_frame(blosc2, m.stored("f"), data)
    other = blosc2.open(str(m.stored("f")), mode="a", locking=True, dparams={"nthreads": 1})
    fd = os.open(m.mnt / "f", os.O_RDWR)
    read_direct(m.mnt / "f", len(data))
    os.pwrite(fd, ours[:PAGE], 0)  # less than a chunk: it waits in memory
    read_direct(m.mnt / "f", 10)  # sends the kernel's dirty pages to the daemon
    before = lengths(m)
    if maker == "mount":  # of ours, a plain copy would not be as long
        other.update_chunk(1, codec_tool.encode("store", theirs[CHUNK:], blocksize=16 << 10))
    else:
        other.update_data(1, theirs[CHUNK:], copy=True)
    assert lengths(m) == before
    m.allow("f.b2frame: ")
    assert error_of(os.fsync, fd) == "ESTALE"
    assert error_of(os.close, fd) == "ESTALE"
    wanted = data[:CHUNK] + theirs[CHUNK:]
    assert stored_bytes(blosc2, m.stored("f")) == wanted
    wait_until(lambda: (m.mnt / "f").read_bytes() == wanted, SOON, "what is stored")


def test_a_reader_that_makes_the_lock_file_is_no_writer(mount, blosc2):
    m = mount("chunksize=64K,commit=0")
    data = bytearray(blob(1, 2 * CHUNK, "noise"))
    make_frame(blosc2, m.stored("f"), data)
    lock = m.backing / "f.b2frame.b2lock"
    lock.unlink(missing_ok=True)
    fd = os.open(m.mnt / "f", os.O_RDWR)
    os.pwrite(fd, b"ours", 10)
    read_direct(m.mnt / "f", 10)
    other = blosc2.open(str(m.stored("f")), mode="r", locking=True, dparams={"nthreads": 1})
    assert other.decompress_chunk(0) == data[:CHUNK]
    assert lock.exists()
    os.fsync(fd)
    os.close(fd)
    data[10:14] = b"ours"
    assert other.decompress_chunk(0) == data[:CHUNK]


def replace_while_stopped(m, path, at, data):
    """While the daemon stands still: as a program does that takes part in locking, and replaces a
    chunk in place. False: the daemon has stored its own already, or is about to."""
    size = path.stat().st_size
    m.proc.send_signal(signal.SIGSTOP)
    try:
        with open(f"{path}.b2lock", "r+b") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            write_at(lock.name, 8, (1).to_bytes(8, sys.byteorder))
            write_at(path, at, data)
            return path.stat().st_size == size
    except BlockingIOError:
        return False
    finally:
        m.proc.send_signal(signal.SIGCONT)


@pytest.mark.watchdog(120)
def test_a_chunk_that_is_replaced_while_ours_is_encoded(mount, blosc2):
    """A worker has read what lies below our pages, and what comes there meanwhile is not lost.
    Nothing in the root tells."""
    size = 16 << 20
    m = mount("dirty_max=256M,workers=1,codec=zlib,level=9,tune=off,commit=1000,intent=0")
    m.allow(".b2frame: ")
    old, theirs, ours = blob(1, size, "noise"), blob(2, size, "text"), blob(3, PAGE, "text")
    for attempt in range(20):
        path = m.stored(f"f{attempt}")
        make_frame(blosc2, path, old, size)
        Path(f"{path}.b2lock").write_bytes(bytes(16))
        fd = os.open(m.mnt / f"f{attempt}", os.O_RDWR | os.O_DIRECT)
        with mmap.mmap(-1, PAGE) as room:
            room[:] = ours
            for at in range(0, size, 65536):  # too many blocks to keep the others as they are
                os.pwrite(fd, room, at)
        at = path.read_bytes().index(old)
        read = stats(m)["read"]["disk_bytes"]
        sync, synced = later(lambda fd=fd: error_of(os.fsync, fd))
        wait_until(lambda read=read: stats(m)["read"]["disk_bytes"] >= read + size)
        caught = replace_while_stopped(m, path, at, theirs)
        sync.join(60)
        closed = error_of(os.close, fd)
        if caught:
            break
    assert caught and synced == [closed] == ["ESTALE"]
    assert stored_bytes(blosc2, path) == theirs


@pytest.mark.watchdog(120)
def test_a_chunk_that_is_replaced_after_ours_was_stored(mount, blosc2):
    """Ours has the old bytes around a page, and is in the file already, though not in its root."""
    m = mount("chunksize=64K,blocksize=16K,codec=lz4,commit=0,intent=0,workers=1")
    m.allow("f.b2frame: ")
    data, theirs = blob(1, 2 * CHUNK, "noise"), blob(2, CHUNK, "noise")
    path = m.stored("f")
    make_frame(blosc2, path, data)
    Path(f"{path}.b2lock").write_bytes(bytes(16))
    fd = os.open(m.mnt / "f", os.O_RDWR | os.O_DIRECT)
    with Moved(m) as moved, mmap.mmap(-1, PAGE) as room:
        for n in range(CHUNK // PAGE + 1):  # as much as the chunk has: it is not waited for more
            room[:] = blob(n, PAGE, "text")
            os.pwrite(fd, room, PAGE)
        wait_until(lambda: stats(m)["write"]["chunks"] > moved.before["write"]["chunks"])
    at = path.read_bytes().index(data[:CHUNK])
    wait_until(lambda: replace_while_stopped(m, path, at, theirs))  # it may have the lock just then
    assert error_of(os.fsync, fd) == "ESTALE"
    assert error_of(os.close, fd) == "ESTALE"
    m.expect_log("closed with unwritten data")  # before the unmount, which would fail
    assert stored_bytes(blosc2, path) == theirs + data[CHUNK:]


def test_sidecars_follow_their_frames(mount, blosc2):
    m = mount()
    for name in "ab":
        (m.mnt / name).write_bytes(name.encode())
        (m.backing / f"{name}.b2frame.b2lock").write_bytes(name.encode() * 16)
    os.rename(m.mnt / "a", m.mnt / "c")
    assert sorted(os.listdir(m.backing)) == [
        "b.b2frame",
        "b.b2frame.b2lock",
        "c.b2frame",
        "c.b2frame.b2lock",
    ]
    os.unlink(m.mnt / "b")
    assert sorted(os.listdir(m.backing)) == ["c.b2frame", "c.b2frame.b2lock"]
    (m.mnt / "d").write_bytes(b"d")
    m.stored("d").rename(m.backing / "d.b2f")
    (m.backing / "d.b2f.b2lock").touch()
    os.rename(m.mnt / "c", m.mnt / "d")
    assert sorted(os.listdir(m.backing)) == ["d.b2frame", "d.b2frame.b2lock"]
    assert (m.backing / "d.b2frame.b2lock").read_bytes() == b"a" * 16
    os.rename(m.mnt / "d", m.mnt / ("n" * 247))  # no room for a sidecar's name
    assert os.listdir(m.mnt) == ["n" * 247]


@pytest.mark.parametrize("suffix", [".b2frame", ".b2f"], ids=["alike", "another suffix"])
@pytest.mark.parametrize("locks", ["x", "y", "xy"])
def test_sidecars_follow_frames_that_are_exchanged(mount, suffix, locks):
    m = mount()
    for name in "xy":
        (m.mnt / name).write_bytes(name.encode())
    m.stored("y").rename(m.backing / f"y{suffix}")
    m.remount()
    frames = {"x": "x.b2frame", "y": f"y{suffix}"}
    for name in locks:
        (m.backing / f"{frames[name]}.b2lock").write_bytes(name.encode() * 16)
    renameat2(m.mnt / "x", m.mnt / "y", RENAME_EXCHANGE)
    assert [(m.mnt / name).read_bytes() for name in "xy"] == [b"y", b"x"]
    frames = {"x": "y.b2frame", "y": f"x{suffix}"}
    found = {path.name: path.read_bytes() for path in m.backing.glob("*.b2lock")}
    assert found == {f"{frames[name]}.b2lock": name.encode() * 16 for name in locks}


def test_a_rename_that_cannot_remove_the_old_name(faulty):
    """What it replaces, of another suffix, is gone by then. That the file has the new name, too, is
    known, and by which lock file it is shared under that."""
    m, fault = faulty("commit=1000,intent=0")
    (m.mnt / "t").write_bytes(b"old")
    m.stored("t").rename(m.backing / "t.b2f")
    m.remount()
    (m.backing / "t.b2f.b2lock").write_bytes(bytes(16))
    (m.mnt / "s").write_bytes(b"new")
    fault.set(3, calls=Fault.NAME, error=errno.EIO)
    assert error_of(os.rename, m.mnt / "s", m.mnt / "t") == "EIO"
    assert fault.last() == "unlinkat"
    fault.stop()
    assert sorted(os.listdir(m.backing)) == ["s.b2frame", "t.b2frame"]
    (m.backing / "t.b2frame.b2lock").write_bytes(bytes(16))
    with open(m.mnt / "s", "r+b", buffering=0) as f:
        os.unlink(m.mnt / "s")
        f.write(b"newer")
        os.fsync(f)
        assert generation(m, "t") == 1
    assert (m.mnt / "t").read_bytes() == b"newer"


@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_RDWR])
@pytest.mark.parametrize("shared", [False, True])
def test_nothing_is_noted_in_a_frame_that_others_read(mount, flags, shared):
    """An fsync of what is committed says in its root that it is durable; but who reads a frame with
    a lock file would have to be kept out for that."""
    m = mount("commit=0")
    (m.mnt / "f").write_bytes(blob(1, 100_000, "text"))
    if shared:
        Path(f"{m.stored('f')}.b2lock").write_bytes(bytes(16))
    before = m.stored("f").read_bytes()
    fd = os.open(m.mnt / "f", flags)
    os.fsync(fd)
    os.close(fd)
    assert (m.stored("f").read_bytes() == before) == shared
    assert not shared or generation(m) == 0


def test_a_commit_that_cannot_count_up(faulty):
    """Readers would miss it: it fails before the frame has changed for them."""
    m, fault = faulty("commit=1000,intent=0", "^cframefs: (error|warning)")
    (m.mnt / "f").write_bytes(b"old")
    m.remount()
    (m.backing / "f.b2frame.b2lock").write_bytes(bytes(16))
    with open(m.mnt / "f", "r+b", buffering=0) as f:
        f.write(b"new")
        before = m.stored("f").read_bytes()[:87]
        fault.set(2, calls=Fault.WRITE, error=errno.EIO)  # the first is that of the chunk
        assert error_of(os.fsync, f) == "EIO" and fault.came()
        fault.stop()
        assert m.stored("f").read_bytes()[:87] == before and generation(m) == 0
        os.fsync(f)
        assert m.stored("f").read_bytes()[:87] != before and generation(m) == 1
