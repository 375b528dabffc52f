"""Questions about registers: the answers that code works out, compared with what SQLite says about the same rows."""

from __future__ import annotations

import re
import sqlite3
from collections import Counter

import pytest

from subquest.paperwork.organisation import Organisation, Vocabulary, draw
from subquest.paperwork.papers import plan_papers
from subquest.paperwork.questions import Asked, Drafter, Facts
from subquest.paperwork.registers import KINDS, Register, as_date, asset_register, draw_register
from subquest.paperwork.table_questions import COUNTS, TableDrafter
from subquest.readers.columns import same_value
from subquest.retrieval.sql_names import identifier
from subquest.worlds.random_stream import RandomStream

Drawn = list[tuple[Register, list[Asked]]]


def drafted(organisation: Organisation, register: Register) -> list[Asked]:
    facts = Facts(organisation, [fact for paper in plan_papers(organisation) for fact in paper.facts])
    stream = RandomStream(organisation.seed, organisation.number)
    return list(TableDrafter(register, Drafter(facts, stream), stream).questions(COUNTS))


@pytest.fixture(scope="module")
def drawn() -> Drawn:
    made: Drawn = []
    for number in range(24):
        organisation = draw(5, number, Vocabulary())
        registers = (draw_register(organisation)[0], asset_register(organisation, plan_papers(organisation)))
        made += [(register, drafted(organisation, register)) for register in registers if register]
    return made


def database(register: Register) -> sqlite3.Connection:
    labels = list(register.rows[0])
    kinds = {field.label: field.kind for field in register.kind.fields}

    def plain(label: str, cell: str) -> str | int | None:
        if kinds.get(label) == "date" and cell:
            return as_date(cell).isoformat()
        return int(re.sub(r"\D", "", cell)) if kinds.get(label) in ("money", "number") and cell else cell or None

    db = sqlite3.connect(":memory:")
    db.execute(f"CREATE TABLE register ({', '.join(identifier(label, '') for label in labels)})")
    rows = [[plain(label, row[label]) for label in labels] for row in register.rows]
    db.executemany(f"INSERT INTO register VALUES ({', '.join('?' * len(labels))})", rows)
    return db


def test_a_query_gives_the_answer_of_its_step(drawn: Drawn) -> None:
    kinds: Counter[str] = Counter()
    for register, questions in drawn:
        db = database(register)
        for asked in questions:
            for number, query in asked.queries.items():
                found = [str(row[0]) for row in db.execute(query.sql.format(table="register"))]
                wanted = asked.items.get(number, (asked.steps[int(number) - 1].answer,))
                assert len(found) == len(wanted), asked
                assert all(map(same_value, found, wanted)), (asked, found)
                kinds[asked.type] += 1
    assert min(kinds[kind] for kind in (*(k for k in COUNTS if "step" not in k and k != "row"), "bridge")) > 10, kinds


def test_one_row_needs_no_query(drawn: Drawn) -> None:
    rows = [(register, asked) for register, questions in drawn for asked in questions if asked.type == "row"]
    assert len(rows) > 30
    for register, asked in rows:
        file, key = asked.rows["1"]
        (row,) = [row for row in register.rows if key in row.values()]
        assert file == register.file
        assert asked.answers[0] in row.values()
        assert not asked.queries


def test_wordings_are_complete_and_say_whose_rows_are_meant(drawn: Drawn) -> None:
    for _, questions in drawn:
        assert len({asked.text for asked in questions}) == len(questions)
        for asked in questions:
            assert not re.search(r"[{}#]|  | \?", asked.text), asked.text
            assert all(name in asked.text or name.startswith("version ") for name in asked.names)
            assert not any(step.answer in asked.text for step in asked.steps if len(step.answer) > 3), asked


def test_registers_differ_and_no_measure_occurs_twice() -> None:
    made = [draw_register(draw(5, number, Vocabulary())) for number in range(40)]
    assert {register.kind.title for register, _ in made} == {kind.title for kind in KINDS}
    assert {paper.form for _, paper in made} == {"csv", "md", "html"}
    for register, _ in made:
        for field in register.kind.fields:
            values = [row[field.label] for row in register.rows]
            assert all(values)
            assert field.role or len(set(values)) == len(values)
