"""The n-th call on the backing directory fails, for n = 1, 2, 3 ... until a story runs clean.

After each failure: the caller was told, or nothing is amiss; the last commit is whole, as a fresh
mount and the reference see it; the daemon lives, and what is written next gets to the disk.

CFRAMEFS_TEST_FAULTS=all tries every n, else every 17th. CFRAMEFS_SEED chooses other stories.
"""

import copy
import errno
import mmap
import os
import random
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path

import pytest

from libcrash import Story, look
from libdata import blob
from libfault import Fault
from libmount import SLOWNESS, MountFailed, another_mount, wait_until
from libposix import error_of
from libstats import Moved, stats

EVERY = 1 if os.environ.get("CFRAMEFS_TEST_FAULTS") == "all" else 17
SEED = int(os.environ.get("CFRAMEFS_SEED") or 1)
STEPS = 40
RW = Fault.READ | Fault.WRITE
ALL = Fault.READ | Fault.CHANGE


FAULTS = {
    "EIO": {"error": errno.EIO, "calls": ALL},
    "EIO for good": {"error": errno.EIO, "calls": Fault.CHANGE, "forever": 1},
    "ENOSPC for good": {"error": errno.ENOSPC, "calls": Fault.WRITE | Fault.NAME, "forever": 1},
    "short": {"how": Fault.SHORT, "calls": RW},
    "EIO, but done": {"error": errno.EIO, "calls": Fault.CHANGE, "how": Fault.DONE},
    "EINTR": {"error": errno.EINTR, "calls": RW | Fault.SPACE | Fault.SYNC},
    "EINTR for good": {"error": errno.EINTR, "calls": RW | Fault.SPACE | Fault.SYNC, "forever": 1},
    "pages lost": {"error": errno.EIO, "calls": Fault.SYNC, "lose": 1},
    "pages lost for good": {"error": errno.EIO, "calls": Fault.SYNC, "lose": 1, "forever": 1},
}
KILL = {"how": Fault.KILL, "calls": Fault.CHANGE}


def may_write(info):
    """Stories open files to write. What was only looked up may be open to read, or as a path."""
    flags = next(line for line in info.read_text().splitlines() if line.startswith("flags:"))
    return int(flags.split()[1], 8) & os.O_ACCMODE == os.O_RDWR


class Faults:
    """A mount whose backing calls fail as told."""

    def __init__(self, mount, work, fault, options="commit=0,intent=0"):
        if "lose" in fault:
            options += ",entry_timeout=0,attr_timeout=0"
        self.mount = mount(f"chunksize=4K,blocksize=1K,codec=lz4,workers=1,{options}", start=False)
        self.mount.allow("^cframefs: (error|warning)")
        self.injected = Fault(self.mount, work / "control")
        self.fault = fault
        self.mount.start()

    def arm(self, n):
        self.injected.set(n, **self.fault)

    def open_files(self, directory):
        """Files in a backing directory that the daemon has open to write."""
        there = Path(f"/proc/{self.mount.proc.pid}/fd")
        found = []
        for fd in os.listdir(there):
            try:
                path = Path(os.readlink(there / fd))
                if path.parent == directory and may_write(there.parent / "fdinfo" / fd):
                    found.append(path.name)
            except FileNotFoundError:  # closed meanwhile
                pass
        return found

    def settle(self, directory):
        """The kernel's close(2) does not wait for the daemon's, which is when a file that has lost
        even its header gets another name: who finds the old one is told EIO each time."""
        wait_until(lambda: not self.open_files(directory), 60, "the end of what was closed")


def frozen(story):
    """What may be there now, kept while the story goes on."""
    kept = Story(story.top, 0, False, story.volatile)
    kept.names, kept.unfinished = copy.deepcopy((story.names, story.unfinished))
    kept.log = [*story.log]
    return kept


def play(story):
    """The error that ended the story, if one did."""
    try:
        for _ in range(STEPS):
            story.step()
    except OSError as error:
        return error
    return None


def sync_again(story):
    """Who was refused an fsync asks again. If the answer is yes, all must be there, but for a
    change that failed."""
    for fd, node in story.slots.values():
        try:
            os.fsync(fd)
        except OSError:
            continue
        kept = node.contents[-story.may_leave :] if node is story.changing else [node.now]
        node.synced()
        node.contents[:] = kept


