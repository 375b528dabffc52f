"""The forms in which question sets are published, each as a function from one row to a Question.

A row's form is recognised by its field names, so files need no label. Fields that have no place in a Question are kept
in its `meta`.
"""

from __future__ import annotations

import ast
import hashlib
import json
import math
from collections.abc import Callable, Mapping
from datetime import date, time
from decimal import Decimal
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from ..errors import DataError
from ..record import Question, Step

Row = Mapping[str, Any]


class Form(NamedTuple):
    """A published form: the fields that give it away, and how to read a row."""

    name: str
    fields: frozenset[str]
    read: Callable[[Row], Question]


def to_question(row: Row) -> Question:
    """The question in a row of any known form. Raises DataError saying what is missing."""
    if not isinstance(row, Mapping):
        raise DataError(f"expected an object, got {type(row).__name__}")
    row = _as_json(row)
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


def _as_json(value: Any) -> Any:
    """A value as a run can hold it: parquet has dates, bytes and missing numbers as NaN, JSON has halves of signs."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, Mapping):
        return {key: _as_json(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(inner) for inner in value]
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, Decimal):
        value = float(value)
    if isinstance(value, bytes) or (isinstance(value, float) and not math.isfinite(value)):
        return None
    return value


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
        question=_text(row, "question"),
        answers=_answers(answers),
        dataset=_word(row, "dataset"),
        split=_word(row, "split"),
        hops=_hops(row.get("hops")),
        type=_word(row, "type"),
        supporting_titles=_texts(row.get("supporting_titles"), "supporting_titles"),
        supporting_ids=_texts(row.get("supporting_ids"), "supporting_ids"),
        context_ids=_texts(row.get("context_ids"), "context_ids"),
        decomposition=_steps(row.get("decomposition")),
        level=_word(row, "level"),
        files=_texts(row.get("files"), "files"),
        meta=meta,
    )


def _word(row: Row, field: str) -> str:
    """A text that may be absent; a number becomes its text, a list of texts one text."""
    value = row.get(field)
    if isinstance(value, list):
        return ", ".join(_texts(value, field))
    if not isinstance(value, str | int | float | None):
        raise DataError(f"'{field}' must be a text, not {value!r:.60}")
    return "" if value is None else _written(value)


def _hops(value: Any) -> int | None:
    """A number of hops; tables have it as a text or, where some rows have none, as 2.0."""
    if value is None or value == "":
        return None
    try:
        if isinstance(value, str | int | float) and float(value) == int(float(value)):
            return int(float(value))
    except (ValueError, OverflowError):
        pass
    raise DataError(f"'hops' must be a whole number, not {value!r:.60}")


def _written(value: Any) -> str:
    """A value as people write it: 1994.0, as tables with gaps have it, is 1994, and true is yes."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()


def _texts(values: Any, name: str) -> tuple[str, ...]:
    """A list of texts; numbers, as ids are in many files, become texts, and one text alone is a list of one."""
    if values is None or values == "":
        return ()
    if isinstance(values, str):
        values = _unquoted(values)
    if isinstance(values, str):
        return (values,)
    if not isinstance(values, list | tuple) or not all(type(value) in (str, int) for value in values):
        raise DataError(f"'{name}' must be a list of texts")
    return tuple(map(str, values))


def _steps(steps: Any) -> tuple[Step, ...]:
    """A gold decomposition: objects with a question, or the questions alone, as StrategyQA has them."""
    if not isinstance(steps, list | tuple):
        return ()
    return tuple(_step({"question": step} if isinstance(step, str) else step) for step in steps)


def _step(step: Any) -> Step:
    if not isinstance(step, Mapping) or not isinstance(step.get("question"), str):
        raise DataError(f"a step of 'decomposition' must be a question or an object with one, not {step!r:.60}")
    return Step(step["question"], str(step.get("answer") or ""), str(step.get("support") or ""))


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
        question=_text(row, "question"),
        answers=_answers(row["golden_answers"]),
        dataset=str(given.get("dataset") or source),
        split=str(given.get("split") or ""),
        hops=_hops(given.get("hops")),
        type=str(given.get("type") or ""),
        supporting_titles=_texts(titles, "supporting_titles"),
        supporting_ids=_texts(given.get("supporting_ids"), "supporting_ids"),
        context_ids=_texts(given.get("context_ids"), "context_ids"),
        decomposition=_steps(given.get("decomposition")),
        level=str(given.get("level") or ""),
        files=_texts(given.get("files"), "files"),
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
        answers=_answers(list(target) if not isinstance(target, str) else target),
        dataset=dataset,
        split=str(extra.get("split") or ""),
        hops=_hops(extra.get("hops")),
    )


