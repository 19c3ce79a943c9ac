"""`vllm serve` with a lifetime: from `async with` to its end, however that comes.

Invariant: when the block is left, or this process ends in any way, no process of the server is
left. While it lasts, a server that crashes is started anew, with the adapters that were current;
the answers under way when it crashed fail with one clear error each.
"""

from __future__ import annotations

import asyncio
import secrets
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx

from rolecraft._log import log as logger
from rolecraft.errors import ModelError, ModelUnavailable
from rolecraft.models._keywords import keywords_of
from rolecraft.models._vllm import check_installed
from rolecraft.models._vllm_process import (
    LOOK_EVERY,
    ServerProcess,
    command,
    free_port,
    vllm_program,
)
from rolecraft.models.vllm_server_model import VLLMServerModel
from rolecraft.models.vllm_settings import VLLMServerSettings

# Seconds a server may take to end by itself before it is killed.
PATIENCE = 15.0

# How many free ports are tried before it is an error that somebody else took each of them.
PORTS = 5


class VLLMServer:
    """An OpenAI-compatible server of vLLM on this machine.

    `async with VLLMServer("Qwen/Qwen3-0.6B") as server:` starts it and stops it; `server.model` is
    a model for roles, `server.url` and `server.api_key` are for anything that speaks OpenAI's
    protocol.

    `path` is as for `VLLMModel`. The other arguments are those of `VLLMServerSettings`, and with
    them those of the model: `VLLMSettings`.
    """

    @keywords_of(VLLMServerSettings)
    def __init__(self, path: str | Path, settings: VLLMServerSettings) -> None:
        if settings.program is None:
            check_installed()
        self.settings = settings
        self.port = settings.port
        self.api_key = settings.api_key or secrets.token_urlsafe(24)
        self.log = Path(settings.log) if settings.log is not None else None
        self.starts = 0
        """How often the server has been started."""
        self.model = VLLMServerModel(path, self, settings)
        """The model that it serves. Roles with adapters are served by theirs."""
        self._process: ServerProcess | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()
        self._failure: Exception | None = None

    @property
    def url(self) -> str:
        """Where its OpenAI-compatible API is."""
        return str(httpx.URL(scheme="http", host=self.settings.host, port=self.port, path="/v1"))

    @property
    def pid(self) -> int | None:
        """The process that leads its group; None while it does not run."""
        if self._process is None or self._process.exit_code is not None:
            return None
        return self._process.pid

    async def __aenter__(self) -> VLLMServer:
        await self.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Start the server, and wait until it answers. Harmless when it runs.

        Raises `ModelError` with the end of its log if it ends or does not answer in time.
        """
        if self._watcher is not None:
            return
        if self.log is None:
            self.log = Path(tempfile.mkdtemp(prefix="rolecraft-vllm-")) / "vllm.log"
        self._failure = None
        try:
            await self._launch()
        except BaseException:
            await self._end_process()
            raise
        self._watcher = asyncio.get_running_loop().create_task(self._watch())

    async def stop(self) -> None:
        """Stop the server and all its processes. Harmless when it does not run."""
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher.cancel()
            await asyncio.wait((watcher,))
        self._ready.clear()
        try:
            await self._end_process()
        finally:
            await self.model.aclose()
            self.starts = 0

    async def healthy(self) -> bool:
        """Whether it answers now."""
        if self.pid is None:
            return False
        with suppress(httpx.HTTPError):
            async with httpx.AsyncClient(timeout=5.0, trust_env=False) as client:
                return (await client.get(httpx.URL(self.url).join("/health"))).is_success
        return False

    def client(self, **options: Any) -> httpx.AsyncClient:
        """A client of `url` that has the key. `options` are httpx's."""
        headers = {"Authorization": f"Bearer {self.api_key}"}
        return httpx.AsyncClient(base_url=self.url, headers=headers, trust_env=False, **options)

    async def ready(self) -> None:
        """Wait while it is being started anew. Raises `ModelUnavailable` if it does not run."""
        if self._watcher is None:
            raise ModelUnavailable(
                f"The vLLM server of `{self.model.name}` does not run. Use it inside "
                f"`async with VLLMServer(...) as server:`, or call `await server.start()`.",
                model=self.model.name,
            )
        await self._ready.wait()
        if self._failure is not None:
            raise ModelUnavailable(str(self._failure), model=self.model.name)

    def tail(self) -> str:
        """The end of the server's log."""
        return self._process.tail() if self._process is not None else ""

    async def _launch(self) -> None:
        self.starts += 1
        for left in reversed(range(PORTS)):
            self.port = self.settings.port or free_port(self.settings.host)
            if await self._start_process():
                break
            # Between our look and the server's, which loads its libraries first, somebody else
            # took the port.
            assert self._process is not None
            if self.settings.port is not None or not left:
                raise self._process.ended()
            await self._end_process()
            logger.info(f"Port {self.port} was taken meanwhile; another one is tried.")
        try:
            await self.model.connect()
        except ModelError:
            raise
        except Exception as error:  # it answered before, and does not now, or not as vLLM does
            assert self._process is not None
            raise self._process.error(f"answers and cannot be used: {error!r}") from error
        self._ready.set()

    async def _start_process(self) -> bool:
        """Start it, and wait until it answers. False if it ended because its port was taken."""
        assert self.log is not None
        line = command(
            self.settings.program or vllm_program(),
            self.model.settings.engine_arguments(self.model.path),
            served_model_name=self.model.name,
            host=self.settings.host,
            port=self.port,
        )
        process = self._process = ServerProcess(
            line, name=self.model.name, api_key=self.api_key, log=self.log
        )
        try:
            async with asyncio.timeout(self.settings.start_seconds):
                while not (await self.healthy() and await self._is_ours()):
                    if process.exit_code is not None:
                        if process.port_was_taken():
                            return False
                        raise process.ended()
                    await asyncio.sleep(LOOK_EVERY)
        except TimeoutError:
            raise process.error(
                f"did not answer within {self.settings.start_seconds:g} s, its `start_seconds`"
            ) from None
        return True

    async def _is_ours(self) -> bool:
        """Whether what answers there takes our key and has our model: it may be another's port."""
        with suppress(httpx.HTTPError, ValueError, KeyError, TypeError):
            async with self.client(timeout=5.0) as client:
                answer = await client.get("/models")
                return self.model.name in {model["id"] for model in answer.json()["data"]}
        return False

    async def _watch(self) -> None:
        """Start the server anew when it crashes, as often as that is allowed."""
        while True:
            assert self._process is not None
            await self._process.exited()
            self._ready.clear()
            crash = self._process.ended()
            logger.warning(str(crash))
            await self._end_process()
            if self.starts > self.settings.restarts:
                self._give_up(crash)
                return
            try:
                await self._launch()
            except Exception as error:  # whoever waits for it must hear of it
                self._give_up(error)
                await self._end_process()
                return

    def _give_up(self, why: Exception) -> None:
        self._failure = why
        self._ready.set()

    async def _end_process(self) -> None:
        if self._process is not None:
            await self._process.stop(PATIENCE)
