"""Bad input to an ingestion: every file is read, or named with the reason; the rest goes on and nothing is lost."""

from __future__ import annotations

import errno
import gzip
import json
import os
import resource
import subprocess
import sys
import warnings
import zipfile
from pathlib import Path

import pytest

from subquest.cli import main
from subquest.errors import SearchError, UsageError
from subquest.readers import archive as archives
from subquest.readers import reader_pool
from subquest.record import Document
from subquest.retrieval import Index, corpus
from subquest.retrieval.ingest import Report, ingest

from ..readers.made import archive, deflated_zeros, docx, pdf, pdf_of_streams, put, xlsx

OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"

pytest.importorskip("pypdfium2", reason="ingestion of PDF needs the extra `web-tools`")


def taken(tmp_path: Path, *sources: str | Path, **options: object) -> tuple[list[Document], Report]:
    with Index.build(tmp_path / "i.sq", []) as index:
        report = ingest(index, sources, **options)  # type: ignore[arg-type]
        assert index.verify() == []
        return list(index.documents()), report


def reasons(report: Report) -> dict[str, str]:
    return {problem.name.removeprefix("docs/"): problem.reason for problem in report.problems}


def test_each_broken_file_has_its_reason_and_the_good_ones_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader_pool, "MEMORY", 400 << 20)
    docs = put(
        tmp_path / "docs",
        {
            "bomb.pdf": pdf_of_streams([deflated_zeros(600)], filters="/Filter /FlateDecode"),
            "bomb.docx": archive({"word/document.xml": bytes(30 << 20)}),
            "bomb.xlsx": archive({"xl/workbook.xml": bytes(30 << 20)}),
            "bomb.zip": archive({"a.txt": bytes(30 << 20), "b.txt": "A good member."}),
            "broken.docx": b"PK\x03\x04 not an archive",
            "broken.pdf": b"%PDF-1.7\nrubbish",
            "broken.xlsx": xlsx({"S": [["a"]]})[:2000],
            "broken.jsonl.gz": gzip.compress(b'{"id": "1", "text": "kept"}\n' + os.urandom(5000).hex().encode())[
                :-2000
            ],
            "locked.pdf": pdf("secret", encrypted=True),
            "old.doc": b"",
            "old.docx": OLE + bytes(600),
            "locked.docx": OLE + bytes(600) + "EncryptedPackage".encode("utf-16-le") + bytes(40),
            "locked.xlsx": OLE + bytes(3 << 20) + "EncryptedPackage".encode("utf-16-le") + bytes(40),
            "scan.pdf": pdf_of_streams([b"", b""]),
            "half.pdf": pdf_of_streams([b"BT /F1 9 Tf 9 9 Td (Words.) Tj ET", b""]),
            "binary.txt": b"\x00\x01\x02" * 100,
            "picture.txt": b"\x89PNG\r\n\x1a\n",
            "twice.txt.gz": gzip.compress(gzip.compress(b"inner")),
            "good.pdf": pdf("A good page."),
            "good.docx": docx("A good paragraph."),
            "good.txt": "A good line.",
        },
    )
    found, report = taken(tmp_path, docs)
    assert {document.text for document in found} == {
        "A good page.",
        "A good member.",
        "A good paragraph.",
        "A good line.",
        "Words.",
        "kept",
    }
    expected = {
        "bomb.pdf": "crashed",
        "bomb.docx": "grows more than 200 times",
        "bomb.xlsx": "grows more than 200 times",
        "bomb.zip/a.txt": "grows more than 200 times",
        "broken.docx": "damaged ZIP archive",
        "broken.pdf": "damaged pdf",
        "broken.xlsx": "damaged ZIP archive",
        "broken.jsonl.gz": "damaged: Compressed file ended",
        "locked.pdf": "encrypted",
        "old.docx": "an old Office file (such as .doc or .xls)",
        "locked.docx": "it is encrypted; it can be read after its password is removed",
        "locked.xlsx": "it is encrypted; it can be read after its password is removed",
        "scan.pdf": "a scan; read it with --ocr",
        "binary.txt": "binary",
        "picture.txt": "image",
        "twice.txt.gz": "more than once",
    }
    told = reasons(report)
    assert told.keys() == expected.keys()
    for name, words in expected.items():
        assert words in told[name], name
    assert [str(note) for note in report.notes] == ["docs/half.pdf: no text on 1 of 2 pages"]
    assert report.passed_over == {".doc": 1}


