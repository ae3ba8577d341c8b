"""The command line: help, options and what they do to the stored frame, and what is said of those
that are wrong."""

import mmap
import os
import re
import stat

import pytest

from libchunk import header
from libdata import blob
from libmemory import held_to
from libmount import CFRAME, DAEMON, REPO, is_mounted, wait_until
from libposix import sync
from libprogram import attempt, one_line_refusal, run

CODECS = ["blosclz", "lz4", "lz4hc", "zlib", "zstd"]
TEXT = REPO / "tests/data/frames/text-zstd.b2frame"


def test_help_and_version():
    got = attempt(DAEMON, "--help")
    assert got.returncode == 0 and "BACKING" in got.stdout and "MOUNTPOINT" in got.stdout
    for option in (
        "codec=",
        "level=",
        "filter=",
        "typesize=",
        "chunksize=",
        "blocksize=",
        "cache=",
        "workers=",
    ):
        assert option in got.stdout, option
    got = attempt(DAEMON, "--version")
    assert got.returncode == 0
    for part in (
        r"cframefs \d+\.\d+",
        r"fuse\D*\d+\.\d+",
        r"lz4\D*\d+\.\d+",
        r"zstd\D*\d+\.\d+",
        r"zlib\D*\d+\.\d+",
    ):
        assert re.search(part, got.stdout, re.IGNORECASE), part


def test_readme_and_man_page_say_the_same_of_options():
    """The text of the README, but for what it has to say further on; the man page may add to it."""
    rows = re.findall(
        r"^\| (`\w+=.*?) \| (.*?)\| (.*) \|$", (REPO / "README.md").read_text(), re.MULTILINE
    )
    manual = (REPO / "docs/cframefs.1").read_text()
    assert len(rows) > 15
    for cell, default, text in rows:
        first, last = re.findall(r"`(\w+)=", cell)[0], re.findall(r"`(\w+)=", cell)[-1]
        said = re.search(rf"^\.BI {last}= \w+\n(.*?)^\.TP$", manual, re.MULTILINE | re.DOTALL)[1]
        wanted = re.sub(r"[,.] see below$", "", text.replace("`", ""), flags=re.IGNORECASE)
        assert " ".join(said.split()).lower().startswith(wanted.rstrip(".").lower()), first
        assert not default.strip() or f"Default {default.strip()}." in said, first


def test_help_readme_and_man_page_have_the_same_options():
    """And --help the defaults that stand in the README."""
    text = re.sub(r"\n {25}", " ", attempt(DAEMON, "--help").stdout)
    helped = dict(re.findall(r"^  (\w+)=\S+ +(.*)$", text, re.MULTILINE))
    assert len(helped) > 15
    rows = re.findall(r"^\| (`\w+=.*?) \| (.*?)\|", (REPO / "README.md").read_text(), re.MULTILINE)
    told = {name: default for cell, default in rows for name in re.findall(r"`(\w+)=", cell)}
    manual = re.findall(r"^\.BI (\w+)= ", (REPO / "docs/cframefs.1").read_text(), re.MULTILINE)
    assert sorted(told) == sorted(manual) == sorted(helped)
    for name, default in told.items():
        assert not default or f"({default.strip()})" in helped[name], name


def test_what_is_missing_is_named(dirs):
    one_line_refusal(attempt(DAEMON), "BACKING and MOUNTPOINT are missing")
    one_line_refusal(attempt(DAEMON, dirs[0]), ": MOUNTPOINT is missing")
    one_line_refusal(attempt(DAEMON, *dirs, dirs[0]), "too many arguments")
    one_line_refusal(attempt(DAEMON, *dirs, *dirs), "too many arguments")


def test_commands_have_help():
    commands = re.findall(r"^  (\w+) ", attempt(CFRAME, "--help").stdout, re.MULTILINE)
    assert len(commands) >= 9 and {"cat", "compress", "verify"} <= set(commands)
    for command in commands:
        got = attempt(CFRAME, command, "--help")
        assert got.returncode == 0 and got.stdout.startswith(f"usage: cframe {command}"), got
        assert attempt(CFRAME, "help", command).stdout == got.stdout
        assert attempt(CFRAME, command, "x", "-h").stdout == got.stdout
        said = attempt(CFRAME, command, "--bogus", "x")
        assert said.returncode == 1 and said.stderr.startswith("cframe: option '--bogus': unknown")
        assert said.stderr.endswith(f"; see cframe {command} --help\n")


