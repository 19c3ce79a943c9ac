"""Near-JSON is mended in form and never in content."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolecraft.models.near_json import MOST_DEEP, NotJSON, json_values, mend, repair

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
TABLES = st.dictionaries(TEXTS, VALUES, min_size=1, max_size=4) | st.lists(VALUES, min_size=1)


def sloppy(value: Any, chance: random.Random) -> str:
    """`value` in near-JSON, each liberty taken by chance."""
    blank = chance.choice(["", "", " ", "\n", '  // a comment, [or] "so\n', " /* } */ "])
    match value:
        case dict() | list():
            if isinstance(value, dict):
                parts = [
                    f"{key(name, chance)}{blank}: {sloppy(inner, chance)}"
                    for name, inner in value.items()
                ]
            else:
                parts = [sloppy(inner, chance) for inner in value]
            last = chance.choice(["", ","]) if parts else ""
            opening, closing = "{}" if isinstance(value, dict) else "[]"
            return f"{opening}{blank}{f',{blank}'.join(parts)}{last}{blank}{closing}"
        case None | True | False:
            return chance.choice([repr(value), json.dumps(value)])
        case str():
            return text(value, chance)
    return json.dumps(value)


def key(name: str, chance: random.Random) -> str:
    if re.fullmatch(r"[A-Za-z_][\w-]*", name) and chance.random() < 0.5:
        return name
    return text(name, chance)


def text(value: str, chance: random.Random) -> str:
    inner = json.dumps(value, ensure_ascii=chance.random() < 0.5)[1:-1]
    if chance.random() < 0.5:  # raw line breaks
        inner = re.sub(r"(?<!\\)((?:\\\\)*)\\n", "\\1\n", inner)
    if chance.random() < 0.3:
        return "'" + inner.replace('\\"', '"').replace("'", "\\'") + "'"
    return f'"{inner}"'


@given(VALUES, st.randoms())
def test_what_is_json_comes_back_as_it_is(value: Any, chance: random.Random) -> None:
    written = json.dumps(value, ensure_ascii=chance.random() < 0.5, indent=chance.choice([None, 1]))
    assert repair(written) == written
    assert json_values(written) == [written]


@given(TABLES, st.randoms())
def test_mending_changes_no_value(value: Any, chance: random.Random) -> None:
    assert json.loads(repair(sloppy(value, chance))) == value


@given(TABLES, st.randoms())
def test_fences_and_words_around_a_value_are_not_part_of_it(
    value: Any, chance: random.Random
) -> None:
    near = sloppy(value, chance)
    around = chance.choice(
        [
            "```json\n{}\n```",
            "```\n{}\n```",
            "Here it is [as you asked] for {{name}}:\n\n{}\n\nGood luck!",
            "```json\n{}\n```\nDoes {{that}} help?",
            "<think>Perhaps {{'a': 1}}, or [2]?</think>\n{}",
        ]
    )
    found = json_values(around.replace("{{", "{").replace("}}", "}").replace("{}", near, 1))
    assert [json.loads(each) for each in found] == [value]


@given(st.text())
def test_mending_twice_is_mending_once(text: str) -> None:
    try:
        once = repair(text)
    except NotJSON:
        return
    assert repair(once) == once
    json.loads(once)


@given(TABLES, st.randoms(), st.integers(1))
def test_a_text_that_breaks_off_is_refused_or_lacks_its_end_only(
    value: Any, chance: random.Random, at: int
) -> None:
    """Whatever is read of a beginning is a beginning: no value is changed, none is made up."""
    near = sloppy(value, chance)
    try:
        (found,) = json_values(near[: 1 + at % len(near)])
    except (NotJSON, ValueError):
        return
    assert begins(json.loads(found), value)


def begins(part: Any, whole: Any) -> bool:
    if isinstance(whole, dict):
        names = list(whole)[: len(part)]
        last = names[-1:]
        return list(part) == names and all(
            begins(part[name], whole[name]) if [name] == last else part[name] == whole[name]
            for name in names
        )
    if isinstance(whole, list):
        return part[:-1] == whole[: len(part) - 1] and (
            not part or begins(part[-1], whole[len(part) - 1])
        )
    return bool(part == whole)


@given(st.text(alphabet="{}[]\",:'`\\ \n1eatrue/*-<>"))
def test_any_text_is_values_or_not_json(text: str) -> None:
    try:
        values = json_values(text)
    except NotJSON:
        return
    for value in values:
        json.loads(value)


@pytest.mark.parametrize(
    ("near", "meant"),
    [
        ('{"a": 1,}', {"a": 1}),
        ("{'a': 'it\\'s \"so\"'}", {"a": 'it\'s "so"'}),
        ("{a: None, b-c: True, 7: False}", {"a": None, "b-c": True, "7": False}),
        ('{"a": "one\ntwo\tthree"}', {"a": "one\ntwo\tthree"}),
        ('{“a”: “b”}', {"a": "b"}),
        ('{"a": [1, {"b": "c"}', {"a": [1, {"b": "c"}]}),
        (r'{"a": "\d+ C:\\x"}', {"a": r"\d+ C:\x"}),
        ('[1, // one\n 2 /* two */]', [1, 2]),
        ("True", True),
        ("```\n'red'\n```", "red"),
    ],
)  # fmt: skip
def test_what_is_mended(near: str, meant: object) -> None:
    assert json.loads(repair(near)) == meant


def test_numbers_are_copied_digit_by_digit() -> None:
    assert repair("{'a': 1.10000000000000000000000001, 'b': 1E400}") == (
        '{"a": 1.10000000000000000000000001, "b": 1E400}'
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"a":', "breaks off in `a`"),
        ('{"a": [1, 2', "breaks off in `a.1`"),  # 2, or 23?
        ('{"a": tru', "breaks off in `a`"),
        ('{"a": "b', "breaks off in `a`"),
        ('{"a": 1, ', "breaks off"),  # something was to follow
        ('{"a": "say "hi" now"}', "`,` or `}` is expected here"),
        ("{'a': 'it's'}", "`,` or `}` is expected here"),
        ('{"a": perhaps}', "in `a`: text in double quotes"),
        ('{"a": 10:30}', "`,` or `}` is expected here"),
        ('{"a": 007}', "in `a`"),
        ('{"a": 1_000}', "in `a`"),
        ('["a" "b"]', "`,` or `]` is expected here"),  # one text in Python
        ("[1,, 2]", "is expected here"),
        ("{'a': '\\x41'}", "is no escape of JSON"),
        ('{"a" 1}', "`:` is expected here"),
        ("[" * (MOST_DEEP + 1), "deep"),
    ],
)
def test_what_could_mean_two_things_is_refused(text: str, reason: str) -> None:
    with pytest.raises(NotJSON, match=re.escape(reason)):
        repair(text)
    with pytest.raises(NotJSON, match=re.escape(reason)):
        json_values(f"It is:\n{text}")


def test_of_a_reply_that_was_cut_off_not_even_brackets_are_added() -> None:
    assert json_values('{"a": ["b"') == ['{"a": ["b"]}']
    with pytest.raises(NotJSON, match="breaks off"):
        json_values('{"a": ["b"', cut=True)


def test_what_stands_behind_a_broken_value_may_be_part_of_it() -> None:
    """Else `{"c": 1}` would be the answer."""
    with pytest.raises(NotJSON):
        json_values('{"a": broken, "b": {"c": 1}}')


def test_a_value_in_a_fence_that_says_json_comes_before_any_other() -> None:
    reply = 'As [1] says, {"a": 0} is wrong.\n```json\n{"a": 1}\n```'
    assert json_values(reply) == ['{"a": 1}']


def test_a_fence_within_a_text_is_text() -> None:
    reply = '```json\n{"a": "```json\n{}\n```",\n}\n```'
    assert json_values(reply) == ['{"a": "```json\\n{}\\n```"}']


def test_a_reply_without_json_has_no_values() -> None:
    assert json_values("I would rather not.") == []
    assert json_values("") == []


@pytest.mark.parametrize(
    ("text", "mended"),
    [
        ('{"a": [1, "x"]}', ()),
        ('{"a": 1,}', ("trailing comma",)),
        ("[1, 2,\n]", ("trailing comma",)),
        ("{'a': True}", ("single quotes", "python literals")),
        ("{“a”: null}", ("curly quotes",)),
        ("{a: 1}", ("unquoted key",)),
        ('{"a": "x\ny\tz"}', ("raw newline", "raw control character")),
        ('{"a": {"b": [true', ("missing bracket", "missing brace")),
        ('{"a": 1 /* one */}', ("comment",)),
        ('{"a": "\\d"}', ("stray backslash",)),
        ('```json\n{"a": 1}\n```', ("code fence",)),
    ],
)
def test_what_was_mended_is_told_each_thing_once(text: str, mended: tuple[str, ...]) -> None:
    written, told = mend(text, whole=True)
    json.loads(written)
    assert told == mended


def test_a_number_at_the_end_has_all_its_digits_only_if_the_text_is_whole() -> None:
    assert mend('{"a": 12', whole=True) == ('{"a": 12}', ("missing brace",))
    with pytest.raises(NotJSON, match="breaks off"):
        mend('{"a": 12')


def test_blanks_in_a_fence_cost_no_more_than_their_length(growth: Any) -> None:
    """The pattern for a fence once tried each of them as the last; a second, for these."""

    def repairs(blanks: int) -> Callable[[], object]:
        text = "```json\n{" + " " * blanks + "}\n``"

        def work() -> None:
            with pytest.raises(NotJSON):
                repair(text)

        return work

    growth(repairs, 20_000, 160_000, at_most=30)
