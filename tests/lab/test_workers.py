"""Processes that share the questions: the order of units, what is trained beside, and processes that fail."""

import multiprocessing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import workers
from workers import Answered, Ask, Schedule, answer_with_workers

from subquest.errors import EngineError
from subquest.study import Claim, Row, Source, Study, Training, Variant
from subquest.study.design import OURS
from subquest.study.questions import Prepared, parts_of
from subquest.study.results import Progress, Results
from subquest.study.runner import Recorder, Setup, Unit, open_units
from subquest.study.stamps import Stamps, file_digest
from tests.study.test_runner import TWO, make_adapter, run, setup, study

RECIPE = Path(__file__).parents[2] / "recipes" / "claims" / "rl.toml"


def waiting(
    folder: Path,
    *variants: Variant,
    parts: int = 2,
    real: bool = False,
    trainings: tuple[str, ...] = (),
    claims: tuple[Claim, ...] = (),
) -> Schedule:
    """A schedule of units of two questions each."""
    sources = {"world": Source("world", f"world:seeds=1-{parts},questions=2")}
    if real:
        sources["real"] = Source("real", "real.jsonl.gz", corpus=("corpus.jsonl.gz",))
    made = Study("s", sources, {v.name: v for v in variants}, claims, {t: Training(t, Path("x")) for t in trainings})
    found = {name: parts_of(source, Path()) for name, source in sources.items()}
    ready = {p.name: Prepared([None, None], Path(), p.name) for parts in found.values() for p in parts}  # type: ignore[list-item]
    stamps = Stamps(replace(made, trainings={}), {t: str(Path(__file__)) for t in (*trainings, "shipped")})
    progress = Progress(made, Results(folder), stamps)
    return Schedule(made, Recorder(progress, open_units(progress, variants, found, ready), lambda text: None))


def order(schedule: Schedule) -> list[Unit]:
    return [unit for _, unit in schedule.free]


def test_trained_adapters_come_first_and_the_bare_model_last(tmp_path: Path) -> None:
    variants = [Variant(f"rag@{a}", "rag", {"": a}, {"k": n}) for n, a in enumerate(("none", "shipped", "peco"), 1)]
    found = order(waiting(tmp_path, *variants, parts=1, trainings=("peco",)))
    assert [unit.variants[0].name for unit in found] == ["rag@peco", "rag@shipped", "rag@none"]


def test_the_worlds_of_what_one_claim_asks_for_come_last(tmp_path: Path) -> None:
    names = ("sweep@shipped", "rag@none", "rag@shipped", "rag@peco")
    variants = [Variant(name, "rag", {"": name.partition("@")[2]}, {"k": k}) for k, name in enumerate(names, 1)]
    stands = Claim("stands", OURS, "T", "s", row=tuple(Row(v.name, v.name) for v in variants[1:]))
    found = order(waiting(tmp_path, *variants, parts=1, real=True, trainings=("peco",), claims=(stands,)))
    assert [(unit.variants[0].name, unit.part.name) for unit in found] == [
        ("rag@peco", "world"), ("rag@peco", "real"),
        ("rag@shipped", "world"), ("rag@shipped", "real"),
        ("sweep@shipped", "real"),
        ("rag@none", "real"),
        ("sweep@shipped", "world"),
        ("rag@none", "world"),
    ]  # fmt: skip


def test_pooled_variants_answer_a_share_each(tmp_path: Path) -> None:
    seeds = [Variant(f"rag@{s}", "rag", {"": s}, {"k": n}) for n, s in enumerate(("a", "b"), 1)]
    pooled = Row("pooled", variants=("rag@a", "rag@b"))
    claim = Claim("c", "P", "T", "s", row=(pooled,))
    found = order(waiting(tmp_path, *seeds, parts=4, trainings=("a", "b"), claims=(claim,)))
    assert {(unit.variants[0].name, unit.part.name) for unit in found} == {
        ("rag@a", "world-2"), ("rag@a", "world-4"), ("rag@b", "world-1"), ("rag@b", "world-3"),
    }  # fmt: skip
    claim = replace(claim, row=(pooled, Row("alone", "rag@a")))
    assert len(order(waiting(tmp_path, *seeds, parts=4, trainings=("a", "b"), claims=(claim,)))) == 4 + 2


