"""What a source can be: a part of a set, the web site of a world, and questions whose episodes are kept."""

import math
from pathlib import Path

import pytest

from subquest.engine.scripted import ScriptedEngine
from subquest.runs import RunStore
from subquest.runs.jsonl import import_run
from subquest.study import Source, Study, Variant
from subquest.study.engines import Engines, Setup
from subquest.study.results import Progress, Results
from subquest.study.runner import answer_study
from subquest.study.stamps import Stamps

WORLD = "world:seed=7,articles=160,questions=6,split=test,hops=1"
AGENT = Variant("react-tools@none", "react-tools", {"": "none"}, sources=("site",))


def answered(folder: Path, variant: Variant, *sources: Source) -> Results:
    study = Study("mine", {s.name: s for s in sources}, {variant.name: variant})
    results = Results(folder / "results")
    progress = Progress(study, results, Stamps(study, model="random:llama"))
    setup = Setup("random:llama", {}, folder / "cache", 4, math.inf, "cpu")
    assert answer_study(progress, [variant], setup, data=folder) == 0
    return results


def test_a_part_of_a_set_is_its_first_questions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Engines, "of", lambda *_: {"": ScriptedEngine(lambda _: "<answer> x </answer>")})
    variant = Variant("rag@none", "rag", {"": "none"}, sources=("all", "part"))
    results = answered(tmp_path, variant, Source("all", WORLD), Source("part", WORLD, limit=2, set="all"))
    found = results.stored("rag@none")
    assert found is not None
    assert {name: len(unit.hops) for name, unit in found.units.items()} == {"all": 6, "part": 2}
    assert found.units["part"].asked == f"{WORLD}, the first 2"


def test_a_world_is_searched_as_a_web_site_and_its_episodes_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent searches, opens a page that it found, and answers."""
    monkeypatch.setenv("SUBQUEST_SANDBOX_URL", "http://127.0.0.1:9")  # nothing is computed here

    def reply(context: object) -> str:
        text = getattr(context, "text", "")
        if "click_result|>" in text.partition("Question")[2]:
            return "\\boxed{read}"
        found = [word.strip("()") for word in text.split() if word.startswith("(http://127.0.0.1")]
        if found:
            return f"<|begin_click_link|>{found[-1]}<|end_click_link|>"
        return "<|begin_search_query|>town harbour founded<|end_search_query|>"

    monkeypatch.setattr(Engines, "of", lambda *_: {"": ScriptedEngine(reply)})
    site = Source("site", WORLD.replace("questions=6", "questions=1"), site=True, episodes=True)
    results = answered(tmp_path, AGENT, site)
    found = results.stored(AGENT.name)
    assert found is not None
    assert found.units["site"].means["searches"] >= 1
    file = tmp_path / "results" / "episodes" / f"{AGENT.name}.jsonl"
    assert import_run(file, tmp_path / "read.sqlite") == 1
    with RunStore.open(tmp_path / "read.sqlite") as store:
        (kept,) = store.episodes()
        assert {s.metric for s in store.scores()} >= {"em", "f1", "searches"}
    (documents,) = (e.data["hits"] for e in kept.events if e.kind == "documents")
    assert all(hit["id"].startswith("http://127.0.0.1:") for hit in documents)
    assert [e.kind for e in kept.events if e.kind in ("page", "error")] == ["page"]
    assert "\\boxed{read}" in kept.trajectories[0].text
    assert not kept.trajectories[0].token_ids  # it is kept to be read
