"""`metagpt.environment`."""

from rolecraft.environments import Environment

__all__ = ["Environment"]
