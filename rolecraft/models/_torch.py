"""The heavy optional libraries of in-process models, imported in one place with a clear error."""

from __future__ import annotations

from rolecraft.errors import MissingExtra

try:
    import torch
except ImportError as error:
    raise MissingExtra("torch", "local", "Running a model in this process") from error
try:
    import transformers
except ImportError as error:
    raise MissingExtra("transformers", "local", "Running a model in this process") from error

__all__ = ["torch", "transformers"]
