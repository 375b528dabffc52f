"""Answers in sentences: the flow from outline to sources, with a scripted model."""

from typing import Any

import pytest

from subquest.engine.scripted import ScriptedEngine
from subquest.errors import EngineError, UsageError
from subquest.limits import Limits
from subquest.process import run_sync
from subquest.record import Document, Episode
from subquest.runtime.sentence_check import is_supported
from subquest.systems import registry

from ..systems.fakes import FakeSearch

DOCUMENTS = (
    Document(
        "d1",
        "Orvane Bridge",
        "The Orvane Bridge was designed by Mila Torrun. It opened in 1931.",
        {"file": "bridges.pdf", "page": 3},
    ),
    Document(
        "d2",
        "Mila Torrun",
        "Mila Torrun was an engineer. She was born in Kestel in 1889.",
        {"file": "people.md", "line": 12},
    ),
)
ASKED = "Write about the Orvane Bridge and its designer."
OUTLINE = (
    "Design: Who designed the Orvane Bridge?\nOrigin: Where was Mila Torrun born?\nToll: What was the toll in Varn?"
)
ANSWERS = {
    "Who designed": ("<search>Orvane Bridge designed</search>", "<answer>Mila Torrun</answer>"),
    "Where was": ("<search>Mila Torrun born</search>", "<answer>Kestel</answer>"),
    "toll": ("<search>zzz</search>", "<answer>unknown</answer>"),
}
WRITTEN = {
    "Who designed": "The Orvane Bridge was designed by Mila Torrun [1]. It cost nine million crowns [1].",
    "Where was": "Mila Torrun was born in Kestel in 1889 [1]. The Orvane Bridge was designed by Mila Torrun [2].",
    "toll": "The toll was high [1].",
}


def reply(context: Any, told: dict[str, Any]) -> Any:
    """The scripted model: by role, and by the section's question in its prompt."""
    if context.role in told:
        return told[context.role]
    if context.role == "outliner":
        return OUTLINE
    key = next(key for key in ANSWERS if key in context.text)
    return WRITTEN[key] if context.role == "reporter" else ANSWERS[key][context.turn]


def ask(
    style: Any = "report",
    asked: str = ASKED,
    limits: Limits | None = None,
    documents: tuple[Document, ...] = DOCUMENTS,
    **told: Any,
) -> Episode:
    engine = ScriptedEngine(lambda context: reply(context, told))
    made: Any = registry.get("search-r1")(engine, FakeSearch(documents), limits=limits)
    episode: Episode = run_sync(made.solve(asked, style=style))
    return episode


def test_a_report_has_sections_checked_sentences_and_sources() -> None:
    episode = ask()
    assert episode.report is not None
    design, origin, toll, rest = episode.report.sections
    assert [s.text for s in design.sentences] == ["The Orvane Bridge was designed by Mila Torrun."]
    assert [s.text for s in rest.sentences] == ["Orvane Bridge: It opened in 1931."]
    assert episode.report.dropped == 1
    assert toll.sentences == ()
    assert toll.missing == "not found in the documents"
    cited = {n for section in episode.report.sections for s in section.sentences for n in s.sources}
    assert cited == set(range(1, len(episode.evidence) + 1))
    for section in (design, origin, rest):
        for sentence in section.sentences:
            assert is_supported(sentence.text, [episode.evidence[n - 1] for n in sentence.sources])
    assert "## Origin\n\nMila Torrun was born in Kestel in 1889 [2]." in episode.answer
    assert "[1] Orvane Bridge, bridges.pdf, page 3:" in episode.answer
    assert "people.md, line 12" in episode.answer
    assert "states the answer" not in episode.answer  # of a section's question, which nobody sees
    assert episode.supported is True
    assert episode.settings["style"] == "report"
    assert Episode.from_json(episode.to_json()) == episode


def test_sections_stream_in_order_while_later_ones_are_unwritten() -> None:
    episode = ask()
    sections = [event for event in episode.events if event.kind == "section"]
    assert [event.data["number"] for event in sections] == [1, 2, 3, 4]
    assert [event.data["dropped"] for event in sections] == [1, 0, 0, 0]
    opened = [e.seq for e in episode.events if e.kind == "open" and e.data["role"] == "reporter"]
    assert sections[0].seq < opened[1] < sections[1].seq
    assert {e.data["parent"] for e in episode.events if e.kind == "open"} == {None, "1"}


@pytest.mark.parametrize("outline", ["I am only a small model.", "", EngineError("gone")])
def test_without_a_usable_outline_quotes_follow_what_the_model_wrote_by_document(outline: Any) -> None:
    episode = ask(asked="Who designed the Orvane Bridge?", outliner=outline)
    assert episode.report is not None
    written, bridge = episode.report.sections
    assert [s.text for s in written.sentences] == ["The Orvane Bridge was designed by Mila Torrun."]
    assert (written.title, bridge.title) == ("", "Orvane Bridge")
    assert [s.text for s in bridge.sentences] == ["It opened in 1931."]
    numbers = [event.data["number"] for event in episode.events if event.kind == "section"]
    assert numbers == [1, 2]


