"""Stored results: what is kept, when it counts, and what is left over from a run that was cut off."""

import functools
from dataclasses import replace
from pathlib import Path

import pytest

from subquest.record import Question
from subquest.study import Study, Training, Variant, read_study, stamps
from subquest.study.results import Progress, Results, questions_digest, unit_of
from subquest.study.stamps import Stamp, Stamps, known_as, measured, search_fingerprint, training_digest
from subquest.systems.baselines.rag import RAGSettings
from subquest.systems.coda import CoDA, CoDASettings

from .small_study import write_small_study

CODA = Variant("coda@none", "coda", {"": "none"})
STAMP = Stamp({"system": "coda", "settings": {"k": 3}}, {"": "w"})


def unit(*em: float, source: str = "world", questions: str = "q"):
    scores = [{"em": v, "f1": v / 2, "searches": float(n)} for n, v in enumerate(em)]
    return unit_of(source, "asked", questions, [1, 2, 3, 4][: len(em)], scores)


def test_a_unit_keeps_metrics_by_question_and_costs_as_means(tmp_path: Path) -> None:
    Results(tmp_path).add("coda@none", STAMP, "world-1", unit(1, 0, 1, 1))
    found = Results(tmp_path).fresh("coda@none", STAMP)
    assert found is not None
    stored = found.units["world-1"]
    assert stored.metric("em") == [1, 0, 1, 1]
    assert stored.metric("f1", hops=3) == [0.5, 0.5]
    assert stored.means == {"searches": 1.5}


def test_a_unit_counts_for_its_stamp_and_questions_alone(tmp_path: Path) -> None:
    results = Results(tmp_path)
    results.add("coda@none", STAMP, "world-1", unit(1, 0))
    assert Results(tmp_path).unit("coda@none", STAMP, "world-1", "q") == unit(1, 0)
    assert results.unit("coda@none", STAMP, "world-2", "q") is None
    assert results.unit("coda@none", STAMP, "world-1", "other") is None
    assert results.unit("coda@none", replace(STAMP, weights={"": "v"}), "world-1", "q") is None
    deeper = replace(STAMP, measured={"system": "coda", "settings": {"k": 5}})
    assert results.unit("coda@none", deeper, "world-1", "q") is None
    assert results.stale("coda@none", deeper) == "k was 3, is 5"
    assert results.stale("coda@none", STAMP) == ""


def test_weights_that_are_not_at_hand_are_taken_on_trust_of_their_recipe(tmp_path: Path) -> None:
    made = Stamp({"system": "coda"}, {"": "w"}, {"": "recipe"})
    results = Results(tmp_path)
    results.add("coda@peco", made, "world-1", unit(1))
    assert results.fresh("coda@peco", replace(made, weights={"": ""})) is not None
    assert results.fresh("coda@peco", replace(made, weights={"": ""}, recipes={"": "other"})) is None
    assert results.stale("coda@peco", replace(made, recipes={"": "other"})) == "its training has changed"


def test_other_weights_start_a_variant_again(tmp_path: Path) -> None:
    results = Results(tmp_path)
    results.add("coda@none", STAMP, "world-1", unit(1, 0))
    results.add("coda@none", replace(STAMP, weights={"": "v"}), "world-2", unit(1, 1))
    found = Results(tmp_path).stored("coda@none")
    assert found is not None
    assert list(found.units) == ["world-2"]


def test_what_is_under_way_is_found_again(tmp_path: Path) -> None:
    Results(tmp_path).keep_partial("rag", {"a": {3: {"em": 1.0}}, "b": {}})
    Results(tmp_path).keep_partial("coda", {"c": {1: {"em": 0.0}}})  # another process
    assert Results(tmp_path).partial("rag") == {"a": {3: {"em": 1.0}}}
    assert Results(tmp_path).partial("coda") == {"c": {1: {"em": 0.0}}}
    for name, key in (("rag", "a"), ("coda", "c")):
        Results(tmp_path).keep_partial(name, {key: {}})
    assert list(tmp_path.iterdir()) == []


def test_a_changed_default_makes_a_row_stale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = Study("s", {}, {CODA.name: CODA})
    results = Results(tmp_path)
    results.add(CODA.name, Stamps(study).of(CODA), "world", unit(1))
    assert results.fresh(CODA.name, Stamps(study).of(CODA)) is not None

    class Wider(CoDASettings):
        def __init__(self, **given: object) -> None:
            super().__init__(**{"document_tokens": 200, **given})

    before = CoDASettings().document_tokens
    monkeypatch.setattr(CoDA, "Settings", Wider)
    stamp = Stamps(study).of(CODA)
    assert results.fresh(CODA.name, stamp) is None
    assert results.stale(CODA.name, stamp) == f"document_tokens was {before}, is 200"


