"""What the templates say of a task: its symptoms as texts that are so and give nothing away."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from rolecraft.synthesis.candidates import Candidate
from rolecraft.synthesis.project import Project
from rolecraft.synthesis.texts.leak_check import find_leaks
from rolecraft.synthesis.texts.leaks import Leak
from rolecraft.synthesis.texts.proof import Proof
from rolecraft.synthesis.texts.solution import Solution, Sources
from rolecraft.synthesis.texts.symptom import Symptom, plain, symptoms, told_less
from rolecraft.synthesis.texts.templates import filled_in
from rolecraft.synthesis.verdicts import Verdict

TELLS_TOO_MUCH = "nothing can be said of the failing tests without naming what was changed"
SILENT = "the failing tests print nothing"
NOT_SO = "what the failing tests show could not be told by code that gives the same"
NOT_READ = "no symptom could be read from what the failing tests print"


@dataclass(slots=True)
class Told:
    """A task's symptoms as texts."""

    solution: Solution
    lacking: str
    """Why none is clean, if so."""
    clean: list[str] = field(default_factory=list)
    """Such as give nothing away: first those that were seen to be so, of these such as no other
    task has, of each the best first."""
    unproven: list[str] = field(default_factory=list)
    """Those among them whose code could not be run."""
    leaks: dict[Leak, None] = field(default_factory=dict)
    """Of the others, each once."""
    rest: list[str] = field(default_factory=list)
    """The others, as they are."""


class Telling:
    """Tells of one task at a time."""

    def __init__(
        self, project: Project, sources: Sources, proof: Proof, is_new: Callable[[str], bool]
    ) -> None:
        """`is_new`: whether no other task's text says the same."""
        self._project, self._sources, self._proof = project, sources, proof
        self._is_new = is_new
        self._turn = asyncio.Lock()

    async def of(self, candidate: Candidate, verdict: Verdict, *, most: int) -> Told:
        """So many texts, and as many more as it takes to find one that no other task has."""
        async with self._turn:
            return await self._of(candidate, verdict, most)

    async def _of(self, candidate: Candidate, verdict: Verdict, most: int) -> Told:
        messages = dict(verdict.messages)
        solution = await asyncio.to_thread(self._sources.solution, candidate, verdict.fail_to_pass)
        told = Told(solution, NOT_READ if any(map(str.strip, messages.values())) else SILENT)
        proven: list[str] = []
        tried: set[Symptom] = set()
        for everything in (False, True):
            seen = await asyncio.to_thread(
                symptoms, solution, messages, self._sources, everything=everything
            )
            for symptom in (each for each in seen if each not in tried):
                tried.add(symptom)
                given = await self._with_values(symptom, messages, solution, everything)
                if given is None or not await self._add(given, candidate, told, proven):
                    await self._add(symptom, candidate, told, proven)
                enough = [*proven, *told.unproven] if self._proof.why else proven
                if len(enough) >= most and any(map(self._is_new, enough)):
                    break
            if proven or told.unproven:
                break
        if not (proven or told.unproven):
            for symptom in plain(messages):
                await self._add(symptom, candidate, told, proven)
        for texts in (proven, told.unproven):
            texts.sort(key=self._is_new, reverse=True)
        told.clean = [*proven, *told.unproven]
        return told

    async def _with_values(
        self, symptom: Symptom, messages: dict[str, str], solution: Solution, everything: bool
    ) -> Symptom | None:
        """The same with what the test was given for names of which no code says it, if it can."""
        values = await self._proof.given(symptom.test, symptom.unknown)
        if not values:
            return None
        message = {symptom.test: messages[symptom.test]}
        made = await asyncio.to_thread(
            symptoms, solution, message, self._sources, values, everything=everything
        )
        return made[0] if made else None

    async def _add(
        self, symptom: Symptom, candidate: Candidate, told: Told, proven: list[str]
    ) -> bool:
        """A symptom as a text, told with as much as is so and gives nothing away, if there is."""
        leaky = ""
        found: tuple[Leak, ...] = ()
        false = False
        for less in told_less(symptom):
            text = await asyncio.to_thread(self._text, less, candidate)
            leaks = await asyncio.to_thread(find_leaks, text, told.solution)
            if leaks:
                leaky, found = text, leaks
                continue
            so = await self._proof.says_true(text, less, symptom, candidate, told.solution)
            if so:
                text = await self._with_what_came(text, less, candidate, told.solution)
            if so is not False:
                (told.unproven if so is None else proven).append(text)
                return True
            false = True
        if false:
            told.lacking = NOT_SO if told.lacking != TELLS_TOO_MUCH else told.lacking
        else:
            told.lacking = TELLS_TOO_MUCH
            told.rest.append(leaky)
            told.leaks.update(dict.fromkeys(found))
        return False

    async def _with_what_came(
        self, text: str, symptom: Symptom, candidate: Candidate, solution: Solution
    ) -> str:
        """A text that says what was expected, with the value that came instead, if it may."""
        if symptom.kind != "value" or symptom.got:
            return text
        came = await self._proof.came(text, symptom, candidate, solution)
        if not came:
            return text
        more = replace(symptom, got=came, message="")
        whole = await asyncio.to_thread(self._text, more, candidate)
        leaks = await asyncio.to_thread(find_leaks, whole, solution)
        return text if leaks else whole

    def _text(self, symptom: Symptom, candidate: Candidate) -> str:
        of = self._project
        return filled_in(symptom, task=candidate.id, project=of.name, version=of.version)
