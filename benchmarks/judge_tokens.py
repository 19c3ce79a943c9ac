"""What a judge is asked for a trace: calls and tokens, beside the published annotator's prompt.

    python benchmarks/judge_tokens.py                 # a table to stderr, JSON to stdout
    python benchmarks/judge_tokens.py --gate          # exit status 1 if one call is not enough

Ours are the prompts as they are asked, to a model that answers nothing: system text, definitions,
trace with its heads and markers. A trace that is longer than a window takes a call for each window,
and then up to 17 for its search, which depends on the answers and is not counted.

The published annotator (agentdash 0.1.0, few-shot) sends instructions, the trace as a string,
definitions and 69 kB of examples in one call, and drops what is beyond 1,048,570 characters. Only
its examples and the trace are counted here, which is to its advantage. Without them (the package
as it is installed) it is the zero-shot annotator.

Tokens are characters divided by 4, on both sides. Traces are those of a folder with the published
data sets (`--data`), read through the importers, and long ones of our own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from rolecraft import FunctionModel
from rolecraft.failure_taxonomy import Judge
from rolecraft.failure_taxonomy.formats import read_all
from rolecraft.failure_taxonomy.judging import VARIANTS
from rolecraft.failure_taxonomy.judging.judge import WINDOW
from rolecraft.trajectories import Event, Trajectory

EXAMPLES = 69_000
"""Characters of the published examples."""
CUT = 1_048_570
"""Characters after which the published annotator drops the rest of a trace."""
CHARACTERS_A_TOKEN = 4


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gate", action="store_true", help="fail if a trace that fits takes more")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    options = parser.parse_args()
    results = judge_tokens(options.data)
    print(table(results), file=sys.stderr)
    print(json.dumps(results))
    return 1 if options.gate and not one_call(results) else 0


def judge_tokens(data: Path) -> list[dict[str, Any]]:
    """One row a data set: calls and tokens a trace, ours and the published annotator's."""
    return [row for name, traces in sets(data) if (row := asyncio.run(measure(name, traces)))]


def one_call(results: Iterable[dict[str, Any]]) -> bool:
    """True if every trace that fits into a window took one call."""
    return all(row["calls_of_those_that_fit"] in (None, 1) for row in results)


async def measure(name: str, traces: Iterable[tuple[str, Trajectory]]) -> dict[str, Any] | None:
    """The medians over some traces, each with its text as a file has it."""
    rows = [await _one(text, trajectory) for text, trajectory in traces]
    if not rows:
        return None
    fitting = [row["zero-shot calls"] for row in rows if row["fits"]]
    return {
        "traces": name,
        "number": len(rows),
        "calls": statistics.median(row["zero-shot calls"] for row in rows),
        "calls_of_those_that_fit": max(fitting) if fitting else None,
        "trace_tokens": statistics.median(row["trace"] for row in rows),
        **{variant: statistics.median(row[variant] for row in rows) for variant in VARIANTS},
        "published": statistics.median(row["published"] for row in rows),
        "published_drops": max(row["dropped"] for row in rows),
    }


async def _one(text: str, trajectory: Trajectory) -> dict[str, Any]:
    row: dict[str, Any] = {
        "trace": len(text) // CHARACTERS_A_TOKEN,
        "published": (EXAMPLES + min(len(text), CUT)) // CHARACTERS_A_TOKEN,
        "dropped": max(len(text) - CUT, 0) / max(len(text), 1),
    }
    for variant, shots in VARIANTS.items():
        model = FunctionModel(lambda call: "no answer")
        opinion = await Judge(model, shots=shots, search=False).judge(trajectory)
        asked = [sum(len(message.content) for message in call.messages) for call in model.calls]
        row[variant] = sum(asked) // CHARACTERS_A_TOKEN
        row[f"{variant} calls"] = len(asked)
        row["fits"] = opinion.windows == 1
    return row


def sets(data: Path) -> Iterator[tuple[str, Iterator[tuple[str, Trajectory]]]]:
    if data.is_dir():
        yield "Who&When, algorithm-generated", _who_and_when(data / "who_and_when")
        yield "mast_lint, AG2", _records(sorted((data / "mast_lint").glob("raw_*.json")))
        yield "MAD, human-labelled sample", _records(sorted((data / "mad").glob("*.json")))
    yield "made up, 3 MB", iter([_long(3_000_000)])


def _who_and_when(folder: Path) -> Iterator[tuple[str, Trajectory]]:
    for path in sorted(folder.rglob("*.json")):
        text = json.dumps(json.loads(path.read_text("utf-8"))["history"], ensure_ascii=False)
        for imported in read_all(path):
            yield text, imported.trajectory


def _records(paths: Iterable[Path]) -> Iterator[tuple[str, Trajectory]]:
    """Files with several traces, each with its log as one text or as a list of turns."""
    for path in paths:
        records = json.loads(path.read_text("utf-8"))
        for record, imported in zip(records, read_all(path), strict=True):
            yield _log(record), imported.trajectory


def _log(record: dict[str, Any]) -> str:
    trace = record.get("trace", record)
    trace = trace.get("trajectory", trace) if isinstance(trace, dict) else trace
    return trace if isinstance(trace, str) else json.dumps(trace, ensure_ascii=False)


def _long(size: int) -> tuple[str, Trajectory]:
    said = [
        Event("message", role=("ada", "ben")[number % 2], content="word " * 200, seq=number)
        for number in range(size // 1000)
    ]
    return "\n".join(event.content for event in said), Trajectory("long", {}, said)


def table(results: Iterable[dict[str, Any]]) -> str:
    """The rows as a table in Markdown."""
    head = ["traces", "number", "calls", "trace", *VARIANTS, "published", "of which it drops"]
    lines = [f"| {' | '.join(head)} |", f"| {' | '.join('---' for _ in head)} |"]
    for row in results:
        cells = [row["traces"], f"{row['number']:,}", f"{row['calls']:g}"]
        tokens = [row["trace_tokens"], *(row[variant] for variant in VARIANTS), row["published"]]
        cells += [f"{round(number, -2):,.0f}" for number in tokens]
        cells.append(f"{row['published_drops']:.0%}" if row["published_drops"] else "-")
        lines.append(f"| {' | '.join(cells)} |")
    lines.append(
        f"A window has {WINDOW:,} characters; tokens are characters / {CHARACTERS_A_TOKEN}."
    )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
