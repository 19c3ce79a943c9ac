"""Going on after an interruption: the same weights and the same curve as without one."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from rolecraft.errors import JournalError, ModelError, UsageError
from rolecraft.models.transformers_model import TransformersModel
from rolecraft.rewards import Signals, reward
from rolecraft.scenarios import Scenario
from rolecraft.scenarios.relay import relay
from rolecraft.training import Algorithm, Kl, TrainingRun, train
from rolecraft.training.checkpoints import CheckpointError
from rolecraft.training.rl.curriculum import Curriculum
from rolecraft.training.rl.records import CURVE, TASKS
from rolecraft.training.rl.run_folder import LOCK
from rolecraft.trajectories.append_file import AppendFile

torch.set_num_threads(1)

QUICK = Algorithm(group=4, learning_rate=1e-3, epochs=2, entropy=0.01, kl=Kl(0.01))


async def quick(folder: Path | None, scenario: Scenario = relay, **how: Any) -> TrainingRun:
    how.setdefault("algorithm", QUICK)
    how.setdefault("steps", 5)
    how.setdefault("checkpoint_steps", 2)
    how.setdefault("tasks", Curriculum(scenario.tasks))
    how.setdefault("model", relay.untrained(3))  # type: ignore[misc]
    return await train(scenario, tasks_per_step=3, folder=folder, **how)


def weights(run: TrainingRun) -> torch.Tensor:
    return torch.cat([weight.detach().flatten() for weight in run.model.module.parameters()])


def curve(folder: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (folder / CURVE).read_text("utf-8").splitlines()]
    return [{k: v for k, v in line.items() if k not in ("cost", "cpu_seconds")} for line in lines]


class Cut(Exception):
    """Stands for whatever ends a process."""


def cut_at(step: int) -> Callable[[Any], None]:
    def on_step(record: Any) -> None:
        if record.step == step:
            raise Cut

    return on_step


@pytest.mark.parametrize("step", [0, 1, 3, 4])
async def test_a_training_that_was_cut_off_goes_on_to_the_same_weights(
    tmp_path: Path, step: int
) -> None:
    whole = await quick(tmp_path / "whole")
    with pytest.raises(Cut):
        await quick(tmp_path / "cut", on_step=cut_at(step))
    with (tmp_path / "cut" / CURVE).open("a") as torn:
        torn.write('{"step": 9, "rew')  # what a kill leaves of a line
    went_on = await quick(tmp_path / "cut", resume=True)
    assert torch.equal(weights(whole), weights(went_on))
    assert curve(tmp_path / "whole") == curve(tmp_path / "cut")
    assert [r.without_times() for r in whole.records] == [
        r.without_times() for r in went_on.records
    ]
    tasks = [(tmp_path / name / TASKS).read_text() for name in ("whole", "cut")]
    assert tasks[0] == tasks[1]
    assert whole.tasks == went_on.tasks
    assert whole.model.version == went_on.model.version == 5


async def test_more_steps_go_on_where_the_last_ended(tmp_path: Path) -> None:
    whole = await quick(None, steps=6)
    await quick(tmp_path / "run", steps=3)
    assert torch.equal(weights(whole), weights(await quick(tmp_path / "run", steps=6, resume=True)))


async def test_a_training_that_is_told_to_stop_leaves_a_checkpoint_of_its_last_step(
    tmp_path: Path,
) -> None:
    steps: list[int] = []
    run = await quick(
        tmp_path, on_step=lambda record: steps.append(record.step), stop=lambda: len(steps) == 3
    )
    assert run.stopped
    assert [folder.name for folder in sorted((tmp_path / "checkpoints").iterdir())] == [
        "checkpoint-2",
        "checkpoint-3",
    ]
    went_on = await quick(tmp_path, resume=True)
    assert not went_on.stopped
    assert torch.equal(weights(went_on), weights(await quick(None)))


async def test_a_damaged_checkpoint_is_skipped_by_name(tmp_path: Path) -> None:
    whole = await quick(tmp_path)
    last = tmp_path / "checkpoints" / "checkpoint-5" / "state.pt"
    last.write_bytes(last.read_bytes()[:-100])
    warned: list[str] = []
    went_on = await quick(tmp_path, resume=True, warn=warned.append)
    assert any("checkpoint-5" in text for text in warned)
    assert torch.equal(weights(whole), weights(went_on))


async def test_another_training_is_refused_in_words(tmp_path: Path) -> None:
    await quick(tmp_path, steps=2)
    with pytest.raises(UsageError, match="`seed` is 1 and was 0"):
        await quick(tmp_path, resume=True, seed=1)
    with pytest.raises(
        UsageError, match=r"`algorithm\.epochs` is 3 and was 2\. Go on with the same"
    ):
        await quick(tmp_path, resume=True, algorithm=replace(QUICK, epochs=3))
    with pytest.raises(UsageError, match="checkpoints of another training"):
        await quick(tmp_path)
    with pytest.raises(UsageError, match="wants the `folder`"):
        await quick(None, resume=True)


async def test_two_trainings_do_not_share_a_folder(tmp_path: Path) -> None:
    await quick(tmp_path, steps=1)
    held = AppendFile(tmp_path / LOCK)  # as a training that goes on there holds it
    with pytest.raises(JournalError, match="another process"):
        await quick(tmp_path, resume=True)
    held.close()
    assert len((await quick(tmp_path, resume=True)).records) == 5


async def test_a_folder_where_nothing_was_saved_yet_begins_anew(tmp_path: Path) -> None:
    run = await quick(tmp_path / "new", resume=True, steps=1)
    assert len(run.records) == 1


async def test_a_full_disk_costs_one_checkpoint_and_ends_the_training_at_the_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last good checkpoint stays, and the training goes on from it when there is room."""
    warned: list[str] = []
    room = [True, False, False]
    real = torch.save

    def save(state: Any, file: Any) -> None:
        if not (room.pop(0) if room else True):
            file.write(b"half of it")
            raise OSError(errno.ENOSPC, "No space left on device")
        real(state, file)

    monkeypatch.setattr(torch, "save", save)
    with pytest.raises(CheckpointError, match="No space left on device"):
        await quick(tmp_path, steps=9, checkpoint_steps=1, warn=warned.append)
    assert len(warned) == 1
    assert "ends if the next one fails too" in warned[0]
    assert [each.name for each in (tmp_path / "checkpoints").iterdir()] == ["checkpoint-1"]
    went_on = await quick(tmp_path, steps=5, checkpoint_steps=1, resume=True)
    assert torch.equal(weights(went_on), weights(await quick(None)))


