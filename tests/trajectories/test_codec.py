"""Events as JSON lines: what goes in comes out, and every line is JSON that strict parsers read."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from rolecraft.trajectories import (
    Artifact,
    Event,
    FailureFinding,
    Signal,
    TokenSpan,
    Trajectory,
    Usage,
    load,
    save,
    signal_event,
)
from rolecraft.trajectories.codec import (
    decode_event,
    decode_finding,
    encode_event,
    encode_finding,
    encode_line,
    parse_line,
)
from rolecraft.trajectories.events import EVENT_KINDS


def whole(text: str) -> str:
    """Text with two surrogate halves in a row joined to the character that they mean."""
    return re.sub(
        "[\ud800-\udbff][\udc00-\udfff]",
        lambda pair: pair[0].encode("utf-16", "surrogatepass").decode("utf-16"),
        text,
    )


# Any character at all: NUL, line ends of every kind, lone surrogates.
texts = st.text(st.characters(), max_size=30).map(whole)
numbers = st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | numbers | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
tokens = st.lists(st.integers(0, 2**31), max_size=6)
any_floats = st.floats()  # log-probabilities may be NaN or infinite
counts = st.integers(0, 2**40)
spans = st.builds(
    TokenSpan,
    session=texts,
    start=counts,
    given=tokens,
    sampled=tokens,
    logprobs=st.lists(any_floats, max_size=6),
    version=counts,
    temperature=any_floats,
    support=st.none() | st.lists(st.none() | tokens, max_size=4),
)
plain_events = st.builds(
    Event,
    kind=st.sampled_from(sorted(EVENT_KINDS - {"signal"})),
    role=texts,
    content=texts,
    to=st.lists(texts, max_size=3).map(tuple),
    data=st.dictionaries(texts, values, max_size=4),
    time=counts,
    usage=st.none() | st.builds(Usage, counts, counts, st.none() | any_floats, counts),
    artifact=st.none() | st.builds(Artifact, texts, texts),
    tokens=st.none() | spans,
)
signals = st.builds(
    Signal, name=texts, value=any_floats, unit=texts, source=texts, cost=st.none() | any_floats
)
events = plain_events | signals.map(signal_event)


@given(st.lists(events, max_size=6), texts, st.dictionaries(texts, values, max_size=3))
@settings(max_examples=300, deadline=None)
def test_what_is_saved_is_loaded_again(
    tmp_path_factory: pytest.TempPathFactory, some: list[Event], name: str, about: dict[str, Any]
) -> None:
    """Any text, any numbers, every field: events, id and `about` come back equal."""
    for taken in ("trajectory", "schema_version"):
        about.pop(taken, None)
    for seq, event in enumerate(some):
        event.seq = seq
        event.cause = seq - 1 if seq % 2 else None
    path = tmp_path_factory.getbasetemp() / "round-trip.jsonl"
    save(Trajectory(name, about, some), path)
    again = load(path)
    assert again.problems == []
    # repr, because NaN is not equal to itself
    assert repr((again.id, again.about, again.events)) == repr((name, about, some))


@given(events)
@settings(deadline=None)
def test_every_line_is_one_line_of_strict_json(event: Event) -> None:
    event.seq = 0
    line = encode_event(event)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    line.decode("utf-8")

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    json.loads(line, parse_constant=refuse)


@given(st.builds(
    FailureFinding,
    mode=texts,
    verdict=st.sampled_from(["present", "absent", "unknown"]),
    events=st.lists(counts, max_size=3).map(tuple),
    role=texts,
    quote=texts,
    confidence=st.none() | numbers,
    source=texts,
    reason=texts,
))  # fmt: skip
@settings(deadline=None)
def test_a_finding_comes_back_equal(finding: FailureFinding) -> None:
    assert decode_finding(parse_line(encode_finding(finding))) == finding


def test_numbers_that_json_lacks_are_strings_and_come_back_where_a_number_is_due() -> None:
    span = TokenSpan("s", 0, [1], [2, 3], [-math.inf, math.nan])
    event = Event("model_call", data={"odds": math.nan}, tokens=span, seq=0)
    line = encode_event(event)
    assert b'"logprobs":["-Infinity","NaN"]' in line
    again = decode_event(parse_line(line))
    assert again.tokens is not None
    assert again.tokens.logprobs[0] == -math.inf
    assert math.isnan(again.tokens.logprobs[1])
    assert again.data == {"odds": "NaN"}, "`data` has no types: there it stays a string"


def test_two_halves_of_a_character_come_back_as_the_character() -> None:
    event = Event("message", content="\ud83d\ude00 and \ud83d alone", seq=0)
    assert decode_event(parse_line(encode_event(event))).content == "😀 and \ud83d alone"


@dataclass
class Point:
    x: int


class Chapter(BaseModel):
    title: str


class Opaque:
    pass


class Numbers:
    """Stands for what numpy and torch have: `tolist`."""

    def tolist(self) -> list[float]:
        return [0.5, math.inf]


CIRCLE: dict[str, Any] = {}
CIRCLE["self"] = [CIRCLE]


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ({"b", "a", "c"}, ["a", "b", "c"]),
        (frozenset({(2, "y"), (1, "x")}), [[1, "x"], [2, "y"]]),
        ((1, 2), [1, 2]),
        (b"caf\xc3\xa9 \xff", "café \\xff"),
        (Point(3), {"x": 3}),
        (Chapter(title="Rain"), {"title": "Rain"}),
        (Numbers(), [0.5, "Infinity"]),
        (Opaque, f"{__name__}.Opaque"),
        ({(1, 2): "pair", None: 0, 1.5: ""}, {"[1, 2]": "pair", "null": 0, "1.5": ""}),
        (2**20_000, hex(2**20_000)),
        (CIRCLE, {"self": ["<circular>"]}),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_what_json_lacks_is_written_as_the_nearest_thing_it_has(value: Any, written: Any) -> None:
    assert json.loads(encode_line({"value": value})) == {"value": written}


def test_the_same_program_writes_the_same_bytes_in_every_process() -> None:
    """Sets have another order, objects another address in each process; lines must not show it."""
    program = """
