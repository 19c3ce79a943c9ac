"""A trajectory as detectors look at it: who belongs to the team, what it made, how it ended.

Computed once for a trajectory and shared by all detectors. Positions are indices into `events`;
they differ from sequence numbers where lines of a journal were lost.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from functools import cached_property, lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from rolecraft.failure_taxonomy.goals import Goal
from rolecraft.messages import ALL, USER
from rolecraft.trajectories.events import Event, EventKind
from rolecraft.trajectories.trajectory import Trajectory

if TYPE_CHECKING:
    from rolecraft.failure_taxonomy.steps import Step

OUTSIDE = frozenset({"", USER, "environment"})
"""Roles that are not of the team: nobody in particular, the user, the environment itself."""

_CHECKING = re.compile(
    "assert|audit|check|confirm|critic|critiq|evaluat|examin|inspect|judge|lint|proof|qa|quality|"
    "review|test|valid|verif"
)
_SHORT, _WORDS = 100, 5
_READING = re.compile(
    "(browse|cat|describe|fetch|find|get|glob|grep|head|inspect|list|look|ls|open|peek|query|read|"
    "search|show|stat|tail|view)$"
)


def words_of(name: str) -> list[str]:
    """`RunUnitTests`, `run_unit_tests` and `run-unit-tests` in words, lower case."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)]


@lru_cache(maxsize=4096)
def sounds_like_check(name: str) -> bool:
    """True for a name that may well mean checking: `ReviewCode`, `run_tests`, `QaEngineer`."""
    return any(map(_CHECKING.match, words_of(name)))


@lru_cache(maxsize=4096)
def sounds_like_reading(name: str) -> bool:
    """True for a tool that by its name only looks: `read_register`, `search`, `ListFiles`."""
    words = words_of(name)
    return bool(words) and _READING.match(words[0]) is not None


def has_any(text: str, words: Iterable[str]) -> bool:
    """True if one of the words, none of them empty, stands in the text. Quicker than `any`."""
    return next(filter(text.__contains__, words), "") != ""


def fingerprint(*parts: str) -> bytes:
    """Equal for texts that differ in white space only, and for no others."""
    text = "\0".join([" ".join(part.split()) for part in parts])
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).digest()


def _ends(text: str) -> tuple[str, ...]:
    """The same for texts that differ in white space only, and quickly made."""
    if len(text) < _SHORT:
        return (" ".join(text.split()),)
    return (*text.split(None, _WORDS)[:_WORDS], *text.rsplit(None, _WORDS)[-_WORDS:])


