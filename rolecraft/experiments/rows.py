"""Data sets as their authors publish them: rows of a JSON, JSONL or parquet file, or of the hub.

What is a path that exists, or ends like a file, is a file; anything else is the name of a data set
on the Hugging Face hub, read through the `datasets` library, which is imported then and not before.
"""

from __future__ import annotations

import gzip
import importlib
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rolecraft.environments.task import Task
from rolecraft.errors import RolecraftError, UsageError

ENDINGS = (".json", ".jsonl", ".json.gz", ".jsonl.gz", ".parquet")


class DatasetError(RolecraftError):
    """A data set cannot be read, or is not in the form in which it was published."""


def read(source: str | Path, *, split: str) -> list[dict[str, Any]]:
    """The rows of a file, or of a split of a data set on the hub.

    A JSON file holds a list of rows, one row a line, or one table whose values are the rows.
    Raises `DatasetError`.
    """
    name = str(source)
    if Path(source).is_dir():
        raise DatasetError(f"`{name}` is a folder: name one file of it.")
    if not Path(source).is_file() and not name.endswith(ENDINGS):
        return _from_hub(name, split)
    try:
        rows = _from_parquet(name) if name.endswith(".parquet") else _from_json(Path(source))
    except OSError as error:
        raise DatasetError(f"`{name}` cannot be read: {error.strerror or error}.") from None
    if not rows:
        raise DatasetError(f"`{name}` has no rows.")
    return rows


def field(row: Mapping[str, Any], name: str, source: str | Path, number: int) -> str:
    """A text in a row. Raises `DatasetError` that names file, row (from 1) and field."""
    value = row.get(name)
    if not isinstance(value, str):
        there = ", ".join(f"`{key}`" for key in row) or "none"
        what = f"has no `{name}`; its fields are {there}" if value is None else f"has {value!r} as"
        raise DatasetError(
            f"Row {number} of `{source}` {what}{'' if value is None else f' `{name}`, not a text'}."
        )
    return value


def _from_json(path: Path) -> list[dict[str, Any]]:
    raw = path.read_bytes()
    if path.name.endswith(".gz"):
        try:
            raw = gzip.decompress(raw)
        except (OSError, EOFError) as error:
            raise DatasetError(f"`{path}` is not compressed as its name says: {error}.") from None
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DatasetError(f"`{path}` is no UTF-8 text: {error}.") from None
    try:
        whole = json.loads(text)
    except ValueError:
        return list(_lines(text, path))
    if isinstance(whole, dict):
        if whole and all(isinstance(value, dict) for value in whole.values()):
            return list(whole.values())
        return [whole]
    return list(_rows(whole, path))


def _lines(text: str, path: Path) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise DatasetError(f"Line {number} of `{path}` is no JSON: {error}.") from None
        yield from _rows([row], path, first=number)


def _rows(listed: object, path: Path, *, first: int = 1) -> Iterator[dict[str, Any]]:
    if not isinstance(listed, list):
        raise DatasetError(f"`{path}` holds {type(listed).__name__}, not rows.")
    for number, row in enumerate(listed, first):
        if not isinstance(row, dict):
            raise DatasetError(f"Row {number} of `{path}` is no object: {row!r}.")
        yield row


def _from_parquet(name: str) -> list[dict[str, Any]]:
    table = _library("pyarrow.parquet", "pyarrow", f"Reading `{name}`")
    if not Path(name).is_file():
        raise DatasetError(f"`{name}` cannot be read: there is no such file.")
    try:
        rows: list[dict[str, Any]] = table.read_table(name).to_pylist()
    except Exception as error:
        raise DatasetError(f"`{name}` is no parquet file that can be read: {error}.") from error
    return rows


def _from_hub(name: str, split: str) -> list[dict[str, Any]]:
    datasets = _library(
        "datasets", "datasets", f"`{name}` is no file here; reading it from the hub"
    )
    try:
        return [dict(row) for row in datasets.load_dataset(name, split=split)]
    except Exception as error:  # the library raises what it likes
        raise DatasetError(
            f"The split {split!r} of {name!r} could not be had from the Hugging Face hub: {error}"
        ) from error


def _library(module: str, package: str, purpose: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise DatasetError(
            f"{purpose} needs the package `{package}`. Install it with: pip install {package}; "
            f"or download the data set as JSON and name that file."
        ) from error


def drawn(tasks: Sequence[Task], count: int | None, seed: int) -> list[Task]:
    """`count` of the tasks, drawn by `seed` and in their order; all of them for None.

    Of two counts the larger has all tasks of the smaller, so that an experiment can be widened.
    Raises `UsageError` for more than there are, and for fewer than one.
    """
    if count is None:
        return list(tasks)
    if not 1 <= count <= len(tasks):
        raise UsageError(f"{count} tasks are to be drawn, and there are {len(tasks)}.")
    places = list(range(len(tasks)))
    random.Random(f"tasks/{seed}").shuffle(places)
    return [tasks[place] for place in sorted(places[:count])]
