"""Power cuts of a mount: all that its daemon does to the backing directory is recorded, and disks
that a cut at any moment may leave are built of it and opened (tests/c/crash_record.c,
crash_replay.c).

CFRAMEFS_TEST_CUTS says how many disks in all; CFRAMEFS_SEED chooses other stories.
"""

import os
import random
import struct

import pytest

from libcrash import Node, Story, spliced
from libcut import CONTENT, NAMES_SYNCED, SEED, SYNCED, Scattered, replay, traced
from libdata import blob
from libmount import SLOWNESS

CUTS = int(os.environ.get("CFRAMEFS_TEST_CUTS") or (24_000 if SLOWNESS == 1 else 8000))
TINY = "chunksize=4K,blocksize=1K,commit=0"
CONFIGS = {  # options, longest file, steps, share of the disks
    "tiny": (f"{TINY},codec=lz4", 60_000, 1500, 0.23),
    "stored": (f"{TINY},level=0", 60_000, 1500, 0.28),
    "small": ("chunksize=16K,blocksize=4K,commit=0,codec=zlib", 120_000, 1000, 0.1),
    "eager": (f"{TINY},codec=blosclz,commit=0.01,workers=1,intent=0", 60_000, 1500, 0.22),
    "log": ("chunksize=4K,blocksize=1K,codec=lz4,commit=0.3", 60_000, 1500, 0.15),
    "long": (
        "chunksize=64K,blocksize=16K,commit=0,level=0",
        2_500_000,
        150,
        0.06,  # fewer may have none that is recovered
    ),  # holes are punched
    "reopened": (f"{TINY},level=0,intent=0", 400_000, 400, 0.1),
    "again": (f"{TINY},level=0,intent=0,workers=1", 60_000, 80, 0.2),
}


class Traced(Story):
    """Says in the trace what each file may hold, and what was promised."""

    KINDS = {**Story.KINDS, "save": 3, "fsync_new": 1, "fsync_names": 1}

    def __init__(self, top, seed, trace, limit):
        super().__init__(top, seed, direct=True, volatile=True, limit=limit)
        self.trace = os.open(trace, os.O_WRONLY | os.O_APPEND)

    def mark(self, kind, ino, content=b""):
        os.write(self.trace, struct.pack("=QQQQ", kind, ino, 0, len(content)) + content)

    def change(self, node, content, call, *args, parts=()):
        ino = os.stat(args[0]).st_ino
        if ino != getattr(node, "ino", ino):
            raise AssertionError("the inode number of an open file has changed")
        node.ino = ino
        for each in [*parts, content]:
            self.mark(CONTENT, ino, each)
        super().change(node, content, call, *args, parts=parts)

    def sync(self, fd, node):
        super().sync(fd, node)
        node.ino = os.fstat(fd).st_ino
        if node in self.names.values():
            self.mark(SYNCED, node.ino)

    def made(self, name):
        """A new file."""
        node = Node()
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | self.direct
        names = {**self.names, name: node}
        return self.change_names(names, os.open, self.top / name, flags, 0o644), node

    def fsync_new(self):
        """Nothing has come for it yet."""
        name = self.name()
        if name not in self.names:
            fd, node = self.made(name)
            self.sync(fd, node)
            self.close_one(fd, node)

    def save(self):
        """As an editor does, carefully or not: write another file, sync that, rename it over the
        old one, sync the directory."""
        name, temp = self.name(), "saved"
        fd, node = self.made(temp)
        careful = self.rng.randrange(4)
        data = self.data(self.limit)
        self.change(node, data, os.pwrite, fd, data, 0)
        if careful:
            self.sync(fd, node)
        self.close_one(fd, node)
        names = {n: node for n, node in self.names.items() if n != temp}
        self.change_names({**names, name: node}, os.rename, self.top / temp, self.top / name)
        if careful > 1:
            self.fsync_names()

    def fsync_names(self):
        fd = os.open(self.top, os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)
        self.mark(NAMES_SYNCED, 0)


class Reopening(Traced):
    """Each change by an opening of its own, which has to find the gaps of those before it."""

    KINDS = {"create": 2, "close": 3, "rewrite": 20, "rename": 1, "unlink": 1, "truncate": 1}

    def rewrite(self):
        name = self.known()
        if name is None:
            return
        node, how = self.names[name], self.rng.random()
        fd = os.open(self.top / name, os.O_RDWR | self.direct)
        if how < 0.3:
            self.change(node, b"", os.ftruncate, fd, 0)
        at = self.rng.choice([0, len(node.now), self.rng.randrange(len(node.now) + 1)])
        data = blob(self.rng.randrange(1 << 30), self.rng.choice([100, 5000, 150_000]), "noise")
        data = data[: max(1, self.limit - at)]
        self.change(node, spliced(node.now, at, data), os.pwrite, fd, data, at)
        if how > 0.9:
            self.sync(fd, node)
        self.close_one(fd, node)


class Again(Traced):
    """A file gets as many bytes as it had before, again and again, and a sync of less of it comes
    in between: its roots would lie where those of before lay, which the disk may have still."""

    KINDS = {"refill": 1}

    def opening(self, name):
        """A descriptor of the file, and the file; it is made if there is none."""
        if name not in self.names:
            return self.made(name)
        return os.open(self.top / name, os.O_RDWR | self.direct), self.names[name]

    def refill(self):
        size, left = self.rng.choice([(40_000, 0), (40_000, 8192), (9000, 0), (9000, 4096)])
        fd, node = self.opening(str(size))
        data = self.rng.randbytes(size)
        self.change(node, data, os.pwrite, fd, data, 0)
        self.close_one(fd, node)
        fd, node = self.opening(str(size))
        self.change(node, node.now[:left], os.ftruncate, fd, left)
        self.sync(fd, node)
        self.close_one(fd, node)


