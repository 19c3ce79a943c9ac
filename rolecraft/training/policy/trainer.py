"""GRPO and its family: from scored token sequences to better weights.

    for each epoch:
        loss = sum over micro-batches of policy_gradient_loss(new log-probs, recorded ones, …)
        one optimiser step

That is all. What makes one algorithm differ from another is in its settings
(`training/algorithms/settings.py`): how rewards become advantages, how ratios are clipped. The
log-probabilities recorded by the sampler serve as those of the old policy, so no extra pass is
needed, and stale samples are weighed by their true ratio. Where `Algorithm.importance` asks for
the trainer's own, they are those of the first epoch, before its step: no extra pass either.

With adapters, each role is a policy of its own: its loss is divided by what the step holds of that
role, and its gradient is clipped and stepped alone. Only the forward and backward pass are shared.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from rolecraft.errors import RolecraftError, UnknownName, UsageError
from rolecraft.models.torch_extra import torch
from rolecraft.training.algorithms.settings import Algorithm
from rolecraft.training.policy.adapter_settings import AdapterSettings
from rolecraft.training.policy.policy import SHARED, Policy
from rolecraft.training.policy.processes import Processes
from rolecraft.training.policy.sequences import TrainingSequence, actions
from rolecraft.training.policy.sharding import Shard, wanted, whole
from rolecraft.training.policy.stats import RoleStats, Tally, UpdateStats, update_stats
from rolecraft.training.policy.step import Step
from rolecraft.training.policy.weight_groups import WeightGroup

__all__ = ["RoleStats", "Trainer", "TrainingDiverged", "UpdateStats"]

SPOILT_UPDATES = 3
"""After so many updates in a row that had to leave something out, training stops with an error."""


class TrainingDiverged(RolecraftError):
    """Numbers that are not finite spoilt several updates in a row.

    Attribute `skipped`: names of the sequences that were left out of the last one.
    """

    def __init__(self, skipped: Sequence[str], reason: str = "") -> None:
        self.skipped = tuple(skipped)
        named = f"Left out last: {_listed(self.skipped)}. " if self.skipped else ""
        super().__init__(
            f"{SPOILT_UPDATES} updates in a row met numbers that are not finite. {named}"
            f"{reason + '. ' if reason else ''}Look at the rewards and log-probabilities; "
            f"if they are sound, the weights are not: go back to the last good ones "
            f"with a lower `learning_rate`."
        )


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(f"`{name}`" for name in names[:3]) + more


class Trainer:
    """Updates the weights of `module`, a causal language model of transformers, in place.

    With `adapters`, `module` never changes: one LoRA adapter per role is trained on top of it, in
    a model of its own (`self.module`) over the same memory. `reference` is what
    `Algorithm(kl=...)` keeps the policy near; by default what `AdapterSettings(reference=...)` says
    (the base without adapters), or a copy of the weights as they are now. Dropout stays off, so
    that trainer and sampler see one policy. Weights below float32 (bfloat16, as many checkpoints
    are) are trained on float32 copies and rounded into the model after each step, which takes
    twelve further bytes a weight (float32: eight).

    Where torch has a process group, all its processes train one policy: see `processes`. With
    `shard`, each of them has its share of the weights instead of all (see `sharding`): then every
    process calls every method, and `module` is given over. Its weights are shards, or, with
    adapters, it has none any more; a sampler takes `weights()`. Raises `UsageError` for
    `shard=True` in a process that is alone.
    """

    def __init__(
        self,
        module: Any,
        algorithm: Algorithm,
        *,
        reference: Any = None,
        adapters: AdapterSettings | None = None,
        shard: Shard = False,
    ) -> None:
        self.algorithm = algorithm
        self._processes = Processes()
        self.policy = Policy(
            module,
            algorithm,
            reference=reference,
            adapters=adapters,
            sharded=wanted(shard, self._processes.count),
        )
        self.module = self.policy.module
        self.groups = self._weight_groups()
        """What is trained, each with an optimiser: by role with adapters, else all as `SHARED`."""
        self.updates = 0
        self._spoilt = 0

    def update(self, sequences: Sequence[TrainingSequence]) -> UpdateStats:
        """Learn from a batch of scored sequences: `algorithm.epochs` optimiser steps.

        Sequences of frozen roles are passed over. Weights whose gradient is exactly 0, as those of
        a role without any advantage, stay as they are, and so does their optimiser. Sequences
        whose numbers are not finite are left out and named in the result; when that happens in
        three updates in a row, `TrainingDiverged` is raised. So are, without further consequence,
        those that are longer than the model's context. Raises `UsageError` if there is nothing to
        learn from, and `UnknownName` for a role that should have an adapter and has none.
        """
        sequences = self._learnable(sequences)
        if not actions(sequences):
            raise UsageError(
                "There is nothing to learn from: no sequence has a token that the model chose. "
                "Train a model that records its tokens, such as `TransformersModel`, at a "
                "temperature above 0."
            )
        context = self.policy.context
        fitting = [sequence for sequence in sequences if sequence.given_length <= context]
        if not actions(fitting):
            raise UsageError(
                f"There is nothing to learn from: every sequence is longer than the model's "
                f"context of {context} tokens, such as `{sequences[0].name}`. Sample with the "
                f"model that is trained, or one of the same context."
            )
        too_long = [s.name for s in sequences if s.given_length > context]
        for group in self._all_groups(sequences).values():
            group.read()
        skipped = [sequence for sequence in fitting if not _is_finite(sequence)]
        stats, trouble = self._learn([s for s in fitting if _is_finite(s)], skipped, too_long)
        self.updates += 1
        self._spoilt = self._spoilt + 1 if trouble or skipped else 0
        if self._spoilt >= SPOILT_UPDATES:
            raise TrainingDiverged(stats.skipped, trouble)
        return stats

    def value(self, sequences: Sequence[TrainingSequence]) -> None:
        """Fill `values` of each sequence: what the critic expects before each of its actions.

        And `after` of those that were cut off, unless they fill the context. Raises `UsageError`
        without `Algorithm(critic=...)`.
        """
        if self.policy.values is None:
            raise UsageError(
                "There is no critic. Values are of an algorithm that has one: "
                "`Algorithm(advantage='gae', critic=Critic())`."
            )
        context = self.policy.context
        asked = [_and_one_more(s) if s.cut_off and len(s.ids) <= context else s for s in sequences]
        found = self.policy.each(asked, self.policy.value)
        for sequence, its_values in zip(sequences, found, strict=True):
            length = len(sequence.ids)
            sequence.values = its_values[:length]
            sequence.after = its_values[length] if len(its_values) > length else 0.0

    def reference_logprobs(self, sequences: Sequence[TrainingSequence]) -> list[list[float]]:
        """Of each sequence, each token's log-probability by the reference; 0 where no action is.

        For a penalty that is taken off rewards (`Kl(estimator="k1")`). The reference is the base
        without adapters or with the first ones, or the weights that the trainer began with. Of a
        sequence that is longer than the context, which no model can score, those that were
        recorded: no divergence.
        Raises `UsageError` if neither reference is kept.
        """
        if self.policy.adapters is None and self.policy.reference is None:
            raise UsageError(
                "There is no reference: weights of the beginning are kept for `Algorithm(kl=...)` "
                "only. Set it, or give `Trainer(reference=module)`."
            )
        found = self.policy.each(sequences, self.policy.reference_logp)
        return [
            logps if sequence.given_length <= self.policy.context else list(sequence.logprobs)
            for sequence, logps in zip(sequences, found, strict=True)
        ]

    def save_adapters(self, folder: str | Path) -> dict[str, Path]:
        """Write each role's adapter to a folder of its name in `folder`, as peft does.

        Raises `UsageError` without adapters, `OSError` for what the disk does not take.
        """
        if self.policy.adapters is None:
            raise UsageError(
                "There are no adapters to save: all roles share the model's own weights. Give "
                "`Trainer(adapters=AdapterSettings(roles=[...]))`."
            )
        return self.policy.adapters.save(folder)

    def weights(self) -> dict[str, torch.Tensor]:
        """The model's own weights as they are now, whole and on the CPU, by name.

        For the `load_state_dict` of a model of the same kind, such as a sampler's, or for
        `save_pretrained(folder, state_dict=...)`. Raises `UsageError` with adapters: they are
        what changes, and `save_adapters` writes them.
        """
        if self.policy.adapters is not None:
            raise UsageError(
                "The weights of the base do not change while adapters are trained: "
                "`save_adapters` writes what does."
            )
        found = self.module.state_dict()
        return {name: whole(tensor.detach()).cpu() for name, tensor in found.items()}

    def state(self) -> dict[str, Any]:
        """All that an update depends on besides its sequences, copied: for `torch.save`.

        A trainer made as this one was goes on from it exactly, on a CPU bit for bit.
        """
        critic = {} if self.policy.values is None else self.policy.values.groups
        return {
            "updates": self.updates,
            "spoilt": self._spoilt,
            "groups": {name: group.state() for name, group in self.groups.items()},
            "critic": {role: group.state() for role, group in critic.items()},
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from what `state` gave. Raises `UsageError` if it is of another kind of trainer."""
        critic, values = state["critic"], self.policy.values
        if set(state["groups"]) != set(self.groups) or (critic and values is None):
            raise UsageError(
                f"The state is of a trainer of {_named(state['groups'], critic)}, and this one "
                f"trains {_named(self.groups)}. Make it with the settings that the state was "
                f"saved with."
            )
        for name, group in self.groups.items():
            group.load_state(state["groups"][name], _named([name]))
        if values is not None:
            values.groups.clear()
            for role, saved in critic.items():
                values.meet(role).load_state(saved, f"the critic of {role!r}")
        self.updates, self._spoilt = state["updates"], state["spoilt"]

    def _weight_groups(self) -> dict[str, WeightGroup]:
        rate, adapters = self.algorithm.learning_rate, self.policy.adapters
        if adapters is not None:
            rates = adapters.settings.learning_rates
            return {
                role: WeightGroup(adapters.weights(role), rates.get(role, rate))
                for role in adapters.settings.trained
            }
        weights = [weight for weight in self.module.parameters() if weight.requires_grad]
        if not weights:
            raise UsageError("The model has no weights to train: all have `requires_grad=False`.")
        return {SHARED: WeightGroup(weights, rate)}

    def _all_groups(self, sequences: Sequence[TrainingSequence]) -> dict[str, WeightGroup]:
        """Those that these sequences train: of their roles, and the critic's heads for them."""
        roles = dict.fromkeys(s.role for s in sequences if any(s.action_mask))
        groups = {name: self.groups[name] for name in map(self.policy.group, roles)}
        if self.policy.values is not None:
            groups |= {f"critic of {role}": self.policy.values.meet(role) for role in roles}
        return groups

    def _learnable(self, sequences: Sequence[TrainingSequence]) -> list[TrainingSequence]:
        adapters = self.policy.adapters
        if adapters is None:
            return list(sequences)
        for sequence in sequences:
            if sequence.role not in adapters.settings.roles:
                raise UnknownName(
                    "Role with an adapter",
                    sequence.role,
                    adapters.settings.roles,
                    hint=f"`{sequence.name}` is of that role; name it in `AdapterSettings`.",
                )
        return [sequence for sequence in sequences if sequence.role in self.groups]

    def _learn(
        self,
        sequences: list[TrainingSequence],
        skipped: list[TrainingSequence],
        too_long: list[str],
    ) -> tuple[UpdateStats, str]:
        """The optimiser steps; adds to `skipped`. Also says what ended them early, if so."""
        groups = self._all_groups(sequences)
        step = Step(self.policy, list(groups.values()), sequences, self._processes)
        epochs: list[dict[str, Tally]] = []
        trouble = ""
        for _ in range(self.algorithm.epochs if groups else 0):
            _clear(groups)
            tallies, bad = step.gradient()
            if bad and not epochs:  # nothing has changed yet: begin again without these
                skipped += [sequences[number] for number in bad]
                left = [s for number, s in enumerate(sequences) if number not in bad]
                return self._learn(left, skipped, too_long)
            if bad:
                trouble = (
                    f"After {len(epochs)} of its steps, the last update gave log-probabilities "
                    f"that were not finite: {_listed([sequences[number].name for number in bad])}"
                )
                break
            norms = {name: g.clip(self.algorithm.max_grad_norm) for name, g in groups.items()}
            for role, tally in tallies.items():
                tally.grad_norm = norms[self.policy.group(role)]
            epochs.append(tallies)
            if not all(map(math.isfinite, norms.values())):
                trouble = "The gradient was not finite"
                break
            for name, group in groups.items():
                if norms[name]:  # without a gradient it would be a step of momentum alone
                    group.step()
        _clear(groups)
        named = [[sequence.name for sequence in skipped], too_long]
        shared = self.policy.adapters is None
        return update_stats(epochs, *named, shared=shared), trouble


