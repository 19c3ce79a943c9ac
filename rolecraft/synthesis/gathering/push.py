"""Tasks as branches of a repository that somebody names; nothing is pushed anywhere unasked."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from rolecraft.errors import RolecraftError, UsageError
from rolecraft.synthesis.folder import SynthesisFolder
from rolecraft.synthesis.gathering.history import TASKS
from rolecraft.synthesis.gathering.tasks import REPOSITORY


def push(folder: SynthesisFolder, remote: str, *, force: bool = False) -> int:
    """Push each task as a branch of its name to `remote`, a URL or path as `git push` takes it.

    The clean code is not pushed. The user's own settings and keys of git hold. With `force` a
    branch that is another there becomes that of here. Returns how many branches there are now.
    Raises `UsageError` where nothing is gathered or `remote` is empty, `RolecraftError` with
    git's own words where it refuses.
    """
    repository = folder.tasks / REPOSITORY
    if not repository.is_dir():
        raise UsageError(
            f"There are no tasks in `{folder.path}` to push: `rolecraft synth gather "
            f"{folder.path}` makes them."
        )
    if not remote.strip():
        raise UsageError("`remote` is empty: name the repository to push to.")
    refs = f"{'+' if force else ''}{TASKS}*:refs/heads/*"
    # After `--`, a remote that begins with a dash is no option.
    done = _git(repository, "push", "--porcelain", "--", remote, refs)
    if done.returncode:
        refused = [line for line in done.stdout.splitlines() if line.startswith("!")]
        way_out = (
            f" {len(refused)} branches are others there: `--force` takes these in their place."
            if any("non-fast-forward" in line or "fetch first" in line for line in refused)
            else ""
        )
        said = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
        raise RolecraftError(f"`git push` to `{remote}`: {said}{way_out}")
    return sum(line[:1] in " +*=" for line in done.stdout.splitlines() if "\t" in line)


def _git(repository: Path, *words: str) -> subprocess.CompletedProcess[str]:
    program = shutil.which("git")
    if program is None:
        raise RolecraftError("`git` is not installed; it is what pushes.")
    return subprocess.run(
        [program, "-C", str(repository), *words], capture_output=True, text=True, check=False
    )
