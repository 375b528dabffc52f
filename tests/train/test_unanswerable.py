"""Questions whose passages were taken out: what is chosen, what teachers then write, what it is worth."""

import json
from pathlib import Path

import pytest

from subquest.engine.chat_format import CHATML
from subquest.engine.torch.vocabulary import Vocabulary
from subquest.errors import ConfigError
from subquest.evaluate.score import score
from subquest.process import run_sync
from subquest.record import Document, Episode, Question, Step
from subquest.rewards import load
from subquest.train.data import load_material, open_search
from subquest.train.facts import Fact
from subquest.train.gold import GoldTeacher
from subquest.train.random_model import tiny_source
from subquest.train.recipe import DataPart, load_recipe
from subquest.train.teacher import Traces, make_traces
from subquest.train.unanswerable import withhold

DOCUMENTS = [
    Document("a", "Orvane Bridge", "The Orvane Bridge was designed by Mila Torrun."),
    Document("b", "Mila Torrun", "Mila Torrun was born in Kestel."),
    Document("c", "Kestel", "Kestel is a town of mills."),
    Document("d", "Ada Orn", "Ada Orn was born in Ys."),
    Document("e", "Ys", "Ys is where Ada Orn was born, on the coast."),
]
CHAIN = Question(
    "chain",
    "Where was the designer of the Orvane Bridge born?",
    ("Kestel",),
    hops=2,
    type="bridge",
    supporting_titles=("Orvane Bridge", "Mila Torrun"),
    supporting_ids=("a", "b"),
    decomposition=(
        Step("Who designed the Orvane Bridge?", "Mila Torrun", "Orvane Bridge"),
        Step("Where was #1 born?", "Kestel", "Mila Torrun"),
    ),
)
ELSEWHERE = Question("else", "Where was Ada Orn born?", ("Ys",), supporting_titles=("Ada Orn",), supporting_ids=("d",))


def test_an_answer_that_stands_elsewhere_is_not_withheld() -> None:
    found = withhold([CHAIN, ELSEWHERE], DOCUMENTS, 1.0, seed=0)
    assert [q.answers for q in found.questions] == [("unknown",), ("Ys",)]
    assert found.questions[0].unanswerable
    assert found.passages == {"a", "b"}


def test_what_another_question_rests_on_stays() -> None:
    other = Question("other", "Who was born in Kestel?", ("Mila Torrun",), supporting_ids=("b",))
    assert not withhold([CHAIN, other], DOCUMENTS, 0.5, seed=0).passages
    assert not withhold([CHAIN], DOCUMENTS, 1.0, seed=0, keep={"a"}).passages


def test_questions_that_rest_on_one_passage_are_chosen_together() -> None:
    asked = "Who designed the Orvane Bridge?"
    single = Question("single", asked, ("Mila Torrun",), supporting_titles=("Orvane Bridge",), supporting_ids=("a",))
    found = withhold([CHAIN, single, ELSEWHERE], DOCUMENTS, 0.67, seed=0)
    assert [q.unanswerable for q in found.questions] == [True, True, False]
    assert "a" in found.passages
    told = Document("f", "Dams", "Mila Torrun, who designed the Orvane Bridge, also designed dams.")
    assert not withhold([CHAIN, single, ELSEWHERE], [*DOCUMENTS, told], 0.67, seed=0).passages


def test_a_source_without_its_passages(tmp_path: Path) -> None:
    rows = [{"id": d.id, "title": d.title, "text": d.text} for d in DOCUMENTS]
    (tmp_path / "corpus.jsonl").write_text("\n".join(map(json.dumps, rows)))
    asked = {"id": "chain", "question": CHAIN.question, "answers": ["Kestel"], "supporting_ids": ["a", "b"]}
    (tmp_path / "questions.jsonl").write_text(json.dumps(asked) + "\n")
    part = DataPart(str(tmp_path / "questions.jsonl"), (str(tmp_path / "corpus.jsonl"),), unanswerable=1.0)
    found = load_material([part])
    assert found.questions[0].answers == ("unknown",)
    assert [d.id for d in found.documents] == ["c", "d", "e"]
    assert found.withheld == {"a", "b"}


