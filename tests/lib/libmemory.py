"""How much memory a daemon took."""

import re

from libmount import SLOWNESS


def peak(m):
    """Most bytes of memory that the daemon ever had."""
    with open(f"/proc/{m.proc.pid}/status", encoding="ascii") as f:
        return int(re.search(r"VmHWM:\s+(\d+) kB", f.read())[1]) << 10


def held_to(m, most):
    if SLOWNESS > 1:
        return  # a sanitizer's shadow memory counts too
    got = peak(m)
    assert got < most, f"{got >> 20} MiB of memory, more than {most >> 20}"
