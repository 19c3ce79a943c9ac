"""Looks for texts of which a parser of tool calls takes more time than their length accounts for.

    python fuzz/growth.py --seconds 300 [--seed 1] [--formats hermes ...]

It repeats random pieces of a grammar, with others before and after, whole and in deltas, and prints
those for which 16 times the text takes more than 45 times as long. Exit status 1 if there are any.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path[:0] = [
    str(Path(__file__).parents[1]),
    str(Path(__file__).parents[1] / "tests" / "models" / "tool_calls"),
]

from tool_call_texts import EVERY_MARKER, FORMATS, JSON, MARKERS, THINKING  # noqa: E402

from rolecraft.messages import ToolCall  # noqa: E402
from rolecraft.models.tool_calls import get_parser  # noqa: E402

TIMES, MOST = 16, 45
NOISE = 0.03
"""Seconds below which a run says nothing."""


def main() -> int:
    options = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    options.add_argument("--seconds", type=float, default=300)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--formats", nargs="+", default=FORMATS)
    asked = options.parse_args()
    chance, end = random.Random(asked.seed), time.monotonic() + asked.seconds
    tried = found = 0
    while time.monotonic() < end:
        name = chance.choice(asked.formats)
        found += grows_too_fast(name, chance)
        tried += 1
    print(f"{tried:,} texts tried, {found} grow too fast")
    return 1 if found else 0


def grows_too_fast(name: str, chance: random.Random) -> bool:
    parser = get_parser(name)
    own = [*MARKERS.get(name, EVERY_MARKER), *parser.grammar.marks.markers]
    own += [parser.render([ToolCall("f", {"a": value})]) for value in (1, "x")]
    pieces = [*own, *own, *JSON, *THINKING, '"', "{", "\\", "\n", " ", "x", "`"]

    def some(most: int, least: int = 0) -> str:
        return "".join(chance.choice(pieces) for _ in range(chance.randint(least, most)))

    before, unit, after = some(3), some(5, 1), some(3)
    starts = chance.choice((False, False, True, None))
    size = chance.choice((0, 0, 0, 7))
    count = max(1, 3_000 // len(unit))

    def run(times: int) -> Callable[[], object]:
        text = before + unit * (count * times) + after
        if not size:
            return lambda: parser.parse(text, starts_in_reasoning=starts)
        deltas = [text[at : at + size] for at in range(0, len(text), size)]

        def streamed() -> object:
            stream = parser.stream(starts_in_reasoning=starts)
            for delta in deltas:
                stream.feed(delta)
            return stream.finish()

        return streamed

    if (long := seconds(run(TIMES), 1)) < NOISE:
        return False
    short = seconds(run(1), 3)
    if long <= MOST * short or (long := seconds(run(TIMES), 2)) <= MOST * short:
        return False
    print(
        f"{name}, deltas of {size or 'any length'}, starts_in_reasoning={starts}: "
        f"{long / short:.0f} times for {TIMES} times {(before, unit, after)!r}",
        flush=True,
    )
    return True


def seconds(work: Callable[[], object], runs: int) -> float:
    times = []
    for _ in range(runs):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


if __name__ == "__main__":
    sys.exit(main())
