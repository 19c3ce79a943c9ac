"""The comparison as a whole: what is scored, what is left open, what is named."""

from __future__ import annotations

import json
import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolecraft.errors import UsageError
from rolecraft.failure_taxonomy import MODES
from rolecraft.failure_taxonomy.agreement import Counts, agreement, kappa
from rolecraft.failure_taxonomy.labels import Labels
from rolecraft.trajectories import FailureFinding

Says = Callable[..., Labels]


def test_each_cell_is_counted_where_it_belongs(says: Says) -> None:
    modes = ["+", "+", "+", "-", "-", "-", "?", "+", "-"]
    answers = ["+", "-", "?", "+", "-", "?", "+", None, None]
    gold = [says("ada", f"{i}", reset=sign) for i, sign in enumerate(modes)]
    predicted = [
        says("bot", f"{i}", **({"reset": sign} if sign else {})) for i, sign in enumerate(answers)
    ]
    found = agreement(gold, predicted, resamples=20)
    row = found.rows["reset"]
    assert row.counts == Counts(tp=1, fp=1, fn=1, tn=1, open_present=2, open_absent=2)
    data = row.to_dict()
    assert (data["n"], data["unknown"], data["not_asked"], data["coverage"]) == (8, 2, 2, 0.5)
    assert (data["precision"], data["recall"], data["f1"], data["kappa"]) == (0.5, 0.5, 0.5, 0)
    as_no = data["open_as_no"]
    assert (as_no["precision"], as_no["recall"], as_no["accuracy"]) == (0.5, 0.25, 0.5)
    assert as_no["intervals"].keys() == {"precision", "recall", "f1", "kappa"}
    strict = data["open_as_wrong"]
    assert (strict["precision"], strict["recall"], strict["accuracy"]) == (0.25, 0.25, 0.25)
    assert strict["kappa"] == pytest.approx(kappa(Counts(1, 3, 3, 1)))
    assert list(found.rows) == ["reset"]
    assert (found.traces, found.gold, found.predicted) == (9, "ada", "bot")
    assert found.verification is None


def test_modes_are_pooled_and_averaged(says: Says) -> None:
    gold = [
        says("ada", "1", reset="+", repetition="-"),
        says("ada", "2", reset="-", repetition="-"),
    ]
    predicted = [
        says("bot", "1", reset="+", repetition="+"),
        says("bot", "2", reset="-", repetition="-"),
    ]
    found = agreement(gold, predicted, resamples=20)
    assert found.micro.counts == Counts(tp=1, fp=1, tn=2)
    assert found.micro.score("kappa") == pytest.approx(0.5)
    assert found.macro["precision"] == pytest.approx(0.5)  # 1 and 0
    assert found.macro["recall"] == 1  # `repetition` never occurs: not defined there
    assert found.macro["kappa"] == pytest.approx(0.5)  # 1 and 0
    baselines = found.micro.to_dict()["baselines"]
    assert baselines["always_no"]["accuracy"] == 0.75
    assert baselines["always_yes"]["recall"] == 1
    assert baselines["prevalence"]["kappa"] == pytest.approx(1 / 3)  # reset at 1/2, the other at 0


def test_the_two_verification_modes_are_also_one_question(says: Says) -> None:
    gold = [
        says("ada", "1", verification__absent="+", verification__weak="-"),
        says("ada", "2", verification__absent="-", verification__weak="-"),
        says("ada", "3", verification__absent="-", verification__weak="+"),
        says("ada", "4", verification__absent="-", verification__weak="?"),
        says("ada", "5", verification__absent="+", verification__weak="?"),
    ]
    predicted = [
        says("bot", "1", verification__absent="-", verification__weak="+"),
        says("bot", "2", verification__absent="-", verification__weak="-"),
        says("bot", "3", verification__absent="-"),
        says("bot", "4", verification__absent="+"),
        says("bot", "5", verification__absent="-", verification__weak="-"),
    ]
    row = agreement(gold, predicted, resamples=5).verification
    assert row is not None
    assert row.counts == Counts(tp=1, tn=1, open_present=1, fn=1)


