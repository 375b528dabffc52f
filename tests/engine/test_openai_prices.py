from pathlib import Path

import pytest

from subquest.engine.openai.prices import Price, load_prices, price_of
from subquest.errors import DataError, UsageError


def test_names_with_provider_and_date_are_found() -> None:
    table = load_prices()
    assert price_of("openai/gpt-4o-2024-08-06", table) == table["gpt-4o"] == Price(2.5, 10.0, 1.25)
    assert price_of("gpt-4o-mini-20240718", table) == table["gpt-4o-mini"]
    assert price_of("SmolLM2", table) is None


def test_cost_by_hand() -> None:
    assert Price(2.0, 10.0, 0.5).cost(1_000_000, 400_000, 100_000) == pytest.approx(1.2 + 0.2 + 1.0)
    assert Price(2.0, 10.0).cost(1_000_000, 400_000, 0) == pytest.approx(2.0)


def test_a_file_overrides_and_its_mistakes_are_named(tmp_path: Path) -> None:
    path = tmp_path / "prices.toml"
    path.write_text('["gpt-4o"]\nprompt = 1\ncompletion = 2\n["own"]\nprompt = 0.1\ncompletion = 0.2\n')
    table = load_prices(path)
    assert table["gpt-4o"] == Price(1.0, 2.0)
    assert table["own"] == Price(0.1, 0.2)
    assert "gpt-5" in table
    for text, says in (
        ("[x]\nprompt = 1\n", "missing key 'completion'"),
        ("[x]\nprompt = 1\ncompletion = 2\noutput = 3\n", "unknown key 'output'"),
        ("[x]\nprompt = -1\ncompletion = 2\n", "prompt must be a number from 0, not -1"),
        ("[x\n", "prices.toml"),
    ):
        path.write_text(text)
        with pytest.raises(DataError, match=says):
            load_prices(path)
    path.write_bytes(b"# \xff\n")
    with pytest.raises(DataError, match=r"prices.toml:1: not UTF-8"):
        load_prices(path)
    with pytest.raises(UsageError, match="cannot read"):
        load_prices(tmp_path / "absent.toml")