def rewrite(top):
    """After the fault everything works, but an error may still wait to be told, once."""
    expect = {}
    names = sorted(os.listdir(top)) or ["fresh"]
    for i, name in enumerate(names):
        data = random.Random(f"{i} {name}").randbytes(20_000 + i)
        for tries in range(2):
            try:
                with open(top / name, "wb", buffering=0) as f:
                    f.write(data)
                    os.fsync(f.fileno())
                break
            except OSError as error:
                assert tries == 0, f"{name}: an error is told once: {error}"
        expect[name] = data
        for other in names:  # hard links
            if os.stat(top / other).st_ino == os.stat(top / name).st_ino:
                expect[other] = data
    return expect


class Case:
    """The n-th call of a story fails; what is on disk then, and after all was written anew."""

    def __init__(self, faults, work, n, story):
        self.faults = faults
        self.n = n
        name = f"n{n} {story}"
        self.top = faults.mount.mnt / name
        self.backing = faults.mount.backing / name
        self.copies = work / "copies"
        self.top.mkdir()
        self.story = Story(self.top, f"{SEED} {story}", False, "lose" in faults.fault)

    def copy(self, name):
        kept = self.copies / f"{self.top.name}-{name}"
        shutil.copytree(self.backing, kept)
        links = {}
        for p in self.backing.iterdir():  # a copy of a hard link is one
            first = links.setdefault(p.stat().st_ino, p.name)
            if first != p.name:
                (kept / p.name).unlink()
                os.link(kept / first, kept / p.name)
        return kept.name

    def play(self):
        """The error that ended the story, if one did; and whether the fault came."""
        injected = self.faults.injected
        self.faults.arm(self.n)
        error = play(self.story)
        injected.stop()  # before that look: a background commit may be under way
        self.what = f"n={self.n} {injected.last()}: {error}"
        return error, injected.came()

    def run(self):
        """True: the fault came."""
        error, hits = self.play()
        if error and self.faults.fault.get("lose"):
            sync_again(self.story)
        self.at_fault = frozen(self.story)
        self.first = self.copy("fault")
        assert hits or error is None, self.what
        self.story.drop()
        if "lose" in self.faults.fault:
            self.faults.settle(self.backing)
        self.check_live(error)
        self.expect = rewrite(self.top)
        self.second = self.copy("after")
        return hits

    def run_and_kill(self):
        """The same, with the daemon's death instead of copies."""
        error, hits = self.play()
        self.at_fault = frozen(self.story)
        assert hits or error is None, self.what
        assert self.faults.mount.running() and self.faults.mount.kill(), self.what
        self.story.drop()
        self.faults.mount.start()
        self.check_live(error)
        self.expect = rewrite(self.top)
        assert {name: data for name, (_, data) in look(self.top).items()} == self.expect
        return hits

    def die_and_recover(self):
        """The n-th call kills the daemon, and then each call of the next one, until one mounts it.
        True: the fault came."""
        mount, injected = self.faults.mount, self.faults.injected
        error, hits = self.play()
        self.at_fault = frozen(self.story)
        assert mount.kill(), self.what
        assert hits or error is None, self.what
        self.story.drop()
        self.deaths, up = 0, False
        while not up:
            self.faults.arm(self.deaths + 1)
            try:
                mount.start()
                injected.stop()
                up = not injected.came()
            except (MountFailed, OSError):
                injected.stop()
                assert injected.came(), self.what
            self.deaths += not up
            if not up:
                mount.kill()
        self.check_live(error)
        self.expect = rewrite(self.top)
        assert {name: data for name, (_, data) in look(self.top).items()} == self.expect
        return hits

    def check_live(self, error):
        """The daemon lives, and shows right bytes or an error."""
        assert self.faults.mount.running(), self.what
        for tries in range(3):
            try:
                found = look(self.top)
                break
            except OSError:  # the kernel tells the next close(2) of pages that it could not write
                assert tries < 2 or self.faults.fault.get("lose"), self.what
        else:
            return
        frozen(self.at_fault).judge(found)

    def check_copies(self, top):
        try:
            self.at_fault.judge(look(top / self.first))
        except AssertionError as error:
            raise AssertionError(f"{self.what}: {error}") from error
        found = {name: data for name, (_, data) in look(top / self.second).items()}
        assert found == self.expect, self.what


