"""Other programs beside the mount: they change backing files, or share frames
by the reference library's locks."""

import contextlib
import errno
import fcntl
import mmap
import os
import random
import shutil
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from libdata import blob
from libfault import Fault
from libintent import made, patch
from libmount import SLOWNESS, wait_until
from libposix import error_of, read_direct, write_at
from libsharer import PAGE, Sharer, page, versions
from libstats import Moved

CHUNK = 64 << 10
SMALL = "chunksize=64K,blocksize=16K,entry_timeout=0.2,attr_timeout=0.2"
SOON = 30


def make_frame(blosc2, path, data, chunk=CHUNK):
    schunk = blosc2.SChunk(
        chunksize=chunk,
        urlpath=str(path),
        mode="w",
        contiguous=True,
        cparams={"typesize": 1, "nthreads": 1},
    )
    for at in range(0, len(data), chunk):
        schunk.append_data(data[at : at + chunk])


def append(blosc2, path, data):
    blosc2.open(str(path), mode="a").append_data(data)


def shows(path, data):
    """True when the mount shows this under a name, by size and by content."""
    return path.stat().st_size == len(data) and path.read_bytes() == data


@pytest.fixture
def pair(mount, blosc2):
    """A mount and a frame of the reference in it: 3 chunks."""
    m = mount(SMALL)
    data = blob(1, 3 * CHUNK, "text")
    make_frame(blosc2, m.stored("f"), data)
    return m, m.mnt / "f", data


@pytest.fixture
def reader(pair):
    """The file open for reading, all of it in the kernel's cache."""
    _, path, data = pair
    fd = os.open(path, os.O_RDONLY)
    assert os.pread(fd, len(data), 0) == data
    yield fd
    os.close(fd)


# ---- changes of others


@pytest.mark.parametrize("put", [os.rename, shutil.copyfile], ids=["replaced", "rewritten"])
def test_replaced_or_rewritten_in_place_while_closed(pair, blosc2, put):
    m, path, data = pair
    assert path.read_bytes() == data
    for seed, size in ((2, 3 * CHUNK), (3, CHUNK), (4, 5 * CHUNK)):
        new = blob(seed, size, "text")
        make_frame(blosc2, m.backing / "other", new)
        put(m.backing / "other", m.stored("f"))
        wait_until(lambda: shows(path, new), SOON, "the new content")


def aside(new, old):
    """The old file stays, under another name."""
    os.rename(old, old.with_name("aside"))
    os.rename(new, old)


@pytest.mark.parametrize("known", [os.stat, Path.read_bytes], ids=["looked up", "read"])
@pytest.mark.parametrize("put", [os.rename, aside], ids=["over", "aside"])
@pytest.mark.parametrize("change", [False, True], ids=["read", "write"])
def test_who_opens_a_replaced_file_gets_the_new_one(mount, blosc2, known, put, change):
    """Though the kernel believes in the old one for a minute."""
    m = mount("chunksize=64K,entry_timeout=60,attr_timeout=60")
    old, new = (blob(seed, CHUNK + seed, "text") for seed in (1, 2))
    make_frame(blosc2, m.stored("f"), old)
    make_frame(blosc2, m.backing / "other", new)
    known(m.mnt / "f")
    put(m.backing / "other", m.stored("f"))
    if change:
        with open(m.mnt / "f", "r+b") as f:
            f.write(b"begin")
        new = b"begin" + new[5:]
    assert (m.mnt / "f").read_bytes() == new
    m.unmount()
    assert blosc2.open(str(m.stored("f")))[:] == new


def test_replaced_while_open(pair, reader, blosc2):
    """As with any file: who has the old one open keeps it."""
    m, path, data = pair
    new = blob(2, 2 * CHUNK, "text")
    make_frame(blosc2, m.backing / "other", new)
    os.rename(m.backing / "other", m.stored("f"))
    wait_until(lambda: shows(path, new), SOON, "the new file")
    assert os.pread(reader, len(data) + 1, 0) == data


