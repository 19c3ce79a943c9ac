"""Text logs of multi-agent systems: how each is split into turns.

Every module has a `segment` that makes a `Log` of a text. `SEGMENTERS` has them by the name of the
system, in the order in which a text is tried; plain text comes last and takes only what looks like
a transcript.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rolecraft.failure_taxonomy.formats.logs import (
    ag2_console,
    ag2_dump,
    appworld,
    autogen,
    chatdev,
    hyperagent,
    metagpt,
    openmanus,
    plain,
)
from rolecraft.failure_taxonomy.formats.logs._log import Log

__all__ = ["SEGMENTERS", "Log", "Segmenter", "segment"]


@dataclass(frozen=True, slots=True)
class Segmenter:
    """How a kind of log is known, and how it is split."""

    name: str
    description: str
    segment: Callable[[str], Log]
    marks: tuple[re.Pattern[str], ...]
    """What stands, all of it, in the first part of such a log."""

    def fits(self, text: str) -> bool:
        """True for a text that is such a log by its marks."""
        return all(mark.search(text) for mark in self.marks)


_ALL = {
    hyperagent: "a HyperAgent log",
    chatdev: "a ChatDev log",
    openmanus: "an OpenManus log",
    metagpt: "a MetaGPT log",
    ag2_console: "what AG2 prints",
    autogen: "what AutoGen prints",
    appworld: "a log of AppWorld agents",
    ag2_dump: "an AG2 chat as text",
}
SEGMENTERS: Mapping[str, Segmenter] = {
    module.NAME: Segmenter(module.NAME, description, module.segment, module.MARKS)
    for module, description in _ALL.items()
}
"""The segmenters by name, in the order in which a text is tried."""


def segment(text: str, system: str = "") -> tuple[Log, str]:
    """A log of the named system, or of the kind that its text shows; and the segmenter's name.

    Where nothing can be segmented, the log has no events, and the name is empty.
    """
    stated = SEGMENTERS.get(system)
    if stated is not None:
        log = stated.segment(text)
        if log.events:
            return log, stated.name
    for known in SEGMENTERS.values():
        if known is not stated and known.fits(text):
            log = known.segment(text)
            if log.events:
                return log, known.name
    if plain.is_transcript(text):
        return plain.segment(text), plain.NAME
    return Log(text), ""
