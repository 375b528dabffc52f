"""What rules can find in a text: content words, names, numbers, dates and quantities.

Numbers written as words count as digits: "forty-two" is 42, "1.5 million" is 1500000.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

from ..english import MONTHS
from ..metrics import answer_tokens, normalize


def _words(text: str) -> list[str]:
    return text.split()


_STOP = frozenset(
    _words(
        "about above across after all also although am among and another any are as at be because been before being "
        "below between both but by called can could did do does doing down during each either else ever every few find "
        "first for from further give had has have having he her here hers him his how however i if in into is it its "
        "itself known last least less like many may me might more most much must my name named names neither never no "
        "nor not of off on once one only or other our out over own per same second she should since so some such tell "
        "than that their them then there these they this those through to too under until up upon us very was we were "
        "what when where which while who whom whose why will with within without would yes yet you your"
    )
)
_MONTH = {
    name[:n]: at for at, name in enumerate(map(str.lower, MONTHS), 1) for n in (3, 4, len(name)) if len(name) >= n
}
_MONTH_PATTERN = "|".join(sorted(_MONTH, key=len, reverse=True))
_DAY, _NAMED = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?", rf"(?P<month>{_MONTH_PATTERN})\.?"
_YEAR = r"(?P<year>(?:bc|ad)\d{4}|\d{3,4})"
"""As digits, after `_marked` with its era before four of them."""
_DATES = (
    re.compile(rf"\b{_NAMED}\s+{_DAY},?\s+{_YEAR}\b", re.I),
    re.compile(rf"\b{_DAY}\s+(?:of\s+)?{_NAMED},?\s+{_YEAR}\b", re.I),
    re.compile(r"\b(?P<year>\d{4})-(?P<month>\d{2})-(?P<day>\d{2})\b"),
    re.compile(rf"\b{_NAMED},?\s+(?P<year>(?:bc|ad)?\d{{4}})\b", re.I),
    re.compile(rf"\b{_NAMED}\s+{_DAY}\b", re.I),
    re.compile(rf"\b{_DAY}\s+(?:of\s+)?{_NAMED}(?!\w)", re.I),
    re.compile(r"\b(?P<year>(?:bc|ad)\d{4}|1\d{3}|20\d{2})\b"),
)
_COUNTED = r"(\d(?:st|nd|rd|th)?(?:\s+(?:century|millennium))?)\s*"
_BEFORE = re.compile(rf"{_COUNTED}(?:BC|bc|b\.\s?c\.?|B\.\s?C\.?)(?:[Ee]\b\.?|\s?[Ee]\.)?(?!\w)")
_AFTER = re.compile(rf"{_COUNTED}(?:AD|CE|[Aa]\.\s?[Dd]\.?|[Cc]\.\s?[Ee]\.?)(?!\w)")
_AFTER_FIRST = re.compile(r"\b(?:AD|A\.\s?D\.)\s*(\d{1,4})\b")
_ERA = re.compile(r"\b(\d{1,4}) (BC|AD)\b")
_NUMBER = r"\d[\d,]*(?:\.\d+)?"
_CURRENCIES = dict(
    pair.split(":")
    for pair in _words(
        "$:dollars US$:dollars USD:dollars €:euros EUR:euros £:pounds GBP:pounds ¥:yen JPY:yen ₹:rupees INR:rupees"
    )
)
_SIGN = "|".join(re.escape(sign) if not sign.isalpha() else rf"\b{sign}\b" for sign in _CURRENCIES)
_MONEY_FIRST = re.compile(rf"(?<!\w)({_SIGN})\s*({_NUMBER})")
_MONEY_AFTER = re.compile(
    rf"({_NUMBER})(?:\s*(?:({_SIGN})|(?i:(?:U\.?S\.?\s+)?(dollars?|euros?|pounds?|rupees?|yen)\b)))?"
)
"""A number without a currency is matched too, so that the search does not restart at each of its digits."""
_UNITS = dict(
    pair.split(":")
    for pair in _words(
        "km:kilometre kilometer:kilometre m:metre meter:metre cm:centimetre centimeter:centimetre mm:millimetre "
        "millimeter:millimetre mi:mile ft:foot feet:foot inche:inch in:inch kg:kilogram g:gram lb:pound ly:lightyear "
        "h:hour hr:hour min:minute sec:second s:second yr:year percent:% pct:%"
    )
)
_QUANTITY = re.compile(r"(?<![\w.])([-−]?)(\d[\d,]*(?:\.\d+)?)\s*(%|light[- ]years?|[A-Za-z]+)?", re.IGNORECASE)
_SMALL = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_VALUES = {word: n for n, word in enumerate(_SMALL)} | {word: 10 * n for n, word in enumerate(_TENS, 2)}
_SCALES = {"dozen": 12, "hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_NUMBER_WORD = "|".join(sorted((*_VALUES, *_SCALES), key=len, reverse=True))
_DIGITS_BEFORE_SCALE = r"(?<!\d,)\d[\d,]*(?:\.\d+)?"
_SCALED = rf"{_DIGITS_BEFORE_SCALE}(?=[\s-]+(?:{'|'.join(_SCALES)})\b)"
_AND = r"(?:(?<=hundred)|(?<=thousand)|(?<=million))\s+and\s+"
_NUMBER_WORDS = re.compile(
    rf"(?<![\w.-])(?:{_NUMBER_WORD}|{_SCALED})(?:(?:[\s-]+|{_AND})(?:{_NUMBER_WORD}))*(?![\w-])", re.IGNORECASE
)
"""Number words side by side, after digits where a scale follows them ("1.5 million")."""
_MOST = 1e18
"""Words that name more are read as this: `hundred hundred …` soon names what no float holds."""
_CAPITAL = r"(?:(?:[A-Z]\.)+|[A-Z][\w'’-]*)"
_NAME = re.compile(rf"\b{_CAPITAL}(?:\s+(?:(?:of|the|de|la|von|van|and|&)\s+)?{_CAPITAL})*")
_OPENING = _STOP | {"a", "an", "the", ""}
_WORD = re.compile(r"\w+")
_JOINED = re.compile(r"\b\w++(?:['’-]++\w++)+")


class Date(NamedTuple):
    year: int | None
    month: int | None
    day: int | None

    @property
    def parts(self) -> int:
        return sum(p is not None for p in self)

    def covers(self, other: Date) -> bool:
        """Whether it says at least as much as the other, and nothing else."""
        return all(o is None or s == o for s, o in zip(self, other, strict=True))


def content_words(text: str) -> set[str]:
    """Words that carry meaning, without a plural s."""
    return {_stem(t) for t in answer_tokens(text) if t not in _STOP and (len(t) > 1 or not t.isascii())}


def _stem(token: str) -> str:
    return token[:-1] if len(token) > 3 and token.endswith("s") and not token.endswith("ss") else token


def numbers(text: str) -> set[str]:
    """Numbers in digits, thousands separators removed; number words count as digits."""
    return {n.replace(",", "").rstrip(".") for n in re.findall(r"\d[\d,]*(?:\.\d+)?", in_digits(text))}


def names(text: str, *, sentences: bool = True) -> list[str]:
    """Runs of capitalised words; in sentences, a word that is capitalised only because it opens one is left out."""
    found = []
    often = _often(text) if sentences else Counter[str]()
    for match in _NAME.finditer(text):
        name = match.group().rstrip(".'’")
        opens = sentences and _opens(text, match.start())
        words = name.split()
        if opens and normalize(words[0]) in _OPENING:
            words = words[1:]
        elif opens and len(words) == 1 and not _reads_as_name(words[0], often):
            continue
        if words and any(normalize(w) not in _STOP for w in words):
            found.append(" ".join(words))
    return found


def _opens(text: str, start: int) -> bool:
    """Whether a sentence begins at a place."""
    while start and text[start - 1].isspace():
        start -= 1
    return not start or text[start - 1] in ".!?:"


def _reads_as_name(word: str, often: Counter[str]) -> bool:
    """A single opening word is a name if it is all capitals or is capitalised elsewhere in the text too."""
    return (word.isupper() and len(word) > 1) or often[word] > 1


def _often(text: str) -> Counter[str]:
    """How often each word occurs in a text, and each that has a hyphen or an apostrophe in it, without a possessive."""
    whole = (word.removesuffix("'s").removesuffix("’s") for word in _JOINED.findall(text))
    return Counter(_WORD.findall(text)) + Counter(word for word in whole if not _WORD.fullmatch(word))


def one_spelling(text: str) -> str:
    """Eras as BC and AD after the number, and amounts of money with the currency's name after them."""
    text = _AFTER.sub(r"\1 AD", _BEFORE.sub(r"\1 BC", text))
    text = _AFTER_FIRST.sub(r"\1 AD", text)
    text = _MONEY_FIRST.sub(lambda found: f"{found[2]} {_CURRENCIES[found[1]]}", text)
    return _MONEY_AFTER.sub(_amount, text)


