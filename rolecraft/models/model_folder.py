"""Whether what names a local model can be one, said before anything heavy is imported or asked."""

from __future__ import annotations

import json
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


def check_model_folder(path: str | Path) -> None:
    """As `check_folder`; also raises `ModelError` for a folder that is no model: what it is."""
    check_folder(path)
    folder = Path(path)
    if not folder.is_dir() or (folder / "config.json").exists():
        return
    names = {path.name for path in folder.iterdir()}
    if "adapter_config.json" not in names:
        raise ModelError(
            f"`{folder}` is no model: it has no `config.json`. Name the folder that the model was "
            f"saved to."
        )
    try:
        base = json.loads((folder / "adapter_config.json").read_text("utf-8"))
        name = base.get("base_model_name_or_path")
    except (OSError, ValueError, AttributeError):
        name = None
    of = f"`{name}`" if name else "the base that it was trained on"
    raise ModelError(
        f"`{folder}` is an adapter, and no model by itself: it has no `config.json`. Name its base "
        f"as the model, {of}, and give the adapter beside it, by role."
    )
