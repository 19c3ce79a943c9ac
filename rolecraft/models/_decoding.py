"""Sampling a batch of answers token by token, with a key-value cache.

Invariant: what a row samples is a function of the weights, its own tokens, its settings and its
random key; never (beyond rounding of the logits) of the other rows or of their order.

One mechanism covers prefill, decoding and forced tokens: in each step every unfinished row feeds
the tokens that the cache does not hold yet (the prompt, or the last token, or a run of forced
ones), left-padded to the longest. Rows whose tokens have been equal so far share one row of the
forward pass, which makes a group of samples of one prompt cost one prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from rolecraft.errors import ModelError
from rolecraft.models._choices import Node
from rolecraft.models._torch import torch, transformers
from rolecraft.models.base import FinishReason
from rolecraft.models.distribution import (
    NOT_ALLOWED,
    draw,
    log_distribution,
    nucleus,
    uniforms,
)


@dataclass(slots=True)
class Row:
    """One answer being written: the request, then what was sampled."""

    ids: list[int]
    """Prompt tokens, followed by the sampled ones as they come."""
    key: int
    """Random key; the draw for the token at position p uses number p of this key's stream."""
    temperature: float
    top_p: float
    max_tokens: int
    choices: Node | None = None
    stopped: Callable[[Sequence[int]], bool] | None = None
    """Whether a stop string is complete in the sampled tokens."""
    listen: Callable[[Sequence[int]], None] | None = None
    """Told of the tokens sampled so far after each one, in the sampling thread."""

    prompt: int = 0
    """How many of `ids` are prompt."""
    logprobs: list[float] = field(default_factory=list)
    support: list[list[int] | None] = field(default_factory=list)
    finish: FinishReason | None = None
    cached: int = 0
    """How many of `ids` the cache holds."""
    slot: int = 0
    """This row's row in the cache and the logits."""

    def __post_init__(self) -> None:
        self.prompt = len(self.ids)
        if self.choices is not None:
            self._force()

    @property
    def sampled(self) -> list[int]:
        return self.ids[self.prompt :]

    def push(
        self, token: int, logprob: float, support: list[int] | None, ends: frozenset[int]
    ) -> None:
        """Append a sampled token and whatever follows from it by force."""
        self.ids.append(token)
        self.logprobs.append(logprob)
        self.support.append(support)
        if self.choices is not None:
            self.choices = self.choices.next[token]
            self._force()
        elif token in ends or (self.stopped is not None and self.stopped(self.sampled)):
            self.finish = "stop"
        elif len(self.ids) - self.prompt >= self.max_tokens:
            self.finish = "length"
        if self.listen is not None:
            self.listen(self.sampled)

    def _force(self) -> None:
        """Follow the tree while it leaves no choice: probability one, no draw, no forward pass."""
        node = self.choices
        assert node is not None
        while len(node.allowed) == 1:
            token = node.allowed[0]
            self.ids.append(token)
            self.logprobs.append(0.0)
            self.support.append(node.allowed)
            node = node.next[token]
        self.choices = node
        if not node.allowed:
            self.finish = "stop"


def decode(module: Any, rows: Sequence[Row], *, ends: frozenset[int]) -> None:
    """Finish every row in place. `module` is a causal language model of transformers.

    Raises `ModelError` if the logits are not finite.
    """
    with torch.inference_mode():
        cache = transformers.DynamicCache(config=module.config)
        seen_SC = torch.zeros(1, 0, dtype=torch.long, device=module.device)
        active = [row for row in rows if row.finish is None]
        while active:
            logits_SV, seen_SC = _forward(module, active, cache, seen_SC)
            free = [row for row in active if row.choices is None]
            bound = [row for row in active if row.choices is not None]
            if free:
                _sample(free, logits_SV, ends, None)
            if bound:
                _sample(bound, logits_SV, ends, _support(bound, logits_SV.device))
            active = [row for row in active if row.finish is None]


