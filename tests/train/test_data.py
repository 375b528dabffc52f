"""What a run trains on: the passages of all its sources are there to be searched."""

import asyncio
import json
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from subquest.errors import ConfigError, DataError
from subquest.record import Document, Question
from subquest.retrieval.corpus import read
from subquest.retrieval.index import Index
from subquest.retrieval.ingest import ingest
from subquest.train.data import load_material, merge_documents, open_search, refuse_test
from subquest.train.launch import train
from subquest.train.recipe import DataPart, load_recipe
from subquest.train.trainer import choose_dev_questions
from tests.readers.made import put

RECIPES = Path(__file__).resolve().parents[2] / "recipes"


def source(folder: Path, *names: str) -> str:
    """A folder with a question and a passage a name; every folder numbers its passages from 0."""
    folder.mkdir()
    rows = [{"id": str(n), "title": name, "text": f"{name} is a town."} for n, name in enumerate(names)]
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, rows)))
    asked = [
        {"id": str(n), "question": f"What is {name}?", "answers": ["a town"], "supporting_ids": [str(n)]}
        for n, name in enumerate(names)
    ]
    (folder / "questions.jsonl").write_text("\n".join(map(json.dumps, asked)))
    return str(folder)


def test_sources_that_number_their_passages_alike_are_searched_together(tmp_path: Path) -> None:
    parts = [DataPart(source(tmp_path / "a", "Orvane", "Kestel")), DataPart(source(tmp_path / "b", "Tolmin"))]
    found = load_material(parts)
    assert [(d.id, d.title) for d in found.documents] == [
        ("0", "Orvane"),
        ("1", "Kestel"),
        (f"{tmp_path}/b/0", "Tolmin"),
    ]
    assert len(load_material([parts[0], parts[0]]).documents) == 2, "the same passage is there once"
    assert [q.supporting_ids for q in found.questions] == [("0",), ("1",), (f"{tmp_path}/b/0",)]
    without = load_material([parts[0], replace(parts[1], unanswerable=1.0)])
    assert [d.title for d in without.documents] == ["Orvane", "Kestel"], "its own passage is gone, not another's"
    known = {d.id: d for d in found.documents}
    assert merge_documents(known, [Document("1", "Kestel", "Kestel is a town.")], "dev") == known


