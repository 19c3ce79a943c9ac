"""One adapter per role in the loop: swapped into the sampler, proved, resumed, replayed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from rolecraft.errors import AdapterError, UnknownName, UsageError
from rolecraft.models.adapter_files import read_adapter
from rolecraft.models.transformers_model import TransformersModel
from rolecraft.scenarios.relay import relay, untrained
from rolecraft.training import Algorithm, Kl, StepRecord, TrainingRun, train
from rolecraft.training.policy.adapter_settings import AdapterSettings

torch.set_num_threads(1)

QUICK = Algorithm(group=4, learning_rate=1e-2, epochs=2, entropy=0.01)
BOTH = AdapterSettings(roles=["planner", "executor"], rank=4)


def model() -> Any:
    """Relay's model with an output layer that says something, since adapters leave it alone."""
    made: Any = untrained(1)
    torch.manual_seed(1)
    torch.nn.init.normal_(made.module.lm_head.weight, std=0.25)
    return made


async def quick(**how: Any) -> TrainingRun:
    for name, value in {"model": model(), "algorithm": QUICK, "adapters": BOTH}.items():
        how.setdefault(name, value)
    return await train(relay, steps=how.pop("steps", 3), tasks_per_step=3, **how)


def digests(folder: Path) -> dict[str, str]:
    return {role: read_adapter(folder / "adapters" / role).digest for role in BOTH.roles}


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_what_is_served_is_what_was_trained_and_the_base_never_changes(
    tmp_path: Path, asynchronous: bool
) -> None:
    made = model()
    before = {name: tensor.clone() for name, tensor in made.module.state_dict().items()}
    served: list[dict[str, tuple[str, int]]] = []

    def on_step(record: StepRecord) -> None:
        now = {role: made.adapters.current(role) for role in BOTH.roles}
        served.append({role: (version.digest, version.version) for role, version in now.items()})

    run = await quick(model=made, folder=tmp_path, on_step=on_step, asynchronous=asynchronous)
    assert [record.version for record in run.records] == [1, 2, 3]
    for record in run.records:
        if record.staleness_max == 0:
            assert record.gap < 1e-5
        assert set(record.by_role) == {"planner", "executor"}
        assert record.by_role["planner"].entropy > 0
    for number, roles in enumerate(served):
        assert {version for _, version in roles.values()} == {number + 2}
    assert len({digest for roles in served for digest, _ in roles.values()}) == 6
    assert digests(tmp_path) == {role: digest for role, (digest, _) in served[-1].items()}
    run.save(tmp_path / "result")
    assert (tmp_path / "result" / "planner" / "adapter_model.safetensors").is_file()
    for role in BOTH.roles:
        await made.unload_adapter(role)
    await made.adapters.settle()
    now = made.module.state_dict()
    assert now.keys() == before.keys()
    assert all(torch.equal(before[name], now[name]) for name in now)


async def test_a_base_whose_output_layer_is_zero_is_refused() -> None:
    """Its gradients are 0, all of them: a training would be a flat curve."""
    with pytest.raises(UsageError, match="nothing can be learnt"):
        await quick(model=untrained(1))
    with pytest.raises(UsageError, match=r"sft-warm-up\.md"):
        await quick(model=None)


async def test_a_frozen_adapter_keeps_its_bytes_and_its_version(tmp_path: Path) -> None:
    made = model()
    settings = replace(BOTH, frozen=["planner"])
    run = await quick(model=made, adapters=settings, folder=tmp_path)
    assert made.adapters.current("planner").version == 1
    assert made.adapters.current("executor").version == 4
    assert digests(tmp_path)["planner"] == made.adapters.current("planner").digest
    assert all(set(record.by_role) == {"executor"} for record in run.records)
    assert all(record.actions == 12 for record in run.records)


async def test_adapters_go_on_bit_for_bit_from_a_checkpoint(tmp_path: Path) -> None:
    class Cut(Exception):
        pass

    def cut(record: StepRecord) -> None:
        if record.step == 2:
            raise Cut

    how: dict[str, Any] = {
        "checkpoint_steps": 2,
        "algorithm": replace(QUICK, kl=Kl(0.01)),
        "adapters": replace(BOTH, learning_rates={"planner": 5e-3}),
    }
    whole = await quick(folder=tmp_path / "whole", **how)
    with pytest.raises(Cut):
        await quick(folder=tmp_path / "cut", on_step=cut, **how)
    went_on = await quick(folder=tmp_path / "cut", resume=True, **how)
    assert digests(tmp_path / "whole") == digests(tmp_path / "cut")
    assert [r.without_times() for r in whole.records] == [
        r.without_times() for r in went_on.records
    ]


async def test_an_asynchronous_schedule_of_adapters_is_replayed_bit_for_bit(
    tmp_path: Path,
) -> None:
    await quick(folder=tmp_path / "run", asynchronous=True, keep_episodes=True, steps=4)
    await quick(folder=tmp_path / "again", replay=tmp_path / "run", steps=4)
    assert digests(tmp_path / "run") == digests(tmp_path / "again")


async def test_a_sampler_that_serves_something_else_is_found_out() -> None:
    """A weight update that does nothing goes wrong without a sound (verl issue 7495)."""

    class Stale(TransformersModel):
        """Serves what it was given first, whatever comes later."""

        first: dict[str, Any]

        async def load_adapter(self, role: str, path: Any, *, version: int | None = None) -> Any:
            served = await super().load_adapter(role, path, version=version)
            kept = self.first.setdefault(role, served)
            return replace(served, digest=kept.digest)

    made = model()
    stale = Stale(made.module, made.tokenizer, max_tokens=16)
    stale.first = {}
    with pytest.raises(AdapterError, match="was trained"):
        await quick(model=stale)


async def test_tokens_of_an_adapter_that_nobody_trains_are_refused(tmp_path: Path) -> None:
    run = await quick(folder=tmp_path, steps=1)
    assert run.records
    made = model()
    await made.load_adapter("planner", tmp_path / "adapters" / "planner")
    with pytest.raises(AdapterError, match="own weights are trained"):
        await quick(model=made, adapters=None)


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        ({"adapters": AdapterSettings(roles=["planner"])}, UsageError, "'executor'.*no adapter"),
        ({"adapters": AdapterSettings(roles=["pilot"])}, UnknownName, "pilot"),
        ({"frozen": ["planner"]}, UsageError, "in `frozen`"),
    ],
)
async def test_adapters_that_do_not_fit_the_team_are_refused(
    wrong: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        await quick(**wrong)


async def test_a_second_training_on_the_same_model_begins_above_the_first_ones_versions() -> None:
    made = model()
    await quick(model=made, steps=1)
    run = await quick(model=made, steps=1)
    assert [record.version for record in run.records] == [3]
    assert {made.adapters.last(role) for role in BOTH.roles} == {4}
