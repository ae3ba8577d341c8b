"""cframe where the system gives it little."""

import errno
import os
import shutil
import subprocess
from types import SimpleNamespace

import pytest

from libcompress import as_nobody
from libdata import blob
from libfault import Fault
from libmount import CFRAME, REPO
from libtree import assert_same, cframe, small_disk

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
    as_nobody(work)  # skips where another user does not get to the program
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


@pytest.mark.parametrize("depth", [0, 1, 5])
def test_no_more_descriptors_than_needed(work, depth):
    """13, and two for each level of the tree: there is one file at a time then."""
    plain, store, back = work / "plain", work / "store", work / "back"
    deep = plain / "/".join("d" * depth)
    deep.mkdir(parents=True)
    for where in (plain, deep):
        for name in range(30):
            (where / f"{name:02}").write_bytes(DATA[: 1000 * name])
    most = 13 + 2 * depth
    limit = ["prlimit", f"--nofile={most}:{most}", CFRAME]

    def run(*args):
        got = subprocess.run([*limit, *args], capture_output=True, timeout=120)
        assert (got.returncode, got.stdout, got.stderr) == (0, b"", b""), args

    run("compress", plain, store)
    run("extract", "-C", back, store)
    assert_same(back, plain)
    for name in "abc":  # which has files of its own
        shutil.copytree(REPO / "tests/data/frames/sparse.b2frame", store / f"{name}.b2frame")
    run("verify", store)
    run("extract", "-C", work / "more", store)
    assert (work / "more/a").stat().st_size


@pytest.mark.release  # a sanitizer needs terabytes of it
@pytest.mark.parametrize("threads", [1, 64])
def test_little_address_space(tmp_path, threads):
    """Batch systems limit that, on machines of many processors."""
    plain, made, back = (tmp_path / name for name in ("plain", "made", "back"))
    plain.mkdir()
    for name in range(32):
        (plain / str(name)).write_bytes(DATA)
    limit = ["prlimit", f"--as={150 << 20}", CFRAME]
    for argv in ["compress", "-j", str(threads), plain, made], ["extract", "-C", back, made]:
        got = subprocess.run([*limit, *argv], capture_output=True, timeout=120)
        assert got.returncode == 0 and not got.stderr, got
    assert_same(back, plain)


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


def test_directories_above_that_tell_nothing_of_themselves(work):
    """The way up ends all the same."""
    (work / "x").write_bytes(DATA)
    cframe("compress", work / "x", work / "store")
    program = SimpleNamespace(argv=[CFRAME, "info", work / "store/x.b2frame"])
    fault = Fault(program, work / "fault")
    n, came = 0, True
    while came:
        n += 1
        fault.set(n, Fault.FSTAT, errno.EIO, forever=1)
        got = subprocess.run(program.argv, capture_output=True, timeout=60, text=True)
        came = fault.came()
        told = (0, "") if got.returncode == 0 else (1, "cframe: ")
        assert (got.returncode, got.stderr[:8]) == told, (n, got)
    assert n > 4


def test_a_call_that_is_done_but_fails_leaves_no_draft(work):
    """On a network an answer may get lost. Nobody looks for drafts before the next run."""
    plain, store, back = work / "plain", work / "store", work / "back"
    plain.mkdir()
    (plain / "a").write_bytes(DATA)
    os.link(plain / "a", plain / "b")
    cframe("compress", plain, store)
    program = SimpleNamespace(argv=[CFRAME, "extract", "-C", back, store])
    fault = Fault(program, work / "fault")
    for n in range(1, 60):
        fault.set(n, Fault.NAME, errno.EIO, how=Fault.DONE)
        got = subprocess.run(program.argv, capture_output=True, timeout=60)
        if not fault.came():
            break
        left = os.listdir(back) if back.exists() else []
        assert set(left) <= {"a", "b"}, (n, fault.last(), left, got)
        shutil.rmtree(back, ignore_errors=True)
    assert n > 4 and got.returncode == 0