def test_the_merged_row_has_intervals_of_its_own(says: Says) -> None:
    """Which of the two it is, is always wrong; that it is one of them, always right."""
    gold = [says("ada", f"{i}", verification__absent="+", verification__weak="-") for i in range(9)]
    said = [says("bot", f"{i}", verification__absent="-", verification__weak="+") for i in range(9)]
    found = agreement(gold, said, resamples=20)
    assert found.verification is not None
    assert found.verification.intervals["recall"] == (1, 1)
    assert found.verification.intervals_open_as_no["recall"] == (1, 1)
    assert found.rows["verification.absent"].intervals["recall"] == (0, 0)


def test_an_interval_is_by_trace_and_not_by_cell() -> None:
    """14 modes that all say the same give no more than one: the pooled interval stays as wide."""
    draw = random.Random(5)

    def rows(name: str, modes: list[str], signs: list[bool]) -> list[Labels]:
        return [
            Labels(
                trace=f"{i:03}",
                annotator=name,
                findings=tuple(FailureFinding(m, "present" if sign else "absent") for m in modes),
            )
            for i, sign in enumerate(signs)
        ]

    truth = [draw.random() < 0.4 for _ in range(60)]
    said = [sign if draw.random() < 0.8 else not sign for sign in truth]
    wide = agreement(rows("a", list(MODES), truth), rows("b", list(MODES), said), resamples=300)
    one = agreement(rows("a", ["reset"], truth), rows("b", ["reset"], said), resamples=300)
    assert wide.micro.intervals["kappa"] == pytest.approx(one.rows["reset"].intervals["kappa"])
    assert wide.macro_intervals["f1"] == pytest.approx(one.rows["reset"].intervals["f1"])
    low, high = one.rows["reset"].intervals["kappa"] or (0, 0)
    assert low < (one.rows["reset"].score("kappa") or 0) < high


SIGNS = st.sampled_from("+-?")


@given(st.lists(st.tuples(SIGNS, SIGNS, SIGNS, SIGNS), min_size=1, max_size=12), st.randoms())
def test_the_order_of_traces_changes_nothing(
    cells: list[tuple[str, ...]], shuffle: random.Random
) -> None:
    verdicts = {"+": "present", "-": "absent", "?": "unknown"}

    def row(name: str, at: int, signs: tuple[str, ...]) -> Labels:
        modes = zip(("reset", "repetition"), signs, strict=True)
        found = tuple(FailureFinding(mode, verdicts[sign]) for mode, sign in modes)  # type: ignore[arg-type]
        return Labels(trace=f"{at}.json", annotator=name, findings=found)

    gold = [row("a", at, signs[:2]) for at, signs in enumerate(cells)]
    predicted = [row("b", at, signs[2:]) for at, signs in enumerate(cells)]
    before = agreement(gold, predicted, resamples=20).to_dict()
    shuffle.shuffle(gold)
    shuffle.shuffle(predicted)
    assert agreement(gold, predicted, resamples=20).to_dict() == before
    swapped = agreement(predicted, gold, resamples=20).to_dict()
    for mode in before["modes"].keys() & swapped["modes"].keys():
        assert swapped["modes"][mode]["kappa"] == pytest.approx(before["modes"][mode]["kappa"])
    itself = agreement(gold, gold, resamples=20)
    assert itself.micro.score("kappa") in (1, None)
    assert itself.micro.counts.fp == itself.micro.counts.fn == 0


def test_gold_of_several_is_the_majority_or_the_one_that_is_named(says: Says) -> None:
    gold = [
        says(name, "1", reset=sign) for name, sign in (("ada", "+"), ("bob", "-"), ("eve", "+"))
    ]
    predicted = [says("bot", "x/1", reset="+")]
    found = agreement(gold, predicted, resamples=5)
    assert found.gold == "majority of ada, bob, eve"
    assert found.rows["reset"].counts == Counts(tp=1)
    by_bob = agreement(gold, predicted, annotator="bob", resamples=5)
    assert (by_bob.gold, by_bob.rows["reset"].counts) == ("bob", Counts(fp=1))
    for result in (found, by_bob):  # how far people agree is said in either case
        assert result.raters is not None
        assert result.raters.annotators == ("ada", "bob", "eve")
    with pytest.raises(UsageError, match=r"'joe'.*'ada', 'bob', 'eve'"):
        agreement(gold, predicted, annotator="joe")


