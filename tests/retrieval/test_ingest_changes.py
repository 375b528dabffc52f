"""Files that change, move and share documents: an index that follows them holds what a fresh one would."""

from __future__ import annotations

import json
import random
import shutil
import sys
from pathlib import Path

import pytest

from subquest.record import Document
from subquest.retrieval import Index
from subquest.retrieval.ingest import ingest

WORDS = ["kelm", "ostel", "brunn", "river", "town"]


def corpus(path: Path, **texts: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps({"id": key, "text": text}) + "\n" for key, text in texts.items()))


def texts(index: Index) -> dict[str, str]:
    return {document.id: document.text for document in index.documents()}


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    return tmp_path / "docs"


def test_a_corpus_that_gets_another_name_keeps_its_documents(tmp_path: Path, docs: Path) -> None:
    corpus(docs / "old.jsonl", a="Kelm.", b="Ostel.")
    with Index.build(tmp_path / "i.sq", []) as index:
        ingest(index, [docs])
        (docs / "old.jsonl").rename(docs / "new.jsonl")
        report = ingest(index, [docs], prune=True)
        assert (report.files_removed, report.removed, report.unchanged) == (["docs/old.jsonl"], 0, 2)
        assert texts(index) == {"a": "Kelm.", "b": "Ostel."}
        (docs / "new.jsonl").rename(docs / "newest.jsonl")
        corpus(docs / "other.jsonl", c="Brunn.")
        ingest(index, [docs], prune=True)
        assert texts(index) == {"a": "Kelm.", "b": "Ostel.", "c": "Brunn."}
        assert index.verify() == []


@pytest.mark.parametrize(("giver", "taker"), [("a.jsonl", "b.jsonl"), ("b.jsonl", "a.jsonl")])
def test_a_document_that_moves_to_another_corpus_stays(tmp_path: Path, docs: Path, giver: str, taker: str) -> None:
    corpus(docs / giver, one="Kelm.", two="Ostel.")
    corpus(docs / taker, three="Brunn.")
    with Index.build(tmp_path / "i.sq", []) as index:
        ingest(index, [docs])
        corpus(docs / giver, one="Kelm.")
        corpus(docs / taker, three="Brunn.", two="Ostel.")
        ingest(index, [docs])
        assert texts(index) == {"one": "Kelm.", "two": "Ostel.", "three": "Brunn."}


@pytest.mark.parametrize("change", ["remove", "rewrite"])
def test_when_an_id_given_twice_is_given_once_its_other_document_comes_back(
    tmp_path: Path, docs: Path, change: str
) -> None:
    corpus(docs / "a.jsonl", one="Kelm.", both="From a.")
    corpus(docs / "b.jsonl", two="Ostel.", both="From b.")
    with Index.build(tmp_path / "i.sq", []) as index:
        assert ingest(index, [docs]).doubles == ["both"]
        assert texts(index)["both"] == "From b."
        if change == "remove":
            (docs / "b.jsonl").unlink()
        else:
            corpus(docs / "b.jsonl", two="Ostel.")
        ingest(index, [docs], prune=True)
        assert texts(index)["both"] == "From a."
        assert index.verify() == []
        assert ingest(index, [docs], prune=True).files == 0


@pytest.mark.parametrize("seed", range(4))
def test_an_index_that_follows_its_files_holds_what_a_fresh_one_does(tmp_path: Path, docs: Path, seed: int) -> None:
    chosen = random.Random(seed)
    names = [docs / name for name in ("x.txt", "y.txt", "x.jsonl", "y.jsonl", "sub/x.jsonl", "sub/y.csv")]
    with Index.build(tmp_path / "i.sq", []) as index:
        for _ in range(12):
            for _ in range(3):
                _change(chosen, chosen.choice(names))
            (docs / "always.txt").write_text("Always there.")
            ingest(index, [docs], prune=True)
            assert index.verify() == []
            shutil.rmtree(tmp_path / "fresh.sq", ignore_errors=True)
            with Index.build(tmp_path / "fresh.sq", []) as fresh:
                ingest(fresh, [docs])
                ours, theirs = _by_id(index), _by_id(fresh)
            assert ours.keys() == theirs.keys()
            assert all(ours[key] == theirs[key] for key in ours if "#" in key)


def _change(chosen: random.Random, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and chosen.random() < 0.5:
        other = path.with_name(chosen.choice("xyz") + path.suffix)
        if chosen.random() < 0.3:
            other.write_bytes(path.read_bytes())
        elif chosen.random() < 0.5:
            path.rename(other)
        else:
            path.unlink()
    elif path.suffix == ".jsonl":
        corpus(path, **{f"j{chosen.randrange(6)}": chosen.choice(WORDS) for _ in range(4)})
    elif path.suffix == ".csv":
        path.write_text("a,b\n" + "".join(f"{chosen.choice(WORDS)},{n}\n" for n in range(chosen.randrange(60))))
    else:
        path.write_text(" ".join(chosen.choices(WORDS, k=chosen.choice([0, 5, 250]))) + ".")


def _by_id(index: Index) -> dict[str, Document]:
    return {document.id: document for document in index.documents()}


def test_a_text_whose_encoding_could_not_be_guessed_is_noted_and_read_again_when_it_can(
    tmp_path: Path, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("resiliparse")
    docs.mkdir()
    text = "Мост через реку Орвана был построен в 1931 году."
    (docs / "bridge.txt").write_bytes(text.encode("cp1251"))
    (docs / "café.txt").write_bytes("Das Café hat große Fenster.".encode("cp1252"))
    with Index.build(tmp_path / "i.sq", []) as index:
        with monkeypatch.context() as without:
            without.setitem(sys.modules, "resiliparse", None)
            without.setitem(sys.modules, "resiliparse.parse.encoding", None)
            for read in (2, 0):
                report = ingest(index, [docs])
                assert (report.files, [note.name for note in report.notes]) == (read, ["docs/bridge.txt"])
                assert "subquest[web-tools]" in report.notes[0].reason
        report = ingest(index, [docs])
        assert (report.files, report.files_unchanged, report.notes) == (1, 1, [])
        assert texts(index)["docs/bridge.txt#1"] == text
        assert ingest(index, [docs]).files == 0


def test_a_yaml_file_of_several_documents_is_text(tmp_path: Path, docs: Path) -> None:
    docs.mkdir()
    (docs / "ports.yaml").write_text("---\n# the first\nname: kelm\n---\nname: ostel\n")
    with Index.build(tmp_path / "i.sq", []) as index:
        ingest(index, [docs / "ports.yaml"])
        assert list(texts(index).values()) == ["---\n# the first\nname: kelm\n---\nname: ostel"]
