"""Planting: which of the bugs that the modifiers know are written down as candidates.

    trees.py     the files, their functions and classes, and each possible change of them
    sight.py     which share of the tests sees a change
    order.py     in which order they are drawn
    plant.py     drawing them

Raises `MissingExtra` when it is imported and libcst is not installed.
"""

from rolecraft.errors import MissingExtra

try:
    import libcst as _libcst
except ImportError as error:
    raise MissingExtra("libcst", "synthesis", "Planting bugs") from error

from rolecraft.synthesis.planting.plant import (
    Planted,
    Survey,
    chosen_modifiers,
    plant,
    python_files,
    survey,
)

__all__ = ["Planted", "Survey", "chosen_modifiers", "plant", "python_files", "survey"]
del _libcst
