"""Variants of a study, and systems of an evaluation, differ in nothing that is not named."""

from pathlib import Path
from typing import Any

import pytest

from subquest.assemble import AgentSpec, preview_agent
from subquest.assemble.fairness import effective_settings, find_differences
from subquest.cli import main
from subquest.cli.study import unnamed_differences
from subquest.engine.scripted import ScriptedEngine
from subquest.runs import RunStore
from subquest.study import Study, find_study, read_study, studies
from subquest.study.stamps import spec_of
from subquest.systems import registry


def built(study: Study) -> dict[str, Any]:
    return {name: preview_agent(spec_of(v, AgentSpec())) for name, v in study.variants.items()}


@pytest.mark.parametrize("name", sorted(studies()))
def test_the_variants_of_every_study_differ_only_in_what_the_study_names(name: str) -> None:
    study = find_study(name)
    assert unnamed_differences(study, built(study)) == []


def test_a_difference_that_is_not_named_is_found(tmp_path: Path) -> None:
    recipe = tmp_path / "unfair.toml"
    head = 'title = "t"\npaper = "p"\nmetrics = ["em"]\n'
    rows = '[[source]]\nname = "x"\n'
    rows += "".join(f'[[variant]]\nname = "{n}"\nsystem = "{s}"\n' for n, s in (("A", "coda"), ("B", "search-o1")))
    recipe.write_text(head + rows)
    study = read_study(recipe)
    found = unnamed_differences(study, built(study))
    keys = {line.partition(":")[0] for line in found}
    assert keys == {"k", "temperature", "top_k", "top_p", "turns"}
    assert "k: A has 3, B has 10" in found
    recipe.write_text(head + 'differs = ["temperature", "top_k", "top_p"]\nsettings = { k = 3, turns = 6 }\n' + rows)
    study = read_study(recipe)
    assert unnamed_differences(study, built(study)) == []


def test_effective_settings_are_those_of_the_dialect_where_nothing_is_given() -> None:
    engine = ScriptedEngine([])
    agent, coda = registry.get("autorefine")(engine), registry.get("coda")(engine)
    assert effective_settings(agent)["turns"] == 5
    assert find_differences({"a": agent, "c": coda}, {}) == ["turns: a has 5, c has 6"]
    assert find_differences({"a": agent, "c": coda}, {"a": ["turns"]}) == []


def test_systems_that_are_evaluated_together_share_the_settings_of_the_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    questions, script = tmp_path / "q.jsonl", tmp_path / "script.jsonl"
    questions.write_text('{"id": "1", "question": "Who?", "answers": ["x"]}\n')
    script.write_text('{"reply": "<answer>x</answer>"}\n{"reply": "<answer>x</answer>"}\n')
    command = ["eval", str(questions), "--system", "autorefine,search-o1", "--model", f"scripted:{script}"]
    assert main([*command, "--out", str(tmp_path / "run.sqlite"), "--json"]) == 0
    told = capsys.readouterr().err
    assert "compared with the same settings" in told
    assert "search-o1 temperature=0.0 (its own: 0.7)" in told
    assert "search-o1 k=3 (its own: 10)" in told
    script.write_text('{"reply": "<answer>x</answer>"}\n{"reply": "<answer>x</answer>"}\n')
    assert main([*command, "--out", str(tmp_path / "own.sqlite"), "--own-settings", "--json"]) == 0
    assert "compared" not in capsys.readouterr().err


@pytest.mark.parametrize("own", [False, True])
def test_systems_that_are_added_to_a_run_get_what_its_first_one_had(
    own: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run of one system, then of two, then of the second alone: the settings stay what they were."""
    questions, script, run = tmp_path / "q.jsonl", tmp_path / "script.jsonl", tmp_path / "run.sqlite"
    questions.write_text('{"id": "1", "question": "Who?", "answers": ["x"]}\n')

    def evaluate(systems: str, *options: str) -> int:
        script.write_text('{"reply": "<answer>x</answer> \\\\boxed{x}"}\n' * 2)
        model = ["--model", f"scripted:{script}", "--out", str(run), "--json"]
        return main(["eval", str(questions), "--system", systems, *model, *options])

    assert evaluate("autorefine", *(["--own-settings"] if own else [])) == 0
    assert evaluate("autorefine,search-o1") == 0
    assert ("each system has its own settings" in capsys.readouterr().err) is own
    with RunStore.open(run) as store:
        assert ("shared" in store.settings) is not own
        found = {e.system: e.settings.get("k") for e in store.episodes()}
    assert found["search-o1"] == (None if own else 3)
    questions.write_text(questions.read_text() + '{"id": "2", "question": "Who else?", "answers": ["x"]}\n')
    assert evaluate("search-o1") == 0
    with RunStore.open(run) as store:
        assert {e.settings.get("k") for e in store.episodes() if e.system == "search-o1"} == {None if own else 3}
    assert evaluate("search-o1", "--own-settings") == (0 if own else 2)
    assert ("--own-settings needs a new run" in capsys.readouterr().err) is not own
