"""Our codec beside the reference's C library, in one process, chunk by chunk.

    tools/bench/bench codec [--json FILE] [--quick] [--cells PATTERN] [--rounds N]

Both sides get the same 1 MiB of real data, the same codec, level, filters and block size (the one
that the reference picks), and encode and decode straight from and to the same memory: no file, no
Python, no copy in between. Contexts are made before the clock runs. Single-threaded figures count
the thread's own processor time, those with two threads the time on the wall. "bare" rows are the
codec libraries alone on the same filtered streams: where they differ the libraries differ, and the
rest is ours.

Needs a build (build/), cc, pkg-config and the reference's Python package for
its library and header.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import data
import host
import report
from host import BenchError, ask, run

HERE = Path(__file__).resolve().parent
REPO = HERE.parent.parent
CHUNK = 1 << 20
SIDES = "ours", "reference"
TYPESIZES = 2, 4, 8

SPEED, WORST, SIZE, KERNELS = 1.2, 0.95, 1.01, 1.3  # what must be reached


def linux_text():
    """Source text of Linux: its public headers one after the other."""
    top = data.fetch("linux-libc-dev") / "usr/include/linux"
    return b"".join(f.read_bytes() for f in sorted(top.rglob("*.h")))


def largest(name, pattern="*"):
    files = [f for f in data.files_of(name) if f.match(pattern)]
    return max(files, key=lambda f: (f.stat().st_size, f.name)).read_bytes()


SETS = {
    "tycho2": lambda: largest("fits"),
    "grid": lambda: largest("grids", "*.gsb"),
    "image": lambda: largest("images", "*.fits"),
    "source": linux_text,
}


def samples(blob, count):
    """Whole chunks, evenly spread over a file."""
    room = len(blob) - CHUNK
    return b"".join(
        blob[at : at + CHUNK]
        for at in (room * (2 * i + 1) // (2 * count) // 8 * 8 for i in range(count))
    )


def find_reference(given):
    """(library, folder of its header) of the reference's package."""
    code = "import blosc2, pathlib; print(pathlib.Path(blosc2.__file__).parent)"
    top = (
        Path(given)
        if given
        else Path(ask(sys.executable, "-c", code) or ask("python3", "-c", code) or "/nowhere")
    )
    found = sorted(top.rglob("libblosc2.so*")), sorted(top.rglob("blosc2.h"))
    if not all(found):
        raise BenchError(
            "no libblosc2.so with its header in the Python package blosc2: pip install blosc2"
        )
    return found[0][0], found[1][0].parent


def build_cells(build, include, room):
    """The C half, against the codec library of a finished build."""
    archives = sorted((build / "src/codec").glob("*.a")) + sorted((build / "src/base").glob("*.a"))
    if not archives:
        raise BenchError(f"{build}: no build there (ninja -C {build})")
    libraries = [
        f"-l{name}"
        for pkg, name in (
            ("liblz4", "lz4"),
            ("libzstd", "zstd"),
            ("libxxhash", "xxhash"),
            ("zlib", "z"),
            ("libdeflate", "deflate"),
        )
        if pkg != "libdeflate" or not subprocess.run(["pkg-config", "--exists", pkg]).returncode
    ]
    run(
        "cc",
        "-O2",
        "-g",
        "-std=gnu11",
        "-D_GNU_SOURCE",
        "-I",
        REPO / "src",
        "-isystem",
        include,
        "-o",
        room / "codec_cells",
        HERE / "codec_cells.c",
        HERE / "codec_sides.c",
        "-Wl,--start-group",
        *archives,
        "-Wl,--end-group",
        *libraries,
        "-ldl",
        "-pthread",
    )
    return room / "codec_cells"


