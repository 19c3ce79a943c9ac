"""Files of OpenInference, LangSmith and Langfuse, made by these libraries: one trip, many files.

The program is the same each time: a searcher asks a model, calls a tool, answers; a booker books.
How the files were made stands in `files/README.md`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rolecraft.failure_taxonomy import annotate, read, recognise
from rolecraft.failure_taxonomy.formats import read_all
from rolecraft.failure_taxonomy.formats._said import Part
from rolecraft.failure_taxonomy.formats._spans import Span, tell_spans
from rolecraft.failure_taxonomy.view import TraceView
from rolecraft.failure_taxonomy.windows import visible
from rolecraft.trajectories import Trajectory

FILES = Path(__file__).parent / "files"

TRIP = [
    ("openinference_spans.jsonl", "openinference", "Searcher", "Booker"),
    ("phoenix_table.json", "openinference", "Searcher", "Booker"),
    ("langsmith_runs.jsonl", "langsmith", "searcher", "booker"),
    ("langgraph_runs.jsonl", "langsmith", "searcher", "booker"),
    ("langfuse_trace.json", "langfuse", "searcher", "booker"),
    ("langfuse_observations.jsonl", "langfuse", "searcher", "booker"),
    ("langfuse_spans.jsonl", "otel", "searcher", "booker"),
]


def account(trajectory: Trajectory) -> dict[str, int]:
    parts = dict(trajectory.about["accounting"])
    assert parts.pop("unit") == "element"
    total = parts.pop("total")
    assert sum(parts.values()) == total
    return parts


@pytest.mark.parametrize(("file", "name", "searcher", "booker"), TRIP)
def test_a_trip_is_told_once_in_its_order_with_who_said_it(
    file: str, name: str, searcher: str, booker: str
) -> None:
    path = FILES / file
    assert recognise(path) == name
    (imported,) = read_all(path)
    assert imported.name == str(path)
    trajectory = imported.trajectory
    shown = [e for e in trajectory.events if not (e.role == booker and e.kind.startswith("tool"))]
    assert [(event.role, event.content) for event in shown] == [
        ("user", "Fly me to Lima on Friday."),
        (searcher, "Let me look."),
        (searcher, ""),
        (searcher, shown[3].content),
        (searcher, "Flight LA2369 leaves on Friday."),
        (booker, "Booked LA2369."),
    ]
    call, result = shown[2:4]
    assert (call.kind, call.data["tool"], call.cause) == ("tool_call", "search_flights", 1)
    assert call.data["arguments"] == {"to": "LIM", "day": "Friday"}
    assert (result.kind, result.cause, result.data["id"]) == ("tool_result", call.seq, "call_7")
    assert "LA2369" in result.content
    assert trajectory.about["task"] == "Fly me to Lima on Friday."
    assert trajectory.about.get("workflow") in {"trip", "LangGraph", None}
    assert (trajectory.about.get("workflow") is None) == (file == "langfuse_observations.jsonl")
    systems = {role["name"]: role["system"] for role in trajectory.about["roles"]}
    assert systems == {searcher: "You find flights.", booker: "You book."}
    assert trajectory.usage.prompt_tokens >= 20
    assert account(trajectory)["unsegmented"] == 0
    assert account(trajectory)["repeated"] > 0
    assert not trajectory.problems


@pytest.mark.parametrize(("file", "name", "searcher", "booker"), TRIP)
async def test_what_was_scored_is_a_label_and_nothing_else(
    file: str, name: str, searcher: str, booker: str
) -> None:
    trajectory = read(FILES / file)
    if "SECRET" not in (FILES / file).read_text():
        assert "labels" not in trajectory.about
        return
    assert "SECRET" in json.dumps(trajectory.about["labels"])
    view = TraceView.of(trajectory)
    assert "SECRET" not in "".join(event.content for event in visible(view))
    assert "SECRET" not in repr([trajectory.events, {**trajectory.about, "labels": None}])
    assert "SECRET" not in (await annotate(trajectory)).to_json()


def test_a_tool_that_failed_says_so() -> None:
    trajectory = read(FILES / "langfuse_trace.json")
    (failed,) = [e for e in trajectory.of("tool_result") if e.data.get("ok") is False]
    assert (failed.role, failed.content) == ("booker", "card refused")


def test_an_agent_whose_answer_is_recorded_and_whose_task_is_not_has_a_task() -> None:
    """pydantic-ai's agent spans have the result alone; the task is in the first model call."""
    trajectory = read(FILES / "pydantic_ai_spans.jsonl")
    assert [(e.kind, e.role, e.content) for e in trajectory.events] == [
        ("message", "user", "Fly me to Lima on Friday."),
        ("model_call", "searcher", "Let me look."),
        ("tool_call", "searcher", ""),
        ("tool_result", "searcher", '["LA2369"]'),
        ("message", "searcher", "Flight LA2369 leaves on Friday."),
    ]
    assert trajectory.about["task"] == "Fly me to Lima on Friday."
    assert trajectory.about["roles"][0]["system"] == "You find flights."


