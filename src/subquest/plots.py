"""Charts as SVG without a plotting library: lines, points with intervals, and dots with whiskers.

A series' colour is its class `c0` to `c7`; a page defines the colours of the classes (light and dark); a stand-alone
`picture` contains `STYLE`. Every mark has a title, so hovering over it shows its numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

COLOURS = ("#2a6f97", "#b8621b", "#4d7c4a", "#7d5a9c", "#a8434a", "#5c6b7a", "#1f8a83", "#8f7a1f")
DARK_COLOURS = ("#7fb8dc", "#e5a469", "#97c792", "#bda1da", "#e59199", "#a8b5c2", "#6fcfc7", "#d6c26b")
STYLE = (
    "text{fill:#3b434b;font:11px system-ui,sans-serif}.grid{stroke:#dde1e5}.axis{fill:#6a737d}"
    + "".join(f".c{at}{{color:{colour}}}" for at, colour in enumerate(COLOURS))
    + "@media(prefers-color-scheme:dark){text{fill:#d5dade}.grid{stroke:#343b42}.axis{fill:#98a2ac}"
    + "".join(f".c{at}{{color:{colour}}}" for at, colour in enumerate(DARK_COLOURS))
    + "}"
)
_DASHES = ("none", "7 4", "2 3", "9 3 2 3")
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 16, 12, 40
_PANEL = (320, 240)
_LINE = 13
"""Height of a line of text."""
_NAME = 24
"""Letters of a row's name."""


class Point(NamedTuple):
    x: float
    y: float
    low: float | None = None
    high: float | None = None
    """Ends of the interval around y."""
    note: str = ""
    """Shown when hovering over the point."""


class Series(NamedTuple):
    name: str
    points: Sequence[Point]
    colour: int = 0


class Whisker(NamedTuple):
    """A row of a dot plot."""

    name: str
    mean: float
    low: float
    high: float
    colour: int = 0
    mark: str = ""


def chart(
    series: Sequence[Series],
    *,
    x: str,
    y: str,
    lines: bool = True,
    x_log: bool = False,
    y_range: tuple[float, float] | None = None,
    diagonal: bool = False,
) -> str:
    """Lines over x, or (`lines=False`) named points. `diagonal` draws x = y, where a calibrated model would lie."""
    size = (480, 280)
    drawn = _drawn(series, size, x=x, y=y, lines=lines, x_log=x_log, y_range=y_range, diagonal=diagonal)
    return _svg(drawn, size, f"{y} against {x}")


def picture(title: str, panels: Mapping[str, Sequence[Series]], *, x_log: bool = False, y_log: bool = True) -> str:
    """A stand-alone file: panels side by side, named by their x axis, with one legend."""
    names = dict.fromkeys(s.name for series in panels.values() for s in series)
    colours = palette(list(names))
    width, height = _PANEL[0] * len(panels), _PANEL[1] + 56
    parts = [f"<style>{STYLE}</style>", f'<text x="12" y="18" font-weight="bold">{escape(title)}</text>']
    for at, (axis, series) in enumerate(panels.items()):
        coloured = [s._replace(colour=colours[s.name]) for s in series]
        drawn = _drawn(coloured, _PANEL, x=axis, y="", x_log=x_log, y_log=y_log)
        parts.append(f'<g transform="translate({at * _PANEL[0]} 26)">{"".join(drawn)}</g>')
    for at, name in enumerate(names):
        x = 16 + at * (width - 16) / len(names)
        parts.append(
            f'<line class="c{colours[name] % len(COLOURS)}" x1="{x:.0f}" y1="{height - 16}" x2="{x + 18:.0f}" '
            f'y2="{height - 16}" stroke="currentColor" stroke-width="2" stroke-dasharray="{_dash(colours[name])}"/>'
            f'<text x="{x + 23:.0f}" y="{height - 12}">{escape(name)}</text>'
        )
    return _svg(parts, (width, height), title, ' xmlns="http://www.w3.org/2000/svg"') + "\n"


