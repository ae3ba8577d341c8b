"""The intent log: what an fsync put there survives the daemon, and comes into
the frame at the next mount."""

import errno
import mmap
import os
import random
import shutil
import struct
import subprocess
import threading
import time

import pytest

from libblosc import check
from libdata import blob
from libfault import Fault
from libintent import (
    ASIDE,
    LOG,
    PAGE,
    SLOW,
    crash,
    generation,
    log_of,
    made,
    patch,
    records,
)
from libmount import BUILD, MountFailed, another_mount, wait_until
from libposix import error_of
from libstats import Moved

TOOL = BUILD / "tests/c/intent_tool"


def test_what_was_synced_comes_back(logged):
    m, fd, states = logged
    before = m.stored("a").read_bytes()
    crash(m, fd)
    assert m.stored("a").read_bytes() == before  # the frame alone does not have it
    check(m.stored("a"), states[0], random.Random(1))
    m.start()
    assert (m.mnt / "a").read_bytes() == states[-1]
    assert not log_of(m).exists()
    check(m.stored("a"), states[-1], random.Random(1))
    m.expect_log("intent log: 1 files")
    assert m.log_text().count("intent log: what was synced last is being written") == 1


def test_the_log_is_hidden(logged):
    m, fd, _ = logged
    assert os.listdir(m.mnt) == ["a"]
    assert not (m.mnt / LOG).exists()
    for make in (lambda p: p.mkdir(), lambda p: p.symlink_to("x"), lambda p: os.mkfifo(p)):
        with pytest.raises(OSError):
            make(m.mnt / LOG)
    os.close(fd)


def test_a_clean_end_leaves_no_log(logged):
    m, fd, states = logged
    os.close(fd)
    m.unmount()
    assert os.listdir(m.backing) == ["a.b2frame"]
    check(m.stored("a"), states[-1], random.Random(1))


def test_the_frame_catches_up(mount):
    m = mount("commit=2,chunksize=64K")
    fd, model = made(m)
    patch(fd, model, 2)
    inode = log_of(m).stat().st_ino
    wait_until(lambda: not records(log_of(m)), 20, "the log forgets what its frame has")
    check(m.stored("a"), bytes(model), random.Random(1))
    first = generation(log_of(m))
    patch(fd, model, 3)
    assert (
        generation(log_of(m)) > first and log_of(m).stat().st_ino == inode
    )  # the same file, used anew
    crash(m, fd)
    m.start()
    assert (m.mnt / "a").read_bytes() == model


def test_a_closed_file_leaves_the_log(mount):
    """Its commit was not synced by the close, but is soon."""
    m = mount("commit=2,chunksize=64K")
    fd, model = made(m)
    patch(fd, model, 2)
    assert records(log_of(m))
    os.close(fd)
    wait_until(lambda: not records(log_of(m)), 20, "the log forgets what its frame has")
    check(m.stored("a"), bytes(model), random.Random(1))
    m.kill()
    m.start()
    assert (m.mnt / "a").read_bytes() == model


def test_what_was_committed_is_not_logged(mount):
    """It needs a sync only; and as no commit is due, the log would not forget it."""
    m = mount(SLOW)
    fd, _ = made(m, size=16 << 20)
    for at in range(0, 1 << 20, 4 * PAGE):
        os.pwrite(fd, b"new", at)
    os.close(os.dup(fd))  # a commit that does not wait for the disk
    with Moved(m) as moved:
        os.fsync(fd)
    os.close(fd)
    assert moved("log", "records") == 0 and moved("write", "disk_syncs") > 0


@pytest.mark.parametrize("how", ["fsync", "close"])
def test_a_partial_commit_that_lacks_nothing(mount, how):
    """Nothing was left for a full one, so that the record of older bytes was applied once more."""
    m = mount(SLOW)
    other, kept = made(m, "other", seed=9)
    fd, model = made(m, size=3 << 19)
    model[:] = blob(8, len(model), "noise")
    os.pwrite(fd, model, 0)
    os.fsync(fd)
    patch(other, kept, 5)  # the log stays needed
    patch(fd, model, 2)
    direct = os.open(m.mnt / "a", os.O_RDWR | os.O_DIRECT)
    page = mmap.mmap(-1, len(model))
    page[:] = data = blob(7, len(model), "noise")
    step = len(data) // 2
    with Moved(m) as moved:
        for at in range(0, len(data), step):
            os.pwrite(direct, memoryview(page)[at : at + step], at)
        time.sleep(1)  # the workers have stored all of it
        # a write that cannot be; first it frees the space of what was replaced
        assert error_of(os.pwrite, direct, memoryview(page)[:PAGE], 1 << 62) == "EFBIG"
    assert moved("write", "commits") > 0
    if how == "fsync":
        os.fsync(direct)
    os.close(fd)
    os.close(direct)
    crash(m, other)
    m.start()
    assert (m.mnt / "a").read_bytes() == data
    assert (m.mnt / "other").read_bytes() == kept


