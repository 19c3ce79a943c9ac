"""Validation of what lies in a folder of synthesis, which goes on where it was."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rolecraft.errors import UsageError
from rolecraft.sandboxes import SandboxProvider
from rolecraft.synthesis.candidates import Candidate
from rolecraft.synthesis.folder import SynthesisFolder
from rolecraft.synthesis.ledger import Ledger, LedgerView, read_ledger
from rolecraft.synthesis.plan import Plan
from rolecraft.synthesis.validation.settings import Settings
from rolecraft.synthesis.validation.validating import validate
from rolecraft.synthesis.verdicts import Verdict
from rolecraft.trajectories.whole_file import write_whole


async def validate_folder(
    folder: SynthesisFolder,
    *,
    settings: Settings | None = None,
    workers: int | None = None,
    provider: SandboxProvider | None = None,
    stop_after: int | None = None,
    new: bool = False,
    on_begin: Callable[[int, int], None] = lambda candidates, done: None,
    on_unsteady: Callable[[Mapping[str, str]], None] = lambda tests: None,
) -> AsyncGenerator[Verdict, None]:
    """Give each candidate of a folder its verdict; see `validate`.

    `on_begin` is told how many candidates there are, and how many have a verdict; `on_unsteady`
    tests that fail now without a bug, and why they were set aside: the plan no longer counts them.
    `new` forgets the verdicts that there are. Raises `UsageError` if there are no candidates, or
    verdicts that were come by in another way.
    """
    settings = settings or Settings()
    plan = Plan.load(folder)
    count = sum(1 for _ in candidates_of(folder))
    if not count:
        raise UsageError(
            f"There are no candidates in `{folder.path}`: make some, "
            f"`rolecraft synth plant {folder.path}`."
        )
    with Ledger(folder.verdicts, Verdict, key=lambda each: each.candidate, new=new) as verdicts:
        _hold(folder.validation, settings, begun=bool(len(verdicts)))
        on_begin(count, sum(each.id in verdicts for each in candidates_of(folder)))

        def keep(changed: Plan, unsteady: Mapping[str, str]) -> None:
            for verdict in [each for each in verdicts if unsteady.keys() & {*each.fail_to_pass}]:
                verdicts.append(verdict.without(unsteady))
            changed.save(folder)  # last: a call after a kill -9 would not look at verdicts again
            on_unsteady(unsteady)

        with contextlib.closing(candidates_of(folder)) as candidates:
            running = validate(
                plan,
                candidates,
                verdicts,
                settings=settings,
                workers=workers,
                provider=provider,
                stop_after=stop_after,
                on_unsteady=keep,
            )
            async with contextlib.aclosing(running) as found:
                async for verdict in found:
                    yield verdict


def candidates_of(folder: SynthesisFolder) -> Generator[Candidate, None, None]:
    """Those of a folder, one after the other."""
    return read_ledger(folder.candidates, Candidate, key=lambda each: each.id)


def valid_candidates(folder: SynthesisFolder) -> Iterator[tuple[Candidate, Verdict]]:
    """The valid ones with their verdicts, in the order of candidates; one is held at a time."""
    with LedgerView(folder.verdicts, Verdict, key=lambda each: each.candidate) as verdicts:
        for candidate in candidates_of(folder):
            verdict = verdicts.get(candidate.id)
            if verdict is not None and verdict.is_valid:
                yield candidate, verdict


def _hold(path: Path, settings: Settings, *, begun: bool) -> None:
    """Keep the settings beside the verdicts, all of which are to be come by in one way."""
    said = asdict(settings)
    if begun and path.exists():
        with contextlib.suppress(ValueError):
            before = json.loads(path.read_text("utf-8"))
            if before != said:
                raise UsageError(
                    f"`{path.parent}` was validated with {_words(before)}, and this is "
                    f"{_words(said)}: say the same, or begin anew with --new."
                )
            return
    write_whole(path, json.dumps(said) + "\n")


def _words(settings: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in sorted(settings.items()))


@dataclass(slots=True)
class Tally:
    """What the verdicts of a folder come to."""

    statuses: Counter[str] = field(default_factory=Counter)
    failing: list[int] = field(default_factory=list)
    """How many tests fail with each valid one, sorted."""
    tests: int = 0
    """The passing tests of the clean suite."""

    @classmethod
    def of(cls, folder: SynthesisFolder) -> Tally:
        """Of all verdicts that there are."""
        tally = cls(tests=len(Plan.load(folder).suite.passing))
        for verdict in read_ledger(folder.verdicts, Verdict, key=lambda each: each.candidate):
            tally.statuses[verdict.status] += 1
            if verdict.is_valid:
                tally.failing.append(len(verdict.fail_to_pass))
        tally.failing.sort()
        return tally

    @property
    def valid(self) -> int:
        return len(self.failing)

    def at(self, share: float) -> int:
        """So many tests fail, or fewer, with this share of the valid ones; 0 if there are none."""
        return self.failing[min(int(share * self.valid), self.valid - 1)] if self.failing else 0

    def within(self, cap: float) -> float:
        """The share of the valid ones with which at most this share of the tests fails."""
        kept = sum(count <= max(1, int(cap * self.tests)) for count in self.failing)
        return kept / self.valid if self.failing else 0.0

    def record(self) -> dict[str, object]:
        """As a JSON line has it."""
        return {
            "candidates": self.statuses.total(),
            "valid": self.valid,
            "statuses": dict(sorted(self.statuses.items())),
            "fail_to_pass_median": self.at(0.5),
            "fail_to_pass_p90": self.at(0.9),
            "tests": self.tests,
        }
