"""AgentRx traces: its own steps, tau-bench messages, and the labels beside them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rolecraft.errors import TraceError
from rolecraft.failure_taxonomy import annotate, read, recognise
from rolecraft.failure_taxonomy.formats import read_all


def step(index: int, *said: tuple[str, str]) -> dict[str, Any]:
    turns = [
        {"sub_index": number, "role": role, "content": content}
        for number, (role, content) in enumerate(said, start=1)
    ]
    return {"index": index, "substeps": turns}


TRACE = {
    "trajectory_id": "5614",
    "instruction": "How old was the painter?",
    "steps": [
        step(1, ("human", "How old was the painter?")),
        step(2, ("Orchestrator (thought)", "I ask."), ("Orchestrator (-> WebSurfer)", "Find it.")),
        step(3, ("WebSurfer", "I found another painter.")),
        step(4, ("Orchestrator", "FINAL ANSWER: 40")),
    ],
}
LABEL = {
    "trajectory_id": "5614",
    "failure_summary": "SECRET wrong painter",
    "failures": [
        {"failure_id": "1", "step_number": 3, "step_reason": "SECRET took the first hit",
         "failure_category": "Misinterpretation of Tool Output", "failed_agent": "WebSurfer"},
        {"failure_id": "2", "step_number": 4, "failure_category": "Intent-Plan Misalignment",
         "failed_agent": "Orchestrator"},
    ],
    "root_cause": {"failure_id": 1, "reason_for_root_cause": "SECRET"},
}  # fmt: skip
TAU = {
    "task_id": 12,
    "reward": 0.0,
    "info": {"task": {"instruction": "SECRET", "actions": []}},
    "traj": [
        {"role": "system", "content": "# Retail policy", "index": 1},
        {"role": "user", "content": "I want to return it.", "index": 2},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "call_D", "type": "function",
                 "function": {"name": "find_user", "arguments": '{"email": "mia@example.com"}'}}
            ],
            "index": 3,
        },
        {"role": "tool", "tool_call_id": "call_D", "name": "find_user", "content": "mia_4516",
         "index": 4},
        {"role": "assistant", "content": "Which order?", "index": 5},
    ],
}  # fmt: skip


def write(path: Path, *rows: Any) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_steps_become_events_that_know_their_step(tmp_path: Path) -> None:
    path = write(tmp_path / "trace.json", TRACE)
    assert recognise(path) == "agentrx"
    trajectory = read(path)
    assert [(e.kind, e.role, e.to, e.data["step"]) for e in trajectory.events] == [
        ("message", "human", ("<all>",), 1),
        ("thought", "Orchestrator", ("<all>",), 2),
        ("message", "Orchestrator", ("WebSurfer",), 2),
        ("message", "WebSurfer", ("<all>",), 3),
        ("message", "Orchestrator", ("<all>",), 4),
    ]
    assert trajectory.about["task"] == "How old was the painter?"
    assert trajectory.id == "5614"
    assert trajectory.about["accounting"]["events"] == 5


async def test_labels_in_the_same_file_are_joined_and_say_whose_failure_it_was(
    tmp_path: Path,
) -> None:
    path = write(tmp_path / "traces.jsonl", TRACE, LABEL)
    (imported,) = read_all(path)
    (labels,) = imported.labels
    assert labels.trace == str(path)
    assert labels.decisive is not None
    assert (labels.decisive.role, labels.decisive.step) == ("WebSurfer", 3)
    assert imported.trajectory.events[3].role == "WebSurfer"
    assert labels.note == "SECRET took the first hit"
    trajectory = imported.trajectory
    assert "SECRET" not in repr([trajectory.events, {**trajectory.about, "labels": None}])
    assert "SECRET" not in (await annotate(trajectory)).to_json()


def test_labels_alone_are_no_trace(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="only labels"):
        read(write(tmp_path / "labels.jsonl", LABEL, LABEL))


def test_a_tau_bench_run_has_calls_and_its_secrets_are_labels(tmp_path: Path) -> None:
    path = tmp_path / "12.json"
    path.write_text(json.dumps(TAU, indent=2))
    assert recognise(path) == "agentrx"
    (imported,) = read_all(path)
    trajectory = imported.trajectory
    assert [(e.kind, e.role, e.data["step"]) for e in trajectory.events] == [
        ("message", "user", 2),
        ("tool_call", "assistant", 3),
        ("tool_result", "assistant", 4),
        ("message", "assistant", 5),
    ]
    assert trajectory.events[2].cause == 1
    assert trajectory.about["roles"][0]["system"] == "# Retail policy"
    assert trajectory.about["labels"].keys() == {"reward", "info"}
    assert "SECRET" not in repr([trajectory.events, {**trajectory.about, "labels": None}])
    assert [labels.outcome for labels in imported.labels] == [False]


def test_many_runs_as_a_list_and_labels_with_another_prefix(tmp_path: Path) -> None:
    path = tmp_path / "all.json"
    runs = [{**TRACE, "trajectory_id": f"tau_retail_{n}"} for n in (1, 2)]
    path.write_text(json.dumps([*runs, {**LABEL, "trajectory_id": "2"}]))
    first, second = read_all(path)
    assert (first.labels, len(second.labels)) == ((), 1)
    assert second.name == f"{path}#tau_retail_2"


@pytest.mark.parametrize(
    "said",
    [
        {"reward": float("nan")},
        {"failures": 3, "root_cause": 1},
        {"failures": [{"step_number": 1, "failed_agent": "user"}]},  # which is the root, none says
    ],
)
def test_labels_that_say_nothing_are_none(tmp_path: Path, said: dict[str, Any]) -> None:
    path = tmp_path / "run.json"
    path.write_text(json.dumps({"traj": [{"role": "user", "content": "Hello"}], **said}))
    (imported,) = read_all(path)
    assert imported.labels == ()


def test_many_runs_take_time_in_proportion_to_their_number(tmp_path: Path, growth: Any) -> None:
    def reads(count: int) -> Callable[[], object]:
        path = tmp_path / f"{count}.jsonl"
        run = {"traj": [{"role": "user", "content": "Hello"}], "reward": 1}
        path.write_text("".join(json.dumps(run | {"task_id": n}) + "\n" for n in range(count)))

        def work() -> None:
            assert len(list(read_all(path))) == count

        return work

    growth(reads, 600, 4_800, at_most=8 * 4)


def test_files_of_its_own_converter_have_calls_and_keep_what_a_user_was_told_apart() -> None:
    """In its form of a tau-bench run calls stand in the text, and `instruction` is a secret."""
    tau, magentic = read_all(Path(__file__).parent / "files" / "agentrx_ir.jsonl")
    events = tau.trajectory.events
    assert [(e.kind, e.role, e.data["step"], e.cause) for e in events] == [
        ("message", "user", 2, None),
        ("message", "assistant", 3, None),
        ("tool_call", "assistant", 3, 1),
        ("tool_result", "assistant", 4, 2),
        ("tool_call", "assistant", 5, None),
        ("tool_result", "assistant", 6, 4),
        ("message", "assistant", 7, None),
    ]
    assert events[1].content == "Let me see."
    assert events[2].data["arguments"] == {"email": "mia@example.com"}
    about = tau.trajectory.about
    assert about["labels"] == {"instruction": "SECRET"}
    assert about["task"] == "I want to return it."
    assert "SECRET" not in repr([events, {**about, "labels": None}])
    assert magentic.trajectory.about["task"] == "How old was the painter?"
    assert [e.role for e in magentic.trajectory.events][1:3] == ["Orchestrator"] * 2
