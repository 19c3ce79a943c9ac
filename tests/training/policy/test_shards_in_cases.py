"""Shards in bfloat16, with penalties in reward or loss, and near what adapters began with.

One launch of each number of processes for all cases: most of the time goes into starting them.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

torch.set_num_threads(1)

# Arguments: rank, number of processes, folder.
PROGRAM = """
import random, sys
from pathlib import Path

import torch

from rolecraft.models.tiny import tiny_model
from rolecraft.training import AdapterSettings, Algorithm, Kl, Trainer, TrainingSequence
from rolecraft.training.policy.sharding import is_sharded, whole

torch.set_num_threads(1)
rank, count, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
if count > 1:
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder / 'meeting'}", rank=rank, world_size=count
    )
roles = ["planner", "executor"]

def made(dtype):
    module = tiny_model("abcdefghi", hidden=16, heads=2, context=64).module.to(dtype)
    torch.manual_seed(0)
    torch.nn.init.normal_(module.lm_head.weight, std=0.3)
    return module

def played(seed):
    drawn, found = random.Random(seed), []
    for number in range(9):
        mask = [index >= 2 for index in range(drawn.randint(4, 12))]
        found.append(TrainingSequence(
            f"s{number}", roles[number % 2], [drawn.randrange(13) for _ in mask], mask,
            [-2.5 * action for action in mask], [1.0] * len(mask), [None] * len(mask),
            [drawn.uniform(-1, 1) * action for action in mask],
        ))
    return found

def starts():
    # Adapters that do something already, so that base and start are two references.
    settings = AdapterSettings(roles=roles, rank=3)
    before = Trainer(made(torch.float64), Algorithm(learning_rate=0.1), adapters=settings)
    before.update(played(100))
    return before.save_adapters(folder / f"starts-{count}-{rank}")

def case(dtype, kl, adapters=None):
    algorithm = Algorithm(
        learning_rate=1e-3, epochs=2, entropy=0.01, micro_batch_tokens=24, max_grad_norm=0.5, kl=kl
    )
    trainer = Trainer(made(dtype), algorithm, adapters=adapters, shard="auto")
    gradients = []
    for group in trainer.groups.values():
        group.optimizer.register_step_pre_hook(
            lambda *_, group=group: gradients.append([whole(w.grad).clone() for w in group.masters])
        )
    references, stats = [], []
    for seed in range(2):
        sequences = played(seed)
        if kl.in_reward:
            found = trainer.reference_logprobs(sequences)
            references.append([torch.tensor(row) for row in found])
            for sequence, row in zip(sequences, found):
                sequence.advantages = [
                    (advantage - kl.coefficient * (logp - reference)) * action
                    for advantage, logp, reference, action in zip(
                        sequence.advantages, sequence.logprobs, row, sequence.action_mask
                    )
                ]
        stats.append(trainer.update(sequences))
    if kl.in_reward:
        references.append([torch.tensor(row) for row in trainer.reference_logprobs(played(0))])
    return {
        "gradients": gradients,
        "references": references,
        "weights": [group.state()["weights"] for group in trainer.groups.values()],
        "numbers": [
            [each.loss, each.entropy, each.grad_norm]
            + [each.roles[role].kl for role in roles if not kl.in_reward]
            for each in stats
        ],
        "shards": sum(map(is_sharded, trainer.module.parameters())),
    }

begun = starts()
near_start = AdapterSettings(roles=roles, starts=begun, reference="start")
near_base = AdapterSettings(roles=roles, starts=begun)
found = {
    "bfloat16, k3": case(torch.bfloat16, Kl(0.1, "k3")),
    "bfloat16, k1": case(torch.bfloat16, Kl(0.1, "k1")),
    "k1": case(torch.float64, Kl(0.1, "k1")),
    "start, k3": case(torch.float64, Kl(0.1, "k3"), near_start),
    "start, k1": case(torch.float64, Kl(0.1, "k1"), near_start),
    "base, k1": case(torch.float64, Kl(0.1, "k1"), near_base),
}
torch.save(found, folder / f"cases-{count}-{rank}.pt")
if count > 1:
    torch.distributed.destroy_process_group()
"""

CASES = ["bfloat16, k3", "bfloat16, k1", "k1", "start, k3", "start, k1", "base, k1"]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory, in_processes: Any) -> tuple[Any, Any, Any]:
    """What one process found, and what each of two with shards did, by case."""
    folder = tmp_path_factory.mktemp("cases")

    def run(count: int) -> list[Any]:
        in_processes(PROGRAM, [(rank, count, folder) for rank in range(count)])
        paths = [folder / f"cases-{count}-{rank}.pt" for rank in range(count)]
        return [torch.load(path, weights_only=True) for path in paths]

    (one,) = run(1)
    first, second = run(2)
    return one, first, second


def flat(nested: Any) -> list[torch.Tensor]:
    if isinstance(nested, torch.Tensor):
        return [nested]
    return [tensor for each in nested for tensor in flat(each)]


def far(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    """How far apart they are, next to how long they are."""
    return float((ours - theirs).norm() / theirs.norm().clamp_min(1e-12))


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_shards_train_what_one_process_does(case: str, found: tuple[Any, Any, Any]) -> None:
    """In float64 to rounding: gradients, references, weights. In bfloat16, which has 8 bits, the
    first gradient and reference to within 3 % of the length of each, and those of later steps to
    within 15 %: Adam makes as much of a gradient near 0 as of any other."""
    one, first, second = (each[case] for each in found)
    assert first["shards"] > 0 == one["shards"]
    for part in ("gradients", "references", "weights"):
        for ours, theirs in zip(flat(first[part]), flat(second[part]), strict=True):
            assert torch.equal(ours, theirs), "both processes have the same"
    first_most, most = (0.03, 0.15) if "bfloat16" in case else (1e-7, 1e-7)
    for part in ("gradients", "references", "weights"):
        steps = list(zip(first[part], one[part], strict=True))
        assert steps or (part == "references" and "k1" not in case)
        for number, (mine, its) in enumerate(steps):
            for ours, theirs in zip(flat(mine), flat(its), strict=True):
                assert far(ours, theirs) <= (most if number else first_most)
    for ours, theirs in zip(first["numbers"], one["numbers"], strict=True):
        assert ours == pytest.approx(theirs, rel=most, abs=most)


@pytest.mark.slow
def test_the_references_of_shards_stay_and_are_those_that_were_asked_for(
    found: tuple[Any, Any, Any],
) -> None:
    for each in found:
        for case in ("bfloat16, k1", "k1", "start, k1", "base, k1"):
            before, _, after = each[case]["references"]
            for ours, theirs in zip(flat(after), flat(before), strict=True):
                assert torch.equal(ours, theirs), "two updates have not moved it"
        start, base = each["start, k1"]["references"], each["base, k1"]["references"]
        assert any(far(a, b) > 0.01 for a, b in zip(flat(start), flat(base), strict=True))
