"""HiRA's control flow, driven by a scripted model: who is asked what, and what each role sees."""

import json
from dataclasses import replace

import pytest

from subquest.engine import Sampling
from subquest.engine.scripted import ScriptedEngine, ScriptedSession
from subquest.errors import EngineUnavailable, SearchRefused, UsageError
from subquest.limits import Limits
from subquest.record import Document, Hit
from subquest.systems.coda import CoDA
from subquest.systems.hira import Desk, Expert, HiRA, Report, SystemExpert

CALL = "<|begin_call_subtask|>{}<|end_call_subtask|>"


class Facts:
    """An index of a few sentences that finds whatever shares a word with the query."""

    name = "facts"

    def __init__(self, **texts):
        self.texts = texts or {
            "kelm": "Kelm lies on the river Ostel. The mayor of Kelm is Ida Brandt.",
            "ida": "Ida Brandt was born in Brunn.",
        }
        self.queries = []

    async def retrieve(self, queries, k):
        self.queries += queries
        return [
            [
                Hit(Document(i, i.title(), text), 1.0)
                for i, text in self.texts.items()
                if set(query.lower().split()) & set(text.lower().replace(".", "").split())
            ][:k]
            for query in queries
        ]


def selection(name):
    return json.dumps({"reason": "fits", "selected_agent_name": name})


def distilled(conclusion, facts=(), resources=None):
    memory = {"fact_memory": list(facts), "resource_memory": resources or {}}
    return json.dumps({"conclusion": {"reasoning_process": "looked", "final_conclusion": conclusion}, "memory": memory})


def script(**replies):
    return ScriptedEngine(replies)


def prompts(episode, role):
    return ["".join(s.text for s in t.segments if s.kind == "prompt") for t in episode.by_role(role)]


def two_step(second_plan):
    """A planner with two sub-tasks; the second expert plans as the function says, from what it sees."""

    def reply(context):
        if context.role == "planner":
            done = context.text.count("<|end_subtask_result|>") - 1  # one stands in the instructions
            tasks = ["Who is the mayor of Kelm?", "Where was the mayor of Kelm, Ida Brandt, born?"]
            return CALL.format(tasks[done]) if done < 2 else "So the answer is \\boxed{Brunn}."
        if context.role == "coordinator":
            if "choose the expert" in context.text:
                return selection("search")
            if "choose from a memory" in context.text:
                return "Memory Fact 1"
            if "Who is the mayor" in context.text:
                facts = ["The mayor of Kelm is Ida Brandt, born in Brunn. [Source: kelm]"]
                return distilled("Ida Brandt", facts)
            return distilled("Brunn")
        if context.turn == 0:
            return second_plan(context) if "born?" in context.text else '{"query_plan": ["mayor Kelm"]}'
        return "It is \\boxed{Brunn}." if "born?" in context.text else "The mayor is \\boxed{Ida Brandt}."

    return ScriptedEngine(reply)


async def test_results_are_inserted_into_the_planners_own_reasoning():
    engine = script(
        planner=["I need the mayor. " + CALL.format("Who is the mayor of Kelm?") + "\n\n", "Good. \\boxed{Ida Brandt}"],
        coordinator=[selection("search"), distilled("Ida Brandt is mayor")],
        search=['{"query_plan": ["mayor Kelm", "Kelm"]}', "Kelm (kelm) says: \\boxed{Ida Brandt}"],
    )
    episode = await HiRA(engine, Facts()).solve("Who is the mayor of Kelm?")
    assert (episode.answer, episode.stop_reason, episode.errors) == ("Ida Brandt", "answered", ())
    (planner,) = episode.by_role("planner")
    kinds = [s.kind for s in planner.segments]
    assert kinds == ["prompt", "agent", "env", "agent"] or kinds == ["prompt", "prompt", "agent", "env", "agent"]
    env = next(s.text for s in planner.segments if s.kind == "env")
    assert env.startswith("<|begin_subtask_result|>Result of the search expert: looked")
    assert "Final conclusion: Ida Brandt is mayor<|end_subtask_result|>" in env
    assert episode.usage.searches == 2
    assert [e.id for e in episode.evidence] == ["kelm"]


