"""What an fsync after one 4 KiB overwrite costs, by the size of its file.

    tools/bench/bench commit [--json FILE]

Frames of 1 MiB chunks with an index and checksums as those of a file full of data have; each chunk
is one repeated item, so that they fit anywhere. The backing files lie on an ext4 of their own on a
loop device over memory: bytes are those that reached it between the return of one fsync and that of
the last, its journal included. "settled" is what is written in all, per fsync, when the mount is
gone as well. With the intent log and without it (-o intent=0), fsyncs by themselves (a pause of 50
ms before each) and in a row.
"""

import argparse
import contextlib
import os
import random
import statistics
import time

import bench_read
import host
import report
from systems import Cframefs

SIZES = {"10 MB": 10, "1 GB": 1 << 10, "100 GB": 100 << 10, "1 TB": 1 << 20}  # chunks of 1 MiB
PAGE = 4096


def overwrite(fd, chunks, seed, count, pause):
    """Milliseconds of each fsync. The first is not counted: it may have to make
    the file durable as it is."""
    rng = random.Random(seed)
    took = []
    for _ in range(count):
        os.pwrite(
            fd, rng.randbytes(PAGE), rng.randrange(chunks) * (1 << 20) + rng.randrange(256) * PAGE
        )
        time.sleep(pause)
        start = time.monotonic()
        os.fsync(fd)
        took.append((time.monotonic() - start) * 1e3)
    return took


def measure(system, chunks, count, pause):
    """One fresh mount of the frame that is there."""
    with contextlib.suppress(FileNotFoundError):
        (system.backing / ".cframefs-intent").unlink()
    system.device_bytes()  # nothing is left in the journal
    system.mount()
    fd = os.open(system.point / "big", os.O_RDWR)
    try:
        overwrite(fd, chunks, 1, 10, 0 if pause == 0 else 0.001)
        before = host.bytes_written(system.device)
        took = overwrite(fd, chunks, 2, count, pause)
        written = host.bytes_written(system.device) - before
    finally:
        os.close(fd)
        system.unmount()
    settled = system.device_bytes() - before
    return {
        "ms": took,
        "median_ms": statistics.median(took),
        "bytes": written / count,
        "settled_bytes": settled / count,
    }


def bench(args, stack):
    tool = bench_read.sparse_tool(args)
    room = host.workroom(stack)
    system = Cframefs("cframefs", room, stack, args.cframefs, "")
    system.move_to_device()
    system.fresh()
    rows = []
    for name, chunks in SIZES.items():
        frame = system.backing / "big.b2frame"
        with contextlib.suppress(FileNotFoundError):
            frame.unlink()
        host.run(tool, frame, chunks)
        for log in (True, False):
            system.options = "codec=lz4" if log else "codec=lz4,intent=0"
            for alone in (True, False):
                rows.append(
                    {
                        "size": name,
                        "chunks": chunks,
                        "log": log,
                        "alone": alone,
                        **measure(system, chunks, args.count, 0.05 if alone else 0),
                    }
                )
    return {"bench": "commit", "machine": host.describe(args.cframefs), "rows": rows}


def show(result):
    print(
        f"{'file':>8} {'chunks':>10} {'log':>4} {'fsyncs':>8} "
        f"{'ms':>8} {'KiB':>9} {'settled KiB':>12}"
    )
    for r in result["rows"]:
        print(
            f"{r['size']:>8} {r['chunks']:>10,} {'yes' if r['log'] else 'no':>4} "
            f"{'alone' if r['alone'] else 'in a row':>8} "
            f"{r['median_ms']:>8.2f} {r['bytes'] / 1024:>9,.0f} {r['settled_bytes'] / 1024:>12,.0f}"
        )


def main(command, argv):
    p = argparse.ArgumentParser(
        prog=f"bench {command}",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("--json", metavar="FILE", help="write every sample and versions to FILE")
    p.add_argument("--count", type=host.positive, default=40, help="fsyncs of each figure (40)")
    p.add_argument("--cframefs", metavar="PATH", help="the daemon (build/src/fs/cframefs)")
    args = p.parse_args(argv)
    args.cframefs = host.need(host.program(args.cframefs, "src/fs/cframefs"), "cframefs")
    host.check_outputs(args.json)
    with contextlib.ExitStack() as stack:
        result = bench(args, stack)
    report.write_json(args.json, result)
    show(result)
    return 0
