"""Training rows in a Parquet file, with one schema whatever is in them.

The columns are those of `openai`, messages included. What no row has (a reward, a price, a tool) is
null or an empty list, and its column is there all the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any, Self

from rolecraft.environments.row_files import library
from rolecraft.rollouts.batch.formats import whole_characters
from rolecraft.rollouts.batch.ledger import fast_json

ROWS_AT_ONCE = 256


@cache
def schema() -> Any:
    """The `pyarrow.Schema` of every file. Raises `MissingExtra`."""
    arrow = library("pyarrow", "pyarrow", "Writing Parquet")
    text, whole, number = arrow.string(), arrow.int64(), arrow.float64()
    call = arrow.struct(
        [
            ("id", text),
            ("type", text),
            ("function", arrow.struct([("name", text), ("arguments", text)])),
        ]
    )
    message = arrow.struct(
        [
            ("role", text),
            ("content", text),
            ("reasoning_content", text),
            ("tool_calls", arrow.list_(call)),
            ("tool_call_id", text),
            ("name", text),
        ]
    )
    count = arrow.struct([("tool", text), ("count", whole), ("success", whole), ("error", whole)])
    return arrow.schema(
        [
            ("id", text),
            ("row", text),
            ("occurrence", whole),
            ("sample", whole),
            ("prompt_index", whole),
            ("ended", text),
            ("completed", arrow.bool_()),
            ("partial", arrow.bool_()),
            ("api_calls", whole),
            ("turns", whole),
            ("turns_with_reasoning", whole),
            ("prompt_tokens", whole),
            ("completion_tokens", whole),
            ("usd", number),
            ("reward", number),
            ("signals", arrow.list_(arrow.struct([("name", text), ("value", number)]))),
            ("toolsets_used", arrow.list_(text)),
            ("tool_stats", arrow.list_(count)),
            ("conversation", whole),
            ("role", text),
            ("model", text),
            ("tools", text),
            ("messages", arrow.list_(message)),
        ]
    )


class ParquetRows:
    """A file that takes rows of the format `openai`; a context manager. Raises `MissingExtra`."""

    def __init__(self, path: Path) -> None:
        made = library("pyarrow.parquet", "pyarrow", "Writing Parquet")
        self._file = made.ParquetWriter(path, schema(), compression="zstd")
        self._rows: list[dict[str, Any]] = []

    def add(self, row: dict[str, Any]) -> None:
        self._rows.append(row)
        if len(self._rows) == ROWS_AT_ONCE:
            self._flush()

    def _flush(self) -> None:
        rows, self._rows = self._rows, []
        if not rows:
            return
        self._file.write_table(table_of(rows))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *more: object) -> None:
        try:
            if kind is None:
                self._flush()
        finally:
            self._file.close()


def table_of(rows: Sequence[dict[str, Any]]) -> Any:
    """The rows as a `pyarrow.Table`. Raises `MissingExtra`."""
    arrow = library("pyarrow", "pyarrow", "Writing Parquet")
    reader = library("pyarrow.json", "pyarrow", "Writing Parquet")
    lines = [fast_json(row) for row in rows]
    if None not in lines:
        text = b"\n".join(line for line in lines if line is not None)
        # Arrow reads JSON in a fraction of the time in which it takes objects over, for which it
        # also loads pandas, where that is installed: a third of a second.
        with suppress(arrow.ArrowInvalid, OverflowError):  # not finite, or too much for one block
            table = reader.read_json(
                BytesIO(text),
                read_options=reader.ReadOptions(use_threads=False, block_size=len(text) + 1),
                parse_options=reader.ParseOptions(
                    explicit_schema=schema(), unexpected_field_behavior="error"
                ),
            )
            if table.schema == schema() and len(table) == len(rows):
                return table
    return arrow.Table.from_pylist(_utf8(list(rows)), schema=schema())


def _utf8(value: Any) -> Any:
    """Without lone surrogates, which Arrow's texts cannot hold."""
    if isinstance(value, str):
        return whole_characters(value)
    if isinstance(value, dict):
        return {name: _utf8(each) for name, each in value.items()}
    return [_utf8(each) for each in value] if isinstance(value, list) else value
