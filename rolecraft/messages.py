"""Messages and addresses: what roles say to each other, and to whom.

An address is a string. Everything that can be addressed has one: a role its name and its class
path, an action class its dotted path. `cause_by` says which kind of work produced a message, and
roles that watch that kind of work take it up; `send_to` says who gets it, everyone by default.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rolecraft.errors import UsageError, forgotten_await

if TYPE_CHECKING:
    from pydantic import BaseModel

ALL = "<all>"
"""`send_to` of a message for everyone."""
NOBODY = "<none>"
"""`send_to` of a message that is recorded and delivered to nobody."""
SELF = "<self>"
"""`send_to` of a message from a role to itself."""
USER = "user"
"""The person, or the program, outside the environment."""
USER_REQUIREMENT = "rolecraft.actions.UserRequirement"
"""`cause_by` of a message that a user put in. Roles watch it unless they say otherwise."""
FINISH = "rolecraft.actions.Finish"
"""`cause_by` of a message that ends the run, if its sender may."""

MESSAGE_TO_ALL = frozenset({ALL})

_API_ROLES = frozenset({"system", "user", "assistant", "tool"})


def address_of(thing: object) -> str:
    """The address of a string, a class, or an object with an `address` (a role, an action)."""
    if isinstance(thing, str):
        return thing
    if isinstance(thing, type):
        # A class may state its address, so that moving its module changes nothing in old runs.
        return thing.__dict__.get("ADDRESS") or f"{thing.__module__}.{thing.__qualname__}"
    address = getattr(thing, "address", None)
    if isinstance(address, str):
        return address
    return address_of(type(thing))


def addresses_of(things: object) -> frozenset[str]:
    """The addresses of one thing or of several in a list, tuple or set."""
    if isinstance(things, (str, type)) or not isinstance(things, Iterable):
        return frozenset((address_of(things),))
    return frozenset(map(address_of, things))


@dataclass(slots=True)
class ToolCall:
    """One call of a tool that a model asked for.

    `arguments` are the parsed JSON arguments. `incomplete` marks a call whose text was cut off or
    is no JSON object; such a call is never executed, and `raw` keeps its text. `repairs` names what
    was mended in a call that is not quite what its format demands, such as `trailing comma`.
    """

    name: str
    arguments: dict[str, Any]
    id: str = ""
    incomplete: bool = False
    raw: str = ""
    repairs: tuple[str, ...] = ()


@dataclass(slots=True)
class Message:
    """One message between roles, or between a role and a model.

    `role` is the speaker's label: `user`, `assistant`, `system`, `tool`, or any name; a model's
    session sends a label that chat APIs do not know as `user`. Classes and objects given for
    `cause_by`, `sent_from` and `send_to` become addresses. `id` and `event` (the sequence number
    of the event that recorded the message) are set when the message is recorded.
    """

    content: str
    role: str = "user"
    cause_by: Any = ""
    sent_from: Any = ""
    send_to: Any = MESSAGE_TO_ALL
    instruct_content: BaseModel | None = None
    metadata: dict[str, Any] | None = None
    id: str = ""
    event: int | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.content, str):
            raise UsageError(
                f"`Message(content=...)` wants a str, got {self.content!r}."
                + (
                    forgotten_await(self.content)
                    or " Use str(...), or put structured data in `instruct_content`."
                )
            )
        self.route()

    def route(self) -> None:
        """Turn classes and objects in the routing fields into addresses (also after assignment)."""
        if type(self.cause_by) is not str:
            self.cause_by = "" if self.cause_by is None else address_of(self.cause_by)
        if type(self.sent_from) is not str:
            self.sent_from = "" if self.sent_from is None else address_of(self.sent_from)
        if self.send_to is not MESSAGE_TO_ALL:
            self.send_to = MESSAGE_TO_ALL if self.send_to is None else addresses_of(self.send_to)

    def __str__(self) -> str:
        return f"{self.role}: {self.content}"

    @property
    def api_role(self) -> str:
        """The role under which a chat API accepts this message."""
        return self.role if self.role in _API_ROLES else "user"


def anew(message: Message) -> Message:
    """The same message, as one that was not recorded yet."""
    # Not `dataclasses.replace`, which takes five times as long: every run begins with this.
    return Message(
        message.content,
        message.role,
        message.cause_by,
        message.sent_from,
        message.send_to,
        message.instruct_content,
        message.metadata,
    )


def as_message(thing: str | Message) -> Message:
    """A message as it is; a string as the user's message."""
    if isinstance(thing, Message):
        return thing
    if isinstance(thing, str):
        return Message(thing)
    raise UsageError(f"Expected a str or a `Message`, got {thing!r}.{forgotten_await(thing)}")
