"""Variants over questions, end to end: the oracle in HiRA's seats, a tiny model, and what is not done twice."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from subquest.engine.scripted import ScriptedEngine
from subquest.errors import EngineError
from subquest.evaluate.score import score
from subquest.record import Question
from subquest.retrieval.index import Index
from subquest.study import Source, Study, Variant
from subquest.study.engines import Engines, Setup
from subquest.study.oracle import HiraOracle
from subquest.study.pictures import caption_of, picture_reader, png, with_pictures
from subquest.study.questions import parts_of, prepare
from subquest.study.results import Progress, Results
from subquest.study.runner import answer_study, missing_adapter, scores_of
from subquest.study.stamps import Stamps, spec_of
from subquest.systems.hira import HiRA
from subquest.systems.registry import get
from subquest.tools.sandbox import SandboxUnavailable, bubblewrap

WORLD = Source("world", "world:seed=7,articles=160,questions=10,split=test,hops=1+2+3")
TWO = Source("world", "world:seeds=7-8,articles=160,questions=2,split=test,hops=1")


def study(source: Source, *variants: Variant) -> Study:
    return Study("mine", {"world": source}, {v.name: v for v in variants})


def setup(folder: Path, **changes: object) -> Setup:
    return Setup("random:llama", {}, folder / "cache", 8, math.inf, "cpu")._replace(**changes)


@pytest.fixture
def asked(tmp_path: Path):
    (part,) = parts_of(WORLD, tmp_path)
    (tmp_path / "cache").mkdir()
    questions, place, _ = prepare(part, tmp_path / "cache")
    with Index.open(place) as index:
        yield [q for q in questions if q.type != "temporal"], index


@pytest.mark.parametrize("system", ["hira", "webthinker", "react-tools"])
async def test_the_oracle_answers_what_search_can_find(asked, system: str) -> None:
    questions, index = asked
    agent = get(system)(ScriptedEngine(HiraOracle(questions)), index)
    episodes = [await agent.solve(q) for q in questions]
    right = [e.answer in e.question.answers for e in episodes]
    assert sum(right) >= len(right) - 1
    assert all(e.answer == "unknown" for e, r in zip(episodes, right, strict=True) if not r)  # it never guesses


@pytest.mark.parametrize(
    ("options", "answer"), [({"preset": "no-search"}, "unknown"), ({"subtasks": 1}, "unknown"), ({}, "gold")]
)
async def test_the_oracle_needs_the_parts(asked, options: dict, answer: str) -> None:
    questions, index = asked
    question = next(q for q in questions if len(q.decomposition) == 3 and q.answers[0] == q.decomposition[-1].answer)
    episode = await HiRA(ScriptedEngine(HiraOracle(questions)), index, **options).solve(question)
    assert episode.answer == (question.answers[0] if answer == "gold" else answer)


async def test_the_oracle_computes_by_code_alone(asked) -> None:
    try:
        bubblewrap.way()
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    _, index = asked
    from subquest.worlds import make_world

    world = make_world(seed=7, articles=160, questions=20, split="test", types=("temporal",), hops=(2,))
    questions = [q for q in world.questions if q.answers[0].isdigit()][:3]
    oracle = ScriptedEngine(HiraOracle(questions))
    with_code = [await HiRA(oracle, index).solve(q) for q in questions]
    without = [await HiRA(oracle, index, preset="no-code").solve(q) for q in questions]
    assert any(e.answer in e.question.answers for e in with_code)
    assert {e.answer for e in without} == {"unknown"}


async def test_memory_saves_searches(asked) -> None:
    questions, index = asked
    oracle = ScriptedEngine(HiraOracle(questions))
    several = [q for q in questions if len(q.decomposition) > 1]
    with_memory = [await HiRA(oracle, index).solve(q) for q in several]
    without = [await HiRA(oracle, index, preset="no-memory").solve(q) for q in several]
    assert [e.answer for e in with_memory] == [e.answer for e in without]
    assert sum(e.usage.searches for e in with_memory) < sum(e.usage.searches for e in without)


async def test_a_name_in_a_picture_needs_the_expert_for_media(asked, tmp_path: Path) -> None:
    questions, index = asked
    pictured = with_pictures(questions, 0.5, tmp_path)
    assert 2 <= sum(bool(q.files) for q in pictured) <= len(pictured) / 2
    question = next(q for q in pictured if q.files)
    name = question.decomposition[0].answer
    assert name not in question.question
    assert caption_of(Path(question.files[0]).read_bytes()) == name
    oracle = ScriptedEngine(HiraOracle([question]))
    with picture_reader():
        seen = await HiRA(oracle, index).solve(question)
        blind = await HiRA(oracle, index, preset="no-multimodal").solve(question)
    assert seen.answer in question.answers
    assert blind.answer == "unknown"


def test_a_picture_can_be_opened() -> None:
    pillow = pytest.importorskip("PIL.Image")
    import io

    assert pillow.open(io.BytesIO(png("Ann"))).text == {"Caption": "Ann"}


def run(made: Study, variants: list[Variant], results: Results, given: Setup, **more: object) -> int:
    progress = Progress(made, results, Stamps(made, model="random:llama"))
    return answer_study(progress, variants, given, data=given.cache.parent, **more)


def test_what_is_answered_is_not_asked_again(tmp_path: Path) -> None:
    arm = Variant("rag@none", "rag", {"": "none"})
    said: list[str] = []
    results = Results(tmp_path / "results")
    made = study(TWO, arm)
    assert run(made, [arm], results, setup(tmp_path), report=said.append) == 0
    assert said[0] == "2 units to answer, 4 questions"
    stored = results.stored(arm.name)
    assert stored is not None
    assert set(stored.units) == {"world-1", "world-2"}
    assert {"em", "f1", "cem", "judge", "interactions", "completion_tokens"} == set(stored.units["world-1"].values)
    assert stored.units["world-1"].means["searches"] == 1
    said.clear()
    assert run(made, [arm], Results(tmp_path / "results"), setup(tmp_path), report=said.append) == 0
    assert said == ["0 units to answer, 0 questions"]


def test_the_same_measurement_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arm, same = Variant("rag@none", "rag", {"": "none"}), Variant("rag,k=3@none", "rag", {"": "none"}, {"k": 3})
    said: list[str] = []
    results = Results(tmp_path / "results")
    made = study(TWO, arm, same)
    run(made, [arm, same], results, setup(tmp_path), report=said.append)
    assert said[0] == "2 units to answer, 4 questions"
    first, second = results.stored(arm.name), results.stored(same.name)
    assert first is not None
    assert second is not None
    assert first.units == second.units
    (tmp_path / "results" / "rag,k=3@none.json.xz").unlink()
    said.clear()
    run(made, [arm, same], Results(tmp_path / "results"), setup(tmp_path), report=said.append)
    assert said == ["0 units to answer, 0 questions"]
    assert Results(tmp_path / "results").stored(same.name) == second


def test_a_part_of_a_set_takes_its_answers_from_the_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after a run that was cut off; asked alone, it gets the same."""
    arm, other = Variant("rag@none", "rag", {"": "none"}), Variant("rag,k=2@none", "rag", {"": "none"}, {"k": 2})
    world = "world:seed=7,articles=160,questions=8,split=test,hops=1"
    made = Study(
        "mine",
        {s.name: s for s in (Source("world", world), Source("part", world, limit=3, set="world"))},
        {v.name: v for v in (replace(arm, sources=("part", "world")), replace(other, sources=("part",)))},
    )
    alone = replace(made, variants={arm.name: replace(arm, sources=("part",))})
    progress = Progress(made, Results(tmp_path / "none"), Stamps(made, model="random:llama"))
    assert [progress.unanswered(v) for v in made.variants.values()] == [8, 3]
    failing = 0

    def of(self: Engines, arm: Variant, questions: object) -> dict[str, ScriptedEngine]:
        def reply(context: object) -> str:
            asked.append(context.messages[-1].content)  # type: ignore[attr-defined]
            if len(asked) == failing:
                raise KeyboardInterrupt
            return f"<answer>{len(asked[-1])}</answer>"

        return {"": ScriptedEngine(reply)}

    monkeypatch.setattr(Engines, "of", of)
    for place, failing in (("cut", 6), ("early", 3), ("whole", 0)):
        asked: list[str] = []
        results, said = Results(tmp_path / place), []
        if failing:
            with pytest.raises(KeyboardInterrupt):
                run(made, list(made.variants.values()), results, setup(tmp_path, concurrency=1), report=said.append)
            assert said[0] == "3 units to answer, 11 questions"
            failing = 0
        assert run(made, list(made.variants.values()), results, setup(tmp_path, concurrency=1)) == 0
        found = results.stored(arm.name)
        assert found is not None
        assert {name: len(unit.hops) for name, unit in found.units.items()} == {"part": 3, "world": 8}
        assert len(asked) <= 8 + 3 + 1
        assert results.partial(arm.name) == {}
        own = Results(tmp_path / f"{place}-alone")
        assert run(alone, list(alone.variants.values()), own, setup(tmp_path, concurrency=1)) == 0
        single = own.stored(arm.name)
        assert single is not None
        assert single.units["part"] == found.units["part"]


