"""What a role remembers: messages in order, found by the action that caused them.

Adding and looking at the latest costs the same at the first message and at the hundred-thousandth.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

from rolecraft.messages import Message, addresses_of


class History(Sequence[Message]):
    """A read-only view of the messages so far, oldest first. Taking one copies nothing."""

    __slots__ = ("_messages", "_stop")

    def __init__(self, messages: list[Message]) -> None:
        # The memory only appends to this list (deleting makes a new one), so the view is stable.
        self._messages = messages
        self._stop = len(messages)

    def __len__(self) -> int:
        return self._stop

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | list[Message]:
        if isinstance(index, slice):
            return [self._messages[at] for at in range(*index.indices(self._stop))]
        at = index + self._stop if index < 0 else index
        if not 0 <= at < self._stop:
            raise IndexError(f"The history has {self._stop} messages, no number {index}.")
        return self._messages[at]

    def __iter__(self) -> Iterator[Message]:
        messages = self._messages
        return (messages[at] for at in range(self._stop))

    def __repr__(self) -> str:
        return f"History({list(self)!r})"


@dataclass(slots=True, eq=False, init=False)
class Memory:
    """A role's messages, each once (by `id`)."""

    _messages: list[Message]
    _ids: set[str]
    _by_cause: dict[str, list[Message]]
    _indexed: int
    """How many of the messages are in `_by_cause`."""

    def __init__(self) -> None:
        self.clear()

    def add(self, message: Message) -> None:
        """Remember one message; one that is known, by `id` or as the latest, is not added again."""
        if message.id:
            if message.id in self._ids:
                return
            self._ids.add(message.id)
        # A role's own `_act` may remember its message before the role does, with its id.
        if not self._messages or self._messages[-1] is not message:
            self._messages.append(message)

    def add_batch(self, messages: Iterable[Message]) -> None:
        for message in messages:
            self.add(message)

    @property
    def history(self) -> History:
        return History(self._messages)

    def get(self, k: int = 0) -> list[Message]:
        """The latest `k` messages, oldest first; all with `k=0`."""
        return self._messages[-k:] if k else list(self._messages)

    def get_by_actions(self, actions: Any) -> list[Message]:
        """The messages caused by any of these actions (classes, objects or addresses), in order."""
        causes = addresses_of(actions)
        if len(causes) != 1:
            return [message for message in self._messages if message.cause_by in causes]
        for message in self._messages[self._indexed :]:
            self._by_cause.setdefault(message.cause_by, []).append(message)
        self._indexed = len(self._messages)
        return list(self._by_cause.get(next(iter(causes)), ()))

    def get_by_action(self, action: Any) -> list[Message]:
        return self.get_by_actions([action])

    def get_by_role(self, role: str) -> list[Message]:
        """The messages whose label `role` is this."""
        return [message for message in self._messages if message.role == role]

    def try_remember(self, keyword: str) -> list[Message]:
        """The messages that contain `keyword`."""
        return [message for message in self._messages if keyword in message.content]

    def delete(self, message: Message) -> None:
        """Forget one message; unknown ones are ignored. Costs as much as the memory is long."""
        left = [kept for kept in self._messages if kept is not message]
        if len(left) < len(self._messages):
            self.clear()
            self.add_batch(left)

    def clear(self) -> None:
        """Forget everything. Histories taken before keep what they show."""
        self._messages, self._ids, self._by_cause, self._indexed = [], set(), {}, 0

    def count(self) -> int:
        return len(self._messages)

    def __len__(self) -> int:
        return len(self._messages)

    def __contains__(self, message: Message) -> bool:
        return message.id in self._ids if message.id else message in self._messages
