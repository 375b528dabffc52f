"""Whether an episode's answer is supported, system by system."""

from typing import Any

import msgspec
import pytest

from subquest.engine.scripted import ScriptedEngine
from subquest.evaluate.result_table import Scored, cell
from subquest.evaluate.score import score
from subquest.record import Document, Episode
from subquest.runtime.evidence import Finding, support_of
from subquest.systems import registry

from ..systems.fakes import FakeSearch

QUESTION = "Was the designer of the Orvane Bridge born in Kestel?"
NOTE = "The Orvane Bridge was designed by Mila Torrun."
BORN = "She was born in Kestel in 1889."
DECOR = {
    "planner": ["<search>Orvane Bridge Torrun</search>", "<search>None</search>"],
    "filter": [f"<filter>{NOTE}</filter>"],
}


def ask(system: str, script: dict[str, list[str]], question: str = QUESTION) -> Episode:
    made: Any = registry.get(system)(ScriptedEngine(script), FakeSearch())
    episode: Episode = made.ask(question)
    told = next(event for event in episode.events if event.kind == "answer")
    assert told.data["supported"] is episode.supported
    return episode


def test_a_system_that_reads_nothing_by_design_has_nothing_to_say() -> None:
    for system in ("direct", "cot"):
        assert ask(system, {"answerer": ["<answer>Kestel</answer>"]}).supported is None


@pytest.mark.parametrize(
    ("note", "answer", "supported"),
    [
        (NOTE, "Mila Torrun", True),
        (NOTE, "yes", False),  # of Kestel it says nothing
        (f"{NOTE} {BORN}", "yes", None),  # its parts
        (NOTE, "Varn", False),
        ("The Orvane Bridge was designed by Ada Lind.", "yes", False),
    ],
)
def test_decor_rests_on_what_its_filter_wrote(note: str, answer: str, supported: bool | None) -> None:
    script = DECOR | {"filter": [f"<filter>{note}</filter>"], "answerer": [f"<answer>{answer}</answer>"]}
    episode = ask("decor", script)
    assert (episode.supported, episode.parts_supported) == (supported is True, supported is None)
    assert bool(episode.evidence) is (supported is not False)


def test_what_a_single_agent_says_on_the_way_is_quoted_but_is_no_sub_result() -> None:
    turns = ["<search>Orvane Bridge</search>", f"<think>{NOTE} I know nothing else.</think><answer>1931</answer>"]
    episode = ask("search-r1", {"agent": turns}, "When did the Orvane Bridge open?")
    assert [e.quote for e in episode.evidence] == [NOTE, "It opened in 1931."]
    assert ask("search-r1", {"agent": [turns[0], turns[1].replace("1931", "yes")]}).supported is False


def test_what_autorefine_distils_is_a_sub_result() -> None:
    turns = [
        "<search>Orvane Bridge Torrun</search>",
        f"<refine>{NOTE}</refine><refine>{BORN}</refine><answer>yes</answer>",
    ]
    assert ask("autorefine", {"agent": turns}).parts_supported is True
    assert ask("autorefine", {"agent": [turns[0], turns[1].replace("Mila", "Ada")]}).parts_supported is False
    assert ask("autorefine", {"agent": [turns[0], turns[1].replace("Kestel", "Varn")]}).parts_supported is False


def test_the_share_supported_and_the_accuracy_of_both_kinds() -> None:
    episodes = [ask("decor", DECOR | {"answerer": [f"<answer>{text}</answer>"]}) for text in ("Mila Torrun", "Varn")]
    rows = [Scored(e.id, "d", "decor", e.question, {**score(e), "em": e.answer == "Varn"}) for e in episodes]
    found = cell(rows)
    assert (found["supported"], found["em_supported"], found["em_unsupported"]) == (0.5, 0.0, 1.0)
    assert "em_parts_supported" not in found
    parts = msgspec.structs.replace(episodes[0], supported=False, parts_supported=True)
    found = cell([*rows, Scored("p", "d", "decor", parts.question, {**score(parts), "em": 1.0})])
    assert (found["parts_supported"], found["em_parts_supported"], found["em_unsupported"]) == (
        pytest.approx(1 / 3, abs=1e-5),
        1.0,
        1.0,
    )


def test_episodes_of_earlier_versions_do_not_tell() -> None:
    episode = ask("direct", {"answerer": ["<answer>Kestel</answer>"]})
    assert '"supported"' not in episode.without_events().to_json()
    assert Episode.from_json(episode.to_json()).supported is None


@pytest.mark.parametrize("answer", ["unknown", "Not found."])
def test_an_answer_that_does_not_know_is_not_supported(answer: str) -> None:
    document = Document("d", "Song", "Its author is unknown and its score was not found.")
    assert support_of(answer, "Who wrote the song?", [Finding("", "", "", [document])]) == ((), False, False)


def test_a_result_that_a_later_sub_task_repeats_in_vain_is_no_answer() -> None:
    documents = [
        Document("1", "Orvane Bridge", "The Orvane Bridge was designed by Mila Torrun."),
        Document("2", "Mila Torrun", "Mila Torrun was an engineer. She died in Lund."),
    ]
    question = "Where did the designer of the Orvane Bridge die?"
    designed = Finding("Who designed the Orvane Bridge?", "Mila Torrun", "", documents)

    def judged(task: str, result: str) -> bool | None:
        return support_of(result, question, [designed, Finding(task, result, "", documents)]).supported

    assert judged("Where did Mila Torrun die?", "Lund") is True
    assert judged("Where did Mila Torrun die?", "Mila Torrun") is False
    assert judged("Did Mila Torrun design the Orvane Bridge?", "Mila Torrun") is True
