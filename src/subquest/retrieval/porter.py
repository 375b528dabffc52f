"""Porter's stemmer (M. F. Porter, "An algorithm for suffix stripping", 1980) on lower-case ASCII words.

A stem is what is left of a word without its endings, so that *connect*, *connected* and *connections* become one term.
The kernel has the same algorithm in C; a property test compares the two.
"""

from __future__ import annotations

_VOWELS = frozenset(b"aeiou")


def _rules(table: str) -> tuple[tuple[bytes, bytes], ...]:
    """Suffixes and what replaces them, written `suffix:replacement`."""
    return tuple((suffix, new) for suffix, _, new in (rule.partition(b":") for rule in table.encode().split()))


_STEP2 = _rules(
    "ational:ate tional:tion enci:ence anci:ance izer:ize bli:ble alli:al entli:ent eli:e ousli:ous ization:ize "
    "ation:ate ator:ate alism:al iveness:ive fulness:ful ousness:ous aliti:al iviti:ive biliti:ble logi:log"
)
_STEP3 = _rules("icate:ic ative: alize:al iciti:ic ical:ic ful: ness:")
_STEP4 = b"ement ance ence able ible ment ant ent ion ism ate iti ous ive ize al er ic ou".split()
"""Longest first."""


def _consonant(word: bytes, i: int) -> bool:
    if word[i] in _VOWELS:
        return False
    if word[i] == 0x79:  # y is a vowel after a consonant
        return i == 0 or not _consonant(word, i - 1)
    return True


def _measure(stem: bytes) -> int:
    """How often a vowel is followed by a consonant: the *m* of the paper."""
    count, previous_vowel = 0, False
    for i in range(len(stem)):
        consonant = _consonant(stem, i)
        if consonant and previous_vowel:
            count += 1
        previous_vowel = not consonant
    return count


def _has_vowel(stem: bytes) -> bool:
    return any(not _consonant(stem, i) for i in range(len(stem)))


def _double_consonant(word: bytes) -> bool:
    return len(word) >= 2 and word[-1] == word[-2] and _consonant(word, len(word) - 1)


def _cvc(word: bytes) -> bool:
    """Consonant, vowel, consonant at the end, the last not w, x or y."""
    n = len(word)
    return (
        n >= 3
        and _consonant(word, n - 1)
        and not _consonant(word, n - 2)
        and _consonant(word, n - 3)
        and word[-1] not in b"wxy"
    )


def stem(word: bytes) -> bytes:
    """The stem of a word; words of one or two letters, or with anything but a-z in them, stay as they are."""
    if len(word) <= 2 or not (word.isalpha() and word.isascii()):
        return word
    word = _step1(word)
    word = _replace(word, _STEP2)
    word = _replace(word, _STEP3)
    for suffix in _STEP4:
        if word.endswith(suffix):
            base = word[: -len(suffix)]
            if _measure(base) > 1 and (suffix != b"ion" or base.endswith((b"s", b"t"))):
                word = base
            break
    if word.endswith(b"e"):
        base = word[:-1]
        m = _measure(base)
        if m > 1 or (m == 1 and not _cvc(base)):
            word = base
    if word.endswith(b"ll") and _measure(word[:-1]) > 1:
        word = word[:-1]
    return word


def _step1(word: bytes) -> bytes:
    if word.endswith((b"sses", b"ies")):
        word = word[:-2]
    elif word.endswith(b"s") and not word.endswith(b"ss"):
        word = word[:-1]
    if word.endswith(b"eed"):
        if _measure(word[:-3]) > 0:
            word = word[:-1]
    else:
        base = word[:-2] if word.endswith(b"ed") else word[:-3] if word.endswith(b"ing") else None
        if base is not None and _has_vowel(base):
            word = base
            if word.endswith((b"at", b"bl", b"iz")):
                word += b"e"
            elif _double_consonant(word) and word[-1] not in b"lsz":
                word = word[:-1]
            elif _measure(word) == 1 and _cvc(word):
                word += b"e"
    if word.endswith(b"y") and _has_vowel(word[:-1]):
        word = word[:-1] + b"i"
    return word


def _replace(word: bytes, rules: tuple[tuple[bytes, bytes], ...]) -> bytes:
    """The longest suffix that fits is replaced where the stem before it has a measure above 0."""
    fitting = [rule for rule in rules if word.endswith(rule[0])]
    if fitting:
        suffix, new = max(fitting, key=lambda rule: len(rule[0]))
        base = word[: -len(suffix)]
        if _measure(base) > 0:
            return base + new
    return word