async def test_the_planner_sees_no_document():
    facts = Facts(kelm="Kelm " + " ".join(f"word{n}" for n in range(200)))
    long = facts.texts["kelm"]
    engine = script(
        planner=[CALL.format("Tell me about Kelm"), "\\boxed{x}"],
        coordinator=[selection("search"), distilled(long)],
        search=['{"query_plan": ["Kelm"]}', "\\boxed{x}"],
    )
    episode = await HiRA(engine, facts).solve("What about Kelm?")
    (planner,) = episode.by_role("planner")
    assert " ".join(long.split()[:60]) not in planner.text
    assert any(e.kind == "limit" and "raw document" in e.data["what"] for e in episode.events)


@pytest.mark.parametrize("between", [" It is Ida. ", "\n", ""])
async def test_a_turn_of_the_planner_ends_with_its_call(between):
    """What it would write after the call, a made-up result or the next sub-task, it writes after the real result."""
    engine = script(
        planner=[CALL.format("Mayor of Kelm?") + between + CALL.format("River of Kelm?"), "\\boxed{Ida Brandt}"],
        coordinator=[selection("search"), distilled("Ida Brandt")],
        search=['{"query_plan": []}', "\\boxed{Ida Brandt}"],
    )
    episode = await HiRA(engine, Facts()).solve("Who?")
    first, told, *_ = (s.text for s in episode.by_role("planner")[0].segments if s.kind != "prompt")
    assert first == CALL.format("Mayor of Kelm?")
    assert told.startswith("<|begin_subtask_result|>Result of the search expert")
    assert [t.task for t in episode.by_role("search")] == ["Mayor of Kelm?"]


async def test_a_repeated_subtask_is_refused_and_costs_none_of_the_subtasks():
    turns = ["Mayor of Kelm?", " mayor  of KELM?\n", "River of Kelm?", "Mayor of Kelm?"]
    engine = script(
        planner=[*map(CALL.format, turns), "\\boxed{Ida Brandt}"],
        coordinator=[distilled("Ida Brandt"), "none", distilled("the Ostel")],
        search=['{"query_plan": []}', "\\boxed{Ida Brandt}", '{"query_plan": []}', "\\boxed{the Ostel}"],
    )
    episode = await HiRA(engine, Facts(), experts="search", subtasks=2).solve("Who?")
    assert (episode.answer, episode.forced) == ("Ida Brandt", False)
    assert [t.task for t in episode.by_role("search")] == ["Mayor of Kelm?", "River of Kelm?"]
    told = [s.text for s in episode.by_role("planner")[0].segments if s.kind == "env"]
    assert ["already carried out" in text for text in told] == [False, True, False, True]
    refused = [e.data["message"] for e in episode.events if e.kind == "limit"]
    assert refused == ["mayor  of KELM?", "Mayor of Kelm?"]
    assert [e.data["steps"] for e in episode.events if e.kind == "plan"] == [["Mayor of Kelm?"], ["River of Kelm?"]]


async def test_subtasks_that_differ_in_a_sign_are_not_the_same():
    engine = script(
        planner=[CALL.format("Compute 7 - 2"), CALL.format("Compute 7 + 2"), "\\boxed{9}"],
        coordinator=[distilled("5"), distilled("9")],
        code=["\\boxed{5}", "\\boxed{9}"],
    )
    episode = await HiRA(engine, experts="code", memory=False).solve("?")
    assert len(episode.by_role("code")) == 2


async def test_a_planner_that_only_repeats_itself_must_answer():
    engine = script(
        planner=[*[CALL.format("Mayor of Kelm?")] * 5, "\\boxed{Ida Brandt}"],
        coordinator=[distilled("Ida Brandt")],
        search=['{"query_plan": []}', "\\boxed{Ida Brandt}"],
    )
    episode = await HiRA(engine, Facts(), experts="search").solve("Who?")
    assert (episode.answer, episode.forced) == ("Ida Brandt", True)
    assert len(episode.by_role("search")) == 1


async def test_a_result_that_the_model_has_begun_is_only_continued():
    engine = script(
        planner=[CALL.format("Kelm?") + "\n<|begin_subtask_result|>made up", "\\boxed{x}"],
        coordinator=[selection("search"), distilled("real")],
        search=['{"query_plan": []}', "\\boxed{x}"],
    )
    episode = await HiRA(engine, Facts()).solve("Kelm?")
    text = episode.by_role("planner")[0].text
    assert "made up" not in text
    assert text.count("<|begin_subtask_result|>") == 2  # one in the instructions, one written by the model
    assert "<|begin_subtask_result|>Result of" in text


