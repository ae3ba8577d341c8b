"""cframe verify, cat and info, also beside a writer: no false alarms, and no false comfort."""

import contextlib
import errno
import json
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import threading
import time
from types import SimpleNamespace

import pytest

from libcompress import as_nobody
from libdata import blob
from libfault import Fault
from libmount import CFRAME, DAEMON, REPO, umount, wait_until
from libprogram import attempt

PAUSE = 0.04  # seconds that make a file look left as it is, but for a step of the clock of stamps


def verify(*paths):
    got = subprocess.run([CFRAME, "verify", *paths], capture_output=True, text=True, timeout=300)
    return got.returncode, got.stdout + got.stderr


@contextlib.contextmanager
def repeated(act):
    """In a thread, again and again."""
    end = threading.Event()

    def run():
        while not end.is_set():
            act()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


def look_while_touched(frame, look):
    """What a look at a file says whose stamps change again and again, and the longest time that
    they did not."""
    begun, longest = time.monotonic(), 0

    def touch():
        nonlocal begun, longest
        now = time.monotonic()
        os.utime(frame)
        begun, longest = now, max(longest, time.monotonic() - begun)

    touch()
    with repeated(touch):
        said = look()
    touch()
    return said, longest


def assert_busy(frame, look, busy, left):
    """Looks at a touched file until it is said to be busy. On a loaded machine touches may pause
    for so long that it looks left alone: then, and only then, what is `left` may be said."""
    for _ in range(100):
        said, pause = look_while_touched(frame, look)
        if said == busy:
            return
        assert said == left and pause > PAUSE, (said, pause)
    pytest.fail("the touches always paused")


@pytest.mark.release
def test_what_is_being_written_is_no_damage(mount):
    m = mount()
    data = blob(1, 20 << 20, "text")
    (m.mnt / "f").write_bytes(data)
    rng = random.Random(1)
    with open(m.mnt / "f", "r+b", buffering=0) as f:

        def write():
            for _ in range(20):
                os.pwrite(f.fileno(), rng.randbytes(50_000), rng.randrange(len(data) - 50_000))
            os.fsync(f.fileno())

        with repeated(write):
            said = [verify(m.backing) for _ in range(8)]
    busy = (1, f"{m.stored('f')}: is being written, and could not be checked meanwhile\n")
    assert {*said, busy} == {(0, ""), busy}
    m.unmount()
    assert verify(m.backing) == (0, "")


def test_a_length_that_no_read_looks_at(mount, blosc2):
    """Plain bytes are read without the word in front of them, which other readers need."""
    m = mount("chunksize=256K,blocksize=16K")
    data = blob(1, 500_000, "noise")
    (m.mnt / "f").write_bytes(data)
    m.unmount()
    frame = m.stored("f")
    raw = bytearray(frame.read_bytes())
    at = raw.index(data[5 * 16384 : 5 * 16384 + 100]) - 4
    assert raw[at : at + 4] == (16384).to_bytes(4, "little") and verify(frame) == (0, "")
    raw[at : at + 4] = bytes(4)
    frame.write_bytes(raw)
    assert subprocess.run([CFRAME, "cat", frame], capture_output=True).stdout == data
    assert blosc2.open(str(frame)).decompress_chunk(0) != data[: 256 << 10]
    code, said = verify(frame)
    assert code == 1 and said.startswith(f"{frame}: chunk 0: corrupt: checksum of a block"), said


def test_a_metalayer_that_cannot_be_decoded(work, blosc2):
    """Nothing else in a frame of another program would say so, and its bytes are all there."""
    path = work / "f.b2frame"
    schunk = blosc2.SChunk(chunksize=4096, urlpath=str(path), contiguous=True, data=bytes(5000))
    for name in ("one", "two\n", "three"):
        schunk.vlmeta[name] = "some text " * 5000
    assert verify(path) == (0, "")
    raw = bytearray(path.read_bytes())
    for name in (b"one", b"two\n"):
        at = raw.index(b"\x28\xb5\x2f\xfd", raw.index(name))  # the magic number of zstd
        raw[at] ^= 1
    path.write_bytes(raw)
    code, said = verify(path)
    lines = said.splitlines()
    assert code == 1 and len(lines) == 2, said
    assert lines[0].startswith(f"{path}: metalayer one: corrupt: "), said
    assert lines[1].startswith(f"{path}: metalayer two?: corrupt: "), said
    assert subprocess.run([CFRAME, "cat", path], capture_output=True).stdout == bytes(5000)


