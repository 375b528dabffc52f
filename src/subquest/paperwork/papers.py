"""Which paper of an organisation states which facts, and what a model is asked to write.

Tables are written by code, since every cell is a fact; a model writes what stands above them. All other papers are the
model's: it is told the facts and the kind of paper.
"""

from __future__ import annotations

import csv
import html
import io
import re
from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec.structs import replace

from ..codec import Record
from ..worlds.random_stream import RandomStream
from .fact_check import key_of
from .organisation import Fact, Organisation
from .relations import of_kind

Form = Literal["md", "html", "txt", "csv", "mail"]

SYSTEM = "You write the papers of an organisation. You write the paper that is asked for and nothing else."
_GENRES: dict[str, tuple[str, ...]] = {
    "contract": ("a summary of a contract for the intranet", "a mail about a contract", "a note for the contract file"),
    "incident": ("an incident report", "a short report to the safety committee"),
    "case": ("a mail that closes an incident", "a page of the incident log"),
    "project": ("the minutes of a meeting", "a project brief", "a mail to the project board"),
    "policy": ("a policy", "a policy with numbered rules"),
    "site": ("a page of the web site", "an article of the staff newsletter", "a leaflet for visitors"),
    "team": ("a memo on the teams", "a page of the staff handbook"),
    "people": ("a note of the personnel office", "an article of the staff newsletter", "a mail to all staff"),
}
_TONES = ("plain", "formal", "friendly", "dry", "lively", "brief")
_FORMS: dict[Form, str] = {
    "md": "Write Markdown with a title and short sections.",
    "html": "Write HTML: an h1, then p and ul elements. No styles, no scripts.",
    "txt": "Write plain text with a title in the first line.",
    "mail": "Write only the paragraphs of the mail, without greeting, subject and signature.",
}
_GREETING = re.compile(r"\A(?:(?:Subject|From|To|Date):.*\n+|(?:Dear|Hi|Hello)\b.*\n+)+", re.IGNORECASE)
_SIGNATURE = re.compile(
    r"\n\W*(?:Yours?|Sincerely|Best|Kind|Warm|Regards|Cheers)\b[^\n.]{0,14}(?:\n[\s\S]*)?\Z", re.IGNORECASE
)
"""From the closing phrase of a mail to its end."""


class Paper(Record):
    file: str
    kind: str
    form: Form
    title: str
    facts: tuple[Fact, ...]
    topic: str = ""
    """What the whole paper is about; empty where it is about several things."""
    extra: tuple[str, ...] = ()
    """Statements that belong into it and that nothing is asked about."""
    head: str = ""
    """Lines above a mail."""
    names: tuple[str, ...] = ()
    """Further names that may stand in it."""
    text: str = ""


def plan_papers(organisation: Organisation) -> list[Paper]:
    """The papers of an organisation, tables complete, others without their text."""
    return [*_tables(organisation), *_prose(organisation)]


def _shown(organisation: Organisation, kind: str, names: Sequence[str] | None = None) -> list[Fact]:
    return [
        f for f in organisation.facts if f.kind == kind and not f.held_back and (names is None or f.relation in names)
    ]


def _tables(organisation: Organisation) -> Iterator[Paper]:
    stream = RandomStream(organisation.seed, organisation.number, "tables")
    for kind, title, first, columns in (
        ("person", "Staff directory", "name", ("job title", "team", "site", "extension")),
        ("equipment", "Asset register", "asset", tuple(r.name for r in of_kind("equipment"))),
        ("supplier", "Supplier list", "supplier", tuple(r.name for r in of_kind("supplier"))),
    ):
        form: Form = stream.pick(("csv", "md", "html"))
        facts = _shown(organisation, kind, columns)
        cells = {(f.subject, f.relation): f.value for f in facts}
        rows = [(name, *(cells.get((name, c), "") for c in columns)) for name in organisation.of_kind(kind)]
        file = f"{title.lower().replace(' ', stream.pick('_-'))}.{form}"
        yield Paper(file, kind, form, title, tuple(facts), text=render_table(form, (first, *columns), rows))


