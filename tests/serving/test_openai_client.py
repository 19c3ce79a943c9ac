"""The official `openai` client works against the server: whole, streamed, with tools, refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

import openai
import pytest

from rolecraft.messages import Message

TOOLS: list[Any] = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "The weather of a city.",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        },
    }
]
ASKED: list[Any] = [{"role": "user", "content": "What is the weather in Paris?"}]


@pytest.fixture
def server(load: Callable[..., Any], serve: Callable[..., Any]) -> Any:
    return serve(load())


@pytest.fixture
def client(server: Any) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=server.url, api_key="none", max_retries=0) as client:
        yield client


def ask(client: openai.OpenAI, content: str = "Hello", **more: Any) -> Any:
    messages: list[Any] = [{"role": "user", "content": content}]
    settings = {"model": "tiny", "messages": messages, "temperature": 0, "max_tokens": 60, **more}
    return client.chat.completions.create(**settings)


def test_a_chat_is_answered_with_its_usage(client: openai.OpenAI, server: Any) -> None:
    answer = ask(client)
    prompt = len(server.model.encode(server.model.render([Message("Hello")])))
    assert answer.choices[0].message.content == "Hello to you."
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.prompt_tokens == prompt
    assert answer.usage.total_tokens == prompt + answer.usage.completion_tokens
    assert answer.model == "tiny"
    assert answer.system_fingerprint == "tiny@0"


def test_text_in_parts_is_text(client: openai.OpenAI) -> None:
    parts = [{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo"}]
    assert ask(client, parts).choices[0].message.content == "Hello to you."  # type: ignore[arg-type]


def test_tools_go_round_and_what_they_return_is_read(client: openai.OpenAI) -> None:
    first = client.chat.completions.create(
        model="tiny", messages=ASKED, tools=TOOLS, temperature=0, max_tokens=60
    )
    message = first.choices[0].message
    assert first.choices[0].finish_reason == "tool_calls"
    assert message.content is None
    assert message.tool_calls is not None
    (call,) = message.tool_calls
    assert call.type == "function"
    assert (call.function.name, json.loads(call.function.arguments)) == (
        "get_weather",
        {"city": "Paris"},
    )
    second = client.chat.completions.create(
        model="tiny",
        messages=[
            *ASKED,
            message,  # as the client gives it
            {"role": "tool", "tool_call_id": call.id, "content": "22 degrees"},
        ],
        tools=TOOLS,
        temperature=0,
        max_tokens=60,
    )
    assert second.choices[0].message.content == "It is 22 degrees in Paris."
    assert second.choices[0].finish_reason == "stop"


def test_a_call_that_nobody_offered_is_text(client: openai.OpenAI) -> None:
    none = ask(client, tools=TOOLS, tool_choice="none").choices[0].message
    assert none.tool_calls is None
    assert none.content


def test_reasoning_stands_apart(client: openai.OpenAI) -> None:
    message = ask(client, "2 + 2?").choices[0].message
    assert message.content.strip() == "Four."
    assert message.reasoning_content.strip() == "Two and two."


def test_a_stream_says_the_same_in_pieces(client: openai.OpenAI) -> None:
    chunks = list(ask(client, stream=True, stream_options={"include_usage": True}))
    texts = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert "".join(texts) == "Hello to you."
    assert len([text for text in texts if text]) > 1
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "stop"
    assert chunks[-1].choices == []
    assert chunks[-1].usage == ask(client).usage


def test_a_stream_has_calls_and_reasoning_in_fields_of_their_own(client: openai.OpenAI) -> None:
    with client.chat.completions.stream(
        model="tiny", messages=ASKED, tools=TOOLS, temperature=0, max_tokens=60
    ) as stream:
        message = stream.get_final_completion().choices[0].message
    assert message.tool_calls is not None
    assert message.tool_calls[0].function.arguments == '{"city": "Paris"}'
    assert message.tool_calls[0].id == "call00000"
    deltas = [chunk.choices[0].delta for chunk in ask(client, "2 + 2?", stream=True)]
    thought = "".join(getattr(delta, "reasoning_content", None) or "" for delta in deltas)
    assert thought.strip() == "Two and two."
    assert "".join(delta.content or "" for delta in deltas).strip() == "Four."


def test_a_seed_repeats_an_answer_whoever_else_asks(client: openai.OpenAI) -> None:
    def sampled(seed: int) -> str:
        answer = ask(client, "Tell", temperature=1.5, seed=seed, max_tokens=12)
        return str(answer.choices[0].message.content)

    alone = [sampled(seed) for seed in range(4)]
    assert len(set(alone)) > 1
    several = ask(client, "Tell", temperature=1.5, seed=1, n=8, max_tokens=12)
    assert several.choices[0].message.content == alone[1]
    assert len({choice.message.content for choice in several.choices}) > 1
    assert several.usage.completion_tokens <= 8 * 12


async def test_a_seed_repeats_an_answer_in_a_crowd(server: Any) -> None:
    async with openai.AsyncOpenAI(base_url=server.url, api_key="none", max_retries=0) as client:

        async def sampled(seed: int) -> str | None:
            answer = await client.chat.completions.create(
                model="tiny",
                messages=[{"role": "user", "content": "Tell" * (1 + seed % 3)}],
                temperature=1.5,
                seed=seed,
                max_tokens=8 + seed % 20,
            )
            return answer.choices[0].message.content

        alone = [await sampled(seed) for seed in range(12)]
        assert await asyncio.gather(*(sampled(seed) for seed in range(12))) == alone


def test_without_a_seed_answers_differ(client: openai.OpenAI) -> None:
    said = {
        ask(client, "Tell", temperature=1.5, max_tokens=12).choices[0].message.content
        for _ in range(4)
    }
    assert len(said) > 1


def test_an_answer_ends_at_a_stop_string_and_at_its_limit(client: openai.OpenAI) -> None:
    stopped = ask(client, stop=[" you"]).choices[0]
    assert (stopped.message.content, stopped.finish_reason) == ("Hello to", "stop")
    streamed = list(ask(client, stop=" you", stream=True))
    assert "".join(c.choices[0].delta.content or "" for c in streamed) == "Hello to"
    cut = ask(client, max_tokens=1).choices[0]
    assert cut.finish_reason == "length"
    assert ask(client, max_completion_tokens=1).choices[0].finish_reason == "length"


def test_logprobs_are_those_of_the_model(client: openai.OpenAI, load: Callable[..., Any]) -> None:
    import torch

    answer = ask(client, logprobs=True, top_logprobs=3, extra_body={"return_token_ids": True})
    choice = answer.choices[0]
    sampled = choice.token_ids
    ids = torch.tensor([[*answer.prompt_token_ids, *sampled]])
    with torch.inference_mode():
        logp_TV = load().module(ids).logits[0].log_softmax(-1)
    before = len(answer.prompt_token_ids) - 1
    expected = [logp_TV[before + at, token].item() for at, token in enumerate(sampled)]
    content = choice.logprobs.content
    assert [token.logprob for token in content] == pytest.approx(expected, abs=1e-4)
    assert all(len(token.top_logprobs) == 3 for token in content)
    assert all(token.top_logprobs[0].token == token.token for token in content)  # greedy
    assert "".join(token.token for token in content[:-1]) == "Hello to you."


def test_plain_completions_take_text_and_tokens(client: openai.OpenAI) -> None:
    text = "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n"
    first = client.completions.create(
        model="tiny",
        prompt=text,
        temperature=0,
        max_tokens=30,
        extra_body={"return_token_ids": True},
    )
    assert first.choices[0].text == "Hello to you."
    ids = first.choices[0].prompt_token_ids  # type: ignore[attr-defined]
    again = client.completions.create(
        model="tiny", prompt=[ids, ids], temperature=0, max_tokens=30, logprobs=2
    )
    assert [choice.text for choice in again.choices] == ["Hello to you."] * 2
    assert again.choices[0].logprobs is not None
    assert len(again.choices[0].logprobs.tokens or ()) == again.usage.completion_tokens / 2  # type: ignore[union-attr]
    streamed = client.completions.create(
        model="tiny", prompt=ids, temperature=0, max_tokens=30, stream=True
    )
    assert "".join(chunk.choices[0].text for chunk in streamed) == "Hello to you."


def test_models_are_listed(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["tiny"]
    assert client.models.retrieve("tiny").id == "tiny"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("huge")


def test_errors_are_those_of_openai(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match=r"'huge' does not exist.*`tiny`") as unknown:
        ask(client, model="huge")
    assert unknown.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError, match="`temperature`") as bad:
        ask(client, temperature=9)
    assert bad.value.param == "temperature"
    with pytest.raises(openai.BadRequestError, match="512 tokens") as long:
        ask(client, "Hello " * 600)
    assert long.value.code == "context_length_exceeded"
    with pytest.raises(openai.BadRequestError, match="response_format"):
        ask(client, response_format={"type": "json_object"})
    with pytest.raises(openai.BadRequestError, match="demands a call"):
        ask(client, tools=TOOLS, tool_choice="required")
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}
    with pytest.raises(openai.BadRequestError, match="only text is read"):
        ask(client, [image])  # type: ignore[arg-type]
    with pytest.raises(openai.BadRequestError, match="'top_k_k'"):
        ask(client, extra_body={"top_k_k": 3})


def test_harmless_fields_are_ignored(client: openai.OpenAI) -> None:
    answer = ask(
        client, user="me", metadata={"a": "b"}, store=False, frequency_penalty=0, logit_bias={}
    )
    assert answer.choices[0].message.content == "Hello to you."


def test_a_refusal_in_a_stream_has_its_status(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError):
        list(ask(client, "Hello " * 600, stream=True))


def test_keys_are_checked(load: Callable[..., Any], serve: Callable[..., Any]) -> None:
    server = serve(load(), keys=["sk-one", "sk-two"])
    for key in ("sk-one", "sk-two"):
        with openai.OpenAI(base_url=server.url, api_key=key, max_retries=0) as client:
            assert ask(client).choices
    with (
        openai.OpenAI(base_url=server.url, api_key="sk-", max_retries=0) as client,
        pytest.raises(openai.AuthenticationError, match="Incorrect API key"),
    ):
        ask(client)
