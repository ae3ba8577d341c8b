"""Ordinary programs on the mount; what they leave equals what they leave in a plain directory."""

import os
import random
import sqlite3
import subprocess
from contextlib import closing

import pytest

from libdata import KINDS, blob, tree_digest
from libmount import SLOWNESS
from libprogram import run
from libtree import small_disk


def sample_tree(top):
    """A small tree with files of all kinds, links, modes and times."""
    rng = random.Random(7)
    for i, folder in enumerate(["a", "a/b", "a/b/c", "d e"]):
        (top / folder).mkdir(parents=True)
        for kind in KINDS:
            path = top / folder / f"{kind}.{i}"
            path.write_bytes(blob(i, rng.choice([0, 1, 4095, 70_000, 1_300_001]), kind))
            path.chmod(rng.choice([0o600, 0o644, 0o755]))
            os.utime(path, ns=(10**18 + i, 10**18 + rng.randrange(10**9)))
    os.symlink("zeros.0", top / "a" / "link")
    os.utime(top / "a" / "link", ns=(10**18, 10**18 + 5), follow_symlinks=False)
    os.link(top / "a" / "text.0", top / "a" / "hard")
    os.setxattr(top / "a" / "text.0", "user.note", b"kept by cp -a and rsync -X")
    for folder in ("a/b/c", "a/b", "a", "d e"):
        os.utime(top / folder, ns=(10**18, 10**18 + 77))
    return top


def full(top):
    """tree_digest with what archivers keep besides: times, links, attributes."""
    extra = {
        str(p.relative_to(top)): (
            p.lstat().st_mtime_ns,
            p.lstat().st_nlink,
            {
                k: os.getxattr(p, k)
                for k in os.listxattr(p, follow_symlinks=False)
                if k == "user.note"
            },
        )
        for p in top.rglob("*")
    }
    return tree_digest(top), extra


@pytest.mark.parametrize("program", ["cp", "rsync", "tar"])
def test_archivers(mount, plain, tool, program):
    m = mount()
    source = sample_tree(plain / "source")
    copies = {
        "cp": lambda a, b: run("cp", "-a", a, b),
        "rsync": lambda a, b: run("rsync", "-aHX", f"{a}/", f"{b}/"),
        "tar": lambda a, b: (
            b.mkdir(),
            run("sh", "-c", 'tar -C "$0" --xattrs -cf - . | tar -C "$1" --xattrs -xf -', a, b),
        ),
    }
    tool(program)
    copies[program](source, m.mnt / "in")
    assert full(m.mnt / "in") == full(source)
    m.remount()
    assert full(m.mnt / "in") == full(source)
    copies[program](m.mnt / "in", plain / "out")
    assert full(plain / "out") == full(source)
    if program == "rsync":
        assert run("rsync", "-aHXni", f"{source}/", f"{m.mnt / 'in'}/") == "", (
            "a second run finds nothing to do"
        )
        with open(source / "a" / "b" / "text.1", "ab") as f:
            f.write(b"appended")
        run("rsync", "-aHX", "--inplace", "--no-whole-file", f"{source}/", f"{m.mnt / 'in'}/")
        assert full(m.mnt / "in") == full(source)


def test_tar_takes_no_sparse_frame_for_a_hole(mount, tool, blosc2, root):
    """tar -S does not read a file that has no blocks, as directories have none on many disks."""
    m = mount(start=False)
    data = blob(5, 300_000, "text")
    with small_disk(m.backing / "disk"):
        path = m.backing / "disk/x.b2frame"
        blosc2.SChunk(chunksize=100_000, contiguous=False, urlpath=str(path), mode="w", data=data)
        assert path.stat().st_blocks == 0
        m.start()
        try:
            tar = [tool("tar"), "-C", m.mnt / "disk"]
            made = subprocess.run([*tar, "-Scf", "-", "x"], check=True, capture_output=True).stdout
            back = [*tar, "-xOf", "-"]
            got = subprocess.run(back, check=True, capture_output=True, input=made).stdout
            assert got == data
        finally:
            m.unmount()


