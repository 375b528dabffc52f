"""A teacher model rewrites gold traces turn by turn; what the filter refuses stays as it was and is counted."""

import re
from pathlib import Path

import pytest

from subquest.data import trace_rewriter
from subquest.data.trace_rewriter import TraceRewriter, find_flaw
from subquest.engine.scripted import Context, ScriptedEngine
from subquest.process import run_sync
from subquest.worlds import make_world

SEEN = "Task: Who directed Salt Shore?\nDoc 1(Title: Salt Shore) Salt Shore is a film by Ann Vik of 1954."
GOLD = "<refine>Salt Shore is a film by Ann Vik of 1954.</refine><result>Ann Vik</result>"
GOOD = "<refine>The film Salt Shore was made by Ann Vik.</refine><result>Ann Vik</result>"
QUERY = "<search>Who directed Salt Shore</search>"


@pytest.mark.parametrize(
    ("gold", "made", "reason"),
    [
        (GOLD, GOOD, ""),
        (QUERY, "<search>director of Salt Shore</search>", ""),
        (GOLD, GOLD, trace_rewriter.UNCHANGED),
        (GOLD, GOOD.replace("<refine>", "<note>"), trace_rewriter.ACTIONS),
        (GOLD, f"{GOOD}<answer>Ann Vik</answer>", trace_rewriter.ACTIONS),
        (GOLD, f"Here it is: {GOOD}", trace_rewriter.ACTIONS),
        (GOLD, GOOD.replace("<result>Ann Vik", "<result>Ann Viken"), trace_rewriter.CHANGED),
        (GOLD, GOOD.replace("Salt Shore was", "Salt Shore, shot in Tolvik, was"), trace_rewriter.INVENTED),
        (GOLD, GOOD.replace("Salt Shore was", "Salt Shore of 1955 was"), trace_rewriter.INVENTED),
        (GOLD, GOOD.replace("by Ann Vik", "in 1954"), trace_rewriter.UNFOUNDED),
        (QUERY, "<search>director of the film</search>", trace_rewriter.LOST),
        (QUERY, "<search>Salt Shore director Ann Viken</search>", trace_rewriter.LEAK),
    ],
)
def test_the_filter_names_its_reason(gold: str, made: str, reason: str) -> None:
    assert find_flaw(made, gold, SEEN) == reason


def teacher(retold: str, answer: str = "Ann Vik") -> ScriptedEngine:
    def speak(context: Context) -> str:
        return retold if "The turn:" in context.last else f"<answer>{answer}</answer>"

    return ScriptedEngine(speak)


async def test_a_good_turn_is_kept_and_one_that_leads_elsewhere_is_not() -> None:
    good = TraceRewriter(teacher(GOOD))
    assert await good(GOLD, SEEN, "Who directed Salt Shore?") == GOOD
    assert (good.kept, good.refused) == (1, {})
    bad = TraceRewriter(teacher(GOOD, answer="Bo Lund"))
    assert await bad(GOLD, SEEN, "Who directed Salt Shore?") == GOLD
    assert (bad.kept, dict(bad.refused)) == (0, {trace_rewriter.INVALID: 1})


async def test_a_turn_without_free_words_is_not_asked_about() -> None:
    assert await TraceRewriter(ScriptedEngine([]))("<answer>Ann Vik</answer>", SEEN, "q") == "<answer>Ann Vik</answer>"


@pytest.mark.parametrize("system", ["coda", "autorefine", "decor", "apex"])
def test_traces_of_real_systems_are_retold_as_they_run(system: str, tmp_path: Path) -> None:
    """Retold queries go to the real search, and the traces are still right and well formed."""
    pytest.importorskip("torch", reason="gold traces are written in the tokens of the torch engine")
    from subquest.engine.chat_format import CHATML
    from subquest.engine.torch.vocabulary import Vocabulary
    from subquest.retrieval import Index
    from subquest.train.random_model import tiny_source
    from subquest.train.teacher import make_traces

    def speak(context: Context) -> str:
        """Puts words in front of notes and queries; concludes what the notes conclude."""
        if "The turn:" in context.last:
            turn = context.last.partition("The turn:\n")[2]
            turn = re.sub(r"<(refine|filter)>(?!None)", r"<\1>it says: ", turn)
            return re.sub(r"<search>(?!None)", "<search>find out ", turn)
        notes, _, asked = context.last.partition("\nQuestion: ")
        return f"<answer>{answers.get(asked.strip(), notes)}</answer>"

    world = make_world(seed=11, articles=160, questions=12, hops=(1, 2))
    resolved = [
        (re.sub(r"#(\d+)", lambda m, q=q: q.decomposition[int(m[1]) - 1].answer, step.question), step.answer)
        for q in world.questions
        for step in q.decomposition
    ]
    answers = dict(resolved)
    source = tiny_source()
    vocabulary = Vocabulary(source.tokenizer, source.architecture.vocabulary)
    rewriter = TraceRewriter(ScriptedEngine(speak))
    with Index.build(tmp_path / "world.sq", world.documents) as index:
        found = run_sync(make_traces(system, world.questions, index, vocabulary, CHATML, rewriter=rewriter))
    assert len(found.episodes) >= 6, found.rejected
    assert rewriter.kept > len(found.episodes)
    texts = [t.agent_text for e in found.episodes for t in e.trajectories]
    assert any("<search>find out " in text for text in texts)
    assert all(t.has_tokens and not t.format_errors for e in found.episodes for t in e.trajectories)
    searched = [q for e in found.episodes for v in e.events if v.kind == "search" for q in v.data["queries"]]
    assert any(q.startswith("find out ") for q in searched)
