"""The intent log where things go wrong: what it alone has is applied, or kept,
or the mount is refused."""

import contextlib
import errno
import fcntl
import mmap
import os
import select
import signal
import stat
import threading
import time
from pathlib import Path

import pytest

import libblosc
from libchunk import Chunk
from libdata import blob
from libfault import Fault
from libfull import put_direct
from libintent import (
    ASIDE,
    LOG,
    PAGE,
    SLOW,
    crash,
    log_of,
    made,
    patch,
    records,
)
from libmount import SLOWNESS, MountFailed, wait_until
from libposix import NOBODY, as_nobody, error_of, read_direct, write_at
from libstats import stats

CHUNK = 64 << 10


def test_a_chunk_that_is_lost_is_in_the_log(mount):
    """Its pages were synced, and the stored bytes below them are damaged: no
    frame will have them."""
    m = mount(f"{SLOW},codec=zstd,level=3")
    fd, _ = made(m)
    os.close(fd)
    m.remount()
    fd = os.open(m.mnt / "a", os.O_RDWR)
    for n in range(64):
        os.pwrite(fd, blob(n, PAGE, "noise"), n * CHUNK + 8192)
    os.fsync(fd)
    assert len(records(log_of(m))) == 1
    with open(m.stored("a"), "r+b") as f:
        at = os.fstat(f.fileno()).st_size * 3 // 8
        f.seek(at)
        byte = f.read(1)[0]
        f.seek(at)
        f.write(bytes([byte ^ 0x55]))
    m.allow("a.b2frame: (read|what was written)", "keeps what was synced")
    error_of(os.ftruncate, fd, (4 << 20) - 1)  # no list of bytes: its fsync commits
    wait_until(lambda: error_of(os.fsync, fd) is None, 10, "the end of errors")
    m.expect_log(r"what was written to chunk \d+ is lost")
    os.close(fd)
    m.unmount()
    assert len(records(m.backing / ASIDE)) == 1


