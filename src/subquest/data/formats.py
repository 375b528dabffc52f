"""The formats in which question sets are published, each as a function from one row to a Question.

A row's format is recognised by its field names, so files need no label. Fields that have no place in a Question are
kept in its `meta`. HiRA published GAIA, WebWalkerQA and Humanity's Last Exam as JSON lists with `Question` and
`answer`; each set's own fields are in the row as well.
"""

from __future__ import annotations

import ast
import base64
import hashlib
import json
import re
from collections.abc import Callable, Mapping
from itertools import cycle
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from ..errors import DataError
from ..record import Question, Step
from .row_values import (
    Row,
    answers_of,
    as_json,
    hops_of,
    id_of,
    loaded,
    optional_text,
    parts_of,
    required_text,
    steps_of,
    texts_of,
)

_FIELDS = frozenset(Question.__struct_fields__)
_MEDIA = re.compile(
    r"\b(?:image|picture|photo(?:graph)?|video|youtube|audio|sound|speech|vision|visual|ocr|colou?r)s?\b", re.IGNORECASE
)
"""Names of tools that look or listen."""


def to_question(row: Row) -> Question:
    """The question in a row of any known format. Raises DataError saying what is missing."""
    if not isinstance(row, Mapping):
        raise DataError(f"expected an object, got {type(row).__name__}")
    row = as_json(row)
    for format_ in FORMATS:
        if format_.fields <= row.keys():
            question = format_.read(row)
            if not question.question.strip():
                raise DataError("the question is empty")
            return question
    raise DataError(
        f"no known format has the fields {', '.join(sorted(map(str, row))) or '(none)'}; "
        "at least 'question' and 'answers' (a list) or 'answer' are needed"
    )


def _question(row: Row, field: str, answers: Any, *, id: Any = None, **more: Any) -> Question:
    """A question whose text is in a field of the row, with the row's own id unless another is given."""
    identifier = id_of(row.get("id") if id is None else id, row[field])
    return Question(identifier, required_text(row, field), answers_of(answers), **more)


def _subquest(row: Row) -> Question:
    given = row.get("meta") or {}
    if not isinstance(given, Mapping):
        raise DataError(f"'meta' must be an object, not {given!r:.60}")
    meta = {k: v for k, v in row.items() if k not in _FIELDS and v is not None}
    return _with_our_fields(row, row.get("id"), row.get("answers"), {**given, **meta})


def _plain(row: Row) -> Question:
    """One `answer`, or a list; `aliases` or `answer_aliases` beside it count as well."""
    known = {*_FIELDS, "question_id", "answer", "aliases", "answer_aliases"}
    meta = {k: v for k, v in row.items() if k not in known and isinstance(v, str | int | float | bool)}
    others = [*texts_of(row.get("aliases"), "aliases"), *texts_of(row.get("answer_aliases"), "answer_aliases")]
    identifier = row.get("id", row.get("question_id"))
    return _with_our_fields(row, identifier, [*answers_of(row["answer"]), *others], meta)


def _with_our_fields(row: Row, identifier: Any, answers: Any, meta: Row) -> Question:
    values: dict[str, Any] = {name: optional_text(row, name) for name in ("dataset", "split", "type", "level")}
    for name in ("supporting_titles", "supporting_ids", "context_ids", "files"):
        values[name] = texts_of(row.get(name), name)
    return Question(
        id=id_of(identifier, row["question"]),
        question=required_text(row, "question"),
        answers=answers_of(answers),
        hops=hops_of(row.get("hops")),
        decomposition=steps_of(row.get("decomposition")),
        meta=meta,
        **values,
    )


def _flashrag(row: Row) -> Question:
    given = row.get("metadata") or {}
    facts = given.get("supporting_facts")
    titles = (
        list(dict.fromkeys(facts.get("title", ()))) if isinstance(facts, Mapping) else given.get("supporting_titles")
    )
    source = str(row.get("data_source") or "")
    identifier = id_of(row.get("id"), row["question"])
    steps = given.get("decomposition")
    known = {*_FIELDS, "supporting_facts", "context", "paragraphs"} - {"id", "question", "answers", "meta"}
    return _question(
        row,
        "question",
        row["golden_answers"],
        # Search-R1's parquet files hold several sets, each with ids from test_0 on
        id=f"{source}/{identifier}" if source else identifier,
        dataset=str(given.get("dataset") or source),
        split=str(given.get("split") or ""),
        hops=hops_of(given.get("hops")),
        type=str(given.get("type") or ""),
        supporting_titles=texts_of(titles, "supporting_titles"),
        supporting_ids=texts_of(given.get("supporting_ids"), "supporting_ids"),
        context_ids=texts_of(given.get("context_ids"), "context_ids"),
        decomposition=steps_of(steps) if isinstance(steps, list) else (),
        level=str(given.get("level") or ""),
        files=texts_of(given.get("files"), "files"),
        meta={k: v for k, v in given.items() if k not in known and v is not None},
    )


