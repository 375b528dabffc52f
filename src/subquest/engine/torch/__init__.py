"""The torch engine: rollouts in the trainer's own process, batched across episodes, exact to the token.

engine, session, waiters              the public class and its worker thread; a context as segments; who waits for turns
scheduler, block_pool, prefix_groups  admission, chunked prefill, preemption; which blocks hold which tokens
runner, running_batch                 a plan as tensors; the rows that decode, as arrays
step, step_buffers                    one pass; its memory on the host and the device
cuda_graphs, gpu_memory               a pass as one launch; how large the cache can be
model, architecture, weights          the forward pass; what models differ in; fused storage, adapters, sharing
kernels, *_kernels                    Triton kernels
reference_operations                  the same operations in plain torch
loader, gguf_tensors, gguf_tokenizer  model folders, GGUF files
vocabulary, stop_strings              text and ids, by bytes; where a turn ends
scoring, bare_engine                  log-probabilities of a few words; the model without its adapter
"""

from .engine import TorchEngine
from .loader import Source, load, load_adapter
from .session import TorchSession
from .weights import Adapter

__all__ = ["Adapter", "Source", "TorchEngine", "TorchSession", "load", "load_adapter"]
