"""From messages to events: each thing that was said becomes one event, however often it is shown.

Span formats repeat the whole history at every model call. What a role hears is therefore compared
with what it has heard before and with what others have said: only what is new becomes an event.
The count matters: a second "continue" in one history is a second message. What a role says is
always new.

Every part of a message is counted once in `counts`: as an event, as part of the header (a system
prompt), or as repeated.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any

from rolecraft.failure_taxonomy.formats._said import Part, Said, as_text
from rolecraft.failure_taxonomy.formats.lines import PARTS
from rolecraft.messages import ALL, USER
from rolecraft.trajectories.events import Event, EventKind, Usage
from rolecraft.trajectories.trajectory import Trajectory

UNNAMED = "assistant"
"""The role of an agent that its format does not name."""

_Key = tuple[str, ...]


class Telling:
    """Fills a trajectory from messages. `about["roles"]` and `about["task"]` come from them."""

    def __init__(self, trajectory: Trajectory) -> None:
        self.trajectory = trajectory
        self.counts: Counter[str] = Counter()
        self.total: int | None = None
        """How many elements there are, where that is known apart from `counts`."""
        self.roles: dict[str, dict[str, Any]] = {}
        self._calls: dict[str, Event] = {}
        """Calls by id."""
        self._open: list[Event] = []
        """Calls that have no result yet."""
        self._by_text: dict[str, list[Event]] = {}
        self._seen: dict[str, Counter[_Key]] = {}
        self._received: dict[str, set[int]] = {}

    # --- events -------------------------------------------------------------------------------

    def add(self, kind: EventKind, role: str, content: str = "", **fields: Any) -> Event:
        """Add an event; it gets the next number."""
        seq = len(self.trajectory.events)
        event = Event(kind, role=role, content=content, **fields)
        event.seq = event.time = seq
        self.trajectory.events.append(event)
        if content:
            self._by_text.setdefault(_plain(content), []).append(event)
        return event

    def role(self, name: str, **described: Any) -> None:
        """Describe a role; what is known of it already stays."""
        known = self.roles.setdefault(name, {"name": name})
        for key, value in described.items():
            if value and key not in known:
                known[key] = value

    def call(self, role: str, part: Part, cause: int | None = None, **fields: Any) -> Event:
        data: dict[str, Any] = {"tool": part.name, "arguments": part.arguments}
        if part.id:
            data["id"] = part.id
        event = self.add("tool_call", role, data=data, cause=cause, **fields)
        if part.id:
            self._calls[part.id] = event
        self._open.append(event)
        return event

    def result(self, role: str, part: Part, call: Event | None = None, **fields: Any) -> Event:
        """A tool's result, of the call with its id, or the oldest open one of that tool."""
        call = call or self.find_call(part.id, part.name)
        if call is not None:
            self._open = [each for each in self._open if each is not call]
        data: dict[str, Any] = {"tool": part.name or (call.data["tool"] if call else "")}
        call_id = part.id or (call.data.get("id") if call is not None else "")
        if call_id:
            data["id"] = call_id
        if part.ok is not None:
            data["ok"] = part.ok
        by = call.role if call is not None else role
        cause = None if call is None else call.seq
        return self.add("tool_result", by, part.text, data=data, cause=cause, **fields)

    def find_call(self, call_id: str, name: str = "", *, open_only: bool = False) -> Event | None:
        if call_id:
            found = self._calls.get(call_id)
            if found is not None and open_only and not self.is_open(found):
                return None
            return found
        for event in self._open:
            if not name or event.data["tool"] == name:
                return event
        return None

    def is_open(self, call: Event) -> bool:
        return any(each is call for each in self._open)

    # --- messages -----------------------------------------------------------------------------

    def says(
        self, agent: str, said: Said, *, usage: Usage | None = None, kind: EventKind = "message",
        to: tuple[str, ...] = (ALL,), **data: Any,
    ) -> list[Event]:  # fmt: skip
        """Tell a message as it stands; the events. `kind` is that of an assistant's texts."""
        who = self._speaker(agent, said)
        if said.side == "system":
            return self._system(agent, said)
        made: list[Event] = []
        for part in said.parts:
            self.counts["events"] += 1
            cause = next((e.seq for e in made if e.kind in ("message", "model_call")), None)
            if part.kind == "call":
                event = self.call(who, part, cause)
            elif part.kind == "result":
                event = self.result(agent or UNNAMED, part)
            elif part.kind == "thought":
                event = self.add("thought", who, part.text)
            else:
                which: EventKind = kind if said.side == "assistant" else "message"
                sent = said.to or to if which == "message" else ()
                event = self.add(which, who, part.text, to=sent)
            made.append(event)
            if said.side == "user" and part.text and "task" not in self.trajectory.about:
                self.trajectory.about["task"] = part.text
        if made:
            made[0].usage = usage
            made[0].data |= data
        if said.side in ("assistant", "named") and who:
            self.role(who)
        return made

    def hears(self, agent: str, heard: Iterable[Said], *, to: tuple[str, ...] = ()) -> list[Said]:
        """What is new of a history that `agent` is shown. System prompts are taken up here."""
        seen = self._seen.setdefault(agent, Counter())
        received = self._received.setdefault(agent, set())
        shown: Counter[_Key] = Counter()
        fresh: list[Said] = []
        for said in heard:
            if said.side == "system":
                self._system(agent, said)
                continue
            own = said.side == "assistant" and not said.name
            news: list[Part] = []
            for part in said.parts:
                key = (str(own), *_key(part))
                shown[key] += 1
                if shown[key] <= seen[key]:
                    self.counts["repeated"] += 1
                    continue
                seen[key] = shown[key]
                known = self._told(part, received)
                if known is None:
                    news.append(part)
                else:
                    received.add(known.seq)
                    self.counts["repeated"] += 1
            if news:
                fresh.append(Said(said.side, news, said.name, said.to))
        return fresh

    def tells(self, agent: str, heard: Iterable[Said], *, to: tuple[str, ...] = ()) -> None:
        """Tell what is new of a history."""
        for said in self.hears(agent, heard):
            events = self.says(agent, said, to=to or (ALL,))
            self._received.setdefault(agent, set()).update(event.seq for event in events)

    def answers(self, agent: str, said: Said, **how: Any) -> list[Event]:
        """Tell what `agent` says; its later histories may show it again."""
        events = self.says(agent, said, **how)
        seen = self._seen.setdefault(agent, Counter())
        for part in said.parts:
            seen[("True", *_key(part))] += 1
        self._received.setdefault(agent, set()).update(event.seq for event in events)
        return events

    def knows(self, text: str, *, since: int = 0, role: str | None = None) -> bool:
        """True if an event from number `since` on has this text (and role)."""
        return any(
            event.seq >= since and (role is None or event.role == role)
            for event in self._by_text.get(_plain(text), ())
        )

    def finish(self) -> Trajectory:
        """The trajectory, its roles and its account complete."""
        if self.roles:
            self.trajectory.about.setdefault("roles", list(self.roles.values()))
        account = {name: self.counts[name] for name in (*PARTS, "repeated")}
        self.trajectory.about["accounting"] = {
            "unit": "element",
            "total": sum(account.values()) if self.total is None else self.total,
            **account,
        }
        return self.trajectory

    def _told(self, part: Part, received: set[int]) -> Event | None:
        """The event that has told a part already, to somebody else."""
        if part.kind == "call":
            return self._calls.get(part.id) if part.id else None
        if part.kind == "result" and part.id:
            call = self._calls.get(part.id)
            if call is not None:
                return None if self.is_open(call) else call
        for event in self._by_text.get(_plain(part.text), ()):
            fits = event.kind == "tool_result" if part.kind == "result" else True
            if fits and event.seq not in received:
                return event
        return None

    def _system(self, agent: str, said: Said) -> list[Event]:
        """A system prompt describes its role; a later, other one is said by the environment."""
        made: list[Event] = []
        name = agent or UNNAMED
        for part in said.parts:
            known = self.roles.get(name, {}).get("system")
            if known is None:
                self.role(name, system=part.text)
                self.counts["header"] += 1
            elif part.text in known or self.knows(part.text, role="environment"):
                self.counts["repeated"] += 1
            else:
                self.counts["events"] += 1
                made.append(
                    self.add("message", "environment", part.text, to=(name,), data={"as": "system"})
                )
        return made

    @staticmethod
    def _speaker(agent: str, said: Said) -> str:
        match said.side:
            case "user":
                return said.name or USER
            case "named":
                return said.name
            case "tool":
                return agent or UNNAMED
            case _:
                return said.name or agent or UNNAMED


def _plain(text: str) -> str:
    return " ".join(text.split())


def _key(part: Part) -> _Key:
    if part.kind in ("call", "result") and part.id:
        return part.kind, part.id
    if part.kind == "call":
        return part.kind, part.name, as_text(_sorted(part.arguments))
    return part.kind, _plain(part.text)


def _sorted(value: Any) -> Any:
    try:
        return json.loads(json.dumps(value, sort_keys=True, default=str))
    except (ValueError, RecursionError):
        return str(value)
