"""Encoders: texts to unit vectors, so that similar meanings give near vectors.

An `EncoderSpec` names the encoder, its prefixes and its pooling; the index records it, so that queries are encoded
the way the passages were. Three kinds:

    minilm                 all-MiniLM-L6-v2, int8, by onnxruntime (32 bits by torch where that or the converter is
                           missing); works without a network once fetched
    sentence-transformers  any model of that library, by name or folder (E5, BGE, GTE, ...)
    endpoint               any server with OpenAI's /v1/embeddings
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from ..address import Address, checked_address, checked_key, checked_url
from ..codec import utf8
from ..english import counted
from ..errors import MissingDependency, SearchError, SearchRefused, UsageError
from .json_server import JsonServer

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Vectors = npt.NDArray[np.float32]

Kind = Literal["minilm", "sentence-transformers", "endpoint"]

# Prefixes that a model family was trained with.
PREFIXES: dict[str, tuple[str, str]] = {
    "e5-": ("query: ", "passage: "),
    "bge-": ("Represent this sentence for searching relevant passages: ", ""),
    "nomic-embed": ("search_query: ", "search_document: "),
}


_LONGEST_TOKEN = 100
"""Characters: MiniLM's tokenizer makes one token of any longer word."""


@dataclass(frozen=True, slots=True)
class EncoderSpec:
    """Which encoder and how it is used; recorded in the index."""

    kind: Kind = "minilm"
    model: str = "all-MiniLM-L6-v2"
    query_prefix: str = ""
    passage_prefix: str = ""
    pooling: str = "mean"
    """mean over the tokens, or model: whatever the model's own files say."""
    max_tokens: int = 256
    url: str = ""
    """Base address of an endpoint, ending in /v1, without keys: they are the user's (`_credentials`)."""

    def prepare(self, texts: Sequence[str], *, query: bool) -> list[str]:
        """The texts with their prefix, and no longer than a vector depends on: tokenizing a huge one takes minutes."""
        prefix = self.query_prefix if query else self.passage_prefix
        return [prefix + utf8(text[: self.max_tokens * _LONGEST_TOKEN]) for text in texts]


class Encoder(Protocol):
    """Turns texts into unit vectors."""

    spec: EncoderSpec

    def encode(self, texts: Sequence[str], *, query: bool) -> Vectors:
        """One row a text; `query` chooses the prefix."""
        ...


def parse(name: str) -> EncoderSpec:
    """An encoder from its name: `minilm`, `st:MODEL` (sentence-transformers) or `MODEL@http://host/v1`."""
    if name == "minilm":
        return EncoderSpec()
    model, at, url = name.removeprefix("st:").partition("@")
    query, passage = next((p for key, p in PREFIXES.items() if key in model.lower()), ("", ""))
    if at:
        return EncoderSpec("endpoint", model, query, passage, "model", 512, checked_url(url, "an encoder's address"))
    if name.startswith("st:") and model:
        return EncoderSpec("sentence-transformers", model, query, passage, "model", 512)
    raise UsageError(f"unknown encoder {name!r}; use minilm, st:MODEL or MODEL@URL")


def open_encoder(spec: EncoderSpec) -> Encoder:
    if spec.kind == "minilm":
        from . import minilm

        in_8_bits = _there("onnxruntime", "tokenizers") and minilm.ready()
        return MiniLM(spec) if in_8_bits or not _there("torch", "transformers") else TorchMiniLM(spec)
    if spec.kind == "endpoint":
        return Endpoint(spec)
    return SentenceTransformers(spec)


def open_named(name: str) -> Encoder:
    """The encoder that a user names, rather than an index: keys may be sent to its address."""
    spec = parse(name)
    return Endpoint(spec, named=name.partition("@")[2]) if spec.kind == "endpoint" else open_encoder(spec)


class MiniLM:
    """all-MiniLM-L6-v2 in 8 bits, one text per run, one run per core.

    Batches would be slower (a single passage stays in the core's cache, and nothing is padded) and would make a vector
    depend on the rest of the batch, because activations are scaled to 8 bits by the largest one.
    """

    def __init__(self, spec: EncoderSpec) -> None:
        from concurrent.futures import ThreadPoolExecutor

        try:
            import onnxruntime
            from tokenizers import Tokenizer
        except ImportError:
            raise MissingDependency("The MiniLM encoder (onnxruntime, tokenizers)", "dense") from None
        from . import minilm

        self.spec = spec
        folder = minilm.get()
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.enable_truncation(spec.max_tokens)
        self._tokenizer.no_padding()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 3
        # onnxruntime's fused skip-and-normalise is slower than the two steps on their own
        self._session = onnxruntime.InferenceSession(
            str(folder / "model.onnx"),
            options,
            providers=["CPUExecutionProvider"],
            disabled_optimizers=["SkipLayerNormFusion"],
        )
        self._pool = ThreadPoolExecutor(len(os.sched_getaffinity(0)), thread_name_prefix="minilm")

    def encode(self, texts: Sequence[str], *, query: bool) -> Vectors:
        import numpy as np

        encoded = [e.ids for e in self._tokenizer.encode_batch(self.spec.prepare(texts, query=query))]
        out = np.zeros((len(texts), 384), np.float32)

        def run(i: int) -> None:
            ids = np.asarray([encoded[i]], np.int64)
            out[i] = self._session.run(None, {"input_ids": ids, "attention_mask": np.ones_like(ids)})[0][0]

        if len(texts) == 1:
            run(0)
        else:
            list(self._pool.map(run, range(len(texts))))
        return out


