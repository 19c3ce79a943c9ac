"""Blame helps where it should: few attempts a step, and every failure has a known author."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

torch.set_num_threads(1)
BENCHMARK = Path(__file__).parents[3] / "benchmarks" / "credit_ablation.py"


@pytest.fixture
def ablation() -> ModuleType:
    spec = importlib.util.spec_from_file_location("credit_ablation", BENCHMARK)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
async def test_blame_that_is_right_teaches_what_the_teams_reward_alone_does_not_yet(
    ablation: ModuleType,
) -> None:
    """The first two rows of docs/credit.md, with a seed that the table has: 0.20 and 0.83."""
    kinds = {kind.name: kind for kind in ablation.KINDS}
    alone = await ablation.train(kinds["team reward"], 1, 40)
    blamed = await ablation.train(kinds["blame, half is moved"], 1, 40)
    assert blamed.final > 0.6
    assert blamed.final > alone.final + 0.2


def test_the_benchmark_blames_exactly_who_failed(ablation: ModuleType) -> None:
    """Else the table would say nothing."""
    import asyncio

    from rolecraft.rollouts import collect, episodes
    from rolecraft.scenarios.relay import relay

    assert relay.untrained is not None
    played = episodes(asyncio.run(collect(relay, relay.tasks.sample(24), model=relay.untrained(0))))
    for episode in played:
        measured = {s.name: s.value for s in episode.trajectory.signals}
        blamed = [finding.role for finding in ablation.at_fault(episode)]
        assert ("planner" in blamed) == (measured["relay.register"] == 0)
        assert ("executor" in blamed) == (measured["relay.sum"] == 0)
        wrong = [finding.role for finding in ablation.sometimes_wrong(1.0)(episode)]
        assert sorted(wrong) == sorted({"planner", "executor"} - set(blamed)) or not blamed
