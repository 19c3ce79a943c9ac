"""What pays besides the task, over all runs that a reward was examined on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rolecraft.cli._output import Output

if TYPE_CHECKING:
    from rolecraft.rewards import SafetyReport

HEAD = ("manipulation", "runs it pays in", "of", "most it raises", "in run")


def tell_safety(examined: Sequence[tuple[str, SafetyReport]], output: Output) -> None:
    """One table for all runs, a row for each manipulation that pays; that which pays most first."""
    if rows := safety_rows(examined):
        output.table("What else the reward pays for", HEAD, rows, numeric=1, whole=1)


def safety_rows(examined: Sequence[tuple[str, SafetyReport]]) -> list[list[str]]:
    """Of each manipulation that pays: in how many runs, of how many, how much, and where most.

    `examined` is what a run is called and its report, for each run; several may be called the same.
    First what raises the reward most, then by name.
    """
    runs: dict[str, int] = {}
    raises: dict[str, list[tuple[float, str]]] = {}
    for where, report in examined:
        for name in {each.manipulation for each in report.tried}:
            runs[name] = runs.get(name, 0) + 1
        most: dict[str, float] = {}
        for each in report.raised:
            assert each.after is not None
            most[each.manipulation] = max(
                most.get(each.manipulation, 0.0), each.after - each.before
            )
        for name, paid in most.items():
            raises.setdefault(name, []).append((paid, where))
    worst = {name: max(paid, key=lambda each: each[0]) for name, paid in raises.items()}
    return [
        [name, str(len(raises[name])), str(runs[name]), f"+{paid:.3g}", where]
        for name, (paid, where) in sorted(worst.items(), key=lambda each: (-each[1][0], each[0]))
    ]
