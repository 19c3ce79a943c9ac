"""What happens when a limit is crossed: decided once, as `on_limit` says, and written down."""

from __future__ import annotations

import asyncio
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rolecraft.errors import LimitReached, UsageError
from rolecraft.messages import Message
from rolecraft.models import (
    Budget,
    Completion,
    Crossing,
    FunctionModel,
    HandOver,
    Limits,
    Model,
    MoreRoom,
    Sampling,
    ScriptedModel,
    Session,
    UseModel,
)
from rolecraft.models.limits import LIMIT_NAMES, read_decided, write_decided
from rolecraft.trajectories.events import Usage


class Costing(Model):
    """Costs `usd` and says so before; with `gate`, answers once it is open."""

    real = False

    def __init__(self, usd: float = 1.0, name: str = "costing") -> None:
        self.usd, self.name = usd, name
        self.gate: asyncio.Event | None = None
        self.entered = asyncio.Event()
        self.asked = 0

    def estimate_usd(self, session, sampling, tools=()):
        return self.usd

    def estimate_tokens(self, session, sampling, tools=()):
        return 10

    async def _complete(self, session, tools, sampling):
        self.asked += 1
        self.entered.set()
        if self.gate is not None:
            await self.gate.wait()
        return Completion(text=f"from {self.name}", usage=Usage(10, 0, self.usd))


def talk(model: Model, budget: Budget, role: str = "Ann") -> Session:
    session = model.session(role)
    session.budget = budget
    return session


def noted(session: Session) -> list[tuple[str, object]]:
    """Every crossing that `session` is told of, in words, and its decision."""
    seen: list[tuple[str, object]] = []
    session.on_limit = lambda _, crossing, decision, usage: seen.append((str(crossing), decision))
    return seen


async def test_unless_something_else_is_chosen_a_crossed_limit_raises():
    for on_limit in (None, "raise"):
        session = talk(Costing(), Budget(Limits(usd=0.5, on_limit=on_limit)))
        seen = noted(session)
        with pytest.raises(LimitReached) as caught:
            await session.generate([Message("hi")])
        assert caught.value.decision == "raise"
        assert caught.value.crossing.role == "Ann"
        assert seen == [(str(caught.value), "raise")]


async def test_stopping_is_an_exception_that_says_that_nothing_is_wrong():
    session = talk(Costing(), Budget(Limits(usd=0.5, on_limit="stop")))
    with pytest.raises(LimitReached) as caught:
        await session.generate([Message("hi")])
    assert caught.value.decision == "stop"


async def test_a_person_gets_the_crossing_and_gives_more_room():
    asked: list[Crossing] = []

    async def ask(crossing: Crossing) -> MoreRoom:
        asked.append(crossing)
        await asyncio.sleep(0)
        return MoreRoom(usd=1.0)

    budget = Budget(Limits(usd=1.5, calls=9, on_limit=ask), name="the team")
    session = talk(Costing(), budget)
    seen = noted(session)
    assert [(await session.generate([Message("hi")])).text for _ in range(3)] == [
        "from costing"
    ] * 3
    assert asked == [
        Crossing(
            limit="usd",
            allowed=1.5 + n,
            used=1.0 + n,
            needed=1.0,
            whose="the team",
            role="Ann",
            doing="a call of 'costing'",
        )
        for n in range(2)
    ]
    assert [decision for _, decision in seen] == [MoreRoom(usd=1.0)] * 2
    assert (budget.limits.usd, budget.limits.calls) == (3.5, 9)


async def test_a_person_may_refuse_and_a_plain_function_may_decide():
    session = talk(Costing(), Budget(Limits(calls=0, on_limit=lambda crossing: "raise")))
    with pytest.raises(LimitReached, match="limit of 0 model calls is used up"):
        await session.generate([Message("hi")])


