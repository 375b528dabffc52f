"""Judgements to learn from: the prompt of use, passages that were really found, nothing held out, twice the same."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from subquest.engine.torch import TorchEngine
from subquest.engine.torch.vocabulary import Vocabulary
from subquest.errors import ConfigError
from subquest.metrics import contains_answer
from subquest.record import Document, Hit, Question, Step
from subquest.retrieval.index import Index
from subquest.retrieval.rerank import Pointwise, judgement
from subquest.train import rerank_traces as judging
from subquest.train.components import make_policy
from subquest.train.data import Material, load_material, open_search
from subquest.train.gold_traces import gold_traces
from subquest.train.optimiser import Optimiser
from subquest.train.random_model import tiny_source
from subquest.train.recipe import DataPart, ModelPart, OptimiserPart, Recipe, load_recipe
from subquest.train.traces import TraceSet, join, traces_of

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT / ".." / "shared" / "data"


@pytest.fixture(scope="module")
def world() -> Material:
    return load_material([DataPart("world:seed=5,articles=200,questions=60,hops=1+2+3")])


@pytest.fixture(scope="module")
def index(world: Material, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    with open_search(world.documents, tmp_path_factory.mktemp("index")) as found:
        yield found


def test_yes_supports_and_no_does_not(world: Material, index: Index) -> None:
    made = list(judging.judgements(world.questions, world.documents, index))
    asked = {group[0].query for _, group in made}
    assert {q.question for q in world.questions} & asked
    steps = 0
    for question, group in made:
        support = set(question.supporting_ids)
        verdicts = Counter(j.helps for j in group)
        assert verdicts[True] == verdicts[False] > 0
        assert len({j.document.id for j in group}) == len(group)
        found = {hit.document.id for hit in index.search(group[0].query, judging.REACH)}
        step = group[0].query != question.question
        steps += step
        for judged in group:
            if judged.helps:
                assert judged.document.id in support & found
            elif step or len(support) == 1:
                answers = [s.answer for s in question.decomposition] if step else [question.answers[0]]
                assert any(not contains_answer(judged.document.text, a) for a in answers)
            else:
                assert judged.document.id not in support
    assert steps > 30
    first = [group[0].helps for _, group in made]
    assert 0.3 < sum(first) / len(first) < 0.7  # the order does not tell


def test_a_step_is_asked_as_a_planner_asks_it_and_other_steps_support_is_no_help(tmp_path: Path) -> None:
    documents = [
        Document("a", "Orvane Bridge", "The Orvane Bridge was designed by Mira Tolsen in 1901."),
        Document("b", "Mira Tolsen", "Mira Tolsen was born in Vestrup."),
        Document("c", "Orvane", "Orvane is a town with a bridge where someone was born."),
    ]
    plan = (Step("Who designed the Orvane Bridge?", "Mira Tolsen"), Step("Where was #1 born?", "Vestrup"))
    question = Question(
        "q", "Where was the designer of the Orvane Bridge born?", ("Vestrup",), split="train", decomposition=plan,
        supporting_titles=("Orvane Bridge", "Mira Tolsen"), supporting_ids=("a", "b"),
    )  # fmt: skip
    with open_search(documents, tmp_path) as index:
        made = {
            group[0].query: {(j.document.id, j.helps) for j in group}
            for _, group in judging.judgements([question] * 4, documents, index)
        }
        assert list(made) == [question.question, "Who designed the Orvane Bridge?", "Where was Mira Tolsen born?"]
        assert made[question.question] == {("a", True), ("c", False)}  # as many of no as there are
        assert ("b", True) in made["Where was Mira Tolsen born?"]
        assert ("b", False) not in made["Where was Mira Tolsen born?"]
        assert ("a", False) not in made["Who designed the Orvane Bridge?"]
        with pytest.raises(ConfigError, match="q is a question of the split dev"):
            list(judging.judgements([replace(question, split="dev")], documents, index))


def test_the_same_twice_and_others_for_a_question_that_comes_again(world: Material, index: Index) -> None:
    few = world.questions[:10]
    once, again = (list(judging.judgements(few, world.documents, index)) for _ in range(2))
    assert once == again
    double = list(judging.judgements(few + few, world.documents, index))
    assert double[: len(once)] == once
    assert double[len(once) :] != once
    assert list(judging.judgements(few, world.documents, index, seed=1)) != once


async def test_the_prompt_learnt_is_the_prompt_used(world: Material, index: Index) -> None:
    source = tiny_source("llama", [d.text for d in world.documents[:50]])
    engine = TorchEngine(source, device="cpu")
    vocabulary = Vocabulary(source.tokenizer, source.architecture.vocabulary)
    made = list(judging.judgements(world.questions[:6], world.documents, index))
    for (_, group), episode in zip(made, judging.episodes(made, vocabulary, engine.chat), strict=True):
        assert episode.system == "rerank"
        for judged, trajectory in zip(group, episode.trajectories, strict=True):
            session = await engine.open(judgement(judged.query, judged.document))
            prompt = [i for s in session.segments for i in s.token_ids]
            written = [i for i, mask in zip(trajectory.token_ids, trajectory.action_mask, strict=True) if mask]
            assert list(trajectory.token_ids) == prompt + written
            assert vocabulary.decode(written) == ("yes" if judged.helps else "no") + "<|im_end|>"
            words = [vocabulary.encode(word, False)[0] for word in ("yes", "no")]
            assert written[0] == words[0 if judged.helps else 1]
    await engine.close()


def test_weights_and_files(world: Material, index: Index, tmp_path: Path) -> None:
    source = tiny_source("llama")
    recipe = Recipe(
        "r", "sft", ModelPart("random:llama"),
        (DataPart("world:seed=5,articles=200,questions=8", systems=("rerank",)),
         DataPart("world:seed=6,articles=200,questions=8", systems=("rag",))),
    )  # fmt: skip
    traces = gold_traces(recipe, source)
    assert set(traces.made_by) == {"rerank", "rag"}
    traces.save(tmp_path / "t.xz")
    read = TraceSet.load(tmp_path / "t.xz")
    of_rerank = traces.made_by["rerank"]
    batch = read.batch([0, of_rerank])
    judged = torch.from_numpy(traces.counts[:1]).sum()
    tokens = len(batch.rows)
    heavy = batch.layout.trajectory < judged
    assert torch.allclose(batch.weights[heavy], torch.tensor(judging.COUNTS / tokens))
    assert torch.allclose(batch.weights[~heavy], torch.tensor(1 / tokens))
    plain = join([TraceSet(t.ids, t.actions, t.lengths, t.counts) for t in (traces,)])
    assert plain.weights is None
    assert join([plain, traces]).weights is not None


async def test_a_small_model_learns_to_judge() -> None:
    """From judgements through training to the reranker: what was learnt is what is asked."""
    names = ["Bara", "Duto", "Kimi", "Lofen", "Negul", "Pusow"]
    documents = {n: Document(n, n, f"{n} lies there.") for n in names}
    made = []
    for n, other in zip(names, names[1:] + names[:1], strict=True):
        asked = f"Where is {n}?"
        pair = [judging.Judgement(asked, documents[n], True), judging.Judgement(asked, documents[other], False)]
        made.append((Question(n, asked), pair))
    prompts = [m.content for _, pair in made for j in pair for m in judgement(j.query, j.document)]
    source = tiny_source("llama", prompts, vocabulary=500)
    engine = TorchEngine(source, device="cpu")
    vocabulary = Vocabulary(source.tokenizer, source.architecture.vocabulary)
    traces = traces_of(judging.episodes(made, vocabulary, engine.chat), weight=judging.COUNTS)
    policy = make_policy(ModelPart("random:llama", rank=0), source, device=torch.device("cpu"), seed=0)
    optimiser = Optimiser(policy, OptimiserPart(learning_rate=3e-3), 60)
    judge = Pointwise(engine, trust=1.0)

    async def right() -> int:
        """How many of the questions get the passage that helps first."""
        first = [(await judge.rerank(q.question, [Hit(j.document, 0.0) for j in pair[::-1]]))[0] for q, pair in made]
        return sum(hit.document.id == q.id and hit.score > 0.9 for hit, (q, _) in zip(first, made, strict=True))

    before = await right()
    for _ in range(60):
        optimiser.sft_step(traces.batch(range(len(traces))))
    engine.refresh(**policy.engine_state(), policy=1)
    assert before < len(made) == await right()
    await engine.close()


def questions_in(path: Path) -> set[str]:
    with gzip.open(path, "rt") as file:
        return {json.loads(line)["question"].strip() for line in file}


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared data sets are not here")
@pytest.mark.parametrize("name", ["rerank-sft-small", "all-sft-small-3"])
def test_recipes_teach_judging_from_train_questions_alone(name: str) -> None:
    parts = [p for p in load_recipe(ROOT / "recipes" / f"{name}.toml").data if "rerank" in p.systems]
    files = {Path(p.questions).name for p in parts if not p.questions.startswith("world:")}
    assert files == {f"{s}_train.jsonl.gz" for s in ("hotpotqa", "2wikimultihopqa", "musique", "squad")}
    assert all(Path(c).name.endswith("_train_corpus.jsonl.gz") for p in parts for c in p.corpus)
    held = [*SHARED.glob("train/*_dev.jsonl.gz"), *SHARED.glob("eval/*_test500.jsonl.gz")]
    learnt = set().union(*(questions_in(SHARED / "train" / f) for f in files))
    assert len(held) == 6
    assert not learnt & set().union(*map(questions_in, held))
