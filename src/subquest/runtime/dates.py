"""Dates as texts write them, and days that follow from them.

    a day     17 May 2024, 17th of May 2024, May 17, 2024, Sept. 17, 2024, 17.05.2024, 2024-05-17
    a month   May 2024
    a year    2024

Where day and month cannot be told apart (`05/04/2024`), there is no date.
"""

from __future__ import annotations

import calendar
import contextlib
import re
from collections.abc import Iterator, Sequence
from datetime import date, timedelta

from ..english import MONTHS, WEEKDAYS
from .normalization import IN_WORDS

Value = tuple[float, ...]
"""Year, month and day of a date, 0 for what is not said; or a number alone. What can be compared."""
_MONTHS = {name.casefold(): at for at, name in enumerate(MONTHS, 1)}
_SHORT = {name[:length]: at for name, at in _MONTHS.items() for length in (3, 4) if length < len(name)}
_MONTH = rf"(?:{'|'.join(_MONTHS)}|(?:jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)\b\.?)"
_ORDINAL = "(?:st|nd|rd|th)?"
DATE = re.compile(
    rf"(?<!\w)(?<![^\W\d]-)(?:(?P<y1>\d{{4}}) ?-(?P<m1>\d\d) ?-(?P<d1>\d\d)"
    rf"|(?P<d2>\d\d?)\.(?P<m2>\d\d?)\.(?P<y2>\d{{4}})"
    rf"|(?P<d3>\d\d?){_ORDINAL} (?:of )?(?P<m3>{_MONTH}),? (?P<y3>\d{{4}})"
    rf"|(?P<m4>{_MONTH}) (?P<d4>\d\d?){_ORDINAL},? (?P<y4>\d{{4}})"
    rf"|(?P<m5>{_MONTH}),? (?P<y5>\d{{4}})"
    rf"|(?P<y6>(?:1\d|20)\d\d)(?![.,]\d))(?!\w)",
    re.IGNORECASE,
)
"""Not the end of a code (KVT-2019). `compared_words` writes a date in digits as `2024 -05 -17`."""
_TERM = re.compile(
    rf"(?<![\w.,-])(\d{{1,4}}|{'|'.join(IN_WORDS)}|an?)[ -](?:(?:calendar|full) )?(day|week|month|year)s?\b",
    re.IGNORECASE,
)
_HOW_MANY = re.compile(r"\bhow many (days|weeks|months|years)\b", re.IGNORECASE)
_WEEKDAYS = [name.casefold() for name in WEEKDAYS]


def dates_in(text: str) -> list[Value]:
    """All dates of a text, in order."""
    return [value_of(match) for match in DATE.finditer(text)]


def date_of(text: str) -> Value:
    """The date that a text is; empty if it is none. A year beside other words is none."""
    found = dates_in(text)
    if not found or (not found[0][1] and not DATE.fullmatch(text.strip())):
        return ()
    return found[0]


def days_in(text: str) -> list[date]:
    """The days that a text names."""
    found = []
    for year, month, day in dates_in(text):
        with contextlib.suppress(ValueError):
            found.append(date(int(year), int(month), int(day)))
    return found


def with_years_alone(text: str) -> str:
    """A text with the year in place of each date: its day is no number by itself."""
    return DATE.sub(lambda match: f" {int(value_of(match)[0])} ", text)


def unit_asked_for(task: str) -> str:
    """`days` for *how many days*, which the result may leave out; empty if no span of time is asked for."""
    found = _HOW_MANY.search(task)
    return found[1].casefold() if found else ""


def weekday_of(text: str) -> int | None:
    """Which day of the week a text is, 0 for Monday; None if it is none."""
    word = text.strip(" .").casefold().removeprefix("a ").removeprefix("on ")
    return _WEEKDAYS.index(word) if word in _WEEKDAYS else None


def day_follows(text: str, sources: Sequence[str]) -> bool:
    """Whether the day that a text is, or the day of the week, follows from dates of sources.

    A day lies a span of time that a source names (30 days, six weeks) before or after a date. What runs for months or
    years may end on the day before.
    """
    known = list(dict.fromkeys(day for source in sources for day in days_in(source)))
    weekday = weekday_of(text)
    if weekday is not None:
        return [day.weekday() for day in known] == [weekday]
    asked = days_in(text)
    spans = {(_count(match[1]), match[2].casefold()) for source in sources for match in _TERM.finditer(source)}
    reached = {day for start in known for count, unit in spans for day in _reached(start, count, unit)}
    return len(asked) == 1 and asked[0] in reached


def value_of(match: re.Match[str]) -> Value:
    """The date that a match of `DATE` is."""
    said = {name[0]: part for name, part in match.groupdict().items() if part}
    month = said.get("m", "0").casefold().rstrip(".")
    number = int(month) if month.isdigit() else _MONTHS.get(month, _SHORT.get(month, 0))
    return float(said["y"]), float(number), float(said.get("d", 0))


def _count(word: str) -> int:
    small = word.casefold()
    return int(small) if small.isdigit() else IN_WORDS.index(small) if small in IN_WORDS else 1


def _reached(start: date, count: int, unit: str) -> Iterator[date]:
    """The days a span of time before and after a date."""
    with contextlib.suppress(ValueError, OverflowError):
        if unit in ("day", "week"):
            span = timedelta(days=count * (7 if unit == "week" else 1))
            yield from (start + span, start - span)
            return
        months = count * (12 if unit == "year" else 1)
        ends = _months_later(start, months)
        yield from (ends, ends - timedelta(days=1), _months_later(start, -months))


def _months_later(start: date, months: int) -> date:
    """The same day of another month, or the last one of a month that is shorter."""
    year, month = divmod(start.year * 12 + start.month - 1 + months, 12)
    return date(year, month + 1, min(start.day, calendar.monthrange(year, month + 1)[1]))
