"""Instances of the published data sets, as they are published.

    loaded = load("swe-bench-verified.jsonl", places={"pallets/flask": Place(source="flask/")})
    for problem in loaded.refused:      # one `BadInstance` a bad row, with its row and field
        print(problem)

SWE-bench (Verified, Lite), SWE-Gym, SWE-bench-extra and SWE-smith are told apart by their columns.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rolecraft.environments.row_files import library, read_rows
from rolecraft.environments.software_engineering.instances import (
    BadInstance,
    Instance,
    Runner,
    SoftwareTasks,
)
from rolecraft.errors import UsageError

USED = frozenset(
    (
        "instance_id",
        "repo",
        "base_commit",
        "patch",
        "test_patch",
        "problem_statement",
        "hints_text",
        "version",
        "FAIL_TO_PASS",
        "PASS_TO_PASS",
        "image_name",
        "docker_image",
    )
)
"""The columns that are read; what else there is goes into `meta`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a repository is on this machine, in place of an image; see `Instance`."""

    source: str
    environment: str | None = None
    python_path: tuple[str, ...] = (".",)
    test_command: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    runner: Runner = "pytest"
    report: str = ""


@dataclass(frozen=True, slots=True)
class Loaded:
    """What came of the rows: each is in one of the two."""

    instances: tuple[Instance, ...] = ()
    refused: tuple[BadInstance, ...] = field(default=())


def load(path: str | Path, *, places: Mapping[str, Place] = {}) -> Loaded:
    """The instances of a file (`.jsonl`, `.json`, `.parquet`) or of a folder.

    A folder is a data set that `datasets` has saved, or holds files of these kinds. `places` are
    by repository (`owner/name`); an instance of any other is run in its image. Raises `UsageError`
    for what cannot be read at all, `MissingExtra` for a format that needs a library.
    """
    return of_rows(rows_in(Path(path)), places=places)


def load_tasks(path: str | Path, *, places: Mapping[str, Place] = {}) -> SoftwareTasks:
    """The instances of a file or folder as a source of tasks, as `rolecraft synth gather` writes
    them: a column `split` says which are for training and which for tests; where it is missing,
    the id does. Raises what `load` does, and `BadInstance` for the first row that is refused.
    """
    loaded = load(path, places=places)
    for problem in loaded.refused:
        raise problem
    splits = {each.id: each.meta["split"] for each in loaded.instances if "split" in each.meta}
    return SoftwareTasks(loaded.instances, splits=splits)


def of_rows(
    rows: Iterable[Mapping[str, Any] | BadInstance], *, places: Mapping[str, Place] = {}
) -> Loaded:
    """The instances of rows that are already here. A bad row is refused and the rest goes on."""
    instances: list[Instance] = []
    refused: list[BadInstance] = []
    seen: set[str] = set()
    for number, row in enumerate(rows):
        try:
            if isinstance(row, BadInstance):
                raise row
            instance = of_row(row, places=places)
            if instance.id in seen:
                raise BadInstance("instance_id", "was there before", instance=instance.id)
        except BadInstance as problem:
            refused.append(
                BadInstance(problem.field, problem.problem, row=number, instance=problem.instance)
            )
        else:
            seen.add(instance.id)
            instances.append(instance)
    return Loaded(tuple(instances), tuple(refused))


def of_row(row: Mapping[str, Any], *, places: Mapping[str, Place] = {}) -> Instance:
    """One row as an instance. Raises `BadInstance`, which names the row's own column."""
    if not isinstance(row, Mapping):
        raise BadInstance("row", f"is {type(row).__name__}, not an object")
    name = row.get("instance_id")
    if not isinstance(name, str) or not name:
        raise BadInstance("instance_id", "is missing" if name is None else f"is {name!r}")

    def text(column: str, *, needed: bool = False) -> str:
        value = row.get(column)
        if value is None and not needed:
            return ""
        if value is None or (needed and value == ""):
            raise BadInstance(column, "is missing" if value is None else "is empty", instance=name)
        if not isinstance(value, str):
            raise BadInstance(column, f"is {value!r}, not a text", instance=name)
        return value

    # SWE-smith's rows have an image, and neither a commit nor a patch of tests.
    smith = "base_commit" not in row and "image_name" in row
    repo = text("repo", needed=True)
    place = places.get(repo)
    columns: dict[str, Any] = {
        "id": name,
        "problem": text("problem_statement", needed=True),
        "fail_to_pass": _tests(row, "FAIL_TO_PASS", name),
        "pass_to_pass": _tests(row, "PASS_TO_PASS", name),
        "patch": text("patch", needed=True),
        "polarity": "bug" if smith else "fix",
        "test_patch": text("test_patch", needed=not smith),
        "repo": repo,
        "base_commit": None if smith else text("base_commit", needed=True),
        "hints": text("hints_text"),
        "version": text("version"),
        "dataset": _dataset(row),
        "meta": {key: value for key, value in row.items() if key not in USED},
    }
    if place is None:
        columns["image"] = _image(row, name)
    else:
        columns |= {
            "source": place.source,
            "environment": place.environment,
            "python_path": place.python_path,
            "test_command": place.test_command,
            "hidden": place.hidden,
            "runner": place.runner,
            "report": place.report,
        }
    try:
        return Instance(**columns)
    except BadInstance as problem:
        column = _COLUMNS.get(problem.field, problem.field)
        raise BadInstance(column, problem.problem, instance=name) from None


