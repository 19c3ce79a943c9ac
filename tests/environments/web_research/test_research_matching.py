"""Answers that are the same without anybody being asked, and those that are not."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rolecraft.environments.web_research.matching import matches, normalised, same


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("Jane Ballou", "jane  ballou."),
        ("The Battle of Hastings", "Battle of Hastings."),
        ("“Moss and Salt”", "Moss and Salt"),
        ("**Hedda Quill**", "Hedda Quill"),
        ("\uff2a\uff2f\uff2e\uff21\uff33 wray", "Jonas Wray"),
        ("506,000", "506000"),
        ("3/4", "0.75"),
        ("12.50", "12.5"),
        ("37 metres", "37 metres"),
        ("1,000 metres", "1000 metres."),
        ("\u0130stanbul", "\u0130STANBUL"),
        ("The", "the"),
        ("A Night in Kelm", "Night in Kelm"),
        ("“Winter of 1984”", "Winter of 1984"),
        ("5 m\N{SUPERSCRIPT TWO}", "5 m2"),
    ],
)
def test_the_same_answer_in_another_spelling(answer: str, expected: str) -> None:
    assert same(answer, expected)
    assert same(expected, answer)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("37 km", "37 metres"),
        ("37", "37 metres"),  # somebody has to be asked, or an alias say so
        ("5", "5 million"),
        ("$5", "€5"),
        ("12%", "12"),
        ("-5", "5"),
        ("not 5", "5"),
        ("5 or 6", "5"),
        ("Paris, London, Berlin", "Paris"),
        ("Paris or London", "Paris"),
        ("C", "C++"),
        ("C", "C#"),
        ("A*", "A"),
        ("not Paris", "Paris"),
        ("", "Paris"),
        ("...", "Paris"),
        ("1.5", "15"),
        ("1 5", "1.5"),
        ("1066 BC", "1066"),
        ("Cafe", "Café"),
        ("Vitamin", "Vitamin A"),
        ("Hepatitis virus", "hepatitis A virus"),
        ("105", "10\N{SUPERSCRIPT FIVE}"),
        ("102", "10\N{SUPERSCRIPT TWO}"),
        ("5'", '5"'),
        ("18", "18+"),
    ],
)
def test_what_could_be_another_answer_is_not_taken_for_the_same(answer: str, expected: str) -> None:
    assert not same(answer, expected)


def test_aliases_are_right_answers_too() -> None:
    assert matches("13 m.", ["13 metres", "13 m"]) == "13 m"
    assert matches("14 m", ["13 metres", "13 m"]) is None


@settings(deadline=None)
@given(st.text(max_size=80), st.text(max_size=80))
def test_equality_is_symmetric_and_every_answer_that_says_something_is_its_own(
    one: str, other: str
) -> None:
    assert same(one, other) == same(other, one)
    assert same(one, one) == bool(normalised(one))


@settings(deadline=None)
@given(st.integers(-10_000, 10_000), st.integers(-10_000, 10_000))
def test_numbers_are_the_same_only_with_the_same_value(one: int, other: int) -> None:
    assert same(f"{one:,}", str(other)) == (one == other)
