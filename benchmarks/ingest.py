"""How fast files become an index, by kind: MB/s and passages/s, and the memory it takes.

    subquest bench ingest
    subquest bench ingest --kinds jsonl,pdf --megabytes 200

The files are made here: sentences of words drawn by Zipf's law, `--megabytes` of text a kind, put into files of about
`--file` MB. Each kind is ingested in a process of its own, so that seconds and resident memory belong to it alone: its
own and that of the largest process that read for it. A second run over the same files shows what skipping them costs.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

KINDS = ("jsonl", "jsonl.gz", "tsv", "txt", "md", "csv", "html", "docx", "pptx", "xlsx", "pdf", "zip")


# ------------------------------------------------------------------------------------------------ files


def sentences(seed: int) -> list[str]:
    """Twenty thousand sentences of 8 to 20 words; texts are made of them in any order."""
    generator = random.Random(seed)
    letters = "etaoinshrdlucmfwypvbgkjqxz"
    words = ["".join(generator.choices(letters, range(26, 0, -1), k=generator.randint(2, 10))) for _ in range(30_000)]
    weights = list(accumulate(1 / (rank + 2.7) ** 1.07 for rank in range(len(words))))
    made = []
    for _ in range(20_000):
        chosen = generator.choices(words, cum_weights=weights, k=generator.randint(8, 20))
        made.append(f"{' '.join(chosen).capitalize()}.")
    return made


def paragraphs(pool: list[str], size: int, seed: int) -> Iterator[str]:
    """Paragraphs of seven sentences, about 600 characters each, of `size` characters in all."""
    generator, done = random.Random(seed), 0
    while done < size:
        text = " ".join(generator.choices(pool, k=7))
        done += len(text)
        yield text


def pdf(texts: list[str]) -> bytes:
    """Pages of about 45 lines."""
    lines = [line for text in texts for line in _wrapped(text)]
    pages = [lines[i : i + 45] for i in range(0, len(lines), 45)]
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>"]
    kids = " ".join(f"{4 + 2 * n} 0 R" for n in range(len(pages)))
    objects.append(f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>".encode())
    objects.append(b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
    for n, page in enumerate(pages):
        shown = " T* ".join(f"({line}) Tj" for line in page)
        stream = f"BT /F1 10 Tf 14 TL 40 760 Td {shown} ET".encode()
        box = "/MediaBox [0 0 612 792] /Resources << /Font << /F1 3 0 R >> >>"
        objects.append(f"<< /Type /Page /Parent 2 0 R {box} /Contents {5 + 2 * n} 0 R >>".encode())
        objects.append(f"<< /Length {len(stream)} >>\nstream\n".encode() + stream + b"\nendstream")
    out, places = bytearray(b"%PDF-1.4\n"), []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += f"{number} 0 obj\n".encode() + body + b"\nendobj\n"
    table = "".join(f"{place:010d} 00000 n \n" for place in places)
    end = f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{len(out)}\n%%EOF"
    return bytes(out) + f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}{end}".encode()


def _wrapped(text: str) -> list[str]:
    lines, line = [], ""
    for word in text.split():
        if len(line) + len(word) > 90:
            lines.append(line)
            line = ""
        line = f"{line} {word}".strip()
    return [*lines, line]


def _zipped(members: dict[str, str | bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in members.items():
            made.writestr(name, content)
    return buffer.getvalue()


def docx(texts: list[str]) -> bytes:
    space = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
    body = "".join(f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>" for text in texts)
    return _zipped({"word/document.xml": f"<w:document {space}><w:body>{body}</w:body></w:document>"})


def pptx(texts: list[str]) -> bytes:
    spaces = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" xmlns:p="p"'
    return _zipped(
        {
            f"ppt/slides/slide{n}.xml": f"<p:sld {spaces}><a:p><a:r><a:t>{text}</a:t></a:r></a:p></p:sld>"
            for n, text in enumerate(texts, 1)
        }
    )


def xlsx(texts: list[str]) -> bytes:
    import openpyxl

    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet("Data")
    sheet.append(["number", "note", "value"])
    for n, text in enumerate(texts):
        sheet.append([n, text, n / 7])
    made = io.BytesIO()
    book.save(made)
    return made.getvalue()


def _html(texts: list[str]) -> bytes:
    body = "".join(f"<h2>Part {n}</h2><p>{text}</p>" for n, text in enumerate(texts))
    return f"<html><head><title>Page</title></head><body><main><h1>Page</h1>{body}</main></body></html>".encode()


def _records(texts: list[str], start: int) -> bytes:
    return "".join(
        json.dumps({"id": f"d{start + n}", "title": f"Title {n}", "text": text}) + "\n" for n, text in enumerate(texts)
    ).encode()


MAKERS: dict[str, Callable[[list[str], int], bytes]] = {
    "jsonl": _records,
    "jsonl.gz": lambda texts, start: gzip.compress(_records(texts, start), 6),
    "tsv": lambda texts, start: "".join(f"{start + n}\t{t}\tTitle {n}\n" for n, t in enumerate(texts)).encode(),
    "txt": lambda texts, _: "\n\n".join(texts).encode(),
    "md": lambda texts, _: "\n\n".join(f"## Part {n}\n\n{text}" for n, text in enumerate(texts)).encode(),
    "csv": lambda texts, _: ("n,note\n" + "".join(f'{n},"{t}"\n' for n, t in enumerate(texts))).encode(),
    "html": lambda texts, _: _html(texts),
    "docx": lambda texts, _: docx(texts),
    "pptx": lambda texts, _: pptx(texts),
    "xlsx": lambda texts, _: xlsx(texts),
    "pdf": lambda texts, _: pdf(texts),
    "zip": lambda texts, _: _zipped({f"part{n}.txt": "\n\n".join(texts[n::20]) for n in range(20)}),
}


def make(folder: Path, kind: str, megabytes: float, file: float) -> int:
    """Files of one kind; bytes of the text in them."""
    pool, done, count = sentences(1), 0, 0
    folder.mkdir()
    while done < megabytes * 1e6:
        texts = list(paragraphs(pool, int(min(file, megabytes) * 1e6), count))
        (folder / f"{count:04}.{kind}").write_bytes(MAKERS[kind](texts, count * 1_000_000))
        done += sum(map(len, texts))
        count += 1
    return done


# ------------------------------------------------------------------------------------------------ measuring


def resident(process: int | str = "self") -> float:
    """The most megabytes that a process has had in memory so far (ru_maxrss counts those of its parent as well)."""
    with open(f"/proc/{process}/status") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith("VmHWM"))


def measure(folder: Path, index: Path) -> dict[str, Any]:
    """Ingest a folder twice; in a process of its own."""
    from subquest.readers import reader_pool
    from subquest.retrieval import Index
    from subquest.retrieval.ingest import ingest

    readers = [0.0]
    close = reader_pool._Worker.close

    def closing(worker: reader_pool._Worker) -> None:
        readers.append(resident(worker.process.pid))
        close(worker)

    reader_pool._Worker.close = closing  # type: ignore[method-assign]
    with Index.build(index, []) as made:
        start = time.perf_counter()
        report = ingest(made, [folder])
        seconds = time.perf_counter() - start
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        start = time.perf_counter()
        again = ingest(made, [folder])
        assert again.files == 0
        assert not report.problems, report.problems[:3]
        return {
            "seconds": seconds,
            "cpu": sum(usage.ru_utime + usage.ru_stime for usage in used),
            "passages": len(made),
            "resident_mb": resident(),
            "reader_mb": max(readers),
            "again_seconds": time.perf_counter() - start,
        }


def main(argv: list[str]) -> dict[str, Any]:
    parser = argparse.ArgumentParser(prog="subquest bench ingest")
    parser.add_argument("--kinds", default=",".join(KINDS), help=f"of {', '.join(KINDS)}")
    parser.add_argument("--megabytes", type=float, default=20.0, help="text a kind")
    parser.add_argument("--file", type=float, default=1.0, help="megabytes of text a file")
    parser.add_argument("--measure", nargs=2, metavar=("FOLDER", "INDEX"), help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.measure:
        return measure(Path(args.measure[0]), Path(args.measure[1]))
    figures: dict[str, dict[str, float]] = {}
    names = ("kind", "file MB", "text MB", "s", "MB/s", "passages/s", "CPU s", "MB/CPU s", "passages/CPU s")
    names += ("resident MB", "reader MB", "again s")
    print("  ".join(names), file=sys.stderr)
    for kind in args.kinds.split(","):
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place) / "docs"
            text = make(folder, kind, args.megabytes, args.file)
            size = sum(entry.stat().st_size for entry in os.scandir(folder))
            command = [sys.executable, __file__, "--measure", str(folder), str(Path(place) / "i.sq")]
            found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        figures[kind] = {
            **found,
            "file_mb": size / 1e6,
            "text_mb": text / 1e6,
            "mb_per_second": text / 1e6 / found["seconds"],
            "passages_per_second": found["passages"] / found["seconds"],
            "mb_per_cpu_second": text / 1e6 / found["cpu"],
            "passages_per_cpu_second": found["passages"] / found["cpu"],
        }
        f = figures[kind]
        cells = [kind, *(f"{f[key]:.1f}" for key in ("file_mb", "text_mb", "seconds", "mb_per_second"))]
        cells += [f"{f['passages_per_second']:,.0f}", f"{f['cpu']:.1f}", f"{f['mb_per_cpu_second']:.1f}"]
        cells += [f"{f[key]:,.0f}" for key in ("passages_per_cpu_second", "resident_mb", "reader_mb")]
        cells.append(f"{f['again_seconds']:.2f}")
        print("  ".join(f"{cell:>{len(name)}}" for cell, name in zip(cells, names, strict=True)), file=sys.stderr)
    return {"name": "ingest", "figures": figures, "ratios": {}}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1:])))
