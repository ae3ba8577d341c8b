"""Random operations on the mount and on a plain directory: both agree after every step.

The same seed plays the same story. A failing story is left in the case's
directory as story.txt, its last line the step that disagreed.
CFRAMEFS_SEED and CFRAMEFS_STEPS choose other stories and longer ones.
"""

import errno
import mmap
import os
import random
import stat

import pytest

from libdata import KINDS, blob, sha256
from libmount import SLOWNESS
from libposix import (
    KEEP_SIZE,
    RENAME_EXCHANGE,
    RENAME_NOREPLACE,
    ZERO_RANGE,
    fallocate,
    punch,
    read_direct,
    renameat2,
)

SEED = int(os.environ.get("CFRAMEFS_SEED") or 1)
STEPS = int(os.environ.get("CFRAMEFS_STEPS") or (1200 if SLOWNESS == 1 else 600))
DIRECTORIES = ["", "d/", "d/e/", "g/"]
NAMES = ["a", "b", "c.dat", "x.b2frame", "long name with spaces"]
LIMIT = 600_000
CONFIGS = {
    "default": "",
    "small": "codec=lz4,typesize=4,filter=shuffle,chunksize=64K,blocksize=4K",
    "tight": "codec=blosclz,filter=bitshuffle,typesize=8,chunksize=128K,blocksize=16K,"
    "cache=1M,dirty_max=1M,workers=1",
    "eager": "codec=zlib,level=1,typesize=3,filter=shuffle,chunksize=48K,blocksize=12K,commit=1",
}
# What a mount may be given the next time: files are of any that came before.
OTHERS = {
    "chunksize": ["32K", "48K", "64K", "128K", "1M"],
    "blocksize": ["4K", "12K", "16K", "32K"],
    "codec": ["blosclz", "lz4", "lz4hc", "zlib", "zstd"],
    "level": ["0", "1", "3", "5", "auto"],
    "typesize": ["1", "3", "4", "8"],
    "filter": ["none", "shuffle", "bitshuffle"],
    "profile": ["random"],
    "intent": ["0", "1M"],
    "commit": ["0", "0.2", "1"],
    "dirty_max": ["1M", "4M"],
    "cache": ["1M"],
    "workers": ["1", "3"],
}


