"""Whether roles wrote what their protocol asks for: the tags they act by, closed, filled, one action a turn."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ..protocol import parse
from ..record import Trajectory

Actions = Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]
"""By role: the tags that go on, and the tags that end."""

CODA_ACTIONS: Actions = {
    "planner": (("task",), ("answer",)),
    "executor": (("search", "task"), ("result", "answer")),
}
"""The paper's executor ends with `<result>`, the code's with `<answer>`; a nested one also hands out tasks."""


def well_formed(trajectory: Trajectory, actions: Actions = CODA_ACTIONS) -> bool:
    """Every turn is parsed without complaint, acts exactly one way, and the last one, and only it, ends.

    Several tasks in one turn are one way to act: they are sent together. A forced turn is not the trajectory's own, so
    one that had to be forced has not ended.
    """
    if trajectory.role not in actions or trajectory.format_errors:
        return False
    on, end = actions[trajectory.role]
    turns = trajectory.written_turns
    for number, text in enumerate(turns, 1):
        parsed = parse(text)
        acted = parsed.all(*on, *end)
        tags = {block.tag for block in acted}
        wanted = end if number == len(turns) else on
        if parsed.problems or len(tags) != 1 or not tags <= set(wanted) or not all(b.content for b in acted):
            return False
        if "task" not in tags and len(acted) != 1:
            return False
    return bool(turns)


def tags_balance(trajectory: Trajectory) -> bool:
    """The published code's check: each of the role's tags is there, with as many openings as closings, in any order.

    The code also asks for `<think>`; our prompts do not, so it only has to balance.
    """
    text = "\n".join(trajectory.written_turns)
    wanted: tuple[tuple[str, ...], ...] = {
        "planner": (("task",), ("answer",)),
        "executor": (("search",), ("refine",), ("answer", "result")),
    }.get(trajectory.role, ())

    def count(tag: str) -> tuple[int, int]:
        return len(re.findall(f"<{tag}>", text)), len(re.findall(f"</{tag}>", text))

    present = all(any(count(tag)[0] for tag in either) for either in wanted)
    balanced = all(len(set(count(tag))) == 1 for tag in ("think", *(tag for either in wanted for tag in either)))
    return bool(wanted) and present and balanced
