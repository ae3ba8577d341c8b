"""Real power cuts, as far as software can make them: the file system below the mount is shut down
without writing its log (FS_IOC_SHUTDOWN), the daemon is killed, the log is replayed. SQLite on the
mount knows what it was promised.

CFRAMEFS_TEST_SHUTDOWNS says how often for each file system and journal;
CFRAMEFS_SEED chooses other stories.
"""

import contextlib
import errno
import fcntl
import os
import random
import shutil
import sqlite3
import struct
import subprocess
import threading
import time

import pytest

from libcrash import Node, Story, look, spliced
from libdata import blob
from libmount import SLOWNESS, umount, wait_until
from libposix import punch

ROUNDS = int(os.environ.get("CFRAMEFS_TEST_SHUTDOWNS") or 2)
SEED = int(os.environ.get("CFRAMEFS_SEED") or 1)
FS_IOC_SHUTDOWN, NOLOGFLUSH = 0x8004587D, 2
FIFREEZE, FITHAW = 0xC0045877, 0xC0045878
MAKE = {"ext4": ("64M", ["mkfs.ext4", "-q", "-F"]), "xfs": ("320M", ["mkfs.xfs", "-q", "-f"])}
JOURNALS = {"wal": ("WAL", "FULL"), "rollback": ("DELETE", "EXTRA"), "no sync": ("WAL", "OFF")}
OPTIONS = "chunksize=64K,blocksize=16K,commit=1"


class Unsound(Exception):
    """The database is not what it was at any time."""


