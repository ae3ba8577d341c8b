"""Small line charts side by side, as SVG written by hand: a panel each, from zero up."""

from ratio_chart import COLORS, text

WIDTH, HEIGHT, GAP_X, GAP_Y, TOP, LEFT = 190, 120, 70, 78, 60, 66


def nice(most):
    """A round number at or above `most`."""
    power = 1.0
    while power < most:
        power *= 10
    while power / 10 > most:
        power /= 10
    return next(power * s for s in (0.1, 0.2, 0.25, 0.4, 0.5, 0.75, 1) if power * s >= most * 0.999)


def label(value):
    return (
        f"{value / 1e6:g}M"
        if value >= 1e6
        else f"{value / 1e3:g}k"
        if value >= 1e4
        else f"{value:g}"
    )


def panel(x, y, title, axis, values, color):
    top = nice(max(values.values()) or 1)
    step = WIDTH / max(1, len(values) - 1)
    for share in (0, 0.5, 1):
        line = y + HEIGHT * (1 - share)
        yield f'<line x1="{x}" y1="{line:.1f}" x2="{x + WIDTH}" y2="{line:.1f}" stroke="#ddd"/>'
        yield text(x - 6, line + 4, label(top * share), 10, "end")
    points = [(x + i * step, y + HEIGHT * (1 - v / top)) for i, v in enumerate(values.values())]
    path = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
    yield f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>'
    for (a, b), (name, value) in zip(points, values.items()):
        yield (
            f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{color}">'
            f"<title>{name}: {value:,.4g}</title></circle>"
        )
        yield text(a, y + HEIGHT + 15, name, 10)
    yield text(x, y - 8, title, 11, "start")
    yield text(x + WIDTH / 2, y + HEIGHT + 30, axis, 11)


def draw(title, panels, columns):
    """panels: (title, axis, {label: value}); a new row of panels for each axis."""
    axes = list(dict.fromkeys(axis for _, axis, _ in panels))
    lines, used = [], dict.fromkeys(axes, 0)
    for name, axis, values in panels:
        x, y = LEFT + used[axis] * (WIDTH + GAP_X), TOP + axes.index(axis) * (HEIGHT + GAP_Y)
        lines += panel(x, y, name, axis, values, COLORS[axes.index(axis) % len(COLORS)])
        used[axis] += 1
    width = LEFT + min(columns, max(used.values())) * (WIDTH + GAP_X)
    height = TOP + len(axes) * (HEIGHT + GAP_Y)
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        'font-family="sans-serif">',
        '<rect width="100%" height="100%" fill="#fff"/>',
        text(12, 24, title, 15, "start", ' font-weight="bold"'),
    ]
    return "\n".join(head + lines + ["</svg>", ""])
