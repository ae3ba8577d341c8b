"""A backing directory that another daemon has, or one above or below it: refused, waited for, or
shared by readers."""

import ctypes
import fcntl
import os
import re
import signal
import struct
import subprocess
import sys
import threading
import time

import pytest

from libdata import blob
from libfault import Fault
from libintent import SLOW, made, patch
from libmount import CFRAME, DAEMON, is_mounted, other_namespaces, umount, wait_until
from libprogram import attempt, daemon_of, one_line_refusal


def test_busy_mount_point(mount):
    m = mount()
    got = attempt(DAEMON, m.backing, m.mnt)
    one_line_refusal(got, str(m.mnt), "mounted there already")
    (m.mnt / "f").write_bytes(b"the first one still works")
    assert (m.mnt / "f").read_bytes() == b"the first one still works"


def test_places_the_wrong_way_round(mount):
    """Mounted on each other, both were busy for ever."""
    m = mount()
    (m.mnt / "sub").mkdir()
    for backing in (m.mnt, m.mnt / "sub"):
        for how in ([], ["-o", "ro"]):
            got = attempt(DAEMON, backing, m.backing, *how)
            one_line_refusal(got, f"'{backing}'", "BACKING comes first")
    m.remount()


def test_backing_directory_in_a_mount(mount, work):
    """As easily happens with one that is mounted over itself: it is told, and works."""
    m = mount(start=False)
    m.mnt = work / "m\\0 40n"  # the kernel's list of mounts escapes some of that
    m.mnt.mkdir()
    m.start()
    (m.mnt / "sub").mkdir()
    (work / "second").mkdir()
    for backing in (m.mnt, m.mnt / "sub"):
        got = attempt(DAEMON, backing, work / "second")
        assert got.returncode == 0
        try:
            said = f"'{backing}': is in the mount '{m.mnt}' of another cframefs"
            assert [said in line for line in got.stderr.splitlines()].count(True) == 1, got.stderr
            (work / "second/x").write_bytes(b"twice")
            assert (work / "second/x").read_bytes() == b"twice"
        finally:
            umount(work / "second")
    m.remount()
    assert (m.mnt / "x.b2frame").exists()
    assert (m.mnt / "sub/x.b2frame").exists()


@pytest.mark.release
def test_busy_backing_directory(mount, work):
    """Two daemons that write to one directory would not know of each other's bytes. Who comes
    second is told where the first one is mounted."""
    m = mount(start=False)
    m.mnt = work / r"a space, a \134"
    m.mnt.mkdir()
    m.start()
    (work / "second").mkdir()
    started = [
        subprocess.Popen([DAEMON, m.backing, work / "second", *how], stderr=-1, text=True)
        for how in ([], ["-o", "ro"], ["-f"])
    ]
    for daemon in started:
        _, said = daemon.communicate(timeout=300)
        assert daemon.returncode == 1
        assert re.fullmatch(
            rf"(.*waiting for another.*\n)?cframefs: .*'{re.escape(str(m.backing))}': "
            rf"another cframefs .*mounted at '{re.escape(str(m.mnt))}'\n",
            said,
        ), said
    assert not is_mounted(work / "second")


@pytest.mark.release
@pytest.mark.parametrize("options", ["", "ro"])
def test_busy_directories_above_and_below(mount, work, options):
    """Two daemons would have the same frames: the one of the directory above and that of the one
    below. As soon as the first is unmounted, the second may come."""
    m = mount(start=False)
    (m.backing / "d/e").mkdir(parents=True)
    (work / "second").mkdir()
    for first, second, where in (
        (m.backing, m.backing / "d/e", "above"),
        (m.backing / "d/e", m.backing, "below"),
    ):
        m.backing = first
        m.start()
        command = [DAEMON, second, work / "second", *(["-o", options] if options else [])]
        got = attempt(*command)
        assert got.returncode == 1, got
        assert re.fullmatch(
            rf"cframefs: .*'{re.escape(str(second))}': another cframefs (that writes )?has "
            rf"a directory {where} it mounted at '{re.escape(str(m.mnt))}'\n",
            got.stderr,
        ), got.stderr
        (m.mnt / "f").write_bytes(b"the first one still works")
        m.unmount()
        try:
            assert attempt(*command).returncode == 0
        finally:
            umount(work / "second")
            wait_until(lambda: not daemon_of(work / "second"), 20, "end of the second daemon")


