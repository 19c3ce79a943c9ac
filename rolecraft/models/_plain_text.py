"""Text that spells a control token stays text.

A tokenizer reads `<|im_end|>` as the end of a turn, and `</think>` as the end of a thought, whoever
wrote it: a user, a web page, another role. What messages say is therefore marked before the chat
template sees it, and each marked place is tokenised as ordinary text, while the tokens that the
template writes keep their meaning.

Control tokens are all that were added to the vocabulary, special or not: many families' markers of
calls and thoughts are not. Only those that are blank, or one character and not special, are text:
GPT-NeoX has tokens of many spaces.

A mark is a noncharacter of Unicode, the number of the spelling, and a second noncharacter. These
two, should a message contain them, are marked as well, so that every mark is ours. The same holds
for the two that enclose the name of an answer's part (see `_turns`).

The tokenizer is always asked in the same way, so that several threads may ask it at once:
`split_special_tokens`, for one, would change it for all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from rolecraft.errors import UsageError

_OPEN, _CLOSE = "\ufdd0", "\ufdd1"
PART_OPEN, PART_CLOSE = "\ufdd2", "\ufdd3"
"""Around the name of a part of an answer, in the place where a template writes it."""
_MARK = re.compile(f"{_OPEN}([0-9]+){_CLOSE}")


class PlainText:
    """Marks control tokens' spellings in text, and tokenises text with marks."""

    def __init__(self, tokenizer: Any, name: str) -> None:
        self._tokenizer = tokenizer
        self._name = name
        added = getattr(tokenizer, "added_tokens_decoder", {})
        special = {token.content for token in added.values() if token.special}
        special.update(tokenizer.all_special_tokens)
        control = {token.content for token in added.values() if _is_control(token.content)}
        self._special = re.compile("|".join(map(re.escape, _longest_first(special))) or "(?!)")
        self._spellings = [*_longest_first(special | control), _OPEN, _CLOSE, PART_OPEN, PART_CLOSE]
        self._number = {spelling: at for at, spelling in enumerate(self._spellings)}
        self._any = re.compile("|".join(map(re.escape, self._spellings)))
        self._ids = set(tokenizer.all_special_ids) | {
            token_id for token_id, token in added.items() if token.content in self._number
        }
        self._ids.discard(tokenizer.unk_token_id)
        # Some are looked for in normalised text, where letters in full width may be plain ones.
        backend = getattr(tokenizer, "backend_tokenizer", None)
        asks = any(token.normalized and token.content in self._number for token in added.values())
        self._normalizer = backend.normalizer if backend is not None and asks else None
        self._known: dict[str, list[int]] = {}
        # What the first call may settle in a tokenizer that was made to truncate is settled here.
        self._encode("")

    def mark(self, text: str) -> str:
        """`text` with marks in the place of all that spells a control token."""
        if self._normalizer is not None and not text.isascii():
            normal = self._normalizer.normalize_str(text)
            text = normal if self._any.search(normal) else text
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
        """Tokens of `spelling`, encoded in pieces, of which none spells a control token."""
        if spelling not in self._known:
            for pieces in ([spelling], [spelling[:1], spelling[1:]], [*spelling]):
                try:
                    ids = [token for piece in pieces if piece for token in self._encode(piece)]
                except Exception:  # the tokenizers library raises plain `Exception`
                    continue
                if not self._ids.intersection(ids):
                    break
            else:
                raise UsageError(
                    f"A message says {spelling!r}, which is a control token of `{self._name}`, and "
                    f"its tokenizer has no other way to spell it. Take it out of the message."
                )
            self._known[spelling] = ids
        return self._known[spelling]

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False)
        return ids


def _is_control(spelling: str) -> bool:
    return len(spelling) > 1 and not spelling.isspace()


def _longest_first(spellings: Iterable[str]) -> list[str]:
    """Of two that begin alike, a tokenizer takes the longer."""
    return sorted(filter(None, spellings), key=lambda text: (-len(text), text))
