"""The machine under the bench: commands, mounts, loop devices, memory, versions.

Whatever is set up here is registered with an ExitStack and is taken down in reverse order,
also on ^C and SIGTERM. Nothing is ended that was not started here.
"""

import contextlib
import os
import platform
import re
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path


class BenchError(Exception):
    """Something that the user can put right; shown as one line."""


class Unavailable(BenchError):
    """A system that this machine cannot run; it is left out, with the reason."""


def run(*argv, cwd=None, error=BenchError):
    """Runs a command quietly; its output, or an exception with what it said."""
    argv = [str(a) for a in argv]
    try:
        done = subprocess.run(
            argv, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True
        )
    except FileNotFoundError:
        raise error(f"{argv[0]}: not installed") from None
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise error(f"{' '.join(argv[:3])} ...: {said[-1] if said else 'failed'}")
    return done.stdout


def ask(*argv):
    """First line that a command prints, or "" where it is absent or fails."""
    try:
        return run(*argv).strip().splitlines()[0]
    except (BenchError, IndexError):
        return ""


def program(given, built):
    """A program of ours: that which was given, or that of the build directory; None: not built."""
    if given and not Path(given).is_file():
        raise BenchError(f"{given}: no such program")
    path = Path(given or Path(__file__).parents[2] / "build" / built).resolve()
    return path if path.exists() else None


def need(path, name):
    """The same, where the bench is nothing without it."""
    if not path:
        raise BenchError(f"{name} is not built (or say --{name} PATH)")
    return path


def positive(text):
    """A type of argparse: a number above 0."""
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def natural(text):
    """The same: 0 or more."""
    number = int(text)
    if number < 0:
        raise ValueError
    return number


def check_outputs(*names):
    """Before the run, which may take an hour: can these files be written?"""
    for path in (Path(name) for name in names if name):
        folder = path.absolute().parent
        if path.is_dir() or not os.access(path if path.exists() else folder, os.W_OK):
            raise BenchError(f"{path}: cannot be written")


def stop_on_signals():
    """SIGTERM and SIGHUP unwind like ^C."""

    def leave(number, _frame):
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGHUP, leave)


keep_caches = False  # set by --keep-caches


def drop_caches():
    if keep_caches:
        return
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3\n")


def escaped(path):
    """As /proc/self/mounts has it."""
    return re.sub(r"[ \t\n\\]", lambda c: f"\\{ord(c[0]):03o}", str(path))


def is_mounted(path):
    with open("/proc/self/mounts", encoding="utf-8", errors="surrogateescape") as mounts:
        return any(line.split(" ")[1] == escaped(path) for line in mounts)


def unmount(path):
    """Unmounts; a descriptor that is just being closed elsewhere gets two seconds."""
    for _ in range(20):
        if not is_mounted(path):
            return
        try:
            run("umount", path)
        except BenchError:
            time.sleep(0.1)
    if is_mounted(path):
        run("umount", "-l", path)


def workroom(stack):
    """A private tmpfs: backing files and images live in memory."""
    if os.geteuid() != 0:
        raise BenchError("the bench mounts loop devices and drops caches: run it as root")
    room = Path(tempfile.mkdtemp(prefix="cframefs-bench-")).resolve()  # as mounts are named
    stack.callback(shutil.rmtree, room, ignore_errors=True)
    run("mount", "-t", "tmpfs", "-o", "size=80%,mode=755", "cframefs-bench", room)
    stack.callback(unmount, room)
    return room


def detach(device):
    with contextlib.suppress(BenchError):
        run("losetup", "-d", device)


def loop_device(stack, image):
    device = run("losetup", "--find", "--show", image, error=Unavailable).strip()
    stack.callback(detach, device)
    return device


def bytes_written(device):
    """To a block device, since it is there."""
    fields = (Path("/sys/block") / Path(device).name / "stat").read_text().split()
    return int(fields[6]) * 512  # sectors, whatever the size of a block


def cpu_model():
    found = re.search(
        r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.M
    )
    return found.group(1) if found else platform.machine()


def describe(cframefs=None):
    """What a reader of the numbers wants to know about the machine."""
    modules = {
        name: ask("pkg-config", "--modversion", pc)
        for name, pc in (
            ("libfuse", "fuse3"),
            ("lz4", "liblz4"),
            ("zstd", "libzstd"),
            ("zlib", "zlib"),
        )
    }
    return {
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cpu": cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        # of the minute at the end of the run: the bench's own is about 1
        "load_average": os.getloadavg()[0],
        "memory_mib": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20,
        "libraries": modules,
        "cframefs": run(cframefs, "--version").strip().splitlines() if cframefs else [],
        "btrfs_progs": ask("mkfs.btrfs", "--version"),
        "squashfs_tools": ask("mksquashfs", "-version"),
    }
