"""The page: what it says of a claim with and without results."""

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from subquest.claims.book import Arm, Book, Claim, Curve, Level, Row, Source, Training, default_folder, read_book
from subquest.claims.measure import Stamps, training_digest
from subquest.claims.page import Page, bootstrap
from subquest.claims.results import Results, unit_of

CODA = Arm("coda@none", "coda", {"": "none"})
RAG = Arm("rag@none", "rag", {"": "none"})
WORLD = Source("world", "world:seed=1,questions=4")


class Desk:
    """A book of one claim, its results and its page."""

    def __init__(self, folder: Path, **changes: object) -> None:
        claim = Claim(
            "hierarchy", "CoDA", "Table 2", "it is better", setting="a large model", costs=("searches",),
            row=(Row("CoDA", "coda@none", paper={"world": 0.407}), Row("RAG", "rag@none")), expect=(("CoDA", "RAG"),),
            curve=(Curve("peco", ("f1",)),),
        )  # fmt: skip
        recipe = folder / "rl.toml"
        recipe.write_text("[optimiser]\nsteps = 4\n[rollout]\nquestions = 2\ngroup = 3\n")
        trainings = {"peco": Training("peco", recipe)}
        arms = {CODA.id: CODA, RAG.id: RAG}
        self.book = Book({"world": WORLD}, arms, trainings, (replace(claim, **changes),), folder)
        self.results, self.stamps = Results(folder), Stamps(self.book)

    def add(self, arm: Arm, *em: float, part: str = "world", told: str = WORLD.told, **more: list[float]) -> None:
        figures = {"em": em, "searches": [float(n) for n in range(len(em))], **more}
        scores = [{name: values[n] for name, values in figures.items()} for n in range(len(em))]
        made = unit_of("world", told, "q", [1, 2, 3, 4][: len(em)], scores)
        self.results.add(arm.id, self.stamps.of(arm), part, made)

    def text(self) -> str:
        return Page(self.book, self.results, self.stamps).text()


def test_it_says_what_was_not_run(tmp_path: Path) -> None:
    text = Desk(tmp_path).text()
    assert "| CoDA | *not run* [0.407] |  |" in text
    assert "| CoDA, Table 2 | it is better | *not run* |" in text
    assert "Training `peco`: *not run*" in text
    assert "4 steps of 2 questions with 3 rollouts" in text.replace("\n", " ")


