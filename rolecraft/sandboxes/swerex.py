"""`SweRex`: sandboxes of SWE-ReX's deployments: Modal, Fargate, Daytona, Docker, a server of yours.

    SweRex("modal", image="python:3.12")        # pip install 'swe-rex[modal]'
    SweRex("docker", image="python:3.12")
    SweRex("remote", host="http://10.0.0.7", port=8000, auth_token="...")
    SweRex("local")                             # no walls at all: this machine, this user

Of SWE-ReX 1.4 we use `execute` alone, and its deployments. Its sessions end for good at `exit 3`,
end every line with a carriage return and answer a command in a tenth of a second; its servers run
one command at a time and do nothing else meanwhile. So every call of ours is short, shells are our
own, and the library has an event loop of its own in a thread of its own.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import threading
from collections.abc import Collection, Coroutine, Mapping, Sequence
from typing import Any, Literal, TypeVar, get_args

from rolecraft.errors import UsageError
from rolecraft.sandboxes._agent_link import PYTHON
from rolecraft.sandboxes._command_places import CommandPlace, CommandProvider
from rolecraft.sandboxes.live import (
    SandboxLost,
    SandboxRefused,
    SandboxSpec,
    Wall,
)

Kind = Literal["local", "docker", "modal", "fargate", "daytona", "remote"]
T = TypeVar("T")
CLASSES = {"local": "Local", "docker": "Docker", "modal": "Modal", "fargate": "Fargate"} | {
    "daytona": "Daytona",
    "remote": "Remote",
}
DELETE = "import shutil, sys; shutil.rmtree(sys.argv[1])"


class SweRex(CommandProvider):
    """Sandboxes of one kind of SWE-ReX deployment; `settings` are those of its class.

    A spec's image takes the place of `settings["image"]`. The image needs Python 3.9, and bash for
    shells. Time, processor time, memory, file size and output of each command are held by an agent
    of ours beside it; processes and disk are not held. `walls` says what you know the deployment
    to hold; unless you do, containers and clouds are taken to hide this machine's files and
    processes, and `"local"` and `"remote"` to hold nothing. Raises `UsageError` without SWE-ReX.

    Of a spec, ports, a `root`, `readable` folders and an `AllowList` are refused, and so is
    `network="none"` where `requires` names the network.
    """

    hint = "Name in `SweRex(walls=...)` what yours holds."

    def __init__(
        self, kind: Kind = "docker", *, walls: Collection[Wall] | None = None, **settings: Any
    ) -> None:
        if kind not in get_args(Kind):
            raise UsageError(f"`SweRex({kind!r})`: the kinds are {', '.join(get_args(Kind))}.")
        self.kind, self.settings = kind, settings
        known: tuple[Wall, ...] = () if kind in ("local", "remote") else ("files", "processes")
        super().__init__(known if walls is None else walls)
        _deployment_class(kind)

    def place(self, spec: SandboxSpec) -> SweRexPlace:
        """See `CommandProvider.place`."""
        settings = dict(self.settings)
        if spec.image is not None:
            if self.kind in ("local", "remote"):
                raise SandboxRefused("SweRex", ["image"], f"`{self.kind}` runs no images.")
            settings["image"] = spec.image
        return SweRexPlace(self, spec, _deployment_class(self.kind), settings)

    def __repr__(self) -> str:
        return f"SweRex({self.kind!r})"


def _deployment_class(kind: Kind) -> type[Any]:
    name = f"{CLASSES[kind]}Deployment"
    try:
        made = getattr(importlib.import_module(f"swerex.deployment.{kind}"), name)
    except ImportError as error:
        extra = f"[{kind}]" if kind in ("modal", "fargate", "daytona") else ""
        raise UsageError(
            f"`SweRex({kind!r})` needs SWE-ReX ({error}): `pip install 'swe-rex{extra}' aiohttp`."
        ) from error
    # Its `__del__` stops the deployment a second time, on whatever event loop it finds.
    return type(name, (made,), {"__del__": lambda self: None})


class SweRexPlace(CommandPlace):
    """See `Place`: one deployment, in a thread with an event loop for it alone."""

    hold = 0.02  # a server does nothing else meanwhile

    def __init__(
        self, provider: SweRex, spec: SandboxSpec, made: type[Any], settings: Mapping[str, Any]
    ) -> None:
        super().__init__(provider, spec)
        self.kind = provider.kind
        self.shared = self.kind in ("local", "remote")
        self.failed = f"SWE-ReX's {self.kind} deployment did not start"
        self._made, self._settings = made, settings
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="rolecraft-swerex", daemon=True
        )
        self._deployment: Any = None

    async def launch(self) -> None:
        """See `CommandPlace.launch`."""
        self._thread.start()
        logger = logging.getLogger("rolecraft.sandboxes.swerex")
        self._deployment = self._made(logger=logger, **self._settings)
        await self._there(self._deployment.start())

    async def execute(self, command: Sequence[str], *, seconds: float) -> tuple[int, str, str]:
        """See `ShortCommands.execute`."""
        if self._deployment is None:
            raise SandboxLost("The sandbox was closed.")
        kind = importlib.import_module("swerex.runtime.abstract").Command
        order = kind(command=list(command), timeout=seconds)
        try:
            done = await self._there(self._deployment.runtime.execute(order))
        except Exception as error:
            raise SandboxLost(f"SWE-ReX's {self.kind} is gone: {error!r}") from error
        return done.exit_code, done.stdout, done.stderr

    async def close(self) -> None:
        """See `Place.close`."""
        deployment = self._deployment
        if deployment is not None:
            try:
                await self.execute([*PYTHON, DELETE, self.outer], seconds=60)
                self._deployment = None
                await self._there(deployment.stop())
            except Exception as error:
                logging.getLogger("rolecraft.sandboxes.swerex").warning("not closed: %r", error)
            self._deployment = None
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            await asyncio.to_thread(self._thread.join)
            self._loop.close()

    async def _there(self, work: Coroutine[Any, Any, T]) -> T:
        """Await something of SWE-ReX in its own loop."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def __repr__(self) -> str:
        return f"{self.provider!r} {self.outer}"
