"""The judge: a model is asked about the modes that rules could not decide.

Invariant: a mode is `present` or `absent` only if a well-formed answer says so, `present` only
with evidence that is really in the trace; everything else is `unknown`, with the reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from rolecraft.errors import LimitReached, UsageError
from rolecraft.failure_taxonomy.judging.asking import Asker
from rolecraft.failure_taxonomy.judging.examples import EXAMPLES
from rolecraft.failure_taxonomy.judging.measured import Measured, read_measured
from rolecraft.failure_taxonomy.judging.merging import of_samples
from rolecraft.failure_taxonomy.judging.opinion import Opinion
from rolecraft.failure_taxonomy.judging.reading import Reader, Reading, Record
from rolecraft.failure_taxonomy.judging.redaction import Redaction
from rolecraft.failure_taxonomy.modes import MODES, Mode, get_mode
from rolecraft.failure_taxonomy.view import TraceView
from rolecraft.failure_taxonomy.windows import preamble_of, visible, windows
from rolecraft.models.base import Model, Sampling
from rolecraft.models.budget import Budget
from rolecraft.trajectories.trajectory import Trajectory

WINDOW = 300_000
"""Characters of trace that one call gets: some 75,000 to 100,000 tokens of English or code."""
OVERLAP = 20_000

Grouping = Literal[
    "all",  # all modes in one call
    "category",  # a call for the modes of each category
    "mode",  # a call for each mode
]

VARIANTS = {"zero-shot": 0, "few-shot": len(EXAMPLES)}
"""`shots` by the name of the variant."""


class Judge:
    """Asks `model` (a `Model` or its name) about failure modes.

    `window` and `overlap` are in characters: a trace that is longer than one window is judged in
    several that overlap, and then, with `search`, once more as a whole by a judge with tools, for
    the modes that only the whole shows. `shots` worked examples are shown before the trace
    (`VARIANTS` has the numbers by name).

    With `samples` above 1 everything is asked so often, a verdict needs the share `agree` of the
    samples, above one half, and becomes `unknown` without it; a finding's confidence is then the
    share that names its place (an `absent` has none: the share that has the verdict), where it is
    the model's own claim otherwise.

    `judge_sees_outcome` tells the judge how the run ended; every finding's source then says so.
    `agreement` is how far such a judge was measured to agree with people, or a file of it.
    `redaction` takes secrets out of a trace before the judge sees it; quotes stay without them.
    `seed` makes the fence's marker, and sampling where the model supports it, repeatable. `asker`
    makes the calls (cache, pace), with its own `sampling` and `budget`.
    """

    def __init__(
        self,
        model: Model | str,
        *,
        window: int = WINDOW,
        overlap: int | None = None,
        grouping: Grouping = "all",
        shots: int = 0,
        samples: int = 1,
        agree: float = 0.6,
        search: bool = True,
        judge_sees_outcome: bool = False,
        agreement: Measured | Path | str | None = None,
        redaction: Redaction | None = None,
        sampling: Sampling | None = None,
        seed: int = 0,
        budget: Budget | None = None,
        asker: Asker | None = None,
    ) -> None:
        if isinstance(model, str):
            from rolecraft.models.resolve import resolve_model

            model = resolve_model(model)
        if grouping not in get_args(Grouping):
            raise UsageError(f"`grouping` is one of {get_args(Grouping)}, not {grouping!r}.")
        if not 0 <= shots <= len(EXAMPLES):
            raise UsageError(f"`shots` is a number from 0 to {len(EXAMPLES)}, not {shots!r}.")
        if samples < 1 or not 0.5 < agree <= 1:
            raise UsageError(
                f"A judge takes at least one sample, of which more than half have to agree; got "
                f"`samples={samples!r}`, `agree={agree!r}` (a share)."
            )
        self.model = model
        self.window = window
        self.overlap = min(OVERLAP, window // 4) if overlap is None else overlap
        self.grouping: Grouping = grouping
        self.shots = shots
        self.samples = samples
        self.agree = agree
        self.search = search
        self.sees_outcome = judge_sees_outcome
        self.redaction = redaction
        self.asker = asker or Asker(model, sampling=sampling, budget=budget)
        self.seed = seed
        sampled = self.asker.sampling
        if samples > 1 and sampled is not None and sampled.temperature == 0:
            raise UsageError(
                f"`samples={samples}` at temperature 0 are one answer {samples} times. "
                f"Leave the temperature out, or take one sample."
            )
        self.agreement = self._measured(agreement)

    @property
    def source(self) -> str:
        """What findings of this judge name as their source."""
        return f"judge:{self.model.name}{'+outcome' if self.sees_outcome else ''}"

    async def judge(
        self, trace: Trajectory | TraceView, *, modes: Sequence[str] | None = None
    ) -> Opinion:
        """Ask about `modes` (concept ids; by default every known one).

        One call for each window, group of modes and sample: one call for a trace that fits. A
        model that cannot be reached or that answers nonsense leaves the modes `unknown`. Raises
        `UnknownName` for an unknown mode, `LimitReached` when a budget is used up, and the errors
        of a model that is set up wrongly (`MissingKey`).
        """
        asked = [get_mode(mode) for mode in dict.fromkeys(MODES if modes is None else modes)]
        opinion = self._opinion()
        if not asked:
            return opinion
        view, redacted = TraceView.of(trace), None
        if self.redaction is not None:
            redacted = await asyncio.to_thread(self.redaction.apply, view)
            view, opinion.redacted = redacted.view, redacted.counts
        record = await asyncio.to_thread(self._record, view)
        groups = _grouped(asked, self.grouping)
        readings = await _together(
            self._read(record, group, sample) for sample in range(self.samples) for group in groups
        )
        by_sample = [readings[at : at + len(groups)] for at in range(0, len(readings), len(groups))]
        for mode in asked:
            said = [
                reading.rows[mode.id]
                for sample in by_sample
                for reading in sample
                if mode.id in reading.rows
            ]
            rows, votes = of_samples(mode.id, said, agree=self.agree, source=self.source)
            opinion.findings += rows
            opinion.votes[mode.id] = votes
        if redacted is not None:
            opinion.findings = redacted.restored(opinion.findings)
        _account(opinion, readings, record)
        return opinion

    def _record(self, view: TraceView) -> Record:
        outcome = self.sees_outcome
        return Record(
            view=view,
            windows=tuple(windows(view, size=self.window, overlap=self.overlap, outcome=outcome)),
            preamble=tuple(preamble_of(view, outcome=outcome)),
            events={event.seq: event for event in visible(view)},
            seed=self.seed,
        )

    async def _read(self, record: Record, modes: Sequence[Mode], sample: int) -> Reading:
        reader = Reader(
            self.asker,
            record,
            modes,
            seed=self.seed + sample * _FAR,
            source=self.source,
            shots=self.shots,
            search=self.search,
        )
        return await reader.read()

    def _opinion(self) -> Opinion:
        return Opinion(
            self.model.name,
            shots=self.shots,
            grouping=self.grouping,
            samples=self.samples,
            agree=self.agree if self.samples > 1 else 1.0,
            sees_outcome=self.sees_outcome,
            agreement=self.agreement,
        )

    def _measured(self, given: Measured | Path | str | None) -> Measured | None:
        """The agreement that was measured of this judge. Raises `UsageError` for another's."""
        if given is None:
            return None
        rows = [given] if isinstance(given, Measured) else read_measured(given)
        variant = "few-shot" if self.shots else "zero-shot"
        name = self.model.name
        for row in rows:
            if row.is_of(name, variant, sees_outcome=self.sees_outcome):
                return row
        told = "told" if self.sees_outcome else "not told"
        raise UsageError(
            f"`agreement` holds nothing that was measured of {name!r}, {variant}, {told} the "
            f"outcome; it is about {sorted({row.model for row in rows})!r}. Agreement of one judge "
            f"says nothing about another: measure this one, or leave `agreement` out."
        )


