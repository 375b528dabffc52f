"""Worlds as a whole: sound on many seeds, deterministic, leak-free between splits, hard for one retrieval."""

import hashlib
import json
import math
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from subquest.errors import UsageError
from subquest.worlds import Recipe, World, check_world, make_world, write_world


@pytest.fixture(scope="module")
def world() -> World:
    return make_world(seed=11, articles=1200, questions=400)


@pytest.mark.parametrize("seed", range(20))
def test_worlds_of_twenty_seeds_are_sound(seed: int, tmp_path: Path) -> None:
    recipe = Recipe(seed=seed, articles=240 + seed, questions=60, hops=tuple(range(1, 9)), unanswerable=0.1)
    written = write_world(tmp_path, recipe)
    report = check_world(tmp_path)
    assert report.problems == []
    assert written.articles == report.articles == recipe.articles
    assert report.questions == recipe.questions
    assert report.types["unanswerable"] >= 5


def test_asks_every_type_and_tells_every_relation(tmp_path: Path) -> None:
    recipe = Recipe(seed=5, articles=2400, questions=900, hops=tuple(range(1, 9)))
    write_world(tmp_path, recipe)
    report = check_world(tmp_path)
    assert report.sound
    assert set(report.types) == set(recipe.types)
    assert set(report.hops) == set(range(1, 9))
    assert len(report.relations) >= 100
    assert len(report.kinds) == 26


