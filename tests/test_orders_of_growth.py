"""The fixture `growth` tells linear from quadratic on any machine, however busy."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any

import pytest


def linear(size: int) -> Callable[[], object]:
    return lambda: sum(number % 7 for number in range(30 * size))


def quadratic(size: int) -> Callable[[], object]:
    """For 1,000 as slow as `linear`."""
    return lambda: sum(number % 7 for _ in range(size) for number in range(size * 30 // 1_000))


def test_what_takes_time_in_proportion_passes(growth: Any) -> None:
    growth(linear, 1_000, 8_000, at_most=24)


def test_what_takes_the_square_of_it_fails_and_the_figures_are_told(growth: Any) -> None:
    with pytest.raises(pytest.fail.Exception, match=r"size 1000 .* size 8000 .* at most 24 is"):
        growth(quadratic, 1_000, 8_000, at_most=24)


def test_a_try_that_something_disturbs_does_not_decide(growth: Any) -> None:
    """Three tries on a machine that does something else as well, and then a quiet one."""
    tries = 0

    def disturbed(size: int) -> Callable[[], object]:
        nonlocal tries
        tries += size == 8_000
        return linear(size * 4 if size == 8_000 and tries <= 3 else size)

    growth(disturbed, 1_000, 8_000, at_most=24)
    assert tries == 4


def test_a_wait_is_no_work_and_neither_is_what_comes_before(growth: Any) -> None:
    def work(size: int) -> Callable[[], object]:
        linear(size)()
        return lambda: time.sleep(size / 100_000)

    growth(work, 1, 8_000, at_most=10)


def test_nothing_is_collected_while_time_is_taken_and_afterwards_it_is_again(growth: Any) -> None:
    collected: list[bool] = []

    def work(size: int) -> Callable[[], object]:
        return lambda: collected.append(gc.isenabled())

    growth(work, 1, 8, at_most=24)
    assert collected == [False] * 6
    assert gc.isenabled()
