"""`subquest eval`: the table, resuming, filters, and bad input."""

import json
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from subquest import Index
from subquest.cli import main
from subquest.evaluate.report import load, page
from subquest.judge import AnswerCase, ModelJudge, Verdict
from subquest.record import Document
from subquest.runs import RunStore, run_path, writer


@pytest.fixture
def toy(place: Path) -> Path:
    rows = [
        {
            "id": f"q{i}",
            "question": f"Which city {i}?",
            "answers": ["Kestel" if i < 3 else "Other"],
            "hops": 1 + i % 3,
            "type": "bridge",
        }
        for i in range(6)
    ]
    (place / "toy.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (place / "answers.jsonl").write_text(
        "\n".join(json.dumps({"role": "planner", "reply": "<answer>Kestel</answer>"}) for _ in range(6))
    )
    return place


EVAL = ["eval", "toy.jsonl", "--model", "scripted:answers.jsonl", "--index", "docs.sq", "--out", "run", "--json"]


def test_table_and_resume(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*EVAL, "--limit", "4"]) == 0
    cell = json.loads(capsys.readouterr().out)["toy"]["coda"]
    assert (cell["n"], cell["em"]) == (4, 0.75)
    assert main(EVAL) == 0
    out, err = capsys.readouterr()
    cell = json.loads(out)["toy"]["coda"]
    assert (cell["n"], cell["em"], cell["f1"], cell["cem"]) == (6, 0.5, 0.5, 0.5)
    assert "4 of 6 are done already" in err
    assert " of 2 new  " in err


