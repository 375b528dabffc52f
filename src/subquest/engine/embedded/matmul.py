"""Our kernel for products with quantised weights and for attention, put into the llama.cpp of the wheel.

The wheel's llama.cpp is compiled for any machine of its architecture and leaves the instructions of newer CPUs unused.
`matmul.c` uses them, and llama.cpp calls it in place of its own kernel. Without it everything runs as before, slower:
on a CPU that has neither AVX2 nor the dot products of ARMv8.2, where neither the wheel nor a compiler brings the
library, and with SUBQUEST_CPU_KERNEL=off. The same variable can name the instructions to use (`avx2`).
"""

from __future__ import annotations

import ctypes as c
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from ...c_libraries import MATMUL, CLibrary, cpu_features
from .llama_cpp import Library, open_library

SWITCH = "SUBQUEST_CPU_KERNEL"
WEIGHT_KINDS = {2, 3, 6, 7, 8, 12, 13, 14}
"""Types of weights that it multiplies, by ggml's numbers: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K."""


class Kernel:
    """The kernel in one llama.cpp, with the switch that belongs to the whole process."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self.name: str = library.sq_name().decode()
        self._changed = threading.Condition()
        self._on = True
        self._running = 0

    @contextmanager
    def passes(self, on: bool) -> Iterator[None]:
        """A pass with the kernel or without; passes of the other kind wait until it has ended."""
        with self._changed:
            self._changed.wait_for(lambda: not self._running or self._on == on)
            if self._on != on:
                self._on = on
                self._library.sq_enable(on)
            self._running += 1
        try:
            yield
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    @property
    def products(self) -> int:
        """How many products it has computed."""
        return int(self._library.sq_computed())

    @property
    def attentions(self) -> int:
        """Of how many layers it has computed the attention."""
        return int(self._library.sq_attended())


def switched_off() -> bool:
    return os.environ.get(SWITCH) == "off"


def _for_this_cpu() -> CLibrary | None:
    """The fastest that this CPU can run, or the one that was asked for."""
    here = [library for library in MATMUL if library.feature in cpu_features()]
    asked = [library for library in here if library.feature == os.environ.get(SWITCH)]
    return next(iter(asked or here), None)


def status() -> tuple[bool, str, str]:
    """Whether the embedded model uses the kernel, why or why not, and what to do about it; for `doctor`."""
    if switched_off():
        return True, f"llama.cpp's own ({SWITCH} is off)", ""
    kernel = install(open_library())
    if isinstance(kernel, Kernel):
        return True, f"{kernel.name}, in place of llama.cpp's own", ""
    here = _for_this_cpu() is not None
    return not here, f"llama.cpp's own: {kernel}", "apt-get install gcc, or install a wheel" if here else ""


@cache
def install(opened: Library) -> Kernel | str:
    """Put the kernel into an opened llama.cpp; the reason if that is not possible."""
    if opened.build != "xllamacpp":
        return f"{opened.build} is compiled for this CPU"
    found = _for_this_cpu()
    if found is None:
        return "this CPU has none of the instructions that our kernel uses"
    path, reason = found.ready()
    if reason:
        return reason
    try:
        library = declare(c.CDLL(str(path)))
    except (OSError, AttributeError) as error:
        return str(error)
    refused = library.sq_install(opened.calls._handle)
    return refused.decode() if refused else Kernel(library)


def declare(library: Any) -> Any:
    """Give the functions of `matmul.c` their types."""
    for name, result, arguments in (
        ("sq_install", c.c_char_p, (c.c_void_p,)),
        ("sq_enable", None, (c.c_int,)),
        ("sq_computed", c.c_longlong, ()),
        ("sq_attended", c.c_longlong, ()),
        ("sq_name", c.c_char_p, ()),
        ("sq_attend", c.c_int, (*(c.c_void_p,) * 4, *(c.c_int64,) * 5, c.c_float, c.c_void_p)),
        ("sq_multiply", c.c_int, (c.c_int, *(c.c_void_p, c.c_int64, c.c_int64), *(c.c_void_p, c.c_int64, c.c_void_p))),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library
