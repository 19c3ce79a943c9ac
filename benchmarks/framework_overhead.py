"""What Rolecraft itself costs, next to LangGraph, AutoGen and Agno, in the same run.

    python benchmarks/framework_overhead.py             # a table to stderr, JSON to stdout
    python benchmarks/framework_overhead.py --gate      # exit status 1 if a limit is crossed

Every figure comes from a fresh process, with a model that answers from the same process at once,
so that only the framework's own work is seen. Rolecraft records to a journal on disk while it is
measured. Frameworks that are not installed are left out (`make bench` installs them).

The limits in microseconds and seconds are for a machine where AutoGen's turn takes 34 us; they
are scaled by what it takes here.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

from gate import Gate
from machine import machine

MEASURE = Path(__file__).parent / "overhead" / "measure.py"
AUTOGEN_TURN_US = 34.0


class Framework(NamedTuple):
    name: str
    distribution: str
    statement: str
    """What a program that uses it imports."""
    measures: tuple[str, ...] = ("new", "turn", "exchange")
    records: bool = False
    """Also measured with 100,000 messages, of two roles and of 200, all of them recorded."""


YARDSTICK = Framework(
    "pydantic + loguru",
    "pydantic",
    "from loguru import logger\nfrom pydantic import BaseModel",
    (),
)
FRAMEWORKS = [
    Framework(
        "rolecraft",
        "rolecraft",
        "from rolecraft import Action, Environment, Message, Role",
        records=True,
    ),
    Framework(
        "autogen",
        "autogen-agentchat",
        "from autogen_agentchat.agents import AssistantAgent\n"
        "from autogen_agentchat.teams import RoundRobinGroupChat",
    ),
    Framework(
        "langgraph",
        "langgraph",
        "from langgraph.graph import END, START, MessagesState, StateGraph",
    ),
    Framework("agno", "agno", "from agno.agent import Agent"),
]

COLUMNS = {
    "import_ms": "import ms",
    "modules": "modules",
    "import_mib": "import MiB",
    "new_us": "new agent us",
    "new_kib": "KiB per agent",
    "turn_us": "turn us",
    "limited_turn_us": "with limits us",
    "timed_turn_us": "with a time limit us",
    "tool_turn_us": "one-tool turn us",
    "exchange_100_us": "us/msg of 100",
    "exchange_1000_us": "us/msg of 1,000",
    "exchange_1000_s": "1,000 msgs s",
    "growth": "growth",
    "long_s": "100,000 msgs s",
    "long_mib": "100,000 msgs MiB",
    "crowd_s": "200 roles s",
    "crowd_mib": "200 roles MiB",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--gate", action="store_true", help="fail if Rolecraft crosses a limit")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="measure only these frameworks")
    parser.add_argument("--repeat", type=int, default=3, help="passes over everything (default: 3)")
    options = parser.parse_args()

    frameworks = [YARDSTICK, *(f for f in FRAMEWORKS if f.name in (options.only or [f.name]))]
    results: dict[str, dict[str, Any]] = {}
    for framework in list(frameworks):
        try:
            results[framework.name] = {"version": version(framework.distribution)}
        except PackageNotFoundError:
            say(f"{framework.name}: left out, `{framework.distribution}` is not installed")
            frameworks.remove(framework)
    # Turn and turn about, so that a busy minute of the machine is everybody's.
    for count in range(1, options.repeat + 1):
        for framework in frameworks:
            say(f"pass {count} of {options.repeat}: {framework.name}")
            measure(framework, results[framework.name])
    measure_once(frameworks, results)
    gates = check(results) if "rolecraft" in results else []
    say("", table(results), "", *(str(gate) for gate in gates))
    print(
        json.dumps(
            {"machine": machine(), "results": results, "gates": [g._asdict() for g in gates]}
        )
    )
    return 1 if options.gate and not all(gate.ok for gate in gates) else 0


def measure(framework: Framework, best: dict[str, Any]) -> None:
    """Keep the best of all passes for every figure: noise only ever adds."""
    measured = [child("imports", framework.statement) for _ in range(5)]
    measured += [child(what, framework.name) for what in framework.measures]
    for figures in measured:
        for key, value in figures.items():
            best[key] = min(value, best.get(key, value))
    if "growth" in best:
        best["growth"] = best["exchange_1000_us"] / best["exchange_100_us"]


def measure_once(frameworks: list[Framework], results: dict[str, dict[str, Any]]) -> None:
    """100,000 messages take long enough to even out the noise by themselves."""
    for framework in frameworks:
        if framework.records:
            say(f"{framework.name}: 100,000 messages, of two roles and of 200")
            results[framework.name] |= child("long_run", framework.name)
            results[framework.name] |= child("crowd", framework.name)


def child(*words: str) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, MEASURE, *words], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"measuring {words} failed:\n{done.stderr}")
    measured: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return measured


def check(results: dict[str, dict[str, Any]]) -> list[Gate]:
    ours, yardstick = results["rolecraft"], results[YARDSTICK.name]
    if "autogen" in results:
        scale = results["autogen"]["turn_us"] / AUTOGEN_TURN_US
    else:
        scale = 1.0
        say("AutoGen is not there: limits are those of the reference machine")
    return [
        Gate("import, times pydantic + loguru", ours["import_ms"] / yardstick["import_ms"], 1.5),
        Gate("modules", ours["modules"], 250),
        Gate("new role, us", ours["new_us"], 50 * scale),
        Gate("new role, KiB", ours["new_kib"], 5),
        Gate("turn, us", ours["turn_us"], 60 * scale),
        Gate("turn with limits, times one without", ours["limited_turn_us"] / ours["turn_us"], 1.3),
        Gate("one-tool turn, us", ours["tool_turn_us"], 250 * scale),
        Gate("1,000 messages, s", ours["exchange_1000_s"], 0.3 * scale),
        Gate("cost per message, 1,000 against 100", ours["growth"], 1.2),
        Gate("100,000 messages, s", ours["long_s"], 40 * scale),
        Gate("100,000 messages, MiB", ours["long_mib"], 150),
        Gate("100,000 messages of 200 roles, s", ours["crowd_s"], 60 * scale),
        Gate("100,000 messages of 200 roles, MiB", ours["crowd_mib"], 300),
    ]


def table(results: dict[str, dict[str, Any]]) -> str:
    """Markdown: a row a framework."""
    rows = [["framework", *COLUMNS.values()], ["---"] * (len(COLUMNS) + 1)]
    for name, result in results.items():
        cells = [f"{result[key]:,.3g}" if key in result else "-" for key in COLUMNS]
        rows.append([f"{name} {result['version']}", *cells])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def say(*lines: str) -> None:
    print(*lines, sep="\n", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
