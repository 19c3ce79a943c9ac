"""Trajectories by hand, and a judge that answers as it is told, in the form that is asked for."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from rolecraft.models import Completion, FunctionModel, ModelCall
from rolecraft.trajectories import Event, Recorder, Trajectory


def marker_of(call: ModelCall) -> str:
    """The marker of the fence, as a judge finds it in the prompt."""
    found = re.search(r"The fence marker is (\w+)\.", call.messages[-1].content)
    assert found is not None
    return found[1]


@pytest.fixture
def trace() -> Callable[..., Trajectory]:
    """Makes a trajectory of events: `trace(Event(...), ..., goal=...)`."""

    def make(*events: Event, **about: Any) -> Trajectory:
        trajectory = Trajectory("t", about)
        recorder = Recorder(trajectory)
        for event in events:
            recorder.add(event)
        return trajectory

    return make


@pytest.fixture
def says() -> Callable[..., FunctionModel]:
    """Makes a judge's model that answers with these rows; `absent=True` fills in the others.

    `around` puts text before and after the JSON, `fields` replaces its fields.
    """

    def make(
        *rows: dict[str, Any],
        absent: bool = True,
        around: tuple[str, str] = ("", ""),
        finish: Any = "stop",
        **fields: Any,
    ) -> FunctionModel:
        def answer(call: ModelCall) -> Completion:
            asked = call.messages[-1].content.rsplit("described above: ", 1)[1].rstrip(".")
            named = {row.get("mode") for row in rows}
            rest = [
                {"mode": mode, "verdict": "absent", "confidence": 0.8}
                for mode in asked.split(", ")
                if mode not in named
            ]
            answered = {
                "marker": marker_of(call),
                "diagnosis": "The team did this and that.",
                "findings": [*rows, *(rest if absent else [])],
                **fields,
            }
            before, after = around
            return Completion(text=f"{before}{json.dumps(answered)}{after}", finish_reason=finish)

        return FunctionModel(answer)

    return make
