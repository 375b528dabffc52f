"""llama.cpp's C interface, opened with ctypes from the shared library inside a Python package.

Two packages contain llama.cpp: `xllamacpp` (wheels for Linux x86_64 and aarch64; its extension module exports the whole
C interface) and `llama-cpp-python` (compiled on the user's machine, so it uses every instruction of that CPU). Both are
used the same way. Builds of llama.cpp differ in the layout of their parameter structures: ours is that of the pinned
xllamacpp release and is checked against the library's default values before anything is loaded; llama-cpp-python
provides its own.
"""

from __future__ import annotations

import ctypes as c
import importlib.metadata
import importlib.util
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from ...errors import OR_ENDPOINT, EngineRefused, MissingDependency, UsageError

Build = Literal["auto", "xllamacpp", "llama-cpp-python"]


class ModelParams(c.Structure):
    _fields_ = (
        *((name, c.c_void_p) for name in ("devices", "tensor_buft_overrides")),
        *((name, c.c_int32) for name in ("n_gpu_layers", "split_mode", "load_mode", "lazy_mode", "main_gpu")),
        *((name, c.c_void_p) for name in ("tensor_split", "progress_callback", "progress_data", "kv_overrides")),
        *((name, c.c_bool) for name in ("vocab_only", "check_tensors", "use_extra_bufts", "no_host", "no_alloc")),
        ("load_mtp", c.c_bool),
    )


class ContextParams(c.Structure):
    _fields_ = (
        *((name, c.c_uint32) for name in ("n_ctx", "n_batch", "n_ubatch", "n_seq_max", "n_rs_seq")),
        *((name, c.c_uint32) for name in ("n_outputs_max", "n_outputs_max_per_seq")),
        *((name, c.c_int32) for name in ("n_threads", "n_threads_batch", "ctx_type", "rope_scaling_type")),
        *((name, c.c_int32) for name in ("pooling_type", "attention_type", "flash_attn_type")),
        *((name, c.c_float) for name in ("rope_freq_base", "rope_freq_scale", "yarn_ext_factor", "yarn_attn_factor")),
        *((name, c.c_float) for name in ("yarn_beta_fast", "yarn_beta_slow")),
        ("yarn_orig_ctx", c.c_uint32),
        ("defrag_thold", c.c_float),
        *((name, c.c_void_p) for name in ("cb_eval", "cb_eval_data")),
        *((name, c.c_int32) for name in ("type_k", "type_v")),
        ("moe_cache_size", c.c_size_t),
        *((name, c.c_void_p) for name in ("abort_callback", "abort_data")),
        *((name, c.c_bool) for name in ("embeddings", "offload_kqv", "no_perf", "op_offload", "swa_full")),
        ("kv_unified", c.c_bool),
        ("samplers", c.c_void_p),
        ("n_samplers", c.c_size_t),
        ("ctx_other", c.c_void_p),
    )


class Batch(c.Structure):
    _fields_ = (
        ("n_tokens", c.c_int32),
        ("token", c.POINTER(c.c_int32)),
        ("embd", c.POINTER(c.c_float)),
        ("pos", c.POINTER(c.c_int32)),
        ("n_seq_id", c.POINTER(c.c_int32)),
        ("seq_id", c.POINTER(c.POINTER(c.c_int32))),
        ("logits", c.POINTER(c.c_int8)),
    )


_LOG = c.CFUNCTYPE(None, c.c_int, c.c_char_p, c.c_void_p)


_silent = _LOG(lambda level, text, data: None)
"""llama.cpp logs to stderr by default; errors are reported by our own messages."""


_pointer, _text, _int, _bool = c.c_void_p, c.c_char_p, c.c_int32, c.c_bool

_FUNCTIONS: dict[str, tuple[Any, Sequence[Any]]] = {
    "llama_backend_init": (None, ()),
    "llama_log_set": (None, (_LOG, _pointer)),
    "llama_print_system_info": (_text, ()),
    "llama_model_free": (None, (_pointer,)),
    "llama_model_get_vocab": (_pointer, (_pointer,)),
    "llama_model_n_ctx_train": (_int, (_pointer,)),
    **{f"llama_model_n_{what}": (_int, (_pointer,)) for what in ("layer", "embd", "head", "head_kv")},
    "llama_model_chat_template": (_text, (_pointer, _text)),
    "llama_model_meta_val_str": (_int, (_pointer, _text, c.POINTER(c.c_char), c.c_size_t)),
    "llama_model_has_encoder": (_bool, (_pointer,)),
    "llama_model_is_recurrent": (_bool, (_pointer,)),
    "llama_model_is_hybrid": (_bool, (_pointer,)),
    "llama_free": (None, (_pointer,)),
    "llama_get_memory": (_pointer, (_pointer,)),
    "llama_decode": (_int, (_pointer, Batch)),
    "llama_get_logits_ith": (c.POINTER(c.c_float), (_pointer, _int)),
    "llama_memory_seq_rm": (_bool, (_pointer, _int, _int, _int)),
    "llama_memory_seq_cp": (None, (_pointer, _int, _int, _int, _int)),
    "llama_state_seq_get_size": (c.c_size_t, (_pointer, _int)),
    "llama_state_seq_get_data": (c.c_size_t, (_pointer, _pointer, c.c_size_t, _int)),
    "llama_state_seq_set_data": (c.c_size_t, (_pointer, _text, c.c_size_t, _int)),
    "llama_vocab_n_tokens": (_int, (_pointer,)),
    "llama_vocab_bos": (_int, (_pointer,)),
    "llama_vocab_eos": (_int, (_pointer,)),
    "llama_vocab_get_add_bos": (_bool, (_pointer,)),
    "llama_vocab_is_eog": (_bool, (_pointer, _int)),
    "llama_tokenize": (_int, (_pointer, _text, _int, c.POINTER(c.c_int32), _int, _bool, _bool)),
    "llama_token_to_piece": (_int, (_pointer, _int, c.POINTER(c.c_char), _int, _int, _bool)),
    "llama_adapter_lora_init": (_pointer, (_pointer, _text)),
    "llama_adapter_lora_free": (None, (_pointer,)),
    "llama_set_adapters_lora": (_int, (_pointer, c.POINTER(c.c_void_p), c.c_size_t, c.POINTER(c.c_float))),
}


