"""One reading of a trace: all its windows, one after the other, then a search of the whole.

A digest is carried from window to window: what the judge noted down about the parts before. It is
a model's text about a trace's text, so it stands inside the fence and can never be evidence. Where
answers are kept, a part that got none ends the reading: the next one would be asked without its
notes, and asked again once it has an answer.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from rolecraft.errors import BadModelResponse, ModelError, ModelUnavailable
from rolecraft.failure_taxonomy.judging.answers import Answer, no_answer, read_answer
from rolecraft.failure_taxonomy.judging.asking import Asker
from rolecraft.failure_taxonomy.judging.checking import checked
from rolecraft.failure_taxonomy.judging.merging import Said, is_global, of_windows, with_search
from rolecraft.failure_taxonomy.judging.prompt import (
    DIGEST,
    NOTES,
    write_record,
    write_system,
)
from rolecraft.failure_taxonomy.judging.searching import Search
from rolecraft.failure_taxonomy.modes import Mode
from rolecraft.failure_taxonomy.view import TraceView
from rolecraft.failure_taxonomy.windows import Piece, Window
from rolecraft.messages import Message
from rolecraft.models.base import Completion
from rolecraft.models.fence import make_marker
from rolecraft.trajectories.events import Event, Usage

_NOT_YET = "this part was not asked about: there was no answer about the part before it"


@dataclass(frozen=True, slots=True)
class Record:
    """A trace as judges read it; made once for all readings."""

    view: TraceView
    windows: tuple[Window, ...]
    preamble: tuple[Piece, ...]
    events: dict[int, Event]
    """All events that a judge may see, by seq."""
    seed: int

    @property
    def long(self) -> bool:
        return len(self.windows) > 1


@dataclass(slots=True)
class Reading:
    """What one reading came to."""

    rows: dict[str, Said] = field(default_factory=dict)
    covered: float = 0.0
    """Characters of the trace about which there were answers, as a share of the modes asked."""
    diagnoses: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    usage: Usage = field(default_factory=lambda: Usage(calls=0))


class Reader:
    """Reads `record` with an eye on `modes`. `seed` is the sample's, for sampling."""

    def __init__(
        self,
        asker: Asker,
        record: Record,
        modes: Sequence[Mode],
        *,
        seed: int,
        source: str,
        shots: int,
        search: bool,
    ) -> None:
        self.asker = asker
        self.record = record
        self.modes = modes
        self.seed = seed
        self.source = source
        self.shots = shots
        self.search = search
        self.reading = Reading()
        self.lost = False
        """True if there was no answer about some window."""

    async def read(self) -> Reading:
        asked = [mode.id for mode in self.modes]
        digest = ""
        answers: list[Answer] = []
        for number, window in enumerate(self.record.windows, start=1):
            answer = await self._window(number, window, digest)
            answers.append(answer)
            digest = self._digest(answer) or digest
            if self._waits():
                answers += [no_answer(asked, _NOT_YET) for _ in self.record.windows[number:]]
                break
        reading = self.reading
        for mode in asked:
            reading.rows[mode] = of_windows(mode, [answer.rows[mode] for answer in answers])
        if self._waits():
            return reading
        if self.record.long and self.search and any(answer.usable for answer in answers):
            whole = [mode for mode in self.modes if is_global(mode.id)]
            if whole:
                complete = all(answer.answered == len(asked) for answer in answers)
                await self._whole(whole, digest, complete=complete)
        return reading

    def _waits(self) -> bool:
        """True if what is left is better asked when the judge answers again.

        It would be asked with the notes of the part that has no answer. Once that has one, it is
        another question, so answers that are kept would be paid for and never used.
        """
        return self.lost and self.asker.cache is not None

    async def _window(self, number: int, window: Window, digest: str) -> Answer:
        """One call: the answer with its evidence checked."""
        asked = [mode.id for mode in self.modes]
        marker, system, question = await asyncio.to_thread(self._asked, number, window, digest)
        conversation = self.asker.open(
            system=system, seed=self.seed, trace=self.record.view.trajectory.id
        )
        try:
            completion = await conversation.ask(Message(question))
        except (ModelUnavailable, BadModelResponse) as error:
            self.lost = True
            self.reading.usage = self.reading.usage + (error.usage or Usage(calls=0))
            return no_answer(asked, f"the model gave no answer: {error}{_hint(str(error))}")
        except ModelError as error:
            if type(error) is ModelError and (hint := _hint(str(error))):
                error.args = (f"{error}{hint}",)
            raise
        self.reading.usage = self.reading.usage + completion.usage
        return await asyncio.to_thread(self._answer, completion, window, marker)

    def _asked(self, number: int, window: Window, digest: str) -> tuple[str, str, str]:
        """The marker, the system message and the question about a window."""
        parts = len(self.record.windows)
        pieces = window.pieces if not digest else (Piece(NOTES, digest), *window.pieces)
        marker = make_marker("\n".join(f"{p.head}\n{p.text}" for p in pieces), self.record.seed)
        system = write_system(self.modes, marker=marker, shots=self.shots, parts=parts)
        question = write_record(self.modes, pieces, marker=marker, part=number, parts=parts)
        return marker, system, question

    def _answer(self, completion: Completion, window: Window, marker: str) -> Answer:
        asked = [mode.id for mode in self.modes]
        answer = read_answer(completion, marker=marker, asked=asked, source=self.source)
        if answer.usable:
            self.reading.covered += window.covers * answer.answered / len(asked)
            self.reading.diagnoses.append(answer.diagnosis)
        self._check(answer, window.shown)
        return answer

    def _digest(self, answer: Answer) -> str:
        limit = 4 * DIGEST
        if len(answer.digest) > limit:
            self.reading.notes.append(
                f"its notes on a part had {len(answer.digest)} characters; the next part got "
                f"{limit} of them"
            )
        return answer.digest[:limit]

    def _check(self, answer: Answer, shown: dict[int, list[str]]) -> None:
        self.reading.dropped += [
            f"a row about {mode!r}, which was not asked for" for mode in answer.strays
        ]
        for mode, rows in answer.rows.items():
            if not isinstance(rows, str):
                answer.rows[mode] = checked(
                    rows,
                    self.record.events,
                    shown=shown,
                    shots=self.shots,
                    dropped=self.reading.dropped,
                )

    async def _whole(self, modes: Sequence[Mode], digest: str, *, complete: bool) -> None:
        """The modes that no single window can show, once more, over the whole trace."""
        search = Search(self.asker, self.record, modes, seed=self.seed, source=self.source)
        answer = await search.ask(digest, self.reading.rows, shots=self.shots)
        self.reading.usage = self.reading.usage + search.usage
        if search.fault:
            self.reading.notes.append(
                f"the trace as a whole was not searched, only its windows were read: {search.fault}"
            )
        if answer.diagnosis:
            self.reading.diagnoses.append(answer.diagnosis)
        await asyncio.to_thread(self._check, answer, search.shown)
        for mode, found in answer.rows.items():
            self.reading.rows[mode] = with_search(
                mode, self.reading.rows[mode], found, complete=complete
            )


def _hint(error: str) -> str:
    """What to do about a question that was too long for the model."""
    too_long = re.search(
        r"context|too long|too large|too many (input )?tokens", error, re.IGNORECASE
    )
    return " A smaller `window` (`--window`) makes questions shorter." if too_long else ""