def test_workers_keep_their_weights_and_do_not_crowd(tmp_path: Path) -> None:
    variants = [Variant(f"rag@{name}", "rag", {"": name}, {"k": n}) for n, name in enumerate(("a", "b"), 1)]
    schedule = waiting(tmp_path, *variants, trainings=("a", "b"))

    def next_unit(weights: str, worker: str) -> Unit:
        found = schedule.next(Ask(weights, True), worker)
        assert found is not None
        return found[1]

    first, second = next_unit("", "1"), next_unit("", "2")
    assert [first.variants[0].name, second.variants[0].name] == ["rag@a", "rag@b"]
    assert next_unit(first.weights, "1").variants[0].name == "rag@a"
    assert next_unit(second.weights, "2").variants[0].name == "rag@b"
    assert schedule.next(Ask("", True), "3") is None


def test_a_worker_that_fails_leaves_its_answers_and_its_unit(tmp_path: Path) -> None:
    variant = Variant("rag@a", "rag", {"": "a"})
    schedule = waiting(tmp_path, variant, parts=2, trainings=("a",))
    number, unit = schedule.next(Ask("", True), "1") or (0, None)
    schedule.keep(Answered(number, {1: {"em": 1.0}}))
    schedule.recorder.save()
    assert list(Results(tmp_path).partial().values()) == [{1: {"em": 1.0}}]
    schedule.leave("1", failed=True)
    assert order(schedule)[-1] is unit, "the others come first"


def shared(made: Study, variants: list[Variant], results: Results, given: Setup, **more: object) -> int:
    progress = Progress(made, results, Stamps(made, model="random:llama"))
    return answer_with_workers(progress, variants, given, data=given.cache.parent, workers=2, **more)


@pytest.mark.slow
def test_several_processes_answer_what_one_would(tmp_path: Path) -> None:
    arm = Variant("rag@none", "rag", {"": "none"})
    made = study(TWO, arm)
    alone, together = Results(tmp_path / "alone"), Results(tmp_path / "together")
    assert run(made, [arm], alone, setup(tmp_path)) == 0
    assert shared(made, [arm], together, setup(tmp_path)) == 0
    first, second = alone.stored(arm.name), together.stored(arm.name)
    assert first is not None
    assert second is not None
    assert {n: u.values for n, u in first.units.items()} == {n: u.values for n, u in second.units.items()}


class Maker:
    """Stands for trainings: it takes one of two processes until the other variant is answered, and makes an adapter."""

    def __init__(self, results: Results, place: Path) -> None:
        self.results, self.place, self.taken = results, place, 1

    def step(self) -> dict[str, str]:
        if not self.taken or self.results.stored("rag@none") is None:
            return {}
        self.taken = 0
        return {"a": make_adapter(self.place)}


@pytest.fixture
def forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers are forked off a process that has imported torch once; each one of its own would do so again."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["workers", "subquest.train.components", "transformers.models.llama"])
    monkeypatch.setattr(workers, "multiprocessing", SimpleNamespace(get_context=lambda way: context))


@pytest.mark.slow
@pytest.mark.usefixtures("forked")
def test_what_is_trained_beside_is_answered_with(tmp_path: Path) -> None:
    arm, coming = Variant("rag@none", "rag", {"": "none"}), Variant("rag@a", "rag", {"": "a"})
    made = replace(study(TWO, arm, coming), trainings={"a": Training("a", RECIPE)})
    results = Results(tmp_path / "results")
    given = setup(tmp_path, adapters={"a": str(tmp_path / "a")})
    trainers = Maker(results, tmp_path / "a")
    assert shared(made, [arm], results, given, trainers=trainers, later=[coming]) == 0
    assert len(results.stored(arm.name).units) == 2  # type: ignore[union-attr]
    found = results.stored(coming.name)
    assert found is not None
    assert len(found.units) == 2
    assert found.stamp.weights == {"": f"random:llama+{file_digest(str(tmp_path / 'a'))}"}


@pytest.mark.slow
@pytest.mark.usefixtures("forked")
def test_a_worker_that_fails_is_replaced_and_the_others_go_on(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "adapter_model.safetensors").write_bytes(b"no weights")
    good, bad = Variant("rag@none", "rag", {"": "none"}), Variant("rag@bad", "rag", {"": "bad"})
    made = study(TWO, good, bad)
    results = Results(tmp_path / "results")
    adapters = {"bad": str(tmp_path / "bad")}
    progress = Progress(made, results, Stamps(made, adapters, model="random:llama"))
    given = setup(tmp_path, adapters=adapters)
    with pytest.raises(EngineError, match="one after another"):
        answer_with_workers(progress, [good, bad], given, data=tmp_path, workers=2)
    assert len(results.stored(good.name).units) == 2  # type: ignore[union-attr]
    assert results.stored(bad.name) is None
    assert "adapter" in capfd.readouterr().err
