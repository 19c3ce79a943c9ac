"""Several processes train one policy: the gradient and the weights are those of one process.

Sharded, each of them keeps half of the weights only; what is saved is the same.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from rolecraft.errors import UsageError
from rolecraft.models.tiny import tiny_model
from rolecraft.training import Algorithm, Trainer
from rolecraft.training.policy.sharding import is_sharded

torch.set_num_threads(1)

# Run by every process alike. Arguments: rank, number of processes, folder, what to train, and
# whether weights are sharded. `rare` has an adapter on one layer only: nothing else would make its
# passes go back to the layers below, where other processes wait.
PROGRAM = """
import math, random, sys
from dataclasses import replace
from pathlib import Path

import torch

from rolecraft.models.tiny import tiny_model
from rolecraft.training import AdapterSettings, Algorithm, Critic, Importance, Kl
from rolecraft.training import Trainer, TrainingSequence
from rolecraft.training.policy.sharding import is_sharded, whole

torch.set_num_threads(1)
rank, count, folder, kind = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4]
shard = sys.argv[5] == "sharded"
if count > 1:
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder / 'meeting'}", rank=rank, world_size=count
    )
dtype = torch.float32 if kind == "float32" else torch.float64
module = tiny_model("abcdefghi", hidden=16, heads=2, context=64).module.to(dtype)
torch.manual_seed(0)
torch.nn.init.normal_(module.lm_head.weight, std=0.3)
with torch.no_grad():
    module.model.embed_tokens.weight[13] = math.nan

roles = ["planner", "executor", "rare"]
def played(seed, bad=False):
    drawn = random.Random(seed)
    made = []
    for number in range(9):
        mask = [index >= 2 for index in range(drawn.randint(4, 12))]
        ids = [drawn.randrange(13) for _ in mask]
        if bad and number == 4:
            ids[1] = 13
        made.append(TrainingSequence(
            f"s{number}", roles[2 if number == 8 else number % 2], ids, mask,
            [-2.5 * action for action in mask], [1.0] * len(mask), [None] * len(mask),
            [drawn.uniform(-1, 1) * action for action in mask],
            [0.0] * len(mask), [drawn.uniform(-1, 1) * action for action in mask],
        ))
    return made

algorithm = Algorithm(
    advantage="gae", critic=Critic(learning_rate=1e-3), learning_rate=1e-3, epochs=2, entropy=0.01,
    micro_batch_tokens=24, kl=Kl(0.01), max_grad_norm=0.5,
    importance=Importance() if kind == "weights" else None,
)
adapters = None
if kind == "adapters":
    one = AdapterSettings(roles=["rare"], rank=2, targets=["model.layers.1.mlp.down_proj"])
    begun = folder / f"begun-{count}-{rank}"
    start = Trainer(module, Algorithm(), adapters=one).save_adapters(begun)
    adapters = AdapterSettings(roles=roles, rank=3, starts=start)
trainer = Trainer(module, algorithm, adapters=adapters, shard=shard)
gradients = []
for name, group in trainer.groups.items():
    group.optimizer.register_step_pre_hook(
        lambda *_, group=group: gradients.append([whole(w.grad).clone() for w in group.masters])
    )
stats = [trainer.update(played(seed, bad=seed == 1)) for seed in range(3)]
values = played(5)
trainer.value(values)
state = trainer.state()
kept = state["groups"]
trainer.update(played(6))
trainer.load_state(state)
again = trainer.state()
if kind == "adapters":
    folders = trainer.save_adapters(folder / f"saved-{count}-{rank}-{shard}")
    saved = [(path / "adapter_model.safetensors").read_bytes().hex() for path in folders.values()]
else:
    other = tiny_model("abcdefghi", hidden=16, heads=2, context=64).module.double()
    other.load_state_dict(trainer.weights())
    with torch.no_grad():
        saved = [other(input_ids=torch.arange(1, 12)[None]).logits]
