"""Arithmetic sub-tasks as a planner hands them to a code expert: all numbers given, the answer computed here.

`draw(count, seed)` goes through the kinds in turn, in an order drawn from the seed, so that they are equally frequent;
task number n of a seed is the same however many are drawn.
"""

from __future__ import annotations

import calendar
import datetime
import math
import statistics
from collections.abc import Callable
from fractions import Fraction
from random import Random
from typing import NamedTuple

from _arithmetic_answers import Answer

from subquest.english import WEEKDAYS, day_in_words

THINGS = ("households", "voters", "pupils", "visitors", "farms", "members")
PLACES = ("Arnholt", "Bessin", "Corvey", "Dunmar", "Elsworth", "Farrow")
WORKS = ("bridge", "library", "theatre", "lighthouse", "school", "railway station")


class Task(NamedTuple):
    kind: str
    text: str
    answer: Answer


def draw(count: int, seed: int) -> list[Task]:
    names = sorted(KINDS)
    Random(seed).shuffle(names)
    tasks = []
    for number in range(count):
        name = names[number % len(names)]
        text, answer = KINDS[name](Random(f"{seed}/{number}"))
        tasks.append(Task(name, text, answer))
    return tasks


Drawn = tuple[str, Answer]
KINDS: dict[str, Callable[[Random], Drawn]] = {}


def _kind(function: Callable[[Random], Drawn]) -> Callable[[Random], Drawn]:
    KINDS[function.__name__.replace("_", " ")] = function
    return function


def _exact(value: Fraction | int) -> Answer:
    return Answer("number", Fraction(value))


def _rounded(value: Fraction | float, places: int) -> Answer:
    return Answer("number", Fraction(value), places)


def _values(random: Random, low: int, high: int, count: int) -> list[int]:
    return [random.randint(low, high) for _ in range(count)]


def _listed(values: list[int] | list[Fraction]) -> str:
    words = [str(value) if isinstance(value, int) else f"{float(value):.1f}" for value in values]
    return f"{', '.join(words[:-1])} and {words[-1]}"


def _day(random: Random, first: int = 1850, last: int = 1999) -> datetime.date:
    start = datetime.date(first, 1, 1)
    return start + datetime.timedelta(random.randrange((datetime.date(last, 12, 31) - start).days))


@_kind
def percentage_of_an_amount(random: Random) -> Drawn:
    total, percent = 20 * random.randint(40, 900), 5 * random.randint(1, 19)
    thing, place = random.choice(THINGS), random.choice(PLACES)
    text = f"{percent} percent of the {total:,} {thing} of {place} agreed. How many agreed?"
    return text, _exact(Fraction(total * percent, 100))


