"""Episodes with tokens, made by hand or played, and what their sequences were credited with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from rolecraft.environments import Task
from rolecraft.rewards import RewardBreakdown
from rolecraft.rollouts import collect, episodes
from rolecraft.scenarios import Episode
from rolecraft.scenarios.relay import relay
from rolecraft.training import TrainingSequence
from rolecraft.trajectories.events import Event, Signal, TokenSpan
from rolecraft.trajectories.trajectory import Trajectory, signal_event

Play = Callable[..., Episode]


def play_by_hand(
    turns: str,
    reward: float,
    *,
    task: str = "task",
    roles: dict[str, float] | None = None,
    tokens: int = 2,
    given: int = 2,
    signals: Sequence[Signal] = (),
    stop: str = "finished",
    more: Sequence[Event] = (),
) -> Episode:
    """An episode in which the roles take `turns`, one letter a turn, each with one session.

    Turn n is events 2n (a model call of `given` given and `tokens` sampled tokens) and 2n + 1
    (the message that came of it).
    """
    events: list[Event] = []
    lengths: dict[str, int] = {}
    for number, role in enumerate(turns):
        start = lengths.get(role, 0)
        lengths[role] = start + given + tokens
        span = TokenSpan(
            f"{role}/1",
            start,
            [100 + number] * given,
            [number] * tokens,
            [-0.5] * tokens,
        )
        events.append(Event("model_call", role=role, content=f"said {number}", tokens=span))
        events.append(Event("message", role=role, content=f"said {number}", to=("<all>",)))
    events += more
    events += map(signal_event, signals)
    events.append(Event("stop", data={"reason": stop}))
    for seq, event in enumerate(events):
        event.seq = seq
    return Episode(
        Task(task, f"do {task}"),
        Trajectory(task, events=events),
        RewardBreakdown(reward, {"reward": reward}, roles or {}),
    )


@pytest.fixture(scope="session")
def by_hand() -> Play:
    return play_by_hand


def _credited(sequence: TrainingSequence) -> list[float]:
    """The advantage of each turn; all its actions must have it, and nothing else any."""
    found: list[float] = []
    inside = [False] * len(sequence.ids)
    for turn in sequence.turns:
        (advantage,) = set(sequence.advantages[turn.start : turn.stop])
        found.append(advantage)
        inside[turn.start : turn.stop] = [True] * (turn.stop - turn.start)
    assert not any(a for a, i in zip(sequence.advantages, inside, strict=True) if not i)
    return found


@pytest.fixture(scope="session")
def credited() -> Callable[[TrainingSequence], list[float]]:
    return _credited


@pytest.fixture(scope="session")
def relay_played() -> Any:
    """Real episodes of `relay`, with rewards by role put in."""

    async def played(rewards: list[dict[str, float]], task_ids: list[str]) -> list[Episode]:
        model = relay.untrained(0)  # type: ignore[misc]
        tasks = [
            replace(task, id=task_id, seed=number)
            for number, (task, task_id) in enumerate(
                zip(relay.tasks.sample(len(rewards)), task_ids, strict=True)
            )
        ]
        return [
            replace(episode, reward=RewardBreakdown(0.0, {}, by_role))
            for episode, by_role in zip(
                episodes(await collect(relay, tasks, model=model)), rewards, strict=True
            )
        ]

    return played
