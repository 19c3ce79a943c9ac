"""Which sandbox a machine can give: `Bubblewrap` where it works, else `Landlock`, else an error."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess

from rolecraft._log import log
from rolecraft.errors import SandboxError
from rolecraft.sandboxes._keeper import NOBODY
from rolecraft.sandboxes.bubblewrap import Bubblewrap, _program, _system
from rolecraft.sandboxes.landlock import Landlock, why_not


def default_provider() -> Bubblewrap | Landlock:
    """The strongest sandbox that this machine can give without a daemon; never a plain process.

    The first call tries Bubblewrap, which takes some 10 ms; later ones give the same object, whose
    helper process goes on to the end of this one. Where that fails it is `Landlock`, and
    the log says so: its `walls` are fewer. Raises `SandboxError` with what to install or to allow.
    """
    if not (reason := _why_not_bubblewrap()):
        return _bubblewrap()
    if weaker := why_not():
        raise SandboxError(
            f"There is no sandbox here for code that a model wrote. Bubblewrap: {reason} "
            f"Landlock: {weaker} Or run such code elsewhere (`Remote`, `Docker`), or choose to run "
            f"it without walls: `sandbox=LocalProcess()`."
        )
    landlock = _landlock()
    _say_once(reason, ", ".join(sorted(landlock.walls)))
    return landlock


@functools.cache
def _bubblewrap() -> Bubblewrap:
    return Bubblewrap()


@functools.cache
def _landlock() -> Landlock:
    return Landlock()


@functools.cache
def _why_not_bubblewrap() -> str:
    """Why it does not work here, as a sentence; empty if it does."""
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        return "`bwrap` is not installed (Debian, Ubuntu: `apt install bubblewrap`)."
    try:
        subprocess.run(
            [
                *(*_as_nobody(), bwrap, "--unshare-all", "--unshare-user", "--disable-userns"),
                *(*_system(), "--", "true"),
            ],
            env={},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=30,
            check=True,
        )
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode("utf-8", "replace").strip() or f"exit code {error.returncode}"
        return f"`bwrap` needs user namespaces, and says {said!r} (allow them to it)."
    except (OSError, subprocess.TimeoutExpired, SandboxError) as error:
        return f"it cannot be tried: {error}."
    return ""


def _as_nobody() -> list[str]:
    """What stands before a command under root, for then sandboxes are the user `nobody`'s."""
    if os.geteuid() != 0:
        return []
    setpriv = _program("setpriv", "util-linux")
    return [setpriv, f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--"]


@functools.cache
def _say_once(reason: str, walls: str) -> None:
    log.warning(
        f"Code that a model wrote runs under Landlock, which holds {walls} and no more. It would "
        f"run in Bubblewrap, but: {reason}"
    )
