"""What a judge's finding has to show before it is believed.

Invariant: a `present` that leaves here names events of the trace, at least one of them among
those that this judge was shown, quotes what was shown of it in its own wording, and names its
author. Nothing of the instructions, of worked examples or of the judge's own notes can be quoted.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from rolecraft.failure_taxonomy.evidence import verified
from rolecraft.failure_taxonomy.judging.examples import quotes_example
from rolecraft.failure_taxonomy.judging.merging import Said
from rolecraft.models.defused import restore
from rolecraft.trajectories.events import Event, FailureFinding


def checked(
    rows: Sequence[FailureFinding],
    events: Mapping[int, Event],
    *,
    shown: Mapping[int, Sequence[str]],
    shots: int,
    dropped: list[str],
) -> Said:
    """The rows whose evidence holds; why there is none if all of it was made up.

    `events` are those of the whole trace that a judge may see, `shown` what it was shown of them.
    Each fault is added to `dropped`.
    """
    kept: list[FailureFinding] = []
    faults: list[str] = []
    for row in rows:
        result = _checked(row, events, shown, shots)
        if isinstance(result, str):
            faults.append(result)
            dropped.append(f"the finding `{row.mode}` {result}")
        else:
            kept.append(result)
    return kept or f"the evidence was dropped: the finding {faults[0]}"


def _checked(
    row: FailureFinding,
    events: Mapping[int, Event],
    shown: Mapping[int, Sequence[str]],
    shots: int,
) -> FailureFinding | str:
    if row.verdict != "present":
        return replace(row, events=(), role="", quote="")
    row = replace(row, role=role_as_written(row.role, {event.role for event in events.values()}))
    if row.events and not any(seq in shown for seq in row.events):
        seen = "was not shown" if row.events[0] in events else "does not exist"
        return f"names event {row.events[0]}, which {seen}"
    if not row.quote.strip():
        # Where nothing is quoted, the author must be that of an event which the judge has read.
        row = replace(
            row, events=tuple(seq for seq in row.events if seq in shown or seq not in events)
        )
    result = verified(row, events, shown=shown)
    if isinstance(result, str) and (copied := restore(row.quote)) != row.quote:
        result = verified(replace(row, quote=copied), events, shown=shown)
    if not isinstance(result, str) and quotes_example(result.quote, shots):
        return "quotes a worked example"
    return result


def role_as_written(name: str, known: Collection[str]) -> str:
    """The role as the trace has it: heads write "nobody", and runs of white space as one."""
    name = restore(name)
    if name in known:
        return name
    if name == "nobody":
        return ""
    return next((role for role in known if " ".join(role.split()) == " ".join(name.split())), name)