def test_same_bytes_for_any_number_of_workers_and_any_hash_seed(tmp_path: Path) -> None:
    recipe = Recipe(seed=9, articles=2000, questions=60)
    write_world(tmp_path / "one", recipe, workers=1)
    code = (
        "from pathlib import Path; from subquest.worlds import *; import sys\n"
        "recipe = Recipe(seed=9, articles=2000, questions=60)\n"
        "if __name__ == '__main__': write_world(Path(sys.argv[1]), recipe, workers=2)\n"
    )
    script = tmp_path / "make.py"
    script.write_text(code)
    env = {**os.environ, "PYTHONHASHSEED": "12345"}
    subprocess.run([sys.executable, str(script), str(tmp_path / "two")], check=True, env=env)
    for name in ("corpus.jsonl", "questions.jsonl", "facts.jsonl", "redirects.jsonl", "world.json"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_manifest_names_the_checksums(tmp_path: Path) -> None:
    write_world(tmp_path, Recipe(seed=1, articles=200, questions=10))
    manifest = json.loads((tmp_path / "world.json").read_text())
    for name, row in manifest["files"].items():
        data = (tmp_path / name).read_bytes()
        assert row == {"lines": data.count(b"\n"), "sha256": hashlib.sha256(data).hexdigest()}


def test_splits_share_no_entity() -> None:
    titles, names = {}, {}
    for split in ("train", "dev", "test"):
        made = make_world(seed=4, articles=900, questions=0, split=split)
        titles[split] = {a.entity.title for a in made.articles}
        names[split] = {a.entity.name for a in made.articles}
    for a, b in (("train", "dev"), ("train", "test"), ("dev", "test")):
        assert not titles[a] & titles[b]
        assert not names[a] & names[b]


def test_held_out_phrasings_are_not_those_of_training() -> None:
    opening = re.compile(r"^(\w+ \w+ \w+)")
    train = make_world(seed=2, articles=800, questions=200, types=("single",), phrasings="train")
    test = make_world(seed=2, articles=800, questions=200, types=("single",), phrasings="held-out")
    asked = {_blank(q.question, train) for q in train.questions}
    held_out = [_blank(q.question, test) for q in test.questions]
    assert all(opening.match(q.question) for q in test.questions)
    assert not asked & set(held_out)


def _blank(question: str, world: World) -> str:
    """The question without its names: capitalised words and numbers after the first word are dropped."""
    first, *rest = question.split()
    return " ".join([first, *(w for w in rest if not w[0].isupper() and not w[0].isdigit() and w[0] != '"')])


def test_near_duplicates_aliases_and_shared_surnames(world: World) -> None:
    names = Counter(a.entity.name for a in world.articles)
    people = [a.entity for a in world.articles if a.entity.kind == "person"]
    surnames = Counter(p.name.rsplit(" ", 1)[1] for p in people)
    assert sum(c > 1 for c in names.values()) >= 5
    assert max(surnames.values()) >= 10
    assert len(world.redirects) >= 20
    texts = {a.entity.title: a.text for a in world.articles}
    assert all(alias in texts[title] for alias, title in world.redirects.items())


def test_articles_are_as_long_as_encyclopaedia_paragraphs(world: World) -> None:
    lengths = sorted(len(a.text.split()) for a in world.articles)
    assert 80 <= lengths[len(lengths) // 2] <= 120
    assert lengths[0] >= 25


def test_articles_read_like_english(world: World) -> None:
    for article in world.articles:
        text = article.text
        assert not re.search(
            r"[{}\[\]~#|]|  | ,| \.|\.\.|\ba [aeio]\w|\b(of|to|by|for|with|from) (he|she|they)\b", text
        ), text
        assert not re.search(r"\b(\w+) \1\b(?! \w+ing)", text) or re.search(r"that that|had had", text), text
        assert text[0].isupper() or text[0] == '"'


def test_steps_refer_only_to_earlier_steps(world: World) -> None:
    for q in world.questions:
        for n, step in enumerate(q.decomposition, 1):
            assert all(int(m) < n for m in re.findall(r"#(\d+)", step.question))
        assert q.hops == len(q.decomposition)
        assert len(q.supporting_titles) == len(q.supporting_ids) <= q.hops


def test_answers_are_not_given_away(world: World) -> None:
    for q in world.questions:
        if q.type in ("single", "compositional", "bridge", "inference"):
            assert not any(a.lower() in q.question.lower() for a in q.answers)


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"articles": 10}, "at least 160"),
        ({"split": "validation"}, "unknown split"),
        ({"hops": (9,)}, "1 to 8"),
        ({"types": ("riddle",)}, "unknown question type"),
        ({"types": ("comparison",), "hops": (5,)}, "no question of type comparison has 5 hops"),
        ({"noise": -1.0}, "noise must lie"),
        ({"phrasings": "some"}, "unknown phrasings"),
    ],
)
def test_wrong_knobs_are_named(knobs: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Recipe(**knobs)  # type: ignore[arg-type]


class Bm25:
    """The textbook formula, k1 1.2 and b 0.75, over title and text."""

    def __init__(self, texts: dict[str, str]) -> None:
        self.ids = list(texts)
        counts = [Counter(self.words(t)) for t in texts.values()]
        lengths = [sum(c.values()) for c in counts]
        mean = sum(lengths) / len(lengths)
        frequency = Counter(w for c in counts for w in c)
        self.postings: dict[str, list[tuple[int, float]]] = {}
        for i, (count, length) in enumerate(zip(counts, lengths, strict=True)):
            for word, tf in count.items():
                idf = math.log(1 + (len(texts) - frequency[word] + 0.5) / (frequency[word] + 0.5))
                score = idf * tf * 2.2 / (tf + 1.2 * (0.25 + 0.75 * length / mean))
                self.postings.setdefault(word, []).append((i, score))

    @staticmethod
    def words(text: str) -> list[str]:
        return re.findall(r"\w+", text.lower())

    def top(self, query: str, k: int) -> list[str]:
        scores: dict[int, float] = {}
        for word in set(self.words(query)):
            for i, score in self.postings.get(word, ()):
                scores[i] = scores.get(i, 0.0) + score
        return [self.ids[i] for i in sorted(scores, key=lambda i: (-scores[i], i))[:k]]


def test_one_retrieval_cannot_answer_multi_hop_questions(world: World) -> None:
    """Planning matters: BM25 finds the one article of a 1-hop question, but not all those of a 2-hop one."""
    index = Bm25({d.id: f"{d.title} {d.text}" for d in world.documents})
    found: dict[str, list[bool]] = {"one": [], "more": [], "step": []}
    for q in world.questions:
        hits = index.top(q.question, 5)
        if q.type in ("single", "compositional", "bridge", "inference"):
            found["one" if q.hops == 1 else "more"].append(all(i in hits for i in q.supporting_ids))
        titles = dict(zip(q.supporting_ids, q.supporting_titles, strict=True))
        for step in q.decomposition:
            asked = step.question
            for n, earlier in enumerate(q.decomposition, 1):
                asked = re.sub(rf"#{n}\b", earlier.answer, asked)
            found["step"].append(any(titles.get(h) == step.support for h in index.top(asked, 5)))
    rate = {k: sum(v) / len(v) for k, v in found.items()}
    print(rate)
    assert rate["one"] >= 0.95
    assert rate["more"] <= 0.45
    assert rate["step"] >= 0.93
