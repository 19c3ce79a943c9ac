"""What the ledger says of a trajectory: its cost, its tools, its reasoning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rolecraft.rollouts.batch.conversations import Conversation
from rolecraft.rollouts.batch.ledger import ToolCount
from rolecraft.trajectories.costs import costs
from rolecraft.trajectories.trajectory import Trajectory


def usage_fields(trajectory: Trajectory) -> dict[str, Any]:
    """The fields of an `Entry` that say what it cost."""
    usage = trajectory.usage
    return {
        "calls": usage.calls,
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "usd": usage.usd,
        "unpriced": costs(trajectory).total.unpriced,
    }


def measures(trajectory: Trajectory, talks: Sequence[Conversation]) -> dict[str, Any]:
    """The fields of an `Entry` that a trajectory fills."""
    answers = [turn for talk in talks for turn in talk.answers]
    return {
        **usage_fields(trajectory),
        "turns": len(answers),
        "reasoned": sum(turn.thought for turn in answers),
        "tools": tool_counts(trajectory),
        "invented": invented(talks),
    }


def tool_counts(trajectory: Trajectory) -> tuple[ToolCount, ...]:
    """Calls, successes and errors of each tool that was called, by name.

    A call without a result, which was cut off, is neither a success nor an error.
    """
    names: dict[int, str] = {}
    counts: dict[str, list[int]] = {}
    for event in trajectory.of("tool_call", "tool_result"):
        if event.kind == "tool_call":
            name = names[event.seq] = str(event.data.get("tool", ""))
            counts.setdefault(name, [0, 0, 0])[0] += 1
        elif event.cause in names:
            counts[names[event.cause]][1 if event.data.get("ok") else 2] += 1
    return tuple(
        ToolCount(tool=name, count=count, success=success, error=error)
        for name, (count, success, error) in sorted(counts.items())
    )


def invented(talks: Sequence[Conversation]) -> tuple[str, ...]:
    """Names that models called and were not offered, also where such a tool exists elsewhere."""
    return tuple(sorted({name for talk in talks for name in talk.invented}))
