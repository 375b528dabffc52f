"""The embedded engine: a GGUF model run by llama.cpp inside this process.

    engine = EmbeddedEngine()                       # SmolLM2-135M-Instruct, after `subquest model get smollm2`
    engine = EmbeddedEngine("model.gguf", adapter="lora.gguf")

`library` opens llama.cpp, `model` holds weights and cache cells, `worker` is the thread that advances all sessions
together, `sampling` draws tokens, `engine` is what callers see.
"""

from ...errors import MissingDependency

try:
    import numpy  # noqa: F401
except ImportError:
    raise MissingDependency("numpy", "embedded") from None

from .engine import EmbeddedEngine, EmbeddedSession

__all__ = ["EmbeddedEngine", "EmbeddedSession"]