def runs() -> list[dict[str, Any]]:
    return [json.loads(row) for row in (FILES / "langsmith_runs.jsonl").read_text().splitlines()]


def test_feedback_and_references_of_langsmith_are_labels(tmp_path: Path) -> None:
    given = runs()
    given[0] |= {
        "feedback_stats": {"correct": {"n": 1, "avg": 0.0, "comments": ["SECRET"]}},
        "reference_outputs": {"answer": "SECRET"},
    }
    given[0]["extra"]["metadata"]["reward"] = "SECRET"
    path = tmp_path / "runs.json"
    path.write_text(json.dumps(given))
    trajectory = read(path)
    (labels,) = trajectory.about["labels"]["spans"].values()
    assert labels.keys() == {"feedback_stats", "reference_outputs", "metadata.reward"}
    assert "SECRET" not in repr([trajectory.events, {**trajectory.about, "labels": None}])


@pytest.mark.parametrize(
    ("outputs", "text"),
    [
        (
            {"output": [{"content": "a page", "score": 0.9}]},
            '[{"content": "a page", "score": 0.9}]',
        ),
        ({"text": "half", "rest": "of it"}, '{"text": "half", "rest": "of it"}'),
        ({"output": "plain"}, "plain"),
    ],
)
def test_a_tools_result_is_told_whole(outputs: Any, text: str, tmp_path: Path) -> None:
    given = runs()
    tool = next(run for run in given if run["run_type"] == "tool")
    tool["outputs"] = outputs
    path = tmp_path / "runs.json"
    path.write_text(json.dumps(given))
    (result,) = read(path).of("tool_result")
    assert result.content == text


@pytest.mark.parametrize(
    ("outputs", "text"),
    [
        ({"verdict": "pass", "reason": "it runs"}, '{"verdict": "pass", "reason": "it runs"}'),
        ({"answer": "42", "plan": "think"}, '{"answer": "42", "plan": "think"}'),
        ({"answer": "42", "model": "gpt", "score": 0.1}, "42"),
        ({"text": "42", "usage": {"input_tokens": 3}}, "42"),
    ],
)
def test_a_structured_answer_is_told_whole(outputs: Any, text: str, tmp_path: Path) -> None:
    given = [run for run in runs() if run["run_type"] != "tool"]
    given = [run for run in given if run["name"] in ("ChatOpenAI", "booker")][-1:]
    given[0].pop("parent_run_id")
    given[0]["outputs"] = outputs
    path = tmp_path / "runs.json"
    path.write_text(json.dumps(given))
    assert read(path).events[-1].content == text


def test_runs_that_are_nested_say_the_same_as_runs_in_lines(tmp_path: Path) -> None:
    flat = {run["id"]: {**run, "child_runs": []} for run in runs()}
    for run in flat.values():
        if run.get("parent_run_id"):
            flat[run["parent_run_id"]]["child_runs"].append(run)
    root = next(run for run in flat.values() if not run.get("parent_run_id"))
    for run in flat.values():
        for key in ("parent_run_id", "trace_id", "dotted_order"):
            run.pop(key, None)
    root["trace_id"] = root["id"]
    path = tmp_path / "nested.json"
    path.write_text(json.dumps(root))
    assert read(path).events == read(FILES / "langsmith_runs.jsonl").events