async def test_memory_reaches_the_second_expert_which_then_searches_less():
    """The defect of the published code: a fact found by the first expert stands in the prompt of the second."""

    def plan(context):
        known = "born in Brunn" in context.messages[-1].content.partition("Task:")[0]
        return '{"query_plan": []}' if known else '{"query_plan": ["Ida Brandt born", "Brunn"]}'

    with_memory, without = Facts(), Facts()
    episode = await HiRA(two_step(plan), with_memory).solve("Where was the mayor of Kelm born?")
    fact = "The mayor of Kelm is Ida Brandt, born in Brunn. [Source: kelm]"
    first, second = prompts(episode, "search")
    assert fact not in first
    assert f"Memory Fact 1: {fact}" in second
    assert [e.data["action"] for e in episode.events if e.kind == "memory"] == ["add", "recall"]

    bare = await HiRA(two_step(plan), without, memory=False).solve("Where was the mayor of Kelm born?")
    assert fact not in prompts(bare, "search")[1]
    assert (episode.answer, bare.answer) == ("Brunn", "Brunn")
    assert (len(with_memory.queries), len(without.queries)) == (1, 3)
    assert episode.usage.searches < bare.usage.searches


async def test_without_memory_the_coordinator_is_asked_for_none():
    engine = two_step(lambda c: '{"query_plan": ["Ida"]}')
    episode = await HiRA(engine, Facts(), preset="no-memory").solve("Where was the mayor of Kelm born?")
    assert [t.task.split(":")[0] for t in episode.by_role("coordinator")] == ["select", "distil_no_memory"] * 2
    assert all("fact_memory" not in p for p in prompts(episode, "coordinator"))


async def test_without_transfer_the_planner_names_the_expert_and_reads_its_raw_output():
    engine = script(
        planner=[CALL.format("search: Who is the mayor of Kelm?"), "\\boxed{Ida Brandt}"],
        coordinator=[distilled("unseen conclusion", ["The mayor is Ida Brandt [Source: kelm]"])],
        search=['{"query_plan": ["mayor Kelm"]}', "Raw thoughts, then \\boxed{Ida Brandt}"],
    )
    episode = await HiRA(engine, Facts(), preset="no-transfer").solve("Who is the mayor of Kelm?")
    text = episode.by_role("planner")[0].text
    assert "Raw thoughts" in text
    assert "The mayor of Kelm is Ida Brandt." in text
    assert "unseen conclusion" not in text
    assert "- search: Looks up facts" in prompts(episode, "planner")[0]
    assert [t.task for t in episode.by_role("search")] == ["Who is the mayor of Kelm?"]
    assert [t.task.split(":")[0] for t in episode.by_role("coordinator")] == ["distil"]


async def test_the_planner_may_be_left_without_descriptions_of_the_experts():
    def engine():
        return script(planner=["\\boxed{x}"])

    told = await HiRA(engine(), Facts()).solve("q")
    untold = await HiRA(engine(), Facts(), preset="no-expert-info").solve("q")
    assert "Looks up facts" in prompts(told, "planner")[0]
    assert "Looks up facts" not in prompts(untold, "planner")[0]


@pytest.mark.parametrize(
    ("preset", "left"),
    [
        ("no-search", {"code", "multimodal"}),
        ("no-code", {"search", "deep", "multimodal"}),
        ("no-multimodal", {"search", "deep", "code"}),
    ],
)
def test_experts_can_be_left_out(preset, left):
    assert set(HiRA(script(planner=[]), preset=preset).experts) == left


@pytest.mark.parametrize(
    "reply", ["I choose nobody.", '{"selected_agent_name": "oracle"}', "", '{"selected_agent_name": 7}', "{"]
)
async def test_a_bad_choice_falls_back_to_the_cheapest_expert_visibly(reply):
    engine = script(
        planner=[CALL.format("Who?"), "\\boxed{x}"],
        coordinator=[reply, distilled("x")],
        search=['{"query_plan": []}', "\\boxed{x}"],
    )
    episode = await HiRA(engine, Facts()).solve("Who?")
    assert episode.by_role("search")
    notes = [e.data["message"] for e in episode.events if e.kind == "error"]
    assert any("search, the cheapest, takes the task" in note for note in notes)


