"""A model behind an API that refuses, breaks off, talks nonsense or says nothing. Real HTTP."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from email.utils import formatdate

import pytest

from rolecraft.errors import BadModelResponse, MissingKey, ModelError, ModelUnavailable, UsageError
from rolecraft.messages import Message
from rolecraft.models import LiteLLMModel, Sampling

HELLO = [Message("Hello?")]


def backoffs(first: float, *, times: int) -> list[tuple[float, float]]:
    """Bounds of the waits: doubling, and up to half as long again at random."""
    return [(first * 2**i, first * 2**i * 1.5) for i in range(times)]


def within(waits: list[float], bounds: list[tuple[float, float]]) -> bool:
    return len(waits) == len(bounds) and all(
        low <= wait <= high for wait, (low, high) in zip(waits, bounds, strict=True)
    )


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504, 529])
async def test_a_passing_failure_is_asked_again_until_it_passes(server, make_model, waits, status):
    server.answers(server.error(status), server.error(status), server.chat("at last"))
    session = make_model().session()
    answer = await session.generate(HELLO)
    assert answer.text == "at last"
    assert answer.usage.calls == 1
    assert len(server.requests) == 3
    assert within(waits, backoffs(1.0, times=2))
    assert [message.content for message in session.messages] == ["Hello?", "at last"]


@pytest.mark.parametrize(
    ("status", "meaning"),
    [(429, "rate limit"), (500, "server error"), (503, "server error"), (408, "no answer in time")],
)
async def test_after_all_retries_the_error_says_what_was_wrong(
    server, make_model, waits, status, meaning
):
    server.answers(server.error(status, "come back tomorrow"))
    model = make_model(policy={"times": 3, "first_wait": 2.0, "longest_wait": 5.0})
    with pytest.raises(ModelUnavailable) as caught:
        await model.session().generate(HELLO)
    for part in (
        "'openai/some-model'",
        "4 attempts",
        meaning,
        f"HTTP {status}",
        "come back tomorrow",
    ):
        assert part in str(caught.value)
    assert (caught.value.model, caught.value.attempts) == ("openai/some-model", 4)
    assert caught.value.status == status
    assert caught.value.__cause__ is not None
    assert len(server.requests) == 4
    assert within(waits, [(2.0, 3.0), (4.0, 6.0), (5.0, 7.5)])


@pytest.mark.parametrize("status", [429, 503])
async def test_retry_after_in_seconds_is_honoured(server, make_model, waits, status):
    server.answers(server.error(status, retry_after="40"), server.chat())
    await make_model().session().generate(HELLO)
    assert within(waits, [(40.0, 60.0)])


async def test_retry_after_in_milliseconds_is_honoured(server, make_model, waits):
    server.answers(server.error(429, retry_after_ms="2500", retry_after="1"), server.chat())
    await make_model().session().generate(HELLO)
    assert within(waits, [(2.5, 3.75)])


async def test_retry_after_as_a_date_is_honoured_by_the_servers_clock(server, make_model, waits):
    """A server whose clock is a day ahead asks for 30 seconds, not for a day."""
    now = time.time() + 86_400
    server.answers(
        server.error(
            429, date=formatdate(now, usegmt=True), retry_after=formatdate(now + 30, usegmt=True)
        ),
        server.chat(),
    )
    await make_model().session().generate(HELLO)
    assert within(waits, [(30.0, 45.0)])


async def test_retry_after_as_a_date_without_a_servers_clock_goes_by_ours(
    server, make_model, waits
):
    server.answers(
        server.error(429, retry_after=formatdate(time.time() + 200, usegmt=True)), server.chat()
    )
    await make_model(policy={"longest_retry_after": 201}).session().generate(HELLO)
    assert within(waits, [(100.0, 301.5)])  # a slow machine may take its time between the two


@pytest.mark.parametrize("nonsense", ["soon", "-5", "inf", "nan", ""])
async def test_a_retry_after_that_makes_no_sense_is_ignored(server, make_model, waits, nonsense):
    server.answers(server.error(429, retry_after=nonsense), server.chat())
    await make_model().session().generate(HELLO)
    assert within(waits, [(1.0, 1.5)])


async def test_a_server_that_asks_for_too_long_a_wait_is_not_waited_for(server, make_model, waits):
    server.answers(server.error(429, retry_after="3600"), server.chat())
    model = make_model(policy={"longest_retry_after": 600})
    with pytest.raises(ModelUnavailable, match=r"wait 3600 s.*longest_retry_after=600"):
        await model.session().generate(HELLO)
    assert (len(server.requests), waits) == (1, [])


async def test_an_account_without_money_is_not_retried(server, make_model, waits):
    """OpenAI answers 429 to it, like to a rate limit."""
    server.answers(server.error(429, "You exceeded your quota", "insufficient_quota"))
    with pytest.raises(ModelUnavailable, match="no money"):
        await make_model().session().generate(HELLO)
    assert (len(server.requests), waits) == (1, [])


@pytest.mark.parametrize("status", [400, 403, 404, 409, 413, 422])
async def test_a_refused_request_is_never_repeated(server, make_model, waits, status):
    server.answers(server.error(status, "not like this", "some_code"))
    with pytest.raises(ModelError, match=rf"HTTP {status}.*not like this \(some_code\)") as caught:
        await make_model().session().generate(HELLO)
    assert type(caught.value) is ModelError
    assert caught.value.status == status
    assert (len(server.requests), waits) == (1, [])


async def test_a_key_that_is_not_accepted_is_never_retried(server, make_model, waits):
    server.answers(server.error(401, "Incorrect API key"))
    with pytest.raises(MissingKey, match=r"'openai/some-model'.*Incorrect API key.*`api_key=`"):
        await make_model().session().generate(HELLO)
    assert (len(server.requests), waits) == (1, [])


async def test_without_a_key_the_error_names_the_providers_variable(
    server, make_model, waits, monkeypatch
):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(MissingKey, match=r"'openai/some-model'.*api_key=.*`OPENAI_API_KEY`"):
        await make_model(api_key=None).session().generate(HELLO)
    assert (server.requests, waits) == ([], [])


async def test_the_providers_variable_is_taken_where_no_key_is_given(
    server, make_model, monkeypatch
):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-from-variable")
    await make_model(api_key=None).session().generate(HELLO)
    assert server.headers[0]["authorization"] == "Bearer sk-from-variable"


WHOLE = json.dumps({"choices": [{"message": {"role": "assistant", "content": "Hi"}}]}).encode()


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (b'{"choices": [{"mess', "line 1"),
        (b"", "line 1"),
        (b"null", "None"),
        (b"[1]", "[1]"),
        ({"choices": []}, "no choices"),
        ({"choices": None}, "choices"),
        ({"object": "list"}, "choices"),
        ({"choices": [{"index": 0}]}, ""),
        ({"error": {"message": "engine died", "code": "E7"}}, "engine died"),
    ],
)
async def test_a_body_that_is_no_completion_is_retried_and_then_an_error(
    server, make_model, waits, body, named
):
    server.answers(server.Answer(body))
    model = make_model(policy={"times": 1})
    with pytest.raises(BadModelResponse, match="2 attempts") as caught:
        await model.session().generate(HELLO)
    assert named in str(caught.value)
    assert server.url in str(caught.value)
    assert len(waits) == 1
    server.answers(server.Answer(body), server.chat("fine"))
    assert (await model.session().generate(HELLO)).text == "fine"


async def test_a_web_page_instead_of_an_answer_is_an_error(server, make_model):
    """What a wrong `base_url` or a proxy's login page looks like."""
    page = server.Answer(b"<html>Please log in</html>", headers={"content-type": "text/html"})
    server.answers(page)
    with pytest.raises(BadModelResponse, match="Please log in"):
        await make_model(policy={"times": 0}).session().generate(HELLO)


