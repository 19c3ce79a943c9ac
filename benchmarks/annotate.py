"""What annotating costs: detectors, importers, windows, live detectors, a judge's prompts.

    python benchmarks/annotate.py             # a table to stderr, JSON to stdout
    python benchmarks/annotate.py --gate      # exit status 1 if a limit is crossed

Speed is stated beside `json.loads` of the same text in the same process, both in processor time:
what a detector costs depends on the machine, how often it reads the text hardly does. "20 MB/s
where `json.loads` takes 0.2 s for 20 MB" is five times `json.loads`.

The texts are made here, from a seed: runs of our own in which roles talk, use tools, write files
and check them; work of the same kind as a HyperAgent log and as a chat. All have repetitions.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from gate import Gate
from judge_tokens import judge_tokens
from judge_tokens import table as tokens_table
from machine import machine

from rolecraft.failure_taxonomy import DETECTORS, LiveDetectors, formats
from rolecraft.failure_taxonomy.detectors import repeated_text
from rolecraft.failure_taxonomy.planted_logs import THINKS, as_ag2, as_hyperagent
from rolecraft.failure_taxonomy.planting import Script, Turn, Use
from rolecraft.failure_taxonomy.view import TraceView
from rolecraft.failure_taxonomy.windows import windows
from rolecraft.trajectories import Artifact, Event, Trajectory
from rolecraft.trajectories.codec import encode_event

MB = 1_000_000
JSON_SHARE = 5.0
"""Detectors may take so many times what `json.loads` takes."""
READING_S = 1.0
"""Importing and windowing 3 MB may take so long on the machine of the yardstick."""
YARDSTICK_S = 0.2
"""What `json.loads` takes there for 20 MB."""
LIVE_US = 1000.0
"""A live event may cost so much, on the same machine."""

_WORDS = (
    "parser report invoice index schema layout cache ledger atlas recipe sorts splits counts "
    "merges renames groups checks rounds the a of after before when every value row field file"
)
WORDS = _WORDS.split()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=_RAW)
    parser.add_argument("--gate", action="store_true", help="fail if a limit is crossed")
    parser.add_argument("--megabytes", type=float, default=20.0, help="text for the detectors")
    parser.add_argument(
        "--data", type=Path, default=Path("../shared/data"), help="logs for the judge's prompts"
    )
    options = parser.parse_args()
    results: dict[str, Any] = {"machine": machine()}
    results["detectors"] = [
        detectors(kind, made, options.megabytes) for kind, made in TRACES.items()
    ]
    json_s = results["detectors"][0]["json_s"] * 20.0 / options.megabytes
    results["reading"] = [reading(kind) for kind in ("hyperagent", "ag2", "rolecraft")]
    results["live"] = [live(rounds) for rounds in (200, 1000)]
    results["judge"] = judge_tokens(options.data)
    gates = list(check(results, json_s / YARDSTICK_S))
    say(table(results))
    say(tokens_table(results["judge"]))
    for gate in gates:
        say(str(gate))
    print(json.dumps({**results, "gates": [{**g._asdict(), "ok": g.ok} for g in gates]}))
    return 1 if options.gate and not all(gate.ok for gate in gates) else 0


_RAW = argparse.RawDescriptionHelpFormatter


def check(results: dict[str, Any], slower: float) -> Iterator[Gate]:
    """The limits. `slower` is how much slower than the stated machine this one is."""
    for row in results["detectors"]:
        yield Gate(f"detectors, {row['kind']}, times json.loads", row["times_json"], JSON_SHARE)
    for row in results["reading"]:
        yield Gate(f"import and windows of 3 MB, {row['kind']}, s", row["s"], READING_S * slower)
    for row in results["judge"]:
        if row["calls_of_those_that_fit"] is not None:
            calls = row["calls_of_those_that_fit"]
            yield Gate(f"judge calls for a trace that fits, {row['traces']}", calls, 1)
    short, long = results["live"]
    yield Gate("live, us an event", long["us_an_event"], LIVE_US * slower)
    yield Gate(
        "live, growth from 200 to 1,000 rounds", long["us_an_event"] / short["us_an_event"], 4
    )


# --- the detectors --------------------------------------------------------------------------------


def detectors(
    kind: str, make: Callable[[int], list[Trajectory]], megabytes: float
) -> dict[str, Any]:
    """All detectors on traces of so many megabytes, and `json.loads` of the same."""
    traces = make(int(megabytes * MB))
    lines = [[encode_event(event) for event in trace.events] for trace in traces]
    size = sum(len(line) for trace in lines for line in trace)
    json_s = best(lambda: [json.loads(line) for trace in lines for line in trace])
    found = 0

    def run() -> None:
        nonlocal found
        found = 0
        for trace in traces:
            view = TraceView(trace)
            said = [finding for detector in DETECTORS for finding in detector.judge(view)]
            found += sum(finding.verdict == "present" for finding in said)
            repeated_text(view)

    spent = best(run)
    each = {detector.name: 0.0 for detector in DETECTORS}
    for trace in traces:
        view = TraceView(trace)
        for detector in DETECTORS:
            began = time.process_time()
            detector.judge(view)
            each[detector.name] += time.process_time() - began
    return {
        "kind": kind,
        "mb": size / MB,
        "events": sum(len(trace.events) for trace in traces),
        "findings": found,
        "json_s": json_s,
        "s": spent,
        "mb_a_second": size / MB / spent,
        "times_json": spent / json_s,
        "shares": {name: seconds / json_s for name, seconds in each.items()},
    }


def best(work: Callable[[], object], times: int = 5) -> float:
    """Processor seconds of the fastest of a few runs: the others were disturbed."""
    spent = []
    for _ in range(times):
        began = time.process_time()
        work()
        spent.append(time.process_time() - began)
    return min(spent)


# --- reading --------------------------------------------------------------------------------------


def reading(kind: str) -> dict[str, Any]:
    """Importing a file of 3 MB and splitting it into windows for a judge."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"run{ENDINGS[kind]}"
        path.write_text(TEXTS[kind](3 * MB))

        def run() -> None:
            windows(TraceView(formats.read(path)), size=300_000, overlap=20_000)

        spent = best(run)
        return {"kind": kind, "mb": path.stat().st_size / MB, "s": spent}


