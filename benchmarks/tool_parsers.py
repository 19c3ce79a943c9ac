"""What parsing tool calls costs, next to the parsers of vLLM and SGLang, in the same run.

    python benchmarks/tool_parsers.py             # a table to stderr, JSON to stdout
    python benchmarks/tool_parsers.py --gate      # exit status 1 if Rolecraft is the slower one

Of each format four texts, the same for every engine: one call, five calls with text before them, a
call with an argument of 100 kB, and one of 20 kB that comes in deltas of 4 characters. A whole
text counts until there are names and arguments that are read: vLLM and SGLang give the text of
arguments, which takes `json.loads` still; of deltas, what they tell is not put together. An engine
that gets a text wrong is measured, marked with `!`, and is no bar for the others. `make
bench-parsers` installs the engines; those that are not there are left out.

With `--scores FOLDER` it prints instead how many published cases (`tool_calls_dev.jsonl`,
`tool_calls_hard.jsonl`) each engine gets right.
"""

from __future__ import annotations

import argparse
import gc
import json
import re
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gate import Gate
from machine import machine

sys.path.insert(0, str(Path(__file__).parents[1]))

from parsers.peers import SPECIAL, Engine, engines, same

KINDS = ("short", "medium", "long", "stream")
CHEAP_US = 1_000
"""What takes less is measured more often: a busy moment is a large part of it."""
DELTA = 4
MOMENT_US = 20_000
SPECIAL_TOKEN = re.compile("(" + "|".join(map(re.escape, SPECIAL)) + ")")
CODE = '    if a < b and "x" in d:  # 1 > 0\n        return {"k": [1, 2]}\n'

Row = dict[str, dict[str, Any]]
"""Kind of text -> engine -> microseconds, and whether it got it right."""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--gate", action="store_true", help="fail if Rolecraft is slower")
    parser.add_argument("--formats", nargs="+", metavar="NAME", help="only these formats")
    parser.add_argument("--engines", nargs="+", metavar="NAME", help="only these engines")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS, help="only these texts")
    parser.add_argument("--repeat", type=int, default=5, help="passes over all (default: 5)")
    parser.add_argument("--scores", type=Path, metavar="FOLDER", help="right answers, not times")
    options = parser.parse_args()

    there: list[Engine] = []
    for engine in engines(options.engines):
        if isinstance(engine, str):
            say(engine)
        else:
            there.append(engine)
    if options.scores:
        say(scores(there, options.scores))
        return 0
    gc.collect()
    gc.freeze()  # the engines bring a million objects, which need not be looked at each time
    formats = options.formats or sorted(there[0].formats)
    results = {}
    for form in formats:
        results[form] = measure(form, there, options.repeat, options.kinds)
        say(table({form: results[form]}, there))
    gc.unfreeze()
    gates = [gate for form in formats for gate in check(form, results[form])]
    say("", table(results, there), "", *(str(gate) for gate in gates if not gate.ok))
    say(f"{sum(gate.ok for gate in gates)} of {len(gates)} limits kept")
    print(
        json.dumps(
            {
                "machine": machine(),
                "engines": {engine.name: engine.version for engine in there},
                "results": results,
                "gates": [gate._asdict() for gate in gates],
            }
        )
    )
    return 1 if options.gate and not all(gate.ok for gate in gates) else 0


# Texts. Written by Rolecraft's `render`, which writes what the models' chat templates write.


def schema(**properties: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: {"type": kind} for name, kind in properties.items()},
    }


def tool(name: str, **properties: str) -> dict[str, Any]:
    function = {"name": name, "description": name, "parameters": schema(**properties)}
    return {"type": "function", "function": function}


TOOLS = [
    tool("get_weather", city="string", unit="string", days="integer"),
    tool("search", query="string", top_k="integer"),
    tool("write_file", path="string", content="string"),
    tool("run", command="string", timeout="number", check="boolean"),
]


