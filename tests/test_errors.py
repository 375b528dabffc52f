"""Hints for names that do not exist."""

from __future__ import annotations

from subquest.errors import closest, suggest


def test_suggests_the_closest_name() -> None:
    assert suggest("cod", ["decor", "coda"]) == "did you mean 'coda'?"


def test_lists_the_known_names_where_none_is_close() -> None:
    assert suggest("zzz", ["decor", "coda"]) == "choose from: decor, coda"
    assert suggest("zzz", []) == "choose from: none"
    assert suggest("zzz", ["coda"], "see --list") == "see --list"


def test_closest_needs_some_likeness() -> None:
    assert closest("cod", ["coda"]) == "coda"
    assert closest("cod", ["coda"], cutoff=0.95) == ""