# --- live -----------------------------------------------------------------------------------------


def live(rounds: int) -> dict[str, Any]:
    """A run of so many rounds, watched by all detectors."""
    events = _events(random.Random(0), rounds)
    watch = LiveDetectors()
    began = time.process_time()
    at = 0
    while at < len(events):
        now = events[at].time
        while at < len(events) and events[at].time == now:
            watch.on_event(events[at])
            at += 1
        watch.on_round({})
    spent = time.process_time() - began
    return {
        "rounds": rounds,
        "events": len(events),
        "s": spent,
        "us_an_event": spent / len(events) * 1e6,
        "findings": len(watch.found),
    }


# --- texts ----------------------------------------------------------------------------------------


def _says(dice: random.Random, words: int) -> str:
    return " ".join(dice.choices(WORDS, k=words)) + f" {dice.randrange(10**6)}."


def _events(dice: random.Random, rounds: int) -> list[Event]:
    """A run of our own: two roles that act, one of them with tools and files."""
    made: list[Event] = []

    def add(kind: Any, role: str, content: str = "", **fields: Any) -> Event:
        event = Event(kind, role, content, time=at, seq=len(made), **fields)
        made.append(event)
        return event

    again: dict[str, Any] = {}
    for at in range(1, rounds + 1):
        act = add("action", "engineer", data={"action": "Work", "index": 0, "run": f"{at}"})
        for _ in range(3):
            if not again or dice.random() < 0.9:
                again = {"path": f"src/{dice.randrange(50)}.py", "line": dice.randrange(900)}
            data = {"tool": dice.choice(("read_file", "search", "shell")), "arguments": again}
            call = add("tool_call", "engineer", data=data, cause=act.seq)
            add("tool_result", "engineer", _says(dice, 120), data={"ok": True}, cause=call.seq)
        name = f"src/{dice.randrange(50)}.py"
        made_of = Artifact(name, f"{dice.randrange(16**8):08x}")
        add("artifact", "engineer", artifact=made_of, cause=act.seq)
        said = add("message", "engineer", _says(dice, 60), to=("<all>",), cause=act.seq)
        act = add("action", "reviewer", data={"action": "Review", "index": 0, "run": f"{at}"})
        data = {"target": name, "passed": dice.random() < 0.5}
        add("verify", "reviewer", data=data, cause=said.seq)
        add("message", "reviewer", _says(dice, 40), to=("engineer",), cause=act.seq)
    return made


