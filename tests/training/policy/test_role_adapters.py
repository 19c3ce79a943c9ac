"""One adapter per role, trained in one pass: as if each had been trained alone, by peft."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import peft
import pytest
import torch

from rolecraft.errors import UnknownName, UsageError
from rolecraft.models.tiny import tiny_model
from rolecraft.training import Algorithm, Clip, Kl, Normalise, Trainer, TrainingSequence
from rolecraft.training.policy.adapter_settings import AdapterSettings

torch.set_num_threads(1)

ROLES = ("planner", "executor", "critic.2")
WORDS = 13
"""Tokens of the vocabulary that sequences are made of."""


def base(seed: int = 0) -> Any:
    """A tiny model whose output layer is not zero."""
    module = tiny_model("abcdefgh", hidden=16, heads=2, context=64).module
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        torch.nn.init.normal_(module.lm_head.weight, std=0.3)
    return module


def played(count: int = 12, seed: int = 0, roles: Sequence[str] = ROLES) -> list[TrainingSequence]:
    """Sequences of several roles, turns and lengths; some begin alike."""
    drawn = random.Random(seed)
    made: list[TrainingSequence] = []
    for number in range(count):
        role = roles[number % len(roles)]
        mask = [False] * drawn.randint(2, 6)
        for _ in range(drawn.randint(1, 3)):
            mask += [True] * drawn.randint(1, 4) + [False] * drawn.randint(0, 3)
        ids = [drawn.randrange(WORDS) for _ in mask]
        if number >= 6:  # of the same role, and of another
            ids[:2] = made[number - 5 - number % 2].ids[:2]
        sequence = TrainingSequence(
            f"s{number}",
            role,
            ids,
            mask,
            [-drawn.uniform(2.0, 3.0) if action else 0.0 for action in mask],
            [drawn.choice([1.0, 0.7]) if action else 1.0 for action in mask],
            [None] * len(mask),
            [drawn.uniform(-1, 1) if action else 0.0 for action in mask],
        )
        made.append(sequence)
    return made


def sft_adapter(folder: Path, seed: int, module: Any = None, **settings: Any) -> Path:
    """What peft saves of an adapter that changes something."""
    settings = {"r": 4, "lora_alpha": 6, "init_lora_weights": False, **settings}
    settings.setdefault("target_modules", ["q_proj", "v_proj", "down_proj"])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        wrapped = peft.get_peft_model(module or base(), peft.LoraConfig(**settings))
        wrapped.save_pretrained(str(folder))
    return folder


@pytest.fixture(scope="module")
def starts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """An adapter for each role, each of another kind."""
    folder = tmp_path_factory.mktemp("starts")
    kinds: list[dict[str, Any]] = [
        {},
        {"r": 3, "use_rslora": True, "target_modules": "all-linear"},
        {
            "rank_pattern": {"o_proj": 2},
            "alpha_pattern": {"o_proj": 5},
            "target_modules": ["o_proj", "up_proj"],
        },
    ]
    return {
        role: sft_adapter(folder / role, seed, **kind)
        for seed, (role, kind) in enumerate(zip(ROLES, kinds, strict=True))
    }


def gradients(trainer: Trainer, sequences: Sequence[TrainingSequence]) -> dict[str, list[Any]]:
    """Those of one update, by group of weights; before clipping if the algorithm does none."""
    seen: dict[str, list[Any]] = {}
    for name, group in trainer.groups.items():

        def look(optimizer: Any, *_: Any, name: str = name) -> None:
            seen[name] = [w.grad.clone() for w in optimizer.param_groups[0]["params"]]

        group.optimizer.register_step_pre_hook(look)
    trainer.update(sequences)
    return seen


FREE = Algorithm(learning_rate=1e-2, max_grad_norm=1e9, clip=Clip(1.0, 9.0))


@pytest.mark.parametrize(
    "algorithm",
    [
        FREE,
        replace(FREE, normalise=Normalise.SEQUENCES, entropy=0.05, micro_batch_tokens=30),
        replace(FREE, kl=Kl(0.05), clip=Clip(3e-4, 4e-4, level="sequence")),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_mixed_roles_get_the_gradients_of_separate_runs_with_peft(
    algorithm: Algorithm, dtype: torch.dtype, starts: dict[str, Path]
) -> None:
    settings = AdapterSettings(roles=ROLES, starts=starts)
    sequences = played()
    mixed = gradients(Trainer(base().to(dtype), algorithm, adapters=settings), sequences)
    near = 1e-6 if dtype == torch.float32 else 1e-12
    for role in ROLES:
        alone = base().to(dtype)
        tensors = peft.utils.load_peft_weights(str(starts[role]), device="cpu")
        peft.inject_adapter_in_model(peft.PeftConfig.from_pretrained(str(starts[role])), alone)
        peft.set_peft_model_state_dict(alone, tensors)
        for name, weight in alone.named_parameters():
            weight.requires_grad_(".lora_" in name)
        theirs = Trainer(alone, algorithm, reference=base().to(dtype))
        names = [name for name, weight in alone.named_parameters() if weight.requires_grad]
        found = gradients(theirs, [s for s in sequences if s.role == role])[""]
        by_name = {name.replace(".default", ""): g for name, g in zip(names, found, strict=True)}
        ours = mixed_names(starts[role], settings, role, mixed[role])
        assert set(ours) == set(by_name)
        norm = float(torch.linalg.vector_norm(torch.cat([g.flatten() for g in found])))
        for name, gradient in ours.items():
            assert by_name[name].abs().max() > 1e-4  # there is something to compare
            torch.testing.assert_close(gradient, by_name[name], rtol=0, atol=near * norm)


def mixed_names(
    folder: Path, settings: AdapterSettings, role: str, found: Sequence[Any]
) -> dict[str, Any]:
    """The same gradients by the names of peft's matrices."""
    trainer = Trainer(base(), FREE, adapters=settings)
    adapters = trainer.policy.adapters
    assert adapters is not None
    names = [
        f"{layer}.lora_{half}.weight"
        for layer, linear in adapters.layers.items()
        if role in linear.pairs
        for half in "AB"
    ]
    return dict(zip(names, found, strict=True))


