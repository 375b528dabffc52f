"""EM and F1 against torchmetrics' SQuAD on fuzzed pairs, unicode included.

Left out on purpose: Han, kana and full-width characters, which SQuAD's script takes for one long word and we do not.
"""

from __future__ import annotations

import random
import sys

import torch
from torchmetrics.functional.text.squad import squad

from subquest.metrics import exact_match, f1

from .ledger import Ledger

PAIRS = 10_000
"""Unless the command names another number."""
WORDS = [
    "the",
    "a",
    "an",
    "The",
    "AN",
    "A.",
    "Paris",
    "paris,",
    "(Paris)",
    "'Paris'",
    "É",
    "école",
    "ÉCOLE",
    "naïve",
    "Straße",
    "STRASSE",
    "İstanbul",
    "ß",
    "ﬁ",
    "x²",
    "№",
    "½",
    "Москва",
    "ПЁТР",
    "ελλάδα",
    "Ελλάδα",
    "مدينة",
    "עיר",
    "हिन्दी",
    "ไทย",
    "서울",
    "서울은",
    "é",
    "1,000",
    "1000",
    "3.14",
    "U.S.",
    "US",
    "rock-and-roll",
    "O'Neil",
    "“quoted”",
    "–",
    "—",
    "…",
    "\xa0",
    "\u2003",
    "\u200b",
    "\t",
    "\n",
    "🙂",
    "🇫🇷",
    "x=y",
    "a/b",
    "$5",
    "100%",
    "#1",
    "the-best",
    "theatre",
    "an1",
    "_under_",
    "۱۲۳",
    "①",
    "ﷺ",
]


def text(r: random.Random) -> str:
    if r.random() < 0.15:
        return "".join(
            chr(r.choice([r.randrange(32, 0x250), r.randrange(0x370, 0x700)])) for _ in range(r.randrange(12))
        )
    return r.choice([" ", "  ", "\n"]).join(r.choice(WORDS) for _ in range(r.randrange(7)))


def main(pairs: int = PAIRS) -> int:
    r = random.Random(7)
    ledger = Ledger("torchmetrics SQuAD")
    for n in range(pairs):
        gold = [text(r) for _ in range(r.randint(1, 3))]
        words = r.choice(gold).split()
        r.shuffle(words)
        prediction = (
            text(r)
            if r.random() < 0.4
            else " ".join(words[: r.randrange(len(words) + 1)] + [text(r)][: r.randrange(2)])
        )
        theirs = squad(
            [{"prediction_text": prediction, "id": str(n)}],
            [{"answers": {"answer_start": [0] * len(gold), "text": gold}, "id": str(n)}],
        )
        ledger.compare("EM", torch.tensor(100 * exact_match(prediction, gold)), theirs["exact_match"])
        ledger.compare("F1", torch.tensor(100 * f1(prediction, gold)), theirs["f1"])
    return ledger.report()


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