async def test_one_question_at_a_time_and_who_waited_is_told_what_is_settled():
    """Five roles cross together: the person is asked once, whatever the answer."""
    for answer, answered in ((MoreRoom(usd=5.0), 5), ("stop", 0)):
        asked, open_ = [], asyncio.Event()

        async def ask(crossing, answer=answer, asked=asked, open_=open_):
            asked.append(crossing.role)
            await open_.wait()
            return answer

        model, budget = Costing(), Budget(Limits(usd=0.0, on_limit=ask))
        calls = [
            asyncio.create_task(talk(model, budget, role).generate([Message("hi")]))
            for role in "abcde"
        ]
        for _ in range(10):
            await asyncio.sleep(0)
        open_.set()
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert asked == ["a"]
        assert sum(isinstance(result, Completion) for result in results) == answered


async def test_an_inner_limit_is_decided_by_the_outer_choice_unless_it_has_its_own():
    team = Budget(Limits(on_limit="stop"))
    chosen = {"stop": Limits(calls=0), "raise": Limits(calls=0, on_limit="raise")}
    for decision, limits in chosen.items():
        session = talk(Costing(), Budget(limits, parent=team, name="role 'Ann'"))
        with pytest.raises(LimitReached, match="role 'Ann'") as caught:
            await session.generate([Message("hi")])
        assert caught.value.decision == decision


async def test_handing_over_names_the_role_that_goes_on():
    over = HandOver("Manager", "Ann has no money left.")
    session = talk(Costing(), Budget(Limits(usd=0.5, on_limit=lambda crossing: over)))
    with pytest.raises(LimitReached) as caught:
        await session.generate([Message("hi")])
    assert caught.value.decision == over


async def test_a_conversation_can_go_on_with_a_cheaper_model():
    dear, cheap = Costing(1.0, "dear"), Costing(0.1, "cheap")
    budget = Budget(Limits(usd=1.2, on_limit=lambda crossing: UseModel(cheap)))
    session = talk(dear, budget)
    seen = noted(session)
    texts = [(await session.generate([Message("hi")])).text for _ in range(3)]
    assert texts == ["from dear", "from cheap", "from cheap"]
    assert len(seen) == 1
    with pytest.raises(UsageError, match="must be another model"):
        await session.generate([Message("hi")])


async def test_no_other_model_takes_over_exact_tokens():
    pytest.importorskip("torch")
    from rolecraft.models.tiny import tiny_model

    local = tiny_model(["a", "b"])
    budget = Budget(Limits(tokens=0, on_limit=lambda crossing: UseModel(ScriptedModel(["x"]))))
    with pytest.raises(UsageError, match="exact tokens"):
        await talk(local, budget).generate([Message("a")])


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (None, "None"),
        ("more", "'more'"),
        (MoreRoom(tokens=5), "no more `calls`"),
        (HandOver("Ann", "your turn"), "to another one"),
        (UseModel("openai/gpt-4o-mini"), "another model has no more `calls`"),
    ],
)
async def test_an_answer_that_settles_nothing_is_refused(answer, why):
    session = talk(Costing(), Budget(Limits(calls=0, on_limit=lambda crossing: answer)))
    with pytest.raises(UsageError, match=why):
        await session.generate([Message("hi")])


@pytest.mark.parametrize("room", [{}, {"usd": -1.0}, {"calls": 0}])
def test_more_room_is_more(room):
    with pytest.raises(UsageError, match="MoreRoom"):
        MoreRoom(**room)


def test_a_choice_that_is_none_is_refused():
    with pytest.raises(UsageError, match="'ask'"):
        Limits(calls=1, on_limit="ask")


# --- after a call ----------------------------------------------------------------------------


async def test_an_answer_that_cost_more_than_was_to_spare_counts_and_then_crosses():
    answers = []
    model = FunctionModel(lambda call: "far more words than anybody would have thought")
    session = talk(model, Budget(Limits(tokens=5)))
    session.on_answer = lambda session, call, completion: answers.append(completion.text)
    seen = noted(session)
    with pytest.raises(LimitReached, match="5 tokens was passed by a call of 'function': 9 are"):
        await session.generate([Message("hi")])
    assert answers == [session.messages[-1].content]
    assert len(seen) == 1


async def test_more_room_after_an_answer_lets_it_pass():
    model = FunctionModel(lambda call: "far more words than anybody would have thought")
    budget = Budget(Limits(tokens=5, on_limit=lambda crossing: MoreRoom(tokens=2)))
    session = talk(model, budget)
    seen = noted(session)
    await session.generate([Message("hi")])
    assert budget.limits.tokens == 9
    assert len(seen) == 2  # 7, then 9


