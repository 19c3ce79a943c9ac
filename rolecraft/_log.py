"""Logging, through loguru: silent until somebody asks for it, and it says who was doing what.

A library's messages are its user's to want: `import rolecraft` disables them, as loguru recommends,
and `logger.enable("rolecraft")` brings them to whatever sinks the program has. Each message has
`role` and `action` in its `extra` while an action runs. Nothing is logged that a caller must know:
that is raised, returned or recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from loguru import logger

if TYPE_CHECKING:
    from loguru import Record

whereabouts: list[Callable[[], dict[str, str]]] = []
"""Functions that say where the program is; asked only when something is logged."""


def _say_where(record: Record) -> None:
    for ask in whereabouts:
        # What a message says of itself goes before what is known of its surroundings.
        record["extra"] = {**ask(), **record["extra"]}


log = logger.patch(_say_where)
