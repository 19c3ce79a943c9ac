"""`LocalProcess`: no walls. For code that you would run yourself, and only when asked for by name.

It keeps to the limits on time, memory, file size and output, and that is all: the command can read
your files, write anywhere you can, use the network, and leave processes in sessions of their own.
Of a sandbox from `create` those are killed by `close`, at the latest, as long as they have its
folder in their environment or work in it; whoever else works in that folder is killed too. A kill
-9 of this process leaves processes and folder behind. In its shells each process has the limits on
memory and file size to itself, and none on processor time.
"""

from __future__ import annotations

import asyncio
import functools
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rolecraft._log import log
from rolecraft.errors import SandboxError
from rolecraft.sandboxes._local_live import LocalSandbox, create
from rolecraft.sandboxes._watched import kernel_limits, run_watched
from rolecraft.sandboxes.base import DEFAULT_LIMITS, Execution, SandboxLimits, as_bytes, checked
from rolecraft.sandboxes.live import AllowList, SandboxRefused, SandboxSpec, Wall, check_walls

HINT = "It has no walls; `Bubblewrap()` has."


class LocalProcess:
    """Commands as plain processes of this machine, in a temporary folder.

    `processes` and `disk_bytes` of the limits are not held; `memory_bytes` and `file_bytes` and
    `cpu_seconds` only on Linux.
    """

    @property
    def walls(self) -> frozenset[Wall]:
        """None."""
        return frozenset()

    async def create(self, spec: SandboxSpec | None = None) -> LocalSandbox:
        """See `SandboxProvider.create`. `fork` and `snapshot` copy.

        `network="none"` is what a spec says when nobody has thought of it, and is taken, though
        nothing keeps commands from the network: say `requires={"network"}` where it must hold.
        Raises `SandboxRefused` for whatever a spec requires, an allow-list, a root or an image.
        """
        spec = spec or SandboxSpec()
        check_walls("LocalProcess", spec, self.walls, HINT)
        wanted = {
            "network": isinstance(spec.network, AllowList),
            "root": spec.root is not None,
            "image": spec.image is not None,
        }
        if missing := [name for name, is_wanted in wanted.items() if is_wanted]:
            raise SandboxRefused("LocalProcess", missing, HINT)
        _warn_once()
        return await create(spec, spec.base, spec.files)

    async def run(
        self,
        command: Sequence[str],
        *,
        files: Mapping[str, str | bytes] = {},
        stdin: str | bytes = b"",
        limits: SandboxLimits = DEFAULT_LIMITS,
    ) -> Execution:
        """See `Sandbox.run`."""
        contents = checked(command, files)
        prlimit = shutil.which("prlimit")
        limited = [*kernel_limits(prlimit, limits), "--"] if prlimit is not None else []
        folder = await asyncio.to_thread(_fill, contents)
        try:
            done = await run_watched(
                [*limited, *command],
                stdin=as_bytes(stdin),
                limits=limits,
                env={
                    "PATH": f"{Path(sys.base_prefix, 'bin')}:{os.defpath}",
                    "HOME": folder,
                    "TMPDIR": folder,
                    "LANG": "C.UTF-8",
                },
                cwd=folder,
            )
            # The folder has another name at every run, which must not be all that differs.
            return replace(
                done,
                stdout=done.stdout.replace(f"{folder}/", ""),
                stderr=done.stderr.replace(f"{folder}/", ""),
            )
        except FileNotFoundError as error:
            raise SandboxError(f"`{error.filename}` cannot be run: there is none.") from error
        finally:
            await asyncio.shield(asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True))

    def __repr__(self) -> str:
        return "LocalProcess()"


@functools.cache
def _warn_once() -> None:
    log.warning(
        "LocalProcess has no walls: what runs in it can read and change all that you can, use the "
        "network, and stay behind. Use `Bubblewrap()` for code that you would not run yourself."
    )


def _fill(files: Mapping[str, bytes]) -> str:
    folder = tempfile.mkdtemp(prefix="rolecraft-")
    for name, content in files.items():
        path = Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder
