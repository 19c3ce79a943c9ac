"""What came of each thing that a model, or a patch, was asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rolecraft.synthesis.candidates import Candidate
from rolecraft.synthesis.folder import SynthesisFolder
from rolecraft.synthesis.ledger import Ledger


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One item. A line of the ledger `written.jsonl`, so that each is asked for once."""

    item: str
    """`HOW:ENTITY:ROUND:MODEL`, or `POLARITY:DIGEST` of a patch."""
    candidate: Candidate | None = None
    """What came of it; None if nothing did."""
    why: str = ""
    """Why nothing did: `does_not_apply`, the answer is none, it is there already, …"""
    usd: float | None = None
    """What it took; None if no model was asked or the price is unknown."""
    again: bool = False
    """Whether the next call asks again: the budget did not cover all that was to be asked."""


class Written:
    """The ledgers of a step that adds candidates which nobody can make again.

    What was asked is written first, with its candidate; one that a killed process did not get to
    enter among the candidates is entered when this is opened again. A context manager.
    """

    def __init__(self, folder: SynthesisFolder) -> None:
        self.candidates = Ledger(folder.candidates, Candidate, key=lambda each: each.id)
        try:
            self.asked = Ledger(folder.written, Asked, key=lambda each: each.item)
        except BaseException:
            self.candidates.close()
            raise
        for each in self.asked:
            if each.candidate is not None and each.candidate.id not in self.candidates:
                self.candidates.append(each.candidate)
        self._keys = {each.key for each in self.candidates}

    def add(self, asked: Asked) -> Asked:
        """Enter it. A candidate that does the same as one that is there is none."""
        made = asked.candidate
        if made is not None and (made.key in self._keys or made.id in self.candidates):
            asked = Asked(
                item=asked.item, why="a candidate that does the same is there", usd=asked.usd
            )
        self.asked.append(asked)
        if asked.candidate is not None:
            self.candidates.append(asked.candidate)
            self._keys.add(asked.candidate.key)
        return asked

    @property
    def spent_usd(self) -> float:
        """What models have cost so far, as far as prices are known."""
        return sum(each.usd or 0.0 for each in self.asked)

    def __enter__(self) -> Written:
        return self

    def __exit__(self, *exc: object) -> None:
        self.asked.close()
        self.candidates.close()


OnAsked = Callable[[Asked], None]