_COLUMNS = {
    "fail_to_pass": "FAIL_TO_PASS",
    "pass_to_pass": "PASS_TO_PASS",
    "problem": "problem_statement",
    "id": "instance_id",
}


def _tests(row: Mapping[str, Any], column: str, name: str) -> tuple[str, ...]:
    """A list of tests, or one that is written as JSON."""
    value = row.get(column)
    if value is None:
        raise BadInstance(column, "is missing", instance=name)
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError as error:
            raise BadInstance(column, f"is no list in JSON: {error}", instance=name) from None
    if hasattr(value, "tolist"):  # an array, as pandas gives a list
        value = value.tolist()
    if not isinstance(value, list | tuple) or not all(isinstance(each, str) for each in value):
        raise BadInstance(column, f"is {str(value)[:80]!r}, not a list of texts", instance=name)
    return tuple(dict.fromkeys(value))  # rows of SWE-bench-extra name some tests twice


def _dataset(row: Mapping[str, Any]) -> str:
    if "base_commit" not in row:
        return "swe-smith"
    if "meta" in row:
        return "swe-bench-extra"
    return "swe-bench" if "environment_setup_commit" in row else "swe-gym"


def _image(row: Mapping[str, Any], name: str) -> str:
    """The image that the data set's authors have published for a row."""
    for column in ("image_name", "docker_image"):
        value = row.get(column)
        if isinstance(value, str) and value:
            return value
    if _dataset(row) == "swe-gym":
        return f"xingyaoww/sweb.eval.x86_64.{name.lower().replace('__', '_s_')}"
    return f"swebench/sweb.eval.x86_64.{name.lower().replace('__', '_1776_')}"


def rows_in(path: Path) -> Iterator[Mapping[str, Any] | BadInstance]:
    """The rows of a file or folder; a line that is no JSON is a `BadInstance` in its place."""
    if not path.exists():
        raise UsageError(f"There are no instances at `{path}`: it does not exist.")
    if path.is_dir():
        yield from _rows_of_folder(path)
    else:
        for row in read_rows(path):
            yield BadInstance("row", row.problem) if row.problem else row.fields


def _rows_of_folder(path: Path) -> Iterator[Mapping[str, Any] | BadInstance]:
    if (path / "dataset_dict.json").exists() or (path / "state.json").exists():
        saved = library("datasets", "datasets", "A saved data set").load_from_disk(str(path))
        parts = saved.values() if (path / "dataset_dict.json").exists() else [saved]
        for part in parts:
            yield from part
        return
    files = sorted(
        file for file in path.rglob("*") if file.suffix in (".jsonl", ".json", ".parquet")
    )
    if not files:
        raise UsageError(f"The folder `{path}` holds no .jsonl, .json or .parquet file.")
    for file in files:
        yield from rows_in(file)
