"""What pays besides the task, over all runs that a reward was examined on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rolecraft.cli._output import Output

if TYPE_CHECKING:
    from rolecraft.rewards import SafetyReport

HEAD = ("manipulation", "runs it pays in", "of", "most it raises", "in run")


def tell_safety(report: SafetyReport, output: Output) -> None:
    """One table for all runs, a row for each manipulation that pays; that which pays most first."""
    if report.raised:
        output.table("What else the reward pays for", HEAD, safety_rows(report), numeric=1, whole=1)


def safety_rows(report: SafetyReport) -> list[list[str]]:
    """Of each manipulation that pays: in how many runs, of how many, how much, and where most.

    First what raises the reward most, then by name.
    """
    runs: dict[str, dict[str, None]] = {}
    raises: dict[str, dict[str, float]] = {}
    for each in report.tried:
        runs.setdefault(each.manipulation, {})[each.run] = None
        paid = raises.setdefault(each.manipulation, {})
        if each.raised and each.after is not None:
            paid[each.run] = max(paid.get(each.run, 0.0), each.after - each.before)
    pays = [name for name, paid in raises.items() if paid]
    worst = sorted(pays, key=lambda name: (-max(raises[name].values()), name))
    rows = []
    for name in worst:
        paid = raises[name]
        where = max(paid, key=lambda run: paid[run])
        rows.append([name, str(len(paid)), str(len(runs[name])), f"+{paid[where]:.3g}", where])
    return rows
