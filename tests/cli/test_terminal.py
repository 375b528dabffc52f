"""Where lines are drawn anew, and where they are only printed."""

import io

import pytest

from subquest.cli import main
from subquest.cli.terminal import Paint, is_live
from subquest.cli.tree import EpisodeTree, LiveTree, PlainLines, display
from subquest.events import Event, EventLog


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "term", "live"),
    [(Terminal(), "xterm", True), (Terminal(), "dumb", False), (io.StringIO(), "xterm", False)],
)
def test_a_tree_is_drawn_only_where_the_cursor_moves(
    stream: io.StringIO, term: str, live: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", term)
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert is_live(stream) is live
    assert isinstance(display(stream), LiveTree if live else PlainLines)
    assert (Paint(stream)("x", "1") != "x") is live


def test_no_color_takes_away_colours_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    assert Paint(Terminal())("x", "1") == "x"
    assert isinstance(display(Terminal()), LiveTree)


def test_a_long_error_is_wrapped_in_the_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "60")
    stream, message = Terminal(), " ".join(f"word{n}" for n in range(30))
    log = EventLog()
    with display(stream) as view:
        for kind, place, data in (
            ("start", "", {"question": "q", "system": "coda", "model": "m"}),
            ("open", "1", {"role": "planner", "task": "t", "parent": None}),
            ("error", "1", {"where": "engine", "message": message}),
            ("answer", "", {"answer": "", "forced": False, "confidence": None}),
        ):
            view.add(log.emit(kind, place, **data))
    drawn = stream.getvalue().rpartition("\x1b[J")[2].splitlines()
    assert max(map(len, drawn)) < 60
    assert [word for line in drawn for word in line.split() if word.startswith("word")] == message.split()
    assert drawn[-1] == "└── answer  (none)"


def test_messages_do_not_command_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "info", "nowhere\x1b]0;title\x07"]) == 2
    assert capsys.readouterr().err == "subquest: there is no run nowhere\\x1b]0;title\\x07\n"


def test_an_event_with_nothing_to_show_has_no_line() -> None:
    tree = EpisodeTree()
    assert tree.add(Event(0, "memory", 0.0, "1", {"action": "add", "entries": []})) is None
    shown = tree.add(Event(1, "code", 0.0, "1", {"source": "SELECT 1"}))
    assert shown is not None
