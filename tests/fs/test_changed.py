"""Other programs change backing files under the mount: when that is shown, and what becomes of
files that are open."""

import contextlib
import ctypes
import errno
import fcntl
import io
import mmap
import os
import shutil
import stat
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path
from threading import Barrier

import pytest

from libdata import blob
from libfault import Fault
from libmount import wait_until
from libposix import error_of, read_direct, write_at
from libshare import CHUNK, SOON, append, make_frame
from libsharer import PAGE
from libstats import Moved

SMALL = "chunksize=64K,blocksize=16K,entry_timeout=0.2,attr_timeout=0.2"


def shows(path, data):
    """True when the mount shows this under a name, by size and by content."""
    return path.stat().st_size == len(data) and path.read_bytes() == data


def reads(fd, data):
    """True when an open file shows this, whatever length it had before."""
    os.fstat(fd)
    return os.pread(fd, len(data), 0) == data


def npy_bytes(array):
    import numpy as np

    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


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


def test_a_log_that_other_programs_change_between_two_lines(mount, blosc2):
    """What was stored for the line before is not what the next one comes behind."""
    m = mount("commit=1000,entry_timeout=0,attr_timeout=0")
    path, data = m.mnt / "log", blob(6, 20_000, "text")
    path.write_bytes(data)
    for n in range(24):
        with open(path, "ab", buffering=0) as f:
            f.write(b"line %d\n" % n)
        data += b"line %d\n" % n
        if n % 3 == 0:
            shutil.copyfile(m.stored("log"), m.backing / "before.bin")
            before = data
        elif n % 6 == 2:
            shutil.copyfile(m.backing / "before.bin", m.stored("log"))
            data = before
        elif n % 6 == 5:
            data = data[:100] + b"%010d" % n + data[110:]
            schunk = blosc2.open(str(m.stored("log")), mode="a")
            schunk.update_data(0, data, copy=True)
    assert path.read_bytes() == data
    m.remount()
    assert path.read_bytes() == data


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


def open_writable(path):
    return open(path, "r+b", buffering=0)


@pytest.mark.parametrize(
    "known", [os.stat, Path.read_bytes, open_writable], ids=["looked up", "read", "open"]
)
@pytest.mark.parametrize("put", [os.rename, aside], ids=["over", "aside"])
@pytest.mark.parametrize("change", ["read", "write", "cut"])
def test_who_opens_a_replaced_file_gets_the_new_one(mount, blosc2, known, put, change):
    """Though the kernel believes in the old one for a minute."""
    m = mount("chunksize=64K,entry_timeout=60,attr_timeout=60")
    old, new = (blob(seed, CHUNK + seed, "text") for seed in (1, 2))
    make_frame(blosc2, m.stored("f"), old)
    make_frame(blosc2, m.backing / "other", new)
    was = known(m.mnt / "f")
    put(m.backing / "other", m.stored("f"))
    if change == "write":
        with open(m.mnt / "f", "r+b") as f:
            f.write(b"begin")
        new = b"begin" + new[5:]
    elif change == "cut":
        os.truncate(m.mnt / "f", 100)
        new = new[:100]
    assert (m.mnt / "f").read_bytes() == new
    if known is open_writable:
        was.close()
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


def grown(blosc2, stored, data):
    more = blob(7, CHUNK, "text")
    append(blosc2, stored, more)
    return data + more


def cut(blosc2, stored, data):
    schunk = blosc2.open(str(stored), mode="a")
    schunk.delete_chunk(schunk.nchunks - 1)
    return data[:-CHUNK]


