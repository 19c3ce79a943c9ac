"""Figures in words."""

from __future__ import annotations

import pytest

from rolecraft.viewer.reading import percent


@pytest.mark.parametrize(
    ("share", "text"),
    [(0, "0%"), (1, "100%"), (0.5, "50%"), (0.9996, ">99%"), (0.0004, "<1%"), (0.02, "2%")],
)
def test_all_and_nothing_are_said_only_where_they_are_exact(share: float, text: str) -> None:
    assert percent(share) == text
