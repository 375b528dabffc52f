"""The head of a GGUF file: whatever stands in it, it is read or refused."""

import random
import struct
from pathlib import Path

import pytest

from subquest.engine.gguf_file import CONTROL, USER_DEFINED, read_gguf_file, tokens_of_kind
from subquest.errors import DataError


def field(name: bytes, kind: int, value: bytes) -> bytes:
    return struct.pack("<Q", len(name)) + name + struct.pack("<I", kind) + value


def head(*fields: bytes) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", 3, 0, len(fields)) + b"".join(fields)


@pytest.mark.parametrize(
    "content",
    [
        head(field(b"general.alignment", 4, struct.pack("<I", 0))),
        head(field(b"general.alignment", 9, struct.pack("<IQ", 4, 0))),
        head(field(b"deep", 9, struct.pack("<IQ", 9, 1) * 5000)),
        head(field(b"long", 9, struct.pack("<IQ", 4, 1 << 62))),
        head(field(b"kind", 99, b"")),
    ],
    ids=["no alignment", "a list for it", "deep", "long", "kind"],
)
def test_a_head_that_makes_no_sense_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.gguf"
    path.write_bytes(content + bytes(64))
    with pytest.raises(DataError, match="not a readable GGUF file"):
        read_gguf_file(path)


def test_any_bytes_are_read_or_refused(tmp_path: Path) -> None:
    draw = random.Random(0)
    sound = head(
        field(b"general.name", 8, struct.pack("<Q", 3) + b"abc"), field(b"list", 9, struct.pack("<IQ2I", 4, 2, 1, 2))
    )
    assert read_gguf_file(_written(tmp_path, sound)).fields == {"general.name": "abc", "list": [1, 2]}
    for _ in range(500):
        content = bytearray(sound)
        for _ in range(draw.choice((1, 2, 8))):
            content[draw.randrange(4, len(content))] = draw.randrange(256)
        try:
            read_gguf_file(_written(tmp_path, bytes(content)))
        except DataError:
            continue


def _written(folder: Path, content: bytes) -> Path:
    path = folder / "b.gguf"
    path.write_bytes(content)
    return path


def test_tokens_that_are_matched_whole(tmp_path: Path) -> None:
    texts = [b"a", b"<file_sep>", b"<mine>", b"b"]
    tokens = struct.pack("<IQ", 8, 4) + b"".join(struct.pack("<Q", len(t)) + t for t in texts)
    kinds = struct.pack("<IQ4i", 5, 4, 1, 3, 4, 6)
    fields = field(b"tokenizer.ggml.tokens", 9, tokens), field(b"tokenizer.ggml.token_type", 9, kinds)
    found = read_gguf_file(_written(tmp_path, head(*fields)))
    assert [tokens_of_kind(found, kind) for kind in (CONTROL, USER_DEFINED)] == [["<file_sep>"], ["<mine>"]]
    assert tokens_of_kind(read_gguf_file(_written(tmp_path, head(fields[0]))), CONTROL) == []
