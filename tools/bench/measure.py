"""Runs rows of measurements over systems, interleaved, and keeps every sample.

One round visits every row and every system once, the systems in rotated order, so that a slow
minute of the machine falls on all of them. Every sample starts cold: a new mount (a new daemon,
where there is one) and dropped caches.
"""
import contextlib
import json
import statistics
import subprocess
import sys
from dataclasses import dataclass, field
from typing import Callable, Optional

import host
from host import BenchError, Unavailable
from systems import SYSTEMS


@dataclass
class Row:
    name: str
    title: str
    unit: str                           # "MB/s" or "op/s": more is better
    load: Callable                      # (system, files) -> arguments of the load generator
    prepare: Optional[Callable] = None  # (system, files), before mounting, not measured

    def rate(self, result):
        amount = result["bytes"] / 1e6 if self.unit == "MB/s" else result["ops"]
        return amount / result["seconds"]


@dataclass
class Floor:
    row: str
    system: str
    peer: str
    factor: float


@dataclass
class Results:
    rows: dict = field(default_factory=dict)        # row -> system -> samples
    extra: dict = field(default_factory=dict)       # row -> system -> latencies, daemon cpu, peak
    skipped: dict = field(default_factory=dict)     # system -> reason
    stored: dict = field(default_factory=dict)      # system -> bytes

    def add(self, row, system, result, daemon):
        self.rows.setdefault(row.name, {}).setdefault(system, []).append(row.rate(result))
        extra = self.extra.setdefault(row.name, {}).setdefault(system, {})
        for key in ("p50_us", "p99_us"):
            if key in result:
                extra.setdefault(key, []).append(result[key])
        if daemon.peak_kib:
            extra["peak_kib"] = max(extra.get("peak_kib", 0), daemon.peak_kib)
            extra.setdefault("daemon_cpu_s", []).append(daemon.cpu_seconds)

    def median(self, row, system):
        samples = self.rows.get(row, {}).get(system)
        return statistics.median(samples) if samples else None

    def peak_kib(self, system):
        return max((e.get(system, {}).get("peak_kib", 0) for e in self.extra.values()), default=0)


def progress(text):
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def build_load(source, room):
    binary = room / "load"
    host.run("cc", "-O2", "-D_GNU_SOURCE", "-D_FILE_OFFSET_BITS=64", "-o", binary, source)
    return binary


def make_systems(names, room, stack, settings, results):
    made = []
    for name in names:
        try:
            made.append(SYSTEMS[name](name, room, stack, settings))
        except Unavailable as why:
            results.skipped[name] = str(why)
    return made


def fill(systems, files, results):
    """Puts the data set in; a system that cannot is left out of the run."""
    filled = []
    for system in systems:
        progress(f"filling {system.name}")
        try:
            system.fill(files)
            results.stored[system.name] = system.stored()
            filled.append(system)
        except Unavailable as why:
            results.skipped[system.name] = str(why)
    return filled


def warm_mib(files):
    """The page cache, the backing store and the load's own copy may each take the set once."""
    return 3 * sum(f.stat().st_size for f in files) >> 20


def sample(row, system, files, load):
    if row.prepare:
        row.prepare(system, files)
    system.mount()
    try:
        host.drop_caches()
        command, *rest = row.load(system, files)
        argv = [str(a) for a in (load, command, "-w", warm_mib(files), *rest)]
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode != 0:
            raise BenchError(f"{row.name} on {system.name}: {done.stderr.strip() or 'failed'}")
        return json.loads(done.stdout)
    finally:
        system.unmount()


def rounds(rows, systems, files, load, count, results):
    for turn in range(count):
        for number, row in enumerate(rows):
            shift = (turn + number) % len(systems)
            for system in systems[shift:] + systems[:shift]:
                progress(f"round {turn + 1}/{count}: {row.name} on {system.name}")
                results.add(row, system.name, sample(row, system, files, load), system)
    progress("")


def judge(floors, limit_mib, results):
    """One dict per promise: what was asked, what was seen, whether it holds (None: not measured)."""
    verdicts = []
    for floor in floors:
        ours, theirs = results.median(floor.row, floor.system), results.median(floor.row, floor.peer)
        seen = ours / theirs if ours and theirs else None
        verdicts.append({"what": f"{floor.row}: {floor.system} at least {floor.factor}x {floor.peer}",
                         "seen": seen, "unit": "x", "ok": None if seen is None else seen >= floor.factor})
    for name in sorted({floor.system for floor in floors}):
        peak = results.peak_kib(name) / 1024
        verdicts.append({"what": f"memory of {name} at most {limit_mib} MiB", "seen": peak or None, "unit": " MiB",
                         "ok": peak <= limit_mib if peak else None})
    return verdicts


@contextlib.contextmanager
def quiet_terminal():
    try:
        yield
    finally:
        progress("")
