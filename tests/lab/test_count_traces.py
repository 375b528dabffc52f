"""What prepared traces teach, counted."""

import subprocess
import sys
from pathlib import Path

from subquest.models import resolve
from subquest.train.components import load_source
from subquest.train.traces import traces_of

from ..train.episodes import episode, trajectory

SCRIPT = Path(__file__).resolve().parents[2] / "recipes/lab/count_traces.py"


def test_tasks_and_searches_are_counted_by_what_was_written(tmp_path: Path) -> None:
    encode = load_source(str(resolve("smollm2")), weights=False).tokenizer.encode
    told = ("prompt", encode("a prompt with <task>, <search> and <result>"))
    planner = trajectory(
        "a-0", "planner", told, ("agent", encode("<task>Who?</task>")), ("agent", encode("<answer>Ada</answer>"))
    )
    wide = trajectory("b-0", "planner", told, ("agent", encode("<task>Who?</task><task>When?</task>")))
    first = trajectory("a-1", "executor", told, ("agent", encode("<result>Ada</result>")))
    again = trajectory(
        "b-1",
        "executor",
        told,
        ("agent", encode("<search>who</search>")),
        ("env", encode("not found")),
        ("agent", encode("<result>Ada</result>")),
    )
    vain = trajectory(
        "b-2",
        "executor",
        told,
        ("agent", encode("<search>when</search>")),
        ("agent", encode("<result>Not found.</result>")),
    )
    traces_of([episode("a", planner, first), episode("b", wide, again, vain)]).save(tmp_path / "t.xz")
    command = [sys.executable, str(SCRIPT), str(tmp_path / "t.xz"), "--model", "smollm2"]
    told_lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")
    assert [" ".join(line.split()) for line in told_lines if line] == [
        "1 executor, 0 searches of its own, found",
        "1 executor, 1 searches of its own, found",
        "1 executor, 1 searches of its own, not found",
        "1 planner, more tasks",
        "1 planner, one task",
    ]
