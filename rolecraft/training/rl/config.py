"""A whole training as one file: `rolecraft train --config relay.yaml`.

Invariant: a config that exists can be trained with, as far as that is known without loading the
model and the scenario: unknown names, values and combinations are refused with the reason.
"""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from rolecraft.environments.task import TaskSource
from rolecraft.errors import RolecraftError, UsageError
from rolecraft.models.base import Sampling
from rolecraft.rollouts import PipelineSettings
from rolecraft.training.algorithms.settings import FROM_SCRATCH, Algorithm
from rolecraft.training.credit.settings import Credit
from rolecraft.training.rl.config_files import seen_from_here
from rolecraft.training.rl.settings import (
    FROM_SCRATCH_NAME,
    adapters_of,
    algorithm_of,
    credit_of,
    limits_of,
)
from rolecraft.trajectories.whole_file import write_whole

CONFIG = "train.json"
"""In the folder of a training that a config began: the config."""

_STARTED_IN = "started_in"
"""In `train.json`: the folder that names of files are relative to, as seen from its own."""

_Settings = Mapping[str, Any]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SubsetConfig(_Part):
    """Only tasks whose pass rate in recorded runs is in [low, high]."""

    runs: list[str] = Field(min_length=1)
    """Folders that `rolecraft rollout` wrote."""
    low: float = Field(0.1, ge=0, le=1)
    high: float = Field(0.9, ge=0, le=1)
    solved: float = 1.0
    """The least reward of an attempt that passed."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.low > self.high:
            raise ValueError(f"`low` is {self.low:g} and `high` {self.high:g}: swap them")
        return self


class CurriculumConfig(_Part):
    """Prefer tasks that are solved half the time: `rolecraft.training.rl.curriculum`."""

    pool: int = Field(4, ge=1)
    solved: float = 1.0
    memory: float = Field(0.9, gt=0, le=1)
    floor: float = Field(0.02, gt=0, le=1)
    by_cost: bool = False


class DataConfig(_Part):
    """Which of the scenario's tasks are trained on."""

    subset: SubsetConfig | None = None
    curriculum: CurriculumConfig | bool = False


class StageConfig(DataConfig):
    """A data stage."""

    steps: int | None = Field(None, ge=1)
    """None, of the last stage: as many as there are left."""


