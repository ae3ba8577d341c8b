"""Libraries of tests/c that are preloaded into a daemon; one of them makes calls on the backing
directory fail when a test says so (fault_inject.c)."""

import ctypes
import errno
import mmap
import os

from libmount import BUILD


def preloaded(library, argv, **variables):
    """A daemon's command line with a library of tests/c before its own, and what that is told."""
    return [
        "env",
        f"LD_PRELOAD={BUILD}/tests/c/{library}.so",
        f"ASAN_OPTIONS=verify_asan_link_order=0:{os.environ.get('ASAN_OPTIONS', '')}",
        *(f"{name}={value}" for name, value in variables.items()),
        *argv,
    ]


class Control(ctypes.Structure):
    """The same as in tests/c/fault_inject.c."""

    _fields_ = [
        ("left", ctypes.c_int64),
        ("how", ctypes.c_uint32),
        ("error", ctypes.c_uint32),
        ("calls", ctypes.c_uint32),
        ("forever", ctypes.c_uint32),
        ("lose", ctypes.c_uint32),
        ("hits", ctypes.c_uint32),
        ("last", ctypes.c_char * 32),
        ("unreadable", ctypes.c_uint32),
    ]


class Fault:
    """Makes the n-th backing call of a kind fail, in a daemon that is started later."""

    READ, WRITE, SPACE, SYNC, NAME, OPEN, FSYNC = 1, 2, 4, 8, 16, 32, 64
    OLD_KERNEL = 128  # no call: as if it cleared set-id bits itself
    MEMORY = 256  # the daemon's own; not in sanitized builds
    STORE = 512  # what it puts into the kernel's page cache by itself
    ACCESS = 1024  # faccessat
    LIST = 2048  # readdir
    STAT = 4096  # fstatat
    LATE_GUARD = 8192  # no call: the guard waits before it becomes one
    XATTR = 16384  # setxattr, fsetxattr
    SYNCFS = 32768
    FSTAT = 65536  # fstat, and statx of a descriptor
    CHANGE = WRITE | SPACE | SYNC | NAME  # what is on the disk
    # `how`, instead of an error. WAIT: until such calls no longer count; WRONG: a read's bytes are;
    # DONE: an error, though it was done.
    SHORT, KILL, WAIT, WRONG, DONE = 1, 2, 3, 4, 5
    THEN_WAIT = 2  # `forever`: later calls do not fail, but wait

    def __init__(self, m, path):
        path.write_bytes(bytes(mmap.PAGESIZE))
        with open(path, "r+b") as f:
            self.control = Control.from_buffer(mmap.mmap(f.fileno(), 0))
        self.m, self.plain = m, m.argv
        m.argv = preloaded("fault_inject", m.argv, FAULT_INJECT=path)

    def set(self, n, calls=0, error=errno.ENOSPC, forever=0, how=0, lose=0):
        """The n-th call from now on fails; 0: none does. Forgets earlier ones."""
        self.stop()
        self.control.hits, self.control.last = 0, b""
        self.control.error, self.control.forever, self.control.lose = error, forever, lose
        self.control.calls = calls
        self.control.how = how  # last: a call that waits looks at this
        self.control.left = n

    def stop(self):
        """Nothing fails from now on; what failed can still be asked for."""
        self.control.left = 0

    def came(self):
        return self.control.hits > 0

    def last(self):
        """The call that failed first."""
        return self.control.last.decode()

    def off(self):
        """The next daemon is started without it."""
        self.set(0)
        self.m.argv = self.plain
