"""A GGUF model in llama.cpp: its vocabulary, and one context whose cells hold the caches of many sequences."""

from __future__ import annotations

import ctypes as c
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...errors import DataError, EngineRefused
from ...models.memory import check_memory
from ...protocol import fence_tokens
from ..gguf_file import CONTROL, USER_DEFINED, read_gguf_file, tokens_of_kind
from .llama_cpp import Batch, Library
from .matmul import WEIGHT_KINDS, Kernel, install, switched_off


class Stretch(NamedTuple):
    """Consecutive tokens of one sequence, to be processed in one step."""

    sequence: int
    start: int
    """Position of the first of them."""
    tokens: Sequence[int]
    wanted: int
    """After how many of the last of them the logits are wanted."""


class Vocabulary:
    """Text to tokens and back, from any thread; once the model is freed it refuses."""

    def __init__(self, calls: Any, model: int) -> None:
        self._calls = calls
        self._vocab = calls.llama_model_get_vocab(model)
        self.size = int(calls.llama_vocab_n_tokens(self._vocab))
        self.bos = int(calls.llama_vocab_bos(self._vocab))
        self.end = int(calls.llama_vocab_eos(self._vocab))
        self.adds_bos = bool(calls.llama_vocab_get_add_bos(self._vocab))
        self._pieces: dict[int, bytes] = {}
        self._ends: dict[int, bool] = {}
        self._lock = threading.Lock()

    @contextmanager
    def _open(self) -> Iterator[int]:
        with self._lock:
            if self._vocab is None:
                raise EngineRefused("the embedded engine is closed")
            yield self._vocab

    def close(self) -> None:
        with self._lock:
            self._vocab = None

    def encode(self, text: str, special: bool = False) -> list[int]:
        """Token ids of a text; `special` says whether special tokens written in it are recognised."""
        raw = text.encode("utf-8", errors="replace")
        room = len(raw) + 8
        while True:
            out = (c.c_int32 * room)()
            with self._open() as vocab:
                n = self._calls.llama_tokenize(vocab, raw, len(raw), out, room, False, special)
            if n >= 0:
                return list(out[:n])
            room = -n

    def piece(self, token: int) -> bytes:
        """The bytes of one token; control tokens show their name. Bytes of one character may span tokens."""
        known = self._pieces.get(token)
        if known is None:
            out = (c.c_char * 256)()  # the longest tokens of known vocabularies have 128 bytes
            with self._open() as vocab:
                n = self._calls.llama_token_to_piece(vocab, token, out, len(out), 0, True)
            if n < 0:
                raise EngineRefused(f"llama.cpp cannot show token {token}")
            known = self._pieces[token] = out.raw[:n]
        return known

    def decode(self, tokens: Sequence[int]) -> str:
        return b"".join(map(self.piece, tokens)).decode("utf-8", errors="replace")

    def ends(self, token: int) -> bool:
        """Whether the token ends a turn."""
        known = self._ends.get(token)
        if known is None:
            with self._open() as vocab:
                known = self._ends[token] = bool(self._calls.llama_vocab_is_eog(vocab, token))
        return known


