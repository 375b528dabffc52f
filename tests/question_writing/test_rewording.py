"""Questions put otherwise: what is kept of them, and where it goes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from subquest.cli import main
from subquest.data import questions_from
from subquest.engine.chat_format import CHATML
from subquest.engine.scripted import Context, ScriptedEngine
from subquest.engine.torch.vocabulary import Vocabulary
from subquest.process import run_sync
from subquest.question_writing import checks, prompts
from subquest.question_writing.dataset import write_dataset
from subquest.question_writing.rewording import (
    ADDED_TYPES,
    JOURNAL,
    Rewriter,
    reword_questions,
    with_reworded,
    words_to_avoid,
)
from subquest.question_writing.writing import DIFFERENT, Written, totals, write_questions
from subquest.record import Question, Step
from subquest.retrieval.index import Index
from subquest.train.random_model import tiny_source
from subquest.train.teacher import make_traces

from .rule_writer import DOCUMENTS, QUESTIONS, answers, collection, write

OTHERWISE = {
    "On what day could carts first use the Orvane Bridge?": "Since when do people drive over the Orvane Bridge?",
    "Which goods come from Kestel?": "What does Kestel sell?",
    "Who was the engineer behind the Orvane Bridge?": "Whose idea was the Selvane Bridge?",
    "In which place did Mila Torrun spend her childhood?": "Where did Mila Torrun use to play as a girl?",
}


def spoken(context: Context) -> str:
    system, user = context.messages[0].content, context.messages[-1].content
    if system == prompts.OTHERWISE:
        return OTHERWISE.get(user.partition("\n")[0].removeprefix("Question: "), "I do not know.")
    asked = user.rpartition("Question: ")[2]
    if system == prompts.READ and asked in OTHERWISE.values():
        known = {made: answers()[question] for question, made in OTHERWISE.items()}
        return "the mill" if "as a girl" in asked else known[asked]
    return write(context)


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    with collection(tmp_path) as made:
        yield made


def reworded(index: Index, out: Path) -> list[Written]:
    writer = Rewriter(ScriptedEngine(spoken), index)
    written = run_sync(write_questions(writer, index, out, 100, workers=4))
    run_sync(reword_questions(writer, written, out, workers=4))
    return with_reworded(written, out)


def test_words_to_avoid_are_those_of_the_passage_without_names() -> None:
    bridge = DOCUMENTS[0]
    found = words_to_avoid("On what day could carts first use the Orvane Bridge?", bridge)
    assert found == ["carts"]
    assert checks.shared_words("On what day could carts cross the Orvane Bridge?", bridge) == 0.6  # not: day, cross
    assert checks.shared_words("the of", bridge) == 0.0


def test_what_is_put_otherwise_is_a_question_of_its_own(index: Index, tmp_path: Path) -> None:
    written = reworded(index, tmp_path / "out")
    made = {q.question: q for one in written for q in one.questions if q.type == "reworded"}
    (question,) = made.values()
    assert question.question == "Since when do people drive over the Orvane Bridge?"
    assert question.answers == ("4 May 1871",)
    assert [step.question for step in question.decomposition] == [question.question]
    assert question.supporting_ids == ("bridge",)
    assert question.meta["reworded"] == "On what day could carts first use the Orvane Bridge?"
    _, refused = totals(written)
    assert refused[f"reworded: {checks.LOST}"] >= 1, "another bridge"
    assert refused[f"reworded: {DIFFERENT}"] >= 1, "the mill is no childhood place"
    assert refused[f"reworded: {checks.MALFORMED}"] >= 1


@pytest.mark.parametrize(
    ("later", "whole"),
    [
        (
            "Where did Mila Torrun use to play when little?",
            "Where did the one whose planning made the Orvane Bridge possible use to play when little?",
        ),
        ("Say it.", "In which place did the one whose planning made the Orvane Bridge possible spend her childhood?"),
    ],
)
def test_a_question_of_two_steps_is_put_together_again(index: Index, tmp_path: Path, later: str, whole: str) -> None:
    engineer, childhood = "Who was the engineer behind the Orvane Bridge?", QUESTIONS["Mila Torrun"][0][0]
    made = {engineer: "Whose planning made the Orvane Bridge possible?", childhood: later}

    def spoken(context: Context) -> str:
        system, user = context.messages[0].content, context.messages[-1].content
        asked = user.rpartition("Question: ")[2].partition("\n")[0]
        if system == prompts.OTHERWISE:
            return made.get(asked, "I do not know.")
        if system == prompts.DESCRIBE and user == made[engineer]:
            return "the one whose planning made the Orvane Bridge possible"
        if system == prompts.READ and asked in made.values():
            return "Mila Torrun" if asked == made[engineer] else "Kestel"
        return write(context)

    writer = Rewriter(ScriptedEngine(spoken), index)
    written = run_sync(write_questions(writer, index, tmp_path / "out", 100, workers=4))
    run_sync(reword_questions(writer, written, tmp_path / "out", workers=4))
    found = [
        q for one in with_reworded(written, tmp_path / "out") for q in one.questions if q.type == "reworded-bridge"
    ]
    question = next(q for q in found if q.meta["reworded"].startswith("In which place did the engineer"))
    assert (question.question, question.answers) == (whole, ("Kestel",))
    first, second = question.decomposition
    assert (first.question, first.answer) == (made[engineer], "Mila Torrun")
    assert second.question == (later if "Mila" in later else childhood).replace("Mila Torrun", "#1")
    assert question.supporting_ids == ("bridge", "torrun")
    (longer,) = (q for q in found if q.meta["reworded"] == engineer)
    assert [step.question for step in longer.decomposition] == [made[engineer], childhood.replace("Mila Torrun", "#1")]


def test_somebody_tells_their_situation_and_asks_what_leans_on_it(index: Index, tmp_path: Path) -> None:
    written = reworded(index, tmp_path / "out")
    (told,) = (q for one in written for q in one.questions if q.type == "told")
    assert told.question == "I walked over the Orvane Bridge today. Who was the engineer behind it?"
    original = next(q for one in written for q in one.questions if q.question == told.meta["told"])
    assert (told.decomposition, told.answers) == (original.decomposition, original.answers)
    assert told.supporting_ids == original.supporting_ids
    _, refused = totals(written)
    assert refused[f"told: {checks.ALONE}"] == 1, "the last sentence names the bridge and the carts"
    assert refused[f"told: {checks.LEAK}"] >= 1, "Pavel Orn governs it"
    assert refused[f"told: {checks.ADDED}"] >= 1, "nobody spoke of Selma Quist"
    assert refused[f"told: {checks.MALFORMED}"] >= 1, "no situation"


@pytest.mark.parametrize("meant", ["", "In which place did the engineer spend her childhood?"])
def test_a_question_of_two_steps_is_told_too(index: Index, tmp_path: Path, meant: str) -> None:
    whole = "In which place did the engineer behind the Orvane Bridge spend her childhood?"
    text = "We went over the Orvane Bridge by bus. In which place did the engineer behind it spend her childhood?"

    def telling(context: Context) -> str:
        system, asked = context.messages[0].content, context.messages[-1].content
        if system == prompts.UNTELL and meant:
            return meant
        return text if system == prompts.TELL and asked == whole else spoken(context)

    writer = Rewriter(ScriptedEngine(telling), index)
    written = run_sync(write_questions(writer, index, tmp_path / "out", 100, workers=4))
    run_sync(reword_questions(writer, written, tmp_path / "out", workers=4))
    found = [q for one in with_reworded(written, tmp_path / "out") for q in one.questions if q.type == "told-bridge"]
    if meant:
        assert not found, "the model reads another question in it"
        return
    (told,) = found
    assert (told.question, told.answers) == (text, ("Kestel",))
    assert [step.answer for step in told.decomposition] == ["Mila Torrun", "Kestel"]


def test_two_things_are_asked_for_at_once(index: Index, tmp_path: Path) -> None:
    written = reworded(index, tmp_path / "out")
    made = [q for one in written for q in one.questions if q.type == "double"]
    one_passage, on_the_way = sorted(made, key=lambda q: len(q.supporting_titles))
    assert (
        one_passage.question == "On what day could carts first use the Orvane Bridge, and what was the sum paid for it?"
    )
    assert one_passage.answers == ("4 May 1871, 31,000 crowns", "4 May 1871 and 31,000 crowns")
    assert [step.answer for step in one_passage.decomposition] == ["4 May 1871", "31,000 crowns"]
    assert on_the_way.question.endswith("and in which place did she spend her childhood?")
    assert on_the_way.answers[0] == "Mila Torrun, Kestel"
    assert on_the_way.decomposition[1].question == "In which place did #1 spend her childhood?"
    assert on_the_way.supporting_ids == ("bridge", "torrun")


@pytest.mark.parametrize("system", ["coda", "search-r1", "autorefine", "decor", "apex", "rag"])
def test_what_was_added_gives_gold_traces(system: str, index: Index, tmp_path: Path) -> None:
    write_dataset(reworded(index, tmp_path), index, tmp_path, 100, 0.0)
    asked = [q for q in questions_from(str(tmp_path / "train")) if q.type in ("told", "double")]
    source = tiny_source()
    vocabulary = Vocabulary(source.tokenizer, source.architecture.vocabulary)
    made = run_sync(make_traces(system, asked, index, vocabulary, CHATML, prompts="full", document_tokens=4000))
    assert len(made.episodes) == len(asked) == 3, made.rejected
    if system == "coda":
        planners = {e.question.question: e.by_role("planner")[0].written_turns for e in made.episodes}
        first, *_, last = next(turns for question, turns in planners.items() if "childhood" in question)
        assert "2. In which place did #1 spend her childhood?" in first
        assert "engineer behind the Orvane Bridge? Mila Torrun; In which place" in last
        told, _ = next(turns for question, turns in planners.items() if question.startswith("I walked"))
        assert "<task>I walked over the Orvane Bridge today. Who was" in told, "nothing of the situation is lost"


DOUBLED = {
    "Who drew up the Orvane Bridge, and when was it opened?": "",
    "Who drew up the Orvane Bridge?": checks.ONE_THING,
    "Who drew it up, and when was the Orvane ferry opened?": checks.LOST,
    "Who drew up the Orvane Bridge, and was it opened on 4 May 1871?": checks.LEAK,
    "Who drew up the Orvane Bridge, and when was the Selvane Bridge opened?": checks.ADDED,
    "Who drew up the Orvane Bridge? When was it opened?": checks.MALFORMED,
}


@pytest.mark.parametrize(("made", "flaw"), DOUBLED.items())
def test_a_question_for_two_things_asks_for_both(made: str, flaw: str) -> None:
    first = Question("1", "Who drew up the Orvane Bridge?", ("Mila Torrun",))
    second = Question("2", "When was the Orvane Bridge opened?", ("4 May 1871",))
    assert checks.double_flaw(made, first, second, "") == flaw


@pytest.mark.parametrize(
    ("first", "second", "left"),
    [
        ("Who drew up the bridge?", "Where did Mila Torrun grow up?", "Where did that person grow up?"),
        ("Which firm drew it up?", "What is Mila Torrun's address?", "What is that firm's address?"),
        ("In what town is the bridge?", "Who governs the Mila Torrun today?", "Who governs that town today?"),
        ("Where is the bridge?", "How big is Mila Torrun?", "How big is that place?"),
        ("What is the bridge called?", "How big is Mila Torrun?", "How big is that one?"),
    ],
)
def test_the_second_question_points_back_to_the_answer_of_the_first(first: str, second: str, left: str) -> None:
    assert checks.pointing_back(second, "Mila Torrun", first) == left
    assert checks.pointing_back(second, "", first) == second


def test_one_answer_or_one_question_word_is_one_thing() -> None:
    first = Question("1", "Who drew up the Orvane Bridge?", ("Mila Torrun",))
    second = Question("2", "Who paid for the Orvane Bridge?", ("Kestel Council",))
    assert checks.double_flaw("Who drew up and paid for the Orvane Bridge?", first, second, "") == checks.ONE_THING
    both = "Who drew up the Orvane Bridge, and who paid for it?"
    assert not checks.double_flaw(both, first, second, "")
    same = Question("2", "Who paid for the Orvane Bridge?", ("Mila Torrun",))
    assert checks.double_flaw(both, first, same, "") == checks.ONE_THING


LIFTS = "Who is responsible for the maintenance of the lifts at Pell Hall?"
SITUATIONS = {
    "I am at Pell Hall. One of the lifts is stuck again. Who is responsible for their maintenance?": "",
    "The lifts at Pell Hall are stuck, and I've called twice. Whom do I ask, who is responsible for maintenance?": "",
    "The lifts at Pell Hall are stuck, says Ada Quill. Who is responsible for their maintenance?": checks.ADDED,
    "Mr. Pell is here. Who is responsible for the lifts?": checks.LOST,
    "So who is responsible for the maintenance of the lifts at St. Pell Hall?": checks.MALFORMED,
}


@pytest.mark.parametrize(("made", "flaw"), SITUATIONS.items())
def test_a_situation_may_take_several_sentences(made: str, flaw: str) -> None:
    step = Step(LIFTS, "Orrin Holm", "Pell Hall")
    assert checks.told_flaw(made, Question("1", LIFTS, ("Orrin Holm",), decomposition=(step,))) == flaw


def test_a_question_for_two_things_does_not_have_the_name_between_them() -> None:
    first = Question("1", "Who drew up the Orvane Bridge?", ("Mila Torrun",))
    second = Question("2", "Where did Mila Torrun grow up?", ("Kestel",))
    assert not checks.double_flaw(
        "Who drew up the Orvane Bridge, and where did she grow up?", first, second, "Mila Torrun"
    )
    told = "Who drew up the Orvane Bridge, and where did Mila Torrun grow up?"
    assert checks.double_flaw(told, first, second, "Mila Torrun") == checks.LEAK


def test_it_comes_besides_the_count_and_into_the_split_of_its_passage(index: Index, tmp_path: Path) -> None:
    written = reworded(index, tmp_path / "out")
    made = write_dataset(written, index, tmp_path / "out", 100, 0.0).questions["train"]
    added = [q.type for q in made if q.type in ADDED_TYPES]
    assert sorted(added) == ["double", "double", "reworded", "told"]
    own = len(made) - 4
    assert len(write_dataset(written, index, tmp_path / "out", own, 0.0).questions["train"]) == own + 4
    halves = write_dataset(written, index, tmp_path / "halves", own, 0.5).questions
    for questions in halves.values():
        for question in questions:
            if question.type in ADDED_TYPES:
                assert question.meta[question.type] in {q.question for q in questions}


def test_a_stopped_rewording_goes_on(index: Index, tmp_path: Path) -> None:
    out = tmp_path / "out"
    whole = reworded(index, out)
    lines = (out / JOURNAL).read_text().splitlines(keepends=True)
    (out / JOURNAL).write_text("".join(lines[:2]) + lines[2][:20])
    assert reworded(index, out) == whole
    assert len((out / JOURNAL).read_text().splitlines()) == len(lines)


def test_the_command_needs_a_model_and_counts_what_it_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "docs.jsonl"
    source.write_text("".join(json.dumps({"id": d.id, "title": d.title, "text": d.text}) + "\n" for d in DOCUMENTS))
    command = ["data", "questions", str(source), "--out", str(tmp_path / "out"), "--reword", "--json"]
    assert main(command) == 2
    assert "--reword needs a --model" in capsys.readouterr().err
    monkeypatch.setattr("subquest.cli.data_questions.open_writer", lambda args: ScriptedEngine(spoken))
    assert main([*command, "--model", "scripted"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["kept"]["reworded"] == 1
    lines = (tmp_path / "out/train/questions.jsonl").read_text().splitlines()
    assert {"reworded", "told"} <= {json.loads(line)["type"] for line in lines}
