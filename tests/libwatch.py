"""The watchdog: when a test takes too long, show where everybody stands, then end the daemons."""

import faulthandler
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import libmount


class TooLong(Exception):
    """Raised in the test when its time is over."""


def daemon_stacks(pid):
    """Where each thread of a process stands: the kernel's view, and gdb's if it is here."""
    lines = []
    for task in sorted(Path(f"/proc/{pid}/task").glob("*")):
        for what in ("comm", "wchan", "syscall", "stack"):
            try:
                lines.append(f"{task.name} {what}: {(task / what).read_text().strip()}")
            except OSError:
                pass
    if shutil.which("gdb"):
        got = subprocess.run(["gdb", "-p", str(pid), "-batch", "-ex", "thread apply all bt"],
                             capture_output=True, text=True, timeout=60)
        lines.append(got.stdout)
    return "\n".join(lines)


def end_daemons(out):
    for mount, proc in list(libmount.live.items()):
        print(f"--- daemon {proc.pid} of {mount.mnt}", file=out)
        try:
            print(daemon_stacks(proc.pid), file=out)
        except (OSError, subprocess.SubprocessError) as error:
            print(f"no stacks: {error}", file=out)
        try:
            os.killpg(proc.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


class Watchdog:
    """Guards one test. The test's own system calls end once the daemon is dead."""

    def __init__(self, seconds, report):
        self.report = report
        self.fired = False
        self.timer = threading.Timer(seconds, self.bark)
        self.timer.daemon = True

    def __enter__(self):
        signal.signal(signal.SIGUSR2, self.interrupt)
        self.timer.start()
        return self

    def __exit__(self, *_):
        self.timer.cancel()

    def interrupt(self, *_):
        if self.fired:
            raise TooLong(f"watchdog: stacks are in {self.report}")

    def bark(self):
        self.fired = True
        self.report.parent.mkdir(parents=True, exist_ok=True)
        with open(self.report, "w", encoding="utf-8") as out:
            faulthandler.dump_traceback(out)
            out.flush()
            end_daemons(out)
        print(self.report.read_text(), file=sys.stderr)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR2)
