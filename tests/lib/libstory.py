"""Stories played on a plain directory and on the mount: the same results, errors and attributes.

A file of them makes its `story = Stories()`, decorates each with it, and has one test, over all
that are in `story`, which calls `assert_same_story`.
"""

import contextlib
import os
import stat

from libposix import error_of


class Stories(list):
    """Those of a file. A story gets an empty directory and returns or yields what both sides must
    agree on."""

    def __call__(self, function):
        self.append(function)
        return function


def attributes(path):
    got = os.lstat(path)
    size = got.st_size if not stat.S_ISDIR(got.st_mode) else None
    return oct(got.st_mode), got.st_nlink, got.st_uid, got.st_gid, size, got.st_rdev


def listing(top):
    return {name: attributes(top / name) for name in sorted(os.listdir(top))}


@contextlib.contextmanager
def opened(path, flags=os.O_RDWR | os.O_CREAT, mode=0o644):
    fd = os.open(path, flags, mode)
    try:
        yield fd
    finally:
        os.close(fd)


def try_open(path, *arguments, **kw):
    return error_of(lambda: os.close(os.open(path, *arguments, **kw)))


def assert_same_story(play, plain, m):
    """A story tells the same of a plain directory and of a mount."""
    sides = []
    for top in (plain, m.mnt):
        os.chmod(m.backing, 0o755)
        (top / "t").mkdir()
        got = play(top / "t")
        sides.append(list(got) if hasattr(got, "__next__") else [got])
    differ = [(a, b) for a, b in zip(*sides) if a != b]
    assert not differ, (
        "\n".join(f"plain: {a}\nmount: {b}" for a, b in differ[:25])
        + f"\n{len(differ)} differences"
    )
    assert len(sides[0]) == len(sides[1])
