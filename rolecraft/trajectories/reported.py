"""Signals beside the journal: `run.jsonl` has what was reported later in `run.signals.jsonl`.

A run has consequences after its end: a person finds that the program works, or that it deleted
their files. A journal never changes afterwards, so such a signal is appended to a file next to it,
one a line, and `load` puts them together. Who says it is the signal's source: `person:ann`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rolecraft.errors import UsageError
from rolecraft.trajectories.append_file import append_lines, decoded_lines
from rolecraft.trajectories.codec import decode_signal, encode_signal
from rolecraft.trajectories.events import Signal

SIGNALS_SUFFIX = ".signals.jsonl"
REWARDS_SUFFIX = ".rewards.jsonl"
"""Of the file of rewards that a run was given later; see `rolecraft.rewards.stored`."""


def signals_path(journal: Path | str) -> Path:
    """Where the signals are kept that were reported after a run."""
    journal = Path(journal)
    return journal.with_name(journal.name.removesuffix(".jsonl") + SIGNALS_SUFFIX)


def append_signals(journal: Path | str, signals: Iterable[Signal]) -> Path:
    """Add signals to a stored run; returns the path of their file. The journal is not touched.

    Waits while another process does the same. Raises `UsageError` if there is no such journal, or
    for a signal that says it was measured by the environment: that is the journal's to say.
    """
    if not Path(journal).is_file():
        raise UsageError(f"There is no journal {str(journal)!r} to add signals to.")
    given = list(signals)
    for signal in given:
        if signal.source == "environment":
            raise UsageError(
                f"Signal {signal.name!r} was reported after the run: say by whom, for example "
                f"`Signal({signal.name!r}, {signal.value!r}, source='person:ann')`."
            )
    path = signals_path(journal)
    append_lines(path, b"".join(map(encode_signal, given)))
    return path


def load_signals(journal: Path | str, *, problems: list[str] | None = None) -> list[Signal]:
    """The signals that were reported after a run, oldest first; none if nobody reported any.

    Lines that cannot be read are added to `problems`: file, line number, reason.
    """
    return decoded_lines(signals_path(journal), decode_signal, problems)
