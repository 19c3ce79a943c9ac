"""Every strategy finds the planted step, with the calls that it should need."""

from __future__ import annotations

import json
import math

import pytest

from rolecraft.failure_taxonomy.attribution import STRATEGIES, Attributor
from rolecraft.failure_taxonomy.labels import Labels

ROLES = ("ann", "ben", "cleo")
"""Step number n is made by role n modulo 3."""


def calls_of(strategy, steps, at):
    """How many calls a strategy should need to find step `at` of `steps`."""
    role = [seq for seq in range(1, steps + 1) if seq % 3 == at % 3]
    return {
        "all-at-once": {1},
        "step-by-step": {at},
        "binary-search": {math.floor(math.log2(steps)), math.ceil(math.log2(steps))},
        "hybrid": {1 + role.index(at) + 1},
        "role-then-step": {2},
        "evidence-first": {2},
    }[strategy]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(("steps", "at"), [(16, 5), (16, 1), (16, 16), (7, 3), (2, 2), (1, 1)])
async def test_the_planted_step_is_found_with_the_calls_that_it_takes(
    run, strategy, steps, at, reader
):
    one = reader()
    found = await Attributor(one.model, strategy=strategy).attribute(run(steps, at))
    assert (found.role, found.step) == (ROLES[at % 3], at), found.problems
    assert found.problems == []
    assert found.calls in calls_of(strategy, steps, at)
    assert found.calls == len(one.model.calls)
    assert found.usage.completion_tokens == 20 * found.calls
    assert found.strategy == strategy


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_what_is_found_reads_back_as_labels_that_can_be_scored(run, strategy, reader):
    attributor = Attributor(reader().model, strategy=strategy)
    found = await attributor.attribute(run(), name="runs/a.jsonl")
    labels = Labels.from_dict(json.loads(found.to_json()))
    assert labels == found.labels
    assert labels.trace == "runs/a.jsonl"
    assert labels.annotator == f"blame:{strategy}:reader"
    assert (labels.decisive.role, labels.decisive.step) == ("cleo", 5)
