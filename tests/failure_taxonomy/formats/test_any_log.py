"""Any bytes: what cannot be read is a `TraceError`, and what can be is accounted for, fast."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rolecraft.errors import TraceError
from rolecraft.failure_taxonomy.formats import FORMATS, read_all
from rolecraft.failure_taxonomy.formats.lines import PARTS
from rolecraft.failure_taxonomy.formats.logs import SEGMENTERS, plain, segment
from rolecraft.failure_taxonomy.formats.mad import record_trace
from rolecraft.trajectories import Trajectory

FILES = Path(__file__).parent / "files"
LOGS = sorted(FILES.glob("*.log"))
OURS = (
    *("who_and_when", "mad", "mast_lint", "mast_trace", "ag2", "hyperagent", "chatdev"),
    *("openmanus", "metagpt", "ag2_console", "autogen", "appworld", "text"),
)
PIECES = [
    "HyperAgent_x - INFO - Planner's Response: Thought: a",
    "HyperAgent_x - INFO - Navigator->Planner: b",
    "HyperAgent_x - INFO - Initialized HyperAgent instance x",
    "Action:",
    "```python",
    "```",
    "Subgoal: s",
    "[2025-17-01 11:36:46 INFO] A: **A<->B on : C, turn 0**",
    "[2025-17-01 11:36:46 INFO] **[Update Codes]**",
    "[prompt]",
    "2025-01-17 11:40:27.872 | INFO     | m.r:_act:391 - A(B): to do C(C)",
    "=== MetaGPT Agent Communication Log - Started",
    "[2025-03-27 01:21:03] FROM: Human TO: {'<all>'}",
    "[2025-03-27 01:21:11] NEW MESSAGES:",
    "-" * 80,
    "Coder: hello",
    "ada (to ben):",
    ">>>>>>>> TERMINATING RUN (x): Maximum turns (3) reached",
    "***** Suggested tool call (1): f *****",
    "---------- ToolCallRequestEvent (ada) ----------",
    "[FunctionCall(id='1', arguments='{', name='f')]",
    "---------- Summary ----------",
    "SCENARIO.PY STARTING !#!#",
    "    Response from Spotify Agent",
    "Code Execution Output",
    "{'content': ['a'], 'role': 'b', 'name': 'c'}",
    "      content:",
    "instance_id: 1",
    "trajectory:",
    "note:",
    "exitcode: 1 (execution failed)",
    "TERMINATE",
    "",
    "some text",
    "\x00\ud800"[:1],
]


def adds_up(trajectory: Trajectory) -> bool:
    counts = trajectory.about["accounting"]
    return bool(counts["total"] == sum(counts[part] for part in PARTS))


def in_order(trajectory: Trajectory) -> bool:
    numbered = [event.seq for event in trajectory.events] == list(range(len(trajectory.events)))
    starts = [event.data["lines"][0] for event in trajectory.events]
    causes = all(event.cause is None or event.cause < len(starts) for event in trajectory.events)
    return numbered and causes and starts == sorted(starts)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.sampled_from(PIECES), max_size=25))
def test_logs_put_together_at_random_are_split_in_order_and_accounted_for(lines: list[str]) -> None:
    text = "\n".join(lines)
    for known in SEGMENTERS.values():
        trajectory = known.segment(text).trajectory("x", where="x")
        assert adds_up(trajectory)
        assert in_order(trajectory)
        odd = [event for event in trajectory.events if event.data.get("unsegmented")]
        assert bool(odd) == bool(trajectory.problems)
    assert adds_up(plain.segment(text).trajectory("x", where="x"))


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(content=st.one_of(st.binary(max_size=300), st.text(max_size=300).map(str.encode)))
def test_any_bytes_are_a_trace_or_one_clear_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "any"
    path.write_bytes(content)
    for name in (None, *OURS):
        try:
            traces = list(read_all(path, format=name))
        except TraceError:
            continue
        assert all(adds_up(imported.trajectory) for imported in traces)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(
                st.sampled_from(
                    ["content", "role", "name", "tool_calls", "tool_responses", "trajectory"]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    )
)
def test_any_value_as_the_trace_of_a_record_is_read_and_accounted_for(value: object) -> None:
    trajectory = record_trace({"mas_name": "AG2", "trace": value}, name="x", where="x")
    assert adds_up(trajectory)


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_a_spoiled_log_is_still_read(path: Path, tmp_path: Path) -> None:
    """Each tenth of the lines lost in turn; and line ends of another system."""
    lines = path.read_text().splitlines()
    step = max(len(lines) // 10, 1)
    for at in range(0, len(lines), step):
        log, _ = segment("\n".join([*lines[:at], *lines[at + step :]]), path.stem)
        trajectory = log.trajectory("x", where="x")
        assert adds_up(trajectory)
        assert in_order(trajectory)
    spoiled = tmp_path / path.name
    spoiled.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    (imported,) = read_all(spoiled)
    (whole,) = read_all(path)
    assert [(e.kind, e.role, e.content) for e in imported.trajectory.events] == [
        (e.kind, e.role, e.content) for e in whole.trajectory.events
    ]


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_the_time_grows_with_the_length_and_not_faster(path: Path, growth: Any) -> None:
    """Eight times the text takes about eight times as long; squared it would be 64 times."""
    text = path.read_text()
    name = next(name for name, known in FORMATS.items() if name in OURS and name == _name(path))

    def reads(size: int) -> Callable[[], object]:
        whole = text * (size // len(text) + 1)
        return lambda: segment(whole, name)[0].trajectory("x", where="x")

    growth(reads, 100_000, 800_000, at_most=30)


def _name(path: Path) -> str:
    (imported,) = read_all(path)
    return str(imported.trajectory.about["format"])
