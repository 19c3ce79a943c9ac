"""The ways in which code is commonly wrong, one function each; a file is a family of them.

Every module of this package is imported with it, so what registers itself is in `known()`.
"""

from importlib import import_module
from pkgutil import iter_modules

from rolecraft.synthesis.modifiers.base import Modifier, known, modifier
from rolecraft.synthesis.modifiers.entities import Entity, Refused, Variant, entities

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = ["Entity", "Modifier", "Refused", "Variant", "entities", "known", "modifier"]