def repair(top):
    """The first writer of a frame whose newest root was lost writes what is shown of it, if only
    that it is empty."""
    for path in top.rglob("*"):
        if path.is_file():
            os.close(os.open(path, os.O_RDWR))


def check_reference(copies, mnt):
    """Every copy opens there, with the same bytes; metalayers can be listed;
    there are no other files."""
    import libblosc

    for path in copies.rglob("*"):
        if path.is_file():
            assert path.suffix == ".b2frame", path
            if (mnt / path.relative_to(copies)).exists():  # lost before it was ever synced
                continue
            shown = mnt / path.relative_to(copies).with_suffix("")
            assert libblosc.whole_frame(path) == shown.read_bytes(), path


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.watchdog(600)
def test_the_nth_call_fails(mount, work, blosc2, fault, record_property):
    faults = Faults(mount, work, FAULTS[fault])
    print(f"CFRAMEFS_SEED={SEED}")
    cases = []
    stories = [(0, EVERY)]  # number, every so many calls
    if FAULTS[fault]["calls"] == Fault.SYNC:  # there are few in a story: all of them
        stories = [(i, 1) for i in range(8 if SLOWNESS == 1 else 3)]
    for story, every in stories:
        n, came = random.Random(f"{SEED} {fault}").randrange(every) + 1, True
        while came:
            cases.append(Case(faults, work, n, story))
            came = cases[-1].run()
            n += every
    faults.mount.unmount()
    lost = "lose" in FAULTS[fault] and os.geteuid() == 0
    with another_mount(work / "copies") if lost else nullcontext(work / "copies") as copies:
        fresh = mount("", backing=copies)
        if "lose" in FAULTS[fault]:
            fresh.allow("shown under its own name", "went back to its newest whole state")
        for case in cases:
            case.check_copies(fresh.mnt)
        if "lose" in FAULTS[fault]:
            repair(fresh.mnt)
        check_reference(work / "copies", fresh.mnt)
        fresh.unmount()
    record_property("figure", f"{fault}: {len(cases)} stories")


@pytest.mark.parametrize("fault", ["EIO", "ENOSPC for good"])
@pytest.mark.watchdog(900)
def test_the_nth_call_fails_and_the_daemon_dies(mount, work, blosc2, fault, record_property):
    """With the intent log, of which only a mount of the same directory knows what it holds."""
    faults = Faults(mount, work, FAULTS[fault], "commit=0.5")
    faults.mount.allow("went back to its newest whole state", "shown under its own name")
    print(f"CFRAMEFS_SEED={SEED}")
    n, came, cases = random.Random(f"{SEED} log {fault}").randrange(EVERY) + 1, True, 0
    while came:
        case = Case(faults, work, n, 2)
        came = case.run_and_kill()
        n += EVERY
        cases += 1
    record_property("figure", f"{fault}, then SIGKILL: {cases} stories")


@pytest.mark.parametrize("log", ["log", "no log"])
@pytest.mark.watchdog(900)
def test_the_nth_call_is_the_last(mount, work, log, record_property):
    """The daemon dies there, of a write half-way; so do those that repair what it has left."""
    faults = Faults(mount, work, KILL, "commit=0.5" if log == "log" else "commit=0,intent=0")
    faults.mount.allow("went back to its newest whole state")
    print(f"CFRAMEFS_SEED={SEED}")
    n, came, cases, deaths = random.Random(f"{SEED} killed {log}").randrange(EVERY) + 1, True, 0, 0
    while came:
        case = Case(faults, work, n, 2 if log == "log" else 0)
        came = case.die_and_recover()
        deaths += case.deaths
        n += EVERY
        cases += 1
    record_property(
        "figure", f"killed at a call, {log}: {cases} stories, {deaths} deaths in repair"
    )