async def test_an_error_wrapped_into_an_answer_counts_as_that_error(server, make_model, waits):
    """OpenRouter answers HTTP 200 with the upstream provider's error inside."""
    wrapped = server.Answer({"error": {"message": "slow down", "code": 429}})
    server.answers(wrapped, server.chat("fine"))
    assert (await make_model().session().generate(HELLO)).text == "fine"
    server.answers(wrapped)
    with pytest.raises(ModelUnavailable, match="rate limit"):
        await make_model(policy={"times": 0}).session().generate(HELLO)


@pytest.mark.parametrize("cut_after", [1, len(WHOLE) // 2, len(WHOLE) - 1])
async def test_an_answer_that_is_cut_off_never_counts_as_one(server, make_model, waits, cut_after):
    server.answers(server.Answer(WHOLE, cut_after=cut_after))
    model = make_model(policy={"times": 1})
    with pytest.raises(BadModelResponse, match="cut off"):
        await model.session().generate(HELLO)
    assert len(server.requests) == 2
    server.answers(server.Answer(WHOLE, cut_after=cut_after), server.chat("whole"))
    assert (await model.session().generate(HELLO)).text == "whole"


async def test_a_connection_that_is_dropped_is_made_again(server, make_model, waits):
    server.answers(server.Answer(drop=True), server.chat("back"))
    assert (await make_model().session().generate(HELLO)).text == "back"
    server.answers(server.Answer(drop=True))
    with pytest.raises(ModelUnavailable, match="no connection"):
        await make_model(policy={"times": 1}).session().generate(HELLO)


async def test_a_server_that_is_not_there_is_a_clear_error(make_model, waits):
    with socket.socket() as taken:  # bound but not listening: nobody can answer on this port
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        model = make_model(base_url=url, policy={"times": 2})
        with pytest.raises(ModelUnavailable, match="no connection") as caught:
            await model.session().generate(HELLO)
    assert caught.value.attempts == 3
    assert len(waits) == 2


async def test_a_server_that_never_answers_is_given_up_after_the_timeout(server, make_model, waits):
    await make_model().session().generate(HELLO)  # LiteLLM's first request is slow on its own
    server.answers(server.Answer(never=True))
    model = make_model(timeout=0.3, policy={"times": 1})
    with pytest.raises(ModelUnavailable, match=r"no answer in time.*timeout=0\.3") as caught:
        await model.session().generate(HELLO)
    assert caught.value.attempts == 2


async def test_a_server_that_drips_is_given_up_after_the_timeout_too(server, make_model):
    """The time-out is for the whole answer: one that goes on and on is none."""
    await make_model().session().generate(HELLO)
    server.answers(server.Answer(drip=True))
    with pytest.raises(ModelUnavailable, match="no answer in time"):
        await make_model(timeout=0.5, policy={"times": 0}).session().generate(HELLO)


async def test_a_useless_answer_that_was_paid_for_is_counted(server, make_model):
    empty = server.chat()
    empty.body["choices"] = []
    server.answers(empty, server.chat())
    answer = await make_model(prices=(1.0, 10.0)).session().generate(HELLO)
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (10, 4)
    assert answer.usage.usd == pytest.approx(2 * (5 * 1.0 + 2 * 10.0))
    assert answer.usage.calls == 1


async def test_every_retry_is_logged_with_its_reason_and_wait(server, make_model, logged):
    server.answers(server.error(503, "overloaded"), server.chat())
    await make_model().session().generate(HELLO)
    (message,) = logged
    line = message.record["message"]
    for part in ("openai/some-model", "attempt 1 of 6", "HTTP 503", "overloaded"):
        assert part in line


async def test_sessions_that_are_refused_together_do_not_come_back_together(
    server, make_model, waits
):
    server.answer_when(requests=16)
    server.answers(*[server.error(429, retry_after="10") for _ in range(16)], server.chat())
    model = make_model()
    await asyncio.gather(*(model.session().generate(HELLO) for _ in range(16)))
    assert len(set(waits)) == 16
    assert all(10 <= wait <= 15 for wait in waits)
    assert max(waits) - min(waits) > 1


@pytest.mark.parametrize("name", ["nosuch/model", "gpt-without-provider"])
async def test_a_name_without_a_known_provider_is_a_clear_error(make_model, name):
    with pytest.raises(UsageError, match=f"'{name}' names no provider.*'provider/model'"):
        await make_model(name, base_url=None).session().generate(HELLO)


async def test_a_setting_that_the_model_cannot_take_is_an_error_and_no_silence(make_model, server):
    """`o3` takes no temperature: to leave it out unasked would give another experiment."""
    with pytest.raises(ModelError, match="temperature"):
        await make_model("openai/o3").session().generate(HELLO, sampling=Sampling(temperature=0.2))
    assert server.requests == []


@pytest.mark.parametrize("provider", ["anthropic/claude-sonnet-4-5", "gemini/gemini-2.0-flash"])
async def test_other_providers_failures_mean_the_same(server, make_model, waits, provider):
    """They go through other code of LiteLLM than OpenAI's, down to the transport."""
    expected = [
        (server.error(401, "bad key"), MissingKey, 1),
        (server.error(400, "bad request"), ModelError, 1),
        (server.error(429, "slow down", retry_after="7"), ModelUnavailable, 2),
        (server.error(500, "oops"), ModelUnavailable, 2),
        (server.Answer(drop=True), ModelUnavailable, 2),
        (server.Answer(b'{"content": ['), BadModelResponse, 2),
        (server.Answer(WHOLE, cut_after=9), BadModelResponse, 2),
    ]
    for answer, error, attempts in expected:
        waits.clear()
        server.answers(answer)
        with pytest.raises(error) as caught:
            await make_model(provider, policy={"times": 1}).session().generate(HELLO)
        assert type(caught.value) is error
        assert caught.value.attempts == attempts
        if answer.status == 429:
            assert within(waits, [(7.0, 10.5)])


@pytest.mark.parametrize(
    ("provider", "variable"),
    [
        ("anthropic/claude-sonnet-4-5", "ANTHROPIC_API_KEY"),
        ("gemini/gemini-2.0-flash", "GEMINI_API_KEY"),
    ],
)
async def test_other_providers_missing_key_is_named(make_model, monkeypatch, provider, variable):
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(MissingKey, match=variable):
        await make_model(provider, api_key=None, base_url=None).session().generate(HELLO)


def test_retries_as_a_number_are_the_attempts_after_the_first():
    assert LiteLLMModel("openai/x", retries=2).retries.times == 2


async def test_whoever_asks_hears_of_every_attempt_that_failed(server, make_model):
    """So that a judge asks more slowly when its server has too much to do."""
    refused = server.error(429, "slow down", retry_after="3")
    server.answers(refused, server.error(500), server.chat("at last"), server.chat("again"))
    session = make_model().session()
    heard = []
    session.on_retry = lambda session, failure, wait: heard.append((failure, wait))
    await session.generate(HELLO)
    assert [(failure.status, failure.retry_after) for failure, _ in heard] == [
        (429, 3),
        (500, None),
    ]
    assert all(wait >= (failure.retry_after or 0) for failure, wait in heard)
    await session.generate(HELLO)
    assert len(heard) == 2