def test_what_does_not_fit_into_the_time_is_left(tmp_path: Path) -> None:
    arm = Variant("rag@none", "rag", {"": "none"})
    results = Results(tmp_path / "results")
    late = setup(tmp_path, until=0.0)
    left = run(study(TWO, arm), [arm], results, late)
    assert left == 2
    assert results.stored(arm.name) is None


def test_a_run_that_is_cut_off_keeps_its_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of a unit is answered when the model fails for good; the next run asks the other half alone."""
    arm = Variant("rag@none", "rag", {"": "none"})
    made = study(Source("world", "world:seed=7,articles=160,questions=8,split=test,hops=1"), arm)
    asked: list[str] = []

    def of(self: Engines, arm: Variant, questions: object) -> dict[str, ScriptedEngine]:
        def reply(context: object) -> str:
            asked.append(context.messages[-1].content)  # type: ignore[attr-defined]
            if len(asked) == 5:
                raise KeyboardInterrupt
            return "<answer>x</answer>"

        return {"": ScriptedEngine(reply)}

    monkeypatch.setattr(Engines, "of", of)
    results = Results(tmp_path / "results")
    with pytest.raises(KeyboardInterrupt):
        run(made, [arm], results, setup(tmp_path, concurrency=1))
    (begun,) = Results(tmp_path / "results").partial("rag@none").values()
    assert sorted(begun) == [0, 1, 2, 3]
    asked[:] = [""] * 5
    assert run(made, [arm], Results(tmp_path / "results"), setup(tmp_path, concurrency=1)) == 0
    assert len(asked) == 5 + 4
    assert Results(tmp_path / "results").partial("rag@none") == {}


def test_what_a_broken_engine_says_is_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arm = Variant("rag@none", "rag", {"": "none"})
    made = study(Source("world", "world:seed=7,articles=160,questions=8,split=test,hops=1"), arm)
    given = Engines.of

    def of(self: Engines, arm: Variant, questions: list[Question]) -> dict[str, object]:
        found = given(self, arm, questions)
        run, count = found[""].run, iter(range(100))

        async def fails(context: object, sampling: object) -> object:
            if next(count) == 3:
                found[""]._failure = EngineError("the torch engine failed: out of memory")
            return await run(context, sampling)

        monkeypatch.setattr(found[""], "run", fails)
        return found

    monkeypatch.setattr(Engines, "of", of)
    results = Results(tmp_path / "results")
    with pytest.raises(EngineError, match="out of memory; what was not answered before is left"):
        run(made, [arm], results, setup(tmp_path, concurrency=1))
    (begun,) = results.partial("rag@none").values()
    assert sorted(begun) == [0, 1, 2]
    assert results.stored(arm.name) is None


def test_the_harness_scores_as_the_evaluation_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same model, settings and questions through `subquest eval`'s runner and through a claim's arm."""
    import asyncio

    from subquest.evaluate.runner import evaluate as run_all
    from subquest.evaluate.runner import jobs_for
    from subquest.runs import RunStore

    def reads(context: object) -> str:
        """Answers with the titles of what it is shown, so that scores depend on every document and its order."""
        import re

        text = context.text  # type: ignore[attr-defined]
        titles = re.findall(r"Title: (.*?)\)", text)
        return f"<answer>{titles[0]} {titles[-1]}</answer>" if titles else "<search>Who is it?</search>"

    monkeypatch.setattr(Engines, "of", lambda self, arm, questions: {"": ScriptedEngine(reads)})
    arms = [
        Variant("rag@none", "rag", {"": "none"}, {"k": 2}),
        Variant("search-r1@none", "search-r1", {"": "none"}, {"turns": 3}),
        Variant("coda@none", "coda", {"": "none"}, {"turns": 2, "document_tokens": 40}),
    ]
    made = study(WORLD, *arms)
    results = Results(tmp_path / "results")
    run(made, arms, results, setup(tmp_path))
    (part,) = parts_of(WORLD, tmp_path)
    questions, place, _ = prepare(part, tmp_path / "cache")
    with Index.open(place) as index, RunStore.create(tmp_path / "run.sqlite") as store:
        engine = {"": ScriptedEngine(reads)}
        systems = {a.name: get(a.system)(engine, index, sampling=spec_of(a).sampling, **a.settings) for a in arms}
        asyncio.run(run_all(list(jobs_for(store, {"w": questions}, systems)), systems, store))
        asked = {s.id: (s.system, s.question) for s in store.summaries()}
        found = {(*asked[s.episode], s.metric): s.value for s in store.scores()}
    differing = 0
    for arm in arms:
        unit = results.stored(arm.name).units["world"]  # type: ignore[union-attr]
        for metric in ("em", "f1", "cem", "completion_tokens"):
            wanted = [round(1000 * found[arm.name, q.id, metric]) for q in questions]
            assert list(unit.values[metric]) == wanted
            differing += len(set(wanted)) > 1
        assert unit.means["searches"] == sum(found[arm.name, q.id, "searches"] for q in questions) / len(questions)
    assert differing >= 3  # scores that are all the same would prove nothing


