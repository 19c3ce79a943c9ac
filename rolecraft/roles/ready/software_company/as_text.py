"""Documents as text: an indented list, which people and models read more easily than JSON."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel


def as_text(value: Any, indent: str = "") -> str:
    """A document, or a part of one, line by line. What is empty is left out."""
    if isinstance(value, BaseModel):
        value = value.model_dump()
    if isinstance(value, dict):
        return "\n".join(
            f"{indent}{name.replace('_', ' ')}:{_below(inner, indent)}"
            for name, inner in value.items()
            if inner not in ([], "", None)
        )
    if isinstance(value, list):
        return "\n".join(f"{indent}- {as_text(inner, indent + '  ').lstrip()}" for inner in value)
    return f"{indent}{value}"


def _below(value: Any, indent: str) -> str:
    inner = as_text(value, indent + "  ")
    return f"\n{inner}" if isinstance(value, (dict, list)) else f" {inner.lstrip()}"