@dataclass(frozen=True, slots=True)
class Library:
    """An opened llama.cpp: `calls` has its functions, `build` says which package it came from."""

    build: str
    calls: Any
    model_params: type[c.Structure]
    context_params: type[c.Structure]

    @property
    def version(self) -> str:
        """The package and its version."""
        return f"{self.build} {importlib.metadata.version(self.build)}"

    @property
    def cpu_features(self) -> str:
        return str(self.calls.llama_print_system_info().decode())


def installed(build: Literal["xllamacpp", "llama-cpp-python"]) -> bool:
    return importlib.util.find_spec({"xllamacpp": "xllamacpp", "llama-cpp-python": "llama_cpp"}[build]) is not None


@cache
def open_library(build: Build = "auto") -> Library:
    """llama.cpp from the named package; `auto` takes xllamacpp, and llama-cpp-python where only that is installed."""
    if build == "auto":
        only_compiled = installed("llama-cpp-python") and not installed("xllamacpp")
        return open_library("llama-cpp-python" if only_compiled else "xllamacpp")
    if build == "xllamacpp":
        opened = _open("xllamacpp", _file("xllamacpp", "xllamacpp*.so"), ModelParams, ContextParams)
        _check_layout(opened)
    elif build == "llama-cpp-python":
        file = _file("llama_cpp", "lib/libllama.so")
        import llama_cpp

        opened = _open(build, file, llama_cpp.llama_model_params, llama_cpp.llama_context_params)
    else:
        raise UsageError(f"unknown llama.cpp build {build!r}; known are auto, xllamacpp and llama-cpp-python")
    opened.calls.llama_log_set(_silent, None)
    opened.calls.llama_backend_init()
    return opened


def _file(package: str, pattern: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.origin:
        raise MissingDependency(f"llama.cpp (the Python package {package})", "embedded", OR_ENDPOINT)
    for path in sorted(Path(spec.origin).parent.glob(pattern)):
        return path
    raise EngineRefused(f"the installed package {package} contains no llama.cpp library ({pattern})")


def _open(build: str, file: Path, model_params: Any, context_params: Any) -> Library:
    try:
        with _patient_threads():
            calls = c.CDLL(str(file))
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(calls, name)
            function.restype, function.argtypes = result, arguments
        calls.llama_model_default_params.restype = model_params
        calls.llama_context_default_params.restype = context_params
        calls.llama_model_load_from_file.restype = c.c_void_p
        calls.llama_model_load_from_file.argtypes = (c.c_char_p, model_params)
        calls.llama_init_from_model.restype = c.c_void_p
        calls.llama_init_from_model.argtypes = (c.c_void_p, context_params)
    except (OSError, AttributeError) as error:
        hint = "; install it with: apt-get install libgomp1" if "libgomp" in str(error) else ""
        raise EngineRefused(f"cannot use llama.cpp from {build}: {error}{hint}") from None
    return Library(build, calls, model_params, context_params)


_WAITING = {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "300"}
"""Spin for about ten microseconds, then sleep: on an idle machine most barriers of a pass are reached within that."""


@contextmanager
def _patient_threads() -> Iterator[None]:
    """Let OpenMP threads spin only briefly while they wait for each other, unless the user has configured it.

    By default they occupy their core for milliseconds. When other work needs that core too, every one of a pass's
    hundreds of barriers costs a time slice, and two threads are far slower than one. Not spinning at all costs
    generation speed on an idle machine. OpenMP reads the setting once, when it loads.
    """
    if any(name in os.environ for name in _WAITING):
        yield
        return
    os.environ.update(_WAITING)
    try:
        yield
    finally:
        for name in _WAITING:
            del os.environ[name]


_EXPECTED = {
    "n_batch": 2048, "n_ubatch": 512, "n_seq_max": 1, "rope_scaling_type": -1, "yarn_beta_slow": -1.0,
    "type_k": 1, "type_v": 1, "offload_kqv": True, "kv_unified": False, "n_samplers": 0, "ctx_other": None,
}  # fmt: skip


def _check_layout(opened: Library) -> None:
    """Check that the library's structures have our layout: its defaults must appear in the right fields."""
    context, model = opened.calls.llama_context_default_params(), opened.calls.llama_model_default_params()
    wrong = [name for name, value in _EXPECTED.items() if getattr(context, name) != value]
    if wrong or model.n_gpu_layers != -1 or not model.use_extra_bufts or model.vocab_only:
        version = importlib.metadata.version("xllamacpp")
        raise EngineRefused(
            f"xllamacpp {version} has a llama.cpp interface that Subquest does not know;"
            " install the right one with: pip install 'subquest[embedded]'"
        )