@pytest.mark.slow
def test_the_embedded_model_answers_as_in_eval(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`subquest eval` and an arm on the same model, adapter, questions and settings: the same answers and scores."""
    from subquest.cli import main
    from subquest.models import default_adapter, smollm2_path
    from subquest.runs import RunStore

    if not smollm2_path().is_file() or default_adapter() is None:
        pytest.skip("the embedded model is not on this machine: subquest model get smollm2")
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        arm = Variant("autorefine@shipped", "autorefine", {"": "shipped"}, {"turns": 3, "k": 1})
        made = study(Source("world", "world:seed=7,articles=160,questions=1,split=test,hops=1"), arm)
        adapters = {"shipped": str(default_adapter())}
        results = Results(tmp_path / "results")
        progress = Progress(made, results, Stamps(made, adapters))
        given = setup(tmp_path, model="smollm2", adapters=adapters)
        answer_study(progress, [arm], given, data=tmp_path)
        world = ["--seed", "7", "--articles", "160", "--questions", "1", "--split", "test", "--hops", "1"]
        assert main(["world", "make", *world, "--out", str(tmp_path / "w")]) == 0
        system = ["--system", "autorefine", "--set", "turns=3", "-k", "1", "--max-tokens", "256"]
        out = tmp_path / "run.sqlite"
        assert main(["eval", str(tmp_path / "w"), "--model", "torch:smollm2", "--out", str(out), *system]) == 0
    finally:
        torch.set_num_threads(threads)
    with RunStore.open(out) as store:
        asked = {s.id: s.question for s in store.summaries()}
        found = {(asked[s.episode], s.metric): s.value for s in store.scores()}
    questions = prepare(parts_of(made.sources["world"], tmp_path)[0], tmp_path / "cache").questions
    unit = results.stored(arm.name).units["world"]  # type: ignore[union-attr]
    for metric in ("em", "f1", "cem", "completion_tokens"):
        assert list(unit.values[metric]) == [round(1000 * found[q.id, metric]) for q in questions]
    assert sum(unit.values["completion_tokens"]) > 0


async def test_sub_tasks_are_counted_without_their_helpers(asked) -> None:
    questions, index = asked
    question = next(q for q in questions if len(q.decomposition) == 2)
    episode = await HiRA(ScriptedEngine(HiraOracle(questions)), index).solve(question)
    handed_out = sum(len(e.data["steps"]) for e in episode.events if e.kind == "plan")
    assert scores_of(episode, score(episode))[0]["tasks"] == handed_out


def make_adapter(place: Path, seed: int = 0) -> str:
    """An adapter of the tiny model that changes what it writes."""
    import torch

    from subquest.train.checkpoints import save_trained
    from subquest.train.components import load_source, make_policy
    from subquest.train.recipe import ModelPart

    part, source = ModelPart("random:llama", rank=2), load_source("random:llama")
    policy = make_policy(part, source, device=torch.device("cpu"), seed=seed)
    for parameter in policy.parameters():
        if parameter.requires_grad:
            torch.nn.init.normal_(parameter, generator=torch.Generator().manual_seed(seed))
    save_trained(policy, place, base="random:llama")
    return str(place)


async def test_engines_hold_the_adapters_that_are_asked_for(tmp_path: Path) -> None:
    """The adapter of all roles is always in the first engine, whatever was there before."""
    for seed, name in enumerate(("a", "b")):
        make_adapter(tmp_path / name, seed)
    engines = Engines(setup(tmp_path, adapters={n: str(tmp_path / n) for n in ("a", "b")}))

    def weights(engine: object) -> float:
        return float(engine.weights.parts["model.layers.0.mlp.down_proj.weight"].double().sum())  # type: ignore[attr-defined]

    try:
        bare = weights(engines.of(Variant("x", "rag", {"": "none"}), [])[""])
        a = weights(engines.of(Variant("x", "rag", {"": "a"}), [])[""])
        both = engines.of(Variant("x", "apex", {"planner": "a", "": "b"}), [])
        b = weights(both[""])
        assert weights(both["planner"]) == a
        assert len({bare, a, b}) == 3
        again = engines.of(Variant("x", "rag", {"": "a"}), [])
        assert again[""] is both[""]
        assert weights(again[""]) == a
        assert weights(engines.of(Variant("x", "rag", {"": "none"}), [])[""]) == bare
    finally:
        await engines.close()


def test_missing_adapters_are_named() -> None:
    mixed = Variant("mixed", "apex", {"planner": "apex-plan", "": "none"})
    assert missing_adapter(mixed, {"shipped": "x"}) == "apex-plan"
    assert missing_adapter(mixed, {"apex-plan": "x"}) == ""
    assert missing_adapter(Variant("hira@oracle", "hira", {"": "oracle"}), {}) == ""
