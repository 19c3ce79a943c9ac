"""Reasoning: what models think apart from their answer, and where it stands."""

from rolecraft.models.reasoning.format import ReasoningFormat

__all__ = ["ReasoningFormat"]
