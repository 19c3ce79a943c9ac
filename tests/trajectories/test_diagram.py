"""Sequence diagrams: who told whom what, in text that Mermaid reads whatever was said."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from rolecraft.messages import Message
from rolecraft.trajectories import Event, Recorder, Trajectory, sequence_diagram


def run_of(*messages: Message, roles: list[object] | None = None) -> Trajectory:
    run = Trajectory(about={"roles": roles} if roles else {})
    recorder = Recorder(run)
    for message in messages:
        recorder.add_message(message)
    return run


def say(text: str, sender: str, *to: str) -> Message:
    return Message(text, role=sender, sent_from=sender, **({"send_to": set(to)} if to else {}))


def test_arrows_go_from_sender_to_receivers_in_order() -> None:
    run = run_of(
        say("Write a game", "user", "Ann"),
        say("Done, check it", "Ann", "Bob", "Cy"),
        say("I go on", "Bob", "<self>"),
        say("Good", "Cy", "user"),
        roles=["Cy", {"name": "Bob", "actions": []}, "Ann"],
    )
    assert run.sequence_diagram() == (
        "sequenceDiagram\n"
        "    participant p0 as user\n"
        "    participant p1 as Cy\n"
        "    participant p2 as Bob\n"
        "    participant p3 as Ann\n"
        "    p0->>p3: Write a game\n"
        "    p3->>p2: Done, check it\n"
        "    p3->>p1: Done, check it\n"
        "    p2->>p2: I go on\n"
        "    p1->>p0: Good\n"
    )


def test_a_message_for_everyone_goes_to_those_who_took_it_up() -> None:
    """Which is seen from the causes of their actions, also through events in between."""
    run = Trajectory()
    recorder = Recorder(run)
    news = say("News", "Ann")
    recorder.add_message(news)
    recorder.add(Event("action", role="Bob", cause=news.event))
    thought = recorder.add(Event("thought", role="Cy", cause=news.event))
    call = recorder.add(Event("model_call", role="Cy", cause=thought))
    recorder.add(Event("action", role="Cy", cause=call))
    recorder.add(Event("action", role="Ann", cause=news.event))  # goes on with its own work
    unheard = say("Anyone?", "Bob")
    recorder.add_message(unheard)
    recorder.add_message(say("Noted", "Cy", "<none>"))
    recorder.add_message(say("To the class", "Cy", "app.actions.Review"))
    assert run.sequence_diagram() == (
        "sequenceDiagram\n"
        "    participant p0 as Ann\n"
        "    participant p1 as Bob\n"
        "    participant p2 as Cy\n"
        "    p0->>p1: News\n"
        "    p0->>p2: News\n"
        "    Note over p1: to everyone: Anyone?\n"
        "    Note over p2: to nobody: Noted\n"
        "    Note over p2: to app.actions.Review: To the class\n"
    )


def test_a_class_address_leads_to_the_role_that_took_the_message_up() -> None:
    run = Trajectory()
    recorder = Recorder(run)
    message = say("Please review", "Ann", "app.actions.Review")
    recorder.add_message(message)
    recorder.add(Event("action", role="Bob", cause=message.event))
    assert "    p0->>p1: Please review\n" in run.sequence_diagram()


def test_long_labels_are_cut_and_line_ends_become_spaces() -> None:
    run = run_of(say("one\n two\r\n\tthree " + "x" * 100, "A", "B"), say(" \n ", "A", "B"))
    assert run.sequence_diagram(width=20).splitlines()[-2:] == [
        "    p0->>p1: one two three xxxxx…",
        "    p0->>p1: (empty)",
    ]


def test_no_messages_is_an_empty_diagram() -> None:
    assert sequence_diagram(Trajectory()) == "sequenceDiagram\n"


LINE = re.compile(
    r"sequenceDiagram|"
    r"    participant p\d+ as (?P<name>.+)|"
    r"    p\d+->>p\d+: (?P<said>.+)|"
    r"    Note over p\d+: (?P<noted>.+)"
)
# What Mermaid 11 gives a meaning in text: statement ends, comments, directives, HTML, entities,
# `wrap:`. (1,500 diagrams of such texts were parsed by Mermaid 11.17.2 when this was written.)
MEANINGFUL = re.compile(r'[;#:%{}<>&"`|~^$\\\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfffﬂ°¶ß]')
tricky = st.lists(
    st.sampled_from(
        ["end", "wrap:", "note over", "%%{init: {}}%%", "%% x", "#", "#quot;", "&lt;", ";", "\n",
         "\u2028", "<b>", "->>", "A->>B: x", ":", '"', "`", "\\n", "ﬂ°°59¶ß", "\ud800", "\0", "é",
         "🎉"]
    )
    | st.text(st.characters(), max_size=8),
    max_size=8,
).map(" ".join)  # fmt: skip


@given(tricky, tricky)
@settings(deadline=None)
def test_no_text_can_break_out_of_its_label(text: str, name: str) -> None:
    name = name or "x"
    drawn = run_of(say(text, name, "B"), say(text, "B"), roles=[name]).sequence_diagram(width=500)
    seen = []
    for line in drawn.removesuffix("\n").split("\n"):
        match = LINE.fullmatch(line)
        assert match, line
        seen += [value for value in match.groups() if value is not None]
    for value in seen:
        assert not MEANINGFUL.search(re.sub(r"#\d+;", "", value.replace("to everyone: ", ""))), (
            value
        )
    shown = html.unescape(re.sub(r"#(\d+);", r"&#\1;", seen[-1]))
    expected = "".join(c if c.isprintable() else "\ufffd" for c in " ".join(text.split()))
    assert shown == "to everyone: " + (expected or "(empty)"), "a reader sees what was said"


def test_a_diagram_of_ten_times_the_messages_takes_ten_times_as_long(
    growth: Any,
) -> None:
    def draws(count: int) -> Callable[[], object]:
        run = Trajectory()
        recorder = Recorder(run)
        for number in range(count):
            message = say(f"message {number}; " * 10, f"r{number % 5}")
            recorder.add_message(message)
            recorder.add(Event("action", role=f"r{(number + 1) % 5}", cause=message.event))

        def work() -> None:
            assert run.sequence_diagram().count("->>") == count

        return work

    growth(draws, 300, 3_000, at_most=30)
