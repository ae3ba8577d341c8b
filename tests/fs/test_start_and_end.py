"""How a daemon begins and ends: it leaves the terminal once the mount answers, and flushes and
unmounts when it is asked to end."""

import contextlib
import ctypes
import fcntl
import itertools
import os
import resource
import select
import signal
import struct
import subprocess
import threading
import time

import pytest

from libdata import blob
from libfault import Fault, preloaded
from libmount import CFRAME, DAEMON, SLOWNESS, is_mounted, umount, wait_until
from libposix import NONE_IS_LEFT, error_of, opened_until_none_is_left, sync
from libprogram import attempt, daemon_of, one_line_refusal


def test_a_mount_point_whose_daemon_is_gone(dirs):
    """By SIGKILL, and nobody has unmounted: the next one says what to do."""
    backing, mnt = dirs
    assert attempt(DAEMON, backing, mnt).returncode == 0
    (pid,) = daemon_of(mnt)
    end = os.pidfd_open(pid)  # its command line is gone before its last thread, and its locks, are
    os.kill(pid, signal.SIGKILL)
    assert select.select([end], [], [], 120 * SLOWNESS)[0]
    os.close(end)
    one_line_refusal(attempt(DAEMON, backing, mnt), str(mnt), "umount it first")
    assert umount(mnt).returncode == 0
    assert attempt(DAEMON, backing, mnt).returncode == 0
    assert umount(mnt).returncode == 0


@pytest.mark.parametrize("below", ["", "plain"])
def test_mounted_over_itself(dirs, below):
    """At its own backing directory, or in it, where the mount point is not shown."""
    backing, _ = dirs
    (backing / "plain").mkdir()
    top = backing / below
    data = blob(12, 300_000, "text")
    got = attempt(DAEMON, backing, top)
    try:
        assert got.returncode == 0 and got.stderr == "", got
        (top / "f").write_bytes(data)
        sync(top / "f")
        assert sorted(os.listdir(top)) == (["f"] if below else ["f", "plain"])
    finally:
        assert umount(top).returncode == 0
    wait_until(lambda: not daemon_of(top), 20, "end of the daemon")
    assert sorted(os.listdir(backing)) == ["f.b2frame", "plain"]
    assert attempt(CFRAME, "cat", backing / "f.b2frame", text=False).stdout == data


AUTOFS_READY, AUTOFS_CATATONIC = 0x9360, 0x9362