class Unreadable:
    """Two files whose stored bytes cannot be read; the daemon dies at the n-th call that changes
    something, while their pages wait, and whole chunks are stored."""

    CHUNK, CHUNKS = 65536, 40
    NAMES = ("one", "other")

    def __init__(self, mount, work, options):
        self.m = mount(f"chunksize=64K,blocksize=16K,codec=lz4,intent=0,{options}", start=False)
        self.fault = Fault(self.m, work / "fault")
        self.m.allow("^cframefs: (error|warning)")
        self.old = blob(1, self.CHUNK * self.CHUNKS, "text")
        self.new = blob(2, self.CHUNK * self.CHUNKS, "noise")
        self.ends = set()

    def write(self, fd):
        """Whole chunks, but for the first 24: of these three pages of each block, more than 1 MiB.
        What ends it: the death of the daemon, or bytes that cannot be read."""
        for at in range(4096, 24 * self.CHUNK, 16384):
            os.pwrite(fd, self.new[at : at + 12288], at)
        for at in range(24 * self.CHUNK, len(self.new), self.CHUNK):
            os.pwrite(fd, self.new[at : at + self.CHUNK], at)
        os.fsync(fd)

    def play(self, n):
        """True: it died of the n-th call."""
        self.m.start()
        for name in self.NAMES:
            (self.m.mnt / name).write_bytes(self.old)
        self.m.remount()
        fds = [os.open(self.m.mnt / name, os.O_RDWR | os.O_DIRECT) for name in self.NAMES]
        self.fault.set(n, Fault.CHANGE, error=errno.EIO, how=Fault.KILL)
        self.fault.control.unreadable = 1
        self.ends.update(error_of(self.write, fd) for fd in fds)
        self.ends.update(error_of(os.close, fd) for fd in fds)
        came = self.fault.came()
        self.fault.control.unreadable = 0
        self.fault.set(0)
        assert self.m.kill()
        self.m.start()
        self.judge(n)
        self.m.unmount()
        return came

    def judge(self, n):
        for name in self.NAMES:
            got = (self.m.mnt / name).read_bytes()
            wrong = [
                at
                for at in range(0, len(self.old), 4096)
                if got[at : at + 4096] not in (self.old[at : at + 4096], self.new[at : at + 4096])
            ]
            assert (n, name, len(got), wrong) == (n, name, len(self.old), [])


@pytest.mark.parametrize("options", ["commit=0", "commit=0.02,dirty_max=1M,workers=1"])
@pytest.mark.watchdog(900)
def test_killed_while_stored_bytes_cannot_be_read(mount, work, options, record_property):
    """Pages wait for what lies below them, whole chunks are committed without them; where memory
    is short pages are given up: each page is old or new after a kill at any call."""
    story = Unreadable(mount, work, options)
    n, every, kills = 1, 1 if EVERY == 1 else 4, 0
    while story.play(n):
        n += every
        kills += 1
    assert kills and "EIO" in story.ends
    record_property("figure", f"killed while nothing can be read: {kills} kills")


@pytest.mark.release  # sanitizers have their own malloc
@pytest.mark.parametrize("stored", [False, True], ids=["grows", "patched"])
def test_what_was_accepted_needs_no_more_memory(faulty, stored):
    """A chunk that can't be stored comes back, also below what was written since, while there is no
    memory at all; and the daemon waits for better times without turning in circles."""
    m, fault = faulty("chunksize=64K,blocksize=16K,commit=0.2,intent=0")
    m.allow("background commit: .*; the data waits in memory", "f.b2frame: fsync: ")
    fd = os.open(m.mnt / "f", os.O_RDWR | os.O_CREAT | os.O_DIRECT)
    model = bytearray(blob(1, 40_000 if stored else 5000, "text"))
    if stored:
        os.pwrite(fd, model, 0)
        os.fsync(fd)
    fault.set(1, Fault.WRITE, how=Fault.WAIT)
    if stored:
        for at in range(100, 40_000, 8192):
            patch(fd, model, at, b"first patch")
    else:
        os.pwrite(fd, model, 0)
    wait_until(fault.came, 20, "a worker with the chunk")
    for at in range(0, len(model) + 30_000, 6000):
        patch(fd, model, at, b"newer than what the worker has")
    fault.set(1, Fault.WRITE | Fault.MEMORY, forever=1)
    for _ in range(5):
        with pytest.raises(OSError):
            os.fsync(fd)
    fault.set(0)
    assert os.pread(fd, len(model) + 1, 0) == model
    os.fsync(fd)
    os.close(fd)
    m.kill()
    m.start()
    assert (m.mnt / "f").read_bytes() == model


