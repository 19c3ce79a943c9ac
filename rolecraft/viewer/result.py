"""What came of a run, in sentences for the first lines: why it failed, and what was measured."""

from __future__ import annotations

from collections.abc import Iterator

from rolecraft.failure_taxonomy.goals import Bounds, Outcome
from rolecraft.trajectories import Event, Trajectory
from rolecraft.trajectories.in_words import one_line

_LONGEST = 400
"""Characters of an error's text; the event has all of it."""
_MOST = 3
"""So many errors of one round are told, and the rest counted."""


def failure_sentences(trajectory: Trajectory) -> list[str]:
    """The errors or the limit that ended a run, or that kept its end from being measured."""
    if trajectory.stop_reason == "limit":
        crossed = next(reversed(list(trajectory.of("limit"))), None)
        return [f"Limit reached: {one_line(crossed.content, _LONGEST)}"] if crossed else []
    ended = [*_errors_at_the_end(trajectory)]
    more = [f"… and {len(ended) - _MOST} more errors."] if len(ended) > _MOST else []
    return [_in_words(event) for event in ended[:_MOST]] + more


def measured_sentences(trajectory: Trajectory) -> list[str]:
    """Whether the task was done, where the header says what tells it, every signal, and what the
    environment's own checks found wanting.
    """
    signals = trajectory.signals
    if not signals:
        return []
    last = {signal.name: signal.value for signal in signals}
    outcome = Outcome.of(trajectory.about)
    lines = []
    done = outcome.bounds.hold(last.get(outcome.signal)) if outcome.signal in last else None
    if done is not None:
        reached = f"{outcome.signal} = {last[outcome.signal]:g}"
        wanted = "" if done else f", wanted {_wanted(outcome.bounds)}"
        lines = [f"Task {'done' if done else 'not done'}: {reached}{wanted}"]
    lines.append(f"Measured: {', '.join(f'{s.name} = {s.value:g}' for s in signals)}")
    return [*lines, *map(_wanting, _checks_at_the_end(trajectory))]


def _checks_at_the_end(trajectory: Trajectory) -> list[Event]:
    """The environment's last check of each kind that was not passed; roles' own are not shown."""
    last = {each.data.get("target"): each for each in trajectory.of("verify") if not each.role}
    return [each for each in last.values() if each.data.get("passed") is False and each.content]


def _wanting(check: Event) -> str:
    return f"Check of {check.data.get('target')}: {one_line(check.content, _LONGEST)}"


def _errors_at_the_end(trajectory: Trajectory) -> Iterator[Event]:
    """Those of the last round of a run that an error ended; else what could not be measured."""
    errors = list(trajectory.of("error"))
    if not errors:
        return
    if trajectory.stop_reason == "error":
        yield from (event for event in errors if event.time == errors[-1].time)
    elif errors[-1].data.get("type") == "InfrastructureFailure":
        yield errors[-1]


def _in_words(event: Event) -> str:
    kind, action = event.data.get("type"), event.data.get("action")
    where = " of ".join(str(name) for name in (action, event.role) if name)
    text = f"{kind or 'Error'}: {event.content}" if event.content else str(kind or "no text")
    return f"Error{f' in {where}' if where else ''}: {one_line(text, _LONGEST)}"


def _wanted(bounds: Bounds) -> str:
    parts = []
    if bounds.at_least is not None:
        parts.append(f"at least {bounds.at_least:g}")
    if bounds.at_most is not None:
        parts.append(f"at most {bounds.at_most:g}")
    return " and ".join(parts)
