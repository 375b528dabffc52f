"""What `search.tokens` keeps: the share of answers that stay in what a search shows, against the tokens that are read.

    subquest bench excerpts --data ../shared/data/train --split dev
    subquest bench excerpts --data ../shared/data/train --split train --sets squad

No model answers. The first `-k` results of a search are cut to each of `--tokens`; an answer counts if it stands in a
gold passage among the results, and as kept if it still does after the cut. Searched for are

    questions   the question as it is, for its answer (as `rag` does)
    links       the same, for the title of another gold passage that the passage mentions: the way to the next hop
    steps       each step of the question's plan, for the step's answer (as CoDA's executors do)

`head` is what would stay if each result were cut at its end instead, to a length at which as many tokens are left.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from subquest.data import questions_from
from subquest.data.gold_plans import REFERENCE
from subquest.errors import UsageError
from subquest.record import Document, Hit, Question
from subquest.retrieval import Index
from subquest.retrieval.corpus import read
from subquest.retrieval.splitter import Size
from subquest.runtime.excerpts import excerpts
from subquest.runtime.statements import words_of

SETS = ("hotpotqa", "2wikimultihopqa", "musique", "squad")
_NOTE = re.compile(r" \([^()]*\)$")
_count = Size(unit="tokens").count


class Case(NamedTuple):
    """A search, and what is wanted of its results."""

    sort: str
    query: str
    wanted: Sequence[str]
    gold: frozenset[str]


class Cut(NamedTuple):
    tokens: int
    kept: bool
    head: bool


def main(argv: list[str]) -> dict[str, Any]:
    parser = argparse.ArgumentParser(prog="subquest bench excerpts", description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="a folder with SET_SPLIT.jsonl.gz and their corpora")
    parser.add_argument("--split", default="dev")
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--tokens", default="400,300,240,200,160", help="budgets of a search")
    parser.add_argument("-k", type=int, default=3, help="results of a search")
    args = parser.parse_args(argv)
    budgets = [int(tokens) for tokens in args.tokens.split(",") if tokens.isdigit() and int(tokens)]
    if len(budgets) != args.tokens.count(",") + 1:
        raise UsageError(f"--tokens {args.tokens}: give numbers of tokens, such as 300,200")
    figures: dict[str, Any] = {}
    for name in args.sets.split(","):
        path = args.data / f"{name}_{args.split}.jsonl.gz"
        if not path.is_file():
            print(f"{path} does not exist: left out", file=sys.stderr)
            continue
        for sort, rows in _measured(path, args.data / f"{name}_train_corpus.jsonl.gz", budgets, args.k).items():
            figures[f"{name}, {sort}"] = rows
            _table(f"{name}, {sort}", rows)
    if not figures:
        raise UsageError(f"no question set of the split {args.split!r} in {args.data}")
    ratios = {
        f"{name}, {tokens} tokens, {what}": row[what]
        for name, rows in figures.items()
        for tokens, row in rows.items()
        for what in ("kept", "head", "read")
    }
    return {"name": "excerpts", "figures": figures, "ratios": ratios}


def _measured(path: Path, corpus: Path, budgets: Sequence[int], k: int) -> dict[str, dict[int, dict[str, float]]]:
    """For each sort of searches and each budget: what is kept, by the head too, and the share of tokens read."""
    with (
        tempfile.TemporaryDirectory(prefix="subquest-bench-") as folder,
        Index.build(Path(folder) / "docs.sq", read([corpus])) as index,
    ):
        titles = {document.id: document.title for document in index.documents()}
        cases = [case for question in questions_from(str(path)) for case in _cases(question, titles)]
        found = index.search_many([case.query for case in cases], k)
    usable = [(case, hits) for case, hits in zip(cases, found, strict=True) if _stands(case, hits)]
    rows: dict[str, dict[int, dict[str, float]]] = {}
    for sort in dict.fromkeys(case.sort for case, _ in usable):
        own = [(case, hits) for case, hits in usable if case.sort == sort]
        whole = sum(_count(hit.document.text) for _, hits in own for hit in hits)
        for budget in budgets:
            cuts = [_cut(case, hits, budget) for case, hits in own]
            rows.setdefault(sort, {})[budget] = {
                "n": len(own),
                "read": sum(cut.tokens for cut in cuts) / whole,
                "kept": sum(cut.kept for cut in cuts) / len(cuts),
                "head": sum(cut.head for cut in cuts) / len(cuts),
            }
    return rows


def _cases(question: Question, titles: dict[str, str]) -> Iterator[Case]:
    gold = frozenset(question.supporting_ids)
    if question.answers and question.answers[0].lower() not in ("yes", "no"):
        yield Case("questions", question.question, question.answers, gold)
    for one in sorted(gold & titles.keys()):
        others = [_NOTE.sub("", titles[other]) for other in sorted(gold - {one}) if other in titles]
        if others:
            yield Case("links", question.question, others, frozenset({one}))
    answers: list[str] = []
    for step in question.decomposition:
        asked = REFERENCE.sub(lambda found: _answer(answers, found), step.question).replace(">>", " ")
        answers.append(step.answer)
        yield Case("steps", asked, [step.answer], gold)


def _answer(answers: Sequence[str], found: re.Match[str]) -> str:
    at = int(found[1]) - 1
    return answers[at] if at < len(answers) else found[0]


def _stands(case: Case, hits: Sequence[Hit]) -> bool:
    """Whether something wanted stands in a gold passage."""
    lines = [words_of(hit.document.text).line for hit in hits if hit.document.id in case.gold]
    return any(words_of(text).line in line for text in case.wanted for line in lines if words_of(text).line)


def _cut(case: Case, hits: Sequence[Hit], budget: int) -> Cut:
    kept = excerpts(hits, case.query, budget)
    tokens = sum(_count(hit.document.text) for hit in kept)
    return Cut(tokens, _stands(case, kept), _stands(case, _heads(hits, tokens)))


def _heads(hits: Sequence[Hit], tokens: int) -> list[Hit]:
    """The beginnings of all results, of one length, in so many tokens together; shorter ones leave room for others."""
    lengths = sorted(_count(hit.document.text) for hit in hits)
    left, longest = tokens, lengths[-1]
    for n, length in enumerate(lengths):
        if length * (len(lengths) - n) > left:
            longest = left // (len(lengths) - n)
            break
        left -= length
    return [Hit(_head(hit.document, longest), hit.score) for hit in hits]


def _head(document: Document, tokens: int) -> Document:
    count = _count(document.text)
    text = document.text if count <= tokens else document.text[: len(document.text) * tokens // count]
    return Document(document.id, document.title, text)


def _table(name: str, rows: dict[int, dict[str, float]]) -> None:
    print(f"{name} ({next(iter(rows.values()))['n']})", file=sys.stderr)
    for tokens, row in rows.items():
        print(
            f"{tokens:6} tokens: read {row['read']:6.1%}, kept {row['kept']:6.1%}, by the head {row['head']:6.1%}",
            file=sys.stderr,
            flush=True,
        )