def _drawn(
    series: Sequence[Series],
    size: tuple[int, int],
    *,
    x: str,
    y: str,
    lines: bool = True,
    x_log: bool = False,
    y_log: bool = False,
    y_range: tuple[float, float] | None = None,
    diagonal: bool = False,
) -> list[str]:
    width, height = size
    points = [p for s in series for p in s.points]
    across = _scale([p.x for p in points], _LEFT, width - _RIGHT, log=x_log, span=(0.0, 1.0) if diagonal else None)
    ends = [v for p in points for v in (p.y, p.low, p.high) if v is not None]
    up = _scale(ends, height - _BOTTOM, _TOP, log=y_log, span=y_range)
    parts = _frame(across, up, x, y, size, [p.x for p in points] if lines and not x_log and not diagonal else None)
    if diagonal:
        parts.append(
            f'<line class="grid" x1="{across(0):.1f}" y1="{up(0):.1f}" x2="{across(1):.1f}" y2="{up(1):.1f}" '
            'stroke-dasharray="3 4"/>'
        )
    for at, s in enumerate(series):
        beside = lines and not diagonal and any(p.low is not None for p in points)
        aside = (at - (len(series) - 1) / 2) * 3 if beside else 0  # whiskers next to each other
        placed = [(across(p.x) + aside, up(p.y), p) for p in sorted(s.points)]
        parts.append(f'<g class="c{s.colour % len(COLOURS)}">')
        if lines and len(placed) > 1:
            path = " ".join(f"{a:.1f},{b:.1f}" for a, b, _ in placed)
            parts.append(
                f'<polyline points="{path}" fill="none" stroke="currentColor" stroke-width="1.8" '
                f'stroke-dasharray="{_dash(s.colour)}"/>'
            )
        parts += [_dot(s.name, a, b, p, up) for a, b, p in placed]
        parts.append("</g>")
    if not lines:
        parts += _names([(across(p.x), up(p.y), s.name, s.colour) for s in series for p in s.points], width)
    return parts


