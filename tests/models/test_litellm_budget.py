"""What a call may cost is known before it is made. Against a real server."""

from __future__ import annotations

import asyncio

import pytest

from rolecraft.errors import BadModelResponse, LimitReached, ModelUnavailable, UsageError
from rolecraft.messages import Message
from rolecraft.models import Budget, Limits, Retries, Sampling, Tool
from rolecraft.models.litellm_model import DEFAULT_ANSWER_TOKENS


def within(budget, model, **options):
    session = model.session("r", **options)
    session.budget = budget
    return session


async def test_the_call_that_would_cross_the_limit_never_reaches_the_server(server, make_model):
    """Each call costs 5 * 0.01 + 2 * 0.10 = 0.25 and may cost a little more."""
    model, budget = make_model(prices=(0.01, 0.10)), Budget(Limits(usd=1.0))
    sampling = Sampling(max_tokens=2)
    for _ in range(3):
        await within(budget, model).generate([Message("Hi")], sampling=sampling)
    with pytest.raises(LimitReached, match=r"'openai/some-model'.*max_tokens"):
        await within(budget, model).generate([Message("Hi")], sampling=sampling)
    assert len(server.requests) == 3
    assert budget.spent.usd == pytest.approx(0.75)


async def test_a_hundred_concurrent_calls_stay_within_the_limit(server, make_model):
    model, budget = make_model(prices=(0.01, 0.10)), Budget(Limits(usd=3.0))
    sampling = Sampling(max_tokens=2)
    results = await asyncio.gather(
        *(within(budget, model).generate([Message("Hi")], sampling=sampling) for _ in range(100)),
        return_exceptions=True,
    )
    refused = [result for result in results if isinstance(result, LimitReached)]
    assert len(server.requests) + len(refused) == 100
    assert 2.5 <= budget.spent.usd <= 3.0
    assert budget.spent.calls == len(server.requests)


async def test_without_a_price_a_limit_in_dollars_is_an_error_before_the_first_call(
    server, make_model
):
    with pytest.raises(UsageError, match=r"'openai/some-model'.*prices="):
        await within(Budget(Limits(usd=1.0)), make_model()).generate([Message("Hi")])
    assert server.requests == []
    await within(Budget(Limits(tokens=10_000)), make_model()).generate([Message("Hi")])
    assert len(server.requests) == 1


async def test_the_estimate_covers_what_litellm_itself_counts(server, make_model):
    """For a model of its list: its price, its tokenizer, its longest answer."""
    import litellm

    model = make_model("openai/gpt-4o-mini")
    await model.prepare()
    session = model.session("r", system="You answer in French.")
    session.messages += [Message("How do you say 'rain'? " * 50), Message("Well?", role="Bob")]
    messages = [{"role": m.api_role, "content": m.content} for m in session.messages]
    counted = litellm.token_counter(model="openai/gpt-4o-mini", messages=messages)
    estimated = model.estimate_tokens(session, Sampling(max_tokens=100))
    assert counted + 100 <= estimated <= counted + 100 + 8 * len(messages)
    usd = model.estimate_usd(session, Sampling(max_tokens=100))
    assert usd == pytest.approx((estimated - 100) * 0.15e-6 + 100 * 0.6e-6)
    longest = litellm.get_model_info("openai/gpt-4o-mini")["max_output_tokens"]
    assert model.estimate_tokens(session, Sampling()) == estimated - 100 + longest


async def test_an_unknown_models_answer_is_assumed_to_have_the_documented_length(make_model):
    model = make_model()
    await model.prepare()
    short = model.estimate_tokens(model.session(), Sampling(max_tokens=1))
    assert model.estimate_tokens(model.session(), Sampling()) == short - 1 + DEFAULT_ANSWER_TOKENS
    capped = make_model(sampling=Sampling(max_tokens=7))
    assert capped.estimate_tokens(capped.session(), Sampling()) == short - 1 + 7


async def test_tools_choices_and_what_is_new_in_the_history_count(server, make_model):
    model = make_model()
    await model.prepare()
    session, sampling = model.session(), Sampling(max_tokens=1)
    empty = model.estimate_tokens(session, sampling)
    assert empty == 1
    await session.generate([Message("one " * 100)])
    once = model.estimate_tokens(session, sampling)
    assert 100 < once < 150
    assert model.estimate_tokens(session, sampling) == once
    session.messages.append(Message("two " * 1000))
    assert model.estimate_tokens(session, sampling) - once > 1000
    tool = Tool(name="read", description="word " * 500)
    assert model.estimate_tokens(session, sampling, [tool]) - once > 1500
    choices = Sampling(max_tokens=1, choices=("yes " * 100, "no " * 100))
    assert model.estimate_tokens(session, choices) - once > 1200


