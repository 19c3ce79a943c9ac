"""Data sets as their authors publish them: rows of a file or folder, or of the hub.

What is a path that exists, or ends like a file, is read by `read_rows`; anything else is the name
of a data set on the Hugging Face hub, read through the `datasets` library, which is imported then
and not before.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rolecraft.environments.row_files import SUFFIXES, library, read_rows
from rolecraft.environments.task import Task
from rolecraft.errors import UsageError


class DatasetError(UsageError):
    """A data set is not in the form in which it was published, or the hub does not give it."""


def read(source: str | Path, *, split: str) -> list[dict[str, Any]]:
    """The rows of a file, or of a split of a folder or of a data set on the hub.

    Raises `DatasetError` for a row that cannot be read and where there is none, and what
    `read_rows` raises.
    """
    name, path = str(source), Path(source)
    if not path.exists() and not name.endswith(SUFFIXES):
        return _from_hub(name, split)
    rows = []
    for row in read_rows(path, split=split if path.is_dir() else None):
        if row.problem:
            raise DatasetError(f"{row.place.capitalize()} of `{name}` {row.problem}.")
        rows.append(row.fields)
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


def _from_hub(name: str, split: str) -> list[dict[str, Any]]:
    what = f"`{name}` is no file here; reading it from the hub"
    datasets = library("datasets", "datasets", what)
    try:
        return [dict(row) for row in datasets.load_dataset(name, split=split)]
    except Exception as error:  # the library raises what it likes
        raise DatasetError(
            f"The split {split!r} of {name!r} could not be had from the Hugging Face hub: {error}"
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
