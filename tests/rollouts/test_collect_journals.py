"""Episodes with journals: each in its own, and what was cut off is gone on with."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from rolecraft import FunctionModel, Task
from rolecraft.models import ModelCall
from rolecraft.rollouts import Failed, collect, episodes
from rolecraft.sandboxes import LocalProcess
from rolecraft.scenarios.maths_chat import chat
from rolecraft.trajectories import load

TASKS = [Task(f"t{n}", f"What is {n}?", {"answer": str(n)}) for n in range(4)]
SCENARIO = chat(sandbox=LocalProcess())


def knows(broken: bool = False) -> FunctionModel:
    """Answers in two steps; a broken one fails at the second of `t2`."""

    def answer(call: ModelCall) -> str:
        number = call.messages[1].content[-2]
        if len(call.messages) == 2:
            return "Let me think."
        if broken and number == "2":
            raise ConnectionError("the line is dead")
        return rf"\boxed{{{number}}}"

    return FunctionModel(answer)


async def test_each_episode_has_its_journal_and_a_failed_one_is_gone_on_with(
    tmp_path: Path,
) -> None:
    def journal(task: Task) -> Path:
        return tmp_path / f"{task.id}.jsonl"

    first = await collect(SCENARIO, TASKS, model=knows(broken=True), journal=journal)
    assert [isinstance(result, Failed) for result in first] == [False, False, True, False]
    assert [load(journal(task)).stop_reason for task in TASKS] == [
        "finished", "finished", "error", "finished"
    ]  # fmt: skip
    model = knows()
    (again,) = episodes(await collect(SCENARIO, TASKS[2:3], model=model, journal=journal))
    assert again.reward.value == 1
    assert len(model.calls) == 1, "the first step was in the journal"
    assert load(journal(TASKS[2])).stop_reason == "finished"


@pytest.mark.parametrize("left", [b"", b'{"rolecraft": '])
async def test_a_journal_that_was_cut_off_in_its_first_line_is_begun_again(
    tmp_path: Path, left: bytes
) -> None:
    path = tmp_path / "t1.jsonl"
    path.write_bytes(left)
    (episode,) = episodes(
        await collect(SCENARIO, TASKS[1:2], model=knows(), journal=lambda task: path)
    )
    assert episode.reward.value == 1
    assert not load(path).problems


async def test_calls_that_share_a_semaphore_share_its_places() -> None:
    alive, most = 0, 0

    async def answer(call: ModelCall) -> str:
        nonlocal alive, most
        alive += 1
        most = max(most, alive)
        await asyncio.sleep(0)
        alive -= 1
        return rf"\boxed{{{call.messages[1].content[-2]}}}"

    slots = asyncio.Semaphore(2)
    model = FunctionModel(answer)
    await asyncio.gather(
        *(collect(SCENARIO, TASKS, model=model, concurrency=slots) for _ in range(3))
    )
    assert len(model.calls) == 12
    assert most == 2