def test_a_changed_prompt_makes_a_row_stale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = Stamp(measured(CODA), {"": "w"})
    folder = tmp_path / "prompts"
    folder.mkdir()
    for file in (CoDA.prompt_folder() / "compact").glob("*.md"):
        (folder / file.name).write_text(file.read_text() + "!")
    monkeypatch.setattr(CoDA, "prompt_folder", classmethod(lambda cls: folder))
    assert Stamp(measured(CODA), {"": "w"}).differs(before).startswith("prompts was ")


def test_defaults_that_a_dialect_sets_are_filled_in() -> None:
    found = measured(Variant("s", "search-r1", {"": "none"}))
    assert (found["settings"]["turns"], found["settings"]["k"]) == (4, 3)  # Search-R1's own
    assert found["sampling"]["temperature"] == 0
    assert measured(Variant("r", "rag", {"": "none"}))["settings"]["k"] == RAGSettings().k


def test_variants_that_are_the_same_measurement_have_the_same_key(tmp_path: Path) -> None:
    said = Variant("coda,k=3@none", "coda", {"": "none"}, {"k": CoDASettings().k})
    other = Variant("coda,k=5@none", "coda", {"": "none"}, {"k": 5})
    stamps = Stamps(Study("s", {}, {v.name: v for v in (CODA, said, other)}))
    assert stamps.of(CODA).key == stamps.of(said).key != stamps.of(other).key


def test_a_training_is_known_by_what_it_learns_not_by_how_fast(tmp_path: Path) -> None:
    recipe = tmp_path / "rl.toml"
    text = 'system = "rag"\nreward = "autorefine"\n[rollout]\nconcurrency = 8\n[optimiser]\nsteps = 4\n'
    recipe.write_text(text)
    training = Training("rag", recipe)
    before = training_digest(training, "start")
    recipe.write_text(text.replace("concurrency = 8", "concurrency = 16"))
    assert training_digest(training, "start") == before
    recipe.write_text(text.replace("steps = 4", "steps = 5"))
    assert training_digest(training, "start") != before
    recipe.write_text(text)
    assert training_digest(training, "other") != before
    assert training_digest(replace(training, set={"k": 5}), "start") != before


def test_a_study_computes_the_digest_of_a_training_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[str] = []

    def counted(training: Training, start: str) -> str:
        computed.append(training.name)
        return training_digest(training, start)

    monkeypatch.setattr(stamps, "training_digest", counted)
    write_small_study(tmp_path)
    study = read_study(tmp_path)
    computed.clear()
    training = study.trainings["rl"]
    for _ in range(3):
        progress = Progress(study, Results(tmp_path / "results"), Stamps(study))
        progress.rows(study.variants.values())
        progress.untrained([training])
        before = known_as(study, training)
    assert computed == ["rl"]
    training.recipe.write_text(training.recipe.read_text().replace("steps = 3", "steps = 40"))
    assert known_as(study, training) != before
    assert known_as(replace(study, origins={"cold": "x"}, start="cold"), training) != known_as(study, training)


def test_questions_are_known_by_their_words_and_passages() -> None:
    asked = [Question("a", "Who?", ("Ann",))]
    same = questions_digest(asked, "index")
    assert questions_digest([replace(asked[0], hops=2)], "index") == same
    assert questions_digest([replace(asked[0], answers=("Bob",))], "index") != same
    assert questions_digest(asked, "other") != same


def test_another_ranking_is_another_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    from subquest.retrieval import titles
    from subquest.retrieval.bm25 import BM25

    before, stamp = search_fingerprint(), Stamp(measured(CODA), {"": "w"})
    assert stamp.measured["search"] == "auto"
    assert search_fingerprint.__wrapped__() == before  # the same wherever and whenever it is asked
    monkeypatch.setattr(titles, "BONUS", 0.0)  # named articles no longer come first
    without = search_fingerprint.__wrapped__()
    monkeypatch.undo()
    monkeypatch.setattr(titles, "_meant", lambda title, query, analysis: True)  # Film is found in `which film`
    loose = search_fingerprint.__wrapped__()
    monkeypatch.undo()
    monkeypatch.setattr(BM25, "__init__", functools.partialmethod(BM25.__init__, b=0.1))
    lengths = search_fingerprint.__wrapped__()
    assert len({before, without, loose, lengths}) == 4
    assert Stamp({**stamp.measured, "ranking": without}, {"": "w"}).differs(stamp).startswith("ranking was ")