@pytest.mark.parametrize(
    "reply", ['Best is the "code" expert.', '```json\n{"selected_agent_name": "Code-Agent",}\n```']
)
async def test_a_choice_in_other_words_is_understood(reply):
    engine = script(
        planner=[CALL.format("2+2?"), "\\boxed{4}"], coordinator=[reply, distilled("4")], code=["It is \\boxed{4}"]
    )
    episode = await HiRA(engine).solve("2+2?")
    assert [t.role for t in episode.trajectories if t.role == "code"] == ["code"]


async def test_reasoning_that_cannot_be_distilled_is_passed_on_as_the_experts_conclusion():
    engine = script(
        planner=[CALL.format("Who?"), "\\boxed{x}"],
        coordinator=[selection("search"), "no json here"],
        search=['{"query_plan": []}', "\\boxed{Ida}"],
    )
    episode = await HiRA(engine, Facts()).solve("Who?")
    assert "search expert: Ida<|end_subtask_result|>" in episode.by_role("planner")[0].text
    assert any("could not be distilled" in e.data.get("message", "") for e in episode.events)


@pytest.mark.parametrize(
    ("box", "final", "passed_on"),
    [
        ("137 pieces", "The table gives it.", "137 pieces"),
        ("3,200", "It has 3200 inhabitants.", "It has 3200 inhabitants."),
        ("Ida Brandt", "The trainer was found.", "Ida Brandt"),
        ("not found", "The trainer is not on the page.", "The trainer is not on the page."),
    ],
)
async def test_a_result_that_distillation_lost_is_passed_on_as_the_expert_wrote_it(box, final, passed_on):
    engine = script(
        planner=[CALL.format("Who?"), "\\boxed{x}"],
        coordinator=[selection("code"), distilled(final)],
        code=[f"\\boxed{{{box}}}"],
    )
    episode = await HiRA(engine, Facts()).solve("Who?")
    assert f"Final conclusion: {passed_on}<|end_subtask_result|>" in episode.by_role("planner")[0].text
    lost = [e for e in episode.events if "lost" in e.data.get("message", "")]
    assert bool(lost) == (passed_on != final)


async def test_a_chain_beyond_the_coordinators_window_keeps_head_and_tail():
    class Talker(Expert):
        name = "talker"
        description = "talks"

        async def run(self, desk):
            return Report("BEGIN " + "blah " * 50_000 + "END", "x")

    engine = script(planner=[CALL.format("Talk"), "\\boxed{x}"], coordinator=[distilled("x")])
    episode = await HiRA(engine, experts="", plug_ins=[Talker()], chain_tokens=1000).solve("Talk")
    (chain,) = prompts(episode, "coordinator")
    assert "BEGIN" in chain
    assert "END" in chain
    assert "the middle is left out" in chain
    assert len(chain.split()) < 1400
    assert any("reasoning" in e.data["what"] for e in episode.events if e.kind == "limit")


async def test_at_most_so_many_subtasks_then_an_answer_is_forced():
    engine = ScriptedEngine(
        lambda c: (
            ("\\boxed{forced}" if "No sub-tasks are left" in c.text else CALL.format(f"task {c.turn}"))
            if c.role == "planner"
            else selection("search")
            if "choose the expert" in c.text
            else "none"
            if "choose from a memory" in c.text
            else distilled("x")
            if c.role == "coordinator"
            else '{"query_plan": []}'
            if c.turn == 0
            else "\\boxed{x}"
        )
    )
    episode = await HiRA(engine, Facts(), subtasks=3).solve("q")
    assert len(episode.by_role("search")) == 3
    assert (episode.answer, episode.forced, episode.stop_reason) == ("forced", True, "forced")


async def test_a_planner_without_action_is_reminded_then_forced():
    engine = script(planner=["Hmm.", "Let me think.", "Well.", "\\boxed{late}"])
    episode = await HiRA(engine, Facts()).solve("q")
    assert (episode.answer, episode.forced) == ("late", True)
    assert episode.by_role("planner")[0].format_errors.count("no action") == 2


