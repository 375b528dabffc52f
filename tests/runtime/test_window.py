"""A full window, in every system alike: the oldest documents leave, then one answer is forced."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from subquest.engine.scripted import Context, ScriptedEngine
from subquest.errors import ContextOverflow
from subquest.record import Document, Episode, Hit, Trajectory
from subquest.rewards import Reward
from subquest.serve.episode_view import episode_view, token_view
from subquest.systems import registry
from subquest.train.advantage import trajectory_advantages
from subquest.train.rollouts import episode_figures

WINDOW = 2000
FILLING = " ".join(f"word{n}" for n in range(60))


class Library:
    """Ten documents for any query, each with a mark that names the query and its rank."""

    name = "library"

    async def retrieve(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        return [[Hit(self.document(query, rank), 1.0) for rank in range(1, k + 1)] for query in queries]

    def document(self, query: str, rank: int) -> Document:
        mark = f"MARK-{re.sub('[^a-z0-9]', '', query.lower())}-{rank}-END"
        return Document(f"{query}/{rank}", f"{query} {rank}", f"{mark} {FILLING}")


def searches(action: str, answer: str, turns: int = 4):  # type: ignore[no-untyped-def]
    """A model that searches a few times, each time for something else, and then answers."""

    def reply(context: Context) -> str:
        begun = [int(n) for m in context.messages for n in re.findall(r"query(\d)", m.content)]
        following = max(begun, default=-1) + 1
        return answer if following >= turns else action.format(f"query{following}")

    return reply


def apex_executor(context: Context) -> str:
    said = context.messages[-1].content
    if "query" in said.lower():
        return f"<search>query{context.turn}</search>"
    if "<answer>" in said:
        return "<answer>x</answer>"
    return "yes retrieve" if context.turn else "retrieve"


AGENTS = {
    "autorefine": searches("<search>{}</search>", "<answer>x</answer>"),
    "search-r1": searches("<search>{}</search>", "<answer>x</answer>", 3),
    "zerosearch": searches("<search>{}</search>", "<answer>x</answer>", 3),
    "research": searches("<search>{}</search>", "<answer>\\boxed{{x}}</answer>".replace("{{", "{").replace("}}", "}")),
    "recall": searches(
        '<tool_call>{{"name": "search", "arguments": {{"query": "{}"}}}}</tool_call>', "<answer>x</answer>"
    ),
    "r1-searcher": searches("<|begin_of_query|>{}<|end_of_query|>", "<answer>x</answer>"),
    "simpledeepsearcher": searches("<|begin_search_query|>{}<|end_search_query|>", "\\boxed{x}"),
    "react": searches("Action: Search[{}]", "Action: Finish[x]"),
}


def ask(name: str, replies: Any, window: int | None = WINDOW, **settings: Any) -> Episode:
    engine = ScriptedEngine(replies, context_window=window, token_ids=True)
    return registry.get(name)(engine, Library(), **settings).ask("Who?")


def limits_of(episode: Episode) -> list[str]:
    return [e.data["message"] for e in episode.events if e.kind == "limit" and e.data["what"] == "context window"]


@pytest.mark.parametrize("name", AGENTS)
def test_a_single_context_goes_on_without_its_oldest_documents(name: str) -> None:
    episode = ask(name, AGENTS[name], k=10, turns=6)
    assert (episode.answer, episode.stop_reason, episode.forced) == ("x", "answered", False)
    assert all("oldest are removed" in message for message in limits_of(episode))
    assert limits_of(episode)
    last = episode.trajectories[-1]
    assert "MARK-query0-10-END" not in last.text
    newest = max(re.findall(r"MARK-(query\d)-\d+-END", last.text))
    assert f"MARK-{newest}-10-END" in last.text  # what came last is whole
    assert len(last.token_ids) <= WINDOW


def test_documents_leave_from_the_oldest_search_and_from_its_lowest_rank() -> None:
    episode = ask("autorefine", AGENTS["autorefine"], k=10)
    shown = re.findall(r"MARK-(query\d)-(\d+)-END", episode.trajectories[-1].text)
    of_first_kept = [int(rank) for query, rank in shown if query == min(q for q, _ in shown)]
    assert of_first_kept == list(range(1, len(of_first_kept) + 1))
    assert "(left out: the context was full)" in episode.trajectories[-1].text


def test_every_session_is_kept_and_rewarded_as_one_context() -> None:
    episode = ask("autorefine", AGENTS["autorefine"], k=10)
    *parts, last = episode.trajectories
    assert parts
    assert {t.part_of for t in parts} == {last.id}
    assert [t.id for t in parts] == [f"{last.id}~{n}" for n in range(1, len(parts) + 1)]
    assert "MARK-query0-10-END" in parts[0].text
    (whole,) = episode.by_role("agent")
    assert episode.roots == (whole,)
    turns = [s.text for s in whole.segments if s.kind == "agent"]
    assert turns == [*(f"<search>query{n}</search>" for n in range(4)), "<answer>x</answer>"]
    written = sum(t.action_mask.count(1) for t in episode.trajectories)
    assert whole.action_mask.count(1) == written  # each token that was sampled is trained on once
    other = ask("autorefine", ["<answer>y</answer>"])
    (advantages, _) = trajectory_advantages(
        [episode, other], [Reward(1.0, roles={"agent": 1.0}), Reward(0.0, roles={"agent": 0.0})], by="role"
    )
    assert set(advantages) == {t.id for t in episode.trajectories}
    assert len(set(advantages.values())) == 1


def test_what_was_told_when_the_window_was_full_stands_in_the_whole_context() -> None:
    """The documents of each search are there, as they were first shown."""
    episode = ask("autorefine", AGENTS["autorefine"], k=10)
    (whole,) = episode.by_role("agent")
    kinds = [s.kind for s in whole.segments if s.kind != "prompt"]
    assert kinds == ["agent", "env"] * 4 + ["agent"]
    told = [s.text for s in whole.segments if s.kind == "env"]
    assert [f"MARK-query{n}-10-END" in text for n, text in enumerate(told)] == [True] * 4
    assert [(depth, t.id) for depth, t in episode.walk()] == [(0, "1")]
    figures = episode_figures([replace(episode, trajectories=tuple(_malformed(t) for t in episode.trajectories))])
    assert figures["format_errors"] == 1.0
    assert figures["written_agent"] == whole.action_mask.count(1)


def _malformed(trajectory: Trajectory) -> Trajectory:
    return trajectory if trajectory.part_of else replace(trajectory, format_errors=("no action",))


def test_the_page_and_its_tokens_show_whole_contexts() -> None:
    episode = ask("autorefine", AGENTS["autorefine"], k=10)
    (trajectory,) = episode_view(episode)["trajectories"]
    assert "MARK-query0-10-END" in "".join(s["text"] for s in trajectory["segments"])
    (tokens,) = token_view(episode, None)["trajectories"]
    assert tokens["written"] == sum(t.action_mask.count(1) for t in episode.trajectories)


def test_an_experts_reasoning_holds_what_it_was_told_when_its_window_was_full() -> None:
    """The coordinator distils it from there."""

    def deep(context: Context) -> str:
        calls = len(set(re.findall(r"query\|>(q\d)<", context.text)))
        return "\\boxed{x}" if calls == 3 else f"<|begin_search_query|>q{calls}<|end_search_query|>"

    def explorer(context: Context) -> str:
        return f"Final Information: {context.text.count('MARK')} REPORT {f'{FILLING} ' * 6}"

    replies = hira_roles("deep", deep=deep, explorer=explorer)
    engines = {"": ScriptedEngine(replies), "deep": ScriptedEngine(replies, context_window=1500)}
    episode = registry.get("hira")(engines, Library()).ask("Who?")
    assert any(t.part_of for t in episode.trajectories if t.role == "deep")
    (distilled,) = [t for t in episode.by_role("coordinator") if "REPORT" in t.text]
    assert len(re.findall(r"(?<!Information: )\b10 REPORT", distilled.text)) == 3


def test_a_round_trip_keeps_the_parts() -> None:
    episode = ask("autorefine", AGENTS["autorefine"], k=10)
    assert Episode.from_json(episode.to_json()).contexts == episode.contexts


def test_an_executor_of_coda_goes_on_too() -> None:
    script = {"planner": ["<task>t</task>", "<answer>x</answer>"], "executor": []}

    def reply(context: Context) -> str:
        if context.role == "planner":
            return script["planner"][context.turn]
        return AGENTS["autorefine"](context).replace("answer>", "result>")

    episode = ask("coda", reply, k=10)
    assert (episode.answer, episode.forced) == ("x", False)
    assert limits_of(episode)
    assert len(episode.by_role("executor")) == 1
    assert episode.by_role("executor")[0].result == "x"


def test_apex_and_its_executor() -> None:
    replies = {"planner": lambda c: "<plan>1. Who?</plan>", "executor": apex_executor}

    def reply(context: Context) -> str:
        return replies.get(context.role, lambda c: "<answer>x</answer>")(context)

    episode = ask("apex", reply, k=10)
    assert episode.answer == "x"
    assert limits_of(episode)


@pytest.mark.parametrize(
    ("name", "replies", "settings"),
    [
        ("rag", {"answerer": ["<answer>x</answer>"]}, {}),
        ("ircot", {"reasoner": ["So the answer is x."], "reader": ["<answer>x</answer>"]}, {"paragraphs": 30}),
        (
            "decor",
            {
                "planner": ["<search>q</search>", "<search>None</search>"],
                "filter": ["<filter>f</filter>"],
                "answerer": ["<answer>x</answer>"],
            },
            {},
        ),
        ("search-o1", {"agent": ["<|begin_search_query|>q<|end_search_query|>", "\\boxed{x}"], "reader": ["f"]}, {}),
        ("truncation", ["<search>q</search>", "<answer>x</answer>"], {}),
    ],
)
def test_documents_in_a_prompt_that_does_not_fit_are_left_out_from_the_lowest_rank(
    name: str, replies: Any, settings: dict[str, int]
) -> None:
    episode = ask(name, replies, k=30, **settings)
    assert (episode.answer, episode.stop_reason) == ("x", "answered")
    assert any("lowest ranked" in message for message in limits_of(episode))
    (reading,) = [t for t in episode.trajectories if "-1-END" in t.text][-1:]
    ranks = [int(rank) for rank in re.findall(r"MARK-\w+-(\d+)-END", reading.text)]
    assert ranks == list(range(1, len(ranks) + 1))
    assert 5 < len(ranks) < 30


def test_a_context_with_nothing_left_to_lose_is_forced_to_answer() -> None:
    """A planner reads no documents: its own turns fill the window, and the oldest of them leave for the last word."""

    def reply(context: Context) -> str:
        if context.role == "executor":
            return "<result>" + "r " * 150 + "</result>"
        if "No turns are left" in context.messages[-1].content:
            return "<answer>x</answer>"
        return f"<think>{'t ' * 200}</think><task>task {context.turn}</task>"

    episode = ask("coda", reply, window=1200, turns=50)
    assert (episode.answer, episode.stop_reason, episode.forced) == ("x", "forced", True)
    assert not episode.errors
    assert "task 0" not in episode.trajectories[-1].text
    assert episode.roots[0].forced
    assert any("turns" in message for message in limits_of(episode))


def test_an_endpoint_that_only_says_that_it_is_full_is_tried_with_less() -> None:
    """Where the window is not known, the server's refusal is the sign."""

    def reply(context: Context) -> Any:
        if sum(len(m.content.split()) for m in context.messages) > 1500:
            return ContextOverflow("maximum context length is 1500")
        return AGENTS["autorefine"](context)

    episode = ask("autorefine", reply, window=None, k=10)
    assert (episode.answer, episode.stop_reason) == ("x", "answered")
    assert limits_of(episode)


