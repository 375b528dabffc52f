"""CoDA's reward, eq. 4 to 9, on episodes written by hand."""

from dataclasses import replace

import pytest

from subquest.errors import ConfigError
from subquest.record import Episode, Question, Segment, Trajectory
from subquest.rewards import Reward, load
from subquest.systems.coda.reward import CoDAReward

PLAN = "Thinking. <task>Who directed Silver Harbour?</task>"
ANSWER = "<think>Known now.</think><answer>Mara Quill</answer>"
SEARCH = "<search>Silver Harbour director</search>"
RESULT = "<refine>Directed by Mara Quill in 1962.</refine><result>Mara Quill</result>"


def context(id: str, role: str, *turns: str, errors: tuple[str, ...] = ()) -> Trajectory:
    segments: list[Segment] = [Segment("prompt", "instructions about <answer> and Mara Quill")]
    for turn in turns:
        segments += [Segment("agent", turn), Segment("env", "<result>data</result>")]
    return Trajectory(id, role, "", None if role == "planner" else "1", tuple(segments), format_errors=errors)


def episode(answer: str, *trajectories: Trajectory, gold: tuple[str, ...] = ("Mara Quill",)) -> Episode:
    return Episode("e", Question("q", "Who?", gold), "coda", "m", trajectories, answer)


GOOD = episode("Mara Quill", context("1", "planner", PLAN, ANSWER), context("1.1", "executor", SEARCH, RESULT))


def reward(e: Episode, **options: object) -> Reward:
    return CoDAReward(**options).reward(e)  # type: ignore[arg-type]


def test_a_perfect_episode_by_hand() -> None:
    found = reward(GOOD)
    assert found.terms == {"answer": 3.0, "format_planner": 1.0, "format_executor": 1.0, "refine": 0.5}
    assert found.total == 5.5
    assert found.roles == {"planner": 5.5, "executor": 5.5}, "one reward for the whole group (3.3.2)"


def test_answer_by_hand() -> None:
    """Eq. 5: F1 4/5 gives 1.8, a wrong or missing answer -3; the best of several gold answers counts."""
    assert reward(replace(GOOD, answer="Mara Ann Quill")).terms["answer"] == pytest.approx(6 * 0.8 - 3)
    assert reward(replace(GOOD, answer="Odo Lenn")).terms["answer"] == -3.0
    assert reward(replace(GOOD, answer="")).terms["answer"] == -3.0
    two = replace(GOOD, question=replace(GOOD.question, answers=("Odo", "Mara Quill")))
    assert reward(two).terms["answer"] == 3.0


async def test_exact_match_pays_nothing_for_the_unit_of_a_wrong_number() -> None:
    old = replace(GOOD, answer="51 years", question=replace(GOOD.question, answers=("46", "46 years")))
    assert reward(old).terms["answer"] == 0.0, "F1 one half"
    assert reward(old, match="em").terms["answer"] == -3.0
    assert reward(replace(old, answer="46 years"), match="em").terms["answer"] == 3.0
    assert [r.terms["answer"] for r in await load("coda-em").score([old])] == [-3.0]
    with pytest.raises(ConfigError, match="unknown match 'cem': f1 or em"):
        CoDAReward(match="cem")  # type: ignore[arg-type]


def with_executors(*executors: Trajectory, planner: Trajectory | None = None) -> Episode:
    return episode("x", planner or context("1", "planner", PLAN, ANSWER), *executors)


BAD_EXECUTOR = context("1.2", "executor", SEARCH, "<result>Mara Quill", errors=("<result> is not closed",))
GOOD_EXECUTOR = context("1.1", "executor", SEARCH, RESULT)


def test_executor_format_is_all_or_nothing() -> None:
    assert CoDAReward().formats(with_executors(GOOD_EXECUTOR, BAD_EXECUTOR)) == (1.0, 0.0)
    assert CoDAReward().formats(with_executors()) == (1.0, 0.0), "no executor earns nothing"
    assert CoDAReward(reading="code").formats(with_executors(GOOD_EXECUTOR, BAD_EXECUTOR)) == (1.0, 0.5)
    assert CoDAReward(reading="code").formats(with_executors()) == (1.0, 0.0)
    queried = context("1.1", "executor", SEARCH, "All rows count. <sql>SELECT count(*) FROM films</sql>", RESULT)
    assert CoDAReward().formats(with_executors(queried)) == (1.0, 1.0), "a query of a table goes on, as a search does"


