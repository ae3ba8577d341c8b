"""Each subcommand of the bench runs from end to end, with little data and one
round. The figures mean nothing here."""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

from libdata import blob
from libmount import BUILD, CFRAME, DAEMON, REPO, is_mounted
from libprogram import skip_or_fail

BENCH = REPO / "tools/bench/bench"
READ_ROWS = {
    "sequential",
    "parallel",
    "random-4k",
    "random-64k",
    "warm-4k",
    "walk",
    "memmap",
    "small-files",
    "list",
    "open-1TiB",
}
WRITE_ROWS = {"sequential", "patch-4k", "small-files", "untar"}

# Programs under the sanitizers would only make the same calls slower.
pytestmark = [
    pytest.mark.release,
    pytest.mark.skipif(os.geteuid() != 0, reason="mounts loop devices"),
    pytest.mark.watchdog(400),
]


@pytest.fixture
def data(work):
    """Two files, whose names sort otherwise than their sizes."""
    made = work / "data"
    made.mkdir()
    (made / "a-text").write_bytes((blob(1, 100_003, "text") * 30)[: 2 << 20])
    (made / "b-ramp").write_bytes(blob(2, 4 << 20, "ramp"))
    return made


def systems(*peers):
    """cframefs, and those peers whose programs are here; the bench leaves out
    what the kernel lacks."""
    tools = {"btrfs": "mkfs.btrfs", "squashfs": "mksquashfs", "squashfuse": "squashfuse_ll"}
    return ",".join(["cframefs-zstd", *(p for p in peers if shutil.which(tools[p.split("-")[0]]))])


def start(work, command, *args, stdout=subprocess.PIPE, **env):
    """Runs it to its end, with a file for its JSON."""
    if not shutil.which("cc"):
        skip_or_fail("no C compiler")
    return subprocess.run(
        [
            sys.executable,
            str(BENCH),
            command,
            *map(str, args),
            "--json",
            str(work / f"{command}.json"),
            "--keep-caches",
            "--rounds",
            "1",
            "--cframefs",
            str(DAEMON),
        ],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=350,
        cwd=work,
        env={**os.environ, "TMPDIR": str(work), **env},
    )


def bench(work, command, *args, **env):
    """Runs it; its JSON. Nothing may be left mounted."""
    got = start(work, command, *args, **env)
    assert got.returncode == 0, got.stdout[-2000:] + got.stderr[-2000:]
    assert not list(work.glob("cframefs-bench-*")), "its room is gone"
    return json.loads((work / f"{command}.json").read_text()), got.stdout


def assert_measured(row, name):
    assert row["systems"]["cframefs-zstd"]["median"] > 0 or row["unit"] == "ms", name
    assert len(row["systems"]["cframefs-zstd"]["samples"]) == 1, name


def test_read(work, data):
    result, shown = bench(
        work,
        "read",
        "--data",
        data,
        "--systems",
        systems("btrfs-zstd3", "squashfs-zstd-128K", "squashfuse-zstd-128K"),
        "--small-files",
        100,
        "--chunks",
        5000,
    )
    missing = READ_ROWS - result["rows"].keys()
    assert missing <= {"memmap"} and all(name in result["skipped"] for name in missing)
    for name, row in result["rows"].items():
        assert_measured(row, name)
        assert row["title"] in shown
    for name in ("random-4k", "random-64k", "warm-4k"):
        assert result["rows"][name]["systems"]["cframefs-zstd"]["p99_us"][0] > 0
    assert result["rows"]["open-1TiB"]["systems"]["cframefs-zstd"]["mib"][0] < 64
    assert 0 < result["stored_bytes"]["cframefs-zstd"] < result["data"]["bytes"] == 6 << 20
    assert result["peak_rss_kib"]["cframefs-zstd"] > 0 and "zstd" in result["machine"]["libraries"]
    # what an empty btrfs takes is as much as all of these files
    assert max(result["stored_bytes"].values()) < result["data"]["bytes"]
    for peer in result["stored_bytes"].keys() - {"cframefs-zstd"}:
        assert result["rows"]["sequential"]["ratios"]["cframefs-zstd"][peer] > 0


def test_codec(work, data, monkeypatch):
    """Its C half links with a finished build, and every cell comes back from both sides."""
    monkeypatch.syspath_prepend(str(BENCH.parent))
    import bench_codec

    if not shutil.which("cc"):
        skip_or_fail("no C compiler")
    try:
        library, include = bench_codec.find_reference(None)
    except bench_codec.BenchError as why:
        pytest.skip(str(why))
    program = bench_codec.build_cells(BUILD, include, work)
    try:
        assert bench_codec.ask_cells(program, library, "versions")[0]["reference"]["zstd"]
    except bench_codec.BenchError as why:
        pytest.skip(f"another library than the bench knows: {why}")
    assert len(bench_codec.ask_cells(program, library, "kernels", 1)) == 18
    (work / "one").write_bytes((data / "b-ramp").read_bytes()[: 100 << 10])
    for threads in (1, 2):
        cells = bench_codec.ask_cells(
            program, library, "cells", work / "one", 50 << 10, 1, threads, 2 - threads, 4
        )
        rows = bench_codec.merge(cells, 2)
        assert len(rows) == 24 and all(r["ours"]["bytes"] for r in rows)
    ranges = bench_codec.ask_cells(program, library, "range", work / "one", 1)
    assert all(r["ours_us"] > 0 and r["reference_us"] > 0 for r in ranges)


