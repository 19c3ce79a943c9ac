"""The critic: a value before each action, from the pass that gives the log-probabilities."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from rolecraft.errors import UsageError
from rolecraft.models.tiny import tiny_model
from rolecraft.training import AdapterSettings, Algorithm, Critic, Trainer, TrainingSequence
from rolecraft.training.policy.batches import Batch

torch.set_num_threads(1)

ROLES = ("planner", "executor")
PPO = Algorithm(
    advantage="gae",
    critic=Critic(coefficient=0.5, clip=None, learning_rate=1e-2),
    learning_rate=1e-3,
    max_grad_norm=1e9,
)
ADAPTERS = AdapterSettings(roles=ROLES, rank=2)


def base() -> Any:
    module = tiny_model("abcdefgh", hidden=16, heads=2, context=64).module
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        torch.nn.init.normal_(module.lm_head.weight, std=0.3)
    return module


def played(seed: int = 0) -> list[TrainingSequence]:
    """Two turns with a tool's tokens in between; what follows is worth what the first token is."""
    drawn = random.Random(seed)
    made = []
    for number in range(10):
        mask = [False] * 2 + [True] * drawn.randint(1, 3) + [False] * 2 + [True] * 2 + [False]
        ids = [drawn.randrange(13) for _ in mask]
        worth = 2.0 if ids[0] > 6 else -1.0
        made.append(
            TrainingSequence(
                f"s{number}",
                ROLES[number % 2],
                ids,
                mask,
                [-2.5 if action else 0.0 for action in mask],
                [1.0] * len(mask),
                [None] * len(mask),
                [0.0] * len(mask),
                [0.0] * len(mask),
                [worth if action else 0.0 for action in mask],
            )
        )
    return made


def before_actions(module: Any, sequence: TrainingSequence) -> torch.Tensor:
    """The last hidden states that a critic may see, of one sequence alone."""
    with torch.no_grad():
        hidden = module.model(torch.tensor([sequence.ids])).last_hidden_state[0]
    at = [index - 1 for index, action in enumerate(sequence.action_mask) if action]
    out: torch.Tensor = hidden[at]
    return out


@pytest.mark.parametrize("adapters", [None, ADAPTERS])
def test_a_head_learns_from_the_state_before_each_action(adapters: Any) -> None:
    """Its first gradient in closed form: coefficient times the mean of (0 - return) state."""
    module = base()
    trainer = Trainer(module, PPO, adapters=adapters)
    sequences = played()
    heads = trainer.policy.values
    assert heads is not None
    seen: dict[str, Any] = {}
    for role in ROLES:
        group = heads.meet(role)

        def look(*_: Any, role: str = role, group: Any = group) -> None:
            seen[role] = [weight.grad.clone() for weight in group.masters]

        group.optimizer.register_step_pre_hook(look)
    states = {s.name: before_actions(module, s) for s in sequences}
    trainer.update(sequences)
    total = sum(sum(s.action_mask) for s in sequences)
    for role in ROLES:
        mine = [s for s in sequences if s.role == role]
        count = total if adapters is None else sum(sum(s.action_mask) for s in mine)
        wanted = sum(-s.returns[2] * states[s.name].sum(0) for s in mine) * 0.5 / count
        torch.testing.assert_close(seen[role][0][0], wanted, rtol=1e-4, atol=1e-6)
        bias = sum(-s.returns[2] * sum(s.action_mask) for s in mine) * 0.5 / count
        assert float(seen[role][1]) == pytest.approx(bias, abs=1e-6)


def test_values_stand_at_actions_and_follow_the_returns() -> None:
    quick = replace(PPO, critic=Critic(clip=None, learning_rate=5e-2))
    trainer = Trainer(base(), quick, adapters=ADAPTERS)
    sequences = played()
    trainer.value(sequences)
    assert all(s.values == [0.0] * len(s.ids) for s in sequences)  # it expects nothing yet
    errors = []
    for _ in range(25):
        errors.append(trainer.update(sequences).value_error)
        trainer.value(sequences)
    assert errors[-1] < 0.2 * errors[0]
    for sequence in sequences:
        for value, worth, action in zip(
            sequence.values, sequence.returns, sequence.action_mask, strict=True
        ):
            assert (value != 0.0) == action
            assert not action or (value > 0.5) == (worth > 0.5)


def test_a_critic_takes_no_further_pass() -> None:
    module = base()
    passes = [0]
    module.model.register_forward_hook(lambda *_: passes.__setitem__(0, passes[0] + 1))
    trainer = Trainer(module, replace(PPO, epochs=2))
    trainer.update(played())  # how the model takes rows is found out once
    passes[0] = 0
    trainer.update(played())
    assert passes[0] == 2


