"""POSIX ACLs: kept on the backing files, inherited, judged by the kernel. A
plain directory beside the mount is the oracle."""

import errno
import os
import random
import subprocess
import time

import pytest

from libposix import NOBODY, error_of, in_child

SEED = int(os.environ.get("CFRAMEFS_SEED") or 1)
ALICE, BOB, STAFF = 54321, 54322, 54330


def setfacl(*arguments):
    got = subprocess.run(["setfacl", *map(str, arguments)], capture_output=True, text=True)
    return got.returncode


def getfacl(path):
    got = subprocess.run(["getfacl", "-cpnE", str(path)], capture_output=True, text=True)
    return got.returncode, got.stdout


@pytest.fixture
def sides(mount, plain, tool, root):
    """The plain directory and the mount, both open to everybody."""
    tool("setfacl")
    if setfacl("-m", f"u:{ALICE}:r", plain) or setfacl("-b", plain):
        pytest.skip("the directory for temporary files has no ACLs")
    m = mount("allow_other")
    for top in (plain, m.backing):
        os.chmod(top, 0o777)
    os.chmod(m.mnt, 0o777)
    return plain, m.mnt, m


def acl(path, which):
    """The bytes of an ACL as the kernel hands them out, or the error."""
    try:
        return os.getxattr(path, f"system.posix_acl_{which}", follow_symlinks=False)
    except OSError as error:
        return error.errno


def look(top):
    """Modes, owners and ACLs of everything below."""
    return {
        str(p.relative_to(top)): (
            oct(p.lstat().st_mode),
            p.lstat().st_uid,
            p.lstat().st_gid,
            acl(p, "access"),
            acl(p, "default"),
        )
        for p in sorted(top.rglob("*"))
    }


def make(top, name, kind, umask, mode=0o666):
    old = os.umask(umask)
    try:
        if kind == "dir":
            os.mkdir(top / name, mode | 0o111)
        elif kind == "fifo":
            os.mkfifo(top / name, mode)
        else:
            os.close(os.open(top / name, os.O_CREAT | os.O_EXCL | os.O_RDWR, mode))
    finally:
        os.umask(old)


def test_set_and_shown(sides):
    plain, mnt, m = sides
    for top in (plain, mnt):
        make(top, "f", "file", 0o022)
        make(top, "d", "dir", 0o022)
        assert setfacl("-m", f"u:{ALICE}:rw,g:{STAFF}:x", top / "f") == 0
        assert setfacl("-m", f"u:{ALICE}:rwx,d:u:{BOB}:r,d:o::-", top / "d") == 0
    assert look(mnt) == look(plain)
    assert "user:54321:rw-" in getfacl(mnt / "f")[1]
    assert getfacl(m.stored("f")) == getfacl(plain / "f")
    m.remount()
    assert look(mnt) == look(plain)
    for top in (plain, mnt):
        os.chmod(top / "f", 0o640)
    assert look(mnt) == look(plain)
    for top in (plain, mnt):
        assert setfacl("-b", top / "f", top / "d") == 0
    assert look(mnt) == look(plain)


@pytest.mark.parametrize("umask", [0, 0o022, 0o077])
def test_the_default_acl_takes_the_place_of_the_umask(sides, umask):
    plain, mnt, _ = sides
    for top in (plain, mnt):
        make(top, "with", "dir", 0)
        make(top, "without", "dir", 0)
        assert setfacl("-m", f"d:u:{ALICE}:rwx,d:g::rx,d:o::-", top / "with") == 0
        for where in ("with", "without"):
            for kind in ("file", "dir", "fifo"):
                make(top, f"{where}/{kind}", kind, umask)
        make(top, "with/narrow", "file", umask, 0o600)
        make(top, "with/dir/below", "file", umask)
    assert look(mnt) == look(plain)


def tries(path):
    """What a user may do with a file."""

    def opened(flags):
        return error_of(lambda: os.close(os.open(path, flags)))

    return (
        opened(os.O_RDONLY),
        opened(os.O_WRONLY),
        opened(os.O_RDWR),
        error_of(os.stat, path),
        [os.access(path, how) for how in (os.R_OK, os.W_OK, os.X_OK)],
    )


PEOPLE = [
    (ALICE, ALICE, ()),
    (BOB, BOB, ()),
    (BOB, BOB, (STAFF,)),
    (NOBODY, NOBODY, ()),
    (ALICE, STAFF, (BOB,)),
    (0, 0, ()),
]


