"""A program for `test_unknown.py`: a team whose process is killed in the middle of an action.

`python -c "import cut_off_team; cut_off_team.main()" FOLDER REPEAT MOMENT` is killed before or
after the effect of Ann's second action. The test goes on with it, so the module has one name.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rolecraft import Action, FunctionModel, Role, Team
from rolecraft.actions import idempotency_key


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Prepare(Action):
    async def run(self) -> str:
        self.role.note(f"{idempotency_key()} prepared")
        return "prepared"


class Send(Action):
    """Ask what to send, send it."""

    async def run(self) -> str:
        text = await self.ask("What?")
        if self.role.moment == "before":
            self.role.kill()
        self.role.note(f"{idempotency_key()} sent {text}")
        if self.role.moment == "after":
            self.role.kill()
        return f"sent {text}"


class File(Action):
    async def run(self, history: Any) -> str:
        self.role.note(f"{idempotency_key()} filed")
        return f"filed: {history[-1].content}"


class Clerk(Role):
    effects: Path
    moment: str
    kill: Callable[[], None]

    def note(self, line: str) -> None:
        with self.effects.open("a") as effects:
            effects.write(line + "\n")


def team(folder: Path, moment: str = "", kill: Callable[[], None] = die, **options: Any) -> Team:
    """Its roles act together, so that the kill leaves a round that is not committed."""
    how: dict[str, Any] = {"effects": folder / "effects", "moment": moment, "kill": kill}
    return Team(
        [
            Clerk(name="Ann", actions=[Prepare, Send, File], **how),
            Clerk(name="Bob", actions=[Prepare], **how),
        ],
        model=FunctionModel(lambda call: "a letter"),
        journal=folder / "run.jsonl",
        **options,
    )


def main() -> None:
    folder, repeat, moment = sys.argv[1:]
    Send.repeat = repeat  # type: ignore[assignment]
    asyncio.run(team(Path(folder), moment).run("go"))