def test_a_log_cut_anywhere(logged):
    """Each length of the log is the state after as many fsyncs as have their whole record in it."""
    m, fd, states = logged
    crash(m, fd)
    frame, log = m.stored("a").read_bytes(), log_of(m).read_bytes()
    ends = [at + n for at, n in records(log_of(m))]
    rng = random.Random(5)
    cuts = [
        0,
        1,
        127,
        128,
        129,
        ends[0] - 1,
        ends[0],
        ends[0] + 1,
        ends[1],
        ends[2] - 1,
        ends[2],
        rng.randrange(ends[2]),
    ]
    for cut in cuts:
        rewrite(m, frame, log[:cut])
        m.start()
        assert (m.mnt / "a").read_bytes() == states[sum(end <= cut for end in ends)], cut
        m.unmount()


def rewrite(m, frame, log):
    """The backing directory as it was, with the same inodes."""
    with open(m.stored("a"), "r+b") as f:
        f.write(frame)
        f.truncate()
    log_of(m).write_bytes(log)


def test_a_damaged_log(logged):
    """A flipped bit ends the log at its record: never other bytes, never half of a record."""
    m, fd, states = logged
    crash(m, fd)
    frame, log = m.stored("a").read_bytes(), log_of(m).read_bytes()
    places = records(log_of(m))
    rng = random.Random(6)
    for which in (0, 1, 2):
        at, length = places[which]
        for where in (8, 30, 60, 119, 125, 135, rng.randrange(128, length - PAGE)):
            bad = bytearray(log)
            bad[at + where] ^= 1 << rng.randrange(8)
            rewrite(m, frame, bad)
            m.start()
            assert (m.mnt / "a").read_bytes() == states[which], (which, where)
            if which == 1 or (which == 0 and where > 128):
                m.expect_log(rf"record {which + 1} is damaged, .* after it: {2 - which}$")
            m.unmount()


def test_only_records_in_a_row_count(logged):
    """Behind the last one may lie whole ones of an earlier time, when the log was used before."""
    m, fd, states = logged
    crash(m, fd)
    frame, log = m.stored("a").read_bytes(), log_of(m).read_bytes()
    first, second, third = (log[at : at + n] for at, n in records(log_of(m)))
    rewrite(m, frame, first + third)
    m.start()
    assert (m.mnt / "a").read_bytes() == states[1]
    m.unmount()
    rewrite(m, frame, b"")
    m.start()
    fd, model = os.open(m.mnt / "a", os.O_RDWR), bytearray(states[0])
    patch(fd, model, 9)
    [(at, n)] = records(log_of(m))
    newer = log_of(m).read_bytes()[at : at + n]
    crash(m, fd)
    rewrite(m, frame, newer + second)
    m.start()
    assert (m.mnt / "a").read_bytes() == model


def test_the_log_of_another_directory(logged, mount, work):
    m, fd, states = logged
    crash(m, fd)
    other = mount(start=False)
    shutil.copytree(m.backing, other.backing, dirs_exist_ok=True)
    other.options = "ro"
    other.start().expect_log("of another directory or user: what was synced last may be missing")
    other.remount("")
    other.allow("keeps the intent log")
    assert (other.mnt / "a").read_bytes() == states[0]
    assert (other.backing / ASIDE).read_bytes() == log_of(m).read_bytes()
    assert not log_of(other).exists()
    m.start()
    assert (m.mnt / "a").read_bytes() == states[-1]


def test_a_directory_below_is_mounted_first(mount, work):
    """Its frames would go on without what the log above has of them."""
    m = mount(SLOW)
    (m.mnt / "d/e").mkdir(parents=True)
    fd, model = made(m, "d/e/a")
    patch(fd, model, 2)
    crash(m, fd)
    below = mount("", start=False, backing=m.backing / "d/e").allow("mount that one first")
    with pytest.raises(MountFailed, match="directory above"):
        below.start()
    below.options = "ro"
    below.allow("of a directory above, and not shown").start()
    below.unmount()
    m.start()
    m.unmount()
    below.options = ""
    below.start()
    assert (below.mnt / "a").read_bytes() == model


