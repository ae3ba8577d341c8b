"""SIGKILL for the daemon at any moment: what was synced or closed is there, and nothing is torn.

CFRAMEFS_TEST_KILLS says how often in all; CFRAMEFS_SEED chooses other stories.
"""

import contextlib
import mmap
import os
import random
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from libcrash import Story, look
from libdata import blob
from libfault import Fault
from libmount import MountFailed, may_control_connections, umount, wait_until
from libposix import error_of

KILLS = int(os.environ.get("CFRAMEFS_TEST_KILLS") or 12)
SEED = int(os.environ.get("CFRAMEFS_SEED") or 1)
TINY = "chunksize=4K,blocksize=1K,codec=lz4"
CONFIGS = {
    "default": ("", False),
    "eager": (f"{TINY},commit=0.02,dirty_max=1M", False),
    "whole": ("chunksize=64K,blocksize=4K,commit=0.02,workers=1", True),
    "tiny": (f"{TINY},commit=0", True),
}
CLOSELY = ("went back to its newest whole state",)


class Crowd:
    """Several stories at once, each in a directory and a thread of its own, and the killer."""

    def __init__(self, mount, seed, direct):
        self.mount = mount
        self.rng = random.Random(seed)
        self.killing = False
        self.stories = []
        for i in range(self.rng.randrange(1, 4)):
            top = mount.mnt / f"d{i}"
            top.mkdir()
            self.stories.append(Story(top, f"{seed} {i}", direct))

    def done(self):
        return sum(s.done for s in self.stories)

    def run_and_kill(self):
        """The daemon dies in the middle of some operation after the n-th."""
        errors = []
        self.killing = False

        def act(story):
            try:
                story.run(100_000, lambda: self.killing)
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=act, args=(s,)) for s in self.stories]
        enough = self.done() + self.rng.choice([self.rng.randrange(10), self.rng.randrange(200)])
        for thread in threads:
            thread.start()
        wait_until(lambda: errors or self.done() >= enough, 60, "operations")
        time.sleep(self.rng.random() * 0.005)
        self.killing = True
        died = self.mount.kill()
        for thread in threads:
            thread.join()
        for story in self.stories:
            story.drop()
        assert not errors, errors
        assert died, "the daemon did not end by SIGKILL"

    def judge(self):
        for story in self.stories:
            story.judge(look(story.top))


def backing_files(mount):
    return [
        p for p in mount.backing.rglob("*") if p.is_file() and not p.name.startswith(".cframefs")
    ]


def check_frames(mount, blosc2):
    """As they are on disk: the reference opens every frame, and lists what it holds."""
    import libblosc

    for path in backing_files(mount):
        libblosc.whole_frame(path)


