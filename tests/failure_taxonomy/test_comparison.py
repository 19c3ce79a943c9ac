"""Two sets of runs compared: pairs and sets, what is undecided, and Holm's correction."""

from __future__ import annotations

import pytest

from rolecraft.errors import UnknownName, UsageError
from rolecraft.failure_taxonomy.comparison import compare
from rolecraft.failure_taxonomy.labels import Labels
from rolecraft.failure_taxonomy.significance import (
    fisher_exact,
    mcnemar_exact,
    wilcoxon_signed_rank,
)
from rolecraft.trajectories import FailureFinding


def side(folder: str, **verdicts: str) -> list[Labels]:
    """A set of labels: for each mode its verdicts, a sign a trace (`+`, `-`, `?`)."""
    words = {"+": "present", "-": "absent", "?": "unknown"}
    length = max(map(len, verdicts.values()))
    return [
        Labels(
            trace=f"{folder}/{number}.jsonl",
            annotator="judge:x",
            findings=tuple(
                FailureFinding(mode, words[signs[number]])  # type: ignore[arg-type]
                for mode, signs in verdicts.items()
                if number < len(signs)
            ),
        )
        for number in range(length)
    ]


def test_traces_of_the_same_names_are_pairs() -> None:
    before = side("a", repetition="-------+", reset="--------")
    after = side("b", repetition="++++++--", reset="--------")
    found = compare(before, after)
    assert found.paired
    row = next(row for row in found.modes if row.mode == "repetition")
    assert (row.pairs, row.only_baseline, row.only_candidate) == (8, 1, 6)
    assert row.test == mcnemar_exact(1, 6)
    assert row.change == "more"
    assert found.failures == (1 / 8, 6 / 8)
    assert found.failures_test == wilcoxon_signed_rank([1, 1, 1, 1, 1, 1, 0, -1])


def test_other_names_are_two_independent_sets() -> None:
    before, after = side("a", repetition="--------"), side("b", repetition="++++++--++")
    found = compare(before, after)
    assert not found.paired
    row = next(row for row in found.modes if row.mode == "repetition")
    assert row.test == fisher_exact((0, 8), (8, 2))
    assert (row.change, row.pairs) == ("more", 0)
    assert found.failures is None


def test_a_trace_counts_once() -> None:
    """Two annotators of each trace would double the number of traces, and so shrink p."""
    before, after = side("a", repetition="----"), side("b", repetition="++++")
    with pytest.raises(UsageError, match=r"'b/0.jsonl' has 2 rows"):
        compare(before, [*after, *after])


def test_pairs_can_be_asked_for_and_refused() -> None:
    before, after = side("a", repetition="----"), side("b", repetition="++++++")
    found = compare(before, after, paired=True)
    assert found.unpaired == ([], ["b/4.jsonl", "b/5.jsonl"])
    assert found.modes[2].pairs == 4
    assert not compare(before, before, paired=False).paired
    other = [Labels(trace="elsewhere", findings=before[0].findings)]
    with pytest.raises(UsageError, match="elsewhere"):
        compare(other, after, paired=True)


def test_what_was_not_decided_takes_no_part_and_is_counted() -> None:
    before, after = side("a", repetition="-?-?"), side("b", repetition="+++?")
    row = next(row for row in compare(before, after).modes if row.mode == "repetition")
    assert (row.baseline.unknown, row.candidate.unknown) == (2, 1)
    assert (row.pairs, row.only_candidate) == (2, 2)
    never = next(row for row in compare(before, after).modes if row.mode == "reset")
    assert (never.test, never.adjusted, never.change) == (None, None, "unknown")
    assert not never.significant(1.0)
    assert compare(before, after).tested == 1


def test_a_failure_that_is_unknown_on_one_side_is_no_difference() -> None:
    """A judge that answered less must not look like fewer failures."""
    before, after = side("a", repetition="++++", reset="++++"), side("b", repetition="++++")
    found = compare(before, after)
    assert found.failures == (1.0, 1.0)
    assert found.failures_test is not None
    assert found.failures_test.p == 1.0


def test_what_was_found_can_be_compared_where_nobody_denies() -> None:
    before, after = side("a", repetition="+???????"), side("b", repetition="+++++++?")
    row = next(row for row in compare(before, after).modes if row.mode == "repetition")
    assert (row.test, row.change, row.one_sided) == (None, "unknown", True)
    found = compare(before, after, found=True)
    row = next(row for row in found.modes if row.mode == "repetition")
    assert row.test == mcnemar_exact(0, 6)
    assert found.failures == (1 / 8, 7 / 8)
    found = compare(before, after, found=True, paired=False)
    row = next(row for row in found.modes if row.mode == "repetition")
    assert row.test == fisher_exact((1, 7), (7, 1))
    assert row.change == "more"
    assert found.to_dict()["unknown_counts_as"] == "not found"


def test_p_values_are_corrected_over_the_modes_that_are_tested() -> None:
    before = side("a", repetition="-" * 8, reset="-" * 8, derailment="-" * 8)
    after = side("b", repetition="+" * 8, reset="-" * 8, derailment="-" * 8)
    three = compare(before, after)
    row = next(row for row in three.modes if row.mode == "repetition")
    assert row.test is not None
    assert three.tested == 3
    assert row.adjusted == pytest.approx(3 * row.test.p)
    one = compare(before, after, modes=["repetition"])
    assert [each.adjusted for each in one.modes] == [pytest.approx(row.test.p)]
    assert [each.mode for each in three.increases()] == ["repetition"]
    assert three.increases(alpha=1e-6) == []
    assert compare(after, before).increases() == []


def test_modes_that_nobody_looked_at_do_not_weaken_what_was_found() -> None:
    """Only one detector ran: the other thirteen modes have nothing to be corrected for."""
    before, after = side("a", repetition="+" + "?" * 19), side("b", repetition="+" * 9 + "?" * 11)
    found = compare(before, after, found=True)
    row = next(row for row in found.modes if row.mode == "repetition")
    assert found.tested == 1
    assert row.test is not None
    assert row.adjusted == row.test.p
    assert [each.mode for each in found.increases()] == ["repetition"]
    denied = compare(side("a", repetition="+?", reset="--"), before, found=True)
    assert denied.tested == 2  # what was looked at and never found counts


def test_a_mode_that_hardly_anybody_decides_any_more_is_judged_less() -> None:
    full, half = side("a", repetition="-" * 20), side("b", repetition="-" * 10 + "?" * 10)
    one = side("b", repetition="-" + "?" * 19)
    assert compare(full, one).judged_less == ["repetition"]
    assert compare(full, side("b", repetition="?" * 20)).judged_less == ["repetition"]
    assert compare(full, half).judged_less == []
    assert compare(one, full).judged_less == []
    # A judge that found it in all of them, and then answered nothing:
    assert compare(side("a", repetition="++"), side("b", repetition="??")).judged_less
    # Who can only find it decides nothing where there is nothing to find.
    few, none = side("a", repetition="++++?"), side("b", repetition="?????")
    assert compare(few, none).judged_less == []
    assert compare(side("a", repetition="++"), none, found=True).judged_less == []
    assert compare(full, one, found=True).judged_less == ["repetition"]


def test_a_comparison_wants_both_sides_and_modes_that_there_are() -> None:
    rows = side("a", repetition="-")
    with pytest.raises(UsageError, match="both sides"):
        compare(rows, [])
    with pytest.raises(UnknownName, match="repetition"):
        compare(rows, rows, modes=["repetitions"])
