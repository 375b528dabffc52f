"""Studies: the recipes that come with the package, the papers' numbers beside ours, and bad recipes."""

import json
from dataclasses import fields
from pathlib import Path

import pytest

from subquest import Index
from subquest.cli import main
from subquest.errors import ConfigError, UsageError
from subquest.record import Document
from subquest.study import find_study, read_study, rows, studies
from subquest.study.table import text
from subquest.systems.registry import get
from subquest.worlds import Recipe, write_world

NAMES = {
    "coda-hierarchy", "coda-topk", "coda-hops", "hira-ablation", "hira-subtasks", "decor-topk", "apex-docs-hops",
    "efficiency", "decor-tools", "truncation",
}  # fmt: skip


def test_every_study_of_the_papers_is_there() -> None:
    assert set(studies()) == NAMES


@pytest.mark.parametrize("name", sorted(NAMES))
def test_each_recipe_fits_its_systems(name: str) -> None:
    for variant in find_study(name).variants.values():
        system = get(variant.system)
        assert not variant.preset or variant.preset in system.presets
        assert set(variant.settings) <= {f.name for f in fields(system.Settings)}


def test_averages_of_the_papers_are_the_means_of_their_rows() -> None:
    """A slip in copying would show: but for two that the recipes note, printed averages fit the printed numbers."""
    odd = {("coda-hierarchy", "CoDA"): 0.410, ("hira-ablation", "HiRA"): 0.470}
    for name in ("coda-hierarchy", "coda-hops", "hira-ablation"):
        study = find_study(name)
        for variant in study.variants:
            for metric, printed in study.number(variant, "average").items():
                values = [study.number(variant, source)[metric] for source in study.sources]
                wanted = odd.get((name, variant), printed)
                assert sum(values) / len(values) == pytest.approx(wanted, abs=0.0006), (name, variant, metric)
                assert wanted == printed or f"{wanted:.3f}" in study.table.note


def test_grids_make_variants() -> None:
    study = find_study("coda-topk")
    assert list(study.variants)[:2] == ["CoDA, k=3", "CoDA, k=5"]
    assert [v.settings["k"] for v in study.variants.values()] == [3, 5, 10, 20, 30] * 2


def test_rows_put_the_paper_beside_ours() -> None:
    study = find_study("coda-hops")
    cell = {"n": 4, "em": 0.5, "em_low": 0.2, "em_high": 0.8, "f1": 0.6, "cem": 0.7}
    other = {**cell, "em": 0.1}
    found = rows(study, {"musique": {"CoDA": cell}, "2wikimultihopqa": {"CoDA": other}})
    first, _, average = found
    assert (first.ours["em"], first.paper["em"], first.low["em"]) == (0.5, 0.106, 0.2)
    assert (average.source, average.n, average.ours["em"], average.paper["em"]) == ("average", 8, 0.3, 0.311)


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SUBQUEST_DATA", str(tmp_path / "none"))
    monkeypatch.setenv("SUBQUEST_CACHE", str(tmp_path / "cache"))
    lines = [
        json.dumps({"id": f"q{i}", "question": f"Which {i}?", "answers": ["Kestel"], "hops": 1 + i % 4})
        for i in range(8)
    ]
    (tmp_path / "toy.jsonl").write_text("\n".join(lines))
    (tmp_path / "script.jsonl").write_text("\n".join(['"<answer>Kestel</answer>"'] * 40))
    Index.build(tmp_path / "docs.sq", [Document("1", "Kestel", "Kestel is a city.")]).close()
    return tmp_path


STUDY = ["study", "coda-hops", "--on", "toy.jsonl", "--model", "scripted:script.jsonl", "--index", "docs.sq"]


def test_the_papers_average_stands_beside_one_over_the_same_sources_only() -> None:
    study = find_study("coda-hops")
    cell = {"n": 4, "em": 0.5, "em_low": 0.2, "em_high": 0.8}
    for sources in (["2wikimultihopqa"], ["mine", "yours"], ["2wikimultihopqa", "mine"]):
        found = rows(study, {source: {"CoDA": cell} for source in sources})
        assert all(not row.paper for row in found if row.source == "average")
        assert "average 0.311" in text(study, found, "m")


