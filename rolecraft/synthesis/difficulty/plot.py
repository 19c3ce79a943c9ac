"""The figures of a folder as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rolecraft.errors import MissingExtra, UsageError
from rolecraft.synthesis.difficulty.statistics import BINS, Statistics

_VALID, _OTHER, _QUIET = "#2a6fbb", "#d1603d", "#bbbbbb"
_MODIFIERS = 25
"""So many are shown, those with most candidates."""
_MOST_TESTS = 20
"""Candidates with more failing tests than this are in one bar."""
_KINDS = (".svg", ".png", ".pdf")


def draw(found: Statistics, path: Path) -> None:
    """What became of candidates, by status and modifier; their failing tests; the pass rates.

    Raises `UsageError` for a file of another kind than `.svg`, `.png` and `.pdf`, and
    `MissingExtra` without matplotlib.
    """
    if path.suffix not in _KINDS:
        raise UsageError(f"`{path}` is no picture by its name: end it with {', '.join(_KINDS)}.")
    try:
        from matplotlib import rc_context
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtra("matplotlib", "train", "Drawing statistics") from error

    figure: Any = Figure(figsize=(11, 8), layout="constrained")
    FigureCanvasAgg(figure)
    (status, failing), (modifiers, rates) = figure.subplots(2, 2)
    figure.suptitle(f"{found.name}: {found.candidates:,} candidates, {found.tasks:,} tasks")
    _status(status, found)
    _failing(failing, found)
    _modifiers(modifiers, found)
    _rates(rates, found)
    for axis in (status.xaxis, failing.yaxis, modifiers.xaxis, rates.yaxis):
        axis.get_major_locator().set_params(integer=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    # The same figures give the same file: no date, no drawn names.
    with rc_context({"svg.hashsalt": "rolecraft"}):
        about = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(path.suffix)
        figure.savefig(path, dpi=120, metadata=about)


def _status(axes: Any, found: Statistics) -> None:
    axes.set_title("what became of the candidates", fontsize=10)
    names = [*reversed(found.by_status)]
    colours = [_VALID if name == "valid" else _OTHER for name in names]
    axes.barh(names, [found.by_status[name] for name in names], color=colours)
    axes.set_xlabel("candidates")


def _failing(axes: Any, found: Statistics) -> None:
    axes.set_title("tests to mend", fontsize=10)
    counts = [0] * (_MOST_TESTS + 1)
    for tests, number in found.fail_to_pass.items():
        counts[min(tests, _MOST_TESTS + 1) - 1] += number
    axes.bar(range(1, _MOST_TESTS + 2), counts, color=_VALID)
    ticks = [1, *range(5, _MOST_TESTS, 5), _MOST_TESTS + 1]
    axes.set_xticks(ticks, [*map(str, ticks[:-1]), f">{_MOST_TESTS}"])
    axes.set_xlabel("failing tests")
    axes.set_ylabel("valid candidates")


def _modifiers(axes: Any, found: Statistics) -> None:
    axes.set_title("valid, by kind of bug", fontsize=10)
    most = sorted(found.modifiers.items(), key=lambda pair: (-pair[1].validated, pair[0]))
    rows = [*reversed(most[:_MODIFIERS])]
    names = [name for name, _ in rows]
    axes.barh(names, [row.validated for _, row in rows], color=_QUIET, label="validated")
    axes.barh(names, [row.valid for _, row in rows], color=_VALID, label="valid")
    axes.tick_params(axis="y", labelsize=6)
    axes.set_xlabel("candidates")
    if rows:
        axes.legend(fontsize=7)


def _rates(axes: Any, found: Statistics) -> None:
    axes.set_title("how often tasks are solved", fontsize=10)
    axes.set_xlabel("pass rate")
    axes.set_ylabel("tasks")
    axes.set_xlim(0, 1)
    width = 1 / BINS / max(1, len(found.solvers))
    for number, (solver, row) in enumerate(found.solvers.items()):
        left = [index / BINS + number * width for index in range(BINS)]
        axes.bar(left, row.bins, width=width, align="edge", label=solver)
    if found.solvers:
        axes.legend(fontsize=7)
    else:
        axes.text(0.5, 0.5, "no attempts", ha="center", transform=axes.transAxes)
