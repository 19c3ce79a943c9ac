"""Calls that arrive together are answered together; the loop never waits for the model."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
import torch

from rolecraft.errors import ModelError, UsageError
from rolecraft.messages import Message
from rolecraft.models.base import Completion, Sampling
from rolecraft.models.tiny import tiny_model
from rolecraft.models.transformers_model import TransformersModel

torch.set_num_threads(1)

LETTERS = tuple("abcdefgh")


async def choose(model: TransformersModel, text: str, seed: int = 0) -> Completion:
    session = model.session("r", seed=seed)
    return await session.generate([Message(text)], sampling=Sampling(choices=LETTERS))


class Passes:
    """Counts forward passes and their batch sizes; can hold them until a test lets go."""

    def __init__(self, model: TransformersModel) -> None:
        self.sizes: list[int] = []
        self.started = threading.Event()
        self.go_on = threading.Event()
        self.go_on.set()
        model.module.register_forward_pre_hook(self._before, with_kwargs=True)

    def _before(self, module: Any, args: Any, kwargs: dict[str, Any]) -> None:
        self.sizes.append(len(kwargs["input_ids"]))
        self.started.set()
        assert self.go_on.wait(30)


async def until_started(passes: Passes) -> None:
    """Wait for the worker without blocking the loop: this only works if nothing else blocks it."""
    await asyncio.get_running_loop().run_in_executor(None, passes.started.wait, 30)


def prompt(i: int) -> str:
    """Different for each i below 512."""
    return " ".join(LETTERS[i // 8**digit % 8] for digit in range(3))


async def test_concurrent_calls_share_one_forward_pass() -> None:
    model = tiny_model(LETTERS)
    passes = Passes(model)
    await asyncio.gather(*(choose(model, prompt(i)) for i in range(500)))
    assert passes.sizes == [500]


async def test_equal_prompts_are_computed_once() -> None:
    """A group of samples of one task costs one prompt."""
    model = tiny_model(LETTERS)
    passes = Passes(model)
    answers = await asyncio.gather(*(choose(model, prompt(i % 3), seed=i) for i in range(300)))
    assert passes.sizes == [3]
    assert {answer.text for answer in answers} == set(LETTERS)


async def test_stragglers_that_come_a_few_loop_turns_later_still_share_the_batch() -> None:
    model = tiny_model(LETTERS)
    passes = Passes(model)

    async def late(i: int) -> None:
        for _ in range(i % 8):
            await asyncio.sleep(0)
        await choose(model, prompt(i))

    await asyncio.gather(*(late(i) for i in range(64)))
    assert passes.sizes == [64]


async def test_a_batch_has_at_most_max_batch_answers() -> None:
    model = tiny_model(LETTERS, max_batch=10)
    passes = Passes(model)
    await asyncio.gather(*(choose(model, prompt(i)) for i in range(35)))
    assert passes.sizes == [10, 10, 10, 5]


async def test_the_loop_goes_on_while_the_model_works_and_collects_the_next_batch() -> None:
    model = tiny_model(LETTERS)
    passes = Passes(model)
    passes.go_on.clear()
    first = asyncio.create_task(choose(model, prompt(0)))
    await until_started(passes)
    later = [asyncio.create_task(choose(model, prompt(i))) for i in range(1, 8)]
    for _ in range(100):
        await asyncio.sleep(0)  # turns of a loop that is free
    assert passes.sizes == [1]
    assert not first.done()
    passes.go_on.set()
    await asyncio.gather(first, *later)
    assert passes.sizes == [1, 7]


async def test_a_cancelled_caller_costs_nobody_else_their_answer() -> None:
    model = tiny_model(LETTERS)
    passes = Passes(model)
    passes.go_on.clear()
    session = model.session("r")
    under_way = asyncio.create_task(session.generate([Message("a")]))
    other = asyncio.create_task(choose(model, prompt(1)))
    await until_started(passes)
    queued = asyncio.create_task(choose(model, prompt(2)))
    await asyncio.sleep(0)
    under_way.cancel()
    queued.cancel()
    passes.go_on.set()
    assert (await other).text in LETTERS
    await asyncio.gather(under_way, queued, return_exceptions=True)
    assert under_way.cancelled()
    assert queued.cancelled()
    assert passes.sizes[0] == 2
    assert session.tokens == []
    assert (await session.generate()).tokens.start == 0  # type: ignore[union-attr]


async def test_a_batch_that_fails_is_an_error_of_each_call_and_the_next_batch_works() -> None:
    model = tiny_model(LETTERS)

    def out_of_memory(*_: Any) -> None:
        raise MemoryError("no room for 3 caches")

    hook = model.module.register_forward_hook(out_of_memory)
    sessions = [model.session("r", seed=seed) for seed in range(3)]
    failures = await asyncio.gather(
        *(session.generate([Message("a")]) for session in sessions), return_exceptions=True
    )
    assert len({id(failure) for failure in failures}) == 3
    for failure in failures:
        assert isinstance(failure, ModelError)
        assert isinstance(failure.__cause__, MemoryError)
        assert "no room for 3 caches" in str(failure)
    hook.remove()
    completion = await sessions[0].generate()
    assert completion.tokens is not None
    assert completion.tokens.given == model.encode(model.render([Message("a")]))


async def test_answers_carry_the_version_that_served_them() -> None:
    """Weights change between batches only; a call under way keeps the version it began with."""
    model = tiny_model(LETTERS)
    passes = Passes(model)
    passes.go_on.clear()
    old = asyncio.create_task(choose(model, prompt(0)))
    await until_started(passes)

    def update() -> None:
        model.version += 1

    updated = asyncio.create_task(model.run(update))
    await asyncio.sleep(0)
    new = asyncio.create_task(choose(model, prompt(1)))
    passes.go_on.set()
    await updated
    assert [(await call).tokens.version for call in (old, new)] == [0, 1]  # type: ignore[union-attr]


def test_a_model_outlives_an_event_loop() -> None:
    model = tiny_model(LETTERS)
    texts = [asyncio.run(choose(model, "a", seed=3)).text for _ in range(2)]
    assert texts[0] == texts[1]


def test_a_loop_that_ended_in_the_middle_leaves_nothing_behind() -> None:
    model = tiny_model(LETTERS)
    passes = Passes(model)
    passes.go_on.clear()

    async def leave() -> None:
        left = asyncio.create_task(choose(model, "a"))
        await until_started(passes)
        left.cancel()
        passes.go_on.set()

    asyncio.run(leave())
    assert asyncio.run(choose(model, "a")).text in LETTERS


def test_two_loops_at_once_are_refused() -> None:
    model = tiny_model(LETTERS)

    async def other_loop() -> None:
        await choose(model, "a")

    async def main() -> None:
        await choose(model, "a")
        with pytest.raises(UsageError, match="another event loop"):
            await asyncio.to_thread(asyncio.run, other_loop())

    asyncio.run(main())


async def test_closing_twice_is_harmless_and_a_closed_model_starts_again() -> None:
    model = tiny_model(LETTERS)
    await choose(model, "a")
    await model.aclose()
    await model.aclose()
    assert (await choose(model, "a")).text in LETTERS