class TrainConfig(DataConfig):
    """What `rolecraft train` reads from a file; options of the command line override it."""

    scenario: str
    """Name of a scenario, or FILE.py:NAME."""
    reward: str | None = None
    """FILE.py:NAME of a reward, or the folder of a learned one, instead of the scenario's."""
    model: str | None = None
    """Folder or hub name of the model to start from; None: the scenario's untrained one."""
    out: str = "trained"
    steps: int = Field(60, ge=1)
    tasks_per_step: int = Field(64, ge=1)
    until: float | None = None
    freeze: list[str] = []
    seed: int = Field(0, ge=0)
    algorithm: str | _Settings | None = None
    """Name of a published algorithm, or its `name` with settings changed. None: that for a model
    from scratch where there is no `model`, else `Algorithm()`."""
    credit: str | _Settings | None = None
    adapters: bool | _Settings | None = None
    """One LoRA adapter per role: true, or settings of `AdapterSettings`."""
    sampling: _Settings | None = None
    """`temperature`, `top_p`, `max_tokens` wherever the scenario leaves them open."""
    thinking: dict[str, bool] = {}
    """Role -> whether it thinks before it answers; others do as the chat template has it."""
    limits: _Settings | None = None
    """Of each episode, instead of the scenario's: `rounds`, `calls`, `tokens`, `seconds`, `usd`."""
    asynchronous: bool = False
    max_staleness: int = Field(1, ge=0)
    pipeline: _Settings | None = None
    refills: int = Field(2, ge=0)
    checkpoint_steps: int = Field(20, ge=1)
    keep: int = Field(2, ge=1)
    keep_episodes: bool = False
    trackers: list[str] = []
    stages: list[StageConfig] = []
    """Data stages, one after the other, instead of `subset` and `curriculum`."""
    threads: int = Field(1, ge=1)

    @model_validator(mode="after")
    def _check(self) -> Self:
        made = algorithm_of(self.algorithm)
        try:
            credit_of(self.credit).check(made)
            adapters_of(self.adapters, ["role"] if self.adapters is True else _roles(self.adapters))
            limits_of(self.limits)
            if self.pipeline is not None:
                PipelineSettings.from_dict(self.pipeline)
            self.make_sampling()
        except RolecraftError as error:
            raise ValueError(str(error)) from error
        if self.stages and (self.subset or self.curriculum):
            raise ValueError("`subset` and `curriculum` belong into each of the `stages`")
        for number, stage in enumerate(self.stages[:-1], start=1):
            if stage.steps is None:
                raise ValueError(
                    f"stage {number} of {len(self.stages)} has no `steps`, so the next is never "
                    f"reached"
                )
        known = ("tensorboard", "wandb", "trackio")
        for name in self.trackers:
            if name not in known:
                raise ValueError(f"`trackers`: {name!r} is none of {list(known)}")
        if self.max_staleness > 1 and not self.asynchronous:
            raise ValueError("`max_staleness` is of an asynchronous training: set `asynchronous`")
        return self

    @classmethod
    def read(cls, path: Path, overrides: Mapping[str, Any] | None = None) -> Self:
        """The config in a YAML or JSON file, with some settings overridden.

        In that of a training, names of files are as they are seen from the current folder. Raises
        `UsageError` with the file, the setting and the reason.
        """
        data = _read(path)
        if path.name == CONFIG and isinstance(start := data.pop(_STARTED_IN, None), str):
            data = seen_from_here(data, path.parent.resolve() / start)
        return cls.of({**data, **(overrides or {})}, where=f"`{path}`")

    @classmethod
    def of(cls, data: Mapping[str, Any], *, where: str = "The config") -> Self:
        """The config from plain data. Raises `UsageError` with the setting and the reason."""
        try:
            return cls.model_validate(dict(data))
        except ValidationError as error:
            reasons = "; ".join(_reason(each) for each in error.errors())
            end = "" if reasons.endswith("?") else "."
            raise UsageError(f"{where}: {reasons}{end}") from error
        except UsageError as error:
            raise UsageError(f"{where}: {error}") from error

    def save(self, folder: Path) -> None:
        """Write `train.json`, for `read`, also from another folder. Raises `OSError`.

        It has the way from `folder` to the current one, so that both can be moved together.
        """
        way = {_STARTED_IN: os.path.relpath(Path.cwd(), folder.resolve())}
        text = json.dumps({**way, **self.model_dump(mode="json")}, indent=1, ensure_ascii=False)
        write_whole(folder / CONFIG, text + "\n")

    # --- what it is made into -----------------------------------------------------------------

    def make_algorithm(self) -> Algorithm | None:
        """None where the training is to take its own default; of an untrained model with `lent`."""
        if self.algorithm is None:
            return None
        return algorithm_of({**self._algorithm(), **self.lent()})

    def lent(self) -> dict[str, float]:
        """What the untrained model takes from `FROM_SCRATCH`, where a preset has no learning rate.

        Presets are made for large trained models, whose learning rates leave a tiny one as it is.
        """
        given = self._algorithm()
        scratch = given.get("name") == FROM_SCRATCH_NAME
        if self.model is not None or self.algorithm is None or scratch or "learning_rate" in given:
            return {}
        names = ("learning_rate", "epochs", "entropy")
        return {name: getattr(FROM_SCRATCH, name) for name in names if name not in given}

    def with_learning_rate(self, rate: float) -> Self:
        """The same with another learning rate. Raises `UsageError` for what is none."""
        given = self._algorithm()
        if self.algorithm is None and self.model is None:
            given = {"name": FROM_SCRATCH_NAME}
        changed = {**self.model_dump(), "algorithm": {**given, "learning_rate": rate}}
        return self.of(changed, where="`--learning-rate`")

    def _algorithm(self) -> dict[str, Any]:
        if isinstance(self.algorithm, str):
            return {"name": self.algorithm}
        return dict(self.algorithm or {})

    def make_credit(self) -> Credit | None:
        return None if self.credit is None else credit_of(self.credit)

    def make_pipeline(self) -> PipelineSettings | None:
        return None if self.pipeline is None else PipelineSettings.from_dict(self.pipeline)

    def make_sampling(self) -> Sampling | None:
        """Raises `UsageError` for what is no way to sample, or none to learn from."""
        if self.sampling is None:
            return None
        known = ("temperature", "top_p", "max_tokens")
        for name in self.sampling:
            if name not in known:
                raise UsageError(f"`sampling.{name}` is none of {list(known)}.")
        if self.sampling.get("temperature") == 0:
            raise UsageError(
                "`sampling.temperature` is 0: the likeliest answer is no random choice, and there "
                "is nothing to learn from it."
            )
        return Sampling(**self.sampling)

    def make_tasks(self, source: TaskSource) -> Any:
        """The tasks to train on: a source or a chooser; None for all of the scenario's."""
        from rolecraft.training.rl.stages import Stage, Stages

        if self.stages:
            return Stages([Stage(_tasks(each, source), each.steps) for each in self.stages])
        return _tasks(self, source)


def _tasks(config: DataConfig, source: TaskSource) -> Any:
    from rolecraft.training.rl.curriculum import Curriculum
    from rolecraft.training.rl.stages import OnlyTasks
    from rolecraft.training.rl.subset import pass_rates, subset

    tasks = source
    if config.subset is not None:
        rates = pass_rates(config.subset.runs, solved=config.subset.solved)
        ids = subset(rates, low=config.subset.low, high=config.subset.high)
        tasks = OnlyTasks(source, ids)
    if config.curriculum is True:
        return Curriculum(tasks)
    if config.curriculum:
        return Curriculum(tasks, **config.curriculum.model_dump())
    return tasks


def _roles(adapters: bool | _Settings | None) -> Sequence[str]:
    """Whoever the adapters' settings name, so that they can be checked without the team."""
    found: dict[str, None] = {}
    for setting in ("starts", "learning_rates", "kl", "frozen"):
        named = adapters.get(setting, ()) if isinstance(adapters, Mapping) else ()
        found |= dict.fromkeys(map(str, named))
    # A team has somebody who is trained; which one, only the scenario can say.
    return [*found, "role" if "role" not in found else "another role"]


def _reason(error: Any) -> str:
    place = ".".join(map(str, error["loc"]))
    if error["type"] == "extra_forbidden" and len(error["loc"]) == 1:
        near = difflib.get_close_matches(place, TrainConfig.model_fields, n=1)
        return f"`{place}` is no setting" + (f"; did you mean `{near[0]}`?" if near else "")
    text = str(error["msg"]).removeprefix("Value error, ").rstrip(".")
    return f"`{place}`: {text}" if place else text


def _read(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"The config `{path}` cannot be read: {reason}.") from error
    try:
        if path.suffix == ".json":
            data = json.loads(text)
        else:
            import yaml  # type: ignore[import-untyped]  # comes with LiteLLM

            data = yaml.safe_load(text)
    except Exception as error:  # each of the two has errors of its own
        reason = " ".join(str(error).split())
        raise UsageError(f"The config `{path}` is not valid: {reason}.") from error
    if not isinstance(data, dict):
        raise UsageError(f"The config `{path}` is no list of settings by name.")
    return data
