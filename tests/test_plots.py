"""Charts: well-formed SVG, with every label once and every point where its numbers put it."""

import re
import xml.etree.ElementTree as ElementTree

import pytest

from subquest.plots import Point, Series, Whisker, chart, picture, whiskers

SERIES = [
    Series("one & only", [Point(3, 0.25, 0.2, 0.3), Point(5, 0.5), Point(10, 0.5)]),
    Series("two", [Point(3, 0.75)], 1),
]


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter() if element.tag.endswith("text")]


def test_a_chart_labels_its_axes_once() -> None:
    svg = chart(SERIES, x="documents", y="EM", y_range=(0.0, 1.0))
    found = texts(svg)
    assert [t for t in found if t in ("3", "5", "10")] == ["3", "5", "10"]
    assert found.count("documents") == found.count("EM") == 1
    assert "one &amp; only: 3, 0.250" in svg
    places = [(float(x), float(y)) for x, y in re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)"', svg)]
    # 46 to 464 across for 2 to 10 (the scale is rounded outwards), 240 to 12 up for 0 to 1; whiskers stand 1.5 aside
    assert places[0][1] == pytest.approx(240 - 0.25 * 228, abs=0.1)
    assert places[3][1] == pytest.approx(240 - 0.75 * 228, abs=0.1)
    assert places[1][0] - places[0][0] == pytest.approx((places[2][0] - places[1][0]) * 2 / 5, abs=0.2)


def test_points_are_named() -> None:
    assert {"one & only", "two"} <= set(texts(chart(SERIES, x="tokens", y="EM", lines=False, x_log=True)))


def test_whiskers_show_means_and_marks() -> None:
    assert "0.250†" in texts(whiskers([Whisker("a", 0.25, 0.2, 0.3, mark="†")], axis="EM"))


def test_a_picture_stands_alone() -> None:
    lines = [Series("a", [Point(1, 10), Point(2, 100), Point(4, 1000)]), Series("b", [Point(1, 5)])]
    svg = picture("Longest context", {"hops": lines, "words": lines[:1]}, x_log=True)
    found = texts(svg)
    assert found.count("Longest context") == found.count("a") == found.count("b") == 1
    assert "prefers-color-scheme:dark" in svg
    assert 'xmlns="http://www.w3.org/2000/svg"' in svg
    circles = [float(y) for y in re.findall(r'<circle cx="[\d.]+" cy="([\d.]+)"', svg)][:3]
    assert circles[0] - circles[1] == pytest.approx(circles[1] - circles[2], abs=0.3)  # factors are distances
