"""Sequence diagrams: who says what to whom stands where it should."""

from __future__ import annotations

import re

from rolecraft import Action, FunctionModel, Message, Role, Team
from rolecraft.trajectories import Event, FailureFinding, Trajectory
from rolecraft.viewer.reading import participants, steps
from rolecraft.viewer.sequence import sequence_diagram


class Write(Action):
    async def run(self, history):
        return await self.ask("Write.")


class Check(Action):
    async def run(self, history):
        return Message("Good.", send_to="Writer")


async def newsroom() -> Trajectory:
    writer = Role(name="Writer", actions=[Write])
    editor = Role(name="Editor", actions=[Check], watch=[Write])
    reader = Role(name="Reader", actions=[], watch=[])
    team = Team([writer, editor, reader], model=FunctionModel(lambda call: "Rain."))
    return (await team.run("Weather", rounds=2)).trajectory


async def test_a_message_for_everyone_goes_to_those_who_watch_for_it():
    said = [step for step in steps(await newsroom()) if step.kind == "message"]
    assert [(s.role, s.receivers, s.text) for s in said] == [
        ("user", ("Writer",), "Weather"),
        ("Writer", ("Editor",), "Rain."),
        ("Editor", ("Writer",), "Good."),
    ]


def test_a_message_that_nobody_watches_for_says_so():
    about = {"roles": [{"name": "A", "watch": ["x"]}, {"name": "B", "watch": ["y"]}]}
    event = Event("message", role="A", content="hi", to=("<all>",), data={"cause_by": "z"}, seq=0)
    (step,) = steps(Trajectory("t", about, [event]))
    assert step.receivers == ()
    assert "no other role listens" in step.label


def test_an_imported_log_without_a_header_claims_nothing_about_listeners():
    event = Event("message", role="A", content="hi", to=("<all>",), seq=0)
    (step,) = steps(Trajectory("t", {}, [event]))
    assert step.label == "says to everyone"


def test_a_receiver_given_by_its_class_is_shown_by_its_name():
    about = {"roles": [{"name": "Ann", "class": "app.Writer", "watch": []}]}
    event = Event("message", role="user", content="hi", to=("app.Writer",), seq=0)
    assert steps(Trajectory("t", about, [event]))[0].receivers == ("Ann",)


async def test_the_user_has_the_first_lane():
    assert participants(steps(await newsroom())) == ["user", "Writer", "Editor"]


async def test_arrows_run_from_lane_to_lane(read_html):
    """With three lanes their lines stand at 16.7%, 50% and 83.3% of the width."""
    html = sequence_diagram(await newsroom())
    read_html(html)
    shafts = re.findall(r'<u style="left:([\d.]+)%;width:([\d.]+)%">', html)
    assert shafts == [("16.667", "33.333"), ("50.000", "33.333"), ("50.000", "33.333")]
    heads = re.findall(r'<i class="(right|left)" style="left:([\d.]+)%">', html)
    assert heads == [("right", "50.000"), ("right", "83.333"), ("left", "50.000")]


async def test_failures_are_marked_at_their_events_and_only_if_present(read_html):
    trajectory = await newsroom()
    findings = [
        FailureFinding("derailment", "present", events=(2, 3), role="Writer"),
        FailureFinding("reset", "absent", events=(2,)),
        FailureFinding("task_spec", "unknown", events=(2,)),
    ]
    html = sequence_diagram(trajectory, findings)
    assert re.findall(r"<mark[^>]*>([^<]*)</mark>", html) == ["derailment", "derailment"]
    assert 'class="failed ' in html


async def test_steps_that_are_not_drawn_are_counted():
    trajectory = await newsroom()
    html = sequence_diagram(trajectory, max_steps=3)
    assert f"{len(trajectory.events) - 3} more events are not drawn" in html
    assert html.count('class="seq"') == 3


def test_a_long_text_folds_away_and_is_still_whole(read_html):
    text = "word " * 1000
    event = Event("message", role="A", content=text, to=("B",), seq=0)
    html = sequence_diagram(Trajectory("t", {}, [event]))
    assert "<details>" in html
    assert text in read_html(html).text


def long_run(messages: int) -> Trajectory:
    events = []
    for number in range(messages):
        events.append(Event("action", role="A", data={"action": "Write"}, seq=3 * number))
        events.append(Event("action_result", role="A", cause=3 * number, seq=3 * number + 1))
        said = Event("message", role="A", content=f"m{number}", to=("B",), seq=3 * number + 2)
        events.append(said)
    return Trajectory("t", {}, events)


def test_a_long_run_is_shown_with_its_messages_only_at_first(read_html):
    """A box without a script: ticked, the style sheet hides what is no message."""
    assert "checked>" not in sequence_diagram(long_run(10))
    html = sequence_diagram(long_run(1000))
    read_html(html)
    assert "checked>" in html
    assert "only the 1,000 messages of 2,000 steps" in html


def test_the_end_of_an_action_is_drawn_only_where_it_says_something_new():
    """What came of it is in the message that follows; a cancellation is nowhere else."""
    run = long_run(1)
    assert "is done" not in sequence_diagram(run)
    finding = FailureFinding("derailment", "present", events=(1,))
    assert "is done" in sequence_diagram(run, [finding])
    run.events[1].data["cancelled"] = True
    assert "was cancelled" in sequence_diagram(run)


def test_an_empty_trajectory_is_said_to_be_empty():
    assert "no events" in sequence_diagram(Trajectory("t"))
