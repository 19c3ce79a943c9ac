"""`Docker` with real containers, through podman: what every sandbox must do, and what is its own.

There is no Docker daemon where these run. Podman takes the same command lines, and needs none. The
image is made on the spot of this machine's own programs: no registry is asked.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import shutil
import subprocess
import sys
import tarfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from rolecraft.errors import SandboxError, UsageError
from rolecraft.sandboxes import (
    AllowList,
    SandboxFileError,
    SandboxLimits,
    SandboxLost,
    SandboxRefused,
    SandboxSpec,
)
from rolecraft.sandboxes.conformance import IsolatedSandboxConformance
from rolecraft.sandboxes.conformance_live import LiveSandboxConformance
from rolecraft.sandboxes.docker import Docker

pytestmark = [pytest.mark.slow, pytest.mark.containers]
IMAGE = "localhost/rolecraft-tests:1"
PROGRAMS = """
bash sh env cat ls echo true false sleep mkdir rm cp mv ln chmod touch head tail wc sort tr cut yes
seq id test stat dd df find grep sed tar kill setsid timeout unshare mktemp readlink realpath date
mkfifo stty printf basename dirname git pwd printenv truncate xargs uname whoami
"""
# Cgroups of version 1 and 2 side by side are refused by crun, not by runc.
OPTIONS = ("--runtime", "runc")


def _tree(root: Path, python: Path) -> None:
    """A root folder with a shell, the usual programs and Python, copied from this machine."""
    modules = python.resolve().parent.parent / "lib" / python.resolve().name
    programs = [
        Path(found) for name in PROGRAMS.split() if (found := shutil.which(name, path="/usr/bin"))
    ]
    libraries = {
        word
        for each in [*programs, python, *modules.glob("lib-dynload/*.so")]
        for word in subprocess.run(["ldd", each], capture_output=True, text=True).stdout.split()
        if word.startswith("/")
    }
    for each in [*programs, *map(Path, libraries)]:
        inside = str(each) if str(each).startswith("/usr/") else f"/usr{each}"
        target = root / inside.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(each, target)
    shutil.copy2(python, root / "usr/bin/python3")
    left_out = shutil.ignore_patterns("__pycache__", "test", "*-packages", "config-*", "idlelib")
    shutil.copytree(modules, root / "usr/lib" / modules.name, symlinks=True, ignore=left_out)
    for name in ("bin", "lib", "lib64"):
        (root / name).symlink_to(f"usr/{name}")
    for name in ("proc", "sys", "dev", "tmp", "etc", "var/tmp"):
        (root / name).mkdir(parents=True, exist_ok=True)
    for name in ("tmp", "var/tmp"):  # a tmpfs takes over the rights of what it is mounted on
        (root / name).chmod(0o1777)


@pytest.fixture(scope="session")
def image(needs_program, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    needs_program("podman", package="podman")
    needs_program("runc", package="runc")
    python = needs_program("/usr/bin/python3", package="python3")
    folder = tmp_path_factory.mktemp("image")
    _tree(folder / "root", python)
    with tarfile.open(folder / "root.tar", "w") as archive:
        archive.add(folder / "root", ".")
    done = subprocess.run(
        ["podman", *OPTIONS, "import", str(folder / "root.tar"), IMAGE],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    shutil.rmtree(folder)
    yield IMAGE
    subprocess.run(["podman", *OPTIONS, "rmi", "--force", IMAGE], capture_output=True, check=True)


def provider(**more: object) -> Docker:
    settings = {"program": "podman", "options": OPTIONS, "pull": "never", **more}
    return Docker(IMAGE, **settings)  # type: ignore[arg-type]


@pytest.mark.usefixtures("image")
class TestPodman(IsolatedSandboxConformance, LiveSandboxConformance):
    def make(self) -> Docker:
        return provider()

    async def test_files_of_the_host_cannot_be_read(self, tmp_path: Path) -> None:
        """The container has an `/etc` of its own, so the host's is told by its content."""
        secret = tmp_path / "secret.txt"
        secret.write_text("a secret of this machine")
        done = await self.make().run(["cat", str(secret), "/etc/shadow"])
        assert (done.exit_code, done.stdout) == (1, "")
        assert (await self.make().run(["cat", "/etc/hostname"])).stdout.strip() == "sandbox"

    async def test_there_are_no_rights_to_gain(self) -> None:
        """Podman's list of system calls lets a user namespace be made; Docker's does not."""
        look = "id -u; grep -h Cap /proc/self/status; grep NoNewPrivs /proc/self/status"
        uid, *rights, no_new = (await self.make().run(["sh", "-c", look])).stdout.splitlines()
        assert uid == "1000"
        assert {line.split()[1].strip("0") for line in rights} == {""}
        assert no_new.split()[1] == "1"

    async def test_the_work_folder_has_a_size(self) -> None:
        """Not held without a quota of the storage driver, and so not declared; /tmp is."""
        assert "disk" not in self.make().walls
        limits = SandboxLimits(disk_bytes=2 * 2**20)
        fill = "for i in 1 2 3 4; do head -c 1000000 /dev/zero > $0/$i || exit 9; done"
        for place in ("/tmp", "/var/tmp", "/dev/shm"):
            done = await self.make().run(["sh", "-c", fill, place], limits=limits)
            assert done.exit_code == 9, place


