"""The program that downloads: one repository of a hub into its cache, in a process of its own.

huggingface_hub takes its settings from the environment when it is imported, and has one client for
a whole process; here both are ours. It asks the hub's API without any time-out, so the client below
has its own: every wait for a connection or for data is bounded, and so is how often it is tried.

Standard input has the wishes, one line of JSON, and is open for as long as they are wanted.
Standard output gets lines of JSON: `note`, `bytes` and `of`, and at last `path` or `error`.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any

PAUSES = (1.0, 2.0, 4.0, 8.0)
"""Seconds before each further attempt; then always the last."""
LONGEST_PAUSE = 60.0
"""Seconds: of a longer `Retry-After` the hub is told that it gives up."""
_AGAIN = frozenset({408, 429, 500, 502, 503, 504})
_REPORT_EVERY = 0.5
COMMIT = re.compile(r"[0-9a-f]{40}")
PIECE = 1 << 20
"""Bytes. huggingface_hub takes ten times as many at once, of which it says nothing until they are
there, and which are lost when a download breaks off."""
NOT_WANTED = ("*.msgpack", "*.h5", "*.ot", "*.tflite", "onnx/*", "original/*")
"""Of a model: weights of other frameworks."""
PICKLED = ("*.bin", "*.bin.index.json", "*.pt", "*.pth", "*.ckpt")
"""Of a model with safetensors: the same weights again, in files that may run code when read."""


class GaveUp(Exception):
    """The hub did not answer as often as it was to be tried."""


_speaking = threading.RLock()
"""Files are downloaded side by side, and each line is to stay whole."""


def say(**event: Any) -> None:
    with _speaking:
        print(json.dumps(event), flush=True)


def prepare(wishes: dict[str, Any]) -> None:
    """Have huggingface_hub do what the wishes say, and nothing that the environment says."""
    os.environ.update(
        HF_ENDPOINT=wishes["endpoint"],
        HF_HUB_CACHE=wishes["cache"],
        HF_HUB_OFFLINE="1" if wishes["offline"] else "0",
        # Its own way to download, which has none of the time-outs below.
        HF_HUB_DISABLE_XET="1",
        HF_HUB_DISABLE_TELEMETRY="1",
        HF_HUB_DISABLE_IMPLICIT_TOKEN="1",  # a token that was not asked for
        HF_HUB_VERBOSITY="error",
        HF_HUB_DOWNLOAD_TIMEOUT=str(max(1, round(wishes["read_seconds"]))),
    )
    for name in ("TRANSFORMERS_OFFLINE", "HF_HUB_ENABLE_HF_TRANSFER", "HF_HUB_ETAG_TIMEOUT"):
        os.environ.pop(name, None)


def download(wishes: dict[str, Any]) -> str:
    """The folder of the snapshot."""
    import httpx
    from huggingface_hub import (
        HfApi,
        constants,
        errors,
        set_client_factory,
        snapshot_download,
    )
    from tqdm import tqdm  # type: ignore[import-untyped]

    patience = httpx.Timeout(wishes["read_seconds"], connect=wishes["connect_seconds"])
    retries: int = wishes["retries"]
    broken_off: dict[str, int] = {}

    class Client(httpx.Client):
        """Waits so long and not longer, whatever it is told, and tries so often."""

        def send(self, request: httpx.Request, **options: Any) -> httpx.Response:
            request.extensions = {**request.extensions, "timeout": patience.as_dict()}
            last: httpx.TransportError | None
            for attempt in range(retries + 1):
                pause = PAUSES[min(attempt, len(PAUSES) - 1)]
                try:
                    response = super().send(request, **options)
                except (httpx.TimeoutException, httpx.NetworkError, httpx.ProtocolError) as error:
                    reason, last = in_words(error), error
                else:
                    if response.status_code not in _AGAIN:
                        if options.get("stream"):
                            response.stream = Counted(response.stream, address(request))
                        return response
                    reason, last = f"answers with status {response.status_code}", None
                    wanted = response.headers.get("Retry-After", "")
                    response.close()
                    pause = max(pause, float(wanted) if wanted.isdigit() else 0)
                if attempt == retries or pause > LONGEST_PAUSE:
                    tried = f"{address(request)}; tried {attempt + 1} times"
                    raise GaveUp(f"{reason} ({tried})") from last
                say(
                    note=f"The hub {reason}. Trying again in {pause:g} s ({attempt + 2} of "
                    f"{retries + 1})."
                )
                time.sleep(pause)
            raise AssertionError

    class Counted(httpx.SyncByteStream):
        """A body, of which it is known how often it broke off without a byte more than before."""

        def __init__(self, stream: Any, url: str) -> None:
            self._stream, self._url = stream, url

        def __iter__(self) -> Iterator[bytes]:
            try:
                for chunk in self._stream:
                    broken_off.pop(self._url, None)
                    yield chunk
            except httpx.TransportError as error:
                # huggingface_hub asks for the rest then, from the byte where it broke off.
                times = broken_off[self._url] = broken_off.get(self._url, 0) + 1
                if times > retries:
                    raise GaveUp(f"{in_words(error)} ({self._url}; tried {times} times)") from error
                say(note=f"The download broke off: the hub {in_words(error)}. Going on with it.")
                raise

        def close(self) -> None:
            self._stream.close()

    def address(request: httpx.Request) -> str:
        """Without what follows the path: where files are stored, it is a signature that lets in."""
        return str(request.url.copy_with(query=None))

    def in_words(error: httpx.TransportError) -> str:
        if isinstance(error, httpx.ConnectTimeout):
            return f"cannot be reached within {wishes['connect_seconds']:g} s"
        if isinstance(error, httpx.TimeoutException):
            return f"sends nothing for {wishes['read_seconds']:g} s"
        if isinstance(error, httpx.ConnectError):
            return f"cannot be reached: {error}"
        return f"breaks the connection off: {error}"

    class Bar(tqdm):  # type: ignore[misc]
        """Tells how many bytes are there, instead of drawing."""

        def __init__(self, *args: Any, **options: Any) -> None:
            self.told = 0.0
            self.in_bytes = str(options.get("desc", "")).startswith("Reconstruct")
            super().__init__(*args, **{**options, "file": nowhere, "disable": False})

        def update(self, n: float | None = 1) -> bool | None:
            drawn: bool | None = super().update(n)
            whole = bool(self.total) and self.n >= self.total
            if self.in_bytes and (whole or time.monotonic() - self.told > _REPORT_EVERY):
                self.told = time.monotonic()
                with _speaking:  # so that no number comes after a greater one
                    say(bytes=int(self.n), of=int(self.total or 0))
            return drawn

    constants.DOWNLOAD_CHUNK_SIZE = PIECE
    set_client_factory(lambda: Client(follow_redirects=True, timeout=patience))
    where = {"endpoint": wishes["endpoint"], "token": wishes["token"] or False}
    what = {"repo_type": wishes["kind"], "revision": wishes["revision"]}
    is_model = wishes["kind"] == "model"

    def snapshot(*, offline: bool, safe: bool) -> str:
        path: str = snapshot_download(
            wishes["name"],
            **what,
            **where,
            cache_dir=wishes["cache"],
            local_files_only=offline,
            ignore_patterns=[*NOT_WANTED, *(PICKLED if safe else ())] if is_model else None,
            max_workers=4,
            tqdm_class=Bar,
        )
        return path

    def cached() -> str:
        """Raises where a part is not there."""
        if is_model:
            folder = snapshot(offline=True, safe=True)
            if _has_safetensors(os.listdir(folder)):
                return folder
        return snapshot(offline=True, safe=False)

    with open(os.devnull, "w") as nowhere:
        if wishes["offline"]:
            return cached()
        if COMMIT.fullmatch(wishes["revision"]):
            with contextlib.suppress(errors.LocalEntryNotFoundError):
                return cached()
        # Else it would take what is in the cache when the hub refuses, and not say so.
        info: Any = HfApi(**where).repo_info(wishes["name"], **what)
        there = [file.rfilename for file in info.siblings or ()]
        return snapshot(offline=False, safe=_has_safetensors(there))


def _has_safetensors(files: Iterable[str]) -> bool:
    """Whether a model's weights are there in that format: not only those of a part in a folder."""
    return any(name.endswith(".safetensors") and "/" not in name for name in files)


