"""Experiments: variants of a team on the same tasks, repeated, with a table and p-values.

results = await experiment(variants=maths_chat(), tasks=tasks, repetitions=6, model=model, folder=D)
print(results.to_markdown())
"""

from rolecraft.experiments.experiment import NotBegun, experiment, so_far
from rolecraft.experiments.gsm_plus import gsm_plus
from rolecraft.experiments.humaneval import HumanEvalEnvironment, humaneval
from rolecraft.experiments.results import Estimate, Results
from rolecraft.experiments.rows import DatasetError
from rolecraft.experiments.runs import Played, Run
from rolecraft.experiments.statistics import Row
from rolecraft.experiments.variant import Variant
from rolecraft.experiments.variants import (
    improved_company,
    maths_chat,
    software_company_variants,
)

__all__ = [
    "DatasetError",
    "Estimate",
    "HumanEvalEnvironment",
    "NotBegun",
    "Played",
    "Results",
    "Row",
    "Run",
    "Variant",
    "experiment",
    "gsm_plus",
    "humaneval",
    "improved_company",
    "maths_chat",
    "so_far",
    "software_company_variants",
]