def _amount(found: re.Match[str]) -> str:
    number, sign, name = found.groups()
    currency = _CURRENCIES[sign] if sign else name and name.lower()
    return f"{number} {currency}" if currency else number


def _marked(text: str) -> str:
    """Years with their era as one word, so that `44 BC` is neither the year nor the day 44."""
    return _ERA.sub(lambda found: f"{found[2].lower()}{int(found[1]):04}", one_spelling(text))


def _year(found: str) -> int:
    return -int(found[2:]) if found.lower().startswith("bc") else int(found.lower().removeprefix("ad"))


def dates(text: str) -> list[Date]:
    """Dates in a text, each as precise as it is written; years before our era are negative."""
    found: list[Date] = []
    rest = _marked(text)
    for pattern in _DATES:
        for match in pattern.finditer(rest):
            parts = match.groupdict()
            month = parts.get("month")
            found.append(
                Date(
                    _year(parts["year"]) if parts.get("year") else None,
                    (int(month) if month.isdigit() else _MONTH[small_letters(month)]) if month else None,
                    int(parts["day"]) if parts.get("day") else None,
                )
            )
        rest = pattern.sub(" ; ", rest)
    return found


def quantities(text: str) -> list[tuple[float, str]]:
    """Numbers with the unit written after them ("" where none is), units by one spelling."""
    out = []
    for sign, number, unit in _QUANTITY.findall(in_digits(text)):
        word = _stem(re.sub("[- ]", "", unit.lower())) if unit else ""
        value = float(number.replace(",", ""))
        out.append((-value if sign else value, _UNITS.get(word, word)))
    return out