@pytest.mark.release  # sanitizers have their own malloc
def test_what_there_is_no_memory_for_is_listed_all_the_same(faulty):
    """A directory that seems to have fewer entries is worse than one that cannot be listed: who
    copies or removes a tree would not notice."""
    m, fault = faulty("entry_timeout=0,commit=0,intent=0")
    names = {f"f{i}" for i in range(6)}
    for n in range(1, 60):
        for name in names:  # unknown to the daemon and to the kernel
            (m.backing / f"d{n}" / name).parent.mkdir(exist_ok=True)
            (m.backing / f"d{n}" / name).touch()
        fd = os.open(m.mnt / f"d{n}", os.O_RDONLY)
        fault.set(n, Fault.MEMORY, error=errno.ENOMEM)
        try:
            assert set(os.listdir(fd)) == names, n
        except OSError as error:
            assert error.errno == errno.ENOMEM
        hit = fault.came()
        fault.set(0)
        assert set(os.listdir(fd)) == names
        os.close(fd)
        if not hit:
            break
    assert not hit and n > len(names)


@pytest.mark.parametrize("size", [0, 70_000])
def test_a_reader_whose_fsync_cannot_note_anything_changes_no_time(mount, work, size):
    """A write may give the file another mtime although it fails."""
    m, when = mount("commit=0,intent=0", start=False), 10**18
    fault = Fault(m, work / "fault")
    m.start()
    (m.mnt / "f").write_bytes(blob(1, size, "text"))
    os.utime(m.mnt / "f", ns=(when, when))
    m.kill()
    m.start()
    fd = os.open(m.mnt / "f", os.O_RDONLY)
    fault.set(1, Fault.WRITE, error=errno.EIO, how=Fault.DONE, forever=1)
    os.fsync(fd)
    fault.stop()
    assert fault.came() or not size
    os.close(fd)
    assert os.stat(m.mnt / "f").st_mtime_ns == when
    m.remount()
    assert os.stat(m.mnt / "f").st_mtime_ns == m.stored("f").stat().st_mtime_ns == when


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("block", ["16K", "64K"], ids=["blocks", "one block"])
def test_a_wrong_byte_once_below_what_was_written(faulty, n, block):
    """It came from the way to the disk: what is there is right, and nothing is given up."""
    m, fault = faulty(f"codec=lz4,chunksize=64K,blocksize={block},commit=0,intent=0")
    model = bytearray(blob(1, 64_000, "text"))
    (m.mnt / "f").write_bytes(model)
    m.remount()
    fd = os.open(m.mnt / "f", os.O_RDWR | os.O_DIRECT)
    with mmap.mmap(-1, 4096) as room:
        room[:] = model[4096:8192] = blob(2, 4096, "text")
        os.pwrite(fd, room, 4096)
    fault.set(n, Fault.READ, how=Fault.WRONG)
    os.fsync(fd)
    came = fault.came()
    fault.set(0)
    assert came or n > 1
    os.close(fd)
    m.remount()
    assert (m.mnt / "f").read_bytes() == model


def test_what_cannot_be_read_does_not_hold_up_the_rest(mount, work):
    """Pages wait for the bytes that lie under them; what was written elsewhere is committed."""
    m, chunk = mount("chunksize=64K,commit=0,intent=0", start=False), 65536
    fault = Fault(m, work / "fault")
    m.start()
    m.allow("f.b2frame: ")
    old, new = (blob(n, 4 * chunk, "noise") for n in range(2))
    (m.mnt / "f").write_bytes(old)
    m.remount()
    fd = os.open(m.mnt / "f", os.O_RDWR | os.O_DIRECT)
    with mmap.mmap(-1, chunk) as room:
        room[:] = new[:chunk]
        os.pwrite(fd, memoryview(room)[:4096], 4096)
        os.pwrite(fd, room, 2 * chunk)
    fault.set(1, Fault.READ, error=errno.EIO, forever=1)
    assert error_of(os.fsync, fd) == "EIO"
    assert m.kill()
    fault.off()
    error_of(os.close, fd)
    m.start()
    want = old[: 2 * chunk] + new[:chunk] + old[3 * chunk :]
    assert (m.mnt / "f").read_bytes() == want


