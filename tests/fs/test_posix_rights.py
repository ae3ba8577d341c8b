"""Who may do what, what belongs to whom, and set-id bits."""

import mmap
import os
import shutil
import stat
from concurrent.futures import ThreadPoolExecutor

import pytest

from libposix import NOBODY, as_nobody, error_of, fallocate, write_at


@pytest.fixture
def shared(mount, root):
    """A mount for everyone, with a directory for everyone."""
    m = mount("allow_other")
    os.chmod(m.backing, 0o755)
    os.mkdir(m.mnt / "all")
    os.chmod(m.mnt / "all", 0o777)
    return m.mnt


def test_others_are_kept_out_without_allow_other(fs, file, root):
    assert error_of(as_nobody, lambda: os.stat(file)) == "EACCES"


def test_permissions_of_another_user(shared):
    secret = shared / "secret"
    secret.write_bytes(b"root's")
    secret.chmod(0o600)
    assert error_of(as_nobody, secret.read_bytes) == "EACCES"
    assert (
        error_of(as_nobody, lambda: os.open(shared / "new", os.O_CREAT | os.O_WRONLY)) == "EACCES"
    )
    assert error_of(as_nobody, lambda: os.mkdir(shared / "new")) == "EACCES"
    assert error_of(as_nobody, lambda: os.unlink(secret)) == "EACCES"
    secret.chmod(0o644)
    assert as_nobody(secret.read_bytes) == b"root's"
    assert error_of(as_nobody, lambda: os.open(secret, os.O_WRONLY)) == "EACCES"
    assert error_of(as_nobody, lambda: os.truncate(secret, 0)) == "EACCES"
    assert error_of(as_nobody, lambda: os.chmod(secret, 0o666)) == "EPERM"
    assert error_of(as_nobody, lambda: os.chown(secret, NOBODY, NOBODY)) == "EPERM"
    assert error_of(as_nobody, lambda: os.utime(secret, (1, 1))) == "EPERM"
    assert as_nobody(lambda: os.access(secret, os.R_OK)) is True
    assert as_nobody(lambda: os.access(secret, os.W_OK)) is False


def test_what_others_have_made_is_not_taken_for_new(mount, root):
    """The kernel still holds a name for free, and asks for a file to be made:
    it would open what has that name by now for anybody."""
    m = mount("allow_other,entry_timeout=60,attr_timeout=60")
    os.chmod(m.backing, 0o777)
    (m.mnt / "secret").write_bytes(b"root's")
    os.chmod(m.mnt / "secret", 0o600)
    for name in "ab":
        assert not (m.mnt / name).exists()
        shutil.copy2(m.stored("secret"), m.backing / f"{name}.b2frame")
    for flags in (os.O_RDWR, os.O_RDWR | os.O_TRUNC):
        assert error_of(as_nobody, lambda f=flags: os.open(m.mnt / "a", f | os.O_CREAT)) == "EACCES"
    assert (m.mnt / "a").read_bytes() == b"root's"
    (m.mnt / "b").write_bytes(b"new")
    assert (m.mnt / "b").read_bytes() == b"new"


def test_new_entries_belong_to_their_maker(shared):
    def make():
        os.umask(0o027)
        (shared / "all" / "f").write_bytes(b"mine")
        os.mkdir(shared / "all" / "d")
        os.symlink("f", shared / "all" / "l")
        os.mkfifo(shared / "all" / "p")

    as_nobody(make)
    for name in "fdlp":
        got = os.lstat(shared / "all" / name)
        assert (got.st_uid, got.st_gid) == (NOBODY, NOBODY), name
    assert stat.S_IMODE(os.stat(shared / "all" / "f").st_mode) == 0o640
    assert stat.S_IMODE(os.stat(shared / "all" / "d").st_mode) == 0o750


@pytest.mark.concurrent
def test_each_maker_has_its_own_umask(fs):
    """Also when many come at once, for whom the daemon starts threads from
    threads that served others."""

    def make(mask):
        os.umask(mask)
        for number in range(20):
            os.close(
                os.open(fs / f"{mask:03o}-{os.getpid()}-{number}", os.O_CREAT | os.O_WRONLY, 0o666)
            )

    for _ in range(4):
        children = []
        for mask in (0o077, 0o027, 0) * 4:
            pid = os.fork()
            if pid == 0:
                try:
                    make(mask)
                finally:
                    os._exit(0)
            children.append(pid)
        for pid in children:
            os.waitpid(pid, 0)
    wrong = [
        e.name
        for e in os.scandir(fs)
        if stat.S_IMODE(e.stat().st_mode) != 0o666 & ~int(e.name[:3], 8)
    ]
    assert len(os.listdir(fs)) == 4 * 12 * 20 and not wrong, wrong[:10]


def test_sticky_and_setgid_directories(shared):
    (shared / "all" / "roots").touch()
    os.chmod(shared / "all", 0o1777)
    assert error_of(as_nobody, lambda: os.unlink(shared / "all" / "roots")) in ("EPERM", "EACCES")
    os.mkdir(shared / "group")
    os.chown(shared / "group", 0, 777)
    os.chmod(shared / "group", 0o2777)
    as_nobody(lambda: (shared / "group" / "f").touch())
    assert os.stat(shared / "group" / "f").st_gid == 777


def test_supplementary_groups_count(shared):
    path = shared / "for-group"
    path.write_bytes(b"group")
    os.chown(path, 0, 4242)
    path.chmod(0o060)
    assert error_of(as_nobody, path.read_bytes) == "EACCES"
    assert as_nobody(path.read_bytes, groups=[4242]) == b"group"


