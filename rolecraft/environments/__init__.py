"""Where roles act: environments, teams, tasks."""

from rolecraft.environments.environment import Environment
from rolecraft.environments.streaming import Delta
from rolecraft.environments.task import Task, TaskEnvironment
from rolecraft.environments.team import Run, Team

__all__ = ["Delta", "Environment", "Run", "Task", "TaskEnvironment", "Team"]
