"""One step of GRPO on given rollouts beside TRL's `GRPOTrainer`: equal first, then timed.

    python benchmarks/grpo_step.py                  # a tiny model on the CPU; JSON to stdout
    python benchmarks/grpo_step.py --device cuda    # the shape of Qwen2.5-0.5B, bfloat16
    python benchmarks/grpo_step.py --gate           # exit status 1 if a limit is crossed

Rollouts are drawn once: groups at a prompt, completions of lognormal lengths of which three tenths
are what tools said. Loss and gradients of a float32 model have to be TRL's to 1e-5 before anything
is timed. Of TRL the best of a sweep over batch sizes with and without recomputation counts, in the
same process, in turns with ours; its time is that of loss, backward pass and optimiser alone, ours
is that of a whole update. On the CPU that is processor time, of one thread by default, which other
programs change little. Peak memory is that of a process of its own for each.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import random
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import torch
import transformers
from gate import Gate
from grpo_step_trl import Trl, tool_loop
from machine import machine
from rollout_pipeline import CALL_SECONDS, CALLS, many_calls

from rolecraft.models.tiny_chat import byte_tokenizer
from rolecraft.training import AdapterSettings, Algorithm, Clip, Normalise, Trainer
from rolecraft.training.policy.sequences import TrainingSequence

CEILING = 790e12
"""Multiplications and additions a second that one H200 was measured to reach in bfloat16."""
TOOLS = 0.3
"""Of a completion's tokens, what tools said."""
ROLES = ("planner", "executor", "tester", "reviewer")


@dataclass(frozen=True)
class Shape:
    """A model and the rollouts of one step."""

    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    vocabulary: int
    groups: int
    group: int
    prompt: tuple[int, int]
    """Tokens, from and to."""
    mean: int
    """Tokens of a completion; the logarithm of its length has a standard deviation of 1."""
    cap: int
    trl: tuple[int, ...]
    """Batch sizes of the sweep."""
    ours: tuple[int, ...]
    """Tokens of a micro-batch in ours."""
    warm: int
    rounds: int


TINY = Shape(2, 64, 176, 4, 2, 300, 4, 4, (10, 30), 24, 80, (16,), (600,), 0, 1)
SHAPES = {
    "cpu": Shape(
        4, 128, 352, 4, 2, 4096, 8, 8, (24, 48), 48, 192, (1, 2, 4, 8, 16), (2048, 8192), 0, 5
    ),
    "cuda": Shape(
        24,
        896,
        4864,
        14,
        2,
        151_936,
        64,
        8,
        (128, 256),
        256,
        1024,
        (8, 16, 32, 64),
        (16_384, 32_768, 65_536),
        3,
        10,
    ),
}


def model(shape: Shape, device: str) -> Any:
    """Qwen2 with random weights, the same at every call; bfloat16 on a GPU."""
    config = transformers.Qwen2Config(
        vocab_size=shape.vocabulary,
        hidden_size=shape.hidden,
        intermediate_size=shape.intermediate,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        tie_word_embeddings=True,
        max_position_embeddings=4096,
        pad_token_id=0,
        bos_token_id=None,
        eos_token_id=0,
    )
    torch.manual_seed(0)
    module: Any = transformers.Qwen2ForCausalLM(config)
    return module.to(device, torch.bfloat16 if device == "cuda" else torch.float32).eval()


def rollouts(shape: Shape, roles: Sequence[str] = ("r",)) -> list[TrainingSequence]:
    """Drawn by the same seed at every call; each group is one role's."""
    draw = random.Random(0)
    centre = math.log(shape.mean) - 0.5  # so that the mean is what it says, before the cap
    found = []
    for group in range(shape.groups):
        prompt = draw.choices(range(1, shape.vocabulary), k=draw.randint(*shape.prompt))
        for number in range(shape.group):
            length = min(max(int(draw.lognormvariate(centre, 1.0)), 4), shape.cap)
            tool = int(TOOLS * length)
            begin = draw.randint(1, length - tool - 1)
            actions = [True] * begin + [False] * tool + [True] * (length - tool - begin)
            mask = [False] * len(prompt) + actions
            ids = prompt + draw.choices(range(1, shape.vocabulary), k=length)
            likely = -math.log(shape.vocabulary)
            sequence = TrainingSequence(
                f"{group}.{number}",
                roles[group % len(roles)],
                ids,
                mask,
                [likely + draw.gauss(0, 0.1) if action else 0.0 for action in mask],
                [1.0] * len(ids),
                [None] * len(ids),
                [0.0] * len(ids),
            )
            sequence.credit(draw.gauss(0, 1))
            found.append(sequence)
    return found


def ours(module: Any, starts: dict[str, Path], tokens: int, norm: float = 1.0) -> Trainer:
    algorithm = Algorithm(
        clip=Clip(0.2, 0.28),
        normalise=Normalise.TOKENS,
        learning_rate=1e-6,
        max_grad_norm=norm,
        micro_batch_tokens=tokens,
    )
    return Trainer(module, algorithm, adapters=AdapterSettings(roles=[*starts], starts=starts))


