"""Files of an index over HTTP: added, listed, read again, removed, and shown at a place."""

import base64
import io
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from subquest import Index
from subquest.retrieval.ingest import ingest
from subquest.serve.indexes import Indexes
from subquest.serve.replies import Problem
from subquest.serve.settings import Settings

from ..readers.made import archive, pdf
from .conftest import Start

PAGES = ("A title page.", "The ferry to Nesvik leaves at noon.\nIt is red.", "The inn is open.")


def put(client: Any, name: str, content: bytes, index: str = "trip", **more: Any) -> Any:
    return client.put(f"/api/indexes/{index}/file", params={"name": name, **more}, content=content)


def listed(client: Any, index: str = "trip", **more: Any) -> dict[str, dict[str, Any]]:
    return {file["name"]: file for file in client.get(f"/api/indexes/{index}/files", params=more).json()["files"]}


def found(client: Any, query: str, index: str = "trip") -> list[str]:
    hits = client.post(f"/api/indexes/{index}/search", json={"query": query, "k": 10}).json()["hits"]
    return [hit["text"] for hit in hits]


def test_how_far_the_first_file_of_an_index_is_read(start: Start) -> None:
    book = openpyxl.Workbook(write_only=True)
    page = book.create_sheet("Orders")
    for number in range(30_000):
        page.append([f"A{number}", number % 500, "pump"] if number else ["Order", "Price", "Article"])
    content = io.BytesIO()
    book.save(content)
    with start() as server, server.client() as client, ThreadPoolExecutor() as pool:
        assert client.get("/api/indexes/trip/files").status_code == 404
        sent = pool.submit(put, client, "orders.xlsx", content.getvalue())
        told = []
        while not sent.done():
            answer = client.get("/api/indexes/trip/files")
            told += [answer.json()["reading"]] if answer.status_code == 200 else []
        assert sent.result().status_code == 201
        assert any(reading and reading["rows"] >= 1000 and 0 < reading["share"] < 1 for reading in told)
        assert client.get("/api/indexes/trip/files").json()["reading"] is None


def test_a_file_is_added_listed_read_again_and_removed(start: Start, settings: Settings) -> None:
    with start() as server, server.client() as client:
        made = put(client, "plan.pdf", pdf(*PAGES))
        assert made.status_code == 201
        assert made.json()["added"] == 3
        put(client, "notes.txt", b"Pack the red umbrella.")
        files = listed(client)
        plan = files["trip/plan.pdf"]
        assert made.json()["file"] == plan
        assert (plan["kind"], plan["pages"], plan["passages"], plan["state"]) == ("pdf", 3, 3, "read")
        assert (plan["bytes"], files["trip/notes.txt"]["pages"]) == (len(pdf(*PAGES)), 0)
        assert list(listed(client, text="NOTES")) == ["trip/notes.txt"]
        kept = settings.indexes / "trip.sq" / "files" / "trip"
        (kept / "notes.txt").write_bytes(b"Pack the blue umbrella.")
        again = client.post("/api/indexes/trip/file/read", params={"name": "trip/notes.txt"})
        assert again.json()["updated"] == 1
        assert found(client, "umbrella") == ["Pack the blue umbrella."]
        gone = client.delete("/api/indexes/trip/file", params={"name": "trip/plan.pdf"})
        assert gone.json() == {"index": "trip", "file": "trip/plan.pdf", "removed": 3}
        assert list(listed(client)) == ["trip/notes.txt"]
        assert found(client, "ferry") == []
        assert [path.name for path in kept.iterdir()] == ["notes.txt"]
        for method, place in (("POST", "file/read"), ("DELETE", "file")):
            missing = client.request(method, f"/api/indexes/trip/{place}", params={"name": "trip/plan.pdf"})
            assert (missing.status_code, "no file 'trip/plan.pdf'" in missing.text) == (404, True)


def scan() -> bytes:
    return pdf("", "")