class Story:
    """A random story: which operation comes next depends on the seed alone."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.log = []

    def path(self):
        return self.rng.choice(DIRECTORIES) + self.rng.choice(NAMES)

    def offset(self):
        """Anywhere, with a liking for the edges of blocks and chunks."""
        if self.rng.random() < 0.4:
            edge = self.rng.choice([4096, 12 << 10, 16 << 10, 48 << 10, 64 << 10, 128 << 10])
            return max(0, edge * self.rng.randrange(5) + self.rng.choice([-1, 0, 0, 1]))
        return self.rng.randrange(LIMIT)

    def size(self):
        return self.rng.choice([1, 3, 100, 4096, 4097, 65536, self.rng.randrange(1, 200_000)])

    def data(self):
        return [self.rng.randrange(1 << 30), self.size(), self.rng.choice(KINDS)]

    def options(self):
        """Those of the next mount. None: as they are."""
        if self.rng.random() < 0.3:
            return None
        return ",".join(
            f"{name}={self.rng.choice(OTHERS[name])}" for name in OTHERS if self.rng.random() < 0.35
        )


class World:
    """One side: a directory with open descriptors. Every method is an
    operation; its result is compared."""

    def __init__(self, top, direct):
        self.top = top
        self.direct = direct
        self.fds = {}
        for name in DIRECTORIES[1:]:
            os.makedirs(top / name, exist_ok=True)

    def at(self, path):
        return self.top / path

    def open(self, slot, path, flags):
        self.close(slot)
        self.fds[slot] = os.open(self.at(path), flags, 0o644)

    def close(self, slot):
        if slot in self.fds:
            os.close(self.fds.pop(slot))

    def close_all(self):
        for slot in list(self.fds):
            self.close(slot)

    def fd(self, slot):
        if slot not in self.fds:
            raise OSError(errno.EBADF, "closed")
        return self.fds[slot]

    def write(self, slot, offset, data):
        return os.pwrite(self.fd(slot), blob(*data), offset)

    def read(self, slot, offset, size):
        return sha256(os.pread(self.fd(slot), size, offset))

    def append(self, path, data):
        fd = os.open(self.at(path), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            if os.fstat(fd).st_size > 2 * LIMIT:
                os.ftruncate(fd, 5)
            return os.write(fd, blob(*data))
        finally:
            os.close(fd)

    def overwrite(self, path, data):
        fd = os.open(self.at(path), os.O_WRONLY | os.O_TRUNC | os.O_CREAT, 0o644)
        try:
            return os.write(fd, blob(*data))
        finally:
            os.close(fd)

    def ftruncate(self, slot, size):
        os.ftruncate(self.fd(slot), size)

    def truncate(self, path, size):
        os.truncate(self.at(path), size)

    def punch(self, slot, offset, size):
        punch(self.fd(slot), offset, size)

    def zero(self, slot, offset, size):
        fallocate(self.fd(slot), ZERO_RANGE, offset, size)

    def zero_keep(self, slot, offset, size):
        fallocate(self.fd(slot), ZERO_RANGE | KEEP_SIZE, offset, size)

    def allocate(self, slot, offset, size):
        fallocate(self.fd(slot), 0, offset, size)

    def mmap_write(self, slot, offset, data):
        fd = self.fd(slot)
        size = os.fstat(fd).st_size
        if size == 0:
            return 0
        with mmap.mmap(fd, size) as view:
            data = blob(*data)[: max(0, size - offset)]
            view[offset : offset + len(data)] = data if data else b""
            return len(data)

    def mmap_read(self, slot):
        fd = self.fd(slot)
        if os.fstat(fd).st_size == 0:
            return None
        with mmap.mmap(fd, 0, prot=mmap.PROT_READ) as view:
            return sha256(view)

    def copy(self, slot, path, at, to, size):
        source = os.open(self.at(path), os.O_RDONLY)
        try:
            done = 0
            while done < size:
                n = os.copy_file_range(source, self.fd(slot), size - done, at + done, to + done)
                if n == 0:
                    break
                done += n
            return done
        finally:
            os.close(source)

    def fsync(self, slot):
        os.fsync(self.fd(slot))

    def rename(self, old, new):
        os.rename(self.at(old), self.at(new))

    def exchange(self, old, new):
        renameat2(self.at(old), self.at(new), RENAME_EXCHANGE)

    def noreplace(self, old, new):
        renameat2(self.at(old), self.at(new), RENAME_NOREPLACE)

    def link(self, old, new):
        os.link(self.at(old), self.at(new), follow_symlinks=False)

    def symlink(self, target, new):
        os.symlink(target, self.at(new))

    def unlink(self, path):
        os.unlink(self.at(path))

    def rmdir(self, path):
        os.rmdir(self.at(path))

    def mkdir(self, path):
        os.mkdir(self.at(path))

    def chmod(self, path, mode):
        os.chmod(self.at(path), mode)

    def utime(self, path, ns):
        os.utime(self.at(path), ns=(ns, ns))
        return os.stat(self.at(path)).st_mtime_ns

    def seek(self, slot, offset):
        """Both sides may see holes differently; neither may pass over data. See check_holes."""
        fd = self.fd(slot)
        size = os.fstat(fd).st_size
        content = os.pread(fd, size, 0)
        at = min(offset, size)
        try:
            start = os.lseek(fd, at, os.SEEK_DATA)
        except OSError as error:
            assert error.errno == errno.ENXIO
            start = size
        assert content[at:start].count(0) == start - at, "SEEK_DATA passed over data"
        if at < size:
            hole = os.lseek(fd, at, os.SEEK_HOLE)
            assert at <= hole <= size

    def content(self, path):
        size = os.stat(path).st_size
        return sha256(read_direct(path, size + 1) if self.direct() else path.read_bytes())

    def state(self, path):
        """Everything that both sides must agree on for one name."""
        try:
            got = os.lstat(path)
        except OSError as error:
            return error.errno
        kind = stat.S_IFMT(got.st_mode)
        if kind == stat.S_IFLNK:
            return "link", os.readlink(path)
        if kind == stat.S_IFDIR:
            return "dir", got.st_mode, sorted(os.listdir(path))
        return "file", got.st_mode, got.st_size, got.st_nlink, self.content(path)

    def descriptor(self, slot):
        if slot not in self.fds:
            return None
        got = os.fstat(self.fds[slot])
        return (
            got.st_size,
            got.st_nlink,
            sha256(os.pread(self.fds[slot], got.st_size + 1, 0)) if got.st_nlink == 0 else None,
        )

    def tree(self):
        return {
            name: self.state(self.top / name)
            for name in sorted(str(p.relative_to(self.top)) for p in self.top.rglob("*"))
        }


def next_step(story):
    """One operation with its arguments."""
    rng, slot = story.rng, story.rng.randrange(4)
    flags = os.O_RDWR | rng.choice(
        [0, os.O_CREAT, os.O_CREAT, os.O_CREAT | os.O_TRUNC, os.O_CREAT | os.O_EXCL]
    )
    weighted = [
        (10, lambda: ("open", slot, story.path(), flags)),
        (3, lambda: ("close", slot)),
        (25, lambda: ("write", slot, story.offset(), story.data())),
        (10, lambda: ("read", slot, story.offset(), story.size())),
        (6, lambda: ("append", story.path(), story.data())),
        (4, lambda: ("overwrite", story.path(), story.data())),
        (5, lambda: ("ftruncate", slot, story.offset())),
        (3, lambda: ("truncate", story.path(), story.offset())),
        (5, lambda: ("punch", slot, story.offset(), story.size())),
        (3, lambda: ("zero", slot, story.offset(), story.size())),
        (2, lambda: ("zero_keep", slot, story.offset(), story.size())),
        (2, lambda: ("allocate", slot, story.offset(), story.size())),
        (5, lambda: ("mmap_write", slot, story.offset(), story.data())),
        (3, lambda: ("mmap_read", slot)),
        (4, lambda: ("copy", slot, story.path(), story.offset(), story.offset(), story.size())),
        (4, lambda: ("fsync", slot)),
        (5, lambda: ("rename", story.path(), story.path())),
        (3, lambda: ("exchange", story.path(), story.path())),
        (2, lambda: ("noreplace", story.path(), story.path())),
        (4, lambda: ("link", story.path(), story.path())),
        (2, lambda: ("symlink", rng.choice(NAMES), story.path())),
        (4, lambda: ("unlink", story.path())),
        (1, lambda: ("rmdir", rng.choice(DIRECTORIES[1:] + NAMES))),
        (2, lambda: ("mkdir", rng.choice(DIRECTORIES[1:] + NAMES))),
        (1, lambda: ("chmod", story.path(), rng.choice([0o600, 0o644, 0o755]))),
        (1, lambda: ("utime", story.path(), rng.randrange(1 << 60))),
        (4, lambda: ("seek", slot, story.offset())),
        (2, lambda: ("remount", story.options())),
    ]
    weights, makers = zip(*weighted)
    return rng.choices(makers, weights)[0]()


def outcome(world, step):
    try:
        return getattr(world, step[0])(*step[1:])
    except OSError as error:
        return f"errno {errno.errorcode[error.errno]}"


def compare(worlds, step):
    """The names that a step touched, or all of them; and every open descriptor."""
    paths = [word for word in step[1:] if isinstance(word, str)]
    for path in paths:
        theirs, ours = (w.state(w.top / path) for w in worlds)
        assert ours == theirs, path
    for slot in range(4):
        theirs, ours = (w.descriptor(slot) for w in worlds)
        assert ours == theirs, f"descriptor {slot}"


def compare_all(worlds):
    theirs, ours = (w.tree() for w in worlds)
    assert ours == theirs


def play(m, plain, story, steps):
    worlds = [World(plain, lambda: False), World(m.mnt, lambda: story_coin.random() < 0.5)]
    story_coin = random.Random(0)
    paths = {}
    for number in range(steps):
        step = next_step(story)
        story.log.append(f"{number}: {step}")
        if step[0] == "remount":
            for world in worlds:
                world.close_all()
            paths.clear()
            m.remount(step[1])
        else:
            theirs, ours = (outcome(w, step) for w in worlds)
            assert ours == theirs, "the call's result"
            if step[0] == "open":
                paths[step[1]] = step[2]
            touched = paths.get(step[1]) if isinstance(step[1], int) else None
            compare(worlds, (*step, touched) if touched else step)
        if step[0] == "remount" or number % 40 == 39:
            compare_all(worlds)
    for world in worlds:
        world.close_all()
    m.remount()
    compare_all(worlds)


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.watchdog(600)
def test_the_mount_and_a_plain_directory_agree(mount, plain, work, config):
    # a user's daemon cannot look into a directory of mode 644 that is named like a frame
    m = mount(CONFIGS[config]).allow("shown under its own name: Permission denied")
    story = Story(f"{SEED} {config}")
    try:
        play(m, plain, story, STEPS)
    except BaseException:
        (work / "story.txt").write_text("\n".join(story.log) + "\n")
        print(f"story: {work / 'story.txt'}, last step {story.log[-1]}")
        raise


@pytest.mark.concurrent
@pytest.mark.parametrize("config", ["default", "small"])
def test_our_frames_after_a_story_open_in_the_reference(mount, plain, blosc2, config):
    """Every frame that a story leaves decodes in the reference to the bytes of the plain side."""
    import libblosc

    m = mount(CONFIGS[config])
    play(m, plain, Story(f"{SEED} reference {config}"), 250)
    m.unmount()
    frames = [p for p in plain.rglob("*") if p.is_file() and not p.is_symlink()]
    assert frames
    for path in frames:
        stored = m.stored(str(path.relative_to(plain)))
        libblosc.check(stored, path.read_bytes(), random.Random(1))