@pytest.mark.parametrize(
    "words", [[DAEMON], [CFRAME], [CFRAME, "compress"], [CFRAME, "extract"]], ids=str
)
def test_help_fits_a_terminal(words):
    lines = attempt(*words, "--help").stdout.splitlines()
    assert len(lines) > 5 and max(map(len, lines)) <= 80


@pytest.mark.parametrize(
    "words",
    [[CFRAME, *words] for words in (["codecs"], ["--help"], ["cat", TEXT], ["info", TEXT])]
    + [[CFRAME, "ls", TEXT], *([CFRAME, c, REPO / "README.md"] for c in ("tune", "verify"))]
    + [[DAEMON, "--help"], [DAEMON, "--version"]],
    ids=lambda words: "-".join(str(word).rpartition("/")[2] for word in words),
)
def test_what_does_not_arrive_is_told(words):
    for to, why in (("/dev/full", "No space left on device"), ("&-", "Bad file descriptor")):
        got = attempt("sh", "-c", f'exec "$@" >{to}', "sh", *words)
        assert got.returncode == 1
        assert got.stderr == f"{words[0].name}: standard output: {why}\n"


@pytest.mark.parametrize(
    "option",
    [
        "codec=snappy",
        "codec=",
        "level=10",
        "level=-1",
        "level=x",
        "filter=sharpen",
        "typesize=0",
        "typesize=x",
        "chunksize=0",
        "chunksize=1X",
        "chunksize=-1",
        "blocksize=x",
        "pipeline=shuffle+",
        "pipeline=zstd:77",
        "workers=x",
        "workers=-1",
        "cache=lots",
        "max_read=2M",
        "dirty_max=x",
        "commit=x",
        "no_such_option",
        "no_such=1",
        "codec",
        "typesize=4,blocksize=6",
    ],
)
def test_a_bad_option_is_named(dirs, option):
    got = attempt(DAEMON, *dirs, "-o", option)
    one_line_refusal(got, option.split(",")[-1].split("=")[0])
    assert not is_mounted(dirs[1])


@pytest.mark.parametrize(
    "option, instead",
    [
        ("level=10", "from 0 to 9"),
        ("level=x", "a whole number, or auto"),
        ("chunksize=2G", "from 4K to 1G"),
        ("cache=1K", "less than 1M"),
        ("chunksize=64M", "32M at most, half of dirty_max"),
        ("chunksize=16M,blocksize=16M,cache=8M", "8M at most, a fifth of cache and 32M"),
        ("chunksize=3584K,dirty_max=7M", "3M at most"),
        ("codec=snappy", "known: store, blosclz, lz4"),
        ("filter=sharpen", "option filter 'sharpen': no filter"),
        ("filter=sharpen,codec=lz4", "'sharpen+lz4': no filter is called \"sharpen\"; known: none"),
        ("commit=4000", "4000 is no number of seconds from 0 to 3600"),
        ("recompress=now", "is none of: idle, off, a number of seconds"),
        ("recompress=86401", "a number of seconds up to 86400"),
        ("pipeline=shuffle:4", "as in shuffle+zstd"),
        ("filter=inttrunc,typesize=4", "'inttrunc': inttrunc needs a number"),
        ("filter=shuffle:8,typesize=4", "'shuffle:8': says another item size than typesize"),
    ],
)
def test_what_could_be_said_instead_of_a_bad_value(dirs, option, instead):
    one_line_refusal(attempt(DAEMON, *dirs, "-o", option), instead)


@pytest.mark.parametrize(
    "typed, meant",
    [
        ("comit=5", "commit"),
        ("levle=3", "level"),
        ("chunk_size=64K", "chunksize"),
        ("compress=zstd:3", "codec"),
        ("compresion=zstd", "codec"),
        ("allow-other", "allow_other"),
        (" level=3", "level"),
        ("RO", "ro"),
        ("uid=1000", None),
        ("x" * 31, None),
        ("x" * 32, None),
        ("level" * 2000, None),
    ],
    ids=lambda v: str(v)[:16],
)
def test_a_mistyped_option_is_told_the_one_that_was_meant(dirs, typed, meant):
    said = f": did you mean '{meant}'?" if meant else ": see --help"
    one_line_refusal(attempt(DAEMON, *dirs, "-o", f"cache=8M,{typed}"), said)


