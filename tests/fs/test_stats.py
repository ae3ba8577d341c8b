"""What a mount tells about itself: each counter moves by exactly what was done."""

import contextlib
import json
import mmap
import os
import pty
import re
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from libdata import blob
from libmount import CFRAME, SLOWNESS, wait_until
from libposix import error_of, write_at
from libstats import XATTR, Moved, stats

PAGE, BLOCK, CHUNK = 4096, 64 << 10, 1 << 20
FIXED = "pipeline=zstd:1,blocksize=64K,chunksize=1M,commit=0"  # nothing happens by itself


def direct(path, flags=os.O_RDONLY):
    """A descriptor whose reads and writes all come to the daemon."""
    return os.open(path, flags | os.O_DIRECT)


def read_direct(fd, at, size=PAGE):
    room = mmap.mmap(-1, size)
    assert os.preadv(fd, [room], at) == size
    return bytes(room)


def write_direct(fd, at, content):
    room = mmap.mmap(-1, len(content))
    room[:] = content
    assert os.pwritev(fd, [room], at) == len(content)


@pytest.fixture
def content():
    return (blob(7, 100_003, "text") * 32)[: 3 * CHUNK]


@pytest.fixture
def cold(mount, content):
    """A mount that has read nothing yet of its file `f`."""
    m = mount(FIXED)
    (m.mnt / "f").write_bytes(content)
    return m.remount()


def test_a_cold_read_decodes_one_block(cold, content):
    fd = direct(cold.mnt / "f")
    with Moved(cold) as moved:
        assert read_direct(fd, 20 * PAGE) == content[20 * PAGE : 21 * PAGE]
    os.close(fd)
    assert moved("read", "returned_bytes") == PAGE
    assert moved("read", "decoded_blocks") == 1 and moved("read", "decoded_bytes") == BLOCK
    assert moved.answers() == {"miss": 1}
    assert 0 < moved("read", "disk_bytes") < BLOCK, (
        "the compressed bytes of one block, and the chunk's head"
    )
    assert 1 <= moved("read", "disk_reads") <= 2
    assert moved("requests", "read") == 1
    assert moved.after["amplification"]["decoded_per_returned"] == BLOCK / PAGE
    wait_until(lambda: stats(cold)["latency_us"]["read"]["count"] == 1, 10, "the time of the read")


def test_a_block_is_decoded_once_for_two_reads(cold):
    fd = direct(cold.mnt / "f")
    with Moved(cold) as moved:
        assert read_direct(fd, 0) != read_direct(fd, 8 * PAGE)
    os.close(fd)
    assert moved("requests", "read") == 2
    assert moved("read", "decoded_blocks") == 1
    assert moved.answers() == {"miss": 1, "cache": 1}
    assert moved.after["memory"]["cache_bytes"] >= BLOCK


def test_holes_are_not_decoded(mount):
    m = mount(FIXED)
    with open(m.mnt / "f", "wb") as f:
        f.truncate(8 * CHUNK)
    fd = direct(m.mnt / "f")
    with Moved(m) as moved:
        assert read_direct(fd, 5 * CHUNK) == bytes(PAGE)
    os.close(fd)
    assert moved.answers() == {"hole": 1}
    assert moved("read", "decoded_blocks") == moved("read", "disk_bytes") == 0


def test_dirty_data_answers(mount, content):
    m = mount(FIXED)
    (m.mnt / "f").touch()
    fd = direct(m.mnt / "f", os.O_RDWR)
    with Moved(m) as moved:
        write_direct(fd, 0, content[:PAGE])
        assert read_direct(fd, 0) == content[:PAGE]
    assert moved.answers() == {"dirty": 1}
    assert moved("write", "application_bytes") == PAGE == moved("read", "returned_bytes")
    assert (
        moved("write", "commits") == moved("write", "disk_syncs") == moved("write", "chunks") == 0
    )
    assert moved.after["memory"]["dirty_bytes"] >= PAGE
    with Moved(m) as moved:
        os.fsync(fd)
    os.close(fd)
    assert moved("requests", "fsync") == moved("write", "commits") == moved("write", "chunks") == 1
    assert moved("write", "disk_syncs") >= 1
    assert moved("write", "encoded_from") == PAGE
    assert 0 < moved("write", "encoded_to") < moved("write", "disk_bytes")
    assert moved.after["memory"]["dirty_bytes"] == 0
    # A request is timed with its reply: just after we have it.
    for timer in ("encode", "commit", "sync"):
        wait_until(lambda: stats(m)["latency_us"][timer]["count"] >= 1, 10, timer)


