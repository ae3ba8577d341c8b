"""Names and directories: lookup, readdir, mkdir, rename, link, symlink, mknod;
result or errno of each call."""

import errno
import os
import shutil
import socket
import stat
import subprocess
import sys
import threading
import time

import pytest

from libdata import blob
from libmount import BUILD, umount
from libposix import (
    RENAME_EXCHANGE,
    RENAME_NOREPLACE,
    RENAME_WHITEOUT,
    Dir,
    error_of,
    link_descriptor,
    renameat2,
    write_at,
)

# ---- directories


def test_mkdir_and_rmdir(fs, file):
    os.mkdir(fs / "d", 0o777)
    assert stat.S_IMODE(os.stat(fs / "d").st_mode) == 0o755 and os.stat(fs / "d").st_nlink == 2
    os.mkdir(fs / "d" / "e")
    assert os.stat(fs / "d").st_nlink == 3
    assert error_of(os.mkdir, fs / "d") == "EEXIST"
    assert error_of(os.mkdir, file) == "EEXIST"
    assert error_of(os.mkdir, fs / "absent" / "d") == "ENOENT"
    assert error_of(os.mkdir, file / "d") == "ENOTDIR"
    assert error_of(os.rmdir, fs / "d") == "ENOTEMPTY"
    assert error_of(os.rmdir, file) == "ENOTDIR"
    assert error_of(os.rmdir, fs / "absent") == "ENOENT"
    assert error_of(os.unlink, fs / "d" / "e") == "EISDIR"
    os.rmdir(fs / "d" / "e")
    os.rmdir(fs / "d")
    assert error_of(os.stat, fs / "d") == "ENOENT"


def test_directory_not_empty_because_of_a_frame(fs):
    os.mkdir(fs / "d")
    (fs / "d" / "f").touch()
    assert error_of(os.rmdir, fs / "d") == "ENOTEMPTY"
    os.unlink(fs / "d" / "f")
    os.rmdir(fs / "d")


def test_directory_with_only_a_hidden_lock_can_be_removed(mount):
    m = mount()
    os.mkdir(m.mnt / "d")
    (m.backing / "d" / "x.b2frame.b2lock").write_bytes(bytes(16))
    assert os.listdir(m.mnt / "d") == []
    os.rmdir(m.mnt / "d")
    assert not (m.backing / "d").exists()


def test_readdir_of_thousands(fs):
    names = {f"entry-{i:05}" for i in range(3000)}
    for name in names:
        os.close(os.open(fs / name, os.O_CREAT | os.O_WRONLY))
    stream = Dir(fs)
    got = stream.names()
    assert len(got) == 3002 and set(got) == names | {".", ".."}
    stream.rewind()
    assert sorted(stream.names()) == sorted(got)
    stream.close()


def test_readdir_rewind_sees_changes_and_types(fs):
    (fs / "f").touch()
    os.mkdir(fs / "d")
    os.symlink("f", fs / "l")
    os.mkfifo(fs / "p")
    stream = Dir(fs)
    kinds = dict(iter(stream.read, None))
    assert kinds == {".": 4, "..": 4, "f": 8, "d": 4, "l": 10, "p": 1}
    (fs / "new").touch()
    os.unlink(fs / "f")
    stream.rewind()
    assert set(stream.names()) == {".", "..", "d", "l", "p", "new"}
    stream.close()


def test_seekdir_returns_to_a_place(fs):
    for i in range(500):
        (fs / f"e{i}").touch()
    stream = Dir(fs)
    for _ in range(250):
        stream.read()
    place = stream.tell()
    rest = stream.names()
    assert len(rest) == 252
    stream.seek(place)
    assert stream.names() == rest
    stream.close()


def test_unlink_while_reading_a_directory(fs):
    for i in range(1500):
        (fs / f"victim-{i}").touch()
    stream = Dir(fs)
    for name in iter(stream.read, None):
        if name[0].startswith("victim"):
            os.unlink(fs / name[0])
    stream.close()
    assert os.listdir(fs) == []


# ---- rename


def test_rename_replaces(fs, file):
    data = file.read_bytes()
    (fs / "target").write_bytes(b"old")
    held = os.open(fs / "target", os.O_RDONLY)
    os.rename(file, fs / "target")
    assert os.listdir(fs) == ["target"] and (fs / "target").read_bytes() == data
    assert os.pread(held, 10, 0) == b"old"
    os.close(held)


