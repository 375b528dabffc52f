"""Files as text, built here byte by byte; damaged and hostile ones give a reason."""

import io
import zipfile

import pytest

from subquest.errors import ToolError
from subquest.readers import reader_pool
from subquest.tools import files

from .hostile import pdf

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
A = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'


def archive(**members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in members.items():
            made.writestr(name, content)
    return buffer.getvalue()


def read(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    return files.read_file(path)


def test_pdf_by_page(tmp_path):
    text = read(tmp_path, "paper.bin", pdf("First page", "Second page"))
    assert text.kind == "pdf"
    assert [(name, part) for name, part in text.parts] == [("page 1", "First page"), ("page 2", "Second page")]


def test_docx_paragraphs_and_tables(tmp_path):
    cell = "<w:tc><w:p><w:r><w:t>{}</w:t></w:r></w:p></w:tc>"
    body = (
        f"<w:document {W}><w:body><w:p><w:r><w:t>Hello </w:t></w:r><w:r><w:t>there</w:t></w:r></w:p>"
        f"<w:tbl><w:tr>{cell.format('Town')}{cell.format('People')}</w:tr>"
        f"<w:tr>{cell.format('Kelm')}{cell.format('12')}</w:tr></w:tbl></w:body></w:document>"
    )
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as file:
        file.writestr("word/document.xml", body)
    text = read(tmp_path, "a.docx", made.getvalue())
    assert (text.kind, text.text) == ("docx", "Hello there\n| Town | People |\n| Kelm | 12 |")


def test_pptx_by_slide_in_order(tmp_path):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as file:
        for n in (10, 2):
            slide = f"<p:sld xmlns:p='x' {A}><a:p><a:r><a:t>Slide {n}</a:t></a:r></a:p></p:sld>"
            file.writestr(f"ppt/slides/slide{n}.xml", slide)
    text = read(tmp_path, "talk.pptx", made.getvalue())
    assert text.parts == (("slide 2", "Slide 2"), ("slide 10", "Slide 10"))


def test_xlsx_by_sheet(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.title = "Sales"
    book.active.append(["region", "amount"])
    book.active.append(["north", 10.5])
    book.create_sheet("Empty")
    made = io.BytesIO()
    book.save(made)
    text = read(tmp_path, "book.xlsx", made.getvalue())
    assert text.parts[0] == ("sheet Sales", "| region | amount |\n| north | 10.5 |")
    assert text.parts[1][0] == "sheet Empty"


def test_csv_json_text_and_html(tmp_path):
    assert read(tmp_path, "a.csv", b"town;people\nKelm;12\n").text == "| town | people |\n| Kelm | 12 |"
    assert '"a": 1' in read(tmp_path, "a.json", b'{"a":1}').text
    assert read(tmp_path, "a.json", b"{broken").text == "{broken"
    assert read(tmp_path, "a.md", "# Täg".encode()).text == "# Täg"
    assert read(tmp_path, "b.txt", "grün".encode("latin-1")).text == "grün"
    html = read(tmp_path, "page", b"<!doctype html><html><body><p>Some words.</p></body></html>")
    assert (html.kind, html.text) == ("html", "Some words.")


def test_long_tables_say_that_they_are_cut(tmp_path):
    text = read(tmp_path, "long.csv", b"n\n" + b"".join(b"%d\n" % n for n in range(5000))).text
    assert "more than 2000 rows" in text
    assert "| 1998 |" in text
    assert "| 4000 |" not in text


def test_zip_lists_and_reads_its_members(tmp_path):
    inner = archive(**{"deep.txt": "not read"})
    content = archive(
        **{"notes.txt": "hello", "data.csv": "a,b\n1,2\n", "inner.zip": inner, "x.png": b"\x89PNG\r\n\x1a\n"}
    )
    text = read(tmp_path, "all.zip", content)
    assert text.kind == "zip"
    assert "notes.txt (5 bytes)" in text.text
    assert "[notes.txt]\nhello" in text.text
    assert "| 1 | 2 |" in text.text
    assert "not read" not in text.text


def test_one_bad_member_costs_an_archive_nothing_else(tmp_path):
    content = archive(**{"bad.pdf": b"%PDF-1.4 broken", "data.csv": "a,b\n1,2\n"})
    locked = content.replace(b"PK\x01\x02\x14\x03\x14\x00\x00", b"PK\x01\x02\x14\x03\x14\x00\x01")  # says: encrypted
    text = read(tmp_path, "all.zip", content).text
    assert "[bad.pdf]\n(it cannot be read: bad.pdf" in text
    assert "| 1 | 2 |" in text
    assert locked != content
    assert "password" in read(tmp_path, "locked.zip", locked).text


def test_a_broken_page_costs_a_pdf_nothing_else(tmp_path):
    whole = pdf("The first page", "The second page")
    text = read(tmp_path, "x.pdf", whole.replace(b"[4 0 R 6 0 R]", b"[4 0 R 9 0 R]")).text
    assert "The first page" in text
    assert "not all of it could be read: page 2" in text


def test_a_pdf_that_kills_its_reader_kills_nobody_else(tmp_path, monkeypatch):
    """Pages are read by a process of its own; here it is given too little memory to live, or to read."""
    monkeypatch.setattr(reader_pool, "MEMORY", 16 << 20)
    with pytest.raises(ToolError, match=r"its reader crashed|takes more than 0\.0 GB of memory"):
        read(tmp_path, "x.pdf", pdf("Some text"))


def test_archives_have_limits(tmp_path):
    with pytest.raises(ToolError, match="grows more than"):
        read(tmp_path, "bomb.zip", archive(big=bytes(30 << 20)))
    with pytest.raises(ToolError, match="300 members"):
        read(tmp_path, "many.zip", archive(**{f"f{n}": "x" for n in range(300)}))
    with pytest.raises(ToolError, match="more than"):
        read(tmp_path, "large.zip", archive(**{f"f{n}": bytes(20 << 20) for n in range(4)}))


def test_entities_in_office_files_are_refused(tmp_path):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as file:
        file.writestr("word/document.xml", '<!DOCTYPE x [<!ENTITY a "aaaa">]><x>&a;</x>')
    with pytest.raises(ToolError, match="entities"):
        read(tmp_path, "x.docx", made.getvalue())


@pytest.mark.parametrize("content", [b"%PDF-1.4 broken", b"PK\x03\x04broken", b"\x00\x01\x02"])
def test_damaged_files_give_a_reason(tmp_path, content):
    with pytest.raises(ToolError, match=r"x\.dat|archive"):
        read(tmp_path, "x.dat", content)


def test_missing_and_huge_files(tmp_path):
    with pytest.raises(ToolError, match="No such file"):
        files.read_file(tmp_path / "none.txt")
    huge = tmp_path / "huge.txt"
    with huge.open("wb") as file:
        file.truncate(files.MAX_FILE + 1)
    with pytest.raises(ToolError, match="at most"):
        files.read_file(huge)


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"RIFF____WAVEfmt ", "audio"),
        (b"RIFF____WEBP", "image"),
        (b"\x00\x00\x00\x18ftypmp42", "video"),
        (b"ID3\x03", "audio"),
        (b"\x89PNG\r\n\x1a\n", "image"),
        (b"", "text"),
    ],
)
def test_sniffing(content, kind):
    assert files.sniff(content) == kind


