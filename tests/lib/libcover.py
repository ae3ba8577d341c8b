"""Changes of a file, which old content on its way into the kernel's page cache must not hide."""

import os
import threading

from libfault import Fault
from libmount import wait_until

PAGE = 4096
NEW = b"new." * (PAGE // 4)  # a whole page, which the kernel need not read first


def write(path):
    with open(path, "r+b", buffering=0) as f:
        f.write(NEW)


def shorten(path):
    os.truncate(path, 100)


def shorten_and_append(path):
    with open(path, "wb") as f:
        f.write(b"new")
    with open(path, "ab") as f:
        f.write(b" and more")


CHANGES = {
    write: lambda old: NEW + old[PAGE:],
    shorten: lambda old: old[:100],
    shorten_and_append: lambda old: b"new and more",
}


def change_waits(fault, change, path, begin):
    """A change of a file waits while old content, which `begin` has sent, is on its way."""
    changer = threading.Thread(target=change, args=[path])
    fault.set(1, Fault.STORE, how=Fault.WAIT)
    try:
        begin()
        wait_until(fault.came, 30, "the content on its way")
        changer.start()
        changer.join(0.3)
        assert changer.is_alive()
    finally:
        fault.set(0)
        if changer.ident:
            changer.join()


def assert_changed(m, fd, new):
    """The descriptor of the file f, and the next mount, show the change."""
    assert os.fstat(fd).st_size == len(new)
    assert os.pread(fd, len(new) + PAGE, 0) == new
    os.close(fd)
    m.remount()
    assert (m.mnt / "f").read_bytes() == new
