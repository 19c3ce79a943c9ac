"""Whether what names a local model can be one, said before anything heavy is imported or asked."""

from __future__ import annotations

import re
from pathlib import Path

from rolecraft.errors import ModelError

# `ORGANISATION/NAME`, as all models of the hub are called; old ones have a short name as well.
_ON_HUB = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")


def check_folder(path: str | Path) -> None:
    """Raise `ModelError` for what is neither a folder nor the name of a model on the hub."""
    if Path(path).is_dir():
        return
    if Path(path).exists():
        raise ModelError(
            f"`{path}` is a file. Name the folder that holds the model and its tokenizer."
        )
    if isinstance(path, Path) or not _ON_HUB.fullmatch(path):
        raise ModelError(
            f"There is no model folder `{path}`. Check the path; a model of the Hugging Face hub "
            f"is named with its organisation: `openai-community/gpt2`."
        )
