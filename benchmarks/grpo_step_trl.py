"""The other side of `grpo_step.py`: TRL's `GRPOTrainer`, given the same rollouts.

What is run is its own `_compute_loss`, the backward pass, and the optimiser that it would make.
What it does beside (generation, decoding, rewards, padding) is left out of its time.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from rolecraft.training.policy.sequences import TrainingSequence

PAD = 0


def lora(seed: int = 0) -> Any:
    from peft import LoraConfig

    torch.manual_seed(seed)
    return LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM")


class Trl:
    """`GRPOTrainer` on `module`, with a LoRA adapter that `save` writes as peft does."""

    def __init__(self, module: Any, tokenizer: Any, folder: Path, *, longest: int) -> None:
        from datasets import Dataset
        from trl.trainer.grpo_config import GRPOConfig
        from trl.trainer.grpo_trainer import GRPOTrainer

        cuda = module.device.type == "cuda"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.trainer: Any = GRPOTrainer(
                model=module,
                reward_funcs=lambda completions, **_: [0.0] * len(completions),
                args=GRPOConfig(
                    output_dir=str(folder / "trl"),
                    per_device_train_batch_size=8,
                    num_generations=8,
                    max_completion_length=longest,
                    learning_rate=1e-6,
                    epsilon=0.2,
                    epsilon_high=0.28,
                    loss_type="dapo",
                    gradient_checkpointing=True,
                    bf16=cuda,
                    use_cpu=not cuda,
                    report_to="none",
                    dataloader_pin_memory=False,
                ),
                train_dataset=Dataset.from_list([{"prompt": "a"}]),
                processing_class=tokenizer,
                peft_config=lora(),
            )
        self.model: Any = self.trainer.model
        self.model.train()
        with torch.no_grad():  # else the gradient of A would be 0
            for name, weight in self.model.named_parameters():
                if ".lora_B." in name:
                    torch.nn.init.normal_(weight, std=0.05)
        self.optimizer = self.trainer.create_optimizer()

    def save(self, folder: Path) -> Path:
        self.model.save_pretrained(folder)
        return folder

    def recompute(self, on: bool) -> None:
        if on:
            self.model.gradient_checkpointing_enable({"use_reentrant": True})
        else:
            self.model.gradient_checkpointing_disable()

    def inputs(self, sequences: Sequence[TrainingSequence]) -> dict[str, Any]:
        """As it would have them: prompts padded on the left, completions on the right, all alike.

        A prompt ends before the first action.
        """
        split = [sequence.action_mask.index(True) for sequence in sequences]
        prompt = max(split)
        rest = max(len(s.ids) - at for s, at in zip(sequences, split, strict=True))

        def padded(of: Any, width: int, *, left: bool, dtype: Any = torch.long) -> Any:
            rows = []
            for s, at in zip(sequences, split, strict=True):
                values = list(of(s))[:at] if left else list(of(s))[at:]
                fill = [0] * (width - len(values))
                rows.append(fill + values if left else values + fill)
            return torch.tensor(rows, dtype=dtype, device=self.model.device)

        def ones(s: TrainingSequence) -> list[int]:
            return [1] * len(s.ids)

        advantages = [max(s.advantages, key=abs) for s in sequences]
        return {
            "prompt_ids": padded(lambda s: s.ids, prompt, left=True),
            "prompt_mask": padded(ones, prompt, left=True),
            "completion_ids": padded(lambda s: s.ids, rest, left=False),
            "completion_mask": padded(ones, rest, left=False),
            "tool_mask": padded(lambda s: s.action_mask, rest, left=False),
            "old_per_token_logps": padded(
                lambda s: s.logprobs, rest, left=False, dtype=torch.float32
            ),
            "advantages": torch.tensor(advantages, device=self.model.device),
            "num_items_in_batch": torch.tensor(
                sum(map(sum, (s.action_mask for s in sequences))), device=self.model.device
            ),
        }

    def gradient(self, inputs: dict[str, Any], batch: int) -> float:
        """The loss of the step, with its gradient accumulated over micro-batches of `batch`."""
        count = len(inputs["prompt_ids"])
        micro = range(0, count, batch)
        self.trainer.current_gradient_accumulation_steps = len(micro)
        self.trainer.args.steps_per_generation = len(micro)
        total = 0.0
        self.optimizer.zero_grad()
        for start in micro:
            some = {
                name: value[start : start + batch] if value.ndim else value
                for name, value in inputs.items()
            }
            with self.trainer.compute_loss_context_manager():
                loss = self.trainer._compute_loss(self.model, some)
            self.trainer.accelerator.backward(loss)
            total += float(loss.detach())
        return total

    def step(self, inputs: dict[str, Any], batch: int) -> float:
        loss = self.gradient(inputs, batch)
        trained = [weight for weight in self.model.parameters() if weight.requires_grad]
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        self.optimizer.step()
        return loss

    def gradients(self) -> dict[str, Any]:
        """By the layer's name and the matrix's: `model.layers.0.mlp.up_proj.A`."""
        found = {}
        for name, weight in self.model.named_parameters():
            for matrix in "AB":
                if f".lora_{matrix}." in name:
                    layer = name.split(f".lora_{matrix}.")[0].removeprefix("base_model.model.")
                    found[f"{layer}.{matrix}"] = weight.grad
        return found


class _AllAnswered(Exception):
    """Every tool has been called: what follows is generation."""


def tool_loop(trl: Trl, calls: int, seconds: float) -> float:
    """Seconds that `GRPOTrainer._tool_call_loop` takes to have as many rollouts' tools answer."""

    def slow(number: int) -> str:
        """Wait.

        Args:
            number: any
        """
        time.sleep(seconds)
        return str(number)

    def end(messages: Any) -> Any:
        raise _AllAnswered

    trainer = trl.trainer
    trainer._sync_tool_dicts = [{"slow": slow}] * calls
    trainer._async_tool_dicts = [{}] * calls
    trainer.max_tool_calling_iterations = 1
    trainer._get_tool_suffix_ids = end
    asked = [
        [
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [
                    {"type": "function", "function": {"name": "slow", "arguments": {"number": n}}}
                ],
            }
        ]
        for n in range(calls)
    ]
    prompts = [[{"role": "user", "content": "a"}] for _ in range(calls)]
    began = time.perf_counter()
    try:
        trainer._tool_call_loop(
            prompts, [[1]] * calls, [[2]] * calls, asked, [[0.0]] * calls, None, {}
        )
    except _AllAnswered:
        return time.perf_counter() - began
    raise RuntimeError("TRL's tool loop ended before it had tokens of what the tools said.")
