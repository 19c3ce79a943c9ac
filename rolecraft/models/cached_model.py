"""A model that is not asked twice for the same answer: its answers are kept on disk.

Invariant: an answer comes from the cache only for the same model, conversation, tools and sampling,
and costs nothing then, in no budget either. Where answers are sampled, asking again is another
sample: the second time in the life of a `CachedModel` that the same is asked is another entry than
the first, so that n samples stay n samples, and the next program finds the same n, in order.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal
from weakref import WeakKeyDictionary

from rolecraft.errors import UsageError
from rolecraft.models.base import Completion, Model, Sampling, Session, Tool
from rolecraft.models.prompt_cache import PromptCache, question
from rolecraft.trajectories.events import Usage

Repeats = Literal[
    "new",  # another sample, where the temperature is not 0
    "same",  # the same answer: whoever wants another one gives the session another seed
]


class CachedModel(Model):
    """`model` (a model or its name), whose answers are kept in `cache` (or in a folder).

    Goes wherever a model goes. `repeats` says what asking the same again means. Two who ask the
    same at the same time, and mean the same answer, wait for one. A local model cannot be kept: its
    answer is its tokens, sampled by one version of it.
    """

    remembers = True

    def __init__(
        self, model: Model | str, cache: PromptCache | Path | str, *, repeats: Repeats = "new"
    ) -> None:
        if isinstance(model, str):
            from rolecraft.models.resolve import resolve_model

            model = resolve_model(model)
        if type(model).session is not Model.session:
            raise UsageError(
                f"{model!r} has conversations of its own, of exact tokens say, which cannot be "
                f"kept as texts. `CachedModel` is for models behind an API."
            )
        if repeats not in ("new", "same"):
            raise UsageError(f"`repeats` is 'new' or 'same', not {repeats!r}.")
        self.model = model
        self.cache = cache if isinstance(cache, PromptCache) else PromptCache(cache)
        self.repeats = repeats
        self.name = model.name
        self.real, self.person = model.real, model.person
        self.estimates_hold = model.estimates_hold
        self._asked: Counter[str] = Counter()
        """How often each question was asked here that may have several answers."""
        self._names: WeakKeyDictionary[Session, str] = WeakKeyDictionary()
        """The name of the question that a session asks just now."""
        self._asking: dict[str, asyncio.Event] = {}
        """The questions that the model is asked just now."""

    async def prepare(self) -> None:
        await self.model.prepare()

    async def aclose(self) -> None:
        await self.model.aclose()

    def estimate_usd(
        self, session: Session, sampling: Sampling, tools: Sequence[Tool] = ()
    ) -> float | None:
        return self.model.estimate_usd(session, sampling, tools)

    def estimate_tokens(
        self, session: Session, sampling: Sampling, tools: Sequence[Tool] = ()
    ) -> int | None:
        return self.model.estimate_tokens(session, sampling, tools)

    async def recall(
        self, session: Session, tools: Sequence[Tool], sampling: Sampling
    ) -> Completion | None:
        name = self._names[session] = self._name(session, tools, sampling)
        return await self._known(name)

    async def _complete(
        self, session: Session, tools: Sequence[Tool], sampling: Sampling
    ) -> Completion:
        name = self._names.pop(session, None) or self._name(session, tools, sampling)
        while name in self._asking:  # somebody was quicker, after we had looked
            known = await self._known(name)
            if known is not None:
                return known
        self._asking[name] = asyncio.Event()
        try:
            answer = await self.model._complete(session, tools, sampling)
            if not answer.passed_over:  # else it is what another model says, for want of this one
                await asyncio.to_thread(self.cache.put, name, self.model.name, answer)
        finally:
            self._asking.pop(name).set()
        return answer

    async def _known(self, name: str) -> Completion | None:
        """The answer, once nobody asks for it any more; None if there is none."""
        while (asking := self._asking.get(name)) is not None:
            await asking.wait()
        known = await asyncio.to_thread(self.cache.get, name)
        if known is None:
            return None
        return replace(known, usage=Usage(calls=0, usd=0.0), kept=known.usage, attempts=1)

    def _name(self, session: Session, tools: Sequence[Tool], sampling: Sampling) -> str:
        own: Sampling = getattr(self.model, "sampling", None) or Sampling()
        heat = own.temperature if sampling.temperature is None else sampling.temperature
        # At temperature 0 a seed decides nothing.
        seed = None if heat == 0 and self.repeats == "new" else session.seed
        messages = session.messages
        name = question(self.model, messages, tools=tools, sampling=sampling, seed=seed)
        if heat == 0 or self.repeats == "same":
            return name
        times = self._asked[name]
        self._asked[name] += 1
        return question(
            self.model, messages, tools=tools, sampling=sampling, seed=seed, repetition=times
        )
