"""`rolecraft run`: let a team, a role or a scenario do something, and record it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import typer

from rolecraft.cli._exits import CommandLineError, ExitCode
from rolecraft.cli._models import Models, set_phase
from rolecraft.cli._options import BaseUrl, Debug, Json, Model, RoleModel
from rolecraft.cli._outcome import DONE, over_already
from rolecraft.cli._output import Output
from rolecraft.cli._playing import play_episode, play_scenario, play_team
from rolecraft.cli._scenarios import check_has_model
from rolecraft.cli._target import load_target, user_errors
from rolecraft.cli._tasks import choose_task, recorded_task
from rolecraft.environments import Run, TaskEnvironment, Team
from rolecraft.messages import ALL
from rolecraft.models import Limits


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
        str,
        typer.Argument(
            metavar="FILE.py:NAME",
            help="A Python file, and the team, role, scenario or function in it.",
        ),
    ],
    task: Annotated[
        str | None,
        typer.Option(
            "--task",
            metavar="TEXT",
            help="What the team or role shall do. Of a scenario: the id or prompt of one of its "
            "tasks; without it one is drawn.",
        ),
    ] = None,
    model: Model = None,
    role_model: RoleModel = None,
    base_url: BaseUrl = None,
    phase: Annotated[
        Phase | None,
        typer.Option(
            "--phase", help="Which of its two models plays, where the target has `Phases`."
        ),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            "--resume",
            metavar="JOURNAL",
            dir_okay=False,
            help="Go on with a run that stopped, of the same target: the file that it wrote.",
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
        typer.Option(
            "--journal",
            metavar="FILE",
            dir_okay=False,
            help="File to record to, which must not exist yet; instead of --out.",
        ),
    ] = None,
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            metavar="DIR",
            file_okay=False,
            help="Folder to record to: FILE-NAME.jsonl, or the next free name.",
        ),
    ] = Path("runs"),
    rounds: Annotated[
        int | None,
        typer.Option(
            "--rounds",
            min=1,
            help="Stop after so many rounds: in each, all who heard something act once.",
        ),
    ] = None,
    usd: Annotated[
        float | None,
        typer.Option(
            "--usd",
            min=0.0,
            help="Stop before all model calls together cost more US dollars than this.",
        ),
    ] = None,
    calls: Annotated[
        int | None,
        typer.Option("--calls", min=0, help="Stop before there are more model calls than this."),
    ] = None,
    tokens: Annotated[
        int | None,
        typer.Option(
            "--tokens",
            min=0,
            help="Stop before all model calls together take more tokens than this.",
        ),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option("--seconds", min=0.0, help="Stop after so many seconds of wall time."),
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
        if base_url is not None and model is None and not role_model:
            raise CommandLineError(
                "`--base-url` says where the models of `--model` and `--role-model` are: name one."
            )
        if resume is not None and not resume.is_file():
            raise CommandLineError(f"There is no journal `{resume}` to go on with.")
        limits = {"usd": usd, "tokens": tokens, "calls": calls, "seconds": seconds}
        found = load_target(target, resume)
        if phase is not None:
            set_phase(found, phase.value, target)
        over = ""
        models = Models(model, role_model, base_url=base_url)
        name = f"{Path(target.rpartition(':')[0]).stem}-{target.rpartition(':')[2]}"
        if isinstance(found, Team) and resume is not None:
            _refuse({"--task": task, "--journal": journal, "--seed": seed})
            # How many rounds more is for `recover` to say, whatever the limit was.
            _prepare(found, models, limits, None, unbounded=rounds is not None)
            models.check_keys(found)
            unknown = cast("Literal['redo', 'skip'] | None", on_unknown and on_unknown.value)
            if isinstance(found.env, TaskEnvironment):
                _refuse_of_episodes({"--rounds": rounds, "--approve": approve, "--deny": deny})
                found.env.on_unknown = unknown or found.env.on_unknown
                go_on = partial(play_episode, found.env, resume)
            else:
                decided = {**dict.fromkeys(approve or (), True), **dict.fromkeys(deny or (), False)}
                go_on = partial(
                    found.recover, resume, rounds=rounds, approve=decided, on_unknown=unknown
                )
            graded = isinstance(found.env, TaskEnvironment)
            over = over_already(resume, target, graded=graded) if rounds is None else ""
            work = play_team(found, resume, go_on, models, output)
        elif isinstance(found, Team):
            begin = _beginning(found, task, target)
            _prepare(found, models, limits | {"rounds": rounds}, seed)
            models.check_keys(found)
            found.env.journal = _reserve(journal, out, name)
            if found.env.id == "run":  # nobody gave it a name of its own
                found.env.id = found.env.journal.stem
            work = play_team(found, found.env.journal, begin, models, output)
        else:
            models.check_roles(role.name for role in found.team())
            check_has_model(found, models.everyone, models.per_role)
            models.check_keys()
            options: dict[str, Any] = {}
            if given := _given(limits | {"rounds": rounds}):
                options["limits"] = Limits(**given)
            if on_unknown is not None:
                options["on_unknown"] = on_unknown.value
            if resume is not None:
                _refuse({"--task": task, "--journal": journal})
                _refuse_of_episodes({"--approve": approve, "--deny": deny})
                chosen, drawn_by = recorded_task(found, resume, seed)
                over = over_already(resume, target, graded=True)
            else:
                drawn_by = seed or 0
                chosen = choose_task(found, task, drawn_by, tell=output.note)
            work = play_scenario(
                *(found, chosen, models, drawn_by, options, output),
                journal=resume or _reserve(journal, out, name),
                resume=resume is not None,
            )
        with user_errors("the run failed"):
            outcome = asyncio.run(work)
        if over:
            output.note(over)
        outcome.report(output, target)
        if outcome.stop not in DONE:
            raise typer.Exit(ExitCode.INCOMPLETE)


def _refuse(given: Mapping[str, object]) -> None:
    for option, value in given.items():
        if value is not None:
            raise CommandLineError(f"`--resume` goes on as the run began: leave `{option}` out.")


def _refuse_of_episodes(given: Mapping[str, object]) -> None:
    for option, value in given.items():
        if value:
            raise CommandLineError(
                f"`{option}` is for the run of a team. What has a task goes on to its end: leave "
                f"it out."
            )


def _beginning(team: Team, task: str | None, target: str) -> Callable[[], Awaitable[Run]]:
    """What begins the team's run, or the episode of an environment that brings its task."""
    if isinstance(team.env, TaskEnvironment):
        own = team.env.task
        if task is not None and task not in (own.id, own.prompt):
            raise CommandLineError(
                f"`{target}` is an environment with a task of its own, `{own.id}`: leave --task "
                f"out. A `Scenario` has tasks to choose from."
            )
        return partial(play_episode, team.env)
    if not task:
        raise CommandLineError("Say what the team shall do: `--task TEXT`.")
    # The task is a single role's, whatever it watches.
    send_to = next(iter(team.roles)) if len(team.roles) == 1 else ALL
    return partial(team.run, task, send_to=send_to)


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
