"""Written questions as data for evaluation and training."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from subquest.cli import main
from subquest.data import questions_from
from subquest.engine.chat_format import CHATML
from subquest.engine.torch.vocabulary import Vocabulary
from subquest.process import run_sync
from subquest.question_writing import dataset
from subquest.question_writing.dataset import write_dataset
from subquest.question_writing.writing import Writer, Written, write_questions
from subquest.record import Question
from subquest.retrieval.corpus import read
from subquest.retrieval.index import Index
from subquest.train.data import load_material
from subquest.train.random_model import tiny_source
from subquest.train.recipe import DataPart
from subquest.train.teacher import make_traces

from .rule_writer import DOCUMENTS, collection, rule_writer


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[list[Written], Index, Path]]:
    out = tmp_path_factory.mktemp("questions")
    with collection(out) as index:
        yield run_sync(write_questions(Writer(rule_writer(), index, seed=3), index, out, 100, workers=1)), index, out


def test_each_step_is_supported_by_a_passage_that_states_its_answer(made: tuple[list[Written], Index, Path]) -> None:
    written, index, out = made
    found = write_dataset(written, index, out, 100, 0.0)
    assert found.passages == {"train": len(DOCUMENTS)}
    passages = {d.id: d for d in read([str(out / "train" / "corpus.jsonl")])}
    questions = questions_from(str(out / "train"))
    assert {q.type for q in questions} == {"single", "list", "yes-no", "bridge"}
    for question in questions:
        assert question.split == "train"
        for step, id in zip(question.decomposition, question.supporting_ids, strict=True):
            assert passages[id].title == step.support
            assert all(part in passages[id].text for part in step.answer.split(", "))


def test_a_question_is_written_once_and_dev_shares_no_passage_with_train(
    made: tuple[list[Written], Index, Path], tmp_path: Path
) -> None:
    written, index, _ = made
    found = write_dataset(written, index, tmp_path, 100, 0.2)
    texts = [q.question for split in found.questions.values() for q in split]
    assert len(set(texts)) == len(texts)
    assert found.left_out[dataset.REPEATED] > 0
    held, train = ({id for q in found.questions[s] for id in q.supporting_ids} for s in ("dev", "train"))
    assert not held & train
    assert len(write_dataset(written, index, tmp_path / "few", 2, 0.0).questions["train"]) == 2


def test_questions_about_passages_that_have_changed_are_left_out(
    made: tuple[list[Written], Index, Path], tmp_path: Path
) -> None:
    written, _, _ = made
    changed = [d for d in DOCUMENTS if d.id != "torrun"]
    with Index.build(tmp_path / "changed.sq", changed) as index:
        found = write_dataset(written, index, tmp_path, 100, 0.0)
    assert found.left_out[dataset.GONE] > 0
    assert found.questions["train"]
    assert all("torrun" not in q.supporting_ids for q in found.questions["train"])


def test_a_large_collection_is_written_in_part(
    made: tuple[list[Written], Index, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written, index, _ = made
    monkeypatch.setattr(dataset, "WHOLE", 3)
    found = write_dataset(written, index, tmp_path, 1, 0.0)
    (question,) = found.questions["train"]
    passages = {d.id for d in read([str(tmp_path / "train" / "corpus.jsonl")])}
    assert set(question.supporting_ids) <= passages == {*question.supporting_ids, *question.context_ids}
    assert len(passages) < len(DOCUMENTS)


@pytest.mark.parametrize("system", ["coda", "search-r1", "decor", "apex"])
def test_every_question_gives_a_gold_trace(system: str, made: tuple[list[Written], Index, Path]) -> None:
    written, index, out = made
    write_dataset(written, index, out, 100, 0.0)
    asked = questions_from(str(out / "train"))
    source = tiny_source()
    vocabulary = Vocabulary(source.tokenizer, source.architecture.vocabulary)
    traces = run_sync(make_traces(system, asked, index, vocabulary, CHATML, prompts="full", document_tokens=4000))
    assert len(traces.episodes) == len(asked), traces.rejected
    if system == "coda":
        asked_if = next(e for e in traces.episodes if e.question.type == "yes-no")
        value = asked_if.question.meta["operation"][2]
        assert f"and {value} are" in asked_if.by_role("planner")[0].written_turns[-1]
        chain = next(e for e in traces.episodes if e.question.hops == 3)
        assert len(chain.by_role("executor")) == 3


def test_a_share_of_them_can_be_made_unanswerable(made: tuple[list[Written], Index, Path]) -> None:
    written, index, out = made
    write_dataset(written, index, out, 100, 0.0)
    found = load_material([DataPart(str(out / "train"), unanswerable=0.5)])
    unknown: list[Question] = [q for q in found.questions if q.unanswerable]
    assert unknown
    assert len(unknown) <= 0.5 * len(found.questions)
    searched = {d.id for d in found.documents}
    assert all(not set(q.supporting_ids) <= searched for q in unknown)
    assert all(set(q.supporting_ids) <= searched for q in found.questions if not q.unanswerable)


def test_the_command_reports_and_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    docs, out = tmp_path / "docs", tmp_path / "out"
    docs.mkdir()
    command = ["data", "questions", str(docs), "--out", str(out)]
    assert main(["data", "questions", "--out", str(out)]) == 2
    assert "name the documents" in capsys.readouterr().err
    assert main([*command, "--index", "x.sq"]) == 2
    assert main([*command, "--dev", "2"]) == 2
    assert main([*command, "--count", "0"]) == 2
    script = tmp_path / "script.jsonl"
    script.write_text("\n".join(['"I am happy to help."'] * 4))
    capsys.readouterr()
    assert main([*command, "--model", f"scripted:{script}"]) == 2
    assert "no passages" in capsys.readouterr().err
    assert not out.exists()
    for document in DOCUMENTS[:3]:
        (docs / f"{document.id}.md").write_text(f"# {document.title}\n\n{document.text}\n")
    assert main(command) == 2
    assert "name a --model" in capsys.readouterr().err
    assert main([*command, "--model", f"scripted:{script}", "--concurrency", "1"]) == 2
    assert "refused: single: not one question" in capsys.readouterr().err


def test_the_command_writes_from_files_and_continues_without_a_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    docs, out = tmp_path / "docs", tmp_path / "out"
    docs.mkdir()
    (docs / "bridge.md").write_text(f"# Orvane Bridge\n\n{DOCUMENTS[0].text}\n")
    script = tmp_path / "script.jsonl"
    asked = "Who was the engineer behind the Orvane Bridge?"
    described = "the engineer behind the Orvane Bridge"
    replies = [
        f"Q: {asked}\nA: Mila Torrun",
        "Mila Torrun",
        asked,
        described,
    ]  # the third should be a yes-or-no question
    script.write_text("\n".join(map(json.dumps, replies)))
    command = ["data", "questions", str(docs), "--out", str(out), "--dev", "0", "--json"]
    assert main([*command, "--model", f"scripted:{script}", "--concurrency", "1"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["kept"] == {"single": 1, "yes-no": 1}
    assert report["train"] == {"questions": 2, "passages": 1}
    assert main(["data", "questions", "--out", str(out), "--dev", "0", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == report
    single, yes_no = sorted(questions_from(str(out / "train")), key=lambda q: q.type)
    assert single.question == asked
    assert yes_no.question in (f"Is {value} {described}?" for value in ("Mila Torrun", "Dario Venn"))
    script.write_text('"<answer>Mila Torrun</answer>"\n' * 2)
    asking = ["--index", str(out / "docs.sq"), "--model", f"scripted:{script}", "--out", str(tmp_path / "own.sqlite")]
    assert main(["eval", str(out / "train"), "--system", "rag", *asking]) == 0
    assert "2/2  EM 0.500" in capsys.readouterr().err