def test_writers_of_a_replaced_file(mount, blosc2):
    """Who has the old one open goes on with that, which has no name any more, or is told; what goes
    to the new one stays there."""
    for options in ("", "entry_timeout=60,attr_timeout=60", "intent=0,commit=0.05"):
        m = mount(",".join(filter(None, ("chunksize=64K", options))))
        for turn in range(6):
            name = f"f{turn}"
            path, stored = m.mnt / name, m.stored(name)
            old, new = (blob(seed, 3 * CHUNK + seed, "text") for seed in (1, 2))
            path.write_bytes(old)
            fd = os.open(path, os.O_RDWR)
            if turn % 2:
                os.pwrite(fd, b"before", 10)
            if turn % 3 == 0:
                os.fsync(fd)
            make_frame(blosc2, m.backing / "other", new)
            os.rename(m.backing / "other", stored)
            written = error_of(os.pwrite, fd, b"to the old one", CHUNK)
            synced = error_of(os.fsync, fd) if turn < 4 else None
            with open(path, "r+b") as f:
                assert f.read() == new, (options, turn)
                f.seek(100)
                f.write(b"to the new one")
                f.flush()
                os.fsync(f.fileno())
                wrote = error_of(os.pwrite, fd, b"once more to the old one", 2 * CHUNK)
            assert {written, synced, wrote} <= {None, "ESTALE"}, (options, turn)
            expect = new[:100] + b"to the new one" + new[114:]
            seen = bytearray(old)
            if turn % 2:
                seen[10:16] = b"before"
            if not written:
                seen[CHUNK : CHUNK + 14] = b"to the old one"
            if not wrote:
                seen[2 * CHUNK : 2 * CHUNK + 24] = b"once more to the old one"
            got = os.pread(fd, len(old) + 1, 0)
            assert got == seen, (options, turn)
            assert error_of(os.close, fd) in (None, "ESTALE")
            assert path.read_bytes() == expect, (options, turn)
        m.unmount()
        for turn in range(6):
            got = blosc2.open(str(m.stored(f"f{turn}")))[:]
            assert got == expect, (options, turn)


def test_appended_while_open(pair, reader, blosc2):
    m, path, data = pair
    for seed in range(2, 5):
        more = blob(seed, CHUNK, "text")
        append(blosc2, m.stored("f"), more)
        data += more
        wait_until(lambda: shows(path, data), SOON, "the longer file")
        wait_until(
            lambda: path.stat() and os.fstat(reader).st_size == len(data),
            SOON,
            "the size of the open file",
        )
        assert os.pread(reader, len(data) + 1, 0) == data


def test_appended_by_less_than_a_page(pair, reader, blosc2):
    m, path, data = pair
    new = data + b"tail"
    make_frame(blosc2, m.backing / "other", new)
    shutil.copyfile(m.backing / "other", m.stored("f"))
    wait_until(
        lambda: path.stat() and os.fstat(reader).st_size == len(new),
        SOON,
        "the size of the open file",
    )
    assert os.pread(reader, len(new) + 1, 0) == new
    wait_until(lambda: shows(path, new), SOON, "the longer file")


def test_changed_while_open_for_reading(pair, reader, blosc2):
    """The same length: what the kernel has cached is no more believed."""
    m, path, data = pair
    new = blob(2, 3 * CHUNK, "text")
    schunk = blosc2.open(str(m.stored("f")), mode="a")
    for n in range(3):
        schunk.update_data(n, new[n * CHUNK : (n + 1) * CHUNK], copy=True)
    wait_until(lambda: shows(path, new), SOON, "the new content")
    wait_until(
        lambda: os.pread(reader, len(new), 0) == new, SOON, "the new content of the open file"
    )


def test_changed_while_open_for_writing_but_clean(pair, blosc2):
    m, path, data = pair
    new = blob(2, 3 * CHUNK, "text")
    fd = os.open(path, os.O_RDWR)
    assert os.pread(fd, len(data), 0) == data
    schunk = blosc2.open(str(m.stored("f")), mode="a")
    for n in range(3):
        schunk.update_data(n, new[n * CHUNK : (n + 1) * CHUNK], copy=True)
    schunk.append_data(b"x" * CHUNK)
    new += b"x" * CHUNK
    wait_until(lambda: path.stat() and os.fstat(fd).st_size == len(new), SOON, "the size")
    wait_until(lambda: os.pread(fd, len(new), 0) == new, SOON, "the new content")
    os.pwrite(fd, b"ours", 5)
    os.close(fd)
    new = new[:5] + b"ours" + new[9:]
    assert path.read_bytes() == new
    m.remount()
    assert path.read_bytes() == new


