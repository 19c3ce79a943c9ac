"""`software_engineering`: faults in real code to mend, measured by tests the roles do not see."""

from rolecraft.environments.software_engineering.environment import SoftwareEnvironment
from rolecraft.environments.software_engineering.grading import Grade, Grader, resolved_share
from rolecraft.environments.software_engineering.instances import (
    BadInstance,
    Instance,
    SoftwareTasks,
    Unsupported,
)
from rolecraft.environments.software_engineering.loaders import (
    Loaded,
    Place,
    load,
    load_tasks,
    of_row,
    of_rows,
)

__all__ = [
    "BadInstance",
    "Grade",
    "Grader",
    "Instance",
    "Loaded",
    "Place",
    "SoftwareEnvironment",
    "SoftwareTasks",
    "Unsupported",
    "load",
    "load_tasks",
    "of_row",
    "of_rows",
    "resolved_share",
]
