"""A stop string ends an answer at the same place, whoever looks for it, special tokens included."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from rolecraft.messages import Message
from rolecraft.models.base import Sampling
from rolecraft.models.token_model import Sampled, TokenModel, TokenRequest

START, PAD = "<|im_start|>", "<|endoftext|>"


class Says(TokenModel):
    """Samples `script` token by token, as the model in this process does."""

    real = False
    script = ""

    async def sample(self, request: TokenRequest) -> Sampled:
        ids = self.tokenizer.encode(self.script, add_special_tokens=False)
        stopped = self.stopped(request.stop)
        sampled: list[int] = []
        for token in [*ids, self.tokenizer.eos_token_id]:
            sampled.append(token)
            if request.listen is not None:
                request.listen([*sampled])
            if token in self.ends or (stopped is not None and stopped(sampled)):
                break
        return Sampled(ids=sampled, logprobs=[-1.0] * len(sampled), finish="stop")


async def answered(
    kit: Any, script: str, stop: Sequence[str], tools: bool = False
) -> tuple[str, str, int]:
    """What is answered, what is heard while it is sampled, and how many tokens are sampled."""
    tokenizer = kit.tokenizer_of("qwen25")
    ends = [tokenizer.convert_tokens_to_ids("<|im_end|>")]
    model = Says(tokenizer, name="m", ends=ends, parser="hermes", reasoning="none")
    model.script = script
    session = model.session("r")
    heard: list[str] = []
    session.on_delta = heard.append
    answer = await session.generate(
        [Message("ab")], tools=kit.TOOLS if tools else (), sampling=Sampling(stop=tuple(stop))
    )
    return answer.text, "".join(heard), len(answer.tokens.sampled)


@pytest.mark.parametrize("tools", [False, True])
@pytest.mark.parametrize(
    ("script", "stop", "expected"),
    [
        (f"aa ba{START}bb", [START], "aa ba"),
        (f"aa ba{PAD}bb", [PAD, "never"], "aa ba"),
        (f"aa ba{START}bb", ["a" + START], "aa b"),  # part text, part token
        (f"aa ba{START}bb", [START + "b"], "aa ba"),
        (f"aa ba{START}bb", ["_start|>"], "aa ba<|im"),  # as vLLM has it
        ("aa éba bb", ["éb"], "aa "),
        ("aa ba bb", ["aa"], ""),
        ("aa ba ab", ["abb"], "aa ba ab"),  # begins, and does not end
    ],
)
async def test_an_answer_ends_where_its_stop_string_begins(
    kit: Any, script: str, stop: list[str], expected: str, tools: bool
) -> None:
    text, heard, _ = await answered(kit, script, stop, tools)
    assert (text, heard) == (expected, expected)


async def test_sampling_ends_with_the_stop_string(kit: Any) -> None:
    tokenizer = kit.tokenizer_of("qwen25")
    upto = len(tokenizer.encode(f"aa ba{START}", add_special_tokens=False))
    assert (await answered(kit, f"aa ba{START}" + "bb ab" * 9, [START]))[2] == upto


async def test_stop_strings_that_do_not_come_show_no_special_tokens(kit: Any) -> None:
    text, heard, _ = await answered(kit, f"aa{START}ba", ["never"])
    assert (text, heard) == ("aaba", "aaba")
