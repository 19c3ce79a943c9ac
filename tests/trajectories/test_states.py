"""State diagrams: a role's actions and the ways between them, read from the record alone."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rolecraft import Action, Role, ScriptedModel, Team
from rolecraft.actions.action import UserRequirement
from rolecraft.actions.tool import tool
from rolecraft.errors import UnknownName
from rolecraft.messages import ToolCall
from rolecraft.models.base import Completion
from rolecraft.roles import UseTools
from rolecraft.trajectories import Event, Trajectory, state_machines
from rolecraft.trajectories.events import EVENT_KINDS
from rolecraft.trajectories.nesting import outermost
from rolecraft.trajectories.states import state_diagrams


def record(*events: Event, **about: object) -> Trajectory:
    for seq, event in enumerate(events):
        event.seq = seq
    return Trajectory("t", dict(about), list(events))


def action(
    name: str,
    cause: int | None = None,
    *,
    run: str | None = None,
    role: str = "Ann",
    time: int = 0,
) -> Event:
    data = {"action": name} | ({"run": run} if run else {})
    return Event("action", role=role, data=data, cause=cause, time=time)


def end(cause: int, *, role: str = "Ann", time: int = 0) -> Event:
    return Event("action_result", role=role, cause=cause, time=time)


def ways(run: Trajectory, role: str = "Ann") -> list[tuple[str | None, str | None, int]]:
    return [(way.source, way.target, way.count) for way in state_machines(run)[role].transitions]


class Outline(Action):
    async def run(self, history):
        return "outline"


class Chapter(Action):
    title: str

    async def run(self, history):
        return self.title


class Review(Action):
    async def run(self, history):
        return "fine"


class Writer(Role):
    actions = [Outline]

    async def _act(self):
        message = await super()._act()
        if isinstance(self.rc.todo, Outline):
            self.set_actions([Chapter("Clouds"), Chapter("Rain"), Chapter("Snow"), Review()])
        return message


async def test_a_role_that_swaps_its_list_shows_where_and_to_what() -> None:
    team = Team([Writer(name="Ann")])
    run = (await team.run("weather")).trajectory
    assert run.state_diagram("Ann") == (
        "stateDiagram-v2\n"
        '    state "Outline (1)" as s0\n'
        '    state "Chapter (3)" as s1\n'
        '    state "Review (1)" as s2\n'
        "    [*] --> s0 : 1\n"
        "    s0 --> s1 : 1, new list: 3 Chapter, Review\n"
        "    s1 --> s1 : 2\n"
        "    s1 --> s2 : 1\n"
        "    s2 --> [*] : 1\n"
    )


async def test_each_time_a_role_takes_something_up_it_comes_from_the_start() -> None:
    """Two roles that answer each other for four rounds: two runs of each."""
    ann = Role(name="Ann", actions=[Outline, Review], watch=[UserRequirement, Chapter])
    bob = Role(name="Bob", actions=[Chapter("Rain")], watch=[Review])
    run = (await Team([ann, bob]).run("weather", rounds=4)).trajectory
    assert ways(run) == [
        (None, "Outline", 2),
        ("Outline", "Review", 2),
        ("Review", None, 2),
    ]
    assert ways(run, "Bob") == [(None, "Chapter", 2), ("Chapter", None, 2)]


async def test_a_role_alone_that_runs_twice_has_two_ways_from_the_start() -> None:
    ann = Role(name="Ann", actions=[Outline, Review])
    await ann.run("weather")
    await ann.run("more weather")
    assert ways(ann.trajectory) == [
        (None, "Outline", 2),
        ("Outline", "Review", 2),
        ("Review", None, 2),
    ]


async def test_an_action_within_an_action_is_no_state() -> None:
    class Both(Action):
        async def run(self, history):
            await Outline()._bound(self.role).run(history)
            return await Review()._bound(self.role).run(history)

    run = (await Team([Role(name="Ann", actions=[Both, Review])]).run("weather")).trajectory
    assert ways(run) == [(None, "Both", 1), ("Both", "Review", 1), ("Review", None, 1)]


def test_what_runs_within_an_action_is_told_by_the_paths_of_runs() -> None:
    run = record(
        Event("message", role="user"),
        action("Outer", 0, run="1"),
        action("Inner", 1, run="1.1"),
        Event("tool_call", role="Ann", data={"tool": "shell"}, cause=2),
        Event("tool_result", role="Ann", cause=3),
        end(2),
        end(1),
        action("Next", 1, run="2"),  # the one before said nothing, so it is the cause
        end(7),
    )
    assert ways(run) == [(None, "Outer", 1), ("Outer", "Next", 1), ("Next", None, 1)]


def test_a_record_of_schema_version_1_shows_actions_one_after_the_other() -> None:
    """It numbers no runs and records no ends; what a tool does is within the action before it."""
    run = record(
        Event("message", role="user"),
        action("Plan", 0),
        Event("tool_call", role="Ann", data={"tool": "shell"}, cause=1),
        Event("tool_result", role="Ann", data={"ok": True}, cause=2),
        action("Build", 1),  # `Plan` said nothing, so it is the cause
        Event("error", role="Ann", cause=4),
    )
    assert ways(run) == [(None, "Plan", 1), ("Plan", "Build", 1), ("Build", None, 1)]
    assert outermost(run) == {0: None, 1: None, 2: 1, 3: 1, 4: None, 5: None}
    assert [state.failed for state in state_machines(run)["Ann"].states] == [0, 1]


async def test_the_tools_that_a_model_called_are_states() -> None:
    """Also those of an action that lets it call them, unlike calls that an action notes down."""

    @tool
    async def look(where: str) -> str:
        """Look somewhere."""
        if where == "up":
            raise ValueError("too bright")
        return "rain"

    class Note(Action):
        async def run(self, history):
            self.record_tool_call("barometer", {}, "low")
            return "noted"

    def calls(*places: str) -> Completion:
        made = [ToolCall(id=place, name="look", arguments={"where": place}) for place in places]
        return Completion(text="", tool_calls=made)

    ann = Role(name="Ann", actions=[UseTools, Note], tools=[look])
    model = ScriptedModel([calls("up", "out"), calls("down"), "It rains."])
    run = (await Team([ann], model=model).run("weather")).trajectory
    assert ways(run) == [
        (None, "UseTools", 1),
        ("UseTools", "look", 1),
        ("look", "look", 2),
        ("look", "UseTools", 1),  # which gives the answer
        ("UseTools", "Note", 1),
        ("Note", None, 1),
    ]
    assert '"look (3, 1 failed)"' in run.state_diagram("Ann")


def test_several_roles_make_one_diagram_in_which_each_has_its_own_states() -> None:
    """Mermaid takes one diagram at a time."""
    machines = state_machines(record(action("A"), action("B", role="Bob: two")))
    assert state_diagrams(machines.values()) == (
        "stateDiagram-v2\n"
        '    state "Ann" as r0 {\n'
        '        state "A (1)" as r0s0\n'
        "        [*] --> r0s0 : 1\n"
        "        r0s0 --> [*] : 1\n"
        "    }\n"
        '    state "Bob: two" as r1 {\n'
        '        state "B (1)" as r1s0\n'
        "        [*] --> r1s0 : 1\n"
        "        r1s0 --> [*] : 1\n"
        "    }\n"
    )


def test_tools_outside_of_actions_are_states() -> None:
    run = record(
        Event("message", role="user"),
        Event("model_call", role="Ann", cause=0),
        Event("tool_call", role="Ann", data={"tool": "read"}, cause=1),
        Event("tool_call", role="Ann", data={"tool": "write"}, cause=1),
        Event("tool_result", role="Ann", data={"ok": False}, cause=2),
        Event("tool_result", role="Ann", data={"ok": True}, cause=3),
    )
    machine = state_machines(run)["Ann"]
    assert [(s.name, s.entered, s.failed) for s in machine.states] == [
        ("read", 1, 1),
        ("write", 1, 0),
    ]
    assert ways(run) == [(None, "read", 1), ("read", "write", 1), ("write", None, 1)]


async def test_a_failed_action_says_so() -> None:
    class Burn(Action):
        async def run(self, history):
            raise ValueError("fire")

    team = Team([Role(name="Ann", actions=[Burn, Review])])
    with pytest.raises(ValueError, match="fire"):
        await team.run("weather")
    text = team.trajectory.state_diagram("Ann")
    assert 'state "Burn (1, 1 failed)"' in text
    assert 'state "Review (0)"' in text, "declared, never run"


def test_an_action_that_was_cut_off_leads_nowhere() -> None:
    """The process was killed while it ran: there is no way from it to the end."""
    first, second = action("A", 0, run="1"), action("B", 1, run="2")
    run = record(Event("message", role="user"), first, end(1), second)
    assert ways(run) == [(None, "A", 1), ("A", "B", 1)]


def test_swaps_to_different_lists_are_counted() -> None:
    def swap(*names: str) -> Event:
        return Event("action_swap", role="Ann", data={"actions": list(names)})

    run = record(action("A"), swap("A"), action("A"), swap("B"), action("A"), swap())
    (_, _, way, last) = run.state_diagram("Ann").splitlines()[-4:]
    assert way == "    s0 --> s0 : 2, 2 new lists"
    assert last == "    s0 --> [*] : 1, new list: empty"


def test_a_log_without_actions_shows_what_the_role_did() -> None:
    run = record(
        Event("thought", role="Ann", time=0),
        Event("message", role="Ann", to=("Bob",), time=1),
        Event("message", role="Bob", to=("<all>",), time=2),
        Event("tool_result", role="Bob", data={"tool": "shell", "ok": False}, time=3),
        Event("message", role="Ann", to=("Bob",), time=4),
    )
    assert ways(run) == [
        (None, "thinks", 1),
        ("thinks", "says to Bob", 1),
        ("says to Bob", "says to Bob", 1),
        ("says to Bob", None, 1),
    ]
    assert 'state "runs shell (1, 1 failed)"' in run.state_diagram("Bob")


def test_names_cannot_be_read_as_mermaid() -> None:
    """Its state diagrams know no escapes (11.12): what it could misread is shown full-width."""
    run = record(action('say "hi"; <b>a::b</b>: #34;'), action("two\nlines"))
    lines = run.state_diagram("Ann").splitlines()
    assert lines[1] == '    state "say ＂hi＂； ＜b＞a：：b＜/b＞: ＃34； (1)" as s0'  # noqa: RUF001
    assert lines[2] == '    state "two lines (1)" as s1'


def test_an_unknown_role_names_the_known_ones() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'Ann'"):
        record(action("A")).state_diagram("Anne")


PLAIN = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
LISTS = st.lists(PLAIN, max_size=2)
ANYTHING = PLAIN | LISTS | st.dictionaries(st.text(max_size=5), PLAIN | LISTS, max_size=2)
EVENTS = st.builds(
    Event,
    st.sampled_from(sorted(EVENT_KINDS)),
    role=st.sampled_from(["", "user", "Ann", 'B"; [*] --> s0', "漢\n字"]),
    to=st.lists(st.sampled_from(["<all>", "Ann"]), max_size=2).map(tuple),
    data=st.dictionaries(st.sampled_from(["action", "tool", "ok", "actions", "run"]), ANYTHING),
    cause=st.none() | st.integers(0, 12),
    time=st.integers(0, 3),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(EVENTS, max_size=12), st.dictionaries(st.just("roles"), ANYTHING))
def test_whatever_the_record_holds_the_diagram_is_well_formed(events, about) -> None:
    """Every line has one of three forms, and what goes into a state comes out of it again."""
    for seq, event in enumerate(events):
        event.cause = event.cause if event.cause is not None and event.cause < seq else None
    run = record(*events, **about)
    for role, machine in state_machines(run).items():
        head, *lines = run.state_diagram(role).splitlines()
        assert head == "stateDiagram-v2"
        for line in lines:
            assert re.fullmatch(
                r'    state "[^"#;<>&]+" as s\d+'
                r"|    (\[\*\]|s\d+) --> (\[\*\]|s\d+) : \d+(, ([^#;<>&:]|: )+)?",
                line,
            ), line
        for state in machine.states:
            went_in = sum(way.count for way in machine.transitions if way.target == state.name)
            went_out = sum(way.count for way in machine.transitions if way.source == state.name)
            assert went_in == state.entered
            assert went_out in (went_in, went_in - 1), "only the last may be cut off"


def test_ten_times_the_events_take_ten_times_as_long(growth: Any) -> None:
    def reads(count: int) -> Callable[[], object]:
        events = []
        for number in range(count):
            role = f"r{number % 5}"
            events += [
                action(
                    f"A{number % 7}", 3 * number - 1 if number else None, role=role, time=number
                ),
                end(3 * number, role=role, time=number),
                Event("message", role=role, cause=3 * number, to=("<all>",), time=number),
            ]
        run = record(*events)

        def work() -> None:
            assert len(state_machines(run)) == 5

        return work

    growth(reads, 500, 5_000, at_most=30)


async def test_drawing_changes_nothing() -> None:

    team = Team([Writer(name="Ann")])
    run = (await team.run("weather")).trajectory
    before = list(run.events)
    run.state_diagram("Ann"), run.role_table(), run.sequence_diagram()
    assert run.events == before
