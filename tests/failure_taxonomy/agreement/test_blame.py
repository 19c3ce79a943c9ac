"""Attribution: the agent and the step, as exact integers, beside what people reach."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rolecraft.failure_taxonomy.agreement.blame import Attribution, attribution, ceiling
from rolecraft.failure_taxonomy.agreement.raters import by_trace
from rolecraft.failure_taxonomy.labels import Labels

Says = Callable[..., Labels]
Blamed = tuple[str, int | None] | None


def score(says: Says, *cases: tuple[Blamed, Blamed], index_base: int = 0) -> Attribution | None:
    pairs = [
        (says("gold", str(i), gold), says("bot", str(i), said))
        for i, (gold, said) in enumerate(cases)
    ]
    return attribution(pairs, index_base=index_base, resamples=100, seed=0)


def test_1_is_not_10(says: Says) -> None:
    """The published scorer looks for one number within the other."""
    found = score(says, (("a", 1), ("a", 10)), (("a", 10), ("a", 1)), (("a", 1), ("a", 1)))
    assert found is not None
    assert (found.step.hits, found.step.n, found.agent.hits) == (1, 3, 3)


def test_a_name_within_another_is_another(says: Says) -> None:
    found = score(says, (("Expert", 0), ("Data_Expert", 0)), (("Expert", 0), ("Expert ", 0)))
    assert found is not None
    assert (found.agent.hits, found.step.hits, found.both.hits) == (1, 2, 1)


def test_capitals_and_spaces_make_no_other_name(says: Says) -> None:
    found = score(
        says,
        (("Data Expert", 0), ("data  expert ", 0)),
        (("Data Expert", 0), ("DataExpert", 0)),
    )
    assert found is not None
    assert (found.agent.hits, found.agent.n) == (1, 2)


def test_one_off_is_near_and_nothing_said_is_wrong(says: Says) -> None:
    found = score(
        says,
        (("a", 5), ("b", 6)),
        (("a", 5), ("a", 4)),
        (("a", 5), ("a", 7)),
        (("a", 5), None),
        (None, ("a", 5)),
    )
    assert found is not None
    assert [(s.hits, s.n) for s in (found.agent, found.step, found.near, found.both)] == [
        (2, 4),
        (0, 4),
        (2, 4),
        (0, 4),
    ]
    assert found.unsaid == 1
    low, high = found.agent.interval or (None, None)
    assert low is not None
    assert low <= 0.5 <= high


def test_steps_are_read_in_both_bases(says: Says) -> None:
    """A predictor that counts from 1 is off by one everywhere."""
    cases = ((("a", 0), ("a", 1)), (("a", 4), ("a", 5)), (("a", 9), ("a", 9)))
    zero, one = score(says, *cases), score(says, *cases, index_base=1)
    assert zero is not None
    assert one is not None
    assert (zero.step.hits, zero.other_base.hits) == (1, 2)
    assert (one.step.hits, one.other_base.hits) == (2, 1)
    assert (one.index_base, one.both.hits) == (1, 2)


def test_a_gold_that_blames_only_an_agent_says_nothing_of_steps(says: Says) -> None:
    found = score(says, (("a", None), ("a", 3)), (("", 2), ("b", 2)))
    assert found is not None
    assert [(s.hits, s.n) for s in (found.agent, found.step, found.both)] == [
        (1, 1),
        (1, 1),
        (0, 0),
    ]
    assert found.both.value is None
    assert score(says, (None, ("a", 1))) is None


def test_the_ceiling_is_how_far_people_agree(says: Says) -> None:
    rows = [
        says("ada", "1", ("a", 3)), says("bob", "1", ("a", 4)), says("eve", "1", ("b", 4)),
        says("ada", "2", ("a", 7)), says("bob", "2", ("a", 7)),
        says("ada", "3", ("a", 7)), says("bob", "3"),
    ]  # fmt: skip
    found = ceiling(by_trace(rows), resamples=50, seed=0)
    assert found is not None
    assert [(s.hits, s.n) for s in (found.agent, found.step, found.near)] == [
        (2, 4),
        (2, 4),
        (4, 4),
    ]
    assert found.near.value == pytest.approx(1.0)
    assert ceiling(by_trace(rows[-2:]), resamples=50, seed=0) is None
