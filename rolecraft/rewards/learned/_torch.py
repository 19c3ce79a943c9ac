"""torch, imported in one place with a clear error."""

from __future__ import annotations

from rolecraft.errors import MissingExtra

try:
    import torch
except ImportError as error:
    raise MissingExtra("torch", "local", "A learned reward") from error

__all__ = ["torch"]
