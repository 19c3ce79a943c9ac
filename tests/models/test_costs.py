"""What each role spent on which model, from the record alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolecraft import Action, FunctionModel, Role, Team
from rolecraft.errors import ModelUnavailable
from rolecraft.models import CachedModel, Completion, FallbackModel
from rolecraft.trajectories import Event, Trajectory, Usage, load
from rolecraft.trajectories.codec import decode_event, encode_event, parse_line


class Draft(Action):
    async def run(self, history):
        return await self.ask("Two lines.")


class Title(Action):
    async def run(self, history):
        return await self.ask("A title.")


def record(*events: Event) -> Trajectory:
    for seq, event in enumerate(events):
        event.seq = seq
    return Trajectory("t", {}, list(events))


def priced(name, usd, text="yes", **usage):
    return FunctionModel(
        lambda call: Completion(text=text, usage=Usage(100, 10, usd, **usage)), name=name
    )


async def test_each_role_and_model_has_a_row_and_the_last_is_their_sum():
    team = Team(
        [
            Role(name="Ann", actions=[Draft, Draft], model=priced("cheap", 0.25)),
            Role(name="Bob", actions=[Title], watch=[Draft], model=priced("dear", None)),
        ]
    )
    run = await team.run("rain")
    table = run.costs()
    ann, bob = table
    assert (ann.role, ann.model, ann.calls, ann.usd) == ("Ann", "cheap", 2, 0.5)
    assert (bob.role, bob.model, bob.usd, bob.unpriced) == ("Bob", "dear", None, bob.calls)
    assert table.unpriced == ("dear",)
    assert table.total.usd == 0.5
    assert table.total.calls == run.usage.calls
    cells = ("Ann", "cheap", "2", "0", "200", "0", "20", "$0.5", "0")
    assert tuple(str(table).splitlines()[1].split()) == cells
    assert str(table).splitlines()[-1].startswith("all")
    assert len(table.of(role="Bob")) == len(table.of(model="dear")) == 1


async def test_who_answered_is_paid_and_who_was_paid_in_vain_has_a_row_of_its_own(tmp_path):
    def refuse(call):
        raise ModelUnavailable("gone", attempts=6, usage=Usage(100, 3, 0.5))

    model = FallbackModel([FunctionModel(refuse, name="first"), priced("second", 0.25)])
    run = await Team([Role(name="Ann", actions=[Draft])], model=model).run("rain")
    for trajectory in (run.trajectory, load(run.trajectory.save(tmp_path / "run.jsonl"))):
        first, second = sorted(trajectory.costs(), key=lambda row: row.model)
        assert (first.model, first.calls, first.wasted) == ("first", 0, 6)
        assert (first.usd, first.prompt_tokens) == (0.5, 100)
        assert (second.model, second.calls, second.wasted) == ("second", 1, 0)
        assert (second.usd, second.prompt_tokens) == (0.25, 100)
        assert trajectory.costs().total.usd == trajectory.usage.usd == 0.75
    event = next(run.trajectory.of("model_call"))
    assert event.data["model"] == "second"
    assert event.data["passed_over"][0]["model"] == "first"


@pytest.mark.parametrize(("failed", "answered"), [(None, 0.25), (0.05, None), (None, None)])
async def test_a_price_that_is_unknown_is_nobodys_zero(failed, answered):
    def refuse(call):
        raise ModelUnavailable("gone", usage=Usage(100, 50, failed))

    model = FallbackModel([FunctionModel(refuse, name="first"), priced("second", answered)])
    run = await Team([Role(name="Ann", actions=[Draft])], model=model).run("rain")
    table = run.costs()
    assert {row.model: row.usd for row in table} == {"first": failed, "second": answered}
    unknown = [name for name, usd in (("first", failed), ("second", answered)) if usd is None]
    assert sorted(table.unpriced) == unknown
    again = (await Team([Role(name="Ann", actions=[Draft])], model=model).replay(run)).costs()
    assert again.rows == table.rows


async def test_an_answer_from_a_prompt_cache_is_reused_and_costs_nothing(tmp_path):
    def team():
        model = CachedModel(priced("m", 0.25), tmp_path / "answers")
        return Team([Role(name="Ann", actions=[Draft])], model=model)

    paid, free = await team().run("rain"), await team().run("rain")
    (row,) = free.costs()
    assert (row.calls, row.reused, row.usd, row.saved_usd) == (0, 1, None, 0.25)
    assert free.usage.usd == 0
    assert free.message.content == paid.message.content
    again = await team().replay(free)
    assert again.trajectory.events == free.trajectory.events


def test_sums_of_prices_have_no_noise_of_binary_fractions():
    usages = [Usage(1, 1, usd) for usd in (0.1, 0.2)]
    table = record(*(Event("model_call", role="a", usage=usage) for usage in usages)).costs()
    assert repr(table.total.usd) == "0.3"


def test_attempts_in_vain_are_counted_also_those_of_calls_that_failed():
    run = record(
        Event("model_call", role="Ann", data={"model": "m", "attempts": 3}, usage=Usage(1, 1)),
        Event("error", role="Ann", data={"type": "X", "attempts": 6, "model": "m"}),
        Event("error", role="Ann", data={"type": "KeyError"}),
    )
    (row,) = run.costs()
    assert (row.calls, row.wasted) == (1, 8)


def test_cached_tokens_come_back_from_the_record_and_old_records_have_none():
    event = Event("model_call", usage=Usage(10, 2, 0.5, cached_tokens=7), seq=0)
    assert decode_event(parse_line(encode_event(event))) == event
    plain = Event("model_call", usage=Usage(10, 2, 0.5), seq=0)
    assert b"cached_tokens" not in encode_event(plain)
    assert record(event).costs().total.cached_tokens == 7


ANY = st.none() | st.integers(-5, 9) | st.text(max_size=3) | st.lists(st.integers(), max_size=2)
DATA = st.fixed_dictionaries(
    {},
    optional={
        "model": ANY,
        "attempts": ANY,
        "passed_over": ANY | st.lists(st.dictionaries(st.sampled_from(["model", "usage"]), ANY)),
        "kept": ANY | st.dictionaries(st.just("usd"), ANY),
    },
)
USAGES = st.none() | st.builds(
    Usage,
    st.integers(0, 10**6),
    st.integers(0, 10**6),
    st.none() | st.floats(0, 100),
    st.integers(0, 3),
    st.integers(0, 100),
)
EVENTS = st.builds(
    Event,
    st.sampled_from(["model_call", "error", "limit", "message"]),
    st.sampled_from(["", "Ann", "Bob"]),
    data=DATA,
    usage=USAGES,
)


@given(st.lists(EVENTS, max_size=8))
def test_whatever_a_record_says_the_sum_is_its_usage(events):
    run = record(*events)
    total, usage = run.costs().total, run.usage
    assert (total.calls, total.prompt_tokens) == (usage.calls, usage.prompt_tokens)
    assert total.completion_tokens == usage.completion_tokens
    assert total.cached_tokens == usage.cached_tokens
    assert (total.usd or 0) == pytest.approx(usage.usd or 0)
    str(run.costs())
