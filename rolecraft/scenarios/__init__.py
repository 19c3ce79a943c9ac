"""Who plays what, where, for which reward: the things a user runs."""

from rolecraft.scenarios.scenario import Episode, Scenario

__all__ = ["Episode", "Scenario"]
