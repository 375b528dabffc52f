"""Line charts as SVG, written by hand: a few panels side by side, one scale each, readable in light and dark."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

WIDTH, HEIGHT = 320, 240
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 34, 40
CHARACTER = 7
"""Width of a label's character; of two labels that would run into each other the left one is left out."""
COLOURS = ("#c2410c", "#0369a1", "#15803d", "#7e22ce", "#64748b", "#b45309")


DASHES = ("none", "9 4", "2 3", "9 3 2 3", "none", "4 4")
"""So that lines which run together can still be told apart."""


class Line(NamedTuple):
    name: str
    points: Sequence[tuple[float, float]]


class Panel(NamedTuple):
    axis: str
    """What the horizontal axis counts."""
    lines: Sequence[Line]
    doubling: bool = False
    """Whether the horizontal axis is logarithmic too."""


def svg(title: str, panels: Sequence[Panel]) -> str:
    """One picture; the vertical axis is logarithmic, because contexts differ by factors."""
    names = list(dict.fromkeys(line.name for panel in panels for line in panel.lines))
    pens = {
        name: f'stroke="{COLOURS[at % len(COLOURS)]}" stroke-width="2" stroke-dasharray="{DASHES[at % len(DASHES)]}"'
        for at, name in enumerate(names)
    }
    width, height = WIDTH * len(panels), HEIGHT + 28
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
        'font-size="11">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        f'<text x="12" y="18" font-size="13" font-weight="bold">{escape(title)}</text>',
    ]
    for at, panel in enumerate(panels):
        parts += _panel(panel, pens, at * WIDTH)
    for at, name in enumerate(names):
        x = 16 + at * (width - 16) / len(names)
        parts.append(f'<line x1="{x:.0f}" y1="{HEIGHT + 12}" x2="{x + 18:.0f}" y2="{HEIGHT + 12}" {pens[name]}/>')
        parts.append(f'<text x="{x + 23:.0f}" y="{HEIGHT + 16}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>\n"])


def _panel(panel: Panel, pens: dict[str, str], offset: float) -> list[str]:
    xs = sorted({x for line in panel.lines for x, _ in line.points})
    ys = [y for line in panel.lines for _, y in line.points]
    low, high = 10 ** math.floor(math.log10(min(ys))), 10 ** math.ceil(math.log10(max(ys)))
    high = high if high > low else low * 10

    def place(x: float, y: float) -> tuple[float, float]:
        along = [math.log(n) if panel.doubling else n for n in (x, xs[0], xs[-1])]
        across = (along[0] - along[1]) / (along[2] - along[1]) if len(xs) > 1 else 0.5
        up = math.log(y / low) / math.log(high / low)
        return offset + LEFT + across * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM)

    parts = []
    for power in range(round(math.log10(low)), round(math.log10(high)) + 1):
        (x1, y1), (x2, _) = place(xs[0], 10**power), place(xs[-1], 10**power)
        parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y1:.1f}" stroke="#d4d4d8"/>')
        parts.append(f'<text x="{x1 - 6:.1f}" y="{y1 + 4:.1f}" text-anchor="end">{10**power:,}</text>')
    labelled = math.inf
    for x in reversed(xs):
        across = place(x, low)[0]
        if labelled - across > CHARACTER * len(f"{x:g}"):
            labelled = across
            parts.append(f'<text x="{across:.1f}" y="{HEIGHT - BOTTOM + 15}" text-anchor="middle">{x:g}</text>')
    parts.append(
        f'<text x="{offset + (WIDTH + LEFT) / 2:.0f}" y="{HEIGHT - BOTTOM + 32}" text-anchor="middle">'
        f"{escape(panel.axis)}</text>"
    )
    for line in panel.lines:
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in sorted(line.points)))
        parts.append(f'<polyline points="{path}" fill="none" {pens[line.name]}/>')
    return parts
