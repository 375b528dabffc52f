"""Answer metrics: exact match (EM), token F1 and cover exact match (CEM) after SQuAD's normalisation.

Normalisation lower-cases, drops ASCII punctuation and the articles a, an, the, and squeezes white space. EM asks
whether two normalised answers are the same, F1 weighs the tokens they share, CEM asks whether the gold answer is
anywhere in the prediction. With several gold answers the best one counts.

Chinese and Japanese are written without spaces, so the standard tokens would make a whole sentence one token and F1 an
exact match. There every Han or kana character is a token of its own, and full-width forms and all Unicode
punctuation are treated as their ASCII kin. Texts without such characters score exactly as in SQuAD's script.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

_ARTICLES = re.compile(r"\b(a|an|the)\b", re.UNICODE)
_PUNCTUATION = str.maketrans("", "", string.punctuation)
# Han (with extensions and compatibility forms), iteration marks, hiragana, katakana and its phonetic extensions.
_CJK = re.compile(
    "([\u2e80-\u2fdf\u3005-\u3007\u3041-\u30fa\u30fc-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff])"
)
_FULL_WIDTH = re.compile("[\u3000-\u303f\u30fb\uff00-\uffef]")


class AnswerScores(NamedTuple):
    """The three metrics of one answer, each in [0, 1]."""

    em: float
    f1: float
    cem: float


def normalize(text: str) -> str:
    """The answer's normal form: its tokens, joined by single spaces."""
    if text.isascii():
        text = text.lower().translate(_PUNCTUATION)
    else:
        if _CJK.search(text) or _FULL_WIDTH.search(text):
            text = "".join(map(_narrow, text))
        text = _CJK.sub(r" \1 ", text.lower().translate(_PUNCTUATION))
    return " ".join(_ARTICLES.sub(" ", text).split())


def _narrow(character: str) -> str:
    """A full-width character as its ordinary form; any punctuation as nothing."""
    if _FULL_WIDTH.match(character):
        character = unicodedata.normalize("NFKC", character)
    return "" if unicodedata.category(character[0])[0] == "P" else character


def answer_tokens(text: str) -> list[str]:
    """Tokens of the normal form."""
    return normalize(text).split()


def exact_match(prediction: str, answers: str | Iterable[str]) -> float:
    """1 if the prediction is one of the gold answers in normal form, else 0."""
    return _best(lambda p, g: float(p == g), prediction, answers)


def f1(prediction: str, answers: str | Iterable[str]) -> float:
    """Token F1 with the closest gold answer: harmonic mean of the shares of tokens in common (as a bag)."""
    return _best(_f1, prediction, answers)


def cover_exact_match(prediction: str, answers: str | Iterable[str]) -> float:
    """1 if a gold answer's normal form is in the prediction's, else 0. Long predictions are not punished."""
    return _best(lambda p, g: float(_covers(p, g)), prediction, answers)


def hotpot_f1(prediction: str, answers: str | Iterable[str]) -> float:
    """F1 as HotpotQA's own script counts it: a yes, no or noanswer on either side is right as a whole or worth 0."""

    def rule(p: str, g: str) -> float:
        whole = {"yes", "no", "noanswer"}
        return 0.0 if p != g and (p in whole or g in whole) else _f1(p, g)

    return _best(rule, prediction, answers)


def score_answer(prediction: str, answers: str | Iterable[str]) -> AnswerScores:
    """EM, F1 and CEM at once. A blank prediction scores 0, even against a gold answer of nothing but articles."""
    golds = [normalize(g) for g in ([answers] if isinstance(answers, str) else answers)]
    if not prediction.strip() or not golds:
        return AnswerScores(0.0, 0.0, 0.0)
    given = normalize(prediction)
    covered = any(_covers(given, g) for g in golds)
    return AnswerScores(float(given in golds), max(_f1(given, g) for g in golds), float(covered))


def contains_answer(text: str, answers: str | Iterable[str]) -> bool:
    """Whether a gold answer occurs in the text as a contiguous run of whole tokens ("us" is not in "status")."""
    words = f" {normalize(text)} "
    golds = [answers] if isinstance(answers, str) else answers
    return any((gold := normalize(g)) and f" {gold} " in words for g in golds)


def is_yes_no(answers: str | Iterable[str]) -> bool:
    """Whether the gold answer is a bare yes or no, which any longer text contains by accident."""
    golds = [answers] if isinstance(answers, str) else list(answers)
    return bool(golds) and all(normalize(g) in {"yes", "no"} for g in golds)


def _best(metric: Callable[[str, str], float], prediction: str, answers: str | Iterable[str]) -> float:
    golds = [answers] if isinstance(answers, str) else answers
    predicted = normalize(prediction)
    return max((metric(predicted, normalize(g)) for g in golds), default=0.0)


def _covers(predicted: str, gold: str) -> bool:
    """Whether gold is in the prediction; where normalisation leaves nothing of it ("A"), in no other text."""
    return gold in predicted if gold else not predicted


def _f1(predicted: str, gold: str) -> float:
    p, g = predicted.split(), gold.split()
    if not p or not g:
        return float(p == g)
    shared = sum((Counter(p) & Counter(g)).values())
    return 2 * shared / (len(p) + len(g))
