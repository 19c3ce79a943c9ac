"""`rolecraft doctor`: in seconds, whether a model, a template, a reward can be trained as they are.

One file for each check. A check changes nothing that it is given, and says what it found.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rolecraft.training.doctor.examination import examine
    from rolecraft.training.doctor.finding import Finding, Verdict
    from rolecraft.training.doctor.quick import before_training

__all__ = ["Finding", "Verdict", "before_training", "examine"]

_HOMES = {
    "before_training": "quick",
    "examine": "examination",
    "Finding": "finding",
    "Verdict": "finding",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
