"""Systems by name, by entry point and by file."""

import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from subquest import Answer, Run, System
from subquest.engine.scripted import ScriptedEngine
from subquest.errors import UsageError
from subquest.systems import registry
from subquest.systems.coda import CoDA


def test_every_name_gives_a_system_of_that_name() -> None:
    for name in registry.names():
        assert registry.get(name).name == name
    assert registry.get("coda") is CoDA


@pytest.mark.parametrize(
    ("name", "message"),
    [("cod", "did you mean 'coda'"), ("zzz", "there are apex, coda, decor"), ("notes.py", "as notes.py:Class")],
)
def test_unknown_names_are_refused_with_the_nearest(name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        registry.get(name)


def test_a_class_in_a_file(tmp_path) -> None:  # type: ignore[no-untyped-def]
    file = tmp_path / "mine.py"
    file.write_text("from subquest.systems.coda import CoDA\nclass Mine(CoDA):\n    name = 'mine'\nx = 1\n")
    assert registry.get(f"{file}:Mine").name == "mine"
    assert registry.get(f"{file}:Mine") is registry.get(f"{file}:Mine")
    with pytest.raises(UsageError, match="defines no 'Other'"):
        registry.get(f"{file}:Other")
    with pytest.raises(UsageError, match="not a subclass"):
        registry.get(f"{file}:x")
    with pytest.raises(UsageError, match="there is no file"):
        registry.get(f"{tmp_path}/none.py:Mine")
    (tmp_path / "broken.py").write_text("1 / 0")
    with pytest.raises(UsageError, match="ZeroDivisionError"):
        registry.get(f"{tmp_path}/broken.py:Mine")


def test_an_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [
        EntryPoint("theirs", "subquest.systems.coda:CoDA", registry.GROUP),
        EntryPoint("gone", "no_such_module:X", registry.GROUP),
    ]
    monkeypatch.setattr(registry, "entry_points", lambda group: points)
    assert registry.get("theirs") is CoDA
    assert registry.names()[-2:] == ["gone", "theirs"]
    with pytest.raises(UsageError, match="cannot be imported"):
        registry.get("gone")


def test_asking_for_names_imports_no_system() -> None:
    code = (
        "import sys; from subquest.systems import registry; registry.names(); "
        "print([m for m in sys.modules if m.startswith('subquest.systems.') and '.baselines' not in m])"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        == "['subquest.systems.registry']\n"
    )


def test_a_system_that_returns_text_is_told_what_to_return() -> None:
    class Text(System):
        name = "text"

        async def answer(self, run: Run) -> Answer:
            return "Kestel"  # type: ignore[return-value]

    with pytest.raises(UsageError, match=r"Text\.answer gave 'Kestel'; a system returns Answer\(text\)"):
        Text(ScriptedEngine([])).ask("Where?")


def test_prompts_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    place = tmp_path / "planner.md"
    for content, message in (
        (b"\xff\xfe", r"planner\.md:1: not UTF-8 text"),
        (b"no user $question", "has no line '--- user'"),
        (b"Plan.\n--- user\n$foo", r"asks for \$foo, which this place does not give"),
    ):
        place.write_bytes(content)
        with pytest.raises(UsageError, match=message):
            CoDA(ScriptedEngine([]), prompts=tmp_path).ask("Where?")
    place.write_bytes(b"\xef\xbb\xbfPlan for $5.\r\n--- user\r\n$question")
    episode = CoDA(ScriptedEngine(["<answer>a</answer>"]), prompts=tmp_path).ask("Where?")
    assert [s.text for s in episode.trajectories[0].segments[:2]] == ["Plan for $5.", "Where?"]