def test_readers_above_and_below_each_other(mount, work):
    m = mount(start=False)
    (m.backing / "d/e").mkdir(parents=True)
    m.options = "ro"
    m.start()
    (work / "second").mkdir()
    try:
        got = attempt(DAEMON, m.backing / "d/e", work / "second", "-o", "ro")
        assert got.returncode == 0, got
    finally:
        umount(work / "second")
        wait_until(lambda: not daemon_of(work / "second"), 20, "end of the second daemon")


def test_a_directory_that_another_mount_shows(mount, work):
    """Its frames are in the files of the first mount, which is at a place inside of its own backing
    directory: that is not the directory above."""
    m = mount(start=False)
    m.mnt = m.backing / "top"
    m.mnt.mkdir()
    m.start()
    (m.mnt / "d").mkdir()
    (work / "second").mkdir()
    data = blob(3, 300_000, "text")
    try:
        got = attempt(DAEMON, m.mnt / "d", work / "second")
        assert got.returncode == 0, got
        (work / "second/f").write_bytes(data)
    finally:
        umount(work / "second")
        wait_until(lambda: not daemon_of(work / "second"), 20, "end of the second daemon")
    m.unmount()
    (frame,) = (m.backing / "d").iterdir()
    inner = attempt(CFRAME, "cat", frame, text=False).stdout
    (work / "inner.b2frame").write_bytes(inner)
    assert attempt(CFRAME, "cat", work / "inner.b2frame", text=False).stdout == data


HOLDER = """
import os, sys
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
os.write(fd, b"x" * (3 << 20))
print(flush=True)
input()
os.fsync(fd)
"""


def test_a_restart_while_the_old_mount_is_there(mount):
    """Asked to end, the daemon still takes what the kernel has for it: who comes then waits."""
    m = mount(start=False)
    fault = Fault(m, m.work / "fault")
    m.options = "commit=0,intent=0"
    m.start()
    # another process has it open: a child of this one would close it, too, and wait for that
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, m.mnt / "f"], stdin=-1, stdout=-1)
    assert holder.stdout.readline() == b"\n"
    fault.set(1, Fault.WRITE, how=Fault.WAIT)
    holder.stdin.write(b"\n")
    holder.stdin.flush()
    wait_until(fault.came, 20, "the fsync")  # what waits in the kernel keeps the mount there
    m.proc.send_signal(signal.SIGTERM)
    m.expect_log("signal 15: flushing and unmounting")
    assert is_mounted(m.mnt)
    said = m.work / "second.log"
    with open(said, "wb") as log:
        second = subprocess.Popen([DAEMON, m.backing, m.mnt], stderr=log)
    try:
        time.sleep(1)  # time enough to refuse
        assert second.poll() is None, said.read_text()
    finally:
        fault.set(0)
        holder.communicate(timeout=300)
    m.wait()
    assert second.wait(300) == 0, said.read_text()
    try:
        assert (m.mnt / "f").read_bytes() == b"x" * (3 << 20)
    finally:
        umount(m.mnt)
        wait_until(lambda: not daemon_of(m.mnt), 20, "end of the second daemon")


def test_a_backing_directory_that_is_about_to_be_free(mount, work):
    """Unmounted, but the last commit is still on its way to the disk: the next one waits for it."""
    m = mount(start=False)
    fault = Fault(m, work / "fault")
    m.options = "commit=0"
    m.start()
    handle = os.open(m.mnt / "f", os.O_WRONLY | os.O_CREAT)
    assert umount(m.mnt, "-l").returncode == 0
    os.write(handle, b"written last")
    fault.set(1, Fault.WRITE, how=Fault.WAIT)
    closing = threading.Thread(target=os.close, args=[handle])
    closing.start()
    wait_until(fault.came, 20, "the commit")  # a child made before would close the handle, too
    (work / "second").mkdir()
    said = work / "second.log"
    with open(said, "wb") as log:
        second = subprocess.Popen([DAEMON, m.backing, work / "second"], stderr=log)
    try:
        wait_until(lambda: "waiting for another" in said.read_text(), 5, "its line")
        assert second.poll() is None
    finally:
        fault.set(0)
    if other_namespaces():
        m.proc.send_signal(signal.SIGTERM)
    closing.join()
    assert second.wait(300) == 0, said.read_text()
    m.wait()
    try:
        assert (work / "second" / "f").read_bytes() == b"written last"
    finally:
        umount(work / "second")


