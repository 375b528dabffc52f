"""The embedded engine: a GGUF model run by llama.cpp inside this process.

    engine = EmbeddedEngine()                       # SmolLM2-135M-Instruct, after `subquest model get smollm2`
    engine = EmbeddedEngine("model.gguf", adapter="lora.gguf")

`llama_cpp` opens the library, `quantised` prepares the model file, `model` holds weights and cache cells, `scheduler`
is the thread that advances all sessions together, `cell_cache` decides whose cells are kept, `sampling` picks tokens,
`engine` is the public class.
"""

from ...errors import OR_ENDPOINT, MissingDependency

try:
    import numpy  # noqa: F401
except ImportError:
    raise MissingDependency("numpy, which the embedded model needs,", "embedded", OR_ENDPOINT) from None

from .engine import EmbeddedEngine, EmbeddedSession

__all__ = ["EmbeddedEngine", "EmbeddedSession"]
