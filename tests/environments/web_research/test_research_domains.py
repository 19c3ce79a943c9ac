"""Registrable domains, from addresses as they are written."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rolecraft.environments.web_research.domains import registrable_domain, sources_of


@pytest.mark.parametrize(
    ("address", "domain"),
    [
        ("w3.org", "w3.org"),  # `lstrip("www.")` made "3.org" of it
        ("https://www.w3.org/TR/", "w3.org"),
        ("https://wikipedia.org/", "wikipedia.org"),  # and "ikipedia.org" of this
        ("https://en.m.wikipedia.org/wiki/Web", "wikipedia.org"),
        ("http://WWW.Example.COM.:8080/x?y#z", "example.com"),
        ("https://user:pw@news.bbc.co.uk/1", "bbc.co.uk"),
        ("https://bbc.co.uk", "bbc.co.uk"),
        ("https://ada.github.io/notes", "ada.github.io"),
        ("https://www.abc.net.au/news", "abc.net.au"),
        ("https://x.y.t.co/", "t.co"),
        ("http://127.0.0.1:80/", "127.0.0.1"),
        ("http://[2001:db8::1]/x", "2001:db8::1"),
        ("http://localhost/", "localhost"),
        ("", ""),
        ("http://[broken/", ""),
    ],
)
def test_what_somebody_has_registered(address: str, domain: str) -> None:
    assert registrable_domain(address) == domain


def test_a_domain_is_one_source_and_so_is_each_file_without_a_web_address() -> None:
    addresses = [
        "https://en.wikipedia.org/a",
        "https://de.wikipedia.org/b",
        "notes/x.md",
        "notes/y.md",
        "notes/x.md",
        "http://",
        "",
    ]
    found = sources_of([*addresses, "https://w3.org"])
    assert found == ["wikipedia.org", "notes/x.md", "notes/y.md", "w3.org"]


@settings(deadline=None)
@given(st.text(max_size=60))
def test_no_address_makes_it_raise(address: str) -> None:
    registrable_domain(address)
    registrable_domain(f"http://{address}")
