"""A measured agreement between a judge and people, kept in a small JSON file.

A judge's labels are worth what they were measured to be worth, for this model, asked this way. The
file holds one object or a list of them; see `Measured` for the keys. It is written by hand or by a
program from what `rolecraft agreement` prints.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rolecraft.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Agreement of one judge with people, over all modes that were compared.

    `model` and `variant` (`zero-shot`, `few-shot` or "" for either) say of which judge; `kappa` is
    Cohen's kappa in [-1, 1], `interval` its bootstrap interval, `traces` how many were compared,
    `labels` whose labels they had.
    """

    model: str
    kappa: float
    traces: int
    variant: str = ""
    sees_outcome: bool = False
    interval: tuple[float, float] | None = None
    labels: str = ""

    def __post_init__(self) -> None:
        if not -1 <= self.kappa <= 1 or self.traces < 1:
            raise UsageError(
                f"A measured agreement has a `kappa` from -1 to 1 over at least one trace, got "
                f"`kappa={self.kappa!r}`, `traces={self.traces!r}`."
            )

    def is_of(self, model: str, variant: str, *, sees_outcome: bool) -> bool:
        """True if this was measured of such a judge."""
        return (
            self.model == model
            and self.variant in ("", variant)
            and self.sees_outcome == sees_outcome
        )

    def __str__(self) -> str:
        between = f" [{self.interval[0]:.2f}, {self.interval[1]:.2f}]" if self.interval else ""
        on = f" with {self.labels}" if self.labels else ""
        traces = "1 trace" if self.traces == 1 else f"{self.traces} traces"
        return f"Cohen's kappa {self.kappa:.2f}{between} on {traces}{on}"

    def to_dict(self) -> dict[str, Any]:
        """As in a file."""
        return asdict(self)


def read_measured(path: Path | str) -> list[Measured]:
    """The agreements in a file. Raises `UsageError` with what is wrong with it."""
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise UsageError(f"`{path}` cannot be read: {error.strerror or error}.") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"`{path}` is not JSON: {error}.") from None
    rows = document if isinstance(document, list) else [document]
    return [_measured(row, path) for row in rows]


def _measured(row: Any, path: Path | str) -> Measured:
    what = f"`{path}` does not hold a measured agreement"
    if not isinstance(row, Mapping):
        raise UsageError(f"{what}: {row!r} is no object.")
    model, traces, between = row.get("model"), row.get("traces"), row.get("interval")
    kappa: Any = row.get("kappa")
    if not (isinstance(model, str) and model and _number(kappa) and isinstance(traces, int)):
        raise UsageError(
            f"{what}: it wants `model` (a name), `kappa` (a number) and `traces` (how many), got "
            f"{dict(row)!r}."
        )
    if between is not None and not (
        isinstance(between, list) and len(between) == 2 and all(map(_number, between))
    ):
        raise UsageError(f"{what}: `interval` is a list of two numbers, not {between!r}.")
    return Measured(
        model=model,
        kappa=float(kappa),
        traces=traces,
        variant=str(row.get("variant") or ""),
        sees_outcome=row.get("sees_outcome") is True,
        interval=None if between is None else (float(between[0]), float(between[1])),
        labels=str(row.get("labels") or ""),
    )


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