class LogPipe:
    """The log of a daemon that starts from now on goes through a pipe, which can be stopped up."""

    def __init__(self, m):
        self.ends, self.log, self.open = os.pipe(), m.log, True
        fcntl.fcntl(self.ends[1], fcntl.F_SETPIPE_SZ, 4096)
        to = f"/proc/{os.getpid()}/fd/{self.ends[1]}"
        m.argv = ["sh", "-c", f'exec "$@" 2>{to}', "sh", *m.argv]
        self.thread = threading.Thread(target=self.pass_on, daemon=True)
        self.thread.start()

    def pass_on(self):
        with open(self.log, "ab", buffering=0) as log:
            while self.open:
                if select.select(self.ends[:1], [], [], 0.1)[0]:
                    log.write(os.read(self.ends[0], 4096))

    def stop_up(self):
        """Whoever logs a line waits from now on."""
        self.open = False
        self.thread.join()
        os.set_blocking(self.ends[1], False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(self.ends[1], b"\n")

    def clear(self):
        self.open = True
        self.thread = threading.Thread(target=self.pass_on, daemon=True)
        self.thread.start()

    def close(self):
        self.open = False
        self.thread.join()
        for end in self.ends:
            os.close(end)


def test_a_chunk_that_is_lost_while_the_log_takes_its_bytes(mount):
    """The worker that has lost it is about to say so. An fsync then finds the old bytes in its
    place, and must not be told that these are what was written."""
    m = mount("commit=1,chunksize=64K,blocksize=16K,codec=zstd,level=3")
    fd, data = made(m)
    os.close(fd)
    m.unmount()
    raw = libblosc.open_frame(m.stored("a")).get_chunk(0)
    frame = bytearray(m.stored("a").read_bytes())
    frame[frame.index(raw) + Chunk(raw).starts[3] + 9] ^= 0x20
    m.stored("a").write_bytes(frame)
    pipe = LogPipe(m)
    m.start()
    m.allow("a.b2frame: (read|what was written)", "keeps what was synced")
    fd = os.open(m.mnt / "a", os.O_RDWR)
    pipe.stop_up()
    late = threading.Timer(30 * SLOWNESS, pipe.clear)  # if the fsync waits for the worker
    late.start()
    try:
        for n in range(64):
            os.pwrite(fd, bytes(100), n * CHUNK + 100)
        wait_until(lambda: read_direct(m.mnt / "a", PAGE)[100:200] == data[100:200], 4)
        told = error_of(os.fsync, fd)
    finally:
        late.cancel()
        late.join()
        if not pipe.open:
            pipe.clear()
    assert told == "EIO"
    m.expect_log(r"what was written to chunk 0 is lost")
    os.close(fd)
    m.unmount()
    pipe.close()


def test_a_chunk_that_is_lost_and_not_in_the_log(mount):
    """That has nothing of its file, so no copy of it is kept, though it is there for another."""
    m = mount(f"{SLOW},codec=zstd,level=3")
    fd, _ = made(m)
    os.close(fd)
    m.remount()
    other, kept = made(m, "other", seed=9)
    patch(other, kept, 5)
    assert len(records(log_of(m))) == 1
    with open(m.stored("a"), "r+b") as f:
        f.seek(os.fstat(f.fileno()).st_size * 3 // 8)
        f.write(bytes(64))
    m.allow("a.b2frame: (read|what was written)")
    fd = os.open(m.mnt / "a", os.O_RDWR)
    for n in range(64):
        os.pwrite(fd, blob(n, PAGE, "noise"), n * CHUNK + 8192)
    error_of(os.ftruncate, fd, (4 << 20) - 1)  # no list of bytes: its fsync commits
    wait_until(lambda: error_of(os.fsync, fd) is None, 10, "the end of errors")
    m.expect_log(r"what was written to chunk \d+ is lost")
    assert not (m.backing / ASIDE).exists()
    os.close(fd)
    crash(m, other)
    m.start()
    assert (m.mnt / "other").read_bytes() == kept


def test_a_record_has_what_was_committed_without_a_sync(mount):
    """As at a close. After a power cut the disk may not have that root, and the record is applied
    to the one before it."""
    m = mount(SLOW)
    fd, model = made(m)
    before = m.stored("a").read_bytes()
    for at in range(0, 50 * PAGE, 10 * PAGE):
        model[at : at + PAGE] = blob(at, PAGE, "noise")
        os.pwrite(fd, model[at : at + PAGE], at)
    os.close(os.dup(fd))
    assert m.stored("a").read_bytes()[:87] != before[:87]
    patch(fd, model, 2)
    assert len(records(log_of(m))) == 1
    crash(m, fd)
    m.stored("a").write_bytes(before)
    m.start()
    assert (m.mnt / "a").read_bytes() == model


def rewrite_chunks(fd, m):
    """Whole chunks until the frame gets a new root: that of a part, as nothing was synced."""
    before = m.stored("a").read_bytes()[:87]
    for turn in range(20):
        for n in range(32):
            os.pwrite(fd, blob(turn * 100 + n, CHUNK, "noise"), n * CHUNK)
            if m.stored("a").read_bytes()[:87] != before:
                return
    raise AssertionError("no commit in parts")


@pytest.mark.parametrize("n", [1, 2])
def test_a_part_is_not_the_commit_that_failed(faulty, n):
    """A part that comes later does not have what was logged in between. n: a
    chunk; index and trailer."""
    m, fault = faulty(f"{SLOW},workers=1,codec=lz4,tune=off", "^cframefs: (error|warning)")
    model = bytearray(blob(1, 4 << 20, "noise"))
    (m.mnt / "a").write_bytes(model)
    fd = os.open(m.mnt / "a", os.O_RDWR | os.O_DIRECT)
    os.fsync(fd)
    os.pwrite(fd, blob(70, PAGE, "text"), 60 * CHUNK)
    fault.set(n, Fault.WRITE, errno.EIO)
    assert error_of(os.fsync, fd) == ("EIO" if fault.came() else None)
    fault.set(0)
    for i in range(32, 60):
        for at in (i * CHUNK, i * CHUNK + 2 * PAGE):
            data = blob(at, PAGE, "text")
            os.pwrite(fd, data, at)
            model[at : at + PAGE] = data
    os.fsync(fd)
    assert len(records(log_of(m))) == 1
    rewrite_chunks(fd, m)
    crash(m, fd)
    m.start()
    assert (m.mnt / "a").read_bytes()[32 * CHUNK : 60 * CHUNK] == model[32 * CHUNK : 60 * CHUNK]


def test_a_sync_of_the_log_that_failed(faulty):
    """And lost what it was for: the fsync commits instead."""
    m, fault = faulty(SLOW, "^cframefs: (error|warning)")
    fd, model = made(m)
    patch(fd, model, 2)
    fault.set(1, Fault.SYNC, errno.EIO, lose=1)
    patch(fd, model, 3)
    assert fault.came()
    crash(m, fd)
    fault.set(0)
    m.start()
    assert (m.mnt / "a").read_bytes() == model


def test_the_log_of_a_file_that_may_have_a_newer_root(faulty):
    """An earlier daemon may have been killed between a root and its header. After a power cut in
    the same place of ours that root would be the newest whole one, and the log older than it. So
    ours is to be on the disk before its header: if it cannot, the header stays."""
    m, fault = faulty(SLOW, "a.b2frame: ", "keeps what was synced")
    fd, model = made(m)
    header = m.stored("a").read_bytes()[:87]
    os.pwrite(fd, blob(7, 100_000, "text"), 50_000)
    os.close(fd)
    wait_until(lambda: m.stored("a").read_bytes()[:87] != header, 10, "close commits")
    m.kill()
    with open(m.stored("a"), "r+b") as f:
        f.write(header)
    m.start()
    fd = os.open(m.mnt / "a", os.O_RDWR)
    assert os.pread(fd, len(model), 0) == model
    patch(fd, model, 2)
    assert len(records(log_of(m))) == 1
    fault.set(1, Fault.SYNC, errno.EIO, forever=1)
    assert error_of(os.close, fd) == "EIO"
    wait_until((m.backing / ASIDE).exists, 10, "the log is kept")
    fault.set(0)
    m.unmount()
    assert m.stored("a").read_bytes()[:87] == header
    assert len(records(m.backing / ASIDE)) == 1


def test_the_log_of_a_commit_whose_last_sync_failed(faulty):
    """And lost the header. Its file is closed unchanged, but a sync without a commit would not
    bring the header back, and nothing else has what was synced."""
    m, fault = faulty(SLOW, "^cframefs: (error|warning)")
    fd, model = made(m)
    patch(fd, model, 2)
    assert len(records(log_of(m))) == 1
    os.ftruncate(fd, len(model) - 100)  # no list of bytes: its fsync commits
    fault.set(2, Fault.SYNC, errno.EIO, lose=1)
    assert error_of(os.fsync, fd) == "EIO" and fault.came()
    fault.set(0)
    error_of(os.close, fd)
    m.remount()
    assert (m.mnt / "a").read_bytes() == model[:-100]


def test_the_sync_of_a_closed_file_failed(faulty):
    """Its commit had none, and only the log has for sure what was synced: it is kept."""
    m, fault = faulty(SLOW, "cframefs-intent.unapplied.1: keeps what was synced")
    fd, model = made(m)
    patch(fd, model, 2)
    assert len(records(log_of(m))) == 1
    os.close(fd)
    assert len(records(log_of(m))) == 1
    fault.set(1, Fault.SYNC, errno.EIO)
    m.unmount()
    assert fault.came() and len(records(m.backing / ASIDE)) == 1


def sync_of_closed_fails(m, fault):
    """The syncs of two files that were closed with records in the log: the first one fails, the
    other waits. False: they may have been made before, since the log was quiet for too long, or
    everything was committed."""
    mounted = time.monotonic()
    m.start()
    fds = [made(m, name)[0] for name in "ab"]
    began = time.monotonic()
    for fd in fds:
        for n in range(60):  # of few chunks: what a commit replaces is no reason for a sync
            os.pwrite(fd, blob(n, PAGE, "text"), 2 * PAGE * n)
        os.fsync(fd)
    in_log = len(records(log_of(m)))
    for fd in fds:
        os.close(fd)
    fault.set(1, Fault.SYNC, errno.EIO, forever=Fault.THEN_WAIT)
    now = time.monotonic()
    if now - began > 1.9 or now - mounted > 19:  # commit=20, and a tenth of it
        fault.set(0)
        m.unmount()
        return False
    assert in_log == 2
    wait_until(lambda: fault.control.hits == 2, 10, "the second sync")
    return True


def test_opened_after_the_sync_of_a_closed_file_failed(mount, work):
    """While those of other files are under way: what is written to it now is believed only after
    a commit with syncs."""
    m = mount("commit=20,chunksize=64K,blocksize=16K", start=False)
    m.allow("cframefs-intent.unapplied.1: keeps what was synced", "background commit")
    fault = Fault(m, work / "fault")
    assert any(sync_of_closed_fails(m, fault) for _ in range(20))
    writer = threading.Thread(target=write_at, args=(m.mnt / "a", 5, b"new"))
    writer.start()
    writer.join(0.5)
    syncs = writer.is_alive()
    fault.set(0)
    writer.join()
    assert syncs


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC], ids=["EIO", "ENOSPC"])
def test_the_name_of_a_new_log_is_synced(faulty, error):
    """Before that the log may be gone after a power cut: where it fails, the fsync commits, and the
    next one tries again."""
    m, fault = faulty(SLOW, "^cframefs: (error|warning)")
    fd, model = made(m)
    assert not log_of(m).exists()
    for seed in (2, 3):
        fault.set(1, Fault.SYNC, error)
        patch(fd, model, seed)
        assert fault.came() and fault.last() == "fsync"
    log_of(m).unlink(missing_ok=True)
    crash(m, fd)
    m.start()
    assert (m.mnt / "a").read_bytes() == model


