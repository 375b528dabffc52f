"""Reports: comparisons, names of runs, tables for papers, and the page in a real browser."""

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from subquest.cli import main
from subquest.errors import UsageError
from subquest.evaluate import score
from subquest.evaluate.report import latex, load, markdown, page
from subquest.evaluate.report.content import holm, outcome_of, run_names, traced
from subquest.evaluate.result_table import Scored, cell
from subquest.evaluate.statistics import mcnemar
from subquest.record import Episode, Failure, Question, Usage
from subquest.runs import RunStore
from subquest.serve.compare import compare_runs
from subquest.serve.run_library import RunLibrary

from .actors import SKILLS, make_run


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("runs")
    return [make_run(folder, questions=24, k=3), make_run(folder, questions=24, k=6, skill=-10)]


def test_holm_by_hand() -> None:
    # sorted 0.01, 0.02, 0.04 -> 3 x 0.01, 2 x 0.02, 1 x 0.04, never below the one before
    assert holm([0.04, 0.01, 0.02]) == pytest.approx([0.04, 0.03, 0.04])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


@pytest.mark.parametrize(
    ("scores", "outcome"),
    [
        ({"failed": 1, "no_answer": 1}, "failed"),
        ({"em": 1, "support_recall": 0}, "right"),
        ({"em": 0, "no_answer": 1}, "no answer"),
        ({"em": 0, "cem": 1}, "nearly"),
        ({"em": 0, "cem": 0, "support_recall": 1}, "misread"),
        ({"em": 0, "cem": 0, "support_recall": 0.5}, "not found"),
        ({"em": 0, "cem": 0}, "wrong"),
    ],
)
def test_outcomes(scores: dict[str, float], outcome: str) -> None:
    assert outcome_of(scores) == outcome


def test_names_of_runs_tell_what_differs() -> None:
    a, b = Path("a.sqlite"), Path("b.sqlite")
    assert run_names({a: {"search": {"k": 3}, "seed": 0}, b: {"search": {"k": 5}, "seed": 0}}) == {a: "k=3", b: "k=5"}
    assert run_names({a: {"seed": 0}, b: {"seed": 0}}) == {a: "a", b: "b"}
    assert run_names({a: {"index": "/x/one"}, b: {"index": "/x/two"}}) == {a: "index=one", b: "index=two"}
    assert run_names({a: {"model": "m", "judge": {"model": "rules"}}, b: {"model": "n"}}) == {
        a: "model=m, judge=rules",
        b: "model=n",
    }
    content = {
        a: {"index": "/x/one", "index_content": "0123456789abcdef"},
        b: {"index": "/x/two", "index_content": "fedcba9876543210"},
    }
    assert run_names(content) == {a: "index=one", b: "index=two"}
    both = {Path("p/x.sqlite"): {}, Path("q/x.sqlite"): {}}
    assert set(run_names(both).values()) == {"p/x.sqlite", "q/x.sqlite"}


def test_comparisons_are_paired_tests_against_the_best(runs: list[Path]) -> None:
    content = load(runs[:1])
    dataset = content.datasets[0]
    found = {v.system: v for v in content.comparisons(dataset)}
    assert set(found) == set(SKILLS) - {"coda"}
    assert all(v.reference == "coda" for v in found.values())
    direct = [e.row.scores["em"] for e in content.of(dataset, "direct")]
    coda = [e.row.scores["em"] for e in content.of(dataset, "coda")]
    assert found["direct"].result.mcnemar == pytest.approx(mcnemar(direct, coda))
    assert found["direct"].adjusted == pytest.approx(min(1, 3 * mcnemar(direct, coda)))
    assert found["direct"].mark == "‡"
    chosen = load(runs[:1], reference="direct").comparisons(dataset)
    assert {v.reference for v in chosen} == {"direct"}


