"""Lines are read by a quick parser first: nobody can tell."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolecraft.environments.row_files import read_json

TEXTS = st.text(st.characters(codec=None))  # halves of characters too
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda some: st.lists(some, max_size=4) | st.dictionaries(TEXTS, some, max_size=4),
    max_leaves=12,
)


def same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and math.isnan(one):
        return isinstance(other, float) and math.isnan(other)
    if isinstance(one, dict):
        return (
            isinstance(other, dict)
            and list(one) == list(other)
            and all(same(one[name], other[name]) for name in one)
        )
    if isinstance(one, list):
        return (
            isinstance(other, list)
            and len(one) == len(other)
            and all(same(a, b) for a, b in zip(one, other, strict=True))
        )
    return type(one) is type(other) and one == other


@given(VALUES, st.booleans())
def test_json_is_read_as_the_standard_library_reads_it(value: Any, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    try:
        line = text.encode()
    except UnicodeEncodeError:
        return
    assert same(json.loads(line), read_json(line))


@pytest.mark.parametrize(
    "line",
    [b"", b"{", b'{"a": 1} x', b'{"a": }', b"nul", b"'a'", b'"\xff"', b"[1,]", b'"\x01"', b"01"],
)
def test_what_is_no_json_raises_what_the_standard_library_raises(line: bytes) -> None:
    with pytest.raises(ValueError) as theirs:  # noqa: PT011 - compared below
        json.loads(line.decode())
    with pytest.raises(ValueError) as ours:  # noqa: PT011
        read_json(line)
    assert type(ours.value) is type(theirs.value)
    assert str(ours.value) == str(theirs.value)


@pytest.mark.parametrize("line", [b'{"a": 1, "a": 2}', b"-0", b"1e400", b" [1] ", b"1" * 500])
def test_what_is_odd_is_read_the_same(line: bytes) -> None:
    assert same(json.loads(line), read_json(line))
