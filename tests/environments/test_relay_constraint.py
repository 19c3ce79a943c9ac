"""What the failure taxonomy learns from a relay run: the task's rule and what is handed over."""

from __future__ import annotations

import pytest

from rolecraft import FunctionModel
from rolecraft.environments.relay import RelayTasks
from rolecraft.failure_taxonomy import annotate
from rolecraft.scenarios.relay import relay

(TASK,) = RelayTasks().sample(1, seed=5)


async def report_on(register: str):
    model = FunctionModel(lambda call: register if call.role == "planner" else "0")
    episode = await relay.play(TASK, model=model)
    return await annotate(episode.trajectory)


async def test_reading_another_register_breaks_the_task_and_is_the_planners():
    other = "a" if TASK.data["asked"] != "a" else "b"
    (finding,) = [f for f in (await report_on(other)).present if f.mode == "task_spec"]
    assert finding.role == "planner"
    assert finding.quote == other
    assert finding.source == "environment"


@pytest.mark.parametrize("register", ["a", "b", "c", "d"])
async def test_no_run_checks_its_answer_so_verification_is_absent(register):
    modes = {finding.mode for finding in (await report_on(register)).present}
    assert "verification.absent" in modes


async def test_a_wrong_sum_is_a_wrong_answer_and_no_failure_mode():
    report = await report_on(TASK.data["asked"])
    assert {finding.mode for finding in report.present} == {"verification.absent"}