def test_an_opening_that_can_never_fit_fails_with_its_reason() -> None:
    episode = ask("autorefine", AGENTS["autorefine"], window=10)
    assert (episode.answer, episode.stop_reason) == ("", "no answer")
    assert "do not fit a window of 10" in limits_of(episode)[0]


def test_what_was_written_before_the_window_was_full_still_counts_as_evidence() -> None:
    """A sub-result that was refined in an earlier session is quoted, although its document has left the context."""

    def reply(context: Context) -> str:
        turn = AGENTS["autorefine"](context)
        fact = "<refine>word0 to word59 stand in MARK-query0-1-END</refine>"
        return f"{fact}{turn}" if "query1" in turn else turn.replace(">x<", ">yes<")

    episode = ask("autorefine", reply, k=10)
    assert episode.trajectories[-1].part_of == ""
    assert len(episode.trajectories) > 1
    assert (episode.answer, episode.parts_supported) == ("yes", True)
    assert {quote.id for quote in episode.evidence} == {"query0/1"}


def hira_roles(expert: str, **roles: Any) -> Any:
    """HiRA's or Plan-and-Solve's roles with one sub-task, for one expert."""

    def reply(context: Context) -> str:
        if context.role in roles:
            return roles[context.role](context)
        if context.role == "planner" and "plan" in context.messages[0].content and "call_subtask" not in context.text:
            return '{"plan": ["one"]}'
        if context.role == "planner":
            return (
                "\\boxed{x}" if "subtask_result|>" in context.last else "<|begin_call_subtask|>one<|end_call_subtask|>"
            )
        if context.role == "coordinator":
            return f'{{"selected_agent_name": "{expert}", "conclusion": "x"}}'
        return "what for"

    return reply


