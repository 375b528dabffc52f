"""A mixed folder of real files becomes an index whose hits, answers and citations name the page."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
from contextlib import closing
from pathlib import Path

import pytest

from subquest.cache import Cache, CachedSearch
from subquest.citation import cite, place_of
from subquest.cli import main
from subquest.errors import DataError, UsageError
from subquest.retrieval import Index
from subquest.retrieval.corpus import read
from subquest.retrieval.ingest import Report, ingest
from subquest.retrieval.splitter import Size
from subquest.runtime.evidence import Finding, support_of

from ..open_files import open_below
from ..readers.made import archive, docx, pdf, pptx, put, xlsx

pytest.importorskip("pypdfium2", reason="ingestion of PDF needs the extra `web-tools`")

FILLER = "The weather on that day was neither good nor bad, and nobody wrote it down for those who came later. "


def mixed(folder: Path) -> Path:
    """One file of each kind; the fact that is asked for stands in the middle of each."""
    return put(
        folder,
        {
            "bridge.pdf": pdf(
                "The town council met on a Monday.",
                "The Orvane Bridge was designed by Mila Torrun,\n"
                "an engineer from the far north of the land, and\nbuilt in 1921.",
                "It was opened ten years later.",
                title="Minutes of the council",
            ),
            "people/torrun.docx": docx(
                ("Titel", "Lives of engineers"),
                ("berschrift1", "Anders Holt"),
                "He built mills.",
                ("berschrift1", "Mila Torrun"),
                f"{FILLER * 3}\fMila Torrun was born in Kestel in 1889.",
                [["work", "year"], ["Orvane Bridge", "1921"]],
            ),
            "talks/rivers.pptx": pptx(
                ("Rivers of the region", "A talk", ""), ("The Ostel", "It rises near Kelm", "Mention the floods")
            ),
            "data/rain.xlsx": xlsx({"2020": [["town", "mm"], ["Kelm", 12]], "2021": [["town", "mm"], ["Brunn", 408]]}),
            "data/levels.csv": "town,level\n" + "".join(f"town{n},{n}\n" for n in range(300)),
            "web/page.html": "<html><head><title>Mills</title></head><body><h1>Mills</h1><p>Old mills.</p>"
            "<h2>Windmills</h2><p>The last windmill of Harn burned down in 1903.</p></body></html>",
            "notes/diary.md": "# Diary\n\nNothing.\n\n## March\n\nThe heron came back to the lake\non the third.\n",
            "notes/plain.txt": FILLER * 30 + "\nThe ferry to Sund leaves at seven.\n",
            "corpus.jsonl": json.dumps({"id": "j1", "title": "Lighthouse", "text": "The lighthouse of Varn is red."}),
            "flash.jsonl": json.dumps({"id": 7, "contents": '"Tower"\nThe tower of Brunn leans.'}),
            "dpr.tsv": "id\ttext\ttitle\n1\tThe abbey of Holm keeps bees.\tAbbey\n",
            "more.jsonl.gz": gzip.compress(json.dumps({"id": "g1", "text": "A zipped otter swims."}).encode()),
            "paper.txt.gz": gzip.compress(b"A compressed stork nests on the town hall."),
            "all.zip": archive(
                {
                    "inner/report.pdf": pdf("Nothing here.", "The mine of Karst closed in 1977."),
                    "deep.zip": archive({"a.md": "# Deep\n\nThe deepest cave is called Ulm."}),
                    "list.jsonl": json.dumps({"id": "z1", "text": "Zebras are rare in Varn."}),
                    "picture.png": b"\x89PNG\r\n\x1a\n",
                    "README": "A file without a suffix tells of Quenby.",
                    "../slip.txt": "Nobody finds this secret.",
                    "torn.txt": b"\x00\x01\x02",
                }
            ),
            "picture.png": b"\x89PNG\r\n\x1a\n",
            ".hidden.txt": "Nobody finds this secret.",
        },
    )


QUESTIONS = {
    "Who designed the Orvane Bridge?": "docs/bridge.pdf, page 2",
    "Where was Mila Torrun born, in Kestel?": "docs/people/torrun.docx, page 2",
    "Ostel rises near": "docs/talks/rivers.pptx, slide 2",
    "mm of rain in Brunn 408": "docs/data/rain.xlsx, sheet 2021, row 2",
    "last windmill of Harn": "docs/web/page.html, section Mills > Windmills, paragraph 1",
    "heron came back": "docs/notes/diary.md, line 7",
    "ferry to Sund": "docs/notes/plain.txt, line 2",
    "when did the mine of Karst close": "docs/all.zip/inner/report.pdf, page 2",
    "deepest cave": "docs/all.zip/deep.zip/a.md, line 3",
    "compressed stork": "docs/paper.txt.gz, line 1",
}


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    return mixed(tmp_path / "docs")


def built(tmp_path: Path, *sources: str | Path, **options: object) -> tuple[Index, Report]:
    index = Index.build(tmp_path / "docs.sq", [])
    return index, ingest(index, sources, **options)  # type: ignore[arg-type]


def ids(index: Index) -> set[str]:
    return {document.id for document in index.documents()}


def test_a_mixed_folder_answers_with_the_page(tmp_path: Path, docs: Path) -> None:
    index, report = built(tmp_path, docs)
    with index:
        assert [str(problem) for problem in report.problems] == ["docs/all.zip/torn.txt: it is binary, not text"]
        assert (report.files, report.passed_over) == (14, {".png": 2, "hidden": 2})
        assert index.search("Quenby", 1)[0].document.meta["member"] == "README"
        for query, where in QUESTIONS.items():
            assert cite(place_of(index.search(query, 1)[0].document.meta)) == where
        levels = index.search("town150 level 150", 1)[0].document
        assert levels.meta["line"] <= 152 <= levels.meta["line_end"]
        assert levels.text.startswith("town: town")
        for query, identifier in (("lighthouse", "j1"), ("tower leans", "7"), ("abbey bees", "1"), ("otter", "g1")):
            assert index.search(query, 1)[0].document.id == identifier
        assert index.search("zebras", 1)[0].document.id == "z1"
        bridge = index.search("Orvane Bridge designed", 1)[0].document
        assert bridge.title == "Minutes of the council"
        assert "Mila Torrun, an engineer from the far north of the land, and built in 1921." in bridge.text
        assert index.search("secret") == []
        assert index.info().files == 14
        assert index.verify() == []


def test_ask_cites_the_page(
    tmp_path: Path, docs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["index", "build", "docs", "--out", "docs.sq"]) == 0
    monkeypatch.setenv("SUBQUEST_CACHE", str(tmp_path / "cache"))
    script = [
        ("planner", "<task>Who designed the Orvane Bridge?</task>"),
        ("planner", "<task>Where was Mila Torrun born?</task>"),
        ("planner", "<answer>Kestel</answer>"),
        ("executor", "<search>Orvane Bridge designer</search>"),
        ("executor", "<refine>It was Mila Torrun.</refine><result>Mila Torrun</result>"),
        ("executor", "<search>Mila Torrun born in</search>"),
        ("executor", "<refine>She was born in Kestel.</refine><result>Kestel</result>"),
    ]
    (tmp_path / "s.jsonl").write_text("\n".join(json.dumps({"role": r, "reply": t}) for r, t in script))
    ask = ["ask", "Where was the designer of the bridge born?", "--model", "scripted:s.jsonl", "--index", "docs.sq"]
    capsys.readouterr()
    assert main([*ask, "--json"]) == 0
    evidence = json.loads(capsys.readouterr().out)["evidence"]
    assert [cite(one["place"]) for one in evidence] == ["docs/bridge.pdf, page 2", "docs/people/torrun.docx, page 2"]
    assert evidence[1]["quote"] == "Mila Torrun was born in Kestel in 1889."
    assert main([*ask, "--quiet"]) == 0
    assert "[docs/bridge.pdf, page 2]" in capsys.readouterr().out
    assert main(["search", "designed the Orvane Bridge", "--index", "docs.sq", "-k", "1"]) == 0
    assert "docs/bridge.pdf, page 2" in capsys.readouterr().out
    assert main(["search", "designed the Orvane Bridge", "--index", "docs.sq", "-k", "1", "--json"]) == 0
    (hit,) = json.loads(capsys.readouterr().out)["hits"]
    assert (hit["source"], hit["meta"]["page"]) == ("docs/bridge.pdf, page 2", 2)


def test_the_server_cites_the_page(tmp_path: Path, docs: Path) -> None:
    pytest.importorskip("starlette", reason="the server needs the extra `serve`")
    from subquest.engine.scripted import ScriptedEngine
    from subquest.serve.settings import Settings

    from ..serve.conftest import QUESTION, reply, running

    built(tmp_path, docs)[0].close()
    settings = Settings(runs=tmp_path / "runs", indexes=tmp_path / "indexes", port=0, grace=2.0)
    asked = {"model": "subquest-coda", "messages": [{"role": "user", "content": QUESTION}]}
    with running(settings, {"default": ScriptedEngine(reply)}, ()) as server, server.client() as client:
        found = client.post("/api/indexes/docs/search", json={"query": "Orvane Bridge designed", "k": 1}).json()
        answer = client.post("/v1/chat/completions", json=asked).json()
    assert (found["hits"][0]["meta"]["file"], found["hits"][0]["meta"]["page"]) == ("docs/bridge.pdf", 2)
    places = [cite(evidence["place"]) for evidence in answer["subquest"]["evidence"]]
    assert places == ["docs/bridge.pdf, page 2", "docs/people/torrun.docx, page 2"]


# ------------------------------------------------------------------------------------------------ again


def test_only_what_changed_is_read_again(tmp_path: Path, docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index, first = built(tmp_path, docs)
    with index:
        before, generation = ids(index), index.generation
        again = ingest(index, [docs])
        assert (again.files, again.files_unchanged, again.unchanged) == (0, 14, first.added)
        assert (index.generation, ids(index)) == (generation, before)
        (docs / "notes/plain.txt").write_text("The ferry to Sund leaves at eight.\n")
        os.utime(docs / "bridge.pdf")  # touched, not changed
        changed = ingest(index, [docs])
        assert (changed.files, changed.files_unchanged) == (1, 13)
        assert changed.removed == sum(i.startswith("docs/notes/plain.txt#") for i in before) - 1
        assert [hit.document.text for hit in index.search("ferry Sund")] == ["The ferry to Sund leaves at eight."]
        assert index.search("weather neither good nor bad", 3)[0].document.id.startswith("docs/people/")
        assert index.verify() == []


def test_a_corpus_loses_the_lines_that_it_lost(tmp_path: Path) -> None:
    corpus = tmp_path / "c.jsonl"
    corpus.write_text("".join(json.dumps({"id": n, "text": f"apple number{n}"}) + "\n" for n in range(2000)))
    index, _ = built(tmp_path, corpus)
    with index:
        index.add([next(index.documents())])
        corpus.write_text("".join(json.dumps({"id": n, "text": f"apple number{n}"}) + "\n" for n in range(0, 2000, 2)))
        report = ingest(index, [corpus])
        assert (report.added, report.updated, report.unchanged, report.removed) == (0, 0, 1000, 1000)
        assert ids(index) == {str(n) for n in range(0, 2000, 2)}
        assert index.search("number7") == []
        assert index.verify() == []


def test_files_that_are_gone_go_with_prune(tmp_path: Path, docs: Path) -> None:
    index, _ = built(tmp_path, docs)
    with index:
        os.unlink(docs / "bridge.pdf")
        shutil.rmtree(docs / "notes")
        report = ingest(index, [docs])
        assert (report.removed, len(report.files_gone), report.files_removed) == (0, 3, [])
        assert index.search("Orvane Bridge designed", 1)[0].document.id == "docs/bridge.pdf#2"
        report = ingest(index, [docs], prune=True)
        assert sorted(report.files_removed) == ["docs/bridge.pdf", "docs/notes/diary.md", "docs/notes/plain.txt"]
        assert report.files_gone == []
        assert not any(i.startswith(("docs/bridge", "docs/notes")) for i in ids(index))
        assert index.verify() == []
        for path in docs.rglob("*"):
            if path.is_file():
                path.unlink()
        with pytest.raises(UsageError, match="nothing was removed"):
            ingest(index, [docs], prune=True)


def test_a_document_of_two_files_goes_with_the_last(tmp_path: Path) -> None:
    line = json.dumps({"id": "x", "text": "shared words"}) + "\n"
    docs = put(tmp_path / "docs", {"a.jsonl": line, "b.jsonl": line, "c.jsonl": json.dumps({"id": "y", "text": "z"})})
    index, report = built(tmp_path, docs)
    with index:
        assert (report.added, report.unchanged, report.doubles) == (2, 1, [])
        os.unlink(docs / "a.jsonl")
        assert ingest(index, [docs], prune=True).removed == 0
        assert ids(index) == {"x", "y"}
        os.unlink(docs / "b.jsonl")
        assert ingest(index, [docs], prune=True).removed == 1
        assert ids(index) == {"y"}


def test_folders_of_one_name_are_kept_apart_and_a_moved_folder_is_known(tmp_path: Path) -> None:
    one = put(tmp_path / "one/docs", {"a.md": "The first apple."})
    two = put(tmp_path / "two/docs", {"a.md": "The second apple."})
    index, _ = built(tmp_path, one)
    with index:
        ingest(index, [two])
        assert ids(index) == {"docs/a.md#1", "two/docs/a.md#1"}
        assert ingest(index, [one, two]).files_unchanged == 2
        moved = (tmp_path / "elsewhere").mkdir() or one.rename(tmp_path / "elsewhere/docs")
        assert ingest(index, [moved]).files_unchanged == 1
        assert ids(index) == {"docs/a.md#1", "two/docs/a.md#1"}


def test_sources_of_every_form_and_no_file_twice(tmp_path: Path, docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    index, report = built(tmp_path, "docs/notes/diary.md", "docs/notes/*", "docs/notes")
    with index:
        assert report.files == 2
        assert {i.partition("#")[0] for i in ids(index)} == {"docs/notes/diary.md", "docs/notes/plain.txt"}
        assert ingest(index, ["docs/**/*.pdf"]).files == 1
        assert ingest(index, ["docs/.hidden.txt"]).files == 1
        assert index.search("secret", 1)[0].document.id == "docs/.hidden.txt#1"
        for wrong, words in (("docs/none", "does not exist"), ("docs/*.none", "no file matches")):
            with pytest.raises(UsageError, match=words):
                ingest(index, [wrong])


def test_an_index_inside_of_its_source_is_no_source(
    tmp_path: Path, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(docs)
    assert main(["index", "build", ".", "--out", "inner.sq"]) == 0
    with Index.open("inner.sq") as index:
        count = len(index)
        assert ingest(index, ["."]).files == 0
        assert len(index) == count


def test_of_a_world_only_the_corpus_is_found(tmp_path: Path) -> None:
    files = {
        "corpus.jsonl": json.dumps({"id": "a", "title": "Orvane Bridge", "text": "Mila Torrun designed it."}),
        "questions.jsonl": json.dumps({"id": "q", "text": "leak", "question": "leak", "answers": ["Kestel"]}),
        "facts.jsonl": json.dumps({"id": "f", "text": "leak"}),
        "verl.jsonl": json.dumps({"id": "v", "text": "leak"}),
        "world.json": json.dumps({"seed": "leak"}),
        "notes.txt": "A reader's own notes on the bridge.",
    }
    folder = put(tmp_path / "world", files)
    (tmp_path / "world.zip").write_bytes(archive({f"inner/{name}": text for name, text in files.items()}))
    sources = {"folder": folder, "parent": tmp_path / "world*", "pattern": folder / "*", "zip": tmp_path / "world.zip"}
    for name, source in sources.items():
        with Index.build(tmp_path / f"{name}.sq", []) as index:
            report = ingest(index, [source])
            titles = {document.title for document in index.documents()}
            assert "Orvane Bridge" in titles, name
            assert not index.search("leak", 10), name
            assert report.skipped == 0, name
            assert report.passed_over["beside a world's corpus"] == (0 if name == "zip" else 4), name
    assert {d.title for d in read([folder])} == {d.title for d in read([folder / "*"])}
    assert "leak" not in " ".join(d.text for d in read([folder]))


def test_a_corpus_of_other_files_is_read_whole(tmp_path: Path) -> None:
    lines = {name: json.dumps({"id": name, "text": f"The {name} otter."}) for name in ("corpus.jsonl", "more.jsonl")}
    with Index.build(tmp_path / "docs.sq", []) as index:
        assert ingest(index, [put(tmp_path / "docs", lines)]).added == 2


def test_another_size_cuts_again_and_is_remembered(tmp_path: Path) -> None:
    docs = put(tmp_path / "docs", {"a.txt": FILLER * 40})
    index, _ = built(tmp_path, docs)
    with index:
        words = len(FILLER.split())
        assert len(index) == -(-40 * words // (words * -(-100 // words)))
        assert ingest(index, [docs], size=Size(40)).files == 1
        assert max(len(document.text.split()) for document in index.documents()) <= 50
        assert ingest(index, [docs]).files == 0  # the size is that of the last time
        assert ingest(index, [docs], size=Size(200, "tokens")).files == 1
        assert index.verify() == []


def test_new_passages_get_vectors_where_the_index_has_some(tmp_path: Path, docs: Path) -> None:
    pytest.importorskip("numpy", reason="vectors need the extra `dense`")
    from .embeddings import embeddings_server

    with embeddings_server() as (url, _):
        index, _ = built(tmp_path, docs / "notes")
        with index:
            index.embed(f"m@{url}")
            ingest(index, [docs / "bridge.pdf"])
            assert index.info().vectors == len(index)


# ------------------------------------------------------------------------------------------------ cache


async def test_a_changed_index_never_answers_from_the_cache(tmp_path: Path) -> None:
    docs = put(tmp_path / "docs", {"a.txt": "An apple a day.", "b.txt": "Pears."})
    index, _ = built(tmp_path, docs)
    copy = tmp_path / "copy.sq"
    with index, closing(Cache(tmp_path / "cache.sqlite")) as cache:
        cached = CachedSearch(index, cache)
        assert (await cached.retrieve(["apple"], 3))[0].cached is False  # type: ignore[attr-defined]
        assert (await cached.retrieve(["apple"], 3))[0].cached is True  # type: ignore[attr-defined]
        shutil.copytree(index.path, copy)
        with Index.open(copy) as twin:
            assert twin.identity == index.identity
            twin.remove(["docs/a.txt#1"])
            index.remove(["docs/b.txt#1"])
            assert twin.generation == index.generation
            assert twin.identity != index.identity
            assert await CachedSearch(twin, cached.cache).retrieve(["apple"], 3) == [[]]
        (docs / "a.txt").write_text("An apple a week.")
        ingest(index, [docs])
        (hits,) = await cached.retrieve(["apple"], 3)
        assert [hit.document.text for hit in hits] == ["An apple a week."]
        with Index.open(index.path, mode="bm25") as other:
            assert other.identity != index.identity


# ------------------------------------------------------------------------------------------------ commands


def test_the_command_tells_what_it_did(
    tmp_path: Path, docs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (docs / "broken.pdf").write_bytes(b"%PDF-1.4 rubbish")
    (docs / "old.doc").write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1")
    build = ["index", "build", "docs", "--out", "docs.sq"]
    assert main(build) == 0
    out, err = capsys.readouterr()
    assert "14 files read, 0 unchanged, 2 broken" in out
    assert "skipped: docs/broken.pdf: a damaged pdf file" in err
    advice = "; --ocr reads the text in images; save old Office files as DOCX, XLSX, PPTX or PDF\n"
    (unread,) = re.findall(r"not read: (.*?)(;.*\n)", err)
    assert (set(unread[0].split(", ")), unread[1]) == ({"2 hidden", "2 .png", "1 .doc"}, advice)
    assert main([*build, "--strict", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["files_unchanged"], told["broken_files"], told["added"]) == (14, 2, 0)
    assert {problem["name"] for problem in told["problems"]} == {"docs/broken.pdf", "docs/all.zip"}
    assert main([*build, "--on-error", "stop"]) == 2
    assert "docs/all.zip: 1 lines or members" in capsys.readouterr().err
    (docs / "broken.pdf").unlink()
    (docs / "all.zip").unlink()
    assert main(["index", "add", "docs.sq", "docs", "--words", "50"]) == 0
    out, err = capsys.readouterr()
    assert "note: 2 files that no longer exist are still found (" in err
    assert "; --prune removes what is gone" in err
    assert main(["index", "add", "docs.sq", "docs", "--prune", "--strict", "--words", "50"]) == 0
    assert ", 2 removed" in capsys.readouterr().out
    for wrong, words in ((["--words", "3"], "from 10"), (["--jobs", "0"], "at least 1")):
        assert main([*build, *wrong]) == 2
        assert words in capsys.readouterr().err


def test_lines_that_are_no_documents_are_named_and_the_rest_is_kept(tmp_path: Path) -> None:
    lines = ['{"id": "1", "text": "good"}', "not json", '{"title": "no id"}', '{"id": "2", "text": "also good"}', "[1]"]
    docs = put(tmp_path / "docs", {"c.jsonl": "\n".join(lines), "d.tsv": "id\ttext\ttitle\n1\n5\tbees\tB\n"})
    index, report = built(tmp_path, docs)
    with index:
        assert ids(index) == {"1", "2", "5"}
        assert [str(problem).partition(" (")[0] for problem in report.problems] == [
            "docs/c.jsonl: line 2: not JSON: Expecting value at column 1",
            "docs/c.jsonl: line 3: the document has no id",
            "docs/c.jsonl: line 5: expected an object, got list",
            "docs/d.tsv: line 2: expected id, text and title, separated by tabs",
        ]
        again = ingest(index, [docs])
        assert (again.files, len(again.problems)) == (0, 2)
    with Index.build(tmp_path / "strict.sq", []) as strict:
        with pytest.raises(DataError, match=r"docs/c\.jsonl, line 2: not JSON") as stopped:
            ingest(strict, [docs], on_error="stop")
        assert stopped.value.__traceback__ is not None
        assert open_below(docs) == [], "not even files that were to be read next, while somebody holds the error"
        assert ids(strict) == {"1"}
        assert ingest(strict, [docs]).added == 2


def test_progress_is_told(tmp_path: Path, docs: Path) -> None:
    seen: list[tuple[int, int, int]] = []
    index, report = built(
        tmp_path, docs, progress=lambda state: seen.append((state.files, state.bytes, state.passages))
    )
    index.close()
    assert seen == sorted(seen)
    assert seen[-1] == (14, report.bytes, report.added)


def test_a_terminal_gets_a_bar_and_a_pipe_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from subquest.cli import progress
    from subquest.retrieval.ingest import State

    state = State(files=1, files_total=4, bytes=2_000_000, bytes_total=8_000_000, passages=100, name="docs/a.pdf")
    monkeypatch.setattr(progress, "_PLAIN", 0.0)
    progress.IngestProgress()(state)
    assert "indexing  25%  2.0 of 8.0 MB" in capsys.readouterr().err
    monkeypatch.setattr(progress, "_LIVE", 0.0)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    shown = progress.IngestProgress()
    shown(state)
    shown.clear()
    err = capsys.readouterr().err
    assert err.startswith("\r[######..................]  25%")
    assert "left  file 2 of 4  docs/a.pdf" in err
    assert err.endswith("\r\x1b[K")


def test_quotes_from_word_and_mail_have_their_paragraph(tmp_path: Path) -> None:
    heading, said = "Designers", "The Orvane Bridge was designed by Mila Torrun."
    mail = (
        "From: a@x.example\nSubject: Bridges\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n\n"
        "--b\nContent-Type: text/plain\n\nSee the minutes.\n"
        f"--b\nContent-Type: text/plain\nContent-Disposition: attachment; filename=minutes.txt\n\n{said}\n--b--\n"
    )
    files = {"a.docx": docx(("berschrift1", heading), said), "b.eml": mail, "c.eml": f"From: a@x.example\n\n{said}\n"}
    index, _ = built(tmp_path, put(tmp_path / "docs", files))
    question = "Who designed the Orvane Bridge?"
    found = [document for document in index.documents() if said in document.text]
    quotes = [support_of("Mila Torrun", question, [Finding("", "", "", [d])]).evidence[0] for d in found]
    assert {quote.quote for quote in quotes} == {said}
    assert sorted(cite(quote.place) for quote in quotes) == [
        "docs/a.docx, section Designers, paragraph 1",
        "docs/b.eml, section minutes.txt, paragraph 1",
        "docs/c.eml, paragraph 1",
    ]