BAD = {
    "locked.pdf": (pdf("secret", encrypted=True), "encrypted"),
    "scan.pdf": (scan(), "no text on any of its 2 pages"),
    "torn.pdf": (b"%PDF-1.4\nnothing", "damaged"),
    "locked.docx": (
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600) + "EncryptedPackage".encode("utf-16-le"),
        "encrypted",
    ),
    "tool.exe": (b"MZ\0\0", "files of kind .exe are not read"),
    "photo.txt": (b"\x89PNG\r\n\x1a\n" + bytes(50), "an image, perhaps a scan"),
    "photo.png": (b"\x89PNG\r\n\x1a\n" + bytes(50), "trip/photo.png: an image, perhaps a scan"),
    "old.doc": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "trip/old.doc: an old Office file"),
    "letter.rtf": (rb"{\rtf1 Dear all}", "trip/letter.rtf: an RTF file; save it as DOCX"),
    "song.txt": (b"ID3\x00" + bytes(50), "it is audio, not text"),
    "nothing.txt": (b"", "nothing.txt is empty"),
}


def test_bad_files_are_refused_with_the_reason_and_nothing_else_changes(start: Start, settings: Settings) -> None:
    with start() as server, server.client() as client:
        for name, (content, reason) in BAD.items():
            refused = put(client, name, content)
            assert (refused.status_code, reason in refused.json()["error"]["message"]) == (400, True), refused.text
        assert client.get("/api/indexes/trip/files").status_code == 404  # no empty index is left
        put(client, "good.txt", b"The ferry leaves at noon.")
        for name, (content, _) in BAD.items():
            put(client, name, content)
        assert list(listed(client)) == ["trip/good.txt"]
        assert found(client, "ferry") == ["The ferry leaves at noon."]
    folder = settings.indexes / "trip.sq" / "files" / "trip"
    assert [path.name for path in folder.iterdir()] == ["good.txt"]
    assert [path.name for path in settings.indexes.iterdir()] == ["trip.sq"]


def test_a_bad_file_does_not_replace_a_good_one_of_its_name(start: Start, settings: Settings) -> None:
    with start() as server, server.client() as client:
        put(client, "plan.pdf", pdf(*PAGES))
        before = listed(client)
        for content, _ in (BAD["locked.pdf"], BAD["scan.pdf"], BAD["torn.pdf"]):
            assert put(client, "plan.pdf", content).status_code == 400
            assert listed(client)["trip/plan.pdf"] | {"modified": 0} == before["trip/plan.pdf"] | {"modified": 0}
            assert len(found(client, "ferry")) == 1
        newer = put(client, "plan.pdf", pdf("The ferry leaves at ten."))
        assert newer.status_code == 201
        assert found(client, "ferry") == ["The ferry leaves at ten."]
        assert listed(client)["trip/plan.pdf"]["pages"] == 1
    assert (settings.indexes / "trip.sq/files/trip/plan.pdf").read_bytes() == pdf("The ferry leaves at ten.")


def test_a_file_that_is_too_large_is_refused_before_it_arrives(start: Start) -> None:
    with start(max_file=1000) as server, server.client() as client:
        assert client.get("/api/about").json()["max_file"] == 1000
        refused = put(client, "book.pdf", b"%PDF-" + bytes(2000))
        assert refused.status_code == 413
        assert "book.pdf is larger than the 1,000 bytes" in refused.json()["error"]["message"]
        endless = client.put("/api/indexes/trip/file?name=a.txt", content=(b"x" * 100 for _ in range(50)))
        assert endless.status_code == 413


def test_a_read_only_server_changes_no_files(start: Start) -> None:
    with start() as server, server.client() as client:
        put(client, "plan.pdf", pdf(*PAGES))
    with start(read_only=True) as server, server.client() as client:
        name = {"name": "trip/plan.pdf"}
        assert put(client, "other.txt", b"words").status_code == 403
        assert client.delete("/api/indexes/trip/file", params=name).status_code == 403
        assert client.post("/api/indexes/trip/file/read", params=name).status_code == 403
        assert listed(client)["trip/plan.pdf"]["passages"] == 3


