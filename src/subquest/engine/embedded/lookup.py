"""Prompt lookup: guessing that a turn goes on copying from its context.

The guess is what followed the latest earlier occurrence of the turn's last tokens. Our kernel checks up to four tokens
in one pass with the same weights in its registers, for less than the price of four passes. At every position the token
is sampled as it would be without a guess, so a wrong guess changes nothing that is written; it only costs time. How
often guesses were right decides how many are made: where they fail, none are, until they would be right again.
"""

from __future__ import annotations

from typing import NamedTuple

MOST = 4
"""Tokens of a pass that the kernel multiplies together; beyond them results are rounded differently."""
LONG, SHORT = 4, 1
"""Last tokens that must have occurred before. After a short match only one token is guessed."""
PAYS = (0.4, 0.65, 0.75)
"""The second, third and fourth token of a pass pay off where guesses are right more often than this."""
MEMORY = 0.05
"""How much the newest guess changes the share of right ones."""


class Guess(NamedTuple):
    matched: int
    """LONG, SHORT, or 0 for no guess."""
    tokens: tuple[int, ...] = ()


def look_up(context: str) -> Guess:
    """What followed the latest earlier occurrence of the last tokens; a context has one character for each token."""
    for matched, most in ((LONG, MOST - 1), (SHORT, 1)):
        at = context.rfind(context[-matched:], 0, -1) if len(context) > matched else -1
        if at >= 0:
            return Guess(matched, tuple(map(ord, context[at + matched : at + matched + most])))
    return Guess(0)


class Lookup:
    """How often guesses were right in one engine, and how many are therefore made."""

    def __init__(self) -> None:
        self._right = {LONG: 0.6, SHORT: 0.6}

    def allowed(self, guess: Guess, turns: int) -> int:
        """How many tokens of a guess are worth checking in a pass that writes so many turns."""
        if not guess.matched:
            return 0
        right = self._right[guess.matched]
        return min(len(guess.tokens), sum(right > least for least in PAYS[turns - 1 :]) // turns)

    def note(self, guess: Guess, token: int) -> None:
        """Compare a guess, whether it was used or not, with what was written."""
        if guess.matched:
            self._right[guess.matched] += MEMORY * ((guess.tokens[0] == token) - self._right[guess.matched])
