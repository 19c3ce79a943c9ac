"""Sampling a batch of answers token by token, with a key-value cache.

Invariant: what a row samples is a function of the weights, its adapter, its own tokens, its
settings and its random key; never (beyond rounding of the logits) of the other rows or of their
order. What goes wrong with one row (damaged weights of its adapter, a listener that raises) ends
that row and no other.

One mechanism covers prefill, decoding and forced tokens: in each step every unfinished row feeds
the tokens that the cache does not hold yet (the prompt, or the last token, or a run of forced
ones), left-padded to the longest. Rows whose tokens have been equal so far share one row of the
forward pass, which makes a group of samples of one prompt cost one prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rolecraft.errors import ModelError
from rolecraft.models._choices import Node
from rolecraft.models.base import FinishReason
from rolecraft.models.distribution import (
    NOT_ALLOWED,
    draw,
    log_distribution,
    nucleus,
    uniforms,
)
from rolecraft.models.torch_extra import torch, transformers

if TYPE_CHECKING:
    from rolecraft.models._lora_layers import LoraLayers


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
    adapter: str = ""
    """Name of the adapter in the module (see `LoraLayers`); empty for the base model."""
    report: int | None = None
    """Fill `reported`, with this many of the likeliest ids for each token."""

    prompt: int = 0
    """How many of `ids` are prompt."""
    logprobs: list[float] = field(default_factory=list)
    support: list[list[int] | None] = field(default_factory=list)
    finish: FinishReason | None = None
    cached: int = 0
    """How many of `ids` the cache holds."""
    slot: int = 0
    """This row's row in the cache and the logits."""
    reported: list[tuple[float, list[tuple[int, float]]]] = field(default_factory=list)
    """For each sampled token, under the model's own distribution (temperature 1, nothing cut off):
    its natural log-probability, and the likeliest ids with theirs, the likeliest first."""
    cancelled: bool = False
    """Set from any thread when nobody waits for the answer any more."""
    error: BaseException | None = None
    """Why this row ended without an answer."""

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


class Flight:
    """Rows that are written together: one cache, one forward pass a token.

    `rows` are those that are not finished yet. `step` writes one token of each and returns those
    that ended by it. Another flight that has made its first step can join (`join`).
    """

    def __init__(
        self,
        module: Any,
        rows: Sequence[Row],
        *,
        ends: frozenset[int],
        lora: LoraLayers | None = None,
    ) -> None:
        self._module, self._ends, self._lora = module, ends, lora
        self._cache = transformers.DynamicCache(config=module.config)
        # Which cache columns each cache row may see: `[S, C]`.
        self._seen_SC = torch.zeros(1, 0, dtype=torch.long, device=module.device)
        self.rows = list(rows)

    def step(self) -> list[Row]:
        """Write one token of each row. Returns the rows that are finished, failed or cancelled."""
        with torch.inference_mode():
            active = [row for row in self.rows if row.finish is None and not row.cancelled]
            if active:
                logits_SV = self._forward(active)
                active = _checked(active, logits_SV)
                free = [row for row in active if row.choices is None]
                bound = [row for row in active if row.choices is not None]
                if free:
                    _sample(free, logits_SV, self._ends, None)
                if bound:
                    _sample(bound, logits_SV, self._ends, _support(bound, logits_SV.device))
        # Asked once: another thread may cancel a row at any moment.
        left = [row for row in active if row.finish is None and row.error is None]
        kept = set(map(id, left))
        over = [row for row in self.rows if id(row) not in kept]
        self.rows = left
        return over

    def join(self, other: Flight) -> bool:
        """Take over the rows of `other`, if both caches can stand in one; else change nothing."""
        pairs = list(zip(self._cache.layers, other._cache.layers, strict=True))
        if not all(_plain(one) and _plain(two) for one, two in pairs):
            return False
        with torch.inference_mode():
            self._forget_unseen()
            slots, width = self._seen_SC.shape
            wider = max(width, other._seen_SC.shape[1])
            self._seen_SC = torch.cat([_wide(self._seen_SC, wider), _wide(other._seen_SC, wider)])
            for mine, others in pairs:
                one: Any = mine  # `_plain` has said which kind they are
                two: Any = others
                one.keys = torch.cat([_long(one.keys, wider), _long(two.keys, wider)])
                one.values = torch.cat([_long(one.values, wider), _long(two.values, wider)])
        for row in other.rows:
            row.slot += slots
        self.rows += other.rows
        other.rows = []
        return True

    def _forget_unseen(self) -> None:
        """Drop the rows of the cache that no row uses, and then the columns that no row may see."""
        slots = sorted({row.slot for row in self.rows})
        number = {slot: at for at, slot in enumerate(slots)}
        kept = torch.tensor(slots, device=self._seen_SC.device)
        for row in self.rows:
            row.slot = number[row.slot]
        self._cache.batch_select_indices(kept)
        seen_SC = self._seen_SC[kept]
        first = int(seen_SC.any(0).int().argmax())
        self._seen_SC = seen_SC[:, first:]
        layers: list[Any] = self._cache.layers
        for layer in layers:
            layer.keys, layer.values = layer.keys[..., first:, :], layer.values[..., first:, :]

    def _forward(self, rows: list[Row]) -> torch.Tensor:
        """Logits of each distinct row's next token: `[S, V]`."""
        feeds = _feeds(rows)
        width = max(len(feed.new) for feed in feeds)
        ids, mask, position = [], [], []
        for feed in feeds:
            padding = [0] * (width - len(feed.new))
            ids.append(padding + feed.new)
            mask.append(padding + [1] * len(feed.new))
            position.append(padding + list(range(feed.first, feed.first + len(feed.new))))
        device = self._module.device
        slots = torch.tensor([feed.slot for feed in feeds], device=device)
        if self._seen_SC.shape[1]:
            self._cache.batch_select_indices(slots)
        self._seen_SC = torch.cat([self._seen_SC[slots], torch.tensor(mask, device=device)], dim=1)
        adapters = [feed.adapter for feed in feeds]
        with nullcontext() if self._lora is None else self._lora.rows(adapters):
            out = self._module(
                input_ids=torch.tensor(ids, device=device),
                attention_mask=self._seen_SC,
                position_ids=torch.tensor(position, device=device),
                past_key_values=self._cache,
                use_cache=True,
                logits_to_keep=1,
            )
        logits_SV: torch.Tensor = out.logits[:, -1]
        return logits_SV


