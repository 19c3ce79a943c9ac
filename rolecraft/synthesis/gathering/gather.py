"""From valid candidates with a text to tasks.

    gathered = gather(SynthesisFolder(Path("OUT")))

OUT/tasks/
  tasks.jsonl, tasks.parquet   a row for each task: see `TaskRow`
  patches/ID.bug.patch, ID.fix.patch
  repository/                  a git repository with a commit for each task: see `History`
  scenario.py                  for `rolecraft run`, `evaluate` and `train`
  summary.json                 how many there are, which were left out and why, how they were parted

The folder is written whole or not at all, in the order of the tasks' ids: the same candidates,
verdicts and texts give the same tasks, whatever was interrupted on the way. What a user has put
there stays, and so does a `scenario.py` that was changed.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from rolecraft.environments.task import Split
from rolecraft.errors import UsageError
from rolecraft.synthesis.candidates import Candidate
from rolecraft.synthesis.difficulty.attempts import Attempt, attempts_by_task
from rolecraft.synthesis.folder import SynthesisFolder
from rolecraft.synthesis.gathering.before import SUMMARY, Before, Settings, digest
from rolecraft.synthesis.gathering.copies import copies_in_environment, copies_in_source
from rolecraft.synthesis.gathering.fixes import fix_patch, size_of
from rolecraft.synthesis.gathering.history import DATE, History, Planted, ref_name
from rolecraft.synthesis.gathering.kept import PATCHES, SCENARIO, bring, carry_over
from rolecraft.synthesis.gathering.row_files import RowFiles
from rolecraft.synthesis.gathering.rows import TaskRow, TaskTests, as_json, patch_of_hidden_files
from rolecraft.synthesis.gathering.scenario_file import scenario_file
from rolecraft.synthesis.gathering.splits import Splits, Unit
from rolecraft.synthesis.gathering.tasks import REPOSITORY
from rolecraft.synthesis.gathering.whole_folder import whole_folder
from rolecraft.synthesis.ledger import LedgerView
from rolecraft.synthesis.plan import Plan
from rolecraft.synthesis.texts.alike import alike
from rolecraft.synthesis.texts.leak_check import find_leaks
from rolecraft.synthesis.texts.solution import Sources
from rolecraft.synthesis.texts.text import IssueText
from rolecraft.synthesis.verdicts import Verdict

Reason = Literal[
    "no_text",  # nothing is said about it yet
    "leaks",  # what is said about it names the solution
    "two_splits",  # it changes files of both
    "copied",  # the clean code, or a hidden test, lies somewhere else in the project
    "no_tests",  # no file of tests, outside of the code, would tell that it is solved
    "no_candidate",  # there is a verdict, and no candidate of this id
]
"""Why a valid candidate became no task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """What became of the valid candidates."""

    folder: Path
    tasks: int
    settings: Settings
    splits: dict[Split, int]
    left_out: dict[Reason, list[str]]
    """The ids."""
    moved: dict[Split, list[str]] = field(default_factory=dict)
    """Those that are in this split and were in the other one before."""
    kept: list[str] = field(default_factory=list)
    """The user's own files and folders in the folder, with a `scenario.py` that was changed."""
    alike: int = 0
    """Tasks whose text says what that of one before them says."""
    remarks: list[str] = field(default_factory=list)
    """What a user should know, a sentence each."""

    def record(self) -> dict[str, Any]:
        """As JSON has it, but for what only this call has found: `moved` and `kept`."""
        return {
            "tasks": self.tasks,
            "settings": self.settings.record(),
            "splits": self.splits,
            "left_out": self.left_out,
            "alike": self.alike,
            "remarks": self.remarks,
        }


def gather(
    folder: SynthesisFolder,
    *,
    unit: Unit | None = None,
    held_out: float | None = None,
    allow_missing: bool = False,
    on_task: Callable[[str], None] | None = None,
) -> Gathered:
    """Write `folder.tasks`, with what there is now. See `Splits` for `unit` and `held_out`, which
    are those of the time before unless given, and at first `Settings()`.

    With `allow_missing` a task without a text that can be shown gets a sentence that says nothing.
    Raises `UsageError` if there is no plan, if nothing was validated, or nothing is left, and
    `RolecraftError` where git is not installed or refuses.
    """
    plan = Plan.load(folder)
    with whole_folder(folder.tasks) as new:
        before = Before.of(folder.tasks)
        settings = before.settings.but(unit, held_out)
        splits = Splits(plan, unit=settings.split_by, held_out=settings.held_out)
        gathering = _Gathering(plan, splits, allow_missing)
        chosen = gathering.chosen(folder)
        if not chosen:
            raise UsageError(_nothing(folder, gathering.left_out))
        commits = gathering.write_history(new / REPOSITORY, chosen)
        rows = gathering.rows(new, chosen, commits, attempts_by_task(folder))
        with RowFiles(new) as files:
            for row in rows:
                files.add(row)
                if on_task is not None:
                    on_task(row.instance_id)
        gathering.remarks += files.remarks
        counts = Counter(each.split for each in chosen)
        changed = {path for each in chosen for path in each.files}
        gathering.remark_on(counts, copies_in_environment(plan, changed))
        scenario = scenario_file(plan, folder.tasks, counts).encode()
        found = Gathered(
            folder=folder.tasks,
            tasks=len(chosen),
            settings=settings,
            splits=dict(counts),
            left_out=gathering.left_out,
            moved=before.moved({each.candidate.id: each.split for each in chosen}),
            kept=_keep(folder.tasks, new, before, scenario),
            alike=alike(each.text for each in chosen),
            remarks=gathering.remarks,
        )
        said = found.record() | {"scenario_digest": digest(scenario)}
        text = json.dumps(said, indent=1, ensure_ascii=False)
        (new / SUMMARY).write_text(text + "\n", "utf-8")
    return found


