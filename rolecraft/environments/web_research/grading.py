"""Grading research: three checks of what the record says, each with its evidence.

- `answer`: is it the right one? Equal words or numbers decide at once; else the judge, if there is
  one; without one an answer that is not equal is wrong.
- `information`: do pages that were really read carry the claims, and from how many sources?
- `reasoning`: which links of the chain from the question to the answer hold?

A check that could not be made, because the judge or the web was down, is a check with a `problem`
and without values: nothing was measured, which is another thing than 0.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args
from urllib.parse import unquote_plus, urlsplit

from rolecraft.environments.task import Task
from rolecraft.environments.web_research.domains import sources_of
from rolecraft.environments.web_research.judging import JudgeFailed, Opinion, ResearchJudge
from rolecraft.environments.web_research.matching import matches, normalised
from rolecraft.environments.web_research.record import (
    Answer,
    SeenPage,
    answer_of,
    pages_read,
    unavailable,
)
from rolecraft.environments.web_research.support import SHARE, Pages, Passage
from rolecraft.environments.web_research.words import telling, words_of
from rolecraft.errors import UsageError
from rolecraft.trajectories.events import Event
from rolecraft.trajectories.trajectory import Trajectory

Target = Literal["answer", "information", "reasoning"]
TARGETS: tuple[Target, ...] = get_args(Target)

LONGEST = 2_000
"""Characters of an answer that was not submitted but said; more is none."""
CARRIED, SPREAD = 0.75, 0.25
"""The parts of `information.quality`: claims that pages carry, and how many sources there are."""


@dataclass(frozen=True, slots=True)
class Check:
    """What came of one check."""

    target: Target
    values: dict[str, float] = field(default_factory=dict)
    """Signals by name."""
    why: str = ""
    """For people."""
    evidence: dict[str, Any] = field(default_factory=dict)
    """What it rests on; types of JSON."""
    judge: str = ""
    """Who was asked; empty if it was measured without a judge."""
    cost: float | None = None
    """US dollars that the judge cost; None if unknown, or if it was not asked."""
    problem: str = ""
    """Why nothing could be measured."""

    def event(self) -> Event:
        """The check as the record has it."""
        data = asdict(self)
        del data["why"]
        if self.problem:
            return Event("error", content=self.problem, data={"type": FAILURE, **data})
        main = self.values[MAIN[self.target]]
        return Event("verify", content=self.why, data={"passed": main >= 1.0, **data})

    @classmethod
    def of(cls, event: Event) -> Check | None:
        """The check that an event records; None if it is of something else."""
        data = event.data
        if event.kind not in ("verify", "error") or data.get("target") not in TARGETS:
            return None
        names = ("target", "values", "evidence", "judge", "cost", "problem")
        if any(name not in data for name in names):
            return None
        return cls(
            why=event.content if event.kind == "verify" else "", **{n: data[n] for n in names}
        )


FAILURE = "InfrastructureFailure"
MAIN: dict[Target, str] = {
    "answer": "answer.correct",
    "information": "information.supported",
    "reasoning": "reasoning.chain",
}
"""The signal that says how a check went."""


class ResearchGrader:
    """Grades runs of research, with a judge or without one.

    The same for a run that is over: `await grader.check(target, task, trajectory, answers="Ada")`.
    """

    def __init__(self, judge: ResearchJudge | None = None) -> None:
        self.judge = judge

    async def check(
        self, target: Target, task: Task, trajectory: Trajectory, *, answers: str
    ) -> Check:
        """One of the three checks of what the role `answers` did. Raises `UsageError`."""
        if target not in TARGETS:
            raise UsageError(f"There is no check {target!r}: known are {', '.join(TARGETS)}.")
        events = trajectory.events
        if reason := unavailable(events):
            return Check(target, problem=f"The web was not available: {reason}")
        answer = answer_of(events, answers)
        if answer is not None and len(answer.text) > LONGEST:
            answer = None
        try:
            if target == "answer":
                return await self._answer(task, answer)
            pages = pages_read(events)
            if target == "information":
                return await self._information(task, answer, pages)
            return await self._reasoning(task, answer, pages)
        except JudgeFailed as error:
            return Check(target, judge=error.judge, problem=str(error))

    # --- is it right? -------------------------------------------------------------------------

    async def _answer(self, task: Task, answer: Answer | None) -> Check:
        accepted = accepted_answers(task)
        if answer is None:
            return Check("answer", {"answer.given": 0.0, "answer.correct": 0.0}, "No answer.")
        evidence: dict[str, Any] = {"given": answer.text, "accepted": accepted, "step": answer.step}
        found = matches(answer.text, accepted)
        if found is not None:
            values = {"answer.given": 1.0, "answer.correct": 1.0}
            return Check("answer", values, f"It is the answer {found!r}.", evidence)
        if self.judge is None:
            values = {"answer.given": 1.0, "answer.correct": 0.0}
            why = f"{answer.text!r} is not {accepted[0]!r}, word for word."
            return Check("answer", values, why, evidence)
        opinion = await self.judge.same_answer(question_of(task), accepted, answer.text)
        values = {"answer.given": 1.0, "answer.correct": float(opinion.verdicts[0])}
        why = f"{answer.text!r} against {accepted[0]!r}: {opinion.reason}"
        return self._judged("answer", values, why, evidence, opinion)

    # --- is it backed? ------------------------------------------------------------------------

    async def _information(
        self, task: Task, answer: Answer | None, pages: Sequence[SeenPage]
    ) -> Check:
        claims = _claims(answer)
        domains = sources_of(page.url for page in pages)
        counted = {
            "information.pages": float(len(pages)),
            "information.domains": float(len(domains)),
        }
        evidence: dict[str, Any] = {
            "pages": [{"url": page.url, "steps": list(page.steps)} for page in pages],
            "domains": domains,
            "claims": [],
        }
        if not claims or not pages:
            why = "No page was read." if claims else "No claim was made that a page could carry."
            values = {"information.supported": 0.0, "information.quality": 0.0, **counted}
            return Check("information", values, why, evidence)
        passages = await asyncio.to_thread(_passages, claims, pages)
        carried: dict[int, tuple[str, str]] = {}
        for number, best in passages.items():
            for each in best:
                # Where somebody can be asked, words in another order may be another claim.
                if each.carries and (each.literal or self.judge is None):
                    carried[number] = (each.url, each.text)
                    break
        opinion = None
        unsettled = {
            number: (claim, passages[number])
            for number, (claim, _) in claims.items()
            if number not in carried and passages[number]
        }
        if self.judge is not None and unsettled:
            opinion = await self.judge.supported(unsettled)
            carried |= opinion.quotes
        for number, (claim, source) in claims.items():
            url, quote = carried.get(number, ("", ""))
            evidence["claims"].append(
                {"claim": claim, "source": source, "carried_by": url, "quote": quote}
            )
        supported = len(carried) / len(claims)
        sources = sources_of(url for url, _ in carried.values())
        spread = min(1.0, len(sources) / wanted_domains(task))
        values = {
            "information.supported": supported,
            "information.quality": CARRIED * supported + SPREAD * spread * supported,
            **counted,
        }
        why = _in_words(evidence["claims"], len(carried))
        return self._judged("information", values, why, evidence, opinion)

    # --- does it follow? ----------------------------------------------------------------------

    async def _reasoning(
        self, task: Task, answer: Answer | None, pages: Sequence[SeenPage]
    ) -> Check:
        steps = answer.steps if answer is not None else ()
        if answer is None or not steps:
            return Check("reasoning", {"reasoning.chain": 0.0}, "There are no steps to an answer.")
        holds: dict[int, bool] = {}
        for number, step in enumerate(steps, 1):
            if step.source:
                holds[number] = any(page.is_at(step.source) for page in pages)
            else:
                holds[number] = any(holds.values())
        holds[0] = _states(steps[-1].claim, answer.text)
        opinion = None
        if self.judge is not None and any(holds[n] for n, s in enumerate(steps, 1) if s.source):
            opinion = await self.judge.follows(question_of(task), steps, answer.text)
            for number, verdict in opinion.verdicts.items():
                # What stands on nothing that was read does not hold, whatever is thought of it.
                grounded = number == 0 or holds[number]
                holds[number] = verdict and grounded
        if not any(holds[number] for number, step in enumerate(steps, 1) if step.source):
            holds = dict.fromkeys(holds, False)
        broken = [number for number in sorted(holds) if not holds[number]]
        links = [{"step": number, "holds": holds[number]} for number in sorted(holds)]
        value = sum(holds.values()) / len(holds)
        said = ", ".join("the answer" if number == 0 else f"step {number}" for number in broken)
        why = f"Links that do not hold: {said}." if broken else "Every link holds."
        if opinion is not None and opinion.reason:
            why += f" {opinion.reason}"
        return self._judged("reasoning", {"reasoning.chain": value}, why, {"links": links}, opinion)

    def _judged(
        self,
        target: Target,
        values: dict[str, float],
        why: str,
        evidence: dict[str, Any],
        opinion: Opinion | None,
    ) -> Check:
        if opinion is None or self.judge is None:
            return Check(target, values, why, evidence)
        return Check(target, values, why, evidence, judge=self.judge.name, cost=opinion.usage.usd)


def question_of(task: Task) -> str:
    """The question of a task. Raises `UsageError` if it has none."""
    return _text(task, "question")


def accepted_answers(task: Task) -> list[str]:
    """The right answer of a task and its other spellings. Raises `UsageError` if it has none."""
    return [_text(task, "answer"), *task.data.get("aliases", ())]


def _text(task: Task, name: str) -> str:
    value = task.data.get(name)
    if not isinstance(value, str) or not value.strip():
        raise UsageError(f"Task {task.id!r} has no `{name}` in its data: make it with `Question`.")
    return value


def wanted_domains(task: Task) -> int:
    """From how many sources the reference is, as far as the task says; at least one."""
    return max(1, len(sources_of(task.data.get("links", ()))))


def _claims(answer: Answer | None) -> dict[int, tuple[str, str]]:
    """What an answer claims to have read, and where, by number: its steps with a source.

    Of an answer that has no steps at all, itself, wherever it was read.
    """
    if answer is None:
        return {}
    if not answer.steps:
        return {1: (answer.text, "")}
    return {
        number: (step.claim, step.source)
        for number, step in enumerate(answer.steps, 1)
        if step.source
    }


def _passages(
    claims: dict[int, tuple[str, str]], pages: Sequence[SeenPage]
) -> dict[int, list[Passage]]:
    """For each claim the passages most like it, of the page that it names."""
    cut = Pages((page.url, page.title, page.text) for page in pages)
    return {
        number: cut.best(
            claim,
            urls=[
                page.url
                for page in pages
                if (page.is_at(source) or not source) and not _put_there(page, claim)
            ],
        )
        for number, (claim, source) in claims.items()
    }


def _put_there(page: SeenPage, claim: str) -> bool:
    """Whether a claim stands in the query of the page's address: the page may only echo it."""
    asked = (urlsplit(address).query for address in (page.url, *page.asked))
    given = set(words_of(" ".join(unquote_plus(query) for query in asked)))
    wanted = telling(words_of(claim))
    return bool(wanted) and len(wanted & given) / len(wanted) >= SHARE


def _in_words(claims: Sequence[Mapping[str, str]], carried: int) -> str:
    """Which claim stands where, for people."""
    lines = [f"{carried} of {len(claims)} claims stand in pages that were read."]
    for each in claims:
        quote = " ".join(each["quote"].split())
        found = f"{each['carried_by']}: “{quote}”" if each["carried_by"] else "in none of them"
        lines.append(f"- {each['claim']}\n  {found}")
    return "\n".join(lines)


def _states(claim: str, answer: str) -> bool:
    """Whether a claim has the answer in it, as words."""
    wanted, said = normalised(answer).split(), normalised(claim).split()
    return bool(wanted) and any(
        said[at : at + len(wanted)] == wanted for at in range(len(said) - len(wanted) + 1)
    )
