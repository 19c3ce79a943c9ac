"""The training loop: play, score, compare, update, and again with the new weights.

for each step:
    play `group` attempts at each of `tasks_per_step` tasks
    advantage of a role in an attempt = its reward against the group's
    update the weights on the tokens that the roles sampled

An asynchronous training does the same with episodes that go on while the weights are updated.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rolecraft.environments.task import Task, TaskSource
from rolecraft.errors import UsageError
from rolecraft.models.base import Sampling
from rolecraft.models.limits import Limits
from rolecraft.models.sampled import Sampled
from rolecraft.models.thinking import Thinking
from rolecraft.models.transformers_model import TransformersModel
from rolecraft.rollouts import PipelineSettings
from rolecraft.rollouts.heap import set_aside
from rolecraft.scenarios import Scenario
from rolecraft.training.algorithms.settings import FROM_SCRATCH, Algorithm
from rolecraft.training.credit.counterfactual import check_scale
from rolecraft.training.credit.ema import CreditState
from rolecraft.training.credit.settings import Credit
from rolecraft.training.policy.adapter_settings import AdapterSettings
from rolecraft.training.policy.trainer import UpdateStats
from rolecraft.training.rl.checks import (
    check_adapters,
    check_base,
    check_numbers,
    check_thinking,
    frozen_models,
    policy,
)
from rolecraft.training.rl.garbage import garbage_waits
from rolecraft.training.rl.learner import Learner, learner_of
from rolecraft.training.rl.metrics import step_record
from rolecraft.training.rl.playing import REFILLS, Player
from rolecraft.training.rl.records import StepRecord, TaskRecord, TrainingRun, finite_mean
from rolecraft.training.rl.run_folder import RunFolder
from rolecraft.training.rl.schedule import Replay, Schedule
from rolecraft.training.rl.scoring import Scorer, says_something, unplaced
from rolecraft.training.rl.sources import Source, Together
from rolecraft.training.rl.stages import Chooser, chooser
from rolecraft.training.rl.stream import Stream

if TYPE_CHECKING:
    from rolecraft.models.base import Model
    from rolecraft.training.rl.trackers import Tracker

SMOOTHING = 10
"""Steps whose mean reward `until` looks at."""


async def train(
    scenario: Scenario,
    *,
    model: TransformersModel | None = None,
    algorithm: Algorithm | None = None,
    credit: Credit | None = None,
    adapters: AdapterSettings | None = None,
    sampler: Any = None,
    sampling: Sampling | None = None,
    thinking: Mapping[str, bool] | None = None,
    limits: Limits | None = None,
    steps: int = 60,
    tasks_per_step: int = 64,
    tasks: TaskSource | Chooser | None = None,
    frozen: Collection[str] = (),
    seed: int = 0,
    until: float | None = None,
    asynchronous: bool = False,
    max_staleness: int = 1,
    pipeline: PipelineSettings | None = None,
    refills: int = REFILLS,
    folder: str | Path | None = None,
    checkpoint_steps: int = 20,
    keep: int = 2,
    keep_episodes: bool = False,
    resume: bool = False,
    replay: str | Path | None = None,
    trackers: Sequence[Tracker] = (),
    stop: Callable[[], bool] = lambda: False,
    warn: Callable[[str], None] = lambda text: None,
    on_step: Callable[[StepRecord], None] | None = None,
    on_tasks: Callable[[Sequence[TaskRecord]], None] | None = None,
) -> TrainingRun:
    """Train the roles of `scenario`: all of them share the weights of `model`, or each has one of
    the `adapters` on it.

    Without `model`, the scenario's untrained one is taken, and `algorithm` is `FROM_SCRATCH`
    instead of `Algorithm()`. `credit` says how rewards become the roles' advantages. Roles named in
    `frozen` choose uniformly among the answers they are offered and are not trained. `sampler` is
    another engine with the same base that the adapters are swapped into, such as a `VLLMModel`.
    `sampling` says how to sample where the scenario leaves it open, `thinking` which roles think
    before they answer, or do not (others do as the chat template has it), `limits` what an episode
    may cost instead of what the scenario says.
    `tasks` are those to train on, by default the scenario's: a source, `Stages` of several, or a
    `Curriculum`. Training ends after `steps`, once the mean reward of the last ten steps reaches
    `until`, or when `stop` says so after a step; `on_step` and `trackers` hear of each step as it
    ends, and `on_tasks` of the tasks of each that no step before it had, before they are played.

    The same arguments on the same machine give the same weights, unless `asynchronous`: then
    episodes go on while the weights are updated, and one whose oldest token is more than
    `max_staleness` policy versions old is dropped and played again. With `keep_episodes`, `folder`
    gets all that a later training needs to `replay` that schedule, which gives the same weights.

    Attempts that the surroundings failed are left out and played again at most `refills` times;
    when all of a step raise, so does `train`. `pipeline` bounds what is played at once.

    With a `folder`, curve, tasks and a checkpoint every `checkpoint_steps` steps are written there,
    of which the last `keep` are kept. `resume` goes on from the last good one: the same arguments
    then give the same weights as without an interruption, whenever it came.

    Raises `UsageError` for arguments that cannot be meant, `TrainingDiverged` when numbers go
    wrong step after step, `CheckpointError` for a disk that takes nothing more.
    """
    check_numbers(
        steps=(steps, 0),
        tasks_per_step=(tasks_per_step, 1),
        max_staleness=(max_staleness, 0),
        refills=(refills, 0),
        checkpoint_steps=(checkpoint_steps, 1),
        keep=(keep, 1),
    )
    if folder is None and (resume or keep_episodes):
        name = "resume" if resume else "keep_episodes"
        raise UsageError(f"`train({name}=True)` wants the `folder` to write to.")
    if algorithm is None:
        algorithm = FROM_SCRATCH if model is None else Algorithm()
    if credit is not None and credit.reward == "counterfactual":
        check_scale(scenario)
    model = policy(scenario, model, seed)
    role_models = frozen_models(scenario, frozen)
    home = None if folder is None else Path(folder)
    if adapters is not None:
        check_adapters(scenario, adapters, frozen)
        check_base(model)
    ahead = asynchronous or replay is not None
    learner = learner_of(model, algorithm, adapters, sampler=sampler, folder=home, ahead=ahead)
    asked: Model = model if sampler is None else sampler
    if thinking:
        check_thinking(scenario, thinking, frozen)
        asked = Thinking(asked, thinking)
    if sampling is not None:
        asked = Sampled(asked, sampling)
    scorer = Scorer(
        scenario,
        learner,
        credit,
        model=asked,
        frozen=[*frozen],
        limits=limits,
        live=None if pipeline is None else pipeline.live,
    )
    player = Player(
        scenario,
        model=asked,
        role_models=role_models,
        settings=pipeline,
        refills=refills,
        ungraded=scorer.credit.ungraded,
        limits=limits,
        warn=warn,
    )
    loop = Loop(learner=learner, scorer=scorer, steps=steps, until=until, stop=stop, warn=warn)
    loop.heard = [*filter(None, [on_step]), *(tracker.step for tracker in trackers)]
    loop.on_tasks = on_tasks
    loop.scenario = scenario.name
    if home is not None:
        about = {
            "scenario": scenario.name,
            "seed": seed,
            "tasks_per_step": tasks_per_step,
            "frozen": sorted(frozen),
            "algorithm": algorithm,
            "credit": scorer.credit,
            "adapters": adapters,
            "asynchronous": asynchronous,
            "max_staleness": max_staleness if asynchronous else None,
            "sampling": sampling,
            "thinking": dict(sorted(thinking.items())) if thinking else None,
            "limits": limits,
        }
        loop.folder = RunFolder(home, about, resume=resume, keep=keep, warn=warn)
        loop.checkpoint_steps = checkpoint_steps
        if asynchronous:
            loop.schedule = Schedule(home, steps=len(loop.folder.records), keep=keep_episodes)
    drawn: dict[str, Any] = {
        "tasks_per_step": tasks_per_step,
        "group": algorithm.group,
        "seed": seed,
        "on_chosen": loop.chosen,
    }
    chosen = chooser(tasks or scenario.tasks)
    source: Source
    if replay is not None:
        source = Replay(Path(replay), learner)
    elif asynchronous:
        drawn |= {"max_staleness": max_staleness, "refills": refills, "settings": pipeline}
        source = Stream(player, chosen, learner, **drawn)
    else:
        source = Together(player, chosen, **drawn)
    began = time.process_time()
    try:
        with set_aside():
            stopped = await loop.run(source)
    finally:
        learner.close()
        if loop.folder is not None:
            loop.folder.close()
    return TrainingRun(
        model,
        loop.records,
        time.process_time() - began,
        list(loop.tasks),
        stopped=stopped,
        learner=learner,
    )


@dataclass(slots=True, kw_only=True)
class Loop:
    """One training: what it has done, and who hears of it."""

    learner: Learner
    scorer: Scorer
    steps: int
    until: float | None
    stop: Callable[[], bool]
    warn: Callable[[str], None] = lambda text: None
    scenario: str = ""
    heard: Sequence[Callable[[StepRecord], None]] = ()
    on_tasks: Callable[[Sequence[TaskRecord]], None] | None = None
    folder: RunFolder | None = None
    schedule: Schedule | None = None
    checkpoint_steps: int = 1
    records: list[StepRecord] = field(default_factory=list)
    _told: set[str] = field(default_factory=set)
    """Names in `Credit.steps` that placed nothing once."""
    tasks: dict[TaskRecord, None] = field(default_factory=dict)

    async def run(self, source: Source) -> bool:
        """All steps; whether it was told to stop before the last."""
        if self.folder is not None and self.folder.state:
            self._take_up(self.folder, source)
        before = self.records[-1].cpu_seconds if self.records else 0.0
        began = time.process_time()
        await self.learner.start()
        stopped = False
        async with source:
            for step in range(len(self.records), self.steps):
                if self._reached():
                    break
                with garbage_waits():
                    record = await self._step(source, step)
                spent = before + time.process_time() - began
                self._add(replace(record, cpu_seconds=spent))
                last = step + 1 == self.steps or self._reached()
                stopped = not last and self.stop()
                due = (step + 1) % self.checkpoint_steps == 0
                if self.folder is not None and (due or last or stopped):
                    self.folder.checkpoint(self._state(source))
                if stopped:
                    break
        return stopped

    async def _step(self, source: Source, step: int) -> StepRecord:
        """Play, score, update."""
        played = await source.next(step)
        version = self.learner.version
        scored = await self.scorer.score(source, step, played)
        if scored.unscored and not scored.sequences:
            raise UsageError(
                f"No reward of step {step} is a finite number, for any of {len(played.episodes)} "
                f"episodes: mend the reward of scenario `{self.scenario}`. The first: "
                f"`{scored.unscored[0]}`."
            )
        for name, why in unplaced(scored, played.episodes).items():
            if name not in self._told:
                self._told.add(name)
                self.warn(f"{why} This is said once, of step {step + 1}.")
        self.learner.check(scored.sequences)
        if self.schedule is not None:
            self.schedule.add(step, self.learner, played)
        began = time.monotonic()
        stats = UpdateStats()
        silent = not scored.sequences and scored.silent_tasks
        if not silent and says_something(scored.sequences, self.learner.trainer.policy):
            stats = await self.learner.learn(scored.sequences)
        seconds = time.monotonic() - began
        source.learnt(played)
        return step_record(
            step,
            version,
            played,
            [s for s in scored.sequences if self.learner.trains(s.role)],
            stats,
            unscored=scored.unscored,
            groups=scored.groups,
            silent_groups=scored.silent_groups,
            trainer_seconds=seconds,
        )

    def chosen(self, tasks: Sequence[Task]) -> None:
        """Tell of those that are new."""
        named = dict.fromkeys(TaskRecord(task.id, task.prompt) for task in tasks)
        new = [task for task in named if task not in self.tasks]
        self.tasks |= dict.fromkeys(new)
        if self.folder is not None:
            self.folder.add_tasks(new)
        if self.on_tasks is not None:
            self.on_tasks(new)

    def _add(self, record: StepRecord) -> None:
        self.records.append(record)
        if self.folder is not None:
            self.folder.add(record)
        for hear in self.heard:
            hear(record)

    def _reached(self) -> bool:
        recent = [record.reward for record in self.records[-SMOOTHING:]]
        enough = self.until is not None and len(recent) == SMOOTHING
        return enough and finite_mean(recent) >= self.until  # type: ignore[operator]

    def _state(self, source: Source) -> dict[str, Any]:
        return {
            "learner": self.learner.state(),
            "source": source.state(),
            "credit": self.scorer.state.to_dict(),
        }

    def _take_up(self, folder: RunFolder, source: Source) -> None:
        self.learner.load_state(folder.state["learner"])
        source.load_state(folder.state["source"])
        self.scorer.state = CreditState.from_dict(folder.state["credit"])
        self.records = list(folder.records)
        self.tasks = dict.fromkeys(folder.tasks)
