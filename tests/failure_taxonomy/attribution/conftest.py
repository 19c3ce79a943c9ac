"""A run with one planted mistake, and a model that finds it by what it is shown.

The planted step has a sign in its text; the model finds the step by that sign, inside the fence,
and answers whatever it is asked about it.
"""

from __future__ import annotations

import json
import re

import pytest

from rolecraft.failure_taxonomy.report import Report
from rolecraft.models import Completion, FunctionModel
from rolecraft.trajectories import Event, FailureFinding, Usage

SIGN = "it is surely 12 and not 13"
ROLES = ("ann", "ben", "cleo")


@pytest.fixture
def run(trace):
    """A run of `steps` messages after the user's; step number `at` (a seq) has the sign."""

    def make(steps=16, at=5, *, filler="", sign=SIGN, **about):
        events = [Event("message", role="user", content="Add 6 and 7.", to=("ann",))]
        for seq in range(1, steps + 1):
            said = f"I say, {sign}." if seq == at else f"I am at step {seq}. {filler}"
            events.append(Event("message", role=ROLES[seq % 3], content=said))
        events.append(Event("signal", data={"name": "right", "value": 0.0}))
        return trace(*events, **about)

    return make


class Reader:
    """Answers every kind of question from what stands in the fence."""

    def __init__(self, sign=SIGN, **changes):
        self.sign = sign
        self.changes = changes
        """Fields of answers to replace, by name."""
        self.model = FunctionModel(self.answer, name="reader")

    def answer(self, call):
        system, record = call.messages[0].content, call.messages[-1].content
        marker = re.search(r"The fence\s+marker is (\w+)\.", system)[1]
        parts = re.split(rf"(?m)^{marker} ", record)
        events, candidates = {}, {}
        for part in parts:
            head, _, text = part.partition("\n")
            if found := re.match(r"event (\d+): \w+, (.*?)(?: to .*| \(the first.*)?$", head):
                events[int(found[1])] = (found[2], text)
            elif found := re.match(r"candidate (\d+)", head):
                candidates[int(found[1])] = text
        seq = next((seq for seq, (_, text) in events.items() if self.sign in text), None)
        role = events[seq][0] if seq is not None else None
        answer = {"marker": marker, "reason": "it is the sign"}
        if '"findings"' in system:  # a judge: it sees the failure as one of the 14 modes
            found = {"mode": "task_spec", "verdict": "present", "role": role, "events": [seq]}
            rows = [{"mode": mode, "verdict": "absent"} for mode in self._modes(system)]
            if seq is not None:
                found |= {"quote": self.sign, "confidence": 0.9, "reason": "the sign"}
                rows = [row for row in rows if row["mode"] != "task_spec"] + [found]
            answer |= {"diagnosis": "They added wrongly.", "findings": rows}
        elif '"candidate"' in system:
            chosen = [number for number, text in candidates.items() if self.sign in text]
            answer |= {"candidate": chosen[0] if chosen else None}
            if not chosen:
                answer |= {"step": seq, "role": role, "quote": self.sign}
        elif '"half"' in system:
            first, last = map(int, re.search(r'"first": events (\d+) to (\d+)', system).groups())
            answer |= {"half": "first" if first <= seq <= last else "second"}
        elif '"decisive"' in system:
            answer |= {"decisive": seq == max(events)}
        else:
            answer |= {"role": role, "step": seq}
        answer |= {key: value for key, value in self.changes.items() if key in answer}
        return Completion(text=json.dumps(answer), usage=Usage(len(record) // 4, 20, 0.001))

    @staticmethod
    def _modes(system):
        return re.findall(r"(?m)^## ([a-z_.]+)", system)


@pytest.fixture
def reader():
    """Makes such a model: `reader(step=9)` answers 9 wherever it is asked for a step."""
    return Reader


@pytest.fixture
def known():
    """Makes a report with findings: `known((2, "cleo"), (5, "cleo", SIGN))`, by seq."""

    def make(*rows):
        found = [
            FailureFinding(
                "derailment",
                "present",
                events=(seq,),
                role=role,
                quote=quote[0] if quote else "I am at step",
                source="judge:x",
                reason="because",
            )
            for seq, role, *quote in rows
        ]
        return Report(trace="t", format="rolecraft", findings=found)

    return make
