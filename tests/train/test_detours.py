"""Gold traces in which something goes wrong at first."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from subquest.engine.chat_format import CHATML
from subquest.engine.torch.vocabulary import Vocabulary
from subquest.process import run_sync
from subquest.record import Document, Question, Step, Trajectory
from subquest.retrieval import Index
from subquest.train.data import open_search
from subquest.train.detours import Detour, MissingSearch, detour_of
from subquest.train.facts import facts_of
from subquest.train.random_model import tiny_source
from subquest.train.teacher import Traces, make_traces
from subquest.worlds import World, make_world

CHAIN = Question(
    "chain",
    "Where was the architect of the Orvane Bridge born?",
    ("Kestel",),
    hops=2,
    supporting_titles=("Orvane Bridge", "Mila Torrun"),
    supporting_ids=("a", "b"),
    decomposition=(
        Step("Who was the architect of the Orvane Bridge?", "Mila Torrun", "Orvane Bridge"),
        Step("Where was #1 born?", "Kestel", "Mila Torrun"),
    ),
)
SINGLE = Question(
    "one",
    "Who drew up the Orvane Bridge?",
    ("Mila Torrun",),
    hops=1,
    supporting_titles=("Orvane Bridge",),
    supporting_ids=("a",),
    decomposition=(Step("Who was the architect of the Orvane Bridge?", "Mila Torrun", "Orvane Bridge"),),
)
DOCUMENTS = [
    Document("a", "Orvane Bridge", "The Orvane Bridge spans the Sel. Its architect was Mila Torrun."),
    Document("b", "Mila Torrun", "Mila Torrun was born in Kestel. She was an architect."),
    Document("c", "Sel", "The Sel is a river with a bridge, the Orvane Bridge, and many boats."),
    Document("d", "Ada Brandt", "Ada Brandt was born in Pell. She was an architect of bridges."),
]


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    source = tiny_source()
    return Vocabulary(source.tokenizer, source.architecture.vocabulary)


def traced(folder: Path, vocabulary: Vocabulary, question: Question, detours: float, system: str = "coda") -> Traces:
    with open_search(DOCUMENTS, folder) as search:
        settings = {"refine": False, "look_first": True} if system == "coda" else {}
        making = make_traces(
            system, [question], search, vocabulary, CHATML, detours=detours, prompts="full", k=1, **settings
        )
        return run_sync(making)


def learnt(trajectory: Trajectory) -> str:
    return "\n".join(s.text for s, own in zip(trajectory.segments, trajectory.actions, strict=True) if own)


def test_a_detour_is_always_the_same_and_as_frequent_as_wanted() -> None:
    facts = facts_of(CHAIN)
    assert detour_of(CHAIN, facts, 0.0) is None
    everything = detour_of(CHAIN, facts, 1.0)
    assert everything == Detour({fact.task: fact for fact in facts}, True)
    many = [detour_of(Question(str(n), "?", ("x",)), facts, 0.25, seed=3) for n in range(400)]
    assert many == [detour_of(Question(str(n), "?", ("x",)), facts, 0.25, seed=3) for n in range(400)]
    missed = sum(len(found.missed) for found in many if found)
    assert 150 < missed < 250, "a quarter of 800 steps"
    assert 70 < sum(found.whole for found in many if found) < 130


def test_a_fact_that_is_missed_leaves_its_place_to_others(tmp_path: Path) -> None:
    facts = facts_of(CHAIN)
    with open_search(DOCUMENTS, tmp_path) as search:
        missing = MissingSearch(search, CHAIN, Detour({facts[0].task: facts[0]}, False))
        straight = run_sync(search.retrieve([facts[0].task, "Mila Torrun"], 2))
        found = run_sync(missing.retrieve([facts[0].task, "Mila Torrun"], 2))
    assert straight[0][0].document.id == "a"
    assert [hit.document.id for hit in found[0]] == ["c", "d"], "neither the passage nor others with the answer"
    assert found[1] == straight[1]


def test_executors_learn_to_find_it_by_their_second_search(tmp_path: Path, vocabulary: Vocabulary) -> None:
    found = traced(tmp_path, vocabulary, CHAIN, 1.0)
    assert len(found.episodes) == 1, found.rejected
    executors = found.episodes[0].by_role("executor")
    assert [t.result for t in executors] == ["Mila Torrun", "Kestel"]
    for executor, names in zip(executors, ("Orvane Bridge", "Mila Torrun"), strict=True):
        assert f"<search>{names}</search>" in learnt(executor)


def test_only_what_follows_a_whole_question_is_learnt(tmp_path: Path, vocabulary: Vocabulary) -> None:
    episode = traced(tmp_path, vocabulary, CHAIN, 1.0).episodes[0]
    (planner,) = episode.by_role("planner")
    whole = f"<task>{CHAIN.question}</task>"
    assert whole in planner.text
    assert whole not in learnt(planner)
    first = learnt(planner).split("\n")[0]
    assert first.startswith("Known: nothing yet. I ask for one fact after the other. Needed: 1. Who was the architect")
    assert CHAIN.question not in [t.task for t in episode.by_role("executor")]


def test_a_question_about_one_fact_is_handed_on_and_found_by_the_second_search(
    tmp_path: Path, vocabulary: Vocabulary
) -> None:
    episode = traced(tmp_path, vocabulary, SINGLE, 1.0).episodes[0]
    (planner,) = episode.by_role("planner")
    (executor,) = episode.by_role("executor")
    assert f"<task>{SINGLE.question}</task>" in learnt(planner), "that is no mistake"
    assert "<search>Orvane Bridge</search>" in learnt(executor)
    assert executor.result == "Mila Torrun"


def test_a_detour_that_leads_nowhere_is_left_out(tmp_path: Path, vocabulary: Vocabulary) -> None:
    """RAG searches once: what it misses it cannot look for again."""
    straight, astray = (traced(tmp_path / str(n), vocabulary, SINGLE, n, "rag") for n in (0, 1))
    assert [t.token_ids for t in astray.episodes[0].trajectories] == [
        t.token_ids for t in straight.episodes[0].trajectories
    ]


@pytest.fixture(scope="module")
def world() -> World:
    return make_world(seed=11, articles=160, questions=24, hops=(1, 2, 3))


@pytest.fixture(scope="module")
def index(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    with Index.build(tmp_path_factory.mktemp("detours") / "world.sq", world.documents) as index:
        yield index


@pytest.mark.parametrize("system", ["coda", "search-r1", "autorefine", "decor", "apex"])
@pytest.mark.parametrize("prompts", ["full", "compact"])
def test_no_question_is_lost_by_its_detour(
    system: str, prompts: str, world: World, index: Index, vocabulary: Vocabulary
) -> None:
    def made(detours: float) -> Traces:
        how = {"prompts": prompts, "document_tokens": 2000, "detours": detours}
        return run_sync(make_traces(system, world.questions, index, vocabulary, CHATML, **how))  # type: ignore[arg-type]

    straight, astray = made(0.0), made(0.6)
    assert len(astray.episodes) >= len(straight.episodes)
    searches = [sum(e.kind == "search" for episode in t.episodes for e in episode.events) for t in (straight, astray)]
    assert searches[1] > searches[0] - (system == "decor"), "DECOR's compact prompts have no other query for a fact"