def test_a_gigantic_pdf_is_given_up_and_the_others_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_pool, "STALL", 3.0)
    docs = put(
        tmp_path / "docs", {"huge.pdf": b"%PDF-1.4\n", "scan.pdf": pdf_of_streams([b""]), "ok.txt": "A fine text."}
    )
    os.truncate(docs / "huge.pdf", 300 << 20)  # a sparse file: it takes no space
    documents, report = taken(tmp_path, docs)
    assert [document.text for document in documents] == ["A fine text."]
    found = reasons(report)
    assert "too long, gave up; divide the file of 0.3 GB" in found["huge.pdf"] or "damaged pdf" in found["huge.pdf"]
    assert found["scan.pdf"] == "no text on its page: a scan; read it with --ocr"


def test_a_broken_file_keeps_what_it_had(tmp_path: Path) -> None:
    docs = put(tmp_path / "docs", {"a.pdf": pdf("First.", "Second."), "c.jsonl": '{"id": "1", "text": "one"}\n'})
    found, _ = taken(tmp_path, docs)
    (docs / "a.pdf").write_bytes(b"%PDF-1.4 oh no")
    again, report = taken(tmp_path, docs)
    assert again == found
    assert reasons(report).keys() == {"a.pdf"}
    (docs / "a.pdf").write_bytes(pdf("Only."))
    mended, report = taken(tmp_path, docs)
    assert ({document.text for document in mended}, report.removed) == ({"Only.", "one"}, 1)


def test_a_gigantic_line_is_cut_or_named_in_bounded_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "MAX_LINE", 1 << 20)
    line = json.dumps({"id": "big", "text": "x" * (2 << 20)})
    docs = put(
        tmp_path / "docs",
        {"a.txt": b"y" * (3 << 20), "b.jsonl": f'{line}\n{{"id": "after", "text": "the giant"}}\n'},
    )
    found, report = taken(tmp_path, docs)
    assert "".join(d.text for d in found if d.id.startswith("docs/a.txt")) == "y" * (3 << 20)
    assert [d.id for d in found if not d.id.startswith("docs/a.txt")] == ["after"]
    assert reasons(report) == {"b.jsonl": "line 1: longer than 1,048,576 bytes"}


