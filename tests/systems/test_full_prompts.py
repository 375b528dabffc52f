"""The full prompts, for models that were never trained on our formats: what they show is what the systems read.

An example stands as earlier turns of the conversation. Nothing else of a prompt shows a filled tag: models copy it.
"""

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from subquest.engine import Generation, Message
from subquest.engine.scripted import ScriptedEngine
from subquest.protocol import parse
from subquest.protocol.loose_json import find_object
from subquest.record import Episode, Segment, Trajectory
from subquest.runtime.prompts import Prompts
from subquest.runtime.replies import boxed, decides
from subquest.runtime.tool_loop import calls, inserted
from subquest.runtime.turn import Turn
from subquest.systems.apex import APEX
from subquest.systems.apex.plan import lines_of, make_plan
from subquest.systems.baselines.dialect import DIALECTS, Dialect
from subquest.systems.baselines.ircot import CONCLUSION
from subquest.systems.baselines.o2_searcher import O2_SEARCHER
from subquest.systems.baselines.plan_and_solve import PLAN_AND_SOLVE
from subquest.systems.baselines.react import REACT
from subquest.systems.baselines.search_o1 import SEARCH_O1
from subquest.systems.baselines.zerosearch import _documents
from subquest.systems.coda import CoDA
from subquest.systems.coda.reward import well_formed
from subquest.systems.decor import DECOR
from subquest.systems.hira.memory import Memory

from . import test_apex as apex
from . import test_coda as coda
from . import test_decor as decor
from .fakes import FakeSearch
from .prompt_files import COMPACT, FULL

ONLY_FULL = {"repeated", "coda/executor_compute", "coda/executor_copy", "coda/executor_read"}
"""What adapters learnt to do without."""
GIVEN = {"date"}
"""Fields that the code gives and only full prompts use."""
TOKENS = 1365
"""A third of a window of 4,096, at four characters a token: fewer examples made a 1.5B model break the format."""
NO_DOCUMENTS = {"direct/answerer", "cot/answerer", "plan-and-solve/planner"}
CHAT_ASIDES = ("apex/", "coda/", "decor/", "recall/", "plan-and-solve/", "o2-searcher/", "plan-experts/")
TOOLS = {
    "call_subtask": "subtask_result",
    "search_query": "search_result",
    "click_link": "click_result",
    "code_call": "code_call_result",
    "read_file": "file_result",
    "multimodal_call": "multimodal_result",
    "tool_call": "tool_result",
}
"""Calls in completion mode, and the tokens in which their results are inserted."""

ACTIONS = "answer|filter|plan|query|refine|result|search|task|think|tool_call"
FILLED = re.compile(
    rf"<({ACTIONS})>(?:(?!<\1>).)*?</\1>|<\|begin_(\w+)\|>(?:(?!<\|begin_).)*?<\|end_\2\|>|\\boxed\{{[^}}]+\}}"
    r"|(?:Search|Finish)\[",
    re.DOTALL,
)
PLACEHOLDER = re.compile(
    r"(?:an?|the|your|next|short|search|sub-?)?[ -]*(?:quer(?:y|ies)|answers?|tasks?|questions?|keywords|code|facts?|"
    r"name|notes|page|paragraph|steps?|results?|output|findings|text|and)?\W*",
    re.IGNORECASE,
)


def text(name: str, files: dict[str, Path] = FULL) -> str:
    return files[name].read_text(encoding="utf-8")


def fields(prompt: str) -> set[str]:
    return set(re.findall(r"\$([a-z_]+)", prompt))


NAMES = list(FULL)
OPENINGS = [name for name in NAMES if "\n--- user\n" in text(name)]
ASIDES = [name for name in NAMES if name not in OPENINGS]
"""Reminders, last words and what else is said in mid-conversation."""


def messages(name: str) -> list[Message]:
    return Prompts(FULL[name].parent).messages(FULL[name].stem, **dict.fromkeys(fields(text(name)), "FIELD"))


