"""What is learned from: conversations, plain texts, and token sequences of local models.

A layout makes samples of rows or journals; an `Encoder` makes token sequences of samples.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rolecraft.rollouts.batch.conversations import Turn

__all__ = [
    "BROKEN_CALL",
    "AnySample",
    "BadRow",
    "Facts",
    "Recorded",
    "Sample",
    "TextSample",
    "TokenSample",
    "Turn",
]


BROKEN_CALL = "a call whose arguments are no object"
"""Why a conversation is left out: no template can write such a call as it was."""


class BadRow(ValueError):
    """A row is of a known layout and breaks it; its text is what follows "the row"."""


class Facts(NamedTuple):
    """What is known of where a sample comes from, for a `Selection` to choose by."""

    role: str | None = None
    """Whose turns are trained; None where the data names no role."""
    reward: float | None = None
    measured: bool = False
    """Whether the data is of runs, which have rewards: one without a reward is not known to be
    good. Data sets of dialogues have none, and are taken as they are."""
    stop: str | None = None
    """Why the run stopped; None where nothing says."""
    failures: tuple[str, ...] = ()
    """Modes of failures that were found and are of this role, or of nobody by name."""


@dataclass(slots=True, kw_only=True)
class Sample:
    """A conversation. Those of its turns are trained that are `sampled`."""

    turns: list[Turn]
    tools: Sequence[Mapping[str, Any]] = ()
    """What the model is offered: `name`, `description` and `parameters` of each."""
    facts: Facts = field(default_factory=Facts)

    @property
    def key(self) -> str:
        """Equal for equal conversations, whatever layout they were in: SHA-256 in hexadecimal."""
        said = [
            [
                turn.role,
                turn.content.strip(),
                turn.reasoning.strip(),
                [[call["name"], call["arguments"]] for call in turn.tool_calls],
                turn.sampled,
            ]
            for turn in self.turns
        ]
        return _digest([said, [tool["name"] for tool in self.tools]])


@dataclass(slots=True, kw_only=True)
class TextSample:
    """A text, and how it goes on. Only what follows the prompt is trained."""

    prompt: str
    completion: str
    facts: Facts = field(default_factory=Facts)

    @property
    def key(self) -> str:
        """That of the conversation which it is for a model with a chat template."""
        return self.as_conversation().key

    def as_conversation(self) -> Sample:
        """A question and its answer."""
        turns = [Turn("user", self.prompt), Turn("assistant", self.completion, sampled=True)]
        return Sample(turns=turns, facts=self.facts)


class Recorded(NamedTuple):
    """One token sequence, as a local model read and sampled it."""

    ids: list[int]
    trained: list[bool]
    """True where the model sampled the token."""
    said: list[tuple[int, int, str]]
    """From which token to which, and a text that stands there."""


@dataclass(slots=True, kw_only=True)
class TokenSample:
    """A conversation of a local model, token for token.

    Its tokens are of use only to a tokenizer that reads them as they were written, which the texts
    in them tell. For any other tokenizer it is the conversation `otherwise`.
    """

    sequences: list[Recorded]
    """More than one where the chat template rewrote earlier turns, so that a new one began."""
    otherwise: Sample

    @property
    def facts(self) -> Facts:
        return self.otherwise.facts

    @property
    def key(self) -> str:
        return self.otherwise.key


AnySample = Sample | TextSample | TokenSample


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
