"""Who made the run fail, and at which step: from findings, or by asking a model.

`earliest` needs no model: the first finding from which the run did not recover. `strategies` has
the published ways of asking a model, for comparison, and `evidence_first` our own.
"""

from rolecraft.failure_taxonomy.attribution.earliest import decisive, unrecovered

__all__ = ["decisive", "unrecovered"]
