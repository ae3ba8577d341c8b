"""cframe compress: signals, kills, and files that change while it reads them."""

import os
import signal
import subprocess
import time

import pytest

from libcompress import ENDING, compress, extracted, start
from libdata import blob
from libmount import CFRAME, SLOWNESS
from libtree import cframe


@pytest.fixture
def slow(tmp_path):
    """A file that takes seconds, on its way: (program, its path, the target)."""
    plain, made = tmp_path / "plain", tmp_path / "made"
    plain.mkdir()
    made.mkdir()
    (plain / "slow").write_bytes(blob(1, 4 << 20, "text"))
    program = start("-j1", plain, made)
    while not os.listdir(made):
        assert program.poll() is None
    assert os.listdir(made)[0].startswith(".cframe-")
    yield program, plain / "slow", made
    program.kill()
    program.communicate()


@pytest.mark.parametrize("sig", ENDING)
def test_a_signal_leaves_nothing_unfinished(slow, sig):
    program, _, made = slow
    program.send_signal(sig)
    assert program.wait(60) == -sig
    assert os.listdir(made) == []


def test_a_target_is_open_to_others_only_at_the_end(slow, tmp_path):
    """While others could write to it they could replace what is there, a sticky bit or not."""
    _, path, _ = slow
    made = tmp_path / "like the source"
    for mode, meanwhile in (0o1777, 0o755), (0o770, 0o750):
        os.chmod(path.parent, mode)
        program = start("-j1", path.parent, made)
        while not (made.exists() and os.listdir(made)):
            assert program.poll() is None
        assert made.stat().st_mode & 0o7777 == meanwhile
        program.send_signal(signal.SIGTERM)
        program.communicate()
        made.rmdir()


@pytest.mark.concurrent
def test_a_signal_among_many_files(tmp_path):
    plain, made = tmp_path / "plain", tmp_path / "made"
    plain.mkdir()
    made.mkdir()
    for n in range(400):
        (plain / f"{n}").write_bytes(blob(1, 200_000, "text"))
    program = start("-j4", plain, made)
    while not [name for name in os.listdir(made) if name.endswith(".b2frame")]:
        assert program.poll() is None
    program.send_signal(signal.SIGTERM)
    assert program.wait(60) == -signal.SIGTERM
    names = os.listdir(made)
    assert len(names) < 400 and all(name.endswith(".b2frame") for name in names), names
    assert cframe("verify", made) == ""


def test_what_a_killed_one_left(slow, mount):
    """No mount shows it, and the next run removes it; but not that of one that is at work."""
    program, path, made = slow
    m = mount(backing=made)
    assert os.listdir(m.mnt) == []
    m.unmount()
    program.send_signal(signal.SIGSTOP)
    (path.parent / "other").write_bytes(b"other")
    compress(path.parent / "other", made)
    assert len(os.listdir(made)) == 2
    program.kill()
    program.wait(60)
    (made / "sub").mkdir()
    for name in (".cframe-0123456789abcdef", ".cframe-mine"):
        (made / "sub" / name).write_bytes(b"x")
    (path.parent / "sub").mkdir()
    compress(path.parent, made)
    assert sorted(os.listdir(made)) == ["other.b2frame", "slow.b2frame", "sub"]
    assert os.listdir(made / "sub") == [".cframe-mine"]


def test_several_at_a_time(tmp_path):
    """Each removes what is left of others, and takes nothing for that which is about to be done."""
    plain, empty, made = (tmp_path / name for name in ("plain", "empty", "made"))
    for path in plain, empty, made:
        path.mkdir()
    for i in range(2000):
        (plain / f"{i}").write_bytes(b"data")
    argv = [CFRAME, "extract", "-C", made]
    for _ in range(3 if SLOWNESS == 1 else 1):
        program = subprocess.Popen([*argv, plain], stderr=-1, text=True)
        while program.poll() is None:
            assert subprocess.run([*argv, empty]).returncode == 0
        assert program.communicate()[1] == "" and len(os.listdir(made)) == 2000
        for path in made.iterdir():
            path.unlink()


def test_what_one_that_was_killed_between_two_calls_left(tmp_path):
    """Links and nodes are drafts for a moment: the next run sees whether that is over."""
    plain, made, back = (tmp_path / name for name in ("plain", "made", "back"))
    (plain / "sub").mkdir(parents=True)
    (plain / "sub/x").write_bytes(b"data")
    compress(plain, made)
    extracted(made, back)
    for top, name in (made, "x.b2frame"), (back, "x"):
        os.link(top / "sub" / name, top / "sub/.cframe-0123456789abcdef")
        os.symlink("text", top / "sub/.cframe-123456789abcdef0")
        os.mkfifo(top / "sub/.cframe-23456789abcdef01")
        os.symlink("text", top / "sub/.cframe-mine")
        os.mkdir(top / "sub/.cframe-3456789abcdef012")
    busy = made / "sub/.cframe-456789abcdef0123"
    os.mkfifo(busy)
    program = start(plain, made)
    while program.poll() is None:  # it changes: somebody is at it
        os.utime(busy)
        time.sleep(0.1)
    assert program.communicate()[1] == ""
    busy.unlink()
    extracted(made, back)
    for top, name in (made, "x.b2frame"), (back, "x"):
        mine = [".cframe-3456789abcdef012", ".cframe-mine"]
        assert sorted(os.listdir(top / "sub")) == [*mine, name]


def test_a_file_that_changes_is_told(slow, tmp_path):
    program, path, made = slow
    program.send_signal(signal.SIGSTOP)
    was = path.read_bytes()
    with open(path, "ab") as f:
        f.write(b"more")
    program.send_signal(signal.SIGCONT)
    _, said = program.communicate(timeout=240)
    assert said == f"cframe: {path}: has changed while it was read\n" and program.returncode == 1
    assert (extracted(made, tmp_path / "back") / "slow").read_bytes() == was


def test_a_file_that_gets_shorter_is_left_out(slow):
    program, path, made = slow
    program.send_signal(signal.SIGSTOP)
    os.truncate(path, 1000)
    program.send_signal(signal.SIGCONT)
    _, said = program.communicate(timeout=240)
    assert program.returncode == 1
    assert said == f"cframe: {path}: became shorter while it was read; left out\n"
    assert os.listdir(made) == []
