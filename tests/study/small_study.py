"""A study of three variants, one of them answered, for tests of commands."""

from pathlib import Path

from subquest.study import read_study
from subquest.study.results import Results, unit_of
from subquest.study.stamps import Stamps

BOOK = """
[[source]]
name = "world"
dataset = "world:seed=7,articles=160,questions=2,split=test,hops=1"
[[variant]]
name = "rag"
system = "rag"
settings = { k = 2 }
adapters = ["none", "shipped", "rl"]
[[training]]
name = "rl"
recipe = "rl.toml"
[[claim]]
id = "all"
paper = "CoDA"
place = "Table 1"
says = "so"
[[claim.row]]
name = "rag, {}"
variant = "rag@{}"
each = ["none", "shipped", "rl"]
"""
RECIPE = (
    'kind = "rl"\nsystem = "rag"\nreward = "autorefine"\n[rollout]\nquestions = 1\ngroup = 2\n[optimiser]\nsteps = 3\n'
)


def write_small_study(folder: Path) -> None:
    (folder / "book.toml").write_text(BOOK)
    (folder / "rl.toml").write_text(RECIPE)
    book = read_study(folder)
    made = unit_of("world", book.sources["world"].description, "q", [1, 1], [{"em": 1.0}, {"em": 0.0}])
    Results(folder / "results").add("rag@none", Stamps(book).of(book.variants["rag@none"]), "world", made)
