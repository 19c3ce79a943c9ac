"""The rows of tasks as files: JSONL, and Parquet where its library is installed."""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import fields
from pathlib import Path
from typing import Any, Self

from rolecraft.environments.row_files import library
from rolecraft.errors import MissingExtra
from rolecraft.synthesis.gathering.rows import TaskRow

ROWS = "tasks.jsonl"
PARQUET = "tasks.parquet"
_AT_ONCE = 256


class RowFiles:
    """Both files in a folder, open to add rows to; a context manager. Few rows are in memory."""

    def __init__(self, folder: Path) -> None:
        self.remarks: list[str] = []
        """Why there is no Parquet file, if there is none."""
        self._held: list[dict[str, Any]] = []
        self._open = ExitStack()
        self._lines = self._open.enter_context((folder / ROWS).open("w", encoding="utf-8"))
        try:
            parquet = library("pyarrow.parquet", "pyarrow", f"Writing `{PARQUET}`")
        except MissingExtra as error:
            self.remarks.append(f"There is no `{PARQUET}`. {error}")
            return
        self._arrow = library("pyarrow", "pyarrow", f"Writing `{PARQUET}`")
        self._schema = _schema(self._arrow)
        self._writer = self._open.enter_context(
            parquet.ParquetWriter(str(folder / PARQUET), self._schema)
        )

    def add(self, row: TaskRow) -> None:
        record = {name: _written(value) for name, value in row.record().items()}
        self._lines.write(json.dumps(record, ensure_ascii=False) + "\n")
        self._held.append(record)
        if len(self._held) >= _AT_ONCE:
            self._write_held()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        with self._open:
            if kind is None:
                self._write_held()

    def _write_held(self) -> None:
        held, self._held = self._held, []
        if held and not self.remarks:
            table = self._arrow.Table.from_pylist(held, schema=self._schema)
            self._writer.write_table(table)


def _written(value: Any) -> Any:
    """As both files can hold it: half of a character is written as Python shows it, `\\udcff`,
    which in the lists of tests is JSON's own escape.
    """
    if isinstance(value, list):
        return [_written(each) for each in value]
    if not isinstance(value, str):
        return value
    return value.encode("utf-8", "backslashreplace").decode("utf-8")


def _schema(arrow: Any) -> Any:
    kinds = {
        "str": arrow.string(),
        "Split": arrow.string(),
        "int": arrow.int64(),
        "float | None": arrow.float64(),
        "list[str]": arrow.list_(arrow.string()),
    }
    return arrow.schema([(each.name, kinds[str(each.type)]) for each in fields(TaskRow)])