def make_each_kind(directory):
    (directory / "file").write_bytes(b"group")
    os.mkdir(directory / "dir")
    os.symlink("file", directory / "link")
    os.mkfifo(directory / "fifo")


@pytest.mark.parametrize("mode, group", [(0o770, NOBODY), (0o2770, 4242)])
def test_who_may_create_by_a_supplementary_group_owns_it(shared, mode, group):
    directory = shared / "group"
    os.mkdir(directory)
    os.chown(directory, 0, 4242)
    os.chmod(directory, mode)
    assert error_of(as_nobody, lambda: make_each_kind(directory)) == "EACCES"
    as_nobody(lambda: make_each_kind(directory), groups=[4242])
    owners = {e.name: e.stat(follow_symlinks=False) for e in os.scandir(directory)}
    assert {n: (st.st_uid, st.st_gid) for n, st in owners.items()} == dict.fromkeys(
        ("file", "dir", "link", "fifo"), (NOBODY, group)
    )


def test_what_is_created_is_never_roots_for_an_instant(mount, root):
    """Whoever gives a file away by its name may give away another one, moved there meanwhile."""
    m = mount("allow_other")
    os.chmod(m.backing, 0o770)
    os.chown(m.backing, 0, 4242)

    def first_owner(name):
        while True:
            try:
                return os.lstat(m.backing / name).st_uid
            except FileNotFoundError:
                pass

    def make_many():
        for i in range(300):
            os.mkdir(m.mnt / f"{i}")
            (m.mnt / f"{i}-file").touch()

    with ThreadPoolExecutor(1) as pool:
        made = pool.submit(as_nobody, make_many, groups=[4242])
        names = [n for i in range(300) for n in (f"{i}", f"{i}-file.b2frame")]
        assert {first_owner(name) for name in names} == {NOBODY}
        made.result()


def test_set_id_bits_are_cleared_by_a_write(shared):
    def story(change):
        path = shared / "all" / "program"
        path.write_bytes(b"x" * 10_000)
        path.chmod(0o6755)
        assert stat.S_IMODE(path.stat().st_mode) == 0o6755
        change(path)
        mode = stat.S_IMODE(path.stat().st_mode)
        path.unlink()
        return mode

    assert as_nobody(lambda: story(lambda p: write_at(p, 5, b"y"))) == 0o755
    assert as_nobody(lambda: story(lambda p: os.truncate(p, 5))) == 0o755
    assert as_nobody(lambda: story(lambda p: os.chmod(p, 0o6755))) == 0o6755


def test_set_id_bits_stay_where_a_write_is_refused(mount, root):
    """For its place, which no frame has: nothing was written. (After a direct write the kernel cuts
    the file to its length, which removes them.)"""
    m = mount("allow_other")
    if "the kernel will ask before each write" in m.log_text():
        pytest.skip("this kernel, or this libfuse, removes them before it sends a write")
    os.chmod(m.backing, 0o755)
    path = m.mnt / "program"
    path.write_bytes(b"x" * 8192)
    os.chown(path, NOBODY, NOBODY)
    os.chmod(path, 0o6755)
    for at in 1 << 62, (1 << 63) - 8192, 1 << 45:
        assert as_nobody(lambda at=at: error_of(write_at, path, at, b"y")) == "EFBIG"
        assert stat.S_IMODE(path.stat().st_mode) == 0o6755

    def allocate():
        with open(path, "r+b") as f:
            return error_of(fallocate, f.fileno(), 0, 1 << 45, 1)

    assert as_nobody(allocate) == "EFBIG"
    assert stat.S_IMODE(path.stat().st_mode) == 0o6755
    as_nobody(lambda: write_at(path, 1, b"y"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o755


def test_direct_writes_clear_set_id_bits(mount, root):
    """They come to the daemon past the page cache, each with what the kernel
    knows of its caller."""
    m = mount("allow_other")
    os.chmod(m.backing, 0o755)
    path = m.mnt / "program"
    path.write_bytes(b"x" * 8192)
    os.chown(path, NOBODY, NOBODY)

    def write():
        fd = os.open(path, os.O_RDWR | os.O_DIRECT)
        with mmap.mmap(-1, 4096) as page:
            os.pwrite(fd, page, 4096)
        os.close(fd)

    for mode, left in ((0o6755, 0o755), (0o2745, 0o2745), (0o755, 0o755)):
        os.chmod(path, mode)
        write()
        assert stat.S_IMODE(path.stat().st_mode) == mode, "root may keep them"
        as_nobody(write)
        assert stat.S_IMODE(path.stat().st_mode) == left


def test_plain_files_lose_set_id_bits(mount, root):
    """A file of the backing directory that is no frame: the daemon, who is
    root, must not keep them for others."""
    m = mount("allow_other")
    os.chmod(m.backing, 0o755)
    (m.backing / "plain").write_bytes(b"x" * 1000)
    os.chown(m.backing / "plain", NOBODY, NOBODY)
    path = m.mnt / "plain"
    for change in (
        lambda: write_at(path, 5, b"y", os.O_RDWR),
        lambda: os.truncate(path, 700),
        lambda: os.close(os.open(path, os.O_WRONLY | os.O_TRUNC)),
    ):
        os.chmod(path, 0o6755)
        change()
        kept = stat.S_IMODE(path.stat().st_mode)
        as_nobody(change)
        assert stat.S_IMODE(path.stat().st_mode) == 0o755 and kept & stat.S_ISGID