def turns(name: str) -> list[str]:
    """What the assistant says in the examples."""
    return [message.content for message in messages(name) if message.role == "assistant"]


def conversations(name: str) -> Iterator[list[str]]:
    """The assistant's turns of each example: one begins where the user speaks as at the end."""
    _, *rest = messages(name)
    head = rest[-1].content.partition("FIELD")[0]
    begins = [at for at, message in enumerate(rest) if message.role == "user" and message.content.startswith(head)]
    for begin, end in itertools.pairwise(begins):
        yield [message.content for message in rest[begin:end] if message.role == "assistant"]


@pytest.mark.parametrize(
    "name",
    [
        *(f"hira/{role}" for role in ("search", "deep", "explorer", "code", "multimodal", "toolbox")),
        "react-tools/agent",
    ],
)
def test_a_role_with_tools_knows_the_date(name: str) -> None:
    assert "--- user\nToday is $date.\n" in text(name)


def as_turn(written: str) -> Turn:
    return Turn(written, parse(written), Generation(written, "stop"))


def test_the_full_set_has_every_prompt_of_the_compact_one() -> None:
    assert list(COMPACT) == [name for name in NAMES if name not in ONLY_FULL]


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ONLY_FULL])
def test_a_prompt_stands_in_for_the_compact_one(name: str) -> None:
    full, compact = text(name), text(name, COMPACT)
    asked_again = {"task"} if name in ASIDES else set()
    assert fields(full) - GIVEN - asked_again == fields(compact)
    assert ("\n--- user\n" in full) == ("\n--- user\n" in compact)
    assert len(full) / 4 < TOKENS


