"""AgentRx traces (github.com/microsoft/AgentRx): failed runs with labelled failure steps.

Two forms: `steps` of `substeps` with `role` and `content` (its own form of any trace, in which the
calls of a tau-bench run stand as JSON in the text), and `traj`, the messages of a tau-bench run. A
file may hold one, or many as lines or a list; rows with `failures` and a `root_cause`, in the same
file, are the labels of the row with their `trajectory_id`. Each event has in `data["step"]` the
number of its step, which counts from 1 and is what the labels name. What a simulated user was
secretly told, the reward and the labels stand in `about["labels"]`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rolecraft.errors import TraceError
from rolecraft.failure_taxonomy.formats._otlp import get
from rolecraft.failure_taxonomy.formats._said import Part, Said, as_arguments, as_text, read_message
from rolecraft.failure_taxonomy.formats._telling import Telling
from rolecraft.failure_taxonomy.formats._values import (
    first_record,
    one_or_all,
    records,
    values,
)
from rolecraft.failure_taxonomy.formats.base import Format, Source
from rolecraft.failure_taxonomy.formats.chat import turn_event
from rolecraft.failure_taxonomy.formats.openai_messages import tell_messages
from rolecraft.failure_taxonomy.labels import Blame, Labels
from rolecraft.trajectories.trajectory import Trajectory

NAME = "agentrx"

_STEPS = ("message", "thought", "tool_result")
_MESSAGES = ("message", "thought", "tool_call", "tool_result")


def _recognises(source: Source) -> bool:
    first = first_record(source)
    return _steps(first) is not None or _messages(first) is not None or _is_label(first)


def _steps(record: Any) -> list[Any] | None:
    steps = get(record, "steps")
    if not isinstance(steps, list) or not steps:
        return None
    whole = all(isinstance(get(step, "substeps"), list) for step in steps)
    return steps if whole else None


def _messages(record: Any) -> list[Any] | None:
    messages = get(record, "traj")
    known = isinstance(messages, list) and messages and isinstance(messages[0], dict)
    return messages if known and "role" in messages[0] else None


def _is_label(record: Any) -> bool:
    return (
        isinstance(record, dict)
        and "trajectory_id" in record
        and isinstance(record.get("failures"), list)
    )


def _load(source: Source) -> Trajectory | list[Trajectory]:
    return one_or_all(_traces(source))


def _traces(source: Source) -> Iterator[Trajectory]:
    found = records(source)
    _, flaws = values(source)
    labels = {_plain(record["trajectory_id"]): record for record in found if _is_label(record)}
    traces = [each for each in found if _steps(each) is not None or _messages(each) is not None]
    if not traces:
        said = "there are no `steps` or `traj` in it"
        if labels:
            said = "only labels are in it: put its lines into one file with those of the traces"
        raise TraceError(source.path, said)
    taken = set(map(id, traces))  # compared by what they hold, it would take their number squared
    other = sum(id(each) not in taken and not _is_label(each) for each in found)
    names: set[str] = set()
    for number, record in enumerate(traces):
        name = as_text(get(record, "trajectory_id", "task_id", "id")) or str(number)
        name = name if name not in names else f"{name}-{number}"
        names.add(name)
        trajectory = _trace(name, record, labels.get(_plain(name)))
        trajectory.problems += [f"{source.path}: {flaw}" for flaw in flaws]
        if other:
            trajectory.problems.append(f"{source.path}: {other} records are no traces")
        yield trajectory


def _plain(name: Any) -> str:
    """Names of one data set differ in a prefix: `tau_retail_2` and `2`."""
    return as_text(name).removeprefix("tau_retail_")


_OF_TAU = frozenset({"system", "user", "assistant", "tool"})
_SHOWN = frozenset({"steps", "traj", "instruction", "trajectory_id", "task_id"})


def _trace(name: str, record: Mapping[str, Any], label: Any) -> Trajectory:
    about: dict[str, Any] = {"format": NAME}
    trajectory = Trajectory(name, about)
    telling = Telling(trajectory)
    steps = _steps(record)
    if steps is not None:
        roles = {as_text(get(turn, "role")) for step in steps for turn in step["substeps"]}
        of_tau = roles <= _OF_TAU
        about["records"] = list(_MESSAGES if of_tau else _STEPS)
        if record.get("instruction") and not of_tau:
            about["task"] = as_text(record["instruction"])
        _tell_steps(telling, steps)
    else:
        about["records"] = list(_MESSAGES)
        for number, message in enumerate(_messages(record) or (), start=1):
            first = len(trajectory.events)
            tell_messages(telling, [message])
            index = get(message, "index")
            for event in trajectory.events[first:]:
                event.data["step"] = index if isinstance(index, int) else number
    labels = {key: value for key, value in record.items() if key not in _SHOWN}
    if "instruction" in record and "task" in about and about["task"] != record["instruction"]:
        labels["instruction"] = record["instruction"]  # told to the simulated user alone
    if isinstance(label, Mapping):
        labels |= {key: value for key, value in label.items() if key != "trajectory_id"}
    if labels:
        about["labels"] = labels
    return telling.finish()


def _tell_steps(telling: Telling, steps: list[Any]) -> None:
    trajectory = telling.trajectory
    for number, step in enumerate(steps, start=1):
        index = step.get("index")
        for turn in step["substeps"]:
            first = len(trajectory.events)
            said = _of_tau(turn)
            if said is not None:
                telling.says("", said)
            else:
                _tell_turn(telling, turn, number)
            for event in trajectory.events[first:]:
                event.data["step"] = index if isinstance(index, int) else number


def _tell_turn(telling: Telling, turn: Any, number: int) -> None:
    """A turn of Magentic-One or of any other system, as in Who&When's logs."""
    trajectory = telling.trajectory
    event, flaw = turn_event(turn, trajectory.events)
    event.data.pop("labels", None)
    event.seq = event.time = len(trajectory.events)
    trajectory.events.append(event)
    telling.counts["events" if event.role else "unsegmented"] += 1
    if flaw:
        trajectory.problems.append(f"step {number}: {flaw}")


