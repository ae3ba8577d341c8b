"""Blocks to which small reads come back, put into the kernel's page cache as a whole."""

import contextlib
import os
import random
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from libcover import CHANGES, assert_changed, change_waits
from libdata import blob
from libfault import Fault
from libmount import SLOWNESS, may_control_connections, wait_until
from libstats import Moved, stats

PAGE, BLOCK = 4096, 64 << 10
OPTIONS = "pipeline=shuffle:4+zstd:1,blocksize=64K,chunksize=256K,commit=0"


@pytest.fixture(autouse=True)
def guarded():
    """Nothing is pushed where nothing could end a daemon that is killed meanwhile."""
    if not may_control_connections():
        pytest.skip("fusectl is not mounted here and can't be")


def content(size, seed=1):
    return (blob(seed, 250_007, "floats") * (size // 250_007 + 1))[:size]


def pages_of(size, seed=1):
    """All pages of a file, in an order that has no streams in it."""
    order = list(range(-(-size // PAGE)))
    random.Random(seed).shuffle(order)
    return order


def read_pages(fd, order, wanted):
    for page in order:
        got = os.pread(fd, PAGE, page * PAGE)
        assert got == wanted[page * PAGE : (page + 1) * PAGE], f"page {page}"


def cold(m, wanted):
    """A fresh mount that has read nothing of it. It is old: what has just changed may change again
    within a step of the clock, and is not kept."""
    (m.mnt / "f").write_bytes(wanted)
    os.utime(m.mnt / "f", (1e9, 1e9))
    m.remount()
    return os.open(m.mnt / "f", os.O_RDONLY)


@pytest.mark.parametrize("size", [4 << 20, (3 << 20) + 5, (1 << 20) + BLOCK - 1])
@pytest.mark.parametrize("blocks", ["64K", "16K", "65520"])  # the last are no whole pages
def test_most_pages_take_no_request(mount, size, blocks):
    wanted = content(size)
    m = mount(OPTIONS.replace("64K", blocks))
    fd = cold(m, wanted)
    with Moved(m) as moved:
        read_pages(fd, pages_of(size), wanted)
    assert moved("read", "pushed_bytes") > 0
    if blocks != "16K":  # four pages: little to win
        assert moved("requests", "read") < 0.9 * size / PAGE
    with Moved(m) as moved:
        read_pages(fd, pages_of(size, 2), wanted)
    assert moved("requests", "read") == 0
    assert os.fstat(fd).st_size == size
    os.close(fd)


def one_page_a_block(size, seed=1):
    return [page for page in pages_of(size, seed) if page % 16 == 3]


def test_few_reads_that_do_not_come_back_push_nothing(mount):
    wanted = content(8 << 20)
    m = mount(OPTIONS)
    fd = cold(m, wanted)
    half = one_page_a_block(len(wanted))[:64]
    with Moved(m) as moved:
        read_pages(fd, half, wanted)
    assert moved("read", "pushed_bytes") == 0 and moved("requests", "read") == len(half)
    os.close(fd)


def test_where_reads_are_dense_their_neighbours_are_pushed(mount):
    """More reads than half of the blocks: each of the others brings 256 KiB."""
    wanted = content((8 << 20) + 12_345)
    m = mount(OPTIONS)
    fd = cold(m, wanted)
    order = one_page_a_block(len(wanted))
    read_pages(fd, order[:64], wanted)
    with Moved(m) as moved:
        for page in order[64:]:
            read_pages(fd, [page], wanted)
            time.sleep(0.001 * SLOWNESS)  # there is one push at a time: else some bring nothing
    assert moved("read", "pushed_bytes") > 1 << 20
    read_pages(fd, pages_of(len(wanted), 2), wanted)
    assert os.fstat(fd).st_size == len(wanted)
    os.close(fd)


def pushed(m):
    return stats(m)["read"]["pushed_bytes"]


def wait_for_pushes(m):
    """Until none goes on: it would have brought something meanwhile."""

    def quiet():
        before = pushed(m)
        time.sleep(0.3 * SLOWNESS)
        return pushed(m) == before

    wait_until(quiet, 30, "the end of the pushes")


@pytest.fixture
def dense(faulty):
    """A mount, a descriptor of its file `f`, the content of that, and the first block of several,
    from one page of it on, that are on their way into the kernel."""
    m, fault = faulty(OPTIONS + ",entry_timeout=0,attr_timeout=0")
    wanted = content(8 << 20)
    (m.mnt / "g").write_bytes(content(8 << 20, 2))
    fd = cold(m, wanted)
    order = one_page_a_block(len(wanted))
    read_pages(fd, order[:65], wanted)
    wait_for_pushes(m)
    fault.set(1, Fault.STORE, how=Fault.WAIT)
    try:
        read_pages(fd, order[65:66], wanted)
        wait_until(fault.came, 30, "a block on its way")
        yield m, fd, fault
    finally:
        fault.set(0)
        os.close(fd)


def pushed_after(m, fault):
    """What is pushed once it may go on."""
    with Moved(m) as moved:
        fault.set(0)
        wait_until(lambda: pushed(m) > moved.before["read"]["pushed_bytes"], 30, "that block")
        time.sleep(0.3 * SLOWNESS)  # for the steps that would follow
    return moved("read", "pushed_bytes")


def test_a_push_ends_where_another_program_has_changed_the_file(dense):
    """It is seen between two steps: what they would still read is of no use to the kernel, nor is
    what is there by then, of which the kernel is told once more."""
    m, fd, fault = dense
    m.stored("f").write_bytes(m.stored("g").read_bytes())
    os.stat(m.mnt / "f")
    time.sleep(0.5 * SLOWNESS)  # the kernel is told by a thread of its own
    assert 0 < pushed_after(m, fault) <= BLOCK
    new = content(8 << 20, 2)
    assert (m.mnt / "f").read_bytes() == new
    wait_until(lambda: os.pread(fd, len(new), 0) == new, what="the new content")


def test_a_push_ends_where_somebody_waits_for_the_file(dense):
    m, _, fault = dense
    opener = threading.Thread(target=lambda: os.close(os.open(m.mnt / "f", os.O_RDONLY)))
    opener.start()
    wait_until(lambda: stats(m)["requests"]["open"] > 1, 30, "a request that waits")
    assert 0 < pushed_after(m, fault) <= BLOCK
    opener.join()


def test_dense_reads_of_what_memory_may_not_hold_push_nothing(mount):
    wanted = content(8 << 20)
    m = mount(OPTIONS + ",cache=1M")
    fd = cold(m, wanted)
    with Moved(m) as moved:
        read_pages(fd, one_page_a_block(len(wanted)), wanted)
    assert moved("read", "pushed_bytes") == 0
    os.close(fd)


@pytest.mark.parametrize("flags", [os.O_RDWR, os.O_WRONLY])
def test_nothing_is_pushed_once_somebody_may_write(mount, flags):
    wanted = content(2 << 20)
    m = mount(OPTIONS)
    fd = cold(m, wanted)
    os.close(os.open(m.mnt / "f", flags))
    with Moved(m) as moved:
        read_pages(fd, pages_of(len(wanted)), wanted)
    assert moved("read", "pushed_bytes") == 0
    os.close(fd)


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_waits_until_the_block_is_there(faulty, change):
    """The content of before must not cover it, nor make the file as long as it was."""
    m, fault = faulty(OPTIONS)
    old = content(1 << 20)
    fd = cold(m, old)
    order = pages_of(len(old))
    change_waits(fault, change, m.mnt / "f", lambda: read_pages(fd, order, old))
    assert_changed(m, fd, CHANGES[change](old))


@pytest.fixture
def held(faulty):
    """A mount, a descriptor of its only file, and a block of that on its way into the kernel."""
    m, fault = faulty(OPTIONS)
    wanted = content(1 << 20)
    fd = cold(m, wanted)
    fault.set(1, Fault.STORE, how=Fault.WAIT)
    try:
        read_pages(fd, pages_of(len(wanted)), wanted)
        wait_until(fault.came, 30, "a block on its way")
        yield m, fd, fault
    finally:
        fault.set(0)
        os.close(fd)


# More than there are threads, those of relief included: 16 and 128.
MANY = 200


@pytest.mark.parametrize("how", [os.O_RDONLY, os.O_RDWR, os.O_RDWR | os.O_TRUNC])
def test_no_thread_is_lost_to_those_who_wait(held, how):
    """The push may wait for a page whose READ comes behind all of theirs."""
    m, fd, fault = held
    opened = []
    openers = [
        threading.Thread(target=lambda: opened.append(os.open(m.mnt / "f", how)))
        for _ in range(MANY)
    ]
    for opener in openers:
        opener.start()
    time.sleep(0.3 * SLOWNESS)
    assert not opened
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    read_pages(fd, [200], content(1 << 20))
    (m.mnt / "g").write_bytes(b"others")
    assert not opened
    fault.set(0)
    for opener in openers:
        opener.join()
    assert len(opened) == MANY
    assert os.fstat(fd).st_size == (0 if how & os.O_TRUNC else 1 << 20)
    for other in opened:
        os.close(other)
    if how == os.O_RDONLY:
        before = pushed(m)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        read_pages(fd, pages_of(1 << 20), content(1 << 20))
        wait_until(lambda: pushed(m) > before, 30, "the next block")


def test_who_has_waited_loses_set_id_bits_as_others_do(held, root):
    """By the flags of its own request, which another thread serves."""
    m, fd, fault = held
    os.fchmod(fd, 0o6755)
    changes = [
        lambda: os.truncate(m.mnt / "f", 700_000),
        lambda: os.close(os.open(m.mnt / "f", os.O_WRONLY | os.O_TRUNC)),
    ]
    threads = [threading.Thread(target=change) for change in changes]
    for thread in threads:
        thread.start()
    time.sleep(0.1 * SLOWNESS)
    assert all(thread.is_alive() for thread in threads)
    fault.set(0)
    for thread in threads:
        thread.join()
    assert os.fstat(fd).st_mode & 0o7777 == 0o6755  # root keeps them
    assert os.fstat(fd).st_size in (0, 700_000)


@pytest.mark.concurrent
def test_many_who_open_one_file_and_read_it(mount):
    wanted = content(4 << 20)
    m = mount(OPTIONS)
    path = m.mnt / "f"
    os.close(cold(m, wanted))
    end = time.monotonic() + 5

    def work(seed):
        choose = random.Random(seed)
        while time.monotonic() < end:
            fd = os.open(path, os.O_RDONLY)
            for _ in range(10):
                at = choose.randrange(len(wanted) // PAGE) * PAGE
                assert os.pread(fd, PAGE, at) == wanted[at : at + PAGE]
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)

    with Moved(m) as moved, ThreadPoolExecutor(MANY) as pool:
        list(pool.map(work, range(MANY)))
    assert moved("read", "pushed_bytes") > 10 * BLOCK


class Readers:
    """Threads that read pages of a file at random, until the end of the with; check(page, bytes)
    judges each."""

    def __init__(self, path, npages, check, count=3):
        self.path, self.npages, self.check = path, npages, check
        self.end = threading.Event()
        self.faults = []
        self.threads = [threading.Thread(target=self.run, args=(n,)) for n in range(count)]

    def run(self, seed):
        choose = random.Random(seed)
        try:
            while not self.end.is_set():
                fd = os.open(self.path, os.O_RDONLY)
                for _ in range(300):
                    page = choose.randrange(self.npages)
                    self.check(page, lambda page=page: os.pread(fd, PAGE, page * PAGE))
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
                os.close(fd)
        except (AssertionError, OSError) as fault:
            self.faults.append(fault)

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *error):
        self.end.set()
        for thread in self.threads:
            thread.join()
        assert not self.faults, self.faults[0]


def all_closed(m):
    """The kernel tells of a close later, maybe when others have opened the file again; and the
    daemon stores what was written, before which nobody else may open it here."""
    requests = stats(m)["requests"]
    return requests["release"] == requests["open"] + requests["create"] and not m.has_open("f")


@pytest.mark.concurrent
def test_no_push_covers_what_a_writer_has_written(mount):
    """A page holds its number and the round in which it was written last. Who reads it finds the
    newest round that was complete before, or a later one; or parts of both, as the kernel lets
    reads pass writes of the same page."""
    npages, rounds = 512, 40
    m = mount(OPTIONS + ",intent=0")
    path = m.mnt / "f"
    done = [0]

    def page_of(page, turn):
        return np.full(PAGE // 4, page * 1000 + turn, np.uint32).tobytes()

    def check(page, read):
        least = done[0]
        got = np.frombuffer(read(), np.uint32)
        assert got.size == PAGE // 4
        assert (got // 1000 == page).all() and (least <= got % 1000).all(), (page, least, set(got))

    path.write_bytes(b"".join(page_of(page, 0) for page in range(npages)))
    m.remount()
    for turn in range(1, rounds):
        # Nothing is pushed of a file that has been written to until all have closed it.
        wait_until(lambda: all_closed(m), what="the last close")
        before = stats(m)["read"]["pushed_bytes"]
        with Readers(path, npages, check):
            wait_until(lambda: stats(m)["read"]["pushed_bytes"] > before, what="pushes")
            with open(path, "r+b", buffering=0) as f:
                for page in range(npages):
                    os.pwrite(f.fileno(), page_of(page, turn), page * PAGE)
            done[0] = turn


@pytest.mark.concurrent
def test_a_size_that_is_set_by_name_stays(mount):
    """A push behind the new end would make the file longer again, for the kernel."""
    wanted = content(1 << 20)
    m = mount(OPTIONS)
    path = m.mnt / "f"

    def check(page, read):
        got = read()
        kept = os.path.commonprefix([got, wanted[page * PAGE : (page + 1) * PAGE]])
        assert not any(got[len(kept) :]), "cut, and zeros behind that"

    for turn in range(20):
        path.write_bytes(wanted)
        m.remount()
        with Readers(path, len(wanted) // PAGE, check):
            wait_until(lambda: stats(m)["read"]["pushed_bytes"] > 0, what="pushes")
            size = 100_000 + 4321 * turn
            os.truncate(path, size)
            assert os.stat(path).st_size == size
            os.truncate(path, size + 200_000)
        assert path.read_bytes() == wanted[:size] + bytes(200_000)


def test_a_file_that_another_program_replaces(mount):
    old, new = content(1 << 20, 1), content(1 << 20, 2)
    m = mount(OPTIONS + ",entry_timeout=0.1,attr_timeout=0.1")
    for name, wanted in ("f", old), ("g", new):
        (m.mnt / name).write_bytes(wanted)
    m.remount()
    stored = {name: m.stored(name).read_bytes() for name in "fg"}

    def check(page, read):
        assert read() in (old[page * PAGE :][:PAGE], new[page * PAGE :][:PAGE])

    for name, wanted in ("g", new), ("f", old):
        with Readers(m.mnt / "f", len(old) // PAGE, check):
            time.sleep(0.1 * SLOWNESS)
            draft = m.backing / "draft"
            draft.write_bytes(stored[name])
            os.rename(draft, m.stored("f"))
            wait_until(lambda wanted=wanted: (m.mnt / "f").read_bytes() == wanted, what="shown")
        fd = os.open(m.mnt / "f", os.O_RDONLY)
        read_pages(fd, pages_of(len(wanted)), wanted)
        os.close(fd)


def test_a_change_by_another_program_shows_while_a_block_is_on_its_way(faulty):
    """The kernel keeps the size that it knows of an inode: a lookup gives it another one."""
    m, fault = faulty(OPTIONS + ",entry_timeout=0.1,attr_timeout=0.1")
    old, new = content(1 << 20, 1), content(700_000, 2)
    (m.mnt / "g").write_bytes(new)
    fd = cold(m, old)
    fault.set(1, Fault.STORE, how=Fault.WAIT)
    try:
        read_pages(fd, pages_of(len(old)), old)
        wait_until(fault.came, 30, "a block on its way")
        m.stored("f").write_bytes(m.stored("g").read_bytes())
        wait_until(lambda: os.stat(m.mnt / "f").st_size == len(new), 3, "the change is shown")
        assert (m.mnt / "f").read_bytes() == new
    finally:
        fault.set(0)
        os.close(fd)
    assert (m.mnt / "f").read_bytes() == new


def test_a_daemon_that_is_told_to_end_while_it_pushes(mount):
    """Three at a time: each waits ten seconds for readers who do not end."""
    wanted = content(4 << 20)
    mounts = [mount(OPTIONS) for _ in range(3)]
    for m in mounts:
        (m.mnt / "f").write_bytes(wanted)
        m.remount()
    with contextlib.ExitStack() as stack:
        groups = [
            stack.enter_context(
                Readers(m.mnt / "f", len(wanted) // PAGE, lambda page, read: read())
            )
            for m in mounts
        ]
        for m in mounts:
            wait_until(lambda m=m: stats(m)["read"]["pushed_bytes"] > 3 * BLOCK, what="pushes")
        for m in mounts:
            m.proc.send_signal(signal.SIGTERM)
        for m in mounts:
            m.wait()
        for readers in groups:
            readers.end.set()
            for thread in readers.threads:
                thread.join()
            readers.faults.clear()  # their mount has gone
