"""The published ways of asking a model who failed and when, for comparison.

As in Who&When (Zhang et al., ICML 2025), in our own words and behind our own fence: all at once,
step by step, by halves, and the hybrid that finds the role first and then goes through its steps.
Each is a function of a `Case` that fills in an `Attribution`. An answer that cannot be used ends
it, with what is known by then: a step that was not judged could be the decisive one.
"""

from __future__ import annotations

from collections.abc import Sequence

from rolecraft.failure_taxonomy.attribution.case import Case, reason_of
from rolecraft.failure_taxonomy.attribution.result import Attribution
from rolecraft.failure_taxonomy.judging.answers import NoAnswer
from rolecraft.trajectories.events import Event

_REASON = '- "reason": one sentence.'


async def all_at_once(case: Case, found: Attribution) -> None:
    """One call: the whole record, and which role failed at which step."""
    answer = await case.ask(
        "Which role made the decisive failure, and at which event?",
        '- "role": its name, as the record writes it.\n'
        '- "step": the number of the event.\n' + _REASON,
        case.events,
        key="step",
    )
    found.reason = reason_of(answer)
    problems = []
    # Each by itself: of a role that exists and a step that does not, the role still holds.
    try:
        found.role = case.role(answer.get("role"))
    except NoAnswer as error:
        problems.append(str(error))
    try:
        found.step = case.step(answer["step"]).seq
    except NoAnswer as error:
        problems.append(str(error))
    found.problems += problems


async def step_by_step(case: Case, found: Attribution) -> None:
    """A call a step, with the record up to it, until one is called decisive."""
    await _first_of(case, case.steps, found)


async def binary_search(case: Case, found: Attribution) -> None:
    """The steps are halved until one is left: about log2 of their number calls."""
    steps = case.steps
    while len(steps) > 1:
        middle = (len(steps) + 1) // 2
        halves = {"first": steps[:middle], "second": steps[middle:]}
        told = "; ".join(f'"{name}": {_span(half)}' for name, half in halves.items())
        answer = await case.ask(
            "The record shows a stretch of the run in which the decisive failure was made. In "
            f"which half of it? The halves: {told}.",
            '- "half": "first" or "second".\n' + _REASON,
            [event for event in case.events if steps[0].seq <= event.seq <= steps[-1].seq],
            key="half",
        )
        half = answer["half"]
        if not isinstance(half, str) or half not in halves:
            raise NoAnswer(f"the answer names the half {half!r}")
        steps = halves[half]
        found.reason = reason_of(answer)
    found.role, found.step = steps[0].role, steps[0].seq


async def hybrid(case: Case, found: Attribution) -> None:
    """One call for the role, then a call for each step of that role, as step by step."""
    steps = await _of_role(case, found)
    await _first_of(case, steps, found)


async def role_then_step(case: Case, found: Attribution) -> None:
    """Two calls: the role, then which of its steps."""
    steps = await _of_role(case, found)
    answer = await case.ask(
        f"The decisive failure was made at one of these events, all by one role: "
        f"{', '.join(str(step.seq) for step in steps)}. At which?",
        '- "step": the number of the event.\n' + _REASON,
        case.events,
        key="step",
    )
    found.step = case.step(answer["step"], steps).seq
    found.reason = reason_of(answer)


async def _of_role(case: Case, found: Attribution) -> list[Event]:
    """Ask for the role; its steps."""
    answer = await case.ask(
        "Which role made the decisive failure?",
        '- "role": its name, as the record writes it.\n' + _REASON,
        case.events,
        key="role",
    )
    found.role = case.role(answer["role"])
    found.reason = reason_of(answer)
    steps = [step for step in case.steps if step.role == found.role]
    if not steps:
        raise NoAnswer(f"the role {found.role!r} has no step")
    return steps


async def _first_of(case: Case, steps: Sequence[Event], found: Attribution) -> None:
    """Go through `steps` until one is called decisive."""
    for step in steps:
        answer = await case.ask(
            f"The record shows the run up to event {step.seq}. Is what happens at event "
            f"{step.seq}, the last one shown, the decisive failure?",
            '- "decisive": true or false.\n' + _REASON,
            [event for event in case.events if event.seq <= step.seq],
            key="decisive",
        )
        said = answer["decisive"]
        if not isinstance(said, bool):
            raise NoAnswer(f"at event {step.seq} the answer is neither true nor false: {said!r}")
        if said:
            found.role, found.step, found.reason = step.role, step.seq, reason_of(answer)
            return
    raise NoAnswer("no step was called decisive")


def _span(steps: Sequence[Event]) -> str:
    return f"events {steps[0].seq} to {steps[-1].seq}"