def test_another_program_wrote_the_frame(logged, blosc2):
    m, fd, states = logged
    crash(m, fd)
    schunk = blosc2.open(str(m.stored("a")), mode="a")
    schunk.append_data(bytes(65536))
    m.allow("another program wrote", "keeps the intent log").start()
    assert (m.mnt / "a").read_bytes() == states[0] + bytes(65536)
    assert (m.backing / ASIDE).exists()


def test_an_older_state_of_the_frame(mount):
    """As from a backup: what was synced belongs on top of a later one."""
    m = mount(SLOW)
    fd, model = made(m)
    older, backup = bytes(model), m.stored("a").read_bytes()
    os.ftruncate(fd, len(model) - 100)
    os.fsync(fd)
    patch(fd, model, 2)
    assert len(records(log_of(m))) == 1
    crash(m, fd)
    with open(m.stored("a"), "r+b") as f:
        f.write(backup)
        f.truncate(len(backup))
    m.allow("the frame is older than what was synced of it", "keeps the intent log").start()
    assert (m.mnt / "a").read_bytes() == older
    assert len(records(m.backing / ASIDE)) == 1


def test_the_inode_is_another_file(logged):
    """The file is gone and its inode number may be that of a new one: nothing
    of the log is for that."""
    m, fd, _ = logged
    crash(m, fd)
    log = log_of(m).read_bytes()
    log_of(m).unlink()
    m.start()
    (m.mnt / "a").unlink()
    for i in range(20):
        (m.mnt / f"n{i}").write_bytes(b"new" * 50000)
    m.unmount()
    log_of(m).write_bytes(log)
    m.start()
    for i in range(20):
        assert (m.mnt / f"n{i}").read_bytes() == b"new" * 50000
    assert not (m.backing / ASIDE).exists() and not log_of(m).exists()


def test_the_inode_number_is_given_anew(logged):
    """To a frame that looks like the one of the log in all but its age."""
    m, fd, states = logged
    crash(m, fd)
    raw, number = m.stored("a").read_bytes(), m.stored("a").stat().st_ino
    m.stored("a").unlink()
    for i in range(100):
        m.stored(f"b{i}").write_bytes(raw)
        if m.stored(f"b{i}").stat().st_ino == number:
            break
    else:
        pytest.skip("this file system takes its time with that")
    m.start()
    assert (m.mnt / f"b{i}").read_bytes() == states[0]
    assert not (m.backing / ASIDE).exists() and not log_of(m).exists()


def test_what_the_frame_has_is_not_applied_again(logged):
    m, fd, _ = logged
    log = log_of(m).read_bytes()
    os.pwrite(fd, b"newest", 0)
    os.close(fd)  # commits
    wanted = (m.mnt / "a").read_bytes()
    m.unmount()
    log_of(m).write_bytes(log)
    m.start()
    assert (m.mnt / "a").read_bytes() == wanted
    assert not log_of(m).exists()


def test_a_commit_that_is_not_durable_may_be_lost(logged):
    """After a close the frame has a newer root; should a power cut take that,
    the log has the bytes still."""
    m, fd, states = logged
    old = m.stored("a").read_bytes()
    os.close(fd)
    wait_until(lambda: m.stored("a").read_bytes() != old, 10, "close commits")
    assert records(log_of(m))
    log = log_of(m).read_bytes()
    m.kill()
    rewrite(m, old, log)
    m.start()
    assert (m.mnt / "a").read_bytes() == states[-1]


def test_a_commit_that_is_not_durable_may_lack_a_chunk(logged, mount, root):
    """The same, where the disk has the newer root, which names what it does not have."""
    m, fd, states = logged
    old = m.stored("a").read_bytes()
    os.close(fd)
    wait_until(lambda: m.stored("a").read_bytes() != old, 10, "close commits")
    assert records(log_of(m))
    m.kill()
    new = m.stored("a").read_bytes()
    differs = next(n for n in range(PAGE, len(new)) if new[n : n + 1] != old[n : n + 1])
    with open(m.stored("a"), "r+b") as f:
        f.seek(differs + 64)
        f.write(bytes(64))
    with another_mount(m.backing) as backing:
        again = mount(SLOW, backing=backing).allow("went back to its newest whole state")
        assert (again.mnt / "a").read_bytes() == states[-1]
        again.unmount()


def test_changes_of_size_and_holes(mount):
    """What is no list of bytes is committed by its fsync; the log goes on after it."""
    m = mount(SLOW)
    fd, model = made(m)
    patch(fd, model, 2)
    os.ftruncate(fd, 3_000_001)
    del model[3_000_001:]
    os.fsync(fd)
    assert not records(log_of(m))
    patch(fd, model, 3)
    more = blob(9, 60_000, "text")
    os.pwrite(fd, more, len(model) + 5000)  # grows by writing: that a record can say
    model += bytes(5000) + more
    patch(fd, model, 4)
    assert len(records(log_of(m))) == 2
    crash(m, fd)
    m.start()
    assert (m.mnt / "a").read_bytes() == model
    check(m.stored("a"), bytes(model), random.Random(1))


