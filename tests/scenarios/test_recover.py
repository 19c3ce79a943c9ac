"""An episode that was cut off is played to its end and graded, without asking twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from rolecraft.models import FunctionModel, Limits
from rolecraft.models.doubles import ModelCall
from rolecraft.scenarios.relay import relay


class Down(Exception):
    """The model's server is away."""


class Clerk:
    """A model that answers `relay`'s questions, and fails at its n-th call."""

    def __init__(self, fails_at: int = 0) -> None:
        self.calls = 0
        self.fails_at = fails_at
        self.model = FunctionModel(self.answer)

    def answer(self, call: ModelCall) -> str:
        self.calls += 1
        if self.calls == self.fails_at:
            raise Down
        choices = call.sampling.choices or ()
        return choices[len(call.messages[-1].content) % len(choices)]


async def test_cut_off_after_any_line_it_comes_to_the_same_signals(tmp_path: Path) -> None:
    task = relay.tasks.sample(1, seed=3)[0]
    clerk = Clerk()
    whole = await relay.play(task, model=clerk.model, journal=tmp_path / "whole.jsonl")
    lines = (tmp_path / "whole.jsonl").read_bytes().splitlines(keepends=True)
    for kept in range(2, len(lines) + 1):
        journal = tmp_path / f"{kept}.jsonl"
        journal.write_bytes(b"".join(lines[:kept]))
        again = Clerk()
        episode = await relay.recover(task, journal, model=again.model)
        assert journal.read_bytes() == b"".join(lines), f"{kept} lines"
        assert episode.reward == whole.reward
        known = sum(b'"kind":"model_call"' in line for line in lines[:kept])
        assert again.calls == clerk.calls - known


async def test_a_failed_episode_goes_on_where_it_failed(tmp_path: Path) -> None:
    task = relay.tasks.sample(1, seed=3)[0]
    whole = await relay.play(task, model=Clerk().model)
    journal = tmp_path / "run.jsonl"
    with pytest.raises(Down):
        await relay.play(task, model=Clerk(fails_at=2).model, journal=journal)
    again = Clerk()
    episode = await relay.recover(task, journal, model=again.model)
    assert again.calls == 1
    assert episode.reward == whole.reward
    (resume,) = episode.trajectory.of("resume")
    assert resume.data["after"] == "error"
    assert resume.data["failed"]["type"] == "Down"


@pytest.mark.parametrize("times", [2, 3])
async def test_an_episode_that_failed_again_and_again_goes_on_all_the_same(
    tmp_path: Path, times: int
) -> None:
    """The record says each time that it went on, and to follow that is no other run."""
    task = relay.tasks.sample(1, seed=3)[0]
    whole = await relay.play(task, model=Clerk().model)
    journal = tmp_path / "run.jsonl"
    with pytest.raises(Down):
        await relay.play(task, model=Clerk(fails_at=1).model, journal=journal)
    for _ in range(times - 1):
        with pytest.raises(Down):
            await relay.recover(task, journal, model=Clerk(fails_at=1).model)
    for fails_at in (2, 1, 1):  # the first question is answered, and the second is not
        with pytest.raises(Down):
            await relay.recover(task, journal, model=Clerk(fails_at=fails_at).model)
    episode = await relay.recover(task, journal, model=Clerk().model)
    assert episode.reward == whole.reward
    assert len(list(episode.trajectory.of("resume"))) == times + 3
    assert [m.content for m in episode.trajectory.of("message")] == [
        m.content for m in whole.trajectory.of("message")
    ]


@pytest.mark.parametrize("calls", [0, 1])
async def test_an_episode_that_was_graded_at_a_limit_goes_on_with_a_higher_one(
    tmp_path: Path, calls: int
) -> None:
    """The grades name roles and come after the limit, which is undone all the same."""
    task = relay.tasks.sample(1, seed=3)[0]
    whole = await relay.play(task, model=Clerk().model)
    journal = tmp_path / "run.jsonl"
    limits = Limits(calls=calls)
    stopped = await relay.play(task, model=Clerk().model, limits=limits, journal=journal)
    assert stopped.trajectory.stop_reason == "limit"
    again = Clerk()
    episode = await relay.recover(task, journal, model=again.model, limits=Limits(calls=2))
    assert again.calls == 2 - calls
    assert episode.reward == whole.reward
    assert [s.name for s in episode.trajectory.signals] == [
        s.name for s in whole.trajectory.signals
    ]
    assert not list(episode.trajectory.of("limit"))
