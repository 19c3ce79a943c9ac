"""Accounts of lines: every line belongs to one part, and the parts add up."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rolecraft.failure_taxonomy.formats.lines import PARTS, Lines, account, merged


def adds_up(counts: dict[str, object]) -> bool:
    return counts["total"] == sum(int(str(counts[part])) for part in PARTS)


def test_a_line_that_nobody_took_is_blank_or_unsegmented() -> None:
    lines = Lines("one\n\ntwo\n \nthree\n")
    lines.take("events", 0, 2)
    assert list(lines.free()) == [(2, 5)]
    assert lines.account() == account("line", events=2, unsegmented=2, blank=1)


def test_stretches_end_where_taken_lines_begin() -> None:
    lines = Lines("a\nb\n\nc\nd\r\n\n")
    lines.take("header", 1, 2)
    assert list(lines.free()) == [(0, 1), (3, 5)]
    assert lines.text(3, 5) == "c\nd"


def test_an_account_can_be_enlarged() -> None:
    counts = merged(account("element", events=3, labels=1), header=2, labels=1)
    assert counts == account("element", events=3, header=2, labels=2)
    assert counts["total"] == 7


@given(
    st.text(alphabet="ab \n\r", max_size=60),
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9))),
)
def test_the_parts_add_up_whatever_is_taken(text: str, taken: list[tuple[int, int]]) -> None:
    lines = Lines(text)
    for first, end in taken:
        if first <= end <= len(lines):
            lines.take("events", first, end)
    counts = lines.account()
    assert adds_up(counts)
    assert counts["total"] == len(lines) == len(text.split("\n")) - (text.split("\n")[-1] == "")
