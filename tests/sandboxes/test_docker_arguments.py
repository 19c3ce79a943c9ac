"""What `Docker` asks of the program, without a daemon: command lines, errors, whose leftovers."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rolecraft.errors import SandboxError, UsageError
from rolecraft.sandboxes import SandboxLimits, SandboxLost, SandboxSpec
from rolecraft.sandboxes import _docker_cli as module
from rolecraft.sandboxes._docker_arguments import run_words
from rolecraft.sandboxes._docker_cli import Cli, Program, has_ended, this_process
from rolecraft.sandboxes.docker import Docker


def words(spec: SandboxSpec, program: Program = "docker") -> list[str]:
    """With everything that a provider can ask for."""
    return run_words(
        spec,
        program=program,
        image="python:3.12",
        name="rolecraft-x",
        owner="me",
        user="1000:1000",
        cpus=1.5,
        disk=program == "docker",
        pull="never",
        options=("--runtime", "runsc"),
    )


def test_limits_and_walls_are_in_the_command_line(tmp_path: Path) -> None:
    folder = tmp_path / "with, comma"
    folder.mkdir()
    limits = SandboxLimits(memory_bytes=1000, processes=7, disk_bytes=2000)
    text = " ".join(words(SandboxSpec(limits=limits, readable=(folder,))))
    for part in (
        "--network none",
        "--cap-drop ALL",
        "--security-opt no-new-privileges",
        "--user 1000:1000",
        "--memory 1000 --memory-swap 1000",
        "--pids-limit 7",
        "--cpus 1.5",
        "--storage-opt size=2000",
        "--shm-size 2000b",
        "--label io.rolecraft.sandbox=me",
        f'--mount type=bind,"source={folder}","target={folder}",readonly',
        "--runtime runsc python:3.12 -I -S -c",
    ):
        assert part in text
    full = " ".join(words(SandboxSpec(network="full", ports=(80,))))
    assert "--network bridge" in full
    assert "--publish 127.0.0.1::80" in full


@pytest.mark.parametrize("program", ["docker", "podman"])
def test_the_program_knows_every_option(program: Program) -> None:
    """Its own help is asked: no daemon answers that."""
    if shutil.which(program) is None:
        pytest.skip(f"needs `{program}` (Debian: {module.PACKAGES[program]})")
    found = subprocess.run([program, "run", "--help"], capture_output=True, text=True, check=True)
    known = set(re.findall(r"--[a-z-]+", found.stdout))
    spec = SandboxSpec(network="full", ports=(80,), readable=("/usr",))
    ours = words(spec, program)
    ours = [word for word in ours if word != "--runtime"]  # of our own making, above
    used = {word for word in ours[: ours.index("python:3.12")] if word.startswith("--")}
    assert used <= known


async def test_without_the_program_one_error_names_the_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module.shutil, "which", lambda name: None)
    for program, package in (("docker", r"docker\.io"), ("podman", "podman")):
        with pytest.raises(SandboxError, match=rf"`{program}` is not installed.*{package}"):
            await Docker("x", program=program).create()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("said", "kind", "text"),
    [
        (
            "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker "
            "daemon running?",
            SandboxError,
            "reaches no daemon",
        ),
        (
            "Got permission denied while trying to connect to the Docker daemon socket",
            SandboxError,
            "in its group",
        ),
        ("Unable to find image 'x:1' locally", SandboxError, "no such image"),
        ("Error: x:1: image not known", SandboxError, "no such image"),
        ("Error response from daemon: No such container: x", SandboxLost, "is gone"),
        ('Error: no container with name or ID "x" found', SandboxLost, "is gone"),
        ("Error: something else", SandboxError, "`docker run` failed; it said: Error: something"),
    ],
)
def test_what_the_program_says_is_a_typed_error(
    said: str, kind: type[SandboxError], text: str
) -> None:
    error = Cli("docker").problem(("run",), said)
    assert type(error) is kind
    assert text in str(error)


def test_whose_leftovers_may_be_removed() -> None:
    """Those of a process of this machine and start that has ended, and nobody else's."""
    assert not has_ended(this_process())
    child = subprocess.run(
        [
            sys.executable,
            "-c",
            "from rolecraft.sandboxes._docker_cli import this_process; print(this_process())",
        ],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    assert has_ended(child.stdout.strip())
    boot, pid, started = this_process().rsplit(".", 2)
    assert int(pid) == os.getpid()
    assert has_ended(f"{boot}.{pid}.{int(started) - 1}"), "the id was another process's before"
    assert not has_ended(f"another-boot.{pid}.{int(started) - 1}"), "it cannot be seen from here"
    assert not has_ended("nonsense")


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(UsageError, match="it is `'docker'` or `'podman'`"):
        Docker("x", program="nerdctl")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="no quota"):
        Docker("x", program="podman", quota=True)
    for folder in ("work", "/"):
        with pytest.raises(UsageError, match="absolute path"):
            Docker("x", folder=folder)
    with pytest.raises(UsageError, match="there is no such path"):
        words(SandboxSpec(readable=("/no/such/folder",)))
