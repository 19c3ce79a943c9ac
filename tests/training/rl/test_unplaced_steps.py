"""A name in `Credit.steps` that places nothing is told, once: a wrong one would change nothing."""

from __future__ import annotations

from dataclasses import replace

import torch

from rolecraft.scenarios.relay import relay
from rolecraft.training import FROM_SCRATCH, Credit, train
from rolecraft.training.credit.scored import Scored
from rolecraft.training.rl.checks import policy
from rolecraft.training.rl.scoring import unplaced

torch.set_num_threads(1)

SMALL = replace(FROM_SCRATCH, group=2, epochs=1, advantage="returns")


async def told(name: str) -> list[str]:
    warnings: list[str] = []
    credit = Credit(steps={name: 1.0}, baseline="none")
    how = {"algorithm": SMALL, "credit": credit, "steps": 2, "tasks_per_step": 1}
    await train(relay, warn=warnings.append, **how)  # type: ignore[arg-type]
    return warnings


async def test_a_name_that_no_episode_has_is_told_once_with_the_nearest() -> None:
    (warning,) = await told("relay.regster")
    assert "'relay.regster' moves no reward: none of 2 episodes has it" in warning
    assert "did you mean 'relay.register'?" in warning


async def test_a_signal_that_is_nowhere_in_a_trained_turn_is_told_as_that() -> None:
    (task,) = relay.tasks.sample(1)
    episode = await relay.play(task, model=policy(relay, None, 0))
    scored = Scored(sequences=[], placed={"relay.correct": 0, "relay.sum": 1})
    (why,) = unplaced(scored, [episode]).values()
    assert "none of 1 episodes has it with the `step` of a turn that is trained" in why
    assert unplaced(scored, []) == {}
