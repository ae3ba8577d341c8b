"""cframe verify beside a mount: no false alarms, and no false comfort."""

import contextlib
import os
import random
import subprocess
import threading

import pytest

from libdata import blob
from libmount import CFRAME

pytestmark = pytest.mark.release


def verify(*paths):
    got = subprocess.run([CFRAME, "verify", *paths], capture_output=True, text=True, timeout=300)
    return got.returncode, got.stdout + got.stderr


@contextlib.contextmanager
def repeated(act):
    """In a thread, again and again."""
    end = threading.Event()

    def run():
        while not end.is_set():
            act()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


def test_what_is_being_written_is_no_damage(mount):
    m = mount()
    data = blob(1, 20 << 20, "text")
    (m.mnt / "f").write_bytes(data)
    rng = random.Random(1)
    with open(m.mnt / "f", "r+b", buffering=0) as f:

        def write():
            for _ in range(20):
                os.pwrite(f.fileno(), rng.randbytes(50_000), rng.randrange(len(data) - 50_000))
            os.fsync(f.fileno())

        with repeated(write):
            said = [verify(m.backing) for _ in range(8)]
    busy = (1, f"{m.stored('f')}: is being written, and could not be checked meanwhile\n")
    assert {*said, busy} == {(0, ""), busy}
    m.unmount()
    assert verify(m.backing) == (0, "")


def test_what_is_damaged_stays_so(mount):
    m = mount()
    (m.mnt / "f").write_bytes(blob(1, 100_000, "text"))
    m.unmount()
    frame = m.stored("f")
    with open(frame, "r+b") as f:
        f.seek(500)
        f.write(bytes(100))
    code, said = verify(m.backing)
    assert code == 1 and said.count("\n") == 1 and said.startswith(f"{frame}: chunk 0: corrupt: ")
    with repeated(lambda: os.utime(frame)):
        code, said = verify(frame)
    assert (code, said) == (1, f"{frame}: is being written, and could not be checked meanwhile\n")


def test_files_that_go_are_no_problem(mount):
    m = mount()
    (m.mnt / "stays").write_bytes(b"x")

    def come_and_go():
        for n in range(30):
            (m.mnt / f"{n}").write_bytes(b"y")
        for n in range(30):
            os.unlink(m.mnt / f"{n}")

    with repeated(come_and_go):
        assert {verify(m.backing) for _ in range(20)} == {(0, "")}
    nosuch = m.backing / "nosuch.b2frame"
    assert verify(nosuch) == (1, f"{nosuch}: No such file or directory\n")


def test_an_empty_file_is_one_in_a_mount(mount, tmp_path):
    m = mount()
    (m.backing / "x.b2frame").touch()
    assert os.listdir(m.mnt) == ["x"] and (m.mnt / "x").read_bytes() == b""
    assert verify(m.backing) == (0, "")
    (m.backing / "y.b2nd").touch()  # which has no shape
    assert verify(m.backing) == (1, f"{m.backing}/y.b2nd: is not a Blosc2 frame\n")


def test_where_nothing_is_checked_this_is_said(mount, tmp_path):
    m = mount()
    (m.mnt / "d").mkdir()
    (m.mnt / "d/f").write_bytes(b"x")
    for path in (m.mnt, m.mnt / "d"):
        assert verify(path) == (1, f"{path}: is in a mount: name the backing directory\n")
    (tmp_path / "plain").touch()
    assert verify(tmp_path) == (0, f"cframe: {tmp_path}: no frames are there\n")
