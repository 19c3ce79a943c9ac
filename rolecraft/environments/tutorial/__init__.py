"""`tutorial`: write a Markdown document to order; all of it can be measured without a model."""

from rolecraft.environments.tutorial.environment import TutorialEnvironment
from rolecraft.environments.tutorial.tasks import TutorialTasks

__all__ = ["TutorialEnvironment", "TutorialTasks"]
