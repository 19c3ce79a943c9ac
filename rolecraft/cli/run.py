"""`rolecraft run`: let a team, a role or a scenario do something, and record it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from rolecraft.cli._exits import CommandLineError, ExitCode
from rolecraft.cli._models import Models, set_phase, stand_ins
from rolecraft.cli._options import Debug, Json, Model, RoleModel
from rolecraft.cli._outcome import DONE, Outcome, over_already, unknown_outcome
from rolecraft.cli._output import Output
from rolecraft.cli._target import load_target, user_errors
from rolecraft.environments import Run, Task, Team
from rolecraft.errors import ApprovalDenied, LimitReached, OutcomeUnknown
from rolecraft.messages import ALL, NOBODY
from rolecraft.models import Limits
from rolecraft.trajectories import Event, Stopwatch, load
from rolecraft.trajectories.timings import timings_path

if TYPE_CHECKING:
    from rolecraft.scenarios import Scenario


class Phase(StrEnum):
    """What `--phase` may say."""

    API = "api"
    LOCAL = "local"


class OnUnknown(StrEnum):
    """What `--on-unknown` may say; `recover` has more ways for programs."""

    REDO = "redo"
    SKIP = "skip"


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
    phase: Annotated[
        Phase | None,
        typer.Option(
            "--phase", help="Which of its two models plays, where the target has `Phases`."
        ),
    ] = None,
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
    on_unknown: Annotated[
        OnUnknown | None,
        typer.Option(
            "--on-unknown",
            help="With --resume: do an action again, or not, that may have taken effect already.",
        ),
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
    calls: Annotated[
        int | None, typer.Option("--calls", min=0, help="Stop before more model calls.")
    ] = None,
    tokens: Annotated[
        int | None,
        typer.Option("--tokens", min=0, help="Stop before model calls take more tokens."),
    ] = None,
    seconds: Annotated[
        float | None, typer.Option("--seconds", min=0.0, help="Stop after so much wall time.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, help="Makes sampling repeatable.")
    ] = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Run a team, a role or a scenario on a task and record it."""
    with Output(json=json, makes=True) as output:
        if resume is None and (approve or deny or on_unknown):
            raise CommandLineError(
                "`--approve`, `--deny` and `--on-unknown` decide for a run to `--resume`."
            )
        limits = {"usd": usd, "tokens": tokens, "calls": calls, "seconds": seconds}
        found = load_target(target, resume)
        if phase is not None:
            set_phase(found, phase.value, target)
        over = ""
        models = Models(model, role_model)
        name = f"{Path(target.rpartition(':')[0]).stem}-{target.rpartition(':')[2]}"
        if isinstance(found, Team) and resume is not None:
            _refuse({"--task": task, "--journal": journal, "--seed": seed})
            if not resume.is_file():
                raise CommandLineError(f"There is no journal `{resume}` to go on with.")
            # How many rounds more is for `recover` to say, whatever the limit was.
            _prepare(found, models, limits, None, unbounded=rounds is not None)
            models.check_keys(found)
            decided = {**dict.fromkeys(approve or (), True), **dict.fromkeys(deny or (), False)}
            unknown = cast("Literal['redo', 'skip'] | None", on_unknown and on_unknown.value)
            go_on = partial(
                found.recover, resume, rounds=rounds, approve=decided, on_unknown=unknown
            )
            over = over_already(resume, target) if rounds is None else ""
            work = _watched(found, resume, go_on, models, output)
        elif isinstance(found, Team):
            if not task:
                raise CommandLineError("Say what the team shall do: `--task TEXT`.")
            _prepare(found, models, limits | {"rounds": rounds}, seed)
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
            if given := _given(limits | {"rounds": rounds}):
                options["limits"] = Limits(**given)
            work = _run_scenario(found, chosen, models, seed or 0, options, output)
        with user_errors("the run failed"):
            outcome = asyncio.run(work)
        if over:
            output.note(over)
        outcome.report(output, target)
        if outcome.stop not in DONE:
            raise typer.Exit(ExitCode.INCOMPLETE)


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
) -> Outcome:
    """Play a run while its messages are shown and its wall times taken."""
    _say_stand_ins(stand_ins(team), output)
    timings = timings_path(journal)
    timed_before = timings.exists()
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
    except OutcomeUnknown as error:
        raise unknown_outcome(error) from error
    except ApprovalDenied:
        output.note(f"The denial ended the run; what happened until then is in `{journal}`.")
        raise
    except BaseException:
        if watch.timings:  # else nothing happened: it was refused at once
            output.note(f"What happened until then is in `{journal}`. To go on: --resume {journal}")
        raise
    finally:
        team.env.close()
        watch.close()
        if not (timed_before or watch.timings):
            timings.unlink(missing_ok=True)
        await models.aclose()
    trajectory = load(journal)
    if stop == "limit" and not limit:  # it was to stop the run, and not to be raised
        limit = [event.content for event in trajectory.of("limit")][-1]
    return Outcome(
        journal=journal,
        trajectory=trajectory,
        stop=stop,
        limit=limit,
        approvals=approvals,
    )


async def _run_scenario(
    scenario: Scenario,
    task: Task,
    models: Models,
    seed: int,
    options: dict[str, Any],
    output: Output,
) -> Outcome:
    model = models.everyone
    if model is None and scenario.models is None and scenario.untrained is not None:
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
    return Outcome(
        journal=options["journal"],
        trajectory=trajectory,
        stop=trajectory.stop_reason or "unknown",
        limit=limit,
        episode=episode,
    )


def _prepare(
    team: Team,
    models: Models,
    limits: Mapping[str, float | None],
    seed: int | None,
    *,
    unbounded: bool = False,
) -> None:
    """Apply the options to a team that has not begun; `unbounded` lifts its limit of rounds."""
    if team.env.messages:
        raise CommandLineError(
            "The team has begun already: its file runs it. Let the file only make the team."
        )
    models.give_to(team)
    changes: dict[str, Any] = _given(limits)
    if unbounded and team.env.limits is not None:
        changes["rounds"] = None
    if changes:
        from rolecraft.models import Budget

        team.env.limits = replace(team.env.limits or Limits(), **changes)
        team.env.budget = Budget(team.env.limits)
    if seed is not None:
        team.env.seed = seed


def _given(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


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
