"""Figures in words."""

from __future__ import annotations

from typing import Any

import pytest

from rolecraft.trajectories.in_words import count


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ((0, "file"), "0 files"),
        ((1, "file"), "1 file"),
        ((1200, "file"), "1,200 files"),
        ((1, "entry", "entries"), "1 entry"),
        ((2, "entry", "entries"), "2 entries"),
    ],
)
def test_things_are_counted_in_their_singular_or_plural(said: tuple[Any, ...], text: str) -> None:
    assert count(*said) == text
