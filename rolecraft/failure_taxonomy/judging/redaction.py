"""Secrets are taken out of a trace before a judge, and so anybody else, gets to see it.

Invariant: no text that a rule matches is in what a judge is shown, wherever it stood in the trace
(words, arguments of tools, names, the task), also where a window cuts it in two: rules look at
whole texts. The same secret has the same stand-in everywhere in a trace, `[redacted email 1]`, so
a judge can still tell that two agents speak of the same thing.

A quote is checked against what the judge was shown, and it stays as it was shown: a secret is not
copied into a file of labels. Roles and events are those of the trace. Rules find what looks like a
secret; what looks like ordinary text (a name, a date of birth) wants a pattern of your own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

from rolecraft.errors import UsageError
from rolecraft.failure_taxonomy.view import TraceView
from rolecraft.trajectories.events import FailureFinding
from rolecraft.trajectories.trajectory import Trajectory


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of secret. Where the pattern has a group `secret`, only that is taken out.

    `hints` are words of which one must be in a text that has the secret, in lower case; they spare
    the pattern. `holds` says of a match whether it really is one.
    """

    name: str
    pattern: re.Pattern[str]
    hints: tuple[str, ...] = ()
    holds: Callable[[re.Match[str]], bool] | None = None


def _is_iban(match: re.Match[str]) -> bool:
    """True if the check digits are right (ISO 13616)."""
    plain = re.sub(r"[ -]", "", match[0]).upper()
    digits = "".join(str(int(char, 36)) for char in plain[4:] + plain[:4])
    return 15 <= len(plain) <= 34 and int(digits) % 97 == 1


def _is_email(match: re.Match[str]) -> bool:
    """False for `password@host` in an address such as `postgres://user:password@host`."""
    before = match.string[max(match.start() - 150, 0) : match.start()]
    return re.search(r"://[^\s/@]*:\Z", before) is None


_KEYS = (
    r"sk-(?=[\w-]{0,200}\d)[\w-]{16,}|sk_(?:live|test)_\w{10,}|rk_(?:live|test)_\w{10,}|"
    r"gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|hf_\w{20,}|npm_\w{30,}|"
    r"pypi-[\w-]{30,}|xox[abeoprs]-[\w-]{10,}|(?:AKIA|ASIA)[A-Z0-9]{16}|AIza[\w-]{30,}|"
    r"ya29\.[\w-]{20,}|lsv2_\w{20,}|gsk_\w{20,}|"
    r"eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*"
)

RULES: tuple[Rule, ...] = (
    Rule(
        "private key",
        # Escaped line ends, as in JSON, too; without an end, up to where base64 ends.
        re.compile(
            r"-----BEGIN (?P<kind>[A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?)-----"
            r"(?:(?:[^-]|-(?!----))*-----END (?P=kind)-----|"
            r"(?:(?:\s|\\[nr])*[\w-]{2,30}: [^\n\\]*)*(?:(?:\s|\\[nr])*[A-Za-z0-9+/=]{16,})*)",
            re.DOTALL,
        ),
        ("private key",),
    ),
    Rule("key", re.compile(rf"(?<![A-Za-z0-9])(?:{_KEYS})")),
    Rule(
        "token",
        re.compile(
            r"\b(?:bearer|basic)\s+(?P<secret>(?=[\w.~+/-]{0,200}\d)[\w.~+/-]{16,}=*)",
            re.IGNORECASE,
        ),
        ("bearer", "basic"),
    ),
    Rule(
        "password",
        re.compile(
            r"(?:password|passwd|passphrase|secret|api[_-]?key|access[_-]?key|access[_-]?token|"
            r"auth[_-]?token|private[_-]?token)(?:\\?[\"'])?\s*(?:=>|:=|=|:)\s*"
            r"(?:\\?[\"'](?P<quoted>[^\"'\\\s]{6,})|(?P<bare>(?=[^\s,;]{0,200}\d)[^\s\"'\\,;)\]}]{8,4096}))",
            re.IGNORECASE,
        ),
        ("passw", "passphrase", "secret", "key", "token"),
    ),
    Rule(
        "password in an address",
        re.compile(r"\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@\"']{0,100}:(?P<secret>[^\s/@\"']{1,200})@"),
        ("://",),
    ),
    Rule(
        "email",
        re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.)+[A-Za-z]{2,24}\b"),
        ("@",),
        holds=_is_email,
    ),
    Rule(
        "IBAN",
        re.compile(r"\b[A-Z]{2}\d{2}(?:[ -]?[A-Z0-9]{4}){2,7}(?:[ -]?[A-Z0-9]{1,3})?\b"),
        holds=_is_iban,
    ),
    Rule("phone number", re.compile(r"(?<![\w+])\+[1-9](?:[ ()./-]{0,2}\d){8,14}(?!\w)"), ("+",)),
)
"""What is taken out unless the caller says otherwise."""


