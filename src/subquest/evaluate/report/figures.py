"""The charts of a report; each is a caption and an SVG, or nothing where the runs hold nothing to draw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from ...plots import Point, Series, Whisker, chart, whiskers
from ..statistics import interval, mean
from .content import Content, Entry


def intervals(content: Content, dataset: str, colours: Mapping[str, int]) -> str:
    """Systems, or ablations of one, best first, with their intervals."""
    marks = {v.system: v.mark for v in content.comparisons(dataset)}
    rows = []
    for system in content.systems:
        values = content.values(content.of(dataset, system))
        if values:
            found = interval(values)
            rows.append(Whisker(system, found.mean, found.low, found.high, colours[system], marks.get(system, "")))
    rows.sort(key=lambda row: content.best_first(row.mean))
    return _caption(f"{content.metric.upper()} with 95% intervals", whiskers(rows, axis=content.metric.upper()))


def cost(content: Content, dataset: str, colours: Mapping[str, int]) -> str:
    """How good against how much was read and written."""
    series = []
    for system in content.systems:
        entries = content.of(dataset, system)
        values = content.values(entries)
        tokens = mean(
            [e.row.scores.get("prompt_tokens", 0) + e.row.scores.get("completion_tokens", 0) for e in entries]
        )
        if values and tokens > 0:
            found = interval(values)
            note = f"{system}: {tokens:,.0f} tokens, {content.metric} {found.mean:.3f}"
            series.append(Series(system, [Point(tokens, found.mean, found.low, found.high, note)], colours[system]))
    if not series:
        return ""
    drawn = chart(series, x="tokens for each question", y=content.metric.upper(), lines=False, x_log=True)
    return _caption(f"{content.metric.upper()} against tokens read and written", drawn)


def by_k(content: Content, dataset: str, colours: Mapping[str, int]) -> str:
    """Robustness: what happens as searches bring back more documents. Needs runs that differ in k."""
    lines: dict[str, dict[int, list[Entry]]] = {}
    for e in content.of(dataset):
        if e.k is not None:
            lines.setdefault(e.base, {}).setdefault(e.k, []).append(e)
    lines = {base: {k: found for k, found in points.items() if content.values(found)} for base, points in lines.items()}
    lines = {base: points for base, points in lines.items() if len(points) > 1}
    if not lines:
        return ""
    series = [
        Series(base, [_point(content, k, entries) for k, entries in sorted(points.items())], at)
        for at, (base, points) in enumerate(lines.items())
    ]
    drawn = chart(series, x="documents a search", y=content.metric.upper())
    return _caption(f"{content.metric.upper()} over documents a search", drawn, series)


def by_field(content: Content, name: str, groups: Mapping[str, Sequence[Entry]], colours: Mapping[str, int]) -> str:
    """A curve over a field that is a number, such as hops."""
    if len(groups) < 2 or not all(value.isdigit() for value in groups):
        return ""
    series = []
    for system, colour in colours.items():
        points = []
        for value, entries in groups.items():
            mine = [e for e in entries if e.row.system == system]
            if content.values(mine):
                points.append(_point(content, int(value), mine))
        if points:
            series.append(Series(system, points, colour))
    drawn = chart(series, x=name, y=content.metric.upper())
    return _caption(f"{content.metric.upper()} over {name}", drawn, series)


def calibration(content: Content, dataset: str, colours: Mapping[str, int]) -> str:
    """Confidence against how often it was right; on the dashed line a system knows what it knows."""
    series = []
    for system in content.systems:
        if (found := content.calibration(dataset, system)) is not None:
            points = [
                Point(b.confidence, b.right, b.right_low, b.right_high, f"{system}: {b.n} answers") for b in found.bins
            ]
            series.append(Series(system, points, colours[system]))
    if not series:
        return ""
    drawn = chart(series, x="confidence", y="share right", y_range=(0.0, 1.0), diagonal=True)
    return _caption("Calibration", drawn, series)


def _point(content: Content, x: float, entries: Sequence[Entry]) -> Point:
    found = interval(content.values(entries))
    note = f"{entries[0].row.system}, {x:g}: {found.mean:.3f} ({found.low:.3f} to {found.high:.3f}), n {len(entries)}"
    return Point(x, found.mean, found.low, found.high, note)


def _caption(text: str, drawn: str, series: Sequence[Series] = ()) -> str:
    names = "".join(
        f'<span><span class="c{s.colour % 8}"><span class="key"></span></span>{escape(s.name)}</span>' for s in series
    )
    legend = f'<div class="legend">{names}</div>' if names else ""
    return f"<figcaption>{escape(text)}</figcaption>{drawn}{legend}"
