"""`curve.png`: the learning curve of a run as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rolecraft.errors import MissingExtra
from rolecraft.training.sft.log import LogLine

CURVE = "curve.png"
"""In the folder of a run."""

_TRAIN, _EVAL, _QUIET = "#2a6fbb", "#d1603d", "#777777"
_SMOOTHED = 40
"""From so many points on, the training loss gets a smoothed line over its single points."""


def draw_curve(lines: Sequence[LogLine], path: Path, *, title: str = "") -> None:
    """Losses above, learning rate and gradient norm below, over the steps.

    Raises `MissingExtra` without matplotlib.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtra("matplotlib", "train", "Drawing a learning curve") from error

    figure: Any = Figure(figsize=(8, 6), layout="constrained")
    FigureCanvasAgg(figure)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
    if title:
        figure.suptitle(title)
    _losses(above, lines)
    _rates(below, lines)
    figure.savefig(path, dpi=120)


def _losses(axes: Any, lines: Sequence[LogLine]) -> None:
    train = [(line.step, line.loss) for line in lines if line.loss is not None]
    if train:
        steps, losses = zip(*train, strict=True)
        if len(train) >= _SMOOTHED:
            axes.plot(steps, losses, color=_TRAIN, alpha=0.25, linewidth=1)
            axes.plot(steps, smooth(losses), color=_TRAIN, label="train, smoothed")
        else:
            axes.plot(steps, losses, color=_TRAIN, marker=".", label="train")
    evaluated = [(line.step, line.eval_loss) for line in lines if line.eval_loss is not None]
    if evaluated:
        axes.plot(*zip(*evaluated, strict=True), color=_EVAL, marker="o", label="evaluation")
    axes.set_ylabel("loss (nats per token)")
    axes.grid(alpha=0.3)
    axes.legend()
    # exp is no straight map, so perplexity gets ticks of its own on the other side.
    import numpy

    with numpy.errstate(all="ignore"):
        other = axes.secondary_yaxis(
            "right", functions=(numpy.exp, lambda p: numpy.log(numpy.maximum(p, 1e-12)))
        )
        other.set_ylabel("perplexity")


def _rates(axes: Any, lines: Sequence[LogLine]) -> None:
    rates = [(line.step, line.learning_rate) for line in lines if line.learning_rate is not None]
    norms = [(line.step, line.grad_norm) for line in lines if line.grad_norm is not None]
    axes.set_xlabel("step")
    axes.set_ylabel("learning rate", color=_TRAIN)
    axes.grid(alpha=0.3)
    axes.ticklabel_format(axis="y", style="sci", scilimits=(0, 0))
    if rates:
        axes.plot(*zip(*rates, strict=True), color=_TRAIN)
    if norms:
        other = axes.twinx()
        other.plot(*zip(*norms, strict=True), color=_QUIET, linewidth=0.8)
        other.set_ylabel("gradient norm", color=_QUIET)


def smooth(values: Sequence[float], share: float = 0.05) -> list[float]:
    """Means over the `share` of the values around each; shorter at both ends, never one-sided."""
    reach = max(1, round(len(values) * share / 2))
    sums = [0.0]
    for value in values:
        sums.append(sums[-1] + value)
    result = []
    for index in range(len(values)):
        near = min(reach, index, len(values) - 1 - index)
        result.append((sums[index + near + 1] - sums[index - near]) / (2 * near + 1))
    return result
