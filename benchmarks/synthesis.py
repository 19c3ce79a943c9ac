"""Making tasks of two packages: from the source archive to the rows, on this machine.

    python benchmarks/synthesis.py             # a table to stderr, JSON to stdout
    python benchmarks/synthesis.py --gate      # exit status 1 if a limit is crossed
    python benchmarks/synthesis.py --quick     # few tasks of sqlparse, to see that it works
    python benchmarks/synthesis.py --package more-itertools    # that one alone

pip fetches the archives, pinned by their hashes, and an environment with pytest; both are kept, and
neither is in the times. Then `plan`, `plant`, `validate`, `describe` (templates) and `gather` run
as `rolecraft synth` runs them, each from nothing.

What is compared with is the published pipeline, SWE-smith 0.0.9, whose own modifiers were run on
the same two archives and as many processors, without Docker, in the same kind of sandbox: each
candidate's suite ran once, and its bugs had no upper limit of failing tests.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import sys
import tempfile
import time
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gate import Gate
from machine import machine

from rolecraft.environments.software_engineering.examples import fetch
from rolecraft.environments.software_engineering.examples.fetch import Pin, fetch_archives
from rolecraft.synthesis.folder import SynthesisFolder
from rolecraft.synthesis.gathering.gather import gather
from rolecraft.synthesis.ledger import read_ledger
from rolecraft.synthesis.planning.make import make_plan
from rolecraft.synthesis.planning.settings import PlanSettings
from rolecraft.synthesis.planting import plant
from rolecraft.synthesis.texts.describe import describe
from rolecraft.synthesis.validation import Settings, Tally, candidates_of, validate_folder
from rolecraft.synthesis.verdicts import Verdict

CAP = 0.2
BREAKING = 0.1
"""Of the bugs that tests notice, the share that breaks more of them than the cap allows."""
WANTED = 300
"""Unique valid tasks of sqlparse, with all steps that lead to them, …"""
WITHIN = 300.0
"""… in so many seconds."""
PLANTING = 1 / 50
"""Seconds for a candidate."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A package, and how much is made of it."""

    pin: Pin
    valid: int
    peer: dict[str, Any]


