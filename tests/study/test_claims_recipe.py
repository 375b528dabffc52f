"""The recipes of the claims: what they stand for, and what is refused."""

from pathlib import Path

import pytest

from subquest.errors import ConfigError, UsageError
from subquest.models import default_adapter
from subquest.study import find_study, read_study
from subquest.study.results import Results
from subquest.study.stamps import measured
from subquest.study.training import find_adapters, open_progress

BOOK = """
[[source]]
name = "world"
dataset = "world:seeds=1-2,articles=160,questions=3"

[[variant]]
name = "coda"
system = "coda"
settings = { turns = 3 }
adapters = ["none", "peco,seed=1"]
grid = { k = [3, 5] }

[[variant]]
name = "mixed"
system = "apex"
roles = { planner = "shipped", "" = "none" }

[[training]]
name = "peco"
recipe = "rl.toml"
set = { reward = "coda" }
grid = { "reward_options.delta" = [0.5], seed = [0, 1] }

[[claim]]
id = "topk"
paper = "CoDA"
place = "Figure 4"
says = "level"
expect = [["k=5", "mixed"]]
[[claim.row]]
name = "k={}"
variant = "coda,k={}@none"
each = [3, 5]
[[claim.row]]
name = "mixed"
variant = "mixed"
"""


def book(folder: Path, text: str = BOOK) -> Path:
    (folder / "book.toml").write_text(text.replace('["none", "peco,seed=1"]', '["none", "peco,delta=0.5,seed=1"]'))
    return folder


def test_grids_and_adapters_make_arms(tmp_path: Path) -> None:
    found = read_study(book(tmp_path))
    assert list(found.variants) == [
        "coda,k=3@none",
        "coda,k=3@peco,delta=0.5,seed=1",
        "coda,k=5@none",
        "coda,k=5@peco,delta=0.5,seed=1",
        "mixed",
    ]
    assert found.variants["coda,k=5@none"].settings == {"turns": 3, "k": 5}
    assert found.variants["mixed"].adapters == {"planner": "shipped", "": "none"}
    assert found.trainings["peco,delta=0.5,seed=1"].set == {"reward": "coda", "reward_options.delta": 0.5, "seed": 1}
    assert [(r.name, r.variant) for r in found.claims[0].row] == [
        ("k=3", "coda,k=3@none"),
        ("k=5", "coda,k=5@none"),
        ("mixed", "mixed"),
    ]


def test_an_arm_is_asked_what_a_row_shows(tmp_path: Path) -> None:
    more = """
[[source]]
name = "real"
dataset = "real.jsonl"
[[source]]
name = "pictures"
dataset = "world:seeds=1-2,articles=160,questions=3"
pictures = 0.5
"""
    found = read_study(book(tmp_path, BOOK + more))
    assert found.sources_of(found.variants["mixed"]) == ("world", "real")
    assert found.sources_of(found.variants["coda,k=3@peco,delta=0.5,seed=1"]) == ("world", "real")  # in no row
    found = read_study(book(tmp_path, BOOK.replace('says = "level"', 'says = "level"\nsources = ["real"]') + more))
    assert found.sources_of(found.variants["mixed"]) == ("real",)


def test_further_seeds_are_trained_after_the_first(tmp_path: Path) -> None:
    text = BOOK.replace("[0.5]", "[0.1, 0.5]")
    assert [t.name for t in read_study(book(tmp_path, text)).select_trainings(())] == [
        "peco,delta=0.1,seed=0",
        "peco,delta=0.5,seed=0",
        "peco,delta=0.1,seed=1",
        "peco,delta=0.5,seed=1",
    ]