async def test_failures_of_models_and_searches_are_recorded_and_survived():
    class Broken(Facts):
        async def retrieve(self, queries, k):
            from subquest.tools.websearch import SearchRefused

            raise SearchRefused("the key is wrong")

    engine = script(
        planner=[CALL.format("Who?"), "\\boxed{x}"],
        coordinator=[EngineUnavailable("down"), distilled("x")],
        search=['{"query_plan": ["a"]}', "\\boxed{unknown}"],
    )
    episode = await HiRA(engine, Broken()).solve("Who?")
    assert episode.answer == "x"
    assert {f.where for f in episode.errors} == {"engine", "search"}
    assert "The search failed: the key is wrong" in episode.by_role("search")[0].text


async def test_an_expert_that_fails_is_a_result_too():
    engine = script(
        planner=[CALL.format("Who?"), "\\boxed{x}"],
        coordinator=[selection("search"), distilled("nothing")],
        search=[EngineUnavailable("down")],
    )
    episode = await HiRA(engine, Facts()).solve("Who?")
    assert episode.answer == "x"
    assert any(f.where == "engine" for f in episode.errors)


async def test_without_any_search_the_reason_is_told():
    engine = script(
        planner=[CALL.format("Who?"), "\\boxed{x}"],
        coordinator=[selection("search"), distilled("x")],
        search=['{"query_plan": ["a"]}', "\\boxed{x}"],
    )
    episode = await HiRA(engine).solve("Who?")
    assert "SEARXNG_URL" in episode.errors[0].message


async def test_another_system_is_an_expert_as_it_is():
    inner = ScriptedEngine(
        {
            "planner": ["<task>Who is the mayor of Kelm?</task>", "<answer>Ida Brandt</answer>"],
            "executor": ["<search>mayor Kelm</search>", "<result>Ida Brandt is mayor.</result>"],
        }
    )
    outer = script(
        planner=[CALL.format("Mayor of Kelm?"), "\\boxed{Ida Brandt}"], coordinator=[distilled("Ida Brandt")]
    )
    hira = HiRA(outer, Facts(), experts="", plug_ins=[SystemExpert(CoDA(inner, Facts()))])
    episode = await hira.solve("Who?")
    assert episode.answer == "Ida Brandt"
    roles = [(t.role, t.parent is None) for t in episode.trajectories]
    assert roles == [("planner", True), ("planner", False), ("executor", False), ("coordinator", False)]
    assert "Ida Brandt is mayor." in prompts(episode, "coordinator")[0]
    assert [e.id for e in episode.evidence] == ["kelm"]
    assert set(HiRA(outer, Facts(), experts="search,coda").experts) == {"search", "coda"}


@pytest.mark.parametrize("calls", [1, 2, 3])
@pytest.mark.parametrize(("last", "reason"), [("\\boxed{Ida Brandt}", "forced"), ("", "no answer")])
async def test_a_limit_is_no_failure_of_the_model(calls, last, reason):
    """Coordinator and experts stop at a limit like the planner: nothing has failed that could be tried again."""
    engine = script(
        planner=[CALL.format("Mayor of Kelm?"), last],
        coordinator=[selection("search")],
        search=['{"query_plan": ["mayor Kelm"]}'],
    )
    episode = await HiRA(engine, Facts(), limits=Limits(calls=calls)).solve("Who?")
    assert episode.stop_reason == reason
    assert {failure.where for failure in episode.errors} == {"limit"}


@pytest.mark.parametrize("transfer", [True, False])
@pytest.mark.parametrize("said", ["search-r1", "Search-R1"])
async def test_a_name_with_hyphens_names_its_expert_alone(said, transfer):
    call = CALL.format("Mayor of Kelm?" if transfer else f"{said}: Mayor of Kelm?")
    engine = script(
        planner=[call, "\\boxed{Ida Brandt}"],
        coordinator=[*([selection(said)] if transfer else []), distilled("Ida Brandt")],
        agent=["<search>mayor Kelm</search>", "<answer>Ida Brandt</answer>"],
    )
    episode = await HiRA(engine, Facts(), experts="search,search-r1", transfer=transfer).solve("Who?")
    assert [event.data["expert"] for event in episode.events if event.kind == "result"] == ["search-r1"]