class Redaction:
    """Takes out what `rules` match and, beside it, what the regular expressions `patterns` match.

    A pattern with a group named `secret` takes out that group only. Raises `UsageError` for a
    pattern that is none, or that matches the empty text.
    """

    def __init__(self, patterns: Iterable[str] = (), *, rules: Sequence[Rule] = RULES) -> None:
        own = [_own(number, text) for number, text in enumerate(patterns, start=1)]
        self.rules = (*own, *rules)

    @property
    def names(self) -> list[str]:
        """What is taken out, for the record; of the user's own patterns only their number."""
        return [rule.name for rule in self.rules]

    def apply(self, trace: Trajectory | TraceView) -> Redacted:
        """The trace without its secrets. The original is left as it is."""
        trajectory = trace.trajectory if isinstance(trace, TraceView) else trace
        taken = _Taken(self.rules)
        for text in _texts(trajectory):
            taken.learn(text)
        events = []
        for event in trajectory.events:
            clean = copy(event)
            clean.role = taken.text(event.role)
            clean.content = taken.text(event.content)
            clean.to = tuple(map(taken.text, event.to))
            clean.data = {key: taken.value(value) for key, value in event.data.items()}
            if event.artifact is not None:
                clean.artifact = replace(event.artifact, name=taken.text(event.artifact.name))
            events.append(clean)
        about = taken.value(trajectory.about)
        clean_trajectory = Trajectory(
            trajectory.id, about, events, problems=list(trajectory.problems)
        )
        return Redacted(TraceView(clean_trajectory), taken)


class Redacted:
    """A trace without its secrets."""

    def __init__(self, view: TraceView, taken: _Taken) -> None:
        self.view = view
        self._taken = taken

    @property
    def counts(self) -> dict[str, int]:
        """How many different secrets of each kind were taken out."""
        return dict(self._taken.counts)

    def restored(self, findings: Iterable[FailureFinding]) -> list[FailureFinding]:
        """Findings about this trace with the real names of roles; quotes stay as they are."""
        return [replace(finding, role=self.real_name(finding.role)) for finding in findings]

    def hidden(self, findings: Iterable[FailureFinding]) -> list[FailureFinding]:
        """Findings about the original as they may be shown: their texts without secrets."""
        hide = self._taken.text
        return [
            replace(f, role=hide(f.role), quote=hide(f.quote), reason=hide(f.reason))
            for f in findings
        ]

    def real_name(self, role: str) -> str:
        """A role's name as it is in the trace."""
        known = self._taken.originals
        return _STAND_IN.sub(lambda found: known.get(found[0], found[0]), role)


_STAND_IN = re.compile(r"\[redacted [^\]\[]{1,60} \d+\]")


def _texts(trajectory: Trajectory) -> Iterator[str]:
    """Every text in a trace that could hold a secret."""
    yield from _within(trajectory.about)
    for event in trajectory.events:
        yield event.content
        yield from _within(event.data)


