"""Where lines are drawn anew, and where they are only printed."""

import io

import pytest

from subquest.cli import main
from subquest.cli.terminal import Paint, is_live
from subquest.cli.tree import LiveTree, PlainLines, display


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


def test_messages_do_not_command_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "info", "nowhere\x1b]0;title\x07"]) == 2
    assert capsys.readouterr().err == "subquest: there is no run nowhere\\x1b]0;title\\x07\n"
