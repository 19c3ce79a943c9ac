"""From `FILE.py:NAME`, a scenario or a learned reward's folder to a reward."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TYPE_CHECKING

from rolecraft.cli._exits import CommandLineError
from rolecraft.cli._scenarios import SCENARIOS, find_scenario
from rolecraft.cli._target import load_file
from rolecraft.errors import UnknownName

if TYPE_CHECKING:
    from rolecraft.rewards import Reward

_KINDS = (
    "a reward (`@reward` above a function of `Signals`, or several put together), a function of "
    "one argument, or a `Scenario`"
)


def find_reward(spec: str, *, option: str = "--reward") -> Reward:
    """The reward that `spec` names: FILE.py:NAME, a scenario of ours, or a folder.

    A function of one argument is taken as a function of `Signals`; a folder is one that `rolecraft
    feedback --fit` wrote. Raises `CommandLineError` for anything else.
    """
    from rolecraft.rewards import Reward, reward
    from rolecraft.scenarios import Scenario

    if Path(spec).is_dir():
        from rolecraft.rewards.learned import load_learned

        return load_learned(Path(spec))
    if spec in SCENARIOS:
        return find_scenario(spec, "asked for its reward").reward
    file, _, name = spec.rpartition(":")
    if spec.isidentifier():
        hint = "Or write FILE.py:NAME for a reward of your own."
        raise CommandLineError(f"`{option}`: {UnknownName('Scenario', spec, SCENARIOS, hint=hint)}")
    if not file or not name:
        gone = "" if spec.endswith(".py") else "there is no such folder. Else "
        raise CommandLineError(
            f"`{option} {spec}` does not say which reward: {gone}write FILE.py:NAME, the name of a "
            f"scenario, or the folder of a reward that was fitted to feedback."
        )
    module = load_file(file)
    if not hasattr(module, name):
        named = [each for each, thing in vars(module).items() if isinstance(thing, Reward)]
        has = f" It has: {', '.join(f'`{each}`' for each in named)}." if named else ""
        raise CommandLineError(f"`{option} {spec}`: `{file}` has no {name!r}.{has}")
    found = getattr(module, name)
    if isinstance(found, Reward):
        return found
    if isinstance(found, Scenario):
        return found.reward
    if inspect.isfunction(found) and len(inspect.signature(found).parameters) == 1:
        return reward(found)
    raise CommandLineError(f"`{option} {spec}`: {name!r} is {found!r} there. Name {_KINDS}.")
