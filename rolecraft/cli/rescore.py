"""`rolecraft rescore`: what another reward gives stored runs, and what people report of them."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rolecraft.cli._exits import CommandLineError, ExitCode
from rolecraft.cli._options import Debug, Json
from rolecraft.cli._output import Output
from rolecraft.cli._rewards import find_reward
from rolecraft.cli._safety_table import tell_safety
from rolecraft.errors import RolecraftError, TraceError

if TYPE_CHECKING:
    from rolecraft.rewards import Reward, RewardBreakdown, SafetyReport
    from rolecraft.trajectories import FailureFinding, Signal, Trajectory

_PERSON = "A person's report"
"""Under this title the help lists options that are about a signal of a person."""


def rescore(
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH...", help="Journals, or folders of them.")
    ],
    reward: Annotated[
        str | None,
        typer.Option(
            "--reward",
            metavar="FILE.py:NAME",
            help="The new reward; or a scenario's name, or the folder of a learned reward.",
        ),
    ] = None,
    scenario: Annotated[
        str | None,
        typer.Option(
            "--scenario",
            metavar="NAME",
            help="Its reward is the old one of runs of which none was recorded; without --reward "
            "the new one.",
        ),
    ] = None,
    safety: Annotated[
        bool,
        typer.Option(
            "--safety",
            help="Try what a team could do instead of its task (refuse, pad, hide failures, …); "
            "exit with 4 if the reward pays for it.",
        ),
    ] = False,
    fixed: Annotated[
        list[str] | None,
        typer.Option(
            "--fixed",
            metavar="SIGNAL",
            help="With --safety: a signal that no role can keep from being measured. Can be given "
            "several times.",
        ),
    ] = None,
    signal: Annotated[
        list[str] | None,
        typer.Option(
            "--signal",
            metavar="NAME=VALUE",
            help="What a person says of the run, a number. Can be given several times.",
            rich_help_panel=_PERSON,
        ),
    ] = None,
    by: Annotated[
        str, typer.Option("--by", metavar="WHO", help="Who says so.", rich_help_panel=_PERSON)
    ] = "",
    role: Annotated[
        str,
        typer.Option(
            "--role", metavar="NAME", help="Of which role, if of one.", rich_help_panel=_PERSON
        ),
    ] = "",
    step: Annotated[
        int | None,
        typer.Option(
            "--step",
            min=0,
            metavar="SEQ",
            help="Of which event, if of one.",
            rich_help_panel=_PERSON,
        ),
    ] = None,
    write: Annotated[
        bool,
        typer.Option(
            "--write",
            help="Write rewards and signals down beside the journals, which are never changed.",
        ),
    ] = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Score stored runs again: old and new value, and which share and signals paid."""
    with Output(json=json, makes=write) as output:
        chosen = reward or scenario
        said = _signals(signal or [], by, role, step)
        if chosen is None and not said:
            raise CommandLineError(
                "Nothing to do: give `--reward FILE.py:NAME`, `--scenario` or `--signal`."
            )
        if (safety or fixed) and chosen is None:
            raise CommandLineError("`--safety` examines a reward: give `--reward FILE.py:NAME`.")
        new = find_reward(chosen, option="--reward" if reward else "--scenario") if chosen else None
        old = find_reward(scenario, option="--scenario") if scenario and reward else None
        try:
            journals = _journals(paths)
        except TraceError as error:  # a path that has no run is wrong with the command
            raise CommandLineError(str(error)) from error
        if not journals:
            where = ", ".join(f"`{path}`" for path in paths)
            raise CommandLineError(f"There are no runs in {where}.")
        if said and len(journals) != 1:
            raise CommandLineError(
                f"`--signal` is about one run, and these are {len(journals)} journals: name one."
            )
        rescoring = _Rescoring(new, old, chosen or "", said, write, output)
        asyncio.run(rescoring.all(journals, examined=safety, fixed=fixed or []))
        rescoring.tell()
        if rescoring.unsafe:
            raise typer.Exit(ExitCode.GATE)
        if rescoring.failed:
            raise typer.Exit(ExitCode.INCOMPLETE if rescoring.rows else ExitCode.ERROR)


