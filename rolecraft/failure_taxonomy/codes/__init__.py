"""Codes of the failure modes, per code system, and the way from one system to another.

A code without the name of its system says nothing: `3.2` and `3.3` alone have had six meanings.
So a code is only ever rendered together with its system, and two systems are compared through
concept ids. The systems are data (`crosswalk`); `mad` knows which of them a published data set
uses.
"""

from rolecraft.failure_taxonomy.codes.answers import CodedAnswers, read_coded
from rolecraft.failure_taxonomy.codes.crosswalk import (
    ADAMAST,
    JUDGE_16,
    MAD_HUMAN_FINAL,
    MAD_ROUND_1,
    MAD_ROUNDS_2_3,
    MASFT_V1,
    MAST_DEFINITIONS,
    MAST_LINT,
    MAST_NOTEBOOK,
    MAST_V3,
    OPEN_CODES,
    SYSTEMS,
    get_system,
    translate,
)
from rolecraft.failure_taxonomy.codes.mad import MAD_FULL, system_for_mad_record
from rolecraft.failure_taxonomy.codes.system import DROPPED, Code, CodeSystem, Resolved

__all__ = [
    "ADAMAST",
    "DROPPED",
    "JUDGE_16",
    "MAD_FULL",
    "MAD_HUMAN_FINAL",
    "MAD_ROUNDS_2_3",
    "MAD_ROUND_1",
    "MASFT_V1",
    "MAST_DEFINITIONS",
    "MAST_LINT",
    "MAST_NOTEBOOK",
    "MAST_V3",
    "OPEN_CODES",
    "SYSTEMS",
    "Code",
    "CodeSystem",
    "CodedAnswers",
    "Resolved",
    "get_system",
    "read_coded",
    "system_for_mad_record",
    "translate",
]
