"""Adapters in a real vLLM: swapped under load, and never another than the one that was trained.

vLLM has served the adapter of before from its prefix cache when one was loaded again under the same
name, and trainers have sent updates that held no tensors; neither said a word.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from rolecraft.errors import AdapterError, ModelError, UsageError
from rolecraft.messages import Message
from rolecraft.models.base import Sampling

pytestmark = [
    pytest.mark.slow,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.filterwarnings("ignore"),  # vLLM's, and those of all that it imports
]

ROLES = ("planner", "critic")
SWAPS = 5
SESSIONS = 64


async def test_sixty_four_sessions_while_two_adapters_are_swapped_five_times(
    model: Any, make_adapter: Any, reference: Any
) -> None:
    """Every completion says which version served it, and its log-probabilities are that one's."""
    from rolecraft.models.adapter_proof import token_logprobs

    folders = {
        f"{role}@{version}": make_adapter(10 * version + at)
        for at, role in enumerate(ROLES)
        for version in range(1, SWAPS + 2)
    }
    for role in ROLES:
        await model.load_adapter(role, folders[f"{role}@1"])
    done, answered = asyncio.Event(), asyncio.Semaphore(0)
    spans: list[tuple[str, Any, list[int]]] = []
    served: set[str] = set()

    async def talk(number: int) -> None:
        role = ROLES[number % 2]
        session = model.session(role, system=f"You are the {role}.", seed=number)
        turn, last = 0, False
        while not last:
            last = done.is_set()
            if len(session.tokens) > 160:
                session = model.session(role, system=f"You are the {role}.", seed=number + turn)
            answer = await session.generate(
                [Message(f"Question {number}, part {turn}?")],
                sampling=Sampling(max_tokens=12 + number % 9),
            )
            assert answer.tokens is not None
            spans.append((role, answer.tokens, list(session.tokens)))
            served.add(answer.tokens.adapter)
            answered.release()
            turn += 1

    async def until_served(version: int) -> None:
        for _ in range(SESSIONS):
            await answered.acquire()
        while not {f"{role}@{version}" for role in ROLES} <= served:
            await answered.acquire()

    async with asyncio.TaskGroup() as talks:
        for number in range(SESSIONS):
            talks.create_task(talk(number))
        for version in range(2, SWAPS + 2):
            await until_served(version - 1)
            for role in ROLES:
                swapped = await model.load_adapter(role, folders[f"{role}@{version}"])
                assert swapped.name == f"{role}@{version}"
        done.set()
    await model.adapters.settle()

    by_version: dict[str, list[tuple[Any, list[int]]]] = {}
    for role, span, ids in spans:
        assert span.adapter == f"{role}@{span.version}"
        by_version.setdefault(span.adapter, []).append((span, ids))
    assert by_version.keys() == folders.keys()
    assert len(spans) >= SESSIONS * SWAPS
    # Only the current versions are left in the engine.
    assert [version.name for version in model.adapters.loaded] == [
        f"{role}@{SWAPS + 1}" for role in ROLES
    ]
    assert len(await model._engine.list_loras()) == len(ROLES)

    worst = 0.0
    for name, found in by_version.items():
        module = reference(folders[name])
        for span, ids in found:
            assert ids[span.start :] == span.given + span.sampled
            expected = token_logprobs(module, ids)[-len(span.sampled) :]
            worst = max(worst, *(abs(a - b) for a, b in zip(span.logprobs, expected, strict=True)))
    assert worst < 1e-3


