"""Whether a text says what to change: "it should be `>`", "`start` instead of `end`".

A changed operator alone is no run of the changed lines, and it is all of the solution. What users
write is told apart by where it stands: `a > b` in a snippet is theirs, `>` in backticks is not, and
neither is an operator in a sentence that says what should be there.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise

from rolecraft.synthesis.texts.overlap import STRING, without_comments
from rolecraft.synthesis.texts.solution import Solution

_SHORT = 3
"""Tokens: a longer change is told by how much of it a text has (`overlap`)."""
_SIGNS = r"\*\*=|//=|<<=|>>=|[<>=!+\-*/%&|^@]=|\*\*|//|<<|>>|&&|\|\||[<>+\-*/%&|^~]"
_OPERATOR = re.compile(_SIGNS)
_WORDS = frozenset({"and", "or", "not", "in", "is"})
_VALUE = re.compile(r"True\Z|False\Z|None\Z|-\Z|\d|\w{0,2}[\"']")
_UNCLEAR = frozenset("+-*/%&|^~")
"""Signs that prose has as well, or that stand before a value: `-1`."""
_TOKEN = re.compile(rf"{STRING}|[^\W\d]\w*|\d[\w.]*|{_SIGNS}|[^\w\s]", re.DOTALL)

_BLOCK = re.compile(r"```(\w*)(.*?)(?:```|\Z)", re.DOTALL)
_SET_OFF = re.compile(r"`([^`\n]+)`|\"([^\"\n]+)\"|“([^”\n]+)”|(?<!\w)'([^'\n]+)'(?!\w)")
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n+")
_REMEDY = re.compile(
    r"\b(?:should|must|ought to|has to|needs to) (?:be|have been|read|say|use)\b|\binstead\b"
    r"|\brather than\b|\bchang\w+|\breplac\w+|\bfix(?:es|ed)?\b|\bswap\w*|\bflip\w*|\bcorrect\w*"
    r"|\bwrote\b|\bwritten\b|\buses?\b|\busing\b|\bturn\w* into\b|\bmissing\b|\boperators?\b"
    r"|\bcomparisons?\b|\bcompares?\b|->|→",
    re.IGNORECASE,
)
_VERB = r"(?i:chang|replac|swap|correct|turn|rewr|flip|mend|fix)\w*[^.\n]{0,40}?"
_INSTEAD = r"(?:instead of|rather than|in (?:the )?place of)"
_BETWEEN = rf"(?:{_INSTEAD}|(?:and |but )?not|where|should (?:be|have been|read))"
_TO = r"(?:to|into|with|by|for|->|→|=>)"
_AROUND = r"[`*_\"'“”\u2018\u2019]*"
_SPOKEN = {
    ">=": r"greater(?:[- ]than)?[- ]or[- ]equal",
    "<=": r"(?:less|smaller)(?:[- ]than)?[- ]or[- ]equal",
    ">": r"(?:strictly )?greater[- ]than(?![- ]or)",
    "<": r"(?:strictly )?(?:less|smaller)[- ]than(?![- ]or)",
    "==": r"equality",
    "!=": r"inequality",
}
_COMPARED = r"(?:uses?|using|compares? with|comparison|operator)"


def remedies(text: str, solution: Solution) -> Iterator[str]:
    """What a text says of what to write in the place of what."""
    change = _Change.of(solution)
    prose = _BLOCK.sub("\n", text)
    for block in _BLOCK.finditer(text):
        if block[1] in ("diff", "patch") and change.is_in(block[2]):
            yield block[2].strip()
    for found in _SET_OFF.finditer(prose):
        said = next(filter(None, found.groups())).strip()
        if change.is_in(said, quoted=found[1] is None):
            yield said
    for sentence in _SENTENCE.split(prose):
        if _REMEDY.search(sentence):
            yield from change.named(sentence)
        yield from change.exchanged(sentence)
    for operator in change.operators & _SPOKEN.keys():
        spoken = rf"\b{_COMPARED}\b[^.\n]{{0,20}}\b{_SPOKEN[operator]}\b"
        if place := re.search(spoken, prose, re.IGNORECASE):
            yield place.group()


@dataclass(frozen=True, slots=True)
class _Change:
    """The tokens that were exchanged, added or taken away, where these are few."""

    operators: frozenset[str]
    pairs: frozenset[tuple[str, ...]]
    """Two neighbours in a changed line of which one is such an operator."""
    exchanges: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]
    """What stood there and what stands there."""

    @classmethod
    def of(cls, solution: Solution) -> _Change:
        old, new = (
            _TOKEN.findall("\n".join(without_comments(lines, solution)))
            for lines in (solution.removed, solution.added)
        )
        operators: set[str] = set()
        exchanges: dict[tuple[tuple[str, ...], tuple[str, ...]], None] = {}
        for tag, i, j, k, m in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
            was, now = tuple(old[i:j]), tuple(new[k:m])
            if tag == "equal" or max(len(was), len(now)) > _SHORT:
                continue
            operators.update(filter(_is_operator, {*was} ^ {*now}))
            if was and now:
                exchanges[was, now] = None
        pairs = {pair for tokens in (old, new) for pair in pairwise(tokens) if operators & {*pair}}
        return cls(frozenset(operators), frozenset(pairs), tuple(exchanges))

    def is_in(self, said: str, *, quoted: bool = False) -> bool:
        """Whether what is set off is such an operator, or has it beside its operand."""
        if said in self.operators:
            return True
        tokens = _TOKEN.findall(said)
        if len(tokens) == 2 and tuple(tokens) in self.pairs:  # no expression: an end is missing
            sign = next(token for token in tokens if token in self.operators)
            return sign not in _UNCLEAR | _WORDS or (" " in said and not quoted)
        return self._has_pair(tokens, words=not quoted)

    def named(self, sentence: str) -> Iterator[str]:
        """The operators in a sentence on what should be there."""
        if self._has_pair(_TOKEN.findall(sentence), words=False):
            yield sentence.strip()
            return
        for operator in sorted(self.operators - _UNCLEAR - _WORDS):
            alone = rf"(?<=[\s`\"'“(])(?<!\d\s){re.escape(operator)}(?=[\s`\"'”).,;:]|\Z)"
            if place := re.search(alone, sentence):
                yield place.group()

    def exchanged(self, sentence: str) -> Iterator[str]:
        """What was exchanged for what, in either order."""
        for was, now in self.exchanges:
            # Of values users say the same as of code: "I get `None` instead of `[]`".
            between = "(?!)" if all(map(_VALUE.match, (*was, *now))) else _BETWEEN
            if _WORDS & {*was, *now}:
                between = _INSTEAD
            for one, other in ((_said(was), _said(now)), (_said(now), _said(was))):
                exchange = rf"{one},? {between} (?:an? |the )?{other}|\b{_VERB}{one} {_TO} {other}"
                if place := re.search(exchange, sentence):
                    yield place.group()

    def _has_pair(self, tokens: list[str], *, words: bool) -> bool:
        """An operator beside a name that is beside it in the changed lines too."""
        return any(
            pair in self.pairs and any(map(_is_name, pair)) and (words or not _WORDS & {*pair})
            for pair in pairwise(tokens)
        )


def _is_operator(token: str) -> bool:
    return token in _WORDS or _OPERATOR.fullmatch(token) is not None


def _is_name(token: str) -> bool:
    return token.isidentifier() and not keyword.iskeyword(token)


def _said(tokens: Iterable[str]) -> str:
    """A pattern of tokens as prose has them: in backticks, quotes, emphasis, or bare."""
    bare = r"\s*".join(map(re.escape, tokens))
    return rf"(?<!\w){_AROUND}{bare}{_AROUND}(?!\w)"
