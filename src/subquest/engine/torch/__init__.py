"""The torch engine: rollouts in the trainer's own process, batched across episodes, exact to the token.

engine      the public class and the worker thread           session               a context as segments
scheduler   admission, chunked prefill, preemption           block_pool            which blocks hold which tokens
runner      a plan as tensors; CUDA graphs                   running_batch         the rows that decode, as arrays
model       the forward pass                                 weights               fused storage, adapters, sharing
kernels     Triton kernels                                   reference_operations  the same operations in plain torch
loader      model folders, GGUF files                        vocabulary            text and ids, by bytes
scoring     log-probabilities of a few words                 gpu_memory            how large the cache can be
"""

from .engine import TorchEngine
from .loader import Source, load, load_adapter
from .session import TorchSession
from .weights import Adapter

__all__ = ["Adapter", "Source", "TorchEngine", "TorchSession", "load", "load_adapter"]
