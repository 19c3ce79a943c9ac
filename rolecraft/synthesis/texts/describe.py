"""Texts for the valid candidates of a folder: one at a time, whatever their number.

    described = await describe(folder, model=LiteLLMModel("openai/gpt-4o-mini"), usd=2.0)

Invariant: a text that is there is kept, unless it is to be written again, and a model is asked
about a task once: also about one of which the templates could say nothing. What is held of a task
is gone when its text is written, but for a digest by which texts that would say the same are told.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from rolecraft.errors import LimitReached, ModelError, UsageError
from rolecraft.models.base import Model
from rolecraft.models.hashing import hash64
from rolecraft.sandboxes import SandboxProvider
from rolecraft.synthesis.asking import MAX_TOKENS, Asker
from rolecraft.synthesis.candidates import Candidate
from rolecraft.synthesis.folder import SynthesisFolder
from rolecraft.synthesis.ledger import Ledger, LedgerView
from rolecraft.synthesis.plan import Plan
from rolecraft.synthesis.texts.alike import gist
from rolecraft.synthesis.texts.by_model import write_text
from rolecraft.synthesis.texts.leaks import Leak
from rolecraft.synthesis.texts.proof import Proof
from rolecraft.synthesis.texts.readme import about
from rolecraft.synthesis.texts.solution import Sources
from rolecraft.synthesis.texts.telling import Telling, Told
from rolecraft.synthesis.texts.text import IssueText, TextSource
from rolecraft.synthesis.verdicts import Verdict

SHOWN_TO_MODEL = 3
"""Symptoms that a model is told of, at most."""


@dataclass(slots=True)
class Described:
    """What became of the valid candidates."""

    written: Counter[TextSource] = field(default_factory=Counter)
    """New texts, by who wrote them."""
    kept: int = 0
    """Tasks that had one, or of which it was known that there is none."""
    kept_without: Counter[str] = field(default_factory=Counter)
    """Those of them that have none, by the reason."""
    alike: int = 0
    """New ones that say what another task's text says as well: their failing tests tell no more."""
    without: dict[str, str] = field(default_factory=dict)
    """Ids of which nothing can be said, and why: a constant of `telling.py`."""
    unproven: int = 0
    """New texts by templates whose code could not be run, with the bug and without."""
    why_unproven: str = ""
    """Why no code could be run, if so."""
    failed: dict[str, str] = field(default_factory=dict)
    """Ids for which the model did not answer, and why: the next call asks again."""
    usd: float | None = 0.0
    """What this call's texts took; None where a price is not known."""
    stopped: str = ""
    """What ended it early: the budget, or that the model answered no more."""

    @property
    def total(self) -> int:
        """New texts."""
        return sum(self.written.values())


async def describe(
    folder: SynthesisFolder,
    *,
    model: Model | None = None,
    usd: float | None = None,
    at_once: int = 8,
    max_tokens: int = MAX_TOKENS,
    on_wait: Callable[[str], None] = lambda words: None,
    again: bool = False,
    provider: SandboxProvider | None = None,
    prove: bool = True,
    on_text: Callable[[IssueText], None] = lambda text: None,
) -> Described:
    """Write `folder.texts` for the valid candidates: by `model`, or by templates.

    A model's answer has up to `max_tokens`, and `on_wait` is told in words what is waited for.
    `usd` is what models may cost in US dollars, with what earlier calls on this folder took, also
    for texts that were replaced. With `again` also tasks that have a text get a new one; a `model`
    is asked without it about tasks of which templates could say nothing. The code of templates is
    run in sandboxes of `provider`, with the bug and without, unless `prove` is False. Raises
    `UsageError` if there is no plan or nothing was validated, and `ModelError` for a model that
    cannot be asked at all.
    """
    plan = Plan.load(folder)
    if not folder.verdicts.exists():
        raise UsageError(
            f"Nothing in `{folder.path}` is validated yet: `rolecraft synth validate "
            f"{folder.path}` comes before its texts."
        )
    found = Described()
    candidates = LedgerView(folder.candidates, Candidate, key=lambda each: each.id)
    verdicts = LedgerView(folder.verdicts, Verdict, key=lambda each: each.candidate)
    texts = Ledger(folder.texts, IssueText, key=lambda each: each.task)
    with candidates, verdicts, texts:
        writing = await asyncio.to_thread(_Writing, plan, provider, prove, texts, found, on_text)
        if not again:
            writing.said.update(gist(each.text) for each in texts if each.has_text)

        def todo() -> Iterator[tuple[Candidate, Verdict]]:
            for verdict in verdicts:
                if not verdict.is_valid or verdict.candidate not in candidates:
                    continue
                before = texts.get(verdict.candidate)
                if before is not None and not again and not _to_be_asked(before, model):
                    found.kept += 1
                    if not before.has_text:
                        asked = "; a model could not tell it either" if before.model else ""
                        found.kept_without[before.why.rpartition("; ")[2] + asked] += 1
                    continue
                yield candidates[verdict.candidate], verdict

        async with contextlib.aclosing(writing):
            if model is None:
                for candidate, verdict in todo():
                    await writing.by_template(candidate, verdict)
                return found
            spent = sum(text.spent_usd for text in texts) if usd is not None else 0.0
            asker = Asker(
                model,
                usd=usd,
                spent_usd=spent,
                max_tokens=max_tokens,
                at_once=at_once,
                on_wait=on_wait,
            )

            async def work(item: tuple[Candidate, Verdict]) -> None:
                await writing.by_model(*item, asker)

            stopped = await asker.each(todo(), work)
            found.stopped = "" if stopped is None else str(stopped)
    return found


