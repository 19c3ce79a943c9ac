"""`metagpt.team`."""

from rolecraft.environments import Team

__all__ = ["Team"]