def test_an_applied_log_goes_once_its_frames_are_durable(logged, work):
    """Those, too, that had all of it already: one sync for all, or the log is kept."""
    m, fd, states = logged
    crash(m, fd)
    frame, log = m.stored("a").read_bytes(), log_of(m).read_bytes()
    fault = Fault(m, work / "fault")
    m.allow("^cframefs: error")
    for n in range(1, 10):
        fault.set(n, Fault.SYNC, errno.EIO)
        m.start()
        assert fault.came()
        assert (m.backing / ASIDE).read_bytes() == log and not log_of(m).exists()
        m.unmount()
        if fault.last() == "syncfs":
            break
        (m.backing / ASIDE).unlink()
        with open(m.stored("a"), "r+b") as f:
            f.write(frame)
            f.truncate()
        log_of(m).write_bytes(log)
    assert fault.last() == "syncfs"


def test_the_log_of_a_removed_file_stays_until_that_is_durable(faulty):
    """A power cut might bring its name back. Here that fails until the mount ends."""
    m, fault = faulty(SLOW, "the backing file system could not be synced")
    fd, model = made(m)
    patch(fd, model, 2)
    fault.set(1, Fault.SYNC, errno.EIO, forever=1)
    os.unlink(m.mnt / "a")
    os.close(fd)
    m.unmount()
    assert fault.last() == "syncfs" and len(records(log_of(m))) == 1
    fault.off()
    m.start()
    m.unmount()
    assert not os.listdir(m.backing)


