"""Prompt lookup: guess that the model goes on copying from its context.

Names, numbers and quotes are copied from documents token by token. Where the last few tokens of a context have occurred
before, the tokens that followed them then are a good guess. The scheduler reads such guesses in one pass with the token
before them, samples each token from the model as usual and keeps the guesses that agree, so what is written, its
distribution and its log-probs are those of writing token by token. A wrong guess costs the width of a pass.
"""

from __future__ import annotations

from collections.abc import Sequence

MATCH = 2
"""Tokens that must have occurred before."""
MOST = 7
"""Guesses at most. A pass of 2, 4 or 8 tokens costs about 1.3, 2 or 3 passes of one, so it begins with one guess."""


class Lookup:
    """Where each run of `MATCH` tokens of a growing context occurred last, and how well guesses went."""

    def __init__(self) -> None:
        self._after: dict[tuple[int, ...], int] = {}
        self._seen = MATCH
        self._most = 1

    def guess(self, ids: Sequence[int], room: int) -> list[int]:
        """The tokens that may follow, at most `room`; none where the last tokens are new."""
        for end in range(self._seen, len(ids)):
            self._after[tuple(ids[end - MATCH : end])] = end
        self._seen = max(self._seen, len(ids))
        at = self._after.get(tuple(ids[-MATCH:]))
        return [] if at is None else list(ids[at : at + max(0, min(self._most, room))])

    def learn(self, guessed: int, right: int) -> None:
        """Guess more after guesses that were all right, and one token after a wrong one."""
        self._most = min(MOST, 2 * self._most + 1) if right == guessed else 1