async def test_a_system_in_a_file_is_an_expert_by_its_own_name(tmp_path):
    (tmp_path / "notes.py").write_text(
        "from subquest import Answer, System\n"
        "class Notes(System):\n"
        "    name = 'notes'\n"
        "    async def answer(self, run):\n"
        "        return Answer('Ida Brandt')\n"
    )
    engine = script(
        planner=[CALL.format("Mayor of Kelm?"), "\\boxed{Ida Brandt}"],
        coordinator=[selection("notes"), distilled("Ida Brandt")],
    )
    episode = await HiRA(engine, Facts(), experts=f"search,{tmp_path / 'notes.py'}:Notes").solve("Who?")
    assert [event.data["expert"] for event in episode.events if event.kind == "result"] == ["notes"]


class Web(Facts):
    name = "searxng"


@pytest.mark.parametrize("egress", ["private", "public"])
@pytest.mark.parametrize("name", ["coda", "webthinker"])
async def test_a_system_as_an_expert_keeps_to_the_scope_of_the_run(name, egress):
    """Systems bring searches of their own, those with tools whole toolkits: the run they work in decides."""
    seats = {
        "coda": {
            "planner": ["<task>mayor</task>", "<answer>Ida</answer>"],
            "executor": ["<search>mayor Kelm</search>", "<result>Ida</result>"],
        },
        "webthinker": {
            "planner": [],
            "deep": ["<|begin_search_query|>mayor Kelm<|end_search_query|>", "\\boxed{Ida}"],
            "intent": ["Who the mayor is."],
            "explorer": ["Final Information: Ida"],
        },
    }[name]
    planner = [CALL.format("Mayor of Kelm?"), *seats.pop("planner"), "\\boxed{Ida}"]
    web = Web()
    hira = HiRA(script(planner=planner, coordinator=[distilled("Ida")], **seats), web=web, experts=name, egress=egress)
    episode = await hira.solve("Who?")
    assert web.queries == ([] if egress == "private" else ["mayor Kelm"])
    assert [f.message for f in episode.errors] == (
        ["web searches cannot leave this run: its egress scope is private"] if egress == "private" else []
    )


@pytest.mark.parametrize("given", [Sampling(temperature=0.3, max_tokens=77), None])
def test_a_system_as_an_expert_samples_and_stops_as_the_run_does(given):
    hira = HiRA(script(planner=[]), Facts(), experts="coda", sampling=given, limits=Limits(turns=2))
    executor = hira.experts["coda"]._system.setup("executor")
    assert executor.sampling == (given or HiRA.sampling)
    assert executor.limits.turns == 2
    assert HiRA(script(planner=[]), experts="coda", prompts="full").experts["coda"]._system.prompt_set == "full"
    own = CoDA(script(planner=[]), Facts(), sampling=Sampling(temperature=0.9))
    assert SystemExpert(own)._system.setup("executor").sampling.temperature == 0.9


async def test_a_limit_of_turns_reaches_a_system_as_an_expert():
    search = "<search>mayor Kelm</search>"
    engine = script(
        planner=[CALL.format("Mayor of Kelm?"), "<task>Mayor of Kelm?</task>", "<answer>Ida</answer>", "\\boxed{Ida}"],
        coordinator=[distilled("Ida")],
        executor=[search, "<result>Ida</result>"],
    )
    episode = await HiRA(engine, Facts(), experts="coda", limits=Limits(turns=1)).solve("Who?")
    assert episode.by_role("executor")[0].forced


async def test_an_expert_from_a_file(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "from subquest.systems.hira import Expert, Report\n"
        "class Echo(Expert):\n"
        "    name = 'echo'\n    description = 'repeats'\n    cost = 0\n"
        "    async def run(self, desk):\n        return Report('thought', desk.task.upper())\n"
    )
    engine = script(planner=[CALL.format("hello"), "\\boxed{x}"], coordinator=["not json"])
    episode = await HiRA(engine, experts=f"{file}:Echo").solve("q")
    assert "echo expert: HELLO" in episode.by_role("planner")[0].text


def test_wrong_experts_and_settings_are_named(tmp_path):
    with pytest.raises(UsageError, match="no system 'serach'"):
        HiRA(script(planner=[]), experts="serach")
    with pytest.raises(UsageError, match="at least one expert"):
        HiRA(script(planner=[]), experts="")
    with pytest.raises(UsageError, match="egress must be one of"):
        HiRA(script(planner=["\\boxed{x}"]), egress="open").ask("q")
    with pytest.raises(UsageError, match="does not exist"):
        HiRA(script(planner=["\\boxed{x}"]), files=str(tmp_path / "none.csv")).ask("q")


