"""`rolecraft rollout --ray`: the same results as without, in workers of a cluster."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rolecraft import ScriptedModel
from rolecraft.cli._ray import SharedJournals, keep
from rolecraft.cli.main import app
from rolecraft.rollouts import ScenarioStages, rollouts
from rolecraft.rollouts.folder import RolloutFolder
from rolecraft.scenarios.relay import relay
from rolecraft.trajectories import load

SCENARIO = """
import re
from dataclasses import replace
from rolecraft import FunctionModel
from rolecraft.scenarios.relay import relay

def answer(call):
    asked = call.messages[-1].content
    if sums := re.search(r"value ([0-4]) plus ([0-4])", asked):
        return str((int(sums[1]) + int(sums[2])) % 5)
    return asked.split()[1]

def team():
    roles = relay.team()
    for role in roles:
        role.model = FunctionModel(answer, keep_calls=False)
    return roles

easy = replace(relay, name="easy", team=team)
"""


def test_workers_are_those_of_a_cluster(tmp_path: Path) -> None:
    words = ["rollout", "relay", "--workers", "2", "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 2
    assert "`--workers` goes with `--ray`" in result.output


@pytest.mark.parametrize("seen", [True, False])
async def test_a_worker_that_does_not_see_the_folder_sends_the_record_along(
    seen: bool, tmp_path: Path
) -> None:
    model = ScriptedModel(per_role={"planner": ["a"], "executor": ["1"]})
    tasks = relay.tasks.sample(1)
    with RolloutFolder(tmp_path / "out", tasks, 1) as folder:
        (attempt,) = folder.to_play()
        path = folder.journal(attempt)
        results = folder.results if seen else tmp_path / "elsewhere" / "results.jsonl"
        journals = SharedJournals(results=results, paths={(attempt.id, attempt.seed): path})
        stages = ScenarioStages(relay, model=model, journal=journals)
        async with aclosing(rollouts(stages, [attempt])) as done:
            async for rollout in done:
                assert path.exists() is seen
                keep(folder, rollout)
                assert rollout.episode is not None
                whole = rollout.episode.trajectory.save(tmp_path / "whole.jsonl")
                assert load(path).events == load(whole).events


@pytest.mark.slow
def test_the_command_plays_on_a_cluster_of_its_own_and_goes_on_there(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "easy.py").write_text(SCENARIO)

    def rollout(*words: str) -> list[dict[str, Any]]:
        command = [sys.executable, "-m", "rolecraft.cli", "rollout", "project/easy.py:easy"]
        done = subprocess.run(
            [*command, "--tasks", "6", "--live", "3", "--json", *words],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    there = rollout("--ray", "local", "--out", "there")
    assert there[-1]["reward"] == 1.0
    here = rollout("--out", "here")

    def told(rows: list[dict[str, Any]]) -> list[Any]:
        return sorted((row["id"], row["ended"], row["signals"], row["calls"]) for row in rows[:-1])

    assert len(told(here)) == 6
    assert told(there) == told(here)
    for row in here[:-1]:
        one, other = (tmp_path / name / row["journal"] for name in ("here", "there"))
        assert one.read_bytes() == other.read_bytes()

    results = tmp_path / "there" / "results.jsonl"
    lines = results.read_text().splitlines(keepends=True)
    results.write_text("".join(lines[:4]))
    again = rollout("--ray", "local", "--out", "there", "--resume")
    assert again[-1]["over"] == 6
    assert {row["id"] for row in again[:-1]} == {json.loads(line)["id"] for line in lines[4:]}
