"""A conversation as one exact, append-only sequence of tokens.

Invariant: the sequence is what the model saw and sampled, token for token; nothing in it is ever
tokenised again. What a call adds is rendered with the chat template, and only what is new is
tokenised. Where a template rewrites what it rendered before (Qwen3 drops earlier reasoning, for
example), the old sequence cannot be continued truthfully: a new one starts, under a new id, and the
first span of the new one says why. With `on_rewrite="keep"` the old one goes on all the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from rolecraft.errors import NotRestorable, UsageError
from rolecraft.models._continuing import Continuation, continuation
from rolecraft.models._hashing import hash64
from rolecraft.models._turns import Answer, turns_of, written_tools
from rolecraft.models.base import Completion, Session, Tool
from rolecraft.models.chat_template import TemplateRefuses

if TYPE_CHECKING:
    from rolecraft.messages import Message
    from rolecraft.models.token_model import TokenModel


@dataclass(slots=True, kw_only=True)
class Extension:
    """What a call adds to a session's sequence."""

    given: list[int]
    rendered: str
    """The conversation, with marks for the answers of this sequence."""
    tools: str
    restarts: bool = False
    """A new sequence starts."""
    rewrite: str = ""
    """Why the rendering does not continue the sequence; empty if it does."""


class TokenSession(Session):
    """The session of a `TokenModel`. `tokens` is its sequence so far."""

    model: TokenModel

    def __init__(
        self, model: TokenModel, *, role: str = "", system: str = "", seed: int = 0
    ) -> None:
        super().__init__(model, role=role, system=system, seed=seed)
        self.tokens: list[int] = []
        self.restarts = 0
        """How often the chat template rewrote history, so that a new sequence had to begin."""
        self.calls = 0
        """Calls of tools so far: numbers those that the model gave no id."""
        self._rendered = ""
        """The conversation up to the last answer, as the last call rendered it."""
        self._tools = ""
        self._answers: dict[int, Answer] = {}
        """All sampled answers, by the index of their message."""
        self._began = 0
        """Answers from this index on are of the present sequence."""
        self._behind = False
        """Whether the last answer came from a record, and nothing was rendered since."""

    @property
    def sequence_id(self) -> str:
        """Names the token sequence: the conversation's id, and a count after restarts."""
        return self.named(self.restarts)

    def named(self, restarts: int) -> str:
        """The name of the sequence after so many restarts."""
        name = self.id or f"{self.role}:{self.seed}"
        return f"{name}+{restarts}" if restarts else name

    def key(self, model_seed: int, call_seed: int | None, *, restarts: bool = False) -> int:
        """The random stream of the next call; `restarts` if it starts a new sequence."""
        seed = self.seed if call_seed is None else call_seed
        return hash64(_stream(model_seed, self.role, self.restarts + restarts), seed)

    def _restore(self, given: Completion) -> None:
        super()._restore(given)
        span = given.tokens
        if span is None:
            raise NotRestorable(
                f"The recorded answer of {self.given_by!r} in conversation {self.id!r} has no "
                f"tokens, and {self.model.name!r} counts them: it cannot go on with it. Use the "
                f"same kind of model, or fork before this conversation begins."
            )
        if span.start == 0:
            self.tokens = []
            self._began = len(self.messages)
        self.restarts = int(span.session.rpartition("+")[2]) if "+" in span.session else 0
        self.tokens.extend(span.given)
        self.tokens.extend(span.sampled)
        self._remember(given)
        self._behind = True

    def _catch_up(self) -> None:
        """Render what came from a record, once something must be added to it."""
        if self._behind:
            self._behind = False
            last = max(self._answers)
            self._tools = written_tools(self.offered, self.model.template.plain.mark)
            self._rendered = self._render(self.messages[:last], self._tools)

    def extend(self, tools: Sequence[Tool] = ()) -> Extension:
        """What the messages add to the sequence.

        Changes nothing: a call that fails leaves the sequence as it was; `commit` moves it on.
        Raises `UsageError` if the template refuses the messages, or rewrites earlier ones and
        `on_rewrite` is `"error"`.
        """
        self._catch_up()
        template = self.model.template
        offered = written_tools(tools, template.plain.mark) if tools else ""
        if not self.tokens:
            text = self._render(self.messages, offered)
            return Extension(given=template.encode(text), rendered=text, tools=offered)
        found, text = self._continuation(offered)
        if not found.rewrite or (self.model.on_rewrite == "keep" and found.rest is not None):
            given = template.encode(found.rest or "")
            return Extension(given=given, rendered=text, tools=offered, rewrite=found.rewrite)
        if self.model.on_rewrite == "error":
            raise UsageError(
                f"The chat template of `{self.model.name}` does not continue the conversation of "
                f"role {self.role!r} token for token: {found.rewrite}. Use `on_rewrite='fork'` for "
                f"a new sequence at each such turn, or 'keep' to go on with the old one."
            )
        text = self._render(self.messages, offered, whole=True)
        return Extension(
            given=template.encode(text),
            rendered=text,
            tools=offered,
            restarts=True,
            rewrite=found.rewrite,
        )

    def commit(self, extension: Extension, completion: Completion) -> None:
        """Append one call's tokens."""
        if extension.restarts:
            self.restarts += 1
        if extension.restarts or not self.tokens:
            self.tokens = []
            self._began = len(self.messages)
        span = completion.tokens
        assert span is not None
        self.tokens.extend(extension.given)
        self.tokens.extend(span.sampled)
        self._rendered, self._tools = extension.rendered, extension.tools
        self._remember(completion)

    def _remember(self, completion: Completion) -> None:
        assert completion.tokens is not None
        at = len(self.messages)
        written, end = self.model.as_sampled(completion.tokens.sampled)
        self.calls += len(completion.tool_calls)
        self._answers[at] = Answer(
            at=at,
            text=completion.text,
            reasoning=completion.reasoning,
            calls=completion.tool_calls,
            end=end,
            written=written,
        )

    def _continuation(self, offered: str) -> tuple[Continuation, str]:
        last = self._last_answer()
        if last is None:
            return Continuation(rest=None, rewrite="messages removed"), ""
        why = "other tools offered" if offered != self._tools else ""
        text, closed = self._rendered_around(last, offered)
        found = continuation(
            text,
            before=self._rendered,
            closed=closed,
            answer=last,
            ends=self.model.end_texts,
            special_at=self.model.template.plain.special_at,
        )
        if found.rewrite and why:
            found.rewrite = why
        return found, text

    def _last_answer(self) -> Answer | None:
        """The last answer of the sequence; None if its message is no longer where it was."""
        last = self._answers[max(self._answers)]
        at = last.at
        message = self.messages[at] if at < len(self.messages) else None
        if last.message is None and message is not None and message.content == last.text:
            last.message = message
        if message is None or message is not last.message or message.role != "assistant":
            return None
        return last

    def _rendered_around(self, last: Answer, offered: str) -> tuple[str, str]:
        """All messages, and those up to the last answer without the beginning of another one."""
        try:
            text = self._render(self.messages, offered)
        except TemplateRefuses:
            if last.plain or not last.calls:
                raise
            last.plain, last.parts = True, []  # say: a template that takes one call at a time
            text = self._render(self.messages, offered)
        try:
            closed = self._render(self.messages[: last.at + 1], offered, opens_answer=False)
        except TemplateRefuses:
            closed = ""
        return text, closed

    def _render(
        self,
        messages: Sequence[Message],
        tools: str,
        *,
        whole: bool = False,
        opens_answer: bool = True,
    ) -> str:
        """The messages as the template writes them, with marks for this sequence's answers.

        `whole`: every answer as it reads, for a new sequence.
        """
        template = self.model.template
        turns = turns_of(messages, template.plain.mark, self._answers, names={})
        if not whole:
            for at, answer in self._answers.items():
                if self._began <= at < len(turns):
                    turns[at] = answer.stand_in(turns[at])
        return template.render(turns, tools, opens_answer=opens_answer)


@lru_cache(1024)
def _stream(model_seed: int, role: str, restarts: int) -> int:
    return hash64(model_seed, role, restarts)
