"""The page: what it says of a claim with and without results."""

import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from subquest.study import Claim, Row, Source, Study, Training, Variant, find_study
from subquest.study.comparison import RESAMPLES, bootstrap
from subquest.study.design import Curve, Level
from subquest.study.page import Page
from subquest.study.results import Progress, Results, unit_of
from subquest.study.stamps import Stamps, training_digest

CODA = Variant("coda@none", "coda", {"": "none"})
RAG = Variant("rag@none", "rag", {"": "none"})
WORLD = Source("world", "world:seed=1,questions=4")


class Claimed:
    """A study of one claim, its results and its page."""

    def __init__(self, folder: Path, **changes: object) -> None:
        claim = Claim(
            "hierarchy", "CoDA", "Table 2", "it is better", setting="a large model", costs=("searches",),
            row=(Row("CoDA", "coda@none", paper={"world": 0.407}), Row("RAG", "rag@none")), expect=(("CoDA", "RAG"),),
            curve=(Curve("peco", ("f1",)),),
        )  # fmt: skip
        recipe = folder / "rl.toml"
        recipe.write_text("[optimiser]\nsteps = 4\n[rollout]\nquestions = 2\ngroup = 3\n")
        (folder / "page.md").write_text("# Mine\n\nEach training has {budgets}.\n\n{state}\n")
        trainings = {"peco": Training("peco", recipe)}
        variants = {CODA.name: CODA, RAG.name: RAG}
        claims = (replace(claim, **changes),)
        self.study = Study("mine", {"world": WORLD}, variants, claims, trainings, folder)
        self.results, self.stamps = Results(folder), Stamps(self.study)

    def add(
        self, variant: Variant, *em: float, part: str = "world", asked: str = WORLD.description, **more: list[float]
    ) -> None:
        figures = {"em": em, "searches": [float(n) for n in range(len(em))], **more}
        scores = [{name: values[n] for name, values in figures.items()} for n in range(len(em))]
        made = unit_of("world", asked, "q", [1, 2, 3, 4][: len(em)], scores)
        self.results.add(variant.name, self.stamps.of(variant), part, made)

    def text(self) -> str:
        return Page(Progress(self.study, self.results, self.stamps)).text()


def test_it_says_what_was_not_run(tmp_path: Path) -> None:
    text = Claimed(tmp_path).text()
    assert "| CoDA | *not yet measured* [0.407] |  |" in text
    assert "| CoDA, Table 2 | it is better | *not yet measured* |" in text
    assert "Training `peco`: *not yet measured*" in text
    assert "4 steps of 2 questions with 3 rollouts" in text.replace("\n", " ")


def test_it_compares_question_by_question(tmp_path: Path) -> None:
    page = Claimed(tmp_path)
    page.add(CODA, 1, 1, 1, 1)
    page.add(RAG, 0, 0, 0, 0)
    peco = page.study.trainings["peco"]
    page.results.keep_training("peco", training_digest(peco, ""), "adapter", {"f1": [(1, 0.25), (2, 0.5)]})
    text = page.text()
    assert "| CoDA | 1.000 (1.000–1.000; 4) [0.407] | 1.500 |" in text
    assert "- CoDA − RAG, EM: worlds +1.000 (+1.000 to +1.000; 4): **holds**" in text
    assert "| it is better | holds 1 |" in text
    assert "| F1 | 0.250 | 0.500 |" in text


@pytest.mark.parametrize(
    ("paper", "words"),
    [(0.1, "**"), (0.7, "**, smaller than the paper's +0.600"), (-0.9, "**, larger than the paper's -1.000")],
)
def test_a_difference_is_compared_with_the_papers(tmp_path: Path, paper: float, words: str) -> None:
    rows = Row("CoDA", "coda@none", paper={"world": paper}), Row("RAG", "rag@none", paper={"world": 0.1})
    page = Claimed(tmp_path, row=rows)
    page.add(CODA, 0.5, 0.5, 0.0, 0.5)
    page.add(RAG, 0.5, 0.5, 0.5, 0.0)
    (line,) = (line for line in page.text().splitlines() if line.startswith("- CoDA − RAG"))
    assert line.endswith(f"open{words}")


def test_a_training_is_shown_by_the_means_of_its_stretches(tmp_path: Path) -> None:
    page = Claimed(tmp_path)
    curve = [(step, value) for step, value in enumerate((0.0, 0.2, 0.3, 0.5, 0.4, 0.6, 0.7, 0.9), 1)]
    page.results.keep_training("peco", training_digest(page.study.trainings["peco"], ""), "adapter", {"f1": curve})
    text = page.text()
    assert "| training `peco`, steps | 1–2 | 3–4 | 5–6 | 7–8 |" in text
    assert "| F1 | 0.100 | 0.400 | 0.500 | 0.800 |" in text


def test_stale_rows_do_not_count_and_say_why(tmp_path: Path) -> None:
    page = Claimed(tmp_path)
    page.add(CODA, 1, 1, 1, 1)
    deeper = replace(CODA, settings={"k": 7})
    page.study = replace(page.study, variants={**page.study.variants, CODA.name: deeper})
    page.stamps = Stamps(page.study)
    text = page.text()
    assert "| CoDA | *stale* [0.407] |" in text
    assert "Stale: `coda@none` (k was 3, is 7)." in text


