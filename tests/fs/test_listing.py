"""The kernel keeps listings of directories for a while, and shows every change of them at once if
it was made through the mount, and soon if another program made it."""

import contextlib
import errno
import os
import shutil

import pytest

from libfault import Fault
from libmount import wait_until
from libstats import Moved

LONG = "entry_timeout=1000,attr_timeout=1000"
NAMES = sorted(f"file-{i:03d}" for i in range(300))  # more than one answer holds


def listings(moved):
    return moved("requests", "readdir") + moved("requests", "readdirplus")


def filled(m):
    for name in NAMES:
        (m.mnt / name).touch()
    return m


def test_a_kept_listing_takes_no_request(mount):
    m = filled(mount(LONG))

    def is_kept():
        with Moved(m) as moved:
            seen = [(e.name, e.is_file(), e.stat().st_size) for e in os.scandir(m.mnt)]
        assert sorted(seen) == [(name, True, 0) for name in NAMES]
        assert moved("requests", "opendir") == 1
        if listings(moved):  # the one before was not closed yet
            return False
        assert moved("requests", "lookup") <= 1, "attributes came with the names"
        return True

    for _ in range(2):
        wait_until(is_kept, what="a listing that asks for nothing")


def test_without_timeouts_nothing_is_kept(mount):
    m = filled(mount("entry_timeout=0,attr_timeout=0"))
    for _ in range(3):
        with Moved(m) as moved:
            assert sorted(os.listdir(m.mnt)) == NAMES
        assert listings(moved) > 1
        os.rename(m.stored(NAMES[0]), m.stored("moved"))
        assert sorted(os.listdir(m.mnt)) == NAMES[1:] + ["moved"]
        os.rename(m.stored("moved"), m.stored(NAMES[0]))


CHANGES = {
    "create": lambda d: (d / "new").touch(),
    "mkdir": lambda d: (d / "new").mkdir(),
    "symlink": lambda d: (d / "new").symlink_to("x"),
    "link": lambda d: (d / "new").hardlink_to(d / NAMES[5]),
    "mkfifo": lambda d: os.mkfifo(d / "new"),
    "unlink": lambda d: (d / NAMES[7]).unlink(),
    "rename": lambda d: (d / NAMES[7]).rename(d / "new"),
    "rename over": lambda d: (d / NAMES[7]).rename(d / NAMES[100]),
    "move in": lambda d: (d.parent / "other").rename(d / "new"),
    "move out": lambda d: (d / NAMES[7]).rename(d.parent / "gone"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_through_the_mount_shows_at_once(mount, change):
    m = mount(LONG)
    here, model = m.mnt / "d", m.work / "model" / "d"
    for where in (here, model):
        where.mkdir(parents=True)
        (where.parent / "other").touch()
        for name in NAMES:
            (where / name).touch()
    assert sorted(os.listdir(here)) == NAMES == sorted(os.listdir(here))
    for where in (here, model):
        CHANGES[change](where)
    for _ in range(2):
        assert sorted(os.listdir(here)) == sorted(os.listdir(model))


def test_a_directory_that_is_read_while_it_changes(mount):
    """What was there all the time is listed once, whatever comes and goes meanwhile."""
    m = filled(mount(LONG))
    for turn in range(4):
        seen = []
        for n, entry in enumerate(os.scandir(m.mnt)):
            seen.append(entry.name)
            if n % 50 == 0:
                (m.mnt / f"passing-{turn}-{n}").touch()
                (m.mnt / f"passing-{turn}-{n - 50}").unlink(missing_ok=True)
        assert sorted(name for name in seen if name in NAMES) == NAMES
        for path in m.mnt.glob("passing-*"):
            path.unlink()
        assert sorted(os.listdir(m.mnt)) == NAMES


def test_a_directory_that_several_read_while_it_changes(mount):
    """One gives up half-way, two begin after a change, and the second is done before the first."""
    m = mount(LONG)
    there = {f"there-{i:04d}" for i in range(3000)}
    new = {f"new-{i:04d}" for i in range(300)}
    for name in there:
        (m.mnt / name).symlink_to("x")
    with os.scandir(m.mnt) as gives_up:
        for _ in range(2000):
            next(gives_up)
    for name in new:
        (m.mnt / name).symlink_to("x")
    with os.scandir(m.mnt) as first:
        seen = [next(first).name]
        assert set(os.listdir(m.mnt)) == there | new
        seen += [entry.name for entry in first]
    assert sorted(seen) == sorted(there | new)


@pytest.mark.parametrize("options", ["", "entry_timeout=1000,attr_timeout=0.2"])
def test_a_change_of_another_program_shows_soon(mount, options):
    m = filled(mount(options))
    assert sorted(os.listdir(m.mnt)) == NAMES == sorted(os.listdir(m.mnt))
    shutil.copy(m.stored(NAMES[0]), m.backing / "zz.b2frame")
    wait_until(lambda: sorted(os.listdir(m.mnt)) == [*NAMES, "zz"], what="zz listed")
    (m.backing / "zz.b2frame").unlink()
    wait_until(lambda: sorted(os.listdir(m.mnt)) == NAMES, what="zz gone")


def test_without_timeouts_a_directory_that_stays_open_shows_changes_at_once(mount):
    """Reading it again from its start asks nothing that would tell of them."""
    m = filled(mount("entry_timeout=0,attr_timeout=1000"))
    fd = os.open(m.mnt, os.O_RDONLY)
    for _ in range(3):
        assert sorted(os.listdir(fd)) == NAMES
    os.rename(m.stored(NAMES[0]), m.stored("moved"))
    assert sorted(os.listdir(fd)) == NAMES[1:] + ["moved"]
    os.close(fd)


@pytest.mark.parametrize("error", [errno.EIO, errno.ESTALE])
def test_no_failure_hides_an_open_file(mount, work, error):
    """Its attributes come from its descriptor. Of several, since the kernel asks once more for what
    follows the last name."""
    m = mount("entry_timeout=0,attr_timeout=0", start=False)
    fault = Fault(m, work / "control")
    m.allow("could not be read").start()
    with contextlib.ExitStack() as stack:
        for name in "abc":
            stack.enter_context(open(m.mnt / name, "wb", buffering=0)).write(b"open")
        for n in range(1, 60):
            with os.scandir(m.mnt) as entries:
                fault.set(n, Fault.STAT | Fault.OPEN, error)
                assert sorted(entry.name for entry in entries) == ["a", "b", "c"], n
                fault.stop()
            if not fault.came():
                break
    assert n > 3 and not fault.came()