def patch(fd, model, at, data):
    model.extend(bytes(max(0, at + len(data) - len(model))))
    model[at : at + len(data)] = data
    assert os.pwrite(fd, data, at) == len(data)


def test_a_part_behind_a_commit_that_failed(mount, work):
    """A gap that such a commit would have shown is no place for a part to end: what it begins with
    would end inside a chunk that has grown since."""
    m, chunk = mount("chunksize=64K,codec=lz4,commit=0,intent=0", start=False), 65536
    fault = Fault(m, work / "fault")
    m.start()
    m.allow("f.b2frame: fsync: ")
    old, new, end = (blob(n, 40 * chunk, "noise") for n in range(3))
    fd = os.open(m.mnt / "f", os.O_RDWR | os.O_CREAT | os.O_DIRECT)
    os.pwrite(fd, old, 0)
    os.fsync(fd)
    os.pwrite(fd, end[:10_000], 44 * chunk)
    fault.set(1, Fault.SYNC, error=errno.EIO)
    assert error_of(os.fsync, fd) == "EIO"
    fault.set(0)
    os.pwrite(fd, end[10_000:60_000], 44 * chunk + 10_000)
    for _ in range(2):  # more than may wait for a root
        for at in range(0, len(new), chunk):
            os.pwrite(fd, new[at : at + chunk], at)
    assert m.kill()
    error_of(os.close, fd)
    m.start()
    got = (m.mnt / "f").read_bytes()
    versions = [(old[at : at + chunk], new[at : at + chunk]) for at in range(0, len(old), chunk)]
    assert all(got[i * chunk :][:chunk] in pair for i, pair in enumerate(versions))
    assert got[44 * chunk :] == end[: max(0, len(got) - 44 * chunk)]


def test_a_chunk_that_can_be_stored_after_all(mount, work):
    """What a worker has failed with is nothing to be told of, if the sync finds that it works."""
    m, chunk = mount("chunksize=64K,codec=lz4,commit=0,intent=0", start=False), 65536
    fault = Fault(m, work / "fault")
    m.start()
    data = blob(1, 2 * chunk, "noise")
    fd = os.open(m.mnt / "f", os.O_RDWR | os.O_CREAT | os.O_DIRECT)
    fault.set(1, Fault.WRITE, error=errno.EIO)
    os.pwrite(fd, data[:chunk], 0)  # it is full, and is not waited for
    wait_until(fault.came, what="a worker")
    os.pwrite(fd, data[chunk:], chunk)
    os.fsync(fd)
    os.close(fd)
    m.remount()
    assert (m.mnt / "f").read_bytes() == data


def test_a_reader_that_was_left_behind_by_a_failed_sync(faulty):
    """Nor by its fsync does the root come back that could not be synced: the file is another
    program's by now, and then that of whoever has looked it up since."""
    m, fault = faulty(
        "chunksize=64K,commit=0,intent=0,entry_timeout=0,attr_timeout=0", "f.b2frame: fsync: "
    )
    for n, name in enumerate(("f", "other")):
        (m.mnt / name).write_bytes(blob(n, 300_000, "noise"))
    os.sync()
    reader, writer = (os.open(m.mnt / "f", flags) for flags in (os.O_RDONLY, os.O_RDWR))
    os.pwrite(writer, b"x" * 100, 5)
    fault.set(2, Fault.SYNC, error=errno.EIO)  # the one behind the header
    assert error_of(os.fsync, writer) == "EIO"
    fault.set(0)
    os.close(writer)
    shutil.copyfile(m.stored("other"), m.stored("f"))
    expected = bytearray(blob(1, 300_000, "noise"))
    assert (m.mnt / "f").read_bytes() == expected
    with open(m.mnt / "f", "r+b") as f:
        patch(f.fileno(), expected, 100_000, b"new" * 1000)
        os.fsync(f.fileno())
    assert error_of(os.fsync, reader) == "ESTALE"
    os.close(reader)
    m.remount()
    assert (m.mnt / "f").read_bytes() == expected


