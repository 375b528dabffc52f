"""Every study on a real model: the embedded one, a question a variant, turns of a few tokens, short passages."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from subquest import Index
from subquest.cli import main
from subquest.retrieval.corpus import read
from subquest.runs import RunStore
from subquest.study import find_study, studies
from subquest.worlds import Recipe, write_world

pytest.importorskip("xllamacpp", reason="the embedded extra is not installed")

from subquest.engine.embedded import EmbeddedEngine

pytestmark = [pytest.mark.slow, pytest.mark.embedded]

SETTINGS = """
[sampling]
max_tokens = 12
[limits]
calls = 2
[engine]
threads = 1
"""


class Kept(EmbeddedEngine):
    """Open until the last study is done: what several of them begin with is read once."""

    async def close(self) -> None:
        pass


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("studies")
    made: dict[str, Kept] = {}

    def kept(*args: Any, **options: Any) -> Kept:
        key = repr((args, sorted(options.items())))
        if key not in made:
            made[key] = Kept(*args, **options)
        return made[key]

    write_world(folder / "world", Recipe(seed=5, articles=160, questions=12))
    documents = read([folder / "world" / "corpus.jsonl"])
    Index.build(folder / "docs.sq", (replace(d, text=d.text.partition(". ")[0]) for d in documents)).close()
    (folder / "subquest.toml").write_text(SETTINGS)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr("subquest.engine.embedded.EmbeddedEngine", kept)
        yield folder
    for engine in made.values():
        engine.shut()


@pytest.mark.parametrize("name", sorted(studies()))
def test_a_study_on_the_embedded_model(name: str, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = find_study(name)
    first = {v.system: v.name for v in reversed(study.variants.values()) if v.search != "web"}
    chosen = [v for v in study.variants if v in first.values()][:2]
    only = [f"--only={variant}" for variant in chosen]
    arguments = ["study", name, "--on", "world", "--index", "docs.sq", "--sample", "1", "--judge", "rules", *only]
    assert main(arguments) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"{study.title}\nours:  embedded, index docs.sq, seed 0\npaper: {study.table.setting}")
    assert main([*arguments, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [(row["variant"], row["n"]) for row in rows] == [(variant, 1) for variant in chosen]
    assert all(set(row["ours"]) == set(study.table.metrics) for row in rows)
    with RunStore.open(place / f"{name}.sqlite") as run:
        for episode in run.episodes():
            assert episode.stop_reason != "failed", episode.errors
            assert episode.usage.completion_tokens > 0
