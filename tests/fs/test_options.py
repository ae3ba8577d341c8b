"""The command line: options, daemonizing, errors before it detaches, signals,
mount(8) and fstab."""

import fcntl
import itertools
import mmap
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from libdata import blob
from libfault import Fault
from libintent import SLOW, made, patch
from libmemory import held_to
from libmount import (
    CFRAME,
    DAEMON,
    REPO,
    SLOWNESS,
    is_mounted,
    other_namespaces,
    umount,
    wait_until,
)
from libposix import error_of, sync

CODECS = ["blosclz", "lz4", "lz4hc", "zlib", "zstd"]
TEXT = REPO / "tests/data/frames/text-zstd.b2frame"


def run(*args, **kw):
    kw = {"timeout": 60 * SLOWNESS, "stdin": subprocess.DEVNULL, "text": True, **kw}
    return subprocess.run([str(a) for a in args], capture_output=True, **kw)


@pytest.fixture
def dirs(work):
    for name in ("backing", "mnt"):
        (work / name).mkdir()
    yield work / "backing", work / "mnt"
    if is_mounted(work / "mnt"):
        umount(work / "mnt", "-l")
        pytest.fail("the test left its mount")


def one_line_refusal(got, *words):
    assert got.returncode not in (0, None) and got.returncode > 0, got
    lines = got.stderr.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("cframefs: "), got.stderr
    for word in words:
        assert word in lines[0], lines


def test_help_and_version():
    got = run(DAEMON, "--help")
    assert got.returncode == 0 and "BACKING" in got.stdout and "MOUNTPOINT" in got.stdout
    for option in (
        "codec=",
        "level=",
        "filter=",
        "typesize=",
        "chunksize=",
        "blocksize=",
        "cache=",
        "workers=",
    ):
        assert option in got.stdout, option
    got = run(DAEMON, "--version")
    assert got.returncode == 0
    for part in (
        r"cframefs \d+\.\d+",
        r"fuse\D*\d+\.\d+",
        r"lz4\D*\d+\.\d+",
        r"zstd\D*\d+\.\d+",
        r"zlib\D*\d+\.\d+",
    ):
        assert re.search(part, got.stdout, re.IGNORECASE), part


def test_readme_and_man_page_say_the_same_of_options():
    """The text of the README, but for what it has to say further on; the man page may add to it."""
    rows = re.findall(
        r"^\| (`\w+=.*?) \| (.*?)\| (.*) \|$", (REPO / "README.md").read_text(), re.MULTILINE
    )
    manual = (REPO / "docs/cframefs.1").read_text()
    assert len(rows) > 15
    for cell, default, text in rows:
        first, last = re.findall(r"`(\w+)=", cell)[0], re.findall(r"`(\w+)=", cell)[-1]
        said = re.search(rf"^\.BI {last}= \w+\n(.*?)^\.TP$", manual, re.MULTILINE | re.DOTALL)[1]
        wanted = re.sub(r"[,.] see below$", "", text.replace("`", ""), flags=re.IGNORECASE)
        assert " ".join(said.split()).lower().startswith(wanted.rstrip(".").lower()), first
        assert not default.strip() or f"Default {default.strip()}." in said, first


def test_help_readme_and_man_page_have_the_same_options():
    """And --help the defaults that stand in the README."""
    text = re.sub(r"\n {25}", " ", run(DAEMON, "--help").stdout)
    helped = dict(re.findall(r"^  (\w+)=\S+ +(.*)$", text, re.MULTILINE))
    assert len(helped) > 15
    rows = re.findall(r"^\| (`\w+=.*?) \| (.*?)\|", (REPO / "README.md").read_text(), re.MULTILINE)
    told = {name: default for cell, default in rows for name in re.findall(r"`(\w+)=", cell)}
    manual = re.findall(r"^\.BI (\w+)= ", (REPO / "docs/cframefs.1").read_text(), re.MULTILINE)
    assert sorted(told) == sorted(manual) == sorted(helped)
    for name, default in told.items():
        assert not default or f"({default.strip()})" in helped[name], name


def test_what_is_missing_is_named(dirs):
    one_line_refusal(run(DAEMON), "BACKING and MOUNTPOINT are missing")
    one_line_refusal(run(DAEMON, dirs[0]), ": MOUNTPOINT is missing")
    one_line_refusal(run(DAEMON, *dirs, dirs[0]), "too many arguments")
    one_line_refusal(run(DAEMON, *dirs, *dirs), "too many arguments")


