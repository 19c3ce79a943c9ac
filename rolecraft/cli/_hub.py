"""Options of commands that take models or data sets from a hub, and what they say meanwhile."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rolecraft.cli._exits import CommandLineError
from rolecraft.cli._output import Output
from rolecraft.errors import UsageError

if TYPE_CHECKING:
    from rolecraft.training.hub import HubSettings, Kind

_PANEL = "Models and data from a hub"
Offline = Annotated[
    bool,
    typer.Option(
        "--offline",
        rich_help_panel=_PANEL,
        help="Ask no hub: what is neither here nor in the cache is an error.",
    ),
]
Endpoint = Annotated[
    str | None,
    typer.Option(
        "--endpoint",
        metavar="URL",
        rich_help_panel=_PANEL,
        help="Address of the hub or a mirror; else HF_ENDPOINT's.",
    ),
]
Cache = Annotated[
    Path | None,
    typer.Option(
        "--cache",
        metavar="DIR",
        file_okay=False,
        rich_help_panel=_PANEL,
        help="Folder for what is downloaded; else that of HF_HUB_CACHE or HF_HOME.",
    ),
]
HubTimeout = Annotated[
    float,
    typer.Option(
        "--hub-timeout",
        min=0.1,
        metavar="S",
        rich_help_panel=_PANEL,
        help="Seconds without data, then it is tried again.",
    ),
]
_YES = ("1", "on", "yes", "true")
_LINES = 10


def hub_settings(
    offline: bool = False,
    endpoint: str | None = None,
    cache: Path | None = None,
    timeout: float = 30.0,
) -> HubSettings:
    """What the options say, and where they say nothing the variables of Hugging Face.

    HF_ENDPOINT, HF_HUB_OFFLINE, HF_HUB_CACHE, HF_HOME, XDG_CACHE_HOME, HF_TOKEN, HF_TOKEN_PATH.
    Raises `CommandLineError`.
    """
    from rolecraft.training.hub import DEFAULT_ENDPOINT, HubSettings

    xdg = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    home = Path(os.environ.get("HF_HOME") or Path(xdg, "huggingface")).expanduser()
    try:
        return HubSettings(
            endpoint=endpoint or os.environ.get("HF_ENDPOINT") or DEFAULT_ENDPOINT,
            cache=(cache or Path(os.environ.get("HF_HUB_CACHE") or home / "hub")).expanduser(),
            offline=offline or os.environ.get("HF_HUB_OFFLINE", "").lower() in _YES,
            token=_token(home),
            read_seconds=timeout,
        )
    except UsageError as error:
        raise CommandLineError(str(error)) from error


def _token(home: Path) -> str:
    if token := os.environ.get("HF_TOKEN", "").strip():
        return token
    try:
        path = Path(os.environ.get("HF_TOKEN_PATH") or home / "token")
        return path.expanduser().read_text("utf-8").strip()
    except FileNotFoundError:
        return ""
    except (OSError, ValueError) as error:
        raise CommandLineError(f"The token in `{path}` cannot be read: {error}.") from error


def fetch_shown(
    name: str | Path,
    kind: Kind,
    settings: HubSettings,
    output: Output,
    *,
    revision: str | None = None,
) -> Path:
    """`fetch`, with what happens on stderr: a bar on a terminal, else some lines.

    `revision` is a branch, tag or commit; None: `main`.
    """
    from rolecraft.training.hub import fetch, is_local

    if is_local(name):
        return fetch(name, kind, settings)
    output.note(str(settings))
    if settings.token_is_open and not settings.offline:
        output.warn(
            f"The token goes to {settings.endpoint} unencrypted: others on the way can read it. "
            f"Use an address with https://, or no token."
        )
    with _bytes_bar(f"Downloading {name}", output) as on_bytes:
        path = fetch(
            name,
            kind,
            settings,
            revision=revision or "main",
            note=output.warn,
            on_bytes=on_bytes,
        )
    output.note(f"`{name}` is in `{path}`.")
    return path


@contextmanager
def _bytes_bar(what: str, output: Output) -> Iterator[Callable[[int, int], None]]:
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    if not output.progress.is_terminal:
        yield _in_lines(what, output)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
    )
    with Progress(*columns, console=output.progress) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total or None)


def _in_lines(what: str, output: Output) -> Callable[[int, int], None]:
    told = -1

    def on_bytes(done: int, total: int) -> None:
        nonlocal told
        tenth = done * _LINES // total if total else 0
        if tenth > told:
            told = tenth
            output.note(f"{what}: {done / 1e6:.1f} of {total / 1e6:.1f} MB")

    return on_bytes


def no_more_downloads() -> None:
    """From here on no library asks a hub: what a run needs was fetched, with time-outs.

    transformers and peft look things up on a hub on their own, and wait without end.
    """
    os.environ["HF_HUB_OFFLINE"] = "1"  # for processes that are started, and what is not imported
    loaded = sys.modules.get("huggingface_hub.constants")
    if loaded is not None:
        loaded.HF_HUB_OFFLINE = True  # type: ignore[attr-defined]