def test_items_of_a_list_and_rows_of_a_table_are_quoted_as_sentences() -> None:
    bridge = "1. The Orvane Bridge was designed by Mila Torrun.\n- The Orvane Bridge opened in 1931\n"
    row = "Bridge: Orvane Bridge; Toll: 3 crowns; Keeper: Ada Holm"
    documents = (Document("d1", "Orvane Bridge", bridge), Document("d2", "Tolls of the Orvane Bridge", row))
    episode = ask(
        asked="Write about the Orvane Bridge.",
        documents=documents,
        outliner="no",
        agent="<answer>?</answer>",
        reporter="?",
    )
    assert episode.report is not None
    said = [sentence.text for section in episode.report.sections for sentence in section.sentences]
    assert said == [
        "The Orvane Bridge was designed by Mila Torrun.",
        "The Orvane Bridge opened in 1931.",
        "Bridge: Orvane Bridge; Toll: 3 crowns; Keeper: Ada Holm.",
    ]


def test_without_an_outline_a_model_that_writes_enough_is_left_alone() -> None:
    said = "The Orvane Bridge was designed by Mila Torrun [1]. The bridge opened in 1931 [2]."
    more = "The bridge opened in 1931 and was designed by Mila Torrun [1][2]."
    episode = ask(asked="Who designed the Orvane Bridge?", outliner="no", reporter=f"{said} {more}")
    assert episode.report is not None
    assert [len(section.sentences) for section in episode.report.sections] == [3]


def test_without_an_outline_sections_are_numbered_without_gaps() -> None:
    asked = "Who designed the Orvane Bridge that Kestel paid for?"
    said = "The Orvane Bridge was designed by Mila Torrun [1]."
    roads = Document("d3", "Roads", "The Orvane Bridge that Kestel paid for has no toll.")
    first = Document("d1", "Kestel", DOCUMENTS[0].text.split(". ")[0] + ".")
    episode = ask(asked=asked, documents=(first, roads), outliner="no", reporter=said)
    numbers = [event.data["number"] for event in episode.events if event.kind == "section"]
    assert episode.report is not None
    assert [section.title for section in episode.report.sections] == ["", "Roads"]
    assert numbers == [1, 2], "nothing is left to say of Kestel"


def test_without_an_outline_documents_on_the_subject_are_quoted_where_no_sentence_has_all_names() -> None:
    episode = ask(
        asked="Write about the Orvane Bridge and Kestrel Lane.", outliner="no", agent="<answer>unknown</answer>"
    )
    assert episode.report is not None
    written, rest = episode.report.sections
    assert written.missing == "not found in the documents"
    assert (rest.title, len(rest.sentences)) == ("Also in the documents", 2)


def test_words_that_ask_for_a_report_are_not_its_subject() -> None:
    nothing = "<answer>unknown</answer>"
    episode = ask(asked="Give an overview of the bridge.", outliner="no", agent=nothing, reporter="I cannot.")
    assert episode.report is not None
    quoted = [s.text for section in episode.report.sections for s in section.sentences]
    assert any("It opened in 1931." in text for text in quoted)
    assert not any("Kestel" in text for text in quoted)


@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [
        ("The Orvane Bridge was designed by Mila Torrun", "By Mila Torrun the bridge was designed", False),
        ("The bridge was designed by Mila Torrun", "The Orvane Bridge was designed by Mila Torrun", False),
        ("The Orvane Bridge was designed", "The Orvane Bridge was designed by Mila Torrun", True),
    ],
)
def test_a_section_tells_more_of_a_quote_but_not_the_same_in_other_words(first: str, second: str, kept: bool) -> None:
    def written(context: Any) -> Any:
        if context.role != "reporter":
            return reply(context, {})
        born = "Mila Torrun was born in Kestel in 1889 [1]."
        return f"{first} [1]." if "Who designed" in context.text else f"{born} {second} [2]."

    made: Any = registry.get("search-r1")(ScriptedEngine(written), FakeSearch(DOCUMENTS))
    design, origin, *_ = made.ask(ASKED, style="report").report.sections
    assert [s.text for s in design.sentences] == [f"{first}."]
    assert (f"{second}." in [s.text for s in origin.sentences]) is kept