def test_commands_have_help():
    for command in re.findall(r"^  (\w+) ", run(CFRAME, "--help").stdout, re.MULTILINE):
        got = run(CFRAME, command, "--help")
        assert got.returncode == 0 and got.stdout.startswith(f"usage: cframe {command}"), got
        assert run(CFRAME, "help", command).stdout == got.stdout
        assert run(CFRAME, command, "x", "-h").stdout == got.stdout
        said = run(CFRAME, command, "--bogus", "x")
        assert said.returncode == 1 and said.stderr.startswith("cframe: option '--bogus': unknown")
        assert said.stderr.endswith(f"; see cframe {command} --help\n")


@pytest.mark.parametrize(
    "words", [[DAEMON], [CFRAME], [CFRAME, "compress"], [CFRAME, "extract"]], ids=str
)
def test_help_fits_a_terminal(words):
    lines = run(*words, "--help").stdout.splitlines()
    assert len(lines) > 5 and max(map(len, lines)) <= 80


@pytest.mark.parametrize(
    "words", [["codecs"], ["--help"], ["cat", TEXT], ["info", TEXT], ["ls", TEXT]], ids=str
)
def test_what_does_not_arrive_is_told(words):
    with open("/dev/full", "w") as full:
        got = subprocess.run([CFRAME, *words], stdout=full, stderr=-1, text=True)
    assert got.returncode == 1
    assert got.stderr == "cframe: standard output: No space left on device\n"


def test_verify_leaves_a_mount_inside_of_the_directory_alone(dirs):
    backing, _ = dirs
    inside = backing / "inside"
    inside.mkdir()
    (backing / "none.b2frame").write_bytes(b"no frame: shown under this name in the mount, too")
    assert run(DAEMON, backing, inside).returncode == 0
    try:
        (inside / "f").write_bytes(b"written")
        got = run(CFRAME, "verify", backing)
    finally:
        umount(inside)
    assert got.stdout == f"{backing}/none.b2frame: is not a Blosc2 frame\n"


def test_verify_knows_sparse_frames_by_their_index(dirs):
    backing, _ = dirs
    (backing / "x/chunks.b2frame").mkdir(parents=True)
    (backing / "x/chunks.b2frame/none.b2frame").write_bytes(b"no frame")
    (backing / "y.b2frame").mkdir()
    shutil.copy(REPO / "tests/data/frames/const-lz4.b2frame", backing / "y.b2frame/chunks.b2frame")
    (backing / "y.b2frame/none.b2frame").write_bytes(b"no frame")
    got = run(CFRAME, "verify", backing)
    assert got.stdout == "".join(
        f"{backing}/{where}/none.b2frame: is not a Blosc2 frame\n"
        for where in ("x/chunks.b2frame", "y.b2frame")
    )
    shutil.copytree(REPO / "tests/data/frames/sparse.b2frame", backing / "z.b2frame")
    os.truncate(backing / "z.b2frame/chunks.b2frame", 100)
    said = run(CFRAME, "verify", backing / "z.b2frame").stdout
    assert said.startswith(f"{backing}/z.b2frame/chunks.b2frame: ") and said.count("\n") == 1


