"""Token sequences as an Arrow file, which `datasets` maps into memory as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rolecraft.environments.row_files import library
from rolecraft.training.sft.encoding import Tokens

_ROWS_AT_ONCE = 1000
"""So many sequences are held in memory."""


class ArrowFile:
    """A file of sequences, as `datasets` reads it; a context manager."""

    def __init__(self, path: Path) -> None:
        self._arrow = library("pyarrow", "datasets", "Fine-tuning")
        numbers = self._arrow.list_(self._arrow.int32())
        self._schema = self._arrow.schema([("input_ids", numbers), ("labels", numbers)])
        self._path = path
        self._waiting: list[Tokens] = []

    def __enter__(self) -> ArrowFile:
        self._file = self._path.open("wb")
        self._writer = self._arrow.ipc.new_stream(self._file, self._schema)
        return self

    def __exit__(self, kind: Any, *error: object) -> None:
        try:
            if kind is None:
                self._write()
                self._writer.close()
        finally:
            self._file.close()

    def add(self, sequences: list[Tokens]) -> None:
        self._waiting += sequences
        if len(self._waiting) >= _ROWS_AT_ONCE:
            self._write()

    def _write(self) -> None:
        columns = [
            self._arrow.array([each.ids for each in self._waiting], self._schema.field(0).type),
            self._arrow.array([each.labels for each in self._waiting], self._schema.field(1).type),
        ]
        if self._waiting:
            self._writer.write_batch(self._arrow.record_batch(columns, schema=self._schema))
        self._waiting = []
