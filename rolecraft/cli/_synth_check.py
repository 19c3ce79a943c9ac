"""`rolecraft synth check`: valid candidates, graded as a solver's work is."""

from __future__ import annotations

import asyncio
import os
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import typer

from rolecraft.cli._exits import ExitCode
from rolecraft.cli._options import Debug, Json
from rolecraft.cli._output import Output
from rolecraft.cli._synth_options import Folder, Workers

if TYPE_CHECKING:
    from rolecraft.synthesis.folder import SynthesisFolder
    from rolecraft.synthesis.plan import Plan
    from rolecraft.synthesis.validation.checking import Checked

_NAMED = 10
"""Tasks that do not hold, of those that are told by name."""


def check(
    out: Folder,
    again: Annotated[
        int, typer.Option("--again", min=1, metavar="N", help="So often each is graded.")
    ] = 3,
    sample: Annotated[
        int | None,
        typer.Option("--sample", min=1, metavar="N", help="So many of them, spread evenly."),
    ] = None,
    cheats: Annotated[
        int, typer.Option("--cheats", min=0, metavar="N", help="Try cheats on so many of them.")
    ] = 3,
    workers: Workers = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Grade each valid candidate with its reference, with nothing and with cheats.

    The reference must resolve it each time, and nothing else may; else it ends with 4.
    """
    from rolecraft.errors import UsageError
    from rolecraft.synthesis.folder import SynthesisFolder
    from rolecraft.synthesis.plan import Plan
    from rolecraft.synthesis.validation import valid_candidates

    with Output(json=json) as output:
        folder = SynthesisFolder(out)
        plan = Plan.load(folder)
        total = sum(1 for _ in valid_candidates(folder))
        if not total:
            raise UsageError(f"Nothing in `{out}` is valid yet: `rolecraft synth validate {out}`.")
        chosen = min(sample or total, total)
        numbers = {index * total // chosen for index in range(chosen)}
        found = asyncio.run(_run(plan, folder, numbers, again, cheats, workers, output))
        _show(found, again, output)
        if found.sound < found.tasks:
            raise typer.Exit(ExitCode.GATE)


@dataclass(slots=True)
class _Figures:
    """What was found, added up: of thousands of tasks a few are named."""

    tasks: int = 0
    sound: int = 0
    resolved: int = 0
    empty_resolved: int = 0
    flaky: int = 0
    cheats: int = 0
    tried: int = 0
    """So many cheats were tried."""
    untried: int = 0
    """On so many tasks none could be, though it was asked for."""
    seconds: float = 0.0
    wrong: list[str] = field(default_factory=list)
    """The first ones that do not hold, and why."""

    def add(self, checked: Checked) -> None:
        self.tasks += 1
        self.sound += checked.sound
        self.resolved += checked.resolved
        self.empty_resolved += checked.empty_resolved
        self.flaky += bool(checked.flaky)
        self.cheats += len(checked.cheats)
        self.tried += checked.tried or 0
        self.untried += checked.tried == 0
        self.seconds += checked.seconds
        if not checked.sound and len(self.wrong) < _NAMED:
            self.wrong.append(f"{checked.task}: {'; '.join(checked.problems)}")


async def _run(
    plan: Plan,
    folder: SynthesisFolder,
    numbers: set[int],
    again: int,
    cheats: int,
    workers: int | None,
    output: Output,
) -> _Figures:
    from rolecraft.synthesis.validation import valid_candidates
    from rolecraft.synthesis.validation.checking import check as checks

    tasks = (task for number, task in enumerate(valid_candidates(folder)) if number in numbers)
    running = checks(
        plan,
        tasks,
        again=again,
        cheat=cheats,
        workers=workers or len(os.sched_getaffinity(0)),
    )
    found = _Figures()
    with output.bar("tasks", len(numbers)) as step:
        async with aclosing(running) as each_checked:
            async for checked in each_checked:
                found.add(checked)
                output.result(
                    {
                        "what": "checked",
                        "task": checked.task,
                        "sound": checked.sound,
                        "resolved": checked.resolved,
                        "empty_resolved": checked.empty_resolved,
                        "cheats_tried": checked.tried,
                        "problems": checked.problems,
                        "seconds": checked.seconds,
                    }
                )
                step("sound" if checked.sound else f"{checked.task}: {checked.problems[0]}"[:60])
    return found


def _show(found: _Figures, again: int, output: Output) -> None:
    from rolecraft.trajectories.in_words import count

    runs = again * found.tasks
    record = {
        "tasks": found.tasks,
        "sound": found.sound,
        "resolved_share": found.resolved / runs,
        "empty_resolved_share": found.empty_resolved / runs,
        "flaky": found.flaky,
        "cheats": found.cheats,
        "cheats_tried": found.tried,
        "seconds": round(found.seconds, 1),
    }
    output.result({"what": "report", **record})
    cheats = f"{found.cheats} of {count(found.tried, 'cheat')} taken for a solution"
    output.say(
        f"{found.sound} of {count(found.tasks, 'task')} held: the reference resolves "
        f"{100 * record['resolved_share']:.1f} % of {runs} times, an empty patch "
        f"{100 * record['empty_resolved_share']:.1f} %; {found.flaky} flaky, "
        f"{cheats if found.tried else 'cheats not tried'}."
    )
    if found.untried:
        output.warn(
            f"Cheats were not tried on {count(found.untried, 'task')}: none is known for such "
            f"files and such a runner of tests."
        )
    for problem in found.wrong:
        output.warn(problem)
