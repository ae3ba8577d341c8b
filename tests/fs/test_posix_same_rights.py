"""Stories of rights played on a plain directory and on the mount: owners, modes, set-id bits, and
what anybody does to anything."""

import contextlib
import ctypes
import errno
import mmap
import os
import random
import stat
import struct

import pytest

from libposix import (
    KEEP_SIZE,
    NOBODY,
    PUNCH_HOLE,
    RENAME_EXCHANGE,
    RENAME_NOREPLACE,
    RENAME_WHITEOUT,
    error_of,
    fallocate,
    in_child,
    renameat2,
    write_at,
)
from libstory import Stories, assert_same_story, attributes, listing, opened, try_open

story = Stories()
CAP_FOWNER, CAP_FSETID, CAPABILITY_VERSION = 3, 4, 0x20080522
PR_SET_KEEPCAPS = 8


def set_capabilities(change):
    """The first half of the effective ones of this process becomes change(what it is)."""
    head = struct.pack("<Ii", CAPABILITY_VERSION, 0)
    sets = ctypes.create_string_buffer(
        24
    )  # effective, permitted, inheritable: the low halves, then the high ones
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.capget(head, sets) == 0
    words = list(struct.unpack("<6I", sets.raw))
    words[0] = change(words[0])
    assert libc.capset(head, struct.pack("<6I", *words)) == 0


def drop_fsetid():
    """This process may keep set-id bits no more, whoever it is."""
    set_capabilities(lambda had: had & ~(1 << CAP_FSETID))


def become_a_guard(uid):
    """This process is another user's, who may do what owners may."""
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) == 0
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)
    set_capabilities(lambda had: 1 << CAP_FOWNER)


@story
def who_owns_what_is_made(top):
    os.chmod(top, 0o777)
    os.mkdir(top / "group")
    os.chown(top / "group", 0, 4321)
    os.chmod(top / "group", 0o2777)
    os.mkdir(top / "sticky")
    os.chmod(top / "sticky", 0o1777)
    (top / "sticky/roots").write_bytes(b"")
    (top / "sticky/roots-dir").mkdir()

    def make():
        for where in ("group", "sticky", "."):
            (top / where / "f").write_bytes(b"x")
            with opened(top / where / "sgid", os.O_CREAT | os.O_RDWR, 0o2775):
                pass
            os.mkdir(top / where / "d")
            os.symlink("x", top / where / "l")
            os.mkfifo(top / where / "p", 0o666)
            os.link(top / where / "f", top / where / "hard")
        return [
            error_of(os.unlink, top / "sticky/roots"),
            error_of(os.rmdir, top / "sticky/roots-dir"),
            error_of(os.rename, top / "sticky/roots", top / "sticky/mine"),
            error_of(os.rename, top / "sticky/f", top / "sticky/roots"),
            error_of(os.rename, top / "sticky/f", top / "sticky/g"),
        ]

    yield in_child(make, uid=NOBODY)
    yield [listing(top / where) for where in ("group", "sticky", ".")]
    yield in_child(lambda: error_of(os.link, top / "sticky/roots", top / "stolen"), uid=NOBODY)
    yield (
        error_of(os.rename, f"{top}/.", f"{top}/x"),
        error_of(os.rename, f"{top}/group/..", f"{top}/x"),
        error_of(os.rmdir, f"{top}/."),
    )


@story
def setgid_bits_of_what_is_made(top):
    """In a directory that hands on its group, who is in that may set the bit."""
    os.chmod(top, 0o777)
    for name, mode in (("all", 0o2777), ("group", 0o2770), ("plain", 0o777)):
        (top / name).mkdir()
        os.chown(top / name, 0, 4321)
        os.chmod(top / name, mode)

    def make(mark):
        for name in ("all", "group", "plain"):
            for mode in (0o2775, 0o6755, 0o2644):
                yield try_open(top / name / f"f-{mark}-{mode:o}", os.O_CREAT | os.O_RDWR, mode)
                yield error_of(os.mknod, top / name / f"p-{mark}-{mode:o}", stat.S_IFIFO | mode)
            yield error_of(os.mkdir, top / name / f"d-{mark}", 0o2755)

    for groups in ((), (4321,), (4322,)):
        yield in_child(lambda: list(make(groups)), uid=NOBODY, groups=groups)
    yield in_child(lambda: list(make("own")), uid=NOBODY, gid=4321)
    yield [listing(top / name) for name in ("all", "group", "plain")]