def containers() -> list[str]:
    """All containers and images that are ours, running or not."""
    mark = ("--quiet", "--filter", "label=io.rolecraft.sandbox")
    return [
        line
        for kind in (("ps", "--all"), ("images",))
        for line in subprocess.run(
            ["podman", *OPTIONS, *kind, *mark], capture_output=True, text=True, check=True
        ).stdout.split()
    ]


def until(holds, what: str, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"not so within {seconds} s: {what}"
        time.sleep(0.1)


@pytest.mark.usefixtures("image")
async def test_a_base_a_snapshot_and_two_forks_of_it(tmp_path: Path) -> None:
    (tmp_path / "base/sub").mkdir(parents=True)
    (tmp_path / "base/sub/file.txt").write_text("from the host\n")
    (tmp_path / "base/run.sh").write_text("#!/bin/sh\necho it runs\n")
    (tmp_path / "base/run.sh").chmod(0o755)
    (tmp_path / "base/link").symlink_to("sub/file.txt")
    async with await provider().create(SandboxSpec(base=tmp_path / "base")) as first:
        assert (await first.run(["./run.sh"])).stdout == "it runs\n"
        assert (await first.run(["cat", "link"])).stdout == "from the host\n"
        await first.write("prepared.txt", "yes")
        kept = await first.snapshot()
        await first.write("prepared.txt", "changed later")
        one, two = await asyncio.gather(kept.create(), kept.create())
        await kept.close()
        with pytest.raises(SandboxLost):
            await kept.create()
        await one.write("prepared.txt", "one")
        assert await two.read("prepared.txt") == b"yes"
        assert await first.read("prepared.txt") == b"changed later"
        await two.download(".", tmp_path / "back")
        await one.close()
        await two.close()
    assert (tmp_path / "back/prepared.txt").read_text() == "yes"
    assert os.access(tmp_path / "back/run.sh", os.X_OK)
    assert (tmp_path / "base/sub/file.txt").read_text() == "from the host\n"
    assert not containers()


@pytest.mark.usefixtures("image")
async def test_processes_of_a_killed_agent_end_with_their_command() -> None:
    """The agent is one of the sandbox's own processes: what kills it gains nothing."""
    async with await provider().create() as sandbox:
        escape = "setsid sleep 1000 & kill -9 $PPID; sleep 1000"
        assert (await sandbox.run(["sh", "-c", escape])).failure == "killed"
        look = "grep -lsa sleep /proc/[0-9]*/comm | wc -l"
        assert (await sandbox.run(["sh", "-c", look])).stdout == "0\n"
        everything = await sandbox.run(["sh", "-c", "kill -9 -1; kill -9 1; echo still here"])
        assert everything.failure == "killed"
        assert (await sandbox.run(["echo", "alive"])).stdout == "alive\n"


@pytest.mark.usefixtures("image")
async def test_the_kernel_kills_for_memory_and_the_result_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """And Podman's monitor leaves no file of that in the folder this process works in."""
    monkeypatch.chdir(tmp_path)
    limits = SandboxLimits(memory_bytes=64 * 2**20, seconds=30)
    async with await provider().create(SandboxSpec(limits=limits)) as sandbox:
        hog = "import time; x = bytearray(10**8); time.sleep(20)"
        done = await sandbox.run(["python3", "-c", hog])
        assert done.failure == "memory"
        assert (await sandbox.run(["true"])).ok
    assert not os.listdir(tmp_path)


@pytest.mark.usefixtures("image")
async def test_a_container_that_is_removed_from_outside_is_lost() -> None:
    sandbox = await provider().create()
    shell = await sandbox.shell()
    name = sandbox.place.container.name
    await sandbox.place.container.cli.call("rm", "--force", name)
    with pytest.raises(SandboxLost):
        await sandbox.run(["true"])
    with pytest.raises(SandboxLost):
        await shell.run("true")
    await sandbox.close()
    assert not containers()


@pytest.mark.usefixtures("image")
async def test_an_image_that_is_not_there_is_an_error_that_names_the_way_out() -> None:
    spec = SandboxSpec(image="localhost/no-such-image:1")
    with pytest.raises(SandboxError, match=r"no such image.*SandboxSpec\(image=") as raised:
        await provider().create(spec)
    assert "no-such-image" in str(raised.value)
    with pytest.raises(SandboxError, match="cannot hold a sandbox in `/proc/work"):
        await provider(folder="/proc/work/deep").create()


@pytest.mark.usefixtures("image")
async def test_root_without_capabilities_can_use_a_folder_of_roots() -> None:
    async with await provider(folder="/usr/testbed", user=0).create() as sandbox:
        done = await sandbox.run(
            ["sh", "-c", "id -u; echo x > file; grep CapEff /proc/self/status"]
        )
        uid, capabilities = done.stdout.splitlines()
        assert uid == "0"
        assert set(capabilities.split()[1]) == {"0"}
        assert (await sandbox.run(["sh", "-c", "kill -9 -1"])) is not None
        assert (await sandbox.run(["true"])).ok, "process 1 is out of reach for root, too"


PARENT = """
import asyncio, sys
sys.path.insert(0, sys.argv[1])
from rolecraft.sandboxes.docker import Docker
async def main():
    docker = Docker(sys.argv[2], program="podman", options=("--runtime", "runc"), pull="never")
    sandbox = await docker.create()
    await sandbox.write("file", "content")
    await sandbox.snapshot()
    print("ready", flush=True)
    await sandbox.run(["sh", "-c", "setsid sleep 999 & sleep 999; : " + sys.argv[3]])
asyncio.run(main())
"""


@pytest.mark.usefixtures("image")
def test_nothing_is_left_when_the_parent_is_killed_with_9() -> None:
    """Not the container, not its processes, not the image of its snapshot."""
    mark = uuid.uuid4().hex
    root = str(Path(__file__).parents[2])
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, root, IMAGE, mark], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    assert parent.stdout.readline() == "ready\n"
    until(lambda: inside(mark), "the command runs")
    assert len(containers()) == 2
    parent.kill()
    parent.communicate()
    until(lambda: not inside(mark), "no process is left")
    until(lambda: not containers(), "no container and no image is left")