def test_a_name_that_the_mount_does_not_know(faulty):
    """The known one is removed, and the disk fails: what was synced is another link's, too."""
    m, fault = faulty(SLOW, "^cframefs: (error|warning)")
    fd, model = made(m)
    os.link(m.stored("a"), m.backing / "b.b2frame")
    patch(fd, model, 2)
    assert len(records(log_of(m))) == 1
    (m.mnt / "a").unlink()
    os.pwrite(fd, b"not synced", 0)
    fault.set(1, Fault.WRITE, errno.EIO, forever=1)
    assert error_of(os.close, fd) == "EIO"
    m.expect_log("closed with unwritten data")
    fault.set(0)
    m.unmount()
    assert len(records(m.backing / ASIDE)) == 1


@pytest.mark.parametrize("why", ["mode", "owner"])
def test_a_log_that_others_could_have_made(logged, root, why):
    m, fd, states = logged
    crash(m, fd)
    log = log_of(m).read_bytes()
    if why == "mode":
        log_of(m).chmod(0o622)
    else:
        os.chown(log_of(m), 65534, 65534)
    m.allow("of another directory or user").start()
    assert (m.mnt / "a").read_bytes() == states[0]
    assert (m.backing / ASIDE).read_bytes() == log and not log_of(m).exists()


def test_a_kept_log_is_not_replaced_where_it_cannot_be_looked_at(logged, work):
    m, fd, _ = logged
    crash(m, fd)
    log = log_of(m).read_bytes()
    log_of(m).chmod(0o622)
    (m.backing / ASIDE).write_bytes(b"that of an earlier crash")
    fault = Fault(m, work / "fault")
    fault.set(1, Fault.ACCESS, errno.EIO)
    m.allow("cannot be kept as").start()
    assert fault.came()
    assert (m.backing / ASIDE).read_bytes() == b"that of an earlier crash"
    assert log_of(m).read_bytes() == log


@pytest.mark.parametrize("forever", [0, 1], ids=["once", "from-then-on"])
def test_a_mount_that_cannot_open_something(logged, work, forever):
    """Each open fails: the mount is refused, or what was synced is there, or the log is kept."""
    m, fd, states = logged
    crash(m, fd)
    (m.backing / "d/e").mkdir(parents=True)
    m.stored("a").rename(m.backing / "d/e/a.b2frame")
    stored = m.backing / "d/e/a.b2frame"
    frame, log = stored.read_bytes(), log_of(m).read_bytes()
    m.allow("^cframefs: (error|warning)")
    fault = Fault(m, work / "fault")
    outcomes, came = set(), True
    n = 0
    while came:
        n += 1
        stored.write_bytes(frame)
        for name in (LOG, ASIDE):
            (m.backing / name).unlink(missing_ok=True)
        log_of(m).write_bytes(log)
        log_of(m).chmod(0o600)
        fault.set(n, Fault.OPEN, errno.EACCES, forever)
        try:
            m.start()
            up = True
        except (MountFailed, PermissionError):
            up = m.running()
        came = fault.came()
        fault.set(0)
        kept = [p for p in (log_of(m), m.backing / ASIDE) if p.exists()]
        if up and not kept:
            assert (
                wait_until(lambda: (m.mnt / "d/e/a").exists(), 10)
                and (m.mnt / "d/e/a").read_bytes() == states[-1]
            ), n
        else:
            assert [p.read_bytes() for p in kept] == [log], n
        outcomes.add((up, len(kept)))
        if up:
            m.unmount()
    assert outcomes == {(True, 0), (True, 1), (False, 1)}