def test_desk_is_public():
    assert {"task", "memory", "kit"} <= set(Desk.__dataclass_fields__)


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ("Kelm lies on the Ostel [Source: kelm]", ["Kelm lies on the Ostel [Source: kelm]"]),
        ([{"content": "Kelm lies on the Ostel", "source": "kelm"}], ["Kelm lies on the Ostel [Source: kelm]"]),
        ([{"Source": "kelm", "fact": "Kelm is a town"}, {"fact": 3}], ["Kelm is a town [Source: kelm]"]),
        (5, []),
        ({"a": 1}, []),
        ([["a"], None, {"source": "kelm"}], []),
    ],
)
def test_memory_in_another_shape_than_asked_for(facts, expected):
    """A model that writes one string is understood; what is no list of facts ends no episode."""
    memory = {"fact_memory": facts, "resource_memory": [1, "x"]}
    engine = script(
        planner=[CALL.format("Where does Kelm lie?"), "\\boxed{on the Ostel}"],
        coordinator=[json.dumps({"conclusion": {"final_conclusion": "on the Ostel"}, "memory": memory})],
        search=['{"query_plan": ["Kelm"]}', "\\boxed{on the Ostel}"],
    )
    episode = HiRA(engine, Facts(), experts="search").ask("Where does Kelm lie?")
    assert episode.answer == "on the Ostel"
    added = [e.data["entries"] for e in episode.events if e.kind == "memory" and e.data["action"] == "add"]
    assert added == ([expected] if expected else [])


@pytest.mark.parametrize(
    "resources",
    [
        {"Log of the gauge": "http://kelm.example/log"},
        [{"description": "Log of the gauge", "path": "http://kelm.example/log"}],
        [{"url": "http://kelm.example/log", "summary": "Log of the gauge"}],
        [{"Log of the gauge": "http://kelm.example/log"}, 3, None],
    ],
)
def test_resources_in_another_shape_than_asked_for(resources):
    memory = {"fact_memory": [], "resource_memory": resources}
    engine = script(
        planner=[CALL.format("Where does Kelm lie?"), "\\boxed{on the Ostel}"],
        coordinator=[json.dumps({"conclusion": {"final_conclusion": "on the Ostel"}, "memory": memory})],
        search=['{"query_plan": ["Kelm"]}', "\\boxed{on the Ostel}"],
    )
    episode = HiRA(engine, Facts(), experts="search").ask("Where does Kelm lie?")
    added = [e.data["entries"] for e in episode.events if e.kind == "memory" and e.data["action"] == "add"]
    assert added == [["Log of the gauge: http://kelm.example/log"]]


def test_searches_of_a_system_that_is_an_expert_are_counted():
    engine = script(
        planner=[CALL.format("Who is the mayor of Kelm?"), "\\boxed{Ida Brandt}"],
        coordinator=[distilled("Ida Brandt")],
        answerer=["<answer>Ida Brandt</answer>"],
    )
    episode = HiRA(engine, Facts(), experts="rag").ask("Who is the mayor of Kelm?")
    assert (episode.answer, episode.usage.searches) == ("Ida Brandt", 1)


class Down(Facts):
    name = "web"

    async def retrieve(self, queries, k):
        raise SearchRefused("no credit left")


def test_what_the_index_finds_is_not_lost_where_the_web_fails():
    engine = script(search=['{"query_plan": [null, {"query": "mayor Kelm"}]}', "\\boxed{Ida Brandt}"],
                    planner=[CALL.format("Who is the mayor of Kelm?"), "\\boxed{Ida Brandt}"],
                    coordinator=[distilled("Ida Brandt")])  # fmt: skip
    facts = Facts()
    episode = HiRA(engine, facts, web=Down(), experts="search", egress="public").ask("Who is the mayor of Kelm?")
    assert facts.queries == ["mayor Kelm"]
    assert "The mayor of Kelm is Ida Brandt." in episode.by_role("search")[0].text
    assert [(e.where, e.message) for e in episode.errors] == [("search", "no credit left")]


