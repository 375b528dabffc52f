"""Small episodes for tests: roles with made-up tokens."""

from subquest.record import Episode, Question, Segment, Trajectory
from subquest.train.batch import Rollout


def trajectory(id: str, role: str, *segments: tuple[str, list[int]]) -> Trajectory:
    """Segments as (kind, token ids); agent tokens get the log-prob -0.1 * id."""
    return Trajectory(
        id,
        role,
        "",
        segments=tuple(
            Segment(
                kind,  # type: ignore[arg-type]
                " ".join(map(str, ids)),
                tuple(ids),
                tuple(-0.1 * i for i in ids) if kind == "agent" else None,
            )
            for kind, ids in segments
        ),
    )


def episode(id: str, *trajectories: Trajectory, question: str = "q") -> Episode:
    return Episode(id, Question(question, f"{question}?"), "test", "test", trajectories=trajectories)


def rollouts_of(id: str, roles: dict[str, int], *, question: str = "q") -> Episode:
    """An episode with so many trajectories of each role."""
    return episode(
        id,
        *(
            trajectory(f"{id}-{role}-{n}", role, ("prompt", [1, 2]), ("agent", [3, 4]))
            for role, count in roles.items()
            for n in range(count)
        ),
        question=question,
    )


def two_rollouts() -> list[Rollout]:
    """Three trajectories to train on, and one in which the agent says nothing."""
    first = episode(
        "a",
        trajectory("a0", "planner", ("prompt", [1, 2]), ("agent", [3, 4]), ("env", [5, 6]), ("agent", [7])),
        trajectory("a1", "executor", ("prompt", [1]), ("agent", [8, 9])),
        trajectory("a2", "executor", ("prompt", [1, 2, 3])),
    )
    second = episode("b", trajectory("b0", "planner", ("prompt", [2]), ("agent", [4])))
    return [Rollout(first, {"a0": 1.0, "a1": 1.0, "a2": 1.0}), Rollout(second, {"b0": -1.0})]
