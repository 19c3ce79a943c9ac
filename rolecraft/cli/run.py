"""`rolecraft run`: let a team, a role or a scenario do something, and record it."""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rolecraft.cli._exits import CommandLineError, ExitCode
from rolecraft.cli._models import Models, stand_ins
from rolecraft.cli._options import Debug, Json, Model, RoleModel
from rolecraft.cli._output import Output, usage_record
from rolecraft.cli._target import load_target, user_errors
from rolecraft.environments import Run, Task, Team
from rolecraft.errors import LimitReached
from rolecraft.messages import ALL, NOBODY
from rolecraft.models import Limits
from rolecraft.trajectories import Event, Stopwatch, Trajectory, load

if TYPE_CHECKING:
    from rolecraft.scenarios import Episode, Scenario

_DONE = ("finished", "idle")
"""Stop reasons of a run that came to its own end."""


def run(
    target: Annotated[
        str, typer.Argument(metavar="FILE.py:NAME", help="A team, role or scenario, or a function.")
    ],
    task: Annotated[
        str | None,
        typer.Option(
            "--task", metavar="TEXT", help="What to do. Of a scenario: a task's id or prompt."
        ),
    ] = None,
    model: Model = None,
    role_model: RoleModel = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            "--resume", metavar="JOURNAL", dir_okay=False, help="Go on with a run that stopped."
        ),
    ] = None,
    approve: Annotated[
        list[str] | None,
        typer.Option(
            "--approve", metavar="KEY", help="With --resume: permit an action that waits."
        ),
    ] = None,
    deny: Annotated[
        list[str] | None,
        typer.Option("--deny", metavar="KEY", help="With --resume: refuse an action that waits."),
    ] = None,
    journal: Annotated[
        Path | None,
        typer.Option("--journal", metavar="FILE", dir_okay=False, help="File to record to."),
    ] = None,
    out: Annotated[
        Path,
        typer.Option(
            "--out", metavar="DIR", file_okay=False, help="Folder to record to, under a free name."
        ),
    ] = Path("runs"),
    rounds: Annotated[
        int | None, typer.Option("--rounds", min=1, help="Stop after so many rounds.")
    ] = None,
    usd: Annotated[
        float | None,
        typer.Option("--usd", min=0.0, help="Stop before model calls cost more US dollars."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, help="Makes sampling repeatable.")
    ] = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Run a team, a role or a scenario on a task and record it."""
    with Output(json=json, makes=True) as output:
        if resume is None and (approve or deny):
            raise CommandLineError("`--approve` and `--deny` decide for a run to `--resume`.")
        found = load_target(target)
        models = Models(model, role_model)
        name = f"{Path(target.rpartition(':')[0]).stem}-{target.rpartition(':')[2]}"
        if isinstance(found, Team) and resume is not None:
            _refuse({"--task": task, "--journal": journal, "--seed": seed})
            if not resume.is_file():
                raise CommandLineError(f"There is no journal `{resume}` to go on with.")
            _prepare(found, models, _limits(None, usd), None)
            models.check_keys(found)
            decided = {**dict.fromkeys(approve or (), True), **dict.fromkeys(deny or (), False)}
            go_on = partial(found.recover, resume, rounds=rounds, approve=decided)
            work = _watched(found, resume, go_on, models, output)
        elif isinstance(found, Team):
            if not task:
                raise CommandLineError("Say what the team shall do: `--task TEXT`.")
            _prepare(found, models, _limits(rounds, usd), seed)
            models.check_keys(found)
            found.env.journal = _reserve(journal, out, name)
            if found.env.id == "run":  # nobody gave it a name of its own
                found.env.id = found.env.journal.stem
            # The task is a single role's, whatever it watches.
            send_to = next(iter(found.roles)) if len(found.roles) == 1 else ALL
            begin = partial(found.run, task, send_to=send_to)
            work = _watched(found, found.env.journal, begin, models, output)
        else:
            if resume is not None:
                raise CommandLineError("`--resume` goes on with the run of a team, not a scenario.")
            models.check_roles(role.name for role in found.team())
            models.check_keys()
            chosen = _choose_task(found, task, seed or 0)
            options: dict[str, Any] = {"journal": _reserve(journal, out, name)}
            if rounds is not None or usd is not None:
                options["limits"] = Limits(rounds=rounds, usd=usd)
            work = _run_scenario(found, chosen, models, seed or 0, options, output)
        with user_errors("the run failed"):
            outcome = asyncio.run(work)
        outcome.report(output, target)
        if outcome.stop not in _DONE:
            raise typer.Exit(ExitCode.INCOMPLETE)


@dataclass(slots=True, kw_only=True)
class _Outcome:
    """What came of a run, for people and for programs."""

    journal: Path
    trajectory: Trajectory
    stop: str
    limit: str = ""
    approvals: Sequence[Event] = ()
    """The actions that wait for a person's permission."""
    episode: Episode | None = None

    def report(self, output: Output, target: str) -> None:
        from rolecraft.trajectories.in_words import money
        from rolecraft.viewer.reading import count

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
        if self.episode is not None:
            record["task"] = self.episode.task.id
            record["reward"] = self.episode.reward.value
            record["signals"] = {s.name: s.value for s in self.trajectory.signals}
        output.result(record)
        usage = self.trajectory.usage
        output.say()
        if self.limit:
            output.say(f"Limit reached: {self.limit}", style="yellow")
        if self.episode is not None:
            signals = ", ".join(f"{s.name} = {s.value:g}" for s in self.trajectory.signals)
            output.say(f"Reward {self.episode.reward.value:g} ({signals})")
        output.say(
            f"Stopped: {self.stop}; {count(len(messages), 'message')}, "
            f"{count(usage.calls, 'model call')}, "
            f"{usage.prompt_tokens + usage.completion_tokens:,} tokens, {money(usage.usd)}."
        )
        for event in self.approvals:
            where = f"{event.data.get('action')} of {event.role}"
            output.say(f"Waits for permission: {where}, key {event.data['key']}", style="yellow")
        if self.stop not in _DONE and self.episode is None:
            decide = " --approve KEY" if self.approvals else ""
            output.say(f"Go on with: {_go_on(target, self.journal)}{decide}")
        output.say(f"Recorded in `{self.journal}`; read it with: rolecraft show {self.journal}")


