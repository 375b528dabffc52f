"""Written organisations as files, passages and questions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from subquest.cli import main
from subquest.data import questions_from
from subquest.paperwork import dataset
from subquest.paperwork.writing import write_organisations
from subquest.process import run_sync
from subquest.retrieval.corpus import read

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
        for step in question.decomposition:
            if not step.answer or question.type in ("list", "count"):
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
    assert report["train"]["questions"] + report["train"]["left_out"].get(dataset.NOT_READ, 0) == kept
    assert report["train"]["questions"] > 0.8 * kept
