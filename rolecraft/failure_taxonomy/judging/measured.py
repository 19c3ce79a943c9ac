"""A measured agreement between a judge and people, kept in a small JSON file.

A judge's labels are worth what they were measured to be worth, for this model, asked this way. The
file holds one object or a list of them, with the fields of `Measured` as keys; `Measured.of` makes
one of a comparison, `write_measured` adds it to a file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rolecraft.errors import UsageError

if TYPE_CHECKING:
    from rolecraft.failure_taxonomy.agreement import Agreement


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Agreement of one judge with people, over all modes that were compared.

    `model` and `variant` (`zero-shot`, `few-shot` or "" for either) say of which judge; `kappa` is
    Cohen's kappa in [-1, 1] over what both sides decide, all modes pooled, `interval` its
    bootstrap interval, `decided` the share of gold's cells that the judge decides, `traces` how
    many were compared, `labels` whose labels they had.
    """

    model: str
    kappa: float
    traces: int
    variant: str = ""
    sees_outcome: bool = False
    interval: tuple[float, float] | None = None
    decided: float | None = None
    labels: str = ""

    @classmethod
    def of(
        cls,
        comparison: Agreement,
        *,
        model: str,
        variant: str = "zero-shot",
        sees_outcome: bool = False,
    ) -> Measured:
        """What `agreement(gold, predicted)` found about the labels of such a judge.

        Raises `UsageError` if nothing could be compared.
        """
        pooled = comparison.micro
        kappa = pooled.score("kappa")
        if kappa is None:
            raise UsageError(
                f"Nothing was measured of {model!r}: over the {comparison.traces} traces that both "
                f"labelled, Cohen's kappa is not defined."
            )
        interval = pooled.intervals.get("kappa")
        return cls(
            model=model,
            kappa=kappa,
            traces=comparison.traces,
            variant=variant,
            sees_outcome=sees_outcome,
            interval=None if interval is None else (interval[0], interval[1]),
            decided=pooled.coverage,
            labels=comparison.gold,
        )

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
        over = "" if self.decided is None else f" over the {self.decided:.0%} that it decides"
        on = f", labels: {self.labels}" if self.labels else ""
        traces = "1 trace" if self.traces == 1 else f"{self.traces} traces"
        return f"Cohen's kappa {self.kappa:.2f}{between}{over}, on {traces}{on}"

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


def write_measured(measured: Measured, path: Path | str) -> Path:
    """Add an agreement to a file, in the place of an older one of the same judge; the path."""
    path = Path(path)
    rows = read_measured(path) if path.exists() else []
    judge = (measured.model, measured.variant, measured.sees_outcome)
    kept = [row for row in rows if (row.model, row.variant, row.sees_outcome) != judge]
    document = [row.to_dict() for row in (*kept, measured)]
    path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


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
    decided: Any = row.get("decided")
    return Measured(
        model=model,
        kappa=float(kappa),
        traces=traces,
        variant=str(row.get("variant") or ""),
        sees_outcome=row.get("sees_outcome") is True,
        interval=None if between is None else (float(between[0]), float(between[1])),
        decided=float(decided) if _number(decided) else None,
        labels=str(row.get("labels") or ""),
    )


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
