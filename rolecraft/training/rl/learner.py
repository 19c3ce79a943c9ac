"""Where the trainer's weights and the sampler's meet.

Invariant: what the sampler answers with under a version is what the trainer had when it published
that version, and `version` rises by one with each update. A learner says which tokens it may be
taught: those that a version of its own sampled.
"""

from __future__ import annotations

import asyncio
import copy
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from rolecraft.errors import AdapterError, UsageError
from rolecraft.models.adapters import Adapters, AdapterVersion, digest_of
from rolecraft.models.torch_extra import torch
from rolecraft.models.transformers_model import TransformersModel
from rolecraft.training.algorithms.settings import Algorithm
from rolecraft.training.policy.adapter_settings import AdapterSettings
from rolecraft.training.policy.sequences import TrainingSequence
from rolecraft.training.policy.trainer import Trainer, UpdateStats
from rolecraft.training.rl.records import ADAPTERS

Out = TypeVar("Out")


class Sampler(Protocol):
    """A model that adapters can be swapped into while it serves."""

    adapters: Adapters

    async def load_adapter(
        self, role: str, path: str | Path, *, version: int | None = None
    ) -> AdapterVersion: ...


class Learner(Protocol):
    """A trainer and the sampler that its weights go to."""

    trainer: Trainer

    @property
    def version(self) -> int:
        """Of the policy that the next calls get."""
        ...

    async def start(self) -> None:
        """Let the sampler serve what the trainer has. Called once, before anything is played."""
        ...

    async def think(self, work: Callable[[], Out]) -> Out:
        """Have the trainer compute something, in the thread that updates."""
        ...

    async def learn(self, sequences: Sequence[TrainingSequence]) -> UpdateStats:
        """Update on scored sequences and publish the next version."""
        ...

    def trains(self, role: str) -> bool:
        """Whether the tokens of this role are learnt from."""
        ...

    def check(self, sequences: Sequence[TrainingSequence]) -> None:
        """Raise `AdapterError` for tokens that no version of this learner's sampled."""
        ...

    def state(self) -> dict[str, Any]:
        """All that a training goes on from, for `torch.save`."""
        ...

    def load_state(self, state: dict[str, Any]) -> None:
        """What `state` gave; before `start`."""
        ...

    def save(self, folder: Path) -> None:
        """Write what was learnt. Raises `OSError`, or safetensors' error for a full disk."""
        ...

    def close(self) -> None:
        """Remove what was kept for the time of the training only."""
        ...


class SharedWeights:
    """Trainer and sampler have one module: an update runs in the sampler's thread, between two
    batches, and nothing is played meanwhile."""

    def __init__(self, model: TransformersModel, algorithm: Algorithm) -> None:
        self.model = model
        self.trainer = Trainer(model.module, algorithm)

    @property
    def version(self) -> int:
        return self.model.version

    async def start(self) -> None:
        """There is nothing to hand over."""

    async def think(self, work: Callable[[], Out]) -> Out:
        return await self.model.run(work)

    async def learn(self, sequences: Sequence[TrainingSequence]) -> UpdateStats:
        def update() -> UpdateStats:
            stats = self.trainer.update(sequences)
            self.model.version += 1
            return stats

        return await self.model.run(update)

    def trains(self, role: str) -> bool:
        return True

    def check(self, sequences: Sequence[TrainingSequence]) -> None:
        """Tokens of an adapter are not this module's own."""
        for sequence in sequences:
            if any(sequence.adapters):
                raise AdapterError(
                    f"`{sequence.name}` was sampled by the adapter {sequence.adapters[0]!r}, and "
                    f"the model's own weights are trained. Take the adapter out "
                    f"(`model.unload_adapter`), or train it: `train(adapters=...)`."
                )

    def state(self) -> dict[str, Any]:
        return {"version": self.model.version, "trainer": self.trainer.state()}

    def load_state(self, state: dict[str, Any]) -> None:
        self.trainer.load_state(state["trainer"])
        self.model.version = state["version"]

    def save(self, folder: Path) -> None:
        self.model.save(folder)

    def close(self) -> None:
        """Nothing was kept."""


class CopiedWeights(SharedWeights):
    """The trainer updates a copy of its own while the sampler goes on, and hands it over between
    two batches. Takes the memory of a second model."""

    def __init__(self, model: TransformersModel, algorithm: Algorithm) -> None:
        self.model = model
        self._own = copy.deepcopy(model.module)
        self.trainer = Trainer(self._own, algorithm)

    async def start(self) -> None:
        await self.model.run(self._hand_over)

    async def think(self, work: Callable[[], Out]) -> Out:
        return await asyncio.to_thread(work)

    async def learn(self, sequences: Sequence[TrainingSequence]) -> UpdateStats:
        stats = await self.think(lambda: self.trainer.update(sequences))

        def publish() -> None:
            self._hand_over()
            self.model.version += 1

        await self.model.run(publish)
        return stats

    def _hand_over(self) -> None:
        with torch.no_grad():
            theirs = self.model.module.parameters()
            for weight, mine in zip(theirs, self._own.parameters(), strict=True):
                weight.copy_(mine)