@pytest.mark.parametrize("change", [False, True], ids=["read", "changed"])
def test_a_chunk_before_one_that_is_being_written(mount, work, change):
    """Nothing is behind it in the file yet, though that place is taken. How long its head is, is
    guessed from a chunk with a much smaller block."""
    m, chunk = mount("chunksize=64K,commit=0,workers=2", start=False), 65536
    fault = Fault(m, work / "fault")
    m.start()
    data = bytearray(b"small " * chunk)[:chunk] + blob(1, chunk, "noise")
    fd = os.open(m.mnt / "f", os.O_RDWR | os.O_CREAT | os.O_DIRECT)
    os.pwrite(fd, data[:100], 0)
    os.fsync(fd)
    assert os.pread(fd, 100, 0) == data[:100]
    with Moved(m) as moved:
        os.pwrite(fd, data[:chunk], 0)
        wait_until(lambda: stats(m)["write"]["chunks"] - moved.before["write"]["chunks"] == 1)
    time.sleep(0.1)  # it is where it was put
    fault.set(1, Fault.WRITE, how=Fault.WAIT)
    os.pwrite(fd, data[chunk:], chunk)
    wait_until(fault.came, 30, "the second chunk on its way")
    try:
        if change:
            patch(fd, data, 5000, b"changed")
        else:
            assert os.pread(fd, 100, 0) == data[:100]
        flusher = threading.Thread(target=os.fsync, args=[fd])
        flusher.start()
        flusher.join(0.5)
    finally:
        fault.set(0)
    flusher.join()
    assert os.pread(fd, len(data), 0) == data
    os.close(fd)
    m.remount()
    assert (m.mnt / "f").read_bytes() == data


@pytest.mark.parametrize("size", [0, 50_000, 200_000])
@pytest.mark.parametrize("held", [None, os.O_RDONLY, os.O_RDWR])
def test_a_truncation_by_name_that_failed_is_not_made_up_for(faulty, held, size):
    """The kernel goes on with the old size then. A later commit that cut the file would take bytes
    that everybody still sees. While somebody has it open the new size stays and is stored later."""
    m, fault = faulty("commit=0,intent=0", "truncate: ", "closed with unwritten data")
    data, failed = blob(1, 93_685, "noise"), 0
    for n in range(1, 9):
        path = m.mnt / f"f{n}"
        path.write_bytes(data)
        os.sync()
        fd = os.open(path, held) if held is not None else None
        fault.set(n, Fault.CHANGE, error=errno.EIO)
        error = error_of(os.truncate, path, size)
        came = fault.came()
        fault.stop()
        expect = data if error else data[:size].ljust(size, b"\0")
        assert path.read_bytes() == expect, n
        if fd is not None:
            os.close(fd)
        with open(path, "rb") as f:
            os.fsync(f.fileno())
            assert f.read() == expect, n
        failed += error is not None
        m.remount()
        assert path.read_bytes() == expect, n
        if not came:
            break
    assert not came and n > 2 and (failed > 0) == (held is None)


@pytest.mark.parametrize("how", [None, "EIO"], ids=["synced", "failed"])
def test_who_opens_a_file_does_not_wait_until_a_reader_has_synced_it(faulty, how):
    """Neither to write to it nor to read it."""
    m, fault = faulty("commit=0,intent=0,chunksize=64K,level=0", "fsync")
    data = bytearray(blob(1, 300_000, "noise"))
    (m.mnt / "f").write_bytes(data)
    m.remount()
    reader = os.open(m.mnt / "f", os.O_RDONLY)
    fault.set(1, Fault.SYNC, how=Fault.WAIT)
    with ThreadPoolExecutor(3) as pool:
        try:
            synced = pool.submit(error_of, os.fsync, reader)
            wait_until(fault.came, 20, "the reader's sync")
            opened = pool.submit(os.open, m.mnt / "f", os.O_RDWR)
            wait_until(opened.done, 10, "opened to write")
            read = pool.submit((m.mnt / "f").read_bytes)
            wait_until(read.done, 10, "read")
            assert not synced.done()
        finally:
            fault.set(0, Fault.SYNC if how else 0, errno.EIO)
    fault.set(0)
    assert synced.result() == how
    os.fsync(opened.result())
    os.close(opened.result())
    os.close(reader)
    m.remount()
    assert (m.mnt / "f").read_bytes() == data
