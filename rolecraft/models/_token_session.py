"""A conversation as one exact, append-only sequence of tokens.

Invariant: the sequence is what the model saw and sampled, token for token; nothing in it is ever
tokenised again. What a call adds is rendered with the chat template, and only what is new is
tokenised. Where a template rewrites what it rendered before (Qwen3 drops earlier reasoning, for
example), the old sequence cannot be continued truthfully: a new one starts, under a new id, and the
first span of the new one says why. With `on_rewrite="keep"` the old one goes on all the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from rolecraft._log import log
from rolecraft.errors import NotRestorable, UsageError
from rolecraft.models._continuing import Continuation
from rolecraft.models._locality import looked_for
from rolecraft.models._outline import HEAD, Outline
from rolecraft.models._talk import Talk
from rolecraft.models._trial import alike, verdict
from rolecraft.models._turns import Answer, turns_of, written_tools
from rolecraft.models.base import Completion, Session, Tool
from rolecraft.models.chat_template import TemplateRefuses
from rolecraft.models.hashing import hash64

if TYPE_CHECKING:
    from rolecraft.models.token_model import TokenModel

MOST_IN_LOOP = 10_000
"""So many new characters are tokenised in the event loop: it takes some milliseconds."""


@dataclass(slots=True, kw_only=True)
class Extension:
    """What a call adds to a session's sequence."""

    given: list[int]
    rendered: str
    """The conversation, with marks for the answers of this sequence."""
    in_part: tuple[int, str] | None = None
    """Where only a part of it was: the index of the answer that was gone on from, and how."""
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
        self._outline: Outline | None = None
        self._unchecked: list[tuple[int, int, str]] = []
        """What was added between two answers on the word of a part, since all was rendered."""
        self._offered: tuple[tuple[Tool, ...], str] = ((), "")
        """The tools offered last, and how they are written."""

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
        span = given.tokens
        if span is None:
            raise NotRestorable(
                f"The recorded answer of {self.given_by!r} in conversation {self.id!r} has no "
                f"tokens, and {self.model.name!r} counts them: it cannot go on with it. Use the "
                f"same kind of model, or fork before this conversation begins."
            )
        begins = span.start == 0
        restarts = self.restarts + (begins and bool(self.tokens))
        start = 0 if begins else len(self.tokens)
        if (span.session, span.start) != (self.named(restarts), start):
            raise NotRestorable(
                f"The record of conversation {self.named(0)!r} has gaps: its next answer begins at "
                f"token {span.start} of sequence {span.session!r}, and what comes before has "
                f"{len(self.tokens)} tokens of {self.sequence_id!r}. Use the whole record, or fork "
                f"before this conversation begins."
            )
        if begins:
            self.tokens = []
            self._began = len(self.messages)
        self.restarts = restarts
        self.tokens.extend(span.given)
        self.tokens.extend(span.sampled)
        super()._restore(given)
        self._remember(given)
        self._behind = True

    def _catch_up(self) -> None:
        """Render what came from a record, once something must be added to it."""
        if self._behind:
            self._behind = False
            last = next(reversed(self._answers))
            self._tools = self._written(self.offered)
            self._rendered = self._talk().render(range(last), self._tools)

    def extend(self, tools: Sequence[Tool] = ()) -> Extension:
        """What the messages add to the sequence.

        Changes nothing: a call that fails leaves the sequence as it was; `commit` moves it on.
        Raises `UsageError` if the template refuses the messages, or rewrites earlier ones and
        `on_rewrite` is `"error"`.
        """
        self._catch_up()
        template = self.model.template
        offered = self._written(tools)
        if not self.tokens:
            text = self._talk().render(None, offered)
            return Extension(given=template.encode(text), rendered=text, tools=offered)
        found, text, in_part = self._continuation(offered)
        if not found.rewrite or (self.model.on_rewrite == "keep" and found.rest is not None):
            return Extension(
                given=template.encode(found.rest or ""),
                rendered=text,
                in_part=in_part,
                tools=offered,
                rewrite=found.rewrite,
            )
        if self.model.on_rewrite == "error":
            raise UsageError(
                f"The chat template of `{self.model.name}` does not continue the conversation of "
                f"role {self.role!r} token for token: {found.rewrite}. Use `on_rewrite='fork'` for "
                f"a new sequence at each such turn, or 'keep' to go on with the old one."
            )
        text = self._anew(offered)
        return Extension(
            given=template.encode(text),
            rendered=text,
            tools=offered,
            restarts=True,
            rewrite=found.rewrite,
        )

    async def extended(self, tools: Sequence[Tool] = ()) -> Extension:
        """What `extend` says, without keeping the event loop where there is much to tokenise."""
        last = next(reversed(self._answers), -1)
        new = sum(len(message.content) for message in self.messages[last + 1 :])
        if new <= MOST_IN_LOOP:
            return self.extend(tools)
        return await asyncio.to_thread(self.extend, tools)

    def commit(self, extension: Extension, completion: Completion) -> None:
        """Append one call's tokens."""
        if extension.restarts:
            self.restarts += 1
        if extension.rewrite:
            self._answers = self._known()
        if extension.restarts or not self.tokens:
            self.tokens = []
            self._began = len(self.messages)
        span = completion.tokens
        assert span is not None
        self.tokens.extend(extension.given)
        self.tokens.extend(span.sampled)
        self._rendered = "" if extension.in_part else extension.rendered
        if extension.in_part is None:
            self._unchecked = []
        else:
            last, rest = extension.in_part
            self._unchecked.append((last, len(self.messages), rest))
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
            calls=deepcopy(completion.tool_calls),
            end=end,
            written=written,
        )

    def _written(self, tools: Sequence[Tool]) -> str:
        known, text = self._offered
        if len(known) != len(tools) or any(a is not b for a, b in zip(known, tools, strict=True)):
            text = written_tools(tools, self.model.template.plain.mark)
            self._offered = (tuple(tools), text)
        return text

    def _continuation(self, offered: str) -> tuple[Continuation, str, tuple[int, str] | None]:
        """How the conversation goes on after the last answer, a rendering, and `in_part` of it.

        Where the template allows, only a part of the conversation is rendered. Now and then all of
        it is, to see whether that says the same, and has said so since it was asked last.
        """
        last = self._last_answer()
        if last is None:
            return Continuation(rest=None, rewrite=self._why_gone()), "", None
        if not all(map(self._is_here, self._answers.values())):
            # The program has, and `before` would still have the mark of what it was.
            whole, text = self._found_in_all(last, offered, "")
            whole.rewrite = "an answer edited"
            return whole, text, None
        part, due = self._part(last) if offered == self._tools else (None, True)
        found = None
        if part is not None:
            with suppress(TemplateRefuses):  # it wants all of them
                found, text = self._talk().goes_on(last, part, offered)
        # A new sequence needs all of it anyway.
        on = found is not None and (not found.rewrite or self.model.on_rewrite == "keep")
        if found is not None and found.rest is not None and on and not due:
            return found, text, (last.at, found.rest)
        before = self._rendered or self._talk().render(range(last.at), self._tools)
        whole, text = self._found_in_all(last, offered, before)
        added = self._was_added(before)
        if not added or (found is not None and not alike(found, whole)):
            self._render_whole_from_now_on()
        if not added:
            whole.rewrite = "a long conversation written otherwise than a short one"
        return whole, text, None

    def _found_in_all(self, last: Answer, offered: str, before: str) -> tuple[Continuation, str]:
        talk = self._talk()
        every = range(len(self.messages))
        try:
            found, text = talk.goes_on(last, every, offered, before)
        except TemplateRefuses:
            if last.plain or not last.calls:
                raise
            last.plain, last.parts = True, []  # say: a template that takes one call at a time
            found, text = talk.goes_on(last, every, offered, before)
        if found.rewrite and offered != self._tools:
            found.rewrite = "other tools offered"
        return found, text

    def _part(self, last: Answer) -> tuple[Sequence[int] | None, bool]:
        """Messages whose rendering tells how all go on; None: all. And whether to ask all as well.

        That is at answers and questions 1, 2, 4, 8, ...: in the end, about twice the work of
        rendering all of them once.
        """
        template, count = self.model.template, len(self.messages)
        due = _is_power_of_two(len(self._answers))
        if template.whole:
            return None, due
        if template.local:  # the first messages, and all from before the answer before the last
            first = self._previous - 1
            if self._previous < self._began or first <= 2 * HEAD:
                return None, due
            return [*range(HEAD), *range(first, count)], due
        if self._outline is None:
            self._outline = Outline(looked_for(template.source))
        self._outline.follow(self.messages, last.at + 1, self._answers)
        part = self._outline.part(count)
        if part is None:
            return None, due
        shown = verdict(template, self.model.end_texts)
        new = self.messages[last.at + 1 :]
        asked = sum(message.api_role != "tool" for message in new)
        if not (shown.after_questions if asked else shown.after_results):
            return None, due
        return part, due or bool(asked and _is_power_of_two(len(self._outline.questions) + asked))

    def _was_added(self, before: str) -> bool:
        """Whether what was added is what the template adds: `before` is what the last answer read.

        All of it, rendered whole. Any earlier turn that changes now was still as it had been.
        """
        if self.model.on_rewrite == "keep":
            return True  # the sequence has what the template would have written at the time
        at = 0
        for last, then, rest in self._unchecked:
            at = max(before.find(part, at) for part in self._answers[last].parts)
            begins = [before.find(part, at) for part in self._answers[then].parts]
            to = min(begins, default=-1) if then < self._unchecked[-1][1] else len(before)
            if at < 0 or to < 0 or rest not in before[at:to]:
                return False
        return True

    def _render_whole_from_now_on(self) -> None:
        template = self.model.template
        if not template.whole:
            template.whole = True
            log.warning(
                f"The chat template of `{self.model.name}` writes a long conversation otherwise "
                f"than its outline (role {self.role!r}), so each turn renders all of it from now "
                f"on. That costs time, nothing else. This is said once."
            )

    def _talk(self) -> Talk:
        return Talk(
            template=self.model.template,
            ends=self.model.end_texts,
            messages=self.messages,
            answers=self._answers,
            began=self._began,
        )

    def _anew(self, tools: str) -> str:
        """The conversation with every answer as it reads, for a new sequence."""
        template = self.model.template
        return template.render(turns_of(self.messages, template.plain.mark, self._known()), tools)

    def _known(self) -> dict[int, Answer]:
        """The answers whose messages are still where they were."""
        return {at: answer for at, answer in self._answers.items() if self._is_here(answer)}

    def _is_here(self, answer: Answer) -> bool:
        """Whether its message is still where it was, and says what was sampled."""
        return answer.at < len(self.messages) and answer.is_at(self.messages[answer.at])

    def _last_answer(self) -> Answer | None:
        """The last answer of the sequence; None if its message is not where and as it was."""
        last = next(reversed(self._answers.values()))
        return last if self._is_here(last) else None

    def _why_gone(self) -> str:
        """Why the last answer is no longer where it was."""
        at = next(reversed(self._answers))
        here = self.messages[at] if at < len(self.messages) else None
        moved = any(here is answer.message for answer in self._answers.values() if answer.at != at)
        edited = here is not None and here.role == "assistant" and not moved
        return "an answer edited" if edited else "messages removed"


def _is_power_of_two(number: int) -> bool:
    return not number & (number - 1)


@lru_cache(1024)
def _stream(model_seed: int, role: str, restarts: int) -> int:
    return hash64(model_seed, role, restarts)
