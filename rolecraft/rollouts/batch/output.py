"""The training output of a run, written anew from its samples: in the order of the data set.

Invariant: every finished sample of the data set is either in each file of training output or, with
the reason, in `aside.jsonl`. Each file is written beside and then moved into its place, so that
none is ever half there.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Protocol

from rolecraft.errors import JournalError
from rolecraft.rollouts.batch import formats, parquet
from rolecraft.rollouts.batch.config import BatchConfig
from rolecraft.rollouts.batch.filters import reason_of, status_of
from rolecraft.rollouts.batch.folder import RunFolder
from rolecraft.rollouts.batch.identity import ItemId
from rolecraft.rollouts.batch.ledger import DISCARDED, OK, as_json, fast_json
from rolecraft.rollouts.batch.samples import Sample
from rolecraft.rollouts.batch.survey import Survey
from rolecraft.trajectories.append_file import sync_folder

FILES = {"sharegpt": "sharegpt.jsonl", "openai": "openai.jsonl", "parquet": "train.parquet"}
ASIDE = "aside.jsonl"
UNWRITABLE = DISCARDED + "unwritable"
Row = dict[str, Any]


@dataclass(slots=True)
class Output:
    """What was written."""

    samples: int = 0
    """In the training output."""
    rows: int = 0
    """Lines of each of its files: one for each conversation of a sample."""
    aside: Counter[str] = field(default_factory=Counter)
    """Left out, by status."""
    gone: int = 0
    """Samples of rows that are not in the data set any more; they are in no file but the run's."""
    files: list[Path] = field(default_factory=list)
    removed: list[Path] = field(default_factory=list)
    """Training output of an earlier call in formats that this one does not write."""


class Writer(Protocol):
    """Where rows go."""

    def add(self, row: Row) -> None: ...


def write_output(
    run: RunFolder,
    rows: Survey,
    config: BatchConfig,
    *,
    known_tools: Sequence[str] = (),
    all_rows: bool = False,
) -> Output:
    """Write the files of `config.formats` and `aside.jsonl`; those of other formats are removed.

    With `all_rows`, samples of rows that are not in the data set follow those that are. Raises
    `JournalError` where the disk refuses, `MissingExtra` for Parquet without its library.
    """
    done = Output()
    with ExitStack() as stack:
        writers: dict[str, Writer] = {}
        for form in config.formats:
            path = run.path / FILES[form]
            done.files.append(path)
            writers[form] = stack.enter_context(
                _parquet(path) if form == "parquet" else _jsonl(path)
            )
        aside = stack.enter_context(_jsonl(run.path / ASIDE))
        for at in _places(run, rows, config, all_rows, done):
            sample = run.samples.read(at)
            status, reason, made = _judge(sample, config, known_tools)
            if status != OK:
                done.aside[status] += 1
                aside.add({"status": status, "reason": reason, **sample.to_dict()})
                continue
            done.samples += 1
            done.rows += len(sample.conversations)
            for form, writer in writers.items():
                for row in made[_like(form)]:
                    writer.add(row)
    done.files.append(run.path / ASIDE)
    for form, name in FILES.items():
        # It would be of other samples than the rest of the folder.
        if form not in config.formats and (run.path / name).exists():
            (run.path / name).unlink()
            done.removed.append(run.path / name)
    return done


def _places(
    run: RunFolder, rows: Survey, config: BatchConfig, all_rows: bool, done: Output
) -> list[tuple[int, int]]:
    """Where the samples are, in the order of the data set."""
    found: list[tuple[int, int]] = []
    for row, occurrence in rows:
        for sample in range(config.samples):
            at = run.ledger.at(ItemId(row, occurrence, sample))
            if at is not None:
                found.append(at)
    here = set(found)
    others = [at for _, at in run.ledger.places() if at not in here]
    if all_rows:
        return found + others
    done.gone = len(others)
    return found


def _judge(
    sample: Sample, config: BatchConfig, known_tools: Sequence[str]
) -> tuple[str, str, dict[str, list[Row]]]:
    """Status under the switches of now, the reason, and the rows of each format if it is ok."""
    status = status_of(sample.entry, config)
    if status != OK:
        return status, reason_of(sample.entry.but(status=status)), {}
    try:
        wanted = {_like(form) for form in config.formats}
        about = formats.about_of(sample, known_tools)
        made = {form: list(formats.rows(sample, form, about=about)) for form in wanted}
    except formats.Unwritable as problem:
        return UNWRITABLE, str(problem), {}
    return OK, "", made


def _like(form: str) -> str:
    """The format whose rows a file of this one has."""
    return "openai" if form == "parquet" else form


# --- files ----------------------------------------------------------------------------------------


class _Lines:
    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def add(self, row: Row) -> None:
        line = fast_json(row)
        if line is None:
            # Arrow, and with it `datasets`, reads no JSON with half a character in it.
            line = formats.whole_characters(as_json(row)).encode()
        self._file.write(line + b"\n")


@contextmanager
def _jsonl(path: Path) -> Iterator[Writer]:
    with _beside(path) as beside, beside.open("wb") as file:
        yield _Lines(file)


@contextmanager
def _parquet(path: Path) -> Iterator[Writer]:
    with _beside(path) as beside, parquet.ParquetRows(beside) as rows:
        yield rows


@contextmanager
def _beside(path: Path) -> Iterator[Path]:
    """A file that takes the place of `path` when it is whole. Raises `JournalError`."""
    beside = path.with_name(f".{path.name}.new")
    try:
        yield beside
        os.replace(beside, path)
        sync_folder(path.parent)
    except OSError as error:
        said = error.strerror or error
        raise JournalError(
            path, f"cannot be written: {said}. The samples are safe: call it again."
        ) from error
    finally:
        beside.unlink(missing_ok=True)


def write_json(path: Path, record: dict[str, Any]) -> None:
    """A JSON file, whole or not at all. Raises `JournalError`."""
    text = json.dumps(record, ensure_ascii=False, indent=2) + "\n"
    with _beside(path) as beside:
        beside.write_bytes(text.encode("utf-8", "backslashreplace"))


def written_before(statistics: Path, config: BatchConfig, state: dict[str, Any]) -> Output | None:
    """What was written, if it was written for the same `state` and is all there."""
    try:
        known = json.loads(statistics.read_bytes())
        if known["written_for"] != state:
            return None
        output = Output(
            known["training_samples"],
            known["training_rows"],
            Counter(known["left_aside"]),
            known["samples_of_rows_gone"],
            [statistics.parent / name for name in (*(FILES[f] for f in config.formats), ASIDE)],
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return output if all(path.exists() for path in output.files) else None