from rolecraft.trajectories.codec import encode_line
import sys
class Thing: pass
data = {"set": set("abcdefgh"), "things": [Thing(), Thing().__init__]}
sys.stdout.buffer.write(encode_line(data))
"""
    lines = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            check=True,
        ).stdout
        for seed in "123"
    }
    assert len(lines) == 1
    assert b"0x" not in lines.pop()


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"kind": "massage"}, "`kind` is 'massage'"),
        ({"kind": ["stop"]}, "`kind` is ['stop']"),
        ({"seq": -1}, "`seq` is -1"),
        ({"seq": True}, "`seq` is True"),
        ({"seq": 2**60}, "`seq` is"),
        ({"cause": 5}, "`cause` is 5, expected the `seq` of an event before 5"),
        ({"cause": -1}, "`cause` is -1"),
        ({"content": 7}, "`content` is 7"),
        ({"to": "everyone"}, "`to` is 'everyone'"),
        ({"data": []}, "`data` is []"),
        ({"time": -1}, "`time` is -1"),
        ({"usage": {"tokens": 3}}, "`usage` is {'tokens': 3}"),
        ({"usage": {"calls": "many"}}, "`usage.calls` is 'many'"),
        ({"tokens": {"session": "s"}}, "`tokens.start`"),
        ({"kind": "signal"}, "`name`"),
        ({"kind": "signal", "data": {"name": "n", "value": "high"}}, "`value` is 'high'"),
        ({"kind": "signal", "data": {"name": "n", "value": 1, "role": "A"}}, "expected ["),
    ],
    ids=str,
)
def test_a_line_that_is_no_event_says_why(wrong: dict[str, Any], reason: str) -> None:
    record = {"kind": "stop", "seq": 5, **wrong}
    with pytest.raises(ValueError, match=re.escape(reason)) as caught:
        decode_event(record)
    assert "\n" not in str(caught.value), "reasons are one line each"


def test_tokens_of_older_journals_are_read_with_what_they_lack_at_its_default() -> None:
    old = {"session": "s", "start": 0, "given": [1], "sampled": [2], "logprobs": [-0.5]}
    event = decode_event({"seq": 0, "kind": "model_call", "tokens": old})
    assert event.tokens == TokenSpan("s", 0, [1], [2], [-0.5])
    assert (event.tokens.top_p, event.tokens.adapter, event.tokens.rewrite) == (1.0, "", "")


def test_how_tokens_were_sampled_comes_back() -> None:
    span = TokenSpan("s", 0, [1], [2], [-0.5], 3, 0.7, None, 0.9, "planner@3", "text dropped")
    event = Event("model_call", tokens=span, seq=0)
    assert decode_event(parse_line(encode_event(event))).tokens == span