def check_same(mount, blosc2):
    """The reference and the mount agree on every file, and there is nothing
    else in the backing directory."""
    import libblosc

    files = backing_files(mount)
    shown = {p.relative_to(mount.mnt) for p in mount.mnt.rglob("*") if p.is_file()}
    assert len(files) == len(shown), (files, shown)
    for path in files:
        name = path.relative_to(mount.backing)
        assert path.suffix == ".b2frame", path
        assert (
            libblosc.chunk_bytes(libblosc.open_frame(path))
            == (mount.mnt / name.with_suffix("")).read_bytes()
        ), name


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.watchdog(300 + 10 * KILLS)
def test_what_was_synced_survives_the_daemon(mount, blosc2, config, record_property):
    options, direct = CONFIGS[config]
    m = mount(options).allow(*CLOSELY)
    crowd = Crowd(m, f"{SEED} {config}", direct)
    print(f"CFRAMEFS_SEED={SEED}, {config}")
    kills = -(-KILLS // len(CONFIGS))
    for _ in range(kills):
        crowd.run_and_kill()
        check_frames(m, blosc2)
        m.start()
        crowd.judge()
        check_same(m, blosc2)
    record_property("figure", f"kill {config}: {kills} kills, {crowd.done()} operations")


def test_killed_while_the_kernel_is_made_to_write(mount, root):
    """A question for holes makes the kernel send what it has, and waits for that in the kernel:
    a daemon that is killed then could never answer, nor end."""
    m = mount().allow(*CLOSELY)
    guard_of(m)
    (m.mnt / "f").write_bytes(bytes(100_000))
    data = random.Random(SEED).randbytes(1 << 16)

    def act(fd, rng, ask):
        try:
            while True:
                if ask:
                    os.lseek(fd, rng.randrange(100_000), rng.choice((os.SEEK_HOLE, os.SEEK_DATA)))
                else:
                    os.pwrite(fd, data, rng.randrange(400) << 16)
        except OSError:
            error_of(os.close, fd)

    for turn in range(4):
        fds = [os.open(m.mnt / "f", os.O_RDWR) for _ in range(4)]
        threads = [
            threading.Thread(target=act, args=(fd, random.Random(i), i % 2))
            for i, fd in enumerate(fds)
        ]
        for thread in threads:
            thread.start()
        time.sleep(0.1)
        assert m.kill(), f"the daemon did not end by SIGKILL, turn {turn}"
        for thread in threads:
            thread.join()
        m.start()
        guard_of(m)


def test_killed_while_it_looks_at_its_mount(mount, work):
    """The first request to a mount is the daemon's own: killed before it has answered, it could
    not end. So what it needs for that end is there before."""
    m = mount()
    guard_of(m)
    if not tells_connection(m.proc.pid):
        pytest.skip("the kernel does not tell which connection a descriptor has")
    m.unmount()
    fault, deaths = Fault(m, work / "fault"), 0
    while True:
        fault.set(deaths + 1, Fault.STAT | Fault.LATE_GUARD, how=Fault.KILL)
        try:
            m.start()
        except MountFailed:
            deaths += 1
            assert m.kill()
        else:
            break
    fault.off()
    if not deaths:
        pytest.skip("this C library has no fstatat that could be replaced")


def guard_of(m):
    """The process beside the daemon, when it holds all that it needs; there is
    none where the system does not let it."""

    def find():
        found = subprocess.run(
            ["pgrep", "-x", "-P", str(m.proc.pid), "cframefs-guard"],
            capture_output=True,
            text=True,
            check=False,
        )
        return [
            int(pid)
            for pid in found.stdout.split()
            if any(held.endswith("/abort") for held in held_by(pid))
        ]

    if not may_control_connections():
        pytest.skip("fusectl is not mounted here and can't be")
    return wait_until(find, 10, "the guard")[0]


def held_by(pid):
    held = []
    for fd in Path(f"/proc/{pid}/fd").glob("*"):
        with contextlib.suppress(OSError):
            held.append(os.readlink(fd))
    return held


def tells_connection(pid):
    """True: beside the descriptor of /dev/fuse stands which connection it has."""
    for info in Path(f"/proc/{pid}/fdinfo").glob("*"):
        with contextlib.suppress(OSError):
            if "fuse_connection" in info.read_text():
                return True
    return False


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_for_end(pid):
    wait_until(lambda: not is_alive(pid), 20, "the end of the guard")


def test_what_took_the_place_of_a_mount_stays(mount, unshared):
    """A copy in another mount namespace keeps a daemon whose mount was taken away: a signal ends
    it, but not what is at its place by then."""
    m = mount()
    (m.mnt / "f").write_bytes(b"here")
    ours = os.stat("/proc/self/ns/mnt").st_ino
    holder = subprocess.Popen([*unshared, "sleep", "600"])
    try:
        wait_until(lambda: os.stat(f"/proc/{holder.pid}/ns/mnt").st_ino != ours, 10, "a namespace")
        wait_until(lambda: b"sleep" in Path(f"/proc/{holder.pid}/cmdline").read_bytes()[:6])
        wait_until(lambda: umount(m.mnt).returncode == 0, 10, "umount")
        assert m.running()
        subprocess.run(["mount", "-t", "tmpfs", "none", m.mnt], check=True)
        m.terminate()
        assert m.mnt.is_mount()
        umount(m.mnt)
    finally:
        holder.kill()
        holder.wait()
    m.start()
    assert (m.mnt / "f").read_bytes() == b"here"


def test_what_took_the_place_of_a_mount_stays_beside_a_copy(mount, work, root):
    """The same with a copy in the same mount namespace, which has another place."""
    m = mount()
    (work / "copy").mkdir()
    subprocess.run(["mount", "--bind", m.mnt, work / "copy"], check=True)
    try:
        wait_until(lambda: umount(m.mnt).returncode == 0, 10, "umount")
        (work / "copy" / "f").write_bytes(b"here")
        subprocess.run(["mount", "-t", "tmpfs", "none", m.mnt], check=True)
        m.terminate()
        assert m.mnt.is_mount()
        umount(m.mnt)
    finally:
        umount(work / "copy")
    m.start()
    assert (m.mnt / "f").read_bytes() == b"here"


def test_signals_to_the_guard_are_no_death(mount, root):
    """Whoever sends them: only the kernel's word for the daemon's end counts."""
    m = mount()
    (m.mnt / "f").write_bytes(b"here")
    guard = guard_of(m)
    for number in signal.valid_signals() - {
        signal.SIGKILL,
        signal.SIGSTOP,
        signal.SIGTSTP,
        signal.SIGTTIN,
        signal.SIGTTOU,
    }:
        os.kill(guard, number)
    time.sleep(0.3)
    assert is_alive(guard)
    assert (m.mnt / "f").read_bytes() == b"here"
    assert m.kill()
    wait_for_end(guard)


def test_a_late_guard_leaves_the_next_mount_alone(mount, root):
    """A number of a connection is given again at once, and so is the mount point."""
    m = mount()
    (m.mnt / "f").write_bytes(b"here")
    for _ in range(5):
        guard = guard_of(m)
        os.kill(guard, signal.SIGSTOP)
        try:
            assert m.kill()
            m.start()
        finally:
            os.kill(guard, signal.SIGCONT)
        wait_for_end(guard)
        assert (m.mnt / "f").read_bytes() == b"here"


def test_a_stopped_guard_holds_up_nothing(mount, root):
    m = mount()
    guard = guard_of(m)
    os.kill(guard, signal.SIGSTOP)
    try:
        m.unmount()
        assert not is_alive(guard)
    finally:
        if is_alive(guard):
            os.kill(guard, signal.SIGKILL)


def test_the_guard_holds_nothing_of_the_daemon(mount, root):
    """Its output, its locks, what it was given: who waits for their end waits
    for the daemon alone."""
    m = mount(start=False)
    m.argv = ["/bin/sh", "-c", 'exec "$0" "$@" 9<.', *m.argv]
    m.start()
    guard = guard_of(m)
    assert os.readlink(f"/proc/{guard}/cwd") == "/"
    held = sorted(held_by(guard))
    assert len([h for h in held if h == "/dev/null"]) == 3, held
    assert len([h for h in held if h.endswith("/abort")]) == 1, held
    assert len(held) == 5 and held[-1].startswith("socket:"), held
    m.unmount()
    assert not is_alive(guard)


@pytest.mark.parametrize("options", ["", ",codec=lz4,commit=0.02"], ids=["", "eager"])
def test_killed_between_the_parts_of_an_overwrite(faulty, blosc2, options):
    """A file that is rewritten all over is committed in parts, so that it does not become twice as
    large. Whichever write of that is the last, each chunk is the old or the new one, or each page
    where commits come so often that one may find a chunk of which the kernel has sent a part."""
    import libblosc

    chunk, chunks = 64 << 10, 96
    unit = mmap.PAGESIZE if options else chunk
    m, fault = faulty(f"chunksize=64K,blocksize=16K,commit=0,intent=0,workers=1{options}", *CLOSELY)
    versions = [blob(seed, chunk * chunks, "noise") for seed in (1, 2)]
    shown = set()
    for n in range(3, 300, 13):
        (m.mnt / "f").write_bytes(versions[0])
        os.sync()
        fd = os.open(m.mnt / "f", os.O_RDWR)
        fault.set(n, Fault.CHANGE, how=Fault.KILL)
        error_of(os.pwrite, fd, versions[1], 0)
        error_of(os.fsync, fd)
        error_of(os.close, fd)
        came = fault.came()
        fault.set(0)
        if not came:
            break
        assert m.kill()
        stored = libblosc.chunk_bytes(libblosc.open_frame(m.stored("f")))
        m.start()
        assert (m.mnt / "f").read_bytes() == stored and len(stored) == chunk * chunks
        parts = [slice(at, at + unit) for at in range(0, len(stored), unit)]
        news = [stored[part] == versions[1][part] for part in parts]
        assert all(new or stored[p] == versions[0][p] for new, p in zip(news, parts)), n
        shown.add(sum(news))
    assert not came and len(shown) > 3, (n, shown)
    assert (m.mnt / "f").read_bytes() == versions[1]


def test_a_late_repair_is_no_change(mount):
    """A frame that was torn gets its header when a writer of it syncs, who has changed nothing."""
    m = mount("chunksize=64K,commit=0,intent=0")
    path, stored = m.mnt / "f", m.stored("f")
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    states = []
    for seed in range(2):
        os.pwrite(fd, random.Random(seed).randbytes(200_000), seed * 100_000)
        os.fsync(fd)
        states.append(stored.read_bytes())
    os.close(fd)
    m.unmount()
    stored.write_bytes(states[1][:87] + states[0][87:])
    os.utime(stored, (1_000_000_000, 1_000_000_000))
    m.allow("torn by a crash").start()
    reader = os.open(path, os.O_RDONLY)  # what is open for reading cannot be repaired
    fd = os.open(path, os.O_RDWR)
    torn = stored.read_bytes()
    os.fsync(fd)
    assert stored.read_bytes() != torn and stored.stat().st_mtime == 1_000_000_000
    os.close(fd)
    os.close(reader)
    assert path.read_bytes() == random.Random(0).randbytes(200_000)


@pytest.mark.parametrize("names", ["a.b2frame c", "a.b2f c.b2frame", "a c.b2frame"])
def test_killed_while_a_file_replaces_one_of_another_kind(mount, work, names):
    """That takes more than one step in the backing directory. At any of them the new content has a
    name of its own in the mount, and the name that is replaced has the old content or the new."""
    m = mount("commit=0", start=False)
    fault = Fault(m, work / "fault")
    old, new = blob(1, 100_000, "text"), blob(2, 100_000, "text")
    n, came = 1, True
    while came:
        for path in m.backing.iterdir():
            path.unlink()
        m.start()
        for name, data in zip(names.split(), (new, old), strict=True):
            at = m.mnt if "." in name else m.backing
            (at / name.split(".")[0]).write_bytes(data)
        m.unmount()
        for name in names.split():
            if "." in name:
                m.stored(name.split(".")[0]).rename(m.backing / name)
        m.start()
        fault.set(n, Fault.NAME, how=Fault.KILL)
        error_of(os.rename, m.mnt / "a", m.mnt / "c")
        came = fault.came()
        fault.set(0)
        assert m.kill() or came
        m.start()
        shown = {path.name: path.read_bytes() for path in m.mnt.iterdir()}
        assert new in shown.values() and shown["c"] in (old, new), (n, sorted(shown))
        m.unmount()
        n += 1
    assert shown == {"c": new} and n > 3
