"""Reading answers: exactly, and never in one of two ways."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolecraft.roles.ready.answers import exact_value, final_answer, is_right

WRITTEN = [
    ("12", 12),
    ("-5", -5),
    ("−5", -5),  # noqa: RUF001 (typographic minus)
    ("+5", 5),
    ("1,234,567.50", Fraction("1234567.5")),
    ("1{,}234", 1234),
    (".5", Fraction(1, 2)),
    ("about 5.", 5),
    ("3/4", Fraction(3, 4)),
    ("-3/4", Fraction(-3, 4)),
    ("1 3/4", Fraction(7, 4)),
    ("- 1 1/2", Fraction(-3, 2)),
    ("3/4 of an hour", Fraction(3, 4)),
    (r"\frac{3}{4}", Fraction(3, 4)),
    (r"1\dfrac{3}{4}", Fraction(7, 4)),
    (r"$\frac34$", Fraction(3, 4)),
    ("¾", Fraction(3, 4)),
    ("2⅓", Fraction(7, 3)),
    ("12.5%", Fraction(1, 8)),
    (r"12.5\%", Fraction(1, 8)),
    ("12.5 per cent", Fraction(1, 8)),
    ("1.2e3", 1200),
    ("x = 5", 5),
    (r"\$1{,}234.50", Fraction("1234.5")),
    ("12.50 €", Fraction("12.5")),
    (r"\text{12 apples}", 12),
    ("**42**", 42),
]
IN_NO_ONE_WAY = [
    "",
    "no idea",
    "12 or 13",
    "5 dollars and 20 cents",
    "12,34",  # a comma that parts no thousands
    "1 234",
    "1.2.3",
    "0.333...",
    "1/3 ≈ 0.33",
    "1/2/3",
    "2^3",
    "3:1",
    "7 m2",
    "A4",
    "0/0",
    "9" * 500,
]


@pytest.mark.parametrize(("text", "value"), WRITTEN)
def test_numbers_are_read_as_they_are_written(text: str, value: Fraction) -> None:
    assert exact_value(text) == value


@pytest.mark.parametrize("text", IN_NO_ONE_WAY)
def test_what_could_be_read_in_two_ways_is_read_in_none(text: str) -> None:
    assert exact_value(text) is None


@given(st.fractions(max_denominator=10**6))
def test_every_fraction_is_read_back_from_each_way_to_write_it(value: Fraction) -> None:
    sign, top, bottom = "-" * (value < 0), abs(value.numerator), value.denominator
    assert exact_value(str(value)) == value
    assert exact_value(rf"{sign}\frac{{{top}}}{{{bottom}}}") == value
    assert exact_value(f"{sign}{top // bottom} {top % bottom}/{bottom} hours") == value


@given(st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**9)))
def test_every_decimal_is_read_exactly_with_and_without_thousands(value) -> None:
    assert exact_value(f"{value:f}") == exact_value(f"{value:,f}") == Fraction(value)


@given(st.text())
def test_any_text_is_a_number_or_none_and_never_an_error(text: str) -> None:
    final_answer(text)
    assert exact_value(text) is None or isinstance(exact_value(text), Fraction)


def test_a_percentage_is_right_with_its_sign_as_a_share_and_where_asked_for_without() -> None:
    assert is_right("12.5%", "25/2%")
    assert is_right("12.5", "25/2%")
    assert is_right("0.125", "25/2%")
    assert not is_right("12.5%", "25/2")
    assert is_right("12.5", "25/2")
    assert not is_right("0.333", "1/3"), "nothing is rounded"
    assert not is_right("I do not know", "1/3")


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"First \boxed{12}, no: \boxed{\frac{1}{2}}.", r"\frac{1}{2}"),
        ("The answer is 5.\nNo, the answer is 6.", "6."),
        ("**Final answer:** 7/8", "7/8"),
        ("Answer = 4", "4"),
        (r"The answer is 5, so \boxed{6}", "6"),
        (r"\boxed{3", None),
        ("The answer was wrong: 5", None),
        ("We get 5", None),
    ],
)
def test_a_final_answer_is_one_that_the_text_commits_itself_to(
    text: str, answer: str | None
) -> None:
    assert final_answer(text) == answer
