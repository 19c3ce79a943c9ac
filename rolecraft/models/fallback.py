"""Several models for one place: where the first is not available, the next one is asked the same.

Invariant: whoever answers was asked the whole conversation as it stands; what it was that answered,
and who had been asked before, is in the record with the answer, each with its own cost.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from rolecraft._log import log
from rolecraft.errors import BadModelResponse, ModelError, ModelUnavailable, UsageError
from rolecraft.models.base import Completion, Model, Sampling, Session, Tool
from rolecraft.models.prompt_cache import identity_of
from rolecraft.trajectories.codec import usage_members
from rolecraft.trajectories.events import Usage

Number = TypeVar("Number", int, float)


class _Member:
    """One of the models, and when it may be asked again."""

    def __init__(self, model: Model, called: str) -> None:
        self.model = model
        self.called = called
        """Its name in the record; with its address, where another one has the same name."""
        self.down_until: float | None = None
        """None while it answers."""
        self.on_trial = False
        """One call finds out whether it answers again; the others go past it meanwhile."""


class FallbackModel(Model):
    """Asks the first of `models` (models or their names) that is available.

    A model is passed over when it raises `ModelUnavailable` (refused or silent through all its
    retries, or its account is used up) or `BadModelResponse`. Anything else, such as a missing key,
    a refused request, or a limit, comes out. A model that was passed over is not asked for
    `cool_down` seconds; then one call tries it, and the others wait for how that ends with the next
    model. If none is left, all are tried. Models given by name but the last are asked again
    `retries` times only, since the next one stands ready.

    A budget holds what the dearest of them may cost. `clock` gives seconds. Raises `UsageError` for
    models with conversations of their own (exact tokens), and for people.
    """

    def __init__(
        self,
        models: Sequence[Model | str],
        *,
        cool_down: float = 60.0,
        retries: int = 1,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if isinstance(models, (str, Model)) or len(models) < 2:
            raise UsageError(
                f"`FallbackModel` wants two models or more in a list, got {models!r}. One model "
                f"goes wherever a model goes as it is."
            )
        if not cool_down >= 0:
            raise UsageError(f"`cool_down` wants seconds from 0, got {cool_down!r}.")
        last = len(models) - 1
        made = [_made(spec, None if at == last else retries) for at, spec in enumerate(models)]
        for model in made:
            if type(model).session is not Model.session or model.person:
                raise UsageError(
                    f"{model!r} cannot be one of several: the others could not go on with its "
                    f"conversation, which is of exact tokens or with a person. `FallbackModel` is "
                    f"for models behind an API."
                )
        called = _called(made)
        self.name = " | ".join(called)
        self.cool_down = cool_down
        self.real = any(model.real for model in made)
        self.estimates_hold = all(model.estimates_hold for model in made)
        self._members = [_Member(model, name) for model, name in zip(made, called, strict=True)]
        self._clock = clock

    @property
    def models(self) -> tuple[Model, ...]:
        return tuple(member.model for member in self._members)

    def identity(self) -> dict[str, Any]:
        """Who may answer: all of its models."""
        return {"one_of": [identity_of(model) for model in self.models]}

    @property
    def available(self) -> tuple[Model, ...]:
        """Those that answered when they were last asked, in order."""
        return tuple(each.model for each in self._members if each.down_until is None)

    async def prepare(self) -> None:
        # The others when they are needed: a budget's estimates load what they count with.
        await self._members[0].model.prepare()

    async def aclose(self) -> None:
        for member in self._members:
            await member.model.aclose()

    def estimate_usd(
        self, session: Session, sampling: Sampling, tools: Sequence[Tool] = ()
    ) -> float | None:
        return _most([model.estimate_usd(session, sampling, tools) for model in self.models])

    def estimate_tokens(
        self, session: Session, sampling: Sampling, tools: Sequence[Tool] = ()
    ) -> int | None:
        return _most([model.estimate_tokens(session, sampling, tools) for model in self.models])

    async def _complete(
        self, session: Session, tools: Sequence[Tool], sampling: Sampling
    ) -> Completion:
        passed: list[dict[str, Any]] = []
        wasted = Usage(calls=0, usd=0.0)
        error: ModelError | None = None
        for member in self._in_turn():
            if error is not None:
                log.warning("{} Asking {!r} instead.", error, member.called)
                session.deliver_anew()
                if error.usage is not None:
                    await session.renew()
            try:
                answer = await self._ask(member, session, tools, sampling)
            except (ModelUnavailable, BadModelResponse) as failed:
                error = failed
                passed.append(_row(member.called, failed))
                if failed.usage is not None:
                    wasted = wasted + replace(failed.usage, calls=0)
                continue
            if answer.model in ("", member.model.name):
                answer.model = member.called
            answer.passed_over = [*passed, *answer.passed_over]
            if wasted != Usage(calls=0, usd=0.0):
                answer.own_usage = answer.own_usage or answer.usage
                answer.usage = answer.usage + wasted
            return answer
        assert error is not None
        raise self._none_left(passed, error, wasted) from error

    async def _ask(
        self, member: _Member, session: Session, tools: Sequence[Tool], sampling: Sampling
    ) -> Completion:
        """One model's answer; whether it came is remembered."""
        model = member.model
        member.on_trial = member.down_until is not None
        try:
            await model.prepare()
            if model.remembers and (known := await model.recall(session, tools, sampling)):
                return known
            answer = await model._complete(session, tools, sampling)
            member.down_until = None
            return answer
        except (ModelUnavailable, BadModelResponse):
            member.down_until = self._clock() + self.cool_down
            raise
        finally:
            member.on_trial = False

    def _in_turn(self) -> list[_Member]:
        """Whom to ask, in order: first those that are up or to be tried again, then the others."""
        now = self._clock()
        ready: list[_Member] = []
        others: list[_Member] = []
        for member in self._members:
            down = member.down_until
            up = down is None or (now >= down and not member.on_trial)
            (ready if up else others).append(member)
        return ready + others

    def _none_left(
        self, passed: list[dict[str, Any]], error: ModelError, wasted: Usage
    ) -> ModelUnavailable:
        said = " ".join(row["error"] for row in passed)
        attempts = sum(row.get("attempts", 1) for row in passed)
        billed = wasted != Usage(calls=0, usd=0.0)
        return ModelUnavailable(
            f"None of {len(passed)} models answered. {said}",
            model=self.name,
            attempts=attempts,
            status=error.status,
            usage=replace(wasted, calls=1) if billed else None,
        )


def _made(spec: Model | str, retries: int | None) -> Model:
    from rolecraft.models.resolve import API_NAME, resolve_model

    if isinstance(spec, str) and retries is not None and API_NAME.fullmatch(spec):
        from rolecraft.models.litellm_model import LiteLLMModel

        return LiteLLMModel(spec, retries=retries)
    return resolve_model(spec)


def _called(models: Sequence[Model]) -> list[str]:
    """The names of `models`, with the address of each that shares its name with another."""
    names = [model.name for model in models]
    addresses = [getattr(model, "base_url", None) for model in models]
    return [
        f"{name} at {address}" if address and names.count(name) > 1 else name
        for name, address in zip(names, addresses, strict=True)
    ]


def _row(called: str, error: ModelError) -> dict[str, Any]:
    """A model that was passed over, for the record."""
    row: dict[str, Any] = {"model": called, "error": str(error)}
    if error.attempts:
        row["attempts"] = error.attempts
    if error.usage is not None:
        row["usage"] = usage_members(replace(error.usage, calls=0))
    return row


def _most(estimates: Sequence[Number | None]) -> Number | None:
    """The greatest estimate; None where one is unknown."""
    known = [each for each in estimates if each is not None]
    return max(known) if len(known) == len(estimates) else None
