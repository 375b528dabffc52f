"""`subquest study claims` without a model: the list, answers by type and what is refused."""

import json
from pathlib import Path

import pytest

from subquest.cli import main
from subquest.study import read_study
from subquest.study.questions import parts_of, prepare
from subquest.study.results import Results, unit_of
from subquest.study.stamps import Stamps

from .small_study import BOOK, RECIPE, write_small_study


@pytest.fixture
def recipes(tmp_path: Path) -> list[str]:
    write_small_study(tmp_path)
    return ["study", "claims", "--recipes", str(tmp_path), "--runs", str(tmp_path / "runs")]


def printed(command: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(command) == 0
    return capsys.readouterr().out


def test_the_list_says_what_is_answered_and_what_is_stale(
    recipes: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = json.loads(printed([*recipes, "--json"], capsys))
    assert [(r["arm"], r["answered"], r["stale"]) for r in rows["arms"]][:2] == [
        ("rag@none", 2, ""),
        ("rag@shipped", 0, ""),
    ]
    assert rows["trainings"] == {"rl": False}
    assert rows["rows"] == {"done": 1, "left": 2, "stale": 0}
    (tmp_path / "book.toml").write_text(BOOK.replace("k = 2", "k = 4"))
    assert "(stale: k was 2, is 4)" in printed(recipes, capsys)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--use", "shipped"], "write NAME=PLACE"),
        (["--run", "--only", "nothing"], "no variant or claim is called nothing"),
        (["--types", "nothing"], "--types: there is no source 'nothing'; there are world"),
        (["--types", "world"], "--types: name the variants to compare with --only"),
    ],
)
def test_what_is_refused(
    recipes: list[str], capsys: pytest.CaptureFixture[str], options: list[str], words: str
) -> None:
    assert main([*recipes, *options]) == 2
    assert words in capsys.readouterr().err


def test_answers_by_type_of_question(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    worlds = "world:seed=7,articles=160,questions=12,split=test,hops=1+2"
    source, rest = BOOK.split("[[variant]]", 1)
    more = '[[variant]]\nname = "single"\nsystem = "search-r1"\nadapters = ["none"]\n[[variant]]' + rest
    (tmp_path / "book.toml").write_text(
        source.replace("questions=2,split=test,hops=1", worlds.partition("160,")[2]) + more
    )
    (tmp_path / "rl.toml").write_text(RECIPE)
    book, results = read_study(tmp_path), Results(tmp_path / "results")
    stamps = Stamps(book)
    (part,) = parts_of(book.sources["world"], tmp_path)
    (tmp_path / "runs" / "cache").mkdir(parents=True)
    ready = prepare(part, tmp_path / "runs" / "cache")
    hops = [q.hops or 0 for q in ready.questions]
    for arm, right in (("rag@none", 0.0), ("single@none", 1.0)):
        scores = [{"em": right if h == 1 else 1.0} for h in hops]
        made = unit_of("world", worlds, ready.digest, hops, scores)
        results.add(arm, stamps.of(book.variants[arm]), "world", made)
    command = ["study", "claims", "--recipes", str(tmp_path), "--runs", str(tmp_path / "runs"), "--types", "world"]
    assert main([*command, "--only", "rag@none", "--only", "single@*", "--only", "rag@rl"]) == 0
    shown = capsys.readouterr()
    assert "skipped: rag@rl: not run yet" in shown.err
    heads, _, *lines = shown.out.splitlines()
    assert heads == "| type | hops | questions | rag@none | single@none |"
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert sum(int(count) for _, h, count, *_ in rows if h == "all") == len(hops)
    assert {(h, *figures) for _, h, _, *figures in rows if h != "all"} == {
        ("1", "0.000", "1.000"),
        ("2", "1.000", "1.000"),
    }