def test_cut_while_open_for_reading(pair, reader, blosc2):
    """The name shows what is there. The old descriptor never shows bytes of neither version."""
    m, path, data = pair
    new = blob(2, CHUNK, "text")
    make_frame(blosc2, m.backing / "other", new)
    os.truncate(m.stored("f"), 0)
    shutil.copyfile(m.backing / "other", m.stored("f"))
    m.allow("f.b2frame: ")
    wait_until(lambda: shows(path, new), SOON, "the shorter file")
    with contextlib.suppress(OSError):
        assert os.pread(reader, CHUNK, 0) in (new, data[:CHUNK])
    os.chmod(path, 0o600)
    write_at(path, 0, b"ours")
    assert path.read_bytes() == b"ours" + new[4:]


def test_a_new_mode_is_no_new_content(mount):
    m = mount(f"{SMALL},commit=0")
    data = blob(3, 4 * CHUNK, "text")
    (m.mnt / "f").write_bytes(data)
    fd = os.open(m.mnt / "f", os.O_RDONLY | os.O_DIRECT)
    room = mmap.mmap(-1, PAGE)
    os.preadv(fd, [room], 0)
    os.chmod(m.stored("f"), 0o600)
    os.link(m.stored("f"), m.backing / "g.b2frame")
    os.chmod(m.mnt / "f", 0o640)
    os.chown(m.mnt / "f", os.getuid(), os.getgid())
    os.setxattr(m.mnt / "f", "user.note", b"x")
    os.close(os.open(m.mnt / "f", os.O_RDONLY))
    with Moved(m) as moved:
        os.preadv(fd, [room], 0)
    os.close(fd)
    assert room[:] == data[:PAGE]
    assert moved("read", "decoded_blocks") == 0


def test_in_doubt_for_its_time_alone(mount):
    """What is as young as the clock is looked at once more; if it is the same it stays decoded."""
    m = mount(f"{SMALL},attr_timeout=0,entry_timeout=0")
    data = blob(91, 4 * CHUNK, "text")
    (m.mnt / "f").write_bytes(data)
    m.unmount()
    ahead = time.time_ns() + 3600 * 10**9  # stands for: just now
    os.utime(m.stored("f"), ns=(ahead, ahead))
    m.start()
    fd = os.open(m.mnt / "f", os.O_RDONLY | os.O_DIRECT)
    room = mmap.mmap(-1, PAGE)
    os.preadv(fd, [room], 0)
    number = os.fstat(fd).st_ino
    with Moved(m) as moved:
        time.sleep(0.1)
        for _ in range(3):
            assert os.stat(m.mnt / "f").st_ino == number
            os.preadv(fd, [room], 0)
    os.close(fd)
    assert room[:] == data[:PAGE]
    assert moved("read", "decoded_blocks") == 0


def test_changed_and_opened_before_it_is_looked_up(mount, blosc2):
    """The kernel goes on with its own size then, until the next lookup."""
    m = mount("chunksize=64K,blocksize=16K,entry_timeout=1,attr_timeout=1")
    data, more = blob(1, 2 * CHUNK, "text"), blob(2, CHUNK, "text")
    (m.mnt / "f").write_bytes(data)
    m.remount()
    assert (m.mnt / "f").read_bytes() == data
    append(blosc2, m.stored("f"), more)
    (m.mnt / "f").read_bytes()
    wait_until(lambda: (m.mnt / "f").read_bytes() == data + more, SOON, "the bytes of another")


def test_in_doubt_once_while_closed(mount):
    """A time that lies ahead does not make another file of it at each look."""
    m = mount(f"{SMALL},attr_timeout=0,entry_timeout=0")
    (m.mnt / "f").write_bytes(blob(92, 2 * CHUNK, "text"))
    m.unmount()
    os.utime(m.stored("f"), (4e9, 4e9))
    m.start()
    for _ in range(4):
        time.sleep(0.1)
        with Moved(m) as moved:
            assert read_direct(m.mnt / "f", PAGE)
    assert moved("read", "decoded_blocks") == 0


