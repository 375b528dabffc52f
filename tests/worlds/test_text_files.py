"""The text files with the words and sentences of worlds: their notation, and that every file follows it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from subquest.worlds import text_files
from subquest.worlds.text_files import alternatives, read_lists, read_rows, read_sections

BANK = """# a comment
[animals]
small: wren | field mouse |
    dormouse
large: ox

[verbs]
run | runs ; ran # kept | run!
"""


@pytest.fixture
def bank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "bank.txt").write_text(BANK)
    monkeypatch.setattr(text_files, "FOLDER", tmp_path)
    read_sections.cache_clear()
    yield
    read_sections.cache_clear()


@pytest.mark.usefixtures("bank")
def test_lists_rows_and_alternatives() -> None:
    assert read_lists("bank", "animals") == {"small": ("wren", "field mouse", "dormouse"), "large": ("ox",)}
    ((first, second, third),) = read_rows("bank", "verbs")
    assert (first, alternatives(second), third) == ("run", ("runs", "ran # kept"), "run!")


def test_every_file_can_be_read() -> None:
    for path in text_files.FOLDER.iterdir():
        assert path.suffix == ".txt"
        sections = read_sections(path.stem)
        assert sections
        for heading, lines in sections:
            assert lines, (path.name, heading)
            assert not any(line.endswith(("|", ";", " ")) for line in lines), (path.name, heading)
