"""`bench read` and `bench write`: cframefs beside other file systems, on real data.

    tools/bench/bench read [--json FILE]      cold and warm reads, many files, huge files
    tools/bench/bench read --scaling [--plot FILE]   the same by readers, cache size and block size
    tools/bench/bench write [--json FILE]     writes and fsync, and what reaches the device

All backing files lie on a private tmpfs. Every sample is a fresh mount with cold caches; the
systems take turns; the figure is the median of --rounds samples. docs/BENCH.md says what each row
means.
"""

import argparse
import contextlib
from pathlib import Path

import bench_read
import bench_scaling
import bench_write
import data
import host
import measure
import report
from systems import SYSTEMS

COMMANDS = {"read": bench_read, "write": bench_write}


def arguments(command, argv):
    p = argparse.ArgumentParser(
        prog=f"bench {command}",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("--json", metavar="FILE", help="write every sample, ratios and versions to FILE")
    p.add_argument("--rounds", type=host.positive, default=7, help="samples of each figure (7)")
    p.add_argument("--cframefs", metavar="PATH", help="the daemon (build/src/fs/cframefs)")
    p.add_argument("--options", default="", help="more mount options for cframefs")
    p.add_argument("--systems", metavar="LIST", help="of: " + ", ".join(SYSTEMS))
    p.add_argument("--only", metavar="LIST", help="these rows")
    p.add_argument(
        "--sets",
        default=",".join(data.SETS),
        metavar="LIST",
        help="data sets, of: " + ", ".join(data.SETS),
    )
    p.add_argument("--data", metavar="DIR", help="the files of this directory instead")
    p.add_argument(
        "--small-files",
        type=host.positive,
        default=bench_read.SMALL,
        metavar="N",
        help="read: how many (10,000)",
    )
    p.add_argument(
        "--chunks",
        type=host.positive,
        default=bench_read.CHUNKS,
        metavar="N",
        help="read: of the huge frame (1,048,576)",
    )
    p.add_argument(
        "--scaling", action="store_true", help="read: by readers, cache size and block size"
    )
    p.add_argument("--plot", metavar="FILE", help="with --scaling: write a chart (SVG) to FILE")
    p.add_argument(
        "--source-tar", metavar="FILE", help="write: this tar instead of the kernel's source"
    )
    p.add_argument(
        "--keep-caches",
        action="store_true",
        help="do not drop the machine's caches: for tests, not for figures",
    )
    p.add_argument("--check", action="store_true", help="exit code 1 when a floor is missed")
    return p.parse_args(argv)


def chosen(text, known, what):
    names = text.split(",") if text else list(known)
    for name in names:
        if name not in known:
            raise host.BenchError(f"no such {what}: {name} (known: {', '.join(known)})")
    return names


def prepare(args, stack):
    """The room in memory, with all that is to be read or written."""
    host.keep_caches = args.keep_caches
    room = host.workroom(stack)
    work = measure.Work(files=[], room=room, load=measure.build_load(room), settings=args)
    if args.data:
        work.files = data.lay_out_directory(args.data, room / "data")
    else:
        work.files = data.lay_out(chosen(args.sets, data.SETS, "data set"), room / "data")
    return work


def need_cframefs(args, ours):
    """Peers alone, after an hour, are not what was asked for."""
    if ours:
        host.need(args.cframefs, "cframefs")


def bench(command, args, stack):
    kind = COMMANDS[command]
    rows = {row.name: row for row in kind.ROWS}
    rows = [rows[name] for name in chosen(args.only, rows, "row")]
    names = chosen(args.systems, SYSTEMS, "system") if args.systems else kind.SYSTEMS
    ours = [n for n in names if n.startswith("cframefs")]
    need_cframefs(args, ours)
    results = measure.Results()

    work = prepare(args, stack)
    rows = measure.possible(rows, args, results)
    if any(row.name in kind.SMALL_ROWS for row in rows):
        work.small = data.lay_out_small(work.files, work.room / "small", args.small_files)
    systems = measure.make_systems(names, work.room, stack, args, results)
    if kind.FILLS:
        systems = measure.fill(systems, work, results)
    else:
        systems = measure.mountable(systems, results)
    if not systems:
        raise host.BenchError("no system to measure: " + "; ".join(results.skipped.values()))
    measure.rounds(rows, systems, work, args.rounds, results)
    if not kind.FILLS:
        measure.count_writes(rows, systems, work, results)

    verdicts = measure.judge(kind.FLOORS, kind.MEMORY_MIB, results)
    return report.as_dict(
        command,
        rows,
        results,
        verdicts,
        host.describe(args.cframefs),
        data.describe(work.files),
        ours,
    )


def scaling(args, stack):
    need_cframefs(args, ["cframefs"])
    work = prepare(args, stack)
    axes = bench_scaling.run(work, stack)
    return {
        "bench": "scaling",
        "machine": host.describe(args.cframefs),
        "data": data.describe(work.files),
        "axes": axes,
        "floors": [],
    }


def main(command, argv):
    args = arguments(command, argv)
    args.cframefs = host.program(args.cframefs, "src/fs/cframefs")
    host.check_outputs(args.json, args.plot)
    with contextlib.ExitStack() as stack, measure.quiet_terminal():
        result = scaling(args, stack) if args.scaling else bench(command, args, stack)
    report.write_json(args.json, result)
    report.show(result)
    if args.scaling and args.plot:
        bench_scaling.plot(Path(args.plot), result["axes"])
    missed = any(floor["ok"] is False for floor in result["floors"])
    return 1 if args.check and missed else 0
