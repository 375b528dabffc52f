"""Every command of the documentation is taken by the program, and nothing that it names is missing."""

import re
import tomllib
from argparse import ArgumentParser
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from subquest.cli import _parser
from subquest.cli.bench import _load as load
from subquest.cli.bench import benchmarks
from subquest.cli.train import _override as override

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


@pytest.mark.parametrize(("pattern", "reason"), [(p, r) for p, r in NOT_RUN.items() if "tests/" in r])
def test_a_test_that_a_reason_names_calls_the_command(pattern: str, reason: str) -> None:
    """Its words stand in the test, or the test takes them from the page."""
    (place,) = re.findall(r"tests/[\w/.*-]+", reason)
    text = "\n".join(path.read_text(encoding="utf-8") for path in ROOT.glob(place))
    leading = re.match(r"subquest((?: [a-z]+\b(?![*.]))*)", pattern)
    named = [*(leading[1].split() if leading else []), *re.findall(r"--[a-z-]+", pattern)]
    assert text
    if not any(command.page in text for command in SHOWN if fnmatchcase(command.text, pattern)):
        assert [word for word in named if not re.search(rf"[\"' ]{word}\b", text)] == []


class Parsed(Exception):
    """The options were taken."""


BENCHMARKS = [c for c in SHOWN if re.match(r"subquest bench \S|(?:\S+ )?python3 benchmarks/", c.text)]


@pytest.mark.slow
@pytest.mark.parametrize("command", BENCHMARKS, ids=lambda command: f"{command.page}:{command.line}")
def test_a_benchmark_takes_the_options_that_a_page_shows(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    parse = ArgumentParser.parse_args

    def parsed(*args: Any, **more: Any) -> None:
        parse(*args, **more)
        raise Parsed

    shown = [word for word in words(command.text) if word != "…"]
    name, *options = shown[1:] if shown[0] == "python3" else shown[2:]
    monkeypatch.setattr(ArgumentParser, "parse_args", parsed)
    with pytest.raises(Parsed):
        load(benchmarks()[Path(name).stem]).main(options)


TRAININGS = [c for c in SHOWN if re.search(r"subquest train recipes/", c.text)]


@pytest.mark.slow
@pytest.mark.parametrize("command", TRAININGS, ids=lambda command: f"{command.page}:{command.line}")
def test_a_recipe_takes_the_changes_that_a_page_shows(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = pytest.importorskip("subquest.train.recipe")
    monkeypatch.chdir(ROOT)
    arguments = words(command.text[command.text.index("subquest train") :])[1:]
    args = _parser(arguments).parse_args(arguments)
    assert recipe.load_recipe(args.recipe, dict(override(pair) for pair in args.set)).name