def test_rename_errors(fs, file):
    os.makedirs(fs / "d" / "sub")
    os.mkdir(fs / "empty")
    assert error_of(os.rename, fs / "absent", fs / "x") == "ENOENT"
    assert error_of(os.rename, file, fs / "d") == "EISDIR"
    assert error_of(os.rename, fs / "d", file) == "ENOTDIR"
    assert error_of(os.rename, fs / "empty", fs / "d") in ("ENOTEMPTY", "EEXIST")
    assert error_of(os.rename, fs / "d", fs / "d" / "sub" / "x") == "EINVAL"
    assert error_of(os.rename, file, file / "x") == "ENOTDIR"
    os.rename(fs / "d", fs / "empty")
    assert sorted(os.listdir(fs)) == ["empty", "file"] and os.listdir(fs / "empty") == ["sub"]


def test_rename_noreplace(fs, file):
    data = file.read_bytes()
    (fs / "other").write_bytes(b"other")
    assert error_of(renameat2, file, fs / "other", RENAME_NOREPLACE) == "EEXIST"
    assert (fs / "other").read_bytes() == b"other"
    renameat2(file, fs / "fresh", RENAME_NOREPLACE)
    assert (fs / "fresh").read_bytes() == data and not file.exists()


def test_rename_exchange(mount):
    m = mount()
    (m.mnt / "a").write_bytes(b"content of a")
    (m.mnt / "b").write_bytes(b"content of b, longer")
    os.mkdir(m.mnt / "d")
    (m.mnt / "d" / "inside").write_bytes(b"inside")
    renameat2(m.mnt / "a", m.mnt / "b", RENAME_EXCHANGE)
    assert error_of(renameat2, m.mnt / "a", m.mnt / "absent", RENAME_EXCHANGE) == "ENOENT"
    for _ in range(2):
        assert (m.mnt / "a").read_bytes() == b"content of b, longer"
        assert (m.mnt / "b").read_bytes() == b"content of a"
        m.remount()
    renameat2(m.mnt / "a", m.mnt / "d", RENAME_EXCHANGE)
    for _ in range(2):
        assert (m.mnt / "d").read_bytes() == b"content of b, longer"
        assert (m.mnt / "a" / "inside").read_bytes() == b"inside"
        m.remount()


def is_whiteout(path):
    st = os.lstat(path)
    return stat.S_ISCHR(st.st_mode) and st.st_rdev == 0


def test_rename_whiteout(mount):
    """A mark stays at the old name, of frames as of others; and none where nothing was moved."""
    m = mount()
    for name in ("a", "b", "c"):
        (m.mnt / name).write_bytes(b"content of " + name.encode())
    os.mkdir(m.mnt / "d")
    try:
        renameat2(m.mnt / "a", m.mnt / "free", RENAME_WHITEOUT)
    except OSError:
        try:
            (m.backing / "plain").touch()
            renameat2(m.backing / "plain", m.backing / "moved", RENAME_WHITEOUT)
        except OSError as error:
            pytest.skip(f"not in the backing directory: {error}")
        raise
    renameat2(m.mnt / "b", m.mnt / "c", RENAME_WHITEOUT)
    renameat2(m.mnt / "d", m.mnt / "e", RENAME_WHITEOUT)
    both = RENAME_WHITEOUT | RENAME_NOREPLACE
    assert error_of(renameat2, m.mnt / "c", m.mnt / "free", both) == "EEXIST"
    (m.mnt / "x.b2lock").write_bytes(b"a frame")
    (m.backing / "x.b2lock").write_bytes(b"another program's")
    flags = RENAME_WHITEOUT
    assert error_of(renameat2, m.mnt / "x.b2lock", m.mnt / "y", flags) == "EEXIST"
    (m.backing / "x.b2lock").unlink()
    os.unlink(m.mnt / "x.b2lock")
    for _ in range(2):
        assert sorted(os.listdir(m.mnt)) == ["a", "b", "c", "d", "e", "free"]
        assert all(is_whiteout(m.mnt / name) for name in "abd")
        assert (m.mnt / "free").read_bytes() == b"content of a"
        assert (m.mnt / "c").read_bytes() == b"content of b"
        assert os.listdir(m.mnt / "e") == []
        m.remount()
    os.rename(m.mnt / "free", m.mnt / "a")
    assert (m.mnt / "a").read_bytes() == b"content of a" and not (m.mnt / "free").exists()


