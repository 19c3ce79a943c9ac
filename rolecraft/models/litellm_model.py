"""Models behind an API, through LiteLLM: OpenAI, Anthropic, Google, and any compatible server."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, replace
from typing import Any
from weakref import WeakKeyDictionary

from rolecraft._log import log
from rolecraft.errors import UsageError
from rolecraft.models import _litellm
from rolecraft.models._api_errors import api_error, missing_keys
from rolecraft.models._failures import AttemptFailed, Failure, read_failure
from rolecraft.models._stream import Details, Listening, broke_off, join_stream
from rolecraft.models._wire import read_completion, write_messages, write_tools
from rolecraft.models.base import Completion, Model, Sampling, Session, Tool
from rolecraft.models.rate_limiter import RateLimiter, Turn, shared_limiter
from rolecraft.models.reasoning.format import ReasoningFormat
from rolecraft.models.reasoning.split import AUTO, ReasoningStream
from rolecraft.models.retries import Retries
from rolecraft.trajectories.events import Usage

DEFAULT_ANSWER_TOKENS = 4096
"""What an answer is assumed to have at most, where nobody says and LiteLLM does not know."""

# What a chat API adds to a message's own tokens (role, separators): 4 for OpenAI's models.
_TOKENS_AROUND_MESSAGE = 8
# LiteLLM counts with OpenAI's tokenizers whatever the model; others need up to a third more for
# the same English text.
_MARGIN_FOR_OTHER_TOKENIZERS = 1.35
_EXACT_TOKENIZERS = frozenset({"openai", "azure", "text-completion-openai"})

# Settings of a request that this class decides on itself.
_OWN = frozenset(
    {"api_base", "api_key", "base_url", "max_retries", "max_tokens", "messages", "model", "n"}
    | {"num_retries", "seed", "stop", "stream", "stream_options", "temperature", "timeout"}
    | {"tools", "top_p"}
)
# Usage comes at the end of a stream where it is asked for.
_STREAM: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}


class LiteLLMModel(Model):
    """A model behind an API.

    `name` is LiteLLM's: `openai/gpt-4o-mini`, `anthropic/claude-sonnet-4-5`. A server of your own
    that speaks OpenAI's protocol is `openai/NAME` with `base_url="http://host:port/v1"`.

    - `api_key`: without one, LiteLLM takes the provider's environment variable.
    - `prices`: US dollars for one prompt token and one answer token; LiteLLM's list otherwise.
    - `timeout`: seconds that one attempt may take.
    - `retries`: a number, or `Retries` for the waiting between.
    - `sampling`: what to take where a call's `Sampling` leaves a field None.
    - `extra`: further arguments for `litellm.acompletion`, such as `reasoning_effort`.
    - `reasoning`: a format of `rolecraft.models.reasoning` in which the server leaves reasoning in
      the text, or its name. `"auto"` takes out what an answer begins with, None nothing.
    - `limiter`: how fast it is asked. By default all objects of one model, server and key share
      one in an event loop.

    Usage is the provider's. A useless answer that was paid for counts at once, is part of the usage
    of the answer that follows or of the error, and no retry is made that could cross a limit. Where
    the provider gives no usage, tokens are counted here. A session's seed is sent to providers that
    take one. Answers are streamed to sessions that somebody listens to (`Session.on_delta`).
    `generate` raises `MissingKey`, `ModelUnavailable` (no answer after all retries),
    `BadModelResponse` (answers that are no completion after all retries), `UsageError` (no such
    provider), or `ModelError` (the provider refused the request).
    """

    def __init__(
        self,
        name: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        prices: tuple[float, float] | None = None,
        timeout: float = 120.0,
        retries: int | Retries = 5,
        sampling: Sampling | None = None,
        extra: Mapping[str, Any] | None = None,
        reasoning: ReasoningFormat | str | None = AUTO,
        limiter: RateLimiter | None = None,
    ) -> None:
        if not isinstance(name, str) or not name:
            raise UsageError(
                f"`LiteLLMModel` wants a name such as 'openai/gpt-4o-mini', got {name!r}."
            )
        if prices is not None and not (len(prices) == 2 and all(price >= 0 for price in prices)):
            raise UsageError(
                f"`prices` wants US dollars for one prompt token and one answer token, "
                f"got {prices!r}."
            )
        if not timeout > 0:
            raise UsageError(f"`timeout` wants seconds above 0, got {timeout!r}.")
        taken = _OWN & (extra or {}).keys()
        if taken:
            raise UsageError(
                f"`extra` cannot set {sorted(taken)[0]!r}: that is a parameter of `LiteLLMModel`, "
                f"of `Sampling`, or not to be changed."
            )
        self.name = name
        self.base_url = base_url
        self.prices = prices
        self.timeout = timeout
        self.retries = retries if isinstance(retries, Retries) else Retries(times=retries)
        self.sampling = sampling or Sampling()
        self.extra = dict(extra or {})
        ReasoningStream(reasoning)  # raises for a name that is not known
        self.reasoning = reasoning
        self._api_key = api_key
        self._limiter = limiter
        self._provider = ""
        self._takes_seed = False
        self._longest_answer = DEFAULT_ANSWER_TOKENS
        self._counted: WeakKeyDictionary[Session, tuple[int, int]] = WeakKeyDictionary()
        """For each session: how many of its messages are counted, and their tokens."""

    @property
    def limiter(self) -> RateLimiter:
        """How fast the model is asked in the running event loop, and what it came to so far."""
        return self._limiter or shared_limiter(self.name, self.base_url, self._api_key)

    def identity(self) -> dict[str, Any]:
        """For a cache of answers: who is asked, and how its answers are read."""
        form = self.reasoning
        return {
            "kind": "LiteLLMModel",
            "name": self.name,
            "base_url": self.base_url,
            "extra": self.extra,
            "sampling": asdict(self.sampling),
            "reasoning": form if form is None or isinstance(form, str) else repr(form),
        }

    async def prepare(self) -> None:
        if not self._provider:
            await asyncio.to_thread(self._load)
        _litellm.enter(self)

    async def aclose(self) -> None:
        await _litellm.leave(self)

    def estimate_tokens(
        self, session: Session, sampling: Sampling, tools: Sequence[Tool] = ()
    ) -> int:
        """The prompt as counted here, with a margin, and the longest answer allowed.

        The longest answer is `Sampling.max_tokens`, or the model's own limit, or
        `DEFAULT_ANSWER_TOKENS` where that is unknown. The prompt's count is exact for OpenAI's
        tokenizers and can be too low for languages that another tokenizer cuts finer.
        """
        return sum(self._estimate(session, sampling, tools))

    def estimate_usd(
        self, session: Session, sampling: Sampling, tools: Sequence[Tool] = ()
    ) -> float | None:
        """The price of `estimate_tokens`; None where no price is known."""
        return self._price(*self._estimate(session, sampling, tools))

    async def _complete(
        self, session: Session, tools: Sequence[Tool], sampling: Sampling
    ) -> Completion:
        sampling = sampling.filled(self.sampling)
        request = self._request(session, tools, sampling)
        wasted = Usage(calls=0)
        limiter = self.limiter
        ticket = limiter.ticket()
        billed = False  # whether the last attempt was, in vain

        async def attempt() -> Completion:
            nonlocal wasted, billed
            if billed:
                await session.renew()
            billed = False
            try:
                async with limiter.turn(ticket) as turn:
                    return await self._ask(request, session, turn)
            except AttemptFailed as error:
                session.deliver_anew()
                if error.usage is not None and error.usage != Usage():
                    billed, paid = True, replace(self._paid(error.usage), calls=0)
                    session.charge(paid)
                    wasted = wasted + paid
                raise

        def note(failure: Failure, attempts: int, wait: float) -> None:
            self._note_retry(failure, attempts, wait)
            if session.on_retry is not None:
                session.on_retry(session, failure, wait)

        retrying = self.retries.retrying(note)
        try:
            completion: Completion = await retrying(attempt)
        except AttemptFailed as error:
            if error.failure.kind == "filtered":
                # Nothing was sampled, so nothing is charged.
                usage = Usage(usd=0.0) + wasted
                return Completion(text="", usage=usage, finish_reason="content_filter")
            attempts = retrying.statistics["attempt_number"]
            failed = api_error(self, error.failure, attempts)
            if wasted != Usage(calls=0):
                failed.usage = replace(wasted, calls=1)
            raise failed from error.__cause__
        if not completion.usage.prompt_tokens and not completion.usage.completion_tokens:
            completion.usage = await asyncio.to_thread(self._count, request, completion)
        completion.usage = self._paid(completion.usage) + wasted
        completion.attempts = retrying.statistics["attempt_number"]
        if sampling.choices and completion.text.strip() in sampling.choices:
            completion.text = completion.text.strip()
        return completion

    async def _ask(self, request: dict[str, Any], session: Session, turn: Turn) -> Completion:
        try:
            return await self._asked(request, session)
        except AttemptFailed as error:
            failure = error.failure
            if failure.overload:
                wait = failure.retry_after or 0.0
                turn.refused(wait if wait <= self.retries.longest_retry_after else None)
            raise

    async def _asked(self, request: dict[str, Any], session: Session) -> Completion:
        ask = _litellm.load().acompletion
        try:
            async with asyncio.timeout(self.timeout):
                if session.on_delta is None and session.on_reasoning is None:
                    response = await ask(**request)
                else:
                    response = await self._listen(await ask(**request, **_STREAM), session)
        except AttemptFailed:
            raise
        except TimeoutError as error:
            failure = Failure(kind="timeout", text=f"nothing within {self.timeout:g} s")
            raise AttemptFailed(failure) from error
        except Exception as error:
            raise AttemptFailed(self._failure(error)) from error
        return read_completion(response, self.name, self._provider, self.reasoning)

    async def _listen(self, stream: Any, session: Session) -> Any:
        """The whole answer of a stream, whose pieces are delivered as they come."""
        details, listening = Details(stream), Listening(session, self.reasoning)
        async with aclosing(stream):
            async for chunk in stream:
                listening.hear(chunk)
        if broke_off(stream):
            raise AttemptFailed(Failure(kind="malformed", text="the stream broke off"))
        return await asyncio.to_thread(join_stream, stream, self.name, details)

    def _request(
        self, session: Session, tools: Sequence[Tool], sampling: Sampling
    ) -> dict[str, Any]:
        seed = sampling.seed
        if seed is None and session.seed and self._takes_seed:
            seed = session.seed % 2**31  # more is an error for some servers
        settings = {
            "api_key": self._api_key,
            "base_url": self.base_url,
            "tools": write_tools(tools) or None,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "max_tokens": sampling.max_tokens,
            "stop": list(sampling.stop) or None,
            "seed": seed,
        }
        return {
            "model": self.name,
            "messages": write_messages(session.messages, sampling.choices, self.name),
            "timeout": self.timeout,
            **_litellm.request_settings(),
            **{name: value for name, value in settings.items() if value is not None},
            **self.extra,
        }

    def _load(self) -> None:
        """Import LiteLLM and look the model up in its tables. Takes seconds: run in a thread."""
        litellm = _litellm.load()
        try:
            name, provider, _, _ = litellm.get_llm_provider(self.name, api_base=self.base_url)
        except litellm.BadRequestError:
            raise UsageError(
                f"{self.name!r} names no provider that LiteLLM knows. Write 'provider/model', such "
                f"as 'openai/gpt-4o-mini'; a server of your own that speaks OpenAI's protocol is "
                f"'openai/NAME' with `base_url=`; a model that runs in this process is "
                f"'transformers:PATH'."
            ) from None
        takes = litellm.get_supported_openai_params(name, custom_llm_provider=provider)
        self._takes_seed = "seed" in (takes or ())
        try:
            longest = litellm.get_model_info(name, custom_llm_provider=provider).get(
                "max_output_tokens"
            )
        except (
            Exception
        ):  # the bare `Exception` with which LiteLLM says that it knows no such model
            longest = None
        self._longest_answer = longest or DEFAULT_ANSWER_TOKENS
        litellm.token_counter(model=self.name, text="")  # loads the tokenizer
        self._provider = provider

    def _estimate(
        self, session: Session, sampling: Sampling, tools: Sequence[Tool]
    ) -> tuple[int, int]:
        """Tokens of the prompt and of the answer, at most."""
        if not self._provider:
            self._load()
        sampling = sampling.filled(self.sampling)
        counted, tokens = self._counted.get(session, (0, 0))
        # A history only grows, so that each message is counted once.
        tokens += self._tokens(write_messages(session.messages[counted:]))
        self._counted[session] = (len(session.messages), tokens)
        if sampling.choices:
            tokens += self._tokens(write_messages((), sampling.choices))
        if tools:
            tokens += self._tokens(write_tools(tools))
        margin = 1.0 if self._provider in _EXACT_TOKENIZERS else _MARGIN_FOR_OTHER_TOKENIZERS
        return math.ceil(tokens * margin), sampling.max_tokens or self._longest_answer

    def _tokens(self, parts: Sequence[Mapping[str, Any]]) -> int:
        count = _litellm.load().token_counter
        total = 0
        for part in parts:
            texts = [
                value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
                for name, value in part.items()
                if name not in ("role", "type") and value
            ]
            total += count(model=self.name, text=" ".join(texts)) + _TOKENS_AROUND_MESSAGE
        return total

    def _count(self, request: dict[str, Any], completion: Completion) -> Usage:
        """Tokens of a call whose answer came without usage."""
        answer: list[dict[str, Any]] = [
            {"text": completion.text, "reasoning": completion.reasoning},
            *({"name": call.name, "arguments": call.arguments} for call in completion.tool_calls),
        ]
        prompt = self._tokens([*request["messages"], *request.get("tools", ())])
        return Usage(prompt, self._tokens(answer))

    def _paid(self, usage: Usage) -> Usage:
        """`usage` with its price: by `prices`, the provider's or LiteLLM's, or unknown."""
        if self.prices is None and usage.usd is not None:
            return usage
        return replace(usage, usd=self._price(usage.prompt_tokens, usage.completion_tokens))

    def _price(self, prompt_tokens: int, answer_tokens: int) -> float | None:
        if self.prices is not None:
            return prompt_tokens * self.prices[0] + answer_tokens * self.prices[1]
        try:
            prompt_usd, answer_usd = _litellm.load().cost_per_token(
                model=self.name, prompt_tokens=prompt_tokens, completion_tokens=answer_tokens
            )
        except Exception:  # as above: a bare `Exception` for a model it has no price for
            return None
        return float(prompt_usd + answer_usd)

    def _failure(self, error: Exception) -> Failure:
        failure = read_failure(error)
        # Some providers' adapters say that there is no key in an error like any other.
        unclear = failure.kind == "malformed" and failure.status is None
        said = unclear and "key" in failure.text.lower() and not self._api_key
        return replace(failure, kind="key") if said and missing_keys(self.name) else failure

    def _note_retry(self, failure: Failure, attempts: int, wait: float) -> None:
        log.info(
            "{}: attempt {} of {} failed, {}. Next one in {:.1f} s.",
            self.name,
            attempts,
            int(self.retries.times) + 1,
            failure,
            wait,
        )
