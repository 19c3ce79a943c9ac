"""A program for `test_approvals.py`: a team whose payments a person must allow.

`python asking_team.py FOLDER run` runs it, `... FOLDER recover KEY=yes KEY=no` goes on with it.
Prints how the run stopped and what waits, as one JSON object.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from rolecraft import Action, Role, Team
from rolecraft.actions import idempotency_key


class Pay(Action):
    """Transfer money."""

    approval = True

    amount: int

    async def run(self) -> str:
        with self.role.effects.open("a") as effects:
            effects.write(f"{idempotency_key()} paid {self.amount}\n")
        return f"paid {self.amount}"


class Look(Action):
    async def run(self) -> str:
        with self.role.effects.open("a") as effects:
            effects.write(f"{idempotency_key()} looked\n")
        return "looked"


class Clerk(Role):
    effects: Path


def team(folder: Path) -> Team:
    effects = folder / "effects"
    return Team(
        [
            Clerk(name="Ann", actions=[Look, Pay(amount=5), Look], effects=effects),
            Clerk(name="Bob", actions=[Look], effects=effects),
        ],
        journal=folder / "run.jsonl",
    )


async def main() -> None:
    folder, what, *answers = Path(sys.argv[1]), *sys.argv[2:]
    clerks = team(folder)
    if what == "run":
        run = await clerks.run("go")
    else:
        approve = dict(answer.split("=") for answer in answers)
        run = await clerks.recover(
            folder / "run.jsonl", approve={key: said == "yes" for key, said in approve.items()}
        )
    waiting = [[event.role, event.data["key"], event.content] for event in run.approvals]
    print(json.dumps({"stop": run.stop, "waiting": waiting}))


if __name__ == "__main__":
    asyncio.run(main())
