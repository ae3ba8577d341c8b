"""Results as JSON for machines and as a table for people."""

import itertools
import json
import statistics

import bench_scaling
import measure


def as_dict(command, rows, results, verdicts, machine, dataset, ours):
    measured = {}
    for row in rows:
        systems = {}
        for name, samples in results.rows.get(row.name, {}).items():
            systems[name] = {
                "samples": samples,
                "median": statistics.median(samples),
                **results.extra[row.name].get(name, {}),
            }
        measured[row.name] = {
            "title": row.title,
            "unit": row.unit,
            "systems": systems,
            "ratios": ratios(row, systems, ours),
        }
    peaks = {name: results.peak_kib(name) for name in names_in(measured)}
    return {
        "bench": command,
        "machine": machine,
        "data": dataset,
        "rows": measured,
        "stored_bytes": results.stored,
        "peak_rss_kib": {n: p for n, p in peaks.items() if p},
        "floors": verdicts,
        "skipped": results.skipped,
    }


def names_in(measured):
    """Systems of all rows, in the order in which they come up."""
    return list(dict.fromkeys(name for row in measured.values() for name in row["systems"]))


def ratios(row, systems, ours):
    """How many times as good as each peer we are; ours: names of the systems under test."""
    return {
        mine: {
            peer: measure.better(row, systems[mine]["median"], systems[peer]["median"])
            for peer in systems
            if peer not in ours
        }
        for mine in ours
        if mine in systems
    }


def write_json(path, report):
    """Before anything is printed, which may fail after hours. path: None where nobody has asked."""
    if not path:
        return
    with open(path, "w", encoding="utf-8") as f:
        json.dump(report, f, indent=1)
        f.write("\n")


def table(report):
    """Lines of text: a row of the bench each line, a system each column."""
    rows = report["rows"]
    names = names_in(rows)
    body = [line for row in rows.values() for line in row_lines(row, names)]
    if report["stored_bytes"]:
        stored, plain = report["stored_bytes"], report["data"]["bytes"]
        body.append(
            (
                "stored size / plain size",
                [figure(stored[n] / plain, 3) if n in stored else "-" for n in names],
            )
        )
    peaks = report["peak_rss_kib"]
    body.append(
        (
            "peak memory of the daemon, MiB",
            [figure(peaks[n] / 1024 if n in peaks else None) for n in names],
        )
    )
    width = max(len(label) for label, _ in body)
    heads = stacked(names)
    columns = [max(9, *map(len, column)) for column in zip(*heads)]
    for label, cells in [*(("", head) for head in heads), *body]:
        line = f"{label:<{width}}" + "".join(f"  {c:>{w}}" for c, w in zip(cells, columns))
        yield line.rstrip()


def stacked(names):
    """The names as lines, a word of each to a line, which keeps the columns narrow."""
    words = [name.split("-") for name in names]
    return list(itertools.zip_longest(*words, fillvalue=""))


def row_lines(row, names):
    """The row, and a line for each of its extras."""
    yield (
        f"{row['title']}, {row['unit']}",
        [figure(row["systems"].get(n, {}).get("median")) for n in names],
    )
    for key, title in measure.EXTRAS.items():
        found = {n: row["systems"][n][key] for n in names if key in row["systems"].get(n, {})}
        if found:
            yield (
                f"  {title}",
                [figure(statistics.median(found[n])) if n in found else "-" for n in names],
            )


def figure(value, digits=None):
    """Three digits at least."""
    if value is None:
        return "-"
    if digits is None:
        digits = 0 if value >= 99.5 else 1 if value >= 9.95 else 2
    return f"{value:,.{digits}f}"


def show(report):
    machine, dataset = report["machine"], report["data"]
    print(
        f"{machine['cpu']}, {machine['cores']} cores, Linux {machine['kernel']}, "
        f"libfuse {machine['libraries']['libfuse']}, zstd {machine['libraries']['zstd']}"
    )
    print(
        f"{dataset['files']} files, {dataset['bytes'] / 1e6:.1f} MB: "
        + ", ".join(f"{n} {s['bytes'] / 1e6:.1f}" for n, s in dataset["sets"].items())
    )
    print()
    for line in bench_scaling.table(report["axes"]) if "axes" in report else table(report):
        print(line)
    print()
    for verdict in report["floors"]:
        mark = {True: "ok  ", False: "MISS", None: "?   "}[verdict["ok"]]
        seen = (
            "not measured" if verdict["seen"] is None else f"{verdict['seen']:.2f}{verdict['unit']}"
        )
        print(f"{mark} {verdict['what']}: {seen}")
    for name, why in report.get("skipped", {}).items():
        print(f"left out: {name}: {why}")
