"""Subsets of tasks, and figures of a folder."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolecraft.errors import UsageError
from rolecraft.synthesis.difficulty.attempts import Attempt, open_attempts
from rolecraft.synthesis.difficulty.plot import draw
from rolecraft.synthesis.difficulty.select import Range, Wanted, select, why_none
from rolecraft.synthesis.difficulty.statistics import Spread, statistics
from rolecraft.synthesis.gathering.gather import gather

NUMBERS = st.none() | st.integers(-50, 50)


@given(NUMBERS, NUMBERS, st.integers(-60, 60))
def test_a_range_has_what_lies_between_its_bounds(low, high, value) -> None:
    if low is not None and high is not None and low > high:
        with pytest.raises(UsageError, match="No number is from"):
            Range(low, high)
        return
    expected = (low is None or low <= value) and (high is None or value <= high)
    assert (value in Range(low, high)) == expected
    if low is not None or high is not None:
        assert Range.parse(str(Range(low, high))) == Range(low, high)


def test_one_number_is_a_range_of_its_own() -> None:
    assert Range.parse("3") == Range(3, 3)


@pytest.mark.parametrize("text", ["", ":", "a:b", "1:2:3", "1-2"])
def test_what_is_no_range_is_refused_by_its_words(text) -> None:
    with pytest.raises(UsageError, match="is no range: write LOW:HIGH"):
        Range.parse(text)


@given(st.lists(st.integers(0, 100), min_size=1))
def test_a_spread_is_in_order_and_has_both_ends(numbers) -> None:
    spread = Spread.of(numbers)
    assert (spread.least, spread.most) == (min(numbers), max(numbers))
    assert spread.least <= spread.median <= spread.p90 <= spread.most


@pytest.fixture
def tried(three_bugs, needs_program):
    """Three gathered tasks; "good" solves two of them, "bad" one of them in half its attempts."""
    needs_program("git", package="git")
    made = three_bugs()
    made.bug("shapes/areas.py", "side * side", "side", "tests/test_areas.py::test_square",
             status="flaky")  # fmt: skip
    gather(made.folder)
    with open_attempts(made.folder) as ledger:
        for index, name in enumerate(made.ids[:3]):
            for number in (1, 2):
                good, bad = index < 2, index == 0 and number == 1
                ledger.append(
                    Attempt(task=name, solver="good", number=number, resolved=good, usd=0.5)
                )
                ledger.append(Attempt(task=name, solver="bad", number=number, resolved=bad))
    return made


@pytest.mark.parametrize(
    ("wanted", "tasks"),
    [
        (Wanted(), [0, 1, 2]),
        (Wanted(modifiers=("op-*",)), [1]),
        (Wanted(modifiers=("boundary", "break-chain")), [0, 2]),
        (Wanted(split="test"), [2]),
        (Wanted(lines=Range(2, None)), []),
        (Wanted(fail_to_pass=Range(1, 1), files=Range(1, 1)), [0, 1, 2]),
        (Wanted(pass_rate=Range(0.5, 1)), [0, 1]),
        (Wanted(pass_rate=Range(0.6, 1)), [0]),
        (Wanted(pass_rate=Range(0.2, 0.8), solver="bad"), [0]),
        (Wanted(pass_rate=Range(0, 0), solver="good"), [2]),
    ],
)
def test_each_bound_of_a_subset_holds(tried, wanted, tasks) -> None:
    found = {row["instance_id"] for row in select(tried.folder, wanted)}
    assert found == {tried.ids[index] for index in tasks}


def test_a_pass_rate_without_attempts_says_how_to_get_some(three_bugs, needs_program) -> None:
    needs_program("git", package="git")
    made = three_bugs()
    gather(made.folder)
    with pytest.raises(UsageError, match="rolecraft synth difficulty"):
        [*select(made.folder, Wanted(pass_rate=Range(0, 1)))]


@pytest.mark.parametrize("text", ["5", ":20", "-1:", "50:80"])
def test_a_pass_rate_beyond_all_is_refused(text) -> None:
    """A percentage, which once left out every task."""
    with pytest.raises(UsageError, match=f"from 0 to 1: '{text}'"):
        Wanted(pass_rate=Range.parse(text))


def test_tasks_that_nobody_has_tried_are_told_from_those_of_another_rate(tried) -> None:
    """No matter what range is asked for, they are not in it."""
    with open_attempts(tried.folder) as ledger:
        ledger.append(Attempt(task=tried.ids[0], solver="new", number=1, resolved=True))
    wanted = Wanted(pass_rate=Range(0, 0.5), solver="new")
    assert not [*select(tried.folder, wanted)]
    assert why_none(tried.folder, wanted) == (
        "None of 3 tasks: left out by `--pass-rate` 3 (2 untried)."
    )


def test_without_tasks_there_is_no_subset(made) -> None:
    made.plan()
    with pytest.raises(UsageError, match="rolecraft synth gather"):
        [*select(made.folder, Wanted())]


def test_the_figures_of_a_folder(tried) -> None:
    found = statistics(tried.folder)
    assert (found.name, found.tests, found.candidates, found.tasks) == ("shapes", 5, 4, 3)
    assert found.by_status == {"valid": 3, "flaky": 1}
    assert found.by_split == {"test": 1, "train": 2}
    assert found.files == {"shapes/areas.py": 2, "shapes/names.py": 1}
    assert found.fail_to_pass == {1: 3}
    row = found.modifiers["op-swap"]
    assert (row.candidates, row.validated, row.valid, row.tasks) == (2, 2, 1, 1)
    good, bad = found.solvers["good"], found.solvers["bad"]
    assert (good.attempts, good.tasks, good.usd, bad.usd) == (6, 3, 0.5, None)
    assert (good.resolved, bad.resolved) == (4, 1)
    assert good.pass_rate == pytest.approx(2 / 3)
    assert good.bins == [1, 0, 0, 0, 0, 0, 0, 0, 0, 2]
    assert bad.bins == [2, 0, 0, 0, 0, 1, 0, 0, 0, 0]


def test_figures_are_there_before_anything_is_gathered(made) -> None:
    made.plan()
    found = statistics(made.folder)
    assert (found.candidates, found.tasks, found.by_status) == (0, 0, {})


def test_the_picture_has_the_names_and_is_the_same_each_time(tried, tmp_path) -> None:
    pytest.importorskip("matplotlib")
    found = statistics(tried.folder)
    draw(found, tmp_path / "a" / "stats.svg")
    draw(found, tmp_path / "b.svg")
    text = (tmp_path / "a" / "stats.svg").read_text()
    assert "<svg" in text
    for word in ("break-chain", "flaky", "good"):
        assert word in text
    assert (tmp_path / "b.svg").read_text() == text


def test_nothing_to_draw_is_drawn_all_the_same(made, tmp_path) -> None:
    pytest.importorskip("matplotlib")
    made.plan()
    draw(statistics(made.folder), tmp_path / "stats.png")
    assert (tmp_path / "stats.png").read_bytes().startswith(b"\x89PNG")


def test_a_picture_of_no_known_kind_is_refused(made, tmp_path) -> None:
    made.plan()
    with pytest.raises(UsageError, match="is no picture by its name"):
        draw(statistics(made.folder), tmp_path / "stats.txt")
