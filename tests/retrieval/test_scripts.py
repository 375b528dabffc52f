"""Scripts other than Latin: words are found inside of text that has no blanks between them."""

from __future__ import annotations

from pathlib import Path

import pytest

from subquest.record import Document
from subquest.retrieval import Index
from subquest.retrieval.analysis import Analysis


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("กรุงเทพมหานครเป็นเมืองหลวงของประเทศไทย", "ประเทศไทย"),
        ("ວຽງຈັນເປັນນະຄອນຫຼວງຂອງລາວ", "ນະຄອນຫຼວງ"),
        ("နေပြည်တော်သည်မြန်မာနိုင်ငံ၏မြို့တော်ဖြစ်သည်", "မြန်မာ"),
        ("ភ្នំពេញជារាជធានីនៃប្រទេសកម្ពុជា", "កម្ពុជា"),
    ],
)
def test_scripts_without_blanks_between_words(tmp_path: Path, text: str, query: str) -> None:
    with Index.build(tmp_path / "i", [Document("1", "", text), Document("2", "", "something else")]) as index:
        assert [hit.document.id for hit in index.search(query)] == ["1"]
    assert Analysis(thai=False).query_terms(text) != Analysis().query_terms(text)
