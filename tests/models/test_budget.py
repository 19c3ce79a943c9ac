"""Budgets: a call that could cross a limit is not made, and calls cannot cross one together."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rolecraft.errors import LimitReached, ModelError, UsageError
from rolecraft.messages import Message
from rolecraft.models import (
    Budget,
    Completion,
    FunctionModel,
    Limits,
    Model,
    Sampling,
    ScriptedModel,
    Session,
    Tool,
)
from rolecraft.models.budget import Hold
from rolecraft.trajectories.events import Usage


class Priced(Model):
    """Costs at most `most`, in the end `cost`, and answers when its `gate` is opened."""

    real = False

    def __init__(self, most: float, cost: float, *, tokens: int = 0, used: int = 0) -> None:
        self.name = "priced"
        self.most, self.cost, self.tokens, self.used = most, cost, tokens, used
        self.gate: asyncio.Event | None = None
        self.under_way = 0
        self.asked = 0
        self.error: Exception | None = None

    def estimate_usd(
        self, session: Session, sampling: Sampling, tools: Sequence[Tool] = ()
    ) -> float:
        return self.most

    def estimate_tokens(
        self, session: Session, sampling: Sampling, tools: Sequence[Tool] = ()
    ) -> int:
        return self.tokens

    async def _complete(
        self, session: Session, tools: Sequence[Tool], sampling: Sampling
    ) -> Completion:
        self.asked += 1
        self.under_way += 1
        try:
            if self.gate is not None:
                await self.gate.wait()
            if self.error is not None:
                raise self.error
            return Completion(text="ok", usage=Usage(self.used, 0, self.cost))
        finally:
            self.under_way -= 1


def ask(model: Model, budget: Budget, sampling: Sampling | None = None):
    session = model.session("r")
    session.budget = budget
    return session.generate([Message("x")], sampling=sampling)


async def settle() -> None:
    """Let every task run until it waits for something."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_call_that_could_cross_the_limit_is_not_made():
    model, budget = Priced(most=0.4, cost=0.4), Budget(Limits(usd=1.0))
    await ask(model, budget)
    await ask(model, budget)
    with pytest.raises(LimitReached, match="'priced'") as caught:
        await ask(model, budget)
    assert (caught.value.limit, caught.value.allowed) == ("usd", 1.0)
    assert caught.value.used == pytest.approx(0.8)
    assert model.asked == 2
    assert budget.spent == Usage(calls=2, usd=0.8)


async def test_the_limit_itself_may_be_used_up_to_the_cent():
    """Ten times 0.1 is a hair less than 1.0, and three times 0.1 a hair more than 0.3."""
    for limit, calls in ((1.0, 10), (0.3, 3)):
        model, budget = Priced(most=0.1, cost=0.1), Budget(Limits(usd=limit))
        for _ in range(calls):
            await ask(model, budget)
        with pytest.raises(LimitReached):
            await ask(model, budget)


async def test_calls_under_way_count_at_their_estimate_and_the_next_one_waits_for_room():
    model, budget = Priced(most=0.4, cost=0.1), Budget(Limits(usd=1.0))
    model.gate = asyncio.Event()
    calls = [asyncio.create_task(ask(model, budget)) for _ in range(5)]
    await settle()
    assert model.under_way == 2  # a third could bring it to 1.2
    model.gate.set()
    answers = await asyncio.gather(*calls)
    assert len(answers) == 5
    assert budget.spent.usd == pytest.approx(0.5)


async def test_a_call_that_waits_is_refused_once_it_can_never_fit():
    model, budget = Priced(most=0.6, cost=0.6), Budget(Limits(usd=1.0))
    model.gate = asyncio.Event()
    calls = [asyncio.create_task(ask(model, budget)) for _ in range(3)]
    await settle()
    assert model.under_way == 1
    model.gate.set()
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(result) for result in results] == [Completion, LimitReached, LimitReached]