def base_bytes(module: Any) -> list[bytes]:
    return [weight.detach().numpy().tobytes() for weight in module.parameters()]


def test_the_base_shares_its_memory_and_never_changes() -> None:
    module = base()
    before = base_bytes(module)
    trainer = Trainer(module, FREE, adapters=AdapterSettings(roles=ROLES))
    theirs = {weight.data_ptr() for weight in module.parameters()}
    ours = {weight.data_ptr() for weight in trainer.module.parameters()}
    assert theirs < ours
    for seed in range(3):
        trainer.update(played(seed=seed))
    assert base_bytes(module) == before
    assert all(weight.requires_grad for weight in module.parameters())  # nor what it is asked for
    assert type(module.model.layers[0].self_attn.q_proj) is torch.nn.Linear


def test_a_new_adapter_changes_nothing_until_it_learns() -> None:
    module = base()
    trainer = Trainer(module, FREE, adapters=AdapterSettings(roles=ROLES))
    (batch,) = trainer.policy.batches(played())
    with torch.no_grad():
        ours, theirs = trainer.policy.score(batch)[0], batch.log_probs(module)[0]
    assert torch.equal(ours, theirs)
    trainer.update(played())
    with torch.no_grad():
        ours = trainer.policy.score(batch)[0]
    assert (ours - theirs).abs().max() > 1e-3


def test_a_frozen_role_keeps_its_bytes_and_is_not_learned_from(starts: dict[str, Path]) -> None:
    settings = AdapterSettings(roles=ROLES, starts=starts, frozen=["executor"])
    trainer = Trainer(base(), FREE, adapters=settings)
    adapters = trainer.policy.adapters
    assert adapters is not None
    before = [weight.detach().numpy().tobytes() for weight in adapters.weights("executor")]
    others = [weight.detach().clone() for weight in adapters.weights("planner")]
    stats = trainer.update(played())
    assert [w.detach().numpy().tobytes() for w in adapters.weights("executor")] == before
    assert not all(map(torch.equal, others, adapters.weights("planner")))
    assert set(stats.roles) == {"planner", "critic.2"}
    assert stats.sequences == 8
    with pytest.raises(UsageError, match="nothing to learn from"):
        trainer.update(played(roles=["executor"]))


