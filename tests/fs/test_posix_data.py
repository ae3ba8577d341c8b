"""What is in a file: open, truncate, append, fsync, fallocate, lseek, mmap;
result or errno of each call."""

import ctypes
import mmap
import os
import stat
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from libdata import blob
from libmount import wait_until
from libposix import (
    COLLAPSE_RANGE,
    KEEP_SIZE,
    PUNCH_HOLE,
    ZERO_RANGE,
    error_of,
    fallocate,
    in_child,
    punch,
    read_direct,
    sync,
    write_async,
    write_at,
)

MiB = 1 << 20

both_kinds = pytest.mark.parametrize("kind", ["frame", "plain"])


def begin(m, kind, name="f"):
    """Where a file is to be written; a plain one is there, since it would not become one here."""
    if kind == "plain":
        (m.backing / name).touch()
    return m.mnt / name


# ---- create and open


def test_open_flags(fs, file):
    assert error_of(os.open, file, os.O_CREAT | os.O_EXCL | os.O_WRONLY) == "EEXIST"
    fd = os.open(fs / "new", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o640)
    assert stat.S_IMODE(os.fstat(fd).st_mode) == 0o640
    assert error_of(os.read, fd, 1) == "EBADF"
    os.close(fd)
    fd = os.open(file, os.O_RDONLY)
    assert error_of(os.write, fd, b"x") == "EBADF"
    assert error_of(os.ftruncate, fd, 1) == "EINVAL"
    os.close(fd)
    os.close(os.open(file, os.O_WRONLY | os.O_TRUNC))
    assert os.stat(file).st_size == 0
    assert error_of(os.open, fs, os.O_CREAT | os.O_WRONLY) == "EISDIR"


def test_create_without_write_permission_in_mode(fs):
    fd = os.open(fs / "readonly", os.O_CREAT | os.O_WRONLY, 0o400)
    os.write(fd, b"written all the same")
    os.close(fd)
    assert (fs / "readonly").read_bytes() == b"written all the same"


@both_kinds
def test_write_only_then_partial_overwrite(mount, kind):
    """A write of a piece needs the old bytes of its block, whatever the descriptor may do."""
    m = mount()
    file = begin(m, kind)
    file.write_bytes(blob(1, 300_000, "text"))
    m.remount()
    expect = bytearray(blob(1, 300_000, "text"))
    fd = os.open(file, os.O_WRONLY)
    os.pwrite(fd, b"piece", 123_457)
    os.close(fd)
    expect[123_457:123_462] = b"piece"
    assert read_direct(file, 400_000) == expect


def test_a_file_that_the_daemon_may_only_write(mount, blind_argv):
    """As a user's daemon that of mode 0200. The rest of a page cannot be read for it: it was
    EBADF."""
    m = mount(argv=blind_argv)
    file = m.backing / "f"
    file.write_bytes(blob(1, 10_000, "text"))
    file.chmod(0o200)
    expect = blob(1, 10_000, "text")
    for at, flags in ((5000, 0), (10_000, os.O_APPEND), (10_005, os.O_APPEND)):
        write_at(m.mnt / "f", at, b"piece", os.O_WRONLY | flags)
        expect = expect[:at] + b"piece" + expect[at + 5 :]
        assert os.stat(m.mnt / "f").st_size == len(expect)
        wait_until(lambda: os.stat(m.mnt / "f").st_mtime_ns == file.stat().st_mtime_ns)
        os.utime(m.mnt / "f", (1, 1))
    assert error_of(open, m.mnt / "f") == "EACCES"
    m.unmount()
    assert file.read_bytes() == expect


@both_kinds
def test_o_sync_and_o_direct(mount, kind):
    m = mount()
    data = blob(3, 2 * MiB, "floats")
    for name, flag in (("sync", os.O_SYNC), ("dsync", os.O_DSYNC), ("direct", os.O_DIRECT)):
        room = mmap.mmap(-1, len(data))
        room[:] = data
        fd = os.open(begin(m, kind, name), os.O_CREAT | os.O_RDWR | flag)
        assert os.writev(fd, [room]) == len(data)
        assert os.pwritev(fd, [memoryview(room)[:4096]], 8192) == 4096
        assert os.pwrite(fd, b"anywhere", 12288 + 3) == 8
        os.close(fd)
        expect = data[:8192] + data[:4096] + data[12288:12291] + b"anywhere" + data[12299:]
        assert (m.mnt / name).read_bytes() == expect, name
        assert read_direct(m.mnt / name, len(data)) == expect, name