def test_several_traces_in_a_file_are_several_trajectories(tmp_path: Path) -> None:
    text = (FILES / "langsmith_runs.jsonl").read_text()
    path = tmp_path / "runs.jsonl"
    path.write_text(text + text.replace("01a1ff9c", "02b2ff9c") + '{"no": "run"}\n')
    first, second = read_all(path)
    assert first.name != second.name
    assert len(first.trajectory.events) == len(second.trajectory.events)
    assert account(first.trajectory)["unsegmented"] == 1
    assert "1 records are no runs" in first.trajectory.problems[0]


def test_the_order_of_a_file_does_not_matter(tmp_path: Path) -> None:
    for name in ("langsmith_runs.jsonl", "langfuse_observations.jsonl",
                 "openinference_spans.jsonl"):  # fmt: skip
        lines = (FILES / name).read_text().splitlines(keepends=True)
        path = tmp_path / name
        path.write_text("".join(reversed(lines)))
        assert read(path).events == read(FILES / name).events


def observed(given: Any, returned: Any, **of_trace: Any) -> dict[str, Any]:
    call = {"type": "GENERATION", "startTime": "2026-11-21T09:00:00Z"}
    return {"id": "t", **of_trace, "observations": [{**call, "input": given, "output": returned}]}


@pytest.mark.parametrize(
    "record",
    [
        observed("Reply in JSON.", '{"answer": "forty", "score": 2}'),
        {
            "id": "r",
            "trace_id": "r",
            "run_type": "llm",
            "inputs": {"prompts": ["Reply in JSON."]},
            "outputs": {"generations": [[{"text": '{"answer": "forty", "score": 2}'}]]},
        },
    ],
)
def test_json_that_a_model_says_is_told_as_it_was_said(
    record: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(record))
    assert [event.content for event in read(path).events] == [
        "Reply in JSON.",
        '{"answer": "forty", "score": 2}',
    ]


@pytest.mark.parametrize("wrap", [lambda state: state, lambda state: {"all": [1, {"in": state}]}])
def test_an_outcome_within_what_was_returned_is_shown_to_nobody(wrap: Any, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    state = {"answer": "forty", "draft": "thirty", "is_correct": "SECRET", "reward": ["SECRET"]}
    path.write_text(json.dumps(observed("Hi", "there", output={"state": wrap(state)})))
    said = " ".join(event.content for event in read(path).events)
    assert "thirty" in said
    assert "SECRET" not in said


REFERENCES: list[dict[str, Any]] = [
    {"question": "How many?", "reference": {"answer": "SECRET"}},
    {"question": "How many?", "expected": "SECRET", "topic": "wrens"},
    {"question": "How many?", "ground_truth": "SECRET"},
    {"inputs": {"question": "How many?"}, "reference_outputs": {"answer": "SECRET"}},
    {"state": {"question": "How many?", "topic": "wrens", "gold_answer": ["SECRET"]}},
    {"question": "How many?", "topic": "wrens", "expected_result": "SECRET"},
    {"messages": [{"role": "user", "content": "How many?"}], "golden": "SECRET"},
]


def of_langsmith(asked: Any) -> Any:
    run = {"id": "r", "trace_id": "r", "run_type": "chain", "name": "x"}
    call = {**run, "id": "c", "parent_run_id": "r", "run_type": "llm"}
    told = {"messages": [{"role": "assistant", "content": "Two."}]}
    return [{**run, "inputs": asked}, {**call, "inputs": asked, "outputs": told}]


def of_langfuse(asked: Any) -> Any:
    return observed(asked, "Two.", input=asked)


def of_openinference(asked: Any) -> Any:
    said = {"openinference.span.kind": "LLM", "input.value": json.dumps(asked)}
    said["output.value"] = "Two."
    return span_with(said)


def of_otel(asked: Any) -> Any:
    said = {"traceloop.span.kind": "workflow", "traceloop.entity.input": json.dumps(asked)}
    said["traceloop.entity.output"] = "Two."
    return span_with(said)


def span_with(attributes: dict[str, Any]) -> Any:
    context = {"trace_id": "0x1", "span_id": "0x2"}
    return {"name": "x", "context": context, "parent_id": None, "attributes": attributes,
            "start_time": "2026-11-21T09:00:00Z", "end_time": "2026-11-21T09:00:01Z"}  # fmt: skip


@pytest.mark.parametrize("form", [of_langsmith, of_langfuse, of_openinference, of_otel])
@pytest.mark.parametrize("asked", REFERENCES, ids=[next(reversed(r)) for r in REFERENCES])
def test_a_reference_among_the_inputs_is_a_label_and_is_shown_to_nobody(
    form: Any, asked: Any, tmp_path: Path
) -> None:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(form(asked)))
    trajectory = read(path)
    assert "How many?" in trajectory.events[0].content
    assert "SECRET" not in repr([trajectory.events, {**trajectory.about, "labels": None}])
    assert "SECRET" in json.dumps(trajectory.about["labels"])


