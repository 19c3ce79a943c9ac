"""On runs that real roles play by a script, shaping by failure modes pays for nothing but them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rolecraft.failure_taxonomy.planting import Check, Make, Script, Turn, Use
from rolecraft.rewards import FailureShaping, check_reward, signal
from rolecraft.trajectories import Signal, Trajectory, signal_event

SHAPED = FailureShaping(signal("solved"), most=0.2)
GOAL = {"artifacts": ["a.py"]}


def written(text: str = "print(1)") -> Turn:
    return Turn("coder", "WriteCode", does=[Make("a.py", text)], says=f"It is {text}.")


def looked(*, ok: bool = True) -> Turn:
    look = Use("read_file", {"path": "a.py"}, "it is empty", ok=ok)
    return Turn("coder", "Look", does=[look], says="Done.")


def checked(passed: bool = True) -> Turn:
    says = "All pass." if passed else "It fails."
    return Turn("tester", "RunTests", does=[Check("a.py", passed)], says=says)


UNCHECKED = Turn("tester", "RunTests", says="All pass.")
SCRIPTS = {
    "clean": Script([written(), checked()], goal=GOAL),
    "without a goal": Script([written(), checked()]),
    "mended": Script([written(), checked(False), written("print(2)"), checked()], goal=GOAL),
    "unchecked": Script([written(), UNCHECKED], goal=GOAL),
    "failing": Script([written(), checked(False)], goal=GOAL),
    "looking": Script([looked(), written(), checked()], goal=GOAL),
    "repeating": Script([*(looked() for _ in range(5)), written(), checked()], goal=GOAL),
    "failing tool": Script([looked(ok=False), written(), checked()], goal=GOAL),
}


async def played(name: str, solved: float) -> Trajectory:
    run = await SCRIPTS[name].play()
    seq = max(event.seq for event in run.events) + 1
    measured = replace(signal_event(Signal("solved", solved)), seq=seq)
    return Trajectory(name, run.about, [*run.events, measured])


@pytest.mark.parametrize("name", SCRIPTS)
async def test_no_manipulation_of_a_played_run_pays(name: str) -> None:
    runs = [await played(name, solved) for solved in (1.0, 0.5, 0.0)]
    check_reward(SHAPED, *runs)
    assert [SHAPED(each).shares["failures"] > 0 for each in runs] == [True, True, False]


async def test_what_is_shown_to_be_absent_makes_the_difference() -> None:
    bonus = {name: SHAPED(await played(name, 1.0)).shares["failures"] for name in SCRIPTS}
    assert bonus["clean"] > bonus["unchecked"]
    assert bonus["looking"] > bonus["repeating"]