def _hotpotqa(row: Row) -> Question:
    facts = _loaded(row.get("supporting_facts"))
    if isinstance(facts, Mapping):  # the hub's column form
        facts = list(zip(facts.get("title", []), facts.get("sent_id", []), strict=True))
    titles = tuple(dict.fromkeys(_parts(fact, "title", "sent_id")[0] for fact in facts))
    triples = [_parts(triple, "fact", "relation", "entity") for triple in _loaded(row.get("evidences"))]
    steps = tuple(Step(f"{s} >> {relation}", str(o)) for s, relation, o in triples)
    hops = len(titles) if "evidences" in row else 2
    return Question(
        id=id_of(row.get("_id") or row.get("id"), row["question"]),
        question=_text(row, "question"),
        answers=_answers(row.get("answer")),
        dataset="2wikimultihopqa" if "evidences" in row else "hotpotqa",
        hops=hops or None,
        type=row.get("type") or "",
        supporting_titles=titles,
        decomposition=steps,
        level=row.get("level") or "",
    )


def _loaded(value: Any) -> Any:
    """A list that may stand in a text, as some sets of the hub have it."""
    if isinstance(value, str):
        value = json.loads(value) if value.strip() else None
    return value or []


def _parts(item: Any, *names: str) -> list[Any]:
    """The parts of a list in order, or of an object by name."""
    return [item.get(name) for name in names] if isinstance(item, Mapping) else list(item)


def _musique(row: Row) -> Question:
    steps = row["question_decomposition"]
    paragraphs = {p.get("idx"): p.get("title", "") for p in row.get("paragraphs") or []}
    titles = dict.fromkeys(
        paragraphs[s["paragraph_support_idx"]] for s in steps if s.get("paragraph_support_idx") in paragraphs
    )
    return Question(
        id=id_of(row.get("id"), row["question"]),
        question=_text(row, "question"),
        answers=_answers([row.get("answer"), *(row.get("answer_aliases") or [])]),
        dataset="musique",
        hops=len(steps),
        type=str(row.get("id", "")).partition("__")[0],
        supporting_titles=tuple(titles),
        decomposition=_steps(steps),
        meta={"answerable": row["answerable"]} if "answerable" in row else {},
    )


def _triviaqa(row: Row) -> Question:
    answer = row["Answer"]
    aliases = [answer.get("Value"), *(answer.get("Aliases") or []), *(answer.get("HumanAnswers") or [])]
    return Question(
        id_of(row["QuestionId"], row["Question"]), _text(row, "Question"), _answers(aliases), "triviaqa", hops=1
    )


def _popqa(row: Row) -> Question:
    answers = row["possible_answers"]
    if isinstance(answers, str):
        answers = json.loads(answers)
    return Question(id_of(row.get("id"), row["question"]), _text(row, "question"), _answers(answers), "popqa", hops=1)


def _gaia(row: Row) -> Question:
    files = (str(row["file_name"]),) if row.get("file_name") else ()
    suffix = files[0].rpartition(".")[2].lower() if files else ""
    media = {"png", "jpg", "jpeg", "gif", "webp", "mp3", "wav", "m4a", "mp4", "mov", "webm"}
    kind = "text" if not files else "multimodal" if suffix in media else "file"
    return Question(
        id=id_of(row.get("task_id"), row["Question"]),
        question=_text(row, "Question"),
        answers=_answers(row.get("Final answer")),
        dataset="gaia",
        type=kind,
        level=str(row.get("Level") or ""),
        files=files,
    )


def _webwalker(row: Row) -> Question:
    info = row.get("info") or {}
    if isinstance(info, str):
        info = ast.literal_eval(info)
    return Question(
        id=id_of(row.get("id"), row["question"]),
        question=_text(row, "question"),
        answers=_answers(row.get("answer")),
        dataset="webwalkerqa",
        type=str(info.get("type") or ""),
        meta={
            "difficulty": info.get("difficulty_level", ""),
            "lang": info.get("lang", ""),
            "domain": info.get("domain", ""),
            "source_website": info.get("source_website", []),
            "root_url": row["root_url"],
        },
    )


def _hle(row: Row) -> Question:
    meta = {"category": row["category"], "answer_type": row["answer_type"]}
    files = (str(row["image"]),) if row.get("image") else ()
    kind = "multimodal" if files else "text"
    answers = _answers(row.get("answer"))
    return Question(
        id_of(row.get("id"), row["question"]), _text(row, "question"), answers, "hle", type=kind, files=files, meta=meta
    )