def _to_be_asked(text: IssueText, model: Model | None) -> bool:
    """Whether there is no text yet, and a model that was not asked for one."""
    return model is not None and not text.has_text and not text.model


class _Writing:
    def __init__(
        self,
        plan: Plan,
        provider: SandboxProvider | None,
        prove: bool,
        texts: Ledger[IssueText],
        found: Described,
        on_text: Callable[[IssueText], None],
    ) -> None:
        self._project, self._texts, self._found = plan.project, texts, found
        self._on_text = on_text
        project = plan.project
        sources = Sources(project, project.read)
        self._proof = Proof(plan, sources, provider=provider, wanted=prove)
        self._telling = Telling(project, sources, self._proof, self._is_new)
        self._about = about(Path(project.source))
        self.said: set[bytes] = set()
        """The gist of each text that is there."""

    async def aclose(self) -> None:
        self._found.why_unproven = self._proof.why
        await self._proof.close()

    async def by_template(self, candidate: Candidate, verdict: Verdict) -> None:
        told = await self._telling.of(candidate, verdict, most=1)
        self._write(candidate.id, told, "", None, "", ())

    async def by_model(self, candidate: Candidate, verdict: Verdict, asker: Asker) -> None:
        told = await self._telling.of(candidate, verdict, most=SHOWN_TO_MODEL)
        seen = told.clean[:SHOWN_TO_MODEL] or told.rest[:1]
        if not seen:
            self._write(candidate.id, told, "", None, "", ())
            return
        try:
            written = await write_text(
                asker,
                told.solution,
                seen,
                project=self._project.name,
                about=self._about,
                seed=hash64("issue-text", candidate.id) % 2**31,
            )
        except LimitReached:
            raise
        except ModelError as error:
            self._found.failed[candidate.id] = str(error)
            return
        name = asker.model.name
        if written.text:
            self._add(
                IssueText(
                    task=candidate.id,
                    text=written.text,
                    source="model",
                    leaks=written.leaks,
                    model=name,
                    usd=written.usd,
                )
            )
        else:
            self._write(candidate.id, told, name, written.usd, written.why, written.leaks)

    def _is_new(self, text: str) -> bool:
        return gist(text) not in self.said

    def _write(
        self,
        task: str,
        told: Told,
        model: str,
        usd: float | None,
        why: str,
        leaks: tuple[Leak, ...],
    ) -> None:
        """By a template, where there is a symptom that can be told."""
        text = told.clean[0] if told.clean else ""
        self._found.unproven += text in told.unproven
        if not text:
            self._found.without[task] = told.lacking
            why = f"{why}; {told.lacking}" if why else told.lacking
            leaks = (*leaks, *told.leaks)
        self._add(
            IssueText(
                task=task,
                text=text,
                source="template",
                leaks=leaks,
                why=why,
                model=model,
                usd=usd,
            )
        )

    def _add(self, text: IssueText) -> None:
        before = self._texts.get(text.task)
        if before is not None:
            text = replace(text, replaced_usd=before.spent_usd)
        if text != before:
            self._texts.append(text)
        if text.has_text:
            self._found.alike += not self._is_new(text.text)
            self.said.add(gist(text.text))
            self._found.written[text.source] += 1
        if text.model:
            spent = self._found.usd
            both = spent is not None and text.usd is not None
            self._found.usd = (spent or 0.0) + (text.usd or 0.0) if both else None
        self._on_text(text)
