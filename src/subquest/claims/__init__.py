"""The claims table: what the papers say about their methods, tried on one small model with the same budget for all.

A *claim* is a table or figure of a paper. Its rows point to *arms*: a system with settings and an adapter, run over the
same questions as all other arms. An adapter is the one that ships or comes from a *training*: a short fine-tuning that
all others start from, or a short run of reinforcement learning that differs from its neighbours in one thing.
`recipes/claims/` says which there are, `recipes/claims/results/` keeps what each question got, and `docs/claims.md` is
written from both.
"""

from .book import Arm, Book, Claim, Row, Source, Training, read_book

__all__ = ["Arm", "Book", "Claim", "Row", "Source", "Training", "read_book"]
