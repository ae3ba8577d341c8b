"""Trees of files, and commands that make one from another."""

import contextlib
import os
import stat
import subprocess

from libmount import CFRAME
from libprogram import skip_or_fail


def cframe(*args, code=0, **how):
    """Runs cframe; what it said on standard error."""
    argv = [str(a) if isinstance(a, os.PathLike) else a for a in (CFRAME, *args)]
    got = subprocess.run(argv, capture_output=True, timeout=240, **how)
    assert got.returncode == code, got
    return got.stderr.decode(errors="surrogateescape")


def tree(top):
    """Everything below a directory: {path: type, mode, mtime, names of the file, content}."""
    found, first = {}, {}
    for where, dirs, files in sorted(os.walk(top)):
        for name in sorted(dirs + files):
            path = os.path.join(where, name)
            st, rel = os.lstat(path), os.path.relpath(path, top)
            what = None
            if stat.S_ISLNK(st.st_mode):
                what = os.readlink(path)
            elif stat.S_ISREG(st.st_mode):
                with open(path, "rb") as f:
                    what = f.read()
            names = first.setdefault((st.st_dev, st.st_ino), rel)
            owner = (st.st_uid, st.st_gid)
            found[rel] = (oct(st.st_mode), owner, st.st_mtime_ns, names, what)
    return found


def assert_same(got, wanted):
    got, wanted = tree(got), tree(wanted)
    assert sorted(got) == sorted(wanted)
    for path in wanted:
        assert got[path][:4] == wanted[path][:4], path
        assert got[path][4] == wanted[path][4], path


@contextlib.contextmanager
def small_disk(where, size="1M"):
    """A file system of that size at a directory."""
    where.mkdir()
    argv = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", where]
    if subprocess.run(argv, capture_output=True).returncode:
        skip_or_fail("no tmpfs can be mounted")
    try:
        yield
    finally:
        subprocess.run(["umount", where], check=True)
