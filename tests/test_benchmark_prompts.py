"""`subquest bench prompts`: its figures, computed by hand for a scripted model over an index of four documents."""

import json
from pathlib import Path

import pytest

pytest.importorskip("numpy", reason="the index needs numpy")

from subquest.cli import main
from subquest.record import Document
from subquest.retrieval import Index

DOCUMENTS = [
    Document("d1", "Orvane Bridge", "The Orvane Bridge opened in 1931. Its designer: Mila Torrun."),
    Document("d2", "Mila Torrun", "Mila Torrun, engineer; birthplace Kestel."),
    Document("d3", "Tarn Lighthouse", "The Tarn Lighthouse has a red lantern."),
    Document("d4", "Lake Fenn", "Lake Fenn is 12 km long."),
]
QUESTIONS = [
    {
        "id": "q1",
        "question": "Where was the designer of the Orvane Bridge born?",
        "answers": ["Kestel"],
        "supporting_ids": ["d1", "d2"],
    },
    {"id": "q2", "question": "Designer of the Orvane Bridge?", "answers": ["Mila Torrun"], "supporting_ids": ["d1"]},
]
REPLIES = {
    "answerer": ["<answer>Kestel</answer>", "Mila"],
    "planner": [
        "Hm.",
        "<task>Who designed the Orvane Bridge?</task>",
        "<task>What is the birthplace of Mila Torrun?</task>",
        "<answer>Kestel</answer>",
        *("Hm " * n for n in range(1, 7)),
        "<answer>Mila Torrun</answer>",
    ],
    "executor": [
        "<search>Orvane Bridge designer</search>",
        "<result>Mila Torrun</result>",
        "<search>Mila Torrun birthplace</search>",
        "<result>Kestel</result>",
    ],
}


@pytest.fixture
def options(tmp_path: Path) -> list[str]:
    files = {name: tmp_path / name for name in ("index.sq", "questions.jsonl", "replies.jsonl")}
    Index.build(files["index.sq"], DOCUMENTS).close()
    files["questions.jsonl"].write_text("".join(json.dumps(question) + "\n" for question in QUESTIONS))
    replies = [{"role": role, "reply": reply} for role, few in REPLIES.items() for reply in few]
    files["replies.jsonl"].write_text("".join(json.dumps(reply) + "\n" for reply in replies))
    sources = ["--index", str(files["index.sq"]), "--questions", str(files["questions.jsonl"])]
    return [*sources, "--model", f"scripted:{files['replies.jsonl']}", "--concurrency", "1", "--prompts", "full"]


def test_figures(options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "episodes.jsonl"
    assert main(["bench", "prompts", "--systems", "rag,coda", "--out", str(out), *options, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    rag, coda = found["figures"]["index/rag"], found["figures"]["index/coda"]
    never = {"no_answer": 0, "failed": 0, "n": 2}
    # RAG: both questions bring d1, of two and of one gold passages; the second answer has no tag and half of the words
    expected = {"support_recall": (1 / 2 + 1) / 2, "format_errors": 1 / 2, "em": 1 / 2, "f1": (1 + 2 / 3) / 2}
    expected |= {"searches": 1, "tasks": 0, "turns": 1, "forced": 0, **never}
    assert {name: rag[name] for name in expected} == pytest.approx(expected)
    # CoDA: eight turns with one error; then six turns without an action, and one that is forced
    expected = {"support_recall": (1 + 0) / 2, "format_errors": (1 + 6) / (8 + 7), "em": 1, "f1": 1}
    expected |= {"searches": 1, "tasks": 1, "turns": (8 + 7) / 2, "forced": 1 / 2, **never}
    assert {name: coda[name] for name in expected} == pytest.approx(expected)
    assert found["ratios"]["index/coda: support recall over rag"] == pytest.approx(0.5 / 0.75)
    kept = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(episode["label"], episode["answer"], episode["stop"]) for episode in kept] == [
        ("index/rag", "Kestel", "answered"),
        ("index/rag", "Mila", "answered"),
        ("index/coda", "Kestel", "answered"),
        ("index/coda", "Mila Torrun", "forced"),
    ]


def test_a_turn_with_two_errors_is_one_turn_with_an_error(
    options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    replies = ["<refine>It goes on and on", "<answer>Kestel</answer>"]  # not closed, and no action
    (tmp_path / "replies.jsonl").write_text("".join(json.dumps({"role": "agent", "reply": r}) + "\n" for r in replies))
    out = tmp_path / "episodes.jsonl"
    given = ["--systems", "autorefine", "--limit", "1", "--out", str(out)]
    assert main(["bench", "prompts", *options, *given, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["figures"]["index/autorefine"]["format_errors"] == 1 / 2
    (context,) = json.loads(out.read_text())["contexts"]
    assert len(context["errors"]) == 2


def test_rows_of_several_sets_of_prompts_are_told_apart(
    options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = tmp_path / "mine" / "rag"
    own.mkdir(parents=True)
    (own / "answerer.md").write_text("My own words.\n--- user\n$documents\n$question\n")
    given = ["--limit", "1", "--systems", "rag", "--prompts", str(own.parent)]
    assert main(["bench", "prompts", *options, *given, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["figures"]
    assert {label: row["em"] for label, row in rows.items()} == {"index/full/rag": 1, f"index/{own.parent}/rag": 0}


def test_a_variant_of_a_system(options: list[str], tmp_path: Path) -> None:
    out = tmp_path / "episodes.jsonl"
    given = ["--systems", "coda", "--limit", "1", "--no-refine", "--out", str(out)]
    for k in (1, 3):
        assert main(["bench", "prompts", *options, *given, "--set", f"k={k}"]) == 0
    searched = [json.loads(line)["contexts"][2]["text"][1] for line in out.read_text().splitlines()]
    assert [text.count("(Title: ") for text in searched] == [1, 2], "as many as the search finds, and no more than k"


def test_questions_need_something_to_search(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "prompts", *options[2:]]) == 2
    assert "give --data FOLDER, or --folder DOCS" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["--systems", "rag,raag"], "there is no system 'raag'"),
        (["--prompts", "nowhere"], "no folder 'nowhere'"),
        (["--no-refine"], "system 'rag': unknown key 'refine'"),
        (["--set", "k"], "--set 'k': write KEY=VALUE"),
        (["--limit", "0"], "a whole number from 1 on, not '0'"),
        (["--limit", "-3"], "a whole number from 1 on, not '-3'"),
    ],
)
def test_mistakes_are_told_before_a_question_is_asked(
    given: list[str], says: str, options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "episodes.jsonl"
    assert main(["bench", "prompts", "--systems", "rag", "--out", str(out), *options, *given]) == 2
    assert says in capsys.readouterr().err
    assert not out.exists()
