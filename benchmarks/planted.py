"""How often each detector finds what was planted, and how often it sees what was not.

    python benchmarks/planted.py            # Markdown tables, as in docs/annotation-quality.md
    python benchmarks/planted.py --seeds 50

The planted runs are those of `tests/failure_taxonomy/planted/`, families of scripts with and
without each failure, and runs of the scenarios. Each family is played with `--seeds` seeds. The
same arguments give the same tables. Exit status 1 if a detector misses its promise: recall >= 0.95,
false positives <= 0.02, nothing unexplained in a clean scenario.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from rolecraft.failure_taxonomy import annotate, detectors
from rolecraft.failure_taxonomy.detectors import Detector
from rolecraft.failure_taxonomy.planting import Score, wilson

PLANTED = Path(__file__).parents[1] / "tests" / "failure_taxonomy" / "planted"
MEASURED: dict[str, tuple[Detector, str]] = {
    "test_task": (detectors.TaskSpec(), "task_spec"),
    "test_constraints": (detectors.Constraints(), "task_spec"),
    "test_role": (detectors.RoleSpec(), "role_spec"),
    "test_repetition": (detectors.Repetition(), "repetition"),
    "test_history": (detectors.HistoryLoss(), "history_loss"),
    "test_termination": (detectors.TerminationUnaware(), "termination_unaware"),
    "test_reset": (detectors.Reset(), "reset"),
    "test_ignored": (detectors.IgnoredInput(), "ignored_input"),
    "test_claims": (detectors.ReasonAction(), "reason_action"),
    "test_premature_end": (detectors.PrematureEnd(), "premature_end"),
    "test_verification": (detectors.VerificationAbsent(), "verification.absent"),
    "test_weak": (detectors.WeakVerification(), "verification.weak"),
}
"""Each file of families, with the detector that it is about."""


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, PLANTED / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


async def measure(name: str, seeds: int) -> tuple[Score, str]:
    """A detector's score on its families, and its row of the table."""
    detector, mode = MEASURED[name]
    draw, module, score = load("conftest").Draw, load(name), Score()
    for planted, families in ((True, module.POSITIVE), (False, module.NEGATIVE)):
        for family in families:
            for seed in range(seeds):
                run = f"{family.__name__}/{seed}"
                trajectory = await family(draw(run)).play()
                score.add(detector, mode, trajectory, planted=planted, name=run)
    cells = (
        f"`{detector.name.removeprefix('detector.')}`",
        f"`{mode}`",
        f"{score.planted} in {len(module.POSITIVE)} families",
        share(score.recall, score.recall_interval),
        f"{score.clean} in {len(module.NEGATIVE)}",
        share(score.false_positives, score.false_positives_interval),
    )
    return score, f"| {' | '.join(cells)} |"


def share(value: float, interval: tuple[float, float]) -> str:
    return f"{value:.2f} [{interval[0]:.2f}, {interval[1]:.2f}]"


async def families(seeds: int) -> bool:
    """Print the table of detectors; False if one of them misses its promise."""
    print("| detector | mode | planted | recall | other runs | false positives |")
    print("|---|---|---|---|---|---|")
    kept = True
    for name in MEASURED:
        score, row = await measure(name, seeds)
        print(row, flush=True)
        kept &= score.recall >= 0.95 and score.false_positives <= 0.02
    return kept


async def held_out(seeds: int) -> bool:
    """Print the table of wordings that the rules were not made for; False if one is misread."""
    draw, module = load("conftest").Draw, load("test_held_out")
    print("\n| detector | found | false positives |")
    print("|---|---|---|")
    kept = True
    for detector, mode, *families in module.HELD_OUT:
        score = Score()
        for planted, family in zip((True, False), families, strict=True):
            for seed in range(2 * seeds):
                run = f"{family.__name__}/{seed}"
                trajectory = await family(draw(run)).play()
                score.add(detector, mode, trajectory, planted=planted, name=run)
        name = detector.name.removeprefix("detector.")
        print(
            f"| `{name}` | {score.found} of {score.planted} | "
            f"{len(score.invented)} of {score.clean} |",
            flush=True,
        )
        kept &= not score.invented
    return kept


async def scenarios(seeds: int) -> bool:
    """Print the table of scenarios; False if something is found that nothing explains."""
    module = load("test_scenarios")
    print("\n| runs of | planted | found | findings that nothing explains |")
    print("|---|---|---|---|")
    total = unexplained = planted = found = 0
    for name, (play, explained) in module.CLEAN.items():
        odd = 0
        for seed in range(seeds):
            odd += len({f.mode for f in (await annotate(await play(seed))).present} - explained)
        print(f"| {name} | - | - | {odd} in {seeds} |", flush=True)
        total, unexplained = total + seeds, unexplained + odd
    for name, (play, mode) in module.PLANTED.items():
        hits = 0
        for seed in range(seeds):
            hits += mode in {f.mode for f in (await annotate(await play(seed))).present}
        print(f"| {name} | `{mode}` | {hits} of {seeds} | |", flush=True)
        planted, found = planted + seeds, found + hits
    hit, odd_share = wilson(found, planted), wilson(unexplained, total)
    print(
        f"\nPlanted in scenarios: {found} of {planted} found, recall "
        f"{share(found / planted, hit)}. Clean: {unexplained} unexplained findings in {total} "
        f"runs, {share(unexplained / total, odd_share)}."
    )
    return unexplained == 0 and found >= 0.95 * planted


async def main(seeds: int, scenario_seeds: int) -> bool:
    kept = await families(seeds)
    kept &= await held_out(seeds)
    return await scenarios(scenario_seeds) and kept


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=20, help="runs of each family (20)")
    parser.add_argument(
        "--scenario-seeds",
        type=int,
        default=10,
        help="runs of each scenario, and of each plant (10)",
    )
    options = parser.parse_args()
    sys.exit(not asyncio.run(main(options.seeds, options.scenario_seeds)))
