"""`subquest ask` as scripts use it: shapes on stdout, messages on stderr, exit status."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from subquest.cli import COMMANDS, main
from subquest.record import Episode

ASK = [
    "ask",
    "Where was the designer of the Orvane Bridge born?",
    "--model",
    "scripted:script.jsonl",
    "--index",
    "docs.sq",
]


def test_json(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*ASK, "--json"]) == 0
    out, err = capsys.readouterr()
    document = json.loads(out)
    assert {
        "question",
        "answer",
        "confidence",
        "evidence",
        "system",
        "model",
        "usage",
        "stop_reason",
    } <= document.keys()
    assert document["answer"] == "Kestel"
    assert [(e["id"], e["title"], e["states_answer"]) for e in document["evidence"]] == [
        ("d1", "Orvane Bridge", False),
        ("d2", "Mila Torrun", True),
    ]
    assert document["usage"]["searches"] == 2
    assert document["supported"] is True
    assert err == ""


def test_an_answer_that_no_document_supports_says_so(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = place / "script.jsonl"
    script.write_text(script.read_text().replace("<answer>Kestel</answer>", "<answer>Varn</answer>"))
    assert main([*ASK, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["answer"], document["supported"], document["evidence"]) == ("Varn", False, [])
    assert main(ASK) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[:2] == ["Varn", "  not supported by a document"]
    assert "answer: Varn  (not supported by a document)" in err


def test_an_answer_whose_parts_are_supported_says_so(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = place / "script.jsonl"
    script.write_text(script.read_text().replace("<answer>Kestel</answer>", "<answer>no</answer>"))
    asked = ["ask", "Was the designer of the Orvane Bridge born in Varn?", *ASK[2:]]
    note = "its parts are supported, the conclusion is not checked"
    assert main([*asked, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["supported"], document["parts_supported"], len(document["evidence"])) == (False, True, 2)
    assert main(asked) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[:2] == ["no", f"  {note}"]
    assert f"answer: no  ({note})" in err


def test_of_several_quotes_the_one_that_states_the_answer_is_marked(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*ASK, "--quiet"]) == 0
    first, last = [line for line in capsys.readouterr().out.splitlines() if line.startswith('  "')]
    assert last.endswith("(states the answer)")
    assert not first.endswith("(states the answer)")


def test_events_are_ndjson_without_gaps(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*ASK, "--events"]) == 0
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [e["seq"] for e in events] == list(range(len(events)))
    assert (events[0]["kind"], events[-1]["kind"]) == ("start", "end")
    assert sum(e["kind"] == "documents" for e in events) == 2


def test_trace_holds_the_whole_episode(place: Path) -> None:
    assert main([*ASK, "--quiet", "--trace", "t.json"]) == 0
    episode = Episode.from_json((place / "t.json").read_text())
    assert episode.answer == "Kestel"
    assert len(episode.trajectories) == 3


def test_plain_lines_without_a_terminal(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(ASK) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[0] == "Kestel"
    assert '"She was born in Kestel in 1889." - Mila Torrun [d2]' in out
    assert "    executor: Who designed the Orvane Bridge?" in err.splitlines()
    assert "\x1b" not in out + err


def test_a_terminal_gets_a_tree_and_no_color_is_honoured(place: Path) -> None:
    import pty

    def draw(**env: str) -> str:
        leader, follower = pty.openpty()
        command = [sys.executable, "-m", "subquest", *ASK]
        process = subprocess.Popen(
            command, stdout=follower, stderr=follower, env={**os.environ, "TERM": "xterm", **env}
        )
        os.close(follower)
        text = b""
        while True:
            try:
                part = os.read(leader, 4096)
            except OSError:
                break
            if not part:
                break
            text += part
        assert process.wait() == 0
        return text.decode()

    plain = draw(NO_COLOR="1")
    assert "└── " in plain
    assert "\x1b[32m" not in plain
    assert "\x1b[" in draw(COLORTERM="truecolor")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ask", ""], "the question is empty"),
        (["ask", "x" * 1_000_000], "1,000,000 characters"),
        (["ask", "q", "--system", "cod"], "did you mean 'coda'"),
        (["ask", "q", "--index", "docs.sq", "--model", "opnai:x"], "unknown model"),
        (["ask", "q", "--system", "direct", "--model", "gguf:/nowhere.gguf"], "/nowhere.gguf"),
        ([*ASK[:4], "--index", "nowhere.sq"], "nowhere.sq"),
        ([*ASK, "--set", "dept=2"], "did you mean 'depth'"),
        ([*ASK, "--set", "check=false"], "'check' of system 'coda' was removed: it changed answers"),
        ([*ASK, "--set", "depth"], "KEY=VALUE"),
        ([*ASK, "--set", "turns=many"], "turns must be a whole number"),
        ([*ASK, "--set", "turns=-1"], "from 0"),
        ([*ASK, "--set", "force=maybe"], "true or false"),
        (["ask", "\udcff\udcfe"], "not valid UTF-8"),
        ([*ASK, "--depth", "0"], "1 or more"),
        ([*ASK, "--prompts", "nowhere"], "no prompt set and no folder"),
        ([*ASK, "--role", "planner.temprature=1"], "ROLE.KEY=VALUE"),
        ([*ASK, "--role", "planner.turns=x"], "must be a whole number"),
        ([*ASK, "--role", "planner.temperature=-1"], "sampling.temperature must be a number from 0"),
        ([*ASK, "--role", "planner.turns=0"], "limits.turns must be a whole number from 1"),
        ([*ASK, "--role", "filter.turns=2"], "no role 'filter'"),
        ([*ASK, "--trace", "no/such/folder/t.json"], "no folder"),
        ([*ASK, "--config", "nowhere.toml"], "nowhere.toml"),
    ],
)
def test_wrong_usage_is_named_with_status_2(
    place: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert message in err
    assert out == ""


def test_unknown_config_key_is_named(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "subquest.toml").write_text("modle = 'x'")
    assert main(ASK) == 2
    assert "did you mean 'model'" in capsys.readouterr().err


def test_config_file_is_below_flags(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "subquest.toml").write_text("model = 'nonsense'\nindex = 'docs.sq'")
    assert main(["ask", "Where?", "--model", "scripted:script.jsonl", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["answer"] == "Kestel"


def test_an_unreachable_endpoint_is_status_1_with_a_reason(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "subquest.toml").write_text("[engine]\nretries = 1\n")
    arguments = [
        "ask",
        "q",
        "--model",
        "openai:x@http://127.0.0.1:9/v1",
        "--index",
        "docs.sq",
        "--max-seconds",
        "3",
        "--json",
    ]
    assert main(arguments) == 1
    out, err = capsys.readouterr()
    assert json.loads(out)["stop_reason"] == "failed"
    assert "127.0.0.1:9" in err


def test_an_endpoint_that_is_down_is_named_once(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    question = ["ask", "q", "--model", "openai:x@http://127.0.0.1:9/v1", "--index", "docs.sq", "--max-seconds", "2"]
    for options in ([], ["--quiet"]):
        began = time.monotonic()
        assert main([*question, *options]) == 1
        assert time.monotonic() - began < 20, "no forced turn waits for it once more"
        lines = capsys.readouterr().err.splitlines()
        (error,) = [line for line in lines if "127.0.0.1:9" in line and "retry:" not in line]
        assert "engine: cannot connect to http://127.0.0.1:9/v1/chat/completions" in error
        assert "(is the server up?)" in error, "nothing is cut off"
        assert lines[-1] == "subquest: `subquest doctor` with the same --model says what the endpoint can do"
        retries = [line for line in lines if "retry:" in line]
        assert len(retries) > 1 or options
        assert sum("127.0.0.1:9" in line for line in retries) <= 1


def test_an_endpoint_of_the_environment_that_is_down_can_be_looked_into(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    assert main(["ask", "q", "--model", "openai:x", "--index", "docs.sq", "--max-seconds", "2", "--quiet"]) == 1
    assert "`subquest doctor` with the same --model" in capsys.readouterr().err.splitlines()[-1]


def test_an_endpoint_that_cannot_list_its_models_is_the_engine(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ask", "q", "--model", "http://127.0.0.1:9/v1", "--index", "docs.sq", "--json"]) == 1
    (failure,) = json.loads(capsys.readouterr().out)["errors"]
    assert (failure["where"], failure["fatal"]) == ("engine", True)
    assert "http://127.0.0.1:9/v1" in failure["message"]


def test_question_from_standard_input(place: Path) -> None:
    command = [sys.executable, "-m", "subquest", "ask", "-", *ASK[2:], "--json"]
    done = subprocess.run(command, input="Where?\n", capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["question"] == "Where?"


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in COMMANDS)


def test_a_model_may_write_the_documents(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = "Doc 1(Title: Mila Torrun) Mila Torrun was born in Kestel."
    (place / "writer.jsonl").write_text("\n".join([json.dumps(document)] * 8))
    simulated = [*ASK[:4], "--index", "simulated:scripted:writer.jsonl", "--json"]
    assert main(simulated) == 0
    assert json.loads(capsys.readouterr().out)["answer"] == "Kestel"
    assert main([*ASK[:4], "--index", "simulated:planner=scripted:script.jsonl,executor=scripted:script.jsonl"]) == 2


def test_a_role_may_have_limits_of_its_own(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*ASK, "--role", "executor.turns=1", "--role", "planner.temperature=0.5", "--trace", "t.json"]) == 0
    executors = Episode.from_json((place / "t.json").read_text()).by_role("executor")
    assert all(e.forced for e in executors)


REPORT = [
    ("outliner", "Design: Who designed the Orvane Bridge?"),
    ("planner", "<task>Who designed the Orvane Bridge?</task>"),
    ("planner", "<answer>Mila Torrun</answer>"),
    ("executor", "<search>Orvane Bridge designer</search>"),
    ("executor", "<refine>It was Mila Torrun.</refine><result>Mila Torrun</result>"),
    ("reporter", "The Orvane Bridge was designed by Mila Torrun [1]. It cost 9 crowns [1]."),
]


@pytest.mark.parametrize("option", [["--quiet"], []])
def test_a_report_is_printed_and_written(place: Path, capsys: pytest.CaptureFixture[str], option: list[str]) -> None:
    (place / "script.jsonl").write_text("\n".join(json.dumps({"role": r, "reply": t}) for r, t in REPORT))
    files = [f"r.{form}" for form in ("md", "html", "docx", "pdf")]
    out = [part for name in files for part in ("--out", name)]
    assert main([*ASK, "--style", "report", *option, *out, "--trace", "t.json"]) == 0
    shown, told = capsys.readouterr()
    assert "## Design\n\nThe Orvane Bridge was designed by Mila Torrun [1].\n\n## Sources\n\n[1] Orvane Bridge" in shown
    assert shown.count("## Design") == 1
    assert "a written sentence was dropped" in shown
    assert ("section" in told) == (not option)
    assert all((place / name).stat().st_size for name in files)
    episode = Episode.from_json((place / "t.json").read_text())
    assert episode.report is not None
    assert episode.report.dropped == 1


def test_the_style_of_the_settings_file_counts_and_bad_ones_are_refused(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "subquest.toml").write_text('style = "sentence"')
    assert main([*ASK, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["report"]["short"] == "Kestel"
    (place / "subquest.toml").write_text('style = "essay"')
    assert main([*ASK, "--json"]) == 2
    assert "style" in capsys.readouterr().err
    (place / "subquest.toml").unlink()
    assert main([*ASK, "--out", "answer.txt"]) == 2
    assert "answer.txt: the name decides the format; end it with .md" in capsys.readouterr().err


def script(place: Path, *lines: tuple[str, str]) -> None:
    (place / "script.jsonl").write_text("\n".join(json.dumps({"role": r, "reply": t}) for r, t in lines))


def test_unknown_is_a_normal_outcome(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script(place, ("planner", "<answer>unknown</answer>"))
    assert main([*ASK, "--abstain", "--quiet"]) == 0
    assert capsys.readouterr().out.startswith("unknown: no document was read\n")
    for query, said in (
        ("bridge", "the documents that were read do not say"),
        ("xyzzy", "the searches found no document"),
    ):
        script(
            place,
            ("planner", "<task>Who?</task>"),
            ("executor", f"<search>{query}</search>"),
            ("executor", "<result>not found</result>"),
            ("planner", "<answer>unknown</answer>"),
        )
        assert main([*ASK, "--abstain", "--quiet", "--out", "o.md"]) == 0
        assert capsys.readouterr().out.startswith(f"unknown: {said}\n")
        assert f"\nUnknown: {said}.\n" in (place / "o.md").read_text()


def test_the_limit_that_ended_an_episode_is_said(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script(place, ("planner", ""))
    assert main([*ASK, "--max-seconds", "0"]) == 1
    assert capsys.readouterr().out.startswith("no answer (limit reached: 0 seconds of the episode)\n")
    script(place, ("planner", "<task>Who?</task>"), ("executor", ""), ("planner", "<answer>Kestel</answer>"))
    assert main([*ASK, "--max-calls", "1", "--quiet"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("Kestel\n")
    assert err == "subquest: limit reached: 1 model call of the episode\n"


def test_what_roles_are_told_where_nothing_was_found_is_no_answer(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copied = ("planner", "<answer>No result was found.</answer>")
    script(place, ("planner", "<task>Who?</task>"), ("executor", ""), copied)
    assert main([*ASK, "--max-calls", "1", "--quiet"]) == 1
    assert capsys.readouterr().out.startswith("no answer (limit reached: 1 model call of the episode)\n")


def test_a_model_that_writes_prose_brings_a_suggestion(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prose = [("planner", f"I believe it was {n} miles to the north.") for n in range(7)]
    script(place, *prose)
    main([*ASK, "--quiet"])
    said = capsys.readouterr().err
    assert "the model wrote prose in place of an action in 6 of 7 turns: try --prompts full or a larger --model" in said
    main(ASK)  # the script has run out: a failure is not prose
    script(place, ("planner", "Let me think."), ("planner", "<answer>Kestel</answer>"))
    capsys.readouterr()
    main([*ASK, "--quiet"])
    assert "prose" not in capsys.readouterr().err


@pytest.mark.parametrize("system", ["coda", "decor", "apex", "hira", "search-r1", "react-tools"])
def test_an_endpoint_that_only_writes_prose_brings_a_suggestion(
    system: str, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from ..docs.endpoint import Reader, endpoint

    monkeypatch.setattr(Reader, "reply", lambda *_: "I believe that it was somewhere in the north.")
    asked = ["ask", "Where was the designer of the Orvane Bridge born?", "--index", "docs.sq", "--quiet"]
    with endpoint() as url:
        main([*asked, "--system", system, "--model", f"openai:my-model@{url}"])
    said = capsys.readouterr().err
    assert "the model wrote prose in place of an action" in said
    assert "try --protocol tools (if the endpoint has tool calls) or --prompts compact or a larger --model" in said


def test_tool_calls_are_suggested_for_endpoints(place: Path) -> None:
    from msgspec.structs import replace

    from subquest.assemble import AgentSpec
    from subquest.cli.ask import prose_hint
    from subquest.record import Question, Trajectory, Usage

    wrote = Trajectory("1", "planner", "", format_errors=("no action", "no action"))
    episode = Episode("e", Question("q", "Who?"), "coda", "m", (wrote,), usage=Usage(model_calls=2))
    spec = AgentSpec(model="openai:small@http://127.0.0.1:9/v1")
    assert "try --protocol tools (if the endpoint has tool calls) or --prompts full" in prose_hint(episode, spec, False)
    tools = spec.replace(engine=replace(spec.engine, protocol="tools"))
    assert "--protocol tools" not in prose_hint(episode, tools, False)
    assert "--protocol tools" not in prose_hint(episode, AgentSpec(model="embedded"), False)
    assert prose_hint(episode, AgentSpec(model="embedded"), True).endswith("turns: try a larger --model")


@pytest.mark.parametrize(
    ("system", "prompts", "supported", "hinted"),
    [("coda", "full", False, True), ("coda", "full", True, False), ("coda", "compact", False, False)],
)
def test_rag_is_suggested_where_an_agent_finds_no_support(
    system: str, prompts: str, supported: bool, hinted: bool
) -> None:

    from subquest.cli.ask import system_hint
    from subquest.record import Question, Trajectory

    roles = (Trajectory("1", "planner", ""), Trajectory("1.1", "executor", "", parent="1"))
    settings = {"prompts": prompts}
    question = Question("q", "Who?")
    episode = Episode("e", question, system, "m", roles, answer="Yes", supported=supported, settings=settings)
    assert ("--system rag" in system_hint(episode, False)) is hinted
    assert not system_hint(episode, True), "it was trained for agents"


def test_how_likely_an_answer_is_right_is_measured_on_a_run_and_said(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"id": f"q{n}", "question": f"Is {n} a number?", "answers": ["yes"]} for n in range(24)]
    (place / "dev.jsonl").write_text("\n".join(map(json.dumps, rows)))
    script(place, *[("answerer", "<answer>yes</answer>")] * 18, *[("answerer", "<answer>no</answer>")] * 6)
    model = ["--model", "scripted:script.jsonl", "--system", "direct"]
    assert main(["eval", "dev.jsonl", *model, "--out", "run"]) == 0
    assert main(["runs", "calibrate", "run"]) == 0
    assert "direct on scripted:script.jsonl: all answers right 73% (n=24)" in capsys.readouterr().out
    ask = ["ask", "Is 7 a number?", *model, "--calibration", "calibration.json"]
    script(place, *[("answerer", "<answer>yes</answer>")] * 2)
    assert main([*ask, "--quiet"]) == 0
    assert "probably right: 73% of answers like this one were right on dev questions" in capsys.readouterr().out
    assert main([*ask, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["likely"].startswith("probably right")
    assert re.fullmatch(r"dev; n=24; \d{4}-\d\d-\d\d", told["calibration"])
    assert main([*ASK, "--quiet", "--calibration", "calibration.json"]) == 1  # the script has no planner
    (place / "calibration.json").write_text("{")
    assert main(ask) == 2
    assert "calibration.json: not JSON" in capsys.readouterr().err
    (place / "few.jsonl").write_text("\n".join(map(json.dumps, rows[:3])))
    script(place, *[("answerer", "<answer>yes</answer>")] * 3)
    assert main(["eval", "few.jsonl", *model, "--out", "few"]) == 0
    assert main(["runs", "calibrate", "few", "--out", "few.json"]) == 2
    assert not (place / "few.json").exists()
    assert main(["runs", "calibrate", "run", "few", "--out", "both.json"]) == 0
    assert "(n=27)" in capsys.readouterr().out, "runs are taken together"


def test_the_judge_says_what_is_right_where_a_run_was_judged(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"id": f"q{n}", "question": f"When was number {n} found?", "answers": ["12 May 1990"]} for n in range(24)]
    (place / "dev.jsonl").write_text("\n".join(map(json.dumps, rows)))
    for words, told in (([], "answers right 4% (n=24)"), (["--judge", "rules"], "answers right 96% (n=24)")):
        script(place, *[("answerer", "<answer>May 12, 1990</answer>")] * 24)
        model = ["--model", "scripted:script.jsonl", "--system", "direct"]
        assert main(["eval", "dev.jsonl", *model, *words, "--out", f"run{len(words)}"]) == 0
        assert main(["runs", "calibrate", f"run{len(words)}"]) == 0
        assert told in capsys.readouterr().out


def test_a_calibration_beside_an_adapter_is_found_and_holds_for_no_other(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from subquest.metrics.confidence import own_calibration

    rows = [{"id": f"q{n}", "question": f"Is {n} a number?", "answers": ["yes"]} for n in range(24)]
    (place / "dev.jsonl").write_text("\n".join(map(json.dumps, rows)))
    script(place, *[("answerer", "<answer>yes</answer>")] * 24)
    assert main(["eval", "dev.jsonl", "--model", "scripted:script.jsonl", "--system", "direct", "--out", "run"]) == 0
    assert main(["runs", "calibrate", "run", "--for", "mine.gguf"]) == 2
    assert "--for mine.gguf: no such adapter or model" in capsys.readouterr().err
    adapter = place / "mine.gguf"
    adapter.write_bytes(b"GGUF one")
    assert main(["runs", "calibrate", "run", "--for", "mine.gguf"]) == 0
    assert (place / "mine.calibration.json").is_file()
    for model in ("embedded", "gguf:base.gguf", "torch:base"):
        found = own_calibration(model, str(adapter))
        assert found is not None
        assert found.measured is not None
        assert (found.measured.data, found.measured.n) == (("dev",), 24)
        assert found.find("direct", "the same weights on another engine") is not None
    assert own_calibration(f"gguf:{adapter}", None) is not None, "or of a model without an adapter"
    assert own_calibration("openai:gpt-5", str(adapter)) is None
    assert own_calibration("embedded", "none") is None
    assert own_calibration({"": "embedded"}, None) is None
    adapter.write_bytes(b"GGUF two")
    assert own_calibration("embedded", str(adapter)) is None, "it was measured with other weights"


def test_a_calibration_that_ships_is_of_the_adapter_that_ships() -> None:
    """After another adapter: measure it again (docs/evaluation.md), or remove the file."""
    from subquest.metrics.confidence import calibration_place, own_calibration
    from subquest.models import default_adapter

    adapter = default_adapter()
    if adapter is not None and calibration_place(adapter).exists():
        assert own_calibration("embedded", None) is not None


def test_an_adapter_for_an_endpoint_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """It would be ignored, and the answer taken for the adapter's."""
    for model in ("http://127.0.0.1:9/v1", "openai:big", "planner=openai:big,executor=litellm:x"):
        assert main(["ask", "Who?", "--model", model, "--adapter", "mine.gguf"]) == 2
        assert "--adapter mine.gguf: an endpoint runs the adapters" in capsys.readouterr().err
    assert main(["ask", "Who?", "--model", "embedded,planner=openai:big", "--adapter", "mine.gguf"]) == 2
    assert "an endpoint runs" not in capsys.readouterr().err, "the other role takes it"
