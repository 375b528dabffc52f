"""The same recipe gives the same bytes, in every version: stored results, claims and adapters rest on these worlds."""

import json
from pathlib import Path

import pytest

from subquest.worlds import Recipe, write_world

PINNED: list[tuple[Recipe, dict[str, str]]] = [
    (
        Recipe(seed=0, articles=160, questions=60),
        {
            "corpus.jsonl": "9fe74188768f58ee8a4e60666b56bd817e9366efd9e588620644cfe42e2f9c5a",
            "facts.jsonl": "dec5cc1f11f72a6e99fa82e7ada47d3ffb86afac5426d9cd030d00fa47fbd959",
            "questions.jsonl": "0b9876acabff7a632dd544ce4c88d01ba623f152f4debfa986020af795c871ff",
            "redirects.jsonl": "3fc724175aa0173d08b1ce505c1e4da5e266fdfbf7ef948fd1596f94a106506b",
        },
    ),
    (
        Recipe(seed=7, articles=300, questions=120),
        {
            "corpus.jsonl": "b8531c8e3f4d772ad44238e0cd4a83b352a433f9b026d57e49e74b73f461dba6",
            "facts.jsonl": "d414f97efbca01f0c592db16a31b939b02f16937ad76bf3052d9b3034784da56",
            "questions.jsonl": "f7c256adec0030a790a142577b8a658d31d7bea962d755badb08ba0b6a5c7dee",
            "redirects.jsonl": "d1db18764a6c9a860aa3cc6bec34b739b2b86d2a0c2484bdc7c87f6ecf994c6f",
        },
    ),
    (
        Recipe(seed=3, articles=2000, questions=800),
        {
            "corpus.jsonl": "f463b82569bc445f0fb276115e4392b96a30f41022962bb5c2a56ce84ed86e4a",
            "facts.jsonl": "32d2849b561c87f3a93cca7b21208cc4f046bf24b8c7ea24c967dc6132c9a6f1",
            "questions.jsonl": "aa8a190cd79e8e1baa98eb3f8f5d00d3afad3e32e7fe98a78bd9e3348b28be7d",
            "redirects.jsonl": "f2ca53cf64bb70b2f498deccca765438c1e5dc85014a4c818ef0aa923de25c69",
        },
    ),
    (
        Recipe(seed=11, articles=400, questions=150, split="test", phrasings="held-out", unanswerable=0.2),
        {
            "corpus.jsonl": "442404537d33fbcfc001b1c2dd11786ef61609ebd6d6668e06fa7172e36a4744",
            "facts.jsonl": "2eebcca74165dfd9fa19ae0627735fb89471fc42b1e7dd10829a5692403f92db",
            "questions.jsonl": "ce380d8a757cd715c6255302dde9ab66c3f59882c1a98c2d50d6dc4f20852dbe",
            "redirects.jsonl": "5c0634481d1ef751e509b21bb8bfe6aa52f0e668f1d7b0472995dd35c100f6da",
        },
    ),
    (
        Recipe(
            seed=2026,
            articles=500,
            questions=200,
            split="dev",
            phrasings="train",
            hops=(2, 3, 4, 5, 6),
            noise=0.3,
            near_duplicates=0.3,
        ),
        {
            "corpus.jsonl": "458f7d86c42f8bab71ac038e52af0db0a4ab5d52cc8962383c4a40cc7a258d9d",
            "facts.jsonl": "00407b764ba62c7be10d4e7db47268fc12889049d4fc089c974dba8cdbd1fb7d",
            "questions.jsonl": "5e0172b32b903c7c3f90b1480f9cc076399d50ca5f17fbdc30d422fb9e24cb18",
            "redirects.jsonl": "da2ca96d9a87978b8b4d964ba027fcf21a9b0df56286c6d67a9164f8f509e2d4",
        },
    ),
    (
        Recipe(
            seed=5, articles=200, questions=50, types=("comparison", "counting", "superlative", "temporal"), noise=0.0
        ),
        {
            "corpus.jsonl": "f1d53185ce89de62cd33ccaaee76257a77783f7e837ae88aabaea74e879aebdb",
            "facts.jsonl": "2c922e8cb1782e5e3f3a6c86824d1c9609a3226ffff953528229cf5b8fd632f4",
            "questions.jsonl": "f982ffe332ffcb06365fad52413f242f175898f0070647361914cfd08023669b",
            "redirects.jsonl": "4afb51da9dc604933183745abde44e603d4066546146559def964b50edf1a7e6",
        },
    ),
]
"""SHA-256 of each file of a world."""


@pytest.mark.parametrize(("recipe", "digests"), PINNED, ids=[f"seed{r.seed}-{r.articles}" for r, _ in PINNED])
def test_worlds_never_change(recipe: Recipe, digests: dict[str, str], tmp_path: Path) -> None:
    write_world(tmp_path, recipe)
    files = json.loads((tmp_path / "world.json").read_text())["files"]
    assert {name: entry["sha256"] for name, entry in files.items()} == digests
