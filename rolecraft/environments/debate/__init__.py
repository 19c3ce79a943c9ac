"""`debate`: questions with known answers, for teams that argue about them."""

from rolecraft.environments.debate.environment import DebateEnvironment

__all__ = ["DebateEnvironment"]
