"""Text that spells a special token stays text.

A tokenizer reads `<|im_end|>` as the end of a turn, whoever wrote it: a user, a web page, another
role. What messages say is therefore marked before the chat template sees it, and each marked place
is tokenised as ordinary text, while the special tokens that the template writes keep their meaning.

A mark is a noncharacter of Unicode, the number of the spelling, and a second noncharacter. These
two, should a message contain them, are marked as well, so that every mark is ours. The same holds
for the two that enclose the name of an answer's part (see `_turns`).
"""

from __future__ import annotations

import re
from typing import Any

from rolecraft.errors import UsageError

_OPEN, _CLOSE = "\ufdd0", "\ufdd1"
PART_OPEN, PART_CLOSE = "\ufdd2", "\ufdd3"
"""Around the name of a part of an answer, in the place where a template writes it."""
_MARK = re.compile(f"{_OPEN}([0-9]+){_CLOSE}")


class PlainText:
    """Marks special tokens' spellings in text, and tokenises text with marks."""

    def __init__(self, tokenizer: Any, name: str) -> None:
        self._tokenizer = tokenizer
        self._name = name
        added = getattr(tokenizer, "added_tokens_decoder", {})
        special = {token.content for token in added.values() if token.special}
        special.update(tokenizer.all_special_tokens)
        # The longest first: of two that begin alike, the tokenizer takes the longer.
        longest = sorted(special, key=lambda text: (-len(text), text))
        self._spellings = [*longest, _OPEN, _CLOSE, PART_OPEN, PART_CLOSE]
        self._number = {spelling: at for at, spelling in enumerate(self._spellings)}
        self._any = re.compile("|".join(map(re.escape, self._spellings)))
        self._special = re.compile("|".join(map(re.escape, longest)) or "(?!)")
        self._ids = set(tokenizer.all_special_ids) | {
            token_id for token_id, token in added.items() if token.special
        }
        self._ids.discard(tokenizer.unk_token_id)

    def mark(self, text: str) -> str:
        """`text` with marks in the place of all that spells a special token."""
        return self._any.sub(lambda found: f"{_OPEN}{self._number[found[0]]}{_CLOSE}", text)

    def special_at(self, text: str, at: int = 0) -> str:
        """The special token that is written in `text` at `at`; empty if there is none."""
        found = self._special.match(text, at)
        return found[0] if found else ""

    def encode(self, text: str) -> list[int]:
        """Tokens of `text`; what is marked is spelled in ordinary ones.

        Raises `UsageError` where the tokenizer has no ordinary tokens for it, and what the
        tokenizer raises for text that it cannot spell at all.
        """
        # Split at the marks: text, number, text, number, text, ...
        parts = _MARK.split(text)
        if len(parts) == 1:
            return self._encode(text)
        ids: list[int] = []
        for at, part in enumerate(parts):
            if at % 2 == 0:
                ids += self._encode(part) if part else []
            else:
                ids += self._ordinary(self._spellings[int(part)])
        return ids

    def _ordinary(self, spelling: str) -> list[int]:
        ids = self._encode(spelling, split_special_tokens=True)
        if self._ids.intersection(ids):
            raise UsageError(
                f"A message says {spelling!r}, which is a special token of `{self._name}`, and its "
                f"tokenizer has no other way to spell it. Take it out of the message."
            )
        return ids

    def _encode(self, text: str, **how: Any) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False, **how)
        return ids