def test_the_last_line_of_progress_is_printed_once(
    toy: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("subquest.cli.progress._PLAIN", 0.0)
    assert main([*EVAL, "--limit", "3"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().err.splitlines() if "EM" in line] == ["1/3", "2/3", "3/3"]


@pytest.mark.parametrize(
    ("seconds", "speed"), [(0.5, "4.0 questions/s  0:00 left"), (60.0, "30.0 s/question  0:30 left")]
)
def test_progress_says_how_long_a_question_takes_where_that_is_long(
    toy: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, seconds: float, speed: str
) -> None:
    monkeypatch.setattr("subquest.cli.progress._PLAIN", 0.0)
    monkeypatch.setattr("subquest.cli.progress._StatusLine.seconds", seconds)
    assert main([*EVAL, "--limit", "3"]) == 0
    (second,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("2/3")]
    assert speed in second


def test_what_was_not_set_is_not_listed(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*EVAL, "--limit", "1", "--max-turns", "7"]) == 0
    capsys.readouterr()
    assert main(["runs", "info", EVAL[EVAL.index("--out") + 1]]) == 0
    out = capsys.readouterr().out
    assert "limits.turns = 7" in out
    assert "null" not in out


def test_only_many_answers_are_written_by_a_process_of_their_own(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Path] = []

    class Counted(writer.ProcessTransactions):
        def __init__(self, path: Path) -> None:
            started.append(path)
            super().__init__(path)

    monkeypatch.setattr(writer, "ProcessTransactions", Counted)
    assert main([*EVAL, "--limit", "1"]) == 0
    assert started == []
    monkeypatch.setattr("subquest.cli.evaluation.MANY_ANSWERS", 6)
    assert main(EVAL) == 0
    assert started == [run_path(Path("run"))]
    with RunStore.open("run") as run:
        assert run.counts()["episodes"] == 6


def test_a_run_is_resumed_with_the_same_tools(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = toy / "subquest.toml"
    before = settings.read_text() if settings.exists() else ""
    settings.write_text(before + '\n[tools]\negress = "private"\ncode_fetches = 3\n')
    assert main([*EVAL, "--limit", "2"]) == 0
    assert main([*EVAL, "--limit", "3"]) == 0
    capsys.readouterr()
    assert main([*EVAL, "--egress", "public"]) == 2
    told = capsys.readouterr().err
    assert "was begun with tools" in told
    assert '"egress": "private"' in told
    assert '"egress": "public"' in told
    settings.write_text(before)
    assert main(EVAL) == 2
    with RunStore.open("run") as run:
        assert run.settings["tools"] == {"egress": "private", "code_fetches": 3}
        assert run.counts()["episodes"] == 3


def test_another_adapter_in_the_same_place_is_another_model(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = [*EVAL, "--adapter", "mine.gguf"]
    (toy / "mine.gguf").write_bytes(b"weights")
    assert main([*command, "--limit", "2"]) == 0
    assert main([*command, "--limit", "3"]) == 0
    (toy / "mine.gguf").write_bytes(b"weights trained for longer")
    capsys.readouterr()
    assert main(command) == 2
    assert "was begun with adapter_content" in capsys.readouterr().err


def test_another_dialect_in_the_same_folder_is_another_system(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (toy / "mine").mkdir()
    (toy / "mine" / "dialect.toml").write_text("turns = 2\n")
    (toy / "mine" / "agent.md").write_text("Answer.\n--- user\n$question")
    (toy / "agent.jsonl").write_text('{"role": "agent", "reply": "<answer>1901</answer>"}\n')
    command = [*EVAL, "--system", "search-agent", "--set", "dialect=mine", "--model", "scripted:agent.jsonl"]
    assert main([*command, "--limit", "2"]) == 0
    assert main([*command, "--limit", "3"]) == 0
    for name, text in (("dialect.toml", "turns = 3\n"), ("agent.md", "Reply.\n--- user\n$question")):
        before = (toy / "mine" / name).read_text()
        (toy / "mine" / name).write_text(text)
        capsys.readouterr()
        assert main(command) == 2
        assert "was begun with dialect_content" in capsys.readouterr().err
        (toy / "mine" / name).write_text(before)
    assert main(command) == 0


def test_a_run_that_does_not_say_its_tools_goes_on(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (toy / "mine.gguf").write_bytes(b"weights")
    assert main([*EVAL, "--adapter", "mine.gguf", "--limit", "2"]) == 0
    with RunStore.open("run") as run:
        old = {key: value for key, value in run.settings.items() if key not in ("tools", "prompts", "adapter_content")}
    with closing(sqlite3.connect("run")) as file, file:
        file.execute("UPDATE meta SET value = ? WHERE key = 'settings'", [json.dumps(old)])
    assert main([*EVAL, "--adapter", "mine.gguf", "--egress", "public"]) == 0
    capsys.readouterr()


def test_a_run_that_was_salvaged_without_scores_is_scored_again(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(EVAL) == 0
    whole = json.loads(capsys.readouterr().out)
    with closing(sqlite3.connect("run")) as file, file:
        file.execute("DELETE FROM score WHERE episode IN (SELECT id FROM episode LIMIT 4)")
    assert main(EVAL) == 0
    out, err = capsys.readouterr()
    assert "4 answers of the run had no scores: scored now" in err
    assert json.loads(out) == whole
    with closing(sqlite3.connect("run")) as file, file:
        file.execute("DELETE FROM score")
    assert main(EVAL[:-1]) == 0  # for people, too
    assert "0.500" in capsys.readouterr().out


def test_sets_of_one_name_have_a_row_each(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (toy / "b").mkdir()
    (toy / "b" / "toy.jsonl").write_text('{"id": "q0", "question": "Which town?", "answers": ["Kestel"]}')
    assert main([EVAL[0], "b/toy.jsonl", *EVAL[1:]]) == 0
    cells = json.loads(capsys.readouterr().out)
    assert [systems["coda"]["n"] for systems in cells.values()] == [1, 6]
    assert next(iter(cells)) == "b/toy"
    name = "questions_of_a_very_long_name"
    (toy / "toy.jsonl").rename(toy / f"{name}.jsonl")
    assert main(["eval", f"{name}.jsonl", *EVAL[2:-2], "other"]) == 0
    assert any(line.split()[:2] == [name, "coda"] for line in capsys.readouterr().out.splitlines())


def test_what_plan_scores_need_is_looked_for_first(
    toy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert main([*EVAL, "--plan-score"]) == 2
    assert "subquest[train]" in capsys.readouterr().err
    monkeypatch.undo()
    monkeypatch.chdir(toy)
    monkeypatch.setenv("SUBQUEST_MINILM", str(toy / "nowhere"))
    assert main([*EVAL, "--plan-score"]) == 2
    assert "SUBQUEST_MINILM" in capsys.readouterr().err
    assert not (toy / "run").exists()


def test_the_folder_of_a_run_is_made(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = [*EVAL[:-2], "new/runs/first", "--json"]
    assert main([*command, "--model", "scripted:nowhere.jsonl"]) == 2
    assert not (toy / "new").exists()
    assert main([*command, "--limit", "1"]) == 0
    assert (toy / "new" / "runs" / "first").is_file()


def test_other_settings_cannot_resume_a_run(
    toy: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main([*EVAL, "--limit", "1"]) == 0
    with monkeypatch.context() as patched:
        patched.setenv("SUBQUEST_SEARCH_TOKENS", "50")
        assert main(EVAL) == 2
        assert "was begun with search" in capsys.readouterr().err
    assert main([*EVAL, "--temperature", "0.5"]) == 2
    assert "was begun with sampling" in capsys.readouterr().err
    for option in (["--abstain"], ["--votes", "3"]):
        assert main([*EVAL, *option]) == 2
        assert f"{option[0].strip('-')}" in capsys.readouterr().err


def test_filters_and_samples(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*EVAL, "--filter", "hops>=2", "--filter", "type=bridge"]) == 0
    assert json.loads(capsys.readouterr().out)["toy"]["coda"]["n"] == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--filter", "hops"], "FIELD OPERATOR VALUE"),
        (["--filter", "hops>x"], "is a number"),
        (["--filter", "hops>9"], "no question passes"),
        (["--filter", "hops>>3"], "there is no operator '>>'; there are >=, "),
        (["--filter", "type=>bridge"], "there is no operator '=>'"),
        (["--filter", "hop>=3"], "no question has a field 'hop'; did you mean 'hops'?"),
        (["--votes", "0"], "votes must be from 1 to 1,000, not 0"),
        (["--timeout", "0"], "--timeout must be above 0"),
        (["--timeout", "nan"], "--timeout must be above 0"),
        (["--concurrency", "0"], "at least 1"),
    ],
)
def test_wrong_usage(toy: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    assert main([*EVAL, *arguments]) == 2
    assert message in capsys.readouterr().err


def test_questions_without_gold_answers_are_refused(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (toy / "open.jsonl").write_text('{"id": "1", "question": "Which?", "answers": []}')
    assert main(["eval", "open.jsonl", *EVAL[2:]]) == 2
    assert "no gold answer" in capsys.readouterr().err
    assert not (toy / "run").exists()


def test_judge(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (toy / "judge.jsonl").write_text("\n".join(['"yes"'] * 3 + ['"no"']))
    judged = [*EVAL, "--limit", "4", "--judge", "scripted:judge.jsonl"]
    assert main(judged) == 0
    out, err = capsys.readouterr()
    cell = json.loads(out)["toy"]["coda"]
    assert (cell["judge"], cell["judge_undecided"]) == (0.75, 0.0)
    assert "judge: 4 model calls" in err
    assert main(judged) == 0
    assert "judge: 0 model calls" in capsys.readouterr().err
    assert main([*judged, "--judge-instruction", "core"]) == 2
    assert "was begun with judge" in capsys.readouterr().err


def test_a_changed_index_cannot_resume_a_run(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*EVAL, "--limit", "1"]) == 0
    with Index.open(toy / "docs.sq") as index:
        index.add([Document("new", "New", "Something new.")])
    assert main([*EVAL, "--limit", "1"]) == 2
    assert "was begun with index_content" in capsys.readouterr().err


def test_a_world_brings_its_own_index(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world = toy / "world"
    world.mkdir()
    (world / "questions.jsonl").write_text((toy / "toy.jsonl").read_text())
    (world / "corpus.jsonl").write_text('{"id": "1", "title": "Kestel", "text": "Kestel is a city."}\n')
    arguments = ["eval", "world", "--model", "scripted:answers.jsonl", "--out", "run"]
    assert main(arguments) == 0
    assert "indexing " in capsys.readouterr().err
    assert main(arguments) == 0
    out, err = capsys.readouterr()
    assert "making" not in err
    assert out.splitlines()[1].split()[:4] == ["world", "coda", "6", "0.500"]


RELEASES = {
    "gaia": [
        {
            "task_id": f"g{i}",
            "Question": f"Which {i}?",
            "Final answer": "Kestel",
            "Level": 1 + i % 3,
            "file_name": name,
            "Annotator Metadata": {"Tools": tools},
        }
        for i, (name, tools) in enumerate([("", ""), ("", "1. Video"), ("table.xlsx", ""), ("", "1. Search engine")])
    ],
    "webwalkerqa": [
        {
            "question": f"Which {i}?",
            "answer": "Kestel",
            "root_url": "http://kestel.example",
            "info": {"difficulty_level": ["easy", "hard"][i % 2], "lang": ["en", "zh"][i // 2]},
        }
        for i in range(4)
    ],
    "hle": [
        {"id": f"h{i}", "question": f"Which {i}?", "answer": "Kestel", "answer_type": "exactMatch", "category": kind}
        for i, kind in enumerate(["Math", "Physics", "Math", "Chemistry"])
    ],
}


@pytest.mark.parametrize(
    ("name", "file", "groups"),
    [
        (
            "gaia",
            "gaia_validation",
            {"level": {"1": 2, "2": 1, "3": 1}, "type": {"text": 2, "multimodal": 1, "file": 1}},
        ),
        ("webwalkerqa", "webwalkerqa_test", {"difficulty": {"easy": 2, "hard": 2}, "lang": {"en": 2, "zh": 2}}),
        ("hle", "hle_test", {"category": {"Chemistry": 1, "Math": 2, "Physics": 1}}),
    ],
)
def test_sets_are_broken_down_as_the_papers_report_them(
    toy: Path, monkeypatch: pytest.MonkeyPatch, name: str, file: str, groups: dict[str, dict[str, int]]
) -> None:
    monkeypatch.setenv("SUBQUEST_DATA", str(toy))
    (toy / f"{file}.jsonl").write_text("\n".join(map(json.dumps, RELEASES[name])))
    assert main(["eval", name, *EVAL[2:]]) == 0
    found = load([toy / "run"]).breakdowns(name)
    assert {field: {value: len(rows) for value, rows in found[field].items()} for field in groups} == groups
    assert all(f"by {field}" in page(load([toy / "run"]), traces=0) for field in groups)


def test_the_papers_samples_do_not_depend_on_the_seed(
    toy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SUBQUEST_DATA", str(toy))
    rows = [{"metadata": "{}", "problem": f"Which {i}?", "answer": "Kestel"} for i in range(230)]
    (toy / "simpleqa_test.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (toy / "answers.jsonl").write_text("\n".join(['{"role": "planner", "reply": "<answer>Kestel</answer>"}'] * 400))
    chosen = []
    for seed in ("0", "1"):
        arguments = ["eval", "simpleqa", *EVAL[2:6], "--out", f"run{seed}", "--sample", "paper", "--seed", seed]
        assert main(arguments) == 0
        with RunStore.open(toy / f"run{seed}") as run:
            chosen.append({q.question for q in run.questions()})
    assert len(chosen[0]) == 200
    assert chosen[0] == chosen[1]


@pytest.mark.parametrize(
    ("judge", "message"),
    [
        ("embeded", "did you mean embedded?"),
        ("gguf:nowhere.gguf", "nowhere.gguf: no such model file"),
        ("scripted:nowhere.jsonl", "nowhere.jsonl"),
        ("scripted:answers.jsonl,planner=scripted:answers.jsonl", "a judge is one model"),
    ],
)
def test_a_judge_that_there_is_not_costs_no_run(
    judge: str, message: str, toy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*EVAL, "--judge", judge]) == 2
    assert message in capsys.readouterr().err
    assert not list(toy.glob("run*"))
    assert main([*EVAL, "--judge", "rules"]) == 0


def test_no_system_at_all(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*EVAL, "--system", ","]) == 2
    assert "--system names no system" in capsys.readouterr().err
    assert not list(toy.glob("run*"))


def test_a_sample_that_is_no_number(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*EVAL, "--sample", "many"]) == 2
    assert "a number or 'paper', not 'many'" in capsys.readouterr().err


def test_a_run_that_is_named_twice_counts_once(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(EVAL) == 0
    capsys.readouterr()
    assert main(["report", "run", "./run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["toy"]["coda"]["n"] == 6


def test_a_world_made_anew_is_not_searched_in_its_old_index(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make = ["world", "make", "--articles", "160", "--questions", "4", "--hops", "2", "--out", "w"]
    look = ["eval", "w", "--model", "scripted:answers.jsonl", "--limit", "1", "--out"]
    assert main(make) == 0
    assert main([*look, "a"]) == 0
    assert main([*look, "b"]) == 0
    capsys.readouterr()
    assert main([*make, "--noise", "0"]) == 0
    assert "w: the world that was there is replaced" in capsys.readouterr().err
    assert main([*look, "c"]) == 2
    assert "is not of w/corpus.jsonl as it is now" in capsys.readouterr().err
    assert main([*look, "d", "--index", "docs.sq"]) == 0


def test_judging_no_episode(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*EVAL, "--limit", "1"]) == 0
    assert main(["judge", "answers", "run", "--model", "rules", "--limit", "0"]) == 2
    assert "--limit must be at least 1" in capsys.readouterr().err


def test_why_questions_failed_is_said(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["eval", "toy.jsonl", "--system", "direct", "--model", "openai:m@http://127.0.0.1:9/v1", "--out", "run"]
    assert main([*command, "--limit", "2", "--timeout", "0.2", "--json"]) == 1
    out, err = capsys.readouterr()
    assert json.loads(out)["toy"]["direct"]["failed"] == 1.0
    first, last = (
        "the first failure: no answer within 0.2 seconds\n",
        "2 failed: no answer within 0.2 seconds (2 of them)",
    )
    assert -1 < err.find(first) < err.find(f"{last}; run again to try once more")


def test_answers_without_the_search_that_they_needed_are_told(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (toy / "rag.jsonl").write_text("\n".join(['"<answer>Kestel</answer>"'] * 6))
    assert main(["eval", "toy.jsonl", "--system", "rag", "--model", "scripted:rag.jsonl", "--out", "run"]) == 0
    assert "6 of 6 answered despite failures (search: " in capsys.readouterr().err


def test_a_question_that_no_system_takes_is_named_before_the_first(
    toy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (toy / "toy.jsonl").open("a") as file:
        file.write("\n" + json.dumps({"id": "long", "question": "Which city? " * 4000, "answers": ["Kestel"]}))
    assert main(EVAL) == 2
    assert "toy.jsonl: question 'long': the question has 47,999 characters" in capsys.readouterr().err
    assert not (toy / "run").exists()
    assert main([*EVAL, "--filter", "id!=long"]) == 0


def test_attached_files_that_are_not_there_are_told(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = {"id": "1", "question": "What is in it?", "answers": ["Kestel"], "files": ["gone.pdf"]}
    (toy / "files.jsonl").write_text(json.dumps(row))
    (toy / "one.jsonl").write_text(json.dumps("\\boxed{Kestel}"))
    command = ["eval", "files.jsonl", "--system", "react-tools", "--model", "scripted:one.jsonl", "--out", "run"]
    assert main([*command, "--index", "docs.sq"]) == 0
    told = "1 of 1 answered despite failures (file: the attached file gone.pdf does not exist)"
    assert told in capsys.readouterr().err


def test_webwalkerqa_is_judged_by_its_own_instruction(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The judge here reads the instruction: its first words are those of `core` for this set alone."""
    asked: list[str] = []
    judge_answers = ModelJudge.judge_answers

    async def noted(self: ModelJudge, cases: list[AnswerCase]) -> list[Verdict]:
        asked.extend(case.instruction for case in cases)
        return await judge_answers(self, cases)

    monkeypatch.setattr(ModelJudge, "judge_answers", noted)
    monkeypatch.setenv("SUBQUEST_DATA", str(toy))
    (toy / "webwalkerqa_test.jsonl").write_text("\n".join(map(json.dumps, RELEASES["webwalkerqa"])))
    (toy / "answers.jsonl").write_text("\n".join(['{"role": "planner", "reply": "<answer>Kestel</answer>"}'] * 20))
    (toy / "judge.jsonl").write_text("\n".join(['"yes"'] * 20))
    arguments = ["eval", "webwalkerqa", "toy.jsonl", *EVAL[2:6], "--judge", "scripted:judge.jsonl"]
    assert main([*arguments, "--out", "by-set"]) == 0
    assert sorted(asked) == ["", "", "", "", "", "", "core", "core", "core", "core"]
    asked.clear()
    assert main([*arguments, "--out", "named", "--judge-instruction", "decor"]) == 0
    assert set(asked) == {"decor"}
    asked.clear()
    with RunStore.open(toy / "by-set", write=True) as run:
        settings = {**run.settings, "judge": {"model": "scripted:judge.jsonl", "instruction": "equivalence"}}
    with closing(sqlite3.connect(run_path(toy / "by-set"))) as db, db:
        db.execute("DELETE FROM score WHERE metric = 'judge'")
        db.execute("UPDATE meta SET value = ? WHERE key = 'settings'", (json.dumps(settings),))
    assert main([*arguments, "--out", "by-set"]) == 0
    assert set(asked) == {"equivalence"}, "a run from before sets had instructions of their own goes on as it began"


def test_results_by_type_and_how_often_unknown_is_said(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = [("Kestel", "single"), ("Kestel", "bridge"), ("unknown", "not answerable"), ("unknown", "not answerable")]
    rows = [
        {"id": f"u{n}", "question": f"Which town {n}?", "answers": [answer], "type": kind}
        for n, (answer, kind) in enumerate(asked)
    ]
    replies = ["Kestel", "unknown", "unknown", "Kestel"]
    (toy / "mixed.jsonl").write_text("\n".join(map(json.dumps, rows)))
    told = [json.dumps({"role": "planner", "reply": f"<answer>{reply}</answer>"}) for reply in replies]
    (toy / "mixed-answers.jsonl").write_text("\n".join(told))
    command = ["eval", "mixed.jsonl", "--model", "scripted:mixed-answers.jsonl", "--index", "docs.sq", "--out", "mixed"]
    command += ["--by", "type", "--judge", "rules", "--abstain", "--concurrency", "1"]
    assert main([*command, "--json"]) == 0
    cell = json.loads(capsys.readouterr().out)["mixed"]["coda"]
    assert (cell["unknown_answerable"], cell["unknown_unanswerable"]) == (0.5, 0.5)
    assert {kind: (part["n"], part["judge"]) for kind, part in cell["by"].items()} == {
        "bridge": (1, 0.0),
        "not answerable": (2, 0.5),
        "single": (1, 1.0),
    }
    assert "unknown_unanswerable" not in cell["by"]["single"]
    assert main(command) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines[2:]] == ["bridge", "not", "single"]
    assert lines[0].split()[-4:] == ["unknown", "wrongly", "forced", "failed"]
    assert main([*command, "--by", "level"]) == 2
    assert "--by level: no question says its level; they have type" in capsys.readouterr().err
