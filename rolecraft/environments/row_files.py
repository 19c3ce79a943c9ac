"""Rows of data sets on disk, one after the other, whatever is wrong with some of them.

    for row in read_rows("prompts.jsonl"):
        print(row.number, row.fields or row.problem)

A JSONL file (also `.jsonl.gz`), a Parquet file, a JSON list (or a table of rows by their names), or
a folder: one that `datasets` has saved, or that holds such files. Rows are read as they are wanted,
so that memory does not grow with their number; only JSON that is no JSONL is read whole. A row that
cannot be read is a row with a `problem`.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib
import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

from pydantic_core import from_json

from rolecraft.errors import MissingExtra, UsageError

SUFFIXES = (".jsonl", ".jsonl.gz", ".parquet", ".json")
SPLITS = ("train", "test", "validation", "valid", "dev", "eval")
"""What splits are commonly called, in the names of files and folders."""
MAX_ROW_BYTES = 64 * 2**20
_BLOCK = 2**20
_decode = json.JSONDecoder().decode
_ROWS_AT_ONCE = 256
"""Of a Parquet file."""


class Row(NamedTuple):
    """One row. `fields` is empty where there is a `problem`."""

    number: int
    """Its place in the data set, from 0."""
    fields: dict[str, Any]
    problem: str = ""
    """Why it cannot be read, as what follows "the row"."""
    raw: str = ""
    """SHA-256 of the bytes that cannot be read, in hexadecimal."""
    line: int = 0
    """On which line of its file it stands, from 1; 0 where rows are no lines."""

    @property
    def place(self) -> str:
        """Where it is, as people count: from 1."""
        return f"line {self.line}" if self.line else f"row {self.number + 1}"


def read_rows(
    path: str | Path, *, split: str | None = None, max_row_bytes: int = MAX_ROW_BYTES
) -> Iterator[Row]:
    """The rows of a file or folder, in order.

    `split` chooses among the splits of a folder; None takes `train` where there are several. A
    line longer than `max_row_bytes` is a row with a problem, and is not held in memory. Raises
    `UsageError` for what is no data set, `MissingExtra` for a format that needs a library.
    """
    path = Path(path)
    if not path.exists():
        raise UsageError(f"There is no data set `{path}`: name a file or a folder that exists.")
    if path.is_dir():
        found = _of_folder(path, split, max_row_bytes)
    else:
        found = _of_file(path, max_row_bytes)
    for number, (fields, problem, raw, line) in enumerate(found):
        yield Row(number, fields, problem, raw, line)


_Read = tuple[dict[str, Any], str, str, int]
"""Fields, problem, hash of what cannot be read, line."""


def _of_file(path: Path, max_row_bytes: int) -> Iterator[_Read]:
    name = path.name
    if name.endswith(".jsonl"):
        with path.open("rb") as lines:
            yield from _of_lines(lines, max_row_bytes)
    elif name.endswith(".jsonl.gz"):
        try:
            with gzip.open(path, "rb") as lines:
                yield from _of_lines(cast(IO[bytes], lines), max_row_bytes)
        except (gzip.BadGzipFile, EOFError) as error:
            raise UsageError(f"`{path}` is not compressed as its name says: {error}.") from error
    elif name.endswith(".parquet"):
        yield from _of_parquet(path)
    elif name.endswith(".json"):
        yield from _of_list(path)
    else:
        raise UsageError(
            f"`{path}` is no data set by its name: rows are read from {', '.join(SUFFIXES)} and "
            f"from folders of these."
        )


def _of_lines(lines: IO[bytes], max_row_bytes: int) -> Iterator[_Read]:
    number = 0
    while line := lines.readline(max_row_bytes + 1):
        number += 1
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        if len(line) > max_row_bytes and not line.endswith(b"\n"):
            yield (*_too_large(line, lines, max_row_bytes), number)
        elif line.strip():
            yield (*_parsed(line), number)


def _too_large(
    begun: bytes, lines: IO[bytes], max_row_bytes: int
) -> tuple[dict[str, Any], str, str]:
    """The rest of the line is read past, and only its hash is kept."""
    known, size = hashlib.sha256(begun), len(begun)
    while part := lines.readline(_BLOCK):
        known.update(part)
        size += len(part)
        if part.endswith(b"\n"):
            break
    return {}, f"has {size} bytes; {max_row_bytes} are allowed", known.hexdigest()


def _parsed(line: bytes) -> tuple[dict[str, Any], str, str]:
    try:
        fields = read_json(line)
    except UnicodeDecodeError:
        problem = "is no UTF-8 text"
    except json.JSONDecodeError as error:  # its own text counts lines within this one
        problem = f"is no JSON: {error.msg} at character {error.pos + 1}"
    except (ValueError, RecursionError) as error:
        problem = f"is no JSON: {error}"
    else:
        if isinstance(fields, dict):
            return fields, "", ""
        problem = f"is {type(fields).__name__}, not an object"
    return {}, problem, hashlib.sha256(line.strip()).hexdigest()


def read_json(text: bytes) -> Any:
    """What `json.loads` gives and raises, in a third of its time."""
    try:
        return from_json(text)
    except ValueError:  # of what it is stricter with, such as halves of characters
        return _decode(text.decode("utf-8"))


def _of_list(path: Path) -> Iterator[_Read]:
    try:
        rows = json.loads(path.read_bytes())
    except ValueError as error:
        raise UsageError(
            f"`{path}` is no JSON: {error}. One object a line is called .jsonl."
        ) from error
    if isinstance(rows, dict) and rows and all(isinstance(row, dict) for row in rows.values()):
        rows = list(rows.values())  # a table, from what each row is called
    if not isinstance(rows, list):
        raise UsageError(f"`{path}` holds {type(rows).__name__}, not a list of rows.")
    for row in rows:
        if isinstance(row, dict):
            yield row, "", "", 0
        else:
            text = json.dumps(row, sort_keys=True)
            raw = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
            yield {}, f"is {type(row).__name__}, not an object", raw, 0


def _of_parquet(path: Path) -> Iterator[_Read]:
    parquet = library("pyarrow.parquet", "pyarrow", f"Reading `{path}`")
    try:
        with closing(parquet.ParquetFile(path)) as file:
            for batch in file.iter_batches(batch_size=_ROWS_AT_ONCE):
                for row in batch.to_pylist():
                    yield row, "", "", 0
    except importlib.import_module("pyarrow").ArrowException as error:
        raise UsageError(f"`{path}` is no parquet file that can be read: {error}") from error


def _of_folder(path: Path, split: str | None, max_row_bytes: int) -> Iterator[_Read]:
    if (path / "dataset_dict.json").exists() or (path / "state.json").exists():
        for row in _saved(path, split):
            yield dict(row), "", "", 0
        return
    for file in files_of(path, split):
        yield from _of_file(file, max_row_bytes)


def _saved(path: Path, split: str | None) -> Any:
    datasets = library("datasets", "datasets", f"Reading `{path}`, which `datasets` has saved,")
    saved = datasets.load_from_disk(str(path))
    if not isinstance(saved, dict):
        return saved
    wanted = split or ("train" if "train" in saved or len(saved) > 1 else next(iter(saved)))
    if wanted not in saved:
        raise _no_split(path, wanted, list(saved))
    return saved[wanted]


def files_of(folder: Path, split: str | None = None) -> list[Path]:
    """The files of a folder that hold rows of `split`, by name.

    Raises `UsageError` if there are none.
    """
    for suffixes in (SUFFIXES[:3], SUFFIXES[3:]):  # `.json` beside the others describes them
        files = sorted(file for file in folder.rglob("*") if file.name.endswith(suffixes))
        if files:
            break
    else:
        raise UsageError(f"The folder `{folder}` holds no file of rows ({', '.join(SUFFIXES)}).")
    by_split: dict[str, list[Path]] = {}
    for file in files:
        by_split.setdefault(_split_of(file.relative_to(folder)), []).append(file)
    if split is None and len(by_split) == 1:
        return files
    wanted = split or "train"
    if wanted not in by_split:
        raise _no_split(folder, wanted, [name or "no split" for name in by_split])
    return by_split[wanted]


def _split_of(file: Path) -> str:
    """The split that a file's name or folder says: `data/train-00000-of-00002.parquet`."""
    for part in reversed(file.parts):
        word = part.replace("_", "-").replace(".", "-").partition("-")[0]
        if word in SPLITS:
            return word
    return ""


def _no_split(path: Path, wanted: str, there: list[str]) -> UsageError:
    return UsageError(
        f"`{path}` has no split {wanted!r}; it has {', '.join(map(repr, there))}. Name one."
    )


def library(module: str, package: str, what: str) -> Any:
    """A library of the extra `datasets`. Raises `MissingExtra`."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtra(package, "datasets", what) from error
