"""Results as JSON for machines and as a table for people."""
import json
import statistics


def as_dict(command, rows, results, verdicts, machine, dataset, ours):
    measured = {}
    for row in rows:
        systems = {}
        for name, samples in results.rows.get(row.name, {}).items():
            systems[name] = {"samples": samples, "median": statistics.median(samples),
                             **results.extra[row.name].get(name, {})}
        measured[row.name] = {"title": row.title, "unit": row.unit, "systems": systems,
                              "ratios": ratios(systems, ours)}
    peaks = {name: results.peak_kib(name) for name in results.stored or first_row(measured)}
    return {"bench": command, "machine": machine, "data": dataset, "rows": measured,
            "stored_bytes": results.stored, "peak_rss_kib": {n: p for n, p in peaks.items() if p},
            "floors": verdicts, "skipped": results.skipped}


def first_row(measured):
    return next((row["systems"] for row in measured.values()), {})


def ratios(systems, ours):
    """Ours over each peer; ours: names of the systems under test."""
    return {mine: {peer: systems[mine]["median"] / systems[peer]["median"]
                   for peer in systems if peer not in ours}
            for mine in ours if mine in systems}


def write_json(path, report):
    with open(path, "w", encoding="utf-8") as f:
        json.dump(report, f, indent=1)
        f.write("\n")


def table(report):
    """Lines of text: a row of the bench each line, a system each column."""
    rows = report["rows"]
    names = list(first_row(rows))
    width = max(len(row["title"]) + len(row["unit"]) + 2 for row in rows.values())
    columns = [max(len(n), 9) for n in names]
    yield " " * width + "".join(f"  {n:>{w}}" for n, w in zip(names, columns))
    for row in rows.values():
        cells = (figure(row["systems"].get(n, {}).get("median")) for n in names)
        label = f"{row['title']}, {row['unit']}"
        yield f"{label:<{width}}" + "".join(f"  {c:>{w}}" for c, w in zip(cells, columns))
    if report["stored_bytes"]:
        cells = (figure(report["stored_bytes"].get(n, 0) / report["data"]["bytes"], 3) for n in names)
        yield f"{'stored size / plain size':<{width}}" + "".join(f"  {c:>{w}}" for c, w in zip(cells, columns))
    peaks = report["peak_rss_kib"]
    cells = (figure(peaks[n] / 1024 if n in peaks else None) for n in names)
    yield f"{'peak memory of the daemon, MiB':<{width}}" + "".join(f"  {c:>{w}}" for c, w in zip(cells, columns))


def figure(value, digits=0):
    return "-" if value is None else f"{value:,.{digits}f}"


def show(report):
    machine, dataset = report["machine"], report["data"]
    print(f"{machine['cpu']}, {machine['cores']} cores, Linux {machine['kernel']}, "
          f"libfuse {machine['libraries']['libfuse']}, zstd {machine['libraries']['zstd']}")
    print(f"{dataset['files']} files, {dataset['bytes'] / 1e6:.1f} MB: "
          + ", ".join(f"{n} {s['bytes'] / 1e6:.1f}" for n, s in dataset["sets"].items()))
    print()
    for line in table(report):
        print(line)
    print()
    for verdict in report["floors"]:
        mark = {True: "ok  ", False: "MISS", None: "?   "}[verdict["ok"]]
        seen = "not measured" if verdict["seen"] is None else f"{verdict['seen']:.2f}{verdict['unit']}"
        print(f"{mark} {verdict['what']}: {seen}")
    for name, why in report["skipped"].items():
        print(f"left out: {name}: {why}")
