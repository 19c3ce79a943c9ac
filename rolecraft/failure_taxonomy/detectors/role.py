"""Disobeyed role: a role leaves limits that the header states, or speaks as another role.

Five signs. (1) An action, or a tool, that is in another role's set and not in its own; sets are
the header's `actions` and `tools` of roles, with what was swapped in or hired since. (2) It asks
for the end of the run (`Finish`), which the header leaves to others (`may_finish`), or which the
environment did not heed. (3) Its description forbids code in so many words, and it writes a
program of its own. (4) It speaks as a colleague who has not spoken yet: a section headed by that
name, in the first person. (5) A role that by its name plans or checks writes a long piece of code
that a builder later hands in as its own.

Not meant are tasks for others (`Tester: please run it`), quotations, and snippets in a review.
The rules know a part of what a role may not do, so they never call the mode absent.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rolecraft.failure_taxonomy.detectors.base import Detector
from rolecraft.failure_taxonomy.detectors.prose import own_words, prose
from rolecraft.failure_taxonomy.evidence import quotable
from rolecraft.failure_taxonomy.fenced import blocks
from rolecraft.failure_taxonomy.goals import task_of
from rolecraft.failure_taxonomy.view import TraceView, sounds_like_check, words_of
from rolecraft.messages import FINISH
from rolecraft.trajectories.events import Event, FailureFinding

MODE = "role_spec"
LONG_BLOCK = 8
"""So many lines of code, of a dozen characters or more, are somebody's work and no snippet."""
COPIED = 0.9
"""Share of a block's lines that make it a copy."""
KNOWN = 0.5
"""Share of a block's lines that others wrote before, from which it is a quotation."""