class Live:
    """An observer that shows messages as they come; not what roles only note for themselves."""

    def __init__(self, output: Output) -> None:
        self._output = output

    def on_event(self, event: Event) -> None:
        if event.kind == "message" and event.to != (NOBODY,):
            self._output.said(event.role, event.content)


def _refuse(given: Mapping[str, object]) -> None:
    for option, value in given.items():
        if value is not None:
            raise CommandLineError(f"`--resume` goes on as the run began: leave `{option}` out.")


async def _watched(
    team: Team,
    journal: Path,
    play: Callable[[], Awaitable[Run]],
    models: Models,
    output: Output,
) -> _Outcome:
    """Play a run while its messages are shown and its wall times taken."""
    _say_stand_ins(stand_ins(team), output)
    watch = Stopwatch(journal)
    team.env.observers = (*team.env.observers, Live(output), watch)
    limit, approvals = "", list[Event]()
    try:
        try:
            played = await play()
            stop: str = played.stop
            approvals = played.approvals
        except LimitReached as error:
            stop, limit = "limit", str(error)
    except BaseException:
        output.note(f"What happened until then is in `{journal}`. To go on: --resume {journal}")
        raise
    finally:
        team.env.close()
        watch.close()
        await models.aclose()
    trajectory = load(journal)
    if stop == "limit" and not limit:  # it was to stop the run, and not to be raised
        limit = [event.content for event in trajectory.of("limit")][-1]
    return _Outcome(
        journal=journal,
        trajectory=trajectory,
        stop=stop,
        limit=limit,
        approvals=approvals,
    )


