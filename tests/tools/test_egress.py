"""What may leave: scopes, and URLs that a model made up."""

import pytest

from subquest.errors import UsageError
from subquest.tools.egress import Egress, EgressRefused, urls_in


def test_private_lets_nothing_leave():
    egress = Egress("private", "See http://a.example/x")
    for call in (egress.check_search, lambda: egress.check_url("http://a.example/x")):
        with pytest.raises(EgressRefused, match="private"):
            call()


def test_public_without_private_documents_opens_what_the_model_writes():
    egress = Egress("public")
    egress.check_search()
    egress.check_url("http://composed.example/?q=1")


def test_public_with_private_documents_opens_only_what_was_offered():
    egress = Egress("public", "What does https://a.example/page/ say?", private_documents=True)
    egress.check_search()
    egress.check_url("https://a.example/page#top")
    with pytest.raises(EgressRefused, match="not offered"):
        egress.check_url("https://a.example/page?leak=secret")
    egress.offer(["https://b.example/found"])
    egress.check_url("https://b.example/found")


def test_adaptive_is_closed_over_private_documents():
    Egress("adaptive").check_url("http://composed.example/")
    with pytest.raises(EgressRefused, match="private documents"):
        Egress("adaptive", private_documents=True).check_search()


def test_scopes_are_named():
    with pytest.raises(UsageError, match="private, public, adaptive"):
        Egress("open")


def test_urls_in_text():
    assert urls_in("see (http://a.example/x), or <https://b.example/y?z=1>.") == [
        "http://a.example/x",
        "https://b.example/y?z=1",
    ]