def test_verify_goes_deeper_than_a_path_is_long(dirs):
    backing, _ = dirs
    fd = os.open(backing, os.O_RDONLY)
    for _ in range(25):
        os.mkdir("d" * 200, dir_fd=fd)
        below = os.open("d" * 200, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    with os.fdopen(os.open("none.b2frame", os.O_WRONLY | os.O_CREAT, dir_fd=fd), "wb") as f:
        f.write(b"no frame")
    os.close(fd)
    got = run(CFRAME, "verify", backing)
    deep = "/".join(["d" * 200] * 25)
    assert got.stdout == f"{backing}/{deep}/none.b2frame: is not a Blosc2 frame\n"


@pytest.mark.parametrize(
    "option",
    [
        "codec=snappy",
        "codec=",
        "level=10",
        "level=-1",
        "level=x",
        "filter=sharpen",
        "typesize=0",
        "typesize=x",
        "chunksize=0",
        "chunksize=1X",
        "chunksize=-1",
        "blocksize=x",
        "pipeline=shuffle+",
        "pipeline=zstd:77",
        "workers=x",
        "workers=-1",
        "cache=lots",
        "max_read=2M",
        "dirty_max=x",
        "commit=x",
        "no_such_option",
        "no_such=1",
        "codec",
        "typesize=4,blocksize=6",
    ],
)
def test_a_bad_option_is_named(dirs, option):
    got = run(DAEMON, *dirs, "-o", option)
    one_line_refusal(got, option.split(",")[-1].split("=")[0])
    assert not is_mounted(dirs[1])


@pytest.mark.parametrize(
    "option, instead",
    [
        ("level=10", "from 0 to 9"),
        ("level=x", "a whole number, or auto"),
        ("chunksize=2G", "from 4K to 1G"),
        ("cache=1K", "less than 1M"),
        ("chunksize=64M", "32M at most, half of dirty_max"),
        ("chunksize=3584K,dirty_max=7M", "3M at most"),
        ("codec=snappy", "known: store, blosclz, lz4"),
        ("filter=sharpen", "option filter 'sharpen': no filter"),
        ("filter=sharpen,codec=lz4", "'sharpen+lz4': no filter is called \"sharpen\"; known: none"),
        ("commit=4000", "4000 is no number of seconds from 0 to 3600"),
        ("recompress=now", "is none of: idle, off, a number of seconds"),
        ("pipeline=shuffle:4", "as in shuffle+zstd"),
    ],
)
def test_what_could_be_said_instead_of_a_bad_value(dirs, option, instead):
    one_line_refusal(run(DAEMON, *dirs, "-o", option), instead)


def test_missing_arguments_and_directories(dirs, work):
    backing, mnt = dirs
    (work / "file").write_text("a file")
    one_line_refusal(run(DAEMON))
    one_line_refusal(run(DAEMON, backing))
    one_line_refusal(run(DAEMON, backing, mnt, mnt))
    one_line_refusal(run(DAEMON, work / "absent", mnt), "absent")
    one_line_refusal(run(DAEMON, work / "file", mnt), "file")
    one_line_refusal(run(DAEMON, backing, work / "absent"), "absent")
    one_line_refusal(run(DAEMON, backing, work / "file"), "file")
    one_line_refusal(run(DAEMON, backing, mnt, "--bogus"), "bogus': unknown; see --help")
    for word in ("--codec=lz4", "--cache"):
        one_line_refusal(run(DAEMON, word, backing, mnt), f"'{word}': options of a mount follow -o")


def test_an_option_without_its_value(dirs):
    one_line_refusal(run(DAEMON, *dirs, "-o"), "-o", "wants options")


def test_busy_mount_point(mount):
    m = mount()
    got = run(DAEMON, m.backing, m.mnt)
    one_line_refusal(got, str(m.mnt), "mounted there already")
    (m.mnt / "f").write_bytes(b"the first one still works")
    assert (m.mnt / "f").read_bytes() == b"the first one still works"


def test_places_the_wrong_way_round(mount):
    """Mounted on each other, both were busy for ever."""
    m = mount()
    (m.mnt / "sub").mkdir()
    for backing in (m.mnt, m.mnt / "sub"):
        for how in ([], ["-o", "ro"]):
            got = run(DAEMON, backing, m.backing, *how)
            one_line_refusal(got, f"'{backing}'", "BACKING comes first")
    m.remount()


@pytest.mark.release
def test_busy_backing_directory(mount, work):
    """Two daemons that write to one directory would not know of each other's bytes. Who comes
    second is told where the first one is mounted."""
    m = mount()
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
        got = run(*command)
        assert got.returncode == 1, got
        assert re.fullmatch(
            rf"cframefs: .*'{re.escape(str(second))}': another cframefs (that writes )?has "
            rf"a directory {where} it mounted at '{re.escape(str(m.mnt))}'\n",
            got.stderr,
        ), got.stderr
        (m.mnt / "f").write_bytes(b"the first one still works")
        m.unmount()
        try:
            assert run(*command).returncode == 0
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
        got = run(DAEMON, m.backing / "d/e", work / "second", "-o", "ro")
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
        got = run(DAEMON, m.mnt / "d", work / "second")
        assert got.returncode == 0, got
        (work / "second/f").write_bytes(data)
    finally:
        umount(work / "second")
        wait_until(lambda: not daemon_of(work / "second"), 20, "end of the second daemon")
    m.unmount()
    (frame,) = (m.backing / "d").iterdir()
    inner = run(CFRAME, "cat", frame, text=False).stdout
    (work / "inner.b2frame").write_bytes(inner)
    assert run(CFRAME, "cat", work / "inner.b2frame", text=False).stdout == data


@pytest.mark.parametrize("command", ["cat", "info"])
def test_the_file_in_a_mount_in_place_of_its_frame(mount, command):
    m = mount()
    (m.mnt / "f").write_bytes(blob(1, 5000, "text"))
    got = run(CFRAME, command, m.mnt / "f")
    assert got.returncode == 1 and got.stdout == ""
    assert got.stderr == (
        f"cframe: {m.mnt}/f: is not a Blosc2 frame, but the contents of one: "
        "name the frame in the backing directory\n"
    )


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


def test_a_backing_directory_whose_daemon_was_asked_to_end(mount, work):
    """It has not come to that yet, which makes no difference: the next one waits."""
    m = mount()
    (m.mnt / "f").write_bytes(b"written last")
    (work / "second").mkdir()
    said = work / "second.log"
    m.proc.send_signal(signal.SIGSTOP)
    m.proc.send_signal(signal.SIGTERM)
    with open(said, "wb") as log:
        second = subprocess.Popen([DAEMON, m.backing, work / "second"], stderr=log)
    try:
        wait_until(
            lambda: second.poll() is not None or "waiting for another" in said.read_text(),
            30,
            "its line",
        )
        assert second.poll() is None, said.read_text()
    finally:
        m.proc.send_signal(signal.SIGCONT)
        m.wait()
    assert second.wait(300) == 0, said.read_text()
    try:
        assert (work / "second" / "f").read_bytes() == b"written last"
    finally:
        umount(work / "second")


def told(directory):
    """True: a daemon says which mount of the backing directory is its own (claim.c)."""
    fd = os.open(directory, os.O_RDONLY)
    try:
        asked = struct.pack("hhqqi0q", fcntl.F_WRLCK, os.SEEK_SET, 0, 1 << 53, 0)
        found = fcntl.fcntl(fd, fcntl.F_OFD_GETLK, asked)
    finally:
        os.close(fd)
    return struct.unpack_from("h", found)[0] == fcntl.F_RDLCK


def test_a_mount_that_is_gone_is_not_told_any_more(mount, work):
    """Its device number may be that of the next mount, of another directory: who waits for this one
    would be refused."""
    m = mount(SLOW, start=False)
    fault = Fault(m, work / "fault")
    m.start()
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


def test_a_mount_point_whose_daemon_is_gone(dirs):
    """By SIGKILL, and nobody has unmounted: the next one says what to do."""
    backing, mnt = dirs
    assert run(DAEMON, backing, mnt).returncode == 0
    (pid,) = daemon_of(mnt)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not daemon_of(mnt), 20, "end of the daemon")
    one_line_refusal(run(DAEMON, backing, mnt), str(mnt), "umount it first")
    assert umount(mnt).returncode == 0
    assert run(DAEMON, backing, mnt).returncode == 0
    assert umount(mnt).returncode == 0


