"""The judge: a model is asked about the modes that rules could not decide.

Invariant: a mode is `present` or `absent` only if a well-formed answer says so, `present` only
with evidence that is really in the trace; everything else is `unknown`, with the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from rolecraft.errors import BadModelResponse, ModelUnavailable
from rolecraft.failure_taxonomy.evidence import verified
from rolecraft.failure_taxonomy.judging.answers import Answer, no_answer, read_answer
from rolecraft.failure_taxonomy.judging.asking import Asker
from rolecraft.failure_taxonomy.judging.prompt import SYSTEM, make_marker, write_prompt
from rolecraft.failure_taxonomy.modes import MODES, get_mode
from rolecraft.failure_taxonomy.view import TraceView
from rolecraft.failure_taxonomy.windows import Window, windows
from rolecraft.messages import Message
from rolecraft.models.base import Model, Sampling
from rolecraft.models.budget import Budget
from rolecraft.trajectories.events import FailureFinding, Usage
from rolecraft.trajectories.trajectory import Trajectory

WINDOW = 300_000
"""Characters of trace that one call gets: some 75,000 to 100,000 tokens of English or code."""
OVERLAP = 20_000


@dataclass(slots=True)
class Opinion:
    """What a judge said about one trajectory."""

    model: str
    findings: list[FailureFinding] = field(default_factory=list)
    """At least one for every mode that was asked about."""
    dropped: list[str] = field(default_factory=list)
    """Why findings were not accepted, one line for each."""
    diagnoses: list[str] = field(default_factory=list)
    """The judge's own words, one text a window."""
    windows: int = 0
    coverage: float = 0.0
    """Share of the trace's text, in [0, 1], about which a usable answer was given."""
    usage: Usage = field(default_factory=lambda: Usage(calls=0))


class Judge:
    """Asks `model` (a `Model` or its name) about failure modes.

    `window` and `overlap` are in characters: a trace that is longer than one window is judged in
    several that overlap. `seed` makes the fence's marker, and sampling where the model supports
    it, repeatable.
    """

    def __init__(
        self,
        model: Model | str,
        *,
        window: int = WINDOW,
        overlap: int | None = None,
        sampling: Sampling | None = None,
        seed: int = 0,
        budget: Budget | None = None,
        asker: Asker | None = None,
    ) -> None:
        if isinstance(model, str):
            from rolecraft.models.resolve import resolve_model

            model = resolve_model(model)
        self.model = model
        self.window = window
        self.overlap = min(OVERLAP, window // 4) if overlap is None else overlap
        self.asker = asker or Asker(model, sampling=sampling, budget=budget)
        self.seed = seed

    @property
    def source(self) -> str:
        """What findings of this judge name as their source."""
        return f"judge:{self.model.name}"

    async def judge(
        self, trace: Trajectory | TraceView, *, modes: Sequence[str] | None = None
    ) -> Opinion:
        """Ask about `modes` (concept ids; by default every known one), one call a window.

        A model that cannot be reached or that answers nonsense leaves the modes `unknown`. Raises
        `UnknownName` for an unknown mode, `LimitReached` when a budget is used up, and the errors
        of a model that is set up wrongly (`MissingKey`).
        """
        asked = list(MODES) if modes is None else [get_mode(mode).id for mode in modes]
        opinion = Opinion(self.model.name)
        if not asked:
            return opinion
        view = TraceView.of(trace)
        parts = windows(view, size=self.window, overlap=self.overlap)
        answers: list[Answer] = []
        covered = 0
        for number, part in enumerate(parts, start=1):
            answer = await self._ask(part, asked, number, len(parts), opinion)
            answers.append(answer)
            if answer.usable:
                covered += part.covers
                opinion.diagnoses.append(answer.diagnosis)
        opinion.windows = len(parts)
        opinion.coverage = covered / max(sum(part.covers for part in parts), 1)
        for mode in asked:
            opinion.findings += self._merge(mode, [answer.rows[mode] for answer in answers])
        return opinion

    async def _ask(
        self, part: Window, asked: Sequence[str], number: int, parts: int, opinion: Opinion
    ) -> Answer:
        """One call: the answer with its evidence checked."""
        marker = make_marker(part.text(""), self.seed)
        prompt = write_prompt(
            [get_mode(mode) for mode in asked],
            part.text(marker),
            marker=marker,
            part=number,
            parts=parts,
        )
        conversation = self.asker.open(system=SYSTEM, seed=self.seed)
        try:
            completion = await conversation.ask(Message(prompt))
        except (ModelUnavailable, BadModelResponse) as error:
            return no_answer(asked, f"the model gave no answer: {error}")
        opinion.usage = opinion.usage + completion.usage
        answer = read_answer(completion, marker=marker, asked=asked, source=self.source)
        opinion.dropped += [
            f"a row about {mode!r}, which was not asked for" for mode in answer.strays
        ]
        for mode, rows in answer.rows.items():
            if not isinstance(rows, str):
                answer.rows[mode] = self._checked(rows, part, opinion)
        return answer

    def _checked(
        self, rows: list[FailureFinding], part: Window, opinion: Opinion
    ) -> list[FailureFinding] | str:
        """The rows whose evidence holds; why there is none if all of it was made up."""
        kept: list[FailureFinding] = []
        faults: list[str] = []
        for row in rows:
            result = verified(row, part.events, shown=part.shown)
            if isinstance(result, str):
                faults.append(result)
                opinion.dropped.append(f"the finding `{row.mode}` {result}")
            else:
                kept.append(result)
        return kept or f"the evidence was dropped: the finding {faults[0]}"

    def _merge(self, mode: str, said: Sequence[list[FailureFinding] | str]) -> list[FailureFinding]:
        """One mode over all windows.

        A failure seen in one window is in the trace. That something is missing from the whole
        trace is only seen from its end, and any window that saw the thing speaks against it.
        """
        rows = [row for part in said if not isinstance(part, str) for row in part]
        present = [row for row in rows if row.verdict == "present"]
        if present and get_mode(mode).absence and len(said) > 1:
            seen = any(row.verdict == "absent" for row in rows)
            at_end = said[-1]
            if seen or isinstance(at_end, str) or at_end[0].verdict != "present":
                return [self._unknown(mode, "the windows of a long trace disagree")]
            present = at_end
        if present:
            return _distinct(present)
        if all(not isinstance(part, str) and part[0].verdict == "absent" for part in said):
            return [replace(rows[0], events=(), role="", quote="")]
        reasons = [part if isinstance(part, str) else part[0].reason for part in said]
        return [self._unknown(mode, next(filter(None, reasons), "the judge could not tell"))]

    def _unknown(self, mode: str, reason: str) -> FailureFinding:
        return FailureFinding(mode, "unknown", source=self.source, reason=reason)


def _distinct(rows: list[FailureFinding]) -> list[FailureFinding]:
    """Without what two windows saw in their overlap; in the order of events."""
    distinct = {(row.events[0], row.role): row for row in reversed(rows)}
    return sorted(distinct.values(), key=lambda row: row.events)
