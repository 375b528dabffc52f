"""E-mail messages: header fields, the text, and what is attached."""

from __future__ import annotations

import io
from email.message import EmailMessage
from pathlib import Path

import pytest

from subquest.errors import DataError
from subquest.readers import Part, reader, sniff
from subquest.retrieval import Index
from subquest.retrieval.ingest import ingest
from subquest.tools.files import read_file

from .made import pdf


def letter(text: str = "The kiln is fired on 4 May.\n", **fields: str) -> EmailMessage:
    message = EmailMessage()
    message["From"] = fields.get("sender", "Ada Kelm <ada@example.org>")
    message["To"] = "pottery@example.org"
    message["Date"] = "Tue, 28 Apr 2026 09:14:00 +0200"
    message["Subject"] = fields.get("subject", "Kiln, spring term")
    message["X-Spam-Score"] = "0.3"
    message.set_content(text)
    return message


def read(message: EmailMessage | bytes) -> list[Part]:
    found = reader("mail")
    assert found is not None
    return list(found(io.BytesIO(message if isinstance(message, bytes) else message.as_bytes())))


def test_header_fields_and_text_are_one_part_and_the_subject_is_the_title() -> None:
    (part,) = read(letter())
    assert part.title == "Kiln, spring term"
    assert part.text.startswith("From: Ada Kelm <ada@example.org>\nTo: pottery@example.org\nDate: Tue, 28 Apr 2026")
    assert part.text.endswith("\n\nThe kiln is fired on 4 May.\n")
    assert "Spam" not in part.text


def test_long_header_fields_are_not_joined_to_a_sentence(tmp_path: Path) -> None:
    sender = "Ada Kelm of the pottery at the old brickworks <ada@example.org>"
    (tmp_path / "a.eml").write_bytes(letter(sender=sender).as_bytes())
    with Index.build(tmp_path / "i.sq", []) as index:
        ingest(index, [tmp_path / "a.eml"])
        (document,) = index.documents()
    assert document.text.splitlines()[:2] == [f"From: {sender}", "To: pottery@example.org"]


def test_encoded_fields_and_texts_are_decoded() -> None:
    written = letter("Die Öfen sind heiß.\n", subject="Öfen", sender="Jörg Ößler <j@example.org>")
    written.set_content("Die Öfen sind heiß.\n", charset="iso-8859-1", cte="quoted-printable")
    (part,) = read(written)
    assert part.title == "Öfen"
    assert "From: Jörg Ößler" in part.text
    assert "heiß" in part.text
    (unknown,) = read(b"Subject: x\nContent-Type: text/plain; charset=no-such\n\ncaf\xe9 \xe9t\xe9\n")
    assert "café été" in unknown.text


def test_the_text_is_preferred_to_its_html_twin_and_html_alone_is_read() -> None:
    both = letter()
    both.add_alternative("<p>The kiln is fired on <b>4 May</b>.</p>", subtype="html")
    assert len(read(both)) == 1
    alone = letter()
    alone.set_content("<html><body><p>Fired on <b>5 May</b>.</p></body></html>", subtype="html")
    text = "\n".join(part.text for part in read(alone))
    assert "From: Ada Kelm" in text
    assert "Fired on 5 May." in text


def test_attachments_are_read_under_their_names() -> None:
    message = letter()
    message.add_attachment(b"name,kiln\nAda,B\n", maintype="text", subtype="csv", filename="list.csv")
    message.add_attachment(pdf("Glaze recipe", "Second page"), maintype="application", subtype="pdf", filename="g.pdf")
    message.add_attachment(b"\x89PNG\r\n\x1a\n", maintype="image", subtype="png", filename="logo.png")
    _, *attached = read(message)
    assert [(part.section, part.text.strip(), dict(part.place)) for part in attached] == [
        (("list.csv",), "| name | kiln |", {"row": 1}),
        (("list.csv",), "| Ada | B |", {"row": 2}),
        (("g.pdf", "page 1"), "Glaze recipe", {}),
        (("g.pdf", "page 2"), "Second page", {}),
    ]


def test_a_forwarded_message_stands_under_its_subject() -> None:
    outer = letter("See below.\n", subject="Fwd")
    outer.add_attachment(letter())
    first, second = read(outer)
    assert (first.title, first.section) == ("Fwd", ())
    assert (second.title, second.section) == ("", ("Kiln, spring term",))
    assert "The kiln is fired on 4 May." in second.text


def test_a_broken_attachment_costs_only_itself() -> None:
    message = letter()
    message.add_attachment(b"%PDF-1.4 nothing", maintype="application", subtype="pdf", filename="g.pdf")
    found = reader("mail")
    assert found is not None
    parts = found(io.BytesIO(message.as_bytes()))
    assert "4 May" in next(parts).text
    with pytest.raises(DataError, match=r"the attachment g\.pdf: a damaged pdf file"):
        next(parts)


def test_what_is_no_message_is_refused() -> None:
    assert sniff(b"hello there", "note.eml") == "mail"
    with pytest.raises(DataError, match="not an e-mail message"):
        read(b"hello there")


def test_a_folder_with_messages_is_indexed_and_cited(tmp_path: Path) -> None:
    folder = tmp_path / "post"
    folder.mkdir()
    message = letter()
    message.add_attachment(b"name,kiln\nAda,B\n", maintype="text", subtype="csv", filename="list.csv")
    (folder / "kiln.eml").write_bytes(message.as_bytes())
    with Index.build(tmp_path / "docs.sq", []) as index:
        report = ingest(index, [folder])
        assert not report.passed_over
        (found,) = index.search("who wrote that the kiln is fired in May", 1)
        assert found.document.title == "Kiln, spring term"
        assert "From: Ada Kelm" in found.document.text
        titles = {hit.document.title for hit in index.search("list.csv name Ada kiln B", 2)}
        assert "Kiln, spring term > list.csv" in titles
    assert "The kiln is fired on 4 May." in read_file(folder / "kiln.eml").text
