"""Runs rows of measurements over systems, interleaved, and keeps every sample.

One round visits every row and every system once, the systems in rotated order, so that a slow
minute of the machine falls on all of them. Every sample starts cold: a new mount (a new daemon,
where there is one) and dropped caches.
"""

from __future__ import annotations

import contextlib
import filecmp
import json
import statistics
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import host
from host import BenchError, Unavailable
from systems import SYSTEMS

HERE = Path(__file__).resolve().parent


@dataclass
class Row:
    name: str
    title: str
    unit: str  # "MB/s" or "op/s", more is better; "ms", less is
    load: Callable | None = None  # (system, work) -> arguments of the load generator
    prepare: Callable | None = None  # (system, work), before mounting, not measured
    run: Callable | None = None  # (system, work) -> a result, instead of the load generator
    systems: tuple | None = None  # only these
    check: Callable | None = None  # (system, work), after another mount: are the bytes right?
    need: Callable | None = None  # (settings): raises Unavailable where the row cannot be measured

    def figure(self, result):
        if self.unit == "ms":
            return result["seconds"] * 1e3
        amount = result["bytes"] / 1e6 if self.unit == "MB/s" else result["ops"]
        return amount / result["seconds"]


def better(row, mine, other):
    """How many times as good the first figure is."""
    return other / mine if row.unit == "ms" else mine / other


@dataclass
class Floor:
    """`system` at least `factor` times as good as `peer`; without a peer: its
    figure, or its `extra`, at most so much."""

    row: str
    system: str
    peer: str
    factor: float
    extra: str = ""


@dataclass
class Work:
    """What rows work on."""

    files: list  # the data set, largest first
    room: object  # directory in memory
    load: object  # the load generator
    small: object = None  # directory of small files, where a row wants them
    settings: object = None  # the command line


# What a result may hold besides: key -> what the table calls it.
EXTRAS = {
    "p99_us": "99 % within, us",
    "mib": "memory it takes, MiB",
    "written": "bytes to the device / byte of data",
}


@dataclass
class Results:
    rows: dict = field(default_factory=dict)  # row -> system -> samples
    extra: dict = field(default_factory=dict)  # row -> system -> latencies, daemon cpu, peak
    skipped: dict = field(default_factory=dict)  # system -> reason
    stored: dict = field(default_factory=dict)  # system -> bytes

    def add(self, row, system, result, daemon):
        self.rows.setdefault(row.name, {}).setdefault(system, []).append(row.figure(result))
        extra = self.extra.setdefault(row.name, {}).setdefault(system, {})
        for key in result.keys() - {"bytes", "ops", "seconds"}:
            extra.setdefault(key, []).append(result[key])
        if daemon.peak_kib:
            extra["peak_kib"] = max(extra.get("peak_kib", 0), daemon.peak_kib)
            extra.setdefault("daemon_cpu_s", []).append(daemon.cpu_seconds)

    def median(self, row, system):
        samples = self.rows.get(row, {}).get(system)
        return statistics.median(samples) if samples else None

    def median_extra(self, row, system, key):
        samples = self.extra.get(row, {}).get(system, {}).get(key)
        return statistics.median(samples) if samples else None

    def peak_kib(self, system):
        return max((e.get(system, {}).get("peak_kib", 0) for e in self.extra.values()), default=0)


def progress(text):
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def build_load(room):
    """The load generator, as a program in `room`."""
    binary = room / "load"
    sources = [HERE / name for name in ("load.c", "load_read.c", "load_write.c")]
    host.run("cc", "-O2", "-D_GNU_SOURCE", "-D_FILE_OFFSET_BITS=64", "-o", binary, *sources)
    return binary


def make_systems(names, room, stack, settings, results):
    made = []
    for name in names:
        try:
            made.append(SYSTEMS[name](name, room, stack, settings))
        except Unavailable as why:
            results.skipped[name] = str(why)
    return made


def same_files(system, files):
    """Reading wrong bytes fast is no figure."""
    for f in files:
        if not filecmp.cmp(f, system.point / f.name, shallow=False):
            raise BenchError(f"{system.name}: {f.name} reads back as something else")


def verify(system, check, *args):
    """Not timed, on a mount of its own."""
    system.mount()
    try:
        check(system, *args)
    finally:
        system.unmount()


def empty_size(system):
    """What the file system takes before anything is stored in it."""
    if not system.writable:
        return 0
    system.fresh()
    return system.stored()


def mountable(systems, results):
    """Those that this machine can mount, of systems that each sample makes anew."""
    kept = []
    for system in systems:
        try:
            system.fresh()
            system.mount()
            system.unmount()
            kept.append(system)
        except Unavailable as why:
            results.skipped[system.name] = str(why)
    return kept


def fill(systems, work, results):
    """Puts the data set in, and the small files; a system that cannot is left out of the run."""
    filled = []
    for system in systems:
        progress(f"filling {system.name}")
        try:
            before = empty_size(system)
            system.fill(work.files)
            results.stored[system.name] = system.stored() - before
            if work.small:
                system.add(work.small)
            verify(system, same_files, work.files)
            filled.append(system)
        except Unavailable as why:
            results.skipped[system.name] = str(why)
    return filled


def warm_mib(files):
    """The page cache, the backing store and the load's own copy may each take the set once."""
    return max(1, 3 * sum(f.stat().st_size for f in files) >> 20)


def parsed(*argv):
    """Runs a program that prints JSON."""
    return json.loads(host.run(*argv))


def generate(work, command, *rest):
    """Runs the load generator; what it found."""
    argv = [str(a) for a in (work.load, command, "-w", warm_mib(work.files), *rest)]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        raise BenchError(done.stderr.strip() or f"{command}: failed")
    return json.loads(done.stdout)


def sample(row, system, work):
    if row.prepare:
        row.prepare(system, work)
    system.mount()
    try:
        host.drop_caches()
        return row.run(system, work) if row.run else generate(work, *row.load(system, work))
    except BenchError as why:
        raise BenchError(f"{row.name} on {system.name}: {why}") from None
    finally:
        system.unmount()


def possible(rows, settings, results):
    """Rows that this machine can measure."""
    kept = []
    for row in rows:
        try:
            if row.need:
                row.need(settings)
            kept.append(row)
        except Unavailable as why:
            results.skipped[row.name] = str(why)
    return kept


def rounds(rows, systems, work, count, results):
    for turn in range(count):
        for number, row in enumerate(rows):
            shift = (turn + number) % len(systems)
            for system in systems[shift:] + systems[:shift]:
                if row.systems and system.name not in row.systems:
                    continue
                progress(f"round {turn + 1}/{count}: {row.name} on {system.name}")
                results.add(row, system.name, sample(row, system, work), system)
                if row.check and turn == 0:
                    verify(system, row.check, work)
    progress("")


def written(row, system, work):
    """Bytes that reach the device for each byte that the row writes, all that
    is left for later included."""
    if row.prepare:
        row.prepare(system, work)
    before = system.device_bytes()
    once = replace(row, prepare=None)
    done = sample(once, system, work)
    return (system.device_bytes() - before) / done["bytes"]


def count_writes(rows, systems, work, results):
    """One more round, over block devices."""
    for system in systems:
        try:
            system.move_to_device()
        except Unavailable as why:
            results.skipped[f"{system.name} on a device"] = str(why)
            continue
        for row in rows:
            if not row.systems or system.name in row.systems:
                progress(f"writes: {row.name} on {system.name}")
                share = written(row, system, work)
                results.extra.setdefault(row.name, {}).setdefault(system.name, {})["written"] = [
                    share
                ]
    progress("")


def judge_one(floor, results):
    ours = (
        results.median_extra(floor.row, floor.system, floor.extra)
        if floor.extra
        else results.median(floor.row, floor.system)
    )
    if not floor.peer:
        figure = EXTRAS.get(floor.extra, "ms")
        return {
            "what": f"{floor.row}: {floor.system} {figure} at most {floor.factor:g}",
            "seen": ours,
            "unit": "",
            "ok": None if ours is None else ours <= floor.factor,
        }
    theirs = results.median(floor.row, floor.peer)
    seen = ours / theirs if ours and theirs else None
    return {
        "what": f"{floor.row}: {floor.system} at least {floor.factor:g}x {floor.peer}",
        "seen": seen,
        "unit": "x",
        "ok": None if seen is None else seen >= floor.factor,
    }


def judge(floors, limit_mib, results):
    """One dict per promise: what was asked, what was seen, whether it holds
    (None: not measured)."""
    verdicts = [judge_one(floor, results) for floor in floors]
    for name in sorted({floor.system for floor in floors}):
        peak = results.peak_kib(name) / 1024
        verdicts.append(
            {
                "what": f"memory of {name} at most {limit_mib} MiB",
                "seen": peak or None,
                "unit": " MiB",
                "ok": peak <= limit_mib if peak else None,
            }
        )
    return verdicts


@contextlib.contextmanager
def quiet_terminal():
    try:
        yield
    finally:
        progress("")
