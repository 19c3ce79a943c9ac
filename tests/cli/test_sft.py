"""`rolecraft sft`: what a user sees of fine-tuning, and every way it can be used wrongly."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from rolecraft.cli._exits import ExitCode


@pytest.fixture(autouse=True)
def _settings_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("ROLECRAFT_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> Path:
    from rolecraft.models.tiny_chat import tiny_chat_model

    folder = tmp_path_factory.mktemp("base") / "tiny"
    tiny_chat_model(hidden=32, heads=2).save(folder)
    return folder


@pytest.fixture
def talk(tmp_path) -> Path:
    """ShareGPT's layout."""
    path = tmp_path / "talk.jsonl"
    rows = (
        {
            "conversations": [
                {"from": "human", "value": f"{number % 4}?"},
                {"from": "gpt", "value": str(number % 4) * 3},
            ]
        }
        for number in range(12)
    )
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


@pytest.fixture
def questions(tmp_path) -> Path:
    """The layout of HuatuoGPT."""
    path = tmp_path / "questions.jsonl"
    rows = ({"data": [f"问:{number}?", f"答:{number % 3}"]} for number in range(12))
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    path.write_text(text, "utf-8")
    return path


FEW = ("--epochs", 1, "--batch", 4, "--accumulate", 1, "--rate", 0.02, "--rank", 4)


def test_both_layouts_are_trained_in_one_command(cli, base, talk, questions, tmp_path):
    shared = (*FEW, "--eval-share", 0.2, "--eval-steps", 3, "--save-steps", 2)
    done = cli("sft", "--model", base, "--data", talk, "--data", questions, "--out", "o", *shared)
    assert done.code == 0, done.err
    assert "⟦" in done.out  # the mask of the first sample
    assert "assistant\n⟦000<|im_end|>⟧" in done.out
    assert "perplexity" in done.out
    assert "talk.jsonl: sharegpt; 12 rows, 12 samples" in done.err
    assert "question-answer; 12 rows" in done.err
    assert "Estimated for model and training, the program itself not counted: about" in done.err
    assert "Measured, with the model loaded: on cpu (processor) this process holds" in done.err
    summary = json.loads((tmp_path / "o/summary.json").read_text("utf-8"))
    steps = [line["step"] for line in curve("o")]
    assert steps == list(range(1, summary["steps"] + 1))
    assert summary["eval_samples"] > 0

    record = Path("o/run.json").read_bytes()
    for more in ((), ("--background",), ("--processes", 2), ("--resume", "--rate", 0.5)):
        again = cli("sft", "--model", base, "--data", talk, "--out", "o", *more)
        assert again.code == ExitCode.ERROR
        assert "o`" in again.err
    assert Path("o/run.json").read_bytes() == record  # `rolecraft runs` still tells of the first
    again = cli("sft", "--model", base, "--data", talk, "--out", "o")
    assert "holds a model or the checkpoints of a run" in again.err
    finished = cli("sft", "--out", "o", "--resume", "--json")
    assert finished.code == 0
    assert finished.lines[-1] == {"event": "result", "folder": "o", **summary}
    assert len(finished.lines) == 1  # nothing was trained again


def test_each_role_gets_an_adapter_of_its_own_in_one_command(cli, base, talk, tmp_path):
    roles = ("--role", "planner", "--role", "executor")
    done = cli("sft", "--model", base, "--data", talk, "--out", "o", *roles, *FEW, "--json")
    assert done.code == 0, done.err
    results = [line for line in done.lines if line["event"] == "result"]
    assert [line["role"] for line in results] == ["planner", "executor"]
    for line in results:
        assert (tmp_path / line["folder"] / "adapter_config.json").is_file()
    assert {line["role"] for line in done.lines if line["event"] == "step"} == {
        *("planner", "executor")
    }


