"""Notebooks: an episode renders as its tree with quotes, and what runs shows its progress, in a real kernel."""

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from subquest import CoDA, Index, ScriptedEngine
from subquest.notebook import progress
from subquest.record import Document, Episode, Evidence, Failure, Question, Segment, Trajectory

from .systems.fakes import DOCUMENTS

EVIL = "<script>alert(1)</script><img src=x onerror='alert(2)'>"


class Tags(HTMLParser):
    """The elements of a page; raises where they are not closed in order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(html)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.seen.append(tag)
        self._open.append(tag)
        assert not [name for name, _ in attrs if name.startswith("on")]

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_an_episode_is_its_answer_its_quotes_and_its_tree() -> None:
    planner = Trajectory("p", "planner", "the question", segments=(Segment("prompt", "long"), Segment("agent", "plan")))
    executor = Trajectory("p.1", "executor", "the sub-task", "p", (Segment("env", "found"),), result="Kestel")
    evidence = Evidence.from_document(
        Document("d", "Bridge", "It is in Kestel.", {"file": "a.pdf", "page": 3}), "Kestel."
    )
    episode = Episode("e", Question("q", "Where?"), "coda", "m", (planner, executor), "Kestel", (evidence,), 0.9)
    page = Tags(episode._repr_html_())
    for part in ("Where?", "Kestel", "a.pdf, page 3", "confidence 0.90", "plan", "found", "executor"):
        assert part in page.text
    assert "states the answer" not in page.text, "a single quote needs no mark"
    assert "long" not in page.text, "prompts are the same in every episode"
    assert page.seen.count("details") == 2


def test_of_several_quotes_the_one_that_states_the_answer_is_marked() -> None:
    quotes = (Evidence("d1", "Bridge", "By Torrun."), Evidence("d2", "Torrun", "Born in Kestel.", states_answer=True))
    page = Tags(Episode("e", Question("q", "Where?"), "coda", "m", (), "Kestel", quotes)._repr_html_())
    assert page.text.count("states the answer") == 1
    assert "Torrun, d2 (states the answer)" in page.text


def test_text_of_models_and_documents_is_no_markup() -> None:
    trajectory = Trajectory(EVIL, EVIL, EVIL, segments=(Segment("agent", EVIL), Segment("env", EVIL)), result=EVIL)
    evidence = Evidence(EVIL, EVIL, EVIL, place={"file": EVIL})
    episode = Episode(
        "e", Question("q", EVIL), EVIL, EVIL, (trajectory,), EVIL, (evidence,), errors=(Failure(EVIL, EVIL),)
    )
    page = Tags(episode._repr_html_())
    assert not {"script", "img"} & set(page.seen)
    assert page.text.count(EVIL) >= 8


def test_without_a_notebook_nothing_is_shown() -> None:
    assert progress() is None


@pytest.mark.slow
def test_a_real_notebook(tmp_path: Path) -> None:
    """A kernel runs an event loop of its own; asking works in it, in a cell that awaits and in one that does not."""
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    Index.build(tmp_path / "docs.sq", DOCUMENTS).close()
    (tmp_path / "script.jsonl").write_text('"<task>Who designed it?</task>"\n"<search>Orvane Bridge</search>"\n' * 50)
    (tmp_path / "q.jsonl").write_text('{"id": "1", "question": "Where?", "answers": ["Kestel"]}\n')
    cells = [
        "import subquest as sq\nspec = dict(index='docs.sq', model='scripted:script.jsonl')",
        "sq.ask('Where was the designer of the Orvane Bridge born?', **spec)",
        "sq.compare('q.jsonl', systems=['rag', 'coda'], **spec)",
        "async with sq.open_agent(sq.AgentSpec(**spec)) as agent:\n    (await agent.solve('Where?')).answer",
        "sq.ask('Where?')",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    client = nbclient.NotebookClient(
        notebook, timeout=300, allow_errors=True, resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()
    asked, compared, awaited, refused = (cell.outputs for cell in notebook.cells[1:])
    shown = [output for output in asked if output.output_type == "display_data"]
    assert len(shown) == 1, "progress is drawn in one place"
    assert re.search(r"done in \d+\.\d s", shown[0].data["text/html"])
    result = next(output for output in asked if output.output_type == "execute_result")
    assert "<details" in result.data["text/html"]
    assert "planner" in result.data["text/html"]
    table = next(output for output in compared if output.output_type == "execute_result").data["text/html"]
    assert "<td>coda</td><td>1</td>" in table
    assert "<td>rag</td><td>1</td>" in table
    assert not [output for output in awaited if output.output_type == "error"]
    assert refused[0].ename == "UsageError"
    assert "there is nothing to search" in refused[0].evalue


async def test_asking_works_where_a_loop_already_runs() -> None:
    engine = ScriptedEngine(["<answer>Kestel</answer>"] * 9)
    assert CoDA(engine).ask("Where?").answer
