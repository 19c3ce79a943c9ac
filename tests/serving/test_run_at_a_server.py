"""`rolecraft run --base-url`: the roles of a scenario ask a server's models, each its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rolecraft.trajectories import load as load_run

SCENARIO = """
from rolecraft import Action, Role
from rolecraft.environments import Task, TaskEnvironment
from rolecraft.models import Sampling
from rolecraft.rewards import Signals, reward
from rolecraft.scenarios import Scenario
from rolecraft.trajectories import Signal


class Greet(Action):
    async def run(self, history):
        return await self.ask(
            history[-1].content, sampling=Sampling(temperature=0.0, max_tokens=20)
        )


class Greeter(Role):
    actions = [Greet]


class Greetings(TaskEnvironment):
    async def grade(self):
        said = [event.content for event in self.trajectory.of("message")][-1]
        return [Signal("polite", float(said == "Hello to you."))]


class Tasks:
    def sample(self, count, *, seed=0, split="train"):
        return [Task("greet", "Hello")]


@reward
def polite(signals: Signals) -> float:
    return signals["polite"]


scenario = Scenario(
    name="greetings",
    team=lambda: [Greeter()],
    environment=Greetings,
    tasks=Tasks(),
    reward=polite,
)
"""


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """`run(...)`: the command in a process of its own, with the key of the server."""
    (tmp_path / "greetings.py").write_text(SCENARIO)

    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "rolecraft.cli", "run", "greetings.py:scenario"]
        return subprocess.run(
            [*command, *arguments, "--json"],
            cwd=tmp_path,
            env={**os.environ, "OPENAI_API_KEY": "sk-test"},
            capture_output=True,
            encoding="utf-8",
            timeout=300,
        )

    return call


def test_the_roles_of_a_scenario_ask_the_models_of_a_server(
    run: Callable[..., subprocess.CompletedProcess[str]],
    load: Callable[..., Any],
    serve: Callable[..., Any],
    tmp_path: Path,
) -> None:
    server = serve(load(), keys=["sk-test"])
    done = run("--base-url", server.url, "--model", "openai/tiny")
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert (record["message"], record["reward"]) == ("Hello to you.", 1.0)
    [call] = load_run(tmp_path / record["journal"]).of("model_call")
    assert call.data["model"] == "openai/tiny"
    # A role's own model goes to the same server, which has none of that name.
    lost = run(
        "--base-url", server.url, "--model", "openai/tiny", "--role-model", "Greeter=openai/other"
    )
    assert lost.returncode == 1
    assert "other" in lost.stderr
    assert "tiny" in lost.stderr