STORIES = {"reopened": Reopening, "again": Again}


def record(mount, work, config):
    """The trace of a story on a mount."""
    options, limit, steps, _ = CONFIGS[config]
    m, trace = traced(mount, work, options)
    (m.mnt / "d").mkdir()
    story = STORIES.get(config, Traced)(m.mnt / "d", f"{SEED} {config}", trace, limit)
    for _ in range(steps):
        story.step()
    story.drop()
    os.close(story.trace)
    m.unmount()
    return trace


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.watchdog(300 + CUTS / 100)
def test_every_disk_holds_what_was_synced(mount, work, blosc2, config, record_property):
    import libblosc

    print(f"CFRAMEFS_SEED={SEED}, {config}")
    trace = record(mount, work, config)
    kept = work / "kept"
    kept.mkdir()
    wanted = int(CUTS * CONFIGS[config][3])
    code, said, points, states, recovered, _ = replay(trace, wanted, "--keep", str(kept))
    assert code == 0, said
    assert points > CONFIGS[config][2] // 3 and states >= wanted and recovered > states // 200, said
    frames = sorted(kept.glob("*.b2frame"))
    assert frames
    for path in frames:  # the reference opens what was recovered
        assert libblosc.whole_frame(path) == path.with_suffix("").read_bytes()
    record_property(
        "figure", f"power cuts, {config}: {states} disks at {points} points, {recovered} recovered"
    )


def record_scattered(mount, work):
    m, trace = traced(mount, work, "chunksize=4K,blocksize=1K,codec=lz4,commit=20,intent=1M")
    story = Scattered(m.mnt, trace, random.Random(SEED))
    for _ in range(40):
        story.step()
    story.close()
    m.unmount()
    return trace


@pytest.mark.watchdog(300 + CUTS / 100)
def test_every_disk_holds_what_was_logged(mount, work, record_property):
    """The same of frames and intent log together."""
    code, said, _, states, _, applied = replay(record_scattered(mount, work), CUTS // 8)
    assert code == 0, said
    assert applied > states // 10, said
    record_property("figure", f"power cuts, intent log: {states} disks, {applied} records applied")


def record_killed(mount, work):
    options = "chunksize=4K,blocksize=1K,codec=lz4"
    rng = random.Random(SEED)
    m, trace = traced(mount, work, f"{options},commit=20,intent=1M")
    story = Scattered(m.mnt, trace, rng)
    for _ in range(8):
        for _ in range(rng.randrange(1, 5)):
            story.step()
        story.scatter(rng.choice(story.files), 20, lambda: 50)
        for _ in range(rng.randrange(1, 3)):
            m.kill()
            m.options = options + rng.choice(
                [",commit=20,intent=1M", ",commit=0.05,intent=64K", ",commit=1,intent=0"]
            )
            m.start()
        story.after_kill()
    story.close()
    m.unmount()
    return trace


@pytest.mark.watchdog(300 + CUTS / 100)
def test_every_disk_holds_what_was_logged_before_kills(mount, work):
    """The same where logs that killed daemons have left are applied, under other options."""
    code, said, _, states, _, applied = replay(record_killed(mount, work), CUTS // 16)
    assert code == 0, said
    assert applied > states // 20, said


@pytest.mark.release
@pytest.mark.watchdog(300)
def test_a_skipped_sync_of_the_log_is_noticed(mount, work):
    trace = record_scattered(mount, work)
    for every in (1, 2):
        code, said, *_ = replay(trace, 3000, "--skip-sync", str(every))
        assert code == 1, said


@pytest.mark.release
@pytest.mark.watchdog(300)
def test_a_skipped_sync_is_noticed(mount, work):
    """The negative control: where some syncs do nothing, disks must show up that lost something."""
    trace = record(mount, work, "tiny")
    assert replay(trace, 6000)[0] == 0
    for every in (1, 2, 3):
        code, said, *_ = replay(trace, 6000, "--skip-sync", str(every))
        assert code == 1 and "names" not in said, said
        code, said, *_ = replay(trace, 6000, "--skip-names", str(every))
        assert code == 1 and "names" in said, said


def record_parted(mount, work):
    """A file whose chunks are written in more parts than the note of a root lists, and closed."""
    m, trace = traced(mount, work, f"{TINY},level=0,intent=0")
    story, chunk, size = Traced(m.mnt, SEED, trace, None), 4096, 1100 * 2 * 4096
    fd, node = story.made("f")
    story.change(node, bytes(size), os.truncate, m.mnt / "f", size)
    story.sync(fd, node)
    for turn in range(2):
        content, places = bytearray(node.now), range(turn * chunk, size, 2 * chunk)
        for at in places:
            content[at : at + 100] = blob(turn * size + at, 100, "noise")
        story.mark(CONTENT, node.ino, bytes(content))
        node.contents.append(bytes(content))
        for at in places:
            os.pwrite(fd, content[at : at + 100], at)
        story.close_one(fd, node)
        fd = os.open(m.mnt / "f", os.O_RDWR | story.direct)
    story.close_one(fd, node)
    os.close(story.trace)
    m.unmount()
    return trace


def test_more_parts_than_a_root_lists(mount, work):
    """Nothing could tell after a cut that one of the others is missing: all are on the disk before
    that root is."""
    code, said, _, states, recovered, _ = replay(record_parted(mount, work), 400)
    assert code == 0, said
    assert recovered, said