def test_a_passage_comes_with_the_rest_of_its_file(start: Start) -> None:
    text = " ".join(f"Sentence number {n} tells of the ferry, the inn, the road and the mountain." for n in range(90))
    with start() as server, server.client() as client:
        put(client, "long.txt", text.encode())
        count = listed(client)["trip/long.txt"]["passages"]
        assert count > 6

        def document(**query: Any) -> Any:
            return client.get("/api/indexes/trip/document", params=query).json()

        middle = document(id="trip/long.txt#4", around=2)
        assert [one["id"][-1] for one in (*middle["before"], *middle["after"])] == ["2", "3", "5", "6"]
        assert (middle["more_before"], middle["more_after"]) == (True, True)
        whole = document(id="trip/long.txt#4", around=100)
        passages = [*whole["before"], whole, *whole["after"]]
        assert len(passages) == count
        assert " ".join(one["text"] for one in passages) == text
        assert (whole["more_before"], whole["more_after"]) == (False, False)
        assert "before" not in document(id="trip/long.txt#4")
        alone = client.get("/api/indexes/docs/document", params={"id": "d1", "around": 5}).json()
        assert "before" not in alone  # it comes from no file


def test_the_line_of_a_quote(start: Start) -> None:
    text = "".join(f"Line {n} of the notes tells what the harbour master saw that day.\n" for n in range(1, 8))
    with start() as server, server.client() as client:
        put(client, "notes.txt", text.encode())
        asked = {"id": "trip/notes.txt#1", "around": 3}
        found = client.get("/api/indexes/trip/document", params={**asked, "quote": "Line 5 of the notes"}).json()
        assert found["place"] == {"file": "trip/notes.txt", "line": 5}
        for other in ({}, {"quote": "of another file"}):
            assert client.get("/api/indexes/trip/document", params={**asked, **other}).json()["place"]["line"] == 1
        hits = client.post("/api/indexes/trip/search", json={"query": "line 6 of the notes"}).json()["hits"]
        assert hits[0]["place"] == {"file": "trip/notes.txt", "line": 6}


def test_a_page_as_it_looks(start: Start, settings: Settings) -> None:
    from PIL import Image

    with start() as server, server.client() as client:
        put(client, "plan.pdf", pdf(*PAGES))
        put(client, "more.zip", archive({"inner.pdf": pdf("The museum is closed.")}))

        def page(identifier: str, **query: Any) -> Any:
            return client.get("/api/indexes/trip/page", params={"id": identifier, **query})

        shown = page("trip/plan.pdf#2", quote="leaves at noon. It is red.").json()
        assert (shown["file"], shown["page"], shown["pages"]) == ("trip/plan.pdf", 2, 3)
        assert len(shown["marks"]) == 2
        image = Image.open(io.BytesIO(base64.b64decode(shown["png"])))
        assert image.size == (shown["width"], shown["height"])
        assert page("trip/plan.pdf#2", page=3).json()["page"] == 3
        assert page("trip/plan.pdf#2", page=4).status_code == 400
        assert page("nobody").status_code == 404
        assert page("trip/more.zip/inner.pdf#1").json()["error"]["code"] == "no_page"
        kept = settings.indexes / "trip.sq/files/trip/plan.pdf"
        kept.write_bytes(pdf("Something else."))
        assert (page("trip/plan.pdf#2").status_code, page("trip/plan.pdf#2").json()["error"]["code"]) == (
            409,
            "changed",
        )
        kept.unlink()
        assert page("trip/plan.pdf#2").json()["error"]["code"] == "gone"
        again = client.post("/api/indexes/trip/file/read", params={"name": "trip/plan.pdf"})
        assert (again.status_code, again.json()["error"]["code"]) == (409, "gone")
        assert listed(client)["trip/plan.pdf"]["reachable"] is False


