"""Scores of counts, against figures worked out by hand and published ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolecraft.failure_taxonomy.agreement import Counts, f1, kappa, precision, recall
from rolecraft.failure_taxonomy.agreement.counts import (
    accuracy,
    add,
    always_no,
    always_yes,
    mean,
    prevalence,
)

SMALL = st.integers(0, 50)
COUNTS = st.builds(Counts, SMALL, SMALL, SMALL, SMALL, SMALL, SMALL)


def test_kappa_of_the_textbook() -> None:
    """50 proposals, two readers: 20 both yes, 15 both no, 5 and 10 apart. p_o 0.7, p_e 0.5."""
    assert kappa(Counts(tp=20, fp=10, fn=5, tn=15)) == pytest.approx(0.4)


def test_scores_of_the_published_judge_on_89_traces() -> None:
    """1,246 cells: accuracy 0.730, precision 0.17, recall 0.42, F1 0.24, kappa 0.11; always-no
    has accuracy 0.896."""
    judge = Counts(tp=54, fp=262, fn=75, tn=855)
    assert accuracy(judge) == pytest.approx(0.730, abs=5e-4)
    assert precision(judge) == pytest.approx(0.17, abs=5e-3)
    assert recall(judge) == pytest.approx(0.42, abs=5e-3)
    assert f1(judge) == pytest.approx(0.24, abs=5e-3)
    assert kappa(judge) == pytest.approx(0.11, abs=5e-3)
    assert accuracy(always_no(judge)) == pytest.approx(0.896, abs=5e-4)


def test_worse_than_chance_is_below_zero() -> None:
    assert kappa(Counts(fp=5, fn=5)) == -1


@pytest.mark.parametrize(
    ("counts", "undefined"),
    [
        (Counts(), (precision, recall, f1, kappa, accuracy)),
        (Counts(tn=9), (precision, recall, f1, kappa)),
        (Counts(tp=9), (kappa,)),
        (Counts(open_present=3, open_absent=3), (precision, recall, f1, kappa, accuracy)),
        (Counts(fn=2, tn=2), (precision,)),
        (Counts(fp=2, tn=2), (recall,)),
    ],
)
def test_what_counts_do_not_define_is_none(counts: Counts, undefined: tuple[object, ...]) -> None:
    for score in (precision, recall, f1, kappa, accuracy):
        assert (score(counts) is None) == (score in undefined)


def test_an_open_cell_is_read_as_no_or_as_wrong() -> None:
    counts = Counts(tp=2, fp=1, fn=1, tn=3, open_present=4, open_absent=5)
    assert (counts.n, counts.decided, counts.present) == (16, 7, 7)
    assert counts.open_as_wrong() == Counts(tp=2, fp=6, fn=5, tn=3)
    assert counts.open_as_no() == Counts(tp=2, fp=1, fn=5, tn=8)


def test_baselines_keep_the_truth_and_change_the_answers() -> None:
    counts = Counts(tp=1, fp=1, fn=1, tn=4, open_present=1, open_absent=2)
    assert always_no(counts) == Counts(fn=3, tn=7)
    assert always_yes(counts) == Counts(tp=3, fp=7)
    guess = prevalence(counts)
    assert guess == pytest.approx(Counts(tp=0.9, fp=2.1, fn=2.1, tn=4.9))
    assert f1(guess) == pytest.approx(0.3)
    for baseline in (always_no(counts), always_yes(counts), guess):
        assert kappa(baseline) == pytest.approx(0)


def test_pooled_over_modes_that_differ_even_a_guess_has_some_kappa() -> None:
    """Why baselines stand beside: knowing how common each mode is gives kappa above 0."""
    common, rare = Counts(tp=8, tn=2), Counts(tp=1, tn=9)
    pooled = kappa(add([prevalence(common), prevalence(rare)]))
    assert pooled is not None
    assert pooled > 0.3


def test_a_mean_is_over_what_is_defined() -> None:
    assert mean([None, 0.5, 1.0]) == 0.75
    assert mean([None]) is None
    assert add([]) == Counts()


@given(COUNTS)
def test_kappa_is_symmetric_and_at_most_one(counts: Counts) -> None:
    turned = counts._replace(fp=counts.fn, fn=counts.fp)
    assert kappa(turned) == pytest.approx(kappa(counts))
    value = kappa(counts)
    assert value is None or -1 - 1e-9 <= value <= 1 + 1e-9


@given(st.integers(1, 99), st.integers(1, 99))
def test_kappa_of_the_same_answers_is_one(tp: int, tn: int) -> None:
    assert kappa(Counts(tp=tp, tn=tn)) == 1


@given(COUNTS)
def test_f1_is_the_harmonic_mean(counts: Counts) -> None:
    p, r, value = precision(counts), recall(counts), f1(counts)
    if p and r:
        assert value == pytest.approx(2 * p * r / (p + r))
    else:
        assert not value
