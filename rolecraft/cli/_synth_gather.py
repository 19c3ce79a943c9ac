"""`rolecraft synth gather` and `push`: valid candidates as tasks, and tasks for others."""

from __future__ import annotations

import shlex
from json import loads
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from rolecraft.cli._options import Debug, Json
from rolecraft.cli._output import Output
from rolecraft.cli._synth_options import Folder

if TYPE_CHECKING:
    from rolecraft.synthesis.gathering.gather import Gathered

Unit = Literal["file", "module", "function", "task"]

_WORDS = {
    "no_text": "have no text: `rolecraft synth describe` writes one where it can without telling "
    "the solution, and `--allow-missing` takes tasks without",
    "leaks": "have a text that names the solution",
    "two_splits": "change files of both splits",
    "copied": "change code, or hide tests, that lie in the project a second time",
    "no_tests": "have no file of tests, outside of the code, that could be hidden",
    "no_candidate": "have a verdict and no candidate",
}

_MOVED = {
    "train": "held out for test before, for training now. What learns from `train` learns them.",
    "test": "for training before, for test now. What was trained before may know them.",
}
_SHOWN = 5
"""So many names are shown."""


def gather(
    folder: Folder,
    split_by: Annotated[
        Unit | None,
        typer.Option(
            "--split-by",
            help="What is in one split as a whole, for training or for tests. By function, both "
            "share files; by task, they share code. Unless given as the last time; first `file`.",
        ),
    ] = None,
    held_out: Annotated[
        float | None,
        typer.Option(
            "--held-out",
            min=0,
            max=1,
            metavar="SHARE",
            help="Share of code for tests. Unless given as the last time; first 0.2.",
        ),
    ] = None,
    allow_missing: Annotated[
        bool, typer.Option("--allow-missing", help="Take tasks without an issue text as well.")
    ] = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Write the valid candidates as tasks: rows, patches, a git history, a scenario to run."""
    from rolecraft.synthesis.folder import SynthesisFolder
    from rolecraft.synthesis.gathering.gather import gather as gathered

    with Output(json=json, makes=True) as output:
        with output.counter("tasks") as count:
            found = gathered(
                SynthesisFolder(folder),
                unit=split_by,
                held_out=held_out,
                allow_missing=allow_missing,
                on_task=lambda task: count(),
            )
        _say(found, output)


def _say(found: Gathered, output: Output) -> None:
    from rolecraft.synthesis.gathering.before import Settings
    from rolecraft.trajectories.in_words import count

    of_call = {"moved": found.moved, "kept": found.kept, "folder": str(found.folder)}
    output.result(found.record() | of_call)
    tasks = count(found.tasks, "task")
    splits = ", ".join(f"{number:,} for {split}" for split, number in sorted(found.splits.items()))
    output.say(f"{tasks} in `{found.folder}`: {splits}.", style="bold")
    for reason, names in sorted(found.left_out.items()):
        output.say(f"  {len(names):,} left out: they {_WORDS[reason]}.")
    if found.alike:
        output.say(f"  {found.alike:,} have an issue text that says what an earlier one says.")
    if found.settings != Settings():
        output.say(f"  Parted with {found.settings}.")
    if found.kept:
        output.say(f"  Kept, since they are yours: {_names(found.kept)}.")
    if "scenario.py" in found.kept:
        output.say("  `scenario.py` is not as it was written: delete it to have a new one.")
    for split, names in sorted(found.moved.items()):
        output.warn(f"{count(len(names), 'task')} changed the split: {_MOVED[split]}")
    for remark in found.remarks:
        output.warn(remark)
    scenario = shlex.quote(str(found.folder / "scenario.py"))
    # `run` draws from the split 'test': where that has no task, one is named.
    one = "" if "test" in found.splits else f" --task {_first(found.folder)}"
    output.say(f"Without a model: rolecraft run {scenario}:rehearsal{one}")
    output.say(f"With one:        rolecraft run {scenario}:tasks{one} --model MODEL")


def _names(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return ", ".join(f"`{each}`" for each in names[:_SHOWN]) + more


def _first(tasks: Path) -> str:
    """The id of the first row."""
    with (tasks / "tasks.jsonl").open(encoding="utf-8") as rows:
        return str(loads(next(rows))["instance_id"])


def push(
    folder: Folder,
    remote: Annotated[
        str,
        typer.Option("--remote", metavar="URL", help="The repository to push to: yours to name."),
    ],
    force: Annotated[
        bool, typer.Option("--force", help="Replace branches that are others there.")
    ] = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Push each gathered task as a branch, with your own git: nothing of the clean code."""
    from rolecraft.synthesis.folder import SynthesisFolder
    from rolecraft.synthesis.gathering.push import push as pushed
    from rolecraft.trajectories.in_words import count

    with Output(json=json, makes=True) as output:
        branches = pushed(SynthesisFolder(folder), remote, force=force)
        output.result({"branches": branches, "remote": remote})
        output.say(f"In `{remote}`: {count(branches, 'branch', 'branches')}, one for each task.")