def _signals(given: list[str], by: str, role: str, step: int | None) -> list[Signal]:
    from rolecraft.trajectories import Signal

    if given and not by:
        raise CommandLineError("`--signal` is what a person says: give their name with `--by WHO`.")
    if not given and (by or role or step is not None):
        raise CommandLineError("`--by`, `--role` and `--step` are about a `--signal NAME=VALUE`.")
    found = []
    for each in given:
        name, _, value = each.partition("=")
        try:
            number = float(value)
        except ValueError:
            number = float("nan")
        if not name or not abs(number) < float("inf"):
            raise CommandLineError(
                f"`--signal {each}`: write NAME=VALUE with a number, such as `user.satisfied=1`."
            )
        found.append(Signal(name, number, source=f"person:{by}", role=role, step=step))
    return found


def _journals(paths: list[Path]) -> list[Path]:
    from rolecraft.trajectories import trace_files

    found = {
        file.resolve(): file  # a journal that is named twice is one run
        for path in paths
        for file in trace_files(path)
        if path.is_file() or _is_journal(file)  # a folder of rollouts has its results, too
    }
    return [*found.values()]


def _is_journal(file: Path) -> bool:
    with file.open("rb") as lines:
        return b'"schema_version"' in lines.readline(2**20)


@dataclass(slots=True)
class _Row:
    journal: Path
    old: float | None
    new: RewardBreakdown


