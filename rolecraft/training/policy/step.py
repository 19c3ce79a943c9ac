"""The gradient of one optimiser step, accumulated over micro-batches.

Invariant: how a step is split into micro-batches, and over how many processes, changes nothing but
rounding. Every term is divided by a size of the whole step, counted before the first pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rolecraft.models.torch_extra import torch
from rolecraft.training.algorithms.losses import (
    Loss,
    StepSize,
    policy_gradient_loss,
    value_loss,
)
from rolecraft.training.policy.batches import Batch
from rolecraft.training.policy.critic import targets
from rolecraft.training.policy.policy import Policy
from rolecraft.training.policy.processes import Processes
from rolecraft.training.policy.sequences import TrainingSequence, actions
from rolecraft.training.policy.sharding import put_away
from rolecraft.training.policy.stats import Measured, Tally
from rolecraft.training.policy.weight_groups import WeightGroup

Tensor = torch.Tensor


class Step:
    """The step of `policy` on `sequences`, which every one of `processes` is given alike.

    `groups` are the weights that get gradients.
    """

    def __init__(
        self,
        policy: Policy,
        groups: Sequence[WeightGroup],
        sequences: Sequence[TrainingSequence],
        processes: Processes,
    ) -> None:
        self._policy, self._groups, self._processes = policy, groups, processes
        acting = [sequence for sequence in sequences if any(sequence.action_mask)]
        self.roles = list(dict.fromkeys(sequence.role for sequence in acting))
        by_group: dict[str, list[TrainingSequence]] = {}
        for sequence in acting:
            by_group.setdefault(policy.group(sequence.role), []).append(sequence)
        self.sizes: Mapping[str, StepSize] = {
            name: StepSize(len(its), actions(its)) for name, its in by_group.items()
        }
        """What the step holds of each group of weights, in all processes together."""
        mine = processes.share(acting, [sequence.given_length for sequence in acting])
        self._batches: list[Batch | None] = [*policy.batches(mine)]
        if policy.sharded and acting:
            # As many passes as whoever has the most: each needs all processes.
            passes = max(processes.gather(len(self._batches)))
            self._batches += [None] * (passes - len(self._batches))
            shortest = min(acting, key=lambda sequence: sequence.given_length)
            (self._filler,) = policy.batches([shortest])
        self._number = {id(sequence): number for number, sequence in enumerate(sequences)}
        self._old: list[Tensor] = []
        """Log-probabilities of each batch before the first step, where an algorithm wants them."""

    def gradient(self) -> tuple[dict[str, Tally], list[int]]:
        """Add up gradients, here and in the other processes; what was measured, by role.

        Or the numbers of the sequences that the model cannot score: then there is no gradient.
        """
        measured: dict[str, list[Measured]] = {role: [] for role in self.roles}
        first, bad = not self._old, []
        for number, mine in enumerate(self._batches):
            batch = self._filler if mine is None else mine
            # Backward passes too, for layers that are then run again.
            with self._policy.routed(batch.segments):
                scored = self._policy.score(batch)
                reference_NA = self._reference(batch)
                bad += self._unusable(batch, *scored)
                if mine is None or (bad and self._policy.sharded):
                    total = 0 * scored[0].sum()  # the others wait for this process's way back
                elif bad:
                    continue
                else:
                    if first and self._policy.algorithm.importance is not None:
                        self._old.append(scored[0].detach())
                    old_NA = self._old[number] if self._old else None
                    total = self._loss(batch, *scored, reference_NA, old_NA, measured)
                total.backward()  # type: ignore[no-untyped-call]
            for group in self._groups:
                group.take_gradients()
        put_away(self._policy.module)
        bad = sorted(set().union(*self._processes.gather(bad)))
        if bad:
            self._old.clear()
            for group in self._groups:
                group.clear()
            return {}, bad
        for group in self._groups:
            self._processes.add_gradients(group.masters)
        return self._tallies(measured), []

    def _reference(self, batch: Batch) -> Tensor | None:
        """The reference's log-probabilities, if any loss of the batch is to look at them."""
        policy = self._policy
        roles = self.roles if policy.sharded else [s.role for s in batch.sequences]
        return policy.reference_logp(batch) if any(map(policy.kl, roles)) else None

    def _unusable(
        self, batch: Batch, logp_NA: Tensor, entropy_NA: Tensor, value_NA: Tensor | None
    ) -> list[int]:
        """The numbers of sequences with log-probabilities or values that are not finite."""
        finite = torch.isfinite(logp_NA).all(-1)
        if value_NA is not None:
            finite &= torch.isfinite(value_NA.masked_fill(~batch.mask_NA, 0.0)).all(-1)
        pairs = zip(batch.sequences, finite.tolist(), strict=True)
        return [self._number[id(sequence)] for sequence, ok in pairs if not ok]

    def _loss(
        self,
        batch: Batch,
        logp_NA: Tensor,
        entropy_NA: Tensor,
        value_NA: Tensor | None,
        reference_NA: Tensor | None,
        old_NA: Tensor | None,
        measured: dict[str, list[Measured]],
    ) -> Tensor:
        """The batch's share of the step's losses; adds to `measured`."""
        policy, algorithm = self._policy, self._policy.algorithm
        values = None if value_NA is None else (value_NA, *targets(batch))
        losses: list[Tensor] = []
        for role, rows in _rows(batch).items():
            step, kl = self.sizes[policy.group(role)], policy.kl(role)

            def of_role(numbers: Tensor | None, rows: Tensor | slice = rows) -> Tensor | None:
                return None if numbers is None else numbers[rows]

            mask_NA, sampled_NA = batch.mask_NA[rows], batch.sampled_logp_NA[rows]
            loss: Loss = policy_gradient_loss(
                logp_NA[rows],
                sampled_NA,
                batch.advantage_NA[rows],
                mask_NA,
                clip=algorithm.clip,
                normalise=algorithm.normalise,
                step=step,
                max_tokens=algorithm.max_tokens,
                kl=kl,
                reference_logp_NT=of_role(reference_NA),
                entropy=algorithm.entropy,
                entropy_NT=entropy_NA[rows],
                importance=algorithm.importance,
                old_logp_NT=of_role(old_NA),
            )
            total, value = loss.total, None
            if values is not None and algorithm.critic is not None:
                before_NA, returns_NA = (numbers[rows] for numbers in values[1:])
                value = value_loss(
                    values[0][rows],
                    before_NA,
                    returns_NA,
                    mask_NA,
                    critic=algorithm.critic,
                    normalise=algorithm.normalise,
                    step=step,
                    max_tokens=algorithm.max_tokens,
                )
                total = total + value.total
            gap = (logp_NA[rows] - sampled_NA).detach().abs().masked_fill(~mask_NA, 0.0).max()
            measured[role].append(Measured.of(total, loss, value, gap, step, mask_NA))
            losses.append(total)
        return torch.stack(losses).sum()

    def _tallies(self, measured: Mapping[str, Sequence[Measured]]) -> dict[str, Tally]:
        """Of all processes, by role."""
        mine = {role: Tally() for role in self.roles}
        for role, its in measured.items():
            for numbers in its:
                numbers.add_to(mine[role])
        first, *others = self._processes.gather(mine)
        for theirs in others:
            for role, tally in theirs.items():
                first[role].join(tally)
        return first


def _rows(batch: Batch) -> dict[str, Tensor | slice]:
    """Which of the batch's sequences are of which role."""
    found: dict[str, list[int]] = {}
    for row, sequence in enumerate(batch.sequences):
        found.setdefault(sequence.role, []).append(row)
    if len(found) == 1:
        return dict.fromkeys(found, slice(None))
    device = batch.mask_NA.device
    return {role: torch.tensor(rows, device=device) for role, rows in found.items()}