@pytest.mark.slow
def test_a_gigabyte_of_one_line(tmp_path: Path) -> None:
    """A hole in a file takes no room on the disk."""
    for name, begin in (("hole.txt", b""), ("hole.jsonl", b"[" * 4096)):
        with open(tmp_path / name, "wb") as file:
            file.write(begin)
            file.truncate(1 << 30)
    script = (
        "import json, re; from subquest.retrieval import Index; from subquest.retrieval.ingest import ingest\n"
        "report = ingest(Index.build('i.sq', []), ['hole.txt', 'hole.jsonl'])\n"
        # not ru_maxrss, which begins with the memory of the process that started this one
        "memory = int(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1]) >> 10\n"
        "print(json.dumps([memory, *(problem.reason for problem in report.problems)]))"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    megabytes, text, line = json.loads(done.stdout)
    assert (text, line) == ("it is binary, not text", "line 1: longer than 67,108,864 bytes")
    assert megabytes < 400


def test_invalid_text_and_empty_documents(tmp_path: Path) -> None:
    docs = put(
        tmp_path / "docs",
        {
            "latin.txt": "Grüße aus Köln".encode("latin-1"),
            "mixed.jsonl": b'{"id": "1", "text": "caf\xe9 and \xc3\xa9"}\n',
            "utf16.txt": "Ωmega".encode("utf-16"),
            "empty.txt": b"",
            "blank.md": b"\n\n  \n",
            "empty.jsonl": b"",
            "no-text.jsonl": '{"id": "2", "text": ""}\n',
            "null.jsonl": '{"id": null, "text": "x"}\n',
            "surrogate.jsonl": '{"id": "3", "text": "lone \\ud800 sign"}\n',
        },
    )
    found, report = taken(tmp_path, docs)
    assert {d.id: d.text for d in found} == {
        "docs/latin.txt#1": "Grüße aus Köln",
        "1": "café and é",
        "docs/utf16.txt#1": "Ωmega",
        "2": "",
        "3": "lone ? sign",
    }
    assert reasons(report) == {"null.jsonl": "line 1: the document has no id"}
    assert sorted(note.name for note in report.notes) == ["docs/blank.md", "docs/empty.jsonl", "docs/empty.txt"]


def test_ids_given_twice_are_told_and_the_last_stands(tmp_path: Path) -> None:
    docs = put(
        tmp_path / "docs",
        {
            "a.jsonl": '{"id": "x", "text": "first"}\n{"id": "y", "text": "one"}\n{"id": "y", "text": "two"}\n',
            "b.jsonl": '{"id": "x", "text": "second"}\n',
        },
    )
    found, report = taken(tmp_path, docs)
    assert {d.id: d.text for d in found} == {"x": "second", "y": "two"}
    assert sorted(report.doubles) == ["x", "y"]


def test_loops_pipes_and_links_to_nowhere(tmp_path: Path) -> None:
    docs = put(tmp_path / "docs", {"a.txt": "Here.", "sub/b.txt": "There."})
    os.symlink(docs, docs / "sub" / "loop")
    os.symlink("self.txt", docs / "self.txt")
    os.symlink("/nowhere/at/all.txt", docs / "gone.txt")
    os.symlink(docs / "a.txt", docs / "link.txt")
    os.mkfifo(docs / "pipe.txt")
    os.symlink("/dev/zero", docs / "zero.txt")
    found, report = taken(tmp_path, docs)
    assert {d.id for d in found} == {"docs/a.txt#1", "docs/link.txt#1", "docs/sub/b.txt#1"}
    assert reasons(report) == {
        "gone.txt": "a link to nowhere",
        "pipe.txt": "a pipe",
        "self.txt": "Too many levels of symbolic links",
        "zero.txt": "a device",
    }
    assert report.passed_over == {"links to folders": 1}
    with pytest.raises(UsageError, match="a pipe"):
        taken(tmp_path, docs / "pipe.txt")


def test_what_may_not_be_read_is_named(tmp_path: Path) -> None:
    """As a user without rights, in a process of its own."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    docs = put(tmp_path / "docs", {"a.txt": "Here.", "closed.txt": "No.", "vault/b.txt": "No."})
    os.chmod(docs / "closed.txt", 0)
    os.chmod(docs / "vault", 0)
    place = tmp_path / "work"
    place.mkdir()
    os.chown(place, 65534, 65534)
    for folder in (tmp_path, *list(tmp_path.parents)[:3]):
        os.chmod(folder, 0o755)
    child = os.fork()
    if child == 0:
        try:
            os.setgid(65534)
            os.setuid(65534)
            found, report = taken(place, docs, prune=True)
            right = [d.text for d in found] == ["Here."] and reasons(report) == {
                "closed.txt": "Permission denied",
                "vault": "the folder cannot be searched: Permission denied",
            }
            os._exit(0 if right else 1)
        except BaseException:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_folder_that_cannot_be_searched_is_not_taken_for_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    docs = put(tmp_path / "docs", {"a.txt": "Here.", "vault/b.txt": "Kept."})
    taken(tmp_path, docs)
    scandir = os.scandir

    def refuse(path: str) -> object:
        if str(path).endswith("vault"):
            raise PermissionError(errno.EACCES, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    found, report = taken(tmp_path, docs, prune=True)
    assert [d.text for d in found] == ["Here.", "Kept."]
    assert report.files_removed == []


def test_very_deep_folders_and_strange_names(tmp_path: Path) -> None:
    deep = tmp_path / "docs"
    deep.mkdir()
    (deep / "top.txt").write_text("Top.")
    strange = os.fsencode(deep) + b"/caf\xe9 \n\x1b[31m.txt"
    Path(os.fsdecode(strange)).write_text("Strange.")
    here = os.getcwd()
    try:
        os.chdir(deep)
        for _ in range(45):  # a path can have 4,096 bytes
            os.mkdir("f" * 100)
            os.chdir("f" * 100)
        Path("lost.txt").write_text("Too deep.")
    finally:
        os.chdir(here)
    found, report = taken(tmp_path, deep)
    assert sorted(d.text for d in found) == ["Strange.", "Top."]
    assert any("cannot be searched: File name too long" in reason for reason in reasons(report).values())
    assert "docs/caf\\xe9 \n\x1b[31m.txt#1" in {d.id for d in found}


def test_archives_within_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nested = archive({"in.txt": "Deep down."})
    for _ in range(4):
        nested = archive({"n.zip": nested})
    docs = put(
        tmp_path / "docs",
        {
            "nested.zip": nested,
            "two.zip": archive({"sub/a.txt": "One.", ".DS_Store": "x", "__MACOSX/a.txt": "x", "d/": ""}),
            "bad.zip": archive({"ok.txt": "Fine.", "broken.pdf": b"%PDF-1.4 no"}),
        },
    )
    with zipfile.ZipFile(docs / "same.zip", "w") as same, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the name that stands twice, which is meant
        same.writestr("a.txt", "First.")
        same.writestr("a.txt", "Second.")
    data = bytearray(archive({"a.txt": "Stored badly, its sum is wrong."}))
    data[45] ^= 1
    (docs / "sum.zip").write_bytes(data)
    found, report = taken(tmp_path, docs)
    assert {d.text for d in found} == {"One.", "Fine.", "First.", "Second."}
    told = reasons(report)
    assert "depth of 3" in told["nested.zip/n.zip/n.zip/n.zip"]
    assert "damaged pdf" in told["bad.zip/broken.pdf"]
    assert "damaged" in told["sum.zip/a.txt"]


@pytest.mark.slow
def test_a_compressed_file_may_not_grow_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "FREE", 1 << 20)
    docs = put(
        tmp_path / "docs", {"a.txt.gz": gzip.compress(b"zebrafish " * (2 << 20)), "b.txt.gz": gzip.compress(b"Fine.")}
    )
    found, report = taken(tmp_path, docs)
    assert "grows more than 200 times" in reasons(report)["a.txt.gz"]
    assert "Fine." in {d.text for d in found}
    monkeypatch.setattr(archives, "HELD", 1000)
    put(docs, {"c.pdf.gz": gzip.compress(os.urandom(2000))})
    assert "larger than 1,000 bytes" in reasons(taken(tmp_path, docs)[1])["c.pdf.gz"]


@pytest.mark.parametrize("kilobytes", [200, 500, 900])
def test_a_full_disk_loses_nothing(tmp_path: Path, kilobytes: int) -> None:
    """Really full for the writer: no file may grow beyond a limit that falls into the store, its log or a segment."""
    words = [f"w{n * 7919 % 100_003}" for n in range(60_000)]
    docs = put(
        tmp_path / "docs",
        {f"{n}.txt": " ".join(words[n * 3000 : (n + 1) * 3000]) for n in range(20)},
    )
    with Index.build(tmp_path / "i.sq", [Document("before", "", "apple")]):
        pass
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_FSIZE, (kilobytes * 1000, kilobytes * 1000))
        try:
            with Index.open(tmp_path / "i.sq") as index:
                ingest(index, [docs], progress=lambda state: None)
            os._exit(1)
        except SearchError:
            os._exit(0)
        except BaseException:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    with Index.open(tmp_path / "i.sq") as index:
        assert index.verify() == []
        assert [hit.document.id for hit in index.search("apple")] == ["before"]
    found, report = taken(tmp_path, docs)
    with Index.build(tmp_path / "fresh.sq", [Document("before", "", "apple")]) as fresh:
        ingest(fresh, [docs])
        assert sorted(found, key=lambda d: d.id) == sorted(fresh.documents(), key=lambda d: d.id)
    assert report.problems == []


def test_a_worker_that_cannot_be_had_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The libraries are not installed: each file says which extra is missing, text is read all the same."""
    monkeypatch.setenv("PYTHONPATH", str(put(tmp_path / "none", {"pypdfium2.py": "raise ImportError('not here')"})))
    docs = put(tmp_path / "docs", {"a.pdf": pdf("x"), "b.txt": "Text."})
    found, report = taken(tmp_path, docs)
    assert [d.text for d in found] == ["Text."]
    assert "pip install 'subquest[web-tools]'" in reasons(report)["a.pdf"]


@pytest.mark.slow
def test_scans_are_read_when_asked(tmp_path: Path) -> None:
    pytest.importorskip("rapidocr", reason="OCR needs the extra `media`")
    image = pytest.importorskip("PIL.Image", reason="pictures need the extra `media`")
    from PIL import ImageDraw, ImageFont

    picture = image.new("RGB", (900, 300), "white")
    ImageDraw.Draw(picture).text((40, 100), "The gate is 412 feet long", fill="black", font=ImageFont.load_default(48))
    docs = tmp_path / "docs"
    docs.mkdir()
    picture.save(docs / "scan.pdf")
    picture.save(docs / "sign.png")
    image.new("RGB", (300, 300), "white").save(docs / "blank.pdf")
    found, report = taken(tmp_path, docs)
    assert (found, "a scan" in reasons(report)["scan.pdf"]) == ([], True)
    found, report = taken(tmp_path, docs, ocr=True)
    assert {d.id: "412" in d.text for d in found} == {"docs/scan.pdf#1": True, "docs/sign.png#1": True}
    assert reasons(report) == {"blank.pdf": "no text on its page; OCR found none"}
    assert taken(tmp_path, docs, ocr=True)[1].files_unchanged == 2  # and a page without text
    assert taken(tmp_path, docs)[1].files_unchanged == 1  # without OCR pictures are passed over


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2, zipfile.ZIP_DEFLATED])
def test_damaged_archives_of_any_compression_are_named_and_the_rest_is_read(tmp_path: Path, method: int) -> None:
    docs = put(
        tmp_path / "docs", {"names.zip": archive({"ä.txt": "x"}).replace("ä".encode(), b"\xff\xff"), "z.txt": "Z."}
    )
    with zipfile.ZipFile(docs / "a.zip", "w", method) as made:
        made.writestr("first.txt", " ".join(map(str, range(3000))))
        made.writestr("second.txt", "Second.")
    data = bytearray((docs / "a.zip").read_bytes())
    data[60:90] = bytes(byte ^ 0x5A for byte in data[60:90])
    (docs / "a.zip").write_bytes(data)
    found, report = taken(tmp_path, docs)
    assert {d.text for d in found} >= {"Second.", "Z."}
    assert "damaged" in reasons(report)["a.zip/first.txt"]
    assert "damaged ZIP archive" in reasons(report)["names.zip"]


