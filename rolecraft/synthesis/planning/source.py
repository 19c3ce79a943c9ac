"""The clean files of a project: a copy of ours, which nobody changes."""

from __future__ import annotations

import contextlib
import os
import shutil
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from rolecraft.environments.software_engineering.bases import unpack
from rolecraft.environments.software_engineering.instances import BadInstance, Instance
from rolecraft.environments.software_engineering.readable import make_readable
from rolecraft.errors import RolecraftError, UsageError
from rolecraft.synthesis.planning.trees import copy_tree, secrets_among

NAMED = 5
"""Files that a warning names."""


@contextlib.contextmanager
def writing(folder: Path) -> Iterator[None]:
    """What the disk refuses becomes one clear error."""
    try:
        yield
    except shutil.Error as error:  # of several files, each with its own reason
        raise RolecraftError(f"`{folder}` cannot be written: {error.args[0][0][2]}.") from error
    except OSError as error:
        where = error.filename or folder
        raise RolecraftError(f"`{where}` cannot be written: {error.strerror or error}.") from error


def copy_source(
    source: Path, target: Path, *, tests: Path | None = None, also: Sequence[str] = ()
) -> tuple[str, ...]:
    """Copy or unpack a project to `target`, whole or not at all; what was there is replaced.

    What tools leave behind is left out, and so is what git ignores in a checkout, but `also`; the
    latter is returned, as `copy_tree` does. Raises `UsageError` for what is no project's folder,
    source archive or wheel.
    """
    if not source.exists():
        raise UsageError(f"`{source}` is not there: give a project's folder, archive or wheel.")
    if not source.is_dir() and not source.name.endswith(
        (".whl", ".zip", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar")
    ):
        raise UsageError(
            f"`{source}` is no project: give its folder, its source archive (`.tar.gz`, `.zip`) or "
            f"a wheel."
        )
    if source.is_dir() and target.resolve().is_relative_to(source.resolve()):
        raise UsageError(
            f"`--out {target.parent}` is inside of the project `{source}`: choose a folder beside."
        )
    if also and not source.is_dir():
        raise UsageError(f"`--also {also[0]}` is for a folder: of `{source}` everything is taken.")
    beside = target.with_name(".source.new")
    shutil.rmtree(beside, ignore_errors=True)
    shutil.rmtree(target, ignore_errors=True)
    # In a folder of its own, for an archive is unpacked beside its place first.
    beside.mkdir(parents=True)
    made = beside / "files"
    if source.is_dir():
        left_out = copy_tree(source, made, also=also)
    else:
        left_out = ()
        _unpack(source, made)
    inside = list(made.iterdir())
    if source.suffix == ".zip" and len(inside) == 1 and inside[0].is_dir():
        made = inside[0]  # all is in one folder, as in an sdist
    if tests is not None:
        left_out += _add_tests(tests, made)
    make_readable(made)
    os.replace(made, target)
    shutil.rmtree(beside)
    return left_out


def warnings_of(copy: Path) -> list[str]:
    """What to know of a copy before others get it."""
    if not (found := secrets_among(copy)):
        return []
    more = f" and {len(found) - NAMED} more" if found[NAMED:] else ""
    return [
        f"{', '.join(f'`{path}`' for path in found[:NAMED])}{more}: files of such names mostly "
        f"hold passwords or keys. They are in every task and in what is pushed. If they do, let "
        f"git ignore them, or plan a copy of the project without them."
    ]


def _unpack(source: Path, made: Path) -> None:
    row = Instance(id="plan", problem="-", fail_to_pass=("-",), source=str(source))
    try:
        unpack(row, made)
    except BadInstance as error:
        if isinstance(error.__cause__, OSError) and error.__cause__.errno is not None:
            raise error.__cause__ from None
        raise UsageError(f"`{source}` cannot be unpacked: {error.__cause__}.") from error
    except (EOFError, zlib.error) as error:  # cut off
        raise UsageError(f"`{source}` cannot be unpacked: {error}.") from error


def _add_tests(tests: Path, made: Path) -> tuple[str, ...]:
    """Copy them in; what was left out, as `copy_tree` says it."""
    if not tests.is_dir():
        raise UsageError(f"`--tests {tests}`: there is no such folder.")
    place = made / tests.resolve().name
    if place.exists():
        raise UsageError(f"`--tests {tests}`: the project has a `{place.name}` of its own.")
    return tuple(str(place.relative_to(made) / each) for each in copy_tree(tests, place))
