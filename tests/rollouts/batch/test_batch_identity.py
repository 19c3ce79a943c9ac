"""R5: an item is what its row says, whatever stands around it."""

from __future__ import annotations

import datetime
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from rolecraft.environments.row_files import Row
from rolecraft.rollouts.batch.identity import ItemId, Occurrences, canonical, digest
from rolecraft.rollouts.batch.survey import survey

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
ROWS = st.dictionaries(st.text(), VALUES, max_size=5)


@settings(deadline=None)
@given(ROWS)
def test_the_order_of_keys_and_volatile_fields_change_nothing(fields: dict[str, Any]) -> None:
    turned = {**dict(reversed(fields.items())), "index": 7, "timestamp": "now"}
    assert canonical(turned) == canonical({**fields, "index": 8})


@settings(deadline=None)
@given(ROWS, st.text(), VALUES)
def test_any_other_change_is_another_row(fields: dict[str, Any], name: str, value: Any) -> None:
    changed = {**fields, name: value}
    if canonical(changed, ()) != canonical(fields, ()):
        one, two = digest(Row(0, fields), ()), digest(Row(0, changed), ())
        assert one != two


def test_a_prompt_of_any_length_has_an_identity() -> None:
    long = {"prompt": "x" * 5_000_000}
    assert digest(Row(0, long)) != digest(Row(0, {"prompt": "x" * 5_000_001}))
    assert len(digest(Row(0, long))) == 64


def test_what_parquet_holds_and_json_does_not_has_an_identity_too() -> None:
    row = Row(0, {"a": b"\xff", "b": datetime.date(2026, 1, 1), "c": "\ud800", "d": float("nan")})
    assert digest(row) == digest(Row(5, dict(row.fields)))


def test_rows_that_say_the_same_are_numbered() -> None:
    rows = [Row(n, {"prompt": said}) for n, said in enumerate("abaca")]
    found = list(survey(rows, ()))
    assert [occurrence for _, occurrence in found] == [0, 0, 1, 0, 2]
    assert len({row for row, _ in found}) == 3


def test_a_row_keeps_its_items_when_others_come_go_or_change_places() -> None:
    def items(said: str) -> set[tuple[str, int]]:
        return set(survey([Row(n, {"prompt": each}) for n, each in enumerate(said)], ()))

    before = items("abcab")
    assert items("bacba") == before
    assert items("xabcabx") > before
    assert items("bcab") < before


def test_the_fingerprint_of_a_survey_is_that_of_its_rows_in_order() -> None:
    def of(said: str) -> str:
        return survey([Row(n, {"prompt": each}) for n, each in enumerate(said)], ()).fingerprint

    assert of("ab") == of("ab")
    assert of("ab") != of("ba")


def test_the_seed_of_a_sample_depends_on_row_occurrence_and_sample() -> None:
    row = digest(Row(0, {"prompt": "a"}))
    seeds = {ItemId(row, o, s).seed(seed) for o in range(3) for s in range(3) for seed in range(3)}
    assert len(seeds) == 27
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert ItemId(row).seed(0) == ItemId(row).seed(0)


def test_occurrences_count_from_zero() -> None:
    occurrences = Occurrences()
    a, b = "a" * 64, "b" * 64
    assert [occurrences.next(row) for row in (a, b, a, a, b)] == [0, 0, 1, 2, 1]