@pytest.mark.parametrize("below", ["", "plain"])
def test_mounted_over_itself(dirs, below):
    """At its own backing directory, or in it, where the mount point is not shown."""
    backing, _ = dirs
    (backing / "plain").mkdir()
    top = backing / below
    data = blob(12, 300_000, "text")
    got = run(DAEMON, backing, top)
    try:
        assert got.returncode == 0 and got.stderr == "", got
        (top / "f").write_bytes(data)
        sync(top / "f")
        assert sorted(os.listdir(top)) == (["f"] if below else ["f", "plain"])
    finally:
        assert umount(top).returncode == 0
    wait_until(lambda: not daemon_of(top), 20, "end of the daemon")
    assert sorted(os.listdir(backing)) == ["f.b2frame", "plain"]
    assert run(CFRAME, "cat", backing / "f.b2frame", text=False).stdout == data


def daemon_of(mnt):
    """The process that serves a mount point (its command line names it), without its guard."""
    found = run("pgrep", "-f", "--", str(mnt)).stdout.split()
    guards = run("pgrep", "-x", "cframefs-guard").stdout.split()
    return [int(pid) for pid in found if int(pid) != os.getpid() and pid not in guards]


def test_daemonizes_once_the_mount_answers(dirs):
    backing, mnt = dirs
    (backing / "plain").write_bytes(b"there at once")
    got = run(DAEMON, backing, mnt)
    assert got.returncode == 0 and got.stderr == "", got
    assert (mnt / "plain").read_bytes() == b"there at once"
    pids = daemon_of(mnt)
    assert len(pids) == 1
    assert os.getsid(pids[0]) != os.getsid(0), "it has a session of its own"
    (mnt / "f").write_bytes(b"written")
    assert umount(mnt).returncode == 0
    wait_until(lambda: not daemon_of(mnt), 20, "end of the daemon")
    assert (backing / "f.b2frame").exists()