def test_write(work, data):
    result, _ = bench(
        work,
        "write",
        "--data",
        data,
        "--systems",
        systems("btrfs-zstd1"),
        "--source-tar",
        made_tar(work, data),
    )
    assert result["rows"].keys() >= WRITE_ROWS
    for name, row in result["rows"].items():
        assert_measured(row, name)
        if "cframefs-zstd on a device" not in result["skipped"]:
            assert row["systems"]["cframefs-zstd"]["written"][0] > 0, name


def test_a_peer_that_cannot_be_made_is_left_out(work, data):
    """Of the writes, too, and it is named."""
    (work / "bin").mkdir()
    (work / "bin/mkfs.btrfs").write_text("#!/bin/sh\necho no such thing >&2\nexit 1\n")
    (work / "bin/mkfs.btrfs").chmod(0o755)
    path = f"{work}/bin:{os.environ['PATH']}"
    args = ["--data", data, "--systems", "cframefs-zstd,btrfs-zstd1", "--only", "sequential"]
    result, shown = bench(work, "write", *args, PATH=path)
    assert list(result["rows"]["sequential"]["systems"]) == ["cframefs-zstd"]
    assert "left out: btrfs-zstd1: " in shown and "no such thing" in shown


def test_the_room_may_be_anywhere(work, data):
    """The kernel names a mount by its real path, and spaces in it by their numbers."""
    (work / "a b").mkdir()
    (work / "link").symlink_to(work / "a b")
    args = ["--data", data, "--systems", "cframefs-zstd", "--only", "sequential"]
    result, _ = bench(work, "read", *args, TMPDIR=str(work / "link"))
    assert_measured(result["rows"]["sequential"], "sequential")
    assert not list((work / "a b").iterdir())


def test_the_figures_are_kept_where_the_table_cannot_be_printed(work, data):
    """A terminal that was closed meanwhile, or a pipe to `head`."""
    args = ["--data", data, "--systems", "cframefs-zstd", "--only", "sequential"]
    with open("/dev/full", "w") as full:
        got = start(work, "read", *args, stdout=full, PYTHONUNBUFFERED="1")
    assert got.returncode == 1 and "No space left" in got.stderr
    assert_measured(json.loads((work / "read.json").read_text())["rows"]["sequential"], "read")


def test_two_may_fetch_a_package_at_once(work, bench_modules, monkeypatch):
    """The second one comes while the first one loads, and is faster."""
    import data as packages

    monkeypatch.setenv("XDG_CACHE_HOME", str(work))
    told = []

    def run(*argv, cwd=None):
        if "download" in argv:
            told.append(argv)
            if len(told) == 1:
                packages.fetch("thing")
            (Path(cwd) / "thing.deb").write_bytes(b"x")
        else:  # dpkg -x DEB DIRECTORY
            shutil.copy(argv[-2], Path(argv[-1]) / "file")

    monkeypatch.setattr(packages, "run", run)
    where = packages.fetch("thing")
    assert len(told) == 2 and (where / "file").read_bytes() == b"x"
    assert [p.name for p in where.parent.iterdir()] == ["thing"]


def made_tar(work, data):
    tar = work / "source.tar"
    with tarfile.open(tar, "w") as out:
        for i in range(20):
            out.add(data / "a-text" if i == 0 else __file__, f"dir/{i}")
    return tar


def flip_a_byte(path):
    with open(path, "r+b") as f:
        f.seek(path.stat().st_size // 2)
        byte = f.read(1)[0]
        f.seek(-1, os.SEEK_CUR)
        f.write(bytes([byte ^ 1]))


@pytest.fixture
def bench_modules(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH.parent))
    import bench_write
    import host
    import measure

    return bench_write, host, measure


@pytest.mark.parametrize("name", sorted(WRITE_ROWS | {"append"}))
def test_wrong_bytes_are_noticed(work, data, bench_modules, name):
    """Each row's check, on a plain directory: it takes what the row wrote, and no other byte."""
    bench_write, host, measure = bench_modules
    (row,) = (row for row in bench_write.ROWS if row.name == name)
    system = SimpleNamespace(name="plain", point=work / "point")
    system.point.mkdir()
    job = measure.Work(
        files=sorted(data.iterdir(), key=lambda f: -f.stat().st_size),
        room=work,
        load=measure.build_load(work),
        settings=SimpleNamespace(source_tar=made_tar(work, data)),
    )
    if name == "patch-4k":
        shutil.copy(job.files[0], system.point)
    row.run(system, job) if row.run else measure.generate(job, *row.load(system, job))
    row.check(system, job)
    flip_a_byte(max(p for p in system.point.rglob("*") if p.is_file()))
    with pytest.raises(host.BenchError):
        row.check(system, job)


