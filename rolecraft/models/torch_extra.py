"""The heavy optional libraries of in-process models, imported in one place with a clear error."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rolecraft.errors import MissingExtra

try:
    import torch
except ImportError as error:
    raise MissingExtra("torch", "local", "Running a model in this process") from error
try:
    import transformers
except ImportError as error:
    raise MissingExtra("transformers", "local", "Running a model in this process") from error

__all__ = ["no_progress_bars", "no_renaming_warnings", "torch", "transformers"]


@contextmanager
def no_progress_bars() -> Iterator[None]:
    """Without the bars that transformers draws on stderr; afterwards it does as it did before."""
    logging: Any = transformers.utils.logging
    if not logging.is_progress_bar_enabled():
        yield
        return
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.enable_progress_bar()


@contextmanager
def no_renaming_warnings() -> Iterator[None]:
    """Without the warnings of transformers about old names that peft still uses."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`is_gradient_checkpointing` is", FutureWarning)
        yield