def test_fusermount_unmounts(mount, tool):
    m = mount()
    (m.mnt / "f").write_bytes(b"data")
    assert run(tool("fusermount3"), "-u", m.mnt).returncode == 0
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


def test_a_second_signal_does_no_harm(mount):
    m = mount()
    (m.mnt / "f").write_bytes(blob(2, 3_000_000, "noise"))
    for _ in range(3):
        if m.running():
            m.proc.send_signal(signal.SIGTERM)
    m.wait()
    m.start()
    assert (m.mnt / "f").stat().st_size == 3_000_000


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


@pytest.mark.concurrent
def test_it_stops_while_the_kernel_is_made_to_write(mount):
    """The thread that answers a question for holes waits in the kernel for pages that others take:
    those stay until it is back."""
    m = mount("codec=lz4")
    for _ in range(3):
        writers = [
            threading.Thread(target=write_and_ask, args=(m.mnt / f"f{i}",)) for i in range(4)
        ]
        for writer in writers:
            writer.start()
        time.sleep(0.3)
        m.proc.send_signal(signal.SIGTERM)
        try:
            m.proc.wait(60 * SLOWNESS)
        except subprocess.TimeoutExpired:
            m.kill()
            pytest.fail("the daemon did not end by SIGTERM")
        finally:
            for writer in writers:
                writer.join()
        m.wait()
        m.start()


def test_a_kill_while_it_stops_ends_it(mount):
    """While it flushes for SIGTERM the daemon asks things of its own mount. Killed there, it
    must still die: a thread that waits for an answer from its own dead process keeps the mount
    hanging for ever."""
    m = mount()
    for i in range(40):
        run("sh", "-c", 'head -c 300000 /dev/zero > "$0"', m.mnt / "f")
        m.proc.send_signal(signal.SIGTERM)
        time.sleep(i % 10 * 0.0001)
        assert m.kill(), "SIGKILL soon after SIGTERM did not end the daemon"
        m.start()


# ---- what the options do to the stored frame


def header(path):
    """The pipeline that the header of a frame names (FORMAT.md 9.1)."""
    raw = path.read_bytes()[:97]
    names = {0: "blosclz", 1: "lz4", 2: "lz4hc", 4: "zlib", 5: "zstd"}
    return {
        "codec": names[raw[0x1B] & 15],
        "level": raw[0x1B] >> 4,
        "typesize": int.from_bytes(raw[0x30:0x34], "big"),
        "blocksize": int.from_bytes(raw[0x35:0x39], "big"),
        "chunksize": int.from_bytes(raw[0x3A:0x3E], "big"),
        "filters": [f for f in raw[0x47:0x4D] if f],
    }


def store(m, data):
    (m.mnt / "f").write_bytes(data)
    sync(m.mnt / "f")
    m.remount()
    assert (m.mnt / "f").read_bytes() == data
    return header(m.stored("f"))


@pytest.mark.parametrize("codec", CODECS)
def test_codec_and_level(mount, codec):
    got = store(mount(f"codec={codec},level=3"), blob(3, 500_000, "text"))
    assert (got["codec"], got["level"]) == (codec, 3)


@pytest.mark.parametrize(
    "name, ids", [("none", []), ("shuffle", [1]), ("bitshuffle", [2]), ("delta", [3])]
)
def test_filter_and_typesize(mount, name, ids):
    got = store(mount(f"codec=lz4,filter={name},typesize=4"), blob(4, 500_000, "runs"))
    assert (got["filters"], got["typesize"]) == (ids, 4)


def test_sizes_and_pipeline_text(mount):
    got = store(
        mount("chunksize=1M,blocksize=64K,typesize=4,filter=shuffle"), blob(5, 3_000_000, "ramp")
    )
    assert (got["chunksize"], got["blocksize"]) == (1 << 20, 64 << 10)
    got = store(mount("pipeline=shuffle:8+zlib:4"), blob(6, 1_000_000, "floats"))
    assert (
        got["codec"] == "zlib"
        and got["level"] == 4
        and got["filters"] == [1]
        and got["typesize"] == 8
    )


def test_level_0_stores(mount):
    m = mount("level=0")
    store(m, blob(7, 300_000, "text"))
    assert m.stored("f").stat().st_size >= 300_000