@pytest.mark.parametrize("n", range(1, 7))
def test_a_wrong_byte_once_in_the_log(logged, work, n):
    """Which came from the way to the disk: three records are read, of each its head before."""
    m, fd, states = logged
    crash(m, fd)
    fault = Fault(m, work / "fault")
    fault.set(n, Fault.READ, how=Fault.WRONG)
    m.start()
    assert fault.came()
    assert (m.mnt / "a").read_bytes() == states[-1]


@pytest.mark.parametrize("then", ["a", "b"])
def test_a_sync_that_failed_for_a_reader(faulty, then):
    """The kernel tells of it once. What is written next to any file, or to this one while the
    reader has it open, is believed only after a commit with syncs."""
    m, fault = faulty("commit=1000,intent=0", "^cframefs: (error|warning)")
    for name in "ab":
        (m.mnt / name).write_bytes(blob(1, 100_000, "text"))

    def write(name):
        before = stats(m)["write"]["disk_syncs"]
        with open(m.mnt / name, "r+b") as f:
            f.write(b"new")
        return (
            wait_until(lambda: m.stored(name).read_bytes() != frames[name], 10)
            and stats(m)["write"]["disk_syncs"] - before
        )

    frames = {name: m.stored(name).read_bytes() for name in "ab"}
    assert write("a") == 0
    frames["a"] = m.stored("a").read_bytes()
    with open(m.mnt / "a", "rb") as f:
        fault.set(1, Fault.SYNC, errno.EIO)
        assert error_of(os.fsync, f.fileno()) == "EIO"
        fault.set(0)
        assert then != "a" or write("a") > 0
    assert then != "b" or write("b") > 0


def test_an_fsync_after_one_that_failed_for_a_reader(faulty):
    """It does not note as durable what the first may have lost, but stores that anew."""
    m, fault = faulty("commit=1000,intent=0", "^cframefs: (error|warning)")
    (m.mnt / "a").write_bytes(blob(1, 100_000, "noise"))
    with open(m.mnt / "a", "rb") as f:
        fault.set(1, Fault.SYNC, errno.EIO)
        assert error_of(os.fsync, f.fileno()) == "EIO"
        fault.set(0)
        before = stats(m)["write"]["disk_bytes"]
        os.fsync(f.fileno())
        assert stats(m)["write"]["disk_bytes"] - before > 100_000


def rename_it(path):
    path.rename(path.with_name("other"))


def replace_another(path):
    path.with_name("new").touch()
    path.with_name("new").rename(path.with_name("another"))


CHANGES = {
    "mode": lambda path: path.chmod(0o600),
    "owner": lambda path: os.chown(path, os.getuid(), os.getgid()),
    "times": lambda path: os.utime(path, (1, 1)),
    "attribute": lambda path: os.setxattr(path, "user.a", b"x"),
    "wish": lambda path: os.setxattr(path, "user.cframefs.tune", b"off"),
    "rename": rename_it,
    "link": lambda path: os.link(path, path.with_name("other")),
    "unlink": lambda path: path.with_name("another").unlink(),
    "replace": replace_another,
}


def has_to_write(m, backing):
    """The daemon has the file open for writing: its last close comes after close(2). By number:
    a descriptor of a file that was made without a name goes on naming none."""
    there = Path(f"/proc/{m.proc.pid}")
    for fd in os.listdir(there / "fd"):
        with contextlib.suppress(FileNotFoundError):
            info = dict(
                line.split(":") for line in (there / "fdinfo" / fd).read_text().split("\n")[:2]
            )
            flags = int(info["flags"], 8)
            same = os.path.samefile(there / "fd" / fd, backing)
            if flags & os.O_ACCMODE == os.O_RDWR and same:
                return True
    return False