def test_a_metalayer_longer_than_its_chunk(work, blosc2):
    """The library does not read it."""
    path = work / "f.b2frame"
    schunk = blosc2.SChunk(chunksize=4096, urlpath=str(path), contiguous=True, data=bytes(5000))
    schunk.vlmeta["note"] = random.Random(1).randbytes(3000)  # a plain copy
    assert verify(path) == (0, "")
    raw = bytearray(path.read_bytes())
    chunk = raw.index(b"\xc6", raw.rindex(b"\xa4note")) + 5
    nbytes, block, cbytes = struct.unpack_from("<3I", raw, chunk + 4)
    assert nbytes + 32 == cbytes
    struct.pack_into("<3I", raw, chunk + 4, nbytes - 4, min(block, nbytes - 4), cbytes - 4)
    path.write_bytes(raw)
    schunk = blosc2.open(str(path))
    with pytest.raises(RuntimeError):
        schunk.vlmeta["note"]
    code, said = verify(path)
    assert code == 1 and said.startswith(f"{path}: metalayer note: corrupt: bytes after"), said


def test_an_array_that_a_mount_cannot_show(work, blosc2):
    """Its chunks are sound, but nobody knows any more which item is where."""
    import numpy as np

    array, bytes_only = work / "a.b2nd", work / "a.b2frame"
    blosc2.asarray(np.arange(600, dtype="<i4").reshape(20, 30), urlpath=str(array))
    blosc2.SChunk(urlpath=str(work / "none.b2nd"), contiguous=True, data=bytes(5000))
    assert verify(work) == (0, "")
    raw = bytearray(array.read_bytes())
    shape = raw.index(b"\x92\xd3" + (20).to_bytes(8, "big")) + 9
    raw[shape] += 1
    array.write_bytes(raw)
    bytes_only.write_bytes(raw)
    code, said = verify(work)
    assert code == 1 and said.count("\n") == 1, said
    assert said.startswith(f"{array}: corrupt: array and frame differ in size"), said
    for path in array, bytes_only:  # what there is to know of the frame is told all the same
        got = subprocess.run([CFRAME, "info", "--json", path], capture_output=True, check=True)
        facts = json.loads(got.stdout)
        assert facts["nbytes"] == 2400 and facts["array"].startswith("corrupt: array and frame")


@pytest.mark.release
def test_what_is_damaged_stays_so(mount):
    m = mount()
    (m.mnt / "f").write_bytes(blob(1, 100_000, "text"))
    m.unmount()
    frame = m.stored("f")
    with open(frame, "r+b") as f:
        f.seek(500)
        f.write(bytes(100))
    code, said = verify(m.backing)
    assert code == 1 and said.count("\n") == 1 and said.startswith(f"{frame}: chunk 0: corrupt: ")
    busy = (1, f"{frame}: is being written, and could not be checked meanwhile\n")
    assert_busy(frame, lambda: verify(frame), busy, left=(code, said))


def test_a_torn_frame_is_told_as_one(mount):
    """All that it has is sound, but newer bytes are gone."""
    m = mount()
    for data in b"first", b"second":
        with open(m.mnt / "f", "ab") as f:
            f.write(data)
        m.remount()
    m.unmount()
    with open(m.stored("f"), "r+b") as f:
        f.seek(-18, os.SEEK_END)
        f.write(bytes(18))
    told = f"{m.stored('f')}: corrupt: torn: shown as of its newest whole root\n"
    assert verify(m.backing) == (1, told)


def test_a_device_that_fails_is_no_damage(mount, work):
    """Whichever read it is from which on none succeeds, all that is said is why."""
    m = mount("chunksize=64K")
    (m.mnt / "f").write_bytes(blob(1, 200_000, "noise"))
    m.unmount()
    frame = m.stored("f")
    program = SimpleNamespace(argv=[str(CFRAME), "verify", str(frame)])
    fault = Fault(program, work / "fault")
    for n in range(1, 100):
        fault.set(n, Fault.READ, errno.EIO, forever=1)
        got = subprocess.run(program.argv, capture_output=True, timeout=60)
        if not fault.came():
            break
        lines = (got.stdout + got.stderr).splitlines()
        assert got.returncode == 1 and lines, n
        for line in lines:
            says = rf"{re.escape(str(frame))}: (chunk \d: )?Input/output error"
            assert re.fullmatch(says.encode(), line), (n, line)
    assert n > 4 and (got.returncode, got.stdout, got.stderr) == (0, b"", b"")