@contextlib.contextmanager
def autofs(mnt):
    """What systemd has at a mount point with x-systemd.automount, its part played by our process
    group: yields where it says that somebody waits, and a descriptor to answer by."""
    heard, said = os.pipe()
    how = f"fd={said},pgrp={os.getpgrp()},minproto=5,maxproto=5,direct"
    libc = ctypes.CDLL(None, use_errno=True)
    made = libc.mount(b"test", os.fsencode(mnt), b"autofs", 0, how.encode())
    os.close(said)
    if made < 0:
        os.close(heard)
        pytest.skip(f"no autofs: {os.strerror(ctypes.get_errno())}")
    top = os.open(mnt, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield heard, top
    finally:
        with contextlib.suppress(OSError):
            fcntl.ioctl(top, AUTOFS_CATATONIC)  # nobody waits any more
        for fd in (top, heard):
            os.close(fd)
        umount(mnt, "-l")


def test_mounted_when_somebody_comes(dirs):
    """By x-systemd.automount in fstab. It was "mounted there already"; and the daemon may not leave
    the automounter's process group before it is mounted, or waits for itself."""
    backing, mnt = dirs
    (backing / "plain").write_bytes(b"here")
    with autofs(mnt) as (heard, top):
        visitor = subprocess.Popen(
            ["ls", mnt], stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        try:
            assert select.select([heard], [], [], 60 * SLOWNESS)[0], "nobody is waited for"
            (token,) = struct.unpack_from("=8xI", os.read(heard, 1024))
            got = attempt(DAEMON, backing, mnt)
            assert got.returncode == 0 and got.stderr == "", got
            fcntl.ioctl(top, AUTOFS_READY, token)
            assert visitor.communicate(timeout=60 * SLOWNESS) == ("plain\n", None)
            (pid,) = daemon_of(mnt)
            assert os.getsid(pid) == pid, "did not leave the terminal"
            one_line_refusal(attempt(DAEMON, backing, mnt), str(mnt), "mounted there already")
            assert umount(mnt).returncode == 0
        finally:
            if is_mounted(mnt):
                umount(mnt, "-l")
            visitor.kill()
            visitor.wait()


def test_daemonizes_once_the_mount_answers(dirs):
    backing, mnt = dirs
    (backing / "plain").write_bytes(b"there at once")
    got = attempt(DAEMON, backing, mnt)
    assert got.returncode == 0 and got.stderr == "", got
    assert (mnt / "plain").read_bytes() == b"there at once"
    pids = daemon_of(mnt)
    assert len(pids) == 1
    assert os.getsid(pids[0]) != os.getsid(0), "it has a session of its own"
    (mnt / "f").write_bytes(b"written")
    assert umount(mnt).returncode == 0
    wait_until(lambda: not daemon_of(mnt), 20, "end of the daemon")
    assert (backing / "f.b2frame").exists()


@pytest.mark.parametrize("sig", [signal.SIGQUIT, signal.SIGTSTP], ids=["QUIT", "TSTP"])
def test_a_key_of_the_terminal_while_it_starts(mount, work, sig):
    """The daemon leaves the terminal last. The mount stays, and answers, whoever waited for it."""
    m = mount(start=False)
    Fault(m, work / "fault").set(0, Fault.LATE_GUARD)  # which it waits for behind the mount
    start = preloaded("fault_inject", [DAEMON, m.backing, m.mnt], FAULT_INJECT=work / "fault")
    parent = subprocess.Popen(
        ["sh", "-c", 'ulimit -c 0; exec "$@"', "sh", *map(str, start)],
        preexec_fn=lambda: os.setpgid(0, 0),
    )
    wait_until(lambda: is_mounted(m.mnt))
    os.killpg(parent.pid, sig)
    try:
        got = attempt("sh", "-c", f"echo written > '{m.mnt}/f' && cat '{m.mnt}/f'")
        assert got.stdout == "written\n", got
    finally:
        os.killpg(parent.pid, signal.SIGCONT)
        assert parent.wait() in (0, -sig)
        assert umount(m.mnt).returncode == 0
        wait_until(lambda: not daemon_of(m.mnt), 20, "end of the daemon")


def test_fusermount_unmounts(mount, tool):
    m = mount()
    (m.mnt / "f").write_bytes(b"data")
    assert attempt(tool("fusermount3"), "-u", m.mnt).returncode == 0
    m.wait()
    m.start()
    assert (m.mnt / "f").read_bytes() == b"data"


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT], ids=["TERM", "INT"])
def test_a_signal_flushes_and_unmounts(mount, sig):
    m = mount("commit=3600")
    data = blob(1, 5_000_001, "floats")
    fd = os.open(m.mnt / "open", os.O_CREAT | os.O_WRONLY)
    os.write(fd, data)
    (m.mnt / "closed").write_bytes(data)
    m.terminate(sig)
    assert not is_mounted(m.mnt)
    error_of(os.close, fd)
    m.start()
    assert (m.mnt / "closed").read_bytes() == data
    assert (m.mnt / "open").read_bytes() == data, (
        "what write() accepted before the signal, in a file still open"
    )