def _ours(size: int) -> list[Trajectory]:
    dice = random.Random(1)
    rounds = max(1, size // 5200)
    return [Trajectory("ours", {"goal": {"verify": "src/1.py"}}, _events(dice, rounds))]


def _script(dice: random.Random, size: int, *, planner: bool) -> Script:
    turns: list[Turn] = []
    made = 0
    call = Use("code_search", {"name": "f0"})
    while made < size:
        thoughts = [{THINKS: _says(dice, 60)} for _ in range(3)]
        if dice.random() < 0.95:
            call = Use("code_search", {"name": f"f{dice.randrange(10**6)}", "why": _says(dice, 9)})
        said = _says(dice, 120)
        if planner:
            asks = f"Find f{dice.randrange(10**4)}. {_says(dice, 30)}"
            turns.append(Turn("Planner", says=asks, to="Navigator", fields=thoughts[0]))
        turns.append(Turn("Navigator", does=[call], says=said, fields=thoughts[1]))
        turns.append(Turn("Planner", says=_says(dice, 50), to="Executor", fields=thoughts[2]))
        made += 2200 if planner else 1400
    return Script(turns)


def _hyperagent_text(size: int) -> str:
    return as_hyperagent(_script(random.Random(2), size, planner=True))


def _chat_text(size: int) -> str:
    return as_ag2(_script(random.Random(3), size, planner=False))


def _journal_text(size: int) -> str:
    (trace,) = _ours(size)
    with tempfile.TemporaryDirectory() as folder:
        return trace.save(Path(folder) / "run.jsonl").read_text()


def _imported(kind: str) -> Callable[[int], list[Trajectory]]:
    def make(size: int) -> list[Trajectory]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"run{ENDINGS[kind]}"
            path.write_text(TEXTS[kind](size))
            return [formats.read(path)]

    return make


ENDINGS = {"hyperagent": ".log", "ag2": ".json", "rolecraft": ".jsonl"}
TEXTS = {"hyperagent": _hyperagent_text, "ag2": _chat_text, "rolecraft": _journal_text}
TRACES = {"rolecraft": _ours, "hyperagent": _imported("hyperagent"), "ag2": _imported("ag2")}

# --- what is said ---------------------------------------------------------------------------------


def table(results: dict[str, Any]) -> str:
    rows = ["| trace | MB | events | json.loads s | detectors s | MB/s | times json.loads |"]
    rows.append("|---|---|---|---|---|---|---|")
    rows += [
        f"| {row['kind']} | {row['mb']:.1f} | {row['events']:,} | {row['json_s']:.2f} "
        f"| {row['s']:.2f} | {row['mb_a_second']:.1f} | {row['times_json']:.1f} |"
        for row in results["detectors"]
    ]
    for row in results["detectors"]:
        shares = sorted(row["shares"].items(), key=lambda share: -share[1])[:6]
        listed = ", ".join(f"{name.removeprefix('detector.')} {x:.2f}" for name, x in shares)
        rows.append(f"of these, {row['kind']}: {listed}")
    rows += [
        f"import and windows of {row['mb']:.1f} MB, {row['kind']}: {row['s']:.2f} s"
        for row in results["reading"]
    ]
    rows += [
        f"live, {row['rounds']:,} rounds of {row['events']:,} events: "
        f"{row['us_an_event']:.0f} us an event"
        for row in results["live"]
    ]
    return "\n".join(rows)


def say(text: str) -> None:
    print(text, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
