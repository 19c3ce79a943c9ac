"""Adapters come from peft's folders and go back there, and the sampler serves what was trained."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path
from typing import Any

import peft
import pytest
import torch
import transformers

from rolecraft.errors import AdapterError, UnknownName, UsageError
from rolecraft.messages import Message
from rolecraft.models.base import Sampling
from rolecraft.models.tiny import tiny_model
from rolecraft.models.transformers_model import TransformersModel
from rolecraft.training import Algorithm, Kl, Trainer, TrainingSequence, training_sequences
from rolecraft.training.policy.adapter_settings import AdapterSettings
from rolecraft.training.policy.batches import Segment
from rolecraft.trajectories.events import Event
from rolecraft.trajectories.trajectory import Trajectory

torch.set_num_threads(1)

FAST = Algorithm(learning_rate=3e-2, epochs=2)
ROLES = ("planner", "executor")


def sampler() -> TransformersModel:
    model = tiny_model("abcdefgh", hidden=16, heads=2, context=64)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        torch.nn.init.normal_(model.module.lm_head.weight, std=0.3)
    return model


def gpt2() -> Any:
    """Its linear layers store their weights turned, and its head is its embeddings."""
    config = transformers.GPT2Config(
        vocab_size=13,
        n_embd=16,
        n_layer=2,
        n_head=2,
        n_positions=64,
        resid_pdrop=0.1,
        bos_token_id=0,
        eos_token_id=0,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module: Any = transformers.GPT2LMHeadModel(config)
        return module.eval()


BASES = {"llama": lambda: sampler().module, "gpt2": gpt2}


def played(seed: int = 0, *roles: str) -> list[TrainingSequence]:
    drawn = random.Random(seed)
    made = []
    for number in range(8):
        length = drawn.randint(4, 10)
        mask = [index >= 2 for index in range(length)]
        made.append(
            TrainingSequence(
                f"s{number}",
                (roles or ROLES)[number % 2],
                [drawn.randrange(13) for _ in mask],
                mask,
                [-2.5 if action else 0.0 for action in mask],
                [1.0] * length,
                [None] * length,
                [drawn.uniform(-1, 1) if action else 0.0 for action in mask],
            )
        )
    return made


IDS = torch.tensor([[1, 5, 6, 7, 8, 9], [2, 4, 12, 3, 11, 10]])


def trained_logits(trainer: Trainer, role: str) -> torch.Tensor:
    with torch.no_grad(), trainer.policy.routed([Segment(role, 0, IDS.numel())]):
        out: torch.Tensor = trainer.module(input_ids=IDS).logits
    return out


@pytest.mark.parametrize("kind", list(BASES))
@pytest.mark.parametrize("targets", ["all-linear", ["c_proj", "o_proj"]])
def test_a_saved_adapter_gives_the_same_logits_in_peft(
    kind: str, targets: Any, tmp_path: Path
) -> None:
    if targets != "all-linear":
        targets = [{"llama": "o_proj", "gpt2": "c_proj"}[kind]]
    settings = AdapterSettings(roles=ROLES, rank=3, alpha=5.0, targets=targets)
    trainer = Trainer(BASES[kind](), FAST, adapters=settings)
    for seed in range(2):
        trainer.update(played(seed))
    folders = trainer.save_adapters(tmp_path)
    assert folders == {role: tmp_path / role for role in ROLES}
    seen = []
    for role, folder in folders.items():
        loaded = peft.PeftModel.from_pretrained(BASES[kind](), str(folder)).eval()
        with torch.no_grad():
            theirs = loaded(input_ids=IDS).logits
        torch.testing.assert_close(trained_logits(trainer, role), theirs, rtol=0, atol=1e-5)
        seen.append(theirs)
    assert (seen[0] - seen[1]).abs().max() > 1e-2


def of_peft(folder: Path, module: Any, **settings: Any) -> Path:
    settings = {"r": 4, "init_lora_weights": False, "target_modules": "all-linear", **settings}
    settings["fan_in_fan_out"] = type(module) is transformers.GPT2LMHeadModel
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        wrapped = peft.get_peft_model(module, peft.LoraConfig(**settings))
    wrapped.save_pretrained(str(folder), save_embedding_layers=False)
    return folder


@pytest.mark.parametrize("kind", list(BASES))
def test_an_adapter_that_is_gone_on_from_keeps_what_it_is(kind: str, tmp_path: Path) -> None:
    settings = {"use_rslora": True, "lora_alpha": 7, "lora_dropout": 0.2}
    start = of_peft(tmp_path / "start", BASES[kind](), **settings)
    roles = AdapterSettings(roles=ROLES, rank=16, starts={"planner": start})
    trainer = Trainer(BASES[kind](), FAST, adapters=roles)
    with torch.no_grad():
        wrapped = peft.PeftModel.from_pretrained(BASES[kind](), str(start)).eval()
        theirs = wrapped(input_ids=IDS).logits
    torch.testing.assert_close(trained_logits(trainer, "planner"), theirs, rtol=0, atol=1e-5)
    trainer.update(played())
    folder = trainer.save_adapters(tmp_path / "end")["planner"]
    config = json.loads((folder / "adapter_config.json").read_text())
    assert (config["r"], config["lora_alpha"], config["use_rslora"]) == (4, 7, True)
    assert config["lora_dropout"] == 0.0  # it was trained without
    again = Trainer(
        BASES[kind](), FAST, adapters=AdapterSettings(roles=["planner"], starts={"planner": folder})
    )
    assert torch.equal(trained_logits(again, "planner"), trained_logits(trainer, "planner"))


async def turn(model: TransformersModel, role: str, seed: int) -> TrainingSequence:
    session = model.session(role, seed=seed)
    trajectory = Trajectory(f"t{seed}")
    for text in ("a b", "c")[: 1 + seed % 2]:
        how = Sampling(max_tokens=4, temperature=0.8 if seed % 3 else 1.3)
        completion = await session.generate([Message(text)], sampling=how)
        trajectory.events.append(Event("model_call", role=role, tokens=completion.tokens))
    (sequence,) = training_sequences(trajectory)
    sequence.credit(random.Random(seed).uniform(-1, 1))
    return sequence


def test_what_is_trained_is_what_is_sampled(tmp_path: Path) -> None:
    """Two roles whose adapters the sampler serves: the first step is on policy, ratio 1, and so is
    each after a swap. The trainer goes on beside the sampler's adapters, over the same base."""
    model = sampler()
    settings = AdapterSettings(roles=ROLES, rank=4)
    trainer = Trainer(model.module, Algorithm(learning_rate=3e-2), adapters=settings)

    async def play(version: int) -> list[TrainingSequence]:
        for role, folder in trainer.save_adapters(tmp_path / str(version)).items():
            await model.load_adapter(role, folder, version=version)
        return await asyncio.gather(*(turn(model, ROLES[seed % 2], seed) for seed in range(12)))

    async def learn() -> None:
        for version in (1, 2, 3):
            sequences = await play(version)
            assert {name for s in sequences for name in s.adapters} == {
                f"{role}@{version}" for role in ROLES
            }
            stats = trainer.update(sequences)
            for role in ROLES:
                assert stats.roles[role].gap < 1e-5
                assert stats.roles[role].clipped == 0
                assert stats.roles[role].moved == pytest.approx(0, abs=1e-7)
        # A trainer that begins when adapters are served leaves those out of its own model.
        late = Trainer(model.module, Algorithm(), adapters=AdapterSettings(roles=ROLES))
        assert not any(hasattr(layer, "base_layer") for layer in late.module.modules())
        assert torch.equal(trained_logits(late, "planner"), sampler().module(input_ids=IDS).logits)
        await model.aclose()

    asyncio.run(learn())