def test_one_predictor_is_scored_at_a_time(says: Says) -> None:
    gold = [says("ada", "1", reset="+")]
    both = [says("bot", "1", reset="+"), says("rule", "1", reset="-")]
    with pytest.raises(UsageError, match=r"'bot', 'rule'.*predictor"):
        agreement(gold, both)
    assert agreement(gold, both, predictor="rule", resamples=5).rows["reset"].counts == Counts(fn=1)


def test_what_matches_nothing_is_named_and_no_match_at_all_is_an_error(says: Says) -> None:
    gold = [says("ada", "1", reset="+"), says("ada", "2", reset="+")]
    found = agreement(gold, [says("b", "2", reset="+"), says("b", "3", reset="+")], resamples=5)
    assert (found.gold_only, found.predicted_only, found.traces) == (["1"], ["3"], 1)
    with pytest.raises(UsageError, match=r"gold has '1', '2', the prediction '7'"):
        agreement(gold, [says("b", "7", reset="+")])
    with pytest.raises(UsageError, match="no gold labels"):
        agreement([], gold)
    with pytest.raises(UsageError, match="index_base"):
        agreement(gold, gold, index_base=2)


def test_annotators_who_named_one_trace_by_different_paths_are_taken_together(says: Says) -> None:
    gold = [says("ada", "x/1.json", reset="+"), says("bob", "1.json", reset="+")]
    gold.append(says("eve", "x/1.json", reset="-"))
    found = agreement(gold, [says("bot", "runs/x/1.json", reset="+")], resamples=5)
    assert (found.traces, found.gold_only, found.by_last_part) == (1, [], [])
    assert found.gold == "majority of ada, bob, eve"
    assert found.rows["reset"].counts == Counts(tp=1)


def test_pairs_by_the_last_part_of_their_names_are_in_the_result(says: Says) -> None:
    gold = [says("ada", "mad.json#3", reset="+"), says("ada", "a/4.json", reset="+")]
    said = [says("bot", "other.json#3", reset="-"), says("bot", "runs/a/4.json", reset="+")]
    found = agreement(gold, said, resamples=5)
    assert found.by_last_part == [("mad.json#3", "other.json#3")]
    assert found.to_dict()["by_last_part"] == [["mad.json#3", "other.json#3"]]


def test_the_same_label_row_in_several_traces_is_named(says: Says) -> None:
    gold = [
        says("ada", "1", reset="+", repetition="-"),
        says("ada", "2", reset="+", repetition="-"),
        says("ada", "3", reset="-", repetition="-"),
        says("ada", "4", reset="-", repetition="-"),
        says("ada", "5", reset="-", repetition="+"),
    ]
    found = agreement(gold, gold, resamples=5)
    assert found.same_rows == [["1", "2"]]
    assert (found.traces, found.left_out) == (5, 0)
    once = agreement(gold, gold, distinct=True, resamples=5)
    assert (once.traces, once.left_out) == (3, 2)


def test_a_row_that_is_there_twice_counts_once_and_is_named(says: Says) -> None:
    gold = [says("ada", "1", reset="+"), says("bob", "1", reset="+"), says("ada", "1", reset="+")]
    found = agreement(gold, [says("bot", "1", reset="+")], resamples=5)
    assert (found.labelled_twice, found.rows["reset"].counts) == (["1"], Counts(tp=1))


def test_the_result_is_plain_data(says: Says) -> None:
    gold = [says("ada", "1", ("a", 1), reset="+"), says("bob", "1", ("a", 2), reset="-")]
    found = agreement(gold, [says("bot", "1", ("a", 1), reset=("+", 0.5))], resamples=5)
    data = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert data["attribution"]["people"]["agent"] == {
        "right": 1, "n": 1, "share": 1.0, "interval": [1.0, 1.0],
    }  # fmt: skip
    assert data["annotators"]["pairs"] == [{"annotators": ["ada", "bob"], "kappa": 0.0}]
    assert data["modes"] == {}  # a tie: gold decides nothing
