"""Small files whose content the kernel gets when they are opened."""

import errno
import os
import threading
import time

import pytest

from libcover import CHANGES, NEW, PAGE, assert_changed, change_waits, write
from libdata import blob
from libfault import Fault
from libmount import wait_until
from libposix import error_of
from libstats import Moved

MOST = 64 << 10


def cold(m, **contents):
    """A fresh mount that has not read those files yet; their names are known, as after ls. They are
    old: what has just changed is not kept from one open to the next."""
    for name, content in contents.items():
        (m.mnt / name).write_bytes(content)
        os.utime(m.mnt / name, (1e9, 1e9))
    m.remount()
    for name in contents:
        os.stat(m.mnt / name)
    return m


@pytest.mark.parametrize("size", [1, 100, PAGE - 1, PAGE, PAGE + 1, 50_001, MOST])
def test_reading_a_small_file_takes_no_request(mount, size):
    content = blob(1, size, "text")
    m = cold(mount(), f=content)
    with Moved(m) as moved:
        assert (m.mnt / "f").read_bytes() == content
        assert (m.mnt / "f").read_bytes() == content
    assert moved("requests", "read") == 0 and moved("requests", "open") == 2
    assert moved("read", "preloaded_files") == 1
    assert moved("read", "returned_bytes") == size


@pytest.mark.parametrize(
    "size, flags", [(0, 0), (MOST + 1, 0), (PAGE, os.O_DIRECT), (PAGE, os.O_RDWR)]
)
def test_others_are_read_when_somebody_reads(mount, size, flags):
    m = cold(mount(), f=blob(2, size, "text"))
    with Moved(m) as moved:
        os.close(os.open(m.mnt / "f", flags))
    assert moved("read", "preloaded_files") == moved("read", "decoded_blocks") == 0


def test_short_chunks(mount):
    content = blob(3, 50_001, "text")
    m = cold(mount("chunksize=4K,blocksize=4K"), f=content)
    assert (m.mnt / "f").read_bytes() == content


def test_a_damaged_file_opens_and_cannot_be_read(mount):
    content = blob(4, 50_001, "noise")
    m = cold(mount().allow("^cframefs: error"), f=content)
    m.unmount()
    with open(m.stored("f"), "r+b") as f:
        f.seek(os.path.getsize(m.stored("f")) // 2)
        byte = f.read(1)[0]
        f.seek(-1, os.SEEK_CUR)
        f.write(bytes([byte ^ 1]))
    m.start()
    fd = os.open(m.mnt / "f", os.O_RDONLY)
    assert error_of(os.pread, fd, 10, 0) == "EIO"
    os.close(fd)


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_waits_until_the_content_is_there(faulty, change):
    """The content of before must not cover it, nor make the file as long as it was."""
    m, fault = faulty()
    old = blob(5, 50_001, "noise")
    cold(m, f=old)
    fds = []
    opener = threading.Thread(target=lambda: fds.append(os.open(m.mnt / "f", os.O_RDONLY)))
    change_waits(fault, change, m.mnt / "f", opener.start)
    opener.join()
    assert_changed(m, fds[0], CHANGES[change](old))


def test_another_program_changes_the_file_meanwhile(faulty):
    """Its content of before must not stay in the kernel, once the mount knows."""
    m, fault = faulty()
    old, new = blob(7, 50_001, "noise"), blob(8, 50_001, "noise")
    m.options = "entry_timeout=0,attr_timeout=0"
    cold(m, f=old, g=new)
    fds = []
    opener = threading.Thread(target=lambda: fds.append(os.open(m.mnt / "f", os.O_RDONLY)))
    fault.set(1, Fault.STORE, how=Fault.WAIT)
    try:
        opener.start()
        wait_until(fault.came, 30, "the content on its way")
        with open(m.stored("f"), "r+b") as f:
            f.write(m.stored("g").read_bytes())
            f.truncate()
        (m.mnt / "f").stat()
        time.sleep(0.5)  # the kernel is told by a thread of its own
    finally:
        fault.set(0)
        opener.join()
    wait_until(lambda: os.pread(fds[0], len(old), 0) == new, what="the new content")
    os.close(fds[0])
    assert (m.mnt / "f").read_bytes() == new


def test_what_the_kernel_does_not_take_is_read(faulty):
    m, fault = faulty()
    m.allow("^fuse: writing device: Cannot allocate memory")
    content = blob(6, 50_001, "text")
    cold(m, f=content)
    fault.set(1, Fault.STORE, error=errno.ENOMEM)
    with Moved(m) as moved:
        assert (m.mnt / "f").read_bytes() == content
    assert fault.came() and moved("requests", "read") == 1
    assert moved("read", "preloaded_files") == 0


@pytest.mark.concurrent
def test_opened_by_many_at_once(mount):
    """Readers see old or new bytes, nothing else, and nothing that was written is lost. A page that
    is read while it is written may have some of both: the kernel keeps nobody out."""
    names = [f"f{i}" for i in range(60)]
    old = {name: blob(i, 20_000 + i, "text") for i, name in enumerate(names)}
    m = cold(mount(), **old)
    strange = []

    def read_all(order):
        for name in names[::order]:
            got = (m.mnt / name).read_bytes()
            known = zip(got, old[name], NEW + old[name][PAGE:])
            if len(got) != len(old[name]) or any(g not in (a, b) for g, a, b in known):
                strange.append(name)

    def write_all():
        for name in names[::2]:
            write(m.mnt / name)

    threads = [threading.Thread(target=read_all, args=[order]) for order in (1, -1, 1, -1)]
    threads += [threading.Thread(target=write_all) for _ in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not strange
    new = {
        name: NEW + old[name][PAGE:] if i % 2 == 0 else old[name] for i, name in enumerate(names)
    }
    assert {name: (m.mnt / name).read_bytes() for name in names} == new
    m.remount()
    assert {name: (m.mnt / name).read_bytes() for name in names} == new
