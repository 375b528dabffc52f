"""Gold traces: the real systems with a teacher in the model's place, on a real index of a small world."""

from pathlib import Path

import pytest

from subquest import sync
from subquest.engine.chat import CHATML
from subquest.engine.torch.tokens import Vocabulary
from subquest.metrics import exact_match
from subquest.record import Question, Step
from subquest.retrieval import Index
from subquest.train.data import load_material, open_search
from subquest.train.gold import Fact, Reader, facts_of, teacher_for
from subquest.train.recipe import DataPart
from subquest.train.teacher import Traces, make_traces
from subquest.train.tiny import tiny_source
from subquest.worlds import World, make_world

REAL = Path(__file__).resolve().parents[3] / "shared" / "data" / "train"
SYSTEMS = ("coda", "search-r1", "autorefine", "decor", "apex", "rag")


@pytest.fixture(scope="module")
def world() -> World:
    return make_world(seed=11, articles=160, questions=24, hops=(1, 2, 3))


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    source = tiny_source()
    return Vocabulary(source.tokenizer, source.architecture.vocabulary)


@pytest.fixture(scope="module")
def index(world: World, tmp_path_factory: pytest.TempPathFactory) -> Index:
    return Index.build(tmp_path_factory.mktemp("gold") / "world.sq", world.documents)


def traces(system: str, world: World, index: Index, vocabulary: Vocabulary) -> Traces:
    return sync.run(make_traces(system, world.questions, index, vocabulary, CHATML))


@pytest.mark.parametrize("system", SYSTEMS)
def test_traces_are_right_and_well_formed(system: str, world: World, index: Index, vocabulary: Vocabulary) -> None:
    found = traces(system, world, index, vocabulary)
    assert len(found.episodes) + sum(found.rejected.values()) == len(world.questions)
    assert len(found.episodes) >= (5 if system == "rag" else 12), found.rejected
    for episode in found.episodes:
        assert exact_match(episode.answer, episode.question.answers)
        for trajectory in episode.trajectories:
            assert trajectory.has_tokens
            assert not trajectory.format_errors
            assert 1 in trajectory.action_mask
            assert trajectory.action_mask[0] == 0


def test_tokens_are_the_texts_own(world: World, index: Index, vocabulary: Vocabulary) -> None:
    trajectory = traces("coda", world, index, vocabulary).episodes[0].trajectories[0]
    end = list(vocabulary.encode("<|im_end|>", True))
    for segment in trajectory.segments:
        ids = list(segment.token_ids)
        if segment.kind == "agent":
            assert ids[-1:] == end
            ids = ids[:-1]
        assert vocabulary.decode(ids) == segment.text


def test_refined_text_stands_in_the_supporting_passage(world: World, index: Index, vocabulary: Vocabulary) -> None:
    texts = " ".join(" ".join(d.text.split()) for d in world.documents)
    checked = 0
    for episode in traces("coda", world, index, vocabulary).episodes:
        for executor in episode.by_role("executor"):
            refined = executor.segments[-1].text.partition("<refine>")[2].partition("</refine>")[0]
            assert refined.rstrip(" …") in texts
            checked += 1
    assert checked > 12


def test_references_are_filled_in() -> None:
    question = Question("q", "?", ("C",), decomposition=(Step("Who made A?", "B"), Step("Where was #1 born?", "C")))
    assert [f.task for f in facts_of(question)] == ["Who made A?", "Where was B born?"]


def test_a_question_without_a_plan_is_one_step() -> None:
    assert facts_of(Question("q", "Who?", ("A",), supporting_titles=("T",))) == [Fact("Who?", "A", "")]


@pytest.mark.parametrize(
    ("answer", "results", "reckoning"),
    [
        ("21", ("1961", "1982"), "1982 - 1961 = 21"),
        ("56", ("October 28, 1916", "23 February 1973"), "1973 - 1916 = 57, less 1 before the day: 56"),
        ("no", ("1,037 metres", "98 metres"), "98 < 1037"),
        ("Ann", ("Ann and Bo", "3 May 1901", "4 May 1880"), "1880 < 1901"),
        ("Ann", ("Ann", "3 May 1901", "4 May 1901"), ""),
        ("7", ("1961", "1982"), ""),
    ],
)
def test_numbers_are_reckoned_with(answer: str, results: tuple[str, ...], reckoning: str) -> None:
    steps = tuple(Step(f"Step {'abc'[n]}?", r) for n, r in enumerate(results))
    question = Question("q", "?", (answer,), decomposition=steps, type="temporal")
    thought = Reader(question, facts_of(question)).conclusion()
    assert thought.removesuffix("</think>").endswith(f"{results[-1]}; {reckoning}" if reckoning else results[-1])


def test_a_passage_that_is_not_there_is_not_read() -> None:
    fact = Fact("Where was Mila Torrun born?", "Kestel", "Mila Torrun")
    reader = Reader(Question("q", "?", ("Kestel",)), [fact])
    passages = "Doc 1(Title: Else) Nothing.\nDoc 2(Title: Mila Torrun) She wrote. She was born in Kestel.\n"
    there = f"<documents>{passages}</documents>"
    assert reader.read(fact, there) == "She was born in Kestel."
    assert reader.read(fact, there.replace("Title: Mila Torrun", "Title: Mila Torun")) is None


@pytest.mark.parametrize(
    ("question", "reason"),
    [
        (Question("q", "?", ("A",)), "no gold plan"),
        (Question("q", "?", (), decomposition=(Step("x", "y"),)), "no gold answer"),
        (Question("q", "?", ("A",), decomposition=(Step("x"),)), "no gold plan"),
        (Question("q", "?", ("yes",), supporting_titles=("T",)), "no gold plan"),
    ],
)
def test_questions_that_cannot_be_taught_are_named(question: Question, reason: str) -> None:
    assert teacher_for("coda", question) == reason
    assert teacher_for("direct", question) == "no teacher for direct"


def test_a_fact_that_search_does_not_bring_is_counted(world: World, vocabulary: Vocabulary, tmp_path: Path) -> None:
    gone = [d for d in world.documents if d.title not in {t for q in world.questions for t in q.supporting_titles}]
    index = Index.build(tmp_path / "gone.sq", gone)
    found = traces("coda", world, index, vocabulary)
    assert not found.episodes
    assert found.rejected["the fact was not retrieved"] == len(world.questions)


@pytest.mark.skipif(not REAL.is_dir(), reason="the real question sets are not beside the checkout")
@pytest.mark.parametrize(("name", "least"), [("2wikimultihopqa", 30), ("musique", 5)])
def test_real_plans_give_traces(name: str, least: int, vocabulary: Vocabulary, tmp_path: Path) -> None:
    part = DataPart(str(REAL / f"{name}_train.jsonl.gz"), (str(REAL / f"{name}_train_corpus.jsonl.gz"),), limit=60)
    material = load_material([part])
    assert not any(">>" in step.question for q in material.questions for step in q.decomposition)
    with open_search(material.documents, tmp_path) as search:
        found = sync.run(make_traces("coda", material.questions, search, vocabulary, CHATML))
    assert len(found.episodes) >= least, found.rejected


def test_a_count_is_read_from_the_list_it_counts() -> None:
    fact = Fact("How many films did Ada Orn direct?", "3", "Ada Orn")
    reader = Reader(Question("q", "?", ("3",)), [fact])
    listed = 'Orn made "A" (1963), "B" (1970) and "C" (1984).'
    assert reader.read(fact, f"Doc 1(Title: Ada Orn) Ada Orn, who directed plays, lived in Ys. {listed}") == listed
