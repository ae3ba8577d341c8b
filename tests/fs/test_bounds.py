"""Bounds: the daemon's memory while it is written to, and what one bad chunk
costs its neighbours."""

import contextlib
import errno
import mmap
import os
import re
import struct
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from libdata import blob
from libfault import Fault
from libmemory import held_to
from libmount import SLOWNESS, umount, wait_until
from libposix import error_of, punch, read_direct
from libstats import stats

MiB = 1 << 20
SMALLER = 1 if SLOWNESS == 1 else 4  # chunks and files: a sanitizer sees the same calls
STREAM = 20 if SLOWNESS == 1 else 4  # MiB a writer
# Of one of 32 writers, in so many bytes of its file; all write more than the mount may keep.
PAGES, SPAN = (2000, 32 * MiB) if SLOWNESS == 1 else (40, 8 * MiB)
CHUNKS = 5000 if SLOWNESS == 1 else 1000


def together(count, work):
    """work(0), work(1), ... in as many threads; none of them may fail."""
    with ThreadPoolExecutor(count) as pool:
        list(pool.map(work, range(count)))


@pytest.mark.concurrent
@pytest.mark.parametrize("how", ["streams", "pages"])
def test_memory_under_32_writers(mount, how):
    dirty = 2 if how == "pages" and SLOWNESS > 1 else 64
    m = mount(f"dirty_max={dirty}M,cache=32M,codec=zstd,level=1")
    noise = memoryview(blob(9, 4 * MiB, "noise"))

    def write(k):
        with open(m.mnt / f"f{k}", "w+b", buffering=0) as f:
            if how == "streams":
                for n in range(STREAM):
                    os.pwrite(f.fileno(), noise[k * 4096 : k * 4096 + MiB], n * MiB)
            else:
                for n in range(PAGES):
                    at = (n * 2_654_435_761 + k) % SPAN // 4096 * 4096
                    os.pwrite(f.fileno(), noise[n * 64 : n * 64 + 4096], at)
            os.fsync(f)

    together(32, write)
    held_to(m, (dirty + 32 + 64) * MiB)
    if how == "streams":
        for k in range(32):
            with open(m.mnt / f"f{k}", "rb") as f:
                assert f.read(MiB) == noise[k * 4096 : k * 4096 + MiB], k
    m.unmount()


@pytest.mark.parametrize("how", ["streams", "pages", "blocks"])
def test_memory_with_large_chunks(mount, how):
    """Each worker needs as much as a chunk or three beside it, and two blocks
    between its filters: not all of them may have that at once."""
    chunk, dirty = 8 * MiB // SMALLER, (128 if how == "blocks" else 64) // SMALLER
    blocks = f"blocksize={chunk},pipeline=delta+shuffle:4+lz4hc:9"
    how_stored = blocks if how == "blocks" else "codec=lz4,tune=off"
    cache = 8 // SMALLER
    m = mount(f"dirty_max={dirty}M,cache={cache}M,chunksize={chunk},workers=8,{how_stored}")
    noise = memoryview(blob(9, 12 * MiB, "noise"))

    def write(k):
        with open(m.mnt / f"f{k}", "w+b", buffering=0) as f:
            for _ in range(4):
                f.write(noise[k * 4096 : k * 4096 + chunk])
            os.fsync(f)
            if how != "pages":
                return
            for n in range(40):  # chunks to be read, changed and stored again
                os.pwrite(f.fileno(), noise[n * 64 : n * 64 + 4096], n % 4 * chunk + n * 40960)
            os.fsync(f)

    together(8, write)
    held_to(m, (dirty + 8 + 32 + (6 if how == "blocks" else 4) * 8) * MiB)
    for k in range(8):
        data = (m.mnt / f"f{k}").read_bytes()
        assert len(data) == 4 * chunk
        assert data[-1000:] == noise[k * 4096 + chunk - 1000 : k * 4096 + chunk]


