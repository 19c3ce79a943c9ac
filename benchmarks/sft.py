"""What supervised fine-tuning costs beside plain TRL, what packing gains, and how a resume starts.

    python benchmarks/sft.py             # a table to stderr, JSON to stdout
    python benchmarks/sft.py --gate      # exit status 1 if a limit is crossed
    python benchmarks/sft.py --rounds 9  # more alternations between the two trainers

Ours is the command `rolecraft sft` as a user types it, with all that it keeps: for every step a
line of the log and TensorBoard's values. Plain TRL is `SFTTrainer` as its documentation has it,
with the same model, tokens, order and rates, which the losses must show. Every figure comes from a
process of its own, on one thread. The two trainers are compared by the processor's seconds, their
threads' included, which other programs on the machine change less than those of the clock.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from gate import Gate
from machine import machine

STEPS, WARM = 150, 10
"""Of a run, and of these so many before it is steady."""
PACKED_STEPS, PACKED_BATCH = 40, 16
"""Of the runs with and without packing, whose steps take longer."""
SAMPLES, ROWS = 600, 20_000
"""Of the runs that train, and of the run that is started again."""
RATE, BATCH, SEED = 1e-3, 8, 0
MAX_LENGTH = 512
LONGEST_WAIT = 1800
"""Seconds."""
TIMES = "times.json"
COMMON = ["--accumulate", 1, "--rate", RATE, "--dropout", 0, "--seed", SEED]
COMMON += ["--eval-share", 0, "--threads", 1]


# --- model and data -------------------------------------------------------------------------------


def make(folder: Path) -> None:
    """Tiny base models, dialogues, and texts of lognormal lengths for a base without a template."""
    from rolecraft.models.tiny_chat import tiny_chat_model
    from rolecraft.models.torch_extra import no_progress_bars

    wide = tiny_chat_model(context=MAX_LENGTH, hidden=128)
    wide.tokenizer.chat_template = None
    with no_progress_bars():
        tiny_chat_model().save(folder / "base")
        wide.save(folder / "wide")
    draw = random.Random(SEED)
    write(folder / "few.jsonl", (dialogue(draw, 1) for _ in range(SAMPLES)))
    write(folder / "many.jsonl", (dialogue(draw, 4) for _ in range(ROWS)))
    texts = ({"prompt": "Q: ", "completion": text(draw, 50)} for _ in range(2 * SAMPLES))
    write(folder / "texts.jsonl", texts)


def dialogue(draw: random.Random, exchanges: int) -> dict[str, Any]:
    said = [(who, text(draw, 40)) for _ in range(exchanges) for who in ("human", "gpt")]
    return {"conversations": [{"from": who, "value": what} for who, what in said]}


def text(draw: random.Random, typical: float) -> str:
    """Syllables of a lognormal number of characters: its median, and 1 for the logarithm's sigma.

    A character is a token here. What is longer than 400 is cut.
    """
    length = min(max(round(draw.lognormvariate(math.log(typical), 1.0)), 2), 400)
    pairs = (draw.choice("bdfglmnprst") + draw.choice("aeiou") for _ in range(length // 3 + 1))
    return " ".join(pairs)[:length].strip()


def write(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


# --- what a step takes, on both sides ------------------------------------------------------------


def timed(times: Path, train: Callable[[], Any]) -> None:
    """Call `train` in this process, and write to `times` what each of its steps took.

    Processor's seconds of the process, and seconds of the clock. transformers gives its
    `DEFAULT_CALLBACKS` to every trainer, so both are asked at the same place.
    """
    import transformers
    from transformers.trainer import DEFAULT_CALLBACKS

    found: list[tuple[float, float]] = []

    class Clock(transformers.TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            found.append((time.process_time(), time.monotonic()))

    DEFAULT_CALLBACKS.append(Clock)
    try:
        train()
    finally:
        steps = [(b[0] - a[0], b[1] - a[1]) for a, b in pairwise(found)]
        times.write_text(json.dumps({"cpu": [s[0] for s in steps], "wall": [s[1] for s in steps]}))


# --- plain TRL, in a process of its own -----------------------------------------------------------


def plain(folder: Path, log_steps: int) -> list[float]:
    """Its losses."""
    import torch
    from datasets import Dataset
    from peft import LoraConfig
    from transformers import AutoModelForCausalLM, AutoTokenizer, set_seed
    from trl import SFTConfig, SFTTrainer

    torch.set_num_threads(1)
    (arrow,) = (folder / "check" / "data").glob("*/train.arrow")
    tokenizer = AutoTokenizer.from_pretrained(folder / "base")
    model = AutoModelForCausalLM.from_pretrained(folder / "base")
    set_seed(SEED)
    with tempfile.TemporaryDirectory() as output:
        trainer = SFTTrainer(
            model=model,
            args=SFTConfig(
                output_dir=output,
                max_steps=STEPS,
                per_device_train_batch_size=BATCH,
                learning_rate=RATE,
                lr_scheduler_type="cosine",
                warmup_steps=0.05,
                max_length=MAX_LENGTH,
                logging_steps=log_steps,
                save_strategy="no",
                seed=SEED,
                data_seed=SEED,
                use_cpu=True,
                bf16=False,
                dataloader_pin_memory=False,
                report_to="none",
                disable_tqdm=True,
            ),
            train_dataset=Dataset.from_file(str(arrow)),
            processing_class=tokenizer,
            peft_config=LoraConfig(
                r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM"
            ),
        )
        trainer.train()
    return [line["loss"] for line in trainer.state.log_history if "loss" in line]


def timed_plain(folder: Path, log_steps: int) -> None:
    def train() -> None:
        (folder / "plain.json").write_text(json.dumps(plain(folder, log_steps)))

    timed(folder / TIMES, train)


def plain_apart(folder: Path, log_steps: int) -> list[float]:
    """The same in a process of its own."""
    words = [sys.executable, __file__, "--plain", folder, "--log-steps", log_steps]
    complete(folder, list(map(str, words)))
    found: list[float] = json.loads((folder / "plain.json").read_text())
    return found


def times_of(folder: Path) -> dict[str, list[float]]:
    """Of the steps of the run that was the last, once it is steady, by the clock that is asked."""
    found = json.loads((folder / TIMES).read_text())
    # The last one ends with a checkpoint.
    return {clock: each[WARM:-1] for clock, each in found.items()}


def complete(folder: Path, command: list[str]) -> None:
    """Run it to its end; what it said is shown if that is a bad one."""
    log = folder / "log"
    with log.open("w") as file:
        code = subprocess.call(command, stdout=file, stderr=file, env=environment(folder))
    if code:
        raise RuntimeError(f"`{shlex.join(command)}` failed: {log.read_text()[-2000:]}")


# --- ours -----------------------------------------------------------------------------------------


def environment(folder: Path) -> dict[str, str]:
    """One thread, and an index of runs of its own. Libraries are compiled once, as for users."""
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "OMP_NUM_THREADS": "1", "ROLECRAFT_RUNS": str(folder / "index")}


def command(*words: object) -> list[str]:
    return [sys.executable, "-m", "rolecraft.cli", "sft", *map(str, words)]


def timed_command(folder: Path, words: list[str]) -> None:
    """`rolecraft WORDS` in this process."""
    from rolecraft.cli.main import main as rolecraft

    sys.argv[1:] = words
    timed(folder / TIMES, rolecraft)


def ours(folder: Path, name: str) -> list[dict[str, Any]]:
    """The log of a run on the same data as plain TRL's."""
    cache = ["--data-cache", folder / "check" / "data"]
    return logged(folder, name, "base", "few", *cache, "--batch", BATCH, "--steps", STEPS)


def lengths(folder: Path, name: str, *more: object) -> list[dict[str, Any]]:
    """The log of a run on texts of lognormal lengths."""
    of = ["--batch", PACKED_BATCH, "--steps", PACKED_STEPS]
    return logged(folder, name, "wide", "texts", *of, *more)


def logged(folder: Path, name: str, base: str, data: str, *more: object) -> list[dict[str, Any]]:
    """The log of a run in the folder `name`, which saves nothing before its end."""
    words = ["--model", folder / base, "--data", folder / f"{data}.jsonl", "--out", folder / name]
    words += [*COMMON, "--max-length", MAX_LENGTH, "--save-steps", STEPS, *more]
    timed_words = [sys.executable, __file__, "--ours", folder, "--", "sft", *words]
    complete(folder, list(map(str, timed_words)))
    lines = (folder / name / "log.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def beside(plains: list[list[float]], mines: list[list[float]]) -> float:
    """Ours over plain, the median over all steps: step by step, since the batch is the same."""
    rounds = zip(plains, mines, strict=True)
    return median(b / a for one, two in rounds for a, b in zip(one, two, strict=True))


def rate(lines: list[dict[str, Any]]) -> float:
    """Tokens a second, padding not counted, once it is steady."""
    first, last = lines[WARM], lines[-2]
    return float((last["tokens"] - first["tokens"]) / (last["seconds"] - first["seconds"]))


def until_training(folder: Path, *words: object) -> float:
    """Seconds from the start of a process to its first step; after a checkpoint it is killed."""
    out = folder / "started"
    before = set((out / "checkpoints").glob("checkpoint-*"))
    began = time.perf_counter()
    with (folder / "started.log").open("w") as errors:
        process = subprocess.Popen(
            command(*words, "--out", out),
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**environment(folder), "PYTHONUNBUFFERED": "1"},
        )
    assert process.stdout is not None
    with process, process.stdout as said:
        for line in said:
            if line.startswith("Training"):
                break
        else:
            raise RuntimeError((folder / "started.log").read_text()[-2000:])
        took = time.perf_counter() - began
        while set((out / "checkpoints").glob("checkpoint-*")) <= before:
            if process.poll() is not None or time.perf_counter() - began > LONGEST_WAIT:
                raise RuntimeError((folder / "started.log").read_text()[-2000:])
            time.sleep(0.01)
        process.kill()
    return took


