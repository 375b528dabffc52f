"""What is left, and how it is cut into slices."""

from dataclasses import fields, replace
from pathlib import Path

import pytest

from subquest.claims.book import Arm, Book, Claim, Row, Source, Training
from subquest.claims.measure import Stamps
from subquest.claims.plan import left_by_kind, rows_of, slices_of, told
from subquest.claims.results import Results, unit_of
from subquest.claims.timing import UNSAID, evaluation_seconds, expected, guess, speed_kind, training_seconds

SOURCES = {"world": Source("world", "world:seeds=1-2,questions=300"), "real": Source("real", "real.jsonl.gz")}
CODA = Arm("coda@shipped", "coda", {"": "shipped"})
BARE = Arm("coda@none", "coda", {"": "none"})
PECO = Arm("coda@peco", "coda", {"": "peco"})


@pytest.fixture
def book(tmp_path: Path) -> Book:
    recipe = tmp_path / "rl.toml"
    recipe.write_text('kind = "rl"\nsystem = "coda"\n[rollout]\nquestions = 32\n[optimiser]\nsteps = 10\n')
    arms = {a.id: a for a in (CODA, BARE, PECO)}
    claim = Claim("c", "CoDA", "T", "s", row=tuple(Row(a, a) for a in arms))
    return Book(
        SOURCES, arms, {"peco": Training("peco", recipe)}, (claim,), tmp_path, shipped="one", origins={"": "start"}
    )


def test_sizes_and_kinds(book: Book) -> None:
    assert [expected(book, CODA, source) for source in ("world", "real")] == [600, 485]
    pooled = replace(book, claims=(Claim("c", "P", "T", "s", row=(Row("both", arms=(CODA.id, BARE.id)),)),))
    assert [expected(pooled, CODA, source) for source in ("world", "real")] == [300, 485]
    assert speed_kind(CODA) == "coda adapter k=3"
    assert speed_kind(BARE) == "coda bare k=3"
    assert guess(BARE) < guess(CODA)
    assert guess(Arm("x", "coda", {"": "shipped"}, {"k": 30})) < guess(CODA)


def test_measured_speeds_take_the_place_of_guesses(book: Book) -> None:
    speeds = {"coda adapter k=3": [1000.0, 50.0], "training coda, 256 rollouts": [20.0, 100.0]}
    assert evaluation_seconds(CODA, 200, speeds) == ("coda adapter k=3", 10.0, True)
    assert evaluation_seconds(CODA, 200, {}).seconds == 200 / guess(CODA)
    peco = book.trainings["peco"]
    assert training_seconds(peco, speeds) == ("training coda, 256 rollouts", 50.0, True)
    assert training_seconds(peco, speeds, done=8).seconds == 10.0
    assert training_seconds(replace(peco, set={"system": "rag", "optimiser.steps": 20}), speeds).measured is False


def test_what_a_recipe_does_not_say_is_what_the_trainer_takes() -> None:
    recipe = pytest.importorskip("subquest.train.recipe")
    rollout = recipe.RolloutPart()
    system = next(f.default for f in fields(recipe.Recipe) if f.name == "system")
    assert {"system": system, "rollout.questions": rollout.questions, "rollout.group": rollout.group} == UNSAID


def test_rows_count_what_is_complete_and_fresh(book: Book, tmp_path: Path) -> None:
    results, stamps = Results(tmp_path), Stamps(book)
    arms = list(book.arms.values())
    assert rows_of(book, arms, results, stamps) == (0, 6, 0)
    results.add(CODA.id, stamps.of(CODA), "real", unit_of("real", "real.jsonl.gz", "q", [1] * 485, [{"em": 1.0}] * 485))
    assert rows_of(book, arms, results, stamps) == (1, 5, 0)
    changed = Book(SOURCES, book.arms, book.trainings, book.claims, tmp_path, shipped="another", origins={"": "start"})
    assert rows_of(changed, arms, results, Stamps(changed)) == (0, 6, 2)


def test_slices_train_first_and_hold_everything(book: Book, tmp_path: Path) -> None:
    results = Results(tmp_path)
    results.keep_speed("coda adapter k=3", 100, 100)  # a question a second: 1,085 take 4.5 minutes of 4 processes
    results.keep_speed("coda bare k=3", 100, 100)
    results.keep_speed("training coda, 256 rollouts", 10, 120)
    arms = list(book.arms.values())
    slices = slices_of(book, arms, results, Stamps(book), minutes=6, workers=4)
    assert [t.id for t in slices[0].trainings] == ["peco"]
    assert slices[0].training == 2
    assert all(s.minutes <= 6.01 for s in slices)
    assert sum(sum(s.questions.values()) for s in slices) == pytest.approx(3 * 1085, abs=3)
    assert "coda bare k=3" not in slices[0].questions | slices[1].questions  # the bare model is asked last
    assert told(slices)[-1] == f"together: {sum(s.minutes for s in slices):.0f} min"
    left = {
        kind: (round(minutes, 2), known)
        for kind, minutes, known in left_by_kind(book, arms, results, Stamps(book), workers=4)
    }
    asked = {"coda adapter k=3": (9.04, True), "coda bare k=3": (4.52, True)}
    assert left == asked | {"training coda, 256 rollouts": (0.5, True)}


def test_nothing_left(tmp_path: Path) -> None:
    empty = Book({}, {}, {}, (), tmp_path)
    assert told(slices_of(empty, [], Results(tmp_path), Stamps(empty), minutes=9, workers=1)) == ["nothing is left"]
