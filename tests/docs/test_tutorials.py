"""The three tutorials, every command, on real parts: real files, a real index, the embedded model, a real training.

`http://localhost:8080/v1` is an endpoint on loopback (`endpoint.py`).
"""

import json
import re
import shutil
from pathlib import Path

import pytest

from subquest.record import Question
from subquest.worlds import make_world

from .commands import ROOT, TUTORIALS
from .endpoint import endpoint
from .running import run_page

pytestmark = pytest.mark.slow
_BLOCK = re.compile(r"```(python|toml)\n(.*?)```", re.DOTALL)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone as far as the tutorials use it."""
    monkeypatch.chdir(tmp_path)
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "SUBQUEST_MODEL"):
        monkeypatch.delenv(name, raising=False)
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    (tmp_path / "recipes").symlink_to(ROOT / "recipes")
    return tmp_path


def tutorial(name: str) -> Path:
    (page,) = [page for page in TUTORIALS if page.stem == name]
    return page


def test_there_is_one_for_each_reader() -> None:
    assert [page.stem for page in TUTORIALS] == ["ask-your-documents", "compare-systems", "train"]


def test_pages_that_are_followed_in_one_folder_do_not_disturb_each_other() -> None:
    """A world or a run that an earlier page has left would be refused, or replaced."""
    written = [
        (place, page.name)
        for page in (ROOT / "README.md", *TUTORIALS)
        for place in set(re.findall(r"--out (runs/\S+|\S*world)", page.read_text()))
    ]
    assert len(dict(written)) == len(written) > 5, written


@pytest.mark.embedded
def test_ask_your_documents(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("xllamacpp")
    page = tutorial("ask-your-documents")
    blocks = dict(_BLOCK.findall(page.read_text()))
    said = {}
    with endpoint() as url:
        (place / "subquest.toml").write_text(blocks["toml"].replace("http://localhost:8080/v1", url))
        for command, out in run_page(page, url, capsys):
            said[command.text] = out
        exec(blocks["python"].replace("http://localhost:8080/v1", url), {})
        shown = capsys.readouterr().out
    find = lambda text: next(out for command, out in said.items() if text in command)  # noqa: E731
    assert "documents/minutes-2026-03-12.md, line 7" in find("subquest search")
    assert "ok   chat" in find("subquest doctor")
    answers = [out for command, out in said.items() if 'meals per day?" --index' in command]
    assert len(answers) == 2
    assert all("documents/expenses-policy.md, line 11" in out for out in answers)
    two_hops = find("towpath repair work?")
    (shown_answer,) = [
        block for block in re.findall(r"```text\n(.*?)```", page.read_text(), re.DOTALL) if "[documents/staff" in block
    ]
    assert two_hops.startswith(shown_answer)
    assert "Fenwick Top" in (place / "trace.html").read_text()
    assert json.loads(find("--json"))["answer"] == "32 pounds"
    assert shown == "32 pounds True ['- Meals are paid up to 32 pounds per day.']\n"
    assert "[1]" in (place / "towpath.html").read_text()
    assert (place / "towpath.docx").stat().st_size > 1000
    assert "http://127.0.0.1" in find("subquest serve")


def test_compare_systems(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world = make_world(seed=5, articles=160, questions=20, hops=(1, 2), split="test")
    with endpoint({question.question: gold_plan(question) for question in world.questions}) as url:
        said = {command.text: out for command, out in run_page(tutorial("compare-systems"), url, capsys)}
    first, second = [rows(out) for command, out in said.items() if command.startswith("subquest eval")]
    assert {system: n for system, (n, _) in first.items()} == {"coda": 8, "rag": 8}
    assert {system: n for system, (n, _) in second.items()} == {"coda": 12, "rag": 12, "direct": 12}
    assert second["coda"][1] > second["direct"][1]
    assert "<html" in (place / "report.html").read_text()
    assert any("table 2" in out for command, out in said.items() if command.startswith("subquest study"))
    assert (place / "compare.jsonl").stat().st_size > 1000


def rows(table: str) -> dict[str, tuple[int, float]]:
    """Questions and exact match by system."""
    return {system: (int(n), float(em)) for system, n, em in re.findall(r"^\S*world +(\S+) +(\d+) +(\S+)", table, re.M)}


def gold_plan(question: Question) -> dict[str, str]:
    """Its steps with earlier answers in their place."""
    answers: list[str] = []
    plan = {}
    for step in question.decomposition:
        asked = re.sub(r"#(\d)", lambda m: answers[int(m[1]) - 1], step.question)
        answers.append(step.answer)
        plan[asked] = step.answer
    return plan


def test_train(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    with endpoint() as url:
        said = {command.text: out for command, out in run_page(tutorial("train"), url, capsys)}
    from subquest.runs import RunStore

    with RunStore.open(place / "runs/tutorial/run.sqlite") as run:
        scores = {metric.step: metric.value for metric in run.metrics() if metric.name == "dev_em"}
    assert scores[60] > 0.8 > 0.4 > scores[20]
    table = next(out for command, out in said.items() if command.startswith("subquest eval"))
    n, em = rows(table)["direct"]
    assert (n, em > 0.6) == (24, True)
    assert "<svg" in (place / "curves.svg").read_text()