def test_half_an_index_is_not_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither one whose building is cut off, nor one that was left under its name."""
    documents = [Document(str(n), f"T{n}", f"word{n} is a town") for n in range(10)]
    add = Index.add

    def cut_off(self: Index, found: Iterable[Document], **more: Any) -> None:
        add(self, list(found)[:3])
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Index, "add", cut_off)
        with pytest.raises(KeyboardInterrupt):
            open_search(documents, tmp_path)
    assert list(tmp_path.iterdir()) == []
    with open_search(documents, tmp_path) as index:
        assert (len(index), index.search("word9", 1)[0].document.id) == (10, "9")
        place = Path(index.path)
    shutil.rmtree(place)
    Index.build(place, documents[:3]).close()
    with open_search(documents, tmp_path) as index:
        assert (len(index), index.search("word9", 1)[0].document.id) == (10, "9")


def test_the_tables_of_a_source_can_be_queried(tmp_path: Path) -> None:
    """Those of its files, each as often as it is there; what was taken out of the passages stands in no table."""
    folder = Path(source(tmp_path / "a", "Orvane"))
    docs = put(folder / "docs", {f"{n}/staff.csv": f"Name,Site\nAda {n},Kelm\nBert {n},Velle\n" for n in range(2)})
    with Index.build(tmp_path / "papers.sq", []) as papers:
        ingest(papers, [docs])
        passages = [*read([str(folder / "corpus.jsonl")]), *papers.documents()]
    rows = [{"id": d.id, "title": d.title, "text": d.text, "meta": dict(d.meta)} for d in passages[:-1]]
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, rows)))
    found = load_material([DataPart(str(folder)), DataPart(str(folder))])
    assert found.papers == (docs,)
    with open_search(found.documents, tmp_path / "index", found.papers) as index:
        assert sorted(d.id for d in index.documents()) == sorted(row["id"] for row in rows)
        assert [table.name for table in index.tables.all()] == ["staff", "staff_2"]
        hits = index.search("Ada 0", 1)
        shown = [replace(hit.document, text=hit.document.text.split("\n")[0]) for hit in hits]
        assert [table.place["file"] for table in index.tables.behind(shown)] == ["docs/0/staff.csv"]
        assert index.tables.query("SELECT name FROM staff_2 WHERE site = 'Velle'").rows == (("Bert 1",),)
    assert load_material([DataPart(str(folder), unanswerable=0.5)]).papers == ()


def test_questions_of_some_types(tmp_path: Path) -> None:
    folder = source(tmp_path / "a", "Orvane", "Kestel")
    rows = [json.loads(line) for line in (tmp_path / "a" / "questions.jsonl").read_text().splitlines()]
    (tmp_path / "a" / "questions.jsonl").write_text(
        "\n".join(json.dumps({**row, "type": kind}) for row, kind in zip(rows, ("count", "list"), strict=True))
    )
    assert [q.type for q in load_material([DataPart(folder, types=("list",))]).questions] == ["list"]
    with pytest.raises(ConfigError, match="no questions of the types sum"):
        load_material([DataPart(folder, types=("sum",))])


def test_a_weight_draws_questions_by_the_seed(tmp_path: Path) -> None:
    """Not the first ones: a file may be in an order."""
    folder = source(tmp_path / "a", *(f"T{n}" for n in range(100)))

    def asked(weight: float, seed: int = 0) -> list[int]:
        return [int(q.id) for q in load_material([DataPart(folder, weight=weight)], seed=seed).questions]

    quarter = asked(0.25)
    assert quarter == sorted(set(quarter)) == asked(0.25)
    assert (len(quarter), quarter != list(range(25)), quarter != asked(0.25, seed=1)) == (25, True, True)
    assert asked(2.25) == [*range(100), *range(100), *quarter]
    assert asked(0.001) == []


def test_digests_cover_the_questions_that_a_weight_draws(tmp_path: Path) -> None:
    """A run must not go on with others. Whole weights draw none, so that older runs of them go on."""
    folder = source(tmp_path / "a", *(f"T{n}" for n in range(100)))
    found: list[dict[str, str]] = []
    for weight, seed in ((1.0, 0), (3.0, 1), (0.5, 0), (0.5, 1)):
        found.append({})
        load_material([DataPart(folder, weight=weight)], seed=seed, digests=found[-1])
    assert found[0] == found[1]
    assert len({tuple(digests.values()) for digests in found}) == 3


def test_sources_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source(tmp_path / "a", "Orvane")
    monkeypatch.setenv("HOME", str(tmp_path))
    for part in (DataPart("~/a"), DataPart("~/a/questions.jsonl", corpus=("~/a/corpus.jsonl",))):
        found = load_material([part])
        assert (len(found.questions), [d.title for d in found.documents]) == (1, ["Orvane"])


def test_an_evaluation_asks_questions_of_every_dev_source() -> None:
    dev = [Question(f"{name}{n}", "?") for name, count in (("a", 6), ("b", 2), ("c", 4)) for n in range(count)]
    assert [q.id for q in choose_dev_questions(dev, 6, sources=3)] == ["a0", "a2", "a4", "b0", "c0", "c2"]
    assert choose_dev_questions(dev, 6, sources=1) == dev[:6]
    assert choose_dev_questions(dev, 12, sources=3) == choose_dev_questions(dev, 50, sources=3) == dev
    assert choose_dev_questions(dev, 0, sources=3) == []


def test_one_source_names_its_passages_apart(tmp_path: Path) -> None:
    parts = [source(tmp_path / name, name) for name in ("a", "b")]
    corpora = tuple(f"{part}/corpus.jsonl" for part in parts)
    with pytest.raises(DataError, match="/a: two passages share the id '0'"):
        load_material([DataPart(parts[0], corpus=corpora)])


def test_dev_passages_do_not_take_the_place_of_training_passages(tmp_path: Path) -> None:
    parts = {
        "data": [{"questions": source(tmp_path / "a", "Orvane", "Kestel")}],
        "dev": [{"questions": source(tmp_path / "b", "Tolmin", "Vask")}],
    }
    recipe = load_recipe(RECIPES / "coda-peco-smoke.toml", parts)
    asyncio.run(train(recipe, tmp_path / "run", minutes=0, device="cpu"))
    (path,) = (tmp_path / "run" / "index").glob("*.sq")
    with Index.open(path) as index:
        for name in ("Orvane", "Kestel", "Tolmin", "Vask"):
            assert index.search(name, 1)[0].document.title == name


def test_sets_that_are_only_measured_are_refused() -> None:
    refuse_test([Question("q", "Who?", dataset="hotpotqa", split="train")], "nothing is learnt from it")
    with pytest.raises(ConfigError, match="is of bamboogle, which is only measured: nothing is learnt from it"):
        refuse_test([Question("q", "Who?", dataset="bamboogle")], "nothing is learnt from it")
