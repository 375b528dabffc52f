"""Whether a number follows from others by one step: a sum, a difference, a product, a share, a mean, another unit, the
days between two dates."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import combinations, permutations

from .dates import days_in, with_years_alone
from .normalization import IN_WORDS, compared_words, is_number

MOST = 24
"""Numbers that are combined; more of them would yield any value by chance."""
_UNITS: dict[str, tuple[str, float]] = {
    name: (dimension, float(size))
    for dimension, units in {
        "length": "mm,millimetre,millimeter=.001 cm,centimetre,centimeter=.01 m,metre,meter=1 "
        "km,kilometre,kilometer=1000 inch,inches=.0254 ft,foot,feet=.3048 yard,yd=.9144 mile,mi=1609.344",
        "area": "hectare,ha=10000 acre=4046.8564224",
        "mass": "mg,milligram=.000001 g,gram=.001 kg,kilogram,kilo=1 ton,tonne,t=1000 "
        "ounce,oz=.028349523125 pound,lb=.45359237",
        "volume": "ml,millilitre,milliliter=.001 cl,centilitre=.01 l,litre,liter=1 gallon=3.785411784 pint=.473176473",
        "time": "second,sec=1 minute,min=60 hour,h,hr=3600 day=86400 week=604800 month=2629746 year,yr=31556952 "
        "decade=315569520 century,centuries=3155695200",
        "power": "w,watt=1 kw,kilowatt=1000 mw,megawatt=1000000",
        "count": "dozen=12 hundred=100 thousand=1000 million=1000000 billion=1000000000 percent=.01",
    }.items()
    for unit in units.split()
    for names, _, size in [unit.partition("=")]
    for name in names.split(",")
}
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def follows(number: str, text: str, sources: Sequence[str]) -> bool:
    """Whether a number of a text, a word of `compared_words`, follows from the numbers of sources."""
    match = _NUMBER.match(number)
    if match is None:
        return False
    value = float(match[0])
    slack = 0.5 * 10.0 ** -len(match[0].partition(".")[2]) + 1e-9 * abs(value)
    known = [quantity for source in sources for quantity in _quantities(source)][:MOST]
    unit = next((unit for found, unit in _quantities(text) if found == value), "")
    values = [found for found, _ in known]
    converted = [(found, one) for found, one in known if one and unit and one != unit]
    dates = [found for found in map(_year_of_date, sources) if found]
    ages = [abs(a - b) - 1.0 for a, b in combinations(dates, 2)]  # before the birthday
    days = [float(abs((a - b).days)) for a, b in combinations([d for s in sources for d in days_in(s)][:MOST], 2)]
    return any(
        abs(candidate - value) <= slack
        for candidate in (
            *_combined(values),
            *ages,
            *days,
            *(c for found, one in converted for c in _converted(found, one, unit)),
        )
    )


def _year_of_date(text: str) -> int:
    """The year of a text that is one date with its day; 0 if it is none."""
    numbers = [word for word in compared_words(text) if is_number(word)]
    years = [int(word) for word in numbers if len(word) == 4 and word.isdigit()]
    return years[0] if len(years) == 1 and len(numbers) > 1 else 0


def _combined(values: Sequence[float]) -> Iterator[float]:
    if values:
        yield from (sum(values), sum(values) / len(values))
    for a, b in permutations(values, 2):
        yield from (a + b, a - b, a * b)
        if b:
            yield from (a / b, 100 * a / b, 100 * (a - b) / b)


def _converted(value: float, unit: str, to: str) -> Iterator[float]:
    if {unit, to} == {"celsius", "fahrenheit"} or {unit, to} == {"c", "f"}:
        yield value * 1.8 + 32 if to[0] == "f" else (value - 32) / 1.8
    (dimension, size), (other, other_size) = _UNITS.get(unit, ("", 1.0)), _UNITS.get(to, ("-", 1.0))
    if dimension == other:
        yield value * size / other_size


def _quantities(text: str) -> Iterator[tuple[float, str]]:
    """The numbers of a text, each with its unit, if a unit follows; of a date its year alone."""
    words = compared_words(with_years_alone(text))
    words = [str(IN_WORDS.index(word)) if word in IN_WORDS else word for word in words]
    for at, word in enumerate(words):
        if not is_number(word) or (match := _NUMBER.match(word)) is None:
            continue
        after = [word[match.end() :], *words[at + 1 : at + 3]]
        names = (name for w in after if w for name in (w, w.removesuffix("s")))
        yield float(match[0]), next((n for n in names if n in _UNITS or n in ("c", "f", "celsius", "fahrenheit")), "")