def render_table(form: Form, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if form == "csv":
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows([header, *rows])
        return out.getvalue()
    if form == "md":
        lines = [header, ["---"] * len(header), *rows]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
    body = "".join(f"<tr>{''.join(f'<td>{html.escape(c)}</td>' for c in row)}</tr>\n" for row in rows)
    head = "".join(f"<th>{html.escape(c)}</th>" for c in header)
    return f"<table>\n<tr>{head}</tr>\n{body}</table>\n"


def _prose(organisation: Organisation) -> Iterator[Paper]:
    stream = RandomStream(organisation.seed, organisation.number, "papers")

    def paper(kind: str, file: str, title: str, facts: Sequence[Fact], topic: str = "", *extra: str) -> Paper:
        genre = stream.pick(_GENRES[kind])
        form: Form = "mail" if "mail" in genre else stream.pick(("md", "md", "txt", "html"))
        head, names = "", tuple[str, ...]()
        if form == "mail":
            used = {f.value for f in facts} | {f.subject for f in facts}
            one, two = stream.sample([n for n in organisation.of_kind("person") if n not in used], 2)
            head, names = f"From: {one}\nTo: {two}\nSubject: {title}\n\nDear {two.split()[0]},\n\n", (one, two)
        suffix = "txt" if form == "mail" else form
        return Paper(f"{file}.{suffix}", genre, form, title, tuple(facts), topic, extra, head, names)

    for contract in organisation.of_kind("contract"):
        facts = [f for f in _shown(organisation, "contract") if f.subject == contract]
        about = f"The contract {contract} is about {organisation.topics[contract]}."
        yield paper("contract", f"contracts/{contract}", f"Contract {contract}", facts, contract, about)
    later = ("cost", "closed")
    for incident in organisation.of_kind("incident"):
        facts = [f for f in _shown(organisation, "incident") if f.subject == incident]
        yield paper(
            "incident", f"incidents/{incident}", f"Incident {incident}",
            [f for f in facts if f.relation not in later], incident,
        )  # fmt: skip
        if after := [f for f in facts if f.relation in later]:
            yield paper("case", f"incidents/{incident}_closing", f"Closing of case {incident}", after, incident)
    for project in organisation.of_kind("project"):
        facts = [f for f in _shown(organisation, "project") if f.subject == project]
        yield paper("project", f"projects/{project.lower().replace(' ', '_')}", project, facts, project)
    for policy in organisation.of_kind("policy"):
        version, _, name = policy.partition(" of ")
        facts = [f for f in _shown(organisation, "policy") if f.subject == policy]
        replaces = version == "version 2"
        superseded = not replaces and f"version 2 of {name}" in organisation.of_kind("policy")
        extra = [f"It is about {organisation.topics.get(name, 'work')}."]
        extra += [f"It replaces version 1 of {name}."] if replaces else []
        file = f"policies/{'archive/' if superseded else ''}{name.removeprefix('policy ')}_v{version[-1]}"
        made = paper("policy", file, policy[0].upper() + policy[1:], facts, policy, *extra)
        yield replace(made, names=(*made.names, f"version 1 of {name}", name, version, "version 1", key_of(policy)))
    for site in organisation.of_kind("site"):
        facts = [f for f in _shown(organisation, "site") if f.subject == site]
        yield paper("site", f"sites/{site.lower().replace(' ', '_')}", site, facts, site)
    yield paper("team", "teams", "Our teams", _shown(organisation, "team"))
    people = _shown(organisation, "person", ("line manager", "joined"))
    named = organisation.of_kind("person")
    for n, some in enumerate((named[:2], named[2:4], named[4:6], named[6:8]), 1):
        yield paper("people", f"news/staff_{n}", "Staff news", [f for f in people if f.subject in some])


def prompt(organisation: Organisation, paper: Paper, tone: str) -> str:
    """What the model is asked to write."""
    facts = "\n".join(f"- {line}" for line in (*(f.statement for f in paper.facts), *paper.extra))
    return (
        f"{organisation.name} is {organisation.sector}. Write {paper.kind}, {paper.title}, in a {tone} tone.\n"
        "It states each of these facts once, in sentences of your own, with names, numbers and dates exactly as they "
        f"stand here:\n{facts}\n"
        "Add a few sentences that fit such a paper, but no other names, numbers, dates, times, sums, places or jobs. "
        f"No placeholders in brackets. {_FORMS[paper.form]} Write 60 to 120 words, then stop."
    )


def tone(stream: RandomStream) -> str:
    return stream.pick(_TONES)


def finished(paper: Paper, written: str) -> str:
    """The text of the file: the model's, with the head of a mail or the title where it has none."""
    text = unfenced(written).strip() + "\n"
    if paper.form == "mail":
        body = _GREETING.sub("", _SIGNATURE.sub("", text)).strip()
        return f"{paper.head}{body}\n\n{paper.names[0].split()[0]}\n"
    if paper.form == "md":
        return text if text.startswith("#") else f"# {paper.title}\n\n{text}"
    if paper.form == "html":
        inner = text if "<h1" in text else f"<h1>{html.escape(paper.title)}</h1>\n{text}"
        return inner if "<html" in inner else page(paper.title, inner)
    return text


def page(title: str, body: str) -> str:
    """An HTML page."""
    head = f"<head><title>{html.escape(title)}</title></head>"
    return f"<!DOCTYPE html>\n<html>{head}\n<body>\n{body}</body></html>\n"


def unfenced(text: str) -> str:
    """A reply without the fence of code that models put around it."""
    lines = text.strip().split("\n")
    if lines and lines[0].startswith("```"):
        lines = lines[1:]
        if "```" in (line.strip() for line in lines):
            lines = lines[: [line.strip() for line in lines].index("```")]
    return "\n".join(lines)