def test_a_directory_that_cannot_be_listed_is_no_comfort(work):
    """Whichever part of whichever one it is, a line says which was not checked."""
    store = work / "store"
    for name in ("x", "a/y", "b/z"):
        (store / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPO / "tests/data/frames/const-lz4.b2frame", store / f"{name}.b2frame")
    program = SimpleNamespace(argv=[str(CFRAME), "verify", str(store)])
    fault = Fault(program, work / "fault")
    told = {(1, f"{where}: Input/output error\n") for where in (store, store / "a", store / "b")}
    said = set()
    for n in range(1, 100):
        fault.set(n, Fault.LIST, errno.EIO)
        got = subprocess.run(program.argv, stdout=-1, stderr=-2, text=True, timeout=60)
        if not fault.came():
            break
        said.add((got.returncode, got.stdout))
    assert said == told and (got.returncode, got.stdout) == (0, "")


@pytest.mark.parametrize("argv", ["verify {}", "extract -f -C {}.to {}"])
def test_a_directory_that_fails_is_not_explained_by_one_before_it(work, argv):
    """A file system says by EBADMSG that a checksum of its own is wrong. That a directory was no
    sparse frame, which was asked before, is no reason."""
    store = work / "store"
    below = (store / "a.b2frame", store / "b.b2frame")
    for each in below:
        each.mkdir(parents=True)
    shutil.copy(REPO / "tests/data/frames/const-lz4.b2frame", store / "x.b2frame")
    program = SimpleNamespace(argv=[str(CFRAME), *argv.format(store, store).split()])
    fault = Fault(program, work / "fault")
    said = []
    for n in range(1, 100):
        fault.set(n, Fault.LIST, errno.EBADMSG)
        said.append(subprocess.run(program.argv, stdout=-1, stderr=-1, text=True, timeout=60))
        if not fault.came():
            break
    lines = {line for got in said for line in (got.stdout + got.stderr).splitlines()}
    prefix = "" if argv.startswith("verify") else "cframe: "
    assert lines == {f"{prefix}{where}: corrupt" for where in (store, *below)}


def test_a_directory_that_may_not_be_searched_is_no_comfort(work):
    """Its names could be read, but none of its files."""
    store = work / "store"
    (store / "sub").mkdir(parents=True)
    (store / "sub/none.b2frame").write_bytes(b"no frame")
    how = as_nobody(work) if os.geteuid() == 0 else {}
    os.chmod(store / "sub", 0o644)
    said = attempt(CFRAME, "verify", store, **how)
    os.chmod(store / "sub", 0o755)
    assert (said.returncode, said.stdout) == (1, f"{store}/sub: Permission denied\n")


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one processor")
@pytest.mark.parametrize("files, first", [(2, 1), (1, 50)], ids=["files", "chunks"])
def test_several_threads_read(mount, work, files, first):
    """Of one frame, too, once it is open."""
    m = mount("chunksize=16K")
    for name in range(files):
        (m.mnt / f"{name}").write_bytes(blob(1, 2_000_001, "noise"))
    m.unmount()
    program = SimpleNamespace(argv=[str(CFRAME), "verify", str(m.backing)])
    fault = Fault(program, work / "fault")
    fault.set(first, Fault.READ, forever=1, how=Fault.WAIT)
    with subprocess.Popen(program.argv, stdout=-1) as got:
        try:
            wait_until(lambda: fault.control.hits >= 2, 20, "the second thread")
        finally:
            fault.set(0)
        assert (got.communicate()[0], got.returncode) == (b"", 0)