def _dash(colour: int) -> str:
    """Lines differ by colour; once the colours repeat, also by dashes."""
    return _DASHES[colour // len(COLOURS) % len(_DASHES)]


def whiskers(rows: Sequence[Whisker], *, axis: str, size: int = 480, names: int = 150) -> str:
    """Means with their intervals, one row each, for comparing systems or ablations."""
    top = 8
    step = min(44, max(24, 230 // max(len(rows), 1)))
    height = top + step * len(rows) + 34
    place = _scale([v for r in rows for v in (r.low, r.high)], names, size - 40, log=False, span=None)
    parts = []
    for tick in place.ticks:
        at = place(tick)
        parts.append(f'<line class="grid" x1="{at:.1f}" y1="{top}" x2="{at:.1f}" y2="{height - 30}"/>')
        parts.append(f'<text class="axis" x="{at:.1f}" y="{height - 16}" text-anchor="middle">{_number(tick)}</text>')
    parts.append(
        f'<text class="axis" x="{(names + size - 40) / 2:.0f}" y="{height - 2}" text-anchor="middle">'
        f"{escape(axis)}</text>"
    )
    for at, row in enumerate(rows):
        y = top + step * at + step / 2
        name = row.name if len(row.name) <= _NAME else row.name[: _NAME - 1] + "…"
        parts.append(f'<text x="{names - 12}" y="{y + 4:.1f}" text-anchor="end">{escape(name)}</text>')
        parts.append(
            f'<g class="c{row.colour % len(COLOURS)}"><title>{escape(row.name)}: {row.mean:.3f} '
            f'({row.low:.3f} to {row.high:.3f})</title><line x1="{place(row.low):.1f}" y1="{y:.1f}" '
            f'x2="{place(row.high):.1f}" y2="{y:.1f}" stroke="currentColor" stroke-width="2" opacity=".55"/>'
            f'<circle cx="{place(row.mean):.1f}" cy="{y:.1f}" r="4.5" fill="currentColor"/></g>'
        )
        parts.append(f'<text x="{size - 34}" y="{y + 4:.1f}">{row.mean:.3f}{escape(row.mark)}</text>')
    return _svg(parts, (size, height), axis)


def whisker_picture(title: str, rows: Sequence[Whisker]) -> str:
    """`whiskers` as a stand-alone file."""
    longest = max(len(row.name) for row in rows)
    drawn = whiskers(rows, axis=title, size=640, names=40 + 6 * min(longest, _NAME))
    head, _, rest = drawn.partition(">")
    return f'{head} xmlns="http://www.w3.org/2000/svg"><style>{STYLE}</style>{rest}\n'


class _Scale(NamedTuple):
    low: float
    high: float
    start: float
    end: float
    log: bool
    ticks: Sequence[float]

    def __call__(self, value: float) -> float:
        if self.log:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)


def _scale(values: Sequence[float], start: float, end: float, *, log: bool, span: tuple[float, float] | None) -> _Scale:
    if log:
        positive = [v for v in values if v > 0] or [1.0]
        low, high = min(positive) / 1.25, max(positive) * 1.25
        return _Scale(low, high, start, end, True, _log_ticks(low, high))
    low, high = span or (min(values, default=0.0), max(values, default=1.0))
    if low == high:
        low, high = low - max(abs(low), 1) * 0.05, high + max(abs(high), 1) * 0.05
    step = _step((high - low) / 5)
    if span is None:
        low, high = math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step
    count = round((high - low) / step)
    return _Scale(low, high, start, end, False, [low + step * at for at in range(count + 1)])


def _step(rough: float) -> float:
    power = 10.0 ** math.floor(math.log10(rough))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)


def _log_ticks(low: float, high: float) -> list[float]:
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    factors = (1, 2, 5) if high / low < 300 else (1,)
    return [f * 10.0**p for p in powers for f in factors if low <= f * 10.0**p <= high]


def _frame(
    across: _Scale, up: _Scale, x: str, y: str, size: tuple[int, int], marks: Sequence[float] | None
) -> list[str]:
    width, height = size
    parts = []
    for tick in up.ticks:
        at = up(tick)
        parts.append(f'<line class="grid" x1="{_LEFT}" y1="{at:.1f}" x2="{width - _RIGHT}" y2="{at:.1f}"/>')
        parts.append(f'<text class="axis" x="{_LEFT - 7}" y="{at + 4:.1f}" text-anchor="end">{_number(tick)}</text>')
    few = sorted(set(marks)) if marks and len(set(marks)) <= 12 else across.ticks
    last = -math.inf
    for tick in few:
        at = across(tick)
        if at - last >= 26:
            last = at
            parts.append(
                f'<text class="axis" x="{at:.1f}" y="{height - _BOTTOM + 17}" text-anchor="middle">'
                f"{_number(tick)}</text>"
            )
    middle = (_LEFT + width - _RIGHT) / 2
    parts.append(
        f'<text class="axis" x="{middle:.0f}" y="{height - 6}" text-anchor="middle">{escape(x)}</text>'
        f'<text class="axis" transform="translate(11 {(_TOP + height - _BOTTOM) / 2:.0f}) rotate(-90)" '
        f'text-anchor="middle">{escape(y)}</text>'
    )
    return parts


def _dot(name: str, a: float, b: float, point: Point, up: _Scale) -> str:
    note = point.note or f"{name}: {_number(point.x)}, {point.y:.3f}"
    bar = ""
    if point.low is not None and point.high is not None:
        bar = (
            f'<line x1="{a:.1f}" y1="{up(point.low):.1f}" x2="{a:.1f}" y2="{up(point.high):.1f}" '
            'stroke="currentColor" stroke-width="1.5" opacity=".4"/>'
        )
    return f'<g><title>{escape(note)}</title>{bar}<circle cx="{a:.1f}" cy="{b:.1f}" r="3.6" fill="currentColor"/></g>'


def _names(marks: Sequence[tuple[float, float, str, int]], width: int) -> list[str]:
    """Names beside their points, moved apart if they would overlap."""
    parts, taken = [], list[tuple[float, float, float]]()
    for x, y, name, colour in sorted(marks, key=lambda m: m[1]):
        length = 6.4 * len(name)
        left = x + 8 + length > width
        start = x - 8 - length if left else x + 8
        at = y + 4
        while any(abs(at - other) < _LINE and start < end and begin < start + length for begin, end, other in taken):
            at += 2
        taken.append((start, start + length, at))
        anchor = "end" if left else "start"
        parts.append(
            f'<text class="c{colour % len(COLOURS)} name" x="{x - 8 if left else x + 8:.1f}" y="{at:.1f}" '
            f'text-anchor="{anchor}">{escape(name)}</text>'
        )
    return parts


def _number(value: float) -> str:
    if abs(value) >= 1e6:
        return f"{value / 1e6:g}M"
    if abs(value) >= 1e4:
        return f"{value / 1e3:g}k"
    return f"{round(value, 6):g}"


def _svg(parts: Sequence[str], size: tuple[int, int], label: str, space: str = "") -> str:
    drawn = "".join(parts)
    return f'<svg{space} viewBox="0 0 {size[0]} {size[1]}" role="img" aria-label="{escape(label)}">{drawn}</svg>'


def palette(names: Sequence[str]) -> Mapping[str, int]:
    """A colour for each name, the same on every chart of a page."""
    return {name: at for at, name in enumerate(dict.fromkeys(names))}
