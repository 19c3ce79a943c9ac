"""Failure modes shape a reward, bounded, for success only, and by what can be shown."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolecraft.errors import UnknownName, UsageError
from rolecraft.failure_taxonomy import MODES
from rolecraft.failure_taxonomy.detectors import Repetition
from rolecraft.failure_taxonomy.view import TraceView
from rolecraft.rewards import FailureShaping, TeamMix, signal
from rolecraft.trajectories import Event, FailureFinding, Signal, Trajectory, signal_event

solved = signal("solved")
SAID = ("Here is the parser.", "It has a test now.", "The test passes.")


def run(solved: float, *said: str) -> Trajectory:
    trajectory = Trajectory("run", {"roles": [{"name": "coder"}]})
    events = [Event("message", role="user", content="Write a parser.")]
    events += [Event("message", role="coder", content=text) for text in said]
    events += [signal_event(Signal("solved", solved)), Event("stop", data={"reason": "finished"})]
    for seq, event in enumerate(events):
        event.seq = seq
    trajectory.write(events)
    return trajectory


def called(*commands: str) -> Trajectory:
    """A run in which the coder calls a tool with these commands, each with the same result."""
    trajectory = run(1.0, *SAID)
    calls = []
    for at, command in enumerate(commands):
        data = {"tool": "bash", "arguments": {"command": command}, "id": str(at)}
        calls.append(Event("tool_call", role="coder", data=data, seq=2 * at + 2))
        done = Event("tool_result", role="coder", content="a.py", data={"ok": True})
        calls.append(replace(done, cause=2 * at + 2, seq=2 * at + 3))
    rest = [replace(each, seq=each.seq + len(calls)) for each in trajectory.events[2:]]
    return Trajectory("run", trajectory.about, [*trajectory.events[:2], *calls, *rest])


def finding(verdict: str, *, source: str = "person:ann", quote: str = SAID[0]) -> FailureFinding:
    event = (1,) if verdict == "present" else ()
    role = "coder" if event else ""
    return FailureFinding("reset", verdict, event, role, quote, source=source)  # type: ignore[arg-type]


stored = FailureShaping(solved, most=0.2, modes=("reset",), from_findings=True)


@pytest.mark.parametrize(
    ("findings", "bonus"),
    [
        ([], 0.0),
        ([finding("absent")], 0.2),
        ([finding("unknown")], 0.0),
        ([finding("present")], 0.0),
        ([finding("absent"), finding("present")], 0.0),
        ([finding("absent", source="judge:openai/o3")], 0.0),
        ([finding("absent"), finding("present", source="judge:openai/o3")], 0.2),
        ([finding("absent"), finding("present", quote="never said")], 0.0),
    ],
    ids=["nothing", "absent", "unknown", "present", "both", "judge", "judge-against", "unproved"],
)
def test_only_what_is_shown_to_be_absent_earns(
    findings: list[FailureFinding], bonus: float
) -> None:
    breakdown = stored(run(1.0, *SAID), findings=findings)
    assert breakdown.shares == {"solved": 1.0, "failures": bonus}


def test_a_run_that_failed_earns_nothing_by_failing_cleanly() -> None:
    for value in (0.0, -1.0):
        assert stored(run(value, *SAID), findings=[finding("absent")]).value == value
    assert stored(run(0.5, *SAID), findings=[finding("absent")]).value == 0.6


def test_detectors_look_at_the_record_itself() -> None:
    shaped = FailureShaping(solved, most=0.2, detectors=[Repetition()])
    assert shaped(called("ls", "cat a.py")).shares["failures"] == 0.2
    assert shaped(called("ls", "ls", "ls", "ls")).shares["failures"] == 0
    everything = FailureShaping(solved)(run(1.0, *SAID))
    assert 0 < everything.shares["failures"] < 0.1
    assert everything.grounded
    assert everything == FailureShaping(solved)(run(1.0, *SAID)), "the same each time"


def test_the_record_is_looked_through_once_however_many_roles_there_are() -> None:
    looked: list[object] = []

    class Counted(Repetition):
        def judge(self, trace: Trajectory | TraceView) -> list[FailureFinding]:
            looked.append(trace)
            return super().judge(trace)

    shaped = FailureShaping(solved, most=0.2, detectors=[Counted()])
    trajectory = run(1.0, *SAID)
    trajectory.about["roles"] = [{"name": name} for name in ("coder", "tester", "boss")]
    mixed = TeamMix(signal("solved"), shaped, alpha={"coder": 0.0})(trajectory)
    assert len(looked) == 1
    assert mixed.roles == {"coder": 1.2, "tester": 1.2, "boss": 1.2}
    shaped(trajectory)
    assert len(looked) == 2, "another scoring looks again"


@given(
    st.floats(-2, 2),
    st.floats(0, 1),
    st.lists(
        st.tuples(
            st.sampled_from(list(MODES)),
            st.sampled_from(["present", "absent", "unknown"]),
            st.sampled_from(["person:ann", "repetition", "judge:m", "environment"]),
        )
    ),
)
def test_the_bonus_is_bounded_whatever_is_said(
    value: float, most: float, said: list[tuple[str, str, str]]
) -> None:
    shaped = FailureShaping(solved, most=most, modes=tuple(MODES), from_findings=True)
    findings = [FailureFinding(mode, verdict, source=source) for mode, verdict, source in said]  # type: ignore[arg-type]
    bonus = shaped(run(value, *SAID), findings=findings).shares["failures"]
    assert 0 <= bonus <= most * min(1.0, max(0.0, value))


def test_a_weak_check_earns_nothing_where_nobody_checked() -> None:
    modes = ("verification.weak",)
    shaped = FailureShaping(solved, modes=modes, from_findings=True)
    weak = FailureFinding("verification.weak", "absent", source="person:ann")
    checked = FailureFinding("verification.absent", "absent", source="person:ann")
    assert shaped(run(1.0, *SAID), findings=[weak]).shares["failures"] == 0
    assert shaped(run(1.0, *SAID), findings=[weak, checked]).shares["failures"] == 0.1


def test_what_shapes_may_not_outweigh_and_needs_a_record() -> None:
    with pytest.raises(UsageError, match="may not outweigh"):
        FailureShaping(solved, most=1.5)
    with pytest.raises(UsageError, match="looks for nothing"):
        FailureShaping(solved, detectors=[])
    with pytest.raises(UsageError, match="score a whole trajectory"):
        FailureShaping(solved)([Signal("solved", 1.0)])
    with pytest.raises(UnknownName, match="loops"):
        FailureShaping(solved, modes=("loops",))(run(1.0, *SAID))