@pytest.mark.parametrize("flag, option", [(os.O_SYNC, ""), (os.O_DSYNC, ""), (0, ",sync")])
def test_o_sync_holds_for_what_the_kernel_does_not_sync(mount, flag, option):
    """It sends FSYNC after each write by such a descriptor, but not after these."""
    m = mount("commit=0" + option)
    data, old = blob(4, 2 * MiB, "floats"), blob(5, 2 * MiB, "text")
    (m.mnt / "source").write_bytes(data)
    for name in ("whole", "part", "hole"):
        (m.mnt / name).write_bytes(old)
    whole, part, hole = fds = [
        os.open(m.mnt / name, os.O_RDWR | flag) for name in ("whole", "part", "hole")
    ]
    with open(m.mnt / "source", "rb") as source:
        assert os.copy_file_range(source.fileno(), whole, len(data), 0, 0) == len(data)
        assert os.copy_file_range(source.fileno(), part, 5000, 100, 70_000) == 5000
    punch(hole, 4096, 100_000)
    m.kill()
    for fd in fds:
        error_of(os.close, fd)
    m.start()
    assert (m.mnt / "whole").read_bytes() == data
    assert (m.mnt / "part").read_bytes() == old[:70_000] + data[100:5100] + old[75_000:]
    assert (m.mnt / "hole").read_bytes() == old[:4096] + bytes(100_000) + old[104_096:]


@pytest.mark.parametrize(
    "flags, write_flags, option",
    [
        (os.O_SYNC, 0, ""),
        (os.O_DSYNC, 0, ""),
        (0, os.RWF_DSYNC, ""),
        (0, os.RWF_SYNC, ""),
        (0, 0, ",sync"),
    ],
)
def test_o_sync_holds_for_asynchronous_writes(mount, flags, write_flags, option):
    """Like those of databases: the kernel sends no FSYNC after direct writes that the application
    does not wait for."""
    m = mount("commit=0" + option)
    old, page = blob(5, 2 * MiB, "text"), blob(6, 4096, "noise")
    (m.mnt / "f").write_bytes(old)
    fd = os.open(m.mnt / "f", os.O_RDWR | os.O_DIRECT | flags)
    assert write_async(fd, page, 8192, write_flags) == 4096
    m.kill()
    error_of(os.close, fd)
    m.start()
    assert (m.mnt / "f").read_bytes() == old[:8192] + page + old[12_288:]


def test_truncate(fs, file):
    data = file.read_bytes()
    os.truncate(file, 100_001)
    assert file.read_bytes() == data[:100_001]
    os.truncate(file, 250_000)
    assert file.read_bytes() == data[:100_001] + bytes(149_999)
    assert read_direct(file, 300_000) == data[:100_001] + bytes(149_999)
    os.truncate(file, 0)
    assert os.stat(file).st_size == 0 and file.read_bytes() == b""
    assert error_of(os.truncate, fs, 0) == "EISDIR"
    assert error_of(os.truncate, fs / "absent", 0) == "ENOENT"
    assert error_of(os.truncate, file, -1) == "EINVAL"


def test_too_large_is_refused(fd, file):
    before = os.fstat(fd).st_size
    assert error_of(os.pwrite, fd, b"x", (1 << 63) - 1) in ("EFBIG", "EINVAL")
    assert error_of(os.ftruncate, fd, (1 << 63) - 1) in ("EFBIG", "EINVAL")
    assert os.fstat(fd).st_size == before
    assert os.pread(fd, 4, before) == b""


def test_sparse_file(fs):
    path = fs / "sparse"
    write_at(path, 3 * (1 << 30) + 17, b"far")
    assert os.stat(path).st_size == 3 * (1 << 30) + 20
    fd = os.open(path, os.O_RDONLY)
    assert os.pread(fd, 3, 3 * (1 << 30) + 17) == b"far"
    assert os.pread(fd, 70_000, 1 << 30) == bytes(70_000)
    os.fsync(fd)
    os.close(fd)
    assert os.stat(path).st_blocks * 512 < 4 * MiB