class Dying(TransformersModel):
    """A sampler that dies after so many answers, and stays dead."""

    left = 40

    async def sample(self, request: Any) -> Any:
        self.left -= 1
        if self.left < 0:
            raise ModelError("the engine has died")
        return await super().sample(request)


async def test_a_sampler_that_dies_mid_step_ends_the_training_which_can_go_on(
    tmp_path: Path,
) -> None:
    """A step has 24 answers: the second one breaks off in its middle."""

    def model(kind: type[TransformersModel]) -> TransformersModel:
        made: Any = relay.untrained(3)  # type: ignore[misc]
        return kind(made.module, made.tokenizer, seed=3, max_tokens=16)

    whole = await quick(None, model=model(TransformersModel))
    with pytest.raises(ModelError, match="died"):
        await quick(tmp_path, model=model(Dying), checkpoint_steps=1)
    assert (tmp_path / "checkpoints" / "checkpoint-1").is_dir()
    went_on = await quick(tmp_path, model=model(TransformersModel), checkpoint_steps=1, resume=True)
    assert len(went_on.records) == 5
    # What was answered before it died was learnt from in the second step, which is played again.
    assert went_on.records[0].without_times() == whole.records[0].without_times()


@reward
def the_same(signals: Signals) -> float:
    return 0.5


@pytest.mark.parametrize("entropy", [0.0, 0.01])
async def test_where_every_attempt_earns_the_same_nothing_is_learnt(entropy: float) -> None:
    """But by an entropy bonus, which wants no reward."""
    before = weights(await quick(None, steps=0))
    algorithm = Algorithm(group=4, learning_rate=1e-2, entropy=entropy)
    run = await quick(None, replace(relay, reward=the_same), algorithm=algorithm, steps=2)
    assert all(record.silent_groups == record.groups > 0 for record in run.records)
    if entropy:
        assert run.model.version == 2
    else:
        assert run.model.version == 0
        assert torch.equal(before, weights(run))
