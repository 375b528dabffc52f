"""Real files of every kind, made here: PDF byte by byte, office files as the ZIP archives of XML that they are."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

_W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
_A = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
_P = 'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main"'
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_R = f'xmlns:r="{_OFFICE}"'
_RELATIONS = 'xmlns="http://schemas.openxmlformats.org/package/2006/relationships"'


def pdf(*pages: str, title: str = "", encrypted: bool = False) -> bytes:
    """A PDF of pages of text; each line of a page is a line on paper."""
    streams = []
    for page in pages:
        lines = [line.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)") for line in page.split("\n")]
        shown = " T* ".join(f"({line}) Tj" for line in lines if line)
        streams.append(f"BT /F1 11 Tf 14 TL 40 760 Td {shown} ET".encode("cp1252"))
    return pdf_of_streams(streams, title=title, encrypted=encrypted)


def pdf_of_streams(streams: Sequence[bytes], title: str = "", encrypted: bool = False, filters: str = "") -> bytes:
    """A PDF of pages given by what draws them."""
    bodies = [b"<< /Type /Catalog /Pages 2 0 R >>"]
    kids = " ".join(f"{5 + 2 * n} 0 R" for n in range(len(streams)))
    bodies.append(f"<< /Type /Pages /Kids [{kids}] /Count {len(streams)} >>".encode())
    bodies.append(b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>")
    bodies.append(f"<< /Title ({title}) >>".encode())
    for n, stream in enumerate(streams):
        bodies.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {6 + 2 * n} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>".encode()
        )
        bodies.append(f"<< /Length {len(stream)} {filters} >>\nstream\n".encode() + stream + b"\nendstream")
    lock = f"/Encrypt << /Filter /Standard /V 1 /R 2 /P -4 /O <{'ab' * 32}> /U <{'cd' * 32}> >> /ID [<00> <00>]"
    return pdf_of_objects(*bodies, trailer=f"/Info 4 0 R {lock if encrypted else ''}")


def pdf_of_objects(*bodies: bytes, trailer: str = "") -> bytes:
    """A PDF of objects numbered from 1, of which the first is the catalogue."""
    out, places = b"%PDF-1.4\n", []
    for number, body in enumerate(bodies, 1):
        places.append(len(out))
        out += f"{number} 0 obj\n".encode() + body + b"\nendobj\n"
    table = "".join(f"{place:010d} 00000 n \n" for place in places)
    last = f"<< /Size {len(bodies) + 1} /Root 1 0 R {trailer} >>"
    end = f"xref\n0 {len(bodies) + 1}\n0000000000 65535 f \n{table}trailer\n{last}\nstartxref\n{len(out)}\n%%EOF"
    return out + end.encode()


def stream_of(content: bytes, dictionary: bytes = b"<< ") -> bytes:
    return dictionary + f"/Length {len(content)} >>\nstream\n".encode() + content + b"\nendstream"


def deflated_zeros(megabytes: int, byte: bytes = b" ") -> bytes:
    """So many megabytes of one byte in a zlib stream of a thousandth of that size, made in no time."""
    packer = zlib.compressobj(9)
    head = packer.compress(byte * (1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(byte * (1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    return head + block * (megabytes - 1) + packer.flush()


def archive(members: Mapping[str, str | bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in members.items():
            made.writestr(name, content)
    return buffer.getvalue()


def docx(*paragraphs: str | tuple[str, str] | list[list[str]], title: str = "") -> bytes:
    """A Word document: paragraphs, (style, words), tables as lists of rows; `\\f` is where Word began a page."""
    body = "".join(_paragraph(p) if not isinstance(p, list) else _table(p) for p in paragraphs)
    styles = "".join(
        f'<w:style w:styleId="{name}"><w:name w:val="{shown}"/></w:style>'
        for name, shown in (("berschrift1", "heading 1"), ("berschrift2", "heading 2"), ("Titel", "Title"))
    )
    return archive(
        {
            "[Content_Types].xml": "<Types/>",
            "word/document.xml": f"<w:document {_W}><w:body>{body}</w:body></w:document>",
            "word/styles.xml": f"<w:styles {_W}>{styles}</w:styles>",
            "docProps/core.xml": f'<c xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>{title}</dc:title></c>',
        }
    )


def _paragraph(given: str | tuple[str, str]) -> str:
    style, words = given if isinstance(given, tuple) else ("", given)
    kind = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    runs = "<w:r><w:lastRenderedPageBreak/></w:r>".join(
        f"<w:r><w:t>{escape(piece)}</w:t></w:r>" for piece in words.split("\f")
    )
    return f"<w:p>{kind}{runs}</w:p>"


def _table(rows: list[list[str]]) -> str:
    cell = "<w:tc><w:p><w:r><w:t>{}</w:t></w:r></w:p></w:tc>"
    return f"<w:tbl>{''.join(f'<w:tr>{chr(32).join(cell.format(c) for c in row)}</w:tr>' for row in rows)}</w:tbl>"


def pptx(*slides: tuple[str, str, str]) -> bytes:
    """Slides of title, words and notes; their files are numbered backwards, as happens when slides are moved."""
    members: dict[str, str | bytes] = {"[Content_Types].xml": "<Types/>"}
    listed, relations = "", ""
    for n, (title, words, notes) in enumerate(slides, 1):
        number = len(slides) + 1 - n
        listed += f'<p:sldId r:id="rId{n}" id="{255 + n}"/>'
        relations += f'<Relationship Id="rId{n}" Type="{_OFFICE}/slide" Target="slides/slide{number}.xml"/>'
        shapes = _shape("title", title) + _shape("body", words) + _shape("sldNum", str(n))
        members[f"ppt/slides/slide{number}.xml"] = f"<p:sld {_P} {_A}>{shapes}</p:sld>"
        if notes:
            members[f"ppt/slides/_rels/slide{number}.xml.rels"] = (
                f'<Relationships {_RELATIONS}><Relationship Id="rId1" Type="{_OFFICE}/notesSlide" '
                f'Target="../notesSlides/notesSlide{number}.xml"/></Relationships>'
            )
            shape = _shape("body", notes)
            members[f"ppt/notesSlides/notesSlide{number}.xml"] = f"<p:notes {_P} {_A}>{shape}</p:notes>"
    members["ppt/presentation.xml"] = f"<p:presentation {_P} {_R}><p:sldIdLst>{listed}</p:sldIdLst></p:presentation>"
    members["ppt/_rels/presentation.xml.rels"] = f"<Relationships {_RELATIONS}>{relations}</Relationships>"
    return archive(members)


def _shape(kind: str, words: str) -> str:
    lines = "".join(f"<a:p><a:r><a:t>{escape(line)}</a:t></a:r></a:p>" for line in words.split("\n"))
    return f'<p:sp><p:nvSpPr><p:nvPr><p:ph type="{kind}"/></p:nvPr></p:nvSpPr><p:txBody>{lines}</p:txBody></p:sp>'


def xlsx(sheets: Mapping[str, Sequence[Sequence[object]]]) -> bytes:
    import openpyxl

    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(list(row))
    made = io.BytesIO()
    book.save(made)
    return made.getvalue()


def opendocument(kind: str, body: str, title: str = "", manifest: str = "") -> bytes:
    """An OpenDocument file: `kind` is text, spreadsheet or presentation, `body` the XML of its content."""
    spaces = " ".join(
        f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{uri}:1.0"'
        for name, uri in (("office", "office"), ("text", "text"), ("table", "table"), ("draw", "drawing"))
    )
    content = f"<office:document-content {spaces}><office:body>{body}</office:body></office:document-content>"
    meta = f'<m xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>{title}</dc:title></m>'
    mimetype = f"application/vnd.oasis.opendocument.{kind}"
    members = {
        "mimetype": mimetype,
        "content.xml": content,
        "meta.xml": meta,
        "META-INF/manifest.xml": f"<m>{manifest}</m>",
    }
    return archive(members)


def put(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    """Write files into a folder, which is made."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder
