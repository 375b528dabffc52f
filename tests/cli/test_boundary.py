"""What is left of an error when it reaches the command line: one line, and the stack for `--debug`."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from subquest.cli import COMMANDS, bench, main, runs

COMMAND = [sys.executable, "-m", "subquest"]
LIST = [*COMMAND, "data", "list"]


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """`runs list` has a defect."""

    def fail(args: object) -> int:
        raise ZeroDivisionError("a defect\nof two lines")

    monkeypatch.setattr(runs, "_list", fail)


@pytest.mark.usefixtures("broken")
def test_a_defect_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "list"]) == 1
    line = "subquest: an error in Subquest (ZeroDivisionError: a defect of two lines); --debug shows where"
    assert capsys.readouterr().err.startswith(line)


@pytest.mark.parametrize(
    ("module", "status", "words"),
    [
        ("torch.nn", 2, "torch.nn is not installed. Install it with: pip install 'subquest[train]'"),
        ("tensorboardX", 2, "pip install 'subquest[train]'"),
        ("subquest.gone", 1, "an error in Subquest"),
    ],
)
def test_a_package_that_is_missing_is_named_with_its_extra(
    module: str, status: int, words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(args: object) -> int:
        raise ModuleNotFoundError(f"No module named {module!r}", name=module)

    monkeypatch.setattr(runs, "_list", fail)
    assert main(["runs", "list"]) == status
    assert words in capsys.readouterr().err


def test_studies_are_listed_without_torch() -> None:
    """They read the recipes of trainings, and train nothing."""
    code = "import sys; sys.modules['torch'] = None; from subquest.cli import main; sys.exit(main(['study']))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "claims-1.5b" in done.stdout


@pytest.mark.usefixtures("broken")
@pytest.mark.parametrize(
    "words", [["--debug", "runs", "list"], ["runs", "--debug", "list"], ["runs", "list", "--debug"]]
)
def test_debug_shows_the_stack(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 1
    err = capsys.readouterr().err
    assert "Traceback" in err
    assert "in fail" in err
    assert err.splitlines()[-1].startswith("subquest: an error in Subquest")


def test_debug_shows_where_a_wrong_input_was_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for debug in (False, True):
        assert main(["runs", "info", str(tmp_path / "none"), *["--debug"] * debug]) == 2
        assert ("Traceback" in capsys.readouterr().err) == debug


@pytest.mark.parametrize(
    ("error", "status"),
    [(PermissionError(13, "Permission denied", "x"), 2), (OSError(5, "Input/output error", "x"), 1)],
)
def test_files_are_named(
    error: OSError, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(args: object) -> int:
        raise error

    monkeypatch.setattr(runs, "_list", fail)
    assert main(["runs", "list"]) == status
    assert capsys.readouterr().err == f"subquest: x: {error.strerror}\n"


def test_an_output_that_nobody_reads_is_no_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(LIST, stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
def test_an_output_on_a_full_disk_is_an_error() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(LIST, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("subquest: cannot write to standard output")
    assert done.stderr.count("\n") == 1


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
def test_messages_on_a_full_disk_do_not_change_the_status(tmp_path: Path) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run([*COMMAND, "runs", "info", "none"], cwd=tmp_path, stderr=full)
    assert done.returncode == 2


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_lead_nowhere(closed: str, tmp_path: Path) -> None:
    done = subprocess.run(
        f"{' '.join(LIST)} {closed}", shell=True, cwd=tmp_path, text=True, capture_output=True, executable="/bin/bash"
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ["world", "make", "--articles", "200000", "--questions", "2", "--out", "w", "--workers", "2"],
        ["mcp", "--model", "scripted:script.jsonl"],
    ],
    ids=lambda words: words[0],
)
def test_an_interrupt_is_one_word(words: list[str], tmp_path: Path) -> None:
    """Ctrl-C reaches the command and its worker processes, which say nothing."""
    (tmp_path / "script.jsonl").write_text('"x"\n')
    code = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # ignored in background jobs
        "from subquest.cli import main; print('ready', flush=True); sys.exit(main(sys.argv[1:]))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, *words], cwd=tmp_path, start_new_session=True, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    started = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    while words[0] == "world" and process.poll() is None and len(started.read_text().split()) < 2:
        time.sleep(0.01)  # before its workers are there, it does not listen for a moment
    try:
        process.wait(1 if words[0] == "world" else 3)
        pytest.fail(f"it ended by itself: {process.communicate()}")
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGINT)
    err = process.communicate(timeout=120)[1]
    assert "Traceback" not in err
    assert err.splitlines()[-1:] == ["interrupted"]
    assert process.returncode == 130


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_the_option(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    assert "--debug" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["ingest", "overhead", "runs", "worlds"])
def test_a_benchmark_says_how_it_is_called(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", name, "--help"]) == 0
    assert capsys.readouterr().out.startswith(f"usage: subquest bench {name} ")


def test_all_benchmarks_say_how_they_are_called() -> None:
    for name, file in bench.benchmarks().items():
        assert f'prog="subquest bench {name}"' in file.read_text(), name


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["ask", "x", "--model", "scripted:half.jsonl", "--system", "direct"], "half.jsonl:1"),
        (["ask", "x", "--calibration", "deep.json", "--system", "direct"], "deep.json"),
        (["ask", "x", "--calibration", "pipe", "--system", "direct"], "pipe: it is a pipe"),
        (["ask", "x", "--index", "/"], "/ is not an index"),
        (["ask", "x", "--index", "lance:none"], "lance:none"),
        (["ask", "x", "--set", "=", "--index", "."], "--set '='"),
        (["ask", "x", "--config", "a\x01b.toml"], "a\\x01b.toml"),
        (["index", "build", "/", "--out", "new.sq"], "/ is the whole machine"),
        (["study", "nan.toml"], "nan is not a number"),
    ],
    ids=lambda value: value.replace("/", "root") if isinstance(value, str) else "",
)
def test_odd_names_and_contents_are_named(
    words: list[str], named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("half.jsonl").write_text('"\\ud800"\n')
    Path("deep.json").write_text("[" * 100_000)
    os.mkfifo("pipe")
    Path("nan.toml").write_text("[[number]]\nem = nan\n")
    before = sorted(Path().iterdir())
    assert main(words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert named in line
    assert sorted(Path().iterdir()) == before
