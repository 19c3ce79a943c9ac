"""On every planted script: what is found while it is played is found afterwards as well."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rolecraft.failure_taxonomy import DETECTORS, LiveDetectors
from rolecraft.failure_taxonomy.view import TraceView
from rolecraft.trajectories import FailureFinding, Trajectory

SEEDS = 2


def families() -> Iterator[Any]:
    """All families of the test files beside this one."""
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        if path.name in (Path(__file__).name, "test_in_logs.py"):
            continue
        spec = importlib.util.spec_from_file_location(f"planted_{path.stem}", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module  # dataclasses look there for their module
        spec.loader.exec_module(module)
        for name in ("POSITIVE", "NEGATIVE"):
            for family in getattr(module, name, ()):
                yield pytest.param(family, id=f"{path.stem}-{family.__name__}")


def watch(trajectory: Trajectory, live: LiveDetectors) -> None:
    """Tell a run as it happened, round by round; its end is no round."""
    events = trajectory.events
    for event, after in zip(events, [*events[1:], None], strict=True):
        live.on_event(event)
        if after is not None and after.time > event.time:
            live.on_round(trajectory.about)


def place(finding: FailureFinding) -> tuple[str, str, int]:
    return finding.mode, finding.role, finding.events[0]


@pytest.mark.parametrize("window", [400, 12])
@pytest.mark.parametrize("family", list(families()))
async def test_what_is_found_live_is_found_afterwards(
    family: Any, window: int, draw_of: Callable[[str], Any]
) -> None:
    for seed in range(SEEDS):
        trajectory = await family(draw_of(f"{family.__name__}/{seed}")).play()
        live = LiveDetectors(window=window)
        watch(trajectory, live)
        view = TraceView(trajectory)
        said = [finding for detector in DETECTORS for finding in detector.judge(view)]
        after = {place(finding) for finding in said if finding.verdict == "present"}
        assert {place(finding) for finding in live.found} <= after
        assert [f for f in live.findings if f.verdict == "present"] == [
            f for f in said if f.verdict == "present"
        ]


async def test_most_planted_failures_of_the_middle_of_a_run_are_found_while_it_goes_on(
    draw_of: Callable[[str], Any],
) -> None:
    """What ends with the last round is found afterwards only."""
    found = planted = 0
    for param in families():
        if param.id.split("-")[0] not in ("test_repetition", "test_reset"):
            continue
        (family,) = param.values
        trajectory = await family(draw_of(f"{family.__name__}/0")).play()
        live = LiveDetectors(window=12)
        watch(trajectory, live)
        present = [f for f in live.findings if f.verdict == "present"]
        time = {event.seq: event.time for event in trajectory.events}
        last = trajectory.events[-1].time
        early = {f.mode for f in present if time[max(f.events)] < last}
        planted += len(early)
        found += len(early & {f.mode for f in live.found})
    assert planted >= 5
    assert found == planted
