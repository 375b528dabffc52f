"""Qdrant as a backend, over its REST interface (1.10 and later).

    qdrant+https://host:6333/COLLECTION        QDRANT_API_KEY where the server wants a key

Passages are points with two named vectors: `dense`, and `terms`, a sparse vector whose dot product is BM25. Its
indices are hashes of terms, its values f / (f + k1 · (1 - b + b · |d| / average)); the server multiplies by idf, which
it counts itself. The average length is fixed when the collection is made: from the index that is copied there, or from
the first batch of passages. The settings are the payload of a separate point, which has no vectors.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

from ...address import checked_address, checked_key
from ...errors import SearchError, UsageError
from ...record import Document
from ..json_server import JsonServer
from ..search import Mode
from ..settings import Entry, Settings
from .backend import DOCUMENT_FIELDS, Backend, Facets, Known, Passage, Ranked, key_of, to_document

SETTINGS = key_of("subquest settings")
"""The point that holds the settings."""
_PAGE = 256
_NAME = re.compile(r"[A-Za-z0-9_-]{1,200}")


class Qdrant(Backend):
    """A Qdrant collection."""

    BATCH = 256

    def __init__(self, url: str, mode: Mode = "auto") -> None:
        parts = urlsplit(url.removeprefix("qdrant+"))
        collection = parts.path.strip("/")
        if not parts.hostname or not _NAME.fullmatch(collection):
            raise UsageError(f"write qdrant+http://HOST:6333/COLLECTION, not {url!r}")
        server = checked_address(f"{parts.scheme}://{parts.netloc}?{parts.query}", "Qdrant's address")
        base = server.url
        key = checked_key(os.environ.get("QDRANT_API_KEY", ""), "QDRANT_API_KEY")
        self._server = JsonServer(server, headers={"api-key": key} if key else {})
        self._path = f"/collections/{collection}"
        super().__init__(f"qdrant+{base}/{collection}", mode)

    def _ask(self, method: str, path: str, body: Any = None, **options: Any) -> Any:
        reply = self._server.ask(method, self._path + path, body, **options)
        if reply is None:
            return None
        if not isinstance(reply, dict) or reply.get("status") != "ok" or "result" not in reply:
            raise SearchError(f"{self.name}{path} answered in an unknown format: {json.dumps(reply)[:200]}")
        return reply["result"]

    def close(self) -> None:
        self._server.close()

    # ------------------------------------------------------------------------------------------------ settings

    def _read_settings(self) -> Settings | None:
        if self._ask("GET", "", absent=True) is None:
            return None
        found = self._points([SETTINGS], True)
        if not found:
            raise UsageError(f"{self.name} was not made by Subquest; choose another collection name")
        return Settings.from_record(found[0]["payload"].get("settings"), self.name)

    def _make(self, settings: Settings) -> None:
        dense = {"dense": {"size": settings.width, "distance": "Cosine", "datatype": "float16"}}
        body = {
            "vectors": dense if settings.encoder else {},
            "sparse_vectors": {"terms": {"modifier": "idf"}},
            "on_disk_payload": True,
        }
        self._ask("PUT", "", body)
        self._ask("PUT", "/index", {"field_name": "facets", "field_schema": "keyword"}, query={"wait": "true"})
        self._store_settings(settings)

    def _store_settings(self, settings: Settings) -> None:
        point = {"id": SETTINGS, "vector": {}, "payload": {"settings": settings.to_record()}}
        self._ask("PUT", "/points", {"points": [point]}, query={"wait": "true"})

    # ------------------------------------------------------------------------------------------------ writing

    def _points(self, keys: Sequence[str], payload: bool | list[str]) -> list[dict[str, Any]]:
        body = {"ids": list(keys), "with_payload": payload, "with_vector": False}
        found = self._ask("POST", "/points", body)
        if not isinstance(found, list):
            raise SearchError(f"{self.name}/points answered in an unknown format")
        return found

    def _known(self, keys: Sequence[str]) -> dict[str, Known]:
        vectors = self.settings.encoder is not None
        return {p["id"]: Known(p["payload"]["digest"], vectors) for p in self._points(keys, ["digest"])}

    def _put(self, passages: Sequence[Passage]) -> None:
        if not self.settings.average:
            average = sum(passage.length for passage in passages) / len(passages)
            self._settings = dataclasses.replace(self.settings, average=average or 1.0)
            self._store_settings(self.settings)
        points = []
        for p in passages:
            vector: dict[str, Any] = {"terms": self._sparse(p)}
            if p.vector is not None:
                vector["dense"] = p.vector.tolist()
            points.append({"id": p.key, "vector": vector, "payload": p.fields()})
        self._ask("PUT", "/points", {"points": points}, query={"wait": "true"})

    def _sparse(self, passage: Passage) -> dict[str, list[Any]]:
        norm = self.settings.bm25.norm(passage.length, self.settings.average)
        values: dict[int, float] = {}
        for term, count in passage.terms.items():
            place = sparse_index(term)
            values[place] = values.get(place, 0.0) + count / (count + norm)
        return {"indices": list(values), "values": list(values.values())}

    def _delete(self, keys: Sequence[str]) -> int:
        there = [point["id"] for point in self._points(keys, False)]
        if there:
            self._ask("POST", "/points/delete", {"points": there}, query={"wait": "true"})
        return len(there)

    # ------------------------------------------------------------------------------------------------ searching

    def _lexical(self, queries: Sequence[Counter[str]], k: int, facets: Facets | None) -> list[list[Ranked]]:
        searches = []
        for query in queries:
            weights: dict[int, float] = {}
            for term, count in query.items():
                place = sparse_index(term)
                weights[place] = weights.get(place, 0.0) + count
            sparse = {"indices": list(weights), "values": list(weights.values())}
            searches.append({"query": sparse, "using": "terms"})
        return self._search(searches, k, facets)

    def _nearest(self, vectors: Any, k: int, facets: Facets | None) -> list[list[Ranked]]:
        searches = [{"query": vector.tolist(), "using": "dense"} for vector in vectors]
        return self._search(searches, k, facets)

    def _search(self, searches: Sequence[dict[str, Any]], k: int, facets: Facets | None) -> list[list[Ranked]]:
        shared: dict[str, Any] = {"limit": k, "with_payload": False, "with_vector": False}
        if facets:
            shared["filter"] = {"must": [{"key": "facets", "match": {"any": list(group)}} for group in facets]}
        answers = self._ask("POST", "/points/query/batch", {"searches": [{**s, **shared} for s in searches]})
        try:
            if len(answers) != len(searches):
                raise KeyError("result")
            return [[Ranked(point["id"], float(point["score"])) for point in answer["points"]] for answer in answers]
        except (KeyError, TypeError):
            raise SearchError(f"{self.name} answered a search in an unknown format") from None

    def _fetch(self, keys: Sequence[str]) -> dict[str, Document]:
        found: dict[str, Document] = {}
        for start in range(0, len(keys), _PAGE):
            for point in self._points(keys[start : start + _PAGE], list(DOCUMENT_FIELDS)):
                found[point["id"]] = to_document(point["payload"])
        return found

    def entries(self) -> Iterator[Entry]:
        import numpy as np

        body: dict[str, Any] = {
            "limit": _PAGE,
            "with_payload": list(DOCUMENT_FIELDS),
            "with_vector": ["dense"] if self.settings.encoder else False,
            "filter": {"must_not": [{"has_id": [SETTINGS]}]},
        }
        while True:
            page = self._ask("POST", "/points/scroll", body)
            for point in page["points"]:
                vector = (point.get("vector") or {}).get("dense")
                row = None if vector is None else np.array(vector, np.float32)
                yield Entry(to_document(point["payload"]), row)
            if page.get("next_page_offset") is None:
                return
            body["offset"] = page["next_page_offset"]

    def __len__(self) -> int:
        body = {"exact": True, "filter": {"must_not": [{"has_id": [SETTINGS]}]}}
        return int(self._ask("POST", "/points/count", body)["count"])


def sparse_index(term: str) -> int:
    """A term's index in the sparse vector: 32 bits of its hash, so that no dictionary is needed."""
    return int.from_bytes(hashlib.blake2b(term.encode(), digest_size=4).digest(), "little")
