"""Connecting to Ray: a cluster somewhere, one of this process alone, or what is there already."""

from __future__ import annotations

import asyncio
import importlib
import logging
from collections.abc import Mapping
from typing import Any

from rolecraft.errors import MissingExtra, UsageError

LOCAL = "local"
CONNECT_SECONDS = 20.0
OBJECT_STORE_BYTES = 256 * 2**20
"""What a cluster of this process alone keeps of results that are on their way."""


def load_ray() -> Any:
    """The module `ray`. Raises `MissingExtra` where it is not installed."""
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise MissingExtra("ray", "ray", "Rollouts on many machines") from error


async def connect(address: str, runtime_env: Mapping[str, Any] | None = None) -> bool:
    """Connect to the cluster at `address`; whether it was this call that connected.

    Only then `runtime_env` holds for what is started there; folders in it are sent along.

    In a thread: it takes seconds, and Ray would take over SIGTERM in the main one.
    """
    ray = load_ray()
    if ray.is_initialized():
        return False
    if address not in (LOCAL, "auto"):
        await _check(address)
    settings: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if runtime_env is not None:
        settings["runtime_env"] = dict(runtime_env)
    if address == LOCAL:
        # Without a dashboard; `ray.init` reports no usage statistics of its own accord.
        settings |= {"include_dashboard": False, "object_store_memory": OBJECT_STORE_BYTES}
    try:
        await asyncio.to_thread(ray.init, address=address, **settings)
    except (OSError, RuntimeError, ValueError) as error:
        raise _no_cluster(address, error) from error
    return True


async def _check(address: str) -> None:
    """See whether anybody listens there: Ray itself would try for minutes."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal() or "/" in host:
        raise UsageError(
            f"`address={address!r}` is no address of a cluster: write HOST:PORT as `ray start "
            f"--head` says it, 'auto' for the one of this machine, or {LOCAL!r} for one of this "
            f"process alone. A `ray://` address is that of a Ray client, which has no actors here."
        )
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            _, writer = await asyncio.open_connection(host.strip("[]"), int(port))
    except (OSError, OverflowError) as error:
        raise _no_cluster(address, error) from error
    writer.close()


def _no_cluster(address: str, error: Exception) -> UsageError:
    return UsageError(
        f"No Ray cluster answers at `address={address!r}`: {str(error) or type(error).__name__}. "
        f"Start one with `ray start --head`, which says its address, or use {LOCAL!r} for one of "
        f"this process alone."
    )


async def disconnect() -> None:
    await asyncio.to_thread(load_ray().shutdown)


def actor_options(
    resources: Mapping[str, float], runtime_env: Mapping[str, Any] | None, concurrency: int
) -> dict[str, Any]:
    """What Ray is told of one worker; `resources` by the names that `ray status` shows."""
    own = dict(resources)
    named = {"CPU": "num_cpus", "GPU": "num_gpus", "memory": "memory"}
    options: dict[str, Any] = {
        "num_cpus": 0,
        "max_restarts": 0,  # the pool of workers starts them again, and knows what was lost
        "max_concurrency": concurrency,
        "scheduling_strategy": "SPREAD",
    }
    for name, value in resources.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0:
            raise UsageError(f"`resources[{name!r}]` is {value!r}, expected a number from 0.")
        if name in named:
            options[named[name]] = own.pop(name)
    if own:
        options["resources"] = own
    if runtime_env is not None:
        options["runtime_env"] = dict(runtime_env)
    return options


def nodes(ray: Any) -> int:
    """How many machines are in the cluster."""
    return max(1, sum(bool(node["Alive"]) for node in ray.nodes()))