# --- equal first ----------------------------------------------------------------------------------


def differences(folder: Path) -> tuple[float, float]:
    """Between ours and TRL's on a tiny float32 model: of the loss, and the largest of a gradient.

    Both relative, the gradient's to the largest number in its matrix.
    """
    sequences = rollouts(TINY)
    trl = Trl(model(TINY, "cpu"), byte_tokenizer(), folder, longest=TINY.cap)
    trl.recompute(False)
    trainer = ours(model(TINY, "cpu"), {"r": trl.save(folder / "start")}, 600, norm=1e9)
    seen: dict[str, Any] = {}

    def look(*_: Any) -> None:
        adapters = trainer.policy.adapters
        assert adapters is not None
        for name, layer in adapters.layers.items():
            pair = layer.pairs["r"]
            for matrix, weight in (("A", pair.A_RI), ("B", pair.B_OR)):
                assert weight.grad is not None
                seen[f"{name}.{matrix}"] = weight.grad.clone()

    trainer.groups["r"].optimizer.register_step_pre_hook(look)
    mine = trainer.update(sequences).loss
    theirs = trl.gradient(trl.inputs(sequences), 16)
    expected = trl.gradients()
    assert set(expected) == set(seen), set(expected) ^ set(seen)
    gaps = [
        float((seen[name] - grad).abs().max() / grad.abs().max()) for name, grad in expected.items()
    ]
    return abs(mine - theirs) / abs(theirs), max(gaps)


# --- timed ----------------------------------------------------------------------------------------


def seconds(step: Callable[[], object], device: str) -> float:
    gc.collect()
    gc.disable()
    try:
        if device == "cpu":
            began = time.process_time()
            step()
            return time.process_time() - began
        torch.cuda.synchronize()
        began = time.perf_counter()
        step()
        torch.cuda.synchronize()
        return time.perf_counter() - began
    finally:
        gc.enable()


def best(ways: dict[Any, Callable[[], object]], device: str) -> tuple[Any, dict[str, float]]:
    """The fastest of `ways`, after one run of each; what does not fit in memory is none."""
    found: dict[Any, float] = {}
    for way, step in [*ways.items(), *ways.items()]:
        try:
            found[way] = seconds(step, device)
        except torch.OutOfMemoryError:
            torch.cuda.empty_cache()
    return min(found, key=found.__getitem__), {str(way): took for way, took in found.items()}


def results(device: str, folder: Path) -> Iterator[tuple[str, Any]]:
    loss, gradient = differences(folder / "tiny")
    yield "loss, relative difference from TRL", loss
    yield "gradient, largest relative difference", gradient
    assert max(loss, gradient) <= 1e-5, "the two do not compute the same: nothing to compare"

    shape = SHAPES[device]
    sequences = rollouts(shape)
    real = sum(len(s.ids) for s in sequences)
    padded = len(sequences) * max(len(s.ids) for s in sequences)
    yield "tokens of the rollouts", real
    yield "the same padded to one length", padded
    trl = Trl(model(shape, device), byte_tokenizer(), folder, longest=shape.cap)
    start = trl.save(folder / "adapter")
    given = trl.inputs(sequences)

    def of_trl(batch: int, recompute: bool) -> Callable[[], object]:
        def step() -> None:
            trl.recompute(recompute)
            trl.step(given, batch)

        return step

    theirs = {(b, again): of_trl(b, again) for b in shape.trl for again in (False, True)}
    way, sweep = best(theirs, device)
    yield "TRL, seconds by batch size and recomputation", sweep
    trainers = {n: ours(model(shape, device), {"r": start}, n) for n in shape.ours}

    def of_ours(trainer: Trainer) -> Callable[[], object]:
        return lambda: trainer.update(sequences)

    mine = {n: of_ours(trainer) for n, trainer in trainers.items()}
    tokens, sweep = best(mine, device)
    yield "ours, seconds by tokens of a micro-batch", sweep
    laid = trainers[tokens].policy.batches(sequences)
    yield "tokens that ours computes", sum(batch.ids_UT.numel() for batch in laid)

    four = ours(model(shape, device), dict.fromkeys(ROLES, start), tokens)
    by_role = rollouts(shape, ROLES)
    sides: dict[str, Callable[[], object]] = {
        "TRL": theirs[way],
        "ours": mine[tokens],
        "four": lambda: four.update(by_role),
    }
    times: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(shape.warm + shape.rounds):
        for name, step in sides.items():
            took = seconds(step, device)
            if number >= shape.warm:
                times[name].append(took)
    for name, its in times.items():
        yield f"{name}, seconds a step: median, least, most", [median(its), min(its), max(its)]
    middle = {name: median(its) for name, its in times.items()}
    yield "TRL over ours", middle["TRL"] / middle["ours"]
    yield "tokens a second, TRL", real / middle["TRL"]
    yield "tokens a second, ours", real / middle["ours"]
    yield "four roles over one", middle["four"] / middle["ours"]
    if device == "cuda":
        yield "share of the bound of LoRA", real / middle["ours"] / bound(shape, sequences)
    for side, how in (("ours", [tokens]), ("trl", [way[0], int(way[1])])):
        yield f"peak MiB above before the step, {side}", peak_apart(device, side, how)
    yield f"{CALLS} tools of {1000 * CALL_SECONDS:.0f} ms, TRL", tool_loop(trl, CALLS, CALL_SECONDS)
    yield "the same, ours", many_calls()


def bound(shape: Shape, sequences: Sequence[TrainingSequence]) -> float:
    """Tokens a second if nothing but the multiplications of LoRA took time, none of them again.

    Four a weight: forward two, and two for the gradient of what went in; and attention.
    """
    layer = shape.hidden * (2 * shape.hidden + 2 * shape.kv_heads * shape.hidden // shape.heads)
    layer += 3 * shape.hidden * shape.intermediate
    weights = shape.layers * layer + shape.vocabulary * shape.hidden
    tokens = sum(len(s.ids) for s in sequences)
    looks = sum(len(s.ids) ** 2 for s in sequences) / tokens
    return CEILING / (4 * weights + 6 * shape.layers * shape.hidden * looks)


# --- memory ---------------------------------------------------------------------------------------


def peak_apart(device: str, side: str, how: list[int]) -> float:
    """MiB, of a process of its own, in which nothing has been freed that could be used again."""
    words = [sys.executable, __file__, "--device", device, "--peak", side, *map(str, how)]
    done = subprocess.run(words, stdout=subprocess.PIPE, check=True, text=True)
    return float(done.stdout.splitlines()[-1])


def peak(device: str, side: str, how: Sequence[int], folder: Path) -> float:
    shape = SHAPES[device]
    sequences = rollouts(shape)
    trl = Trl(model(shape, device), byte_tokenizer(), folder, longest=shape.cap)
    if side == "trl":
        given = trl.inputs(sequences)
        trl.recompute(bool(how[1]))

        def step() -> object:
            return trl.step(given, how[0])
    else:
        start = trl.save(folder / "adapter")
        del trl
        trainer = ours(model(shape, device), {"r": start}, how[0])

        def step() -> object:
            return trainer.update(sequences)

    gc.collect()
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        step()
        return (torch.cuda.max_memory_allocated() - before) / 2**20
    Path("/proc/self/clear_refs").write_text("5")  # the highest mark begins anew
    resident = _resident("VmRSS")
    step()
    return _resident("VmHWM") - resident


def _resident(name: str) -> float:
    """MiB of this process, as Linux tells them."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith(f"{name}:"))
    return int(line.split()[1]) / 2**10


# --- the whole ------------------------------------------------------------------------------------


def check(found: dict[str, Any], device: str) -> list[Gate]:
    gates = [
        Gate("loss, relative difference", found["loss, relative difference from TRL"], 1e-5),
        Gate("gradient, the same", found["gradient, largest relative difference"], 1e-5),
        Gate(f"{CALLS} tools in one turn, s", found["the same, ours"], 0.1),
        Gate("four roles over one", found["four roles over one"], 1.15),
    ]
    if device == "cuda":
        gates += [
            Gate("ours over TRL, seconds", 1 / found["TRL over ours"], 1 / 3),
            Gate("bound over ours, tokens/s", 1 / found["share of the bound of LoRA"], 2.5),
        ]
    return gates


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--device", choices=list(SHAPES), default="cpu")
    parser.add_argument("--threads", type=int, default=1, help="on the CPU")
    parser.add_argument("--rounds", type=int, help="alternations of the sides")
    parser.add_argument("--gate", action="store_true", help="fail if a limit is crossed")
    parser.add_argument("--peak", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    transformers.logging.set_verbosity_error()
    warnings.simplefilter("ignore")
    if options.device == "cpu":
        torch.set_num_threads(options.threads)
    if options.rounds:
        SHAPES[options.device] = replace(SHAPES[options.device], rounds=options.rounds)
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        if options.peak:
            side, *how = options.peak
            print(peak(options.device, side, [int(number) for number in how], Path(folder)))
            return 0
        for name, value in results(options.device, Path(folder)):
            found[name] = value
            print(f"{name:>44}: {_shown(value)}", file=sys.stderr, flush=True)
    gates = check(found, options.device)
    print(*gates, sep="\n", file=sys.stderr)
    where = {**machine(), "torch": torch.__version__, "threads": torch.get_num_threads()}
    if options.device == "cuda":
        where["gpu"] = torch.cuda.get_device_name()
    about = {"shape": asdict(SHAPES[options.device]), "results": found}
    print(json.dumps({"machine": where, **about, "gates": [gate._asdict() for gate in gates]}))
    return 1 if options.gate and not all(gate.ok for gate in gates) else 0


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return "  ".join(f"{name} {number:.3g}" for name, number in value.items())
    values = value if isinstance(value, list) else [value]
    return "  ".join(
        f"{number:,}" if isinstance(number, int) else f"{number:.4g}" for number in values
    )


if __name__ == "__main__":
    sys.exit(main())
