"""The pages of the claims: every command that they show is run on a tiny model, and what they say before and after."""

import itertools
import re
import shlex
import shutil
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path
from types import SimpleNamespace

import pytest

from subquest.cli import main
from subquest.study import find_study, read_study
from subquest.study.overview import Overview
from subquest.study.page import UNEXPLAINED, Page
from subquest.study.results import Progress, Results, unit_of
from subquest.study.stamps import Stamps
from subquest.study.training import adapter_of, open_progress
from subquest.tools.sandbox import SandboxUnavailable, bubblewrap

from .tiny_claims import MODEL, write_tiny_claims

ROOT = Path(__file__).parents[2]
TRAINED = ("peco", "autorefine", "apex-exec", "decor,alpha=0.6,seed=0")
"""One training of each kind; the others differ in a setting or the seed, and get the adapter of one of these."""


def commands(page: Path) -> list[list[str]]:
    return [shlex.split(line) for line in page.read_text().splitlines() if line.startswith("    subquest study claims")]


class InThisProcess:
    """A training where the libraries are loaded already; tests/study/test_training.py starts processes for them."""

    def __init__(self, command: list[str], **_: object) -> None:
        self._status = main(command[command.index("train") :])

    def wait(self) -> int:
        return self._status


@pytest.mark.slow
def test_every_command_of_the_pages_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    try:
        bubblewrap.way()
    except SandboxUnavailable:
        monkeypatch.setenv("SUBQUEST_SANDBOX_URL", "http://127.0.0.1:9")  # a random model calls no code
    monkeypatch.setattr("subquest.study.training.subprocess", SimpleNamespace(Popen=InThisProcess))
    recipes = write_tiny_claims(tmp_path)
    study, runs = read_study(recipes), tmp_path / "runs"
    where = ["--recipes", str(recipes), "--runs", str(runs), "--model", MODEL, "--device", "cpu"]
    out = tmp_path / "again"
    shown = [
        c for paper in ("coda", "decor", "apex", "hira") for c in commands(ROOT / "docs" / "claims" / f"{paper}.md")
    ]
    assert len([c for c in shown if "--run" in c]) == len(study.claims)

    def run(command: list[str]) -> int:
        """A command with its places replaced, on the tiny model."""
        words = [str(out) if word == "again" else word for word in command[1:]]
        return main([*words, *where])

    for name in TRAINED:
        assert main(["study", "claims-1.5b", "--train", "--only", name, "--out", str(out), *where]) == 0
    for training in study.trainings.values():
        place = adapter_of(study, training, runs)
        like = next((n for n in TRAINED if study.trainings[n].recipe == training.recipe), "peco")
        if not place.exists():
            shutil.copytree(adapter_of(study, study.trainings[like], runs), place)
    for command in shown:
        assert run(command) == 0, command
    progress = open_progress(study, Results(out), runs, model=MODEL)
    unmeasured = {v.name for v in study.variants.values() if progress.fresh(v) is None and not v.needs_minilm}
    assert not unmeasured
    episodes = {f.stem for f in (out / "episodes").glob("*.jsonl")}
    assert "coda@none" in episodes
    docs = tmp_path / "docs"  # not beside the recipes: `claims` is a link to those of the checkout there
    docs.mkdir()
    assert main(["study", "claims-1.5b", "--out", str(out), "--write", str(docs / "claims.md"), *where]) == 0
    assert "| [Figure 2](claims/coda.md#coda-peco) |" in (docs / "claims.md").read_text()
    assert (docs / "claims" / "coda-peco.svg").read_text().startswith("<svg")


@pytest.mark.parametrize(("name", "page"), [("claims-0.5b", "0.5b"), ("claims", "135m")])
def test_the_commands_of_other_sizes_make_every_row(name: str, page: str) -> None:
    """Each claim's commands train all that its rows use, and answer them."""
    study, trained, answered = find_study(name), set(), set()
    for command in commands(ROOT / "docs" / "claims" / f"{page}.md"):
        only = [word for flag, word in itertools.pairwise(command) if flag == "--only"]
        if "--train" in command:
            trained = {t.name for pattern in only for t in study.select_trainings([pattern])}
        elif "--run" in command:
            variants = study.select(only)
            made = {a for v in variants for a in v.adapters.values() if a in study.trainings}
            assert made <= trained | set(study.starts), command
            answered |= {v.name for v in variants}
            trained = set()
    assert answered >= {v for claim in study.claims for row in claim.row for v in row.answered_by}


