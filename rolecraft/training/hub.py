"""Models and data sets by name: from a folder, the cache, or a hub that may be a mirror.

Nothing here waits for ever, and nothing waits in silence: each wait for a connection or for data
has a limit, so has the number of attempts, and what happens is told as it happens.
"""

from __future__ import annotations

import json
import os
import re
import selectors
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal
from urllib.parse import urlsplit

from rolecraft.errors import MissingExtra, RolecraftError, UsageError
from rolecraft.training import _hub_download

Kind = Literal["model", "dataset"]
DEFAULT_ENDPOINT = "https://huggingface.co"
QUIET_SECONDS = 30.0
"""After so long without news of a download it is said that it still goes on."""
_FILES = (".jsonl", ".json", ".parquet", ".csv", ".txt", ".safetensors", ".gguf", ".gz", ".zst")
_HERE = ("localhost", "127.0.0.1", "::1")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")
Problem = Literal[
    "silent", "gated", "missing", "revision", "incomplete", "uncached", "name", "refused", "disk",
    "other",
]  # fmt: skip
"""Why something could not be had.

silent: the hub cannot be reached or stopped to answer. gated: its owner has to give permission.
missing: there is none of this name, or it is private. revision: it has none of this name.
incomplete, uncached: offline, and the cache has a part of it, or nothing. name: the hub has no such
names. refused: the hub answered with another error. disk: it cannot be written.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class HubSettings:
    """Where models and data sets come from, and for how long to wait for them."""

    endpoint: str = DEFAULT_ENDPOINT
    """Address of the hub, or of a mirror."""
    cache: Path = field(default_factory=lambda: Path.home() / ".cache/huggingface/hub")
    """Folder of the cache, as other programs of Hugging Face use it."""
    offline: bool = False
    """Ask nobody: what is not in the cache is an error."""
    token: str = field(default="", repr=False)
    """Sent to the hub with each request."""
    connect_seconds: float = 10.0
    """For a connection."""
    read_seconds: float = 30.0
    """Between two pieces of data."""
    retries: int = 3
    """So often more than once: an answer that does not come, and a download that breaks off."""

    def __post_init__(self) -> None:
        if not re.match(r"https?://[^/]", self.endpoint):
            raise UsageError(
                f"The address of a hub begins with http:// or https://, which {self.endpoint!r} "
                f"does not."
            )
        if "@" in self.endpoint.split("/")[2]:  # it is told, and written into logs and model cards
            raise UsageError(
                "The address of the hub has a user or password in it, which would be shown in logs "
                "and model cards. Leave it out, and give a token: HF_TOKEN."
            )
        if self.connect_seconds <= 0 or self.read_seconds <= 0 or self.retries < 0:
            raise UsageError(
                f"Time-outs are above 0 and retries are not below: `connect_seconds` is "
                f"{self.connect_seconds!r}, `read_seconds` {self.read_seconds!r}, `retries` "
                f"{self.retries!r}."
            )

    @property
    def token_is_open(self) -> bool:
        """Whether anybody on the way could read the token: over plain http to another machine."""
        address = urlsplit(self.endpoint)
        return bool(self.token) and address.scheme == "http" and address.hostname not in _HERE

    def __str__(self) -> str:
        """One line for the person who starts a run."""
        source = "offline, from the cache alone" if self.offline else self.endpoint
        return f"Hub: {source}; cache: {self.cache}"


class HubError(RolecraftError):
    """A model or data set could not be had. Attributes: `name`, `problem`."""

    def __init__(self, name: str, problem: Problem, text: str) -> None:
        self.name, self.problem = name, problem
        super().__init__(text)


def is_local(name_or_path: str | Path) -> bool:
    """Whether it is a path, and not the name of something on a hub.

    A folder or file that is there is one, and so is what can be nothing else: `./model`, or the
    name of a data file.
    """
    text = str(name_or_path)
    return (
        isinstance(name_or_path, Path)
        or os.path.exists(text)
        or text.startswith((".", "/", "~"))
        or text.endswith(_FILES)
        or _NAME.fullmatch(text) is None
    )


def fetch(
    name_or_path: str | Path,
    kind: Kind,
    settings: HubSettings,
    *,
    revision: str = "main",
    note: Callable[[str], None] = lambda text: None,
    on_bytes: Callable[[int, int], None] = lambda done, total: None,
) -> Path:
    """The folder of a model or data set, downloaded if it is neither a path nor in the cache.

    `revision` is a branch, a tag or a commit. A commit never changes: one that is whole in the
    cache is taken from there, and nobody is asked. Of a model with weights in safetensors those are
    fetched, and none in other formats.

    `note` is told what happens, one sentence at a time; `on_bytes` how many bytes are there, of how
    many (0 as long as that is not known).

    Raises `UsageError` for a path that is not there, `HubError`, and `MissingExtra` without
    huggingface_hub.
    """
    if is_local(name_or_path):
        path = Path(name_or_path).expanduser()
        if path.exists():
            return path
        raise UsageError(
            f"The {_SAID[kind]} `{path}` is not there, and is no name of a hub either."
        )
    name = str(name_or_path)
    wishes = {
        "name": name,
        "kind": kind,
        "revision": revision,
        "endpoint": settings.endpoint.rstrip("/"),
        "cache": str(settings.cache.expanduser()),
        "offline": settings.offline,
        "token": settings.token,
        "connect_seconds": settings.connect_seconds,
        "read_seconds": settings.read_seconds,
        "retries": settings.retries,
    }
    end: dict[str, Any] = {}
    for event in _events(wishes, note):
        if "note" in event:
            note(event["note"])
        elif "bytes" in event:
            on_bytes(event["bytes"], event["of"])
        else:
            end = event
    if "path" in end:
        return Path(end["path"])
    raise _error(name, kind, revision, settings, end)


def commit_of(folder: Path) -> str | None:
    """The commit of a folder that `fetch` gave; None for one that is of no hub.

    The cache of huggingface_hub has it as `models--OWNER--NAME/snapshots/COMMIT`.
    """
    known = folder.parent.name == "snapshots" and _COMMIT.fullmatch(folder.name)
    return folder.name if known else None


_SAID = {"model": "model", "dataset": "data set"}


def _events(wishes: dict[str, Any], note: Callable[[str], None]) -> Iterator[dict[str, Any]]:
    """What the process that downloads has to say. It ends with this one, in whatever way."""
    import importlib.util

    if importlib.util.find_spec("huggingface_hub") is None:
        raise MissingExtra("huggingface_hub", "train", "A download from a hub")
    with subprocess.Popen(
        # Without -P its own folder would come before the installed packages.
        [sys.executable, "-P", _hub_download.__file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write((json.dumps(wishes) + "\n").encode())
            process.stdin.flush()
            for line in _lines(process.stdout, lambda: note(_still(wishes["name"]))):
                yield json.loads(line)
        finally:
            process.kill()


def _still(name: str) -> str:
    return f"Still waiting for `{name}`; another process may be downloading it just now."


def _lines(stream: IO[bytes], quiet: Callable[[], None]) -> Iterator[bytes]:
    """Lines as they come; calls `quiet` whenever none has come for a while."""
    rest = b""
    with selectors.DefaultSelector() as waiting:
        waiting.register(stream, selectors.EVENT_READ)
        heard = time.monotonic()
        while True:
            if not waiting.select(max(0.0, heard + QUIET_SECONDS - time.monotonic())):
                quiet()
                heard = time.monotonic()
                continue
            chunk = os.read(stream.fileno(), 65_536)
            if not chunk:
                return
            heard = time.monotonic()
            *lines, rest = (rest + chunk).split(b"\n")
            yield from lines


def _error(
    name: str, kind: Kind, revision: str, settings: HubSettings, end: dict[str, Any]
) -> HubError:
    problem: Problem = end.get("kind", "other")
    what = f"The {_SAID[kind]} `{name}`"
    detail = end.get("error", "the process that downloads has died")
    there = f" of {settings.endpoint}"
    token = (
        "The token that was given is not enough."
        if settings.token
        else "If it is yours to read, give a token: HF_TOKEN."
    )
    match problem:
        case "silent":
            text = (
                f"{what} could not be downloaded: the hub {settings.endpoint} {detail}. Try again "
                f"later (what was downloaded is kept), name a mirror with --endpoint, or, if it is "
                f"in the cache, use --offline."
            )
        case "gated":
            text = f"{what}{there} is gated: its owner lets in who asks on its page. {token}"
        case "missing":
            text = (
                f"{what} is neither a folder here nor known to {settings.endpoint}, or is private "
                f"there. {token}"
            )
        case "revision":
            text = f"{what}{there} has no revision {revision!r}."
        case "incomplete":
            text = (
                f"{what} is only in part in the cache `{settings.cache}`, and --offline asks "
                f"nobody for the rest. Download it once without."
            )
        case "uncached" if settings.offline:
            text = (
                f"{what} is not in the cache `{settings.cache}`, and --offline asks nobody. "
                f"Download it once without, or name a folder."
            )
        case "name":
            text = f"{name!r} is no name that a hub can have, and no folder that is there."
        case _:
            text = f"{what} could not be had from {settings.endpoint}: {detail}"
    return HubError(name, problem, text)