def test_git(mount, plain, tool, monkeypatch):
    tool("git")
    m = mount()
    for variable in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{variable}_NAME", "test")
        monkeypatch.setenv(f"GIT_{variable}_EMAIL", "test@example.org")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    origin = sample_tree(plain / "origin")
    run("git", "init", "-q", "-b", "main", origin)
    for i in range(5):
        (origin / f"file{i}").write_bytes(blob(i, 30_000, "text"))
        run("git", "-C", origin, "add", ".")
        run("git", "-C", origin, "commit", "-q", "-m", f"commit {i}")
    run("git", "clone", "-q", "--no-hardlinks", origin, m.mnt / "clone")
    run("git", "-C", m.mnt / "clone", "fsck", "--full", "--strict")
    assert run("git", "-C", m.mnt / "clone", "status", "--porcelain") == ""
    (m.mnt / "clone" / "file0").write_text("changed")
    run("git", "-C", m.mnt / "clone", "commit", "-qam", "in the mount")
    run("git", "-C", m.mnt / "clone", "gc", "-q")
    m.remount()
    run("git", "-C", m.mnt / "clone", "fsck", "--full", "--strict")
    assert run("git", "-C", m.mnt / "clone", "status", "--porcelain") == ""
    run("git", "clone", "-q", m.mnt / "clone", plain / "back")
    assert (plain / "back" / "file0").read_text() == "changed"