class TorchMiniLM:
    """The same model in 32 bits by torch, on a GPU if there is one: for training machines without onnxruntime.

    Its vectors have a cosine of 0.997 to the 8-bit ones, so both can search the same index.
    """

    BATCH = 256

    def __init__(self, spec: EncoderSpec) -> None:
        import torch

        from . import minilm

        self.spec = spec
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self._tokenizer, self._model = minilm.load(minilm.weights(), self._device)

    def encode(self, texts: Sequence[str], *, query: bool) -> Vectors:
        import numpy as np
        import torch

        out = np.zeros((len(texts), 384), np.float32)
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        for start in range(0, len(texts), self.BATCH):
            part = order[start : start + self.BATCH]
            inputs = self._tokenizer(
                self.spec.prepare([texts[i] for i in part], query=query),
                padding=True,
                truncation=True,
                max_length=self.spec.max_tokens,
                return_tensors="pt",
            ).to(self._device)
            with torch.inference_mode():
                states = self._model(**inputs).last_hidden_state  # [texts, tokens, 384]
                mask = inputs["attention_mask"].unsqueeze(-1).float()
                mean = (states * mask).sum(1) / mask.sum(1)
                out[part] = torch.nn.functional.normalize(mean, dim=-1).cpu().numpy()
        return out


class SentenceTransformers:
    """Any model of the sentence-transformers library."""

    def __init__(self, spec: EncoderSpec) -> None:
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError:
            raise MissingDependency("sentence-transformers", "sentence-transformers") from None
        self.spec = spec
        self._model: Any = SentenceTransformer(spec.model)
        self._model.max_seq_length = min(self._model.max_seq_length or spec.max_tokens, spec.max_tokens)

    def encode(self, texts: Sequence[str], *, query: bool) -> Vectors:
        import numpy as np

        found = self._model.encode(
            self.spec.prepare(texts, query=query),
            normalize_embeddings=True,
            show_progress_bar=False,
            convert_to_numpy=True,
        )
        return np.asarray(found, np.float32)


class Endpoint:
    """A server with OpenAI's /v1/embeddings; requests are retried while it is busy."""

    BATCH = 64

    def __init__(self, spec: EncoderSpec, *, named: str = "") -> None:
        """`named` is the address as a user has given it, with the credentials that it may hold."""
        self.spec = spec
        address, key = _credentials(spec.url, named)
        self._has_key = bool(key or address.headers or address.query)
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._server = JsonServer(address, headers=headers, timeout=120.0)

    def encode(self, texts: Sequence[str], *, query: bool) -> Vectors:
        import numpy as np

        rows: list[list[float]] = []
        for start in range(0, len(texts), self.BATCH):
            rows += self._ask(self.spec.prepare(texts[start : start + self.BATCH], query=query))
        try:
            with np.errstate(over="ignore"):
                vectors = np.asarray(rows, np.float32)
        except (ValueError, TypeError) as error:
            raise SearchError(f"{self.spec.url}/embeddings did not return vectors: {error}") from None
        if rows and (vectors.ndim != 2 or not vectors.shape[1] or not np.isfinite(vectors).all()):
            raise SearchError(f"{self.spec.url}/embeddings did not return vectors: {str(rows[0])[:100]}, ...")
        return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12), np.float32)

    def _ask(self, texts: list[str]) -> list[list[float]]:
        body = {"model": self.spec.model, "input": texts, "encoding_format": "float"}
        try:
            reply = self._server.ask("POST", "/embeddings", body)
        except SearchRefused as error:
            if "with status 401" not in str(error) or self._has_key:
                raise
            hint = "SUBQUEST_EMBEDDINGS_KEY is sent to SUBQUEST_EMBEDDINGS_URL alone: set both if this server is yours"
            raise SearchRefused(f"{error} ({hint})") from None
        try:
            rows = [item["embedding"] for item in sorted(reply["data"], key=lambda item: item["index"])]
        except (KeyError, TypeError) as error:
            raise SearchError(f"{self.spec.url}/embeddings returned an unknown format: {error!r}") from error
        if len(rows) != len(texts):
            raise SearchError(
                f"{self.spec.url}/embeddings returned {counted(len(rows), 'vector')} for {counted(len(texts), 'text')}"
            )
        return rows


def _credentials(url: str, named: str) -> tuple[Address, str]:
    """An embeddings server's address with what opens it, and its key.

    An index says where its encoder is, and a stranger may have made it: credentials are sent only to an address that
    the user names, after `--encoder`, in SUBQUEST_EMBEDDINGS_URL, or as that of the language model.
    """
    env = os.environ
    for own, key in (
        (named, "SUBQUEST_EMBEDDINGS_KEY"),
        (env.get("SUBQUEST_EMBEDDINGS_URL", ""), "SUBQUEST_EMBEDDINGS_KEY"),
        (env.get("OPENAI_BASE_URL", ""), "SUBQUEST_EMBEDDINGS_KEY"),
        (env.get("OPENAI_BASE_URL") or "https://api.openai.com/v1", "OPENAI_API_KEY"),
    ):
        if own and (address := checked_address(own, "the address of an embeddings server")).url == url:
            if found := checked_key(env.get(key, ""), key):
                return address, found
            if address.headers or address.query:
                return address, ""
    return Address(url, {}, {}), ""


def _there(*modules: str) -> bool:
    return all(importlib.util.find_spec(module) is not None for module in modules)