def start_second(m, work, *options):
    """Another daemon of the same directory, that has said that it waits for the first."""
    (work / "second").mkdir()
    said = work / "second.log"
    with open(said, "wb") as log:
        second = subprocess.Popen([DAEMON, m.backing, work / "second", *options], stderr=log)
    wait_until(
        lambda: second.poll() is not None or "waiting for another" in said.read_text(),
        30,
        "its line",
    )
    assert second.poll() is None, said.read_text()
    return second


def test_a_process_without_a_mount_is_named(mount, work):
    """After a lazy unmount nothing else tells what has the directory."""
    m = mount()
    with open(m.mnt / "f", "wb"):
        assert umount(m.mnt, "-l").returncode == 0
        second = start_second(m, work, "-f")
        second.send_signal(signal.SIGINT)
        assert second.wait(30) == 1
    said = (work / "second.log").read_text()
    who = rf"another cframefs \(process {m.proc.pid}\)"
    assert re.search(rf"waiting for {who} to finish .*\n.* {who} uses it; a signal", said), said
    m.proc.send_signal(signal.SIGTERM)
    m.wait()


def assert_goes_on(second, work):
    assert second.wait(300) == 0, (work / "second.log").read_text()
    try:
        assert (work / "second" / "f").read_bytes() == b"written last"
    finally:
        umount(work / "second")


def test_a_backing_directory_whose_daemon_was_asked_to_end(mount, work):
    """It has not come to that yet, which makes no difference: the next one waits."""
    m = mount()
    (m.mnt / "f").write_bytes(b"written last")
    m.proc.send_signal(signal.SIGSTOP)
    m.proc.send_signal(signal.SIGTERM)
    try:
        second = start_second(m, work)
    finally:
        m.proc.send_signal(signal.SIGCONT)
        m.wait()
    assert_goes_on(second, work)


def test_a_mount_that_has_the_number_of_one_just_gone(mount, work, root):
    """The first daemon has not seen yet that its mount is gone, when another directory's mount is
    given the device number: the next one is not told that it is mounted there."""
    m, other = mount(), mount(start=False)
    with open(m.mnt / "f", "wb", buffering=0) as f:
        f.write(b"written last")
        os.fsync(f.fileno())  # so that the kernel has nothing left to tell the daemon
    number = os.stat(m.mnt).st_dev
    m.proc.send_signal(signal.SIGSTOP)
    try:
        # unlike umount(8), which asks for more
        assert ctypes.CDLL(None, use_errno=True).umount2(os.fsencode(m.mnt), 0) == 0
        other.start()
        if os.stat(other.mnt).st_dev != number:
            pytest.skip("the number went to somebody else, or the mount lives on elsewhere")
        second = start_second(m, work)
    finally:
        m.proc.send_signal(signal.SIGCONT)
        if other_namespaces():
            m.proc.send_signal(signal.SIGTERM)
        m.wait()
    assert_goes_on(second, work)


def told(directory):
    """True: a daemon says which mount of the backing directory is its own (claim.c)."""
    fd = os.open(directory, os.O_RDONLY)
    try:
        asked = struct.pack("hhqqi0q", fcntl.F_WRLCK, os.SEEK_SET, 0, 1 << 53, 0)
        found = fcntl.fcntl(fd, fcntl.F_OFD_GETLK, asked)
    finally:
        os.close(fd)
    return struct.unpack_from("h", found)[0] == fcntl.F_RDLCK


def test_a_mount_that_is_gone_is_not_told_any_more(faulty):
    """Its device number may be that of the next mount, of another directory: who waits for this one
    would be refused."""
    m, fault = faulty(SLOW)
    fd, model = made(m)
    patch(fd, model, 2)
    os.close(fd)  # what is in the log waits for a sync
    assert told(m.backing)
    fault.set(1, Fault.SYNC, how=Fault.WAIT)
    try:
        assert umount(m.mnt).returncode == 0
        wait_until(fault.came, 20, "the last sync")
        assert not told(m.backing)
    finally:
        fault.set(0)
    m.wait()