def test_a_truncation_whose_number_is_lost(logged):
    """Header and trailer of an empty frame are in two places: a power cut may
    leave the first alone."""
    m, fd, _ = logged
    log = log_of(m).read_bytes()
    os.truncate(m.mnt / "a", 0)
    os.close(fd)
    m.unmount()
    frame = bytearray(m.stored("a").read_bytes())
    end = struct.unpack_from(">Q", frame, 16)[0]
    frame[end - 17 : end] = bytes(17)
    rewrite(m, frame, log)
    m.start()
    assert (m.mnt / "a").read_bytes() == b""
    assert os.listdir(m.backing) == ["a.b2frame"]


def test_mtime_comes_back(logged):
    m, fd, _ = logged
    mtime = os.fstat(fd).st_mtime_ns
    crash(m, fd)
    m.start()
    assert (m.mnt / "a").stat().st_mtime_ns == mtime


def test_unlinked_and_renamed(mount):
    m = mount(SLOW)
    fds, models = zip(*(made(m, name, seed=seed) for seed, name in enumerate("abc", 1)))
    for seed in (11, 12):
        for i, fd in enumerate(fds):
            patch(fd, models[i], seed + 10 * i)
    (m.mnt / "a").unlink()
    (m.mnt / "sub").mkdir()
    (m.mnt / "b").rename(m.mnt / "sub/other")
    os.link(m.mnt / "c", m.mnt / "sub/link")
    patch(fds[0], models[0], 50)
    crash(m, *fds)
    m.start()
    assert not (m.mnt / "a").exists()
    assert (m.mnt / "sub/other").read_bytes() == models[1]
    assert (m.mnt / "c").read_bytes() == models[2]
    assert (m.mnt / "sub/link").read_bytes() == models[2]


@pytest.mark.parametrize("depth", [400, 401])
def test_a_file_that_lies_deep_is_found_or_committed(mount, depth):
    """The next mount looks for frames in 400 directories below each other, with as many
    descriptors; what lies deeper is committed instead."""
    m = mount(SLOW)
    path = "d/" * depth
    (m.mnt / path).mkdir(parents=True)
    fd, model = made(m, f"{path}a")
    patch(fd, model, 2)
    assert bool(records(log_of(m))) == (depth <= 400)
    crash(m, fd)
    m.start()
    assert (m.mnt / path / "a").read_bytes() == model
    assert not (m.mnt / ASIDE).exists()


def test_the_log_of_an_ordinary_user_can_be_read_again(mount):
    """Whatever umask those had for whom files were made before."""
    m = mount(SLOW, start=False)
    right = "-dac_override,-dac_read_search"  # which root has, and nobody else
    m.argv = ["setpriv", "--bounding-set", right, "--inh-caps", right, *m.argv]
    m.start()
    fd, model = made(m)
    umask = os.umask(0o777)
    try:
        for i in range(40):  # by each of the daemon's threads
            os.close(os.open(m.mnt / f"x{i}", os.O_CREAT | os.O_RDWR))
    finally:
        os.umask(umask)
    patch(fd, model, 2)
    assert log_of(m).stat().st_mode & 0o777 == 0o600
    crash(m, fd)
    m.start()
    assert (m.mnt / "a").read_bytes() == model


def test_a_full_log(mount):
    """The log takes what fits; then fsync commits, and the log is used anew."""
    m = mount("commit=1000,intent=1M,chunksize=64K")
    fd, model = made(m)
    for seed in range(2, 12):
        patch(fd, model, seed)
        assert log_of(m).stat().st_size <= 1 << 20
    crash(m, fd)
    m.start()
    assert (m.mnt / "a").read_bytes() == model


def test_no_log(mount):
    m = mount("intent=0")
    fd, model = made(m)
    patch(fd, model, 2)
    assert not log_of(m).exists()
    check(m.stored("a"), bytes(model), random.Random(1))
    os.close(fd)


def test_a_mount_without_log_applies_one(logged):
    m, fd, states = logged
    crash(m, fd)
    m.options = "intent=0"
    m.start()
    assert (m.mnt / "a").read_bytes() == states[-1]


def test_a_frame_with_a_lock_file_is_committed(mount):
    m = mount(SLOW)
    fd, model = made(m)
    m.stored("a").with_name("a.b2frame.b2lock").touch()
    patch(fd, model, 2)
    check(m.stored("a"), bytes(model), random.Random(1))
    os.close(fd)