@story
def whose_is_what_a_rename_leaves(top):
    os.chmod(top, 0o777)
    modes = {
        "all": (0, 0o777),
        "group": (2000, 0o775),
        "setgid": (4321, 0o2777),
        "sticky": (0, 0o1777),
    }
    for name, (gid, mode) in modes.items():
        (top / name).mkdir()
        os.chown(top / name, 0, gid)
        os.chmod(top / name, mode)
        for kind in ("frame", "over", "replaced"):
            (top / name / kind).write_bytes(kind.encode())
        (top / name / "dir").mkdir()

    def move():
        return [
            error_of(renameat2, top / name / old, top / name / new, RENAME_WHITEOUT)
            for name in modes
            for old, new in (("frame", "to"), ("over", "replaced"), ("dir", "to-dir"))
        ]

    def move_as_guard():
        become_a_guard(NOBODY)
        return move()

    yield in_child(move, uid=NOBODY, groups=[2000])
    yield [listing(top / name) for name in modes]
    yield in_child(move_as_guard)
    yield [listing(top / name) for name in modes]


@story
def set_id_bits(top):
    os.chmod(top, 0o777)
    path = top / "program"

    def fresh(mode):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        path.write_bytes(b"x" * 10_000)
        os.chown(path, NOBODY, NOBODY)
        os.chmod(path, mode)

    def map_write():
        with opened(path, os.O_RDWR) as fd, mmap.mmap(fd, 4096) as view:
            view[5] = 1
            view.flush()

    def punch():
        with opened(path, os.O_RDWR) as fd:
            fallocate(fd, PUNCH_HOLE | KEEP_SIZE, 0, 4096)

    def allocate():
        with opened(path, os.O_RDWR) as fd:
            fallocate(fd, 0, 0, 20_000)

    def copy():
        with opened(path, os.O_RDWR) as fd:
            os.copy_file_range(fd, fd, 100, 0, 5000)

    changes = {
        "write": lambda: write_at(path, 5, b"y", os.O_RDWR),
        "truncate": lambda: os.truncate(path, 5),
        "open": lambda: os.close(os.open(path, os.O_WRONLY | os.O_TRUNC)),
        "create": lambda: os.close(os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CREAT, 0o600)),
        "same": lambda: os.truncate(path, 10_000),
        "chown": lambda: os.chown(path, NOBODY, NOBODY),
        "nothing": lambda: os.chown(path, -1, -1),
        "chmod": lambda: os.chmod(path, 0o6777),
        "punch": punch,
        "allocate": allocate,
        "copy": copy,
        "map": map_write,
        "append": lambda: write_at(path, 0, b"y", os.O_WRONLY | os.O_APPEND),
        "utime": lambda: os.utime(path),
        "link": lambda: os.link(path, top / "second"),
        "xattr": lambda: os.setxattr(path, "user.x", b"y"),
    }
    for what, change in changes.items():
        for mode in (0o6777, 0o2767, 0o6711, 0o4644):
            for uid in (NOBODY, 0):
                fresh(mode)
                error = in_child(lambda: error_of(change), uid=uid) if uid else error_of(change)
                yield what, oct(mode), uid, error, oct(os.stat(path).st_mode)
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(top / "second")


@story
def chown_and_chmod_rights(top):
    os.chmod(top, 0o777)
    path = top / "f"
    path.write_bytes(b"")
    for owner, group in ((NOBODY, NOBODY), (0, NOBODY), (NOBODY, 0), (1234, 1234)):
        for mode in (0o644, 0o2755):
            for to in ((-1, 777), (-1, NOBODY), (0, -1), (NOBODY, -1), (-1, -1)):
                os.chown(path, owner, group)
                os.chmod(path, mode)
                yield (
                    in_child(lambda: error_of(os.chown, path, *to), uid=NOBODY, groups=[777]),
                    attributes(path),
                )
            os.chown(path, owner, group)
            yield in_child(lambda: error_of(os.chmod, path, 0o6777), uid=NOBODY), attributes(path)