def test_results_of_other_questions_do_not_count(tmp_path: Path) -> None:
    page = Claimed(tmp_path)
    page.add(CODA, 1, 1, 1, 1, asked="world:seed=2,questions=4")
    assert "| CoDA | *not yet measured* [0.407] |" in page.text()


def test_a_row_that_is_not_complete_says_how_much_is_there(tmp_path: Path) -> None:
    page = Claimed(tmp_path)
    page.add(CODA, 1, 1, 1)
    assert "| CoDA | 1.000 (1.000–1.000; 3) [0.407] *(75% answered)* |" in page.text()


def test_only_questions_of_enough_hops_count(tmp_path: Path) -> None:
    page = Claimed(tmp_path, hops=3)
    page.add(CODA, 0, 0, 1, 1)
    assert "| CoDA | 1.000 (1.000–1.000; 2) [0.407] |" in page.text()


def test_by_hops(tmp_path: Path) -> None:
    page = Claimed(tmp_path, by_hops=True)
    page.add(CODA, 0, 1, 0, 1)
    assert "| CoDA | 0.000 | 1.000 | 0.000 | 1.000 |  |  | 0.500 (" in page.text()


def test_variants_are_pooled_and_a_question_counts_once(tmp_path: Path) -> None:
    """Two seeds that answer the same question are not two questions: the interval would be too narrow."""
    both = (Row("both", variants=("coda@none", "rag@none")), Row("CoDA alone", variants=("coda@none",)))
    page = Claimed(tmp_path, row=both, expect=(("both", "CoDA alone"),), curve=())
    page.add(CODA, 1, 1)
    text = page.text()
    assert "| both | 1.000 (1.000–1.000; 2) *(25% answered)* |" in text
    assert "both − CoDA alone" not in text  # one seed is no verdict on two
    page.add(RAG, 0, 0)
    page.add(RAG, 1, 1, part="world-2")  # the other variant's share
    text = page.text()
    assert "| both | 0.500 (0.500–0.500; 2) *(50% answered)* | 0.500 | 1.000, 0.000 |" in text
    assert "both − CoDA alone, EM: worlds -0.500 (-0.500 to -0.500; 2): **fails**" in text
    assert "its episodes have not been read" in text


def test_costs_and_losses_are_judged(tmp_path: Path) -> None:
    level = (Level("CoDA", "RAG", 0.5), Level("CoDA", "RAG", 0.2))
    page = Claimed(tmp_path, expect=(), level=level, cheaper=(("CoDA", "RAG", "interactions"),))
    page.add(CODA, 0.6, 0.6, 0.6, 0.6, interactions=[2.0, 2.0, 2.0, 2.0])
    page.add(RAG, 1, 1, 1, 1, interactions=[3.0, 3.0, 3.0, 3.0])
    text = page.text()
    assert "- CoDA − 50% of RAG, EM: worlds +0.100 (+0.100 to +0.100; 4): **holds**" in text
    assert "- CoDA − 80% of RAG, EM: worlds -0.200 (-0.200 to -0.200; 4): **fails**" in text
    assert "- RAG − CoDA, interactions: worlds +1.000 (+1.000 to +1.000; 4): **holds**" in text
    assert "| it is better | holds 2, fails 1 |" in text


def test_bootstrap_agrees_with_the_normal_interval() -> None:
    values = [1.0] * 300 + [0.0] * 700
    found = bootstrap(values)
    wide = 1.96 * (0.3 * 0.7 / 1000) ** 0.5
    assert found.mean == 0.3
    assert found.low == pytest.approx(0.3 - wide, abs=0.004)
    assert found.high == pytest.approx(0.3 + wide, abs=0.004)


@pytest.mark.parametrize("size", [1, 9, 300, 7405])
def test_draws_of_the_bootstrap_stay_as_they_are(size: int) -> None:
    """Published verdicts depend on them: the same as drawing one resample after the other."""
    values = np.random.default_rng(1).normal(size=size)
    draws = np.random.default_rng(0)
    means = [values[draws.integers(size, size=size)].mean() for _ in range(RESAMPLES)]
    assert bootstrap(values)[1:] == tuple(np.percentile(means, (2.5, 97.5)))


def test_the_page_of_the_papers_claims_is_written_before_anything_is_run(tmp_path: Path) -> None:
    study = find_study("claims")
    text = Page(Progress(study, Results(tmp_path), Stamps(study))).text()
    assert "24 steps of 32 questions with 8 rollouts each (`rl.toml`, `rl-apex.toml`)" in text
    assert all(f"### {claim.id}\n" in text for claim in study.claims)
    assert " 0 are complete" in text


def test_the_commands_below_the_tables_begin_from_nothing_and_name_what_there_is(tmp_path: Path) -> None:
    study = find_study("claims")
    text = Page(Progress(study, Results(tmp_path), Stamps(study))).text()
    commands = [shlex.split(line) for line in text.splitlines() if line.startswith("    subquest study claims --")]
    named = [c for c in commands if "--only" in c]
    assert len([c for c in named if "--run" in c]) == len(study.claims)
    for command in named:
        assert command[-2:] == ["--out", "again"], "stored results would leave nothing to do"
        known = study.select_trainings if "--train" in command else study.select
        for at, word in enumerate(command):
            if word == "--only":
                assert known([command[at + 1]]), command