def test_no_section_repeats_an_earlier_one() -> None:
    outline = "Design: Who designed the Orvane Bridge?\nDesigner: Who designed the bridge at Orvane?"
    episode = ask(outliner=outline, reporter="The Orvane Bridge was designed by Mila Torrun [1].")
    assert episode.report is not None
    design, designer = episode.report.sections
    assert [s.text for s in design.sentences] == ["The Orvane Bridge was designed by Mila Torrun."]
    assert "The Orvane Bridge was designed by Mila Torrun." not in [s.text for s in designer.sentences]
    assert designer.sentences or designer.missing == "the documents say no more than the sections above"
    assert episode.answer.count("was designed by Mila Torrun [1]") == 1


@pytest.mark.parametrize("written", ["", "Banana banana banana.", EngineError("gone")])
def test_quotes_stand_for_themselves_where_the_model_writes_nothing_usable(written: Any) -> None:
    episode = ask(reporter=written)
    assert episode.report is not None
    design, origin, *_ = episode.report.sections
    assert [s.text for s in design.sentences] == ["The Orvane Bridge was designed by Mila Torrun."]
    assert [s.text for s in origin.sentences] == ["Mila Torrun: She was born in Kestel in 1889."]
    assert all(is_supported(s.text, [episode.evidence[n - 1] for n in s.sources]) for s in origin.sentences)


def test_nothing_found_is_said_and_nothing_is_invented() -> None:
    episode = ask(asked="Write about the tolls of Varn.", outliner="Toll: What was the toll in Varn?")
    assert episode.answer == "## Toll\n\nNot found in the documents."
    assert episode.evidence == ()
    assert episode.supported is False
    assert episode.stop_reason == "abstained"


def test_a_report_of_one_section_quotes_all_that_names_its_subject() -> None:
    episode = ask(asked="Who was Mila Torrun? Describe her life. Who designed what?", outliner="", reporter="")
    assert {e.quote for e in episode.evidence} >= {"Mila Torrun was an engineer.", "She was born in Kestel in 1889."}


def test_a_section_that_fails_says_so_and_the_others_stand() -> None:
    def model(context: Any) -> Any:
        broken = context.role == "agent" and "Where was" in context.text
        return EngineError("the endpoint is gone") if broken else reply(context, {})

    made: Any = registry.get("search-r1")(ScriptedEngine(model), FakeSearch(DOCUMENTS))
    episode = made.ask(ASKED, style="report")
    design, origin, *_ = episode.report.sections
    assert design.sentences
    assert origin.missing.startswith("not finished")
    assert "the endpoint is gone" in episode.errors[0].message
    failed = ask(agent=EngineError("gone"))
    assert (failed.answer, failed.stop_reason) == ("", "failed")


def test_a_budget_ends_a_report_with_what_it_has() -> None:
    episode = ask(limits=Limits(calls=4))
    assert episode.report is not None
    assert [section.title for section in episode.report.sections][:3] == ["Design", "Origin", "Toll"]
    assert all(section.sentences or section.missing for section in episode.report.sections)


@pytest.mark.parametrize(
    ("written", "answer"),
    [
        ("Mila Torrun designed the Orvane Bridge [1].", "Mila Torrun designed the Orvane Bridge [1]."),
        ("Ada Lind designed it [1].", "The Orvane Bridge was designed by Mila Torrun [1]."),  # the quote itself
        ("", "The Orvane Bridge was designed by Mila Torrun [1]."),
        (EngineError("gone"), "The Orvane Bridge was designed by Mila Torrun [1]."),
    ],
)
def test_a_sentence_says_the_answer_and_cites_it(written: Any, answer: str) -> None:
    episode = ask("sentence", asked="Who designed the Orvane Bridge?", reporter=written)
    assert episode.answer == answer
    assert episode.report is not None
    assert episode.report.short == "Mila Torrun"
    assert [e.quote for e in episode.evidence] == ["The Orvane Bridge was designed by Mila Torrun."]
    assert episode.supported is True


def test_an_unsupported_answer_is_not_dressed_up_as_a_sentence() -> None:
    episode = ask("sentence", asked="Who designed the Orvane Bridge?", agent="<answer>Ada Lind</answer>")
    assert (episode.answer, episode.supported, episode.evidence) == ("Ada Lind", False, ())


@pytest.mark.parametrize("system", [name for name in registry.names() if registry.needs_search(name)])
def test_every_system_writes_reports(system: str) -> None:
    engine = ScriptedEngine(lambda context: "Design: Who designed the Orvane Bridge?\n<answer>Mila Torrun</answer>")
    made: Any = registry.get(system)(engine, FakeSearch(DOCUMENTS))
    episode = made.ask(ASKED, style="report")
    assert episode.report.sections[0].title == "Design"
    assert any(t.role == "outliner" for t in episode.trajectories)


def test_wrong_styles_are_refused() -> None:
    with pytest.raises(UsageError, match="no style 'essay'; give short, sentence, report"):
        ask("essay")
    with pytest.raises(UsageError, match="votes"):
        registry.get("search-r1")(ScriptedEngine([]), FakeSearch(), votes=3, style="report")
