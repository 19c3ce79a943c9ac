"""What a campaign will come to, before anything is asked: calls, tokens, US dollars.

The prompts are made as they will be asked, so their number and length are real; nothing leaves
the machine. What the model will answer is a guess, between what answers usually have and what
they may have. Answers that the cache holds cost nothing. What depends on the answers (notes that
are carried from window to window, the search of a long trace with tools) is not in the numbers;
how many traces are searched is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace

from rolecraft.errors import TraceError
from rolecraft.failure_taxonomy.annotate import annotate
from rolecraft.failure_taxonomy.judging.asking import Asker
from rolecraft.failure_taxonomy.judging.campaign import Campaign
from rolecraft.failure_taxonomy.judging.merging import is_global
from rolecraft.failure_taxonomy.judging.tally import money
from rolecraft.messages import Message
from rolecraft.models.base import Completion, Sampling, Session, Tool
from rolecraft.models.prompt_cache import question

USUAL_ANSWER = 1200
"""Tokens of an answer about 14 modes: a diagnosis and 14 rows. A model's thoughts come on top."""
SEARCH_CALLS = 17
"""So many calls the search of one long trace makes at most."""


@dataclass(slots=True)
class Estimate:
    """What a campaign will come to. Money is None where the price is unknown."""

    traces: int = 0
    unreadable: int = 0
    calls: int = 0
    """Without those in the cache."""
    cached: int = 0
    prompt_tokens: int = 0
    answer_tokens: int = 0
    """At most."""
    usual_usd: float | None = 0.0
    """With answers of the usual length, without thoughts."""
    most_usd: float | None = 0.0
    """With answers as long as they may be."""
    searched: int = 0
    """Long traces with an open mode that no window can show: they are searched as a whole."""

    def __str__(self) -> str:
        """A few lines for people."""
        cached = f", and {self.cached:,} answers are in the cache" if self.cached else ""
        lines = [
            f"Estimate: {self.calls:,} {'call' if self.calls == 1 else 'calls'} for "
            f"{self.traces:,} {'trace' if self.traces == 1 else 'traces'}{cached}; "
            f"{self.prompt_tokens:,} prompt tokens, {self._answers()}; {self._money()}"
        ]
        if self.searched:
            lines.append(
                f"{self.searched:,} of the traces are long: each is searched as a whole too, "
                f"with up to {SEARCH_CALLS} calls that are not in this estimate"
            )
        return "\n".join(lines)

    def _answers(self) -> str:
        usual = min(self.calls * USUAL_ANSWER, self.answer_tokens or self.calls * USUAL_ANSWER)
        most = f", at most {self.answer_tokens:,}" if self.answer_tokens > usual else ""
        return f"some {usual:,} answer tokens{most}"

    def _money(self) -> str:
        if not self.calls:
            return "$0"
        if self.usual_usd is None or self.most_usd is None:
            return "no price is known for this model"
        return f"about {money(self.usual_usd)}, at most {money(self.most_usd)}"


async def estimate(campaign: Campaign, *, on_trace: Callable[[], object] | None = None) -> Estimate:
    """What `campaign` will come to. It is not started; `on_trace` is called for each trace.

    Raises what a wrongly set up judge raises; files that cannot be read are counted.
    """
    found = Estimate()
    judge = campaign.judge
    if judge is None:
        return found
    dry = copy(judge)
    dry.asker = _Dry(judge.asker, found)
    each = campaign.each()
    while (trace := await asyncio.to_thread(next, each, None)) is not None:
        if isinstance(trace, TraceError):
            found.unreadable += 1
            continue
        try:
            report = await annotate(
                trace, judge=dry, format=campaign.format, detectors=campaign.detectors
            )
        except TraceError:
            found.unreadable += 1
            continue
        found.traces += 1
        if on_trace is not None:
            on_trace()
        opinion = report.opinion
        if opinion is not None and opinion.windows > 1 and judge.search:
            found.searched += any(is_global(finding.mode) for finding in opinion.findings)
    return found


class _Dry(Asker):
    """Counts what it is asked, and answers nothing."""

    def __init__(self, real: Asker, found: Estimate) -> None:
        super().__init__(real.model, sampling=real.sampling, cache=real.cache)
        self.found = found

    async def ask(
        self, session: Session, messages: Sequence[Message], tools: Sequence[Tool]
    ) -> Completion:
        asked = [*session.messages, *messages]
        if self.cache is not None:
            name = question(
                self.model, asked, tools=tools, sampling=self.sampling, seed=session.seed
            )
            if name in self.cache:
                self.found.cached += 1
                return Completion(text="")
        session.messages.extend(messages)
        await self.model.prepare()
        await asyncio.to_thread(self._count, session, tools)
        return Completion(text="")

    def _count(self, session: Session, tools: Sequence[Tool]) -> None:
        found, model, sampling = self.found, self.model, self.sampling or Sampling()
        found.calls += 1
        one = replace(sampling, max_tokens=1)
        prompt = model.estimate_tokens(session, one, tools)
        whole = model.estimate_tokens(session, sampling, tools)
        if prompt is None or whole is None:  # four characters a token, as English has
            prompt = sum(len(message.content) for message in session.messages) // 4
            whole = prompt + (sampling.max_tokens or 0)
        else:
            prompt = max(prompt - 1, 0)  # the answer of one token
        found.prompt_tokens += prompt
        found.answer_tokens += whole - prompt
        most = model.estimate_usd(session, sampling, tools) if model.real else 0.0
        usual = replace(sampling, max_tokens=min(USUAL_ANSWER, sampling.max_tokens or USUAL_ANSWER))
        few = model.estimate_usd(session, usual, tools) if model.real else 0.0
        if most is None or few is None or found.most_usd is None or found.usual_usd is None:
            found.most_usd = found.usual_usd = None
        else:
            found.most_usd += most
            found.usual_usd += min(few, most)
