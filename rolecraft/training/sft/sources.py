"""What `--data` names, as single files: journals, files of rows, folders that `datasets` saved."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rolecraft.environments.row_files import SUFFIXES, files_of
from rolecraft.errors import TraceError, UsageError
from rolecraft.rollouts.batch.folder import LEDGER, SAMPLES
from rolecraft.rollouts.batch.output import FILES
from rolecraft.training.hub import is_local
from rolecraft.trajectories.findings import findings_path
from rolecraft.trajectories.jsonl import trace_files

Fetch = Callable[[str], Path]
RESULTS = "results.jsonl"
"""Of `rolecraft rollout` and `evaluate`, with the rewards of their journals."""
_BLOCK = 2**20


@dataclass(frozen=True, slots=True)
class Source:
    """One file, or one folder that `datasets` has saved."""

    path: Path
    kind: Literal["rows", "journal", "saved"]
    split: str | None = None
    reward: float | None = None
    """Of a journal, where a file of results beside it says."""

    def digest(self) -> str:
        """SHA-256 over all bytes that make its samples, in hexadecimal."""
        known = hashlib.sha256(f"{self.kind} {self.split} {self.reward}".encode())
        files = [self.path]
        if self.kind == "saved":
            files = sorted(file for file in self.path.rglob("*") if file.is_file())
        elif self.kind == "journal" and findings_path(self.path).exists():
            files.append(findings_path(self.path))
        for file in files:
            with file.open("rb") as opened:
                inner = hashlib.file_digest(opened, "sha256")
            known.update(inner.digest())
        return known.hexdigest()


def sources_of(
    data: Sequence[str | Path], *, split: str | None = None, fetch: Fetch | None = None
) -> list[Source]:
    """The files that `data` names, each once, in order.

    An entry is a file, a folder, a store of trajectories, or the name of a data set on the hub,
    for which `fetch` is asked. Raises `UsageError` for what is none of these.
    """
    found: dict[Path, Source] = {}
    for each in data:
        for source in _sources(each, split, fetch):
            found.setdefault(source.path.resolve(), source)
    if not found:
        raise UsageError("There is no data: name files, folders or data sets.")
    return list(found.values())


def not_read(data: Sequence[str | Path], sources: Sequence[Source]) -> dict[Path, list[Path]]:
    """By folder, the files of rows that lie beside journals, so that they are none of `sources`.

    What `rolecraft rollout` writes beside its journals is not among them.
    """
    read = {source.path.resolve() for source in sources}
    journals = [source.path for source in sources if source.kind == "journal"]
    found: dict[Path, list[Path]] = {}
    for folder in (Path(each) for each in data if Path(each).is_dir()):
        if any(journal.is_relative_to(folder) for journal in journals):
            # `.json` beside the others describes them.
            others = [f for f in trace_files(folder, suffixes=SUFFIXES[:3]) if f.name != RESULTS]
            if left := [file for file in others if file.resolve() not in read]:
                found[folder] = left
    return found


def _sources(data: str | Path, split: str | None, fetch: Fetch | None) -> Iterator[Source]:
    if isinstance(data, str) and "://" in data:
        yield from _of_store(data)
        return
    path = Path(data)
    if not path.exists():
        if fetch is None or is_local(data):
            raise UsageError(
                f"There is no data `{data}`: name a file ({', '.join(SUFFIXES)}), a folder, or a "
                f"data set of the Hugging Face hub (`OWNER/NAME`)."
            )
        path = fetch(str(data))
    if path.is_dir():
        yield from _of_folder(path, split)
    elif _is_sqlite(path):
        yield from _of_store(path)
    elif is_journal(path):
        yield from _journals([path], _around(path))
    else:
        yield Source(path, "rows")


def _of_folder(folder: Path, split: str | None) -> Iterator[Source]:
    if (folder / "dataset_dict.json").exists() or (folder / "state.json").exists():
        yield Source(folder, "saved", split)
        return
    if (folder / LEDGER).exists() and (folder / SAMPLES).exists():
        yield Source(_of_batch(folder), "rows")
        return
    journals: list[Path] = []
    with suppress(TraceError):  # there is no such file at all
        journals = [file for file in trace_files(folder) if is_journal(file)]
    if journals:
        results = [file.parent for file in folder.rglob(RESULTS)]
        yield from _journals(journals, [*results, folder.parent])
        return
    for file in files_of(folder, split):
        yield Source(file, "rows")


def _of_batch(folder: Path) -> Path:
    """Of the training output of `rolecraft batch`, which says the same in each of its files."""
    for form in ("openai", "parquet", "sharegpt"):
        if (folder / FILES[form]).exists():
            return folder / FILES[form]
    raise UsageError(
        f"`{folder}` is a folder of `rolecraft batch` without training output. Run it to its end, "
        f"with `--format openai`."
    )


def _of_store(where: str | Path) -> Iterator[Source]:
    from rolecraft.trajectories.store import Store  # SQLAlchemy takes a while to load

    with Store(where) as store:
        journals = [Path(run.path) for run in store.trajectories()]
    if gone := next((path for path in journals if not path.exists()), None):
        raise UsageError(
            f"The store `{where}` lists `{gone}`, which is gone. Index its folder again."
        )
    for journal in journals:
        yield from _journals([journal], _around(journal))


def _is_sqlite(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(16).startswith(b"SQLite format 3")


def is_journal(path: Path) -> bool:
    """Whether a file begins as a journal does."""
    if not path.name.endswith(".jsonl"):
        return False
    with path.open("rb") as file, suppress(ValueError):
        first = json.loads(file.readline(_BLOCK).removeprefix(b"\xef\xbb\xbf"))
        return isinstance(first, dict) and "schema_version" in first
    return False


def _around(journal: Path) -> Sequence[Path]:
    """The folders that may hold the results of a journal: `DIR/runs/TASK/r1.jsonl` has `DIR`."""
    return journal.resolve().parents[:4]


def _journals(journals: Sequence[Path], homes: Sequence[Path]) -> Iterator[Source]:
    rewards: dict[Path, float] = {}
    for home in homes:
        if (home / RESULTS).is_file():
            rewards |= _rewards(home)
    for journal in journals:
        yield Source(journal, "journal", reward=rewards.get(journal.resolve()))


def _rewards(home: Path) -> dict[Path, float]:
    """The rewards in a file of results, by journal; lines that say none are passed over."""
    found: dict[Path, float] = {}
    with (home / RESULTS).open("rb") as lines:
        for line in lines:
            with suppress(ValueError, TypeError, KeyError):  # torn, or of another kind of result
                row = json.loads(line)
                found[(home / row["journal"]).resolve()] = float(row["reward"])
    return found
