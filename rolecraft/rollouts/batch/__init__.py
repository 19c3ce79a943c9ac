"""Batch generation: many rows through a team, and what they said as training data."""

from rolecraft.rollouts.batch.config import BatchConfig
from rolecraft.rollouts.batch.ledger import Entry, Ledger, ToolCount
from rolecraft.rollouts.batch.statistics import Statistics, statistics
from rolecraft.rollouts.batch.toolsets import Distribution, load_distribution

__all__ = [
    "BatchConfig",
    "Distribution",
    "Entry",
    "Ledger",
    "Statistics",
    "ToolCount",
    "load_distribution",
    "statistics",
]
