"""The table of roles: what each asked, paid, repeated and waited for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from rolecraft import Action, Role, ScriptedModel, Team
from rolecraft.trajectories import Event, Timing, Trajectory, Usage, role_table
from rolecraft.trajectories.in_words import duration, money


class Verdict(BaseModel):
    good: bool


class Judge(Action):
    async def run(self, history):
        return await self.ask("Good?", returns=Verdict)


class Cheer(Action):
    async def run(self, history):
        self.record_tool_call("horn", {}, "no air", ok=False)
        return "Hurrah"


def record(*events: Event, **about: object) -> Trajectory:
    for seq, event in enumerate(events):
        event.seq = seq
    return Trajectory("t", dict(about), list(events))


async def test_a_row_counts_what_the_role_did() -> None:
    model = ScriptedModel(["dunno", '{"good": 3}', '{"good": true}'])
    team = Team(
        [Role(name="Ann", actions=[Judge]), Role(name="Bob", actions=[Cheer], watch=[Judge])]
    )
    team.env.model = model
    table = (await team.run("a poem")).trajectory.role_table()
    assert [row.role for row in table] == ["Ann", "Bob"]
    ann, bob = table
    assert (ann.actions, ann.tool_calls, ann.calls, ann.asked_again) == (1, 0, 3, 2)
    assert (bob.actions, bob.tool_calls, bob.calls, bob.failed) == (1, 1, 0, 1)
    assert ann.prompt_tokens > 0
    assert ann.seconds is None


def test_attempts_after_the_first_are_retries() -> None:
    """Also those of a call that failed in the end, where the error says how many there were."""
    run = record(
        Event("model_call", role="Ann", data={"attempts": 3}, usage=Usage(1, 1)),
        Event("model_call", role="Ann", data={}, usage=Usage(1, 1)),
        Event("error", role="Ann", data={"type": "ModelUnavailable", "attempts": 6}),
        Event("model_call", role="Ann", data={"attempts": "many"}, usage=Usage(1, 1)),
    )
    (row,) = run.role_table()
    assert (row.retries, row.calls) == (7, 3)


def test_a_price_that_is_only_known_in_part_is_a_lower_bound() -> None:
    run = record(
        Event("model_call", role="Ann", usage=Usage(10, 5, 0.25)),
        Event("model_call", role="Ann", usage=Usage(10, 5)),
        Event("model_call", role="Bob", usage=Usage(10, 5)),
        Event("message", role="Cy", content="hi"),
    )
    assert [cells[5] for cells in run.role_table().cells] == ["≥ $0.25", "-", "$0", "≥ $0.25"]


def test_the_text_is_a_table_in_columns() -> None:
    run = record(
        Event("action", role="Ann", data={"action": "Draft"}),
        Event("model_call", role="Ann", usage=Usage(1200, 300, 0.0123), data={"attempts": 2}),
        Event("message", role="编辑", content="好"),
    )
    assert str(run.role_table()).splitlines() == [
        "role  actions  model calls  tokens in  tokens out     cost  retries  asked again  time",
        "Ann         1            1      1,200         300  $0.0123        1            0     -",
        "编辑        0            0          0           0       $0        0            0     -",
        "all         1            1      1,200         300  $0.0123        1            0     -",
    ]


def test_time_is_that_of_the_outermost_work() -> None:
    """A model call within an action is in the action's time; one outside of any is added."""
    run = record(
        Event("message", role="user"),
        Event("model_call", role="Ann", cause=0),  # which action to take
        Event("action", role="Ann", data={"action": "A", "run": "1"}, cause=0),
        Event("model_call", role="Ann", cause=2),
        Event("action_result", role="Ann", cause=2),
    )
    timings = {1: Timing(1.0, 1.0), 2: Timing(1.0), 3: Timing(3.0, 2.0), 4: Timing(4.5, 3.5)}
    (row,) = role_table(run, timings=timings)
    assert row.seconds == 4.5
    assert row.model_seconds == 3.0
    assert row.cells[-1] == "4.5 s"


def test_declared_roles_that_did_nothing_have_a_row_and_the_user_has_none() -> None:
    run = record(Event("message", role="user"), roles=[{"name": "Ann"}, "Bob"])
    assert [row.role for row in run.role_table()] == ["Ann", "Bob"]
    assert run.role_table()["Bob"].messages == 0
    with pytest.raises(KeyError):
        run.role_table()["user"]


def test_a_name_with_control_characters_cannot_reach_the_terminal() -> None:
    text = str(record(Event("message", role="A\x1b[2J\nB")).role_table())
    assert "\x1b" not in text
    assert len(text.splitlines()) == 2


USAGES = st.none() | st.builds(
    Usage,
    st.integers(0, 10**6),
    st.integers(0, 10**6),
    st.none() | st.floats(0, 100),
    st.integers(0, 3),
)
ROLES = st.sampled_from(["", "user", "Ann", "Bob"])


@given(st.lists(st.builds(Event, st.just("model_call"), role=ROLES, usage=USAGES)))
def test_the_sum_of_all_rows_is_the_usage_of_the_trajectory(events) -> None:
    run = record(*events)
    total, usage = run.role_table().total, run.usage
    assert (total.calls, total.prompt_tokens, total.completion_tokens) == (
        usage.calls,
        usage.prompt_tokens,
        usage.completion_tokens,
    )
    assert total.usd == (None if usage.usd is None else pytest.approx(usage.usd))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (0.0004, "0 ms"),
        (0.9994, "999 ms"),
        (1, "1.0 s"),
        (59.94, "59.9 s"),
        (59.96, "1 min 0 s"),
        (3599.9, "1 h 0 min"),
        (7260, "2 h 1 min"),
    ],
)
def test_durations_in_words(seconds, text) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("usd", "text"),
    [(None, "-"), (0, "$0"), (0.25, "$0.25"), (0.000012, "$0.000012"), (12, "$12.00")],
)
def test_prices_in_words(usd, text) -> None:
    assert money(usd) == text


def test_what_a_format_does_not_record_is_a_dash() -> None:
    said = Event("message", role="Ann", content="hi")
    run = record(said)
    assert run.role_table().cells == [("Ann", "0", "0", "0", "0", "$0", "0", "0", "-")]
    run.about["records"] = ["message", "tool_call"]
    assert run.role_table().cells == [("Ann", "0", *"------", "-")]
    run.events[0] = Event("message", role="Ann", content="hi", usage=Usage(7, 3, None))
    assert run.role_table().cells == [("Ann", "0", "1", "7", "3", "-", "0", "0", "-")]
