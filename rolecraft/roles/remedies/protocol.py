"""Message protocols: who may say which typed document, by which kind of work, in answer to what.

    Architect ── WriteDesign: Design ──► in answer to WritePRD; every planned file is named once

A role that keeps a protocol (`KeepsProtocol`) holds what it is about to say against it, before
anybody hears it. What breaks the protocol is recorded as a violation of the role's specification
and, unless the protocol only reports, does not go out: the action is done again and told why, and
after `retries` further attempts the run ends with `ProtocolViolation`.

It answers failures of the kind that MAST calls disobeying the role's specification and talking
past each other: unstructured chat in which everybody says anything to anybody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from pydantic import BaseModel, ValidationError

from rolecraft.actions import Action
from rolecraft.errors import ProtocolViolation, UsageError
from rolecraft.messages import ALL, NOBODY, Message, address_of, addresses_of, as_message
from rolecraft.roles.role import Role
from rolecraft.trajectories.events import Event
from rolecraft.trajectories.trajectory import Trajectory


@dataclass(frozen=True, slots=True, kw_only=True)
class Saying:
    """A message that is about to go out, and what its sender knows."""

    sender: str
    kind: str
    """Address of the action that made it."""
    document: BaseModel | None
    send_to: frozenset[str]
    answers: tuple[str, ...]
    """The kinds of work that the sender took up and now answers."""
    before: Sequence[Message]
    """What the sender remembers, oldest first."""


OnViolation = Literal[
    "block",  # what breaks the protocol does not go out
    "report",  # it goes out, and is recorded as a violation
]
Check = Callable[[Saying], str | None]
"""What is wrong with a message, in words that help its sender; None if nothing is."""


@dataclass(frozen=True, slots=True)
class May:
    """One thing that may be said. `sender` is a role's name, or several.

    `document` is the type that the message must carry (None: no document), `answers` the kinds of
    work that it may answer (empty: any), `send_to` its only possible receivers (empty: any).
    `consistent` sees the document and the messages before it and says what does not fit.
    """

    sender: str | Sequence[str]
    action: type[Action]
    document: type[BaseModel] | None = None
    answers: Sequence[type[Action]] = ()
    send_to: Sequence[str | type[Role]] = ()
    consistent: Callable[[Any, Sequence[Message]], str | None] | None = None

    @property
    def senders(self) -> tuple[str, ...]:
        return (self.sender,) if isinstance(self.sender, str) else tuple(self.sender)

    def __call__(self, said: Saying) -> str | None:
        """What is wrong with a message of this rule's kind and sender."""
        kind = _short(said.kind)
        if not _carries(said.document, self.document):
            got = type(said.document).__name__ if said.document is not None else "no document"
            wanted = self.document.__name__ if self.document is not None else "no document"
            return f"{kind} must carry {wanted}, got {got}"
        if self.answers and not addresses_of(self.answers).intersection(said.answers):
            wanted = " or ".join(_short(address_of(action)) for action in self.answers)
            got = ", ".join(dict.fromkeys(map(_short, said.answers))) or "nothing"
            return f"{kind} answers {wanted}, and this answers {got}"
        if self.send_to and not said.send_to <= addresses_of(self.send_to):
            wanted = _receivers(addresses_of(self.send_to))
            return f"{kind} goes to {wanted}, and this goes to {_receivers(said.send_to)}"
        if self.consistent is not None:
            return self.consistent(said.document, said.before)
        return None


@dataclass(frozen=True, slots=True)
class Violation:
    """A message of a record that breaks the protocol. `event` is its sequence number."""

    event: int
    role: str
    problem: str