base = [w for w in trainer.module.parameters() if is_sharded(w) or not shard]
torch.save({
    "again": again,
    "saved": saved,
    "held": sum(getattr(w, "to_local", lambda w=w: w)().numel() for w in base),
    "of": sum(w.numel() for w in base),
    "given": str(module.device),
    "gradients": gradients,
    "state": state,
    "values": [sequence.values for sequence in values],
    "skipped": [found.skipped for found in stats],
    "numbers": [[found.loss, found.entropy, found.gap, found.grad_norm, found.actions,
                 found.sequences, found.value_error, found.roles["planner"].kl,
                 found.roles["rare"].actions] for found in stats],
}, folder / f"{kind}-{count}-{rank}.pt")
if count > 1:
    torch.distributed.destroy_process_group()
"""


Run = Callable[..., list[Any]]


@pytest.fixture(scope="module")
def run(in_processes: Any) -> Run:
    """What each of so many processes found."""

    def run(folder: Path, count: int, kind: str, how: str = "whole") -> list[Any]:
        in_processes(PROGRAM, [(rank, count, folder, kind, how) for rank in range(count)])
        paths = [folder / f"{kind}-{count}-{rank}.pt" for rank in range(count)]
        return [torch.load(path, weights_only=True) for path in paths]

    return run


def tensors(found: Any) -> list[torch.Tensor]:
    """All tensors in a nest of lists and dictionaries, in order."""
    if isinstance(found, torch.Tensor):
        return [found]
    inside = found.values() if isinstance(found, dict) else found
    return [
        t for each in inside if isinstance(each, dict | list | torch.Tensor) for t in tensors(each)
    ]


@pytest.fixture(scope="module", params=["adapters", "weights"])
def alone(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, run: Run
) -> Any:
    """What one process finds, and of what kind."""
    (found,) = run(tmp_path_factory.mktemp("alone"), 1, request.param)
    return request.param, found


@pytest.mark.slow
def test_shards_of_float32_add_their_gradients_up(run: Run, tmp_path: Path) -> None:
    """As most models are stored; torch reduces float64 in another way than anything smaller."""
    (one,) = run(tmp_path, 1, "float32")
    first, _ = run(tmp_path, 2, "float32", "sharded")
    for ours, theirs in zip(first["gradients"][0], one["gradients"][0], strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    assert first["numbers"][0] == pytest.approx(one["numbers"][0], rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["whole", "sharded"])
def test_two_processes_train_what_one_does(how: str, alone: Any, run: Run, tmp_path: Path) -> None:
    """Gradients, optimisers, critic, numbers; and one that cannot be scored is left out by both."""
    kind, one = alone
    first, second = run(tmp_path, 2, kind, how)
    for ours, theirs in zip(tensors(first), tensors(second), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0, equal_nan=True)
    assert first["skipped"] == second["skipped"] == one["skipped"] == [(), ("s4",), ()]
    assert len(tensors(first["gradients"])) == len(tensors(one["gradients"])) > 0
    for name in ("gradients", "state", "again", "values"):
        for ours, theirs in zip(tensors(first[name]), tensors(one[name]), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-9, equal_nan=True)
    for ours, theirs in zip(first["numbers"], one["numbers"], strict=True):
        assert ours == pytest.approx(theirs, rel=1e-6)
    assert first["numbers"] == second["numbers"]
    if kind == "weights":
        for found in (first, second):
            torch.testing.assert_close(found["saved"][0], one["saved"][0], equal_nan=True)
    else:
        assert list(map(len, first["saved"])) == list(map(len, one["saved"]))
        assert first["saved"] == second["saved"]
    if how == "sharded":
        assert first["of"] == second["of"]
        for found in (first, second):
            assert 0.45 <= found["held"] / found["of"] <= 0.55
        # Adapters: what they were put on is theirs now, and nobody else holds it whole.
        assert first["given"] == ("meta" if kind == "adapters" else "cpu")


def test_shards_want_several_processes() -> None:
    """`True` in a process that is alone is an error that says so; "auto" has nothing to divide."""
    module = tiny_model("ab", hidden=16, heads=2).module
    with pytest.raises(UsageError, match=r"shard=True.*this one is alone"):
        Trainer(module, Algorithm(), shard=True)
    with pytest.raises(UsageError, match="True, False or 'auto', got 'yes'"):
        Trainer(module, Algorithm(), shard="yes")  # type: ignore[arg-type]
    trainer = Trainer(module, Algorithm(), shard="auto")
    assert not any(map(is_sharded, trainer.module.parameters()))
    assert trainer.weights().keys() == module.state_dict().keys()
