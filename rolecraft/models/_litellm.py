"""LiteLLM, loaded on first use, kept quiet, and its HTTP clients closed in time.

Importing it takes seconds: call `load` in a thread. Nothing here reaches the network.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

_lock = threading.Lock()
_loaded: Any = None
_users: WeakKeyDictionary[asyncio.AbstractEventLoop, WeakSet[object]] = WeakKeyDictionary()

# LiteLLM knows no other way to say these two things before its import, which acts on them at once:
# without the first it fetches its price list from the internet (it ships one, which is what we
# want), without the second it reads settings from any `.env` file above its own folder.
_IMPORT_SETTINGS = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_MODE": "PRODUCTION"}


def load() -> Any:
    """The module `litellm`. Safe to call from several threads; all but the first call are quick."""
    global _loaded
    if _loaded is None:
        with _lock:
            if _loaded is None:
                with _environment(_IMPORT_SETTINGS):
                    import litellm

                    # openai does this at its first request, which would hold up the event loop.
                    import_module("openai.resources")
                _quieten(litellm)
                _loaded = litellm
    return _loaded


@cache
def request_settings() -> dict[str, Any]:
    """What every request needs, whatever it asks."""
    # Retries are ours alone: LiteLLM's and the client's own would multiply them.
    settings: dict[str, Any] = {"num_retries": 0, "max_retries": 0}
    # Versions that have this module import it, and with it a proxy server and the package `mcp`,
    # for every request with tools, unless they are told not to.
    with suppress(ModuleNotFoundError):  # of a parent of that module
        if find_spec("litellm.responses.mcp.chat_completions_handler"):
            settings["_skip_mcp_handler"] = True
    return settings


def _quieten(litellm: Any) -> None:
    litellm.suppress_debug_info = True  # no "Give Feedback" lines on stdout
    litellm.telemetry = False  # gone from newer versions, where setting it does nothing
    litellm.disable_hf_tokenizer_download = True  # counting tokens stays on this machine
    # What it would log as a warning or error reaches the caller as an exception or in the answer.
    # Somebody who asked LiteLLM for more (`LITELLM_LOG=DEBUG`) keeps getting it.
    log = logging.getLogger("LiteLLM")
    if log.getEffectiveLevel() >= logging.WARNING:
        log.setLevel(logging.CRITICAL)


@contextmanager
def _environment(settings: dict[str, str]) -> Iterator[None]:
    """Environment variables for the duration of a block; afterwards they are as they were."""
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def enter(user: object) -> None:
    """`user` sends requests from the running event loop, until it calls `leave`."""
    loop = asyncio.get_running_loop()
    users = _users.get(loop)
    if users is None:
        _users[loop] = users = WeakSet()
    users.add(user)


async def leave(user: object) -> None:
    """`user` sends no more. The last one out closes the connections of this event loop.

    LiteLLM keeps one client a server and event loop, shared by all who ask that server, and
    closes them only when the process ends.
    """
    loop = asyncio.get_running_loop()
    users = _users.get(loop)
    if users is None or user not in users:
        return
    users.discard(user)
    if users:
        return
    del _users[loop]
    cache = _loaded.in_memory_llm_clients_cache
    mine = f"-{id(loop)}"  # the end of its keys: a client belongs to the loop that made it
    for key in [key for key in cache.cache_dict if key.endswith(mine)]:
        client = cache.cache_dict.pop(key)
        cache.ttl_dict.pop(key, None)
        close = getattr(client, "close", None) or getattr(client, "aclose", None)
        if close is not None:
            await close()