async def test_those_who_wait_are_served_in_the_order_of_asking():
    started: list[str] = []
    gates = {name: asyncio.Event() for name in "abcd"}

    class Ordered(Priced):
        async def _complete(self, session, tools, sampling):
            started.append(session.role)
            await gates[session.role].wait()
            return Completion(text="ok", usage=Usage(usd=0.0))

    budget = Budget(Limits(usd=1.0))
    large, small = Ordered(most=1.0, cost=0.0), Ordered(most=0.1, cost=0.0)

    async def one(role: str, model: Model) -> None:
        session = model.session(role)
        session.budget = budget
        await session.generate()

    models = {"a": small, "b": large, "c": small, "d": small}
    tasks = [asyncio.create_task(one(role, model)) for role, model in models.items()]
    await settle()
    assert started == ["a"]  # c and d would fit beside a, but b was first
    gates["a"].set()
    await settle()
    assert started == ["a", "b"]
    gates["b"].set()
    await settle()
    assert started == ["a", "b", "c", "d"]
    gates["c"].set()
    gates["d"].set()
    await asyncio.gather(*tasks)


async def test_a_failed_call_gives_its_room_back():
    model, budget = Priced(most=1.0, cost=1.0), Budget(Limits(usd=1.0, calls=1))
    model.error = RuntimeError("boom")
    with pytest.raises(RuntimeError, match="boom"):
        await ask(model, budget)
    assert budget.spent == Usage(calls=0, usd=0.0)
    model.error = None
    assert (await ask(model, budget)).text == "ok"


async def test_a_cancelled_call_and_a_cancelled_wait_give_their_room_back():
    model, budget = Priced(most=0.6, cost=0.1), Budget(Limits(usd=1.0))
    model.gate = asyncio.Event()
    running, waiting, behind = (asyncio.create_task(ask(model, budget)) for _ in range(3))
    await settle()
    waiting.cancel()
    await settle()
    running.cancel()
    await settle()
    assert model.under_way == 1  # `behind` took the room
    model.gate.set()
    assert (await behind).text == "ok"
    assert waiting.cancelled()
    assert running.cancelled()
    assert budget.spent.usd == pytest.approx(0.1)


async def test_calls_are_counted_from_their_start():
    model, budget = Priced(most=0.0, cost=0.0), Budget(Limits(calls=3))
    model.gate = asyncio.Event()
    calls = [asyncio.create_task(ask(model, budget)) for _ in range(5)]
    await settle()
    assert model.under_way == 3
    model.gate.set()
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(result) for result in results] == [Completion] * 3 + [LimitReached] * 2
    assert results[3].limit == "calls"
    assert (results[3].allowed, results[3].used) == (3, 3)


async def test_tokens_count_the_prompt_before_the_call():
    model, budget = Priced(0.0, 0.0, tokens=60, used=50), Budget(Limits(tokens=100))
    await ask(model, budget)
    with pytest.raises(LimitReached, match="50 are used and it may use 60") as caught:
        await ask(model, budget)
    assert (caught.value.limit, caught.value.used) == ("tokens", 50)
    assert model.asked == 1


async def test_where_a_model_cannot_estimate_tokens_the_longest_answer_counts():
    class Unknown(Priced):
        def estimate_tokens(self, session, sampling, tools=()):
            return None

    model, budget = Unknown(0.0, 0.0, used=10), Budget(Limits(tokens=100))
    await ask(model, budget, Sampling(max_tokens=90))
    with pytest.raises(LimitReached, match="may use 91"):
        await ask(model, budget, Sampling(max_tokens=91))
    await ask(model, budget)


async def test_an_unknown_price_of_a_real_model_is_an_error_at_the_first_call():
    class Unpriced(Model):
        name = "mystery"
        asked = False

        async def _complete(self, session, tools, sampling):
            self.asked = True
            return Completion(text="ok", usage=Usage(usd=None))

    from rolecraft.models import allow_real_models

    model = Unpriced()
    with allow_real_models():
        with pytest.raises(UsageError, match=r"'mystery'.*`prices="):
            await ask(model, Budget(Limits(usd=1.0)))
        with pytest.raises(UsageError, match="'mystery'"):
            await ask(model, Budget(Limits(), parent=Budget(Limits(usd=1.0))))
        assert not model.asked
        await ask(model, Budget(Limits(calls=1)))  # without a limit on money it may be asked


async def test_an_answer_without_a_price_costs_its_estimate():
    model, budget = Priced(most=0.4, cost=0.0), Budget(Limits(usd=1.0))
    model.cost = None
    await ask(model, budget)
    assert budget.spent.usd == pytest.approx(0.4)


