"""A training tells the chat template which role thinks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from rolecraft.errors import UnknownName, UsageError
from rolecraft.models.tiny_chat import tiny_chat_model
from rolecraft.models.token_model import Sampled, TokenRequest
from rolecraft.models.transformers_model import TransformersModel
from rolecraft.scenarios.relay import relay
from rolecraft.training import FROM_SCRATCH, train

torch.set_num_threads(1)

TEMPLATE = (
    "{%- for message in messages %}<|im_start|>{{ message.role }}\n"
    "{{ message.content }}<|im_end|>\n{%- endfor %}"
    "{%- if add_generation_prompt %}<|im_start|>assistant\n"
    "{%- if enable_thinking is defined and not enable_thinking %}<think></think>{% endif %}"
    "{% endif %}"
)
SMALL = {"algorithm": replace(FROM_SCRATCH, group=2, epochs=1), "tasks_per_step": 1}


class Listens(TransformersModel):
    """Keeps what each role was given to read."""

    def __init__(self) -> None:
        plain = tiny_chat_model(hidden=32, heads=2, context=512, for_adapters=True)
        plain.tokenizer.chat_template = TEMPLATE
        super().__init__(plain.module, plain.tokenizer)
        self.heard: dict[str, list[str]] = {}

    async def sample(self, request: TokenRequest) -> Sampled:
        self.heard.setdefault(request.role, []).append(self.tokenizer.decode(request.ids))
        return await super().sample(request)


async def test_only_the_role_that_is_told_to_answers_without_thinking(tmp_path: Path) -> None:
    model = Listens()
    how = {"model": model, "thinking": {"planner": False}, **SMALL}
    run = await train(relay, steps=1, folder=tmp_path, **how)  # type: ignore[arg-type]
    assert run.records[0].by_role["planner"].actions > 0
    assert all("<think></think>" in text for text in model.heard["planner"])
    assert not any("<think>" in text for text in model.heard["executor"])
    other = {**how, "model": Listens(), "thinking": {"planner": True}}
    with pytest.raises(UsageError, match=r"`thinking` is \{'planner': True\} and was"):
        await train(relay, steps=2, folder=tmp_path, resume=True, **other)  # type: ignore[arg-type]


async def test_roles_that_are_not_there_or_guess_are_refused() -> None:
    with pytest.raises(UnknownName, match="planer"):
        await train(relay, model=Listens(), thinking={"planer": True}, **SMALL)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="is frozen: it guesses"):
        await train(
            relay,
            model=Listens(),
            thinking={"planner": True},
            frozen=["planner"],
            **SMALL,  # type: ignore[arg-type]
        )
