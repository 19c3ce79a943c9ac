"""Experiments: variants of a team on the same tasks, repeated, with a table and p-values.

results = await experiment(variants=maths_chat(), tasks=tasks, repetitions=6, model=model, folder=D)
print(results.to_markdown())

found = await evaluate(maths_team, models=["openai/gpt-4o-mini"], baselines=["single"], folder=D)
"""

from rolecraft.experiments.cost import EqualCost
from rolecraft.experiments.evaluate import evaluate
from rolecraft.experiments.evaluation import Contrast, Evaluation, Measured
from rolecraft.experiments.experiment import NotBegun, experiment, so_far
from rolecraft.experiments.gsm_plus import gsm_plus
from rolecraft.experiments.held_out import HeldOut, NotHeldOut, Seen, seen_in
from rolecraft.experiments.humaneval import HumanEvalEnvironment, humaneval
from rolecraft.experiments.intervals import Mean, pass_at_k
from rolecraft.experiments.results import Estimate, Results
from rolecraft.experiments.rows import DatasetError
from rolecraft.experiments.runs import Played, Run
from rolecraft.experiments.setting import Setting
from rolecraft.experiments.statistics import Row
from rolecraft.experiments.variant import Variant
from rolecraft.experiments.variants import (
    improved_company,
    maths_chat,
    software_company_variants,
)

__all__ = [
    "Contrast",
    "DatasetError",
    "EqualCost",
    "Estimate",
    "Evaluation",
    "HeldOut",
    "HumanEvalEnvironment",
    "Mean",
    "Measured",
    "NotBegun",
    "NotHeldOut",
    "Played",
    "Results",
    "Row",
    "Run",
    "Seen",
    "Setting",
    "Variant",
    "evaluate",
    "experiment",
    "gsm_plus",
    "humaneval",
    "improved_company",
    "maths_chat",
    "pass_at_k",
    "seen_in",
    "so_far",
    "software_company_variants",
]