class AdapterWeights:
    """One adapter per role on a base that never changes; each update is written to `folder` and
    swapped into the sampler, which says what it got: another digest than the trainer's is an error.

    `sampler` is another engine with the same base, such as a `VLLMModel`; by default `model`
    itself, whose weights the trainer shares.
    """

    def __init__(
        self,
        model: TransformersModel,
        algorithm: Algorithm,
        settings: AdapterSettings,
        *,
        sampler: Sampler | None = None,
        folder: Path | None = None,
    ) -> None:
        self.trainer = Trainer(model.module, algorithm, adapters=settings)
        self._settings = settings
        self._sampler = sampler or model
        self._mine = folder is None
        self._folder = folder or Path(tempfile.mkdtemp(prefix="rolecraft-training-"))
        self._version = 1
        """Version 0 is the base without adapters, which samples nothing here."""
        self._published: dict[str, str] = {}
        """Name that a version is served under -> its role."""

    @property
    def version(self) -> int:
        return self._version

    async def start(self) -> None:
        # What an earlier training left in the sampler keeps its names.
        roles = self._settings.roles
        had = max(self._sampler.adapters.last(role) for role in roles)
        self._version = max(self._version, had + 1)
        await self._publish(roles)

    async def think(self, work: Callable[[], Out]) -> Out:
        return await asyncio.to_thread(work)

    async def learn(self, sequences: Sequence[TrainingSequence]) -> UpdateStats:
        stats = await self.think(lambda: self.trainer.update(sequences))
        self._version += 1
        await self._publish(self._settings.trained)
        return stats

    def trains(self, role: str) -> bool:
        return role in self._settings.trained

    def check(self, sequences: Sequence[TrainingSequence]) -> None:
        for sequence in sequences:
            for name in sequence.adapters if self.trains(sequence.role) else ():
                if self._published.get(name) != sequence.role:
                    raise AdapterError(
                        f"`{sequence.name}` was sampled by {name or 'the base'!r}, which is no "
                        f"version of the adapter of {sequence.role!r} that is trained: swap no "
                        f"adapters into the sampler while it trains."
                    )

    def state(self) -> dict[str, Any]:
        return {"version": self._version, "trainer": self.trainer.state()}

    def load_state(self, state: dict[str, Any]) -> None:
        self.trainer.load_state(state["trainer"])
        self._version = state["version"]

    def save(self, folder: Path) -> None:
        self.trainer.save_adapters(folder)

    def close(self) -> None:
        if self._mine:
            shutil.rmtree(self._folder, ignore_errors=True)

    async def _publish(self, roles: Sequence[str]) -> None:
        paths, trained = await self.think(self._written)
        for role in roles:
            served = await self._sampler.load_adapter(role, paths[role], version=self._version)
            if served.digest != trained[role]:
                raise AdapterError(
                    f"The sampler serves `{served.name}` with digest {served.digest!r}, and "
                    f"{trained[role]!r} was trained: the files in `{self._folder}` were changed in "
                    f"between. Give the training a folder of its own."
                )
            self._published[served.name] = role

    def _written(self) -> tuple[dict[str, Path], dict[str, str]]:
        """The folders of all adapters, and the digests of what the trainer has in memory."""
        adapters = self.trainer.policy.adapters
        assert adapters is not None
        trained = {role: digest_of(adapters.tensors(role)) for role in self._settings.roles}
        return adapters.save(self._folder), trained


def learner_of(
    model: TransformersModel,
    algorithm: Algorithm,
    adapters: AdapterSettings | None,
    *,
    sampler: Sampler | None = None,
    folder: Path | None = None,
    ahead: bool = False,
) -> Learner:
    """The learner of a training; `ahead`: episodes go on while it updates.

    Raises `UsageError` for a `sampler` without adapters to swap into it.
    """
    if adapters is not None:
        where = None if folder is None else folder / ADAPTERS
        return AdapterWeights(model, algorithm, adapters, sampler=sampler, folder=where)
    if sampler is not None:
        raise UsageError(
            "`train(sampler=...)` takes adapters from the trainer, and all weights are trained: "
            "give `adapters=AdapterSettings(roles=[...])`, or leave the sampler out."
        )
    return CopiedWeights(model, algorithm) if ahead else SharedWeights(model, algorithm)