def inside(mark: str) -> bool:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if mark.encode() in path.read_bytes():
                return True
    return False


@pytest.mark.usefixtures("image")
async def test_what_the_fall_of_a_machine_left_goes_with_the_next_start() -> None:
    from rolecraft.sandboxes._docker_cli import this_process

    boot, _, started = this_process().rsplit(".", 2)
    label = f"io.rolecraft.sandbox={boot}.{2**22 + 1}.{started}"
    words = ["run", "--detach", "--network", "none", "--label", label, *_rlimits()]
    left = await provider().cli.call(*words, "--entrypoint", "sleep", IMAGE, "1000")
    assert left.strip()[:12] in containers()
    async with await provider().create():
        assert left.strip()[:12] not in containers()


def _rlimits() -> list[str]:
    hard = min(4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    return ["--ulimit", f"nofile={hard}:{hard}", "--ulimit", "nproc=4096:4096"]


@pytest.mark.usefixtures("image")
async def test_paths_outside_of_the_work_folder_are_refused() -> None:
    async with await provider().create() as sandbox:
        for path in ("../../etc/hostname", "/etc/hostname", "/proc/1/environ"):
            with pytest.raises(SandboxFileError, match="outside"):
                await sandbox.read(path)
        await sandbox.run(["ln", "-s", "/etc/hostname", "link"])
        with pytest.raises(SandboxFileError, match="outside"):
            await sandbox.read("link")
        with pytest.raises(SandboxFileError, match="no such folder"):
            await sandbox.run(["true"], cwd="not-there")


@pytest.mark.usefixtures("image")
async def test_what_a_container_cannot_be_is_refused(tmp_path: Path) -> None:
    for spec, what in (
        (SandboxSpec(network=AllowList(("example.org",))), "AllowList"),
        (SandboxSpec(ports=(8000,)), "ports"),
        (SandboxSpec(root=tmp_path), "root"),
        (SandboxSpec(requires=frozenset({"disk"})), "disk"),
    ):
        with pytest.raises(SandboxRefused, match=what):
            await provider().create(spec)
    with pytest.raises(UsageError, match="needs an image"):
        await Docker(program="podman").create()