def _keep(old: Path, new: Path, before: Before, scenario: bytes) -> list[str]:
    """Bring over what is the user's, and write `scenario.py` unless they have changed it; what was
    kept.
    """
    kept = carry_over(old, new)
    there = old / SCENARIO
    if there.is_file() and digest(there.read_bytes()) not in (
        before.scenario_digest,
        digest(scenario),
    ):
        bring(there, new / SCENARIO)
        return sorted([*kept, SCENARIO])
    (new / SCENARIO).write_bytes(scenario)
    return kept


@dataclass(frozen=True, slots=True)
class _Chosen:
    """A candidate that becomes a task."""

    candidate: Candidate
    text: str
    text_usd: float | None
    tests: TaskTests
    split: Split

    @property
    def name(self) -> str:
        return ref_name(self.candidate.id)

    @property
    def files(self) -> list[str]:
        return sorted({edit.path for edit in self.candidate.edits})


class _Gathering:
    """What is left out is counted on the way."""

    def __init__(self, plan: Plan, splits: Splits, allow_missing: bool) -> None:
        self.plan, self.splits, self.allow_missing = plan, splits, allow_missing
        self.read = plan.reader()
        self.left_out: dict[Reason, list[str]] = {}
        self.remarks: list[str] = []
        self._copies = copies_in_source(plan)

    @cached_property
    def _solutions(self) -> Sources:
        return Sources(self.plan.project, self.read)

    def chosen(self, folder: SynthesisFolder) -> list[_Chosen]:
        """The tasks, by id."""
        found: list[_Chosen] = []
        with (
            LedgerView(folder.candidates, Candidate, key=lambda each: each.id) as candidates,
            LedgerView(folder.verdicts, Verdict, key=lambda each: each.candidate) as verdicts,
            LedgerView(folder.texts, IssueText, key=lambda each: each.task) as texts,
        ):
            for verdict in verdicts:
                name = verdict.candidate
                if not verdict.is_valid:
                    continue
                task: _Chosen | Reason = "no_candidate"
                if name in candidates:
                    task = self._task(candidates[name], verdict, texts.get(name))
                if isinstance(task, _Chosen):
                    found.append(task)
                else:
                    self.left_out.setdefault(task, []).append(name)
        for names in self.left_out.values():
            names.sort()
        return sorted(found, key=lambda each: each.candidate.id)

    def _task(
        self, candidate: Candidate, verdict: Verdict, said: IssueText | None
    ) -> _Chosen | Reason:
        files = {edit.path for edit in candidate.edits}
        tests = TaskTests.of(self.plan, verdict)
        split = self.splits.of(candidate.id, candidate.lines(self.read))
        text = said.text.strip() if said is not None else ""
        leaks = said is not None and self._gives_away(candidate, verdict, said)
        if not tests.fail_to_pass or not tests.hidden:
            return "no_tests"
        if any(path in self._copies for path in files) or self._shown(tests):
            return "copied"
        if split is None:
            return "two_splits"
        if leaks or not text:
            if not self.allow_missing:
                return "leaks" if leaks else "no_text"
            text = _nothing_said(self.plan, len(tests.fail_to_pass))
        return _Chosen(candidate, text, None if said is None else said.usd, tests, split)

    def _shown(self, tests: TaskTests) -> bool:
        """Whether a hidden file lies somewhere that stays as well."""
        return any(
            other not in tests.hidden
            for path in tests.hidden
            for other in self._copies.get(path, ())
        )

    def _gives_away(self, candidate: Candidate, verdict: Verdict, said: IssueText) -> bool:
        """Whether a text names the solution. Ours were checked when they were written."""
        if said.source != "given":
            return False
        solution = self._solutions.solution(candidate, verdict.fail_to_pass)
        return bool(said.leaks or find_leaks(said.text, solution))

    def write_history(self, place: Path, chosen: list[_Chosen]) -> dict[str, str]:
        """The commit of each task."""
        project = self.plan.project
        history = History(
            place, Path(project.source), message=f"{project.name} {project.version}".strip()
        )
        history.add(map(self._planted, chosen))
        history.close()
        return history.commits()

    def _planted(self, task: _Chosen) -> Planted:
        texts = task.candidate.texts(self.read)
        changed = {path: text.encode() for path, text in texts.items()}
        if task.tests.emptied:
            return Planted(task.name, changed | dict.fromkeys(task.tests.hidden, b""), ())
        return Planted(task.name, changed, task.tests.hidden)

    def rows(
        self,
        new: Path,
        chosen: list[_Chosen],
        commits: dict[str, str],
        attempts: dict[str, list[Attempt]],
    ) -> Iterator[TaskRow]:
        """The rows; the patches of each are written beside."""
        patches = new / PATCHES
        patches.mkdir()
        project = self.plan.project
        emptied = project.runner != "pytest"
        with tempfile.TemporaryDirectory(prefix="rolecraft-gather-") as place:
            test_patch = patch_of_hidden_files(Path(project.source), Path(place), emptied=emptied)
            for each in chosen:
                bug = each.candidate.patch(self.read)
                fix = fix_patch(each.candidate, self.read)
                for kind, patch in (("bug", bug), ("fix", fix)):
                    (patches / f"{each.name}.{kind}.patch").write_bytes(patch.encode())
                tried = attempts.get(each.candidate.id, [])
                yield self._row(each, commits[each.name], fix, test_patch(each.tests.hidden), tried)

    def _row(
        self, task: _Chosen, commit: str, fix: str, test_patch: str, tried: list[Attempt]
    ) -> TaskRow:
        usd = [each for each in (task.candidate.usd, task.text_usd) if each is not None]
        kept = task.tests.pass_to_pass(self.plan)
        return TaskRow(
            instance_id=task.candidate.id,
            repo=self.plan.project.name,
            base_commit=commit,
            patch=fix,
            test_patch=test_patch,
            problem_statement=task.text,
            hints_text="",
            created_at=DATE,
            version=self.plan.project.version,
            FAIL_TO_PASS=as_json(task.tests.fail_to_pass),
            PASS_TO_PASS=as_json(kept),
            environment_setup_commit=commit,
            split=task.split,
            modifier=task.candidate.modifier,
            entity=task.candidate.entity,
            files=task.files,
            n_fail_to_pass=len(task.tests.fail_to_pass),
            n_pass_to_pass=len(kept),
            n_lines=size_of(fix).lines,
            n_files=len(task.files),
            attempts=len(tried),
            pass_rate=sum(each.resolved for each in tried) / len(tried) if tried else None,
            usd=sum(usd) if usd else None,
        )

    def remark_on(self, splits: dict[Split, int], installed: list[str]) -> None:
        """What a user should know of the whole."""
        empty: list[Split] = [each for each in ("train", "test") if not splits.get(each)]
        if empty and 0 < self.splits.held_out < 1:
            way_out = "`--split-by task` parts the tasks, and both parts share code."
            if self.splits.unit in ("file", "module"):
                way_out = "`--split-by function` parts the functions of a file."
            elif self.splits.unit == "task":
                way_out = "There are too few: make more."
            self.remarks.append(
                f"No task is in the split {empty[0]!r}: by {self.splits.unit}, the tasks cannot "
                f"be parted so. {way_out}"
            )
        if installed:
            more = f" and {len(installed) - 3} more files" if len(installed) > 3 else ""
            self.remarks.append(
                f"The environment has the clean code as well, where an agent can read it: "
                f"{', '.join(installed[:3])}{more}. Make it without the project itself."
            )


def _nothing_said(plan: Plan, failing: int) -> str:
    tests = "a test fails" if failing == 1 else f"{failing} tests fail"
    return f"Something in {plan.project.name} does not work as it should: {tests}."


def _nothing(folder: SynthesisFolder, left_out: dict[Reason, list[str]]) -> str:
    """Why there is no task, and what to do."""
    if not left_out:
        return (
            f"`{folder.verdicts}` has no valid candidate: `rolecraft synth validate "
            f"{folder.path}` finds out which are."
        )
    told = ", ".join(f"{len(ids)} {reason}" for reason, ids in sorted(left_out.items()))
    way_out = ""
    if {"no_text", "leaks"} & left_out.keys():
        way_out = (
            f" `rolecraft synth describe {folder.path}` writes texts; `--allow-missing` does "
            f"without."
        )
    return f"No valid candidate of `{folder.path}` can become a task: {told}.{way_out}"
