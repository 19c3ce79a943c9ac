"""Words that say what kind of bug it is, or that somebody planted one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_CHANGED = r"(?:swapped|changed|flipped|replaced|inverted|negated|reversed|removed|dropped|deleted)"
_PARTS = (
    r"(?:operators?|operands?|conditions?|conditionals?|comparisons?|arguments?|constants?|guards?"
    r"|branch(?:es)?|loops?|assignments?|decorators?|wrappers?|base class(?:es)?"
    r"|return values?|default values?|if[- ]statements?|checks?)"
)
_PARTS_OF_CODE = (
    r"(?:operators?|operands?|conditionals?|comparisons?|guards?|branch(?:es)?|loops?"
    r"|assignments?|decorators?|base class(?:es)?|boundary checks?|if[- ]statements?)"
)
"""Of these nobody says that one is missing or wrong who has not seen the code."""
_BUG_WORDS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"\bmutat(?:ion|ions|ed code|ion test\w*)\b|\bmutants?\b",
        r"\bbugs? (?:was|were|is|has been|have been|got) (?:\w+ )?"
        r"(?:introduced|planted|injected|inserted|seeded|added)\b",
        r"\b(?:introduced|planted|injected|inserted|seeded) (?:a |the |some )?(?:\w+ )?bugs?\b",
        r"\b(?:synthetic|artificial|intentional|deliberate) (?:bug|error|fault|defect)s?\b",
        r"\bswe-?smith\b",
        r"\boff[- ]by[- ]one\b",
        rf"\b{_PARTS} (?:(?:was|were|is|are|has been|have been|got|seems? to be|appears? to be"
        rf"|seems?|appears?|must have been|looks?) )+(?:\w+ )?{_CHANGED}\b",
        rf"\b{_CHANGED} (?:\w+ )?{_PARTS}\b",
        rf"\b(?:missing|wrong|incorrect) (?:\w+ )?{_PARTS_OF_CODE}\b",
        r"\bmissing (?:an? |the )?`?(?:await|not|return|else|break|continue|yield|self)`?\b",
        r"\bmutable default\b",
        r"\bearly return\b|\breturns? too early\b",
        r"\boperator precedence\b|\bprecedence (?:bug|error|mistake)\b",
        r"\b(?:inverted|negated|flipped) (?:if|logic|condition)\b",
        r"\bwrong (?:variable|operator|key|index|exception type|constant)\b",
        r"\b(?:except|exception) (?:clause|handler) (?:is|was) (?:too )?(?:narrow|wide|broad)\w*\b",
        r"\b(?:implementation|function|method) (?:was|has been) (?:modified|changed|rewritten)\b",
    )
)
_PROSE_ONLY = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_WORDS_OF_USERS = frozenset({"modify", "rewrite", "combine", "mirror"})
"""Names of ways to make a bug that anybody may write."""


def bug_words(text: str, modifiers: Iterable[str] = ()) -> Iterator[str]:
    """Such words in the prose of a text, and the names of the `modifiers` that made the bug."""
    prose = _PROSE_ONLY.sub(" ", text)
    for pattern in _BUG_WORDS:
        if found := pattern.search(prose):
            yield found.group()
    for name in modifiers:
        parts = re.split(r"[-_ ]+", name)
        if len(parts) < 2 or name in _WORDS_OF_USERS:
            continue
        spoken = r"[-_ ]".join(map(re.escape, parts))
        if found := re.search(rf"(?<!\w){spoken}(?!\w)", prose, re.IGNORECASE):
            yield found.group()
