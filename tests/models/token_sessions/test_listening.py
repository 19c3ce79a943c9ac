"""A local model's thoughts are heard apart from its answer while both are sampled."""

from __future__ import annotations

import asyncio
from typing import Any

from rolecraft.messages import Message


async def test_thoughts_and_answer_of_a_local_model_are_heard_as_they_are_sampled(kit: Any) -> None:
    class Streams(kit.RandomModel):  # type: ignore[misc, name-defined]
        async def sample(self, request: Any) -> Any:
            sampled = await super().sample(request)
            for upto in range(1, len(sampled.ids) + 1):
                request.listen(sampled.ids[:upto])
            await asyncio.sleep(0)  # what was heard is told on the event loop
            return sampled

    model = Streams(kit.FAMILIES["qwen3"], broken=0)
    model.script = [("<think>aa ab ba</think>\n\nbb\n aab", "<|im_end|>")]
    session = model.session("r")
    heard: list[tuple[str, str]] = []
    session.on_delta = lambda piece: heard.append(("said", piece))
    session.on_reasoning = lambda piece: heard.append(("thought", piece))
    answer = await session.generate([Message("aa")])
    assert (answer.reasoning, answer.text) == ("aa ab ba", "bb\n aab")  # as from an API
    whole = {
        kind: "".join(piece for each, piece in heard if each == kind)
        for kind in ("thought", "said")
    }
    assert whole == {"thought": answer.reasoning, "said": answer.text}
    assert len(heard) > 2