# --- the whole ------------------------------------------------------------------------------------


def results(folder: Path, rounds: int) -> Iterator[tuple[str, Any]]:
    make(folder)
    mine = [line["loss"] for line in ours(folder, "check")]
    trl = plain_apart(folder, 1)
    assert len(mine) == len(trl) == STEPS
    yield "largest difference of a loss", max(abs(a - b) for a, b in zip(mine, trl, strict=True))

    times: dict[str, dict[str, list[list[float]]]] = {
        side: {"cpu": [], "wall": []} for side in ("plain", "ours")
    }
    for number in range(rounds):
        for side in ("plain", "ours") if number % 2 else ("ours", "plain"):
            if side == "plain":
                plain_apart(folder, 10)
            else:
                ours(folder, f"round-{number}")
            for clock, found in times_of(folder).items():
                times[side][clock].append(found)
        last = [median(times[side]["cpu"][-1]) for side in ("plain", "ours")]
        yield f"round {number + 1}: CPU seconds a step, plain and ours", last
    for side, name in (("plain", "plain TRL"), ("ours", "ours")):
        yield f"CPU seconds a step, {name}", median(map(median, times[side]["cpu"]))
    yield "ours over plain TRL", beside(times["plain"]["cpu"], times["ours"]["cpu"])
    yield "the same by the clock", beside(times["plain"]["wall"], times["ours"]["wall"])

    padded = rate(lengths(folder, "padded"))
    packed = rate(lengths(folder, "packed", "--packing"))
    yield "tokens a second, padded", padded
    yield "tokens a second, packed", packed
    yield "packed over padded", packed / padded

    first = ["--model", folder / "base", "--data", folder / "many.jsonl", *COMMON]
    first += ["--max-length", 2048, "--batch", 1, "--save-steps", 1, "--steps", 100_000]
    cold = until_training(folder, *first)
    warm = until_training(folder, "--resume")
    yield f"seconds to the first step, {ROWS:,} rows", cold
    yield "the same of a resumed run", warm
    yield "resumed over first start", warm / cold


def check(found: dict[str, Any]) -> list[Gate]:
    return [
        Gate("largest difference of a loss", found["largest difference of a loss"], 1e-5),
        Gate("CPU seconds a step, ours over plain TRL", found["ours over plain TRL"], 1.03),
        Gate("padded over packed, tokens a second", 1 / found["packed over padded"], 0.5),
        Gate("start of a resumed run over the first", found["resumed over first start"], 0.25),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--gate", action="store_true", help="fail if a limit is crossed")
    parser.add_argument("--rounds", type=int, default=5, help="alternations of the two trainers")
    parser.add_argument("--plain", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--log-steps", type=int, default=10, help=argparse.SUPPRESS)
    parser.add_argument("--ours", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("words", nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.ours is not None:
        timed_command(options.ours, options.words)
        return 0
    if options.plain is not None:
        timed_plain(options.plain, options.log_steps)
        return 0
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, value in results(Path(folder), options.rounds):
            found[name] = value
            values = value if isinstance(value, list) else [value]
            print(f"{name:>44}:", *(f"{each:10.4g}" for each in values), file=sys.stderr)
    gates = check(found)
    print(*gates, sep="\n", file=sys.stderr)
    print(
        json.dumps(
            {"machine": machine(), "results": found, "gates": [gate._asdict() for gate in gates]}
        )
    )
    return 1 if options.gate and not all(gate.ok for gate in gates) else 0


if __name__ == "__main__":
    sys.exit(main())