def test_the_base_of_a_start_is_checked_by_name_and_by_shape(tmp_path: Path) -> None:
    start = of_peft(tmp_path / "start", sampler().module, target_modules=["q_proj"])
    config = json.loads((start / "adapter_config.json").read_text())
    config["base_model_name_or_path"] = "someone/another-model"
    (start / "adapter_config.json").write_text(json.dumps(config))
    module = sampler().module
    module.config._name_or_path = "someone/this-model"
    settings = AdapterSettings(roles=ROLES, starts={"planner": start})
    with pytest.raises(AdapterError, match=r"trained on 'someone/another-model'.*this-model"):
        Trainer(module, FAST, adapters=settings)
    wider = tiny_model("abcdefgh", hidden=32, context=64).module
    with pytest.raises(AdapterError, match=r"of another base model.*q_proj"):
        Trainer(wider, FAST, adapters=settings)
    with pytest.raises(AdapterError, match="modules named 'q_proj'"):
        Trainer(gpt2(), FAST, adapters=settings)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"use_dora": True}, "DoRA"),
        ({"modules_to_save": ["lm_head"]}, "modules_to_save"),
        ({"target_modules": ["q_proj", "embed_tokens"]}, "lora_embedding_A"),
    ],
)
def test_a_start_of_another_kind_is_refused(
    settings: dict[str, Any], named: str, tmp_path: Path
) -> None:
    start = of_peft(tmp_path / "start", sampler().module, **settings)
    with pytest.raises(AdapterError, match=named):
        Trainer(sampler().module, FAST, adapters=AdapterSettings(roles=["a"], starts={"a": start}))