@pytest.mark.release  # a sanitizer's shadow takes terabytes of addresses
@pytest.mark.parametrize("limit", [128, 256])
def test_little_address_space(mount, tool, limit):
    """What the options say may be more than there is: it becomes less, or what waits to be stored
    would take the memory for storing it."""
    m = mount("workers=2", start=False)
    m.argv = [tool("prlimit"), f"--as={limit * MiB}", *m.argv]
    m.start()
    noise = blob(9, MiB, "noise")

    def write(k):
        with open(m.mnt / f"f{k}", "w+b", buffering=0) as f:
            for _ in range(STREAM):
                f.write(noise)
            os.fsync(f)

    together(6, write)
    for k in range(6):
        assert read_direct(m.mnt / f"f{k}", MiB) == noise


@pytest.mark.parametrize("place", [0, 700_001], ids=["begin", "middle"])
def test_many_chunks_begun_with_few_bytes(mount, place):
    """Each of these chunks holds a MiB when it is whole, and nobody ever wrote
    more than 100 bytes of it."""
    m = mount("dirty_max=64M,cache=8M,commit=3600,codec=lz4")
    marks = [blob(n, 100, "noise") for n in range(CHUNKS)]
    fd = os.open(m.mnt / "sparse", os.O_RDWR | os.O_CREAT)
    for n, mark in enumerate(marks):
        os.pwrite(fd, mark, n * MiB + place)
    os.fsync(fd)
    held_to(m, (64 + 8 + 64) * MiB)
    m.kill()
    error_of(os.close, fd)
    m.start()
    with open(m.mnt / "sparse", "rb") as f:
        for n in range(0, CHUNKS, 7):
            assert os.pread(f.fileno(), 300, n * MiB + max(0, place - 100)) in (
                bytes(100) + marks[n] + bytes(100),
                marks[n] + bytes(200),
            ), n
    m.unmount()


