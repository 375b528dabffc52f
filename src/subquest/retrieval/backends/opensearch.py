"""OpenSearch as a backend, over its REST interface.

    opensearch+https://host:9200/INDEX        user and password in the address, or OPENSEARCH_USER, OPENSEARCH_PASSWORD

Terms are made here, with the analysis of our own index, and sent as a text that the server only splits at blanks, so
that a query finds the same there as here. The server's BM25 has the k1 and b of the settings; frequencies are those
of the whole index, not of a shard. Vectors go into a `knn_vector` field (Lucene's HNSW, filtered while searching).
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

from ...address import checked_address
from ...errors import SearchError, SearchRefused, UsageError
from ...masking import remember
from ...record import Document
from ..json_server import JsonServer, retry
from ..search import Mode
from ..settings import Entry, Settings
from .backend import DOCUMENT_FIELDS, Backend, Facets, Known, Passage, Ranked, to_document

MAX_TERMS = 1000
"""Of one query; the server refuses more clauses than 1,024."""
_PAGE = 500
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,200}")


class OpenSearch(Backend):
    """An OpenSearch index."""

    def __init__(self, url: str, mode: Mode = "auto") -> None:
        parts = urlsplit(url.removeprefix("opensearch+"))
        self._index = parts.path.strip("/")
        if not parts.hostname or not _NAME.fullmatch(self._index):
            raise UsageError(f"write opensearch+http://HOST:9200/INDEX with INDEX in lower case, not {url!r}")
        server = checked_address(f"{parts.scheme}://{parts.netloc}?{parts.query}", "OpenSearch's address")
        base = server.url
        user = unquote(parts.username or os.environ.get("OPENSEARCH_USER", ""))
        password = unquote(parts.password or os.environ.get("OPENSEARCH_PASSWORD", ""))
        remember(password)
        self._server = JsonServer(server, headers={}, auth=(user, password) if user else None)
        super().__init__(f"opensearch+{base}/{self._index}", mode)

    def _ask(self, method: str, path: str, body: Any = None, **options: Any) -> Any:
        return self._server.ask(method, f"/{self._index}{path}", body, **options)

    def close(self) -> None:
        self._server.close()

    # ------------------------------------------------------------------------------------------------ settings

    def _read_settings(self) -> Settings | None:
        found = self._ask("GET", "/_mapping", absent=True)
        if found is None:
            return None
        try:
            (mapping,) = found.values()  # behind an alias the index has another name
            record = mapping["mappings"]["_meta"]["subquest"]
        except (AttributeError, KeyError, TypeError, ValueError):
            raise UsageError(f"{self.name} was not made by Subquest; choose another index name") from None
        return Settings.from_record(record, self.name)

    def _make(self, settings: Settings) -> None:
        bm25 = {"type": "BM25", "k1": settings.bm25.k1, "b": settings.bm25.b}
        properties: dict[str, Any] = {
            "id": {"type": "keyword"},
            "title": {"type": "text", "index": False},
            "text": {"type": "text", "index": False},
            "meta": {"type": "text", "index": False},
            "digest": {"type": "text", "index": False},
            "facets": {"type": "keyword"},
            "terms": {"type": "text", "analyzer": "whitespace", "similarity": "subquest", "index_options": "freqs"},
        }
        if settings.encoder:
            method = {"name": "hnsw", "engine": "lucene", "space_type": "cosinesimil"}
            properties["vector"] = {"type": "knn_vector", "dimension": settings.width, "method": method}
        body = {
            "settings": {"index": {"knn": True, "similarity": {"subquest": bm25}}},
            "mappings": {
                "_meta": {"subquest": settings.to_record()},
                "_source": {"excludes": ["terms"]},
                "dynamic": "strict",
                "properties": properties,
            },
        }
        self._ask("PUT", "", body)

    # ------------------------------------------------------------------------------------------------ writing

    def _known(self, keys: Sequence[str]) -> dict[str, Known]:
        found = self._mget(keys, ["digest"])
        vectors = self.settings.encoder is not None
        return {key: Known(source["digest"], vectors) for key, source in found.items()}

    def _mget(self, keys: Sequence[str], fields: Sequence[str]) -> dict[str, dict[str, Any]]:
        reply = self._ask("POST", "/_mget", {"ids": list(keys)}, query={"_source_includes": ",".join(fields)})
        try:
            return {item["_id"]: item["_source"] for item in reply["docs"] if item.get("found")}
        except (KeyError, TypeError):
            raise self._unknown_reply("_mget", reply) from None

    def _put(self, passages: Sequence[Passage]) -> None:
        lines: list[tuple[dict[str, Any], dict[str, Any] | None]] = []
        for p in passages:
            source = {**p.fields(), "terms": p.repeated_terms()}
            if p.vector is not None:
                source["vector"] = p.vector.tolist()
            lines.append(({"index": {"_id": p.key}}, source))
        self._bulk(lines)

    def _delete(self, keys: Sequence[str]) -> int:
        done = self._bulk([({"delete": {"_id": key}}, None) for key in keys])
        return sum(status == 200 for status in done)

    def _bulk(self, actions: Sequence[tuple[dict[str, Any], dict[str, Any] | None]]) -> list[int]:
        """Do all actions; those that the server was too busy for are sent again. Returns the status of each."""
        statuses = [0] * len(actions)
        waiting = list(range(len(actions)))

        def send() -> None:
            nonlocal waiting
            lines = [line for i in waiting for line in actions[i] if line is not None]
            reply = self._ask("POST", "/_bulk", lines=lines)
            items = reply.get("items") if isinstance(reply, dict) else None
            if not isinstance(items, list) or len(items) != len(waiting):
                raise self._unknown_reply("_bulk", reply)
            busy = []
            for i, item in zip(waiting, items, strict=True):
                (result,) = item.values()
                statuses[i] = int(result["status"])
                if statuses[i] == 429 or statuses[i] >= 500:
                    busy.append(i)
                elif statuses[i] >= 300 and not (statuses[i] == 404 and "delete" in item):
                    raise SearchRefused(f"{self.name} refused a passage: {json.dumps(result.get('error'))[:300]}")
            waiting = busy
            if busy:
                raise SearchError(f"{self.name} was too busy for {len(busy)} of {len(actions)} passages")

        if actions:
            retry(send)
        return statuses

    def _finish(self) -> None:
        self._ask("POST", "/_refresh")

    # ------------------------------------------------------------------------------------------------ searching

    def _lexical(self, queries: Sequence[Counter[str]], k: int, facets: Facets | None) -> list[list[Ranked]]:
        searches = []
        for query in queries:
            should = [{"term": {"terms": {"value": term, "boost": n}}} for term, n in query.most_common(MAX_TERMS)]
            searches.append({"bool": {"should": should, "minimum_should_match": 1, **_filter(facets)}})
        return self._search(searches, k)

    def _nearest(self, vectors: Any, k: int, facets: Facets | None) -> list[list[Ranked]]:
        narrowed = {"filter": {"bool": _filter(facets)}} if facets else {}
        searches = [{"knn": {"vector": {"vector": vector.tolist(), "k": k, **narrowed}}} for vector in vectors]
        # the server's score is (1 + cosine) / 2
        return [[Ranked(key, 2 * score - 1) for key, score in row] for row in self._search(searches, k)]

    def _search(self, searches: Sequence[dict[str, Any]], k: int) -> list[list[Ranked]]:
        lines: list[dict[str, Any]] = []
        for query in searches:
            lines.append({"search_type": "dfs_query_then_fetch"})
            lines.append({"size": k, "query": query, "_source": False, "track_total_hits": False})
        reply = self._ask("POST", "/_msearch", lines=lines)
        try:
            answers = reply["responses"]
            if len(answers) != len(searches):
                raise KeyError("responses")
            out = []
            for answer in answers:
                if "error" in answer:
                    kind = SearchError if answer.get("status", 500) in {429, 500, 502, 503, 504} else SearchRefused
                    raise kind(f"{self.name}: {json.dumps(answer['error'])[:300]}")
                if answer.get("timed_out") or answer["_shards"]["failed"]:
                    raise SearchError(f"{self.name}: some shards did not answer")
                out.append([Ranked(hit["_id"], float(hit["_score"])) for hit in answer["hits"]["hits"]])
        except (KeyError, TypeError):
            raise self._unknown_reply("_msearch", reply) from None
        return out

    def _fetch(self, keys: Sequence[str]) -> dict[str, Document]:
        found: dict[str, Document] = {}
        for start in range(0, len(keys), _PAGE):
            page = self._mget(keys[start : start + _PAGE], DOCUMENT_FIELDS)
            found.update((key, to_document(source)) for key, source in page.items())
        return found

    def entries(self) -> Iterator[Entry]:
        import numpy as np

        body: dict[str, Any] = {"size": _PAGE, "query": {"match_all": {}}, "sort": [{"id": "asc"}]}
        while True:
            reply = self._ask("POST", "/_search", body)
            try:
                hits = reply["hits"]["hits"]
                for hit in hits:
                    vector = hit["_source"].get("vector")
                    yield Entry(to_document(hit["_source"]), None if vector is None else np.array(vector, np.float32))
            except (KeyError, TypeError):
                raise self._unknown_reply("_search", reply) from None
            if len(hits) < _PAGE:
                return
            body["search_after"] = hits[-1]["sort"]

    def __len__(self) -> int:
        reply = self._ask("GET", "/_count")
        try:
            return int(reply["count"])
        except (KeyError, TypeError, ValueError):
            raise self._unknown_reply("_count", reply) from None

    def _unknown_reply(self, what: str, reply: Any) -> SearchError:
        return SearchError(f"{self.name} answered {what} in an unknown format: {json.dumps(reply)[:200]}")


def _filter(facets: Facets | None) -> dict[str, Any]:
    return {"filter": [{"terms": {"facets": list(group)}} for group in facets]} if facets else {}
