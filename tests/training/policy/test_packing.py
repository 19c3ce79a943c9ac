"""Rows end to end, equal beginnings once: every token sees what it would see alone."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rolecraft.models.torch_extra import transformers
from rolecraft.training import AdapterSettings, Algorithm, Clip, Normalise, Trainer
from rolecraft.training.algorithms.losses import StepSize, policy_gradient_loss
from rolecraft.training.policy.attention import NAME, takes_blocks
from rolecraft.training.policy.batches import Batch, micro_batches
from rolecraft.training.policy.output_layer import hidden_states
from rolecraft.training.policy.packing import GRAIN, Packed, Row, fill
from rolecraft.training.policy.sequences import TrainingSequence, actions

torch.set_num_threads(1)

VOCABULARY = 30
SMALL: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "head_dim": 8,
    "max_position_embeddings": 128,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


GPT2: tuple[str, dict[str, Any]] = (
    "gpt2",
    {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 128},
)
LLAMA: tuple[str, dict[str, Any]] = ("llama", {"num_key_value_heads": 2})


def causal_model(family: str, attention: str = "sdpa", **changes: Any) -> Any:
    """A tiny random model of a family of transformers, float64."""
    config = transformers.AutoConfig.for_model(family, **{**SMALL, **changes})
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(  # type: ignore[no-untyped-call]
        config, attn_implementation=attention
    )
    for weight in model.parameters():
        if weight.ndim == 2:
            torch.nn.init.normal_(weight, std=0.3)
    return model.double().eval()


def rollouts(seed: int, prompts: int = 4, group: int = 4) -> list[TrainingSequence]:
    """Groups of attempts at a prompt that go apart early, late or never; two roles, two turns."""
    draw = random.Random(seed)

    def tokens(least: int, most: int) -> list[int]:
        return [draw.randrange(3, VOCABULARY) for _ in range(draw.randint(least, most))]

    found = []
    system = tokens(9, 9)
    for prompt in range(prompts):
        begin = [*system, *tokens(3, 20)]
        first = tokens(1, 12)
        for number in range(group):
            sampled = first if number % 2 else tokens(1, 12)
            tool, last = tokens(1, 10), tokens(1, 5)
            mask = [False] * len(begin) + [True] * len(sampled)
            mask += [False] * len(tool) + [True] * len(last)
            ids = [*begin, *sampled, *tool, *last]
            support: list[list[int] | None] = [None] * len(ids)
            support[-1] = sorted({last[-1], *tokens(2, 4)})
            sequence = TrainingSequence(
                f"{prompt}.{number}",
                "planner" if prompt % 2 else "executor",
                ids,
                mask,
                [-draw.random() * 3 if action else 0.0 for action in mask],
                [draw.choice((0.7, 1.0)) if action else 1.0 for action in mask],
                support,
                [0.0] * len(ids),
            )
            sequence.credit(draw.uniform(-1, 1))
            found.append(sequence)
    return found


def gradient(module: Any, batches: Sequence[Batch], step: StepSize) -> list[torch.Tensor]:
    """Of one step's loss, with an entropy bonus, whatever the batches."""
    module.zero_grad()
    for batch in batches:
        logp_NA, entropy_NA = batch.log_probs(module)
        loss = policy_gradient_loss(
            logp_NA,
            batch.sampled_logp_NA,
            batch.advantage_NA,
            batch.mask_NA,
            clip=Clip(),
            normalise=Normalise.SEQUENCES,
            step=step,
            entropy=0.1,
            entropy_NT=entropy_NA,
        )
        torch.autograd.backward(loss.total)
    return [weight.grad.clone() for weight in module.parameters()]


def of_batches(
    module: Any, sequences: Sequence[TrainingSequence], *, max_tokens: int = 10**9
) -> list[torch.Tensor]:
    batches = list(micro_batches(sequences, module, max_tokens=max_tokens))
    return gradient(module, batches, StepSize(len(sequences), actions(sequences)))


