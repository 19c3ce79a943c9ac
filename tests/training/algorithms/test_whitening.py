"""Whitening over the actions of a batch."""

from __future__ import annotations

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolecraft.errors import UsageError
from rolecraft.training.algorithms.advantages import group_advantages
from rolecraft.training.algorithms.whitening import whiten

batches = st.lists(
    st.lists(st.tuples(st.floats(-10, 10), st.booleans()), max_size=5), min_size=1, max_size=5
)


def split(
    batch: list[list[tuple[float, bool]]],
) -> tuple[list[list[float]], list[list[bool]]]:
    return [[value for value, _ in row] for row in batch], [[a for _, a in row] for row in batch]


def of_actions(rows: list[list[float]], masks: list[list[bool]]) -> list[float]:
    pairs = [
        (v, a) for row, m in zip(rows, masks, strict=True) for v, a in zip(row, m, strict=True)
    ]
    assert not any(value for value, action in pairs if not action)
    return [value for value, action in pairs if action]


@given(batches)
def test_actions_get_mean_0_and_spread_1(batch: list[list[tuple[float, bool]]]) -> None:
    values, masks = split(batch)
    white = of_actions(whiten(values, masks, centre=True), masks)
    before = [v for row in batch for v, action in row if action]
    if len(set(before)) < 2:
        assert not any(white)
    elif statistics.stdev(before) > 1e-2:
        assert math.fsum(white) == pytest.approx(0.0, abs=1e-6)
        assert statistics.stdev(white) == pytest.approx(1.0, abs=1e-3)


@given(batches, st.randoms(use_true_random=False))
def test_order_padding_and_what_stands_elsewhere_change_nothing(
    batch: list[list[tuple[float, bool]]], random: object
) -> None:
    values, masks = split(batch)
    for centre in (True, False):
        whole = whiten(values, masks, centre=centre)
        dirty = [
            [math.nan, *(v if action else math.inf for v, action in row), 1e300] for row in batch
        ]
        wide = [[False, *mask, False] for mask in masks]
        order = list(range(len(batch)))
        random.shuffle(order)  # type: ignore[attr-defined]
        other = whiten([dirty[i] for i in order], [wide[i] for i in order], centre=centre)
        assert [row[1:-1] for row in other] == [whole[i] for i in order]


def test_a_silent_group_stays_silent_without_centring() -> None:
    """REINFORCE++-baseline: the first task said nothing, and the other's spread is brought to 1.

    Its losing attempt is the longer one, so that the mean over actions is not 0.
    """
    rewards, tasks = [1, 1, 0, 1], ["easy", "easy", "hard", "hard"]
    centred = group_advantages(rewards, tasks, kind="dr_grpo")
    rows = [[a] * length for a, length in zip(centred, [1, 2, 3, 1], strict=True)]
    white = whiten(rows, [[True] * len(row) for row in rows], centre=False)
    assert white[:2] == [[0.0], [0.0, 0.0]]
    std = statistics.stdev([0, 0, 0, -0.5, -0.5, -0.5, 0.5])
    assert white[2:] == [[pytest.approx(-0.5 / std)] * 3, [pytest.approx(0.5 / std)]]


def test_long_attempts_weigh_by_their_actions() -> None:
    """Mean and spread are over tokens: three of one attempt, one of the other."""
    white = whiten([[1.0, 1.0, 1.0], [0.0]], [[True] * 3, [True]], centre=True)
    assert white[1][0] == pytest.approx(-3 * white[0][0])


def test_rows_must_match() -> None:
    with pytest.raises(UsageError, match="same lengths"):
        whiten([[1.0, 2.0]], [[True]], centre=True)