def test_a_role_is_trained_as_if_no_other_were_there() -> None:
    """Its weights and its optimiser: another role's batch is none of its business."""
    settings = AdapterSettings(roles=ROLES)
    both, alone = (Trainer(base().double(), FREE, adapters=settings) for _ in range(2))
    for seed in range(3):
        sequences = played(seed=seed)
        both.update(sequences)
        alone.update([s for s in sequences if s.role == "planner"])
        both.update(played(seed=10 + seed, roles=["executor"]))
    ours, theirs = both.groups["planner"], alone.groups["planner"]
    for one, other in zip(ours.masters, theirs.masters, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)
    steps = [group.optimizer.state_dict()["state"][0]["step"] for group in (ours, theirs)]
    assert steps == [3, 3]
    assert both.groups["executor"].optimizer.state_dict()["state"][0]["step"] == 6
    assert not alone.groups["executor"].optimizer.state_dict()["state"]


def test_a_role_without_any_advantage_is_not_moved_by_momentum() -> None:
    """As in a step where no role has any, which the loop does not learn from."""
    trainer = Trainer(base(), FREE, adapters=AdapterSettings(roles=ROLES))
    trainer.update(played())
    silent, telling = trainer.groups["planner"], trainer.groups["executor"]
    before = {
        name: [weight.detach().clone() for weight in group.masters]
        for name, group in trainer.groups.items()
    }
    sequences = played(seed=1)
    for sequence in sequences:
        if sequence.role == "planner":
            sequence.advantages = [0.0] * len(sequence.ids)
    stats = trainer.update(sequences)
    assert stats.roles["planner"].grad_norm == 0
    assert all(map(torch.equal, before["planner"], silent.masters))
    assert not all(map(torch.equal, before["executor"], telling.masters))
    steps = [g.optimizer.state_dict()["state"][0]["step"] for g in (silent, telling)]
    assert steps == [1, 2]


def test_each_role_has_its_own_learning_rate_penalty_and_clipping() -> None:
    settings = AdapterSettings(
        roles=ROLES, learning_rates={"executor": 1e-4}, kl={"planner": 2.0, "critic.2": 0.0}
    )
    algorithm = replace(FREE, kl=Kl(0.5, "k2"), max_grad_norm=1e-3)
    trainer = Trainer(base(), algorithm, adapters=settings)
    rates = {name: g.optimizer.param_groups[0]["lr"] for name, g in trainer.groups.items()}
    assert rates == {"planner": 1e-2, "executor": 1e-4, "critic.2": 1e-2}
    assert [trainer.policy.kl(role) for role in ROLES] == [Kl(2.0, "k2"), Kl(0.5, "k2"), None]
    clipped = gradients(trainer, played())
    for of_role in clipped.values():
        norm = torch.linalg.vector_norm(torch.cat([gradient.flatten() for gradient in of_role]))
        assert float(norm) == pytest.approx(1e-3, rel=1e-2)
    stats = trainer.update(played(seed=1))
    assert stats.roles["planner"].kl > 0
    assert stats.roles["executor"].kl > 0
    assert stats.roles["critic.2"].kl == 0


def test_the_reference_is_the_base_without_adapters(starts: dict[str, Path]) -> None:
    """And no second model: nothing but the adapters is new in memory."""
    module = base()
    trainer = Trainer(
        module, replace(FREE, kl=Kl(0.1)), adapters=AdapterSettings(roles=ROLES, starts=starts)
    )
    (batch,) = trainer.policy.batches(played())
    with torch.no_grad():
        assert torch.equal(trainer.policy.reference_logp(batch), batch.log_probs(module)[0])
    assert trainer.policy.reference is None
    listed = trainer.reference_logprobs(batch.sequences)
    mask = [list(sequence.action_mask) for sequence in batch.sequences]
    assert [[number != 0 for number in numbers] for numbers in listed] == mask