def test_an_fsync_is_a_commit_or_a_record_of_the_log(mount, content):
    m = mount("pipeline=zstd:1,blocksize=64K,chunksize=1M,commit=3600")
    (m.mnt / "f").write_bytes(content)
    fd = direct(m.mnt / "f", os.O_RDWR)
    os.fsync(fd)
    for turn in range(3):
        with Moved(m) as moved:
            for place in range(64):
                write_direct(fd, (place * 11 + turn) * PAGE, content[:PAGE])
            os.fsync(fd)
        assert moved("write", "application_bytes") == 64 * PAGE
        assert moved("write", "commits") + moved("log", "records") == 1
        assert moved("write", "disk_syncs") + moved("log", "syncs") >= 1
        assert (moved("log", "bytes") > 64 * PAGE) == (moved("log", "records") == 1)
    os.close(fd)


def test_writing_whole_chunks(mount, content):
    m = mount(FIXED)
    with Moved(m) as moved:
        (m.mnt / "f").write_bytes(content)
    assert moved("write", "application_bytes") == len(content) == moved("write", "encoded_from")
    assert moved("write", "chunks") == len(content) // CHUNK
    assert moved("write", "commits") == 1, "one, at close"
    stored = m.stored("f").stat().st_size
    assert moved("write", "encoded_to") < stored < moved("write", "encoded_to") + 4096
    assert moved("write", "disk_bytes") < stored + 4096
    assert 0 < moved.after["amplification"]["disk_per_written"] < 1


