"""A real cframefs daemon on a real mount point, started and ended by a test."""

import contextlib
import functools
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("BUILD_DIR") or REPO / "build").resolve()
DAEMON = BUILD / "src/fs/cframefs"
CFRAME = BUILD / "tools/cframe/cframe"

# Lines of a daemon's log that fail a test, unless the test allows them.
SUSPECT = re.compile(
    r"cframefs: (error|warning)|^fuse: |[Aa]ssert|Sanitizer|runtime error:|SUMMARY:"
)
# How many times slower a sanitized daemon is, and all that waits for it.
SLOWNESS = float(os.environ.get("CFRAMEFS_TEST_SLOWNESS") or 1)

# A new daemon gets a SIGTERM when the test process dies, so that a crashed test leaves no mount. By
# a program, as a preexec_fn would have Python fork, not vfork, and copy the page tables of all that
# the tests have in memory.
END_WITH_PARENT = ["setpriv", "--pdeathsig", "TERM"]

live = {}  # every running daemon of this process: Mount -> Popen; the watchdog ends these


class MountFailed(Exception):
    """The daemon ended before its mount answered."""


def device_of(path):
    """The number of the FUSE connection mounted at `path`, or None; asks the kernel's table,
    never the (perhaps stuck) mount."""
    escaped = str(path).replace("\\", r"\134").replace(" ", r"\040")
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as table:
        for line in table:
            words = line.split(" ")
            if words[4] == escaped:
                return words[2].split(":")[1]
    return None


def is_mounted(path):
    return device_of(path) is not None


def abort_connection(device):
    """The last resort: all requests on a connection fail, even one that its
    own daemon is waiting for."""
    control = Path("/sys/fs/fuse/connections")
    ours = not any(control.iterdir())  # not mounted yet
    if ours:
        subprocess.run(
            ["mount", "-t", "fusectl", "none", control], capture_output=True, check=False
        )
    with contextlib.suppress(OSError):
        (control / str(device) / "abort").write_text("1")
    if ours:
        umount(control, "-l")


@functools.cache
def may_control_connections():
    if Path("/sys/fs/fuse/connections").is_mount():
        return True
    tried = subprocess.run(
        ["unshare", "-m", "mount", "-t", "fusectl", "none", "/sys/fs/fuse/connections"],
        capture_output=True,
        check=False,
    )
    return tried.returncode == 0


def other_namespaces():
    """True when some process lives in a mount namespace of its own: made while a mount was
    there, it keeps a copy, and then an umount here does not end the daemon."""
    mine = os.stat("/proc/self/ns/mnt").st_ino
    for namespace in Path("/proc").glob("[0-9]*/ns/mnt"):
        try:
            if namespace.stat().st_ino != mine and (namespace.parent.parent / "exe").exists():
                return True
        except OSError:
            pass
    return False


def wait_until(condition, seconds=10.0, what="condition"):
    """Polls `condition` until it is true, and returns what it returned. `seconds` on a quiet
    machine: a busy one gets much more, since giving up early would tell of its load and of
    nothing else."""
    seconds *= 6
    end = time.monotonic() + seconds * SLOWNESS
    while True:
        got = condition()
        if got:
            return got
        assert time.monotonic() < end, f"{what}: not within {seconds * SLOWNESS:g} s"
        time.sleep(0.01)


def umount(path, *flags):
    """umount(8) as root, fusermount3 otherwise; returns the finished process."""
    tool = ["umount"] if os.geteuid() == 0 else ["fusermount3", "-u"]
    flags = [{"-l": "-z"}.get(f, f) for f in flags] if os.geteuid() else flags
    return subprocess.run([*tool, *flags, str(path)], capture_output=True, text=True, timeout=300)


@contextlib.contextmanager
def another_mount(path):
    """The directory as it is found when its disk comes back: what was not synced has to prove
    itself there."""
    again = path.parent / "again"
    again.mkdir(exist_ok=True)
    subprocess.run(["mount", "--bind", path, again], check=True)
    try:
        yield again
    finally:
        umount(again, "-l")


def daemon_stacks(pid):
    """Where each thread of a process stands: the kernel's view, and gdb's if it is here."""
    lines = []
    for task in sorted(Path(f"/proc/{pid}/task").glob("*")):
        for what in ("comm", "wchan", "syscall", "stack"):
            with contextlib.suppress(OSError):
                lines.append(f"{task.name} {what}: {(task / what).read_text().strip()}")
    if shutil.which("gdb"):
        os.kill(pid, signal.SIGCONT)  # gdb waits for ever on a stopped process
        got = subprocess.run(
            ["gdb", "-p", str(pid), "-batch", "-ex", "thread apply all bt"],
            capture_output=True,
            text=True,
            timeout=300,
        )
        lines.append(got.stdout)
    return "\n".join(lines)


