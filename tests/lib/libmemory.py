"""How much memory a daemon takes."""

import re

from libmount import SLOWNESS


def _status(m, field):
    with open(f"/proc/{m.proc.pid}/status", encoding="ascii") as f:
        return int(re.search(rf"{field}:\s+(\d+) kB", f.read())[1]) << 10


def peak(m):
    """The most memory that the daemon ever had, in bytes."""
    return _status(m, "VmHWM")


def addresses(m):
    """Bytes that it has allocated, touched or not, with the stacks of its threads."""
    return _status(m, "VmData")


def resident(m):
    """Bytes of memory that the daemon has now."""
    return _status(m, "VmRSS")


def held_to(m, most):
    if SLOWNESS > 1:
        return  # a sanitizer's shadow memory counts too
    got = peak(m)
    assert got < most, f"{got >> 20} MiB of memory, more than {most >> 20}"