_FAR = 1_000_003
"""Between the seeds of two samples, so that those of neighbouring seeds do not meet."""


def _grouped(modes: Sequence[Mode], grouping: Grouping) -> list[list[Mode]]:
    groups: dict[str, list[Mode]] = {}
    for mode in modes:
        key = {"all": "", "category": mode.category.value, "mode": mode.id}[grouping]
        groups.setdefault(key, []).append(mode)
    return list(groups.values())


async def _together(readings: Iterable[Coroutine[Any, Any, Reading]]) -> list[Reading]:
    """All of them at once. If one fails, the others are stopped before its error comes out.

    At a limit they go on: calls under way are paid for, so their answers are taken and kept.
    """
    tasks = [asyncio.ensure_future(reading) for reading in readings]
    try:
        return await asyncio.gather(*tasks)
    except LimitReached:
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _account(opinion: Opinion, readings: Sequence[Reading], record: Record) -> None:
    total = max(sum(window.covers for window in record.windows), 1)
    weights = [len(reading.rows) for reading in readings]
    covered = sum(w * reading.covered for w, reading in zip(weights, readings, strict=True))
    opinion.windows = len(record.windows)
    opinion.coverage = covered / (total * sum(weights))
    for reading in readings:
        opinion.dropped += reading.dropped
        opinion.diagnoses += reading.diagnoses
        opinion.usage = opinion.usage + reading.usage
    notes = dict.fromkeys(note for reading in readings for note in reading.notes)
    opinion.notes += notes