@pytest.mark.parametrize("contiguous", [True, False], ids=["frame", "sparse"])
def test_appended_while_nobody_ever_opened_it(mount, blosc2, contiguous):
    """What the kernel was told first of a file it goes on to believe."""
    m = mount("entry_timeout=0,attr_timeout=0")
    stored, size = str(m.stored("f")), CHUNK
    schunk = blosc2.SChunk(
        chunksize=CHUNK, urlpath=stored, mode="w", contiguous=contiguous, cparams={"typesize": 1}
    )
    schunk.append_data(bytes(CHUNK))
    assert (m.mnt / "f").stat().st_size == size
    for seed in range(3):
        append(blosc2, stored, blob(seed, CHUNK, "text"))
        size += CHUNK
        wait_until(lambda: (m.mnt / "f").stat().st_size == size, SOON, "the longer file")


@pytest.mark.parametrize("looks", [1, 4])
def test_changed_twice_in_one_step_of_the_clock(mount, blosc2, looks):
    """In between it is no frame, and size and time are those that it has in the end. However often
    it is looked at meanwhile."""
    m = mount("entry_timeout=0,attr_timeout=0").allow("f.b2frame: ")
    path, stored = m.mnt / "f", m.stored("f")
    old, new = blob(1, 2 * CHUNK, "noise"), blob(2, 3 * CHUNK, "noise")
    make_frame(blosc2, m.backing / "other", new)
    frame = (m.backing / "other").read_bytes()
    make_frame(blosc2, stored, old)
    fd = os.open(path, os.O_RDONLY)
    assert os.pread(fd, len(old), 0) == old
    stamp = time.time_ns() + 10**12  # fresh, however long this takes

    def put(content):
        with open(stored, "r+b") as f:
            f.write(content)
            f.truncate()
        os.utime(stored, ns=(stamp, stamp))

    put(b"\0" * 87 + frame[87:])
    with contextlib.suppress(FileNotFoundError):  # until then it is shown under its own name
        assert path.stat().st_size in (len(old), len(new))
    for _ in range(looks):
        os.fstat(fd)
        time.sleep(0.1 * (looks > 1))
    put(frame)
    wait_until(lambda: path.exists() and shows(path, new), SOON, "what came in the same step")
    wait_until(
        lambda: os.fstat(fd).st_size == len(new) and os.pread(fd, len(new), 0) == new,
        SOON,
        "the same of the open file",
    )
    os.close(fd)


def test_changed_right_before_an_fsync(mount, blosc2):
    """Of a handle that has nothing to sync. What it finds on the disk is not its own."""
    m = mount("entry_timeout=0,attr_timeout=0,intent=0,commit=0")
    path, stored, data = m.mnt / "f", m.stored("f"), blob(1, 3 * CHUNK, "text")
    make_frame(blosc2, stored, data)
    fd = os.open(path, os.O_RDWR)
    assert os.pread(fd, len(data), 0) == data
    more = blob(2, CHUNK, "text")
    append(blosc2, stored, more)
    os.fsync(fd)
    wait_until(lambda: os.fstat(fd).st_size == len(data + more), SOON, "the size of the open file")
    assert os.pread(fd, len(data + more), 0) == data + more
    os.close(fd)
    assert path.read_bytes() == data + more


@pytest.mark.parametrize("opened", [False, True], ids=["closed", "open"])
def test_changed_right_before_its_times_are_set(mount, blosc2, opened):
    """The new content is as long as the old one, also as it is stored."""
    m = mount("entry_timeout=0,attr_timeout=0")
    path, stored = m.mnt / "f", m.stored("f")
    old, new = blob(1, 3 * CHUNK, "noise"), blob(2, 3 * CHUNK, "noise")
    make_frame(blosc2, stored, old)
    make_frame(blosc2, m.backing / "other", new)
    os.utime(stored, (1_000_000, 1_000_000))
    assert path.read_bytes() == old
    fd = os.open(path, os.O_RDONLY) if opened else None
    assert fd is None or os.pread(fd, len(old), 0) == old
    with open(path, "rb") as names_it:  # no lookup comes before the times are set
        shutil.copyfile(m.backing / "other", stored)
        assert stored.stat().st_size == (m.backing / "other").stat().st_size
        os.utime(names_it.fileno(), (2_000_000, 2_000_000))
    wait_until(lambda: shows(path, new), SOON, "the new content")
    if opened:
        wait_until(
            lambda: os.fstat(fd) and os.pread(fd, len(new), 0) == new,
            SOON,
            "the same of the open file",
        )
        os.close(fd)


