"""The torch engine: rollouts in the trainer's own process, batched across episodes, exact to the token.

engine      the asyncio front and the worker thread          session    a context as segments
scheduler   admission, chunked prefill, preemption           cache      which blocks hold which tokens
runner      a plan as tensors; CUDA graphs                   rows       the running batch as arrays
model       the forward pass                                 weights    fused storage, adapters, sharing
kernels     Triton kernels                                   reference  the same operations in plain torch
loader      model folders, GGUF files                        tokens     text and ids, by bytes
"""

from .engine import TorchEngine
from .loader import Source, load, load_adapter
from .session import TorchSession
from .weights import Adapter

__all__ = ["Adapter", "Source", "TorchEngine", "TorchSession", "load", "load_adapter"]
