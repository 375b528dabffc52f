"""Gold traces as token arrays: the same batch as the episodes give, kept in a file without loss."""

import os
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
import torch

from subquest.cli import main
from subquest.engine.torch import loader
from subquest.errors import ConfigError, DataError
from subquest.record import Document
from subquest.retrieval import Index
from subquest.runs import RunStore
from subquest.train.batch import Rollout, pack
from subquest.train.components import load_source
from subquest.train.gold_traces import _pool, gold_traces, opening_of
from subquest.train.launch import prepare
from subquest.train.random_model import tiny_source
from subquest.train.recipe import load_recipe
from subquest.train.traces import TraceSet, join, traces_of

from .episodes import episode, rollouts_of, trajectory

RECIPES = Path(__file__).resolve().parents[2] / "recipes"

EPISODES = [
    rollouts_of("a", {"planner": 1, "executor": 2}),
    episode(
        "b", trajectory("b-0", "planner", ("prompt", [5, 70_000]), ("agent", [6]), ("env", [7]), ("agent", [8, 9]))
    ),
    episode(
        "c", trajectory("c-0", "planner", ("prompt", [5])), trajectory("c-1", "x", ("prompt", [1]), ("agent", [2]))
    ),
]


@pytest.mark.parametrize("chosen", [[0, 1, 2], [2, 0], [1]])
def test_a_batch_is_the_one_that_the_episodes_give(chosen: list[int]) -> None:
    rollouts = [Rollout(EPISODES[i], {t.id: 1.0 for t in EPISODES[i].trajectories}) for i in chosen]
    expected, found = pack(rollouts), traces_of(EPISODES).batch(chosen)
    for name in ("token_ids", "lengths", "rows", "advantages", "weights"):
        assert torch.equal(getattr(found, name), getattr(expected, name)), name
    assert torch.equal(found.layout.trajectory, expected.layout.trajectory)
    assert torch.equal(found.layout.rollout, expected.layout.rollout)


def test_a_file_keeps_everything(tmp_path: Path) -> None:
    kept = join([traces_of(EPISODES[:1], Counter({"no gold plan": 2})), traces_of(EPISODES[1:])])
    kept.save(tmp_path / "deep" / "traces.xz")
    again = TraceSet.load(tmp_path / "deep" / "traces.xz")
    assert torch.equal(again.batch([0, 1, 2]).token_ids, kept.batch([0, 1, 2]).token_ids)
    assert torch.equal(again.batch([0, 1, 2]).rows, kept.batch([0, 1, 2]).rows)
    assert (again.rejected, again.made_by) == (Counter({"no gold plan": 2}), Counter({"test": 3}))


def test_only_the_roles_asked_for_are_kept() -> None:
    whole, planners = traces_of(EPISODES), traces_of(EPISODES, roles=["planner"])
    kept = [t for e in EPISODES for t in e.trajectories if t.role == "planner" and any(t.action_mask)]
    assert planners.lengths.tolist() == [len(t.token_ids) for t in kept]
    assert len(planners) == len(whole) == len(EPISODES)
    assert len(planners.lengths) < len(whole.lengths)


def test_a_role_that_no_system_has_is_named() -> None:
    source = {"questions": "world:seed=1,articles=160,questions=24", "roles": ["plannr"]}
    recipe = load_recipe(RECIPES / "coda-sft-smoke.toml", {"data": [source]})
    with pytest.raises(ConfigError, match="no role 'plannr' in coda; there are planner, executor"):
        gold_traces(recipe, tiny_source())


def test_only_what_fits_the_model_is_learnt_from() -> None:
    long = trajectory("d-0", "planner", ("prompt", [1] * 40), ("agent", [2, 3]))
    short = trajectory("d-1", "executor", ("prompt", [4]), ("agent", [5]))
    both, alone = episode("d", long, short), episode("e", replace(long, id="e-0"))
    idle = episode("f", trajectory("f-0", "planner", ("prompt", [5])))
    traces = traces_of([both, alone, idle, EPISODES[0]], Counter({"no gold plan": 1}))
    assert traces.fitting(42, 70).lengths.tolist() == traces.lengths.tolist()
    assert len(traces.fitting(42, 70)) == 3, "an episode without anything written is none"
    kept = join([traces, traces_of([both], weight=8.0)]).fitting(41, 70)
    assert torch.equal(kept.batch([0]).token_ids, torch.tensor([4, 5]))
    assert torch.equal(kept.batch([1]).token_ids, traces_of(EPISODES[:1]).batch([0]).token_ids)
    assert kept.batch([2]).weights.tolist() == [8.0]
    assert len(kept) == 3
    assert kept.rejected == {"no gold plan": 1, "trajectory longer than the window of 41 tokens": 3}
    with pytest.raises(DataError, match="knows 5 tokens: they were prepared for another model"):
        traces.fitting(42, 5)


def test_traces_of_another_model_and_traces_that_are_too_long_are_refused(tmp_path: Path) -> None:
    recipe = load_recipe(RECIPES / "coda-sft-smoke.toml")
    source = tiny_source("llama", vocabulary=260)
    for tokens, reason in (([5] * source.architecture.window, "longer than the window"), ([300], "another model")):
        path = tmp_path / "traces.xz"
        traces_of([episode("a", trajectory("a-0", "planner", ("prompt", tokens), ("agent", [2])))]).save(path)
        with pytest.raises(DataError, match=reason):
            gold_traces(replace(recipe, traces=(str(path),)), source)


