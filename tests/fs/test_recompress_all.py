"""cframefs --recompress: all files get as small as they can, without a mount, and nothing else
about them changes."""

import errno
import os
import random
import re
import signal
import subprocess
import time

import pytest

from libblosc import chunk_bytes, open_frame
from libdata import blob
from libfault import Fault, preloaded
from libintent import SLOW, crash, log_of, made, patch, records
from libmount import DAEMON, SLOWNESS, is_mounted, wait_until
from libprogram import attempt, one_line_refusal

OPTIONS = "chunksize=64K,blocksize=16K,codec=lz4,commit=1"
TOTALS = re.compile(r"(\d+) files?: (\d+) -> (\d+) \((\d+\.\d) %\)\n")


def used(path):
    return os.stat(path).st_blocks * 512


def recompress(m, *more):
    got = attempt(DAEMON, "--recompress", m.backing, *more, timeout=300 * SLOWNESS)
    assert got.returncode == 0, got
    return [int(n) for n in TOTALS.fullmatch(got.stdout).groups()[:3]]


def attributes(path):
    st = os.stat(path)
    return st.st_ino, st.st_mode, st.st_uid, st.st_gid, st.st_nlink, st.st_mtime_ns


def test_all_files_get_smaller(mount, blosc2):
    """Young ones, too, below directories, with two names, with holes, with pieces of many kinds,
    and what a log that was never synced keeps in vain."""
    m = mount(OPTIONS)
    files = {
        "long": blob(1, 2_345_678, "text"),
        "d/e/deep": blob(2, 300_001, "text"),
        "mixed": blob(3, 200_000, "text") + bytes(131_072) + blob(4, 200_000, "noise") + b"end",
        "log": b"",
    }
    (m.mnt / "d" / "e").mkdir(parents=True)
    for name, data in files.items():
        (m.mnt / name).write_bytes(data)
    os.link(m.mnt / "long", m.mnt / "d" / "other name")
    os.chmod(m.mnt / "mixed", 0o640)
    line = blob(5, 3000, "noise")
    for _ in range(100):
        files["log"] += line
        with open(m.mnt / "log", "ab") as f:
            f.write(line)
    m.unmount()
    stored = [m.stored(name) for name in files]
    before = {p: (used(p), attributes(p)) for p in stored}
    n, old, new = recompress(m)
    assert n in (len(files), len(files) + 1)  # where no mark can be left, the link counts as well
    for p in stored:
        assert used(p) < 0.95 * before[p][0] and attributes(p) == before[p][1], p
    assert old >= sum(size for size, _ in before.values())
    assert old - new >= sum(before[p][0] - used(p) for p in stored)
    for name, data in files.items():
        assert chunk_bytes(open_frame(m.stored(name))) == data, name
    m.start()
    for name, data in files.items():
        assert (m.mnt / name).read_bytes() == data, name
        assert os.listxattr(m.mnt / name) == [], name
    assert (m.mnt / "d" / "other name").read_bytes() == files["long"]
    m.unmount()
    sizes = [used(p) for p in stored]
    recompress(m)
    assert [used(p) for p in stored] == sizes


def test_what_the_log_has_comes_first(mount, blosc2):
    """The daemon was killed with fsyncs in its intent log."""
    m = mount(SLOW)
    fd, data = made(m)
    patch(fd, data, 2)
    crash(m, fd)
    assert records(log_of(m)) and chunk_bytes(open_frame(m.stored("a"))) != data
    recompress(m)
    assert chunk_bytes(open_frame(m.stored("a"))) == data
    assert not log_of(m).exists()
    m.start()
    assert (m.mnt / "a").read_bytes() == data


def begin(m, **how):
    command = [DAEMON, "--recompress", m.backing]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, **how)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=["ended", "killed"])
def test_interrupted(mount, blosc2, how):
    """At any moment; a second run does what is left."""
    m = mount("chunksize=64K,commit=1")
    files = {f"f{i}": blob(7 + i, 700_001, "text") for i in range(4)}
    for name, data in files.items():
        (m.mnt / name).write_bytes(data)
    m.unmount()
    size = sum(used(m.stored(name)) for name in files)
    rng = random.Random(int(how))
    for _ in range(4):
        run = begin(m)
        time.sleep(rng.random() * SLOWNESS / 2)
        run.send_signal(how)
        out, err = run.communicate(timeout=60 * SLOWNESS)
        if run.returncode > 0:
            assert "run it again to go on" in err and TOTALS.fullmatch(out), (out, err)
        else:
            assert run.returncode in (0, -how), (run.returncode, out, err)
        for name, data in files.items():
            assert chunk_bytes(open_frame(m.stored(name))) == data, name
    recompress(m)
    assert sum(used(m.stored(name)) for name in files) < 0.95 * size
    for name, data in files.items():
        assert chunk_bytes(open_frame(m.stored(name))) == data, name