def _forward(
    module: Any, rows: list[Row], cache: Any, seen_SC: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits of each distinct row's next token, `[S, V]`, and which cache columns it may see."""
    feeds = _feeds(rows)
    width = max(len(feed.new) for feed in feeds)
    ids, mask, position = [], [], []
    for feed in feeds:
        padding = [0] * (width - len(feed.new))
        ids.append(padding + feed.new)
        mask.append(padding + [1] * len(feed.new))
        position.append(padding + list(range(feed.first, feed.first + len(feed.new))))
    device = module.device
    slots = torch.tensor([feed.slot for feed in feeds], device=device)
    if seen_SC.shape[1]:
        cache.batch_select_indices(slots)
    seen_SC = torch.cat([seen_SC[slots], torch.tensor(mask, device=device)], dim=1)
    out = module(
        input_ids=torch.tensor(ids, device=device),
        attention_mask=seen_SC,
        position_ids=torch.tensor(position, device=device),
        past_key_values=cache,
        use_cache=True,
        logits_to_keep=1,
    )
    logits_SV = out.logits[:, -1]
    if not bool(torch.isfinite(logits_SV).all()):
        raise ModelError(
            "The model's logits are not finite: its weights are damaged, or its number format "
            "overflows. Load the last good weights, or load it in float32 or bfloat16."
        )
    return logits_SV, seen_SC


@dataclass(slots=True)
class _Feed:
    """What one row of the forward pass gets: a cache row and the tokens that it lacks."""

    slot: int
    first: int
    new: list[int]


def _feeds(rows: list[Row]) -> list[_Feed]:
    """One feed for each set of equal rows; every row's `slot` becomes its feed's index.

    Rows are equal when they share a cache row and feed the same new tokens.
    """
    feeds: list[_Feed] = []
    known: dict[tuple[int, ...], int] = {}
    for row in rows:
        new = row.ids[row.cached :]
        index = known.setdefault((row.slot, *new), len(feeds))
        if index == len(feeds):
            feeds.append(_Feed(row.slot, row.cached, new))
        row.slot, row.cached = index, len(row.ids)
    return feeds


def _support(rows: list[Row], device: Any) -> torch.Tensor:
    allowed = [row.choices.allowed for row in rows]  # type: ignore[union-attr]
    width = max(map(len, allowed))
    return torch.tensor(
        [ids + [NOT_ALLOWED] * (width - len(ids)) for ids in allowed], device=device
    )


def _sample(
    rows: list[Row], logits_SV: torch.Tensor, ends: frozenset[int], support_NK: torch.Tensor | None
) -> None:
    """Draw one token for each row and push it."""
    device = logits_SV.device
    logits_NV = logits_SV[torch.tensor([row.slot for row in rows], device=device)]
    # Greedy rows take the likeliest id; the temperature 1 they get here is never looked at.
    temperature_N = torch.tensor([row.temperature or 1.0 for row in rows], device=device)
    logp_NK = log_distribution(logits_NV, temperature_N, support_NK)
    cut = any(row.top_p < 1.0 for row in rows)
    if cut:
        top_p_N = torch.tensor([row.top_p for row in rows], device=device)
        logp_NK = nucleus(logp_NK, top_p_N)
    uniform = uniforms([row.key for row in rows], [len(row.ids) for row in rows])
    index_N = draw(logp_NK, torch.from_numpy(uniform).to(device))
    if any(row.temperature == 0.0 for row in rows):
        greedy_N = torch.tensor([row.temperature == 0.0 for row in rows], device=device)
        index_N = torch.where(greedy_N, logp_NK.argmax(-1), index_N)
    drawn_logp = logp_NK.gather(-1, index_N[:, None])[:, 0].tolist()
    drawn = (
        index_N.tolist()
        if support_NK is None
        else (support_NK.gather(-1, index_N[:, None])[:, 0].tolist())
    )
    for n, (row, token, logp) in enumerate(zip(rows, drawn, drawn_logp, strict=True)):
        support = None if row.choices is None else row.choices.allowed
        if row.temperature == 0.0:
            support, logp = [token], 0.0
        elif row.top_p < 1.0:
            kept = (logp_NK[n] > -torch.inf).nonzero()[:, 0]
            support = (kept if support_NK is None else support_NK[n, kept]).tolist()
        row.push(token, logp, support, ends)