@story
def set_id_bits_among_many_writes(top):
    """What was found out about a file for its first writes holds until its mode changes."""
    os.chmod(top, 0o777)
    path = top / "program"

    def write_often(fd):
        for at in range(200):
            os.pwrite(fd, b"y", at)
        return oct(os.stat(path).st_mode)

    def by_nobody():
        with opened(path, mode=0o777) as fd:
            for mode in (0o4755, 0o2755, 0o6711, 0o2744, 0o755):
                os.chmod(path, mode)
                yield write_often(fd), os.ftruncate(fd, 300), oct(os.stat(path).st_mode)
                os.chmod(path, mode)
                yield os.ftruncate(fd, 200), write_often(fd)
                os.chmod(path, mode)
                yield (
                    os.fsync(fd),
                    oct(os.stat(path).st_mode),
                    os.lseek(fd, 0, 2),
                    os.write(fd, b"y"),
                    oct(os.stat(path).st_mode),
                )

    yield in_child(lambda: list(by_nobody()), uid=NOBODY)
    os.chmod(path, 0o6755)
    with opened(path) as fd:
        yield write_often(fd)
        yield in_child(lambda: write_often(fd), uid=NOBODY), write_often(fd)
        os.chmod(path, 0o6755)
        yield in_child(lambda: (drop_fsetid(), write_often(fd))), write_often(fd)


@story
def set_id_bits_of_root_without_the_right_to_keep_them(top):
    path = top / "program"
    path.write_bytes(b"x" * 10_000)

    def change(call):
        drop_fsetid()
        with opened(path) as fd:
            return error_of(call, fd)

    for call in (
        lambda fd: os.pwrite(fd, b"y", 0),
        lambda fd: os.ftruncate(fd, 9_000),
        lambda fd: fallocate(fd, 0, 0, 20_000),
        lambda fd: fallocate(fd, PUNCH_HOLE | KEEP_SIZE, 0, 4096),
        lambda fd: os.copy_file_range(fd, fd, 100, 0, 5000),
        lambda fd: os.close(os.open(path, os.O_WRONLY | os.O_TRUNC)),
    ):
        for mode, group in (
            (0o6755, 0),
            (0o2745, 0),
            (0o2767, 0),
            (0o2767, NOBODY),
            (0o2755, NOBODY),
            (0o755, 0),
        ):
            os.chown(path, 0, group)
            os.chmod(path, mode)
            yield in_child(lambda: change(call)), oct(os.stat(path).st_mode)


@story
def permissions(top):
    os.chmod(top, 0o777)
    for mode in (0o000, 0o400, 0o200, 0o100, 0o600, 0o755, 0o040, 0o004):
        path, directory = top / f"f{mode:o}", top / f"d{mode:o}"
        path.write_bytes(b"x")
        directory.mkdir()
        (directory / "in").write_bytes(b"x")
        for owner in (NOBODY, 1234):
            os.chmod(path, 0o644)
            os.chmod(directory, 0o755)
            os.chown(path, owner, owner)
            os.chown(directory, owner, owner)
            os.chmod(path, mode)
            os.chmod(directory, mode)

            def look():
                return (
                    [
                        error_of(lambda: os.close(os.open(path, flags)))
                        for flags in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_RDONLY | os.O_TRUNC)
                    ]
                    + [
                        error_of(os.listdir, directory),
                        error_of(os.stat, directory / "in"),
                        try_open(directory / "new", os.O_CREAT | os.O_RDWR),
                        error_of(os.unlink, directory / "none"),
                        error_of(os.rename, directory / "in", directory / "in"),
                        error_of(os.chdir, directory),
                    ]
                    + [
                        os.access(p, how)
                        for p in (path, directory)
                        for how in (os.R_OK, os.W_OK, os.X_OK)
                    ]
                    + [error_of(os.truncate, path, 0)]
                )

            yield oct(mode), owner, in_child(look, uid=NOBODY)


