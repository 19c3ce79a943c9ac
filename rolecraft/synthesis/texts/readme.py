"""What a project says of itself: the beginning of its README."""

from __future__ import annotations

import re
from pathlib import Path

_MARKUP = re.compile(r"^(?:\.\. |:\w+:|\[!\[|!\[|<|\||[=~^\-#*+\"'`]{3,}\s*$|\[[\w-]+\]:|```)")
_MOST_BYTES = 20_000


def about(source: Path, *, most: int = 1200) -> str:
    """The first paragraphs of prose, at most so many characters; empty where there is none."""
    for name in ("README.md", "README.rst", "README.txt", "README"):
        place = source / name
        if place.is_file():
            with place.open("rb") as file:
                text = file.read(_MOST_BYTES).decode("utf-8", "replace")
            break
    else:
        return ""
    kept = [line.rstrip() for line in text.splitlines() if not _MARKUP.match(line.strip())]
    paragraphs = re.split(r"\n\s*\n", "\n".join(kept))
    said = ""
    for paragraph in filter(None, map(str.strip, paragraphs)):
        if len(said) + len(paragraph) > most:
            break
        said += f"{paragraph}\n\n"
    return said.strip()
