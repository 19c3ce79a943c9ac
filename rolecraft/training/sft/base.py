"""The base model of a run: a folder, or a commit of a hub, which a resumed run has to get again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from rolecraft.errors import UsageError
from rolecraft.training.hub import HubError, commit_of
from rolecraft.training.sft.settings import SETTINGS, SFTSettings


def find_base(
    settings: SFTSettings, fetch: Callable[[str, str | None], Path] | None, *, resume: bool
) -> tuple[SFTSettings, str | Path]:
    """The folder of the base model, and the settings with the commit that it is.

    A run that is resumed gets the commit that it began with. Raises `UsageError` where a folder was
    named with a revision, or stands where a hub's model was, and `HubError` for what cannot be had.
    """
    commit = settings.commit
    if resume and commit is None and (settings.output / SETTINGS).exists():
        before = SFTSettings.load(settings.output)
        commit = before.commit if before.model == settings.model else None
    if fetch is None or Path(settings.model).is_dir():
        if commit is not None:
            raise UsageError(
                f"The run began with commit {commit} of `{settings.model}` on a hub, and that is a "
                f"folder here now. Resume it from where that is no folder, or begin in another "
                f"output folder."
            )
        if settings.revision is not None:
            raise UsageError(
                f"`revision` {settings.revision!r} is of a model on a hub, and `{settings.model}` "
                f"is a folder. Leave it out."
            )
        return settings, settings.model
    try:
        base = fetch(settings.model, commit or settings.revision)
    except HubError as error:
        if commit is None:
            raise
        text = (
            f"The run goes on with the base model that it began with, commit {commit} of "
            f"`{settings.model}`, or not at all. {error}"
        )
        raise HubError(error.name, error.problem, text) from error
    return replace(settings, commit=commit_of(base)), base
