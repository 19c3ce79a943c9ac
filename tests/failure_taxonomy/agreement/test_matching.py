"""Traces are matched by name, and only where one name fits one other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolecraft.failure_taxonomy.agreement import match
from rolecraft.failure_taxonomy.agreement.matching import same_traces


@pytest.mark.parametrize(
    ("gold", "predicted"),
    [
        ("runs/1.jsonl", "runs/1.jsonl"),
        ("1.jsonl", "/data/runs/1.jsonl"),
        ("/data/ada/runs/1.jsonl", "../runs/1.jsonl"),
        (r"C:\runs\1.jsonl", "runs/1.jsonl"),
        ("1", "runs/1.jsonl"),
        ("mad.json#17", "/data/mad.json#17"),
        ("17", "/data/mad.json#17"),
        ("task-a", "gold.json#task-a"),
    ],
)
def test_one_trace_is_found_in_whatever_folder(gold: str, predicted: str) -> None:
    found = match([gold], [predicted])
    assert found.pairs == {gold: predicted}
    assert found.gold_only == found.predicted_only == []


def test_as_many_parts_of_the_path_as_it_takes() -> None:
    found = match(["a/1.json", "b/1.json"], ["x/b/1.json", "x/a/1.json"])
    assert found.pairs == {"a/1.json": "x/a/1.json", "b/1.json": "x/b/1.json"}


def test_what_could_be_two_is_none_and_is_named() -> None:
    found = match(["a/1.json", "b/1.json", "2.json"], ["1.json", "runs/2.json"])
    assert found.pairs == {"2.json": "runs/2.json"}
    assert (found.gold_only, found.predicted_only) == (["a/1.json", "b/1.json"], ["1.json"])


def test_a_name_that_is_left_over_is_not_given_to_another_folder() -> None:
    """`y/1.json` and `z/1.json` are left alone, but `1.json` is not the name of one trace."""
    found = match(["x/1.json", "y/1.json"], ["x/1.json", "z/1.json"])
    assert found.pairs == {"x/1.json": "x/1.json"}
    assert (found.gold_only, found.predicted_only) == (["y/1.json"], ["z/1.json"])


def test_ids_of_two_files_are_told_apart() -> None:
    found = match(["a.json#1", "b.json#1"], ["b.json#1", "1"])
    assert found.pairs == {"b.json#1": "b.json#1"}
    assert found.predicted_only == ["1"]


@pytest.mark.parametrize(
    ("gold", "predicted", "told"),
    [
        ("mad.json#3", "other.json#3", True),
        ("mad.json#3", "runs/mad.json#3", True),
        ("a/1.json", "b/1.json", True),
        ("1", "runs/1.json", True),
        ("a/1.json", "a/1.json", False),
        ("a/1.json", "runs/a/1.json", False),
    ],
)
def test_pairs_with_only_the_last_part_in_common_are_told(
    gold: str, predicted: str, told: bool
) -> None:
    found = match([gold], [predicted])
    assert found.pairs == {gold: predicted}
    assert found.by_last_part == [gold] * told


def test_a_shorter_path_is_the_longer_one_that_it_ends() -> None:
    named = same_traces([("ada", "w/x/1.json"), ("bob", "1.json"), ("eve", "x/1.json")])
    assert set(named.values()) == {"w/x/1.json"}


@pytest.mark.parametrize(
    "names",
    [
        [("ada", "x/1.json"), ("bob", "y/1.json")],
        [("ada", "x/1.json"), ("bob", "y/1.json"), ("eve", "1.json")],
        [("ada", "x/1.json"), ("ada", "1.json")],
    ],
    ids=["two folders", "could be two", "one annotator"],
)
def test_names_of_different_traces_are_left_alone(names: list[tuple[str, str]]) -> None:
    assert same_traces(names) == {name: name for _, name in names}


def test_nothing_matches_nothing() -> None:
    assert match([], ["a"]).predicted_only == ["a"]
    assert match(["a"], []).gold_only == ["a"]


PATHS = st.lists(
    st.lists(st.sampled_from(["a", "b", "1.json", "2.json", "x#1"]), min_size=1, max_size=3).map(
        "/".join
    ),
    max_size=8,
)


@given(PATHS, PATHS)
def test_no_trace_is_taken_twice_and_none_is_lost(gold: list[str], predicted: list[str]) -> None:
    found = match(gold, predicted)
    assert len(set(found.pairs.values())) == len(found.pairs)
    assert {*found.pairs, *found.gold_only} == set(gold)
    assert {*found.pairs.values(), *found.predicted_only} == set(predicted)
    assert all(found.pairs[name] == name for name in set(gold) & set(predicted))
    turned = match(predicted, gold)
    assert {(b, a) for a, b in turned.pairs.items()} == set(found.pairs.items())