def test_arms_are_chosen_by_name_by_claim_and_by_training(tmp_path: Path) -> None:
    found = read_study(book(tmp_path))
    assert [a.name for a in found.select(["topk"])] == ["coda,k=3@none", "coda,k=5@none", "mixed"]
    assert [a.name for a in found.select(["topk", "!mixed"])] == ["coda,k=3@none", "coda,k=5@none"]
    assert "mixed" not in [a.name for a in found.select(["!mixed"])]
    assert [a.name for a in found.select(["*,k=5@*"])] == ["coda,k=5@none", "coda,k=5@peco,delta=0.5,seed=1"]
    assert [a.name for a in found.using(["peco,*seed=1"])] == [
        "coda,k=3@peco,delta=0.5,seed=1",
        "coda,k=5@peco,delta=0.5,seed=1",
    ]
    with pytest.raises(UsageError, match="no variant or claim is called nothing"):
        found.select(["nothing"])


def test_recipes_of_version_0_1_are_read(tmp_path: Path) -> None:
    """They said `arm` for `variant` and `questions` for the `dataset` of a source."""
    old = BOOK.replace("[[variant]]", "[[arm]]").replace("\nvariant =", "\narm =").replace("dataset =", "questions =")
    (tmp_path / "old").mkdir()
    (tmp_path / "new").mkdir()
    before, now = read_study(book(tmp_path / "old", old)), read_study(book(tmp_path / "new"))
    assert (before.sources, before.variants, before.claims) == (now.sources, now.variants, now.claims)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('variant = "mixed"', 'variant = "other"', "claim 'topk': there is no variant 'other'"),
        ('["k=5", "mixed"]', '["k=7", "mixed"]', "there is no row 'k=7'"),
        ('expect = [["k=5", "mixed"]]', 'cheaper = [["k=7", "mixed", "searches"]]', "there is no row 'k=7'"),
        ('expect = [["k=5", "mixed"]]', 'level = [{ row = "k=5", base = "x" }]', "there is no row 'x'"),
        ('variant = "mixed"', 'variants = ["mixed", "other"]', "claim 'topk': there is no variant 'other'"),
        ('planner = "shipped"', 'planner = "shiped"', "no training makes the adapter 'shiped'"),
        ('place = "Figure 4"', "", "place"),
        ("roles = {", "rolls = {", "unknown key 'rolls'"),
        ("[[training]]", "[[trainings]]", "unknown key 'trainings'"),
    ],
)
def test_what_does_not_fit_is_named(tmp_path: Path, old: str, new: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        read_study(book(tmp_path, BOOK.replace(old, new)))


def test_the_papers_claims_are_all_there() -> None:
    """The rows that the table must have, by claim."""
    found = find_study("claims")
    rows = {c.id: len(c.row) for c in found.claims}
    assert rows["coda-hierarchy"] == 14  # four systems before and after; CoDA and AutoRefine with two seeds, and pooled
    assert rows["coda-topk"] == 10
    assert rows["decor-alpha"] == 6
    assert {len(r.variants) for c in found.claims if c.id == "decor-alpha" for r in c.row} == {3}  # seeds
    assert rows["apex-parts"] == 7
    assert rows["hira-parts"] == 6
    assert rows["hira-subtasks"] == 10
    world = found.sources["world"].dataset
    assert "seeds=2001-2010" in world
    assert "questions=500" in world
    assert "split=test" in world


def test_every_training_at_another_size_starts_from_its_model() -> None:
    """The papers' start: no adapter, the full prompts; the same budget for all that is compared."""
    recipe = pytest.importorskip("subquest.train.recipe")
    for name, model in (("claims-1.5b", "qwen-1.5b"), ("claims-0.5b", "qwen-0.5b")):
        found = find_study(name)
        assert found.model == model
        budgets: dict[Path, set[object]] = {}
        for training in found.trainings.values():
            made = recipe.load_recipe(training.recipe, training.set)
            assert (made.model.path, made.model.adapter, made.prompts) == (model, "", "full")
            assert made.optimiser.steps >= 60
            budget = (made.optimiser.steps, made.rollout.questions, made.rollout.group, made.data, made.loss)
            budgets.setdefault(training.recipe, set()).add(budget)
        assert all(len(found) == 1 for found in budgets.values())


def test_the_claims_at_1_5b_are_those_of_the_papers() -> None:
    small, large = find_study("claims"), find_study("claims-1.5b")
    papers = {c.id for c in small.claims if c.paper != "ours"}
    assert {c.id for c in large.claims} == papers
    assert len(papers) == 17
    assert not any(v.oracle for v in large.variants.values())  # the model itself has every role
    numbers = {(c.id, r.name): r.paper for c in small.claims for r in c.row}
    for claim in large.claims:
        for row in claim.row:
            seed = row.name.removesuffix(", both seeds")  # the papers have one
            assert row.paper == (numbers.get((claim.id, row.name)) or numbers.get((claim.id, seed), {}))


def test_a_study_that_is_like_another_takes_what_it_leaves_out(tmp_path: Path) -> None:
    for name in ("large", "small", "tiny"):
        (tmp_path / name).mkdir()
    book(tmp_path / "large")
    (tmp_path / "tiny" / "study.toml").write_text('like = "../large"\nonly = ["top*"]\nmodel = "Tiny"\n')
    tiny, large = read_study(tmp_path / "tiny"), read_study(tmp_path / "large")
    assert [c.id for c in tiny.claims] == ["topk"]
    assert set(tiny.variants) == {"coda,k=3@none", "coda,k=5@none", "mixed"}
    assert tiny.sources == large.sources
    claim = '[[claim]]\nid = "topk"\n[[claim.row]]\nname = "k=3"\nvariant = "rag@none"\n'
    variant = '[[variant]]\nname = "rag"\nsystem = "rag"\nadapters = ["none"]\n'
    (tmp_path / "small" / "study.toml").write_text('like = "../large"\n' + variant + claim)
    (found,) = read_study(tmp_path / "small").claims
    assert (found.paper, found.place, found.says) == ("CoDA", "Figure 4", "level")


def test_every_training_is_a_recipe_that_loads() -> None:
    recipe = pytest.importorskip("subquest.train.recipe")
    found = find_study("claims")
    budgets: dict[bool, set[object]] = {}
    for training in found.trainings.values():
        made = recipe.load_recipe(training.recipe, training.set)
        if not found.start_of(training):
            assert made.kind == "sft"
            assert not made.model.adapter
            continue
        if training.name in {"peco-long", "peco-mixed"}:  # compared with their start alone
            continue
        budget = (made.optimiser.steps, made.rollout.questions, made.rollout.group, made.data)
        budgets.setdefault(made.system == "decor", set()).add(budget)
    assert [len(found) for found in budgets.values()] == [1, 1]  # the same for all that is compared


def test_stored_rows_of_coda_still_count() -> None:
    """The settings and prompts they were measured with are those of today."""
    found = find_study("claims")
    results = Results(found.folder / "results")
    coda = [v for v in found.variants.values() if v.system == "coda"]
    rows = [(variant, stored) for variant in coda if (stored := results.stored(variant.name))]
    assert rows
    for variant, stored in rows:
        now = measured(variant)
        assert {part: now[part] for part in ("settings", "prompts")} == {
            part: stored.stamp.measured[part] for part in ("settings", "prompts")
        }, variant.name


def test_no_stored_row_is_stale() -> None:
    """A change to prompts, settings or search that rows depend on means measuring them again, or showing them stale."""
    study = find_study("claims")
    progress = open_progress(study, Results(study.folder / "results"), study.folder / "no-runs")
    stale = {v.name: reason for v in study.variants.values() if (reason := progress.stale(v))}
    assert not stale


def test_the_adapter_that_ships_is_that_of_the_studys_model(tmp_path: Path) -> None:
    shipped = {name: find_adapters(find_study(name), tmp_path, {})["shipped"] for name in ("claims", "claims-1.5b")}
    assert shipped == {
        "claims": str(default_adapter("smollm2")),
        "claims-1.5b": str(default_adapter("qwen-1.5b")),
    }