@pytest.mark.parametrize(
    "metric", ["seconds", "prompt_tokens", "searches", "cost", "tokens_planner", "failed", "errors"]
)
def test_of_costs_and_failures_the_least_is_the_best(tmp_path: Path, metric: str) -> None:
    with RunStore.create(tmp_path / "run") as run:
        for i in range(12):
            question = Question(f"q{i}", f"Which {i}?", ("a",), dataset="toy")
            for value, system in enumerate(("little", "more", "most")):
                episode = Episode(f"{system}-{i}", question, system, "m", answer="a")
                run.add_episode(
                    episode, scores={"em": 1.0, metric: value + i / 100 if metric != "failed" else value / 2}
                )
    content = load([tmp_path / "run"], metric=metric)
    assert {v.reference for v in content.comparisons("toy")} == {"little"}
    made = page(content, traces=0)
    assert "against little" in made
    assert "Less is better" in made
    head = next(row for row in re.findall(r"<thead><tr>(.*?)</tr>", made) if "system" in row)
    assert f"<th>{metric}</th>" in head
    assert re.search(r'<td class="best">0\.\d+', made)
    drawn = made.partition("with 95% intervals")[2].partition("</svg>")[0]
    assert drawn.index("little") < drawn.index("more") < drawn.index("most")
    for text in (markdown(content), latex(content)):
        assert "less is better" in text
        assert "differs from little" in text
    assert metric.replace("_", "\\_") + " & tokens" in latex(content)
    found = content.to_json()["toy"]
    assert "against" not in found["little"]
    assert found["most"]["against"]["system"] == "little"
    assert found["most"]["against"]["better"] == "less"
    assert found["most"]["against"]["difference"] > 0
    assert found["little"][f"{metric}_low"] <= found["little"][metric] <= found["little"][f"{metric}_high"]


def test_a_score_that_is_no_number_is_none(tmp_path: Path) -> None:
    with RunStore.create(tmp_path / "run") as run:
        for i in range(4):
            question = Question(f"q{i}", f"Which {i}?", ("a",), dataset="toy", hops=1 + i % 2)
            for system in ("one", "two"):
                scores = {"em": 1.0, "mine": float("nan") if i == 0 else i / 4, "huge": float("inf")}
                run.add_episode(Episode(f"{system}-{i}", question, system, "m", answer="a"), scores=scores)
    content = load([tmp_path / "run"], metric="mine")
    page(content)
    found = json.loads(json.dumps(content.to_json(), allow_nan=False))["toy"]["one"]
    assert (found["n"], found["mine"], "huge" in found) == (4, 0.5, False)


def test_a_role_that_some_episodes_did_without_is_compared_over_all(tmp_path: Path) -> None:
    with RunStore.create(tmp_path / "run") as run:
        for i in range(10):
            question = Question(f"q{i}", f"Which {i}?", ("a",), dataset="toy")
            for system, spent in (
                ("seldom", {} if i else {"tokens_executor": 50}),
                ("always", {"tokens_executor": 10}),
            ):
                scores = {"em": 1.0, "prompt_tokens": 60.0, **spent}
                run.add_episode(Episode(f"{system}-{i}", question, system, "m", answer="a"), scores=scores)
    content = load([tmp_path / "run"], metric="tokens_executor")
    (versus,) = content.comparisons("toy")
    assert (versus.reference, versus.result.n, versus.result.difference) == ("seldom", 10, 5.0)
    assert content.table()["toy"]["seldom"]["tokens_executor"] == 5.0


def test_a_metric_that_only_some_runs_have(tmp_path: Path) -> None:
    """A judge or a plan score that one run was given and the other not leaves its cells empty."""
    paths = [make_run(tmp_path, questions=4, k=3), make_run(tmp_path, questions=4, k=6, skill=-10)]
    with RunStore.open(paths[0], write=True) as run:
        for summary in run.summaries():
            run.add_scores(summary.id, {"judge": 1.0, "sepr": 0.5})
    content = load(paths)
    made = page(content, traces=0)
    assert '1.000<span class="span">1.000–1.000</span>' in made
    assert '0.500<span class="span">0.500–0.500</span>' in made
    assert "0.500 (0.500-0.500)" in markdown(content)
    drawn = page(load(paths, metric="judge"), traces=0)  # break-downs and curves by it, too
    assert "JUDGE by hops" in drawn
    assert "nan" not in drawn.partition("<body>")[2].partition("<script")[0]
    assert "0.500 (0.500-0.500)" in latex(content)


def test_two_runs_of_one_system_are_told_apart_and_make_a_curve(runs: list[Path]) -> None:
    content = load(runs)
    assert "coda (k=3)" in content.systems
    assert len(content.systems) == 8
    assert "over documents a search" in page(content, traces=0)
    assert "over documents a search" not in page(load(runs[:1]), traces=0)


def test_breakdowns_follow_the_questions(runs: list[Path]) -> None:
    content = load(runs[:1])
    hops = content.breakdowns(content.datasets[0])["hops"]
    assert list(hops) == sorted(hops)
    assert sum(len(found) for found in hops.values()) == len(content.entries)