@_kind
def share_in_percent(random: Random) -> Drawn:
    total = random.randint(300, 5000)
    part = random.randint(total // 10, total - 1)
    text = random.choice(
        [
            "Of {total:,} {thing}, {part:,} were present. What percentage is that, rounded to one decimal?",
            "{part:,} of {total:,} {thing} own a boat. Compute the share in percent to one decimal place.",
        ]
    )
    return text.format(total=total, part=part, thing=random.choice(THINGS)), _rounded(Fraction(100 * part, total), 1)


@_kind
def percentage_change(random: Random) -> Drawn:
    before, after = random.randint(2000, 90_000), random.randint(2000, 90_000)
    text = random.choice(
        [
            "The population of {place} was {before:,} in 1990 and {after:,} in 2020. By what percentage did it change? "
            "Round to one decimal; a decrease is negative.",
            "Sales went from {before:,} to {after:,} euros. Compute the percentage change, negative if they fell, to "
            "one decimal place.",
        ]
    )
    change = Fraction(100 * (after - before), before)
    return text.format(before=before, after=after, place=random.choice(PLACES)), _rounded(change, 1)


@_kind
def price_before_a_discount(random: Random) -> Drawn:
    price, percent = 20 * random.randint(3, 60), 5 * random.randint(1, 10)
    paid = Fraction(price * (100 - percent), 100)
    return (
        f"After a discount of {percent} percent a coat costs {float(paid):.2f} euros. What was its price before?",
        _exact(price),
    )


@_kind
def compound_interest(random: Random) -> Drawn:
    capital, years = 500 * random.randint(2, 60), random.randint(3, 15)
    rate, periods = Fraction(random.randint(10, 75), 10), random.choice([1, 4, 12])
    often = {1: "annually", 4: "quarterly", 12: "monthly"}[periods]
    end = capital * (1 + rate / 100 / periods) ** (periods * years)
    asked, value = random.choice(
        [("What is the balance at the end", end), ("How much interest is earned", end - capital)]
    )
    text = f"{capital:,} euros are invested for {years} years at {float(rate)} percent a year, compounded {often}. "
    return f"{text}{asked}, rounded to the cent?", _rounded(value, 2)


@_kind
def growth(random: Random) -> Drawn:
    people, years, tenths = 100 * random.randint(20, 900), random.randint(4, 25), random.randint(3, 45)
    text = f"A town of {people:,} inhabitants grows by {tenths / 10} percent every year. "
    value = people * (1 + Fraction(tenths, 1000)) ** years
    return f"{text}How many inhabitants does it have after {years} years, to the nearest whole number?", _rounded(
        value, 0
    )


@_kind
def total_of_a_list(random: Random) -> Drawn:
    values = [Fraction(n, 10) for n in _values(random, 10, 999, random.randint(5, 9))]
    text = random.choice(["Add up these rainfalls in mm: {}.", "What is the total of the lengths {} km?"])
    return text.format(_listed(values)), _exact(sum(values, Fraction(0)))


@_kind
def bill(random: Random) -> Drawn:
    goods = random.sample(["chairs", "lamps", "desks", "shelves", "rugs", "clocks"], 3)
    bought = [(random.randint(2, 24), thing, Fraction(random.randint(500, 20_000), 100)) for thing in goods]
    lines = [f"{count} {thing} at {float(price):.2f} euros each" for count, thing, price in bought]
    text = f"A school buys {lines[0]}, {lines[1]} and {lines[2]}. What does it pay in total, in euros?"
    return text, _exact(sum((count * price for count, _, price in bought), Fraction(0)))


@_kind
def mean(random: Random) -> Drawn:
    values = _values(random, 12, 480, random.randint(5, 9))
    text = random.choice(
        ["Compute the mean of {} to two decimals.", "What is the average of {}, rounded to two decimals?"]
    )
    return text.format(_listed(values)), _rounded(Fraction(sum(values), len(values)), 2)


@_kind
def weighted_mean(random: Random) -> Drawn:
    sizes, marks = _values(random, 12, 35, 3), [Fraction(n, 10) for n in _values(random, 40, 95, 3)]
    classes = [f"{size} pupils with a mean of {float(mark)} points" for size, mark in zip(sizes, marks, strict=True)]
    value = sum((s * m for s, m in zip(sizes, marks, strict=True)), Fraction(0)) / sum(sizes)
    text = f"Three classes took a test: {classes[0]}, {classes[1]} and {classes[2]}. "
    return f"{text}What is the mean of all pupils, to two decimals?", _rounded(value, 2)


@_kind
def median(random: Random) -> Drawn:
    values = _values(random, 10, 900, random.randint(6, 9))
    text = random.choice(["What is the median of {}?", "Find the median of these heights in metres: {}."])
    return text.format(_listed(values)), _exact(Fraction(statistics.median([Fraction(v) for v in values])))


@_kind
def standard_deviation(random: Random) -> Drawn:
    values = _values(random, 10, 99, random.randint(5, 7))
    text = f"Compute the population standard deviation of {_listed(values)}, rounded to two decimals."
    return text, _rounded(statistics.pstdev(values), 2)


@_kind
def days_between_dates(random: Random) -> Drawn:
    first = _day(random)
    second = first + datetime.timedelta(random.randint(40, 9000))
    text = random.choice(
        [
            "The {work} was begun on {first} and opened on {second}. How many days after its beginning did it open?",
            "How many days after {first} is {second}?",
        ]
    )
    words = {"work": random.choice(WORKS), "first": day_in_words(first), "second": day_in_words(second)}
    return text.format(**words), _exact((second - first).days)


@_kind
def date_after_days(random: Random) -> Drawn:
    start, days = _day(random), random.randint(30, 900)
    text = random.choice(["Which date is {days} days after {start}?", "What was the date {days} days before {start}?"])
    value = start + datetime.timedelta(days if "after" in text else -days)
    return text.format(days=days, start=day_in_words(start)), Answer("date", value)


@_kind
def weekday_of_a_date(random: Random) -> Drawn:
    day = _day(random)
    text = random.choice(["On which day of the week did {} fall?", "The {work} opened on {}. Which weekday was that?"])
    return text.format(day_in_words(day), work=random.choice(WORKS)), Answer("weekday", WEEKDAYS[day.weekday()])


@_kind
def age_at_a_date(random: Random) -> Drawn:
    born = _day(random, 1850, 1950)
    day = born + datetime.timedelta(random.randint(5000, 33_000))
    age = day.year - born.year - ((day.month, day.day) < (born.month, born.day))
    text = random.choice(
        [
            "A painter was born on {born} and died on {day}. How old was the painter, in full years?",
            "A minister was born on {born}. How many full years old was the minister on {day}?",
        ]
    )
    return text.format(born=day_in_words(born), day=day_in_words(day)), _exact(age)


@_kind
def leap_years(random: Random) -> Drawn:
    first = random.randint(1780, 1990)
    last = first + random.randint(25, 180)
    count = sum(map(calendar.isleap, range(first, last + 1)))
    return f"How many leap years are there from {first} to {last}, both included?", _exact(count)


@_kind
def time_of_arrival(random: Random) -> Drawn:
    start, takes = random.randrange(0, 1440), random.randint(70, 900)
    end = (start + takes) % 1440
    text = f"A train leaves at {start // 60:02}:{start % 60:02} and travels for {takes // 60} hours and {takes % 60} "
    return f"{text}minutes. At what time of day does it arrive?", Answer("time", divmod(end, 60))


@_kind
def unit_conversion(random: Random) -> Drawn:
    one, other, factor = random.choice(
        [
            ("mile", "kilometres", "1.609344"),
            ("pound", "kilograms", "0.45359237"),
            ("nautical mile", "kilometres", "1.852"),
            ("acre", "hectares", "0.404686"),
            ("imperial gallon", "litres", "4.54609"),
        ]
    )
    amount = random.randint(12, 3000)
    text = f"Convert {amount:,} {one}s to {other} (1 {one} = {factor} {other}), rounded to two decimals."
    return text, _rounded(amount * Fraction(factor), 2)


@_kind
def temperature(random: Random) -> Drawn:
    degrees = random.randint(-20, 110)
    text = f"Convert {degrees} degrees Fahrenheit to Celsius, C = (F - 32) × 5/9, rounded to one decimal."
    return text, _rounded(Fraction((degrees - 32) * 5, 9), 1)


@_kind
def ratio(random: Random) -> Drawn:
    first, second = random.sample(range(2, 14), 2)
    common = random.randint(6, 40)
    value = Fraction(first, second)
    text = f"A club has {first * common} women and {second * common} men. "
    return f"{text}Give the ratio of women to men in lowest terms.", Answer(
        "ratio", (value.numerator, value.denominator)
    )


@_kind
def division_in_a_ratio(random: Random) -> Drawn:
    parts = random.sample(range(2, 12), 3)
    unit = random.randint(15, 400)
    text = f"{sum(parts) * unit:,} crowns are divided among three heirs in the ratio {':'.join(map(str, parts))}. "
    return f"{text}How many crowns is the largest share?", _exact(max(parts) * unit)


@_kind
def speed(random: Random) -> Drawn:
    metres, minutes = 100 * random.randint(30, 2500), random.randint(11, 240)
    text = (
        f"A cyclist covers {metres / 1000:.1f} km in {minutes} minutes. What is the mean speed in km/h, to one decimal?"
    )
    return text, _rounded(Fraction(metres * 60, 1000 * minutes), 1)


@_kind
def time_to_fill(random: Random) -> Drawn:
    rates = _values(random, 12, 90, 2)
    litres = 50 * random.randint(40, 900)
    text = f"Two pumps deliver {rates[0]} and {rates[1]} litres a minute. How many minutes do they need together for "
    return f"{text}a tank of {litres:,} litres? Round to one decimal.", _rounded(Fraction(litres, sum(rates)), 1)


@_kind
def inhabitants_per_area(random: Random) -> Drawn:
    people, area = random.randint(5000, 900_000), Fraction(random.randint(200, 9000), 10)
    text = f"{random.choice(PLACES)} has {people:,} inhabitants on {float(area)} square kilometres. "
    return f"{text}Compute the inhabitants per square kilometre to one decimal.", _rounded(people / area, 1)


@_kind
def combinations(random: Random) -> Drawn:
    many, few = random.randint(9, 24), random.randint(3, 6)
    text = random.choice(
        [
            "In how many ways can a committee of {few} be chosen from {many} people?",
            "How many different hands of {few} cards can be drawn from {many} different cards, the order not counting?",
        ]
    )
    return text.format(many=many, few=few), _exact(math.comb(many, few))


@_kind
def arrangements(random: Random) -> Drawn:
    many, few = random.randint(8, 40), random.randint(3, 6)
    text = f"{many} runners start. In how many ways can the first {few} places be filled, without ties?"
    return text, _exact(math.perm(many, few))


@_kind
def root(random: Random) -> Drawn:
    size = random.randint(200, 99_000)
    text, value = random.choice(
        [
            (f"A square field has an area of {size:,} square metres. How long is its side in metres", math.sqrt(size)),
            (f"A cube has a volume of {size:,} cubic centimetres. How long is its edge in cm", math.cbrt(size)),
            (f"What is the square root of {size:,}", math.sqrt(size)),
        ]
    )
    return f"{text}, to three decimals?", _rounded(value, 3)


@_kind
def hypotenuse(random: Random) -> Drawn:
    width, height = _values(random, 20, 600, 2)
    text = f"A rectangle is {width} m by {height} m. How long is its diagonal in metres, rounded to two decimals?"
    return text, _rounded(math.hypot(width, height), 2)


@_kind
def sorting(random: Random) -> Drawn:
    values = random.sample(range(10, 999), random.randint(6, 8))
    ordered = sorted(values)
    words = f"the numbers {_listed(values)}"
    text, answer = random.choice(
        [
            (f"Sort {words} in ascending order.", Answer("list", tuple(map(Fraction, ordered)))),
            (f"Sort {words} in descending order.", Answer("list", tuple(map(Fraction, reversed(ordered))))),
            (f"Which of {words} is the third largest?", _exact(ordered[-3])),
        ]
    )
    return text, answer


@_kind
def counting(random: Random) -> Drawn:
    values = _values(random, 100, 999, random.randint(9, 14))
    limit = random.randint(300, 700)
    text = random.choice(["How many of {} are greater than {limit}?", "Count how many of {} are even."])
    kept = [v for v in values if (v % 2 == 0 if "even" in text else v > limit)]
    return text.format(_listed(values), limit=limit), _exact(len(kept))


@_kind
def multiples(random: Random) -> Drawn:
    step, first = random.randint(6, 29), random.randint(20, 400)
    last = first + random.randint(200, 3000)
    value = last // step - (first - 1) // step
    return f"How many multiples of {step} are there from {first:,} to {last:,}, both included?", _exact(value)


@_kind
def common_multiple(random: Random) -> Drawn:
    periods = random.sample(range(6, 31), 2)
    text = f"Two buses leave together, then every {periods[0]} and every {periods[1]} minutes. "
    return f"{text}After how many minutes do they next leave together?", _exact(math.lcm(*periods))


@_kind
def currency(random: Random) -> Drawn:
    amount, rate = random.randint(40, 9000), Fraction(random.randint(6000, 19_000), 10_000)
    fee = Fraction(random.randint(0, 6), 2)
    text = f"{amount:,} pounds are changed into dollars at {float(rate):.4f} dollars a pound"
    text += f", less a fee of {float(fee)} percent" if fee else ""
    return f"{text}. How many dollars are paid out, to the cent?", _rounded(amount * rate * (100 - fee) / 100, 2)


@_kind
def rounding(random: Random) -> Drawn:
    number, step = random.randint(20_000, 990_000), random.choice([10, 100, 1000])
    number += number % step == step // 2  # not halfway
    word = {10: "ten", 100: "hundred", 1000: "thousand"}[step]
    return f"Round {number:,} to the nearest {word}.", _exact((number + step // 2) // step * step)


@_kind
def rounding_up(random: Random) -> Drawn:
    people, seats = random.randint(180, 3000), random.randint(22, 68)
    text = f"{people:,} people travel in buses of {seats} seats. How many buses are needed?"
    return text, _exact(-(-people // seats))


@_kind
def better_price(random: Random) -> Drawn:
    names = tuple(random.sample(PLACES, 3))
    grams = [50 * random.randint(4, 40) for _ in names]
    cents = [round(weight * random.uniform(0.4, 1.6)) for weight in grams]
    per = {name: Fraction(c, g) for name, c, g in zip(names, cents, grams, strict=True)}
    if len(set(per.values())) < len(names):
        return better_price(random)
    shops = [f"{n} sells {g} g for {c / 100:.2f} euros" for n, g, c in zip(names, grams, cents, strict=True)]
    text = f"Tea has three prices: {shops[0]}, {shops[1]}, {shops[2]}. Which place has the lowest price per gram?"
    return text, Answer("name", min(per, key=lambda name: per[name]), names=names)