def plainly(module: Any, sequences: Sequence[TrainingSequence], *, left: bool) -> Any:
    """The same by one padded pass of transformers' own, all logits at once."""
    width = max(len(s.ids) for s in sequences)
    ids, mask, positions = [], [], []
    for s in sequences:
        here, pad = len(s.ids), [0] * (width - len(s.ids))
        ids.append([*pad, *s.ids] if left else [*s.ids, *pad])
        mask.append([*pad, *[1] * here] if left else [*[1] * here, *pad])
        positions.append([*pad, *range(here)] if left else [*range(here), *pad])
    module.zero_grad()
    logits = module(
        input_ids=torch.tensor(ids),
        attention_mask=torch.tensor(mask),
        position_ids=torch.tensor(positions),
    ).logits
    total = torch.zeros((), dtype=torch.float64)
    count = sum(sum(s.action_mask) for s in sequences)
    for n, s in enumerate(sequences):
        at = [index for index, action in enumerate(s.action_mask) if action]
        cost = torch.zeros((), dtype=torch.float64)
        for index in at:
            row = logits[n, index - 1 + (width - len(s.ids) if left else 0)] / s.temperatures[index]
            allowed = s.support[index] or list(range(VOCABULARY))
            logp = row[allowed].log_softmax(-1)
            mine = logp[allowed.index(s.ids[index])]
            ratio = (mine - s.logprobs[index]).exp()
            gain = torch.minimum(
                ratio * s.advantages[index], ratio.clamp(0.8, 1.28) * s.advantages[index]
            )
            bonus = -(logp.exp() * logp).sum()
            cost = cost - (gain + 0.1 * bonus) / len(at)
        total = total + cost / len(sequences)
    assert count
    torch.autograd.backward(total)
    return [weight.grad.clone() for weight in module.parameters()]


def same(
    ours: Sequence[torch.Tensor], theirs: Sequence[torch.Tensor], *, float32_inside: bool = False
) -> None:
    """To rounding: GPT-2 is float64 throughout, while Llama's norms round to float32."""
    rtol, atol = (1e-5, 1e-6) if float32_inside else (1e-9, 1e-11)
    assert any(one.any() for one in ours)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=rtol, atol=atol)


@pytest.mark.parametrize(("attention", "left"), [("sdpa", False), ("sdpa", True), ("eager", False)])
def test_the_gradient_of_packed_rows_is_that_of_padding_on_either_side(
    attention: str, left: bool
) -> None:
    sequences = rollouts(0, prompts=3)
    for family, how in GPT2, LLAMA:
        module = causal_model(family, attention, **how)
        assert takes_blocks(module, 60)
        padding = plainly(module, sequences, left=left)
        same(of_batches(module, sequences), padding, float32_inside=family == "llama")
        assert module.config._attn_implementation == attention


def test_micro_batches_order_and_what_is_masked_change_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = causal_model(GPT2[0], **GPT2[1])
    sequences = rollouts(1)
    whole = of_batches(module, sequences)
    shuffled = random.Random(0).sample(sequences, len(sequences))
    for bound in (1, 60, 200):
        same(of_batches(module, shuffled, max_tokens=bound), whole)
    same(of_batches(module, [spoilt(s) for s in sequences]), whole)
    monkeypatch.setattr("rolecraft.training.policy.batches.takes_blocks", lambda *_: False)
    same(of_batches(module, sequences, max_tokens=200), whole)


def spoilt(s: TrainingSequence) -> TrainingSequence:
    """NaN and nonsense wherever no action is."""

    def elsewhere(values: Sequence[Any], other: Any) -> list[Any]:
        return [v if action else other for v, action in zip(values, s.action_mask, strict=True)]

    return replace(
        s,
        logprobs=elsewhere(s.logprobs, math.nan),
        advantages=elsewhere(s.advantages, math.nan),
        temperatures=elsewhere(s.temperatures, math.nan),
        support=elsewhere(s.support, [7]),
    )