def texts(form: str) -> dict[str, tuple[str, list[tuple[str, dict[str, Any]]]]]:
    """Text and calls of each kind."""
    from rolecraft.messages import ToolCall
    from rolecraft.models.tool_calls import get_parser

    render = get_parser(form).render
    weather = ("get_weather", {"city": "Paris", "unit": "celsius", "days": 3})
    five = [
        weather,
        ("search", {"query": "restaurants near the Seine", "top_k": 5}),
        ("write_file", {"path": "src/app.py", "content": CODE * 3}),
        ("run", {"command": "pytest -q tests", "timeout": 2.5, "check": True}),
        ("get_weather", {"city": "北京", "unit": "celsius", "days": 1}),
    ]

    def file_of(length: int) -> list[tuple[str, dict[str, Any]]]:
        content = CODE * (length // len(CODE))
        return [("write_file", {"path": "src/app.py", "content": content})]

    def written(calls: list[tuple[str, dict[str, Any]]]) -> str:
        return render([ToolCall(name, dict(arguments)) for name, arguments in calls])

    before = "I will look at the weather, search, and then write the file.\n\n"
    if form == "gpt_oss":  # text stands in a channel of its own
        before = "<|channel|>commentary<|message|>I will look at the weather.<|end|>"
    return {
        "short": (written([weather]), [weather]),
        "medium": (before + written(five), five),
        "long": (written(file_of(100_000)), file_of(100_000)),
        "stream": (written(file_of(20_000)), file_of(20_000)),
    }


# Times.


def measure(form: str, there: list[Engine], repeat: int, kinds: Sequence[str]) -> Row:
    able = [engine for engine in there if form in engine.formats]
    row: Row = {}
    written = texts(form)
    for kind in kinds:
        text, calls = written[kind]
        say(f"{form}: {kind}, {len(text):,} characters")
        deltas = cut(text)
        row[kind] = cells = {}
        for engine in able:
            try:
                right = same([list(call) for call in calls], engine.parse(form, text, TOOLS).calls)
            except Exception as error:
                say(f"  {engine.name} raises {error!r:.200}")
                continue
            cells[engine.name] = {"us": float("inf"), "right": right}
        # Turn and turn about, so that a busy minute of the machine is everybody's.
        for number in range(10 * repeat):
            for engine in able:
                if engine.name not in cells or (number >= repeat and not cheap(cells[engine.name])):
                    continue
                try:
                    took = once(engine, form, kind, text, deltas)
                except Exception as error:
                    say(f"  {engine.name} raises {error!r:.200}")
                    del cells[engine.name]
                else:
                    cells[engine.name]["us"] = min(took, cells[engine.name]["us"])
    return row


def cheap(cell: dict[str, Any]) -> bool:
    return bool(cell["us"] < CHEAP_US)


def cut(text: str) -> list[str]:
    """Special tokens come whole, the rest in fours."""
    parts = SPECIAL_TOKEN.split(text)
    return [
        piece
        for part in parts
        for piece in (
            [part]
            if SPECIAL_TOKEN.fullmatch(part)
            else [part[at : at + DELTA] for at in range(0, len(part), DELTA)]
        )
    ]


def once(engine: Engine, form: str, kind: str, text: str, deltas: list[str]) -> float:
    """Microseconds of processor time, the mean of as many runs as fit into a moment."""
    given: Any = deltas if kind == "stream" else text
    first = timed([work(engine, form, kind)], given)
    count = min(50, int(MOMENT_US / first))
    more = [work(engine, form, kind) for _ in range(count)]
    return min(first, timed(more, given)) if more else first


def work(engine: Engine, form: str, kind: str) -> Callable[[Any], Any]:
    """What is timed: from a text to calls with arguments that are read, or all of its deltas."""
    if kind == "stream":
        return engine.prepare_stream(form, TOOLS)
    parse, found = engine.prepare(form, TOOLS), engine.found
    return lambda text: found(parse(text))


def timed(works: list[Callable[[Any], Any]], given: Any) -> float:
    gc.collect()
    gc.disable()
    try:
        start = time.process_time()
        for work in works:
            work(given)
        return (time.process_time() - start) / len(works) * 1e6
    finally:
        gc.enable()


def check(form: str, row: Row) -> list[Gate]:
    """Rolecraft's time over that of the fastest other engine which is right."""
    gates = []
    for kind, cells in row.items():
        others = [c["us"] for name, c in cells.items() if name != "rolecraft" and c["right"]]
        if "rolecraft" in cells and others:
            ratio = cells["rolecraft"]["us"] / min(others)
            gates.append(Gate(f"{form}, {kind}, times the fastest other engine", ratio, 1.0))
    return gates


def table(results: dict[str, Row], there: list[Engine]) -> str:
    """Markdown: a row a format and engine, microseconds."""
    kinds = next(iter(results.values()))
    heads = ["format", "engine", *(f"{kind} us" for kind in kinds)]
    rows = [heads, ["---"] * len(heads)]
    for form, row in results.items():
        rows += [
            [form, engine.name, *(cell(row[kind], engine.name) for kind in kinds)]
            for engine in there
            if any(engine.name in cells for cells in row.values())
        ]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def cell(cells: dict[str, Any], name: str) -> str:
    if name not in cells:
        return "-"
    told = f"{cells[name]['us']:,.3g}" if cells[name]["us"] < 1000 else f"{cells[name]['us']:,.0f}"
    right = [c["us"] for c in cells.values() if c["right"]]
    if not cells[name]["right"]:
        return f"{told} !"
    return f"**{told}**" if cells[name]["us"] == min(right) else told


# Answers.


def scores(there: list[Engine], folder: Path) -> str:
    """Markdown: how many cases of each tier an engine gets right, by calls."""
    cases = [
        json.loads(line)
        for name in ("tool_calls_dev.jsonl", "tool_calls_hard.jsonl")
        for line in (folder / name).read_text("utf-8").splitlines()
    ]
    rows = [["engine", "A", "B", "C", "hard"], ["---"] * 5]
    for engine in there:
        right: dict[str, list[bool]] = defaultdict(list)
        for case in cases:
            if case["format"] in engine.formats:
                right[case.get("tier", "hard")].append(is_right(engine, case))
        cells = [f"{sum(right[tier])}/{len(right[tier])}" for tier in rows[0][1:]]
        rows.append([f"{engine.name} {engine.version}", *cells])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def is_right(engine: Engine, case: dict[str, Any]) -> bool:
    expected = [[call["name"], call["arguments"]] for call in case["expected_calls"]]
    try:
        return same(expected, engine.parse(case["format"], case["text"], case["tools"] or []).calls)
    except Exception as error:  # an engine that raises is wrong, whatever it raises
        say(f"{engine.name} raises {error!r:.100} for {case['id']}")
        return False


def say(*lines: str) -> None:
    print(*lines, sep="\n", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