def test_values_take_no_distribution_over_the_vocabulary(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are those of an update's own pass, which makes one."""
    trainer = Trainer(base(), PPO, adapters=ADAPTERS)
    trainer.update(played())  # heads that expect something
    sequences = played()
    rows: list[int] = []
    head = trainer.module.lm_head
    head.register_forward_hook(lambda layer, args, out: rows.append(args[0].shape[-2]))
    made: list[Batch] = []
    scored = Batch.log_probs

    def seen(batch: Batch, module: Any) -> Any:
        made.append(batch)
        return scored(batch, module)

    monkeypatch.setattr(Batch, "log_probs", seen)
    trainer.value(sequences)
    assert not made
    assert max(rows) <= 2
    (batch,) = trainer.policy.batches(sequences)
    with torch.no_grad():
        values_NA = trainer.policy.score(batch)[2]
    assert made
    assert values_NA is not None
    for sequence, row, mask in zip(batch.sequences, values_NA, batch.mask_NA, strict=True):
        ours = [v for v, a in zip(sequence.values, sequence.action_mask, strict=True) if a]
        torch.testing.assert_close(torch.tensor(ours), row[mask])


def test_the_value_loss_moves_the_policy_by_its_coefficient() -> None:
    """Advantages are 0 here, so that nothing else does. A head that begins at zero passes nothing
    on; one that has learned does."""
    norms = []
    for coefficient in (0.5, 1.0):
        critic = Critic(coefficient=coefficient, clip=None, learning_rate=1e-2)
        trainer = Trainer(base(), replace(PPO, critic=critic), adapters=ADAPTERS)
        sequences = played()
        assert trainer.update(sequences).grad_norm == 0
        norms.append(trainer.update(sequences).grad_norm)
    assert norms[1] == pytest.approx(2 * norms[0], rel=1e-3)


def test_a_value_clip_is_honoured() -> None:
    """What is further than `clip` from the old value, on the way to the return, has no gradient."""
    sequences = [replace(s, values=[-9.0 if a else 0.0 for a in s.action_mask]) for s in played()]
    trainer = Trainer(base(), replace(PPO, critic=Critic(clip=0.2, learning_rate=1e-2)))
    heads = trainer.policy.values
    assert heads is not None
    trainer.update(sequences)
    assert all(not group.masters[0].any() for group in heads.groups.values())


def test_a_sequence_longer_than_the_context_has_no_values_and_is_left_out() -> None:
    trainer = Trainer(base(), PPO, adapters=ADAPTERS)
    trainer.update(played())
    sequences = played()
    long = sequences[0]
    for numbers, filler in (
        (long.ids, 1),
        (long.action_mask, True),
        (long.logprobs, -2.5),
        (long.temperatures, 1.0),
        (long.support, None),
        (long.advantages, 0.0),
        (long.returns, 1.0),
    ):
        numbers.extend([filler] * 80)  # type: ignore[list-item]
    trainer.value(sequences)
    assert long.values == [0.0] * len(long.ids)
    assert any(sequences[2].values)
    reference = trainer.reference_logprobs(sequences)
    assert reference[0] == long.logprobs  # no divergence that would be paid or punished
    assert reference[2] != sequences[2].logprobs
    assert trainer.update(sequences).too_long == ("s0",)


@pytest.mark.parametrize("missing", ["values", "returns"])
def test_sequences_without_values_or_returns_are_refused(missing: str) -> None:
    sequences = played()
    setattr(sequences[3], missing, [])
    with pytest.raises(UsageError, match=rf"`s3` has 0 {missing} for .* tokens.*Trainer.value"):
        Trainer(base(), PPO).update(sequences)
    with pytest.raises(UsageError, match="There is no critic"):
        Trainer(base(), Algorithm()).value(sequences)


def test_a_return_that_is_no_number_leaves_its_sequence_out() -> None:
    sequences = played()
    sequences[3].returns[2] = float("nan")
    assert Trainer(base(), PPO).update(sequences).skipped == ("s3",)


def test_a_state_holds_the_critic_too(tmp_path: Path) -> None:
    straight, stopped = (Trainer(base(), PPO, adapters=ADAPTERS) for _ in range(2))
    straight.update(played())
    stopped.update(played())
    torch.save(stopped.state(), tmp_path / "state.pt")
    resumed = Trainer(base(), PPO, adapters=ADAPTERS)
    resumed.load_state(torch.load(tmp_path / "state.pt", weights_only=True))
    found = []
    for trainer in (straight, resumed):
        trainer.update(played(1))
        sequences = played(2)
        trainer.value(sequences)
        found.append([s.values for s in sequences])
    assert found[0] == found[1]
    plain = Trainer(base(), replace(PPO, advantage="grpo", critic=None), adapters=ADAPTERS)
    with pytest.raises(UsageError, match="with a critic"):
        plain.load_state(stopped.state())


@pytest.mark.parametrize("adapters", [None, ADAPTERS])
def test_where_an_episode_was_cut_off_the_critic_says_what_the_end_is_worth(adapters: Any) -> None:
    """What it says before a further action; nothing where it ended or the context is full."""
    trainer = Trainer(base(), PPO, adapters=adapters)
    for _ in range(3):
        trainer.update(played())
    one, other = played()[:2]
    one.cut_off = True
    trainer.value([one, other])
    assert len(one.values) == len(one.ids)
    assert other.after == 0.0
    mask = [*one.action_mask, True]
    further = replace(
        one,
        ids=[*one.ids, 1],
        action_mask=mask,
        logprobs=[0.0] * len(mask),
        temperatures=[1.0] * len(mask),
        support=[None] * len(mask),
        advantages=[0.0] * len(mask),
        cut_off=False,
    )
    trainer.value([further])
    assert one.after == pytest.approx(further.values[-1], abs=1e-6)
    assert one.after != pytest.approx(0.0, abs=1e-6)
    assert one.values == pytest.approx(further.values[:-1], abs=1e-6)
    full = replace(one, ids=[1] * 65, action_mask=[False] * 64 + [True], cut_off=True)
    full.logprobs, full.temperatures = [0.0] * 65, [1.0] * 65
    full.support, full.advantages = [None] * 65, [0.0] * 65
    trainer.value([full])
    assert full.after == 0.0
    assert full.values[-1] != 0.0
