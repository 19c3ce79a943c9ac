"""Who made the run fail, and at which step: from findings, or by asking a model.

`earliest` needs no model: the first finding from which the run did not recover. `strategies` has
the published ways of asking a model, for comparison, and `evidence_first` our own.
"""

from typing import TYPE_CHECKING, Any

from rolecraft.failure_taxonomy.attribution.earliest import decisive, unrecovered

if TYPE_CHECKING:
    from rolecraft.failure_taxonomy.attribution.attribute import STRATEGIES, Attributor
    from rolecraft.failure_taxonomy.attribution.result import Attribution

__all__ = ["STRATEGIES", "Attribution", "Attributor", "decisive", "unrecovered"]

# Imported when first used: they need the judge, and reports need `decisive`.
_LAZY = {"STRATEGIES": "attribute", "Attribution": "result", "Attributor": "attribute"}


def __getattr__(name: str) -> Any:
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{module}"), name)