@pytest.mark.parametrize(
    "options",
    [
        "workers=1",
        "workers=3",
        "cache=1M",
        "dirty_max=4M",
        "commit=1",
        "noatime",
        "entry_timeout=0,attr_timeout=0",
        "entry_timeout=5",
        "chunksize=32K",
        "nosuid,nodev",
        "max_read=4K",
        "max_read=1M,readahead=0",
    ],
)
def test_other_options_mount_and_work(mount, options):
    m = mount(options)
    data = blob(8, 6_000_000, "floats")
    (m.mnt / "f").write_bytes(data)
    m.remount()
    assert (m.mnt / "f").read_bytes() == data


def test_commit_interval(mount):
    """A background commit brings an open file into its frame, without close or fsync."""
    m = mount("commit=1")
    fd = os.open(m.mnt / "f", os.O_CREAT | os.O_WRONLY | os.O_DIRECT)
    page = mmap.mmap(-1, 1 << 20)
    page[:] = blob(9, 1 << 20, "text")
    os.writev(fd, [page])

    def committed():
        return int.from_bytes(m.stored("f").read_bytes()[0x1E:0x26], "big") == 1 << 20

    wait_until(committed, 20, "background commit")
    os.close(fd)


def test_dirty_data_is_bounded(mount):
    """More is written than may be dirty: the writer waits, nothing is lost, memory stays small."""
    m = mount("dirty_max=8M,cache=8M,commit=3600,codec=lz4")
    data = blob(10, 1 << 20, "noise")
    fd = os.open(m.mnt / "f", os.O_CREAT | os.O_WRONLY)
    for _ in range(300):
        os.write(fd, data)
    os.fsync(fd)
    os.close(fd)
    held_to(m, 150 << 20)
    with open(m.mnt / "f", "rb") as f:
        assert all(f.read(1 << 20) == data for _ in range(300)) and f.read() == b""


# ---- mount(8)

NAMESPACE = """\
# mount(8) clears PATH: only system directories are searched
mount --bind "$BIN" /usr/local/sbin || exit 77
PATH=/usr/local/sbin:$PATH
trap 'umount "$MNT" 2>/dev/null || :' EXIT
# the copies of other tests' mounts: here they would outlive an umount there
grep -o ' /[^ ]*/cframefs-tests-[^ ]*' /proc/self/mounts | sort -r | while read -r top; do
  umount -l "$top"
done
umount -lat fuse.cframefs
set -e
"""


@pytest.fixture
def shell(dirs, work, tool, root):
    """shell(script) runs with cframefs installed as for everybody, in a mount namespace of its own.
    $BACKING and $MNT are the directories; what is mounted must be unmounted by the script."""
    tool("mount.fuse3"), tool("unshare")
    backing, mnt = dirs
    (work / "bin").mkdir()
    (work / "bin" / "cframefs").symlink_to(DAEMON)
    env = {
        **os.environ,
        "BIN": str(work / "bin"),
        "BACKING": str(backing),
        "MNT": str(mnt),
        "WORK": str(work),
    }

    def call(script):
        got = run(
            "unshare", "-m", "--propagation", "private", "sh", "-c", NAMESPACE + script, env=env
        )
        if got.returncode == 77:
            pytest.skip("no bind mounts or devices here, or a path that not all may enter")
        wait_until(lambda: not daemon_of(mnt), 20, "end of the daemon")
        return got

    return call


SMALL, TINY = 128 << 20, 64 << 20


@pytest.mark.parametrize(
    "files, options",
    [
        ({"memory.max": SMALL, "memory/memory.limit_in_bytes": SMALL}, ""),
        ({"memory.max": "max", "memory.high": SMALL, "memory/memory.limit_in_bytes": SMALL}, ""),
        ({"memory.max": 512 << 20, "memory/memory.limit_in_bytes": 512 << 20}, ""),
        ({"memory.max": "max", "memory/memory.limit_in_bytes": (1 << 63) - 4096}, ""),
        ({"memory.max": TINY, "memory/memory.limit_in_bytes": TINY}, "-o cache=4M,dirty_max=4M"),
    ],
    ids=["limit", "high", "room", "none", "nothing to cut"],
)
def test_memory_of_a_container(shell, files, options):
    """
    The limit of a control group, of either version: this process is in one of them. It matters
    where it has no room for what the options say.
    """
    groups = Path("/proc/self/cgroup")
    if not groups.exists() or not re.search("^0::|memory", groups.read_text(), re.M):
        pytest.skip("no control groups here")
    write = "".join(f"echo {value} > /sys/fs/cgroup/{name}\n" for name, value in files.items())
    got = shell(
        "mkdir -p /sys/fs/cgroup; mount -t tmpfs none /sys/fs/cgroup || exit 77\n"
        f"mkdir /sys/fs/cgroup/memory\n{write}"
        f'"$BIN/cframefs" "$BACKING" "$MNT" {options}; umount "$MNT"; umount /sys/fs/cgroup'
    )
    said = "memory is limited" in got.stderr
    assert got.returncode == 0 and said == (SMALL in files.values()), got.stderr
    assert not said or "limited to 128 MiB: cache 32, dirty_max 16" in got.stderr


