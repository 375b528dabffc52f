"""Budgets: what counts where, and what stops whom."""

from subquest.limits import Budget, Limits, Repeats
from subquest.record import Usage

TURN = Usage(prompt_tokens=100, cached_tokens=40, completion_tokens=10, model_calls=1, cost=0.5)


def test_spending_counts_here_and_above() -> None:
    episode = Budget("the episode", Limits(tokens=140))
    planner = episode.child("planner", Limits())
    executor = planner.child("executor", Limits())
    executor.spend(TURN)
    assert (executor.tokens, planner.tokens, episode.tokens) == (70, 70, 70)
    assert planner.exhausted() is None
    planner.spend(TURN)
    assert executor.exhausted() == "140 tokens of the episode"


def test_turns_bind_only_where_they_are_counted() -> None:
    planner = Budget("planner", Limits(turns=1))
    executor = planner.child("executor", Limits(turns=2))
    planner.spend(TURN)
    assert planner.exhausted() == "1 turn of planner"
    assert executor.exhausted() is None
    executor.spend(TURN)
    executor.spend(TURN)
    assert executor.exhausted() == "2 turns of executor"
    assert planner.turns == 1


def test_each_limit_is_named() -> None:
    for limits, words in (
        (Limits(calls=1), "1 model call of x"),
        (Limits(cost=0.5), "cost of 0.5 of x"),
        (Limits(seconds=0.0), "0 seconds of x"),
    ):
        budget = Budget("x", limits)
        budget.spend(TURN)
        assert budget.exhausted() == words


def test_the_nearest_time_limit_counts() -> None:
    assert Budget("x", Limits()).seconds_left() is None
    left = Budget("x", Limits(seconds=100)).child("y", Limits(seconds=10)).seconds_left()
    assert left is not None
    assert 9 < left <= 10


def test_tightened_takes_the_stricter() -> None:
    assert Limits(turns=5, calls=2).tightened(Limits(turns=3)) == Limits(turns=3, calls=2)


def test_repeats_see_through_clothes() -> None:
    repeats = Repeats()
    assert [repeats.count(t) for t in ("Who is it?", "who  is IT", "Who was it?")] == [1, 2, 1]
    repeats.forget("who is it")
    assert [repeats.count(t) for t in ("Who is it?", "Who was it?")] == [1, 2]
    repeats.forget()
    assert repeats.count("Who was it?") == 1
