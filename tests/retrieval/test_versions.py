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


def superseded(tmp_path: Path, files: dict[str, str]) -> dict[str, str]:
    """The files that a new index marks, and by what they are replaced."""
    docs = put(tmp_path / "docs", files)
    with Index.build(tmp_path / "docs.sq", []) as index:
        assert ingest(index, [docs]).doubles == [], "a file that is read again to be marked is no second one"
        found = {d.meta["file"]: str(d.meta.get("superseded_by", "")) for d in index.documents()}
        assert ingest(index, [docs]).files == 0, "nothing is read again when nothing has changed"
    return {name.removeprefix("docs/"): newer.removeprefix("docs/") for name, newer in sorted(found.items()) if newer}


BODY = "\n\nStaff may claim the cost of trains and rooms. Claims go to the office within a month.\n"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("# Travel policy\n\nVersion 1" + BODY, "# Travel policy\n\nVersion 2" + BODY),
        ("# Travel policy" + BODY, "# Travel policy\n\nVersion: 2.0\n\nThis policy replaces version 1." + BODY),
        ("# Travel rules 2019" + BODY, "# Travel policy\n\nSupersedes: Travel rules 2019" + BODY),
        ("# Travel" + BODY, "# Journeys\n\nThis document supersedes a-old.md, which no longer applies." + BODY),
        ("---\ntitle: Travel\nversion: 1.9\n---" + BODY, "---\ntitle: Travel\nversion: 1.10\n---" + BODY),
        ("# Rules for trips" + BODY, "---\ntitle: Travel\nreplaces:\n  - Rules for trips\n---" + BODY),
        ("---\ntitle: Old rules\nsuperseded_by: b-new.md\n---" + BODY, "# New rules" + BODY),
        ("# Old rules\n\nReplaced by: Journeys and claims" + BODY, "# Journeys and claims" + BODY),
        (
            "# Travel rules" + BODY,
            "# Journeys\n\nThis policy, version 2.1, was approved by the board and supersedes the Travel rules." + BODY,
        ),
        ("# Old rules\n\nThis page has been superseded by Journeys and claims." + BODY, "# Journeys and claims" + BODY),
        (
            "# Travel policy\n\nDate: 3 May 2022" + BODY,
            "# Travel policy\n\nDate: 2023-06-01\n\nReplaces the policy of 3 May 2022." + BODY,
        ),
        (
            "# Travel policy\n\nEffective May 3, 2022" + BODY,
            "# Travel policy\n\nEffective 1 June 2023. Supersedes all previous versions." + BODY,
        ),
    ],
)
def test_what_documents_say_of_themselves(tmp_path: Path, old: str, new: str) -> None:
    assert superseded(tmp_path, {"a-old.md": old, "b-new.md": new}) == {"a-old.md": "b-new.md"}


@pytest.mark.parametrize(
    "files",
    [
        {"may.md": "# Minutes\n\nDate: 3 May 2024" + BODY, "june.md": "# Minutes\n\nDate: 7 June 2024" + BODY},
        {"a.md": "# Pumps\n\nThe new pump replaces the old Velora pump." + BODY, "b.md": "# The old pump" + BODY},
        {"a.md": "# Roof\n\nThe roof was replaced by the council." + BODY, "b.md": "# The council" + BODY},
        {"a.md": "# Roof\n\nThe new hall replaces the old town hall." + BODY, "b.md": "# The old town hall" + BODY},
        {"a.md": "# Pumps\n\nVersion 1" + BODY, "b.md": "# Beds\n\nVersion 2" + BODY},
        {"a.md": "# One and two\n\nReplaces b.md" + BODY, "b.md": "# Two and one\n\nReplaces a.md" + BODY},
        {"x/a.md": "# Notes\n\nVersion 1" + BODY, "y/b.md": "# Notes\n\nVersion 2" + BODY},
    ],
)
def test_what_is_no_newer_version(tmp_path: Path, files: dict[str, str]) -> None:
    assert superseded(tmp_path, files) == {}


def test_a_version_in_a_name_and_one_in_a_text_are_compared(tmp_path: Path) -> None:
    files = {
        "leave-v1.md": "# Leave policy" + BODY,
        "leave-v2.md": "# Leave policy" + BODY,
        "leave.md": "---\ntitle: Leave policy\nversion: 2.0\n---" + BODY,
        "leave-draft.md": "# Leave policy" + BODY,
    }
    assert superseded(tmp_path, files) == {"leave-v1.md": "leave-v2.md"}, "2.0 is 2, and a draft has no version"
    del files["leave-v2.md"]
    assert superseded(tmp_path / "without", files) == {"leave-v1.md": "leave.md"}


def test_a_chain_ends_at_the_newest(tmp_path: Path) -> None:
    files = {f"{n}.md": f"# Leave policy\n\nVersion {n}\n\nReplaces version {n - 1}." + BODY for n in (1, 2, 3)}
    assert superseded(tmp_path, files) == {"1.md": "3.md", "2.md": "3.md"}


def test_a_newer_document_that_comes_later_marks_the_older_one_and_takes_it_back(tmp_path: Path) -> None:
    docs = put(tmp_path / "docs", {"old.md": "# Leave policy\n\nVersion 1. Staff have 20 days." + BODY})

    def marked() -> dict[str, str]:
        return {hit.document.meta["file"]: hit.document.title for hit in index.search("staff days leave", 5)}

    with Index.build(tmp_path / "docs.sq", []) as index:
        ingest(index, [docs])
        put(docs, {"new.md": "# Leave policy\n\nVersion 2. Staff have 25 days." + BODY})
        ingest(index, [docs])
        assert marked() == {
            "docs/old.md": "Leave policy (superseded by docs/new.md)", "docs/new.md": "Leave policy",
        }  # fmt: skip
        (docs / "new.md").unlink()
        ingest(index, [docs], prune=True)
        assert marked() == {"docs/old.md": "Leave policy"}
