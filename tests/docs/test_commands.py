"""Every command of the documentation is taken by the program, and nothing that it names is missing."""

import re
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatchcase

import pytest

from subquest.cli import _parser
from subquest.cli.bench import benchmarks

from .commands import NOT_RUN, PAGES, ROOT, Command, commands, mentions, words

SHOWN = [command for page in PAGES for command in commands(page)]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
TARGETS = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def accepts(command: Command, capsys: pytest.CaptureFixture[str]) -> str:
    """What the parser has against a command, or nothing."""
    arguments = words(command.text)[1:]
    try:
        _parser(arguments).parse_args(arguments)
    except SystemExit as stop:
        return capsys.readouterr().err.splitlines()[-1] if stop.code else ""
    if arguments[:1] == ["bench"] and len(arguments) > 1 and arguments[1] not in benchmarks():
        return f"there is no benchmark {arguments[1]}"
    recipes = re.findall(r"recipes/[\w/.-]+\.toml", command.text)
    return "".join(f"there is no {recipe}" for recipe in recipes if not (ROOT / recipe).exists())


def complaints(shown: list[Command], capsys: pytest.CaptureFixture[str]) -> Iterator[str]:
    for command in shown:
        if " ".join(words(command.text)[:1]) == "subquest" and (problem := accepts(command, capsys)):
            yield f"{command.page}:{command.line}: {command.text}\n    {problem}"


def test_every_block_is_accepted(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(SHOWN) > 100
    assert list(complaints(SHOWN, capsys)) == []


def test_every_command_in_the_text_is_accepted(capsys: pytest.CaptureFixture[str]) -> None:
    shown = [command for page in PAGES for command in mentions(page)]
    assert len(shown) > 50
    # a name alone, such as `subquest ask`, stands for the command and leaves its arguments out
    names = [c for c in shown if not re.fullmatch(r"subquest( [a-z]+){1,2}", c.text)]
    assert list(complaints(names, capsys)) == []


def test_a_wrong_option_is_noticed(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = [Command("a.md", 1, text) for text in ("subquest ask hello --indx docs.sq", "subquest bench no-such-thing")]
    assert len(list(complaints(wrong, capsys))) == 2


def test_extras_and_targets_exist() -> None:
    for command in SHOWN:
        if command.text.startswith("pip install"):
            named = re.findall(r"(?:subquest|\.|whl)\[([\w,-]+)\]", command.text)
            missing = {extra for group in named for extra in group.split(",")} - EXTRAS.keys()
            assert not missing, command
        if command.text.startswith("make"):
            assert set(command.text.split()[1:]) <= TARGETS, command


def test_no_reason_is_out_of_date() -> None:
    """A pattern that no command matches any more is removed."""
    shown = [command.text for command in SHOWN]
    assert [pattern for pattern in NOT_RUN if not any(fnmatchcase(text, pattern) for text in shown)] == []


def test_reasons_name_tests_that_exist() -> None:
    named = {path for reason in NOT_RUN.values() for path in re.findall(r"(?:tests|docs)/[\w/.*-]+", reason)}
    assert [path for path in sorted(named) if not list(ROOT.glob(path))] == []