def _go_on(target: str, journal: Path) -> str:
    return shlex.join(["rolecraft", "run", target, "--resume", str(journal)])


async def _run_scenario(
    scenario: Scenario,
    task: Task,
    models: Models,
    seed: int,
    options: dict[str, Any],
    output: Output,
) -> _Outcome:
    model = models.everyone
    if model is None and scenario.untrained is not None:
        model = scenario.untrained(seed)
        output.note("No --model was given: the roles have the scenario's untrained model.")
    output.note(f"Task {task.id}")
    try:
        episode = await scenario.play(
            task, model=model, role_models=models.per_role or None, **options
        )
    finally:
        await models.aclose()
    trajectory = episode.trajectory
    live = Live(output)
    for event in trajectory.events:
        live.on_event(event)
    limit = next((event.content for event in trajectory.of("limit")), "")
    return _Outcome(
        journal=options["journal"],
        trajectory=trajectory,
        stop=trajectory.stop_reason or "unknown",
        limit=limit,
        episode=episode,
    )


def _prepare(team: Team, models: Models, limits: Limits | None, seed: int | None) -> None:
    """Apply the options to a team that has not begun."""
    if team.env.messages:
        raise CommandLineError(
            "The team has begun already: its file runs it. Let the file only make the team."
        )
    models.give_to(team)
    if limits is not None:
        from rolecraft.models import Budget

        own = team.env.limits or Limits()
        given = {name: getattr(limits, name) for name in ("rounds", "usd")}
        limits = replace(own, **{name: value for name, value in given.items() if value is not None})
        team.env.limits, team.env.budget = limits, Budget(limits)
    if seed is not None:
        team.env.seed = seed


def _limits(rounds: int | None, usd: float | None) -> Limits | None:
    return Limits(rounds=rounds, usd=usd) if rounds is not None or usd is not None else None


def _reserve(journal: Path | None, out: Path, name: str) -> Path:
    """The file to record to, made now so that no other run takes it: `DIR/name.jsonl`, `-2`, …"""
    try:
        if journal is not None:
            journal.parent.mkdir(parents=True, exist_ok=True)
            if not _made(journal):
                raise CommandLineError(
                    f"`--journal {journal}` exists already. Name another file, or delete it."
                )
            return journal
        out.mkdir(parents=True, exist_ok=True)
        number = 1
        while not _made(
            path := out / (f"{name}.jsonl" if number == 1 else f"{name}-{number}.jsonl")
        ):
            number += 1
        return path
    except OSError as error:
        raise CommandLineError(
            f"Cannot record to `{error.filename}`: {error.strerror}. Choose another place with "
            f"--out or --journal."
        ) from error


def _made(path: Path) -> bool:
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    except FileExistsError:
        return False
    return True


def _choose_task(scenario: Scenario, wanted: str | None, seed: int) -> Task:
    """The task with this id or prompt, or without one the first that `seed` draws."""
    drawn = scenario.tasks.sample(1 if wanted is None else 1000, seed=seed, split="test")
    if wanted is None:
        return drawn[0]
    drawn += scenario.tasks.sample(1000, seed=seed, split="train")
    for task in drawn:
        if wanted in (task.id, task.prompt):
            return task
    examples = ", ".join(f"`{task.id}`" for task in drawn[:3])
    raise CommandLineError(
        f"Scenario `{scenario.name}` has no task with id or prompt {wanted!r} among the 2,000 that "
        f"seed {seed} draws, such as {examples}. Leave --task out to draw one."
    )


def _say_stand_ins(names: list[str], output: Output) -> None:
    if names:
        output.note(
            f"Answered by {', '.join(names)}: no language model. `--model MODEL` asks a real one."
        )