# --- time --------------------------------------------------------------------------------------


class Clock:
    """A clock that goes when it is told."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


async def test_time_passes_while_the_budget_is_in_use_and_is_looked_at_before_each_call():
    clock = Clock()
    budget = Budget(Limits(seconds=10.0), clock=clock)
    session = talk(Costing(), budget)
    clock.now += 1000.0  # nobody is at work
    with budget.running():
        await session.generate([Message("hi")])
        clock.now += 9.0
        await session.generate([Message("hi")])
        clock.now += 1.0
        with pytest.raises(LimitReached, match="10 s is used up: 10 s have passed") as caught:
            await session.generate([Message("hi")])
    assert caught.value.limit == "seconds"
    assert budget.seconds == 10.0


async def test_time_of_an_inner_budget_passes_only_in_its_own_turns():
    clock = Clock()
    team = Budget(Limits(seconds=100.0), clock=clock)
    ann, bob = (Budget(Limits(seconds=5.0), parent=team, name=n, clock=clock) for n in "ab")
    with team.running():
        with ann.running():
            clock.now += 4.0
        with bob.running():
            clock.now += 5.0
            with pytest.raises(LimitReached, match="for b"):
                await bob.check_time("the action 'Write'")
        await ann.check_time("the action 'Write'")
    assert (team.seconds, ann.seconds, bob.seconds) == (9.0, 4.0, 5.0)


async def test_a_call_under_way_is_interrupted_and_charged_what_it_could_have_cost():
    model = Costing(0.25)
    model.gate = asyncio.Event()
    budget = Budget(Limits(seconds=1, usd=1.0, tokens=100))
    session = talk(model, budget)
    charged: list[Usage | None] = []
    session.on_limit = lambda session, crossing, decision, usage: charged.append(usage)
    with pytest.raises(LimitReached, match="ran out during a call of 'costing'") as caught:
        await session.generate([Message("hi")])
    assert caught.value.crossing.when == "during"
    assert charged == [Usage(10, 0, 0.25)]
    assert budget.spent == Usage(10, 0, 0.25, calls=1)
    assert budget._held.calls == 0


async def test_a_call_under_way_goes_on_while_a_person_is_asked_for_more_time():
    model = Costing()
    model.gate = asyncio.Event()

    async def ask(crossing):
        model.gate.set()
        return MoreRoom(seconds=3600.0)

    session = talk(model, Budget(Limits(seconds=0.01, on_limit=ask)))
    assert (await session.generate([Message("hi")])).text == "from costing"
    assert model.asked == 1


async def test_a_call_that_waits_for_room_waits_no_longer_than_there_is_time():
    model = Costing()
    model.gate = asyncio.Event()
    budget = Budget(Limits(usd=1.0))
    timed = Budget(Limits(seconds=0.01), parent=budget)
    first = asyncio.create_task(talk(model, budget).generate([Message("hi")]))
    await asyncio.sleep(0)
    with pytest.raises(LimitReached, match="is used up"):
        await talk(model, timed).generate([Message("hi")])
    model.gate.set()
    await first
    assert not budget._queue


async def test_a_cancelled_call_with_a_time_limit_ends_and_gives_its_room_back():
    model = Costing()
    model.gate = asyncio.Event()
    budget = Budget(Limits(seconds=1000.0))
    call = asyncio.create_task(talk(model, budget).generate([Message("hi")]))
    await model.entered.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert budget._held.calls == 0
    assert len(asyncio.all_tasks()) == 1


# --- recovery and the record ---------------------------------------------------------------------


async def test_what_an_earlier_process_spent_and_was_granted_counts():
    team = Budget(Limits(usd=2.0, calls=9))
    ann = Budget(Limits(calls=2), parent=team)
    ann.count(Usage(10, 5, 1.0, calls=1))
    ann.grant(MoreRoom(calls=1))
    session = talk(Costing(0.5), ann)
    await session.generate([Message("hi")])
    await session.generate([Message("hi")])
    with pytest.raises(LimitReached):
        await session.generate([Message("hi")])
    assert team.spent == Usage(30, 5, 2.0, calls=3)


decisions = st.one_of(
    st.sampled_from(["raise", "stop"]),
    st.builds(MoreRoom, usd=st.floats(0.1, 5), calls=st.integers(1, 9)),
    st.builds(HandOver, st.text(min_size=1), st.text()),
    st.builds(UseModel, st.text(min_size=1)),
)
crossings = st.builds(
    Crossing,
    limit=st.sampled_from(LIMIT_NAMES),
    allowed=st.floats(0, 100),
    used=st.floats(0, 100),
    needed=st.floats(0, 100),
    whose=st.text(),
    role=st.text(),
    doing=st.text(),
    when=st.sampled_from(["before", "during", "after"]),
)


@given(crossings, decisions)
def test_a_decided_crossing_is_read_back_from_json_as_it_was_written(crossing, decision):
    data = json.loads(json.dumps(write_decided(crossing, decision)))
    assert read_decided(data, role=crossing.role) == (crossing, decision)
    assert str(crossing)


def test_a_limit_event_of_version_1_is_read_as_raised():
    crossing, decision = read_decided({"limit": "usd", "allowed": 1.0, "used": 0.9}, role="Ann")
    assert (crossing.limit, crossing.role, decision) == ("usd", "Ann", "raise")


# --- never more than one call over ----------------------------------------------------------------


class Unforeseen(Model):
    """What its calls cost is known only afterwards."""

    real = False
    estimates_hold = False
    name = "unforeseen"

    def __init__(self, cost: int, yields: int) -> None:
        self.cost, self.yields = cost, yields

    async def _complete(self, session, tools, sampling):
        for _ in range(self.yields):
            await asyncio.sleep(0)
        return Completion(text="x", usage=Usage(self.cost, 0, self.cost / 100))


@settings(max_examples=200, deadline=None)
@given(
    calls=st.lists(
        st.tuples(st.integers(0, 30), st.integers(0, 4), st.integers(0, 2)), max_size=20
    ),
    usd=st.sampled_from([None, 0.0, 0.25, 1.0]),
    tokens=st.sampled_from([None, 1, 40]),
    inner=st.sampled_from([None, 1, 20]),
    before=st.integers(0, 40),
)
def test_a_limit_is_passed_by_one_call_at_most_whatever_the_estimates(
    calls, usd, tokens, inner, before
):
    """Concurrent, nested, and after a recovery."""
    dearest = max((cost for cost, _, _ in calls), default=0)
    outer = Budget(Limits(usd=usd, tokens=tokens))
    budgets = [Budget(Limits(tokens=inner), parent=outer), Budget(Limits(), parent=outer), outer]
    budgets[0].count(Usage(before, 0, before / 100))

    async def run() -> list[object]:
        tasks = [
            asyncio.create_task(
                talk(Unforeseen(cost, yields), budgets[which]).generate(
                    [Message("x")], sampling=Sampling()
                )
            )
            for cost, yields, which in calls
        ]
        return await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 60)

    results = asyncio.run(run())
    assert all(isinstance(result, (Completion, LimitReached)) for result in results)
    for budget in (outer, budgets[0]):
        used = budget.spent.prompt_tokens
        if budget.limits.tokens is not None:
            assert used <= max(budget.limits.tokens, before) + dearest
        if budget.limits.usd is not None:
            assert budget.spent.usd <= max(budget.limits.usd, before / 100) + dearest / 100 + 1e-6
        assert budget._held.calls == 0


async def test_a_role_that_took_over_and_crosses_the_same_limit_is_told_that_it_is_the_team_s():
    def over(crossing: Crossing) -> HandOver:
        return HandOver("Ann", "your turn")

    with pytest.raises(UsageError, match="the whole team's and used up") as caught:
        await talk(Costing(), Budget(Limits(calls=0, on_limit=over))).generate()
    assert "`Role(limits=Limits(calls=..., on_limit=...))`" in str(caught.value)
    own = Budget(Limits(calls=0, on_limit=over), name="role 'Ann'")
    with pytest.raises(UsageError) as caught:
        await talk(Costing(), own).generate()
    assert "team" not in str(caught.value)