def test_a_signal_when_nobody_reads_what_it_says(dirs):
    """Whoever read its messages through a pipe is gone: it has one more, before it flushes."""
    backing, mnt = dirs
    line = [DAEMON, "-f", backing, mnt, "-o", "commit=3600"]
    with subprocess.Popen(line, stderr=subprocess.PIPE) as daemon:
        try:
            wait_until(lambda: b": mounted" in daemon.stderr.readline(), what="the mount")
            fd = os.open(mnt / "f", os.O_CREAT | os.O_WRONLY)
            os.write(fd, b"data")
            daemon.stderr.close()
        finally:
            daemon.terminate()
    assert daemon.returncode == 0
    error_of(os.close, fd)
    assert attempt(DAEMON, backing, mnt).returncode == 0
    assert (mnt / "f").read_bytes() == b"data"
    assert umount(mnt).returncode == 0


def test_a_hangup_that_it_was_started_to_ignore(mount, tool):
    m = mount(start=False)
    m.argv = [tool("nohup"), *m.argv]
    m.start()
    m.proc.send_signal(signal.SIGHUP)
    time.sleep(0.3)
    (m.mnt / "f").write_bytes(b"data")
    assert m.running() and is_mounted(m.mnt)
    m.terminate()
    assert not is_mounted(m.mnt)


def test_a_signal_when_something_is_mounted_over_it(mount, work):
    """What is unmounted at the mount point is then not ours: it stays, and the daemon ends. It took
    the other one away, and went on for ever."""
    m = mount("commit=3600")
    data = blob(1, 3_000_000, "floats")
    (m.mnt / "closed").write_bytes(data)
    (work / "other").mkdir()
    (work / "other/mine").write_bytes(b"mine")
    got = subprocess.run(["mount", "--bind", work / "other", m.mnt], check=False)
    if got.returncode:
        pytest.skip("needs root to mount")
    m.proc.send_signal(signal.SIGTERM)
    try:
        m.wait()
        assert (m.mnt / "mine").read_bytes() == b"mine"
        m.expect_log("something else is mounted over it")
    finally:
        while is_mounted(m.mnt):
            assert umount(m.mnt).returncode == 0
    m.start()
    assert (m.mnt / "closed").read_bytes() == data


@pytest.mark.parametrize("sig", [signal.SIGUSR1, signal.SIGUSR2], ids=["USR1", "USR2"])
def test_the_signal_of_a_batch_system(mount, sig):
    """It comes to all processes of a job before its time is over, so that they write their state:
    the daemon serves them. SIGUSR2 killed it."""
    m = mount("commit=3600")
    data = blob(3, 300_000, "floats")
    for name in ("first", "second"):
        m.proc.send_signal(sig)
        time.sleep(0.1)
        (m.mnt / name).write_bytes(data)
        sync(m.mnt / name)
        assert (m.mnt / name).read_bytes() == data
    assert m.running()


def test_a_second_signal_does_no_harm(mount):
    m = mount()
    (m.mnt / "f").write_bytes(blob(2, 3_000_000, "noise"))
    for _ in range(3):
        if m.running():
            m.proc.send_signal(signal.SIGTERM)
    m.wait()
    m.start()
    assert (m.mnt / "f").stat().st_size == 3_000_000


def ignore_children():
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)


def test_started_by_a_program_that_ignores_its_children(root, dirs):
    """
    An ignored SIGCHLD is inherited. The daemon took its umount for one that had failed, and
    unmounted what was there then: the disk of its own backing directory.
    """
    backing, mnt = dirs
    got = attempt(DAEMON, backing, mnt, "-o", "fsname=", preexec_fn=ignore_children)
    one_line_refusal(got, "mount failed")
    subprocess.run(["mount", "--bind", backing, backing], check=True)
    try:
        got = attempt(DAEMON, backing, backing, "-o", "nonempty", preexec_fn=ignore_children)
        assert (got.returncode, got.stderr) == (0, ""), got
        (pid,) = daemon_of(backing)
        os.kill(pid, signal.SIGTERM)
        wait_until(lambda: not daemon_of(backing), 30, "end of the daemon")
        assert is_mounted(backing), "the disk's own mount"
    finally:
        umount(backing, "-l")