@pytest.mark.parametrize(
    ("family", "changes"),
    [
        ("qwen2", {"num_key_value_heads": 2}),
        ("qwen3", {"num_key_value_heads": 4, "tie_word_embeddings": True}),
        GPT2,
        ("gemma2", {"final_logit_softcapping": 5.0, "num_key_value_heads": 2}),
        ("gemma3_text", {"sliding_window": 8, "num_key_value_heads": 2}),
        ("cohere", {"logit_scale": 0.25, "num_key_value_heads": 2}),
        ("granite", {"logits_scaling": 3.0, "num_key_value_heads": 2}),
        ("bloom", {"n_layer": 2, "n_head": 4}),
    ],
)
def test_families_of_models_score_as_in_plain_passes(family: str, changes: dict[str, Any]) -> None:
    """Packed where that is the same, padded where not; logits bounded or scaled as theirs are."""
    attention = "eager" if family in ("gemma2", "bloom") else "sdpa"
    module = causal_model(family, attention, **changes)
    sequences = rollouts(2, prompts=2)
    for batch in micro_batches(sequences, module, max_tokens=10**9):
        assert batch.packed == (family not in ("gemma2", "gemma3_text", "bloom"))
        logp_NA, _ = batch.log_probs(module)
        again_NA, _ = batch.log_probs(module)
        torch.testing.assert_close(logp_NA, again_NA)
        for n, s in enumerate(batch.sequences):
            with torch.no_grad():
                logits = module(input_ids=torch.tensor([s.ids])).logits[0]
            at = [index for index, action in enumerate(s.action_mask) if action]
            for a, index in enumerate(at):
                allowed = s.support[index] or list(range(VOCABULARY))
                logp = (logits[index - 1] / s.temperatures[index])[allowed].log_softmax(-1)
                plain = float(logp[allowed.index(s.ids[index])])
                assert float(logp_NA[n, a].detach()) == pytest.approx(plain, abs=1e-5)