def test_broken_rows_are_told_with_their_numbers_before_any_model_is_looked_at(cli, talk):
    with talk.open("a") as file:
        file.write('{"conversations": "none"}\n{"unknown": 1}\n')
    done = cli("sft", "--model", "no/such/model", "--data", talk, "--out", "o")
    assert done.code == ExitCode.ERROR
    head, first, second, known = done.err.strip().splitlines()  # a line each
    assert "--skip-broken" in head
    assert "line 13 " in first
    assert "line 14 is of no known layout: it has `unknown`" in second
    assert known.startswith("Known layouts: ")
    assert not Path("o/settings.json").exists()
    done = cli("sft", "--model", "no/such/model", "--data", talk, "--out", "o", "--skip-broken")
    assert "line 13 " in done.err  # named, before anything is looked for on a hub
    assert "line 14 " in done.err


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ((), "`--model` is missing"),
        (("--model", "m"), "`--data` is missing"),
        (
            ("--model", "m", "--data", "d", "--steps", "3", "--epochs", "2"),
            "`--steps` is instead of `--epochs`",
        ),
        (("--out", "nowhere", "--resume"), "There is no run in `nowhere` to go on with"),
        (("--model", "m", "--data", "d", "--method", "magic"), "'magic' is not known"),
        (("--model", "m", "--data", "d", "--rate", "-1"), "`--rate` is -1.0"),
        (("--model", "m", "--data", "d", "--epochs", "0"), "`--epochs` is 0.0"),
        (("--model", "m", "--data", "d", "--steps", "0"), "`--steps` is 0"),
        (("--model", "m", "--data", "d", "--overlong", "x"), "Known: `leave-out`, `split`"),
        (("--model", "m", "--data", "d", "--batch", "0"), "`--batch` is 0"),
        (("--model", "m", "--data", "d", "--method", "full", "--rank", "4"), "`--rank` is of an"),
        (("--model", "m", "--data", "d", "--template-setting", "x"), "wants NAME=VALUE"),
    ],
)
def test_wrong_settings_are_wrong_usage(cli, options, told):
    done = cli("sft", *options)
    assert done.code == ExitCode.USAGE
    assert told in done.err


def test_errors_of_a_run_name_the_option_that_was_typed(cli, base, talk):
    """And not the setting of a Python program, but in the columns of somebody's data."""
    flash = cli("sft", "--model", base, "--data", talk, "--attention", "flash_attention_2")
    assert flash.code == ExitCode.ERROR
    assert "`--attention flash_attention_2`, and there is no CUDA device" in flash.err
    short = cli("sft", "--model", base, "--data", talk, "--max-length", 8, "--revision", "v1")
    assert "`--revision` 'v1' is of a model on a hub" in short.err
    talk.write_text('{"model": 1, "rate": 2}\n')
    odd = cli("sft", "--model", base, "--data", talk)
    assert "it has `model`, `rate`" in odd.err


def test_quantised_training_without_its_library_says_what_to_install(cli, base, talk):
    pytest.importorskip("torch")
    try:
        import bitsandbytes  # noqa: F401
    except ImportError:
        pass
    else:
        pytest.skip("bitsandbytes is installed")
    done = cli("sft", "--model", base, "--data", talk, "--method", "qlora-4", "--out", "o")
    assert done.code == ExitCode.ERROR
    assert "needs `bitsandbytes`" in done.err
    assert "[quantised]" in done.err


def test_a_run_is_not_resumed_with_other_settings_or_other_data(cli, base, talk):
    done = cli("sft", "--model", base, "--data", talk, "--out", "o", *FEW, "--save-steps", 1)
    assert done.code == 0, done.err
    Path("o/summary.json").unlink()  # as if it had been killed at its very end
    other = cli("sft", "--out", "o", "--resume", "--rate", 0.5)
    assert other.code == ExitCode.ERROR
    assert "began with `--rate` 0.02, and is to go on with 0.5" in other.err
    before = talk.read_text("utf-8")
    talk.write_text(before.replace("3?", "5?"), "utf-8")
    changed = cli("sft", "--out", "o", "--resume")
    assert changed.code == ExitCode.ERROR
    assert "is not what it was when the run began" in changed.err
    talk.write_text(before, "utf-8")
    assert cli("sft", "--out", "o", "--resume").code == 0
    assert Path("o/summary.json").exists()


def start(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "rolecraft.cli", "sft", *map(str, arguments)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for_step(number: int, process: subprocess.Popen[str], log: Path) -> None:
    deadline = time.monotonic() + 300
    while not (log.exists() and log.read_bytes().count(b"\n") >= number):
        assert process.poll() is None, process.stderr and process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.01)


