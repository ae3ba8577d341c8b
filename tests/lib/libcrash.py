"""Shared by crash tests: a random story in a directory, which knows what may be there after a
crash, and a look at what is there.

A file may have any content that it had since its last sync. What was not synced reaches the daemon
page by page, in any order, unless each write is a request of its own (O_DIRECT): then contents are
whole.
"""

import contextlib
import errno
import os
import random

from libdata import KINDS, blob
from libposix import KEEP_SIZE, PUNCH_HOLE, ZERO_RANGE, fallocate

PAGE = 4096
COPY_MOST = 70_000
LIMIT = 300_000
NAMES = ["a", "b", "c.dat", "long name", "e"]
# ENOENT: the dead mount is taken away, and below it there is nothing.
DEAD = {
    errno.ENOTCONN,
    errno.ECONNABORTED,
    errno.EIO,
    errno.ENODEV,
    errno.EINTR,
    errno.ESHUTDOWN,
    errno.ENOENT,
}


class Node:
    """A file: its contents since the last sync, the newest last. `fresh`: it was never synced."""

    def __init__(self, content=b"", fresh=True):
        self.contents = [content]
        self.fresh = fresh

    @property
    def now(self):
        return self.contents[-1]

    def synced(self):
        self.fresh = False
        del self.contents[:-1]

    def may_be(self, got, whole):
        if got in self.contents:
            return True
        return not whole and self.has_pages(got)

    def has_pages(self, got):
        """Each page is that of some content, and the length is that of one, or
        a page on the way there."""
        sizes = {len(c) for c in self.contents}
        if len(got) not in sizes and (len(got) % PAGE or len(got) > max(sizes)):
            return False
        return all(
            any(self.page(c, at, len(page)) == page for c in self.contents)
            for at in range(0, len(got), PAGE)
            for page in [got[at : at + PAGE]]
        )

    @staticmethod
    def page(content, at, size):
        return content[at : at + size].ljust(size, b"\0")


def spliced(old, at, data):
    return old[:at].ljust(at, b"\0") + data + old[at + len(data) :]


def copy_all(fd, source, at, to, size):
    while size:
        n = os.copy_file_range(source, fd, size, at, to)
        assert n > 0
        at, to, size = at + n, to + n, size - n


