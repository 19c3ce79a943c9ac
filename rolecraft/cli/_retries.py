"""What a model's library logs about attempts that it repeats, in one line instead of hundreds.

A judge is asked about many traces at once, and an overloaded server refuses many attempts. They are
counted in the last line of the command; the first one is told when it happens, so that nobody
wonders what it waits for.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from loguru import logger

if TYPE_CHECKING:
    from loguru import Record

_SOURCE = "rolecraft.models.litellm_model"


def brief_retries(*, debug: bool) -> None:
    """Let the log say the first repeated attempt and no other, unless to `debug`."""
    _log.brief = not debug


def log_to_stderr() -> None:
    """Set up the log of the `rolecraft` command, a program of its own, unlike the library."""
    logger.enable("rolecraft")
    logger.remove()
    logger.add(sys.stderr, filter=_log.heard, format=_form)


class _Log:
    def __init__(self) -> None:
        self.brief = False
        self._told = False

    def heard(self, record: Record) -> bool:
        if not self.brief or record["name"] != _SOURCE:
            return True
        first, self._told = not self._told, True
        return first


_log = _Log()


def _form(record: Record) -> str:
    if _log.brief and record["name"] == _SOURCE:
        return "{message} Further attempts are only counted.\n"
    return (
        "<green>{time:HH:mm:ss}</green> | <level>{level: <8}</level> | {name}:{line} - "
        "<level>{message}</level>\n{exception}"
    )