def test_a_chunk_that_comes_in_parts_is_encoded_once(mount, content):
    """It waits until there is all of it."""
    m = mount(FIXED)
    with Moved(m) as moved:
        fd = direct(m.mnt / "f", os.O_WRONLY | os.O_CREAT)
        for at in range(0, len(content), CHUNK // 4):
            write_direct(fd, at, content[at : at + CHUNK // 4])
        os.close(fd)
    assert moved("write", "encoded_from") == len(content)
    assert moved("write", "chunks") == len(content) // CHUNK
    assert (m.mnt / "f").read_bytes() == content


@pytest.mark.parametrize("size", [3000, PAGE, 20_001])
@pytest.mark.parametrize("before", [b"", b"before"], ids=["new", "appended"])
def test_a_small_file_is_encoded_behind_its_write(mount, content, size, before):
    """The kernel sends all bytes before it sends a time. The close commits what they became."""
    m = mount(FIXED)
    (m.mnt / "f").write_bytes(before)
    content = content[: size - len(before)]
    with Moved(m) as moved, open(m.mnt / "f", "ab", buffering=0) as f:
        first = stats(m)["write"]
        chunks = first["chunks"]
        for part in content, b"more":
            f.write(part)
            os.utime(f.fileno(), (1, 1))
            end = os.fstat(f.fileno()).st_size
            chunks += end < 16 << 10 and end % PAGE != 0
            wait_until(lambda n=chunks: stats(m)["write"]["chunks"] == n, 10, "encoded")
        assert stats(m)["write"]["commits"] == first["commits"]
    assert moved("write", "commits") == 1
    m.remount()
    assert (m.mnt / "f").read_bytes() == before + content + b"more"
    assert (m.mnt / "f").stat().st_mtime == 1


def threads(m):
    """(processor time in ns, how often it slept) of each thread of the daemon, by its number."""
    found = {}
    for task in Path(f"/proc/{m.proc.pid}/task").iterdir():
        slept = re.search(r"^voluntary_ctxt_switches:\t(\d+)$", (task / "status").read_text(), re.M)
        found[task.name] = int((task / "schedstat").read_text().split()[0]), int(slept[1])
    return found


@pytest.mark.release
@pytest.mark.parametrize("size", [30_000, 150_000, 900_000])
def test_who_waits_for_the_only_chunk_stores_it(mount, content, size):
    """To wake a worker for that, and to be woken by it, took longer than all else."""
    m = mount(FIXED + ",workers=1")
    before = threads(m)
    (m.mnt / "large").write_bytes(content)
    after = threads(m)
    worker = max(after, key=lambda t: after[t][0] - before.get(t, (0,))[0])
    (m.mnt / "f").write_bytes(content[:size])
    slept = threads(m)[worker][1]
    for _ in range(40):
        with open(m.mnt / "f", "ab") as f:
            f.write(b"one more line of it\n")
    assert threads(m)[worker][1] - slept < 10
    m.remount()
    assert (m.mnt / "f").read_bytes() == content[:size] + b"one more line of it\n" * 40


@pytest.mark.release
def test_an_idle_mount_takes_no_processor_time(mount):
    """The threads in the background sleep until their next round."""
    m = mount("commit=0.1")
    (m.mnt / "f").write_bytes(b"x")
    time.sleep(0.5)
    before = threads(m)
    time.sleep(1.5)
    used = {t: ns - before[t][0] for t, (ns, _) in threads(m).items() if t in before}
    assert sum(used.values()) < 30e6, used


def test_requests_by_kind(mount):
    m = mount(FIXED)
    with Moved(m) as moved:
        for i in range(5):
            (m.mnt / f"f{i}").touch()
        (m.mnt / "d").mkdir()
        os.symlink("f0", m.mnt / "l")
        os.rename(m.mnt / "f1", m.mnt / "d/f")
        os.unlink(m.mnt / "f2")
        os.statvfs(m.mnt)
    for kind, count in {
        "create": 5,
        "mkdir": 1,
        "symlink": 1,
        "rename": 1,
        "unlink": 1,
        "statfs": 1,
        "rmdir": 0,
    }.items():
        assert moved("requests", kind) == count, kind


def test_a_new_file_has_one_time(mount):
    """Else the kernel, whose own stamp differs, sends one more SETATTR for each file that is
    written. A tick of its clock between the two does the same: not for most files of all rounds,
    of which a busy machine needs more."""
    m = mount(FIXED)
    counts = []
    while min(counts, default=12) >= 12 and len(counts) < 100:
        with Moved(m) as moved:
            for i in range(8):
                with open(m.mnt / f"f{len(counts)}-{i}", "wb", buffering=0) as f:
                    f.write(b"some")
                    os.utime(f.fileno(), (1, 1))
        counts.append(moved("requests", "setattr"))
    assert 8 <= min(counts) < 12, counts


@pytest.mark.parametrize("options, flushes", [(FIXED, 5), ("ro", 1)])
def test_closing_is_no_request_where_nobody_writes(mount, options, flushes):
    """The first close tells the kernel that there is nothing to ask for."""
    m = mount(FIXED)
    for i in range(5):
        (m.mnt / f"f{i}").write_bytes(b"x")
    m.remount(options)
    with Moved(m) as moved:
        for i in range(5):
            assert (m.mnt / f"f{i}").read_bytes() == b"x"
    assert moved("requests", "open") == 5 and moved("requests", "flush") == flushes


@pytest.mark.parametrize("behind", [0, 100_000], ids=["", "garbage"])
@pytest.mark.parametrize("size", [PAGE, 7000])
def test_a_small_frame_is_read_in_one_piece(mount, size, behind):
    """Its size, and all that opening it wants to know, come with one read each."""
    m = mount(FIXED)
    content = blob(7, 20 * size, "noise")
    for i in range(20):
        (m.mnt / f"f{i}").write_bytes(content[i * size : (i + 1) * size])
    m.unmount()
    for i in range(20):
        os.truncate(m.stored(f"f{i}"), os.stat(m.stored(f"f{i}")).st_size + behind)
    m.start()
    with Moved(m) as moved:
        assert sum(entry.stat().st_size for entry in os.scandir(m.mnt)) == 20 * size
    assert moved("read", "disk_reads") == 20
    with Moved(m) as moved:
        for i in range(20):
            assert (m.mnt / f"f{i}").read_bytes() == content[i * size : (i + 1) * size]
    assert moved("read", "disk_reads") <= 3 * 20, "the frame, the head of its chunk, the block"


def test_a_large_frame_is_looked_at_in_two_pieces(cold):
    with Moved(cold) as moved:
        assert (cold.mnt / "f").stat().st_size == 3 * CHUNK
    assert moved("read", "disk_reads") == 2 and moved("read", "disk_bytes") < 17000


@pytest.mark.parametrize("opened", [False, True])
def test_a_frame_is_not_read_again_for_new_times(mount, content, opened):
    """The kernel tells us its times behind a rename. Another program's change is another matter."""
    m = mount(FIXED + ",attr_timeout=0,entry_timeout=3600")
    (m.mnt / "f").write_bytes(content)
    time.sleep(0.1)  # what changed right before it is looked at is looked at once more
    m.remount()
    assert os.stat(m.mnt / "f").st_size == len(content)
    if opened:
        write_at(m.mnt / "f", len(content), b"more")
        content += b"more"
    with Moved(m) as moved:
        os.rename(m.mnt / "f", m.mnt / "g")
        os.chmod(m.mnt / "g", 0o600)
        os.utime(m.mnt / "g", (1, 1))
        os.sync()
        st = os.stat(m.mnt / "g")
    assert (st.st_size, st.st_mtime) == (len(content), 1)
    assert moved("requests", "getattr") and moved("requests", "setattr") >= 2
    assert moved("read", "disk_reads") == 2 * opened, "of a name whose file was changed"
    os.truncate(m.stored("g"), os.stat(m.stored("g")).st_size + 1)
    with Moved(m) as moved:
        os.stat(m.mnt / "g")
    assert moved("read", "disk_reads") >= 1


def test_a_long_listing_asks_for_no_labels(mount, tool):
    """Where the backing directory has no labels of SELinux, ls stops asking
    after the first file."""
    m = mount(FIXED)
    for i in range(30):
        (m.mnt / f"f{i}").touch()
    if error_of(os.getxattr, m.backing, "security.selinux") is None:
        pytest.skip("SELinux is on")
    with Moved(m) as moved:
        subprocess.run([tool("ls"), "-l", m.mnt], check=True, capture_output=True)
    assert moved("requests", "getxattr") <= 30 + 10, "one for the ACL of each"
    path = m.mnt / "f0"
    assert error_of(os.getxattr, path, "security.selinux") in ("EOPNOTSUPP", "ENOTSUP")
    if error_of(os.setxattr, path, "security.selinux", b"u:r:t:s0") is None:
        assert os.getxattr(path, "security.selinux") == b"u:r:t:s0"
        assert error_of(os.getxattr, m.mnt / "f1", "security.selinux") == "ENODATA"


def test_plain_files_are_counted_apart(mount):
    m = mount(FIXED)
    (m.backing / "plain").write_bytes(bytes(5000))
    with Moved(m) as moved:
        assert len((m.mnt / "plain").read_bytes()) == 5000
    assert moved("read", "plain_bytes") >= 5000
    assert moved("read", "returned_bytes") == 0 and moved.answers() == {}


@pytest.mark.concurrent
def test_no_count_is_lost_between_threads(cold):
    rounds, readers = 50, 8
    files = [direct(cold.mnt / "f") for _ in range(readers)]

    def read(number):
        for i in range(rounds):
            read_direct(files[number], (number * rounds + i) % 700 * PAGE)

    with Moved(cold) as moved:
        threads = [threading.Thread(target=read, args=(n,)) for n in range(readers)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    for fd in files:
        os.close(fd)
    assert moved("requests", "read") == rounds * readers
    assert moved("read", "returned_bytes") == rounds * readers * PAGE
    assert sum(moved.answers().values()) == rounds * readers


def test_latencies_are_in_order(cold):
    (cold.mnt / "f").read_bytes()
    rows = stats(cold)["latency_us"]
    assert rows["read"]["count"] > 0
    for name, row in rows.items():
        assert 0 <= row["p50"] <= row["p90"] <= row["p99"] <= row["max"], name
        assert (row["count"] == 0) == (row["max"] == 0) and row["mean"] <= row["max"], name


def test_the_attribute_is_that_of_the_root_alone(mount):
    m = mount(FIXED)
    (m.mnt / "f").write_bytes(b"data")
    (m.mnt / "d").mkdir()
    assert XATTR not in os.listxattr(m.mnt)
    for path in (m.mnt / "f", m.mnt / "d"):
        assert error_of(os.getxattr, path, XATTR) == "ENODATA"
    assert error_of(os.setxattr, m.mnt, XATTR, b"1") == "EPERM"
    assert error_of(os.removexattr, m.mnt, XATTR) is not None


def cframe_stat(*args):
    return subprocess.run(
        [str(CFRAME), "stat", *map(str, args)],
        capture_output=True,
        text=True,
        timeout=300 * SLOWNESS,
        stdin=subprocess.DEVNULL,
    )


def test_cframe_stat(cold, content):
    (cold.mnt / "f").read_bytes()
    shown = json.loads(cframe_stat(cold.mnt, "--json").stdout)
    assert shown["read"]["returned_bytes"] == len(content) and shown["pid"] == cold.proc.pid
    table = cframe_stat(cold.mnt)
    assert table.returncode == 0 and table.stderr == ""
    for words in ("requests", "3.1 MB", "per byte returned", "memory", "99 %", "read ahead"):
        assert words in table.stdout, words
    rows = dict(re.findall(r"^  (\S.*?)  +(\S.*)$", table.stdout, re.MULTILINE))
    assert rows["returned"] == "3.1 MB" and rows["read"] == str(shown["requests"]["read"])
    for label, group, name in (
        ("disk reads", "read", "disk_reads"),
        ("blocks decoded", "read", "decoded_blocks"),
        ("in part", "read", "decoded_parts"),
        ("disk writes", "write", "disk_writes"),
        ("commits", "write", "commits"),
    ):
        assert rows[label] == str(shown[group][name]), label
    for label, name in ("cached blocks", "cache"), ("decoded on demand", "miss"):
        assert rows[label].split()[0] == str(shown["answered_from"][name]), label
    lines = table.stdout.splitlines()[1:]  # the first has the path, of any length
    assert not [line for line in lines if "/s" in line], "rates need two looks"
    assert max(map(len, lines)) < 100


def on_a_terminal(*args):
    """What cframe stat says there."""
    ours, its = pty.openpty()
    with subprocess.Popen([CFRAME, "stat", *args], stdout=its, stderr=its) as tool:
        os.close(its)
        said = b""
        with contextlib.suppress(OSError):  # EIO: nobody has the other end
            while part := os.read(ours, 4096):
                said += part
    os.close(ours)
    return tool.returncode, said


def test_cframe_stat_does_not_speak_to_the_terminal(cold, work):
    """Neither by a mount's name nor by an attribute of what is none."""
    (work / "name\033[31m").symlink_to(cold.mnt)
    os.mkdir(work / "none")
    os.setxattr(work / "none", XATTR, b'{"version": "\033[31m", "requests": {"\\u001b[31m": 7}}')
    for path in work / "name\033[31m", work / "none":
        for args in [], ["--json"]:
            code, said = on_a_terminal(path, *args)
            assert code == 0 and b"\033" not in said and len(said) > 20, said


def test_cframe_stat_watches(cold, work):
    """Looks again and again until the mount is gone. A rate is of the time between two looks."""
    (cold.mnt / "f").read_bytes()
    with open(work / "table", "wb") as out:
        watch = subprocess.Popen(
            [CFRAME, "stat", cold.mnt, "--watch", "0.1"], stdout=out, stderr=subprocess.STDOUT
        )
    try:
        wait_until(lambda: (work / "table").read_text().count("requests") >= 3, 30, "three looks")
    finally:
        watch.send_signal(signal.SIGTERM)
        watch.wait()
    looks = re.findall(r"^  returned +(.*)", (work / "table").read_text(), re.MULTILINE)
    assert looks[0] == "3.1 MB" and looks[1].split(None, 2) == ["3.1", "MB", "0 B/s"], looks


def test_cframe_stat_watches_in_lines_of_json(cold):
    """A program that reads them need not guess where one ends."""
    with subprocess.Popen(
        [CFRAME, "stat", cold.mnt, "--json", "--watch", "0.1"], stdout=subprocess.PIPE
    ) as watch:
        looks = [json.loads(watch.stdout.readline()) for _ in range(3)]
        watch.terminate()
    assert looks[0].keys() == looks[2].keys() and looks[0]["seconds"] < looks[2]["seconds"]


@pytest.mark.parametrize("words", [["--watch", "0"], ["--watch", "-1"], ["--watch=1e9"]], ids=str)
def test_cframe_stat_says_which_times_there_are(cold, words):
    got = cframe_stat(cold.mnt, *words)
    assert (got.returncode, got.stdout) == (1, "")
    assert got.stderr == "cframe: option '--watch': needs 0.1 to 3600 seconds\n"


@pytest.mark.parametrize("options", [[], ["--json"], ["--watch"]], ids=str)
def test_cframe_stat_to_a_full_disk(cold, options):
    """One line, about the output; it was told of the mount, too."""
    with open("/dev/full", "w") as full:
        words = [CFRAME, "stat", cold.mnt, *options]
        got = subprocess.run(words, stdout=full, stderr=-1, text=True, timeout=30 * SLOWNESS)
    assert got.returncode == 1
    assert got.stderr == "cframe: standard output: No space left on device\n"


@pytest.mark.parametrize(
    "args", [[], ["{work}"], ["{work}/absent"], ["{work}", "--watch", "x"], ["{work}", "--bogus"]]
)
def test_cframe_stat_says_what_is_wrong(work, args):
    got = cframe_stat(*[a.format(work=work) for a in args])
    assert got.returncode == 1 and got.stdout == ""
    assert got.stderr.startswith("cframe: ") and len(got.stderr.splitlines()) == 1
