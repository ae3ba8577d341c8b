"""`bench ratio`: bytes on disk, by file system and class of data; how good the tuner's choices are.

    tools/bench/bench ratio [--json FILE] [--plot FILE.svg] [--readme FILE] [--classes LIST]

`cframefs` is the daemon itself with its defaults: blocks in use in the backing directory. `tuned`
is computed by `cframe tune --all`: every chunk of 1 MiB as it would be encoded, with the frame's
own bytes. `best` is the smallest of all candidates for each file, one pipeline a file, found by
trying. `reference` is the Blosc2 library told the best of three filters and four typesizes for each
file, zstd level 1. What an empty btrfs takes is not counted. docs/BENCH.md says more.
"""

import argparse
import contextlib
import json
import os
import statistics
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import host
import measure
import ratio_data
import ratio_report
import ratio_speed
import report
from host import BenchError, Unavailable
from systems import SYSTEMS

HERE = Path(__file__).resolve().parent
# class of data, peer, what the quotient of the sizes may be at most
FLOORS = [
    ("scientific", "squashfs-zstd-1M", 0.56),
    ("scientific", "btrfs-zstd3", 0.55),
    ("text", "squashfs-zstd-128K", 1.03),
    ("executables", "squashfs-zstd-128K", 1.03),
]
CHUNK = 1 << 20
FRAME_BYTES = 600  # header, trailer, index of a small file
BLOCK = 4096