def test_few_bytes_in_each_stored_chunk(mount):
    """Overwriting a page of each costs a page of each."""
    m = mount("dirty_max=32M,cache=8M,commit=3600,codec=lz4,workers=2")
    data = bytearray(blob(1, MiB // 4, "text") * 4 * 200)
    path = m.mnt / "stored"
    path.write_bytes(data)
    m.remount()
    fd = os.open(path, os.O_RDWR)
    for n in range(200):
        at, mark = n * MiB + 4096 * (n % 250) + 77 * (n % 50), blob(n, 100, "noise")
        os.pwrite(fd, mark, at)
        data[at : at + 100] = mark
    os.fsync(fd)
    os.close(fd)
    held_to(m, (32 + 8 + 48) * MiB)
    m.remount()
    assert path.read_bytes() == data
    m.unmount()


def test_the_ends_of_many_files_are_cut(mount):
    """The last chunk of each comes into memory for that, and waits there until it is stored."""
    m = mount("dirty_max=8M,cache=8M,commit=3600,codec=lz4,workers=2,intent=0")
    data = blob(1, MiB - 10, "noise")
    count = 150
    for n in range(count):
        (m.mnt / f"f{n}").write_bytes(data)
    fds = [os.open(m.mnt / f"f{n}", os.O_RDWR) for n in range(count)]
    for fd in fds:
        os.ftruncate(fd, len(data) - 1000)
    held_to(m, (8 + 8 + 64) * MiB)
    for fd in fds:
        os.close(fd)
    assert all((m.mnt / f"f{n}").read_bytes() == data[:-1000] for n in range(count))


@pytest.mark.concurrent
def test_parts_of_large_chunks_are_zeroed(mount):
    options = "dirty_max=64M,cache=8M,commit=3600,codec=lz4,workers=2,intent=0"
    size, hole = 32 * MiB // SMALLER, 30 * MiB // SMALLER
    m = mount(f"{options},chunksize={size}")
    data = blob(1, size, "text")
    count = 10 if SLOWNESS == 1 else 3
    for n in range(count):
        (m.mnt / f"f{n}").write_bytes(data)
    m.remount()
    fds = [os.open(m.mnt / f"f{n}", os.O_RDWR) for n in range(count)]
    together(count, lambda n: punch(fds[n], 4096, hole))
    held_to(m, (64 + 8 + 64 + 64) * MiB)
    for fd in fds:
        os.close(fd)
    m.remount()
    wanted = data[:4096] + bytes(hole) + data[4096 + hole :]
    assert all((m.mnt / f"f{n}").read_bytes() == wanted for n in range(count))


@pytest.mark.concurrent
def test_files_that_end_within_an_item(mount):
    """Their chunks of whole items are stored anew, as bytes; at once they would take 100 MiB."""
    m = mount("dirty_max=8M,cache=8M,commit=3600,codec=lz4,workers=2,intent=0")
    data = b"".join(struct.pack("<d", n / 7) for n in range(12 * MiB // SMALLER // 8))
    count = 12
    for n in range(count):
        (m.mnt / f"f{n}").write_bytes(data)
    m.remount()
    fds = [os.open(m.mnt / f"f{n}", os.O_RDWR) for n in range(count)]
    for fd in fds:
        os.pwrite(fd, b"end", len(data))
    together(count, lambda n: os.fsync(fds[n]))
    held_to(m, (8 + 8 + 16 + 48) * MiB)
    for fd in fds:
        os.close(fd)
    m.remount()
    assert all((m.mnt / f"f{n}").read_bytes() == data + b"end" for n in range(count))


def test_pages_over_pages_on_their_way(mount):
    """Writers that never wait for the workers: of each chunk one copy is being
    stored and another changes."""
    m = mount("dirty_max=1M,cache=1M,chunksize=256K,blocksize=16K,codec=zstd,level=5,workers=1")
    data = bytearray(blob(2, 8 * MiB, "text"))
    path = m.mnt / "busy"
    path.write_bytes(data)
    fds = [os.open(path, os.O_RDWR | flag) for flag in (0, os.O_DIRECT)]
    for k in range(400):
        at = (k * 2_654_435_761) % (8 * MiB - 12288)
        mark = blob(k, 1 + k * 97 % 9000, "noise")
        if k % 3:
            os.pwrite(fds[0], mark, at)
            data[at : at + len(mark)] = mark
        else:
            at -= at % 4096
            room = mmap.mmap(-1, 12288)
            room[: len(mark)] = mark
            os.pwritev(fds[1], [room], at)
            data[at : at + len(room)] = room[:]
    assert read_direct(path, 9 * MiB) == data
    for fd in fds:
        os.close(fd)
    m.remount()
    assert path.read_bytes() == data
    m.unmount()


@pytest.mark.parametrize("kind", ["noise", "text"])
def test_a_damaged_chunk_costs_only_what_was_written_to_it(mount, kind):
    m = mount("chunksize=64K,blocksize=16K,codec=zstd,level=3,commit=3600")
    data = bytearray(blob(3, 512 << 10, kind))
    path = m.mnt / "f"
    path.write_bytes(data)
    m.unmount()
    raw = bytearray(m.stored("f").read_bytes())
    chunks = [found.start() - 4 for found in re.finditer(struct.pack("<ii", 65536, 16384), raw)]
    assert len(chunks) == 8
    (block,) = struct.unpack_from("<i", raw, chunks[3] + 32)  # the first one
    raw[chunks[3] + block + 100] ^= 0x55
    m.stored("f").write_bytes(raw)
    m.start()
    m.allow(r"cframefs: error: f.b2frame: (read|what was written)")
    fds = [os.open(path, os.O_RDWR) for _ in range(2)]
    page = blob(4, 4096, "noise")
    for n in range(8):  # whole pages: nothing of the old bytes is needed to take them
        os.pwrite(fds[0], page, n * 65536 + 8192)
        data[n * 65536 + 8192 : n * 65536 + 12288] = page
    assert error_of(os.fsync, fds[0]) == "EIO"
    m.expect_log(r"f.b2frame: what was written to chunk \d is lost")
    assert error_of(os.fsync, fds[0]) is None, "told twice"
    late = os.open(path, os.O_RDWR)
    assert error_of(os.fsync, late) is None, "a handle of later was told"
    os.close(late)
    assert error_of(os.fsync, fds[1]) == "EIO", "the other handle was not told"
    assert error_of(os.fsync, fds[1]) is None
    for fd in fds:
        os.close(fd)
    m.remount()
    lost = [
        n
        for n in range(8)
        if error_of(read_chunk, path, n) or read_chunk(path, n) != data[n * 65536 : (n + 1) * 65536]
    ]
    assert len(lost) == 1, lost
    with open(path, "r+b") as f:  # written anew as a whole it is sound again
        f.seek(lost[0] * 65536)
        f.write(data[lost[0] * 65536 : (lost[0] + 1) * 65536])
    m.remount()
    assert path.read_bytes() == data
    m.unmount()


def test_a_device_that_answers_again(mount):
    """What lies below dirty pages cannot be read for a while: fsync says so, and nothing is lost;
    what else was written is stored meanwhile."""
    m = mount("chunksize=64K,blocksize=16K,codec=zstd,commit=0,intent=0", start=False)
    fault = Fault(m, m.work / "fault")
    m.start()
    data = bytearray(blob(3, 256 << 10, "text"))
    path = m.mnt / "f"
    path.write_bytes(data)
    m.remount("chunksize=64K,blocksize=16K,codec=zstd,commit=0,intent=0")
    m.allow(r"cframefs: error: f.b2frame: (fsync|close): ")
    fd = os.open(path, os.O_RDWR | os.O_DIRECT)
    page = mmap.mmap(-1, 4096)
    page[:] = blob(4, 4096, "noise")
    chunk = mmap.mmap(-1, 65536)
    chunk[:] = blob(5, 65536, "noise")
    fault.set(1, Fault.READ, error=errno.EIO, forever=1)
    assert os.pwritev(fd, [page], 8192) == 4096
    data[8192:12288] = page[:]
    assert os.pwritev(fd, [chunk], 131072) == 65536
    data[131072:196608] = chunk[:]
    assert error_of(os.fsync, fd) == "EIO"
    assert os.preadv(fd, [page], 8192) == 4096 and page[:] == data[8192:12288]
    fault.set(0)
    os.fsync(fd)
    assert "is lost" not in m.log_text()
    m.kill()
    error_of(os.close, fd)
    m.start()
    assert path.read_bytes() == data
    fd = os.open(path, os.O_RDWR | os.O_DIRECT)
    fault.set(1, Fault.READ, error=errno.EIO, forever=1)
    os.pwritev(fd, [page], 65536 + 8192)  # this one never gets there
    chunk[:] = blob(6, 65536, "noise")
    os.pwritev(fd, [chunk], 131072)
    data[131072:196608] = chunk[:]
    assert error_of(os.close, fd) == "EIO"
    m.expect_log("f.b2frame: closed with unwritten data")
    fault.set(0)
    m.remount()
    assert path.read_bytes() == data
    m.unmount()


@pytest.mark.parametrize("pages", [1, 400], ids=["one page", "all memory"])
def test_what_cannot_be_read_and_other_files(mount, pages):
    """Pages of one file wait for a device that does not answer. Other files are written meanwhile,
    also where these pages take all memory: then they are lost, and their file is told."""
    options = "chunksize=64K,blocksize=16K,codec=lz4,commit=0,intent=0,dirty_max=1M,workers=1"
    m = mount(options, start=False)
    fault = Fault(m, m.work / "fault")
    m.start()
    (m.mnt / "bad").write_bytes(blob(3, 8 << 20, "text"))
    m.remount(options)
    m.allow(r"cframefs: error: bad.b2frame: (fsync|what was written to chunk \d+ is lost): ")
    page = mmap.mmap(-1, 4096)
    page[:] = blob(4, 4096, "noise")
    bad = os.open(m.mnt / "bad", os.O_RDWR | os.O_DIRECT)
    good = os.open(m.mnt / "good", os.O_RDWR | os.O_CREAT | os.O_DIRECT)
    os.truncate(good, 1000 << 16)
    fault.set(1, Fault.READ, error=errno.EIO, forever=1)
    for i in range(pages):
        os.pwritev(bad, [page], 8192 + (i << 14))
    for i in range(1000):  # nothing is below these, and they are stored when memory is short
        os.pwritev(good, [page], 8192 + (i << 16))
    os.fsync(good)
    assert error_of(os.fsync, bad) == "EIO"
    lost = m.log_text().count("is lost")
    assert (lost > 0) == (pages > 1)
    fault.set(0)
    os.fsync(bad)
    fault.set(1, Fault.READ, error=errno.EIO, forever=1)
    os.pwritev(bad, [page], 8192)  # there is memory again, so this one waits in any case
    assert error_of(os.fsync, bad) == "EIO"
    fault.set(0)
    os.fsync(bad)
    assert m.log_text().count("is lost") == lost
    assert os.preadv(bad, [page], 8192) == 4096 and page[:] == blob(4, 4096, "noise")
    os.close(bad)
    os.close(good)
    data = bytearray(blob(3, 8 << 20, "text"))
    data[8192:12288] = page[:]
    if pages == 1:
        assert (m.mnt / "bad").read_bytes() == data
    with open(m.mnt / "good", "rb") as f:
        for _ in range(1000):
            assert f.read(65536)[8192:12288] == page[:]
    m.unmount()


def read_chunk(path, n):
    with open(path, "rb", buffering=0) as f:
        return os.pread(f.fileno(), 65536, n * 65536)


# For a directory that is opened by recursion, a level takes more than half a KiB of the stack.
DEEP, STACK = 2500, 1 << 20


def step(fd, name):
    """From a directory to one in it, or above."""
    below = os.open(name, os.O_PATH | os.O_DIRECTORY, dir_fd=fd)
    os.close(fd)
    return below


@pytest.fixture
def few(mount, tool):
    """A daemon that soon has to close descriptors of directories, and to open them by their names
    again; and a function that makes it."""
    m = mount(start=False)
    m.argv = [tool("prlimit"), "--nofile=100", f"--stack={STACK}", *m.argv]
    for k in range(60):
        (m.backing / f"other{k}").mkdir()

    def others():
        for k in range(60):
            os.listdir(m.mnt / f"other{k}")

    return m, others


@pytest.mark.release
def test_a_tree_that_is_deeper_than_the_stack_of_a_thread(few):
    m, others = few
    fd = os.open(m.backing, os.O_PATH)
    for _ in range(DEEP):
        os.mkdir("d", dir_fd=fd)
        fd = step(fd, "d")
    try:
        m.start()
        deep = os.open(m.mnt, os.O_PATH)
        for _ in range(DEEP):
            deep = step(deep, "d")
        others()
        names = os.open(".", os.O_RDONLY, dir_fd=deep)
        assert os.listdir(names) == []
        os.close(names)
        os.close(deep)
    finally:
        for _ in range(DEEP):  # rmtree is recursive
            fd = step(fd, "..")
            os.rmdir("d", dir_fd=fd)
        os.close(fd)


def test_directories_that_are_below_each_other_by_their_old_names(few):
    """Another program has moved them. Who looks them up by their new ones finds them."""
    m, others = few
    m.options = "entry_timeout=0,attr_timeout=0"
    (m.backing / "a/b").mkdir(parents=True)
    m.start()
    b = os.open(m.mnt / "a/b", os.O_PATH)
    (m.backing / "a/b").rename(m.backing / "b")
    (m.backing / "a").rename(m.backing / "b/a")
    looked = error_of(os.stat, "a", dir_fd=b)  # the kernel sees that it lies above
    others()
    missed = error_of(os.stat, "x", dir_fd=b)
    os.close(b)
    assert (looked, missed) == ("ELOOP", "ESTALE")
    assert os.listdir(m.mnt / "b") == ["a"] and os.listdir(m.mnt / "b/a") == []


def test_a_file_of_many_names_is_found_by_each(mount):
    """The daemon knows an inode by all names that were looked up, and what becomes of each."""
    m = mount("entry_timeout=0,attr_timeout=0")
    names = 3000
    (m.mnt / "many").write_bytes(b"x" * 1000)
    for i in range(names):
        os.link(m.backing / "many.b2frame", m.backing / f"name{i}.b2frame")
    m.remount()
    assert {e.stat().st_nlink for e in os.scandir(m.mnt)} == {names + 1}
    assert {os.stat(m.mnt / f"name{i}").st_size for i in range(names)} == {1000}
    for i in range(0, 100, 2):
        os.unlink(m.mnt / f"name{i}")
    os.rename(m.mnt / "name1", m.mnt / "other")
    assert (m.mnt / "other").read_bytes() == b"x" * 1000
    assert os.stat(m.mnt / "name3").st_nlink == names + 1 - 50
    for i in range(0, 100, 2):
        assert not (m.mnt / f"name{i}").exists()


def test_the_backing_directory_is_moved_below_itself(mount, root, work):
    """A bind mount leads from it to where it lies. It has no name in the mount, also where one that
    the kernel remembers is that of another directory."""
    top = work / "top"
    (top / "store/up").mkdir(parents=True)
    (top / "x").mkdir()
    m = mount("entry_timeout=60", backing=top / "store")
    if subprocess.run(["mount", "--bind", top, top / "store/up"], check=False).returncode:
        pytest.skip("no mounts here")
    try:
        os.stat(m.mnt / "up/x")
        (top / "x").rename(top / "z")
        (top / "store").rename(top / "x")
        for old, new in (("x", "y"), ("z", "x"), ("x", "z")):
            os.rename(m.mnt / "up" / old, m.mnt / "up" / new)
        assert sorted(os.listdir(top)) == ["y", "z"]
        (m.mnt / "f").write_bytes(b"data")
        assert (m.mnt / "f").read_bytes() == b"data"
        m.unmount()
    finally:
        for name in ("store", "x", "y"):
            umount(top / name / "up", "-l")


# Beyond this, of dirty_max=64M, large writes wait.
FLOODED = 60 * MiB


def written(m):
    return stats(m)["write"]["application_bytes"]


@contextlib.contextmanager
def flooded(m):
    """A file is written faster than one worker stores it, until the daemon is killed in the end."""
    data = blob(3, MiB, "text")

    def write():
        with contextlib.suppress(OSError), open(m.mnt / "large", "wb", buffering=0) as f:
            for _ in range(1000):
                f.write(data)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        wait_until(lambda: stats(m)["memory"]["dirty_bytes"] >= FLOODED, 60, "dirty data")
        yield
        assert stats(m)["memory"]["dirty_bytes"] >= FLOODED, "it is over: nothing was seen"
    finally:
        m.kill()
        writer.join()


def passed_by(m, name, data):
    """How many bytes of the flood come in while a small file is made."""
    before = written(m)
    assert not os.path.exists(m.mnt / f"absent {name}")
    (m.mnt / f"file {name}").write_bytes(data)
    os.rename(m.mnt / f"file {name}", m.mnt / f"moved {name}")
    return written(m) - before


def test_others_do_not_wait_behind_a_flood(mount):
    """Writes that waited for memory took all threads, so that everything else, even a look at a
    name, came only behind many of them. And a file's only chunk came behind all of the large one's,
    for memory and for a worker."""
    m = mount("level=9,workers=1,dirty_max=64M")
    some = (b"a few bytes", blob(4, 10_000, "text"), blob(5, 300_000, "noise"))
    with flooded(m):
        for i, data in enumerate(some):
            # more than once: this process may have to wait for a processor while the worker has one
            assert any(passed_by(m, f"{i}.{turn}", data) < 12 * MiB for turn in range(3))
