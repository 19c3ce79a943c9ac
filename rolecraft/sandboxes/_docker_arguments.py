"""The command line that makes a container of a `SandboxSpec`. Pure: nothing is called here."""

from __future__ import annotations

import csv
import io
import resource
from pathlib import Path
from typing import Literal

from rolecraft.errors import UsageError
from rolecraft.sandboxes._docker_cli import Program
from rolecraft.sandboxes.live import AllowList, SandboxRefused, SandboxSpec

LABEL = "io.rolecraft.sandbox"
"""Of each container and image that is ours; its value is the process that made it."""
OPEN_FILES = 16384
PODMAN_PROCESSES = 32768
WARDEN = Path(__file__).with_name("_docker_warden.py").read_text()


def refuse(spec: SandboxSpec) -> None:
    """Raise `SandboxRefused` for what a container of ours cannot be."""
    if isinstance(spec.network, AllowList):
        raise SandboxRefused(
            "Docker",
            ["AllowList"],
            "Containers have no network (`'none'`) or all of it (`'full'`); for some hosts only, "
            "put a proxy or firewall in front of a `'full'` one yourself, or use `Bubblewrap()`.",
        )
    if spec.ports and spec.network == "none":
        raise SandboxRefused(
            "Docker",
            ["ports"],
            "A container without a network has no ports that can be reached: "
            "`SandboxSpec(network='full')`.",
        )
    if spec.root is not None:
        raise SandboxRefused(
            "Docker",
            ["root"],
            "Make an image of the folder (`tar -C FOLDER -c . | docker import - NAME`) and name it "
            "in `SandboxSpec(image=...)`.",
        )


def run_words(
    spec: SandboxSpec,
    *,
    program: Program,
    image: str,
    name: str,
    owner: str,
    user: str,
    cpus: float | None,
    disk: bool,
    pull: Literal["never", "missing", "always"],
    options: tuple[str, ...],
) -> list[str]:
    """The words after `docker`: an attached container with nothing but process 1 in it."""
    limits = spec.limits
    tmpfs = f"rw,exec,nosuid,nodev,size={limits.disk_bytes},mode=1777"
    if program == "podman":  # else it is filled with what the image has there
        tmpfs += ",notmpcopyup"
    words = [
        *("run", "--interactive", "--rm", "--name", name, "--hostname", "sandbox"),
        *("--label", f"{LABEL}={owner}", "--pull", pull, "--no-healthcheck"),
        *("--log-driver", "none", "--stop-timeout", "0"),
        *("--network", "none" if spec.network == "none" else "bridge"),
        *("--user", user, "--workdir", "/", "--entrypoint", "python3"),
        *("--cap-drop", "ALL", "--security-opt", "no-new-privileges"),
        *("--memory", str(limits.memory_bytes), "--memory-swap", str(limits.memory_bytes)),
        *("--pids-limit", str(limits.processes)),
        *("--ulimit", "core=0:0", "--ulimit", f"nofile={_open_files(program)}"),
        *("--tmpfs", f"/tmp:{tmpfs}", "--tmpfs", f"/var/tmp:{tmpfs}"),
        *("--shm-size", f"{limits.disk_bytes}b"),
    ]
    if program == "podman":  # it asks for more than it may have where it is itself confined
        words += ["--ulimit", f"nproc={PODMAN_PROCESSES}:{PODMAN_PROCESSES}"]
    if cpus is not None:
        words += ["--cpus", f"{cpus:g}"]
    if disk:
        words += ["--storage-opt", f"size={limits.disk_bytes}"]
    for path in spec.readable:
        words += ["--mount", _read_only(path)]
    for port in spec.ports:
        words += ["--publish", f"127.0.0.1::{port}"]
    return [*words, *options, image, "-I", "-S", "-c", WARDEN]


def _open_files(program: Program) -> str:
    most = OPEN_FILES
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if program == "podman" and hard != resource.RLIM_INFINITY:  # its children are this process's
        most = min(most, hard)
    return f"{most}:{most}"


def _read_only(path: str | Path) -> str:
    folder = Path(path).absolute()
    if not folder.exists():
        raise UsageError(f"`SandboxSpec(readable=...)` has {str(path)!r}: there is no such path.")
    text = io.StringIO()
    csv.writer(text).writerow(["type=bind", f"source={folder}", f"target={folder}", "readonly"])
    return text.getvalue().strip()