def measured(folder: Path, difference: float) -> Progress:
    """The study with both rows of PECO's claim answered."""
    study, results = find_study("claims-1.5b"), Results(folder)
    study = replace(study, claims=tuple(replace(claim, finding="") for claim in study.claims))
    stamps = Stamps(study, model="random:qwen2")
    for name, right in (("coda@peco", 0.3 + difference), ("coda@peco-2", 0.3 + difference), ("coda@none", 0.3)):
        for source in ("hotpotqa", "2wikimultihopqa", "musique"):
            asked = study.sources[source].description
            scores = [{"em": float(n % 100 < 100 * right), "f1": 0.5} for n in range(500)]
            made = unit_of(source, asked, source, [2] * 500, scores)
            results.add(name, stamps.of(study.variants[name]), source, made)
    return Progress(study, results, stamps)


def test_verdicts_are_shown_by_size(tmp_path: Path) -> None:
    small = find_study("claims")

    def open_size(folder: Path) -> Progress:
        own = read_study(folder.resolve())
        return open_progress(own, Results(own.folder / "results"), tmp_path / "no-runs")

    Overview(measured(tmp_path, 0.2), open_size).write(tmp_path / "claims.md")
    text = (tmp_path / "claims.md").read_text()
    line = next(line for line in text.splitlines() if "claims/coda.md#coda-peco" in line)
    counted = Page(open_size(small.folder)).words(small.claims[1])
    assert re.search(r"\| \*\*holds\*\* \+0\.200 \(holds 9\) \| \*not yet measured\* \| \*\*\w+\*\* \S+ \(", line)
    assert line.endswith(f" ({counted}) |")
    assert "![The first comparisons over the size of the model](claims/scale.svg)" in text
    scale = (tmp_path / "claims" / "scale.svg").read_text()
    assert "coda-peco" in scale
    assert "coda-hierarchy" not in scale  # measured at one size alone
    assert "coda-peco, 1.5B: 0.200" in (tmp_path / "claims" / "coda.svg").read_text()
    assert "*not yet measured*" in (tmp_path / "claims" / "hira.md").read_text()


def test_claims_without_a_reason_are_named(tmp_path: Path) -> None:
    """A claim that fails or stays open needs a reason in findings.toml; the page says which have none."""
    page = Page(measured(tmp_path, -0.2))
    without = [claim.id for claim in page.study.claims if page.unexplained(claim)]
    assert without == ["coda-peco"]
    assert all((UNEXPLAINED in page.claim(c)) == (c.id in without) for c in page.study.claims)
    assert not any(page.unexplained(replace(claim, finding="It is too small.")) for claim in page.study.claims)


@pytest.mark.parametrize(
    ("name", "pages", "only"),
    [
        ("claims-1.5b", ("coda", "decor", "apex", "hira"), "*"),
        ("claims-0.5b", ("0.5b",), "*"),
        ("claims", ("135m",), "*-topk"),
    ],
)
def test_the_pages_are_those_of_the_stored_results(name: str, pages: tuple[str, ...], only: str) -> None:
    study = find_study(name)
    page = Page(open_progress(study, Results(study.folder / "results"), ROOT / "no-runs"))
    written = "\n".join((ROOT / "docs" / "claims" / f"{file}.md").read_text() for file in pages)
    for claim in (c for c in study.claims if fnmatch(c.id, only)):
        curves = study.sizes and (ROOT / "docs" / "claims" / f"{claim.id}.svg").is_file()
        section = page.claim(claim, level="##" if study.sizes else "###", picture=f"{claim.id}.svg" if curves else "")
        assert section in written, f"{claim.id}: run `subquest study {name} --write`"