def test_a_source_none_of_whose_questions_can_be_unanswerable(tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl").write_text(json.dumps({"id": "a", "title": "Ys", "text": "Ys is a town."}))
    (tmp_path / "questions.jsonl").write_text(json.dumps({"id": "q", "question": "Where?", "answers": ["Ys"]}) + "\n")
    part = DataPart(str(tmp_path / "questions.jsonl"), (str(tmp_path / "corpus.jsonl"),), unanswerable=0.1)
    with pytest.raises(ConfigError, match=r"unanswerable = 0\.1, but none of its questions can .* supporting_ids"):
        load_material([part])


@pytest.mark.parametrize(("questions", "share", "wanted"), [(20, 0.2, 4), (8, 0.1, 1), (4, 0.1, 1), (10, 0.0, 0)])
def test_worlds_say_unknown_where_no_article_answers(questions: int, share: float, wanted: int) -> None:
    """Whether the world asks for what it does not state, or a source's passages are taken out of the search."""
    world = f"world:seed=3,articles=160,questions={questions}"
    made = load_material([DataPart(f"{world},unanswerable={share}")])
    taken = load_material([DataPart(world, unanswerable=share)])
    for found in (made, taken):
        assert sum(q.unanswerable for q in found.questions) == wanted
        assert len(found.questions) == questions
    assert not made.withheld
    gone = {id for q in taken.questions if q.unanswerable for id in q.supporting_ids}
    assert taken.withheld <= gone
    assert len(taken.withheld) >= wanted
    assert not taken.withheld & {d.id for d in taken.documents}


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    source = tiny_source()
    return Vocabulary(source.tokenizer, source.architecture.vocabulary)


def traced(system: str, folder: Path, vocabulary: Vocabulary, gone: set[str], prompts: str) -> Traces:
    question = Question(**{f: getattr(CHAIN, f) for f in CHAIN.__struct_fields__} | {"answers": ("unknown",)})
    with open_search([d for d in DOCUMENTS if d.id not in gone], folder) as search:
        made = make_traces(system, [question], search, vocabulary, CHATML, prompts=prompts, abstain=True)
        return run_sync(made)


@pytest.mark.parametrize("system", ["coda", "search-r1", "autorefine", "decor", "apex", "rag"])
@pytest.mark.parametrize("prompts", ["full", "compact"])
def test_teachers_abstain(system: str, prompts: str, tmp_path: Path, vocabulary: Vocabulary) -> None:
    found = traced(system, tmp_path, vocabulary, {"b"}, prompts)
    assert len(found.episodes) == 1, found.rejected
    episode = found.episodes[0]
    assert episode.stop_reason == "abstained"
    assert score(episode)["em"] == 1.0
    assert not any("Kestel" in turn for t in episode.trajectories for turn in t.written_turns), "nobody can know it"


def test_a_question_that_is_answered_all_the_same_is_no_trace(tmp_path: Path, vocabulary: Vocabulary) -> None:
    found = traced("coda", tmp_path, vocabulary, set(), "full")
    assert found.rejected == {"the documents answer it although they should not": 1}


def test_the_planner_stops_where_the_first_step_fails(tmp_path: Path, vocabulary: Vocabulary) -> None:
    episode = traced("coda", tmp_path, vocabulary, {"a", "b"}, "full").episodes[0]
    assert [t.result for t in episode.by_role("executor")] == ["Not found: no document answers the task."]


@pytest.mark.parametrize(("stop_reason", "reward"), [("abstained", 5.0), ("answered", -1.0)])
def test_unknown_is_paid_where_nothing_can_be_known(stop_reason: str, reward: float, tmp_path: Path) -> None:
    vocabulary_of = tiny_source()
    vocabulary = Vocabulary(vocabulary_of.tokenizer, vocabulary_of.architecture.vocabulary)
    made = traced("coda", tmp_path, vocabulary, {"b"}, "full").episodes[0]
    kept = {f: getattr(made, f) for f in made.__struct_fields__}
    episode = Episode(**kept | {"stop_reason": stop_reason, "answer": "" if stop_reason == "abstained" else "Ys"})
    assert run_sync(load("coda").score([episode]))[0].total == pytest.approx(reward)


def test_a_recipe_that_forbids_unknown_is_refused(tmp_path: Path) -> None:
    source = '[[data]]\nquestions = "x.jsonl"\nunanswerable = 0.1\n'
    (tmp_path / "r.toml").write_text(f'name = "x"\nkind = "sft"\n[model]\npath = "random:llama"\n{source}')
    with pytest.raises(ConfigError, match="set abstain = true"):
        load_recipe(tmp_path / "r.toml")
    assert load_recipe(tmp_path / "r.toml", {"abstain": True}).data[0].unanswerable == 0.1


def test_a_step_without_an_answer_is_never_read() -> None:
    """Worlds ask for facts that no article states: the last step has no answer, and none may be made of a passage."""
    question = Question("q", "Where was Ada Orn born?", ("unknown",), supporting_titles=("Ada Orn",))
    fact = Fact("Where was Ada Orn born?", "", "")
    assert GoldTeacher(question, [fact]).read(fact, "Doc 1(Title: Ada Orn) Ada Orn wrote books.") is None
