"""The forms in which question sets are published, each as a function from one row to a Question.

A row's form is recognised by its field names, so files need no label. Fields that have no place in a Question are kept
in its `meta`.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from ..errors import DataError
from ..record import Question, Step
from . import web_forms
from .fields import Row, answers_of, as_json, hops_of, id_of, loaded, parts_of, steps_of, text_in, texts_of, word_in


class Form(NamedTuple):
    """A published form: the fields that give it away, and how to read a row."""

    name: str
    fields: frozenset[str]
    read: Callable[[Row], Question]


def to_question(row: Row) -> Question:
    """The question in a row of any known form. Raises DataError saying what is missing."""
    if not isinstance(row, Mapping):
        raise DataError(f"expected an object, got {type(row).__name__}")
    row = as_json(row)
    for form in FORMS:
        if form.fields <= row.keys():
            question = form.read(row)
            if not question.question.strip():
                raise DataError("the question is empty")
            return question
    raise DataError(
        f"no known form has the fields {', '.join(sorted(map(str, row))) or '(none)'}; "
        "at least 'question' and 'answers' (a list) or 'answer' are needed"
    )


_KNOWN = frozenset(
    {
        "id", "dataset", "split", "question", "answers", "hops", "type", "supporting_titles", "supporting_ids",
        "context_ids", "decomposition", "level", "files", "meta",
    }
)  # fmt: skip


def _ours(row: Row) -> Question:
    given = row.get("meta") or {}
    if not isinstance(given, Mapping):
        raise DataError(f"'meta' must be an object, not {given!r:.60}")
    meta = {k: v for k, v in row.items() if k not in _KNOWN and v is not None}
    return _with_our_fields(row, id_of(row.get("id"), row["question"]), row["answers"], {**given, **meta})


def _with_our_fields(row: Row, identifier: str, answers: Any, meta: Row) -> Question:
    return Question(
        id=identifier,
        question=text_in(row, "question"),
        answers=answers_of(answers),
        dataset=word_in(row, "dataset"),
        split=word_in(row, "split"),
        hops=hops_of(row.get("hops")),
        type=word_in(row, "type"),
        supporting_titles=texts_of(row.get("supporting_titles"), "supporting_titles"),
        supporting_ids=texts_of(row.get("supporting_ids"), "supporting_ids"),
        context_ids=texts_of(row.get("context_ids"), "context_ids"),
        decomposition=steps_of(row.get("decomposition")),
        level=word_in(row, "level"),
        files=texts_of(row.get("files"), "files"),
        meta=meta,
    )


def _flashrag(row: Row) -> Question:
    given = row.get("metadata") or {}
    facts = given.get("supporting_facts")
    titles = (
        list(dict.fromkeys(facts.get("title", ()))) if isinstance(facts, Mapping) else given.get("supporting_titles")
    )
    known = {
        "dataset", "split", "hops", "type", "level", "supporting_titles", "supporting_ids", "context_ids",
        "decomposition", "files", "supporting_facts", "context", "paragraphs",
    }  # fmt: skip
    source = str(row.get("data_source") or "")
    identifier = id_of(row.get("id"), row["question"])
    return Question(
        # Search-R1's parquet files hold several sets, each with ids from test_0 on
        id=f"{source}/{identifier}" if source else identifier,
        question=text_in(row, "question"),
        answers=answers_of(row["golden_answers"]),
        dataset=str(given.get("dataset") or source),
        split=str(given.get("split") or ""),
        hops=hops_of(given.get("hops")),
        type=str(given.get("type") or ""),
        supporting_titles=texts_of(titles, "supporting_titles"),
        supporting_ids=texts_of(given.get("supporting_ids"), "supporting_ids"),
        context_ids=texts_of(given.get("context_ids"), "context_ids"),
        decomposition=steps_of(given.get("decomposition")),
        level=str(given.get("level") or ""),
        files=texts_of(given.get("files"), "files"),
        meta={k: v for k, v in given.items() if k not in known and v is not None},
    )


def _verl(row: Row) -> Question:
    extra = dict(row.get("extra_info") or {})
    prompt = row["prompt"]
    text = str(extra.get("question") or prompt[-1]["content"])
    truth = row["reward_model"]["ground_truth"]
    target: Any = truth.get("target") if isinstance(truth, Mapping) else truth
    dataset = str(row.get("data_source") or "")
    index = extra.get("index")
    return Question(
        # verl restarts `index` in each data set, so it identifies a question only together with the set and the split
        id=str(extra.get("id") or "")
        or (f"{dataset}/{extra.get('split', '')}/{index}" if index is not None else id_of(None, text)),
        question=text,
        answers=answers_of(list(target) if not isinstance(target, str) else target),
        dataset=dataset,
        split=str(extra.get("split") or ""),
        hops=hops_of(extra.get("hops")),
    )


def _hotpotqa(row: Row) -> Question:
    facts = loaded(row.get("supporting_facts"))
    if isinstance(facts, Mapping):  # the hub's column form
        facts = list(zip(facts.get("title", []), facts.get("sent_id", []), strict=True))
    titles = tuple(dict.fromkeys(parts_of(fact, "title", "sent_id")[0] for fact in facts))
    triples = [parts_of(triple, "fact", "relation", "entity") for triple in loaded(row.get("evidences"))]
    steps = tuple(Step(f"{s} >> {relation}", str(o)) for s, relation, o in triples)
    hops = len(titles) if "evidences" in row else 2
    return Question(
        id=id_of(row.get("_id") or row.get("id"), row["question"]),
        question=text_in(row, "question"),
        answers=answers_of(row.get("answer")),
        dataset="2wikimultihopqa" if "evidences" in row else "hotpotqa",
        hops=hops or None,
        type=row.get("type") or "",
        supporting_titles=titles,
        decomposition=steps,
        level=row.get("level") or "",
    )


def _musique(row: Row) -> Question:
    steps = row["question_decomposition"]
    paragraphs = {p.get("idx"): p.get("title", "") for p in row.get("paragraphs") or []}
    titles = dict.fromkeys(
        paragraphs[s["paragraph_support_idx"]] for s in steps if s.get("paragraph_support_idx") in paragraphs
    )
    return Question(
        id=id_of(row.get("id"), row["question"]),
        question=text_in(row, "question"),
        answers=answers_of([row.get("answer"), *(row.get("answer_aliases") or [])]),
        dataset="musique",
        hops=len(steps),
        type=str(row.get("id", "")).partition("__")[0],
        supporting_titles=tuple(titles),
        decomposition=steps_of(steps),
        meta={"answerable": row["answerable"]} if "answerable" in row else {},
    )


def _triviaqa(row: Row) -> Question:
    answer = row["Answer"]
    aliases = [answer.get("Value"), *(answer.get("Aliases") or []), *(answer.get("HumanAnswers") or [])]
    return Question(
        id_of(row["QuestionId"], row["Question"]), text_in(row, "Question"), answers_of(aliases), "triviaqa", hops=1
    )


def _popqa(row: Row) -> Question:
    answers = row["possible_answers"]
    if isinstance(answers, str):
        answers = json.loads(answers)
    return Question(
        id_of(row.get("id"), row["question"]), text_in(row, "question"), answers_of(answers), "popqa", hops=1
    )


def _frames(row: Row) -> Question:
    links = row.get("wiki_links") or []
    if isinstance(links, str):
        links = ast.literal_eval(links)
    titles = tuple(map(_wikipedia_title, links))
    return Question(
        id=id_of(row.get("id") or row.get("Unnamed: 0"), row["Prompt"]),
        question=text_in(row, "Prompt"),
        answers=answers_of(row.get("Answer")),
        dataset="frames",
        hops=len(titles) or None,
        type=str(row.get("reasoning_types") or ""),
        supporting_titles=titles,
    )


def _wikipedia_title(link: Any) -> str:
    """The article that a link leads to: without the section, with the letters that %-signs stand for."""
    parts = urlsplit(str(link))
    _, wiki, title = parts.path.partition("/wiki/")
    return unquote(title if wiki else parts.path.rpartition("/")[2]).replace("_", " ").strip()


def _bamboogle(row: Row) -> Question:
    files = texts_of(row.get("file_name"), "file_name")
    return Question(
        id_of(row.get("id"), row["Question"]), text_in(row, "Question"), answers_of(row["Answer"]), files=files
    )


def _plain(row: Row) -> Question:
    """One `answer`, or a list; `aliases` or `answer_aliases` beside it count as well."""
    known = {*_KNOWN, "question_id", "answer", "aliases", "answer_aliases"}
    meta = {k: v for k, v in row.items() if k not in known and isinstance(v, str | int | float | bool)}
    identifier = id_of(row.get("id", row.get("question_id")), row["question"])
    others = [*texts_of(row.get("aliases"), "aliases"), *texts_of(row.get("answer_aliases"), "answer_aliases")]
    return _with_our_fields(row, identifier, [*answers_of(row["answer"]), *others], meta)


FORMS: tuple[Form, ...] = (
    Form("subquest", frozenset({"question", "answers"}), _ours),
    Form("flashrag", frozenset({"question", "golden_answers"}), _flashrag),
    Form("verl", frozenset({"prompt", "reward_model"}), _verl),
    Form("musique", frozenset({"question", "question_decomposition"}), _musique),
    Form("hotpotqa", frozenset({"question", "answer", "supporting_facts"}), _hotpotqa),
    Form("triviaqa", frozenset({"QuestionId", "Question", "Answer"}), _triviaqa),
    Form("popqa", frozenset({"question", "possible_answers"}), _popqa),
    Form("gaia", frozenset({"task_id", "Question"}), web_forms.gaia),
    Form("webwalkerqa", frozenset({"question", "root_url"}), web_forms.webwalkerqa),
    Form("hle", frozenset({"question", "answer_type", "category"}), web_forms.hle),
    Form("frames", frozenset({"Prompt", "Answer"}), _frames),
    Form("browsecomp", frozenset({"problem", "answer", "canary"}), web_forms.browsecomp),
    Form("simpleqa", frozenset({"problem", "answer"}), web_forms.simpleqa),
    Form("bamboogle", frozenset({"Question", "Answer"}), _bamboogle),
    Form("hira", frozenset({"Question", "answer"}), web_forms.hira),
    Form("plain", frozenset({"question", "answer"}), _plain),
)
"""Tried in this order: the more telling fields first."""