def test_scaling(work, data):
    result, shown = bench(work, "read", "--scaling", "--data", data, "--plot", work / "plot.svg")
    assert {name: len(next(iter(rows.values()))) for name, rows in result["axes"].items()} == {
        "readers": 3,
        "cache": 4,
        "blocksize": 5,
    }
    assert all(
        value > 0
        for rows in result["axes"].values()
        for row in rows.values()
        for value in row.values()
    )
    assert ElementTree.parse(work / "plot.svg").getroot().tag.endswith("svg")
    assert "blocksize" in shown and "256K" in shown


def test_ratio(work, data):
    readme = work / "README.md"
    marks = re.search(
        r'MARKS = \("(.*)", "(.*)"\)', (BENCH.parent / "ratio_report.py").read_text()
    ).groups()
    readme.write_text("before\n{}\nold\n{}\nafter\n".format(*marks))
    result, _ = bench(
        work,
        "ratio",
        "--data",
        data,
        "--cframe",
        CFRAME,
        "--plot",
        work / "plot.svg",
        "--readme",
        readme,
    )
    given = result["classes"]["given"]
    assert given["bytes"] == 6 << 20 and {row["file"] for row in given["files"]} == {
        "a-text",
        "b-ramp",
    }
    for size in ("cframefs", "tuned", "best"):
        assert 0 < given["sizes"][size] < given["bytes"], size
    assert result["write_mb_s"]["tuned"] > 0
    assert ElementTree.parse(work / "plot.svg").getroot().tag.endswith("svg")
    text = readme.read_text()
    assert (
        text.startswith("before\n")
        and text.endswith("after\n")
        and "given" in text
        and "old" not in text
    )


def test_the_readme_has_the_place_for_the_table():
    marks = re.search(
        r'MARKS = \("(.*)", "(.*)"\)', (BENCH.parent / "ratio_report.py").read_text()
    ).groups()
    text = (REPO / "README.md").read_text()
    assert all(text.count(mark) == 1 for mark in marks)


def test_every_row_is_explained():
    """docs/BENCH.md names each row."""
    page = (REPO / "docs/BENCH.md").read_text()
    for source in ("bench_read.py", "bench_write.py"):
        for name in re.findall(r'Row\("([^"]+)"', (BENCH.parent / source).read_text()):
            assert f"`{name}`" in page, name


@pytest.mark.parametrize(
    "args, word",
    [
        (["read", "--only", "bogus"], "bogus"),
        (["write", "--systems", "zfs"], "zfs"),
        (
            [
                "read",
                "--data",
                "{work}/data",
                "--cframefs",
                "/absent",
                "--only",
                "walk",
                "--systems",
                "cframefs",
            ],
            "absent",
        ),
        (["read", "--data", "{work}"], "no files"),
        (["read", "--sets", "bogus"], "bogus"),
        (["read", "--json", "{work}/absent/r.json"], "r.json: cannot be written"),
        (["ratio", "--readme", "{work}"], "cannot be written"),
        (["ratio", "--cframe", "/absent"], "absent"),
        (["commit", "--cframefs", "/absent"], "/absent: no such program"),
        (["commit", "--cframefs", "{work}/data/a-text"], "sparse_frame of the build directory"),
        (["write", "--data", "{work}/data", "--source-tar", "{work}/data/a-text"], "no tar"),
    ],
)
def test_what_is_wrong_is_one_line(work, data, args, word):
    got = subprocess.run(
        [sys.executable, str(BENCH), *[a.format(work=work) for a in args]],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "TMPDIR": str(work)},
        check=False,
    )
    assert got.returncode == 1 and got.stderr.startswith("bench: ") and word in got.stderr
    assert len(got.stderr.splitlines()) == 1
    assert not any(is_mounted(p) for p in Path(work).glob("cframefs-bench-*"))


@pytest.mark.parametrize(
    "args", [["read", "--rounds", "0"], ["ratio", "--rounds", "-1"], ["commit", "--count", "x"]]
)
def test_numbers_are_checked_before_anything_is_measured(args):
    got = subprocess.run([sys.executable, str(BENCH), *args], capture_output=True, text=True)
    assert got.returncode == 2 and f"argument {args[1]}: invalid" in got.stderr


def test_the_helper_makes_a_frame_with_that_many_chunks(work):
    tool = BUILD / "tools/bench/sparse_frame"
    subprocess.run([str(tool), str(work / "f.b2frame"), "3000"], check=True)
    shown = subprocess.run(
        [str(CFRAME), "info", str(work / "f.b2frame"), "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    info = json.loads(shown.stdout)
    assert info["nchunks"] == 3000 and info["nbytes"] == 3000 << 20
    verify = subprocess.run(
        [str(CFRAME), "verify", str(work / "f.b2frame")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert verify.returncode == 0, verify.stdout
