"""Which answers to a maths problem are right: a table, by exact arithmetic and nothing else."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolecraft import Action, Role
from rolecraft.environments import Task
from rolecraft.environments.maths import MathsEnvironment
from rolecraft.roles.ready.answers import exact_value, final_answer, is_right
from rolecraft.roles.ready.units import UNITS, unit_of

RIGHT = [
    # what is said, what is right
    (r"\boxed{1234.5}", "1234.5"),
    (r"\boxed{1,234.50}", "1234.5"),
    (r"\boxed{1{,}234.5}", "2469/2"),
    (r"\boxed{12\,345}", "12345"),
    (r"\boxed{\frac{6}{8}}", "3/4"),
    (r"\boxed{\dfrac{3}{4}}", "0.75"),
    (r"\boxed{\frac34}", "0.75"),
    (r"\boxed{1\tfrac{3}{4}}", "7/4"),
    (r"\boxed{-\frac{3}{4}}", "-0.75"),
    (r"\boxed{\frac{-3}{4}}", "-0.75"),
    (r"\boxed{\frac{3}{-4}}", "-0.75"),
    (r"\boxed{\frac{1{,}000}{3}}", "1000/3"),
    (r"\boxed{0.\overline{3}}", "1/3"),
    (r"\boxed{0.1(6)}", "1/6"),
    (r"\boxed{1.2 \times 10^{3}}", "1200"),
    (r"\boxed{1.2 \cdot 10^{-3}}", "3/2500"),
    (r"\boxed{1.2e3}", "1200"),
    (r"\boxed{1.5\text{ million}}", "1500000"),
    (r"\boxed{x = 5}", "5"),
    (r"\boxed{3 \cdot 4 = 12}", "12"),
    (r"\boxed{90^\circ}", "90"),
    (r"\boxed{12 \text{ cm}^2}", "12"),
    (r"\boxed{\$12.50}", "12.5"),
    (r"\boxed{12.5\%}", "1/8"),
    (r"\boxed{ \left( \frac{3}{4} \right) }", "3/4"),
    ("**Answer:** 3 1/2 hours", "3.5"),
    ("So the answer is: 42.", "42"),
    ("16 eggs less 3 are 13.\n#### 13", "13"),
    (r"\boxed{None}", "None"),
    # units: the same value in another one, or a unit on one side only
    (r"\boxed{90 \text{ min}}", "1.5 hours"),
    (r"\boxed{1.5\text{ km}}", "1500 m"),
    (r"\boxed{36 km/h}", "10 m/s"),
    (r"\boxed{36 \text{ kilometres per hour}}", "10 m/s"),
    (r"\boxed{10000 \text{ cm}^2}", "1 m^2"),
    (r"\boxed{1 inch}", "2.54 cm"),
    (r"\boxed{1250 cents}", "$12.50"),
    (r"\boxed{\$12.50}", "12.5 dollars"),
    (r"\boxed{12 km}", "12"),
    (r"\boxed{12}", "12 km"),
    (r"\boxed{12 apples}", "12 pears"),
]
WRONG = [
    (r"\boxed{0.333}", "1/3"),
    (r"\boxed{0.333\ldots}", "1/3"),
    (r"\boxed{-5}", "5"),
    (r"\boxed{- -5}", "-5"),
    (r"\boxed{12 or 13}", "12"),
    (r"\boxed{x = 5, y = 6}", "6"),
    (r"\boxed{3\pi}", "3"),
    (r"\boxed{2\sqrt{3}}", "2"),
    (r"\boxed{\sqrt{4}}", "2"),
    (r"\boxed{5!}", "5"),
    (r"\boxed{|-5|}", "-5"),
    (r"\boxed{2^3}", "8"),
    (r"\boxed{4 + 5}", "9"),
    (r"\boxed{3*4}", "34"),
    (r"\boxed{3\,4}", "34"),
    (r"\boxed{5~6}", "56"),
    (r"\boxed{12k}", "12"),
    (r"\boxed{1.5 million}", "1.5"),
    (r"\boxed{12 hundred}", "12"),
    (r"\boxed{1/0}", "0"),
    (r"\boxed{1,5}", "1.5"),
    (r"\boxed{None}", "0"),
    (r"\boxed{0}", "None"),
    (r"\boxed{12 m}", "12 km"),
    (r"\boxed{12 kg}", "12 km"),
    (r"\boxed{12 m}", "12 m^2"),
    (r"\boxed{12 \text{ minutes}}", "12 h"),
    (r"\boxed{12 €}", "$12"),
    (r"\boxed{1.5}", "90 min"),
    (r"\boxed{__import__('os').getpid()}", "1"),
    ("I think 5", "5"),
]


async def correct(said: str, answer: str) -> bool:
    class Say(Action):
        """Say it."""

        async def run(self) -> str:
            return said

    task = Task("one", "How much?", {"answer": answer})
    role = Role(name="P", actions=[Say])
    trajectory = await MathsEnvironment(task, [role], answers="P").episode()
    (signal,) = (each for each in trajectory.signals if each.name == "answer.correct")
    return signal.value == 1.0


@pytest.mark.parametrize(("said", "answer"), RIGHT)
async def test_a_right_answer_is_right(said: str, answer: str) -> None:
    assert await correct(said, answer)


@pytest.mark.parametrize(("said", "answer"), WRONG)
async def test_any_other_is_wrong(said: str, answer: str) -> None:
    assert not await correct(said, answer)


@given(st.fractions(max_denominator=1000), st.sampled_from(sorted(UNITS)))
def test_a_value_is_equal_to_itself_in_every_unit_of_its_kind(value: Fraction, name: str) -> None:
    unit = UNITS[name]
    for other_name, other in UNITS.items():
        if other.dimension == unit.dimension:
            there = value * unit.factor / other.factor
            assert is_right(f"{there} {other_name}", f"{value} {name}"), (other_name, name)


def test_units_are_read_as_they_are_written() -> None:
    assert unit_of("km / h") == unit_of("kilometres per hour")
    assert unit_of("cm²") == unit_of("cm^2")
    assert unit_of("minutes") == unit_of("min.")
    assert unit_of("apples") is None
    assert unit_of("m per apple") is None
    assert unit_of("") is None


@given(st.text(alphabet=r"0123456789.,/-+ \frac{}()=^%$x", max_size=40))
def test_text_like_numbers_is_one_number_or_none_and_never_an_error(text: str) -> None:
    final_answer(text)
    value = exact_value(text)
    assert value is None or is_right(str(value), str(value))


@pytest.mark.parametrize(
    "text",
    [
        r"\boxed{" * 200_000,
        r"\boxed{" * 200_000 + "}" * 200_000,
        "the answer is" + " " * 400_000 + "\n",
        "answer: " * 200_000,
        "####" + "\t" * 400_000,
    ],
)
def test_an_answer_that_means_to_be_slow_to_read_is_read_at_once(text: str) -> None:
    """A megabyte each; where time grew with the square of it, none of these would ever end."""
    answer = final_answer(text)
    assert answer is None or exact_value(answer) is None
