"""Newer versions of a document: the older one is kept, and says what supersedes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from subquest.citation import cite, place_of
from subquest.retrieval import Index
from subquest.retrieval.ingest import ingest
from subquest.retrieval.ingest.versions import newer_versions, version_in
from tests.readers.made import put


@pytest.mark.parametrize(
    ("name", "base", "number"),
    [
        ("a/report-v2.docx", "report", (2,)),
        ("bridging_v3.1.md", "bridging", (3, 1)),
        ("Plan (Version 10).pdf", "plan", (10,)),
        ("policy rev 4 final.txt", "policy final", (4,)),
        ("V2_budget.xlsx", "budget", (2,)),
        ("minutes_2024-07-18.txt", "", None),
        ("dev1.md", "", None),
        ("archive7.md", "", None),
        ("v20x.md", "", None),
    ],
)
def test_versions_in_names(name: str, base: str, number: tuple[int, ...] | None) -> None:
    found = version_in(name)
    assert (found and found.number) == number
    assert number is None or (found and found.base) == base


def test_the_newest_of_related_files() -> None:
    names = ["p/x_v9.md", "p/x_v10.md", "p/old/x_v2.md", "q/x_v11.md", "p/y_v1.md"]
    assert newer_versions(names) == {"p/x_v9.md": "p/x_v10.md", "p/old/x_v2.md": "p/x_v10.md"}


def test_an_older_version_says_so_and_is_kept(tmp_path: Path) -> None:
    docs = put(tmp_path / "docs", {"archive/dose-v1.md": "# Dose\n\nGive the patient 5 mg of it.\n"})

    def found() -> dict[str, tuple[str, str]]:
        hits = index.search("dose patient mg", 5)
        return {hit.document.meta["file"]: (hit.document.title, cite(place_of(hit.document.meta))) for hit in hits}

    with Index.build(tmp_path / "docs.sq", []) as index:
        ingest(index, [docs])
        assert found() == {"docs/archive/dose-v1.md": ("Dose", "docs/archive/dose-v1.md, line 3")}
        put(docs, {"dose-v2.md": "# Dose\n\nGive the patient 2 mg of it.\n"})
        report = ingest(index, [docs])
        assert [str(note) for note in report.notes] == [
            "docs/archive/dose-v1.md: an older version; docs/dose-v2.md supersedes it"
        ]
        assert found() == {
            "docs/archive/dose-v1.md": (
                "Dose (superseded by docs/dose-v2.md)",
                "docs/archive/dose-v1.md, line 3 (superseded by docs/dose-v2.md)",
            ),
            "docs/dose-v2.md": ("Dose", "docs/dose-v2.md, line 3"),
        }
        assert ingest(index, [docs]).files == 0
        (docs / "dose-v2.md").unlink()
        ingest(index, [docs], prune=True)
        assert found() == {"docs/archive/dose-v1.md": ("Dose", "docs/archive/dose-v1.md, line 3")}
