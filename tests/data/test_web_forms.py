"""Release forms of the sets that need the web, on small files of the same shape."""

import base64
import hashlib
import json
from pathlib import Path

import pytest

from subquest.data import read_questions
from subquest.data.formats import to_question
from subquest.data.select import select
from subquest.errors import DataError
from subquest.study import find_study


def gaia(
    name: str, *, file: str = "", tools: str = "1. Web browser\n2. Search engine", level: int = 1
) -> dict[str, object]:
    return {
        "task_id": name,
        "Question": f"What is {name}?",
        "Level": level,
        "Final answer": "7",
        "file_name": file,
        "Annotator Metadata": {"Steps": "1. Watched the video.", "Number of steps": "1", "Tools": tools},
    }


ROWS = [
    gaia("text"),
    gaia("none", tools="None", level=3),
    gaia("seen", tools="1. Web browser\n2. Image recognition tools (to identify the bird)", level=2),
    gaia("heard", tools="1. Audio capability"),
    gaia("picture", file="a.png", tools="1. Image recognition"),
    gaia("table", file="b.xlsx", tools="1. Excel"),
]


def test_gaia_is_split_as_hira_splits_it(tmp_path: Path) -> None:
    """A picture that comes with the question is a file; multimodal are questions without one."""
    path = tmp_path / "metadata.jsonl"
    path.write_text("\n".join(map(json.dumps, ROWS)))
    questions = read_questions(path)
    kinds = {kind: [q.id for q in select(questions, f"type={kind}")] for kind in ("text", "multimodal", "file")}
    assert kinds == {"text": ["text", "none"], "multimodal": ["seen", "heard"], "file": ["picture", "table"]}
    assert [q.level for q in questions] == ["1", "3", "2", "1", "1", "1"]
    assert all(q.answers == ("7",) and q.dataset == "gaia" for q in questions)


@pytest.mark.parametrize("name", ["hira-ablation", "hira-subtasks", "efficiency"])
def test_gaia_b_of_the_studies_is_every_question_without_a_file(name: str) -> None:
    """Table 1 and 2 of HiRA: 127 of 165 questions, text and multimodal ones."""
    questions = [to_question(row) for row in ROWS]
    chosen = {source.name: source.filter for source in find_study(name).sources if source.dataset == "gaia"}
    found = {source: [q.id for q in questions if all(select([q], f) for f in chosen[source])] for source in chosen}
    assert found.pop("gaia-b") == ["text", "none", "seen", "heard"]
    assert found in ({}, {"gaia-f": ["picture", "table"]})


def test_hiras_lists_say_what_their_sets_say(tmp_path: Path) -> None:
    rows = [
        {"id": 1, "Question": "Who?", "answer": "A", "Level": 2, "file_name": "x.csv"},
        {**ROWS[2], "answer": "B", "id": 4},
        {"Question": "Where?", "answer": "C", "info": {"lang": "zh", "difficulty_level": "hard"}},
        {"Question": "Why?", "answer": "D", "answer_type": "exactMatch", "category": "Math", "image": ""},
        {"Question": "When?", "answer": "E", "file_name": ""},
    ]
    rows[1].pop("Final answer")
    (tmp_path / "data.json").write_text(json.dumps(rows))
    file, seen, walker, exam, plain = read_questions(tmp_path / "data.json")
    assert (file.dataset, file.type, file.level, file.files) == ("gaia", "file", "2", ("x.csv",))
    assert (seen.dataset, seen.type, seen.answers) == ("gaia", "multimodal", ("B",))
    assert (walker.dataset, walker.meta["lang"], walker.meta["difficulty"]) == ("webwalkerqa", "zh", "hard")
    assert (exam.dataset, exam.type, exam.meta["category"]) == ("hle", "text", "Math")
    assert (plain.dataset, plain.answers, plain.files) == ("", ("E",), ())


def test_browsecomp_is_decrypted(tmp_path: Path) -> None:
    def hidden(text: str) -> str:
        key = hashlib.sha256(b"a canary").digest() * 9
        return base64.b64encode(bytes(a ^ b for a, b in zip(text.encode(), key, strict=False))).decode()

    asked = "Which painter of the northern school never signed a canvas after 1871, and why not?"
    row = {"problem": hidden(asked), "answer": hidden("Wanda Lütt"), "problem_topic": "Art", "canary": "a canary"}
    question = to_question(row)
    assert (question.question, question.answers, question.dataset) == (asked, ("Wanda Lütt",), "browsecomp")
    assert question.meta == {"topic": "Art"}
    with pytest.raises(DataError, match="cannot be decrypted"):
        to_question({**row, "problem": "not encrypted at all"})


@pytest.mark.parametrize("tools", ["[", ["a"]])
def test_metadata_of_another_kind_is_named(tools: object, tmp_path: Path) -> None:
    (tmp_path / "g.jsonl").write_text(json.dumps({**ROWS[0], "Annotator Metadata": tools}))
    with pytest.raises(DataError, match=r"g\.jsonl:1"):
        read_questions(tmp_path / "g.jsonl")
