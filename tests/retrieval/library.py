"""The little library that every backend is tested with, and the steps it is taken through."""

from __future__ import annotations

from subquest.record import Document
from subquest.retrieval.analysis import Analysis
from subquest.retrieval.bm25 import BM25
from subquest.retrieval.encoder import EncoderSpec
from subquest.retrieval.settings import Settings

LIBRARY = [
    Document("bridge", "Orvane Bridge", "The bridge was designed by Mira Tolland. Bridges need care.", {"year": 1904}),
    Document("tolland", "Mira Tolland", "Mira Tolland was an engineer from Kelso.", {"year": 1871, "kind": "person"}),
    Document("kelso", "Kelso", "Kelso is a town on the river Tweed; its abbey's café is old.", {"kind": "place"}),
    Document("river", "Tweed", "The river Tweed flows past Kelso and past the abbey.", {"kind": "place", "long": True}),
]
CHANGED = Document("river", "River Tweed", "The Tweed is a river with a bridge at Kelso.", {"kind": "place"})
WIDTH = 8


def settings(url: str = "") -> Settings:
    """With an address of embeddings: vectors too."""
    if not url:
        return Settings(Analysis(), BM25(), average=20.0)
    return Settings(Analysis(), BM25(), encoder=encoder(url), width=WIDTH, average=20.0)


def encoder(url: str) -> EncoderSpec:
    return EncoderSpec("endpoint", "hashed-words", pooling="model", max_tokens=512, url=url)
