"""Reports over a small hand-written folder: how many cited sentences are supported, and what they cover.

    subquest bench report --model openai:qwen2.5-1.5b-instruct@http://localhost:8000/v1
    subquest bench report --model embedded --system coda --judge openai:big@http://localhost:8001/v1

Ten questions are asked with `--style report`. For each:

    supported   share of the sentences whose quotes stand in the files as cited and state the sentence, by the writer's
                rules (`runtime.sentence_check`) and by the judge's (`judge.rules.invents_facts`); or that are a quote
    judged      the same by a model (`--judge`)
    coverage    share of the expected facts that some sentence states: all words of the fact in one sentence
    dropped     sentences that the model wrote and that the writer dropped, because no quote supports them

The last question is about something that no file mentions: its report must say so, and counts as covered if it does.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def covered(facts: Sequence[Sequence[str]], sentences: Sequence[str]) -> float:
    """Share of facts whose words all stand in one sentence; without facts, whether nothing was said."""
    from subquest.runtime.normalization import compared_words

    if not facts:
        return float(not sentences)
    said = [set(compared_words(sentence)) for sentence in sentences]
    wanted = [{word for part in fact for word in compared_words(part)} for fact in facts]
    return sum(any(words <= sentence for sentence in said) for words in wanted) / len(wanted)


def cited_sentences(episode: Any) -> list[tuple[str, list[Any]]]:
    """Every sentence of a report with the evidence that it cites."""
    sections = episode.report.sections if episode.report else ()
    return [(s.text, [episode.evidence[n - 1] for n in s.sources]) for sec in sections for s in sec.sentences]


def is_supported(sentence: str, quotes: Sequence[Any], files: str) -> bool:
    """Whether quotes stand in the files and state what a sentence says, or are the sentence."""
    from subquest.judge.cases import StepCase
    from subquest.judge.rules import invents_facts
    from subquest.runtime import sentence_check

    if not quotes or any(" ".join(quote.quote.split()) not in files for quote in quotes):
        return False
    if any(" ".join(quote.quote.split()) in " ".join(sentence.split()) for quote in quotes):
        return True
    documents = " ".join(f"{quote.title}. {quote.quote}" for quote in quotes)
    return sentence_check.is_supported(sentence, quotes) and not invents_facts(
        StepCase("filter", "", "", (), sentence, sentence, documents=documents)
    )


async def measure(args: argparse.Namespace) -> dict[str, Any]:
    from subquest.assemble import AgentSpec, open_agent
    from subquest.assemble.engines import EngineOptions, open_engine
    from subquest.judge.model import ModelJudge
    from subquest.retrieval import Index
    from subquest.retrieval.ingest import ingest
    from subquest.retrieval.settings import Settings

    questions = json.loads((HERE / "report_questions.json").read_text(encoding="utf-8"))[: args.limit]
    files = " ".join(" ".join(path.read_text(encoding="utf-8").split()) for path in (HERE / "report_folder").iterdir())
    judge = ModelJudge(open_engine(args.judge, part="judge")) if args.judge else None
    rows: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch) / "folder.sq"
        with Index.create(place, Settings()) as index:
            ingest(index, [str(HERE / "report_folder")])
        spec = AgentSpec(
            system=args.system,
            model=args.model,
            engine=EngineOptions(adapter=args.adapter, context=args.context, threads=args.threads),
            index=str(place),
            prompts=args.prompts,
            style="report",
            sampling={"max_tokens": args.max_tokens},
        )
        async with open_agent(spec) as agent:
            for asked in questions:
                episode = await agent.solve(asked["question"])
                cited = cited_sentences(episode)
                row: dict[str, float] = {
                    "sentences": len(cited),
                    "supported": sum(is_supported(text, quotes, files) for text, quotes in cited),
                    "dropped": episode.report.dropped if episode.report else 0,
                    "sections": len(episode.report.sections) if episode.report else 0,
                    "coverage": covered(asked["facts"], [text for text, _ in cited]),
                    "seconds": episode.usage.seconds,
                }
                if judge is not None:
                    pairs = [(text, [f"{q.title}: {q.quote}" for q in quotes]) for text, quotes in cited]
                    row["judged"] = sum(bool(v.yes) for v in await judge.judge_sentences(pairs))
                rows.append(row)
                shown = "  ".join(f"{name} {value:.3g}" for name, value in row.items())
                print(f"{asked['question'][:60]:<62}{shown}", file=sys.stderr)
                if args.show:
                    print(episode.answer, file=sys.stderr)
    if judge is not None:
        await judge.close()
    return summary(rows)


def summary(rows: Sequence[dict[str, float]]) -> dict[str, Any]:
    """Shares over all sentences, and the mean coverage over questions."""
    total = {name: sum(row.get(name, 0) for row in rows) for name in ("sentences", "supported", "judged", "dropped")}
    ratios = {"coverage": sum(row["coverage"] for row in rows) / len(rows)}
    if total["sentences"]:
        ratios["supported"] = total["supported"] / total["sentences"]
        if "judged" in rows[0]:
            ratios["judged"] = total["judged"] / total["sentences"]
    written = total["sentences"] + total["dropped"]
    ratios["dropped"] = total["dropped"] / written if written else 0.0
    return {"name": "report", "figures": {"rows": list(rows), **total}, "ratios": ratios}


def main(argv: Sequence[str]) -> dict[str, Any]:
    parser = argparse.ArgumentParser(prog="subquest bench report", description=__doc__)
    parser.add_argument("--model", default="embedded")
    parser.add_argument("--adapter")
    parser.add_argument("--system", default="coda")
    parser.add_argument("--prompts", help="full, compact or a folder")
    parser.add_argument("--judge", help="a model that judges support as well")
    parser.add_argument("--context", type=int, help="the longest context")
    parser.add_argument("--threads", type=int, help="of an embedded model")
    parser.add_argument("--max-tokens", type=int, default=512)
    parser.add_argument("--limit", type=int, default=10, help="questions")
    parser.add_argument("--show", action="store_true", help="print the reports")
    return asyncio.run(measure(parser.parse_args(argv)))