def test_a_study_runs_and_resumes(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*STUDY, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [(r["variant"], r["n"], r["ours"]["em"]) for r in document["rows"]] == [
        ("AutoRefine", 4, 1.0),  # hops 3 and 4 of 1 to 4, twice each
        ("CoDA", 4, 1.0),
    ]
    assert main(STUDY) == 0
    out, err = capsys.readouterr()
    assert "8 of 8 are done already" in err
    assert out.startswith("CoDA, table 4")
    assert "3,916 questions" in out
    assert main([*STUDY, "--seed", "1"]) == 2


def test_a_study_with_other_prompts_is_another_one(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (toy / "prompts").mkdir()
    (toy / "prompts" / "planner_force.md").write_text("Answer now.")
    (toy / "subquest.toml").write_text('prompts = "prompts"')
    assert main([*STUDY, "--only", "CoDA", "--sample", "1"]) == 0
    assert main([*STUDY, "--only", "CoDA", "--sample", "2"]) == 0
    (toy / "prompts" / "planner_force.md").write_text("Answer at once.")
    capsys.readouterr()
    assert main([*STUDY, "--only", "CoDA", "--sample", "3"]) == 2
    assert "was begun with prompts" in capsys.readouterr().err


def test_only_and_list(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*STUDY, "--only", "CoDA", "--sample", "2", "--json"]) == 0
    assert [r["n"] for r in json.loads(capsys.readouterr().out)["rows"]] == [2]
    assert main(["study"]) == 0
    listed = {line.split()[0] for line in capsys.readouterr().out.splitlines()}
    assert listed == NAMES | {"claims", "claims-0.5b", "claims-1.5b"}
    assert main(["study", "--json"]) == 0
    assert json.loads(capsys.readouterr().out).keys() == listed


def test_a_variant_that_has_changed_is_not_taken_for_what_it_was(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = """
        title = "Mine"
        paper = ""
        metrics = ["em"]
        source = [{ name = "toy", dataset = "toy.jsonl" }]
        variant = [{ name = "A", system = "coda", settings = { turns = 3 } }]
    """
    mine = ["study", "mine.toml", "--model", "scripted:script.jsonl", "--index", "docs.sq"]
    (toy / "mine.toml").write_text(recipe)
    assert main(mine) == 0
    assert main(mine) == 0
    capsys.readouterr()
    for old, new in (("turns = 3", "turns = 4"), ('"coda", settings = { turns = 3 }', '"cot"')):
        (toy / "mine.toml").write_text(recipe.replace(old, new))
        assert main(mine) == 2
        assert "variant 'A' as coda with turns=3, " in capsys.readouterr().err


def test_the_papers_numbers_are_shown_for_other_questions_too(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(STUDY) == 0
    shown = capsys.readouterr().out.split("the paper's numbers on its own questions:\n")[1]
    assert "CoDA        EM      2wikimultihopqa 0.516, musique 0.106, average 0.311" in shown
    assert main([*STUDY, "--json"]) == 0
    numbers = json.loads(capsys.readouterr().out)["paper_numbers"]
    assert {"variant": "CoDA", "source": "musique", "em": 0.106, "f1": 0.197, "cem": 0.137} in numbers


def test_a_world_brings_its_own_corpus(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_world(toy / "world", Recipe(seed=5, articles=160, questions=6))
    arguments = ["study", "truncation", "--on", "world", "--model", "scripted:script.jsonl", "--sample", "2"]
    assert main(arguments) == 0
    out, err = capsys.readouterr()
    assert "indexing world/corpus.jsonl" in err
    assert [path.name for path in Path("world").iterdir() if ".sq" in path.name] == ["docs.sq"]
    assert "index world/docs.sq" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["coda-hop"], "did you mean 'coda-hop"),
        (["coda-hops", "--only", "x"], "no variant 'x'"),
        (["coda-hops", "--out", "x"], "none of the study's questions are available"),
    ],
)
def test_wrong_usage(toy: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", *arguments]) == 2
    assert message in capsys.readouterr().err


HEAD = 'title="t"\npaper="p"\nmetrics=["em"]\n'
PARTS = '[[source]]\nname="nq"\n[[variant]]\nname="a"\nsystem="coda"\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("title=", "Invalid value"),
        (HEAD + "metric=1\n" + PARTS, "unknown key 'metric'"),
        (HEAD + '[[source]]\nname="nq"\n', "'variant' is missing"),
        (HEAD + PARTS + "preset_=1\n", "unknown key 'preset_'; did you mean 'preset'"),
        (HEAD + PARTS + '[[variant]]\nname="a"\nsystem="rag"\n', "a variant cannot be called 'a'"),
        (HEAD + PARTS + '[[number]]\nvariant="b"\nsource="nq"\nem=1\n', "variant 'b', which is not"),
        (HEAD + PARTS + '[[number]]\nvariant="a"\nsource="x"\nem=1\n', "source 'x', which is not"),
        (HEAD + PARTS + '[[number]]\nvariant="a"\nsource="nq"\nf1=1\n', "numbers of f1"),
        (HEAD + PARTS + '[[number]]\nvariant="a"\nsource="nq"\nem="high"\n', "em is 'high'"),
        (HEAD.replace('["em"]', '"em"') + PARTS, "metrics must be a list, not 'em'"),
        (HEAD.replace('"em"', '"emm"') + PARTS, "no metric 'emm'; did you mean 'em'"),
        (HEAD.replace('"t"', "3") + PARTS, "title must be text, not 3"),
        ('filter="hops>=2"\n' + HEAD + PARTS, "filter must be a list"),
        (HEAD + PARTS.replace('"nq"', '"nq"\nsample=-3'), r"source\[1\].sample must be a whole number from 1, not -3"),
        (HEAD + PARTS.replace('"nq"', '"nq"\nsample="x"'), "sample must be a whole number from 1, not 'x'"),
        (HEAD + PARTS + "grid={k=3}\n", r"each value of variant\[1\].grid must be a list"),
        (HEAD + PARTS + '[[source]]\nname="nq"\ndataset="b.jsonl"\n', "a source cannot be called 'nq'"),
        (HEAD + PARTS.replace('"nq"', '"average"'), "a source cannot be called 'average'"),
    ],
)
def test_bad_recipes_are_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "x.toml").write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_study(tmp_path / "x.toml")
    with pytest.raises(UsageError, match="cannot read"):
        read_study(tmp_path / "y.toml")