class MessageProtocol:
    """What roles may say, and `checks` that look at every message (`closing` has one).

    With `on_violation="block"` (the default) a message that breaks it does not go out, and its
    action is done again, at most `retries` times; with `"report"` it goes out. Messages of the
    user are not looked at. Raises `UsageError` for another `on_violation` and for `retries` < 0.
    """

    def __init__(
        self,
        rules: Iterable[May],
        *,
        checks: Iterable[Check] = (),
        on_violation: OnViolation = "block",
        retries: int = 1,
    ) -> None:
        if on_violation not in get_args(OnViolation) or retries < 0:
            raise UsageError(
                f"`MessageProtocol(on_violation={on_violation!r}, retries={retries!r})`: "
                f"`on_violation` is one of {list(get_args(OnViolation))}, `retries` 0 or more."
            )
        self.rules = tuple(rules)
        self.checks = tuple(checks)
        self.on_violation = on_violation
        self.retries = retries
        self._by_kind: dict[str, list[May]] = {}
        for rule in self.rules:
            self._by_kind.setdefault(address_of(rule.action), []).append(rule)

    def problem(self, said: Saying) -> str | None:
        """What is wrong with a message, by the first check that finds something; None if nothing.

        A kind that several rules name for one sender must fit one of them.
        """
        rules = self._by_kind.get(said.kind, ())
        if not rules:
            return f"the protocol has no {_short(said.kind)}; nobody may send it"
        mine = [rule for rule in rules if said.sender in rule.senders]
        if not mine:
            who = ", ".join(name for rule in rules for name in rule.senders)
            return f"{_short(said.kind)} is for {who}, not for {said.sender}"
        problems = [rule(said) for rule in mine]
        if all(problems):
            return problems[0]
        return next((wrong for check in self.checks if (wrong := check(said))), None)

    def violations(self, trajectory: Trajectory) -> list[Violation]:
        """The messages of a record that break the protocol, also of roles that do not keep it."""
        events = {event.seq: event for event in trajectory.events}
        earlier: list[tuple[Event, Message]] = []
        found: list[Violation] = []
        for event in trajectory.of("message"):
            message = self._message(event)
            answered = _answered(event, events)
            if answered is not None:
                # Heard is what came before this round, what is answered, and one's own.
                before = [
                    said
                    for at, said in earlier
                    if at.time < event.time or at.seq <= answered.seq or at.role == event.role
                ]
                said = Saying(
                    sender=event.role,
                    kind=message.cause_by,
                    document=message.instruct_content,
                    send_to=frozenset(event.to),
                    answers=(str(answered.data.get("cause_by", "")),),
                    before=before,
                )
                wrong = self.problem(said)
                if wrong:
                    found.append(Violation(event.seq, event.role, wrong))
            earlier.append((event, message))
        return found

    def _message(self, event: Event) -> Message:
        """The message of an event, its document as the type that the protocol has for it."""
        kind = str(event.data.get("cause_by", ""))
        document = None
        for rule in self._by_kind.get(kind, ()):
            if rule.document is None:
                continue
            try:
                document = rule.document.model_validate(event.data.get("instruct_content"))
            except ValidationError:
                continue
            break
        return Message(
            event.content,
            role=event.role,
            cause_by=kind,
            sent_from=event.role,
            send_to=event.to,
            instruct_content=document,
        )


class KeepsProtocol(Role):
    """A role that says nothing that its `protocol` forbids. Without one it is as any other."""

    protocol: MessageProtocol | None = None

    async def _act(self) -> Message | None:
        protocol = self.protocol
        if protocol is None:
            return await super()._act()
        wrong = ""
        for _ in range(protocol.retries + 1):
            message = await super()._act()
            if message is None:
                return None
            wrong = self._blocked(message)
            if not wrong:
                return message
            self.rc.memory.add(complaint(wrong))
        raise ProtocolViolation(self.name, wrong)

    def publish_message(self, message: str | Message) -> Message:
        """As of every role. Raises `ProtocolViolation`: what is said now cannot be done again."""
        message = as_message(message)
        if wrong := self._blocked(message):
            raise ProtocolViolation(self.name, wrong)
        return super().publish_message(message)

    def _blocked(self, message: Message) -> str:
        """Why a message may not go out; empty if it may. What is wrong is recorded."""
        protocol = self.protocol
        wrong = protocol.problem(self._saying(message)) if protocol is not None else None
        if protocol is None or not wrong:
            return ""
        blocks = protocol.on_violation == "block"
        self._violated(wrong, blocks)
        return wrong if blocks else ""

    def _saying(self, message: Message) -> Saying:
        message.route()
        last = self.rc.last_action
        return Saying(
            sender=self.name,
            kind=message.cause_by or (last.address if last is not None else ""),
            document=message.instruct_content,
            send_to=message.send_to,
            answers=tuple(news.cause_by for news in self.rc.news),
            before=self.rc.history,
        )

    def _violated(self, wrong: str, blocked: bool) -> None:
        """Record it the way that the failure taxonomy finds broken constraints."""
        data = {
            "target": "protocol",
            "passed": False,
            "constraint": "protocol",
            "mode": "role_spec",
            "role": self.name,
            "blocked": blocked,
        }
        self._record(Event("verify", content=wrong, data=data))


COMPLAINT = "rolecraft.roles.remedies.MessageProtocol"
"""`cause_by` of what a sender is told about a message of its own that did not go out."""


def complaint(wrong: str) -> Message:
    text = f"That could not be sent: {wrong}. Do it again so that it can."
    return Message(text, cause_by=COMPLAINT, sent_from="protocol")


def complaints(history: Sequence[Message]) -> list[str]:
    """What a role has just been told about a message that did not go out; for its next prompt."""
    texts: list[str] = []
    for index in range(len(history) - 1, -1, -1):
        if history[index].cause_by != COMPLAINT:
            break
        texts.insert(0, history[index].content)
    return texts


def _answered(event: Event, events: dict[int, Event]) -> Event | None:
    """The message of somebody else that led to this one; None for one that nothing led to."""
    cause = event.cause
    while cause is not None:
        earlier = events.get(cause)
        if earlier is None:
            return None
        if earlier.kind == "message" and earlier.role != event.role:
            return earlier
        cause = earlier.cause
    return None


def _carries(document: BaseModel | None, wanted: type[BaseModel] | None) -> bool:
    return document is None if wanted is None else isinstance(document, wanted)


def _receivers(addresses: frozenset[str]) -> str:
    words = {ALL: "everyone", NOBODY: "nobody"}
    return ", ".join(words.get(address, address) for address in sorted(addresses))


def _short(address: str) -> str:
    return address.rpartition(".")[2] or "a message of no kind"
