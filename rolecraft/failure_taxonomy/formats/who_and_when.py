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

from collections.abc import Mapping, Sequence
from typing import Any

from rolecraft.errors import TraceError
from rolecraft.failure_taxonomy.formats.base import Format, Source
from rolecraft.failure_taxonomy.formats.chat import turn_event
from rolecraft.failure_taxonomy.formats.lines import account
from rolecraft.failure_taxonomy.labels import Blame, Labels
from rolecraft.trajectories.trajectory import Trajectory

NAME = "who_and_when"
RECORDS = ("message", "thought", "tool_result")
"""The kinds of event that these logs show."""

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
        event, flaw = turn_event(turn, trajectory.events)
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