def _plain(layer: Any) -> bool:
    """Whether a cache layer holds keys and values of all columns, and nothing else."""
    return type(layer) is transformers.cache_utils.DynamicLayer and layer.is_initialized


def _wide(seen_SC: torch.Tensor, width: int) -> torch.Tensor:
    return torch.nn.functional.pad(seen_SC, (width - seen_SC.shape[1], 0))


def _long(states_SHCD: torch.Tensor, width: int) -> torch.Tensor:
    return torch.nn.functional.pad(states_SHCD, (0, 0, width - states_SHCD.shape[2], 0))


def _checked(rows: list[Row], logits_SV: torch.Tensor) -> list[Row]:
    """The rows whose logits are finite; the others get their error."""
    finite_S = torch.isfinite(logits_SV).all(-1)
    if bool(finite_S.all()):
        return rows
    finite = finite_S.tolist()
    for row in rows:
        if not finite[row.slot]:
            row.error = ModelError(
                "The model's logits are not finite: its weights are damaged, or its number format "
                "overflows. Load the last good weights, or load it in float32 or bfloat16."
            )
    return [row for row in rows if row.error is None]


@dataclass(slots=True)
class _Feed:
    """What one row of the forward pass gets: a cache row and the tokens that it lacks."""

    slot: int
    first: int
    new: list[int]
    adapter: str


def _feeds(rows: list[Row]) -> list[_Feed]:
    """One feed for each set of equal rows; every row's `slot` becomes its feed's index.

    Rows are equal when they share an adapter and a cache row and feed the same new tokens.
    """
    feeds: list[_Feed] = []
    known: dict[tuple[str | int, ...], int] = {}
    for row in rows:
        new = row.ids[row.cached :]
        index = known.setdefault((row.adapter, row.slot, *new), len(feeds))
        if index == len(feeds):
            feeds.append(_Feed(row.slot, row.cached, new, row.adapter))
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
    _report(rows, logits_NV, drawn)
    for n, (row, token, logp) in enumerate(zip(rows, drawn, drawn_logp, strict=True)):
        support = None if row.choices is None else row.choices.allowed
        if row.temperature == 0.0:
            support, logp = [token], 0.0
        elif row.top_p < 1.0:
            kept = (logp_NK[n] > -torch.inf).nonzero()[:, 0]
            support = (kept if support_NK is None else support_NK[n, kept]).tolist()
        try:
            row.push(token, logp, support, ends)
        except Exception as error:  # of whoever listens, or looks for stop strings
            row.error = error


def _report(rows: list[Row], logits_NV: torch.Tensor, drawn: list[int]) -> None:
    """Fill `reported` of the rows that want it."""
    for n, row in enumerate(rows):
        if row.report is None:
            continue
        logp_V = torch.log_softmax(logits_NV[n].float(), dim=-1)
        top = logp_V.topk(min(row.report, len(logp_V)))
        likeliest = list(zip(top.indices.tolist(), top.values.tolist(), strict=True))
        row.reported.append((float(logp_V[drawn[n]]), likeliest))
