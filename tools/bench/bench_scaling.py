"""`bench read --scaling`: the rows of `bench read` with more readers, other
cache sizes, other block sizes.

Only cframefs, with zstd. Readers and caches share one filled directory; each
block size has its own.
"""

import statistics

import bench_read
import line_chart
import measure
from systems import Cframefs, joined

ROWS = ["sequential", "random-4k", "random-64k", "warm-4k"]
AXES = {
    "readers": [(str(n), "", n) for n in (1, 4, 16)],
    "cache": [(size, f"cache={size}", 1) for size in ("16M", "64M", "256M", "1G")],
    "blocksize": [(size, f"blocksize={size}", 1) for size in ("16K", "32K", "64K", "128K", "256K")],
}
WARM_BLOCKS = 6000  # 375 MB of blocks of 64 KiB: more than most of the caches hold


def warm_reads(system, work):
    """As the row of `bench read`, over more blocks than small caches hold."""
    blocks = min(WARM_BLOCKS, bench_read.scaled(WARM_BLOCKS * 4, work))
    return bench_read.warm_reads(system, work, blocks, passes=2)


def rows():
    known = {row.name: row for row in bench_read.ROWS}
    known["warm-4k"] = measure.Row("warm-4k", "warm 4 KiB, O_DIRECT", "op/s", warm_reads)
    return [known[name] for name in ROWS]


def variants(room, stack, settings):
    """{axis: {label: system}}, filled as far as they have to be."""
    shared = make("shared", room, stack, settings, "")
    made = {}
    for axis, values in AXES.items():
        made[axis] = {}
        for label, options, readers in values:
            system = make(f"{axis}-{label}", room, stack, settings, options)
            system.readers = readers
            if axis != "blocksize":
                system.backing = shared.backing
            made[axis][label] = system
    return shared, made


def make(name, room, stack, settings, options):
    return Cframefs(
        name, room, stack, settings.cframefs, joined("codec=zstd", options, settings.options)
    )


def run(work, stack):
    """{axis: {row: {label: median}}}, and the size of what each block size stored."""
    results = measure.Results()
    shared, made = variants(work.room, stack, work.settings)
    by_blocks = list(made["blocksize"].values())
    measure.fill([shared, *by_blocks], work, results)
    systems = [s for axis in made.values() for s in axis.values()]
    measure.rounds(rows(), systems, work, work.settings.rounds, results)
    plain = sum(f.stat().st_size for f in work.files)
    axes = {
        axis: {
            row.name: {
                label: statistics.median(results.rows[row.name][s.name])
                for label, s in labels.items()
            }
            for row in rows()
        }
        for axis, labels in made.items()
    }
    axes["blocksize"]["stored"] = {
        label: results.stored[s.name] / plain for label, s in made["blocksize"].items()
    }
    return axes


def titles():
    named = {row.name: f"{row.title}, {row.unit}" for row in rows()}
    named["stored"] = "stored size / plain size"
    return named


def table(axes):
    """A table an axis: a row of the bench each line, a value of the axis each column."""
    named = titles()
    width = max(map(len, named.values()))
    for axis, measured in axes.items():
        labels = list(next(iter(measured.values())))
        yield f"{axis:<{width}}" + "".join(f"{label:>10}" for label in labels)
        for row, values in measured.items():
            yield f"{named[row]:<{width}}" + "".join(
                f"{values[label]:>10.3f}" if row == "stored" else f"{values[label]:>10,.0f}"
                for label in labels
            )
        yield ""


def plot(path, axes):
    named = titles()
    panels = [
        (named[row], axis, values)
        for axis, measured in axes.items()
        for row, values in measured.items()
    ]
    path.write_text(
        line_chart.draw("cframefs, zstd: how reads grow", panels, columns=len(ROWS) + 1),
        encoding="utf-8",
    )