@pytest.mark.parametrize("kilobytes", [0, 40, 100])
def test_a_full_disk_is_no_reason_to_call_an_index_broken(tmp_path: Path, kilobytes: int) -> None:
    documents = [Document(str(n), f"Title {n}", f"Kelm {n} " + "and more " * 100) for n in range(300)]
    Index.build(tmp_path / "i.sq", documents).close()
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_FSIZE, (kilobytes * 1000, kilobytes * 1000))
        try:
            with Index.open(tmp_path / "i.sq") as index:
                index.compact()
            os._exit(1)
        except SearchError as error:
            os._exit(0 if "intact" in str(error) else 3)
        except BaseException:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    with Index.open(tmp_path / "i.sq") as index:
        assert index.verify() == []
        assert list(index.documents()) == documents


def test_the_status_of_an_add_of_which_nothing_could_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the index had before does not count."""
    (tmp_path / "a.txt").write_text("Some text.")
    (tmp_path / "b.pdf").write_bytes(b"%PDF-1.4 broken")
    (tmp_path / "c.pdf").write_bytes(pdf_of_streams([b""]))
    index, good, broken, scan = (str(tmp_path / name) for name in ("i.sq", "a.txt", "b.pdf", "c.pdf"))
    assert main(["index", "build", good, "--out", index]) == 0
    for _ in range(2):
        assert main(["index", "add", index, broken]) == 1
        assert "b.pdf: a damaged pdf" in capsys.readouterr().err
        assert main(["index", "add", index, scan]) == 1
        assert "0 files read, 0 unchanged, 1 broken" in capsys.readouterr().out
    assert main(["index", "add", index, broken, good]) == 0, "unchanged, but it could be read"
    assert main(["index", "add", index, broken, good, "--strict"]) == 1
    assert main(["index", "add", index, good]) == 0
