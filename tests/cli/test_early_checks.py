"""What is cheap to check is checked before a model is loaded, and before a run is begun."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import subquest as sq
from subquest import AgentSpec
from subquest.assemble.engines import EngineOptions
from subquest.cli import main
from subquest.cli.agent_options import warn_of_untrained
from subquest.errors import EngineRefused

MODEL = ["--model", "scripted:not-there.jsonl"]
"""Complains as soon as it is loaded, so that a message about anything else must have come before."""
COMMANDS = {
    "ask": ["ask", "Which city?"],
    "eval": ["eval", "toy.jsonl", "--out", "run"],
    "study": ["study", "coda-topk", "--on", "toy.jsonl", "--out", "run"],
    "serve": ["serve", "--port", "0"],
    "mcp": ["mcp"],
}


@pytest.fixture
def toy(place: Path) -> Path:
    (place / "toy.jsonl").write_text(json.dumps({"id": "q", "question": "Which city?", "answers": ["Kestel"]}))
    return place


@pytest.mark.parametrize("command", COMMANDS)
def test_the_model_itself_comes_last(command: str, toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*COMMANDS[command], *MODEL, "--index", "docs.sq"]) == 2
    assert "not-there.jsonl" in capsys.readouterr().err
    assert not list(toy.glob("run*"))


@pytest.mark.parametrize("command", COMMANDS)
def test_a_missing_index_is_told_first(command: str, toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*COMMANDS[command], *MODEL, "--index", "missing.sq"]) == 2
    assert "missing.sq is not an index" in capsys.readouterr().err
    assert not list(toy.glob("run*"))


def test_asking_with_nothing_to_search_is_refused_before_any_work(
    toy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (toy / "script.jsonl").write_text('"<answer>from memory</answer>"')
    assert main(["ask", "Who?", "--model", "scripted:script.jsonl"]) == 2
    out, said = capsys.readouterr()
    assert out == ""
    assert "coda searches, and there is nothing to search: give --index" in said
    assert main(["ask", "Who?", "--model", "scripted:script.jsonl", "--system", "direct"]) == 0


@pytest.mark.parametrize("command", ["eval", "study"])
def test_nothing_to_search_is_said(command: str, toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*COMMANDS[command], *MODEL]) == 2  # for the model's sake
    said = capsys.readouterr().err
    assert "coda searches, and there is nothing to search: give --index" in said
    assert "not-there.jsonl" in said
    main([*COMMANDS[command], *MODEL, "--index", "docs.sq"])
    assert "nothing to search" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("systems", "model", "said"),
    [
        (["coda", "rag"], "embedded", ""),
        (["direct"], "embedded", ""),
        (["coda", "hira"], "smollm2", "for hira it is too small"),
        (["react"], "embedded", "for react it is too small"),
        (["hira"], "openai:big@http://127.0.0.1:9/v1", ""),
        (["coda", "decor", "direct"], "qwen-1.5b", ""),
        (["coda", "hira"], "torch:qwen-0.5b", "and not for hira, which runs on the model as published"),
    ],
)
def test_a_system_that_a_model_was_not_taught_is_said(
    systems: list[str], model: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    warn_of_untrained(systems, AgentSpec(model=model))
    error = capsys.readouterr().err
    assert said in error
    assert bool(error) == bool(said)


@pytest.mark.parametrize("system", ["direct", "cot", "hira"])
def test_a_system_that_need_not_search_goes_without_an_index(
    system: str, toy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*COMMANDS["ask"], *MODEL, "--system", system]) == 2
    assert "nothing to search" not in capsys.readouterr().err


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("mode", ["dense", "hybrid"])
def test_a_mode_that_the_index_does_not_have_is_told_first(
    command: str, mode: str, toy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*COMMANDS[command], *MODEL, "--index", "docs.sq", "--mode", mode]) == 2
    assert f"--mode {mode}: docs.sq has no vectors" in capsys.readouterr().err
    assert not list(toy.glob("run*"))


@pytest.mark.parametrize("command", ["ask", "eval", "serve"])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--system", "codaa"], "coda"),
        (["--set", "refein=false"], "refine"),
        (["--preset", "nonsense"], "nonsense"),
        (["--role", "plannr.temperature=1"], "plannr"),
        (["--prompts", "no-folder"], "no-folder"),
    ],
)
def test_wrong_settings_are_told_first(
    command: str, options: list[str], message: str, toy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*COMMANDS[command], *MODEL, "--index", "docs.sq", *options]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "not-there.jsonl" not in error
    assert not list(toy.glob("run*"))


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["ask", "Which city?", "--trace", "no/trace.json"], "there is no folder no"),
        (["ask", "Which city?", "--trace", "docs.sq"], "it is a folder"),
        (["eval", "nowhere.jsonl", "--out", "run"], "nowhere.jsonl"),
        (["study", "coda-topk", "--on", "nowhere.jsonl", "--out", "run"], "nowhere.jsonl"),
        (["eval", "toy.jsonl", "--out", "toy.jsonl/run"], "toy.jsonl"),
        (["eval", "toy.jsonl", "--out", "docs.sq"], "--out docs.sq: there is an index in it"),
        (
            ["eval", "toy.jsonl", "--out", "papers"],
            "papers holds other things, such as letter.md, and no run: name a new",
        ),
    ],
)
def test_data_and_output_are_told_first(
    command: list[str], message: str, toy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (toy / "papers").mkdir()
    (toy / "papers" / "letter.md").write_text("Dear Mila")
    assert main([*command, *MODEL, "--index", "docs.sq"]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "not-there.jsonl" not in error


def test_what_is_no_run_is_not_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run.sqlite").write_text("garbage")
    assert main(["view", str(tmp_path / "run.sqlite"), "--no-open"]) == 2
    assert "is not a run" in capsys.readouterr().err
    assert (tmp_path / "run.sqlite").read_text() == "garbage"


def test_without_the_embedded_extra_a_message_says_what_to_do_and_nothing_is_left(toy: Path) -> None:
    code = "import sys; sys.modules['numpy'] = None; from subquest.cli import main; sys.exit(main(sys.argv[1:]))"
    for command, other in (
        (
            ["ask", "Which city?", "--index", "docs.sq", "--model", "embedded"],
            "or name a model at an endpoint: --model http",
        ),
        (["demo"], "or ask a model at an endpoint: subquest ask"),
    ):
        done = subprocess.run([sys.executable, "-c", code, *command], capture_output=True, text=True)
        assert done.returncode == 2
        assert "is not installed. Install it with: pip install 'subquest[embedded]', " + other in done.stderr
    assert not (toy / "demo").exists()


def test_ask_in_python_raises_what_ended_the_question(toy: Path) -> None:
    spec = {"model": "openai:x@http://127.0.0.1:9/v1", "engine": EngineOptions(retries=0)}
    with pytest.raises(sq.EpisodeFailed, match=r"engine: cannot connect to http://127\.0\.0\.1:9/v1") as caught:
        sq.ask("Which city?", index="docs.sq", **spec)
    assert caught.value.episode.stop_reason == "failed"
    with sq.Index.open("docs.sq") as index:
        agent = sq.CoDA(sq.ScriptedEngine(lambda context: EngineRefused("no such key")), index)
        with pytest.raises(sq.EpisodeFailed, match="engine: no such key"):
            agent.ask("Which city?")
        (episode,) = agent.ask_many(["Which city?"])
        assert (episode.answer, episode.errors[0].where) == ("", "engine")
