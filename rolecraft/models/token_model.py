"""Models that are given tokens and give tokens back: what all local models share.

A `TokenModel` has the tokenizer, the chat template, and the reading of answers; where the tokens
are sampled (in this process, in vLLM, on a server) is the business of `sample`, the one method
that a subclass writes. So a role meets the same conversations, token for token, on all of them.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from rolecraft._log import log
from rolecraft.errors import ModelError, UsageError
from rolecraft.messages import Message
from rolecraft.models._choices import Node, choice_tree
from rolecraft.models._pieces import Pieces
from rolecraft.models._plain_text import PlainText
from rolecraft.models._token_session import TokenSession
from rolecraft.models.base import Completion, FinishReason, Model, Sampling, Session, Tool
from rolecraft.trajectories.events import TokenSpan, Usage

# Distinct short texts whose rendering or tokens are kept: training plays the same tasks many times.
# One of the longest costs about 60 kB. Longer ones, which are mostly long conversations and never
# come again, are rendered and tokenised anew: for n calls, n whole renderings, which the template
# needs, but only what is new is tokenised.
CACHED_PROMPTS = 1024
CACHED_CHARACTERS = 4000


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
    """The answer ends once its text contains one of these."""
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


class TokenModel(Model):
    """A model behind a tokenizer and its chat template.

    `tokenizer` is a fast tokenizer of `transformers` with a chat template, `ends` are the ids that
    end an answer, `context` is how many tokens the model can read (None: no limit is known).
    `seed` makes all sampling repeatable, `max_tokens` bounds an answer whose `Sampling` sets no
    limit. `template` are extra arguments of the chat template, such as
    `{"enable_thinking": False}`.

    `Sampling.temperature` and `top_p` are 1 when left None; temperature 0 takes the likeliest
    token. With `choices`, `max_tokens` and `stop` play no part: an answer is one whole choice.
    """

    def __init__(
        self,
        tokenizer: Any,
        *,
        name: str,
        ends: Iterable[int],
        context: int | None = None,
        seed: int = 0,
        max_tokens: int = 512,
        template: Mapping[str, Any] | None = None,
    ) -> None:
        if not getattr(tokenizer, "chat_template", None):
            raise UsageError(
                f"The tokenizer of {name!r} has no chat template, so messages cannot be put to it. "
                f"Use an instruction-tuned model, or set `tokenizer.chat_template`."
            )
        if max_tokens < 1:
            raise UsageError(f"`max_tokens` wants a number from 1, got {max_tokens!r}.")
        self.name = name
        self.seed = seed
        self.tokenizer = tokenizer
        self.max_tokens = max_tokens
        self.ends = frozenset(ends)
        if not self.ends:
            raise UsageError(
                f"The tokenizer of {name!r} has no end token, so no answer could ever end. "
                f"Set `tokenizer.eos_token`."
            )
        self.version = 0
        """Policy version: whoever changes the weights adds one."""
        eos = tokenizer.eos_token_id
        self._end = eos if eos in self.ends else min(self.ends)
        self._end_texts = {end: tokenizer.decode([end]) for end in self.ends}
        self._context = context
        self._template = dict(template or {})
        self._plain = PlainText(tokenizer, name)
        self._warned = False
        # Caches per instance: `lru_cache` on methods would keep every model alive.
        self._render_once = lru_cache(CACHED_PROMPTS)(self._render_uncached)
        self._encode_once = lru_cache(CACHED_PROMPTS)(self._encode_uncached)
        self._tree = lru_cache(CACHED_PROMPTS)(self._tree_uncached)

    @abstractmethod
    async def sample(self, request: TokenRequest) -> Sampled:
        """Sample one answer. Raises `ModelError` if that fails."""

    def session(self, role: str = "", *, system: str = "", seed: int = 0) -> TokenSession:
        return TokenSession(self, role=role, system=system, seed=seed)

    def estimate_usd(
        self, session: Session, sampling: Sampling, tools: Sequence[Tool] = ()
    ) -> float:
        return 0.0

    def estimate_tokens(
        self, session: Session, sampling: Sampling, tools: Sequence[Tool] = ()
    ) -> int:
        assert isinstance(session, TokenSession)
        _, given, restarts = session.extend()
        prompt = len(given) if restarts else len(session.tokens) + len(given)
        if sampling.choices is not None:
            return prompt + self._tree(sampling.choices).depth
        return prompt + (sampling.max_tokens or self.max_tokens)

    def as_sampled(self, answer: Completion) -> tuple[str, str]:
        """The text of an answer as the template will show it, and that of its end token."""
        sampled = answer.tokens.sampled if answer.tokens is not None else []
        end = self._end_texts.get(sampled[-1], "") if answer.finish_reason == "stop" else ""
        return self._plain.mark(answer.text), end

    async def _complete(
        self, session: Session, tools: Sequence[Tool], sampling: Sampling
    ) -> Completion:
        assert isinstance(session, TokenSession)
        if tools:
            raise UsageError(
                f"`{self.name}` runs in this process and cannot be offered tools yet; it was given "
                f"{[tool.name for tool in tools]!r}. Ask for one of `Sampling(choices=...)` and "
                f"let an action call the tool."
            )
        prompt, given, restarts = session.extend()
        request = self._request(session, given, sampling, restarts=restarts)
        answer = await self.sample(request)
        if restarts:
            self._note_restart(session)
            session.restart()
        start = len(session.tokens)
        end = self._end_texts.get(answer.ids[-1], "") if answer.finish == "stop" else ""
        text = self._text(answer.ids, request)
        session.commit(prompt, given, answer.ids, self._plain.mark(text), end)
        return Completion(
            text=text,
            usage=Usage(len(request.ids), len(answer.ids), 0.0),
            finish_reason=answer.finish,
            tokens=TokenSpan(
                session=session.sequence_id,
                start=start,
                given=given,
                sampled=answer.ids,
                logprobs=answer.logprobs,
                version=answer.version,
                temperature=request.temperature,
                support=answer.support,
            ),
        )

    def render(self, messages: Sequence[Message]) -> str:
        """The conversation as the chat template writes it, up to where the answer begins.

        Whatever a message says that spells a special token is marked, so that `encode` reads it as
        ordinary text and only the template's own special tokens count.
        """
        conversation = tuple(
            (message.api_role, self._plain.mark(message.content)) for message in messages
        )
        if sum(len(content) for _, content in conversation) > CACHED_CHARACTERS:
            return self._render_uncached(conversation)
        return self._render_once(conversation)

    def encode(self, text: str) -> list[int]:
        """The tokens of a rendered text. No special tokens are added: the template wrote them.

        Raises `UsageError` for text that the tokenizer cannot spell, or only as a special token.
        """
        short = len(text) <= CACHED_CHARACTERS
        return list(self._encode_once(text) if short else self._encode_uncached(text))

    def _request(
        self, session: TokenSession, given: list[int], sampling: Sampling, *, restarts: bool
    ) -> TokenRequest:
        temperature = 1.0 if sampling.temperature is None else float(sampling.temperature)
        top_p = 1.0 if sampling.top_p is None else float(sampling.top_p)
        max_tokens = self.max_tokens if sampling.max_tokens is None else sampling.max_tokens
        if not (0.0 <= temperature < float("inf") and 0.0 < top_p <= 1.0 and max_tokens >= 1):
            raise UsageError(
                f"`Sampling` wants temperature >= 0, 0 < top_p <= 1 and max_tokens >= 1, got "
                f"{sampling.temperature!r}, {sampling.top_p!r} and {sampling.max_tokens!r}."
            )
        ids = [*given] if restarts else session.tokens + given
        tree = None if sampling.choices is None else self._tree(sampling.choices)
        if self._context is not None:
            room = self._context - len(ids)
            if room < (1 if tree is None else tree.depth):
                raise ModelError(
                    f"The conversation of role {session.role!r} is {len(ids)} tokens long; with an "
                    f"answer it exceeds the {self._context} tokens that `{self.name}` can read. "
                    f"Shorten the prompt, or open a new session."
                )
            max_tokens = min(max_tokens, room)
        listen = None
        if session.on_delta is not None and tree is None:
            listen = Pieces(
                lambda sampled: self.decode([t for t in sampled if t not in self.ends]),
                _posting(session.deliverer()),
                stop=sampling.stop,
            )
        return TokenRequest(
            ids=ids,
            role=session.role,
            key=session.key(self.seed, sampling.seed, restarts=restarts),
            temperature=temperature,
            top_p=top_p,
            max_tokens=max_tokens,
            stop=sampling.stop if tree is None else (),
            choices=tree,
            listen=listen,
        )

    def _text(self, sampled: list[int], request: TokenRequest) -> str:
        if request.choices is not None:
            return request.choices.spelled(sampled)
        if sampled[-1] in self.ends:
            sampled = sampled[:-1]
        text = self.decode(sampled)
        cuts = [at for at in (text.find(stop) for stop in request.stop) if at >= 0]
        return text[: min(cuts)] if cuts else text

    def decode(self, ids: Sequence[int]) -> str:
        """The text of sampled tokens, without special tokens."""
        # They are left out: no model can put the end of a turn into another's prompt.
        text: str = self.tokenizer.decode(
            ids, skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return text

    def stopped(self, stop: tuple[str, ...]) -> Callable[[Sequence[int]], bool] | None:
        """Tells whether a stop string is complete in sampled tokens; None if there are none.

        To be asked after each token: it looks at the last ones only.
        """
        if not stop:
            return None
        # A character takes at most four tokens (one per byte), so this window holds a whole stop
        # string whose last token has just come.
        window = 4 * max(map(len, stop)) + 4

        def is_stopped(sampled: Sequence[int]) -> bool:
            text = self.decode(sampled[-window:])
            return any(end in text for end in stop)

        return is_stopped

    def _render_uncached(self, conversation: tuple[tuple[str, str], ...]) -> str:
        from jinja2.exceptions import TemplateError  # comes with transformers' chat templates

        try:
            text: str = self.tokenizer.apply_chat_template(
                [{"role": role, "content": content} for role, content in conversation],
                tokenize=False,
                add_generation_prompt=True,
                **self._template,
            )
        except TemplateError as error:
            raise UsageError(
                f"The chat template of `{self.name}` refuses the conversation "
                f"{[role for role, _ in conversation]!r}: {error}"
            ) from error
        return text

    def _encode_uncached(self, text: str) -> tuple[int, ...]:
        try:
            return tuple(self._plain.encode(text))
        except UsageError:
            raise
        except Exception as error:  # the tokenizers library raises plain `Exception`
            raise UsageError(
                f"The tokenizer of `{self.name}` cannot spell {text!r}: {error}"
            ) from error

    def _tree_uncached(self, choices: tuple[str, ...]) -> Node:
        spelled = [self.encode(self._plain.mark(choice)) for choice in choices]
        return choice_tree(choices, spelled, self._end)

    def _note_restart(self, session: TokenSession) -> None:
        if not self._warned:
            self._warned = True
            log.warning(
                f"The chat template of `{self.name}` rewrites earlier turns (role "
                f"{session.role!r}), so each such turn starts a new token sequence. Training still "
                f"works, on more and longer sequences. This is said once."
            )


def end_tokens(tokenizer: Any, configured: int | Sequence[int] | None = None) -> frozenset[int]:
    """The ids that end an answer: the tokenizer's, and those of the generation settings."""
    ends = set(configured) if isinstance(configured, (list, tuple)) else {configured}
    return frozenset(end for end in (*ends, tokenizer.eos_token_id) if end is not None)


def _posting(deliver: Callable[[str], None]) -> Callable[[str], None]:
    """`deliver`, in the thread of the running event loop, whichever thread calls."""
    loop = asyncio.get_running_loop()

    def post(piece: str) -> None:
        with suppress(RuntimeError):  # the loop was closed, and nobody waits any more
            loop.call_soon_threadsafe(deliver, piece)

    return post
