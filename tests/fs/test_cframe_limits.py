"""cframe where the system gives it little."""

import errno
import os
import subprocess
from types import SimpleNamespace

import pytest

from libdata import blob
from libfault import Fault
from libmount import CFRAME
from libtree import cframe, small_disk

DATA = blob(1, 2_500_001, "text")


def test_no_thread_besides_its_own(root, work):
    """All that several threads share is done by the one that there is."""
    nobody = 54321  # with no other process
    plain, store, back = work / "plain", work / "store", work / "back"
    (plain / "sub").mkdir(parents=True)
    for name in ("large", "sub/a", "sub/b"):
        (plain / name).write_bytes(DATA)
    os.link(plain / "large", plain / "other")
    env = os.environ | {"ASAN_OPTIONS": "detect_leaks=0"}  # which takes a thread
    limit = ["setpriv", f"--reuid={nobody}", "--clear-groups", "prlimit", "--nproc=1:1", CFRAME]
    for where in (store, back):
        where.mkdir()
        os.chown(where, nobody, -1)
    for args in (
        ("compress", plain, store),
        ("verify", store),
        ("extract", "-C", back, store),
    ):
        got = subprocess.run([*limit, *args], capture_output=True, timeout=120, env=env)
        assert (got.returncode, got.stdout, got.stderr) == (0, b"", b""), args
    for name in ("large", "sub/a", "sub/b", "other"):
        assert (back / name).read_bytes() == DATA


@pytest.mark.parametrize("most", [8, 12, 20])
def test_few_descriptors(work, most):
    plain, store, back = work / "plain", work / "store", work / "back"
    deep = plain / "/".join("d" * (most // 4))
    deep.mkdir(parents=True)
    for name in range(30):
        for where in (plain, deep):
            (where / f"{name:02}").write_bytes(DATA[: 1000 * name])
    cframe("compress", plain, store)
    (store / "15.b2frame").write_bytes(b"no frame")
    limit = ["prlimit", f"--nofile={most}:{most}", CFRAME]
    got = subprocess.run([*limit, "verify", store], capture_output=True, timeout=120)
    assert got.stdout == f"{store}/15.b2frame: is not a Blosc2 frame\n".encode(), got
    assert got.returncode == 1 and not back.exists()


def test_a_file_system_below_the_target(root, work):
    """The sync of the target at the end does not reach it."""
    plain, store, back = work / "plain", work / "store", work / "back"
    (plain / "sub").mkdir(parents=True)
    (plain / "sub/x").write_bytes(b"x")
    cframe("compress", plain, store)
    frame = store / "sub/x.b2frame"
    back.mkdir()
    with small_disk(back / "sub"):
        program = SimpleNamespace(argv=[CFRAME, "extract", "-C", back, store])
        fault = Fault(program, work / "fault")
        fault.set(1, Fault.SYNC, errno.EIO)
        got = subprocess.run(program.argv, stderr=-1, text=True)
        assert (got.returncode, got.stderr) == (1, f"cframe: {frame}: Input/output error\n")
        assert os.listdir(back / "sub") == []
