"""Prices of hosted models: a small table that users override, because list prices change."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from ...codec import NonNegative, Record, checked
from ...errors import DataError
from ...input_file import read_toml


class Price(Record):
    """Cost of a million tokens; `cached` is for the part of the prompt the server had already read."""

    prompt: NonNegative
    completion: NonNegative
    cached: NonNegative | None = None

    def cost(self, prompt_tokens: int, cached_tokens: int, completion_tokens: int) -> float:
        cached = self.prompt if self.cached is None else self.cached
        fresh = prompt_tokens - cached_tokens
        return (fresh * self.prompt + cached_tokens * cached + completion_tokens * self.completion) / 1e6


def load_prices(path: str | Path | None = None) -> dict[str, Price]:
    """The built-in table, with the entries of a TOML file (`["model"] prompt = … completion = …`) laid over it."""
    table = _read(tomllib.loads(resources.files(__package__).joinpath("prices.toml").read_text("utf-8")), "prices.toml")
    if path is None:
        return table
    return table | _read(read_toml(path, "the prices file"), str(path))


def price_of(model: str, table: Mapping[str, Price]) -> Price | None:
    """The model's price: by its name, without a provider's prefix (`openai/…`), without a date at its end."""
    for name in (model, model.rpartition("/")[2]):
        for form in (name, re.sub(r"-\d{4}-?\d{2}-?\d{2}$", "", name)):
            if form in table:
                return table[form]
    return None


def _read(data: Mapping[str, Any], source: str) -> dict[str, Price]:
    return {model: checked(Price, entry, f'{source}: ["{model}"]', error=DataError) for model, entry in data.items()}
