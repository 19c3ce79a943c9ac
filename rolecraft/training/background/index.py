"""The index of runs: one small file a run, which says where its output is. All else is there."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path

from rolecraft.errors import UnknownName, UsageError
from rolecraft.training.background._supervisor import write_json
from rolecraft.training.background.record import RunError, RunRecord


def name_of(output: Path) -> str:
    """How a run is called: its folder's name, and what tells it from others of that name."""
    plain = re.sub(r"[^\w.-]+", "-", output.name).strip("-.") or "run"
    return f"{plain}-{hashlib.sha256(str(output).encode()).hexdigest()[:6]}"


def add_to_index(index: Path, output: Path) -> None:
    """Raises `RunError` if the index cannot be written."""
    output = output.resolve()
    try:
        index.mkdir(parents=True, exist_ok=True)
        write_json(index / f"{name_of(output)}.json", {"output": str(output)})
    except OSError as error:
        raise RunError(
            f"The index of runs `{index}` cannot be written: {error.strerror or error}."
        ) from error


def outputs_in(index: Path, *, on_error: Callable[[RunError], None]) -> list[Path]:
    """The output folders of all runs that were noted, also of those that are not there any more."""
    found = []
    for path in sorted(index.glob("*.json")):
        try:
            found.append(Path(json.loads(path.read_text("utf-8"))["output"]))
        except FileNotFoundError:  # forgotten since it was listed
            continue
        except (OSError, ValueError, KeyError, TypeError) as error:
            on_error(RunError(f"`{path}` is no entry of the index of runs: {error!r}. Delete it."))
    return found


def forget(index: Path, output: Path) -> None:
    """Take a run out of the index. Its folder, if it is there, stays as it is."""
    (index / f"{name_of(output)}.json").unlink(missing_ok=True)


def _pass_over(error: RunError) -> None:
    """`rolecraft runs list` tells; here another run is looked for."""


def find_run(wanted: str, index: Path) -> RunRecord:
    """The run of an output folder, or with a name as `rolecraft runs list` says it, or its begin.

    Raises `UsageError` for one that is not there or is not the only one.
    """
    folder = Path(wanted)
    if (record := RunRecord.read(folder.resolve())) is not None:
        return record
    if folder.is_dir():
        raise UsageError(f"`{folder}` has no `run.json`: no run was started there.")
    known = {name_of(output): output for output in outputs_in(index, on_error=_pass_over)}
    matching = [name for name in known if name == wanted or name.startswith(wanted)]
    exact = [name for name in matching if name == wanted]
    if len(exact or matching) > 1:
        raise UsageError(f"{wanted!r} can be each of these runs: {', '.join(matching)}.")
    if not matching:
        raise UnknownName("Run", wanted, known, hint="The path of an output folder will do, too.")
    output = known[(exact or matching)[0]]
    record = RunRecord.read(output)
    if record is None:
        there = "has no `run.json`" if output.is_dir() else "is not there any more"
        raise UsageError(f"The output folder of this run, `{output}`, {there}.")
    return record