def test_an_overlay_has_its_upper_layer_here(mount, work):
    m = mount()
    lower, merged = work / "lower", work / "merged"
    upper, scratch = m.mnt / "upper", m.mnt / "work"
    for path in (lower, merged, upper, scratch):
        path.mkdir()
    for name in ("moved", "removed", "changed"):
        (lower / name).write_bytes(b"below")
    words = f"lowerdir={lower},upperdir={upper},workdir={scratch}"
    command = ["mount", "-t", "overlay", "-o", words, "none", merged]

    def overlay_is_there():
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    if not overlay_is_there():
        command[4] = words.replace(str(m.mnt), str(m.backing))
        if overlay_is_there():
            umount(merged)
            pytest.fail("only the mount refuses it")
        pytest.skip("no overlay here")
    try:
        os.rename(merged / "moved", merged / "there")
        os.unlink(merged / "removed")
        with open(merged / "changed", "ab") as f:
            f.write(b" and above")
        assert umount(merged).returncode == 0
        m.remount()
        assert overlay_is_there()
        assert sorted(os.listdir(merged)) == ["changed", "there"]
        assert (merged / "there").read_bytes() == b"below"
        assert (merged / "changed").read_bytes() == b"below and above"
        assert is_whiteout(upper / "moved") and is_whiteout(upper / "removed")
    finally:
        umount(merged, "-l")


def ask_until_gone(path):
    while error_of(os.stat, path) is None:
        pass


def test_a_name_that_is_looked_up_while_it_changes(mount):
    """The kernel may ask for a name that it knows at any time, also while it is renamed. The old
    one must not become the newest again: by that the directory is opened, once its descriptor was
    closed for those of others."""
    m = mount("entry_timeout=0,attr_timeout=0", start=False)
    m.argv = ["prlimit", "--nofile=60:60", *m.argv]
    m.start()
    for n in range(40):
        (m.mnt / f"other{n}").mkdir()
    for n in range(100):
        directory = m.mnt / f"old{n}"
        directory.mkdir()
        (directory / "f").touch()
        held = os.open(directory, os.O_PATH)
        askers = [threading.Thread(target=ask_until_gone, args=(directory,)) for _ in range(3)]
        for asker in askers:
            asker.start()
        time.sleep(0.002)
        os.rename(directory, m.mnt / f"new{n}")
        for asker in askers:
            asker.join()
        for k in range(40):
            os.stat(m.mnt / f"other{k}")
        error = error_of(os.stat, "f", dir_fd=held)
        os.close(held)
        assert error is None


