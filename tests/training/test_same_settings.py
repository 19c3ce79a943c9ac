"""What a training was begun under and what it is to go on under: compared field by field."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, make_dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from rolecraft.errors import UsageError
from rolecraft.models.base import Sampling
from rolecraft.models.limits import Crossing, Limits, Word
from rolecraft.training import AdapterSettings, Algorithm, Blame, Credit, Kl
from rolecraft.training.algorithms.clips import Clip, DetachedClip
from rolecraft.training.algorithms.presets import ALGORITHMS
from rolecraft.training.credit.settings import CREDITS
from rolecraft.training.rl.run_folder import RUN, RunFolder
from rolecraft.training.same_settings import Difference, difference, plain


def stored(settings: Any) -> Any:
    """As it is read back."""
    return json.loads(json.dumps(plain(settings)))


def ends(crossing: Crossing) -> Word:
    return "stop"


def raises(crossing: Crossing) -> Word:
    return "raise"


ADAPTERS = AdapterSettings(roles=["a", "b"], starts={"a": Path("x")}, frozen={"b"})
MADE: list[Any] = [
    None,
    *ALGORITHMS.values(),
    *CREDITS.values(),
    ADAPTERS,
    Sampling(temperature=0.7, stop=("x",)),
    Limits(rounds=3, on_limit=ends),
    Credit(blame=Blame(modes={"verification.absent", "repetition"}), steps={"x": 1.0}),
]


@pytest.mark.parametrize("settings", MADE)
def test_settings_are_the_same_as_when_they_were_written(settings: Any) -> None:
    assert difference(stored(settings), settings, "it") is None


@pytest.mark.parametrize(
    ("before", "now", "found"),
    [
        (Algorithm(), Algorithm(epochs=2), ("it.epochs", "1", "2")),
        (
            Algorithm(kl=Kl(0.1)),
            Algorithm(kl=Kl(0.2)),
            ("it.kl.coefficient", "0.1", "0.2"),
        ),
        (
            Algorithm(kl=Kl(0.1)),
            Algorithm(),
            ("it.kl", "Kl(coefficient=0.1, estimator='k3')", "None"),
        ),
        (
            Algorithm(clip=Clip(0.1, 0.2)),
            Algorithm(clip=DetachedClip(0.0, 2.0)),
            (
                "it.clip",
                "Clip(low=0.1, high=0.2, level='token', dual=None)",
                "DetachedClip(low=0.0, high=2.0)",
            ),
        ),
        (None, ADAPTERS, ("it", "None", None)),
        (Credit(steps={"x": 1.0}), Credit(), ("it.steps", "{'x': 1.0}", "{}")),
        (
            Limits(on_limit=ends),
            Limits(on_limit=raises),
            ("it.on_limit", None, repr(f"{__name__}.raises")),
        ),
    ],
)
def test_the_field_that_is_another_is_named_with_both_values(
    before: Any, now: Any, found: tuple[str, str | None, str | None]
) -> None:
    got = difference(stored(before), now, "it")
    assert got is not None
    for ours, theirs in zip(got, found, strict=True):
        assert theirs is None or ours == theirs


def later(*added: tuple[str, Any, Any]) -> Any:
    """`Kl` as a later version has it."""
    return make_dataclass("Kl", [*added], bases=(Kl,), frozen=True)(0.1)


def test_a_setting_that_came_later_counts_as_its_default() -> None:
    before = stored(Algorithm(kl=Kl(0.1)))
    now: Mapping[str, Any] = {
        "kl": later(("target", float | None, None), ("by", dict, field(default_factory=dict)))
    }
    assert difference(before["kl"], now["kl"], "kl") is None
    other = later(("target", float | None, 6.0))
    assert difference(before["kl"], replace(other, target=5.0), "kl") == Difference(
        "kl.target", "6.0", "5.0"
    )


def test_a_setting_that_came_later_without_a_default_is_another() -> None:
    @dataclass
    class Two:
        one: int
        two: int

    got = difference({"is": "Two", "one": 1}, Two(1, 2), "it")
    assert got == Difference("it.two", "not set", "2")


def test_a_setting_that_this_version_does_not_have_is_another() -> None:
    before = {**stored(Kl(0.1)), "target": 6.0}
    assert difference(before, Kl(0.1), "kl") == Difference(
        "kl.target", "6.0", "no setting of this version"
    )


def begin(path: Path, *, resume: bool = True, **about: Any) -> None:
    RunFolder(path, about, resume=resume).close()


def test_a_folder_of_an_earlier_version_is_gone_on_with_where_its_text_is_the_same(
    tmp_path: Path,
) -> None:
    """Settings were written as `repr` once; from then on they are written by field."""
    algorithm = Algorithm(kl=Kl(0.1))
    old = {"algorithm": repr(algorithm), "limits": "None", "seed": 0}
    (tmp_path / RUN).write_text(json.dumps(old))
    begin(tmp_path, algorithm=algorithm, limits=None, seed=0)
    assert json.loads((tmp_path / RUN).read_text())["algorithm"]["kl"]["coefficient"] == 0.1
    begin(tmp_path, algorithm=algorithm, limits=None, seed=0)


def test_a_folder_of_an_earlier_version_is_refused_in_words_where_its_text_is_another(
    tmp_path: Path,
) -> None:
    (tmp_path / RUN).write_text(json.dumps({"algorithm": "Algorithm(group=8)", "seed": 0}))
    with pytest.raises(UsageError) as refused:
        begin(tmp_path, algorithm=Algorithm(), seed=0)
    assert "`algorithm` is Algorithm(group=8, advantage='grpo'" in str(refused.value)
    assert "was Algorithm(group=8), as an earlier version of Rolecraft wrote it. Go on" in str(
        refused.value
    )
