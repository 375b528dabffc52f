"""Search: our own index and everything else that speaks the `Search` protocol."""

from .base import Search
from .bm25 import BM25
from .index import Index

__all__ = ["BM25", "Index", "Search"]
