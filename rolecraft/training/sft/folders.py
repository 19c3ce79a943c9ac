"""The folders of a fine-tuning: one for all, or one for each role; what is there is not lost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rolecraft.errors import UsageError
from rolecraft.training.checkpoints import Checkpoints
from rolecraft.training.sft.settings import SETTINGS, SFTSettings
from rolecraft.training.sft.summary import SUMMARY

DATA = "data.json"
"""In the folder of an adapter: what became of the data, and the fingerprint of what it is of."""


def check_output(settings: SFTSettings, *, resume: bool) -> None:
    """Raise `UsageError` if the run would write over something, or go on in another way.

    `fine_tune` looks first of all; whoever claims the folder for it looks before that, so that a
    run that is refused does not take the place of the one that is there. A run that left no
    checkpoint left nothing to go on with: it may be begun anew by any settings.
    """
    output = settings.output
    folders = folders_of(output, settings.roles or (None,))
    work = [folder for folder in (output, *folders) if holds_work(folder)]
    if work and not resume:
        raise UsageError(
            f"`{work[0]}` holds a model or the checkpoints of a run. Go on with a run by `resume` "
            f"(`--resume`), or name another folder."
        )
    if not work or not (output / SETTINGS).exists():
        return
    before, now = SFTSettings.load(output).record(), settings.record()
    for name, value in before.items():
        if name in ("output", "auto_batch") or (name == "commit" and now[name] is None):
            continue  # `auto_batch` leaves every gradient as it is
        if now[name] != value:
            raise UsageError(
                f"The run in `{output}` began with `{name}` {value!r}, and is to go on with "
                f"{now[name]!r}. Resume with what it began with, or begin in another folder."
            )


def holds_work(folder: Path) -> bool:
    """Whether there is a model or an adapter in a folder, or a checkpoint of one."""
    models = ("adapter_config.json", "config.json", SUMMARY)
    return bool(Checkpoints(folder).all()) or any((folder / name).exists() for name in models)


def folders_of(output: Path, roles: Sequence[str | None]) -> list[Path]:
    """One for each role. Raises `UsageError` if two would have the same."""
    taken: dict[Path, str | None] = {}
    for role in roles:
        folder = output if role is None else output / _folder_name(role)
        if folder in taken:
            raise UsageError(
                f"The roles {taken[folder]!r} and {role!r} would both be written to `{folder}`. "
                f"Train one of them with another output folder."
            )
        taken[folder] = role
    return list(taken)


def _folder_name(role: str) -> str:
    """A folder for a role, whatever it is called."""
    name = "".join(char if char.isalnum() or char in "-_." else "_" for char in role)
    return name if name.strip(".") else f"role_{name}"