def test_traces_of_another_vocabulary_are_known_by_what_they_say(tmp_path: Path) -> None:
    """Ids alone do not show it where the other vocabulary is the smaller one."""
    recipe = load_recipe(RECIPES / "coda-sft-smoke.toml")
    named = replace(recipe, model=replace(recipe.model, path="a-model"), traces=(str(tmp_path / "t.xz"),))
    mine = tiny_source("llama", vocabulary=260)
    ids = mine.tokenizer.encode("words of a question")
    traces = traces_of([episode("a", trajectory("a-0", "planner", ("prompt", ids), ("agent", [2])))])
    replace(traces, opening=opening_of(traces, mine)).save(tmp_path / "t.xz")
    assert len(gold_traces(named, mine)) == 1
    assert TraceSet.load(tmp_path / "t.xz").opening.startswith("words of a question")
    replace(traces, opening="other words").save(tmp_path / "t.xz")
    with pytest.raises(DataError, match="prepared for another model: 'words of a question"):
        gold_traces(named, mine)
    assert len(gold_traces(replace(named, model=recipe.model), mine)) == 1


@pytest.mark.slow
def test_processes_that_make_traces_end_with_what_started_them() -> None:
    def begun(pool: ProcessPoolExecutor) -> list[BaseProcess]:
        assert pool.submit(os.getpid).result() != os.getpid()
        pool.submit(time.sleep, 3600)
        return list(pool._processes.values())  # type: ignore[arg-type]

    processes: list[BaseProcess] = []
    with pytest.raises(KeyboardInterrupt), _pool(1) as pool:  # noqa: PT012
        processes += begun(pool)
        raise KeyboardInterrupt
    assert not any(process.is_alive() for process in processes)
    with pytest.raises(DataError, match="was killed, perhaps for want of memory"), _pool(1) as pool:  # noqa: PT012
        begun(pool)[0].kill()
        pool.submit(os.getpid).result()


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "traces.xz"
    traces_of(EPISODES).save(path)
    whole = path.read_bytes()
    for broken in (b"", b"hello", whole[: len(whole) // 2]):
        path.write_bytes(broken)
        with pytest.raises(DataError, match=r"traces\.xz"):
            TraceSet.load(path)


@pytest.mark.slow
def test_prepared_traces_take_the_place_of_making_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, file = RECIPES / "coda-sft-smoke.toml", tmp_path / "traces.xz"
    assert main(["train", str(path), "--prepare", str(file)]) == 0
    assert "sha256" in capsys.readouterr().err
    recipe = load_recipe(path)
    made = gold_traces(recipe, load_source(recipe.model.path))
    read = gold_traces(load_recipe(path, {"traces": [str(file)]}), load_source(recipe.model.path))
    assert len(read) == len(made) > 0
    assert torch.equal(read.batch([0]).token_ids, made.batch([0]).token_ids)
    settings = ["--set", f'traces=["{file}"]', "--set", "optimiser.batch=2"]
    assert main(["train", str(path), "--out", str(tmp_path / "run"), *settings]) == 0
    assert "gold traces (coda" in capsys.readouterr().err


def test_reinforcement_learning_has_no_traces_to_prepare(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", str(RECIPES / "coda-peco-smoke.toml"), "--prepare", str(tmp_path / "t.xz")]) == 2
    assert "kind rl" in capsys.readouterr().err


def test_the_best_evaluation_can_be_read(tmp_path: Path) -> None:
    path = RECIPES / "coda-sft-smoke.toml"
    settings = ["--set", "optimiser.steps=1", "--set", "optimiser.batch=2"]
    assert main(["train", str(path), "--out", str(tmp_path / "run"), *settings]) == 0
    with RunStore.open(tmp_path / "run" / "run.sqlite") as store:
        kept = [summary.id for summary in store.summaries()]
        figures = {metric.name for metric in store.metrics()}
    assert kept[:2] == ["dev-1-0", "dev-1-1"]
    best, last = ((tmp_path / "run" / name / "adapter_model.safetensors").read_bytes() for name in ("best", "last"))
    assert best == last  # the only step was evaluated
    assert {"dev_em", "dev_em_2hop", "dev_em_comparison"} <= figures


def test_a_slice_without_an_evaluation_leaves_weights_too(tmp_path: Path) -> None:
    settings = ["--set", "optimiser.steps=2", "--set", "evaluate_every=2", "--minutes", "0"]
    assert main(["train", str(RECIPES / "coda-sft-smoke.toml"), "--out", str(tmp_path), *settings]) == 0
    assert not (tmp_path / "best").exists()
    assert (tmp_path / "last" / "adapter_model.safetensors").is_file()
    assert (tmp_path / "last" / "step.json").read_text() == '{"step": 0}'


def test_traces_are_prepared_without_the_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large model takes gigabytes, and only its vocabulary and window are needed."""
    monkeypatch.setattr(loader, "values", lambda *a: pytest.fail("the weights were read"))
    assert not load_source("smollm2", weights=False).state
    (tmp_path / "r.toml").write_text(
        'name = "x"\nkind = "sft"\nsystem = "direct"\n[model]\npath = "smollm2"\n'
        '[[data]]\nquestions = "world:seed=1,articles=160,questions=4"\n'
    )
    assert "4 gold traces" in prepare(load_recipe(tmp_path / "r.toml"), tmp_path / "traces.xz")


def test_the_passages_of_a_source_are_indexed_once_for_all_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    from subquest.train import gold_traces as making

    built: list[Path] = []
    opened = making.open_search

    def counted(documents: Iterable[Document], folder: Path, papers: Sequence[Path]) -> Index:
        built.append(folder)
        return opened(documents, folder, papers)

    monkeypatch.setattr(making, "open_search", counted)
    source = {"questions": "world:seed=1,articles=160,questions=24", "systems": ["coda", "rag", "rerank"]}
    made = gold_traces(load_recipe(RECIPES / "coda-sft-smoke.toml", {"data": [source]}), tiny_source())
    assert {"coda", "rag"} <= made.made_by.keys()
    assert len(built) == 1
