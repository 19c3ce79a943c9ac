"""Quotes: what can be quoted, and that nothing made up passes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolecraft.failure_taxonomy.evidence import excerpt, find_quote, quotable, verified
from rolecraft.trajectories import Artifact, Event, FailureFinding
from rolecraft.trajectories.codec import encode_event

EVENTS = {
    0: Event("message", role="ada", content="The  total\nis 42.", seq=0),
    1: Event("message", role="ben", content="I doubt it.", seq=1),
    2: Event("stop", data={"reason": "finished", "grade": 0.1}, seq=2),
}
FINDING = FailureFinding("repetition", "present", events=(0,), role="ada", quote="The total is")


@pytest.mark.parametrize(
    "event",
    [
        Event("action", role="a", data={"action": "Write", "index": 3, "fields": {"n": 1}}, seq=1),
        Event(
            "tool_call", role="a", data={"tool": "x", "arguments": {"q": "né"}, "id": "7"}, seq=1
        ),
        Event("artifact", role="a", artifact=Artifact("a.py", "0f"), seq=1),
        Event("stop", data={"reason": "idle", "rounds": 3}, seq=1),
    ],
)
def test_each_line_of_a_deed_stands_in_the_journal(event: Event) -> None:
    line = encode_event(event).decode()
    assert quotable(event)
    assert all(part in line for part in quotable(event).splitlines())
    assert excerpt(event) in line


@pytest.mark.parametrize(
    ("event", "quote"),
    [
        (Event("verify", content="no", data={"target": "x", "passed": False}), '"target":"x"'),
        (Event("artifact", content="x=1", artifact=Artifact("a.py", "0")), '"name":"a.py"'),
        (Event("action", content="go", data={"action": "W"}), '"action":"W"'),
        (Event("message", content=" no\n"), "no"),
        (Event("message", content="a" + 300 * " " + "b"), "a" + 300 * " " + "b"),
        (Event("message", content=" \n"), ""),
    ],
)
def test_an_excerpt_is_always_a_quote_that_holds(event: Event, quote: str) -> None:
    """Three letters of a longer text prove nothing, so then the deed is quoted."""
    assert excerpt(event) == quote
    assert not quote or find_quote(quote, quotable(event)) is not None


def test_labels_and_outcomes_in_an_event_cannot_be_quoted() -> None:
    event = Event("tool_result", role="a", content="5", data={"ok": True, "reward": 1.0}, seq=0)
    assert quotable(event) == "5"
    assert quotable(Event("signal", data={"name": "solved", "value": 1.0}, seq=0)) == ""
    assert "grade" not in quotable(EVENTS[2])


def test_a_quote_is_given_back_in_the_wording_of_the_event() -> None:
    held = verified(FINDING, EVENTS)
    assert isinstance(held, FailureFinding)
    assert held.quote == "The  total\nis"


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"events": ()}, "names no event"),
        ({"events": (9,)}, "names event 9, which does not exist"),
        ({"quote": ""}, "has no quote"),
        ({"quote": "The total was"}, "quotes what none of its events says"),
        ({"quote": "the total is"}, "quotes what none of its events says"),
        ({"quote": "The ... 42."}, "quotes what none of its events says"),
        ({"quote": "is"}, "quotes what none of its events says"),
        ({"role": "ben"}, "names the role 'ben', but 'ada' made the quoted event"),
        ({"role": ""}, "names the role '', but 'ada' made the quoted event"),
    ],
)
def test_evidence_that_does_not_hold_is_refused_with_the_reason(
    change: dict[str, object], fault: str
) -> None:
    assert verified(replace(FINDING, **change), EVENTS) == fault  # type: ignore[arg-type]


def test_an_absence_needs_a_place_and_no_quote() -> None:
    missing = FailureFinding("verification.absent", "present", events=(0,), role="ada")
    assert verified(missing, EVENTS) == missing
    assert verified(replace(missing, role="ben"), EVENTS) == (
        "names the role 'ben', which made none of its events"
    )
    assert verified(replace(missing, quote="made up"), EVENTS) == (
        "quotes what none of its events says"
    )


def test_an_absence_may_name_a_role_that_did_nothing_if_that_is_known() -> None:
    missing = FailureFinding("premature_end", "present", events=(1, 2), role="sol")
    assert verified(missing, EVENTS, silent={"sol"}) == missing
    quoted = replace(missing, quote="I doubt it.")
    assert verified(quoted, EVENTS, silent={"sol"}) == (
        "names the role 'sol', but 'ben' made the quoted event"
    )


def test_a_quote_must_stand_in_what_was_shown_of_the_event() -> None:
    assert isinstance(verified(FINDING, EVENTS, shown={0: ["The  total\nis"]}), FailureFinding)
    assert verified(FINDING, EVENTS, shown={0: ["total\nis 42."]}) == (
        "quotes what none of its events says"
    )


def test_what_nobody_made_may_be_laid_at_any_real_role() -> None:
    stop = FailureFinding("premature_end", "present", events=(2,), role="ben", quote="finished")
    assert isinstance(verified(stop, EVENTS), FailureFinding)
    assert isinstance(verified(replace(stop, role="nobody"), EVENTS), str)
    assert isinstance(verified(replace(stop, role=""), EVENTS), FailureFinding)


def test_a_short_quote_counts_only_as_the_whole_text() -> None:
    assert find_quote("b", "b") == "b"
    assert find_quote("b", "a b c") is None


@given(st.text(min_size=1), st.data())
def test_any_part_of_a_text_is_found_and_any_changed_one_is_not(
    text: str, data: st.DataObject
) -> None:
    """Corrupting one character of a quote always costs the finding."""
    at = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(at + 1, len(text)))
    quote = text[at:end]
    found = find_quote(quote, text)
    if found is not None:
        assert found in text
        assert found.split() == quote.split()
    elif len(quote.split()) > 0:
        assert sum(map(len, quote.split())) < 4
    spoilt = quote[:-1] + "\U0010fffd"
    if "\U0010fffd" not in text:
        assert find_quote(spoilt, text) is None


WORDS = st.text(st.sampled_from("abcdeé漢 \n\t.,;:'\"{}[]<>|\\0189\u00a0\u2060"), min_size=1)
TEXTS = st.lists(WORDS, min_size=1, max_size=4).map(" ".join)


@given(TEXTS, TEXTS, st.data())
def test_any_corruption_of_a_quote_drops_the_finding(
    text: str, other: str, data: st.DataObject
) -> None:
    """A character changed, put in, left out or moved; the case; words of another event; a gap.

    The check by another way: the words of the quote stand in the event one after the other.
    """
    event = Event("message", role="ada", content=text, seq=0)
    events = {0: event, 1: Event("message", role="ada", content=other, seq=1)}
    at = data.draw(st.integers(0, len(text) - 1))
    quote = text[at : data.draw(st.integers(at + 1, len(text)))]
    where = data.draw(st.integers(0, len(quote)))
    new = data.draw(st.characters())
    corrupted = data.draw(
        st.sampled_from(
            [
                quote[:where] + new + quote[where + 1 :],
                quote[:where] + new + quote[where:],
                quote[:where] + quote[where + 1 :],
                quote[where:] + quote[:where],
                quote[:where] + "..." + quote[where:],
                quote[:where] + " … " + quote[where + 3 :],
                quote.swapcase(),
                quote + quote,
                other,
                f'"{quote}"',
            ]
        )
    )
    finding = FailureFinding("derailment", "present", (0,), "ada", corrupted)
    held = verified(finding, events)
    words = corrupted.split()
    stands = " ".join(words) in " ".join(text.split())
    if isinstance(held, str):
        assert not stands or sum(map(len, words)) < 4
    else:
        assert stands
        assert held.quote in text
        assert held.quote.split() == words


@given(st.integers(-1, 4), st.sampled_from(["ada", "ben", "", "Ada", "ada ", "nobody", "user"]))
def test_any_other_event_and_any_other_role_drops_the_finding(seq: int, role: str) -> None:
    finding = FailureFinding("repetition", "present", (seq,), role, "The total is")
    held = verified(finding, EVENTS)
    assert isinstance(held, FailureFinding) == ((seq, role) == (0, "ada"))


def test_a_text_that_nearly_repeats_the_quote_is_no_trap(growth: Any) -> None:
    """Eight times the text and the quote take about eight times the time, not sixty-four."""

    def finds(size: int) -> Callable[[], object]:
        text = "a b\n" * 20 * size

        def work() -> None:
            assert find_quote("a b " * size + "c", text) is None

        return work

    growth(finds, 5_000, 40_000, at_most=24)


def test_quotes_of_json_escapes_are_those_of_the_text_not_of_the_journal() -> None:
    event = Event("tool_call", role="a", data={"tool": "t", "arguments": {"s": 'say "x"'}}, seq=0)
    assert json.dumps('say "x"') in quotable(event)