@pytest.mark.parametrize(
    ("turns", "good"),
    [
        ((PLAN, ANSWER), True),
        ((ANSWER,), True),
        (("<task>a</task><task>b</task>", ANSWER), True),
        ((PLAN,), False),
        ((PLAN, PLAN), False),
        ((ANSWER, ANSWER), False),
        (("<task></task>", ANSWER), False),
        (("nothing", ANSWER), False),
        ((PLAN, "<answer>open"), False),
        ((PLAN, "<answer>a</answer><answer>b</answer>"), False),
        ((PLAN, "<task>b</task><answer>a</answer>"), False),
        ((PLAN, "<Answer>a</Answer>"), False),
        ((), False),
    ],
)
def test_planner_format(turns: tuple[str, ...], good: bool) -> None:
    assert CoDAReward().formats(with_executors(planner=context("1", "planner", *turns)))[0] == float(good)


def test_code_reading_counts_tags() -> None:
    code = CoDAReward(reading="code")
    assert code.formats(with_executors(planner=context("1", "planner", ANSWER)))[0] == 0.0, "an answer without a task"
    backwards = context("1", "planner", ANSWER, PLAN)
    assert code.formats(with_executors(planner=backwards))[0] == 1.0, "order is not checked"
    assert code.formats(with_executors(context("1.1", "executor", SEARCH, "<answer>x</answer>")))[1] == 0.0, "no refine"


def test_refine_by_hand() -> None:
    """Eq. 7, 8: texts are joined over executors; whole tokens; yes, no and unknown earn nothing."""
    split = with_executors(
        context("1.1", "executor", SEARCH, "<refine>directed by Mara</refine><result>x</result>"),
        context("1.2", "executor", SEARCH, "<refine>Quill, it says</refine><result>x</result>"),
    )
    assert CoDAReward().refined(split) == 1.0
    assert CoDAReward(reading="code").refined(split) == 0.0, "the code looks at each executor alone"
    assert reward(split, delta=2.0).terms["refine"] == 2.0
    outside = with_executors(
        context("1.1", "executor", SEARCH, "Mara Quill <refine></refine><result>Mara Quill</result>")
    )
    assert CoDAReward().refined(outside) == 0.0
    part = with_executors(context("1.1", "executor", "<refine>tomara quilly</refine><result>x</result>"))
    assert CoDAReward().refined(part) == 0.0
    yes = replace(part, question=Question("q", "Is it?", ("yes",)))
    yes = replace(yes, trajectories=(context("1.1", "executor", "<refine>yes it is</refine><result>yes</result>"),))
    assert CoDAReward().refined(yes) == 0.0
    unknown = with_executors(context("1.1", "executor", SEARCH, "<refine>That is unknown.</refine><result>x</result>"))
    assert CoDAReward().refined(replace(unknown, question=Question("q", "Who?", ("unknown",)))) == 0.0


async def test_presets_switch_parts_off() -> None:
    async def terms(name: str) -> set[str]:
        return set((await load(name).score([GOOD]))[0].terms)

    assert await terms("coda") == {"answer", "format_planner", "format_executor", "refine"}
    assert await terms("coda-answer-only") == {"answer"}
    assert await terms("coda-no-format") == {"answer", "refine"}
    assert await terms("coda-no-refine") == {"answer", "format_planner", "format_executor"}
    assert (await load("coda-code").score([GOOD]))[0].total == 5.5


async def test_baselines() -> None:
    def agent(answer: str, refine: str = "") -> Episode:
        return episode(answer, Trajectory("1", "agent", "", segments=(Segment("agent", f"<refine>{refine}</refine>"),)))

    search_r1 = await load("search-r1").score([agent("mara quill."), agent("Mara")])
    assert [r.total for r in search_r1] == [1.0, 0.0]
    assert search_r1[0].roles == {"agent": 1.0}
    auto = load("autorefine")
    scores = await auto.score(
        [agent("Mara", "x"), agent("Odo", "by Mara Quill"), agent("Odo"), agent("Mara", "Mara Quill")]
    )
    assert [r.total for r in scores] == pytest.approx([2 / 3, 0.1, 0.0, 2 / 3])