@pytest.mark.parametrize(
    "words, meant",
    [
        (["extrct"], "extract"),
        (["Verify", "x"], "verify"),
        (["help", "stats"], "stat"),
        (["decompress", "x"], "extract"),
        (["recompress", "x"], "cframefs --recompress"),
        (["extract", "--salvge", "x"], "--salvage"),
        (["compress", "x", "--codc=lz4", "y"], "--codec"),
    ],
    ids=str,
)
def test_a_mistyped_command_is_told_the_one_that_was_meant(words, meant):
    got = attempt(CFRAME, *words)
    assert got.returncode == 1 and got.stderr.endswith(f"; did you mean '{meant}'?\n"), got


@pytest.mark.parametrize(
    "option, why",
    [
        ("tune={}", "is none of balanced"),
        ("codec={}", "is too long"),
        ("pipeline={}:x", "is too long"),
        ("rules={}", "File name too long"),
        ("level={}10", "is not from 0 to 9"),
        ("{}", "see --help"),
    ],
)
def test_a_long_value_leaves_room_for_the_reason(dirs, option, why):
    one_line_refusal(attempt(DAEMON, *dirs, "-o", option.format("0" * 6000)), why)


def test_missing_arguments_and_directories(dirs, work):
    backing, mnt = dirs
    (work / "file").write_text("a file")
    one_line_refusal(attempt(DAEMON))
    one_line_refusal(attempt(DAEMON, backing))
    one_line_refusal(attempt(DAEMON, backing, mnt, mnt))
    one_line_refusal(attempt(DAEMON, work / "absent", mnt), "absent")
    one_line_refusal(attempt(DAEMON, work / "file", mnt), "file")
    one_line_refusal(attempt(DAEMON, backing, work / "absent"), "absent")
    one_line_refusal(attempt(DAEMON, backing, work / "file"), "file")
    one_line_refusal(attempt(DAEMON, backing, mnt, "--bogus"), "bogus': unknown; see --help")
    for words in (["-xf", backing, mnt], [backing, "-fx", mnt], ["--help", "-xf"]):
        one_line_refusal(attempt(DAEMON, *words), "argument '-x': unknown; see --help")
    for word in ("--codec=lz4", "--cache", "--ro", "--fsname=x"):
        one_line_refusal(
            attempt(DAEMON, word, backing, mnt), f"'{word}': options of a mount follow -o"
        )


def test_a_terminal_obeys_no_name(dirs, work):
    backing, mnt = dirs
    (work / "rules").write_text("*.x \x1b[31mzstd\n")
    (work / "a\n\x1b[31mb").write_text("a file")
    for words in (
        [work / "no\nsuch\x1b[31m", mnt],
        [work / "a\n\x1b[31mb", mnt],
        [backing, mnt, "-o", "codec=\x1b[31mx"],
        [backing, mnt, "-o", f"rules={work}/rules"],
        [backing, mnt, "--\x1b[31m"],
    ):
        got = attempt(DAEMON, *words)
        one_line_refusal(got, "?[31m")
        assert "\x1b" not in got.stderr


def test_a_long_path_leaves_room_for_the_reason(mount, work):
    name = "/".join(["x" * 200] * 8)
    (work / name).mkdir(parents=True)
    (work / "other").mkdir()
    m = mount(backing=work / name)
    one_line_refusal(attempt(DAEMON, m.backing, work / "other"), f"mounted at '{m.mnt}'")


def test_an_option_without_its_value(dirs):
    one_line_refusal(attempt(DAEMON, *dirs, "-o"), "-o", "needs options")


def store(m, data):
    (m.mnt / "f").write_bytes(data)
    sync(m.mnt / "f")
    m.remount()
    assert (m.mnt / "f").read_bytes() == data
    return header(m.stored("f"))


@pytest.mark.parametrize("codec", CODECS)
def test_codec_and_level(mount, codec):
    got = store(mount(f"codec={codec},level=3"), blob(3, 500_000, "text"))
    assert (got["codec"], got["level"]) == (codec, 3)


@pytest.mark.parametrize(
    "name, ids", [("none", []), ("shuffle", [1]), ("bitshuffle", [2]), ("delta", [3])]
)
def test_filter_and_typesize(mount, name, ids):
    got = store(mount(f"codec=lz4,filter={name},typesize=4"), blob(4, 500_000, "runs"))
    assert (got["filters"], got["typesize"]) == (ids, 4)


def test_a_filter_with_a_number_and_typesize(mount):
    m = mount("filter=truncprec:10,typesize=8")
    (m.mnt / "f").write_bytes(blob(4, 500_000, "floats"))
    m.unmount()
    assert header(m.stored("f"))["typesize"] == 8