def test_plain_files_change_too(mount):
    m = mount(SMALL)
    path, stored = m.mnt / "plain", m.backing / "plain"
    stored.write_bytes(b"one")
    assert shows(path, b"one")
    fd = os.open(path, os.O_RDONLY)
    for data in (b"one and two", b"x", b"y" * 100_000):
        stored.write_bytes(data)
        wait_until(lambda: shows(path, data), SOON, "the new content")
    os.close(fd)
    write_at(path, 3, b"ours")
    assert stored.read_bytes()[:10] == b"yyyoursyyy"
    inode = path.stat().st_ino
    assert shows(path, b"yyyours" + b"y" * 99_993) and path.stat().st_ino == inode


def descriptors(m):
    """The files that the daemon has open."""
    there = Path(f"/proc/{m.proc.pid}/fd")
    found = []
    for fd in os.listdir(there):
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            found.append(Path(os.readlink(there / fd)))
    return found


def test_a_number_that_is_given_away(mount):
    """A file removed on the backing side; another, with a hole of another
    length, gets its number, size and time."""
    m = mount("entry_timeout=0,attr_timeout=0")
    for name, size in (("f", 5000), ("longer", 7000)):
        (m.mnt / name).touch()
        os.truncate(m.mnt / name, size)
    os.sync()
    assert (m.mnt / "f").read_bytes() == bytes(5000)
    wait_until(
        lambda: m.stored("f") not in descriptors(m), SOON
    )  # an open one would keep its number
    old, longer = m.stored("f").stat(), m.stored("longer").read_bytes()
    assert old.st_size == len(longer)
    m.stored("f").unlink()
    for n in range(100):
        m.stored(f"g{n}").write_bytes(longer)
        if m.stored(f"g{n}").stat().st_ino == old.st_ino:
            break
    else:
        pytest.skip("this file system does not give a number away so soon")
    os.utime(m.stored(f"g{n}"), ns=(old.st_atime_ns, old.st_mtime_ns))
    assert shows(m.mnt / f"g{n}", bytes(7000))


def test_entries_come_and_go(pair, blosc2):
    m, path, data = pair
    assert not (m.mnt / "new").exists() and not (m.mnt / "d").exists()
    make_frame(blosc2, m.stored("new"), data)
    (m.backing / "d").mkdir()
    wait_until(lambda: (m.mnt / "new").exists() and (m.mnt / "d").is_dir(), SOON, "new entries")
    assert (m.mnt / "new").read_bytes() == data
    assert sorted(os.listdir(m.mnt)) == ["d", "f", "new"]
    os.unlink(m.stored("new"))
    os.rmdir(m.backing / "d")
    wait_until(
        lambda: not (m.mnt / "new").exists() and not (m.mnt / "d").exists(), SOON, "entries gone"
    )
    os.rename(m.stored("f"), m.stored("g"))
    wait_until(lambda: (m.mnt / "g").exists() and not path.exists(), SOON, "another name")
    assert (m.mnt / "g").read_bytes() == data


@pytest.fixture
def faulty(mount, work):
    """As `pair`, with a daemon whose backing calls can be made to fail."""
    m = mount(f"{SMALL},commit=0,intent=0", start=False).allow("f.b2frame: ", "f: ")
    fault = Fault(m, work / "fault")
    m.start()
    data = blob(1, 3 * CHUNK - 5000, "text")
    (m.mnt / "f").write_bytes(data)
    return m, m.mnt / "f", data, fault


def test_changed_after_writes_were_given_up(faulty, blosc2):
    m, path, data, fault = faulty
    kept = os.open(path, os.O_PATH)  # or the kernel may forget it all the same
    fd = os.open(path, os.O_RDWR)
    os.pwrite(fd, b"ours", 5)
    fault.set(1, Fault.WRITE, errno.EIO, forever=1)
    assert error_of(os.close, fd) == "EIO"
    m.expect_log("closed with unwritten data")
    fault.set(0)
    wait_until(lambda: read_direct(path, len(data)) == data, SOON, "the file as it was committed")
    for seed in (2, 3):
        new = blob(seed, 2 * CHUNK, "text")
        make_frame(blosc2, m.backing / "other", new)
        shutil.copyfile(m.backing / "other", m.stored("f"))
        wait_until(
            lambda: path.stat().st_mtime_ns == m.stored("f").stat().st_mtime_ns, 2, "the new time"
        )
        assert shows(path, new)
    os.close(kept)


