"""Release forms of the sets that need the web, on small files of the same shape."""

import base64
import hashlib
import json
from pathlib import Path

import pytest

from subquest.data import read_questions
from subquest.data.formats import to_question
from subquest.data.question_sets import filter_questions, with_dataset
from subquest.errors import DataError
from subquest.record import Step
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


GAIA_ROWS = [
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
    path.write_text("\n".join(map(json.dumps, GAIA_ROWS)))
    questions = read_questions(path)
    kinds = {
        kind: [q.id for q in filter_questions(questions, f"type={kind}")] for kind in ("text", "multimodal", "file")
    }
    assert kinds == {"text": ["text", "none"], "multimodal": ["seen", "heard"], "file": ["picture", "table"]}
    assert [q.level for q in questions] == ["1", "3", "2", "1", "1", "1"]
    assert all(q.answers == ("7",) and q.dataset == "gaia" for q in questions)


@pytest.mark.parametrize("name", ["hira-ablation", "hira-subtasks", "efficiency"])
def test_gaia_b_of_the_studies_is_every_question_without_a_file(name: str) -> None:
    """Table 1 and 2 of HiRA: 127 of 165 questions, text and multimodal ones."""
    questions = [to_question(row) for row in GAIA_ROWS]
    chosen = {source.name: source.filter for source in find_study(name).sources.values() if source.dataset == "gaia"}
    found = {
        source: [q.id for q in questions if all(filter_questions([q], f) for f in chosen[source])] for source in chosen
    }
    assert found.pop("gaia-b") == ["text", "none", "seen", "heard"]
    assert found in ({}, {"gaia-f": ["picture", "table"]})


def test_hiras_lists_say_what_their_sets_say(tmp_path: Path) -> None:
    rows = [
        {"id": 1, "Question": "Who?", "answer": "A", "Level": 2, "file_name": "x.csv"},
        {**GAIA_ROWS[2], "answer": "B", "id": 4},
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
    (tmp_path / "g.jsonl").write_text(json.dumps({**GAIA_ROWS[0], "Annotator Metadata": tools}))
    with pytest.raises(DataError, match=r"g\.jsonl:1"):
        read_questions(tmp_path / "g.jsonl")


ROWS = {
    "flashrag": (
        {"id": "t1", "question": "Who?", "golden_answers": ["A", "B"], "metadata": {"type": "bridge"}},
        ("A", "B"),
    ),
    "verl": (
        {
            "data_source": "nq",
            "prompt": [{"role": "user", "content": "Who?"}],
            "reward_model": {"style": "rule", "ground_truth": {"target": ["A"]}},
            "extra_info": {"split": "train", "index": 3},
        },
        ("A",),
    ),
    "hotpotqa": (
        {
            "_id": "h",
            "question": "Who?",
            "answer": "A",
            "supporting_facts": [["T", 0], ["U", 1], ["T", 2]],
            "type": "bridge",
        },
        ("A",),
    ),
    "2wiki": (
        {
            "_id": "w",
            "question": "Who?",
            "answer": "A",
            "supporting_facts": [["T", 0], ["U", 1]],
            "evidences": [["T", "father", "A"]],
        },
        ("A",),
    ),
    "musique": (
        {
            "id": "2hop__1_2",
            "question": "Who?",
            "answer": "A",
            "answer_aliases": ["AA"],
            "question_decomposition": [
                {"question": "x", "answer": "B", "paragraph_support_idx": 0},
                {"question": "#1 y", "answer": "A"},
            ],
            "paragraphs": [{"idx": 0, "title": "T"}],
        },
        ("A", "AA"),
    ),
    "triviaqa": ({"QuestionId": "q", "Question": "Who?", "Answer": {"Value": "A", "Aliases": ["A", "B"]}}, ("A", "B")),
    "popqa": ({"id": 7, "question": "Who?", "possible_answers": '["A", "B"]'}, ("A", "B")),
    "gaia": ({"task_id": "g", "Question": "Who?", "Final answer": "A", "Level": 2, "file_name": "x.png"}, ("A",)),
    "webwalkerqa": (
        {"question": "Who?", "answer": "A", "root_url": "u", "info": {"difficulty_level": "easy", "lang": "zh"}},
        ("A",),
    ),
    "hle": ({"id": "e", "question": "Who?", "answer": "A", "answer_type": "exactMatch", "category": "Math"}, ("A",)),
    "frames": ({"Prompt": "Who?", "Answer": "A", "wiki_links": "['https://x/wiki/Big_Ben']"}, ("A",)),
    "simpleqa": ({"metadata": "{'answer_type': 'Person'}", "problem": "Who?", "answer": "A"}, ("A",)),
    "bamboogle": ({"Question": "Who?", "Answer": "A"}, ("A",)),
    "hira": ({"Question": "Who?", "answer": "A", "file_name": ""}, ("A",)),
    "tongyi": ({"question": "Who?", "answer": "A"}, ("A",)),
}


@pytest.mark.parametrize("form", ROWS)
def test_each_form(form: str) -> None:
    row, answers = ROWS[form]
    question = to_question(row)
    assert (question.question, question.answers) == ("Who?", answers)
    assert question.id


def test_details_of_forms() -> None:
    assert to_question(ROWS["verl"][0]).id == "nq/train/3"
    assert to_question(ROWS["hotpotqa"][0]).supporting_titles == ("T", "U")
    assert to_question(ROWS["2wiki"][0]).decomposition == (Step("T >> father", "A"),)
    musique = to_question(ROWS["musique"][0])
    assert (musique.hops, musique.type, musique.supporting_titles) == (2, "2hop", ("T",))
    gaia = to_question(ROWS["gaia"][0])
    assert (gaia.level, gaia.type, gaia.files) == ("2", "file", ("x.png",))
    assert to_question(ROWS["webwalkerqa"][0]).meta["lang"] == "zh"
    assert to_question(ROWS["frames"][0]).supporting_titles == ("Big Ben",)


def test_ids_that_are_numbers_and_lists_of_one() -> None:
    row = {"question": "Where?", "answers": ["Kestel"], "supporting_ids": [7, "8"], "supporting_titles": "Mila Torrun"}
    found = to_question(row)
    assert (found.supporting_ids, found.supporting_titles) == (("7", "8"), ("Mila Torrun",))
    for wrong in ([None], [{"title": "x"}], {"a": 1}, 5, [True]):
        with pytest.raises(DataError, match="'supporting_titles' must be a list of texts"):
            to_question({**row, "supporting_titles": wrong})


def test_files_of_several_sets_as_search_r1_has_them() -> None:
    rows = [
        {
            "id": "test_0",
            "question": f"{name}?",
            "golden_answers": ["A"],
            "data_source": name,
            "prompt": [{"role": "user", "content": "Answer the given question."}],
            "reward_model": {"style": "rule", "ground_truth": {"target": ["A"]}},
            "extra_info": {"index": 0, "split": "test"},
            "metadata": None,
        }
        for name in ("nq", "popqa")
    ]
    questions = [to_question(row) for row in rows]
    assert [(q.id, q.dataset) for q in questions] == [("nq/test_0", "nq"), ("popqa/test_0", "popqa")]
    assert [(q.dataset, q.meta["data_source"]) for q in with_dataset("merged", questions)] == [
        ("merged", "nq"),
        ("merged", "popqa"),
    ]
    assert [(q.dataset, q.meta) for q in with_dataset("one", questions[:1])] == [("one", {})]


def test_answers_in_the_objects_of_the_hub() -> None:
    squad = {"id": "s", "question": "Who?", "answers": {"text": ["A", "B"], "answer_start": [1, 2]}}
    assert to_question(squad).answers == ("A", "B")
    trivia = {"question": "Who?", "question_id": "t", "answer": {"value": "A", "aliases": ["A", "Aa"], "type": "x"}}
    assert to_question(trivia).answers == ("A", "Aa")
    for wrong in ({"start": 1}, [["A"]], [{"text": "A"}]):
        with pytest.raises(DataError, match="text"):
            to_question({"question": "Who?", "answers": wrong})


def test_titles_of_frames_are_those_of_the_articles() -> None:
    links = "['https://en.wikipedia.org/wiki/Ir%C3%A8ne_Joliot-Curie#Life', 'https://en.wikipedia.org/wiki/AC/DC']"
    question = to_question({"Prompt": "Who?", "Answer": "A", "wiki_links": links})
    assert question.supporting_titles == ("Ir\u00e8ne Joliot-Curie", "AC/DC")


def test_2wiki_as_lists_as_objects_and_as_texts() -> None:
    facts, triples = [["Mara", 0], ["Quill", 1]], [["Mara", "mother", "Quill"]]
    forms: list[tuple[object, object]] = [
        (facts, triples),
        (
            [{"title": title, "sent_id": at} for title, at in facts],
            [dict(zip(("fact", "relation", "entity"), triple, strict=True)) for triple in triples],
        ),
        ({"title": ["Mara", "Quill"], "sent_id": [0, 1]}, triples),
        (json.dumps(facts), json.dumps(triples)),
    ]
    for supporting, evidences in forms:
        row = {"question": "a?", "answer": "b", "supporting_facts": supporting, "evidences": evidences}
        question = to_question(row)
        assert question.supporting_titles == ("Mara", "Quill")
        assert question.decomposition == (Step("Mara >> mother", "Quill"),)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"question": "a?", "answers": ["b"], "hops": "three"}, "'hops' must be a whole number"),
        ({"question": "a?", "answers": ["b"], "meta": "note"}, "'meta' must be an object"),
        ({"question": "a?", "answers": ["b"], "decomposition": [["x"]]}, "a step of 'decomposition' must be"),
    ],
)
def test_fields_that_cannot_be_are_refused(row: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        to_question(row)


def test_questions_with_a_plan_need_no_answers() -> None:
    """As the unanswerable questions of a world are stored."""
    question = to_question({"id": "q", "question": "Who?", "decomposition": [{"question": "Who is it?"}]})
    assert (question.answers, question.decomposition) == ((), (Step("Who is it?"),))
