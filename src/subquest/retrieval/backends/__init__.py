"""Indexes beyond one machine: the same interface over PostgreSQL, OpenSearch, Qdrant and LanceDB."""

from .backend import Backend

__all__ = ["Backend"]
