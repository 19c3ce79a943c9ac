"""Whether roles think before they answer, as options say it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from rolecraft.cli._exits import CommandLineError

ThinkingRoles = Annotated[
    list[str] | None,
    typer.Option(
        "--thinking",
        metavar="ROLE=on|off",
        help="Whether a role thinks before it answers, where the model's chat template has a "
        "switch; else as the template has it. Can be given several times.",
    ),
]
_SAID = {"on": True, "off": False}


def thinking_of(pairs: Sequence[str] | None) -> dict[str, bool]:
    """By role. Raises `CommandLineError` for what is no ROLE=on or ROLE=off, or said twice."""
    found: dict[str, bool] = {}
    for pair in pairs or ():
        role, _, said = pair.rpartition("=")
        if not role or said not in _SAID:
            raise CommandLineError(f"`--thinking {pair}`: write ROLE=on or ROLE=off.")
        if role in found:
            raise CommandLineError(f"`--thinking {pair}`: {role!r} was named already.")
        found[role] = _SAID[said]
    return found


def thinking_words(thinking: dict[str, bool]) -> str:
    """The options that say the same again; empty if there are none."""
    return " ".join(
        f"--thinking {role}={'on' if thinks else 'off'}" for role, thinks in thinking.items()
    )