def ask_cells(program, library, *args, cpu=None):
    """Lines of JSON from the C half, on one processor when given."""
    pin = (lambda: os.sched_setaffinity(0, {cpu})) if cpu is not None else None
    done = subprocess.run(
        [str(a) for a in (program, library, *args)], capture_output=True, text=True, preexec_fn=pin
    )
    if done.returncode:
        raise BenchError(done.stderr.strip() or f"codec_cells: {done.returncode}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def merge(rows, count):
    """One row for the chunks of a set: bytes add up, speeds by the time they took."""
    merged, each = [], len(rows) // count
    for i in range(each):
        group = rows[i::each]
        row = dict(group[0])
        for side in [key for key in row if isinstance(row[key], dict)]:
            row[side] = {
                way: round(count / sum(1 / g[side][way] for g in group), 1)
                for way in ("encode", "decode")
            }
            row[side]["bytes"] = sum(g[side]["bytes"] for g in group)
        merged.append(row)
    return merged


def geomean(values, digits=3):
    """None of nothing: JSON has no NaN."""
    values = list(values)
    return round(math.exp(sum(map(math.log, values)) / len(values)), digits) if values else None


def add_ratios(row):
    a, b = (row[side] for side in SIDES)
    row["ratio"] = {
        "encode": round(a["encode"] / b["encode"], 3),
        "decode": round(a["decode"] / b["decode"], 3),
        "bytes": round(a["bytes"] / b["bytes"], 4),
    }
    return row


def cell_name(row):
    return (
        f"{row['set']} {row['filters'] or 'none'}:{row['typesize']} {row['codec']}:{row['level']}"
    )


def summarise(cells):
    """What the targets ask for, over some cells."""
    said = {}
    for way in ("encode", "decode"):
        ratios = {cell_name(r): r["ratio"][way] for r in cells}
        said[way] = {
            "geometric mean": geomean(ratios.values()),
            "target": SPEED,
            f"below {WORST}": dict(
                sorted(((n, v) for n, v in ratios.items() if v < WORST), key=lambda x: x[1])
            ),
        }
        said[way]["by codec"] = {
            c: geomean(r["ratio"][way] for r in cells if f"{r['codec']}:{r['level']}" == c)
            for c in dict.fromkeys(f"{r['codec']}:{r['level']}" for r in cells)
        }
    sizes = {cell_name(r): r["ratio"]["bytes"] for r in cells}
    said["bytes"] = {
        "geometric mean": geomean(sizes.values(), 4),
        f"above {SIZE}": dict(
            sorted(((n, v) for n, v in sizes.items() if v > SIZE), key=lambda x: -x[1])
        ),
    }
    return said


def versions(program, library, include):
    found = ask_cells(program, library, "versions")[0]
    said = (include / "blosc2.h").read_text().split("BLOSC2_VERSION_STRING")[-1].split('"')
    found["reference"]["c-blosc2"] = said[1] if len(said) > 1 else ""
    return found


def summary(result):
    said = {"one thread": summarise(result["cells"])}
    if result["two threads"]:
        said["two threads"] = summarise(result["two threads"])
    said["kernels"] = {
        "geometric mean": geomean(k["ours"] / k["reference"] for k in result["kernels"]),
        "target": KERNELS,
    }
    return said


def measure(args, room):
    library, include = find_reference(args.reference)
    program = build_cells(Path(args.build).resolve(), include, room)
    count, rounds, typesizes = (1, 3, (4,)) if args.quick else (args.chunks, args.rounds, TYPESIZES)
    cpu = max(os.sched_getaffinity(0))
    names = args.sets.split(",")

    def cells(name, threads, bare, sizes, cpu=None):
        """Rows of a set."""
        plan = (room / name, CHUNK, rounds, threads, int(bare), *sizes)
        rows = ask_cells(program, library, "cells", *plan, cpu=cpu)
        return [add_ratios({"set": name, **row}) for row in merge(rows, count)]

    result = {
        "bench": "codec",
        "versions": versions(program, library, include),
        "cells": [],
        "two threads": [],
        "kernels": [],
        "range": [],
    }
    if args.cells:
        os.environ["CELLS"] = args.cells
    else:
        result["kernels"] = ask_cells(program, library, "kernels", rounds, cpu=cpu)
    for name in names:
        print(f"codec: {name}", file=sys.stderr, flush=True)
        (room / name).write_bytes(samples(SETS[name](), count))
        result["cells"] += cells(name, 1, not args.no_bare, typesizes, cpu)
        if not args.single and len(os.sched_getaffinity(0)) > 1:
            result["two threads"] += cells(name, 2, False, (4,))
    if not args.cells:
        result["range"] = ask_cells(program, library, "range", room / names[0], rounds, cpu=cpu)
    if not result["cells"]:
        sizes = ", ".join(map(str, typesizes))
        raise BenchError(
            f"no such cell: {args.cells} (names are as 'shuffle:4 lz4:5', with typesizes {sizes})"
        )
    return {**result, "summary": summary(result)}


def show(result):
    for row in result["cells"] + result["two threads"]:
        a, b, r = row["ours"], row["reference"], row["ratio"]
        print(
            f"{row['threads']} {cell_name(row):42} "
            f"encode {a['encode']:7.0f} {b['encode']:7.0f} {r['encode']:6.2f}   "
            f"decode {a['decode']:7.0f} {b['decode']:7.0f} {r['decode']:6.2f}   "
            f"bytes {a['bytes']:8} {r['bytes']:.4f}"
        )
    for k in result["kernels"]:
        print(
            f"{k['kernel']:12} {k['typesize']:3}  {k['ours']:7.0f} {k['reference']:7.0f} "
            f"{k['ours'] / k['reference']:6.2f}   of memcpy {k['ours'] / k['memcpy']:.2f}"
        )
    for r in result["range"]:
        print(
            f"{r['range']}, codec {r['codec']}, blocks {r['blocksize'] or 'ours'}: "
            f"{r['ours_us']} us, parsed before {r['ours_parsed_us']} us, "
            f"reference {r['reference_us']} us"
        )
    print(json.dumps({"versions": result["versions"], **result["summary"]}, indent=1))


def main(command, argv):
    p = argparse.ArgumentParser(
        prog=f"bench {command}",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("--json", metavar="FILE", help="write all rows, ratios and versions to FILE")
    p.add_argument("--quick", action="store_true", help="one chunk a set, typesize 4, median of 3")
    p.add_argument("--rounds", type=host.positive, default=9, help="samples of each figure (9)")
    p.add_argument(
        "--cells",
        metavar="PATTERN",
        help="only such cells, as 'shuffle:2 lz4:5' or '*:2 @(blosclz|lz4):5'",
    )
    p.add_argument("--chunks", type=host.positive, default=2, help="chunks of each set (2)")
    p.add_argument("--sets", default=",".join(SETS), help="data sets, of: " + ", ".join(SETS))
    p.add_argument("--single", action="store_true", help="no rows with two threads")
    p.add_argument("--no-bare", action="store_true", help="no rows of the bare codecs")
    p.add_argument("--build", default=REPO / "build", help="the build directory (build)")
    p.add_argument(
        "--reference", metavar="DIR", help="the reference's Python package (that of this Python)"
    )
    args = p.parse_args(argv)
    host.check_outputs(args.json)
    for name in args.sets.split(","):
        if name not in SETS:
            raise BenchError(f"no such data set: {name} (known: {', '.join(SETS)})")
    with tempfile.TemporaryDirectory(prefix="cframefs-bench-") as room:
        result = measure(args, Path(room))
    report.write_json(args.json, result)
    show(result)
    return 0