def test_adapters_of_roles_get_the_same_gradients_packed_and_padded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Roles whose prompts begin alike share no block: tokens go through their own adapter."""
    sequences = rollouts(4)

    def gradients() -> dict[str, list[torch.Tensor]]:
        settings = AdapterSettings(roles=["executor", "planner"])
        algorithm = Algorithm(max_grad_norm=1e9, micro_batch_tokens=150)
        trainer = Trainer(causal_model(GPT2[0], **GPT2[1]), algorithm, adapters=settings)
        seen: dict[str, list[torch.Tensor]] = {}
        for role, group in trainer.groups.items():
            for weight in group.weights:
                torch.nn.init.normal_(weight, std=0.1, generator=torch.Generator().manual_seed(1))

            def look(*_: Any, role: str = role, group: Any = group) -> None:
                seen[role] = [weight.grad.clone() for weight in group.masters]

            group.optimizer.register_step_pre_hook(look)
        trainer.update(sequences)
        return seen

    packed = gradients()
    monkeypatch.setattr("rolecraft.training.policy.batches.takes_blocks", lambda *_: False)
    for role, padded in gradients().items():
        same(packed[role], padded)


@pytest.mark.gpu
@pytest.mark.parametrize(("dtype", "near"), [(torch.float32, 1e-4), (torch.bfloat16, 0.2)])
def test_on_a_gpu_packed_rows_score_as_alone(dtype: torch.dtype, near: float) -> None:
    """In bfloat16 by the kernel for various lengths, whose rounding is of other places."""
    module = causal_model(LLAMA[0], **LLAMA[1]).to("cuda", dtype)
    sequences = rollouts(5)
    (batch,) = micro_batches(sequences, module, max_tokens=10**9)
    assert batch.packed
    logp_NA, _ = batch.log_probs(module)
    torch.autograd.backward(logp_NA.sum())
    for n, s in enumerate(batch.sequences):
        (alone,) = micro_batches([s], module, max_tokens=10**9)
        mine_A = logp_NA[n][batch.mask_NA[n]]
        torch.testing.assert_close(mine_A, alone.log_probs(module)[0][0], rtol=0, atol=near)


def test_layers_that_mix_neighbours_are_noticed() -> None:
    class Mixing(torch.nn.Module):
        def __init__(self, inner: Any) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: Any) -> Any:
            y = self.inner(x)
            return y + 1e-3 * y.roll(1, dims=1)

    module = causal_model("llama")
    module.model.layers[0].mlp = Mixing(module.model.layers[0].mlp)
    assert not takes_blocks(module, 10)


def test_logits_that_no_linear_layer_explains_are_the_models_own() -> None:
    module = causal_model(GPT2[0], **GPT2[1])
    plain = module.forward

    def odd(*args: Any, **more: Any) -> Any:
        out = plain(*args, **more)
        out.logits = out.logits + 0.1 * out.logits.sin()
        return out

    module.forward = odd
    sequences = rollouts(3, prompts=2)
    same(of_batches(module, sequences), plainly(module, sequences, left=False))
    assert hidden_states(module, input_ids=torch.tensor([[1, 2]])) is None


def test_a_sampler_can_use_the_module_while_attention_is_exchanged() -> None:
    from rolecraft.training.policy.attention import exchanged

    module = causal_model("llama")
    ids, mask = torch.tensor([[0, 0, 5, 6], [4, 5, 6, 7]]), torch.tensor([[0, 0, 1, 1], [1] * 4])
    with torch.no_grad():
        before = module(input_ids=ids, attention_mask=mask).logits
        with exchanged(module):
            assert module.config._attn_implementation == NAME
            meanwhile = module(input_ids=ids, attention_mask=mask).logits
    assert torch.equal(before, meanwhile)


rows_of_few_ids = st.lists(
    st.builds(
        Row,
        st.sampled_from(["a", "b"]),
        st.lists(st.integers(0, 1), min_size=1, max_size=40).map(tuple),
    ),
    min_size=1,
    max_size=30,
    unique=True,
)


@settings(max_examples=100, deadline=None)
@given(rows=rows_of_few_ids, extend=st.integers(0, 5), most=st.integers(1, 300), seed=st.integers())
def test_every_row_is_in_one_part_of_bounded_size_and_can_be_read_back(
    rows: list[Row], extend: int, most: int, seed: int
) -> None:
    """Whatever is shared; and the order in which rows came is of no account."""
    begin = tuple(range(GRAIN * extend))
    rows = [Row(row.role, begin + row.ids) for row in rows]
    parts = fill(rows, most)
    assert fill(random.Random(seed).sample(rows, len(rows)), most) == parts
    assert sorted(row for part in parts for row in part) == sorted(rows)
    for part in parts:
        packed = Packed(part)
        ids, positions = packed.ids, packed.positions
        assert packed.tokens == len(ids) <= max(most, *(len(row.ids) for row in part))
        assert len(part) == 1 or packed.tokens <= most
        for n, row in enumerate(part):
            places = packed.places(n, torch.arange(len(row.ids)).numpy()).tolist()
            assert [ids[place] for place in places] == list(row.ids)
            assert [positions[place] for place in places] == list(range(len(row.ids)))
            (segment,) = (s for s in packed.segments if s.adapter == row.role)
            assert all(segment.start <= place < segment.stop for place in places)
        for a in range(len(part)):
            for b in range(a):
                shared = set(packed.places(a, torch.arange(len(part[a].ids)).numpy())) & set(
                    packed.places(b, torch.arange(len(part[b].ids)).numpy())
                )
                assert not shared or part[a].role == part[b].role
                assert part[a].ids[: len(shared)] == part[b].ids[: len(shared)]


def test_parts_are_filled_with_tokens_that_are_no_padding() -> None:
    """Lognormal lengths, in thirds of a part: nearly as few parts as the tokens need."""
    draw = random.Random(0)
    lengths = [int(draw.lognormvariate(4, 1)) % 400 + 1 for _ in range(300)]
    rows = [Row("r", tuple(draw.choices(range(100), k=length))) for length in lengths]
    rows = list(dict.fromkeys(rows))
    tokens = sum(len(row.ids) for row in rows)
    assert len(fill(rows, 1200)) <= 1.05 * tokens / 1200 + 1


def test_a_prompt_is_computed_once_for_its_group() -> None:
    prompt = tuple(range(100, 164))
    rows = [Row("r", (*prompt, number, *range(10))) for number in range(8)]
    (part,) = fill(rows, 10**6)
    assert Packed(part).tokens == 64 + 8 * 11
