"""Models that are given tokens and give tokens back: what all local models share.

A `TokenModel` has the tokenizer, the chat template, and the reading of answers; where the tokens
are sampled (in this process, in vLLM, on a server) is the business of `sample`, the one method
that a subclass writes. So a role meets the same conversations, token for token, on all of them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Literal

from rolecraft._log import log
from rolecraft.errors import ModelError, UsageError
from rolecraft.messages import Message
from rolecraft.models._choices import Node, choice_tree
from rolecraft.models._pieces import Pieces, posting, trimming
from rolecraft.models._reading import AnswerReader, by_kind
from rolecraft.models._stops import Stops
from rolecraft.models._token_request import Sampled as Sampled
from rolecraft.models._token_request import TokenRequest as TokenRequest
from rolecraft.models._token_session import Extension, TokenSession
from rolecraft.models._turns import Answer, turns_of, written_tools
from rolecraft.models.base import Completion, FinishReason, Model, Sampling, Session, Tool
from rolecraft.models.chat_template import CACHED_PROMPTS, ChatTemplate
from rolecraft.models.hashing import hash64
from rolecraft.models.reasoning import ReasoningFormat
from rolecraft.models.tool_calls import ContentPiece, ParsedOutput, ToolCallParser
from rolecraft.models.tool_calls.output import Piece
from rolecraft.trajectories.events import TokenSpan, Usage

OnRewrite = Literal[
    "fork",  # a new token sequence starts, from the conversation as the template now writes it
    "keep",  # the old one goes on, as if the template had only appended
    "error",  # a `UsageError`
]
"""What happens where a chat template rewrites earlier turns."""


class TokenModel(Model):
    """A model behind a tokenizer and its chat template.

    `tokenizer` is a fast tokenizer of `transformers` with a chat template, `ends` are the ids that
    end an answer, `context` is how many tokens the model can read (None: no limit is known).
    `seed` makes all sampling repeatable, `max_tokens` bounds an answer whose `Sampling` sets no
    limit. `template` are extra arguments of the chat template, such as
    `{"enable_thinking": False}`.

    `parser` reads calls of tools (a name, see `rolecraft.models.tool_calls`), `reasoning` what the
    model thinks (a name, see `rolecraft.models.reasoning`; "auto": whatever an answer begins with,
    which it is where nothing else is known; "none": nothing is). Left None, both are
    chosen by the model's name and its chat template. `on_rewrite` says what happens where the
    template rewrites earlier turns: see docs/token-exact.md.

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
        parser: ToolCallParser | str | None = None,
        reasoning: ReasoningFormat | str | None = None,
        on_rewrite: OnRewrite = "fork",
    ) -> None:
        self.template = ChatTemplate(tokenizer, name=name, settings=template)
        if max_tokens < 1:
            raise UsageError(f"`max_tokens` wants a number from 1, got {max_tokens!r}.")
        if on_rewrite not in ("fork", "keep", "error"):
            raise UsageError(f"`on_rewrite` is {on_rewrite!r}; it wants 'fork', 'keep' or 'error'.")
        self.name = name
        self.seed = seed
        self.tokenizer = tokenizer
        self.max_tokens = max_tokens
        self.on_rewrite = on_rewrite
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
        self._end_text = {end: tokenizer.decode([end]) for end in self.ends}
        self.end_texts = frozenset(self._end_text.values())
        self.reader = AnswerReader(
            tokenizer,
            self.ends,
            name=name,
            template=self.template.source,
            parser=parser,
            reasoning=reasoning,
        )
        self._context = context
        self._warned = False
        # Per instance: `lru_cache` on the method would keep every model alive.
        self._tree = lru_cache(CACHED_PROMPTS)(self._tree_uncached)

    @property
    def context(self) -> int | None:
        """How many tokens the model can read, prompt and answer; None if no limit is known."""
        return self._context

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
        extension = session.extend(tools)
        given = len(extension.given)
        prompt = given if extension.restarts else len(session.tokens) + given
        if sampling.choices is not None:
            return prompt + self._tree(sampling.choices).depth
        return prompt + (sampling.max_tokens or self.max_tokens)

    async def _complete(
        self, session: Session, tools: Sequence[Tool], sampling: Sampling
    ) -> Completion:
        assert isinstance(session, TokenSession)
        if tools:
            self.check_tools(tools)
        extension = await session.extended(tools)
        request = self._request(session, extension, tools, sampling)
        answer = await self.sample(request)
        if extension.rewrite:
            self._note_rewrite(session, extension)
        if request.choices is not None:
            output, finish = ParsedOutput(request.choices.spelled(answer.ids)), answer.finish
        else:
            output, finish = self.read(
                answer,
                tools=tools,
                prompt=extension.rendered,
                stop=request.stop,
                first_call=session.calls,
            )
        completion = Completion(
            text=output.content,
            reasoning=output.reasoning,
            tool_calls=output.tool_calls,
            usage=Usage(len(request.ids), len(answer.ids), 0.0),
            finish_reason=finish,
            tokens=TokenSpan(
                session=session.named(session.restarts + extension.restarts),
                start=0 if extension.restarts else len(session.tokens),
                given=extension.given,
                sampled=answer.ids,
                logprobs=answer.logprobs,
                version=answer.version,
                temperature=request.temperature,
                support=answer.support,
                top_p=request.top_p,
                adapter=answer.adapter,
                rewrite=extension.rewrite,
            ),
        )
        session.commit(extension, completion)
        return completion

    def read(
        self,
        answer: Sampled,
        *,
        tools: Sequence[Tool] = (),
        prompt: str = "",
        stop: Sequence[str] = (),
        first_call: int = 0,
        plain: bool = False,
    ) -> tuple[ParsedOutput, FinishReason]:
        """What an answer to the rendered `prompt` says, and how it ended.

        Calls without an id are numbered from `first_call`. `plain` reads nothing out of the text.
        """
        reader = None if plain else self.reader.reader(tools)
        ids = answer.ids
        if reader is None and ids and ids[-1] in self.ends:
            ids = ids[:-1]  # an end token that is no special one would be text
        rest = ""
        if stop and (before := Stops(stop, self.spelled).before(ids)).stopped:
            ids, rest = ids[: before.whole], before.rest
        text = self.reader.decode(ids, reader) + rest
        if reader is None:
            return ParsedOutput(text), answer.finish
        output = self.reader.read(text, tools, prompt, first_call=first_call)
        if output.reasoning:
            # As from an API: `read_completion` leaves these lines out as well.
            output = replace(output, content=output.content.lstrip("\n"))
        called = any(not call.incomplete for call in output.tool_calls)
        return output, "tool_calls" if called and answer.finish == "stop" else answer.finish

    def listener(
        self,
        hear: Callable[[Piece], None],
        *,
        tools: Sequence[Tool] = (),
        prompt: str = "",
        stop: Sequence[str] = (),
        plain: bool = False,
    ) -> Callable[[Sequence[int]], None]:
        """For `TokenRequest.listen`: tells `hear` the parts of an answer while it is sampled.

        They are what `read`, with the same arguments, finds in the whole; `TakenBack` among them
        says that all text so far was reasoning. `hear` is called in the thread that samples.
        """
        reader = None if plain else self.reader.reader(tools)
        return Pieces(
            lambda sampled: self.reader.decode([t for t in sampled if t not in self.ends], reader),
            (lambda text: hear(ContentPiece(text)))
            if reader is None
            else self.reader.listener(tools, prompt, hear),
            stop=stop,
            spelled=self.spelled,
        )

    def as_sampled(self, sampled: Sequence[int]) -> tuple[str, str]:
        """The text of sampled tokens with all that they say, and that of the end token, if any."""
        end = self._end_text.get(sampled[-1], "") if sampled else ""
        body = sampled[:-1] if end else sampled
        text = self.tokenizer.decode(
            body, skip_special_tokens=False, clean_up_tokenization_spaces=False
        )
        return text, end

    def render(
        self,
        messages: Sequence[Message],
        tools: Sequence[Tool] = (),
        thoughts: Mapping[int, str] | None = None,
    ) -> str:
        """The conversation as the chat template writes it, up to where the answer begins.

        Whatever a message says that spells a special token is marked, so that `encode` reads it as
        ordinary text and only the template's own special tokens count. `thoughts` is the reasoning
        of answers, by the index of their message.
        """
        mark = self.template.plain.mark
        answers = {
            at: Answer(at=at, text="", reasoning=thought, calls=(), end="", written="")
            for at, thought in (thoughts or {}).items()
        }
        turns = turns_of(messages, mark, answers)
        return self.template.render(turns, written_tools(tools, mark))

    def key(self, *parts: int | str) -> int:
        """A random stream for `TokenRequest.key`: the model's seed and whatever names an answer."""
        return hash64(self.seed, *parts)

    def encode(self, text: str) -> list[int]:
        """The tokens of a rendered text: `ChatTemplate.encode`."""
        return self.template.encode(text)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of sampled tokens, without special tokens."""
        return self.reader.decode(ids)

    def _request(
        self,
        session: TokenSession,
        extension: Extension,
        tools: Sequence[Tool],
        sampling: Sampling,
    ) -> TokenRequest:
        temperature = 1.0 if sampling.temperature is None else float(sampling.temperature)
        top_p = 1.0 if sampling.top_p is None else float(sampling.top_p)
        max_tokens = self.max_tokens if sampling.max_tokens is None else sampling.max_tokens
        if not (0.0 <= temperature < float("inf") and 0.0 < top_p <= 1.0 and max_tokens >= 1):
            raise UsageError(
                f"`Sampling` wants temperature >= 0, 0 < top_p <= 1 and max_tokens >= 1, got "
                f"{sampling.temperature!r}, {sampling.top_p!r} and {sampling.max_tokens!r}."
            )
        given, restarts = extension.given, extension.restarts
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
        listened = session.on_delta is not None or session.on_reasoning is not None
        if listened and tree is None:
            say, think = trimming(
                *(
                    posting(session.deliverer(reasoning=thoughts), session.deliver_anew)
                    for thoughts in (False, True)
                )
            )
            listen = self.listener(
                by_kind(say, think), tools=tools, prompt=extension.rendered, stop=sampling.stop
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

    def check_tools(self, tools: Sequence[Tool]) -> None:
        """Raises `UsageError` if the model cannot be told of tools, or of what they returned."""
        form = self.template.form
        if form.shows_tools and form.shows_results:
            return
        left_out = "tools" if not form.shows_tools else "what tools return"
        raise UsageError(
            f"`{self.name}` is offered {[tool.name for tool in tools]!r}, but its chat template "
            f"leaves {left_out} out of the prompt, so it would never know. Use a model that was "
            f"made for tools, or set `tokenizer.chat_template` to a template that writes them."
        )

    def stopped(self, stop: tuple[str, ...]) -> Callable[[Sequence[int]], bool] | None:
        """Tells whether a stop string is complete in sampled tokens; None if there are none.

        To be asked after each token: it looks at the last ones only.
        """
        return Stops(stop, self.spelled).found if stop else None

    def spelled(self, sampled: Sequence[int]) -> str:
        """The text in which stop strings are looked for: see `_stops`."""
        text: str = self.tokenizer.decode(
            [token for token in sampled if token not in self.ends],
            skip_special_tokens=False,
            clean_up_tokenization_spaces=False,
        )
        return text

    def _tree_uncached(self, choices: tuple[str, ...]) -> Node:
        spelled = [self.encode(self.template.plain.mark(choice)) for choice in choices]
        return choice_tree(choices, spelled, self._end)

    def _note_rewrite(self, session: TokenSession, extension: Extension) -> None:
        if not self._warned:
            self._warned = True
            then = (
                "so each such turn starts a new token sequence. Training still works, on more and "
                "longer sequences"
                if extension.restarts
                else "and the token sequence goes on as if it had not (`on_rewrite='keep'`)"
            )
            log.warning(
                f"The chat template of `{self.name}` rewrites earlier turns (role "
                f"{session.role!r}: {extension.rewrite}), {then}. This is said once."
            )


def end_tokens(tokenizer: Any, configured: int | Sequence[int] | None = None) -> frozenset[int]:
    """The ids that end an answer: the tokenizer's, and those of the generation settings."""
    ends = set(configured) if isinstance(configured, (list, tuple)) else {configured}
    return frozenset(end for end in (*ends, tokenizer.eos_token_id) if end is not None)
