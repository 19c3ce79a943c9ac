"""What each strategy of attribution asks: calls and tokens a trace, on the logs of Who&When.

    python benchmarks/blame_tokens.py                 # a table to stderr, JSON to stdout
    python benchmarks/blame_tokens.py --gate          # exit status 1 if a limit is crossed

No model is asked. In its place stands an oracle: it knows the log's label and answers every
question as the label has it, so that each strategy asks as often as with a model that is right.
(The oracle of `evidence-first` finds nothing as a judge and then names the step itself, which takes
as many calls as to choose a candidate.) What comes out at the end is what the strategy can reach
at best: the step of a label need not be one that the label's agent made, and a strategy that
takes the role from the step cannot then have both right.

Tokens are characters divided by 4.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import statistics
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from rolecraft import FunctionModel
from rolecraft.failure_taxonomy.attribution import STRATEGIES, Attributor
from rolecraft.failure_taxonomy.formats import Imported, read_all
from rolecraft.failure_taxonomy.labels import Blame
from rolecraft.models import ModelCall

CHARACTERS_A_TOKEN = 4
MOST_TOKENS = 149_000
"""What the published hybrid is said to take for a log; ours has to take less."""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gate", action="store_true", help="fail if evidence-first is not cheap")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    options = parser.parse_args()
    logs = list(read_logs(options.data / "who_and_when"))
    results = [asyncio.run(measure(strategy, logs)) for strategy in STRATEGIES]
    print(table(results), file=sys.stderr)
    print(json.dumps(results))
    return 1 if options.gate and not cheap(results) else 0


def cheap(results: Iterable[dict[str, Any]]) -> bool:
    """True if our own strategy takes two calls a log and far fewer tokens than the limit."""
    (ours,) = [row for row in results if row["strategy"] == "evidence-first"]
    return ours["most_calls"] <= 2 and ours["most_tokens"] < MOST_TOKENS / 2


def read_logs(folder: Path) -> Iterator[Imported]:
    """The logs that say whom to blame."""
    for path in sorted(folder.rglob("*.json")):
        for imported in read_all(path):
            if imported.labels and imported.labels[0].decisive is not None:
                yield imported


async def measure(strategy: str, logs: Iterable[Imported]) -> dict[str, Any]:
    """Calls and tokens of a strategy over all logs, and what an oracle reaches with it."""
    calls, tokens, roles, steps = [], [], 0, 0
    for log in logs:
        gold = log.labels[0].decisive
        assert gold is not None
        model = FunctionModel(Oracle(log, gold).answer)
        found = await Attributor(model, strategy=strategy).attribute(log.trajectory)
        asked = sum(len(m.content) for call in model.calls for m in call.messages)
        calls.append(len(model.calls))
        tokens.append(asked // CHARACTERS_A_TOKEN)
        roles += found.role == gold.role
        steps += found.step == gold.step
    return {
        "strategy": strategy,
        "logs": len(calls),
        "calls": statistics.mean(calls),
        "most_calls": max(calls),
        "tokens": statistics.mean(tokens),
        "most_tokens": max(tokens),
        "roles": roles,
        "steps": steps,
    }


class Oracle:
    """Answers every question about one log as its label has it."""

    def __init__(self, log: Imported, gold: Blame) -> None:
        self.gold = gold
        self.event = next(e for e in log.trajectory.events if e.seq == gold.step)

    def answer(self, call: ModelCall) -> str:
        system = call.messages[0].content
        found = re.search(r"The fence\s+marker is (\w+)\.", system)
        assert found is not None
        answer: dict[str, Any] = {"marker": found[1], "reason": "the label says so"}
        step = self.gold.step or 0
        if '"findings"' in system:
            modes = re.findall(r"(?m)^## ([a-z_.]+)", system)
            rows = [{"mode": mode, "verdict": "absent"} for mode in modes]
            answer |= {"diagnosis": "none", "findings": rows}
        elif '"candidate"' in system:
            answer |= {"candidate": None, "step": step, "role": self.event.role}
            answer["quote"] = self.event.content.strip()[:200]
        elif halves := re.search(r'"first": events (\d+) to (\d+)', system):
            answer["half"] = "first" if int(halves[1]) <= step <= int(halves[2]) else "second"
        elif '"decisive"' in system:
            answer["decisive"] = f"up to event {step}." in system
        else:
            answer |= {"role": self.gold.role, "step": step}
        return json.dumps(answer)


def table(results: Iterable[dict[str, Any]]) -> str:
    """The rows as a table in Markdown."""
    head = ["strategy", "calls a log", "most", "tokens a log", "most", "best role", "best step"]
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for row in results:
        tokens = [f"{round(row[name], -2):,.0f}" for name in ("tokens", "most_tokens")]
        cells = [row["strategy"], f"{row['calls']:.1f}", row["most_calls"], *tokens]
        cells += [f"{row[name]} of {row['logs']}" for name in ("roles", "steps")]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