def simple_search(context: Context) -> str:
    return "\\boxed{x}" if context.last.startswith("Documents:") else '{"query_plan": ["a", "b", "c"]}'


@pytest.mark.parametrize("name", ["hira", "plan-experts"])
def test_the_search_expert_reads_as_many_results_as_fit(name: str) -> None:
    episode = ask(name, hira_roles("search", search=simple_search), window=1500)
    assert (episode.answer, episode.stop_reason, episode.errors) == ("x", "answered", ())
    (expert,) = episode.by_role("search")
    assert (expert.result, expert.forced) == ("x", False)
    *_, last = [t for t in episode.trajectories if t.role == "search"]
    assert 5 < len(re.findall(r"MARK-(\w)-\d+-END", last.text)) < 30
    assert {"MARK-a-1-END", "MARK-b-1-END", "MARK-c-1-END"} <= set(re.findall(r"MARK-\w-\d+-END", last.text))
    assert all("oldest are removed" in message for message in limits_of(episode))


def test_the_search_expert_is_forced_where_nothing_is_left_to_lose() -> None:
    def search(context: Context) -> str:
        return "\\boxed{y}" if "No calls are left" in context.last else simple_search(context) + " word" * 2000

    episode = ask("hira", hira_roles("search", search=search), window=900)
    (expert,) = episode.by_role("search")
    assert (expert.result, expert.forced) == ("y", True)


