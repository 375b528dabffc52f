"""A context that goes in circles is told so once and then ends, in every system alike."""

import itertools
import json

import pytest

from subquest.engine.scripted import Context, ScriptedEngine
from subquest.record import Document
from subquest.runtime.run import SEARCH_ATTEMPTS
from subquest.runtime.window import CIRCLE, Shown, Transcript
from subquest.systems import registry

from ..systems.fakes import FakeSearch

AGAIN = "it wrote the same again after it was told so"


def rounds(*pairs: tuple[str, str]) -> tuple[Transcript, list[str]]:
    """A transcript of turns and what each was told; what `leave_circle` says after each."""
    transcript = Transcript(list, "chat", None)
    said = []
    for turn, told in pairs:
        transcript.wrote(turn)
        transcript.tell([told] if told else [])
        said.append(transcript.leave_circle())
        transcript.sent()
    return transcript, said


@pytest.mark.parametrize(
    ("turns", "said"),
    [
        ("Ax Ax Ax", ["", CIRCLE, AGAIN]),
        ("A A A", ["", CIRCLE, AGAIN]),
        ("Ax Ay Az", ["", "", ""]),  # a page is turned: the same call, and something else came back
        ("Ax Bx Ax Bx Ax", ["", "", "", CIRCLE, AGAIN]),
        ("Ax Bx Ax Cx Ax", ["", "", "", "", ""]),  # a question asked again about something new
        ("Ax Ax Bx By By", ["", CIRCLE, "", "", CIRCLE]),
        ("Ax Ax Ay Ay", ["", CIRCLE, "", AGAIN]),
    ],
)
def test_a_circle_is_the_same_turns_with_the_same_answers(turns: str, said: list[str]) -> None:
    assert rounds(*((turn[0], turn[1:]) for turn in turns.split()))[1] == said


def test_documents_count_as_they_are_shown() -> None:
    documents = [Document("1", "One", "Text"), Document("2", "Two", "Text")]
    transcript = Transcript(list, "chat", None)
    for shown in (documents, documents[:1], documents[:1]):
        transcript.wrote("A")
        transcript.tell([Shown([shown], lambda groups, nothing: str(groups), 10)])
        said = transcript.leave_circle()
        transcript.sent()
        assert bool(said) == (transcript.unsent == "" and len(transcript.messages()) == 6)
    assert [message.role for message in transcript.messages()] == ["assistant", "user"] * 3, "one message with it"
    assert transcript.messages()[-1].content.endswith(CIRCLE)


AGENTS = [name for name in registry.names() if name not in ("direct", "cot", "rag")]


@pytest.mark.parametrize("name", AGENTS)
def test_no_context_of_any_system_uses_up_its_turns_with_one_text(name: str) -> None:
    """A model that has nothing else to say: three times the same, then the forced turn."""

    def reply(context: Context) -> str:
        return "I am not sure what to do here."

    episode = registry.get(name)(ScriptedEngine(reply), FakeSearch()).ask("Where was Mila Torrun born?")
    for context in episode.contexts:
        assert len(context.written_turns) <= 4, context.role
        assert context.text.count(CIRCLE) <= 1


def test_the_trace_says_why_a_context_ended() -> None:
    search = FakeSearch()
    script = {
        "planner": ["<task>Find it.</task>", "<answer>Kestel</answer>"],
        "executor": ["A thought that leads nowhere."] * 3 + ["<result>Kestel</result>"],
    }
    episode = registry.get("coda")(ScriptedEngine(script), search, executor_turns=50).ask("Where?")
    assert episode.answer == "Kestel"
    executor = episode.by_role("executor")[0]
    assert executor.forced
    limits = [(e.data["what"], e.data["message"]) for e in episode.events if e.kind == "limit"]
    assert limits == [("repeated turn", CIRCLE), ("repeated turn", AGAIN), (AGAIN, "a final answer is forced")]


async def test_a_model_that_heeds_the_hint_goes_on() -> None:
    def reply(context: Context) -> str:
        return "<answer>Kestel</answer>" if CIRCLE in context.last else "I am not sure."

    episode = await registry.get("search-r1")(ScriptedEngine(reply), FakeSearch(), turns=9).solve("Where?")
    assert (episode.answer, episode.forced, len(episode.trajectories[0].written_turns)) == ("Kestel", False, 3)


SEARCHING = [name for name in AGENTS if name not in ("ircot", "codeact", "multimodal")]
LOOKED_UP = {"hira": 2, "webthinker": 2, "plan-experts": 2, "truncation": 2}
"""HiRA's deep search and its explorer search each, and what truncation finds leaves its context."""


@pytest.mark.parametrize("name", SEARCHING)
def test_no_system_sends_a_query_again(name: str) -> None:
    """A model that has one query and a new thought each time: it is told, and an answer is forced after the next."""
    thoughts = itertools.count()

    def reply(context: Context) -> str:
        acts = {action.name: action for action in system.actions().get(context.role, ())}
        writes = {"search": "Orvane Bridge", "call_subtask": "Find it.", "task": "Find it.", "plan": "Where is it?"}
        written = [acts[act].tag(text) for act, text in writes.items() if act in acts]
        chosen = {"selected_agent_name": "deep", "plan": ["Find it."]}  # by coordinators and planners without actions
        return f"{json.dumps(chosen)}\nThought {next(thoughts)}.\n{''.join(written[:1])}"

    search = FakeSearch()
    system = registry.get(name)(ScriptedEngine(reply), search, **({"prompts": "full"} if name == "decor" else {}))
    episode = system.ask("Where was the designer born?")
    assert len(search.queries) == LOOKED_UP.get(name, 1)
    assert any("already sent" in context.text for context in episode.contexts)
    for searches in (context for context in episode.contexts if context.usage.searches):
        assert searches.usage.searches == 1
        assert len(searches.written_turns) <= (5 if name == "apex" else 3), "apex is asked whether to go on in between"


async def test_a_search_that_failed_may_be_sent_again() -> None:
    script = ["<search>Orvane</search>"] * 3 + ["<answer>Kestel</answer>"]
    search = FakeSearch(failures=SEARCH_ATTEMPTS)
    episode = await registry.get("search-r1")(ScriptedEngine(script), search, turns=9).solve("Where?")
    told = [s.text for s in episode.trajectories[0].segments if s.kind == "env"]
    expected = ("The search failed", "MARKER-ONE", "already sent")
    assert [words in text for words, text in zip(expected, told, strict=True)] == [True] * 3
    assert episode.answer == "Kestel"


async def test_a_query_whose_documents_left_a_full_context_may_be_sent_again() -> None:
    long = [Document(str(n), f"Orvane {n}", f"Orvane {n} " + "word " * 60) for n in range(6)]
    script = ["<search>Orvane</search>", "<search>Orvane 3</search>", "<search>Orvane</search>", "<answer>x</answer>"]
    engine = ScriptedEngine(script, context_window=900)
    search = FakeSearch(long)
    episode = await registry.get("search-r1")(engine, search, k=5, turns=9).solve("Where?")
    assert any(e.data["what"] == "context window" for e in episode.events if e.kind == "limit")
    assert search.queries == ["Orvane", "Orvane 3", "Orvane"]
