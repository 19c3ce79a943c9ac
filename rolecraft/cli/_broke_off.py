"""How a command tells which runs are open: what broke off, what was not begun, and the way on."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rolecraft.cli._output import Output
    from rolecraft.experiments import Evaluation, Results

_TOLD = 5
"""So many reasons are told."""


def tell_what_is_open(found: Evaluation | Results, output: Output, *, debug: bool) -> None:
    """A line for each reason, the most frequent first; with `debug` also a traceback."""
    from rolecraft.experiments.broke_off import broke_off

    reasons = broke_off(found.errors)
    for each in reasons[:_TOLD]:
        output.warn(f"{each.in_words(mark='')}.")
        if debug:
            output.warn(each.traceback())
    if len(reasons) > _TOLD:
        runs = sum(len(each.runs) for each in reasons[_TOLD:])
        output.warn(f"{runs} other runs broke off, for {len(reasons) - _TOLD} other reasons.")
    if found.not_begun:
        output.warn(f"{found.not_begun} runs were not begun: a limit was reached.")
    if not found.complete:
        command = shlex.join(["rolecraft", *sys.argv[1:]])
        output.say(f"Go on, with a higher limit where one was reached: {command}")