def test_an_ignored_signal_does_not_end_it(mount):
    """nohup cframefs --recompress: the terminal may go."""
    m = mount(OPTIONS)
    (m.mnt / "f").write_bytes(blob(11, 6_000_000, "text"))
    m.unmount()
    run = begin(m, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    while run.poll() is None:
        run.send_signal(signal.SIGHUP)
        time.sleep(0.01)
    out, err = run.communicate()
    assert run.returncode == 0 and TOTALS.fullmatch(out)[1] == "1", (out, err)


def test_what_it_does_not_reach_is_said(mount):
    """A directory that it cannot enter, or below too many."""
    m = mount(OPTIONS)
    deep = m.mnt.joinpath(*"abcd" * 17)
    deep.mkdir(parents=True)
    for where in m.mnt, deep:
        (where / "f").write_bytes(blob(13, 300_000, "text"))
    m.unmount()
    got = attempt(DAEMON, "--recompress", m.backing)
    shown = "/".join("abcd" * 16 + "a")
    assert got.returncode == 1 and f": {shown}: not looked at: too many" in got.stderr, got
    assert TOTALS.fullmatch(got.stdout)[1] == "1"


def test_a_listing_that_breaks_off_is_said(mount, work):
    """By whichever of its calls: the files after it were not looked at."""
    m = mount(OPTIONS)
    for name in "abc":
        (m.mnt / name).write_bytes(b"short")
    m.unmount()
    fault = Fault(m, work / "control")
    command = [DAEMON, "--recompress", m.backing]
    run = preloaded("fault_inject", command, FAULT_INJECT=work / "control")
    for n in range(1, 30):
        fault.set(n, Fault.LIST, errno.EIO)
        got = attempt(*run)
        if not fault.came():
            break
        said = f"warning: {m.backing}: not looked at: Input/output error\n"
        assert got.returncode == 1 and said in got.stderr, (n, got)
    assert n > 4 and not fault.came() and got.returncode == 0


def test_not_on_a_mount_point(mount):
    """Which shows no frames."""
    m = mount(OPTIONS)
    one_line_refusal(attempt(DAEMON, "--recompress", m.mnt), "its frames are in BACKING")


def stopped(m):
    """One that has the directory, and does not go on."""
    run = begin(m)
    locked = f":{os.stat(m.backing).st_ino} "
    with open("/proc/locks", encoding="ascii") as locks:
        wait_until(lambda: locks.seek(0) == 0 and locked in locks.read(), 60, "its lock")
    run.send_signal(signal.SIGSTOP)
    return run


@pytest.mark.parametrize("what", [["--recompress"], ["-f"]], ids=["recompress", "daemon"])
def test_one_that_waits_for_another_can_be_ended(mount, what):
    m = mount(OPTIONS)
    (m.mnt / "f").write_bytes(blob(11, 6_000_000, "text"))
    m.unmount()
    run = stopped(m)
    where = [m.backing] if what == ["--recompress"] else [m.backing, m.mnt]
    other = subprocess.Popen([DAEMON, *what, *where], stdout=-1, stderr=-1, text=True)
    assert "waiting for another" in other.stderr.readline()
    other.send_signal(signal.SIGINT)
    out, err = other.communicate(timeout=10 * SLOWNESS)
    assert (other.returncode, out) == (1, "") and "another cframefs uses it; a signal" in err, err
    run.kill()
    run.communicate()


def test_not_beside_a_daemon(mount, work):
    """It would not know what the daemon is about to write; nor does one start beside it."""
    m = mount(OPTIONS)
    one_line_refusal(attempt(DAEMON, "--recompress", m.backing), "has it mounted", str(m.mnt))
    (m.mnt / "f").write_bytes(blob(11, 6_000_000, "text"))
    m.unmount()
    run = stopped(m)
    other = subprocess.Popen([DAEMON, m.backing, m.mnt], stderr=subprocess.PIPE)
    time.sleep(0.5)
    assert other.poll() is None and not is_mounted(m.mnt)  # it waits
    run.send_signal(signal.SIGCONT)
    run.send_signal(signal.SIGINT)
    assert run.wait(60 * SLOWNESS) in (0, 1)
    assert other.wait(60 * SLOWNESS) == 0 and is_mounted(m.mnt)
    run.communicate()
    other.communicate()
    subprocess.run(["umount", m.mnt], check=True)


def test_what_it_says_of_damage(mount):
    """The file stays as it is, and the others are done."""
    m = mount(OPTIONS)
    (m.mnt / "d" / "e").mkdir(parents=True)
    for name in "d/a", "d/e/b":
        (m.mnt / name).write_bytes(blob(12, 500_000, "text"))
    m.unmount()
    a, b = m.stored("d/a"), m.stored("d/e/b")
    with open(a, "r+b") as f:
        f.seek(60_000)
        f.write(b"damage")
    before = a.read_bytes()
    got = attempt(DAEMON, "--recompress", m.backing)
    assert got.returncode == 1 and ": d/a.b2frame: not recompressed: " in got.stderr, got
    assert ": d/e/b.b2frame: " in got.stderr, got
    assert TOTALS.fullmatch(got.stdout)[1] == "2"
    assert a.read_bytes()[60_000:60_006] == b"damage"
    assert used(b) < 0.95 * len(before)


@pytest.mark.parametrize(
    "words, why",
    [
        ([], "is for one BACKING directory"),
        (["{}", "{}"], "is for one BACKING directory"),
        (["{}", "-o", "ro"], "-o ro forbids"),
        (["{}", "-o", "remount"], "is for no mount"),
        (["{}/none"], "there is no such directory"),
        (["--recompress=idle", "{}"], "options of a mount follow -o"),
    ],
)
def test_wrong_arguments(work, words, why):
    one_line_refusal(attempt(DAEMON, "--recompress", *[w.format(work) for w in words]), why)


def test_a_long_file(mount, blosc2):
    """The space of what was replaced is free, and used, before all of it is done."""
    m = mount(OPTIONS)
    data = blob(31, 30_000_000, "text")
    (m.mnt / "f").write_bytes(data)
    m.unmount()
    before = m.stored("f").stat()
    recompress(m)
    after = m.stored("f").stat()
    assert after.st_size < 0.95 * before.st_size and after.st_mtime_ns == before.st_mtime_ns
    assert chunk_bytes(open_frame(m.stored("f"))) == data
    m.start()
    assert (m.mnt / "f").read_bytes() == data
