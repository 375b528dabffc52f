"""Names as they were read, in scripts other than Latin."""

import pytest

from subquest.systems.spelling import as_written


@pytest.mark.parametrize(
    ("text", "sources"),
    [
        ("Кого признал король?", ["Король призвал Ивана."]),
        ("Une élection à Kestel", ["L'éjection de Kestel"]),
        ("Кадры заняли город", ["Кодры"]),
        ("Dessa, 一九三一年三月", ["他于一九三一年三月出生。", "一九三二年三月"]),
    ],
)
def test_words_that_are_no_names_stay_in_every_script(text: str, sources: list[str]) -> None:
    assert as_written(text, sources) == text
    assert as_written("Торун, Élannes", ["Торрун", "Élannnes"]) == "Торрун, Élannnes"