async def test_what_is_served_is_what_was_trained(
    model: Any, make_adapter: Any, reference: Any
) -> None:
    from peft import get_peft_model_state_dict

    from rolecraft.models.adapter_proof import token_logprobs
    from rolecraft.models.adapters import digest_of

    folder, other = make_adapter(101), make_adapter(102)
    trained = reference(folder)
    ids = list(range(40, 120))
    expected = token_logprobs(trained, ids)
    digest = digest_of(get_peft_model_state_dict(trained))
    await model.load_adapter("writer", folder)
    proof = await model.verify_adapter("writer", ids, expected, digest=digest)
    assert proof.gap < 1e-4
    assert proof.effect > 0.5
    # An update that never arrived: the old tensors are served.
    with pytest.raises(AdapterError, match="does not serve `writer@1` as it was trained"):
        await model.verify_adapter("writer", ids, token_logprobs(reference(other), ids))
    wrong = digest_of(get_peft_model_state_dict(reference(other)))
    with pytest.raises(AdapterError, match="it is another one"):
        await model.verify_adapter("writer", ids, expected, digest=wrong)
    with pytest.raises(UsageError, match="'nobody' has no adapter"):
        await model.verify_adapter("nobody", ids, expected)


async def test_a_cached_prefix_of_an_old_version_is_not_read_by_the_new_one(
    model: Any, make_adapter: Any, reference: Any, tmp_path: Path
) -> None:
    """The same folder, overwritten by a trainer, and the same long prompt before and after."""
    from rolecraft.models.adapter_proof import token_logprobs

    folder = tmp_path / "latest"
    prompt = [Message("Register a holds 4. " * 12)]
    for seed in (201, 202, 203):
        shutil.copytree(make_adapter(seed), folder, dirs_exist_ok=True)
        await model.load_adapter("reader", folder)
        for _ in range(2):  # the second time the prompt comes from the cache
            session = model.session("reader", seed=seed)
            answer = await session.generate(prompt)
            assert answer.tokens is not None
            expected = token_logprobs(reference(folder), session.tokens)
            assert answer.tokens.logprobs == pytest.approx(
                expected[-len(answer.tokens.sampled) :], abs=1e-3
            )


def change(folder: Path, **changes: Any) -> Path:
    path = folder / "adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    return folder


async def test_a_wrong_adapter_is_one_clear_error_and_everybody_else_goes_on(
    model: Any, make_adapter: Any, tmp_path: Path
) -> None:
    good = await model.load_adapter("editor", make_adapter(301))
    going = asyncio.gather(
        *(model.session("editor", seed=n).generate([Message("Go on.")]) for n in range(8))
    )
    wrong = {
        "rank 16, and the engine has room for 8": make_adapter(302, rank=16),
        "trained on 'another/model'": change(
            make_adapter(303), base_model_name_or_path="another/model"
        ),
        "DoRA": make_adapter(304, use_dora=True),
        "refuses the adapter": make_adapter(305, modules_to_save=["lm_head"]),
        "cannot be read": make_adapter(306),
    }
    weights = wrong["cannot be read"] / "adapter_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-7])
    for words, folder in wrong.items():
        with pytest.raises(AdapterError, match=words):
            await model.load_adapter("editor", folder)
    answers = await going
    assert {answer.tokens.adapter for answer in answers} == {good.name}
    again = await model.session("editor").generate([Message("Still there?")])
    assert again.tokens.adapter == good.name


async def test_a_role_without_an_adapter_is_served_by_the_base_model(
    model: Any, make_adapter: Any, reference: Any
) -> None:
    from rolecraft.models.adapter_proof import token_logprobs

    await model.load_adapter("painter", make_adapter(401))
    session = model.session("visitor")
    answer = await session.generate([Message("Who are you?")])
    assert (answer.tokens.adapter, answer.tokens.version) == ("", 0)
    expected = token_logprobs(reference(), session.tokens)[-len(answer.tokens.sampled) :]
    assert answer.tokens.logprobs == pytest.approx(expected, abs=1e-3)
    await model.unload_adapter("painter")
    freed = await model.session("painter").generate([Message("Who are you?")])
    assert freed.tokens.adapter == ""


async def test_an_engine_for_the_base_model_alone_says_so(base: Path, make_adapter: Any) -> None:
    from rolecraft.models.vllm_model import VLLMModel

    plain = VLLMModel(str(base), max_adapters=0)
    with pytest.raises(UsageError, match="max_adapters=0"):
        await plain.load_adapter("planner", make_adapter(1))
    with pytest.raises(ModelError, match=r"did not start.*no_such_argument"):
        await VLLMModel(str(base), engine={"no_such_argument": 7}).prepare()
