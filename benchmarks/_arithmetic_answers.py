"""Whether a reply gives the value that an arithmetic task asks for, however it is worded.

A reply may repeat what the task gives ("the mean of 3, 5 and 10 is 6"): those values are set aside, and all others must
be the right one. A number may have more digits than asked for, but rounded it must be the value.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

from subquest.english import MONTHS, WEEKDAYS

_MONTHS = [name[:3].lower() for name in MONTHS]
_NUMBER = re.compile(
    r"(?<![\w.^])(?<!\d:)[-+]?(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)?(?:\.\d+|(?<=\d))(?:e[-+]?\d{1,3})?(?![\d:])", re.I
)
_MONTH = rf"({'|'.join(_MONTHS)})[a-z]*\.?"
_DATE = re.compile(
    rf"\b(?P<year>\d{{4}})[-/](?P<month>\d\d?)[-/](?P<day>\d\d?)\b"
    rf"|\b(?P<day_first>\d\d?)(?:st|nd|rd|th)?(?: of)? {_MONTH},? (?P<year_last>\d{{4}})\b"
    rf"|\b{_MONTH} (?P<day_second>\d\d?)(?:st|nd|rd|th)?,? (?P<year_after>\d{{4}})\b",
    re.IGNORECASE,
)
_TIME = re.compile(r"(?<![\d:])(\d\d?):(\d\d)(?::\d\d)?(?:\s*([ap])\.?m\b)?(?!\d)", re.IGNORECASE)


class Answer(NamedTuple):
    """The value that a task asks for."""

    form: str
    """number, list, ratio, date, weekday, time or name."""
    value: Any
    places: int | None = None
    """Decimals that a number is to be rounded to; None for the exact value."""
    names: tuple[str, ...] = ()
    """Those that a name is chosen from."""

    def __str__(self) -> str:
        match self.form:
            case "number":
                return _decimal(self.value, self.places)
            case "list":
                return ", ".join(_decimal(number, None) for number in self.value)
            case "ratio":
                return ":".join(map(str, self.value))
            case "time":
                return "{:02}:{:02}".format(*self.value)
        return str(self.value)


def is_right(answer: Answer, reply: str, task: str) -> bool:
    """Whether the reply to a task gives its answer."""
    reply, task = _plain(reply), _plain(task)
    if answer.form == "name":
        return [name for name in answer.names if name.casefold() in reply.casefold()] == [answer.value]
    if answer.form in ("list", "ratio"):
        wanted = list(answer.value)
        apart = re.sub(r"[,:/]", " ", reply)  # in a list a comma stands between numbers
        return wanted in (numbers(reply)[-len(wanted) :], numbers(apart)[-len(wanted) :])
    found, given = (_READERS[answer.form](text) for text in (reply, task))
    own = [value for value in found if value not in given] or found[-1:]
    return bool(own) and all(_equal(value, answer) for value in own)


def numbers(text: str) -> list[Fraction]:
    return [Fraction(match[0].replace(",", "")) for match in _NUMBER.finditer(text) if re.search(r"\d", match[0])]


def dates(text: str) -> list[datetime.date]:
    found = []
    for match in _DATE.finditer(text):
        year, month, day = (
            (match["year"], match["month"], match["day"])
            if match["year"]
            else (
                match["year_last"] or match["year_after"],
                1 + _MONTHS.index((match[5] or match[7]).lower()[:3]),
                match["day_first"] or match["day_second"],
            )
        )
        try:
            found.append(datetime.date(int(year), int(month), int(day)))
        except ValueError:
            continue
    return found


def weekdays(text: str) -> list[str]:
    found = re.findall(rf"\b({'|'.join(WEEKDAYS)})\b", text, re.IGNORECASE)
    return [name.capitalize() for name in found]


def times(text: str) -> list[tuple[int, int]]:
    """Hour and minute on a clock of 24 hours."""
    return [
        (int(hour) % 12 + 12 * (half.lower() == "p") if half else int(hour), int(minute))
        for hour, minute, half in _TIME.findall(text)
    ]


_READERS: Mapping[str, Callable[[str], list[Any]]] = {
    "number": numbers,
    "date": dates,
    "weekday": weekdays,
    "time": times,
}


def _plain(text: str) -> str:
    """Without LaTeX, with plain minus signs and the sign of an amount at its number."""
    text = text.replace("\u2212", "-").replace("{,}", ",").replace("\\,", "").replace("\\", "")
    return re.sub(r"-\s?([$€£])", r"\1-", re.sub("[\u00a0\u2009\u202f]", " ", text))


def _equal(value: Any, answer: Answer) -> bool:
    if answer.form != "number":
        return bool(value == answer.value)
    error = Fraction(1, 10**12) * max(1, abs(answer.value))  # what floating point may lose
    return bool(
        abs(value - answer.value) <= error + (0 if answer.places is None else Fraction(1, 2 * 10**answer.places))
    )


def _decimal(value: Fraction, places: int | None) -> str:
    if places is not None:
        return f"{float(value):.{places}f}"
    return str(value.numerator) if value.denominator == 1 else str(float(value))