class Story:
    """Operations in one directory, each remembered before it is done and after. `direct`:
    O_DIRECT. `volatile`: what was closed without a sync may be lost too, and a file that was
    never synced may be anything."""

    def __init__(self, top, seed, direct, volatile=False, limit=LIMIT):
        self.top = top
        self.rng = random.Random(seed)
        self.direct = os.O_DIRECT if direct else 0
        self.volatile = volatile
        self.limit = limit
        self.names = {}
        self.slots = {}  # number -> (descriptor, node)
        self.unfinished = None  # names, as they are if the operation under way was done
        self.changing = None  # the node of a change that is under way, or failed
        self.may_leave = 0  # how many of its contents, the newest, that change may leave
        self.done = 0
        self.log = []

    KINDS = {
        "create": 3,
        "open": 4,
        "write": 14,
        "append": 4,
        "ftruncate": 3,
        "truncate": 1,
        "rename": 2,
        "unlink": 1,
        "link": 1,
        "fsync": 4,
        "close": 3,
        "scatter": 1,
        "empty": 1,
        "punch": 1,
        "zero": 1,
        "allocate": 1,
        "copy": 4,
    }

    def step(self):
        """One operation; OSError when the daemon is gone."""
        kind = self.rng.choices(list(self.KINDS), list(self.KINDS.values()))[0]
        self.log.append(kind)
        getattr(self, kind)()
        self.done += 1

    def name(self):
        return self.rng.choice(NAMES)

    def known(self):
        return self.rng.choice(sorted(self.names)) if self.names else None

    def slot(self):
        return self.rng.choice(sorted(self.slots)) if self.slots else None

    def take_slot(self, fd, node):
        number = self.rng.randrange(3)
        old = self.slots.pop(number, None)
        self.slots[number] = (fd, node)
        if old:
            self.close_one(*old)

    def close_one(self, fd, node):
        os.close(fd)
        if not self.volatile:
            node.synced()

    def change_names(self, names, call, *args):
        self.unfinished = names
        got = call(*args)
        self.names, self.unfinished = names, None
        return got

    def change(self, node, content, call, *args, parts=()):
        """`parts`: what is there when it was done in part."""
        node.contents += [*parts, content]  # may be there from now on
        self.changing, self.may_leave = node, len(parts) + 2
        call(*args)
        self.changing = None

    def create(self):
        name = self.name()
        if name in self.names:
            return
        node = Node()
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | self.direct
        self.take_slot(
            self.change_names({**self.names, name: node}, os.open, self.top / name, flags, 0o644),
            node,
        )

    def open(self):
        name = self.known()
        if name is not None:
            self.take_slot(os.open(self.top / name, os.O_RDWR | self.direct), self.names[name])

    def data(self, most):
        size = self.rng.choice([1, 100, PAGE, PAGE + 1, self.rng.randrange(1, self.limit // 3)])
        return blob(self.rng.randrange(1 << 30), max(1, min(size, most)), self.rng.choice(KINDS))

    def write_at(self, slot, at):
        fd, node = self.slots[slot]
        data = self.data(self.limit - at)
        self.change(node, spliced(node.now, at, data), os.pwrite, fd, data, at)

    def write(self):
        slot = self.slot()
        if slot is not None:
            edge = self.rng.randrange(5) * (self.limit // 5 & -PAGE) + self.rng.choice([-1, 0, 1])
            self.write_at(
                slot,
                max(
                    0, min(self.limit - 1, self.rng.choice([edge, self.rng.randrange(self.limit)]))
                ),
            )

    def scatter(self):
        """Small writes all over a file, then a sync: that goes through the intent log."""
        slot = self.slot()
        if slot is None or len(self.slots[slot][1].now) < 64 * 16:
            return
        fd, node = self.slots[slot]
        step = len(node.now) // 64
        for at in range(0, 64 * step, step):
            self.change(node, spliced(node.now, at, b"%d" % at), os.pwrite, fd, b"%d" % at, at)
        self.sync(fd, node)

    def append(self):
        slot = self.slot()
        if slot is not None:
            at = len(self.slots[slot][1].now)
            self.write_at(slot, at if at < self.limit else 0)

    def cut(self, node, call, file):
        size = self.rng.choice([0, self.rng.randrange(self.limit), len(node.now) // 2])
        self.change(node, node.now[:size].ljust(size, b"\0"), call, file, size)

    def ftruncate(self):
        slot = self.slot()
        if slot is not None:
            self.cut(self.slots[slot][1], os.ftruncate, self.slots[slot][0])

    def truncate(self):
        name = self.known()
        if name is not None:
            self.cut(self.names[name], os.truncate, self.top / name)

    def empty(self):
        name = self.known()
        if name is not None:
            node = self.names[name]
            self.change(node, b"", self.open_emptied, self.top / name)
            self.take_slot(self.emptied, node)

    def open_emptied(self, path):
        self.emptied = os.open(path, os.O_RDWR | os.O_TRUNC | self.direct)

    def place(self):
        """A range, at a chunk border or anywhere."""
        unit = self.rng.choice([1, PAGE, 1 << 16])
        at = self.rng.randrange(self.limit) // unit * unit
        return at, min(self.rng.randrange(1, COPY_MOST // unit + 2) * unit, self.limit - at)

    def blank(self, mode):
        slot = self.slot()
        if slot is not None:
            fd, node = self.slots[slot]
            at, size = self.place()
            zeros = bytes(max(0, min(size, len(node.now) - at)))
            content = spliced(node.now, at, zeros) if zeros else node.now
            self.change(node, content, fallocate, fd, mode, at, size)

    def punch(self):
        self.blank(PUNCH_HOLE | KEEP_SIZE)

    def zero(self):
        self.blank(ZERO_RANGE | KEEP_SIZE)

    def allocate(self):
        slot = self.slot()
        if slot is not None:
            fd, node = self.slots[slot]
            at, size = self.place()
            self.change(node, node.now.ljust(at + size, b"\0"), fallocate, fd, 0, at, size)

    def copy(self):
        """copy_file_range, which may end at any border of chunks."""
        if not self.slots:
            return
        source, source_node = self.slots[self.slot()]
        fd, node = self.slots[self.slot()]
        at, size = self.place()
        to = self.place()[0]
        data = source_node.now[at : at + min(size, self.limit - to)]
        if not data or (node is source_node and at < to + len(data) and to < at + len(data)):
            return
        ends = range(PAGE - to % PAGE, len(data), PAGE)
        parts = [spliced(node.now, to, data[:end]) for end in ends]
        content = spliced(node.now, to, data)
        self.change(node, content, copy_all, fd, source, at, to, len(data), parts=parts)

    def rename(self):
        old, new = self.known(), self.name()
        if old is None or old == new:
            return
        names = {**self.names, new: self.names[old]}
        # Between two names of one file nothing happens, says POSIX.
        if self.names.get(new) is not self.names[old]:
            del names[old]
        self.change_names(names, os.rename, self.top / old, self.top / new)

    def unlink(self):
        name = self.known()
        if name is not None:
            names = {n: node for n, node in self.names.items() if n != name}
            self.change_names(names, os.unlink, self.top / name)

    def link(self):
        old, new = self.known(), self.name()
        if old is not None and new not in self.names:
            self.change_names(
                {**self.names, new: self.names[old]}, os.link, self.top / old, self.top / new
            )

    def fsync(self):
        slot = self.slot()
        if slot is not None:
            self.sync(*self.slots[slot])

    def sync(self, fd, node):
        os.fsync(fd)
        node.synced()

    def close(self, slot=None):
        slot = self.slot() if slot is None else slot
        if slot is not None:
            self.close_one(*self.slots.pop(slot))

    def run(self, steps, dead):
        """Continues until the daemon is gone, or `steps` are done. `dead`() tells
        whether errors are expected."""
        try:
            for _ in range(steps):
                self.step()
        except OSError as error:
            if not dead() or error.errno not in DEAD:
                raise

    def drop(self):
        """After a crash: forgets all descriptors."""
        for fd, _ in self.slots.values():
            with contextlib.suppress(OSError):
                os.close(fd)
        self.slots = {}

    def judge(self, found):
        """Checks that `found`, {name: (inode number, bytes)}, may be there; continues from it."""
        if self.volatile:
            found = {n.removesuffix(".b2frame"): got for n, got in found.items()}
        states = [self.names] if self.unfinished is None else [self.names, self.unfinished]
        fits = [s for s in states if set(s) == set(found)]
        assert fits, f"names {sorted(found)}, not {[sorted(s) for s in states]}; {self.log[-5:]}"
        assert any(self.content_fits(s, found) for s in fits), self.describe(fits[-1], found)
        for names in fits:
            if self.content_fits(names, found):
                groups = {}
                self.names = {
                    n: groups.setdefault(found[n][0], Node(found[n][1], False)) for n in names
                }
        self.unfinished = None

    def content_fits(self, names, found):
        whole = self.direct != 0
        same = all(
            (found[a][0] == found[b][0]) == (names[a] is names[b]) for a in names for b in names
        )
        return same and all(
            self.volatile and node.fresh or node.may_be(found[n][1], whole)
            for n, node in names.items()
        )

    def describe(self, names, found):
        lines = [
            f"{n}: {len(found[n][1])} bytes, none of {[len(c) for c in node.contents]}; "
            f"inode {found[n][0]}"
            for n, node in names.items()
            if not node.may_be(found[n][1], self.direct != 0)
        ]
        return "\n".join(lines + [f"last steps: {self.log[-12:]}"])


def look(top):
    """{name: (inode number, bytes)} of a directory."""
    return {p.name: (p.stat().st_ino, p.read_bytes()) for p in top.iterdir()}
