"""A program for `test_recover.py`: kills a team at every write of its record, and recovers it.

Prints one JSON object a line: which write, how it was killed, and what came of it.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from rolecraft import Action, Role, Team, UserRequirement
from rolecraft.actions import idempotency_key
from rolecraft.errors import TraceError
from rolecraft.models import FunctionModel
from rolecraft.models.doubles import ModelCall
from rolecraft.trajectories import append_file


def note(path: Path, text: str) -> None:
    """An effect outside of the process."""
    fd = os.open(path, os.O_APPEND | os.O_CREAT | os.O_WRONLY)
    os.write(fd, (text + "\n").encode())
    os.close(fd)


class Work(Action):
    """Asks, waits, has an effect, waits again."""

    async def run(self, history) -> str:
        first = await self.ask(f"{self.role.name}: {history[-1].content}?")
        await asyncio.sleep(0)
        note(self.role.effects, idempotency_key())
        self.role.done += 1
        self.record_artifact(f"{self.role.name}.txt", first)
        second, third = await asyncio.gather(self.ask("and then?"), self.ask("and else?"))
        return f"{first} {second} {third} #{self.role.done}"


class Report(Action):
    async def run(self, history) -> str:
        for _ in range(self.role.yields):
            await asyncio.sleep(0)
        note(self.role.effects, idempotency_key())
        return f"report of {self.role.name} on {history[-1].content[:20]}"


class Worker(Role):
    effects: Path
    done: int = 0
    yields: int = 0


def team(folder: Path) -> Team:
    effects = folder / "effects"

    def answer(call: ModelCall) -> str:
        text = call.messages[-1].content
        note(folder / "calls", f"{call.role} {text}")
        return f"[{text[:30]}]"

    return Team(
        [
            Worker(name="Ann", actions=[Work, Report], effects=effects, watch=[UserRequirement]),
            Worker(name="Bob", actions=[Work], effects=effects, yields=3, watch=[Report]),
            Worker(name="Cy", actions=[Report, Work], effects=effects, yields=2, watch=[Work]),
        ],
        model=FunctionModel(answer),
        journal=folder / "run.jsonl",
        seed=7,
    )


async def first(folder: Path) -> None:
    await team(folder).run("go", rounds=4)


async def again(folder: Path) -> None:
    try:
        await team(folder).recover(folder / "run.jsonl")
    except TraceError as error:
        if "nothing happened yet, run the team anew" not in str(error):
            raise
        await first(folder)


def in_child(work: Callable[[], None]) -> int:
    """Run `work` in a forked process; its wait status."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1]


def killed_at(write: int, how: str, work: Callable[[], None]) -> int:
    """Run `work` and kill its process at its n-th write to the record."""

    def with_kill() -> None:
        plain, count = append_file.AppendFile.append, 0

        def append(self: append_file.AppendFile, data: bytes) -> None:
            nonlocal count
            count += 1
            if count == write:
                if how == "after":
                    plain(self, data)
                elif how == "half":
                    os.write(self.fd, data[: len(data) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            plain(self, data)

        append_file.AppendFile.append = append  # type: ignore[method-assign]
        work()

    return in_child(with_kill)


def main() -> None:
    home, step = Path(sys.argv[1]), int(sys.argv[2])
    reference = home / "reference"
    reference.mkdir()
    assert in_child(lambda: asyncio.run(first(reference))) == 0
    print(json.dumps({"reference": True}))
    for how in ("before", "half", "after"):
        write = 1
        while True:
            folder = home / f"{how}-{write}"
            folder.mkdir()
            status = killed_at(write, how, lambda folder=folder: asyncio.run(first(folder)))
            if status == 0:
                break  # it came to its end before that write
            # The recovery is killed as well, at a write of its own.
            for number in (2, 5):
                recovery = lambda folder=folder: asyncio.run(again(folder))  # noqa: E731
                killed_at(number, how, recovery)
            status = in_child(lambda folder=folder: asyncio.run(again(folder)))
            report = {"how": how, "write": write, "status": status, "folder": str(folder)}
            print(json.dumps(report), flush=True)
            write += step


if __name__ == "__main__":
    main()
