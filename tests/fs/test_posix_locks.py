"""Locks of files, between processes."""

import fcntl
import os
import subprocess
import time

import pytest

from libposix import error_of, in_child


@pytest.mark.parametrize(
    "take, free",
    [
        (
            lambda fd: fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB),
            lambda fd: fcntl.flock(fd, fcntl.LOCK_UN),
        ),
        (
            lambda fd: fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 100, 50),
            lambda fd: fcntl.lockf(fd, fcntl.LOCK_UN, 100, 50),
        ),
    ],
    ids=["flock", "posix"],
)
def test_locks_between_processes(file, fd, take, free):
    def try_elsewhere():
        other = os.open(file, os.O_RDWR)
        return error_of(take, other)

    take(fd)
    assert in_child(try_elsewhere) == "EAGAIN"
    free(fd)
    assert in_child(try_elsewhere) is None


def test_posix_locks_of_other_ranges_do_not_meet(file, fd):
    fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 100, 0)

    def lock_beside():
        other = os.open(file, os.O_RDWR)
        return error_of(fcntl.lockf, other, fcntl.LOCK_EX | fcntl.LOCK_NB, 100, 100)

    assert in_child(lock_beside) is None


@pytest.mark.concurrent
def test_blocking_flock_waits_and_can_be_interrupted(file, fd):
    fcntl.flock(fd, fcntl.LOCK_EX)
    waiter = subprocess.Popen(["flock", file, "true"])
    time.sleep(0.3)
    assert waiter.poll() is None
    waiter.kill()
    assert waiter.wait(250) == -9, "a waiter for a lock must be killable"
    waiter = subprocess.Popen(["flock", file, "true"])
    fcntl.flock(fd, fcntl.LOCK_UN)
    assert waiter.wait(250) == 0
