"""Conversations as a chat template writes them: prompts, and the answers behind them.

Invariant: an answer is what stands behind the prompt that the template itself writes for it. Where
the template does not let it stand there, or leaves out what it says, the sample is refused.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from rolecraft.messages import Message, ToolCall
from rolecraft.models._turns import Answer, Turn, turns_of, written_tools
from rolecraft.models.base import Tool
from rolecraft.models.chat_template import ChatTemplate, TemplateRefuses
from rolecraft.models.reasoning.formats import format_of, starts_in_reasoning
from rolecraft.training.sft.samples import Sample
from rolecraft.training.sft.samples import Turn as Said

_OF_TOOL = ("name", "description", "parameters")
NO_WAY = "the chat template does not write the answer behind the prompt that it writes for it"


class NotEncodable(Exception):
    """A sample cannot be trained on with this tokenizer; its text is the reason, in few words."""


@dataclass(frozen=True, slots=True)
class AnswerText:
    """An answer as it stands behind its prompt."""

    text: str
    """Without the token that ends it."""
    end: str
    """That token, if the template shows which it is."""
    ended: bool
    """Whether the template writes it at the end of the turn."""
    lost_reasoning: bool


def answer(
    talk: Written, at: int, prompt: str, *, closing: Collection[str], ends: Collection[str]
) -> AnswerText:
    """Answer `at` of a conversation, behind `prompt`.

    `closing` are tokens that end a turn where they stand at its end, `ends` those of them that end
    answers. Raises `NotEncodable`.
    """
    whole = talk.render(at + 1)
    said = whole[len(prompt) :] if whole.startswith(prompt) else _otherwise(talk, at, prompt, whole)
    body = said.rstrip()
    end = max((text for text in closing if body.endswith(text)), key=len, default="")
    ended = bool(end)
    if ended:
        said = body[: -len(end)]
    else:
        # The turn ends with the token that opens the next one (GLM), or with nothing at all.
        opened = talk.opens_next(at, whole)
        end = opened if opened in ends else ""
    return AnswerText(said, end, ended, _loses_reasoning(talk, at, said))


def _otherwise(talk: Written, at: int, prompt: str, whole: str) -> str:
    """What stands behind a prompt that opened the answer otherwise than it is written later."""
    turn = talk.sample.turns[at]
    bare = whole
    if turn.reasoning.strip():
        # A prompt that says there is no reasoning is followed by none.
        bare = talk.render(at + 1, without_reasoning=at)
        if bare.startswith(prompt):
            return bare[len(prompt) :]
    # A prompt that opens the reasoning, by a template that leaves it out of what was said
    # (DeepSeek-R1): the model closes it, and then says the rest.
    form = format_of(template=talk.template.source)
    opened = prompt.rstrip()
    if form is not None and starts_in_reasoning(prompt, form):
        mark = next(o.rstrip() for o in form.opens if opened.endswith(o.rstrip()))
        header = opened[: -len(mark)]
        if bare.startswith(header):
            thought = talk.template.plain.mark(turn.reasoning.strip("\n"))
            return (
                f"{thought}\n{min(form.closes, key=len).strip()}\n\n{bare[len(header) :].lstrip()}"
            )
    raise NotEncodable(NO_WAY)


def _loses_reasoning(talk: Written, at: int, written: str) -> bool:
    """Whether the reasoning is not in it. Raises `NotEncodable` where text or calls are not."""
    turn, mark = talk.sample.turns[at], talk.template.plain.mark
    if turn.content.strip() and not _stands_in(mark(turn.content), written):
        raise NotEncodable("the chat template changes the text of an answer")
    if any(mark(call["name"]) not in written for call in turn.tool_calls):
        raise NotEncodable("the chat template leaves calls of tools out")
    return bool(turn.reasoning.strip()) and not _stands_in(mark(turn.reasoning), written)


def _stands_in(text: str, written: str) -> bool:
    text = text.strip()
    return text in written or json.dumps(text, ensure_ascii=False)[1:-1] in written


class Written:
    """A conversation, as a chat template writes it."""

    def __init__(self, template: ChatTemplate, sample: Sample) -> None:
        self.template, self.sample = template, sample
        self._turns = _template_turns(sample.turns, template)
        tools = [
            Tool(**{key: tool[key] for key in _OF_TOOL if key in tool}) for tool in sample.tools
        ]
        self._tools = written_tools(tools, template.plain.mark)

    def render(
        self, count: int, *, opens_answer: bool = False, without_reasoning: int | None = None
    ) -> str:
        """The first `count` turns, one of them without its reasoning. Raises `NotEncodable`."""
        turns = self._turns[:count]
        if without_reasoning is not None:
            turn = turns[without_reasoning]
            more = json.loads(turn.more)
            del more["reasoning_content"]
            packed = json.dumps(more, ensure_ascii=False) if more else ""
            turns[without_reasoning] = turn._replace(more=packed)
        return self._rendered(turns, opens_answer)

    def opens_next(self, at: int, whole: str) -> str:
        """The special token with which the template goes on after answer `at`; empty if none.

        `whole` is the conversation up to the answer. Where nothing follows, something is made up.
        """
        made_up = Turn("user", "next")
        if calls := self.sample.turns[at].tool_calls:
            more = {"tool_call_id": calls[0]["id"], "name": calls[0]["name"]}
            made_up = Turn("tool", "done", json.dumps(more))
        after = self._turns[at + 1 : at + 2] or [made_up]
        try:
            later = self._rendered([*self._turns[: at + 1], *after], opens_answer=False)
        except NotEncodable:
            return ""
        if not later.startswith(whole):
            return ""
        return self.template.plain.special_at(later[len(whole) :].lstrip(), 0)

    def _rendered(self, turns: Sequence[Turn], opens_answer: bool) -> str:
        try:
            return self.template.render(turns, self._tools, opens_answer=opens_answer)
        except TemplateRefuses as error:
            roles = [turn.role for turn in turns]
            raise NotEncodable(f"the chat template refuses it ({_short(error, roles)})") from error


def _short(error: TemplateRefuses, roles: Sequence[str]) -> str:
    reason = str(error).partition(f"{list(roles)!r}: ")[2] or str(error)
    return " ".join(reason.split())[:120]


def _template_turns(turns: Sequence[Said], template: ChatTemplate) -> list[Turn]:
    messages, answers = [], {}
    for at, turn in enumerate(turns):
        metadata: dict[str, Any] | None = None
        if turn.role == "assistant":
            calls = [ToolCall(c["name"], c["arguments"], c["id"]) for c in turn.tool_calls]
            metadata = {"tool_calls": calls} if calls else None
            if turn.reasoning.strip():
                answers[at] = Answer(
                    at=at, text="", reasoning=turn.reasoning, calls=(), end="", written=""
                )
        elif turn.role == "tool":
            metadata = {"tool_call_id": turn.tool_call_id}
        messages.append(Message(turn.content, role=turn.role, metadata=metadata))
    return turns_of(messages, template.plain.mark, answers)