@pytest.mark.parametrize("mode", ["rb", "r+b"])
@pytest.mark.parametrize("change", CHANGES)
def test_fsync_is_more_than_fdatasync(faulty, change, mode):
    """What has changed of a file beside its bytes; and it is told when that fails."""
    m, fault = faulty("commit=1000,intent=0", "^cframefs: (error|warning)")
    path = m.mnt / "a"
    with open(path, "wb") as f:
        f.write(blob(1, 100_000, "text"))
        assert has_to_write(m, m.stored("a"))
    os.link(path, path.with_name("another"))
    if change in ("attribute", "wish") and error_of(os.setxattr, m.stored("a"), "user.b", b""):
        pytest.skip("no attributes here")
    wait_until(lambda: not has_to_write(m, m.stored("a")), 10, "the last close")
    with open(path, mode, buffering=0) as f:
        os.fsync(f)  # after which it is known that the bytes are there
        CHANGES[change](path)
        os.fdatasync(f)
        fault.set(1, Fault.SYNC, errno.EIO)
        assert error_of(os.fdatasync, f) is None and not fault.came()
        fault.set(1, Fault.SYNC, errno.EIO)
        assert error_of(os.fsync, f) == "EIO"
        fault.set(0)
        os.fsync(f)
        fault.set(1, Fault.SYNC, errno.EIO)
        assert error_of(os.fsync, f) is None and not fault.came()  # once
        fault.set(0)


@pytest.mark.parametrize("mode", ["rb", "r+b"])
def test_attributes_of_before(faulty, mode):
    """What was changed when the daemon did not know the file yet, or knew it once, gets to the
    disk with the first fsync."""
    m, fault = faulty("commit=1000,intent=0", "^cframefs: (error|warning)")
    (m.mnt / "a").write_bytes(b"some text")
    (m.mnt / "a").chmod(0o600)
    m.remount()
    with open(m.mnt / "a", mode, buffering=0) as f:
        fault.set(1, Fault.FSYNC, errno.EIO)
        assert error_of(os.fdatasync, f) is None
        assert error_of(os.fsync, f) == "EIO"
        assert error_of(os.fsync, f) is None
        fault.set(1, Fault.FSYNC, errno.EIO)
        assert error_of(os.fsync, f) is None and not fault.came()  # once
        fault.set(0)


def test_a_mode_that_comes_with_a_time(mount, work, root):
    """In one request: the cut of a file that loses set-id bits by it."""
    m = mount("commit=1000,intent=0,allow_other", start=False).allow("^cframefs: (error|warning)")
    fault = Fault(m, work / "fault")
    fault.set(0, Fault.OLD_KERNEL)
    m.start()
    m.backing.chmod(0o755)
    path = m.mnt / "a"
    path.write_bytes(b"some text")
    os.chown(path, NOBODY, NOBODY)
    path.chmod(0o6755)
    with open(path, "r+b", buffering=0) as f:
        os.fsync(f)
        as_nobody(lambda: os.ftruncate(f.fileno(), 5))
        assert path.stat().st_mode & 0o7777 == 0o755
        fault.set(1, Fault.FSYNC, errno.EIO)
        assert error_of(os.fsync, f) == "EIO"
        fault.set(0)


def test_an_mtime_that_waited_for_the_commit(faulty):
    """The commit gives it to the file after its own syncs."""
    m, fault = faulty("commit=1000,intent=0", "^cframefs: (error|warning)")
    with open(m.mnt / "a", "w+b", buffering=0) as f:
        f.write(bytes(1000))
        os.fsync(f)
        f.write(b"new")
        os.utime(f.fileno(), (1, 1))
        fault.set(3, Fault.SYNC, errno.EIO)
        assert error_of(os.fsync, f) == "EIO"
        fault.set(0)
        os.fsync(f)


def test_attributes_and_a_commit_take_turns(faulty):
    """The kernel tells a descriptor once of pages that it lost: a commit, after which the log is
    not needed, would be told nothing if the sync of attributes beside it was."""
    m, fault = faulty("commit=5,chunksize=64K,blocksize=16K")
    fd, model = made(m)
    os.chmod(m.mnt / "a", 0o600)
    fault.set(1, Fault.FSYNC, how=Fault.WAIT)
    fsync = threading.Thread(target=patch, args=(fd, model, 1))
    fsync.start()
    try:
        wait_until(fault.came, 60, "the sync of attributes")
        before = m.stored("a").read_bytes()[:87]
        time.sleep(3)  # frames catch up after a pause of half a second
        assert m.stored("a").read_bytes()[:87] == before
    finally:
        fault.set(0)
        fsync.join()
    os.close(fd)


def copied(log):
    held = log.read_bytes()
    log.unlink()
    log.write_bytes(held)
    log.chmod(0o600)


def linked(log):
    log.unlink()
    log.symlink_to("nowhere")


def a_directory(log):
    log.unlink()
    log.mkdir()