class _Rescoring:
    """Scores journals one by one, and tells what came of them all."""

    def __init__(
        self,
        new: Reward | None,
        old: Reward | None,
        name: str,
        said: list[Signal],
        write: bool,
        output: Output,
    ) -> None:
        from rolecraft.rewards.stored import RecordedRewards

        self.rows: list[_Row] = []
        self.failed = 0
        self.unsafe = False
        self._examined: list[tuple[str, SafetyReport]] = []
        self._new, self._old, self._name = new, old, name
        self._said, self._write, self._output = said, write, output
        self._recorded = RecordedRewards()

    async def all(self, journals: list[Path], *, examined: bool, fixed: list[str]) -> None:
        """Score these journals, in one event loop for all their judges."""
        for journal in journals:
            await self._one(journal, examined=examined, fixed=fixed)

    async def _one(self, journal: Path, *, examined: bool, fixed: list[str]) -> None:
        from rolecraft.trajectories import append_signals, load, load_findings

        try:
            run = load(journal)
        except TraceError as error:
            self._fails(journal, str(error))
            return
        findings = load_findings(journal)
        before = await self._before(journal, run, findings)
        run.reported.extend(self._said)
        if self._write and self._said:
            path = append_signals(journal, self._said)
            self._output.say(f"{len(self._said)} signals added to {path}.")
        if self._new is None:
            self._output.result({"journal": str(journal), "signals": _as_data(self._said)})
            return
        await self._ask(journal, run)
        breakdown = await self._score(journal, run, findings)
        if breakdown is None:
            return
        self.rows.append(_Row(journal, before, breakdown))
        report = await self._examine(journal, run, findings, fixed) if examined else None
        self._record(journal, before, breakdown, report)

    async def _ask(self, journal: Path, run: Trajectory) -> None:
        """Ask the judges of the reward about a run that they have not seen."""
        from rolecraft.rewards import ask_judges
        from rolecraft.rewards.opinions import unheard
        from rolecraft.trajectories import append_signals

        assert self._new is not None
        opinions = await ask_judges(self._new, run)
        run.reported.extend(opinions)
        for name in unheard(self._new, [run]):
            self._output.warn(
                f"{journal}: without the opinion {name!r}: no answer of its judge could be read."
            )
        if self._write and opinions:
            append_signals(journal, opinions)

    async def _score(
        self, journal: Path, run: Trajectory, findings: list[FailureFinding]
    ) -> RewardBreakdown | None:
        from rolecraft.rollouts.where import place_of

        assert self._new is not None
        breakdown: RewardBreakdown
        try:
            breakdown = await asyncio.to_thread(self._new, run, findings=findings)
        except Exception as error:  # rewards are code of users; this one says nothing of other runs
            kind = "" if isinstance(error, RolecraftError) else f"{type(error).__name__}: "
            place = place_of(error)
            at = f" ({place})" if place else ""
            self._fails(journal, f"no reward: {kind}{error}{at}")
            return None
        if not math.isfinite(breakdown.value):
            self._fails(journal, f"no reward: it is {breakdown.value}")
            return None
        return breakdown

    async def _before(
        self, journal: Path, run: Trajectory, findings: list[FailureFinding]
    ) -> float | None:
        recorded = self._recorded(journal)
        if recorded is not None or self._old is None:
            return recorded
        try:
            return (await asyncio.to_thread(self._old, run, findings=findings)).value
        except Exception:  # it has no old reward then, and the new one is what was asked for
            return None

    async def _examine(
        self, journal: Path, run: Trajectory, findings: list[FailureFinding], fixed: list[str]
    ) -> SafetyReport:
        from rolecraft.rewards import Opinion, examine
        from rolecraft.rewards.safety import examine_asking

        assert self._new is not None
        if any(isinstance(part, Opinion) for part in self._new.tree()):
            self._output.note(f"{run.id}: the judges are asked about each manipulated run.")
            report = await examine_asking(self._new, run, findings=findings, fixed=fixed)
        else:
            # In a thread, as scoring is: a reward may wait for something.
            report = await asyncio.to_thread(
                examine, self._new, run, findings=findings, fixed=fixed
            )
        self.unsafe |= not report.safe
        self._examined.append((_short(journal), report))
        self._output.say(f"{run.id}: {report}", style="" if report.safe else "red")
        return report

    def _record(
        self,
        journal: Path,
        before: float | None,
        breakdown: RewardBreakdown,
        report: SafetyReport | None,
    ) -> None:
        line: dict[str, Any] = {
            "journal": str(journal),
            "reward": self._name,
            "old": before,
            "new": breakdown.value,
            "paid": _paid(breakdown),
            "grounded": breakdown.grounded,
            **breakdown.to_dict(),
        }
        if report is not None:
            line["safety"] = [each.to_dict() for each in report.raised]
        self._output.result(line)
        if self._write:
            from rolecraft.rewards.stored import append_reward

            append_reward(journal, self._name, breakdown)

    def _fails(self, journal: Path, why: str) -> None:
        self.failed += 1
        self._output.warn(why if str(journal) in why else f"{journal}: {why}")
        self._output.result({"journal": str(journal), "error": why})

    def tell(self) -> None:
        """The table, and what each share gave in the mean."""
        tell_safety(self._examined, self._output)
        if not self.rows:
            return
        head = ["Run", "Paid by", "Old", "New"]
        table = [
            [_short(row.journal), _in_words(row.new), _number(row.old), _number(row.new.value)]
            for row in self.rows
        ]
        self._output.table(f"Rewards by `{self._name}`", head, table, numeric=2, whole=1)
        names = dict.fromkeys(name for row in self.rows for name in row.new.shares)
        runs = len(self.rows)
        gave = {name: sum(r.new.shares.get(name, 0.0) for r in self.rows) / runs for name in names}
        shares = ", ".join(f"{name} {mean:+.3g}" for name, mean in gave.items())
        olds = [row.old for row in self.rows if row.old is not None]
        old = f"; the {len(olds)} known old ones {sum(olds) / len(olds):.3g}" if olds else ""
        new = sum(row.new.value for row in self.rows) / runs
        self._output.say(f"Mean of {runs}: {new:.3g} ({shares}){old}.")
        opinions = dict.fromkeys(name for row in self.rows for name in row.new.ungrounded)
        if opinions:
            self._output.warn(f"Not grounded, a judge's opinion: {', '.join(opinions)}.")
        if self._write:
            self._output.say("Written beside the journals, in *.rewards.jsonl.")


def _paid(breakdown: RewardBreakdown) -> str | None:
    """The share that weighs most."""
    return max(breakdown.shares, key=lambda name: abs(breakdown.shares[name]), default=None)


def _in_words(breakdown: RewardBreakdown) -> str:
    paid = _paid(breakdown)
    if paid is None:
        return "nothing"
    signals = [name for name in breakdown.evidence.get(paid, ()) if name != paid]
    of = f" of {', '.join(signals)}" if signals else ""
    return f"{paid} {breakdown.shares[paid]:+.3g}{of}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _short(journal: Path) -> str:
    """A path as it is told apart from others of a folder of rollouts."""
    return "/".join(journal.parts[-2:])


def _as_data(said: list[Signal]) -> list[dict[str, Any]]:
    return [
        {"name": each.name, "value": each.value, "source": each.source, "role": each.role,
         "step": each.step}
        for each in said
    ]  # fmt: skip