@pytest.mark.release  # a sanitizer needs /proc too
def test_without_proc(shell):
    got = shell(
        'mount -t tmpfs none /proc || exit 77; "$BIN/cframefs" "$BACKING" "$MNT" || echo refused'
    )
    assert got.returncode == 0 and "refused" in got.stdout
    assert "'/proc': is not mounted, and cframefs needs it" in got.stderr


def test_mount_program(shell, dirs):
    (dirs[0] / "plain").write_bytes(blob(11, 300_000, "floats"))
    got = shell(
        'mount -t fuse.cframefs "$BACKING" "$MNT" -o codec=lz4,typesize=8,filter=shuffle,dev,suid\n'
        'cp "$MNT/plain" "$MNT/f"; grep " $MNT " /proc/self/mountinfo; umount "$MNT"'
    )
    assert got.returncode == 0, got.stderr
    assert "fuse.cframefs" in got.stdout
    assert header(dirs[0] / "f.b2frame")["codec"] == "lz4"


def test_mount_program_tells_a_failure(shell):
    got = shell('mount -t fuse.cframefs "$BACKING" "$MNT" -o codec=snappy')
    assert got.returncode != 0 and "codec" in got.stderr
    got = shell('mount -t fuse.cframefs "$BACKING/absent" "$MNT"')
    assert got.returncode != 0 and "absent" in got.stderr


# A user who is not root, with a /dev/fuse that is open to all, as distributions have it.
AS_A_USER = """\
mkdir "$WORK/dev" && mount -t tmpfs none "$WORK/dev" && mknod -m 666 "$WORK/dev/null" c 1 3 &&
  mknod -m 666 "$WORK/dev/fuse" c 10 229 && : > "$WORK/dev/fuse" || exit 77
mount --move "$WORK/dev" /dev
chown 65534:65534 "$BACKING" "$MNT"; mkdir "$WORK/roots"
# fusermount3 counts a user's mounts in there; a container may have none
[ -e /etc/mtab ] || { cp -a /etc "$WORK/etc"; ln -s /proc/mounts "$WORK/etc/mtab"
  mount --bind "$WORK/etc" /etc; }
PATH=/usr/local/sbin:$PATH
as_user() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }
as_user cframefs --version > /dev/null 2>&1 || exit 77
"""


def test_a_user_mounts_and_unmounts(shell, tool):
    """Without a word on the terminal."""
    tool("setpriv"), tool("fusermount3")
    got = shell(
        AS_A_USER + 'as_user cframefs "$BACKING" "$MNT"\n'
        'as_user sh -c \'echo written > "$MNT/f"; cat "$MNT/f"; fusermount3 -u "$MNT"\''
    )
    assert (got.returncode, got.stdout, got.stderr) == (0, "written\n", ""), got


@pytest.mark.release
@pytest.mark.parametrize(
    "options, mode, said", [("-o ro", "777", "written"), ("", "755", "written"), ("", "777", "")]
)
def test_a_user_who_looks_at_everything(shell, tool, options, mode, said):
    """Another one has the directory above. That is in the way only where both might write."""
    tool("setpriv"), tool("fusermount3")
    got = shell(
        AS_A_USER + f'other() {{ setpriv --reuid 1 --regid 1 --clear-groups "$@"; }}\n'
        f'mkdir "$WORK/view"; chown 1 "$WORK/view"; chmod {mode} "$BACKING"\n'
        f'other cframefs {options} "$WORK" "$WORK/view" || exit 77\n'
        'as_user cframefs "$BACKING" "$MNT" && as_user sh -c \'echo written > "$MNT/f"; '
        'cat "$MNT/f"; fusermount3 -u "$MNT"\'\n'
        'other fusermount3 -u "$WORK/view"'
    )
    assert (got.returncode, got.stdout.strip()) == (0, said), got
    assert ("a directory above it mounted at" in got.stderr) == (not said), got


