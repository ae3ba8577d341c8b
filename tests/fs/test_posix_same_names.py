"""Stories of names played on a plain directory and on the mount: paths, directories, links, renames
and special files."""

import contextlib
import os
import stat

import pytest

from libposix import (
    NOBODY,
    RENAME_EXCHANGE,
    RENAME_NOREPLACE,
    Dir,
    error_of,
    handle_of,
    in_child,
    link_descriptor,
    open_handle,
    renameat2,
)
from libstory import Stories, assert_same_story, attributes, listing, opened, try_open

story = Stories()


@story
def errors_of_paths(top):
    (top / "f").write_bytes(b"x")
    (top / "d").mkdir()
    os.symlink("loop", top / "loop")
    os.symlink("nowhere", top / "dangling")
    for name in (
        "f/x",
        "f/",
        "nothing/x",
        "loop",
        "loop/x",
        "dangling",
        "d/",
        "",
        "n" * 247,
        "n" * 256,
        "d/../f",
        "f/..",
    ):
        path = f"{top}/{name}"
        yield (
            name[:20],
            len(name),
            error_of(os.stat, path),
            error_of(os.lstat, path),
            try_open(path, os.O_RDONLY),
        )
        yield error_of(os.rmdir, path) if "d" not in name and name else None
    for flags in (
        os.O_CREAT | os.O_EXCL,
        os.O_DIRECTORY,
        os.O_NOFOLLOW,
        os.O_CREAT | os.O_DIRECTORY,
        os.O_WRONLY,
        os.O_TRUNC | os.O_WRONLY,
        os.O_PATH,
    ):
        for name in ("f", "d", "dangling", "loop"):
            if flags & os.O_CREAT and name == "dangling" and not flags & os.O_EXCL:
                continue
            yield flags, name, error_of(lambda: os.close(os.open(top / name, flags, 0o600)))
    yield try_open(top / "d" / "x" / "y", os.O_CREAT | os.O_RDWR)
    yield listing(top)


@story
def creating(top):
    old = os.umask(0o027)
    try:
        for mode in (0o666, 0o777, 0o6755, 0o1666, 0):
            with opened(top / f"file{mode:o}", os.O_CREAT | os.O_RDWR | os.O_EXCL, mode) as fd:
                os.write(fd, b"writes whatever its mode")
            os.mkdir(top / f"dir{mode:o}", mode)
            os.mkfifo(top / f"fifo{mode:o}", mode)
            os.mknod(top / f"node{mode:o}", stat.S_IFREG | mode)
    finally:
        os.umask(old)
    for name in os.listdir(top):
        if name.startswith("node"):
            assert (top / name).read_bytes() == b""
    return listing(top)


@story
def renames(top):
    def fresh(base):
        base.mkdir()
        (base / "f").touch()
        (base / "g").touch()
        os.link(base / "f", base / "f2")
        for name in ("empty", "full", "full/sub"):
            (base / name).mkdir()
        (base / "full/x").touch()
        os.symlink("f", base / "l")

    names = ["f", "f2", "g", "empty", "full", "full/sub", "full/x", "l", "none", "f/x"]
    for flags in (0, RENAME_NOREPLACE, RENAME_EXCHANGE, RENAME_NOREPLACE | RENAME_EXCHANGE, 64):
        some = names if not flags else names[:8:2] + names[8:] if flags < 3 else names[:2]
        for old in some:
            for new in some:
                base = top / f"{flags}-{some.index(old)}-{some.index(new)}"
                fresh(base)
                error = error_of(renameat2, f"{base}/{old}", f"{base}/{new}", flags)
                yield (
                    flags,
                    old,
                    new,
                    error,
                    {str(p.relative_to(base)): attributes(p) for p in sorted(base.rglob("*"))},
                )


@story
def links_and_symlinks(top):
    (top / "f").write_bytes(b"x")
    (top / "d").mkdir()
    os.symlink("f", top / "l")
    os.mkfifo(top / "p")
    for source in ("f", "d", "l", "p", "none"):
        for target in ("new", "f", "d", "none/x"):
            yield (
                source,
                target,
                error_of(os.link, top / source, top / target, follow_symlinks=False),
                listing(top),
            )
            with contextlib.suppress(FileNotFoundError):
                os.unlink(top / "new")
    for length in (1, 255, 1000, 4095):
        os.symlink("x" * length, top / "long")
        yield os.lstat(top / "long").st_size, len(os.readlink(top / "long"))
        os.unlink(top / "long")
    yield (
        error_of(os.symlink, "x" * 4096, top / "long"),
        error_of(os.symlink, "", top / "long"),
        error_of(os.readlink, top / "f"),
    )
    yield (
        error_of(os.symlink, "x", top / "f"),
        error_of(os.unlink, top / "d"),
        error_of(os.rmdir, top / "f"),
    )
    many = 300
    for n in range(many):
        os.link(top / "f", top / f"f{n}")
    yield os.stat(top / "f").st_nlink
    for n in range(many):
        os.unlink(top / f"f{n}")
    yield os.stat(top / "f").st_nlink


