"""More files than the kernel may remember: it is asked to forget those that nobody uses."""

import contextlib
import mmap
import os
import subprocess
import threading

import pytest

from libdata import blob
from libfault import Fault
from libmount import wait_until
from libposix import error_of
from libstats import stats

MOST = 100


def known(m):
    return stats(m)["memory"]["inodes"]


def walk(top):
    return {
        entry.path: entry.stat(follow_symlinks=False).st_size
        for where, _, _ in os.walk(top)
        for entry in os.scandir(where)
        if not entry.is_dir(follow_symlinks=False)
    }


def fill(backing, ndirs, nfiles):
    for d in range(ndirs):
        (backing / f"d{d}").mkdir()
        for i in range(nfiles):
            (backing / f"d{d}/f{i}").write_bytes(b"x" * i)


@pytest.fixture(params=["now", "before 6.18"])
def kernel(request):
    def prepare(m):
        if request.param != "now":
            Fault(m, m.work / "fault").set(0, Fault.OLD_KERNEL)

    return prepare


def test_the_oldest_are_forgotten(mount, kernel):
    m = mount(f"inodes={MOST}", start=False)
    kernel(m)
    fill(m.backing, 4, 500)
    (m.backing / "d0/torn.b2frame").write_bytes(b"no frame, and shown under its own name")
    m.start().allow("torn")
    for _ in range(2):
        sizes = walk(m.mnt)
        assert len(sizes) == 2001 and sizes[f"{m.mnt}/d3/f77"] == 77
        wait_until(lambda: known(m) <= MOST, 20, "files to be forgotten")
    m.remount("")
    walk(m.mnt)
    assert known(m) > 2000


def test_all_names_of_a_file_are_forgotten(mount):
    """The kernel remembers a file as long as it does one of its names."""
    m = mount(f"inodes={MOST}", start=False)
    fill(m.backing, 3, 0)
    for i in range(500):
        (m.backing / f"d0/f{i}").write_bytes(b"x" * i)
        for d in (1, 2):
            (m.backing / f"d{d}/f{i}").hardlink_to(m.backing / f"d0/f{i}")
    m.start()
    for i in range(500):
        assert [(m.mnt / f"d{d}/f{i}").stat().st_size for d in range(3)] == [i] * 3
    wait_until(lambda: known(m) <= MOST, 20, "files to be forgotten")


def test_what_is_in_use_stays(mount, kernel):
    """Open files, mapped ones, locked ones."""
    m = mount(f"inodes={MOST},commit=0", start=False)
    kernel(m)
    fill(m.backing, 4, 300)
    m.start()
    data = bytearray(blob(1, 300_000, "text"))
    (m.mnt / "mapped").write_bytes(data)
    (m.mnt / "d1/open").write_bytes(data)
    with open(m.mnt / "mapped", "r+b") as f, open(m.mnt / "d1/open", "r+b", buffering=0) as g:
        view = mmap.mmap(f.fileno(), 0)
        os.lockf(g.fileno(), os.F_LOCK, 10)
        before = [os.fstat(x.fileno()).st_ino for x in (f, g)]
        g.write(b"newer")
        for _ in range(3):
            walk(m.mnt)
            wait_until(lambda: known(m) <= MOST, 20, "files to be forgotten")
            view[1000:1005] = b"newer"
        assert [os.stat(x.name).st_ino for x in (f, g)] == before
        assert os.readlink(f"/proc/self/fd/{g.fileno()}") == str(m.mnt / "d1/open")
        if os.fork() == 0:
            with open(m.mnt / "d1/open", "r+b") as other:
                os._exit(error_of(os.lockf, other.fileno(), os.F_TLOCK, 10) != "EAGAIN")
        assert os.wait()[1] == 0
        view.close()
    data[:5] = data[1000:1005] = b"newer"
    assert (m.mnt / "mapped").read_bytes()[5:] == data[5:]
    assert (m.mnt / "d1/open").read_bytes()[:5] == b"newer"


def work_on(top, k, failures):
    """Files that are made, written, renamed, linked and removed, each step looked at."""
    try:
        for i in range(60):
            a, b = top / f"w{k}.{i}", top / f"v{k}.{i}"
            data = blob(i, 3_000 + 777 * i, "text")
            a.write_bytes(data)
            os.utime(a, ns=(10**18, 10**18 + i))
            os.rename(a, b)
            os.link(b, a)
            assert a.read_bytes() == data and b.stat().st_nlink == 2
            assert b.stat().st_mtime_ns == 10**18 + i
            a.unlink()
            with open(b, "ab") as f:
                f.write(b"more")
            assert b.read_bytes() == data + b"more"
            if i % 3:
                b.unlink()
    except BaseException as e:
        failures.append(e)
        raise


@pytest.mark.concurrent
def test_forgetting_beside_work(mount):
    m = mount(f"inodes={MOST},entry_timeout=0", start=False)
    fill(m.backing, 3, 200)
    m.start()
    failures, done = [], threading.Event()
    threads = [
        threading.Thread(target=work_on, args=(m.mnt / f"d{k}", k, failures)) for k in range(3)
    ]
    for thread in threads:
        thread.start()

    def look():
        while not done.is_set():
            with contextlib.suppress(FileNotFoundError):
                walk(m.mnt)

    looking = threading.Thread(target=look)
    looking.start()
    for thread in threads:
        thread.join()
    done.set()
    looking.join()
    assert not failures
    wait_until(lambda: known(m) <= MOST, 20, "files to be forgotten")


def kernel_prunes():
    return tuple(map(int, os.uname().release.split(".")[:2])) >= (6, 18)


@pytest.mark.skipif(not kernel_prunes(), reason="a kernel before 6.18")
def test_what_is_mounted_on_a_file_stays(mount):
    m = mount(f"inodes={MOST}", start=False)
    fill(m.backing, 2, 300)
    m.start()
    (m.work / "other").write_bytes(b"other")
    target = m.mnt / "d0/f1"
    subprocess.run(["mount", "--bind", m.work / "other", target], check=True)
    try:
        for _ in range(3):
            walk(m.mnt)
            wait_until(lambda: known(m) <= MOST, 20, "files to be forgotten")
        assert target.read_bytes() == b"other"
    finally:
        subprocess.run(["umount", target], check=True)