def database_story(path, journal):
    """Inserts, updates, a rollback, a vacuum; returns the dump."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        assert db.execute(f"pragma journal_mode={journal}").fetchone() == (journal,)
        db.execute(
            "pragma cache_size=20"
        )  # so that pages go to the file in the middle of a transaction
        db.execute("create table t (id integer primary key, body blob)")
        for batch in range(8):
            db.execute("begin")
            for i in range(150):
                db.execute(
                    "insert into t (body) values (?)",
                    (blob(batch * 1000 + i, 40 * i % 3000 + 1, "text"),),
                )
            db.execute("update t set body = ? where id % 7 = ?", (b"updated", batch % 7))
            db.execute("rollback" if batch % 3 == 2 else "commit")
            db.execute("delete from t where id % 11 = ?", (batch,))
        db.execute("vacuum")
        assert db.execute("pragma integrity_check").fetchone() == ("ok",)
        return "\n".join(db.iterdump())


@pytest.mark.parametrize("journal", ["wal", "delete", "truncate", "persist"])
def test_sqlite(mount, plain, journal):
    m = mount()
    dump = database_story(m.mnt / "db", journal)
    assert dump == database_story(plain / "db", journal)
    m.remount()
    with closing(sqlite3.connect(m.mnt / "db")) as db:
        assert db.execute("pragma integrity_check").fetchone() == ("ok",)
        assert "\n".join(db.iterdump()) == dump


@pytest.mark.concurrent
def test_sqlite_of_two_processes(mount):
    """WAL shares memory between processes: mmap and POSIX locks of the mount are put to work."""
    m = mount()
    path = m.mnt / "db"
    with closing(sqlite3.connect(path)) as db:
        db.execute("pragma journal_mode=wal")
        db.execute("create table t (who text, n integer)")
    script = (
        "import sqlite3, sys\n"
        "db = sqlite3.connect(sys.argv[1], timeout=200, isolation_level=None)\n"
        "for n in range(200):\n"
        "    db.execute('insert into t values (?, ?)', (sys.argv[2], n))\n"
    )
    writers = [subprocess.Popen(["python3", "-c", script, path, who]) for who in "abc"]
    assert [w.wait(250) for w in writers] == [0, 0, 0]
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("select count(*), count(distinct who || n) from t").fetchone() == (
            600,
            600,
        )
        assert db.execute("pragma integrity_check").fetchone() == ("ok",)


MAKEFILE = """\
OBJECTS = $(patsubst %.c,%.o,$(wildcard *.c))
program: libparts.a
\t$(CC) -o $@ -Wl,--whole-archive libparts.a -Wl,--no-whole-archive
libparts.a: $(OBJECTS)
\t$(AR) rcsD $@ $^
%.o: %.c parts.h
\t$(CC) -O1 -g -c -o $@ $<
"""


def c_project(top):
    top.mkdir()
    count = 20
    (top / "Makefile").write_text(MAKEFILE)
    (top / "parts.h").write_text("".join(f"int part{i}(void);\n" for i in range(count)))
    for i in range(count):
        (top / f"part{i}.c").write_text(
            f'#include "parts.h"\nint part{i}(void) {{ return {i}; }}\n'
        )
    calls = " + ".join(f"part{i}()" for i in range(count))
    (top / "main.c").write_text(
        f'#include <stdio.h>\n#include "parts.h"\nint main(void) {{ printf("%d\\n", {calls}); }}\n'
    )
    return top


def test_build_a_c_project(mount, plain, tool):
    """Linker and archiver write back and forth in their output; make trusts the times."""
    tool("make"), tool("cc")
    m = mount()
    tops = [c_project(plain / "p"), c_project(m.mnt / "p")]
    for top in tops:
        run("make", "-j4", cwd=top)
        assert run("./program", cwd=top) == "190\n"
        assert "up to date" in run("make", cwd=top)
    (tops[1] / "part3.c").write_text('#include "parts.h"\nint part3(void) { return 1003; }\n')
    assert "part3.c" in run("make", cwd=tops[1])
    assert run("./program", cwd=tops[1]) == "1190\n"
    m.remount()
    assert run("./program", cwd=tops[1]) == "1190\n" and "up to date" in run("make", cwd=tops[1])
    assert (tops[1] / "part4.c").read_bytes() == (tops[0] / "part4.c").read_bytes()


MEMORY, SIZE = ("4M", "12m") if SLOWNESS == 1 else ("1M", "3m")
FIO = [
    "--rw=randwrite",
    "--bs=4k,4k",
    f"--size={SIZE}",
    "--verify=crc32c",
    "--verify_fatal=1",
    "--do_verify=1",
    "--verify_dump=0",
    "--verify_state_save=0",
    "--buffer_compress_percentage=50",
    "--refill_buffers",
    "--randseed=7",
    "--minimal",
]


@pytest.mark.parametrize(
    "engine, more",
    [
        ("psync", ["--bsrange=512-70144", "--bs_unaligned"]),
        ("psync", ["--direct=1"]),
        ("mmap", []),
        ("mmap", ["--fsync=100"]),
        ("libaio", ["--iodepth=16", "--direct=1"]),
        ("libaio", ["--iodepth=8", "--numjobs=3", "--direct=1"]),
        ("psync", ["--fsync=64", "--numjobs=2"]),
    ],
    ids=lambda value: (
        value if isinstance(value, str) else "".join(value).replace("--", " ").strip() or "plain"
    ),
)
@pytest.mark.concurrent
def test_fio(mount, tool, engine, more):
    """fio writes blocks with a checksum at random places, and reads them all back.
    Newer ones put a checksum at each common divisor of the shortest and the longest."""
    m = mount(f"codec=lz4,chunksize=256K,blocksize=16K,dirty_max={MEMORY},cache={MEMORY}")
    run(
        tool("fio"),
        f"--name={engine}",
        f"--directory={m.mnt}",
        f"--ioengine={engine}",
        *FIO,
        *more,
        cwd=m.work,
    )
    m.remount()
    run(
        tool("fio"),
        f"--name={engine}",
        f"--directory={m.mnt}",
        f"--ioengine={engine}",
        *FIO,
        *more,
        "--verify_only",
        cwd=m.work,
    )


def test_editors_and_small_tools(mount, plain):
    """sed -i, dd with seek and notrunc, truncate, split, sort -o on the file
    itself, install, patch by rename."""
    m = mount()
    script = """set -e
cp "$1" t; sed -i 's/frame/FRAME/g' t; sort -o t t
split -b 50000 -d t part.; cat part.* > joined; cmp t joined
dd if=joined of=t bs=1000 count=5 seek=40 conv=notrunc status=none
truncate -s -123 t; truncate -s 5G big; truncate -s 4096 big
install -m 0751 joined installed; cp --sparse=always big sparse
dd if=t of=direct bs=4096 oflag=direct conv=fsync status=none
tail -c 1000 t > end; cat end >> t; tac t > reversed
gzip -k joined; gunzip -c joined.gz | cmp - joined; rm joined.gz; ln t t2; mv t2 t3
"""
    (plain / "source").write_bytes(blob(9, 400_000, "text").replace(b" the", b"\nthe"))
    (plain / "work").mkdir()
    (m.mnt / "work").mkdir()
    for top in (plain / "work", m.mnt / "work"):
        run("sh", "-c", script, "sh", plain / "source", cwd=top)
    assert tree_digest(m.mnt / "work") == tree_digest(plain / "work")
    m.remount()
    assert tree_digest(m.mnt / "work") == tree_digest(plain / "work")