@pytest.mark.parametrize("name", OPENINGS)
def test_examples_are_earlier_turns(name: str) -> None:
    system, *rest = messages(name)
    assert system.role == "system"
    assert len(rest) >= 3
    assert [message.role for message in rest] == ["user", "assistant"] * (len(rest) // 2) + ["user"]
    assert not [message for message in rest[:-1] if "FIELD" in message.content]


@pytest.mark.parametrize("name", NAMES)
def test_no_tag_is_filled_outside_of_the_examples(name: str) -> None:
    said = [messages(name)[0].content, messages(name)[-1].content] if name in OPENINGS else [text(name)]
    assert not [found[0] for part in said for found in FILLED.finditer(part)]


@pytest.mark.parametrize("name", OPENINGS)
def test_no_tag_holds_a_placeholder(name: str) -> None:
    tags = re.finditer(r"<(\w+)>(.*?)</\1>|<\|begin_(\w+)\|>(.*?)<\|end_\3\|>|\\boxed\{(.*?)\}", text(name), re.DOTALL)
    inside = [(found[2] or found[4] or found[5] or "").strip() for found in tags]
    assert not [content for content in inside if "…" in content or PLACEHOLDER.fullmatch(content)]


@pytest.mark.parametrize("name", OPENINGS)
def test_what_comes_from_outside_is_data(name: str) -> None:
    assert bool(re.search(r"\bdata\b", messages(name)[0].content)) is (name not in NO_DOCUMENTS)


@pytest.mark.parametrize("name", [n for n in ASIDES if n.endswith(("force", "remind"))])
def test_reminders_speak_in_the_voice_of_the_turn_that_they_continue(name: str) -> None:
    chat = name.startswith(CHAT_ASIDES)
    assert bool(re.search(r"\b(?:I|My)\b", text(name))) is not chat


@pytest.mark.parametrize("name", [n for n in OPENINGS if n.startswith("coda/")])
def test_coda(name: str) -> None:
    examples = list(conversations(name))
    assert examples
    for example in examples:
        segments = tuple(Segment("agent", turn) for turn in example)
        assert well_formed(Trajectory("1", Path(name).name.partition("_")[0], "", segments=segments)), example
    assert ("<refine>" in text(name)) == ("<refine>" in text(name, COMPACT))


def test_codas_planner_is_shown_a_chain_and_comparisons() -> None:
    tasks = [[len(parse(turn).all("task")) for turn in example] for example in conversations("coda/planner")]
    # a comparison of two facts, one of two chains, one that asks again, a chain
    assert tasks == [[2, 0], [2, 2, 0], [1, 1, 1, 0], [1, 1, 1, 0]]


@pytest.mark.parametrize(("role", "tag"), [("planner", "search"), ("filter", "filter"), ("answerer", "answer")])
def test_decor(role: str, tag: str) -> None:
    replies = [parse(turn) for turn in turns(f"decor/{role}")]
    assert len(replies) >= 2
    for reply in replies:
        assert not reply.problems
        assert reply.outside == ""
        assert [block.tag for block in reply.blocks] == ["think", tag]


@pytest.mark.parametrize("name", ["apex/planner", "plan-and-solve/planner"])
def test_plans(name: str) -> None:
    for turn in turns(name):
        (block,) = parse(turn).blocks
        lines = lines_of(block.content)
        plan = make_plan(lines, "the whole question", 5)
        assert not plan.repairs
        assert len(plan.steps) == len(lines)


def test_apexs_executor() -> None:
    """Each turn gives what was asked for last: a decision in one word, a query or the answer."""
    asked = {"reply: retrieve": ("answer", "retrieve"), "or no": ("yes", "no"), "search tag.": "search", "": "answer"}
    _, *rest = messages("apex/executor")
    for user, reply in zip(rest[::2], rest[1::2], strict=False):
        wanted = next(kind for end, kind in asked.items() if user.content.endswith(end))
        if isinstance(wanted, tuple):
            assert reply.content in wanted
            assert decides(as_turn(reply.content), *wanted, default=reply.content == wanted[1]) is (
                reply.content == wanted[0]
            )
        else:
            assert [block.tag for block in parse(reply.content).blocks] == [wanted]


@pytest.mark.parametrize(
    ("opening", "aside"),
    [
        *(("apex/executor", f"apex/{aside}") for aside in ("answer", "answer_known", "continue", "query_first")),
        ("apex/executor", "apex/query_next"),
        ("hira/search", "hira/search_answer"),
    ],
)
def test_examples_ask_in_the_words_of_the_system(opening: str, aside: str) -> None:
    said = re.sub(r"\\\$[a-z_]+", ".*?", re.escape(text(aside).strip()))
    shown = [message.content for message in messages(opening)[1:-1] if message.role == "user"]
    assert any(re.search(f"{said}$", content, re.DOTALL) for content in shown)


@pytest.mark.parametrize(
    "name", ["apex/synthesizer", "cot/answerer", "direct/answerer", "ircot/reader", "rag/answerer"]
)
def test_answers(name: str) -> None:
    for turn in turns(name):
        parsed = parse(turn)
        assert not parsed.problems
        assert [block.tag for block in parsed.blocks if block.tag != "think"] == ["answer"]


@pytest.mark.parametrize("name", ["zerosearch/useful", "zerosearch/noisy"])
def test_invented_documents_are_as_many_as_were_asked_for(name: str) -> None:
    asked = [int(m.content.split()[1]) for m in messages(name) if m.role == "user" and "FIELD" not in m.content]
    assert asked == [len(_documents(turn)) for turn in turns(name)]


def test_ircots_reasoner_writes_one_sentence_at_a_time() -> None:
    said = turns("ircot/reasoner")
    assert [CONCLUSION in sentence for sentence in said] == [False] * (len(said) - 1) + [True]
    assert not any("\n" in sentence for sentence in said)


@pytest.mark.parametrize(
    "dialect", [*DIALECTS.values(), REACT, SEARCH_O1, PLAN_AND_SOLVE, O2_SEARCHER], ids=lambda d: d.name
)
def test_dialects(dialect: Dialect) -> None:
    """Every turn ends with its only action, all but the last search, and documents come as the dialect shows them."""
    examples = conversations(f"{dialect.prompts or dialect.name}/agent")
    shown = ".*?".join(map(re.escape, dialect.observation.split("$documents")))
    if dialect.mode == "completion":
        examples = [re.split(shown, whole, flags=re.DOTALL) for (whole,) in examples]
    else:
        told = [m.content for m in messages(f"{dialect.name}/agent")[3:-1:2]]
        assert all(re.fullmatch(shown, content, re.DOTALL) for content in told)
    assert max(map(len, examples)) >= 3
    for example in examples:
        assert len(example) >= 2
        actions = []
        for said in example:
            before, _, last = said.strip().rpartition("\n")
            actions.append(dialect.action(said))
            assert dialect.action(before) is None
            assert dialect.action(last) == actions[-1]
        assert all(action and action.queries for action in actions[:-1])
        assert actions[-1]
        assert actions[-1].answer in ("Pellwick", "Joss Penrith", "Pell Observatory", "Odo Lenn", "Skell", "no")


COMPLETIONS = [
    f"hira/{role}" for role in ("planner", "planner_no_transfer", "deep", "explorer", "code", "multimodal", "toolbox")
]


@pytest.mark.parametrize("name", [*COMPLETIONS, "react-tools/agent"])
def test_reasoning_in_one_go(name: str) -> None:
    """A whole reasoning is one turn of the assistant: calls, what is inserted behind them, and an end without one."""
    used = set()
    for example in turns(name):
        *called, end = re.split(r"(?<=\|>\n\n)", example)
        assert called
        for part in called:
            ((tag, _),) = calls(as_turn(part), *TOOLS)
            said, token, result = part.partition(f"<|begin_{TOOLS[tag]}|>")
            assert said.endswith(f"<|end_{tag}|>")
            assert inserted(said, result.partition("<|end_")[0], TOOLS[tag]) == token + result
            used.add(tag)
        assert not calls(as_turn(end), *TOOLS)
        assert boxed(end) or end.startswith("Final Information: ")
    named = set(re.findall(r"<\|begin_(\w+)\|>", messages(name)[0].content))
    assert used == named - set(TOOLS.values())


def test_hiras_json() -> None:
    chosen = [find_object(turn)["selected_agent_name"] for turn in turns("hira/select")]
    assert chosen == ["code", "deep", "code", "search"]
    assert all('"name": "deep"' in m.content for m in messages("hira/select")[1:-1] if m.role == "user")
    assert [find_object(turn)["query_plan"] for turn in turns("hira/search")[::2]] == [
        [],
        ["When was the harbour of Velle rebuilt?", "When was the harbour of Arven rebuilt?"],
        ["Who designed the lighthouse of Arven?"],
    ]  # the last examples search: a model that saw an empty plan last searched for nothing
    assert [boxed(turn) for turn in turns("hira/search")[1::2]] == ["9 March 1871", "no", "Tor Vik"]
    assert all(len(find_object(turn)["plan"]) >= 3 for turn in turns("plan-experts/planner"))


@pytest.mark.parametrize("name", ["hira/distil", "hira/distil_no_memory"])
def test_hiras_distillation_takes_from_the_reasoning_alone(name: str) -> None:
    _, *rest = messages(name)
    for user, reply in zip(rest[::2], rest[1::2], strict=False):
        found = find_object(reply.content)
        assert found["conclusion"]["reasoning_process"]
        assert found["conclusion"]["final_conclusion"]
        assert ("memory" in found) is (name == "hira/distil")
        assert all(address in user.content for address in re.findall(r"https://[^\s\"\]]+", reply.content))


def test_hiras_recall() -> None:
    _, *rest = messages("hira/recall")
    for user, reply in zip(rest[::2], rest[1::2], strict=False):
        memory = Memory()
        for line in re.findall(r"^Memory Fact \d+: (.*)", user.content, re.MULTILINE):
            description, colon, address = line.rpartition(": https")
            memory.add_fact(line) if "[Source" in line else memory.add_resource(description, colon[2:] + address)
        chosen = memory.chosen(reply.content, 5)
        assert chosen is not None
        assert [entry.line for entry in chosen] == re.findall(r"\d: (.*)", reply.content)


def test_coda_runs_on_them() -> None:
    engine = ScriptedEngine({"planner": ["Hm.", *coda.PLANNER], "executor": coda.EXECUTOR})
    episode = CoDA(engine, FakeSearch(), prompts="full").ask(coda.QUESTION)
    assert episode.answer == "Kestel"
    (planner,) = episode.by_role("planner")
    prompt = [segment for segment in planner.segments if segment.kind == "prompt"]
    assert prompt[0].text.startswith("You are the planner.")
    assert [segment.role for segment in prompt[1:4]] == ["user", "assistant", "user"]
    assert prompt[-1].text == f"Question: {coda.QUESTION}"


def test_decor_runs_on_them() -> None:
    long = " ".join(f"fact{n}" for n in range(30))
    script = {
        "planner": ["no query", *decor.PLANNER],
        "filter": [f"<filter>{long}</filter>", *decor.FILTER[1:]],
        "answerer": decor.ANSWERER,
        "compressor": ["fact0"],
    }
    episode = DECOR(ScriptedEngine(script), FakeSearch(), prompts="full", memory_tokens=30).ask(decor.QUESTION)
    assert episode.answer == "Kestel"
    first = episode.by_role("planner")[0]
    assert "That was no query." in first.text
    assert f"Question: {decor.QUESTION}\nMemory: empty\nPast queries: none" in first.text
    assert "You shorten notes" in episode.by_role("compressor")[0].text
    assert "MARKER-ONE" in episode.by_role("filter")[0].text


def test_decors_planner_is_told_once_of_a_query_that_was_sent() -> None:
    again = decor.PLANNER[0].replace("designed<", "DESIGNED<")

    def asked(*planner: str, **options: object) -> Episode:
        script = {"planner": [decor.PLANNER[0], *planner], "filter": decor.FILTER, "answerer": decor.ANSWERER}
        return DECOR(ScriptedEngine(script), FakeSearch(), **options).ask(decor.QUESTION)

    helped = asked(again, *decor.PLANNER[1:], prompts="full")
    assert "already sent" in helped.by_role("planner")[1].text
    assert (helped.answer, helped.usage.searches) == ("Kestel", 2)
    ended = asked(again, again, prompts="full")
    assert (ended.answer, ended.usage.searches, ended.stop_reason) == ("Kestel", 1, "answered")
    trained = asked(again, decor.PLANNER[2], prompts="compact")
    assert trained.usage.searches == 2


@pytest.mark.parametrize(("prompts", "again"), [("full", True), ("compact", False)])
def test_what_is_asked_stands_after_the_documents_too(prompts: str, again: bool) -> None:
    """Small models answer what stands last; adapters with compact prompts learnt to do without."""
    task = "Who designed the Orvane Bridge?"
    engine = ScriptedEngine({"planner": coda.PLANNER, "executor": coda.EXECUTOR})
    asked = CoDA(engine, FakeSearch(), prompts=prompts).ask(coda.QUESTION)
    steps = ScriptedEngine({"planner": [apex.PLAN], "executor": apex.EXECUTOR, "synthesizer": apex.SYNTHESIZER})
    planned = APEX(steps, FakeSearch(), prompts=prompts).ask(apex.QUESTION)
    for episode in (asked, planned):
        first = episode.by_role("executor")[0]
        after = "".join(s.text for s in first.segments if s.kind == "env").partition("</documents>")[2]
        assert (first.task, first.task in after) == (task, again)