def test_results_leave_the_opening_of_an_explorer_that_has_no_room_for_them() -> None:
    def deep(context: Context) -> str:
        found = "search_result|>" in context.last
        return "\\boxed{x}" if found else "<|begin_search_query|>a<|end_search_query|>"

    episode = ask("webthinker", hira_roles("deep", deep=deep, explorer=lambda c: "Final Information: x"), window=600)
    assert (episode.answer, episode.stop_reason, episode.errors) == ("x", "answered", ())
    assert any("lowest ranked" in message for message in limits_of(episode))
    assert "MARK-a-1-END" in episode.by_role("explorer")[0].text


def test_decor_keeps_a_memory_that_its_readers_have_room_for() -> None:
    """With more evidence than a window holds, memory is compressed at half the window, whatever L_max is."""

    def reply(context: Context) -> str:
        if context.role == "planner":
            return f"<search>q{context.text.count('fact')}</search>"
        if context.role == "filter":
            return f"<filter>{'fact ' * 250}</filter>"
        return "<answer>x</answer>" if context.role == "answerer" else "fact " * 20

    episode = ask("decor", reply, window=600, turns=6)
    assert (episode.answer, episode.stop_reason, episode.errors) == ("x", "answered", ())
    held = [e.data["tokens"] for e in episode.events if e.kind == "memory"]
    assert max(held) <= 300
    assert "compress" in [e.data["action"] for e in episode.events if e.kind == "memory"]


def test_truncation_whose_turns_fill_the_window_is_forced_to_answer() -> None:
    """Its earlier turns stand in the prompt of each context, and leave it there."""

    def reply(context: Context) -> str:
        if "No searches are left" in context.text:
            return "x</answer>"
        return f"{'t ' * 190}<search>q{context.text.count('<search>q')}</search>"

    episode = ask("truncation", reply, window=700, turns=6)
    assert (episode.answer, episode.stop_reason, episode.forced, episode.errors) == ("x", "forced", True, ())
    assert "the oldest are removed from the context: 2 turns" in limits_of(episode)
