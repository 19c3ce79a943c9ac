"""`VLLMModel` on a real vLLM: exact tokens, true log-probabilities, and an engine that may die."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rolecraft.errors import ModelError, ModelUnavailable, UsageError
from rolecraft.messages import Message
from rolecraft.models.base import Sampling

pytestmark = [
    pytest.mark.slow,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.filterwarnings("ignore"),  # vLLM's, and those of all that it imports
]

ENGINE = {"enforce_eager": True, "max_num_seqs": 8, "kv_cache_memory_bytes": 1 << 28}
QUESTION = [Message("Read register b, add both, and answer with one digit.")]


def drawn_from(module: Any, ids: list[int], span: Any) -> list[float]:
    """What `TokenSpan` says of log-probabilities, computed by transformers."""
    import torch

    from rolecraft.models.distribution import NOT_ALLOWED, log_distribution

    with torch.no_grad():
        logits = module(torch.tensor([ids])).logits[0]
    found = []
    for at, token in enumerate(span.sampled):
        support = span.support[at] if span.support is not None else None
        row = logits[len(ids) - len(span.sampled) + at - 1 : len(ids) - len(span.sampled) + at]
        allowed = None if support is None else torch.tensor([support])
        assert allowed is None or NOT_ALLOWED not in allowed
        logp = log_distribution(row, torch.tensor([span.temperature]), allowed)
        index = token if support is None else support.index(token)
        found.append(float(logp[0, index]))
    return found


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(),
        Sampling(temperature=0.6),
        Sampling(temperature=1.4, top_p=0.7),
        Sampling(choices=("yes", "no", "yes and no")),
        Sampling(choices=("yes", "no"), temperature=0.5, top_p=0.6),
    ],
    ids=["plain", "cold", "nucleus", "choices", "choices in a nucleus"],
)
async def test_logprobs_are_of_the_distribution_that_was_drawn_from(
    model: Any, reference: Any, sampling: Sampling
) -> None:
    module = reference()
    for seed in range(4):
        session = model.session("visitor", seed=seed)
        for _ in range(2):
            answer = await session.generate(QUESTION, sampling=sampling)
            expected = drawn_from(module, session.tokens, answer.tokens)
            assert answer.tokens.logprobs == pytest.approx(expected, abs=1e-3)


async def test_the_likeliest_tokens_are_those_of_the_in_process_engine(
    model: Any, base: Path
) -> None:
    from rolecraft.models.transformers_model import TransformersModel

    other = TransformersModel.load(base, dtype="float32", device="cpu")
    for sampling in (
        Sampling(temperature=0.0, max_tokens=8),
        Sampling(temperature=0.0, choices=("yes", "no", "neither")),
    ):
        mine, its = [
            await which.session("visitor").generate(QUESTION, sampling=sampling)
            for which in (model, other)
        ]
        assert mine.text == its.text
        assert mine.tokens.sampled == its.tokens.sampled
        assert mine.tokens.logprobs == its.tokens.logprobs
        assert mine.tokens.support == its.tokens.support
    await other.aclose()


async def test_the_same_seed_gives_the_same_answer(model: Any) -> None:
    async def ask(seed: int) -> list[int]:
        answer = await model.session("visitor", seed=seed).generate(QUESTION)
        return list(answer.tokens.sampled)

    first = [await ask(seed) for seed in range(3)]
    assert [await ask(seed) for seed in range(3)] == first
    assert len({tuple(ids) for ids in first}) == 3


async def test_a_stop_string_ends_the_answer_before_it(model: Any) -> None:
    whole = await model.session("visitor", seed=9).generate(QUESTION)
    stop = whole.text[5:7]
    cut = await model.session("visitor", seed=9).generate(QUESTION, sampling=Sampling(stop=(stop,)))
    assert cut.finish_reason == "stop"
    assert cut.text == whole.text[: whole.text.index(stop)]
    ids = cut.tokens.sampled
    assert ids == whole.tokens.sampled[: len(ids)]
    assert len(ids) == len(cut.tokens.logprobs) < len(whole.tokens.sampled)


async def test_pieces_come_while_it_writes_and_make_up_the_answer(model: Any) -> None:
    session = model.session("visitor")
    pieces: list[str] = []
    session.on_delta = pieces.append
    answer = await session.generate(QUESTION, sampling=Sampling(max_tokens=40))
    assert len(pieces) > 1
    assert "".join(pieces) == answer.text


async def test_a_cancelled_answer_is_aborted_in_the_engine(model: Any) -> None:
    session = model.session("visitor")
    started = asyncio.Event()
    session.on_delta = lambda piece: started.set()
    asking = asyncio.create_task(session.generate(QUESTION, sampling=Sampling(max_tokens=200)))
    await started.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert model._engine.get_num_unfinished_requests() == 0
    again = await model.session("visitor").generate(QUESTION)
    assert again.tokens.sampled


async def test_what_the_context_cannot_hold_is_one_clear_error(model: Any) -> None:
    with pytest.raises(ModelError, match=r"role 'visitor' is \d+ tokens long.*256 tokens"):
        await model.session("visitor").generate([Message("word " * 300)])
    session = model.session("visitor")
    full = await session.generate(
        [Message("word " * 60)], sampling=Sampling(max_tokens=1000, temperature=2.0)
    )
    assert len(session.tokens) <= 256
    assert full.finish_reason in ("length", "stop")


async def test_a_temperature_that_vllm_would_change_in_silence_is_refused(model: Any) -> None:
    with pytest.raises(UsageError, match=r"no temperature between 0 and 0\.01"):
        await model.session("visitor").generate(QUESTION, sampling=Sampling(temperature=0.001))


async def test_a_nucleus_wider_than_is_recorded_is_refused(base: Path, model: Any) -> None:
    given = model.settings
    model.settings = replace(given, widest_support=5)
    try:
        with pytest.raises(ModelError, match=r"more than 5 possible ones.*widest_support"):
            await model.session("visitor").generate(
                QUESTION, sampling=Sampling(top_p=0.99, temperature=2.0)
            )
    finally:
        model.settings = given


@pytest.mark.parametrize(("temperature", "top_p"), [(0.5, 0.5), (1.0, 1.0)])
async def test_reported_logprobs_are_at_temperature_one_with_nothing_cut(
    model: Any, reference: Any, temperature: float, top_p: float
) -> None:
    import torch

    from rolecraft.models.token_model import TokenRequest

    ids = list(range(30, 60))
    sampled = await model.sample(
        TokenRequest(
            ids=ids,
            role="",
            key=7,
            temperature=temperature,
            top_p=top_p,
            max_tokens=6,
            report=3,
        )
    )
    with torch.no_grad():
        logits = reference()(torch.tensor([ids + sampled.ids])).logits[0]
    logp = torch.log_softmax(logits, dim=-1)[len(ids) - 1 : -1]
    for token, row, (own, likeliest) in zip(sampled.ids, logp, sampled.reported, strict=True):
        assert own == pytest.approx(float(row[token]), abs=1e-3)
        top = row.topk(3)
        assert [token for token, _ in likeliest] == top.indices.tolist()
        assert [value for _, value in likeliest] == pytest.approx(top.values.tolist(), abs=1e-3)


async def test_settings_that_would_make_the_record_untrue_are_refused(base: Path) -> None:
    from rolecraft.models.vllm_model import VLLMModel

    with pytest.raises(UsageError, match="logprobs_mode"):
        VLLMModel(str(base), engine={"logprobs_mode": "raw_logprobs"})
    with pytest.raises(ModelError, match=r"no model folder `\./nowhere`"):
        VLLMModel("./nowhere")


async def test_a_dead_engine_fails_its_calls_and_the_next_call_starts_another(
    model: Any, make_adapter: Any
) -> None:
    from rolecraft.models.process_guard import children
    from rolecraft.models.tiny import tiny_model

    version = await model.load_adapter("planner", make_adapter(1))
    started = asyncio.Event()

    async def ask(number: int) -> Any:
        session = model.session("planner", seed=number)
        session.on_delta = lambda piece: started.set()
        return await session.generate(QUESTION, sampling=Sampling(max_tokens=200))

    waiting = [asyncio.create_task(ask(number)) for number in range(8)]
    await started.wait()
    for pid in children("VLLM::"):
        os.kill(pid, signal.SIGKILL)
    for outcome in await asyncio.gather(*waiting, return_exceptions=True):
        assert isinstance(outcome, ModelUnavailable)
        assert "engine of `tiny` died" in str(outcome)
    # Other models live on, and the next call starts another engine with the same adapters.
    assert (await tiny_model("ab").session("r").generate([Message("a")])).tokens is not None
    answer = await model.session("planner").generate(QUESTION)
    assert answer.tokens.adapter == version.name
    assert model.starts == 2
    processes = children("VLLM::")
    assert processes
    await model.aclose()
    assert not children("VLLM::")


def test_no_engine_is_left_when_the_program_is_killed(base: Path) -> None:
    """vLLM's own processes would stay: they notice an exit of their parent, not its death."""
    program = textwrap.dedent(
        f"""
        import asyncio, os, signal
        from rolecraft.models import VLLMModel
        from rolecraft.models.process_guard import children

        async def main():
            model = VLLMModel({str(base)!r}, dtype="float32", engine={ENGINE!r})
            await model.prepare()
            print("\\nengine:", *children("VLLM::"), flush=True)
            os.kill(os.getpid(), signal.SIGKILL)

        if __name__ == "__main__":
            asyncio.run(main())
        """
    )
    run = subprocess.run(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=False
    )
    # vLLM writes to stdout too.
    (line,) = [line for line in run.stdout.splitlines() if line.startswith("engine:")]
    pids = [int(pid) for pid in line.split()[1:]]
    assert pids
    for _ in range(1000):
        if not any(Path(f"/proc/{pid}").exists() for pid in pids):
            break
        time.sleep(0.02)
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
