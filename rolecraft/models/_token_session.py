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
from rolecraft.models._locality import HEAD
from rolecraft.models._turns import Answer, turns_of, written_tools
from rolecraft.models.base import Completion, Session, Tool
from rolecraft.models.chat_template import TemplateRefuses

if TYPE_CHECKING:
    from rolecraft.models.token_model import TokenModel


@dataclass(slots=True, kw_only=True)
class Extension:
    """What a call adds to a session's sequence."""

    given: list[int]
    rendered: str
    """The conversation, with marks for the answers of this sequence."""
    complete: bool = True
    """Whether that is all of it, or its beginning and end only."""
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
        """The conversation up to the last answer, as the last call rendered it; empty if it did not
        render all of it."""
        self._tools = ""
        self._answers: dict[int, Answer] = {}
        """All sampled answers, by the index of their message."""
        self._began = 0
        """Answers from this index on are of the present sequence."""
        self._previous = -1
        """Index of the answer before the last."""
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
            last = next(reversed(self._answers))
            self._tools = written_tools(self.offered, self.model.template.plain.mark)
            self._rendered = self._render(range(last), self._tools)

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
            text = self._render(None, offered)
            return Extension(given=template.encode(text), rendered=text, tools=offered)
        found, text, complete = self._continuation(offered)
        if not found.rewrite or (self.model.on_rewrite == "keep" and found.rest is not None):
            return Extension(
                given=template.encode(found.rest or ""),
                rendered=text,
                complete=complete,
                tools=offered,
                rewrite=found.rewrite,
            )
        if self.model.on_rewrite == "error":
            raise UsageError(
                f"The chat template of `{self.model.name}` does not continue the conversation of "
                f"role {self.role!r} token for token: {found.rewrite}. Use `on_rewrite='fork'` for "
                f"a new sequence at each such turn, or 'keep' to go on with the old one."
            )
        text = self._render(None, offered, whole=True)
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
            self._answers = self._known()
        if extension.restarts or not self.tokens:
            self.tokens = []
            self._began = len(self.messages)
        span = completion.tokens
        assert span is not None
        self.tokens.extend(extension.given)
        self.tokens.extend(span.sampled)
        self._rendered = extension.rendered if extension.complete else ""
        self._tools = extension.tools
        self._remember(completion)

    def _remember(self, completion: Completion) -> None:
        assert completion.tokens is not None
        at = len(self.messages)
        written, end = self.model.as_sampled(completion.tokens.sampled)
        self.calls += len(completion.tool_calls)
        self._previous = next(reversed(self._answers), -1)
        self._answers[at] = Answer(
            at=at,
            text=completion.text,
            reasoning=completion.reasoning,
            calls=completion.tool_calls,
            end=end,
            written=written,
        )

    def _continuation(self, offered: str) -> tuple[Continuation, str, bool]:
        """How the conversation goes on after the last answer; a rendering, and whether of all.

        Where the template is local, only the conversation's beginning and end are rendered. Now and
        then all of it is, to see whether that says the same.
        """
        last = self._last_answer()
        if last is None:
            return Continuation(rest=None, rewrite="messages removed"), "", True
        part = self._window(last) if offered == self._tools else None
        found = None if part is None else self._found_in(part, last, offered)
        count = len(self._answers)
        # At 1, 2, 4, 8, ... answers: all in all, that is twice the work of rendering it once.
        if found is not None and count & (count - 1):
            return *found, False
        whole = self._found_in_all(last, offered)
        if found is not None and found[0] != whole[0]:
            self.model.template.local = False
        return *whole, True

    def _found_in_all(self, last: Answer, offered: str) -> tuple[Continuation, str]:
        try:
            text = self._render(None, offered)
        except TemplateRefuses:
            if last.plain or not last.calls:
                raise
            last.plain, last.parts = True, []  # say: a template that takes one call at a time
            text = self._render(None, offered)
        before = self._rendered or self._render(range(last.at), self._tools)
        found = self._compared(last, text, before, self._closed(range(last.at + 1), offered))
        if found.rewrite and offered != self._tools:
            found.rewrite = "other tools offered"
        return found, text

    def _found_in(
        self, part: Sequence[int], last: Answer, offered: str
    ) -> tuple[Continuation, str] | None:
        """The same from a part of the messages; None if the template wants them all."""
        try:
            text = self._render(part, offered)
            before = self._render([at for at in part if at < last.at], offered)
        except TemplateRefuses:
            return None
        closed = self._closed([at for at in part if at <= last.at], offered)
        return self._compared(last, text, before, closed), text

    def _closed(self, part: Sequence[int], offered: str) -> str:
        try:
            return self._render(part, offered, opens_answer=False)
        except TemplateRefuses:
            return ""

    def _window(self, last: Answer) -> Sequence[int] | None:
        """Indices of the messages that a local template's rendering of the end depends on.

        The first ones, and all from before the answer before the last. None if that is nearly all.
        """
        first = self._previous - 1
        if not self.model.template.local or self._previous < self._began or first <= 2 * HEAD:
            return None
        return [*range(HEAD), *range(first, len(self.messages))]

    def _known(self) -> dict[int, Answer]:
        """The answers whose messages are still where they were."""
        return {
            at: answer
            for at, answer in self._answers.items()
            if at < len(self.messages) and answer.is_at(self.messages[at])
        }

    def _compared(self, last: Answer, text: str, before: str, closed: str) -> Continuation:
        return continuation(
            text,
            before=before,
            closed=closed,
            answer=last,
            ends=self.model.end_texts,
            special_at=self.model.template.plain.special_at,
        )

    def _last_answer(self) -> Answer | None:
        """The last answer of the sequence; None if its message is no longer where it was."""
        last = next(reversed(self._answers.values()))
        here = last.at < len(self.messages) and last.is_at(self.messages[last.at])
        return last if here else None

    def _render(
        self,
        part: Sequence[int] | None,
        tools: str,
        *,
        whole: bool = False,
        opens_answer: bool = True,
    ) -> str:
        """The messages as the template writes them, with marks for this sequence's answers.

        `part` are indices of messages, None means all. `whole`: every answer as it reads, for a new
        sequence.
        """
        template = self.model.template
        turns = turns_of(
            self.messages,
            template.plain.mark,
            self._known() if whole else self._answers,
            part=part,
            stand_ins_from=None if whole else self._began,
        )
        return template.render(turns, tools, opens_answer=opens_answer)


@lru_cache(1024)
def _stream(model_seed: int, role: str, restarts: int) -> int:
    return hash64(model_seed, role, restarts)