def test_read_only(logged):
    m, fd, states = logged
    crash(m, fd)
    log = log_of(m).read_bytes()
    m.options = "ro"
    m.allow("of 1 files, what was synced last is in the intent log, and not shown").start()
    assert (m.mnt / "a").read_bytes() == states[0]
    m.unmount()
    assert log_of(m).read_bytes() == log
    m.options = ""
    m.start()
    assert (m.mnt / "a").read_bytes() == states[-1]


def test_a_frame_that_cannot_be_opened(logged):
    """The log is kept for who repairs the frame: put back under its name, it is applied."""
    m, fd, states = logged
    crash(m, fd)
    frame, log = m.stored("a").read_bytes(), log_of(m).read_bytes()
    with open(m.stored("a"), "r+b") as f:
        f.write(b"no frame" * 20)
        f.truncate()
    m.allow(
        "what was synced last is not in it", "keeps the intent log", "shown under its own name"
    ).start()
    m.unmount()
    assert (m.backing / ASIDE).read_bytes() == log
    (m.backing / ASIDE).unlink()
    rewrite(m, frame, log)
    m.start()
    assert (m.mnt / "a").read_bytes() == states[-1]


def test_a_disk_that_is_full_at_the_mount(logged, work):
    """Nothing of the log is applied to a frame, or all of it: here at the second try."""
    m, fd, states = logged
    crash(m, fd)
    fault = Fault(m, work / "fault")
    fault.set(1, Fault.WRITE, forever=1)
    m.allow("what was synced last is not in it", "keeps the intent log").start()
    assert (m.mnt / "a").read_bytes() == states[0]
    fault.off()
    m.unmount()
    (m.backing / ASIDE).rename(log_of(m))
    m.start()
    assert (m.mnt / "a").read_bytes() == states[-1]


@pytest.mark.parametrize("calls", [Fault.WRITE, Fault.SPACE, Fault.SYNC, Fault.NAME])
def test_a_call_that_fails(faulty, calls):
    """An fsync that succeeds has made its bytes safe, whatever failed on the way to that."""
    m, fault = faulty(SLOW, "^cframefs: (error|warning)")
    fd, model = made(m)
    for n in range(1, 5):
        safe, states = bytes(model), []
        fault.set(n, calls, errno.EIO)
        for seed in range(3):
            try:
                patch(fd, model, 10 * n + seed)
                safe, states = bytes(model), []
            except OSError:
                states.append(bytes(model))
        fault.set(0)
        crash(m, fd)
        m.start()
        model = bytearray((m.mnt / "a").read_bytes())
        assert model in [safe, *states], n
        fd = os.open(m.mnt / "a", os.O_RDWR)
    os.close(fd)


def test_removed_files_leave_the_log(mount):
    m = mount("commit=2,chunksize=64K")
    fd, model = made(m)
    patch(fd, model, 2)
    (m.mnt / "a").unlink()
    patch(fd, model, 3)
    os.close(fd)
    wait_until(lambda: not records(log_of(m)), 20, "nobody needs the log")
    m.unmount()
    assert not os.listdir(m.backing)


@pytest.mark.concurrent
def test_many_threads(mount):
    """Fsyncs of several files at once share the log; each file is what it was at its last one."""
    m = mount(SLOW)
    files = [made(m, f"f{i}", 2 << 20, i) for i in range(6)]
    failed = []

    def work(i):
        try:
            for seed in range(4):
                patch(*files[i], 100 * i + seed)
        except OSError as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(files))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed and len(records(log_of(m))) > 12, "most of the 24 are in the log"
    crash(m, *(fd for fd, _ in files))
    m.start()
    for i, (_, model) in enumerate(files):
        assert (m.mnt / f"f{i}").read_bytes() == model, i


def test_the_list_of_records(logged):
    """What the tests take for records is what the daemon does."""
    m, fd, _ = logged
    crash(m, fd)
    got = subprocess.run(
        [TOOL, "list", log_of(m)], capture_output=True, text=True, check=True
    ).stdout.split()
    assert [tuple(map(int, word.split(":"))) for word in got] == records(log_of(m))
    m.start()


def test_records_hostile():
    """Records with right hashes and wrong content, cut and damaged ones: judged, never believed."""
    got = subprocess.run([TOOL, "hostile", "3000", "7"], capture_output=True, text=True)
    assert got.returncode == 0, got.stdout + got.stderr


def test_touched_ranges():
    got = subprocess.run([TOOL, "touched", "2000", "7"], capture_output=True, text=True)
    assert got.returncode == 0, got.stdout + got.stderr