def test_who_may_do_what(sides):
    plain, mnt, _ = sides
    rng = random.Random(SEED)
    for number in range(6):
        entries = [
            f"{kind}:{who}:{''.join(c for c in 'rwx' if rng.random() < 0.5) or '-'}"
            for kind, who in rng.sample(
                [("u", ALICE), ("u", BOB), ("g", STAFF), ("g", BOB), ("m", "")], rng.randrange(1, 5)
            )
        ]
        mode, owner, group = (
            rng.randrange(0o1000),
            rng.choice([0, ALICE]),
            rng.choice([0, STAFF, BOB]),
        )
        for top in (plain, mnt):
            for name, kind in ((f"f{number}", "file"), (f"d{number}", "dir")):
                make(top, name, kind, 0)
                os.chown(top / name, owner, group)
                os.chmod(top / name, mode)
                assert setfacl("-m", ",".join(entries), top / name) == 0
            make(top, f"d{number}/in", "file", 0)
            os.chmod(top / f"d{number}/in", 0o666)
        assert look(mnt) == look(plain)
        for uid, gid, groups in PEOPLE:
            for name in (f"f{number}", f"d{number}/in"):
                theirs, ours = (
                    in_child(lambda: tries(top / name), uid=uid, gid=gid, groups=groups)
                    for top in (plain, mnt)
                )
                assert ours == theirs, (entries, oct(mode), owner, group, uid, gid, groups, name)
            theirs, ours = (
                in_child(
                    lambda: error_of(
                        make, top, f"d{number}/by{uid}-{gid}-{len(groups)}", "file", 0o027
                    ),
                    uid=uid,
                    gid=gid,
                    groups=groups,
                )
                for top in (plain, mnt)
            )
            assert ours == theirs, (entries, oct(mode), owner, group, uid, gid, groups)
        assert look(mnt) == look(plain)


def test_only_the_owner_sets_them(sides):
    plain, mnt, _ = sides
    for top in (plain, mnt):
        make(top, "f", "file", 0)
        os.chown(top / "f", ALICE, ALICE)
        assert in_child(lambda: setfacl("-m", f"u:{BOB}:rw", top / "f"), uid=BOB) != 0
        assert in_child(lambda: setfacl("-m", f"u:{BOB}:r", top / "f"), uid=ALICE) == 0
    assert look(mnt) == look(plain)


def test_the_setgid_bit_of_a_foreign_group_goes(sides):
    plain, mnt, _ = sides
    cases = [("file", ()), ("dir", ()), ("dir", ("-d",))]
    for kind, flags in cases:
        for groups in ((), (STAFF,)):
            for top in (plain, mnt):
                name = top / f"{kind}{len(flags)}{len(groups)}"
                make(top, name, kind, 0)
                os.chown(name, ALICE, STAFF)
                os.chmod(name, 0o2755)
                command = (*flags, "-m", f"u:{BOB}:rw", name)
                assert in_child(lambda c=command: setfacl(*c), uid=ALICE, groups=groups) == 0
            assert look(mnt) == look(plain)
    kept = [name for name in sorted(os.listdir(mnt)) if os.stat(mnt / name).st_mode & 0o2000]
    assert kept == ["dir01", "dir10", "dir11", "file01"]


def test_cp_and_tar_take_them_along(sides, tool):
    _, mnt, _ = sides
    make(mnt, "f", "file", 0o022)
    assert setfacl("-m", f"u:{ALICE}:rw,g:{STAFF}:r", mnt / "f") == 0
    subprocess.run([tool("cp"), "-a", mnt / "f", mnt / "g"], check=True)
    assert getfacl(mnt / "g") == getfacl(mnt / "f")
    os.rename(mnt / "g", mnt / "h")
    assert getfacl(mnt / "h") == getfacl(mnt / "f")


def test_one_that_comes_after_the_listing_is_seen(sides):
    """That a file has none is known from looking it up, until its ctime changes."""
    _, mnt, m = sides
    for name in "ab":
        (mnt / name).write_bytes(bytes(range(250)) * 20)
    time.sleep(0.2)
    m.remount()
    assert {entry.name: entry.stat().st_size for entry in os.scandir(mnt)} == {"a": 5000, "b": 5000}
    assert setfacl("-m", f"u:{ALICE}:r", m.stored("a")) == 0
    assert isinstance(acl(mnt / "a", "access"), bytes)
    assert acl(mnt / "b", "access") == errno.ENODATA


def test_a_backing_directory_without_acls(mount, root):
    """No ACL is not an error: the kernel asks for them before it lets anybody in."""
    m = mount("allow_other", start=False)
    subprocess.run(["mount", "-t", "ramfs", "none", m.backing], check=True)
    try:
        os.chmod(m.backing, 0o755)
        m.start()
        (m.mnt / "d").mkdir()
        (m.mnt / "d/f").write_bytes(b"x")
        os.chmod(m.mnt / "d", 0o775)
        assert in_child(lambda: (m.mnt / "d/f").read_bytes(), uid=ALICE) == b"x"
        assert setfacl("-m", f"u:{ALICE}:rw", m.mnt / "d/f") != 0
        m.unmount()
    finally:
        if m.running():
            m.kill()
        subprocess.run(["umount", m.backing], check=True)


@pytest.mark.parametrize("staff", [False, True])
def test_the_groups_of_a_caller_in_very_many(sides, staff):
    """As many as a user namespace lets anybody have whom /etc/subgid names."""
    plain, mnt, _ = sides
    groups = [*range(70_000, 72_000), *([STAFF] if staff else [])]
    for top in (plain, mnt):
        make(top, "f", "file", 0)
        os.chown(top / "f", ALICE, STAFF)
        os.chmod(top / "f", 0o2755)
        command = ("-m", f"u:{BOB}:rw", top / "f")
        assert in_child(lambda c=command: setfacl(*c), uid=ALICE, groups=groups) == 0
    assert look(mnt) == look(plain)
    assert bool(os.stat(mnt / "f").st_mode & 0o2000) == staff
