"""Addresses and keys of servers: what cannot be right is said before anything is asked."""

import pytest

from subquest.address import checked_key, checked_url, is_loopback
from subquest.engine.openai import OpenAIEngine
from subquest.errors import UsageError
from subquest.retrieval import RemoteSearch
from subquest.retrieval.encoder import parse


@pytest.mark.parametrize(
    "url",
    ["", "host/v1", "ftp://host", "http://", "http:///v1", "http://[::1", "http://a b/v1", "http://h:abc/v1",
     "http://h:99999/v1", "http://h:0/v1", "http://h\t/v1"],
)  # fmt: skip
def test_what_is_no_address_is_said_at_once(url: str) -> None:
    for use in (
        lambda: checked_url(url, "an address"),
        lambda: OpenAIEngine("m", base_url=url or "x"),
        lambda: RemoteSearch(url),
        lambda: parse(f"e5@{url}"),
    ):
        with pytest.raises(UsageError, match=r"http://|cannot be right"):
            use()


def test_addresses_and_keys_are_taken_without_what_stands_around_them() -> None:
    assert checked_url(" https://host:8000/v1/\n", "an address") == "https://host:8000/v1"
    assert checked_url("http://[::1]:8000", "an address") == "http://[::1]:8000"
    assert checked_key("sk-1\n", "the key") == "sk-1"
    assert checked_key("", "the key") == ""


@pytest.mark.parametrize("key", ["k\u00e9y", "a\nb", "a\x00"])
def test_a_key_that_no_header_can_hold_is_refused(key: str) -> None:
    with pytest.raises(UsageError, match="copy it again"):
        OpenAIEngine("m", base_url="http://host/v1", api_key=key)


def test_loopback_is_told_from_the_rest() -> None:
    assert all(is_loopback(f"http://{host}:1/v1") for host in ("localhost", "[::1]", "127.0.0.1"))
    assert not is_loopback("http://localhost.example/v1")
