"""What the model in this process and the model on a server of ours have in common: all but the way.

Invariant: an answer's log-probabilities are those of the distribution that its tokens were drawn
from, and one version of one adapter drew all of them.

vLLM is asked with token ids and answers with token ids. Choices need no grammar: where the tree of
choices branches, one token is drawn among those allowed; where it does not, nothing is asked.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rolecraft.errors import ModelError, UsageError
from rolecraft.models._vllm import COLDEST, load_base, weights_folder
from rolecraft.models.adapter_files import Shape, base_shapes
from rolecraft.models.adapter_proof import AdapterProof, check_probe
from rolecraft.models.adapters import Adapters, AdapterVersion
from rolecraft.models.base import FinishReason
from rolecraft.models.hashing import hash64
from rolecraft.models.token_model import Sampled, TokenModel, TokenRequest, end_tokens
from rolecraft.models.vllm_settings import VLLMSettings

Logprobs = dict[int, float]
"""Ids and their natural log-probabilities at one position."""

Listen = Callable[[Sequence[int]], None]

# vLLM writes this, or minus infinity, for what cannot be drawn.
_IMPOSSIBLE = -9999.0


@dataclass(slots=True, kw_only=True)
class Drawn:
    """What one call of vLLM gave."""

    ids: list[int]
    logprobs: list[Logprobs]
    """For each id: its own, and those of the likeliest."""
    finish: FinishReason
    prompt_logprobs: list[Logprobs] = field(default_factory=list)
    """Where they were asked for: of each prompt token after the first."""


class VLLMSampling(TokenModel):
    """A `TokenModel` whose tokens vLLM samples. A subclass writes `_draw`, and adapters' way in."""

    # It is on this machine and nothing is paid: tests may use it.
    real = False

    def __init__(self, path: str | Path, settings: VLLMSettings) -> None:
        path = str(path)
        base = load_base(path)
        super().__init__(
            base.tokenizer,
            name=settings.name or path,
            ends=end_tokens(base.tokenizer, base.ends),
            context=settings.context or base.context,
            seed=settings.seed,
            max_tokens=settings.max_tokens,
            template=settings.template,
            parser=settings.parser,
            reasoning=settings.reasoning,
            on_rewrite=settings.on_rewrite,
        )
        self.path = path
        self._vocabulary = base.vocabulary
        widest = min(settings.widest_support, base.vocabulary)
        self.settings = replace(settings, widest_support=widest)
        self.adapters = Adapters(
            load=self._take_in,
            unload=self._take_out,
            base=(path, *filter(None, [settings.name]), *settings.also_known_as),
            shapes=self._shapes,
            max_rank=settings.max_rank,
        )
        """The adapters of the roles. A role without one is served by the base model."""

    @abstractmethod
    async def _draw(
        self,
        ids: list[int],
        settings: dict[str, Any],
        adapter: AdapterVersion | None,
        listen: Listen | None = None,
    ) -> Drawn:
        """One call of vLLM. `settings` have the names that its `SamplingParams` and API share."""

    @abstractmethod
    async def _take_in(self, version: AdapterVersion) -> None: ...

    @abstractmethod
    async def _take_out(self, version: AdapterVersion) -> None: ...

    async def load_adapter(
        self, role: str, path: str | Path, *, version: int | None = None
    ) -> AdapterVersion:
        """Serve a LoRA adapter to the calls of `role` that begin from now on: `Adapters.swap`.

        Calls under way finish on the version they began with.
        """
        if not self.settings.max_adapters:
            raise UsageError(
                f"`{self.name}` was made with `max_adapters=0`, so it serves its base model alone."
            )
        await self.prepare()
        return await self.adapters.swap(role, path, version=version)

    async def unload_adapter(self, role: str) -> None:
        """Serve the base model to the calls of `role` that begin from now on."""
        await self.adapters.remove(role)

    async def verify_adapter(
        self,
        role: str,
        ids: Sequence[int],
        expected: Sequence[float],
        *,
        digest: str | None = None,
        tolerance: float = 1e-3,
    ) -> AdapterProof:
        """Prove that what is served to `role` is what was trained.

        `expected` are the trained module's `token_logprobs(module, ids)`, `digest` is the
        `digest_of` its tensors. The tolerance suits float32; bfloat16 wants about 0.1. Raises
        `AdapterError` if they differ.
        """
        await self.prepare()
        with self.adapters.hold(role) as version:
            if version is None:
                raise UsageError(f"Role {role!r} has no adapter: load one first.")
            served = await self._score(list(ids), version)
            base = await self._score(list(ids), None)
        return check_probe(
            version,
            served=served,
            base=base,
            expected=expected,
            digest=digest,
            tolerance=tolerance,
        )

    async def score(self, role: str, ids: Sequence[int]) -> list[float]:
        """Natural log-probability of each of `ids[1:]` after those before it, at temperature 1."""
        await self.prepare()
        with self.adapters.hold(role) as version:
            return await self._score(list(ids), version)

    async def sample(self, request: TokenRequest) -> Sampled:
        if 0.0 < request.temperature < COLDEST:
            raise UsageError(
                f"vLLM samples at no temperature between 0 and {COLDEST:g}, and was asked for "
                f"{request.temperature!r}. Use 0 for the likeliest token, or a higher one."
            )
        await self.prepare()
        with self.adapters.hold(request.role) as adapter:
            if request.choices is not None:
                answer = await self._choose(request, adapter)
            else:
                answer = await self._write(request, adapter)
            if request.report is not None and answer.reported is None:
                answer.reported = await self._report(request, answer.ids, adapter)
        if adapter is None:
            answer.version = self.version
        else:
            answer.version, answer.adapter = adapter.version, adapter.name
        return answer

    async def _write(self, request: TokenRequest, adapter: AdapterVersion | None) -> Sampled:
        settings = {
            **self._settings(request, len(request.ids), self.settings.widest_support),
            "max_tokens": request.max_tokens,
            "stop_token_ids": sorted(self.ends),
            "stop": list(request.stop),
        }
        # Drawn with nothing changed, the tokens need not be read again for a report.
        plain = request.temperature == request.top_p == 1.0 and request.report is not None
        if plain:
            settings["logprobs"] = request.report
        drawn = await self._draw(request.ids, settings, adapter, request.listen)
        logprobs, support = self._as_recorded(request, drawn)
        answer = Sampled(ids=drawn.ids, logprobs=logprobs, finish=drawn.finish, support=support)
        if plain:
            answer.reported = _reported(request, drawn.ids, drawn.logprobs)
        return answer

    async def _choose(self, request: TokenRequest, adapter: AdapterVersion | None) -> Sampled:
        """Walk down the tree of choices. A token without an alternative has probability one."""
        node = request.choices
        assert node is not None
        answer = Sampled(ids=[], logprobs=[], finish="stop")
        supports: list[list[int] | None] = []
        while node.allowed:
            token, logprob, support = node.allowed[0], 0.0, node.allowed
            if len(node.allowed) > 1:
                settings = {
                    **self._settings(
                        request, len(request.ids) + len(answer.ids), len(node.allowed)
                    ),
                    "max_tokens": 1,
                    "allowed_token_ids": node.allowed,
                }
                drawn = await self._draw(request.ids + answer.ids, settings, adapter)
                (token,), (logprob,) = drawn.ids, self._as_recorded(request, drawn)[0]
                if request.temperature == 0.0:
                    support = [token]
                elif request.top_p < 1.0:
                    support = [i for i in node.allowed if _possible(drawn.logprobs[0].get(i))]
            answer.ids.append(token)
            answer.logprobs.append(logprob)
            supports.append(support)
            node = node.next[token]
        answer.support = supports
        return answer

    def _settings(self, request: TokenRequest, at: int, support: int) -> dict[str, Any]:
        """Settings of what is drawn from position `at` of the sequence on."""
        # A session's key is the same in all its turns, and vLLM begins its numbers anew with each.
        key = hash64(request.key, at)
        cut = request.top_p < 1.0 and request.temperature > 0.0
        return {
            "temperature": request.temperature,
            "top_p": request.top_p,
            "seed": key >> 1,  # vLLM's seeds have 63 bits
            "logprobs": support if cut else 0,
            "skip_special_tokens": False,  # a stop string may be one
            "spaces_between_special_tokens": False,
        }

    def _as_recorded(
        self, request: TokenRequest, drawn: Drawn
    ) -> tuple[list[float], list[list[int] | None] | None]:
        """Log-probability and support of each token, as `TokenSpan` defines them."""
        own = [at[token] for token, at in zip(drawn.ids, drawn.logprobs, strict=True)]
        if not all(map(math.isfinite, own)):
            raise ModelError(
                f"The log-probabilities of `{self.name}` are not finite: its weights or its "
                f"adapter's are damaged, or its number format overflows. Load the last good ones.",
                model=self.name,
            )
        if request.temperature == 0.0:
            return [0.0] * len(own), [[token] for token in drawn.ids]
        if request.top_p == 1.0 or request.choices is not None:
            return own, None
        supports: list[list[int] | None] = []
        for at in drawn.logprobs:
            possible = sorted(token for token, logprob in at.items() if _possible(logprob))
            # One impossible id among the likeliest means that the possible ones are all there.
            if len(possible) == len(at) < self._vocabulary:
                widest = self.settings.widest_support
                raise ModelError(
                    f"With `top_p={request.top_p!r}` a token was drawn from more than {widest} "
                    f"possible ones, which is more than `{self.name}` records. Use a lower "
                    f"`top_p`, 1, or `widest_support={self._vocabulary}`.",
                    model=self.name,
                )
            supports.append(possible)
        return own, supports

    async def _score(self, ids: list[int], adapter: AdapterVersion | None) -> list[float]:
        found = await self._prompt_logprobs(ids, 0, adapter)
        return [at[token] for token, at in zip(ids[1:], found, strict=True)]

    async def _report(
        self, request: TokenRequest, ids: list[int], adapter: AdapterVersion | None
    ) -> list[tuple[float, list[tuple[int, float]]]]:
        """At temperature 1 with nothing cut off: the answer is read once more, not written."""
        assert request.report is not None
        found = await self._prompt_logprobs(request.ids + ids, request.report, adapter)
        return _reported(request, ids, found[len(request.ids) - 1 :])

    async def _prompt_logprobs(
        self, ids: list[int], likeliest: int, adapter: AdapterVersion | None
    ) -> list[Logprobs]:
        if len(ids) < 2:
            return []
        settings = {"temperature": 0.0, "max_tokens": 1, "prompt_logprobs": likeliest}
        # The last token's are found on the way to the next one, which must have room.
        drawn = await self._draw(ids, settings, adapter)
        return drawn.prompt_logprobs

    def _shapes(self) -> Mapping[str, Shape] | None:
        folder = weights_folder(self.path)
        return None if folder is None else base_shapes(folder)


def _reported(
    request: TokenRequest, ids: Sequence[int], found: Sequence[Logprobs]
) -> list[tuple[float, list[tuple[int, float]]]]:
    """What `Sampled.reported` is, from log-probabilities of each token and the likeliest."""
    return [
        (at[token], sorted(at.items(), key=lambda pair: -pair[1])[: request.report])
        for token, at in zip(ids, found, strict=True)
    ]


def _possible(logprob: float | None) -> bool:
    return logprob is not None and logprob > _IMPOSSIBLE
