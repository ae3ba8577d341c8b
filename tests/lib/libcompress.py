"""What tests of cframe compress share: the command, and a tree of all kinds of files for it."""

import os
import signal
import subprocess

import pytest

from libdata import KINDS, blob
from libmount import CFRAME
from libtree import cframe

DATA = blob(1, 2_500_001, "text")
HOLE = 64 << 20
MTIME = 1_600_000_000_123_456_789


def compress(*args, code=0, **how):
    return cframe("compress", *args, code=code, **how)


def extracted(frames, plain):
    """What cframe extract makes of frames; it must print nothing."""
    assert cframe("extract", "-C", plain, frames) == ""
    return plain


def fill(top):
    """Files of all kinds, of lengths near those of chunks and blocks; links; holes."""
    (top / "sub/deep").mkdir(parents=True)
    (top / "big").write_bytes(DATA)
    for kind in KINDS:
        for size in (0, 1, 31, 65536, 1_000_003, 1 << 20, (1 << 20) + 1, 3_145_735):
            (top / "sub" / f"{kind} {size}").write_bytes(blob(2, size, kind))
    (top / "sub/deep/run").write_bytes(b"#!/bin/sh\n")
    os.chmod(top / "sub/deep/run", 0o4751)
    os.chmod(top / "sub/deep", 0o700)
    os.link(top / "big", top / "sub/other name of big")
    os.link(top / "big", top / "third name of big")
    (top / "sub/link").symlink_to("../big")
    (top / "dangling").symlink_to("/no/such/file")
    with open(top / "holes", "wb") as f:
        f.truncate(HOLE + 5)
        os.pwrite(f.fileno(), b"x" * 100, HOLE // 2)
    for path in top.rglob("*"):
        os.utime(path, ns=(1, MTIME), follow_symlinks=False)


@pytest.fixture
def full(tmp_path):
    """A tree of all kinds of files, to be compressed."""
    (tmp_path / "plain").mkdir()
    fill(tmp_path / "plain")
    return tmp_path / "plain"


def as_nobody(*paths):
    """How subprocess runs cframe as a user who is not root, if that one gets to it and to the
    paths: not in a checkout below /root."""
    for path in (CFRAME, *paths):
        for above in (path, *path.parents):
            if not above.stat().st_mode & 0o001:
                pytest.skip("another user does not get there")
    return {"user": 65534, "group": 65534, "extra_groups": []}


# end a program by default; SIGUSR1 and 2 tell a batch job of its time limit
ENDING = [
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGPIPE,
    signal.SIGQUIT,
    signal.SIGXCPU,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGALRM,
]


def start(*args):
    """Starts a cframe compress that takes its time."""
    return subprocess.Popen(
        [CFRAME, "compress", "--codec=zstd", "--level=9", *args],
        stderr=-1,
        text=True,
        # it may be ignored if the tests run in the background, and children inherit that
        preexec_fn=lambda: [signal.signal(s, signal.SIG_DFL) for s in ENDING],
    )
