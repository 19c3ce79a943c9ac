"""What came of a run, and how to go on with it: in words for people, in JSON for programs."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rolecraft.cli._exits import CommandLineError
from rolecraft.cli._output import Output, usage_record
from rolecraft.errors import OutcomeUnknown, RolecraftError, TraceError
from rolecraft.trajectories import Event, Trajectory, load
from rolecraft.trajectories.in_words import UNKNOWN

DONE = ("finished", "idle")
"""Stop reasons of a run that came to its own end."""


@dataclass(slots=True, kw_only=True)
class Outcome:
    """A run that was played."""

    journal: Path
    trajectory: Trajectory
    stop: str
    limit: str = ""
    approvals: Sequence[Event] = ()
    """The actions that wait for a person's permission."""
    task: str = ""
    """Of an episode, which is graded: the id of its task."""
    reward: float | None = None
    """Of a scenario's."""

    def report(self, output: Output, target: str) -> None:
        from rolecraft.trajectories.in_words import count

        messages = list(self.trajectory.of("message"))
        said = messages[-1].content if len(messages) > 1 else ""
        record: dict[str, Any] = {
            "trajectory": self.trajectory.id,
            "journal": str(self.journal),
            "stop": self.stop,
            "limit": self.limit,
            "message": said,
            "messages": len(messages),
            "events": len(self.trajectory.events),
            "usage": usage_record(self.trajectory.usage),
            "roles": {
                row.role: usage_record(row) for row in self.trajectory.role_table() if row.calls
            },
        }
        if self.approvals:
            record["approvals"] = [
                {"role": event.role, "action": event.data.get("action"), "key": event.data["key"]}
                for event in self.approvals
            ]
        if self.reward is not None:
            record["reward"] = self.reward
        if self.task:
            record["task"] = self.task
            record["signals"] = {s.name: s.value for s in self.trajectory.signals}
        output.result(record)
        total = self.trajectory.role_table().total
        output.say()
        if self.limit:
            output.say(f"Limit reached: {self.limit}", style="yellow")
        signals = ", ".join(f"{s.name} = {s.value:g}" for s in self.trajectory.signals)
        if self.reward is not None:
            output.say(f"Reward {self.reward:g} ({signals})")
        elif self.task:
            output.say(f"Measured: {signals}")
        output.say(
            f"Stopped: {self.stop}; {count(len(messages), 'message')}, "
            f"{count(total.calls, 'model call')}, "
            f"{count(total.prompt_tokens + total.completion_tokens, 'token')}, "
            f"{'price unknown' if total.price == UNKNOWN else total.price}."
        )
        for event in self.approvals:
            where = f"{event.data.get('action')} of {event.role}"
            output.say(f"Waits for permission: {where}, key {event.data['key']}", style="yellow")
        if self.stop not in DONE and not (self.task and self.stop == "rounds"):
            output.say(self._way_on(target))
        output.say(f"Recorded in `{self.journal}`; read it with: rolecraft show {self.journal}")

    def _way_on(self, target: str) -> str:
        """The command that goes on; one that reached a limit needs more room for it."""
        again = go_on(target, self.journal)
        if self.approvals:
            return f"Go on with: {again} --approve KEY (or --deny KEY)"
        if self.stop == "rounds":
            return f"Go on with: {again} --rounds N, so many more"
        crossed = next(reversed(list(self.trajectory.of("limit"))), None)
        if self.stop != "limit" or crossed is None:
            return f"Go on with: {again}"
        name = crossed.data.get("limit")
        if whose := crossed.data.get("whose"):
            return f"Raise `Limits({name}=...)` of {whose} in its file, then go on with: {again}"
        if name == "rounds":
            return f"Go on with: {again} --rounds N, so many more"
        if name == "seconds":  # a limit of each process, which begins anew
            return f"Go on with: {again}, and --seconds N if it needs more at a time"
        return f"Go on with more {_UNITS.get(str(name), name)}: {again} --{name} N, in all"


_UNITS = {"usd": "money", "calls": "model calls"}


def go_on(target: str, journal: Path) -> str:
    """The command that goes on with a run."""
    return shlex.join(["rolecraft", "run", target, "--resume", str(journal)])


def over_already(journal: Path, target: str, *, graded: bool = False) -> str:
    """That there is nothing to go on with, if a run has come to its end; else empty.

    Raises `CommandLineError` for one that was `graded` after all its rounds: it takes no more.
    """
    stop = None
    with contextlib.suppress(TraceError):  # of what is no journal, `recover` says more
        stop = load(journal).stop_reason
    if stop in DONE:
        return f"The run in `{journal}` was over already ({stop}): nothing was left to do."
    if stop == "rounds" and graded:
        raise CommandLineError(
            f"The run in `{journal}` had played all its rounds and was graded: it is over. For "
            f"more rounds play it anew: leave `--resume` out."
        )
    if stop == "rounds":
        more = f"{go_on(target, journal)} --rounds N"
        return f"The run in `{journal}` had played all its rounds. For N more: {more}"
    return ""


def unknown_outcome(error: OutcomeUnknown) -> RolecraftError:
    """The error with the command line's way out of it."""
    return RolecraftError(
        f"Action {error.action!r} of role {error.role!r} was under way when the process ended, and "
        f"it is not known whether it took effect (key {error.key!r}; its class says `repeat = "
        f"'never'`). Find out, then resume with `--on-unknown skip` if it did, or `--on-unknown "
        f"redo` if it did not."
    )
