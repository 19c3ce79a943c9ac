"""`maths`: word problems with exact answers, drawn from seeds."""

from rolecraft.environments.maths.environment import MathsEnvironment
from rolecraft.environments.maths.tasks import LEVELS, MathsTasks

__all__ = ["LEVELS", "MathsEnvironment", "MathsTasks"]
