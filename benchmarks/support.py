"""How often right answers are called supported by the documents that were read, and how often wrong ones are.

    subquest bench support --data ../shared/data/train --split train
    subquest bench support --data ../shared/data/train --split dev --organisations FOLDER

No model answers. Of each question the gold answer is judged with its gold passages, which ought to support it, and so
are wrong answers of the same kind (a name of as many words, a year, a date, a number), which ought not: some that stand
in these passages (`same`), and some that stand in the passages of another question and are judged with those (`other`).
Where the question asks for one of the things that it names, the wrong answer is the other one; for yes it is no. Beside
its gold passages `--beside` further ones are read.

An answer is judged as systems of four sorts would have come to it:

    one call   a role reads the passages and answers (rag)
    read       one agent reads and answers, and says nothing that is kept as a result (search-r1)
    notes      sentences are written down, one of them with the answer, which is concluded from them (decor, autorefine)
    steps      a plan is followed; the last of its results is the answer, or leads to it (coda, apex)

Plans are those of the question sets, where they have any. `--organisations` adds office papers: the folder of a split
that `subquest data organisations` wrote. `--show N` prints so many answers of each group that are judged wrongly.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from subquest.data import questions_from
from subquest.data.gold_plans import REFERENCE, Refused, rewrite_plan
from subquest.english import MONTHS
from subquest.errors import UsageError
from subquest.record import Document, Question
from subquest.retrieval.analysis import STOP_WORDS
from subquest.retrieval.corpus import read_file
from subquest.runtime.evidence import Finding, support_of
from subquest.runtime.normalization import CALENDAR
from subquest.runtime.statements import claim_of, sentences, words_of

SETS = ("hotpotqa", "2wikimultihopqa", "musique", "squad")
WAYS = ("one call", "read", "notes", "steps")
GROUPS = ("single", "bridge", "numeric", "comparison", "yes/no", "computed", "unanswerable")
WRONG = 3
"""Wrong answers of each sort for a question."""
_COMPUTED = frozenset(("calculation", "count", "difference", "sum"))
_MONTH = rf"(?:{'|'.join(MONTHS)})"
_DATE = re.compile(rf"\b(?:\d{{1,2}} {_MONTH}|{_MONTH} \d{{1,2}},?) \d{{4}}\b|\b\d{{4}}-\d\d-\d\d\b")
_YEAR = re.compile(r"\b(?:1\d|20)\d\d\b(?![,.]\d)")
_NUMBER = re.compile(r"[€£$]?\b\d[\d,]*(?:\.\d+)?\b%?")
_CAPITAL = r"[^\W\d_a-zß-ÿ][\w'’-]*"
_NAME = re.compile(rf"\b{_CAPITAL}(?:[ .]{{1,2}}(?:(?:of|de|van|von|the) )*{_CAPITAL})*")
_KINDS = {"date": _DATE, "year": _YEAR, "number": _NUMBER, "name": _NAME}


class Case(NamedTuple):
    """A question with what was read for it, and what was read for another one."""

    group: str
    question: Question
    passages: list[Document]
    elsewhere: list[Document]


class Judged(NamedTuple):
    case: Case
    way: str
    sort: str
    """`right`, `same` or `other`."""
    answer: str
    supported: bool
    parts: bool
    """Only what it was concluded from is supported."""


def main(argv: list[str]) -> dict[str, Any]:
    parser = argparse.ArgumentParser(prog="subquest bench support", description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="a folder with SET_SPLIT.jsonl.gz and SET_train_corpus.jsonl.gz")
    parser.add_argument("--split", default="train")
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--organisations", type=Path, help="a folder with questions.jsonl and corpus.jsonl")
    parser.add_argument("--limit", type=int, default=500, help="questions of each set")
    parser.add_argument("--beside", type=int, default=2, help="passages that are read beside the gold ones")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", type=int, default=0, help="print so many mistakes of each group")
    args = parser.parse_args(argv)
    if args.data and not args.data.is_dir():
        raise UsageError(f"there is no folder {args.data}")
    figures: dict[str, Any] = {}
    everything: list[Judged] = []
    for name, questions, corpus in _sources(args):
        chance = random.Random(args.seed)
        judged = [
            found
            for case in _cases(questions, corpus, args, chance)
            for way in WAYS
            for found in _judge(case, way, chance)
        ]
        figures[name] = _rates(judged)
        everything += judged
        _table(name, figures[name])
    if not everything:
        raise UsageError("no questions: give --data with question sets and their corpora, or --organisations")
    figures["all"] = _rates(everything)
    _table("all", figures["all"])
    _show(everything, args.show)
    ratios = {
        f"{row}, {sort}": rate[sort]
        for row, rate in figures["all"].items()
        for sort in ("right", "same", "other")
        if rate[sort] is not None
    }
    return {"name": "support", "figures": figures, "ratios": ratios}


def _sources(args: argparse.Namespace) -> Iterator[tuple[str, list[Question], dict[str, Document]]]:
    for name in args.sets.split(",") if args.data else ():
        path = args.data / f"{name}_{args.split}.jsonl.gz"
        if path.is_file():
            yield name, questions_from(str(path)), _corpus(args.data / f"{name}_train_corpus.jsonl.gz")
        else:
            print(f"{path} does not exist: left out", file=sys.stderr)
    if args.organisations:
        folder = args.organisations
        yield "organisations", questions_from(str(folder / "questions.jsonl")), _corpus(folder / "corpus.jsonl")


def _corpus(path: Path) -> dict[str, Document]:
    return {document.id: document for document in read_file(path)}


def _cases(
    questions: Sequence[Question], corpus: dict[str, Document], args: argparse.Namespace, chance: random.Random
) -> list[Case]:
    usable = [q for q in questions if q.type != "list" and q.answers and (q.supporting_ids or q.unanswerable)]
    usable = [q for q in usable if "sql" not in q.meta]  # those need whole tables, not passages
    chosen = chance.sample(usable, min(args.limit, len(usable)))
    folders: defaultdict[str, list[str]] = defaultdict(list)
    for id in corpus:
        folders[id.rpartition("/")[0].split("/incidents")[0]].append(id)
    read = []
    for question in chosen:
        gold = [id for id in question.supporting_ids if id in corpus]
        beside = question.context_ids or folders.get(_folder(question), ())
        others = [id for id in beside if id in corpus and id not in gold]
        few = max(args.beside, 4 if question.unanswerable else 0)
        ids = [*gold, *chance.sample(others, min(few, len(others)))]
        chance.shuffle(ids)
        read.append([corpus[id] for id in ids])
    return [
        Case(_group(question), question, passages, read[at - 1])
        for at, (question, passages) in enumerate(zip(chosen, read, strict=True))
        if passages
    ]


def _folder(question: Question) -> str:
    """Of a question about an organisation, where its papers are."""
    return f"docs/{question.id.split('-')[1]}" if question.dataset == "organisations" else ""


def _group(question: Question) -> str:
    answer = question.answers[0]
    if question.unanswerable:
        return "unanswerable"
    if answer.lower() in ("yes", "no"):
        return "yes/no"
    if question.type in _COMPUTED:
        return "computed"
    if "comparison" in question.type:
        return "comparison"
    if _kind(answer) in ("date", "year", "number"):
        return "numeric"
    return "single" if question.hops == 1 else "bridge"


def _kind(answer: str) -> str:
    return next((kind for kind, pattern in _KINDS.items() if pattern.search(answer)), "")


def _judge(case: Case, way: str, chance: random.Random) -> Iterator[Judged]:
    if way == "steps" and len(case.question.decomposition) < 2:
        return
    answers = [("right", case.question.answers[0], case.passages)] if case.group != "unanswerable" else []
    answers += [("same", answer, case.passages) for answer in _wrong(case, case.passages, chance)]
    if case.group not in ("comparison", "yes/no", "computed"):
        answers += [("other", answer, case.elsewhere) for answer in _wrong(case, case.elsewhere, chance)]
    for sort, answer, passages in answers:
        findings = _findings(case, way, answer, passages)
        found = support_of(answer, case.question.question, findings)
        yield Judged(case, way, sort, answer, bool(found.supported), found.parts)


def _wrong(case: Case, passages: Sequence[Document], chance: random.Random) -> list[str]:
    """Answers of the same kind that are not the right one and share no word with it."""
    gold = case.question.answers
    if case.group == "yes/no":
        return ["no" if gold[0].lower() == "yes" else "yes"]
    known = frozenset[str]().union(*(claim_of(answer).words for answer in gold))
    kind = _kind(gold[0]) if not case.question.unanswerable else chance.choice(("name", "date", "number"))
    if not kind:
        return []
    texts = [case.question.question] if case.group == "comparison" else [d.text for d in passages]
    texts += [] if case.group == "comparison" else [d.title for d in passages]
    size = len(gold[0].split())
    found: dict[str, str] = {}
    for text in texts:
        for match in _KINDS[kind].finditer(text):
            answer = _bare(match[0])
            claim = claim_of(answer)
            alike = kind != "name" or case.question.unanswerable or abs(len(answer.split()) - size) <= (size > 2)
            if kind == "name" and not claim.words - CALENDAR:
                continue
            if alike and claim.needed and claim.words and not claim.words & known and _kind(answer) == kind:
                found.setdefault(claim.line, answer)
    if case.group == "comparison":
        found = {line: answer for line, answer in found.items() if _is_named(answer, case.passages)}
    return chance.sample(sorted(found.values()), min(WRONG, len(found)))


def _bare(text: str) -> str:
    """A name without a possessive and without a word like *the* or *in* that only begins its sentence."""
    words = re.sub(r"['’]s$", "", text.strip(" .'’-")).split()
    while words and words[0].lower().encode() in STOP_WORDS["english"]:
        del words[0]
    return " ".join(words)


def _is_named(answer: str, passages: Sequence[Document]) -> bool:
    """Whether passages are about a name, so that a question may offer it as a choice."""
    return any(words_of(answer).line in words_of(f"{d.title} {d.text}").line for d in passages)


def _findings(case: Case, way: str, answer: str, passages: list[Document]) -> list[Finding]:
    question = case.question.question
    if way == "one call":
        return [Finding(question, answer, "", passages, "1", question)]
    if way == "read":
        return [Finding("", "", "", passages, "1", question)]
    if way == "notes":
        return [Finding("", note, "", passages, "1", question) for note in _notes(case, answer, passages)]
    steps = _steps(case.question)
    results = [step_answer for _, step_answer in steps]
    if case.group in ("single", "bridge", "numeric"):
        results[-1] = answer
    return [
        Finding(task, result, "", passages, f"1.{n}")
        for n, ((task, _), result) in enumerate(zip(steps, results, strict=True), 1)
    ]


def _notes(case: Case, answer: str, passages: Sequence[Document]) -> list[str]:
    """Of each gold passage a sentence: one with the answer where there is one, else the first."""
    line = claim_of(answer).line
    notes = []
    for passage in passages:
        spoken = [passage.text[start:end] for start, end in sentences(passage.text)]
        said = next((text for text in spoken if line in words_of(text).line), "")
        if said or passage.id in case.question.supporting_ids:
            notes.append(said or spoken[0])
    return notes


def _steps(question: Question) -> list[tuple[str, str]]:
    """The plan as sub-tasks with their results."""
    with contextlib.suppress(Refused):
        question = rewrite_plan(question)
    answers = [step.answer for step in question.decomposition]
    return [
        (REFERENCE.sub(lambda match: answers[int(match[1]) - 1], step.question), step.answer)
        for step in question.decomposition
    ]


def _rates(judged: Sequence[Judged]) -> dict[str, dict[str, Any]]:
    rows: dict[str, dict[str, Any]] = {}
    for way in WAYS:
        for group in GROUPS:
            those = [found for found in judged if (found.way, found.case.group) == (way, group)]
            row: dict[str, Any] = {}
            for sort in ("right", "same", "other"):
                signs = [found.supported for found in those if found.sort == sort]
                row |= {sort: sum(signs) / len(signs) if signs else None, f"n {sort}": len(signs)}
                row[f"parts {sort}"] = sum(found.parts for found in those if found.sort == sort)
            if those:
                rows[f"{way}, {group}"] = row
    return rows


def _table(name: str, rates: dict[str, dict[str, Any]]) -> None:
    print(f"\n{name:<26}{'right':>20}{'wrong, same':>20}{'wrong, other':>16}", file=sys.stderr)
    for row, rate in rates.items():
        cells = (
            f"{rate[sort]:.1%} of {rate[f'n {sort}']}" + (f" + {n}" if (n := rate[f"parts {sort}"]) else "")
            if rate[sort] is not None
            else "–"
            for sort in ("right", "same", "other")
        )
        right, same, other = cells
        print(f"{row:<26}{right:>20}{same:>20}{other:>16}", file=sys.stderr)


def _show(judged: Sequence[Judged], most: int) -> None:
    shown: defaultdict[tuple[str, str, str], int] = defaultdict(int)
    for found in judged:
        key = (found.way, found.case.group, found.sort)
        if found.supported is not (found.sort == "right") and shown[key] < most:
            shown[key] += 1
            sign = "not supported" if found.sort == "right" else "supported"
            question = found.case.question
            print(f"{' / '.join(key)}: {sign}: {question.question} — {found.answer} [{question.id}]", file=sys.stderr)


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1:]), indent=2))
