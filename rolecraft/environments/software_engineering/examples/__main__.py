"""Fetch the example set, and with `--check` see whether every task of it is what it says."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

from rolecraft.environments.software_engineering.examples.catalogue import examples
from rolecraft.environments.software_engineering.examples.check import check, suite_of
from rolecraft.environments.software_engineering.examples.fetch import (
    Fetched,
    default_folder,
    fetch,
    packages,
)
from rolecraft.environments.software_engineering.grading import Grader
from rolecraft.errors import RolecraftError
from rolecraft.sandboxes import LocalProcess, SandboxProvider, default_provider


def main() -> int:
    parser = argparse.ArgumentParser(prog=f"python -m {__package__}", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=default_folder())
    parser.add_argument("--check", action="store_true", help="run every task, twice on each side")
    parser.add_argument(
        "--suites",
        type=Path,
        metavar="DIR",
        help="write which tests pass in each package as it was published; part of adding a package",
    )
    parser.add_argument("--local", action="store_true", help="run the tests without a sandbox")
    given = parser.parse_args()
    try:
        fetched = fetch(given.folder)
        print(f"{len(examples())} tasks are ready in {fetched.folder}")
        provider: SandboxProvider = LocalProcess() if given.local else default_provider()
        grader = Grader(provider)
        if given.suites is not None:
            asyncio.run(_write_suites(grader, fetched, given.suites))
        return asyncio.run(_check(grader, fetched)) if given.check else 0
    except RolecraftError as error:
        print(f"rolecraft: {error}", file=sys.stderr)
        return 1


async def _write_suites(grader: Grader, fetched: Fetched, folder: Path) -> None:
    for pin in packages().values():
        names = await suite_of(grader, pin, fetched)
        (folder / f"{pin.name}.txt").write_text("".join(f"{name}\n" for name in names), "utf-8")
        print(f"{pin}: {len(names)} tests pass")


async def _check(grader: Grader, fetched: Fetched) -> int:
    wrong = 0
    async for checked in check(grader, fetched):
        print(f"{'wrong' if checked.problems else 'right'}  {checked.id}", flush=True)
        for problem in checked.problems:
            print(f"       {problem}")
        wrong += bool(checked.problems)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
