"""Settings go through JSON unchanged, and a wrong one is refused by name."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rolecraft.errors import UnknownName, UsageError
from rolecraft.rollouts import PipelineSettings, rollouts

counts = st.integers(1, 1000)
seconds = st.none() | st.floats(0.001, 1e6)


@settings(deadline=None)
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "live": counts,
            "prepare": st.none() | counts,
            "run": st.none() | counts,
            "grade": st.none() | counts,
            "run_seconds": seconds,
            "close_seconds": seconds,
            "attempts": counts,
            "backoff_seconds": st.floats(0, 100),
            "tool_workers": st.none() | counts,
            "order": st.sampled_from(["given", "longest"]),
            "patience": counts,
        },
    )
)
def test_they_go_through_json_unchanged(values: dict[str, Any]) -> None:
    before = PipelineSettings(**values)
    assert PipelineSettings.from_dict(json.loads(json.dumps(before.to_dict()))) == before


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("live", 0),
        ("live", True),
        ("live", 2.5),
        ("run", -1),
        ("grade", "many"),
        ("intake", 3),
        ("run_seconds", 0),
        ("run_seconds", float("inf")),
        ("close_seconds", float("nan")),
        ("close_seconds", "soon"),
        ("backoff_seconds", -1),
        ("backoff_seconds", None),
        ("attempts", 0),
        ("tool_workers", 0),
        ("order", "shortest"),
    ],
)
def test_a_wrong_value_is_named(name: str, value: object) -> None:
    with pytest.raises(UsageError, match=f"`{name}`"):
        PipelineSettings(**{name: value})  # type: ignore[arg-type]


def test_an_unknown_key_is_named_with_the_known_ones() -> None:
    with pytest.raises(UnknownName, match=r"'lives' is not known. Did you mean 'live'"):
        PipelineSettings.from_dict({"lives": 3})


async def test_the_order_longest_and_a_prediction_go_together() -> None:
    stages: Any = object()
    with pytest.raises(UsageError, match="`predicted`"):
        await anext(rollouts(stages, [1], PipelineSettings(order="longest")))
    with pytest.raises(UsageError, match="`order='longest'`"):
        await anext(rollouts(stages, [1], predicted=float))


async def test_what_is_no_iterable_is_refused() -> None:
    stages: Any = object()
    items: Any = 7
    with pytest.raises(UsageError, match="`items` is 7"):
        await anext(rollouts(stages, items))
