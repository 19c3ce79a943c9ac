"""Agreement: how far labels can be trusted, measured against labels of people.

result = agreement(read_labels("gold.jsonl"), read_labels("predicted.jsonl"))
result.rows["repetition"].score("kappa"), result.rows["repetition"].intervals["kappa"]
"""

from rolecraft.failure_taxonomy.agreement.blame import Attribution, Ceiling, Share
from rolecraft.failure_taxonomy.agreement.calibration import Calibration
from rolecraft.failure_taxonomy.agreement.compare import agreement
from rolecraft.failure_taxonomy.agreement.counts import Counts, f1, kappa, precision, recall
from rolecraft.failure_taxonomy.agreement.matching import Matches, match
from rolecraft.failure_taxonomy.agreement.raters import RaterAgreement, fleiss
from rolecraft.failure_taxonomy.agreement.result import Agreement, Row

__all__ = [
    "Agreement",
    "Attribution",
    "Calibration",
    "Ceiling",
    "Counts",
    "Matches",
    "RaterAgreement",
    "Row",
    "Share",
    "agreement",
    "f1",
    "fleiss",
    "kappa",
    "match",
    "precision",
    "recall",
]
