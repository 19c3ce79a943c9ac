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
    mark: re.Pattern[str]
    """What stands in the first part of such a log."""
    segment: Callable[[str], Log]


SEGMENTERS: Mapping[str, Segmenter] = {
    made.name: made
    for made in (
        Segmenter(hyperagent.NAME, "a HyperAgent log", hyperagent.MARK, hyperagent.segment),
        Segmenter(chatdev.NAME, "a ChatDev log", chatdev.MARK, chatdev.segment),
        Segmenter(openmanus.NAME, "an OpenManus log", openmanus.MARK, openmanus.segment),
        Segmenter(metagpt.NAME, "a MetaGPT log", metagpt.MARK, metagpt.segment),
        Segmenter(ag2_console.NAME, "what AG2 prints", ag2_console.MARK, ag2_console.segment),
        Segmenter(autogen.NAME, "what AutoGen prints", autogen.MARK, autogen.segment),
        Segmenter(appworld.NAME, "a log of AppWorld agents", appworld.MARK, appworld.segment),
        Segmenter(ag2_dump.NAME, "an AG2 chat as text", ag2_dump.MARK, ag2_dump.segment),
    )
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
        if known is not stated and known.mark.search(text):
            log = known.segment(text)
            if log.events:
                return log, known.name
    if plain.is_transcript(text):
        return plain.segment(text), plain.NAME
    return Log(text), ""
