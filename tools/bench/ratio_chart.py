"""A bar chart as SVG, written by hand: a group of bars a class, a bar a system."""

from xml.sax.saxutils import escape

COLORS = ["#1b6ca8", "#7fb7d9", "#c8553d", "#e5a14c", "#8a8a8a", "#5f8d4e", "#8e6bbf"]
LEFT, TOP, HEIGHT, BAR, GAP = 60, 70, 260, 22, 34


def text(x, y, words, size=12, anchor="middle", extra=""):
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" '
        f'fill="#222"{extra}>{escape(words)}</text>'
    )


def axis(width, most):
    step = 0.1 if most <= 0.6 else 0.2
    value = 0.0
    while value <= most + 1e-9:
        y = TOP + HEIGHT * (1 - value / most)
        yield f'<line x1="{LEFT}" y1="{y:.1f}" x2="{width - 10}" y2="{y:.1f}" stroke="#ddd"/>'
        yield text(LEFT - 8, y + 4, f"{value:.1f}", anchor="end")
        value += step


def bars(groups, systems, most):
    x = LEFT + GAP / 2
    for name, values in groups.items():
        first = x
        for number, system in enumerate(systems):
            value = values.get(system)
            if value is not None:
                height = HEIGHT * min(value, most) / most
                y = TOP + HEIGHT - height
                color, title = COLORS[number % len(COLORS)], f"{name}, {system}: {value:.3f}"
                yield (
                    f'<rect x="{x:.1f}" y="{y:.1f}" width="{BAR - 3}" height="{height:.1f}" '
                    f'fill="{color}"><title>{escape(title)}</title></rect>'
                )
                yield text(x + (BAR - 3) / 2, y - 4, f"{value:.2f}".lstrip("0"), 9)
            x += BAR
        yield text((first + x) / 2, TOP + HEIGHT + 18, name)
        x += GAP


def legend(systems):
    x = LEFT
    for number, system in enumerate(systems):
        yield f'<rect x="{x}" y="42" width="11" height="11" fill="{COLORS[number % len(COLORS)]}"/>'
        yield text(x + 16, 52, system, 11, "start")
        x += 30 + 6.6 * len(system)


def draw(title, groups, systems):
    """groups: {class: {system: stored / plain}}."""
    most = max(
        (v for values in groups.values() for v in values.values() if v is not None), default=1.0
    )
    most = max(1.0, most)
    width = max(
        LEFT + len(groups) * (len(systems) * BAR + GAP) + 20,
        LEFT + sum(30 + 7 * len(s) for s in systems),
    )
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{TOP + HEIGHT + 40}" '
        'font-family="sans-serif">',
        '<rect width="100%" height="100%" fill="#fff"/>',
        text(LEFT, 24, title, 15, "start", ' font-weight="bold"'),
    ]
    for part in (axis(width, most), bars(groups, systems, most), legend(systems)):
        lines.extend(part)
    return "\n".join(lines + ["</svg>", ""])