def _verl(row: Row) -> Question:
    extra = dict(row.get("extra_info") or {})
    text = str(extra.get("question") or row["prompt"][-1]["content"])
    truth = row["reward_model"]["ground_truth"]
    target: Any = truth.get("target") if isinstance(truth, Mapping) else truth
    dataset, split, index = str(row.get("data_source") or ""), str(extra.get("split") or ""), extra.get("index")
    # verl restarts `index` in each data set, so it identifies a question only together with the set and the split
    numbered = f"{dataset}/{extra.get('split', '')}/{index}" if index is not None else None
    return Question(
        id=id_of(extra.get("id") or numbered, text),
        question=text,
        answers=answers_of(list(target) if not isinstance(target, str) else target),
        dataset=dataset,
        split=split,
        hops=hops_of(extra.get("hops")),
    )


def _hotpotqa(row: Row) -> Question:
    """HotpotQA, and 2WikiMultiHopQA, which adds `evidences`: triples that become the steps of a plan."""
    facts = loaded(row.get("supporting_facts"))
    if isinstance(facts, Mapping):  # as columns, on the hub
        facts = list(zip(facts.get("title", []), facts.get("sent_id", []), strict=True))
    titles = tuple(dict.fromkeys(parts_of(fact, "title", "sent_id")[0] for fact in facts))
    triples = [parts_of(triple, "fact", "relation", "entity") for triple in loaded(row.get("evidences"))]
    hops = len(titles) if "evidences" in row else 2
    return _question(
        row,
        "question",
        row.get("answer"),
        id=row.get("_id") or row.get("id"),
        dataset="2wikimultihopqa" if "evidences" in row else "hotpotqa",
        hops=hops or None,
        type=row.get("type") or "",
        supporting_titles=titles,
        decomposition=tuple(Step(f"{s} >> {relation}", str(o)) for s, relation, o in triples),
        level=row.get("level") or "",
    )


def _musique(row: Row) -> Question:
    steps = row["question_decomposition"]
    paragraphs = {p.get("idx"): p.get("title", "") for p in row.get("paragraphs") or []}
    titles = dict.fromkeys(
        paragraphs[s["paragraph_support_idx"]] for s in steps if s.get("paragraph_support_idx") in paragraphs
    )
    return _question(
        row,
        "question",
        [row.get("answer"), *(row.get("answer_aliases") or [])],
        dataset="musique",
        hops=len(steps),
        type=str(row.get("id", "")).partition("__")[0],
        supporting_titles=tuple(titles),
        decomposition=steps_of(steps),
        meta={"answerable": row["answerable"]} if "answerable" in row else {},
    )


def _squad(row: Row) -> Question:
    """SQuAD's questions, each with the one paragraph that it was asked about."""
    answers = row["answers"]
    if isinstance(answers, list):
        answers = [answer.get("text") if isinstance(answer, Mapping) else answer for answer in answers]
    title = required_text(row, "title").replace("_", " ")
    return _question(row, "question", answers, dataset="squad", hops=1, supporting_titles=(title,) if title else ())


def _triviaqa(row: Row) -> Question:
    answer = row["Answer"]
    aliases = [answer.get("Value"), *(answer.get("Aliases") or []), *(answer.get("HumanAnswers") or [])]
    return _question(row, "Question", aliases, id=row["QuestionId"], dataset="triviaqa", hops=1)


def _popqa(row: Row) -> Question:
    answers = row["possible_answers"]
    return _question(
        row, "question", json.loads(answers) if isinstance(answers, str) else answers, dataset="popqa", hops=1
    )


def _frames(row: Row) -> Question:
    links = row.get("wiki_links") or []
    titles = tuple(map(_wikipedia_title, ast.literal_eval(links) if isinstance(links, str) else links))
    return _question(
        row,
        "Prompt",
        row.get("Answer"),
        id=row.get("id") or row.get("Unnamed: 0"),
        dataset="frames",
        hops=len(titles) or None,
        type=str(row.get("reasoning_types") or ""),
        supporting_titles=titles,
    )


def _wikipedia_title(link: Any) -> str:
    """The article that a link leads to: without the section, with %-escapes decoded."""
    parts = urlsplit(str(link))
    _, wiki, title = parts.path.partition("/wiki/")
    return unquote(title if wiki else parts.path.rpartition("/")[2]).replace("_", " ").strip()


def _bamboogle(row: Row) -> Question:
    return _question(row, "Question", row["Answer"], files=texts_of(row.get("file_name"), "file_name"))


def _gaia(row: Row) -> Question:
    """GAIA's release, and HiRA's copies of it, which have the answer as `answer`.

    `type` is the split of HiRA's appendix: *file* where a file comes with the question, *multimodal*
    where none does and the tools that the annotator used look or listen, *text* otherwise.
    """
    files = _file(row, "file_name")
    tools = str(_object(row, "Annotator Metadata").get("Tools") or "")
    return _question(
        row,
        "Question",
        row.get("Final answer", row.get("answer")),
        id=row.get("task_id") or row.get("id"),
        dataset="gaia",
        type="file" if files else "multimodal" if _MEDIA.search(tools) else "text",
        level=optional_text(row, "Level"),
        files=files,
        meta={"tools": tools} if tools else {},
    )


