"""Readers by kind: parts with their places, and hostile files refused with a reason."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from subquest.errors import DataError
from subquest.readers import Part, reader, reader_pool, sniff
from subquest.readers.archive import ZipLimits, open_zip
from subquest.readers.reader_pool import Pool
from subquest.readers.text import decode, lines

from ..open_files import many_open_files
from .made import archive, deflated_zeros, docx, pdf, pdf_of_objects, pdf_of_streams, pptx, stream_of, xlsx

pytest.importorskip("pypdfium2", reason="readers need the extra `web-tools`")


def read(content: bytes, name: str = "") -> list[Part]:
    found = reader(sniff(content, name))
    assert found is not None
    return list(found(io.BytesIO(content)))


def test_word_has_sections_tables_and_the_pages_word_saw() -> None:
    parts = read(
        docx(
            ("Titel", "A year of birds"),
            ("berschrift1", "Robins"),
            "They sing. \fThey sleep.",
            ("berschrift2", "Nests"),
            [["tree", "nests"], ["oak", "3"]],
            ("berschrift1", "Owls"),
            "They hoot & fly.",
        )
    )
    assert parts[0].title == "A year of birds"
    assert [(part.text, part.place.get("page"), part.section) for part in parts[1:]] == [
        ("Robins", 1, ("Robins",)),
        ("They sing.", 1, ("Robins",)),
        ("They sleep.", 2, ("Robins",)),
        ("Nests", 2, ("Robins", "Nests")),
        ("| tree | nests |", 2, ("Robins", "Nests")),
        ("| oak | 3 |", 2, ("Robins", "Nests")),
        ("Owls", 2, ("Owls",)),
        ("They hoot & fly.", 2, ("Owls",)),
    ]
    assert [part.place.get("row") for part in parts if part.row] == [1, 2]
    unpaged = read(docx("Never laid out by Word.", title="From the properties"))
    assert (dict(unpaged[0].place), unpaged[0].title) == ({"paragraph": 1}, "From the properties")


def test_slides_come_as_they_are_shown_with_their_notes() -> None:
    parts = read(pptx(("Opening", "Welcome", ""), ("Numbers", "Rain\nSnow", "Speak slowly"), ("", "End", "")))
    assert [(part.place["slide"], part.section, part.text) for part in parts] == [
        (1, ("Opening",), "Opening\nWelcome"),
        (2, ("Numbers",), "Numbers\nRain\nSnow\nNotes:\nSpeak slowly"),
        (3, (), "End"),
    ]


def test_tables_and_charts_of_slides_are_neither_titles_nor_lost() -> None:
    a = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'

    def cell(words: str) -> str:
        return f"<a:tc><a:txBody><a:p><a:r><a:t>{words}</a:t></a:r></a:p></a:txBody></a:tc>"

    rows = f"<a:tr>{cell('town')}{cell('mm')}</a:tr><a:tr>{cell('Kelm')}{cell('12')}</a:tr>"
    table = f"<graphicFrame><a:tbl>{rows}</a:tbl></graphicFrame>"
    twice = f"<AlternateContent><Choice>{_line('once')}</Choice><Fallback>{_line('once')}</Fallback></AlternateContent>"
    shapes = _line("Rain", "title") + table + _line("page 1", "ftr") + table + twice
    points = "".join(f"<pt><v>{word}</v></pt>" for word in ("May", "June"))
    series = f"<ser><cat><strCache>{points}</strCache></cat><val><numCache><pt><v>7</v></pt></numCache></val></ser>"
    relation = "<Relationships><Relationship Id='r1' Type='x/chart' Target='../charts/chart1.xml'/></Relationships>"
    (part,) = read(
        archive(
            {
                "ppt/slides/slide1.xml": f"<sld {a}>{shapes}</sld>",
                "ppt/slides/_rels/slide1.xml.rels": relation,
                "ppt/charts/chart1.xml": f"<chart {a}><title>{_line('By month')}</title>{series}{series}</chart>",
            }
        )
    )
    assert part.section == ("Rain",)
    grid = ["| town | mm |", "| Kelm | 12 |"]
    assert part.text.split("\n") == ["Rain", *grid, *grid, "once", "By month", "May", "June"]


def _line(words: str, kind: str = "") -> str:
    place = f'<ph type="{kind}"/>' if kind else ""
    return f"<sp>{place}<a:p><a:r><a:t>{words}</a:t></a:r></a:p></sp>"


def test_empty_cells_do_not_become_text() -> None:
    far = read(xlsx({"Wide": [["town", *[None] * 300, "far"], ["Kelm", "", None, "x", *[None] * 40]]}))
    assert [part.text for part in far] == ["| town | … | far |", "| Kelm |  |  | x |"]


def test_word_hyphens_that_do_not_break_are_hyphens() -> None:
    run = "<w:p><w:r><w:t>well</w:t><w:noBreakHyphen/><w:t>known</w:t></w:r></w:p>"
    w = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
    (part,) = read(archive({"word/document.xml": f"<w:document {w}>{run}</w:document>"}))
    assert part.text == "well-known"


def test_sheets_by_row() -> None:
    parts = read(xlsx({"Rain": [["town", "mm"], [None, None], ["Kelm", 12.0]], "Snow": [["none"]]}))
    assert [(part.text, dict(part.place)) for part in parts] == [
        ("| town | mm |", {"sheet": "Rain", "row": 1}),
        ("| Kelm | 12 |", {"sheet": "Rain", "row": 3}),
        ("| none |", {"sheet": "Snow", "row": 1}),
    ]


def test_web_pages_have_sections() -> None:
    page = (
        "<html><head><title>Rivers</title></head><body><nav>Home</nav><main><h1>Rivers</h1><p>They flow to the sea, "
        "all of them, in the end and without haste.</p><h2>Ostel</h2><p>It rises near Kelm.</p><script>no()</script>"
        "<table><tr><th>Town</th><th>Level</th></tr><tr><td>Kelm</td><td>3</td></tr></table></main></body></html>"
    )
    parts = read(page.encode())
    assert parts[0].title == "Rivers"
    assert {part.section for part in parts if "Kelm" in part.text} == {("Rivers", "Ostel")}
    assert [part.cells for part in parts if part.row] == [("Town", "Level"), ("Kelm", "3")]
    assert "no()" not in "".join(part.text for part in parts)


def test_words_on_lines_of_their_own_do_not_run_together() -> None:
    page = (
        "<html><body><h1>High<br>water</h1><p>Levels of all rivers, in metres above the sea, by town and year.</p>"
        "<table><tr><th>Town</th><th>Seen</th></tr>"
        "<tr><td>Kelm<br>Ostel</td><td><p>May</p><p>June</p><ul><li>early</li><li>l<b>at</b>e</li></ul></td></tr>"
        "</table></body></html>"
    )
    part = read(page.encode())[-1]
    assert part.section == ("High water",)
    assert part.cells == ("Kelm Ostel", "May June early late")


def test_rows_of_csv_begin_at_their_line() -> None:
    parts = read(b'town;note\nKelm;"two\nlines"\n\nBrunn;"x"\n', "a.csv")
    assert [(part.text, part.place["line"]) for part in parts] == [
        ("| town | note |", 1),
        ("| Kelm | two lines |", 2),
        ("| Brunn | x |", 5),
    ]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("grün".encode(), "grün"),
        ("grün".encode("utf-8-sig"), "grün"),
        ("grün".encode("utf-16"), "grün"),
        ("grün".encode("latin-1"), "grün"),
        (b"\x93quoted\x94 and caf\xc3\xa9", "“quoted” and café"),
    ],
)
def test_bytes_of_any_encoding_are_text(content: bytes, text: str) -> None:
    assert decode(content) == text
    assert "".join(lines(io.BytesIO(content))) == text


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("東京は日本の首都です。大阪は商業の町です。", "shift_jis"),
        ("東京は日本の首都です。大阪は商業の町です。", "euc_jp"),
        ("长城在北京。中国的首都是北京，人口很多。", "gb18030"),
        ("Москва столица России. Волга впадает в Каспийское море.", "cp1251"),
        ("Москва столица России. Волга впадает в Каспийское море.", "koi8_r"),
        ("القاهرة هي عاصمة مصر وأكبر مدنها.", "cp1256"),
    ],
)
def test_other_scripts_are_known_by_their_bytes(text: str, encoding: str) -> None:
    content = (text + "\n").encode(encoding) * 3
    assert decode(content) == (text + "\n") * 3
    assert "".join(lines(io.BytesIO(content))) == (text + "\n") * 3


def test_a_sign_cut_by_the_end_of_the_sample_is_no_other_script(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("subquest.readers.text._SAMPLE", 10)
    assert decode("東京は日本の首都です。".encode()) == "東京は日本の首都です。"
    assert decode("東京は\n".encode() * 9 + b"caf\xe9") == "東京は\n" * 9 + "café"


def test_a_gigantic_line_comes_in_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("subquest.readers.text.MAX_LINE", 10)
    assert list(lines(io.BytesIO(b"x" * 25 + b"\nshort\n"))) == ["x" * 10, "x" * 10, "xxxxx\n", "short\n"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (pdf("secret", encrypted=True), "encrypted"),
        (b"%PDF-1.4 broken", "damaged pdf"),
        (archive({"word/document.xml": b" " * (30 << 20)}), "grows more than 200 times"),
        (archive({"word/other.xml": "x"}), "no word/document.xml"),
        (archive({"word/document.xml": '<!DOCTYPE x [<!ENTITY a "b">]><x>&a;</x>'}), "entities"),
        (archive({"word/document.xml": "<w><unclosed>"}), "word/document.xml"),
        (archive({"xl/workbook.xml": '<!DOCTYPE x [<!ENTITY a "b">]><x>&a;</x>'}), "entities"),
    ],
)
def test_hostile_files_are_refused(content: bytes, reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        read(content)


def test_archives_have_limits() -> None:
    many = archive({f"f{n}": "x" for n in range(30)})
    for limits, reason in (
        (ZipLimits(members=20), "30 members"),
        (ZipLimits(total=20), "more than 20 bytes"),
    ):
        with pytest.raises(DataError, match=reason):
            open_zip(io.BytesIO(many), limits)
    end = b"PK\x05\x06" + bytes(8) + (1 << 28).to_bytes(4, "little") + bytes(6)
    with pytest.raises(DataError, match="table of contents"):
        open_zip(io.BytesIO(bytes(1 << 25) + end))


# ------------------------------------------------------------------------------------------------ in processes


def parts_of(pool_: Pool, path: Path, kind: str) -> list[Part]:
    with open(path, "rb") as file:
        return list(pool_.parts(pool_.start(file, kind)))


def test_a_bomb_takes_its_process_with_it_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_pool, "MEMORY", 400 << 20)
    (tmp_path / "bomb.pdf").write_bytes(pdf_of_streams([deflated_zeros(600)], filters="/Filter /FlateDecode"))
    (tmp_path / "good.pdf").write_bytes(pdf("One", "Two"))
    assert (tmp_path / "bomb.pdf").stat().st_size < 1 << 20
    with Pool() as workers:
        with pytest.raises(DataError, match=r"crashed|memory"):
            parts_of(workers, tmp_path / "bomb.pdf", "pdf")
        assert [part.place["page"] for part in parts_of(workers, tmp_path / "good.pdf", "pdf")] == [1, 2]


def test_more_text_than_a_file_can_hold_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_pool, "ROOM", 1000)
    monkeypatch.setattr(reader_pool, "ROOM_A_BYTE", 0)
    (tmp_path / "long.pdf").write_bytes(pdf(*["many words " * 8] * 20))
    with Pool() as workers, pytest.raises(DataError, match="far more text"):
        parts_of(workers, tmp_path / "long.pdf", "pdf")


def test_a_reader_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_pool, "STALL", 1.0)
    os.mkfifo(tmp_path / "silent.html")
    writer = os.open(tmp_path / "silent.html", os.O_RDWR)  # it is there, and says nothing
    with Pool() as workers:
        with pytest.raises(DataError, match="too long"):
            parts_of(workers, tmp_path / "silent.html", "html")
        os.close(writer)
        (tmp_path / "good.html").write_text("<html><body><p>Fine.</p></body></html>")
        monkeypatch.setattr(reader_pool, "STALL", 30.0)
        assert [part.text.strip() for part in parts_of(workers, tmp_path / "good.html", "html")] == ["Fine."]


def test_a_process_with_a_thousand_open_files_reads_too(tmp_path: Path) -> None:
    (tmp_path / "good.html").write_text("<html><body><p>Fine.</p></body></html>")
    with many_open_files(), Pool() as workers:
        assert [part.text.strip() for part in parts_of(workers, tmp_path / "good.html", "html")] == ["Fine."]


def test_files_are_read_side_by_side_and_given_in_order(tmp_path: Path) -> None:
    paths = [tmp_path / f"{n}.pdf" for n in range(3)]
    for n, path in enumerate(paths):
        path.write_bytes(pdf(*[f"file {n} page {page}" for page in range(5)]))
    with Pool(3) as workers:
        files = [open(path, "rb") for path in paths]  # noqa: SIM115
        jobs = [workers.start(file, "pdf") for file in files]
        assert not workers.free
        texts = [part.text.strip() for job in jobs for part in workers.parts(job)]
        for file in files:
            file.close()
    assert texts == [f"file {n} page {page}" for n in range(3) for page in range(5)]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("BMW is a maker of cars.", "bmw.txt"),
        ("ID3 grows trees of decisions.", "id3.md"),
        ("RIFF is a form of files.", "riff.txt"),
        ("GIF89a is a form of pictures.", "gif.md"),
        ("The ftyp box comes first.", "boxes.txt"),
        ("OggS begins a page.", "ogg"),
        ("# About PDF\n\nIts first bytes are %PDF-1.4.", "about.md"),
    ],
)
def test_texts_may_begin_like_pictures_and_sounds(text: str, name: str) -> None:
    assert sniff(text.encode(), name) == "text"


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        (b"BM\x36\x00\x0c\x00" + bytes(20), "image"),
        (b"GIF89a\x01\x00\x01\x00\x80\x00\x00", "image"),
        (b"ID3\x04\x00\x00" + bytes(10), "audio"),
        (b"RIFF\x24\x08\x00\x00WAVEfmt ", "audio"),
        (b"RIFF\x24\x08\x00\x00WEBPVP8 ", "image"),
        (b"\x00\x00\x00\x20ftypisom", "video"),
        (b"\x01\x02 a mail before it\r\n%PDF-1.4", "pdf"),
    ],
)
def test_pictures_sounds_and_films_by_their_first_bytes(head: bytes, kind: str) -> None:
    assert sniff(head, "file") == kind


def test_an_archive_whose_names_cannot_be_read_is_still_an_archive() -> None:
    content = archive({"ä.txt": "text"}).replace("ä".encode(), b"\xff\xff")
    assert sniff(content, "a.zip") == "zip"
    with pytest.raises(DataError, match="damaged ZIP archive"):
        open_zip(io.BytesIO(content))


def test_pages_after_one_that_cannot_be_read_are_read() -> None:
    content = pdf("First.", "Second.", "Third.")
    begin = content.index(b"7 0 obj\n") + 8
    end = content.index(b"\nendobj", begin)
    found = reader("pdf")
    assert found is not None
    parts = found(io.BytesIO(content[:begin] + b"null".ljust(end - begin) + content[end:]))
    assert [(part.text, part.place["page"]) for part in (next(parts), next(parts))] == [("First.", 1), ("Third.", 3)]
    with pytest.raises(DataError, match="page 2 cannot be read"):
        next(parts)


def test_what_was_filled_into_a_form_is_text() -> None:
    look = b"BT /F1 11 Tf 2 4 Td (Ada Kelm) Tj ET"
    page = (
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 6 0 R /Annots [7 0 R] "
        b"/Resources << /Font << /F1 3 0 R >> >> >>"
    )
    field = (
        b"<< /Type /Annot /Subtype /Widget /FT /Tx /T (name) /V (Ada Kelm) /Rect [40 600 240 620] /F 4 "
        b"/P 5 0 R /AP << /N 8 0 R >> >>"
    )
    shown = b"<< /Type /XObject /Subtype /Form /BBox [0 0 200 20] /Resources << /Font << /F1 3 0 R >> >> "
    content = pdf_of_objects(
        b"<< /Type /Catalog /Pages 2 0 R /AcroForm << /Fields [7 0 R] >> >>",
        b"<< /Type /Pages /Kids [5 0 R] /Count 1 >>",
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
        b"<< >>",
        page,
        stream_of(b"BT /F1 11 Tf 40 700 Td (Name of the traveller:) Tj ET"),
        field,
        stream_of(look, shown),
    )
    (part,) = read(content)
    assert part.text.split("\n") == ["Name of the traveller:", "Ada Kelm"]


def test_text_beside_a_page_that_has_no_other_is_read() -> None:
    (part,) = read(pdf_of_streams([b"BT /F1 11 Tf 40 2000 Td (Turned away) Tj ET"]))
    assert part.text == "Turned away"
