"""Organisations written by a model: what is kept, what is refused, and how a stopped run continues."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest

from subquest.data.journal import read_journal
from subquest.data.self_instruct import holds
from subquest.engine.scripted import Context
from subquest.errors import UsageError
from subquest.paperwork import fact_check
from subquest.paperwork.writing import JOURNAL, Written, parse_vocabulary, totals, write_organisations

from .rule_writer import VOCABULARY, rule_writer, statement_sentences, write_paper


def write(out: Path, count: int = 1, **options: object) -> list[Written]:
    change = options.pop("change", None)
    return asyncio.run(write_organisations(rule_writer(change), out, count, **options))  # type: ignore[arg-type]


def test_every_fact_of_a_kept_paper_stands_in_its_text(tmp_path: Path) -> None:
    (one,) = write(tmp_path)
    assert len(one.papers) > 20
    for paper in one.papers:
        text = fact_check.plain(paper.text)
        assert all(holds(text, fact.value) for fact in paper.facts), paper.file
        assert not any(fact.held_back for fact in paper.facts)
    types = {q.type for q in one.questions}
    assert {"single", "bridge", "comparison", "sum", "difference", "list", "count", "unanswerable"} <= types
    # the rules follow no chain and compare nothing, so such questions keep their plain wording: it was not understood
    hard = ("bridge", "comparison", "bridge-comparison")
    assert all(bool(q.plain) == (q.type not in hard) for q in one.questions)


def test_a_paper_that_loses_a_fact_is_left_out_and_nothing_is_asked_about_it(tmp_path: Path) -> None:
    def forget(context: Context, reply: str) -> str:
        user = context.messages[-1].content
        if "Write " not in user or not (told := statement_sentences(user)) or "policy" in user:
            return reply
        return reply.replace(told[0], "Something happened.")

    (one,) = write(tmp_path, change=forget)
    _, refused = totals([one])
    assert sum(n for reason, n in refused.items() if fact_check.LOST in reason) >= 10
    stated = {(f.subject, f.relation) for paper in one.papers for f in paper.facts}
    assert all(key in stated for q in one.questions for keys in q.needs for key in keys)


@pytest.mark.parametrize(
    "added", ["It took 14 people.", "The next one is in October.", "We thank our friend Alice Johnson.", "[Your Name]"]
)
def test_sentences_that_add_something_do_not_reach_a_paper(tmp_path: Path, added: str) -> None:
    def add(context: Context, reply: str) -> str:
        return f"{reply}\n\n{added}" if "It states each of these facts" in context.messages[-1].content else reply

    (one,) = write(tmp_path, change=add)
    assert len(one.papers) > 15
    assert not any(added in paper.text for paper in one.papers)


def test_a_refused_paper_is_written_again_with_advice(tmp_path: Path) -> None:
    """The first attempt forgets every first fact; the second is told which."""

    def forget_once(context: Context, reply: str) -> str:
        user = context.messages[-1].content
        told = statement_sentences(user)
        if told and len(context.messages) == 2 and "It states each of these facts" in user:
            return reply.replace(told[0], "Something happened.")
        if "Write the whole paper again." in user:
            assert context.messages[2].role == "assistant"
            return write_paper(context.messages[1].content)
        return reply

    (one,) = write(tmp_path, change=forget_once)
    assert sum(fact_check.LOST in reason for reason in one.refused) > 5
    assert len(one.papers) > 20


def test_a_paper_that_swaps_two_subjects_is_noticed_by_the_reader(tmp_path: Path) -> None:
    def swap(context: Context, reply: str) -> str:
        user = context.messages[-1].content
        told = [s for s in statement_sentences(user) if " reports to " in s]
        if len(told) < 2:
            return reply
        (a, x), (b, y) = (t.rstrip(".").split(" reports to ") for t in told[:2])
        block = f"{a} reports to {y}. {b} reports to {x}."
        rest = [s for s in statement_sentences(user) if s not in told[:2]]
        return "\n\n".join([block, *rest, *reply.split("\n\n")[len(rest) + 2 :]])

    (one,) = write(tmp_path, change=swap)
    assert any(fact_check.DIFFERENT in reason for reason in one.refused)
    assert not any("news/" in paper.file for paper in one.papers if re.search("reports to", paper.text))


def test_a_wording_that_loses_its_name_or_holds_the_answer_is_not_used(tmp_path: Path) -> None:
    def spoil(context: Context, reply: str) -> str:
        return "Who is it?" if reply.startswith("Could you tell me") else reply

    (one,) = write(tmp_path, change=spoil)
    assert all(not q.plain for q in one.questions)
    assert any("a name was lost" in reason for reason in one.refused)


def test_names_are_not_shared_between_organisations(tmp_path: Path) -> None:
    made = write(tmp_path, 3)
    kinds = ("person", "outsider", "site", "supplier", "contract", "equipment", "incident", "project")
    names = [t.name for one in made for t in one.organisation.things if t.kind in kinds]
    assert len(set(names)) == len(names)


def test_a_stopped_run_continues_where_it_was(tmp_path: Path) -> None:
    first = write(tmp_path, 2)
    journal = tmp_path / JOURNAL
    journal.write_bytes(journal.read_bytes() + b'{"organisation": {"number"')  # killed while writing
    asked: list[str] = []

    def count(context: Context, reply: str) -> str:
        asked.append(reply)
        return reply

    both = write(tmp_path, 2, change=count)
    assert both == first
    assert not asked
    assert len(write(tmp_path, 3)) == 3
    assert [w.organisation.number for w in read_journal(journal, Written)] == [0, 1, 2]
    with pytest.raises(UsageError, match="another seed"):
        write(tmp_path, 3, seed=7)


def test_time_that_is_up_leaves_what_is_finished(tmp_path: Path) -> None:
    assert write(tmp_path, 50, seconds=1e-6, concurrency=1) == []
    assert json.loads(json.dumps([])) == list(read_journal(tmp_path / JOURNAL, Written))


def test_a_vocabulary_takes_what_can_be_used() -> None:
    made = parse_vocabulary(VOCABULARY + "\nnoise")
    assert made.teams == ("Deck Crew", "Ticketing", "Quay Services", "Timetables", "Payroll")
    poor = parse_vocabulary("teams: A1, B2\njobs: only one\nequipment: pump, water pump, saw, axe, rope")
    assert "pump" not in poor.equipment
    assert poor.teams == parse_vocabulary("").teams
