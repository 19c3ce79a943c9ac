"""Whether two names mean one base model: the one an adapter was trained on, and the one served.

A name is a folder or a name on a hub (`organisation/model`). The same model goes by several: it is
trained under its name on the hub and served from a folder. So the last part decides, but only where
one of the two is a folder or has no organisation: of two names on a hub, both parts count. Folders
such as `merged`, `final` or `checkpoint-500` say nothing about what is in them; there the shapes of
the weights decide alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

Verdict = Literal["same", "taken as the same", "unknown", "another"]

_SAYS_NOTHING = re.compile(
    r"(?:merged|final|latest|last|best|output|model|base|hf|checkpoint)(?:[-_]?(?:model|[0-9]+))?"
    r"|(?:step|epoch|global_step)[-_]?[0-9]+",
    re.ASCII,
)


def compare_bases(trained_on: str, served: Sequence[str]) -> Verdict:
    """Whether an adapter's base model is the one that goes by the names `served`.

    "taken as the same": only the last part of the name says so. "unknown": one of the names is a
    folder whose name says nothing.
    """
    if any(one == trained_on or _path(one) == _path(trained_on) for one in served):
        return "same"
    if any(_alike(trained_on, one) for one in served):
        return "taken as the same"
    if any(_says_nothing(one) for one in (trained_on, *served)):
        return "unknown"
    return "another"


def _alike(one: str, other: str) -> bool:
    last = _last(one)
    if not last or last != _last(other) or _SAYS_NOTHING.fullmatch(last):
        return False
    return not (_on_hub(one) and _on_hub(other))


def _says_nothing(name: str) -> bool:
    return not _on_hub(name) and _SAYS_NOTHING.fullmatch(_last(name)) is not None


def _on_hub(name: str) -> bool:
    """Whether it is `organisation/model`: two plain parts, and no folder here."""
    organisation, slash, model = name.partition("/")
    plain = bool(slash and organisation and model) and "/" not in model and "\\" not in name
    return plain and organisation not in (".", "..", "~") and not Path(name).is_dir()


def _last(name: str) -> str:
    return Path(name.replace("\\", "/")).name.lower()


def _path(name: str) -> Path:
    return Path(name).resolve()