def test_a_file_system_below_the_target(root, work):
    """The sync of the target at the end does not reach it."""
    plain, store, back = work / "plain", work / "store", work / "back"
    (plain / "sub").mkdir(parents=True)
    (plain / "sub/x").write_bytes(b"x")
    cframe("compress", plain, store)
    back.mkdir()
    with small_disk(back / "sub"):
        program = SimpleNamespace(argv=[CFRAME, "extract", "-C", back, store])
        fault = Fault(program, work / "fault")
        fault.set(1, Fault.SYNC, errno.EIO)
        got = subprocess.run(program.argv, stderr=-1, text=True)
        assert (got.returncode, got.stderr) == (1, f"cframe: {back}/sub/x: Input/output error\n")
        assert os.listdir(back / "sub") == []


@pytest.mark.parametrize("command", ["compress", "extract"])
def test_names_on_a_file_system_below_the_target(root, work, command):
    """These, and the attributes of directories, are on the disk as well."""
    source, made = work / "source", work / "made"
    (source / "sub/deep").mkdir(parents=True)
    (source / "sub/deep/link").symlink_to("text")
    made.mkdir()
    args = {"compress": [source, made], "extract": ["-C", made, source]}[command]
    with small_disk(made / "sub"):
        program = SimpleNamespace(argv=[CFRAME, command, *args])
        fault = Fault(program, work / "fault")
        for n, name in ((1, "sub/deep"), (2, "sub")):
            fault.set(n, Fault.SYNC, errno.EIO)
            got = subprocess.run(program.argv, stderr=-1, text=True)
            wanted = f"cframe: {made}/{name}: Input/output error\n"
            assert (got.returncode, got.stderr) == (1, wanted)


@pytest.mark.parametrize("command", ["compress", "extract"])
def test_a_link_that_fails(work, command):
    """Its file may be copied where there can be none, with a line; else it is a failure."""
    plain, store, made = work / "plain", work / "store", work / "made"
    plain.mkdir()
    (plain / "a").write_bytes(DATA)
    for name in ("b", "c"):
        os.link(plain / "a", plain / name)
    cframe("compress", plain, store)
    source, suffix = (plain, ".b2frame") if command == "compress" else (store, "")
    names = [f"{name}{suffix}" for name in "abc"]
    args = {"compress": [source, made], "extract": ["-C", made, source]}[command]
    program = SimpleNamespace(argv=[CFRAME, command, *args])
    fault = Fault(program, work / "fault")

    def run(error):
        """With each call on names failing in turn; what is said, for those that make links."""
        for n in range(1, 30):
            fault.set(n, Fault.NAME, error)
            got = subprocess.run(program.argv, stderr=-1, text=True)
            there = sorted(os.listdir(made)) if made.exists() else []
            files = {(made / name).stat().st_ino for name in there}
            shutil.rmtree(made, ignore_errors=True)
            if fault.came() and fault.last() == "linkat":
                yield got.returncode, got.stderr, there, len(files)

    why = "not all hard links can be made, and the files are copied instead"
    copied = (0, f"cframe: {made}: {why}: Operation not permitted\n", names, 2)
    assert set(map(str, run(errno.EPERM))) == {str(copied)}
    for name, failed in zip(names[1:], run(errno.ENOSPC), strict=True):
        there = [other for other in names if other != name]
        assert failed == (1, f"cframe: {made}/{name}: No space left on device\n", there, 1)


@pytest.mark.parametrize("command", ["compress", "extract"])
def test_a_name_that_cannot_be_given(work, command):
    """As of somebody else's file in a directory with a sticky bit. The source is well."""
    plain, store, made = work / "plain", work / "store", work / "made"
    plain.mkdir()
    (plain / "x").write_bytes(DATA)
    cframe("compress", plain, store)
    name, *args = {
        "compress": ["x.b2frame", plain, made],
        "extract": ["x", "-C", made, store],
    }[command]
    program = SimpleNamespace(argv=[CFRAME, command, *args])
    fault = Fault(program, work / "fault")
    for n in range(1, 40):  # directories above are looked at first
        fault.set(n, Fault.NAME, errno.EPERM)
        got = subprocess.run(program.argv, stderr=-1, text=True)
        if fault.last() == "renameat2":
            break
        shutil.rmtree(made, ignore_errors=True)
    wanted = f"cframe: {made}/{name}: Operation not permitted\n"
    assert (got.returncode, got.stderr) == (1, wanted)


