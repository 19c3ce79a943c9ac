"""What blame is worth: `relay` learnt from the team's reward, with and without knowing who failed.

    python benchmarks/credit_ablation.py              # a Markdown table, as in docs/credit.md
    python benchmarks/credit_ablation.py --steps 120 --only "team reward"

In `relay` an episode fails because the planner read another register than was asked for, because
the executor added wrongly, or both; what the environment measured says exactly who. Every kind of
credit trains the same untrained team on the same tasks with the same few attempts a step, from the
team's reward alone but for the last row. The same arguments on the same machine give the same
table, but for the seconds, which are of the processor.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

import torch

from rolecraft.environments import Task
from rolecraft.models.hashing import hash64
from rolecraft.rollouts import collect, episodes
from rolecraft.rollouts.heap import set_aside
from rolecraft.scenarios import Episode
from rolecraft.scenarios.relay import relay
from rolecraft.training import Algorithm, Blame, Credit, Trainer, assign
from rolecraft.trajectories.events import FailureFinding, Signal

ALGORITHM = Algorithm(group=8, advantage="dr_grpo", epochs=4, learning_rate=1e-3, entropy=0.01)
TASKS = 24
LAST = 10
"""Steps at the end whose mean reward is reported."""
LEARNT = 0.8
MEASURES = {"planner": "relay.register", "executor": "relay.sum"}
"""Of each role, the signal that is 0 when it failed."""

Findings = Callable[[Episode], list[FailureFinding]]


def at_fault(episode: Episode) -> list[FailureFinding]:
    """Who failed, exactly."""
    return [_finding(episode, role) for role in MEASURES if not _measured(episode, role).value]


def sometimes_wrong(share: float) -> Findings:
    """The same, but of this share of episodes the others are blamed."""

    def findings(episode: Episode) -> list[FailureFinding]:
        right = at_fault(episode)
        seed = f"{episode.task.id}/{episode.task.seed}"
        if not right or random.Random(seed).random() >= share:
            return right
        guilty = {finding.role for finding in right}
        return [_finding(episode, role) for role in MEASURES if role not in guilty]

    return findings


def _measured(episode: Episode, role: str) -> Signal:
    (signal,) = (s for s in episode.trajectory.signals if s.name == MEASURES[role])
    return signal


def _finding(episode: Episode, role: str) -> FailureFinding:
    step = _measured(episode, role).step
    assert step is not None
    said = episode.trajectory.events[step]
    return FailureFinding(
        "task_spec",
        "present",
        events=(said.seq,),
        role=role,
        quote=said.content,
        source="benchmark",
    )


def own_rewards(episode: Episode) -> Episode:
    """Each role is rewarded for what was measured of it: what no outcome alone can say."""
    roles = {role: _measured(episode, role).value for role in MEASURES}
    return replace(episode, reward=replace(episode.reward, roles=roles))


@dataclass(frozen=True)
class Kind:
    """A row of the table."""

    name: str
    credit: Credit
    findings: Findings | None = None
    rewards: Callable[[Episode], Episode] = lambda episode: episode


def team(**blame: Any) -> Credit:
    return Credit(reward="team", blame=Blame(findings="all", **blame) if blame else None)


KINDS = (
    Kind("team reward", team()),
    Kind("blame, half is moved", team(share=0.5), at_fault),
    Kind("blame, all is moved", team(share=1.0), at_fault),
    Kind("blame, all, and a charge of 0.25", team(share=1.0, charge=0.25), at_fault),
    Kind("blame, all, wrong in 3 of 10 episodes", team(share=1.0), sometimes_wrong(0.3)),
    Kind("blame, all, always wrong", team(share=1.0), sometimes_wrong(1.0)),
    Kind("blame, all, by the detectors", team(share=1.0, modes=["task_spec"])),
    Kind("rewards of their own", Credit(), rewards=own_rewards),
)


@dataclass(frozen=True)
class Curve:
    rewards: list[float]
    seconds: float

    @property
    def final(self) -> float:
        return fmean(self.rewards[-LAST:])

    @property
    def learnt(self) -> int | None:
        """The first step whose mean with the four before it reaches `LEARNT`."""
        for step in range(4, len(self.rewards)):
            if fmean(self.rewards[step - 4 : step + 1]) >= LEARNT:
                return step
        return None


async def train(kind: Kind, seed: int, steps: int) -> Curve:
    """Train an untrained team; one optimiser, one model for both roles."""
    assert relay.untrained is not None
    model: Any = relay.untrained(seed)
    trainer = Trainer(model.module, ALGORITHM)
    rewards, began = [], time.process_time()
    gc.disable()  # the episodes of a step live until it ends: nothing to collect meanwhile
    with set_aside():
        for step in range(steps):
            tasks = attempts(seed, step)
            played = episodes(await collect(relay, tasks, model=model, concurrency=len(tasks)))
            rewards.append(fmean(episode.reward.value for episode in played))
            said = [kind.findings(each) for each in played] if kind.findings else None
            rewarded = [kind.rewards(each) for each in played]
            scored = assign(rewarded, ALGORITHM, credit=kind.credit, findings=said)
            trainer.update(scored.sequences)
            model.version += 1
            gc.collect()
    gc.enable()
    return Curve(rewards, time.process_time() - began)


def attempts(seed: int, step: int) -> list[Task]:
    drawn = relay.tasks.sample(TASKS, seed=hash64(seed, step))
    return [
        replace(task, seed=hash64(seed, step, number, attempt))
        for number, task in enumerate(drawn)
        for attempt in range(ALGORITHM.group)
    ]


def row(kind: Kind, curves: list[Curve]) -> str:
    finals = " ".join(f"{curve.final:.2f}" for curve in curves)
    learnt = " ".join("-" if curve.learnt is None else str(curve.learnt) for curve in curves)
    mean = fmean(curve.final for curve in curves)
    return f"| {kind.name} | {mean:.2f} | {finals} | {learnt} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seeds", type=int, default=3, help="how many, from 0 (default: 3)")
    parser.add_argument("--steps", type=int, default=40, help="of each training (default: 40)")
    parser.add_argument("--only", default="", help="rows whose name has this in it")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(
        f"| credit | reward, last {LAST} of {options.steps} steps | each seed | {LEARNT} at step |"
    )
    print("|---|---|---|---|")
    seconds = 0.0
    for kind in (kind for kind in KINDS if options.only in kind.name):
        curves = []
        for seed in range(options.seeds):
            curves.append(asyncio.run(train(kind, seed, options.steps)))
            seconds += curves[-1].seconds
        print(row(kind, curves), flush=True)
    print(f"{seconds:.0f} processor seconds", file=sys.stderr)


if __name__ == "__main__":
    main()
