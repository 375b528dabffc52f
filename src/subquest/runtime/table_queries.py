"""SQL over the whole tables of an index, as a tool of the roles that search it.

A role is told about it only if the index holds tables and its model reads the full prompts: adapters of small models
were trained without it. CoDA's executors are told with the documents that they find, tool systems in their prompts.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING

from ..engine import Message
from ..engine.actions import Action
from ..english import day_in_words
from ..errors import DataError
from ..protocol import fence
from ..record import Document, Hit, Usage
from ..retrieval.tables import compute
from .dates import DATE
from .normalization import CALENDAR
from .prompts import Prompts

if TYPE_CHECKING:
    from ..retrieval.search import Search
    from ..retrieval.tables import Result, Table, Tables
    from .context import Context

SQL = Action(
    "sql", "Run one SQL query (SELECT) over all rows of the tables; its rows come back.", "query", "SQL for SQLite"
)
_NUMBER = re.compile(r"(?<![\w-])\d[\d,.]*")
"""No code such as `KVT-C17`."""
_NAME = re.compile(r"(?<!\w)[A-Z]\w[\w-]*")
_ISO_DATE = re.compile(r"\b\d{4}-\d\d-\d\d\b")
_BESIDE = 2
"""How many tables are described beside documents."""
_ONE_LINE = 500
"""Characters of a query and its result that are one quote."""
_TABLES = 12
_CHARACTERS = 4000
"""How many tables are described in a prompt, and in how many characters; the others can be listed by a query."""


def only_computes(task: str) -> bool:
    """Whether a task gives two or more numbers or dates and names nothing that would have to be looked up."""
    rest, dates = DATE.subn(" ", task)
    rest, numbers = _NUMBER.subn(" ", rest)
    names = [word for word in _NAME.findall(rest[1:]) if word.casefold() not in CALENDAR]
    return dates + numbers > 1 and not names


def tables_of(search: Search | None) -> Tables | None:
    """The tables of a search; None if it has none."""
    found: Tables | None = getattr(search, "tables", None)
    return found or None


def not_a_file(said: str, search: Search | None) -> str:
    """What somebody is told who took tables of the index for files: `said` is about a file that does not exist."""
    tables = tables_of(search)
    names = set(re.findall(r"\w+", said.casefold())) if tables is not None else set()
    found = [table.name for table in tables.all() if table.name.casefold() in names] if tables is not None else []
    return f"; {found[0]} is a table of the index, which is read by an SQL query and not as a file" if found else ""


def with_tables(
    messages: Sequence[Message], prompts: Prompts, role: str, search: Search | None, task: str
) -> list[Message]:
    """The messages of a role with tools, with the tables that it can query; unchanged if there are none for it."""
    tables = tables_of(search) if prompts.set_of(role) == "full" else None
    if tables is None:
        return list(messages)
    text = prompts.text("tables_tool", tables=_listed(tables, task))
    return [replace(messages[0], content=f"{messages[0].content}\n\n{text}"), *messages[1:]]


def told_with(hits: Sequence[Hit], prompts: Prompts, role: str, search: Search | None) -> str:
    """What a role is told beside documents that are rows of larger tables: how to query all rows, and the tables. Empty
    if there are none for it.

    So a prompt does not grow with the tables of an index, and a role hears of them where they matter.
    """
    rows = [hit.document for hit in hits if "; " in hit.document.text]
    tables: Tables | None = getattr(search, "tables", None) if rows and prompts.set_of(role) == "full" else None
    found = tables.behind(rows) if tables is not None else []
    return prompts.text("tables", tables=fence(described(found[:_BESIDE], len(found)))) if found else ""


def _listed(tables: Tables, task: str) -> str:
    """The tables that a prompt has room for, those that the task is about if it has not room for all.

    They stand in one order whatever the task, so that the beginning of a role's prompt stays the same and is read once.
    """
    every = tables.all()
    if len(_lines(every)) == len(every):
        return described(every)
    about = tables.about(task)
    first = about[: len(_lines(about))]
    return described([table for table in every if table in first], len(every))


def described(tables: Sequence[Table], total: int = 0) -> str:
    """The first tables, one a line; `total` is how many the index has, if more than these."""
    lines = _lines(tables)
    if more := max(total, len(tables)) - len(lines):
        lines.append(f"{more} more are listed by: SELECT * FROM tables")
    return "\n".join(lines)


def _lines(tables: Sequence[Table]) -> list[str]:
    """The first tables, as many as a prompt describes."""
    lines: list[str] = []
    for table in tables[:_TABLES]:
        line = table.described
        if lines and sum(map(len, lines)) + len(line) > _CHARACTERS:
            break
        lines.append(line if len(line) <= _CHARACTERS else _names_alone(table))
    return lines


def _names_alone(table: Table) -> str:
    """A table with many columns: their names and types, as many as a prompt has room for."""
    line = table._replace(columns=tuple(column._replace(samples=()) for column in table.columns)).described
    if len(line) <= _CHARACTERS:
        return line
    kept = line[:_CHARACTERS].rpartition(", ")[0]
    return f"{kept} and {line.count(', ', len(kept))} more, listed by: SELECT * FROM {table.name} LIMIT 1"


async def query(context: Context, search: Search | None, sql: str) -> str:
    """What a query of a role gives, as text; what it read counts as a document of the tables' file."""
    context.usage += Usage(tool_calls=1)
    emit = functools.partial(context.run.events.emit, "code", context.id)
    tables = tables_of(search)
    try:
        result = await asyncio.to_thread(tables.query if tables is not None else compute, sql)
    except DataError as error:
        emit(source=sql, output="", error=str(error))
        return f"The query failed: {error}"
    emit(source=result.sql, output=result.text, error="")
    for document in _documents(result):
        context.run.note(document, document.id)
        context.read([Hit(document, 1.0)])
    return f"{result.text} {result.missing}" if result.missing else result.text


def _in_words(found: re.Match[str]) -> str:
    """A date with its month in words after it, as answers have it."""
    try:
        day = date.fromisoformat(found[0])
    except ValueError:
        return found[0]
    return f"{found[0]} ({day_in_words(day)})"


def _documents(result: Result) -> list[Document]:
    """The result as a document of each file that it comes from; a short one is one line, quoted with its query."""
    asked = " ".join(result.sql.split())
    given = _ISO_DATE.sub(_in_words, result.text)
    text = f"{asked} gives {given.replace(chr(10), ' | ')}"
    if len(text) > _ONE_LINE:
        text = f"{asked}\n{given}"
    key = hashlib.sha256(asked.encode()).hexdigest()[:8]  # several queries read one table
    return [
        Document(f"{table.place['file']}#{table.name}-{key}", table.name, text, {**table.place, "tool": SQL.name})
        for table in result.tables
    ]
