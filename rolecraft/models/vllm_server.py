"""`vllm serve` with a lifetime: from `async with` to its end, however that comes.

Invariant: when the block is left, or this process ends in any way, no process of the server is
left. While it lasts, a server that crashes is started anew, with the adapters that were current;
the answers under way when it crashed fail with one clear error each.
"""

from __future__ import annotations

import asyncio
import secrets
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx

from rolecraft._log import log as logger
from rolecraft.errors import ModelError, ModelUnavailable
from rolecraft.models._vllm import check_installed, engine_settings
from rolecraft.models._vllm_process import (
    LOOK_EVERY,
    ServerProcess,
    command,
    free_port,
    vllm_program,
)
from rolecraft.models.reasoning import ReasoningFormat
from rolecraft.models.token_model import OnRewrite
from rolecraft.models.tool_calls import ToolCallParser
from rolecraft.models.vllm_server_model import VLLMServerModel

# Seconds a server may take to end by itself before it is killed.
PATIENCE = 15.0

# How many free ports are tried before it is an error that somebody else took each of them.
PORTS = 5


class VLLMServer:
    """An OpenAI-compatible server of vLLM on this machine.

    `async with VLLMServer("Qwen/Qwen3-0.6B") as server:` starts it and stops it; `server.model` is
    a model for roles, `server.url` and `server.api_key` are for anything that speaks OpenAI's
    protocol.

    `port` is a free one when None. `api_key` is made up when None. `log` is the file that the
    server writes to (a temporary one when None). `start_seconds` is how long it may take to answer
    (weights may have to be fetched), `restarts` how often it is started anew after a crash.
    `program` is the command that `serve` is put after (default: vLLM of this interpreter).
    `settings` of the model are those of `VLLMModel`: `context`, `dtype`, `max_adapters`, `engine`
    and so on.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        host: str = "127.0.0.1",
        port: int | None = None,
        api_key: str | None = None,
        log: str | Path | None = None,
        start_seconds: float = 900.0,
        restarts: int = 2,
        program: Sequence[str] | None = None,
        name: str | None = None,
        seed: int = 0,
        max_tokens: int = 512,
        context: int | None = None,
        dtype: str = "auto",
        template: Mapping[str, Any] | None = None,
        parser: ToolCallParser | str | None = None,
        reasoning: ReasoningFormat | str | None = None,
        on_rewrite: OnRewrite = "fork",
        max_adapters: int = 8,
        max_rank: int = 64,
        also_known_as: Sequence[str] = (),
        widest_support: int = 1024,
        engine: Mapping[str, Any] | None = None,
    ) -> None:
        if program is None:
            check_installed()
        self.host = host
        self.port = port
        self.api_key = api_key or secrets.token_urlsafe(24)
        self.log = Path(log) if log is not None else None
        self.restarts = restarts
        self.starts = 0
        """How often the server has been started."""
        self._wanted_port = port
        self._start_seconds = start_seconds
        self._program = list(program) if program is not None else vllm_program()
        self.model = VLLMServerModel(
            path,
            server=self,
            name=name,
            seed=seed,
            max_tokens=max_tokens,
            context=context,
            template=template,
            parser=parser,
            reasoning=reasoning,
            on_rewrite=on_rewrite,
            max_adapters=max_adapters,
            max_rank=max_rank,
            also_known_as=also_known_as,
            widest_support=widest_support,
        )
        """The model that it serves. Roles with adapters are served by theirs."""
        self._settings = engine_settings(
            str(path),
            engine or {},
            context=context,
            dtype=dtype,
            max_adapters=max_adapters,
            max_rank=max_rank,
            widest_support=self.model.widest_support,
        )
        self._settings["served_model_name"] = self.model.name
        self._process: ServerProcess | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()
        self._failure: Exception | None = None

    @property
    def url(self) -> str:
        """Where its OpenAI-compatible API is."""
        return f"http://{self.host}:{self.port}/v1"

    @property
    def pid(self) -> int | None:
        """The process that leads its group; None while it does not run."""
        if self._process is None or self._process.exit_code is not None:
            return None
        return self._process.pid

    async def __aenter__(self) -> VLLMServer:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
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
        if self._process is None or self._process.exit_code is not None:
            return False
        with suppress(httpx.HTTPError):
            async with httpx.AsyncClient(timeout=5.0, trust_env=False) as client:
                answer = await client.get(f"http://{self.host}:{self.port}/health")
                return answer.status_code == 200
        return False

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
            self.port = self._wanted_port or free_port(self.host)
            if await self._start_process():
                break
            # Between our look and the server's, which loads its libraries first, somebody else
            # took the port.
            assert self._process is not None
            if self._wanted_port is not None or not left:
                raise self._process.why(self.model.name)
            await self._end_process()
            logger.info(f"Port {self.port} was taken meanwhile; another one is tried.")
        try:
            await self.model.connect()
        except ModelError:
            raise
        except Exception as error:  # it answered before, and does not now, or not as vLLM does
            raise ModelError(
                f"The vLLM server of `{self.model.name}` answers and cannot be used: {error!r}. "
                f"Its log `{self.log}` ends:\n{self.tail()}",
                model=self.model.name,
            ) from error
        self._ready.set()

    async def _start_process(self) -> bool:
        """Start it, and wait until it answers. False if it ended because its port was taken."""
        assert self.log is not None
        line = command(
            self._program,
            {**self._settings, "host": self.host, "port": self.port},
            api_key=self.api_key,
        )
        process = self._process = ServerProcess(line, self.log)
        try:
            async with asyncio.timeout(self._start_seconds):
                while not (await self.healthy() and await self._is_ours()):
                    if process.exit_code is not None:
                        if process.port_was_taken():
                            return False
                        raise process.why(self.model.name)
                    await asyncio.sleep(LOOK_EVERY)
        except TimeoutError:
            raise ModelError(
                f"The vLLM server of `{self.model.name}` did not answer within "
                f"{self._start_seconds:g} s, its `start_seconds`. Its log `{self.log}` ends:\n"
                f"{process.tail()}",
                model=self.model.name,
            ) from None
        return True

    async def _is_ours(self) -> bool:
        """Whether what answers there takes our key and has our model: it may be another's port."""
        with suppress(httpx.HTTPError, ValueError, KeyError, TypeError):
            async with httpx.AsyncClient(timeout=5.0, trust_env=False) as client:
                answer = await client.get(
                    f"{self.url}/models", headers={"Authorization": f"Bearer {self.api_key}"}
                )
                return self.model.name in {model["id"] for model in answer.json()["data"]}
        return False

    async def _watch(self) -> None:
        """Start the server anew when it crashes, as often as that is allowed."""
        while True:
            assert self._process is not None
            await self._process.exited()
            self._ready.clear()
            crash = self._process.why(self.model.name)
            logger.warning(str(crash))
            await self._end_process()
            if self.starts > self.restarts:
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
