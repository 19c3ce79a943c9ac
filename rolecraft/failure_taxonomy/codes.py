"""Codes of the failure modes, per code system.

A code without the name of its system says nothing: `3.2` and `3.3` alone have had six meanings.
So a code is only ever rendered together with its system, and two systems are compared through
concept ids. This module has the system that reports use; further ones are further data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rolecraft.failure_taxonomy.modes import get_mode


@dataclass(frozen=True, slots=True)
class CodeSystem:
    """A published way to number the modes: `codes` maps concept ids to codes."""

    name: str
    source: str
    codes: Mapping[str, str]

    def code(self, concept: str) -> str:
        """The code of a mode in this system. Raises `UnknownName`."""
        return self.codes[get_mode(concept).id]


MAST_V3 = CodeSystem(
    name="MAST-14 (arXiv 2503.13657v3)",
    source="Figure 1 and appendix A of the paper's third version: 3.2 absent, 3.3 inadequate",
    codes={
        "task_spec": "1.1",
        "role_spec": "1.2",
        "repetition": "1.3",
        "history_loss": "1.4",
        "termination_unaware": "1.5",
        "reset": "2.1",
        "no_clarification": "2.2",
        "derailment": "2.3",
        "withholding": "2.4",
        "ignored_input": "2.5",
        "reason_action": "2.6",
        "premature_end": "3.1",
        "verification.absent": "3.2",
        "verification.weak": "3.3",
    },
)
"""The numbering of the paper's third version (NeurIPS 2025), which reports use."""