class Model:
    """Weights, an optional adapter, and one context of `cells` cache cells shared by up to `sequences` sequences.

    `cpu_kernel` says whether products are computed by our kernel where it runs (`matmul`).

    After construction only one thread may call `step`, `copy` and `drop`; after `free` the latter two do nothing.
    """

    def __init__(
        self,
        library: Library,
        path: Path,
        *,
        adapter: Path | None,
        cells: int,
        sequences: int,
        batch: int,
        threads: int,
        cpu_kernel: bool = True,
    ) -> None:
        self._calls = calls = library.calls
        kernel = install(library)
        self._kernel = kernel if isinstance(kernel, Kernel) else None
        self._uses_kernel = cpu_kernel and not switched_off()
        self.path = path
        self.sequences = sequences
        self.batch = batch
        self.checks_cheaply = False
        """Whether our kernel computes all products, so that a few tokens in a pass cost little more than one."""
        self._model = self._context = None
        self._adapter: int | None = None
        for file in (path, adapter):
            if file is not None:
                _check_gguf(file)
        check_memory(path.name, path.stat().st_size)
        params = calls.llama_model_default_params()
        params.n_gpu_layers = 0
        params.use_extra_bufts = not self.kernel  # our kernel takes weights as they stand in the file
        self._model = calls.llama_model_load_from_file(os.fsencode(path), params)
        if not self._model:
            raise EngineRefused(f"llama.cpp cannot load {path}: the file is damaged or its architecture is unknown")
        self.vocabulary = Vocabulary(calls, self._model)
        with suppress(DataError):  # a file that llama.cpp reads, and we do not: its tokens stay unknown
            described = read_gguf_file(path)
            fence_tokens(tokens_of_kind(described, CONTROL), tokens_of_kind(described, USER_DEFINED))
            weights = [tensor for tensor in described.tensors if len(tensor.shape) > 1]
            known = all(len(tensor.shape) == 2 and tensor.kind in WEIGHT_KINDS for tensor in weights)
            self.checks_cheaply = bool(self.kernel) and known
        try:
            kinds = (calls.llama_model_has_encoder, calls.llama_model_is_recurrent, calls.llama_model_is_hybrid)
            if any(kind(self._model) for kind in kinds):
                raise EngineRefused(f"{path} is not a plain decoder model, which the embedded engine needs")
            self.trained_context = int(calls.llama_model_n_ctx_train(self._model))
            self.template = (calls.llama_model_chat_template(self._model, None) or b"").decode()
            self.architecture = self.meta("general.architecture")
            check_memory(path.name, path.stat().st_size, self.cell_bytes * cells, cells)
            settings = calls.llama_context_default_params()
            settings.n_ctx, settings.n_batch, settings.n_ubatch = cells, batch, batch
            settings.n_seq_max, settings.kv_unified = sequences, True
            settings.n_threads = settings.n_threads_batch = threads
            self._context = calls.llama_init_from_model(self._model, settings)
            if not self._context:
                raise EngineRefused(f"llama.cpp cannot make a context of {cells} tokens for {path}: too little memory?")
            if adapter is not None:
                self._attach(adapter)
        except BaseException:
            self.free()
            raise
        self._memory = calls.llama_get_memory(self._context)
        self._tokens = np.zeros(batch, np.int32)
        self._positions = np.zeros(batch, np.int32)
        self._sequences = np.zeros(batch, np.int32)
        self._counts = np.ones(batch, np.int32)
        self._wanted = np.zeros(batch, np.int8)
        first = self._sequences.ctypes.data
        pointers = [c.cast(first + 4 * i, c.POINTER(c.c_int32)) for i in range(batch)]
        self._batch = Batch(
            0,
            self._tokens.ctypes.data_as(c.POINTER(c.c_int32)),
            None,
            self._positions.ctypes.data_as(c.POINTER(c.c_int32)),
            self._counts.ctypes.data_as(c.POINTER(c.c_int32)),
            (c.POINTER(c.c_int32) * batch)(*pointers),
            self._wanted.ctypes.data_as(c.POINTER(c.c_int8)),
        )

    @property
    def kernel(self) -> str:
        """The name of our kernel; empty where llama.cpp uses its own."""
        return self._kernel.name if self._kernel and self._uses_kernel else ""

    @property
    def cell_bytes(self) -> int:
        """Bytes that the cache takes for one token: keys and values of every layer, in 16 bits."""
        layers, width, heads, kv_heads = (
            getattr(self._calls, f"llama_model_n_{what}")(self._model) for what in ("layer", "embd", "head", "head_kv")
        )
        return int(layers) * 2 * 2 * (int(width) // int(heads)) * int(kv_heads)

    def meta(self, key: str) -> str:
        """A value of the file's metadata, empty where there is none."""
        out = (c.c_char * 1024)()
        n = self._calls.llama_model_meta_val_str(self._model, key.encode(), out, len(out))
        return out.value.decode() if n >= 0 else ""

    def step(self, stretches: Sequence[Stretch]) -> list[np.ndarray[Any, np.dtype[np.float32]]] | None:
        """Process the stretches in one pass; the logits that they want, in order. None: too few free cells."""
        n = 0
        self._wanted[:] = 0
        rows: list[int] = []
        for stretch in stretches:
            end = n + len(stretch.tokens)
            self._tokens[n:end] = stretch.tokens
            self._positions[n:end] = np.arange(stretch.start, stretch.start + len(stretch.tokens))
            self._sequences[n:end] = stretch.sequence
            n = end
            self._wanted[n - stretch.wanted : n] = 1
            rows += range(n - stretch.wanted, n)
        self._batch.n_tokens = n
        with self._kernel.passes(self._uses_kernel) if self._kernel else nullcontext():
            status = self._calls.llama_decode(self._context, self._batch)
        if status == 1:
            return None
        if status != 0:
            raise EngineRefused(f"llama.cpp could not process {n} tokens (status {status})")
        size = (self.vocabulary.size,)
        return [np.ctypeslib.as_array(self._calls.llama_get_logits_ith(self._context, row), size) for row in rows]

    def copy(self, source: int, target: int, length: int) -> None:
        """Let the target sequence share the first `length` cells of the source."""
        if self._context:
            self._calls.llama_memory_seq_cp(self._memory, source, target, 0, length)

    def drop(self, sequence: int, start: int = 0) -> None:
        """Free a sequence's cells from a position on."""
        if self._context:
            self._calls.llama_memory_seq_rm(self._memory, sequence, start, -1)

    def state(self, sequence: int) -> bytes:
        """A sequence's cache as bytes; empty where llama.cpp does not give it."""
        size = int(self._calls.llama_state_seq_get_size(self._context, sequence))
        out = c.create_string_buffer(size)
        written = int(self._calls.llama_state_seq_get_data(self._context, out, size, sequence))
        return out.raw[:written]

    def restore(self, sequence: int, state: bytes) -> bool:
        """Give an empty sequence the cache that `state` returned, from this or another process."""
        return bool(self._calls.llama_state_seq_set_data(self._context, state, len(state), sequence) == len(state))

    def free(self) -> None:
        self.vocabulary.close()
        if self._context:
            self._calls.llama_free(self._context)
        if self._model:
            self._calls.llama_model_free(self._model)
        self._context = self._model = None

    def _attach(self, path: Path) -> None:
        adapter = self._calls.llama_adapter_lora_init(self._model, os.fsencode(path))
        if not adapter:
            raise DataError(
                f"{path} is no LoRA adapter for {self.path.name}: use the model it was trained on or `--adapter none`, "
                "or make one with `subquest model adapter convert`"
            )
        self._adapter = adapter  # belongs to the model and is freed with it
        scale = (c.c_float * 1)(1.0)
        if self._calls.llama_set_adapters_lora(self._context, (c.c_void_p * 1)(adapter), 1, scale) != 0:
            raise EngineRefused(f"llama.cpp cannot apply the adapter {path}")


def _check_gguf(path: Path) -> None:
    try:
        with path.open("rb") as file:
            magic = file.read(4)
    except OSError as error:
        raise DataError(f"cannot read the model file {path}: {error.strerror}") from None
    if magic != b"GGUF":
        raise DataError(f"{path} is not a GGUF file")