MOST_NAMES = 200
"""In a larger crowd nobody's name is looked for in what others say."""
_LINE = 12
_BUILDS = re.compile(
    "assist|author|build|cod(e|er|ing)$|comput|design|develop|engineer|expert|implement|program|"
    "script|solv|writ"
)
_PLANS = re.compile(
    "boss|chair|client|coordinat|customer|lead|manag|moderat|owner|plan|product|supervis"
)
_PROGRAM = re.compile(
    r"^\s*(def |class |import |from \w+ import |function |#include|public |fn |print\()",
    re.MULTILINE,
)
_NO_CODE = re.compile(
    r"(?:write no code|(?:do not|don't|never|must not|may not|should not|shall not) (?:ever )?"
    r"(?:write|produce|output|provide|give) (?:any )?code)\b(?: yourself)?"
    r"(?!\s+(?:before|until|unless|except|without|that|which|with|if|when|in|for|to|comments?)\b)",
    re.IGNORECASE,
)
_TEXTS = ("profile", "goal", "constraints", "desc", "system")
_FIRST_PERSON = re.compile(
    r"(?:I|I'(?:ve|m|ll|d)|We|We've|My|Here is my|Looks (?:good|correct|fine|right) to me|LGTM)\b"
    r"(?! (?:want|need|would|expect|ask|suggest|think you))"
)
_INTERJECTION = re.compile(
    r"(?:thanks|thank you|sure|okay|ok|yes|great|alright)\b[!,. ]*", re.IGNORECASE
)
_TO_OTHERS = re.compile(r"\b(?:you|your|please)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Crossed:
    """A limit that was crossed: by which event, in which words of it, and what else shows it."""

    event: Event
    reason: str
    also: tuple[Event, ...] = ()
    words: str = ""


class RoleSpec(Detector):
    """Finds `role_spec` where the header describes roles, and impersonation in any trace."""

    name = "detector.role_spec"
    modes = (MODE,)

    def look(self, view: TraceView) -> list[FailureFinding]:
        first: dict[tuple[str, str], Crossed] = {}
        rules = (_foreign_deeds, _ends, _forbidden_code, _impersonations, _work_of_others)
        for rule in rules:
            for crossed in rule(view):
                if quotable(crossed.event).strip():
                    first.setdefault((crossed.event.role, rule.__name__), crossed)
        found = sorted(first.values(), key=lambda crossed: crossed.event.seq)
        if not found:
            return [self.unknown(MODE, "no limit that rules can check was crossed")]
        return [
            self.present(
                MODE,
                [crossed.event, *crossed.also],
                role=crossed.event.role,
                quote_of=crossed.event,
                words=crossed.words,
                reason=crossed.reason,
            )
            for crossed in found
        ]


# --- actions, tools, ends -----------------------------------------------------------------------


def _foreign_deeds(view: TraceView) -> Iterator[Crossed]:
    """Actions and tools of another role's set."""
    for kind, field, listed in (("action", "action", "actions"), ("tool_call", "tool", "tools")):
        own: dict[str, set[str]] = {}
        owner: dict[str, str] | None = None  # of each name the first role that has it
        for role in view.described:
            if role.get("name") and isinstance(role.get(listed), (list, tuple)):
                own.setdefault(str(role["name"]), set()).update(map(_name, role[listed]))
        for event in view.events:
            if event.kind == "hire" and isinstance(event.data.get(listed), list):
                names = set(map(_name, event.data[listed]))
                own.setdefault(str(event.data.get("name") or event.role), set()).update(names)
                owner = None
            elif event.kind == "action_swap" and kind == "action":
                swapped = event.data.get("actions")
                if event.role in own and isinstance(swapped, list):
                    own[event.role].update(map(str, swapped))
                    owner = None
            elif event.kind == kind and own.get(event.role):
                name = str(event.data.get(field))
                if name in own[event.role]:
                    continue
                if owner is None:
                    owner = {name: role for role in reversed(own) for name in own[role]}
                whose = owner.get(name)
                if whose is not None:
                    reason = f"`{name}` is in the {listed} of `{whose}` and not of `{event.role}`"
                    yield Crossed(event, reason)


def _name(listed: Any) -> str:
    return str(listed.get("name")) if isinstance(listed, dict) else str(listed)


def _ends(view: TraceView) -> Iterator[Crossed]:
    """Attempts of a role to end the run that only others may end."""
    may = view.about.get("may_finish")
    allowed = set(map(str, may)) if isinstance(may, (list, tuple)) else None
    asked: list[Event] = []
    for event in view.events:
        if event.kind == "message" and event.data.get("cause_by") == FINISH:
            if allowed is not None and event.role in view.team - allowed:
                yield Crossed(
                    event, f"`{event.role}` ends the run, which only {_listed(allowed)} may"
                )
            elif allowed is None and event.role in view.team:
                asked.append(event)
        elif event.kind == "stop":
            asked.clear()
        elif event.kind == "action" and asked and event.time > asked[0].time:
            # The environment ends a run after the round in which somebody may end it.
            if (event.cause or 0) >= asked[0].seq:
                reason = f"`{asked[0].role}` asked for the end of the run, and may not end it"
                yield Crossed(asked[0], reason, (event,))
            asked.clear()


def _listed(names: set[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names)) or "nobody"


# --- code ---------------------------------------------------------------------------------------


def _forbidden_code(view: TraceView) -> Iterator[Crossed]:
    """Programs of roles whose description forbids code."""
    barred = {
        str(role.get("name"))
        for role in view.described
        if any(_NO_CODE.search(str(role.get(field) or "")) for field in _TEXTS)
    }
    if not barred:
        return
    for event, _, lines, origin in _code(view, shortest=3):
        if event.role in barred and origin is None:
            code = next(line for line in lines if line)
            yield Crossed(event, f"`{event.role}` is to write no code, and writes some", words=code)


def _work_of_others(view: TraceView) -> Iterator[Crossed]:
    """Code of a role that plans or checks, which a builder later hands in."""
    profiles: dict[str, list[str]] = {}
    for role in view.described:
        profiles.setdefault(str(role.get("name")), []).append(str(role.get("profile") or ""))
    does = {name: _kind_of(name, *profiles.get(name, ())) for name in view.team}
    if "other" not in does.values():
        return
    for event, text, lines, origin in _code(view, shortest=LONG_BLOCK):
        if origin is None or does.get(event.role) != "builds":
            continue
        if does.get(origin.role) == "other" and _PROGRAM.search(text):
            reason = f"`{origin.role}` wrote the code that `{event.role}` hands in"
            copied = (line for line in lines if len(line) >= _LINE and line in origin.content)
            yield Crossed(origin, reason, (event,), next(copied, ""))


def _kind_of(name: str, *profiles: str) -> str:
    words = [word for text in (name, *profiles) for word in words_of(text)]
    if any(map(_BUILDS.match, words)):
        return "builds"
    other = any(map(_PLANS.match, words)) or any(map(sounds_like_check, words))
    return "other" if other else ""


def _code(
    view: TraceView, *, shortest: int
) -> Iterator[tuple[Event, str, list[str], Event | None]]:
    """Each block of a program in a message: its event, text, lines, and whom it repeats.

    A block that partly repeats earlier ones is neither new nor a copy, and is left out. What
    stands in the task is nobody's work, whoever passes it on.
    """
    first: dict[str, Event] = {}
    task = task_of(view.about)
    for event in view.events:
        if event.kind != "message" or event.content == task:
            continue
        for text in blocks(event.content):
            if text.count("\n") < shortest:
                continue
            lines = [stripped for line in text.split("\n")[1:] if (stripped := line.strip())]
            telling = [line for line in lines if len(line) >= _LINE] if shortest > 3 else lines
            if len(telling) < shortest:
                continue
            by = Counter(first[line].seq for line in telling if line in first)
            seq, most = by.most_common(1)[0] if by else (-1, 0)
            origin = view.by_seq[seq] if most >= COPIED * len(telling) else None
            others = sum(n for s, n in by.items() if view.by_seq[s].role != event.role)
            if origin is not None and origin.role != event.role:
                yield event, text, lines, origin
            elif others < KNOWN * len(telling) and _PROGRAM.search(text):
                yield event, text, lines, None
            for line in telling:
                first.setdefault(line, event)


# --- speaking as somebody else ------------------------------------------------------------------


def _impersonations(view: TraceView) -> Iterator[Crossed]:
    """Sections in the first person, headed by the name of a colleague who has not spoken."""
    names = [name for name in view.team if len(name) > 1]
    if not 2 <= len(names) <= MOST_NAMES:
        return
    name = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    heading = re.compile(
        rf"^[ \t]*(?:(?P<marked>(?:\*\*|#+[ \t]*|\[|<|\(as )(?P<a>{name})(?:\*\*|\]|>|\))?)"
        r"[ \t]*:?(?:\*\*)?"
        rf"|(?P<b>{name})(?:[ \t]*\([^)\n]{{1,30}}\))?(?:[ \t]*->[ \t]*[^:\n]{{1,30}})?[ \t]*:)"
        r"[ \t]*\n?[ \t]*(?P<says>[^\n]+)",
        re.MULTILINE,
    )
    unheard = set(names)
    spoken = {event.seq for _, event in own_words(view)}
    for event in view.events:
        if not unheard:
            return
        if event.seq in spoken and any(
            name in event.content for name in unheard if name != event.role
        ):
            text = prose(event.content).strip()
            for found in heading.finditer(text):
                whose = found["a"] or found["b"]
                says = _INTERJECTION.sub("", found["says"], count=1)
                if not found["marked"] and found.start() == 0:
                    continue  # `ben: I am done.` may well be said to Ben
                if whose == event.role or whose not in unheard or _TO_OTHERS.search(says):
                    continue
                if _FIRST_PERSON.match(says):
                    yield Crossed(
                        event, f"`{event.role}` speaks as `{whose}`, who had said nothing"
                    )
        if event.kind in ("message", "thought", "model_call", "action", "tool_call"):
            unheard.discard(event.role)
