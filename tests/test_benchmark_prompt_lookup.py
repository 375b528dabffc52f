"""`subquest bench prompt-lookup`: guesses and passes, worked out by hand."""

from typing import Any

from subquest.cli.bench import _load, benchmarks

lookup: Any = _load(benchmarks()["prompt-lookup"])


def test_the_latest_occurrence_of_the_last_tokens_is_followed() -> None:
    assert lookup.guessed([1, 2, 3, 9, 1, 2, 7, 8, 1, 2], 3) == [7, 8, 1]
    assert lookup.guessed([1, 2, 3, 9, 5, 2, 7, 1, 2], 1) == [3]
    assert lookup.guessed([1, 2, 3, 2], 3) == [], "one token alone is no match"


def test_passes_of_an_episode() -> None:
    """After 1 2 the guess is 3 4 5, of which two are right; then 3 4 6 occurred nowhere, and 6 7 ends the turn."""
    read = {"kind": "env", "token_ids": [1, 2, 3, 4, 5, 9, 1, 2]}
    wrote = {"kind": "agent", "token_ids": [3, 4, 6, 7]}
    assert lookup.passes_of({"trajectories": [{"segments": [read, wrote]}]}, 4) == [(4, 3), (1, 1)]