def test_every_figure_is_on_the_page(tmp_path: Path) -> None:
    """Intervals, cost, curves over hops, calibration, outcomes and failures, where the run has what they need."""
    failure = Failure("search", "the index is away")
    with RunStore.create(tmp_path / "run") as run:
        for i in range(12):
            question = Question(f"q{i}", f"Which {i}?", ("a",), dataset="toy", hops=2 + i % 3)
            for system in ("one", "two"):
                episode = Episode(
                    f"{system}-{i}",
                    question,
                    system,
                    "m",
                    answer="a" if i % 2 else "not a",
                    confidence=i / 12,
                    usage=Usage(prompt_tokens=90 + i, completion_tokens=10),
                    errors=(failure,) * (i % 2),
                )
                run.add_episode(episode, scores=score(episode))
    text = page(load([tmp_path / "run"]), traces=2)
    captions = re.findall(r"<figcaption>(.*?)</figcaption>", text)
    wanted = ("EM with 95% intervals", "EM against tokens read and written", "EM over hops", "Calibration")
    assert set(wanted) <= set(captions), captions
    assert "nearly" in text
    assert "search" in text.split("<svg")[-1]
    assert re.search(r'<details id="t-\d+"', text)


def test_calibration_is_shown_with_intervals(tmp_path: Path) -> None:
    with RunStore.create(tmp_path / "run") as run:
        for i in range(20):
            right = i < 8 or i >= 18
            question = Question(f"q{i}", f"Which {i}?", ("a",), dataset="toy")
            confidence = 0.95 if i < 10 else 0.25
            episode = Episode(f"e{i}", question, "one", "m", answer="a" if right else "b", confidence=confidence)
            run.add_episode(episode, scores=score(episode))
    content = load([tmp_path / "run"])
    cell = content.to_json()["toy"]["one"]
    assert cell["ece"] == pytest.approx((10 * 0.15 + 10 * 0.05) / 20)  # 8 of 10 right at 0.95, 2 of 10 at 0.25
    assert cell["auroc"] == pytest.approx((8 * 8 + 8 * 2 / 2 + 2 * 8 / 2) / 100)
    assert cell["ece_low"] < cell["ece"] < cell["ece_high"]
    assert cell["auroc_low"] < cell["auroc"] < cell["auroc_high"]
    assert [(b["n"], b["right"]) for b in cell["calibration"]] == [(10, 0.2), (10, 0.8)]
    text = page(content, traces=0)
    assert "How far its confidence can be trusted" in text
    assert '0.800<span class="span">0.490–0.943</span>' in text
    assert f'{cell["ece"]:.3f}<span class="span">{cell["ece_low"]:.3f}–' in text
    assert f"{cell['auroc']:.3f} ({cell['auroc_low']:.3f}-{cell['auroc_high']:.3f})" in markdown(content)
    assert "AUROC" in latex(content)


def test_without_confidences_nothing_is_said_of_calibration(runs: list[Path]) -> None:
    content = load(runs[:1])
    assert "How far its confidence" not in page(content, traces=0)
    assert "ECE" not in markdown(content)


def test_traces_show_what_went_wrong(runs: list[Path]) -> None:
    chosen = list(traced(load(runs[:1]), 2))
    assert {e.row.system for e, _ in chosen} == set(SKILLS)
    assert any(e.outcome != "right" for e, _ in chosen)
    assert all(e.row.episode == episode.id for e, episode in chosen)
    assert list(traced(load(runs[:1]), 0)) == []


