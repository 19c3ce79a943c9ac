"""While a judge reads, searches or checks a long trace, the event loop is free for others."""

from __future__ import annotations

import json
import re
import threading

import pytest

from rolecraft.failure_taxonomy import Judge
from rolecraft.failure_taxonomy.attribution import STRATEGIES, Attributor, case
from rolecraft.failure_taxonomy.judging import reading, searching
from rolecraft.messages import ToolCall
from rolecraft.models import Completion, FunctionModel
from rolecraft.trajectories import Event, Trajectory


@pytest.fixture
def long_trace():
    """A trace of several windows."""
    events = [
        Event("message", role=("ann", "ben")[at % 2], content=f"step {at} " + "la " * 300, seq=at)
        for at in range(30)
    ]
    return Trajectory("long", {}, events)


@pytest.fixture
def threads(monkeypatch):
    """The threads in which whole traces are gone through, by what is done there."""
    seen = {}

    def note(module, name):
        real = getattr(module, name)

        def noting(*args, **options):
            seen.setdefault(f"{module.__name__.rpartition('.')[2]}.{name}", set()).add(
                threading.current_thread()
            )
            return real(*args, **options)

        monkeypatch.setattr(module, name, noting)

    for module, name in (
        (reading, "make_marker"),
        (reading, "checked"),
        (searching, "make_marker"),
        (searching, "_place"),
        (case, "make_marker"),
    ):
        note(module, name)
    return seen


def marker_of(call):
    return re.search(r"The fence\s+marker is (\w+)\.", call.messages[0].content)[1]


async def test_windows_and_searches_are_gone_through_in_threads(long_trace, threads):
    def answer(call):
        if call.tools and call.messages[-1].role != "tool":
            look = ToolCall("search_events", {"text": "step 29"}, id="c1")
            return Completion(text="", tool_calls=[look], finish_reason="tool_calls")
        question = next(m for m in reversed(call.messages) if "described above: " in m.content)
        modes = question.content.rsplit("described above: ", 1)[1].rstrip(".").split(", ")
        rows = [{"mode": mode, "verdict": "absent"} for mode in modes]
        return json.dumps({"marker": marker_of(call), "diagnosis": "d", "findings": rows})

    opinion = await Judge(FunctionModel(answer), window=5000).judge(long_trace)
    assert opinion.windows > 1
    assert set(threads) == {
        "reading.make_marker",
        "reading.checked",
        "searching.make_marker",
        "searching._place",
    }
    assert all(threading.current_thread() not in where for where in threads.values())


@pytest.mark.parametrize("strategy", [name for name in STRATEGIES if name != "evidence-first"])
async def test_a_record_is_written_down_in_threads(long_trace, threads, strategy):
    def answer(call):
        said = {"role": "ann", "step": 0, "half": "first", "decisive": True, "reason": "r"}
        return json.dumps({"marker": marker_of(call), **said})

    found = await Attributor(FunctionModel(answer), strategy=strategy).attribute(long_trace)
    assert (found.role, found.step) == ("ann", 0)
    assert threading.current_thread() not in threads["case.make_marker"]
