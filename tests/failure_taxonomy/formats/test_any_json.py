"""Whatever JSON a file holds: an importer makes a trajectory whose account adds up, or says in one
`TraceError` why not."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rolecraft.errors import TraceError
from rolecraft.failure_taxonomy.formats import FORMATS, read_all
from rolecraft.failure_taxonomy.formats.base import Source
from rolecraft.failure_taxonomy.view import TraceView
from rolecraft.trajectories.codec import encode_event

FILES = Path(__file__).parent / "files"
OURS = ("agentrx", "langsmith", "langfuse", "openinference", "otel", "openai_messages")

MADE = {
    "openinference_spans.jsonl": "openinference",
    "phoenix_table.json": "openinference",
    "langsmith_runs.jsonl": "langsmith",
    "langgraph_runs.jsonl": "langsmith",
    "langfuse_trace.json": "langfuse",
    "langfuse_observations.jsonl": "langfuse",
    "langfuse_spans.jsonl": "otel",
    "pydantic_ai_spans.jsonl": "otel",
    "agentrx_ir.jsonl": "agentrx",
}

KEYS = st.sampled_from(
    re.findall(
        r"\S+",
        """
        id traceId trace_id span_id context name type run_type parent_id parent_run_id
        child_runs runs inputs outputs input output observations startTime start_time end_time
        attributes events resourceSpans scopeSpans spans key value stringValue arrayValue values
        messages role content tool_calls function arguments parts message lc kwargs data steps
        substeps traj index failures trajectory_id root_cause reward extra metadata
        usage_metadata dotted_order score status openinference.span.kind llm.input_messages
        gen_ai.operation.name gen_ai.input.messages gen_ai.prompt.0.content gen_ai.prompt.x to
        text to annotations error level usage
        """,
    )
)
WORDS = st.sampled_from(
    ["user", "assistant", "system", "tool", "llm", "chain", "LLM", "AGENT", "GENERATION", "chat",
     "invoke_agent", "execute_tool", "human", "ai", "tool_call", "constructor", "function_call",
     "2026-11-21T09:00:00Z", "[]", '{"role": "user"}', "a", ""]
)  # fmt: skip
ATOMS = st.none() | st.booleans() | st.integers() | st.floats() | WORDS | st.text(max_size=6)
VALUES = st.recursive(
    ATOMS,
    lambda below: (
        st.lists(below, max_size=4) | st.dictionaries(KEYS | st.text(max_size=4), below, max_size=6)
    ),
    max_leaves=30,
)
ROWS = st.lists(st.dictionaries(KEYS, VALUES, max_size=8) | VALUES, min_size=1, max_size=4)


def check(path: Path, name: str) -> None:
    try:
        for imported in read_all(path, format=name):
            trajectory = imported.trajectory
            account = dict(trajectory.about["accounting"])
            account.pop("unit")
            assert sum(account.values()) == 2 * account["total"]
            assert [event.seq for event in trajectory.events] == list(range(len(trajectory.events)))
            view = TraceView.of(trajectory)
            assert view.steps is not None
            for event in trajectory.events:
                assert event.cause is None or event.cause < event.seq
                encode_event(event)
    except TraceError:
        pass


@pytest.mark.parametrize("name", OURS)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow,
          HealthCheck.function_scoped_fixture])  # fmt: skip
@given(rows=ROWS, whole=st.booleans())
def test_any_json_is_a_trace_or_one_clear_error(
    name: str, rows: list[Any], whole: bool, tmp_path: Path
) -> None:
    text = json.dumps(rows) if whole else "".join(json.dumps(row) + "\n" for row in rows)
    path = tmp_path / "any.json"
    path.write_text(text)
    check(path, name)
    for known in OURS:
        FORMATS[known].recognises(Source(path))


def places(value: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to every part of a value."""
    found = [way] if way else []
    if isinstance(value, dict):
        parts = list(value.items())
    else:
        parts = list(enumerate(value)) if isinstance(value, list) else []
    for key, part in parts:
        found += places(part, (*way, key))
    return found


@pytest.mark.parametrize("file", MADE)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow,
          HealthCheck.function_scoped_fixture])  # fmt: skip
@given(data=st.data())
def test_a_real_file_with_one_part_spoiled_is_still_read(
    file: str, data: st.DataObject, tmp_path: Path
) -> None:
    text = (FILES / file).read_text()
    rows = json.loads(text) if file.endswith(".json") else [
        json.loads(line) for line in text.splitlines()
    ]  # fmt: skip
    *way, last = data.draw(st.sampled_from(places(rows)))
    at = rows
    for step in way:
        at = at[step]
    at[last] = data.draw(VALUES)
    path = tmp_path / "any.json"
    path.write_text(json.dumps(rows))
    check(path, MADE[file])


def test_bytes_numbers_and_depths_that_break_parsers_are_one_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "odd.json"
    for text in ('{"messages": ["\xff', "[" * 100_000, '{"messages": ' + "9" * 5000 + "}"):
        path.write_bytes(text.encode("latin-1"))
        for name in OURS:
            with pytest.raises(TraceError):
                list(read_all(path, format=name))
