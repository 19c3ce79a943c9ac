"""Some roles think before they answer and others do not, on one model."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from rolecraft.errors import UsageError
from rolecraft.messages import Message
from rolecraft.models import FunctionModel, Sampling
from rolecraft.models.sampled import Sampled
from rolecraft.models.thinking import Thinking, switch_of
from rolecraft.models.tiny_chat import tiny_chat_model
from rolecraft.models.transformers_model import TransformersModel

torch.set_num_threads(1)

TEMPLATE = (
    "{%- for message in messages %}<|im_start|>{{ message.role }}\n"
    "{{ message.content }}<|im_end|>\n{%- endfor %}"
    "{%- if add_generation_prompt %}<|im_start|>assistant\n"
    "{%- if SWITCH is defined and not SWITCH %}<think></think>{% endif %}{% endif %}"
)
NO_THOUGHT = "<think></think>"


def switched(name: str = "enable_thinking", **settings: Any) -> TransformersModel:
    plain = tiny_chat_model(hidden=32, heads=2, for_adapters=True)
    plain.tokenizer.chat_template = TEMPLATE.replace("SWITCH", name)
    return TransformersModel(plain.module, plain.tokenizer, **settings)


async def given(model: Any, role: str) -> str:
    """What the model is given to read in a role's first turn."""
    session = model.session(role, seed=1)
    answer = await session.generate([Message("hello")], sampling=Sampling(max_tokens=2))
    return str(session.model.tokenizer.decode(answer.tokens.given))


@pytest.mark.parametrize("name", ["enable_thinking", "thinking"])
async def test_a_role_thinks_or_not_and_others_are_left_to_the_template(name: str) -> None:
    model = switched(name)
    told = Thinking(model, {"quick": False, "slow": True})
    assert NO_THOUGHT in await given(told, "quick")
    assert NO_THOUGHT not in await given(told, "slow")
    assert await given(told, "other") == await given(model, "other")


async def test_settings_that_the_model_has_stay_and_the_model_itself_is_as_it_was() -> None:
    model = switched(template={"enable_thinking": False})
    assert NO_THOUGHT not in await given(Thinking(model, {"slow": True}), "slow")
    assert NO_THOUGHT in await given(model, "slow")


async def test_how_to_sample_and_the_version_go_through_it() -> None:
    model = switched()
    model.version = 3
    told = Sampled(Thinking(model, {"quick": False}), Sampling(max_tokens=1, temperature=0.5))
    answer = await told.session("quick", seed=1).generate([Message("hello")])
    assert answer.tokens is not None
    assert (answer.tokens.version, answer.tokens.temperature) == (3, 0.5)
    assert len(answer.tokens.sampled) == 1


def test_what_has_no_switch_is_refused_with_its_name() -> None:
    with pytest.raises(UsageError, match=r"'tiny-chat' has no switch for thinking"):
        Thinking(tiny_chat_model(hidden=32, heads=2), {"planner": False})
    with pytest.raises(UsageError, match="by a chat template"):
        Thinking(FunctionModel(lambda call: "yes", name="rule"), {"planner": False})
    assert switch_of(switched("thinking")) == "thinking"
