"""Experiments: variants of a team on the same tasks, repeated, with a table and p-values.

results = await experiment(variants=maths_chat(), tasks=tasks, repetitions=6, model=model, folder=D)
print(results.to_markdown())
"""

from rolecraft.experiments.experiment import NotBegun, experiment, so_far
from rolecraft.experiments.results import Estimate, Results
from rolecraft.experiments.runs import Played, Run
from rolecraft.experiments.statistics import Row
from rolecraft.experiments.variant import Variant
from rolecraft.experiments.variants import (
    improved_company,
    maths_chat,
    software_company_variants,
)

__all__ = [
    "Estimate",
    "NotBegun",
    "Played",
    "Results",
    "Row",
    "Run",
    "Variant",
    "experiment",
    "improved_company",
    "maths_chat",
    "so_far",
    "software_company_variants",
]