@pytest.mark.parametrize("way", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_damaged_member_of_any_compression_does_not_cost_the_others(way):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", way) as archive:
        archive.writestr("bad.txt", "lost " * 100)
        archive.writestr("good.txt", "kept")
    content = bytearray(packed.getvalue())
    place = content.find(b"bad.txt") + len(b"bad.txt")
    content[place + 12 : place + 24] = bytes(12)
    text = files.from_bytes(bytes(content), "zip", "a.zip").text
    assert "[bad.txt]\n(it cannot be read" in text
    assert "[good.txt]\nkept" in text


def sheet(rows):
    """A workbook whose only sheet has these rows, as XML."""
    openpyxl = pytest.importorskip("openpyxl")
    made = io.BytesIO()
    openpyxl.Workbook().save(made)
    source, out = zipfile.ZipFile(made), io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for name in source.namelist():
            body = source.read(name)
            if name == "xl/worksheets/sheet1.xml":
                space = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
                body = f'<worksheet xmlns="{space}"><sheetData>{rows}</sheetData></worksheet>'.encode()
            file.writestr(name, body)
    return out.getvalue()


def test_a_sheet_that_claims_endless_rows_ends(tmp_path):
    rows = '<row r="1"><c r="A1"><v>7</v></c></row><row r="{}"><c r="A2"><v>8</v></c></row>'
    assert read(tmp_path, "a.xlsx", sheet(rows.format(900_000))).text == "[sheet Sheet]\n| 7 |\n| 8 |"
    with pytest.raises(ToolError, match="more than 1,048,576 rows"):
        read(tmp_path, "b.xlsx", sheet(rows.format(10**12)))


def test_an_office_file_that_takes_its_time_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(reader_pool, "SECONDS", 0.0)
    monkeypatch.setattr(reader_pool, "SECONDS_A_MEGABYTE", 0.0)
    with pytest.raises(ToolError, match="takes too long"):
        read(tmp_path, "a.xlsx", sheet('<row r="1"><c r="A1"><v>7</v></c></row>'))