@pytest.mark.parametrize(
    "reference", ["start", {"planner": "start"}, {"planner": "start", "executor": "base"}]
)
def test_the_reference_can_be_the_adapter_that_a_role_began_with(
    reference: Any, starts: dict[str, Path]
) -> None:
    """All roles, or some; whatever is learnt meanwhile. A role that began anew has the base."""
    its_starts = {role: starts[role] for role in ("planner", "executor")}
    settings = AdapterSettings(roles=ROLES, starts=its_starts, reference=reference)
    trainer = Trainer(base(), replace(FREE, kl=Kl(0.1), learning_rate=0.05), adapters=settings)
    (batch,) = trainer.policy.batches(played())
    with torch.no_grad():
        with trainer.policy.routed(batch.segments):
            begun = batch.log_probs(trainer.module)[0]
        plain = batch.log_probs(base())[0]
    first = trainer.update(played())
    near = ("planner", "executor") if reference == "start" else ("planner",)
    for role in ROLES:
        assert (first.roles[role].kl < 1e-6) == (role in near or role == "critic.2"), role
    trainer.update(played())
    found = trainer.policy.reference_logp(batch)
    for row, sequence in enumerate(batch.sequences):
        wanted = begun if sequence.role in near else plain
        torch.testing.assert_close(found[row], wanted[row], rtol=1e-5, atol=1e-6)
        same = torch.allclose(begun[row], plain[row], atol=1e-3)
        assert same == (sequence.role == "critic.2"), sequence.role
    assert set(trainer.save_adapters(starts["planner"].parent / "later")) == set(ROLES)


def test_a_second_reference_is_refused(starts: dict[str, Path]) -> None:
    """And so are a word that is none, and a role that has no adapter."""
    settings = AdapterSettings(roles=ROLES, starts=starts, reference="start")
    with pytest.raises(UsageError, match="asks for another one"):
        Trainer(base(), FREE, reference=base(1), adapters=settings)
    with pytest.raises(UsageError, match=r"is 'base' or 'start'.*got 'first'"):
        AdapterSettings(roles=ROLES, reference={"planner": "first"})  # type: ignore[dict-item]
    with pytest.raises(UnknownName, match="nobody"):
        AdapterSettings(roles=ROLES, reference={"nobody": "start"})


@pytest.mark.parametrize("split", [1, 17, 60])
def test_order_and_micro_batches_change_no_gradient(split: int, starts: dict[str, Path]) -> None:
    settings = AdapterSettings(roles=ROLES, starts=starts)
    sequences = played()
    algorithm = replace(FREE, entropy=0.02, kl=Kl(0.1))
    whole = gradients(Trainer(base().double(), algorithm, adapters=settings), sequences)
    shuffled = random.Random(split).sample(sequences, len(sequences))
    algorithm = replace(algorithm, micro_batch_tokens=split)
    parts = gradients(Trainer(base().double(), algorithm, adapters=settings), shuffled)
    for role in ROLES:
        for one, other in zip(parts[role], whole[role], strict=True):
            torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)


def test_packed_and_padded_rows_give_one_gradient(starts: dict[str, Path]) -> None:
    settings = AdapterSettings(roles=ROLES, starts=starts)
    found = []
    for window in (None, 1):
        module = base().double()
        module.config.sliding_window = window  # which Llama ignores, and which forbids packing
        trainer = Trainer(module, replace(FREE, entropy=0.02), adapters=settings)
        (batch,) = trainer.policy.batches(played())
        assert batch.packed == (window is None)
        found.append(gradients(trainer, played()))
    for role in ROLES:
        for one, other in zip(found[0][role], found[1][role], strict=True):
            torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)


