"""The settings of models in vLLM: what they are, what they may be, and what vLLM makes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any

from rolecraft.errors import UsageError
from rolecraft.models._vllm import is_for_cpus
from rolecraft.models.reasoning import ReasoningFormat
from rolecraft.models.token_model import OnRewrite
from rolecraft.models.tool_calls import ToolCallParser

# Each has one value that keeps what is recorded true; another would be a wrong log-probability, or
# an answer under a distribution that nobody asked for.
_FIXED: dict[str, Any] = {
    # Of the distribution that was drawn from: after temperature, top-p and allowed tokens.
    "logprobs_mode": "processed_logprobs",
    # No temperature, top-p or repetition penalty out of the model's own files.
    "generation_config": "vllm",
}

# They follow from the settings.
_OURS = {
    *_FIXED,
    *("model", "max_model_len", "dtype", "max_logprobs"),
    *("enable_lora", "max_loras", "max_cpu_loras", "max_lora_rank"),
}

_LEAST = {"context": 1, "max_adapters": 0, "max_rank": 1, "widest_support": 1, "restarts": 0}

_ROOMS = (8, 16, 32, 64, 128, 256, 320, 512)
"""The ranks of adapters that vLLM has kernels for."""

CPU_CACHE = 4 << 30
"""Bytes of keys and values that are kept where there is no GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VLLMSettings:
    """Settings of a model in vLLM.

    - `name`: what the model is called, in records and by clients. Default: its path.
    - `seed`: makes all sampling repeatable. Default: 0.
    - `max_tokens`: longest answer whose `Sampling` sets no limit, in tokens. Default: 512.
    - `context`: longest conversation with its answer, in tokens. Default: the model's own limit.
    - `dtype`: number format of the weights, as vLLM calls it (`"float32"`, `"bfloat16"`, ...).
      Default: `"auto"`, that of the model's files, but 16 bits where it is float32.
    - `template`: further arguments of the chat template, such as `{"enable_thinking": False}`.
    - `parser`, `reasoning`: how calls of tools and thoughts are read, and `on_rewrite`, what
      happens where the template rewrites earlier turns: see `TokenModel`.
    - `max_adapters`: how many roles' adapters may take part in one step; 0 serves the base model
      alone. Each costs memory. Default: 8.
    - `max_rank`: largest rank of an adapter, at most 512. Costs memory. Default: 64.
    - `also_known_as`: further names that adapters may call this base model by. Default: none.
    - `widest_support`: how many ids a token may be drawn from where `top_p` is below 1.
      Default: 1024, or the vocabulary if that is smaller.
    - `restarts`: how often an engine or server that died is started anew. Default: 2.
    - `engine`: further arguments of vLLM's engine, by the names of its `AsyncEngineArgs`:
      `{"gpu_memory_utilization": 0.6, "tensor_parallel_size": 2}`. Default: none.

    Raises `UsageError` for a value that none of them can have.
    """

    name: str | None = None
    seed: int = 0
    max_tokens: int = 512
    context: int | None = None
    dtype: str = "auto"
    template: Mapping[str, Any] | None = None
    parser: ToolCallParser | str | None = None
    reasoning: ReasoningFormat | str | None = None
    on_rewrite: OnRewrite = "fork"
    max_adapters: int = 8
    max_rank: int = 64
    also_known_as: Sequence[str] = ()
    widest_support: int = 1024
    restarts: int = 2
    engine: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if name == "context" and value is None:
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise UsageError(f"`{name}` wants a whole number from {least}, got {value!r}.")
        if self.max_rank > _ROOMS[-1]:
            raise UsageError(
                f"`max_rank={self.max_rank!r}`: vLLM serves adapters of rank {_ROOMS[-1]} at most."
            )
        _check_list("also_known_as", self.also_known_as)
        if clash := sorted(_OURS & (self.engine or {}).keys()):
            raise UsageError(
                f"`engine={{...}}` sets {clash!r}, which have one right value here or an argument "
                f"of their own. Leave them out."
            )

    def engine_arguments(self, path: str) -> dict[str, Any]:
        """Arguments of vLLM's engine for the model at `path`, by the names it gives them."""
        given = dict(self.engine or {})
        ours = {
            "model": path,
            "max_model_len": self.context,
            "dtype": self.dtype,
            "enable_lora": self.max_adapters > 0,
            "max_logprobs": self.widest_support,
            "disable_log_stats": True,
            **_FIXED,
        }
        if self.max_adapters:
            # Twice as many in main memory: during a swap the old versions still answer.
            ours |= {
                "max_loras": self.max_adapters,
                "max_cpu_loras": 2 * self.max_adapters,
                "max_lora_rank": next(room for room in _ROOMS if self.max_rank <= room),
            }
        if is_for_cpus():
            # vLLM (seen with 0.32) takes back the draw of a seeded request whose prompt was read in
            # part, which generators of the CPU cannot do: the whole engine would die of it.
            ours["enable_chunked_prefill"] = False
            # vLLM would take nine tenths of the machine's memory, or refuse to start.
            if "gpu_memory_utilization" not in given:
                ours["kv_cache_memory_bytes"] = CPU_CACHE
        return {name: value for name, value in {**ours, **given}.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class VLLMServerSettings(VLLMSettings):
    """Settings of a server, besides those of its model, which `VLLMSettings` describes.

    - `host`: the address that it listens on. Default: `"127.0.0.1"`, for this machine alone.
    - `port`: where it listens. Default: a free one.
    - `api_key`: what clients must know. Default: one is made up.
    - `log`: the file that the server's output is appended to. Default: a temporary one.
    - `start_seconds`: how many seconds it may take to answer; weights may have to be fetched.
      Default: 900.
    - `program`: the command that `serve` is put after. Default: vLLM of this interpreter.
    """

    host: str = "127.0.0.1"
    port: int | None = None
    api_key: str | None = field(default=None, repr=False)
    log: str | Path | None = None
    start_seconds: float = 900.0
    program: Sequence[str] | None = None

    def __post_init__(self) -> None:
        VLLMSettings.__post_init__(self)  # `slots` make another class, which `super()` cannot see
        if not 0 < self.start_seconds < inf:
            raise UsageError(f"`start_seconds` wants a number above 0, got {self.start_seconds!r}.")
        _check_list("program", self.program)


def _check_list(name: str, value: Sequence[str] | None) -> None:
    """A text would be taken for a list of letters."""
    if isinstance(value, str):
        raise UsageError(f"`{name}` wants a list of texts, got {value!r}: write `[{value!r}]`.")