def test_a_user_is_told_what_is_not_allowed(shell, tool):
    """In one line each: somebody else's mount point, backing directory, and device."""
    tool("setpriv"), tool("fusermount3")
    got = shell(
        AS_A_USER + 'as_user cframefs "$BACKING" "$WORK/roots" || echo refused\n'
        'chmod 700 "$WORK/roots"; as_user cframefs "$WORK/roots" "$MNT" || echo refused\n'
        'chmod 600 /dev/fuse; as_user cframefs "$BACKING" "$MNT" || echo refused\n'
        'rm /dev/fuse; as_user cframefs "$BACKING" "$MNT" || echo refused'
    )
    assert (got.returncode, got.stdout.split()) == (0, ["refused"] * 4), got
    mount_point, backing, device, absent = got.stderr.splitlines()
    assert "roots" in mount_point and "access" in mount_point
    assert "backing directory" in backing and "roots" in backing and "denied" in backing
    assert "/dev/fuse" in device and "denied" in device
    assert "/dev/fuse: No such file" in absent
    assert "cframe extract" in device and "cframe extract" in absent


def test_fstab(shell, dirs, work):
    (work / "fstab").write_text(
        f"{dirs[0]} {dirs[1]} fuse.cframefs noauto,codec=zlib,level=2 0 0\n"
    )
    got = shell('mount -T "$WORK/fstab" "$MNT"; seq 20000 > "$MNT/f"; umount "$MNT"')
    assert got.returncode == 0, got.stderr
    assert header(dirs[0] / "f.b2frame")["codec"] == "zlib"


def test_remount_read_only(shell, dirs):
    """mount -o remount,ro comes to the helper too: no second daemon, no lost
    data, and then no more writing."""
    got = shell(
        'mount -t fuse.cframefs "$BACKING" "$MNT"; echo before > "$MNT/f"\n'
        'mount -o remount,ro "$MNT"; cat "$MNT/f"; ! touch "$MNT/g" 2>"$WORK/refusal"; sleep 0.2\n'
        'grep -c " $MNT " /proc/self/mountinfo; umount "$MNT"'
    )
    assert got.returncode == 0, got.stderr
    assert got.stdout.split() == ["before", "1"]
    assert os.listdir(dirs[0]) == ["f.b2frame"]


def test_a_backing_directory_that_is_read_only(shell, dirs):
    """A line says so when it is mounted, and the mount is what that line says."""
    got = shell(
        'cframefs "$BACKING" "$MNT"; echo data > "$MNT/f"; umount "$MNT"\n'
        'mount --bind "$BACKING" "$BACKING"; mount -o remount,bind,ro "$BACKING"\n'
        'cframefs "$BACKING" "$MNT"; cat "$MNT/f"\n'
        '! touch "$MNT/g" 2>"$WORK/refusal"; ! echo more 2>>"$WORK/refusal" >>"$MNT/f"\n'
        'grep " $MNT " /proc/self/mountinfo | cut -d " " -f 6; umount "$MNT"\n'
        'cframefs -o ro "$BACKING" "$MNT"; cat "$MNT/f"; umount "$MNT"; umount -l "$BACKING"'
    )
    assert got.returncode == 0, got
    data, flags, again = got.stdout.split()
    assert data == again == "data" and "ro" in flags.split(",")
    why = "its file system is read-only, and so is this mount (-o ro)"
    assert got.stderr == f"cframefs: backing directory '{dirs[0]}': {why}\n"


def test_a_user_is_told_of_a_directory_that_is_not_theirs_to_write(shell, tool):
    tool("setpriv"), tool("fusermount3")
    got = shell(
        AS_A_USER + 'chown 0:0 "$BACKING"; chmod 755 "$BACKING"; echo data > "$BACKING/f"\n'
        'chown 65534 "$BACKING/f"; as_user cframefs "$BACKING" "$MNT"\n'
        'as_user sh -c \'echo more >> "$MNT/f"; cat "$MNT/f"; ! touch "$MNT/g" 2>/dev/null\'\n'
        'as_user fusermount3 -u "$MNT"'
    )
    assert (got.returncode, got.stdout.split()) == (0, ["data", "more"]), got
    assert got.stderr.startswith("cframefs: backing directory '") and got.stderr.count("\n") == 1
    assert "Permission denied: no file can be made" in got.stderr
