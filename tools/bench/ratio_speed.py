"""Writing with the tuner, beside writing with the pipeline that is best for
each file given by hand."""

import statistics

import measure
from systems import Cframefs, joined


def seconds(name, work, room, stack, options, f):
    place = room / f"{name}-{f.name}"
    place.mkdir()
    system = Cframefs(
        name, place, stack, work.settings.cframefs, joined(options, work.settings.options)
    )
    row = measure.Row(
        name, name, "MB/s", lambda s, w: ["write", "-o", s.point, f], lambda s, w: s.fresh()
    )

    def once():
        took = measure.sample(row, system, work)["seconds"]
        system.fresh()  # memory for the next one
        return took

    return once


def compare(work, stack, best, rounds):
    """MB/s of all files together: {"tuned": ..., "by hand": ...}; best: file ->
    its best pipeline."""
    room = work.room / "speed"
    room.mkdir()
    took = {"tuned": 0.0, "by hand": 0.0}
    for f in work.files:
        sides = {
            "tuned": seconds("tuned", work, room, stack, "", f),
            "by hand": seconds("by-hand", work, room, stack, "pipeline=" + best[f.name], f),
        }
        samples = {name: [] for name in sides}
        for turn in range(rounds):
            for name in list(sides)[:: 1 if turn % 2 else -1]:
                measure.progress(f"writing {f.name}: {name}")
                samples[name].append(sides[name]())
        for name in sides:
            took[name] += statistics.median(samples[name])
    total = sum(f.stat().st_size for f in work.files) / 1e6
    return {name: total / s for name, s in took.items()}