def _webwalkerqa(row: Row) -> Question:
    info = _object(row, "info")
    meta = {
        "difficulty": info.get("difficulty_level", ""),
        "lang": info.get("lang", ""),
        "domain": info.get("domain", ""),
        "source_website": info.get("source_website", []),
        "root_url": row.get("root_url", ""),
    }
    kind = optional_text(info, "type")
    return _question(row, _text_field(row), row.get("answer"), dataset="webwalkerqa", type=kind, meta=meta)


def _hle(row: Row) -> Question:
    """Humanity's Last Exam; its pictures are in the row as `data:` URLs."""
    files = _file(row, "image")
    meta = {key: row[key] for key in ("category", "answer_type", "raw_subject") if row.get(key)}
    kind = "multimodal" if files else "text"
    return _question(row, _text_field(row), row.get("answer"), dataset="hle", type=kind, files=files, meta=meta)


def _simpleqa(row: Row) -> Question:
    meta = _object(row, "metadata")
    kind = optional_text(meta, "answer_type")
    return _question(row, "problem", row["answer"], dataset="simpleqa", type=kind, meta=meta)


def _browsecomp(row: Row) -> Question:
    """BrowseComp's release has question and answer encrypted, with a key made of the row's `canary`."""
    canary = required_text(row, "canary")
    open_row = {**row, "problem": _decrypted(required_text(row, "problem"), canary)}
    topic = optional_text(row, "problem_topic")
    answer = _decrypted(required_text(row, "answer"), canary)
    return _question(open_row, "problem", answer, dataset="browsecomp", meta={"topic": topic} if topic else {})


def _hira(row: Row) -> Question:
    """A row of HiRA's lists, recognised by the fields that only one set's release has."""
    if "info" in row or "root_url" in row:
        return _webwalkerqa(row)
    if {"answer_type", "category"} <= row.keys():
        return _hle(row)
    if "Level" in row or "Annotator Metadata" in row:
        return _gaia(row)
    return _question(row, "Question", row["answer"], files=_file(row, "file_name"))


def _text_field(row: Row) -> str:
    return "question" if "question" in row else "Question"


def _file(row: Row, field: str) -> tuple[str, ...]:
    return (optional_text(row, field),) if row.get(field) else ()


def _object(row: Row, field: str) -> Mapping[str, Any]:
    """An object that may be absent, or written as a text."""
    value = row.get(field) or {}
    if isinstance(value, str):
        value = ast.literal_eval(value)
    if not isinstance(value, Mapping):
        raise DataError(f"{field!r} must be an object, not {value!r:.60}")
    return value


def _decrypted(text: str, canary: str) -> str:
    try:
        content = base64.b64decode(text, validate=True)
        key = cycle(hashlib.sha256(canary.encode()).digest())
        return bytes(a ^ b for a, b in zip(content, key, strict=False)).decode()
    except ValueError:
        raise DataError("the text cannot be decrypted with the row's 'canary'") from None


class Format(NamedTuple):
    """A published format: the fields that give it away, and how to read a row."""

    name: str
    fields: frozenset[str]
    read: Callable[[Row], Question]


FORMATS: tuple[Format, ...] = (
    Format("squad", frozenset({"question", "answers", "context", "title"}), _squad),
    Format("subquest", frozenset({"question", "answers"}), _subquest),
    Format("flashrag", frozenset({"question", "golden_answers"}), _flashrag),
    Format("verl", frozenset({"prompt", "reward_model"}), _verl),
    Format("musique", frozenset({"question", "question_decomposition"}), _musique),
    Format("hotpotqa", frozenset({"question", "answer", "supporting_facts"}), _hotpotqa),
    Format("triviaqa", frozenset({"QuestionId", "Question", "Answer"}), _triviaqa),
    Format("popqa", frozenset({"question", "possible_answers"}), _popqa),
    Format("gaia", frozenset({"task_id", "Question"}), _gaia),
    Format("webwalkerqa", frozenset({"question", "root_url"}), _webwalkerqa),
    Format("hle", frozenset({"question", "answer_type", "category"}), _hle),
    Format("frames", frozenset({"Prompt", "Answer"}), _frames),
    Format("browsecomp", frozenset({"problem", "answer", "canary"}), _browsecomp),
    Format("simpleqa", frozenset({"problem", "answer"}), _simpleqa),
    Format("bamboogle", frozenset({"Question", "Answer"}), _bamboogle),
    Format("hira", frozenset({"Question", "answer"}), _hira),
    Format("plain", frozenset({"question", "answer"}), _plain),
    Format("unanswered", frozenset({"question", "decomposition"}), _subquest),
)
"""Tried in this order: the more telling fields first."""