def test_changed_after_the_kernel_could_not_write(faulty, blosc2):
    """Nothing of a write is there, and the file is still open for more."""
    m, path, data, fault = faulty
    m.remount()
    fd = os.open(path, os.O_RDWR)
    fault.set(1, Fault.READ, errno.EIO, forever=1)
    os.pwrite(fd, b"x", 3 * CHUNK + 5000)  # the last chunk has to be read for that
    assert error_of(os.fsync, fd) == "EIO"
    fault.set(0)
    new = blob(2, len(data), "text")
    make_frame(blosc2, m.backing / "other", new)
    shutil.copyfile(m.backing / "other", m.stored("f"))
    wait_until(lambda: read_direct(path, len(new))[: len(new)] == new, SOON, "the new content")
    os.close(fd)


# ---- locks of the reference library


def generation(m, name="f"):
    return int.from_bytes((m.backing / f"{name}.b2frame.b2lock").read_bytes()[8:16], "little")


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


def later(call):
    """A call in a thread of its own: (thread, what it returned, in a list)."""
    result = []
    thread = threading.Thread(target=lambda: result.append(call()))
    thread.start()
    return thread, result


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
        with mmap.mmap(-1, CHUNK) as room:
            room[:] = blob(3, CHUNK, "noise")
            os.pwrite(held, room, 31 * CHUNK)  # memory was not quite full
            thread, done = later(lambda: error_of(os.pwrite, held, room, 32 * CHUNK))
            time.sleep(0.5)
            assert not done
            let_go()
            thread.join(60)
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
        with mmap.mmap(-1, CHUNK) as room:
            room[:] = blob(4, CHUNK, "noise")
            os.pwrite(held, room, 31 * CHUNK)  # memory was not quite full
            thread, done = later(lambda: error_of(os.pwrite, held, room, 32 * CHUNK))
            time.sleep(0.5)
            assert not done and m.kill()
            thread.join(60)
        assert done != [None]
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
        thread.join(3 * SLOWNESS)
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
            thread.join(5)
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
            assert not killed or m.kill()
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
    m.allow("f.b2frame: ")
    assert error_of(os.fsync, fd) in ("ESTALE", "EIO")
    error_of(os.close, fd)
    assert stored_bytes(blosc2, m.stored("f")) == theirs


def stored_bytes(blosc2, path):
    schunk = blosc2.open(str(path))
    return b"".join(schunk.decompress_chunk(n) for n in range(schunk.nchunks))


def put_frame(path, frame):
    """As a program does that takes part in locking, and writes a frame all over another."""
    lock, fd = os.open(f"{path}.b2lock", os.O_RDWR | os.O_CREAT), os.open(path, os.O_WRONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    generation = int.from_bytes(os.pread(lock, 8, 8), sys.byteorder)
    os.pwrite(lock, (generation + 1).to_bytes(8, sys.byteorder), 8)
    os.pwrite(fd, frame, 0)
    os.ftruncate(fd, len(frame))
    os.close(fd)
    os.close(lock)


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


def test_opening_a_file_whose_lock_is_removed_while_a_chunk_is_copied_to_it(mount, work):
    """Both have to do with the lock file and with the inode: one after the other."""
    m = mount(
        "chunksize=64K,blocksize=16K,commit=0,intent=0,entry_timeout=60,attr_timeout=60",
        start=False,
    )
    fault = Fault(m, work / "fault")
    m.start()
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


@pytest.mark.parametrize("maker", ["mount", "library"])
def test_a_chunk_replaced_by_one_of_the_same_size(mount, blosc2, codec_tool, maker):
    """The frame keeps all its lengths. Of a root of the library nothing tells;
    then nothing of it is lost either."""
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
    assert error_of(os.fsync, fd) == ("ESTALE" if maker == "mount" else None)
    assert error_of(os.close, fd) == ("ESTALE" if maker == "mount" else None)
    wanted = (data if maker == "mount" else ours)[:PAGE] + data[PAGE:CHUNK] + theirs[CHUNK:]
    stored = blosc2.open(str(m.stored("f")))
    assert b"".join(stored.decompress_chunk(n) for n in range(2)) == wanted
    wait_until(lambda: (m.mnt / "f").read_bytes() == wanted, SOON, "what is stored")


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
    os.rename(m.mnt / "c", m.mnt / ("n" * 247))  # no room for a sidecar's name
    assert os.listdir(m.mnt) == ["n" * 247]