def test_what_is_asked_about_a_reference_is_told(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(of_langsmith({"reference": "Genesis 1", "expected_format": "JSON"})))
    assert json.loads(read(path).events[0].content) == {
        "reference": "Genesis 1",
        "expected_format": "JSON",
    }


@pytest.mark.parametrize("form", ["tool", "retriever"])
def test_what_a_tool_is_asked_to_expect_is_told(form: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    asked = {"text": "a", "expected": "b"}
    rows = of_langsmith({"question": "How many?"})
    rows[1] |= {"run_type": form, "inputs": asked}
    path.write_text(json.dumps(rows))
    (call,) = read(path).of("tool_call")
    assert call.data["arguments"] == asked


@pytest.mark.parametrize("form", ["langsmith", "langfuse", "otel"])
def test_a_record_that_is_none_may_be_of_any_trace_of_its_file(form: str, tmp_path: Path) -> None:
    rows: list[Any] = []
    for trace in ("1", "2"):
        asked: dict[str, Any] = {"question": "How many?"}
        if form == "langsmith":
            rows += [{**run, "trace_id": trace} for run in of_langsmith(asked)[:1]]
        elif form == "langfuse":
            rows.append({**of_langfuse(asked), "id": trace})
        else:
            rows.append(of_otel(asked) | {"context": {"trace_id": trace, "span_id": trace}})
        if form == "langsmith":
            rows[-1]["id"] = trace
    path = tmp_path / "trace.json"
    path.write_text(json.dumps([*rows, {"odd": 1}]))
    both = [imported.trajectory for imported in read_all(path)]
    assert len(both) == 2
    assert all("1 records are no" in "".join(each.problems) for each in both)
    assert [account(each)["unsegmented"] for each in both] == [1, 0]


def test_deep_nesting_takes_time_in_proportion_to_its_depth(growth: Any) -> None:
    def tells(count: int) -> Callable[[], object]:
        spans = [Span(str(n), parent=str(n - 1), kind="other") for n in range(count)]

        def work() -> None:
            tell_spans(Trajectory("t"), reversed(spans))
            tell_spans(Trajectory("t"), spans)

        return work

    growth(tells, 1_000, 16_000, at_most=16 * 5)


def test_spans_that_claim_to_be_in_each_other_are_all_told() -> None:
    tool = {"kind": "tool", "tool": Part("call", name="look"), "returns": True}
    spans = [Span(str(n), parent=str((n + 1) % 5), **tool) for n in range(5)]  # type: ignore[arg-type]
    spans.append(Span("own", parent="own", **tool))  # type: ignore[arg-type]
    assert len(list(tell_spans(Trajectory("t"), spans).of("tool_result"))) == 6


def test_many_observations_take_time_in_proportion_to_their_number(
    tmp_path: Path, growth: Any
) -> None:
    def reads(count: int) -> Callable[[], object]:
        path = tmp_path / f"{count}.json"
        listed = [
            {
                "id": f"o{number}",
                "traceId": "t",
                "type": "GENERATION",
                "startTime": f"2026-11-21T{number // 3600:02}:{number // 60 % 60:02}:00Z",
                "input": f"question {number}",
                "output": f"answer {number}",
            }
            for number in range(count)
        ]
        path.write_text(json.dumps({"id": "t", "observations": listed}))

        def work() -> None:
            assert len(read(path).events) == 2 * count

        return work

    growth(reads, 500, 4_000, at_most=8 * 4)