@pytest.mark.parametrize(
    "change",
    [
        os.unlink,
        lambda log: log.rename(log.parent / "elsewhere"),
        lambda log: os.truncate(log, PAGE),
        copied,
        linked,
        a_directory,
    ],
    ids=["removed", "renamed", "cut", "copied", "linked", "directory"],
)
def test_a_log_that_is_taken_away(mount, change):
    """As by a program that makes the backing directory the same as another one. No mount would
    find what later fsyncs put there."""
    m = mount(SLOW)
    fd, model = made(m)
    patch(fd, model, 2)
    change(log_of(m))
    m.allow("was taken away or replaced", "is not a file")
    patch(fd, model, 3)
    crash(m, fd)
    left = sorted(os.listdir(m.backing))
    m.start()
    assert (m.mnt / "a").read_bytes() == model
    m.expect_log("was taken away or replaced")
    patch(fd := os.open(m.mnt / "a", os.O_RDWR), model, 4)  # by a log again, where it may have one
    os.close(fd)
    m.unmount()
    assert set(left) - {LOG} <= set(os.listdir(m.backing))


def test_a_log_that_cannot_be_opened(mount):
    """Nobody knows what is in it, or whether there is one: with RLIMIT_NOFILE=12 it could not be
    opened, and was said to have what was synced last, where it was not even there."""
    m = mount(start=False)
    os.mknod(log_of(m), stat.S_IFSOCK)
    with pytest.raises(MountFailed, match="it may have what was synced last"):
        m.start()
    m.allow("it may have what was synced last", "cannot be mounted")


@pytest.mark.parametrize("later", ["write", "end"])
def test_a_log_that_cannot_be_put_aside_at_once(faulty, later):
    """The disk takes no commit when the file is closed, nor another name for the log. When it does
    again, a newer root must not make what was synced look as if it were in the file."""
    m, fault = faulty(SLOW)
    fd, model = made(m)
    patch(fd, model, 2)
    patch(fd, model, 3)
    m.allow("cannot be kept as", "closed with unwritten data", "keeps what was synced")
    fault.set(1, Fault.CHANGE | Fault.FSYNC, errno.EROFS, forever=1)
    assert error_of(os.close, fd) == "EROFS"
    m.expect_log("closed with unwritten data")
    fault.set(0)
    if later == "write":
        fd = os.open(m.mnt / "a", os.O_RDWR)
        os.pwrite(fd, b"newer", 100)
        os.fsync(fd)
        os.close(fd)
    m.unmount()
    assert len(records(m.backing / ASIDE)) == 2
    assert not log_of(m).exists()


@contextlib.contextmanager
def older_in_the_log(mount, damage=False):
    """(mount, descriptor for O_DIRECT, bytes of a, a function that has it committed in part): its
    record of some pages stays in the log, since that is needed for another file."""
    m = mount(SLOW)
    fd, model = made(m, size=24 * CHUNK)
    model[:] = blob(8, len(model), "noise")
    os.pwrite(fd, model, 0)
    os.fsync(fd)
    os.close(fd)
    if damage:
        m.unmount()
        raw = bytearray(m.stored("a").read_bytes())
        raw[raw.index(model[-CHUNK : -CHUNK + 64])] ^= 0x20
        m.stored("a").write_bytes(raw)
        m.start()
    other, kept = made(m, "other", seed=9)
    patch(other, kept, 5)
    fd = os.open(m.mnt / "a", os.O_RDWR | os.O_DIRECT)
    for n in range(16):
        os.pwrite(fd, blob(n, PAGE, "noise"), n * CHUNK + 8192)
    for at in range(0, 16 * CHUNK, 4 * PAGE):
        os.pwrite(fd, blob(at, PAGE, "noise"), at)
    os.fsync(fd)
    assert len(records(log_of(m))) == 2
    page = mmap.mmap(-1, PAGE)

    def part():
        time.sleep(1)  # the workers store what is full
        before = m.stored("a").read_bytes()[:87]

        def made_room():
            # a write that cannot be; first it frees the space of what was replaced
            assert error_of(os.pwrite, fd, page, 1 << 62) == "EFBIG"
            return m.stored("a").read_bytes()[:87] != before

        wait_until(made_room, 20, "a commit in part")

    try:
        yield m, fd, model, part
    finally:
        crash(m, fd, other)
    m.start()
    assert (m.mnt / "other").read_bytes() == kept


def test_a_part_without_a_chunk_that_is_lost(mount):
    """What waited when it was made is gone, so that nothing was left for a full commit."""
    new = blob(7, 16 * CHUNK, "noise")
    with older_in_the_log(mount, damage=True) as (m, fd, model, part):
        m.allow("a.b2frame: (read|what was written)", "keeps what was synced", "checksum")
        put_direct(fd, blob(4, PAGE, "noise"), len(model) - CHUNK + PAGE)
        put_direct(fd, new)
        part()
        assert error_of(os.fsync, fd) == "EIO"
        assert error_of(os.fsync, fd) is None
    with open(m.mnt / "a", "rb", buffering=0) as f:
        assert f.read(len(new)) == new


