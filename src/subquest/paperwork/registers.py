"""Long registers of an organisation: trips, orders, bookings. A search shows a few of their rows, and what is asked of
all of them needs a query.

Code writes them beside the papers that a model wrote, from the same seed, with the people, sites and suppliers of the
organisation. No value of a measure occurs twice in a register, so the highest is one row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import NamedTuple

from ..english import MONTHS, day_in_words
from ..retrieval.sql_names import identifier
from ..worlds.random_stream import RandomStream
from .organisation import Organisation
from .papers import Form, Paper, page, render_table
from .questions import as_date
from .relations import of_kind

ROWS = (24, 56)
"""Least and most rows of a register."""
_FROM = date(2021, 3, 1)
_DATES = ("{0.day} {1} {0.year}", "{0:%Y-%m-%d}", "{0:%d.%m.%Y}", "{0.day} {1:.3} {0.year}")
"""Of a day and the name of its month."""


class Field(NamedTuple):
    label: str
    """As the header of its column has it."""
    kind: str
    """person, site, supplier; date; money, number."""
    phrase: str
    """Of things: what rows with it are (`driven by {v}`). Of dates: what happened then (`made`)."""
    role: str = ""
    """What a person, site or supplier is to a row."""

    @property
    def column(self) -> str:
        return identifier(self.label, "")


class Kind(NamedTuple):
    title: str
    noun: str
    plural: str
    key: str
    """Label of the first column."""
    letter: str
    """Of the numbers of its rows, as in `KVT-T131`."""
    fields: tuple[Field, ...]


KINDS = (
    Kind("Trip log", "trip", "trips", "trip", "T", (
        Field("driver", "person", "driven by {v}", "driver"), Field("destination", "site", "to {v}", "destination"),
        Field("date", "date", "made"), Field("distance in km", "number", "distance in km"))),
    Kind("Purchase orders", "order", "orders", "order no", "O", (
        Field("ordered by", "person", "by {v}", "buyer"), Field("supplier", "supplier", "to {v}", "supplier"),
        Field("ordered on", "date", "placed"), Field("amount", "money", "amount"))),
    Kind("Room bookings", "booking", "bookings", "booking", "B", (
        Field("site", "site", "of rooms at {v}", "site"), Field("booked by", "person", "made by {v}", "organiser"),
        Field("day", "date", "scheduled"), Field("guests", "number", "number of guests"))),
    Kind("Expense claims", "claim", "claims", "claim", "X", (
        Field("employee", "person", "of {v}", "claimant"),
        Field("approved by", "person", "approved by {v}", "approver"),
        Field("submitted", "date", "submitted"), Field("amount claimed", "money", "amount"))),
    Kind("Repair jobs", "repair", "repairs", "job", "R", (
        Field("firm", "supplier", "by {v}", "firm"), Field("place", "site", "at {v}", "place"),
        Field("finished", "date", "finished"), Field("hours", "number", "number of hours"),
        Field("cost", "money", "cost"))),
    Kind("Invoices", "invoice", "invoices", "invoice", "V", (
        Field("from", "supplier", "from {v}", "sender"), Field("checked by", "person", "checked by {v}", "checker"),
        Field("due date", "date", "due"), Field("total", "money", "total"))),
    Kind("Deliveries", "delivery", "deliveries", "delivery", "D", (
        Field("supplier", "supplier", "from {v}", "supplier"), Field("delivered to", "site", "to {v}", "destination"),
        Field("received", "date", "received"), Field("weight in kg", "number", "weight in kg"))),
    Kind("Guided tours", "tour", "tours", "tour", "G", (
        Field("guide", "person", "led by {v}", "guide"), Field("where", "site", "at {v}", "place"),
        Field("tour date", "date", "held"), Field("visitors", "number", "number of visitors"))),
    Kind("Training courses", "course", "courses", "course", "K", (
        Field("trainer", "person", "taught by {v}", "trainer"), Field("venue", "site", "held at {v}", "venue"),
        Field("begins", "date", "begun"), Field("fee", "money", "fee"))),
    Kind("Overtime sheet", "overtime entry", "overtime entries", "entry", "H", (
        Field("employee", "person", "of {v}", "employee"), Field("site", "site", "at {v}", "site"),
        Field("worked on", "date", "made"), Field("minutes", "number", "number of minutes"))),
    Kind("Inspections", "inspection", "inspections", "inspection", "S", (
        Field("inspector", "person", "by {v}", "inspector"), Field("inspected site", "site", "of {v}", "site"),
        Field("inspection date", "date", "made"), Field("points", "number", "number of points"))),
)  # fmt: skip
ASSETS = Kind("Asset register", "item", "items", "asset", "E", (
    Field("site", "site", "kept at {v}", "site"), Field("supplier", "supplier", "supplied by {v}", "supplier"),
    Field("bought", "date", "bought"), Field("price", "money", "price")))  # fmt: skip
"""The register that the papers of every organisation have, as far as queries ask of it."""


class Register(NamedTuple):
    """A register as its questions see it."""

    kind: Kind
    file: str
    rows: tuple[Mapping[str, str], ...]
    """By label; dates, sums and numbers as the questions write them."""
    currency: str

    def full(self, field: Field) -> bool:
        """Whether every row has it."""
        return all(row[field.label] for row in self.rows)


def draw_register(organisation: Organisation) -> tuple[Register, Paper]:
    """The long register of an organisation, and the paper that holds it."""
    stream = RandomStream(organisation.seed, organisation.number, "register")
    kind = stream.pick(KINDS)
    people = iter(stream.shuffled(organisation.of_kind("person")))
    values = {
        field.label: [next(people) for _ in range(5)] if field.kind == "person" else organisation.of_kind(field.kind)
        for field in kind.fields
        if field.role
    }
    day, used, rows = _FROM + timedelta(stream.below(900)), set[int](), list[dict[str, str]]()
    for number in range(stream.between(*ROWS)):
        day += timedelta(stream.between(1, 30))
        row = {kind.key: f"{organisation.code}-{kind.letter}{101 + number}"}
        for field in kind.fields:
            if field.role:
                row[field.label] = stream.pick(values[field.label])
            elif field.kind == "date":
                row[field.label] = day_in_words(day)
            else:
                while (amount := stream.between(12, 980) * (5 if field.kind == "money" else 1)) in used:
                    pass
                used.add(amount)
                row[field.label] = f"{organisation.currency if field.kind == 'money' else ''}{amount:,}"
        rows.append(row)
    if stream.chance(0.3):  # others are in the order of their dates
        rows = stream.shuffled(rows)
    form: Form = stream.pick(("csv", "csv", "md", "html"))
    file = f"{kind.title.lower().replace(' ', stream.pick('_-'))}.{form}"
    text = _rendered(kind, rows, form, organisation.currency, stream)
    paper = Paper(file, kind.noun, form, kind.title, (), text=text)
    return Register(kind, file, tuple(rows), organisation.currency), paper


def asset_register(organisation: Organisation, papers: Sequence[Paper]) -> Register | None:
    """The asset register among the papers of an organisation."""
    paper = next((p for p in papers if p.title == ASSETS.title), None)
    if paper is None:
        return None
    cells = {(f.subject, f.relation): f.value for f in paper.facts}
    labels = [relation.name for relation in of_kind("equipment")]
    rows = [
        {ASSETS.key: name, **{label: cells.get((name, label), "") for label in labels}}
        for name in organisation.of_kind("equipment")
    ]
    return Register(ASSETS, paper.file, tuple(rows), organisation.currency)


def _rendered(kind: Kind, rows: Sequence[Mapping[str, str]], form: Form, currency: str, stream: RandomStream) -> str:
    """The table as a file, with dates and sums in one of the ways in which offices write them."""
    pattern, signs = stream.pick(_DATES), stream.chance(0.6)

    def cell(field: Field, value: str) -> str:
        if field.kind == "date":
            day = as_date(value)
            return pattern.format(day, MONTHS[day.month - 1])
        return value if signs or field.kind != "money" else value.lstrip(currency).replace(",", "")

    header = [
        kind.key,
        *(f"{f.label} ({currency})" if f.kind == "money" and not signs else f.label for f in kind.fields),
    ]
    table = render_table(form, header, [[r[kind.key], *(cell(f, r[f.label]) for f in kind.fields)] for r in rows])
    if form == "csv":
        return table
    return f"# {kind.title}\n\n{table}" if form == "md" else page(kind.title, f"<h1>{kind.title}</h1>\n{table}")
