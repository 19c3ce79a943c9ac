"""The folder of a run: what is in it, and whether a call may go on with it.

ledger.jsonl      what became of each item: the truth, see `ledger`
samples.jsonl     the finished samples: the truth, see `samples`
statistics.json   made from them, as are the files of training output and `aside.jsonl`
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from rolecraft.errors import UsageError
from rolecraft.rollouts.batch.config import BatchConfig
from rolecraft.rollouts.batch.identity import DIGEST_BYTES
from rolecraft.rollouts.batch.ledger import Entry, Ledger
from rolecraft.rollouts.batch.samples import Sample, Samples
from rolecraft.rollouts.batch.survey import Survey

LEDGER, SAMPLES = "ledger.jsonl", "samples.jsonl"
BEFORE = "before-{}"
"""Where `new` puts the run that was in the folder."""
MOVING = "before.moving"
"""The same while it is being put there."""


class RunFolder:
    """The open folder of a run, locked for this process; a context manager.

    `on_entry` hears of every entry of the ledger, see `Ledger`. Raises `UsageError` if the folder
    holds a run with other settings, unless it is put away (`new`) or the two may be `mixed`;
    `JournalError` if another process writes there or the disk refuses.
    """

    def __init__(
        self,
        folder: str | Path,
        config: BatchConfig,
        *,
        new: bool = False,
        mixed: bool = False,
        on_entry: Callable[[Entry, str], None] | None = None,
    ) -> None:
        self.path = Path(folder)
        if self.path.exists() and not self.path.is_dir():
            raise UsageError(f"`{folder}` is a file; a run is written to a folder.")
        self.path.mkdir(parents=True, exist_ok=True)
        if new or (self.path / MOVING).exists():
            put_away(self.path)
        self._on_entry = on_entry
        self._ends = 0
        """Where the last sample ends that the ledger names."""
        self.ledger = Ledger(self.path / LEDGER, fsync=config.fsync, on_entry=self._hear)
        try:
            self._check(config, mixed)
            self.samples = Samples(self.path / SAMPLES, fsync=config.fsync)
        except BaseException:
            self.ledger.close()
            raise
        try:
            if not self.ledger.configs or self.ledger.configs[-1] != config.to_dict():
                self.ledger.add_config(config.to_dict())
            self._find_again()
        except BaseException:
            self.close()
            raise

    def _find_again(self) -> None:
        """Enter the finished samples that the ledger does not name: those behind the last one that
        it does; and where it has a line that cannot be read, any."""
        ledger = self.ledger
        known = {at[0] for _, at in ledger.places()} if ledger.repairs.broken else set()
        for entry in self.samples.behind(0 if known else self._ends, known):
            named, found = ledger.at(entry.item), entry.at
            assert found is not None
            if named is None or named < found:  # else another one has taken its place
                ledger.repairs.found_again += 1
                ledger.append(entry)

    def _hear(self, entry: Entry, before: str) -> None:
        if entry.at is not None:
            self._ends = max(self._ends, sum(entry.at))
        if self._on_entry is not None:
            self._on_entry(entry, before)

    def _check(self, config: BatchConfig, mixed: bool) -> None:
        if mixed or not self.ledger.configs:
            return
        before, now = self.ledger.configs[-1], config.identity
        other = {name: value for name, value in now.items() if before.get(name) != value}
        if other:
            said = "; ".join(
                f"`{name}` was {before.get(name)!r} and is {value!r}"
                for name, value in other.items()
            )
            raise UsageError(
                f"`{self.path}` holds a run with other settings: {said[:1000]}. {_WAYS_OUT}"
            )

    def check_dataset(self, rows: Survey, *, mixed: bool = False) -> None:
        """Raise `UsageError` if the run is of another data set: not half of its rows are here."""
        ran = self.ledger.rows()
        if mixed or not ran:
            return
        shared = len(ran.intersection(key[:DIGEST_BYTES] for key in rows.keys()))  # noqa: SIM118
        if 2 * shared < len(ran):
            raise UsageError(
                f"`{self.path}` holds a run of another data set: of the {len(ran)} rows that it "
                f"has run, {shared} are in this one. {_WAYS_OUT}"
            )

    def finish(self, sample: Sample) -> Entry:
        """Write a sample and then its entry."""
        entry = self.samples.append(sample)
        self.ledger.append(entry)
        return entry

    def close(self) -> None:
        self.samples.close()
        self.ledger.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


_WAYS_OUT = (
    "Write to another folder; or put that run away and begin a new one (`new=True`, `--new`); or "
    "let both be in one run (`allow_mixed=True`, `--allow-mixed`)."
)


def put_away(folder: Path) -> Path | None:
    """Move what is in a run's folder into a folder in it; that one, or None if there was nothing.

    Nothing that was paid for is deleted. If this is cut off, the next call does the rest: else the
    samples of the old run would be found by the new one.
    """
    moving, ledger = folder / MOVING, folder / LEDGER
    there = [
        each
        for each in folder.iterdir()
        if each.name != MOVING and not re.fullmatch(BEFORE.format(r"\d+"), each.name)
    ]
    if not there and not moving.exists():
        return None
    number = 1
    while (away := folder / BEFORE.format(number)).exists():
        number += 1
    with Ledger(ledger):  # refused while another process writes it
        moving.mkdir(exist_ok=True)
        for each in there:
            if each != ledger and each.exists():
                each.rename(moving / each.name)
        if (moving / LEDGER).exists():
            ledger.unlink()  # it was moved before, and this one was only made for its lock
        else:
            ledger.rename(moving / LEDGER)
        moving.rename(away)
    return away
