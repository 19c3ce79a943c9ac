"""Published algorithms by name, and combinations of settings that are refused."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rolecraft.errors import UnknownName, UsageError
from rolecraft.training.algorithms import presets as settings_of_the_page
from rolecraft.training.algorithms.clips import (
    Clip,
    DetachedClip,
    Importance,
    ProbabilityClip,
)
from rolecraft.training.algorithms.presets import ALGORITHMS, algorithm
from rolecraft.training.algorithms.settings import FROM_SCRATCH, Algorithm
from rolecraft.training.algorithms.terms import Critic, Kl, Normalise, Overlong, StepGroups

NAMES = {
    "grpo",
    "dr_grpo",
    "dapo",
    "rloo",
    "reinforce++",
    "reinforce++_baseline",
    "gspo",
    "cispo",
    "dppo",
    "maxrl",
    "ppo",
    "gigpo",
}


def test_the_published_algorithms_are_there() -> None:
    assert set(ALGORITHMS) == NAMES


@pytest.mark.parametrize("name", sorted(NAMES))
def test_a_preset_can_be_changed_and_stays_as_it_was(name: str) -> None:
    before = ALGORITHMS[name]
    changed = algorithm(name, learning_rate=3e-5, group=7)
    assert (changed.learning_rate, changed.group, changed.clip) == (3e-5, 7, before.clip)
    assert ALGORITHMS[name] is before
    assert algorithm(name) == before


def test_no_two_presets_are_the_same() -> None:
    assert len(set(ALGORITHMS.values())) == len(NAMES)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("grpo", {"clip": Clip(0.2, 0.2), "normalise": Normalise.SEQUENCES, "kl": Kl(0.04, "k3")}),
        ("dr_grpo", {"advantage": "dr_grpo", "normalise": Normalise.MAX_TOKENS, "kl": None}),
        ("dapo", {"clip": Clip(0.2, 0.28), "overlong": Overlong(20480, 4096), "group": 16}),
        ("rloo", {"advantage": "rloo", "kl": Kl(0.05, "k1")}),
        ("reinforce++", {"advantage": "returns", "whiten": True, "gamma": 1.0}),
        ("reinforce++_baseline", {"advantage": "dr_grpo", "whiten": True, "kl": Kl(1e-5, "k2")}),
        ("gspo", {"clip": Clip(3e-4, 4e-4, "sequence"), "normalise": Normalise.SEQUENCES}),
        ("cispo", {"clip": DetachedClip(0.0, 5.0), "normalise": Normalise.TOKENS}),
        ("dppo", {"clip": ProbabilityClip(0.15, 0.15), "advantage": "dr_grpo"}),
        ("maxrl", {"advantage": "maxrl", "clip": Clip(0.2, 0.2)}),
        ("ppo", {"advantage": "gae", "critic": Critic(1.0, 1.0, 1.0, 0.5, 1e-5), "whiten": True}),
        ("gigpo", {"steps": StepGroups(1.0, 0.95), "advantage": "dr_grpo"}),
    ],
)
def test_what_makes_each_what_it_is(name: str, expected: dict[str, Any]) -> None:
    assert {setting: getattr(ALGORITHMS[name], setting) for setting in expected} == expected


def test_a_wrong_name_or_setting_is_told_the_nearest() -> None:
    with pytest.raises(UnknownName, match=r"'gropo'.*Did you mean 'grpo'"):
        algorithm("gropo")
    with pytest.raises(UnknownName, match=r"'learning_rat'.*Did you mean 'learning_rate'"):
        algorithm("dapo", learning_rat=1e-6)
    with pytest.raises(UsageError, match="group=1"):
        algorithm("dapo", group=1)


PAGE = Path(__file__).parents[3] / "docs" / "rl-algorithms.md"
ROW = re.compile(r"^\| `([^`]+)` \| `([a-z]+=[^`]+)` \| \S.* \|$", re.M)


def test_the_page_says_what_each_preset_is() -> None:
    """One row a name; its middle cell is what differs from `Algorithm()`, and no more."""
    rows = dict(ROW.findall(PAGE.read_text("utf-8")))
    assert set(rows) == NAMES
    for name, cell in rows.items():
        differs = eval(f"dict({cell})", dict(vars(settings_of_the_page)))
        assert Algorithm(**differs) == ALGORITHMS[name]
        for setting, value in differs.items():
            assert getattr(Algorithm(), setting) != value, f"{name}: `{setting}` is the default"


def test_for_models_from_scratch() -> None:
    assert (
        Algorithm(group=16, advantage="dr_grpo", epochs=4, learning_rate=1e-3, entropy=0.01)
        == FROM_SCRATCH
    )


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"advantage": "drgrpo"}, "one of"),
        ({"group": 1}, "nothing to compare"),
        ({"group": 0, "advantage": "returns"}, "from 1"),
        ({"group": 2.0}, "whole number"),
        ({"epochs": 0}, "from 1"),
        ({"epochs": True}, "whole number"),
        ({"learning_rate": "1e-6"}, "YAML wants a dot"),
        ({"learning_rate": "fast"}, r"above 0, got 'fast'\.$"),
        ({"whiten": "no"}, "True or False"),
        ({"clip": 0.2}, "wants `Clip` or `DetachedClip`"),
        ({"normalise": "tokens"}, "wants `Normalise`"),
        ({"kl": 0.01}, "wants `Kl` or None"),
        ({"importance": 2.0}, "wants `Importance` or None"),
        ({"learning_rate": 0.0}, "above 0"),
        ({"max_grad_norm": float("inf")}, "above 0"),
        ({"entropy": -0.1}, "from 0"),
        ({"gamma": 1.5, "advantage": "returns", "group": 1}, "0 to 1"),
        ({"advantage": "gae"}, "belong together"),
        ({"critic": Critic()}, "belong together"),
        ({"gamma": 0.9}, "would not use it"),
        ({"whiten": True}, "scaled twice"),
        ({"whiten": True, "advantage": "maxrl"}, "scaled twice"),
        ({"steps": StepGroups(), "advantage": "rloo"}, "compares turns"),
        ({"steps": StepGroups(), "advantage": "returns"}, "compares turns"),
        ({"dynamic_sampling": True, "advantage": "returns"}, "no groups"),
        ({"advantage": "maxrl", "overlong": Overlong(100, 10)}, "must not be negative"),
        ({"advantage": "maxrl", "kl": Kl(0.1, "k1")}, "must not be negative"),
        ({"clip": ProbabilityClip(), "importance": Importance()}, "weighed twice"),
        ({"max_tokens": 100}, "belong together"),
        ({"normalise": Normalise.MAX_TOKENS}, "belong together"),
        ({"normalise": Normalise.MAX_TOKENS, "max_tokens": 0}, "from 1"),
        ({"normalise": Normalise.MICRO_BATCH}, "how a step is split"),
    ],
)
def test_what_cannot_work_together_is_refused_with_the_reason(
    settings: dict[str, Any], reason: str
) -> None:
    with pytest.raises(UsageError, match=reason):
        Algorithm(**settings)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: StepGroups(weight=-1.0),
        lambda: StepGroups(gamma=1.1),
        lambda: Overlong(100, 0),
        lambda: Overlong(100, 101),
        lambda: Overlong(100.5, 10),  # type: ignore[arg-type]
        lambda: Clip("0.2"),  # type: ignore[arg-type]
        lambda: Importance(drop=1),  # type: ignore[arg-type]
    ],
)
def test_parts_that_make_no_sense_are_refused(wrong: Any) -> None:
    with pytest.raises(UsageError):
        wrong()


def test_settings_are_read_and_checked_without_torch() -> None:
    """So that a configuration file can be checked where torch is not installed."""
    code = (
        "import sys; sys.modules['torch'] = sys.modules['numpy'] = None\n"
        "from rolecraft.training import Clip, Critic, Importance, Kl, algorithm\n"
        "import rolecraft.training.algorithms.returns\n"
        "import rolecraft.training.algorithms.steps\n"
        "import rolecraft.training.algorithms.whitening\n"
        "algorithm('dapo', clip=Clip(0.1, 0.2), importance=Importance())\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