def test_what_is_found_comes_in_the_order_of_names_and_chunks(mount):
    """Whoever finds it when: the first file takes long."""
    m = mount("chunksize=64K")
    (m.mnt / "large").write_bytes(blob(1, 8 << 20, "noise"))
    for name in range(50):
        (m.mnt / f"x{name:02}").write_bytes(b"small")
    m.unmount()
    with open(m.stored("large"), "r+b") as f:
        for at in range(1 << 20, 8 << 20, 1 << 20):
            os.pwrite(f.fileno(), bytes(100), at)
    for name in range(0, 50, 2):
        m.stored(f"x{name:02}").write_bytes(b"no frame")
    code, said = verify(m.backing)
    *chunks, none = said.split(f"{m.stored('x00')}: is not a Blosc2 frame\n")
    found = re.findall(rf"{re.escape(str(m.stored('large')))}: chunk (\d+): corrupt: ", chunks[0])
    assert code == 1 and len(found) == chunks[0].count("\n") == 7
    assert found == sorted(found, key=int)
    assert none == "".join(
        f"{m.stored(f'x{name:02}')}: is not a Blosc2 frame\n" for name in range(2, 50, 2)
    )


def in_the_middle(frame, size, act):
    """`cframe cat`, once it has put out the first of `size` bytes and `act` was called: its exit
    code, all that it has put out, and what it said."""
    with subprocess.Popen(
        [CFRAME, "cat", frame], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as cat:
        first = cat.stdout.read(1000)  # it waits now: a pipe has no room for the rest
        act()
        out = first + cat.stdout.read(2 * size)
        return cat.wait(timeout=60), out, cat.stderr.read().decode()


@pytest.mark.release
def test_cat_goes_on_in_a_frame_whose_chunks_moved(mount):
    """The space that they had is in use for others."""
    m = mount("chunksize=256K")
    data, other = (blob(n, 20 << 20, "text") for n in (1, 2))
    with open(m.mnt / "f", "w+b", buffering=0) as f:

        def write(content):
            os.pwrite(f.fileno(), content, 0)
            os.fsync(f.fileno())

        write(data)
        got = in_the_middle(m.stored("f"), len(data), lambda: (write(other), write(data)))
        assert got == (0, data, "")
        got = in_the_middle(m.stored("f"), len(data), lambda: (write(data), write(other)))
    code, out, said = got
    assert (code, said) == (1, f"cframe: {m.stored('f')}: was changed while it was being read\n")
    assert out == data[: len(out)]


@pytest.mark.release
def test_cat_of_a_frame_without_checksums(tmp_path):
    """Of another program, in whose frames a chunk that was replaced looks sound."""
    blosc2 = pytest.importorskip("blosc2")
    path = tmp_path / "x.b2frame"
    data, other = (blob(n, 20 << 20, "text") for n in (1, 2))

    def write(content, path=path):
        blosc2.SChunk(chunksize=1 << 20, data=content, urlpath=str(path), mode="w", contiguous=True)

    def replace():
        write(other, tmp_path / "y.b2frame")
        os.rename(tmp_path / "y.b2frame", path)

    def update(n):
        new = other[n << 20 : (n + 1) << 20]
        blosc2.open(str(path), mode="a").update_data(n, new, copy=True)

    write(data)
    got = in_the_middle(path, len(data), lambda: write(data))
    assert got == (0, data, "")
    code, out, said = in_the_middle(path, len(data), lambda: update(19))
    assert code == 1 or out == data[: 19 << 20] + other[-1 << 20 :]
    changed = f"cframe: {path}: was changed while it was being read\n"
    assert said == (changed if code else "")
    code, _, said = in_the_middle(path, len(data), lambda: update(0))  # which is out already
    assert (code, said) == (1, changed)
    write(data)
    time.sleep(0.1)  # so old that a write would change its stamp
    assert in_the_middle(path, len(data), replace) == (0, data, "")


@pytest.mark.release
def test_cat_of_a_frame_whose_chunks_are_replaced_in_their_places(tmp_path):
    """Without checksums nothing fails: one that is out already, and one that is yet to come."""
    blosc2 = pytest.importorskip("blosc2")
    path = tmp_path / "x.b2frame"
    data, other = (blob(n, 20 << 20, "noise") for n in (1, 2))

    def update():
        frame = blosc2.open(str(path), mode="a")
        for n in (0, 19):
            frame.update_data(n, other[n << 20 : (n + 1) << 20], copy=True)

    blosc2.SChunk(
        chunksize=1 << 20, data=data, urlpath=str(path), contiguous=True, cparams={"clevel": 0}
    )
    code, out, said = in_the_middle(path, len(data), update)
    assert out == data[: 19 << 20] + other[19 << 20 :]
    assert (code, said) == (1, f"cframe: {path}: was changed while it was being read\n")


@pytest.mark.release
def test_cat_that_is_stopped_and_goes_on(mount):
    """Each time, its write to a full pipe ends early."""
    m = mount()
    data = blob(1, 4 << 20, "noise")
    (m.mnt / "f").write_bytes(data)
    m.unmount()
    with subprocess.Popen([CFRAME, "cat", m.stored("f")], stdout=subprocess.PIPE) as cat:
        out = b""
        while piece := cat.stdout.read(300_000):
            out += piece
            cat.send_signal(signal.SIGSTOP)
            time.sleep(0.02)
            cat.send_signal(signal.SIGCONT)
        assert (out, cat.wait(timeout=60)) == (data, 0)


@pytest.mark.release
def test_cat_of_a_file_that_is_cut_meanwhile(mount):
    """More is out by then than it still has."""
    m = mount("chunksize=256K")
    data = blob(1, 20 << 20, "noise")
    with open(m.mnt / "f", "w+b", buffering=0) as f:

        def cut():
            f.truncate(1000)
            os.fsync(f.fileno())

        f.write(data)
        os.fsync(f.fileno())
        code, out, said = in_the_middle(m.stored("f"), len(data), cut)
    assert out == data[: len(out)] and len(out) > 1000
    assert (code, said) == (1, f"cframe: {m.stored('f')}: was changed while it was being read\n")


@pytest.mark.release
@pytest.mark.parametrize("command", ["info", "cat"])
def test_what_is_half_written_is_read_once_it_is_whole(mount, command):
    m = mount()
    (m.mnt / "f").write_bytes(blob(1, 100_000, "text"))
    m.unmount()
    frame = m.stored("f")
    content = frame.read_bytes()
    broken = []  # for how long

    def write():
        with open(frame, "r+b", buffering=0) as f:
            start = time.monotonic()
            f.truncate(len(content) // 2)
            time.sleep(0.01)
            os.pwrite(f.fileno(), content, 0)
        broken.append(time.monotonic() - start)
        time.sleep(0.04)

    def run():
        got = subprocess.run([CFRAME, command, frame], capture_output=True, timeout=60)
        return got.returncode, got.stdout, got.stderr.decode()

    whole = run()
    busy = (1, b"", f"cframe: {frame}: is being written, and could not be read meanwhile\n")
    with repeated(write):
        said = [run() for _ in range(30)]
    assert whole[0] == 0 and whole in said
    # On a busy machine a write may pause for so long that the file looks left as it is.
    assert {*said, busy} == {whole, busy} or max(broken) > PAUSE
    with open(frame, "r+b") as f:
        f.truncate(len(content) // 2)
    code, out, why = run()
    assert code == 1 and not out and "corrupt" in why
    assert_busy(frame, run, busy, left=(code, out, why))


@pytest.mark.release
def test_files_that_go_are_no_problem(mount):
    m = mount()
    (m.mnt / "stays").write_bytes(b"x")

    def come_and_go():
        for n in range(30):
            (m.mnt / f"{n}").write_bytes(b"y")
        for n in range(30):
            os.unlink(m.mnt / f"{n}")

    with repeated(come_and_go):
        assert {verify(m.backing) for _ in range(20)} == {(0, "")}
    nosuch = m.backing / "nosuch.b2frame"
    assert verify(nosuch) == (1, f"{nosuch}: No such file or directory\n")
    assert verify("") == (1, "'': No such file or directory\n")


@pytest.mark.release
def test_an_empty_file_is_one_in_a_mount(mount, tmp_path):
    m = mount()
    (m.backing / "x.b2frame").touch()
    assert os.listdir(m.mnt) == ["x"] and (m.mnt / "x").read_bytes() == b""
    assert verify(m.backing) == (0, "")
    (m.backing / "y.b2nd").touch()  # which has no shape
    assert verify(m.backing) == (1, f"{m.backing}/y.b2nd: is not a Blosc2 frame\n")


@pytest.mark.release
def test_where_nothing_is_checked_this_is_said(mount, tmp_path):
    m = mount()
    (m.mnt / "d").mkdir()
    (m.mnt / "d/f").write_bytes(b"x")
    for path in (m.mnt, m.mnt / "d"):
        assert verify(path) == (1, f"{path}: is in a mount: name the backing directory\n")
    (tmp_path / "plain").touch()
    assert verify(tmp_path) == (0, f"cframe: {tmp_path}: contains no frames\n")


def test_a_mount_whose_daemon_is_gone(mount):
    """The kernel still has the attributes of its root."""
    m = mount("attr_timeout=100")
    os.stat(m.mnt)
    m.end()
    assert verify(m.mnt) == (1, f"{m.mnt}: its daemon is gone; umount it first\n")
    m.kill()


def test_verify_leaves_a_mount_inside_of_the_directory_alone(dirs):
    backing, _ = dirs
    inside = backing / "inside"
    inside.mkdir()
    (backing / "none.b2frame").write_bytes(b"no frame: shown under this name in the mount, too")
    assert attempt(DAEMON, backing, inside).returncode == 0
    try:
        (inside / "f").write_bytes(b"written")
        got = attempt(CFRAME, "verify", backing)
    finally:
        umount(inside)
    assert got.stdout == f"{backing}/none.b2frame: is not a Blosc2 frame\n"


def test_verify_knows_sparse_frames_by_their_index(dirs):
    backing, _ = dirs
    (backing / "x/chunks.b2frame").mkdir(parents=True)
    (backing / "x/chunks.b2frame/none.b2frame").write_bytes(b"no frame")
    (backing / "y.b2frame").mkdir()
    shutil.copy(REPO / "tests/data/frames/const-lz4.b2frame", backing / "y.b2frame/chunks.b2frame")
    (backing / "y.b2frame/none.b2frame").write_bytes(b"no frame")
    got = attempt(CFRAME, "verify", backing)
    assert got.stdout == "".join(
        f"{backing}/{where}/none.b2frame: is not a Blosc2 frame\n"
        for where in ("x/chunks.b2frame", "y.b2frame")
    )
    shutil.copytree(REPO / "tests/data/frames/sparse.b2frame", backing / "z.b2frame")
    os.truncate(backing / "z.b2frame/chunks.b2frame", 100)
    said = attempt(CFRAME, "verify", backing / "z.b2frame").stdout
    assert said.startswith(f"{backing}/z.b2frame/chunks.b2frame: ") and said.count("\n") == 1


def test_verify_goes_deeper_than_a_path_is_long(dirs):
    backing, _ = dirs
    fd = os.open(backing, os.O_RDONLY)
    for _ in range(25):
        os.mkdir("d" * 200, dir_fd=fd)
        below = os.open("d" * 200, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    with os.fdopen(os.open("none.b2frame", os.O_WRONLY | os.O_CREAT, dir_fd=fd), "wb") as f:
        f.write(b"no frame")
    os.close(fd)
    got = attempt(CFRAME, "verify", backing)
    deep = "/".join(["d" * 200] * 25)
    assert got.stdout == f"{backing}/{deep}/none.b2frame: is not a Blosc2 frame\n"


@pytest.mark.parametrize("command", ["cat", "info"])
def test_the_file_in_a_mount_in_place_of_its_frame(mount, command):
    m = mount()
    (m.mnt / "f").write_bytes(blob(1, 5000, "text"))
    got = attempt(CFRAME, command, m.mnt / "f")
    assert got.returncode == 1 and got.stdout == ""
    assert got.stderr == (
        f"cframe: {m.mnt}/f: is not a Blosc2 frame, but the contents of one: "
        "name the frame in the backing directory\n"
    )


def test_verify_of_the_file_in_a_mount(mount):
    m = mount()
    (m.mnt / "f").write_bytes(blob(1, 5000, "text"))
    got = attempt(CFRAME, "verify", m.mnt / "f")
    assert (got.returncode, got.stderr) == (1, "")
    assert got.stdout == (
        f"{m.mnt}/f: is not a Blosc2 frame, but the contents of one: "
        "name the frame in the backing directory\n"
    )
