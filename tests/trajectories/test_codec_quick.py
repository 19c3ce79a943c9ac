"""Events are encoded on a quick way and a slow one; both give the same bytes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rolecraft.trajectories.codec import encode_event, encode_line, event_members
from rolecraft.trajectories.events import Artifact, Event, TokenSpan, Usage

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
# What programs put into events although JSON has no such thing.
STRANGE = st.sampled_from([{1, 2}, (1, "a"), b"bytes", object, 10**5000, {1: "key"}, {None: 1}])
EVENTS = st.builds(
    Event,
    st.sampled_from(["message", "action", "model_call", 'no "kind"\n']),
    role=st.text(),
    content=st.text(st.characters(exclude_categories=[])),  # lone surrogates too
    to=st.lists(st.text(), max_size=3).map(tuple),
    data=st.dictionaries(st.text(), JSON | STRANGE, max_size=4),
    cause=st.none() | st.integers(0, 9),
    time=st.integers(0, 9),
    usage=st.none()
    | st.builds(Usage, st.integers(0), st.integers(0), st.none() | st.floats(0), st.integers(0)),
    artifact=st.none() | st.builds(Artifact, st.text(), st.text()),
    tokens=st.none()
    | st.builds(
        TokenSpan,
        st.text(),
        st.integers(0),
        st.lists(st.integers(0), max_size=3),
        st.lists(st.integers(0), max_size=3),
        st.lists(st.floats(), max_size=3),
    ),
    seq=st.integers(0, 9),
)


@settings(deadline=None)
@given(EVENTS)
def test_both_ways_give_the_same_bytes(event: Event) -> None:
    assert encode_event(event) == encode_line(event_members(event))


@pytest.mark.parametrize("wrong", ["7", 7.5, "}", None])
def test_a_number_that_is_none_never_breaks_the_line(wrong: Any) -> None:
    """A program that sets `event.time` to nonsense gets a line that is still JSON."""
    event = Event("message", time=wrong)
    assert encode_event(event) == encode_line(event_members(event))
