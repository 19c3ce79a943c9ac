"""Learning curves of `relay`, seed by seed: synchronous, asynchronous, adapters on a warmed base.

    python benchmarks/rl_curves.py                      # five seeds of each, three of the adapters
    python benchmarks/rl_curves.py --kinds async --seeds 0 1

One CPU thread. For each run it says after how many steps the mean reward of ten was 0.9, the mean
reward on 512 tasks that were never trained on, and what it took in CPU-seconds; with the adapters
also what the team earned before. Exit code 1 if a run stays below 0.9.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

KINDS = ("sync", "async", "adapters")
SEEDS = {"sync": 5, "async": 5, "adapters": 3}
STEPS = {"sync": 80, "async": 140, "adapters": 60}
GOAL = 0.9


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=[*KINDS])
    parser.add_argument("--seeds", nargs="+", type=int, help="instead of 0 to 4 (adapters: 0 to 2)")
    parser.add_argument("--max-staleness", type=int, default=1)
    parser.add_argument("--out", type=Path, help="JSON lines with the results")
    args = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        for kind in args.kinds:
            for seed in args.seeds or range(SEEDS[kind]):
                work = run(kind, seed, args.max_staleness, Path(scratch) / f"{kind}-{seed}")
                rows.append(asyncio.run(work))
                print(words(rows[-1]), flush=True)
                if args.out is not None:
                    args.out.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    short = [row for row in rows if row["unseen"] < GOAL]
    print(f"{len(rows) - len(short)} of {len(rows)} runs reach {GOAL} on tasks not seen before.")
    return 1 if short else 0


async def run(kind: str, seed: int, max_staleness: int, folder: Path) -> dict[str, Any]:
    """Train once and measure."""
    from rolecraft.rollouts import collect, episodes
    from rolecraft.scenarios.relay import relay
    from rolecraft.training import FROM_SCRATCH, train

    how: dict[str, Any] = {"until": 0.94}
    if kind == "async":
        how |= {"asynchronous": True, "max_staleness": max_staleness}
    if kind == "adapters":
        model, adapters = await warmed(folder, seed)
        algorithm = replace(FROM_SCRATCH, learning_rate=5e-4, epochs=2)
        how |= {"model": model, "adapters": adapters, "algorithm": algorithm}
        how |= {"tasks_per_step": 32}
    trained = await train(relay, steps=STEPS[kind], seed=seed, **how)
    tasks = relay.tasks.sample(512, seed=1000, split="test")
    played = episodes(await collect(relay, tasks, model=trained.model, concurrency=512))
    rewards = [record.reward for record in trained.records]
    means = [sum(rewards[at : at + 10]) / 10 for at in range(len(rewards) - 9)]
    reached = next((at + 10 for at, mean in enumerate(means) if mean >= GOAL), None)
    return {
        "kind": kind,
        "seed": seed,
        "first": rewards[0],
        "steps": len(rewards),
        "reached": reached,
        "unseen": sum(episode.reward.value for episode in played) / len(tasks),
        "cpu_seconds": round(trained.cpu_seconds, 1),
        "staleness": max(record.staleness_max for record in trained.records),
        "dropped": sum(record.dropped for record in trained.records),
    }


async def warmed(folder: Path, seed: int) -> tuple[Any, Any]:
    """A base of random weights and adapters that were fine-tuned on a teacher's rewarded runs, as
    docs/sft-warm-up.md does; the teacher is a script that is right four times in five."""
    import torch

    from rolecraft.models import FunctionModel
    from rolecraft.models.transformers_model import TransformersModel
    from rolecraft.rollouts import collect, episodes
    from rolecraft.scenarios.relay import relay, untrained
    from rolecraft.training import AdapterSettings
    from rolecraft.training.sft.run import fine_tune
    from rolecraft.training.sft.settings import SFTSettings
    from rolecraft.trajectories.jsonl import save

    base: Any = untrained(seed + 1)
    torch.manual_seed(seed + 1)
    torch.nn.init.normal_(base.module.lm_head.weight, std=0.25)
    base.save(folder / "base")
    draw = random.Random(seed)

    def teach(call: Any) -> str:
        said = call.messages[-1].content.split()
        right = said[1] if call.role == "planner" else str((int(said[1]) + int(said[3])) % 5)
        return right if draw.random() < 0.8 else draw.choice(call.sampling.choices)

    tasks = relay.tasks.sample(300, seed=seed + 1)
    for number, episode in enumerate(
        episodes(await collect(relay, tasks, model=FunctionModel(teach)))
    ):
        if episode.reward.value == 1:
            save(episode.trajectory, folder / "runs" / f"{number}.jsonl")
    settings = SFTSettings(
        model=str(folder / "base"),
        data=(str(folder / "runs"),),
        output=folder / "warm",
        roles=("planner", "executor"),
        batch=16,
        accumulate=1,
        epochs=3,
        rate=3e-3,
        eval_share=0.0,
        threads=1,
        seed=seed,
    )
    fine_tune(settings)
    starts = {role: folder / "warm" / role for role in settings.roles}
    model = TransformersModel.load(folder / "base", seed=seed)
    return model, AdapterSettings(roles=[*starts], starts=starts)


def words(row: dict[str, Any]) -> str:
    reached = "never" if row["reached"] is None else f"after {row['reached']} steps"
    return (
        f"{row['kind']:>8}, seed {row['seed']}: {row['first']:.3f} to {row['unseen']:.3f} unseen; "
        f"0.9 {reached}; {row['cpu_seconds']} CPU-seconds; staleness {row['staleness']}, "
        f"{row['dropped']} dropped"
    )


if __name__ == "__main__":
    sys.exit(main())
