"""Many runs at once."""

from rolecraft.rollouts.collect import Failed, collect, episodes

__all__ = ["Failed", "collect", "episodes"]
