"""What becomes of sequences that are too long for the model, or for its memory."""

from __future__ import annotations

from collections import Counter
from typing import Literal

from rolecraft.training.sft.encoding import NOT_TRAINED, Encoded, Encoder, NotEncodable, Tokens
from rolecraft.training.sft.report import DataReport
from rolecraft.training.sft.samples import AnySample, Sample, TextSample, TokenSample, Turn

Overlong = Literal[
    "leave-out",  # and count it
    "truncate",  # keep the beginning, if anything in it is trained
    "split",  # divide a conversation at turns of the user; what is still too long is left out
]
"""What becomes of a sequence of more than `max_length` tokens."""
_REASONS = 50
"""So many are told apart for a file."""


class Lengths:
    """Encodes samples, and keeps what is no longer than `max_length` tokens."""

    def __init__(self, encoder: Encoder, max_length: int, overlong: Overlong) -> None:
        self._encoder, self._max_length, self._overlong = encoder, max_length, overlong

    def sequences(
        self, sample: AnySample, left_out: Counter[str], report: DataReport
    ) -> list[Tokens]:
        """The sequences of a sample that are kept, as long as they may be."""
        try:
            encoded = self._encoder.encode(sample)
        except NotEncodable as error:
            reason = str(error)  # a template's own words, which may be others for each sample
            known = reason in left_out or len(left_out) < _REASONS
            left_out[reason if known else "other reasons"] += 1
            return []
        if self._overlong == "split" and any(self._too_long(each) for each in encoded.sequences):
            return self._parts(_conversation(sample), left_out, report)
        return self._kept(encoded, left_out, report)

    def _kept(self, encoded: Encoded, left_out: Counter[str], report: DataReport) -> list[Tokens]:
        report.lost_reasoning += encoded.lost_reasoning
        report.exact += len(encoded.sequences) if encoded.exact else 0
        report.rewritten += len(encoded.sequences) > 1
        kept = []
        for each in encoded.sequences:
            if self._too_long(each):
                if self._overlong != "truncate":
                    left_out[f"longer than {self._max_length} tokens"] += 1
                    continue
                each = Tokens(each.ids[: self._max_length], each.labels[: self._max_length])
                report.truncated += 1
            if not any(label != NOT_TRAINED for label in each.labels[1:]):
                left_out["nothing to train"] += 1
                continue
            kept.append(each)
        return kept

    def _parts(self, sample: Sample, left_out: Counter[str], report: DataReport) -> list[Tokens]:
        """The conversation in as few parts as fit, each from a turn of the user on."""
        head, blocks = _blocks(sample.turns)
        kept: list[Tokens] = []
        begin = parts = 0
        while begin < len(blocks):
            # Every longer beginning is longer, so the last one that fits is found by halving.
            fits, low, high = None, begin + 1, len(blocks)
            while low <= high:
                end = (low + high) // 2
                part = Sample(
                    turns=[*head, *(t for block in blocks[begin:end] for t in block)],
                    tools=sample.tools,
                )
                encoded = self._try(part)
                if encoded is not None and not any(map(self._too_long, encoded.sequences)):
                    fits, low = (end, encoded), end + 1
                else:
                    high = end - 1
            if fits is None:
                left_out[f"longer than {self._max_length} tokens"] += 1
                begin += 1
                continue
            begin, encoded = fits
            if encoded.sequences:
                kept += self._kept(encoded, left_out, report)
                parts += 1
        report.split += parts > 1
        return kept

    def _try(self, sample: Sample) -> Encoded | None:
        try:
            return self._encoder.encode(sample)
        except NotEncodable:
            return None

    def _too_long(self, sequence: Tokens) -> bool:
        return len(sequence.ids) > self._max_length


def _conversation(sample: AnySample) -> Sample:
    match sample:
        case TextSample():
            return sample.as_conversation()
        case TokenSample():
            return sample.otherwise
        case Sample():
            return sample


def _blocks(turns: list[Turn]) -> tuple[list[Turn], list[list[Turn]]]:
    """The system's turns at the beginning, and the turns from each one of the user on."""
    head: list[Turn] = []
    blocks: list[list[Turn]] = []
    for turn in turns:
        if turn.role == "system" and not blocks:
            head.append(turn)
        elif turn.role == "user" or not blocks:
            blocks.append([turn])
        else:
            blocks[-1].append(turn)
    return head, blocks