def test_a_part_before_bytes_that_never_come(mount):
    """A new first chunk whose first bytes might have been on their way."""
    new = blob(7, 24 * CHUNK - PAGE, "noise")
    with older_in_the_log(mount) as (m, fd, _, part):
        os.ftruncate(fd, 0)
        put_direct(fd, new, PAGE)
        put_direct(fd, new[:PAGE], PAGE)  # counts as a full chunk
        part()
        os.fsync(fd)
    assert (m.mnt / "a").read_bytes() == bytes(PAGE) + new


@contextlib.contextmanager
def damaged_below_the_log(m, size=8 * CHUNK):
    """(descriptor, bytes) of a file, of which a record has pages in each chunk. What is stored
    below those in the first one is damaged by then."""
    fd, model = made(m, size=size)
    model[:] = blob(8, len(model), "noise")
    os.pwrite(fd, model, 0)
    os.fsync(fd)
    os.close(fd)
    m.remount()  # what was read before is forgotten
    fd = os.open(m.mnt / "a", os.O_RDWR)
    for n in range(64):
        at = 2 * PAGE * n
        model[at : at + PAGE] = blob(n, PAGE, "noise")
        os.pwrite(fd, model[at : at + PAGE], at)
    os.fsync(fd)
    assert len(records(log_of(m))) == 1
    raw = m.stored("a").read_bytes()
    with open(m.stored("a"), "r+b") as f:
        f.seek(raw.index(model[PAGE : PAGE + 64]))
        f.write(bytes(64))
    m.allow("a.b2frame: (read|what was written)", "keeps (what was synced|the intent log)")
    try:
        yield fd, bytes(model)
    finally:
        crash(m, fd)


def shows_the_rest(m, model):
    """All chunks but the first one."""
    with open(m.mnt / "a", "rb", buffering=0) as f:
        f.seek(CHUNK)
        return f.read(len(model)) == model[CHUNK:]


def test_damage_that_replay_finds(mount):
    """What was synced over it is in the log and nowhere else."""
    m = mount(SLOW)
    with damaged_below_the_log(m) as (_, model):
        pass  # it ends with a crash
    m.start()
    m.expect_log(r"what was written to chunk 0 is lost")
    assert shows_the_rest(m, model)
    assert len(records(m.backing / ASIDE)) == 1
    assert not log_of(m).exists()


@contextlib.contextmanager
def stuck_log(m):
    """Whatever the daemon logs, it waits: the pipe that it writes to is full, and nobody reads."""
    children = Path(f"/proc/{m.proc.pid}/task/{m.proc.pid}/children").read_text().split()
    (cat,) = (n for n in children if Path(f"/proc/{n}/comm").read_text() == "cat\n")
    os.kill(int(cat), signal.SIGSTOP)
    wait_until(lambda: ") T " in Path(f"/proc/{cat}/stat").read_text(), 10, "its reader's stop")
    pipe = os.open(f"/proc/{m.proc.pid}/fd/2", os.O_WRONLY | os.O_NONBLOCK)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(pipe, b"\n" * PAGE)
    try:
        yield
    finally:
        os.kill(int(cat), signal.SIGCONT)
        os.close(pipe)


def test_closed_while_a_chunk_is_lost(mount):
    """By then the file has nothing to store, but whoever closes it is told."""
    m = mount("commit=20,chunksize=1M,blocksize=16K", start=False)
    m.argv = ["bash", "-c", 'exec "$@" 2> >(exec cat)', "bash", *m.argv]
    m.start()
    with damaged_below_the_log(m, size=1 << 20) as (fd, _):
        closed, told = os.dup(fd), []
        closer = threading.Thread(target=lambda: told.append(error_of(os.close, closed)))
        with stuck_log(m):
            time.sleep(2.5)  # after two seconds without an fsync the chunk is stored
            closer.start()
            closer.join(0.2)
        closer.join()
        assert told == ["EIO"]


def test_killed_while_a_chunk_is_lost(mount, work):
    """The other chunks of its record are in the log, until the frame has them."""
    m = mount(f"{SLOW},workers=1", start=False)
    fault = Fault(m, work / "fault")
    for n in range(1, 100):
        m.start()
        with damaged_below_the_log(m) as (fd, model):
            fault.set(n, Fault.CHANGE, how=Fault.KILL)
            os.ftruncate(fd, len(model) - 1)  # no list of bytes: its fsync commits
            error_of(os.fsync, fd)
            came = fault.came()
            fault.set(0)
        m.start()
        assert shows_the_rest(m, model[: (m.mnt / "a").stat().st_size]), n
        assert (m.backing / ASIDE).exists()
        m.unmount()
        if not came:
            break
        for path in m.backing.iterdir():
            path.unlink()
    assert not came and n > 8
