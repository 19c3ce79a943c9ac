"""Which tasks a step gets: stages, a curriculum, and subsets by pass rate."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolecraft.environments import Task
from rolecraft.environments.task import TaskSource
from rolecraft.errors import UsageError
from rolecraft.models.chance import UniformModel
from rolecraft.scenarios.relay import relay
from rolecraft.training.rl.curriculum import Curriculum
from rolecraft.training.rl.playing import Attempt, Player
from rolecraft.training.rl.stages import OnlyTasks, Plain, Stage, Stages, chooser
from rolecraft.training.rl.subset import pass_rates, subset
from rolecraft.trajectories import Event, Trajectory, Usage


class Listed:
    """A source with `count` tasks, drawn in order."""

    def __init__(self, count: int, name: str = "t") -> None:
        self.tasks = [Task(f"{name}{number}", "asked a") for number in range(count)]

    def sample(self, count: int, *, seed: int = 0, split: Any = "train") -> list[Task]:
        return [self.tasks[(seed + number) % len(self.tasks)] for number in range(count)]


async def one_attempt() -> Attempt:
    played = await Player(relay, model=UniformModel(), role_models={}).play(relay.tasks.sample(1))
    return played.rollouts[0]


def tried(attempt: Attempt, task: str, rewards: Sequence[float]) -> list[Attempt]:
    assert attempt.episode is not None
    return [
        replace(
            attempt,
            item=replace(attempt.item, id=task),
            episode=replace(attempt.episode, reward=replace(attempt.episode.reward, value=value)),
        )
        for value in rewards
    ]


async def test_a_curriculum_prefers_what_is_solved_half_the_time() -> None:
    attempt = await one_attempt()
    chosen = Curriculum(Listed(40), pool=10)
    for number in range(40):
        share = number // 10  # a quarter each: never, half of the time, always, and untried
        rewards = {0: [0.0] * 8, 1: [1.0, 0.0] * 4, 2: [1.0] * 8}.get(share, [])
        chosen.learn(tried(attempt, f"t{number}", rewards))
    seen: Counter[int] = Counter()
    for step in range(200):
        tasks = chosen.choose(4, seed=0, step=step)
        assert len({task.id for task in tasks}) == 4
        seen.update(int(task.id[1:]) // 10 for task in tasks)
    assert chosen.chance("t15") == pytest.approx(0.5, abs=0.05)
    assert min(seen[1], seen[3]) > 1.5 * max(seen[0], seen[2])
    assert min(seen.values()) > 0  # the floor: no task is lost for good


async def test_a_curriculum_follows_a_policy_that_learns() -> None:
    attempt = await one_attempt()
    chosen = Curriculum(Listed(1), memory=0.8)
    chosen.learn(tried(attempt, "t0", [0.0] * 30))
    low = chosen.chance("t0")
    chosen.learn(tried(attempt, "t0", [1.0] * 30))
    assert low < 0.2 < 0.8 < chosen.chance("t0")


async def test_by_cost_the_cheaper_of_two_equal_tasks_is_wanted_more() -> None:
    attempt = await one_attempt()
    assert attempt.episode is not None
    chosen = Curriculum(Listed(2), by_cost=True)
    for task, tokens in (("t0", 10), ("t1", 20)):
        call = Event("model_call", usage=Usage(completion_tokens=tokens))
        trajectory = Trajectory("costly", events=[call])
        costly = replace(attempt, episode=replace(attempt.episode, trajectory=trajectory))
        chosen.learn(tried(costly, task, [1.0, 0.0]))
    assert chosen.weight("t0") == pytest.approx(2 * chosen.weight("t1"))
    even = Curriculum(Listed(2))
    even.load_state(chosen.state())
    assert even.weight("t0") == even.weight("t1")


@given(st.integers(0, 1000), st.integers(1, 6))
def test_the_same_seed_step_and_state_give_the_same_choice(seed: int, count: int) -> None:
    one, two = Curriculum(Listed(12)), Curriculum(Listed(12))
    one._seen = {f"t{n}": [4.0, n % 5, 8.0] for n in range(12)}
    two.load_state(json.loads(json.dumps(one.state())))
    names = [[t.id for t in each.choose(count, seed=seed, step=3)] for each in (one, two)]
    assert names[0] == names[1]


def test_stages_follow_each_other_and_the_last_goes_on() -> None:
    stages = Stages([Stage(Listed(3, "a"), 2), Stage(Curriculum(Listed(3, "b")), 1)])
    kinds = [{t.id[0] for t in stages.choose(3, seed=0, step=step)} for step in range(5)]
    assert kinds == [{"a"}, {"a"}, {"b"}, {"b"}, {"b"}]


async def test_only_the_stage_that_played_learns_and_its_state_comes_back() -> None:
    attempt = await one_attempt()

    def made() -> Stages:
        return Stages([Stage(Curriculum(Listed(3)), 1), Stage(Curriculum(Listed(3)))])

    stages, other = made(), made()
    stages.choose(1, seed=0, step=1)
    stages.learn(tried(attempt, "t0", [1.0] * 5))
    other.load_state(json.loads(json.dumps(stages.state())))
    first, second = (stage.tasks for stage in other.stages)
    assert isinstance(first, Curriculum)
    assert isinstance(second, Curriculum)
    assert first.chance("t0") == 0.5 < second.chance("t0")


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: Stages([]), "at least one"),
        (lambda: Stages([Stage(Listed(1)), Stage(Listed(1), 3)]), "never reached"),
        (lambda: Stages([Stage(Listed(1), 0)]), "from 1"),
        (lambda: Curriculum(Listed(1), pool=0), "pool"),
        (lambda: Curriculum(Listed(1), memory=0.0), "memory"),
        (lambda: Curriculum(Listed(1), floor=2.0), "floor"),
        (lambda: OnlyTasks(Listed(3), ["t9"]), "t9"),
        (lambda: OnlyTasks(Listed(3), []), "widen"),
        (lambda: subset({"a": 0.0, "b": 1.0}, low=0.2, high=0.8), "No task has a pass rate"),
        (lambda: subset({"a": 0.5}, low=0.8, high=0.2), "low <= high"),
    ],
)
def test_what_cannot_be_chosen_from_is_refused(wrong: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        wrong()


def test_a_source_is_a_chooser_of_its_own_tasks_and_a_chooser_is_itself() -> None:
    source: TaskSource = Listed(3)
    assert isinstance(chooser(source), Plain)
    curriculum = Curriculum(source)
    assert chooser(curriculum) is curriculum


def results(folder: Path, *rows: tuple[str, str, float | None]) -> Path:
    folder.mkdir(parents=True)
    lines = [json.dumps({"task": t, "ended": e, "reward": r}) + "\n" for t, e, r in rows]
    (folder / "results.jsonl").write_text("".join(lines) + '{"task": "to', "utf-8")
    return folder


def test_pass_rates_are_of_the_team_and_a_torn_line_costs_nothing(tmp_path: Path) -> None:
    """What a machine failed is no attempt; a policy failure without a reward is one that failed."""
    results(
        tmp_path / "one",
        ("easy", "finished", 1.0),
        ("easy", "turns", 1.0),
        ("some", "finished", 1.0),
        ("some", "team", None),
        ("hard", "stuck", 0.0),
        ("lost", "environment", None),
    )
    results(tmp_path / "two", ("some", "finished", 0.0), ("hard", "model", None))
    rates = pass_rates([tmp_path])
    assert rates == {"easy": 1.0, "some": pytest.approx(1 / 3), "hard": 0.0}
    assert subset(rates, low=0.1, high=0.9) == ["some"]
    with pytest.raises(UsageError, match="rolecraft rollout"):
        pass_rates([tmp_path / "nowhere"])


def test_a_subset_is_a_source_of_its_own_tasks() -> None:
    wanted = [*dict.fromkeys(task.id for task in relay.tasks.sample(9))][:5]
    source = OnlyTasks(relay.tasks, wanted)
    drawn = source.sample(10, seed=3)
    assert {task.id for task in drawn} == set(wanted)
    assert Counter(task.id for task in drawn).most_common(1)[0][1] == 2
    assert source.sample(10, seed=3) == drawn != source.sample(10, seed=4)
    with pytest.raises(UsageError, match="split"):
        source.sample(1, split="test")