def _of_tau(turn: Any) -> Said | None:
    """A turn of a tau-bench run; None for any other."""
    role, content = get(turn, "role"), get(turn, "content")
    if not isinstance(content, str):
        return None
    if role == "tool":
        return Said("tool", [Part("result", content)])
    if role in ("system", "user"):
        return Said(role, [Part("text", content)])
    if role != "assistant":
        return None
    at = content.find("[\n") if content.startswith("[") else content.find("\n\n[\n")
    calls = as_arguments(content[at:]) if at >= 0 else None
    said = read_message({"role": "assistant", "tool_calls": calls})
    if not isinstance(calls, list) or said is None or len(said.parts) != len(calls):
        return None
    text = content[:at].strip()
    return Said("assistant", [*([Part("text", text)] if text else []), *said.parts])


def _labels(trajectory: Trajectory) -> list[Labels]:
    """The root cause: whose failure it was, at which event; and whether the task was done."""
    said = trajectory.about.get("labels", {})
    root = get(said, "root_cause_failure_id") or get(get(said, "root_cause"), "failure_id")
    listed = said.get("failures")
    listed = listed if root is not None and isinstance(listed, list) else ()
    failures = [each for each in listed if isinstance(each, dict)]
    failure = next((f for f in failures if as_text(f.get("failure_id")) == as_text(root)), None)
    reward = said.get("reward")
    measured = isinstance(reward, (int, float)) and reward == reward  # NaN says nothing
    outcome = reward >= 1 if measured else None
    if failure is None:
        return [Labels(annotator=NAME, outcome=outcome)] if outcome is not None else []
    number = as_text(failure.get("step_number"))
    at = [
        event.seq
        for event in trajectory.events
        if number.isdecimal() and event.data.get("step") == int(number)
    ]
    blame = Blame(as_text(failure.get("failed_agent")), at[0] if at else None)
    note = as_text(failure.get("step_reason") or said.get("root_cause_reason"))
    return [Labels(annotator=NAME, decisive=blame, outcome=outcome, note=note)]


FORMAT = Format(
    NAME, "AgentRx traces and tau-bench runs (JSON or JSON lines)", _recognises, _load,
    labels=_labels,
)  # fmt: skip
