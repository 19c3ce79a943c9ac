"""A few messages of a long conversation that stand for all of them.

Invariant: whatever the conversation's length, the outline is about as long. Kept are the beginning,
the last two questions with the first and last steps after each, the last step of each kind wherever
it is, and all that follows the last answer. A step is a message and the results of its calls. Each
kept step stands behind its question, and before the step that ended its turn, so that what a
template asks ("before the last question?", "the last one?", "does the asker alternate?") has the
same answer as in the whole.

Whether a template may be shown the outline instead of the whole is another matter: `_trial`.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rolecraft.messages import Message
from rolecraft.models._turns import Answer

HEAD = 3
"""Messages at the beginning that a template may look at from anywhere."""
_SAVES = 8
"""Fewer messages than these are not worth leaving out."""


class Kind(NamedTuple):
    """What templates distinguish messages by."""

    role: str
    thinks: bool = False
    says: bool = False
    calls: int = 0
    """0, 1, or 2 for more."""
    tells: tuple[str, ...] = ()
    """Which of the texts that the template looks for are in it."""


class Outline:
    """Follows one conversation. `looked_for` are texts that the template looks for in messages."""

    def __init__(self, looked_for: Sequence[str] = ()) -> None:
        self._looked_for = re.compile("|".join(map(re.escape, looked_for)) or "(?!)")
        self._begin()

    def _begin(self) -> None:
        self._read = 0
        self._steps: list[int] = []
        """Index of the first message of each step."""
        self.questions: list[int] = []
        """Numbers of the steps that are questions."""
        self._latest: dict[Kind, int] = {}
        """The last step of each kind."""
        self._recent: list[dict[Kind, int]] = [{}, {}]
        """The same, of the turn before the last and of the last one."""

    def follow(self, messages: Sequence[Message], upto: int, answers: Mapping[int, Answer]) -> None:
        """Take in the messages before index `upto` that are new."""
        if upto < self._read:
            self._begin()
        for at in range(self._read, upto):
            message = messages[at]
            if message.api_role == "tool" and self._steps:
                continue
            step = len(self._steps)
            self._steps.append(at)
            if message.api_role == "user":
                self.questions.append(step)
                self._recent = [self._recent[1], {}]
            kind = self._kind(message, answers.get(at))
            self._latest[kind] = self._recent[1][kind] = step
        self._read = upto

    def part(self, count: int) -> list[int] | None:
        """Indices of the messages to show, of `count` in all; None if that is nearly all."""
        total = len(self._steps)
        shown = {step for step in range(min(total, HEAD)) if self._steps[step] < HEAD}
        for number in (len(self.questions) - 1, len(self.questions) - 2):
            if number >= 0:
                first, end = self.questions[number], self._end(number)
                shown.update(range(first, min(first + 3, end)), range(max(first, end - 2), end))
        kinds = {*self._latest.values(), *self._recent[0].values(), *self._recent[1].values()}
        for step in kinds | shown:
            number = bisect_right(self.questions, step) - 1
            shown.add(step)
            if number >= 0:
                shown.update((self.questions[number], self._end(number) - 1))
        part: list[int] = []
        for step in sorted(shown):
            until = self._steps[step + 1] if step + 1 < total else self._read
            part.extend(range(self._steps[step], until))
        part.extend(range(self._read, count))
        return part if count - len(part) >= _SAVES else None

    def _end(self, number: int) -> int:
        """The step behind the last one of a turn."""
        later = number + 1
        return self.questions[later] if later < len(self.questions) else len(self._steps)

    def _kind(self, message: Message, answer: Answer | None) -> Kind:
        calls: Sequence[Any] = (message.metadata or {}).get("tool_calls") or ()
        if answer is None:
            tells = tuple(sorted(set(self._looked_for.findall(message.content))))
            return Kind(message.api_role, False, bool(message.content), min(2, len(calls)), tells)
        says, thinks = bool(answer.text.strip()), bool(answer.reasoning.strip())
        return Kind(message.api_role, thinks, says, min(2, len(calls)))