@story
def unlinked_but_open(top):
    with opened(top / "f") as fd:
        os.write(fd, b"12345")
        os.unlink(top / "f")
        yield os.fstat(fd).st_nlink, os.fstat(fd).st_size, error_of(os.stat, top / "f")
        os.pwrite(fd, b"abc", 100_000)
        os.ftruncate(fd, 100_002)
        os.fchmod(fd, 0o604)
        os.fchown(fd, 7, 8)
        os.utime(fd, ns=(5, 6))
        got = os.fstat(fd)
        yield oct(got.st_mode), got.st_uid, got.st_gid, got.st_mtime_ns, got.st_size
        yield os.pread(fd, 5, 0), os.pread(fd, 100, 99_999)
        with opened(f"/proc/self/fd/{fd}", os.O_RDONLY) as again:
            yield os.pread(again, 5, 0), os.fstat(again).st_nlink
        (top / "f").write_bytes(b"another")
        yield os.pread(fd, 5, 0), (top / "f").read_bytes()
        os.setxattr(fd, "user.x", b"y")
        yield os.getxattr(fd, "user.x")
        yield error_of(link_descriptor, fd, top / "g")
    with opened(top / "d1", os.O_RDONLY) if (top / "d1").mkdir() else contextlib.nullcontext():
        pass
    fd = os.open(top / "d1", os.O_RDONLY)
    os.rmdir(top / "d1")
    yield (
        os.listdir(fd),
        os.fstat(fd).st_nlink,
        error_of(lambda: os.open("x", os.O_CREAT | os.O_RDWR, dir_fd=fd)),
    )
    os.close(fd)


@story
def handles_of_files_that_are_gone(top):
    """New inodes get the memory of old ones, but are not opened by their handles."""
    with opened(top, os.O_RDONLY) as directory:
        (top / "here").write_bytes(b"here")
        with contextlib.closing(open(open_handle(directory, handle_of(top / "here")))) as file:
            yield file.read()
        old = []
        for n in range(20):
            (top / f"old{n}").write_bytes(b"old")
            old.append(handle_of(top / f"old{n}"))
            os.unlink(top / f"old{n}")
        for n in range(200):
            (top / f"new{n}").write_bytes(b"new")
        yield {error_of(lambda h=h: os.close(open_handle(directory, h))) for h in old}


@story
def reading_directories(top):
    for n in range(500):
        (top / f"f{n}").touch()
    os.symlink("f1", top / "link")
    (top / "dir").mkdir()
    os.mkfifo(top / "fifo")
    d = Dir(top)
    types = dict(iter(d.read, None))
    yield sorted(types.items())
    d.rewind()
    first = [d.read()[0] for _ in range(200)]
    place = d.tell()
    next_name = d.read()
    for name in first[::2]:  # entries before and behind that place come and go
        if name not in (".", "..", "dir"):
            os.unlink(top / name)
    for n in range(100):
        (top / f"new{n}").touch()
    rest = d.names()
    d.seek(place)
    again = d.names()
    yield (
        again[:1] == [next_name[0]],
        [n for n in rest if not n.startswith("new")]
        == [n for n in again[1:] if not n.startswith("new")],
    )
    yield not set(first) & set(again), len(rest) == len(set(rest))
    d.close()
    yield sorted(os.listdir(top)) == sorted(e.name for e in os.scandir(top))
    yield os.stat(top).st_nlink, os.stat(top / "dir").st_nlink
    with os.scandir(top) as entries:
        yield all(e.inode() == e.stat(follow_symlinks=False).st_ino for e in entries)


@story
def descriptors_of_directories(top):
    fd = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
    yield (
        error_of(os.read, fd, 10),
        error_of(os.write, fd, b"x"),
        error_of(os.pread, fd, 1, 0),
        error_of(os.ftruncate, fd, 0),
        error_of(os.fsync, fd),
    )
    os.mkdir("d", dir_fd=fd)
    os.close(os.open("d/f", os.O_CREAT | os.O_RDWR, dir_fd=fd))
    os.rename("d/f", "g", src_dir_fd=fd, dst_dir_fd=fd)
    yield (
        sorted(os.listdir(fd)),
        try_open("g/x", os.O_RDONLY, dir_fd=fd),
        try_open(top, os.O_WRONLY),
        try_open(top, os.O_RDWR),
    )
    os.close(fd)


@story
def special_files(top):
    os.mkfifo(top / "p", 0o640)
    os.mknod(top / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    os.mknod(top / "b", stat.S_IFBLK | 0o600, os.makedev(7, 200))
    os.mknod(top / "s", stat.S_IFSOCK | 0o600)
    yield listing(top)
    yield try_open(top / "p", os.O_WRONLY | os.O_NONBLOCK), try_open(top / "s", os.O_RDONLY)
    os.chmod(top / "p", 0o600)
    os.rename(top / "p", top / "q")
    os.link(top / "q", top / "r")
    os.utime(top / "s", ns=(1, 2))
    yield listing(top), os.stat(top / "s").st_mtime_ns
    yield in_child(
        lambda: error_of(os.mknod, top / "x", stat.S_IFCHR | 0o666, os.makedev(1, 3)), uid=NOBODY
    )


@pytest.mark.parametrize("play", story, ids=lambda f: f.__name__)
def test_same(mount, plain, root, play):
    m = mount("allow_other,suid,dev" if play is special_files else "allow_other")
    assert_same_story(play, plain, m)