def test_sizes_and_pipeline_text(mount):
    got = store(
        mount("chunksize=1M,blocksize=64K,typesize=4,filter=shuffle"), blob(5, 3_000_000, "ramp")
    )
    assert (got["chunksize"], got["blocksize"]) == (1 << 20, 64 << 10)
    got = store(mount("pipeline=shuffle:8+zlib:4"), blob(6, 1_000_000, "floats"))
    assert (
        got["codec"] == "zlib"
        and got["level"] == 4
        and got["filters"] == [1]
        and got["typesize"] == 8
    )


def test_level_0_stores(mount):
    for options in ("level=0", "level=0,tune=size", "codec=zlib,level=0,tune=balanced"):
        m = mount(f"{options},chunksize=64K")
        store(m, blob(7, 300_000, "text"))
        assert m.stored("f").stat().st_size >= 300_000


@pytest.mark.parametrize(
    "options",
    [
        "workers=1",
        "workers=3",
        "cache=1M",
        "dirty_max=4M",
        "commit=1",
        "noatime",
        "entry_timeout=0,attr_timeout=0",
        "entry_timeout=5",
        "chunksize=32K",
        "nosuid,nodev",
        "nodiratime,diratime,silent,loud",
        "max_read=4K",
        "max_read=1M,readahead=0",
    ],
)
def test_other_options_mount_and_work(mount, options):
    m = mount(options)
    data = blob(8, 6_000_000, "floats")
    (m.mnt / "f").write_bytes(data)
    m.remount()
    assert (m.mnt / "f").read_bytes() == data


def test_a_backslash_in_the_name_of_a_mount(mount):
    """It does not join that option with the next, in which libfuse is told max_read."""
    m = mount("fsname=a\\b\\,noatime")
    assert run("findmnt", "-no", "SOURCE", m.mnt) == "a\\b\\\n"
    (m.mnt / "f").write_text("x")


def test_a_backing_directory_with_a_comma_and_a_backslash(mount, work):
    """Its name is that of the mount, and ends no option, nor does it begin one."""
    m = mount(backing=work / "a,b\\c,d\\")
    assert run("findmnt", "-no", "SOURCE", m.mnt) == f"{m.backing}\n"
    (m.mnt / "f").write_text("x")


@pytest.mark.parametrize("options, works", [("", False), ("dev,suid", True)])
def test_devices_count_where_root_says_so(root, mount, options, works):
    """What the kernel does with any FUSE file system, and the README says."""
    m = mount(options)
    os.mknod(m.mnt / "null", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    if works:
        (m.mnt / "null").write_bytes(b"gone")
    else:
        with pytest.raises(PermissionError):
            (m.mnt / "null").write_bytes(b"gone")


def test_commit_interval(mount):
    """A background commit brings an open file into its frame, without close or fsync."""
    m = mount("commit=1")
    fd = os.open(m.mnt / "f", os.O_CREAT | os.O_WRONLY | os.O_DIRECT)
    page = mmap.mmap(-1, 1 << 20)
    page[:] = blob(9, 1 << 20, "text")
    os.writev(fd, [page])

    def committed():
        return int.from_bytes(m.stored("f").read_bytes()[0x1E:0x26], "big") == 1 << 20

    wait_until(committed, 20, "background commit")
    os.close(fd)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one processor")
def test_as_many_workers_as_processors_for_them(mount):
    """A batch system or a container gives a few of a machine that may have hundreds. (libfuse has
    one more thread now and then: hence the least of many counts.)"""
    cpus, least = os.sched_getaffinity(0), {}

    def is_right():
        return least[""] == least["workers=1"] == least["workers=2"] - 1

    os.sched_setaffinity(0, {min(cpus)})
    try:
        for n in range(50):
            for options in "", "workers=1", "workers=2":
                m = mount(options)
                threads = len(os.listdir(f"/proc/{m.proc.pid}/task"))
                least[options] = min(threads, least.get(options, threads))
                m.unmount()
            if n >= 4 and is_right():
                break
    finally:
        os.sched_setaffinity(0, cpus)
    assert is_right(), least


def test_dirty_data_is_bounded(mount):
    """More is written than may be dirty: the writer waits, nothing is lost, memory stays small."""
    m = mount("dirty_max=8M,cache=8M,commit=3600,codec=lz4")
    data = blob(10, 1 << 20, "noise")
    fd = os.open(m.mnt / "f", os.O_CREAT | os.O_WRONLY)
    for _ in range(300):
        os.write(fd, data)
    os.fsync(fd)
    os.close(fd)
    held_to(m, 150 << 20)
    with open(m.mnt / "f", "rb") as f:
        assert all(f.read(1 << 20) == data for _ in range(300)) and f.read() == b""