def random_step(rng, top):
    """One call of somebody, on one or two of a few names."""
    names = ["a", "b", "c", "d", "d/a", "d/b", "e", "e/a", "e/d", "e/d/x"]
    one, two = top / rng.choice(names), top / rng.choice(names)
    mode, who = (
        rng.choice([0o600, 0o644, 0o755, 0o777, 0o1777, 0o2775, 0o4755, 0o6711, 0o040]),
        rng.choice([-1, 0, 1001, 1002]),
    )
    group = rng.choice([-1, 0, 1001, 2000])
    ns = rng.randrange(1 << 60), rng.randrange(1 << 60)
    data = bytes([rng.randrange(256)]) * rng.choice([0, 1, 5000, 70_000])
    at = rng.choice([0, 4096, 100_000])
    calls = {
        "write": lambda: write_at(one, at, data, os.O_RDWR | os.O_CREAT),
        "overwrite": lambda: one.write_bytes(data),
        "append": lambda: write_at(one, 0, data, os.O_WRONLY | os.O_APPEND),
        "truncate": lambda: os.truncate(one, at),
        "exclusive": lambda: os.close(os.open(one, os.O_CREAT | os.O_EXCL | os.O_RDWR, mode)),
        "mkdir": lambda: os.mkdir(one, mode),
        "rmdir": lambda: os.rmdir(one),
        "unlink": lambda: os.unlink(one),
        "rename": lambda: os.rename(one, two),
        "exchange": lambda: renameat2(one, two, RENAME_EXCHANGE),
        "noreplace": lambda: renameat2(one, two, RENAME_NOREPLACE),
        "link": lambda: os.link(one, two, follow_symlinks=False),
        "symlink": lambda: os.symlink("a", one),
        "fifo": lambda: os.mkfifo(one, mode),
        "chmod": lambda: os.chmod(one, mode),
        "chown": lambda: os.chown(one, who, group),
        "lchown": lambda: os.lchown(one, who, group),
        "utime": lambda: os.utime(one, ns=ns),
        "touch": lambda: os.utime(one),
        "setxattr": lambda: os.setxattr(one, "user.x", data[:100]),
        "getxattr": lambda: os.getxattr(one, "user.x"),
        "removexattr": lambda: os.removexattr(one, "user.x"),
        "list": lambda: sorted(os.listdir(one)),
        "read": lambda: one.read_bytes()[:10],
        "stat": lambda: attributes(one),
        "access": lambda: [os.access(one, how) for how in (4, 2, 1)],
        "copy": lambda: os.close(os.open(one, os.O_RDONLY)),
    }
    what = rng.choice(sorted(calls))
    try:
        if (
            what in ("read", "overwrite", "write", "append", "copy")
            and os.path.exists(one)
            and stat.S_ISFIFO(os.stat(one).st_mode)
        ):
            return "fifo", None  # would wait
        return what, str(one.relative_to(top)), str(two.relative_to(top)), calls[what]()
    except OSError as error:
        return (
            what,
            str(one.relative_to(top)),
            str(two.relative_to(top)),
            errno.errorcode[error.errno],
        )


@story
def anybody_does_anything(top):
    """Users and a group, names and modes drawn at random. CFRAMEFS_SEED draws others."""
    rng = random.Random(f"{os.environ.get('CFRAMEFS_SEED') or 1}")
    os.chmod(top, 0o777)

    def row(seed, mask):
        os.umask(mask)
        mine = random.Random(seed)
        return [random_step(mine, top) for _ in range(15)]

    for number in range(30):
        uid, groups, mask = (
            rng.choice([0, 1001, 1001, 1002]),
            rng.choice([(), (2000,)]),
            rng.choice([0, 0o022, 0o077]),
        )
        yield number, uid, in_child(lambda: row(number, mask), uid=uid, groups=groups)
        yield {str(p.relative_to(top)): attributes(p) for p in sorted(top.rglob("*"))}


@pytest.mark.parametrize("play", story, ids=lambda f: f.__name__)
def test_same(mount, plain, root, play):
    m = mount("allow_other")
    if play is set_id_bits_of_root_without_the_right_to_keep_them:
        m.need_custom_io()  # else the kernel keeps the bit where the group may not run the file
    assert_same_story(play, plain, m)
