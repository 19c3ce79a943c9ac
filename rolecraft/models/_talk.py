"""A conversation and its template: how it goes on after the last answer, seen whole or in part."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from rolecraft.messages import Message
from rolecraft.models._continuing import Continuation, continuation
from rolecraft.models._turns import Answer, turns_of
from rolecraft.models.chat_template import ChatTemplate, TemplateRefuses


@dataclass(frozen=True, slots=True, kw_only=True)
class Talk:
    """What renderings of a conversation need. Indices of messages name a part of it."""

    template: ChatTemplate
    ends: Collection[str]
    """Texts of the tokens that end answers."""
    messages: Sequence[Message]
    answers: Mapping[int, Answer]
    began: int = 0
    """Answers from this index on are of the present sequence."""

    def render(self, part: Sequence[int] | None, tools: str, *, opens_answer: bool = True) -> str:
        """The messages as the template writes them, with marks for this sequence's answers."""
        every = range(len(self.messages)) if part is None else part
        turns = turns_of(
            self.messages,
            self.template.plain.mark,
            # One that a program has edited is shown as it stands.
            {
                at: answer
                for at in every
                if (answer := self.answers.get(at)) and answer.is_at(self.messages[at])
            },
            part=part,
            stand_ins_from=self.began,
        )
        return self.template.render(turns, tools, opens_answer=opens_answer)

    def goes_on(
        self, last: Answer, part: Sequence[int], tools: str, before: str = ""
    ) -> tuple[Continuation, str]:
        """How it goes on after `last`, and its rendering. Raises `TemplateRefuses`.

        `before` is the rendering that `last` answered; if empty, it is rendered too.
        """
        text = self.render(part, tools)
        before = before or self.render([at for at in part if at < last.at], tools)
        try:
            until = [at for at in part if at <= last.at]
            closed = self.render(until, tools, opens_answer=False)
        except TemplateRefuses:
            closed = ""
        found = continuation(
            text,
            before=before,
            closed=closed,
            answer=last,
            ends=self.ends,
            special_at=self.template.plain.special_at,
        )
        return found, text
