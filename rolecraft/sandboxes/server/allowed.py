"""What a client may ask for: folders of the server, limits, a network.

Invariant: what is more than the operator allowed is refused before anything is made, with the
option that would allow it; nothing is silently made smaller.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import chain
from pathlib import Path

from rolecraft.errors import UsageError
from rolecraft.sandboxes._remote_wire import SpecBody
from rolecraft.sandboxes.base import SandboxLimits
from rolecraft.sandboxes.live import SandboxRefused
from rolecraft.sandboxes.server.settings import ServerSettings

OPTIONS = {
    "seconds": "--max-seconds",
    "cpu_seconds": "--max-cpu-seconds",
    "memory_bytes": "--max-memory",
    "processes": "--max-processes",
    "file_bytes": "--max-file",
    "disk_bytes": "--max-disk",
    "output_bytes": "--max-output",
}
"""By limit, the option of `rolecraft sandbox-server` for the most of it."""


def check_spec(body: SpecBody, settings: ServerSettings) -> None:
    """Raises `SandboxRefused` for what the operator did not allow, `UsageError` for what is
    no spec.
    """
    check_words([body.root or "", *body.readable], body.env, body.files)
    _check_named("root", [body.root] if body.root else [], settings.roots)
    _check_named("readable", body.readable, settings.readable)
    spec = body.spec(None)
    check_limits(spec.limits, settings)
    if spec.network != "none" and not settings.allow_network:
        raise SandboxRefused(
            "The sandbox server",
            ["network"],
            "Its operator allows its clients no network: start it with `--allow-network`, or ask "
            "for `network='none'`.",
        )


def check_words(
    words: Iterable[str], env: Mapping[str, str], files: Iterable[str] = (), cwd: str = ""
) -> None:
    """Raises `UsageError` for what no program can be given: JSON has texts that are none, and an
    environment has no name with `=`.
    """
    for name, value in env.items():
        if not name or "=" in name or "\0" in name + value:
            raise UsageError(
                f"`env` has {name!r}: a variable has a name without `=`, and no NUL character."
            )
    for text in chain(words, env, env.values(), files, (cwd,)):
        try:
            os.fsencode(text)
        except UnicodeEncodeError:
            raise UsageError(f"{text!r} has a character that UTF-8 does not have.") from None


def check_limits(asked: SandboxLimits, settings: ServerSettings) -> None:
    """Raises `SandboxRefused` for limits above `settings.most`."""
    check_some(asdict(asked), settings)


def check_some(asked: Mapping[str, float | None], settings: ServerSettings) -> None:
    """The same for some limits by name; None is no wish."""
    most = asdict(settings.most)
    over = [name for name, value in asked.items() if value is not None and value > most[name]]
    if over:
        told = ", ".join(
            f"`{name}` is at most {most[name]:.15g} (`{OPTIONS[name]}`)" for name in over
        )
        raise SandboxRefused(
            "The sandbox server",
            over,
            f"Of what one client may ask for, {told}. Ask for less, or start the server with more.",
        )


def _check_named(what: str, asked: Sequence[str], allowed: Sequence[str | Path]) -> None:
    """Raise `SandboxRefused` for a folder of this machine that is none of the operator's, nor below
    one of them, links followed.
    """
    known = [Path(path).resolve() for path in allowed]
    for path in asked:
        found = Path(path).resolve() if "\0" not in path else Path("/")
        if not any(found.is_relative_to(folder) for folder in known):
            raise SandboxRefused(
                "The sandbox server",
                [what],
                f"`{what}` names a folder of the server, and its operator did not allow "
                f"{path!r}: start it with `--allow-{what} {path}`, or upload a `base`.",
            )
