"""The planted families with seeds that hypothesis draws, and numbers and noise without meaning.

A run's verdict must not hang on the seed of a script, on how events are numbered, or on signals
that were measured beside it.
"""

from __future__ import annotations

import asyncio
import importlib.util
import random
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rolecraft.failure_taxonomy import detectors
from rolecraft.failure_taxonomy.detectors import Detector
from rolecraft.failure_taxonomy.planting import wilson
from rolecraft.trajectories import Event, Trajectory

FOLDER = Path(__file__).parent
MEASURED: list[tuple[str, Detector, str]] = [
    ("test_task", detectors.TaskSpec(), "task_spec"),
    ("test_constraints", detectors.Constraints(), "task_spec"),
    ("test_role", detectors.RoleSpec(), "role_spec"),
    ("test_repetition", detectors.Repetition(), "repetition"),
    ("test_history", detectors.HistoryLoss(), "history_loss"),
    ("test_termination", detectors.TerminationUnaware(), "termination_unaware"),
    ("test_reset", detectors.Reset(), "reset"),
    ("test_ignored", detectors.IgnoredInput(), "ignored_input"),
    ("test_claims", detectors.ReasonAction(), "reason_action"),
    ("test_premature_end", detectors.PrematureEnd(), "premature_end"),
    ("test_verification", detectors.VerificationAbsent(), "verification.absent"),
    ("test_weak", detectors.WeakVerification(), "verification.weak"),
]


@cache
def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"varied_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def renumbered(trajectory: Trajectory, seed: int) -> Trajectory:
    """The same run with gaps in the numbers of its events, and with signals that mean nothing."""
    draw = random.Random(seed)
    events: list[Event] = []
    now: dict[int, int] = {}
    seq = draw.randint(0, 9)
    for event in trajectory.events:
        if draw.random() < 0.3:
            noise = {"name": "noise", "value": draw.random()}
            events.append(Event("signal", data=noise, time=event.time, seq=seq))
            seq += draw.randint(1, 4)
        now[event.seq] = seq
        cause = None if event.cause is None else now.get(event.cause, event.cause)
        events.append(replace(event, seq=seq, cause=cause))
        seq += draw.randint(1, 4)
    return Trajectory(trajectory.id, trajectory.about, events)


def seen(detector: Detector, mode: str, trajectory: Trajectory) -> bool:
    said = detector.judge(trajectory)
    return any(finding.mode == mode and finding.verdict == "present" for finding in said)


@pytest.mark.parametrize(("name", "detector", "mode"), MEASURED, ids=[m[0] for m in MEASURED])
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**9), data=st.data())
def test_a_verdict_hangs_on_what_happened_alone(
    name: str, detector: Detector, mode: str, seed: int, data: Any
) -> None:
    module = load(name)
    planted = data.draw(st.booleans())
    families = module.POSITIVE if planted else module.NEGATIVE
    family = data.draw(st.sampled_from(families), label="family")
    trajectory = asyncio.run(family(load("conftest").Draw(str(seed))).play())
    assert seen(detector, mode, trajectory) is planted
    assert seen(detector, mode, renumbered(trajectory, seed)) is planted


@pytest.mark.parametrize(
    ("hits", "total", "low", "high"),
    [(0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (8, 10, 0.4902, 0.9433), (0, 0, 0.0, 1.0)],
)
def test_the_interval_of_a_share_is_wilsons(hits: int, total: int, low: float, high: float) -> None:
    """Reference values: R's `prop.test(…, correct = FALSE)`."""
    assert wilson(hits, total) == pytest.approx((low, high), abs=5e-5)


ENDINGS = {"premature_end", "verification.absent", "verification.weak", "termination_unaware"}


@pytest.mark.parametrize(
    ("name", "detector", "mode"),
    [m for m in MEASURED if m[0] != "test_repetition"],
    ids=[m[0] for m in MEASURED if m[0] != "test_repetition"],
)
async def test_a_failure_that_is_seen_while_the_run_goes_on_is_one_at_its_end(
    name: str, detector: Detector, mode: str
) -> None:
    """What has not ended cannot lack an end: no verdict before the stop hangs on one.

    Repetition waits for what follows, and has tests of its own. Logs without stops are read whole.
    """
    module = load(name)
    for family in [*module.POSITIVE, *module.NEGATIVE]:
        whole = await family(load("conftest").Draw(f"{family.__name__}/live")).play()
        if "records" in whole.about:
            continue
        at_the_end = seen(detector, mode, whole)
        for length in range(1, len(whole.events)):
            part = Trajectory(whole.id, whole.about, whole.events[:length])
            assert at_the_end or not seen(detector, mode, part), (family.__name__, length)
            if mode in ENDINGS and not any(event.kind == "stop" for event in part.events):
                assert not any(
                    f.mode == mode and f.verdict == "absent" for f in detector.judge(part)
                )
