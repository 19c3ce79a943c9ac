"""What a token model is asked to sample, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rolecraft.models._choices import Node
from rolecraft.models.base import FinishReason


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRequest:
    """One answer to sample. `ids` is all that the model reads."""

    ids: list[int]
    role: str
    """Whose call it is. Where roles have adapters, it names the adapter."""
    key: int
    """Random stream, 64 bits: the same key, weights and settings give the same answer."""
    temperature: float
    """0 takes the likeliest token."""
    top_p: float
    max_tokens: int
    """Of the answer, its end token included. Never more than the context has room for."""
    stop: tuple[str, ...] = ()
    """The answer ends once its text contains one of these. Special tokens are spelled out in it,
    so that one can be a stop string; those that end answers are not in it."""
    choices: Node | None = None
    """The answer follows this tree of tokens to one of its leaves; `stop` plays no part then."""
    listen: Callable[[Sequence[int]], None] | None = None
    """To be told, in any thread, of all tokens sampled so far, whenever there are more."""
    report: int | None = None
    """Fill `Sampled.reported`, with so many of the likeliest ids for each token (0: none)."""


@dataclass(slots=True, kw_only=True)
class Sampled:
    """The tokens of one answer, and under which distribution they were drawn."""

    ids: list[int]
    """As sampled; the end token is the last, if one was sampled."""
    logprobs: list[float]
    """Natural log-probability of each, after temperature and `support`."""
    finish: FinishReason
    """`stop` for an end token, a stop string or a whole choice; `length` for `max_tokens`."""
    version: int = 0
    """Policy version that sampled."""
    adapter: str = ""
    """Name of the adapter that sampled; empty for the base model."""
    support: list[list[int] | None] | None = None
    """For each token, the ids that could have been drawn; None means all."""
    reported: list[tuple[float, list[tuple[int, float]]]] | None = None
    """Where `TokenRequest.report` asked for it: for each token its natural log-probability at
    temperature 1 with nothing cut off, and the likeliest ids with theirs, likeliest first."""
