"""R10: one frozen object, through JSON and back; unknown keys and wrong values are told."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from rolecraft.errors import UnknownName, UsageError
from rolecraft.rollouts.batch.config import BatchConfig
from rolecraft.rollouts.batch.toolsets import Distribution

TOOLS = Distribution(toolsets={"web": ("search",)}, chances={"web": 0.5})
FULL = BatchConfig(
    team="crew.py:team",
    model="openai/x",
    role_models={"Judge": "openai/y"},
    seed=3,
    prompt="question",
    volatile=("id",),
    toolsets=TOOLS,
    samples=4,
    usd=1.5,
    formats=("openai", "parquet"),
)


@pytest.mark.parametrize("config", [BatchConfig(), FULL])
def test_a_configuration_goes_through_json(config: BatchConfig) -> None:
    assert BatchConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_it_is_frozen_and_an_unknown_key_is_an_error() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        FULL.seed = 4  # type: ignore[misc]
    with pytest.raises(TypeError):
        FULL.role_models["Judge"] = "z"  # type: ignore[index]
    with pytest.raises(UnknownName, match=r"'sample'.*Did you mean"):
        BatchConfig.from_dict({"sample": 3})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("samples", 0),
        ("concurrency", True),
        ("attempts", 1.5),
        ("seconds", 0),
        ("seconds", float("inf")),
        ("usd", -1),
        ("tokens", 0.5),
        ("seed", "x"),
        ("team", 3),
        ("volatile", "index"),
        ("formats", ("csv",)),
        ("role_models", {"a": 1}),
        ("toolsets", {}),
        ("fsync", 1),
        ("keep_invented_tools", "no"),
    ],
)
def test_a_wrong_value_is_named(name: str, value: Any) -> None:
    with pytest.raises(UsageError) as raised:
        BatchConfig(**{name: value})
    assert name in str(raised.value) or repr(value[0]) in str(raised.value)


def test_what_decides_how_fast_and_how_long_is_no_part_of_what_a_sample_is() -> None:
    more = FULL.but(samples=9, concurrency=1, usd=None, keep_invented_tools=True, formats=())
    assert more.identity == FULL.identity
    assert FULL.but(seed=4).identity != FULL.identity
    assert FULL.but(toolsets=None).identity != FULL.identity