class TraceView:
    """One trajectory, for all detectors."""

    def __init__(self, trajectory: Trajectory) -> None:
        self.trajectory = trajectory
        self.events = trajectory.events
        self.about = trajectory.about

    @classmethod
    def of(cls, trace: Trajectory | TraceView) -> TraceView:
        return trace if isinstance(trace, TraceView) else cls(trace)

    @cached_property
    def by_seq(self) -> dict[int, Event]:
        return {event.seq: event for event in self.events}

    @cached_property
    def position(self) -> dict[int, int]:
        """Position of each sequence number."""
        return {event.seq: at for at, event in enumerate(self.events)}

    @cached_property
    def texts(self) -> list[bytes]:
        """A fingerprint of each event's content, in which runs of white space are one space.

        Equal within this view for equal texts. Most texts differ in their first or last words from
        all others; these are not read to their end.
        """
        ends = [_ends(event.content) for event in self.events]
        count = Counter(ends)
        return [
            fingerprint(event.content) if count[end] > 1 else b"%d" % at
            for at, (event, end) in enumerate(zip(self.events, ends, strict=True))
        ]

    @cached_property
    def said_again(self) -> frozenset[bytes]:
        """The fingerprints in `texts` of what stands in more than one event."""
        return frozenset(text for text, times in Counter(self.texts).items() if times > 1)

    @cached_property
    def goal(self) -> Goal:
        return Goal.of(self.about)

    # --- what the trace can show --------------------------------------------------------------

    def records(self, *kinds: EventKind) -> bool:
        """True if the trace's source would have recorded all these kinds, had they happened.

        Importers of formats that know fewer kinds than ours list theirs in `about["records"]`.
        """
        recorded = self.about.get("records")
        return recorded is None or set(kinds) <= set(recorded)

    @property
    def ours(self) -> bool:
        """True for a record of our own runtime, which writes every kind of event."""
        return self.about.get("records") is None

    @property
    def whole(self) -> bool:
        """False if lines of the trace were lost: then nothing can be said to be missing."""
        return not self.trajectory.problems

    # --- who ----------------------------------------------------------------------------------

    @cached_property
    def described(self) -> list[dict[str, Any]]:
        """The header's descriptions of roles; a mapping of names is brought into the same form."""
        roles = self.about.get("roles")
        if isinstance(roles, dict):
            return [{"name": name} for name in roles]
        if not isinstance(roles, (list, tuple)):
            return []
        return [role if isinstance(role, dict) else {"name": str(role)} for role in roles]

    @cached_property
    def team(self) -> frozenset[str]:
        """Names of the roles that work together, from the header and from who did something."""
        named = {str(role["name"]) for role in self.described if role.get("name")}
        acted = {event.role for event in self.events if event.kind != "signal"}
        return frozenset((named | acted) - OUTSIDE)

    @cached_property
    def _names(self) -> dict[str, str]:
        """From an address (name or class path) to the role's name."""
        names = {name: name for name in self.team}
        for role in self.described:
            if role.get("class") and role.get("name"):
                names.setdefault(str(role["class"]), str(role["name"]))
        return names

    def receivers(self, message: Event) -> frozenset[str] | None:
        """Names of the team's roles that a message is for; None for everyone."""
        if not message.to or ALL in message.to:
            return None
        return frozenset(self._names[address] for address in message.to if address in self._names)

    # --- how it ended -------------------------------------------------------------------------

    @cached_property
    def stop(self) -> Event | None:
        """The last `stop` event."""
        return next((e for e in reversed(self.events) if e.kind == "stop"), None)

    @property
    def stop_reason(self) -> str:
        return str(self.stop.data.get("reason", "")) if self.stop is not None else ""

    @property
    def ended_by_team(self) -> bool:
        """True if the run ended because the roles were done, not because something cut it off."""
        return self.stop_reason in ("finished", "idle")

    @cached_property
    def last_deeds(self) -> dict[str, Event]:
        """The last thing that each role of the team said or did; who did something last is last."""
        kinds = ("message", "action", "tool_call", "artifact", "verify")
        deeds: dict[str, Event] = {}
        for event in self.events:
            if event.kind in kinds and event.role in self.team:
                deeds.pop(event.role, None)
                deeds[event.role] = event
        return deeds

    @property
    def last_deed(self) -> Event | None:
        """The last thing that a role of the team said or did."""
        return next(reversed(self.last_deeds.values()), None)

    @property
    def silent(self) -> frozenset[str]:
        """Roles of the team that said and did nothing."""
        return self.team - self.last_deeds.keys()

    # --- what was done ------------------------------------------------------------------------

    @cached_property
    def steps(self) -> list[Step]:
        """All steps of the team, in the order in which they start."""
        from rolecraft.failure_taxonomy.steps import find_steps

        return find_steps(self)

    @cached_property
    def turns(self) -> list[Step]:
        """Steps that only show in what was said, in a trace that records no actions."""
        from rolecraft.failure_taxonomy.turns import find_turns

        return find_turns(self)

    # --- checks and artifacts -----------------------------------------------------------------

    @cached_property
    def checks(self) -> list[int]:
        """Positions of the team's own checks: its `verify` events.

        What the environment verifies to grade a run or to watch a constraint is no check of the
        team's: no role sees it.
        """
        return [
            at
            for at, event in enumerate(self.events)
            if event.kind == "verify" and event.role not in OUTSIDE and not is_constraint(event)
        ]

    @cached_property
    def possible_checks(self) -> list[int]:
        """Positions of what may have been a check although no `verify` event says so.

        A role that records any of its checks is taken to record all of them.
        """
        recording = {self.events[at].role for at in self.checks}
        checkers = {
            str(role["name"])
            for role in self.described
            if role.get("name") and sounds_like_check(f"{role['name']} {role.get('profile') or ''}")
        } | {name for name in self.team if sounds_like_check(name)}
        return [
            at
            for at, event in enumerate(self.events)
            if event.role not in recording
            and (
                (event.kind == "message" and event.role in checkers)
                or (
                    event.kind in ("action", "tool_call")
                    and sounds_like_check(str(event.data.get("action") or event.data.get("tool")))
                )
            )
        ]

    @cached_property
    def artifact_changes(self) -> dict[str, list[int]]:
        """For each artifact, the positions at which its content changed."""
        changes: dict[str, list[int]] = {}
        latest: dict[str, str] = {}
        for at, event in enumerate(self.events):
            artifact = event.artifact
            if event.kind != "artifact" or artifact is None:
                continue
            if latest.get(artifact.name) != artifact.sha256:
                latest[artifact.name] = artifact.sha256
                changes.setdefault(artifact.name, []).append(at)
        return changes

    @cached_property
    def user_messages(self) -> list[int]:
        """Positions of what the user said."""
        return [
            at
            for at, event in enumerate(self.events)
            if event.kind == "message" and event.role == USER
        ]


def is_constraint(event: Event) -> bool:
    """True for a `verify` event that watches a constraint of the task or of a role."""
    return event.kind == "verify" and ("constraint" in event.data or "mode" in event.data)