def curve(folder: str) -> list[dict]:
    lines = [json.loads(line) for line in Path(folder, "log.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if "second" not in k} for line in lines]


LONG = ("--epochs", 20, "--batch", 2, "--accumulate", 1, "--rank", 4, "--threads", 1)


@pytest.mark.slow
def test_a_command_that_was_killed_or_stopped_goes_on_to_the_same_result(cli, base, talk, tmp_path):
    """Killed with -9, then stopped with SIGTERM as `rolecraft runs stop` does, then to its end."""
    shared = ("--model", base, "--data", talk, *LONG, "--save-steps", 10)
    killed = start(*shared, "--out", "o")
    wait_for_step(25, killed, tmp_path / "o/log.jsonl")
    killed.send_signal(signal.SIGKILL)
    killed.communicate(timeout=60)
    assert killed.returncode == -signal.SIGKILL

    stopped = start("--out", "o", "--resume")
    wait_for_step(45, stopped, tmp_path / "o/log.jsonl")
    stopped.send_signal(signal.SIGTERM)
    _, told = stopped.communicate(timeout=120)
    assert stopped.returncode == 128 + signal.SIGTERM
    assert "Go on with: rolecraft sft --out o --resume" in told

    assert cli("sft", "--out", "o", "--resume").code == 0
    assert cli("sft", *shared, "--out", "whole").code == 0
    assert curve("o") == curve("whole")
    assert len(curve("o")) == 120
    weights = [Path(folder, "adapter_model.safetensors").read_bytes() for folder in ("o", "whole")]
    assert weights[0] == weights[1]


def test_a_run_in_the_terminal_is_listed_as_it_ended(cli, process, base, talk, tmp_path):
    """Stopped, or failed in one of its processes: neither is a run that has finished."""
    over = threading.Event()

    def stop() -> None:
        log = tmp_path / "stopped/log.jsonl"
        while not over.wait(0.01):
            if log.exists() and log.stat().st_size:
                os.kill(os.getpid(), signal.SIGTERM)
                return

    stopper = threading.Thread(target=stop)
    stopper.start()
    given = ("--model", base, "--data", talk, "--epochs", 10_000, "--rank", 4)
    stopped = cli("sft", *given, "--out", "stopped")
    over.set()
    stopper.join()
    assert stopped.code == ExitCode.STOPPED, stopped.err
    assert "Go on with: rolecraft sft --out stopped --resume" in stopped.err

    failed = process("sft", "--model", base, "--data", "none.jsonl", "--out", "f", "--processes", 2)
    assert failed.code == ExitCode.ERROR, failed.err

    listed = cli("runs", "list", "--json").lines
    states = {Path(row["output"]).name: (row["state"], row["exit_code"]) for row in listed}
    assert states == {"stopped": ("stopped", 143), "f": ("failed", 1)}


@pytest.mark.slow
def test_two_processes_train_one_adapter_together(process, base, talk):
    """With half the batch each, so that a step sees as many samples as one process would."""
    shared = ("--model", base, "--data", talk, "--epochs", 2, "--accumulate", 1, "--rate", 0.02)
    shared = (*shared, "--dropout", 0, "--rank", 4, "--save-steps", 2, "--eval-share", 0)
    two = process("sft", *shared, "--batch", 2, "--out", "two", "--processes", 2)
    assert two.code == 0, two.err
    one = process("sft", *shared, "--batch", 4, "--out", "one")
    assert one.code == 0, one.err
    losses = [[line["loss"] for line in curve(folder)] for folder in ("two", "one")]
    assert losses[0] == pytest.approx(losses[1], abs=1e-4)
    assert [line["tokens"] for line in curve("two")] == [line["tokens"] for line in curve("one")]
    assert Path("two/checkpoints/checkpoint-6/rng_state_1.pth").exists()
    Path("two/summary.json").unlink()
    again = process("sft", "--out", "two", "--resume", "--processes", 2)
    assert again.code == 0, again.err
    assert os.path.exists("two/summary.json")
