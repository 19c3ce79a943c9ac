"""The example set: 20 tasks with planted bugs, in packages that pip fetches."""

from rolecraft.environments.software_engineering.examples.catalogue import (
    Example,
    SweExamples,
    examples,
    swe_examples,
)
from rolecraft.environments.software_engineering.examples.fetch import (
    Fetched,
    PackagesUnavailable,
    Pin,
    default_folder,
    fetch,
    packages,
)

__all__ = [
    "Example",
    "Fetched",
    "PackagesUnavailable",
    "Pin",
    "SweExamples",
    "default_folder",
    "examples",
    "fetch",
    "packages",
    "swe_examples",
]