class Disk:
    """A file system in a file, mounted on a loop device."""

    def __init__(self, work, kind, tool):
        size, make = MAKE[kind]
        self.image, self.top = work / "image", work / "disk"
        self.top.mkdir()
        with open(self.image, "wb") as f:
            f.truncate(int(size[:-1]) << 20)
        subprocess.run(
            [tool(make[0]), *make[1:], self.image],
            check=True,
            capture_output=True,
            timeout=300 * SLOWNESS,
        )
        self.mounted = False

    def mount(self):
        got = subprocess.run(
            ["mount", "-o", "loop", self.image, self.top],
            capture_output=True,
            text=True,
            timeout=300 * SLOWNESS,
        )
        self.mounted = got.returncode == 0
        return got.stderr if got.returncode else None

    def umount(self):
        """To its end: while another mount namespace has a copy, as those that tests make have for
        a moment, the next mount would be of the file system that was shut down."""
        if self.mounted:
            wait_until(lambda: umount(self.top).returncode == 0, 30, f"umount of {self.top}")
            wait_until(lambda: not self.loops(), 30, f"the end of {self.image}")
        self.mounted = False

    def loops(self):
        return subprocess.run(
            ["losetup", "-j", self.image], capture_output=True, text=True, check=True
        ).stdout

    def snapshot(self, to):
        """As a volume makes one. No program is started for it: that closes this one's files again,
        which waits until the file system is thawed."""
        fd = os.open(self.top, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.ioctl(fd, FIFREEZE, 0)
            try:
                shutil.copyfile(self.image, to)
            finally:
                fcntl.ioctl(fd, FITHAW, 0)
        finally:
            os.close(fd)

    def shut_down(self):
        """All that is not on the disk by now never gets there."""
        fd = os.open(self.top, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.ioctl(fd, FS_IOC_SHUTDOWN, struct.pack("I", NOLOGFLUSH))
        finally:
            os.close(fd)


@pytest.fixture
def disk(request, work, tool, root):
    made = Disk(work, request.param, tool)
    why = made.mount()
    if why:
        pytest.skip(f"no loop mounts here: {why.strip()}")
    try:
        made.shut_down()
    except OSError as error:
        made.umount()
        assert error.errno in (errno.ENOTTY, errno.EPERM, errno.EOPNOTSUPP, errno.EINVAL), error
        pytest.skip(f"no shutdown of {request.param} here: {error}")
    made.umount()
    yield made
    if made.mounted:  # a failed test, and perhaps a daemon that died: nothing stays behind
        umount(made.top, "-l")


def row(n):
    return blob(n, random.Random(n).choice([10, 300, 5000, 40_000]), "text" if n % 2 else "noise")


class Writer:
    """Commits rows 1, 2, 3 ... to the database until the disk is gone."""

    def __init__(self, path, journal):
        self.path = path
        self.mode, self.synchronous = JOURNALS[journal]
        self.acknowledged = 0
        self.stop = False

    def open(self, synchronous):
        db = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
        db.execute(f"PRAGMA journal_mode={self.mode}")
        db.execute(f"PRAGMA synchronous={synchronous}")
        db.execute("PRAGMA wal_autocheckpoint=20")
        return db

    def begin(self):
        db = self.open("EXTRA")
        db.execute("CREATE TABLE t (n INTEGER PRIMARY KEY, data BLOB)")
        db.close()

    def run(self, first):
        with (
            contextlib.suppress(sqlite3.Error),
            contextlib.closing(self.open(self.synchronous)) as db,
        ):
            for n in range(first, first + 100_000):
                self.commit(db, n)
                self.acknowledged = n
                if self.stop:  # without syncs nobody would ever notice
                    return

    @staticmethod
    def commit(db, n):
        """One row more; some of all ages change, and are again as they were."""
        db.execute("BEGIN")
        db.execute("INSERT INTO t VALUES (?, ?)", (n, row(n)))
        for old in {n // 7, n // 3, n // 2, n - 1} - {0}:
            db.execute("UPDATE t SET data = zeroblob(20000) WHERE n = ?", (old,))
            db.execute("UPDATE t SET data = ? WHERE n = ?", (row(old), old))
        db.execute("COMMIT")

    def check(self):
        """How many rows there are; all are whole, and none is missing in between."""
        db = sqlite3.connect(self.path)
        if (said := db.execute("PRAGMA integrity_check").fetchall()) != [("ok",)]:
            raise Unsound(said)
        found = db.execute("SELECT n, data FROM t ORDER BY n").fetchall()
        db.close()
        wrong = [n for i, (n, data) in enumerate(found) if n != i + 1 or bytes(data) != row(n)]
        if wrong:
            raise Unsound(f"{len(found)} rows, these are wrong or out of place: {wrong}")
        return len(found)


def cut(m, disk, writer, rng, first):
    """The disk goes in the middle of some transaction. How many rows were
    acknowledged before that."""
    writer.stop = False
    thread = threading.Thread(target=writer.run, args=(first,))
    thread.start()
    enough = first + rng.randrange(12)
    wait_until(lambda: writer.acknowledged >= enough or not thread.is_alive(), 60, "transactions")
    time.sleep(rng.random() * 0.02)
    before = writer.acknowledged
    disk.shut_down()
    writer.stop = True
    thread.join()
    m.kill()
    disk.umount()
    assert disk.mount() is None
    return before


def rounds(mount, disk, journal, count):
    """Yields (rows acknowledged before, rows acknowledged, rows found) of each power cut."""
    assert disk.mount() is None
    (disk.top / "backing").mkdir()
    os.sync()
    m = mount(OPTIONS, backing=disk.top / "backing").allow("^cframefs: (error|warning)")
    writer = Writer(m.mnt / "db", journal)
    writer.begin()
    rng, there = random.Random(f"{SEED} {journal}"), 0
    try:
        for _ in range(count):
            before = cut(m, disk, writer, rng, there + 1)
            m.start()
            there = writer.check()
            yield before, writer.acknowledged, there
            writer.acknowledged = there
        m.unmount()
        check_frames(disk.top / "backing")
    finally:
        m.kill()
        disk.umount()


class Directory(Story):
    """Files and names at once: which names there may be, back to the last sync of the directory, in
    the order in which they came; each with a content that its file had since its last sync."""

    def __init__(self, top, seed):
        super().__init__(top, seed, direct=False, volatile=True, limit=100_000)
        self.history = [self.names]
        self.end = None
        self.over = False  # what is answered from now on counts for nothing
        self.extra = {"replace": 6, "copy": 2, "hole": 2, "wish": 1, "sync_names": 2}

    def step(self):
        kind = self.rng.choices([None, *self.extra], [20, *self.extra.values()])[0]
        if kind is None:
            super().step()
        else:
            self.log.append(kind)
            getattr(self, kind)()
            self.done += 1

    def change_names(self, names, call, *args):
        self.history.append(names)
        return super().change_names(names, call, *args)

    def sync(self, fd, node):
        os.fsync(fd)
        if not self.over:
            node.synced()

    def sync_names(self):
        os.fsync(self.directory)
        if not self.over:
            self.history = [self.names]

    def replace(self):
        """As every editor does it: written beside the old one, synced, then given its name."""
        name, new = self.name(), Node()
        fd = self.change_names(
            {**self.names, "new": new}, os.open, self.top / "new", os.O_RDWR | os.O_CREAT, 0o644
        )
        try:
            data = self.data(self.limit)
            self.change(new, data, os.pwrite, fd, data, 0)
            if len(data) > 2000:  # some through the intent log
                os.fsync(fd)
                for at in range(0, len(data) - 20, len(data) // 50):
                    self.change(new, spliced(new.now, at, b"new"), os.pwrite, fd, b"new", at)
            self.sync(fd, new)
            names = {**self.names, name: new}
            del names["new"]
            self.change_names(names, os.rename, self.top / "new", self.top / name)
        finally:
            os.close(fd)
        if self.rng.random() < 0.5:
            self.sync_names()

    def copy(self):
        slot, name = self.slot(), self.known()
        if slot is None or self.names[name] is self.slots[slot][1]:
            return
        fd, node = self.slots[slot]
        with open(self.top / name, "rb") as f:
            data = self.names[name].now
            if data:
                self.change(
                    node,
                    spliced(node.now, 0, data),
                    os.copy_file_range,
                    f.fileno(),
                    fd,
                    len(data),
                    0,
                    0,
                )

    def hole(self):
        slot = self.slot()
        if slot is None or len(self.slots[slot][1].now) < 2:
            return
        fd, node = self.slots[slot]
        at = self.rng.randrange(len(node.now) - 1)
        size = self.rng.randrange(1, len(node.now) - at)
        self.change(node, spliced(node.now, at, bytes(size)), punch, fd, at, size)

    def wish(self):
        name = self.known()
        if name is not None:
            os.setxattr(
                self.top / name,
                "user.cframefs.pipeline",
                self.rng.choice([b"lz4", b"zstd:1", b"shuffle:4+lz4"]),
            )

    def play(self):
        """Until the disk is gone."""
        try:
            self.directory = os.open(self.top, os.O_RDONLY)
            while not self.end:
                self.step()
        except BaseException as error:
            self.end = error
        finally:
            os.close(self.directory)
            self.drop()

    def judge(self):
        """The newest of its states that the disk may be in."""
        found = {name.removesuffix(".b2frame"): got for name, got in look(self.top).items()}
        fits = [names for names in self.history if set(names) == set(found)]
        said = [f"{sorted(found)}: {len(fits)} of {len(self.history)} states"]
        said += [self.describe(names, found) for names in fits[-2:]]
        assert any(self.content_fits(names, found) for names in fits), "\n".join(said)


@pytest.mark.parametrize("disk", MAKE, indirect=True)
@pytest.mark.watchdog(300 + 20 * ROUNDS)
def test_files_and_names_at_once(mount, disk, request, record_property):
    """What is written beside a file, synced and given its name is there whole, or the old one."""
    assert disk.mount() is None
    (disk.top / "backing").mkdir()
    print(f"CFRAMEFS_SEED={SEED}")
    m = mount("chunksize=16K,blocksize=4K,commit=0.2", backing=disk.top / "backing").allow(
        "^cframefs: (error|warning)"
    )
    rng, steps = random.Random(f"{SEED} names"), 0
    try:
        for turn in range(ROUNDS):
            top = m.mnt / f"d{turn}"
            top.mkdir()
            os.sync()
            story = Directory(top, f"{SEED} {turn}")
            thread = threading.Thread(target=story.play)
            thread.start()
            enough = rng.randrange(10, 150)
            wait_until(lambda: story.done >= enough or not thread.is_alive(), 60, "steps")
            time.sleep(rng.random() * 0.02)
            story.over = True
            disk.shut_down()
            thread.join()
            if not isinstance(story.end, OSError):
                raise story.end
            m.kill()
            disk.umount()
            assert disk.mount() is None
            m.start()
            story.judge()
            steps += story.done
        m.unmount()
    finally:
        m.kill()
        disk.umount()
    kind = request.node.callspec.params["disk"]
    record_property("figure", f"shutdown, {kind}, files and names: {ROUNDS} rounds, {steps} steps")


def check_frames(backing):
    import libblosc

    for path in backing.glob("*.b2frame"):
        if path.stat().st_size:
            libblosc.whole_frame(path)


@pytest.mark.parametrize("journal", ["wal", "rollback"])
@pytest.mark.parametrize("disk", MAKE, indirect=True)
@pytest.mark.watchdog(300 + 20 * ROUNDS)
def test_what_sqlite_was_promised_is_there(mount, disk, blosc2, journal, request, record_property):
    print(f"CFRAMEFS_SEED={SEED}")
    rows = 0
    for before, acknowledged, found in rounds(mount, disk, journal, ROUNDS):
        # SQLite takes a directory that it cannot open, to sync it, for synced:
        # later answers count for nothing.
        assert before <= found <= acknowledged + 1
        rows = found
    kind = request.node.callspec.params["disk"]
    record_property("figure", f"shutdown, {kind}, {journal}: {ROUNDS} rounds, {rows} rows")


@pytest.mark.release
@pytest.mark.parametrize("disk", MAKE, indirect=True)
@pytest.mark.watchdog(400)
def test_without_syncs_something_is_lost(mount, disk, blosc2):
    """The negative control: the shutdown takes away what was not synced, or the
    tests above show nothing."""
    lost = 0
    try:
        for before, _, found in rounds(mount, disk, "no sync", 10):
            lost += max(0, before - found)
            if lost:
                break
    except (Unsound, sqlite3.Error):
        return  # not even a sound database
    assert lost > 0


ATTRIBUTES = {
    "mode": (lambda path: path.chmod(0o600), lambda path: path.stat().st_mode & 0o777 == 0o600),
    "owner": (lambda path: os.chown(path, 12, 12), lambda path: path.stat().st_uid == 12),
    "attribute": (
        lambda path: os.setxattr(path, "user.a", b"x"),
        lambda path: "user.a" in os.listxattr(path),
    ),
    "times": (lambda path: os.utime(path, (1, 1)), lambda path: path.stat().st_mtime == 1),
}


@pytest.mark.parametrize("disk", ["ext4"], indirect=True)
@pytest.mark.watchdog(400)
def test_attributes_that_were_synced(mount, disk):
    """The last thing that happens before the cut: nothing that comes later takes it to the disk."""
    assert disk.mount() is None
    (disk.top / "backing").mkdir()
    m = mount(OPTIONS, backing=disk.top / "backing").allow("^cframefs: (error|warning)")
    try:
        for name, (change, has_changed) in ATTRIBUTES.items():
            with open(m.mnt / name, "wb") as f:
                f.write(blob(1, 100_000, "text"))
                f.flush()
                os.fsync(f.fileno())
            with open(m.mnt / name, "rb") as f:
                os.sync()
                change(m.mnt / name)
                os.fsync(f.fileno())
                disk.shut_down()
            m.kill()
            disk.umount()
            assert disk.mount() is None
            m.start()
            assert has_changed(m.mnt / name), name
        m.unmount()
    finally:
        m.kill()
        disk.umount()


@pytest.mark.parametrize("disk", MAKE, indirect=True)
def test_what_was_closed_is_there_after_a_sync_of_the_backing_directory(mount, disk):
    """The kernel tells no FUSE daemon of a sync: this is what README says of it."""
    assert disk.mount() is None
    (disk.top / "backing").mkdir()
    m = mount(OPTIONS, backing=disk.top / "backing").allow("^cframefs: (error|warning)")
    content = blob(1, 300_001, "noise")
    try:
        (m.mnt / "f").write_bytes(content)
        subprocess.run(["sync", "-f", disk.top / "backing"], check=True, timeout=60 * SLOWNESS)
        disk.shut_down()
        m.kill()
        disk.umount()
        assert disk.mount() is None
        m.start()
        assert (m.mnt / "f").read_bytes() == content
        m.unmount()
    finally:
        m.kill()
        disk.umount()


@pytest.mark.parametrize("disk", ["ext4"], indirect=True)
def test_a_snapshot_has_what_was_synced(mount, disk, work):
    """It is taken while the directory is mounted: the intent log in it belongs to it as well."""
    assert disk.mount() is None
    (disk.top / "backing").mkdir()
    m = mount("commit=1000", backing=disk.top / "backing")
    data = bytearray(blob(1, 300_001, "text"))
    try:
        with open(m.mnt / "f", "w+b", buffering=0) as f:
            f.write(data)
            os.fsync(f.fileno())
            for n in range(100):
                data[2999 * n : 2999 * n + 4] = b"%4d" % n
                os.pwrite(f.fileno(), b"%4d" % n, 2999 * n)
                os.fsync(f.fileno())
            disk.snapshot(work / "snapshot")
            os.pwrite(f.fileno(), b"later", 0)
            os.fsync(f.fileno())
        m.unmount()
        disk.umount()
        disk.image = work / "snapshot"
        assert disk.mount() is None
        m.start()
        assert (m.mnt / "f").read_bytes() == data
        m.expect_log("1 files got what was synced last")
        m.unmount()
    finally:
        m.kill()
        disk.umount()


def kernel():
    return tuple(int(n) for n in os.uname().release.split("-")[0].split(".")[:2])


@pytest.mark.skipif(kernel() < (6, 8), reason="this kernel does not tell one mount from the next")
def test_a_disk_that_went_away_and_came_back(mount, work, root):
    """Without a restart of the machine: what was not synced has to prove itself
    at another mount, and only there."""
    m = mount("codec=lz4,chunksize=64K,intent=0").allow(
        "f.b2frame", "^cframefs: (error|warning): f"
    )
    old, new = blob(1, 300_001, "noise"), blob(2, 65536, "noise")
    with open(m.mnt / "f", "wb") as f:
        f.write(old)
        f.flush()
        os.fsync(f.fileno())
    with open(m.mnt / "f", "r+b") as f:
        f.seek(65536)
        f.write(new)
    assert m.kill()  # no checkpoint
    raw = m.stored("f").read_bytes()
    with open(m.stored("f"), "r+b") as f:  # these bytes never reached the disk
        f.seek(raw.index(new[1000:1100]))
        f.write(bytes(100))
    m.start()
    with pytest.raises(OSError) as error:
        (m.mnt / "f").read_bytes()
    assert error.value.errno == errno.EIO
    m.unmount()
    again = work / "again"
    again.mkdir()
    subprocess.run(["mount", "--bind", m.backing, again], check=True)
    try:
        other = mount("intent=0", backing=again)
        assert (other.mnt / "f").read_bytes() == old
        other.expect_log("went back to its newest whole state")
        other.unmount()
    finally:
        umount(again, "-l")