async def test_an_inner_budget_binds_within_an_outer_one():
    team = Budget(Limits(usd=1.0), name="the team")
    writer = Budget(Limits(usd=0.3), parent=team, name="role 'Writer'")
    editor = Budget(Limits(calls=9), parent=team, name="role 'Editor'")
    model = Priced(most=0.3, cost=0.3)
    await ask(model, writer)
    with pytest.raises(LimitReached, match="role 'Writer'"):
        await ask(model, writer)
    await ask(model, editor)
    await ask(model, editor)
    with pytest.raises(LimitReached, match="the team"):
        await ask(model, editor)
    assert team.spent.usd == pytest.approx(0.9)
    assert (writer.spent.calls, editor.spent.calls, team.spent.calls) == (1, 2, 3)


async def test_calls_of_two_inner_budgets_cannot_cross_the_outer_one_together():
    team = Budget(Limits(usd=1.0))
    inner = [Budget(Limits(), parent=team) for _ in range(2)]
    model = Priced(most=0.6, cost=0.6)
    model.gate = asyncio.Event()
    calls = [asyncio.create_task(ask(model, budget)) for budget in inner]
    await settle()
    assert model.under_way == 1
    model.gate.set()
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(result) for result in results] == [Completion, LimitReached]


async def test_no_limit_is_no_limit():
    model, budget = ScriptedModel(["a"] * 100), Budget(Limits())
    for _ in range(100):
        await ask(model, budget)
    assert budget.spent.calls == 100


async def test_doubles_count_words_and_cost_nothing():
    budget = Budget(Limits(usd=0.0, tokens=8))
    model = FunctionModel(lambda call: "three words here")
    await ask(model, budget)  # one word in, three out
    assert (budget.spent.prompt_tokens, budget.spent.completion_tokens) == (1, 3)
    with pytest.raises(LimitReached):
        await ask(model, budget, Sampling(max_tokens=4))


@pytest.mark.parametrize(
    "limits", [{"usd": -1.0}, {"tokens": -1}, {"calls": float("nan")}, {"rounds": "3"}]
)
def test_a_limit_that_is_no_number_from_zero_is_refused(limits):
    with pytest.raises(UsageError, match=next(iter(limits))):
        Limits(**limits)


@dataclass(frozen=True)
class Plan:
    """One call: what it may cost at most, the share of that it costs, and how it ends."""

    most: float
    share: float
    tokens: int
    ends: str
    yields: int
    child: int


plans = st.builds(
    Plan,
    most=st.sampled_from([0.0, 0.1, 0.25, 1 / 3, 0.5, 1.0]),
    share=st.sampled_from([0.0, 0.3, 1.0]),
    tokens=st.integers(0, 40),
    ends=st.sampled_from(["answer", "answer", "answer", "error", "cancel"]),
    yields=st.integers(0, 5),
    child=st.integers(0, 2),
)


@settings(max_examples=300, deadline=None)
@given(
    calls=st.lists(plans, max_size=25),
    usd=st.sampled_from([0.0, 0.3, 1.0, 2.5]),
    tokens=st.sampled_from([None, 0, 3, 30, 200]),
    most_calls=st.sampled_from([None, 3]),
)
def test_random_concurrent_calls_never_cross_a_limit_and_never_hang(calls, usd, tokens, most_calls):
    """Whatever the calls cost and however they end, in one budget or in three inner ones."""
    outer = Budget(Limits(usd=usd, tokens=tokens, calls=most_calls))
    inner = [Budget(Limits(usd=usd / 2), parent=outer), Budget(Limits(), parent=outer), outer]
    under_way: list[Plan] = []
    seen: list[tuple[float, int, int]] = []

    class Planned(Priced):
        def __init__(self, plan: Plan) -> None:
            super().__init__(plan.most, plan.most * plan.share, tokens=plan.tokens)
            self.plan = plan

        async def _complete(self, session, tools, sampling):
            plan = self.plan
            under_way.append(plan)
            seen.append(
                (
                    outer.spent.usd + sum(other.most for other in under_way),
                    outer.spent.prompt_tokens + sum(max(p.tokens, 1) for p in under_way),
                    outer.spent.calls + len(under_way),
                )
            )
            try:
                for _ in range(plan.yields):
                    await asyncio.sleep(0)
                if plan.ends == "error":
                    raise RuntimeError
                if plan.ends == "cancel":
                    raise asyncio.CancelledError
                return Completion(
                    text="", usage=Usage(round(plan.tokens * plan.share), 0, self.cost)
                )
            finally:
                under_way.remove(plan)

    async def run() -> list[object]:
        tasks = [asyncio.create_task(ask(Planned(plan), inner[plan.child])) for plan in calls]
        return await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), timeout=60)

    results = asyncio.run(run())
    for could_cost, could_use, could_call in seen:
        assert could_cost <= usd + 1e-6
        assert tokens is None or could_use <= tokens
        assert most_calls is None or could_call <= most_calls
    assert outer.spent.usd <= usd + 1e-6
    assert inner[0].spent.usd <= usd / 2 + 1e-6
    allowed = (Completion, LimitReached, RuntimeError, asyncio.CancelledError)
    assert all(isinstance(result, allowed) for result in results)
    answered = [result for result in results if isinstance(result, Completion)]
    assert outer.spent.calls == len(answered)
    assert not outer._queue
    assert all((b._held.usd, b._held.tokens, b._held.calls) == (0.0, 0, 0) for b in inner)


