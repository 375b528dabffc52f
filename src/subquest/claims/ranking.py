"""What the search does, as a fingerprint: the order it gives to a few passages, with its scores.

Rows that were measured with another ranking cannot be compared, and a digest of code would call every renaming another
ranking. So a small index is asked a few queries, which touch what decides an order: rare and frequent words, lengths,
stems, accents, titles in a query (whole, of one word, within a longer one, shared by namesakes), and ties.
"""

from __future__ import annotations

import functools
import hashlib
import tempfile
from pathlib import Path
from typing import Final

SEARCH: Final = "auto"
"""How the arms search: BM25, and first the articles that a query names."""

PASSAGES = (
    ("Saevebryd", "Saevebryd is a town in the north of Tarn. It has 4,210 people and a harbour."),
    ("Saevebryd Athletic", "Saevebryd Athletic is a football club in Saevebryd. The club was founded in 1921."),
    ("Saevebryd Airways", "Saevebryd Airways flew from Saevebryd to the islands and was closed in 1988."),
    ("Orla Venn", "Orla Venn was a painter. She was born in Saevebryd and painted harbours and towns."),
    ("Orla Venn (album)", "Orla Venn is an album by Teo Rask. It was recorded in one night."),
    ("Teo Rask", "Teo Rask is a singer of the band Low Harbours. He was born in Málmoe in 1961."),
    ("Málmoe", "Málmoe is a city. Painters and singers live in the city, and the city has a theatre."),
    ("Film", "A film is a series of pictures. Films are shown in a theatre."),
    ("Night Painters", "Night Painters is a film of 1999 about painters at night. Its director is Ida Lorm."),
    ("Ida Lorm", "Ida Lorm directs films. Her first film was Night Painters; she lives in Málmoe."),
    ("Low Harbours", "Low Harbours is a band. The band plays at night."),
    ("Tarn", "Tarn is a country. " + "Its rivers, roads, farms and mills are old. " * 8),
    ("Same", "A passage that is there twice."),
    ("Same", "A passage that is there twice."),
)
QUERIES = (
    "What is the population of Saevebryd?",
    "When was Saevebryd Athletic founded?",
    "Where was Orla Venn born?",
    "Which singer recorded the album Orla Venn in one night?",
    "Who lives in Malmoe?",
    "Which film did Ida Lorm direct?",
    "director of Night Painters",
    "painters and harbours of the north",
    "the city where the singer of Low Harbours was born",
    "country with old mills",
    "a passage that is there twice",
    "of the and in",
)


@functools.cache
def ranking() -> str:
    """The fingerprint of the search that the arms use."""
    from ..record import Document
    from ..retrieval.index import Index

    with tempfile.TemporaryDirectory() as folder:
        passages = [Document(str(n), title, text) for n, (title, text) in enumerate(PASSAGES)]
        with Index.build(Path(folder) / "probe.sq", passages) as index:
            found = index.search_many(QUERIES, 5, mode=SEARCH)
    told = ";".join(",".join(f"{hit.document.id}:{hit.score:.4f}" for hit in hits) for hits in found)
    return hashlib.sha256(told.encode()).hexdigest()[:16]
