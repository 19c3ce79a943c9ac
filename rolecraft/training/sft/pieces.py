"""Tokens of a text that is written piece by piece, and texts of tokens that are read so.

Some tokenizers (SentencePiece's) put a space before whatever they are given, which is right for the
beginning of a text only. What goes on is therefore tokenised behind an anchor, whose own tokens are
then taken off.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from rolecraft.errors import UsageError
from rolecraft.models._plain_text import PlainText

Kind = TypeVar("Kind")

NOT_TRAINED = -100
"""The label of tokens that count for no loss, as in PyTorch's `cross_entropy`."""
_ANCHOR = "\n"
_INCOMPLETE = "\ufffd"
"""What decoders write for bytes that are no character yet."""


class CannotSpell(UsageError):
    """A tokenizer has no tokens for a text: half a character, a word that it does not know, ..."""


class PieceTokens:
    """Tokenises texts whose control tokens' spellings are marked: see `PlainText`."""

    def __init__(self, tokenizer: Any, name: str) -> None:
        self._tokenizer, self._name = tokenizer, name
        self._plain = PlainText(tokenizer, name)
        self._anchor = self._find_anchor()

    def mark(self, text: str) -> str:
        return self._plain.mark(text)

    def first(self, text: str) -> list[int]:
        """Tokens of the beginning of a text, without any that the tokenizer adds to texts.

        Raises `CannotSpell`.
        """
        try:
            return self._plain.encode(text)
        except Exception as error:  # the tokenizers library raises plain `Exception`
            raise CannotSpell(
                f"The tokenizer of `{self._name}` cannot spell {text[:200]!r}: {error}"
            ) from error

    def next(self, text: str) -> list[int]:
        """Tokens of a text that goes on where another one ended. Raises `CannotSpell`."""
        if not text or not self._anchor:
            return self.first(text) if text else []
        ids = self.first(_ANCHOR + text)
        if ids[: len(self._anchor)] == self._anchor:
            return ids[len(self._anchor) :]
        return self.first(text)

    def _find_anchor(self) -> list[int]:
        """Tokens of the anchor, where the tokenizer puts something before what it is given."""
        try:
            alone = self._plain.encode("a")
            behind = self._plain.encode(_ANCHOR + "a")
            anchor = self._plain.encode(_ANCHOR)
        except Exception:  # a tokenizer of few words, which has no such text
            return []
        if behind[: len(anchor)] != anchor or behind[len(anchor) :] == alone:
            return []
        return anchor


def mask_pieces(
    input_ids: Sequence[int], labels: Sequence[int], tokenizer: Any
) -> list[tuple[str, bool]]:
    """The text of a sequence in pieces, and whether each is trained on.

    One after the other, the pieces are the text of the whole.
    """
    return pieces_by_kind(input_ids, [label != NOT_TRAINED for label in labels], tokenizer)


def pieces_by_kind(
    input_ids: Sequence[int], kinds: Sequence[Kind], tokenizer: Any
) -> list[tuple[str, Kind]]:
    """The same with any kind of token: each piece is of one."""
    pieces: list[tuple[str, Kind]] = []
    said = ""
    at = 0
    while at < len(input_ids):
        kind = kinds[at]
        end = at
        while end < len(input_ids) and kinds[end] == kind:
            end += 1
        text = _decoded(tokenizer, input_ids[:end])
        if end < len(input_ids):
            text = text.rstrip(_INCOMPLETE)  # a character that is cut by the border stands behind
        if text.startswith(said):
            pieces.append((text[len(said) :], kind))
            said = text
        at = end
    return pieces


def _decoded(tokenizer: Any, ids: Sequence[int]) -> str:
    text: str = tokenizer.decode(
        list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False
    )
    return text
