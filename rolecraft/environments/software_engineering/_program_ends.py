"""How the programs end that a tests' command builds and runs: a proof that their tests came to an
end.

A program that says nothing and ends with 0 passes for CTest, whether it ran its checks or code of a
patch ended it before. So the command runs with a library (`_program_ends.c`) loaded into all that
it starts, which tells when a program of the work folder begins, when its `main` returns, and when
it calls `exit` or the like. That `main` returned 0 needs no excuse; any other end does: as often as
the program ends so with the instance's own solution.
"""

from __future__ import annotations

import json
import secrets
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from rolecraft.environments.software_engineering import _watching
from rolecraft.sandboxes.test_runners import TestRun

_AS_IT_SHOULD = "returned 0"
_SILENT = "no word"

Ends = Counter[tuple[str, str]]
"""How often a program ended in a way other than that its `main` returned 0."""


@dataclass(frozen=True, slots=True)
class Watch:
    """One run of a command that is watched."""

    token: str = field(default_factory=lambda: secrets.token_hex(16))

    def command(self, command: Sequence[str], python: str) -> list[str]:
        """What to run in its place."""
        said = {"token": self.token, "library": _library(), "command": [*command]}
        return [python, "-I", "-c", _source(), json.dumps(said)]

    def read(self, run: TestRun) -> tuple[TestRun, Ends]:
        """The run as it would have been without, and the ends that need an excuse."""
        first, _, rest = run.printed.partition("\n")
        if not first.startswith(f"{self.token} "):
            return run, Ends()  # it was cut short, which is told in other ways
        told = json.loads(first.removeprefix(f"{self.token} "))
        found = replace(run, execution=replace(run.execution, stderr=rest))
        return found, _ends(self.token, told or ())


def with_success(ends: Ends) -> Ends:
    """Those of programs that said themselves that they end, and with 0."""
    return Ends({end: often for end, often in ends.items() if end[1].endswith(" 0")})


def words(ends: Ends) -> str:
    """The first of them."""
    program, way = min(ends)
    how = "without a word" if way == _SILENT else f"so: {way}"
    return (
        f"the program `{program}` ended {how}, which with the instance's own solution it does not: "
        f"its `main` may not have come to its end"
    )


def _ends(token: str, lines: Sequence[str]) -> Ends:
    open_: dict[str, tuple[str, list[str]]] = {}
    found = Ends()

    def close(process: str) -> None:
        if process in open_:
            program, ways = open_.pop(process)
            way = ", then ".join(ways) or _SILENT
            if way != _AS_IT_SHOULD:
                found[program, way] += 1

    for line in lines:
        match line.rstrip("\n").split(" ", 3):
            case [said, process, "began", program] if said == token:
                close(process)  # it has become another program, or its number was free
                open_[process] = program, []
            case [said, process, way, status] if said == token and process in open_:
                open_[process][1].append(f"{way} {status}")
            case _:
                pass
    for process in [*open_]:
        close(process)
    return found


@cache
def _source() -> str:
    return Path(_watching.__file__).read_text("utf-8")


@cache
def _library() -> str:
    return Path(__file__).with_suffix(".c").read_text("utf-8")