async def test_another_tokenizer_gets_a_margin(make_model):
    ours, theirs = make_model("openai/gpt-4o-mini"), make_model("anthropic/claude-sonnet-4-5")
    estimates = []
    for model in (ours, theirs):
        await model.prepare()
        session = model.session()
        session.messages.append(Message("The same text for both of them. " * 100))
        estimates.append(model.estimate_tokens(session, Sampling(max_tokens=1)))
    assert 1.2 < estimates[1] / estimates[0] < 1.6


def useless(server):
    """An answer without choices, billed like any other: 5 tokens in, 2 out."""
    answer = server.chat()
    answer.body["choices"] = []
    return answer


async def test_failures_that_were_billed_count_and_stop_the_retries(server, make_model):
    """Seen: three calls, 18 useless answers at $2, a limit of $5: $36 paid and nothing counted."""
    model, budget = make_model(prices=(0.2, 0.5)), Budget(Limits(usd=5.0))
    server.answers(useless(server))
    sampling = Sampling(max_tokens=1)  # so that the estimate is below the $2 that is billed
    for _ in range(3):
        with pytest.raises(LimitReached, match=r"'openai/some-model'"):
            await within(budget, model).generate([Message("Hi")], sampling=sampling)
    assert len(server.requests) == 2
    assert budget.spent.usd == pytest.approx(4.0)


async def test_a_retry_that_could_cross_the_limit_is_not_made(server, make_model):
    """Seen: five useless answers and a good one, a limit of $3: $12 paid."""
    model, budget = make_model(prices=(0.2, 0.5)), Budget(Limits(usd=3.0))
    server.answers(*[useless(server)] * 5, server.chat())
    with pytest.raises(LimitReached):
        await within(budget, model).generate([Message("Hi")], sampling=Sampling(max_tokens=2))
    assert len(server.requests) == 1
    assert budget.spent.usd == pytest.approx(2.0)


async def test_useless_answers_and_the_good_one_are_counted_once(server, make_model):
    run = Budget(Limits(usd=100.0, calls=2))
    model, budget = make_model(prices=(0.2, 0.5)), Budget(Limits(tokens=10_000), parent=run)
    server.answers(useless(server), useless(server), server.chat())
    answer = await within(budget, model).generate([Message("Hi")], sampling=Sampling(max_tokens=2))
    for spent in (answer.usage, budget.spent, run.spent):
        assert (spent.prompt_tokens, spent.completion_tokens, spent.calls) == (15, 6, 1)
        assert spent.usd == pytest.approx(6.0)
    await within(budget, model).generate([Message("Hi")], sampling=Sampling(max_tokens=2))
    assert run.spent.calls == 2


async def test_a_call_that_fails_after_all_says_what_it_cost(server, make_model):
    model, budget = make_model(prices=(0.2, 0.5)), Budget(Limits(usd=100.0))
    server.answers(useless(server))
    with pytest.raises(BadModelResponse) as raised:
        await within(budget, model).generate([Message("Hi")], sampling=Sampling(max_tokens=2))
    assert raised.value.usage == budget.spent
    assert budget.spent.usd == pytest.approx(6 * 2.0)
    assert budget.spent.calls == 1
    server.answers(server.error(503))
    with pytest.raises(ModelUnavailable) as raised:
        await within(budget, model).generate([Message("Hi")], sampling=Sampling(max_tokens=2))
    assert raised.value.usage is None
    assert budget.spent.usd == pytest.approx(6 * 2.0)


async def test_what_was_billed_before_a_call_is_given_up_counts(server, make_model):
    waiting = asyncio.Event()

    async def wait(seconds):
        waiting.set()
        await asyncio.Event().wait()

    budget = Budget(Limits(usd=100.0))
    session = within(budget, make_model(prices=(0.2, 0.5), retries=Retries(sleep=wait)))
    server.answers(useless(server))
    call = asyncio.create_task(session.generate([Message("Hi")], sampling=Sampling(max_tokens=2)))
    await waiting.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert budget.spent.usd == pytest.approx(2.0)
    assert budget._held.usd == 0.0