def test_a_start_whose_files_do_not_belong_together_is_refused(tmp_path: Path) -> None:
    start = of_peft(tmp_path / "start", sampler().module)
    config = json.loads((start / "adapter_config.json").read_text())
    config["r"] = 2
    (start / "adapter_config.json").write_text(json.dumps(config))
    settings = AdapterSettings(roles=["a"], starts={"a": start})
    with pytest.raises(AdapterError, match=r"rank 4.*says 2"):
        Trainer(sampler().module, FAST, adapters=settings)
    settings = AdapterSettings(roles=["a"], starts={"a": tmp_path / "nowhere"})
    with pytest.raises(AdapterError, match="no adapter in"):
        Trainer(sampler().module, FAST, adapters=settings)


@pytest.mark.parametrize(
    ("kind", "target", "why"),
    [
        ("llama", "lm_head", "it is the output layer"),
        ("gpt2", "lm_head", "those of the embeddings too"),
        ("llama", "embed_tokens", "it is the embeddings"),
        ("llama", "qproj", "no linear layer of that name.*`q_proj`"),
    ],
)
def test_a_layer_that_can_have_no_adapter_is_refused_with_the_reason(
    kind: str, target: str, why: str
) -> None:
    with pytest.raises(UsageError, match=why):
        Trainer(BASES[kind](), FAST, adapters=AdapterSettings(roles=["a"], targets=[target]))


def test_a_model_that_can_have_no_adapters_is_refused(tmp_path: Path) -> None:
    settings = AdapterSettings(roles=["a"])
    wrapped = peft.get_peft_model(sampler().module, peft.LoraConfig(target_modules="all-linear"))
    with pytest.raises(UsageError, match="wrapped in peft already"):
        Trainer(wrapped, FAST, adapters=settings)
    quantised = sampler().module
    quantised.config.quantization_config = {"load_in_4bit": True}
    with pytest.raises(UsageError, match="quantised"):
        Trainer(quantised, FAST, adapters=settings)
    charged = Algorithm(kl=Kl(0.1, "k1"))
    with pytest.raises(UsageError, match="taken off rewards"):
        Trainer(sampler().module, charged, adapters=AdapterSettings(roles=["a"], kl={"a": 0.5}))
    with pytest.raises(UsageError, match="no adapters to save"):
        Trainer(sampler().module, FAST).save_adapters(tmp_path)


@pytest.mark.parametrize(
    "wrong",
    [
        {"roles": []},
        {"roles": ["a", "a"]},
        {"roles": "planner"},
        {"roles": ["a/b"]},
        {"roles": [".."]},
        {"rank": 0},
        {"rank": True},
        {"alpha": 0.0},
        {"targets": []},
        {"targets": "q_proj"},
        {"dropout": 0.05},
        {"init": "zeros"},
        {"learning_rates": {"a": 0.0}},
        {"kl": {"a": -1.0}},
        {"frozen": ["a", "b"]},
        {"frozen": "a"},
    ],
)
def test_settings_that_make_no_sense_are_refused_when_written(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        AdapterSettings(**{"roles": ["a", "b"], **wrong})


@pytest.mark.parametrize("name", ["starts", "learning_rates", "kl", "frozen"])
def test_settings_of_a_role_that_has_no_adapter_are_refused(name: str) -> None:
    given: Any = ["c"] if name == "frozen" else {"c": 0.1}
    with pytest.raises(UnknownName, match="'c'"):
        AdapterSettings(roles=["a", "b"], **{name: given})
