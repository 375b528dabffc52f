"""A search over a handful of documents, for tests of control flow."""

from collections.abc import Callable, Sequence

from subquest.errors import SearchError
from subquest.record import Document, Hit

DOCUMENTS = (
    Document("d1", "Orvane Bridge", "The Orvane Bridge was designed by Mila Torrun. It opened in 1931. MARKER-ONE"),
    Document("d2", "Mila Torrun", "Mila Torrun was an engineer. She was born in Kestel in 1889. MARKER-TWO"),
)


class FakeSearch:
    """Returns the documents that share a word with the query; fails as often as `failures` says."""

    name = "fake"

    def __init__(self, documents: Sequence[Document] = DOCUMENTS, failures: int = 0) -> None:
        self.documents = documents
        self.failures = failures
        self.queries: list[str] = []

    async def retrieve(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        self.queries.extend(queries)
        if self.failures:
            self.failures -= 1
            raise SearchError("the index is on fire")
        return [self._one(query)[:k] for query in queries]

    def _one(self, query: str) -> list[Hit]:
        words = set(query.lower().split())
        scored = [(len(words & set(d.text.lower().split())), d) for d in self.documents]
        return [Hit(d, float(score)) for score, d in sorted(scored, key=lambda p: -p[0]) if score]


def by_role(**replies: Sequence[str] | Callable[..., str]) -> dict[str, list[str]]:
    return {role: list(texts) for role, texts in replies.items()}  # type: ignore[arg-type]