SUBJECTS = (
    Subject(
        Pin(
            "sqlparse",
            "0.5.3",
            "09f67787f56a0b16ecdbde1bfc7f5d9c3371ca683cfeaa8e6ff60b4807ec9272",
            "sqlparse-0.5.3.tar.gz",
        ),
        valid=330,
        peer={
            "candidates": 291,
            "candidates_a_second": 58,
            "validate_seconds": 322,
            "valid": 244,
            "fail_to_pass_median": 8,
            "fail_to_pass_p90": 304,
            "tests": 387,
        },
    ),
    Subject(
        Pin(
            "more-itertools",
            "10.7.0",
            "9fddd5403be01a94b204faadcff459ec3568cf110265d3c54323e1e866ad29d3",
            "more_itertools-10.7.0.tar.gz",
        ),
        valid=100,
        peer={
            "candidates": 120,
            "candidates_a_second": 59,
            "validate_seconds": 700,
            "valid": 92,
            "fail_to_pass_median": 3,
            "fail_to_pass_p90": 7,
            "tests": 671,
        },
    ),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--gate", action="store_true", help="fail if a limit is crossed")
    parser.add_argument("--quick", action="store_true", help="few tasks of the first package")
    parser.add_argument("--workers", type=int, default=2, help="at the same time (default: 2)")
    parser.add_argument("--keep", type=Path, help="a folder that keeps what is made")
    names = [subject.pin.name for subject in SUBJECTS]
    parser.add_argument("--package", metavar="NAME", choices=names, help=" or ".join(names))
    options = parser.parse_args()
    fetched = fetch()
    wanted = options.package or (names[0] if options.quick else None)
    chosen = [subject for subject in SUBJECTS if wanted in (None, subject.pin.name)]
    fetch_archives([subject.pin for subject in chosen], fetched.folder)
    results = []
    for subject in chosen:
        with tempfile.TemporaryDirectory(prefix="rolecraft-synthesis-") as place:
            Path(place).chmod(0o755)  # sandboxes that root makes are somebody else's
            out = (options.keep or Path(place)) / subject.pin.name
            run = Run(subject, SynthesisFolder(out), options.workers)
            valid = 10 if options.quick else subject.valid
            source = fetched.source(subject.pin)
            results.append(asyncio.run(run.measured(source, fetched.environment, valid)))
    gates = [] if options.quick else [gate for each in results for gate in gates_of(each)]
    print(table(results), "", *gates, sep="\n", file=sys.stderr)
    gated = [gate._asdict() for gate in gates]
    print(json.dumps({"machine": machine(), "results": results, "gates": gated}))
    return 1 if options.gate and not all(gate.ok for gate in gates) else 0


class Run:
    """All steps on one package."""

    def __init__(self, subject: Subject, folder: SynthesisFolder, workers: int) -> None:
        self.subject, self.folder, self.workers = subject, folder, workers
        self.seconds: dict[str, float] = {}
        self._began = time.monotonic()

    def step(self, name: str) -> None:
        """A step that has ended."""
        now = time.monotonic()
        self.seconds[name] = round(now - self._began, 2)
        print(f"{self.subject.pin}: {name} took {self.seconds[name]:.1f} s", file=sys.stderr)
        self._began = now

    async def measured(self, source: Path, environment: Path, valid: int) -> dict[str, Any]:
        """What came of it."""
        folder = self.folder
        self._began = time.monotonic()
        plan = await make_plan(source, folder, settings=PlanSettings(environment=environment))
        self.step("plan")
        planted = plant(plan, folder, most=4 * valid)
        self.step("plant")
        keys = {candidate.id: candidate.key for candidate in candidates_of(folder)}
        unique: set[str] = set()
        judged, wanted_at, processor = 0, None, 0.0
        running = validate_folder(
            folder, settings=Settings(cap=CAP), workers=self.workers, stop_after=valid
        )
        async with aclosing(running) as verdicts:
            async for verdict in verdicts:
                judged += 1
                processor += verdict.processor_seconds
                if verdict.is_valid:
                    unique.add(keys[verdict.candidate])
                    if len(unique) == WANTED:
                        wanted_at = time.monotonic() - self._began
        self.step("validate")
        await describe(folder)
        self.step("describe")
        gathered = gather(folder, allow_missing=True)
        self.step("gather")
        tally = Tally.of(folder)
        others = sum(seconds for name, seconds in self.seconds.items() if name != "validate")
        return {
            "package": str(self.subject.pin),
            "seconds": self.seconds,
            "workers": self.workers,
            "planted": planted.total,
            "candidates_a_second": round(planted.total / self.seconds["plant"], 1),
            "judged": judged,
            "validate_a_second": round(judged / self.seconds["validate"], 2),
            "validate_processor_seconds": round(processor, 1),
            "unique_valid": len(unique),
            "wanted_seconds": None if wanted_at is None else round(others + wanted_at, 1),
            "within_cap_of_noticed": round(
                tally.valid / max(1, tally.valid + tally.statuses["too_many_fail"]), 3
            ),
            "largest_share": largest_share(folder, tally.tests),
            "tasks": gathered.tasks,
            # Of the whole process: of the second package it is that of the first, if that is more.
            "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
            **tally.record(),
            "peer": self.subject.peer,
        }


def largest_share(folder: SynthesisFolder, tests: int) -> float:
    """The share of the passing tests that fails with the worst of the valid ones, by their verdicts
    and not by what validation was asked to drop.
    """
    verdicts = read_ledger(folder.verdicts, Verdict, key=lambda each: each.candidate)
    failing = (len(each.fail_to_pass) for each in verdicts if each.is_valid)
    return max(failing, default=0) / max(1, tests)


def gates_of(result: dict[str, Any]) -> list[Gate]:
    """The limits on what came of a package; those on times are on sqlparse alone."""
    package = result["package"]
    gates = [
        Gate(f"{package}: largest share of tests that a task fails", result["largest_share"], CAP),
        Gate(
            f"{package}: share of the noticed bugs that are over the cap",
            round(1 - result["within_cap_of_noticed"], 3),
            BREAKING,
        ),
    ]
    if package == str(SUBJECTS[0].pin):
        wanted = result["wanted_seconds"]
        seconds = float("inf") if wanted is None else wanted
        gates += [
            Gate(f"{package}: seconds to {WANTED} unique valid tasks, all steps", seconds, WITHIN),
            Gate(
                f"{package}: seconds to plant a candidate",
                1 / result["candidates_a_second"],
                PLANTING,
            ),
        ]
    return gates


def table(results: list[dict[str, Any]]) -> str:
    """The figures beside those of the peer."""
    rows = [("", "Rolecraft", "SWE-smith")]
    for result in results:
        peer, seconds = result["peer"], result["seconds"]
        rows += [
            (result["package"], f"{len(os.sched_getaffinity(0))} processors", "2 processors"),
            ("  candidates a second", result["candidates_a_second"], peer["candidates_a_second"]),
            ("  validated", result["judged"], peer["candidates"]),
            ("  valid, unique", result["unique_valid"], peer["valid"]),
            ("  seconds to validate", seconds["validate"], peer["validate_seconds"]),
            (
                "  valid a minute",
                round(60 * result["unique_valid"] / seconds["validate"]),
                round(60 * peer["valid"] / peer["validate_seconds"]),
            ),
            ("  seconds, all steps", round(sum(seconds.values()), 1), "-"),
            (
                "  of the noticed, within the cap",
                f"{100 * result['within_cap_of_noticed']:.0f} %",
                "-",
            ),
            ("  most tests that a task fails", f"{100 * result['largest_share']:.0f} %", "-"),
            (
                "  tests failing, median and 9 of 10",
                f"{result['fail_to_pass_median']}, {result['fail_to_pass_p90']}"
                f" of {result['tests']}",
                f"{peer['fail_to_pass_median']}, {peer['fail_to_pass_p90']} of {peer['tests']}",
            ),
            ("  peak MiB of this process until then", result["peak_mib"], "-"),
        ]
    return "\n".join(f"{what:36} {ours!s:>16} {theirs!s:>16}" for what, ours, theirs in rows)


if __name__ == "__main__":
    sys.exit(main())
