"""A small corpus of real text from the paragraphs that questions come with, in every published form."""

import json
from pathlib import Path
from typing import Any

import pytest

from subquest.cli import main
from subquest.data import read_questions
from subquest.data.paragraphs import paragraphs_of

from ..file_site import FileSite

TITLES = ["Kelm", "Orvane", "Kelm"]
SENTENCES = [["Kelm is a town.", " It lies on the Orv."], ["Orvane is a bridge."], ["Kelm is also a surname."]]
TEXTS = ["Kelm is a town. It lies on the Orv.", "Orvane is a bridge.", "Kelm is also a surname."]
PAIRS = [[title, sentences] for title, sentences in zip(TITLES, SENTENCES, strict=True)]


@pytest.mark.parametrize(
    "row",
    [
        {"context": PAIRS},  # HotpotQA and 2WikiMultiHopQA, as they were released
        {"context": json.dumps(PAIRS)},  # 2WikiMultiHopQA in parquet files
        {"context": {"title": TITLES, "sentences": SENTENCES}},  # HotpotQA on the hub
        {"metadata": {"context": {"title": TITLES, "sentences": SENTENCES}}},  # FlashRAG
        {"metadata": {"context": {"title": TITLES, "content": SENTENCES}}},
        {"paragraphs": [{"title": t, "paragraph_text": p} for t, p in zip(TITLES, TEXTS, strict=True)]},  # MuSiQue
    ],
)
def test_every_published_form(row: dict[str, Any]) -> None:
    assert [(title, text) for title, text, _ in paragraphs_of(row)] == list(zip(TITLES, TEXTS, strict=True))


def test_what_has_none() -> None:
    assert paragraphs_of({"question": "Who?", "metadata": None}) == []


def hotpot(id: str, *titles: str) -> dict[str, Any]:
    facts = {"title": [titles[0]], "sent_id": [0]}
    context = {"title": list(titles), "sentences": [[f"{title} is a place.", f" It has {id}."] for title in titles]}
    return {
        "id": id,
        "question": f"What is in {titles[0]}?",
        "golden_answers": [id],
        "metadata": {"supporting_facts": facts, "context": context},
    }


def test_a_sample_of_questions_with_its_own_corpus(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out, corpus = tmp_path / "hotpot.jsonl", tmp_path / "q.jsonl", tmp_path / "c.jsonl"
    rows = [hotpot(f"h{n}", f"Town {n}", "Common", f"Lake {n}") for n in range(40)]
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main(["data", "convert", str(source), str(out), "--sample", "10", "--corpus", str(corpus)]) == 0
    assert "10 questions" in capsys.readouterr().err
    documents = {d["id"]: d for d in map(json.loads, corpus.read_text().splitlines())}
    questions = read_questions(out)
    assert len(questions) == 10
    assert len(documents) == 30, "the paragraphs of these ten questions and of no others"
    assert {"Common", "Common#2", "Common#10"} <= documents.keys(), "texts of one title are kept apart"
    for question in questions:
        assert len(question.context_ids) == 3
        (gold,) = question.supporting_ids
        assert question.id in documents[gold]["text"]
        assert documents[gold]["title"] == question.supporting_titles[0]
    source.write_text('{"question": "Who?", "answer": "A"}\n')
    assert main(["data", "convert", str(source), str(out), "--corpus", str(corpus)]) == 2
    assert "comes without paragraphs" in capsys.readouterr().err
    assert len(corpus.read_text().splitlines()) == 30, "what was written before stays"


def test_from_nothing_to_a_report_in_five_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As docs/evaluation.md has it, with a small set in HotpotQA's place and a scripted model."""
    page = (Path(__file__).parents[2] / "docs" / "evaluation.md").read_text(encoding="utf-8")
    section = page.partition("### A first evaluation in minutes")[2].partition("\n#")[0]
    commands = [line.partition("#")[0].split()[1:] for line in section.splitlines() if line.startswith("    subquest ")]
    assert [command[0] for command in commands] == ["data", "data", "index", "eval", "report", "eval"]
    commands.pop()  # the last one asks a generated world
    rows = [hotpot(f"h{n}", f"Town {n}", "Common", f"Lake {n}") for n in range(250)]
    site = FileSite()
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "dev.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SUBQUEST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("SUBQUEST_DATA", raising=False)
    from subquest.data import registry

    entry = registry.REGISTRY["hotpotqa"]
    file = registry.PublishedFile("dev", "hotpotqa/dev.jsonl")
    monkeypatch.setitem(registry.REGISTRY, "hotpotqa", registry.DataSet("hotpotqa", "", "", entry.hub, (file,), "abc"))
    site.files[f"/datasets/{entry.hub}/resolve/abc/hotpotqa/dev.jsonl"] = (mine / "dev.jsonl").read_bytes()
    monkeypatch.setenv("HF_ENDPOINT", site.url)
    script = tmp_path / "script.jsonl"
    script.write_text(json.dumps("<answer>h1</answer>") + "\n")
    for command in commands:
        extra = ["--model", f"scripted:{script}", "--limit", "8"] if command[0] == "eval" else []
        assert main([*command, *extra]) == 0, (command, capsys.readouterr().err)
    site.close()
    told = capsys.readouterr().out
    assert "rag" in told
    assert list(tmp_path.glob("*.html"))