def _within(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _within(key)
            yield from _within(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _within(item)


class _Taken:
    """What was taken out of one trace so far."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = rules
        self._stand_ins: dict[str, str] = {}
        self.originals: dict[str, str] = {}
        self.counts: dict[str, int] = {}
        self._told: dict[str, str] = {}
        """Secrets that only the words around them give away, and the rule's name."""
        self._lengths: dict[str, set[int]] = {}
        """How long those are that begin with these characters."""

    def learn(self, text: str) -> None:
        """Remember what is known for a secret by the words before it: it may be said again."""
        lower = text.lower()
        for rule in self._rules:
            if not _TELLING & rule.pattern.groupindex.keys() or not _hinted(rule, lower):
                continue
            for match in rule.pattern.finditer(text):
                start, end = _secret(match)
                if end - start >= _BEGINNING and text[start:end] not in self._told:
                    self._told[text[start:end]] = rule.name
                    beginning = text[start : start + _BEGINNING]
                    self._lengths.setdefault(beginning, set()).add(end - start)

    def value(self, value: Any) -> Any:
        """A JSON value with the secrets in its texts, keys and numbers replaced."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.value(key): self.value(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)(map(self.value, value)) if type(value) in (list, tuple) else value
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            written = str(value)
            clean = self.text(written)
            return value if clean == written else clean
        return value

    def text(self, text: str) -> str:
        if len(text) < 2:
            return text
        parts: list[str] = []
        at = 0
        for start, end, name in self._spans(text):
            parts += [text[at:start], self._stand_in(text[start:end], name)]
            at = end
        return "".join([*parts, text[at:]]) if parts else text

    def _spans(self, text: str) -> list[tuple[int, int, str]]:
        """Where the secrets are, in order; those that overlap are one, named by its longest."""
        lower = text.lower()
        found = [
            (*span, rule.name)
            for rule in self._rules
            if _hinted(rule, lower)
            for match in rule.pattern.finditer(text)
            if rule.holds is None or rule.holds(match)
            for span in [_secret(match)]
            if span[0] < span[1]
        ]
        found += self._said_again(text)
        merged: list[tuple[int, int, str]] = []
        for start, end, name in sorted(found, key=lambda span: (span[0], -span[1])):
            if merged and start < merged[-1][1]:
                first, last, whose = merged[-1]
                merged[-1] = first, max(end, last), whose
            else:
                merged.append((start, end, name))
        return merged

    def _said_again(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Where a secret stands that is known from elsewhere; in one pass, however many are."""
        at, last = 0, len(text) - _BEGINNING if self._told else -1
        while at <= last:
            for length in sorted(self._lengths.get(text[at : at + _BEGINNING], ()), reverse=True):
                name = self._told.get(text[at : at + length])
                if name is not None:
                    yield at, at + length, name
                    at += length - 1
                    break
            at += 1

    def _stand_in(self, secret: str, name: str) -> str:
        known = self._stand_ins.get(secret)
        if known is None:
            self.counts[name] = self.counts.get(name, 0) + 1
            known = f"[redacted {name} {self.counts[name]}]"
            self._stand_ins[secret] = known
            self.originals[known] = secret
        return known


_BEGINNING = 6
"""A shorter secret is not looked for where nothing gives it away."""

_TELLING = frozenset({"secret", "quoted", "bare"})
"""The groups of patterns that take out a part of what they match."""


def _hinted(rule: Rule, lower: str) -> bool:
    return not rule.hints or any(hint in lower for hint in rule.hints)


def _secret(match: re.Match[str]) -> tuple[int, int]:
    for group in _TELLING & match.re.groupindex.keys():
        if match[group] is not None:
            return match.span(group)
    return match.span()


def _own(number: int, text: str) -> Rule:
    try:
        pattern = re.compile(text)
    except (re.error, TypeError) as error:
        raise UsageError(f"The pattern {text!r} is no regular expression: {error}.") from error
    if pattern.match("") is not None:
        raise UsageError(f"The pattern {text!r} matches the empty text, so everything.")
    return Rule(f"pattern {number}", pattern)
