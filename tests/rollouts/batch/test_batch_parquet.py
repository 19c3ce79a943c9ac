"""Rows reach Parquet by way of JSON, which is quicker, and arrive as they were."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rolecraft.rollouts.batch.formats import whole_characters
from rolecraft.rollouts.batch.parquet import schema, table_of

arrow = pytest.importorskip("pyarrow")


def values(kind: Any) -> st.SearchStrategy[Any]:
    """What a column of this type may hold."""
    if arrow.types.is_struct(kind):
        return st.fixed_dictionaries({field.name: values(field.type) for field in kind})
    if arrow.types.is_list(kind):
        return st.none() | st.lists(values(kind.value_type), max_size=3)
    if arrow.types.is_boolean(kind):
        return st.none() | st.booleans()
    if arrow.types.is_int64(kind):
        return st.none() | st.integers(-(2**63), 2**63 - 1)
    if arrow.types.is_float64(kind):
        return st.none() | st.floats() | st.integers(-(2**53), 2**53).map(float)
    assert arrow.types.is_string(kind), kind
    return st.none() | st.text(st.characters(codec=None)) | st.just("2020-01-01 00:00:00")


ROWS = st.lists(st.fixed_dictionaries({f.name: values(f.type) for f in schema()}), max_size=4)


def whole(value: Any) -> Any:
    """Without halves of characters, and in one order."""
    if isinstance(value, str):
        return whole_characters(value)
    if isinstance(value, dict):
        return {name: whole(each) for name, each in sorted(value.items())}
    return [whole(each) for each in value] if isinstance(value, list) else value


@given(ROWS)
@example([])
def test_rows_are_in_the_table_as_they_are_but_for_halves_of_characters(
    rows: list[dict[str, Any]],
) -> None:
    table = table_of(rows)
    assert table.schema == schema()
    assert repr(whole(table.to_pylist())) == repr(whole(rows))  # NaN too


def test_what_no_row_has_is_null_and_its_column_is_there_all_the_same() -> None:
    table = table_of([{"id": "a"}, {"id": "b", "messages": [{"role": "user"}]}])
    assert table.schema == schema()
    assert table["reward"].to_pylist() == [None, None]
    assert table["messages"].to_pylist()[1][0]["content"] is None