def _frames(row: Row) -> Question:
    links = row.get("wiki_links") or []
    if isinstance(links, str):
        links = ast.literal_eval(links)
    titles = tuple(map(_wikipedia_title, links))
    return Question(
        id=id_of(row.get("id") or row.get("Unnamed: 0"), row["Prompt"]),
        question=_text(row, "Prompt"),
        answers=_answers(row.get("Answer")),
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


def _simpleqa(row: Row) -> Question:
    meta = row.get("metadata") or {}
    if isinstance(meta, str):
        meta = ast.literal_eval(meta)
    kind = str(meta.get("answer_type") or "")
    answers = _answers(row["answer"])
    return Question(
        id_of(row.get("id"), row["problem"]), _text(row, "problem"), answers, "simpleqa", type=kind, meta=meta
    )


def _capitals(row: Row) -> Question:
    """Bamboogle's `Question, Answer` and HiRA's `Question, answer, file_name`."""
    answer = row.get("Answer", row.get("answer"))
    files = (str(row["file_name"]),) if row.get("file_name") else ()
    return Question(id_of(row.get("id"), row["Question"]), _text(row, "Question"), _answers(answer), files=files)


def _plain(row: Row) -> Question:
    """One `answer`, or a list; `aliases` or `answer_aliases` beside it count as well."""
    known = {*_KNOWN, "question_id", "answer", "aliases", "answer_aliases"}
    meta = {k: v for k, v in row.items() if k not in known and isinstance(v, str | int | float | bool)}
    identifier = id_of(row.get("id", row.get("question_id")), row["question"])
    others = [*_texts(row.get("aliases"), "aliases"), *_texts(row.get("answer_aliases"), "answer_aliases")]
    return _with_our_fields(row, identifier, [*_answers(row["answer"]), *others], meta)


FORMS: tuple[Form, ...] = (
    Form("subquest", frozenset({"question", "answers"}), _ours),
    Form("flashrag", frozenset({"question", "golden_answers"}), _flashrag),
    Form("verl", frozenset({"prompt", "reward_model"}), _verl),
    Form("musique", frozenset({"question", "question_decomposition"}), _musique),
    Form("hotpotqa", frozenset({"question", "answer", "supporting_facts"}), _hotpotqa),
    Form("triviaqa", frozenset({"QuestionId", "Question", "Answer"}), _triviaqa),
    Form("popqa", frozenset({"question", "possible_answers"}), _popqa),
    Form("gaia", frozenset({"task_id", "Question"}), _gaia),
    Form("webwalkerqa", frozenset({"question", "root_url"}), _webwalker),
    Form("hle", frozenset({"question", "answer_type", "category"}), _hle),
    Form("frames", frozenset({"Prompt", "Answer"}), _frames),
    Form("simpleqa", frozenset({"problem", "answer"}), _simpleqa),
    Form("bamboogle", frozenset({"Question", "Answer"}), _capitals),
    Form("hira", frozenset({"Question", "answer"}), _capitals),
    Form("plain", frozenset({"question", "answer"}), _plain),
)
"""Tried in this order: the more telling fields first."""


def _text(row: Row, field: str) -> str:
    value = row[field]
    if not isinstance(value, str):
        raise DataError(f"{field!r} is not a text: {value!r:.60}")
    return value.strip()


def _answers(value: Any) -> tuple[str, ...]:
    """Gold answers: one, a list, or the hub's objects (SQuAD's `text`, TriviaQA's `value` and `aliases`)."""
    if isinstance(value, Mapping):
        if not value.keys() & {"text", "value", "aliases"}:
            raise DataError(f"the gold answers are an object ({', '.join(map(str, value))}): give a list of texts")
        value = [*_listed(value.get("value")), *_listed(value.get("text")), *_listed(value.get("aliases"))]
    values = _listed(_unquoted(value) if isinstance(value, str) else value)
    if odd := next((v for v in values if isinstance(v, Mapping | list | tuple)), None):
        raise DataError(f"a gold answer is a text, not {odd!r:.60}")
    texts = (_written(v) for v in values if v is not None)
    return tuple(dict.fromkeys(t for t in texts if t))


def _unquoted(text: str) -> Any:
    """A list of texts where a table's cell holds one, as JSON or as Python writes it; else the text itself."""
    if not (text.lstrip().startswith("[") and text.rstrip().endswith("]")):
        return text
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        try:
            found = ast.literal_eval(text.strip())
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return text
    return found if isinstance(found, list) and found and all(isinstance(v, str) for v in found) else text


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def id_of(given: Any, text: Any) -> str:
    """The row's own id, or one made from the question's text."""
    return str(given) if given not in (None, "") else hashlib.sha256(str(text).encode()).hexdigest()[:16]