# ---- fsync, fallocate, lseek


def test_a_chunk_that_comes_in_parts_in_any_order(mount):
    """Large pieces over pages that came before, with holes between them."""
    m = mount()
    data = blob(5, 3 * MiB, "floats")
    expect = bytearray(len(data))
    pieces = [
        (MiB + 300 * 1024, 4096),
        (MiB + 4096, 256 * 1024),
        (MiB + 600 * 1024, 300 * 1024),
        (MiB + 400 * 1024, 100),
        (2 * MiB + 512 * 1024, 512 * 1024),
        (2 * MiB, 8192),
        (MiB + 280 * 1024, 400 * 1024),
        (100 * 1024, 700 * 1024),
    ]
    fd = os.open(m.mnt / "parts", os.O_CREAT | os.O_RDWR)
    for at, n in pieces:
        expect[at : at + n] = data[at : at + n]
        os.pwrite(fd, data[at : at + n], at)
        sync(m.mnt)  # each reaches the daemon by itself
        end = os.fstat(fd).st_size
        assert read_direct(m.mnt / "parts", end) == expect[:end], at
    os.close(fd)
    m.remount()
    assert (m.mnt / "parts").read_bytes() == expect


def test_fsync_of_files_and_directories(fs, fd):
    os.pwrite(fd, b"synced", 0)
    os.fsync(fd)
    os.fdatasync(fd)
    directory = os.open(fs, os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(directory)
    os.fdatasync(directory)
    os.close(directory)


def test_fsynced_data_survives_a_kill(mount):
    m = mount("commit=3600")
    data = blob(6, 3 * MiB + 17, "floats")
    fd = os.open(m.mnt / "f", os.O_CREAT | os.O_RDWR)
    os.write(fd, data)
    os.fsync(fd)
    m.kill()
    assert error_of(os.close, fd) in (None, "ENOTCONN")
    m.start()
    assert (m.mnt / "f").read_bytes() == data


def test_fallocate_modes(fs, file, fd):
    data = bytearray(file.read_bytes())
    fallocate(fd, KEEP_SIZE, 0, 2 * MiB)
    assert os.fstat(fd).st_size == len(data)
    fallocate(fd, 0, 100_000, 400_000)
    data += bytes(500_000 - len(data))
    assert os.fstat(fd).st_size == 500_000 and read_direct(file, 600_000) == data
    punch(fd, 70_001, 130_000)
    data[70_001:200_001] = bytes(130_000)
    assert file.read_bytes() == data and read_direct(file, 600_000) == data
    os.pwrite(fd, b"\xff" * 500_000, 0)
    data[:] = b"\xff" * 500_000
    fallocate(fd, ZERO_RANGE, 499_990, 100)
    data[499_990:] = bytes(100)
    assert read_direct(file, 600_000) == data and os.fstat(fd).st_size == 500_090
    fallocate(fd, ZERO_RANGE | KEEP_SIZE, 500_000, 10_000)
    assert os.fstat(fd).st_size == 500_090
    assert file.read_bytes() == data[:500_000] + bytes(90)
    punch(fd, 600_000, 10_000)  # beyond the end: nothing
    assert os.fstat(fd).st_size == 500_090


def test_fallocate_errors(fs, fd):
    assert error_of(fallocate, fd, PUNCH_HOLE, 0, 4096) in ("EOPNOTSUPP", "ENOTSUP")
    assert error_of(fallocate, fd, COLLAPSE_RANGE, 0, 4096) in ("EOPNOTSUPP", "ENOTSUP")
    assert error_of(fallocate, fd, 0, 0, 0) == "EINVAL"
    readonly = os.open(fs / "file", os.O_RDONLY)
    assert error_of(fallocate, readonly, 0, 0, 4096) == "EBADF"
    os.close(readonly)


def test_what_is_past_the_longest_file_changes_nothing(mount):
    """A file has at most 2^24 chunks. One that is empty has the size of chunks that is asked for
    now, not that of the day on which it was made."""
    m = mount("chunksize=4K")
    (m.mnt / "f").write_bytes(b"0123456789")
    (m.mnt / "empty").touch()
    fd = os.open(m.mnt / "f", os.O_RDWR)
    assert error_of(fallocate, fd, ZERO_RANGE, 5, 4096 << 24) == "EFBIG"
    os.close(fd)
    assert read_direct(m.mnt / "f", 100) == b"0123456789"
    m.remount("chunksize=64K")
    fd = os.open(m.mnt / "empty", os.O_RDWR)
    assert os.pwrite(fd, b"far", 8192 << 24) == 3
    os.fsync(fd)
    os.close(fd)
    direct = os.O_RDWR | os.O_DIRECT
    assert error_of(write_at, m.mnt / "f", 8192 << 24, b"far", direct) == "EFBIG"


def extents(fd):
    """[(start, end)] of data, as SEEK_DATA and SEEK_HOLE tell it."""
    found, at, size = [], 0, os.fstat(fd).st_size
    while at < size:
        try:
            start = os.lseek(fd, at, os.SEEK_DATA)
        except OSError:
            break
        at = os.lseek(fd, start, os.SEEK_HOLE)
        assert start < at <= size
        found.append((start, at))
    return found


@both_kinds
def test_seek_data_right_after_a_write(mount, kind):
    """The write may still be in the page cache, or in our dirty chunks: it is data all the same.
    Nor does the kernel send what it has of a file that is no frame."""
    fd = os.open(begin(mount(), kind), os.O_CREAT | os.O_RDWR)
    os.ftruncate(fd, 64 * MiB)
    for offset in (0, 5 * MiB + 1, 33 * MiB, 64 * MiB - 3):
        os.pwrite(fd, b"abc", offset)
        at = os.lseek(fd, offset, os.SEEK_DATA)
        assert at == offset, "data may not be passed over"
        assert os.lseek(fd, offset, os.SEEK_HOLE) > offset + 2
    assert error_of(os.lseek, fd, 64 * MiB, os.SEEK_DATA) == "ENXIO"
    os.close(fd)


@both_kinds
def test_many_ask_for_holes_in_what_they_have_just_written(mount, kind):
    """Each has the kernel send pages, and more ask than the daemon has threads to take these."""
    m, many, data = mount(), 40, blob(7, 256 << 10, "noise")
    paths = [begin(m, kind, f"f{n}") for n in range(many)]

    def write_and_ask(path):
        fd = os.open(path, os.O_CREAT | os.O_RDWR)
        for at in range(0, MiB, len(data)):
            os.pwrite(fd, data, at)
            assert os.lseek(fd, at, os.SEEK_DATA) == at
        os.close(fd)

    with ThreadPoolExecutor(many) as pool:
        list(pool.map(write_and_ask, paths))


def test_holes_are_found(mount):
    m = mount("chunksize=64K,blocksize=16K")
    fd = os.open(m.mnt / "f", os.O_CREAT | os.O_RDWR)
    os.ftruncate(fd, 16 * MiB)
    os.pwrite(fd, blob(7, 300_000, "noise"), 4 * MiB)
    os.fsync(fd)
    os.close(fd)
    m.remount()
    fd = os.open(m.mnt / "f", os.O_RDONLY)
    found = extents(fd)
    assert any(a <= 4 * MiB and b >= 4 * MiB + 300_000 for a, b in found)
    assert sum(b - a for a, b in found) < 2 * MiB, "the holes were not seen"
    assert error_of(os.lseek, fd, 10 * MiB, os.SEEK_DATA) == "ENXIO"
    assert error_of(os.lseek, fd, 16 * MiB, os.SEEK_HOLE) == "ENXIO"
    assert os.lseek(fd, 0, os.SEEK_HOLE) == 0
    os.close(fd)


def test_holes_between_few_of_many_chunks(mount):
    """Pages of the index that say one thing for all their chunks are passed over as one: not what
    is written to them and not stored yet, nor a chunk at either end of one."""
    m = mount("chunksize=4K,commit=3600")
    written = [0, 1, 4095, 4096, 4097, 8190, 12288, 12289, 20000, 39999]
    expected = [(0, 2), (4095, 4098), (8190, 8191), (12288, 12290), (20000, 20001), (39999, 40000)]
    expected = [(a * 4096, b * 4096) for a, b in expected]
    fd = os.open(m.mnt / "f", os.O_CREAT | os.O_RDWR)
    os.ftruncate(fd, 40000 * 4096)
    for n in written:
        os.pwrite(fd, blob(n, 4096, "noise"), n * 4096)
    assert extents(fd) == expected, "not stored yet"
    os.fsync(fd)
    os.close(fd)
    m.remount()
    fd = os.open(m.mnt / "f", os.O_RDWR)
    assert extents(fd) == expected
    for n in (2, 30000):
        os.pwrite(fd, b"x", n * 4096)
    punch(fd, 12288 * 4096, 4096)
    expected[0] = (0, 3 * 4096)
    expected[3] = (12289 * 4096, 12290 * 4096)
    expected.insert(5, (30000 * 4096, 30001 * 4096))
    assert extents(fd) == expected, "both"
    os.close(fd)


def test_many_seeks_over_millions_of_chunks(mount):
    """Each takes as much as a page of chunks, not as a chunk, times their number: or these would
    take longer than the test may, and a daemon that answers them could not end meanwhile."""
    m = mount("chunksize=4K")
    most = 1 << 24
    fd = os.open(m.mnt / "f", os.O_CREAT | os.O_RDWR)
    os.ftruncate(fd, most * 4096)
    for n in range(10_000):
        assert error_of(os.lseek, fd, n * 4096, os.SEEK_DATA) == "ENXIO"
    os.pwrite(fd, b"x", (most - 1) * 4096)
    assert os.lseek(fd, 0, os.SEEK_DATA) == (most - 1) * 4096
    os.fsync(fd)
    assert os.lseek(fd, 0, os.SEEK_DATA) == (most - 1) * 4096
    assert os.lseek(fd, (most - 1) * 4096, os.SEEK_HOLE) == most * 4096
    os.close(fd)


# ---- mmap


def test_shared_mmap(mount):
    m = mount()
    data = bytearray(blob(8, MiB + 777, "text"))
    (m.mnt / "f").write_bytes(data)
    fd = os.open(m.mnt / "f", os.O_RDWR)
    with mmap.mmap(fd, len(data)) as view:
        assert view[:] == data
        view[500_000:500_006] = b"mapped"
        data[500_000:500_006] = b"mapped"
        assert os.pread(fd, 6, 500_000) == b"mapped"
        os.pwrite(fd, b"written", 70_000)
        data[70_000:70_007] = b"written"
        assert view[70_000:70_007] == b"written"
        assert in_child(lambda: (m.mnt / "f").read_bytes()) == data
        view.flush()
        view[10:14] = b"late"
        data[10:14] = b"late"
    os.close(fd)
    m.remount()
    assert (m.mnt / "f").read_bytes() == data


def test_private_mmap_changes_nothing(file, fd):
    before = file.read_bytes()
    with mmap.mmap(fd, 0, access=mmap.ACCESS_COPY) as view:
        view[0:5] = b"12345"
    assert read_direct(file, 400_000) == before


def test_mmap_write_with_the_descriptor_closed(mount):
    m = mount()
    (m.mnt / "f").write_bytes(bytes(200_000))
    fd = os.open(m.mnt / "f", os.O_RDWR)
    view = mmap.mmap(fd, 200_000)
    os.close(fd)
    view[150_000:150_004] = b"kept"
    view.close()
    m.remount()
    assert (m.mnt / "f").read_bytes() == bytes(150_000) + b"kept" + bytes(49_996)


# ---- unlinked but open, append


def test_unlinked_but_open(mount):
    m = mount()
    fd = os.open(m.mnt / "f", os.O_CREAT | os.O_RDWR)
    os.write(fd, b"a" * 100_000)
    os.unlink(m.mnt / "f")
    assert os.listdir(m.mnt) == [] and os.fstat(fd).st_nlink == 0
    os.pwrite(fd, b"still here", 200_000)
    assert os.pread(fd, 10, 200_000) == b"still here"
    os.fsync(fd)
    os.ftruncate(fd, 10)
    assert os.pread(fd, 100, 0) == b"a" * 10
    os.fchmod(fd, 0o640)
    assert stat.S_IMODE(os.fstat(fd).st_mode) == 0o640
    (m.mnt / "f").write_bytes(b"a new file of that name")
    os.pwrite(fd, b"OLD", 0)
    assert (m.mnt / "f").read_bytes() == b"a new file of that name"
    os.close(fd)
    os.unlink(m.mnt / "f")
    assert os.listdir(m.backing) == [], "nothing stays behind"


def test_unlinked_closed_and_opened_again(mount):
    """An O_PATH descriptor keeps a file without a name. What a mapping wrote after the last
    close(2) reaches the daemon together with the end of the last use."""
    m = mount("commit=1000")
    libc = ctypes.CDLL(None, use_errno=True)  # Python's own mappings hold a descriptor
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + 3 * [ctypes.c_int] + [ctypes.c_long]
    for size, name in ((10_000, "f"), (300_001, "renamed")):
        fd = os.open(m.mnt / "f", os.O_CREAT | os.O_RDWR)
        os.write(fd, b"a" * size)
        mapped = libc.mmap(0, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, fd, 0)
        assert mapped != ctypes.c_void_p(-1).value
        place = os.open(m.mnt / "f", os.O_PATH)
        os.rename(m.mnt / "f", m.mnt / name)
        os.unlink(m.mnt / name)
        os.close(fd)
        ctypes.memset(mapped, ord("b"), size)
        assert libc.munmap(ctypes.c_void_p(mapped), ctypes.c_size_t(size)) == 0
        for _ in range(10):  # the daemon hears of that end a little later
            time.sleep(0.05)
            again = os.open(f"/proc/self/fd/{place}", os.O_RDWR | os.O_DIRECT)
            buffer = mmap.mmap(-1, -(-size // mmap.PAGESIZE) * mmap.PAGESIZE)
            assert os.preadv(again, [buffer], 0) == size and buffer[:size] == b"b" * size
            os.close(again)
        again = os.open(f"/proc/self/fd/{place}", os.O_RDWR)
        os.pwrite(again, b"c", size)
        os.fsync(again)
        os.close(again)
        assert os.stat(f"/proc/self/fd/{place}").st_size == size + 1
        os.close(place)
    assert os.listdir(m.backing) == [], "nothing stays behind"


def test_replaced_but_open(fs):
    """What an editor does: the reader of the old file keeps it."""
    (fs / "f").write_bytes(b"old" * 1000)
    fd = os.open(fs / "f", os.O_RDWR)
    (fs / "f.new").write_bytes(b"new" * 2000)
    os.rename(fs / "f.new", fs / "f")
    os.pwrite(fd, b"xxx", 0)
    assert os.pread(fd, 6, 0) == b"xxxold" and os.fstat(fd).st_size == 3000
    assert (fs / "f").read_bytes() == b"new" * 2000
    os.close(fd)


@both_kinds
def test_append(mount, kind):
    m = mount()
    file = begin(m, kind)
    fd = os.open(file, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    os.write(fd, b"one ")
    os.lseek(fd, 0, os.SEEK_SET)
    os.write(fd, b"two ")
    write_at(file, 100, b"far")
    os.write(fd, b"end")
    os.close(fd)
    m.remount()
    assert file.read_bytes() == b"one two " + bytes(92) + b"farend"


@pytest.mark.concurrent
def test_append_of_two_writers(fs):
    """Every record whole, none lost."""
    script = (
        "import os, sys\nfd = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY | os.O_APPEND)\n"
        "for i in range(2000): os.write(fd, f'{sys.argv[2]} {i:05}'.ljust(99).encode() + b'\\n')\n"
    )
    writers = [subprocess.Popen(["python3", "-c", script, fs / "f", name]) for name in "ab"]
    assert [w.wait(250) for w in writers] == [0, 0]
    lines = (fs / "f").read_bytes().split(b"\n")[:-1]
    assert sorted(lines) == sorted(
        f"{name} {i:05}".ljust(99).encode() for name in "ab" for i in range(2000)
    )


def test_room_for_a_file_that_is_no_frame(mount):
    m = mount()
    (m.backing / "f").write_bytes(b"no frame")
    with open(m.mnt / "f", "r+b", buffering=0) as f:
        assert error_of(fallocate, f.fileno(), 0, 0, 100_000) is None
        assert os.fstat(f.fileno()).st_size == 100_000
        assert error_of(fallocate, f.fileno(), PUNCH_HOLE | KEEP_SIZE, 3, 5) is None
        assert f.read(9) == b"no " + bytes(6)
        assert error_of(fallocate, f.fileno(), PUNCH_HOLE, 0, 10) == "ENOTSUP"
    assert (m.backing / "f").stat().st_size == 100_000
