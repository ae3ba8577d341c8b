"""The watchdog: if a test takes too long, it shows where all threads are, then ends the daemons."""

import contextlib
import faulthandler
import signal
import subprocess
import sys
import threading

import libmount


class TooLong(BaseException):
    """Raised in the test when its time is over. No Exception: hypothesis would
    try the example again."""


def end_daemons(out):
    for mount, proc in list(libmount.live.items()):
        print(f"--- daemon {proc.pid} of {mount.mnt}", file=out)
        try:
            print(libmount.daemon_stacks(proc.pid), file=out)
        except (OSError, subprocess.SubprocessError) as error:
            print(f"no stacks: {error}", file=out)
        with contextlib.suppress(ProcessLookupError):
            mount.end()


class Watchdog:
    """Guards one test. The test's own system calls end once the daemon is dead."""

    def __init__(self, seconds, report):
        self.report = report
        self.fired = False
        self.done = threading.Event()
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
            self.done.wait()
            raise TooLong(f"watchdog: stacks are in {self.report}")

    def bark(self):
        self.fired = True
        # First the signal: its handler runs as soon as the test's system call
        # returns, before any teardown.
        signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR2)
        try:
            self.report.parent.mkdir(parents=True, exist_ok=True)
            with open(self.report, "w", encoding="utf-8") as out:
                faulthandler.dump_traceback(out)
                out.flush()
                end_daemons(out)
            print(self.report.read_text(), file=sys.stderr)
        finally:
            self.done.set()