def test_a_state_goes_on_bit_for_bit(starts: dict[str, Path], tmp_path: Path) -> None:
    settings = AdapterSettings(roles=ROLES, starts=starts, frozen=["critic.2"])
    straight = Trainer(base(), replace(FREE, epochs=2), adapters=settings)
    stopped = Trainer(base(), replace(FREE, epochs=2), adapters=settings)
    for seed in range(2):
        straight.update(played(seed=seed))
        stopped.update(played(seed=seed))
    torch.save(stopped.state(), tmp_path / "state.pt")
    stopped.update(played(seed=9))  # what is saved is a copy
    resumed = Trainer(base(), replace(FREE, epochs=2), adapters=settings)
    resumed.load_state(torch.load(tmp_path / "state.pt", weights_only=True))
    for trainer in (straight, resumed):
        trainer.update(played(seed=3))
        trainer.save_adapters(tmp_path / str(id(trainer)))
    assert resumed.updates == straight.updates == 3
    for role in ROLES:
        one, other = (
            (tmp_path / str(id(trainer)) / role / "adapter_model.safetensors").read_bytes()
            for trainer in (straight, resumed)
        )
        assert one == other


def test_a_state_of_another_trainer_is_refused() -> None:
    state = Trainer(base(), FREE, adapters=AdapterSettings(roles=["a", "b"])).state()
    with pytest.raises(UsageError, match=r"adapters of `a`, `b`.*the model's own weights"):
        Trainer(base(), FREE).load_state(state)
    with pytest.raises(UsageError, match=r"adapters of `a`.*other shapes"):
        Trainer(base(), FREE, adapters=AdapterSettings(roles=["a", "b"], rank=2)).load_state(state)


def test_a_role_without_an_adapter_is_an_error_that_names_it() -> None:
    trainer = Trainer(base(), FREE, adapters=AdapterSettings(roles=["planner", "executor"]))
    with pytest.raises(UnknownName, match=r"'critic.2'.*`s2` is of that role"):
        trainer.update(played())


def test_a_sequence_with_bad_numbers_is_left_out_of_its_role_alone() -> None:
    """As if it had never been; and where nothing is left of a role, that one is not stepped."""
    sequences = played()
    results = []
    for bad in (True, False):
        module = tiny_model([*"abcdefgh", "never"], hidden=16, heads=2, context=64).module.double()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            torch.nn.init.normal_(module.lm_head.weight, std=0.3)
        with torch.no_grad():
            module.model.embed_tokens.weight[WORDS] = float("nan")
        trainer = Trainer(module, FREE, adapters=AdapterSettings(roles=ROLES))
        spoilt = [
            replace(s, ids=[WORDS, *s.ids[1:]])
            for s in sequences
            if s.role == "executor" or s.name == "s3"
        ]
        names = {s.name for s in spoilt}
        stats = trainer.update([s for s in sequences if s.name not in names] + spoilt * bad)
        assert sorted(stats.skipped) == (sorted(names) if bad else [])
        assert set(stats.roles) == {"planner", "critic.2"}
        assert not trainer.groups["executor"].optimizer.state_dict()["state"]
        results.append(trainer.groups["planner"].masters)
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


def test_bfloat16_weights_have_adapters_in_float32() -> None:
    """A step of 1e-4 is lost in a bfloat16 weight of 0.1; many of them add up in float32."""
    trainer = Trainer(
        base().to(torch.bfloat16),
        replace(FREE, learning_rate=1e-5),
        adapters=AdapterSettings(roles=ROLES),
    )
    start = [weight.detach().clone() for weight in trainer.groups["planner"].masters]
    assert all(weight.dtype == torch.float32 for weight in start)
    for seed in range(3):
        stats = trainer.update(played(seed=seed))
    assert stats.skipped == ()
    ends = [weight.detach() for weight in trainer.groups["planner"].masters]
    moved = [float((a - b).abs().max()) for a, b in zip(start, ends, strict=True)]
    assert all(2e-6 < step < 1e-4 for step in moved)


def test_first_weights_of_a_role_do_not_depend_on_the_others() -> None:
    alone = Trainer(base(), FREE, adapters=AdapterSettings(roles=["executor"]))
    among = Trainer(base(), FREE, adapters=AdapterSettings(roles=ROLES))
    for one, other in zip(
        alone.groups["executor"].masters, among.groups["executor"].masters, strict=True
    ):
        assert torch.equal(one, other)
    first, second = (among.groups[role].masters[0] for role in ROLES[:2])
    assert not torch.equal(first, second)
