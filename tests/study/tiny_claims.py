"""The papers' claims on a tiny random model: the recipes of `claims-1.5b` with a generated world in place of the data,
one set and one question a claim, one step a training and turns of a few tokens."""

import re
from pathlib import Path

from subquest.study.catalog import claims_folder

WORLD = "world:seed=7,articles=160,questions=1,split={},hops=2"
MODEL = "random:qwen2"


def write_tiny_claims(folder: Path) -> Path:
    """A copy of the recipes; returns its folder."""
    place = folder / "claims-1.5b"
    place.mkdir(parents=True)
    for file in claims_folder("claims-1.5b").glob("*"):
        if file.suffix in (".toml", ".md"):
            text = file.read_text()
            tiny = _study if file.name == "study.toml" else _training if "[model]" in text else _claims
            (place / file.name).write_text(tiny(text) if file.suffix == ".toml" else text)
    (folder / "claims").symlink_to(claims_folder("claims"))
    (folder / "claims-0.5b").symlink_to(claims_folder("claims-0.5b"))
    return place


def _study(text: str) -> str:
    text = re.sub(r'dataset = "[^"]*"', f'dataset = "{WORLD.format("test")}"', text)
    text = re.sub(r"corpus = .*\n|limit = .*\n", "", text)
    text = re.sub(r"max_tokens = \d+", "max_tokens = 8", text).replace('prompts = "full"', 'prompts = "compact"')
    return re.sub(r"turns = \d", "turns = 2", text)


def _claims(text: str) -> str:
    return re.sub(r'sources = \[("[^"]*").*', r"sources = [\1]", text)


def _training(text: str) -> str:
    train = WORLD.format("train").replace("questions=1", "questions=4")
    text = re.sub(r"\[\[data\]\].*?(?=\n\[(?!\[))", f'[[data]]\nquestions = "{train}"\n', text, flags=re.DOTALL)
    for key, value in {
        "questions": 1, "group": 2, "steps": 1, "max_tokens": 8, "batch": 2, "rank": 2, "minibatches": 1,
        "checkpoint_every": 1, "cache_tokens": 0, "concurrency": 4,
    }.items():  # fmt: skip
        text = re.sub(rf"(?m)^{key} = \d+", f"{key} = {value}", text)
    return re.sub(r"turns = \d", "turns = 2", text.replace('prompts = "full"', 'prompts = "compact"'))