@settings(max_examples=100, deadline=None)
@given(
    costs=st.lists(st.sampled_from([0.1, 0.2, 0.4]), max_size=12),
    speeds=st.permutations(list(range(12))),
)
def test_who_is_admitted_does_not_depend_on_how_fast_answers_come(costs, speeds):
    def admitted(delays: Sequence[int]) -> list[bool]:
        class Slow(Priced):
            async def _complete(self, session, tools, sampling):
                for _ in range(delays[int(session.role)]):
                    await asyncio.sleep(0)
                return await super()._complete(session, tools, sampling)

        async def run() -> list[object]:
            budget = Budget(Limits(usd=1.0))

            async def one(index: int, cost: float) -> None:
                session = Slow(most=cost, cost=cost / 2).session(str(index))
                session.budget = budget
                await session.generate()

            tasks = [asyncio.create_task(one(i, cost)) for i, cost in enumerate(costs)]
            return await asyncio.gather(*tasks, return_exceptions=True)

        return [not isinstance(result, LimitReached) for result in asyncio.run(run())]

    assert admitted(speeds) == admitted([0] * 12)


async def test_a_model_of_ones_own_reports_what_a_failed_call_cost():
    budget = Budget(Limits(usd=5.0))
    model = Priced(most=2.0, cost=2.0)
    model.error = ModelError("useless", usage=Usage(10, 5, 1.5))
    for _ in range(2):
        session = model.session()
        session.budget = budget
        with pytest.raises(ModelError, match="useless"):
            await session.generate([Message("hi")])
    assert (budget.spent.usd, budget.spent.calls) == (3.0, 2)
    assert budget.spent.prompt_tokens == 20


async def test_a_retry_waits_for_the_room_that_its_failure_took():
    """Two calls may cost 2 each, the limit is 5: after a failure at 2, one has to wait."""
    budget, model = Budget(Limits(usd=5.0)), Priced(most=2.0, cost=0.5)
    first, second = await budget.hold(model, usd=2.0), await budget.hold(model, usd=2.0)
    budget.charge(first, Usage(1, 1, 2.0))
    retry = asyncio.create_task(budget.renew(model, first))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not retry.done()
    budget.settle(second, Usage(1, 1, 0.5))
    await retry
    budget.settle(first, Usage(2, 2, 2.5))
    assert budget.spent == Usage(3, 3, 3.0, calls=2)
    assert budget._held == Hold()


async def test_a_retry_that_is_refused_or_given_up_leaves_no_hold_behind():
    budget, model = Budget(Limits(usd=5.0, calls=2)), Priced(most=2.0, cost=0.5)
    first, second = await budget.hold(model, usd=2.0), await budget.hold(model, usd=2.0)
    budget.charge(first, Usage(1, 1, 2.0))
    retry = asyncio.create_task(budget.renew(model, first))
    await asyncio.sleep(0)
    retry.cancel()
    with pytest.raises(asyncio.CancelledError):
        await retry
    budget.release(first)
    budget.charge(second, Usage(1, 1, 2.0))
    with pytest.raises(LimitReached):
        await budget.renew(model, second)
    budget.release(second)
    assert budget._held == Hold()
    assert budget.spent.usd == 4.0
