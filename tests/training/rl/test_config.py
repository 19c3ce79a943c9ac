"""A training as a file: what is read, what is refused and why, and the ready ones."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rolecraft.errors import UsageError
from rolecraft.scenarios.relay import relay
from rolecraft.training import FROM_SCRATCH, Algorithm, Clip, Kl, Normalise
from rolecraft.training.algorithms.clips import DetachedClip
from rolecraft.training.algorithms.presets import ALGORITHMS
from rolecraft.training.credit.ema import Ema
from rolecraft.training.rl.config import TrainConfig
from rolecraft.training.rl.curriculum import Curriculum
from rolecraft.training.rl.settings import adapters_of, algorithm_of, credit_of, limits_of
from rolecraft.training.rl.stages import OnlyTasks, Stages

READY = sorted((Path(__file__).parents[3] / "examples" / "rl").glob("*.yaml"))


@pytest.mark.parametrize("path", READY, ids=lambda path: path.stem)
def test_the_ready_configs_can_be_trained_with_and_say_how(path: Path) -> None:
    config = TrainConfig.read(path)
    assert config.scenario in ("relay", "software_engineering")
    assert isinstance(algorithm_of(config.algorithm), Algorithm)
    assert path.read_text("utf-8").startswith("# ")


def test_there_are_ready_configs_for_what_was_published() -> None:
    assert {path.stem for path in READY} >= {
        *("relay", "relay-adapters", "relay-async", "skyrl-7b", "skyrl-8b", "skyrl-14b")
    }


@pytest.mark.parametrize(
    ("name", "steps", "rollouts"), [("7b", 15, 128), ("8b", 47, 256), ("14b", 25, 256)]
)
def test_the_published_settings_are_those_of_skyrl(name: str, steps: int, rollouts: int) -> None:
    """15 x (16 x 8), 47 x 256 and 25 x 256 rollouts; learning rate 1e-6, KL 1e-3, 25 turns."""
    config = TrainConfig.read(READY[0].parent / f"skyrl-{name}.yaml")
    algorithm = algorithm_of(config.algorithm)
    assert config.steps == steps
    assert config.tasks_per_step * algorithm.group == rollouts
    assert algorithm.learning_rate == 1e-6
    assert algorithm.kl == Kl(0.001)
    limits = limits_of(config.limits)
    assert limits is not None
    assert limits.calls == 25
    if name == "14b":
        assert isinstance(algorithm.clip, Clip)
        assert algorithm.clip.high == 0.28
        assert algorithm.critic is not None


def test_every_part_of_an_algorithm_can_be_written_as_plain_data() -> None:
    made = algorithm_of(
        {
            "name": "dapo",
            "group": 4,
            "clip": {"kind": "detached", "high": 4.0},
            "normalise": "tokens",
            "kl": {"coefficient": 0.1, "estimator": "k2"},
            "importance": {"cap": 3.0},
            "overlong": {"length": 20, "cache": 4},
        }
    )
    assert made.clip == DetachedClip(0.0, 4.0)
    assert (made.group, made.normalise, made.kl) == (4, Normalise.TOKENS, Kl(0.1, "k2"))
    assert algorithm_of(None) == Algorithm()
    assert algorithm_of("from_scratch") == FROM_SCRATCH
    assert credit_of({"group": "role_batch", "baseline": {"decay": 0.5}}).baseline == Ema(0.5)
    assert credit_of("team").reward == "team"
    adapters = adapters_of({"rank": 2}, ["a", "b"])
    assert adapters is not None
    assert (adapters.roles, adapters.rank) == (["a", "b"], 2)
    assert adapters_of(False, ["a"]) is adapters_of(None, ["a"]) is None


@pytest.mark.parametrize("name", ALGORITHMS)
def test_without_a_model_a_preset_takes_the_learning_rate_for_untrained_ones(name: str) -> None:
    made = TrainConfig.of({"scenario": "relay", "algorithm": name}).make_algorithm()
    names = ("learning_rate", "epochs", "entropy")
    assert made is not None
    assert all(getattr(made, each) == getattr(FROM_SCRATCH, each) for each in names)
    changed = {each: getattr(ALGORITHMS[name], each) for each in names}
    assert replace(made, **changed) == ALGORITHMS[name]
    of_a_model = TrainConfig.of({"scenario": "relay", "algorithm": name, "model": "base"})
    assert of_a_model.make_algorithm() == ALGORITHMS[name]
    kept = {"name": name, "epochs": 2}
    config = TrainConfig.of({"scenario": "relay", "algorithm": kept})
    assert config.lent() == {"learning_rate": 1e-3, "entropy": 0.01}
    rated = config.with_learning_rate(0.5).make_algorithm()
    assert rated == replace(ALGORITHMS[name], epochs=2, learning_rate=0.5)


def test_a_learning_rate_alone_is_of_the_default_algorithm() -> None:
    untrained = TrainConfig.of({"scenario": "relay"}).with_learning_rate(0.5)
    assert untrained.make_algorithm() == replace(FROM_SCRATCH, learning_rate=0.5)
    trained = TrainConfig.of({"scenario": "relay", "model": "base"}).with_learning_rate(0.5)
    assert trained.make_algorithm() == Algorithm(learning_rate=0.5)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"stepz": 3}, "stepz"),
        ({"steps": 0}, "`steps`.*greater than or equal to 1"),
        ({"algorithm": "grppo"}, "Did you mean 'grpo'"),
        ({"algorithm": {"group": 1}}, "leaves nothing to compare"),
        ({"algorithm": {"learning_rat": 1}}, "Did you mean 'learning_rate'"),
        ({"algorithm": {"clip": {"kind": "soft"}}}, "algorithm.clip.kind"),
        ({"algorithm": {"kl": {"coeff": 1}}}, "algorithm.kl"),
        ({"algorithm": {"overlong": {"cache": 3}}}, "length"),
        ({"algorithm": {"normalise": "mean"}}, "algorithm.normalise"),
        ({"algorithm": "gae"}, "Algorithm 'gae'"),
        ({"credit": "teem"}, "Did you mean 'team'"),
        ({"credit": {"group": "role_turn"}, "algorithm": "ppo"}, "compares turns"),
        ({"adapters": {"rank": 0}}, "rank"),
        ({"adapters": {"dropout": 0.1}}, "dropout"),
        ({"sampling": {"temperature": 0}}, "nothing to learn from"),
        ({"sampling": {"top_k": 20}}, "sampling.top_k"),
        ({"limits": {"rounds": -1}}, "rounds"),
        ({"pipeline": {"liv": 3}}, "Did you mean 'live'"),
        ({"max_staleness": 4}, "set `asynchronous`"),
        ({"trackers": ["mlflow"]}, "mlflow"),
        ({"subset": {"runs": ["r"], "low": 0.9, "high": 0.1}}, "swap them"),
        ({"stages": [{}, {"steps": 3}]}, "never reached"),
        ({"stages": [{"steps": 3}], "curriculum": True}, "into each of the `stages`"),
    ],
)
def test_what_cannot_be_meant_is_refused_early_with_the_reason(
    wrong: dict[str, Any], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        TrainConfig.of({"scenario": "relay", **wrong})


def test_a_file_is_read_and_overridden_and_written_so_that_it_can_be_read_again(
    tmp_path: Path,
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("scenario: relay\nsteps: 5\nalgorithm: {name: rloo, group: 4}\nfreeze: [a]\n")
    config = TrainConfig.read(path, {"steps": 7})
    assert (config.steps, config.freeze) == (7, ["a"])
    config.save(tmp_path)
    assert TrainConfig.read(tmp_path / "train.json") == config
    (tmp_path / "mine.json").write_text(json.dumps({"scenario": "relay", "steps": 5}))
    assert TrainConfig.read(tmp_path / "mine.json").steps == 5


@pytest.mark.parametrize(
    ("text", "words"),
    [("- relay", "no list of settings"), ("{", "is not valid"), ("steps: 3", "scenario")],
)
def test_a_file_that_is_no_config_is_named(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match=rf"mine\.yaml.*{words}"):
        TrainConfig.read(path)
    with pytest.raises(UsageError, match=r"nowhere\.yaml.*cannot be read"):
        TrainConfig.read(tmp_path / "nowhere.yaml")


def test_data_selection_is_made_from_the_config(tmp_path: Path) -> None:
    tasks = [*{task.id: task for task in relay.tasks.sample(4)}.values()]
    rows = [
        {"task": task.id, "ended": "finished", "reward": float(number % 2)}
        for number, task in enumerate(tasks)
    ]
    (tmp_path / "results.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    subset = {"runs": [str(tmp_path)], "low": 0.5, "high": 1.0}
    made = TrainConfig.of({"scenario": "relay", "subset": subset}).make_tasks(relay.tasks)
    assert isinstance(made, OnlyTasks)
    assert {task.id for task in made.tasks} == {task.id for task in tasks[1::2]}
    stages = [{"steps": 2, "subset": subset}, {"curriculum": {"pool": 2}}]
    staged = TrainConfig.of({"scenario": "relay", "stages": stages}).make_tasks(relay.tasks)
    assert isinstance(staged, Stages)
    assert isinstance(staged.stages[1].tasks, Curriculum)
    assert isinstance(
        TrainConfig.of({"scenario": "relay", "curriculum": True}).make_tasks(relay.tasks),
        Curriculum,
    )


def test_what_a_training_was_started_from_is_named_as_seen_from_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what is not in its folder is no file: a scenario of ours, a model of the hub."""
    (tmp_path / "there" / "runs").mkdir(parents=True)
    for name in ("own.py", "base"):
        (tmp_path / "there" / name).touch()
    settings = {
        "scenario": "own.py:game",
        "reward": "own.py:good",
        "model": "transformers:base",
        "stages": [{"subset": {"runs": ["runs", "gone"]}}],
    }
    monkeypatch.chdir(tmp_path / "there")
    (tmp_path / "there" / "out").mkdir()
    TrainConfig.of(settings).save(Path("out"))
    TrainConfig.of({"scenario": "relay", "model": "hub/name"}).save(tmp_path)
    here = TrainConfig.read(Path("out/train.json"))
    assert here == TrainConfig.of(settings)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    found = TrainConfig.read(Path("../there/out/train.json"))
    assert (found.scenario, found.reward) == ("../there/own.py:game", "../there/own.py:good")
    assert found.model == "transformers:../there/base"
    assert found.stages[0].subset is not None
    assert found.stages[0].subset.runs == ["../there/runs", "gone"]
    other = TrainConfig.read(Path("../train.json"))
    assert (other.scenario, other.model) == ("relay", "hub/name")
