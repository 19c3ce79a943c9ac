"""A language model in vLLM, in this process: exact tokens, continuous batching, adapters per role.

All sessions share one engine, whose calls run together however many there are. The engine computes
in processes of its own. When it dies, every call under way gets one clear error, and the next call
starts a new engine, with the adapters that were current.
"""

from __future__ import annotations

import asyncio
import itertools
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

from rolecraft.errors import ModelError, ModelUnavailable, UsageError
from rolecraft.models._keywords import keywords_of
from rolecraft.models._vllm import check_installed
from rolecraft.models._vllm_sampling import Drawn, Listen, Logprobs, VLLMSampling
from rolecraft.models.adapters import AdapterVersion
from rolecraft.models.process_guard import Guard, children
from rolecraft.models.vllm_settings import VLLMSettings

# Which processes are an engine's is seen by what is new once it has started.
_one_starts = threading.Lock()


class VLLMModel(VLLMSampling):
    """A model that vLLM computes, used from this process.

    `path` is a folder as `save_pretrained` writes it, or a name on the Hugging Face hub. The
    engine starts at the first call (or at `await model.prepare()`), which takes from half a minute
    to minutes. The other arguments are those of `VLLMSettings`.

    Sampling depends on weights, seeds and positions, and on rounding: which calls share a step
    changes sums in their last bits, so that long answers may differ between runs. One event loop
    uses a model. A program that starts one needs `if __name__ == "__main__":`, because vLLM may
    import it again in its own processes.
    """

    @keywords_of(VLLMSettings)
    def __init__(self, path: str | Path, settings: VLLMSettings) -> None:
        check_installed()
        super().__init__(path, settings)
        self.starts = 0
        """How often an engine has been started."""
        self._engine: Any = None
        self._guard: Guard | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._starting = asyncio.Lock()
        self._numbers = itertools.count()

    async def prepare(self) -> None:
        """Start the engine if there is none, or if it has died.

        Raises `ModelError` if it does not start, `ModelUnavailable` if it has died too often.
        """
        loop = asyncio.get_running_loop()
        if self._engine is not None and self._loop is loop and not self._engine.errored:
            return
        if self._engine is not None and self._loop is not loop:
            assert self._loop is not None
            if self._loop.is_running():
                raise UsageError(
                    f"`{self.name}` is in use in another event loop. Use one loop, or give each "
                    f"loop a model of its own."
                )
            await self._stop()
            self._starting = asyncio.Lock()
        async with self._starting:
            if self._engine is not None and not self._engine.errored:
                return
            if self._engine is not None:
                await self._stop()
            if self.starts > self.settings.restarts:
                raise ModelUnavailable(
                    f"vLLM's engine of `{self.name}` has died {self.starts} times and is not "
                    f"started again. See what it wrote to stderr; `restarts=` allows more.",
                    model=self.name,
                )
            self.starts += 1
            self._loop = loop
            self._engine = await asyncio.to_thread(self._start)
            self._context = self._engine.model_config.max_model_len
            await self.adapters.reload()

    async def aclose(self) -> None:
        await self._stop()
        await self.adapters.aclose()
        self.starts = 0

    def _start(self) -> Any:
        from vllm import AsyncEngineArgs, AsyncLLMEngine

        arguments = self.settings.engine_arguments(self.path)
        if "log_level" in AsyncEngineArgs.__dataclass_fields__:  # since 0.32
            arguments.setdefault("log_level", "WARNING")
        with _one_starts:
            before = set(children("VLLM::"))
            try:
                with _no_interrupts():
                    engine = AsyncLLMEngine.from_engine_args(AsyncEngineArgs(**arguments))
            except Exception as error:  # whatever went wrong, in whichever of its libraries
                raise ModelError(
                    f"vLLM's engine of `{self.name}` did not start: {error} (vLLM writes the cause "
                    f"to stderr). Its settings: {arguments!r}.",
                    model=self.name,
                ) from error
            self._guard = Guard(set(children("VLLM::")) - before)
        return engine

    async def _stop(self) -> None:
        engine, self._engine = self._engine, None
        guard, self._guard = self._guard, None
        if engine is not None:
            # Else it takes the end of the engine for a crash, and writes a traceback.
            if (handler := getattr(engine, "output_handler", None)) is not None:
                handler.cancel()
            await asyncio.to_thread(engine.shutdown)
            # Its finalizer would do that again, at the end of Python, when half of it is gone.
            engine.shutdown = _nothing
        if guard is not None:
            await asyncio.to_thread(guard.close)

    async def _draw(
        self,
        ids: list[int],
        settings: dict[str, Any],
        adapter: AdapterVersion | None,
        listen: Listen | None = None,
    ) -> Drawn:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        engine = self._engine
        if engine is None:
            raise self._dead()
        kind = RequestOutputKind.FINAL_ONLY if listen is None else RequestOutputKind.CUMULATIVE
        last: Any = None
        try:
            # An answer that is cancelled is aborted in the engine by vLLM's own generator.
            async for last in engine.generate(
                {"prompt_token_ids": ids},
                SamplingParams(**settings, output_kind=kind, detokenize=bool(settings.get("stop"))),
                f"{id(self):x}-{next(self._numbers)}",
                lora_request=_lora(adapter),
            ):
                if listen is not None:
                    listen(last.outputs[0].token_ids)
        except Exception as error:
            if engine.errored:
                raise self._dead() from error
            raise ModelError(
                f"vLLM refused a request to `{self.name}`: {error.__cause__ or error}",
                model=self.name,
            ) from error
        answer = last.outputs[0]
        if answer.finish_reason not in ("stop", "length"):
            raise ModelUnavailable(
                f"vLLM ended an answer of `{self.name}` with {answer.finish_reason!r}.",
                model=self.name,
            )
        return Drawn(
            ids=list(answer.token_ids),
            logprobs=[_numbers(at) for at in answer.logprobs or ()],
            finish=answer.finish_reason,
            prompt_logprobs=[_numbers(at) for at in (last.prompt_logprobs or ())[1:]],
        )

    def _dead(self) -> ModelUnavailable:
        left = max(0, self.settings.restarts + 1 - self.starts)
        return ModelUnavailable(
            f"vLLM's engine of `{self.name}` died, and this answer with it (vLLM writes the cause "
            f"to stderr). "
            + (f"The next call starts it anew; {left} restarts are left." if left else ""),
            model=self.name,
        )

    async def _take_in(self, version: AdapterVersion) -> None:
        if not await self._engine.add_lora(_lora(version)):
            raise ModelError(f"it did not take `{version.name}` in, and gives no reason")

    async def _take_out(self, version: AdapterVersion) -> None:
        if self._engine is not None and not self._engine.errored:
            await self._engine.remove_lora(version.number)


@contextmanager
def _no_interrupts() -> Iterator[None]:
    """Processes started meanwhile get no SIGINT: Ctrl-C in a terminal goes to all processes at
    once, and the engine would give up the answers that the program wants to finish.
    """
    resource_tracker.ensure_running()  # Python's own, which unblocks the signal when it starts
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _nothing(*given: Any, **named: Any) -> None:
    pass


def _lora(version: AdapterVersion | None) -> Any:
    if version is None:
        return None
    from vllm.lora.request import LoRARequest

    return LoRARequest(version.name, version.number, str(version.path))


def _numbers(at: Mapping[int, Any]) -> Logprobs:
    return {token: found.logprob for token, found in at.items()}