def is_date_only(text: str) -> bool:
    """Whether a text is a date and nothing else."""
    rest = _marked(text)
    for pattern in _DATES:
        rest = pattern.sub(" ", rest)
    return bool(dates(text)) and not content_words(rest) and not re.search(r"\d", rest)


def in_digits(text: str) -> str:
    """The text with its number words as digits. Words that do not make up one number stay several."""
    return _NUMBER_WORDS.sub(lambda match: " ".join(map(_write_number, _read_number_words(match[0]))), text)


def _read_number_words(run: str) -> list[float]:
    """The numbers of a run of number words: a hundred and five is one, one two three are three."""
    found: list[float] = []
    whole = part = 0.0
    room = float("inf")
    """What the next word must be below to belong to the number that is being read."""
    for word in re.split(r"[\s-]+", small_letters(run)):
        if word == "and":
            continue
        if word in _SCALES:
            scale = _SCALES[word]
            if scale <= 100:
                part = min((part or 1) * scale, _MOST)
            else:
                whole, part = min(whole + (part or 1) * scale, _MOST), 0.0
            room = scale
            continue
        value = _VALUES[word] if word in _VALUES else min(float(word.replace(",", "")), _MOST)
        if value >= room:
            found.append(whole + part)
            whole = part = 0.0
        part += value
        room = 10 if 20 <= value < 100 else 1
    return [*found, whole + part]


def small_letters(found: str) -> str:
    """What a pattern that ignores case has found: it also finds a long s, and an i without or with a dot of its own."""
    return found.casefold().replace("ı", "i").replace("\u0307", "")


def _write_number(value: float) -> str:
    return f"{value:.0f}" if value == int(value) else repr(value)