def test_it_compares_question_by_question(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.add(CODA, 1, 1, 1, 1)
    desk.add(RAG, 0, 0, 0, 0)
    peco = desk.book.trainings["peco"]
    desk.results.keep_training("peco", training_digest(peco, ""), "adapter", {"f1": [(1, 0.25), (2, 0.5)]})
    text = desk.text()
    assert "| CoDA | 1.000 (1.000–1.000; 4) [0.407] | 1.500 |" in text
    assert "- CoDA − RAG, EM: worlds +1.000 (+1.000 to +1.000; 4): **holds**" in text
    assert "| it is better | holds 1 |" in text
    assert "| F1 | 0.250 | 0.500 |" in text


def test_a_training_is_shown_by_the_means_of_its_stretches(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    curve = [(step, value) for step, value in enumerate((0.0, 0.2, 0.3, 0.5, 0.4, 0.6, 0.7, 0.9), 1)]
    desk.results.keep_training("peco", training_digest(desk.book.trainings["peco"], ""), "adapter", {"f1": curve})
    text = desk.text()
    assert "| training `peco`, steps | 1–2 | 3–4 | 5–6 | 7–8 |" in text
    assert "| F1 | 0.100 | 0.400 | 0.500 | 0.800 |" in text


def test_stale_rows_do_not_count_and_say_why(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.add(CODA, 1, 1, 1, 1)
    deeper = replace(CODA, settings={"k": 7})
    desk.book = replace(desk.book, arms={**desk.book.arms, CODA.id: deeper})
    desk.stamps = Stamps(desk.book)
    text = desk.text()
    assert "| CoDA | *stale* [0.407] |" in text
    assert "Stale: `coda@none` (k was 3, is 7)." in text


def test_results_of_other_questions_do_not_count(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.add(CODA, 1, 1, 1, 1, told="world:seed=2,questions=4")
    assert "| CoDA | *not run* [0.407] |" in desk.text()


def test_a_row_that_is_not_complete_says_how_much_is_there(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.add(CODA, 1, 1, 1)
    assert "| CoDA | 1.000 (1.000–1.000; 3) [0.407] *(75% answered)* |" in desk.text()


def test_only_questions_of_enough_hops_count(tmp_path: Path) -> None:
    desk = Desk(tmp_path, hops=3)
    desk.add(CODA, 0, 0, 1, 1)
    assert "| CoDA | 1.000 (1.000–1.000; 2) [0.407] |" in desk.text()


def test_by_hops(tmp_path: Path) -> None:
    desk = Desk(tmp_path, by_hops=True)
    desk.add(CODA, 0, 1, 0, 1)
    assert "| CoDA | 0.000 | 1.000 | 0.000 | 1.000 |  |  | 0.500 (" in desk.text()


def test_arms_are_pooled_and_compared_seed_by_seed(tmp_path: Path) -> None:
    both = (Row("both", arms=("coda@none", "rag@none")), Row("CoDA alone", arms=("coda@none",)))
    desk = Desk(tmp_path, row=both, expect=(("both", "CoDA alone"),), curve=())
    desk.add(CODA, 1, 1)
    desk.add(RAG, 0, 0)
    desk.add(RAG, 1, 1, part="world-2")  # the other arm's share
    text = desk.text()
    assert "| both | 0.500 (0.000–1.000; 4) *(50% answered)* | 0.500 | 1.000, 0.000 |" in text
    assert "both − CoDA alone, EM: worlds +0.000 (+0.000 to +0.000; 2): **open**" in text


def test_costs_and_losses_are_judged(tmp_path: Path) -> None:
    level = (Level("CoDA", "RAG", 0.5), Level("CoDA", "RAG", 0.2))
    desk = Desk(tmp_path, expect=(), level=level, cheaper=(("CoDA", "RAG", "interactions"),))
    desk.add(CODA, 0.6, 0.6, 0.6, 0.6, interactions=[2.0, 2.0, 2.0, 2.0])
    desk.add(RAG, 1, 1, 1, 1, interactions=[3.0, 3.0, 3.0, 3.0])
    text = desk.text()
    assert "- CoDA − 50% of RAG, EM: worlds +0.100 (+0.100 to +0.100; 4): **holds**" in text
    assert "- CoDA − 80% of RAG, EM: worlds -0.200 (-0.200 to -0.200; 4): **fails**" in text
    assert "- RAG − CoDA, interactions: worlds +1.000 (+1.000 to +1.000; 4): **holds**" in text
    assert "| it is better | holds 2, fails 1 |" in text


def test_bootstrap_agrees_with_the_normal_interval() -> None:
    values = [1.0] * 300 + [0.0] * 700
    found = bootstrap(values)
    wide = 1.96 * (0.3 * 0.7 / 1000) ** 0.5
    assert (found.mean, found.n) == (0.3, 1000)
    assert found.low == pytest.approx(0.3 - wide, abs=0.004)
    assert found.high == pytest.approx(0.3 + wide, abs=0.004)


def test_the_page_of_the_papers_claims_is_written_before_anything_is_run(tmp_path: Path) -> None:
    book = read_book(default_folder())
    text = Page(book, Results(tmp_path), Stamps(book)).text()
    assert "24 steps of 32 questions with 8 rollouts each (`rl.toml`, `rl-apex.toml`)" in text
    assert all(f"### {claim.id}\n" in text for claim in book.claims)
    assert " 0 are complete" in text


def test_the_commands_below_the_tables_begin_from_nothing_and_name_what_there_is(tmp_path: Path) -> None:
    book = read_book(default_folder())
    text = Page(book, Results(tmp_path), Stamps(book)).text()
    commands = [shlex.split(line) for line in text.splitlines() if line.startswith("    subquest study claims --")]
    told = [c for c in commands if "--only" in c]
    assert len([c for c in told if "--run" in c]) == len(book.claims)
    for command in told:
        assert command[-2:] == ["--out", "again"], "stored results would leave nothing to do"
        known = book.trained if "--train" in command else book.chosen
        for at, word in enumerate(command):
            if word == "--only":
                assert known([command[at + 1]]), command
