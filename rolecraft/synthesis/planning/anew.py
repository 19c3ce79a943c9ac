"""A plan that is made anew: when it has to be, how it is called, and what goes with the old one.

Bugs, verdicts and texts fit the files that they were made for, so none of them outlives its plan.
"""

from __future__ import annotations

import hashlib
import json
import shlex
import shutil
from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import fields
from pathlib import Path
from typing import Any

from rolecraft.environments.software_engineering._listing import listing
from rolecraft.synthesis.folder import SynthesisFolder
from rolecraft.synthesis.gathering import kept
from rolecraft.synthesis.planning.settings import PlanSettings
from rolecraft.trajectories.append_file import AppendFile

WHAT_GOES = "which deletes the bugs and tasks that were made from the old one"


def command(asked: Mapping[str, Any], folder: SynthesisFolder) -> str:
    """What is typed to make a plan anew, with the source and the settings that were `asked` for.

    A plan that does not say where it came from is one of a `PATH`.
    """
    words = ["rolecraft", "synth", "plan", asked.get("source") or "PATH"]
    words += ["--out", str(folder.path)]
    for each in fields(PlanSettings):
        value = asked.get(each.name)
        value = tuple(value) if isinstance(value, list) else value
        if value is None or value == each.default:
            continue
        option = f"--{each.name.replace('_', '-')}"
        if each.name == "also":  # an option that may be repeated
            words += [word for path in value for word in (option, path)]
        elif isinstance(value, tuple):
            words += [option, shlex.join(value)]
        else:
            words += [option] if value is True else [option, str(value)]
    return shlex.join([*words, "--new"])


def digest_of(folder: Path) -> str:
    """What the copy of a source is known by: paths, contents, links, and which may be executed, of
    all but what tools leave behind.
    """
    found = {path: said for path, said in listing(str(folder)).items() if said != ["litter"]}
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()


def clear(folder: SynthesisFolder) -> None:
    """Delete a plan and what was made from it, the plan last; the venv stays, and what the user has
    put among the tasks.

    Raises `JournalError`, and deletes nothing, while another process writes one of the ledgers.
    """
    ledgers = (
        *(folder.pass_rates, folder.texts, folder.verdicts),
        *(folder.written, folder.candidates),
    )
    with ExitStack() as held:
        for path in ledgers:
            if path.exists():
                held.enter_context(closing(AppendFile(path)))
        kept.clear(folder.tasks)
        shutil.rmtree(folder.attempts, ignore_errors=True)
        for path in (*ledgers, folder.validation, folder.plan):
            path.unlink(missing_ok=True)
