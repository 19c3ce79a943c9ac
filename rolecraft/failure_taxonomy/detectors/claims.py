"""Reasoning-action mismatch: what is announced or claimed is not what was done.

Two signs. (1) A role says that tests or a program ran, or that all tests pass, and nothing that
could have been a run came before. (2) A role announces a tool or action by name ("I will call
`search`"), does another one instead, and ends its turn without the one that it announced.

A claim is a whole statement in the past or present, in the role's own words: conditions, aims,
lists of criteria, questions and quotations are none. It counts only where the trace would show a
run: an importer must record tool results, checks or actions. Reports printed in a message count as
runs. Both signs are a part of the mode, so it is never called absent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from rolecraft.failure_taxonomy.detectors.base import LOST, Detector
from rolecraft.failure_taxonomy.detectors.prose import own_words, sentences
from rolecraft.failure_taxonomy.fenced import without_code
from rolecraft.failure_taxonomy.view import TraceView, has_any, sounds_like_reading, words_of
from rolecraft.trajectories.events import Event, EventKind, FailureFinding

MODE = "reason_action"

_RUNS: tuple[EventKind, ...] = ("tool_result", "tool_call", "verify", "action")
_RAN = re.compile(
    r"(?:I|We|^Ran|^Executed)(?:'ve| have)?"
    r"(?: just| now| also| already| successfully| went ahead and)*"
    r"(?:(?<=Ran)|(?<=Executed)| (?:re-?)?(?:ran|run|executed|tested))"
    r"(?: (?:all|both|each|every|the|these|those|my|our|your|its|of|unit|whole|full|entire|new|"
    r"updated|provided|\d+))* (?:tests?|test suite|suite|test cases?|code|program|script|pytest)\b",
    re.MULTILINE,
)
"""Begins with a letter that is written so: the search for it is fast."""
_RESULTS = re.compile(
    r"\b\d+ (?:tests? )?passed(?:,| and|, and)? \d+ failed\b|"
    r"^(?:The )?(?:execution|program|code|script) (?:finished|completed|ran|executed)"
    r" (?:successfully|without (?:any )?errors?)\b|"
    r"\bI (?:have )?(?:verified|checked|confirmed) \w[^.!?\n]{0,60} by (?:running|executing)\b",
    re.IGNORECASE,
)
_PASS = re.compile(
    r"^(?:\W*(?:yes|great|good|ok|okay|done|result|so|and|now|perfect|excellent)\W+)?"
    r"(?:all|both|the|\d+)(?: (?:of|the|my|our|unit|\d+|new))*"
    r" (?:tests?|test cases?|test suite)(?: (?:have|has|are|is|now|all|successfully|just))*"
    r" (?:pass(?:ed|es|ing)?|succeed(?:ed|s)?|green)\b"
    r"(?! (?:an?|the|its?|in|on|to|no|this|that|these|their)\b)",
    re.IGNORECASE,
)
_HEDGED = re.compile(
    r"\b(?:if|once|when|whenever|until|unless|should|would|could|will|shall|may|might|must|can|"
    r"ensure|make sure|so that|in order|before|after|whether|want|need|expect|assum\w*|suppose|"
    r"not|never|no|cannot|pretend|mentally|by hand|in my head|on paper|criteri\w+|goal|plan|"
    r"requirement|hope|let|to have|let's|imagine|hypothetical\w*|in theory|simulat\w*|"
    r"trac(?:e|ed|ing))\b|n't\b|\?",
    re.IGNORECASE,
)
_CRITERIA = re.compile(
    r"\b(?:criteri\w+|definition of done|requirement|acceptance|checklist|plan|goal|to-?do|steps?|"
    r"expected|instructions?|task)\b[^\n]{0,40}:?\s*$",
    re.IGNORECASE | re.MULTILINE,
)
_REPORT = re.compile(
    r"exitcode: |Traceback \(most recent|^Ran \d+ tests?|\b\d+ (?:passed|failed) in |"
    r"=+ test session|execution (?:succeeded|failed)|^(?:Code )?output:|^Result:|"
    r"^(?:PASS|FAIL|ok)\b",
    re.IGNORECASE | re.MULTILINE,
)

_ANNOUNCED = re.compile(
    r"(?:\bI(?:'ll| will| am going to|'m going to)(?: now| next| first)?"
    r"|\blet me(?: now| first)?|\bnow I|\bnext,? I(?: will)?)"
    r" (?:call|use|run|invoke|execute|take)(?: the)?(?: tool| action| function)?"
    r" [`'\"*]*(?P<name>[A-Za-z_][\w.-]*)"
    r"|^\W*(?:next )?(?:action|tool)\W{1,4}(?P<listed>[A-Za-z_][\w.-]*)",
    re.IGNORECASE | re.MULTILINE,
)
_FINISHED = (
    " by running",
    " by executing",
    "without error",
    "without any error",
    "finished successfully",
    "completed successfully",
    "ran successfully",
    "executed successfully",
)
_IN_FINISHED = (" by ", "without ", "successfully")
"""One of these stands in each of `_FINISHED`."""
_PRINTED = (
    "exitcode",
    "Traceback",
    "Ran ",
    "passed in",
    "failed in",
    "test session",
    "xecution",
    "utput:",
    "esult:",
    "PASS",
    "FAIL",
    "ok",
)
"""One of these stands in every report of a run."""
_HINTS = ("I'll ", "I will", "going to ", "et me ", "ow I ", "ext I", "ext, I", "ction", "ool")
"""One of these stands in every announcement."""
_DEEDS = {"tool_call": "tool", "action": "action"}
_INTERRUPTS = ("error", "limit", "approval", "reset", "action_swap")


@dataclass(frozen=True, slots=True)
class Claim:
    """An event whose words and deeds differ."""

    event: Event
    reason: str
    also: tuple[Event, ...] = ()
    words: str = ""
    """What it says."""


class ReasonAction(Detector):
    """Finds `reason_action` in traces that record runs, or tools and actions by name."""

    name = "detector.reason_action"
    modes = (MODE,)

    def look(self, view: TraceView) -> list[FailureFinding]:
        if not any(view.records(kind) for kind in _RUNS):
            return [self.unknown(MODE, "the format records no runs, so a claim cannot be checked")]
        if not view.whole:
            return [self.unknown(MODE, LOST)]
        if view.records("model_call") and not any(e.kind == "model_call" for e in view.events):
            return [self.unknown(MODE, "no model spoke: what programs say, they may have done")]
        found = [*_invented_runs(view), *_other_deeds(view)]
        if not found:
            return [self.unknown(MODE, "no claim or announcement that rules read was contradicted")]
        return [
            self.present(
                MODE,
                [claim.event, *claim.also],
                role=claim.event.role,
                quote_of=claim.event,
                words=claim.words,
                reason=claim.reason,
            )
            for claim in sorted(found, key=lambda claim: claim.event.seq)
        ]


# --- runs that were not -------------------------------------------------------------------------


def _invented_runs(view: TraceView) -> Iterator[Claim]:
    """Claims of a run before anything that could have been one; the first of each role."""
    first_run = next((at for at, event in enumerate(view.events) if _may_run(event)), None)
    said: set[str] = set()
    reporting: set[str] = set()
    scanned = 0
    for at, event in own_words(view):
        if first_run is not None and at > first_run:
            return
        if event.role in said or not _may_claim(event.content):
            continue
        claim = _claim(event.content)
        if not claim:
            continue
        reporting |= {e.role for e in view.events[scanned:at] if _reports(e.content)}
        scanned = at
        if reporting - {event.role}:
            return
        said.add(event.role)
        reason = f"`{event.role}` reports a run, and nothing was run before"
        yield Claim(event, reason, words=claim)


def _may_run(event: Event) -> bool:
    """True for what may have run tests or a program."""
    if event.kind == "verify":
        return True
    if event.kind == "tool_result":
        return event.cause is None or event.data.get("arguments") is not None
    if event.kind == "tool_call":
        return not sounds_like_reading(str(event.data.get("tool")))
    words = words_of(str(event.data.get("action"))) if event.kind == "action" else ()
    return any(
        re.match("run|exec|test|check|verif|valid|eval|build|compil", word) for word in words
    )


def _may_claim(text: str) -> bool:
    """False for most texts that claim nothing, in a fraction of the time."""
    text = without_code(text)
    lowered = text.lower()
    tests = "test" in lowered
    if (tests or " failed" in lowered) and has_any(lowered, ("pass", "succeed", "green")):
        return True
    ran = has_any(lowered, ("ran ", "run ", "executed ")) or (tests and "tested " in lowered)
    if ran and _RAN.search(text):
        return True
    return has_any(lowered, _IN_FINISHED) and has_any(lowered, _FINISHED)


def _reports(text: str) -> bool:
    return any(hint in text for hint in _PRINTED) and _REPORT.search(text) is not None


def _claim(text: str) -> str:
    """The sentence that claims a run, "" if there is none."""
    if text.lstrip()[:1] in ("{", "["):  # an answer in a form says what the form asks for
        return ""
    before = ""
    for sentence in sentences(text):
        plain = sentence.lstrip("-*•# ")
        claims = _RAN.search(plain) or _PASS.search(plain) or _RESULTS.search(plain)
        if claims and not _HEDGED.search(plain) and not _CRITERIA.search(before):
            return plain
        if not sentence.startswith(("-", "*", "•")):
            before = sentence
    return ""


# --- announced, and something else done -----------------------------------------------------------


@dataclass(slots=True)
class Open:
    """An announcement whose turn is not over: the names in it, and what was done instead."""

    event: Event
    names: set[str]
    kind: str
    other: Event | None = None


def _other_deeds(view: TraceView) -> Iterator[Claim]:
    """Announcements of one tool or action, followed by another one and the end of the turn."""
    kinds = _known(view)
    if not kinds:
        return
    open_: dict[str, Open] = {}
    for event in view.events:
        held = open_.get(event.role)
        if event.kind == "stop":
            yield from (_broken(held) for held in open_.values() if held.other is not None)
            open_.clear()
        elif event.kind in _INTERRUPTS:
            open_.pop(event.role, None)
        elif event.kind in ("message", "thought", "model_call"):
            if held is not None and held.other is not None:
                yield _broken(held)
                del open_[event.role]
            elif held is not None and (
                event.kind == "message" and event.content != held.event.content
            ):
                del open_[event.role]
            if event.kind == "message":  # news may be a reason to do something else
                open_ = {role: held for role, held in open_.items() if role == event.role}
            if event.role in view.team and event.role not in open_:
                names = _announced(event.content, kinds)
                if names:
                    open_[event.role] = Open(event, names, kinds[next(iter(names))])
        elif held is not None and event.kind == held.kind:
            if str(event.data.get(_DEEDS[event.kind])) in held.names:
                del open_[event.role]
            elif held.other is None:
                held.other = event


def _broken(held: Open) -> Claim:
    assert held.other is not None
    listed = ", ".join(f"`{name}`" for name in sorted(held.names))
    did = held.other.data.get(_DEEDS[held.other.kind])
    reason = f"`{held.event.role}` announced {listed} and did `{did}` instead"
    return Claim(held.event, reason, (held.other,))


def _known(view: TraceView) -> dict[str, str]:
    """The names of tools and actions in the trace, each with the kind of event that does it."""
    kinds: dict[str, str] = {
        str(event.data.get(_DEEDS[event.kind])): event.kind
        for event in view.events
        if event.kind in _DEEDS
    }
    for role in view.described:
        for field, kind in (("actions", "action"), ("tools", "tool_call")):
            listed = role.get(field)
            for name in listed if isinstance(listed, (list, tuple)) else ():
                kinds.setdefault(str(name.get("name") if isinstance(name, dict) else name), kind)
    return {name: kind for name, kind in kinds.items() if len(name) > 2}


def _announced(text: str, kinds: dict[str, str]) -> set[str]:
    """The tools, or actions, that a text names, if it announces one of them; else nothing.

    Names that are ordinary words count only where they are written as code.
    """
    if not has_any(text, _HINTS) or not has_any(text, kinds):
        return set()
    if _ANNOUNCED.search(text) is None:
        return set()
    found: set[str] = set()
    for sentence in sentences(text):
        for hit in _ANNOUNCED.finditer(sentence):
            name = (hit["name"] or hit["listed"]).rstrip(".")
            telling = "_" in name or len(words_of(name)) > 1 or f"`{name}`" in sentence
            if name in kinds and (telling or hit["listed"]):
                found.add(name)
    of_kind = {kinds[name] for name in found}
    if len(of_kind) != 1:
        return set()
    named = set(re.findall(r"[A-Za-z_][\w.-]*\w", text)) & kinds.keys()
    return found | {name for name in named if kinds[name] in of_kind}
