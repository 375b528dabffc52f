from __future__ import annotations

import copy
import dataclasses
import pickle

import pytest
from hypothesis import given

from subquest.codec import to_dict
from subquest.errors import DataError
from subquest.record import Document, Episode, Evidence, Question, Segment, Trajectory, Usage

from .strategies import episodes, trajectories, usages

QUESTION = Question("q", "who?")


@given(episodes)
def test_an_episode_survives_json(episode: Episode) -> None:
    assert Episode.from_json(episode.to_json()) == episode


@given(trajectories())
def test_ids_mask_and_logprobs_stand_side_by_side(group: tuple[Trajectory, ...]) -> None:
    for trajectory in group:
        assert len(trajectory.token_ids) == len(trajectory.action_mask)
        wrote = [s for s in trajectory.segments if s.kind == "agent"]
        own = wrote[:-1] if trajectory.forced else wrote
        expected = [(i, any(s is one for one in own)) for s in trajectory.segments for i in s.token_ids]
        assert list(zip(trajectory.token_ids, map(bool, trajectory.action_mask), strict=True)) == expected
        if all(s.logprobs is not None for s in own if s.token_ids):
            assert len(trajectory.logprobs) == len(trajectory.token_ids)
            assert all(p == 0.0 for p, m in zip(trajectory.logprobs, trajectory.action_mask, strict=True) if not m)
        else:
            with pytest.raises(DataError, match="no log-probs"):
                _ = trajectory.logprobs


def test_alignment_by_hand() -> None:
    trajectory = Trajectory(
        "1",
        "planner",
        "t",
        segments=(
            Segment("prompt", "ab", (5, 6)),
            Segment("agent", "c", (7,), (-0.5,)),
            Segment("env", "d", (8,)),
            Segment("agent", "ef", (9, 10), (-1.0, -2.0)),
        ),
    )
    assert trajectory.token_ids == (5, 6, 7, 8, 9, 10)
    assert trajectory.action_mask == (0, 0, 1, 0, 1, 1)
    assert trajectory.logprobs == (0.0, 0.0, -0.5, 0.0, -1.0, -2.0)
    assert trajectory.text == "abcdef"
    assert trajectory.agent_text == "c\nef"
    assert trajectory.has_tokens
    assert not dataclasses.replace(trajectory, segments=(Segment("env", "no ids"),)).has_tokens


def test_logprobs_belong_to_sampled_tokens() -> None:
    with pytest.raises(DataError, match="'env' cannot have log-probs"):
        Segment("env", "x", (1,), (-0.1,))
    with pytest.raises(DataError, match="2 log-probs for 1 token ids"):
        Segment("agent", "x", (1,), (-0.1, -0.2))


@given(usages, usages)
def test_usage_adds_up(a: Usage, b: Usage) -> None:
    total = a + b
    assert total.prompt_tokens == a.prompt_tokens + b.prompt_tokens
    assert total.searches == a.searches + b.searches
    assert total.peak_context == max(a.peak_context, b.peak_context)
    assert a + Usage() == a


def test_a_tree_of_any_depth() -> None:
    depth = 5_000
    chain = tuple(Trajectory(str(n), "executor", f"task {n}", parent=str(n - 1) if n else None) for n in range(depth))
    episode = Episode("e", QUESTION, "coda", "m", trajectories=chain)
    assert [level for level, _ in episode.walk()] == list(range(depth))
    assert Episode.from_json(episode.to_json()) == episode


def test_walk_goes_parents_first_and_keeps_the_order_of_siblings() -> None:
    def node(name: str, parent: str | None) -> Trajectory:
        return Trajectory(name, "r", "t", parent)

    tree = (node("a", None), node("b", "a"), node("c", "a"), node("d", "b"), node("x", None), node("lost", "gone"))
    episode = Episode("e", QUESTION, "s", "m", trajectories=tree)
    assert [(level, t.id) for level, t in episode.walk()] == [
        (0, "a"),
        (1, "b"),
        (2, "d"),
        (1, "c"),
        (0, "x"),
        (0, "lost"),
    ]
    assert [t.id for t in episode.roots] == ["a", "x"]
    assert [t.id for t in episode.children("a")] == ["b", "c"]
    assert [t.id for t in episode.children(tree[1])] == ["d"]
    assert episode.by_role("none") == ()


def test_evidence_must_stand_in_its_document() -> None:
    document = Document("d", "Title", "The river Lumo rises in Varn.")
    found = Evidence.from_document(document, "rises in Varn", trajectory="1.1", query="source of the Lumo")
    assert (found.start, document.text[found.start : found.start + len(found.quote)]) == (15, "rises in Varn")
    for wrong in ("rises in Vern", ""):
        with pytest.raises(DataError, match="the quote is not in document 'd'"):
            Evidence.from_document(document, wrong)


def test_records_are_frozen() -> None:
    with pytest.raises(AttributeError):
        QUESTION.question = "other"  # type: ignore[misc]


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "[]", '{"id": 1}'])
def test_what_is_no_episode_is_told(text: str) -> None:
    with pytest.raises(DataError, match=r"episode|Episode"):
        Episode.from_json(text)


def test_records_are_copied_and_compared_as_dataclasses_are() -> None:
    for twin in (pickle.loads(pickle.dumps(QUESTION)), copy.deepcopy(QUESTION), dataclasses.replace(QUESTION)):
        assert twin == QUESTION
        assert type(twin) is Question
    assert dataclasses.replace(QUESTION, id="other").id == "other"
    assert dataclasses.asdict(Usage(1)) == {**dict.fromkeys(Usage.__match_args__, 0), "prompt_tokens": 1}
    assert [field.name for field in dataclasses.fields(Usage)] == list(Usage.__match_args__)
    assert hash(Usage(1)) == hash(Usage(1))
    assert Document("d", "t", "x").meta is not Document("d", "t", "x").meta
    with pytest.raises(TypeError):
        Usage(z=2)  # type: ignore[call-arg]


def test_a_segment_checks_its_log_probs() -> None:
    with pytest.raises(DataError, match="cannot have log-probs"):
        Segment("env", "x", (1,), (0.5,))


def test_costs_that_are_nothing_are_left_out_of_sums() -> None:
    assert to_dict(Usage(1) + Usage(2)) == {"prompt_tokens": 3}