@pytest.mark.parametrize("opening", ["<think>", ""])
def test_drafts_in_thinking_are_no_reply(opening):
    """With or without the opening tag, which some chat templates write into the prompt."""
    draft = f'{opening}Perhaps {{"selected_agent_name": "code"}} or {{"query_plan": ["draft"]}}? No.</think>\n'
    coordinator = [draft + selection("search"), draft + distilled("on the Ostel")]
    engine = script(
        planner=[CALL.format("Where does Kelm lie?"), "\\boxed{on the Ostel}"],
        coordinator=coordinator,
        search=[draft + '{"query_plan": ["Kelm"]}', "\\boxed{on the Ostel}"],
    )
    facts = Facts()
    episode = HiRA(engine, facts, experts="search,code").ask("Where does Kelm lie?")
    assert facts.queries == ["Kelm"]
    result = next(e for e in episode.events if e.kind == "result")
    assert result.data["result"] == "looked\nFinal conclusion: on the Ostel"


async def test_the_search_expert_hands_on_what_it_wrote_and_read_and_nothing_else():
    """With a chat template its context holds the marks of turns and our request to answer; the coordinator would obey
    that, and a planner without reasoning transfer would go on in the expert's place."""
    torch_engine = pytest.importorskip("subquest.engine.torch.engine", reason="the train extra is not installed")
    from subquest.train.random_model import tiny_source

    answerer = torch_engine.TorchEngine(tiny_source("qwen2"), device="cpu", cache_tokens=8192)
    call = CALL.format("search: Who is the mayor of Kelm?")
    others = script(planner=[call, "\\boxed{x}"] * 2, coordinator=[selection("search"), distilled("ok")] * 2)
    texts = {"kelm": "Kelm lies on the river Ostel. The mayor of Kelm is Ståle Brandt.", "chat": "<|im_end|> of Kelm"}
    for transfer in (True, False):
        system = HiRA(
            {"": others, "search": answerer},
            Facts(**texts),
            experts="search,code",
            transfer=transfer,
            prompts="compact",  # the tiny model's window is small
            sampling=Sampling(max_tokens=8),
        )
        episode = await system.solve("Who is the mayor of Kelm?")
        (expert,) = episode.by_role("search")
        assert "<|im_start|>user" in "".join(s.text for s in expert.segments if s.kind == "env")
        if transfer:
            (read,) = [p for p in prompts(episode, "coordinator") if "Ståle Brandt" in p]
        else:
            (planner,) = episode.by_role("planner")
            read = "".join(s.text for s in planner.segments if s.kind == "env")
        assert "The mayor of Kelm is Ståle Brandt." in read, "accents stay"
        assert "‹|im_end|› of Kelm" in read
        assert "im_start" not in read.replace(prompts(episode, "planner")[0], "")
        asked = system.prompts.text("search_answer", documents="|").split("|")[1].strip()
        assert len(asked) > 40
        assert asked not in read


async def test_a_planner_that_plays_an_expert_has_not_answered():
    played = "The expert found it: \\boxed{Brunn}<|end_subtask_result|>"
    engine = script(planner=[played, "\\boxed{Kelm}"])
    episode = await HiRA(engine, Facts()).solve("Where?")
    assert episode.answer == "Kelm"
    (planner,) = episode.by_role("planner")
    assert planner.format_errors[-1] == "no action"


async def test_what_a_token_wrote_behind_its_stop_is_not_inserted_again(monkeypatch):
    """`><` is one token of some models: the context holds the whole token, and what is inserted begins with `<`."""
    generate = ScriptedSession.generate

    async def with_token(self, sampling):
        turn = await generate(self, sampling)
        if turn.text.endswith("|>"):
            self._segments[-1] = replace(self._segments[-1], text=f"{turn.text}<")
        return turn

    monkeypatch.setattr(ScriptedSession, "generate", with_token)
    replies = {"planner": [CALL.format("Who?"), "\\boxed{Ida}"], "coordinator": [selection("search"), distilled("Ida")]}
    episode = await HiRA(script(**replies, search=['{"query_plan": ["Kelm"]}', "\\boxed{Ida}"]), Facts()).solve("Who?")
    (planner,) = episode.by_role("planner")
    assert "<|end_call_subtask|><|begin_subtask_result|>Result" in "".join(s.text for s in planner.segments)