def arguments(command, argv):
    p = argparse.ArgumentParser(
        prog=f"bench {command}",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("--json", metavar="FILE", help="write sizes of every file and system to FILE")
    p.add_argument("--plot", metavar="FILE", help="write a bar chart (SVG) to FILE")
    p.add_argument("--readme", metavar="FILE", help="put the table into FILE, between its marks")
    p.add_argument(
        "--data", metavar="DIR", help="the files of this directory, instead of the classes"
    )
    p.add_argument(
        "--rounds",
        type=host.natural,
        default=3,
        help="samples of the speed of writing; 0: sizes only (3)",
    )
    p.add_argument(
        "--keep-caches", action="store_true", help="do not drop the machine's caches: for tests"
    )
    p.add_argument(
        "--classes",
        default=",".join(ratio_data.CLASSES),
        help="of: " + ", ".join(ratio_data.CLASSES),
    )
    p.add_argument("--cframe", metavar="PATH", help="the tool (build/tools/cframe/cframe)")
    p.add_argument("--cframefs", metavar="PATH", help="the daemon (build/src/fs/cframefs)")
    p.add_argument("--options", default="", help="mount options for cframefs")
    p.add_argument("--check", action="store_true", help="exit code 1 when a floor is missed")
    return p.parse_args(argv)


def on_disk(stored, size):
    """Chunks, a word and a checksum for each, and the frame around them, in whole blocks."""
    frame = stored + FRAME_BYTES + 17 * -(-size // CHUNK) if size else 0
    return -(-frame // BLOCK) * BLOCK


def judged(cframe, path):
    """What `cframe tune` says of one file."""
    out = host.run(cframe, "tune", "--all", "--json", path)
    (one,) = json.loads(out)
    smallest = min(one["candidates"], key=lambda c: c["stored"], default=None)
    best = min(smallest["stored"] if smallest else 0, one["size"] + 32)
    return {
        "file": path.name,
        "bytes": one["size"],
        "choice": one["tuned"]["pipeline"],
        "choices": one["choices"],
        "choosing_ms": one["choosing_ms"],
        "tuned_stored": one["tuned"]["stored"],
        "best_stored": best,
        "best_pipeline": smallest["pipeline"] if smallest else "",
        "tuned": on_disk(one["tuned"]["stored"], one["size"]),
        "best": on_disk(best, one["size"]),
    }


def judge_files(cframe, laid, skipped):
    files = [(name, f) for name, group in laid.items() for f in group]
    with ThreadPoolExecutor(max(1, (os.cpu_count() or 2) // 2)) as pool:
        results = list(pool.map(lambda pair: judged(cframe, pair[1]), files))
        references = list(pool.map(lambda pair: reference(pair[1], skipped), files))
    for row, stored in zip(results, references):
        if stored is not None:
            row["reference"] = on_disk(stored, row["bytes"])
    return {name: [r for (where, _), r in zip(files, results) if where == name] for name in laid}


def reference(path, skipped):
    """Bytes that the Blosc2 library makes of it; None without the library."""
    try:
        return json.loads(host.run(sys.executable, HERE / "ratio_reference.py", path))[str(path)]
    except BenchError as why:
        skipped["reference"] = str(why)
        return None


def fill(laid, room, args, skipped):
    """{class: {system: bytes}}; a fresh system for each class."""
    sizes = {name: {} for name in laid}
    for peer in ratio_report.PEERS + ["cframefs"]:
        for name, files in laid.items():
            measure.progress(f"{peer}: {name}")
            with contextlib.ExitStack() as stack:
                try:
                    place = room / f"{peer}-{name}"
                    place.mkdir()
                    system = SYSTEMS[peer](peer, place, stack, args)
                    before = measure.empty_size(system)
                    system.fill(files)
                    sizes[name][peer] = system.stored() - before
                except Unavailable as why:
                    skipped[peer] = str(why)
                    break
    return sizes


def floor(what, seen, limit):
    return {
        "what": what,
        "seen": seen,
        "ok": None if seen is None else seen <= limit,
        "limit": limit,
    }


def quotient(classes, name, mine, peer):
    sizes = classes[name]["sizes"] if name in classes else {}
    ours, theirs = sizes.get(mine), sizes.get(peer)
    return ours / theirs if ours and theirs else None


def floors(classes, speed):
    mine = "cframefs" if all("cframefs" in c["sizes"] for c in classes.values()) else "tuned"
    rows = [row for c in classes.values() for row in c["files"]]
    packed = classes.get("packed", {"files": []})["files"]
    worst = max(((r["tuned_stored"] - BLOCK) / r["bytes"] for r in packed), default=None)
    said = [
        floor(f"{name}: {mine} / {peer}", quotient(classes, name, mine, peer), limit)
        for name, peer, limit in FLOORS
    ]
    if speed:
        by_hand = speed["by hand"] / speed["tuned"]
        said.append(floor("writing by hand / writing tuned", by_hand, 1.11))
    said.append(floor("packed: the worst file, less 4 KiB, / its bytes", worst, 1.002))
    if rows:
        last = max(rows, key=ratio_report.behind)
        said.append(
            floor(
                "choice behind the best of all, median",
                statistics.median(map(ratio_report.behind, rows)),
                0.03,
            )
        )
        said.append(
            {
                "what": f"choice behind the best of all, worst ({last['file']})",
                "seen": ratio_report.behind(last),
                "ok": None,
                "limit": None,
            }
        )
    return said


def chosen_classes(args):
    """{name: what lays its files out}."""
    if args.data:
        return {"given": ratio_data.one_directory(args.data)}
    names = args.classes.split(",")
    for name in names:
        if name not in ratio_data.CLASSES:
            raise BenchError(f"no such class: {name} (known: {', '.join(ratio_data.CLASSES)})")
    return {name: ratio_data.CLASSES[name] for name in names}


def summed(rows, sizes):
    """A class: what its files come to, as the systems store them and as computed."""
    computed = {
        kind: sum(row[kind] for row in rows)
        for kind in ratio_report.COMPUTED
        if all(kind in row for row in rows)
    }
    return {
        "bytes": sum(row["bytes"] for row in rows),
        "sizes": {**sizes, **computed},
        "files": rows,
    }


def write_speed(args, stack, room, laid, rows):
    """Of the files that filters help, as tuned and with their best pipelines."""
    wanted = [name for name in laid if name not in ("text", "executables", "packed")]
    files = [f for name in wanted for f in laid[name] if f.stat().st_size > 1_000_000]
    if not files:
        return {}
    best = {row["file"]: row["best_pipeline"] for group in rows.values() for row in group}
    work = measure.Work(files=files, room=room, load=measure.build_load(room), settings=args)
    return ratio_speed.compare(work, stack, best, args.rounds)


def bench(args, stack):
    cframe = host.need(host.program(args.cframe, "tools/cframe/cframe"), "cframe")
    args.cframefs = host.program(args.cframefs, "src/fs/cframefs")
    skipped = {}
    host.keep_caches = args.keep_caches
    room = host.workroom(stack)
    measure.progress("laying out the data")
    laid = ratio_data.lay_out(chosen_classes(args), room / "data", skipped)
    sizes = fill(laid, room, args, skipped)
    measure.progress("trying every candidate on every file")
    judged_files = judge_files(cframe, laid, skipped)
    classes = {name: summed(rows, sizes[name]) for name, rows in judged_files.items()}
    speed = (
        write_speed(args, stack, room, laid, judged_files) if args.rounds and args.cframefs else {}
    )
    return {
        "bench": "ratio",
        "machine": host.describe(args.cframefs),
        "classes": classes,
        "write_mb_s": speed,
        "floors": floors(classes, speed),
        "skipped": skipped,
    }


def main(command, argv):
    args = arguments(command, argv)
    host.check_outputs(args.json, args.plot, args.readme)
    with contextlib.ExitStack() as stack, measure.quiet_terminal():
        result = bench(args, stack)
    report.write_json(args.json, result)
    ratio_report.show(result)
    if args.plot:
        ratio_report.plot(args.plot, result)
    if args.readme:
        ratio_report.put_into(args.readme, result)
    return 1 if args.check and any(v["ok"] is False for v in result["floors"]) else 0
