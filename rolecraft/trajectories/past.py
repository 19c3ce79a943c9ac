"""What a past run can answer again, so that nobody has to be asked or done twice.

Model calls are found by their conversation and what was asked in it, runs of actions by their
role and path. Invariant: each answer is given once, and only for the same question.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol

from rolecraft.errors import Diverged, LimitReached
from rolecraft.trajectories.codec import encode_event, encode_key, encode_line
from rolecraft.trajectories.events import Event, Usage
from rolecraft.trajectories.nesting import is_failure
from rolecraft.trajectories.runs import ActionRun, Placed, action_runs, places


class RecordedCall(NamedTuple):
    """One completion as recorded, and the reasoning that came with it."""

    event: Event
    reasoning: str
    before: tuple[Event, ...] = ()
    after: tuple[Event, ...] = ()
    """Limits that were crossed before and after it, and what was decided."""
    pending: bool = False
    """It was given in a round that was cut off."""


class Spends(Protocol):
    """A budget, which stands a floor higher."""

    def count(self, usage: Usage) -> None: ...


class PastRun:
    """The record that a run follows.

    `known` are committed events, which the run must produce again one by one. `pending` are those
    of a round that was cut off, in one list for each attempt. With `strict`, nothing may be asked
    or done that the record does not answer.
    """

    def __init__(
        self,
        known: Sequence[Event],
        pending: Sequence[Sequence[Placed]] = (),
        *,
        strict: bool = False,
    ) -> None:
        self.known = known
        self.strict = strict
        self.budget: Spends | None = None
        """Bears what the round that was cut off has cost, until its answers are given again."""
        self._said: dict[tuple[str, int], deque[Event]] = {}
        self.until = 0
        """The last round of which something is known that is not committed."""
        self._runs: dict[tuple[str, str], ActionRun] = {}
        self._calls: dict[str, deque[RecordedCall]] = {}
        self._failures: dict[str, deque[Event]] = {}
        self._refusals: dict[str, deque[Event]] = {}
        self._granted: dict[str, list[Event]] = {}
        committed = list(places(known))
        self._runs.update(action_runs(committed))
        for key, calls in _calls(committed).items():
            self._calls[key] = deque(calls)
        self._granted.update(_granted(committed))
        for event in known:
            if is_failure(event):
                self._failures.setdefault(event.role, deque()).append(event)
            if event.kind == "limit" and _ended_call(event):
                self._refusals.setdefault(event.data["session"], deque()).append(event)
        self._add_pending(pending)

    def _add_pending(self, pending: Sequence[Sequence[Placed]]) -> None:
        # Of each round that was tried more than once, what is known best.
        best: dict[int, dict[str, list[RecordedCall]]] = {}
        for attempt in pending:
            for key, run in action_runs(attempt).items():
                other = self._runs.get(key)
                if other is None or (_progress(run) > _progress(other)):
                    self._runs[key] = run
            self._granted.update(_granted(attempt))
            for time in {placed.event.time for placed in attempt}:
                of_round = [placed for placed in attempt if placed.event.time == time]
                calls = best.setdefault(time, {})
                for name, found in _calls(of_round).items():
                    calls[name] = max(calls.get(name, []), found, key=len)
                self._add_said(time, of_round)
        for _, calls in sorted(best.items()):
            for name, found in calls.items():
                unbilled = [call._replace(pending=True) for call in found]
                self._calls.setdefault(name, deque()).extend(unbilled)
        self.until = max(best, default=0)

    def _add_said(self, time: int, attempt: Sequence[Placed]) -> None:
        said: dict[str, deque[Event]] = {}
        for event, role, path in attempt:
            if not path and event.kind in ("message", "action_swap"):
                said.setdefault(role, deque()).append(event)
        for role, events in said.items():
            known = self._said.get((role, time), deque())
            self._said[role, time] = max(known, events, key=len)

    def bill(self, budget: Spends) -> None:
        """Let `budget` bear what the round that was cut off has cost.

        Its answers are given one by one while others may ask anew: what was spent stays spent.
        """
        self.budget = budget
        for calls in self._calls.values():
            for call in calls:
                if call.pending and call.event.usage is not None:
                    budget.count(call.event.usage)

    def _give(self, calls: deque[RecordedCall]) -> RecordedCall:
        call = calls.popleft()
        usage = call.event.usage
        if call.pending and self.budget is not None and usage is not None:
            self.budget.count(_minus(usage))  # whoever is given it counts it
        return call

    def expects(self, role: str, event: Event, seq: int) -> None:
        """Raise `Diverged` if role code said otherwise in the round that was cut off."""
        left = self._said.get((role, event.time))
        if not left or event.kind not in ("message", "action_swap"):
            return
        then = left.popleft()
        if (then.kind, then.content) != (event.kind, event.content) or (
            then.data != event.data and encode_line(then.data) != encode_line(event.data)
        ):
            raise Diverged(seq, _line(then), _line(event))

    def run(self, role: str, start: Event, *, seq: int) -> ActionRun | None:
        """The recorded run of an action that starts so; None if there is none.

        What runs within an action may be another one than it was, when that is run again. Raises
        `Diverged`, at event `seq`, if nothing may be done and the record does not tell its end.
        """
        found = self._runs.get((role, start.data["run"]))
        like = found is not None and _starts_like(found.start, start)
        if self.strict and not (found and like and (found.complete or found.waits)):
            recorded = _line(found.start) if found is not None else "no such action"
            raise Diverged(seq, recorded, _line(start))
        if found is not None and not like and "." not in found.path:
            raise Diverged(seq, _line(found.start), _line(start))
        if found is not None and found.complete and not like:
            return None
        return found

    def answer(self, question: dict[str, Any]) -> RecordedCall | None:
        """The recorded answer to a model call with this `data`; each is given once."""
        found = self._calls.get(_question(question))
        return self._give(found) if found else None

    def take(self, run: ActionRun) -> None:
        """A run is served as a whole: its answers and failures are not given a second time."""
        for call in _calls([Placed(event, "", "") for event in run.inside]).items():
            for _ in call[1]:
                found = self._calls.get(call[0])
                if found:
                    self._give(found)
        for event in (*run.inside, run.end):
            session = event.data.get("session") if event is not None else None
            for left in (self._failures.get(run.role), self._refusals.get(str(session))):
                if event is not None and left and event is left[0]:
                    left.popleft()

    def refusal(self, session: str) -> Event | None:
        """The next crossed limit for which a call of this conversation was not made, or not ended.

        Each is given once, when no answer is there any more.
        """
        left = self._refusals.get(session)
        if not left:
            return None
        event = left.popleft()
        self.given(event)
        return event

    def granted(self, session: str) -> tuple[Event, ...]:
        """What was decided about a call of this conversation that was cut off after it."""
        return tuple(self._granted.pop(session, ()))

    def given(self, failure: Event) -> None:
        """A failure was raised again, so it is not the next one any more."""
        left = self._failures.get(failure.role)
        if left and left[0] is failure:
            left.popleft()

    def failure(self, role: str) -> Event | None:
        """The next recorded failure of a role; each is given once."""
        left = self._failures.get(role)
        return left.popleft() if left else None


def recorded_error(event: Event) -> Exception:
    """An exception of the type and text that an `error` or `limit` event, or a result, records.

    It has the text and no other attribute of the one that was raised, except for a crossed limit.
    """
    if event.kind == "limit":
        data = event.data
        return LimitReached(
            event.content, limit=data["limit"], allowed=data["allowed"], used=data["used"]
        )
    name, text = str(event.data.get("type", "Exception")), event.content
    kinds = [kind for kind in _exceptions() if kind.__name__ == name] or [Exception]
    kind = next((kind for kind in kinds if kind.__module__ == "builtins"), kinds[-1])
    # Not through its `__init__`, whose arguments nobody knows any more.
    again: Any = type(name, (kind,), {"__str__": lambda self: text, "__module__": kind.__module__})
    error: Exception = again.__new__(again)
    error.args = (text,)
    return error


def _exceptions() -> Iterable[type[Exception]]:
    seen: dict[type[Exception], None] = {}
    stack: list[type[Exception]] = [Exception]
    while stack:
        kind = stack.pop()
        if kind not in seen:
            seen[kind] = None
            stack.extend(kind.__subclasses__())
    return seen


def _starts_like(recorded: Event, now: Event) -> bool:
    """Whether both are the start of the same action, with the same fields and arguments."""
    return recorded.data == now.data or encode_line(recorded.data) == encode_line(now.data)


def _minus(usage: Usage) -> Usage:
    usd = None if usage.usd is None else -usage.usd
    counts = (-usage.calls, -usage.cached_tokens)
    return Usage(-usage.prompt_tokens, -usage.completion_tokens, usd, *counts)


def _line(event: Event) -> str:
    return encode_event(event).decode().rstrip()


def _progress(run: ActionRun) -> tuple[bool, int]:
    return run.complete, len(run.inside)


def _calls(placed: Sequence[Placed]) -> dict[str, list[RecordedCall]]:
    found: dict[str, list[RecordedCall]] = {}
    last: tuple[str, Event] | None = None
    keys: dict[str, str] = {}
    before: dict[str, tuple[Event, ...]] = {}
    for event, _, _ in placed:
        if event.kind == "model_call" and "session" in event.data:
            key = _question(event.data)
            call = RecordedCall(event, "", before.pop(event.data["session"], ()))
            found.setdefault(key, []).append(call)
            last = key, event
            keys[event.data["session"]] = key
        elif event.kind == "thought" and last is not None and event.cause == last[1].seq:
            found[last[0]][-1] = found[last[0]][-1]._replace(reasoning=event.content)
        elif event.kind == "limit" and "session" in event.data and not _ended_call(event):
            session = event.data["session"]
            if event.data.get("when") != "after":
                before[session] = (*before.get(session, ()), event)
            elif session in keys:
                call = found[keys[session]][-1]
                found[keys[session]][-1] = call._replace(after=(*call.after, event))
    return found


def _granted(placed: Sequence[Placed]) -> dict[str, list[Event]]:
    """By conversation: the decisions after which a call went on whose answer is not recorded."""
    found: dict[str, list[Event]] = {}
    for event, _, _ in placed:
        session = str(event.data.get("session", ""))
        if event.kind == "model_call":
            found.pop(session, None)
        elif session and event.kind == "limit" and not is_failure(event):
            if event.data.get("when") == "after":
                continue
            found.setdefault(session, []).append(event)
    return found


def _ended_call(event: Event) -> bool:
    """Whether a call was not made, or not ended, because of a crossed limit."""
    data = event.data
    return "session" in data and is_failure(event) and data.get("when") != "after"


def _question(data: dict[str, Any]) -> str:
    return encode_key([data["session"], data.get("system", ""), data["messages"]])