@pytest.mark.parametrize("command", ["compress", "extract"])
def test_the_first_name_of_a_file_is_made_anew(work, command):
    """Another one, which is up to date, stays what it is; that they are two files now is told."""
    plain, store, made = work / "plain", work / "store", work / "made"
    plain.mkdir()
    (plain / "a").write_bytes(DATA)
    for name in "bcd":
        os.link(plain / "a", plain / name)
    cframe("compress", plain, store)
    source, suffix = (plain, ".b2frame") if command == "compress" else (store, "")
    a, b, c, d = (made / f"{name}{suffix}" for name in "abcd")
    args = {"compress": [source, made], "extract": ["-C", made, source]}[command]
    assert cframe(command, *args) == ""
    assert cframe(command, *args) == ""
    a.unlink()
    d.unlink()
    assert cframe(command, *args) == (
        f"cframe: {made}: not all hard links exist, and files that are up to date stay "
        "separate; --force replaces them\n"
    )
    assert a.samefile(d) and b.samefile(c) and not a.samefile(b)
    assert cframe(command, "--force", *args) == ""
    assert a.samefile(b) and b.samefile(c) and c.samefile(d)


@pytest.mark.parametrize("command", ["compress", "extract"])
def test_links_that_are_missing_and_links_that_cannot_be_made(root, work, command):
    """Each is told, once, whichever comes first."""
    plain, store, made = work / "plain", work / "store", work / "made"
    (plain / "sub").mkdir(parents=True)
    (plain / "a").write_bytes(b"x")
    os.link(plain / "a", plain / "sub/a")
    made.mkdir()

    def run():
        cframe("compress", plain, store)
        source = {"compress": [plain, made], "extract": ["-C", made, store]}[command]
        return cframe(command, *source)

    copied = (
        f"cframe: {made}: not all hard links can be made, and the files are copied instead: "
        "Invalid cross-device link\n"
    )
    apart = (
        f"cframe: {made}: not all hard links exist, and files that are up to date stay "
        "separate; --force replaces them\n"
    )
    with small_disk(made / "sub"):
        assert run() == copied
        (plain / "z").write_bytes(b"x")
        os.link(plain / "z", plain / "sub/z")
        assert run() == apart + copied
        assert run() == apart


def test_a_target_that_no_sync_reaches(mount, work):
    """The kernel tells no FUSE daemon of a syncfs: files, names and directories are synced one by
    one."""
    m = mount()
    source, made = work / "source", m.mnt / "made"
    (source / "sub").mkdir(parents=True)
    (source / "sub/x").write_bytes(b"x")
    program = SimpleNamespace(argv=[CFRAME, "extract", "-C", made, source])
    fault = Fault(program, work / "fault")

    def run(n, calls=Fault.SYNC, forever=0):
        fault.set(n, calls, errno.EIO, forever)
        got = subprocess.run(program.argv, stderr=-1, text=True)
        return got.returncode, got.stderr

    what = {f"{made}/sub/x", f"{made}/sub", str(made)}
    for n in range(1, 5):  # x, sub and made in any order; what made is in
        code, said = run(n)
        assert code == 1 and said in {f"cframe: {name}: Input/output error\n" for name in what}
        shutil.rmtree(made, ignore_errors=True)
    assert run(5) == (0, "")
    shutil.rmtree(made)
    for name in range(100):
        (source / f"{name}").write_bytes(b"x")
    assert run(1, Fault.FSYNC, forever=1)[0] == 1
    assert os.listdir(made) == ["sub"], "no file has a name that is not on the disk"


def test_a_target_in_a_directory_that_may_not_be_read(mount, work, root):
    """It takes no sync, and what was made is there."""
    m = mount("allow_other")
    source, inbox = work / "source", m.mnt / "inbox"
    source.mkdir()
    (source / "x").write_bytes(b"x")
    inbox.mkdir()
    how = as_nobody(work, m.mnt)
    os.chown(inbox, how["user"], how["group"])
    os.chmod(inbox, 0o300)
    assert cframe("extract", "-C", inbox / "made", source, **how) == ""
    assert (inbox / "made/x").read_bytes() == b"x"
