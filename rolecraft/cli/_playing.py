"""Playing what `rolecraft run` found: messages are shown as they come, wall times are taken."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from rolecraft.cli._models import Models, stand_ins
from rolecraft.cli._outcome import Outcome, unknown_outcome
from rolecraft.cli._output import Output
from rolecraft.cli._scenarios import untrained_model
from rolecraft.cli._tasks import DRAWN_FROM
from rolecraft.environments import Run, Task, TaskEnvironment, Team
from rolecraft.errors import ApprovalDenied, LimitReached, OutcomeUnknown, RolecraftError
from rolecraft.messages import NOBODY
from rolecraft.trajectories import Event, Stopwatch, load
from rolecraft.trajectories.events import StopReason
from rolecraft.trajectories.timings import timings_path

if TYPE_CHECKING:
    from rolecraft.scenarios import Scenario
    from rolecraft.trajectories.observer import Observer


class Live:
    """An observer that shows messages as they come; not what roles only note for themselves."""

    def __init__(self, output: Output) -> None:
        self._output = output

    def on_event(self, event: Event) -> None:
        if event.kind == "message" and event.to != (NOBODY,):
            self._output.said(event.role, event.content)


async def play_team(
    team: Team,
    journal: Path,
    play: Callable[[], Awaitable[Run]],
    models: Models,
    output: Output,
) -> Outcome:
    """Have a team play, or go on, or its environment's episode; what came of it."""
    _say_stand_ins(stand_ins(team), output)
    limit, approvals = "", list[Event]()
    go_on = f"To go on: --resume {journal}"
    try:
        with _watched(journal, output, go_on) as observers:
            team.env.observers = (*team.env.observers, *observers)
            try:
                played = await play()
                stop: str = played.stop
                approvals = played.approvals
            except LimitReached as error:
                stop, limit = "limit", str(error)
    except OutcomeUnknown as error:
        raise unknown_outcome(error) from error
    finally:
        team.env.close()
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
        task=team.env.task.id if isinstance(team.env, TaskEnvironment) else "",
    )


async def play_episode(env: TaskEnvironment, resume: Path | None = None) -> Run:
    """Play an environment's own task from `setup` to `aclose`, or go on with it, as a run."""
    trajectory = await (env.episode() if resume is None else env.recover(resume))
    return Run(trajectory, env.last_message, cast(StopReason, trajectory.stop_reason))


async def play_scenario(
    scenario: Scenario,
    task: Task,
    models: Models,
    seed: int,
    options: dict[str, Any],
    output: Output,
    *,
    journal: Path,
    resume: bool = False,
) -> Outcome:
    """Play one task, or go on with it, and score it. `options` are the environment's.

    `seed` is the one that drew the task.
    """
    from rolecraft.rewards.signals import MissingSignal
    from rolecraft.viewer.result import failure_sentences

    model = models.everyone
    untrained = untrained_model(scenario, model, seed)
    if untrained is not None:
        model = untrained
        output.note("No --model was given: the roles have the scenario's untrained model.")
    output.note(f"Task {task.id}")
    drawn_from = {"name": scenario.name, "seed": seed}
    ways_on = f"Read it with: rolecraft show {journal}; to go on: --resume {journal}"
    try:
        with _watched(journal, output, ways_on) as observers:
            watched = _observed(scenario, observers, {DRAWN_FROM: drawn_from})
            play = watched.recover if resume else watched.play
            episode = await play(
                task,
                journal=journal,
                model=model,
                role_models=models.per_role or None,
                **options,
            )
    except OutcomeUnknown as error:
        raise unknown_outcome(error) from error
    except MissingSignal as error:
        why = failure_sentences(load(journal))
        if not why:
            raise
        raise RolecraftError(f"There is no reward, for it was not measured. {why[-1]}") from error
    finally:
        await models.aclose()
    trajectory = episode.trajectory
    return Outcome(
        journal=journal,
        trajectory=trajectory,
        stop=trajectory.stop_reason or "unknown",
        limit=next((event.content for event in trajectory.of("limit")), ""),
        task=task.id,
        reward=episode.reward.value,
    )


@contextmanager
def _watched(journal: Path, output: Output, go_on: str) -> Iterator[tuple[Observer, ...]]:
    """Observers that show messages and write times beside the journal; none stay if none came.

    What ends a run early is raised on, after a note where its record is and how to `go_on`.
    """
    timings = timings_path(journal)
    timed_before = timings.exists()
    watch = Stopwatch(journal)
    try:
        yield (Live(output), watch)
    except OutcomeUnknown:  # its own words say how to go on
        raise
    except ApprovalDenied:
        output.note(f"The denial ended the run; what happened until then is in `{journal}`.")
        raise
    except BaseException:
        if watch.timings:  # else nothing happened: it was refused at once
            output.note(f"What happened until then is in `{journal}`. {go_on}")
        raise
    finally:
        watch.close()
        if not (timed_before or watch.timings):
            timings.unlink(missing_ok=True)


def _observed(
    scenario: Scenario, observers: tuple[Observer, ...], about: dict[str, Any]
) -> Scenario:
    """The scenario with more observers in its environment, and more in the header of its record."""
    make = scenario.environment

    def environment(*args: Any, **options: Any) -> TaskEnvironment:
        made = make(*args, **options)
        made.observers = (*made.observers, *observers)
        made.about.update(about)
        return made

    return replace(scenario, environment=environment)


def _say_stand_ins(names: list[str], output: Output) -> None:
    if names:
        output.note(
            f"Answered by {', '.join(names)}: no language model. `--model MODEL` asks a real one."
        )
