"""Every example runs with one command, as a process of its own, without a key."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from rolecraft import Trajectory

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
ESSENTIAL = {
    "relay.py": ["relay.correct = 1", "reward = 1", "Stopped: finished; 2 model calls"],
    "tutorial_assistant.py": [
        "Reviewer: Not accepted.",
        "Reviewer: Accepted.",
        "1. [The idea](#1-the-idea)",
        "`find([2, 3, 5], 4)` gives 2",
        "Stopped: idle; 6 model calls",
    ],
    "tutorial_assistant.py --language Chinese": ["1. [思路](#1-思路)", "## 2. 程序"],
    "debate.py": [
        "Judge: Still open: whether a small team needs separate permissions",
        "Judge: one repository  [sure: True, confidence: 0.85]",
        "Stopped: finished; 8 model calls",
    ],
    "panel.py": ["debate.corrected = 2", "debate.correct = 1", "Stopped: finished; 6 model calls"],
    "panel.py --form debate": ["Ben: It is 1000.", "debate.correct = 1", "Stopped: finished"],
    "maths_chat.py": ["answer.correct of Assistant = 1", "Stopped: finished"],
    "maths_chat.py --form prompt": ["answer.correct of Assistant = 1", "Stopped: finished"],
    "maths_chat.py --form voting": ["[won: True, votes: 2, of: 3]", "Stopped: finished"],
    "maths_chat.py --form team": ["answer.correct of Verifier = 1", "Stopped: finished"],
    "software_company.py": ["tests.failed = 0", "reward = 1", "Stopped: idle"],
    "software_company.py --cyclic": ["tests.failed = 0", "reward = 1", "Stopped: finished"],
}
"""By what is typed behind `python examples/`: lines of the output that must be there."""
IN_SANDBOX = ("maths_chat.py", "software_company.py")


def start(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run an example with `folder` as its working folder; there is no key anywhere."""
    name, *options = shlex.split(command)
    return subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / name, *options],
        cwd=folder,
        env={"HOME": str(folder), "PATH": "/usr/local/bin:/usr/bin:/bin", "PYTHONUTF8": "1"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )


def run(command: str, folder: Path) -> str:
    """What an example prints that must succeed."""
    done = start(command, folder)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return done.stdout


@pytest.mark.parametrize("command", ESSENTIAL)
def test_an_example_runs_and_shows_what_it_is_for(
    command: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if command.startswith(IN_SANDBOX):
        request.getfixturevalue("needs_program")("bwrap", package="bubblewrap")
    printed = run(command, tmp_path)
    for line in ESSENTIAL[command]:
        assert line in printed
    assert "no language model" in printed


def test_every_example_is_run_here_and_is_in_the_list_with_its_command() -> None:
    page = (EXAMPLES / "README.md").read_text("utf-8")
    listed = re.findall(r"\| `python examples/([^`]+)` \|", page)
    files = {path.name for path in EXAMPLES.glob("*.py") if path.name[0] != "_"}
    assert {command.split()[0] for command in listed} == files
    assert set(listed) <= set(ESSENTIAL)


def test_saved_runs_can_be_read_and_documents_are_written(tmp_path: Path) -> None:
    run("tutorial_assistant.py --out weather.md --save runs", tmp_path)
    assert (tmp_path / "weather.md").read_text("utf-8").startswith("# Binary search\n")
    (journal,) = (tmp_path / "runs").iterdir()
    assert Trajectory.load(journal).stop_reason == "idle"


@pytest.mark.parametrize(
    ("command", "error"),
    [
        ("debate.py --model nonsense", r"error: 'nonsense' names no model\."),
        ("software_company.py --model openai/gpt-4o-mini", "error: No API key for the model"),
    ],
)
def test_what_goes_wrong_is_one_line(command: str, error: str, tmp_path: Path) -> None:
    done = start(command, tmp_path)
    assert done.returncode == 1
    assert re.fullmatch(rf"{error}.*\n", done.stderr)


@pytest.mark.parametrize("example", ["debate.py", "tutorial_assistant.py"])
def test_a_stand_in_is_given_no_task_that_it_does_not_know(example: str, tmp_path: Path) -> None:
    """It would play its own, and look like a team that does not listen."""
    done = start(f"{example} --task 'the rules of chess'", tmp_path)
    assert done.returncode == 2
    assert "`--task` goes with `--model`" in done.stderr


@pytest.mark.parametrize("target", ["debate.py:team", "tutorial_assistant.py:chinese"])
def test_the_command_runs_a_team_of_an_example(target: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "rolecraft.cli", "run", f"{EXAMPLES}/{target}", "--task", "which?"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Stopped:" in done.stdout
    assert (tmp_path / "runs").is_dir()
