"""`Kubernetes`: sandboxes of a cluster, through the resources of agent-sandbox and its client.

    from k8s_agent_sandbox.models import SandboxInClusterConnectionConfig

    provider = Kubernetes("rolecraft-python", connection=SandboxInClusterConnectionConfig())

A sandbox is a `SandboxClaim` of a warm pool (group `extensions.agents.x-k8s.io`, v1beta1): the
controller hands out a pod that already runs. The pod's image, limits, network and rights are those
of the pool's `SandboxTemplate`; `deploy/kubernetes/` has one that holds the walls declared here. In
the pod runs the runtime of agent-sandbox (its Python server or sandboxd), which the client asks to
run commands; everything else is done by an agent of ours beside each command.
"""

from __future__ import annotations

import importlib
import math
import shlex
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from rolecraft.errors import UsageError
from rolecraft.sandboxes._command_places import CommandPlace, CommandProvider
from rolecraft.sandboxes.live import (
    SandboxLost,
    SandboxRefused,
    SandboxSpec,
    Wall,
)

TEMPLATE_WALLS: frozenset[Wall] = frozenset(("files", "network", "processes", "memory", "disk"))
"""What the template in `deploy/kubernetes/` holds, on a cluster that enforces network policies."""
LABELS = {"app.kubernetes.io/managed-by": "rolecraft"}


class Kubernetes(CommandProvider):
    """Sandboxes of the warm pool `pool`, or of `pools[image]` for a spec that names an image.

    `connection` is one of the client's connection configurations: how commands reach a pod. The
    cluster is that of the pod this runs in, else of the kubeconfig, else `api_client`'s (of
    `kubernetes_asyncio`; it stays open). A claim deletes itself after `lifetime_seconds`, whatever
    becomes of this process: that is its lease. `walls` says what your template holds, if it is not
    ours. Memory, processes and disk are bounded by the template, not by the spec; time, processor
    time, file size and output of each command by the spec.

    The image needs Python 3.9, and bash for shells. Raises `UsageError` without the client.

    Of a spec, a network other than `"none"`, an image without a pool, ports, a `root` and
    `readable` folders are refused: the template decides.
    """

    hint = "The pool's template decides what is held."

    def __init__(
        self,
        pool: str = "rolecraft-python",
        *,
        connection: Any,
        namespace: str = "rolecraft-sandboxes",
        pools: Mapping[str, str] = {},
        lifetime_seconds: float = 4 * 3600,
        ready_seconds: float = 180.0,
        walls: Collection[Wall] = TEMPLATE_WALLS,
        api_client: Any = None,
    ) -> None:
        super().__init__(walls)
        _client_class()
        if not lifetime_seconds > 0:
            raise UsageError(f"`Kubernetes(lifetime_seconds={lifetime_seconds!r})`: more than 0.")
        self.pool, self.pools, self.namespace = pool, dict(pools), namespace
        self.connection, self.api_client = connection, api_client
        self.lifetime_seconds, self.ready_seconds = lifetime_seconds, ready_seconds

    def check(self, spec: SandboxSpec) -> None:
        """See `CommandProvider.check`."""
        super().check(spec)
        if spec.network == "full" and "network" in self.walls:
            hint = "Take a pool whose template allows it, and say so with `walls`."
            raise SandboxRefused("Kubernetes", ["network"], hint)

    def place(self, spec: SandboxSpec) -> KubernetesPlace:
        """See `CommandProvider.place`."""
        pool = self.pool
        if spec.image is not None:
            if spec.image not in self.pools:
                hint = f"`Kubernetes(pools={{{spec.image!r}: NAME}})` names a warm pool for it."
                raise SandboxRefused("Kubernetes", ["image"], hint)
            pool = self.pools[spec.image]
        return KubernetesPlace(self, spec, pool)

    def __repr__(self) -> str:
        return f"Kubernetes({self.pool!r}, namespace={self.namespace!r})"


def _client_class() -> Any:
    try:
        importlib.import_module("kubernetes_asyncio")  # without it the class below only raises
        return importlib.import_module("k8s_agent_sandbox").AsyncSandboxClient
    except ImportError as error:
        raise UsageError(
            f"`Kubernetes` needs the client of agent-sandbox ({error}): "
            f"`pip install 'k8s-agent-sandbox[async]'`."
        ) from error


class KubernetesPlace(CommandPlace):
    """See `Place`: one claim, and the pod it was given."""

    hold = 0.25
    provider: Kubernetes

    def __init__(self, provider: Kubernetes, spec: SandboxSpec, pool: str) -> None:
        super().__init__(provider, spec)
        self.pool = pool
        self.failed = f"No sandbox of the pool {pool!r} in {provider.namespace!r}"
        # Claims end by their lifetime: its own clean-up at exit would hold every client for ever.
        self._client = _client_class()(
            connection_config=provider.connection, cleanup=False, api_client=provider.api_client
        )
        self._sandbox: Any = None

    async def launch(self) -> None:
        """See `CommandPlace.launch`. Claims a sandbox and waits for it."""
        provider = self.provider
        self._sandbox = await self._client.create_sandbox(
            self.pool,
            provider.namespace,
            sandbox_ready_timeout=math.ceil(provider.ready_seconds),
            labels=LABELS,
            shutdown_after_seconds=math.ceil(provider.lifetime_seconds),
        )

    async def execute(self, command: Sequence[str], *, seconds: float) -> tuple[int, str, str]:
        """See `ShortCommands.execute`. The client takes a line: the words are quoted for it."""
        commands = self._sandbox.commands if self._sandbox is not None else None
        if commands is None:
            raise SandboxLost("The sandbox was closed.")
        try:
            done = await commands.run(shlex.join(command), timeout=math.ceil(seconds))
        except Exception as error:
            raise SandboxLost(f"The sandbox cannot be reached: {error!r}") from error
        return done.exit_code, done.stdout, done.stderr

    async def close(self) -> None:
        """See `Place.close`: the claim is deleted, and its pod with it."""
        sandbox, self._sandbox = self._sandbox, None
        client, self._client = self._client, None
        try:
            if sandbox is not None:
                await sandbox.terminate()
        finally:
            if client is not None:
                await client.close()

    def __repr__(self) -> str:
        return f"{self.provider!r} {getattr(self._sandbox, 'claim_name', None)}"
