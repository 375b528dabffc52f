"""What a search finds, cut to what the query needs: which pieces stay, what stays with them, and how it is shown."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from subquest.citation import cite
from subquest.cli import main
from subquest.engine.scripted import ScriptedEngine
from subquest.errors import UsageError
from subquest.record import Document, Hit, Question
from subquest.retrieval import Index
from subquest.retrieval.ingest import ingest
from subquest.retrieval.splitter import Size
from subquest.runtime.excerpts import _pieces, _worth, excerpts
from subquest.runtime.relevance import stems
from subquest.systems import registry

BRIDGE = "The bridge is old. Mila Torrun designed the bridge. Many people cross it. The toll is two pounds."
MUSEUM = "The museum is open daily. Odo Brask designed the tower of the museum. Children pay nothing."


def hits(*texts: str) -> list[Hit]:
    return [Hit(Document(f"d{n}", f"Title {n}", text), 1.0 / n) for n, text in enumerate(texts, 1)]


def shown(query: str, tokens: int, *texts: str) -> list[str]:
    return [hit.document.text for hit in excerpts(hits(*texts), query, tokens)]


def test_worth_by_hand() -> None:
    """Of seven pieces two have "bridge" and two "design"; the first title has "bridge"."""
    found = [list(_pieces(text)) for text in (BRIDGE, MUSEUM)]
    titled = [Hit(Document("d1", "Bridge", BRIDGE), 1.0), Hit(Document("d2", "Museum", MUSEUM), 0.5)]
    word = math.log(1 + 7 / 2)
    worth = _worth(titled, found, stems("Who designed the bridge?"))
    expected = [word + 1, 2 * word, word / 2, word / 2, 0, word - 1, -1]
    assert list(worth.values()) == pytest.approx(expected)


def test_the_best_pieces_of_all_results_are_kept_while_they_fit() -> None:
    query = "Who designed the bridge?"
    assert shown(query, 7, BRIDGE, MUSEUM) == ["Mila Torrun designed the bridge."]
    assert shown(query, 12, BRIDGE, MUSEUM) == ["The bridge is old. Mila Torrun designed the bridge."]
    most = shown(query, 22, BRIDGE, MUSEUM)
    assert most == [BRIDGE[:51], "Odo Brask designed the tower of the museum."], "above the rest of the first result"


def test_results_that_fit_stay_as_they_are() -> None:
    found = hits(BRIDGE, MUSEUM)
    assert excerpts(found, "Who designed the bridge?", 100) == found
    assert excerpts([], "Who designed the bridge?", 1) == []


def test_an_omission_is_marked() -> None:
    text = shown("What is the toll of the old bridge?", 12, BRIDGE)
    assert text == ["The bridge is old.\n…\nThe toll is two pounds."]


def test_the_best_piece_is_kept_even_if_it_is_too_long() -> None:
    assert shown("Who designed the bridge?", 1, BRIDGE, MUSEUM) == ["Mila Torrun designed the bridge."]
    assert shown("another matter", 1, BRIDGE, MUSEUM) == ["The bridge is old."]


def test_a_pronoun_keeps_the_sentence_before_it() -> None:
    text = "Ada Vale led the works. She then married. She was born in Kestel. The works took years."
    assert shown("born in Kestel", 20, text) == [text.rpartition(" The works")[0]]
    assert shown("born in Kestel", 8, text) == ["She was born in Kestel."], "what does not fit does not come along"


@pytest.mark.parametrize(
    ("text", "query", "kept"),
    [
        ("Fees\nEntry costs two pounds.\nHours\nThe gate opens at nine.", "gate", "Hours\nThe gate opens at nine."),
        (
            "All visitors register. On arrival they bring:\n- a passport. It is copied.\n- a letter\nThey sit down.",
            "letter",
            "On arrival they bring:\n…\n- a letter",
        ),
        ("Open:\nMonday to ten\nFriday to six\nNobody may stay longer.", "Friday", "Open:\n…\nFriday to six"),
        ("1. Close the door. It must click.\n2. Ring the bell.", "door", "1. Close the door. It must click."),
        (
            "Staff of the depot\nName: Ada Vale; Phone: 201\nName: Odo Brask; Phone: 202",
            "Odo Brask",
            "Staff of the depot\n…\nName: Odo Brask; Phone: 202",
        ),
    ],
    ids=["heading", "colon", "short lines", "item", "row"],
)
def test_what_a_piece_is_read_with(text: str, query: str, kept: str) -> None:
    assert shown(query, Size(unit="tokens").count(kept.replace("…", "")), text) == [kept]


FILE = """\
# Bridges

The valley has had a bridge since the mills were built. People paid
to cross it for most of that time.

The Orvane Bridge was designed by Mila Torrun. It took
four years. Nothing else of that size stood in the valley.

The mills are closed. The toll of the Orvane Bridge
is two pounds.
"""


async def test_a_model_reads_and_quotes_what_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bridges.md").write_text(FILE)
    with Index.build("docs.sq", []) as index:
        ingest(index, ["bridges.md"])
        (passage,) = index.documents()
        engine = ScriptedEngine(["<answer>two pounds</answer>"])
        system = registry.get("rag")(engine, index, search_tokens=24)
        episode = await system.solve(Question("q", "What is the toll of the Orvane Bridge?"))
        whole = await registry.get("rag")(ScriptedEngine(["<answer>two pounds</answer>"]), index).solve("The toll?")
    left = "The Orvane Bridge was designed by Mila Torrun.\n…\nThe toll of the Orvane Bridge is two pounds."
    prompt = "".join(s.text for t in episode.trajectories for s in t.segments if s.kind == "prompt")
    assert left.replace("\n", " ") in prompt
    assert "mills" not in prompt
    (event,) = [e for e in episode.events if e.kind == "documents"]
    assert [hit["text"] for hit in event.data["hits"]] == [left], "the record has what the model saw"
    (quote,) = episode.evidence
    assert episode.supported
    assert quote.quote == "The toll of the Orvane Bridge is two pounds."
    assert passage.text.startswith(quote.quote, quote.start), "of the whole passage, not of what is left"
    assert cite(quote.place) == "bridges.md, line 9"
    assert episode.settings["search_tokens"] == 24
    assert "search_tokens" not in whole.settings
    assert "mills are closed" in "".join(s.text for t in whole.trajectories for s in t.segments)


@pytest.mark.parametrize("tokens", [0, -3, 2.5, "many"])
def test_tokens_that_cannot_be_meant(tokens: object) -> None:
    with pytest.raises(UsageError, match=r"search_tokens is .*; give the tokens that a search may show"):
        registry.get("rag")(ScriptedEngine([]), search_tokens=tokens)


def test_the_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bridges.md").write_text(FILE)
    Path("replies.jsonl").write_text('{"role": "answerer", "reply": "<answer>two pounds</answer>"}\n')
    assert main(["index", "build", "bridges.md", "--out", "docs.sq"]) == 0
    ask = ["ask", "What is the toll of the Orvane Bridge?", "--index", "docs.sq", "--system", "rag"]
    ask += ["--model", f"scripted:{tmp_path / 'replies.jsonl'}"]
    Path("subquest.toml").write_text("[search]\ntokens = 24\n")
    assert main([*ask, "--trace", "trace.json"]) == 0
    assert "is two pounds" in (trace := Path("trace.json").read_text())
    assert "mills are closed" not in trace
    capsys.readouterr()
    Path("subquest.toml").write_text("[search]\ntokens = 0\n")
    assert main(ask) == 2
    assert "search.tokens" in capsys.readouterr().err
