"""The baselines that need tools, on the same tools as HiRA."""

import json

import pytest

from subquest.engine.scripted import ScriptedEngine
from subquest.errors import EngineUnavailable, UsageError
from subquest.limits import Limits
from subquest.systems.registry import get
from subquest.tools.sandbox import SandboxUnavailable, bubblewrap
from subquest.tools.websearch import SearXNG

from .site import Reading, serve


@pytest.fixture
def site(monkeypatch):
    with serve() as site:
        monkeypatch.setenv("SUBQUEST_ALLOW_HOSTS", site.url.removeprefix("http://"))
        monkeypatch.setenv("SEARXNG_URL", site.url)
        yield site


async def test_webthinker_alone(site):
    engine = Reading(
        {
            "deep": ["<|begin_search_query|>mayor Brunn<|end_search_query|>", "So \\boxed{Ida Brandt}"],
            "explorer": ["<|begin_click_link|>1<|end_click_link|>", "Final Information: the mayor is Ida Brandt"],
        }
    )
    episode = await get("webthinker")(engine).solve("Who is the mayor of Brunn?")
    assert (episode.answer, episode.stop_reason, episode.errors) == ("Ida Brandt", "answered", ())
    assert [t.role for t in episode.trajectories] == ["deep", "intent", "explorer", "reader"]
    assert "the mayor is Ida Brandt<|end_search_result|>" in episode.by_role("deep")[0].text
    assert [e.id for e in episode.evidence] == [f"{site.url}/brunn"]


async def test_codeact_alone():
    try:
        bubblewrap.way()
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    engine = ScriptedEngine(["<|begin_code_call|>print(6 * 7)<|end_code_call|>", "It is \\boxed{42}"])
    episode = await get("codeact")(engine).solve("6 times 7?")
    assert (episode.answer, episode.usage.tool_calls) == ("42", 1)
    assert "<|begin_code_call_result|>42<|end_code_call_result|>" in episode.trajectories[0].text


async def test_multimodal_alone_says_why_it_cannot_see():
    engine = ScriptedEngine(
        ["<|begin_multimodal_call|>data: a.png question: what?<|end_multimodal_call|>", "\\boxed{unknown}"]
    )
    episode = await get("multimodal")(engine).solve("What is in a.png?")
    assert "there is no file 'a.png' in this run; its files are: none" in episode.trajectories[0].text
    assert [f.where for f in episode.errors] == ["media"]


async def test_react_has_all_tools_in_one_context(site):
    engine = ScriptedEngine(
        [
            "<|begin_search_query|>mayor Brunn<|end_search_query|>",
            "<|begin_click_link|>1<|end_click_link|>",
            "Now I know. \\boxed{Ida Brandt}",
        ]
    )
    episode = await get("react-tools")(engine).solve("Who is the mayor of Brunn?")
    assert episode.answer == "Ida Brandt"
    (agent,) = episode.trajectories
    assert "Its mayor is Ida Brandt." in agent.text
    assert (episode.usage.searches, episode.usage.tool_calls) == (1, 1)


async def test_plan_and_solve_hands_earlier_results_to_later_experts(site):
    engine = ScriptedEngine(
        {
            "planner": ['{"plan": ["Who is the mayor of Brunn?", "How old is that person?"]}'],
            "coordinator": [json.dumps({"selected_agent_name": "search"})] * 2,
            "search": ['{"query_plan": ["mayor Brunn"]}', "\\boxed{Ida Brandt}", '{"query_plan": []}', "\\boxed{61}"],
        }
    )
    episode = await get("plan-experts")(engine).solve("How old is the mayor of Brunn?")
    assert (episode.answer, episode.stop_reason) == ("61", "answered")
    second = episode.by_role("search")[1]
    assert "Who is the mayor of Brunn? Ida Brandt" in "".join(s.text for s in second.segments if s.kind == "prompt")


async def test_the_web_search_of_the_environment_is_used(site):
    assert isinstance(get("hira")(ScriptedEngine([])).web, SearXNG)


async def test_plan_and_solve_over_experts_goes_on_where_an_expert_cannot_begin():
    def reply(context):
        if context.role == "planner":
            return '{"plan": ["Who?", "Where?"]}'
        return '{"query_plan": []}' if context.turn == 0 else "\\boxed{Brunn}"

    class Engine(ScriptedEngine):
        """Fails when a context about the first step is opened."""

        async def open(self, messages, **options):
            if "Task: Who?" in messages[-1].content:
                raise EngineUnavailable("down")
            return await super().open(messages, **options)

    episode = await get("plan-experts")(Engine(reply), experts="search").solve("Where was she born?")
    assert (episode.answer, episode.stop_reason) == ("Brunn", "answered")
    assert [e.where for e in episode.errors] == ["search"]


async def test_plan_and_solve_over_experts_takes_the_users_prompts_and_refuses_unknown_experts_at_once(tmp_path):
    (tmp_path / "search.md").write_text("Plan like a pirate.\n--- user\nTask: $task")
    engine = ScriptedEngine({"planner": ['{"plan": ["Where?"]}'], "search": ['{"query_plan": []}', "\\boxed{Brunn}"]})
    episode = await get("plan-experts")(engine, experts="search", prompts=tmp_path).solve("Where was she born?")
    assert "Plan like a pirate." in episode.by_role("search")[0].text
    with pytest.raises(UsageError, match="nobody"):
        get("plan-experts")(engine, experts="nobody")


@pytest.mark.parametrize(("calls", "answer"), [(3, ""), (4, "Ada"), (6, "Ada"), (7, "Kelm")])
async def test_a_plan_that_a_limit_cuts_short_ends_with_the_newest_result(calls, answer):
    engine = ScriptedEngine(
        {
            "planner": ['{"plan": ["Who is it?", "Where was she born?"]}'],
            "coordinator": ['{"selected_agent_name": "search"}'] * 2,
            "search": ['{"query_plan": []}', "\\boxed{Ada}", '{"query_plan": []}', "\\boxed{Kelm}"],
        }
    )
    episode = await get("plan-experts")(engine, limits=Limits(calls=calls)).solve("Where was she born?")
    cut = calls < 7
    assert (episode.answer, episode.forced, episode.usage.model_calls) == (answer, cut and answer != "", calls)
    assert episode.stop_reason == ("no answer" if not answer else "forced" if cut else "answered")
    assert [e.data["what"] for e in episode.events if e.kind == "limit"] == [
        f"{calls} model calls of the episode"
    ] * cut


async def test_a_call_in_letters_that_only_look_like_ours_is_none():
    engine = ScriptedEngine(["<|begin_ſearch_query|>Kelm<|end_ſearch_query|>", "\\boxed{Brunn}"])
    episode = await get("react-tools")(engine).solve("Where was she born?")
    assert (episode.answer, episode.usage.searches) == ("Brunn", 0)
    assert "no action" in episode.trajectories[0].format_errors


@pytest.mark.parametrize("name", ["codeact", "react-tools", "webthinker"])
async def test_last_words_without_a_box_are_an_answer_without_its_thinking(name):
    engine = ScriptedEngine(["It is 42."] * 2 + ["<think>Which form?</think>It is 42."])
    episode = await get(name)(engine).solve("How many?")
    assert (episode.answer, episode.stop_reason) == ("It is 42.", "answered")
    assert episode.trajectories[0].format_errors == ("no action", "no action")
    episode = await get(name)(ScriptedEngine(["<think>Hm.</think>"] * 3)).solve("How many?")
    assert (episode.answer, episode.stop_reason) == ("", "no answer")
