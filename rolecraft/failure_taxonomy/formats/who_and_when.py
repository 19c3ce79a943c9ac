"""Who&When logs (github.com/ag2ai/Agents_Failure_Attribution): one JSON object a run.

Invariant: a turn of the log is an event of the trajectory, with the turn's index as sequence
number and its text verbatim as content, so that steps in the log's labels and events here count
alike.

- `history[i]`: the speaker is `name`, or `role` in logs that have no names. `Orchestrator
  (thought)` becomes a thought of `Orchestrator`, `Orchestrator (-> WebSurfer)` its message to
  `WebSurfer`; the speaker as written is kept in `data["speaker"]`.
- Executed code and farewells: see `chat`.
- `question` becomes the task, `system_prompt` the roles.
- Everything else is a label or a note about the log (answer, failing agent and step, reason): it
  is kept in `about["labels"]`, where no detector and no judge looks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from rolecraft.errors import TraceError
from rolecraft.failure_taxonomy.formats.base import Format, Source
from rolecraft.failure_taxonomy.formats.chat import execution, says_farewell
from rolecraft.failure_taxonomy.formats.lines import account
from rolecraft.failure_taxonomy.labels import Blame, Labels
from rolecraft.messages import ALL
from rolecraft.trajectories.events import Event
from rolecraft.trajectories.trajectory import Trajectory

NAME = "who_and_when"
RECORDS = ("message", "thought", "tool_result")
"""The kinds of event that these logs show."""

_STAGE = re.compile(
    r"(?P<name>.+?)\s*\((?P<note>thought|termination condition|-> ?(?P<to>[^)]+))\)"
)
_OF_A_TURN = frozenset({"content", "name", "role"})
_SHOWN = frozenset({"history", "question", "system_prompt"})
_HEADER = frozenset({"question", "question_ID", "system_prompt"})


def _recognises(source: Source) -> bool:
    document = source.document
    if not isinstance(document, dict):
        return False
    turns = document.get("history")
    if not isinstance(turns, list) or not all(isinstance(turn, dict) for turn in turns):
        return False
    labelled = "mistake_agent" in document or "mistake_step" in document
    return labelled or ("question" in document and all("content" in turn for turn in turns))


def _load(source: Source) -> Trajectory:
    document = source.document
    if not isinstance(document, dict) or not isinstance(document.get("history"), list):
        reason = source.flaw or "a Who&When log is a JSON object with a list `history`"
        raise TraceError(source.path, reason)
    turns = document["history"]
    if not turns:
        raise TraceError(source.path, "`history` is empty: there is nothing to annotate")
    trajectory = Trajectory(
        str(document.get("question_ID") or source.path.stem),
        {
            "format": NAME,
            "records": list(RECORDS),
            "task": str(document.get("question") or ""),
            "roles": _roles(document.get("system_prompt")),
            "labels": {key: value for key, value in document.items() if key not in _SHOWN},
            "accounting": _account(document, turns),
        },
    )
    for index, turn in enumerate(turns):
        event, flaw = _event(turn, trajectory.events)
        event.seq = index
        event.time = index
        trajectory.events.append(event)
        if flaw:
            trajectory.problems.append(f"{source.path}: turn {index}: {flaw}")
    return trajectory


def _account(document: Mapping[str, Any], turns: Sequence[Any]) -> dict[str, Any]:
    """Every field of the log counts once, and every turn instead of the list of them."""
    header = len(_HEADER & document.keys())
    labels = len(document) - header - 1
    return account("element", events=len(turns), header=header, labels=labels)


def _roles(prompts: Any) -> list[dict[str, Any]]:
    if not isinstance(prompts, Mapping):
        return []
    return [{"name": str(name), "system": str(text)} for name, text in prompts.items()]


def _event(turn: Any, before: list[Event]) -> tuple[Event, str]:
    """One turn as an event, and what was odd about it."""
    if not isinstance(turn, dict):
        return Event("message", content=_text(turn), to=(ALL,)), "it is no object"
    content, flaw = _text(turn.get("content")), ""
    if not isinstance(turn.get("content"), str):
        flaw = "its content is no text and is kept as JSON"
    written = turn.get("name") or turn.get("role") or ""
    speaker = written if isinstance(written, str) else _text(written)
    if not speaker:
        flaw = "it names no speaker"
    data: dict[str, Any] = {}
    if turn.get("name") and turn.get("role"):
        data["as"] = turn["role"]
    others = {key: value for key, value in turn.items() if key not in _OF_A_TURN}
    if others:
        data["labels"] = others
    executed = execution(content, speaker, before[-1] if before else None)
    if executed is not None:
        executed.data = data | executed.data
        return executed, flaw
    stage = _STAGE.fullmatch(speaker)
    if stage is None:
        event = Event("message", role=speaker, content=content, to=(ALL,), data=data)
    else:
        data["speaker"] = speaker
        kind: Any = "thought" if stage["note"] == "thought" else "message"
        to = stage["to"] or ALL
        event = Event(kind, role=stage["name"], content=content, to=(to,), data=data)
    if says_farewell(content):
        data["farewell"] = True
    return event, flaw


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def _labels(trajectory: Trajectory) -> list[Labels]:
    """Who made the decisive mistake, and when; steps count from 0, as here.

    The failing agent need not be the speaker at the failing step.
    """
    said = trajectory.about["labels"]
    if "mistake_agent" not in said and "mistake_step" not in said:
        return []
    step = str(said.get("mistake_step", "")).strip()
    blame = Blame(str(said.get("mistake_agent") or ""), int(step) if step.isdecimal() else None)
    return [
        Labels(annotator="who_and_when", decisive=blame, note=str(said.get("mistake_reason") or ""))
    ]


FORMAT = Format(NAME, "a Who&When log (JSON)", _recognises, _load, (".json",), labels=_labels)