def test_files_of_an_index_that_was_built_elsewhere(start: Start, settings: Settings, tmp_path: Path) -> None:
    folder = tmp_path / "papers"
    folder.mkdir()
    (folder / "plan.pdf").write_bytes(pdf(*PAGES))
    (folder / "locked.pdf").write_bytes(pdf("x", encrypted=True))
    with Index.build(tmp_path / "docs.sq", []) as index:
        ingest(index, [folder], jobs=1)
    with start() as server, server.client() as client:
        files = listed(client, "docs")
        assert (files["papers/locked.pdf"]["state"], files["papers/plan.pdf"]["state"]) == ("failed", "read")
        assert "encrypted" in files["papers/locked.pdf"]["note"]
        assert client.get("/api/indexes/docs/page", params={"id": "papers/plan.pdf#2"}).json()["pages"] == 3
        (folder / "locked.pdf").write_bytes(pdf("The lock is open."))
        read = client.post("/api/indexes/docs/file/read", params={"name": "papers/locked.pdf"})
        assert read.json()["file"]["state"] == "read"
        client.delete("/api/indexes/docs/file", params={"name": "papers/plan.pdf"})
        assert (folder / "plan.pdf").exists()  # it is the user's
    with Index.open(tmp_path / "docs.sq") as index:
        (folder / "locked.pdf").unlink()
        report = ingest(index, [folder], jobs=1, prune=True)
        assert report.files_removed == ["papers/locked.pdf"]  # it still belongs to its folder


def test_a_moved_index_has_its_files_with_it(start: Start, settings: Settings) -> None:
    with start() as server, server.client() as client:
        put(client, "plan.pdf", pdf(*PAGES))
    moved = settings.indexes.parent / "elsewhere"
    shutil.move(settings.indexes, moved)
    with start(indexes=moved) as server, server.client() as client:
        assert client.get("/api/indexes/trip/page", params={"id": "trip/plan.pdf#2"}).json()["pages"] == 3
        read = client.post("/api/indexes/trip/file/read", params={"name": "trip/plan.pdf"})
        assert (read.status_code, list(listed(client))) == (200, ["trip/plan.pdf"])


@pytest.mark.parametrize(
    "name", ["../../x.txt", "/etc/x.txt", "..\\x.txt", ".hidden.txt", "a\0b.txt", "x" * 400 + ".txt"]
)
def test_names_stay_in_their_folder(start: Start, settings: Settings, name: str) -> None:
    with start() as server, server.client() as client:
        assert put(client, name, b"The ferry leaves.").status_code == 201
        (file,) = listed(client)
        assert file.startswith("trip/")
    (kept,) = (settings.indexes / "trip.sq" / "files" / "trip").iterdir()
    assert kept.read_bytes() == b"The ferry leaves."


def test_an_index_that_is_served_takes_files_whatever_its_name(start: Start, settings: Settings) -> None:
    Index.build(settings.indexes / "my index.sq", []).close()
    with start() as server, server.client() as client:
        assert put(client, "dogs.md", b"Dogs bark.", index="my index").status_code == 201
        assert list(listed(client, "my index")) == ["my index/dogs.md"]
        assert client.delete("/api/indexes/my index/file", params={"name": "dogs.md"}).json()["removed"] == 1
        assert put(client, "dogs.md", b"Hunde bellen.", index="B\u00fccher").status_code == 201
        for name in ("another index", ".hidden", "..", "a\\b", "_x", "B\u0075\u0308cher", "x" * 65, "\u6a4b" * 67):
            refused = put(client, "dogs.md", b"Dogs bark.", index=name)
            assert refused.status_code in (400, 404, 405), name
    assert {path.name for path in settings.indexes.iterdir()} == {"my index.sq", "B\u00fccher.sq"}


def test_a_name_that_leaves_the_folder_is_refused_even_if_it_is_served(tmp_path: Path) -> None:
    with Index.build(tmp_path / "docs.sq", []) as index:
        indexes = Indexes({"..": index, "a/b": index}, tmp_path / "indexes")
        for name in ("..", "a/b"):
            with pytest.raises(Problem, match="cannot be a name"):
                indexes.has(name)


def test_a_file_is_named_as_it_was_added_or_as_it_is_listed(start: Start) -> None:
    with start() as server, server.client() as client:
        for name in ("dogs.md", "trip/dogs.md"):
            assert put(client, "dogs.md", b"Dogs bark.").status_code == 201
            again = client.post("/api/indexes/trip/file/read", params={"name": name})
            assert (again.status_code, again.json()["file"]["name"]) == (200, "trip/dogs.md")
            gone = client.delete("/api/indexes/trip/file", params={"name": name})
            assert gone.json() == {"index": "trip", "file": "trip/dogs.md", "removed": 1}
            assert not listed(client)
