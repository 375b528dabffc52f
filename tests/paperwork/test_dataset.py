"""Written organisations as files, passages and questions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from subquest.cli import main
from subquest.cli.evaluation import with_world_index
from subquest.config import Config
from subquest.data import questions_from
from subquest.paperwork import dataset, table_questions
from subquest.paperwork.writing import write_organisations
from subquest.process import run_sync
from subquest.readers.columns import same_value
from subquest.retrieval import Index
from subquest.retrieval.corpus import read
from subquest.retrieval.ingest import ingest

from .rule_writer import rule_writer


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("organisations")
    run_sync(write_organisations(rule_writer(), out, 4))
    assert main(["data", "organisations", str(out), "--count", "4", "--dev", "0.25"]) == 0
    return out


def test_each_step_is_supported_by_a_passage_that_states_its_answer(folder: Path) -> None:
    passages = {d.id: d for d in read([str(folder / "train" / "corpus.jsonl")])}
    questions = questions_from(str(folder / "train"))
    assert len(questions) > 60
    for question in questions:
        supports = [passages[i] for i in question.supporting_ids]
        for n, step in enumerate(question.decomposition, 1):
            if not step.answer or str(n) in question.meta.get("sql", ()):
                continue
            assert any(d.title == step.support and step.answer in f"{d.title} {d.text}" for d in supports), question
        if question.type == "unanswerable":
            assert question.answers == ("unknown",)
            assert question.decomposition[-1].support == ""
        else:
            assert question.answers[0] != "unknown"
            assert all(step.support for step in question.decomposition)


def test_tables_and_versions_look_as_in_an_index(folder: Path) -> None:
    passages = list(read([str(folder / "train" / "corpus.jsonl")]))
    assert any("extension: " in d.text and "site: " in d.text for d in passages)
    assert any("superseded by" in d.title for d in passages)


def test_a_query_gives_the_answer_over_the_tables_of_an_index(folder: Path, tmp_path: Path) -> None:
    """Under the name that the index gives a table, whatever other tables it holds."""
    questions = [q for q in questions_from(str(folder / "train")) if "sql" in q.meta]
    assert {"count", "total", "highest", "latest", "list", "ranking", "bridge", "difference"} <= {
        q.type for q in questions
    }
    with Index.build(tmp_path / "all.sq", []) as index:
        ingest(index, [folder / "train" / "docs"])
        names = {table.place["file"]: table.name for table in index.tables.all()}
        for question in questions:
            for n, (file, sql) in question.meta["sql"].items():
                found = [row[0] for row in index.tables.query(sql.replace("{table}", names[file])).rows]
                step = question.decomposition[int(n) - 1]
                wanted = [step.answer] if len(found) == 1 else question.meta["items"][n]
                assert all(same_value(a, b) for a, b in zip(found, wanted, strict=True)), question


def test_a_question_is_left_out_if_its_query_gives_something_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = run_sync(write_organisations(rule_writer(), tmp_path, 1))
    sound = dataset.write_split(written, tmp_path / "sound", "train")
    monkeypatch.setattr(table_questions, "_quoted", lambda value: f"'{value}!'")
    wrong = dataset.write_split(written, tmp_path / "wrong", "train")
    lost = [q for q in sound.questions if "sql" in q.meta]
    assert len(lost) > 8
    assert wrong.left_out[dataset.NOT_GIVEN] == len(lost)
    assert not any("sql" in q.meta for q in wrong.questions)


def test_an_evaluation_of_the_folder_has_its_tables(folder: Path) -> None:
    config = with_world_index(Config(), [str(folder / "dev")])
    with Index.open(config.index) as index:
        assert len(index) == len(list(read([str(folder / "dev" / "corpus.jsonl")])))
        assert {"asset_register", "staff_directory"} <= {table.name for table in index.tables.all()}


def test_splits_share_no_organisation(folder: Path) -> None:
    train, dev = (questions_from(str(folder / split)) for split in ("train", "dev"))
    assert not {q.meta["organisation"] for q in train} & {q.meta["organisation"] for q in dev}
    assert {q.split for q in dev} == {"dev"}


def test_the_command_reports_and_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "organisations", str(tmp_path / "none")]) == 2
    assert "name a --model" in capsys.readouterr().err
    assert main(["data", "organisations", str(tmp_path), "--dev", "2"]) == 2
    file = tmp_path / "file"
    file.write_text("x")
    assert main(["data", "organisations", str(file)]) == 2
    run_sync(write_organisations(rule_writer(), tmp_path / "made", 1))
    assert main(["data", "organisations", str(tmp_path / "made"), "--json", "--dev", "0"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["organisations"] == 1
    kept = sum(count for name, count in report["kept"].items() if name.startswith("question"))
    train = report["train"]
    assert dataset.NOT_GIVEN not in train["left_out"]
    drawn = kept + sum(train["added"].values())
    assert train["questions"] + train["left_out"].get(dataset.NOT_READ, 0) == drawn
    assert train["questions"] > 0.8 * drawn
