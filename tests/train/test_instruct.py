"""APEX's pipeline: every seed becomes a trace or is counted by the reason it did not."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from subquest.data.self_instruct import ANSWER, REWRITE
from subquest.engine.chat_format import chat_format
from subquest.engine.scripted import ScriptedEngine
from subquest.engine.torch.vocabulary import Vocabulary
from subquest.errors import ConfigError
from subquest.record import Document, Episode, Question, Step, Usage
from subquest.train import instruct as pipeline
from subquest.train.data import Material, load_material, open_search
from subquest.train.gold_traces import gold_traces
from subquest.train.instruct import Articles, run_pipeline, trivial
from subquest.train.random_model import tiny_source
from subquest.train.recipe import DataPart, InstructPart, load_recipe
from subquest.train.rule_teacher import RuleTeacher
from subquest.train.teacher import Traces

RECIPES = Path(__file__).resolve().parents[2] / "recipes"


@pytest.fixture(scope="module")
def world() -> Material:
    return load_material([DataPart("world:seed=1,articles=160,questions=24")])


async def made(world: Material, folder: Path, part: InstructPart) -> Traces:
    source = tiny_source("llama", [d.text for d in world.documents[:50]])
    vocabulary = Vocabulary(source.tokenizer, source.architecture.vocabulary)
    chat = chat_format(source.tokenizer.chat_template or "", bos="", eos=source.tokenizer.eos_token)
    with open_search(world.documents, folder) as search:
        return await run_pipeline(part, "apex", world.questions, world.documents, search, vocabulary, chat, k=3)


async def test_every_seed_is_traced_or_counted(world: Material, tmp_path: Path) -> None:
    traces = await made(world, tmp_path, InstructPart("rules"))
    stages = Counter(reason.partition(":")[0] for reason in traces.rejected.elements())
    assert len(traces.episodes) + sum(stages.values()) == len(world.questions)
    assert set(stages) <= {"seed", "generation", "trace"}
    assert len(traces.episodes) > len(world.questions) // 3
    gold = {q.id: q for q in world.questions}
    for e in traces.episodes:
        assert e.question.question != gold[e.question.id].question
        assert e.question.meta["rewritten"] == gold[e.question.id].question
        assert e.answer == gold[e.question.id].answers[0]
        written = [s for t in e.trajectories for s in t.segments if s.kind == "agent"]
        assert written
        assert all(s.token_ids for s in written)


async def test_turns_are_worded_anew_and_searched_with(world: Material, tmp_path: Path) -> None:
    plain = await made(world, tmp_path, InstructPart("rules", plans=False))
    retold = await made(world, tmp_path, InstructPart("rules", plans=False, turns=True))
    texts = [{t.agent_text for e in made.episodes for t in e.trajectories} for made in (plain, retold)]
    assert len(texts[1] - texts[0]) > 10
    shares = []
    for traces in (plain, retold):  # queries in other words go to the real search; refused ones stay as they were
        events = [e for episode in traces.episodes for e in episode.events if e.kind == "search"]
        queries = [q.casefold() for e in events for q in e.data["queries"]]
        shares.append(sum(q.startswith(("who ", "what ", "which ", "when ", "how ")) for q in queries) / len(queries))
    assert shares[1] < shares[0] / 2


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("no tags at all", "generation: malformed"),
        (
            "<question>Who made Blue?</question><plan>1. Who made Blue?\n2. When was #1 born?</plan>",
            "generation: trivial",
        ),
        ("<question>Tell me it.</question><plan>1. Who made it?\n2. When was #1 born?</plan>", "generation: incorrect"),
        ("<question>Say who made Blue.</question><plan>1. Who made Blue?\n2. Who died?</plan>", "generation: flawed"),
    ],
)
async def test_what_a_teacher_gets_wrong_is_counted(
    reply: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = (Step("Who made Blue?", "Ada Vale", "Blue"), Step("When was #1 born?", "1901", "Ada Vale"))
    question = Question("q", "When was the maker of Blue born?", ("1901",), decomposition=steps)
    documents = [Document("1", "Blue", "Ada Vale made Blue."), Document("2", "Ada Vale", "Ada Vale was born in 1901.")]
    monkeypatch.setattr(pipeline, "open_teacher", lambda part, seeds: ScriptedEngine([reply] * 9))
    traces = await made(Material([question], documents), tmp_path, InstructPart("any"))
    assert not traces.episodes
    (found,) = traces.rejected
    assert found.startswith(reason)


async def test_a_teacher_is_one_model(world: Material, tmp_path: Path) -> None:
    script = tmp_path / "replies.jsonl"
    script.write_text('{"reply": "yes"}\n')
    with pytest.raises(ConfigError, match="a teacher is one model"):
        await made(world, tmp_path, InstructPart(f"planner=scripted:{script},executor=scripted:{script}"))


def test_trivial_traces() -> None:
    question = Question("q", "Who made Blue?", ("Ada Vale",))
    searched = Episode("e", question, "apex", "", usage=Usage(searches=1))
    assert trivial(searched) == ""
    assert trivial(replace(searched, usage=Usage())) == "trivial: nothing was searched for"
    told = replace(question, question="Did Ada Vale make Blue, and who was it?")
    assert trivial(replace(searched, question=told)) == "trivial: the question holds its answer"
    choice = replace(told, type="comparison")
    assert trivial(replace(searched, question=choice)) == ""


async def test_articles_come_from_the_source_or_from_search(world: Material, tmp_path: Path) -> None:
    known, sought = world.documents[0], world.documents[1]
    with open_search(world.documents, tmp_path) as search:
        steps = (Step("a", "x", known.title), Step("b", "y", sought.title), Step("c", "z", "No such article"))
        found = await Articles([known], search).of(Question("q", "q", decomposition=steps))
    assert found[known.title] == known.text
    assert sought.text in found[sought.title]
    assert "No such article" not in found


def test_the_rule_teacher_answers_from_articles_alone() -> None:
    steps = (Step("Who made Blue?", "Ada Vale", "Blue"),)
    teacher = RuleTeacher([Question("q", "Who made Blue?", ("Ada Vale",), decomposition=steps)])
    article = "Article: Blue\nAda Vale made Blue.\nQuestion: {}"
    rewritten = teacher.reply(REWRITE, "Question: Who made Blue?\nPlan:\n1. Who made Blue?")
    worded = rewritten.partition("1. ")[2].partition("\n")[0]
    assert worded != "Who made Blue?"
    assert "Blue" in worded
    assert teacher.reply(ANSWER, article.format(worded)) == "<answer>Ada Vale</answer>"
    assert teacher.reply(ANSWER, "Article: Blue\nNobody knows.\nQuestion: Who made Blue?") == "<answer>None</answer>"


def test_the_recipe_runs_the_pipeline() -> None:
    recipe = load_recipe(RECIPES / "apex-exec-smoke.toml")
    traces = gold_traces(recipe, tiny_source("llama", ["text"]))
    assert len(traces) > 5
    assert any(reason.startswith(("generation:", "trace:")) for reason in traces.rejected)
    assert 0 < traces.actions.sum() < len(traces.ids) // 2  # what the environment said is masked


def test_the_recipe_learns_no_planner_turn() -> None:
    recipe = load_recipe(RECIPES / "apex-exec-smoke.toml")
    source = tiny_source("llama", ["text"])
    vocabulary = Vocabulary(source.tokenizer, source.architecture.vocabulary)
    everyone = replace(recipe, data=tuple(replace(part, roles=()) for part in recipe.data))
    plans, roles = [], []
    for learnt in (everyone, recipe):
        traces = gold_traces(learnt, source)
        batch = traces.batch(range(len(traces)))
        plans.append("<plan>" in vocabulary.decode(batch.targets.tolist()))
        starts = [0, *traces.lengths.cumsum().tolist()[:-1]]
        openings = [vocabulary.decode(traces.ids[at : at + 300].tolist()) for at in starts]
        roles.append({"planner" if "split a question" in text else "other" for text in openings})
    assert plans == [True, False]
    assert roles == [{"planner", "other"}, {"other"}]