@pytest.mark.parametrize("reads", [True, False], ids=["read", "append"])
@pytest.mark.parametrize("change", [grown, cut])
def test_who_opens_a_changed_file_gets_its_length(mount, blosc2, change, reads):
    """Though the kernel believes in the old one for a minute: neither zeros at the end, nor what is
    appended in the place of what another program has appended."""
    m = mount("chunksize=64K,blocksize=16K,entry_timeout=60,attr_timeout=60")
    path, data = m.mnt / "f", blob(1, 5 * CHUNK, "text")
    path.write_bytes(data)
    m.remount()
    assert path.read_bytes() == data
    for _ in range(3):
        data = change(blosc2, m.stored("f"), data)
        if not reads:
            with open(path, "ab") as f:
                f.write(b"line" * (CHUNK // 4))
            data += b"line" * (CHUNK // 4)
        assert path.read_bytes() == data


@pytest.mark.parametrize("reads", [True, False], ids=["read", "append"])
@pytest.mark.parametrize("data", [b"first\nsecond\n", b"fi\n"], ids=["grown", "cut"])
def test_who_opens_a_changed_plain_file_gets_its_length(mount, data, reads):
    m = mount("entry_timeout=60,attr_timeout=60")
    path, stored = m.mnt / "f", m.backing / "f"
    stored.write_bytes(b"first\n")
    assert path.read_bytes() == b"first\n"
    stored.write_bytes(data)
    if not reads:
        with open(path, "ab") as f:
            f.write(b"third\n")
        data += b"third\n"
    assert path.read_bytes() == stored.read_bytes() == data


def test_who_opens_a_changed_array_gets_its_shape(mount, blosc2):
    import numpy as np

    m = mount("entry_timeout=60,attr_timeout=60")
    array = blosc2.zeros((1, 1000), dtype="i4", urlpath=str(m.backing / "a.b2nd"), mode="w")
    for rows in range(2, 6):
        assert len(np.load(m.mnt / "a.npy")) == rows - 1
        array.resize((rows, 1000))


def test_opened_by_many_while_it_is_changed_all_the_time(mount, blosc2, monkeypatch):
    """The kernel asks only once more, and who comes back is not refused again. It may have been
    refused attributes before, though, on its way to the open: that is rare."""
    monkeypatch.setenv("BLOSC_LOCKING", "1")
    m = mount("chunksize=64K,entry_timeout=60,attr_timeout=60")
    make_frame(blosc2, m.stored("f"), bytes(4096), 4096)
    schunk, stop = blosc2.open(str(m.stored("f")), mode="a"), time.monotonic() + 3

    def opens():
        said = []
        while time.monotonic() < stop:
            said.append(error_of(lambda: os.close(os.open(m.mnt / "f", os.O_RDONLY))))
        return said

    with ThreadPoolExecutor(4) as pool:
        done = [pool.submit(opens) for _ in range(4)]
        while time.monotonic() < stop:
            schunk.append_data(bytes(4096))
        said = [error for each in done for error in each.result()]
    assert set(said) <= {None, "ESTALE"} and said.count("ESTALE") * 10 <= len(said)
    assert (m.mnt / "f").read_bytes() == bytes(schunk.nbytes)


def test_many_open_a_changed_file_at_once(mount, blosc2):
    """Each of them is refused once, and none twice; and none goes on because others are about to
    open the file, too."""
    m = mount("chunksize=64K,entry_timeout=60,attr_timeout=60")
    theirs = blob(1, CHUNK, "text")
    together = Barrier(4)

    def opens(path, writes):
        together.wait(SOON)
        if writes:
            with open(path, "ab") as f:
                f.write(bytes(100))
        else:
            assert path.read_bytes()[: len(theirs)] == theirs

    with ThreadPoolExecutor(4) as pool:
        for k in range(30):
            path = m.mnt / f"f{k}"
            make_frame(blosc2, m.stored(path.name), theirs[:3000])
            assert path.read_bytes() == theirs[:3000]
            make_frame(blosc2, m.stored("new"), theirs)
            m.stored(path.name).write_bytes(m.stored("new").read_bytes())
            for done in [pool.submit(opens, path, i % 2 == 0) for i in range(4)]:
                done.result()
            assert path.read_bytes() == theirs + bytes(200)


def test_a_changed_file_is_opened_without_its_name(mount, blosc2):
    """By a descriptor: the kernel has no name to look up."""
    m = mount("chunksize=64K,entry_timeout=60,attr_timeout=60")
    path, data = m.mnt / "f", blob(1, CHUNK, "text")
    make_frame(blosc2, m.stored("f"), data)
    assert path.read_bytes() == data
    fd = os.open(path, os.O_PATH)
    append(blosc2, m.stored("f"), data)
    assert Path(f"/proc/self/fd/{fd}").read_bytes() == data
    os.close(fd)
    assert path.read_bytes() == data + data


def test_an_older_frame_is_put_back_under_a_known_name(mount):
    """Behind it the file may have a newer root, which recovery would prefer, though the mount has
    written the root of before itself: so the next one is synced before its header is written."""
    m = mount("commit=1000,intent=0,entry_timeout=1000,attr_timeout=1000")
    (m.mnt / "f").write_bytes(blob(1, 100_000, "noise"))
    older = m.stored("f").read_bytes()
    write_at(m.mnt / "f", 50_000, b"newer")
    with open(m.stored("f"), "r+b") as f:
        f.write(older)
    with open(m.mnt / "f", "r+b", buffering=0) as f:
        os.fsync(f.fileno())
        with Moved(m) as moved:
            f.write(b"newest")
            os.close(os.dup(f.fileno()))
    assert moved("write", "commits") == moved("write", "disk_syncs") == 1


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


def test_in_doubt_and_linked(mount):
    """What is as young as the clock, and still the same, is the same file by all of its names."""
    m = mount("entry_timeout=1000,attr_timeout=1000")
    (m.mnt / "f").write_bytes(blob(93, 2 * CHUNK, "text"))
    m.unmount()
    os.utime(m.stored("f"), (4e9, 4e9))
    m.start()
    one, other = m.mnt / "f", m.mnt / "g"
    assert one.stat().st_nlink == 1
    time.sleep(0.1)
    os.link(one, other)
    assert (one.stat().st_nlink, other.stat().st_nlink) == (2, 2)
    other.chmod(0o600)
    assert one.stat().st_mode == other.stat().st_mode


@pytest.mark.parametrize("opened", [False, True], ids=["looked up", "opened first"])
@pytest.mark.parametrize("sizes", [(5000, 7000), (7000, 5000)], ids=["longer", "shorter"])
def test_another_length_in_the_same_step(mount, sizes, opened):
    """Size and time of the backing file are what they were: a hole of another length."""
    m = mount("entry_timeout=1,attr_timeout=1")
    for name, size in zip(("f", "other"), sizes, strict=True):
        (m.mnt / name).touch()
        os.truncate(m.mnt / name, size)
    m.unmount()
    os.utime(m.stored("f"), (4e9, 4e9))
    other = m.stored("other").read_bytes()
    assert m.stored("f").stat().st_size == len(other)
    m.start()
    path = m.mnt / "f"
    assert path.stat().st_size == sizes[0]
    m.stored("f").write_bytes(other)
    os.utime(m.stored("f"), (4e9, 4e9))
    time.sleep(0.1)
    if opened:  # by the name that the kernel still has
        path.read_bytes()
    wait_until(lambda: shows(path, bytes(sizes[1])), SOON, "the other length")


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


def put_zeros(schunk, data):
    """A hole: in no file of its own."""
    schunk.append_data(bytes(CHUNK))
    return data + bytes(CHUNK)


def put_chunk(schunk, data):
    new = blob(9, CHUNK, "text")
    schunk.update_data(1, new, copy=True)
    return data[:CHUNK] + new + data[2 * CHUNK :]


@pytest.mark.parametrize("change", [put_zeros, put_chunk])
@pytest.mark.parametrize("opened", [False, True], ids=["closed", "open"])
def test_a_sparse_frame_whose_directory_does_not_change(mount, blosc2, change, opened):
    """Only its index does. Programs that copy what is newer, or of another length, find it."""
    m = mount("entry_timeout=0,attr_timeout=0")
    stored, path, data = m.stored("f"), m.mnt / "f", blob(1, 3 * CHUNK, "text")
    blosc2.SChunk(
        chunksize=CHUNK, data=data, urlpath=str(stored), contiguous=False, cparams={"typesize": 1}
    )
    past = time.time_ns() - 10**12
    for each in (*stored.iterdir(), stored):
        os.utime(each, ns=(past, past))
    assert shows(path, data) and path.stat().st_mtime_ns == past
    with open(path, "rb") if opened else contextlib.nullcontext():
        data = change(blosc2.open(str(stored), mode="a"), data)
        assert stored.stat().st_mtime_ns == past, "else this shows nothing"
        wait_until(lambda: shows(path, data), SOON, "the new content")
        assert path.stat().st_mtime_ns > past
    for entry in os.scandir(m.mnt):
        assert entry.stat().st_mtime_ns == (stored / "chunks.b2frame").stat().st_mtime_ns


@pytest.mark.parametrize("locked", [False, True], ids=["unlocked", "locked"])
def test_who_has_an_array_open_sees_its_new_items_and_shape(mount, blosc2, locked):
    """As with other frames: what it was opened as is not there any more."""
    import numpy as np

    m = mount("entry_timeout=0.2,attr_timeout=0.2")
    stored, path = str(m.backing / "a.b2nd"), m.mnt / "a.npy"
    blosc2.asarray(np.arange(300_000.0).reshape(-1, 100), urlpath=stored)
    with open(path, "rb", buffering=0) as f:
        assert f.read(200_000) == path.read_bytes()[:200_000]
        for rows in (3000, 3000, 5000, 2000, 2000):
            other = blosc2.open(stored, mode="a", locking=locked)
            other.resize((rows, 100))
            other[:] = new = np.random.default_rng(rows).standard_normal((rows, 100))
            del other
            want = npy_bytes(new)
            wait_until(partial(shows, path, want), SOON, "the new array by its name")
            wait_until(partial(reads, f.fileno(), want), SOON, "the new array where it is open")


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
    with open(path) as first:
        fcntl.flock(first, fcntl.LOCK_EX)
        write_at(path, 3, b"ours")
        assert stored.read_bytes()[:10] == b"yyyoursyyy"
        assert shows(path, b"yyyours" + b"y" * 99_993)
        time.sleep(0.3)
        with open(path) as second:  # what we have written is no reason for another inode
            assert error_of(fcntl.flock, second, fcntl.LOCK_EX | fcntl.LOCK_NB) == "EAGAIN"


def test_a_file_that_stays_open_while_it_is_changed_twice(mount):
    """After the first change its name leads to another inode, so that only its reader is left to
    notice the second one."""
    m = mount("entry_timeout=0,attr_timeout=0")
    size = 64 << 10
    for n, name in enumerate("fgh"):
        (m.mnt / name).write_bytes(blob(n, size, "noise"))
    fd = os.open(m.mnt / "f", os.O_RDONLY | os.O_DIRECT)
    room = mmap.mmap(-1, size)
    for n, name in enumerate("gh", 1):
        m.stored("f").write_bytes(m.stored(name).read_bytes())
        os.stat(m.mnt / "f")
        assert os.preadv(fd, [room], 0) == size and room[:] == blob(n, size, "noise")
    os.close(fd)


def test_another_content_with_the_size_and_time_of_before(mount):
    """As by touch -r: what was decoded before it was closed is not taken for it."""
    m = mount("entry_timeout=0,attr_timeout=0")
    old, new = (blob(n, 100_000, "noise") for n in range(2))
    (m.mnt / "f").write_bytes(old)
    (m.mnt / "g").write_bytes(new)
    assert (m.mnt / "f").read_bytes() == old
    stored = m.stored("f")
    was = stored.stat()
    stored.write_bytes(m.stored("g").read_bytes())
    os.utime(stored, ns=(was.st_atime_ns, was.st_mtime_ns))
    assert (stored.stat().st_size, stored.stat().st_mtime_ns) == (was.st_size, was.st_mtime_ns)
    assert read_direct(m.mnt / "f", len(new)) == (m.mnt / "f").read_bytes() == new


@pytest.mark.concurrent
@pytest.mark.parametrize("kind", ["frame", "plain"])
@pytest.mark.parametrize(
    "change",
    [
        os.utime,
        lambda path: os.truncate(path, 5),
        lambda path: os.close(os.open(path, os.O_WRONLY | os.O_TRUNC)),
    ],
    ids=["times", "length", "O_TRUNC"],
)
def test_what_changes_a_file_here_is_no_other_program(mount, kind, change):
    """However often its name is looked up just then: to who has it open, and has a lock on it, it
    would be another file afterwards."""
    m = mount("entry_timeout=0,attr_timeout=0")
    path = (m.backing if kind == "plain" else m.mnt) / "f"
    path.write_bytes(b"content")
    path = m.mnt / "f"
    end = time.monotonic() + 2

    def go_on(call):
        while time.monotonic() < end:
            call(path)

    with open(path) as first:
        fcntl.flock(first, fcntl.LOCK_EX)
        with ThreadPoolExecutor() as pool:
            for done in [pool.submit(go_on, call) for call in (change, os.stat, os.stat)]:
                done.result()
        with open(path) as second:
            assert error_of(fcntl.flock, second, fcntl.LOCK_EX | fcntl.LOCK_NB) == "EAGAIN"


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


def few_descriptors(m):
    """From now on the daemon keeps none of a file that was only looked up."""
    for k in range(100):
        (m.backing / f"other{k}.txt").touch()
    os.listdir(m.mnt)
    for k in range(100):
        (m.mnt / f"other{k}.txt").stat()


@pytest.mark.parametrize("what", ["fifo", "link"])
def test_a_number_that_is_given_to_no_file(mount, tool, what):
    """Who opened the file then had the daemon wait for a writer of the fifo, for ever: it did not
    even end with its mount."""
    m = mount("entry_timeout=600,attr_timeout=600", start=False)
    m.argv = [tool("prlimit"), "--nofile=100:100", *m.argv]
    path, stored = m.mnt / "f.txt", m.backing / "f.txt"
    stored.write_bytes(b"a file")
    m.start()
    number = path.stat().st_ino
    few_descriptors(m)
    assert stored not in descriptors(m)
    stored.unlink()
    for k in range(100):
        new = m.backing / f"new{k}"
        if what == "fifo":
            os.mkfifo(new)
        else:
            new.symlink_to("other0.txt")
        if new.lstat().st_ino == number:
            break
    else:
        pytest.skip("this file system does not give a number away so soon")
    new.rename(stored)
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    assert stat.S_ISFIFO(os.fstat(fd).st_mode) == (what == "fifo")
    assert os.read(fd, 1) == b""
    os.close(fd)
    m.unmount()


# Not while the daemon has the file open, which it may have a moment longer than who closed it.
LEASE = """
import fcntl, os, signal, sys, time
signal.signal(signal.SIGIO, signal.SIG_IGN)
fd = os.open(sys.argv[1], os.O_RDWR)
for left in reversed(range(500)):
    try:
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        break
    except BlockingIOError:
        if not left:
            raise
        time.sleep(0.01)
print(flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def leased(path):
    """Another program has a lease on the file, and gives it up in the end only."""
    words = [sys.executable, "-c", LEASE, path]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"\n", "no lease"
        yield
        holder.stdin.close()


def test_a_frame_that_another_program_has_a_lease_on(mount):
    """It was taken for no frame, and lost its name for good."""
    m = mount()
    (m.mnt / "f").write_bytes(b"a frame")
    m.unmount()
    m.start()
    with leased(m.stored("f")):
        assert os.listdir(m.mnt) == ["f"]
        assert error_of(os.stat, m.mnt / "f") == "EAGAIN"
    assert os.listdir(m.mnt) == ["f"]
    assert (m.mnt / "f").read_bytes() == b"a frame"
    m.expect_log("f.b2frame: could not be read: Resource temporarily unavailable")
    m.unmount()


@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_RDWR])
def test_who_looks_at_a_leased_frame_does_not_wait_for_who_opens_it(mount, flags):
    """They waited for its inode's lock, up to 45 seconds."""
    m = mount("attr_timeout=0,entry_timeout=60")
    data = blob(1, 100_000, "text")
    (m.mnt / "f").write_bytes(data)  # so what it is need not be read any more
    with ThreadPoolExecutor(1) as pool:
        with leased(m.stored("f")):
            opening = pool.submit(os.open, m.mnt / "f", flags)
            time.sleep(0.5)
            looks = ThreadPoolExecutor(1).submit(os.stat, m.mnt / "f")
            assert looks.result(timeout=10).st_size == len(data)
            assert not opening.done()
        fd = opening.result()
    assert os.pread(fd, len(data), 0) == data
    os.close(fd)


def test_others_do_not_wait_for_a_lease(mount):
    """Forty open the file, which were all threads of the daemon for 45 seconds."""
    m = mount(start=False)
    (m.backing / "p.txt").write_bytes(b"plain")
    m.start()
    with ThreadPoolExecutor(40) as pool:
        with leased(m.backing / "p.txt"):
            readers = [pool.submit((m.mnt / "p.txt").read_bytes) for _ in range(40)]
            for k in range(20):
                (m.mnt / f"other{k}").write_bytes(b"other")
            assert not any(r.done() for r in readers)
        assert {r.result() for r in readers} == {b"plain"}

    def threads():
        error_of(os.stat, m.mnt / f"none{time.monotonic_ns()}")  # who has served ends behind it
        return len(os.listdir(f"/proc/{m.proc.pid}/task"))

    wait_until(lambda: threads() < 40, 20, "the end of those that served instead")
    m.unmount()


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
def faulty_pair(faulty):
    """As `pair`, with a daemon whose backing calls can be made to fail."""
    m, fault = faulty(f"{SMALL},commit=0,intent=0", "f.b2frame: ", "f: ")
    data = blob(1, 3 * CHUNK - 5000, "text")
    (m.mnt / "f").write_bytes(data)
    return m, m.mnt / "f", data, fault


def test_changed_after_writes_were_given_up(faulty_pair, blosc2):
    m, path, data, fault = faulty_pair
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


def test_removed_after_writes_were_given_up(faulty_pair):
    """The close has told of that. The kernel sets the time of the last change once more when the
    name goes, and what it is answered is told by the next syncfs(2)."""
    m, path, _, fault = faulty_pair
    top = os.open(m.mnt, os.O_RDONLY)
    fd = os.open(path, os.O_RDWR)
    os.pwrite(fd, b"ours", 5)
    fault.set(1, Fault.WRITE, errno.ENOSPC, forever=1)
    assert error_of(os.close, fd) == "ENOSPC"
    m.expect_log("closed with unwritten data")
    fault.set(0)
    path.unlink()
    syncfs = ctypes.CDLL(None, use_errno=True).syncfs
    failed = [os.strerror(ctypes.get_errno()) for _ in range(2) if syncfs(top)]
    os.close(top)
    assert not failed


def test_changed_after_the_kernel_could_not_write(faulty_pair, blosc2):
    """Nothing of a write is there, and the file is still open for more."""
    m, path, data, fault = faulty_pair
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


@pytest.mark.parametrize("mode", ["rb", "r+b"])
@pytest.mark.parametrize("why", ["half of it", "disk"])
def test_changed_to_what_cannot_be_read_yet(faulty_pair, blosc2, mode, why):
    """Who has it open goes on with what it was, and sees the new bytes once they can be read: also
    if size and times say nothing new then."""
    m, path, data, fault = faulty_pair
    m.allow("shown under its own name")
    new = blob(2, 4 * CHUNK, "text")
    make_frame(blosc2, m.backing / "other", new)
    raw = (m.backing / "other").read_bytes()
    with open(path, mode, buffering=0) as ours, open(m.stored("f"), "r+b", buffering=0) as theirs:
        fd = ours.fileno()
        assert os.pread(fd, len(data), 0) == data
        theirs.truncate(0)
        theirs.write(raw[: len(raw) // 2] if why == "half of it" else raw)
        if why == "disk":
            fault.set(1, Fault.READ, errno.EIO, forever=1)
        for _ in range(3):
            error_of(os.stat, path)
            assert error_of(read_direct, path, 1) in (None, "EIO", "ENOENT")
            assert os.pread(fd, len(data), 0) == data  # which the kernel has
            time.sleep(0.25)
        fault.set(0)
        if why == "half of it":
            theirs.write(raw[theirs.tell() :])
        wait_until(lambda: reads(fd, new), SOON, "the new content of the open file")
        wait_until(lambda: path.exists() and shows(path, new), SOON, "the new content")


@pytest.mark.parametrize("locking", [False, True], ids=["unlocked", "locked"])
def test_a_change_is_seen_while_a_reader_syncs_the_file(faulty, work, blosc2, locking):
    """Also by who opens it then; and what the old root refers to may be gone."""
    m, fault = faulty(f"{SMALL},intent=0")
    path, other = m.mnt / "f", work / "other.b2frame"
    make_frame(blosc2, m.stored("f"), blob(1, 3 * CHUNK, "text"))
    if locking:
        m.stored("f").with_name(m.stored("f").name + ".b2lock").touch()
    reader = os.open(path, os.O_RDONLY)
    fault.set(1, Fault.SYNC, how=Fault.WAIT)
    with ThreadPoolExecutor(2) as pool:
        try:
            synced = pool.submit(error_of, os.fsync, reader)
            wait_until(fault.came, 20, "the reader's sync")
            for seed, size in (2, 4 * CHUNK + 100), (3, 2 * CHUNK - 5):
                make_frame(blosc2, other, new := blob(seed, size, "text"))
                m.stored("f").write_bytes(other.read_bytes())
                seen = pool.submit(wait_until, partial(shows, path, new), 10, "the change")
                assert seen.exception(20) is None
            assert not synced.done()
        finally:
            fault.set(0)
    assert synced.result() is None
    os.close(reader)


@pytest.mark.parametrize("by", ["reader", "writer"])
def test_a_change_is_seen_by_who_opens_a_file_that_we_sync(faulty, work, blosc2, by):
    """Nothing of ours waits for a commit: the change is not ours, and the next one goes on top."""
    m, fault = faulty("commit=1000,intent=0,entry_timeout=1000,attr_timeout=1000")
    path, other = m.mnt / "f", work / "other.b2frame"
    path.write_bytes(blob(1, 100_000, "noise"))
    make_frame(blosc2, other, theirs := blob(2, 100_000, "noise"))
    m.remount()  # waits for the last close, which may commit once more

    def read_and_write():
        with open(path, "r+b", buffering=0) as f:
            seen = f.read(len(theirs))
            os.pwrite(f.fileno(), b"ours", 10)
        return seen

    with contextlib.ExitStack() as opened, ThreadPoolExecutor(2) as pool:
        first = opened.enter_context(open(path, "rb" if by == "reader" else "r+b", buffering=0))
        first.read()
        if by == "writer":
            os.fsync(first.fileno())
            os.fchmod(first.fileno(), 0o640)
        fault.set(1, Fault.SYNC if by == "reader" else Fault.FSYNC, how=Fault.WAIT)
        try:
            synced = pool.submit(os.fsync, first.fileno())
            wait_until(fault.came, 20, "the sync of the data, or of the attributes")
            opened.enter_context(open(path, "r+b"))
            m.stored("f").write_bytes(other.read_bytes())
            seen = pool.submit(read_and_write)
            wait([seen], 0.5)
        finally:
            fault.set(0)
        synced.result(20)
        assert seen.result(20) == theirs
    m.remount()
    assert path.read_bytes() == theirs[:10] + b"ours" + theirs[14:]


def test_opens_that_wait_for_a_sync_leave_threads_for_others(faulty):
    """More of them than there are threads: other files can be used meanwhile."""
    m, fault = faulty("commit=1000,intent=0,entry_timeout=0,attr_timeout=0")
    theirs = blob(2, 100_000, "noise")
    (m.mnt / "f").write_bytes(blob(1, 50_000, "noise"))
    (m.mnt / "other").write_bytes(theirs)
    m.remount()

    with open(m.mnt / "f", "r+b", buffering=0) as f, ThreadPoolExecutor(42) as pool:
        os.fsync(f.fileno())
        os.fchmod(f.fileno(), 0o640)
        fault.set(1, Fault.FSYNC, how=Fault.WAIT)
        try:
            waiting = [pool.submit(os.fsync, f.fileno())]
            wait_until(fault.came, 20, "the sync of the attributes")
            m.stored("f").write_bytes(m.stored("other").read_bytes())
            waiting += [pool.submit((m.mnt / "f").read_bytes) for _ in range(40)]
            done, _ = wait(waiting, 0.5)
            assert not done
            other = pool.submit(os.stat, m.mnt / "other")
            assert other.result(20).st_size == len(theirs)
        finally:
            fault.set(0)


def test_the_gaps_of_a_file_that_another_program_has_changed_are_left_alone(mount):
    """They are closed in the background, after the last commit, while a reader has it open."""
    m = mount("chunksize=64K,commit=0.5,intent=0,entry_timeout=1000,attr_timeout=1000")
    size, piece = 4 << 20, 64 << 10
    old = blob(1, size, "noise")

    def make(stack, name, changed):
        path = m.mnt / name
        path.write_bytes(old)
        theirs = m.stored(name).read_bytes()
        stack.callback(os.close, os.open(path, os.O_RDONLY))
        with open(path, "r+b", buffering=0) as f:
            for at in range(0, size * 3 // 4, piece):
                os.pwrite(f.fileno(), bytes(piece), at)
        if changed:
            m.stored(name).write_bytes(theirs)
        return theirs

    with contextlib.ExitStack() as stack:
        theirs = make(stack, "f", True)
        make(stack, "g", False)  # its turn comes after that of the other one
        wait_until(lambda: m.stored("g").stat().st_size < size // 2, 30, "the gaps to be closed")
        assert m.stored("f").read_bytes() == theirs
    m.remount()
    assert (m.mnt / "f").read_bytes() == old


@pytest.mark.parametrize("opened", [True, False], ids=["opened", "not_opened"])
def test_changed_while_gaps_are_given_back(faulty, opened):
    """The disk takes long, so that the change is older than what we do to the file afterwards."""
    m, fault = faulty("chunksize=64K,commit=0.5,intent=0,entry_timeout=1000,attr_timeout=1000")
    path, size, old_time = m.mnt / "f", 4 << 20, 10**18
    path.write_bytes(theirs := blob(1, size, "noise"))
    frame = m.stored("f").read_bytes()
    path.write_bytes(blob(2, size, "noise"))

    with open(path, "rb") as reader, ThreadPoolExecutor(1) as pool:
        write_at(path, 0, bytes(size * 3 // 4))
        fault.set(1, Fault.SYNC, how=Fault.WAIT)
        try:
            wait_until(fault.came, 20, "the sync before the gaps are given back")
            with open(m.stored("f"), "r+b") as stored:
                stored.write(frame)
                stored.truncate()
                stored.flush()
                os.utime(stored.fileno(), ns=(old_time, old_time))
            seen = pool.submit(path.read_bytes) if opened else None
            time.sleep(0.5)
        finally:
            fault.set(0)
        if opened:
            assert seen.result(20) == theirs
        os.fstat(reader.fileno())
        wait_until(lambda: path.read_bytes() == theirs, SOON, "the change")
    m.remount()
    assert path.read_bytes() == theirs
    assert m.stored("f").read_bytes() == frame
    assert m.stored("f").stat().st_mtime_ns == old_time


@pytest.mark.parametrize("reads", [9, 15, 21, 27])
def test_changed_while_chunks_move_into_gaps(faulty, reads):
    """The disk takes long to read one, and so does the one that looks what has changed."""
    m, fault = faulty("chunksize=64K,commit=3,intent=0,entry_timeout=0,attr_timeout=0")
    path, size = m.mnt / "f", 4 << 20
    path.write_bytes(theirs := blob(1, size, "noise"))
    frame = m.stored("f").read_bytes()
    path.write_bytes(blob(2, size, "noise"))

    with open(path, "rb"):
        write_at(path, 0, bytes(size * 3 // 4))
        fault.set(1, Fault.SYNC, how=Fault.WAIT)
        try:
            wait_until(fault.came, 20, "the sync before the gaps are given back")
            fault.set(reads, Fault.READ, how=Fault.WAIT)
            wait_until(fault.came, 20, "the chunks to be moved")
            m.stored("f").write_bytes(frame)
        finally:
            fault.set(0)
        wait_until(lambda: shows(path, theirs), SOON, "the change")
    m.remount()
    assert path.read_bytes() == theirs
    assert m.stored("f").read_bytes() == frame


def test_changed_after_moved_chunks_could_not_be_committed(faulty):
    """They do not wait for a commit that would put our root over the other's frame."""
    m, fault = faulty("chunksize=64K,commit=3,intent=0,entry_timeout=0,attr_timeout=0")
    path, size = m.mnt / "f", 4 << 20
    path.write_bytes(theirs := blob(1, size, "noise"))
    frame = m.stored("f").read_bytes()
    path.write_bytes(ours := blob(2, size, "noise"))

    with open(path, "rb"):
        write_at(path, 0, bytes(size * 3 // 4))
        fault.set(1, Fault.SYNC, how=Fault.WAIT)
        try:
            wait_until(fault.came, 20, "the sync before the gaps are given back")
            fault.set(17, Fault.WRITE, forever=1)
            wait_until(fault.came, 20, "16 chunks to be moved")
            assert path.read_bytes() == bytes(size * 3 // 4) + ours[size * 3 // 4 :]
        finally:
            fault.set(0)
        m.stored("f").write_bytes(frame)
        wait_until(lambda: shows(path, theirs), SOON, "the change")
    m.remount()
    assert path.read_bytes() == theirs
    assert m.stored("f").read_bytes() == frame


def test_a_change_is_seen_by_who_looks_while_a_short_use_of_the_file_ends(mount, work):
    """Here that is our own: the kernel is being told of the new size."""
    m = mount("entry_timeout=0,attr_timeout=0", start=False)
    fault = Fault(m, work / "fault")
    m.start()
    path, old, new = m.mnt / "f", blob(1, 20_000, "noise"), blob(2, 90_000, "noise")
    for name, data in ("f", old), ("g", new):
        (m.mnt / name).write_bytes(data)
    with open(path, "rb") as reader, ThreadPoolExecutor(1) as pool:
        fault.set(1, Fault.STORE, how=Fault.WAIT)
        try:
            m.stored("f").write_bytes(m.stored("g").read_bytes())
            os.fstat(reader.fileno())
            wait_until(fault.came, 20, "the kernel to be told")
            seen = pool.submit(path.read_bytes)
            wait([seen], 0.1)
        finally:
            fault.set(0)
        assert seen.result(20) == new


def test_the_last_of_a_directory_is_a_name_of_an_open_file(mount):
    """The kernel forgets a directory that is gone, while a file in it is open by another name: the
    daemon forgets it, and those above it, along with that file."""
    m = mount("entry_timeout=0,attr_timeout=0")
    (m.mnt / "a" / "b").mkdir(parents=True)
    (m.mnt / "a" / "b" / "f").write_bytes(b"content")
    os.link(m.mnt / "a" / "b" / "f", m.mnt / "g")
    with open(m.mnt / "g", "rb") as f:
        assert os.path.samefile(m.mnt / "a" / "b" / "f", f.fileno())
        os.rename(m.backing / "a", m.work / "gone")
        assert not (m.mnt / "a").exists()
        m.stored("g").unlink()
        assert f.read() == b"content"
    assert not (m.mnt / "g").exists()
    time.sleep(0.5)  # the kernel tells what it forgets a little later
    os.rename(m.work / "gone", m.backing / "a")
    assert (m.mnt / "a" / "b" / "f").read_bytes() == b"content"
