"""Search: our own index and everything else that speaks the `Search` protocol."""

from .bm25 import BM25
from .fusion import Fusion
from .index import Index
from .remote import RemoteSearch
from .search import Search

__all__ = ["BM25", "Fusion", "Index", "RemoteSearch", "Search"]
