"""What is masked, and what is left alone."""

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subquest.errors import EngineRefused, UsageError
from subquest.masking import (
    LOG_FILTER,
    MASK,
    MaskedStream,
    mask,
    masked,
    public,
    public_values,
    remember,
    remember_environment,
    remember_url,
)

KEY = "sk-4f9a77c1"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://ann:pw@host/v1", "http://host/v1"),
        ("http://token@host:80/v1#m", "http://host:80/v1#m"),
        ("postgres://ann:p/w@host/db?password=x&sslmode=require", "postgres://host/db?sslmode=require"),
        ("openai:m@http://ann:p,w@host/v1", "openai:m@http://host/v1"),
        ("planner=http://a:b@h/v1?key=abc,executor=http://h2/v1#n", "planner=http://h/v1,executor=http://h2/v1#n"),
        ("http://h:8000,executor=openai:m@http://h2/v1", "http://h:8000,executor=openai:m@http://h2/v1"),
        ("http://h/?a=1&accessToken=9&b=2#f", "http://h/?a=1&b=2#f"),
        ("s3://b/p?X-Amz-Signature=9f&X-Amz-Date=1", "s3://b/p?X-Amz-Date=1"),
        ("see 'http://h/v1?api-key=K', or not?", "see 'http://h/v1', or not?"),
        ("is http://host up?", "is http://host up?"),
        ("https://medium.com/@ann and http://[::1]:80/a@b", "https://medium.com/@ann and http://[::1]:80/a@b"),
        ("https://h/?monkey=1&keyword=2&author=3", "https://h/?monkey=1&keyword=2&author=3"),
        ("ann@example.org asked: key=value?", "ann@example.org asked: key=value?"),
    ],
)
def test_urls_lose_their_credentials_and_nothing_else(text: str, shown: str) -> None:
    assert public(text) == shown
    assert public_values({"a": [text, 1, None], "b": (text,)}) == {"a": [shown, 1, None], "b": [shown]}


def test_keys_are_masked_however_they_are_written() -> None:
    remember('sk/4f+9a"77c1')
    for written in ('sk/4f+9a"77c1', "sk%2F4f%2B9a%2277c1", "sk%2f4f%2b9a%2277c1", 'sk/4f+9a\\"77c1'):
        assert mask(f"a {written} b") == f"a {MASK} b"
    assert masked({'sk/4f+9a"77c1': [{"x": 'sk/4f+9a"77c1'}]}) == {MASK: [{"x": MASK}]}


def test_user_info_is_masked_as_http_sends_it() -> None:
    remember_url("http://ann:hunter%2F22@host?token=tok-12345&page=12345678")
    assert mask("Basic YW5uOmh1bnRlci8yMg== hunter/22 hunter%2F22 tok-12345 ann 12345678") == (
        f"Basic {MASK} {MASK} {MASK} {MASK} ann 12345678"
    )


@pytest.mark.parametrize("word", ["EMPTY", "postgres", "password", "1234567", "none"])
def test_words_of_ordinary_text_are_no_secrets(word: str) -> None:
    remember(word)
    assert mask(f"what {word} means") == f"what {word} means"


def test_the_environment() -> None:
    remember_environment(
        {
            "ANTHROPIC_API_KEY": "an-11112222",
            "hf_token": "hf-33334444",
            "DATABASE_URL": "postgres://ann:pg-55556666@host/db",
            "SORT_KEY": "2024-01-01",
            "HOME": "/home/ann-77778888",
        }
    )
    assert mask("an-11112222 hf-33334444 pg-55556666 2024-01-01 ann-77778888") == (
        f"{MASK} {MASK} {MASK} 2024-01-01 ann-77778888"
    )


@given(st.lists(st.sampled_from([KEY, KEY[:4], KEY[4:], KEY[:-1], "s", "sk-", "text "]), max_size=8), st.data())
def test_a_stream_shows_what_the_whole_text_shows(parts: list[str], data: st.DataObject) -> None:
    remember(KEY)
    text = "".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=10)))
    stream = MaskedStream()
    pieces = [stream.add(text[a:b]) for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert "".join([*pieces, stream.rest()]) == mask(text)
    assert not any(KEY in piece for piece in pieces)


def test_errors_and_logs(caplog: pytest.LogCaptureFixture) -> None:
    remember(KEY)
    assert str(EngineRefused(f"sent {KEY} to http://a:b@h")) == f"sent {MASK} to http://h"
    assert UsageError(1, f"{KEY}").args == (1, MASK)
    log = logging.getLogger("subquest.test")
    log.addFilter(LOG_FILTER)
    try:
        raise ValueError(KEY)
    except ValueError:
        log.exception("with %s", KEY)
    assert MASK in caplog.text
    assert KEY not in caplog.text
