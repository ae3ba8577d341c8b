"""What `bench ratio` found, as tables for people, for the README, and as a chart."""

from pathlib import Path

import ratio_chart
from host import BenchError

PEERS = ["squashfs-zstd-128K", "squashfs-zstd-1M", "btrfs-zstd3"]
COMPUTED = ["tuned", "best", "reference"]
MARKS = ("<!-- sizes: bench ratio --readme -->", "<!-- end of sizes -->")


def columns(result):
    known = ["cframefs", *COMPUTED, *PEERS]
    return [s for s in known if any(s in c["sizes"] for c in result["classes"].values())]


def behind(row):
    return row["tuned_stored"] / row["best_stored"] - 1 if row["best_stored"] else 0


def show(result):
    systems = columns(result)
    print(f"{'MB':<14}{'plain':>9}" + "".join(f"{s:>20}" for s in systems))
    total = {"bytes": 0, "sizes": dict.fromkeys(systems, 0)}
    for name, c in result["classes"].items():
        show_class(name, c, systems)
        total["bytes"] += c["bytes"]
        for s in systems:
            total["sizes"][s] += c["sizes"].get(s, 0)
    show_class("all", total, systems)
    print()
    print(f"{'file':<36}{'MB':>8}{'behind':>8}  {'chosen at first':<34}{'best for all of it'}")
    rows = [row for c in result["classes"].values() for row in c["files"]]
    for row in sorted(rows, key=behind, reverse=True):
        print(
            f"{row['file'][:35]:<36}{row['bytes'] / 1e6:>8.1f}{behind(row):>8.1%}  "
            f"{row['choice']:<34}{row['best_pipeline']}"
        )
    print()
    for name, speed in result["write_mb_s"].items():
        print(f"writing, {name}: {speed:,.0f} MB/s")
    for verdict in result["floors"]:
        mark = {True: "ok  ", False: "MISS", None: "    "}[verdict["ok"]]
        seen = "not measured" if verdict["seen"] is None else f"{verdict['seen']:.3f}"
        limit = f" (at most {verdict['limit']})" if verdict["limit"] is not None else ""
        print(f"{mark} {verdict['what']}: {seen}{limit}")
    for name, why in result["skipped"].items():
        print(f"left out: {name}: {why}")


def show_class(name, c, systems):
    cells = "".join(
        f"{c['sizes'].get(s, 0) / 1e6:>12.1f} ({c['sizes'].get(s, 0) / max(1, c['bytes']):.3f})"
        for s in systems
    )
    print(f"{name:<14}{c['bytes'] / 1e6:>9.1f}{cells}")


def readme_table(result):
    """What stands in the README: sizes relative to the files', a class of data each line."""
    systems = [s for s in columns(result) if s in ("cframefs", "reference", *PEERS)]
    yield f"    {'MB':<14}{'plain':>8}" + "".join(f"{s:>20}" for s in systems)
    for name, c in result["classes"].items():
        cells = (
            f"{c['sizes'][s] / c['bytes']:>20.3f}" if s in c["sizes"] else f"{'-':>20}"
            for s in systems
        )
        yield f"    {name:<14}{c['bytes'] / 1e6:>8.1f}" + "".join(cells)


def put_into(path, result):
    """Replaces what stands between the marks."""
    text = Path(path).read_text(encoding="utf-8")
    before, found, rest = text.partition(MARKS[0])
    _, closed, after = rest.partition(MARKS[1])
    if not found or not closed:
        raise BenchError(f"{path}: no lines {MARKS[0]} and {MARKS[1]}")
    table = "\n".join(readme_table(result))
    Path(path).write_text(f"{before}{MARKS[0]}\n\n{table}\n\n{MARKS[1]}{after}", encoding="utf-8")


def plot(path, result):
    groups = {
        name: {s: c["sizes"][s] / c["bytes"] for s in columns(result) if s in c["sizes"]}
        for name, c in result["classes"].items()
    }
    Path(path).write_text(
        ratio_chart.draw("Bytes on disk / bytes of the files", groups, columns(result)),
        encoding="utf-8",
    )