def test_json_markdown_latex(runs: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(runs[0]), "--json"]) == 0
    table = json.loads(capsys.readouterr().out)
    cell = next(iter(table.values()))["coda"]
    assert {"n", "em", "f1", "cem", "em_low", "prompt_tokens"} <= cell.keys()
    content = load(runs[:1])
    text = markdown(content)
    assert f"| coda | {cell['n']} | {cell['em']:.3f} ({cell['em_low']:.3f}-{cell['em_high']:.3f})" in text
    tex = latex(content)
    assert tex.count(r"\\") == 1 + len(SKILLS)
    assert r"$^{\ddagger}$" in tex


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.sqlite"], "there is no run"),
        (["RUN", "--metric", "bleu"], "no episode has the metric 'bleu'"),
        (["RUN", "--baseline", "x"], "no system 'x' to compare with"),
        (["RUN", "--traces", "-1"], "cannot be negative"),
        (["RUN", "--out", "no/such/folder.html"], "cannot write"),
    ],
)
def test_wrong_usage(runs: list[Path], arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", *(str(runs[0]) if a == "RUN" else a for a in arguments)]) == 2
    assert message in capsys.readouterr().err


class Links(HTMLParser):
    """Every address that a page would fetch, and all its ids and anchors."""

    def __init__(self) -> None:
        super().__init__()
        self.outside: list[str] = []
        self.ids: set[str] = set()
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id":
                self.ids.add(value or "")
            elif name in ("src", "href"):
                place = value or ""
                if place.startswith("#"):
                    self.anchors.add(place[1:])
                elif not place.startswith("data:"):
                    self.outside.append(place)


def test_the_page_is_self_contained_and_safe(runs: list[Path]) -> None:
    text = page(load(runs[:1], metric="f1"), title="<script>alert(1)</script>")
    links = Links()
    links.feed(text)
    assert links.outside == []
    rows = json.loads(re.search(r'id="rows">(.*?)</script>', text, re.DOTALL)[1])  # type: ignore[index]
    assert links.anchors | {r["trace"] for r in rows if "trace" in r} <= links.ids
    assert "<script>alert" not in text


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("chromium") is None, reason="Debian's chromium is not installed")
@pytest.mark.parametrize("anchor", ["", "#t-0"])
def test_the_page_opens_in_a_browser_without_errors_or_requests(runs: list[Path], tmp_path: Path, anchor: str) -> None:
    assert main(["report", *map(str, runs), "--out", str(tmp_path / "report.html")]) == 0
    log = tmp_path / "net.json"
    done = subprocess.run(
        [
            *("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
            *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
            *(f"--user-data-dir={tmp_path / 'profile'}", "--enable-logging=stderr", f"--log-net-log={log}"),
            *("--virtual-time-budget=2000", "--dump-dom", f"file://{tmp_path / 'report.html'}{anchor}"),
        ],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert "CONSOLE" not in done.stderr
    table = re.search(r'<table id="episodes">.*?</table>', done.stdout, re.DOTALL)[0]  # type: ignore[index]
    assert table.count("<tr>") == 1 + 100  # the script ran and drew its first page
    assert "<svg" in done.stdout
    if anchor:
        assert re.search(r'<details id="t-0" open="">', done.stdout)
    own = r"https?://\w+\.(google|googleapis)\.com/"  # the browser's own, whatever page it shows
    urls = set(re.findall(r'"url":"(\w+://[^"]*)"', log.read_text()))
    fetched = {u for u in urls if not u.startswith("chrome") and not re.match(own, u)}
    assert fetched <= {f"file://{tmp_path / 'report.html'}"}, fetched


async def test_variants_stand_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    names = ["CoDA, k=10", "CoDA, k=3", "CoDA, k=20", "AutoRefine, k=3"]
    with RunStore.create(tmp_path / "study.sqlite") as store:
        for name in names:
            episode = Episode(name, Question("q", "Where?", ("Kestel",), dataset="toy"), name, "m", answer="Kestel")
            await store.add_episode(episode)
            store.add_scores(name, score(episode))
    content = load([tmp_path / "study.sqlite"])
    assert content.systems == ["AutoRefine, k=3", "CoDA, k=3", "CoDA, k=10", "CoDA, k=20"]


async def test_questions_of_one_number_and_other_words_are_not_paired(tmp_path: Path) -> None:
    """Two files may have the same name and number their questions alike."""
    for run, words in (("a", "Where?"), ("b", "Who?")):
        with RunStore.create(tmp_path / f"{run}.sqlite") as store:
            for number, text in enumerate((words, "When?")):
                asked = Question(f"q{number}", text, ("Kestel",), dataset="test")
                episode = Episode(f"{run}{number}", asked, "coda", "m", answer="Kestel")
                await store.add_episode(episode, scores=score(episode))
    (versus,) = load([tmp_path / "a.sqlite", tmp_path / "b.sqlite"]).comparisons("test")
    assert versus.result.n == 1
    client_side = compare_runs(RunLibrary(tmp_path), ["a", "b"])
    assert {test["n"] for test in client_side["paired"]} == {1}


def test_a_role_that_was_not_needed_cost_nothing() -> None:
    asked = Question("q", "Where?", ("Kestel",), dataset="toy")
    rows = [
        Scored("1", "toy", "coda", asked, {"prompt_tokens": 10, "tokens_planner": 10, "peak_planner": 10}),
        Scored("2", "toy", "coda", asked, {"prompt_tokens": 30, "tokens_planner": 10, "tokens_executor": 20}),
    ]
    found = cell(rows)
    assert (found["tokens_planner"], found["tokens_executor"], found["peak_planner"]) == (10, 10, 10)


async def test_a_run_that_a_program_scored(tmp_path: Path) -> None:
    """As docs/runs.md has it: nothing but the metric that was given is known."""
    with RunStore.create(tmp_path / "own.sqlite") as store:
        await store.add_episode(Episode("1", Question("q", "Where?", ("Kestel",), dataset="toy"), "mine", "m"))
        with pytest.raises(UsageError, match="is scored"):
            load([tmp_path / "own.sqlite"])
        await store.add_scores("1", {"em": 1.0})
    content = load([tmp_path / "own.sqlite"])
    assert "1.000" in page(content)
    assert "| mine | 1 | 1.000" in markdown(content)
    assert r"mine & 1 & 1.000" in latex(content)