def write_and_ask(path):
    """Until the mount ends: dirty pages, and questions for holes, which make the kernel send
    them."""
    fd = os.open(path, os.O_CREAT | os.O_RDWR)
    data = blob(7, 64 << 10, "noise")
    try:
        for turn in itertools.count():
            for page in range(3):
                os.pwrite(fd, data, (turn * 7 % 50) * len(data) + page * 4096)
            os.lseek(fd, 0, os.SEEK_HOLE)
    except OSError:
        error_of(os.close, fd)


def test_a_signal_when_descriptors_have_run_out(mount):
    """Nothing is lost that a close did not bring to the daemon, nor what waits there."""
    m = mount("commit=1000", start=False).allow(*NONE_IS_LEFT)
    m.argv = ["prlimit", "--nofile=60:60", *m.argv]
    m.start()
    data = [blob(seed, 100_000, "text") for seed in (1, 2)]
    (m.mnt / "a").write_bytes(data[0])
    fds = opened_until_none_is_left(m.mnt / "f{}", os.O_CREAT | os.O_RDWR)
    os.pwrite(fds[0], data[1], 0)
    fds += opened_until_none_is_left(m.mnt, os.O_RDONLY | os.O_DIRECTORY)
    m.terminate()
    for fd in fds:
        error_of(os.close, fd)
    m.start()
    assert [(m.mnt / name).read_bytes() for name in ("a", "f0")] == data


@pytest.mark.release
def test_a_signal_when_many_names_are_known_and_much_is_open(mount):
    m = mount("entry_timeout=100,attr_timeout=100")
    for n in range(15_000):
        os.symlink("nowhere", m.backing / f"name{n}")
    assert sum(e.stat(follow_symlinks=False).st_size for e in os.scandir(m.mnt)) == 105_000
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = min(10_000, limits[1] - 100)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most + 100, limits[1]))
    fds = [os.open(m.mnt / "f", os.O_RDWR | os.O_CREAT) for _ in range(most)]
    before = m.cpu_seconds()
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    m.terminate()
    took = resource.getrusage(resource.RUSAGE_CHILDREN)
    took = took.ru_utime + took.ru_stime - ended.ru_utime - ended.ru_stime - before
    for fd in fds:
        error_of(os.close, fd)
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert took < 2 * SLOWNESS


@pytest.mark.concurrent
def test_it_stops_while_the_kernel_is_made_to_write(mount):
    """The thread that answers a question for holes waits in the kernel for pages that others take:
    those stay until it is back. Three mounts at a time: each waits ten seconds for writers who do
    not end."""
    mounts = [mount("codec=lz4") for _ in range(3)]
    writers = [
        threading.Thread(target=write_and_ask, args=(m.mnt / f"f{i}",))
        for m in mounts
        for i in range(4)
    ]
    for writer in writers:
        writer.start()
    time.sleep(0.3)
    for m in mounts:
        m.proc.send_signal(signal.SIGTERM)
    try:
        for m in mounts:
            m.proc.wait(60 * SLOWNESS)
    except subprocess.TimeoutExpired:
        for m in mounts:
            m.kill()
        pytest.fail("a daemon did not end by SIGTERM")
    finally:
        for writer in writers:
            writer.join()
    for m in mounts:
        m.wait()


def test_a_kill_while_it_stops_ends_it(mount):
    """While it flushes for SIGTERM the daemon asks things of its own mount. Killed there, it
    must still die: a thread that waits for an answer from its own dead process keeps the mount
    hanging for ever."""
    m = mount()
    for i in range(40):
        attempt("sh", "-c", 'head -c 300000 /dev/zero > "$0"', m.mnt / "f")
        m.proc.send_signal(signal.SIGTERM)
        time.sleep(i % 10 * 0.0001)
        assert m.kill(), "SIGKILL soon after SIGTERM did not end the daemon"
        m.start()