def test_a_name_that_is_back_by_the_time_it_is_found_gone(work):
    """A lookup found the name, and looks again whether it still is the inode's."""
    done = subprocess.run([BUILD / "tests/c/link_check", work], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


RENAMES = """
import os, sys
name = sys.argv[1]
while True:
    os.rename(name, f"{name}-new")
    os.rename(f"{name}-new", name)
"""


def test_a_directory_that_is_held_while_it_is_renamed(mount):
    """Its descriptor in the daemon was closed for those of others. It is opened by a name that may
    be gone by then, and the new one is not known for a moment."""
    m = mount("entry_timeout=100,attr_timeout=0", start=False)
    m.argv = ["prlimit", "--nofile=60:60", *m.argv]
    m.start()
    names = [m.mnt / f"d{n}" for n in range(3)]
    others = [m.mnt / f"other{n}" for n in range(20)]
    for name in names + others:
        name.mkdir()
    held = [os.open(name, os.O_PATH) for name in names]
    renaming = [subprocess.Popen([sys.executable, "-c", RENAMES, name]) for name in names]
    errors = set()
    for _ in range(400):
        for other in others:
            os.stat(other)
        errors |= {error_of(os.fstat, fd) for fd in held}
    for process in renaming:
        process.kill()
        process.wait()
    for fd in held:
        os.close(fd)
    assert errors == {None}


def test_a_removal_does_not_wait_for_itself(mount):
    """The directory was removed by another program: no change of names here will tell its name."""
    m = mount("entry_timeout=100,attr_timeout=100", start=False)
    m.argv = ["prlimit", "--nofile=60:60", *m.argv]
    m.start()
    names = [f"d{n}" for n in range(60)]
    for name in names:
        (m.mnt / name / "below").mkdir(parents=True)
    held = [os.open(m.mnt / name, os.O_PATH) for name in names]
    for fd in held:
        os.stat("below", dir_fd=fd)
    for name in names:
        shutil.rmtree(m.backing / name)
    errors, took = set(), []
    for fd in held:
        began = time.monotonic()
        errors.add(error_of(os.rmdir, "below", dir_fd=fd))
        took.append(time.monotonic() - began)
    for fd in held:
        os.close(fd)
    # who waits for a change does so for 50 ms: a busy machine delays some as well, but not most
    assert "ESTALE" in errors and sorted(took)[len(took) // 2] < 0.05, took


def test_rename_of_an_open_dirty_file(mount):
    m = mount()
    fd = os.open(m.mnt / "a", os.O_CREAT | os.O_RDWR)
    os.write(fd, b"before ")
    os.mkdir(m.mnt / "d")
    os.rename(m.mnt / "a", m.mnt / "d" / "b")
    os.write(fd, b"after")
    os.close(fd)
    assert (m.mnt / "d" / "b").read_bytes() == b"before after"
    m.remount()
    assert (m.mnt / "d" / "b").read_bytes() == b"before after" and os.listdir(m.mnt) == ["d"]


def test_rename_of_two_links_of_one_file_does_nothing(fs, file):
    os.link(file, fs / "second")
    os.rename(file, fs / "second")
    assert sorted(os.listdir(fs)) == ["file", "second"]


# ---- link


def test_link(mount):
    m = mount()
    (m.mnt / "a").write_bytes(b"first")
    os.link(m.mnt / "a", m.mnt / "b")
    for name in "ab":
        assert os.stat(m.mnt / name).st_nlink == 2
    assert os.stat(m.mnt / "a").st_ino == os.stat(m.mnt / "b").st_ino
    write_at(m.mnt / "b", 0, b"FIRST and more")
    assert (m.mnt / "a").read_bytes() == b"FIRST and more"
    os.mkdir(m.mnt / "d")
    assert error_of(os.link, m.mnt / "a", m.mnt / "b") == "EEXIST"
    assert error_of(os.link, m.mnt / "d", m.mnt / "e") == "EPERM"
    m.remount()
    write_at(m.mnt / "a", 0, b"Once ")
    assert (m.mnt / "b").read_bytes() == b"Once  and more"
    os.unlink(m.mnt / "a")
    assert os.stat(m.mnt / "b").st_nlink == 1 and (m.mnt / "b").read_bytes() == b"Once  and more"


def test_write_through_both_links_at_once(fs):
    """Two names, one file: both descriptors see one state, dirty chunks included."""
    (fs / "a").write_bytes(bytes(100_000))
    os.link(fs / "a", fs / "b")
    one, two = os.open(fs / "a", os.O_RDWR), os.open(fs / "b", os.O_RDWR)
    os.pwrite(one, b"one", 10)
    os.pwrite(two, b"two", 20)
    os.ftruncate(one, 50_000)
    assert os.pread(two, 100, 5) == bytes(5) + b"one" + bytes(7) + b"two" + bytes(82)
    assert os.fstat(two).st_size == 50_000
    os.close(one)
    os.close(two)


# ---- files without a name


def nameless(where, flags=os.O_RDWR, mode=0o640):
    try:
        return os.open(where, os.O_TMPFILE | flags, mode)
    except OSError as e:
        if e.errno != errno.EOPNOTSUPP:
            raise
        pytest.skip("this libfuse does not pass O_TMPFILE on: that came with 3.17")


def test_a_file_without_a_name_goes_with_its_last_user(mount):
    m = mount()
    fd = nameless(m.mnt)
    os.write(fd, b"nobody sees this")
    os.fsync(fd)
    assert os.fstat(fd).st_nlink == 0 and os.fstat(fd).st_size == 16
    assert os.pread(fd, 6, 7) == b"sees t"
    assert os.listdir(m.mnt) == os.listdir(m.backing) == []
    os.close(fd)
    m.remount()
    assert os.listdir(m.mnt) == os.listdir(m.backing) == []


def test_a_file_without_a_name_gets_one(mount):
    m = mount()
    os.mkdir(m.mnt / "d")
    m.remount()
    data = blob(3, 300_001, "text")
    fd = nameless(m.mnt / "d")
    os.write(fd, data)
    link_descriptor(fd, m.mnt / "d" / "f")
    assert os.listdir(m.mnt / "d") == ["f"] and os.listdir(m.backing / "d") == ["f.b2frame"]
    st = os.stat(m.mnt / "d" / "f")
    assert (st.st_nlink, st.st_size, stat.S_IMODE(st.st_mode)) == (1, len(data), 0o640)
    assert st.st_ino == os.fstat(fd).st_ino
    assert (m.mnt / "d" / "f").read_bytes() == data
    os.write(fd, b"and more")
    assert error_of(link_descriptor, fd, m.mnt / "d" / "f") == "EEXIST"
    link_descriptor(fd, m.mnt / "g")
    os.close(fd)
    m.remount()
    for name in "d/f", "g":
        assert (m.mnt / name).read_bytes() == data + b"and more"


def test_a_synced_file_that_gets_a_name_is_whole_after_a_kill(mount):
    m = mount()
    data = blob(4, 200_003, "floats")
    fd = nameless(m.mnt)
    os.write(fd, data)
    os.fsync(fd)
    link_descriptor(fd, m.mnt / "f")
    unlinked = nameless(m.mnt)
    os.write(unlinked, data)
    os.fsync(unlinked)
    m.kill()
    assert error_of(os.close, fd) == error_of(os.close, unlinked) == "ENOTCONN"
    m.start()
    assert os.listdir(m.mnt) == ["f"] and os.listdir(m.backing) == ["f.b2frame"]
    assert (m.mnt / "f").read_bytes() == data


def test_a_file_that_asks_for_no_name_ever(fs):
    fd = nameless(fs, os.O_WRONLY | os.O_EXCL)
    assert error_of(link_descriptor, fd, fs / "f") == "ENOENT"
    os.close(fd)


def test_many_files_without_a_name(fs):
    data = [blob(seed, 50_000 + seed, "noise") for seed in range(40)]
    fds = [nameless(fs) for _ in data]
    for fd, d in zip(fds, data):
        os.write(fd, d)
    for fd, d in zip(fds, data):
        assert os.pread(fd, len(d) + 1, 0) == d
        os.close(fd)


# ---- symlink, mknod


def test_symlink(fs, file):
    os.symlink("file", fs / "to-file")
    os.symlink("nowhere", fs / "dangling")
    os.symlink("x" * 4000, fs / "long")
    os.symlink("loop", fs / "loop")
    assert os.readlink(fs / "to-file") == "file" and os.readlink(fs / "long") == "x" * 4000
    assert (fs / "to-file").read_bytes() == file.read_bytes()
    assert os.lstat(fs / "to-file").st_size == 4 and stat.S_ISLNK(os.lstat(fs / "to-file").st_mode)
    assert error_of(os.stat, fs / "dangling") == "ENOENT"
    assert error_of(os.stat, fs / "loop") == "ELOOP"
    assert error_of(os.open, fs / "to-file", os.O_RDONLY | os.O_NOFOLLOW) == "ELOOP"
    assert error_of(os.readlink, file) == "EINVAL"
    assert error_of(os.symlink, "x", fs / "to-file") == "EEXIST"
    os.unlink(fs / "to-file")
    assert file.exists()


def test_fifo_carries_data(fs):
    os.mkfifo(fs / "fifo", 0o600)
    assert stat.S_ISFIFO(os.stat(fs / "fifo").st_mode)
    reader = subprocess.Popen(["cat", fs / "fifo"], stdout=subprocess.PIPE)
    (fs / "fifo").write_bytes(b"through the fifo")
    assert reader.communicate(timeout=300)[0] == b"through the fifo"


def test_socket_connects(fs, monkeypatch):
    monkeypatch.chdir(fs)  # socket addresses are short
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        server.bind("sock")
        server.listen()
        assert stat.S_ISSOCK(os.stat("sock").st_mode)
        client.connect("sock")
        server.accept()[0].sendall(b"hello")
        assert client.recv(5) == b"hello"


def test_mknod(fs, root):
    os.mknod(fs / "regular", stat.S_IFREG | 0o600)
    assert (fs / "regular").read_bytes() == b"" and stat.S_ISREG(os.stat(fs / "regular").st_mode)
    (fs / "regular").write_bytes(b"a frame like any other")
    assert (fs / "regular").read_bytes() == b"a frame like any other"
    os.mknod(fs / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    got = os.stat(fs / "null")
    assert stat.S_ISCHR(got.st_mode) and got.st_rdev == os.makedev(1, 3)
    assert error_of(os.mknod, fs / "null", stat.S_IFIFO | 0o600) == "EEXIST"