def _and_one_more(sequence: TrainingSequence) -> TrainingSequence:
    """With an action behind its end, whichever: what a critic says before it is of that end."""
    return replace(
        sequence,
        ids=[*sequence.ids, sequence.ids[-1]],
        action_mask=[*sequence.action_mask, True],
        logprobs=[*sequence.logprobs, 0.0],
        temperatures=[*sequence.temperatures, 1.0],
        support=[*sequence.support, None],
        advantages=[*sequence.advantages, 0.0],
    )


def _clear(groups: Mapping[str, WeightGroup]) -> None:
    for group in groups.values():
        group.clear()


def _named(groups: Iterable[str], critic: Iterable[str] = ()) -> str:
    """What these groups of weights are, in words."""
    names = sorted(groups)
    words = "the model's own weights" if names == [SHARED] else f"adapters of {_listed(names)}"
    return f"{words} with a critic" if list(critic) else words


def _is_finite(sequence: TrainingSequence) -> bool:
    """Whether all that an update uses of the sequence's actions is a number."""
    lists = [sequence.logprobs, sequence.advantages]
    lists += [numbers for numbers in (sequence.values, sequence.returns) if numbers]
    actions_T = np.array(sequence.action_mask, dtype=bool)
    return all(bool(np.isfinite(np.array(numbers)[actions_T]).all()) for numbers in lists)
