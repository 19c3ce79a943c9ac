"""One container: process 1, which is told what to do, and what is started beside it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import posixpath
from collections.abc import Sequence
from typing import Any

from rolecraft.errors import SandboxError
from rolecraft.sandboxes._agent_link import BOOT, PYTHON, Frame, PipeLink, ended
from rolecraft.sandboxes._docker_cli import NO_CONTAINER, NOWHERE, Cli
from rolecraft.sandboxes.base import KILLED
from rolecraft.sandboxes.live import SandboxLost

FIRST_GROUP = 200_000
MAKE_ABOVE = """\
import os, sys
above, folder = sys.argv[1:]
if not os.path.isdir(folder):
    os.makedirs(above, exist_ok=True)
    os.chmod(above, 0o1777)
"""
MAKE = "import os, sys; os.makedirs(sys.argv[1], exist_ok=True); assert os.access(sys.argv[1], 2)"


class Container:
    """A running container. Each command in it has a group id of its own.

    A process cannot leave its group id without a right that no container of ours has: not by a
    session of its own, not by a double fork. So the id tells which command a process belongs to,
    and what is to be ended with it.
    """

    def __init__(
        self, cli: Cli, name: str, process: asyncio.subprocess.Process, *, user: int
    ) -> None:
        self.cli, self.name, self.user = cli, name, user
        self._process = process
        self._turn = asyncio.Lock()
        self._groups = itertools.count(FIRST_GROUP)

    @classmethod
    async def start(
        cls, cli: Cli, words: Sequence[str], *, name: str, user: int, seconds: float
    ) -> Container:
        """Start a container with the words of `run_words` and wait until it answers."""
        process = await asyncio.create_subprocess_exec(
            *cli.words(*words),
            cwd=NOWHERE,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for this process, not for its containers
        )
        made = cls(cli, name, process, user=user)
        assert process.stdout is not None
        try:
            line = await asyncio.wait_for(process.stdout.readline(), seconds)
        except TimeoutError:
            await made.remove()
            raise SandboxError(
                f"`{cli.program}` had no container running within {seconds:g} s."
            ) from None
        except BaseException:
            await made.remove()
            raise
        if line != b"ready\n":
            assert process.stderr is not None
            said = (await process.stderr.read()).decode("utf-8", "replace")
            await process.wait()
            raise cli.problem(words, said)
        return made

    @property
    def alive(self) -> bool:
        """Whether process 1 runs, as far as is known."""
        return self._process.returncode is None

    def new_group(self) -> int:
        """A group id that no process of this container has had."""
        return next(self._groups)

    async def tell(self, *words: str) -> str:
        """Have process 1 do something, and get its answer. Raises `SandboxLost` if it is gone."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        async with self._turn:
            try:
                stdin.write((" ".join(words) + "\n").encode())
                await stdin.drain()
                answer = await stdout.readline()
            except (BrokenPipeError, ConnectionResetError):
                answer = b""
        if not answer:
            raise SandboxLost(f"The container {self.name} is gone.")
        return answer.decode().strip()

    def words(self, command: Sequence[str], *, group: int, user: int | None = None) -> list[str]:
        """The command line that runs a program in it, with all three streams."""
        owner = f"{self.user if user is None else user}:{group}"
        return self.cli.words(
            "exec", "--interactive", "--user", owner, "--workdir", "/", self.name, *command
        )

    async def make_folder(self, folder: str) -> None:
        """Make the work folder, if there is none, so that it belongs to the user.

        Raises `SandboxError` if it cannot be, or if the image has no Python.
        """
        for user, words in (
            (0, (*PYTHON, MAKE_ABOVE, posixpath.dirname(folder), folder)),
            (self.user, (*PYTHON, MAKE, folder)),
        ):
            owner = f"{user}:{user}"
            answer = await self.cli.ask("exec", "--user", owner, self.name, *words)
            if answer.code:
                said = " ".join((answer.stderr or answer.stdout).split())[-400:]
                if NO_CONTAINER.search(said):
                    raise SandboxLost(f"The container {self.name} is gone: {said}")
                raise SandboxError(
                    f"The image cannot hold a sandbox in `{folder}` for user {self.user}: {said}. "
                    f"It needs `python3`, and a work folder that is the user's: see "
                    f"`folder` and `user` of `Docker`."
                )

    async def remove(self) -> None:
        """End it and delete its files; nothing if it is gone."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        with contextlib.suppress(SandboxError):
            await self.cli.ask("rm", "--force", self.name)
        await ended(self._process)


class ContainerLink(PipeLink):
    """A link to an agent in a container, with what ends whatever gets away from the agent."""

    container: Container
    group: int

    @classmethod
    async def begin(cls, container: Container, order: dict[str, Any]) -> ContainerLink:
        """Start an agent in a container."""
        group = container.new_group()
        link = await cls.start(container.words(BOOT, group=group), order, cwd=NOWHERE)
        link.container, link.group = container, group
        return link

    async def receive(self) -> list[Frame]:
        """See `Link.receive`. An agent that the command has killed is an end of the command."""
        try:
            return await super().receive()
        except SandboxLost as lost:
            code = await self._process.wait()
            await self._end_group()
            if code == KILLED:
                return [(b"x", b'{"code": 137}')]
            raise SandboxError(f"Nothing could be run in {self.container.name}. {lost}") from lost

    async def close(self) -> None:
        """See `Link.close`."""
        with contextlib.suppress(SandboxLost):
            await self._end_group()
        await super().close()

    async def _end_group(self) -> None:
        await self.container.tell("end", str(self.group))
