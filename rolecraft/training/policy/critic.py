"""A critic: what a state is worth to a role, read off the policy's own last hidden state.

One linear head per role, from the same forward pass that gives the log-probabilities. A value
stands at an action and is that of the state *before* it, so that tokens which were given, of tools
and other roles, have none. The value loss also moves the weights below, `Critic.coefficient` as
much as the policy's; heads have the learning rate of `Critic`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rolecraft.errors import UsageError
from rolecraft.models.torch_extra import torch
from rolecraft.training.algorithms.terms import Critic
from rolecraft.training.policy.batches import Batch
from rolecraft.training.policy.weight_groups import WeightGroup

Tensor = torch.Tensor


class Values:
    """The value heads of `module`, a causal language model; one for each role that it meets.

    A head begins at zero: it expects nothing.
    """

    def __init__(self, module: Any, critic: Critic) -> None:
        self.critic = critic
        self.groups: dict[str, WeightGroup] = {}
        """By role: the weight `[1, width]` and the bias `[1]` of its head."""
        self._module = module

    def meet(self, role: str) -> WeightGroup:
        """The head of a role, made if there is none yet."""
        if role not in self.groups:
            head = self._module.get_output_embeddings().weight
            like = {
                "device": head.device,
                "dtype": torch.promote_types(head.dtype, torch.float32),
                "requires_grad": True,
            }
            weights = [torch.zeros(1, head.shape[1], **like), torch.zeros(1, **like)]
            self.groups[role] = WeightGroup(weights, self.critic.learning_rate)
        return self.groups[role]

    @contextmanager
    def watch(self) -> Iterator[Callable[[], Tensor]]:
        """Within, one forward pass of the module; afterwards the hidden states `[T, width]` that
        went into its output layer, rows laid end to end."""
        seen: list[Tensor] = []

        def look(body: Any, args: Any, out: Any) -> None:
            hidden = out[0] if isinstance(out, tuple) else out.last_hidden_state
            seen.append(hidden.flatten(0, -2))

        hook = self._module.base_model.register_forward_hook(look)
        try:
            yield lambda: seen[-1]
        finally:
            hook.remove()

    def of(self, batch: Batch, hidden: Tensor) -> Tensor:
        """The value before each action, `[N, A]`; anything where there is no action."""
        place_NA = _before(batch)
        value_NA = []
        for sequence, places in zip(batch.sequences, place_NA, strict=True):
            weight, bias = self.meet(sequence.role).weights
            states = hidden[places].to(weight.dtype)
            value_NA.append(torch.nn.functional.linear(states, weight, bias)[:, 0])
        return torch.stack(value_NA)


def targets(batch: Batch) -> tuple[Tensor, Tensor]:
    """What the critic said before the update, and what it should have said, `[N, A]` each.

    Raises `UsageError` for sequences that do not say.
    """
    return _of_actions(batch, "values"), _of_actions(batch, "returns")


def _of_actions(batch: Batch, name: str) -> Tensor:
    rows = []
    longest = batch.mask_NA.shape[1]
    for sequence in batch.sequences:
        numbers: Sequence[float] = getattr(sequence, name)
        if len(numbers) != len(sequence.ids):
            raise UsageError(
                f"`{sequence.name}` has {len(numbers)} {name} for {len(sequence.ids)} tokens. A "
                f"critic learns from both: call `Trainer.value` before advantages are assigned "
                f"with `advantage='gae'`."
            )
        at = [n for n, action in zip(numbers, sequence.action_mask, strict=True) if action]
        rows.append([*at, *[0.0] * (longest - len(at))])
    return torch.tensor(rows, dtype=batch.advantage_NA.dtype, device=batch.mask_NA.device)


def _before(batch: Batch) -> Tensor:
    """Of each action the position before it, in the pass's tokens laid end to end, `[N, A]`."""
    return batch.place_D[batch.decision_NA]
