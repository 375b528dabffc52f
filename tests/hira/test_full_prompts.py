"""HiRA and its baselines run on the full prompts; what the prompts hold is tested in `tests/systems`."""

import datetime

from subquest.engine.scripted import ScriptedEngine
from subquest.systems.baselines.plan_experts import PlanExperts
from subquest.systems.baselines.react_tools import ReActTools
from subquest.systems.hira import HiRA

from .test_hira import CALL, Facts, distilled, prompts, selection


async def test_hira_runs_on_the_full_prompts_and_tells_the_searcher_the_date():
    replies = {
        "planner": [CALL.format("Who is the mayor of Kelm?"), "\\boxed{Ida Brandt}"],
        "coordinator": [selection("search"), distilled("Ida Brandt")],
        "search": ['{"query_plan": ["mayor Kelm"]}', "\\boxed{Ida Brandt}"],
    }
    episode = await HiRA(ScriptedEngine(replies), Facts(), prompts="full").solve("Who is the mayor of Kelm?")
    assert (episode.answer, episode.errors) == ("Ida Brandt", ())
    today = datetime.date.today().year
    assert f"Today is {today}" in prompts(episode, "search")[0]
    react = await ReActTools(ScriptedEngine(["\\boxed{x}"]), prompts="full").solve("q")
    assert f"Today is {today}" in prompts(react, "agent")[0]


async def test_the_task_of_the_moment_stands_behind_the_examples():
    replies = {"planner": ['{"plan": ["Who is the mayor of Kelm?"]}'], "search": ['{"query_plan": []}', "\\boxed{x}"]}
    episode = await PlanExperts(ScriptedEngine(replies), Facts(), experts="search", prompts="full").solve("Who?")
    (planner,), (search,) = episode.by_role("planner"), episode.by_role("search")
    opening = [[s for s in t.segments if s.kind == "prompt"] for t in (planner, search)]
    assert [[s.role for s in segments][:4] for segments in opening] == [["system", "user", "assistant", "user"]] * 2
    assert [segments[-1].text.splitlines()[-1] for segments in opening] == [
        "Attached files: none",
        "Task: Who is the mayor of Kelm?",
    ]
    assert episode.answer == "x"
