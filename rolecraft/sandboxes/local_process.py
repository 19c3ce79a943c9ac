"""`LocalProcess`: no walls. For code that you would run yourself, and only when asked for by name.

It keeps to the limits on time, memory, file size and output, and that is all: the command can read
your files, write anywhere you can, use the network, and leave processes in sessions of their own.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rolecraft.errors import SandboxError
from rolecraft.sandboxes._watched import kernel_limits, run_watched
from rolecraft.sandboxes.base import DEFAULT_LIMITS, Execution, SandboxLimits, as_bytes, checked


class LocalProcess:
    """Commands as plain processes of this machine, in a temporary folder.

    `processes` and `disk_bytes` of the limits are not held; `memory_bytes` and `file_bytes` and
    `cpu_seconds` only on Linux.
    """

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


def _fill(files: Mapping[str, bytes]) -> str:
    folder = tempfile.mkdtemp(prefix="rolecraft-")
    for name, content in files.items():
        path = Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder
