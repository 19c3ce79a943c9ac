"""`rolecraft train` with a config, a reward of one's own, adapters, and --resume."""

from __future__ import annotations

import json

import pytest

from rolecraft.cli._exits import ExitCode
from rolecraft.cli._train_table import beyond_chance
from rolecraft.models.tiny_chat import tiny_chat_model

CONFIG = """
scenario: relay
algorithm: {name: from_scratch, group: 4, epochs: 1}
steps: 2
tasks_per_step: 2
checkpoint_steps: 1
trackers: [tensorboard]
out: mine
"""
REWARD = """
from rolecraft.rewards import Signals, reward


@reward
def register(signals: Signals) -> float:
    return 10.0 * signals["relay.register"]
"""


def test_a_config_is_trained_and_gone_on_with_and_options_override_it(cli, tmp_path):
    (tmp_path / "mine.yaml").write_text(CONFIG)
    (tmp_path / "own.py").write_text(REWARD)
    done = cli("train", "--config", "mine.yaml", "--reward", "own.py:register", "--json")
    assert done.code == ExitCode.OK, done.err
    *steps, last = done.lines
    assert [step["step"] for step in steps] == [0, 1]
    assert all(step["episodes"] == 8 for step in steps)
    assert steps[0]["reward"] == 10 * steps[0]["signals"]["relay.register"]
    assert set(steps[0]["by_role"]) == {"planner", "executor"}
    assert set(steps[0]["cost"]) == {"sampler", "trainer", "environment", "usd"}
    assert "seconds_per_point" in last
    assert [*(tmp_path / "mine" / "tensorboard").iterdir()]
    went_on = cli("train", "--resume", "mine", "--steps", 3, "--json")
    assert went_on.code == ExitCode.OK, went_on.err
    assert [line["step"] for line in went_on.lines[:-1]] == [2]
    curve = (tmp_path / "mine" / "training.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in curve] == [0, 1, 2]


def test_adapters_are_trained_asynchronously_by_options_and_say_how_to_use_them(cli, tmp_path):
    (tmp_path / "small.yaml").write_text(CONFIG.replace("scenario: relay", ""))
    tiny_chat_model(context=512, for_adapters=True).save(tmp_path / "base")
    done = cli(
        *(
            "train",
            "--config",
            "small.yaml",
            "--model",
            "base",
            "--adapters",
            "--async",
            "--max-staleness",
            2,
        ),
        *("--credit", "dr_mas", "--scenario", "relay"),
        *("--out", "roles"),
    )
    assert done.code == ExitCode.OK, done.err
    assert "--model transformers:base --adapter executor=roles/adapters/executor" in done.out
    for role in ("planner", "executor"):
        assert (tmp_path / "roles" / "adapters" / role / "adapter_model.safetensors").is_file()
    assert not (tmp_path / "roles" / "model.safetensors").exists()
    head, *rows = done.out.splitlines()[:3]
    assert head.split()[:4] == ["step", "reward", "planner", "executor"]
    assert [row.split()[0] for row in rows] == ["1", "2"]


OWN_MODEL = """
from dataclasses import replace
from rolecraft.models.tiny_chat import tiny_chat_model
from rolecraft.scenarios.relay import relay


def made(seed):
    return tiny_chat_model(seed=seed, context=512, for_adapters=True)


game = replace(relay, untrained=made)
"""


def test_adapters_on_a_scenarios_own_model_leave_it_beside_them_and_the_advice_works(cli, tmp_path):
    """Once nobody had the base: the command that was printed could not be run."""
    (tmp_path / "game.py").write_text(OWN_MODEL)
    (tmp_path / "small.yaml").write_text(
        CONFIG.replace("scenario: relay", "scenario: game.py:game")
    )
    done = cli("train", "--config", "small.yaml", "--adapters", "--steps", 1, "--seed", 3)
    assert done.code == ExitCode.OK, done.err
    advice = done.out.split("How well it does on others: rolecraft ")[1].split()
    assert "transformers:mine/base" in advice
    assert cli(*advice, "--tasks", 1).code == ExitCode.OK


def test_adapters_on_a_base_whose_output_layer_is_zero_are_refused(cli, tmp_path):
    """Every gradient is 0 there, and once nothing said so."""
    refused = cli("train", "relay", "--adapters")
    assert refused.code == ExitCode.USAGE
    assert "this base's is zero: nothing can be learnt" in refused.err
    assert not (tmp_path / "trained").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "Say what to train"),
        (["relay", "--algorithm", "grop"], "Did you mean 'grpo'"),
        (["relay", "--algorithm", "GRPO"], "Did you mean 'grpo'"),
        (["relay", "--learning-rate", "0"], "learning_rate"),
        (["relay", "--scenario", "debate"], "are two scenarios"),
        (["--config", "wrong.yaml"], "`stepz` is no setting; did you mean `steps`?"),
        (["relay", "--reward", "learned/gone"], "there is no such folder"),
        (["relay", "--credit", "teem"], "Did you mean 'team'"),
        (["relay", "--reward", "own.py:nothing"], "own.py"),
        (["relay", "--tracker", "mlflow"], "mlflow"),
        (["relay", "--max-staleness", 3], "set `asynchronous`"),
        (["--resume", "nowhere"], "no training in `nowhere`"),
        (["--config", "wrong.yaml"], "`wrong.yaml`: `stepz`"),
        (["relay", "--model", "nowhere/at-all"], "must be a local one"),
    ],
)
def test_mistakes_are_told_before_anything_is_played(cli, tmp_path, words, says):
    (tmp_path / "wrong.yaml").write_text("scenario: relay\nstepz: 3\n")
    refused = cli("train", *words)
    assert refused.code == ExitCode.USAGE
    assert says in refused.err
    assert not (tmp_path / "trained").exists()


def test_a_refused_resume_leaves_the_settings_that_the_training_has(cli, tmp_path):
    """Once a refused `--seed` stood in `train.json`, and plain --resume was refused ever after."""
    (tmp_path / "mine.yaml").write_text(CONFIG)
    (tmp_path / "own.py").write_text(REWARD)
    assert cli("train", "--config", "mine.yaml").code == ExitCode.OK
    for option, said in (
        (["--seed", 4], "`seed` is 4 and was 0"),
        (["--reward", "own.py:register"], "`reward` is 'own.py:register' and was None"),
    ):
        refused = cli("train", "--resume", "mine", "--steps", 3, *option)
        assert refused.code != ExitCode.OK
        assert said in refused.err
    went_on = cli("train", "--resume", "mine", "--steps", 3)
    assert went_on.code == ExitCode.OK, went_on.err


def test_a_resume_with_nothing_left_to_do_says_so(cli, tmp_path):
    (tmp_path / "mine.yaml").write_text(CONFIG)
    assert cli("train", "--config", "mine.yaml").code == ExitCode.OK
    done = cli("train", "--resume", "mine", "--steps", 1)
    assert done.code == ExitCode.OK
    assert "Nothing is left to do: 2 steps are done, and --steps is 1." in done.err


def test_an_untrained_model_takes_its_own_learning_rate_unless_one_is_given(cli, tmp_path):
    """With a preset's 1e-6 the curve was flat, and nothing said why."""
    small = ("train", "relay", "--algorithm", "rloo", "--steps", 1, "--tasks-per-step", 1)
    done = cli(*small, "--out", "lent")
    assert "it takes learning_rate 0.001, epochs 4, entropy 0.01" in done.err
    assert "mean reward of all of them" in done.out
    assert "Each hundredth" not in done.out
    given = cli(*small, "--out", "given", "--learning-rate", "0.25")
    assert "it takes" not in given.err
    assert _rate_and_epochs(tmp_path / "given") == (0.25, 1)
    assert _rate_and_epochs(tmp_path / "lent") == (0.001, 4)


def _rate_and_epochs(folder):
    algorithm = json.loads((folder / "settings.json").read_text())["algorithm"]
    return algorithm["learning_rate"], algorithm["epochs"]


def test_a_gain_is_told_from_chance():
    assert beyond_chance([0.2, 0.3, 0.45, 0.6, 0.7, 0.85, 0.9])
    assert not beyond_chance([0.2, 0.22, 0.19, 0.21, 0.2, 0.22])
    assert not beyond_chance([0.2, 0.9])


def test_attempts_that_a_reward_cannot_score_are_told_once(cli, tmp_path):
    raising = REWARD.replace("return", "1 / (1 - signals['relay.register']); return")
    (tmp_path / "own.py").write_text(raising)
    (tmp_path / "mine.yaml").write_text(CONFIG)
    done = cli("train", "--config", "mine.yaml", "--reward", "own.py:register")
    assert done.code == ExitCode.OK, done.err
    assert done.err.count("were left out") == 1