def kind_of(error: BaseException) -> str:
    """What `HubError.kind` says of it."""
    from huggingface_hub import errors

    if isinstance(error, errors.HfHubHTTPError) and error.response.status_code == 401:
        # Also for what is not there. huggingface_hub knows it only of addresses with https.
        gated = isinstance(error, errors.GatedRepoError)
        return "gated" if gated else "missing"
    for kind, types in (
        ("silent", GaveUp),
        ("revision", errors.RevisionNotFoundError),
        ("gated", errors.GatedRepoError),
        ("missing", errors.RepositoryNotFoundError),
        ("incomplete", errors.IncompleteSnapshotError),
        ("uncached", errors.LocalEntryNotFoundError),
        ("name", errors.HFValidationError),
        ("refused", errors.HfHubHTTPError),
        ("disk", OSError),
    ):
        if isinstance(error, types):
            return kind
    return "other"


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started this one ends it
    wishes = json.loads(sys.stdin.readline())

    def end_with_parent() -> None:
        sys.stdin.read()
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()
    prepare(wishes)
    try:
        say(path=download(wishes))
    except Exception as error:
        say(error=" ".join(str(error).split()), kind=kind_of(error))
    sys.stdout.flush()
    os._exit(0)  # threads of a download that failed may still wait


if __name__ == "__main__":
    main()
