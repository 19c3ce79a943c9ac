"""Role adapters are models of their own: each request gets its role's, whoever else asks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
import torch


def peft_greedy(
    model_folder: Path, adapter: Path | None, ids: list[int], ends: frozenset[int], most: int
) -> tuple[list[int], list[float]]:
    """What transformers with peft says, token by token without a cache, and its log-probs."""
    import transformers

    module: Any = transformers.AutoModelForCausalLM.from_pretrained(model_folder)
    if adapter is not None:
        import peft

        module = peft.PeftModel.from_pretrained(module, str(adapter))
    module.eval()
    said: list[int] = []
    logprobs: list[float] = []
    with torch.inference_mode():
        while len(said) < most and not (said and said[-1] in ends):
            logp_V = module(torch.tensor([ids + said])).logits[0, -1].log_softmax(-1)
            said.append(int(logp_V.argmax()))
            logprobs.append(logp_V[said[-1]].item())
    return said, logprobs


async def ask(client: openai.AsyncOpenAI, model: str, content: str, **more: Any) -> Any:
    return await client.chat.completions.create(
        model=model,
        messages=[{"role": "user", "content": content}],
        temperature=0,
        max_tokens=10,
        logprobs=True,
        extra_body={"return_token_ids": True},
        **more,
    )


async def test_fifty_requests_at_once_each_get_their_adapter(
    load: Callable[..., Any],
    serve: Callable[..., Any],
    adapter: Callable[..., Path],
    model_folder: Path,
) -> None:
    folders = {"planner": adapter(1), "coder": adapter(2)}
    server = serve(load(), adapters=folders)
    names = ["tiny", "planner", "coder"]
    prompts = ["Hello", "What is", "2 + 2?", "Paris"]
    asked = [(names[n % 3], prompts[n % 4]) for n in range(50)]
    async with openai.AsyncOpenAI(base_url=server.url, api_key="none", max_retries=0) as client:
        assert [model.id async for model in client.models.list()] == ["tiny", "coder", "planner"]
        answers = await asyncio.gather(*(ask(client, *one) for one in asked))
    expected: dict[tuple[str, str], Any] = {}
    for (name, prompt), answer in zip(asked, answers, strict=True):
        if (name, prompt) not in expected:
            ids, ends = answer.prompt_token_ids, server.model.ends
            expected[name, prompt] = peft_greedy(model_folder, folders.get(name), ids, ends, 10)
        said, logprobs = expected[name, prompt]
        choice = answer.choices[0]
        assert choice.token_ids == said
        got = [token.logprob for token in choice.logprobs.content]
        assert got == pytest.approx(logprobs, abs=1e-4)
        assert answer.system_fingerprint == (f"{name}@1" if name != "tiny" else "tiny@0")
    assert len({expected[name, "Hello"][0][0] for name in names}) > 1  # they do differ


async def test_adapters_are_swapped_and_removed_while_requests_run(
    load: Callable[..., Any], serve: Callable[..., Any], adapter: Callable[..., Path]
) -> None:
    server = serve(load(), adapters={"planner": adapter(1)}, admin_keys=["root"])
    admin = httpx.AsyncClient(base_url=server.base, headers={"authorization": "Bearer root"})
    client = openai.AsyncOpenAI(base_url=server.url, api_key="none", max_retries=0)
    async with admin, client:
        answers: dict[str, set[str]] = {}
        over = False

        async def keep_asking() -> None:
            while not over:
                answer = await ask(client, "planner", "Hello")
                text = str(answer.choices[0].message.content)
                answers.setdefault(answer.system_fingerprint, set()).add(text)

        askers = [asyncio.create_task(keep_asking()) for _ in range(4)]
        for seed in (2, 1, 2):
            while len(answers) < server.model.adapters.current("planner").version:
                await asyncio.wait(askers, timeout=0.05)
            body = {"lora_name": "planner", "lora_path": str(adapter(seed))}
            loaded = await admin.post("/v1/load_lora_adapter", json=body)
            assert loaded.status_code == 200, loaded.text
        while len(answers) < 4:
            await asyncio.wait(askers, timeout=0.05)
        over = True
        await asyncio.gather(*askers)
        # Each version said one thing all along, and equal adapters say the same.
        assert sorted(answers) == ["planner@1", "planner@2", "planner@3", "planner@4"]
        assert all(len(texts) == 1 for texts in answers.values())
        assert answers["planner@1"] == answers["planner@3"] != answers["planner@2"]
        assert [version.name for version in server.model.adapters.loaded] == ["planner@4"]
        gone = await admin.post("/v1/unload_lora_adapter", json={"lora_name": "planner"})
        assert gone.status_code == 200
        with pytest.raises(openai.NotFoundError, match="This server has `tiny`"):
            await ask(client, "planner", "Hello")


async def test_adapters_are_changed_by_their_admin_only(
    load: Callable[..., Any], serve: Callable[..., Any], adapter: Callable[..., Path]
) -> None:
    body = {"lora_name": "planner", "lora_path": str(adapter(1))}
    closed = serve(load())
    open_ = serve(load(), keys=["user"], admin_keys=["root"])
    async with httpx.AsyncClient() as client:
        refused = await client.post(f"{closed.url}/load_lora_adapter", json=body)
        assert refused.status_code == 403
        assert "--admin-key-file" in refused.json()["error"]["message"]
        for key in ("user", "root2"):
            headers = {"authorization": f"Bearer {key}"}
            for path in ("load", "unload"):
                url = f"{open_.url}/{path}_lora_adapter"
                refused = await client.post(url, json=body, headers=headers)
                assert refused.status_code == 401
                assert "a key of `--admin-key-file`" in refused.json()["error"]["message"]
    assert open_.model.adapters.roles == []


async def test_an_adapter_that_does_not_fit_is_refused_and_everything_goes_on(
    load: Callable[..., Any],
    serve: Callable[..., Any],
    adapter: Callable[..., Path],
    tmp_path: Path,
    logged: list[Any],
) -> None:
    server = serve(load(), adapters={"planner": adapter(1)}, admin_keys=["root"])
    headers = {"authorization": "Bearer root"}
    async with httpx.AsyncClient(base_url=server.url, headers=headers, timeout=60) as client:
        for path in (tmp_path, tmp_path / "nothing", adapter(3, use_dora=True)):
            body = {"lora_name": "planner", "lora_path": str(path)}
            refused = await client.post("load_lora_adapter", json=body)
            assert refused.status_code == 400, refused.text
            assert refused.json()["error"]["param"] == "lora_path"
            assert str(path) in refused.json()["error"]["message"]
            assert str(logged[-1]).startswith("Adapter 'planner' is refused: ")
        assert server.model.adapters.current("planner").version == 1
        good = {"lora_name": "planner", "lora_path": str(adapter(2))}
        assert (await client.post("load_lora_adapter", json=good)).status_code == 200
        assert str(logged[-1]).startswith("Adapter 'planner@3' replaces the one before it, from ")
