"""`relay`: two roles must pass a number on. Small enough to be learnt from scratch on a CPU."""

from rolecraft.environments.relay.environment import RelayEnvironment
from rolecraft.environments.relay.roles import (
    AddOffset,
    ChooseRegister,
    Executor,
    Planner,
    ReadRegister,
    relay_team,
)
from rolecraft.environments.relay.tasks import RelayTasks

__all__ = [
    "AddOffset",
    "ChooseRegister",
    "Executor",
    "Planner",
    "ReadRegister",
    "RelayEnvironment",
    "RelayTasks",
    "relay_team",
]