class Mount:
    """One backing directory, one mount point, one log; the daemon may come and go."""

    def __init__(self, work, options="", backing=None, user=None, argv=None):
        self.work = Path(work)
        self.backing = Path(backing) if backing else self.work / "backing"
        self.mnt = self.work / "mnt"
        self.log = self.work / "daemon.log"
        self.options = options
        self.user = user
        self.allowed = []
        self.proc = None
        self.device = None
        for directory in (self.work, self.backing, self.mnt):
            directory.mkdir(parents=True, exist_ok=True)
        self.argv = argv or [str(DAEMON)]

    def command(self):
        line = [*self.argv, str(self.backing), str(self.mnt), "-f"]
        return [*line, "-o", self.options] if self.options else line

    def start(self):
        """Starts the daemon and returns when it says that the mount answers: until then it
        looks at that itself, which can make an umount fail."""
        with open(self.log, "ab") as log:
            before = log.tell()
            self.proc = subprocess.Popen(
                [*END_WITH_PARENT, *self.command()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd=self.work,
                user=self.user,
            )
        live[self] = self.proc

        def up():
            if self.proc.poll() is not None:
                live.pop(self, None)
                raise MountFailed(f"exit {self.proc.returncode}: {self.log_text()}")
            self.device = device_of(self.mnt)
            return self.device and b": mounted" in self.log.read_bytes()[before:]

        wait_until(up, 30, f"mount of {self.mnt}")
        if self.user is None:
            os.stat(self.mnt)
        return self

    def unmount(self, code=0):
        """Unmounts as a user does; the daemon must end cleanly."""

        def done():
            got = umount(self.mnt)
            assert got.returncode == 0 or "busy" in got.stderr, got.stderr
            return got.returncode == 0

        wait_until(done, 10, f"umount of {self.mnt}")
        try:
            self.proc.wait(2 * SLOWNESS)
        except subprocess.TimeoutExpired:
            if other_namespaces():
                self.proc.send_signal(signal.SIGTERM)
        self.wait(code)

    def wait(self, code=0):
        """The daemon ends by itself with this exit code."""
        try:
            got = self.proc.wait(300 * SLOWNESS)
        except subprocess.TimeoutExpired:
            stacks = daemon_stacks(self.proc.pid)
            self.kill()
            raise AssertionError(f"the daemon of {self.mnt} did not end:\n{stacks}") from None
        live.pop(self, None)
        assert got == code, f"daemon ended with {got}, not {code}: {self.log_text()[-2000:]}"

    def remount(self, options=None):
        self.unmount()
        self.options = self.options if options is None else options
        return self.start()

    def terminate(self, sig=signal.SIGTERM):
        """A signal that asks the daemon to end; it flushes and unmounts."""
        self.proc.send_signal(sig)
        self.wait()

    def cpu_seconds(self):
        """The processor time that the daemon has taken."""
        fields = Path(f"/proc/{self.proc.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def kill(self):
        """SIGKILL for the daemon's process group, then the dead mount is taken
        away. True: it died of that."""
        died = self.end()
        live.pop(self, None)
        for _ in range(8):
            if not is_mounted(self.mnt):
                return died
            umount(self.mnt, "-l")
        raise AssertionError(f"{self.mnt} cannot be unmounted")

    def end(self):
        """SIGKILL; when a thread of the daemon hangs in its own mount, that is
        not enough: False."""
        if self.proc is None or self.proc.poll() is not None:
            return True
        os.killpg(self.proc.pid, signal.SIGKILL)
        try:
            self.proc.wait(30 * SLOWNESS)
            return True
        except subprocess.TimeoutExpired:
            abort_connection(self.device)
            self.proc.wait()
            return False

    def has_open(self, name):
        """The daemon has the backing file of the mounted file `name` open for writing."""
        for fd in Path(f"/proc/{self.proc.pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                flags = int((fd.parents[1] / "fdinfo" / fd.name).read_text().split()[3], 8)
                if fd.samefile(self.stored(name)) and flags & os.O_ACCMODE == os.O_RDWR:
                    return True
        return False

    def running(self):
        return self.proc is not None and self.proc.poll() is None

    def log_text(self):
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def need_custom_io(self):
        """For tests that depend on the flags of requests, which not every libfuse passes on."""
        if "the kernel will ask before each write" in self.log_text():
            pytest.skip("this libfuse lets nobody in between")

    def allow(self, *patterns):
        """These log lines are expected to be possible in this test."""
        self.allowed += [re.compile(p) for p in patterns]
        return self

    def expect_log(self, pattern, seconds=5):
        """This log line is allowed, and must come."""
        self.allow(pattern)
        rx = re.compile(pattern)
        return wait_until(
            lambda: [s for s in self.log_text().splitlines() if rx.search(s)],
            seconds,
            f"log line {pattern!r} in {self.log_text()[-2000:]!r}",
        )

    def complaints(self):
        """Suspect log lines that nobody allowed."""
        return [
            line
            for line in self.log_text().splitlines()
            if SUSPECT.search(line) and not any(p.search(line) for p in self.allowed)
        ]

    def finish(self):
        """End of the test: a clean unmount, and a clean log."""
        if self.running():
            self.unmount()
        elif is_mounted(self.mnt):
            self.kill()
            raise AssertionError(
                f"the daemon of {self.mnt} is gone ({self.proc.returncode}), its mount is not: "
                f"{self.log_text()[-4000:]}"
            )
        bad = self.complaints()
        assert not bad, "unexpected lines in the daemon's log:\n" + "\n".join(bad[:40])

    def stored(self, name):
        """The backing file of the mounted file `name`."""
        return self.backing / f"{name}.b2frame"
